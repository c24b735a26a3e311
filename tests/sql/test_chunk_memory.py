"""Memory of chunks that are gone serves the next ones."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pyarrow as pa
import pytest

from sql import chunk_memory

MIB = 1 << 20


def address(data: memoryview) -> int:
    return int(pa.py_buffer(data).address)


def filled(pool: chunk_memory.Pool, size_bytes: int, value: int) -> memoryview:
    data = pool.take(size_bytes)
    data[:] = bytes([value]) * size_bytes
    return data.toreadonly()


def test_memory_is_used_again_when_no_view_of_it_is_left() -> None:
    pool = chunk_memory.Pool(free_bytes_max=64 * MIB)
    first = filled(pool, 8 * MIB, 1)
    place = address(first)
    views = [first, first[5:], memoryview(pa.py_buffer(first[100:]).slice(3))]
    del first
    while views:
        other = filled(pool, 8 * MIB, 2)
        assert address(other) != place
        assert all(set(view) == {1} for view in (view[:: MIB + 1] for view in views))
        views.pop(0)
        del other
    again = [pool.take(8 * MIB - 4) for _ in range(2)]
    assert place in map(address, again)
    assert len(again[0]) == 8 * MIB - 4
    owner = chunk_memory.owner_of(again[0])
    assert owner is not None
    assert owner.size == 8 * MIB


def test_a_chunk_gets_memory_of_its_size_or_a_bit_more() -> None:
    pool = chunk_memory.Pool(free_bytes_max=64 * MIB)
    del (filled := [pool.take(size * MIB) for size in (8, 16)])[:]
    assert (filled, pool.free_bytes) == ([], 24 * MIB)
    taken = [pool.take(4 * MIB)]
    assert pool.free_bytes == 24 * MIB
    taken.append(pool.take(7 * MIB))
    assert pool.free_bytes == 16 * MIB
    taken.append(pool.take(9 * MIB))
    assert pool.free_bytes == 16 * MIB
    taken.append(pool.take(16 * MIB))
    assert pool.free_bytes == 0


def test_free_memory_has_a_bound_and_the_oldest_goes_to_the_system() -> None:
    pool = chunk_memory.Pool(free_bytes_max=20 * MIB)
    data = [pool.take(8 * MIB) for _ in range(3)]
    places = [address(each) for each in data]
    while data:
        data.pop(0)
    assert pool.free_bytes == 16 * MIB
    again = [pool.take(8 * MIB) for _ in range(2)]
    assert [address(each) for each in again] == [places[2], places[1]]
    large = pool.take(24 * MIB)
    del large
    assert pool.free_bytes == 0


def test_a_pool_at_rest_has_no_memory_and_gets_none_until_it_is_used_again() -> None:
    pool = chunk_memory.Pool(free_bytes_max=64 * MIB)
    kept, dropped = pool.take(8 * MIB), pool.take(8 * MIB)
    del dropped
    pool.clear()
    assert pool.free_bytes == 0
    del kept
    assert pool.free_bytes == 0
    used = pool.take(8 * MIB)
    del used
    assert pool.free_bytes == 8 * MIB


def test_small_chunks_are_the_allocators() -> None:
    pool = chunk_memory.Pool(free_bytes_max=64 * MIB)
    small = pool.take(chunk_memory.LARGE_BYTES_MIN - 1)
    assert len(small) == chunk_memory.LARGE_BYTES_MIN - 1
    assert chunk_memory.owner_of(small) is None
    assert chunk_memory.owner_of(b"bytes") is None
    del small
    assert pool.free_bytes == 0


def test_threads_never_share_memory() -> None:
    pool = chunk_memory.Pool(free_bytes_max=6 * MIB)
    start = threading.Barrier(4)

    def work(value: int) -> bool:
        start.wait()
        return all(
            bytes(filled(pool, 2 * MIB, value)) == bytes([value]) * (2 * MIB) for _ in range(50)
        )

    with futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(1, 5))) == [True] * 4
    assert pool.free_bytes <= 6 * MIB


def at_each_step(step: Callable[[], object]) -> Any:
    """Return a trace function that calls step before each step of the pool's code, as a collection
    of garbage may come at any."""

    def trace(frame: Any, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != chunk_memory.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            step()
        return trace

    return trace


@pytest.mark.parametrize("seed", range(40))
def test_memory_may_come_back_while_a_thread_takes_some_or_gives_some_back(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[object] = []
    monkeypatch.setattr(sys, "excepthook", lambda *fault: faults.append(fault[1]))
    monkeypatch.setattr(sys, "unraisablehook", faults.append)
    chance = random.Random(seed)
    pool = chunk_memory.Pool(free_bytes_max=6 * MIB)
    views = [pool.take(chance.choice((1, 1, 1, 2, 4)) * MIB) for _ in range(12)]
    del views[-3:]

    def end_a_view() -> None:
        if views and chance.random() < 0.1:
            views.pop()

    size_bytes = chance.randint(1, 4) * MIB
    previous = sys.gettrace()
    sys.settrace(at_each_step(end_a_view))
    try:
        taken = pool.take(size_bytes)
    finally:
        sys.settrace(previous)
    assert len(taken) == size_bytes
    assert len(views) < 9
    assert faults == []
    assert pool.free_bytes <= 6 * MIB
