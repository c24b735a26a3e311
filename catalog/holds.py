"""engine: the files of changes that wait for their commit, which the sweep leaves alone.

No metadata references such a file yet, however old it is. The set is in memory: after a restart no
change waits any more, and the sweep frees the files as any others.
"""

from __future__ import annotations

from collections.abc import Iterable

from catalog import locations


class Holds:
    """A set of files by table bucket and key. Mutable; a look-up may come from another thread."""

    def __init__(self) -> None:
        self._keys: set[tuple[str, str]] = set()

    def add(self, table_bucket: str, uris: Iterable[str]) -> None:
        """Hold files of a table bucket."""
        self._keys |= _keys(table_bucket, uris)

    def release(self, table_bucket: str, uris: Iterable[str]) -> None:
        """Hold them no longer: they are committed, or removed, or lost."""
        self._keys -= _keys(table_bucket, uris)

    def holds(self, table_bucket: str, key: str) -> bool:
        """Return whether a file is held."""
        return (table_bucket, key) in self._keys


def _keys(table_bucket: str, uris: Iterable[str]) -> set[tuple[str, str]]:
    keys = (locations.path_in(uri, table_bucket=table_bucket) for uri in uris)
    return {(table_bucket, key) for key in keys if key is not None}
