"""engine: the runs of jobs, as rows of the index: begun, prolonged, ended, listed.

A job has one run at a time, by the server or by a client: the transaction that begins a run finds
the run before ended, or refuses. A client's load and its maintenance of a table exclude nothing:
the commits of the table itself decide between them. A run of a client ends by itself when the
client stops prolonging it; one that goes on for a day excludes no other run any more. A run of the
server that a restart finds was interrupted. What a run does to its table is exactly once by the
table's own ledger, so that a run which began twice would still load nothing twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from catalog import records
from jobs import errors, rows
from storage import batch, model
from storage.index import Index

LEASE_MS: Final = 60_000
"""How long a client's run counts as running after it was begun or prolonged."""
HELD_MS_MAX: Final = 24 * 60 * 60 * 1000
"""How long a client's run excludes others of its job, however often it is prolonged."""
TEXT_MAX: Final = 2_000
"""Characters that are kept of an error, or of a line of progress."""
ANSWER_MAX: Final = 8_000
"""Characters of an answer; a longer one is not kept."""

LOST: Final = "lost: the process that ran it ended without an answer"

WITH_RESULT: Final = ("succeeded", "nothing")
HAS_ROW: Final = "has_row"
"""In the answer of a run of a pipeline: whether the pipeline's table of runs has its row."""
EARLIER_FIELDS: Final = ("run_id", "state", "started_at_ms", "ended_at_ms", "error")

EXPIRIES_MAX: Final = 200
"""Expiries of snapshots by the server that are kept; each check may make one for each table."""
EXPIRIES_TRIMMED: Final = 50
"""How many more of them go at once, so that not each expiry reads all runs to count them."""

_JOBS: Final = batch.Store.JOBS


class Runs:
    """The runs of all jobs. Mutable: it holds the progress of runs under way, which is not
    stored, and for how many more expiries there is certainly room."""

    def __init__(self, *, index: Index, now_ms: model.NowMs, new_id: model.NewId) -> None:
        self._index = index
        self._now_ms = now_ms
        self._new_id = new_id
        self._progress: dict[str, str] = {}
        self._expiries_free = 0

    async def begin(
        self,
        *,
        task: rows.Task,
        name: str,
        target: str,
        by: str,
        by_server: bool,
        is_alone: bool = True,
        also: Sequence[batch.Write] = (),
    ) -> rows.RunRow:
        """Store that a run begins. is_alone: whether it excludes other runs of its job. also:
        written in the same transaction.

        Raises AlreadyRunning.
        """
        now_ms = self._now_ms()
        run = rows.RunRow(
            run_id=self._new_id(),
            task=task,
            name=name,
            target=target,
            by=by,
            by_server=by_server,
            state="running",
            started_at_ms=now_ms,
            lease_until_ms=None if by_server else now_ms + LEASE_MS,
        )
        lock, key = rows.lock_key(task, name, target), rows.run_key(now_ms, run.run_id)

        def decide(reading: batch.Reading) -> batch.Decided[None]:
            writes: list[batch.Write] = [*also]
            if not is_alone:
                writes.append(_put(key, run))
                return batch.Decided(
                    result=None, batch=batch.Batch(writes=tuple(writes), derive=(_trim(now_ms),))
                )
            held = reading.get(_JOBS, lock)
            before = None if held is None else reading.get(_JOBS, held)
            if held is not None and before is not None:
                earlier = records.decode(before, rows.RunRow)
                if excludes(earlier, now_ms):
                    raise errors.AlreadyRunning(
                        f"{_called(earlier)} is running already: run {earlier.run_id}"
                    )
                if earlier.state == "running" and is_over(earlier, now_ms):
                    writes.append(_put(held, _lost(earlier)))
            writes += [_put(key, run), batch.Put(store=_JOBS, key=lock, value=key)]
            return batch.Decided(
                result=None, batch=batch.Batch(writes=tuple(writes), derive=(_trim(now_ms),))
            )

        await self._index.decide(decide)
        return run

    async def record_expiry(
        self, *, name: str, target: str, by: str, started_at_ms: int, error: str, answer: str
    ) -> None:
        """Store an expiry of a table's snapshots by the server, which has ended. error: why it
        failed, "" if it did not."""
        now_ms = self._now_ms()
        run = rows.RunRow(
            run_id=self._new_id(),
            task="snapshots",
            name=name,
            target=target,
            by=by,
            by_server=True,
            state="failed" if error else "succeeded",
            started_at_ms=started_at_ms,
            ended_at_ms=now_ms,
            error=error[:TEXT_MAX] or None,
            answer=answer,
        )
        put = _put(rows.run_key(started_at_ms, run.run_id), run)
        if self._expiries_free:
            self._expiries_free -= 1
            await self._index.commit(batch.Batch(writes=(put,), derive=(_trim(now_ms),)))
            return

        def decide(reading: batch.Reading) -> batch.Decided[int]:
            free, deletes = _trim_expiries(reading)
            return batch.Decided(
                result=free, batch=batch.Batch(writes=(put, *deletes), derive=(_trim(now_ms),))
            )

        self._expiries_free = await self._index.decide(decide)

    async def prolong(self, run: rows.RunRow, progress: str) -> rows.RunRow:
        """Note that a client still works on its run; return the run. Raises NotRunning."""
        now_ms = self._now_ms()

        def change(stored: rows.RunRow) -> rows.RunRow:
            if is_over(stored, now_ms):
                raise errors.NotRunning(f"run {stored.run_id} has ended")
            return msgspec.structs.replace(
                stored, lease_until_ms=now_ms + LEASE_MS, progress=progress[:TEXT_MAX]
            )

        return await self._change(run, change)

    async def end(
        self,
        run: rows.RunRow,
        state: rows.State,
        *,
        error: str | None = None,
        answer: str = "",
        also: Callable[[batch.Reading], Sequence[batch.Write]] | None = None,
    ) -> rows.RunRow:
        """Store how a run ended. also: further writes of the same transaction.

        Raises NotRunning if it has ended.
        """
        now_ms = self._now_ms()

        def change(stored: rows.RunRow) -> rows.RunRow:
            if stored.state != "running":
                raise errors.NotRunning(f"run {stored.run_id} has ended")
            return msgspec.structs.replace(
                stored,
                state=state,
                ended_at_ms=now_ms,
                error=None if error is None else error[:TEXT_MAX],
                answer=answer if len(answer) <= ANSWER_MAX else "",
                lease_until_ms=None,
            )

        self._progress.pop(run.run_id, None)
        return await self._change(run, change, also=also)

    async def cancel(self, run: rows.RunRow) -> rows.RunRow:
        """Store that a run is to end; the client of it is told when it prolongs it.

        Raises NotRunning.
        """
        now_ms = self._now_ms()

        def change(stored: rows.RunRow) -> rows.RunRow:
            if is_over(stored, now_ms):
                raise errors.NotRunning(f"run {stored.run_id} has ended")
            return msgspec.structs.replace(stored, is_cancelled=True)

        return await self._change(run, change)

    def report(self, run_id: str, progress: str) -> None:
        """Keep the latest line of a run of the server."""
        self._progress[run_id] = progress[:TEXT_MAX]

    def find(self, run_id: str) -> rows.RunRow:
        """Return a run. Raises NoSuchRun."""
        for run in self.latest(rows.RUNS_MAX):
            if run.run_id == run_id:
                return run
        raise errors.NoSuchRun(f"there is no run {run_id[:64]!r}; the latest 1,000 are kept")

    def latest(
        self, count: int, *, is_shown: Callable[[rows.RunRow], bool] = lambda run: True
    ) -> list[rows.RunRow]:
        """Return the latest runs, the newest first."""
        prefix, now_ms = rows.runs_range(), self._now_ms()
        with self._index.view() as view:
            scanned = view.scan(_JOBS, prefix, records.stop_after(prefix), reverse=True)
            stored = (records.decode(value, rows.RunRow) for _, value in scanned)
            listed = list(itertools.islice(filter(is_shown, stored), count))
        return [self._shown(run, now_ms) for run in listed]

    def of_pipeline(
        self, name: str, count: int, *, state: str | None = None, target: str | None = None
    ) -> list[rows.RunRow]:
        """Return the latest runs of a pipeline, the newest first. state, target: of those alone."""

        def is_of(run: rows.RunRow) -> bool:
            return (
                run.task == "pipeline"
                and run.name == name
                and (target is None or run.target == target)
            )

        shown = self.latest(rows.RUNS_MAX, is_shown=is_of)
        return [run for run in shown if state in (None, run.state)][:count]

    def without_result(self, run: rows.RunRow) -> list[dict[str, object]]:
        """Return the runs of a pipeline, but this one, that the pipeline's table of runs may lack:
        their processes could not write a row.

        A run with a result writes the rows of those that had ended when it began. Beside a client's
        run of more than a day others run, and may have ended before it. A run that failed says in
        its answer that it has a row.
        """
        kept = self.of_pipeline(run.name, rows.RUNS_MAX, target=run.target)
        others = [each for each in kept if each.run_id != run.run_id]
        since_ms = next((each.started_at_ms for each in others if each.state in WITH_RESULT), 0)
        return [
            {name: getattr(each, name) for name in EARLIER_FIELDS}
            for each in others
            if each.state not in ("running", *WITH_RESULT)
            and (each.ended_at_ms is None or each.ended_at_ms >= since_ms)
            and not _has_row(each)
        ]

    def is_held(self, task: rows.Task, name: str, target: str) -> bool:
        """Return whether a run of a job goes on that excludes others."""
        with self._index.view() as view:
            held = view.get(_JOBS, rows.lock_key(task, name, target))
            value = None if held is None else view.get(_JOBS, held)
        if value is None:
            return False
        return excludes(records.decode(value, rows.RunRow), self._now_ms())

    def interrupted(self) -> list[rows.RunRow]:
        """Return the runs of the server that have not ended; at a start no process has them."""
        return [
            run for run in self.latest(rows.RUNS_MAX) if run.by_server and run.state == "running"
        ]

    def _shown(self, run: rows.RunRow, now_ms: int) -> rows.RunRow:
        if run.state == "running" and is_over(run, now_ms):
            return _lost(run)
        progress = self._progress.get(run.run_id)
        return run if progress is None else msgspec.structs.replace(run, progress=progress)

    async def _change(
        self,
        run: rows.RunRow,
        change: Callable[[rows.RunRow], rows.RunRow],
        *,
        also: Callable[[batch.Reading], Sequence[batch.Write]] | None = None,
    ) -> rows.RunRow:
        key = rows.run_key(run.started_at_ms, run.run_id)

        def decide(reading: batch.Reading) -> batch.Decided[rows.RunRow]:
            value = reading.get(_JOBS, key)
            if value is None:
                raise errors.NotRunning(f"run {run.run_id} is not kept any more")
            changed = change(records.decode(value, rows.RunRow))
            more = () if also is None else also(reading)
            return batch.Decided(
                result=changed, batch=batch.Batch(writes=(_put(key, changed), *more))
            )

        return await self._index.decide(decide)


def is_over(run: rows.RunRow, now_ms: int) -> bool:
    """Return whether a run has ended, or its client has stopped prolonging it."""
    if run.state != "running":
        return True
    return run.lease_until_ms is not None and run.lease_until_ms <= now_ms


def excludes(run: rows.RunRow, now_ms: int) -> bool:
    """Return whether a run goes on and keeps others of its job away."""
    if is_over(run, now_ms):
        return False
    return run.by_server or now_ms < run.started_at_ms + HELD_MS_MAX


def _called(run: rows.RunRow) -> str:
    return f"pipeline {run.name}" if run.task == "pipeline" else f"{run.task} of {run.target}"


def _lost(run: rows.RunRow) -> rows.RunRow:
    """Return a client's run as it ended when it was not prolonged any more."""
    return msgspec.structs.replace(
        run,
        state="interrupted",
        ended_at_ms=run.lease_until_ms,
        error=LOST,
        lease_until_ms=None,
    )


def _has_row(run: rows.RunRow) -> bool:
    """Return whether a run of a pipeline says that the pipeline's table of runs has its row."""
    answer = msgspec.json.decode(run.answer) if run.answer else {}
    return isinstance(answer, dict) and bool(answer.get(HAS_ROW))


def _trim_expiries(reading: batch.Reading) -> tuple[int, Sequence[batch.Write]]:
    """Return for how many expiries there is room after one more, and what makes the room: if there
    are EXPIRIES_MAX, it removes the oldest ones."""
    prefix = rows.runs_range()
    keys = [
        key
        for key, value in reading.scan(_JOBS, prefix, records.stop_after(prefix))
        if _is_expiry(records.decode(value, rows.RunRow))
    ]
    gone: list[bytes] = []
    if len(keys) >= EXPIRIES_MAX:
        gone = keys[: len(keys) - EXPIRIES_MAX + 1 + EXPIRIES_TRIMMED]
    free = EXPIRIES_MAX - 1 - (len(keys) - len(gone))
    return free, [batch.Delete(store=_JOBS, key=key) for key in gone]


def _is_expiry(run: rows.RunRow) -> bool:
    return run.task == "snapshots" and run.by_server


def _trim(now_ms: int) -> batch.Derivation:
    """Return what removes the oldest runs beyond RUNS_MAX that have ended, and their locks.

    Of runs that go on, those of clients go, so that no client can remove one of the server.
    """

    def derive(reading: batch.Reading) -> Sequence[batch.Write]:
        prefix = rows.runs_range()
        keys = [key for key, _ in reading.scan(_JOBS, prefix, records.stop_after(prefix))]
        ended: list[tuple[bytes, rows.RunRow]] = []
        going_on: list[tuple[bytes, rows.RunRow]] = []
        count = len(keys) - rows.RUNS_MAX
        for key in keys:
            if len(ended) >= count:
                break
            value = reading.get(_JOBS, key)
            assert value is not None, "it was scanned in this transaction"
            run = records.decode(value, rows.RunRow)
            if is_over(run, now_ms):
                ended.append((key, run))
            elif not run.by_server:
                going_on.append((key, run))
        writes: list[batch.Write] = []
        for key, run in [*ended, *going_on][: max(0, count)]:
            writes.append(batch.Delete(store=_JOBS, key=key))
            lock = rows.lock_key(run.task, run.name, run.target)
            if reading.get(_JOBS, lock) == key:
                writes.append(batch.Delete(store=_JOBS, key=lock))
        return writes

    return derive


def _put(key: bytes, row: msgspec.Struct) -> batch.Put:
    return batch.Put(store=_JOBS, key=key, value=records.encode(row))
