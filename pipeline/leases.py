"""engine: the server's list of runs: a run by hand enters itself, so that no other begins beside
it.

The server refuses a run while another of the same pipeline goes on, its own or a client's. A run
says every few seconds that it goes on; a run that ends without a word is over after a minute. The
answer says whether the run was cancelled. A load, a maintenance and a copy of a table by hand enter
themselves too, and go on where the server does not take them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, urlencode

from pipeline import errors, native, progress, runs, settings

PROLONG_SECONDS = 15.0
RUNS_MAX = 1_000
"""Runs that the server's list keeps."""


Task: TypeAlias = Literal[
    "ingest", "compaction", "snapshots", "manifests", "statistics", "replication"
]
"""What a job by hand does that runs no pipeline, in the words of the server's list."""


class OwnRun:
    """A run of this process in the server's list. Mutable: it keeps how it ended."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.latest = ""
        self.state = "failed"
        self.error: str | None = None
        self.answer: Mapping[str, Any] = {}

    def keep(self, answer: Mapping[str, Any]) -> None:
        """Keep what the run did, also if it failed."""
        self.answer = answer

    def heard(self, say: progress.Say) -> progress.Say:
        """Return `say` with the latest line kept as the run's progress."""

        def announce(line: str) -> None:
            self.latest = line
            say(line)

        return announce


@contextlib.contextmanager
def held(
    server: settings.ServerEndpoint, pipeline: str, target: str, *, give_up: Callable[[], None]
) -> Iterator[OwnRun]:
    """Enter a run into the server's list for the time of the block.

    give_up: called from a thread when the run was cancelled. Raises PipelineError if another run of
    the pipeline goes on.
    """
    query = urlencode({"pipeline": pipeline, "target": target})
    with _reported(server, native.ask(server, "POST", f"jobs?{query}"), give_up) as run:
        yield run


@contextlib.contextmanager
def noted(
    server: settings.ServerEndpoint, task: Task, target: str, *, give_up: Callable[[], None]
) -> Iterator[OwnRun]:
    """Enter a load, a maintenance or a copy of a table into the server's list for the time of the
    block.

    One that the server does not take, as it has no such list or the caller no right, goes on
    without; so does one of a server that does not answer, which the job itself finds out.
    """
    try:
        query = urlencode({"task": task, "target": target})
        begun = native.ask(server, "POST", f"jobs?{query}")
    except errors.PipelineError:
        yield OwnRun("")
        return
    with _reported(server, begun, give_up) as run:
        yield run


@contextlib.contextmanager
def _reported(
    server: settings.ServerEndpoint, begun: Mapping[str, Any], give_up: Callable[[], None]
) -> Iterator[OwnRun]:
    """Say of a run that it goes on, for the time of the block, and then how it ended."""
    run, ended, deciding = OwnRun(begun["run_id"]), threading.Event(), threading.Lock()
    path = f"jobs/{run.run_id}"

    def prolong() -> None:
        while not ended.wait(PROLONG_SECONDS):
            # A server that does not answer now is asked again; the load itself notices its end.
            with contextlib.suppress(errors.PipelineError):
                if native.ask(server, "PATCH", path, {"progress": run.latest})["is_cancelled"]:
                    with deciding:
                        if not ended.is_set():
                            give_up()
                    return

    thread = threading.Thread(target=prolong, daemon=True)
    thread.start()
    try:
        yield run
        with deciding:  # a cancel ends the run until here; a later one ends nothing
            ended.set()
    except KeyboardInterrupt:
        run.state, run.error = "cancelled", "the run was interrupted"
        raise
    except (errors.PipelineError, OSError) as error:
        run.error = str(error)
        raise
    finally:
        try:
            ended.set()
            thread.join(native.ANSWER_SECONDS)
        finally:  # also after Ctrl-C, or the run would count as lost
            report = {"state": run.state, "error": run.error, "answer": dict(run.answer)}
            with contextlib.suppress(errors.PipelineError):
                native.ask(server, "PATCH", path, report)


def earlier(
    server: settings.ServerEndpoint, pipeline: str, target: str, run_id: str
) -> list[runs.EndedRun]:
    """Return the runs of a pipeline that have ended, but may have no row: `runs.without_result`.

    None where the server does not say: what it misses, the next run asks for.
    """
    query = urlencode({"pipeline": pipeline, "limit": RUNS_MAX})
    with contextlib.suppress(errors.PipelineError):
        listed = native.ask(server, "GET", f"jobs?{query}")["jobs"]
        own = [run for run in listed if (run["name"], run["target"]) == (pipeline, target)]
        return runs.without_result(own, but=run_id)
    return []


def listed(
    server: settings.ServerEndpoint, warehouse: str, *, pipeline: str | None
) -> list[Mapping[str, Any]]:
    """Return the runs of a warehouse's tables in the server's list, as `runs.history` returns rows,
    the newest first; of one pipeline, or all, also those that run no pipeline.

    `task` is beside the columns of the table, and `progress`, the latest line of a run that goes
    on. Raises PipelineError.
    """
    query = urlencode({"limit": RUNS_MAX} | ({"pipeline": pipeline} if pipeline else {}))
    answer = native.ask(server, "GET", f"jobs?{query}")["jobs"]
    rows = [_row(run) for run in answer if str(run["target"]).startswith(f"{warehouse}.")]
    return [{name: value for name, value in row.items() if name != "output"} for row in rows]


def without_row(
    listed: Iterable[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], *, limit: int
) -> list[Mapping[str, Any]]:
    """Return the runs of the server's list that the table of runs does not have.

    rows: the latest of the table, at most limit. Runs that the table has too far back to be read
    are left out. So are runs of a pipeline that are older than its oldest row: their rows were
    deleted, as the pipeline's file says how long they are kept.
    """
    kept = {row["run_id"] for row in rows}
    oldest = min((row["started_at"] for row in rows[limit - 1 :]), default=None)
    oldest_of: dict[str, datetime.datetime] = {}
    for row in rows:
        name, started = row["pipeline"], row["started_at"]
        oldest_of[name] = min(oldest_of.get(name, started), started)

    def is_without(run: Mapping[str, Any]) -> bool:
        started = run["started_at"]
        if run["run_id"] in kept or (oldest is not None and started < oldest):
            return False
        if run["task"] != "pipeline" or run["status"] == "running":
            return True
        return bool(started >= oldest_of.get(run["pipeline"], started))

    return [run for run in listed if is_without(run)]


def find(server: settings.ServerEndpoint, run_id: str) -> Mapping[str, Any] | None:
    """Return a run of the server's list, as `listed` does; None if the server shows none."""
    with contextlib.suppress(errors.PipelineError):
        return _row(native.ask(server, "GET", f"jobs/{quote(run_id, safe='')}"))
    return None


def _row(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a run of the server's list as a row of the table of runs."""
    now = datetime.datetime.now(datetime.UTC)
    started = datetime.datetime.fromtimestamp(run["started_at_ms"] / 1000, datetime.UTC)
    ended = now
    if run["ended_at_ms"] is not None:
        ended = datetime.datetime.fromtimestamp(run["ended_at_ms"] / 1000, datetime.UTC)
    row = dict.fromkeys(field.name for field in dataclasses.fields(runs.PipelineRun))
    answer = run["answer"]
    return {
        **row,
        "detail": "{}",
        "steps": "[]",
        **{name: answer[name] for name in row if isinstance(answer.get(name), str | int | float)},
        "run_id": run["run_id"],
        "pipeline": run["name"] if run["task"] == "pipeline" else None,
        "target": run["target"],
        "status": run["state"],
        "started_at": started,
        "seconds": max(0.0, round((ended - started).total_seconds(), 3)),
        "error": run["error"],
        "task": run["task"],
        "progress": run["progress"] if run["state"] == "running" else None,
    }


def interrupted_as(server: settings.ServerEndpoint, run_id: str) -> str:
    """Return the status of a run that is interrupted: whether a user has cancelled it."""
    with contextlib.suppress(errors.PipelineError):
        if native.ask(server, "GET", f"jobs/{quote(run_id, safe='')}")["is_cancelled"]:
            return "cancelled"
    return "interrupted"


def cancel(server: settings.ServerEndpoint, run_id: str) -> Mapping[str, Any]:
    """Cancel a run. Raises PipelineError if there is none, or it has ended."""
    return native.ask(server, "DELETE", f"jobs/{quote(run_id, safe='')}")


def interrupt_this_process() -> None:
    """End this process as Ctrl-C does."""
    os.kill(os.getpid(), signal.SIGINT)
