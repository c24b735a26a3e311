"""`mini.py sql`: what it prints, and how it ends."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sql import errors, outcomes, shell
from tests.sql.rest import cells, served

NUMBER = outcomes.Column(name="N", type="fixed", precision=19, scale=0)
TEXT = outcomes.Column(name="T", type="text")


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with served.serve(tmp_path_factory.mktemp("shell"), answer_within_seconds=0.1) as running:
        rows = pa.record_batch([pa.array([7, None]), pa.array(["a,b", 'say "x"'])], ["n", "t"])
        running.statements.table("select two", [NUMBER, TEXT], rows)
        yield running


def run(face: served.Served, text: str, **more: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    login = {"user": served.ACCESS_KEY, "password": served.SECRET_KEY, "url": face.url, **more}
    code = shell.run(text, output=out, errors=err, **login)
    return code, out.getvalue(), err.getvalue()


def test_a_table_has_its_numbers_to_the_right_and_its_count_below(face: served.Served) -> None:
    code, out, err = run(face, "select two")
    assert (code, err) == (0, "")
    head, rule, first, second, last = out.splitlines()
    assert head == "N    | T"
    assert rule == "-----+--------"
    assert first == "   7 | a,b"
    assert second == 'NULL | say "x"'
    assert last.startswith("(2 rows, ")


def test_a_proxy_in_the_environment_does_not_stand_before_this_machine(
    face: served.Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert run(face, "select two")[0] == 0


def test_csv_and_json_can_be_read_back(face: served.Served) -> None:
    assert run(face, "select two", output_format="csv")[1] == 'N,T\n7,"a,b"\n,"say ""x"""\n'
    out = run(face, "select two", output_format="json")[1]
    assert json.loads(out) == [{"N": 7, "T": "a,b"}, {"N": None, "T": 'say "x"'}]


def test_csv_tells_a_null_from_an_empty_string(face: served.Served) -> None:
    columns = [outcomes.Column(name=name, type="text") for name in ("A", "B")]
    values = [["", None], [None, ""], ["x\ny", ' "\r']]
    arrays = [pa.array(column, pa.string()) for column in zip(*values, strict=True)]
    face.statements.table("select empty", columns, pa.RecordBatch.from_arrays(arrays, ["a", "b"]))

    written = run(face, "select empty", output_format="csv")[1]

    assert written == 'A,B\n"",\n,""\n"x\ny"," ""\r"\n'
    text = io.StringIO(written.replace("\r", " "))
    options: Any = {"all_varchar": True, "quotechar": '"', "escapechar": '"'}
    read = duckdb.connect().read_csv(text, header=True, allow_quoted_nulls=False, **options)
    assert read.fetchall() == [("", None), (None, ""), ("x\ny", ' " ')]


def test_every_type_is_shown_as_people_write_it(face: served.Served) -> None:
    columns = [case.column for case in cells.CASES]
    batch = pa.RecordBatch.from_arrays([case.array for case in cells.CASES], ["x"] * len(columns))
    face.statements.table("select all", columns, batch)

    rows = json.loads(run(face, "select all", output_format="json")[1])

    assert rows[0]["NTZ_9_US"] == "1969-12-31 23:59:59.500000000"
    assert rows[2]["NTZ_6_US"] == "2024-02-29 12:34:56.123000"
    assert rows[2]["NTZ_FAR"] == "0001-01-01 00:00:00.000000"
    assert rows[0]["LTZ_3"] == "1969-12-31 23:59:59.500+00:00"
    assert rows[2]["TZ_9"] == "2024-02-29 04:34:56.123000000-08:00"
    assert rows[3]["TZ_9"] == "1900-01-01 05:45:00.000000000+05:45"
    assert rows[2]["DATE"] == "2024-02-29"
    assert rows[2]["TIME_US"] == "12:34:56.500000"
    assert rows[0]["BOOLEAN"] is True
    assert rows[0]["BINARY"] == "00AB"
    assert rows[0]["VARIANT"] == {"a": 1}
    assert rows[0]["NUM_WIDE"] == cells.WIDE
    assert rows[2]["REAL"] == "inf"
    assert all(value is None for value in rows[1].values())


@pytest.mark.parametrize(
    ("type_name", "cell", "text"),
    [
        ("DATE", "0", "1970-01-01"),
        ("DATE", "-719162", "0001-01-01"),
        ("DATE", "2932897", "10000-01-01"),
        ("TIMESTAMP_NTZ", "253402300800.500", "10000-01-01 00:00:00.500"),
        ("TIMESTAMP_NTZ", "-0.25", "1969-12-31 23:59:59.75"),
        ("TIMESTAMP_TZ", "253402300799.000000 1500", "10000-01-01 00:59:59.000000+01:00"),
    ],
)
def test_moments_of_every_year_are_shown(type_name: str, cell: str, text: str) -> None:
    assert shell.shown({"type": type_name}, cell) == text


def test_several_statements_print_one_after_another(face: served.Served) -> None:
    code, out, _ = run(face, "select two; select 1;", output_format="csv")
    assert code == 0
    assert out.endswith('"say ""x"""\n1\n1\n')


def test_slow_and_large_results_are_fetched_whole(face: served.Served) -> None:
    async def slow(call: served.Call) -> outcomes.Outcome:
        await asyncio.sleep(0.3)
        return served.select([NUMBER], pa.record_batch([pa.array(range(250_000))], names=["n"]))

    face.statements.answers["select slow"] = slow
    code, out, _ = run(face, "select slow", output_format="csv")
    assert code == 0
    assert out.splitlines() == ["N", *map(str, range(250_000))]


@pytest.mark.parametrize("more", [{}, {"password": "wrong"}, {"url": "http://127.0.0.1:9"}])
def test_a_fault_is_one_line_and_exit_code_1(face: served.Served, more: dict[str, str]) -> None:
    async def missing(call: served.Call) -> outcomes.Outcome:
        raise errors.does_not_exist("Object", "T")

    face.statements.answers["select missing"] = missing
    code, out, err = run(face, "select missing", **more)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    expected = {
        "": "002003 (42S02): SQL compilation error: Object 'T' does not exist",
        "password": "390100 (28000)",
        "url": "no server answers at http://127.0.0.1:9",
    }[next(iter(more), "")]
    assert expected in err


def test_wide_and_broken_cells_do_not_break_the_table(tmp_path: Path) -> None:
    with served.serve(tmp_path) as face:
        values = ["日本", "line\nbreak\ttab", "x" * 500, "\x1b[31mred"]
        batch = pa.record_batch([pa.array(values), pa.array([1, 2, 3, 4])], ["t", "n"])
        face.statements.table("select odd", [TEXT, NUMBER], batch)
        lines = run(face, "select odd")[1].splitlines()
    assert lines[2].startswith("日本" + " " * 96 + " | ")
    assert "line break tab" in lines[3]
    assert "…" in lines[4]
    assert "\x1b" not in lines[5]
