"""engine: the one child process that does what is due: `python -m pipeline serve`.

The server writes a job as one line of JSON, and reads lines back: progress, and the job's answer. A
child that ends in the middle of a job has changed nothing, or what its commit says; its job ends
with WorkerEnded. The child ends when its standard input does, so none outlives a killed server. Its
standard error goes to a file of the data folder, and Spark's own output to another one beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from server import children
from storage.disk import Disk

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
LOGS_MAX: Final = 10
"""Logs of earlier children that are kept."""
LOG_PREFIX: Final = "jobs-"
LOG_VARIABLE: Final = "BOATHOUSE_JOB_LOG"
"""Tells the child the path of its own log."""
STOP_SECONDS: Final = 8.0
"""How long a child may take to end itself and its JVM before it is killed."""


class WorkerEnded(Exception):
    """The child ended before it answered; str() says how."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkAnswer:
    """How a job ended. code: 0 for done. outcome: what it printed as JSON."""

    code: int
    outcome: Mapping[str, Any]
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerCommand:
    """How a child is started: its command, the variables beside the usual ones, its folder."""

    arguments: Sequence[str]
    variables: Mapping[str, str]
    folder: Path


class Worker:
    """A started child. Mutable: it ends once."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        *,
        log: str = "its log",
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self._process = process
        self._log = log
        self._stop_seconds = stop_seconds
        self._is_reading = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.returncode is not None

    async def do(self, job: Sequence[str], *, report: Callable[[str], None]) -> WorkAnswer:
        """Do one job; report: called with each line of progress. Raises WorkerEnded."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None, "the child was started with pipes"
        assert stdout is not None, "the child was started with pipes"
        self._is_reading = True
        try:
            stdin.write(json.dumps({"arguments": list(job)}).encode() + b"\n")
            await stdin.drain()
            while line := await stdout.readline():
                message = json.loads(line)
                if "progress" in message:
                    report(str(message["progress"]))
                else:
                    return WorkAnswer(
                        code=int(message["code"]),
                        outcome=dict(message.get("outcome") or {}),
                        error=message.get("error"),
                    )
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._is_reading = False
            await self.stop()
            raise WorkerEnded(f"the process of the job cannot be understood: {error}") from error
        finally:
            self._is_reading = False
        await self.stop()  # it may have closed its output alone, and never end by itself
        code = self._process.returncode
        assert code is not None, "it has ended"
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        raise WorkerEnded(f"the process of the job ended {how}; see {self._log}")

    async def stop(self) -> None:
        """End the child, also in the middle of a job, and wait for its end."""
        if self._process.stdin is not None:
            self._process.stdin.close()  # it ends with its standard input
        try:
            # Python 3.11's wait_for loses a cancel that comes with the end of the process.
            async with asyncio.timeout(self._stop_seconds):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        if self._process.stdout is not None and not self._is_reading:
            await self._process.stdout.read()  # asyncio closes a pipe at its end alone


async def start(command: WorkerCommand, *, disk: Disk, logs: Path) -> Worker:
    """Start a child, with its standard error in a new file of the folder of logs."""
    path, log = await asyncio.to_thread(_open_log, disk, logs)
    try:
        process = await asyncio.create_subprocess_exec(
            *command.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            cwd=command.folder,
            env=children.environment(os.environ, **command.variables, **{LOG_VARIABLE: str(path)}),
            limit=LINE_BYTES_MAX,
            start_new_session=True,  # Ctrl-C ends the server, which ends its children in order
        )
    finally:
        disk.close(log)
    return Worker(process, log=str(path))


def _open_log(disk: Disk, folder: Path) -> tuple[Path, int]:
    disk.make_folder(folder)
    names = sorted(
        name
        for name in disk.names(folder)
        if name.startswith(LOG_PREFIX) and name[len(LOG_PREFIX) : -4].isdecimal()
    )
    for name in names[: max(0, len(names) - LOGS_MAX + 1)]:
        disk.unlink(folder / name)
    number = int(names[-1][len(LOG_PREFIX) : -4]) + 1 if names else 1
    path = folder / f"{LOG_PREFIX}{number:06d}.log"
    return path, disk.create(path)
