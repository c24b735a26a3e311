"""The index: atomic, grouped, durable; refusing one Batch without harm to others."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import gc
import os
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lmdb
import pytest

from storage import errors
from storage import index as storage_index
from storage.batch import Batch, Decided, Delete, Expect, Put, Reading, Store, Write
from storage.disk import Disk
from storage.gathering import GROUP_MAX, TURNS_MAX
from storage.index import (
    BESIDE_RESERVE_BYTES,
    READERS_MAX,
    Index,
)
from tests.kit.waits import WAIT_SECONDS

STORE = Store.REFS


class Counting(Disk):
    """A disk that counts index transactions and can hold them up or make them fail."""

    def __init__(self) -> None:
        self.transactions = 0
        self.transacted = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.failure: BaseException | None = None
        self.around: Callable[[], None] = lambda: None

    def transact(self, commit: Callable[[], Any]) -> None:
        self.gate.wait(WAIT_SECONDS)
        if self.failure is not None:
            raise self.failure
        self.transactions += 1
        self.transacted.set()
        self.around()
        super().transact(commit)
        self.around()


@pytest.fixture
def disk() -> Counting:
    return Counting()


@pytest.fixture
def index(tmp_path: Path, disk: Counting) -> Iterator[Index]:
    opened = Index(
        path=tmp_path / "index", disk=disk, map_size_bytes=64 << 20, reserve_bytes=256 << 10
    )
    yield opened
    disk.gate.set()
    opened.close()


def put(key: bytes, value: bytes = b"v") -> Put:
    return Put(store=STORE, key=key, value=value)


def rows(index: Index) -> list[tuple[bytes, bytes]]:
    with index.view() as view:
        return list(view.scan(STORE, b""))


@pytest.mark.parametrize(
    ("store", "read"),
    [(Store.BUCKETS, Index.bucket_changes), (Store.SETTINGS, Index.settings_changes)],
)
def test_changes_are_not_counted_while_they_are_committed(
    index: Index, disk: Counting, store: Store, read: Callable[[Index], int | None]
) -> None:
    before = read(index)
    seen: list[tuple[bytes | None, int | None]] = []

    def look() -> None:
        seen.append((index.get(store, b"k"), read(index)))

    disk.around = look
    index.commit_now(Batch(writes=(Put(store=store, key=b"k", value=b"v"),)))
    assert seen == [(None, None), (b"v", None)]
    after = read(index)
    assert before is not None
    assert after is not None
    assert after > before
    seen.clear()
    index.commit_now(Batch(writes=(put(b"other"),)))
    assert seen == [(b"v", after), (b"v", after)]


def test_commit_makes_every_write_of_a_batch_visible(index: Index) -> None:
    asyncio.run(index.commit(Batch(writes=(put(b"a"), put(b"b"), put(b"c")))))
    asyncio.run(index.commit(Batch(writes=(put(b"a", b"w"), Delete(store=STORE, key=b"b")))))
    assert rows(index) == [(b"a", b"w"), (b"c", b"v")]


def test_commit_now_works_without_a_loop(index: Index) -> None:
    index.commit_now(Batch(writes=(put(b"a"),)))
    assert index.get(STORE, b"a") == b"v"


def test_delete_of_an_absent_key_is_no_fault(index: Index) -> None:
    index.commit_now(Batch(writes=(Delete(store=STORE, key=b"a"),)))
    assert rows(index) == []


@pytest.mark.parametrize(("held", "expected"), [(None, b"x"), (b"v", None), (b"v", b"x")])
def test_commit_with_an_expectation_that_fails_writes_nothing(
    index: Index, held: bytes | None, expected: bytes | None
) -> None:
    if held is not None:
        index.commit_now(Batch(writes=(put(b"k", held),)))
    before = rows(index)
    batch = Batch(
        expects=(Expect(store=STORE, key=b"k", value=expected),), writes=(put(b"new"), put(b"k"))
    )
    with pytest.raises(errors.ExpectationFailed) as caught:
        asyncio.run(index.commit(batch))
    assert caught.value.fields == {"store": STORE, "key": b"k"}
    assert rows(index) == before


def test_derivations_see_the_batchs_writes_and_those_of_earlier_ones(index: Index) -> None:
    def count(reading: Reading) -> Sequence[Write]:
        seen = int(reading.get(STORE, b"n") or b"0")
        return (put(b"n", b"%d" % (seen + 1)),)

    index.commit_now(Batch(writes=(put(b"n", b"40"),), derive=(count, count)))
    assert index.get(STORE, b"n") == b"42"


def test_a_derivation_that_refuses_undoes_its_whole_batch_and_no_other(
    index: Index, disk: Counting
) -> None:
    index.commit_now(Batch(writes=(put(b"kept", b"1"), put(b"gone", b"1"))))

    class Refused(Exception):
        pass

    def write(reading: Reading) -> Sequence[Write]:
        return (put(b"kept", b"3"), put(b"more", b"3"))

    def refuse(reading: Reading) -> Sequence[Write]:
        assert reading.get(STORE, b"more") == b"3"
        raise Refused("no")

    bad = Batch(
        writes=(put(b"kept", b"2"), Delete(store=STORE, key=b"gone"), put(b"new", b"2")),
        derive=(write, refuse),
    )

    async def together() -> list[Any]:
        disk.gate.clear()
        first = asyncio.create_task(index.commit(Batch(writes=(put(b"first"),))))
        await asyncio.sleep(0)
        tasks = [asyncio.create_task(index.commit(each)) for each in (
            Batch(writes=(put(b"before"),)), bad, Batch(writes=(put(b"after"),)),
        )]  # fmt: skip
        await asyncio.sleep(0)
        disk.gate.set()
        return await asyncio.gather(first, *tasks, return_exceptions=True)

    results = asyncio.run(together())
    assert [type(each) for each in results] == [type(None), type(None), Refused, type(None)]
    assert rows(index) == [
        (b"after", b"v"), (b"before", b"v"), (b"first", b"v"), (b"gone", b"1"), (b"kept", b"1"),
    ]  # fmt: skip


@pytest.mark.parametrize("refused", [False, True])
def test_a_derivation_scans_the_batchs_writes_and_those_of_earlier_ones(
    index: Index, refused: bool
) -> None:
    before = [(b"a", b"old"), (b"c", b"old"), (b"e", b"old")]
    index.commit_now(Batch(writes=tuple(put(*row) for row in before)))
    other = Put(store=Store.LOG, key=b"x", value=b"1")

    def change(reading: Reading) -> Sequence[Write]:
        assert reading.get(STORE, b"a") == b"new"
        assert reading.get(STORE, b"c") is None
        assert reading.get(STORE, b"e") == b"old"
        return (put(b"b"), put(b"c"), Delete(store=STORE, key=b"c"), other)

    def scan(reading: Reading) -> Sequence[Write]:
        after = [(b"a", b"new"), (b"b", b"v"), (b"e", b"old")]
        assert list(reading.scan(STORE, b"")) == after
        assert list(reading.scan(STORE, b"b", b"e", reverse=True)) == [(b"b", b"v")]
        return (put(b"d"), Delete(store=STORE, key=b"e"))

    def finish(reading: Reading) -> Sequence[Write]:
        assert reading.get(STORE, b"d") == b"v"
        assert [key for key, _ in reading.scan(STORE, b"")] == [b"a", b"b", b"d"]
        assert [key for key, _ in reading.scan(Store.LOG, b"")] == [b"x"]
        if refused:
            raise errors.NoSuchKey("planted")
        return (put(b"f"),)

    whole = Batch(
        writes=(put(b"a", b"new"), Delete(store=STORE, key=b"c")), derive=(change, scan, finish)
    )
    if not refused:
        index.commit_now(whole)
        assert [key for key, _ in rows(index)] == [b"a", b"b", b"d", b"f"]
        assert index.get(Store.LOG, b"x") == b"1"
        return
    with pytest.raises(errors.NoSuchKey):
        index.commit_now(whole)
    assert rows(index) == before
    assert index.get(Store.LOG, b"x") is None


def test_a_key_that_lmdb_cannot_hold_is_refused_without_harm_to_others(index: Index) -> None:
    long = b"k" * 512

    def derive(reading: Reading) -> Sequence[Write]:
        return (put(b"derived"), put(long))

    bad = (
        Batch(writes=(put(b"x"), put(long))),
        Batch(writes=(put(b"x"), put(b""))),
        Batch(expects=(Expect(store=STORE, key=long, value=None),), writes=(put(b"x"),)),
        Batch(writes=(put(b"x"),), derive=(derive,)),
    )

    async def together() -> list[Any]:
        good = [Batch(writes=(put(b"%d" % number),)) for number in range(3)]
        return await asyncio.gather(
            *(index.commit(each) for each in (*good, *bad)), return_exceptions=True
        )

    results = asyncio.run(together())
    assert results[:3] == [None, None, None]
    assert [type(each) for each in results[3:]] == [errors.CommitRefused] * 4
    assert rows(index) == [(b"0", b"v"), (b"1", b"v"), (b"2", b"v")]


def test_whatever_waits_shares_one_transaction(index: Index, disk: Counting) -> None:
    async def crowd(count: int) -> None:
        disk.gate.clear()
        first = asyncio.create_task(index.commit(Batch(writes=(put(b"first"),))))
        await asyncio.sleep(0)
        rest = [
            asyncio.create_task(index.commit(Batch(writes=(put(b"%05d" % number),))))
            for number in range(count)
        ]
        await asyncio.sleep(0)
        disk.gate.set()
        await asyncio.gather(first, *rest)

    asyncio.run(crowd(GROUP_MAX))
    assert disk.transactions <= 1 + 2  # the one that held the gate; a group may be cut by the race
    disk.transactions = 0
    asyncio.run(crowd(10 * GROUP_MAX))
    assert disk.transactions <= 1 + 11
    assert len(rows(index)) == 1 + 10 * GROUP_MAX


def test_commits_of_one_turn_of_the_loop_share_one_transaction(
    index: Index, disk: Counting
) -> None:
    async def commit_between_slow_work(number: int) -> None:
        for _ in range(3):
            time.sleep(0.002)  # noqa: ASYNC251 - what a handler computes before it commits
            await index.commit(Batch(writes=(put(b"%05d" % number),)))

    async def crowd() -> None:
        await asyncio.gather(*(commit_between_slow_work(number) for number in range(16)))

    disk.transactions = 0
    asyncio.run(crowd())
    assert disk.transactions == 3
    assert len(rows(index)) == 16


def test_a_commit_waits_for_few_turns_however_many_follow(index: Index, disk: Counting) -> None:
    async def crowd() -> int:
        first = asyncio.create_task(index.commit(Batch(writes=(put(b"first"),))))
        others = []
        turns = 0
        while disk.transactions == 0:
            others.append(asyncio.create_task(index.commit(Batch(writes=(put(b"other"),)))))
            await asyncio.sleep(0)
            turns += 1
            if turns > TURNS_MAX + 1:
                # Only the writer thread is waited for now, and its disk: the loop has no turn.
                assert disk.transacted.wait(WAIT_SECONDS)
        await asyncio.gather(first, *others)
        return turns

    disk.transactions = 0
    disk.transacted.clear()
    assert asyncio.run(crowd()) < 2 * TURNS_MAX + 20


def test_what_comes_while_a_group_is_written_is_the_next_group(
    index: Index, disk: Counting
) -> None:
    async def crowd() -> None:
        disk.gate.clear()
        tasks = []
        for number in range(40):
            tasks.append(asyncio.create_task(index.commit(Batch(writes=(put(b"%05d" % number),)))))
            await asyncio.sleep(0.001)
        disk.gate.set()
        await asyncio.gather(*tasks)

    disk.transactions = 0
    asyncio.run(crowd())
    assert disk.transactions == 2
    assert len(rows(index)) == 40


def test_a_loop_waits_while_its_batches_are_applied_and_not_while_they_are_synced(
    index: Index, disk: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_index, "APPLYING_SECONDS_MAX", 20)
    steps: list[str] = []

    def decide(reading: Reading) -> Decided[str]:
        time.sleep(0.05)
        steps.append("applied")
        return Decided(result="done", batch=Batch(writes=(put(b"a"),)))

    async def decide_and_turn() -> str:
        disk.gate.clear()
        future = index.start(decide)
        for _ in range(TURNS_MAX + 1):
            await asyncio.sleep(0)
        steps.append("turned")
        assert not future.done()
        disk.gate.set()
        return await future

    assert asyncio.run(decide_and_turn()) == "done"
    assert steps == ["applied", "turned"]


def test_a_decision_that_takes_long_does_not_hold_the_loop(index: Index) -> None:
    turned = threading.Event()

    def decide(reading: Reading) -> Decided[bool]:
        return Decided(result=turned.wait(WAIT_SECONDS))

    async def decide_and_turn() -> bool:
        future = index.start(decide)
        asyncio.get_running_loop().call_later(0.001, turned.set)
        return await future

    assert asyncio.run(decide_and_turn())


def test_a_loop_that_ended_with_a_group_at_the_writer_leaves_no_trace(
    index: Index, disk: Counting
) -> None:
    async def leave() -> None:
        disk.gate.clear()
        index.start(lambda reading: Decided(result=None, batch=Batch(writes=(put(b"a"),))))
        for _ in range(TURNS_MAX + 1):
            await asyncio.sleep(0)

    asyncio.run(leave())
    disk.gate.set()
    asyncio.run(index.commit(Batch(writes=(put(b"b"),))))
    assert rows(index) == [(b"a", b"v"), (b"b", b"v")]


def test_a_loop_that_ended_while_a_group_waits_for_its_clients_is_forgotten(index: Index) -> None:
    async def write(*keys: bytes) -> weakref.ref[asyncio.AbstractEventLoop]:
        await asyncio.gather(*(index.commit(Batch(writes=(put(key),))) for key in keys))
        return weakref.ref(asyncio.get_running_loop())

    ended = [asyncio.run(write(b"a", b"b")) for _ in range(3)]
    asyncio.run(write(b"c"))
    gc.collect()
    assert [loop() for loop in ended] == [None] * 3
    assert rows(index) == [(b"a", b"v"), (b"b", b"v"), (b"c", b"v")]


def test_what_waits_for_its_turn_is_written_when_the_index_closes(tmp_path: Path) -> None:
    index = Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=1 << 24)

    async def close_meanwhile() -> None:
        task = asyncio.create_task(index.commit(Batch(writes=(put(b"a"),))))
        asyncio.get_running_loop().call_soon(index.close)
        await task

    asyncio.run(close_meanwhile())
    again = Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=1 << 24)
    assert rows(again) == [(b"a", b"v")]
    again.close()


def test_readers_never_wait_for_the_writer(index: Index, disk: Counting) -> None:
    index.commit_now(Batch(writes=(put(b"a", b"old"),)))
    disk.gate.clear()

    async def read_meanwhile() -> None:
        task = asyncio.create_task(index.commit(Batch(writes=(put(b"a", b"new"),))))
        await asyncio.sleep(0)
        assert index.get(STORE, b"a") == b"old"
        assert rows(index) == [(b"a", b"old")]
        disk.gate.set()
        await task
        assert index.get(STORE, b"a") == b"new"

    asyncio.run(read_meanwhile())


def test_a_view_stays_as_it_was_while_others_commit(index: Index) -> None:
    index.commit_now(Batch(writes=(put(b"a", b"old"),)))
    with index.view() as view:
        index.commit_now(Batch(writes=(put(b"a", b"new"), put(b"b"))))
        assert view.get(STORE, b"a") == b"old"
        assert list(view.scan(STORE, b"")) == [(b"a", b"old")]


@pytest.mark.parametrize("start", [b"", b"a", b"aa", b"b", b"c", b"d"])
@pytest.mark.parametrize("stop", [None, b"a", b"b", b"bb", b"c", b"d"])
def test_scan_gives_the_half_open_range_both_ways(
    index: Index, start: bytes, stop: bytes | None
) -> None:
    index.commit_now(Batch(writes=tuple(put(key) for key in (b"a", b"b", b"bb", b"c"))))
    expected = [
        key for key in (b"a", b"b", b"bb", b"c") if key >= start and (stop is None or key < stop)
    ]
    with index.view() as view:
        assert [key for key, _ in view.scan(STORE, start, stop)] == expected
        assert [key for key, _ in view.scan(STORE, start, stop, reverse=True)] == expected[::-1]


@pytest.mark.parametrize("start", [b"", b"a", b"ba", b"bb", b"d"])
@pytest.mark.parametrize("stop", [None, b"b", b"bb", b"c"])
def test_keys_gives_those_of_a_scan(index: Index, start: bytes, stop: bytes | None) -> None:
    every = (b"a", b"b", b"bb", b"c")
    index.commit_now(Batch(writes=tuple(put(key) for key in every)))
    expected = [key for key in every if key >= start and (stop is None or key < stop)]
    with index.view() as view:
        assert list(view.keys(STORE, start, stop)) == expected


def test_first_gives_what_a_scan_would_begin_with(index: Index) -> None:
    index.commit_now(Batch(writes=tuple(put(key) for key in (b"b", b"bb", b"d"))))
    with index.view() as view:
        for start in (b"d", b"a", b"c", b"b", b"e", b"bb"):
            for stop in (b"a", b"b", b"c", b"z"):
                expected = next(view.scan(STORE, start, stop), None)
                assert view.first(STORE, start, stop) == expected
        assert view.first(Store.LOG, b"a", b"z") is None


def test_take_gives_the_first_rows_of_a_scan(index: Index) -> None:
    index.commit_now(Batch(writes=tuple(put(key) for key in (b"b", b"bb", b"d"))))
    with index.view() as view:
        for start in (b"d", b"a", b"c", b"b", b"e", b"bb"):
            for stop in (b"a", b"b", b"c", b"d", b"z"):
                for count in (1, 2, 9):
                    expected = list(view.scan(STORE, start, stop))[:count]
                    assert view.take(STORE, start, stop, count) == expected
                    keys, values = view.take_columns(STORE, start, stop, count)
                    assert list(zip(keys, values, strict=True)) == expected


def test_stores_do_not_share_keys(index: Index) -> None:
    index.commit_now(Batch(writes=(put(b"a"),)))
    assert index.get(Store.LOG, b"a") is None


def test_a_commit_cancelled_while_it_waits_does_not_affect_others(
    index: Index, disk: Counting
) -> None:
    async def cancel_one() -> None:
        disk.gate.clear()
        first = asyncio.create_task(index.commit(Batch(writes=(put(b"first"),))))
        await asyncio.sleep(0)
        second = asyncio.create_task(index.commit(Batch(writes=(put(b"second"),))))
        third = asyncio.create_task(index.commit(Batch(writes=(put(b"third"),))))
        await asyncio.sleep(0)
        second.cancel()
        disk.gate.set()
        await asyncio.gather(first, third)

    asyncio.run(cancel_one())
    assert (b"third", b"v") in rows(index)


def test_after_a_sync_that_failed_the_outcome_is_unknown_and_no_write_follows(
    index: Index, disk: Counting
) -> None:
    index.commit_now(Batch(writes=(put(b"a"),)))
    disk.failure = OSError(5, "input/output error")
    with pytest.raises(errors.CommitUnknown):
        index.commit_now(Batch(writes=(put(b"b"),)))
    disk.failure = None
    with pytest.raises(errors.CommitRefused):
        index.commit_now(Batch(writes=(put(b"c"),)))
    assert index.get(STORE, b"a") == b"v"


def test_a_closed_index_takes_no_more(tmp_path: Path) -> None:
    index = Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=1 << 24)
    index.close()
    index.close()
    with pytest.raises(errors.IndexClosed):
        index.commit_now(Batch(writes=(put(b"a"),)))


def test_what_was_committed_is_there_when_the_index_opens_again(tmp_path: Path) -> None:
    index = Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=1 << 24)
    index.commit_now(Batch(writes=(put(b"a"),)))
    index.close()
    again = Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=1 << 24)
    assert rows(again) == [(b"a", b"v")]
    again.close()


def fill(index: Index, value_bytes: int = 100_000) -> int:
    """Write until there is no room; return how many values fitted."""
    count = 0
    while True:
        try:
            index.commit_now(Batch(writes=(put(b"%06d" % count, b"x" * value_bytes),)))
        except errors.DiskFull:
            return count
        count += 1


def test_a_full_map_refuses_writes_while_reads_and_deletions_go_on(tmp_path: Path) -> None:
    index = Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=8 << 20, reserve_bytes=1 << 20)
    count = fill(index)
    assert count > 40
    assert index.get(STORE, b"000000") == b"x" * 100_000
    assert len(rows(index)) == count
    with pytest.raises(errors.DiskFull):
        index.commit_now(Batch(writes=(put(b"small"),)))
    for number in range(count):
        delete = Delete(store=STORE, key=b"%06d" % number)
        index.commit_now(Batch(writes=(delete,), makes_room=True))
    index.tend()
    index.commit_now(Batch(writes=(put(b"again", b"x" * 100_000),)))
    assert [key for key, _ in rows(index)] == [b"again"]
    index.close()


def test_a_batch_too_large_for_the_room_left_spares_the_small_ones_beside_it(
    tmp_path: Path,
) -> None:
    disk = Counting()
    index = Index(path=tmp_path / "i", disk=disk, map_size_bytes=8 << 20, reserve_bytes=1 << 20)

    async def together() -> list[Any]:
        disk.gate.clear()
        first = asyncio.create_task(index.commit(Batch(writes=(put(b"first"),))))
        await asyncio.sleep(0)
        tasks = [
            asyncio.create_task(index.commit(Batch(writes=(put(key, value),))))
            for key, value in ((b"a", b"1"), (b"huge", b"x" * (20 << 20)), (b"b", b"2"))
        ]
        await asyncio.sleep(0)
        disk.gate.set()
        return await asyncio.gather(first, *tasks, return_exceptions=True)

    results = asyncio.run(together())
    assert [type(each) for each in results] == [
        type(None), type(None), errors.DiskFull, type(None),
    ]  # fmt: skip
    assert rows(index) == [(b"a", b"1"), (b"b", b"2"), (b"first", b"v")]
    index.close()


class Full(Disk):
    """A disk without room: index transactions fail until the ballast has given way."""

    def __init__(self) -> None:
        self.full = False
        self.ballast_gone = False

    def transact(self, commit: Callable[[], Any]) -> None:
        if self.full and not self.ballast_gone:
            raise errors.DiskFull("no room")
        super().transact(commit)

    def unlink(self, path: Path) -> None:
        self.ballast_gone = self.ballast_gone or path.name == "reserve"
        super().unlink(path)

    def allocate(self, path: Path, size_bytes: int) -> None:
        if self.full:
            raise errors.DiskFull("no room")
        super().allocate(path, size_bytes)


def test_a_full_disk_gives_its_ballast_to_deletions_and_to_nothing_else(tmp_path: Path) -> None:
    disk = Full()
    index = Index(path=tmp_path / "i", disk=disk, map_size_bytes=8 << 20, reserve_bytes=1 << 20)
    index.commit_now(Batch(writes=(put(b"a"), put(b"b"))))
    disk.full = True
    with pytest.raises(errors.DiskFull):
        index.commit_now(Batch(writes=(put(b"c"),)))
    assert (tmp_path / "i" / "reserve").exists()
    index.commit_now(Batch(writes=(Delete(store=STORE, key=b"a"),), makes_room=True))
    assert not (tmp_path / "i" / "reserve").exists()
    with pytest.raises(errors.DiskFull):
        index.commit_now(Batch(writes=(put(b"c"),)))
    index.tend()
    with pytest.raises(errors.DiskFull):
        index.commit_now(Batch(writes=(put(b"c"),)))
    disk.full = False
    index.tend()
    assert (tmp_path / "i" / "reserve").stat().st_size == 1 << 20
    index.commit_now(Batch(writes=(put(b"c"),)))
    assert [key for key, _ in rows(index)] == [b"b", b"c"]
    index.close()


class Allocating(Disk):
    """A disk whose last room goes into the reserve, until that fails for want of more."""

    def __init__(self) -> None:
        self.full = False
        self.allocating, self.go_on = threading.Event(), threading.Event()

    def transact(self, commit: Callable[[], Any]) -> None:
        if self.full:
            if self.allocating.is_set():
                self.go_on.set()
            raise errors.DiskFull("no room")
        super().transact(commit)

    def allocate(self, path: Path, size_bytes: int) -> None:
        super().allocate(path, size_bytes)
        self.full = True
        self.allocating.set()
        assert self.go_on.wait(60)
        self.full = False
        raise errors.DiskFull("no room")


def test_a_deletion_waits_for_room_that_a_new_reserve_takes_and_gives_back(tmp_path: Path) -> None:
    disk = Allocating()
    disk.go_on.set()
    index = Index(path=tmp_path / "i", disk=disk, map_size_bytes=8 << 20, reserve_bytes=1 << 20)
    index.commit_now(Batch(writes=(put(b"a"), put(b"b")), makes_room=True))
    disk.allocating.clear()
    disk.go_on.clear()
    tending = threading.Thread(target=index.tend)
    tending.start()
    assert disk.allocating.wait(60)
    index.commit_now(Batch(writes=(Delete(store=STORE, key=b"a"),), makes_room=True))
    tending.join()
    assert [key for key, _ in rows(index)] == [b"b"]
    assert list((tmp_path / "i").glob("reserve*")) == []
    index.close()


class Looking(Full):
    """A disk on which the reserve goes, if it may, right after `tend` has seen it."""

    def __init__(self) -> None:
        super().__init__()
        self.looks, self.seen, self.gone = 0, threading.Event(), threading.Event()

    def exists(self, path: Path) -> bool:
        is_there = super().exists(path)
        if threading.current_thread().name == "tending" and path.name == "reserve":
            self.looks += 1
            if self.looks == 2:
                self.seen.set()
                self.gone.wait(1)
        return is_there

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if path.name == "reserve":
            self.gone.set()


def test_an_index_whose_reserve_goes_while_its_room_is_measured_is_crowded(tmp_path: Path) -> None:
    disk = Looking()
    index = Index(path=tmp_path / "i", disk=disk, map_size_bytes=8 << 20, reserve_bytes=1 << 20)
    index.commit_now(Batch(writes=(put(b"a"), put(b"b"))))
    tending = threading.Thread(target=index.tend, name="tending")
    disk.full = True
    tending.start()
    assert disk.seen.wait(60)
    index.commit_now(Batch(writes=(Delete(store=STORE, key=b"a"),), makes_room=True))
    tending.join()
    assert not (tmp_path / "i" / "reserve").exists()
    assert index.is_crowded
    index.close()


class Measured(Full):
    """A disk with so much room as a test says."""

    left_bytes = 1 << 30

    def room_bytes(self, path: Path) -> int:
        return self.left_bytes


def test_a_reserve_is_not_begun_where_the_disk_has_no_room_for_it(tmp_path: Path) -> None:
    disk = Measured()
    index = Index(path=tmp_path / "i", disk=disk, map_size_bytes=8 << 20, reserve_bytes=1 << 20)
    disk.full = True
    index.commit_now(Batch(writes=(put(b"a"),), makes_room=True))
    disk.full = False
    room_bytes = (1 << 20) + BESIDE_RESERVE_BYTES
    for left, is_there in ((room_bytes - 1, False), (room_bytes, True)):
        disk.left_bytes = left
        index.tend()
        assert [each.name for each in (tmp_path / "i").glob("reserve*")] == ["reserve"] * is_there
        assert index.is_crowded != is_there
    index.close()


class Shared(Disk):
    """A disk on which a begun reserve takes all room that a reserve needs."""

    def room_bytes(self, path: Path) -> int:
        room_bytes = (1 << 20) + BESIDE_RESERVE_BYTES
        return room_bytes - sum(each.stat().st_size for each in path.glob("reserve.new"))


def test_a_reserve_that_a_crash_left_half_allocated_gives_its_room_back(tmp_path: Path) -> None:
    settings = {"path": tmp_path / "i", "map_size_bytes": 8 << 20, "reserve_bytes": 1 << 20}
    Index(disk=Disk(), **settings).close()
    (tmp_path / "i" / "reserve").rename(tmp_path / "i" / "reserve.new")
    index = Index(disk=Shared(), **settings)
    assert [each.name for each in (tmp_path / "i").glob("reserve*")] == ["reserve"]
    assert not index.is_crowded
    index.close()


class MetaFull(Disk):
    """A disk that has no room for LMDB's meta page, which is written last."""

    def __init__(self) -> None:
        self.full_at: Path | None = None

    def transact(self, commit: Callable[[], Any]) -> None:
        if self.full_at is not None:
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, _synchronous_descriptor(self.full_at))
            os.close(full)
        super().transact(commit)


def _synchronous_descriptor(path: Path) -> int:
    """Return the descriptor of a file by which LMDB writes meta pages: it is opened O_DSYNC."""
    for link in Path("/proc/self/fd").iterdir():
        descriptor = int(link.name)
        try:
            is_synchronous = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DSYNC
            if is_synchronous and link.readlink() == path:
                return descriptor
        except OSError:  # the descriptor of the listing itself is closed by now
            continue
    raise AssertionError(f"{path} is not open for synchronous writes")


def test_without_room_for_the_meta_page_the_outcome_is_unknown_and_no_write_follows(
    tmp_path: Path,
) -> None:
    """LMDB says ENOSPC here too, but the state may be the new one: it is no refusal."""
    disk = MetaFull()
    index = Index(path=tmp_path / "i", disk=disk, map_size_bytes=8 << 20, reserve_bytes=1 << 20)
    index.commit_now(Batch(writes=(put(b"a"),)))
    disk.full_at = (tmp_path / "i" / "data.mdb").resolve()
    with pytest.raises(errors.CommitUnknown):
        index.commit_now(Batch(writes=(put(b"b"),)))
    disk.full_at = None
    with pytest.raises(errors.CommitRefused):
        index.commit_now(Batch(writes=(Delete(store=STORE, key=b"a"),), makes_room=True))
    assert (tmp_path / "i" / "reserve").exists()
    index.close()
    again = Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=8 << 20, reserve_bytes=1 << 20)
    assert rows(again)[0] == (b"a", b"v")
    again.commit_now(Batch(writes=(put(b"c"),)))
    again.close()


class ReadOnly(Counting):
    """A disk that is full, and then takes no writes at all."""

    def unlink(self, path: Path) -> None:
        if self.failure is not None:
            raise errors.DiskReadOnly("no writes")
        super().unlink(path)


@pytest.mark.parametrize("makes_room", [False, True])
@pytest.mark.parametrize(
    "failure",
    [errors.DiskFull("no room"), lmdb.Error("mdb_txn_commit: Read-only file system")],
)
def test_a_disk_that_takes_no_writes_refuses_also_what_makes_room(
    tmp_path: Path, failure: Exception, makes_room: bool
) -> None:
    disk = ReadOnly()
    index = Index(path=tmp_path / "i", disk=disk, map_size_bytes=8 << 20, reserve_bytes=1 << 20)
    index.commit_now(Batch(writes=(put(b"a"), put(b"b"))))
    disk.failure = failure
    is_read_only = makes_room or isinstance(failure, lmdb.Error)
    with pytest.raises(errors.DiskReadOnly if is_read_only else errors.DiskFull):
        index.commit_now(Batch(writes=(Delete(store=STORE, key=b"a"),), makes_room=makes_room))
    index.tend()
    assert [key for key, _ in rows(index)] == [b"a", b"b"]
    disk.failure = None
    index.commit_now(Batch(writes=(Delete(store=STORE, key=b"a"),)))
    assert [key for key, _ in rows(index)] == [b"b"]
    index.close()


class Unremovable(Full):
    """A full disk whose reserve cannot be removed: some file systems need room for that, too."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure

    def unlink(self, path: Path) -> None:
        if self.full and path.name == "reserve":
            raise self.failure
        super().unlink(path)


@pytest.mark.parametrize(
    "failure", [errors.DiskFull("no room"), OSError(errno.EIO, "Input/output error")]
)
def test_a_reserve_that_cannot_be_removed_refuses_what_makes_room_and_the_writer_goes_on(
    tmp_path: Path, failure: Exception
) -> None:
    disk = Unremovable(failure)
    index = Index(path=tmp_path / "i", disk=disk, map_size_bytes=8 << 20, reserve_bytes=1 << 20)
    deletion = Batch(writes=(Delete(store=STORE, key=b"a"),), makes_room=True)

    async def work() -> None:
        await index.commit(Batch(writes=(put(b"a"), put(b"b"))))
        disk.full = True
        for _ in range(2):
            with pytest.raises(errors.DiskFull):
                await asyncio.wait_for(index.commit(deletion), WAIT_SECONDS)
        disk.full = False
        await asyncio.wait_for(index.commit(deletion), WAIT_SECONDS)

    asyncio.run(work())
    assert [key for key, _ in rows(index)] == [b"b"]
    index.close()


def pages_of(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[start : start + 4096] for start in range(0, len(data), 4096)]


def test_every_torn_copy_of_an_unfinished_transaction_opens_as_before_it(tmp_path: Path) -> None:
    """What a crash can leave: any of a transaction's pages, as long as its meta page is missing."""
    index = Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=1 << 24, reserve_bytes=4096)
    for number in range(200):
        index.commit_now(Batch(writes=(put(b"%04d" % number, b"old" * 50),)))
    before = pages_of(tmp_path / "i" / "data.mdb")
    expected = rows(index)
    change = tuple(put(b"%04d" % number, b"new" * 70) for number in range(0, 200, 3))
    index.commit_now(Batch(writes=(*change, put(b"big", b"x" * 30_000))))
    after = pages_of(tmp_path / "i" / "data.mdb")
    changed_rows = rows(index)
    index.close()

    meta = {number for number in (0, 1) if before[number] != after[number]}
    assert len(meta) == 1
    changed = [
        number
        for number, page in enumerate(after)
        if number > 1 and (number >= len(before) or before[number] != page)
    ]
    assert len(changed) > 10
    choices = [changed[:count] for count in range(len(changed))]
    choices += [[number] for number in changed]
    choices += [changed[::2], changed[1::2]]
    for number, chosen in enumerate(choices):
        pages = list(before)
        for page in chosen:
            pages += [bytes(4096)] * (page + 1 - len(pages))
            pages[page] = after[page] if page % 2 else after[page][:2048] + bytes(2048)
        assert reopened(tmp_path / f"torn{number}", pages) == expected
    assert reopened(tmp_path / "whole", after) == changed_rows


def reopened(path: Path, pages: list[bytes]) -> list[tuple[bytes, bytes]]:
    path.mkdir()
    (path / "data.mdb").write_bytes(b"".join(pages))
    index = Index(path=path, disk=Disk(), map_size_bytes=1 << 24, reserve_bytes=4096)
    rows_there = rows(index)
    index.commit_now(Batch(writes=(put(b"again"),)))
    assert index.get(STORE, b"again") == b"v"
    index.close()
    shutil.rmtree(path)
    return rows_there


def test_an_index_cut_short_is_refused_in_a_sentence(tmp_path: Path) -> None:
    index = Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=1 << 24, reserve_bytes=4096)
    for number in range(100):
        index.commit_now(Batch(writes=(put(b"%04d" % number, b"x" * 500),)))
    index.close()
    whole = (tmp_path / "i" / "data.mdb").read_bytes()
    for size in (1, 100, 4095, 4096, 8192, len(whole) // 2, len(whole) - 1):
        (tmp_path / "i" / "data.mdb").write_bytes(whole[:size])
        with pytest.raises(errors.CorruptIndex):
            Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=1 << 24, reserve_bytes=4096)
    (tmp_path / "i" / "data.mdb").write_bytes(b"\0" * len(whole))
    with pytest.raises(errors.CorruptIndex):
        Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=1 << 24, reserve_bytes=4096)


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from storage.batch import Batch, Put, Store
from storage.disk import Disk
from storage.gathering import GROUP_MAX, TURNS_MAX
from storage.index import Index
index = Index(path=Path(sys.argv[1]), disk=Disk(), map_size_bytes=1 << 26)
number = 0
while True:
    key = b"%08d" % number
    pair = (Put(store=Store.REFS, key=key, value=b"v"), Put(store=Store.LOG, key=key, value=b"v"))
    index.commit_now(Batch(writes=pair))
    print(number, flush=True)
    number += 1
"""


def test_after_kill_9_every_acknowledged_batch_is_there_and_whole(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE_UNTIL_KILLED, str(tmp_path / "i")],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert child.stdout is not None
    acknowledged = -1
    for line in child.stdout:
        acknowledged = int(line)
        if acknowledged >= 150:
            break
    child.kill()
    for line in child.stdout.read().splitlines():
        acknowledged = int(line)
    child.wait()
    child.stdout.close()
    index = Index(path=tmp_path / "i", disk=Disk(), map_size_bytes=1 << 26)
    with index.view() as view:
        refs = [key for key, _ in view.scan(Store.REFS, b"")]
        logged = [key for key, _ in view.scan(Store.LOG, b"")]
    index.close()
    assert refs == logged == [b"%08d" % number for number in range(len(refs))]
    assert acknowledged < len(refs) <= acknowledged + 2


# Decisions: planned inside the transaction that writes them.


def count(reading: Reading) -> Decided[int]:
    """Add one to the counter and return it."""
    number = int(reading.get(STORE, b"n") or b"0") + 1
    return Decided(result=number, batch=Batch(writes=(put(b"n", str(number).encode()),)))


def test_decisions_that_meet_in_one_transaction_see_each_other(
    index: Index, disk: Counting
) -> None:
    async def many() -> list[int]:
        disk.gate.clear()
        waiting = [asyncio.create_task(index.decide(count)) for _ in range(50)]
        await asyncio.sleep(0)
        disk.gate.set()
        return await asyncio.gather(*waiting)

    assert sorted(asyncio.run(many())) == list(range(1, 51))
    assert index.get(STORE, b"n") == b"50"
    assert disk.transactions < 50


def test_a_decision_that_raises_refuses_itself_alone(index: Index) -> None:
    def refuse(reading: Reading) -> Decided[int]:
        raise LookupError("no")

    async def both() -> list[Any]:
        return await asyncio.gather(
            index.decide(refuse), index.decide(count), return_exceptions=True
        )

    refused, counted = asyncio.run(both())
    assert isinstance(refused, LookupError)
    assert counted == 1


def test_a_decision_whose_batch_is_refused_leaves_nothing_and_returns_nothing(
    index: Index,
) -> None:
    def forget(reading: Reading) -> Sequence[Write]:
        raise LookupError("no")

    def decide(reading: Reading) -> Decided[int]:
        return Decided(result=1, batch=Batch(writes=(put(b"a"),), derive=(forget,)))

    with pytest.raises(LookupError):
        asyncio.run(index.decide(decide))
    assert rows(index) == []


def test_a_decision_sees_a_state_that_is_not_committed_and_a_view_one_that_is(
    index: Index,
) -> None:
    def decide(reading: Reading) -> Decided[bool]:
        return Decided(result=reading.is_committed)

    assert asyncio.run(index.decide(decide)) is False
    with index.view() as view:
        assert view.is_committed


def test_a_decision_that_makes_room_goes_through_when_others_are_refused(
    tmp_path: Path,
) -> None:
    opened = Index(
        path=tmp_path / "small", disk=Disk(), map_size_bytes=1 << 20, reserve_bytes=512 << 10
    )
    try:

        def fill() -> None:
            for number in range(1000):
                opened.commit_now(Batch(writes=(put(b"%d" % number, b"x" * 4096),)))

        with pytest.raises(errors.DiskFull):
            fill()

        def remove(reading: Reading) -> Decided[None]:
            return Decided(result=None, batch=Batch(writes=(Delete(store=STORE, key=b"0"),)))

        with pytest.raises(errors.DiskFull):
            asyncio.run(opened.decide(count))
        asyncio.run(opened.decide(remove, makes_room=True))
        assert opened.get(STORE, b"0") is None
    finally:
        opened.close()


def refuse(index: Index) -> None:
    """Fail in the middle of a read, as a search for a name that is not there does."""
    with index.view() as view:
        scan = view.scan(STORE, b"")
        assert next(scan) == (b"a", b"v")
        assert view.first(STORE, b"a", b"b") == (b"a", b"v")
        raise errors.NoSuchKey("not there")


def test_a_view_that_a_kept_exception_remembers_holds_no_reader_slot(index: Index) -> None:
    asyncio.run(index.commit(Batch(writes=(put(b"a"), put(b"b")))))
    kept: list[errors.NoSuchKey] = []
    for _ in range(READERS_MAX + 10):
        with pytest.raises(errors.NoSuchKey) as caught:
            refuse(index)
        kept.append(caught.value)
    assert all(each.__traceback__ is not None for each in kept)
    assert rows(index) == [(b"a", b"v"), (b"b", b"v")]
