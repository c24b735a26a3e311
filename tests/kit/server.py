"""A Boathouse process as a user starts it, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COVERAGE_VARIABLE = "BOATHOUSE_COVERAGE"
"""`make coverage` sets it to the path of coverage's settings."""
READY_TIMEOUT_SECONDS = 120
STOP_TIMEOUT_SECONDS = 90

LATE = re.compile(r"^.* WARNING boathouse\.loop: the event loop was held .*\n", re.MULTILINE)


def but_for_lateness(text: str) -> str:
    """What a server has written, without its lines about a late event loop.

    A busy machine makes every loop late now and then, also while a server starts and ends.
    """
    return LATE.sub("", text)


@dataclass
class Running:
    """A started server: where it listens, its root key pair, its folder and its process."""

    url: str
    access_key: str
    secret_key: str
    data: Path
    pid: int
    process: subprocess.Popen[bytes]
    log: Path
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return self.url.split("//", 1)[1].rsplit(":", 1)[0]

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    @property
    def iceberg(self) -> str:
        """The base URI of the Iceberg REST catalog."""
        return self.url + "/iceberg"

    def kill(self) -> None:
        """kill -9, as the power would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_TIMEOUT_SECONDS)

    def stop(self) -> int:
        """SIGTERM; return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_SECONDS)


@contextlib.contextmanager
def ends_with_us(running: Running) -> Iterator[None]:
    """Within the block, stop a server also when this process is killed.

    A shell waits for the end of a pipe that this process alone holds.
    """
    with subprocess.Popen(
        ["sh", "-c", 'read line || kill "$0"', str(running.pid)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    ) as keeper:
        try:
            yield
        finally:
            keeper.kill()


def client_environment() -> dict[str, str]:
    """The environment in which drivers stay on loopback."""
    environment = dict(os.environ)
    environment["SNOWFLAKE_DISABLE_PLATFORM_DETECTION"] = "true"
    environment["AWS_EC2_METADATA_DISABLED"] = "true"
    if COVERAGE_VARIABLE in environment:
        # The programs are measured, not the tests: coverage begins in whatever has this variable.
        environment["COVERAGE_PROCESS_START"] = environment[COVERAGE_VARIABLE]
        # A program may run in any folder, and a test may look at all that is in it then.
        environment["COVERAGE_FOLDER"] = str(ROOT / ".coverage")
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        environment.pop(name, None)
    return environment


def start(
    data: Path,
    *flags: str,
    environment: dict[str, str] | None = None,
    working_folder: Path | None = None,
    checkout: Path = ROOT,
) -> Running:
    """Start `mini.py` on a free port and wait until every face answers.

    working_folder: where it is started; data is then told relative to it, as people do. checkout:
    the folder whose `mini.py` that is; this checkout, but for comparisons.
    """
    data.parent.mkdir(parents=True, exist_ok=True)
    ready = data.parent / f"{data.name}.ready.{time.monotonic_ns()}.json"
    log = data.parent / f"{data.name}.log"
    command = [sys.executable, str(checkout / "mini.py"), "serve", "--port", "0", "--data"]
    command += [os.path.relpath(data, working_folder) if working_folder else str(data)]
    command += ["--ready-file", str(ready), *flags]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            cwd=working_folder or checkout,
            env={**client_environment(), **(environment or {})},
            start_new_session=True,
        )
    deadline = time.monotonic() + READY_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if ready.exists() and ready.stat().st_size:
            said = json.loads(ready.read_text())
            ready.unlink()
            return Running(
                url=said["url"],
                access_key=said["access_key"],
                secret_key=said["secret_key"],
                data=Path(said["data"]),
                pid=said["pid"],
                process=process,
                log=log,
            )
        if process.poll() is not None:
            raise AssertionError(f"mini.py ended with {process.returncode}:\n{log.read_text()}")
        time.sleep(0.02)
    process.kill()
    raise AssertionError(f"mini.py was not ready in time:\n{log.read_text()}")


def get(url: str, *, timeout_seconds: float = 60) -> tuple[int, bytes]:
    """A plain unsigned GET; the status and the body, errors included."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_seconds) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
