"""A Python program in a client's own environment that answers each line of JSON with one.

The program's text defines `answer(value)`. It runs for as long as the test wants, so that a slow
import is paid once. Its environment names the server: URL, KEY and SECRET.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from tests.kit import environments
from tests.kit import server as server_kit

ANSWER_TIMEOUT_SECONDS = 300
MARK = "ANSWER "
LOOP = """
import json, sys
for line in sys.stdin:
    try:
        said = {"value": answer(json.loads(line))}
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    print("\\nANSWER " + json.dumps(said, default=str), flush=True)
"""


class ProgramError(Exception):
    """The program's `answer` raised. The text names its exception."""


class LineProgram:
    """A running program."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._received = b""

    def ask(self, value: Any) -> Any:
        """Return what the program answers to a value. Raises ProgramError."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value).encode() + b"\n")
        self._process.stdin.flush()
        while not (line := self._line()).startswith(MARK):
            pass
        said = json.loads(line.removeprefix(MARK))
        if "error" in said:
            raise ProgramError(said["error"])
        return said["value"]

    def _line(self) -> str:
        assert self._process.stdout is not None
        deadline = time.monotonic() + ANSWER_TIMEOUT_SECONDS
        while b"\n" not in self._received:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._process.stdout], [], [], left)
            assert ready, f"no answer after {ANSWER_TIMEOUT_SECONDS} s"
            block = os.read(self._process.stdout.fileno(), 1 << 16)
            assert block, f"the program ended with {self._process.wait()}"
            self._received += block
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()


@contextlib.contextmanager
def running(server: server_kit.Running, environment: str, text: str) -> Iterator[LineProgram]:
    """Run a program's text in the named environment of tests/kit/requirements/."""
    variables = {
        **server_kit.client_environment(),
        "URL": server.url,
        "HOST": server.host,
        "PORT": str(server.port),
        "KEY": server.access_key,
        "SECRET": server.secret_key,
        "DAFT_ANALYTICS_ENABLED": "0",
        "DO_NOT_TRACK": "true",
    }
    with subprocess.Popen(
        [str(environments.python(environment)), "-c", text + LOOP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=variables,
    ) as process:
        yield LineProgram(process)
        assert process.stdin is not None
        process.stdin.close()
