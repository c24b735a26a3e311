"""Hostile statements and requests to the SQL face, for `tests.campaign`."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.kit import bigtables, stalls

TIMEOUT_SECONDS: Final = 120
SCHEMAS: Final = 5_000
MIB: Final = stalls.MIB
GROWTH_MIB: Final = 96
"""How much the serving process may grow for one statement: its text a few times over, and the SQL
floor itself, which is joined at the first request."""


class Connection:
    """A session by hand. The drivers would retry, and hold large texts several times."""

    def __init__(self, place: stalls.Target) -> None:
        self._url = place.url
        self._token = "None"
        self.query_id = ""
        login = {
            "LOGIN_NAME": place.access_key,
            "PASSWORD": place.secret_key,
            "ACCOUNT_NAME": "a",
            "CLIENT_APP_ID": "PythonConnector",
        }
        answer = self.post("/session/v1/login-request", {"data": login})
        assert answer["success"], answer
        self._token = answer["data"]["token"]

    def post(self, path: str, body: Mapping[str, Any] | bytes) -> Any:
        """Send a body; return the answer's."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {
            "Content-Type": "application/json",
            "Authorization": f'Snowflake Token="{self._token}"',
        }
        request = urllib.request.Request(self._url + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def run_on(self, text: str) -> Any:
        """Begin a text that runs on by itself; return the answer."""
        path = f"/queries/v1/query-request?requestId={uuid.uuid4()}"
        return self.post(path, {"sqlText": text, "asyncExec": True})

    def run(self, text: str, **more: Any) -> Any:
        """Run a text; return the answer, waited for."""
        path = f"/queries/v1/query-request?requestId={uuid.uuid4()}"
        answer = self.post(path, {"sqlText": text, **more})
        while answer["code"] in ("333333", "333334"):
            path = answer["data"]["getResultUrl"]
            headers = {"Authorization": f'Snowflake Token="{self._token}"'}
            request = urllib.request.Request(self._url + path, headers=headers)
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                answer = json.load(response)
        return answer


def doubling(levels: int) -> str:
    """Common table expressions of which each names the one before twice."""
    parts = ["c0 as (select 1 a)"]
    parts += [f"c{n} as (select x.a from c{n - 1} x, c{n - 1} y)" for n in range(1, levels)]
    return f"with {', '.join(parts)} select count(*) from c{levels - 1}"


def make_many_schemas(place: stalls.Target) -> None:
    """SCHEMAS namespaces, made by the catalog's own API."""
    token = json.load(
        urllib.request.urlopen(
            place.url + "/iceberg/v1/oauth/tokens",
            data=urllib.parse.urlencode(
                {
                    "grant_type": "client_credentials",
                    "client_id": place.access_key,
                    "client_secret": place.secret_key,
                }
            ).encode(),
        )
    )["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(place.host, place.port, timeout=TIMEOUT_SECONDS)
    for number in range(SCHEMAS):
        body = json.dumps({"namespace": [f"s{number:05}"]})
        connection.request("POST", "/iceberg/v1/lake/namespaces", body, headers)
        answer = connection.getresponse()
        assert answer.status in (200, 409), answer.read()
        answer.read()
    connection.close()


def statement(
    name: str,
    principal: str,
    text: str | Callable[[], str],
    codes: Sequence[str | None],
    *,
    growth_mib: int = GROWTH_MIB,
    prepare: Callable[[stalls.Target], Any] | None = None,
    binds: Callable[[], Mapping[str, Any]] | None = None,
    **more: Any,
) -> stalls.Hostile:
    """A row that runs one text and expects one of codes; None means that it succeeds.

    text, binds: what is large comes from a function, for each process with tests imports all rows.
    more: of the request.
    """

    def send(place: stalls.Target) -> None:
        bindings = {} if binds is None else {"bindings": binds()}
        ready = text if isinstance(text, str) else text()
        answer = Connection(place).run(ready, **bindings, **more)
        assert answer["code"] in codes, str(answer)[:600]
        if answer["code"] not in (None, "090001"):
            assert "internal error" not in answer["message"], answer["message"][:300]

    return stalls.Hostile(
        name=name,
        principal=principal,
        growth_mib=growth_mib,
        send=send,
        prepare=prepare,
    )


def joined(item: str, count: int, separator: str = ",") -> str:
    return separator.join(item.format(n) for n in range(count))


def run_many_large_texts(place: stalls.Target) -> None:
    connection = Connection(place)
    for number in range(150):
        text = f"select {number} -- {'x' * 1_000_000}"
        assert connection.run(text)["success"]


def begin_an_endless_query(place: stalls.Target) -> Connection:
    """Have root's query take a worker; return its session."""
    connection = Connection(place)
    series = joined("(values (1), (2), (3), (4), (5), (6), (7), (8)) t{0}(a{0})", 14)
    total = joined("a{0}", 14, " + ")
    answer = connection.run_on(f"select count(*) from {series} where {total} = 7")
    connection.query_id = answer["data"]["queryId"]
    time.sleep(2)
    return connection


def run_beside_an_endless_query(place: stalls.Target) -> None:
    connection = Connection(place)
    for number in range(3):
        started = time.monotonic()
        text = f"select count(*) from (values (1), (2), (3)) t(a) where a > {number}"
        answer = connection.run(text)
        assert answer["success"], answer
        assert answer["data"]["rowset" if "rowset" in answer["data"] else "rowsetBase64"]
        assert time.monotonic() - started < 20
    root: Connection = place.prepared
    root.run(f"select system$cancel_query('{root.query_id}')")


COLUMNS: Final = 5_000


def make_a_wide_table(place: stalls.Target) -> None:
    connection = Connection(place)
    connection.run("create schema if not exists lake.wide")
    columns = joined("c{0} int", COLUMNS)
    answer = connection.run(f"create table if not exists lake.wide.t ({columns})")
    assert answer["success"], str(answer)[:600]


def read_a_wide_table(place: stalls.Target) -> None:
    connection = Connection(place)
    for text in (
        "select * from lake.wide.t",
        "describe table lake.wide.t",
        "select count(*) from lake.information_schema.columns",
        "insert into lake.wide.t (c0, c4999) values (1, 2)",
        "insert into lake.wide.t (c0, c4999) select c0 + 1, c4999 from lake.wide.t",
        "select c0 + c4999, c77 from lake.wide.t where c7 is null order by c0",
    ):
        answer = connection.run(text)
        assert answer["success"], (text, str(answer)[:600])


def array_binds(names: int, values: int, text: str) -> dict[str, Any]:
    """Return array binds of so many names, each with so many values."""
    return {str(n + 1): {"type": "TEXT", "value": [text] * values} for n in range(names)}


def make_a_table_of_texts(place: stalls.Target) -> None:
    connection = Connection(place)
    connection.run("create schema if not exists lake.texts")
    columns = joined("c{0} varchar", 4)
    answer = connection.run(f"create table if not exists lake.texts.t ({columns})")
    assert answer["success"], str(answer)[:600]


def make_files(sorts: bigtables.Sorts) -> Callable[[stalls.Target], str]:
    """Return what makes a table of so many files; it returns the table's name."""

    def prepare(place: stalls.Target) -> str:
        name = f"t{uuid.uuid4().hex[:8]}"
        bigtables.make(place, "files", name, sorts)
        return f"lake.files.{name}"

    return prepare


def use_a_table_of_many_files(place: stalls.Target) -> None:
    connection = Connection(place)
    for text, rows in (
        ("select count(*) from {}", None),
        ("select id, n from {} where id = 3 and s > 'b'", None),
        ("select max(id + n), min(-n), sum(id) from {}", None),
        ("insert into {} values (1, 2, 'x')", [["1"]]),
        ("explain select * from {} where id > 1", None),
    ):
        answer = connection.run(text.replace("{}", place.prepared))
        assert answer["success"], (text, str(answer)[:600])
        assert rows is None or answer["data"]["rowset"] == rows


def make_a_long_history(place: stalls.Target) -> str:
    name = f"h{uuid.uuid4().hex[:8]}"
    bigtables.make_history(place, "long", name, snapshots=30_000, note=700)
    return name


def use_a_table_of_a_long_history(place: stalls.Target) -> None:
    """The table has no rows, and its earlier states name manifest lists that are absent."""
    connection = Connection(place)
    table = f"lake.long.{place.prepared}"
    for text, code in (
        (f"select count(*) from {table}", None),
        (f"select * from {table} at (timestamp => current_timestamp)", "091364"),
        (f"select * from {table} at (offset => -1)", "091364"),
        (f"select * from {table} at (statement => '{uuid.uuid4()}')", "000707"),
        (f"describe table {table}", None),
        (f"show columns in table {table}", None),
        ("show tables in schema lake.long", None),
        ("select count(*) from lake.information_schema.tables", None),
        (f"insert into {table} values (1)", None),
        (f"insert into {table} select id + 1 from {table}", None),
        (f"select sum(id) from {table}", None),
    ):
        answer = connection.run(text)
        assert answer["code"] == code, (text, str(answer)[:600])


def make_many_wide_tables(place: stalls.Target) -> None:
    """Twelve tables of 4,900 columns: 58,800 rows of COLUMNS."""
    connection = Connection(place)
    connection.run("create schema if not exists lake.broad")
    columns = joined("c{0} int", 4_900)
    for number in range(12):
        answer = connection.run(f"create table if not exists lake.broad.t{number} ({columns})")
        assert answer["success"], str(answer)[:600]


def list_wide_tables(place: stalls.Target) -> None:
    connection = Connection(place)
    for text, rows in (
        ("show columns in table lake.broad.t3", 4_900),
        ("show columns in schema lake.broad", 10_000),
        ("show columns like 'c77' in schema lake.broad", 12),
        ("show tables in schema lake.broad", 12),
        ("describe table lake.broad.t3", 4_900),
    ):
        answer = connection.run(text)
        assert answer["success"], (text, str(answer)[:600])
        assert answer["data"]["total"] == rows, (text, answer["data"]["total"])
    answer = connection.run("select count(*) from lake.information_schema.columns")
    assert answer["success"], str(answer)[:600]


ROWS: Final = (
    stalls.Hostile(
        name="a-table-of-30000-snapshots",
        principal=stalls.ROOT,
        growth_mib=3 * GROWTH_MIB,
        prepare=make_a_long_history,
        send=use_a_table_of_a_long_history,
    ),
    stalls.Hostile(
        name="twelve-tables-of-4900-columns",
        principal=stalls.ROOT,
        growth_mib=2 * GROWTH_MIB,
        prepare=make_many_wide_tables,
        send=list_wide_tables,
    ),
    stalls.Hostile(
        name="a-table-of-1500-files-and-1500-delete-files",
        principal=stalls.ROOT,
        growth_mib=GROWTH_MIB,
        prepare=make_files(
            bigtables.Sorts(data_files=1_500, position_deletes=1_000, equality_deletes=500)
        ),
        send=use_a_table_of_many_files,
    ),
    stalls.Hostile(
        name="a-table-of-1000-files-and-1000-interleaved-equality-deletes",
        principal=stalls.ROOT,
        growth_mib=GROWTH_MIB,
        prepare=make_files(
            bigtables.Sorts(data_files=1_000, equality_deletes=1_000, sequenced=True)
        ),
        send=use_a_table_of_many_files,
    ),
    stalls.Hostile(
        name="a-table-of-20000-files",
        principal=stalls.ROOT,
        growth_mib=2 * GROWTH_MIB,
        prepare=make_files(bigtables.Sorts(data_files=20_000)),
        send=use_a_table_of_many_files,
        long=True,
    ),
    stalls.Hostile(
        name="a-table-of-10000-files-and-10000-delete-files",
        principal=stalls.ROOT,
        growth_mib=2 * GROWTH_MIB,
        prepare=make_files(
            bigtables.Sorts(data_files=10_000, position_deletes=8_000, equality_deletes=2_000)
        ),
        send=use_a_table_of_many_files,
        long=True,
    ),
    statement(
        "sixteen-mebibytes-of-array-binds",
        "carol",
        "select ?",
        [None],
        growth_mib=3 * GROWTH_MIB,
        binds=lambda: array_binds(1, 1_600_000, "123456"),
    ),
    statement(
        "sixteen-mebibytes-of-inserted-binds",
        stalls.ROOT,
        "insert into lake.texts.t values (?, ?, ?, ?)",
        [None],
        growth_mib=2 * GROWTH_MIB,
        prepare=make_a_table_of_texts,
        binds=lambda: array_binds(4, 400_000, "123456"),
    ),
    statement(
        "four-million-lists-as-a-bind",
        "carol",
        "select ?",
        ["002049"],
        growth_mib=2 * GROWTH_MIB,
        binds=lambda: {"1": {"type": "TEXT", "value": [[]] * 4_000_000}},
    ),
    statement(
        "more-bind-names-than-there-may-be",
        "carol",
        "select 1",
        ["002049"],
        growth_mib=2 * GROWTH_MIB,
        binds=lambda: {str(n): {} for n in range(900_000)},
    ),
    statement(
        "a-pattern-that-is-slow-to-compile",
        "carol",
        "select regexp_substr('abc', '" + "([a-\uffff])" * 330 + "', 1, 1, 'ie')",
        [None],
    ),
    statement("doubling-ctes-14-deep", "carol", doubling(15), ["000625"]),
    statement("doubling-ctes-24-deep", stalls.ROOT, doubling(25), ["000625"]),
    statement("a-quarter-of-a-million-statements", "carol", "1;" * 250_000, ["000625"]),
    statement(
        "an-in-list-of-100000", "carol", f"select 1 in ({joined('{}', 100_000)})", ["001795"]
    ),
    statement(
        "300-ctes",
        "carol",
        f"with {joined('c{} as (select {} a)'.replace('{}', '{0}'), 300)} select a from c7",
        [None],
    ),
    statement(
        "5000-columns", "carol", f"select {joined('1', 5_000)}", [None], growth_mib=2 * GROWTH_MIB
    ),
    statement(
        "ten-thousand-statements-of-constants",
        "carol",
        "select 1;" * 10_000,
        [None],
        parameters={"MULTI_STATEMENT_COUNT": 0},
    ),
    statement("nested-parentheses", "carol", f"select {'(' * 500_000}", ["000625", "000002"]),
    statement(
        "a-sum-of-100000",
        "carol",
        f"select {joined('1', 100_000, '+')}",
        ["000002"],
    ),
    statement(
        "columns-that-double",
        "carol",
        "with c0 as (select 1 a), "
        + ", ".join(f"c{n} as (select x.*, x.* from c{n - 1} x)" for n in range(1, 30))
        + " select * from c29",
        ["000625"],
    ),
    statement(
        "schemas-of-a-database-of-very-many",
        stalls.ROOT,
        "show schemas in database lake",
        [None],
        prepare=make_many_schemas,
    ),
    statement(
        "information-schema-of-a-database-of-very-many",
        stalls.ROOT,
        "select count(*) from lake.information_schema.schemata",
        [None],
    ),
    stalls.Hostile(
        name="a-query-beside-an-endless-one",
        principal="carol",
        growth_mib=GROWTH_MIB,
        prepare=begin_an_endless_query,
        send=run_beside_an_endless_query,
    ),
    stalls.Hostile(
        name="a-table-of-5000-columns",
        principal=stalls.ROOT,
        growth_mib=2 * GROWTH_MIB,
        prepare=make_a_wide_table,
        send=read_a_wide_table,
    ),
    stalls.Hostile(
        name="150-texts-of-a-megabyte",
        principal="carol",
        growth_mib=GROWTH_MIB,
        send=run_many_large_texts,
    ),
)
