"""Snowflake's semantics as Arrow functions: months, counts, places, parts."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from sql import kernelforms, kernels

DATE, STAMP = datetime.date, datetime.datetime


def called(name: str, *columns: list[Any]) -> list[Any]:
    kernel = kernels.kernel(name)
    arrays = [
        pa.array(column, arrow_type)
        for column, arrow_type in zip(columns, kernel.arguments, strict=True)
    ]
    result = kernel.function(*arrays)
    assert result.type == kernel.result
    values: list[Any] = result.to_pylist()
    return values


@pytest.mark.parametrize(
    ("day", "months", "plain", "with_last"),
    [
        (DATE(2024, 1, 31), 1, DATE(2024, 2, 29), DATE(2024, 2, 29)),
        (DATE(2023, 1, 31), 1, DATE(2023, 2, 28), DATE(2023, 2, 28)),
        (DATE(2024, 2, 29), 1, DATE(2024, 3, 29), DATE(2024, 3, 31)),
        (DATE(2024, 2, 28), 1, DATE(2024, 3, 28), DATE(2024, 3, 28)),
        (DATE(1900, 2, 28), 24, DATE(1902, 2, 28), DATE(1902, 2, 28)),
        (DATE(2024, 3, 15), -3, DATE(2023, 12, 15), DATE(2023, 12, 15)),
        (DATE(1970, 1, 1), -1, DATE(1969, 12, 1), DATE(1969, 12, 1)),
        (DATE(1, 1, 31), 9998 * 12 + 11, DATE(9999, 12, 31), DATE(9999, 12, 31)),
        (DATE(9999, 12, 31), -9998 * 12 - 11, DATE(1, 1, 31), DATE(1, 1, 31)),
        (None, 1, None, None),
        (DATE(2024, 1, 1), None, None, None),
    ],
)
def test_months_are_the_calendars(
    day: datetime.date | None,
    months: int | None,
    plain: datetime.date | None,
    with_last: datetime.date | None,
) -> None:
    assert called("_add_months_date", [day], [months]) == [plain]
    assert called("_add_months_date_last", [day], [months]) == [with_last]


def test_every_day_moves_to_the_month_that_was_meant() -> None:
    days = [DATE(1, 1, 1) + datetime.timedelta(days=73 * step) for step in range(49_000)]
    moved = called("_add_months_date", days, [5] * len(days))
    for day, date in zip(days, moved, strict=True):
        index = day.year * 12 + day.month + 4
        assert (date.year, date.month) == (index // 12, index % 12 + 1)
        following = date + datetime.timedelta(days=1)
        assert date.day == day.day or (date.day < day.day and following.day == 1)


def test_a_moved_timestamp_keeps_its_time_of_day() -> None:
    moments = [STAMP(2016, 2, 29, 10, 0, 0, 1), STAMP(1969, 12, 31, 23, 59, 59, 999_999), None]
    assert called("_add_months_timestamp_last", moments, [1, 2, 3]) == [
        STAMP(2016, 3, 31, 10, 0, 0, 1),
        STAMP(1970, 2, 28, 23, 59, 59, 999_999),
        None,
    ]


@pytest.mark.parametrize("months", [-24_289, 120_000, (1 << 63) - 1, -(1 << 63)])
def test_months_beyond_the_calendar_are_out_of_range(months: int) -> None:
    with pytest.raises(ValueError, match=r"^\[\[100039\|2024-01-31 \+ -?\d+ months\]\]$"):
        called("_add_months_date", [None, DATE(2024, 1, 31)], [1, months])


def test_a_count_is_not_below_zero_and_null_stays_null() -> None:
    assert called("_not_negative", [-3, 0, 5, None]) == [0, 0, 5, None]


def test_a_place_counts_from_the_end_when_it_is_negative() -> None:
    places = called("_place", [1, 0, 3, -1, -4, None, -1], [4, 4, 4, 4, 4, 4, None])
    assert places == [1, 1, 3, 4, 1, None, None]
    (before,) = called("_place", [-5], [4])
    assert before > 1 << 30  # beyond any text


def test_a_part_of_zero_is_the_first_and_a_null_argument_gives_null() -> None:
    texts = ["a,b,c", "a,b,c", "a,b,c", "a,b,c", "a,b,c", None, "a,b", "a,b", "a,b"]
    delimiters = [",", ",", ",", ",", ",", ",", None, ",", ""]
    numbers = [0, 2, -1, 9, -9, 1, 1, None, 1]
    expected = ["a", "b", "c", "", "", None, None, None, "a,b"]
    assert called("_split_part", texts, delimiters, numbers) == expected


def test_zero_divided_by_a_number_of_many_decimal_places_is_zero() -> None:
    half, none = decimal.Decimal("0.5"), decimal.Decimal(0)
    for name in ("_div0", "_div0null"):
        assert called(f"{name}_6_10_0_38_37", [none, none], [half, none]) == [none, none]


@pytest.mark.parametrize(
    ("value", "read"), [("a]]b", "a] ]b"), ("[1]", "[1]"), ("[[1]]", "[[1] ]"), ("a]]]", "a] ]]")]
)
def test_what_a_kernel_raises_is_read_from_the_words_of_the_engine(value: str, read: str) -> None:
    for error in (kernelforms.coded("000002", value), kernelforms.refusal(value)):
        assert kernelforms.coded_in(f"External error: {error}, [[1, 2]]") == ("000002", read)
    assert kernelforms.coded_in("External error: [[1, 2]]") is None
