"""rule: functions on dates and times.

By default weeks start on Monday and are ISO weeks; the session's WEEK_START and WEEK_OF_YEAR_POLICY
change that. A DATE stays a DATE where it does in Snowflake.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Mapping

from sql import errors
from sql.dialect import arithmetic, builders, casts, formats, shapes, sqltypes
from sql.dialect.builders import FunctionCall, function
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

PARTS: Mapping[str, str] = {
    alias: part
    for part, aliases in {
        "year": "year y yy yyy yyyy yr years yrs",
        "quarter": "quarter q qtr qtrs quarters",
        "month": "month mm mon mons months",
        "week": "week w wk weekofyear woy wy weeks",
        "weekiso": "weekiso week_iso weekofyeariso weekofyear_iso",
        "day": "day d dd days dayofmonth",
        "dayofweek": "dayofweek weekday dow dw",
        "dayofweekiso": "dayofweekiso dayofweek_iso weekday_iso dow_iso dw_iso",
        "dayofyear": "dayofyear yearday doy dy",
        "yearofweek": "yearofweek",
        "yearofweekiso": "yearofweekiso",
        "hour": "hour h hh hr hours hrs",
        "minute": "minute m mi min minutes mins",
        "second": "second s sec seconds secs",
        "millisecond": "millisecond ms msec milliseconds",
        "microsecond": "microsecond us usec microseconds",
        "nanosecond": "nanosecond ns nsec nanosec nsecond nanoseconds nanosecs nseconds",
        "timezone_hour": "timezone_hour tzh",
        "timezone_minute": "timezone_minute tzm",
        "epoch_second": "epoch_second epoch epoch_seconds",
        "epoch_millisecond": "epoch_millisecond epoch_milliseconds",
        "epoch_microsecond": "epoch_microsecond epoch_microseconds",
    }.items()
    for alias in aliases.split()
}

YEAR_MAX = 999_999
"""More than any year whose microseconds since 1970 fit in 64 bits, or that the engine counts."""

EXTRACTED = {
    "year": ("year", -YEAR_MAX, YEAR_MAX),
    "quarter": ("quarter", 1, 4),
    "month": ("month", 1, 12),
    "week": ("week", 1, 53),
    "weekiso": ("week", 1, 53),
    "day": ("day", 1, 31),
    "dayofweek": ("dow", 0, 6),
    "dayofyear": ("doy", 1, 366),
    "hour": ("hour", 0, 23),
    "minute": ("minute", 0, 59),
    "yearofweekiso": ("isoyear", -YEAR_MAX, YEAR_MAX),
    "yearofweek": ("isoyear", -YEAR_MAX, YEAR_MAX),
}


OFFSET_PARTS = ("timezone_hour", "timezone_minute")
TIME_PARTS = ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond")


def part_of(word: str) -> str:
    """Return the canonical name of a date or time part; raises SqlError for any other."""
    part = PARTS.get(word.lower())
    if part is None:
        raise errors.SqlError(
            "001108",
            "22023",
            f"SQL compilation error:\n'{word}' is not a valid date/time component",
            phase="COMPILATION",
        )
    return part


def as_moment(operand: Expr) -> Expr:
    """Return operand as a date or time; text becomes a TIMESTAMP_NTZ, nanoseconds are cut."""
    if operand.type.name in ("text", "null"):
        return casts.cast(operand, sqltypes.TIMESTAMP_NTZ)
    if casts.is_of_nanoseconds(operand):
        return casts.cast(operand, sqltypes.TIMESTAMP_NTZ)
    if operand.type.is_temporal or operand.type.name == "time":
        return operand
    raise errors.SqlError(
        "001044",
        "42P13",
        f"SQL compilation error:\nInvalid argument type {sqltypes.shown(operand.type)}",
        phase="COMPILATION",
    )


def as_exact_moment(operand: Expr) -> Expr:
    """Return operand as a date or time; the query fails if it has digits below a microsecond."""
    if casts.is_of_nanoseconds(operand):
        return casts.whole_microseconds(operand)
    return as_moment(operand)


def _local(operand: Expr) -> Expr:
    """Return a moment without a zone: its calendar fields in the session's zone."""
    if operand.type.name in ("timestamp_ltz", "timestamp_tz"):
        return casts.cast(operand, sqltypes.TIMESTAMP_NTZ)
    return operand


def _shown_at(operand: Expr, local: Expr) -> Expr:
    """Return a TIMESTAMP_NTZ as a moment of operand's type: of the same zone or offset."""
    if operand.type.name == "timestamp_tz":
        return casts.at_offset_of(operand, local)
    return casts.cast(local, operand.type)


def extract(part: str, operand: Expr, weeks: shapes.Weeks) -> Expr:
    """Return one field of a date or time, a NUMBER."""
    if part.startswith("epoch_"):
        return _epoch(part, operand)
    if part == "nanosecond" and casts.is_of_nanoseconds(operand):
        rest = _modulo(code.arrow(operand, "Int64"), 1_000_000_000)
        return builders.small_integer(rest, [operand], 0, 999_999_999)
    if part in OFFSET_PARTS:
        return _offset_part(part, as_moment(operand))
    moment = _local(as_moment(operand))
    _check_part(part, moment)
    if part == "dayofweekiso":
        day = code.call("date_part", "dow", moment)
        return builders.small_integer(
            code.case([(code.infix(day, "=", 0), 7)], day), [moment], 1, 7
        )
    if part in ("second", "millisecond", "microsecond", "nanosecond"):
        return _second(part, moment)
    if part == "dayofweek" and weeks.start:
        position = code.infix(_days_into_week(_day_number(moment), weeks), "+", 1)
        return builders.small_integer(position, [moment], 1, 7)
    if part in ("week", "yearofweek") and (weeks.first_day or weeks.is_of_january):
        return _week_of_year(part, moment, weeks)
    field = EXTRACTED.get(part)
    if field is None:
        raise errors.unsupported(f"date part {part}")
    name, low, high = field
    return builders.small_integer(code.call("date_part", name, moment), [moment], low, high)


def _check_part(part: str, moment: Expr) -> None:
    """Raise SqlError for a part of a date, of a TIME."""
    if moment.type.name == "time" and part not in TIME_PARTS:
        raise errors.SqlError(
            "001045",
            "22023",
            f"SQL compilation error:\n'{part.upper()}' is no part of a TIME",
            phase="COMPILATION",
        )


def _offset_part(part: str, moment: Expr) -> Expr:
    """Return the hours or the minutes of a moment's offset."""
    zoned = casts.cast(moment, sqltypes.TIMESTAMP_TZ)
    offset = code.kernel("_zoned_offset", casts.as_arrow(zoned, zoned.type))
    operator = "/" if part == "timezone_hour" else "%"
    return builders.small_integer(code.infix(offset, operator, 60), [moment], -59, 59)


def _week_of_year(part: str, moment: Expr, weeks: shapes.Weeks) -> Expr:
    """Return WEEK or YEAROFWEEK where weeks are no ISO weeks."""
    day = _day_number(moment)
    if weeks.is_of_january:
        if part == "yearofweek":
            return extract("year", moment, weeks)
        # Days since the start of the week of January 1.
        new_year = code.infix(day, "-", code.infix(code.call("date_part", "doy", moment), "-", 1))
        since = code.infix(
            code.call("date_part", "doy", moment), "-", 1, "+", _days_into_week(new_year, weeks)
        )
        return builders.small_integer(_week_number(since), [moment], 1, 54)
    # A week is of the year of its fourth day.
    fourth = code.infix(_week_start(day, weeks), "+", 3)
    name, low, high = ("year", -YEAR_MAX, YEAR_MAX) if part == "yearofweek" else ("doy", 1, 53)
    value: code.Code = code.call("date_part", name, _date_of(fourth))
    if part == "week":
        value = _week_number(code.infix(value, "-", 1))
    return builders.small_integer(value, [moment], low, high)


def _week_number(days: code.Part) -> code.Infix:
    return code.infix(code.infix(code.arrow(days, "Int64"), "/", 7), "+", 1)


def _days_into_week(day: code.Part, weeks: shapes.Weeks) -> code.Infix:
    """Return the days from the start of its week to a day since 1970, which began on a Thursday."""
    return _modulo(code.infix(day, "+", 3 - weeks.first_day), 7)


def _week_start(day: code.Part, weeks: shapes.Weeks) -> code.Infix:
    return code.infix(day, "-", _days_into_week(day, weeks))


def _second(part: str, moment: Expr) -> Expr:
    if moment.type.name == "date":
        moment = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
    if part == "second":
        second = code.call("floor", code.call("date_part", "second", moment))
        return builders.small_integer(second, [moment], 0, 59)
    fraction = _modulo(code.arrow(moment, "Int64"), 1_000_000)
    operator, factor = {
        "millisecond": ("/", 1000),
        "microsecond": ("*", 1),
        "nanosecond": ("*", 1000),
    }[part]
    return builders.small_integer(code.infix(fraction, operator, factor), [moment], 0, 999_999_999)


def _modulo(number: code.Part, divisor: int) -> code.Infix:
    """Return the remainder that is not negative: the engine divides towards zero."""
    positive = code.infix(code.infix(number, "%", divisor), "+", divisor)
    return code.infix(positive, "%", divisor)


def _floored_micros(nanos: Expr) -> code.Infix:
    """Return whole microseconds of nanoseconds, rounded down."""
    count = code.exactly(nanos, sqltypes.integer())
    return code.infix(code.infix(count, "-", _modulo(count, 1000)), "/", 1000)


def _whole_micros(nanos: Expr) -> Expr:
    """Return nanoseconds as microseconds; the query fails if they are not whole ones."""
    micros = code.kernel("_whole_micros", code.exactly(nanos, sqltypes.integer()))
    return exprs.derived(micros, sqltypes.integer(), [nanos])


def _epoch(part: str, operand: Expr) -> Expr:
    moment = as_moment(operand)
    if moment.type.name == "timestamp_tz":
        moment = casts.cast(moment, sqltypes.TIMESTAMP_LTZ)
    if moment.type.name == "date":
        moment = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
    divisor = {"epoch_second": 1_000_000, "epoch_millisecond": 1_000, "epoch_microsecond": 1}[part]
    count: code.Code = code.arrow(moment, "Int64")
    if divisor != 1:
        whole = code.infix(count, "-", _modulo(count, divisor))
        count = code.infix(whole, "/", divisor)
    return exprs.derived(count, sqltypes.integer(), [moment])


def _extractor(names: str, part: str) -> builders.Function:
    return function(
        names, "moment", "integer", lambda call: extract(part, call.arg(0), call.context.weeks)
    )


def date_part(call: FunctionCall) -> Expr:
    return extract(part_of(call.word(0)), call.arg(1), call.context.weeks)


def truncate(part: str, operand: Expr, weeks: shapes.Weeks) -> Expr:
    """Return a moment cut to the start of a part, as its type; raises SqlError for other parts."""
    moment = as_moment(operand)
    constant = arithmetic.truncated_constant(moment, part, first_day=weeks.first_day)
    if constant is not None:
        return constant
    if part == "week" and weeks.first_day and moment.type.name != "time":
        first = _week_start(_day_number(_local(moment)), weeks)
        start = exprs.derived(_date_of(first), sqltypes.DATE, [moment])
        if moment.type.name == "timestamp_tz":
            return _shown_at(moment, casts.cast(start, sqltypes.TIMESTAMP_NTZ))
        return casts.cast(start, moment.type)
    name = {"weekiso": "week"}.get(part, part)
    if name not in TRUNCATED:
        raise errors.unsupported(f"DATE_TRUNC to {part}")
    _check_part(name, moment)
    if moment.type.name == "date":
        if name in casts.MICROSECONDS and name != "day":
            return moment
        day = code.exactly(_floored(name, moment), sqltypes.DATE)
        return exprs.derived(day, sqltypes.DATE, [moment])
    if moment.type.name == "timestamp_tz":
        return _shown_at(moment, truncate(part, _local(moment), weeks))
    if moment.type.name == "timestamp_ltz":
        local = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
        start = truncate(part, local, weeks)
        if name not in casts.MICROSECONDS or name == "day":
            return casts.cast(start, moment.type)
        return _moved_with(moment, local, start)
    if moment.type.name == "time":
        return exprs.derived(code.call("date_trunc", name, moment), moment.type, [moment])
    return exprs.derived(code.exactly(_floored(name, moment), moment.type), moment.type, [moment])


def _moved_with(moment: Expr, local: Expr, wanted: Expr) -> Expr:
    """Return a TIMESTAMP_LTZ moved as far as its local time is from another one.

    So the second of two hours that the clocks show alike stays the second.
    """
    instant, shown, start = (code.arrow(each, "Int64") for each in (moment, local, wanted))
    return casts.at_instant(code.infix(instant, "-", code.infix(shown, "-", start)), [moment])


def _floored(name: str, moment: Expr) -> code.Code:
    """Return a DATE or TIMESTAMP_NTZ cut to a unit, as a TIMESTAMP_NTZ.

    The engine's own function counts in nanoseconds, and fails before 1677 and after 2262.
    """
    exact = casts.as_arrow(moment, sqltypes.TIMESTAMP_NTZ)
    return exact if name == "microsecond" else code.kernel(f"_floor_{name}", exact)


TRUNCATED = frozenset(
    [
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "hour",
        "minute",
        "second",
        "millisecond",
        "microsecond",
    ]
)


def date_trunc(call: FunctionCall) -> Expr:
    return truncate(part_of(call.word(0)), call.arg(1), call.context.weeks)


def time_slice(call: FunctionCall) -> Expr:
    """TIME_SLICE: the begin or the end of the slice of so many parts in which a moment lies."""
    moment, length = as_moment(call.arg(0)), call.whole(1)
    part, end = part_of(str(call.constant(2))), str(call.constant(3, "START")).upper()
    if moment.type.name == "time" or length < 1 or end not in ("START", "END"):
        raise call.invalid()
    first_day = 0
    if part in SLICED_MONTHS:
        sort, length = "months", length * SLICED_MONTHS[part]
    elif part == "week":
        # The week of January 1, 1970, a Thursday.
        sort, length = "micros", length * 7 * casts.MICROSECONDS["day"]
        first_day = (3 - call.context.weeks.first_day) % 7
    elif part in casts.MICROSECONDS and (moment.type.name != "date" or part == "day"):
        sort, length = "micros", length * casts.MICROSECONDS[part]
    else:
        raise call.refuse(f"slices of {part}s of a {sqltypes.shown(moment.type)}")
    local = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
    side = "end" if end == "END" else "begin"
    sliced = code.kernel(
        f"_time_slice_{sort}_{length}_{first_day}_{side}",
        casts.as_arrow(local, sqltypes.TIMESTAMP_NTZ),
    )
    naive = exprs.derived(sliced, sqltypes.TIMESTAMP_NTZ, [moment])
    is_short = sort == "micros" and length <= casts.MICROSECONDS["hour"]
    if is_short and moment.type.name == "timestamp_ltz":
        return _moved_with(moment, local, naive)
    return _shown_at(moment, naive)


SLICED_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def date_add(call: FunctionCall) -> Expr:
    """DATEADD(part, count, moment)."""
    return moved(part_of(call.word(0)), call.arg(1), call.arg(2))


def moved(part: str, count: Expr, operand: Expr) -> Expr:
    moment = as_exact_moment(operand)
    count = arithmetic.round_half_away(count)
    factor, unit = {
        "year": (12, "month"),
        "quarter": (3, "month"),
        "week": (7, "day"),
        "weekiso": (7, "day"),
    }.get(part, (1, part))
    if unit == "nanosecond":
        count, unit = _whole_micros(count), "microsecond"
    if unit not in casts.MICROSECONDS and unit != "month":
        raise errors.unsupported(f"DATEADD by {part}")
    if factor != 1:
        count = arithmetic.multiply(count, exprs.integer(factor))
    if moment.type.name == "time":
        return _moved_time(unit, count, moment)
    if moment.type.name == "date" and unit not in ("day", "month"):
        moment = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
    return arithmetic.add_units(moment, count, unit)


def _moved_time(unit: str, count: Expr, moment: Expr) -> Expr:
    if unit in ("day", "month"):
        raise errors.unsupported(f"DATEADD of {unit}s to a TIME")
    day = 86_400_000_000
    micros = casts.MICROSECONDS[unit]
    exact = casts.as_arrow(moment, sqltypes.TIME)
    # Whole days change nothing, and without them the product stays small.
    steps = code.infix(code.arrow(count, "Int64"), "%", day // micros)
    total = code.infix(code.arrow(exact, "Int64"), "+", code.infix(steps, "*", micros))
    wrapped = code.exactly(_modulo(total, day), sqltypes.TIME)
    return exprs.derived(wrapped, sqltypes.TIME, [moment, count])


def date_diff(call: FunctionCall) -> Expr:
    """DATEDIFF(part, from, to): the number of boundaries of the part in between."""
    return difference(part_of(call.word(0)), call.arg(1), call.arg(2), call.context.weeks)


DATE_DAYS_MAX = 1 << 32
"""More days than lie between two values of 32 bits."""


def _difference_type(part: str, moments: list[Expr]) -> sqltypes.SqlType:
    """Return the type of DATEDIFF: 9 digits where they hold it, else 18, and 38 of nanoseconds.

    A day has 86,400,000 milliseconds, so all but the smallest parts of a TIME fit 9 digits, and so
    do the hours of 9,999 years. The hours between two DATEs have 18 digits.
    """
    names = {moment.type.name for moment in moments}
    if part not in TIME_PARTS:
        return sqltypes.integer(9, -DATE_DAYS_MAX, DATE_DAYS_MAX)
    is_short = part == "hour" and names != {"date"}
    if is_short or (names == {"time"} and part not in ("microsecond", "nanosecond")):
        return sqltypes.integer(9)
    return sqltypes.integer(18)


def difference(part: str, start: Expr, end: Expr, weeks: shapes.Weeks) -> Expr:
    """Return how many boundaries of a part lie between two moments.

    A text beside a DATE is a date, as where the two are compared.
    """
    if {start.type.name, end.type.name} == {"date", "text"}:
        start, end = (casts.cast(each, sqltypes.DATE) for each in (start, end))
    moments = [as_moment(start), as_moment(end)]
    for each in moments:
        _check_part(part, each)
    # A TIME has no instant: with it, a moment counts by its calendar fields.
    of_instants = part in TIME_PARTS and all(each.type.name != "time" for each in moments)
    if of_instants and any(each.type.name == "timestamp_tz" for each in moments):
        # Their offsets may differ: time passes between instants.
        utc = [
            casts.cast(casts.at_zone(_instant(each), "UTC"), sqltypes.TIMESTAMP_NTZ)
            for each in moments
        ]
        return difference(part, utc[0], utc[1], weeks)
    if of_instants and any(each.type.name == "timestamp_ltz" for each in moments):
        return _passed(part, _instant(moments[0]), _instant(moments[1]), weeks)
    first, last = map(_local, moments)
    parts = [first, last]
    sql_type = _difference_type(part, moments)
    if part in ("year", "quarter", "month"):
        passed = code.infix(_ordinal(part, last), "-", _ordinal(part, first))
        return exprs.derived(passed, sql_type, parts)
    if part == "week" and weeks.first_day:
        days = [_week_start(_day_number(each), weeks) for each in (last, first)]
        passed = code.infix(code.infix(days[0], "-", days[1]), "/", 7)
        return exprs.derived(code.arrow(passed, "Int64"), sql_type, parts)
    if part in ("week", "weekiso"):
        passed = code.infix(code.infix(_monday(last), "-", _monday(first)), "/", 7)
        return exprs.derived(code.arrow(passed, "Int64"), sql_type, parts)
    if part == "day":
        passed = code.infix(_day_number(last), "-", _day_number(first))
        return exprs.derived(code.arrow(passed, "Int64"), sql_type, parts)
    if part not in casts.MICROSECONDS and part != "nanosecond":
        raise errors.unsupported(f"DATEDIFF in {part}")
    name = part if part in TRUNCATED else "microsecond"
    micros = casts.MICROSECONDS.get(part, 1)
    passed = code.infix(_micros(name, last), "-", _micros(name, first))
    count = exprs.derived(code.infix(passed, "/", micros), sql_type, parts)
    if part != "nanosecond":
        return count
    nanos = arithmetic.multiply(count, exprs.integer(1000))
    for operand, negative in ((end, False), (start, True)):
        if casts.is_of_nanoseconds(operand):
            nanos = arithmetic.add(nanos, _nanos_of_micro(operand), negative=negative)
    return _of_nanoseconds(nanos)


def _passed(part: str, first: Expr, last: Expr, weeks: shapes.Weeks) -> Expr:
    """Return the number of units of the clock between two TIMESTAMP_LTZ.

    Each is cut at the offset that it has, so that an hour that the clocks show twice counts twice,
    and the hour that they leave out does not count.
    """
    unit = part if part in TRUNCATED else "microsecond"
    starts = [code.arrow(truncate(unit, each, weeks), "Int64") for each in (last, first)]
    passed = code.infix(starts[0], "-", starts[1])
    micros = casts.MICROSECONDS.get(part, 1)
    sql_type = _difference_type(part, [first, last])
    count = exprs.derived(code.infix(passed, "/", micros), sql_type, [first, last])
    if part != "nanosecond":
        return count
    return _of_nanoseconds(arithmetic.multiply(count, exprs.integer(1000)))


def _of_nanoseconds(count: Expr) -> Expr:
    widest = sqltypes.number(sqltypes.PRECISION_MAX)
    return exprs.derived(code.exactly(count, widest), widest, [count])


def _nanos_of_micro(operand: Expr) -> Expr:
    """Return the nanoseconds since the last whole microsecond of a timestamp of nanoseconds."""
    rest = _modulo(code.arrow(operand, "Int64"), 1000)
    return builders.small_integer(rest, [operand], 0, 999)


def _instant(moment: Expr) -> Expr:
    return casts.cast(moment, sqltypes.TIMESTAMP_LTZ)


def _ordinal(part: str, moment: Expr) -> code.Cast:
    ordinal: code.Code = code.call("date_part", "year", moment)
    if part != "year":
        parts_of_year = code.infix(ordinal, "*", {"quarter": 4, "month": 12}[part])
        ordinal = code.infix(parts_of_year, "+", code.call("date_part", part, moment))
    return code.arrow(ordinal, "Int64")


def _day_number(moment: Expr) -> code.Cast:
    return code.arrow(casts.cast(moment, sqltypes.DATE), "Int32")


def _monday(moment: Expr) -> code.Cast:
    return code.arrow(code.exactly(_floored("week", moment), sqltypes.DATE), "Int32")


def _micros(name: str, moment: Expr) -> code.Cast:
    if moment.type.name == "date":
        moment = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
    exact: code.Code = casts.as_arrow(moment, sqltypes.SqlType(name=moment.type.name, scale=6))
    if name != "microsecond":
        is_time = moment.type.name == "time"
        exact = code.call("date_trunc", name, exact) if is_time else _floored(name, moment)
    return code.arrow(exact, "Int64")


def last_day(call: FunctionCall) -> Expr:
    part = part_of(call.word(1)) if len(call.nodes) > 1 else "month"
    if part in ("week", "weekiso"):
        moment = _local(as_moment(call.arg(0)))
        weeks = call.context.weeks
        last = code.infix(_monday(moment), "+", 6)
        if part == "week" and weeks.first_day:
            last = code.infix(_week_start(_day_number(moment), weeks), "+", 6)
        return exprs.derived(_date_of(last), sqltypes.DATE, [moment])
    steps = {"month": 1, "quarter": 3, "year": 12}
    if part not in steps:
        raise call.refuse(f"part {part}")
    day = casts.cast(as_moment(call.arg(0)), sqltypes.DATE)
    first = code.exactly(_floored(part, day), sqltypes.DATE)
    last = code.infix(
        first, "+", code.interval(f"{steps[part]} month"), "-", code.interval("1 day")
    )
    return exprs.derived(code.exactly(last, sqltypes.DATE), sqltypes.DATE, [day])


def _date_of(days: code.Part) -> code.Cast:
    """Return days since 1970 as a DATE."""
    return code.arrow(code.arrow(days, "Int32"), "Date32")


def weekday_near(*, ahead: bool) -> builders.Builder:
    """NEXT_DAY and PREVIOUS_DAY: the nearest day of that name after the moment, or before it."""

    def build(call: FunctionCall) -> Expr:
        word = str(call.constant(1))
        begin = word.lstrip()[:2].lower()
        if begin not in WEEKDAYS:
            raise errors.unsupported(f"{call.name} of '{word}'")
        wanted = WEEKDAYS.index(begin)
        moment = _local(as_moment(call.arg(0)))
        day = _day_number(moment)
        # Day 0, 1970-01-01, was a Thursday, day 4 of a week that begins on Sunday.
        weekday = _modulo(code.infix(day, "+", 4), 7)
        pair = (wanted, weekday) if ahead else (weekday, wanted)
        steps = code.infix(_modulo(code.infix(pair[0], "-", pair[1], "-", 1), 7), "+", 1)
        moved = code.infix(day, "+" if ahead else "-", steps)
        return exprs.derived(_date_of(moved), sqltypes.DATE, [moment])

    return build


WEEKDAYS = ("su", "mo", "tu", "we", "th", "fr", "sa")
"""How the names of the days begin; what follows is ignored."""


def months_between(call: FunctionCall) -> Expr:
    moments = [casts.cast(as_moment(each), sqltypes.TIMESTAMP_NTZ) for each in call.args]
    exact = (casts.as_arrow(moment, sqltypes.TIMESTAMP_NTZ) for moment in moments)
    return exprs.derived(code.kernel("_months_between", *exact), sqltypes.number(38, 6), moments)


def time_from_parts(call: FunctionCall) -> Expr:
    """TIME_FROM_PARTS(hour, minute, second, nanosecond): parts beyond their range move it on."""
    parts = [arithmetic.round_half_away(argument) for argument in call.args]
    _check_nanoseconds(call, 3)
    total: code.Part = code.exactly(exprs.integer(0), sqltypes.integer())
    for part, micros in zip(parts[:3], (3_600_000_000, 60_000_000, 1_000_000), strict=True):
        # Whole days change nothing, and without them the product stays small.
        steps = code.infix(code.exactly(part, sqltypes.integer()), "%", DAY // micros)
        total = code.infix(total, "+", code.infix(steps, "*", micros))
    if len(parts) > 3:
        nanos = _modulo(code.exactly(parts[3], sqltypes.integer()), DAY * 1000)
        total = code.infix(total, "+", code.infix(nanos, "/", 1000))
    return exprs.derived(code.exactly(_modulo(total, DAY), sqltypes.TIME), sqltypes.TIME, parts)


def _check_nanoseconds(call: FunctionCall, index: int) -> None:
    """Raise SqlError 000002 for a constant argument that is no whole number of microseconds.

    Of columns and binds the digits below are cut, as docs/decisions/0052 says.
    """
    if index < len(call.nodes) and not builders.has_bind(call.nodes[index]):
        casts.check_whole_micros(call.arg(index), 9)


DAY = casts.MICROSECONDS["day"]


def add_months(call: FunctionCall) -> Expr:
    """ADD_MONTHS: the last day of a month stays a last day."""
    moment, count = as_exact_moment(call.arg(0)), arithmetic.round_half_away(call.arg(1))
    if moment.type.name == "time":
        raise call.refuse("a TIME")
    if moment.type.name in ("timestamp_ltz", "timestamp_tz"):
        local = casts.cast(moment, sqltypes.TIMESTAMP_NTZ)
        return _shown_at(moment, arithmetic.add_months(local, count))
    return arithmetic.add_months(moment, count)


def named(pattern: str) -> builders.Builder:
    """DAYNAME and MONTHNAME."""

    def build(call: FunctionCall) -> Expr:
        moment = _local(as_moment(call.arg(0)))
        name = code.call("to_char", casts.cast(moment, sqltypes.TIMESTAMP_NTZ), pattern)
        return builders.text_result(name, [moment])

    return build


def date_from_parts(call: FunctionCall) -> Expr:
    year, month, day = (arithmetic.round_half_away(argument) for argument in call.args)
    # Months and days beyond their range move the date on, as in Snowflake.
    first = code.call("make_date", code.arrow(year, "Int32"), 1, 1)
    start = Expr(code=first, type=sqltypes.DATE)
    moved_months = arithmetic.add_units(
        start, arithmetic.add(month, exprs.integer(1), negative=True), "month"
    )
    moment = arithmetic.add_units(
        moved_months, arithmetic.add(day, exprs.integer(1), negative=True), "day"
    )
    return exprs.derived(moment.code, sqltypes.DATE, [year, month, day])


def timestamp_from_parts(call: FunctionCall) -> Expr:
    if len(call.nodes) == 2:
        return _at_time(call)
    if len(call.nodes) not in (6, 7):
        raise call.refuse(f"{len(call.nodes)} arguments")
    parts = [arithmetic.round_half_away(argument) for argument in call.args]
    _check_nanoseconds(call, 6)
    date = date_from_parts(dataclasses.replace(call, nodes=call.nodes[:3]))
    moment = casts.cast(date, sqltypes.TIMESTAMP_NTZ)
    for count, unit in zip(parts[3:6], ("hour", "minute", "second"), strict=True):
        moment = arithmetic.add_units(moment, count, unit)
    if len(parts) == 7:
        micros = exprs.derived(_floored_micros(parts[6]), sqltypes.integer(), [parts[6]])
        moment = arithmetic.add_units(moment, micros, "microsecond")
    return exprs.derived(moment.code, sqltypes.TIMESTAMP_NTZ, parts)


def _at_time(call: FunctionCall) -> Expr:
    """TIMESTAMP_NTZ_FROM_PARTS(date, time)."""
    day, time = casts.cast(call.arg(0), sqltypes.DATE), casts.cast(call.arg(1), sqltypes.TIME)
    midnight = code.arrow(casts.cast(day, sqltypes.TIMESTAMP_NTZ), "Int64")
    micros = code.infix(midnight, "+", code.arrow(time, "Int64"))
    moment = code.exactly(micros, sqltypes.TIMESTAMP_NTZ)
    return exprs.derived(moment, sqltypes.TIMESTAMP_NTZ, [day, time])


def local_timestamp_from_parts(call: FunctionCall) -> Expr:
    """TIMESTAMP_LTZ_FROM_PARTS: in the session's zone."""
    return casts.cast(timestamp_from_parts(call), sqltypes.TIMESTAMP_LTZ)


def zoned_timestamp_from_parts(call: FunctionCall) -> Expr:
    """TIMESTAMP_TZ_FROM_PARTS: in the session's zone, or in that of the eighth argument."""
    parts = dataclasses.replace(call, nodes=call.nodes[:7])
    moment = timestamp_from_parts(parts)
    if len(call.nodes) < 8:
        return casts.cast(moment, sqltypes.TIMESTAMP_TZ)
    zone = str(call.constant(7)).replace('"', "")
    exact = casts.as_arrow(moment, sqltypes.TIMESTAMP_NTZ)
    utc = exprs.derived(
        code.kernel("_convert_zone", exact, zone, "UTC"), sqltypes.TIMESTAMP_NTZ, [moment]
    )
    packed = code.kernel("_zoned_at_zone", code.arrow(utc, "Int64"), zone)
    return exprs.derived(packed, sqltypes.TIMESTAMP_TZ, [moment])


def to_moment(target: sqltypes.SqlType, *, lenient: bool = False) -> builders.Builder:
    """TO_DATE, TO_TIME, TO_TIMESTAMP and their like, with or without a format."""

    def build(call: FunctionCall) -> Expr:
        operand = call.arg(0)
        model = call.constant(1)
        if target.name == "timestamp_ntz" and casts.is_of_nanoseconds(operand):
            return operand
        is_auto = isinstance(model, str) and model.upper() == formats.AUTO
        if is_auto and operand.type.name == "text":
            operand = casts.read_by(operand, None)
        if model is None or is_auto:
            if not builders.has_bind(call.nodes[0]):
                casts.check_whole_epoch(operand)
            return casts.cast(operand, target, lenient=lenient)
        if isinstance(model, int):
            return _scaled_epoch(call, operand, model, target)
        if operand.type.name != "text":
            raise call.refuse(f"a format and {sqltypes.shown(operand.type)}")
        since = call.context.century_start
        return casts.by_model(operand, target, str(model), since=since, lenient=lenient)

    return build


def _scaled_epoch(call: FunctionCall, operand: Expr, scale: int, target: sqltypes.SqlType) -> Expr:
    if operand.type.name != "fixed" or not 0 <= scale <= 9:
        raise call.refuse("a scale")
    if not builders.has_bind(call.nodes[0]):
        casts.check_whole_micros(operand, scale)
    if scale == 9 and operand.type.is_integer:
        micros: code.Code = _floored_micros(operand)
    elif scale > 6 or not operand.type.is_integer:
        factor = exprs.number(decimal.Decimal(10).scaleb(5 - scale))
        whole = code.call("floor", arithmetic.multiply(operand, factor))
        micros = code.exactly(whole, sqltypes.integer())
    else:
        exact = arithmetic.multiply(operand, exprs.integer(10 ** (6 - scale)))
        micros = code.exactly(exact, sqltypes.integer())
    if target.name == "timestamp_ltz":
        return casts.at_instant(micros, [operand])
    if target.name == "timestamp_tz":
        return casts.at_zone(casts.at_instant(micros, [operand]), "UTC")
    moment = exprs.derived(
        code.exactly(micros, sqltypes.TIMESTAMP_NTZ), sqltypes.TIMESTAMP_NTZ, [operand]
    )
    return casts.cast(moment, target)


def to_timestamp(call: FunctionCall) -> Expr:
    """TO_TIMESTAMP: with the session's meaning of TIMESTAMP."""
    mapping = call.context.timestamp_mapping
    return to_moment(MAPPED[mapping])(call)


MAPPED = {
    "TIMESTAMP_NTZ": sqltypes.TIMESTAMP_NTZ,
    "TIMESTAMP_LTZ": sqltypes.TIMESTAMP_LTZ,
    "TIMESTAMP_TZ": sqltypes.TIMESTAMP_TZ,
}
"""What TIMESTAMP means, by the parameter TIMESTAMP_TYPE_MAPPING."""


def convert_timezone(call: FunctionCall) -> Expr:
    """CONVERT_TIMEZONE(from, to, ntz), or (to, moment): a TIMESTAMP_TZ of the same instant."""
    if len(call.nodes) == 2:
        zone = str(call.constant(0)).replace('"', "")
        operand = call.arg(1)
        if operand.type.name == "text":  # it may name its own offset
            operand = casts.cast(operand, sqltypes.TIMESTAMP_TZ)
        return casts.at_zone(_instant(as_exact_moment(operand)), zone)
    source, target = call.constant(0), call.constant(1)
    operand = call.arg(2)
    if operand.type.name == "timestamp_tz":
        raise call.invalid()
    moment = casts.cast(as_exact_moment(operand), sqltypes.TIMESTAMP_NTZ)
    zones = [str(zone).replace('"', "") for zone in (source, target)]
    exact = casts.as_arrow(moment, sqltypes.TIMESTAMP_NTZ)
    return exprs.derived(
        code.kernel("_convert_zone", exact, *zones), sqltypes.TIMESTAMP_NTZ, [moment]
    )


def current_timestamp(call: FunctionCall) -> Expr:
    return exprs.timestamp(call.context.now)


def current_date(call: FunctionCall) -> Expr:
    return exprs.date(call.context.today)


def current_time(call: FunctionCall) -> Expr:
    return exprs.time(call.context.now.time())


def sysdate(call: FunctionCall) -> Expr:
    return exprs.timestamp(call.context.now.astimezone(datetime.UTC).replace(tzinfo=None))


def local_timestamp(call: FunctionCall) -> Expr:
    return exprs.timestamp(call.context.now)


NTZ, LTZ, TZ = sqltypes.TIMESTAMP_NTZ, sqltypes.TIMESTAMP_LTZ, sqltypes.TIMESTAMP_TZ

MOMENT_FUNCTIONS = (
    _extractor("YEAR", "year"),
    _extractor("QUARTER", "quarter"),
    _extractor("MONTH", "month"),
    _extractor("WEEK WEEKOFYEAR", "week"),
    _extractor("WEEKISO", "weekiso"),
    _extractor("DAY DAYOFMONTH", "day"),
    _extractor("DAYOFWEEK", "dayofweek"),
    _extractor("DAYOFWEEKISO", "dayofweekiso"),
    _extractor("DAYOFYEAR", "dayofyear"),
    _extractor("YEAROFWEEK", "yearofweek"),
    _extractor("YEAROFWEEKISO", "yearofweekiso"),
    _extractor("HOUR", "hour"),
    _extractor("MINUTE", "minute"),
    _extractor("SECOND", "second"),
    function("DATE_PART", "word moment", "integer", date_part),
    function("DATE_TRUNC", "word moment", "moment", date_trunc),
    function("DATEADD TIMEADD TIMESTAMPADD", "word whole moment", "moment", date_add),
    function("DATEDIFF TIMEDIFF TIMESTAMPDIFF", "word moment moment", "integer", date_diff),
    function("LAST_DAY", "moment [word]", "date", last_day),
    function("ADD_MONTHS", "moment whole", "moment", add_months),
    function("DAYNAME", "moment", "text", named("%a")),
    function("MONTHNAME", "moment", "text", named("%b")),
    function("DATE_FROM_PARTS DATEFROMPARTS", "whole whole whole", "date", date_from_parts),
    function(
        "TIMESTAMP_FROM_PARTS TIMESTAMP_NTZ_FROM_PARTS",
        "any any [whole]*5",
        "timestamp_ntz",
        timestamp_from_parts,
    ),
    function(
        "TIMESTAMP_LTZ_FROM_PARTS",
        "whole whole whole whole whole whole [whole]",
        "timestamp_ltz",
        local_timestamp_from_parts,
    ),
    function(
        "TIMESTAMP_TZ_FROM_PARTS",
        "whole whole whole whole whole whole [whole] [constant]",
        "timestamp_tz",
        zoned_timestamp_from_parts,
    ),
    function("TIME_FROM_PARTS TIMEFROMPARTS", "whole whole whole [whole]", "time", time_from_parts),
    function("MONTHS_BETWEEN", "moment moment", "number", months_between),
    function("NEXT_DAY", "moment constant", "date", weekday_near(ahead=True)),
    function("PREVIOUS_DAY", "moment constant", "date", weekday_near(ahead=False)),
    function("TO_DATE DATE", "any [constant]", "date", to_moment(sqltypes.DATE)),
    function("TRY_TO_DATE", "any [constant]", "date", to_moment(sqltypes.DATE, lenient=True)),
    function("TO_TIME TIME", "any [constant]", "time", to_moment(sqltypes.TIME)),
    function("TRY_TO_TIME", "any [constant]", "time", to_moment(sqltypes.TIME, lenient=True)),
    function("TO_TIMESTAMP", "any [constant]", "moment", to_timestamp),
    function("TO_TIMESTAMP_NTZ", "any [constant]", "timestamp_ntz", to_moment(NTZ)),
    function("TO_TIMESTAMP_LTZ", "any [constant]", "timestamp_ltz", to_moment(LTZ)),
    function("TO_TIMESTAMP_TZ", "any [constant]", "timestamp_tz", to_moment(TZ)),
    function("TRY_TO_TIMESTAMP_TZ", "any [constant]", "timestamp_tz", to_moment(TZ, lenient=True)),
    function(
        "TRY_TO_TIMESTAMP TRY_TO_TIMESTAMP_NTZ",
        "any [constant]",
        "timestamp_ntz",
        to_moment(NTZ, lenient=True),
    ),
    function(
        "TRY_TO_TIMESTAMP_LTZ", "any [constant]", "timestamp_ltz", to_moment(LTZ, lenient=True)
    ),
    function("CONVERT_TIMEZONE", "constant any [moment]", "moment", convert_timezone),
    function("CURRENT_TIMESTAMP", "[constant]", "timestamp_ltz", current_timestamp),
    function("GETDATE SYSTIMESTAMP", "", "timestamp_ltz", current_timestamp),
    function("LOCALTIMESTAMP", "[constant]", "timestamp_ltz", local_timestamp),
    function("TIME_SLICE", "moment constant constant [constant]", "moment", time_slice),
    function("CURRENT_DATE", "", "date", current_date),
    function("CURRENT_TIME LOCALTIME", "[constant]", "time", current_time),
    function("SYSDATE", "", "timestamp_ntz", sysdate),
)
