"""rule: dates and times that are known before a query runs: moved, and cut to a unit.

The values are those of literals: a date, a naive datetime (TIMESTAMP_NTZ), or an aware one
(TIMESTAMP_LTZ). None means that the engine has to compute it: the value leaves the calendar, or the
session's zone is needed and unknown. So what the clock gives prunes files as any constant does.
"""

from __future__ import annotations

import calendar
import datetime
import zoneinfo
from typing import Final, TypeAlias, TypeVar

Moment: TypeAlias = datetime.date | datetime.datetime
Value = TypeVar("Value", datetime.date, datetime.datetime)

STEPS: Final = {
    "day": datetime.timedelta(days=1),
    "hour": datetime.timedelta(hours=1),
    "minute": datetime.timedelta(minutes=1),
    "second": datetime.timedelta(seconds=1),
    "millisecond": datetime.timedelta(milliseconds=1),
    "microsecond": datetime.timedelta(microseconds=1),
}


def moved(moment: Moment, count: int, unit: str) -> Moment | None:
    """Return a moment so many units later; unit: month, or one of STEPS.

    Days and months of an aware moment follow the calendar of its zone, other units are durations.
    """
    try:
        if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
            if unit not in ("day", "month"):
                return moment.astimezone(datetime.UTC) + count * STEPS[unit]
            local = _local(moment)
            if local is None:
                return None
            return _later(local, count, unit).replace(tzinfo=moment.tzinfo)
        return _later(moment, count, unit)
    except (OverflowError, ValueError):
        return None


def _later(moment: Value, count: int, unit: str) -> Value:
    if unit != "month":
        return moment + count * STEPS[unit]
    years, month = divmod(moment.year * 12 + moment.month - 1 + count, 12)
    if not 1 <= years <= 9999:
        raise OverflowError
    last = calendar.monthrange(years, month + 1)[1]
    return moment.replace(year=years, month=month + 1, day=min(moment.day, last))


def truncated(moment: Moment, part: str, *, first_day: int) -> Moment | None:
    """Return a moment cut to a part of the calendar or the clock.

    first_day: of a week, days from its Monday.
    """
    if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
        # Within a day the engine cuts the instant, which tells two equal hours apart.
        local = None if part in CLOCK else _local(moment)
        cut = None if local is None else _cut(local, part, first_day)
        return None if cut is None else cut.replace(tzinfo=moment.tzinfo)
    return _cut(moment, part, first_day)


def _cut(moment: Value, part: str, first_day: int) -> Value | None:
    if part in CLOCK:
        if not isinstance(moment, datetime.datetime):
            return None
        return moment.replace(**dict.fromkeys(CLOCK[part], 0))  # type: ignore[arg-type]  # its parts
    day: Value = moment
    if isinstance(moment, datetime.datetime):
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        match part:
            case "day":
                return day
            case "week":
                return day - datetime.timedelta(days=(day.weekday() - first_day) % 7)
            case "month":
                return day.replace(day=1)
            case "quarter":
                return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
            case "year":
                return day.replace(month=1, day=1)
    except OverflowError:
        pass
    return None


CLOCK: Final = {
    "hour": ("minute", "second", "microsecond"),
    "minute": ("second", "microsecond"),
    "second": ("microsecond",),
}
"""What is zero of a moment that is cut to a unit of the clock."""


def _local(moment: datetime.datetime) -> datetime.datetime | None:
    """Return an aware moment as its zone shows it, if that is the session's zone.

    A fixed offset is one that stood in a text.
    """
    return moment.replace(tzinfo=None) if isinstance(moment.tzinfo, zoneinfo.ZoneInfo) else None
