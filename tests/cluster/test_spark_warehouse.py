"""SQL warehouses on a Spark standalone cluster and at a Spark Connect server, asked by a connector
of Snowflake's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import connect, standalone
from tests.kit import server as server_kit
from tests.kit import tpch
from tests.sql.rest import drivers

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.cluster,
    pytest.mark.timeout(standalone.TEST_SECONDS),
]

SCALE = 0.002
SCHEMA = "tpch"
QUERIES = (1, 3, 6, 14)
SETTINGS = """
[[warehouses]]
name = "big"
engine = "spark"
memory_mib = 768
master = "{master}"
cores = 2
executor_cores = 1
executor_memory_mib = 640

[[warehouses]]
name = "elsewhere"
engine = "spark"
master = "{address}"
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server without the pipeline's jars, which queries do not need."""
    folder = tmp_path_factory.mktemp("connect") / "spark"
    with connect.running(folder, has_jars=False) as running:
        yield running


@pytest.fixture(scope="module")
def lake(
    cluster: standalone.Cluster, address: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[server_kit.Running]:
    folder = tmp_path_factory.mktemp("lake")
    settings = folder / "mini.toml"
    settings.write_text(SETTINGS.format(master=cluster.url, address=address))
    running = server_kit.start(folder / "data", "--config", str(settings))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def filled(lake: server_kit.Running, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tpch")
    tpch.generate(folder, SCALE)
    tpch.ingest(lake, folder, SCHEMA)


def said(lake: server_kit.Running, lines: str) -> list[Any]:
    """What lines say that a connector runs, with `cursor` in the schema of TPC-H."""
    opening = f'cursor = connect(database="lake", schema={SCHEMA!r}).cursor()\n'
    return drivers.run(
        drivers.PY4,
        opening + lines,
        port=lake.port,
        user=lake.access_key,
        password=lake.secret_key,
        timeout_seconds=standalone.HANG_SECONDS,
    ).checked()


BOTH = """
for text in {texts!r}:
    answers = []
    for warehouse in ("compute_wh", {warehouse!r}):
        cursor.execute(f"use warehouse {{warehouse}}")
        cursor.execute(text)
        answers.append((
            [(column[0], *column[1:2], *column[4:]) for column in cursor.description],
            cursor.fetchall(),
        ))
    say(answers)
"""


def check_same(lake: server_kit.Running, warehouse: str) -> None:
    texts = [tpch.query(number, SCALE) for number in QUERIES]
    answers = said(lake, BOTH.format(texts=texts, warehouse=warehouse))
    for number, ((ours, theirs),) in zip(QUERIES, answers, strict=True):
        assert ours[1], f"query {number} has no rows"
        assert ours == theirs, f"query {number}"


@pytest.mark.usefixtures("filled")
def test_queries_of_tpch_on_a_cluster_agree_with_the_servers_own_engine(
    cluster: standalone.Cluster, lake: server_kit.Running
) -> None:
    check_same(lake, "big")
    assert cluster.executors() == 2
    assert cluster.executor_heaps() == {"-Xmx640M"}


@pytest.mark.usefixtures("filled")
def test_queries_of_tpch_at_a_connect_server_agree_with_the_servers_own_engine(
    lake: server_kit.Running,
) -> None:
    check_same(lake, "elsewhere")


ENDLESS = "select count(*) from t a, t b, t c, t d where a.n * b.n * c.n * d.n = -1"
ENDS = f"""
cursor.execute("create or replace schema ends")
cursor.execute("create table t as select seq4() as n from table(generator(rowcount => 20000))")
cursor.execute("use warehouse elsewhere")
for text in ("select sum(n) from t where n >= 0", "select 1 / n from t where n = 0"):
    try:
        say(cursor.execute(text).fetchall())
    except snowflake.connector.errors.ProgrammingError as error:
        say(error.errno)
cursor.execute_async({ENDLESS!r})
running = cursor.sfqid
time.sleep(5)
say(cursor.connection.get_query_status(running).name)
say(cursor.execute(f"select system$cancel_query('{{running}}')").fetchall()[0][0][-11:])
say(cursor.execute("select sum(n) from t where n >= 0").fetchall())
"""


@pytest.mark.usefixtures("filled")
def test_faults_are_those_of_snowflake_and_a_cancelled_query_ends_at_a_connect_server(
    lake: server_kit.Running,
) -> None:
    total = [[["int:199990000"]]]
    assert said(lake, ENDS) == [total, ["int:100051"], ["RUNNING"], ["terminated."], total]
