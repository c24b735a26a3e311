"""engine: a copy of a table, and what each catalog that gets one can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline import progress

SAME_PLACE_SUFFIX = "-replica"
"""What follows the table's own location where the copy's would be the same: Iceberg rewrites no
paths into the same ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A copy as its catalog has it. metadata_location, table_uuid: None before its first version.

    version_token: of S3 Tables; a table whose token has changed was written to.
    """

    location: str
    metadata_location: str | None = None
    table_uuid: str | None = None
    version_token: str | None = None


class Destination(Protocol):
    """A catalog that gets a copy, and its store."""

    def find(self) -> Copy | None:
        """Return what the target has; None if it has no table of the name."""

    def begun(self, own: str) -> Copy:
        """Return a copy without a version, with the location that it is to have.

        own: the location of the source.
        """

    def sizes(self, keys: Sequence[str], *, bucket: str, prefix: str) -> Mapping[str, int]:
        """Return the sizes of those files that the store has, by key; of others it may too.

        prefix: of all keys, with the slash at its end.
        """

    def put(self, body: Any, *, bucket: str, key: str) -> None:
        """Write a file into the store."""

    def show(self, copy: Copy, metadata_location: str, say: progress.Say) -> None:
        """Make a metadata file the copy's version. copy: as it was found or begun."""
