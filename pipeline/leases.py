"""engine: the server's list of runs: a run by hand enters itself, so that no other begins beside
it.

The server refuses a run while another of the same pipeline goes on, its own or a client's. A run
says every few seconds that it goes on; a run that ends without a word is over after a minute. The
answer says whether the run was cancelled.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote, urlencode

from pipeline import errors, progress, runs, settings

ANSWER_SECONDS = 30.0
PROLONG_SECONDS = 15.0


class OwnRun:
    """A run of this process in the server's list. Mutable: it keeps how it ended."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.latest = ""
        self.state = "failed"
        self.error: str | None = None
        self.answer: Mapping[str, Any] = {}

    def keep(self, run: runs.PipelineRun) -> None:
        """Keep what the run did, also if it failed."""
        self.answer = dataclasses.asdict(run)

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
    begun = _ask(server, "POST", f"jobs?{query}")
    run, ended = OwnRun(begun["run_id"]), threading.Event()
    path = f"jobs/{run.run_id}"

    def prolong() -> None:
        while not ended.wait(PROLONG_SECONDS):
            # A server that does not answer now is asked again; the load itself notices its end.
            with contextlib.suppress(errors.PipelineError):
                if _ask(server, "PATCH", path, {"progress": run.latest})["is_cancelled"]:
                    give_up()
                    return

    thread = threading.Thread(target=prolong, daemon=True)
    thread.start()
    try:
        yield run
    except KeyboardInterrupt:
        run.state, run.error = "cancelled", "the run was interrupted"
        raise
    except errors.PipelineError as error:
        run.error = str(error)
        raise
    finally:
        ended.set()
        thread.join(ANSWER_SECONDS)
        report = {"state": run.state, "error": run.error, "answer": dict(run.answer)}
        with contextlib.suppress(errors.PipelineError):
            _ask(server, "PATCH", path, report)


def earlier(
    server: settings.ServerEndpoint, pipeline: str, target: str, run_id: str
) -> list[runs.EndedRun]:
    """Return the runs of a pipeline before this one, back to the last that ended with a result.

    None where the server does not say: what it misses, the next run asks for.
    """
    query = urlencode({"pipeline": pipeline})
    with contextlib.suppress(errors.PipelineError):
        listed = _ask(server, "GET", f"jobs?{query}")["jobs"]
        own = [run for run in listed if (run["name"], run["target"]) == (pipeline, target)]
        return runs.without_result(own, but=run_id)
    return []


def interrupted_as(server: settings.ServerEndpoint, run_id: str) -> str:
    """Return the status of a run that is interrupted: whether a user has cancelled it."""
    with contextlib.suppress(errors.PipelineError):
        if _ask(server, "GET", f"jobs/{quote(run_id, safe='')}")["is_cancelled"]:
            return "cancelled"
    return "interrupted"


def cancel(server: settings.ServerEndpoint, run_id: str) -> Mapping[str, Any]:
    """Cancel a run. Raises PipelineError if there is none, or it has ended."""
    return _ask(server, "DELETE", f"jobs/{quote(run_id, safe='')}")


def interrupt_this_process() -> None:
    """End this process as Ctrl-C does."""
    os.kill(os.getpid(), signal.SIGINT)


def _ask(
    server: settings.ServerEndpoint,
    method: Literal["GET", "POST", "PATCH", "DELETE"],
    path: str,
    body: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    pair = f"{server.access_key}:{server.secret_key}".encode()
    request = urllib.request.Request(
        f"{server.url}/_api/v1/{path}",
        method=method,
        data=None if body is None else json.dumps(body, default=str).encode(),
        headers={
            "Authorization": "Basic " + base64.b64encode(pair).decode(),
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            content: Mapping[str, Any] = json.load(answer)
            return content
    except urllib.error.HTTPError as error:
        raise errors.PipelineError(_message(error)) from error
    except (OSError, ValueError) as error:
        raise errors.NoServer(f"the server does not answer: {error}") from error


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"]["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"the server refused: {error}"
