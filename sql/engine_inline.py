"""engine: runs queries inside the serving process, for a program without child processes.

The same interface as `sql.engine.WorkerEngine`, with what it cannot do said plainly: a query that
does not stop when it is cancelled goes on until it ends by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pyarrow as pa

from sql import engine, engine_datafusion, limits, outcomes


class InlineEngine:
    """Queries as tasks of this process; queries_max of them at once."""

    def __init__(self, *, spill_directory: Path, queries_max: int = 2) -> None:
        self._free = asyncio.Semaphore(queries_max)
        self._planner = engine_datafusion.Planner(spill_directory=spill_directory, in_thread=True)
        self._running: dict[str, _InlineResults] = {}
        self._queue = engine.Queue()

    async def run(self, query: engine.EngineQuery) -> engine.Results:
        """Plan query here; raises EngineFault."""
        with self._queue.waits(query):
            await self._free.acquire()
        self._queue.begin(query)
        try:
            run = await self._planner.start(query)
        except BaseException:
            self._queue.end(query)
            self._free.release()
            raise
        results = _InlineResults(query=query, run=run, planner=self._planner, release=self._release)
        if query.query_id:
            self._running[query.query_id] = results
        return results

    async def cancel(self, query_id: str) -> bool:
        """End the query of that id at its next batch."""
        results = self._running.get(query_id)
        if results is None:
            return False
        results.stop("canceled")
        return True

    def counts(self) -> engine.QueryCounts:
        """Return which queries run now, and which wait."""
        return self._queue.counts()

    def start_ahead(self) -> None:
        """Do nothing: queries need no process but this one."""

    async def close(self) -> None:
        """End what runs."""
        for results in list(self._running.values()):
            results.stop("canceled")

    def _release(self, results: _InlineResults) -> None:
        if self._running.get(results.query.query_id) is results:
            del self._running[results.query.query_id]
        self._queue.end(results.query)
        self._free.release()


class _InlineResults:
    def __init__(
        self,
        *,
        query: engine.EngineQuery,
        run: engine_datafusion.Run,
        planner: engine_datafusion.Planner,
        release: Callable[[_InlineResults], None],
    ) -> None:
        self.query = query
        self._run = run
        self._planner = planner
        self._release = release
        self._stopped: asyncio.Future[engine.FaultCause] = (
            asyncio.get_running_loop().create_future()
        )
        self._over = False
        seconds = query.limits.seconds
        self._timer = (
            asyncio.get_running_loop().call_later(seconds, self.stop, "timed_out")
            if seconds > 0
            else None
        )

    @property
    def schema(self) -> pa.Schema:
        return self._run.schema

    @property
    def finished(self) -> engine.Finished:
        return self._run.finished

    def stop(self, reason: engine.FaultCause) -> None:
        if not self._stopped.done():
            self._stopped.set_result(reason)

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        stream = engine_datafusion.batches_again(self._planner, self.query, self._run)
        try:
            while True:
                batch = await self._next(stream)
                if batch is None:
                    return
                yield batch
        finally:
            await self.close()

    def encode(self, columns: Sequence[outcomes.Column]) -> None:
        """Do nothing: there is no child that could encode, and the caller does."""

    def row_groups(self) -> AsyncIterator[outcomes.RowGroup]:
        return self.batches()

    async def _next(self, stream: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        step = asyncio.ensure_future(anext(stream, None))
        try:
            await asyncio.wait((step, self._stopped), return_when=asyncio.FIRST_COMPLETED)
            if not self._stopped.done():
                return await step
        finally:
            if not step.done():
                # Some joins react only when they end; they are not waited for.
                step.cancel()
                await asyncio.wait((step,), timeout=limits.STOP_GRACE_SECONDS)
        if self._stopped.result() == "timed_out":
            raise engine.EngineFault("timed_out", f"{self.query.limits.seconds:g}")
        raise engine.EngineFault(self._stopped.result(), "canceled")

    async def close(self) -> None:
        if self._over:
            return
        self._over = True
        self._stopped.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._release(self)
