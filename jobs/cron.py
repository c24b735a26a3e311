"""rule: when a schedule in cron's form is due, in UTC.

Five fields: minute, hour, day of the month, month, day of the week (0 and 7 are Sunday), each `*`,
a number, a range `a-b`, a step `*/n` or `a-b/n`, or several of them with commas; months and days
also by their first three letters. `@hourly`, `@daily`, `@weekly`, `@monthly` stand for their
fields. Where both days are restricted, either is enough. Source: POSIX, crontab; steps and names as
in Vixie cron.
"""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jobs import errors

WORDS: Final[Mapping[str, str]] = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
DIGITS_MAX: Final = 4
"""Digits of a number of a schedule, with zeros before it."""
_MONTHS: Final = tuple(name.lower() for name in calendar.month_abbr)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_YEARS_MAX: Final = 41
"""Forty years can lie between two 29ths of February that are both, say, a Sunday."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cron:
    """A schedule: the numbers of each field at which it is due. is_either: see the module."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_either: bool

    def includes(self, day: datetime.date) -> bool:
        """Return whether the schedule is due on a day."""
        if day.month not in self.months:
            return False
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.is_either else by_date and by_weekday


def parse(text: str) -> Cron:
    """Parse a schedule. Raises BadSchedule, which names the field."""
    fields = WORDS.get(text.strip().lower(), text).split()
    if len(fields) != 5:
        raise errors.BadSchedule(
            f"{text!r} is no schedule: write five fields, like '30 2 * * *', or one of "
            f"{', '.join(WORDS)}"
        )
    minute, hour, day, month, weekday = fields
    weekdays = _numbers("day of the week", weekday, 0, 7, _DAYS)
    cron = Cron(
        minutes=_numbers("minute", minute, 0, 59),
        hours=_numbers("hour", hour, 0, 23),
        days=_numbers("day of the month", day, 1, 31),
        months=_numbers("month", month, 1, 12, _MONTHS),
        weekdays=frozenset(number % 7 for number in weekdays),
        is_either=not day.startswith("*") and not weekday.startswith("*"),
    )
    if next_after(cron, 0) is None:
        raise errors.BadSchedule(f"{text!r} is never due: no such day exists")
    return cron


def next_after(cron: Cron, at_ms: int) -> int | None:
    """Return the first time after at_ms at which a schedule is due, in Unix milliseconds."""
    start = datetime.datetime.fromtimestamp(at_ms // 60_000 * 60, datetime.UTC)
    start += datetime.timedelta(minutes=1)
    first, clock_min = start.date(), (start.hour, start.minute)
    for day in _days_from(cron, first):
        clock = _clock_from(cron, clock_min if day == first else (0, 0))
        if clock is not None:
            time = datetime.time(*clock, tzinfo=datetime.UTC)
            return int(datetime.datetime.combine(day, time).timestamp()) * 1000
    return None


def _days_from(cron: Cron, first: datetime.date) -> Iterator[datetime.date]:
    """Yield the days of a schedule from `first` on. Only days of its months are looked at."""
    for number in range(_YEARS_MAX * 12):
        years, month = divmod(first.month - 1 + number, 12)
        year, month = first.year + years, month + 1
        if year > datetime.MAXYEAR:
            return
        if month not in cron.months:
            continue
        for day_of_month in range(1, calendar.monthrange(year, month)[1] + 1):
            day = datetime.date(year, month, day_of_month)
            if day >= first and cron.includes(day):
                yield day


def _clock_from(cron: Cron, clock_min: tuple[int, int]) -> tuple[int, int] | None:
    """Return the first hour and minute of a schedule that is not before another one of a day."""
    hour_min, minute_min = clock_min
    later = min((minute for minute in cron.minutes if minute >= minute_min), default=None)
    if hour_min in cron.hours and later is not None:
        return hour_min, later
    hour = min((hour for hour in cron.hours if hour > hour_min), default=None)
    return None if hour is None else (hour, min(cron.minutes))


def _numbers(
    field: str, text: str, first: int, last: int, names: Sequence[str] = ()
) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(field, step_text, 1, last, ()) if slash else 1
        if span == "*":
            low, high = first, last
        else:
            start, dash, stop = span.partition("-")
            low = _number(field, start, first, last, names)
            high = _number(field, stop, first, last, names) if dash else (last if slash else low)
        if low > high:
            raise errors.BadSchedule(f"the {field} {part!r} ends before it begins")
        numbers |= set(range(low, high + 1, step))
    return frozenset(numbers)


def _number(field: str, text: str, first: int, last: int, names: Sequence[str]) -> int:
    if text and text.lower() in names:
        return names.index(text.lower())
    digits = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    if not (digits and first <= int(text) <= last):
        raise errors.BadSchedule(f"the {field} {text[:40]!r} is not a number of {first} to {last}")
    return int(text)
