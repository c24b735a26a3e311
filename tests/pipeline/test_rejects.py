"""Rows that cannot be read: in a table of their own, in one commit, the same by both engines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import __main__ as command
from pipeline import (
    errors,
    ingest,
    interrupts,
    jobs,
    loads,
    reading,
    settings,
    sources,
    splitting,
)
from tests.kit import examples
from tests.kit import server as server_kit
from tests.pipeline.lake import Lake, Raw, Small, a_load, no_spark

Rejected = list[tuple[str, int, str, str]]
"""File, line, a part of the reason, and text."""

# name -> files, changes of the load, the ids that are loaded, the rejected rows.
CASES: dict[str, tuple[dict[str, str | bytes], dict[str, Any], list[Any], Rejected]] = {
    "fields of CSV": (
        {"1.csv": "id,n\n1,a\n2\n3,b,c\n4,d\n", "2.csv": "id,n\n5,e\n"},
        {},
        [1, 4, 5],
        [("1.csv", 3, "has 1 columns, the header has 2", "2"),
         ("1.csv", 4, "has 3 columns, the header has 2", "3,b,c")],
    ),
    "types of a schema": (
        {"1.csv": "id,at\n1,2026-01-31\nx,2026-01-31\n3,2026-02-30\n4,\n2147483648,\n"},
        {"types": {"id": "int", "at": "date"}},
        [1, 4],
        [("1.csv", 3, "column 'id': 'x' is not a whole number", "x,2026-01-31"),
         ("1.csv", 4, "column 'at': '2026-02-30' is not a date", "3,2026-02-30"),
         ("1.csv", 6, "column 'id': '2147483648' is not", "2147483648,")],
    ),
    "bytes that are no text": (
        {"1.csv": b"id,n\n1,\xc3\xa9\n2,\xe9\n3,a\0b\n4,c\n"},
        {},
        [1, 4],
        [("1.csv", 3, "is not UTF-8", "2,\\xe9"), ("1.csv", 4, "has a zero byte", "3,a\0b")],
    ),
    "quotes": (
        {"1.csv": 'id,n\n1,"a\nb"\n2,"c"d\n3,"e""f"\n4,"g\n5,h\n'},
        {},
        [1, 3, 5],
        [("1.csv", 4, "is not CSV", '2,"c"d'), ("1.csv", 6, "a quote without an end", '4,"g')],
    ),
    "records of several lines, packed, line ends of Windows": (
        {"1.csv.gz": gzip.compress(b'id,n\r\n1,a\r\n2,"x\r\ny",z\r\n3,"p\r\nq"\r\n')},
        {},
        [1, 3],
        [("1.csv.gz", 3, "has 3 columns", '2,"x\r\ny",z')],
    ),
    "lines of JSON": (
        {"1.json": b'{"id": 1}\n{"id": 2\n[{"id": 3}, {"id": 4}]\n5\n\n{"id": 6, "n": "\xff"}\n'},
        {"format": "json"},
        [1, 3, 4],
        [("1.json", 2, "is not JSON", '{"id": 2'), ("1.json", 4, "it is not an object", "5"),
         ("1.json", 6, "is not UTF-8", '{"id": 6, "n": "\\xff"}')],
    ),
    "a first line that is not JSON": (
        {"1.json": '{"id": \n{"id": 2}\n'},
        {"format": "json"},
        [2],
        [("1.json", 1, "is not JSON", '{"id": ')],
    ),
    "a document of several lines": (
        {"1.json": '[{"id": 1},\n {"id": 2}]\n', "2.json": '{"id": 3}\n{"id"}\n'},
        {"format": "json"},
        [1, 2, 3],
        [("2.json", 2, "is not JSON", '{"id"}')],
    ),
}  # fmt: skip


def check(lake: Small | Lake, raw: Raw, table: str, name: str) -> None:
    files, changes, ids, expected = CASES[name]
    for key, body in files.items():
        raw.put(f"in/{key}", body)
    done = lake.ingest(raw, table, on_error="reject", **changes)
    assert sorted(row["id"] for row in lake.rows(table)) == ids
    assert (done.rows, done.rejected) == (len(ids), len(expected))
    rows = lake.catalog.load_table(f"{table}__rejected").scan().to_arrow().to_pylist()
    rows.sort(key=lambda row: (row["source"], row["line"]))
    assert [(row["source"], row["line"], row["raw"]) for row in rows] == [
        (raw.uri(f"in/{key}"), line, text) for key, line, _, text in expected
    ]
    for row, (_, _, reason, _) in zip(rows, expected, strict=True):
        assert reason in row["reason"]
        assert row["rejected_at"] is not None
    assert {
        place for place, _ in loads.taken(lake.server, settings.parse_table(f"lake.{table}"))
    } == {raw.uri(f"in/{key}") for key in files}
    again = lake.ingest(raw, table, on_error="reject", **changes)
    assert (again.snapshot_id, again.rejected) == (None, 0)


@pytest.mark.parametrize("name", CASES)
def test_rows_that_cannot_be_read_are_rejected_with_line_reason_and_text(
    small: Small, raw: Raw, name: str
) -> None:
    check(small, raw, f"rejects.t{list(CASES).index(name)}", name)


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    examples.short(
        CASES, "fields of CSV", "types of a schema", "lines of JSON", smoke=("fields of CSV",)
    ),
)
def test_spark_rejects_the_same_rows(lake: Lake, raw: Raw, name: str) -> None:
    check(lake, raw, f"rejects_spark.t{list(CASES).index(name)}", name)


def rejected(lake: Small | Lake, table: str) -> list[str]:
    """Return the texts of the rejected rows."""
    rows = lake.catalog.load_table(f"{table}__rejected").scan().to_arrow().to_pylist()
    return sorted(row["raw"] for row in rows)


def into_a_live_table(lake: Small | Lake, raw: Raw, table: str) -> None:
    raw.put("in/1.csv", "id,n,price\n1,a,1.5\n")
    lake.ingest(raw, table, on_error="reject")
    assert not lake.catalog.table_exists(f"{table}__rejected")
    raw.put("in/2.csv", "id,n,more\n3000000000,b,x\nthree,c,y\n4,d,z\n")
    done = lake.ingest(raw, table, on_error="reject")
    assert (done.rows, done.rejected, done.columns_added) == (2, 1, ("more",))
    assert sorted(row["id"] for row in lake.rows(table)) == [1, 4, 3000000000]
    raw.put("in/3.csv", "id\nfour\n5\n")
    lake.ingest(raw, table, on_error="reject")
    assert rejected(lake, table) == ["four", "three,c,y"]
    raw.put("again/1.csv", "id\nsix\n7\n")
    lake.ingest(raw, table, prefix="again/", mode="replace", on_error="reject")
    assert [row["id"] for row in lake.rows(table)] == [7]
    assert rejected(lake, table) == ["six"]
    raw.put("once/1.csv", "id\n8\n")
    lake.ingest(raw, table, prefix="once/", mode="replace", on_error="reject")
    assert rejected(lake, table) == []


def test_a_live_tables_types_reject_rows_and_a_replacing_load_replaces_them(
    small: Small, raw: Raw
) -> None:
    into_a_live_table(small, raw, "rejects_live.t")


@pytest.mark.spark
def test_a_live_tables_types_reject_rows_by_spark_too(lake: Lake, raw: Raw) -> None:
    into_a_live_table(lake, raw, "rejects_live_spark.t")


@pytest.mark.spark
def test_a_merge_with_checks_rejects_rows_of_json(lake: Lake, raw: Raw) -> None:
    raw.put("in/1.json", '{"id": 1, "at": 1, "tags": ["a"]}\n')
    lake.ingest(raw, "rejects_merge.t", format="json")
    raw.put("in/2.json", '{"id": 1, "at": 2, "tags": ["b"]}\n{"id": "x"}\n{"id": 2, "tags": 5}\n')
    done = lake.ingest(
        raw, "rejects_merge.t", format="json", on_error="reject", mode="merge",
        merge=jobs.Merge(key=("id",)),
        checks=(jobs.SqlCheck(name="ids", sql="select * from target where id < 0"),),
    )  # fmt: skip
    assert (done.rows, done.rejected) == (1, 2)
    assert [(row["id"], row["at"]) for row in lake.rows("rejects_merge.t")] == [(1, 2)]
    assert rejected(lake, "rejects_merge.t") == ['{"id": "x"}', '{"id": 2, "tags": 5}']


REFUSED: dict[str, tuple[dict[str, str | bytes], dict[str, Any], str]] = {
    "no row": ({"1.csv": "id,n\n1\n2\n"}, {}, "no row can be read, first s3://.*1.csv: line 2 has"),
    "a header that is no text": ({"1.csv": b"id,\xff\n1,a\n"}, {}, "1.csv: line 1 is not UTF-8"),
    "a broken file": (
        {"1.csv": "id\n1\n", "2.csv.gz": gzip.compress(b"id\n1\n" * 99)[:-9]}, {}, "2.csv.gz cannot"
    ),
    "a row of a document": (
        {"1.json": '[{"id": 1},\n 2]'}, {"format": "json"}, "1.json is not JSON: it is not an obj"
    ),
    "another separator": ({"1.csv": "id;n\n1;a\n2;b;c\n"}, {}, "1.csv: its header has no ','"),
    "other formats": ({"1.parquet": b""}, {"format": "parquet"}, "reject is for csv and json"),
    "options of Spark": (
        {"1.csv": "id\n1\n"}, {"options": {"comment": "#"}}, "does not go with --option comment"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_rejected_row_mends_fails_and_changes_nothing(
    small: Small, raw: Raw, name: str
) -> None:
    files, changes, message = REFUSED[name]
    for key, body in files.items():
        raw.put(f"in/{key}", body)
    table = f"rejects_refused.t{list(REFUSED).index(name)}"
    with pytest.raises(errors.PipelineError, match=message) as raised:
        small.ingest(raw, table, on_error="reject", **changes)
    assert "file://" not in str(raised.value)
    assert not small.catalog.table_exists(table)
    assert not small.catalog.table_exists(f"{table}__rejected")


def test_a_table_of_another_form_under_the_name_is_not_written(small: Small, raw: Raw) -> None:
    raw.put("own/1.csv", "id\n1\n")
    small.ingest(raw, "rejects_own.t__rejected", prefix="own/")
    before = small.state("rejects_own.t__rejected")
    raw.put("in/1.csv", "id,n\n1,a\n2\n")
    with pytest.raises(errors.BadArgument, match="is not a table of rejected rows"):
        small.ingest(raw, "rejects_own.t", on_error="reject")
    assert not small.catalog.table_exists("rejects_own.t")
    assert small.state("rejects_own.t__rejected") == before


def test_two_loads_that_reject_at_once_keep_the_rows_of_both(small: Small, raw: Raw) -> None:
    raw.put("in/1.csv", "id,n\n1,a\n2\n")
    raw.put("other/1.csv", "id,n\n3,a\n4\n")
    small.ingest(raw, "rejects_race.t", on_error="reject")
    raw.put("in/2.csv", "id,n\n5,a\n6\n")
    said: list[str] = []

    def say(text: str) -> None:
        if text.startswith("committing") and not said:
            said.append(text)
            small.ingest(raw, "rejects_race.t", prefix="other/", on_error="reject")

    small.ingest(raw, "rejects_race.t", on_error="reject", say=say)
    assert [row["id"] for row in small.rows("rejects_race.t")] == [1, 3, 5]
    assert rejected(small, "rejects_race.t") == ["2", "4", "6"]


def test_a_pipelines_file_rejects_rows_and_a_load_without_the_option_fails(
    server: server_kit.Running,
    small: Small,
    raw: Raw,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    raw.put("in/1.csv", "id,n\n1,a\n2\n")
    (tmp_path / "p.toml").write_text(
        f'target = "lake.rejects_file.t"\non_error = "reject"\n'
        f'[source]\nfrom = ["{raw.uri("in/")}"]\n'
    )
    common = ["--data", str(server.data)]
    arguments = ["run", "p", "--pipelines", str(tmp_path), "--json", *common]
    assert command.main(arguments, interrupts.Interrupts()) == 0
    answer = capsys.readouterr()
    assert json.loads(json.loads(answer.out)["detail"])["rejected"] == 1
    assert "rejected 1 row into lake.rejects_file.t__rejected" in answer.err
    assert rejected(small, "rejects_file.t") == ["2"]
    raw.put("in/2.csv", "id,n\nx\n")
    arguments = ["ingest", "--from", raw.uri("in/"), "--to", "lake.rejects_file.t", *common]
    assert command.main(arguments, interrupts.Interrupts()) == 1
    assert f"{raw.uri('in/2.csv')}: line 2 has 1 columns" in capsys.readouterr().err


def test_a_cluster_cannot_reject_rows(
    server: server_kit.Running, raw: Raw, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["ingest", "--from", raw.uri("in/"), "--to", "lake.rejects_far.t", "--on-error",
                 "reject", "--master", "spark://far:7077", "--data", str(server.data)]  # fmt: skip
    assert command.main(arguments, interrupts.Interrupts()) == 2
    assert "--on-error reject reads copies on this machine" in capsys.readouterr().err


def test_more_rejected_rows_than_the_bound_fail_the_load(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "REJECTED_MAX", 3)
    raw.put("in/1.csv", "id,n\n1,a\n" + "2\n" * 4)
    with pytest.raises(errors.BadSource, match="more than 3 rows cannot be read, first s3:"):
        small.ingest(raw, "rejects_many.t", on_error="reject")
    raw.put("in/1.csv", "id,n\n1,a\n" + "2\n" * 3)
    assert small.ingest(raw, "rejects_many.t", on_error="reject").rejected == 3


@pytest.mark.parametrize(
    ("column_type", "fits", "misfits"),
    [
        ("decimal(4,2)", ("99.99", "-99.994", "1e1", "0"), ("99.995", "100", "1e9", "x", "NaN")),
        ("decimal(38,0)", ("9" * 38,), ("1" + "0" * 38,)),
        ("long", (str(2**63 - 1), str(-(2**63 - 1))), (str(2**63), "1.0", "007", " 1")),
        ("boolean", ("TRUE", "false"), ("1", "yes")),
        ("timestamptz", ("2026-01-31", "2026-01-31 10:00Z"), ("2026-01-32", "10:00")),
        ("string", ("x", " "), ()),
    ],
)
def test_a_value_fits_its_columns_type_or_its_row_is_rejected(
    raw: Raw,
    tmp_path: Path,
    column_type: str,
    fits: tuple[str, ...],
    misfits: tuple[str, ...],
) -> None:
    raw.put("in/1.csv", "id,v\n" + "".join(f"1,{value}\n" for value in (*fits, *misfits)))
    listed = sources.listed_at(raw.s3, [raw.place("in/")])
    reader = reading.reader("csv", {})
    done = splitting.split(
        raw.s3, reader, sources.WantedSources(fresh=listed, skipped=0), {"v": column_type}, {},
        tmp_path,
    )  # fmt: skip
    assert [row.raw for row in done.rejected] == [f"1,{value}" for value in misfits]


STRUCT = {"type": "struct", "fields": [{"name": "x", "type": "long"}]}


@pytest.mark.parametrize(
    ("column_type", "fits", "misfits"),
    [
        ("double", ("1", "1.5", '"NaN"', "null"), ("[1]", '{"x": 1}', '"1"', "true")),
        ("long", ("1", str(2**63 - 1)), (str(2**63), "1.0", "true", "[]", "1" * 5000)),
        ("boolean", ("true",), ("1", '"true"', "{}")),
        ("decimal(4,2)", ("1.5", "99"), ("100", "[]", '"x"')),
        ("timestamptz", ('"2026-01-31"', "5"), ('"x"', "[]", "1.5", "true")),
        ("string", ('"x"', "1", "[]"), ()),
        ({"type": "list", "element": "int"}, ("[1, null]",), ("1", '["x"]', "{}")),
        ({"type": "map", "key": "string", "value": "int"}, ('{"a": 1}',), ("[]", '{"a": "x"}')),
        (STRUCT, ('{"X": 1, "new": []}',), ("[]", '{"x": "y"}')),
    ],
)
def test_a_value_of_json_fits_its_columns_type_or_its_line_is_rejected(
    raw: Raw, tmp_path: Path, column_type: Any, fits: tuple[str, ...], misfits: tuple[str, ...]
) -> None:
    lines = [f'{{"v": {value}}}' for value in (*fits, *misfits)]
    raw.put("in/1.json", "\n".join(lines))
    listed = sources.listed_at(raw.s3, [raw.place("in/")])
    wanted = sources.WantedSources(fresh=listed, skipped=0)
    reader = reading.reader("json", {})
    done = splitting.split(raw.s3, reader, wanted, {"V": column_type}, {}, tmp_path)
    assert [row.raw for row in done.rejected] == lines[len(fits) :]


def test_a_plan_counts_the_rows_that_would_be_rejected(small: Small, raw: Raw) -> None:
    raw.put("in/1.csv", "id,n\n1,a\n2\n")
    load = a_load("lake.rejects_plan.t", place=raw.place("in/"), on_error="reject")
    plan = ingest.plan(small.server, load, open_spark=no_spark, say=small.said.append)
    assert plan is not None
    assert (plan.rows, plan.rejected) == (1, 1)
    assert not small.catalog.table_exists("rejects_plan.t")
