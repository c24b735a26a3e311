"""rule: files that wait in memory for the commit that writes and names them.

Only a few small files of one statement wait. Every other file is written and named before its
commit. Never writes a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from storage import model

UNNAMED_FILES_MAX: Final = 32
"""Files of one statement that wait in memory for its commit."""
UNNAMED_BYTES_MAX: Final = 1024 * 1024
"""The bytes of these files: the transaction that writes them holds up the writer a few ms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnnamedFile:
    """A new file that only a commit will name, with its body in memory.

    The transaction of the commit writes both, so that they cost no durable wait of their own, and
    a commit that fails leaves nothing to remove. owner: as in `Files.write`.
    """

    uri: str
    received: model.Received
    table_bucket: str
    owner: str
    content_type: str


def may_wait(received: model.Received, waiting: Iterable[UnnamedFile]) -> bool:
    """Return whether a body may wait in memory for its commit, beside others of the statement.

    Bodies on disk are durable already; they are named at once, so that the sweep knows them.
    """
    if not isinstance(received.body, model.InlineBody):
        return False
    sizes_bytes = [file.received.size_bytes for file in waiting]
    return (
        len(sizes_bytes) < UNNAMED_FILES_MAX
        and sum(sizes_bytes) + received.size_bytes <= UNNAMED_BYTES_MAX
    )
