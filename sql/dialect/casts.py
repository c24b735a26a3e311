"""rule: Snowflake's casts in the engine's SQL: between all types, of constants, by format models.

Each function takes a bound operand and returns one of another type. Where the engine's own cast
differs silently, or fails where Snowflake's does not, the cast is written out, or a kernel does
it; a cast that Snowflake does not have is refused.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import re
from collections.abc import Sequence

from sql import errors, intervals, kernelforms, kernels, moment_kernels, zoned_kernels
from sql.dialect import formats, sqltypes
from sql.plan import code, evaluation
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

MICROSECOND_DIGITS = 6


UTC_MICROSECONDS = 'Timestamp(Microsecond, Some("UTC"))'


MICROSECONDS = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}


def check_stable(operand: Expr) -> None:
    """Raise SqlError for a volatile operand, where several queries would compute it."""
    if operand.is_volatile:
        raise errors.repeated_volatile()


def as_arrow(operand: Expr, sql_type: sqltypes.SqlType) -> code.Cast:
    """Return operand in exactly the engine's type of sql_type; kernels accept no other."""
    return code.exactly(operand, sql_type)


def double_width(sql_type: sqltypes.SqlType) -> str:
    """Return the engine's decimal type of twice the usual width with the same digits."""
    return f"Decimal256({sql_type.precision}, {sql_type.scale})"


def proven(operand: Expr) -> Expr:
    """Return a number whose bounds hold: where a writer claims them, the engine checks each value.

    Without a check the engine's 64-bit arithmetic would wrap if they were false.
    """
    sql_type = operand.type
    if not sql_type.is_claimed:
        return operand
    checked = code.Checked(operand=operand, low=sql_type.low, high=sql_type.high)
    return exprs.derived(checked, dataclasses.replace(sql_type, is_claimed=False), [operand])


def in_type(operand: Expr, sql_type: sqltypes.SqlType) -> Expr:
    """Return a NUMBER as a decimal type that holds each of its digits."""
    return exprs.derived(code.exactly(operand, sql_type), sql_type, [operand])


def cast(
    operand: Expr,
    target: sqltypes.SqlType,
    *,
    lenient: bool = False,
    forms: formats.Forms = formats.DEFAULT,
) -> Expr:
    """Return operand as target, as CAST does, or TRY_CAST when lenient.

    forms: how dates, times and binary values become text. Raises SqlError for a pair of types that
    Snowflake does not cast between.
    """
    source, target = operand.type, sqltypes.with_all_digits(target)
    if source.name == "null" or operand.literal is None:
        return exprs.null(target)
    if target.name == "fixed" and target.is_integer and not source.is_integer:
        target = sqltypes.number(target.precision)
    instant = _instant_of_constant(operand, ZONED_BIND) if target.is_variant else None
    if instant is not None:
        operand, source = instant, instant.type  # VARIANTs have no offsets
    if is_of_nanoseconds(operand):
        if target.name in ("time", "timestamp_ltz", "timestamp_tz", "variant"):
            operand = whole_microseconds(operand)
        elif target.name == "timestamp_ntz" and target.scale <= MICROSECOND_DIGITS:
            return _at_microseconds(operand)
    if source.name == "text" and source.inputs is not None:
        model = source.inputs.model(target.name)
        if model is not None:
            return by_model(
                operand, target, model, since=source.inputs.century_start, lenient=lenient
            )
    if operand.is_literal and source.name == "text":
        converted = _cast_literal(operand, target, lenient=lenient)
        if converted is not None:
            return converted
    if target.name == "text" and source.name in FORMATTED:
        return _format(operand, target, forms)
    if source.structure is not None and target.is_variant and not lenient:
        if target.name not in ("variant", source.name):
            raise _no_cast(source, target)
        return exprs.retyped(to_variant(operand), target)
    if target.structure is not None and not sqltypes.same_in_engine(source, target):
        return _cast_to_structure(operand, target, lenient=lenient)
    if source.is_nested and target.is_nested and not sqltypes.same_in_engine(source, target):
        raise _no_cast(source, target)
    rewrite = CASTS.get((source.name, target.name))
    if rewrite is None or source.is_nested != target.is_nested:
        raise _no_cast(source, target)
    if lenient and source.is_variant and target.name not in sqltypes.SEMISTRUCTURED:
        raise _no_cast(source, target)
    return rewrite(operand, target, lenient)


CLOCKS = sqltypes.CLOCKS


def read_by(operand: Expr, inputs: formats.Inputs | None) -> Expr:
    """Return a text in which the models of a session read dates and times; None: AUTO does."""
    return exprs.retyped(operand, dataclasses.replace(operand.type, inputs=inputs))


def by_model(
    operand: Expr,
    target: sqltypes.SqlType,
    model: str,
    *,
    since: int,
    lenient: bool = False,
    cuts: bool = False,
) -> Expr:
    """Return a text as a date or time, read by a format model.

    since: the first year that two digits can mean. cuts: digits below a microsecond are dropped,
    and not refused. An offset counts for an instant, and is dropped otherwise.
    """
    pattern = formats.strptime_pattern(model)
    century = since if "%y" in pattern else None
    has_offset = "%z" in pattern and target.name in ("timestamp_ltz", "timestamp_tz")
    narrow = {"date": sqltypes.DATE, "time": sqltypes.TIME}.get(target.name, sqltypes.TIMESTAMP_NTZ)
    word = narrow.name.removesuffix("_ntz")
    if isinstance(operand.literal, str) and not has_offset:
        read = moment_kernels.reader(pattern, word, century_start=century, cuts=cuts)
        try:
            value = read(operand.literal)
        except (ValueError, OverflowError):
            if lenient:
                return exprs.null(target)
        except NotImplementedError:  # digits below a microsecond, which the kernel refuses
            pass
        else:
            constant = exprs.moment(value)
            same = sqltypes.same_in_engine(constant.type, target)
            return constant if same else cast(constant, target)
    suffix = f"{'_cut' if cuts else ''}{'' if century is None else f'_since_{century}'}"
    exact, nullable = as_arrow(operand, sqltypes.TEXT), lenient or None
    prefix = "_try_parse" if lenient else "_parse"
    if not has_offset:
        parsed = code.kernel(f"{prefix}_{word}{suffix}", exact, pattern)
        return cast(exprs.derived(parsed, narrow, [operand], nullable=nullable), target)
    if target.name == "timestamp_tz":
        parsed = code.kernel(f"{prefix}_zoned{suffix}", exact, pattern)
        return exprs.derived(parsed, target, [operand], nullable=nullable)
    parsed = code.kernel(f"{prefix}_instant{suffix}", exact, pattern)
    instant = code.exactly(parsed, target, lenient=lenient)
    return exprs.derived(instant, target, [operand], nullable=nullable)


def cast_to_digits(
    operand: Expr, target: sqltypes.SqlType, digits: int, *, lenient: bool = False
) -> Expr:
    """Return operand as a TIME or TIMESTAMP with so many digits of a second.

    Digits that the type does not have are cut, as by Snowflake. Without a number of digits a type
    has nine, and `cast` refuses to lose the last three.
    """
    inputs = operand.type.inputs
    model = None if inputs is None else inputs.model(target.name)
    if inputs is not None and model is not None:
        since, cuts = inputs.century_start, digits <= MICROSECOND_DIGITS
        operand = by_model(operand, target, model, since=since, lenient=lenient, cuts=cuts)
    elif digits <= MICROSECOND_DIGITS:
        operand = _at_microseconds(operand)
    cuts_variant = operand.type.name == "variant" and digits <= MICROSECOND_DIGITS
    if cuts_variant and not lenient:
        moment = _cast_from_variant(operand, target, lenient, suffix="_cut")
    elif sqltypes.same_in_engine(operand.type, target):
        moment = operand
    else:
        moment = cast(operand, target, lenient=lenient)
    if digits > MICROSECOND_DIGITS or moment.type.name == "null":
        return with_all_digits(moment)
    if digits < MICROSECOND_DIGITS and moment.literal is not None:
        moment = _cut_moment(moment, 10 ** (MICROSECOND_DIGITS - digits))
    return exprs.retyped(moment, dataclasses.replace(moment.type, digits=digits))


def with_all_digits(operand: Expr) -> Expr:
    """Return operand as a value that may have more digits of a second than those shown."""
    return exprs.retyped(operand, sqltypes.with_all_digits(operand.type))


def _at_microseconds(operand: Expr) -> Expr:
    """Return a moment, or a text that may be one, cut to microseconds."""
    if is_of_nanoseconds(operand):
        cut = code.kernel("_cut_of_nanos", as_arrow(operand, operand.type))
        return exprs.derived(cut, sqltypes.TIMESTAMP_NTZ, [operand])
    if operand.is_literal and isinstance(operand.literal, str):
        return exprs.text(moment_kernels.cut_text(operand.literal))
    if operand.type.name == "text":
        cut = code.kernel("_cut_text", as_arrow(operand, sqltypes.TEXT))
        return exprs.derived(cut, sqltypes.TEXT, [operand])
    return operand


def is_of_nanoseconds(operand: Expr) -> bool:
    """Whether operand is a timestamp of nanoseconds, as a column of timestamp_ns is."""
    return operand.type.name == "timestamp_ntz" and operand.type.scale > MICROSECOND_DIGITS


def whole_microseconds(operand: Expr) -> Expr:
    """Return a timestamp of nanoseconds in microseconds; the query fails if that loses a digit."""
    whole = code.kernel("_whole_of_nanos", as_arrow(operand, operand.type))
    return exprs.derived(whole, sqltypes.TIMESTAMP_NTZ, [operand])


def instant_of_nanoseconds(column: Expr) -> Expr:
    """Return an instant of nanoseconds in microseconds; the query fails if that loses a digit."""
    naive = dataclasses.replace(sqltypes.TIMESTAMP_NTZ, scale=9)
    nanos = exprs.derived(code.exactly(code.arrow(column, "Int64"), naive), naive, [column])
    return at_instant(code.arrow(whole_microseconds(nanos), "Int64"), [column])


def _cut_moment(moment: Expr, step: int) -> Expr:
    """Return a moment cut to a multiple of so many microseconds."""
    if moment.type.name == "timestamp_tz":
        local = _cut_moment(cast(moment, sqltypes.TIMESTAMP_NTZ), step)
        return at_offset_of(moment, local)
    exact = code.exactly(moment, dataclasses.replace(moment.type, scale=MICROSECOND_DIGITS))
    micros = code.kernel(f"_cut_micros_{step}", code.arrow(exact, "Int64"))
    if moment.type.name == "timestamp_ltz":
        return at_instant(micros, [moment])
    sql_type = sqltypes.TIME if moment.type.name == "time" else sqltypes.TIMESTAMP_NTZ
    return exprs.derived(code.exactly(micros, sql_type), sql_type, [moment])


def implicit(
    operand: Expr, target: sqltypes.SqlType, forms: formats.Forms = formats.DEFAULT
) -> Expr:
    """Return operand as target if Snowflake converts it implicitly, without loss."""
    if sqltypes.same_in_engine(operand.type, target):
        return operand
    if target.name == "fixed" and target.is_integer and operand.type.is_integer:
        return operand
    is_null = operand.type.name == "null" or operand.literal is None
    if target.structure is not None and not is_null:
        if not sqltypes.converts_implicitly(operand.type, target):
            raise _no_cast(operand.type, target)
        return cast(operand, target)
    converted = cast(operand, target, forms=forms)
    if target.wide and converted.type.is_integer:
        # Beside decimals the engine's CASE and UNION make 64-bit integers of both, and fail on
        # larger numbers.
        return dataclasses.replace(in_type(converted, target), literal=converted.literal)
    return converted


def unify(operands: Sequence[Expr], what: str) -> tuple[list[Expr], sqltypes.SqlType]:
    """Return operands as their common type; raises SqlError if there is none."""
    sql_type = sqltypes.unified([operand.type for operand in operands])
    if sql_type is None:
        shown = ", ".join(sqltypes.shown(operand.type) for operand in operands)
        raise mismatch(f"{what} of ({shown})")
    if sql_type.name == "null":
        return list(operands), sql_type
    return [implicit(operand, sql_type) for operand in operands], sql_type


def mismatch(detail: str) -> errors.SqlError:
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


def _cast_literal(operand: Expr, target: sqltypes.SqlType, *, lenient: bool) -> Expr | None:
    """Return a text literal as a literal of target; None leaves it to run time.

    Bad text fails when a row reaches it, not here: a CASE branch that is never taken may hold it.
    """
    text = operand.literal
    try:
        match target.name:
            case "fixed":
                value = kernels.parse_fixed(text, target.precision, target.scale)
                constant = exprs.integer(int(value)) if not target.scale else exprs.number(value)
                return _cast_fixed(constant, target, lenient)
            case "date":
                return exprs.date(moment_kernels.parse_date(text))
            case "timestamp_ntz" if target.scale > MICROSECOND_DIGITS:
                return _nanosecond_literal(text, target)
            case "timestamp_ntz":
                return exprs.timestamp(moment_kernels.parse_timestamp(text))
            case "timestamp_ltz":
                return _instant_literal(moment_kernels.parse_moment(text), target)
            case "timestamp_tz":
                return _zoned_literal(text)
            case "time":
                return exprs.time(moment_kernels.parse_time(text))
            case "boolean" if text.strip().lower() in kernels.TRUE_WORDS:
                return exprs.boolean(True)
            case "boolean" if text.strip().lower() in kernels.FALSE_WORDS:
                return exprs.boolean(False)
            case "text" if target.length is not None:
                if lenient and len(text) > target.length:
                    return exprs.null(target)
                return exprs.text(text[: target.length])
    except (ValueError, OverflowError):
        return exprs.null(target) if lenient else None
    except NotImplementedError:  # digits below a microsecond, which the kernel refuses
        return None
    return None


def _nanosecond_literal(text: str, target: sqltypes.SqlType) -> Expr | None:
    """Return a text with nanoseconds as a constant; None for other texts and other years."""
    digits = moment_kernels.fine_digits(text)
    moment = moment_kernels.parse_timestamp(moment_kernels.cut_text(text))
    if not digits.strip("0") or moment.year not in YEARS_OF_NANOSECONDS:
        return None
    spelled = moment.isoformat(timespec="microseconds") + digits
    return Expr(code=code.exactly(spelled, target), type=target, nullable=False)


YEARS_OF_NANOSECONDS = range(1678, 2262)
"""The years all of whose nanoseconds since 1970 fit in 64 bits."""


def _instant_literal(moment: datetime.datetime, target: sqltypes.SqlType) -> Expr:
    if moment.tzinfo is not None:
        return exprs.timestamp(moment)
    # The instant depends on the session's zone, which only the engine has.
    return dataclasses.replace(_at_zone(exprs.timestamp(moment)), nullable=False)


def _cast_same(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    return exprs.retyped(operand, target)


def _cast_text(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    source = operand.type
    if target.length is None or (source.length is not None and source.length <= target.length):
        return exprs.retyped(operand, sqltypes.text(target.length or source.length))
    if lenient:
        fits = code.infix(code.call("character_length", operand), "<=", target.length)
        return exprs.derived(code.case([(fits, operand)]), target, [operand], nullable=True)
    return exprs.derived(code.call("left", operand, target.length), target, [operand])


def _cast_fixed(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    source = operand.type
    if source.is_integer and target.scale == 0:
        low, high = -(10**target.precision) + 1, 10**target.precision - 1
        if low <= source.low and source.high <= high:
            # It stays a 64-bit integer; only its declared type changes.
            if low > sqltypes.INT64_LOW:
                operand = proven(operand)
            sql_type = dataclasses.replace(
                operand.type,
                precision=target.precision,
                is_named=target.wide or source.is_named,
            )
            return exprs.retyped(operand, sql_type)
    wide = dataclasses.replace(target, wide=True)
    cast_code = code.exactly(operand, wide, lenient=lenient)
    converted = exprs.derived(cast_code, wide, [operand], nullable=lenient or None)
    if operand.is_literal and isinstance(operand.literal, int | decimal.Decimal):
        try:
            value = kernelforms.fit_fixed(
                decimal.Decimal(operand.literal), target.precision, target.scale
            )
        except ValueError:
            return exprs.null(target) if lenient else converted
        return dataclasses.replace(converted, literal=value)
    return converted


def _cast_to_interval(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    prefix = "_try_to_interval" if lenient else "_to_interval"
    name = f"{prefix}_{INTERVAL_UNITS[target.name]}_{target.scale}_{target.precision}"
    parsed = code.kernel(name, as_arrow(operand, sqltypes.TEXT))
    return exprs.derived(parsed, target, [operand], nullable=lenient or None)


def _cast_from_interval(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    name = f"_interval_text_{INTERVAL_UNITS[operand.type.name]}_{operand.type.scale}"
    written = code.kernel(name, as_arrow(operand, operand.type))
    text = exprs.derived(written, sqltypes.TEXT, [operand])
    return _cast_text(text, target, lenient) if target.length is not None else text


def _cast_interval(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    if not sqltypes.same_in_engine(operand.type, target):
        raise _no_cast(operand.type, target)
    return operand


INTERVAL_UNITS = {"interval_year_month": "months", "interval_day_time": "nanos"}


def _cast_kernel(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    prefix = "_try_to_" if lenient else "_to_"
    name = {
        "fixed": f"fixed_{target.precision}_{target.scale}",
        "timestamp_ntz": "timestamp",
    }.get(target.name, target.name)
    parsed = code.kernel(f"{prefix}{name}", as_arrow(operand, sqltypes.TEXT))
    return exprs.derived(parsed, target, [operand], nullable=lenient or None)


def _cast_plain(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    cast_code = code.exactly(operand, target, lenient=lenient)
    return exprs.derived(cast_code, target, [operand], nullable=lenient or None)


def _cast_to_boolean(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    return exprs.derived(code.infix(operand, "<>", 0), sqltypes.BOOLEAN, [operand])


def _cast_from_boolean(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    # Compared with both, so that the operand is written once.
    bit = code.case([(code.TRUE, 1), (code.FALSE, 0)], operand=operand)
    one_bit = exprs.derived(bit, sqltypes.integer(1, 0, 1), [operand])
    return one_bit if target.name == "fixed" and target.scale == 0 else cast(one_bit, target)


FORMATTED = frozenset({"date", "time", "timestamp_ntz", "timestamp_ltz", "timestamp_tz", "binary"})


def _format(operand: Expr, target: sqltypes.SqlType, forms: formats.Forms) -> Expr:
    """Return a date, time or binary value as text in the session's form."""
    type_name = operand.type.name
    if type_name == "binary":
        if forms.binary.upper() != "HEX":
            raise errors.unsupported(f"BINARY_OUTPUT_FORMAT = {forms.binary}")
        formatted: code.Code = code.call("upper", code.call("encode", operand, "hex"))
    else:
        model = getattr(forms, type_name)
        moment = cast(operand, sqltypes.TIMESTAMP_NTZ) if type_name == "date" else operand
        pattern = formats.engine_pattern(model)
        formatted = moment_text(moment, pattern, has_zone=type_name != "date")
        if type_name == "date" and model == formats.DEFAULT.date:
            formatted = _without_plus(code.exactly(operand, sqltypes.TEXT))
    text = exprs.derived(formatted, sqltypes.TEXT, [operand])
    return _cast_text(text, target, False) if target.length is not None else text


def moment_text(moment: Expr, pattern: str, *, has_zone: bool = True) -> code.Code:
    """Return a date or time written by a pattern (`sql.dialect.formats.engine_pattern`).

    A TIMESTAMP_NTZ has Z for an offset. has_zone: whether it is one, and no DATE that was made one.

    The engine writes instants as nanoseconds, and fails before 1677 and after 2262. So the local
    time of an instant and its offset are written apart.
    """
    is_zoned = moment.type.name == "timestamp_tz"
    is_instant = is_zoned or (moment.type.name == "timestamp_ltz" and not moment.is_volatile)
    if moment.type.name == "timestamp_ntz" and has_zone:
        pattern = OFFSETS.sub(lambda match: f"{match[0][: match[0].rindex('%')]}Z", pattern)
    if OFFSETS.search(pattern):
        if moment.type.name not in OF_ZONES:
            raise errors.unsupported(f"an offset (TZH) of {sqltypes.shown(moment.type)} as text")
        if not is_instant and CUT_DIGITS.search(pattern):
            raise errors.repeated_volatile()
    has_signed_year = "+" in pattern and "%Y" in pattern
    if not is_instant and not CUT_DIGITS.search(pattern) and not has_signed_year:
        return _written_by(moment, pattern)
    local = cast(moment, sqltypes.TIMESTAMP_NTZ) if moment.type.name in OF_ZONES else moment
    parts: list[code.Part] = []
    for piece in PIECES.findall(pattern):
        if piece in ("%z", "%:z", "%:::z") and is_instant:
            name = "_zoned_offset" if is_zoned else "_offset"
            name += "_colon" if piece == "%:z" else "_text"
            offset = code.kernel(name, as_arrow(moment, moment.type))
            hours = len("+00")
            parts.append(code.call("left", offset, hours) if piece == "%:::z" else offset)
        elif CUT_DIGITS.fullmatch(piece):
            parts.append(code.call("left", code.call("to_char", local, "%9f"), int(piece[1])))
        elif "+" in piece:
            parts += [_written_by(local, each) for each in YEARS.split(piece) if each]
        elif piece:
            parts.append(_written_by(local, piece))
    return code.joined(parts, "||") if parts else code.call("to_char", local, pattern)


def _written_by(moment: Expr, pattern: str) -> code.Code:
    """Return a date or time as the engine writes it; it writes +10000 for the year 10000."""
    written = code.call("to_char", moment, pattern)
    return _without_plus(written) if "%Y" in pattern else written


def _without_plus(written: code.Code) -> code.Code:
    return code.call("replace", written, "+", "")


OF_ZONES = frozenset({"timestamp_ltz", "timestamp_tz"})


PIECES = re.compile(r"%(?::|:::)?z|%[1-9]f|(?:[^%]|%(?![:z]|[1-9]f)[^\n])+")
"""An offset, a number of digits of a second, or what stands between two of them."""


YEARS = re.compile("(?<!%)((?:%%)*%Y)")


OFFSETS = re.compile("(?<!%)(?:%%)*%(?::|:::)?z")


CUT_DIGITS = re.compile("%[124578]f")
"""Numbers of digits of a second that the engine does not write."""


def _cast_to_text(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    if operand.type.name == "real":
        written: code.Code = code.kernel("_real_to_text", as_arrow(operand, sqltypes.REAL))
    else:
        written = code.exactly(operand, sqltypes.TEXT)
    text = exprs.derived(written, sqltypes.TEXT, [operand])
    return _cast_text(text, target, lenient) if target.length is not None else text


def _local(moment: Expr) -> code.Part:
    """Return a moment as the session's zone shows it."""
    return code.call("to_local_time", moment) if moment.type.name == "timestamp_ltz" else moment


def _cast_to_date(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    literal = operand.literal
    if isinstance(literal, datetime.datetime) and literal.tzinfo is None:
        return exprs.date(literal.date())
    return exprs.derived(code.exactly(_local(operand), sqltypes.DATE), sqltypes.DATE, [operand])


def _cast_to_time(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    time = code.exactly(_local(operand), sqltypes.TIME, is_opaque=True)
    return exprs.derived(time, sqltypes.TIME, [operand])


def _cast_moment(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    if operand.type.name == "timestamp_ltz" and target.name == "timestamp_ntz":
        return exprs.derived(code.call("to_local_time", operand), target, [operand])
    if isinstance(operand.literal, datetime.date) and operand.type.name == "date":
        midnight = datetime.datetime.combine(operand.literal, datetime.time())
        if target.name == "timestamp_ntz":
            return exprs.timestamp(midnight)
    if target.name == "timestamp_ltz":
        # A naive moment is one of the session's zone.
        return _at_zone(cast(operand, sqltypes.TIMESTAMP_NTZ))
    return exprs.derived(as_arrow(operand, target), target, [operand])


def _at_zone(naive: Expr) -> Expr:
    """Return a TIMESTAMP_NTZ as the instant at which the session's zone shows it.

    The engine's own cast fails where the clocks show a time twice or never.
    """
    instant = code.kernel("_local_instant", as_arrow(naive, sqltypes.TIMESTAMP_NTZ))
    target = sqltypes.TIMESTAMP_LTZ
    return exprs.derived(code.exactly(instant, target), target, [naive])


def at_instant(micros: code.Part, parts: Sequence[Expr]) -> Expr:
    """Return microseconds since 1970 in UTC as a TIMESTAMP_LTZ."""
    instant = code.exactly(code.arrow(micros, UTC_MICROSECONDS), sqltypes.TIMESTAMP_LTZ)
    return exprs.derived(instant, sqltypes.TIMESTAMP_LTZ, parts)


def _cast_text_to_instant(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    name = "_try_to_instant" if lenient else "_to_instant"
    parsed = code.kernel(name, as_arrow(operand, sqltypes.TEXT))
    instant = code.exactly(parsed, target, lenient=lenient)
    return exprs.derived(instant, target, [operand], nullable=lenient or None)


def _cast_epoch(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    if operand.type.scale:
        # Seconds and parts of them; only a whole number's unit is guessed.
        exact = as_arrow(_in_microseconds(operand), sqltypes.integer())
        if target.name == "timestamp_ltz":
            return at_instant(exact, [operand])
        converted = exprs.derived(
            code.exactly(exact, sqltypes.TIMESTAMP_NTZ), sqltypes.TIMESTAMP_NTZ, [operand]
        )
        return cast(converted, target)
    naive = code.kernel("_epoch_to_timestamp", code.arrow(operand, "Int64"))
    if target.name == "timestamp_ltz":
        return at_instant(code.arrow(naive, "Int64"), [operand])
    converted = exprs.derived(naive, sqltypes.TIMESTAMP_NTZ, [operand])
    return cast(converted, target)


def _in_microseconds(seconds: Expr) -> Expr:
    """Return a NUMBER of seconds as a whole one of microseconds."""
    micros = code.infix(code.arrow(seconds, double_width(seconds.type)), "*", 10**6)
    whole = sqltypes.number(18)
    return exprs.derived(code.exactly(micros, whole, is_opaque=True), whole, [seconds])


def check_whole_micros(operand: Expr, scale: int) -> None:
    """Raise SqlError 000002 for a constant number of 10 ** -scale seconds, if it has finer digits
    than microseconds."""
    value = operand.literal
    if isinstance(value, decimal.Decimal | int) and not isinstance(value, bool):
        micros = decimal.Decimal(value).scaleb(6 - scale, context=kernelforms.DIGITS)
        if micros != micros.to_integral_value():
            raise errors.unsupported(f"digits below a microsecond: {value}")


def check_whole_epoch(operand: Expr) -> None:
    """Raise SqlError 000002 for a constant number that is a moment, as `check_whole_micros` does.

    The size of a whole number says which unit it counts.
    """
    if operand.type.name != "fixed" or not operand.is_literal or operand.literal is None:
        return
    if operand.type.scale:
        check_whole_micros(operand, 0)
    elif moment_kernels.is_of_nanoseconds(int(operand.literal)):
        check_whole_micros(operand, 9)


# TIMESTAMP_TZ

ZONED = "_zoned_at_offset"


ZONED_BIND = "_zoned_of_bind"
"""Kernels that do the same. A VARIANT of a bind is one of its instant: drivers bind every moment
that has a zone so. Of other values it would lose the offset that its author wrote."""


def _cast_to_zoned(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    source = operand.type.name
    packed: code.Code
    if source == "text":
        name = "_try_to_zoned" if lenient else "_to_zoned"
        packed = code.kernel(name, as_arrow(operand, sqltypes.TEXT))
    elif source == "fixed":
        micros = code.arrow(cast(operand, sqltypes.TIMESTAMP_NTZ), "Int64")
        packed = code.kernel("_zoned_at_zone", micros, "UTC")
    else:
        # A moment without an offset is one of the session's zone. The instant stays where the
        # zone's offset has seconds, as in local mean time, and the local time is that of minutes.
        instant = cast(operand, sqltypes.TIMESTAMP_LTZ)
        local = cast(instant, sqltypes.TIMESTAMP_NTZ)
        shown, micros = code.arrow(local, "Int64"), code.arrow(instant, "Int64")
        minutes = code.infix(code.infix(shown, "-", micros), "/", MICROSECONDS["minute"])
        packed = code.kernel("_zoned_of_instant", micros, minutes)
    return exprs.derived(packed, target, [operand], nullable=lenient or None)


def _zoned_literal(text: str) -> Expr | None:
    """Return a text with an offset as a TIMESTAMP_TZ; None leaves others to run time."""
    try:
        local, minutes = zoned_kernels.whole_minutes(moment_kernels.parse_moment(text))
    except (ValueError, OverflowError, NotImplementedError):
        return None
    return None if minutes is None else zoned_constant(local, minutes)


def zoned_constant(local: datetime.datetime, minutes: int, *, is_bind: bool = False) -> Expr:
    """Return the TIMESTAMP_TZ of a local time, naive, and its offset in minutes."""
    shown = as_arrow(exprs.timestamp(local), sqltypes.TIMESTAMP_NTZ)
    packed = code.kernel(ZONED_BIND if is_bind else ZONED, shown, minutes)
    return exprs.derived(packed, sqltypes.TIMESTAMP_TZ, [], nullable=False)


def _instant_of_constant(value: Expr, *kernel_names: str) -> Expr | None:
    """Return the instant of what `zoned_constant` returns, as a literal; None for others."""
    if not isinstance(value.code, code.FunctionUse) or value.code.name not in kernel_names:
        return None
    local, minutes = map(evaluation.value_of, value.code.arguments)
    if not isinstance(local, datetime.datetime) or not isinstance(minutes, int):
        return None
    try:
        instant = local - datetime.timedelta(minutes=minutes)
    except OverflowError:
        return None
    return exprs.timestamp(instant.replace(tzinfo=datetime.UTC))


def _cast_from_zoned(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    exact = as_arrow(operand, operand.type)
    if target.name == "timestamp_ltz":
        constant = _instant_of_constant(operand, ZONED, ZONED_BIND)
        if constant is not None:
            return constant
        return at_instant(code.kernel("_zoned_instant", exact), [operand])
    shown = code.kernel("_zoned_local", exact)
    local = exprs.derived(shown, sqltypes.TIMESTAMP_NTZ, [operand])
    return cast(local, target)


def at_offset_of(moment: Expr, local: Expr) -> Expr:
    """Return a TIMESTAMP_NTZ as the TIMESTAMP_TZ with the offset of another one, moment."""
    minutes = code.kernel("_zoned_offset", as_arrow(moment, moment.type))
    packed = code.kernel(ZONED, as_arrow(local, sqltypes.TIMESTAMP_NTZ), minutes)
    return exprs.derived(packed, moment.type, [moment, local])


def as_instant(value: Expr) -> Expr:
    """Return a TIMESTAMP_TZ as its instant, so that offsets do not count, and others as such."""
    is_zoned = value.type.name == "timestamp_tz"
    return cast(value, sqltypes.TIMESTAMP_LTZ) if is_zoned else value


def as_key(value: Expr) -> Expr:
    """Return a value so that the engine tells apart only what `=` does, in a list of values too.

    A TIMESTAMP_TZ counts by its instant, -0.0 as 0.0.
    """
    if value.type.name == "real":
        return exprs.derived(code.infix(value, "+", exprs.real(0.0)), value.type, [value])
    return with_one_zero(as_instant(value))


def with_one_zero(value: Expr) -> Expr:
    """Return a structured value with 0.0 for -0.0 inside it, and other values as such."""
    if not sqltypes.holds_floats(value.type):
        return value
    name = f"_one_zero_{sqltypes.encoded(value.type)}"
    return exprs.derived(code.kernel(name, value), value.type, [value])


def at_zone(instant: Expr, zone: str) -> Expr:
    """Return a TIMESTAMP_LTZ as the TIMESTAMP_TZ with the offset that a zone has then."""
    packed = code.kernel("_zoned_at_zone", code.arrow(instant, "Int64"), zone)
    return exprs.derived(packed, sqltypes.TIMESTAMP_TZ, [instant])


def _cast_from_hex(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    name = "_try_to_binary" if lenient else "_to_binary"
    return exprs.derived(code.kernel(name, as_arrow(operand, sqltypes.TEXT)), target, [operand])


# VARIANT


def to_variant(operand: Expr) -> Expr:
    """Return a value of any type as a VARIANT: its canonical text (`sql.variants`)."""
    operand = _instant_of_constant(operand, ZONED_BIND) or operand
    source = operand.type
    if source.is_variant:
        return exprs.retyped(operand, sqltypes.VARIANT)
    if source.name == "null":
        return exprs.null(sqltypes.VARIANT)
    if source.name in ("boolean", "fixed"):
        written: code.Code = code.exactly(operand, sqltypes.TEXT)
        if source.name == "fixed" and source.scale:
            written = code.kernel("_v_of_decimal", written)
    elif source.name in VARIANT_KERNELS:
        if is_of_nanoseconds(operand):
            operand, source = whole_microseconds(operand), sqltypes.TIMESTAMP_NTZ
        written = code.kernel(VARIANT_KERNELS[source.name], as_arrow(operand, source))
    elif source.structure is not None:
        written = code.kernel(f"_v_of_nested_{sqltypes.encoded(source)}", operand)
    else:
        raise errors.unsupported(f"{sqltypes.shown(source)} as a VARIANT")
    return exprs.derived(written, sqltypes.VARIANT, [operand])


VARIANT_KERNELS = {
    "text": "_v_of_text",
    "real": "_v_of_real",
    "date": "_v_of_date",
    "time": "_v_of_time",
    "timestamp_ntz": "_v_of_timestamp",
    "timestamp_ltz": "_v_of_instant",
    "binary": "_v_of_binary",
}


def at_path(operand: Expr, path: str) -> Expr:
    """Return what stands at a constant path in a VARIANT, which a cast around it reads with it."""
    computed = code.kernel("_v_get_path", spelled(operand), path)
    return exprs.derived(computed, sqltypes.VARIANT, [operand], nullable=True)


def read_variant(stored: Expr) -> Expr:
    """Return the canonical text of a stored column, whose JSON any writer may have spelled."""
    computed = code.kernel("_v_read", as_arrow(stored, sqltypes.TEXT))
    return exprs.derived(computed, stored.type, [stored])


def spelled(operand: Expr) -> code.Code:
    """Return the text of a VARIANT for a kernel that reads JSON however it is spelled."""
    raw = unread(operand)
    text = as_arrow(raw, sqltypes.TEXT)
    return text if raw is operand else code.kernel("_v_escaped", text)


def unread(operand: Expr) -> Expr:
    """Return a stored VARIANT as the column has it, and another one as it is."""
    call = operand.code
    if isinstance(call, code.FunctionUse) and call.is_kernel and call.name == "_v_read":
        return dataclasses.replace(operand, code=code.arrow(call.arguments[0], "Utf8"))
    return operand


def as_variant_order(operand: Expr) -> Expr:
    """Return a text in whose order VARIANTs are, and which is the same for equal ones."""
    computed = code.kernel("_v_order", as_arrow(to_variant(operand), sqltypes.TEXT))
    return exprs.derived(computed, sqltypes.TEXT, [operand])


def _cast_to_variant(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    return to_variant(operand)


def _cast_to_array(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    if operand.type.name == "array":
        return operand
    variant = to_variant(operand)
    computed = code.kernel("_v_to_array", as_arrow(variant, sqltypes.TEXT))
    return exprs.derived(computed, sqltypes.ARRAY, [operand], nullable=True)


def _cast_to_object(operand: Expr, target: sqltypes.SqlType, lenient: bool) -> Expr:
    computed = code.kernel("_v_to_object", as_arrow(operand, sqltypes.TEXT))
    return exprs.derived(computed, sqltypes.OBJECT, [operand], nullable=True)


def _cast_to_structure(operand: Expr, target: sqltypes.SqlType, *, lenient: bool) -> Expr:
    """Return a VARIANT, ARRAY or OBJECT, or a structured value, as one of another structure."""
    if lenient or operand.type.name not in ("variant", target.name):
        raise _no_cast(operand.type, target)
    text = as_arrow(to_variant(operand), sqltypes.TEXT)
    computed = code.kernel(f"_v_to_nested_{sqltypes.encoded(target)}", text)
    return exprs.derived(computed, target, [operand], nullable=True)


def _cast_from_variant(
    operand: Expr, target: sqltypes.SqlType, lenient: bool, suffix: str = ""
) -> Expr:
    value: code.Part = spelled(operand)
    path = ""
    call = operand.code
    if isinstance(call, code.FunctionUse) and call.name == "_v_get_path":
        argument = call.arguments[1]
        if isinstance(argument, code.StringLiteral):
            value, path = call.arguments[0], argument.value
    name = {
        "fixed": f"fixed_{target.precision}_{target.scale}",
        "timestamp_ntz": "timestamp",
        "timestamp_ltz": "instant",
        "timestamp_tz": "zoned",
    }.get(target.name, target.name)
    converted: code.Code = code.kernel(f"_v_to_{name}{suffix}", code.arrow(value, "Utf8"), path)
    if target.name == "timestamp_ltz":
        converted = code.exactly(converted, target)
    result = sqltypes.TEXT if target.name == "text" else target
    cast_value = exprs.derived(converted, result, [operand], nullable=True)
    if target.name == "text" and target.length is not None:
        return _cast_text(cast_value, target, lenient)
    return cast_value


CASTS = {
    **{
        (name, "variant"): _cast_to_variant
        for name in ("boolean", "fixed", *VARIANT_KERNELS, *sqltypes.SEMISTRUCTURED)
    },
    **{
        ("variant", name): _cast_from_variant
        for name in ("text", "fixed", "real", "boolean", "date", "time", "binary")
    },
    ("variant", "timestamp_ntz"): _cast_from_variant,
    ("variant", "timestamp_ltz"): _cast_from_variant,
    ("variant", "timestamp_tz"): _cast_from_variant,
    ("array", "text"): _cast_from_variant,
    ("object", "text"): _cast_from_variant,
    ("array", "array"): _cast_same,
    ("object", "object"): _cast_same,
    ("variant", "array"): _cast_to_array,
    ("variant", "object"): _cast_to_object,
    ("text", "array"): _cast_to_array,
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
    **{
        (name, "timestamp_tz"): _cast_to_zoned
        for name in ("text", "fixed", "date", "timestamp_ntz", "timestamp_ltz")
    },
    **{
        ("timestamp_tz", name): _cast_from_zoned
        for name in ("date", "time", "timestamp_ntz", "timestamp_ltz")
    },
    ("timestamp_tz", "timestamp_tz"): _cast_same,
    ("binary", "binary"): _cast_same,
    **{("text", name): _cast_to_interval for name in intervals.NAMES},
    **{(name, "text"): _cast_from_interval for name in intervals.NAMES},
    **{(name, name): _cast_interval for name in intervals.NAMES},
}
