"""engine: the mark: reads all retained metadata of all table buckets and records referenced files.

Roots are read from the index in short views, metadata and manifests outside any view, each once;
larger manifests are decoded in the decoding child. A table may reference files of another table,
also in another table bucket, so one mark covers every bucket. The mark records the last commit of
each bucket that it has read: `check` refuses, inside the writer's transaction, a decision from
before the newest commit, and `catch_up` reads the commits since.

If a table references a file that does not exist or cannot be decoded, all its files are kept, so
that the table can be repaired, and the mark records a problem; other tables are swept. Files of
other tables that only such a file references are unknown and not kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from catalog import (
    decoding,
    departures,
    errors,
    files,
    history,
    locations,
    manifests,
    properties,
    readers,
    records,
    store,
)
from catalog.metadata import errors as metadata_errors
from catalog.sweep import reach, retention
from storage import batch, model
from storage import errors as storage_errors

ROWS_AT_ONCE: Final = 500
"""Rows of the index that one view reads."""
VISITED_MAX: Final = 2_000_000
"""Metadata files, lists and manifests that are remembered as read; more are read repeatedly."""
OLDER_RECORDS_MAX: Final = 1_000
"""Log records in a row that are older than the history window: there the window has ended."""
PROBLEMS_MAX: Final = 20

Use: TypeAlias = Literal["list", "manifest"]
"""How a table uses a file that it names."""


class Moved(Exception):
    """A commit came after the mark."""


@dataclass(kw_only=True, slots=True)
class Log:
    """What the log of one table bucket said, up to a sequence. Mutable: it is read on.

    departures: by object uuid, how things left that are not there now.
    """

    sequence: int = 0
    departures: dict[str, retention.Departure] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Referrer:
    """The table or view whose state names a file. location: where it lies, as a URI."""

    bucket_id: int
    object_uuid: str
    location: str


Watch: TypeAlias = Callable[[str, Referrer], None]
"""Called with the URI of each file that a retained state names, and the state's owner. What it
raises ends the mark."""


class Mark:
    """One mark. Mutable: it grows while it reads, and is used for one sweep or one deletion.

    logs: by bucket id; they outlive the mark, because the log only grows. dropped_until_ms: of a
    dry run, which keeps the Dropped rows that are over at this time, but not what they reference.
    watch: called instead of adding to `reached`. passed_over: the id of a table bucket whose states
    are not read.
    """

    def __init__(
        self,
        *,
        store: store.CatalogStore,
        files: files.Files,
        decoder: decoding.ManifestDecoder,
        logs: dict[int, Log],
        salt: bytes,
        day_ms: int,
        dropped_until_ms: int | None = None,
        watch: Watch | None = None,
        passed_over: int | None = None,
    ) -> None:
        filter_bytes = reach.FILTER_BYTES if watch is None else 1
        self.reached = reach.Reached(salt=salt, size_bytes=filter_bytes)
        self.problems: list[str] = []
        self.problems_count = 0
        self.interruption: errors.DecodingInterrupted | None = None
        """The first time that a file was not decoded for want of time or memory."""
        self.metadata_count = 0
        self.manifests_count = 0
        self._store = store
        self._files = files
        self._decoder = decoder
        self._reader = readers.ServerReader()
        self._logs = logs
        self._salt = salt
        self._day_ms = day_ms
        self._dropped_until_ms = dropped_until_ms
        self._watch = watch
        self._passed_over = passed_over
        self._visited: set[bytes] = set()
        self._kept: set[tuple[int, str]] = set()
        self._kept_places: set[str] = set()
        self._unreadable: set[bytes] = set()
        self._undecodable: set[bytes] = set()
        self._refs: dict[bytes, bytes] = {}
        self._sequences: dict[int, int] = {}

    async def run(self, *, now_ms: int) -> None:
        """Read everything that is retained."""
        await self._note_heads()
        for bucket in self._table_buckets():
            place = records.Place(bucket=bucket)
            kept = retention.retention_of(bucket.settings, day_ms=self._day_ms)
            log = self._logs.setdefault(bucket.bucket_id, Log())
            await self._read_log(bucket, log)
            await self._read_live(place)
            for departure in tuple(log.departures.values()):
                if retention.is_retained(departure, kept, now_ms=now_ms):
                    await self._read_state(bucket.bucket_id, departure.pointer)
            # After the present tables: what is dropped meanwhile is read here or there.
            await self._read_dropped(place)
            await self._read_window(bucket, log, since_ms=now_ms - kept.history_ms)

    async def catch_up(self) -> None:
        """Read what was committed since."""
        self._undecodable.clear()  # a file may have been replaced by its repair
        before = dict(self._sequences)
        await self._note_heads()
        for bucket_id, sequence in self._sequences.items():
            after = before.get(bucket_id, 0)
            while after < sequence:
                commits = self._log_records(bucket_id, after)
                if not commits:
                    break  # the table bucket was deleted meanwhile, and its log with it
                for commit in commits:
                    after = commit.sequence
                    for pointer in retention.pointers_of(commit.record):
                        await self._read_state(bucket_id, pointer)
                await asyncio.sleep(0)

    def check(self, reading: batch.Reading) -> None:
        """Raise Moved unless no table bucket has a commit that this mark has not read."""
        if dict(reading.scan(batch.Store.REFS, b"")) != self._refs:
            raise Moved

    def owner(
        self, reading: batch.Lookup, place: records.Place, object_uuid: str, path: str
    ) -> retention.OwnerState:
        """Return the state of the table or view that the location at path belongs to."""
        uri = locations.format_uri(place.table_bucket, path)
        if (place.bucket_id, object_uuid) in self._kept or uri in self._kept_places:
            return retention.OwnerState.KEPT
        if reading.get(batch.Store.POINTERS, records.uuid_key(place, object_uuid)) is not None:
            return retention.OwnerState.LIVE
        log = self._logs.get(place.bucket_id)
        departure = None if log is None else log.departures.get(object_uuid)
        if departure is not None:
            is_purged = departure.how == "purge" or departures.is_discarded(
                reading, place, object_uuid
            )
            return retention.OwnerState.PURGED if is_purged else retention.OwnerState.GONE
        if reading.get(batch.Store.POINTERS, records.gone_key(place, object_uuid)) is not None:
            return retention.OwnerState.KEPT  # it stood once, and the log says nothing of it
        return retention.OwnerState.GONE

    async def keeps_purged(self, bucket_id: int, object_uuid: str) -> bool:
        """Say whether a purged table's own properties keep its files (`gc.enabled`).

        True also while its metadata cannot be decoded for want of time or memory.
        """
        log = self._logs.get(bucket_id)
        departure = None if log is None else log.departures.get(object_uuid)
        if departure is None or departure.pointer.metadata_location is None:
            return False
        try:
            table = await self._store.examine_metadata(departure.pointer.metadata_location)
        except (errors.DecodingInterrupted, metadata_errors.Undecoded) as error:
            self._note_problem(f"{departure.pointer.metadata_location} cannot be read: {error}")
            return True
        except (
            errors.MetadataFileMissing,
            errors.InvalidMetadataFile,
            metadata_errors.InvalidMetadata,
            storage_errors.BodyMissing,
        ):
            return False
        return not reach.is_collectable(table.properties)

    # Parts.

    def _table_buckets(self) -> list[model.BucketInfo]:
        return [
            bucket
            for bucket in self._store.buckets.list()
            if bucket.type == "table" and bucket.bucket_id != self._passed_over
        ]

    async def _note_heads(self) -> None:
        """Note the newest commit of every bucket, before anything else is read."""
        buckets = self._table_buckets()
        with self._store.index.view() as view:
            self._refs = dict(view.scan(batch.Store.REFS, b""))
            self._sequences = {
                bucket.bucket_id: history.last_sequence(view, bucket.bucket_id)
                for bucket in buckets
            }
        await asyncio.sleep(0)

    def _log_records(self, bucket_id: int, after: int) -> list[history.Commit]:
        with self._store.index.view() as view:
            return history.read(view, bucket_id, after=after, limit=ROWS_AT_ONCE)

    async def _read_log(self, bucket: model.BucketInfo, log: Log) -> None:
        """Learn from the log what left, from where it was last read to."""
        while True:
            commits = await asyncio.to_thread(self._log_records, bucket.bucket_id, log.sequence)
            for commit in commits:
                for object_uuid, departure in retention.departures_of(commit.record):
                    if departure is None:
                        log.departures.pop(object_uuid, None)
                    else:
                        log.departures[object_uuid] = departure
                log.sequence = commit.sequence
            if len(commits) < ROWS_AT_ONCE:
                return
            await asyncio.sleep(0)

    async def _read_live(self, place: records.Place) -> None:
        """Read the state of every table and view that is there."""
        # The names of a branch's things: every row of the branch but those by uuid.
        for prefix in (place.prefix + b"t", place.prefix + b"v"):
            start = prefix
            while True:
                rows = await asyncio.to_thread(
                    self._pointer_rows, start, records.stop_after(prefix)
                )
                for key, value in rows:
                    pointer = records.decode(value, records.Pointer)
                    await self._read_state(place.bucket_id, pointer)
                    start = key + b"\x00"
                if len(rows) < ROWS_AT_ONCE:
                    break

    async def _read_dropped(self, place: records.Place) -> None:
        """Read the last state of everything that was dropped and is kept."""
        start = prefix = records.dropped_range(place)
        while True:
            rows = await asyncio.to_thread(self._pointer_rows, start, records.stop_after(prefix))
            for key, value in rows:
                dropped = records.decode(value, records.Dropped)
                if self._dropped_until_ms is None or not is_over(dropped, self._dropped_until_ms):
                    await self._read_state(place.bucket_id, dropped.pointer)
                start = key + b"\x00"
            if len(rows) < ROWS_AT_ONCE:
                return

    def _pointer_rows(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        rows: list[tuple[bytes, bytes]] = []
        with self._store.index.view() as view:
            for row in view.scan(batch.Store.POINTERS, start, stop):
                rows.append(row)
                if len(rows) == ROWS_AT_ONCE:
                    break
        return rows

    async def _read_window(self, bucket: model.BucketInfo, log: Log, *, since_ms: int) -> None:
        """Read every state that a commit of the history window left or took away."""
        place = records.Place(bucket=bucket)
        older = 0
        below = self._sequences.get(bucket.bucket_id, 0) + 1
        while below > 1 and older < OLDER_RECORDS_MAX:
            first = max(1, below - ROWS_AT_ONCE)
            commits = await asyncio.to_thread(self._log_records, bucket.bucket_id, first - 1)
            for commit in reversed([each for each in commits if each.sequence < below]):
                if commit.record.time_ms < since_ms:
                    older += 1
                    continue
                older = 0
                for pointer in retention.pointers_of(commit.record):
                    departure = log.departures.get(pointer.object_uuid)
                    if departure is not None and departure.how == "purge":
                        continue
                    if departure is not None:
                        with self._store.index.view() as view:
                            if departures.is_discarded(view, place, pointer.object_uuid):
                                continue
                    await self._read_state(bucket.bucket_id, pointer)
            below = first

    async def _read_state(self, bucket_id: int, pointer: records.Pointer) -> None:
        """Note what one state of a table or view reaches."""
        location = pointer.metadata_location
        if location is None or not self._is_first(location):
            return
        owner = Referrer(
            bucket_id=bucket_id, object_uuid=pointer.object_uuid, location=pointer.location
        )
        self._reach(location, owner)
        if pointer.object_type == "view":
            return
        try:
            table = await self._store.examine_metadata(location)
            named = await asyncio.to_thread(reach.reach_of, table)
        except (errors.MetadataFileMissing, storage_errors.BodyMissing):
            self._keep(owner, location, f"{location} does not exist")
            return
        except (
            errors.DecodingInterrupted,
            errors.InvalidMetadataFile,
            metadata_errors.InvalidMetadata,
        ) as error:
            self._note_interruption(error)
            self._keep(owner, location, f"{location} cannot be read: {error}")
            return
        self.metadata_count += 1
        if not named.is_collectable:
            self._kept.add((bucket_id, pointer.object_uuid))
        for number, uri in enumerate(named.files, 1):
            self._reach(uri, owner)
            if number % ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)
        for number, uri in enumerate(named.manifest_lists, 1):
            await self._read_list(uri, owner)
            if number % ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)  # lists that were read before are passed over at once
        for number, uri in enumerate(named.manifests, 1):
            entry = manifests.ManifestFile(
                manifest_path=uri, manifest_length=0, partition_spec_id=0
            )
            await self._read_manifest(entry, owner)
            if number % ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _read_list(self, uri: str, owner: Referrer) -> None:
        if self._is_undecodable("list", uri, owner) or not self._is_first(uri):
            return
        self._reach(uri, owner)
        data = await self._read(uri, owner)
        if data is None:
            return
        try:
            listed = await self._decoder.decode_list(data)
        except (errors.DecodingInterrupted, manifests.InvalidManifest) as error:
            self._note_interruption(error)
            self._note_undecodable("list", uri, owner)
            self._keep(owner, uri, f"{uri} cannot be read: {error}")
            return
        for number, entry in enumerate(listed, 1):
            await self._read_manifest(entry, owner)
            if number % ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _read_manifest(self, entry: manifests.ManifestFile, owner: Referrer) -> None:
        uri = entry.manifest_path
        if self._is_undecodable("manifest", uri, owner) or not self._is_first(uri):
            return
        self._reach(uri, owner)
        data = await self._read(uri, owner)
        if data is None:
            return
        try:
            live = await self._decoder.decode(data, entry)
        except (errors.DecodingInterrupted, manifests.InvalidManifest) as error:
            self._note_interruption(error)
            self._note_undecodable("manifest", uri, owner)
            self._keep(owner, uri, f"{uri} cannot be read: {error}")
            return
        self.manifests_count += 1
        for number, each in enumerate(live, 1):
            self._reach(each.data_file.file_path, owner)
            if number % ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _reach(self, uri: str, owner: Referrer) -> None:
        """Note that a state of owner names a file."""
        if self._watch is None:
            self.reached.add_uri(uri)
        else:
            self._watch(uri, owner)

    async def _read(self, uri: str, owner: Referrer) -> bytes | None:
        """Return a file's bytes, or None if it is not there."""
        try:
            opened = self._files.open(self._reader.file(uri))
            if opened.info.size_bytes > files.FILE_BYTES_MAX:
                self._keep(owner, uri, f"{uri} is larger than {files.FILE_BYTES_MAX} bytes")
                return None
            return await asyncio.to_thread(self._files.read, opened)
        except errors.MetadataFileMissing:
            self._keep(owner, uri, f"{uri} does not exist")
            return None

    def _is_first(self, uri: str) -> bool:
        """Say whether a file has not been read by this mark, and remember that it has."""
        digest = reach.digest_of(self._salt, uri)
        if digest in self._visited:
            return False
        if len(self._visited) < VISITED_MAX:
            self._visited.add(digest)
        return True

    def _is_undecodable(self, use: Use, uri: str, owner: Referrer) -> bool:
        """Say whether an earlier state of the same table named a file, and it was not decoded.

        Another table may describe the same manifest in another way, so it is decoded again for it.
        """
        if not self._undecodable:
            return False
        return self._digest_of_use(use, uri, owner) in self._undecodable

    def _note_undecodable(self, use: Use, uri: str, owner: Referrer) -> None:
        if len(self._undecodable) < VISITED_MAX:
            self._undecodable.add(self._digest_of_use(use, uri, owner))

    def _digest_of_use(self, use: Use, uri: str, owner: Referrer) -> bytes:
        name = f"{use} {owner.bucket_id} {owner.object_uuid} {owner.location} {uri}"
        return reach.digest_of(self._salt, name)

    def _keep(self, owner: Referrer, uri: str, problem: str) -> None:
        """Keep every file of a table that names a file which cannot be read."""
        self._kept.add((owner.bucket_id, owner.object_uuid))
        self._kept_places.add(properties.plain_uri(owner.location).rstrip("/"))
        digest = reach.digest_of(self._salt, uri)
        self._visited.discard(digest)  # another table that names it is kept, too
        if digest in self._unreadable:
            return
        if len(self._unreadable) < VISITED_MAX:
            self._unreadable.add(digest)
        self._note_problem(problem)

    def _note_interruption(self, error: Exception) -> None:
        if isinstance(error, errors.DecodingInterrupted) and self.interruption is None:
            self.interruption = error

    def _note_problem(self, problem: str) -> None:
        self.problems_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)


def is_over(dropped: records.Dropped | records.DroppedNamespace, now_ms: int) -> bool:
    """Return whether the row of something dropped is to be removed."""
    return dropped.kept_until_ms is not None and dropped.kept_until_ms <= now_ms
