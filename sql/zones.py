"""rule: instants as the local times of a zone, and local times as instants.

Arrow's functions of time zones know the changes of clocks that the machine's database spells out,
until 2037 in most zones. The engine goes on until 2099, and then keeps the last offset. So values
from 2038 to 2099 are computed here one by one, by the rule that a zone has for years to come.
"""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from sql.kernelforms import per_value

pc: Any = pyarrow.compute

NAIVE: Final = pa.timestamp("us")
MICROSECOND: Final = datetime.timedelta(microseconds=1)
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LATE_LOW: Final = (datetime.datetime(2038, 1, 1, tzinfo=datetime.UTC) - EPOCH) // MICROSECOND
LATE_HIGH: Final = (datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC) - EPOCH) // MICROSECOND


def local_of(micros: Any, zone: str) -> Any:
    """Return instants, in microseconds since 1970 as int64, as local times of a zone."""
    if zone == "UTC":  # without the machine's time zone database, which may be absent
        return micros.cast(NAIVE)
    shown = pc.local_timestamp(micros.cast(pa.timestamp("us", zone)))

    def late(value: int, rules: zoneinfo.ZoneInfo) -> int:
        local = (EPOCH + value * MICROSECOND).astimezone(rules)
        return (local.replace(tzinfo=datetime.UTC) - EPOCH) // MICROSECOND

    return _with_late(shown.cast(NAIVE).cast(pa.int64()), micros, zone, late).cast(NAIVE)


def instants_of(local: Any, zone: str) -> Any:
    """Return local times of a zone as instants.

    Of the two instants of a repeated local time it is the first. A local time that the clocks leave
    out is read with the offset before that, so that it comes out as much later as they leave out.
    """
    result = pa.timestamp("us", zone)
    micros = local.cast(pa.int64())
    if zone == "UTC":
        return micros.cast(result)
    assumed = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    shown = pc.local_timestamp(assumed).cast(NAIVE).cast(pa.int64())
    instants = pc.subtract(micros, pc.subtract(shown, assumed.cast(pa.int64())))

    def late(value: int, rules: zoneinfo.ZoneInfo) -> int:
        naive = (EPOCH + value * MICROSECOND).replace(tzinfo=rules)
        return value - (naive.utcoffset() or datetime.timedelta()) // MICROSECOND

    return _with_late(instants, micros, zone, late).cast(result)


def _with_late(
    computed: Any, values: Any, zone: str, late: Callable[[int, zoneinfo.ZoneInfo], int]
) -> Any:
    """Return computed with what late gives of the values from 2038 to 2099. All are int64."""
    is_late = pc.and_(pc.greater_equal(values, LATE_LOW), pc.less(values, LATE_HIGH))
    if not pc.any(is_late).as_py():
        return computed
    try:
        rules = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # an offset such as +07:00
        return computed
    mask = pc.fill_null(is_late, False)
    corrected = per_value(
        values.filter(mask), lambda value: late(value, rules), pa.int64(), lenient=False
    )
    return pc.replace_with_mask(computed, mask, corrected)
