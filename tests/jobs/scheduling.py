"""A scheduler over a lake, with a child that is no Spark, and a clock that a test moves."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs import credentials, folder, rows, runs, scheduler, upkeep, workers
from server import config
from server.access import principals
from storage import disk
from tests.kit import datafiles, lakes, waits
from tests.server import requesting

CHILD = """
import json, os, sys
record = open(sys.argv[1], "a")
for line in sys.stdin:
    arguments = json.loads(line)["arguments"]
    print(json.dumps([os.getpid(), arguments]), file=record, flush=True)
    name = arguments[1] if arguments[0] == "run" else arguments[0]
    print(json.dumps({"progress": "at work"}), flush=True)
    if name.startswith("dies"):
        os.kill(os.getpid(), 9)
    if name.startswith("garbles"):
        print("what", flush=True)
    if name.startswith("floods"):
        print("x" * 5_000_000, flush=True)
    if name.startswith("closes"):
        os.close(1)
    if name.startswith(("stays", "closes")):
        sys.stdin.read()
        break
    if name.startswith("fails"):
        outcome = {"status": "failed", "steps": '[{"step": "read"}]'}
        answer = {"code": 1, "error": "check c returns 1 row", "outcome": outcome}
        print(json.dumps(answer), flush=True)
        continue
    status = "nothing" if name.startswith("nothing") else "succeeded"
    print(json.dumps({"code": 0, "outcome": {"status": status, "rows": 2}}), flush=True)
"""


@dataclass(kw_only=True)
class Scheduling:
    """What a test of the scheduler has. started: the credentials of each child."""

    data: datafiles.Bench
    people: principals.Principals
    runs: runs.Runs
    scheduler: scheduler.Scheduler
    folder: Path
    record: Path
    started: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def clock(self) -> lakes.Clock:
        return self.data.lake.clock

    def put(self, name: str, /, **keys: str) -> None:
        lines = "".join(f'{key} = "{value}"\n' for key, value in keys.items())
        (self.folder / f"{name}.toml").write_text(f'target = "lake.s.{name}"\n{lines}')

    async def start_worker(self, variables: Mapping[str, str]) -> workers.Worker:
        self.started.append(variables)
        command = workers.WorkerCommand(
            arguments=(sys.executable, "-c", CHILD, str(self.record)),
            variables=variables,
            folder=self.folder,
        )
        return await workers.start(command, disk=disk.Disk(), logs=self.folder / "logs")

    def done(self) -> list[Any]:
        """Return what children were asked to do: their process, and the job's words."""
        import json

        if not self.record.exists():
            return []
        return [json.loads(line) for line in self.record.read_text().splitlines()]

    def states(self, name: str | None = None) -> list[str]:
        """Return the states of runs, the oldest first."""
        latest = reversed(self.runs.latest(100))
        return [run.state for run in latest if name is None or run.name == name]

    async def ended(self, name: str, count: int) -> list[rows.RunRow]:
        """Wait until a job has so many runs that have ended; return them, the oldest first."""

        def over() -> list[rows.RunRow]:
            latest = [run for run in self.runs.latest(100) if run.name == name]
            return [run for run in reversed(latest) if run.state != "running"]

        await until(lambda: len(over()) >= count)
        return over()


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a state that must come."""
    async with asyncio.timeout(waits.WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the state is in the index
            await asyncio.sleep(0.005)


def make(
    lake: lakes.Lake,
    path: Path,
    *,
    interval_s: int = 0,
    has_spark: bool = True,
    users: tuple[config.User, ...] = (),
    job_s: float = credentials.JOB_SECONDS,
) -> Scheduling:
    """Return a scheduler that has not begun, as after a start of the server."""
    data = datafiles.bench(lake)
    people = requesting.people(*users)
    index, new_id = lake.storage.index, lake.store.new_id
    kept = runs.Runs(index=index, now_ms=lake.clock, new_id=new_id)
    (path / "pipelines").mkdir(exist_ok=True)
    return Scheduling(
        data=data,
        people=people,
        runs=kept,
        folder=path / "pipelines",
        record=path / "record",
        scheduler=scheduler.Scheduler(
            index=index,
            runs=kept,
            folder=folder.PipelineFolder(path / "pipelines"),
            upkeep=upkeep.Upkeep(
                store=lake.store,
                namespaces=lake.namespaces,
                tables=lake.tables,
                scans=data.scans,
                reader_of=data.reader,
                account=lakes.ACCOUNT,
                runs=kept,
            ),
            credentials=credentials.JobCredentials(
                principals=people, ring=requesting.RING, now_ms=lake.clock, new_id=new_id
            ),
            maintenance_interval_s=interval_s,
            may_start_spark=lambda: has_spark,
            now_ms=lake.clock,
            poll_s=0.01,
            failed_s=0.01,
            job_s=job_s,
        ),
    )


@contextlib.asynccontextmanager
async def begun(work: Scheduling) -> AsyncIterator[None]:
    """Let the scheduler work for the time of the block."""
    work.scheduler.begin(work.start_worker)
    try:
        yield
    finally:
        await work.scheduler.stop()
