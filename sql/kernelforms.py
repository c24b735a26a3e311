"""rule: what a kernel is, and forms that many kernels share."""

from __future__ import annotations

import decimal
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa

from sql import limits

DIGITS = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)
_MARKED: Final = re.compile(r"\[\[(\d{6})\|(.*?)\]\](?!\])", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """One function for the engine: Arrow types in and out, and what computes it.

    is_window: it computes a value for each row of a window's partition, from all its rows in order.
    """

    function: Callable[..., Any]
    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    volatility: Literal["immutable", "volatile"] = "immutable"
    is_window: bool = False


def coded(code: str, value: str) -> ValueError:
    """Return the exception that passes Snowflake's number through the engine."""
    return ValueError(_marked(code, value[:200]))


def coded_in(text: str) -> tuple[str, str] | None:
    """Return Snowflake's number and the value, or what is refused, that an exception's text has.

    The engine puts words of its own around what a kernel raised. None: no kernel raised it.
    """
    match = _MARKED.search(text)
    return None if match is None else (match[1], match[2])


def _marked(code: str, value: str) -> str:
    return f"[[{code}|{value.replace(']]', '] ]')}]]"


def finer_than_held(value: object) -> NotImplementedError:
    """Return the refusal of a moment with digits below a microsecond."""
    return refusal(f"digits below a microsecond: {str(value)[:100]}")


def refusal(what: str) -> NotImplementedError:
    """Return what refuses a value that Boathouse does not compute.

    It is no ValueError, so that no TRY_ function makes it NULL.
    """
    return NotImplementedError(_marked("000002", what))


def fit_fixed(value: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal:
    """Return value at scale; raises ValueError when it has too many digits."""
    if value.adjusted() > 40:
        raise coded("100039", str(value))
    rounded = value.quantize(decimal.Decimal(1).scaleb(-scale), context=DIGITS)
    if rounded.adjusted() >= precision - scale and rounded != 0:
        raise coded("100039", str(value))
    return rounded


def array_of(values: Iterable[Any], result: pa.DataType) -> Any:
    """Return the values of one batch as an array; raises what means too little memory."""
    if not pa.types.is_string(result):
        return pa.array(values, result)
    texts, size = [], 0
    for text in values:
        texts.append(text)
        if text is not None:
            size += len(text)
            if size > limits.REPEATED_BYTES_MAX:
                break
    array = pa.array(texts, result) if size <= limits.REPEATED_BYTES_MAX else None
    if not isinstance(array, pa.Array):  # texts of more than 2 GiB are several arrays
        raise ValueError("Resources exhausted: texts of one batch")
    return array


def per_value(
    array: Any, parse: Callable[[Any], Any], result: pa.DataType, *, lenient: bool
) -> Any:
    """Return parse of each value, computed once per distinct one."""
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    parsed = []
    for value in encoded.dictionary.to_pylist():
        try:
            parsed.append(None if value is None else parse(value))
        except (ValueError, decimal.InvalidOperation, OverflowError):
            if not lenient:
                raise
            parsed.append(None)
    return pa.array(parsed, result).take(encoded.indices)


def by_row(*arguments: pa.DataType, result: pa.DataType) -> Callable[[Callable[..., Any]], Kernel]:
    """Return what makes a kernel of a function of one row's values; NULL if one of them is."""

    def make(compute: Callable[..., Any]) -> Kernel:
        def function(*columns: Any) -> Any:
            rows = zip(*(column.to_pylist() for column in columns), strict=True)
            return array_of((None if None in row else compute(*row) for row in rows), result)

        # Volatile as `sql.kernels._nonzero` is.
        return Kernel(function=function, arguments=arguments, result=result, volatility="volatile")

    return make


def text_kernel(function: Callable[..., Any], result: pa.DataType) -> Kernel:
    """Return the kernel of a function of one array of texts."""
    return Kernel(function=function, arguments=(pa.string(),), result=result, volatility="volatile")


TYPED: Final = re.compile(
    r"(_field(?:_[0-9]+)+|_v_(?:of|to)_nested|_v_(?:of|packed)_group|_one_zero|_flatten_nested(?:_outer)?"
    r"|_map_(?:cat|insert|pick|delete))_([0-9a-f]+)"
)
"""Names of kernels that end in a nested type, which is as long as it has fields."""
DIGEST_BYTES: Final = 16


def engine_name(name: str) -> str:
    """Return the name under which the engine has a kernel: a digest stands for a nested type."""
    match = TYPED.fullmatch(name)
    if match is None:
        return name
    digest = hashlib.blake2b(match[2].encode(), digest_size=DIGEST_BYTES)
    return f"{match[1]}_{digest.hexdigest()}"


INSTANT: Final = "Instant"
"""The name of the type of a TIMESTAMP_LTZ, which the session's zone completes."""

ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "Utf8": pa.string(),
    "Utf8View": pa.string_view(),
    "Int64": pa.int64(),
    "Float64": pa.float64(),
    "Boolean": pa.bool_(),
    "Date32": pa.date32(),
    "Binary": pa.binary(),
    "Time64(Microsecond)": pa.time64("us"),
    "Time64(Nanosecond)": pa.time64("ns"),
    "Timestamp(Microsecond, None)": pa.timestamp("us"),
    "Timestamp(Nanosecond, None)": pa.timestamp("ns"),
}
DECIMAL: Final = re.compile(r"Decimal128\((\d+), (\d+)\)")


def arrow_type(text: str, zone: str) -> pa.DataType:
    """Return the Arrow type that the name of a kernel names. zone: the session's."""
    if text.startswith(INSTANT):
        return pa.timestamp("us" if text == INSTANT else "ns", zone)
    match = DECIMAL.fullmatch(text)
    if match is not None:
        return pa.decimal128(int(match[1]), int(match[2]))
    return ARROW_TYPES[text]
