"""engine: frees what nothing names any more, and sets a folder right at start.

What lost its last name stands in Store.RELEASED since the transaction that took it. The sweep waits
until readers are done (blobs in the index a second, files a minute, and longer while held), removes
the file, and only then forgets the row: a crash in between repeats the removal and harms nothing.

Recovery runs before anybody is served. It empties `tmp/` and `cache/`, frees all that was released,
removes blob files that no row names, and reports names whose blob is missing. It never removes a
name: what a user stored and the disk lost is for the user to hear about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from storage import bodies, keys, records
from storage.batch import Batch, Delete, Derivation, Reading, Store, Write
from storage.blobs import FOLDERS, Blobs
from storage.disk import Disk
from storage.index import Index, View
from storage.model import NowMs, Segment

INTERVAL_S = 1.0
ROW_GRACE_MS = 1_000
FILE_GRACE_MS = 60_000
STEP_MAX = 500
"""How many rows one transaction of the sweep frees."""
ID_BYTES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """A name whose blob is not there. upload_id: the name is a part of this upload."""

    blob: str
    bucket: str
    key: str
    upload_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """What a start found: files removed because nothing named them, and names without blobs."""

    temporary_removed: int
    blobs_removed: int
    missing: tuple[Missing, ...]


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
        self._log = logging.getLogger("boathouse.sweep")

    async def run(self, *, interval_s: float = INTERVAL_S) -> None:
        """Sweep until cancelled, whatever fails: what stays is there for the next time.

        A failure is logged once, not again every second.
        """
        said = ""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.once()
                await self._blobs.run(self._index.tend)
                said = ""
            except Exception as error:  # noqa: BLE001 - nobody else frees anything
                if repr(error) != said:
                    said = repr(error)
                    self._log.warning("the sweep failed, and goes on", exc_info=error)

    async def once(
        self, *, row_grace_ms: int = ROW_GRACE_MS, file_grace_ms: int = FILE_GRACE_MS
    ) -> int:
        """Free everything that was released longer ago than its grace; return how many things."""
        now_ms = self._now_ms()
        freed = 0
        for step in self._steps(
            row_before_ms=now_ms - row_grace_ms, file_before_ms=now_ms - file_grace_ms
        ):
            await self._blobs.run(lambda: self._unlink(step.files))  # noqa: B023 - awaited here
            await self._index.commit(step.batch)
            freed += step.count
        return freed

    def recover(self) -> Recovery:
        """Set the folder right. Blocks; before the first reader and writer."""
        temporary = self._disk.names(self._scratch)
        for name in temporary:
            self._discard(self._scratch / name)
        self._disk.remove_tree(self._cache)
        self._disk.make_folder(self._cache)
        always_ms = self._now_ms() + (1 << 40)
        for step in self._steps(row_before_ms=always_ms, file_before_ms=always_ms):
            self._unlink(step.files)
            self._index.commit_now(step.batch)
        removed = 0
        lost: set[str] = set()
        for folder in FOLDERS:
            named = self._named_in(folder)
            present = set(self._disk.names(self._folder / folder))
            for name in present - named:
                self._disk.unlink(self._folder / folder / name)
                removed += 1
            lost |= named - present
        return Recovery(
            temporary_removed=len(temporary),
            blobs_removed=removed,
            missing=tuple(self._names_of(lost)) if lost else (),
        )

    def _steps(self, *, row_before_ms: int, file_before_ms: int) -> Iterator[_Step]:
        """Yield what to free, in steps; each must be done before the next is asked for.

        Deleted buckets come first, since emptying them releases blobs in turn.
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
        found: list[tuple[bytes, str]] = []
        start = max(bodies.released_before(what, 0), passed + b"\x00" if passed else b"")
        stop = bodies.released_before(what, max(before_ms, 0))
        with self._index.view() as view:
            for key, value in view.scan(Store.RELEASED, start, stop):
                found.append((key, records.decode_released(value).name))
                if len(found) == STEP_MAX:
                    break
        return found

    def _empty_bucket(self, row: bytes, name: str) -> _Step:
        """Free a few of a deleted bucket's rows, or, when none is left, its row in RELEASED."""
        bucket_id = int(name)
        now_ms = self._now_ms()
        with self._index.view() as view:
            derive = tuple(_bucket_rows(view, bucket_id, now_ms))
        if derive:
            return _Step(files=(), count=len(derive), batch=Batch(derive=derive, makes_room=True))
        done = Delete(store=Store.RELEASED, key=row)
        return _Step(files=(), count=1, batch=Batch(writes=(done,), makes_room=True))

    def _discard(self, path: Path) -> None:
        """Remove what a process that is gone left behind: a file, or a folder of them."""
        try:
            self._disk.unlink(path)
        except (IsADirectoryError, PermissionError):  # Linux says the one, others the other
            self._disk.remove_tree(path)

    def _unlink(self, files: Sequence[str]) -> None:
        for blob in files:
            self._blobs.unlink(blob)

    def _named_in(self, folder: str) -> set[str]:
        start = b"f" + bytes.fromhex(folder)
        with self._index.view() as view:
            return {
                key[1:].hex() for key, _ in view.scan(Store.BLOBS, start, keys.successor(start))
            }

    def _names_of(self, lost: set[str]) -> Iterator[Missing]:
        with self._index.view() as view:
            for bucket, value in view.scan(Store.BUCKETS, b""):
                bucket_id = records.bucket_id(value)
                for store in (Store.OBJECTS, Store.VERSIONS):
                    for key, _, stored in keys.walk(view, store, bucket_id):
                        for segment in records.decode_object(stored).segments:
                            if segment.blob in lost:
                                yield Missing(
                                    blob=segment.blob, bucket=bucket.decode(), key=key.decode()
                                )
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """Files to remove first, then a Batch; count things are freed by both."""

    files: tuple[str, ...]
    count: int
    batch: Batch


def _forget_row(row: tuple[bytes, str]) -> tuple[Write, ...]:
    key, blob = row
    return (
        Delete(store=Store.BODIES, key=bytes.fromhex(blob)),
        Delete(store=Store.RELEASED, key=key),
    )


def _bucket_rows(view: View, bucket_id: int, now_ms: int) -> Iterator[Derivation]:
    """Yield derivations that remove up to STEP_MAX rows of a deleted bucket, an upload's parts
    before the upload.

    Nobody can reach these rows any more, so they are still there when the writer comes to them.
    """
    start, stop = keys.bucket_range(bucket_id)
    left = STEP_MAX
    for store in (Store.OBJECTS, Store.VERSIONS, Store.UPLOADS, Store.TOMBSTONES, Store.PREFIXES):
        for key, value in view.scan(store, start, stop):
            upload_id = keys.suffix_of(key) if store is Store.UPLOADS else None
            if upload_id:
                for part in _part_rows(view, upload_id, now_ms):
                    if left == 0:
                        return
                    left -= 1
                    yield part
            if left == 0:
                return
            left -= 1
            yield _removal(store, key, _segments_of(store, key, value), now_ms)


def _part_rows(view: View, upload_id: bytes, now_ms: int) -> Iterator[Derivation]:
    for key, value in view.scan(Store.PARTS, upload_id, keys.successor(upload_id)):
        yield _removal(Store.PARTS, key, records.decode_part(value).segments, now_ms)


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
