"""engine: one scheduler, which does what is due, one job at a time, in one child process.

Due are pipelines, by their files, and maintenance of tables, by their settings. The child is
started when something is due and ends when nothing is, so that an idle server has none. It has the
rights of its jobs' owner; a job of another owner gets another child. A job whose child ends without
an answer has changed nothing or committed as a whole; it is due again after a pause. What a restart
of the server finds under way was interrupted, and is due again too. Rows of the index say what is
due, so nothing is lost with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from jobs import credentials, errors, folder, rows, runs, schedules, upkeep, workers
from jobs.upkeep import DueTask
from storage import batch, model
from storage import errors as storage_errors
from storage.index import Index

POLL_SECONDS: Final = 10.0
"""How often the folder of pipelines is looked at."""
FAILED_SECONDS: Final = 60.0
"""The pause after an error of the scheduler itself, such as a full disk."""
SPARE_MS: Final = (credentials.LIFETIME_SECONDS - credentials.JOB_SECONDS) * 1000
"""How old a child may be when it gets a job."""
INTERRUPTED: Final = 130
"""The exit code of a job that was interrupted."""
NO_SPARK: Final = "Spark is not installed on the server; run `make setup-all`"

COMMANDS: Final[Mapping[rows.Task, str]] = {
    "compaction": "compact",
    "manifests": "manifests",
    "statistics": "statistics",
}
"""The pipeline's command by the task of maintenance."""

StartWorker = Callable[[Mapping[str, str]], Awaitable[workers.Worker]]
"""Starts a child. Arguments: the variables that hold its credentials."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineStatus:
    """A pipeline as it is shown. due_at_ms: when it runs next; None for not by itself."""

    pipeline: schedules.ScheduledPipeline
    due_at_ms: int | None
    is_running: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    """A job to do: what it is, whose rights it has, and its command line."""

    task: rows.Task
    name: str
    target: str
    owner: credentials.JobOwner
    arguments: Sequence[str]
    due: DueTask | None = None


class Scheduler:
    """The scheduler. Mutable: it holds the child, and what maintenance waits.

    maintenance_interval_s: 0 for maintenance on request alone. may_start_spark: whether Spark is
    installed.
    """

    def __init__(
        self,
        *,
        index: Index,
        runs: runs.Runs,
        folder: folder.PipelineFolder,
        upkeep: upkeep.Upkeep,
        credentials: credentials.JobCredentials,
        maintenance_interval_s: int,
        may_start_spark: Callable[[], bool],
        now_ms: model.NowMs,
        poll_s: float = POLL_SECONDS,
        failed_s: float = FAILED_SECONDS,
        job_s: float = credentials.JOB_SECONDS,
    ) -> None:
        self._index = index
        self._runs = runs
        self._folder = folder
        self._upkeep = upkeep
        self._credentials = credentials
        self._interval_ms = maintenance_interval_s * 1000
        self._may_start_spark = may_start_spark
        self._now_ms = now_ms
        self._poll_s = poll_s
        self._failed_s = failed_s
        self._job_s = job_s
        self._start_worker: StartWorker | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._check: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._worker: workers.Worker | None = None
        self._worker_owner = ""
        self._worker_job_id = ""
        self._worker_until_ms = 0
        self._current: rows.RunRow | None = None
        self._cancelled: set[str] = set()
        self._check_at_ms: int | None = None
        self._due: list[DueTask] = []
        self._log = logging.getLogger("boathouse.jobs")

    def begin(self, start_worker: StartWorker) -> None:
        """Start, once the server answers requests."""
        assert self._task is None, "it begins once"
        if self._ending is not None:
            return  # the server was told to end before it was ready
        self._start_worker = start_worker
        if self._interval_ms:
            self._check_at_ms = self._now_ms() + self._interval_ms
        self._task = asyncio.get_running_loop().create_task(self._run())

    def begin_stop(self) -> None:
        """Begin to end, without waiting: no job starts any more, and the child ends."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._stop())

    async def stop(self) -> None:
        """End, with the child. The job under way is due again at the next start."""
        self.begin_stop()
        assert self._ending is not None
        await self._ending

    def check_maintenance(self) -> None:
        """Make a check of maintenance due now."""
        self._check_at_ms = self._now_ms()
        self._wake.set()

    # What clients ask.

    async def pipelines(self) -> list[PipelineStatus]:
        """Return the pipelines of the folder, by name."""
        pipelines = await asyncio.to_thread(self._folder.read)
        statuses = []
        for name, pipeline in pipelines.items():
            if pipeline.error is not None:
                statuses.append(PipelineStatus(pipeline=pipeline, due_at_ms=None, is_running=False))
                continue
            state = self._state(pipeline) or self._unseen(pipeline)
            followed = None
            if pipeline.after is not None:
                followed = rows.find_pipeline(self._index, pipeline.after)
            statuses.append(
                PipelineStatus(
                    pipeline=pipeline,
                    due_at_ms=schedules.due_at(pipeline, state, followed=followed),
                    is_running=self._runs.is_held("pipeline", name, pipeline.target),
                )
            )
        return statuses

    @property
    def folder_path(self) -> str | None:
        """The folder of the pipelines as text; None without one."""
        path = self._folder.path
        return None if path is None else os.fsencode(path).decode("utf-8", "replace")

    async def ask(self, name: str) -> None:
        """Make a pipeline due now. Raises NoSuchPipeline, BadSchedule, AlreadyRunning."""
        pipelines = await asyncio.to_thread(self._folder.read)
        pipeline = pipelines.get(name)
        if pipeline is None:
            raise errors.NoSuchPipeline(
                f"there is no pipeline {name[:100]!r} in {self._folder.path}"
            )
        if pipeline.error is not None:
            raise errors.BadSchedule(pipeline.error)
        if self._runs.is_held("pipeline", name, pipeline.target):
            raise errors.AlreadyRunning(f"pipeline {name} is running already")
        now_ms = self._now_ms()

        def change(row: rows.PipelineRow) -> rows.PipelineRow:
            return msgspec.structs.replace(row, asked_at_ms=now_ms)

        await self._change(pipeline, change)
        self._wake.set()

    async def cancel(self, run: rows.RunRow) -> rows.RunRow:
        """End a run. One of the server ends with its child. Raises NotRunning."""
        cancelled = await self._runs.cancel(run)
        current = self._current
        if current is not None and current.run_id == run.run_id:
            self._cancelled.add(run.run_id)
            if self._worker is not None:
                await self._worker.stop()
        return cancelled

    async def end(
        self,
        run: rows.RunRow,
        state: rows.State,
        *,
        error: str | None,
        answer: str,
        may_ask: bool,
    ) -> rows.RunRow:
        """Store how a run of a client ended. One of a pipeline of the folder, into the table that
        the pipeline's file names, starts the pipelines that follow it, if the client may start the
        pipeline itself: it has the right to ask for it, or is the user that the pipeline runs as.

        may_ask: whether the client has that right. Raises NotRunning.
        """
        also = None
        if run.task == "pipeline" and state in ("succeeded", "nothing"):
            pipelines = await asyncio.to_thread(self._folder.read)
            pipeline, now_ms = pipelines.get(run.name), self._now_ms()
            is_of_file = pipeline is not None and pipeline.target == run.target
            if pipeline is not None and is_of_file and (may_ask or self._is_owner(run, pipeline)):
                also = _changing(
                    run.name, lambda row: msgspec.structs.replace(row, succeeded_at_ms=now_ms)
                )
        ended = await self._runs.end(run, state, error=error, answer=answer, also=also)
        self._wake.set()
        return ended

    def _is_owner(self, run: rows.RunRow, pipeline: schedules.ScheduledPipeline) -> bool:
        """Return whether a run of a client was begun by the user that its pipeline runs as."""
        try:
            return self._credentials.owner(pipeline.run_as).principal.arn == run.by
        except errors.BadSchedule:
            return False

    # The loop.

    async def _run(self) -> None:
        while True:
            try:
                await self._resume()
                await self._work()
            except Exception as error:  # noqa: BLE001 - no fault of one job ends the others
                self._log.warning("the scheduler of jobs failed, and tries again", exc_info=error)
                await self._end_worker()
                await asyncio.sleep(self._failed_s)

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            work = await self._next()
            if work is not None:
                await self._do(work)
                continue
            await self._end_worker()
            with contextlib.suppress(TimeoutError):
                # Python 3.11's wait_for loses a cancel that comes with the event.
                async with asyncio.timeout(self._poll_s):
                    await self._wake.wait()

    async def _resume(self) -> None:
        """End the runs that an earlier process of the server has left."""
        now_ms = self._now_ms()
        for run in self._runs.interrupted():
            also = None
            if run.task == "pipeline":
                also = _changing(run.name, lambda row: _crashed(row, now_ms))
            with contextlib.suppress(errors.NotRunning):
                await self._runs.end(
                    run, "interrupted", error="the server ended or failed", also=also
                )

    async def _next(self) -> _Work | None:
        """Return what is to be done now: the pipeline that is due the longest, else maintenance."""
        due = await self._next_pipeline()
        if due is not None:
            return due
        now_ms = self._now_ms()
        if self._check_at_ms is not None and self._check_at_ms > now_ms + self._interval_ms:
            self._check_at_ms = now_ms + self._interval_ms  # the clock was set back
        is_due = self._check_at_ms is not None and now_ms >= self._check_at_ms
        if is_due and self._check is None:
            self._check_at_ms = now_ms + self._interval_ms if self._interval_ms else None
            self._check = asyncio.get_running_loop().create_task(self._check_tables(now_ms))
        while self._due and not self._upkeep.is_wanted(self._due[0]):
            del self._due[0]
        if not self._due:
            return None
        table = self._due.pop(0)
        target = f"{table.ident.table_bucket}.{table.ident.dotted()}"
        return _Work(
            task=table.task,
            name=table.object_uuid,
            target=target,
            owner=self._credentials.maintenance(table.account),
            arguments=(COMMANDS[table.task], "--table", target, *table.options),
            due=table,
        )

    async def _check_tables(self, now_ms: int) -> None:
        """Look at every table, beside the loop: no pipeline waits for it."""
        try:
            due = await self._upkeep.check()
            if due and not self._may_start_spark():
                for table in due:
                    await self._upkeep.note(table, started_at_ms=now_ms, failure=NO_SPARK)
                due = []
            self._due = due
        except Exception as error:  # noqa: BLE001 - the next check may go well
            self._log.warning("a check of maintenance failed", exc_info=error)
        finally:
            self._check = None
            self._wake.set()

    async def _next_pipeline(self) -> _Work | None:
        pipelines = await asyncio.to_thread(self._folder.read)
        now_ms = self._now_ms()
        due: list[tuple[int, schedules.ScheduledPipeline]] = []
        for pipeline in pipelines.values():
            if pipeline.error is not None:
                continue  # what is stored of it stays: the file may be half written
            state = self._state(pipeline)
            if state is None:
                state = await self._change(pipeline, lambda row: row)
            if schedules.is_ahead(state, now_ms):
                state = await self._change(
                    pipeline, lambda row: schedules.set_back(row, now_ms=now_ms)
                )
            followed = None
            if pipeline.after is not None:
                followed = rows.find_pipeline(self._index, pipeline.after)
            at_ms = schedules.due_at(pipeline, state, followed=followed)
            if at_ms is None or at_ms > now_ms:
                continue
            if not self._runs.is_held("pipeline", pipeline.name, pipeline.target):
                due.append((at_ms, pipeline))
        for _, pipeline in sorted(due, key=lambda each: each[0]):
            try:
                owner = self._credentials.owner(pipeline.run_as)
            except errors.BadSchedule as error:
                await self._refuse(pipeline, str(error))
                continue
            return _Work(
                task="pipeline",
                name=pipeline.name,
                target=pipeline.target,
                owner=owner,
                arguments=("run", pipeline.name, "--pipelines", str(self._folder.path)),
            )
        return None

    async def _do(self, work: _Work) -> None:
        now_ms = self._now_ms()
        also: tuple[batch.Write, ...] = ()
        if work.task == "pipeline":
            state = rows.find_pipeline(self._index, work.name)
            assert state is not None, "a pipeline that is due has a row"
            begun = msgspec.structs.replace(
                state, handled_ms=now_ms, retry_at_ms=None, asked_at_ms=None
            )
            also = (rows.put_pipeline(work.name, begun),)
        try:
            run = await self._runs.begin(
                task=work.task,
                name=work.name,
                target=work.target,
                by=work.owner.principal.arn,
                by_server=True,
                also=also,
            )
        except errors.AlreadyRunning:
            return  # a client has begun it since it was found due, and it stays due
        self._current = run
        try:
            await self._finish(work, run, await self._answer(work, run))
        except asyncio.CancelledError:
            await self._interrupt(work, run)
            raise
        finally:
            self._current = None
            self._cancelled.discard(run.run_id)

    async def _answer(self, work: _Work, run: rows.RunRow) -> workers.WorkAnswer | str:
        """Return what the child answered, or how it ended without an answer."""
        arguments = [*work.arguments]
        if work.task == "pipeline":
            arguments += ["--run-id", run.run_id]
            if earlier := self._runs.without_result(run):
                arguments += ["--earlier", json.dumps(earlier)]
        try:
            worker = await self._worker_of(work.owner)
            if run.run_id in self._cancelled:
                return "the run was cancelled before it began"
            async with asyncio.timeout(self._job_s):
                answer = await worker.do(
                    arguments, report=lambda line: self._runs.report(run.run_id, line)
                )
        except TimeoutError:
            await self._end_worker()
            error = f"the job did not end within {self._job_s / 3600:.1f} hours"
            return workers.WorkAnswer(code=1, outcome={}, error=error)
        except (workers.WorkerEnded, OSError) as error:
            await self._end_worker()
            return str(error)
        if answer.code == INTERRUPTED:
            await self._end_worker()
            return "the job was interrupted"
        return answer

    async def _finish(
        self, work: _Work, run: rows.RunRow, answer: workers.WorkAnswer | str
    ) -> None:
        now_ms = self._now_ms()
        error = ""
        if not isinstance(answer, str) and answer.code == 0:
            is_nothing = answer.outcome.get("status") == "nothing"
            await self._end_run(
                work,
                run,
                "nothing" if is_nothing else "succeeded",
                None,
                json.dumps(answer.outcome),
                lambda row: msgspec.structs.replace(_settled(row), succeeded_at_ms=now_ms),
            )
        elif run.run_id in self._cancelled:
            error = "the run was cancelled"
            await self._end_run(work, run, "cancelled", error, "", _settled)
        elif isinstance(answer, str):
            self._log.warning("%s of %s: %s", work.task, work.target, answer)
            error = answer
            await self._end_run(
                work, run, "interrupted", error, "", lambda row: _crashed(row, now_ms)
            )
        else:
            error = answer.error or "the job failed"
            outcome = json.dumps(answer.outcome) if answer.outcome else ""
            await self._end_run(work, run, "failed", error, outcome, _settled)
        if work.due is not None:
            await self._upkeep.note(work.due, started_at_ms=run.started_at_ms, failure=error)

    async def _end_run(
        self,
        work: _Work,
        run: rows.RunRow,
        state: rows.State,
        error: str | None,
        answer: str,
        change: Callable[[rows.PipelineRow], rows.PipelineRow],
    ) -> None:
        also = _changing(work.name, change) if work.task == "pipeline" else None
        await self._runs.end(run, state, error=error, answer=answer, also=also)

    async def _interrupt(self, work: _Work, run: rows.RunRow) -> None:
        """Store that the server's own end interrupted a run, which is due again at its start."""
        now_ms = self._now_ms()
        with contextlib.suppress(errors.NotRunning, storage_errors.StorageError):
            await self._end_run(
                work,
                run,
                "interrupted",
                "the server ended",
                "",
                lambda row: msgspec.structs.replace(row, retry_at_ms=now_ms),
            )

    async def _refuse(self, pipeline: schedules.ScheduledPipeline, error: str) -> None:
        """Store a run that could not begin."""
        now_ms = self._now_ms()
        with contextlib.suppress(errors.AlreadyRunning, errors.NotRunning):
            run = await self._runs.begin(
                task="pipeline", name=pipeline.name, target=pipeline.target, by="", by_server=True
            )
            change = _changing(
                pipeline.name,
                lambda row: msgspec.structs.replace(_settled(row), handled_ms=now_ms),
            )
            await self._runs.end(run, "failed", error=error, also=change)

    # The child.

    async def _worker_of(self, owner: credentials.JobOwner) -> workers.Worker:
        """Return a child with an owner's rights, whose credentials hold for a job; one of another
        owner ends first."""
        worker, now_ms = self._worker, self._now_ms()
        is_owners = self._worker_owner == owner.key and now_ms < self._worker_until_ms
        if worker is not None and is_owners and not worker.has_ended:
            return worker
        await self._end_worker()
        assert self._start_worker is not None, "it has begun"
        job_id, variables = self._credentials.issue(owner)
        try:
            worker = await self._start_worker(variables)
        except BaseException:
            self._credentials.revoke(job_id)
            raise
        self._worker, self._worker_owner, self._worker_job_id = worker, owner.key, job_id
        self._worker_until_ms = now_ms + SPARE_MS
        return worker

    async def _end_worker(self) -> None:
        if self._worker is None:
            return
        # A cancelled wait leaves it to `_stop`, which waits again.
        await self._worker.stop()
        self._credentials.revoke(self._worker_job_id)
        self._worker, self._worker_owner, self._worker_job_id = None, "", ""

    async def _stop(self) -> None:
        # The loop first: it starts checks.
        for task in (self._task, self._check):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._end_worker()

    # What is stored of a pipeline.

    def _state(self, pipeline: schedules.ScheduledPipeline) -> rows.PipelineRow | None:
        """Return what is stored of a pipeline; None if that is of another schedule."""
        row = rows.find_pipeline(self._index, pipeline.name)
        return row if row is not None and row.rule == pipeline.rule else None

    def _unseen(self, pipeline: schedules.ScheduledPipeline) -> rows.PipelineRow:
        return rows.PipelineRow(rule=pipeline.rule, handled_ms=self._now_ms())

    async def _change(
        self,
        pipeline: schedules.ScheduledPipeline,
        change: Callable[[rows.PipelineRow], rows.PipelineRow],
    ) -> rows.PipelineRow:
        """Change what is stored of a pipeline. A new schedule counts from now on."""
        unseen = self._unseen(pipeline)

        def decide(reading: batch.Reading) -> batch.Decided[rows.PipelineRow]:
            row = rows.find_pipeline(reading, pipeline.name)
            if row is None:
                row = unseen
            elif row.rule != pipeline.rule:
                row = msgspec.structs.replace(
                    row, rule=unseen.rule, handled_ms=unseen.handled_ms, retry_at_ms=None
                )
            row = change(row)
            put = rows.put_pipeline(pipeline.name, row)
            return batch.Decided(result=row, batch=batch.Batch(writes=(put,)))

        return await self._index.decide(decide)


def _changing(
    name: str, change: Callable[[rows.PipelineRow], rows.PipelineRow]
) -> Callable[[batch.Reading], Sequence[batch.Write]]:
    """Return the writes that change a pipeline's row, where there is one."""

    def derive(reading: batch.Reading) -> Sequence[batch.Write]:
        row = rows.find_pipeline(reading, name)
        return () if row is None else (rows.put_pipeline(name, change(row)),)

    return derive


def _settled(row: rows.PipelineRow) -> rows.PipelineRow:
    """Return a pipeline's row after a run that ended with an answer."""
    return msgspec.structs.replace(row, crashes=0, retry_at_ms=None)


def _crashed(row: rows.PipelineRow, now_ms: int) -> rows.PipelineRow:
    """Return a pipeline's row after a run that ended without an answer."""
    crashes = row.crashes + 1
    if crashes > schedules.CRASHES_MAX:
        return msgspec.structs.replace(row, crashes=0, retry_at_ms=None)
    retry_at_ms = now_ms + schedules.pause_ms(crashes)
    return msgspec.structs.replace(row, crashes=crashes, retry_at_ms=retry_at_ms)
