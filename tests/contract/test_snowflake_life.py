"""What a session and a statement live through, against the process a user starts."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import pytest

from tests.kit import processes
from tests.kit import server as server_kit
from tests.sql.rest import raw

ROWS = ", ".join(f"({number})" for number in range(100))
SUM = "sum(t0.x * t1.x - t2.x + t3.x * t4.x + t5.x)"
ENDLESS = f"select {SUM} from " + ", ".join(f"(values {ROWS}) t{n}(x)" for n in range(6))


def connected(server: server_kit.Running) -> raw.Client:
    client = raw.Client(url=server.url)
    answer = client.login(
        query="databaseName=lake", LOGIN_NAME=server.access_key, PASSWORD=server.secret_key
    )
    assert answer.body["success"], answer.body
    return client


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        threading.Event().wait(0.02)


def test_a_session_goes_on_after_the_server_was_stopped_and_started(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = server_kit.start(data)
    try:
        client = connected(first)
        client.query("create schema kept")
        client.query("use schema kept")
        client.query("set answer = 42")
        client.query("alter session set query_tag = 'nightly'")
        assert client.query("select $answer").data["total"] == 1
    finally:
        assert first.stop() == 0
    second = server_kit.start(data)
    try:
        client.url = second.url
        data_of = client.query(
            "select $answer, current_schema()",
            parameters={"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"},
        ).data
        assert data_of["rowset"] == [["42", "KEPT"]]
        named = {item["name"]: item["value"] for item in data_of["parameters"]}
        assert named["QUERY_TAG"] == "nightly"
        assert client.renew().data["sessionId"] == client.session_id
        client.send("POST", "/session?delete=true", {})
        assert client.query("select 1").code == "390111"
    finally:
        assert second.stop() == 0


def folder_bytes(data: Path) -> int:
    return sum(path.stat().st_size for path in (data / "blobs").rglob("*") if path.is_file())


@pytest.mark.parametrize("ending", ["a logout", "a stop", "kill -9"])
def test_temporary_tables_end_with_their_session_and_the_server(
    tmp_path: Path, ending: str
) -> None:
    data = tmp_path / "data"
    first = server_kit.start(data)
    client = connected(first)
    client.query("create schema kept")
    client.query("use schema kept")
    client.query("create table t as select 1 a")
    lines = "select seq4() a, randstr(40, random()) b from table(generator(rowcount => 20000))"
    answer = client.query(f"create temporary table t as {lines}")
    assert answer.body["success"], answer.body
    assert client.query("select * from t").data["total"] == 20000
    assert folder_bytes(data) > 200_000
    if ending == "a logout":
        client.send("POST", "/session?delete=true", {})
        other = connected(first)
        assert other.query("select * from kept.t").data["total"] == 1
    if ending == "kill -9":
        first.kill()
    else:
        assert first.stop() == 0
    second = server_kit.start(data)
    try:
        assert folder_bytes(data) < 100_000
        client.url = second.url
        assert client.query("insert into t values (2)").code == "390111"
        assert connected(second).query("select * from kept.t").data["total"] == 1
    finally:
        assert second.stop() == 0


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[server_kit.Running]:
    """A server of its own: a heavy statement must not weigh on other tests."""
    running = server_kit.start(tmp_path / "data")
    yield running
    assert running.stop() == 0


@pytest.mark.alone
def test_a_heavy_statement_ends_at_its_timeout(alone: server_kit.Running) -> None:
    client = connected(alone)
    assert client.query("select 1").data["total"] == 1
    started = time.monotonic()
    answer = client.query(ENDLESS, parameters={"STATEMENT_TIMEOUT_IN_SECONDS": 2})
    assert (answer.code, answer.body["data"]["sqlState"]) == ("000630", "57014")
    assert 2 <= time.monotonic() - started < 30


def test_a_heavy_statement_ends_when_it_is_aborted(alone: server_kit.Running) -> None:
    client = connected(alone)
    assert client.query("select 1").data["total"] == 1
    request_id = str(uuid.uuid4())
    with futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.query, ENDLESS, request_id=request_id)
        body = {"sqlText": ENDLESS, "requestId": request_id}
        until(lambda: client.send("POST", "/queries/v1/abort-request", body).body["success"])
        answer = waiting.result(timeout=60)
    assert (answer.code, answer.body["data"]["sqlState"]) == ("000604", "57014")


def test_a_statement_after_an_ended_heavy_one_runs_at_once(alone: server_kit.Running) -> None:
    client = connected(alone)
    assert client.query("select 1").data["total"] == 1
    client.query(ENDLESS, parameters={"STATEMENT_TIMEOUT_IN_SECONDS": 2})
    path = f"/queries/v1/query-request?requestId={uuid.uuid4()}"
    answer = client.send("POST", path, {"sqlText": "select 1"}, timeout=60)
    assert answer.data["total"] == 1


def workers_of(server: server_kit.Running) -> list[int]:
    command = ["ps", "-axo", "pid=,ppid=,args="]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    workers = [line.split(None, 2) for line in shown.splitlines() if "sql.worker" in line]
    return [int(process_id) for process_id, parent, _ in workers if int(parent) == server.pid]


def test_a_login_starts_the_process_that_runs_the_first_query(
    alone: server_kit.Running,
) -> None:
    client = connected(alone)
    until(lambda: workers_of(alone))
    before = workers_of(alone)
    client.query("create schema first")
    client.query("create table first.t as select column1 as a from values (1), (2)")
    assert client.query("select sum(a) from first.t").data["total"] == 1
    assert workers_of(alone) == before


def test_a_query_whose_process_is_killed_says_so_and_the_next_one_runs(
    alone: server_kit.Running,
) -> None:
    client = connected(alone)
    client.query("create schema hit")
    client.query("create table hit.t as select column1 as a from values (1), (2)")
    with futures.ThreadPoolExecutor(1) as pool:
        for text in (ENDLESS, f"insert into hit.t {ENDLESS}"):
            client.query("select sum(a) from hit.t")
            idle = {worker: processes.cpu_seconds(worker) for worker in workers_of(alone)}
            waiting = pool.submit(client.query, text)
            until(
                lambda idle=idle: any(
                    processes.cpu_seconds(worker) > idle[worker] + 1 for worker in idle
                )
            )
            for worker in workers_of(alone):
                os.kill(worker, 9)
            answer = waiting.result(timeout=60)
            assert (answer.code, answer.body["data"]["sqlState"]) == ("000625", "53200")
            assert "process ended" in answer.body["message"]
            rows = client.query(
                "select sum(a), max(a) from hit.t",
                parameters={"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"},
            )
            assert rows.data["rowset"] == [["3", "2"]]


def test_a_statement_repeated_by_its_request_id_runs_once(server: server_kit.Running) -> None:
    client = connected(server)
    schema = f"once_{uuid.uuid4().hex[:8]}"
    client.query(f"create schema {schema}")
    client.query(f"create table {schema}.t (a int)")
    request_id = str(uuid.uuid4())
    text = f"insert into {schema}.t values (1)"
    with futures.ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: client.query(text, request_id=request_id), range(3)))
    assert [answer.data["rowset"] for answer in answers] == [[["1"]]] * 3
    count = client.query(
        f"select count(*) from {schema}.t",
        parameters={"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"},
    )
    assert count.data["rowset"] == [["1"]]


def test_a_statement_whose_answer_a_kill_took_away_has_its_first_answer_when_repeated(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    texts = [
        "create schema once",
        "create table once.plain (a int)",
        "create table once.t as select column1 as a from values (1), (2), (3)",
        "insert into once.t select a + 10 from once.t",
        "drop table once.plain",
    ]
    client, running = raw.Client(url=""), server_kit.start(data)
    try:
        client = connected(running)
        client.query("select 1")  # so that the session is known on disk
        for text in texts:
            request_id = str(uuid.uuid4())
            assert client.query(text, request_id=request_id).body["success"]
            running.kill()
            running = server_kit.start(data)
            client.url = running.url
            again = client.query(text, request_id=request_id)
            assert again.body["success"], (text, again.body["message"])
            if text.startswith("insert"):
                assert again.data["rowset"] == [["3"]]
        count = client.query(
            "select count(*) from once.t",
            parameters={"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"},
        )
        assert count.data["rowset"] == [["6"]]
        assert client.query("select * from once.plain").code == "002003"
    finally:
        assert running.stop() == 0


@pytest.mark.parametrize("opening", ["begin", "alter session set autocommit = false"])
def test_a_transaction_ended_by_a_restart_is_not_reported_as_committed(
    tmp_path: Path, opening: str
) -> None:
    data = tmp_path / "data"
    client, running = raw.Client(url=""), server_kit.start(data)
    try:
        client = connected(running)
        client.query("create schema tx")
        client.query("create table tx.t (a int)")
        client.query(opening)
        assert client.query("insert into tx.t values (1)").data["rowset"] == [["1"]]
        assert running.stop() == 0
        running = server_kit.start(data)
        client.url = running.url
        lost = client.query("commit")
        assert (lost.code, lost.body["data"]["sqlState"]) == ("000625", "40000")
        assert client.query("insert into tx.t values (2)").body["success"]
        assert client.query("commit").body["success"]
        rows = client.query(
            "select a from tx.t", parameters={"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"}
        )
        assert rows.data["rowset"] == [["2"]]
    finally:
        assert running.stop() == 0


def test_a_commit_that_a_kill_followed_is_still_committed_when_it_is_repeated(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    client, running = raw.Client(url=""), server_kit.start(data)
    try:
        client = connected(running)
        client.query("create schema tx")
        client.query("create table tx.t (a int)")
        client.query("begin")
        assert client.query("insert into tx.t values (1)").body["success"]
        request_id = str(uuid.uuid4())
        assert client.query("commit", request_id=request_id).body["success"]
        running.kill()
        running = server_kit.start(data)
        client.url = running.url
        again = client.query("commit", request_id=request_id)
        assert again.body["success"], again.body["message"]
        assert values_of(client, "tx.t") == [["1"]]
    finally:
        assert running.stop() == 0


def test_dml_that_waited_for_commit_at_a_kill_is_reported_as_lost(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    client, running = raw.Client(url=""), server_kit.start(data)
    try:
        client = connected(running)
        client.query("create schema tx")
        client.query("create table tx.t (a int)")
        client.query("alter session set autocommit = false")
        assert client.query("insert into tx.t values (1)").body["success"]
        running.kill()
        running = server_kit.start(data)
        client.url = running.url
        assert client.query("commit").code == "000625"
        assert values_of(client, "tx.t") == []
        assert client.query("insert into tx.t values (2)").body["success"]
        assert client.query("rollback").body["success"]
        assert values_of(client, "tx.t") == []
    finally:
        assert running.stop() == 0


def test_a_transaction_in_which_nothing_waited_goes_on_after_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    client, running = raw.Client(url=""), server_kit.start(data)
    try:
        client = connected(running)
        client.query("create schema tx")
        client.query("create table tx.t (a int)")
        assert client.query("begin").body["success"]
        running.kill()
        running = server_kit.start(data)
        client.url = running.url
        assert client.query("insert into tx.t values (1)").body["success"]
        assert client.query("rollback").body["success"]
        assert values_of(client, "tx.t") == []
    finally:
        assert running.stop() == 0


def values_of(client: raw.Client, table: str) -> list[list[str]]:
    shown = {"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"}
    rows: list[list[str]] = client.query(f"select a from {table}", parameters=shown).data["rowset"]
    return rows


def test_no_password_opens_a_session_but_the_right_one(server: server_kit.Running) -> None:
    client = raw.Client(url=server.url)
    for name, password in ((server.access_key, "x"), ("root", ""), ("", ""), ("unknown", "x")):
        assert client.login(LOGIN_NAME=name, PASSWORD=password).code == "390100"
    assert client.query("select 1").code == "390103"
    assert client.send("GET", "/queries/x/result").code == "390103"
    assert client.send("GET", "/monitoring/queries/x").code == "390103"
    assert client.login(LOGIN_NAME="root", PASSWORD=server.secret_key).data["token"]
