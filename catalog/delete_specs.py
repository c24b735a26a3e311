"""engine: refuses new position deletes of another partition spec than the data file that they name.

A position delete file or deletion vector applies to data files of its own partition spec alone. One
of another spec deletes the row for its writer and not for other readers, some of which refuse the
table. Only new delete files that name one data file are checked, in commits that delete or
overwrite. Reads the manifests of the new snapshot as the writer. What cannot be read, or is beyond
the bounds below, is not checked.
Source: Iceberg spec, Scan Planning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from catalog import deletes, errors, readers, scans
from catalog.manifests import Content, DataFile, ManifestContent, ManifestEntry, ManifestFile
from storage import errors as storage_errors

SNAPSHOTS_MAX: Final = 4
"""Snapshots of one commit that are checked."""
ENTRIES_MAX: Final = 20_000
"""Delete files and data files that are compared for one snapshot, as its manifest list counts."""
ENTRIES_AT_ONCE: Final = 250
MANIFEST_COST_ENTRIES: Final = 10
"""The cost of opening a manifest whose entries are cached, in entries."""
MANIFESTS_MAX: Final = 500
OPERATIONS: Final = ("delete", "overwrite")
"""An append adds no delete files, and a replacement deletes no rows."""

_UNREADABLE: Final = (
    errors.DecodingInterrupted,
    errors.ForeignFileRefused,
    errors.InvalidMetadataFile,
    errors.MetadataFileMissing,
    storage_errors.BodyMissing,
)


def snapshots_to_check(updates: Sequence[Any]) -> list[tuple[int, str]]:
    """Return the id and the manifest list of each snapshot in updates that may add delete files.

    updates: decoded JSON of a client; what is malformed is left out.
    """
    chosen = []
    for update in updates:
        if not isinstance(update, dict) or update.get("action") != "add-snapshot":
            continue
        snapshot = update.get("snapshot")
        if not isinstance(snapshot, dict):
            continue
        summary = snapshot.get("summary")
        operation = summary.get("operation") if isinstance(summary, dict) else None
        snapshot_id, location = snapshot.get("snapshot-id"), snapshot.get("manifest-list")
        if operation in OPERATIONS and isinstance(snapshot_id, int) and isinstance(location, str):
            chosen.append((snapshot_id, location))
    return chosen[:SNAPSHOTS_MAX]


async def check(
    planner: scans.Scans, reader: readers.Reader, snapshots: Sequence[tuple[int, str]]
) -> None:
    """Raise MisplacedDeletes for a new delete file of another spec than its data file.

    snapshots: from `snapshots_to_check`; they need not be in the reader's table yet.
    """
    for snapshot_id, location in snapshots:
        try:
            await _check_snapshot(planner, reader, snapshot_id, location)
        except _UNREADABLE:
            continue


async def _check_snapshot(
    planner: scans.Scans, reader: readers.Reader, snapshot_id: int, location: str
) -> None:
    listed = await planner.manifests_in(reader, location)
    added = [
        manifest
        for manifest in listed
        if manifest.content == ManifestContent.DELETES
        and manifest.added_snapshot_id == snapshot_id
        and manifest.added_files_count != 0
    ]
    specs = {manifest.partition_spec_id for manifest in added}
    of_data = [
        manifest
        for manifest in listed
        if manifest.content == ManifestContent.DATA
        and manifest.has_live_files
        and specs.difference((manifest.partition_spec_id,))
    ]
    chosen = (*added, *of_data)
    if not of_data or len(chosen) > MANIFESTS_MAX:
        return
    if sum(map(_stated_entries, chosen)) > ENTRIES_MAX:
        return
    named: dict[str, DataFile] = {}
    async for entry in _entries(planner, reader, added):
        file = entry.data_file
        if entry.snapshot_id == snapshot_id and file.content == Content.POSITION_DELETES:
            path = deletes.named_data_file(file)
            if path is not None:
                named[path] = file
    if not named:
        return
    async for entry in _entries(planner, reader, of_data):
        file = entry.data_file
        delete_file = named.get(file.file_path)
        if delete_file is not None and delete_file.spec_id != file.spec_id:
            raise errors.MisplacedDeletes(
                f"Cannot delete rows of {file.file_path}, which has partition spec {file.spec_id},"
                f" by {delete_file.file_path}, which has partition spec {delete_file.spec_id}:"
                " readers apply delete files to data files of the same spec alone. Rows from"
                " before the change of partitions can be changed by another engine"
            )


async def _entries(
    planner: scans.Scans, reader: readers.Reader, chosen: Sequence[ManifestFile]
) -> AsyncIterator[ManifestEntry]:
    """Yield the live entries of manifests. Other requests get turns between them."""
    since_turn = 0
    for manifest in chosen:
        entries = await planner.entries_of(manifest, reader)
        since_turn += MANIFEST_COST_ENTRIES
        for part in scans.parts_of(entries[:ENTRIES_MAX], ENTRIES_AT_ONCE):
            since_turn += len(part)
            if since_turn > ENTRIES_AT_ONCE:
                since_turn = 0
                await asyncio.sleep(0)
            for number in part:
                yield entries[number]


def _stated_entries(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
