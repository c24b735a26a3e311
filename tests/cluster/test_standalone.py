"""Pipeline jobs on a Spark standalone cluster: the rows are those of a job on one machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import standalone
from tests.kit import lake_client, s3
from tests.kit import server as server_kit

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.cluster,
    pytest.mark.timeout(standalone.TEST_SECONDS),
]

ROWS = 1_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_kit.Running]:
    running = server_kit.start(tmp_path_factory.mktemp("lake") / "data", "--bucket", "raw")
    try:
        yield running
    finally:
        running.stop()


def put(lake: server_kit.Running, key: str, rows: Iterator[tuple[int, str]]) -> None:
    lines = "".join(f"{number},{name}\n" for number, name in rows)
    body = f"id,name\n{lines}".encode()
    assert s3.call(lake, "PUT", f"/raw/{key}", body=body).status == 200


def rows_of(lake: server_kit.Running) -> list[tuple[int, str]]:
    table = lake_client.catalog(lake).load_table("ns.t")
    return sorted((row["id"], row["name"]) for row in table.scan().to_arrow().to_pylist())


def files_of(lake: server_kit.Running) -> int:
    return len(list(lake_client.catalog(lake).load_table("ns.t").scan().plan_files()))


def test_a_table_is_loaded_merged_compacted_and_expired_on_a_cluster(
    cluster: standalone.Cluster, lake: server_kit.Running
) -> None:
    def job(*arguments: str) -> None:
        standalone.run_pipeline(lake, cluster, *arguments)

    expected = {}
    for number in range(3):
        some = {number * ROWS + each: f"n{each}" for each in range(ROWS)}
        expected |= some
        put(lake, f"in/{number}.csv", iter(some.items()))
    job("ingest", "--from", "s3://raw/in/", "--to", "lake.ns.t", "--engine", "spark")
    assert rows_of(lake) == sorted(expected.items())
    assert cluster.executors() >= 1

    job("ingest", "--from", "s3://raw/in/", "--to", "lake.ns.t", "--engine", "spark")
    assert rows_of(lake) == sorted(expected.items())

    changed = {5: "five", 10 * ROWS: "new"}
    put(lake, "changes/1.csv", iter(changed.items()))
    merge = ("--mode", "merge", "--key", "id", "--engine", "spark")
    job("ingest", "--from", "s3://raw/changes/", "--to", "lake.ns.t", *merge)
    expected |= changed
    assert rows_of(lake) == sorted(expected.items())

    before = files_of(lake)
    job("compact", "--table", "lake.ns.t", "--min-input-files", "2")
    assert files_of(lake) < before
    assert rows_of(lake) == sorted(expected.items())

    job("expire", "--table", "lake.ns.t", "--older-than", "0h", "--retain-last", "1")
    assert len(lake_client.catalog(lake).load_table("ns.t").snapshots()) == 1
    assert rows_of(lake) == sorted(expected.items())
