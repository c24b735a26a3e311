"""engine: receives bodies, makes them durable, and reads them.

A body of up to INLINE_BYTES_MAX stays in memory and goes into the index with its name. A larger one
is hashed and written in a worker thread, BATCH_BYTES at a time and at most one batch behind the
network, into `tmp/`; then fsynced, moved to `blobs/`, and its folder fsynced. Only then may the
index name it. While all bodies together hold much memory, batches are smaller. A blob never changes
afterwards. Another process may receive the rest of a body from an Intake, and do the same with it.

This module names nothing. A body that is received and then refused must be discarded; files that a
crash leaves unnamed are removed at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from storage import bodies, checksums, errors
from storage.batch import Lookup, Store
from storage.bodyfiles import BodyFile
from storage.disk import Disk
from storage.index import Index
from storage.model import (
    Body,
    ByteRange,
    FileSlice,
    InlineBody,
    NewId,
    Received,
    Segment,
    SegmentBody,
)

INLINE_BYTES_MAX = 64 << 10
BATCH_BYTES = 1 << 20
HELD_BYTES_MAX = 64 << 20
"""What all bodies that are being received hold in memory before batches become smaller: many slow
clients would hold a batch each."""
CROWDED_BATCH_BYTES = 128 << 10
"""A batch then. More than INLINE_BYTES_MAX, so that a small body stays in memory."""
WORKERS = 8
COMPARED_AT_ONCE_MAX = 2
"""Pairs of bodies that are compared at a time, so that other work gets a worker thread."""
PATHS_REMEMBERED = 4096
"""Blobs whose paths are kept: to make one takes longer than to open it."""
FOLDERS = tuple(f"{number:02x}" for number in range(256))

Result = TypeVar("Result")


class BodyEnd(NamedTuple):
    """What became of the rest of a body. taken_bytes: what came of it. digests: if it came whole,
    of the whole body, whose file is published. error: why it could not be stored."""

    taken_bytes: int
    digests: dict[str, bytes] | None
    error: Exception | None = None


class Intake(Protocol):
    """The rest of a body, which another process can receive.

    start lets it: it writes a new file, which begins with the bytes received before, and computes
    digests by these algorithms. stop ends that before the whole has come.
    """

    def start(
        self, file: BodyFile, received: Sequence[bytes], digests: Iterable[str]
    ) -> asyncio.Future[BodyEnd]: ...

    def stop(self) -> None: ...


class Blobs:
    """The blob files of a data folder. One per process."""

    def __init__(
        self, *, folder: Path, scratch: Path, disk: Disk, index: Index, new_id: NewId
    ) -> None:

        @functools.lru_cache(PATHS_REMEMBERED)
        def path_of(blob: str) -> Path:
            return folder / blob[:2] / blob

        self._path_of = path_of
        self._scratch = scratch
        self._disk = disk
        self._index = index
        self._new_id = new_id
        self._held: Counter[str] = Counter()
        self._held_bytes = 0
        self._comparing = asyncio.Semaphore(COMPARED_AT_ONCE_MAX)
        self._published: set[str] = set()
        self._pool = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="blobs")

    def close(self) -> None:
        """Wait for running writes and stop the worker threads."""
        self._pool.shutdown()

    def receive(
        self, *, size_hint: int | None = None, digests: frozenset[str] = frozenset()
    ) -> Receiver:
        """Start to receive a body.

        size_hint: its length, if the client sent one; DiskFull is raised at once if the disk has no
        room for it. digests: algorithms to compute besides CRC64NVME.
        """
        if size_hint is not None and size_hint >= BATCH_BYTES:
            room_bytes = self._disk.room_bytes(self._scratch)
            if room_bytes < size_hint:
                raise errors.DiskFull(
                    f"the disk has room for {room_bytes} bytes, not for {size_hint}"
                )
        return Receiver(blobs=self, digests=digests)

    async def store(self, data: bytes, *, digests: frozenset[str] = frozenset()) -> Received:
        """Store a body that is already in memory."""
        receiver = self.receive(size_hint=len(data), digests=digests)
        try:
            await receiver.write(data)
            return await receiver.finish()
        except BaseException:
            await receiver.abort()
            raise

    async def store_again(
        self, body: SegmentBody, byte_range: ByteRange | None, *, digests: frozenset[str]
    ) -> Received:
        """Store the bytes of a stored body, or of byte_range of it, as a body of their own.

        Raises BodyMissing, DiskFull.
        """
        # Not closed here: a thread may still be in it when the caller is cancelled. It closes its
        # file when the last reference to it ends.
        walk = self._walk(self.slices(body, byte_range))
        receiver = self.receive(digests=digests)
        try:
            while data := await self.run(lambda: next(walk, b"")):
                await receiver.write(data)
            return await receiver.finish()
        except BaseException:
            await receiver.abort()
            raise

    async def adopt(
        self, path: Path, *, digests: frozenset[str] = frozenset({checksums.MD5})
    ) -> Received:
        """Make a finished local file a blob. It must lie in `tmp/`, and is moved away."""
        return await self.run(lambda: self._adopt(path, digests))

    def shelve(self, path: Path) -> SegmentBody:
        """Make a finished local file a blob that no record will name, and return its body. Blocks.

        For copies of what lies elsewhere: it is not durable, the next start removes it, and its
        owner removes it with `unlink`. path: in `tmp/`; it is moved away.
        """
        size_bytes = self._disk.size_bytes(path)
        if not size_bytes:
            self._disk.unlink(path)
            return SegmentBody(segments=())
        blob = self._new_id()
        self._disk.move(path, self.path_of(blob))
        return SegmentBody(segments=(Segment(blob=blob, offset=0, length=size_bytes),))

    async def discard(self, received: Received) -> None:
        """Remove the file of a body that no record names or will name."""
        if isinstance(received.body, InlineBody):
            return
        names = [segment.blob for segment in received.body.segments]
        await self.run(lambda: self._unlink_all(names))

    def path_of(self, blob: str) -> Path:
        """Return the path of a blob's file."""
        return self._path_of(blob)

    def slices(
        self,
        body: Body,
        byte_range: ByteRange | None = None,
        *,
        reading: Lookup | None = None,
    ) -> tuple[bytes | FileSlice, ...]:
        """Return the bytes of a body, or of byte_range of it: bytes in memory, or slices of files.

        reading: an open view to read from, so that it is the state in which the body was named.
        Raises BodyMissing if a blob that the index names does not exist.
        """
        if isinstance(body, InlineBody):
            return (body.data if byte_range is None else body.data[_slice_of(byte_range)],)
        segments = body.segments if byte_range is None else bodies.cut(body.segments, byte_range)
        lookup = self._index if reading is None else reading
        if len(segments) == 1:  # as most bodies have
            return (self._slice(segments[0], lookup),)
        return tuple([self._slice(segment, lookup) for segment in segments])

    def read(self, body: Body, byte_range: ByteRange | None = None) -> bytes:
        """Return the bytes of a body, or of byte_range of it. Blocks; for small ones."""
        return b"".join(
            piece if isinstance(piece, bytes) else self._read_slice(piece)
            for piece in self.slices(body, byte_range)
        )

    async def digest(
        self, body: SegmentBody, byte_range: ByteRange | None, algorithms: Iterable[str]
    ) -> dict[str, bytes]:
        """Return raw digests of stored bytes, CRC64NVME among them, read in a worker thread."""
        pieces = self.slices(body, byte_range)
        wanted = frozenset(algorithms)
        return await self.run(lambda: self._digest(pieces, wanted))

    async def are_equal(self, body: Body, other: Body) -> bool:
        """Return whether two bodies have the same bytes. Reads both in a worker thread.

        Raises BodyMissing.
        """
        if body == other:
            return True
        async with self._comparing:
            pieces, other_pieces = self.slices(body), self.slices(other)
            with self.hold(body), self.hold(other):
                return await self.run(lambda: self._are_equal(pieces, other_pieces))

    def steps(self, piece: FileSlice, step_bytes: int) -> Iterator[bytes]:
        """Yield the bytes of a file's slice, step_bytes at a time. Blocks. Raises BodyMissing."""
        try:
            descriptor = self._disk.open(piece.path)
        except FileNotFoundError as error:
            raise errors.BodyMissing(
                f"blob {piece.path.name} does not exist", blob=piece.path.name
            ) from error
        try:
            done = 0
            while done < piece.length:
                data = self._disk.read_at(
                    descriptor, piece.offset + done, min(step_bytes, piece.length - done)
                )
                if not data:
                    raise errors.BodyMissing(
                        f"blob {piece.path.name} is truncated", blob=piece.path.name
                    )
                yield data
                done += len(data)
        finally:
            self._disk.close(descriptor)

    @contextlib.contextmanager
    def hold(self, body: Body) -> Iterator[None]:
        """Keep a body's files from the sweep during a long read."""
        blobs = [] if isinstance(body, InlineBody) else [each.blob for each in body.segments]
        self._held.update(blobs)
        try:
            yield
        finally:
            self._held.subtract(blobs)
            for blob in blobs:
                if self._held[blob] <= 0:
                    del self._held[blob]

    def is_held(self, blob: str) -> bool:
        """Return whether a reader holds the blob."""
        return blob in self._held

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run blocking work in a worker thread; cancellation of the caller does not stop it."""
        return await asyncio.shield(self.start(work))

    def start(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Start blocking work in a worker thread."""
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def unlink(self, blob: str) -> None:
        """Remove a blob's file; an absent one is ignored."""
        self._disk.unlink(self.path_of(blob))
        self.note_removed(blob)

    def remove(self, file: BodyFile) -> None:
        """Remove a file that no record names. Called by Receiver."""
        file.remove()
        self.note_removed(file.blob)

    def settle(self) -> None:
        """Make every blob read-only that the index names now. Blocks.

        A writable file was never named, as far as the disk tells: recovery removes it. A read-only
        file that no row names proves that the index is older than the file.
        """
        for blob in tuple(self._published):
            if self._index.get(Store.BLOBS, b"f" + bytes.fromhex(blob)) is not None:
                self._disk.make_read_only(self.path_of(blob))
                self._published.discard(blob)

    def note_published(self, blob: str) -> None:
        """Remember a blob file that no record names yet. Called by Receiver."""
        self._published.add(blob)

    def note_removed(self, blob: str) -> None:
        """Forget a blob file that was removed."""
        self._published.discard(blob)

    @property
    def batch_bytes(self) -> int:
        """How many bytes of a body are collected before they are written."""
        return BATCH_BYTES if self._held_bytes <= HELD_BYTES_MAX else CROWDED_BATCH_BYTES

    @property
    def held_bytes(self) -> int:
        """Bytes in memory of all bodies that are being received."""
        return self._held_bytes

    def note_held(self, change_bytes: int) -> None:
        """Count bytes that a body takes or gives back. Called by Receiver."""
        self._held_bytes += change_bytes

    def new_file(self) -> BodyFile:
        """Return a new file, named by a fresh id. Called by Receiver."""
        blob = self._new_id()
        return BodyFile(disk=self._disk, aside=self._scratch / blob, place=self.path_of(blob))

    def _slice(self, segment: Segment, lookup: Lookup) -> bytes | FileSlice:
        if not segment.indexed:
            return FileSlice(
                path=self.path_of(segment.blob), offset=segment.offset, length=segment.length
            )
        data = lookup.get(Store.BODIES, bytes.fromhex(segment.blob))
        if data is None:
            raise errors.BodyMissing(f"blob {segment.blob} does not exist", blob=segment.blob)
        if len(data) == segment.length:
            return data
        return data[segment.offset : segment.offset + segment.length]

    def _read_slice(self, piece: FileSlice) -> bytes:
        return b"".join(self.steps(piece, max(piece.length, 1)))

    def _digest(
        self, pieces: Sequence[bytes | FileSlice], algorithms: frozenset[str]
    ) -> dict[str, bytes]:
        digester = checksums.Digester(algorithms)
        for piece in pieces:
            if isinstance(piece, bytes):
                digester.update(piece)
                continue
            for data in self.steps(piece, BATCH_BYTES):
                digester.update(data)
        return digester.digests()

    def _are_equal(
        self, pieces: Sequence[bytes | FileSlice], other_pieces: Sequence[bytes | FileSlice]
    ) -> bool:
        with (
            contextlib.closing(self._walk(pieces)) as walk,
            contextlib.closing(self._walk(other_pieces)) as other_walk,
        ):
            data = other_data = b""
            while True:
                data = data or next(walk, b"")
                other_data = other_data or next(other_walk, b"")
                size_bytes = min(len(data), len(other_data))
                if not size_bytes:
                    return len(data) == len(other_data)
                if data[:size_bytes] != other_data[:size_bytes]:
                    return False
                data, other_data = data[size_bytes:], other_data[size_bytes:]

    def _walk(self, pieces: Sequence[bytes | FileSlice]) -> Generator[bytes, None, None]:
        """Yield the bytes of pieces in steps of at most BATCH_BYTES; no step is empty."""
        for piece in pieces:
            if not isinstance(piece, bytes):
                yield from self.steps(piece, BATCH_BYTES)
            elif piece:
                yield piece

    def _adopt(self, path: Path, digests: frozenset[str]) -> Received:
        size_bytes = self._disk.size_bytes(path)
        whole = FileSlice(path=path, offset=0, length=size_bytes)
        digest_by_algorithm = self._digest((whole,), digests)
        if size_bytes <= INLINE_BYTES_MAX:
            data = self._read_slice(whole)
            self._disk.unlink(path)
            return Received(
                body=InlineBody(data=data), size_bytes=size_bytes, digests=digest_by_algorithm
            )
        self._disk.fsync_path(path)
        blob = self._new_id()
        place = self.path_of(blob)
        self._disk.move(path, place)
        self.note_published(blob)
        self._disk.fsync_folder(place.parent)
        return _received_file(blob, size_bytes, digest_by_algorithm)

    def _unlink_all(self, names: Sequence[str]) -> None:
        for blob in names:
            self.unlink(blob)


class Receiver:
    """A body that is being received: `write`, then `finish` or `abort`."""

    def __init__(self, *, blobs: Blobs, digests: frozenset[str]) -> None:
        self._blobs = blobs
        self._algorithms = digests
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._held_bytes = 0
        self._size_bytes = 0
        self._file: BodyFile | None = None
        self._intake: Intake | None = None
        self._digests: dict[str, bytes] | None = None
        self._job: asyncio.Future[Any] | None = None
        self._finished = False

    @functools.cached_property
    def _digester(self) -> checksums.Digester:
        """Made at first use: a body that another process receives needs none."""
        return checksums.Digester(self._algorithms)

    @property
    def size_bytes(self) -> int:
        """Bytes received so far."""
        return self._size_bytes

    async def write(self, data: bytes) -> None:
        """Take the next bytes; waits only while a whole batch is still being written."""
        self._pieces.append(data)
        self._waiting_bytes += len(data)
        self._size_bytes += len(data)
        self._hold(self._held_bytes + len(data))
        if self._waiting_bytes >= self._blobs.batch_bytes:
            await self._end_job()
            pieces, file = self._take()
            self._begin(self._blobs.start(lambda: self._work(file, pieces, last=False)))

    @property
    def is_new(self) -> bool:
        """Whether `write_from` may be called: no byte has been hashed or written."""
        return self._file is None and self._job is None

    async def write_from(self, intake: Intake) -> int:
        """Let another process receive the rest of the body; return how many bytes came.

        If these are all, the body is complete and durable. Then, and if they are not, only `finish`
        or `abort` may follow. Raises DiskFull, and what the process's end raises.
        """
        assert self.is_new, "the process computes the digests of the whole body"
        pieces, file = self._take()
        self._intake = intake
        job = intake.start(file, pieces, self._algorithms)
        del pieces  # which may wait for a slow client for hours
        self._begin(job)
        self._hold(0)
        await self._end_job()
        stored = job.result()
        if stored.error is not None:
            raise stored.error
        self._size_bytes += stored.taken_bytes
        if stored.digests is not None:
            self._blobs.note_published(file.blob)
            self._digests = stored.digests
        return stored.taken_bytes

    async def finish(self) -> Received:
        """Return the body, durable but not yet named. Raises DiskFull."""
        assert not self._finished, "finish is called once"
        self._finished = True
        try:
            return await self._finish()
        finally:
            self._waiting_bytes = 0
            self._hold(0)

    async def _finish(self) -> Received:
        await self._end_job()
        if self._file is None and self._size_bytes <= INLINE_BYTES_MAX:
            data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces = []
            self._digester.update(data)
            return Received(
                body=InlineBody(data=data),
                size_bytes=self._size_bytes,
                digests=self._digester.digests(),
            )
        pieces, file = self._take()
        if self._digests is not None:
            return _received_file(file.blob, self._size_bytes, self._digests)
        assert self._intake is None, "a process has the digests of a part"
        self._begin(self._blobs.start(lambda: self._work(file, pieces, last=True)))
        await self._end_job()
        return _received_file(file.blob, self._size_bytes, self._digester.digests())

    async def abort(self) -> None:
        """Forget the body and remove its bytes; allowed also after `finish` or a failure.

        Not allowed after the body was passed to `Objects.put` or another method that names it: then
        the callee owns the cleanup.
        """
        self._pieces = []
        self._waiting_bytes = 0
        if self._intake is not None:
            self._intake.stop()
        try:
            with contextlib.suppress(Exception):
                await self._end_job()
        finally:
            self._hold(0)
        if self._file is not None:
            file, self._file = self._file, None
            await self._blobs.run(lambda: self._blobs.remove(file))

    async def _end_job(self) -> None:
        if self._job is not None:
            await asyncio.shield(self._job)
            self._job = None

    def _begin(self, job: asyncio.Future[Any]) -> None:
        """Take a job that works on the bytes of `_take`."""
        self._job = job
        job.add_done_callback(lambda _: self._hold(self._waiting_bytes))

    def _hold(self, size_bytes: int) -> None:
        """Count size_bytes as what this body holds in memory: what waits and what is written."""
        self._blobs.note_held(size_bytes - self._held_bytes)
        self._held_bytes = size_bytes

    def _take(self) -> tuple[list[bytes], BodyFile]:
        pieces, self._pieces, self._waiting_bytes = self._pieces, [], 0
        if self._file is None:
            self._file = self._blobs.new_file()
        return pieces, self._file

    def _work(self, file: BodyFile, pieces: Sequence[bytes], *, last: bool) -> None:
        """Hash and write a batch; runs in a worker thread, one at a time per body."""
        try:
            for piece in pieces:
                self._digester.update(piece)
            file.write(b"".join(pieces))
            if last:
                file.publish()
                self._blobs.note_published(file.blob)
        except BaseException:
            self._blobs.remove(file)
            raise


def _received_file(blob: str, size_bytes: int, digests: dict[str, bytes]) -> Received:
    segment = Segment(blob=blob, offset=0, length=size_bytes)
    return Received(body=SegmentBody(segments=(segment,)), size_bytes=size_bytes, digests=digests)


def _slice_of(byte_range: ByteRange) -> slice:
    return slice(byte_range.start, byte_range.stop)
