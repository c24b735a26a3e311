"""Runs the corpus through snowflake-connector-python, in that driver's own environment.

Started by `tests.slt` as `python -m tests.slt.runner CORPUS OUTCOMES PATTERN`, with the arguments
of the driver in SLT_CONNECTION. Each file gets a session and a schema of its own. The sessions'
zone is that of the corpus. Writes why each entry failed, "" for one that passed.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import sys
from pathlib import Path
from typing import Any

import snowflake.connector
from snowflake.connector.constants import FIELD_ID_TO_NAME

from tests.slt import cells, corpus

ZONE = "America/Los_Angeles"
STATEMENT_SECONDS = 20
SERVER_ERRNO_MAX = 199_999
"""Above are numbers of the driver's own errors, and of tokens and sessions."""


class BrokenError(Exception):
    """No answer of the server: a time-out, an HTTP error, a lost connection."""


def main(arguments: list[str]) -> None:
    folder, results, only = Path(arguments[0]), Path(arguments[1]), arguments[2]
    settings = json.loads(os.environ["SLT_CONNECTION"])
    outcomes: dict[str, str] = {}
    for number, path in enumerate(sorted(folder.rglob("*.slt"))):
        name = path.relative_to(folder).as_posix()
        if fnmatch.fnmatch(name, only):
            outcomes.update(_run_file(name, path, settings, f"slt_{number}"))
    results.write_text(json.dumps(outcomes))


def _run_file(name: str, path: Path, settings: Any, schema: str) -> dict[str, str]:
    outcomes, is_spoilt = {}, False
    with snowflake.connector.connect(
        **settings,
        session_parameters={"TIMEZONE": ZONE, "CLIENT_TELEMETRY_ENABLED": False},
        login_timeout=STATEMENT_SECONDS,
        network_timeout=STATEMENT_SECONDS,
    ) as connection:
        for text in (f"CREATE SCHEMA {schema}", f"USE SCHEMA {schema}"):
            _answer(connection, text)
        for entry in corpus.entries(path.read_text(encoding="utf-8")):
            why = _judged(connection, entry, is_spoilt=is_spoilt)
            is_spoilt |= bool(why) and not entry.is_scored
            outcomes[f"{name} {entry.name}"] = why
        with contextlib.suppress(snowflake.connector.errors.Error, BrokenError):
            _answer(connection, f"DROP SCHEMA {schema}")
    return outcomes


def _judged(connection: Any, entry: corpus.Entry, *, is_spoilt: bool) -> str:
    """Return why an entry fails. is_spoilt: statements before it have failed."""
    try:
        columns, rows = _answer(connection, entry.text)
    except BrokenError as error:
        return str(error)
    except snowflake.connector.errors.Error as error:
        number = f"{error.errno:06d}"
        if not entry.name.startswith("e"):
            return f"{number} {' '.join(str(error.raw_msg).split())}"
        # After statements that failed, tables may be missing: only Snowflake's number proves it.
        is_meant = not is_spoilt or "".join(entry.expected).startswith(number)
        return "" if is_meant else f"refused with {number}"
    if entry.name.startswith("e"):
        return "accepted what Snowflake refuses"
    return cells.difference(entry, columns, rows) if entry.is_scored else ""


def _answer(connection: Any, text: str) -> tuple[list[cells.Column], list[Any]]:
    cursor = connection.cursor()
    try:
        # Without _no_retry the driver repeats a statement that is answered by HTTP 500.
        cursor.execute(text, timeout=STATEMENT_SECONDS, _no_retry=True)
        columns = [
            cells.Column(each.name, FIELD_ID_TO_NAME.get(each.type_code, "TEXT"), each.scale)
            for each in cursor.description or ()
        ]
        return columns, cursor.fetchall()
    except snowflake.connector.errors.Error as error:
        if 0 < (error.errno or -1) <= SERVER_ERRNO_MAX and error.errno not in (604, 630):
            raise
        raise BrokenError(f"no answer: {' '.join(str(error).split())[:200]}") from error
    except Exception as error:
        raise BrokenError(f"no answer: {type(error).__name__}: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
