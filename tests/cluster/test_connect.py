"""Pipeline jobs by a Spark Connect server: each row once, and nothing half."""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline import (
    errors,
    ingest,
    jobs,
    reading,
    resources,
    servers,
    session,
    settings,
    sources,
    staging,
)
from tests.cluster import connect, standalone
from tests.kit import lake_client
from tests.kit import server as server_kit
from tests.pipeline.lake import Lake, Raw

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.cluster,
    pytest.mark.timeout(standalone.TEST_SECONDS),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect.running(tmp_path_factory.mktemp("connect") / "spark") as running:
        yield running


@pytest.fixture(scope="module")
def server_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_kit.Running]:
    running = server_kit.start(tmp_path_factory.mktemp("lake") / "data")
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def lake(server_of_tests: server_kit.Running, address: str) -> Iterator[Lake]:
    data = str(server_of_tests.data)
    endpoint = servers.find(url=None, data=data, environment={}, region=None)
    gets = resources.SparkResources(master=address)
    with session.started(endpoint, "lake", gets=gets, say=print) as spark:
        yield Lake(server=endpoint, spark=spark, catalog=lake_client.catalog(server_of_tests))


NUMBERS = itertools.count(1)


@pytest.fixture
def raw(lake: Lake) -> Raw:
    return Raw(sources.client(lake.server), f"raw-{next(NUMBERS)}")


def live_files(lake: Lake, table: str) -> list[str]:
    """The keys of the data files of a table's snapshot."""
    tasks = lake.catalog.load_table(table).scan().plan_files()
    return sorted(task.file.file_path.removeprefix("s3://lake/") for task in tasks)


def stored_files(lake: Lake, namespace: str) -> list[str]:
    """The keys of the data objects below a namespace, whether or not a snapshot names them."""
    listed = sources.client(lake.server).list_objects_v2(Bucket="lake", Prefix=f"{namespace}/")
    return [entry["Key"] for entry in listed["Contents"] if entry["Key"].endswith(".parquet")]


def staged(lake: Lake) -> list[str]:
    """What loads have left in the bucket where their rows are staged."""
    s3 = sources.client(lake.server)
    listed = s3.list_objects_v2(Bucket="boathouse-loads")
    return [entry["Key"] for entry in listed.get("Contents", ())]


JOBS = """
ingest --from s3://{raw}/in/ --to lake.flow.t --engine spark --dry-run
ingest --from s3://{raw}/in/ --to lake.flow.t --engine spark --partition-by 'bucket(2, id)'
ingest --from s3://{raw}/in/ --to lake.flow.t --engine spark
ingest --from s3://{raw}/changes/ --to lake.flow.t --engine spark --mode merge --key id
compact --table lake.flow.t --min-input-files 2 --dry-run
compact --table lake.flow.t --min-input-files 2
manifests --table lake.flow.t
statistics --table lake.flow.t
expire --table lake.flow.t --older-than 0h --retain-last 1 --dry-run
expire --table lake.flow.t --older-than 0h --retain-last 1
"""


def test_a_table_is_loaded_merged_compacted_and_expired_at_a_connect_server(
    server_of_tests: server_kit.Running, address: str, lake: Lake, raw: Raw
) -> None:
    expected = {}
    for number in range(3):
        some = {1000 * number + each: f"n{each}" for each in range(1000)}
        expected |= some
        raw.put(f"in/{number}.csv", "id,name\n" + "".join(f"{k},{v}\n" for k, v in some.items()))
    raw.put("changes/1.csv", "id,name,at\n5,five,2026-01-02\n10000,new,\n")
    done = subprocess.run(
        standalone.command(server_of_tests, address, "shell", "--json"),
        env=standalone.environment(server_of_tests),
        cwd=server_kit.ROOT,
        input=JOBS.format(raw=raw.bucket),
        capture_output=True,
        text=True,
        timeout=standalone.HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    planned, first, again, merged, packing, compacted, _, statistics, preview, expired, _ = (
        json.loads(line) for line in done.stdout.splitlines()
    )
    assert planned["plan"]["creates_table"]
    assert [column["type"] for column in planned["plan"]["columns"]] == ["int", "string"]
    assert (first["rows"], first["files"], first["engine"]) == (3000, 2, "spark")
    assert (again["rows"], again["skipped"], again["snapshot_id"]) == (0, 3, None)
    assert merged["merged"] == {"inserted": 1, "updated": 1, "deleted": 0}
    assert merged["columns_added"] == ["at"]
    assert packing["rewritten_files"] == compacted["rewritten_data_files_count"] > 1
    assert statistics["statistics_file"]
    assert preview["kept_snapshots"] == 1
    assert expired["deleted_data_files_count"] == preview["files"] > 0
    expected |= {5: "five", 10_000: "new"}
    assert {row["id"]: row["name"] for row in lake.rows("flow.t")} == expected
    assert len(lake.rows("flow.t")) == len(expected)
    table = lake.catalog.load_table("flow.t")
    assert len(table.snapshots()) == 1
    assert len(live_files(lake, "flow.t")) == 2
    assert stored_files(lake, "flow") == live_files(lake, "flow.t")
    assert staged(lake) == []


def test_of_two_loads_of_the_same_sources_one_is_made(
    lake: Lake, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw.put("in/a.csv", "id\n1\n2\n")
    write = staging.write
    begun: list[str] = []
    others: list[jobs.Loaded] = []

    def after_another(*arguments: Any) -> Any:
        if not begun:
            begun.append("another")
            others.append(lake.ingest(raw, "twice.t"))
        return write(*arguments)

    monkeypatch.setattr(staging, "write", after_another)
    assert lake.ingest(raw, "twice.t").rows == 0
    assert [other.rows for other in others] == [2]
    assert lake.rows("twice.t") == [{"id": 1}, {"id": 2}]
    # The files that the second load has written are gone.
    assert stored_files(lake, "twice") == live_files(lake, "twice.t")


def test_a_load_that_is_killed_leaves_nothing_and_the_next_one_loads_all(
    server_of_tests: server_kit.Running, address: str, lake: Lake, raw: Raw
) -> None:
    raw.put("in/a.csv", "id\n" + "".join(f"{number}\n" for number in range(200_000)))
    words = ("ingest", "--from", raw.uri("in/"), "--to", "lake.killed.t", "--engine", "spark")
    job = subprocess.Popen(
        standalone.command(server_of_tests, address, *words),
        env=standalone.environment(server_of_tests),
        cwd=server_kit.ROOT,
        stderr=subprocess.PIPE,
    )
    while not staged(lake):
        assert job.poll() is None
        time.sleep(0.05)
    job.kill()
    job.communicate()
    assert not lake.catalog.table_exists("killed.t")
    assert lake.ingest(raw, "killed.t").rows == 200_000
    assert [row["id"] for row in lake.rows("killed.t")] == list(range(200_000))


def test_a_check_that_fails_leaves_the_table_as_it_was(lake: Lake, raw: Raw) -> None:
    raw.put("in/a.csv", "id\n1\n")
    lake.ingest(raw, "checked.t")
    raw.put("in/b.csv", "id,more\n2,x\n3,y\n")
    before = lake.state("checked.t")
    load = {
        "transforms": (jobs.SqlTransform(name="big", sql="select * from source where id > 1"),),
        "checks": (jobs.SqlCheck(name="few", sql="select * from target where id > 2"),),
    }
    with pytest.raises(errors.CheckFailed, match=r'check few returns 1 row, .*"id": 3'):
        lake.ingest(raw, "checked.t", **load)
    assert lake.state("checked.t") == before
    with pytest.raises(errors.BadArgument, match="check few is no SELECT"):
        lake.ingest(raw, "checked.t", checks=(jobs.SqlCheck(name="few", sql="drop table x"),))
    assert lake.ingest(raw, "checked.t", transforms=load["transforms"]).columns_added == ("more",)
    assert lake.rows("checked.t") == [
        {"id": 1, "more": None}, {"id": 2, "more": "x"}, {"id": 3, "more": "y"},
    ]  # fmt: skip


def test_rows_of_format_version_3_have_ids_and_merges_into_it_are_refused(
    lake: Lake, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.catalog.create_namespace_if_not_exists("three")
    lake.spark.session.sql(
        "create table lake.three.t (id bigint) using iceberg tblproperties ('format-version'='3')"
    )
    raw.put("in/a.csv", "id\n0\n")
    assert lake.ingest(raw, "three.t").rows == 1
    write = staging.write

    def before_another(*arguments: Any) -> Any:
        files = write(*arguments)
        lake.spark.session.sql("insert into lake.three.t values (1)")
        return files

    raw.put("in/b.csv", "id\n2\n")
    with monkeypatch.context() as patched:
        patched.setattr(staging, "write", before_another)
        assert lake.ingest(raw, "three.t").rows == 1
    read = lake.spark.session.sql("select id, _row_id from lake.three.t order by id")
    assert [tuple(row) for row in read.collect()] == [(0, 0), (1, 1), (2, 2)]
    raw.put("in/c.csv", "id\n1\n")
    with pytest.raises(errors.BadArgument, match="keeps the ids of rows, which cannot be written"):
        lake.ingest(raw, "three.t", mode="merge", merge=jobs.Merge(key=("id",)))


def test_another_table_is_a_source_and_a_view_of_sql_is_refused(
    lake: Lake, server_of_tests: server_kit.Running
) -> None:
    lake.catalog.create_namespace_if_not_exists("rel")
    with lake_client.session(server_of_tests, "rel") as sql:
        sql.answer("create table s as select 1 as id")
        sql.answer("create view v as select id from s")
    load = jobs.Load(
        places=(),
        relation=settings.parse_catalog_source("table:lake.rel.s"),
        reader=reading.of_rows(),
        table=settings.parse_table("lake.rel.t"),
    )

    def run(load: jobs.Load) -> int:
        return ingest.run(lake.server, load, open_spark=lake.open_spark, say=print).rows

    assert (run(load), run(load)) == (1, 0)
    with lake_client.session(server_of_tests, "rel") as sql:
        sql.answer("insert into s values (2)")
    assert run(load) == 1
    assert lake.rows("rel.t") == [{"id": 1}, {"id": 2}]
    view = settings.parse_catalog_source("view:lake.rel.v")
    with pytest.raises(errors.BadArgument, match="cannot read its rows from this machine"):
        run(dataclasses.replace(load, relation=view, mode="replace"))


@pytest.mark.parametrize(
    ("format", "body", "words"),
    [
        ("csv", "id,n\n1,2\n3\n4,5,6\n", r"a\.csv.*line"),
        ("parquet", "nothing of Parquet", r"s3://\S+/in/a\.parquet"),
    ],
)
def test_a_source_that_cannot_be_read_is_named(
    lake: Lake, raw: Raw, format: settings.Format, body: str, words: str
) -> None:
    raw.put(f"in/a.{format}", body)
    with pytest.raises(errors.PipelineError, match=words):
        lake.ingest(raw, "broken.t", format=format, options={})
    assert not lake.catalog.table_exists("broken.t")


def test_a_server_without_icebergs_jars_is_refused_in_one_sentence(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bare") / "spark"
    with connect.running(folder, has_jars=False) as bare:
        gets = resources.SparkResources(master=bare)
        with (
            pytest.raises(errors.SparkFailed, match="without the jars of Iceberg's runtime for"),
            session.started(lake.server, "lake", gets=gets, say=print),
        ):
            pass
