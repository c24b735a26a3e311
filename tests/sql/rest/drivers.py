"""Runs a few lines of Python in a driver's own environment and process.

The lines see `connect(**more)`, which logs in to the served face, and `say(value)`, which hands a
value back as JSON. A wrong cell can end the driver's process; what it had said until then, and how
it ended, is what a test gets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

import pytest

from tests.kit import environments
from tests.kit import server as server_kit

TIMEOUT_SECONDS = 120

PY4 = "snowflake4"
PY5 = "snowflake5"
BOTH = (PY4, PY5)
NEWER = (pytest.param(PY4, marks=pytest.mark.clients), PY5)
"""For what does not depend on the generation: `make test` has the newer one alone."""
NEWER_FIRST = (pytest.param(PY4, marks=pytest.mark.further), PY5)
"""For what both generations do alike: `make test-all` has both."""

PRELUDE = """
import datetime, decimal, json, math, sys, time
try:
    import snowflake.connector
except ImportError:
    pass  # another driver's environment

def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (str, bool, type(None))):
        return value
    return f"{type(value).__name__}:{value!s}"

def say(*values):
    print("SAID " + json.dumps(plain(list(values))), flush=True)

def connect(**more):
    settings = {
        "host": "127.0.0.1", "port": PORT, "protocol": "http", "account": "test",
        "user": USER, "password": PASSWORD, "login_timeout": 20,
    }
    settings.update(more)
    return snowflake.connector.connect(**settings)
"""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a driver's process said, and how it ended."""

    values: list[Any]
    code: int
    errors: str

    def checked(self) -> list[Any]:
        """The values of a process that ended well."""
        assert self.code == 0, f"ended with {self.code} after {self.values}:\n{self.errors[-3000:]}"
        return self.values


def run(
    driver: str,
    lines: str,
    *,
    port: int,
    user: str,
    password: str,
    timeout_seconds: int = TIMEOUT_SECONDS,
) -> Said:
    """Run lines in the environment of driver."""
    assert sys.platform != "win32"
    setup = f"PORT, USER, PASSWORD = {port!r}, {user!r}, {password!r}\n"
    done = subprocess.run(
        [str(environments.python(driver)), "-X", "faulthandler", "-c",
         setup + PRELUDE + textwrap.dedent(lines)],
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
        env=server_kit.client_environment(),
    )  # fmt: skip
    values = [
        json.loads(line.removeprefix("SAID "))
        for line in done.stdout.splitlines()
        if line.startswith("SAID ")
    ]
    return Said(values=values, code=done.returncode, errors=done.stderr)
