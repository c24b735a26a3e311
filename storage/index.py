"""engine: the one LMDB environment; one writer thread groups Batches, readers never block.

All Batches that wait when the writer is ready share one transaction, up to GROUP_MAX, so that one
sync makes all of them durable and one callback returns all results to the loop. The loop submits
its Batches together (`storage.gathering`). A Batch is refused alone:
its expectations are checked before its first write, and if one of its derivations refuses, the
Batch's writes are undone. Without room the whole group is undone and each Batch is tried alone, so
that a large write does not make small ones, or deletions, fail.

A Batch that counts many rows (`Reading.weigh`) holds up the writer. It is undone, and planned again
in a long turn, which one Batch of a loop has at a time, so that Batches of others get in between.

Room for deletions: the last reserve_bytes of the map, and a file of as many real bytes that is
released when the disk itself is full. Batches that do not make room are refused until both exist
again.

When LMDB fails to write its meta page, the outcome is unknown: the Batches get CommitUnknown, and
every later one is refused. After a failure before that page the old state is in force.
"""

from __future__ import annotations

import asyncio
import bisect
import concurrent.futures
import contextlib
import functools
import itertools
import queue
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import lmdb
import msgspec

from storage import batch as batches
from storage import errors, gathering
from storage.batch import Batch, Decision, Put, Store, TakesLong, Write
from storage.disk import READ_ONLY_TEXTS, Disk
from storage.gathering import GROUP_MAX

Result = TypeVar("Result")

GROUP_BYTES_MAX = 32 << 20
APPLYING_SECONDS_MAX = 0.005
"""How long a loop waits while the writer applies its Batches. Sixteen commits take one millisecond;
a long decision does not hold up the loop's other work."""
LONG_ROWS = 100
"""Rows that a Batch may count without a long turn: 1.5 ms of the writer; 10,000 take 0.15 s."""
MAP_SIZE_BYTES = 1 << 40
RESERVE_BYTES = 8 << 20
SHORT_OF_ROOM_BYTES = 32 << 20
BESIDE_RESERVE_BYTES = 1 << 20
"""What the reserve, when it is allocated, leaves to commits and logs."""
READERS_MAX = 1024
KEY_BYTES_MAX = 511
BUCKET_ID_BYTES = 4
BUCKET_RECORDS = b"buckets"
SETTINGS_RECORDS = b"settings"
"""What stands for all records of these stores where changes are counted, beside the buckets'
ids."""
META_MAGIC = 0xBEEFC0DE
SERVER_ID = b"server_id"
"""The row of Store.META with the server id of the index's folder."""
LAYING_BODIES = (
    Store.META,
    Store.BUCKETS,
    Store.OBJECTS,
    Store.VERSIONS,
    Store.PREFIXES,
    Store.BLOBS,
    Store.UPLOADS,
    Store.PARTS,
    Store.RELEASED,
)
"""The stores whose records name blobs."""
READ_AT_REST = (*LAYING_BODIES, Store.LOG, Store.REFS)
"""The stores that are read without a server: blobs are named there, or commits are logged."""


class ReadView:
    """One consistent state of the index. Keep it short: an old view makes the file grow."""

    __slots__ = ("_cursors", "_databases", "_transaction")

    is_committed = True

    def __init__(self, transaction: Any, databases: dict[Store, Any]) -> None:
        self._transaction = transaction
        self._databases = databases
        self._cursors: dict[Store, Any] | None = None

    def __enter__(self) -> ReadView:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # An aborted transaction keeps its reader slot until its last reference is gone, and the
        # traceback of a stored exception may keep this ReadView for long. Without this, some
        # thousand of them use up all slots, and every read fails.
        self._transaction.abort()
        self._transaction = self._cursors = None

    def get(self, store: Store, key: bytes) -> bytes | None:
        """Return the value under key, or None."""
        value: bytes | None = self._transaction.get(key, db=self._databases[store])
        return value

    def first(self, store: Store, start: bytes, stop: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row with start <= key < stop; repeated calls share one cursor."""
        if self._cursors is None:
            self._cursors = {}
        cursor = self._cursors.get(store)
        if cursor is None:
            cursor = self._cursors[store] = self._transaction.cursor(db=self._databases[store])
        if not cursor.set_range(start):
            return None
        row: tuple[bytes, bytes] = cursor.item()
        return row if row[0] < stop else None

    def take(
        self, store: Store, start: bytes, stop: bytes, count: int
    ) -> list[tuple[bytes, bytes]]:
        """Return the first count rows with start <= key < stop, ascending."""
        return list(zip(*self.take_columns(store, start, stop, count), strict=True))

    def take_columns(
        self, store: Store, start: bytes, stop: bytes, count: int
    ) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values of the first count rows with start <= key < stop, ascending.

        Each column is read on its own: that costs less than a tuple for each row.
        """
        with self._transaction.cursor(db=self._databases[store]) as cursor:
            if not cursor.set_range(start):
                return [], []
            keys = list(itertools.islice(cursor.iternext(keys=True, values=False), count))
            if keys and keys[-1] >= stop:
                del keys[bisect.bisect_left(keys, stop) :]
            cursor.set_range(start)
            return keys, list(itertools.islice(cursor.iternext(keys=False), len(keys)))

    def weigh(self, rows: int) -> None:
        """Do nothing: what reads a committed state holds up no writer."""

    def count(self, store: Store) -> int:
        """Return the number of a store's rows."""
        entries: int = self._transaction.stat(self._databases[store])["entries"]
        return entries

    def keys(self, store: Store, start: bytes, stop: bytes | None = None) -> Iterator[bytes]:
        """Yield the keys of `scan`, without a look at the values."""
        with self._transaction.cursor(db=self._databases[store]) as cursor:
            if cursor.set_range(start) if start else cursor.first():
                for key in cursor.iternext(keys=True, values=False):
                    if stop is not None and key >= stop:
                        return
                    yield key

    def scan(
        self, store: Store, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) for start <= key < stop, ascending; with reverse, descending.

        stop None means the end of the store.
        """
        with self._transaction.cursor(db=self._databases[store]) as cursor:
            if reverse:
                yield from _descend(cursor, start, stop)
                return
            if not (cursor.set_range(start) if start else cursor.first()):
                return
            if stop is None:
                yield from cursor
                return
            for row in cursor:
                if row[0] >= stop:
                    return
                yield row


class Index:
    """The index of a data folder. See the module for its guarantees."""

    is_committed = True

    def __init__(
        self,
        *,
        path: Path,
        disk: Disk,
        map_size_bytes: int = MAP_SIZE_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> None:
        disk.make_folder(path)
        check_file(path / "data.mdb", disk)
        self._disk = disk
        self._ballast = path / "reserve"
        self._reserve_bytes = reserve_bytes
        # Held while the reserve is allocated: its bytes are neither room nor a reserve until then;
        # and while `_crowded` is measured and set, so that it says what the reserve's last change
        # left.
        self._allocating = threading.Lock()
        self._environment = _open_environment(path, map_size_bytes)
        self._changes: Counter[bytes] = Counter()
        # What the open transaction has changed. Only the writer thread replaces and fills it.
        self._changing: set[bytes] = set()
        self._crowded = False
        self._broken: BaseException | None = None
        self._closed = False
        self._queue: queue.SimpleQueue[_Group | None] = queue.SimpleQueue()
        self._lanes: dict[asyncio.AbstractEventLoop, gathering.Lane[_Waiting]] = {}
        self._patience = gathering.Patience()
        self._long_turns: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}
        try:
            self._databases = self._open_databases()
            page_bytes = self._environment.stat()["psize"]
            self._soft_pages_max = (map_size_bytes - reserve_bytes) // page_bytes
            self.tend()
        except BaseException:
            self._environment.close()
            raise
        self._applying: list[threading.Lock] = []
        self._writer = threading.Thread(target=self._run, name="index-writer", daemon=True)
        self._writer.start()

    def close(self) -> None:
        """Commit the waiting Batches, then close the environment. All views must be closed."""
        if self._closed:
            return
        self._closed = True
        for lane in list(self._lanes.values()):
            self._queue.put(_Group(waiting=lane.take()))
        self._queue.put(None)
        self._writer.join()
        self._environment.close()

    def view(self) -> ReadView:
        """Open one consistent read; use it as a context manager and keep it short."""
        return ReadView(self._environment.begin(), self._databases)

    def object_changes(self, bucket_id: int) -> int:
        """Return a number that grows with every change of a bucket's objects.

        Noted before a view is opened, and the same inside a transaction: then the bucket's objects
        are those of the view. It starts anew with each process.
        """
        return self._changes[bucket_id.to_bytes(BUCKET_ID_BYTES, "big")]

    def bucket_changes(self) -> int | None:
        """Return a number that grows with every change of a bucket's record; None while a
        transaction that changes one is open.

        A record that was read after it was returned is the newest one if it is returned again.
        """
        return self._changes_settled(BUCKET_RECORDS)

    def settings_changes(self) -> int | None:
        """Return a number that grows with every change of the settings of a table bucket or a
        table; see `bucket_changes`."""
        return self._changes_settled(SETTINGS_RECORDS)

    def _changes_settled(self, changed: bytes) -> int | None:
        # The count first: a transaction that begins or ends in between has raised it by then.
        changes = self._changes[changed]
        return None if changed in self._changing else changes

    def get(self, store: Store, key: bytes) -> bytes | None:
        """Return the value under key in the newest committed state, or None."""
        with self._environment.begin() as transaction:
            value: bytes | None = transaction.get(key, db=self._databases[store])
            return value

    async def commit(self, batch: Batch) -> None:
        """Commit batch, all or nothing; it is durable when this returns.

        Raises ExpectationFailed, DiskFull, CommitUnknown, or what a derivation raised. Cancelled
        while it waits, its outcome is unknown to the caller: it may still be done.
        """
        try:
            await self._submit(batch, None)
        except TakesLong:
            async with self._long_turn():
                await self._submit(batch, None, has_long_turn=True)

    async def decide(self, decision: Decision[Result], *, makes_room: bool = False) -> Result:
        """Write the Batch that decision plans inside the transaction; return its durable result.

        makes_room: as of a Batch; the decision's own Batch need not repeat it. Raises decision's
        errors, and those of `commit`.
        """
        batch = _MAKING_ROOM if makes_room else _EMPTY
        try:
            return await self._submit(batch, decision)
        except TakesLong:
            async with self._long_turn():
                return await self._submit(batch, decision, has_long_turn=True)

    def start(self, decision: Decision[Result]) -> asyncio.Future[Result]:
        """Do what `decide` does, for a caller that needs no task: return the result's future.

        The future may have TakesLong: then `decide` does it.
        """
        return self._submit(_EMPTY, decision)

    def _long_turn(self) -> asyncio.Lock:
        """Return the lock of the long turns of this loop, of which one Batch has one at a time."""
        return self._long_turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    def _submit(
        self, batch: Batch, decision: Decision[Result] | None, *, has_long_turn: bool = False
    ) -> asyncio.Future[Result]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        waiting = _Waiting(
            batch=batch, decision=decision, future=future, loop=loop, has_long_turn=has_long_turn
        )
        self._gather(waiting, loop)
        return future

    def commit_now(self, batch: Batch) -> None:
        """Commit, blocking; for threads without an event loop, such as recovery."""
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        if self._closed:
            raise _closed()
        waiting = _Waiting(batch=batch, future=future, loop=None, has_long_turn=True)
        self._queue.put(_Group(waiting=[waiting]))
        future.result()

    def tend(self) -> None:
        """Measure the free room, and restore the reserve if it was released and has room."""
        with self._allocating:
            if not self._disk.exists(self._ballast):
                self._restore_reserve()
            self._crowded = self._is_crowded()

    def _restore_reserve(self) -> None:
        aside = self._ballast.with_name(self._ballast.name + ".new")
        # What a process that ended within this has left takes the room that is looked for.
        self._disk.unlink(aside)
        room_bytes = self._disk.room_bytes(self._ballast.parent)
        if room_bytes < self._reserve_bytes + BESIDE_RESERVE_BYTES:
            return
        try:
            self._disk.allocate(aside, self._reserve_bytes)
            self._disk.move(aside, self._ballast)
        except errors.DiskFull:
            with contextlib.suppress(errors.DiskReadOnly):
                self._disk.unlink(aside)

    @property
    def is_crowded(self) -> bool:
        """Whether only Batches that make room are accepted."""
        return self._crowded

    def _open_databases(self) -> dict[Store, Any]:
        """Open every store, creating the missing ones, in one transaction."""
        transaction = self._environment.begin(write=True)
        databases = _databases_of(self._environment, transaction)
        _commit_first(transaction, self._disk)
        return databases

    def _gather(self, waiting: _Waiting, loop: asyncio.AbstractEventLoop) -> None:
        if self._closed:
            raise _closed()
        lane = self._lanes.get(loop)
        if lane is None:
            self._forget_loops_that_ended()
            lane = self._lanes[loop] = gathering.Lane(
                loop,
                hand_over=self._hand_over,
                end=functools.partial(self._lanes.pop, loop, None),
                patience=self._patience,
                clock=time.perf_counter,
            )
        lane.add(waiting)

    def _forget_loops_that_ended(self) -> None:
        # A loop that ends while a group waits for clients never calls its Lane's end.
        for loop in (*self._lanes, *self._long_turns):
            if loop.is_closed():
                self._lanes.pop(loop, None)
                self._long_turns.pop(loop, None)

    def _hand_over(self, group: list[_Waiting]) -> None:
        """Pass a loop's Batches to the writer, and wait while it applies them.

        Each look of the writer into the index frees the interpreter. A loop that runs meanwhile
        takes it, and both threads wait for each other a dozen times per Batch.
        """
        applied = threading.Lock()
        applied.acquire()
        self._queue.put(_Group(waiting=group, applied=applied))
        applied.acquire(timeout=APPLYING_SECONDS_MAX)

    def _run(self) -> None:
        while True:
            group = self._queue.get()
            if group is None:
                return
            groups = [group]
            waiting = list(group.waiting)
            stop = False
            with contextlib.suppress(queue.Empty):
                while len(waiting) < GROUP_MAX and not stop:
                    following = self._queue.get_nowait()
                    if following is None:
                        stop = True
                    else:
                        groups.append(following)
                        waiting.extend(following.waiting)
            self._applying = [each.applied for each in groups if each.applied is not None]
            while waiting:
                left = self._commit_group(waiting[:GROUP_MAX])
                waiting = left + waiting[GROUP_MAX:]
            self._note_applied()
            if stop:
                return

    def _note_applied(self) -> None:
        """Let the loops go on whose Batches are in the open transaction."""
        for applied in self._applying:
            applied.release()
        self._applying = []

    def _commit_group(self, group: list[_Waiting]) -> list[_Waiting]:
        """Commit as much of group as fits one transaction, settle it, and return the rest."""
        if self._broken is not None:
            refusal = errors.CommitRefused(
                f"the index takes no more writes since one failed: {self._broken!r}"
            )
            self._settle([_Settled(waiting=each, error=refusal) for each in group])
            return []
        settled: list[_Settled] = []
        try:
            self._transact(group, settled)
        except _NoRoom as full:
            if len(group) == 1:
                self._settle([self._commit_from_reserve(group[0], full)])
            else:
                for each in group:
                    self._commit_group([each])
            return []
        except BaseException as error:  # noqa: BLE001 - the outcome is unknown after any error
            self._broken = error
            unknown = errors.CommitUnknown(f"whether the index was written is unknown: {error!r}")
            self._settle([_Settled(waiting=each, error=unknown) for each in group])
            return []
        self._settle(settled)
        return group[len(settled) :]

    def _transact(self, group: Sequence[_Waiting], settled: list[_Settled]) -> None:
        transaction = self._environment.begin(write=True)
        writing = _Writing(transaction, self._databases, self._changes)
        self._changing = writing.changed
        try:
            self._write_group(transaction, writing, group, settled)
        finally:
            self._changing = set()

    def _write_group(
        self,
        transaction: Any,
        writing: _Writing,
        group: Sequence[_Waiting],
        settled: list[_Settled],
    ) -> None:
        """Apply a group's Batches in the open transaction, then commit it or undo it."""
        try:
            for each in group:
                settled.append(self._apply(each, writing))
                if writing.written_bytes > GROUP_BYTES_MAX:
                    break
        except BaseException as error:
            transaction.abort()
            if _is_full(error):
                raise _NoRoom(str(error)) from error
            if isinstance(error, lmdb.Error):
                failure = _refusal(error, f"the index refused a write: {error}")
                settled[:] = [_Settled(waiting=each, error=failure) for each in group]
                return
            raise
        if all(each.error is not None for each in settled):
            transaction.abort()
            return
        self._note_applied()
        try:
            self._disk.transact(transaction.commit)
        except BaseException as error:
            with contextlib.suppress(lmdb.Error):
                transaction.abort()
            # First: LMDB reports a meta page that it could not write as a full disk, too.
            if self._is_poisoned():
                raise
            if _is_full(error) or self._is_short_write(error):
                raise _NoRoom(str(error)) from error
            if isinstance(error, lmdb.Error):
                failure = _refusal(error, f"the disk failed the index: {error}")
                settled[:] = [_Settled(waiting=each, error=failure) for each in group]
                return
            raise
        # Once more: a view that was opened since the write was counted does not have it.
        for changed in writing.changed:
            self._changes[changed] += 1
        if not self._crowded and self._environment.info()["last_pgno"] >= self._soft_pages_max:
            with self._allocating:
                self._crowded = self._is_crowded()

    def _apply(self, waiting: _Waiting, writing: _Writing) -> _Settled:
        """Apply a Batch in the open transaction; undo it if it is refused."""
        if self._crowded and not waiting.batch.makes_room:
            return _Settled(
                waiting=waiting,
                error=errors.DiskFull("there is no room left in the index for new writes"),
            )
        writing.begin(rows_max=None if waiting.has_long_turn else LONG_ROWS)
        if waiting.decision is None:
            return _Settled(waiting=waiting, error=self._write(waiting.batch, writing))
        try:
            decided = waiting.decision(writing)
        except lmdb.Error:
            raise
        except Exception as error:  # noqa: BLE001 - a refusal is the committer's own
            return _Settled(waiting=waiting, error=error)
        return _Settled(
            waiting=waiting,
            error=self._write(decided.batch, writing),
            result=decided.result,
        )

    def _write(self, batch: Batch, writing: _Writing) -> Exception | None:
        """Apply a Batch, or return the error that refused it; then none of it is left."""
        for each in (*batch.expects, *batch.writes):
            if not 0 < len(each.key) <= KEY_BYTES_MAX:
                return _bad_key(each.store, each.key)
        for expect in batch.expects:
            if writing.get(expect.store, expect.key) != expect.value:
                return errors.ExpectationFailed(
                    f"{expect.store.value} does not have the expected value",
                    store=expect.store,
                    key=expect.key,
                )
        if not batch.derive:
            for write in batch.writes:
                writing.do(write)
            return None
        draft = _Draft(writing)
        try:
            draft.hold(batch.writes)
            for derivation in batch.derive:
                draft.hold(derivation(draft))
        except lmdb.Error:
            raise
        except Exception as error:  # noqa: BLE001 - an error of one Batch must not refuse the others
            draft.undo()
            return error
        draft.apply()
        return None

    def _settle(self, settled: Sequence[_Settled]) -> None:
        """Deliver all results: one callback per event loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Settled]] = {}
        for each in settled:
            if each.waiting.loop is None:
                _finish((each,))
            else:
                by_loop.setdefault(each.waiting.loop, []).append(each)
        for loop, results in by_loop.items():
            try:
                loop.call_soon_threadsafe(self._deliver, loop, results)
            except RuntimeError:  # the loop has ended, and its tasks with it
                self._lanes.pop(loop, None)

    def _deliver(self, loop: asyncio.AbstractEventLoop, settled: Sequence[_Settled]) -> None:
        """Finish what waits for these results, then begin the loop's next group."""
        _finish(settled)
        lane = self._lanes.get(loop)
        if lane is not None:
            lane.settle(len(settled))

    def _commit_from_reserve(self, waiting: _Waiting, full: _NoRoom) -> _Settled:
        """Try a Batch that found no room again, alone, without the reserve, if it makes room."""
        refusal = errors.DiskFull(f"there is no room left for the index: {full}")
        try:
            if not waiting.batch.makes_room:
                with self._allocating:
                    self._crowded = self._is_crowded()
                return _Settled(waiting=waiting, error=refusal)
            # A reserve that is being allocated is whole after this, or its room is free again.
            with self._allocating:
                self._disk.unlink(self._ballast)
                self._crowded = True
        except errors.DiskReadOnly as error:
            return _Settled(waiting=waiting, error=error)
        except (errors.DiskFull, OSError) as error:
            # Some file systems need room to remove a file. The writer has to go on.
            refusal.add_note(f"the reserve was not released: {error!r}")
            return _Settled(waiting=waiting, error=refusal)
        settled: list[_Settled] = []
        try:
            self._transact([waiting], settled)
        except _NoRoom:
            return _Settled(waiting=waiting, error=refusal)
        except BaseException as error:  # noqa: BLE001 - as in _commit_group
            self._broken = error
            unknown = errors.CommitUnknown(f"whether the index was written is unknown: {error!r}")
            return _Settled(waiting=waiting, error=unknown)
        return settled[0]

    def _is_crowded(self) -> bool:
        return not self._disk.exists(self._ballast) or self._map_is_crowded()

    def _is_poisoned(self) -> bool:
        """Return whether LMDB failed to write a meta page; only then is the outcome unknown.

        Any earlier failure leaves the old meta page, and so the old state, in force.
        """
        try:
            self._environment.begin(write=True).abort()
        except lmdb.Error:
            return True
        return False

    def _is_short_write(self, error: BaseException) -> bool:
        """Return whether an I/O error of LMDB means a full disk: it reports short writes so."""
        if not isinstance(error, lmdb.Error) or "Input/output error" not in str(error):
            return False
        return self._disk.room_bytes(self._ballast.parent) < SHORT_OF_ROOM_BYTES

    def _map_is_crowded(self) -> bool:
        if self._environment.info()["last_pgno"] < self._soft_pages_max:
            return False
        return bool(self._used_pages() >= self._soft_pages_max)

    def _used_pages(self) -> int:
        with self._environment.begin() as transaction:
            statistics = [transaction.stat(db=database) for database in self._databases.values()]
        return sum(
            each["branch_pages"] + each["leaf_pages"] + each["overflow_pages"]
            for each in statistics
        )


_EMPTY = Batch()
_MAKING_ROOM = Batch(makes_room=True)


class _Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting committer. decision: plans the Batch; then `batch` only carries makes_room.

    has_long_turn: the Batch may count any number of rows.
    """

    batch: Batch
    future: asyncio.Future[Any] | concurrent.futures.Future[None]
    loop: asyncio.AbstractEventLoop | None
    decision: Decision[Any] | None = None
    has_long_turn: bool = False


class _Group(msgspec.Struct, frozen=True, kw_only=True):
    """Committers that are passed to the writer together. applied: is released once their Batches
    are in the transaction, before it is committed."""

    waiting: list[_Waiting]
    applied: threading.Lock | None = None


class _Settled(msgspec.Struct, frozen=True, kw_only=True):
    """A committer's outcome: error, or result."""

    waiting: _Waiting
    error: Exception | None
    result: Any = None


class _NoRoom(Exception):
    """The map or the disk is full; the transaction was undone."""


class _Writing(ReadView):
    """The open write transaction; derivations read from it."""

    __slots__ = ("_changes", "_rows", "_rows_max", "changed", "written_bytes")

    is_committed = False

    def __init__(
        self, transaction: Any, databases: dict[Store, Any], changes: Counter[bytes]
    ) -> None:
        super().__init__(transaction, databases)
        self._changes = changes
        self._rows = 0
        self._rows_max: int | None = None
        self.changed: set[bytes] = set()
        self.written_bytes = 0

    def begin(self, *, rows_max: int | None) -> None:
        """Begin the next Batch, which may count so many rows."""
        self._rows = 0
        self._rows_max = rows_max

    def weigh(self, rows: int) -> None:
        self._rows += rows
        if self._rows_max is not None and self._rows > self._rows_max:
            raise TakesLong(f"{self._rows} rows, of {self._rows_max} without a long turn")

    def do(self, write: Write) -> None:
        database = self._databases[write.store]
        if write.store is Store.OBJECTS:
            self._count(write.key[:BUCKET_ID_BYTES])
        elif write.store is Store.BUCKETS:
            self._count(BUCKET_RECORDS)
        elif write.store is Store.SETTINGS:
            self._count(SETTINGS_RECORDS)
        if isinstance(write, Put):
            self.written_bytes += len(write.value)
            self._transaction.put(write.key, write.value, db=database)
        else:
            self._transaction.delete(write.key, db=database)

    def _count(self, changed: bytes) -> None:
        self.changed.add(changed)
        self._changes[changed] += 1


class _Draft:
    """The open transaction with the writes of one Batch, which its derivations read.

    The writes are held back until no derivation can refuse the Batch any more, so that most need no
    undoing: a third of a table commit's looks into the index. A scan needs them in their store, so
    it applies them, and they are undone if the Batch is refused.
    """

    __slots__ = ("_held", "_stores", "_undo", "_writing")

    is_committed = False

    def __init__(self, writing: _Writing) -> None:
        self._writing = writing
        self._held: dict[tuple[Store, bytes], Write] = {}
        self._stores: set[Store] = set()
        self._undo: list[Write] = []

    def hold(self, writes: Iterable[Write]) -> None:
        """Add writes to the Batch. Raises CommitRefused for a key that LMDB cannot hold."""
        for write in writes:
            if not 0 < len(write.key) <= KEY_BYTES_MAX:
                raise _bad_key(write.store, write.key)
            self._held[write.store, write.key] = write
            self._stores.add(write.store)

    def get(self, store: Store, key: bytes) -> bytes | None:
        """Return the value under key, or None."""
        write = self._held.get((store, key))
        if write is None:
            return self._writing.get(store, key)
        return write.value if isinstance(write, Put) else None

    def weigh(self, rows: int) -> None:
        """Count rows of the Batch; see `Reading.weigh`."""
        self._writing.weigh(rows)

    def first(self, store: Store, start: bytes, stop: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row with start <= key < stop."""
        return self._scannable(store).first(store, start, stop)

    def take(
        self, store: Store, start: bytes, stop: bytes, count: int
    ) -> list[tuple[bytes, bytes]]:
        """Return the first count rows with start <= key < stop, ascending."""
        return self._scannable(store).take(store, start, stop, count)

    def scan(
        self, store: Store, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) for start <= key < stop; see `View.scan`."""
        return self._scannable(store).scan(store, start, stop, reverse=reverse)

    def apply(self) -> None:
        """Apply the writes that are held back."""
        for write in self._held.values():
            self._writing.do(write)

    def undo(self) -> None:
        """Undo the writes that were applied for a scan."""
        for write in reversed(self._undo):
            self._writing.do(write)

    def _scannable(self, store: Store) -> _Writing:
        if store in self._stores:
            for write in self._held.values():
                self._undo.append(self._inverse_of(write))
                self._writing.do(write)
            self._held.clear()
            self._stores.clear()
        return self._writing

    def _inverse_of(self, write: Write) -> Write:
        before = self._writing.get(write.store, write.key)
        if before is None:
            return batches.Delete(store=write.store, key=write.key)
        return Put(store=write.store, key=write.key, value=before)


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The owner of an index file. server_id: None if the release that wrote it had none.

    names_anything: a bucket was ever created in it.
    """

    server_id: str | None
    names_anything: bool


def create(path: Path, *, server_id: str, disk: Disk, map_size_bytes: int = MAP_SIZE_BYTES) -> None:
    """Create an empty index; after a power cut it is complete, or absent.

    It is created beside path, synced file by file, and moved: LMDB refuses an environment whose
    creation was cut, as its meta page may hold zeros.
    """
    aside = path.with_name(path.name + ".new")
    disk.remove_tree(aside)
    disk.make_folder(aside)
    environment = disk.let_create(aside, lambda: _open_environment(aside, map_size_bytes))
    try:
        transaction = environment.begin(write=True)
        databases = _databases_of(environment, transaction)
        transaction.put(SERVER_ID, server_id.encode(), db=databases[Store.META])
        _commit_first(transaction, disk)
    finally:
        environment.close()
    for name in disk.names(aside):
        disk.fsync_path(aside / name)
    disk.fsync_folder(aside)
    disk.move(aside, path)
    disk.fsync_folder(path.parent)


def identify(path: Path, disk: Disk) -> Identity | None:
    """Return the identity of the index at path; None if there is none. Raises CorruptIndex."""
    file = path / "data.mdb"
    if not disk.exists(file) or disk.size_bytes(file) == 0:
        return None
    check_file(file, disk)
    with reading(path) as view:
        if view is None:
            return Identity(server_id=None, names_anything=False)
        server_id = view.get(Store.META, SERVER_ID)
        return Identity(
            server_id=None if server_id is None else server_id.decode(),
            names_anything=next(view.scan(Store.BUCKETS, b""), None) is not None
            or any(key != SERVER_ID for key, _ in view.scan(Store.META, b"")),
        )


@contextlib.contextmanager
def reading(path: Path, also: Sequence[Store] = ()) -> Iterator[ReadView | None]:
    """Open an index that no process serves, read-only; None if it has no store yet.

    also: stores that the view needs besides READ_AT_REST. The caller holds the folder's lock. The
    file is not changed.
    """
    environment = _open_environment(path, MAP_SIZE_BYTES, read_only=True)
    try:
        try:
            databases = {
                store: environment.open_db(store.value.encode(), create=False)
                for store in (*READ_AT_REST, *also)
            }
        except lmdb.NotFoundError:
            yield None
            return
        with ReadView(environment.begin(), databases) as view:
            yield view
    finally:
        environment.close()


def check_file(path: Path, disk: Disk) -> None:
    """Raise CorruptIndex for an index file that is truncated: LMDB would map it and crash.

    Reads the two meta pages (LMDB's own format, version 1) and compares the last page in use with
    the file's length. Raises CorruptIndex.
    """
    if not disk.exists(path) or disk.size_bytes(path) == 0:
        return
    descriptor = disk.open(path)
    try:
        size_bytes = disk.size_bytes(path)
        head = disk.read_at(descriptor, 0, 4096 + 256)
        page_bytes = _meta_page_bytes(head)
        metas = [_meta_of(disk.read_at(descriptor, page_bytes * each, 256)) for each in (0, 1)]
    finally:
        disk.close(descriptor)
    transaction_id, last_page = max(metas)
    if transaction_id > 1 and size_bytes < (last_page + 1) * page_bytes:
        raise errors.CorruptIndex(
            f"the index {path} is truncated: {size_bytes} bytes where "
            f"{(last_page + 1) * page_bytes} are in use; restore it from a backup",
            path=str(path),
        )


def _meta_page_bytes(head: bytes) -> int:
    # Page header 16 bytes; then magic u32, version u32, address u64, map size u64, and the free
    # list's database record, whose first word holds the page size.
    if len(head) < 256 or struct.unpack_from("<I", head, 16)[0] != META_MAGIC:
        raise errors.CorruptIndex("the file is not an LMDB index")
    return int(struct.unpack_from("<I", head, 40)[0])


def _meta_of(page: bytes) -> tuple[int, int]:
    # After the two 48-byte database records: last page u64, transaction id u64.
    if len(page) < 152 or struct.unpack_from("<I", page, 16)[0] != META_MAGIC:
        raise errors.CorruptIndex("a meta page of the index is damaged")
    last_page, transaction_id = struct.unpack_from("<QQ", page, 136)
    return int(transaction_id), int(last_page)


def _open_environment(path: Path, map_size_bytes: int, *, read_only: bool = False) -> Any:
    try:
        return lmdb.open(
            str(path),
            map_size=map_size_bytes,
            max_dbs=len(Store) + 8,
            max_readers=READERS_MAX,
            mode=0o600,
            readonly=read_only,
            lock=not read_only,
        )
    except lmdb.Error as error:
        raise errors.CorruptIndex(
            f"the index {path} cannot be opened: {error}", path=str(path)
        ) from error


def _databases_of(environment: Any, transaction: Any) -> dict[Store, Any]:
    return {store: environment.open_db(store.value.encode(), txn=transaction) for store in Store}


def _commit_first(transaction: Any, disk: Disk) -> None:
    try:
        disk.transact(transaction.commit)
    except BaseException:
        with contextlib.suppress(lmdb.Error):
            transaction.abort()
        raise


def _descend(cursor: Any, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    placed = cursor.last() if stop is None or not cursor.set_range(stop) else cursor.prev()
    if not placed:
        return
    for row in cursor.iterprev():
        if row[0] < start:
            return
        yield row


def _bad_key(store: Store, key: bytes) -> errors.CommitRefused:
    return errors.CommitRefused(
        f"a key of {store.value} has {len(key)} bytes, allowed are 1 to {KEY_BYTES_MAX}",
        store=store,
        key=key,
    )


def _refusal(error: lmdb.Error, reason: str) -> errors.StorageError:
    """Return what a committer gets whose write certainly did not happen."""
    if any(text in str(error) for text in READ_ONLY_TEXTS):
        return errors.DiskReadOnly(f"the disk takes no writes: {error}")
    return errors.CommitRefused(reason)


def _is_full(error: BaseException) -> bool:
    if isinstance(error, lmdb.MapFullError | lmdb.TxnFullError | errors.DiskFull):
        return True
    return isinstance(error, lmdb.Error) and "No space left" in str(error)


def _closed() -> errors.IndexClosed:
    return errors.IndexClosed("the index is closed")


def _finish(settled: Iterable[_Settled]) -> None:
    for each in settled:
        future = each.waiting.future
        if future.done():
            continue
        if each.error is None:
            future.set_result(each.result)
        else:
            future.set_exception(each.error)
