"""One transcript per operation, in tests/golden/snowflake: request and answer as on the wire.

`UPDATE_GOLDEN=1` rewrites them; people read the difference. Tokens, ids, times and signatures are
replaced by their names.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sql import errors, outcomes
from tests.sql.rest import raw, served

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "snowflake"
NUMBER = outcomes.Column(name="N", type="fixed", precision=19, scale=0)
SHOWN_HEADERS = ("content-type", "content-encoding")

MASKS = (
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<query id>"),
    (r'("(?:sendResultTime|startTime|endTime|clientSendTime)": )[1-9]\d*', r"\1<ms>"),
    (r'("totalDuration": )\d+', r"\1<ms>"),
    (r'("sessionId": )\d+', r"\1<session id>"),
    (r"expires=\d+&signature=[0-9a-f]+", "expires=<ms>&signature=<signature>"),
    (r"http://127\.0\.0\.1:\d+", "<origin>"),
)


def readable(body: Any) -> Any:
    """The body with its Arrow stream spelt out."""
    data = body["data"]
    if isinstance(data, dict) and data.get("rowsetBase64"):
        with pa.ipc.open_stream(base64.b64decode(data["rowsetBase64"])) as stream:
            table = stream.read_all()
        fields = [
            f"{field.name}: {field.type} {sorted((field.metadata or {}).items())}"
            for field in table.schema
        ]
        data["rowsetBase64"] = {
            "fields": fields,
            "rows": table.num_rows,
            "first": table.to_pylist()[:3],
        }
    return body


class Recorder(raw.Client):
    """A client that writes down the last exchange."""

    last = ""

    def send(self, method: str, path: str, body: Any = None, **more: Any) -> raw.Answer:
        answer = super().send(method, path, body, **more)
        lines = [f"> {method} {path.removeprefix(self.url)}"]
        if body not in (None, b""):
            lines += [f"> {line}" for line in json.dumps(body, indent=2).splitlines()]
        lines.append(f"< {answer.status}")
        lines += [
            f"< {name}: {answer.headers[name]}" for name in SHOWN_HEADERS if name in answer.headers
        ]
        if answer.headers["content-type"] == "application/json":
            shown = json.dumps(readable(answer.body), indent=2, ensure_ascii=False)
        else:
            shown = f"({len(answer.raw)} bytes)"
        text = "\n".join([*lines, shown]) + "\n"
        for pattern, name in MASKS:
            text = re.sub(pattern, name, text)
        self.last = text
        return answer


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    with recorded(tmp_path_factory.mktemp("golden")) as recorder:
        yield recorder


@pytest.fixture(scope="module")
def sent_away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """A client of a server that has no answer after 50 ms; on a busy machine it may have none to
    any statement by then."""
    folder = tmp_path_factory.mktemp("golden-slow")
    with recorded(folder, answer_within_seconds=0.05) as recorder:
        yield recorder


@contextmanager
def recorded(folder: Path, **more: Any) -> Iterator[Recorder]:
    with served.serve(folder, **more) as face:
        answers = face.statements
        answers.outcome(
            "insert",
            outcomes.changed_rows(
                outcomes.StatementType.INSERT, outcomes.Stats(rows_inserted=2), inserted=2
            ),
        )
        many = pa.record_batch([pa.array(range(150_000))], names=["N"])
        answers.table("select many", [NUMBER], many)
        answers.table("select none", [NUMBER])

        async def missing(call: served.Call) -> outcomes.Outcome:
            raise errors.does_not_exist("Object", "T")

        async def slow(call: served.Call) -> outcomes.Outcome:
            await asyncio.sleep(30)
            raise AssertionError

        answers.answers["select missing"] = missing
        answers.answers["select slow"] = slow
        recorder = Recorder(url=face.url)
        recorder.login()
        yield recorder


def check(name: str, client: Recorder) -> None:
    path = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(client.last, encoding="utf-8")
    assert path.exists(), f"no transcript of {name}; UPDATE_GOLDEN=1 writes it"
    assert client.last == path.read_text(encoding="utf-8")


def test_login(client: Recorder) -> None:
    other = Recorder(url=client.url)
    other.login(query="databaseName=lake&schemaName=public&warehouse=w&roleName=")
    check("login", other)
    other.login(PASSWORD="wrong")
    check("login_refused", other)


def test_token_request(client: Recorder) -> None:
    other = Recorder(url=client.url)
    other.login()
    old, new = other.token, "old token"
    other.token = new
    other.renew()
    other.token = old
    check("token_request", other)


def test_heartbeat_logout_and_what_comes_after(client: Recorder) -> None:
    other = Recorder(url=client.url)
    other.login()
    other.send("POST", "/session/heartbeat", b"")
    check("heartbeat", other)
    other.send("POST", "/session?delete=true", {})
    check("logout", other)
    other.send("POST", "/session/heartbeat", b"")
    check("session_gone", other)


@pytest.mark.parametrize(
    ("name", "text", "more"),
    [
        ("query_select", "select 1", {}),
        ("query_no_rows", "select none", {}),
        ("query_chunks", "select many", {}),
        ("query_dml", "insert", {}),
        ("query_fault", "select missing", {}),
        ("query_several", "select 1; insert", {"parameters": {"MULTI_STATEMENT_COUNT": 0}}),
    ],
)
def test_query(client: Recorder, name: str, text: str, more: dict[str, Any]) -> None:
    client.query(text, request_id=request_id(name), **more)
    check(name, client)


@pytest.mark.parametrize(
    ("name", "more"), [("query_slow", {}), ("query_async", {"asyncExec": True})]
)
def test_query_that_runs_on(sent_away: Recorder, name: str, more: dict[str, Any]) -> None:
    sent_away.query("select slow", request_id=request_id(name), **more)
    check(name, sent_away)


def request_id(name: str) -> str:
    return "00000000-0000-4000-8000-" + name.encode().hex()[-12:]


def test_result_and_monitoring(client: Recorder) -> None:
    query_id = client.query("insert").data["queryId"]
    client.result(query_id)
    check("result", client)
    client.send("GET", f"/monitoring/queries//{query_id}")
    check("monitoring", client)
    client.send("GET", "/monitoring/queries/unknown")
    check("monitoring_unknown", client)
    client.result("unknown")
    check("result_unknown", client)


def test_abort(sent_away: Recorder) -> None:
    client = sent_away
    running = client.query("select slow", asyncExec=True).data["queryId"]
    client.send("POST", f"/queries/{running}/abort-request", {})
    check("abort_query", client)
    client.query("select slow", request_id="r1")
    client.send("POST", "/queries/v1/abort-request", {"sqlText": "select slow", "requestId": "r1"})
    check("abort_request", client)
    client.send(
        "POST", "/queries/v1/abort-request", {"sqlText": "select slow", "requestId": "none"}
    )
    check("abort_request_not_running", client)


def test_chunk(client: Recorder) -> None:
    chunk = client.query("select many").data["chunks"][0]
    client.send("GET", chunk["url"])
    check("chunk", client)
    client.send("GET", chunk["url"][:-8] + "00000000")
    check("chunk_refused", client)


def test_telemetry_and_nothing(client: Recorder) -> None:
    client.send("POST", "/telemetry/send", {"logs": []})
    check("telemetry", client)
    client.send("POST", "/session/authenticator-request", {})
    check("not_found", client)
