"""A SQL warehouse on a Spark standalone cluster, asked by a connector of Snowflake's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import standalone
from tests.kit import server as server_kit
from tests.kit import tpch
from tests.sql.rest import drivers

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.cluster,
    pytest.mark.timeout(600),
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
"""


@pytest.fixture(scope="module")
def lake(
    cluster: standalone.Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[server_kit.Running]:
    folder = tmp_path_factory.mktemp("lake")
    settings = folder / "mini.toml"
    settings.write_text(SETTINGS.format(master=cluster.url))
    running = server_kit.start(folder / "data", "--config", str(settings))
    try:
        yield running
    finally:
        running.stop()


LINES = """
cursor = connect(database="lake", schema={schema!r}).cursor()
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


def test_queries_of_tpch_on_a_cluster_agree_with_the_servers_own_engine(
    cluster: standalone.Cluster, lake: server_kit.Running, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tpch")
    tpch.generate(folder, SCALE)
    tpch.ingest(lake, folder, SCHEMA)
    texts = [tpch.query(number, SCALE) for number in QUERIES]
    answers = drivers.run(
        drivers.PY4,
        LINES.format(schema=SCHEMA, texts=texts),
        port=lake.port,
        user=lake.access_key,
        password=lake.secret_key,
        timeout_seconds=500,
    ).checked()
    for number, ((ours, theirs),) in zip(QUERIES, answers, strict=True):
        assert ours[1], f"query {number} has no rows"
        assert ours == theirs, f"query {number}"
    assert cluster.executors() == 2
    assert cluster.executor_heaps() == {"-Xmx640M"}
