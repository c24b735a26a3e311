"""rule: kernels of HASH, HASH_AGG and the numbers of an MD5 digest.

HASH is the first 64 bits of a digest of its arguments' canonical text, in which equal numbers of
all types are the same text.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sql import variants
from sql.kernelforms import Kernel, by_row, per_value


def _of_digest(_: re.Match[str]) -> Kernel:
    """The first eight octets of a digest as a signed number, the last of them first."""
    return Kernel(
        function=lambda digests: _octets(pc.binary_slice(digests, 0, 8)).view(pa.int64()),
        arguments=(pa.binary(),),
        result=pa.int64(),
    )


def _half(match: re.Match[str]) -> Kernel:
    """MD5_NUMBER_UPPER64 or MD5_NUMBER_LOWER64 of a digest: half of it as an unsigned number."""
    start = 0 if match.group(1) == "upper" else 8

    def function(digests: Any) -> Any:
        octets = pc.binary_reverse(pc.binary_slice(digests, start, start + 8))
        return _octets(octets).view(pa.uint64()).cast(pa.decimal128(20, 0))

    return Kernel(function=function, arguments=(pa.binary(),), result=pa.decimal128(20, 0))


def _octets(values: Any) -> Any:
    return values.cast(pa.binary(8))


def _plain_real(_: re.Match[str]) -> Kernel:
    """A FLOAT as the text of the equal NUMBER, if there is one."""

    def plain(text: str) -> str:
        return variants.dumps(_equal_number(float(text)))

    def function(reals: Any) -> Any:
        texts = pc.add(reals, pa.scalar(0.0)).cast(pa.string())  # no -0
        if pc.any(pc.match_substring_regex(texts, "[a-zA-Z]|[0-9]{16}")).as_py():
            return per_value(texts, plain, pa.string(), lenient=False)
        return texts

    return Kernel(function=function, arguments=(pa.float64(),), result=pa.string())


def _plain_value(_: re.Match[str]) -> Kernel:
    """A VARIANT whose FLOATs are the equal NUMBERs."""

    def plain(text: str) -> str:
        return variants.dumps(_without_reals(variants.loads(text)))

    def function(texts: Any) -> Any:
        if pc.any(pc.match_substring_regex(texts, "[0-9][eE]")).as_py():
            return per_value(texts, plain, pa.string(), lenient=False)
        return texts

    return Kernel(function=function, arguments=(pa.string(),), result=pa.string())


def _equal_number(value: float) -> variants.Value:
    """Return the number that a FLOAT is: by its fewest digits, and exactly where it is whole.

    From 2^53 on the fewest digits of a FLOAT may be another whole number.
    """
    if math.isfinite(value) and abs(value) >= WHOLE_FROM:
        return variants.normal_number(decimal.Decimal(int(value)))
    return variants.normal_number(decimal.Decimal(repr(value)))


WHOLE_FROM: Final = 2.0**53
"""FLOATs from here on are whole numbers."""


def _without_reals(value: variants.Value) -> variants.Value:
    if isinstance(value, variants.Real):
        return _equal_number(value.value)
    if isinstance(value, list):
        return [_without_reals(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_reals(item) for name, item in value.items()}
    return value


def _wrapped(_: re.Match[str]) -> Kernel:
    """A sum of signed numbers of 64 bits, without the bits beyond these."""

    def wrapped(total: decimal.Decimal) -> int:
        return (int(total) + HALF) % (2 * HALF) - HALF

    return by_row(pa.decimal128(38, 0), result=pa.int64())(wrapped)


HALF = 1 << 63

FAMILIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Kernel]], ...] = (
    (re.compile("_hash_of_digest"), _of_digest),
    (re.compile("_md5_(upper|lower)"), _half),
    (re.compile("_v_plain_real"), _plain_real),
    (re.compile("_v_plain_value"), _plain_value),
    (re.compile("_wrapped_sum"), _wrapped),
)
