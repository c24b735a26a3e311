"""Which class a value has, which type its column gets, and what a reader's options mean."""

from __future__ import annotations

import calendar
import datetime
import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import errors, reading, textcolumns


@pytest.mark.parametrize(
    ("value", "value_class"),
    [
        ("0", "int"), ("-1", "int"), ("2147483647", "int"), ("1999999999", "int"),
        ("2147483648", "long"), ("9223372036854775807", "long"), ("1000000000000000000", "long"),
        ("9223372036854775808", "integer"), ("9" * 38, "integer"), ("9" * 39, "real"),
        ("1.5", "real"), ("-.5", "real"), ("1.", "real"), ("1e5", "real"), ("NaN", "real"),
        ("-Inf", "real"), ("Infinity", "real"), ("true", "boolean"), ("FALSE", "boolean"),
        ("2024-02-29", "date"), ("0001-01-01", "date"), ("9999-12-31", "date"),
        ("2026-01-31T10:00:00Z", "time"), ("2026-01-31 10:00", "time"),
        ("2026-01-31 10:00:00.123456789-14:00", "time"),
        ("007", "text"), ("00.5", "text"), ("+1", "text"), (" 1", "text"), ("1 ", "text"),
        ("1\n", "text"), ("1,5", "text"), ("1_000", "text"), ("\u0661", "text"), ("", "text"),
        ("2023-02-29", "text"), ("1900-02-29", "text"), ("0000-01-01", "text"),
        ("2026-01-31T24:00:00", "text"), ("2026-1-31", "text"), ("yes", "text"), ("nan", "text"),
    ],
)  # fmt: skip
def test_a_value_has_one_class_to_python_and_to_arrow(value: str, value_class: str) -> None:
    assert reading.class_of(value) == value_class
    assert textcolumns.classes_of(pa.chunked_array([[value]])) == {value_class}


@given(st.integers(-(10**40), 10**40))
def test_a_whole_number_has_the_class_of_the_least_type_that_holds_it(number: int) -> None:
    size = abs(number)
    wanted = (
        "int"
        if size < 2**31
        else "long"
        if size < 2**63
        else "integer"
        if size < 10**38
        else "real"
    )
    assert reading.class_of(str(number)) == wanted


@pytest.mark.parametrize("year", [1, 4, 100, 400, 1900, 1996, 2000, 2023, 2024, 2100, 9999])
def test_a_date_is_one_only_if_it_is_in_the_calendar(year: int) -> None:
    for month, day in itertools.product(range(14), range(33)):
        is_date = 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]
        text = f"{year:04}-{month:02}-{day:02}"
        assert (reading.class_of(text) == "date") == is_date, text


@pytest.mark.parametrize(
    ("classes", "column_type"),
    [
        ((), "string"), (("int",), "int"), (("int", "long"), "long"),
        (("integer",), "decimal(38,0)"),
        (("int", "real"), "double"), (("date",), "date"), (("date", "time"), "timestamptz"),
        (("boolean",), "boolean"), (("boolean", "int"), "string"), (("int", "text"), "string"),
        (("int", "date"), "string"),
    ],
)  # fmt: skip
def test_the_classes_of_its_values_give_a_column_its_type(
    classes: tuple[str, ...], column_type: str
) -> None:
    assert reading.type_of(classes) == column_type


def test_a_class_whose_values_are_of_a_wider_one_too_changes_no_type() -> None:
    whole = ("int", "long", "integer", "real")
    types = (*reading.SCHEMA_TYPES, "decimal(9,2)", "decimal(38,0)", "binary")
    sets = itertools.chain.from_iterable(
        itertools.combinations(reading.CLASSES, count) for count in range(1, 9)
    )
    for present in map(frozenset, sets):
        least = present
        if reading.TEXT in present:
            least = frozenset({reading.TEXT})
        else:
            widest = max((one for one in whole if one in present), key=whole.index, default=None)
            least = present - set(whole) | ({widest} if widest else set())
        assert reading.type_of(least) == reading.type_of(present)
        for table_type in types:
            read_as = reading.type_into(table_type, present)
            assert reading.type_into(table_type, least) == read_as
            assert reading.holds(read_as, least) == reading.holds(read_as, present)


@given(st.dates(datetime.date(1, 1, 2), datetime.date(9999, 12, 30)), st.times())
def test_times_become_the_moments_that_they_name(day: datetime.date, time: datetime.time) -> None:
    moment = datetime.datetime.combine(day, time)
    texts = [
        moment.isoformat(),
        moment.isoformat(" ") + "Z",
        moment.isoformat() + "+00:00",
        (moment + datetime.timedelta(hours=2)).isoformat() + "+02:00",
    ]
    column = textcolumns.typed(pa.chunked_array([texts]), "timestamptz")
    assert set(column.to_pylist()) == {moment.replace(tzinfo=datetime.UTC)}


def test_an_option_that_the_format_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(errors.BadArgument) as caught:
        reading.reader("csv", {"seperator": ";"})
    assert str(caught.value).startswith(
        "--option seperator: csv has no such option; it has charset"
    )


def test_options_have_the_names_of_spark_in_any_case() -> None:
    reader = reading.reader("csv", {"DELIMITER": "\\t", "Header": "false", "charset": "latin1"})
    assert (reader.separator, reader.has_header, reader.encoding) == ("\t", False, "latin1")
    assert reader.for_spark_alone is None
    assert reading.reader("csv", {"comment": "#"}).for_spark_alone == "--option comment"
    assert reading.reader("csv", {"escape": "\\"}).for_spark_alone == "--option escape=\\"
    assert (
        reading.reader("csv", {"mode": "PERMISSIVE"}).for_spark_alone == "--option mode=PERMISSIVE"
    )


def test_a_schema_is_a_name_and_a_type_in_each_line() -> None:
    text = '# of orders\nid long,\n"two words"  Decimal(9, 2)\n\n  at\ttimestamptz\n'
    assert reading.parse_schema(text) == {
        "id": "long", "two words": "decimal(9,2)", "at": "timestamptz",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id", "--schema: line 1 is not a name and a type: 'id'"),
        ("id long\nID int", "--schema: line 2 names 'ID' again"),
        ("# none\n", "--schema names no column"),
        ("id varchar", "--schema: 'varchar', of column 'id', is not one of the types boolean, int, "
         "long, float, double, date, timestamp, timestamptz, string, decimal(p,s)"),
        ("id decimal(39,0)", "--schema: 'decimal(39,0)', of column 'id', is not one of the types "
         "boolean, int, long, float, double, date, timestamp, timestamptz, string, decimal(p,s)"),
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(errors.BadArgument) as caught:
        reading.parse_schema(text)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("name", "stray"),
    [
        ("a.csv", False), ("a.csv.gz", False), ("a.TSV", False), ("part-0000", False),
        ("a.2026", False), ("a.json", True), ("README.md", True), ("a.parquet", True),
        ("a.json.gz", True), ("book.xlsx", True),
    ],
)  # fmt: skip
def test_a_file_with_the_name_of_another_format_is_stray(name: str, stray: bool) -> None:
    assert reading.is_stray(name, "csv") is stray


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv", "csv"),
        ("a.tsv.gz", "csv"),
        ("A.JSON", "json"),
        ("a.jsonl.zst", "json"),
        ("a.parquet", "parquet"),
        ("a.avro.bz2", "avro"),
        ("a.orc", "orc"),
        ("a.log", None),
        ("json", None),
        ("in", None),
        ("", None),
    ],
)
def test_a_files_ending_stands_for_one_format(name: str, expected: str | None) -> None:
    assert reading.format_by_name(name) == expected
