"""Compact and expire change files and snapshots, never rows, and never what was taken in."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import time
import urllib.request
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import schema, types

from pipeline import errors, expiry, maintenance, previews, progress, settings, sources
from tests.kit import examples, waits
from tests.pipeline import handwritten
from tests.pipeline.lake import Lake, Raw, Watched

pytestmark = pytest.mark.spark

ALL = [(number % 4, 3 - number // 4) for number in range(16)]


def interleaved(a: int, b: int) -> tuple[int, ...]:
    return (a >> 1, b >> 1, a & 1, b & 1)


@pytest.mark.smoke
def test_compact_and_expire_keep_every_row_and_a_further_ingest_loads_nothing(
    lake: Lake, raw: Raw, watched: dict[str, Watched]
) -> None:
    for number in range(3):
        raw.put(f"in/{number}.csv", f"id\n{number}\n")
        assert lake.ingest(raw, "kept.t").rows == 1
    rows, taken = lake.rows("kept.t"), lake.taken("kept.t")
    assert [row["id"] for row in rows] == [0, 1, 2]
    reader = lake.catalog.load_table("kept.t")
    sizes = [task.file.file_size_in_bytes for task in reader.scan().plan_files()]
    table = settings.parse_table("lake.kept.t")

    compacted = maintenance.compact(
        table, target_file_size_mib=64, min_input_files=2, open_spark=lake.open_spark, say=print
    )
    assert compacted["rewritten_data_files_count"] == 3
    assert compacted["added_data_files_count"] == 1
    size = f"{sum(sizes) / 1000:.1f} kB"
    shown = watched[f"compacting 3 files of {size}"]
    assert (shown.counts.rows, shown.total_rows) == (3, 3)
    loaded = lake.catalog.load_table("kept.t")
    assert [len(list(loaded.scan().plan_files())), len(loaded.metadata.snapshots)] == [1, 4]
    assert (lake.rows("kept.t"), lake.taken("kept.t")) == (rows, taken)

    expired, counts = expiry.run(
        table,
        older_than=datetime.datetime.now(datetime.UTC),
        retain_last=1,
        open_spark=lake.open_spark,
    )
    assert counts["deleted_data_files_count"] == expired.files == 3
    assert "expiring 3 snapshots" in watched
    loaded = lake.catalog.load_table("kept.t")
    assert [one.snapshot_id for one in loaded.metadata.snapshots] == [
        loaded.metadata.current_snapshot_id
    ]
    assert loaded.current_snapshot().summary["operation"].value == "replace"
    assert "boathouse.loads" not in loaded.current_snapshot().summary.additional_properties
    assert (lake.rows("kept.t"), lake.taken("kept.t")) == (rows, taken)
    assert len(lake.data_files("kept.t")) == 1
    # A reader that has loaded the table before still reads all of its snapshots.
    sweep(lake)
    readable = [reader.scan(snapshot_id=each.snapshot_id) for each in reader.snapshots()]
    ids = [sorted(scan.to_arrow()["id"].to_pylist()) for scan in readable]
    assert ids == [[0], [0, 1], [0, 1, 2]]

    before = lake.state("kept.t")
    done = lake.ingest(raw, "kept.t")
    assert (done.rows, done.skipped, done.snapshot_id) == (0, 3, None)
    assert lake.state("kept.t") == before


def test_expire_by_default_keeps_what_is_young(lake: Lake, raw: Raw) -> None:
    for number in range(2):
        raw.put(f"in/{number}.csv", f"id\n{number}\n")
        lake.ingest(raw, "young.t")
    before = lake.state("young.t")
    table = settings.parse_table("lake.young.t")
    done, counts = expiry.run(table, older_than=None, retain_last=None, open_spark=lake.open_spark)
    assert set(counts.values()) == {0}
    assert done.sentence == "expired nothing; 2 snapshots stay"
    assert lake.state("young.t") == before


def test_maintenance_of_a_table_that_is_not_there_names_it(lake: Lake) -> None:
    table = settings.parse_table("lake.absent.t")
    with pytest.raises(errors.SparkFailed, match=r"absent.*t"):
        maintenance.compact(
            table,
            target_file_size_mib=None,
            min_input_files=None,
            open_spark=lake.open_spark,
            say=print,
        )
    with pytest.raises(errors.SparkFailed, match=r"absent.*t"):
        expiry.run(table, older_than=None, retain_last=2, open_spark=lake.open_spark)


def test_names_with_capitals_and_dashes_reach_the_procedures(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n")
    lake.ingest(raw, "odd_names.t-1")
    table = settings.parse_table("lake.odd_names.t-1")
    counts = maintenance.compact(
        table,
        target_file_size_mib=None,
        min_input_files=None,
        open_spark=lake.open_spark,
        say=print,
    )
    assert counts["rewritten_data_files_count"] == 0


def a_sortable_table(lake: Lake, name: str, order: str) -> settings.TargetTable:
    """Return a table of 16 rows in four files, in which a and b run against each other."""
    lake.catalog.create_namespace_if_not_exists("ordered")
    sql = lake.spark.session.sql
    sql(f"create table lake.ordered.{name} (id bigint, a int, b int) using iceberg")
    if order:
        sql(f"alter table lake.ordered.{name} write ordered by {order}")
    for start in range(4):
        rows = ", ".join(f"({each}, {each % 4}, {3 - each // 4})" for each in range(start, 16, 4))
        sql(f"insert into lake.ordered.{name} values {rows}")
    return settings.parse_table(f"lake.ordered.{name}")


def stored_order(lake: Lake, name: str) -> list[tuple[int, int]]:
    """Return a and b of the rows of the table's one file, in their order there."""
    table = lake.catalog.load_table(f"ordered.{name}")
    (task,) = table.scan().plan_files()
    with table.io.new_input(task.file.file_path).open() as stream:
        rows = pq.read_table(pa.BufferReader(stream.read())).to_pylist()
    return [(row["a"], row["b"]) for row in rows]


@pytest.mark.parametrize(
    ("strategy", "order", "expected"),
    [
        ("auto", "a, b desc", sorted(ALL, key=lambda each: (each[0], -each[1]))),
        pytest.param(
            "sort", "b, a", sorted(ALL, key=lambda each: (each[1], each[0])), marks=pytest.mark.long
        ),
        # Along the curve the bits of a and b take turns, the highest first.
        ("z-order", "a, b", sorted(ALL, key=lambda each: interleaved(*each))),
    ],
)
def test_compaction_arranges_rows_as_its_strategy_says(
    lake: Lake, strategy: maintenance.Strategy, order: str, expected: list[tuple[int, int]]
) -> None:
    name = f"t_{strategy.replace('-', '_')}"
    table = a_sortable_table(lake, name, order)
    counts = maintenance.compact(
        table,
        target_file_size_mib=64,
        min_input_files=2,
        strategy=strategy,
        open_spark=lake.open_spark,
        say=print,
    )
    assert counts["added_data_files_count"] == 1
    assert stored_order(lake, name) == expected


def test_binpack_leaves_rows_in_the_order_of_their_files_and_auto_is_binpack_without_an_order(
    lake: Lake,
) -> None:
    table = a_sortable_table(lake, "t_unordered", "")
    counts = maintenance.compact(
        table, target_file_size_mib=64, min_input_files=2, open_spark=lake.open_spark, say=print
    )
    assert counts["added_data_files_count"] == 1
    assert sorted(stored_order(lake, "t_unordered")) == sorted(ALL)


@pytest.mark.parametrize("strategy", examples.short(["sort", "z-order"], "z-order"))
def test_sorting_a_table_without_a_sort_order_is_refused_and_changes_nothing(
    lake: Lake, strategy: maintenance.Strategy
) -> None:
    name = f"t_no_{strategy.replace('-', '_')}"
    table = a_sortable_table(lake, name, "")
    before = lake.state(f"ordered.{name}")
    with pytest.raises(errors.BadArgument, match="has none"):
        maintenance.compact(
            table,
            target_file_size_mib=None,
            min_input_files=2,
            strategy=strategy,
            open_spark=lake.open_spark,
            say=print,
        )
    assert lake.state(f"ordered.{name}") == before


def test_a_compaction_copies_no_row_of_a_file_that_another_table_owns(lake: Lake) -> None:
    """A writer may name any file in a manifest; the keys of its table do not open it."""
    catalog, s3 = lake.catalog, sources.client(lake.server)
    catalog.create_namespace("deputy")
    columns = schema.Schema(
        types.NestedField(1, "id", types.LongType()),
        types.NestedField(2, "name", types.StringType()),
    )
    victim, mine = [catalog.create_table(f"deputy.{name}", columns) for name in ("victim", "mine")]

    def put(table: Any, number: int, name: str) -> handwritten.File:
        written = (handwritten.LONG, handwritten.TEXT)
        return handwritten.put(s3, table, written, [(number, name)], content=handwritten.DATA)

    secret = put(victim, 7, "secret")
    handwritten.commit(s3, catalog, victim, [secret])
    handwritten.commit(s3, catalog, mine, [put(mine, 1, "a"), put(mine, 2, "b"), secret])
    before = catalog.load_table("deputy.mine").metadata_location
    with pytest.raises(errors.SparkJobFailed, match=r"Access Denied|Forbidden|403"):
        maintenance.compact(
            settings.parse_table("lake.deputy.mine"),
            target_file_size_mib=64,
            min_input_files=2,
            open_spark=lake.open_spark,
            say=print,
        )
    assert catalog.load_table("deputy.mine").metadata_location == before
    assert lake.rows("deputy.victim") == [{"id": 7, "name": "secret"}]


def test_previews_say_what_then_happens_and_change_nothing(lake: Lake) -> None:
    table = a_sortable_table(lake, "t_previewed", "a")
    lake.spark.session.sql(
        "alter table lake.ordered.t_previewed set tblproperties "
        "('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    lake.spark.session.sql("delete from lake.ordered.t_previewed where id = 8")
    before = lake.state("ordered.t_previewed")
    sizes = [task.file.file_size_in_bytes for task in scanned(lake, "t_previewed")]
    options = {"target_file_size_mib": 64, "min_input_files": 2, "open_spark": lake.open_spark}

    preview = previews.compaction(table, strategy="auto", **options)
    assert preview == previews.CompactionPreview(
        strategy="sort",
        rewritten_files=4,
        rewritten_bytes=sum(sizes),
        added_files=1,
        delete_files=1,
        file_groups=1,
    )
    size = f"{sum(sizes) / 1000:.1f} kB"
    assert preview.sentence.startswith(f"would rewrite 4 files of {size} and 1 delete file into")
    now = datetime.datetime.now(datetime.UTC)
    plan = expiry.planned(table, older_than=now, retain_last=1, open_spark=lake.open_spark)
    assert (plan.expired_snapshots, plan.kept_snapshots) == (4, 1)
    assert (plan.files, plan.size_bytes, plan.manifest_lists) == (0, 0, 4)
    assert lake.state("ordered.t_previewed") == before

    maintenance.compact(table, **options, say=print)
    after = lake.state("ordered.t_previewed")
    deletes = [one["file_size_in_bytes"] for one in delete_files(lake, "t_previewed")]
    now = datetime.datetime.now(datetime.UTC)
    plan = expiry.planned(table, older_than=now, retain_last=1, open_spark=lake.open_spark)
    assert (plan.files, plan.size_bytes) == (5, sum(sizes) + sum(deletes))
    assert lake.state("ordered.t_previewed") == after
    objects = lake.metadata_files("ordered.t_previewed")
    done, counts = expiry.run(table, older_than=now, retain_last=1, open_spark=lake.open_spark)
    freed = ("deleted_data_files_count", "deleted_position_delete_files_count")
    assert sum(counts[name] for name in freed) == 5
    # The expiry counts what it was planned to, and each is gone.
    assert dataclasses.replace(done, is_done=False) == plan
    size = f"{(sum(sizes) + sum(deletes)) / 1000:.1f} kB"
    lists = plan.expired_snapshots
    assert done.sentence == (
        f"expired {lists} snapshots and kept 1; 5 files of {size}, {plan.manifests} manifests and "
        f"{lists} manifest lists are no longer referenced"
    )
    assert plan.sentence == (
        f"would expire {lists} snapshots and keep 1; 5 files of {size}, {plan.manifests} manifests "
        f"and {lists} manifest lists would be no longer referenced"
    )
    gone = objects - lake.metadata_files("ordered.t_previewed")
    assert len([path for path in gone if path.endswith(".avro")]) == plan.manifests + lists
    done = previews.compaction(table, strategy="auto", **options)
    assert (done.rewritten_files, done.sentence[:21]) == (0, "would rewrite nothing")
    nothing = expiry.planned(table, older_than=now, retain_last=1, open_spark=lake.open_spark)
    assert (nothing.expired_snapshots, nothing.files) == (0, 0)
    assert nothing.sentence == "would expire nothing; 1 snapshot stays"


def test_a_preview_of_a_table_without_a_snapshot_says_that_nothing_would_happen(lake: Lake) -> None:
    lake.catalog.create_namespace_if_not_exists("ordered")
    lake.spark.session.sql("create table lake.ordered.t_empty (id bigint) using iceberg")
    table = settings.parse_table("lake.ordered.t_empty")
    preview = previews.compaction(
        table,
        target_file_size_mib=None,
        min_input_files=None,
        strategy="auto",
        open_spark=lake.open_spark,
    )
    assert (preview.rewritten_files, preview.strategy) == (0, "binpack")
    plan = expiry.planned(table, older_than=None, retain_last=None, open_spark=lake.open_spark)
    assert (plan.expired_snapshots, plan.kept_snapshots) == (0, 0)


def sweep(lake: Lake) -> None:
    """Let the server free what no table references, and wait until it has."""
    pair = f"{lake.server.access_key}:{lake.server.secret_key}".encode()
    headers = {"Authorization": "Basic " + base64.b64encode(pair).decode()}

    def ask(method: str) -> Any:
        url = f"{lake.server.url}/_api/v1/warehouses/lake/sweep"
        request = urllib.request.Request(url, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    began = ask("POST")
    deadline = time.monotonic() + waits.WAIT_SECONDS
    while ask("GET")["state"] in {"waiting", "running"}:
        assert time.monotonic() < deadline, began
        time.sleep(0.05)


def scanned(lake: Lake, name: str) -> list[Any]:
    return list(lake.catalog.load_table(f"ordered.{name}").scan().plan_files())


def delete_files(lake: Lake, name: str) -> list[dict[str, Any]]:
    """Return the delete files of every snapshot of a table."""
    table = lake.catalog.load_table(f"ordered.{name}")
    files = [
        row
        for snapshot in table.metadata.snapshots
        for row in table.inspect.delete_files(snapshot.snapshot_id).to_pylist()
    ]
    return list({row["file_path"]: row for row in files}.values())


def test_manifests_are_rewritten_into_one_and_rows_stay(lake: Lake) -> None:
    table = a_sortable_table(lake, "t_manifests", "")
    rows = lake.rows("ordered.t_manifests")
    preview = previews.manifests(table, open_spark=lake.open_spark)
    assert (preview.rewritten_manifests, preview.added_manifests) == (4, 1)
    size = progress.sized(preview.rewritten_bytes)
    assert preview.sentence.startswith(f"would rewrite 4 manifests of {size} into about 1")
    assert 4_000 < preview.rewritten_bytes < 400_000
    assert len(lake.catalog.load_table("ordered.t_manifests").metadata.snapshots) == 4
    counts = maintenance.rewrite_manifests(table, open_spark=lake.open_spark)
    assert (counts["rewritten_manifests_count"], counts["added_manifests_count"]) == (4, 1)
    loaded = lake.catalog.load_table("ordered.t_manifests")
    assert len(loaded.current_snapshot().manifests(loaded.io)) == 1
    assert lake.rows("ordered.t_manifests") == rows
    preview = previews.manifests(table, open_spark=lake.open_spark)
    assert (preview.rewritten_manifests, preview.sentence[:21]) == (0, "would rewrite nothing")


def test_statistics_are_sketches_of_the_current_snapshot(lake: Lake) -> None:
    table = a_sortable_table(lake, "t_statistics", "")
    preview = previews.statistics(table, open_spark=lake.open_spark)
    assert (preview.columns, preview.is_stored) == (("id", "a", "b"), False)
    assert lake.catalog.load_table("ordered.t_statistics").metadata.statistics == []
    stored = maintenance.compute_statistics(table, columns=("id", "a"), open_spark=lake.open_spark)
    loaded = lake.catalog.load_table("ordered.t_statistics")
    (statistics,) = loaded.metadata.statistics
    assert statistics.statistics_path == stored["statistics_file"]
    assert statistics.snapshot_id == loaded.metadata.current_snapshot_id
    # Their counts are exact for few values: sixteen ids, four of a.
    distinct = {tuple(blob.fields): blob.properties["ndv"] for blob in statistics.blob_metadata}
    assert distinct == {(1,): "16", (2,): "4"}
    preview = previews.statistics(table, columns=("id",), open_spark=lake.open_spark)
    assert preview.sentence == (
        f"would compute statistics of 1 column of snapshot {statistics.snapshot_id}, "
        "in place of those that it has,"
    )
    with pytest.raises(errors.BadArgument, match="nowhere"):
        previews.statistics(table, columns=("nowhere",), open_spark=lake.open_spark)
    with pytest.raises(errors.SparkFailed, match="nowhere"):
        maintenance.compute_statistics(table, columns=("nowhere",), open_spark=lake.open_spark)
    with pytest.raises(errors.BadArgument, match="no name"):
        maintenance.compute_statistics(table, columns=("a') --",), open_spark=lake.open_spark)
