"""engine: the files of a scan in pages: what clients that let the catalog plan read.

A page begins at a position (a manifest of the snapshot's list, an entry of it) and ends where its
reader stops. Manifests and their lists never change, so a position means the same whenever it is
read again, and nothing is kept between two pages. A scan reads one snapshot, or the files that
appends have added between two snapshots. Every file of a page is one that its reader may read.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog import deletes, errors, expressions, readers, scans
from catalog.manifests import ManifestContent, ManifestEntry, ManifestFile, Status
from catalog.metadata.model import TableMetadata

MANIFESTS_AHEAD: Final = 8
"""Manifests that are read together."""
ENTRIES_AHEAD: Final = 4_000
"""Entries in manifests that are read together, as far as their list says."""
COMPARISONS_AT_ONCE: Final = 5_000
"""Comparisons of a filter with files between two turns of the event loop."""
PASS_COST_COMPARISONS: Final = 50
"""The cost of passing over adjacent chunks, in comparisons, without those of the filter itself."""
TASK_COST_COMPARISONS: Final = 100
"""The cost of a file that matches, in comparisons."""
LIST_ENTRIES_AT_ONCE: Final = 500
DELETE_FILES_MAX: Final = 100_000
"""Delete files of the partitions that a scan reads. With more, a table must be compacted first."""
SNAPSHOTS_MAX: Final = 1_000
"""Snapshots between which an incremental scan reads."""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Position:
    """Where a page begins. manifest: index in the scan's list; entry: index of a live entry."""

    manifest: int = 0
    entry: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """What is scanned. after: the snapshot after which appends count, None for all files.

    schema: of the filter's columns.
    """

    snapshot_id: int
    after: int | None
    filter: expressions.Filter
    schema: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanStep:
    """Some files of a page, each with the position after it. after: the position after them all.

    entries: how many the filter was applied to.
    """

    tasks: tuple[tuple[scans.FileTask, Position], ...]
    after: Position
    entries: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanListing:
    """The manifests that a scan reads, None for those it skips; their positions never change.

    deletes: the manifests of delete files. added_by: the snapshots whose added files count.
    filters: the scan's filter, compiled.
    """

    data: tuple[ManifestFile | None, ...]
    deletes: tuple[ManifestFile, ...]
    added_by: frozenset[int] | None
    filters: scans.Filters


class ScanPages:
    """Reads pages of scans. Stateless except for what Scans caches."""

    def __init__(self, *, scans: scans.Scans) -> None:
        self._scans = scans

    async def list(self, reader: readers.Reader, scan: Scan) -> ScanListing:
        """Return the manifests of a scan.

        Raises NoSuchSnapshot, InvalidCatalogRequest for an incremental scan between snapshots of
        two lines, and as `Scans.plan` does.
        """
        table = reader.table.metadata
        added_by = None
        if scan.after is None:
            listed = await self._scans.manifests_of(reader, scan.snapshot_id)
        else:
            appends = appends_between(table, scan.after, scan.snapshot_id)
            added_by = frozenset(appends)
            added: list[ManifestFile] = []
            for snapshot_id in appends:
                await asyncio.sleep(0)
                added += [
                    manifest
                    for manifest in await self._scans.manifests_of(reader, snapshot_id)
                    if manifest.added_snapshot_id == snapshot_id
                ]
                if len(added) > scans.MANIFESTS_MAX:
                    raise errors.InvalidCatalogRequest(
                        f"An incremental scan reads at most {scans.MANIFESTS_MAX} manifests"
                    )
            listed = tuple(added)
        filters = scans.Filters(table, scan.filter.predicate, scan.schema)
        data: list[ManifestFile | None] = []
        of_deletes: list[ManifestFile] = []
        at_once = max(1, COMPARISONS_AT_ONCE // max(10, scan.filter.weight))
        for number, manifest in enumerate(listed):
            if number % at_once == at_once - 1:
                await asyncio.sleep(0)
            kept = manifest.has_live_files and filters.may_match_manifest(manifest)
            if manifest.content == ManifestContent.DATA:
                data.append(manifest if kept else None)
            elif kept and added_by is None:
                of_deletes.append(manifest)
        return ScanListing(
            data=tuple(data), deletes=tuple(of_deletes), added_by=added_by, filters=filters
        )

    async def read(
        self,
        reader: readers.Reader,
        scan: Scan,
        listing: ScanListing,
        *,
        start: Position,
        end: int,
    ) -> AsyncGenerator[ScanStep]:
        """Yield the files of a scan from a position on, up to the manifest `end`.

        Raises ForeignFileRefused, MetadataFileMissing, InvalidMetadataFile.
        """
        filters = listing.filters
        index: deletes.DeleteIndex | None = None
        at_once = max(1, COMPARISONS_AT_ONCE // max(1, scan.filter.weight))
        comparisons = 0
        next_manifest = start.manifest
        while next_manifest < end:
            ahead = _ahead(listing.data, next_manifest, end)
            read = await self._scans.chunks_of([manifest for _, manifest in ahead], reader)
            for (at, manifest), chunks in zip(ahead, read, strict=True):
                first = start.entry if at == start.manifest else 0
                for numbers, chunk, compared in _parts(chunks, filters, at_once, start=first):
                    part: Sequence[ManifestEntry] = ()
                    chosen: Sequence[bool] = ()
                    if chunk is None or filters.have_read(chunk):
                        comparisons += scan.filter.weight * compared + PASS_COST_COMPARISONS
                    else:
                        comparisons = COMPARISONS_AT_ONCE
                    if comparisons >= COMPARISONS_AT_ONCE:
                        comparisons = 0
                        await asyncio.sleep(0)
                    if chunk is not None:
                        within = slice(numbers.start - chunk.start, numbers.stop - chunk.start)
                        part = chunk.entries[within]
                        chosen = filters.choose(chunk, manifest.partition_spec_id, within)
                    matching = [
                        (entry, Position(manifest=at, entry=number + 1))
                        for number, entry in itertools.compress(
                            zip(numbers, part, strict=False), chosen
                        )
                        if _counts(entry, listing.added_by)
                    ]
                    comparisons += TASK_COST_COMPARISONS * len(matching)
                    if matching and index is None:
                        index = await self._delete_index(reader, listing)
                    yield ScanStep(
                        tasks=tuple(
                            [(_task(entry, index, reader), after) for entry, after in matching]
                        ),
                        after=Position(manifest=at, entry=numbers.stop),
                        entries=len(numbers),
                    )
            next_manifest = ahead[-1][0] + 1 if ahead else end

    async def _delete_index(
        self, reader: readers.Reader, listing: ScanListing
    ) -> deletes.DeleteIndex:
        specs = reader.table.metadata.partition_specs
        index = deletes.DeleteIndex(unpartitioned=deletes.unpartitioned(specs))
        count = 0
        for manifest in listing.deletes:
            live = await self._scans.entries_of(manifest, reader)
            count += len(live)
            if count > DELETE_FILES_MAX:
                raise errors.InvalidCatalogRequest(
                    f"A scan with more than {DELETE_FILES_MAX} delete files is not planned;"
                    " rewrite them first"
                )
            for begin in range(0, len(live), LIST_ENTRIES_AT_ONCE):
                await asyncio.sleep(0)
                part = live[begin : begin + LIST_ENTRIES_AT_ONCE]
                for entry in part:
                    reader.file(entry.data_file.file_path)
                index.add(part)
        return index


def _parts(
    chunks: Sequence[scans.EntryChunk], filters: scans.Filters, at_once: int, *, start: int
) -> Iterator[tuple[range, scans.EntryChunk | None, int]]:
    """Yield the entries to filter between two turns of the event loop: their numbers, their chunk,
    and how often the filter is compared.

    Adjacent chunks of which no entry may match are one part, which has no chunk. start: the first
    entry that counts. at_once: the most comparisons of a part.
    """
    left = [chunk for chunk in chunks if chunk.start + len(chunk.entries) > start]
    for first in range(0, len(left), at_once):
        group = left[first : first + at_once]
        passed: list[scans.EntryChunk] = []
        for chunk, is_skipped in zip(group, filters.skips(group), strict=True):
            if is_skipped:
                passed.append(chunk)
                continue
            if passed:
                yield _numbers(passed, start), None, len(passed)
                passed = []
            numbers = _numbers((chunk,), start)
            for begin in range(0, len(numbers), at_once):
                part = numbers[begin : begin + at_once]
                yield part, chunk, len(part)
        if passed:
            yield _numbers(passed, start), None, len(passed)


def _numbers(chunks: Sequence[scans.EntryChunk], start: int) -> range:
    """Return the numbers of the entries of adjacent chunks, from a first one on."""
    return range(max(start, chunks[0].start), chunks[-1].start + len(chunks[-1].entries))


def appends_between(table: TableMetadata, after: int, until: int) -> list[int]:
    """Return the appends after one snapshot, up to another of its line, the oldest first.

    Raises NoSuchSnapshot, InvalidCatalogRequest.
    """
    for wanted in (after, until):
        if table.snapshot(wanted) is None:
            raise errors.NoSuchSnapshot(f"Snapshot does not exist: {wanted}")
    appends: list[int] = []
    passed = 0
    snapshot_id: int | None = until
    while snapshot_id is not None and snapshot_id != after:
        snapshot = table.snapshot(snapshot_id)
        if snapshot is None:
            break
        passed += 1
        if passed > SNAPSHOTS_MAX:
            raise errors.InvalidCatalogRequest(
                f"An incremental scan reads at most {SNAPSHOTS_MAX} snapshots"
            )
        if (snapshot.get("summary") or {}).get("operation") == "append":
            appends.append(snapshot_id)
        snapshot_id = snapshot.get("parent-snapshot-id")
    if snapshot_id != after:
        raise errors.InvalidCatalogRequest(
            f"Starting snapshot {after} is not a parent ancestor of end snapshot {until}"
        )
    appends.reverse()
    return appends


def _ahead(
    data: Sequence[ManifestFile | None], number: int, end: int
) -> list[tuple[int, ManifestFile]]:
    """Return the next manifests to read together: at least one, if there is one."""
    ahead: list[tuple[int, ManifestFile]] = []
    entries = 0
    for at in range(number, end):
        manifest = data[at]
        if manifest is None:
            continue
        stated = files_of(manifest)
        if ahead and (len(ahead) == MANIFESTS_AHEAD or entries + stated > ENTRIES_AHEAD):
            break
        ahead.append((at, manifest))
        entries += stated
    return ahead


def files_of(manifest: ManifestFile) -> int:
    """Return the number of a manifest's live files, as its list says; many if it does not say."""
    added, existing = manifest.added_files_count, manifest.existing_files_count
    if added is None or existing is None:
        return ENTRIES_AHEAD
    return max(0, added) + max(0, existing)


def _counts(entry: ManifestEntry, added_by: frozenset[int] | None) -> bool:
    return added_by is None or (entry.status == Status.ADDED and entry.snapshot_id in added_by)


def _task(
    entry: ManifestEntry, index: deletes.DeleteIndex | None, reader: readers.Reader
) -> scans.FileTask:
    file, number = entry.data_file, entry.sequence_number or 0
    reader.file(file.file_path)
    applying = deletes.NONE if index is None or index.is_empty else index.applying_to(file, number)
    return scans.FileTask(data_file=file, sequence_number=number, deletes=applying)
