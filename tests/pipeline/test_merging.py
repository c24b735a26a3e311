"""`ingest --mode merge`: rows of the sources take the place of the rows with the same key.

What a user sees of a merge is tried with both engines.
"""

from __future__ import annotations

import datetime
import types
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import manifest, typedef
from pyiceberg.io import pyarrow as iceberg_arrow
from pyiceberg.table import snapshots, update

from pipeline import arrow, arrowmerging, errors, jobs, merging, settings, steps
from tests.kit import lake_client
from tests.kit import server as server_kit
from tests.pipeline.lake import Lake, Raw, Small, Watched

BY_ID = jobs.Merge(key=("id",))
NEWEST = jobs.Merge(key=("id",), order_by="at", delete_flag="gone")


@pytest.fixture(
    params=[pytest.param("spark", marks=(pytest.mark.spark, pytest.mark.smoke)), "arrow"]
)
def either(request: pytest.FixtureRequest) -> Lake | Small:
    """The warehouse, whose loads are done by one of the engines."""
    chosen: Lake | Small = request.getfixturevalue("lake" if request.param == "spark" else "small")
    return chosen


spark_in_test_long = pytest.mark.parametrize(
    "either",
    [pytest.param("spark", marks=(pytest.mark.spark, pytest.mark.long)), "arrow"],
    indirect=True,
)
"""For what a case of `test_arrow.py` compares, which both engines merge."""

spark_in_test_all = pytest.mark.parametrize(
    "either",
    [pytest.param("spark", marks=pytest.mark.spark), "arrow"],
    indirect=True,
)
"""For what differs by engine in little but the write that each test of a merge has."""


def table_name(either: Lake | Small, name: str) -> str:
    """Return a table's name of the engine's own."""
    return f"{'merge' if isinstance(either, Lake) else 'merge_small'}.{name}"


def merged(
    lake: Lake | Small, raw: Raw, table: str, merge: jobs.Merge, **changes: Any
) -> jobs.Loaded:
    return lake.ingest(raw, table, mode="merge", merge=merge, **changes)


def test_a_merge_changes_rows_with_the_same_key_and_adds_the_others(
    either: Lake | Small, raw: Raw
) -> None:
    table = table_name(either, "changed")
    by_month = settings.parse_partitions("month(day)")
    raw.put("in/1.csv", "id,day,name\n1,2026-01-09,a\n2,2026-02-09,b\n3,2026-02-10,c\n")
    first = merged(either, raw, table, BY_ID, partitions=by_month)
    assert first.merged == jobs.MergeCounts(inserted=3, updated=0, deleted=0)
    january = [path for path in either.data_files(table) if "2026-01" in path]

    # The row of id 3 moves to another partition; January's file is not touched.
    raw.put("in/2.csv", "id,day,name,more\n3,2026-03-01,C,x\n4,2026-02-11,d,y\n")
    second = merged(either, raw, table, BY_ID, partitions=by_month)
    assert second.merged == jobs.MergeCounts(inserted=1, updated=1, deleted=0)
    assert (second.rows, second.columns_added) == (2, ("more",))
    day = datetime.date
    assert either.rows(table) == [
        {"id": 1, "day": day(2026, 1, 9), "name": "a", "more": None},
        {"id": 2, "day": day(2026, 2, 9), "name": "b", "more": None},
        {"id": 3, "day": day(2026, 3, 1), "name": "C", "more": "x"},
        {"id": 4, "day": day(2026, 2, 11), "name": "d", "more": "y"},
    ]
    loaded = either.catalog.load_table(table)
    live = {task.file.file_path for task in loaded.scan().plan_files()}
    assert {f"s3://lake/{path}" for path in january} <= live
    assert loaded.current_snapshot().summary.operation.value == "overwrite"

    # Each source once: a repeated run finds nothing to load.
    assert merged(either, raw, table, BY_ID).snapshot_id is None


@pytest.mark.spark
def test_a_merge_shows_the_bytes_of_its_sources_alone_and_the_rows_of_what_it_writes(
    lake: Lake, raw: Raw, watched: dict[str, Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw.put("in/1.csv", "id,name\n" + "".join(f"{number},old\n" for number in range(500)))
    raw.put("in/2.csv", "id,name\n" + "".join(f"{number},old\n" for number in range(500, 700)))
    lake.ingest(raw, "shown.t")
    # Only Spark tells the types of a file with such a quote.
    source = 'id,name,gone\n1,ne"w,0\n2,,1\n900,new,0\n'
    raw.put("in/3.csv", source)
    # Imported here: it is only there once Spark's half is installed.
    from py4j import java_gateway

    watched.clear()
    # Each command to the JVM takes a second of a clock that otherwise stands.
    clock = [0.0]
    send_command = java_gateway.GatewayClient.send_command

    def counted(*arguments: Any, **options: Any) -> Any:
        clock[0] += 1.0
        return send_command(*arguments, **options)

    monkeypatch.setattr(java_gateway.GatewayClient, "send_command", counted)
    monkeypatch.setattr(steps, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    done = merged(lake, raw, "shown.t", jobs.Merge(key=("id",), delete_flag="gone"))
    assert done.merged == jobs.MergeCounts(inserted=1, updated=1, deleted=1)
    assert list(watched) == [
        "looking through 1 object", "inferring types of 1 object", "reading 1 object",
        "comparing rows with lake.shown.t", "writing 1 object",
    ]  # fmt: skip
    for label in list(watched)[:3]:
        read = watched[label]
        assert (read.counts.rows, read.counts.read_bytes) == (None, len(source))
        assert (read.total_bytes, read.total_rows) == (len(source), None)
    # Only a file that holds a changed row is written again.
    files = lake.catalog.load_table("shown.t").inspect.files()["record_count"].to_pylist()
    assert sum(files) == 700
    writing = watched["writing 1 object"]
    assert (writing.total_bytes, writing.counts.rows) == (None, writing.total_rows)
    assert writing.total_rows == (500 if len(files) > 1 else 700)
    names = [step.name for step in done.steps]
    assert names == [
        "list sources", "start Spark", "open table", "inspect", "read", "merge", "write", "commit",
    ]  # fmt: skip
    assert clock[0] > 100
    assert sum(step.seconds for step in done.steps) >= 0.9 * clock[0]


@spark_in_test_long
def test_the_newest_row_of_a_key_wins_and_a_flag_removes_it(either: Lake | Small, raw: Raw) -> None:
    table = table_name(either, "newest")
    raw.put(
        "in/1.csv",
        "id,at,gone,v\n1,5,false,new\n1,4,false,old\n2,1,false,b\n3,1,false,c\n4,1,true,never\n",
    )
    assert merged(either, raw, table, NEWEST).merged == jobs.MergeCounts(
        inserted=3, updated=0, deleted=0
    )
    raw.put("in/2.csv", "id,at,gone,v\n1,3,true,late\n2,2,true,\n3,1,false,C\n9,1,true,none\n")
    assert merged(either, raw, table, NEWEST).merged == jobs.MergeCounts(
        inserted=0, updated=1, deleted=1
    )
    assert either.rows(table) == [{"id": 1, "at": 5, "v": "new"}, {"id": 3, "at": 1, "v": "C"}]
    assert len(either.taken(table)) == 2


@spark_in_test_all
def test_a_column_that_the_sources_lack_keeps_its_value(either: Lake | Small, raw: Raw) -> None:
    table = table_name(either, "partial")
    raw.put("in/1.csv", "id,name,score\n1,a,1.5\n2,b,2.5\n")
    either.ingest(raw, table)
    raw.put("in/2.csv", "ID,score\n2,9\n3,3\n")
    merged(either, raw, table, BY_ID)
    assert either.rows(table) == [
        {"id": 1, "name": "a", "score": 1.5},
        {"id": 2, "name": "b", "score": 9.0},
        {"id": 3, "name": None, "score": 3.0},
    ]


@spark_in_test_all
@pytest.mark.parametrize(
    ("text", "merge", "error", "words"),
    [
        ("id,v\n1,a\n1,b\n", BY_ID, errors.BadSource, "2 different rows with id = 1"),
        ("id,v\n,a\n1,b\n", BY_ID, errors.BadSource, "1 row without a value in the key (id)"),
        ("nr,v\n1,a\n", BY_ID, errors.BadArgument, "--key names 'id'"),
        (
            "id,v\n1,a\n",
            jobs.Merge(key=("id",), delete_flag="v"),
            errors.BadArgument,
            "--delete-flag names 'v', a column of type string",
        ),
    ],
)
def test_a_merge_that_is_not_certain_is_refused(
    either: Lake | Small, raw: Raw, text: str, merge: jobs.Merge, error: type[Exception], words: str
) -> None:
    table = table_name(either, "unsure")
    if not either.catalog.table_exists(table):
        raw.put("before/1.csv", "id,v\n7,z\n")
        either.ingest(raw, table, prefix="before/")
    before = either.state(table)
    raw.put("in/1.csv", text)
    with pytest.raises(error) as raised:
        merged(either, raw, table, merge)
    assert words in str(raised.value)
    assert either.state(table) == before


@spark_in_test_long
def test_equal_rows_of_a_key_are_one(either: Lake | Small, raw: Raw) -> None:
    table = table_name(either, "equal")
    raw.put("in/1.csv", "id,v\n1,a\n1,a\n")
    assert merged(either, raw, table, BY_ID).rows == 1


@spark_in_test_all
def test_a_commit_between_reading_and_writing_makes_the_merge_start_again(
    either: Lake | Small, raw: Raw
) -> None:
    table = table_name(either, "raced")
    raw.put("in/1.csv", "id,v\n1,a\n")
    either.ingest(raw, table)
    raw.put("in/2.csv", "id,v\n1,b\n2,b\n")
    raw.put("other/3.csv", "id,v\n2,c\n")
    said: list[str] = []

    def say(sentence: str) -> None:
        said.append(sentence)
        if sentence.startswith("committing") and not either.rows(table)[1:]:
            either.ingest(raw, table, prefix="other/")

    done = merged(either, raw, table, BY_ID, say=say)
    assert done.merged == jobs.MergeCounts(inserted=0, updated=2, deleted=0)
    assert either.rows(table) == [{"id": 1, "v": "b"}, {"id": 2, "v": "b"}]
    assert any("another client has just changed" in sentence for sentence in said)


def test_a_small_merge_of_new_rows_alone_does_not_follow_a_commit_with_their_keys(
    small: Small, raw: Raw
) -> None:
    raw.put("in/1.csv", "id,v\n1,a\n")
    small.ingest(raw, "raced_new.t")
    raw.put("in/2.csv", "id,v\n2,b\n")
    raw.put("other/3.csv", "id,v\n2,c\n")

    def say(sentence: str) -> None:
        if sentence.startswith("committing") and not small.rows("raced_new.t")[1:]:
            small.ingest(raw, "raced_new.t", prefix="other/")

    done = merged(small, raw, "raced_new.t", BY_ID, say=say)
    assert done.merged == jobs.MergeCounts(inserted=0, updated=1, deleted=0)
    assert small.rows("raced_new.t") == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]


BOUNDS = {
    "TABLE_FILES_MAX": (arrowmerging, "a table of more than 1 data files"),
    "FILES_MAX": (arrowmerging, "a search of 2 data files"),
    "ROWS_MAX": (arrowmerging, "a search of more than 2 rows"),
    "SOURCE_BYTES_MAX": (arrow, "a search of more than 0 MB"),
    "UNPACKED_BYTES_MAX": (arrow, "more than"),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_merge_that_must_search_more_than_the_bounds_goes_to_spark(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    module, reason = BOUNDS[bound]
    table = f"bounds_{bound.lower()}.t"
    for number in (1, 2):
        raw.put("in/1.csv", f"id,v\n{number},a\n{number + 5},b\n")
        small.ingest(raw, table)
    before = small.state(table)
    raw.put("in/1.csv", "id,v\n1,new\n2,new\n")
    value = 100 if "BYTES" in bound else 2 if bound == "ROWS_MAX" else 1
    monkeypatch.setattr(module, bound, value)
    with pytest.raises(errors.BadArgument, match=f"^--engine arrow does not load .*{reason}"):
        merged(small, raw, table, BY_ID)
    with pytest.raises(AssertionError, match="Spark was started"):
        merged(small, raw, table, BY_ID, engine="auto")
    assert small.state(table) == before


def test_a_merge_of_more_rows_than_the_bound_goes_to_spark(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrowmerging, "ROWS_MAX", 2)
    raw.put("in/1.csv", "id,v\n1,a\n2,b\n")
    assert merged(small, raw, "bounds_sources.t", BY_ID).rows == 2
    raw.put("in/1.csv", "id,v\n3,a\n4,b\n5,c\n")
    with pytest.raises(errors.BadArgument, match="does not load a merge of more than 2 rows"):
        merged(small, raw, "bounds_sources.t", BY_ID)


def add_file(table: Any, rows: list[dict[str, Any]], *, has_ids: bool, count: int = 1) -> None:
    """Append a data file with INT96 times. count: of its rows, as the manifest says."""
    schema = iceberg_arrow.schema_to_pyarrow(table.schema(), include_field_ids=has_ids)
    sink = pa.BufferOutputStream()
    content = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(content, sink, use_deprecated_int96_timestamps=True)
    path = f"{table.location()}/data/foreign.parquet"
    with table.io.new_output(path).create() as stream:
        size_bytes = stream.write(bytes(sink.getvalue()))
    file = manifest.DataFile.from_args(
        content=manifest.DataFileContent.DATA, file_path=path, partition=typedef.Record(),
        file_format=manifest.FileFormat.PARQUET, record_count=count, file_size_in_bytes=size_bytes,
    )  # fmt: skip
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)


FOREIGN_FILES = {
    "int96": (
        "id,at\n1,2026-01-09 10:00:00\n",
        True,
        1,
        "a data file with times of the type INT96",
    ),
    "unnamed": (
        "id,v\n1,a\n",
        False,
        1,
        "what PyIceberg does not read .Parquet file does not have field-ids",
    ),
    "miscounted": ("id,v\n1,a\n", True, 7, "a data file with other rows than its manifest says"),
}


@pytest.mark.parametrize("name", FOREIGN_FILES)
def test_a_merge_that_searches_a_file_that_arrow_reads_otherwise_goes_to_spark(
    small: Small, raw: Raw, name: str
) -> None:
    source, has_ids, count, reason = FOREIGN_FILES[name]
    table = f"merge_files.{name}"
    raw.put("in/1.csv", source)
    small.ingest(raw, table)
    # Arrow's nanoseconds make the year 1816 of this.
    last = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
    row = {"id": 2, "at": last} if name == "int96" else {"id": 2, "v": "b"}
    add_file(small.catalog.load_table(table), [row], has_ids=has_ids, count=count)
    before = small.catalog.load_table(table).current_snapshot()
    raw.put("in/2.csv", source.replace("\n1", "\n2"))
    with pytest.raises(errors.BadArgument, match=f"does not load {reason}"):
        merged(small, raw, table, BY_ID)
    assert small.catalog.load_table(table).current_snapshot() == before


def test_a_small_merge_opens_the_data_files_alone_whose_bounds_admit_a_key(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        raw.put("in/1.csv", f"id,v\n{number * 10},a\n{number * 10 + 5},b\n")
        small.ingest(raw, "bounded.t")
    others = small.data_files("bounded.t")
    monkeypatch.setattr(arrowmerging, "FILES_MAX", 1)
    raw.put("in/1.csv", "id,v\n12,new\n15,B\n")
    done = merged(small, raw, "bounded.t", BY_ID)
    assert done.merged == jobs.MergeCounts(inserted=1, updated=1, deleted=0)
    live = [
        task.file.file_path.removeprefix("s3://lake/")
        for task in small.catalog.load_table("bounded.t").scan().plan_files()
    ]
    assert (len(live), len(set(live) & set(others))) == (3, 2)
    assert [row["id"] for row in small.rows("bounded.t")] == [0, 10, 12, 15, 20, 25, 5]


def miscount(small: Small, name: str) -> None:
    """Commit a table's snapshot again, whose summary says that there are no delete files."""
    table = small.catalog.load_table(name)
    last = table.current_snapshot()
    assert last is not None
    assert last.summary is not None
    totals = {**last.summary.additional_properties, "total-delete-files": "0"}
    again = last.model_copy(
        update={
            "snapshot_id": last.snapshot_id + 1,
            "parent_snapshot_id": last.snapshot_id,
            "sequence_number": table.metadata.last_sequence_number + 1,
            "timestamp_ms": table.metadata.last_updated_ms + 1,
            "summary": snapshots.Summary(last.summary.operation, **totals),
        }
    )
    small.catalog.commit_table(
        table,
        (),
        (
            update.AddSnapshotUpdate(snapshot=again),
            update.SetSnapshotRefUpdate(
                ref_name="main", type="branch", snapshot_id=again.snapshot_id
            ),
        ),
    )


def test_a_merge_into_a_table_with_delete_files_or_several_specs_goes_to_spark(
    small: Small, raw: Raw, server: server_kit.Running
) -> None:
    raw.put("in/1.csv", "id,v\n1,a\n2,b\n")
    for name in ("marked", "respecified", "uncounted"):
        small.ingest(raw, f"merge_foreign.{name}")
    with small.catalog.load_table("merge_foreign.respecified").update_spec() as spec:
        spec.add_identity("v")
    with lake_client.session(server) as session:
        for name in ('lake."merge_foreign"."marked"', 'lake."merge_foreign"."uncounted"'):
            session.answer(f"alter table {name} set enable_iceberg_merge_on_read = true")
            session.answer(f'delete from {name} where "id" = 2')
    for name in ("marked", "uncounted"):
        marked = small.catalog.load_table(f"merge_foreign.{name}")
        modes = [name for name in marked.properties if name.startswith("write.")]
        with marked.transaction() as transaction:
            transaction.remove_properties(*modes)
    miscount(small, "merge_foreign.uncounted")
    raw.put("in/2.csv", "id,v\n1,A\n2,B\n")
    reasons = {"marked": "with delete", "uncounted": "with delete", "respecified": "several part"}
    for name, reason in reasons.items():
        with pytest.raises(errors.BadArgument, match=f"does not load a table .*{reason}"):
            merged(small, raw, f"merge_foreign.{name}", BY_ID)


@pytest.mark.spark
def test_a_commit_before_the_transaction_opens_makes_the_merge_start_again(
    lake: Lake, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw.put("in/1.csv", "id,v\n1,a\n")
    lake.ingest(raw, "early.t")
    raw.put("in/2.csv", "id,v\n1,b\n2,b\n")
    raw.put("other/3.csv", "id,v\n2,c\n")
    read = merging.read
    others = ["other/"]

    def read_then_another_commits(spark: Any, target: Any) -> merging.Basis:
        basis = read(spark, target)
        while others:
            lake.ingest(raw, "early.t", prefix=others.pop())
        return basis

    monkeypatch.setattr(merging, "read", read_then_another_commits)
    assert merged(lake, raw, "early.t", BY_ID).merged == jobs.MergeCounts(
        inserted=0, updated=2, deleted=0
    )
    assert lake.rows("early.t") == [{"id": 1, "v": "b"}, {"id": 2, "v": "b"}]


def parquet(rows: list[dict[str, Any]], schema: pa.Schema | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return bytes(sink.getvalue())


@pytest.mark.spark
def test_keys_of_another_type_than_the_tables_are_refused(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", "id,v\n1,a\n")
    lake.ingest(raw, "keyed.t")
    before = lake.state("keyed.t")
    raw.put("texts/2.parquet", parquet([{"id": "01", "v": "b"}]))
    with pytest.raises(errors.PipelineError, match="id: int -> string"):
        merged(lake, raw, "keyed.t", BY_ID, prefix="texts/", format="parquet")
    assert lake.state("keyed.t") == before


@spark_in_test_all
def test_a_delete_flag_that_the_table_has_as_a_column_is_stored(
    either: Lake | Small, raw: Raw
) -> None:
    table = table_name(either, "flagged")
    raw.put("in/1.csv", "id,at,gone,v\n1,1,false,a\n2,1,false,b\n3,1,true,c\n")
    either.ingest(raw, table)
    raw.put("in/2.csv", "id,at,gone,v\n1,2,false,A\n2,2,true,B\n4,2,false,d\n")
    merged(either, raw, table, NEWEST)
    assert either.rows(table) == [
        {"id": 1, "at": 2, "gone": False, "v": "A"},
        {"id": 3, "at": 1, "gone": True, "v": "c"},
        {"id": 4, "at": 2, "gone": False, "v": "d"},
    ]


@spark_in_test_all
def test_rows_that_differ_by_a_microsecond_are_two_rows(either: Lake | Small, raw: Raw) -> None:
    table = table_name(either, "micro")
    raw.put("in/1.csv", "id,t\n1,2026-01-01T00:00:00.000001Z\n1,2026-01-01T00:00:00.000002Z\n")
    with pytest.raises(errors.BadSource, match="2 different rows with id = 1"):
        merged(either, raw, table, BY_ID)


@spark_in_test_all
def test_a_merge_that_changes_no_row_takes_its_sources(either: Lake | Small, raw: Raw) -> None:
    table = table_name(either, "still")
    raw.put("in/1.csv", "id,at,gone,v\n1,5,false,new\n")
    merged(either, raw, table, NEWEST)
    raw.put("in/2.csv", "id,at,gone,v\n1,4,false,old\n9,1,true,\n")
    raw.put("in/3.csv", "id,at,gone,v\n")
    done = merged(either, raw, table, NEWEST)
    assert (done.merged, done.files) == (jobs.MergeCounts(inserted=0, updated=0, deleted=0), 0)
    assert len(either.taken(table)) == 3
    assert either.rows(table) == [{"id": 1, "at": 5, "v": "new"}]


@pytest.mark.spark
def test_fields_inside_lists_and_maps_keep_their_names(lake: Lake, raw: Raw) -> None:
    parts = pa.struct([("sku", pa.string()), ("note", pa.string())])
    turned = pa.struct([("note", pa.string()), ("sku", pa.string())])

    def rows(*numbers: int, inside: pa.StructType) -> bytes:
        part = {"sku": "s", "note": "n"}
        columns = [("id", pa.int64()), ("l", pa.list_(inside)), ("m", pa.map_(pa.string(), inside))]
        values = [{"id": number, "l": [part], "m": [("k", part)]} for number in numbers]
        return parquet(values, pa.schema(columns))

    raw.put("in/1.parquet", rows(1, 2, inside=parts))
    lake.ingest(raw, "inside_maps.t", format="parquet")
    raw.put("in/2.parquet", rows(2, inside=turned))
    merged(lake, raw, "inside_maps.t", BY_ID, format="parquet")
    part = {"sku": "s", "note": "n"}
    assert lake.rows("inside_maps.t") == [
        {"id": number, "l": [part], "m": [("k", part)]} for number in (1, 2)
    ]


def row_ids(lake: Lake, table: str) -> dict[int, tuple[int, int]]:
    """Return `_row_id` and `_last_updated_sequence_number` by id, as Spark reads them."""
    statement = f"select id, _row_id, _last_updated_sequence_number from lake.{table}"
    return {row[0]: (row[1], row[2]) for row in lake.spark.session.sql(statement).collect()}


@pytest.mark.spark
@pytest.mark.parametrize(
    "partitioned",
    [pytest.param("", marks=pytest.mark.long), "partitioned by (bucket(2, id))"],
)
def test_rows_keep_their_ids_in_a_table_of_format_version_3(
    lake: Lake, raw: Raw, partitioned: str
) -> None:
    lake.catalog.create_namespace_if_not_exists("lineage")
    name = f"lineage.t{len(partitioned)}"
    lake.spark.session.sql(
        f"create table lake.{name} (id bigint, name string) using iceberg {partitioned} "
        "tblproperties ('format-version'='3')"
    )
    lake.spark.session.sql(f"insert into lake.{name} values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    before = row_ids(lake, name)
    raw.put("in/1.csv", "id,name,gone\n2,B,false\n3,,true\n5,e,false\n")
    merge = jobs.Merge(key=("id",), delete_flag="gone")
    assert merged(lake, raw, name, merge).merged == jobs.MergeCounts(
        inserted=1, updated=1, deleted=1
    )
    assert [row["name"] for row in lake.rows(name)] == ["a", "B", "d", "e"]
    lake.spark.session.sql(f"refresh table lake.{name}")
    after = row_ids(lake, name)
    # Rows that only moved keep both; a changed row keeps its id; a new row has one of its own.
    assert {number: after[number] for number in (1, 4)} == {
        number: before[number] for number in (1, 4)
    }
    assert after[2] == (before[2][0], 2)
    assert after[5][1] == 2
    assert len({row_id for row_id, _ in [*before.values(), after[5]]}) == 5

    raw.put("in/2.csv", "id,name\n4,D\n")
    merged(lake, raw, name, BY_ID)
    assert {number: row_id for number, (row_id, _) in row_ids(lake, name).items()} == {
        number: row_id for number, (row_id, _) in after.items()
    }


@spark_in_test_long
def test_loads_leave_the_offsets_that_sql_has_beside_instants(
    server: server_kit.Running, either: Lake | Small, raw: Raw
) -> None:
    table = table_name(either, "zoned")
    schema, name = table.split(".")
    shown = f"select id, to_char(z, 'YYYY-MM-DD HH24:MI TZH:TZM'), note from {name} order by id"
    with lake_client.session(server) as session:
        session.rows(f"create schema if not exists {schema}")
    with lake_client.session(server, schema) as session:
        session.rows(f"create table {name} (id int, z timestamp_tz, note varchar)")
        session.rows(
            f"insert into {name} values (1, '2024-01-01 00:00 -08:00', 'a'),"
            " (2, '2024-01-01 00:00 +05:30', 'b')"
        )
        raw.put("in/1.csv", "id,z,note\n3,2024-01-01T00:00:00Z,c\n")
        either.ingest(raw, table)
        raw.put("in/2.csv", "id,note\n2,B\n4,d\n")
        merged(either, raw, table, BY_ID)
        assert session.rows(shown) == [
            (1, "2024-01-01 00:00 -08:00", "a"),
            (2, "2024-01-01 00:00 +05:30", "B"),
            (3, "2024-01-01 00:00 +00:00", "c"),
            (4, None, "d"),
        ]
