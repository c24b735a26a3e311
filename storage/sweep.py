"""engine: frees unnamed blobs and rows, and recovers a folder at start.

The transaction that removes a blob's last name also writes a row in Store.RELEASED. The sweep waits
until readers are done (for blobs in the index a second, for files a minute, longer while they are
held), removes the file, and only then removes the row: after a crash in between the removal is
repeated.

Recovery runs before the first request. It empties `tmp/` and `cache/`, frees all released items,
and reports names whose blob is missing; it never removes a name. Of the blob files that no row
names it removes those that were being received when the last server ended, which their mode tells
(`Blobs.settle`). A read-only file was named before, so an index that does not name it is older:
such files stay, and if they are more than a hundredth of all files the start is refused, unless the
operator asks for a repair.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from storage import bodies, errors, keys, names, records
from storage.batch import Batch, Delete, Derivation, Reading, Store, Write
from storage.blobs import FOLDERS, Blobs
from storage.disk import Disk
from storage.index import Index, ReadView
from storage.model import NowMs, Segment

INTERVAL_S = 1.0
ROW_GRACE_MS = 1_000
FILE_GRACE_MS = 60_000
STEP_MAX = 500
"""How many rows one transaction of the sweep frees. An object's row counts as many as its body has
segments; one that has more is freed alone, with what came before it."""
ID_BYTES = 4
NO_BUCKET = 0
"""In the place of a bucket's id in rows of no bucket: the receipts of SQL statements about all."""
OBJECT_STORES = (Store.OBJECTS, Store.VERSIONS, Store.UPLOADS, Store.TOMBSTONES, Store.PREFIXES)
OTHER_ROWS = (
    *(
        (store, b"")
        for store in (
            Store.POINTERS,
            Store.NAMESPACES,
            Store.LOG,
            Store.COMMITS,
            Store.REFS,
            Store.LOCATIONS,
            Store.OUTBOX,
            Store.CHECKPOINTS,
            Store.LOADS,
            Store.METRICS,
            Store.TAGS,
            Store.SETTINGS,
            Store.JOBS,
            Store.LIFECYCLES,
        )
    ),
    (Store.IDEMPOTENCY, b"k"),
    (Store.IDEMPOTENCY, b"sk"),
)
"""Where others keep rows of a bucket, and what stands before the bucket's id in their keys."""
ARRIVING_MAX = 256
SHARE_PART = 20
"""At most ARRIVING_MAX files, or a twentieth of all, are removed at start, and by a check's repair,
as unfinished uploads."""
SETTLED_PART = 100
"""More than a hundredth of all files named before and unnamed now make a start fail."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """A name whose blob does not exist. upload_id: the name is a part of this upload."""

    blob: str
    bucket: str
    key: str
    upload_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """The result of a recovery: removed files that no row named, and names without blobs.

    unnamed_left: blob files that no row names and that were not removed.
    """

    temporary_removed: int
    blobs_removed: int
    missing: tuple[Missing, ...]
    unnamed_left: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """A comparison of a folder's blob files with its index.

    arriving: unnamed files that were still being received. settled: files that were named before
    and are unnamed now. named_count: files that the index names. lost: named files that do not
    exist.
    """

    files_count: int
    named_count: int
    arriving: tuple[str, ...]
    settled: tuple[str, ...]
    lost: frozenset[str]

    @property
    def is_older_index(self) -> bool:
        """Return whether so many files were named before that the index must be older."""
        return len(self.settled) > self.files_count // SETTLED_PART

    @property
    def has_lost_modes(self) -> bool:
        """Return whether more unnamed files are writable than a crash leaves.

        Their modes then say nothing: a copy of the folder may have lost them.
        """
        return len(self.arriving) > max(ARRIVING_MAX, self.files_count // SHARE_PART)

    def removable(self, *, repair: bool) -> tuple[str, ...]:
        """Return the files to remove: all unnamed ones for a repair, else those of a crash."""
        if repair:
            return (*self.arriving, *self.settled)
        return () if self.has_lost_modes else self.arriving


def survey(view: ReadView, folder: Path, disk: Disk) -> Survey:
    """Compare the blob files below folder with what the index names."""
    released = {
        records.decode_released(value).name
        for _, value in view.scan(Store.RELEASED, b"f", keys.successor(b"f"))
    }
    files_count = named_count = 0
    arriving: list[str] = []
    settled: list[str] = []
    lost: set[str] = set()
    folders = set(disk.names(folder)) if disk.exists(folder) else set()
    for name in FOLDERS:
        named = _named_in(view, name)
        place = folder / name
        present = set(disk.names(place)) if name in folders else set()
        for blob in sorted(present - named - released):
            (settled if disk.is_read_only(place / blob) else arriving).append(blob)
        files_count += len(present)
        named_count += len(named)
        lost |= named - present
    return Survey(
        files_count=files_count,
        named_count=named_count,
        arriving=tuple(arriving),
        settled=tuple(settled),
        lost=frozenset(lost),
    )


def names_of(view: ReadView, lost: Set[str]) -> Iterator[Missing]:
    """Yield the names whose blobs are lost."""
    for bucket, value in view.scan(Store.BUCKETS, b""):
        bucket_id = records.bucket_id(value)
        for store in (Store.OBJECTS, Store.VERSIONS):
            for key, _, stored in keys.walk(view, store, bucket_id):
                for segment in records.decode_object(stored).segments:
                    if segment.blob in lost:
                        yield Missing(blob=segment.blob, bucket=bucket.decode(), key=key.decode())
        for key, upload_id, _ in keys.walk(view, Store.UPLOADS, bucket_id):
            for _, part in view.scan(Store.PARTS, upload_id, keys.successor(upload_id)):
                for segment in records.decode_part(part).segments:
                    if segment.blob in lost:
                        yield Missing(
                            blob=segment.blob,
                            bucket=bucket.decode(),
                            key=key.decode(),
                            upload_id=upload_id.hex(),
                        )


class Sweep:
    """The sweep of one data folder."""

    def __init__(
        self,
        *,
        index: Index,
        blobs: Blobs,
        disk: Disk,
        folder: Path,
        scratch: Path,
        cache: Path,
        now_ms: NowMs,
    ) -> None:
        self._index = index
        self._blobs = blobs
        self._disk = disk
        self._folder = folder
        self._scratch = scratch
        self._cache = cache
        self._now_ms = now_ms
        self._unsettled = iter(FOLDERS)
        self._log = logging.getLogger("boathouse.sweep")

    async def run(self, *, interval_s: float = INTERVAL_S) -> None:
        """Sweep until cancelled; after an error, try again at the next interval.

        An error is logged once, not at every interval.
        """
        said = ""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.once()
                await self._blobs.run(self._index.tend)
                said = ""
            except Exception as error:  # noqa: BLE001 - the sweep must go on, or no space is freed
                if repr(error) != said:
                    said = repr(error)
                    self._log.warning("the sweep failed and will be tried again", exc_info=error)

    async def once(
        self, *, row_grace_ms: int = ROW_GRACE_MS, file_grace_ms: int = FILE_GRACE_MS
    ) -> int:
        """Free every item released longer ago than its grace; return the number of items."""
        now_ms = self._now_ms()
        freed = 0
        await self._blobs.run(self._settle)
        for step in self._steps(
            row_before_ms=now_ms - row_grace_ms, file_before_ms=now_ms - file_grace_ms
        ):
            await self._blobs.run(lambda: self._unlink(step.files))  # noqa: B023 - awaited here
            await self._index.commit(step.batch)
            freed += step.count
        return freed

    def _settle(self) -> None:
        """Make named blobs read-only: new ones, and those of one more folder.

        Files of an older release, of a copy that lost its modes, and those named right before a
        crash are still writable. One folder per round, because there can be many files.
        """
        self._blobs.settle()
        name = next(self._unsettled, None)
        if name is None:
            return
        with self._index.view() as view:
            named = _named_in(view, name)
        folder = self._folder / name
        for blob in named.intersection(self._disk.names(folder)):
            if not self._disk.is_read_only(folder / blob):
                self._disk.make_read_only(folder / blob)

    def recover(self, *, repair: bool = False) -> Recovery:
        """Recover the folder. Blocks; runs before the first reader and writer.

        repair: the operator asked for the removal of all unnamed files. Raises CorruptFolder,
        before any change, if the index is older than the blobs.
        """
        with self._index.view() as view:
            compared = survey(view, self._folder, self._disk)
            if compared.is_older_index and not repair:
                raise errors.CorruptFolder(
                    f"{len(compared.settled)} of {compared.files_count} blobs were named before "
                    "and the index does not name them now, so the index is older: put the newest "
                    "index/ back, or let `mini.py recover --yes` remove the blobs",
                    unnamed=len(compared.settled),
                    blobs=compared.files_count,
                )
            missing = tuple(names_of(view, compared.lost)) if compared.lost else ()
        temporary = self._disk.names(self._scratch)
        for name in temporary:
            self._discard(self._scratch / name)
        self._disk.remove_tree(self._cache)
        self._disk.make_folder(self._cache)
        with self._index.view() as view:
            hidden = tuple(
                (key, records.bucket_id(value))
                for key, value in view.scan(Store.BUCKETS, b"")
                if names.is_hidden(key.decode())
            )
            forgotten = (*forgotten_buckets(view), *(bucket_id for _, bucket_id in hidden))
        if forgotten:
            now_ms = self._now_ms()
            deletes = tuple(Delete(store=Store.BUCKETS, key=key) for key, _ in hidden)
            releases = tuple(bodies.released("bucket", str(each), now_ms) for each in forgotten)
            self._index.commit_now(Batch(writes=(*deletes, *releases), makes_room=True))
        always_ms = self._now_ms() + (1 << 40)
        for step in self._steps(row_before_ms=always_ms, file_before_ms=always_ms):
            self._unlink(step.files)
            self._index.commit_now(step.batch)
        removable = compared.removable(repair=repair)
        self._unlink(removable)
        return Recovery(
            temporary_removed=len(temporary),
            blobs_removed=len(removable),
            missing=missing,
            unnamed_left=len(compared.arriving) + len(compared.settled) - len(removable),
        )

    def _steps(self, *, row_before_ms: int, file_before_ms: int) -> Iterator[_Step]:
        """Yield the items to free, in steps; each must be done before the next is taken.

        Deleted buckets come first, because emptying them releases blobs.
        """
        while deleted := self._released("bucket", row_before_ms):
            yield self._empty_bucket(*deleted[0])
        while rows := self._released("row", row_before_ms):
            yield _Step(
                files=(),
                count=len(rows),
                batch=Batch(
                    writes=tuple(write for row in rows for write in _forget_row(row)),
                    makes_room=True,
                ),
            )
        passed = b""
        while files := self._released("file", file_before_ms, passed):
            passed = files[-1][0]
            free = [(key, blob) for key, blob in files if not self._blobs.is_held(blob)]
            yield _Step(
                files=tuple(blob for _, blob in free),
                count=len(free),
                batch=Batch(
                    writes=tuple(Delete(store=Store.RELEASED, key=key) for key, _ in free),
                    makes_room=True,
                ),
            )

    def _released(
        self, what: bodies.Released, before_ms: int, passed: bytes = b""
    ) -> list[tuple[bytes, str]]:
        rows: list[tuple[bytes, str]] = []
        start = max(bodies.released_before(what, 0), passed + b"\x00" if passed else b"")
        stop = bodies.released_before(what, max(before_ms, 0))
        with self._index.view() as view:
            for key, value in view.scan(Store.RELEASED, start, stop):
                name = records.decode_released(value).name
                assert what != "file" or not view.get(Store.BLOBS, b"f" + bytes.fromhex(name)), (
                    f"the blob {name} is released and named"
                )
                rows.append((key, name))
                if len(rows) == STEP_MAX:
                    break
        return rows

    def _empty_bucket(self, row: bytes, name: str) -> _Step:
        """Free some of a deleted bucket's rows, or its row in RELEASED if no other is left."""
        bucket_id = int(name)
        now_ms = self._now_ms()
        with self._index.view() as view:
            derive = tuple(_bucket_rows(view, bucket_id, now_ms))
        if derive:
            return _Step(files=(), count=len(derive), batch=Batch(derive=derive, makes_room=True))
        done = Delete(store=Store.RELEASED, key=row)
        return _Step(files=(), count=1, batch=Batch(writes=(done,), makes_room=True))

    def _discard(self, path: Path) -> None:
        """Remove the temporary file or folder of a process that ended."""
        try:
            self._disk.unlink(path)
        except (IsADirectoryError, PermissionError):  # Linux raises the first, macOS the second
            self._disk.remove_tree(path)

    def _unlink(self, files: Sequence[str]) -> None:
        """Remove blob files durably: a power cut does not restore an unnamed file."""
        for blob in files:
            self._blobs.unlink(blob)
        for folder in sorted({blob[:2] for blob in files}):
            self._disk.fsync_folder(self._folder / folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """Files to remove first, then a Batch; count: the items that both free."""

    files: tuple[str, ...]
    count: int
    batch: Batch


def _named_in(view: ReadView, folder: str) -> set[str]:
    start = b"f" + bytes.fromhex(folder)
    return {key[1:].hex() for key, _ in view.scan(Store.BLOBS, start, keys.successor(start))}


def _forget_row(row: tuple[bytes, str]) -> tuple[Write, ...]:
    key, blob = row
    return (
        Delete(store=Store.BODIES, key=bytes.fromhex(blob)),
        Delete(store=Store.RELEASED, key=key),
    )


def _bucket_rows(view: ReadView, bucket_id: int, now_ms: int) -> Iterator[Derivation]:
    """Yield derivations that remove STEP_MAX rows of a deleted bucket, an upload's parts before the
    upload.

    No request reaches these rows any more, so they still exist when the writer runs.
    """
    start, stop = keys.bucket_range(bucket_id)
    left = STEP_MAX
    for store in OBJECT_STORES:
        for key, value in view.scan(store, start, stop):
            upload_id = keys.suffix_of(key) if store is Store.UPLOADS else None
            if upload_id:
                for part, segments in _part_rows(view, upload_id):
                    if left <= 0:
                        return
                    left -= max(1, len(segments))
                    yield _removal(Store.PARTS, part, segments, now_ms)
            if left <= 0:
                return
            segments = _segments_of(store, key, value)
            left -= max(1, len(segments))
            yield _removal(store, key, segments, now_ms)
    for store, prefix in OTHER_ROWS:
        for key, _ in view.scan(store, prefix + start, prefix + stop):
            if left <= 0:
                return
            left -= 1
            yield _removal(store, key, (), now_ms)


def forgotten_buckets(view: ReadView) -> Iterator[int]:
    """Yield the ids of buckets that are neither there nor released, and yet have rows.

    An older release left the rows of the catalog behind.
    """
    bucket_ids = {NO_BUCKET}
    bucket_ids |= {records.bucket_id(value) for _, value in view.scan(Store.BUCKETS, b"")}
    bucket_ids |= {
        int(records.decode_released(value).name)
        for _, value in view.scan(Store.RELEASED, b"b", keys.successor(b"b"))
    }
    for store, prefix in OTHER_ROWS:
        start = prefix
        while (row := next(view.scan(store, start, keys.successor(prefix)), None)) is not None:
            bucket_id = int.from_bytes(row[0][len(prefix) :][:ID_BYTES], "big")
            if bucket_id not in bucket_ids:
                bucket_ids.add(bucket_id)
                yield bucket_id
            start = prefix + keys.bucket_range(bucket_id)[1]


def _part_rows(view: ReadView, upload_id: bytes) -> Iterator[tuple[bytes, tuple[Segment, ...]]]:
    """Yield the rows of an upload's parts, with the segments of each."""
    for key, value in view.scan(Store.PARTS, upload_id, keys.successor(upload_id)):
        yield key, records.decode_part(value).segments


def _segments_of(store: Store, key: bytes, value: bytes) -> tuple[Segment, ...]:
    if store not in (Store.OBJECTS, Store.VERSIONS) or keys.suffix_of(key) is None:
        return ()
    return records.decode_object(value).segments


def _removal(store: Store, key: bytes, segments: tuple[Segment, ...], now_ms: int) -> Derivation:
    def derive(reading: Reading) -> Sequence[Write]:
        if reading.get(store, key) is None:
            return ()
        freed = bodies.recount(reading, added=(), removed=segments, now_ms=now_ms)
        return (Delete(store=store, key=key), *freed)

    return derive
