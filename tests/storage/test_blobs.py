"""Bodies on their way in: inline or in files, digested, durable, and gone when refused."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.receiving_child import STEP_BYTES
from storage import bodies, checksums, errors
from storage.blobs import (
    BATCH_BYTES,
    CROWDED_BATCH_BYTES,
    HELD_BYTES_MAX,
    INLINE_BYTES_MAX,
)
from storage.bodyfiles import WRITEBACK_BYTES
from storage.disk import Disk
from storage.model import ByteRange, FileSlice, InlineBody, Segment, SegmentBody
from storage.opening import Storage
from tests.kit import folders, intakes

ALL = frozenset(checksums.ALGORITHMS)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    opened = folders.open_folder(tmp_path / "data")
    yield opened
    opened.close()


def body_of(size_bytes: int) -> bytes:
    return hashlib.shake_128(str(size_bytes).encode()).digest(size_bytes)


SIZES = (
    0, 1, INLINE_BYTES_MAX - 1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1,
    BATCH_BYTES - 1, BATCH_BYTES, BATCH_BYTES + 1, 3 * BATCH_BYTES + 7,
)  # fmt: skip


@pytest.mark.parametrize("size_bytes", SIZES)
@pytest.mark.parametrize("step_bytes", [INLINE_BYTES_MAX, 1_000_000])
def test_a_body_comes_back_with_its_digests_however_it_arrives(
    storage: Storage, tmp_path: Path, size_bytes: int, step_bytes: int
) -> None:
    data = body_of(size_bytes)

    async def receive() -> None:
        receiver = storage.blobs.receive(digests=ALL)
        for start in range(0, size_bytes, step_bytes):
            await receiver.write(data[start : start + step_bytes])
        assert receiver.size_bytes == size_bytes
        received = await receiver.finish()
        assert received.size_bytes == size_bytes
        assert received.digests == checksums.digest(data, ALL)
        assert storage.blobs.read(received.body) == data
        inline = size_bytes <= INLINE_BYTES_MAX
        assert isinstance(received.body, InlineBody) == inline
        assert len(folders.blob_files(tmp_path / "data")) == (0 if inline else 1)

    asyncio.run(receive())
    assert list((tmp_path / "data" / "tmp").iterdir()) == []


class Slow(Disk):
    """A disk whose writes wait for a gate, and which counts what is held back."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.written_bytes = 0

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        self.gate.wait(30)
        self.written_bytes += len(data)
        super().write(descriptor, data)


def test_a_slow_disk_holds_the_sender_back_after_two_batches(tmp_path: Path) -> None:
    disk = Slow()
    disk.gate.set()
    storage = folders.open_folder(tmp_path / "data", disk=disk)
    disk.gate.clear()

    async def send() -> None:
        receiver = storage.blobs.receive()
        piece = bytes(BATCH_BYTES)
        await receiver.write(piece)
        blocked = asyncio.create_task(receiver.write(piece))
        done, _ = await asyncio.wait([blocked], timeout=0.05)
        assert not done
        disk.gate.set()
        await blocked
        received = await receiver.finish()
        assert received.size_bytes == 2 * BATCH_BYTES

    asyncio.run(send())
    storage.close()


def test_abort_removes_what_was_written_at_any_moment(storage: Storage, tmp_path: Path) -> None:
    async def stop_early(size_bytes: int, *, finished: bool) -> None:
        receiver = storage.blobs.receive()
        await receiver.write(body_of(size_bytes))
        if finished:
            await receiver.finish()
        await receiver.abort()
        await receiver.abort()

    for size_bytes in SIZES:
        for finished in (False, True):
            asyncio.run(stop_early(size_bytes, finished=finished))
            assert folders.blob_files(tmp_path / "data") == set()
            assert list((tmp_path / "data" / "tmp").iterdir()) == []


def test_a_cancelled_finish_leaves_nothing_after_abort(tmp_path: Path) -> None:
    disk = Slow()
    disk.gate.set()
    storage = folders.open_folder(tmp_path / "data", disk=disk)
    disk.gate.clear()

    async def cancel() -> None:
        receiver = storage.blobs.receive()
        await receiver.write(body_of(INLINE_BYTES_MAX + 1))
        finishing = asyncio.create_task(receiver.finish())
        await asyncio.sleep(0)
        finishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await finishing
        disk.gate.set()
        await receiver.abort()

    asyncio.run(cancel())
    assert folders.blob_files(tmp_path / "data") == set()
    assert list((tmp_path / "data" / "tmp").iterdir()) == []
    storage.close()


class Full(Disk):
    """A disk that runs full after some bytes."""

    def __init__(self) -> None:
        self.left_bytes = 1 << 40

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        self.left_bytes -= len(data)
        if self.left_bytes < 0:
            raise errors.DiskFull("no room")
        super().write(descriptor, data)

    def room_bytes(self, path: Path) -> int:
        return max(self.left_bytes, 0)


@pytest.mark.parametrize("size_bytes", [INLINE_BYTES_MAX + 1, 3 * BATCH_BYTES])
def test_a_full_disk_refuses_the_body_and_keeps_nothing_of_it(
    tmp_path: Path, size_bytes: int
) -> None:
    disk = Full()
    storage = folders.open_folder(tmp_path / "data", disk=disk)
    disk.left_bytes = INLINE_BYTES_MAX
    with pytest.raises(errors.DiskFull):
        asyncio.run(storage.blobs.store(body_of(size_bytes)))
    assert folders.blob_files(tmp_path / "data") == set()
    assert list((tmp_path / "data" / "tmp").iterdir()) == []
    storage.close()


def test_a_body_announced_larger_than_the_disk_is_refused_before_its_first_byte(
    tmp_path: Path,
) -> None:
    disk = Full()
    storage = folders.open_folder(tmp_path / "data", disk=disk)
    disk.left_bytes = 10 * BATCH_BYTES
    storage.blobs.receive(size_hint=10 * BATCH_BYTES)
    with pytest.raises(errors.DiskFull):
        storage.blobs.receive(size_hint=10 * BATCH_BYTES + 1)
    storage.close()


@pytest.mark.parametrize("size_bytes", SIZES)
def test_an_adopted_file_becomes_a_body_and_is_gone(
    storage: Storage, tmp_path: Path, size_bytes: int
) -> None:
    path = tmp_path / "data" / "tmp" / "made-by-a-worker"
    path.write_bytes(body_of(size_bytes))
    received = asyncio.run(storage.blobs.adopt(path))
    assert not path.exists()
    assert received.digests == checksums.digest(body_of(size_bytes), ("md5",))
    assert storage.blobs.read(received.body) == body_of(size_bytes)
    assert isinstance(received.body, InlineBody) == (size_bytes <= INLINE_BYTES_MAX)


def segments_of(*lengths: int) -> tuple[Segment, ...]:
    return tuple(
        Segment(blob=f"{number:032x}", offset=number * 100, length=length)
        for number, length in enumerate(lengths)
    )


def test_cut_gives_exactly_the_bytes_of_every_range() -> None:
    lengths = (3, 1, 0, 4)
    segments = segments_of(*lengths)
    places = [
        (segment.blob, segment.offset + step)
        for segment in segments
        for step in range(segment.length)
    ]
    for start in range(len(places)):
        for stop in range(start + 1, len(places) + 1):
            cuts = [
                (segment.blob, segment.offset + step)
                for segment in bodies.cut(segments, ByteRange(start=start, stop=stop))
                for step in range(segment.length)
            ]
            assert cuts == places[start:stop]
            assert all(
                segment.length > 0
                for segment in bodies.cut(segments, ByteRange(start=start, stop=stop))
            )


def test_slices_say_where_bytes_lie_without_reading_them(storage: Storage) -> None:
    body = SegmentBody(segments=segments_of(3, 5))
    assert storage.blobs.slices(body, ByteRange(start=2, stop=4)) == (
        FileSlice(path=storage.blobs.path_of(f"{0:032x}"), offset=2, length=1),
        FileSlice(path=storage.blobs.path_of(f"{1:032x}"), offset=100, length=1),
    )


def test_a_blob_that_is_gone_or_cut_short_is_a_missing_body(storage: Storage) -> None:
    received = asyncio.run(storage.blobs.store(body_of(BATCH_BYTES)))
    assert isinstance(received.body, SegmentBody)
    path = storage.blobs.path_of(received.body.segments[0].blob)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(errors.BodyMissing):
        storage.blobs.read(received.body)
    path.unlink()
    with pytest.raises(errors.BodyMissing):
        storage.blobs.read(received.body)
    gone = SegmentBody(segments=(Segment(blob="ab" * 16, offset=0, length=1, indexed=True),))
    with pytest.raises(errors.BodyMissing):
        storage.blobs.slices(gone)


def test_hold_counts(storage: Storage) -> None:
    body = SegmentBody(segments=segments_of(1))
    blob = body.segments[0].blob
    with storage.blobs.hold(body):
        with storage.blobs.hold(body):
            assert storage.blobs.is_held(blob)
        assert storage.blobs.is_held(blob)
    assert not storage.blobs.is_held(blob)


def test_a_blobs_file_never_changes(storage: Storage, tmp_path: Path) -> None:
    """Two bodies, same bytes or not, never share a file."""
    first = asyncio.run(storage.blobs.store(body_of(BATCH_BYTES)))
    second = asyncio.run(storage.blobs.store(body_of(BATCH_BYTES)))
    assert first.body != second.body
    assert len(folders.blob_files(tmp_path / "data")) == 2


def test_many_bodies_at_once_hold_bounded_memory(storage: Storage) -> None:
    piece = body_of(CROWDED_BATCH_BYTES // 2)
    count = 3 * HELD_BYTES_MAX // BATCH_BYTES

    async def receive() -> None:
        receivers = [storage.blobs.receive() for _ in range(count)]
        held = []
        for _ in range(BATCH_BYTES // len(piece) - 1):  # each stays below a whole batch
            for receiver in receivers:
                await receiver.write(piece)
                held.append(storage.blobs.held_bytes)
        # Each body has at most one batch that is being written and one that is not full.
        assert max(held) <= HELD_BYTES_MAX + 2 * count * CROWDED_BATCH_BYTES
        for receiver in receivers[:-1]:
            await receiver.abort()
        received = await receivers[-1].finish()
        assert storage.blobs.read(received.body) == piece * (BATCH_BYTES // len(piece) - 1)
        assert storage.blobs.held_bytes == 0
        await storage.blobs.store(piece[:INLINE_BYTES_MAX])
        await storage.blobs.store(piece * 40)
        assert storage.blobs.held_bytes == 0

    asyncio.run(receive())


FIRST = bytes(70_000)
REST_SIZES = (1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 2 * WRITEBACK_BYTES + 7)


@pytest.mark.parametrize("first_bytes", [0, 1000, BATCH_BYTES - 5])
@pytest.mark.parametrize("size_bytes", REST_SIZES)
def test_a_body_that_a_process_receives_comes_back_with_its_digests(
    storage: Storage, tmp_path: Path, first_bytes: int, size_bytes: int
) -> None:
    first, rest = body_of(first_bytes), body_of(size_bytes)

    async def receive() -> None:
        async with intakes.receivers_of(storage.disk) as receivers:
            receiver = storage.blobs.receive(digests=ALL)
            if first:
                await receiver.write(first)
            with intakes.sending(receivers, rest) as sent:
                assert await receiver.write_from(sent.intake) == size_bytes
                assert sent.endings == 1
            received = await receiver.finish()
        assert received.size_bytes == len(first) + size_bytes
        assert received.digests == checksums.digest(first + rest, ALL)
        assert storage.blobs.read(received.body) == first + rest
        assert len(folders.blob_files(tmp_path / "data")) == 1
        assert storage.blobs.held_bytes == 0

    asyncio.run(receive())
    assert list((tmp_path / "data" / "tmp").iterdir()) == []


def test_many_slow_bodies_are_received_at_once_and_hold_no_memory(storage: Storage) -> None:
    bodies = [body_of(STEP_BYTES + number) for number in range(20)]

    async def receive() -> None:
        async with intakes.receivers_of(storage.disk) as receivers:
            with contextlib.ExitStack() as stack:
                sent = [
                    stack.enter_context(intakes.sending(receivers, each, sent_bytes=len(each) - 1))
                    for each in bodies
                ]
                files = [storage.blobs.receive(digests=ALL) for _ in bodies]
                for file in files:
                    await file.write(FIRST)
                assert storage.blobs.held_bytes == len(FIRST) * len(files)
                receiving = [
                    asyncio.create_task(file.write_from(each.intake))
                    for file, each in zip(files, sent, strict=True)
                ]
                for each in sent:
                    await asyncio.to_thread(each.join)
                await asyncio.sleep(0.05)
                assert not any(each.done() for each in receiving)
                assert storage.blobs.held_bytes == 0
                await storage.blobs.store(body_of(BATCH_BYTES), digests=ALL)
                for each in sent:
                    each.send(1)
                assert await asyncio.gather(*receiving) == [len(each) for each in bodies]
            for data, file in zip(bodies, files, strict=True):
                received = await file.finish()
                assert storage.blobs.read(received.body) == FIRST + data

    asyncio.run(receive())


@pytest.mark.parametrize("sent_bytes", [0, 5, STEP_BYTES, 2 * STEP_BYTES - 1])
@pytest.mark.parametrize("ending", ["aborts", "loses the client"])
def test_a_body_that_does_not_come_whole_leaves_nothing(
    storage: Storage, tmp_path: Path, sent_bytes: int, ending: str
) -> None:
    async def receive() -> None:
        async with intakes.receivers_of(storage.disk) as receivers:
            receiver = storage.blobs.receive()
            await receiver.write(b"first")
            with intakes.sending(receivers, body_of(5 * STEP_BYTES), sent_bytes=sent_bytes) as sent:
                receiving = asyncio.create_task(receiver.write_from(sent.intake))
                await asyncio.to_thread(sent.join)
                if ending == "aborts":
                    receiving.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await receiving
                else:
                    sent.client.close()
                    assert await receiving == sent_bytes
                await receiver.abort()
                assert sent.endings == 1

    asyncio.run(receive())
    assert folders.blob_files(tmp_path / "data") == set()
    assert list((tmp_path / "data" / "tmp").iterdir()) == []


@pytest.mark.parametrize("finished", [False, True])
def test_a_body_that_a_process_has_received_is_removed_when_it_is_refused(
    storage: Storage, tmp_path: Path, finished: bool
) -> None:
    async def refuse() -> None:
        async with intakes.receivers_of(storage.disk) as receivers:
            receiver = storage.blobs.receive()
            with intakes.sending(receivers, body_of(STEP_BYTES)) as sent:
                await receiver.write_from(sent.intake)
            if finished:
                await receiver.finish()
            await receiver.abort()

    asyncio.run(refuse())
    assert folders.blob_files(tmp_path / "data") == set()
    assert list((tmp_path / "data" / "tmp").iterdir()) == []


class Filling(Disk):
    """A disk that takes so many bytes, and is full then."""

    room = 1 << 40

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        self.room -= len(data)
        if self.room < 0:
            raise errors.DiskFull("the disk has no room left")
        super().write(descriptor, data)


@pytest.mark.parametrize("room_bytes", [3, 10, STEP_BYTES])
def test_a_disk_that_fills_while_a_process_receives_gives_the_connection_back(
    tmp_path: Path, room_bytes: int
) -> None:
    disk = Filling()
    storage = folders.open_folder(tmp_path / "data", disk=disk)
    disk.room = room_bytes

    async def receive() -> None:
        async with intakes.receivers_of(disk) as receivers:
            receiver = storage.blobs.receive()
            await receiver.write(b"first")
            with intakes.sending(receivers, body_of(2 * STEP_BYTES)) as sent:
                with pytest.raises(errors.DiskFull, match="no room left"):
                    await receiver.write_from(sent.intake)
                assert sent.endings == 1
            await receiver.abort()
            disk.room = 1 << 40
            with intakes.sending(receivers, body_of(2 * STEP_BYTES)) as sent:
                receiver = storage.blobs.receive()
                assert await receiver.write_from(sent.intake) == 2 * STEP_BYTES
            await receiver.abort()

    asyncio.run(receive())
    assert list((tmp_path / "data" / "tmp").iterdir()) == []
    storage.close()
