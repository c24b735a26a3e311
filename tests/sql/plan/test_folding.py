"""Constants of the calendar are what the engine computes for the same values in a column."""

from __future__ import annotations

import datetime
import zoneinfo
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.dialect import shapes
from sql.plan import folding
from tests.kit import examples, sql_text

PARIS = zoneinfo.ZoneInfo("Europe/Paris")
NOW = datetime.datetime(2024, 3, 31, 12, 30, 15, tzinfo=PARIS)
"""The day on which the clocks of Paris skip an hour."""

EXPRESSIONS = [
    *(
        f"dateadd({unit}, {count}, {{}})"
        for unit in ("day", "month", "hour", "second")
        for count in (-25, -1, 0, 13)
    ),
    *(f"dateadd({unit}, -2, {{}})" for unit in ("year", "quarter", "week", "minute")),
    *(f"date_trunc('{part}', {{}})" for part in ("year", "quarter", "month", "week", "day")),
    *(f"date_trunc('{part}', {{}})" for part in ("hour", "minute", "second")),
]
MOMENTS = [
    "'2024-02-29'::date",
    "'1969-12-31'::date",
    "'2024-03-31 02:30:00.000001'::timestamp_ntz",
    "'2024-10-27 02:30:00'::timestamp_ntz",
    "current_timestamp()",
    "current_date()",
]


@pytest.mark.parametrize("start", [0, 7])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_moment_that_is_known_is_moved_and_cut_as_a_column_is(moment: str, start: int) -> None:
    context = sql_text.context(now=NOW, weeks=shapes.Weeks(start=start))
    of_constant = ", ".join(each.format(moment) for each in EXPRESSIONS)
    of_column = ", ".join(each.format("column1") for each in EXPRESSIONS)
    folded = sql_text.answer(f"select {of_constant}", context=context)
    computed = sql_text.answer(f"select {of_column} from values ({moment})", context=context)
    assert dict(zip(EXPRESSIONS, folded.rows[0], strict=True)) == dict(
        zip(EXPRESSIONS, computed.rows[0], strict=True)
    )
    assert [column.type for column in folded.columns] == [each.type for each in computed.columns]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("dateadd(day, -7, current_date())", datetime.date(2024, 3, 24)),
        ("current_date() - 7", datetime.date(2024, 3, 24)),
        ("dateadd(month, 1, '2024-01-31'::date)", datetime.date(2024, 2, 29)),
        ("date_trunc('month', current_date())", datetime.date(2024, 3, 1)),
        ("'2024-01-02'::date::timestamp_ntz", datetime.datetime(2024, 1, 2)),  # noqa: DTZ001 - no zone
        ("'2024-01-02 03:04'::timestamp_ntz::date", datetime.date(2024, 1, 2)),
    ],
)
def test_what_the_clock_gives_is_a_constant(expression: str, value: Any) -> None:
    bound, _ = sql_text.bind(f"select {expression}", context=sql_text.context(now=NOW))
    assert bound.constants == (value,)


@pytest.mark.parametrize(
    "expression", ["dateadd(year, 9000, current_date())", "dateadd(day, -800000, current_date())"]
)
def test_a_moment_outside_the_calendar_is_left_to_the_engine(expression: str) -> None:
    bound, _ = sql_text.bind(f"select {expression}", context=sql_text.context(now=NOW))
    assert bound.constants is None


@given(
    st.dates() | st.datetimes(),
    st.integers(-50_000, 50_000),
    st.sampled_from(["day", "month", "hour"]),
)
@examples.at_most(200)
def test_moving_there_and_back_ends_where_it_began(
    moment: datetime.date, count: int, unit: str
) -> None:
    if unit == "hour" and not isinstance(moment, datetime.datetime):
        return
    there = folding.moved(moment, count, unit)
    if there is None:
        return
    back = folding.moved(there, -count, unit)
    assert back is not None
    assert back == moment or (unit == "month" and moment.day > 28)
