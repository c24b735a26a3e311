"""kill -9 of a server, and of its SQL workers, while many sessions change the same tables.

A statement that was answered with success counts once, one that was answered with an error does
not, and one that the kill cut off counts once or not at all, and once if it is sent again with its
request id and succeeds then. Two tables of one transaction change together.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kit import invariants, lakes
from tests.kit import server as servers
from tests.sql.rest import raw

KEYS: Final = 3
ACCOUNTS: Final = 4
BALANCE: Final = 1_000
LOAD_SECONDS_MAX: Final = 60
IN_PROGRESS: Final = ("333333", "333334")

TABLES: Final = (
    "create schema if not exists load",
    "use schema load",
    "create table counters (k int, n int)",
    "create table log (id int, who int)",
    "create table left_side (k int, v int)",
    "create table right_side (k int, v int)",
    f"insert into left_side select seq4(), {BALANCE} from table(generator(rowcount => {ACCOUNTS}))",
    "insert into right_side select k, 0 from left_side",
)


@dataclass
class Statement:
    """A statement under way. effect: what it adds to, as `Writer.done` counts."""

    text: str
    effect: tuple[str, int]
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass
class Outcomes:
    """The answers that a session got, mutable. done: successes. open: what the kill cut off."""

    done: Counter[tuple[str, int]] = field(default_factory=Counter)
    open: list[Statement] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


class Writer:
    """One session, which works until the server is gone."""

    def __init__(self, server: servers.Running, number: int, load: int) -> None:
        self.client = raw.Client(url=server.url)
        self.number = number
        self.chance = random.Random(f"{load} {number}")
        self.first = (load * 100 + number) * 100_000
        self.outcomes = Outcomes()
        self.count = 0
        login = {
            "LOGIN_NAME": server.access_key,
            "PASSWORD": server.secret_key,
            "SESSION_PARAMETERS": {"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"},
        }
        query = "databaseName=lake&schemaName=load"
        assert self.client.login(query=query, **login).body["success"]

    def run(self) -> Outcomes:
        """Work until the connection breaks; return the outcomes up to then."""
        while True:
            try:
                self.work()
            except (OSError, http.client.HTTPException):
                return self.outcomes

    def work(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def send(self, statement: Statement) -> bool:
        """Send a statement; say whether it succeeded. Raises OSError if the server is gone."""
        body = answer_of(self.client, statement)
        if body["success"]:
            return True
        self.outcomes.errors[f"{body['code']} {body['message'][:90]}"] += 1
        return False

    def change(self, statement: Statement) -> None:
        """Send a statement that counts by itself."""
        self.outcomes.open.append(statement)
        if self.send(statement):
            self.outcomes.done[statement.effect] += 1
        self.outcomes.open.remove(statement)


def answer_of(client: raw.Client, statement: Statement) -> Any:
    """Return the answer to a statement, waiting for it as drivers do."""
    path = f"/queries/v1/query-request?requestId={statement.request_id}"
    answer = client.send("POST", path, {"sqlText": statement.text}, timeout=120)
    while answer.body["code"] in IN_PROGRESS:
        answer = client.send("GET", answer.body["data"]["getResultUrl"], timeout=120)
    return answer.body


class Counting(Writer):
    """Adds one to a counter, which MERGE creates."""

    def work(self) -> None:
        key = self.chance.randrange(KEYS)
        merge = (
            f"merge into counters t using (select {key} k) s on t.k = s.k"
            " when matched then update set n = t.n + 1"
            " when not matched then insert (k, n) values (s.k, 1)"
        )
        self.change(Statement(text=merge, effect=("count", key)))


class Updating(Writer):
    """Adds one to a counter that exists."""

    def work(self) -> None:
        key = self.chance.randrange(KEYS)
        statement = Statement(
            text=f"update counters set n = n + 1 where k = {key}", effect=("count", key)
        )
        self.outcomes.open.append(statement)
        body = answer_of(self.client, statement)
        if not body["success"]:
            self.outcomes.errors[f"{body['code']} {body['message'][:90]}"] += 1
        elif (changed := body["data"]["rowset"][0][0]) != "0":
            assert changed == "1"
            self.outcomes.done[statement.effect] += 1
        self.outcomes.open.remove(statement)


class Logging(Writer):
    """Inserts rows, each once."""

    def work(self) -> None:
        self.count += 1
        row = self.first + self.count
        text = f"insert into log (id, who) values ({row}, {self.number})"
        self.change(Statement(text=text, effect=("row", row)))


class Moving(Writer):
    """Moves one from one table to the other in a transaction."""

    def work(self) -> None:
        key = self.chance.randrange(ACCOUNTS)
        commit = Statement(text="commit", effect=("moved", key))
        self.send(Statement(text="begin", effect=("", 0)))
        parts = (
            f"update left_side set v = v - 1 where k = {key}",
            f"update right_side set v = v + 1 where k = {key}",
        )
        for text in parts:
            if not self.send(Statement(text=text, effect=("", 0))):
                self.send(Statement(text="rollback", effect=("", 0)))
                return
        if self.chance.random() < 0.2:
            self.send(Statement(text="rollback", effect=("", 0)))
            return
        self.change(commit)


class Altering(Writer):
    """Adds and drops a column beside what others do."""

    def work(self) -> None:
        table = self.chance.choice(("log", "counters"))
        self.count += 1
        name = f"c{self.number}_{self.count % 4}"
        text = self.chance.choice(
            (
                f"alter table {table} add column if not exists {name} int default 7",
                f"alter table {table} drop column if exists {name}",
            )
        )
        self.send(Statement(text=text, effect=("", 0)))


def workers_of(server: servers.Running) -> list[int]:
    """Return the processes that a server has started."""
    shown = subprocess.run(
        ["ps", "-o", "pid=,ppid=,args=", "--ppid", str(server.pid)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return [int(line.split()[0]) for line in shown.splitlines() if line.strip()]


@contextlib.contextmanager
def dying_workers(server: servers.Running, chance: random.Random) -> Iterator[None]:
    """Within the block, kill one of the server's processes now and then."""
    stopped = threading.Event()

    def work() -> None:
        while not stopped.wait(chance.uniform(2, 8)):
            for process_id in workers_of(server)[-1:]:
                with contextlib.suppress(OSError):
                    os.kill(process_id, signal.SIGKILL)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def load_and_kill(
    server: servers.Running, load: int, successes: int, *, kills_workers: bool
) -> list[Writer]:
    """Kill the server when so many changes of the writers have succeeded, or after a minute."""
    classes = (Counting, Counting, Updating, Updating, Logging, Logging, Moving, Moving, Altering)
    writers = [each(server, number, load) for number, each in enumerate(classes)]
    chance = random.Random(load)
    with ThreadPoolExecutor(len(writers)) as pool, contextlib.ExitStack() as stack:
        if kills_workers:
            stack.enter_context(dying_workers(server, chance))
        running = [pool.submit(writer.run) for writer in writers]
        deadline = time.monotonic() + LOAD_SECONDS_MAX
        while not any(each.done() for each in running) and time.monotonic() < deadline:
            if sum(sum(each.outcomes.done.values()) for each in writers) >= successes:
                break
            time.sleep(0.005)
        server.kill()
        for each in running:
            each.result()
    return writers


class Sums:
    """The outcomes of all loads together. Mutable."""

    def __init__(self) -> None:
        self.done: Counter[tuple[str, int]] = Counter()
        self.maybe: Counter[tuple[str, int]] = Counter()

    def add(self, writers: list[Writer], server: servers.Running) -> None:
        """Count a load's statements; those that were cut off are sent to server again."""
        for writer in writers:
            self.done += writer.outcomes.done
            for statement in writer.outcomes.open:
                writer.client.url = server.url
                body = answer_of(writer.client, statement)
                if body["success"]:
                    rows = body["data"]["rowset"]
                    if statement.text == "commit" or set(rows[0]) != {"0"}:
                        self.done[statement.effect] += 1
                else:
                    self.maybe[statement.effect] += 1

    def check(self, client: raw.Client) -> None:
        """Compare the tables with the outcomes."""
        counters = rows_of(client, "select k, n from counters order by k")
        assert len(counters) == len(dict(counters)), counters
        for key, number in counters:
            self._check(("count", key), number)
        log = [row[0] for row in rows_of(client, "select id from log")]
        assert len(log) == len(set(log))
        for row in set(log) | {row for word, row in (*self.done, *self.maybe) if word == "row"}:
            self._check(("row", row), int(row in set(log)))
        moved = rows_of(
            client, "select k, l.v, r.v from left_side l join right_side r using (k) order by k"
        )
        assert [key for key, *_ in moved] == list(range(ACCOUNTS))
        for key, left, right in moved:
            assert left + right == BALANCE, (key, left, right)
            self._check(("moved", key), right)

    def _check(self, effect: tuple[str, int], number: int) -> None:
        low = self.done[effect]
        assert low <= number <= low + self.maybe[effect], (effect, number, low)


def rows_of(client: raw.Client, text: str) -> list[tuple[int, ...]]:
    body = answer_of(client, Statement(text=text, effect=("", 0)))
    assert body["success"], body
    assert body["data"]["queryResultFormat"] == "json"
    return [tuple(int(cell) for cell in row) for row in body["data"]["rowset"]]


def survive(folder: Path, moments: list[int]) -> Sums:
    """Kill a server after so many successes each time; compare the tables with the answers."""
    sums = Sums()
    running = servers.start(folder / "data")
    try:
        setup = Writer(running, 0, 0)
        for text in TABLES:
            assert setup.send(Statement(text=text, effect=("", 0))), setup.outcomes.errors
        for number, successes in enumerate(moments):
            writers = load_and_kill(running, number, successes, kills_workers=number % 2 == 1)
            with lakes.opened(running.data, first_id=(number + 1) << 40) as lake:
                invariants.check_recovered(lake.storage, running.data)
                assert lake.broken_chain() is None
            running = servers.start(running.data)
            for writer in writers:
                assert not [each for each in writer.outcomes.errors if each.startswith("000603")]
            sums.add(writers, running)
            sums.check(Writer(running, 0, 0).client)
        assert running.stop() == 0
    finally:
        if running.process.poll() is None:
            running.kill()
    return sums


def test_answers_of_sessions_hold_after_kills(tmp_path: Path) -> None:
    sums = survive(tmp_path, [20, 20])
    assert sum(sums.done.values()) >= 20


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_answers_of_sessions_hold_after_many_kills(tmp_path: Path) -> None:
    chance = random.Random("many kills")
    sums = survive(tmp_path, [chance.randrange(1, 150) for _ in range(30)])
    assert sum(sums.done.values()) > 500
