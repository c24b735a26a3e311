"""rule: what a kernel is, and forms that many kernels share."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """One function for the engine: Arrow types in and out, and what computes it."""

    function: Callable[..., Any]
    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    volatility: Literal["immutable", "volatile"] = "immutable"


def coded(code: str, value: str) -> ValueError:
    """Return the exception that passes Snowflake's number through the engine."""
    return ValueError(f"[[{code}|{value[:200].replace(']]', '] ]')}]]")


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
