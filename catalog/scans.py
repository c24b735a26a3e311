"""engine: which files a query of one snapshot has to read, and what is deleted from them.

Manifest lists and manifests never change, so their decoded entries are cached, up to a bound of
bytes. The key is the file's body and the values that its entries inherit. Every use opens the file
for its reader, cached or not. A plan reads one snapshot, whatever is committed meanwhile. No data
file is opened here: the tasks name them, and the same reader opens them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from catalog import decoding, deletes, errors, files, manifests, pruning, readers
from catalog.manifests import DataFile, ManifestContent, ManifestEntry, ManifestFile
from catalog.metadata.model import MAIN_BRANCH, TableMetadata

CACHE_BYTES_MAX: Final = 128 * 1024 * 1024
ENTRY_BYTES: Final = 1_200
"""Memory of an entry without its metrics."""

RANGES_KEPT_MAX: Final = 500_000
"""Ranges of columns that all manifests' chunks keep for later filters: some 75 MiB."""

READS_AT_ONCE_MAX: Final = 4
CHUNK_ENTRIES: Final = 250
"""Entries that are filtered between two turns of the event loop: some milliseconds."""

METRICS_BYTES_AT_ONCE: Final = 256 * 1024
"""Packed metrics that are read between two turns of the event loop: some milliseconds."""

MANIFEST_COST_ENTRIES: Final = 5
"""The cost of a manifest without its entries, in entries."""

HEADER_BYTES_MAX: Final = 256 * 1024
"""Bytes that are read of a manifest when only its header is needed."""
ENTRIES_HERE_MAX: Final = 10_000
"""Entries of a manifest that are put in chunks on the event loop; more are in a thread."""
READ_HERE_BYTES_MAX: Final = 256 * 1024
"""Manifests and lists up to this size are read on the event loop, larger ones in a thread."""

MANIFESTS_AT_ONCE: Final = 32
"""Manifests that are opened between two turns of the event loop."""
MANIFESTS_MAX: Final = 20_000
LIVE_FILES_MAX: Final = 1_000_000
"""Files of one snapshot, in the manifests that a query reads: some 600 MiB."""


class FileTask(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A data file to read. deletes: delete files to apply, deletion vectors among them."""

    data_file: DataFile
    sequence_number: int
    deletes: deletes.Applying = deletes.NONE


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanPlan:
    """The files that a query reads. snapshot_id: None for a table without snapshots.

    schema: that of the snapshot, decoded JSON. The counts tell what pruning was worth.
    """

    schema: Mapping[str, Any]
    snapshot_id: int | None
    tasks: tuple[FileTask, ...]
    manifests_total: int
    manifests_read: int
    files_considered: int


class Scans:
    """Plans scans. Its only state is a cache of immutable files."""

    def __init__(
        self,
        *,
        files: files.Files,
        decoder: decoding.ManifestDecoder,
        cache_bytes_max: int = CACHE_BYTES_MAX,
    ) -> None:
        self._files = files
        self._decoder = decoder
        self._cache = _Cache(cache_bytes_max)
        self._ranges = _KeptRanges()
        self._reads = asyncio.Semaphore(READS_AT_ONCE_MAX)

    async def plan(
        self,
        reader: readers.Reader,
        *,
        snapshot_id: int | None = None,
        predicate: pruning.Predicate = pruning.ALWAYS,
        schema: Mapping[str, Any] | None = None,
    ) -> ScanPlan:
        """Return the files that rows matching predicate may be in.

        snapshot_id: None is the current one. schema: of the predicate's columns; by default the
        snapshot's own for one that was asked for, else the table's current one.
        Raises NoSuchSnapshot, ForeignFileRefused, MetadataFileMissing, InvalidMetadataFile.
        """
        table = reader.table.metadata
        wanted = table.current_snapshot_id if snapshot_id is None else snapshot_id
        if schema is None:
            schema = schema_of(table, snapshot_id)
        listed = () if wanted is None else await self.manifests_of(reader, wanted)
        filters = Filters(table, predicate, schema)
        chosen: list[ManifestFile] = []
        turns = _Turns()
        for start in range(0, len(listed), CHUNK_ENTRIES):
            if turns.are_over(min(CHUNK_ENTRIES, len(listed) - start)):
                await asyncio.sleep(0)
            chosen += [
                manifest
                for manifest in listed[start : start + CHUNK_ENTRIES]
                if manifest.has_live_files and filters.may_match_manifest(manifest)
            ]
        read = await self._read_manifests(chosen, reader)
        index = deletes.DeleteIndex(unpartitioned=deletes.unpartitioned(table.partition_specs))
        for manifest, live in zip(chosen, read, strict=True):
            if manifest.content == ManifestContent.DELETES:
                for chunk in live.chunks:
                    if turns.are_over(chunk.cost_entries):
                        await asyncio.sleep(0)
                    index.add(chunk.entries)
        tasks: list[FileTask] = []
        considered = 0
        for manifest, live in zip(chosen, read, strict=True):
            if manifest.content == ManifestContent.DATA:
                considered += len(live.entries)
                for chunk, is_skipped in zip(live.chunks, filters.skips(live.chunks), strict=True):
                    if is_skipped:
                        continue
                    if turns.are_over(chunk.cost_entries):
                        await asyncio.sleep(0)  # other requests wait for at most one chunk
                    tasks += _tasks(chunk, filters, manifest.partition_spec_id, index)
        return ScanPlan(
            schema=schema,
            snapshot_id=wanted,
            tasks=tuple(tasks),
            manifests_total=len(listed),
            manifests_read=len(chosen),
            files_considered=considered,
        )

    async def data_files(
        self, reader: readers.Reader, *, snapshot_id: int, files_max: int
    ) -> tuple[DataFile, ...] | None:
        """Return the live data files of a snapshot, None if it has more than files_max.

        No manifest is read if the manifest list gives the number. Raises as `plan` does.
        """
        listed = [
            manifest
            for manifest in await self.manifests_of(reader, snapshot_id)
            if manifest.has_live_files and manifest.content == ManifestContent.DATA
        ]
        stated = sum(
            (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
            for manifest in listed
        )
        if stated > files_max:
            return None
        read = await self._read_manifests(listed, reader)
        if sum(len(live.entries) for live in read) > files_max:
            return None
        return tuple([entry.data_file for live in read for entry in live.entries])

    async def live_files(self, reader: readers.Reader, *, snapshot_id: int) -> tuple[DataFile, ...]:
        """Return the live data and delete files of a snapshot. Raises as `plan` does."""
        listed = [
            manifest
            for manifest in await self.manifests_of(reader, snapshot_id)
            if manifest.has_live_files
        ]
        read = await self._read_manifests(listed, reader)
        return tuple([entry.data_file for live in read for entry in live.entries])

    async def check_readable(self, reader: readers.Reader, snapshot_id: int) -> None:
        """Raise ForeignFileRefused unless reader may read all manifests of a snapshot.

        For cached results of a snapshot that another reader has read. Raises as `plan` does.
        """
        for number, manifest in enumerate(await self.manifests_of(reader, snapshot_id)):
            if manifest.has_live_files:
                reader.file(manifest.manifest_path)
            if number % MANIFESTS_AT_ONCE == MANIFESTS_AT_ONCE - 1:
                await asyncio.sleep(0)

    async def manifests_of(
        self, reader: readers.Reader, snapshot_id: int
    ) -> tuple[ManifestFile, ...]:
        """Return the manifests of a snapshot. Raises as `plan` does."""
        snapshot = reader.table.metadata.snapshot(snapshot_id)
        if snapshot is None:
            raise errors.NoSuchSnapshot(f"Snapshot does not exist: {snapshot_id}")
        location = snapshot.get("manifest-list")
        if location is None:
            return await self._manifests_of_old(snapshot, reader)
        return await self.manifests_in(reader, location)

    async def manifests_in(self, reader: readers.Reader, location: str) -> tuple[ManifestFile, ...]:
        """Return the manifests that a manifest list names. Raises as `plan` does."""
        if reader.is_mounted:
            await reader.bring((location,))
        file = self._files.open(reader.file(location))
        kept: tuple[ManifestFile, ...] | None = self._cache.get(file)
        if kept is None:
            data = await self._read(file)
            try:
                kept = tuple(await self._decoder.decode_list(data))
            except manifests.InvalidManifest as error:
                raise errors.InvalidMetadataFile(f"{location}: {error}") from error
            if len(kept) > MANIFESTS_MAX:
                raise errors.InvalidMetadataFile(
                    f"{location}: a snapshot with more than {MANIFESTS_MAX} manifests is not read"
                )
            self._cache.put(file, kept, len(kept) * ENTRY_BYTES)
        return kept

    async def _manifests_of_old(
        self, snapshot: Mapping[str, Any], reader: readers.Reader
    ) -> tuple[ManifestFile, ...]:
        """v1 may name its manifests in the snapshot itself; nothing more is known of them."""
        manifest_files = []
        paths = snapshot.get("manifests") or ()
        if len(paths) > MANIFESTS_MAX:
            raise errors.InvalidMetadataFile(
                f"A snapshot with more than {MANIFESTS_MAX} manifests is not read"
            )
        for path in paths:
            await asyncio.sleep(0)
            if reader.is_mounted:
                await reader.bring((path,))
            data = await self._read(self._files.open(reader.file(path)))
            try:
                header = manifests.decode_header(data[:HEADER_BYTES_MAX])
            except manifests.InvalidManifest as error:
                raise errors.InvalidMetadataFile(f"{path}: {error}") from error
            manifest_files.append(
                ManifestFile(
                    manifest_path=path,
                    manifest_length=len(data),
                    partition_spec_id=header.partition_spec_id,
                    added_snapshot_id=snapshot["snapshot-id"],
                )
            )
        return tuple(manifest_files)

    async def entries_of(
        self, manifest: ManifestFile, reader: readers.Reader
    ) -> tuple[ManifestEntry, ...]:
        """Return a manifest's live entries with their inherited values. Raises as `plan` does."""
        return (await self._read_manifest(manifest, reader)).entries

    async def chunks_of(
        self, listed: Sequence[ManifestFile], reader: readers.Reader
    ) -> list[Sequence[EntryChunk]]:
        """Return the live entries of each manifest in chunks, which keep what filters have read.

        Waits for nothing if all of them are cached. Raises as `plan` does.
        """
        return [live.chunks for live in await self._read_some(listed, reader)]

    async def _read_manifests(
        self, chosen: Sequence[ManifestFile], reader: readers.Reader
    ) -> list[_Entries]:
        """Return the live entries of manifests. Raises as `plan` does."""
        read: list[_Entries] = []
        files_left = LIVE_FILES_MAX
        for start in range(0, len(chosen), MANIFESTS_AT_ONCE):
            if start:
                await asyncio.sleep(0)
            part = chosen[start : start + MANIFESTS_AT_ONCE]
            if len(part) == 1:
                read.append(await self._read_manifest(part[0], reader))
            else:
                read += await self._read_some(part, reader)
            files_left -= sum(len(live.entries) for live in read[start:])
            if files_left < 0:
                raise errors.InvalidMetadataFile(
                    f"A snapshot with more than {LIVE_FILES_MAX} files is not read"
                )
        return read

    async def _read_some(
        self, part: Sequence[ManifestFile], reader: readers.Reader
    ) -> list[_Entries]:
        """Return the live entries of some manifests; those not cached are read concurrently."""
        kept: list[_Entries | None] = []
        if reader.is_mounted:
            await reader.bring([manifest.manifest_path for manifest in part])
        for manifest in part:
            file = self._files.open(reader.file(manifest.manifest_path))
            kept.append(self._cache.get(file, _inherited(manifest)))
        missing = [place for place, entries in enumerate(kept) if entries is None]
        read = await asyncio.gather(
            *(self._read_manifest(part[place], reader) for place in missing)
        )
        by_place = dict(zip(missing, read, strict=True))
        return [
            by_place[place] if entries is None else entries for place, entries in enumerate(kept)
        ]

    async def _read_manifest(self, manifest: ManifestFile, reader: readers.Reader) -> _Entries:
        if reader.is_mounted:
            await reader.bring((manifest.manifest_path,))
        file = self._files.open(reader.file(manifest.manifest_path))
        inherited = _inherited(manifest)
        kept: _Entries | None = self._cache.get(file, inherited)
        if kept is not None:
            return kept
        async with self._reads:
            kept = self._cache.get(file, inherited)  # another query may have cached it meanwhile
            if kept is None:
                data = await self._read(file)
                try:
                    live = await self._decoder.decode(data, manifest)
                except manifests.InvalidManifest as error:
                    raise errors.InvalidMetadataFile(
                        f"{manifest.manifest_path}: {error}"
                    ) from error
                if len(live) <= ENTRIES_HERE_MAX:
                    kept = _Entries(tuple(live), self._ranges)
                else:
                    kept = await asyncio.to_thread(_Entries, tuple(live), self._ranges)
                # compressed metrics take some ten times their size in memory
                self._cache.put(file, kept, len(live) * ENTRY_BYTES + 10 * len(data), inherited)
            return kept

    async def _read(self, file: files.OpenedFile) -> bytes:
        if file.info.size_bytes > READ_HERE_BYTES_MAX:
            return await asyncio.to_thread(self._files.read, file)
        return self._files.read(file)


def schema_of(table: TableMetadata, snapshot_id: int | None) -> Mapping[str, Any]:
    """Return the schema a snapshot is read with: its own, or the table's for the current state."""
    if snapshot_id is not None:
        snapshot = table.snapshot(snapshot_id)
        schema = None if snapshot is None else table.schema(snapshot.get("schema-id", -1))
        if schema is not None:
            return schema
    return table.current_schema()


def head_of(table: TableMetadata, branch: str = MAIN_BRANCH) -> int | None:
    """Return the snapshot a branch or tag of the table points at."""
    ref = table.refs.get(branch)
    snapshot_id: int | None = None if ref is None else ref["snapshot-id"]
    return snapshot_id


def _inherited(manifest: ManifestFile) -> tuple[Any, ...]:
    """Return the values that a manifest's entries inherit: with its body they determine them."""
    return (manifest.sequence_number, manifest.first_row_id, manifest.added_snapshot_id)


class _Turns:
    """Counts the entries filtered since the last turn of the event loop. Mutable.

    A turn costs some ten microseconds, so a small plan takes none.
    """

    def __init__(self) -> None:
        self._entries = 0

    def are_over(self, entries: int) -> bool:
        """Count further entries, and return whether other requests get a turn before them."""
        self._entries += entries + MANIFEST_COST_ENTRIES
        if self._entries <= CHUNK_ENTRIES + MANIFEST_COST_ENTRIES:
            return False
        self._entries = entries + MANIFEST_COST_ENTRIES
        return True


class Filters:
    """A scan's predicate, compiled once for the metrics and once per partition spec."""

    def __init__(
        self, table: TableMetadata, predicate: pruning.Predicate, schema: Mapping[str, Any]
    ) -> None:
        self._table = table
        self._predicate = predicate
        self._schema = schema
        self._metrics = pruning.MetricsFilter(predicate, schema)
        self._partitions: dict[int, pruning.PartitionFilter | None] = {}

    def may_match_manifest(self, manifest: ManifestFile) -> bool:
        """Return whether a file of the manifest may hold matching rows, as its list says."""
        filter_ = self._of_spec(manifest.partition_spec_id)
        return filter_ is None or filter_.may_match_manifest(manifest)

    def skips(self, chunks: Sequence[EntryChunk]) -> list[bool]:
        """Return for each chunk whether none of its files may match, as far as its ranges tell."""
        return self._metrics.skips([chunk.ranges for chunk in chunks])

    def have_read(self, chunk: EntryChunk) -> bool:
        """Return whether `choose` needs no metrics of a chunk's files."""
        return self._metrics.have_read(chunk.ranges)

    def choose(
        self,
        chunk: EntryChunk,
        spec_id: int,
        part: slice = slice(None),
    ) -> list[bool]:
        """Return for each file of a part of a chunk whether it may hold matching rows.

        spec_id: of all these files. The chunk's ranges are used, and new ones are added.
        """
        files = chunk.files
        columns = len(chunk.ranges)
        chosen = self._metrics.choose(files, chunk.ranges, part)
        if len(chunk.ranges) > columns:
            chunk.kept_ranges.bound(chunk.ranges, len(files))
        partitions = self._of_spec(spec_id)
        if partitions is None or partitions.keeps_all:
            return chosen
        return [
            one and partitions.may_match_partition(file.partition)
            for one, file in zip(chosen, files[part], strict=True)
        ]

    def _of_spec(self, spec_id: int) -> pruning.PartitionFilter | None:
        if spec_id not in self._partitions:
            spec = self._table.spec(spec_id)
            self._partitions[spec_id] = (
                None
                if spec is None
                else pruning.PartitionFilter(self._predicate, spec, self._schema)
            )
        return self._partitions[spec_id]


def parts_of(
    entries: Sequence[ManifestEntry], entries_max: int, *, start: int = 0
) -> Iterator[range]:
    """Yield the ranges of entries to filter between two turns of the event loop.

    A range ends at entries_max entries, or with the entry whose metrics reach
    METRICS_BYTES_AT_ONCE.
    """
    begin, size_bytes = start, 0
    for number in range(start, len(entries)):
        size_bytes += entries[number].data_file.metrics.packed_bytes
        if number + 1 - begin == entries_max or size_bytes >= METRICS_BYTES_AT_ONCE:
            yield range(begin, number + 1)
            begin, size_bytes = number + 1, 0
    if begin < len(entries):
        yield range(begin, len(entries))


class _KeptRanges:
    """Bounds the ranges that chunks keep: those of the chunk that added none for longest go first.

    Mutable. It holds the ranges of chunks that the cache has dropped, too, and no chunk.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[int, tuple[dict[Any, Any], int]] = OrderedDict()
        self._total = 0

    def bound(self, ranges: dict[Any, Any], entries: int) -> None:
        """Count the ranges of a chunk, which has added some, and drop others beyond the bound."""
        count = len(ranges) * entries
        _, before = self._counts.pop(id(ranges), (ranges, 0))
        self._counts[id(ranges)] = (ranges, count)
        self._total += count - before
        while self._total > RANGES_KEPT_MAX:
            _, (oldest, dropped) = self._counts.popitem(last=False)
            oldest.clear()
            self._total -= dropped


class EntryChunk:
    """Some of a manifest's live entries, with the ranges of columns that filters have read.

    files: those of the entries. start: the number of the first one in its manifest. cost_entries:
    the cost of filtering them, in entries. kept_ranges: counts the ranges.
    """

    __slots__ = ("cost_entries", "entries", "files", "kept_ranges", "ranges", "start")

    def __init__(
        self, entries: tuple[ManifestEntry, ...], *, start: int, kept_ranges: _KeptRanges
    ) -> None:
        self.entries = entries
        self.files = [entry.data_file for entry in entries]
        self.start = start
        self.kept_ranges = kept_ranges
        size_bytes = sum([file.metrics.packed_bytes for file in self.files])
        self.cost_entries = max(len(entries), CHUNK_ENTRIES * size_bytes // METRICS_BYTES_AT_ONCE)
        self.ranges: dict[Any, Any] = {}


class _Entries:
    """A manifest's live entries, all of them and in chunks."""

    __slots__ = ("chunks", "entries")

    def __init__(self, entries: tuple[ManifestEntry, ...], kept_ranges: _KeptRanges) -> None:
        self.entries = entries
        self.chunks = [
            EntryChunk(entries[part.start : part.stop], start=part.start, kept_ranges=kept_ranges)
            for part in parts_of(entries, CHUNK_ENTRIES)
        ]


def _tasks(
    chunk: EntryChunk, filters: Filters, spec_id: int, index: deletes.DeleteIndex
) -> list[FileTask]:
    are_chosen = filters.choose(chunk, spec_id)
    tasks = []
    for entry, chosen in zip(chunk.entries, are_chosen, strict=True):
        if chosen:
            number = entry.sequence_number or 0
            applying = (
                deletes.NONE if index.is_empty else index.applying_to(entry.data_file, number)
            )
            tasks.append(
                FileTask(data_file=entry.data_file, sequence_number=number, deletes=applying)
            )
    return tasks


class _Cache:
    """Decoded files up to a bound of bytes, the least recently used dropped first.

    A caller looks up an opened file, which proves that its reader may read it. The key is the
    file's body: blob ids are used once, so a file of the same name in another bucket differs.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[Any, tuple[Any, int]] = OrderedDict()

    def get(self, file: files.OpenedFile, inherited: tuple[Any, ...] = ()) -> Any:
        key = (file.info.body, inherited)
        entry = self._kept.get(key)
        if entry is None:
            return None
        self._kept.move_to_end(key)
        return entry[0]

    def put(
        self,
        file: files.OpenedFile,
        value: Any,
        size_bytes: int,
        inherited: tuple[Any, ...] = (),
    ) -> None:
        key = (file.info.body, inherited)
        if size_bytes > self._bytes_max or key in self._kept:
            return
        self._kept[key] = (value, size_bytes)
        self._bytes += size_bytes
        while self._bytes > self._bytes_max:
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed
