"""Warehouses with `engine = "spark"`: a connector of Snowflake's, and one process of Spark."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.kit import lake_client, tpch, waits
from tests.kit import server as server_kit
from tests.sql.rest import drivers

pytestmark = pytest.mark.spark

SCALE = 0.01
SCHEMA = "tpch"
SETTINGS = """
[[warehouses]]
name = "big"
engine = "spark"
memory_mib = 768

[[warehouses]]
name = "brief"
engine = "spark"
memory_mib = 768
idle_seconds = 1
"""
SHORT = (1, 4, 14)
"""Queries with quotients, intervals and patterns."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_kit.Running]:
    folder = tmp_path_factory.mktemp("warehouse") / "my data [1] *?%20'ü"
    folder.mkdir()
    settings = folder / "mini.toml"
    settings.write_text(SETTINGS)
    running = server_kit.start(folder / "data", "--config", str(settings))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def filled(lake: server_kit.Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    tpch.generate(folder, SCALE)
    tpch.ingest(lake, folder, SCHEMA)
    return folder


def said(lake: server_kit.Running, lines: str) -> list[Any]:
    """What lines say that a real connector runs, with `cursor` in a schema of the lake."""
    opening = 'connection = connect(database="lake")\ncursor = connection.cursor()\n'
    return drivers.run(
        drivers.PY4,
        opening + lines,
        port=lake.port,
        user=lake.access_key,
        password=lake.secret_key,
        timeout_seconds=280,
    ).checked()


BOTH = """
cursor.execute("use schema {schema}")
for text in {texts!r}:
    answers = []
    for warehouse in ("compute_wh", "big"):
        cursor.execute(f"use warehouse {{warehouse}}")
        cursor.execute(text)
        answers.append((
            [(column[0], *column[1:2], *column[4:]) for column in cursor.description],
            cursor.fetchall(),
        ))
    say(answers)
"""


def check_same(lake: server_kit.Running, numbers: tuple[int, ...]) -> None:
    texts = [tpch.query(number, SCALE) for number in numbers]
    answers = said(lake, BOTH.format(schema=SCHEMA, texts=texts))
    for number, ((ours, theirs),) in zip(numbers, answers, strict=True):
        assert ours == theirs, f"query {number}"


@pytest.mark.usefixtures("filled")
def test_queries_of_tpch_agree_on_both_engines(lake: server_kit.Running) -> None:
    check_same(lake, SHORT)


@pytest.mark.long
@pytest.mark.usefixtures("filled")
def test_all_queries_of_tpch_agree_on_both_engines(lake: server_kit.Running) -> None:
    check_same(lake, tuple(tpch.QUERIES))


def children(lake: server_kit.Running) -> list[int]:
    """The server's processes with Spark, Java's own aside."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [
        int(pid)
        for pid, parent, command in rows
        if int(parent) == lake.pid and "pipeline.warehouse" in command
    ]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + waits.WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


LAZY = """
cursor.execute("create or replace schema lazy")
cursor.execute("use warehouse big")
cursor.execute("create table t as select 1 as n union all select 2")
cursor.execute("insert into t values (3)")
cursor.execute("update t set n = n + 1 where n = 3")
for text in (
    "select current_warehouse(), 1 + 1",
    "select count(*) from t",
    "select table_name from information_schema.tables where table_schema = 'LAZY'",
    "select * from (values (1), (2)) order by 1",
):
    say(cursor.execute(text).fetchall())
say([row[0] for row in cursor.execute("show warehouses").fetchall()])
"""
SUM = """
cursor.execute("use warehouse big")
say(cursor.execute("select sum(n) from lazy.t where n > 1").fetchall())
"""


def test_java_starts_with_the_first_query_of_a_table_and_stays(lake: server_kit.Running) -> None:
    before = children(lake)
    constants, _, names, values, listed = (row for (row,) in said(lake, LAZY))
    assert constants == [["BIG", "int:2"]]
    assert names == [["T"]]
    assert values == [["int:1"], ["int:2"]]
    assert {"BIG", "BRIEF"} <= set(listed)
    assert children(lake) == before
    assert said(lake, SUM) == [[[["int:6"]]]]
    (child,) = children(lake)
    assert said(lake, SUM) == [[[["int:6"]]]]
    assert children(lake) == [child]


STATES = """
def both(text):
    answers = []
    for warehouse in ("compute_wh", "big"):
        cursor.execute(f"use warehouse {warehouse}")
        answers.append(sorted(cursor.execute(text).fetchall(), key=repr))
    cursor.execute("use warehouse big")
    say(text, *answers)

cursor.execute("create or replace schema states")
cursor.execute("create table t (k int, v varchar, n number(10,2))")
cursor.execute("insert into t values (1, 'one', 1.5), (2, 'two', null), (3, 'three', -3)")
cursor.execute("set before = (select current_timestamp()::varchar)")
time.sleep(0.05)
cursor.execute("begin")
cursor.execute("insert into t values (4, 'four', 4)")
cursor.execute("delete from t where k = 1")
both("select k, v, n from t where k > 0")
cursor.execute("rollback")
both("select k, v, n from t where k > 0")
cursor.execute("delete from t where k = 2")
cursor.execute("alter table t add column added int default 7")
cursor.execute("alter table t rename column v to named")
cursor.execute("insert into t values (5, 'five', 5.25, 1)")
both("select * from t where k > 0")
both("select named, added + k from t where n is not null or added = 1")
both("select k, n from t at(timestamp => $before::timestamp_ltz) where k > 0")
cursor.execute("create view v as select named, sum(n) as s from t group by named")
both("select v.named, s, t.k from v join t on t.named = v.named where s <> 0")
both("select t.k, i.table_name from t, information_schema.tables i "
     "where i.table_schema = 'STATES' and i.table_name = 'T'")
cursor.execute("create table w as select sum(k) as s from t where k > 1")
both("select s from w where s > 0")
"""


@pytest.mark.smoke
def test_a_query_reads_the_rows_that_the_statement_resolved(lake: server_kit.Running) -> None:
    for text, ours, theirs in said(lake, STATES):
        assert ours, text
        assert theirs == ours, text


def test_deletes_of_other_writers_are_obeyed(lake: server_kit.Running) -> None:
    catalog = lake_client.catalog(lake)
    catalog.create_namespace_if_not_exists("marks")
    properties = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
    rows = pa.table({"k": pa.array(range(1000), pa.int64())})
    table = catalog.create_table("marks.t", schema=rows.schema, properties=properties)
    table.append(rows)
    table.append(rows)
    lines = """
cursor.execute("use warehouse big")
cursor.execute("delete from marks.t where k % 3 = 1")
say(cursor.execute("select count(*), sum(k) from marks.t where k >= 0").fetchall())
"""
    kept = [k for k in range(1000) if k % 3 != 1]
    assert said(lake, lines) == [[[[f"int:{2 * len(kept)}", f"int:{2 * sum(kept)}"]]]]
    table.refresh()
    assert table.inspect.delete_files().num_rows > 0


VALUES = r"""
cursor.execute("create or replace schema types")
cursor.execute('create table t (id int, b boolean, f float, d date, ts timestamp_ntz,'
    ' l timestamp_ltz, x binary, n number(38,10), "odd `name`" varchar, at time)')
cursor.execute("alter session set timezone = 'America/New_York'")
odd = "'${env:HOME} \\\\ ''Ü \u00e9'"
cursor.execute(
    "insert into t select 1, true, 1.5, '0044-03-15', '0001-01-01 00:00:00.000001',"
    " '2024-03-10 03:30:00 -0400', 'ff00', 1234567890123456789012345678.0123456789,"
    f" {odd}, '10:00'")
cursor.execute(
    "insert into t select 2, false, 'NaN'::float, '9999-12-31', '2024-02-29 23:59:59.999999',"
    " '1969-12-31 19:00:00', '', -0.0000000001, '', null")
cursor.execute(
    "insert into t select 3, null, '-inf'::float, null, null, null, null, null, null, null")
for text in (
    'select id, b, f, d, ts, l, x, n, "odd `name`" from t where id > 0 order by id',
    f'select id, "odd `name`" = {odd}, {odd} from t where id > 0 order by 1',
    "select f, count(*) from t group by f order by f desc nulls last",
    "select max(id), min(ts), max(d), min(n), l from t group by l order by 5",
):
    answers = []
    for warehouse in ("compute_wh", "big"):
        cursor.execute(f"use warehouse {warehouse}")
        answers.append(cursor.execute(text).fetchall())
    say(text, *answers)
"""


@pytest.mark.smoke
def test_values_of_every_type_are_those_of_the_servers_own_engine(
    lake: server_kit.Running,
) -> None:
    for text, ours, theirs in said(lake, VALUES):
        assert ours, text
        assert theirs == ours, text


FAULTS = """
cursor.execute("create or replace schema faults")
cursor.execute("create table t as select 0 as n, 'a' as v, to_time('10:00') as at")
cursor.execute("use warehouse big")
for text in (
    "select initcap(v) from t where n = 0",
    "select at from t where n = 0",
    "explain select n from t",
    "select 1 / n from t where n = 0",
    "select nothing from t",
    "select n from nowhere where n = 0",
    "select n + 1 from t where n = 0",
):
    try:
        say(cursor.execute(text).fetchall())
    except snowflake.connector.errors.ProgrammingError as error:
        say(error.errno, error.msg)
"""


def test_faults_are_those_of_snowflake_and_refusals_name_their_construct(
    lake: server_kit.Running,
) -> None:
    kernel, time_column, explain, zero, column, table, good = said(lake, FAULTS)
    assert kernel[0] == time_column[0] == explain[0] == "int:2"
    assert "initcap in Spark SQL" in kernel[1]
    assert "column at" in time_column[1].lower()
    assert "EXPLAIN in a Spark warehouse" in explain[1]
    assert (zero[0], column[0], table[0]) == ("int:100051", "int:904", "int:2003")
    assert good == [[["int:1"]]]


WITH_VARIANT = """
import snowflake.connector
cursor.execute("create or replace schema with_variant")
cursor.execute("use warehouse big")
cursor.execute("create iceberg table t (v variant, id int) iceberg_version = 3")
cursor.execute("insert into t select parse_json('[1]'), 1 union all select null, 2")
say(cursor.execute("select sum(id), count(*) from t").fetchall())
say(cursor.execute("select 'x' from t where 1 = 1").fetchall())
try:
    say(cursor.execute("select v from t").fetchall())
except snowflake.connector.errors.ProgrammingError as error:
    say(error.errno)
"""


def test_a_table_with_a_variant_is_read_without_that_column(lake: server_kit.Running) -> None:
    rows, words, refused = said(lake, WITH_VARIANT)
    assert words == [[["x"], ["x"]]]
    assert rows == [[["int:3", "int:2"]]]
    assert refused == ["int:2"]


ENDLESS = "select count(*) from t a, t b, t c, t d where a.n * b.n * c.n * d.n = -1"

STOPS = f"""
cursor.execute("create or replace schema stops")
cursor.execute("create table t as select seq4() as n from table(generator(rowcount => 20000))")
cursor.execute("use warehouse big")
say(cursor.execute("select sum(n) from t where n >= 0").fetchall())
cursor.execute("alter session set statement_timeout_in_seconds = 2")
begun = time.monotonic()
try:
    cursor.execute({ENDLESS!r})
except snowflake.connector.errors.ProgrammingError as error:
    say(error.errno, time.monotonic() - begun < 10)
cursor.execute("alter session unset statement_timeout_in_seconds")
say(cursor.execute("select sum(n) from t where n >= 0").fetchall())
cursor.execute_async({ENDLESS!r})
running = cursor.sfqid
time.sleep(3)
say(connection.get_query_status(running).name)
say(cursor.execute(f"select system$cancel_query('{{running}}')").fetchall()[0][0][-11:])
say(cursor.execute("select sum(n) from t where n >= 0").fetchall())
"""


def test_a_cancelled_query_and_one_beyond_its_time_end_on_spark_too(
    lake: server_kit.Running,
) -> None:
    total = [[["int:199990000"]]]
    answers = said(lake, STOPS)
    assert answers == [total, ["int:630", True], total, ["RUNNING"], ["terminated."], total]
    (child,) = children(lake)
    wait_until(lambda: not is_busy(child))


def is_busy(process: int) -> bool:
    """Whether a process with those that it has started uses more than a tenth of a processor."""
    before = cpu_ticks(process)
    time.sleep(1)
    return cpu_ticks(process) - before > os.sysconf("SC_CLK_TCK") / 10


def cpu_ticks(process: int) -> int:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False
    )
    total = 0
    for each in (str(process), *listed.stdout.split()):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total


CRASHES = """
cursor.execute("create or replace schema crashes")
cursor.execute("create table t as select seq4() as n from table(generator(rowcount => 20000))")
cursor.execute("use warehouse big")
say(cursor.execute("select count(*) from t where n > 0").fetchall())
"""
CRASHED = f"""
import os, signal
cursor.execute("use schema crashes")
cursor.execute("use warehouse big")
cursor.execute_async({ENDLESS!r})
running = cursor.sfqid
time.sleep(3)
os.kill(CHILD, signal.SIGKILL)
try:
    cursor.get_results_from_sfqid(running)
    cursor.fetchall()
except snowflake.connector.errors.Error as error:
    say(error.msg)
say(cursor.execute("select count(*) from t where n > 0").fetchall())
"""


def test_a_crash_of_spark_is_one_error_and_the_next_query_starts_it_again(
    lake: server_kit.Running,
) -> None:
    assert said(lake, CRASHES) == [[[["int:19999"]]]]
    (child,) = children(lake)
    fault, answer = said(lake, f"CHILD = {child}\n" + CRASHED)
    assert "engine's process ended" in fault[0]
    assert answer == [[["int:19999"]]]
    (other,) = children(lake)
    assert other != child


IDLE = """
cursor.execute("create or replace schema idle")
cursor.execute("create table t as select 1 as n union all select 2")
cursor.execute("use warehouse brief")
say(cursor.execute("select sum(n) from t where n > 0").fetchall())
"""


def test_an_idle_process_of_spark_ends(lake: server_kit.Running) -> None:
    before = set(children(lake))
    assert said(lake, IDLE) == [[[["int:3"]]]]
    wait_until(lambda: set(children(lake)) <= before)
