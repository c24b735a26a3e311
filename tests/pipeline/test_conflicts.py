"""Maintenance while writers commit: a writer's commit that comes first stays, and what is left of
the table is maintained all the same.

The maintenance reaches the server through a door, and the writer commits while the first commit of
the maintenance stands at it: after its plan, and before its commit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pipeline import (
    catalogs,
    errors,
    expiry,
    ingest,
    jobs,
    maintenance,
    retries,
    session,
    settings,
    sources,
)
from tests.kit import lake_client
from tests.kit.server import Running
from tests.pipeline import handwritten, wire
from tests.pipeline.lake import Lake, Raw, a_load

pytestmark = pytest.mark.spark

NAMESPACE = "conflicts"
CATALOG = "held"


@dataclass(frozen=True, kw_only=True)
class Held:
    """The way of maintenance to a table, with a door in it."""

    lake: Lake
    table: settings.TargetTable
    said: list[str]

    def compact(self) -> Any:
        return maintenance.compact(
            self.table,
            target_file_size_mib=None,
            min_input_files=2,
            open_spark=self.open_spark,
            say=self.said.append,
        )

    def open_spark(self, _: str) -> contextlib.AbstractContextManager[session.Spark]:
        return contextlib.nullcontext(self.lake.spark)


@contextlib.contextmanager
def held(lake: Lake, name: str, write: Callable[[], object], *, at: int) -> Iterator[Held]:
    """Let `write` run ahead of each of the first `at` commits that pass the door."""
    commits = itertools.count(1)
    one_at_a_time = threading.Lock()  # no commit passes while the writer is at work

    def before(method: str, path: str) -> bool:
        if method == "POST" and path.endswith(f"/tables/{name}"):
            with one_at_a_time:
                if next(commits) <= at:
                    write()
        return False

    spark = lake.spark.session
    with wire.door(lake.server.url, before=before) as door:
        server = dataclasses.replace(lake.server, url=door.url)
        catalog = f"{CATALOG}_{uuid.uuid4().hex[:8]}"
        for key, value in settings.catalog_settings(server, "lake", name=catalog).items():
            spark.conf.set(key, value)
        table = settings.parse_table(f"{catalog}.{NAMESPACE}.{name}")
        try:
            yield Held(lake=lake, table=table, said=[])
        finally:
            with contextlib.suppress(Exception):
                lake.spark.catalog(catalog).close()


def a_table(lake: Lake, *, version: int = 2, mode: str = "copy-on-write", groups: int = 2) -> str:
    """Return the name of a table with three files of two rows in each partition."""
    lake.catalog.create_namespace_if_not_exists(NAMESPACE)
    name = f"t_{uuid.uuid4().hex[:8]}"
    sql = lake.spark.session.sql
    sql(
        f"create table lake.{NAMESPACE}.{name} (part int, id bigint) using iceberg "
        f"partitioned by (part) tblproperties ('format-version'='{version}', "
        f"'write.delete.mode'='{mode}')"
    )
    for start in (0, 2, 4):
        values = ", ".join(f"({part}, {start}), ({part}, {start + 1})" for part in range(groups))
        sql(f"insert into lake.{NAMESPACE}.{name} values {values}")
    return name


def rows(lake: Lake, name: str) -> list[tuple[int, int]]:
    listed = lake.catalog.load_table(f"{NAMESPACE}.{name}").scan().to_arrow().to_pylist()
    return sorted((row["part"], row["id"]) for row in listed)


def files(lake: Lake, name: str) -> Counter[int]:
    """Return how many data files each partition has."""
    tasks = lake.catalog.load_table(f"{NAMESPACE}.{name}").scan().plan_files()
    return Counter(task.file.partition[0] for task in tasks)


ALL = [(part, number) for part in range(2) for number in range(6)]


@pytest.mark.parametrize(
    ("version", "mode", "statement", "expected"),
    [
        pytest.param(
            3, "merge-on-read", "delete from {t} where part = 0 and id = 3",
            [row for row in ALL if row != (0, 3)], id="delete, deletion vector",
        ),
        pytest.param(
            2, "copy-on-write",
            "merge into {t} using (select 0 as part, 3 as id union all select 0, 9) as s "
            "on {t}.part = s.part and {t}.id = s.id when matched then update set id = 33 "
            "when not matched then insert values (s.part, s.id)",
            sorted([*(row for row in ALL if row != (0, 3)), (0, 33), (0, 9)]), id="merge",
            marks=pytest.mark.smoke,
        ),
    ],
)  # fmt: skip
def test_a_writer_that_comes_first_wins_and_only_its_group_is_compacted_again(
    lake: Lake, server: Running, version: int, mode: str, statement: str,
    expected: list[tuple[int, int]],
) -> None:  # fmt: skip
    name = a_table(lake, version=version, mode=mode)

    def write() -> None:
        with lake_client.session(server, NAMESPACE) as session:
            session.answer(statement.format(t=name))

    with held(lake, name, write, at=1) as compaction:
        counts = compaction.compact()
    assert rows(lake, name) == expected
    assert files(lake, name) == {0: 1, 1: 1}
    assert counts["left_data_files_count"] == 0
    # Three files of the one group, and those of the other after the writer's commit.
    assert counts["added_data_files_count"] == 2
    (line,) = compaction.said
    assert "3 files of" in line
    assert "a writer's commit came first; planning them again" in line


def test_a_compaction_that_is_overtaken_each_time_fails_nothing_and_the_next_one_compacts(
    lake: Lake, server: Running
) -> None:
    name = a_table(lake, groups=1)

    def write() -> None:
        with lake_client.session(server, NAMESPACE) as session:
            session.answer(f"update {name} set id = id + 10 where id >= 4")

    with held(lake, name, write, at=maintenance.TRIES_MAX) as compaction:
        counts = compaction.compact()
        assert counts["rewritten_data_files_count"] == 0
        assert counts["left_data_files_count"] == 3
        assert len(compaction.said) == maintenance.TRIES_MAX
        expected = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 44), (0, 45)]
        assert rows(lake, name) == expected
        done = compaction.compact()
    assert (done["rewritten_data_files_count"], done["left_data_files_count"]) == (3, 0)
    assert rows(lake, name) == expected
    assert files(lake, name) == {0: 1}


def test_manifests_are_rewritten_though_a_writer_has_replaced_some_of_them(
    lake: Lake, server: Running
) -> None:
    name = a_table(lake)

    def write() -> None:
        with lake_client.session(server, NAMESPACE) as session:
            session.answer(f"delete from {name} where part = 0 and id = 3")

    with held(lake, name, write, at=1) as door:
        counts = maintenance.rewrite_manifests(door.table, open_spark=door.open_spark)
    assert rows(lake, name) == [row for row in ALL if row != (0, 3)]
    manifests = lake.catalog.load_table(f"{NAMESPACE}.{name}").inspect.manifests()
    assert len(manifests) == counts["added_manifests_count"] == 1


def test_statistics_of_a_snapshot_are_stored_beside_a_writers_newer_one(
    lake: Lake, server: Running
) -> None:
    name = a_table(lake)
    before = lake.catalog.load_table(f"{NAMESPACE}.{name}").metadata.current_snapshot_id

    def write() -> None:
        with lake_client.session(server, NAMESPACE) as session:
            session.answer(f"insert into {name} values (0, 6)")

    with held(lake, name, write, at=1) as door:
        maintenance.compute_statistics(door.table, open_spark=door.open_spark)
    assert rows(lake, name) == sorted([*ALL, (0, 6)])
    metadata = lake.catalog.load_table(f"{NAMESPACE}.{name}").metadata
    assert [each.snapshot_id for each in metadata.statistics] == [before]
    assert metadata.current_snapshot_id != before


def test_an_expiry_keeps_a_writers_commit_and_every_row_of_it(lake: Lake, server: Running) -> None:
    name = a_table(lake)

    def write() -> None:
        with lake_client.session(server, NAMESPACE) as session:
            session.answer(f"delete from {name} where part = 0 and id = 3")

    now = datetime.datetime.now(datetime.UTC)
    with held(lake, name, write, at=1) as door:
        done, _ = expiry.run(door.table, older_than=now, retain_last=1, open_spark=door.open_spark)
    assert done.expired_snapshots >= 2
    assert rows(lake, name) == [row for row in ALL if row != (0, 3)]
    metadata = lake.catalog.load_table(f"{NAMESPACE}.{name}").metadata
    assert metadata.current_snapshot_id in {each.snapshot_id for each in metadata.snapshots}


def test_a_file_that_cannot_be_read_fails_the_compaction_with_its_reason(lake: Lake) -> None:
    name = a_table(lake, groups=2)
    s3, catalog = sources.client(lake.server), lake.catalog
    table = catalog.load_table(f"{NAMESPACE}.{name}")
    uri = f"{table.location()}/data/absent-{uuid.uuid4().hex}.parquet"
    absent = handwritten.File(
        uri=uri, content=handwritten.DATA, rows=1, size_bytes=900, partition={"part": 1}
    )
    field = {"name": "part", "field-id": 1000, "type": ["null", "int"], "default": None}
    handwritten.commit(s3, catalog, table, [absent], (field,))
    with (
        held(lake, name, lambda: None, at=0) as compaction,
        pytest.raises(errors.SparkJobFailed, match="key does not exist"),
    ):
        compaction.compact()
    # What could be compacted is: the other partition.
    assert files(lake, name) == {0: 1, 1: 4}


def test_a_job_waits_no_longer_for_writers_than_its_bound_whatever_the_table_says(
    lake: Lake, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = a_table(lake)
    hours = {"commit.retry.min-wait-ms": "7200000", "commit.retry.max-wait-ms": "7200000"}
    with lake.catalog.load_table(f"{NAMESPACE}.{name}").transaction() as transaction:
        transaction.set_properties(hours)
    monkeypatch.setattr(retries, "WAIT_SECONDS_MAX", 2.0)
    monkeypatch.setattr(retries, "LOOK_SECONDS", 0.2)

    def write() -> None:
        with lake_client.session(server, NAMESPACE) as session:
            session.answer(f"delete from {name} where part = 0 and id = 3")

    with held(lake, name, write, at=1) as door:
        with pytest.raises(errors.PipelineError, match="a job waits 2 seconds at most") as refusal:
            maintenance.rewrite_manifests(door.table, open_spark=door.open_spark)
        # Nothing is left behind: the same session does it when no writer comes first.
        counts = maintenance.rewrite_manifests(door.table, open_spark=door.open_spark)
    assert "let a commit wait for 2 hours where another client's comes first" in str(refusal.value)
    assert counts["added_manifests_count"] == 1
    assert rows(lake, name) == [row for row in ALL if row != (0, 3)]


def test_the_rounds_of_a_compaction_together_wait_no_longer_than_the_bound(
    lake: Lake, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = a_table(lake, groups=1)
    a_second = {"commit.retry.min-wait-ms": "1000", "commit.retry.max-wait-ms": "1000"}
    with lake.catalog.load_table(f"{NAMESPACE}.{name}").transaction() as transaction:
        transaction.set_properties(a_second)
    monkeypatch.setattr(retries, "WAIT_SECONDS_MAX", 2.5)
    monkeypatch.setattr(retries, "LOOK_SECONDS", 0.2)

    def write() -> None:
        with lake_client.session(server, NAMESPACE) as session:
            session.answer(f"update {name} set id = id + 10 where id >= 4")

    # One pause of a second in each of four rounds: that of the third, or of the fourth, is ended.
    with (
        held(lake, name, write, at=maintenance.TRIES_MAX) as compaction,
        pytest.raises(errors.PipelineError, match="let 44 commits wait for 3 minutes"),
    ):
        compaction.compact()
    assert 1 <= len(compaction.said) < maintenance.TRIES_MAX
    assert [row for row in rows(lake, name) if row[1] < 4] == [(0, number) for number in range(4)]


def test_a_load_waits_no_longer_for_writers_than_its_bound_and_the_next_one_loads(
    lake: Lake, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = f"held{uuid.uuid4().hex[:8]}"
    sources.client(lake.server, "s3tables").create_table_bucket(name=bucket)
    catalog = catalogs.opened(lake.server, bucket)
    monkeypatch.setattr(retries, "WAIT_SECONDS_MAX", 2.0)
    monkeypatch.setattr(retries, "LOOK_SECONDS", 0.2)

    def load(engine: settings.Engine) -> jobs.Loaded:
        wanted = a_load(f"{bucket}.a.t", place=raw.place("in/"), engine=engine)
        return ingest.run(
            lake.server, wanted, say=lake.said.append,
            open_spark=lambda _: contextlib.nullcontext(lake.spark),
        )  # fmt: skip

    def ids() -> list[int]:
        return sorted(catalog.load_table("a.t").scan().to_arrow()["id"].to_pylist())

    raw.put("in/1.csv", "id\n1\n")
    load("arrow")
    hours = {"commit.retry.min-wait-ms": "7200000", "commit.retry.max-wait-ms": "7200000"}
    with catalog.load_table("a.t").transaction() as transaction:
        transaction.set_properties(hours)
    raw.put("in/2.csv", "id\n2\n")
    commits = itertools.count(1)

    def before(method: str, path: str) -> bool:
        if method == "POST" and path.endswith("/tables/t") and next(commits) == 1:
            table = catalog.load_table("a.t")
            table.append(table.scan(limit=1).to_arrow())
        return False

    with wire.door(lake.server.url, before=before) as door:
        server = dataclasses.replace(lake.server, url=door.url)
        for key, value in settings.catalog_settings(server, bucket).items():
            lake.spark.session.conf.set(key, value)
        with pytest.raises(errors.PipelineError, match="a job waits 2 seconds at most"):
            load("spark")
        assert ids() == [1, 1]
        assert load("spark").rows == 1
        lake.spark.catalog(bucket).close()
    assert ids() == [1, 1, 2]


# Expected: the pauses of Iceberg's exponential back-off, of which a tenth may be added by chance.
@pytest.mark.parametrize(
    ("properties", "seconds"),
    [
        ({}, 1.1 * (0.1 + 0.2 + 0.4 + 0.8)),
        ({"commit.retry.num-retries": "0"}, 0),
        ({"commit.retry.num-retries": "x"}, 1.65),
        ({"commit.retry.min-wait-ms": "7200000"}, 1.1 * 4 * 60),
        ({"commit.retry.total-timeout-ms": "250"}, 1.1 * (0.1 + 0.2)),
        # To a minute in ten pauses, then a minute each until half an hour is over.
        ({"commit.retry.num-retries": "1000000000"}, 1.1 * (102.3 + 29 * 60)),
    ],
)
def test_the_pauses_of_a_commit_are_known_from_the_tables_properties(
    properties: dict[str, str], seconds: float
) -> None:
    assert retries.longest_seconds(properties) == pytest.approx(seconds)
