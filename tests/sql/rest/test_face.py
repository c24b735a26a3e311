"""The protocol's rules that no driver shows: envelopes, tokens, replay, bounds, who sees what."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from server.access import tokens
from server.transport import connection
from sql import chunk_memory, chunk_sockets, errors, outcomes, queries, sessions
from sql import limits as bounds
from tests.sql.rest import raw, served

NUMBER = outcomes.Column(name="N", type="fixed", precision=19, scale=0)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        threading.Event().wait(0.005)


class Gate:
    """A statement that waits until it is opened, and counts its runs."""

    def __init__(self, face: served.Served, text: str) -> None:
        self.opened = threading.Event()
        self.runs = 0
        self.ends: list[str] = []
        face.statements.answers[text] = self.answer

    async def answer(self, call: served.Call) -> outcomes.Outcome:
        self.runs += 1
        try:
            while not self.opened.is_set():  # noqa: ASYNC110 - opened by another thread
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        self.ends.append("done")
        return outcomes.status(f"run {self.runs}")


# Envelopes


def test_a_path_that_is_nothing_is_404_with_the_envelope(face: served.Served) -> None:
    client = raw.connected(face)
    for method, path in (
        ("GET", "/queries/v1/query-request"),
        ("POST", "/session/authenticator-request"),
        ("POST", "/session"),
        ("GET", "/monitoring"),
        ("GET", "/queries/x/chunks/zero?expires=1&signature=a"),
        ("DELETE", "/session?delete=true"),
    ):
        answer = client.send(method, path, b"" if method == "POST" else None)
        assert answer.status == 404, path
        assert set(answer.body) == {"data", "success", "code", "message"}
        assert answer.body["success"] is False
        assert answer.body["code"].isdigit()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"text"', b"null", b'{"sqlText": 7}', b"\xff\xfe", b"[" * 5000,
     b'{"bindings": 1}', b'{"sqlText": "select 1", "bindings": {"1": {"type": "NO", "value": 1}}}',
     b'{"sqlText": "select 1", "bindings": {"1": {"type": "FIXED", "value": "x"}}}',
     b'{"sqlText": "select 1", "parameters": {"STATEMENT_TIMEOUT_IN_SECONDS": "soon"}}',
     b'{"sqlText": "select 1", "bindStage": "@SYSTEM$BIND/1"}'],
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_answered_by_the_protocol(
    face: served.Served, body: bytes
) -> None:
    client = raw.connected(face)
    for path in (
        "/queries/v1/query-request?requestId=" + str(uuid.uuid4()),
        "/session/v1/login-request",
        "/queries/v1/abort-request",
    ):
        answer = client.send("POST", path, body)
        assert answer.status == 200
        assert answer.body["success"] is False
        assert answer.body["data"]["errorCode"] == answer.body["code"]
        assert len(answer.body["data"]["sqlState"]) == 5


def test_gzipped_requests_are_read_and_bombs_are_refused(face: served.Served) -> None:
    client = raw.connected(face)
    path = "/queries/v1/query-request?requestId=" + str(uuid.uuid4())
    coded = {"Content-Encoding": "gzip"}

    good = client.send("POST", path, gzip.compress(b'{"sqlText": "select 1"}'), headers=coded)
    assert good.data["total"] == 1

    bomb = gzip.compress(b" " * (bounds.LOGIN_BYTES_MAX + 1))
    for body in (bomb, b"not gzip", gzip.compress(b"{}")[:-4]):
        answer = client.send("POST", "/session/v1/login-request", body, headers=coded)
        assert (answer.status, answer.body["success"]) == (200, False)
    answer = client.send("POST", path, b"{}", headers={"Content-Encoding": "br"})
    assert (answer.status, answer.body["success"]) == (200, False)


def test_answers_are_gzipped_for_other_machines_that_allow_it(
    face: served.Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_address", lambda _: ("192.0.2.7", 4000))
    far = raw.connected(face)
    rows = pa.record_batch([pa.array(range(5000))], names=["N"])
    face.statements.table("select five thousand", [NUMBER], rows)
    body = {"sqlText": "select five thousand"}

    def answer(client: raw.Client, coding: str, **headers: str) -> raw.Answer:
        path = "/queries/v1/query-request?requestId=" + str(uuid.uuid4())
        return client.send("POST", path, body, headers={"accept-encoding": coding, **headers})

    assert answer(far, "gzip, deflate").is_gzipped
    assert not answer(far, "identity").is_gzipped
    assert answer(far, "gzip").data["total"] == 5000
    monkeypatch.undo()
    near = raw.connected(face)
    assert not answer(near, "gzip").is_gzipped
    # Any client can send this header, so it says nothing about the client.
    assert not answer(near, "gzip", **{"x-forwarded-for": "192.0.2.7"}).is_gzipped


def test_a_success_has_no_sqlstate_and_every_key_that_drivers_read(face: served.Served) -> None:
    data = raw.connected(face).query("select 1").data

    assert "sqlState" not in data
    assert uuid.UUID(data["queryId"])
    assert data["queryResultFormat"] == "arrow"
    assert (data["total"], data["returned"], data["version"]) == (1, 1, 1)
    assert data["statementTypeId"] == 4096
    assert data["finalDatabaseName"] == "LAKE"
    (column,) = data["rowtype"]
    assert column["nullable"] is False
    assert set(column) == {
        "name", "database", "schema", "table", "nullable", "type", "length", "byteLength",
        "precision", "scale", "collation", "fields", "vectorDimension",
    }  # fmt: skip
    named = {item["name"]: item["value"] for item in data["parameters"]}
    assert named["BINARY_OUTPUT_FORMAT"] == "HEX"
    assert named["TIMEZONE"] == "UTC"
    assert named["CLIENT_STAGE_ARRAY_BINDING_THRESHOLD"] == 0


def test_no_rows_are_an_empty_base64_text(face: served.Served) -> None:
    face.statements.table("select none", [NUMBER])
    data = raw.connected(face).query("select none").data
    assert (data["rowsetBase64"], data["total"]) == ("", 0)
    assert data["rowtype"][0]["name"] == "N"


# Logins


@pytest.mark.parametrize(
    "authenticator",
    ["USERNAME_PASSWORD_MFA", "EXTERNALBROWSER", "ID_TOKEN", "WORKLOAD_IDENTITY",
     "https://corp.okta.example"],
)  # fmt: skip
def test_authenticators_that_are_not_served_are_refused_by_name(
    face: served.Served, authenticator: str
) -> None:
    answer = raw.Client(url=face.url).login(AUTHENTICATOR=authenticator)

    assert answer.code == "390100"
    assert authenticator.upper() in answer.body["message"]
    assert "PROGRAMMATIC_ACCESS_TOKEN" in answer.body["message"]


def test_wrong_passwords_are_slowed_down_and_sessions_are_not(face: served.Served) -> None:
    client = raw.connected(face)
    for _ in range(12):
        refused = raw.Client(url=face.url).login(PASSWORD="wrong")
        assert (refused.code, refused.body["message"]) == (
            "390100",
            "Incorrect username or password was specified.",
        )
        face.parts.clock.added_ms += 30_000
    assert raw.Client(url=face.url).login(PASSWORD="wrong").code == "390100"
    locked = raw.Client(url=face.url).login()
    assert locked.code == "390100"
    assert locked.body["message"].endswith("at this address: too many wrong passwords.")
    assert client.query("select 1").data["total"] == 1
    face.parts.clock.added_ms += 30_000
    assert raw.Client(url=face.url).login().body["success"]


def test_wrong_passwords_that_arrive_together_are_slowed_down_too(face: served.Served) -> None:
    clock = face.parts.clock
    clock.stopped_ms = clock.now_ms() - clock.added_ms
    clients = [raw.Client(url=face.url) for _ in range(60)]
    together = threading.Barrier(20)

    def guess(client: raw.Client) -> str:
        together.wait()
        message = client.login(PASSWORD=f"wrong {id(client)}").body["message"]
        assert isinstance(message, str)
        return message

    try:
        with futures.ThreadPoolExecutor(20) as pool:
            messages = list(pool.map(guess, clients))
    finally:
        clock.stopped_ms = None
    assert messages.count("Incorrect username or password was specified.") == 5
    assert sum(message.endswith("too many wrong passwords.") for message in messages) == 55
    clock.added_ms += 30_000
    assert raw.Client(url=face.url).login().body["success"]


@pytest.mark.parametrize("authenticator", ["OAUTH", "PROGRAMMATIC_ACCESS_TOKEN"])
def test_an_access_token_of_our_own_logs_in(face: served.Served, authenticator: str) -> None:
    now_ms = face.parts.clock.now_ms()

    def issued(typ: tokens.TokenType, at_ms: int = now_ms, subject: str = "alice") -> str:
        return tokens.issue(
            face.parts.ring,
            typ=typ,
            subject=subject,
            token_id=uuid.uuid4().hex,
            now_ms=at_ms,
            lifetime_seconds=3600,
        )

    def code(token: str, name: str = "") -> str | None:
        client = raw.Client(url=face.url)
        return client.login(
            AUTHENTICATOR=authenticator, TOKEN=token, LOGIN_NAME=name, PASSWORD=None
        ).code

    assert code(issued("access")) is None
    assert code(issued("access"), "ALICE") is None
    assert code(issued("access"), "bob") == "390309"
    assert code(issued("sf")) in ("390303", "394400")
    assert code(issued("access", now_ms - 7_200_000)) in ("390318", "394400")
    assert code(issued("access", subject="unknown")) in ("390303", "394400")
    assert code("") in ("390303", "394400")


def test_a_login_echoes_its_parameters_and_passes_over_unknown_ones(face: served.Served) -> None:
    client = raw.Client(url=face.url)
    answer = client.login(SESSION_PARAMETERS={"query_tag": "nightly", "CLIENT_PREFETCH_THREADS": 2})
    named = {item["name"]: item["value"] for item in answer.data["parameters"]}
    assert named["QUERY_TAG"] == "nightly"
    assert named["CLIENT_PREFETCH_THREADS"] == 2

    other = raw.Client(url=face.url).login(SESSION_PARAMETERS={"NO_SUCH_PARAMETER": 1})
    assert other.body["success"] is True
    assert "NO_SUCH_PARAMETER" not in {item["name"] for item in other.data["parameters"]}
    wrong = raw.Client(url=face.url).login(SESSION_PARAMETERS={"TIMEZONE": "Mars/Olympus"})
    assert wrong.code == "001008"


def test_login_answers_hold_what_every_driver_requires(face: served.Served) -> None:
    data = raw.Client(url=face.url).login(query="databaseName=LAKE&schemaName=nowhere").data
    assert isinstance(data["sessionId"], int)
    assert 0 < data["sessionId"] < 2**53
    assert data["validityInSeconds"] == 3600
    assert data["masterValidityInSeconds"] == 14400
    assert "newClientForUpgrade" in data
    assert data["newClientForUpgrade"] is None
    assert data["serverVersion"].replace(".", "").isdigit()
    assert data["sessionInfo"] == {
        "databaseName": "LAKE",
        "schemaName": None,
        "warehouseName": "LOCAL",
        "roleName": "ACCOUNTADMIN",
    }


# Tokens


def test_each_fault_of_a_token_has_its_own_number(face: served.Served) -> None:
    client = raw.connected(face)
    path = "/session/heartbeat"

    assert client.send("POST", path, b"").data is None
    assert raw.Client(url=face.url).send("POST", path, b"").code == "390103"
    assert client.send("POST", path, b"", token="None").code == "390103"
    assert client.send("POST", path, b"", token="garbage").code == "390104"
    assert client.send("POST", path, b"", token=client.master_token).code == "390104"
    assert raw.Client(url=face.url).renew().code == "390113"
    assert client.renew("garbage").code == "390115"
    assert client.renew(client.token).code == "390115"


def test_a_closed_session_is_gone_for_both_tokens(face: served.Served) -> None:
    client = raw.connected(face)
    assert client.send("POST", "/session?delete=true", {}).data is None
    assert client.query("select 1").code == "390111"
    assert client.renew().code == "390111"


def test_renewal_gives_new_tokens_and_leaves_the_old_ones_valid(face: served.Served) -> None:
    client = raw.connected(face)
    old = client.token
    answer = client.renew()
    assert answer.data["sessionId"] == client.session_id
    assert answer.data["validityInSecondsST"] == 3600
    assert answer.data["validityInSecondsMT"] == 14400
    assert client.token != old
    for token in (old, client.token):
        assert client.send("POST", "/session/heartbeat", b"", token=token).data is None


def test_an_old_token_says_whether_renewal_helps(tmp_path: Path) -> None:
    with served.serve(tmp_path) as face:
        client = raw.connected(face)
        face.parts.clock.added_ms = 3601 * 1000
        assert client.query("select 1").code == "390112"
        client.renew()
        assert client.query("select 1").data["total"] == 1
        face.parts.clock.added_ms += 14401 * 1000
        assert client.query("select 1").code == "390114"
        assert client.renew().code == "390114"


def test_an_idle_session_expires_but_its_master_token_brings_it_back(tmp_path: Path) -> None:
    limits = sessions.SessionLifetimes(idle_seconds=60)
    with served.serve(tmp_path, session_limits=limits) as face:

        async def use(call: served.Call) -> outcomes.Outcome:
            call.session.database = "other"
            return outcomes.status("done", outcomes.StatementType.USE_DATABASE)

        face.statements.answers["use other"] = use
        client = raw.connected(face)
        client.query("use other")
        face.parts.clock.added_ms = 59_000
        assert client.send("POST", "/session/heartbeat", b"").data is None
        face.parts.clock.added_ms += 61_000
        assert client.query("select 1").code == "390112"
        client.renew()
        assert client.query("select 1").data["finalDatabaseName"] == "OTHER"


def test_a_running_statement_keeps_its_session_from_being_idle(tmp_path: Path) -> None:
    with served.serve(tmp_path, session_limits=sessions.SessionLifetimes(idle_seconds=60)) as face:
        gate = Gate(face, "wait")
        client = raw.connected(face)
        query_id = client.query("wait", asyncExec=True).data["queryId"]
        until(lambda: gate.runs == 1)
        face.parts.clock.added_ms = 3_000_000
        face.parts.sessions.sweep()
        assert client.send("GET", f"/monitoring/queries/{query_id}").data["queries"]
        gate.opened.set()
        assert client.result(query_id).data["total"] == 1


def test_a_session_survives_a_restart_with_all_it_remembers(tmp_path: Path) -> None:
    async def change(call: served.Call) -> outcomes.Outcome:
        session = call.session
        session.database, session.schema = "archive", "y2024.q1"
        session.parameters["TIMEZONE"] = "Europe/Stockholm"
        session.variables["X"] = sessions.Variable(type="fixed", text="7")
        return outcomes.status("done", outcomes.StatementType.ALTER_SESSION)

    with served.serve(tmp_path) as face:
        face.statements.answers["change"] = change
        client = raw.connected(face, LOGIN_NAME="alice", PASSWORD="alice-secret")
        assert client.query("change").data["finalSchemaName"] == "y2024.q1"
    with served.serve(tmp_path) as face:
        client.url = face.url
        data = client.query("select 1").data
        session = face.statements.calls[-1].session
        assert data["finalDatabaseName"] == "ARCHIVE"
        named = {item["name"]: item["value"] for item in data["parameters"]}
        assert named["TIMEZONE"] == "Europe/Stockholm"
        assert session.variables == {"X": sessions.Variable(type="fixed", text="7")}
        assert (session.id, session.principal.name) == (client.session_id, "alice")
        client.send("POST", "/session?delete=true", {})
    with served.serve(tmp_path) as face:
        client.url = face.url
        assert client.query("select 1").code == "390111"


def test_a_user_who_was_removed_cannot_go_on_with_an_old_session(tmp_path: Path) -> None:
    with served.serve(tmp_path) as face:
        client = raw.connected(face, LOGIN_NAME="alice", PASSWORD="alice-secret")
    with served.serve(tmp_path, users=()) as face:
        client.url = face.url
        assert client.query("select 1").code == "390111"
        assert client.renew().code == "390111"


# requestId


def test_the_same_request_id_joins_the_running_statement(face: served.Served) -> None:
    gate = Gate(face, "insert once")
    client = raw.connected(face)
    request_id = str(uuid.uuid4())
    with futures.ThreadPoolExecutor(4) as pool:
        waiting = [
            pool.submit(client.query, "insert once", request_id=request_id) for _ in range(4)
        ]
        until(lambda: gate.runs == 1)
        gate.opened.set()
        answers = [each.result().data for each in waiting]

    assert gate.runs == 1
    assert len({answer["queryId"] for answer in answers}) == 1
    assert all(answer["rowset"] == [["run 1"]] for answer in answers)
    assert client.query("insert once", request_id=request_id).data["rowset"] == [["run 1"]]
    assert gate.runs == 1


def test_a_stored_fault_is_answered_again(face: served.Served) -> None:
    runs = []

    async def fails(call: served.Call) -> outcomes.Outcome:
        runs.append(1)
        raise errors.division_by_zero()

    face.statements.answers["select fails"] = fails
    client = raw.connected(face)
    first = client.query("select fails", request_id="r1")
    second = client.query("select fails", request_id="r1")
    assert first.code == second.code == "100051"
    assert first.body["data"]["queryId"] == second.body["data"]["queryId"]
    assert len(runs) == 1


def test_a_request_id_with_another_text_is_a_fault(face: served.Served) -> None:
    client = raw.connected(face)
    request_id = str(uuid.uuid4())
    assert client.query("select 1", request_id=request_id).data["total"] == 1
    assert client.query("select 2", request_id=request_id).body["success"] is False
    assert raw.connected(face).query("select 1", request_id=request_id).data["total"] == 1


def test_a_statement_refused_for_its_token_was_not_begun(tmp_path: Path) -> None:
    with served.serve(tmp_path) as face:
        client = raw.connected(face)
        face.parts.clock.added_ms = 3_700_000
        request_id = str(uuid.uuid4())
        assert client.query("select 1", request_id=request_id).code == "390112"
        client.renew()
        assert client.query("select 1", request_id=request_id).data["total"] == 1
        assert len(face.statements.calls) == 1


def test_a_request_repeated_after_a_restart_has_the_same_query_id(tmp_path: Path) -> None:
    with served.serve(tmp_path) as face:
        client = raw.connected(face)
        first = client.query("select 1", request_id="r1").data["queryId"]
        other = client.query("select 1", request_id="r2").data["queryId"]
    with served.serve(tmp_path) as face:
        client.url = face.url
        assert client.query("select 1", request_id="r1").data["queryId"] == first != other
        assert raw.connected(face).query("select 1", request_id="r1").data["queryId"] != first


# Slow, asynchronous, aborted


def test_a_result_with_a_credential_is_not_fetched_by_other_sessions(tmp_path: Path) -> None:
    released = threading.Event()

    async def create(call: served.Call) -> outcomes.Outcome:
        assert await asyncio.to_thread(released.wait, 60)
        return outcomes.Outcome(
            columns=(outcomes.Column(name="token_secret", type="text"),),
            rows=(("BHPT.x",),),
            statement_type_id=outcomes.StatementType.DDL,
            is_secret=True,
        )

    with served.serve(tmp_path, answer_within_seconds=0.05) as face:
        face.statements.answers["add"] = create
        client, other = raw.connected(face), raw.connected(face)
        query_id = client.query("add").data["queryId"]
        assert other.result(query_id).code == "333333"
        released.set()
        until(lambda: client.result(query_id).code is None)
        assert other.result(query_id).code == "000612"
        assert client.result(query_id).data["rowset"] == [["BHPT.x"]]


def test_a_slow_statement_sends_the_client_to_fetch_later(tmp_path: Path) -> None:
    with served.serve(tmp_path, answer_within_seconds=0.05) as face:
        gate = Gate(face, "wait")
        client = raw.connected(face)
        answer = client.query("wait", request_id="r")
        assert (answer.code, answer.body["success"]) == ("333333", True)
        data = answer.data
        assert data["getResultUrl"] == f"/queries/{data['queryId']}/result"
        assert client.send("GET", data["getResultUrl"]).code == "333333"
        assert client.query("wait", request_id="r").data["queryId"] == data["queryId"]
        gate.opened.set()
        until(lambda: client.send("GET", data["getResultUrl"]).code is None)
        assert client.send("GET", data["getResultUrl"]).data["rowset"] == [["run 1"]]


def test_an_asynchronous_statement_answers_at_once(face: served.Served) -> None:
    gate = Gate(face, "wait")
    client = raw.connected(face)
    answer = client.query("wait", asyncExec=True)
    assert (answer.code, answer.body["success"]) == ("333334", True)
    query_id = answer.data["queryId"]
    (state,) = client.send("GET", f"/monitoring/queries//{query_id}").data["queries"]
    assert (state["status"], state["sessionId"]) == ("RUNNING", client.session_id)
    face.statements.waiting_texts.add("wait")
    (state,) = client.send("GET", f"/monitoring/queries/{query_id}").data["queries"]
    assert (state["status"], state["state"]) == ("QUEUED", "QUEUED")
    gate.opened.set()
    assert client.result(query_id).data["rowset"] == [["run 1"]]
    (state,) = client.send("GET", f"/monitoring/queries/{query_id}").data["queries"]
    assert state["status"] == "SUCCESS"
    assert state["endTime"] >= state["startTime"]


@pytest.mark.parametrize("by", ["request", "query"])
def test_an_abort_ends_the_statement_which_answers_000604(face: served.Served, by: str) -> None:
    gate = Gate(face, "wait")
    client = raw.connected(face)
    request_id = str(uuid.uuid4())
    with futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.query, "wait", request_id=request_id)
        until(lambda: gate.runs == 1)
        if by == "request":
            body = {"sqlText": "wait", "requestId": request_id}
            aborted = client.send("POST", "/queries/v1/abort-request", body)
        else:
            query_id = next(
                query.id
                for query in face.parts.queries._queries.values()
                if query.submission.request_id == request_id
            )
            aborted = client.send("POST", f"/queries/{query_id}/abort-request", {})
        assert aborted.data is None
        answer = waiting.result()

    assert answer.code == "000604"
    assert answer.body["data"]["sqlState"] == "57014"
    assert "SQL execution canceled" in answer.body["message"]
    assert gate.ends == ["cancelled"]
    again = client.send("POST", "/queries/v1/abort-request", {"requestId": request_id})
    assert (again.code, again.body["success"]) == ("000605", False)


def test_closing_a_session_ends_what_it_waits_for_but_not_what_is_asynchronous(
    face: served.Served,
) -> None:
    waited, detached = Gate(face, "wait"), Gate(face, "detached")
    client = raw.connected(face)
    query_id = client.query("detached", asyncExec=True).data["queryId"]
    with futures.ThreadPoolExecutor(1) as pool:
        pending = pool.submit(client.query, "wait")
        until(lambda: waited.runs == 1 and detached.runs == 1)
        client.send("POST", "/session?delete=true", {})
        assert pending.result().code == "000604"
    detached.opened.set()
    assert raw.connected(face).result(query_id).data["rowset"] == [["run 1"]]


def test_the_statement_timeout_is_kept_by_the_server(tmp_path: Path) -> None:
    with served.serve(tmp_path, query_limits=queries.ResultLimits(timeout_seconds=1)) as face:
        gate = Gate(face, "wait")
        client = raw.connected(face)
        answer = client.query("wait", parameters={"STATEMENT_TIMEOUT_IN_SECONDS": 3600})
        assert answer.code == "000630"
        assert answer.body["data"]["sqlState"] == "57014"
        assert gate.ends == ["cancelled"]


# Who sees what


def test_results_and_states_are_their_owners_alone(face: served.Served) -> None:
    mine = raw.connected(face)
    theirs = raw.connected(face, LOGIN_NAME="alice", PASSWORD="alice-secret")
    query_id = mine.query("select 1").data["queryId"]

    assert theirs.result(query_id).code == "000612"
    assert theirs.send("GET", f"/monitoring/queries/{query_id}").data == {"queries": []}
    assert theirs.send("POST", f"/queries/{query_id}/abort-request", {}).code == "000605"
    scan = f"select * from table(result_scan('{query_id}'))"
    assert theirs.query(scan).code == "000709"
    assert mine.query(scan).data["total"] == 1
    assert raw.connected(face).result(query_id).data["total"] == 1


def test_a_stored_result_in_another_format_is_read_by_a_query(face: served.Served) -> None:
    client = raw.connected(face)
    query_id = client.query("select 1").data["queryId"]
    scan = f"select * from table(result_scan('{query_id}'))"
    face.statements.table(scan, [NUMBER], pa.record_batch([pa.array([99])], names=["N"]))

    async def insert(call: served.Call) -> outcomes.Outcome:
        return outcomes.status("done")

    face.statements.answers["insert"] = insert
    same = client.query(scan).data
    assert (same["queryResultFormat"], same["total"]) == ("arrow", 1)
    of_json = {"parameters": {"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"}}
    other = client.query(scan, **of_json).data
    assert (other["queryResultFormat"], other["rowset"]) == ("json", [["99"]])

    # Statements that are no SELECT answer in JSON whatever the format is.
    status = client.query("insert").data["queryId"]
    answer = client.query(f"select * from table(result_scan('{status}'))").data
    assert answer["queryResultFormat"] == "json"


@pytest.mark.parametrize(
    ("client", "version", "code"),
    [
        ("PythonConnector", "2.8.1", "000006"),
        ("PythonConnector", "2.9.0", None),
        ("PythonConnector", "10.0.0", None),
        ("PythonConnector", "of mine", None),
        ("Go", "1.0.0", None),
    ],
)
def test_several_statements_of_a_client_that_reads_one_answer_are_refused(
    face: served.Served, client: str, version: str, code: str | None
) -> None:
    done = []

    async def insert(call: served.Call) -> outcomes.Outcome:
        done.append(call.query_id)
        return outcomes.status("done")

    face.statements.answers["insert"] = insert
    old = raw.connected(face, CLIENT_APP_ID=client, CLIENT_APP_VERSION=version)
    answer = old.query("insert; insert", parameters={"MULTI_STATEMENT_COUNT": 0})
    assert answer.code == code
    assert len(done) == (0 if code else 2)
    assert old.query("insert", parameters={"MULTI_STATEMENT_COUNT": 0}).code is None


def test_chunks_need_no_token_but_the_genuine_unexpired_address(tmp_path: Path) -> None:
    with served.serve(tmp_path) as face:
        rows = pa.record_batch([pa.array(range(250_000))], names=["N"])
        face.statements.table("select many", [NUMBER], rows)
        client = raw.connected(face)
        data = client.query("select many").data
        chunks = data["chunks"]
        assert sum(chunk["rowCount"] for chunk in chunks) < data["total"] == 250_000
        assert data["chunkHeaders"]

        anonymous = raw.Client(url=face.url)
        url = chunks[0]["url"]
        assert url.startswith(face.url + "/queries/")
        body = anonymous.send("GET", url)
        assert body.status == 200
        assert len(body.raw) == chunks[0]["uncompressedSize"]
        with pa.ipc.open_stream(body.raw) as stream:
            assert stream.read_all().num_rows == chunks[0]["rowCount"]

        head = anonymous.send("HEAD", url)
        assert (head.status, head.raw) == (200, b"")
        assert head.headers["content-length"] == str(len(body.raw))

        forged = url[:-1] + ("0" if url[-1] != "0" else "1")
        for method in ("GET", "HEAD"):
            assert anonymous.send(method, forged).status == 403
        assert anonymous.send("GET", url.replace("/chunks/0?", "/chunks/1?")).status == 403
        later = url.replace("expires=1", "expires=2")
        assert anonymous.send("GET", later).status == 403
        face.parts.clock.added_ms = 7 * 3600 * 1000
        assert anonymous.send("GET", url).status == 403


def test_json_chunks_are_rows_joined_by_commas(face: served.Served) -> None:
    rows = pa.record_batch([pa.array(range(250_000))], names=["N"])
    face.statements.table("select many", [NUMBER], rows)
    client = raw.connected(face, CLIENT_APP_ID="JavaScript")
    data = client.query("select many").data
    assert data["queryResultFormat"] == "json"
    cells = [row[0] for row in data["rowset"]]
    for chunk in data["chunks"]:
        part = json.loads(b"[" + client.send("GET", chunk["url"]).raw + b"]")
        assert len(part) == chunk["rowCount"]
        cells += [row[0] for row in part]
    assert cells == [str(number) for number in range(250_000)]


def test_an_answer_that_is_no_longer_kept_is_not_computed_again(tmp_path: Path) -> None:
    with served.serve(tmp_path, query_limits=queries.ResultLimits(results_max=2)) as face:
        client = raw.connected(face)
        first = client.query("select 1", request_id="first").data["queryId"]
        for _ in range(3):
            client.query("select 1")
        assert client.result(first).code == "000612"
        assert client.query("select 1", request_id="first").code == "000612"
        assert len(face.statements.calls) == 4


def test_a_result_beyond_the_limit_is_refused_with_its_reason(tmp_path: Path) -> None:
    limits = queries.ResultLimits(results_bytes_max=100_000)
    with served.serve(tmp_path, query_limits=limits) as face:
        rows = pa.record_batch([pa.array(range(300_000))], names=["N"])
        face.statements.table("select many", [NUMBER], rows)
        answer = raw.connected(face).query("select many")
        assert answer.body["success"] is False
        assert "100000 bytes" in answer.body["message"]


def test_chunks_beyond_memory_wait_in_files_that_go_with_their_result(tmp_path: Path) -> None:
    limits = queries.ResultLimits(results_max=2)
    with served.serve(tmp_path, query_limits=limits, shelf_memory_bytes_max=2_000_000) as face:
        rows = pa.record_batch([pa.array(range(900_000))], names=["N"])
        face.statements.table("select many", [NUMBER], rows)
        client = raw.connected(face)
        data = client.query("select many").data
        files = list((tmp_path / "results").iterdir())
        assert len(files) == len(data["chunks"]) - 1
        assert face.parts.shelf.memory_bytes == data["chunks"][0]["uncompressedSize"]
        scan = f"select * from table(result_scan('{data['queryId']}'))"
        copied = client.query(scan).data
        client.query("select 1")

        # The first result was dropped; what the second shares with it is still there.
        assert client.result(data["queryId"]).code == "000612"
        seen = 0
        for chunk in copied["chunks"]:
            with pa.ipc.open_stream(client.send("GET", chunk["url"]).raw) as stream:
                seen += stream.read_all().num_rows
        assert seen == sum(chunk["rowCount"] for chunk in data["chunks"])
        client.query("select 1")
        assert list((tmp_path / "results").iterdir()) == []
        assert face.parts.shelf.memory_bytes == 0


def test_a_chunk_that_was_fetched_is_the_same_from_its_file(tmp_path: Path) -> None:
    rows = pa.record_batch([pa.array(range(900_000))], names=["N"])
    pool = chunk_memory.Pool(free_bytes_max=0)
    encoder = chunk_sockets.Encoder([NUMBER])
    groups: list[outcomes.RowGroup] = [rows.slice(0, 1000)]
    for chunk in (*encoder.add(rows.slice(1000)), *encoder.finish()):
        memory = pool.take(chunk.size_bytes)
        memory[:] = b"".join(chunk.parts)
        groups.append(outcomes.EncodedRows(rows=chunk.rows, data=memory.toreadonly()))

    async def stream() -> AsyncIterator[outcomes.RowGroup]:
        for group in groups:
            yield group

    outcome = outcomes.Outcome(
        columns=[NUMBER], batches=stream(), statement_type_id=outcomes.StatementType.SELECT
    )
    size_bytes = 8 << 20  # as much as they take, and a bit more
    with served.serve(tmp_path, shelf_memory_bytes_max=size_bytes) as face:
        face.statements.outcome("select many", outcome)
        client = raw.connected(face)
        data = client.query("select many").data
        groups.clear()  # references to the memory
        first = [client.send("GET", chunk["url"]).raw for chunk in data["chunks"]]
        until(lambda: face.parts.shelf.memory_bytes <= size_bytes // 2)
        assert results_of(tmp_path) > 1
        again = client.result(data["queryId"]).data
        assert [client.send("GET", chunk["url"]).raw for chunk in again["chunks"]] == first
        scan = f"select * from table(result_scan('{data['queryId']}'))"
        copied = client.query(scan).data
        assert [client.send("GET", chunk["url"]).raw for chunk in copied["chunks"]] == first
        later(face, 310)
        assert results_of(tmp_path) == 0
        assert face.parts.shelf.memory_bytes == 0


# Statements in one request


def test_a_fault_in_a_later_statement_is_the_parents_and_earlier_ones_stay_done(
    face: served.Served,
) -> None:
    done = []

    async def insert(call: served.Call) -> outcomes.Outcome:
        done.append(call.query_id)
        return outcomes.status("done")

    face.statements.answers["insert"] = insert
    client = raw.connected(face)
    answer = client.query("insert; no such thing; insert", parameters={"MULTI_STATEMENT_COUNT": 0})
    assert answer.code == "001003"
    assert len(done) == 1
    assert client.result(done[0]).data["rowset"] == [["done"]]


def test_a_multi_statement_answer_names_its_children(face: served.Served) -> None:
    client = raw.connected(face)
    data = client.query("select 1; select 1", parameters={"MULTI_STATEMENT_COUNT": "2"}).data
    assert data["statementTypeId"] == 40960
    assert data["rowtype"][0]["name"] == "multiple statement execution"
    assert data["rowset"] == [["Multiple statements executed successfully."]]
    assert data["resultTypes"] == "4096,4096"
    for query_id in data["resultIds"].split(","):
        assert client.result(query_id).data["total"] == 1


def test_several_statements_share_the_binds_in_order_and_none_runs_if_one_is_missing(
    face: served.Served,
) -> None:
    texts = ("select ?, ?", "select 2", "select ?")

    async def select(call: served.Call) -> outcomes.Outcome:
        return outcomes.status("done")

    for text in texts:
        face.statements.answers[text] = select
    client = raw.connected(face)
    binds = {str(number): {"type": "FIXED", "value": str(number * 10)} for number in (1, 2, 3)}
    more = {"bindings": binds, "parameters": {"MULTI_STATEMENT_COUNT": 3}}
    assert client.query("; ".join(texts), **more).body["success"] is True
    assert [
        {name: bound.value for name, bound in call.bindings.items()}
        for call in face.statements.calls[-3:]
    ] == [{"1": 10, "2": 20}, {}, {"1": 30}]

    count = len(face.statements.calls)
    del binds["3"]
    answer = client.query("; ".join(texts), **more)
    assert (answer.code, len(face.statements.calls)) == ("002049", count)


def test_statements_of_a_flow_share_the_binds_in_order(face: served.Served) -> None:
    texts = ("select ? as a", "select a + ?, :b from $1")

    async def select(call: served.Call) -> outcomes.Outcome:
        return outcomes.status("done")

    for text in texts:
        face.statements.answers[text] = select
    client = raw.connected(face)
    binds = {name: {"type": "TEXT", "value": name * 2} for name in ("1", "2", "b")}
    assert client.query(" ->> ".join(texts), bindings=binds).body["success"] is True
    assert [
        {name: bound.value for name, bound in call.bindings.items()}
        for call in face.statements.calls[-2:]
    ] == [{"1": "11", "b": "bb"}, {"1": "22", "b": "bb"}]


@pytest.mark.parametrize(
    "function",
    [
        "SYSTEM$WAIT(3600)",
        "SYSTEM$CANCEL_ALL_QUERIES(1)",
        f"SYSTEM$CANCEL_QUERY('{uuid.UUID(int=1)}')",
    ],
)
def test_a_describe_of_what_the_server_itself_does_names_the_column(
    face: served.Served, function: str
) -> None:
    client = raw.connected(face)
    described = client.query(f"select {function}", describeOnly=True).data
    assert [column["name"] for column in described["rowtype"]] == [function]
    assert (described["total"], described["rowset"]) == (0, [])


def test_a_describe_of_a_listing_has_its_columns_and_no_rows(face: served.Served) -> None:
    column = outcomes.Column(name="name", type="text")
    listed = outcomes.Outcome(
        columns=(column,), rows=(("a",), ("b",)), statement_type_id=outcomes.StatementType.SHOW
    )
    face.statements.outcome("show things", listed)
    client = raw.connected(face)
    described = client.query("show things", describeOnly=True).data
    assert (described["total"], described["rowset"]) == (0, [])
    assert [each["name"] for each in described["rowtype"]] == ["name"]
    assert client.query("show things").data["total"] == 2


def test_system_wait_answers_when_its_time_is_over(face: served.Served) -> None:
    client = raw.connected(face)
    began = time.monotonic()
    answer = client.query("select system$wait(300, 'MILLISECONDS')")
    assert time.monotonic() - began >= 0.3
    assert answer.data["rowset"] == [["waited 300 milliseconds"]]
    assert answer.data["rowtype"][0]["name"] == "SYSTEM$WAIT(300, 'MILLISECONDS')"
    assert client.query("call system$wait(0)").data["rowset"] == [["waited 0 seconds"]]
    assert client.query("select system$wait(1, 'YEARS')").code == "001003"


def test_system_wait_ends_with_the_time_of_its_statement(face: served.Served) -> None:
    client = raw.connected(face)
    limit = {"STATEMENT_TIMEOUT_IN_SECONDS": 1}
    answer = client.query("call system$wait(999999999, 'DAYS');", parameters=limit)
    assert answer.code == "000630"


def test_telemetry_is_taken_and_dropped(face: served.Served) -> None:
    client = raw.connected(face)
    body = gzip.compress(b'{"logs": []}')
    answer = client.send("POST", "/telemetry/send", body, headers={"Content-Encoding": "gzip"})
    assert answer.body["success"] is True


def test_telemetry_without_a_session_is_refused(face: served.Served) -> None:
    for path in ("/telemetry/send", "/telemetry/send/sessionless"):
        answer = raw.Client(face.url).send("POST", path, {"logs": []})
        assert (answer.body["success"], answer.body["code"]) == (False, "390103")


def chunked(face: served.Served, **more: Any) -> tuple[raw.Client, Any]:
    """Return a client, and the answer to its query, whose rows are in several chunks."""
    rows = pa.record_batch([pa.array(range(900_000))], names=["N"])
    face.statements.table("select many", [NUMBER], rows)
    client = raw.connected(face)
    answer = client.query("select many", **more).data
    assert len(answer["chunks"]) > 2
    return client, answer


def later(face: served.Served, seconds: int) -> None:
    """Let time pass, and what is done from time to time happen."""
    face.parts.clock.added_ms += seconds * 1000
    face.parts.queries.sweep()


def results_of(folder: Path) -> int:
    """Return how many files of results there are."""
    place = folder / "results"
    return len(list(place.iterdir())) if place.exists() else 0


def fetched(client: raw.Client, chunk: Any) -> int:
    with pa.ipc.open_stream(client.send("GET", chunk["url"]).raw) as stream:
        return int(stream.read_all().num_rows)


def test_a_result_goes_some_minutes_after_its_last_chunk_was_fetched(tmp_path: Path) -> None:
    with served.serve(tmp_path, shelf_memory_bytes_max=0) as face:
        client, answer = chunked(face)
        first, *rest = answer["chunks"]
        for chunk in rest:
            assert fetched(client, chunk) == chunk["rowCount"]
        later(face, 1_800)
        assert results_of(tmp_path) == len(answer["chunks"]), "one chunk was not read yet"

        assert fetched(client, first) == first["rowCount"]
        later(face, 290)
        # A driver whose connection broke fetches a chunk again, and RESULT_SCAN reads it anew.
        assert fetched(client, first) == first["rowCount"]
        later(face, 290)
        assert results_of(tmp_path) == len(answer["chunks"])
        later(face, 20)
        assert results_of(tmp_path) == 0
        assert client.send("GET", first["url"]).status == 404
        assert client.result(answer["queryId"]).code == "000612"
        assert client.query("select 1").data["total"] == 1


def test_a_result_that_its_session_left_unread_goes_some_minutes_later(tmp_path: Path) -> None:
    with served.serve(tmp_path, shelf_memory_bytes_max=0) as face:
        client, answer = chunked(face)
        client.send("POST", "/session?delete=true", {})
        later(face, 290)
        # What was under way at the end of the session is still fetched.
        chunk = answer["chunks"][0]
        assert fetched(client, chunk) == chunk["rowCount"]
        later(face, 290)
        assert results_of(tmp_path) == len(answer["chunks"])
        later(face, 20)
        assert results_of(tmp_path) == 0


def test_an_asynchronous_result_outlives_its_session_until_it_is_read(tmp_path: Path) -> None:
    with served.serve(tmp_path, shelf_memory_bytes_max=0) as face:
        rows = pa.record_batch([pa.array(range(900_000))], names=["N"])
        face.statements.table("select many", [NUMBER], rows)
        client = raw.connected(face)
        query_id = client.query("select many", asyncExec=True).data["queryId"]
        assert client.result(query_id).data["total"] == 900_000
        client.send("POST", "/session?delete=true", {})
        later(face, 1_800)

        another = raw.connected(face)
        data = another.result(query_id).data
        assert sum(fetched(another, chunk) for chunk in data["chunks"]) > 0
        later(face, 310)
        assert results_of(tmp_path) == 0


def test_the_oldest_results_give_way_while_a_new_one_grows(tmp_path: Path) -> None:
    # 900,000 numbers of 8 bytes: one result has room, two have not.
    limits = queries.ResultLimits(results_bytes_max=8_000_000)
    with served.serve(tmp_path, shelf_memory_bytes_max=0, query_limits=limits) as face:
        client, first = chunked(face)
        rows = pa.record_batch([pa.array(range(900_000))], names=["N"])
        face.statements.table("select more", [NUMBER], rows)
        second = client.query("select more").data

        held_bytes = sum(path.stat().st_size for path in (tmp_path / "results").iterdir())
        assert held_bytes <= 8_000_000
        assert client.send("GET", first["chunks"][0]["url"]).status == 404
        read = sum(fetched(client, chunk) for chunk in second["chunks"])
        assert read == sum(chunk["rowCount"] for chunk in second["chunks"])
