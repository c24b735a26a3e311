"""rule: kernels of TIMESTAMP_TZ: an instant and the offset at which it is shown.

The engine holds both in one DECIMAL(38, 0): 4096 times the microseconds since 1970 in UTC, plus the
offset in minutes, plus 1440. So values are in the order of their instants, and fields of the
calendar are those of the value's own offset. Offsets are below 24 hours.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from sql import zones
from sql.kernelforms import Kernel, coded, per_value

pc: Any = pyarrow.compute

PACKED: Final = pa.decimal128(38, 0)
NAIVE: Final = pa.timestamp("us")
FACTOR: Final = 4096
OFFSET_BITS: Final = 12
HIGH_BITS: Final = 64 - OFFSET_BITS
MINUTES_OF_DAY: Final = 1440
MICROSECONDS_OF_MINUTE: Final = 60_000_000


def pack(micros: Any, minutes: Any) -> Any:
    """Return values of an int64 array of instants and one of offsets in minutes."""
    scaled = pc.multiply(
        pc.cast(micros, pa.decimal128(19, 0)), pa.scalar(FACTOR, pa.decimal128(4, 0))
    )
    shifted = pc.cast(pc.add(minutes, MINUTES_OF_DAY), pa.decimal128(19, 0))
    return pc.cast(pc.add(scaled, shifted), PACKED)


def unpack(packed: Any) -> tuple[Any, Any]:
    """Return the instants of values in microseconds, and their offsets in minutes, as int64."""
    words = pa.Array.from_buffers(
        pa.int64(), 2 * len(packed), [None, packed.buffers()[1]], offset=2 * packed.offset
    )
    pairs = pa.FixedSizeListArray.from_arrays(words, 2)
    low, high = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
    below = pc.bit_wise_and(
        pc.shift_right(low, OFFSET_BITS), pa.scalar((1 << HIGH_BITS) - 1, pa.int64())
    )
    micros = pc.bit_wise_or(pc.shift_left(high, HIGH_BITS), below)
    minutes = pc.subtract(
        pc.bit_wise_and(low, pa.scalar(FACTOR - 1, pa.int64())), pa.scalar(MINUTES_OF_DAY)
    )
    if not packed.null_count:
        return micros, minutes
    valid, null = packed.is_valid(), pa.scalar(None, pa.int64())
    return pc.if_else(valid, micros, null), pc.if_else(valid, minutes, null)


def _shown(micros: Any, minutes: Any) -> Any:
    """Return the local times of instants at offsets, as TIMESTAMP_NTZ."""
    return pc.add(micros, pc.multiply(minutes, MICROSECONDS_OF_MINUTE)).cast(NAIVE)


def _at_zone(micros: Any, zone: str) -> Any:
    """Return instants with the offsets that a zone has then, cut to whole minutes."""
    if zone == "UTC":  # without the machine's time zone database, which may be absent
        return pack(micros, pc.multiply(micros, 0))
    check_zone(zone)
    offsets = pc.subtract(zones.local_of(micros, zone).cast(pa.int64()), micros)
    return pack(micros, pc.divide(offsets, MICROSECONDS_OF_MINUTE))


def check_zone(zone: str) -> None:
    """Raise ValueError, for SqlError 100094, if a text is no name of a time zone."""
    if zone == "UTC":
        return
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("us", zone)))
    except pa.ArrowInvalid:
        raise coded("100094", zone) from None


def local(_: re.Match[str]) -> Kernel:
    """A TIMESTAMP_TZ as a TIMESTAMP_NTZ: what its own offset shows."""
    return Kernel(
        function=lambda packed: _shown(*unpack(packed)), arguments=(PACKED,), result=NAIVE
    )


def instant(_: re.Match[str]) -> Kernel:
    """The microseconds since 1970 in UTC of a TIMESTAMP_TZ."""
    return Kernel(function=lambda packed: unpack(packed)[0], arguments=(PACKED,), result=pa.int64())


def offset(_: re.Match[str]) -> Kernel:
    """The offset of a TIMESTAMP_TZ in minutes."""
    return Kernel(function=lambda packed: unpack(packed)[1], arguments=(PACKED,), result=pa.int64())


def at_offset(_: re.Match[str]) -> Kernel:
    """A TIMESTAMP_TZ of a local time and an offset in minutes."""

    def function(shown: Any, minutes: Any) -> Any:
        moved = pc.multiply(minutes, MICROSECONDS_OF_MINUTE)
        return pack(pc.subtract(shown.cast(pa.int64()), moved), minutes)

    return Kernel(function=function, arguments=(NAIVE, pa.int64()), result=PACKED)


def of_instant(_: re.Match[str]) -> Kernel:
    """A TIMESTAMP_TZ of microseconds since 1970 in UTC, and an offset in minutes."""
    return Kernel(function=pack, arguments=(pa.int64(), pa.int64()), result=PACKED)


def at_zone(_: re.Match[str]) -> Kernel:
    """A TIMESTAMP_TZ of microseconds since 1970 in UTC, and the name of a zone."""

    def function(micros: Any, zones: Any) -> Any:
        return _at_zone(micros, zones[0].as_py()) if len(micros) else pa.array([], PACKED)

    return Kernel(function=function, arguments=(pa.int64(), pa.string()), result=PACKED)


def offset_text(match: re.Match[str]) -> Kernel:
    """The offset of a TIMESTAMP_TZ: +hhmm, or +hh:mm."""
    separator = ":" if match.group(1) == "colon" else ""

    def text(minutes: int) -> str:
        hours, rest = divmod(abs(minutes), 60)
        return f"{'-' if minutes < 0 else '+'}{hours:02}{separator}{rest:02}"

    return Kernel(
        function=lambda packed: per_value(unpack(packed)[1], text, pa.string(), lenient=False),
        arguments=(PACKED,),
        result=pa.string(),
    )


def whole_minutes(moment: datetime.datetime) -> tuple[datetime.datetime, int | None]:
    """Return a moment's local time and its offset in minutes; None if it has none.

    The seconds of an offset are taken from the local time, so that the instant is the same. Raises
    OverflowError before the year 1.
    """
    shift = moment.utcoffset()
    local_time = moment.replace(tzinfo=None)
    if shift is None:
        return local_time, None
    minute = datetime.timedelta(minutes=1)
    minutes = int(shift / minute)  # toward zero, as `_at_zone` cuts
    return local_time - (shift - minutes * minute), minutes


def of_texts(
    parse: Callable[[str], tuple[datetime.datetime, int]],
    later_cycles: Callable[[Any, list[int]], Any],
    zone: str,
    *,
    lenient: bool,
) -> Callable[[Any], Any]:
    """Return the function that reads texts: with their own offsets, or else the session's.

    parse: returns a moment, naive or aware, and how many cycles of the calendar it is later than
    that; raises ValueError. later_cycles: local times so much later. lenient: NULL for a text that
    is no moment.
    """

    def function(texts: Any) -> Any:
        encoded = texts.dictionary_encode()
        moments: list[datetime.datetime | None] = []
        minutes: list[int | None] = []
        cycles: list[int] = []
        for text in encoded.dictionary.to_pylist():
            cycle = 0
            shown_at: datetime.datetime | None = None
            offset_minutes: int | None = None
            try:
                if text is not None:
                    moment, cycle = parse(text)
                    shown_at, offset_minutes = whole_minutes(moment)
            except (ValueError, OverflowError):
                if not lenient:
                    raise
            cycles.append(cycle)
            moments.append(shown_at)
            minutes.append(offset_minutes)
        shown = later_cycles(pa.array(moments, NAIVE), cycles)
        offsets = pa.array(minutes, pa.int64())
        moved = pc.subtract(shown.cast(pa.int64()), pc.multiply(offsets, MICROSECONDS_OF_MINUTE))
        of_session = _at_zone(zones.instants_of(shown, zone).cast(pa.int64()), zone)
        packed = pc.if_else(offsets.is_valid(), pack(moved, offsets), of_session)
        return packed.take(encoded.indices)

    return function
