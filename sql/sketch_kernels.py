"""rule: kernels of sketches, the states of HLL_* and APPROX_PERCENTILE_*.

A HyperLogLog sketch has REGISTERS of the highest rank that a hash of each register has shown. Its
estimate is O. Ertl's (New cardinality estimation algorithms for HyperLogLog sketches, 2017), which
needs no tables of corrections. A t-digest (T. Dunning, Computing extremely accurate quantiles using
t-digests, 2019) is a list of means with their weights, fine at both ends.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sql import kernelforms, variants
from sql.kernelforms import Kernel, by_row, coded

PRECISION: Final = 12
REGISTERS: Final = 1 << PRECISION
HASH_BITS: Final = 64 - PRECISION
RANK_MAX: Final = HASH_BITS + 1
RANK_BITS: Final = 6
MANTISSA_BITS, EXPONENT_BIAS = 52, 1023
HEAD: Final = b"HLL\x01"
VERSION: Final = 4
"""Of what HLL_EXPORT writes."""
DENSE_FROM: Final = REGISTERS // 4
"""How many registers that are not 0 make an exported sketch a list of all registers."""


# HyperLogLog


def _place(_: re.Match[str]) -> Kernel:
    """The register of a hash and its rank, as one number."""

    def function(hashes: Any) -> Any:
        words = hashes.view(pa.uint64())
        registers = pc.shift_right(words, pa.scalar(HASH_BITS, pa.uint64()))
        rest = pc.bit_wise_and(words, pa.scalar((1 << HASH_BITS) - 1, pa.uint64()))
        # The exponent of a number of so few bits as a float is the place of its first bit.
        exponents: Any = pc.shift_right(rest.cast(pa.float64()).view(pa.int64()), MANTISSA_BITS)
        ranks: Any = pc.subtract(HASH_BITS + EXPONENT_BIAS, exponents)
        ranks = pc.if_else(pc.equal(rest, pa.scalar(0, pa.uint64())), RANK_MAX, ranks)
        return pc.add(pc.shift_left(registers.cast(pa.int64()), RANK_BITS), ranks)

    return Kernel(function=function, arguments=(pa.int64(),), result=pa.int64())


def _state(_: re.Match[str]) -> Kernel:
    """The sketch of some places; NULLs among them are none."""

    def sketch(places: Any) -> bytes:
        present = places.drop_null().to_pylist()
        return _written((place >> RANK_BITS, place & 63) for place in present)

    return _of_lists(sketch, pa.int64(), pa.binary())


def _merged(_: re.Match[str]) -> Kernel:
    """The sketch of all that some sketches are of."""

    # Large: all states of a query may be more bytes than 32 bits count.
    return _of_lists(_union, pa.large_binary(), pa.binary())


def _of_lists(compute: Callable[[Any], Any], of: pa.DataType, result: pa.DataType) -> Kernel:
    """Return a kernel that computes a value of each list's array of elements; NULL is an empty one.

    The elements stay where the engine has them.
    """

    def function(lists: Any) -> Any:
        elements = lists.values
        offsets = lists.offsets.to_pylist() if len(lists) else [0]
        bounds = zip(offsets, offsets[1:], lists.is_valid().to_pylist(), strict=False)
        return pa.array(
            [
                compute(elements.slice(low, (high - low) if is_valid else 0))
                for low, high, is_valid in bounds
            ],
            result,
        )

    return Kernel(
        function=function, arguments=(pa.list_(of),), result=result, volatility="volatile"
    )


STATES_AT_ONCE: Final = 64
"""How many sketches one call of Arrow merges."""


def _union(states: Any) -> bytes:
    """Return the sketch of all that the sketches of an array are of."""
    if not len(states):
        return HEAD + bytes(REGISTERS)
    _, ends_buffer, content = states.buffers()
    offsets: Any = pa.Array.from_buffers(
        pa.int64(), len(states) + 1, [None, ends_buffer], offset=states.offset
    )
    ends: list[int] = offsets.to_pylist()
    columns = []
    for start, end, is_valid in zip(ends, ends[1:], states.is_valid().to_pylist(), strict=False):
        if is_valid:
            if end - start != len(HEAD) + REGISTERS:
                raise _no_state()
            if content.slice(start, len(HEAD)).to_pybytes() != HEAD:
                raise _no_state()
            columns.append(start + len(HEAD))
    merged: Any = pa.array(bytes(REGISTERS), pa.uint8())
    for first in range(0, len(columns), STATES_AT_ONCE):
        merged = pc.max_element_wise(
            merged,
            *(
                pa.Array.from_buffers(pa.uint8(), REGISTERS, [None, content], offset=column)
                for column in columns[first : first + STATES_AT_ONCE]
            ),
        )
    state: bytes = HEAD + merged.buffers()[1].slice(0, REGISTERS).to_pybytes()
    _registers(state)
    return state


def _no_state() -> ValueError:
    return coded("100039", "a binary value that is no HyperLogLog state")


def _written(ranks: Iterable[tuple[int, int]]) -> bytes:
    registers = bytearray(REGISTERS)
    for register, rank in ranks:
        registers[register] = max(registers[register], rank)
    return HEAD + bytes(registers)


def _registers(state: bytes) -> bytes:
    registers = state.removeprefix(HEAD)
    if len(state) != len(HEAD) + REGISTERS or not state.startswith(HEAD):
        raise _no_state()
    if max(registers) > RANK_MAX:
        raise coded("100039", "a HyperLogLog state with an impossible rank")
    return registers


def _estimate(state: bytes) -> int:
    """Return about how many different values a sketch is of."""
    counts = Counter(_registers(state))
    if counts[0] == REGISTERS:
        return 0
    harmonic = REGISTERS * _tau(1 - counts[RANK_MAX] / REGISTERS)
    for rank in range(HASH_BITS, 0, -1):
        harmonic = (harmonic + counts[rank]) / 2
    harmonic += REGISTERS * _sigma(counts[0] / REGISTERS)
    return round(REGISTERS * REGISTERS / (2 * math.log(2) * harmonic))


def _sigma(share: float) -> float:
    """Return share + the sum of share ** (2 ** k) * 2 ** (k - 1) for k from 1."""
    total, weight = share, 1.0
    while True:
        share *= share
        before, total = total, total + share * weight
        weight += weight
        if total == before:
            return total


def _tau(share: float) -> float:
    if share in (0.0, 1.0):
        return 0.0
    total, weight = 1 - share, 1.0
    while True:
        share = math.sqrt(share)
        weight /= 2
        before, total = total, total - (1 - share) ** 2 * weight
        if total == before:
            return total / 3


def _exported(state: bytes) -> str:
    registers = _registers(state)
    used = [register for register, rank in enumerate(registers) if rank]
    value: dict[str, Any] = {"precision": PRECISION, "version": VERSION}
    if len(used) >= DENSE_FROM:
        value["dense"] = list(registers)
    else:
        ranks = [registers[register] for register in used]
        value["sparse"] = {"indices": used, "maxLzCounts": ranks}
    return variants.dumps(value)


def _imported(text: str) -> bytes:
    try:
        value = variants.loads(text)
        if value["precision"] != PRECISION:
            raise ValueError
        if "dense" in value:
            ranks = list(enumerate(value["dense"]))
            if len(ranks) != REGISTERS:
                raise ValueError
        else:
            sparse = value["sparse"]
            ranks = list(zip(sparse["indices"], sparse["maxLzCounts"], strict=True))
        if not all(0 <= at < REGISTERS and 0 <= rank <= RANK_MAX for at, rank in ranks):
            raise ValueError
        return _written(ranks)
    except (KeyError, TypeError, ValueError, IndexError):
        raise coded("100039", "an object that is no exported HyperLogLog state") from None


# T-digests

COMPRESSION: Final = 200
"""About how many means a t-digest has at most, divided by pi / 2."""
WEIGHT_MAX: Final = float(1 << 63)
"""More values than a table has: sums of such weights are finite."""


def _digest(_: re.Match[str]) -> Kernel:
    """The t-digest of some FLOATs."""

    def digest(values: Any) -> str:
        values = values.drop_null()
        if not pc.all(pc.is_finite(values), min_count=0).as_py():
            raise kernelforms.refusal("APPROX_PERCENTILE_ACCUMULATE of NaN or infinity")
        return _digest_text(_of_sorted(values.sort()))

    return _of_lists(digest, pa.float64(), pa.string())


def _digests_merged(_: re.Match[str]) -> Kernel:
    """The t-digest of all that some t-digests are of."""

    def merged(states: Any) -> str:
        pairs = [pair for state in states.drop_null().to_pylist() for pair in _pairs(state)]
        return _digest_text(_compressed(pairs))

    return _of_lists(merged, pa.string(), pa.string())


def _compressed(pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return means with weights, neighbours joined as far as the scale function lets them.

    The least and the greatest value stay alone.
    """
    pairs.sort()
    total = math.fsum(weight for _, weight in pairs)
    joined: list[tuple[float, float]] = []
    before = 0.0
    for number, (mean, weight) in enumerate(pairs):
        if joined:
            last_mean, last_weight = joined[-1]
            is_inside = len(joined) > 1 and number < len(pairs) - 1
            both = last_weight + weight
            # Sums of floats may exceed that of all by a little.
            low, high = (min(part / total, 1.0) for part in (before, before + both))
            if is_inside and _scale(high) - _scale(low) <= 1:
                joined[-1] = (_between(last_mean, mean, weight / both), both)
                continue
            before += last_weight
        joined.append((mean, weight))
    return joined


def _of_sorted(values: Any) -> list[tuple[float, float]]:
    """Return the means with weights of an array of numbers, joined as `_compressed` does."""
    pairs: list[tuple[float, float]] = []
    start, count = 0, len(values)
    while start < count:
        end = _end_of_mean(start, count) if 0 < start < count - 1 else start + 1
        pairs.append((_mean(values.slice(start, end - start)), float(end - start)))
        start = end
    return pairs


def _end_of_mean(start: int, count: int) -> int:
    """Return where a mean that begins at one of so many values ends: before the last one at most.

    The scale function grows by 1 at most from its begin to its end.
    """
    angle = (_scale(start / count) + 1) * 2 * math.pi / COMPRESSION
    share = (math.sin(min(angle, math.pi / 2)) + 1) / 2
    return min(max(math.floor(share * count), start + 1), count - 1)


def _mean(values: Any) -> float:
    mean: float = pc.mean(values).as_py()
    if math.isfinite(mean):
        return mean
    shares: Any = pc.divide(values, float(len(values)))  # whose sum is finite
    total: float = pc.sum(shares).as_py()
    return total


def _between(low: float, high: float, share: float) -> float:
    """Return what lies at a share of the way from low to high, whose distance may be infinite."""
    distance = high - low
    if math.isinf(distance):
        return low * (1 - share) + high * share
    return low + distance * share


def _scale(share: float) -> float:
    return COMPRESSION / (2 * math.pi) * math.asin(2 * share - 1)


def _digest_text(pairs: Sequence[tuple[float, float]]) -> str:
    state = [variants.Real(value=number) for pair in pairs for number in pair]
    return variants.dumps({"state": state, "type": "tdigest", "version": 1})


def _pairs(text: str) -> list[tuple[float, float]]:
    try:
        value = variants.loads(text)
        if value["type"] != "tdigest" or value["version"] != 1 or len(value["state"]) % 2:
            raise ValueError
        numbers = [_float(number) for number in value["state"]]
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        if not all(math.isfinite(mean) and 0 < weight <= WEIGHT_MAX for mean, weight in pairs):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise coded("100039", "an object that is no t-digest") from None
    return pairs


def _float(number: Any) -> float:
    return number.value if isinstance(number, variants.Real) else float(number)


def _percentile(state: str, share: float) -> float | None:
    """Return the value below which that share of a t-digest's values lies; between means, a line.

    None for a t-digest of no values.
    """
    if not 0 <= share <= 1:
        raise coded("100039", str(share))
    pairs = sorted(_pairs(state))
    if not pairs:
        return None
    if share == 1:
        return pairs[-1][0]
    wanted = share * math.fsum(weight for _, weight in pairs)
    before, last = 0.0, None
    for mean, weight in pairs:
        center = before + weight / 2
        if wanted <= center:
            if last is None:
                return mean
            last_center, last_mean = last
            return _between(last_mean, mean, (wanted - last_center) / (center - last_center))
        last = (center, mean)
        before += weight
    return pairs[-1][0]


FAMILIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Kernel]], ...] = (
    (re.compile("_hll_place"), _place),
    (re.compile("_hll_state"), _state),
    (re.compile("_hll_merged"), _merged),
    (re.compile("_hll_estimate"), lambda _: by_row(pa.binary(), result=pa.int64())(_estimate)),
    (re.compile("_hll_exported"), lambda _: by_row(pa.binary(), result=pa.string())(_exported)),
    (re.compile("_hll_imported"), lambda _: by_row(pa.string(), result=pa.binary())(_imported)),
    (re.compile("_digest_of"), _digest),
    (re.compile("_digest_merged"), _digests_merged),
    (
        re.compile("_digest_percentile"),
        lambda _: by_row(pa.string(), pa.float64(), result=pa.float64())(_percentile),
    ),
)
