"""What a session and a statement live through, against the process a user starts."""

from __future__ import annotations

import dataclasses
import functools
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


JSON = {"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"}


@dataclasses.dataclass
class Session(raw.Client):
    """A client that has logged in. url: of the server that runs now."""

    access_key: str = ""
    secret_key: str = ""

    def another(self) -> Session:
        session = Session(url=self.url, access_key=self.access_key, secret_key=self.secret_key)
        answer = session.login(
            query="databaseName=lake", LOGIN_NAME=self.access_key, PASSWORD=self.secret_key
        )
        assert answer.body["success"], answer.body
        return session


def connected(server: server_kit.Running) -> Session:
    keys = {"access_key": server.access_key, "secret_key": server.secret_key}
    return Session(url=server.url, **keys).another()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        threading.Event().wait(0.02)


Story = Iterator[None]
"""What a client does before its server ends, and after `yield` with the one that follows."""


def a_session_goes_on(client: Session) -> Story:
    client.query("create schema kept")
    client.query("use schema kept")
    client.query("set answer = 42")
    client.query("alter session set query_tag = 'nightly'")
    assert client.query("select $answer").data["total"] == 1
    yield
    data_of = client.query("select $answer, current_schema()", parameters=JSON).data
    assert data_of["rowset"] == [["42", "KEPT"]]
    named = {item["name"]: item["value"] for item in data_of["parameters"]}
    assert named["QUERY_TAG"] == "nightly"
    assert client.renew().data["sessionId"] == client.session_id
    client.send("POST", "/session?delete=true", {})
    assert client.query("select 1").code == "390111"


def a_session_of_a_token_goes_on_until_the_token_is_removed(client: Session) -> Story:
    client.query("create user of_token")
    added = client.query("alter user of_token add pat nightly").data["rowset"]
    text = added[0][1]

    def with_token() -> Session:
        session = Session(url=client.url)
        login = {"AUTHENTICATOR": "PROGRAMMATIC_ACCESS_TOKEN", "TOKEN": text, "PASSWORD": None}
        assert session.login(LOGIN_NAME="OF_TOKEN", **login).body["success"]
        return session

    before = with_token()
    yield
    after = with_token()
    before.url = client.url
    for session in (before, after):
        shown = session.query("select current_user()", parameters=JSON).data["rowset"]
        assert shown == [["OF_TOKEN"]]
    assert client.query("alter user of_token remove pat nightly").body["success"]
    for session in (before, after):
        assert session.query("select 1").code == "390111"


def a_temporary_table_ends(client: Session, *, schema: str, logs_out: bool = False) -> Story:
    client.query(f"create schema {schema}")
    client.query(f"use schema {schema}")
    client.query("create table t as select 1 a")
    lines = "select seq4() a, randstr(40, random()) b from table(generator(rowcount => 20000))"
    answer = client.query(f"create temporary table t as {lines}")
    assert answer.body["success"], answer.body
    assert client.query("select * from t").data["total"] == 20000
    if logs_out:
        client.send("POST", "/session?delete=true", {})
        assert client.query("select 1").code == "390111"
        assert client.another().query(f"select * from {schema}.t").data["total"] == 1
    yield
    assert client.query("insert into t values (2)").code == "390111"
    assert client.another().query(f"select * from {schema}.t").data["total"] == 1


def a_transaction_is_not_reported_as_committed(
    client: Session, *, schema: str, opening: str
) -> Story:
    client.query(f"create schema {schema}")
    client.query(f"create table {schema}.t (a int)")
    client.query(opening)
    assert client.query(f"insert into {schema}.t values (1)").data["rowset"] == [["1"]]
    yield
    lost = client.query("commit")
    assert (lost.code, lost.body["data"]["sqlState"]) == ("000625", "40000")
    assert client.query(f"insert into {schema}.t values (2)").body["success"]
    assert client.query("commit").body["success"]
    assert values_of(client, f"{schema}.t") == [["2"]]


def a_commit_is_still_committed_when_it_is_repeated(client: Session) -> Story:
    client.query("create schema again")
    client.query("create table again.t (a int)")
    client.query("begin")
    assert client.query("insert into again.t values (1)").body["success"]
    request_id = str(uuid.uuid4())
    assert client.query("commit", request_id=request_id).body["success"]
    yield
    again = client.query("commit", request_id=request_id)
    assert again.body["success"], again.body["message"]
    assert values_of(client, "again.t") == [["1"]]


def dml_that_waited_for_commit_is_reported_as_lost(client: Session) -> Story:
    client.query("create schema lost")
    client.query("create table lost.t (a int)")
    client.query("alter session set autocommit = false")
    assert client.query("insert into lost.t values (1)").body["success"]
    yield
    assert client.query("commit").code == "000625"
    assert values_of(client, "lost.t") == []
    assert client.query("insert into lost.t values (2)").body["success"]
    assert client.query("rollback").body["success"]
    assert values_of(client, "lost.t") == []


def a_transaction_in_which_nothing_waited_goes_on(client: Session) -> Story:
    client.query("create schema empty")
    client.query("create table empty.t (a int)")
    assert client.query("begin").body["success"]
    yield
    assert client.query("insert into empty.t values (1)").body["success"]
    assert client.query("rollback").body["success"]
    assert values_of(client, "empty.t") == []


def a_statement_has_its_first_answer_when_it_is_repeated(
    client: Session, *, schema: str, text: str
) -> Story:
    client.query(f"create schema {schema}")
    client.query(f"create table {schema}.plain (a int)")
    client.query(f"create table {schema}.t as select column1 as a from values (1), (2), (3)")
    client.query(f"use schema {schema}")
    request_id = str(uuid.uuid4())
    first = client.query(text, request_id=request_id)
    assert first.body["success"], first.body["message"]
    yield
    again = client.query(text, request_id=request_id)
    assert again.body["success"], again.body["message"]
    inserts, drops = text.startswith("insert"), text.startswith("drop")
    if inserts:
        assert again.data["rowset"] == [["3"]]
    count = client.query(f"select count(*) from {schema}.t", parameters=JSON)
    assert count.data["rowset"] == [["6" if inserts else "3"]]
    plain = client.query(f"select count(*) from {schema}.plain")
    assert plain.code == ("002003" if drops else None)


STORIES: dict[str, dict[str, Callable[[Session], Story]]] = {
    "stop": {
        "a session goes on": a_session_goes_on,
        "a session of a token goes on": a_session_of_a_token_goes_on_until_the_token_is_removed,
        "temporary tables end with a logout": lambda client: a_temporary_table_ends(
            client, schema="out", logs_out=True
        ),
        "temporary tables end with the server": lambda client: a_temporary_table_ends(
            client, schema="stopped"
        ),
        "a transaction by BEGIN is not reported as committed": lambda client: (
            a_transaction_is_not_reported_as_committed(client, schema="begun", opening="begin")
        ),
        "a transaction without autocommit is not reported as committed": lambda client: (
            a_transaction_is_not_reported_as_committed(
                client, schema="auto", opening="alter session set autocommit = false"
            )
        ),
    },
    "kill": {
        "temporary tables end with the server": lambda client: a_temporary_table_ends(
            client, schema="killed"
        ),
        "a commit is still committed when it is repeated": (
            a_commit_is_still_committed_when_it_is_repeated
        ),
        "DML that waited for COMMIT is reported as lost": (
            dml_that_waited_for_commit_is_reported_as_lost
        ),
        "a transaction in which nothing waited goes on": (
            a_transaction_in_which_nothing_waited_goes_on
        ),
        **{
            f"a repeated {text} has its first answer": functools.partial(
                a_statement_has_its_first_answer_when_it_is_repeated,
                schema=f"once{number}",
                text=text,
            )
            for number, text in enumerate(
                (
                    "create schema another",
                    "create table another (a int)",
                    "create table more as select a from t",
                    "insert into t select a + 10 from t",
                    "drop table plain",
                )
            )
        },
    },
}
"""By how their server ends; the stories of one ending share two servers, and each has a session."""


@dataclasses.dataclass(kw_only=True)
class Restart:
    """A server that has ended and its successor. failures: of stories that came to no `yield`."""

    stories: dict[str, tuple[Session, Story]]
    failures: dict[str, Exception]
    url: str
    bytes_before: int
    bytes_after: int


def restart(data: Path, ending: str) -> Iterator[Restart]:
    """Let each story of an ending come to its `yield`, end the server and start it again."""
    first = server_kit.start(data)
    stories: dict[str, tuple[Session, Story]] = {}
    failures: dict[str, Exception] = {}
    try:
        for name, tell in STORIES[ending].items():
            client = connected(first)
            stories[name] = (client, tell(client))
            try:
                next(stories[name][1])
            except Exception as error:  # noqa: BLE001 - the failure of one test
                failures[name] = error
        bytes_before = folder_bytes(data)
    finally:
        if ending == "kill":
            first.kill()
        else:
            assert first.stop() == 0
    second = server_kit.start(data)
    yield Restart(
        stories=stories,
        failures=failures,
        url=second.url,
        bytes_before=bytes_before,
        bytes_after=folder_bytes(data),
    )
    assert second.stop() == 0


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restart]:
    yield from restart(tmp_path_factory.mktemp("stopped") / "data", "stop")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restart]:
    yield from restart(tmp_path_factory.mktemp("killed") / "data", "kill")


@pytest.mark.parametrize("name", STORIES["stop"])
def test_after_the_server_was_stopped_and_started(stopped: Restart, name: str) -> None:
    finish(stopped, name)


@pytest.mark.parametrize("name", STORIES["kill"])
def test_after_the_server_was_killed_and_started(killed: Restart, name: str) -> None:
    finish(killed, name)


def finish(restarted: Restart, name: str) -> None:
    if name in restarted.failures:
        raise restarted.failures[name]
    client, story = restarted.stories[name]
    client.url = restarted.url
    assert next(story, "its end") == "its end"


def test_the_bytes_of_temporary_tables_are_gone_after_a_stop(stopped: Restart) -> None:
    assert stopped.bytes_before > 200_000
    assert stopped.bytes_after < 100_000


def test_the_bytes_of_temporary_tables_are_gone_after_a_kill(killed: Restart) -> None:
    assert killed.bytes_before > 200_000
    assert killed.bytes_after < 100_000


def folder_bytes(data: Path) -> int:
    return sum(path.stat().st_size for path in (data / "blobs").rglob("*") if path.is_file())


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
    answer = client.query(ENDLESS, parameters={"STATEMENT_TIMEOUT_IN_SECONDS": 1})
    assert (answer.code, answer.body["data"]["sqlState"]) == ("000630", "57014")
    assert 1 <= time.monotonic() - started < 30


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


@pytest.mark.further(
    "test_a_heavy_statement_ends_at_its_timeout",
    "tests/sql/test_engine.py::test_an_overrunning_query_ends_and_the_next_one_runs",
)
def test_a_statement_after_an_ended_heavy_one_runs_at_once(alone: server_kit.Running) -> None:
    client = connected(alone)
    assert client.query("select 1").data["total"] == 1
    client.query(ENDLESS, parameters={"STATEMENT_TIMEOUT_IN_SECONDS": 1})
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
                    processes.cpu_seconds(worker) > idle[worker] + 0.3 for worker in idle
                )
            )
            for worker in workers_of(alone):
                os.kill(worker, 9)
            answer = waiting.result(timeout=60)
            assert (answer.code, answer.body["data"]["sqlState"]) == ("000625", "53200")
            assert "process ended" in answer.body["message"]
            rows = client.query(
                "select sum(a), max(a) from hit.t",
                parameters=JSON,
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
        parameters=JSON,
    )
    assert count.data["rowset"] == [["1"]]


def values_of(client: raw.Client, table: str) -> list[list[str]]:
    rows: list[list[str]] = client.query(f"select a from {table}", parameters=JSON).data["rowset"]
    return rows


def test_no_password_opens_a_session_but_the_right_one(server: server_kit.Running) -> None:
    client = raw.Client(url=server.url)
    for name, password in ((server.access_key, "x"), ("root", ""), ("", ""), ("unknown", "x")):
        assert client.login(LOGIN_NAME=name, PASSWORD=password).code == "390100"
    assert client.query("select 1").code == "390103"
    assert client.send("GET", "/queries/x/result").code == "390103"
    assert client.send("GET", "/monitoring/queries/x").code == "390103"
    assert client.login(LOGIN_NAME="root", PASSWORD=server.secret_key).data["token"]
