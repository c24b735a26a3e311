"""rule: the INTERVAL types: their names, and their values as texts.

A value of INTERVAL YEAR TO MONTH and its like is a number of months, one of INTERVAL DAY TO SECOND
and its like a number of nanoseconds, of which a leading field of nine digits of days needs 77 bits.
The engine computes with the numbers, and tables store them, so that order, groups and the bounds of
files need nothing more. Arrow's own intervals have months and days apart, and so no order.
Source: Snowflake's reference, Interval data types.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from sql.kernelforms import Kernel, coded, finer_than_held, per_value, text_kernel

IntervalName: TypeAlias = Literal["interval_year_month", "interval_day_time"]

NAMES: Final = frozenset({"interval_year_month", "interval_day_time"})
YEARS_AND_MONTHS: Final = ("YEAR TO MONTH", "YEAR", "MONTH")
DAYS_AND_TIMES: Final = (
    *("DAY TO SECOND", "DAY TO MINUTE", "DAY TO HOUR", "DAY"),
    *("HOUR TO SECOND", "HOUR TO MINUTE", "HOUR"),
    *("MINUTE TO SECOND", "MINUTE", "SECOND"),
)
"""The spans of both types. Drivers know that of years and months by its place."""
FIELDS: Final = ("DAY", "HOUR", "MINUTE", "SECOND")
NANOSECONDS: Final = {
    "DAY": 86_400_000_000_000,
    "HOUR": 3_600_000_000_000,
    "MINUTE": 60_000_000_000,
    "SECOND": 1_000_000_000,
}
LIMITS: Final = {"HOUR": 24, "MINUTE": 60, "SECOND": 60}
"""Below what a field stays that is not the leading one."""
FRACTION_DIGITS: Final = 9
PRECISION_MAX: Final = 9
"""Digits of the leading field; also its default."""
TYPE: Final = re.compile(
    r"INTERVAL (?P<first>YEAR|MONTH|DAY|HOUR|MINUTE|SECOND)(?:\((?P<precision>\d)\))?"
    r"(?: TO (?P<last>MONTH|HOUR|MINUTE|SECOND)(?:\((?P<fraction>\d)\))?)?"
)
MONTHS_OF_YEAR: Final = 12
FORMS_MAX: Final = 100
"""More than there are spans with a precision."""


def parse_type(text: str) -> tuple[IntervalName, int, int] | None:
    """Return the name, the place of the span, and the precision of a type; None if it is none.

    text: as `type_text` writes it, in upper case. A number of digits of a second is nine.
    """
    match = TYPE.fullmatch(text)
    if match is None or match["fraction"] not in (None, str(FRACTION_DIGITS)):
        return None
    span = " TO ".join(word for word in (match["first"], match["last"]) if word)
    precision = int(match["precision"] or PRECISION_MAX)
    if not precision or (match["fraction"] is not None and match["last"] != "SECOND"):
        return None
    if span in YEARS_AND_MONTHS:
        return "interval_year_month", YEARS_AND_MONTHS.index(span), precision
    if span in DAYS_AND_TIMES:
        return "interval_day_time", DAYS_AND_TIMES.index(span), precision
    return None


def type_text(name: str, place: int, precision: int) -> str:
    """Return a type as DESCRIBE shows it."""
    spans = YEARS_AND_MONTHS if name == "interval_year_month" else DAYS_AND_TIMES
    first, to, last = spans[place].partition(" TO ")
    return f"INTERVAL {first}({precision}){to}{last}"


# Texts


def parse_months(text: str, place: int, precision: int) -> int:
    """Return the months of a text such as -1-11 or, of a single field, -1. Raises ValueError."""
    pattern = rf"([+-]?)(\d{{1,{precision}}})" + (r"-(\d{1,2})" if place == 0 else "()")
    match = re.fullmatch(pattern, text.strip(), re.ASCII)
    if match is None or int(match[3] or 0) >= MONTHS_OF_YEAR:
        raise coded("100035", f"Interval|{text}")
    count = int(match[2])
    months = count if YEARS_AND_MONTHS[place] == "MONTH" else count * MONTHS_OF_YEAR
    months += int(match[3] or 0)
    return -months if match[1] == "-" else months


def months_text(months: int, place: int) -> str:
    """Return months as text: +1-02, or the one field that the type has."""
    sign, count = "-" if months < 0 else "+", abs(months)
    span = YEARS_AND_MONTHS[place]
    if span == "MONTH":
        return f"{sign}{count}"
    years, rest = divmod(count, MONTHS_OF_YEAR)
    return f"{sign}{years}" if span == "YEAR" else f"{sign}{years}-{rest:02}"


@functools.lru_cache(FORMS_MAX)
def _fields(place: int) -> tuple[str, ...]:
    first, _, last = DAYS_AND_TIMES[place].partition(" TO ")
    start = FIELDS.index(first)
    return FIELDS[start : FIELDS.index(last or first) + 1]


@functools.lru_cache(FORMS_MAX)
def _pattern(place: int, precision: int) -> re.Pattern[str]:
    pattern = r"([+-]?)"
    for position, field in enumerate(_fields(place)):
        if position:
            pattern += r"\s+" if field == "HOUR" else ":"
        pattern += rf"(\d{{1,{2 if position else precision}}})"
        if field == "SECOND":
            pattern += rf"(?:\.(\d{{1,{FRACTION_DIGITS}}}))?"
    return re.compile(pattern, re.ASCII)


def parse_nanos(text: str, place: int, precision: int) -> int:
    """Return the nanoseconds of a text such as -1 2:3:4.567. Raises ValueError."""
    match = _pattern(place, precision).fullmatch(text.strip())
    if match is None:
        raise coded("100035", f"Interval|{text}")
    sign, *counts = match.groups()
    nanos = 0
    for position, (field, count) in enumerate(zip(_fields(place), counts, strict=False)):
        if position and int(count) >= LIMITS[field]:
            raise coded("100035", f"Interval|{text}")
        nanos += int(count) * NANOSECONDS[field]
    if len(counts) > len(_fields(place)) and counts[-1]:
        nanos += int(counts[-1].ljust(FRACTION_DIGITS, "0"))
    return -nanos if sign == "-" else nanos


def nanos_text(nanos: int, place: int) -> str:
    """Return nanoseconds as text: +12 03:04:05.678000000, or the fields that the type has."""
    rest, text = abs(nanos), "-" if nanos < 0 else "+"
    for position, field in enumerate(_fields(place)):
        count, rest = divmod(rest, NANOSECONDS[field])
        if position:
            text += " " if field == "HOUR" else ":"
        text += f"{count:02}" if position else str(count)
        if field == "SECOND":
            text += f".{rest:0{FRACTION_DIGITS}}"
    return text


# Kernels

NANOS: Final = pa.decimal128(38, 0)
MICROSECONDS_MAX: Final = 1 << 62


def _of_text(match: re.Match[str]) -> Kernel:
    lenient, place, precision = bool(match[1]), int(match[3]), int(match[4])
    parse: Callable[[str, int, int], int] = parse_months if match[2] == "months" else parse_nanos
    result = pa.int64() if match[2] == "months" else NANOS

    def function(texts: Any) -> Any:
        return per_value(texts, lambda text: parse(text, place, precision), result, lenient=lenient)

    return text_kernel(function, result)


def _to_text(match: re.Match[str]) -> Kernel:
    place = int(match[2])
    write, argument = (months_text, pa.int64()) if match[1] == "months" else (nanos_text, NANOS)

    def function(values: Any) -> Any:
        return per_value(values, lambda value: write(int(value), place), pa.string(), lenient=False)

    return Kernel(function=function, arguments=(argument,), result=pa.string())


def _micros(_: re.Match[str]) -> Kernel:
    """Nanoseconds as microseconds; the query fails if that loses a digit."""

    def micros(nanos: Any) -> int:
        whole, rest = divmod(int(nanos), 1000)
        if rest:
            raise finer_than_held(f"{nanos} nanoseconds")
        if abs(whole) > MICROSECONDS_MAX:
            raise coded("100039", f"{nanos} nanoseconds")
        return whole

    def function(values: Any) -> Any:
        return per_value(values, micros, pa.int64(), lenient=False)

    # Volatile as `sql.kernels._nonzero` is.
    return Kernel(function=function, arguments=(NANOS,), result=pa.int64(), volatility="volatile")


FAMILIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Kernel]], ...] = (
    (re.compile(r"_(try_)?to_interval_(months|nanos)_(\d)_(\d)"), _of_text),
    (re.compile(r"_interval_text_(months|nanos)_(\d)"), _to_text),
    (re.compile("_interval_micros"), _micros),
)
