"""engine: receives bodies, makes them durable, and reads them.

A body of up to INLINE_BYTES_MAX stays in memory and goes into the index with its name. A larger one
is hashed and written in a worker thread, BATCH_BYTES at a time and at most one batch behind the
network, into `tmp/`; then fsynced, moved to `blobs/`, and its folder fsynced. Only then may the
index name it. While all bodies together hold much memory, batches are smaller. A blob never changes
afterwards. A worker thread may also read the bytes itself, from an Intake: then a body takes one
hop to a thread, and its bytes are hashed and written from the buffer into which they were received.

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
from typing import Protocol, TypeVar

from storage import bodies, checksums, errors
from storage.batch import Lookup, Store
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
READERS_MAX = 6
"""Threads that read bodies from an Intake, at a time; they have a pool of their own, because they
wait for clients."""
READ_BYTES = 1 << 20
"""The buffer of such a thread."""
WRITEBACK_BYTES = 4 << 20
"""A thread that has written so much lets the system start to write it to the disk."""
COMPARED_AT_ONCE_MAX = 2
"""Pairs of bodies that are compared at a time, so that other work gets a worker thread."""
PATHS_REMEMBERED = 4096
"""Blobs whose paths are kept: to make one takes longer than to open it."""
FOLDERS = tuple(f"{number:02x}" for number in range(256))

Result = TypeVar("Result")


class Intake(Protocol):
    """The rest of a body, in the form of a function that a worker thread calls.

    read_into fills a buffer; fewer bytes mean that the event loop has to receive the rest. close is
    called in the event loop after the last one. size_bytes: the length of the rest.
    """

    @property
    def size_bytes(self) -> int: ...

    def read_into(self, buffer: memoryview) -> int: ...

    def close(self) -> None: ...


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
        self._readers = ThreadPoolExecutor(READERS_MAX, thread_name_prefix="intake")
        self._buffers = [memoryview(bytearray()) for _ in range(READERS_MAX)]

    def close(self) -> None:
        """Wait for running writes and stop the worker threads."""
        self._readers.shutdown()
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

    @property
    def may_read(self) -> bool:
        """Whether a worker thread is free to read a body."""
        return bool(self._buffers)

    def start_reading(
        self, intake: Intake, work: Callable[[memoryview], None]
    ) -> asyncio.Future[None]:
        """Start work in a reader's thread, with a buffer; close intake when it ends, or if no
        thread can be started.

        Only if one `may_read`. Called by Receiver.
        """
        buffer = self._buffers.pop()

        def end(_: object = None) -> None:
            self._buffers.append(buffer)
            intake.close()

        try:
            buffer = buffer or memoryview(bytearray(READ_BYTES))
            job = asyncio.get_running_loop().run_in_executor(self._readers, work, buffer)
        except BaseException:
            # The pool may have queued the work: it keeps this buffer to itself.
            buffer = memoryview(bytearray())
            end()
            raise
        job.add_done_callback(end)
        return job

    def unlink(self, blob: str) -> None:
        """Remove a blob's file; an absent one is ignored."""
        self._disk.unlink(self.path_of(blob))
        self.note_removed(blob)

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

    def new_file(self) -> _File:
        """Return a new file, named by a fresh id. Called by Receiver."""
        blob = self._new_id()
        return _File(
            blobs=self,
            disk=self._disk,
            blob=blob,
            aside=self._scratch / blob,
            place=self.path_of(blob),
        )

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
        self._digester = checksums.Digester(digests)
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._held_bytes = 0
        self._size_bytes = 0
        self._file: _File | None = None
        self._job: asyncio.Future[None] | None = None
        self._finished = False
        self._published = False
        self._aborted = False

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
    def may_read(self) -> bool:
        """Whether `write_from` can be called."""
        return self._blobs.may_read

    async def write_from(self, intake: Intake) -> int:
        """Take the next bytes as a worker thread reads them from intake; return how many came.

        If these are all that intake has, the body is complete and durable: only `finish` may
        follow. Closes intake.
        """
        try:
            await self._end_job()
        except BaseException:
            intake.close()
            raise
        if not self._blobs.may_read:  # another body has taken the last thread meanwhile
            intake.close()
            return 0
        size_bytes = self._size_bytes
        pieces, file = self._take()
        work = functools.partial(self._read, file, pieces, intake)
        self._begin(self._blobs.start_reading(intake, work))
        await self._end_job()
        return self._size_bytes - size_bytes

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
        if not self._published:
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
        self._aborted = True
        try:
            with contextlib.suppress(Exception):
                await self._end_job()
        finally:
            self._hold(0)
        if self._file is not None:
            file, self._file = self._file, None
            await self._blobs.run(file.remove)

    async def _end_job(self) -> None:
        if self._job is not None:
            await asyncio.shield(self._job)
            self._job = None

    def _begin(self, job: asyncio.Future[None]) -> None:
        """Take a job that works on the bytes of `_take`."""
        self._job = job
        job.add_done_callback(lambda _: self._hold(self._waiting_bytes))

    def _hold(self, size_bytes: int) -> None:
        """Count size_bytes as what this body holds in memory: what waits and what is written."""
        self._blobs.note_held(size_bytes - self._held_bytes)
        self._held_bytes = size_bytes

    def _take(self) -> tuple[list[bytes], _File]:
        pieces, self._pieces, self._waiting_bytes = self._pieces, [], 0
        if self._file is None:
            self._file = self._blobs.new_file()
        return pieces, self._file

    def _work(self, file: _File, pieces: Sequence[bytes], *, last: bool) -> None:
        """Hash and write a batch; runs in a worker thread, one at a time per body."""
        try:
            for piece in pieces:
                self._digester.update(piece)
            file.write(b"".join(pieces))
            if last:
                file.publish()
        except BaseException:
            file.remove()
            raise

    def _read(
        self, file: _File, pieces: Sequence[bytes], intake: Intake, buffer: memoryview
    ) -> None:
        """Read, hash and write until intake has no more; runs in a worker thread."""
        if self._aborted:
            return
        try:
            self._work(file, pieces, last=False)
            left_bytes = intake.size_bytes
            while left_bytes and not self._aborted:
                wanted = min(left_bytes, len(buffer))
                count = intake.read_into(buffer[:wanted])
                data = buffer[:count]
                self._digester.update(data)
                file.write(data)
                self._size_bytes += count
                left_bytes -= count
                if count < wanted:
                    break
            if not left_bytes:
                file.publish()
                self._published = True
        except BaseException:
            file.remove()
            raise


class _File:
    """A blob file that is written in `tmp/` and moved to `blobs/`."""

    def __init__(self, *, blobs: Blobs, disk: Disk, blob: str, aside: Path, place: Path) -> None:
        self.blob = blob
        self._blobs = blobs
        self._disk = disk
        self._aside = aside
        self._place = place
        self._descriptor: int | None = None
        self._size_bytes = 0
        self._passed_bytes = 0

    def write(self, data: bytes | memoryview) -> None:
        if self._descriptor is None:
            self._descriptor = self._disk.create(self._aside)
        self._disk.write(self._descriptor, data)
        self._size_bytes += len(data)
        if self._size_bytes - self._passed_bytes >= WRITEBACK_BYTES:
            # Otherwise `publish` waits for the whole body at its end.
            self._disk.start_writeback(self._descriptor, self._passed_bytes, self._size_bytes)
            self._passed_bytes = self._size_bytes

    def publish(self) -> None:
        assert self._descriptor is not None, "nothing was written"
        self._disk.fsync(self._descriptor)
        self._close()
        self._disk.move(self._aside, self._place)
        self._blobs.note_published(self.blob)
        # A move is durable only once its folder is: without this a crash loses a body that the
        # index names.
        self._disk.fsync_folder(self._place.parent)

    def remove(self) -> None:
        self._close()
        self._disk.unlink(self._aside)
        self._blobs.unlink(self.blob)

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            self._disk.close(descriptor)


def _received_file(blob: str, size_bytes: int, digests: dict[str, bytes]) -> Received:
    segment = Segment(blob=blob, offset=0, length=size_bytes)
    return Received(body=SegmentBody(segments=(segment,)), size_bytes=size_bytes, digests=digests)


def _slice_of(byte_range: ByteRange) -> slice:
    return slice(byte_range.start, byte_range.stop)
