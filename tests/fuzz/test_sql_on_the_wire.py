"""Texts that are nearly SQL, sent to a running server by a user with rights on one schema: each
gets an answer that a driver can read, soon, without a path of the server, and the server goes on.
"""

from __future__ import annotations

import random
import re
import sys
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.kit import garbage_sql
from tests.kit import server as server_kit
from tests.sql.rest import raw

ANSWER_SECONDS = 60
STATEMENT_SECONDS = 5
PASSWORD = "a password of the fuzz"


@pytest.fixture(scope="module")
def user(server: server_kit.Running) -> Iterator[tuple[str, str]]:
    """A user and the schema with the table `t`, on which alone the user has rights."""
    name = f"fuzz_{uuid.uuid4().hex[:8]}"
    root = raw.Client(url=server.url)
    login = {"LOGIN_NAME": server.access_key, "PASSWORD": server.secret_key}
    assert root.login(query="databaseName=lake", **login).body["success"]
    for text in (
        f"create schema {name}",
        f"use schema {name}",
        garbage_sql.TABLE,
        garbage_sql.ROWS,
        f"create user {name} password = '{PASSWORD}'",
        f"grant usage on database lake to user {name}",
        f"grant usage on schema {name} to user {name}",
        f"grant create table, create view, create sequence on schema {name} to user {name}",
        f"grant select, insert, update, delete, truncate on table t to user {name}",
    ):
        answer = root.query(text)
        assert answer.body["success"], answer.body
    yield name, name
    for text in (f"drop user {name}", f"drop schema {name} cascade"):
        root.query(text)


def logged_in(server: server_kit.Running, user: tuple[str, str]) -> raw.Client:
    client = raw.Client(url=server.url)
    name, schema = user
    query = f"databaseName=lake&schemaName={schema}"
    assert client.login(query=query, LOGIN_NAME=name, PASSWORD=PASSWORD).body["success"]
    return client


def send_all(
    server: server_kit.Running,
    user: tuple[str, str],
    make: Callable[[random.Random], str],
    seeds: range,
) -> int:
    """Send a text for each seed; return how many succeeded."""
    logged = server.log.stat().st_size
    client = logged_in(server, user)
    paths = (str(server.data), str(server_kit.ROOT), sys.prefix, "site-packages", "Traceback")
    parameters = {"STATEMENT_TIMEOUT_IN_SECONDS": STATEMENT_SECONDS}
    successes = 0
    for seed in seeds:
        text = make(random.Random(seed))
        path = f"/queries/v1/query-request?requestId={uuid.uuid4()}"
        body = {"sqlText": text, "parameters": parameters}
        answer = client.send("POST", path, body, timeout=ANSWER_SECONDS)
        assert answer.status == 200, (seed, text, answer.raw[:300])
        shown = answer.raw.decode()
        assert not any(each in shown for each in paths), (seed, text, shown[:600])
        if answer.body["success"]:
            successes += 1
            continue
        assert re.fullmatch(r"[0-9]{6}", answer.body["code"]), (seed, text, shown[:300])
        assert answer.body["code"] != "000603", (seed, text, shown[:300])
        assert answer.body["code"][:3] != "390", (seed, text, shown[:300])
    with server.log.open("rb") as log:
        log.seek(logged)
        assert b"Traceback" not in log.read()
    assert server_kit.get(f"{server.url}/_health")[0] == 200
    return successes


MAKERS = {
    "calls": garbage_sql.calling,
    "mutated": garbage_sql.mutated,
    "jumbled": garbage_sql.jumbled,
    "noise": garbage_sql.noise,
}


@pytest.mark.parametrize("name", MAKERS)
def test_texts_that_are_nearly_sql_get_an_answer(
    server: server_kit.Running, user: tuple[str, str], name: str
) -> None:
    successes = send_all(server, user, MAKERS[name], range(200))
    assert successes > 20 or name != "calls"  # else the texts would test refusals alone


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 20_000, 2_000))
@pytest.mark.parametrize("name", MAKERS)
def test_many_texts_that_are_nearly_sql_get_an_answer(
    server: server_kit.Running, user: tuple[str, str], name: str, start: int
) -> None:
    send_all(server, user, MAKERS[name], range(start, start + 2_000))
