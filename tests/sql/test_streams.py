"""Batches that a thread takes from a stream, and those that the event loop waits for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from sql import limits, streams

MANY = 400


class Batch:
    """As the library has it."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def to_pyarrow(self) -> pa.RecordBatch:
        return self._batch


class Panic(BaseException):
    """What the library raises for a fault of its own."""


class Rows:
    """A stream of numbered batches. calls: for each batch, whether it was waited for in a thread.

    before: called before each batch with its number.
    """

    def __init__(
        self, count: int, *, rows: int = 10, before: Callable[[int], object] = lambda number: None
    ) -> None:
        self._count = count
        self._rows = rows
        self._before = before
        self.calls: list[bool] = []

    def __aiter__(self) -> Rows:
        return self

    async def __anext__(self) -> Batch:
        await asyncio.sleep(0)
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    def __next__(self) -> Batch:
        number = len(self.calls)
        self.calls.append(threading.current_thread() is not threading.main_thread())
        self._before(number)
        if number >= self._count:
            raise StopIteration
        return Batch(pa.record_batch([pa.repeat(pa.scalar(number), self._rows)], names=["a"]))


def numbers(stream: Rows) -> list[int]:
    async def story() -> list[int]:
        return [batch.column(0)[0].as_py() async for batch in streams.taken(stream)]

    return asyncio.run(story())


@pytest.mark.parametrize("count", [0, 1, streams.QUICK_BATCHES, MANY])
def test_all_batches_come_in_their_order_and_later_ones_from_a_thread(count: int) -> None:
    stream = Rows(count, rows=10_000)
    assert numbers(stream) == list(range(count))
    awaited = min(streams.QUICK_BATCHES, count + 1)
    assert stream.calls == [False] * awaited + [True] * (count + 1 - awaited)


def test_batches_without_rows_are_left_out() -> None:
    assert numbers(Rows(MANY, rows=0)) == []


def test_a_stream_that_becomes_slow_is_waited_for_on_the_loop_until_it_is_quick_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]

    def pause(number: int) -> None:
        clock[0] += 1 if number in (5, 6, 7, 30) else 0

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    stream = Rows(40, before=pause)
    assert numbers(stream) == list(range(40))
    in_thread = [number for number, call in enumerate(stream.calls) if call]
    # The one that took long was waited for in the thread; nothing says before that it will.
    assert in_thread == [*range(2, 6), *range(10, 31), *range(33, 41)]


@pytest.mark.parametrize("fault", [ValueError("of the library"), Panic("of the library")])
@pytest.mark.parametrize("at", [0, 1, 2, 3, 50])
def test_a_fault_comes_after_the_batches_before_it(fault: BaseException, at: int) -> None:
    def fail(number: int) -> None:
        if number == at:
            raise fault

    async def story() -> None:
        batches = streams.taken(Rows(MANY, before=fail))
        seen = [(await anext(batches)).column(0)[0].as_py() for _ in range(at)]
        assert seen == list(range(at))
        with pytest.raises(type(fault), match="of the library"):
            await anext(batches)

    asyncio.run(story())


def held_at_most(stream: Rows, size_bytes: int) -> int:
    """Return the bytes of the batches that were taken and not used yet, at their most."""

    async def story() -> int:
        most = used = 0
        async for _ in streams.taken(stream):
            used += 1
            await asyncio.sleep(0.002)
            most = max(most, len(stream.calls) - used)
        return most * size_bytes

    return asyncio.run(story())


def test_what_is_taken_ahead_has_a_bound() -> None:
    rows = 100_000
    most = held_at_most(Rows(60, rows=rows), rows * 8)
    assert limits.CHUNK_BYTES_MAX < most <= 2 * limits.CHUNK_BYTES_MAX + 2 * rows * 8


def test_beside_a_large_batch_no_other_one_is_taken() -> None:
    rows = streams.LARGE_GROUP_BYTES // 8
    assert held_at_most(Rows(8, rows=rows), rows * 8) == 0


def test_nothing_is_taken_after_the_end_of_the_reader() -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def wait(number: int) -> None:
        if number == 10:
            waiting.set()
            go_on.wait(10)

    async def story() -> None:
        stream = Rows(MANY, before=wait)

        async def read() -> None:
            async for _ in streams.taken(stream):
                pass

        reading = asyncio.create_task(read())
        await asyncio.to_thread(waiting.wait, 10)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        go_on.set()
        await asyncio.sleep(0.05)
        assert len(stream.calls) == 11

    asyncio.run(story())


def test_a_reader_in_the_serving_process_is_not_read_by_a_thread() -> None:
    async def story() -> list[int]:
        return [batch.column(0)[0].as_py() async for batch in streams.awaited(stream)]

    stream = Rows(MANY)
    assert asyncio.run(story()) == list(range(MANY))
    assert not any(stream.calls)


def test_what_a_thread_has_taken_does_not_wait_for_what_does_not_come() -> None:
    go_on = threading.Event()

    async def story() -> None:
        stream = Rows(MANY, before=lambda number: number != 10 or not go_on.wait(10))
        batches = streams.taken(stream)
        seen = [(await anext(batches)).column(0)[0].as_py() for _ in range(10)]
        assert seen == list(range(10))
        assert not go_on.is_set()
        go_on.set()
        assert [batch.column(0)[0].as_py() async for batch in batches] == list(range(10, MANY))

    asyncio.run(story())
