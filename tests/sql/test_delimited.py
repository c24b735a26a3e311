"""Records of delimited text: as the csv module reads them, and by Snowflake's own rules."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql import delimited

PLAIN = delimited.Dialect(escape_unenclosed="", empty_is_null=False, null_if=frozenset())
QUOTED = delimited.Dialect(
    quote='"', escape_unenclosed="", empty_is_null=False, null_if=frozenset()
)


def rows(text: str, dialect: delimited.Dialect, *, size: int = 7) -> list[list[str | None]]:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    records = list(delimited.records(pieces, dialect))
    assert all(isinstance(record, delimited.Record) for record in records), records
    return [record.fields for record in records if isinstance(record, delimited.Record)]


@given(
    st.lists(
        st.lists(st.text(st.sampled_from('ab",\n \r'), max_size=4), min_size=2, max_size=4),
        max_size=4,
    ),
    st.integers(min_value=1, max_value=9),
)
def test_quoted_fields_are_those_that_the_csv_module_wrote(
    table: list[list[str]], size: int
) -> None:
    sink = io.StringIO()
    csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    assert rows(sink.getvalue(), QUOTED, size=size) == table


@given(st.text(st.sampled_from('ab",\\\n'), max_size=30))
def test_every_cut_of_a_text_gives_the_same_records(text: str) -> None:
    dialect = delimited.Dialect(quote='"', escape="\\")
    whole = list(delimited.records([text], dialect))
    single = list(delimited.records(list(text), dialect))
    assert whole == single


def test_an_empty_field_is_null_and_an_empty_quoted_field_is_not() -> None:
    dialect = delimited.Dialect(quote='"')
    assert rows('a,,""\n', dialect) == [["a", None, ""]]


def test_null_if_is_compared_before_a_backslash_escapes() -> None:
    dialect = delimited.Dialect(null_if=frozenset({"\\N"}))
    assert rows("\\N,a\\,b,c\\td\n", dialect) == [[None, "a,b", "c\td"]]


def test_carriage_returns_end_a_line_and_stay_in_quotes() -> None:
    dialect = delimited.Dialect(quote='"')
    assert rows('a,"b\r\nc"\r\nd,e\r\n', dialect) == [["a", "b\r\nc"], ["d", "e"]]


def test_spaces_are_trimmed_around_quotes_and_not_inside() -> None:
    dialect = delimited.Dialect(quote='"', trims=True)
    assert rows(' a , " b " ,c \n', dialect) == [["a", " b ", "c"]]


def test_delimiters_may_have_several_characters() -> None:
    dialect = delimited.Dialect(field="||", record="<>\n")
    assert rows("a||b<>\nc|||d<>\n", dialect, size=3) == [["a", "b"], ["c", "|d"]]


def test_text_after_a_quote_is_a_fault_with_its_place_and_the_next_line_is_read() -> None:
    dialect = delimited.Dialect(quote='"')
    fault, record = delimited.records(['"a"x,b\nc,d\n'], dialect)
    assert isinstance(fault, delimited.Fault)
    assert (fault.code, fault.line, fault.character) == ("100016", 1, 4)
    assert record == delimited.Record(line=2, fields=["c", "d"])


def test_a_quote_that_never_ends_is_a_fault_of_its_first_line() -> None:
    record, fault = delimited.records(['a,b\n"c,\nd\n'], delimited.Dialect(quote='"'))
    assert isinstance(record, delimited.Record)
    assert isinstance(fault, delimited.Fault)
    assert fault.line == 2


def test_a_record_beyond_its_bound_is_refused_and_not_held() -> None:
    with pytest.raises(delimited.TooLong):
        list(delimited.records(("x" * (1 << 20) for _ in range(64)), PLAIN))


@pytest.mark.parametrize("trims", [False, True])
def test_a_line_of_very_many_fields_in_quotes_is_read_in_one_pass(*, trims: bool) -> None:
    # With a copy of the rest of the line for each field this would take some minutes.
    text = '"a" ,' if trims else '"a",'
    ((*fields, last),) = rows(text * 300_000, delimited.Dialect(quote='"', trims=trims))
    assert (set(fields), len(fields), last) == ({"a"}, 300_000, None)
