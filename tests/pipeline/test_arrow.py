"""Small loads without a JVM: their result is that of Spark, and failures are as exact."""

from __future__ import annotations

import bz2
import dataclasses
import datetime
import gzip
import io
import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from pipeline import arrow, catalogs, errors, ingest, jobs, loads, settings, sources
from tests.kit import examples, lake_client
from tests.kit import server as server_kit
from tests.pipeline import wire
from tests.pipeline.lake import Lake, Raw, Small, a_load, no_spark

SILENT_SECONDS = 300
"""How long a test's server keeps silent, unless the test ends before."""


def parquet(columns: Mapping[str, Any]) -> bytes:
    body = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(dict(columns)), body)
    return body.getvalue()


# What both engines must make the same of: name -> (files in order of loads, changes of the load).

MANY = "id,day,at,name\n" + "".join(
    f"{number},2026-0{number % 3 + 1}-1{number % 10},2026-01-01T0{number % 10}:00:00Z,n{number}\n"
    for number in range(40)
)
SAME: dict[str, tuple[tuple[dict[str, str | bytes], ...], dict[str, Any]]] = {
    "every class of value": (
        ({"1.csv": (
            "i,l,d,r,b,day,at,t,zip,plus,none,mixed,none_such\n"
            "1,3000000000,9223372036854775808,1.5,true,2024-02-29,2026-01-31T10:00:00Z,a,007,+1,,1,"
            "2023-02-29\n"
            "-2,1,1,1e3,FALSE,0001-01-01,2026-01-31 10:00,b,123,2,,x,2023-01-01\n"
            ",,,-Inf,,,2026-01-31T10:00:00.123456789+02:00,,,,,,\n"
            ",,,.5,,,2026-02-01,,,,,,\n"
        )},), {},
    ),
    "quotes of RFC 4180": (
        ({"1.csv": 'id,q\n1,"a ""quoted"" b"\n2,"two\nlines, one value"\n3,"\\"\n4,ab"c\n5,""\n'
                   '6,"""all"""\n'},), {},
    ),
    "line ends of Windows": (({"1.csv": "id,n\r\n1,a\r\n2,\"x\r\ny\"\r\n"},), {}),
    "line ends of Windows inside quotes alone": (
        ({"1.csv": 'id,n\n1,a\n2,"x\r\ny"\n', "2.csv": 'id,n\r\n3,"x\ny"\r\n'},), {},
    ),
    "a CR alone inside quotes": (
        ({"1.csv": 'id,n\n1,a\n2,"x\ry"\n', "2.csv": 'id,n\r\n3,"x\ry\r\nz"\r\n'},), {},
    ),
    "lines that end with CR": (({"1.csv": "id,n\r1,a\r2,b\r"},), {}),
    "values of white space that Java does not trim": (({"1.csv": "n\n\u00a0\n\u2003\nb\n"},), {}),
    "blank lines and no last line end": (({"1.csv": "id,n\n\n1,a\n\n2,b"},), {}),
    "one column": (({"1.csv": 'id\n1\n\n""\n3\n'},), {}),
    "spaces are part of values and names": (({"1.csv": "id, n\n1, a\n 2,b \n"},), {}),
    "a byte order mark": (({"1.csv": b"\xef\xbb\xbfid,n\n1,\xc3\xa9\n"},), {}),
    "other headers, an empty file, a header alone": (
        ({"1.csv": "a,b\n1,x\n", "2.csv": "b,a\ny,2\n", "3.csv": "c,A\nz,3.5\n", "4.csv": "",
          "5.csv": "d,a\n"},), {},
    ),
    "packed files": (
        ({"1.csv.gz": gzip.compress(b"id,n\n1,a\n"), "2.csv.bz2": bz2.compress(b"n,id\nb,2\n"),
          "3.csv.zst": pa.Codec("zstd").compress(b"id,n\n3,c\n", asbytes=True)},), {},
    ),
    "Latin-1, semicolons and NA": (
        ({"1.csv": 'id;n;v\n1;é;NA\n2;"NA";5\n3;"";\n'.encode("latin-1")},),
        {"options": {"sep": ";", "encoding": "ISO-8859-1", "nullValue": "NA"}},
    ),
    "no header": (({"1.csv": "1,a\n2,b\n"},), {"options": {"header": "false"}}),
    "text alone": (({"1.csv": "id,n\n1,true\n"},), {"options": {"inferSchema": "false"}}),
    "a schema": (
        ({"1.csv": "a,id,Day,n\n5,007,2026-01-09,1\n,8,,2\n"}, {"2.csv": "n,ID\n3,9\n"}),
        {"types": {"id": "string", "day": "timestamptz", "later": "date", "n": "double",
                   "f": "float"}},
    ),
    "columns that a table has, widened, new and gone": (
        ({"1.csv": "id,zip,x,day\n1,A12,1.5,2026-01-01\n"},
         {"2.csv": "ZIP,id,more\n00123,5000000000,y\n"},
         {"3.csv": "id,x,day\n3,7,\n4,,2026-01-02\n"}), {},
    ),
    "every transform of a partition": (
        ({"1.csv": MANY},),
        {"partitions": settings.parse_partitions(
            "day, bucket(3, id), hour(at), truncate(2, name)"
        )},
    ),
    "months, years and absent partition values": (
        ({"1.csv": "id,day,at\n1,2026-01-09,1969-12-31T23:00:00Z\n2,,\n"
                   "3,1960-05-05,2026-01-01\n"},),
        {"partitions": settings.parse_partitions("month(day), year(at), truncate(10, id)")},
    ),
    "a later file without the partition's column": (
        ({"1.csv": "id,day\n1,2026-01-09\n"}, {"2.csv": "id\n2\n", "3.csv": "more\nx\n"}),
        {"partitions": settings.parse_partitions("day")},
    ),
    "replacing": (
        ({"1.csv": "id\n1\n"}, {"1.csv": "id,n\n5,a\n", "2.csv": "id\n2\n"}), {"mode": "replace"},
    ),
    "nested JSON that evolves": (
        ({"1.json": '{"id": 1, "in": {"x": 1.25, "l": [{"p": 1}]}}\n{"id": 2, "in": null}\n'},
         {"2.json": '{"in": {"x": 1, "y": "new", "l": [{"p": 2, "q": true}]}, "id": 3}\n'},
         {"3.json": '{"id": 5000000000, "s": "2026-01-01"}\n'}),
        {"format": "json"},
    ),
    "JSON arrays beside lines": (
        ({"1.json": '[{"a": 1},\n {"a": 2.5, "b": "x"}]\n', "2.json": '{"a": 3}\n\n{"b": null}\n',
          "3.json": '{\n "a": 4\n}\n', "4.json": '[{"a": 5}]', "5.json": ""},),
        {"format": "json"},
    ),
    "JSON in Latin-1": (
        ({"1.json": '{"n": "é"}\n{"n": "ü"}\n'.encode("latin-1")},),
        {"format": "json", "options": {"encoding": "ISO-8859-1"}},
    ),
    "a document of JSON that begins with half a pair": (
        ({"1.json": '{"a":\n1}\n'},), {"format": "json"},
    ),
    "JSON without a value": (
        ({"1.json": '{"n": null, "l": [], "t": "\\u00e9\\ud83d\\ude00", "b": true}\n'},),
        {"format": "json"},
    ),
    "a column of a struct as the partition": (
        ({"1.json": '{"id": 1, "on": {"day": "a"}}\n{"id": 2, "on": {"day": "b"}}\n{"id": 3}\n'},),
        {"format": "json", "partitions": settings.parse_partitions("on.day")},
    ),
    "Parquet": (
        ({"1.parquet": parquet({
            "id": pa.array([1, 2], pa.int32()), "s": ["a", None],
            "small": pa.array([1, 2], pa.int8()),
            "at": pa.array([0, 1], pa.timestamp("ms", tz="UTC")),
            "local": pa.array([0, 1], pa.timestamp("us")),
            "money": pa.array([None, None], pa.decimal128(9, 2)),
            "l": pa.array([[1], None], pa.list_(pa.int64())), "st": [{"x": 1.5}, {"x": None}],
         }), "2.parquet": parquet({"id": pa.array([3], pa.int32()), "new": [b"x"]})},
         {"3.parquet": parquet({"ID": pa.array([4], pa.int64())})}), {"format": "parquet"},
    ),
    "merging by a key": (
        ({"1.csv": "id,day,name\n1,2026-01-09,a\n2,2026-02-09,b\n3,2026-02-10,c\n4,,d\n"},
         {"2.csv": "ID,day,name,more\n3,2026-03-01,C,x\n5,2026-02-11,e,y\n4,,D,\n"},
         {"3.csv": "more,id\nz,1\nw,5000000000\n"}, {"4.csv": "id,day,name,more\n"},
         {"5.csv": "id,name\n77,new\n"}),
        {"mode": "merge", "merge": jobs.Merge(key=("id",)),
         "partitions": settings.parse_partitions("month(day)")},
    ),
    "merging by two keys, an order and a flag": (
        ({"1.csv": "a,b,at,gone,v\nx,1,5,0,new\nx,1,4,0,old\nx,2,1,0,b\ny,1,1,0,c\n"
                   "y,2,1,1,never\n"},
         {"2.csv": "a,b,at,gone,v\nx,1,3,1,late\nx,2,2,1,\ny,1,,0,no order\ny,1,2,0,C\n"
                   "z,9,1,1,none\nx,3,1,0,\nx,3,1,0,\n"},
         {"3.csv": "a,b,at,gone,v\nx,1,9,1,\nx,3,9,1,\ny,1,9,1,\n"},
         {"4.csv": "a,b,at,gone,v\nx,1,1,0,again\n"}),
        {"mode": "merge",
         "merge": jobs.Merge(key=("A", "b"), order_by="at", delete_flag="gone")},
    ),
    "merging nested JSON that evolves": (
        ({"1.json": '{"id": 1, "in": {"x": 1.25, "l": [{"p": 1}]}, "n": 1}\n'
                    '{"id": 2, "in": null}\n'},
         {"2.json": '{"in": {"x": 1, "y": "new", "l": [{"p": 2, "q": true}]}, "id": 2}\n'
                    '{"id": 3}\n'},
         {"3.json": '{"id": 1, "n": 5000000000}\n'}, {"4.json": '{"id": 2, "in": {"y": "z"}}\n'}),
        {"format": "json", "mode": "merge", "merge": jobs.Merge(key=("id",))},
    ),
    "merging Parquet by a day and a decimal": (
        ({"1.parquet": parquet({
            "day": pa.array([0, 1], pa.date32()), "m": pa.array([1, None], pa.decimal128(9, 2)),
            "k": pa.array([1, 2], pa.decimal128(9, 2)), "at": pa.array([0, 1], pa.timestamp("us")),
            "l": pa.array([[1], None], pa.list_(pa.int64())), "b": [b"x", None]})},
         {"2.parquet": parquet({
            "day": pa.array([1, 20_000], pa.date32()),
            "k": pa.array([2, 1], pa.decimal128(9, 2)),
            "at": pa.array([1, 7], pa.timestamp("us")), "new": [1.5, None]})}),
        {"format": "parquet", "mode": "merge", "merge": jobs.Merge(key=("day", "k"), order_by="at"),
         "partitions": settings.parse_partitions("truncate(1, b), bucket(4, day)")},
    ),
}  # fmt: skip


def outcome(catalog: Any, table: str) -> dict[str, Any]:
    """Return all that a reader of a table can see, without names of files and times."""
    loaded = catalog.load_table(table)
    rows = loaded.scan().to_arrow().to_pylist()
    files = loaded.inspect.files().to_pylist()
    partitions = loaded.inspect.partitions().to_pylist() if loaded.spec().fields else []
    kept = ("partition", "record_count", "file_count")
    return {
        "fields": [
            (field.field_id, field.name, str(field.field_type), field.required)
            for field in loaded.schema().fields
        ],
        "spec": [
            (field.source_id, field.field_id, str(field.transform), field.name)
            for field in loaded.spec().fields
        ],
        "version": loaded.metadata.format_version,
        "rows": sorted(map(repr, rows)),
        "records": sum(file["record_count"] for file in files),
        "partitions": sorted(repr({name: one[name] for name in kept}) for one in partitions),
        "operations": [str(one.summary.operation) for one in loaded.metadata.snapshots],
    }


BY_SPARK = (
    "every class of value",
    "nested JSON that evolves",
    "other headers, an empty file, a header alone",
    "a schema",
    "columns that a table has, widened, new and gone",
    "every transform of a partition",
    "Parquet",
    "merging by two keys, an order and a flag",
)
"""What Spark loads in `make test-all` as well; all cases are compared with what it has made."""
SMOKE = ("every class of value", "nested JSON that evolves")
"""Those of `make test`."""
RECORDED = Path(__file__).resolve().parents[1] / "golden" / "pipeline" / "loads_by_spark.json"
"""What each load of each case leaves. UPDATE_GOLDEN=1 with -m "spark or long" writes it anew."""


def recorded() -> dict[str, Any]:
    return dict(json.loads(RECORDED.read_text())) if RECORDED.exists() else {}


@pytest.mark.parametrize("name", SAME)
def test_arrow_makes_of_sources_what_spark_has_made_of_them(
    small: Small, raw: Raw, name: str
) -> None:
    rounds, changes = SAME[name]
    table = f"same_small.t{list(SAME).index(name)}"
    for files, by_spark in zip(rounds, recorded()[name], strict=True):
        for key, body in files.items():
            raw.put(f"in/{key}", body)
        small.ingest(raw, table, **changes)
        assert json.loads(json.dumps(outcome(small.catalog, table))) == by_spark


@pytest.mark.spark
@pytest.mark.parametrize("name", examples.short(SAME, *BY_SPARK, smoke=SMOKE))
def test_arrow_makes_of_sources_what_spark_makes_of_them(lake: Lake, raw: Raw, name: str) -> None:
    rounds, changes = SAME[name]
    outcomes = []
    tables = {engine: f"same_{engine}.t{list(SAME).index(name)}" for engine in ("arrow", "spark")}
    for files in rounds:
        for key, body in files.items():
            raw.put(f"in/{key}", body)
        done = {
            engine: lake.ingest(raw, table, engine=engine, **changes)
            for engine, table in tables.items()
        }
        of_writers = {"engine": "", "snapshot_id": None, "files": 0, "bytes_written": 0}
        kept = [dataclasses.replace(one, **of_writers) for one in done.values()]
        assert kept[0] == kept[1]
        assert all((one.bytes_written > 0) == (one.files > 0) for one in done.values())
        assert [one.engine for one in done.values()] == ["arrow", "spark"]
        one, other = (outcome(lake.catalog, table) for table in tables.values())
        assert one == other
        assert lake.taken(tables["arrow"]) == lake.taken(tables["spark"])
        outcomes.append(other)
    if os.environ.get("UPDATE_GOLDEN"):
        RECORDED.write_text(json.dumps({**recorded(), name: outcomes}, indent=1) + "\n")
    assert json.loads(json.dumps(outcomes)) == recorded()[name]


@pytest.mark.spark
def test_spark_makes_of_local_files_what_arrow_makes_of_them(
    lake: Lake, raw: Raw, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_text('id,q\n1,"two\nlines"\n')
    (tmp_path / "2 b.csv.gz").write_bytes(gzip.compress(b"q,id\nx,2\n"))
    place = settings.parse_place(str(tmp_path))
    tables = {engine: f"same_{engine}.local" for engine in ("arrow", "spark")}
    for engine, table in tables.items():
        done = lake.ingest(raw, table, place=place, engine=engine)
        assert (done.engine, done.rows, done.sources) == (engine, 2, 2)
    one, other = (outcome(lake.catalog, table) for table in tables.values())
    assert one == other
    assert lake.taken(tables["arrow"]) == lake.taken(tables["spark"])
    again = lake.ingest(raw, tables["spark"], place=place)
    assert (again.rows, again.skipped) == (0, 2)


@pytest.mark.spark
def test_spark_makes_of_orc_what_arrow_makes_of_parquet(lake: Lake, raw: Raw) -> None:
    rows = {"id": pa.array([1, 2], pa.int32()), "s": ["a", None], "l": [[1.5], None]}
    body = io.BytesIO()
    pyarrow.orc.write_table(pa.table(rows), body)
    raw.put("orc/1.orc", body.getvalue())
    raw.put("parquet/1.parquet", parquet(rows))
    lake.ingest(raw, "same_spark.orc", prefix="orc/", format="orc", engine="auto")
    lake.ingest(raw, "same_arrow.orc", prefix="parquet/", format="parquet", engine="arrow")
    one, other = (outcome(lake.catalog, f"same_{engine}.orc") for engine in ("arrow", "spark"))
    assert one == other
    assert [place for place, _ in lake.taken("same_spark.orc")] == [raw.uri("orc/1.orc")]


REFUSED: dict[str, tuple[str, str | bytes, dict[str, Any], str]] = {
    "a row with too many columns": (
        "2.csv", "id,n\n1,a\n2,b,c\n", {}, r"in/2\.csv: line 3 has 3 columns, the header has 2$",
    ),
    "a row with too few columns after one of two lines": (
        "2.csv", 'id,n\n1,"a\nb"\n2\n', {}, r"in/2\.csv: line 4 has 1 columns, the header has 2$",
    ),
    "a value that the table's column cannot take": (
        "2.csv", "id,n\n1,a\nx7,b\n", {},
        r"in/2\.csv: line 3, column 'id': 'x7' is not a whole number, and the column has "
        r"the type int$",
    ),
    "Latin-1 without saying so": (
        "2.csv", "id,n\n1,a\n2,é\n".encode("latin-1"), {},
        r"in/2\.csv: line 3 is not UTF-8; name the file's encoding, like --option "
        r"encoding=ISO-8859-1$",
    ),
    "JSON in Latin-1 without saying so": (
        "2.json", '{"n": "a"}\n{"n": "é"}\n'.encode("latin-1"), {"format": "json"},
        r"in/2\.json: line 2 is not UTF-8; name the file's encoding, like --option "
        r"encoding=ISO-8859-1$",
    ),
    "semicolons without saying so": (
        "2.csv", "id;n\n1;a\n", {},
        r"in/2\.csv: its header has no ',' but 1 ';'; if they separate its columns: "
        r"--option 'sep=;', if not: --option 'sep=,'$",
    ),
    "a file of another format": (
        "README.md", "# Hello\n", {},
        r"in/README\.md does not look like csv; leave it out with a pattern, like --from "
        r"'s3://pipeline-raw-\d+/in/\*\.csv', or name its --format$",
    ),
    "a file that is not text": (
        "2.csv", b"PK\x03\x04\0\0", {}, r"in/2\.csv is not text: it has a zero byte",
    ),
    "a line that is not JSON": (
        "2.json", '{"id": 1}\n{"id": 2\n', {"format": "json"},
        r"in/2\.json: line 2 is not JSON: Expecting ',' delimiter$",
    ),
    "a line of JSON that is no object": (
        "2.json", '{"id": 1}\n3\n', {"format": "json"},
        r"in/2\.json: line 2 is not JSON: it is not an object$",
    ),
    "a broken array of JSON": (
        "2.json", '[{"id": 1},\n{"id": 2}\n', {"format": "json"}, r"in/2\.json: line 3 is not JSON",
    ),
}  # fmt: skip


def refused(ingest_with: Any, raw: Raw, state: Any, table: str, name: str) -> None:
    key, body, changes, said = REFUSED[name]
    raw.put("first/1.csv", "id,n\n1,a\n")
    ingest_with(raw, table, prefix="first/")
    before = state(table)
    raw.put(f"in/{key}", body)
    with pytest.raises((errors.BadSource, errors.BadArgument), match=said):
        ingest_with(raw, table, **changes)
    assert state(table) == before


@pytest.mark.parametrize("name", REFUSED)
def test_arrow_names_file_line_and_column_and_changes_nothing(
    small: Small, raw: Raw, name: str
) -> None:
    refused(small.ingest, raw, small.state, f"refused.t{list(REFUSED).index(name)}", name)


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    examples.short(
        REFUSED,
        "a row with too many columns",
        "a value that the table's column cannot take",
        "a line that is not JSON",
        "Latin-1 without saying so",
    ),
)
def test_spark_names_file_line_and_column_and_changes_nothing(
    lake: Lake, raw: Raw, name: str
) -> None:
    refused(lake.ingest, raw, lake.state, f"refused_spark.t{list(REFUSED).index(name)}", name)


def test_a_schema_holds_for_new_columns_and_must_agree_with_the_table_s(
    small: Small, raw: Raw
) -> None:
    raw.put("in/1.csv", "id,n\n1,x\n")
    with pytest.raises(errors.BadSource) as caught:
        small.ingest(raw, "declared.t", types={"n": "long"})
    assert str(caught.value) == (
        f"{raw.uri('in/1.csv')}: line 2, column 'n': 'x' is not a whole number, and the column has "
        "the type long"
    )
    small.ingest(raw, "declared.t", types={"id": "long"})
    assert small.types("declared.t") == {"id": "long", "n": "string"}
    raw.put("in/2.csv", "id,n\n2,y\n")
    with pytest.raises(errors.BadArgument) as refused_schema:
        small.ingest(raw, "declared.t", types={"id": "double"})
    assert str(refused_schema.value) == (
        "--schema gives column 'id' the type double, but the table's column has the type long"
    )
    columns = loads.columns(small.server, settings.parse_table("lake.declared.t"))
    assert columns == {"id": "long", "n": "string"}
    small.ingest(raw, "declared.u", types=columns)
    assert small.types("declared.u") == {"id": "long", "n": "string"}


@pytest.mark.parametrize("column_type", ["decimal(9,2)", "timestamp", "decimal(38,0)"])
def test_a_schema_that_is_the_table_s_agrees_with_it(
    small: Small, raw: Raw, column_type: str
) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import DecimalType, NestedField, TimestampType

    types = {
        "decimal(9,2)": DecimalType(9, 2),
        "decimal(38,0)": DecimalType(38, 0),
        "timestamp": TimestampType(),
    }
    table = f"agreed.t{list(types).index(column_type)}"
    small.catalog.create_namespace_if_not_exists("agreed")
    small.catalog.create_table(table, Schema(NestedField(1, "x", types[column_type])))
    raw.put("in/1.csv", "x\n1\n" if "decimal" in column_type else "x\n2026-01-01T00:00\n")
    # The last is read without Spark; the others are left to it.
    if column_type == "decimal(38,0)":
        assert small.ingest(raw, table, types={"x": column_type}).rows == 1
    else:
        with pytest.raises(errors.BadArgument, match=r"^--engine arrow does not load a column of"):
            small.ingest(raw, table, types={"x": column_type})


FOR_SPARK: dict[str, tuple[str, str | bytes, dict[str, Any], str]] = {
    "an option of Spark alone": (
        "1.csv", "a\n1\n", {"options": {"comment": "#"}}, "--option comment",
    ),
    "a line of separators that are white space": (
        "1.csv", "a\tb\tc\n1\t2\t3\n\t\t\n", {"options": {"sep": "\t"}}, "a line of white space",
    ),
    "a line of white space": ("1.csv", "a\n1\n  \r\n2\n", {}, "a line of white space"),
    "a value of white space in quotes": ("1.csv", 'a\n1\n" "\n', {}, "a line of white space"),
    "line ends inside quotes where lines end with CR": (
        "1.csv", 'a,b\r1,"x\ry"\r', {}, "line ends inside quotes where lines end with CR",
    ),
    "odd quotes": ("1.csv", 'a,b\n"x"y,1\n', {}, "'\"' expected|',' expected after '\"'"),
    "one name twice": ("1.csv", "a,A\n1,2\n", {}, "one name twice"),
    "JSON with two types under a name": (
        "1.json", '{"a": 1}\n{"a": "x"}\n', {"format": "json"}, "values of two types",
    ),
    "JSON with NaN": ("1.json", '{"a": NaN}\n', {"format": "json"}, "JSON with NaN"),
    "JSON with half a surrogate pair": (
        "1.json", '{"a":"\\ud83d"}\n', {"format": "json"}, "JSON with half of a surrogate pair",
    ),
    "JSON with half a surrogate pair in a name": (
        "1.json", '{"\\ud83d":1}\n', {"format": "json"}, "JSON with half of a surrogate pair",
    ),
    "JSON with a number of 5,000 digits": (
        "1.json", '{"a":1}\n{"a":-' + "7" * 5000 + "}\n", {"format": "json"},
        "JSON with a whole number of more than 64 bits",
    ),
    "JSON with a number of 20 digits": (
        "1.json", '{"a":[10000000000000000000]}', {"format": "json"},
        "JSON with a whole number of more than 64 bits",
    ),
    "Parquet of unsigned numbers": (
        "1.parquet", parquet({"a": pa.array([1], pa.uint32())}), {"format": "parquet"}, "uint32",
    ),
    "two transforms of one column": (
        "1.csv", "day\n2026-01-01\n",
        {"partitions": settings.parse_partitions("bucket(2, day), bucket(4, day)")},
        "two partition transforms",
    ),
    "orc": ("1.orc", b"ORC", {"format": "orc"}, "orc"),
    "a merge by a fraction": (
        "1.csv", "a\n1.5\n", {"mode": "merge", "merge": jobs.Merge(key=("a",))},
        "--key of type double",
    ),
    "a merge of different rows with one key and one order": (
        "1.csv", "a,t,v\n1,1,x\n1,1,y\n",
        {"mode": "merge", "merge": jobs.Merge(key=("a",), order_by="t")},
        "different rows of one key with the same --order-by",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOR_SPARK)
def test_what_arrow_would_do_otherwise_goes_to_spark_and_nothing_is_written(
    small: Small, raw: Raw, name: str
) -> None:
    key, body, changes, reason = FOR_SPARK[name]
    raw.put(f"in/{key}", body)
    table = f"for_spark.t{list(FOR_SPARK).index(name)}"
    with pytest.raises(errors.BadArgument, match=r"^--engine arrow does not load ") as caught:
        small.ingest(raw, table, **changes)
    with pytest.raises(AssertionError, match="Spark was started"):
        small.ingest(raw, table, engine="auto", **changes)
    assert small.said[-1].startswith("Spark loads this, because of ")
    assert re.search(reason, str(caught.value))
    assert small.state(table) is None
    assert small.data_files(table) == []


def test_a_load_larger_than_the_bound_goes_to_spark(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "SOURCE_BYTES_MAX", 10)
    raw.put("in/1.csv", "id\n1\n2\n3\n4\n")
    with pytest.raises(AssertionError, match="Spark was started"):
        small.ingest(raw, "larger.t", engine="auto")
    monkeypatch.setattr(arrow, "SOURCE_BYTES_MAX", 11)
    assert small.ingest(raw, "larger.t", engine="auto").rows == 4


def test_a_packed_file_that_holds_more_than_the_bound_goes_to_spark(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "UNPACKED_BYTES_MAX", 1000)
    raw.put("in/1.csv.gz", gzip.compress(b"id\n" + b"1\n" * 5000))
    with pytest.raises(AssertionError, match="Spark was started"):
        small.ingest(raw, "unpacked.t", engine="auto")


LONG_TEXT = "x" * 100_000
# What a row group of a small Parquet file holds: name -> (columns, options of the writer).
UNPACKING: dict[str, tuple[dict[str, list[Any]], dict[str, Any]]] = {
    "one long text in every row": ({"s": [LONG_TEXT] * 100}, {}),
    "one long text in every list and struct": ({"l": [[{"s": LONG_TEXT.encode()}]] * 100}, {}),
    "texts with one beginning": (
        {"s": [LONG_TEXT] * 100},
        {"use_dictionary": False, "column_encoding": {"s": "DELTA_BYTE_ARRAY"}},
    ),
    "one whole number in every row": ({"n": [7] * 1_000_000}, {}),
    "one long list": ({"l": [[7] * 1_000_000]}, {}),
}


def unpacking(columns: Mapping[str, Any], options: Mapping[str, Any], groups: int) -> bytes:
    part, body = pa.table(dict(columns)), io.BytesIO()
    with pyarrow.parquet.ParquetWriter(body, part.schema, **options) as writer:
        for _ in range(groups):
            writer.write_table(part)
    return body.getvalue()


@pytest.mark.parametrize("name", UNPACKING)
def test_a_small_parquet_file_that_unpacks_to_more_than_the_bound_goes_to_spark(
    small: Small, raw: Raw, name: str
) -> None:
    body = unpacking(*UNPACKING[name], groups=25)
    assert len(body) < 1_000_000
    raw.put("in/1.parquet", body)
    # The most that Arrow had allocated at once, since the process began.
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(AssertionError, match="Spark was started"):
        small.ingest(raw, "unpacked_parquet.t", engine="auto", format="parquet")
    assert small.said[-1] == "Spark loads this, because of more than 67 MB of unpacked values"
    after = pa.default_memory_pool().max_memory()
    assert after == before or after < arrow.UNPACKED_BYTES_MAX


def test_the_bound_holds_for_all_parquet_files_of_a_load_together(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "UNPACKED_BYTES_MAX", 20_000_000)
    body = unpacking({"s": [LONG_TEXT] * 60, "st": [{"l": ["a", None]}] * 60}, {}, groups=2)
    raw.put("in/1.parquet", body)
    assert small.ingest(raw, "bound_parquet.t", format="parquet").rows == 120
    raw.put("in/2.parquet", body)
    with pytest.raises(AssertionError, match="Spark was started"):
        small.ingest(raw, "bound_parquet.u", engine="auto", format="parquet")


def test_arrow_loads_each_object_once_and_only_what_is_new(small: Small, raw: Raw) -> None:
    one = raw.put("in/1.csv", "id\n1\n")
    done = small.ingest(raw, "once.deeper.t")
    assert (done.rows, done.sources, done.skipped, done.files) == (1, 1, 0, 1)
    table = small.catalog.load_table("once.deeper.t")
    assert done.snapshot_id == table.current_snapshot().snapshot_id
    assert len(table.metadata.snapshots) == 1
    assert table.metadata.metadata_log == [], "the creation was a commit of its own"
    assert json.loads(table.current_snapshot().summary["boathouse.loads"]) == [
        {"source": raw.uri("in/1.csv"), "etag": one}
    ]
    assert small.ingest(raw, "once.deeper.t").snapshot_id is None
    raw.put("in/2.csv", "id\n2\n")
    more = small.ingest(raw, "once.deeper.t")
    assert (more.rows, more.sources, more.skipped) == (1, 1, 1)
    assert small.rows("once.deeper.t") == [{"id": 1}, {"id": 2}]


def test_arrow_loads_nothing_of_a_source_written_anew_while_it_is_read(
    small: Small, raw: Raw
) -> None:
    raw.put("in/1.csv", "id\n1\n")

    def say(line: str) -> None:
        if line.startswith("loading "):
            raw.put("in/1.csv", "id\n2\n")

    with pytest.raises(errors.SourceChanged, match=r"in/1\.csv changed while it was being read"):
        small.ingest(raw, "moving_small.t", say=say)
    assert small.state("moving_small.t") is None
    assert small.data_files("moving_small.t") == []
    assert ("moving_small",) not in small.catalog.list_namespaces()


def test_files_of_a_load_that_goes_to_spark_while_it_writes_are_given_back(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw.put("in/1.csv", "id\n1\n2\n3\n")
    write = pyarrow.parquet.ParquetWriter.write

    def refusing(writer: Any, rows: Any, **options: Any) -> Any:
        if rows.column("id").to_pylist() == [2]:
            raise pa.ArrowInvalid("no such value")
        return write(writer, rows, **options)

    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "write", refusing)
    partitions = settings.parse_partitions("id")
    with pytest.raises(errors.BadArgument, match=r"--engine arrow does not load no such value"):
        small.ingest(raw, "half_written.t", partitions=partitions)
    assert small.data_files("half_written.t") == []
    assert small.state("half_written.t") is None
    assert ("half_written",) not in small.catalog.list_namespaces()


def test_of_two_small_loads_of_the_same_sources_one_loads_them(small: Small, raw: Raw) -> None:
    raw.put("in/0.csv", "id\n0\n")
    small.ingest(raw, "overtaken.t")
    raw.put("in/1.csv", "id\n1\n")
    inside: list[jobs.Loaded] = []

    def say(line: str) -> None:
        small.said.append(line)
        if line.startswith("committing ") and not inside:
            inside.append(small.ingest(raw, "overtaken.t"))

    outside = small.ingest(raw, "overtaken.t", say=say)
    assert (inside[0].rows, outside.rows, outside.skipped, outside.snapshot_id) == (1, 0, 2, None)
    assert (
        "another job has just loaded some of these objects into lake.overtaken.t; trying again"
    ) in small.said
    assert small.rows("overtaken.t") == [{"id": 0}, {"id": 1}]
    assert len(small.data_files("overtaken.t")) == 2, "the loser's files were given back"


def test_a_replacing_small_load_that_meets_another_commit_leaves_just_its_sources(
    small: Small, raw: Raw
) -> None:
    raw.put("in/0.csv", "id\n0\n")
    raw.put("other/9.csv", "id\n9\n")
    small.ingest(raw, "replace_met.t")
    inside: list[jobs.Loaded] = []

    def say(line: str) -> None:
        if line.startswith("committing ") and not inside:
            inside.append(small.ingest(raw, "replace_met.t", prefix="other/"))

    assert small.ingest(raw, "replace_met.t", mode="replace", say=say).rows == 1
    assert small.rows("replace_met.t") == [{"id": 0}]


def test_a_small_load_into_the_name_of_a_view_is_refused_as_such(
    small: Small, raw: Raw, server: server_kit.Running
) -> None:
    raw.put("in/1.csv", "id\n1\n")
    small.catalog.create_namespace_if_not_exists("small_views")
    with lake_client.session(server, "small_views") as sql:
        sql.answer("create view v as select 1 as id")
    with pytest.raises(errors.BadArgument, match=r"lake\.small_views\.v is a view"):
        small.ingest(raw, "small_views.v")


@pytest.mark.parametrize("committed", [False, True])
def test_a_small_load_whose_commit_got_no_answer_is_finished_by_the_next_run(
    small: Small, raw: Raw, committed: bool
) -> None:
    table = f"unanswered_small_{committed}.t"
    raw.put("in/1.csv", "id\n1\n")

    def commits(method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/tables/t")

    watches = {"after" if committed else "before": commits}
    with wire.door(small.server.url, **watches) as door:
        load = a_load(f"lake.{table}", place=raw.place("in/"), engine="arrow")
        server = dataclasses.replace(small.server, url=door.url)
        with pytest.raises(errors.OutcomeUnknown, match="the answer to the commit was lost"):
            ingest.run(server, load, open_spark=no_spark, say=small.said.append)
    again = small.ingest(raw, table)
    assert (again.rows, again.skipped) == ((0, 1) if committed else (1, 0))
    assert small.rows(table) == [{"id": 1}]


@pytest.mark.parametrize("silent", ["/v1/oauth/tokens", "/v1/config"])
def test_a_catalog_that_accepts_a_request_and_never_answers_is_no_server(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    monkeypatch.setattr(catalogs, "ANSWER_SECONDS", 0.5)
    over = threading.Event()

    def never_answered(method: str, path: str) -> bool:
        return silent in path and over.wait(SILENT_SECONDS)

    nothing = sources.WantedSources(fresh=(), skipped=0)
    load = a_load("lake.silent.t", place=raw.place("in/"))
    with wire.door(small.server.url, before=never_answered) as door:
        server = dataclasses.replace(small.server, url=door.url)
        try:
            with pytest.raises(errors.NoServer, match="Read timed out"):
                arrow.plan(server, load, raw.s3, nothing)
        finally:
            over.set()


def test_local_files_are_sources_by_their_content(small: Small, raw: Raw, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "_hidden").mkdir()
    (tmp_path / "1.csv").write_text("id\n1\n")
    (tmp_path / "deep" / "2.csv").write_text("id\n2\n")
    (tmp_path / "_hidden" / "3.csv").write_text("id\n3\n")
    (tmp_path / "deep" / "4.txt").write_text("id\n4\n")
    place = settings.parse_place(f"{tmp_path}/**/*.csv")
    assert small.ingest(raw, "local.t", place=place).rows == 2
    assert small.ingest(raw, "local.t", place=place).snapshot_id is None
    (tmp_path / "1.csv").write_text("id\n10\n")
    assert small.ingest(raw, "local.t", place=place).rows == 1
    assert small.rows("local.t") == [{"id": 1}, {"id": 10}, {"id": 2}]
    whole = settings.parse_place(str(tmp_path))
    assert small.ingest(raw, "local.t", place=whole).rows == 1
    single = settings.parse_place(str(tmp_path / "_hidden" / "3.csv"))
    assert small.ingest(raw, "local.t", place=single).rows == 1
    with pytest.raises(errors.BadArgument, match=r"^there is no file or folder /no/such/place$"):
        small.ingest(raw, "local.t", place=settings.parse_place("/no/such/place"))


def planned(columns: tuple[jobs.PlannedColumn, ...]) -> list[tuple[str, str, str]]:
    return [(column.name, column.type, column.change) for column in columns]


PLAN_FILES = ("id,name,day\n1,a,2026-01-09\n", "name,id,more\nb,3000000000,1.5\n")


def plans_without_writing(ingest_with: Any, plan: Any, raw: Raw, state: Any, table: str) -> None:
    """Plan a first load and a later one; each says what the load then does."""
    raw.put("in/1.csv", PLAN_FILES[0])
    day = settings.parse_partitions("month(day)")
    first = plan(table, partitions=day)
    assert state(table) is None
    assert (first.creates_table, first.sources, first.skipped, first.size_bytes) == (
        True, 1, 0, len(PLAN_FILES[0]),
    )  # fmt: skip
    assert planned(first.columns) == [
        ("id", "int", ""),
        ("name", "string", ""),
        ("day", "date", ""),
    ]
    assert first.partitions == ("month(day)",)
    assert list(first.first_rows) == [
        {"id": 1, "name": "a", "day": datetime.date(2026, 1, 9)},
    ]
    ingest_with(raw, table, partitions=day)
    before = state(table)
    assert plan(table) is None

    raw.put("in/2.csv", PLAN_FILES[1])
    later = plan(table)
    assert state(table) == before
    assert (later.creates_table, later.sources, later.skipped) == (False, 1, 1)
    assert planned(later.columns) == [
        ("id", "long", "was int"), ("name", "string", ""), ("day", "date", ""),
        ("more", "double", "new"),
    ]  # fmt: skip
    assert later.partitions == ("month(day)",)
    assert list(later.first_rows) == [{"name": "b", "id": 3_000_000_000, "more": 1.5}]


def test_a_plan_of_a_small_load_says_what_it_would_do_and_writes_nothing(
    small: Small, raw: Raw
) -> None:
    def plan(table: str, **changes: Any) -> jobs.LoadPlan | None:
        load = a_load(f"lake.{table}", place=raw.place("in/"), engine="arrow", **changes)
        return ingest.plan(small.server, load, open_spark=no_spark, say=small.said.append)

    plans_without_writing(small.ingest, plan, raw, small.state, "planned_small.t")
    assert ("planned_small",) in small.catalog.list_namespaces()


@pytest.mark.spark
def test_a_plan_of_a_load_by_spark_says_what_it_would_do_and_writes_nothing(
    lake: Lake, raw: Raw
) -> None:
    def plan(table: str, **changes: Any) -> jobs.LoadPlan | None:
        load = a_load(f"lake.{table}", place=raw.place("in/"), engine="spark", **changes)
        return ingest.plan(lake.server, load, open_spark=lake.open_spark, say=lake.said.append)

    plans_without_writing(lake.ingest, plan, raw, lake.state, "planned_spark.t")
