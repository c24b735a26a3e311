"""rule: functions on dates and times.

Weeks start on Monday and are ISO weeks, the defaults of WEEK_START and WEEK_OF_YEAR_POLICY. A DATE
stays a DATE where it does in Snowflake.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from sql import errors
from sql.dialect import bound as bounds
from sql.dialect import builders, formats, rewrites, sqltypes
from sql.dialect.bound import Bound
from sql.dialect.builders import FunctionCall

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
        "epoch_second": "epoch_second epoch epoch_seconds",
        "epoch_millisecond": "epoch_millisecond epoch_milliseconds",
        "epoch_microsecond": "epoch_microsecond epoch_microseconds",
    }.items()
    for alias in aliases.split()
}

EXTRACTED = {
    "year": ("year", -9999, 9999),
    "quarter": ("quarter", 1, 4),
    "month": ("month", 1, 12),
    "week": ("week", 1, 53),
    "weekiso": ("week", 1, 53),
    "day": ("day", 1, 31),
    "dayofweek": ("dow", 0, 6),
    "dayofyear": ("doy", 1, 366),
    "hour": ("hour", 0, 23),
    "minute": ("minute", 0, 59),
    "yearofweekiso": ("isoyear", -9999, 9999),
    "yearofweek": ("isoyear", -9999, 9999),
}


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


def as_moment(operand: Bound) -> Bound:
    """Return operand as a date or time; text becomes a TIMESTAMP_NTZ."""
    if operand.type.name in ("text", "null"):
        return rewrites.cast(operand, sqltypes.TIMESTAMP_NTZ)
    if operand.type.is_temporal or operand.type.name == "time":
        return operand
    raise errors.SqlError(
        "001044",
        "42P13",
        f"SQL compilation error:\nInvalid argument type {sqltypes.shown(operand.type)}",
        phase="COMPILATION",
    )


def _local(operand: Bound) -> Bound:
    """Return a moment without a zone: its calendar fields in the session's zone."""
    if operand.type.name == "timestamp_ltz":
        return rewrites.cast(operand, sqltypes.TIMESTAMP_NTZ)
    return operand


def extract(part: str, operand: Bound) -> Bound:
    """Return one field of a date or time, a NUMBER."""
    if part.startswith("epoch_"):
        return _epoch(part, operand)
    moment = _local(as_moment(operand))
    if moment.type.name == "time" and part not in TIME_PARTS:
        raise errors.SqlError(
            "001045",
            "22023",
            f"SQL compilation error:\n'{part.upper()}' is no part of a TIME",
            phase="COMPILATION",
        )
    if part == "dayofweekiso":
        rewrites.shared(moment)
        sql = f"(CASE WHEN date_part('dow', {moment.sql}) = 0 THEN 7"
        sql += f" ELSE date_part('dow', {moment.sql}) END)"
        return builders.small_integer(sql, [moment], 1, 7)
    if part in ("second", "millisecond", "microsecond", "nanosecond"):
        return _second(part, moment)
    field = EXTRACTED.get(part)
    if field is None:
        raise errors.unsupported(f"date part {part}")
    name, low, high = field
    return builders.small_integer(f"date_part('{name}', {moment.sql})", [moment], low, high)


def _second(part: str, moment: Bound) -> Bound:
    if moment.type.name == "date":
        moment = rewrites.cast(moment, sqltypes.TIMESTAMP_NTZ)
    if part == "second":
        sql = f"floor(date_part('second', {moment.sql}))"
        return builders.small_integer(sql, [moment], 0, 59)
    micros = f"(arrow_cast({moment.sql}, 'Int64') % 1000000)"
    positive = f"(({micros} + 1000000) % 1000000)"
    factor = {"millisecond": "/ 1000", "microsecond": "* 1", "nanosecond": "* 1000"}[part]
    return builders.small_integer(f"({positive} {factor})", [moment], 0, 999_999_999)


def _epoch(part: str, operand: Bound) -> Bound:
    moment = as_moment(operand)
    if moment.type.name == "date":
        moment = rewrites.cast(moment, sqltypes.TIMESTAMP_NTZ)
    divisor = {"epoch_second": 1_000_000, "epoch_millisecond": 1_000, "epoch_microsecond": 1}[part]
    micros = f"arrow_cast({moment.sql}, 'Int64')"
    if divisor != 1:
        # Towards minus infinity: the engine divides towards zero.
        micros = f"(({micros} - ((({micros} % {divisor}) + {divisor}) % {divisor})) / {divisor})"
    return bounds.derived(micros, sqltypes.integer(), [moment])


def _extractor(part: str) -> builders.Function:
    return builders.scalar(1, None, lambda call: extract(part, call.arg(0)))


def date_part(call: FunctionCall) -> Bound:
    return extract(part_of(call.word(0)), call.arg(1))


def truncate(part: str, operand: Bound) -> Bound:
    moment = as_moment(operand)
    name = {"weekiso": "week"}.get(part, part)
    if name not in TRUNCATED:
        raise errors.unsupported(f"DATE_TRUNC to {part}")
    if moment.type.name == "date":
        if name in rewrites.MICROSECONDS and name != "day":
            return moment
        sql = sqltypes.exactly(_floored(name, moment), sqltypes.DATE)
        return bounds.derived(sql, sqltypes.DATE, [moment])
    if moment.type.name == "timestamp_ltz":
        local = rewrites.cast(moment, sqltypes.TIMESTAMP_NTZ)
        start = truncate(part, local)
        if name not in rewrites.MICROSECONDS or name == "day":
            return rewrites.cast(start, moment.type)
        # Within a day the instant itself moves, so that the second of two equal hours stays it.
        instant, shown, wanted = (
            f"arrow_cast({each.sql}, 'Int64')" for each in (moment, local, start)
        )
        return rewrites.at_instant(f"({instant} - ({shown} - {wanted}))", [moment])
    if moment.type.name == "time":
        return bounds.derived(f"date_trunc('{name}', {moment.sql})", moment.type, [moment])
    sql = sqltypes.exactly(_floored(name, moment), moment.type)
    return bounds.derived(sql, moment.type, [moment])


def _floored(name: str, moment: Bound) -> str:
    """Return a DATE or TIMESTAMP_NTZ cut to a unit, as a TIMESTAMP_NTZ.

    The engine's own function counts in nanoseconds, and fails before 1677 and after 2262.
    """
    exact = rewrites.as_arrow(moment, sqltypes.TIMESTAMP_NTZ)
    return exact if name == "microsecond" else f"_floor_{name}({exact})"


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


def date_trunc(call: FunctionCall) -> Bound:
    return truncate(part_of(call.word(0)), call.arg(1))


def date_add(call: FunctionCall) -> Bound:
    """DATEADD(part, count, moment)."""
    return moved(part_of(call.word(0)), call.arg(1), call.arg(2))


def moved(part: str, count: Bound, operand: Bound) -> Bound:
    moment = as_moment(operand)
    count = rewrites.round_half_away(count)
    factor, unit = {
        "year": (12, "month"),
        "quarter": (3, "month"),
        "week": (7, "day"),
        "weekiso": (7, "day"),
    }.get(part, (1, part))
    if unit == "nanosecond":
        raise errors.unsupported("DATEADD by nanoseconds")
    if unit not in rewrites.MICROSECONDS and unit != "month":
        raise errors.unsupported(f"DATEADD by {part}")
    if factor != 1:
        count = rewrites.multiply(count, bounds.integer(factor))
    if moment.type.name == "time":
        return _moved_time(unit, count, moment)
    if moment.type.name == "date" and unit not in ("day", "month"):
        moment = rewrites.cast(moment, sqltypes.TIMESTAMP_NTZ)
    return rewrites.add_units(moment, count, unit)


def _moved_time(unit: str, count: Bound, moment: Bound) -> Bound:
    if unit in ("day", "month"):
        raise errors.unsupported(f"DATEADD of {unit}s to a TIME")
    day = 86_400_000_000
    micros = rewrites.MICROSECONDS[unit]
    exact = rewrites.as_arrow(moment, sqltypes.TIME)
    # Whole days change nothing, and without them the product stays small.
    steps = f"(arrow_cast({count.sql}, 'Int64') % {day // micros})"
    total = f"(arrow_cast({exact}, 'Int64') + {steps} * {micros})"
    sql = sqltypes.exactly(f"((({total} % {day}) + {day}) % {day})", sqltypes.TIME)
    return bounds.derived(sql, sqltypes.TIME, [moment, count])


def date_diff(call: FunctionCall) -> Bound:
    """DATEDIFF(part, from, to): the number of boundaries of the part in between."""
    return difference(part_of(call.word(0)), call.arg(1), call.arg(2))


def difference(part: str, start: Bound, end: Bound) -> Bound:
    first, last = _local(as_moment(start)), _local(as_moment(end))
    parts = [first, last]
    sql_type = sqltypes.integer()
    if part in ("year", "quarter", "month"):
        sql = f"({_ordinal(part, last)} - {_ordinal(part, first)})"
        return bounds.derived(sql, sql_type, parts)
    if part in ("week", "weekiso"):
        sql = f"(({_monday(last)} - {_monday(first)}) / 7)"
        return bounds.derived(f"arrow_cast({sql}, 'Int64')", sql_type, parts)
    if part == "day":
        sql = f"({_day_number(last)} - {_day_number(first)})"
        return bounds.derived(f"arrow_cast({sql}, 'Int64')", sql_type, parts)
    if part not in rewrites.MICROSECONDS and part != "nanosecond":
        raise errors.unsupported(f"DATEDIFF in {part}")
    name = part if part in TRUNCATED else "microsecond"
    micros = rewrites.MICROSECONDS.get(part, 1)
    ends = [_micros(name, moment) for moment in (last, first)]
    sql = f"(({ends[0]} - {ends[1]}) / {micros})"
    count = bounds.derived(sql, sql_type, parts)
    return rewrites.multiply(count, bounds.integer(1000)) if part == "nanosecond" else count


def _ordinal(part: str, moment: Bound) -> str:
    year = f"date_part('year', {moment.sql})"
    expression = {
        "year": year,
        "quarter": f"({year} * 4 + date_part('quarter', {moment.sql}))",
        "month": f"({year} * 12 + date_part('month', {moment.sql}))",
    }[part]
    return f"arrow_cast({expression}, 'Int64')"


def _day_number(moment: Bound) -> str:
    return f"arrow_cast({rewrites.cast(moment, sqltypes.DATE).sql}, 'Int32')"


def _monday(moment: Bound) -> str:
    return f"arrow_cast({sqltypes.exactly(_floored('week', moment), sqltypes.DATE)}, 'Int32')"


def _micros(name: str, moment: Bound) -> str:
    if moment.type.name == "date":
        moment = rewrites.cast(moment, sqltypes.TIMESTAMP_NTZ)
    exact = rewrites.as_arrow(moment, sqltypes.SqlType(name=moment.type.name, scale=6))
    if name != "microsecond":
        is_time = moment.type.name == "time"
        exact = f"date_trunc('{name}', {exact})" if is_time else _floored(name, moment)
    return f"arrow_cast({exact}, 'Int64')"


def last_day(call: FunctionCall) -> Bound:
    part = part_of(call.word(1)) if len(call.nodes) > 1 else "month"
    steps = {"month": 1, "quarter": 3, "year": 12}
    if part not in steps:
        raise call.refuse(f"part {part}")
    day = rewrites.cast(as_moment(call.arg(0)), sqltypes.DATE)
    first = sqltypes.exactly(_floored(part, day), sqltypes.DATE)
    sql = f"({first} + INTERVAL '{steps[part]} month' - INTERVAL '1 day')"
    return bounds.derived(sqltypes.exactly(sql, sqltypes.DATE), sqltypes.DATE, [day])


def add_months(call: FunctionCall) -> Bound:
    """ADD_MONTHS: the last day of a month stays a last day."""
    moment, count = as_moment(call.arg(0)), rewrites.round_half_away(call.arg(1))
    if moment.type.name == "time":
        raise call.refuse("a TIME")
    if moment.type.name == "timestamp_ltz":
        local = rewrites.cast(moment, sqltypes.TIMESTAMP_NTZ)
        return rewrites.cast(rewrites.add_months(local, count), moment.type)
    return rewrites.add_months(moment, count)


def named(pattern: str) -> builders.Function:
    """DAYNAME and MONTHNAME."""

    def build(call: FunctionCall) -> Bound:
        moment = _local(as_moment(call.arg(0)))
        sql = f"to_char({rewrites.cast(moment, sqltypes.TIMESTAMP_NTZ).sql}, '{pattern}')"
        return builders.text_result(sql, [moment])

    return builders.scalar(1, None, build)


def date_from_parts(call: FunctionCall) -> Bound:
    year, month, day = (rewrites.round_half_away(argument) for argument in call.args)
    # Months and days beyond their range move the date on, as in Snowflake.
    first = f"make_date(arrow_cast({year.sql}, 'Int32'), 1, 1)"
    start = Bound(sql=first, type=sqltypes.DATE)
    moved_months = rewrites.add_units(
        start, rewrites.add(month, bounds.integer(1), negative=True), "month"
    )
    moment = rewrites.add_units(
        moved_months, rewrites.add(day, bounds.integer(1), negative=True), "day"
    )
    return bounds.derived(moment.sql, sqltypes.DATE, [year, month, day])


def timestamp_from_parts(call: FunctionCall) -> Bound:
    if len(call.nodes) not in (6, 7):
        raise call.refuse(f"{len(call.nodes)} arguments")
    parts = [rewrites.round_half_away(argument) for argument in call.args]
    date = date_from_parts(
        builders.FunctionCall(
            name=call.name, nodes=call.nodes[:3], bind=call.bind, context=call.context
        )
    )
    moment = rewrites.cast(date, sqltypes.TIMESTAMP_NTZ)
    for count, unit in zip(parts[3:6], ("hour", "minute", "second"), strict=True):
        moment = rewrites.add_units(moment, count, unit)
    if len(parts) == 7:
        micros = rewrites.divide(parts[6], bounds.integer(1000))
        moment = rewrites.add_units(moment, micros, "microsecond")
    return bounds.derived(moment.sql, sqltypes.TIMESTAMP_NTZ, parts)


def to_moment(target: sqltypes.SqlType, *, lenient: bool = False) -> builders.Function:
    """TO_DATE, TO_TIME, TO_TIMESTAMP and their like, with or without a format."""

    def build(call: FunctionCall) -> Bound:
        operand = call.arg(0)
        model = call.constant(1)
        if model is None or (isinstance(model, str) and model.upper() == "AUTO"):
            return rewrites.cast(operand, target, lenient=lenient)
        if isinstance(model, int):
            return _scaled_epoch(call, operand, model, target)
        if operand.type.name != "text":
            raise call.refuse(f"a format and {sqltypes.shown(operand.type)}")
        pattern = bounds.quoted_text(formats.strptime_pattern(str(model)))
        exact = rewrites.as_arrow(operand, sqltypes.TEXT)
        name = "_try_parse" if lenient else "_parse"
        type_name = {"date": "date", "time": "time"}.get(target.name, "timestamp")
        parsed = bounds.derived(
            f"{name}_{type_name}({exact}, {pattern})",
            {"date": sqltypes.DATE, "time": sqltypes.TIME}.get(target.name, sqltypes.TIMESTAMP_NTZ),
            [operand],
            nullable=lenient or None,
        )
        return rewrites.cast(parsed, target)

    return builders.scalar(1, 2, build)


def _scaled_epoch(
    call: FunctionCall, operand: Bound, scale: int, target: sqltypes.SqlType
) -> Bound:
    if not operand.type.is_integer or scale not in (0, 3, 6, 9):
        raise call.refuse("a scale")
    if scale == 9:
        micros = f"(arrow_cast({operand.sql}, 'Int64') / 1000)"
    else:
        exact = rewrites.multiply(operand, bounds.integer(10 ** (6 - scale)))
        micros = sqltypes.exactly(exact.sql, sqltypes.integer())
    if target.name == "timestamp_ltz":
        return rewrites.at_instant(micros, [operand])
    moment = bounds.derived(
        sqltypes.exactly(micros, sqltypes.TIMESTAMP_NTZ), sqltypes.TIMESTAMP_NTZ, [operand]
    )
    return rewrites.cast(moment, target)


def to_timestamp(call: FunctionCall) -> Bound:
    """TO_TIMESTAMP: with the session's meaning of TIMESTAMP."""
    mapping = call.context.timestamp_mapping
    target = {"TIMESTAMP_NTZ": sqltypes.TIMESTAMP_NTZ, "TIMESTAMP_LTZ": sqltypes.TIMESTAMP_LTZ}.get(
        mapping
    )
    if target is None:
        raise errors.unsupported(f"TIMESTAMP_TYPE_MAPPING = {mapping}")
    return to_moment(target).build(call)


def convert_timezone(call: FunctionCall) -> Bound:
    """CONVERT_TIMEZONE(from, to, ntz); the two-argument form gives TIMESTAMP_TZ."""
    if len(call.nodes) == 2:
        raise call.refuse("two arguments (TIMESTAMP_TZ)")
    source, target = call.constant(0), call.constant(1)
    moment = rewrites.cast(as_moment(call.arg(2)), sqltypes.TIMESTAMP_NTZ)
    zones = [bounds.quoted_text(str(zone).replace('"', "")) for zone in (source, target)]
    sql = f"_convert_zone({rewrites.as_arrow(moment, sqltypes.TIMESTAMP_NTZ)}, {', '.join(zones)})"
    return bounds.derived(sql, sqltypes.TIMESTAMP_NTZ, [moment])


def current_timestamp(call: FunctionCall) -> Bound:
    return bounds.timestamp(call.context.now)


def current_date(call: FunctionCall) -> Bound:
    return bounds.date(call.context.now.date())


def current_time(call: FunctionCall) -> Bound:
    return bounds.time(call.context.now.time())


def sysdate(call: FunctionCall) -> Bound:
    return bounds.timestamp(call.context.now.astimezone(datetime.UTC).replace(tzinfo=None))


def local_timestamp(call: FunctionCall) -> Bound:
    return bounds.timestamp(call.context.now)


FUNCTIONS: Mapping[str, builders.Function] = {
    "YEAR": _extractor("year"),
    "QUARTER": _extractor("quarter"),
    "MONTH": _extractor("month"),
    "WEEK": _extractor("week"),
    "WEEKOFYEAR": _extractor("week"),
    "WEEKISO": _extractor("weekiso"),
    "DAY": _extractor("day"),
    "DAYOFMONTH": _extractor("day"),
    "DAYOFWEEK": _extractor("dayofweek"),
    "DAYOFWEEKISO": _extractor("dayofweekiso"),
    "DAYOFYEAR": _extractor("dayofyear"),
    "YEAROFWEEK": _extractor("yearofweek"),
    "YEAROFWEEKISO": _extractor("yearofweekiso"),
    "HOUR": _extractor("hour"),
    "MINUTE": _extractor("minute"),
    "SECOND": _extractor("second"),
    "DATE_PART": builders.scalar(2, None, date_part),
    "DATE_TRUNC": builders.scalar(2, None, date_trunc),
    "DATEADD": builders.scalar(3, None, date_add),
    "TIMEADD": builders.scalar(3, None, date_add),
    "TIMESTAMPADD": builders.scalar(3, None, date_add),
    "DATEDIFF": builders.scalar(3, None, date_diff),
    "TIMEDIFF": builders.scalar(3, None, date_diff),
    "TIMESTAMPDIFF": builders.scalar(3, None, date_diff),
    "LAST_DAY": builders.scalar(1, 2, last_day),
    "ADD_MONTHS": builders.scalar(2, None, add_months),
    "DAYNAME": named("%a"),
    "MONTHNAME": named("%b"),
    "DATE_FROM_PARTS": builders.scalar(3, None, date_from_parts),
    "DATEFROMPARTS": builders.scalar(3, None, date_from_parts),
    "TIMESTAMP_FROM_PARTS": builders.scalar(6, 7, timestamp_from_parts),
    "TIMESTAMP_NTZ_FROM_PARTS": builders.scalar(6, 7, timestamp_from_parts),
    "TO_DATE": to_moment(sqltypes.DATE),
    "DATE": to_moment(sqltypes.DATE),
    "TRY_TO_DATE": to_moment(sqltypes.DATE, lenient=True),
    "TO_TIME": to_moment(sqltypes.TIME),
    "TIME": to_moment(sqltypes.TIME),
    "TRY_TO_TIME": to_moment(sqltypes.TIME, lenient=True),
    "TO_TIMESTAMP": builders.scalar(1, 2, to_timestamp),
    "TO_TIMESTAMP_NTZ": to_moment(sqltypes.TIMESTAMP_NTZ),
    "TO_TIMESTAMP_LTZ": to_moment(sqltypes.TIMESTAMP_LTZ),
    "TRY_TO_TIMESTAMP": to_moment(sqltypes.TIMESTAMP_NTZ, lenient=True),
    "TRY_TO_TIMESTAMP_NTZ": to_moment(sqltypes.TIMESTAMP_NTZ, lenient=True),
    "TRY_TO_TIMESTAMP_LTZ": to_moment(sqltypes.TIMESTAMP_LTZ, lenient=True),
    "CONVERT_TIMEZONE": builders.scalar(2, 3, convert_timezone),
    "CURRENT_TIMESTAMP": builders.scalar(0, 1, current_timestamp),
    "LOCALTIMESTAMP": builders.scalar(0, 1, local_timestamp),
    "GETDATE": builders.scalar(0, None, current_timestamp),
    "SYSTIMESTAMP": builders.scalar(0, None, current_timestamp),
    "CURRENT_DATE": builders.scalar(0, None, current_date),
    "CURRENT_TIME": builders.scalar(0, 1, current_time),
    "LOCALTIME": builders.scalar(0, 1, current_time),
    "SYSDATE": builders.scalar(0, None, sysdate),
}
