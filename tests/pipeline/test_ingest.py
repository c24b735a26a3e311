"""Raw objects become rows exactly once, all or nothing."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import datetime
import gzip
import io
import json
import random
import threading
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyiceberg.exceptions import NoSuchNamespaceError

from pipeline import (
    errors,
    fetching,
    frames,
    ingest,
    jobs,
    loads,
    progress,
    reading,
    resources,
    settings,
    sources,
    valueclasses,
)
from tests.kit import examples
from tests.pipeline import wire
from tests.pipeline.lake import Lake, Raw, a_load

pytestmark = pytest.mark.spark


LOOK_SECONDS = 0.02
STRINGS = "[Ljava.lang.String;"


def no_spark(_: str) -> NoReturn:
    raise AssertionError("Spark was started for nothing")


def test_ingest_makes_the_namespace_the_table_and_its_rows_in_one_commit(
    lake: Lake, raw: Raw
) -> None:
    one = raw.put("in/1.csv", "id,name,at\n1,a,2013-01-31T10:00:00Z\n2,,2013-02-01T00:00:00Z\n")
    two = raw.put("in/2.csv", "id,name,at\n3,c,2013-02-28T23:59:59Z\n")
    done = lake.ingest(
        raw, "made.deeper.t", partitions=settings.parse_partitions("month(at), bucket(4, id)")
    )
    table = lake.catalog.load_table("made.deeper.t")
    snapshot = table.current_snapshot()
    assert done == jobs.Loaded(
        rows=3,
        sources=2,
        skipped=0,
        files=3,
        columns_added=(),
        snapshot_id=snapshot.snapshot_id,
        engine="spark",
        bytes_read=60 + 36,
        bytes_written=int(snapshot.summary["added-files-size"]),
    )
    names = [step.name for step in done.steps]
    assert names == [
        "list sources", "start Spark", "open table", "inspect", "write", "commit",
    ]  # fmt: skip
    assert [step.rows for step in done.steps] == [None, None, None, None, 3, None]
    utc = datetime.UTC
    assert lake.rows("made.deeper.t") == [
        {"id": 1, "name": "a", "at": datetime.datetime(2013, 1, 31, 10, tzinfo=utc)},
        {"id": 2, "name": None, "at": datetime.datetime(2013, 2, 1, tzinfo=utc)},
        {"id": 3, "name": "c", "at": datetime.datetime(2013, 2, 28, 23, 59, 59, tzinfo=utc)},
    ]
    assert [str(field.field_type) for field in table.schema().fields] == [
        "int", "string", "timestamptz",
    ]  # fmt: skip
    assert [str(field.transform) for field in table.spec().fields] == ["month", "bucket[4]"]
    assert len(table.metadata.snapshots) == 1
    assert table.metadata.metadata_log == [], "the creation was a commit of its own"
    wanted = [{"source": raw.uri("in/1.csv"), "etag": one},
              {"source": raw.uri("in/2.csv"), "etag": two}]  # fmt: skip
    assert json.loads(snapshot.summary["boathouse.loads"]) == wanted
    assert lake.taken("made.deeper.t") == {(row["source"], row["etag"]) for row in wanted}


@pytest.mark.smoke
def test_ingest_again_loads_only_what_is_new_or_written_anew(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n")
    assert lake.ingest(raw, "again.t").rows == 1
    before = lake.state("again.t")
    load = a_load("lake.again.t", place=raw.place("in/"), engine="spark")
    said: list[str] = []
    idle = ingest.run(lake.server, load, open_spark=no_spark, say=said.append)
    assert (idle.rows, idle.sources, idle.skipped, idle.snapshot_id) == (0, 0, 1, None)
    assert said == ["nothing to load: lake.again.t has all of these objects already"]
    assert lake.state("again.t") == before
    raw.put("in/2.csv", "id\n2\n")
    more = lake.ingest(raw, "again.t")
    assert (more.rows, more.sources, more.skipped) == (1, 1, 1)
    raw.put("in/1.csv", "id\n7\n")
    anew = lake.ingest(raw, "again.t")
    assert (anew.rows, anew.sources, anew.skipped) == (1, 1, 1)
    assert lake.rows("again.t") == [{"id": 1}, {"id": 2}, {"id": 7}]


@pytest.mark.smoke
def test_ingest_adds_new_columns_and_widens_old_ones(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", "id,zip\n1,A12\n")
    lake.ingest(raw, "evolve.t")
    raw.put("in/2.csv", "zip,id,more\n00123,5000000000,x\n")
    done = lake.ingest(raw, "evolve.t")
    assert done.columns_added == ("more",)
    assert lake.rows("evolve.t") == [
        {"id": 1, "zip": "A12", "more": None},
        {"id": 5_000_000_000, "zip": "00123", "more": "x"},
    ]
    types = [str(field.field_type) for field in lake.catalog.load_table("evolve.t").schema().fields]
    assert types == ["long", "string", "string"]


def test_ingest_reads_an_empty_column_as_what_the_table_says(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", "id,score,day\n1,1.5,2026-01-01\n")
    lake.ingest(raw, "typed.t")
    raw.put("in/2.csv", "id,score,day\n2,,\n")
    lake.ingest(raw, "typed.t")
    raw.put("in/3.csv", "id,score,day\n3,7,2026-01-03\n")
    lake.ingest(raw, "typed.t")
    assert lake.rows("typed.t") == [
        {"id": 1, "score": 1.5, "day": datetime.date(2026, 1, 1)},
        {"id": 2, "score": None, "day": None},
        {"id": 3, "score": 7.0, "day": datetime.date(2026, 1, 3)},
    ]


def test_ingest_of_data_without_the_partition_s_column_leaves_it_empty(
    lake: Lake, raw: Raw
) -> None:
    by_two = settings.parse_partitions("day, bucket(2, id)")
    raw.put("in/1.csv", "id,day\n1,2026-01-09\n")
    lake.ingest(raw, "unplaced.t", partitions=by_two)
    raw.put("in/2.csv", "id\n2\n")
    raw.put("in/3.csv", "more\nx\n")
    assert lake.ingest(raw, "unplaced.t", partitions=by_two).rows == 2
    rows = {
        (row["id"], row["day"], row["more"])
        for row in lake.catalog.load_table("unplaced.t").scan().to_arrow().to_pylist()
    }
    assert rows == {(1, datetime.date(2026, 1, 9), None), (2, None, None), (None, None, "x")}


def test_ingest_partitions_by_a_column_inside_another(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.json", '{"id": 1, "on": {"day": "2026-01-09"}}\n{"id": 2, "on": {"day": "b"}}\n')
    inside = settings.parse_partitions("on.day")
    assert lake.ingest(raw, "inside.t", format="json", partitions=inside).files == 2
    assert [row["on"]["day"] for row in lake.rows("inside.t")] == ["2026-01-09", "b"]


def test_ingest_into_many_partitions_has_few_files_open_at_a_time(lake: Lake, raw: Raw) -> None:
    days = 100
    few = days // 4
    rows = (f"{number},{number % days}\n" for number in range(2 * days))
    raw.put("in/1.csv", "id,part\n" + "".join(rows))
    s3, ended, seen = sources.client(lake.server), threading.Event(), []

    def watch() -> None:
        # A look is a full collection in the JVM: two, in the middle of the writing.
        for stored in (1, days // 2):
            while s3.list_objects_v2(Bucket="lake", Prefix="wide/t/data/")["KeyCount"] < stored:
                if ended.wait(LOOK_SECONDS):
                    return
            alive = alive_in_java(lake, "org.apache.iceberg.parquet.ParquetWriter")
            if alive >= few:
                # Java leaves the collection out while native code holds an array.
                alive = alive_in_java(lake, "org.apache.iceberg.parquet.ParquetWriter")
            seen.append(alive)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        done = lake.ingest(raw, "wide.t", partitions=settings.parse_partitions("part"))
    finally:
        ended.set()
        watching.join()
    assert (done.rows, done.files) == (2 * days, days)
    assert len(seen) == 2, "both looks came before the end"
    # Two tasks at a time, whose closed files may be reachable for a while: not all hundred.
    assert max(seen) < few


def alive_in_java(lake: Lake, class_name: str) -> int:
    """Return how many instances of a class are reachable in Spark's JVM, as it counts them."""
    jvm, new_array = lake.spark.jvm, lake.spark.session.sparkContext._gateway.new_array

    def array(java_class: Any, *values: Any) -> Any:
        values_array = new_array(java_class, len(values))
        for position, value in enumerate(values):
            values_array[position] = value
        return values_array

    java = jvm.java.lang
    class_of = java.Class.forName
    # By reflection: the server's own class is not open to callers, its interface is.
    signature = ("javax.management.ObjectName", "java.lang.String", "[Ljava.lang.Object;", STRINGS)
    invoke = class_of("javax.management.MBeanServer").getMethod(
        "invoke", array(java.Class, *map(class_of, signature))
    )
    commands = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    arguments = array(java.Object, array(java.String))
    text = invoke.invoke(
        java.management.ManagementFactory.getPlatformMBeanServer(),
        array(java.Object, commands, "gcClassHistogram", arguments, array(java.String, STRINGS)),
    )
    counted = {line.split()[3]: int(line.split()[1]) for line in text.splitlines()[3:-1]}
    return counted.get(class_name, 0)


def test_ingest_reads_packed_files_beside_plain_ones(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv.gz", gzip.compress(b"id,name\n1,a\n"))
    raw.put("in/2.csv.gz", gzip.compress(b"name,id\nb,2\n"))
    raw.put("in/3.csv", "id,name\n3,c\n")
    raw.put("in/4.csv.gz", gzip.compress(b"id,name\n4,d\n"))
    assert lake.ingest(raw, "packed.t").rows == 4
    assert [(row["id"], row["name"]) for row in lake.rows("packed.t")] == [
        (1, "a"), (2, "b"), (3, "c"), (4, "d"),
    ]  # fmt: skip


@pytest.mark.parametrize("file_format", examples.short(["csv", "json", "parquet"], "csv"))
def test_ingest_holds_names_that_differ_in_case_alone_to_be_one(
    lake: Lake, raw: Raw, file_format: str
) -> None:
    table = f"spelled.{file_format}"
    raw.put("in/1.csv", "id,Name\n1,007\n")
    lake.ingest(raw, table, options={"inferSchema": "false"})
    parquet = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"ID": ["2"], "NAME": ["008"]}), parquet)
    other = {
        "csv": b"ID,NAME\n2,008\n",
        "json": b'{"ID": "2", "NAME": "008"}\n',
        "parquet": parquet.getvalue(),
    }
    raw.put("other/1", other[file_format])
    done = lake.ingest(raw, table, prefix="other/", format=file_format)
    assert (done.rows, done.columns_added) == (1, ())
    assert lake.rows(table) == [{"id": "1", "Name": "007"}, {"id": "2", "Name": "008"}]


def test_ingest_of_files_with_other_headers_keeps_values_under_their_names(
    lake: Lake, raw: Raw
) -> None:
    raw.put("in/1.csv", "a,b\n1,x\n")
    raw.put("in/2.csv", "b,a\ny,2\n")
    raw.put("in/3.csv", "c,a\nz,3\n")
    raw.put("in/4.csv", "")
    done = lake.ingest(raw, "headers.t")
    assert (done.rows, done.sources) == (3, 4)
    assert lake.rows("headers.t") == [
        {"a": 1, "b": "x", "c": None},
        {"a": 2, "b": "y", "c": None},
        {"a": 3, "b": None, "c": "z"},
    ]


def test_ingest_reads_json_and_parquet_and_reader_options(lake: Lake, raw: Raw) -> None:
    raw.put("json/1.json", '{"id": 1, "in": {"x": 1}}\n{"id": 2, "in": null}\n')
    assert lake.ingest(raw, "formats.j", prefix="json/", format="json").rows == 2
    raw.put("json/2.json", '{"id": 3, "in": {"x": 2, "y": "new"}}\n')
    done = lake.ingest(raw, "formats.j", prefix="json/", format="json")
    assert done.columns_added == ("in.y",)
    assert lake.rows("formats.j") == [
        {"id": 1, "in": {"x": 1, "y": None}},
        {"id": 2, "in": None},
        {"id": 3, "in": {"x": 2, "y": "new"}},
    ]
    body = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"id": [1, 2], "s": ["a", None]}), body)
    raw.put("parquet/1.parquet", body.getvalue())
    lake.ingest(raw, "formats.p", prefix="parquet/", format="parquet")
    assert lake.rows("formats.p") == [{"id": 1, "s": "a"}, {"id": 2, "s": None}]
    raw.put("csv/1.csv", "id;n\n1;NA\n2;5\n")
    lake.ingest(raw, "formats.c", prefix="csv/", options={"sep": ";", "nullValue": "NA"})
    assert lake.rows("formats.c") == [{"id": 1, "n": None}, {"id": 2, "n": 5}]


def test_ingest_of_many_small_objects_asks_once_for_each_and_reads_all(
    lake: Lake, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[sources.Source] = []
    download = sources.download

    def counted(s3: Any, source: sources.Source, path: Path) -> None:
        download(s3, source, path)
        copied.append(source)

    monkeypatch.setattr(sources, "download", counted)
    for number in range(fetching.OBJECTS_MIN):
        raw.put(f"in/json/{number}.json", json.dumps({"id": number}) + "\n")
        packed = number % 2 == 0
        text = f"id,more\n{number},x{number}\n".encode()
        raw.put(
            f"in/csv/p={number}/a b%20[c].csv{'.gz' if packed else ''}",
            gzip.compress(text) if packed else text,
        )
        file = io.BytesIO()
        columns = {"id": [number], **({"late": ["x"]} if number == 7 else {})}
        pyarrow.parquet.write_table(pa.table(columns), file)
        raw.put(f"in/parquet/{number:02}.parquet", file.getvalue())
        if number != 7:
            raw.put(f"in/alike/{number:02}.parquet", file.getvalue())
    raw.put("in/alike/07.parquet", b"")
    formats: tuple[tuple[str, settings.Format], ...] = (
        ("json", "json"), ("csv", "csv"), ("parquet", "parquet"), ("alike", "parquet"),
    )  # fmt: skip
    for place, file_format in formats:
        copied.clear()
        lake.ingest(raw, f"many.{place}", prefix=f"in/{place}/", format=file_format)
        assert len(copied) == fetching.OBJECTS_MIN
        assert {source.place for source in copied} == {
            source for source, _ in lake.taken(f"many.{place}")
        }
    ids = list(range(fetching.OBJECTS_MIN))
    assert lake.rows("many.json") == [{"id": number} for number in ids]
    assert lake.rows("many.csv") == [{"id": number, "more": f"x{number}"} for number in ids]
    assert lake.rows("many.parquet") == [
        {"id": number, "late": "x" if number == 7 else None} for number in ids
    ]
    assert lake.rows("many.alike") == [{"id": number} for number in ids if number != 7]


def test_a_file_among_many_small_ones_that_cannot_be_read_is_named(lake: Lake, raw: Raw) -> None:
    for number in range(fetching.OBJECTS_MIN):
        raw.put(f"in/csv/{number:02}.csv", f"id\n{'x' if number == 7 else number}\n")
        file = io.BytesIO()
        pyarrow.parquet.write_table(pa.table({"id": [number] * 100}), file, compression="none")
        content = file.getvalue()
        raw.put(f"in/parquet/{number:02}.parquet", b"PAR1 is all" if number == 7 else content)
        # The footer is whole, the first page's header is not.
        cut = content[:4] + bytes(40) + content[44:]
        raw.put(f"in/pages/{number:02}.parquet", cut if number == 7 else content)
    for place, file_format in (("csv", "csv"), ("parquet", "parquet"), ("pages", "parquet")):
        with pytest.raises(errors.PipelineError) as raised:
            lake.ingest(
                raw, "unread.t", prefix=f"in/{place}/", format=file_format,
                types={"id": "int"} if place == "csv" else {},
            )  # fmt: skip
        assert raw.uri(f"in/{place}/07.{file_format}") in str(raised.value)
        assert "file:" not in str(raised.value)
    assert lake.state("unread.t") is None


def test_transforms_that_name_their_files_get_the_names_of_objects(lake: Lake, raw: Raw) -> None:
    for number in range(fetching.OBJECTS_MIN):
        raw.put(f"in/{number:02}.csv", f"id\n{number}\n")
    naming = jobs.SqlTransform(name="named", sql="SELECT id, input_file_name() f FROM source")
    lake.ingest(raw, "naming.t", transforms=(naming,))
    assert lake.rows("naming.t")[3] == {"id": 3, "f": f"s3a://{raw.bucket}/in/03.csv"}


def test_spark_gives_each_text_the_class_that_its_pattern_says(lake: Lake) -> None:
    forms = [
        "0", "-0", "7", "-12", "007", "+7", "2147483647", "-2147483647", "2147483648",
        "99999999999", "-999999999999999999", "9223372036854775807", "9223372036854775808",
        "-9223372036854775808", "1" * 38, "1" * 39, "1.5", "-.5", "1.", ".", "1e5", "1.2e-5",
        "12e-3", "1234-5", "NaN", "-Inf", "Infinity", "-NaN", "2024-02-29", "2023-02-29",
        "2024-02-29T10:00", "2024-02-29 10:00:59.123456789+13:59", "0001-01-01", "true", "FALSE",
        "tRuE", "truest", "Inf", "name-1", "", " 1", "1 ", "2024-01-01Z", "é", "1\n",
        "2024-01-01\n",
    ]  # fmt: skip
    chance = random.Random(1)
    values = list(forms)
    for _ in range(4_000):
        letters = list(chance.choice(forms))
        for _ in range(chance.randint(1, 2)):
            at = chance.randint(0, len(letters))
            letters[at : at + chance.randint(0, 1)] = chance.choice(["", *"-+.0189eETZ:N \nt"])
        values.append("".join(letters))
    session = lake.spark.session
    frame = session.createDataFrame([(value,) for value in values], "value string")
    rows = frame.select("value", frames._class_bit(frame["value"]).alias("bit")).collect()
    wrong = {
        row.value: reading.CLASSES[row.bit.bit_length() - 1]
        for row in rows
        if row.bit != 1 << reading.CLASSES.index(reading.class_of(row.value))
    }
    assert not wrong
    assert len({reading.class_of(value) for value in values}) == len(reading.CLASSES)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ('a,b,c\r\n1,"2",1.5\r\n"","x, ""y""",\r\n,2024-02-29,7\r\n', {}),
        ("a\tb\n1\t2024-02-29\n\t\n\n9223372036854775807\t2024-02-29T10:00Z", {"sep": "\\t"}),
        (
            "a;'b'\nNA;NaN\ntrue;'NA'\n'FALSE';\"1\"\n",
            {"sep": ";", "quote": "'", "nullValue": "NA"},
        ),
        ("1,\u00e9\n007,-0\n 8,1e5 \n", {"header": "false"}),
        ("a\n1\n\n-2147483649\n", {}),
    ],
)  # fmt: skip
def test_classes_from_bytes_decide_as_those_that_spark_tells(
    lake: Lake, tmp_path: Path, content: str, options: dict[str, str]
) -> None:
    path = tmp_path / "values.csv"
    path.write_bytes(content.encode())
    reader = reading.reader("csv", options)
    file = valueclasses.FileClasses(reader)
    file.feed(content.encode())
    from_bytes = file.end()
    assert from_bytes is not None
    text = lake.spark.session.read.format("csv").options(**reader.options, inferSchema="false")
    of_spark = frames._classes_by_spark(text.load(str(path)))
    assert list(map(reading.type_of, from_bytes)) == list(map(reading.type_of, of_spark))
    assert all(present <= every for present, every in zip(from_bytes, of_spark, strict=True))


def test_options_that_choose_files_choose_objects_by_their_names(lake: Lake, raw: Raw) -> None:
    for number in range(fetching.OBJECTS_MIN):
        raw.put(f"in/{'odd' if number % 2 else 'even'}-{number:02}.csv", f"id\n{number}\n")
    lake.ingest(raw, "chosen.t", options={"pathGlobFilter": "odd-*"})
    assert [row["id"] for row in lake.rows("chosen.t")] == list(range(1, fetching.OBJECTS_MIN, 2))


def test_an_object_that_changes_before_it_is_copied_fails_the_load(
    lake: Lake, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(fetching.OBJECTS_MIN):
        raw.put(f"in/{number:02}.csv", f"id\n{number}\n")
    download = sources.download

    def late(s3: Any, source: sources.Source, path: Path) -> None:
        if source.place.endswith("07.csv"):
            raw.put("in/07.csv", "id\n700\n")
        download(s3, source, path)

    monkeypatch.setattr(sources, "download", late)
    with pytest.raises(errors.SourceChanged, match=raw.uri("in/07.csv")):
        lake.ingest(raw, "changing.t")
    assert lake.state("changing.t") is None


def test_ingest_by_replace_leaves_just_what_lies_there_now(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n")
    raw.put("in/2.csv", "id\n2\n")
    lake.ingest(raw, "replaced.t")
    raw.s3.delete_object(Bucket=raw.bucket, Key="in/1.csv")
    etag = raw.put("in/3.csv", "id\n3\n")
    done = lake.ingest(raw, "replaced.t", mode="replace")
    assert (done.rows, done.sources) == (2, 2)
    assert lake.rows("replaced.t") == [{"id": 2}, {"id": 3}]
    assert (raw.uri("in/3.csv"), etag) in lake.taken("replaced.t")
    assert len(lake.taken("replaced.t")) == 2
    before = lake.state("replaced.t")
    assert lake.ingest(raw, "replaced.t", mode="replace").snapshot_id is None
    assert lake.state("replaced.t") == before


def changed_by_sql(lake: Lake, table: str) -> None:
    lake.spark.session.sql(f"INSERT INTO lake.{table} VALUES (99)")


def deleted_by_sql(lake: Lake, table: str) -> None:
    lake.spark.session.sql(f"DELETE FROM lake.{table} WHERE id = 1")


def rolled_back(lake: Lake, table: str) -> None:
    first = lake.catalog.load_table(table).metadata.snapshots[0].snapshot_id
    lake.spark.session.sql(f"CALL lake.system.rollback_to_snapshot('{table}', {first})")


@pytest.mark.parametrize(
    "change",
    [
        changed_by_sql,
        pytest.param(deleted_by_sql, marks=pytest.mark.long),
        pytest.param(rolled_back, marks=pytest.mark.long),
        pytest.param(None, marks=pytest.mark.long),
    ],
)
def test_ingest_by_replace_makes_a_table_equal_its_sources_whatever_was_done_to_it(
    lake: Lake, raw: Raw, change: Any
) -> None:
    table = f"equal_{change.__name__ if change else 'unchanged'}.t"
    raw.put("in/1.csv", "id\n7\n")
    lake.ingest(raw, table, mode="replace")
    raw.put("in/1.csv", "id\n1\n")
    raw.put("in/2.csv", "id\n2\n")
    lake.ingest(raw, table, mode="replace")
    if change is not None:
        change(lake, table)

    done = lake.ingest(raw, table, mode="replace")

    assert lake.rows(table) == [{"id": 1}, {"id": 2}]
    assert (done.rows, done.sources, done.skipped) == ((2, 2, 0) if change else (0, 0, 2))
    assert lake.ingest(raw, table, mode="replace").snapshot_id is None


def test_ingest_by_replace_after_appends_leaves_just_the_sources_it_is_given(
    lake: Lake, raw: Raw
) -> None:
    raw.put("in/1.csv", "id\n1\n")
    raw.put("other/2.csv", "id\n2\n")
    lake.ingest(raw, "narrowed.t")
    lake.ingest(raw, "narrowed.t", prefix="other/")

    assert lake.ingest(raw, "narrowed.t", mode="replace").rows == 1
    assert lake.rows("narrowed.t") == [{"id": 1}]


def test_what_spark_has_done_is_counted_for_its_progress(lake: Lake, raw: Raw) -> None:
    counters = lake.spark.counting()
    assert counters() == progress.JobCounters(rows=0, done=0, total=0, read_bytes=0)
    raw.put("in/1.csv", "id\n" + "".join(f"{number}\n" for number in range(500)))

    lake.ingest(raw, "counted.t")

    after = counters()
    assert after.total >= after.done >= 1
    assert after.rows == 500
    assert after.read_bytes is not None
    assert after.read_bytes >= 3 + 10 * 2 + 90 * 3 + 400 * 4


def test_ingest_of_more_sources_than_a_summary_holds_takes_each_in(
    lake: Lake, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "INLINE_MAX", 4)
    for number in range(5):
        raw.put(f"in/{number}.csv", f"id\n{number}\n")
    done = lake.ingest(raw, "many.t")
    assert (done.rows, done.sources) == (5, 5)
    summary = lake.catalog.load_table("many.t").current_snapshot().summary
    assert list(json.loads(summary["boathouse.loads"])) == ["object"]
    assert len(lake.taken("many.t")) == 5
    assert lake.ingest(raw, "many.t").snapshot_id is None
    assert [row["id"] for row in lake.rows("many.t")] == list(range(5))


# A failed load changes nothing: of a live table, or of a server without it.

LIVE = "id,name,day\n1,a,2026-01-01\n"


def rewrites(raw: Raw, key: str, body: str) -> Any:
    """What is said first makes the source change: it is listed by then, and not yet read."""

    def say(line: str) -> None:
        if line.startswith("loading "):
            raw.put(key, body)

    return say


def deletes(raw: Raw, key: str) -> Any:
    def say(line: str) -> None:
        if line.startswith("loading "):
            raw.s3.delete_object(Bucket=raw.bucket, Key=key)

    return say


FAILURES: dict[str, tuple[str, dict[str, Any], type[errors.PipelineError], str]] = {
    "a row with too many columns": (
        "id,name,day\n2,b,2026-01-02\n3,c,2026-01-03,more\n", {},
        errors.BadSource,
        r"^s3://pipeline-raw-\d+/in/2\.csv: line 3 has 4 columns, the header has 3$",
    ),
    "text where the table has a number": (
        "id,name,day\nnone,b,2026-01-02\n", {}, errors.BadSource,
        r"^s3://pipeline-raw-\d+/in/2\.csv: line 2, column 'id': 'none' is not a whole number, "
        r"and the column has the type int$",
    ),
    "a fraction where the table has a whole number": (
        "id,name,day\n2.5,b,2026-01-02\n", {}, errors.BadSource,
        r"^s3://pipeline-raw-\d+/in/2\.csv: line 2, column 'id': '2\.5' is not a whole number, ",
    ),
    "another partitioning than the live table's": (
        "id,name,day\n2,b,2026-01-02\n", {"partitions": settings.parse_partitions("name")},
        errors.BadArgument, r"the table is already partitioned by identity\(day\)",
    ),
    "a partition column that is not there": (
        "id,name,day\n2,b,2026-01-02\n", {"partitions": settings.parse_partitions("nowhere")},
        errors.BadArgument, "--partition-by names 'nowhere', but the columns are: id, name, day",
    ),
    "a partition transform that its column cannot take": (
        "id,name,day\n2,b,2026-01-02\n", {"partitions": settings.parse_partitions("month(name)")},
        errors.BadArgument,
        "^--partition-by: Invalid source type string for transform: month$",
    ),
    "two partition transforms of which one says it all": (
        "id,name,day\n2,b,2026-01-02\n",
        {"partitions": settings.parse_partitions("day(day), month(day)")},
        errors.BadArgument, "^--partition-by: Cannot add redundant partition",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def live(lake: Lake) -> str:
    """A table of one row, partitioned by day, that every failing load is aimed at."""
    raw = Raw(sources.client(lake.server), "pipeline-raw-live")
    raw.put("in/1.csv", LIVE)
    lake.ingest(raw, "live.t", partitions=settings.parse_partitions("day"))
    return "live.t"


@pytest.mark.parametrize("what", FAILURES)
def test_a_failed_load_into_a_live_table_changes_nothing(
    lake: Lake, raw: Raw, live: str, what: str
) -> None:
    body, changes, error_type, said = FAILURES[what]
    before = lake.state(live)
    raw.put("in/2.csv", body)
    with pytest.raises(error_type, match=said):
        lake.ingest(raw, live, **changes)
    assert lake.state(live) == before


@pytest.mark.parametrize("mode", examples.short(["append", "replace"], "replace"))
def test_a_source_written_anew_while_it_is_read_is_not_loaded(
    lake: Lake, raw: Raw, mode: str
) -> None:
    table = f"moving.{mode}"
    raw.put("in/1.csv", LIVE)
    lake.ingest(raw, table)
    before = lake.state(table)
    raw.put("in/2.csv", "id,name,day,more\n2,b,2026-01-02,x\n")
    say = rewrites(raw, "in/2.csv", "id,name,day,more\n2,B,2026-01-02,y\n")
    with pytest.raises(errors.SourceChanged) as caught:
        lake.ingest(raw, table, say=say, mode=mode)
    assert str(caught.value) == (
        f"{raw.uri('in/2.csv')} changed while it was being read; nothing was loaded, "
        "run the same command again"
    )
    assert lake.state(table) == before
    lake.ingest(raw, table, mode=mode)
    assert [(row["id"], row["name"]) for row in lake.rows(table)] == [(1, "a"), (2, "B")]


def test_a_source_deleted_before_it_is_read_is_not_loaded(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", LIVE)
    raw.put("in/2.csv", LIVE)
    with pytest.raises(
        errors.SourceChanged, match=r"^in/2\.csv was deleted while it was being read"
    ):
        lake.ingest(raw, "gone.t", say=deletes(raw, "in/2.csv"))
    assert lake.state("gone.t") is None
    assert ("gone",) not in lake.catalog.list_namespaces()


@pytest.mark.parametrize("what", ["malformed", "changed", "partition"])
def test_a_failed_load_into_a_new_table_leaves_no_table_and_no_namespace(
    lake: Lake, raw: Raw, what: str
) -> None:
    raw.put("in/1.csv", "id\n1\n2,3\n" if what == "malformed" else "id\n1\n")
    changes: dict[str, Any] = {
        "malformed": {},
        "changed": {"say": rewrites(raw, "in/1.csv", "id\n2\n")},
        "partition": {"partitions": settings.parse_partitions("nowhere")},
    }[what]
    with pytest.raises(errors.PipelineError):
        lake.ingest(raw, f"fresh_{what}.deep.t", **changes)
    with pytest.raises(NoSuchNamespaceError):
        lake.catalog.load_namespace_properties((f"fresh_{what}", "deep"))
    assert (f"fresh_{what}",) not in lake.catalog.list_namespaces()
    assert lake.data_files(f"fresh_{what}.deep.t") == []


# Two loads of the same sources at the same time.


def race(lake: Lake, raw: Raw, table: str, *modes: settings.Mode) -> list[Any]:
    """Run one load per mode; each has listed its sources before the first reads any."""
    gate = threading.Barrier(len(modes), timeout=120)
    ended: list[Any] = [None] * len(modes)
    waited: set[int] = set()

    def listed(line: str) -> None:
        lake.said.append(line)
        if line.startswith("loading ") and threading.get_ident() not in waited:
            waited.add(threading.get_ident())
            gate.wait()

    def job(number: int, mode: settings.Mode) -> None:
        try:
            ended[number] = lake.ingest(raw, table, say=listed, mode=mode)
        except BaseException as error:  # noqa: BLE001 - from_bytes by the main thread
            ended[number] = error

    threads = [threading.Thread(target=job, args=each) for each in enumerate(modes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def winner_and_loser(ended: list[Any]) -> tuple[jobs.Loaded, jobs.Loaded]:
    """Return what the job that loaded the sources did, and the one that found them loaded."""
    assert all(isinstance(one, jobs.Loaded) for one in ended), ended
    won, lost = sorted(ended, key=lambda one: one.snapshot_id is None)
    assert won.snapshot_id is not None
    return won, lost


def test_of_two_loads_of_the_same_sources_into_a_live_table_one_loads_them(
    lake: Lake, raw: Raw
) -> None:
    raw.put("in/0.csv", "id\n0\n")
    lake.ingest(raw, "race_live.t")
    raw.put("in/1.csv", "id\n1\n")
    won, lost = winner_and_loser(race(lake, raw, "race_live.t", "append", "append"))
    assert (won.rows, won.sources) == (1, 1)
    assert (lost.rows, lost.sources, lost.skipped, lost.snapshot_id) == (0, 0, 2, None)
    assert (
        "another job has just loaded some of these objects into lake.race_live.t; trying again"
    ) in lake.said
    assert lake.rows("race_live.t") == [{"id": 0}, {"id": 1}]
    assert len(lake.catalog.load_table("race_live.t").metadata.snapshots) == 2
    assert len(lake.data_files("race_live.t")) == 2, "the loser's files were given back"


def test_of_two_first_loads_of_a_table_each_source_is_loaded_once_by_one_of_them(
    lake: Lake, raw: Raw
) -> None:
    raw.put("in/1.csv", "id\n1\n")
    won, lost = winner_and_loser(race(lake, raw, "race_new.t", "append", "append"))
    assert won.rows == 1
    assert (lost.rows, lost.skipped, lost.snapshot_id) == (0, 1, None)
    assert lake.rows("race_new.t") == [{"id": 1}]
    assert len(lake.catalog.load_table("race_new.t").metadata.snapshots) == 1


def test_two_first_loads_of_other_sources_both_end_in_the_new_table(lake: Lake, raw: Raw) -> None:
    raw.put("one/1.csv", "id\n1\n")
    raw.put("two/2.csv", "id\n2\n")
    gate = threading.Barrier(2, timeout=120)
    waited: set[str] = set()

    def load(prefix: str) -> jobs.Loaded:
        def listed(line: str) -> None:
            if line.startswith("loading ") and prefix not in waited:
                waited.add(prefix)
                gate.wait()

        return lake.ingest(raw, "race_both.t", prefix=prefix, say=listed)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = list(pool.map(load, ("one/", "two/")))

    assert [(one.rows, one.sources) for one in done] == [(1, 1), (1, 1)]
    assert lake.rows("race_both.t") == [{"id": 1}, {"id": 2}]


def test_of_two_replacing_loads_each_object_is_there_once(lake: Lake, raw: Raw) -> None:
    raw.put("in/0.csv", "id\n0\n")
    lake.ingest(raw, "race_replace.t")
    raw.put("in/1.csv", "id\n1\n")
    ended = race(lake, raw, "race_replace.t", "replace", "replace")
    assert any(isinstance(one, jobs.Loaded) for one in ended)
    assert lake.rows("race_replace.t") == [{"id": 0}, {"id": 1}]
    assert len(lake.taken("race_replace.t")) == 2


def catalog_of(lake: Lake, warehouse: str, *, url: str) -> Any:
    """Give the session one more warehouse, at url; return what opens it."""
    place = dataclasses.replace(lake.server, url=url)
    spark_settings = settings.spark_settings(
        place,
        warehouse,
        gets=resources.SparkResources(master="local"),
        jars=Path("/jars"),
        java_options=(),
    )
    for key, value in spark_settings.items():
        if key.startswith(f"spark.sql.catalog.{warehouse}"):
            lake.spark.session.conf.set(key, value)
    return lambda _: contextlib.nullcontext(lake.spark)


@pytest.mark.smoke
def test_a_lost_answer_to_the_commit_is_said_and_the_next_run_loads_nothing_twice(
    lake: Lake, raw: Raw
) -> None:
    import boto3

    boto3.client(
        "s3tables",
        endpoint_url=lake.server.url,
        region_name=lake.server.region,
        aws_access_key_id=lake.server.access_key,
        aws_secret_access_key=lake.server.secret_key,
    ).create_table_bucket(name="unanswered")
    raw.put("in/1.csv", "id\n1\n")
    load = a_load("unanswered.a.t", place=raw.place("in/"), engine="spark")

    def commits(method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/tables/t")

    with wire.door(lake.server.url, after=commits) as door:
        open_spark = catalog_of(lake, "unanswered", url=door.url)
        with pytest.raises(errors.OutcomeUnknown) as caught:
            ingest.run(lake.server, load, open_spark=open_spark, say=lake.said.append)
    assert str(caught.value) == (
        "the answer to the commit was lost, so unanswered.a.t may or may not have the rows; "
        "run the same command again: it loads only what is missing"
    )
    again = ingest.run(lake.server, load, open_spark=no_spark, say=lake.said.append)
    assert (again.skipped, again.snapshot_id) == (1, None)


def test_a_job_in_a_warehouse_that_is_not_there_says_so(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n")
    load = a_load("nowhere.a.t", place=raw.place("in/"), engine="spark")
    before = lake.catalog.list_namespaces()
    with pytest.raises(errors.BadArgument, match=r"^there is no table bucket 'nowhere'$"):
        ingest.run(lake.server, load, open_spark=no_spark, say=lake.said.append)
    assert lake.catalog.list_namespaces() == before
