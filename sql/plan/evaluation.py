"""rule: values of expressions over constants, which prune files as literals do.

What the engine computes of literals alone is computed here as well: functions of texts, rounding,
arithmetic, casts, intervals, and the kernels that read dates and times. The expression stays as it
is, and the engine computes it all the same; only the conditions on stored columns use the value. An
expression whose value is not certainly the engine's is UNKNOWN: one that fails, one with letters
beyond ASCII where case counts, an instant that the session's zone decides.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from sql import kernelforms, kernels
from sql.dialect import sqltypes
from sql.kernelforms import DIGITS
from sql.plan import code, folding
from sql.plan.expressions import UNKNOWN, Expr

DEPTH_MAX: Final = 20
TEXT_LENGTH_MAX: Final = 10_000
"""Of operands and results: REPLACE makes a text of any size from two short ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An interval of the engine: its parts are added one after the other."""

    months: int
    days: int
    microseconds: int


def value_of(part: code.Part) -> Any:
    """Return the value that the engine computes for an expression; UNKNOWN, or None for NULL.

    The value is that of a literal of its type (`sql.plan.expressions`).
    """
    if isinstance(part, Expr) and part.is_literal:
        return part.literal
    try:
        value = _value(part, DEPTH_MAX)
    except (ValueError, TypeError, ArithmeticError, LookupError, NotImplementedError):
        return UNKNOWN
    return _in_type(value, part.type) if isinstance(part, Expr) else value


def _value(part: code.Part, depth: int) -> Any:
    if depth == 0:
        return UNKNOWN
    match part:
        case Expr():
            if part.is_literal:
                return UNKNOWN if part.literal is None else part.literal
            if part.origin is not None or part.aggregate or part.window or part.is_volatile:
                return UNKNOWN
            return _value(part.code, depth - 1)
        case code.StringLiteral():
            return part.value
        case code.Token():
            return _token(part.text)
        case code.Cast() if not part.is_named:
            return _cast(_value(part.operand, depth - 1), part.target)
        case code.FunctionUse() if part.over is None and not (part.order or part.within):
            return _called(part, depth - 1)
        case code.Infix():
            return _combined(part, depth - 1)
        case code.Prefix(word="-"):
            operand = _value(part.operand, depth - 1)
            return -operand if type(operand) is int else UNKNOWN
        case code.Case(operand=operand) if operand is not None:
            compared = _value(operand, depth - 1)
            for condition, result in part.whens if compared is not UNKNOWN else ():
                if _value(condition, depth - 1) is compared:
                    return _value(result, depth - 1)
    return UNKNOWN


def _token(text: str) -> Any:
    if (whole := WHOLE.fullmatch(text)) is not None:
        return int(whole[1])
    if (interval := INTERVAL.fullmatch(text)) is not None:
        months, days, seconds, micros = map(int, interval.groups())
        return Interval(months=months, days=days, microseconds=seconds * 10**6 + micros)
    return {"TRUE": True, "FALSE": False}.get(text, UNKNOWN)


WHOLE: Final = re.compile(r"\(?(-?\d{1,18})\)?")
INTERVAL: Final = re.compile(
    r"INTERVAL '(-?\d+) months (-?\d+) days (-?\d+) seconds (-?\d+) microseconds'"
)


# Calls


def _called(call: code.FunctionUse, depth: int) -> Any:
    is_known = PURE_KERNELS.fullmatch(call.name) if call.is_kernel else call.name in FUNCTIONS
    if not is_known or call.is_distinct:
        return UNKNOWN
    arguments = []
    for argument in call.arguments:
        value = _value(argument, depth)
        if value is UNKNOWN or (isinstance(value, str) and len(value) > TEXT_LENGTH_MAX):
            return UNKNOWN
        arguments.append(value)
    return _of_kernel(call.name, arguments) if call.is_kernel else FUNCTIONS[call.name](arguments)


PURE_KERNELS: Final = re.compile(
    r"_parse_(?:date|time|timestamp)(?:_cut)?(?:_since_\d{4})?|_to_(?:date|time|timestamp|boolean|real|fixed_\d+_\d+)"
    r"|_place|_not_negative|_cut_text|_add_months_(?:date|timestamp)(?:_last)?"
    r"|_later_\d+|_cut_micros_\d+|_rounded_\w+_\d+_\d+"
)
"""Kernels whose result depends on their arguments alone."""


def _of_kernel(name: str, arguments: Sequence[Any]) -> Any:
    kernel = kernels.kernel(name)
    arrays = [
        pa.array([value], arrow_type)
        for value, arrow_type in zip(arguments, kernel.arguments, strict=True)
    ]
    (value,) = kernel.function(*arrays).to_pylist()
    return UNKNOWN if value is None else value


def _of_text(compute: Callable[..., Any]) -> Callable[[Sequence[Any]], Any]:
    def of_arguments(arguments: Sequence[Any]) -> Any:
        return compute(*arguments) if isinstance(arguments[0], str) else UNKNOWN

    return of_arguments


def _of_ascii(compute: Callable[[str], str]) -> Callable[[Sequence[Any]], Any]:
    # Beyond ASCII the cases of letters depend on the version of Unicode.
    return _of_text(lambda text: compute(text) if text.isascii() else UNKNOWN)


def _substring(text: str, start: int, length: int | None = None) -> Any:
    if start < 1:
        return UNKNOWN
    return text[start - 1 :] if length is None else text[start - 1 : start - 1 + length]


def _replaced(text: str, wanted: str, replacement: str) -> Any:
    if not wanted:
        return UNKNOWN
    grown = text.count(wanted) * (len(replacement) - len(wanted))
    return text.replace(wanted, replacement) if len(text) + grown <= TEXT_LENGTH_MAX else UNKNOWN


def _rounded(mode: str) -> Callable[[Sequence[Any]], Any]:
    def of_arguments(arguments: Sequence[Any]) -> Any:
        value, *rest = arguments
        places = rest[0] if rest else 0
        if not isinstance(value, decimal.Decimal) or not -37 <= places <= 37:
            return UNKNOWN
        whole = value.scaleb(places, context=DIGITS).to_integral_value(rounding=mode)
        return whole.scaleb(-places, context=DIGITS)

    return of_arguments


def _size(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return value.copy_abs()
    return abs(value) if _is_exact(value) else UNKNOWN


FUNCTIONS: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "upper": _of_ascii(str.upper),
    "lower": _of_ascii(str.lower),
    "btrim": _of_text(lambda text, set_of: text.strip(set_of) if set_of else text),
    "ltrim": _of_text(lambda text, set_of: text.lstrip(set_of) if set_of else text),
    "rtrim": _of_text(lambda text, set_of: text.rstrip(set_of) if set_of else text),
    "left": _of_text(lambda text, count: text[:count]),
    "right": _of_text(lambda text, count: text[-count:] if count else ""),
    "substr": _of_text(_substring),
    "replace": _of_text(_replaced),
    "reverse": _of_text(lambda text: text[::-1]),
    "character_length": _of_text(len),
    "octet_length": _of_text(lambda text: len(text.encode())),
    "round": _rounded(decimal.ROUND_HALF_UP),
    "trunc": _rounded(decimal.ROUND_DOWN),
    "ceil": _rounded(decimal.ROUND_CEILING),
    "floor": _rounded(decimal.ROUND_FLOOR),
    "abs": lambda arguments: _size(arguments[0]),
}
"""The engine's functions, by their names there."""


# Operators


def _combined(infix: code.Infix, depth: int) -> Any:
    combined = _value(infix.operands[0], depth)
    for operator, operand in zip(infix.operators, infix.operands[1:], strict=True):
        if combined is UNKNOWN:
            return UNKNOWN
        value = _value(operand, depth)
        if value is UNKNOWN:
            return UNKNOWN
        combined = _pair(combined, operator, value)
    return combined


def _pair(left: Any, operator: str, right: Any) -> Any:
    if isinstance(right, Interval):
        return _moved(left, right, operator)
    if isinstance(left, str) and isinstance(right, str):
        is_short = len(left) + len(right) <= TEXT_LENGTH_MAX
        return left + right if operator == "||" and is_short else UNKNOWN
    if not (_is_exact(left) and _is_exact(right)):
        return UNKNOWN
    ours, theirs = decimal.Decimal(left), decimal.Decimal(right)
    match operator:
        case "+":
            exact = DIGITS.subtract(ours, theirs.copy_negate())
        case "-":
            exact = DIGITS.subtract(ours, theirs)
        case "*":
            exact = DIGITS.multiply(ours, theirs)
        case "<>":
            return ours != theirs
        case _:
            return UNKNOWN
    is_whole = type(left) is int and type(right) is int
    return int(exact) if is_whole else exact


def _moved(moment: Any, interval: Interval, operator: str) -> Any:
    """Return a date or a local time moved by the parts of an interval: months, days, the rest."""
    if not isinstance(moment, datetime.date) or getattr(moment, "tzinfo", None) is not None:
        return UNKNOWN
    sign = {"+": 1, "-": -1}.get(operator, 0)
    steps: tuple[tuple[int, str], ...] = (
        (interval.months, "month"),
        (interval.days, "day"),
        (interval.microseconds, "microsecond"),
    )
    moved: datetime.date | None = moment
    for count, unit in steps:
        if count and moved is not None and sign:
            if unit == "microsecond" and not isinstance(moved, datetime.datetime):
                return UNKNOWN
            moved = folding.moved(moved, sign * count, unit)
    return UNKNOWN if moved is None or not sign else moved


def _is_exact(value: Any) -> bool:
    return isinstance(value, int | decimal.Decimal) and not isinstance(value, bool)


# Casts


def _cast(value: Any, target: str) -> Any:
    """Return a value as an Arrow type of that name."""
    decimals = DECIMAL.fullmatch(target)
    match value:
        case bool():
            return value if target == "Boolean" else UNKNOWN
        case int() | decimal.Decimal():
            if target == "Int64":
                return int(value) if value == int(value) else UNKNOWN
            if decimals is not None:
                precision, scale = map(int, decimals.groups())
                return kernelforms.fit_fixed(decimal.Decimal(value), precision, scale)
            if target == "Utf8" and type(value) is int:
                return str(value)
            if target == "Float64" and value == int(value) and abs(int(value)) < EXACT_FLOAT:
                return float(value)
        case str():
            return value if target in ("Utf8", "Utf8View") else UNKNOWN
        case float():
            return value if target == "Float64" else UNKNOWN
        case datetime.datetime() if value.tzinfo is None:
            return _moment(value, target)
        case datetime.time():
            return value if target == "Time64(Microsecond)" else UNKNOWN
        case datetime.date() if type(value) is datetime.date:
            midnight = datetime.datetime.combine(value, datetime.time())
            return value if target == "Date32" else _moment(midnight, target)
    return UNKNOWN


def _moment(value: datetime.datetime, target: str) -> Any:
    match target:
        case "Timestamp(Microsecond, None)":
            return value
        case "Date32":
            return value.date()
        case "Time64(Microsecond)":
            return value.time()
    return UNKNOWN


DECIMAL: Final = re.compile(r"Decimal128\((\d+), (\d+)\)")
EXACT_FLOAT: Final = 1 << 53
"""Below it each whole number is a float."""


def _in_type(value: Any, sql_type: sqltypes.SqlType) -> Any:
    """Return a value as a literal of a type is; UNKNOWN if it is of another one."""
    match sql_type.name:
        case "fixed" if _is_exact(value):
            number = kernelforms.fit_fixed(decimal.Decimal(value), 38, sql_type.scale)
            if number != value:
                return UNKNOWN
            return int(number) if sql_type.scale == 0 else number
        case "real" if isinstance(value, float):
            return value
        case "text" if isinstance(value, str):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if type(value) is datetime.date:
            return value
        case "time" if isinstance(value, datetime.time):
            return value
        case "timestamp_ntz" if isinstance(value, datetime.datetime) and value.tzinfo is None:
            return value
    return UNKNOWN
