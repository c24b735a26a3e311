"""rule: Snowflake's semantics in the engine's SQL: casts, arithmetic, comparison, patterns.

Each function takes bound operands and returns one. Where the engine differs silently (whole number
division, wrapping sums, NULL in CONCAT, backslash in LIKE, unanchored regular expressions) the
rewrite makes the difference explicit; a construct that cannot be expressed is refused.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Sequence

from sql import errors, kernels
from sql.dialect import bound as bounds
from sql.dialect import formats, sqltypes
from sql.dialect.bound import Bound

COMPARISONS = {"=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"}


def call(name: str, *arguments: Bound) -> str:
    """Return a call of an engine function or kernel."""
    return f"{name}({', '.join(argument.sql for argument in arguments)})"


def shared(operand: Bound) -> Bound:
    """Return an operand that the engine's text will hold more than once.

    Raises SqlError for one that would have another value each time.
    """
    if operand.is_volatile:
        raise errors.unsupported("RANDOM or UUID_STRING where its value is used more than once")
    return operand


def as_arrow(operand: Bound, sql_type: sqltypes.SqlType) -> str:
    """Return operand in exactly the engine's type of kind; kernels accept no other."""
    return sqltypes.exactly(operand.sql, sql_type)


# Casts


def cast(
    operand: Bound,
    target: sqltypes.SqlType,
    *,
    lenient: bool = False,
    forms: formats.Forms = formats.DEFAULT,
) -> Bound:
    """Return operand as target, as CAST does, or TRY_CAST when lenient.

    forms: how dates, times and binary values become text. Raises SqlError for a pair of types that
    Snowflake does not cast between.
    """
    source = operand.type
    if source.name == "null" or operand.literal is None:
        return bounds.null(target)
    if target.name == "fixed" and target.is_integer and not source.is_integer:
        target = sqltypes.number(target.precision)
    if operand.is_literal and source.name == "text":
        converted = _cast_literal(operand, target, lenient=lenient)
        if converted is not None:
            return converted
    if target.name == "text" and source.name in FORMATTED:
        return _format(operand, target, forms)
    rewrite = CASTS.get((source.name, target.name))
    if rewrite is None:
        raise _no_cast(source, target)
    return rewrite(operand, target, lenient)


def implicit(
    operand: Bound, target: sqltypes.SqlType, forms: formats.Forms = formats.DEFAULT
) -> Bound:
    """Return operand as target if Snowflake converts it implicitly, without loss."""
    if sqltypes.same_in_engine(operand.type, target):
        return operand
    if target.name == "fixed" and target.is_integer and operand.type.is_integer:
        return operand
    return cast(operand, target, forms=forms)


def unify(operands: Sequence[Bound], what: str) -> tuple[list[Bound], sqltypes.SqlType]:
    """Return operands as their common type; raises SqlError if there is none."""
    sql_type = sqltypes.unified([operand.type for operand in operands])
    if sql_type is None:
        shown = ", ".join(sqltypes.shown(operand.type) for operand in operands)
        raise _mismatch(f"{what} of ({shown})")
    if sql_type.name == "null":
        return list(operands), sql_type
    return [implicit(operand, sql_type) for operand in operands], sql_type


def _mismatch(detail: str) -> errors.SqlError:
    return errors.SqlError(
        "001065",
        "22023",
        f"SQL compilation error:\nArgument types do not match: {detail}",
        phase="COMPILATION",
    )


def _no_cast(source: sqltypes.SqlType, target: sqltypes.SqlType) -> errors.SqlError:
    return errors.SqlError(
        "001065",
        "22023",
        "SQL compilation error:\n"
        f"invalid type [CAST({sqltypes.shown(source)} AS {sqltypes.shown(target)})]",
        phase="COMPILATION",
    )


def _cast_literal(operand: Bound, target: sqltypes.SqlType, *, lenient: bool) -> Bound | None:
    """Return a text literal as a literal of target; None leaves it to run time.

    Bad text fails when a row reaches it, not here: a CASE branch that is never taken may hold it.
    """
    text = operand.literal
    try:
        match target.name:
            case "fixed":
                value = kernels.parse_fixed(text, target.precision, target.scale)
                constant = bounds.integer(int(value)) if not target.scale else bounds.number(value)
                return _cast_fixed(constant, target, lenient)
            case "date":
                return bounds.date(kernels.parse_date(text))
            case "timestamp_ntz":
                return bounds.timestamp(kernels.parse_timestamp(text))
            case "timestamp_ltz":
                return _instant_literal(kernels.parse_moment(text), target)
            case "time":
                return bounds.time(kernels.parse_time(text))
            case "boolean" if text.strip().lower() in kernels.TRUE_WORDS:
                return bounds.boolean(True)
            case "boolean" if text.strip().lower() in kernels.FALSE_WORDS:
                return bounds.boolean(False)
            case "text" if target.length is not None:
                if lenient and len(text) > target.length:
                    return bounds.null(target)
                return bounds.text(text[: target.length])
    except (ValueError, OverflowError):
        return bounds.null(target) if lenient else None
    return None


def _instant_literal(moment: datetime.datetime, target: sqltypes.SqlType) -> Bound:
    if moment.tzinfo is not None:
        return bounds.timestamp(moment)
    # The instant depends on the session's zone, which only the engine has.
    return dataclasses.replace(_at_zone(bounds.timestamp(moment)), nullable=False)


def _cast_same(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    return bounds.retyped(operand, target)


def _cast_text(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    source = operand.type
    shorter = target.length is not None and (source.length is None or source.length > target.length)
    if not shorter:
        return bounds.retyped(operand, sqltypes.text(target.length or source.length))
    if lenient:
        shared(operand)
        sql = (
            f"(CASE WHEN character_length({operand.sql}) <= {target.length} THEN {operand.sql} END)"
        )
        return bounds.derived(sql, target, [operand], nullable=True)
    return bounds.derived(f"left({operand.sql}, {target.length})", target, [operand])


def _cast_fixed(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    source = operand.type
    if source.is_integer and target.scale == 0:
        low, high = -(10**target.precision) + 1, 10**target.precision - 1
        if low <= source.low and source.high <= high:
            # It stays a 64-bit integer; only its declared type changes.
            sql_type = sqltypes.integer(target.precision, source.low, source.high)
            return bounds.retyped(operand, sql_type)
    wide = dataclasses.replace(target, wide=True)
    sql = sqltypes.exactly(operand.sql, wide, lenient=lenient)
    converted = bounds.derived(sql, wide, [operand], nullable=lenient or None)
    if operand.is_literal and isinstance(operand.literal, int | decimal.Decimal):
        try:
            value = kernels.fit_fixed(
                decimal.Decimal(operand.literal), target.precision, target.scale
            )
        except ValueError:
            return bounds.null(target) if lenient else converted
        return dataclasses.replace(converted, literal=value)
    return converted


def _cast_kernel(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    prefix = "_try_to_" if lenient else "_to_"
    name = {
        "fixed": f"fixed_{target.precision}_{target.scale}",
        "timestamp_ntz": "timestamp",
    }.get(target.name, target.name)
    sql = f"{prefix}{name}({as_arrow(operand, sqltypes.TEXT)})"
    return bounds.derived(sql, target, [operand], nullable=lenient or None)


def _cast_plain(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    sql = sqltypes.exactly(operand.sql, target, lenient=lenient)
    return bounds.derived(sql, target, [operand], nullable=lenient or None)


def _cast_to_boolean(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    return bounds.derived(f"({operand.sql} <> 0)", sqltypes.BOOLEAN, [operand])


def _cast_from_boolean(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    shared(operand)
    sql = f"CASE WHEN {operand.sql} THEN 1 WHEN NOT {operand.sql} THEN 0 END"
    one_bit = bounds.derived(f"({sql})", sqltypes.integer(1, 0, 1), [operand])
    return one_bit if target.name == "fixed" and target.scale == 0 else cast(one_bit, target)


FORMATTED = frozenset({"date", "time", "timestamp_ntz", "timestamp_ltz", "binary"})


def _format(operand: Bound, target: sqltypes.SqlType, forms: formats.Forms) -> Bound:
    """Return a date, time or binary value as text in the session's form."""
    type_name = operand.type.name
    if type_name == "binary":
        if forms.binary.upper() != "HEX":
            raise errors.unsupported(f"BINARY_OUTPUT_FORMAT = {forms.binary}")
        sql = f"upper(encode({operand.sql}, 'hex'))"
    else:
        model = getattr(forms, type_name)
        pattern = bounds.quoted_text(formats.engine_pattern(model))
        moment = cast(operand, sqltypes.TIMESTAMP_NTZ) if type_name == "date" else operand
        sql = f"to_char({moment.sql}, {pattern})"
        if type_name == "date" and model == formats.DEFAULT.date:
            sql = sqltypes.exactly(operand.sql, sqltypes.TEXT)
    text = bounds.derived(sql, sqltypes.TEXT, [operand])
    return _cast_text(text, target, False) if target.length is not None else text


def _cast_to_text(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    if operand.type.name == "real":
        sql = f"_real_to_text({as_arrow(operand, sqltypes.REAL)})"
    else:
        sql = sqltypes.exactly(operand.sql, sqltypes.TEXT)
    text = bounds.derived(sql, sqltypes.TEXT, [operand])
    return _cast_text(text, target, lenient) if target.length is not None else text


def _cast_to_date(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    sql = operand.sql
    if operand.type.name == "timestamp_ltz":
        sql = f"to_local_time({sql})"
    return bounds.derived(sqltypes.exactly(sql, sqltypes.DATE), sqltypes.DATE, [operand])


def _cast_to_time(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    sql = operand.sql
    if operand.type.name == "timestamp_ltz":
        sql = f"to_local_time({sql})"
    return bounds.derived(sqltypes.exactly(sql, sqltypes.TIME), sqltypes.TIME, [operand])


def _cast_moment(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    if operand.type.name == "timestamp_ltz" and target.name == "timestamp_ntz":
        return bounds.derived(f"to_local_time({operand.sql})", target, [operand])
    if target.name == "timestamp_ltz":
        # A naive moment is one of the session's zone.
        return _at_zone(cast(operand, sqltypes.TIMESTAMP_NTZ))
    return bounds.derived(as_arrow(operand, target), target, [operand])


def _at_zone(naive: Bound) -> Bound:
    """Return a TIMESTAMP_NTZ as the instant at which the session's zone shows it.

    The engine's own cast fails where the clocks show a time twice or never.
    """
    sql = f"_local_instant({as_arrow(naive, sqltypes.TIMESTAMP_NTZ)})"
    target = sqltypes.TIMESTAMP_LTZ
    return bounds.derived(sqltypes.exactly(sql, target), target, [naive])


def at_instant(micros: str, parts: Sequence[Bound]) -> Bound:
    """Return microseconds since 1970 in UTC as a TIMESTAMP_LTZ."""
    sql = sqltypes.exactly(f"arrow_cast({micros}, '{UTC_MICROSECONDS}')", sqltypes.TIMESTAMP_LTZ)
    return bounds.derived(sql, sqltypes.TIMESTAMP_LTZ, parts)


def _cast_text_to_instant(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    name = "_try_to_instant" if lenient else "_to_instant"
    text = f"{name}({as_arrow(operand, sqltypes.TEXT)})"
    sql = sqltypes.exactly(text, target, lenient=lenient)
    return bounds.derived(sql, target, [operand], nullable=lenient or None)


def _cast_epoch(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    if operand.type.scale:
        # Seconds and parts of them; only a whole number's unit is guessed.
        micros = cast(multiply(operand, bounds.integer(10**6)), sqltypes.number(18))
        exact = as_arrow(micros, sqltypes.integer())
        if target.name == "timestamp_ltz":
            return at_instant(exact, [operand])
        converted = bounds.derived(
            sqltypes.exactly(exact, sqltypes.TIMESTAMP_NTZ), sqltypes.TIMESTAMP_NTZ, [operand]
        )
        return cast(converted, target)
    naive = f"_epoch_to_timestamp(arrow_cast({operand.sql}, 'Int64'))"
    if target.name == "timestamp_ltz":
        return at_instant(f"arrow_cast({naive}, 'Int64')", [operand])
    converted = bounds.derived(naive, sqltypes.TIMESTAMP_NTZ, [operand])
    return cast(converted, target)


def _cast_from_hex(operand: Bound, target: sqltypes.SqlType, lenient: bool) -> Bound:
    name = "_try_to_binary" if lenient else "_to_binary"
    return bounds.derived(f"{name}({as_arrow(operand, sqltypes.TEXT)})", target, [operand])


CASTS = {
    ("text", "text"): _cast_text,
    ("text", "fixed"): _cast_kernel,
    ("text", "real"): _cast_kernel,
    ("text", "boolean"): _cast_kernel,
    ("text", "date"): _cast_kernel,
    ("text", "time"): _cast_kernel,
    ("text", "timestamp_ntz"): _cast_kernel,
    ("text", "timestamp_ltz"): _cast_text_to_instant,
    ("text", "binary"): _cast_from_hex,
    ("fixed", "fixed"): _cast_fixed,
    ("fixed", "real"): _cast_plain,
    ("fixed", "boolean"): _cast_to_boolean,
    ("fixed", "text"): _cast_to_text,
    ("fixed", "timestamp_ntz"): _cast_epoch,
    ("fixed", "timestamp_ltz"): _cast_epoch,
    ("real", "real"): _cast_same,
    ("real", "fixed"): lambda operand, target, lenient: _cast_plain(
        operand, dataclasses.replace(target, wide=True), lenient
    ),
    ("real", "boolean"): _cast_to_boolean,
    ("real", "text"): _cast_to_text,
    ("boolean", "boolean"): _cast_same,
    ("boolean", "fixed"): _cast_from_boolean,
    ("boolean", "text"): _cast_to_text,
    ("date", "date"): _cast_same,
    ("date", "timestamp_ntz"): _cast_moment,
    ("date", "timestamp_ltz"): _cast_moment,
    ("time", "time"): _cast_same,
    ("timestamp_ntz", "timestamp_ntz"): _cast_moment,
    ("timestamp_ntz", "timestamp_ltz"): _cast_moment,
    ("timestamp_ntz", "date"): _cast_to_date,
    ("timestamp_ntz", "time"): _cast_to_time,
    ("timestamp_ltz", "timestamp_ltz"): _cast_same,
    ("timestamp_ltz", "timestamp_ntz"): _cast_moment,
    ("timestamp_ltz", "date"): _cast_to_date,
    ("timestamp_ltz", "time"): _cast_to_time,
    ("binary", "binary"): _cast_same,
}


# Arithmetic


def as_number(operand: Bound) -> Bound:
    """Return operand as a number for arithmetic."""
    match operand.type.name:
        case "fixed" | "real":
            return operand
        case "null":
            return bounds.null(sqltypes.integer())
        case "text":
            if operand.literal is None:
                return bounds.null(sqltypes.integer())
            if operand.is_literal:
                return _number_literal(operand)
            return cast(operand, sqltypes.number(sqltypes.PRECISION_MAX, 5))
        case "boolean":
            return cast(operand, sqltypes.integer(1, 0, 1))
    raise _mismatch(f"arithmetic on {sqltypes.shown(operand.type)}")


def _number_literal(operand: Bound) -> Bound:
    text = operand.literal.strip()
    if kernels.NUMBER.fullmatch(text):
        try:
            return bounds.number(decimal.Decimal(text))
        except ValueError:
            return bounds.real(float(text))
    return cast(operand, sqltypes.number(sqltypes.PRECISION_MAX, 5))


def add(left: Bound, right: Bound, *, negative: bool = False) -> Bound:
    """Return left + right, or left - right; a date plus or minus days is a date."""
    sign = "-" if negative else "+"
    if right.type.name == "interval" or left.type.name == "interval":
        return _add_interval(left, right, sign)
    if left.type.name == "date" or right.type.name == "date":
        return _add_days(left, right, negative=negative)
    if left.type.is_temporal or right.type.is_temporal:
        raise _mismatch(f"({sqltypes.shown(left.type)} {sign} {sqltypes.shown(right.type)})")
    left, right = as_number(left), as_number(right)
    if "real" in (left.type.name, right.type.name):
        left, right = cast(left, sqltypes.REAL), cast(right, sqltypes.REAL)
        return bounds.chained(left, sign, right, sqltypes.REAL)
    sql_type = sqltypes.added(left.type, right.type, negative=negative)
    if sql_type.is_integer:
        return bounds.chained(left, sign, right, sql_type)
    left, right = _widened(left), _widened(right)
    whole = max(left.type.precision - left.type.scale, right.type.precision - right.type.scale)
    if whole + sql_type.scale + 1 > sqltypes.PRECISION_MAX:
        return _add_at_twice_the_width(left, sign, right, sql_type)
    result = bounds.derived(f"({left.sql} {sign} {right.sql})", sql_type, [left, right])
    return _settled(result, sql_type)


def _add_at_twice_the_width(
    left: Bound, sign: str, right: Bound, sql_type: sqltypes.SqlType
) -> Bound:
    """Return a sum that may have more than 38 digits; the cast to its type then fails.

    A chain of such terms stays flat, however long it is.
    """
    first = left.terms or f"arrow_cast({left.sql}, '{double_width(left.type)}')"
    terms = f"{first} {sign} arrow_cast({right.sql}, '{double_width(right.type)}')"
    total = bounds.derived(sqltypes.exactly(f"({terms})", sql_type), sql_type, [left, right])
    return dataclasses.replace(total, terms=terms)


def _add_days(left: Bound, right: Bound, *, negative: bool) -> Bound:
    if left.type.name == "date" and right.type.name == "date":
        if not negative:
            raise _mismatch("(DATE + DATE)")
        sql = f"(arrow_cast({left.sql}, 'Int32') - arrow_cast({right.sql}, 'Int32'))"
        difference = f"arrow_cast({sql}, 'Int64')"
        return bounds.derived(difference, sqltypes.integer(9, -(10**8), 10**8), [left, right])
    day, count = (left, right) if left.type.name == "date" else (right, left)
    if day is right and negative:
        raise _mismatch("(number - DATE)")
    if count.type.is_temporal:
        raise _mismatch(f"({sqltypes.shown(left.type)} + {sqltypes.shown(right.type)})")
    return add_units(day, as_number(count), "day", negative=negative)


def _add_interval(left: Bound, right: Bound, sign: str) -> Bound:
    moment, step = (right, left) if left.type.name == "interval" else (left, right)
    if step.type.name != "interval" or (sign == "-" and moment is right):
        raise _mismatch("INTERVAL arithmetic")
    if moment.type.name == "text":
        moment = cast(moment, sqltypes.TIMESTAMP_NTZ)
    if not moment.type.is_temporal:
        raise _mismatch(f"INTERVAL and {sqltypes.shown(moment.type)}")
    sql_type = moment.type
    if sql_type.name == "date" and step.type.scale:
        # An interval finer than a day makes a DATE a TIMESTAMP; its type says so by scale.
        moment, sql_type = cast(moment, sqltypes.TIMESTAMP_NTZ), sqltypes.TIMESTAMP_NTZ
    return bounds.derived(f"({moment.sql} {sign} {step.sql})", sql_type, [moment])


def add_units(moment: Bound, count: Bound, unit: str, *, negative: bool = False) -> Bound:
    """Return moment moved by count units (day, month, or microseconds); DATE stays DATE."""
    if moment.type.name == "timestamp_ltz" and unit in ("day", "month"):
        # Days and months follow the calendar, with summer time; hours are fixed durations.
        local = add_units(cast(moment, sqltypes.TIMESTAMP_NTZ), count, unit, negative=negative)
        return cast(local, moment.type)
    count = round_half_away(count)
    sign = "-" if negative else "+"
    sql = sqltypes.exactly(count.sql, sqltypes.integer())
    if unit == "month":
        if isinstance(count.literal, int) and abs(count.literal) <= MONTHS_MAX:
            text = f"({moment.sql} {sign} INTERVAL '{count.literal} month')"
        else:
            text = _months_later(moment, f"({sign}{sql})")
    elif moment.type.name == "date":
        assert unit == "day"
        days = f"arrow_cast(arrow_cast({moment.sql}, 'Int32') {sign} {sql}, 'Int32')"
        text = f"arrow_cast({days}, 'Date32')"
    elif not _is_short(count, unit):
        # It may leave the range of 64 bits, which the engine's arithmetic would wrap.
        counted = negate(count) if negative else count
        steps = sqltypes.exactly(counted.sql, sqltypes.integer())
        naive = moment
        if moment.type.name == "timestamp_ltz":
            utc = f"arrow_cast(arrow_cast({moment.sql}, 'Int64'), 'Timestamp(Microsecond, None)')"
            naive = bounds.derived(utc, sqltypes.TIMESTAMP_NTZ, [moment])
        later = f"_later_{MICROSECONDS[unit]}({as_arrow(naive, sqltypes.TIMESTAMP_NTZ)}, {steps})"
        text = sqltypes.exactly(later, moment.type)
        if moment.type.name == "timestamp_ltz":
            text = at_instant(f"arrow_cast({later}, 'Int64')", [moment]).sql
    else:
        micros = MICROSECONDS[unit]
        moved = f"(arrow_cast({moment.sql}, 'Int64') {sign} {sql} * {micros})"
        text = sqltypes.exactly(sqltypes.exactly(moved, sqltypes.TIMESTAMP_NTZ), moment.type)
        if moment.type.name == "timestamp_ltz":
            text = at_instant(moved, [moment]).sql
    return bounds.derived(text, moment.type, [moment, count])


MONTHS_MAX = 12 * 10_000
"""Months of the calendar; the engine's intervals hold no number of more than 32 bits."""


def _is_short(count: Bound, unit: str) -> bool:
    """Say whether count units are so few that no moment moved by them leaves 64 bits."""
    most = max(abs(count.type.low), abs(count.type.high)) if count.type.is_integer else 10**38
    return most * MICROSECONDS[unit] <= SHORT_MICROSECONDS


SHORT_MICROSECONDS = 10_000 * 366 * 86_400_000_000
"""Ten thousand years."""

UTC_MICROSECONDS = 'Timestamp(Microsecond, Some("UTC"))'
MICROSECONDS = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}


def add_months(moment: Bound, count: Bound) -> Bound:
    """Return a DATE or TIMESTAMP_NTZ moved by months; the last day of a month stays a last day."""
    months = sqltypes.exactly(count.sql, sqltypes.integer())
    text = _months_later(moment, months, suffix="_last")
    return bounds.derived(text, moment.type, [moment, count])


def _months_later(moment: Bound, months: str, suffix: str = "") -> str:
    sql_type = sqltypes.DATE if moment.type.name == "date" else sqltypes.TIMESTAMP_NTZ
    name = "date" if sql_type is sqltypes.DATE else "timestamp"
    moved = f"_add_months_{name}{suffix}({as_arrow(moment, sql_type)}, {months})"
    return sqltypes.exactly(moved, moment.type)


def multiply(left: Bound, right: Bound) -> Bound:
    left, right = as_number(left), as_number(right)
    if "real" in (left.type.name, right.type.name):
        left, right = cast(left, sqltypes.REAL), cast(right, sqltypes.REAL)
        return bounds.chained(left, "*", right, sqltypes.REAL)
    sql_type = sqltypes.multiplied(left.type, right.type)
    if sql_type.is_integer:
        return bounds.chained(left, "*", right, sql_type)
    left, right = _widened(left), _widened(right)
    engine_scale = left.type.scale + right.type.scale
    if left.type.precision + right.type.precision > sqltypes.PRECISION_MAX:
        # The exact product has more digits than a decimal of the engine's usual width.
        sides = [f"arrow_cast({side.sql}, '{double_width(side.type)}')" for side in (left, right)]
        exact = sqltypes.exactly(f"({' * '.join(sides)})", sql_type)
        return bounds.derived(exact, sql_type, [left, right])
    product = bounds.derived(f"({left.sql} * {right.sql})", sql_type, [left, right])
    return _settled(product, sql_type, engine_scale=engine_scale)


def double_width(sql_type: sqltypes.SqlType) -> str:
    """Return the engine's decimal type of twice the usual width with the same digits."""
    return f"Decimal256({sql_type.precision}, {sql_type.scale})"


def divide(left: Bound, right: Bound) -> Bound:
    """Return left / right: NUMBER by NUMBER is a NUMBER of more scale; nothing divides by 0."""
    left, right = as_number(left), as_number(right)
    if "real" in (left.type.name, right.type.name):
        left, right = cast(left, sqltypes.REAL), checked_divisor(cast(right, sqltypes.REAL))
        return bounds.derived(f"({left.sql} / {right.sql})", sqltypes.REAL, [left, right])
    scale = sqltypes.divided_scale(left.type)
    # The engine gives four digits more than the dividend has, cut off; one digit more than wanted
    # is enough to round.
    extended = max(left.type.scale, scale - 3)
    left = cast(left, sqltypes.number(sqltypes.PRECISION_MAX, extended))
    right = _widened(right)
    quotient = f"round({left.sql} / {right.sql}, {scale})"
    sql_type = sqltypes.number(sqltypes.PRECISION_MAX, scale)
    return bounds.derived(sqltypes.exactly(quotient, sql_type), sql_type, [left, right])


def checked_divisor(right: Bound) -> Bound:
    """Return a float divisor that fails on zero instead of giving infinity."""
    if isinstance(right.literal, int | float | decimal.Decimal) and right.literal != 0:
        return right
    return bounds.derived(f"_nonzero({as_arrow(right, sqltypes.REAL)})", sqltypes.REAL, [right])


def remainder(left: Bound, right: Bound) -> Bound:
    left, right = as_number(left), as_number(right)
    if "real" in (left.type.name, right.type.name):
        left, right = cast(left, sqltypes.REAL), checked_divisor(cast(right, sqltypes.REAL))
        return bounds.derived(f"({left.sql} % {right.sql})", sqltypes.REAL, [left, right])
    sql_type, _ = sqltypes.unified([left.type, right.type]), None
    assert sql_type is not None
    if not sql_type.is_integer:
        left, right = cast(left, sql_type), cast(right, sql_type)
    remainder = bounds.derived(f"({left.sql} % {right.sql})", sql_type, [left, right])
    return remainder if sql_type.is_integer else _settled(remainder, sql_type)


def negate(operand: Bound) -> Bound:
    operand = as_number(operand)
    if isinstance(operand.literal, int) and not isinstance(operand.literal, bool):
        return bounds.integer(-operand.literal)
    if isinstance(operand.literal, decimal.Decimal):
        return bounds.number(-operand.literal)
    if isinstance(operand.literal, float):
        return bounds.real(-operand.literal)
    if operand.type.name == "real":
        return bounds.derived(f"(- {operand.sql})", sqltypes.REAL, [operand])
    sql_type = sqltypes.negated(operand.type)
    if not sql_type.is_integer:
        operand = _widened(operand)
    return bounds.derived(f"(- {operand.sql})", sql_type, [operand])


def round_half_away(operand: Bound) -> Bound:
    """Return a number as a whole one, as for function arguments that are integers."""
    operand = as_number(operand)
    if operand.type.is_integer:
        return operand
    return cast(operand, sqltypes.number(sqltypes.PRECISION_MAX))


def _widened(operand: Bound) -> Bound:
    if not operand.type.is_integer:
        return operand
    digits = min(max(len(str(operand.type.low)) - 1, len(str(operand.type.high))), 19)
    sql_type = sqltypes.number(max(digits, 1))
    exact = bounds.derived(sqltypes.exactly(operand.sql, sql_type), sql_type, [operand])
    return dataclasses.replace(exact, literal=operand.literal)


def _settled(result: Bound, sql_type: sqltypes.SqlType, engine_scale: int | None = None) -> Bound:
    """Return an arithmetic result in exactly its declared type."""
    if sql_type.is_integer:
        return result
    sql = result.sql
    if engine_scale is not None and engine_scale > sql_type.scale:
        sql = f"round({sql}, {sql_type.scale})"
    return dataclasses.replace(result, sql=sqltypes.exactly(sql, sql_type))


# Logic and comparison


def as_boolean(operand: Bound) -> Bound:
    if operand.type.name in ("boolean", "null"):
        return operand
    return cast(operand, sqltypes.BOOLEAN)


def compare(left: Bound, right: Bound, operator: str) -> Bound:
    """Return a comparison; both sides become one type first."""
    assert operator in COMPARISONS
    left, right = comparable(left, right)
    nullable = None if operator in ("=", "<>", "<", "<=", ">", ">=") else False
    return bounds.derived(
        f"({left.sql} {operator} {right.sql})", sqltypes.BOOLEAN, [left, right], nullable=nullable
    )


def comparable(left: Bound, right: Bound) -> tuple[Bound, Bound]:
    """Return both operands in types that the engine compares as Snowflake does."""
    type_names = {left.type.name, right.type.name}
    if type_names == {"fixed", "real"}:
        return _real_side(left), _real_side(right)
    if type_names == {"fixed"}:
        return _exact_sides(left, right)
    if len(type_names) == 1 or "null" in type_names:
        return left, right
    if type_names == {"text", "fixed"}:
        return comparable(_number_side(left), _number_side(right))
    (left, right), _ = unify([left, right], "comparison")
    return left, right


def _exact_sides(left: Bound, right: Bound) -> tuple[Bound, Bound]:
    """Return both NUMBERs so that the type which the engine compares them in holds every digit."""
    scale = max(left.type.scale, right.type.scale)
    whole = max(_whole_digits(left.type), _whole_digits(right.type))
    if whole + scale <= sqltypes.PRECISION_MAX:
        return left, right
    double = f"Decimal256({whole + scale}, {scale})"
    sides = [
        dataclasses.replace(side, sql=f"arrow_cast({side.sql}, '{double}')", origin=None)
        for side in (left, right)
    ]
    return sides[0], sides[1]


def _whole_digits(sql_type: sqltypes.SqlType) -> int:
    if sql_type.is_integer:
        return len(str(max(abs(sql_type.low), abs(sql_type.high))))
    return sql_type.precision - sql_type.scale


def _real_side(operand: Bound) -> Bound:
    # By default the engine makes decimals of both: 1e-16 would be 0, and 1e300 an error.
    if isinstance(operand.literal, int | decimal.Decimal):
        return bounds.real(float(operand.literal))
    return cast(operand, sqltypes.REAL)


def _number_side(operand: Bound) -> Bound:
    return as_number(operand) if operand.type.name == "text" else operand


def like(
    value: Bound,
    pattern: Bound,
    *,
    escape: str | None = None,
    ignore_case: bool = False,
    forms: formats.Forms = formats.DEFAULT,
) -> Bound:
    """Return value LIKE pattern: a backslash is itself unless ESCAPE names it."""
    value = cast(value, sqltypes.TEXT, forms=forms)
    pattern = cast(pattern, sqltypes.TEXT, forms=forms)
    if isinstance(pattern.literal, str):
        sql = bounds.quoted_text(_backslashed(pattern.literal, escape))
    elif escape is None:
        sql = f"replace({pattern.sql}, '\\', '\\\\')"
    else:
        raise errors.unsupported("LIKE ... ESCAPE with a pattern that is no constant")
    operator = "ILIKE" if ignore_case else "LIKE"
    return bounds.derived(f"({value.sql} {operator} {sql})", sqltypes.BOOLEAN, [value, pattern])


def _backslashed(pattern: str, escape: str | None) -> str:
    pieces, index = [], 0
    while index < len(pattern):
        char = pattern[index]
        if char == escape and index + 1 < len(pattern):
            index += 1
            pieces.append(f"\\{pattern[index]}" if pattern[index] in "%_\\" else pattern[index])
        else:
            pieces.append("\\\\" if char == "\\" else char)
        index += 1
    return "".join(pieces)


def regexp_like(value: Bound, pattern: Bound, parameters: str = "c") -> Bound:
    """Return whether the pattern matches the whole of value."""
    value, pattern = cast(value, sqltypes.TEXT), cast(pattern, sqltypes.TEXT)
    flags = regexp_flags(parameters)
    if isinstance(pattern.literal, str):
        sql = bounds.quoted_text(f"{flags}^(?:{pattern.literal})$")
    else:
        sql = f"({bounds.quoted_text(flags + '^(?:')} || {pattern.sql} || ')$')"
    return bounds.derived(f"({value.sql} ~ {sql})", sqltypes.BOOLEAN, [value, pattern])


def regexp_flags(parameters: str) -> str:
    """Return Snowflake's parameters as an inline flag group; the last of c and i wins."""
    flags = set()
    for letter in parameters:
        match letter:
            case "c":
                flags.discard("i")
            case "i" | "s" | "m":
                flags.add(letter)
            case "e":
                pass
            case _:
                raise errors.unsupported(f"regular expression parameter '{letter}'")
    return f"(?{''.join(sorted(flags))})" if flags else ""


# Choices


def coalesce(operands: Sequence[Bound]) -> Bound:
    parts, sql_type = unify(operands, "COALESCE")
    nullable = all(part.nullable for part in parts)
    return bounds.derived(call("coalesce", *parts), sql_type, parts, nullable=nullable)


def case(
    whens: Sequence[tuple[Bound, Bound]], otherwise: Bound | None, *, operand: Bound | None = None
) -> Bound:
    """Return CASE WHEN ... THEN ... ELSE ... END over conditions that are booleans already.

    operand: what the conditions, then values of its own type, are compared with.
    """
    results = [result for _, result in whens] + ([otherwise] if otherwise is not None else [])
    parts, sql_type = unify(results, "CASE")
    branches = " ".join(
        f"WHEN {condition.sql} THEN {result.sql}"
        for (condition, _), result in zip(whens, parts[: len(whens)], strict=True)
    )
    tail = f" ELSE {parts[-1].sql}" if otherwise is not None else ""
    nullable = otherwise is None or any(part.nullable for part in parts)
    return bounds.derived(
        f"(CASE {'' if operand is None else operand.sql} {branches}{tail} END)",
        sql_type,
        [*([] if operand is None else [operand]), *(condition for condition, _ in whens), *parts],
        nullable=nullable,
    )


def switch(
    operand: Bound, whens: Sequence[tuple[Bound, Bound]], otherwise: Bound | None, operator: str
) -> Bound:
    """Return the result of the first value that operand equals. operator: that compares them."""
    if not operand.is_volatile:
        tests = [(compare(operand, value, operator), result) for value, result in whens]
        return case(tests, otherwise)
    values = []
    for value, _ in whens:
        ours, theirs = comparable(operand, value)
        if ours.sql != operand.sql or value.nullable:
            shared(operand)
        values.append(theirs)
    # The engine's own form has its operand once.
    tests = [(value, result) for value, (_, result) in zip(values, whens, strict=True)]
    return case(tests, otherwise, operand=operand)


def any_null(operands: Sequence[Bound]) -> str:
    return " OR ".join(f"({operand.sql} IS NULL)" for operand in operands)


def extreme(operands: Sequence[Bound], name: str) -> Bound:
    """Return GREATEST or LEAST: NULL if an operand is."""
    parts, sql_type = unify(operands, name.upper())
    sql = call(name, *parts)
    nullable = [shared(part) for part in parts if part.nullable]
    if nullable:
        sql = f"(CASE WHEN {any_null(nullable)} THEN NULL ELSE {sql} END)"
    return bounds.derived(sql, sql_type, parts)


def concat(operands: Sequence[Bound], forms: formats.Forms = formats.DEFAULT) -> Bound:
    """Return the operands joined: NULL if one is."""
    if operands and all(operand.type.name == "binary" for operand in operands):
        raise errors.unsupported("concatenation of BINARY")
    parts = [cast(operand, sqltypes.TEXT, forms=forms) for operand in operands]
    sql = bounds.joined([part.sql for part in parts], "||")
    return bounds.derived(sql, sqltypes.TEXT, parts)
