"""rule: the files that updates or metadata name: manifest lists, manifests of v1, statistics.

What is malformed in updates names nothing here; applying them refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from catalog.metadata import errors
from catalog.metadata.model import TableMetadata

_STATISTICS: Final[Mapping[str, str]] = {
    "set-statistics": "statistics",
    "set-partition-statistics": "partition-statistics",
}
"""Updates that name a statistics file, and the member that does."""


def named_by(updates: Iterable[Any]) -> list[str]:
    """Return the URIs of the files that updates add to a table, each once. updates: as JSON."""
    named: list[Any] = []
    for update in updates:
        if not isinstance(update, dict):
            continue
        action = str(update.get("action")).lower()
        snapshot = update.get("snapshot")
        if action == "add-snapshot" and isinstance(snapshot, dict):
            named.append(snapshot.get("manifest-list"))
            manifests = snapshot.get("manifests")
            named += manifests if isinstance(manifests, list) else []
        statistics = update.get(_STATISTICS.get(action, ""))
        if isinstance(statistics, dict):
            named.append(statistics.get("statistics-path"))
    return list(dict.fromkeys(uri for uri in named if isinstance(uri, str)))


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    manifest_list: str | None = None
    manifests: list[str] | None = None


class _Statistics(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    statistics_path: str


_decode_snapshots = msgspec.json.Decoder(list[_Snapshot]).decode


def named_in(metadata: TableMetadata) -> list[str]:
    """Return the URIs of the files that a reader of this metadata opens, each once.

    The metadata log is no such file: nothing opens earlier metadata. Raises InvalidMetadata.
    """
    named: list[str] = []
    try:
        for part in metadata.snapshots.parts():
            for snapshot in _decode_snapshots(part):
                if snapshot.manifest_list is None:
                    named += snapshot.manifests or ()
                else:
                    named.append(snapshot.manifest_list)
        statistics = (*metadata.statistics, *metadata.partition_statistics)
        named += [each.statistics_path for each in msgspec.convert(statistics, list[_Statistics])]
    except msgspec.MsgspecError as error:
        raise errors.InvalidMetadata(f"Cannot parse the files named: {error}") from error
    return list(dict.fromkeys(named))
