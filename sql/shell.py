"""face: `mini.py sql "select ..."`: one query against a running server, printed.

It logs in over HTTP like any client, requests JSON rows, fetches chunks and slow results, and logs
out. An error is one line on standard error and exit code 1. Imports no server module, so that it
starts quickly; it decodes cells by the protocol's rules.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import ssl
import sys
import time
import unicodedata
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TextIO

CLIENT_NAME = "BoathouseShell"
LOGIN_SECONDS = 60
ANSWER_SECONDS = 120
CELL_WIDTH_MAX = 100
OutputFormat = Literal["table", "csv", "json"]

TRANSFERS = frozenset({"UPLOAD", "DOWNLOAD"})
PENDING = frozenset({"333333", "333334"})
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NUMBERS = frozenset({"fixed", "real", "decfloat"})


class ShellError(Exception):
    """The query failed; str() is one line for the user."""


def run(
    text: str,
    *,
    url: str,
    user: str,
    password: str,
    database: str | None = None,
    schema: str | None = None,
    certificates: str | None = None,
    output_format: OutputFormat = "table",
    output: TextIO | None = None,
    errors: TextIO | None = None,
) -> int:
    """Run text and print its answer (one per statement); return the exit code.

    certificates: a file of certificates that are trusted beside those of Python.
    """
    out, err = output or sys.stdout, errors or sys.stderr
    client = Client(url=url, certificates=certificates)
    try:
        client.login(user=user, password=password, database=database or "", schema=schema or "")
        try:
            started = time.monotonic()
            for answer in client.query(text):
                seconds = time.monotonic() - started
                out.write(rendered(answer, output_format, seconds=seconds))
                started = time.monotonic()
        finally:
            client.logout()
    except ShellError as error:
        err.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        err.write("canceled\n")
        return 130
    except BrokenPipeError:
        return 1
    return 0


class Client:
    """One session over HTTP. Holds its token; not for threads."""

    def __init__(self, *, url: str, certificates: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._token: str | None = None
        # The server is on this machine: a proxy that the environment names leads elsewhere.
        self._opener = urllib.request.OpenerDirector()
        self._opener.add_handler(urllib.request.HTTPDefaultErrorHandler())
        self._opener.add_handler(urllib.request.HTTPErrorProcessor())
        if self._url.startswith("https:"):
            trusted = _trusting(certificates)
            self._opener.add_handler(urllib.request.HTTPSHandler(context=trusted))
        else:
            self._opener.add_handler(urllib.request.HTTPHandler())

    def login(self, *, user: str, password: str, database: str, schema: str) -> None:
        """Open the session. Raises ShellError."""
        query = urllib.parse.urlencode({"databaseName": database, "schemaName": schema})
        data = {
            "CLIENT_APP_ID": CLIENT_NAME,
            "CLIENT_APP_VERSION": "1",
            "ACCOUNT_NAME": "boathouse",
            "LOGIN_NAME": user,
            "PASSWORD": password,
        }
        path = f"/session/v1/login-request?{query}"
        answer = self._post(path, {"data": data}, seconds=LOGIN_SECONDS)
        self._token = answer["data"]["token"]

    def query(self, text: str) -> Iterator[Mapping[str, Any]]:
        """Yield the answer of each statement in text: `data` with `rowset` whole."""
        request_id = str(uuid.uuid4())
        body = {"sqlText": text, "parameters": {"MULTI_STATEMENT_COUNT": 0}}
        path = f"/queries/v1/query-request?requestId={request_id}"
        try:
            answer = self._waited_for(self._post(path, body, seconds=ANSWER_SECONDS))
        except KeyboardInterrupt:
            self._post("/queries/v1/abort-request", {"requestId": request_id}, seconds=5)
            raise
        children = answer["data"].get("resultIds")
        if not children:
            yield self._whole(answer["data"])
            return
        for query_id in children.split(","):
            child = self._waited_for(self._get(f"/queries/{query_id}/result"))
            yield self._whole(child["data"])

    def logout(self) -> None:
        """Close the session; a server that is gone has closed it by itself."""
        try:
            self._post("/session?delete=true", {}, seconds=5)
        except ShellError:
            self._token = None

    def _waited_for(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        while answer["code"] in PENDING:
            answer = self._get(answer["data"]["getResultUrl"])
        return answer

    def _whole(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        if data.get("command") in TRANSFERS:
            raise ShellError(
                "the file was not transferred: PUT and GET need a Snowflake driver, see "
                "`mini.py connect snowflake`"
            )
        rows = list(data.get("rowset") or ())
        for chunk in data.get("chunks") or ():
            rows += json.loads(b"[" + self._bytes(chunk["url"]) + b"]")
        return {**data, "rowset": rows}

    def _post(self, path: str, body: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        return self._answer(path, json.dumps(body).encode(), seconds)

    def _get(self, path: str) -> dict[str, Any]:
        return self._answer(path, None, ANSWER_SECONDS)

    def _answer(self, path: str, body: bytes | None, seconds: float) -> dict[str, Any]:
        request = urllib.request.Request(self._url + path, data=body)
        request.add_header("Content-Type", "application/json")
        request.add_header("Accept", "application/json")
        request.add_header("Authorization", f'Snowflake Token="{self._token}"')
        answer = json.loads(self._sent(request, seconds))
        if not answer["success"]:
            raise ShellError(_fault(answer))
        return dict(answer)

    def _bytes(self, url: str) -> bytes:
        return self._sent(urllib.request.Request(url), ANSWER_SECONDS)

    def _sent(self, request: urllib.request.Request, seconds: float) -> bytes:
        try:
            with self._opener.open(request, timeout=seconds) as response:
                body: bytes = response.read()
                return body
        except urllib.error.HTTPError as error:
            raise ShellError(f"{self._url} answered {error.code} {error.reason}") from None
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise ShellError(
                    f"the certificate of {self._url} is not trusted: {reason.verify_message}; "
                    "if it is self-signed, set SSL_CERT_FILE to its PEM file"
                ) from None
            raise ShellError(f"no server answers at {self._url}: {reason}") from None


def _trusting(certificates: str | None) -> ssl.SSLContext:
    """Return what trusts the system's certificates, and those of a file. Costs 25 ms."""
    trusted = ssl.create_default_context()
    if certificates is not None:
        with contextlib.suppress(OSError):  # a server that ended meanwhile: it does not answer
            trusted.load_verify_locations(certificates)
    return trusted


def rendered(answer: Mapping[str, Any], output_format: OutputFormat, *, seconds: float) -> str:
    """Return an answer as text that ends in a newline."""
    columns, rows = answer["rowtype"], answer["rowset"]
    match output_format:
        case "table":
            return _table(columns, rows, seconds)
        case "csv":
            return _csv(columns, rows)
        case "json":
            return _json(columns, rows)


def shown(column: Mapping[str, Any], cell: str | None) -> str | None:
    """Return a JSON cell as a person writes the value, or None for NULL."""
    if cell is None:
        return None
    match column["type"].lower():
        case "boolean":
            return "true" if cell == "1" else "false"
        case "date":
            return _day(int(cell))
        case "time":
            return _clock(cell)
        case "timestamp_ntz":
            return _instant(cell, 0)
        case "timestamp_ltz":
            return _instant(cell, 0) + "+00:00"
        case "timestamp_tz":
            instant, _, offset = cell.partition(" ")
            minutes = int(offset) - 1440
            sign = "-" if minutes < 0 else "+"
            zone = f"{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
            return _instant(instant, minutes * 60) + zone
        case _:
            return cell


def _table(
    columns: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[str | None]], seconds: float
) -> str:
    heads = [_short(column["name"]) for column in columns]
    cells = [
        [
            _short("NULL" if (text := shown(column, cell)) is None else text)
            for column, cell in zip(columns, row, strict=True)
        ]
        for row in rows
    ]
    widths = [
        max([_width(head), *(_width(row[index]) for row in cells)])
        for index, head in enumerate(heads)
    ]
    right = [column["type"].lower() in NUMBERS for column in columns]
    lines = [
        _line(heads, widths, [False] * len(heads)),
        "-+-".join("-" * width for width in widths),
        *(_line(row, widths, right) for row in cells),
    ]
    count = f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
    return "\n".join(lines) + f"\n({count}, {seconds:.3f} s)\n"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        " " * (width - _width(cell)) + cell if to_right else cell + " " * (width - _width(cell))
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return " | ".join(padded).rstrip()


def _short(text: str) -> str:
    line = text.replace("\n", " ").replace("\t", " ")
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(line) <= CELL_WIDTH_MAX else line[: CELL_WIDTH_MAX - 1] + "…"


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(letter)
        else 2
        if unicodedata.east_asian_width(letter) in "WF"
        else 1
        for letter in text
    )


def _csv(columns: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[str | None]]) -> str:
    """Return rows as RFC 4180 has them; a NULL is an empty field, an empty string is quoted."""
    lines = [",".join(_csv_field(column["name"]) for column in columns)]
    for row in rows:
        cells = (shown(column, cell) for column, cell in zip(columns, row, strict=True))
        lines.append(",".join("" if cell is None else _csv_field(cell) for cell in cells))
    return "\n".join(lines) + "\n"


def _csv_field(text: str) -> str:
    if text and not CSV_QUOTED.intersection(text):
        return text
    return '"' + text.replace('"', '""') + '"'


CSV_QUOTED = frozenset(',"\r\n')


def _json(columns: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[str | None]]) -> str:
    # Written by hand, so that a number keeps every digit.
    names = [json.dumps(column["name"], ensure_ascii=False) for column in columns]
    lines = [
        "{"
        + ", ".join(
            f"{name}: {_json_value(column, cell)}"
            for name, column, cell in zip(names, columns, row, strict=True)
        )
        + "}"
        for row in rows
    ]
    return "[" + ",\n ".join(lines) + "]\n"


def _json_value(column: Mapping[str, Any], cell: str | None) -> str:
    text = shown(column, cell)
    if text is None:
        return "null"
    match column["type"].lower():
        case "boolean" | "variant" | "object" | "array":
            return text
        case "fixed":
            return text
        case "real" if text.lower().lstrip("-") not in ("nan", "inf"):
            return text
        case _:
            return json.dumps(text, ensure_ascii=False)


def _day(days: int) -> str:
    """Return a day since 1970, of any year: the calendar repeats after 400 years."""
    cycles, rest = divmod(days, DAYS_OF_CYCLE)
    day = EPOCH.date() + datetime.timedelta(days=rest)
    return f"{day.year + 400 * cycles:04d}-{day:%m-%d}"


DAYS_OF_CYCLE = 146_097


def _clock(cell: str) -> str:
    whole, dot, fraction = cell.partition(".")
    return _second(int(whole)) + dot + fraction


def _second(seconds: int) -> str:
    """Return a second of a day as its time."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _instant(cell: str, offset_seconds: int) -> str:
    whole, dot, fraction = cell.partition(".")
    seconds = int(whole)
    if cell.startswith("-") and fraction.strip("0"):
        # Sign and magnitude on the wire; a calendar counts its fractions upwards.
        seconds -= 1
        fraction = f"{10 ** len(fraction) - int(fraction):0{len(fraction)}d}"
    days, second = divmod(seconds + offset_seconds, 86_400)
    return f"{_day(days)} {_second(second)}{dot}{fraction}"


def _fault(answer: Mapping[str, Any]) -> str:
    state = (answer.get("data") or {}).get("sqlState") or ""
    message = " ".join(str(answer.get("message") or "").split())
    return f"{answer.get('code')} ({state}): {message}"
