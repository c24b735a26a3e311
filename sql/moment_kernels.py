"""rule: kernels of dates, times and instants: their parsing, their calendar and their zones.

Texts are read as Snowflake reads them without a format. A time without a zone belongs to the
session's, whose name is an argument of a family of `FAMILIES_OF_ZONE`. Moments have microseconds:
a text with digits below that, other than zeros, is refused. `cut_text` drops them first where a
type of at most six digits is named. Numbers are rounded down.
"""

from __future__ import annotations

import calendar
import datetime
import decimal
import functools
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sql import zoned_kernels, zones
from sql.kernelforms import (
    DIGITS,
    Kernel,
    by_row,
    coded,
    finer_than_held,
    per_value,
    text_kernel,
)


def _instant(match: re.Match[str]) -> Kernel:
    lenient, type_name = bool(match.group(1)), match.group(2)
    parse, result = INSTANTS[type_name]

    def parse_any(text: str) -> Any:
        try:
            return parse(text)
        except FarYear as far:
            moved = far.cycles * DAYS_OF_CYCLE
            if type_name == "date":
                return (far.moment.date() - datetime.date(1970, 1, 1)).days + moved
            return micros_of(far.moment.replace(tzinfo=None)) + moved * MICROSECONDS_OF_DAY

    return text_kernel(lambda array: per_value(array, parse_any, result, lenient=lenient), result)


class FarYear(NotImplementedError):
    """The text of a moment has a year of five digits, which Python's datetime does not hold.

    moment: the same moment so many cycles of the calendar earlier.
    """

    def __init__(self, text: str, moment: datetime.datetime, cycles: int) -> None:
        super().__init__(text)
        self.moment = moment
        self.cycles = cycles


FAR = re.compile(r"([1-9]\d{4})(-\d{1,2}-\d{1,2}(?:[Tt\s].*)?)", re.DOTALL)
YEARS_OF_CYCLE, DAYS_OF_CYCLE = 400, 146_097
"""After so many years the calendar repeats, with the days of its weeks."""
FIRST_OF_CYCLE = 2000


def micros_of(local: datetime.datetime) -> int:
    """Return a local time as microseconds since 1970."""
    return (local - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)  # noqa: DTZ001


def later_cycles(local: Any, cycles: list[int]) -> Any:
    """Return an array of TIMESTAMP_NTZ with each value so many cycles of the calendar later."""
    if not any(cycles):
        return local
    moved = [each * DAYS_OF_CYCLE * MICROSECONDS_OF_DAY for each in cycles]
    return pc.add(local.cast(pa.int64()), pa.array(moved, pa.int64())).cast(local.type)


def far_or_near(
    parse: Callable[[str], datetime.datetime], text: str
) -> tuple[datetime.datetime, int]:
    """Return the moment of a text, and how many cycles of the calendar it is later than that."""
    try:
        return parse(text), 0
    except FarYear as far:
        return far.moment, far.cycles


def parse_date(text: str) -> datetime.date:
    """Return text as a DATE by Snowflake's AUTO formats; raises ValueError, or FarYear."""
    moment = _parse_moment(cut_text(text), "Date")
    return moment.date()


def parse_moment(text: str) -> datetime.datetime:
    """Return text as a moment, aware when the text has an offset or is a number of seconds since
    1970 (or of milliseconds, ...), which names an instant. Raises ValueError, or FarYear."""
    moment = _parse_moment(text, "Timestamp")
    return moment.replace(tzinfo=datetime.UTC) if EPOCH.fullmatch(text.strip()) else moment


def parse_timestamp(text: str) -> datetime.datetime:
    """Return text as a TIMESTAMP_NTZ: an offset in the text is dropped, as Snowflake does."""
    return _parse_moment(text, "Timestamp").replace(tzinfo=None)


def parse_time(text: str) -> datetime.time:
    """Return text as a TIME; raises ValueError."""
    match = TIME.fullmatch(text.strip())
    if match is None and EPOCH.fullmatch(text.strip()):
        return _parse_moment(text, "Time").time()
    if match is None:
        raise coded("100035", f"Time|{text}")
    hour, minute, second, fraction, half = match.groups()
    hours = int(hour)
    if half:
        if not 1 <= hours <= 12:
            raise coded("100035", f"Time|{text}")
        hours = hours % 12 + (12 if half.lower() == "pm" else 0)
    try:
        return datetime.time(hours, int(minute), int(second or 0), _micros(fraction))
    except ValueError:
        raise coded("100035", f"Time|{text}") from None


TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(?:\s*([aApP][mM]))?")

ISO = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:(?:[Tt]|\s+)(\d{1,2})(?::(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|z|[+-](?:\d{2}(?::?\d{2}|\d{4})?|\d(?::\d{2})?))?)?"
)

NAMED = re.compile(r"(\d{1,2})-([A-Za-z]{3,9})-(\d{4})(?:\s+(\d{1,2}):(\d{2}):(\d{2}))?")

SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(?:\s+(\d{1,2}):(\d{2}):(\d{2}))?")

WEEKDAY = "(?:mon|tue|wed|thu|fri|sat|sun)"
"""A day's name before a date; it says nothing that the date does not say."""

MAILED = re.compile(
    rf"{WEEKDAY},\s+(?P<day>\d{{1,2}})\s+(?P<month>[a-z]{{3}})\s+(?P<year>\d{{4}})\s+"
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?"
    r"(?:\s+(?P<half>[ap]m))?(?:\s+(?P<zone>[+-]\d{4}))?",
    re.IGNORECASE | re.ASCII,
)
"""The date of a mail (RFC 2822), also with a fraction and with AM or PM."""

CTIME = re.compile(
    rf"{WEEKDAY}\s+(?P<month>[a-z]{{3}})\s+(?P<day>\d{{1,2}})\s+"
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})\s+"
    r"(?P<zone>[+-]\d{4})\s+(?P<year>\d{4})",
    re.IGNORECASE | re.ASCII,
)
"""As C's ctime, with an offset before the year."""

EPOCH = re.compile(r"-?\d{1,19}")

FINE = re.compile(r"(:\d{2}\.\d{6})\d{1,3}(?!\d)")
"""Seconds with digits below a microsecond."""


def cut_text(text: str) -> str:
    """Return the text of a moment without its digits below a microsecond."""
    stripped = text.strip()
    if EPOCH.fullmatch(stripped) and is_of_nanoseconds(int(stripped)):
        return str(int(stripped) // 1000 * 1000)
    return FINE.sub(r"\1", text)


def fine_digits(text: str) -> str:
    """Return the digits below a microsecond of the text of a moment; "" if it has none."""
    match = FINE.search(text)
    return match[0][len(match[1]) :] if match else ""


def has_fine_digits(text: str) -> bool:
    """Whether the text of a moment has digits below a microsecond that are not zero."""
    return bool(fine_digits(text).strip("0"))


def _parse_moment(text: str, type_name: str) -> datetime.datetime:
    stripped = text.strip()
    if far := FAR.fullmatch(stripped):
        cycles, years = divmod(int(far[1]) - FIRST_OF_CYCLE, YEARS_OF_CYCLE)
        try:
            nearer = _parse_moment(f"{FIRST_OF_CYCLE + years}{far[2]}", type_name)
        except ValueError:
            raise coded("100035", f"{type_name}|{text}") from None
        raise FarYear(text, nearer, cycles)
    try:
        if match := ISO.fullmatch(stripped):
            year, month, day, hour, minute, second, fraction, zone = match.groups()
            return datetime.datetime(
                int(year),
                int(month),
                int(day),
                int(hour or 0),
                int(minute or 0),
                int(second or 0),
                _micros(fraction),
                tzinfo=_zone(zone),
            )
        if match := NAMED.fullmatch(stripped):
            day, name, year, *clock = match.groups()
            return datetime.datetime(  # noqa: DTZ001 - the text has no zone
                int(year), _month(name), int(day), *_clock(clock)
            )
        if match := SLASHED.fullmatch(stripped):
            month, day, year, *clock = match.groups()
            return datetime.datetime(  # noqa: DTZ001 - the text has no zone
                int(year), int(month), int(day), *_clock(clock)
            )
        if match := MAILED.fullmatch(stripped) or CTIME.fullmatch(stripped):
            return _with_weekday(**match.groupdict())
        if EPOCH.fullmatch(stripped):
            if loses_digits(int(stripped)):
                raise finer_than_held(f"{stripped} nanoseconds")
            return _from_epoch(int(stripped))
    except (ValueError, OverflowError):
        pass
    raise coded("100035", f"{type_name}|{text}")


def _with_weekday(  # each argument is a group of MAILED or CTIME
    *,
    day: str,
    month: str,
    year: str,
    hour: str,
    minute: str,
    second: str,
    zone: str | None,
    fraction: str | None = None,
    half: str | None = None,
) -> datetime.datetime:
    hours = int(hour)
    if half is not None:
        if not 1 <= hours <= 12:
            raise ValueError(hour)
        hours = hours % 12 + (12 if half.lower() == "pm" else 0)
    return datetime.datetime(
        int(year),
        _month(month),
        int(day),
        hours,
        int(minute),
        int(second),
        _micros(fraction),
        tzinfo=_zone(zone),
    )


def _from_epoch(value: int) -> datetime.datetime:
    # Snowflake guesses the unit of a whole number by its size.
    factor = next((factor for bound, factor in EPOCH_UNITS if abs(value) < bound), 0)
    micros = value * factor if factor else value // 1000
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)  # noqa: DTZ001


EPOCH_UNITS = (
    (31_536_000_000, 10**6),
    (31_536_000_000_000, 10**3),
    (31_536_000_000_000_000, 1),
)
"""Below which size a whole number counts units of so many microseconds; above: nanoseconds."""


def is_of_nanoseconds(value: int) -> bool:
    """Whether a whole number is so large that it counts nanoseconds."""
    return abs(value) >= EPOCH_UNITS[-1][0]


def loses_digits(value: int) -> bool:
    """Whether a whole number, as a moment, has digits below a microsecond that are not zero."""
    return is_of_nanoseconds(value) and value % 1000 != 0


def _month(name: str) -> int:
    """Return the month of a name, short or whole; raises ValueError."""
    word = name.lower()
    for number, month in enumerate(calendar.month_name[1:], start=1):
        if word in (month.lower(), month[:3].lower()):
            return number
    raise ValueError(name)


def _clock(parts: list[Any]) -> tuple[int, int, int]:
    return int(parts[0] or 0), int(parts[1] or 0), int(parts[2] or 0)


def _micros(fraction: str | None) -> int:
    digits = (fraction or "0").ljust(6, "0")
    if digits[6:].strip("0"):
        raise finer_than_held(f"0.{digits}")
    return int(digits[:6])


def _zone(text: str | None) -> datetime.timezone | None:
    if text is None:
        return None
    if text in ("Z", "z"):
        return datetime.UTC
    hours, colon, minutes = text[1:].partition(":")
    seconds = ""
    if not colon:
        hours, minutes, seconds = hours[:2], hours[2:4], hours[4:]
    offset = datetime.timedelta(
        hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0)
    )
    return datetime.timezone(-offset if text[0] == "-" else offset)


def parse_by_pattern(
    text: str, pattern: str, type_name: str, *, century_start: int | None = None, cuts: bool = False
) -> datetime.datetime:
    """Return text read by a strptime pattern, aware if that has an offset; raises ValueError.

    century_start: of the hundred years that a year of two digits is in; None if there is none.
    cuts: digits below a microsecond are dropped, and not refused.
    """
    # The library's fraction has at most six digits.
    shortened = FINE.sub(r"\1", text.strip()) if "%f" in pattern else text.strip()
    try:
        moment = datetime.datetime.strptime(shortened, pattern)  # noqa: DTZ007 - see above
        if century_start is not None:
            year = century_start + (moment.year - century_start) % 100
            moment = moment.replace(year=year)
    except ValueError:
        raise coded("100035", f"{type_name}|{text}") from None
    if type_name != "Date" and not cuts and has_fine_digits(text):
        raise finer_than_held(text)
    return moment


def reader(
    pattern: str, type_name: str, *, century_start: int | None, cuts: bool
) -> Callable[[str], Any]:
    """Return what reads a text by a strptime pattern; it raises ValueError.

    type_name: date, time, timestamp, or moment, which alone keeps an offset.
    """
    shown = "Timestamp" if type_name == "moment" else type_name.title()
    narrow: Callable[[datetime.datetime], Any] = {
        "date": datetime.datetime.date,
        "time": datetime.datetime.time,
        "timestamp": lambda moment: moment.replace(tzinfo=None),
        "moment": lambda moment: moment,
    }[type_name]
    return lambda text: narrow(
        parse_by_pattern(text, pattern, shown, century_start=century_start, cuts=cuts)
    )


def _reader_of(match: re.Match[str], pattern: str, type_name: str) -> Callable[[str], Any]:
    """Return the reader that the name of a kernel of `PARSED` stands for."""
    century_start = None if match["since"] is None else int(match["since"])
    return reader(pattern, type_name, century_start=century_start, cuts=bool(match["cut"]))


PARSED = r"(?P<cut>_cut)?(?:_since_(?P<since>\d{4}))?"
"""How the name of a kernel that reads texts by a pattern ends."""


def _parse_moment_by_pattern(match: re.Match[str]) -> Kernel:
    lenient, type_name = bool(match.group(1)), match.group(2)
    _, result = INSTANTS[type_name]

    def parsed(pattern: str, texts: Any) -> Any:
        return per_value(texts, _reader_of(match, pattern, type_name), result, lenient=lenient)

    return _kernel_of_pattern(parsed, result)


def _kernel_of_pattern(parsed: Callable[[str, Any], Any], result: pa.DataType) -> Kernel:
    """Return the kernel of a function of a pattern, the same in all rows, and an array of texts."""

    def function(texts: Any, patterns: Any) -> Any:
        return parsed(patterns[0].as_py(), texts) if len(texts) else pa.array([], result)

    return Kernel(
        function=function,
        arguments=(pa.string(), pa.string()),
        result=result,
        volatility="volatile",
    )


def _convert_zone(_: re.Match[str]) -> Kernel:
    arrow_type = pa.timestamp("us")

    def function(moments: Any, sources: Any, targets: Any) -> Any:
        if not len(moments):
            return pa.array([], arrow_type)
        source, target = sources[0].as_py(), targets[0].as_py()
        for zone in (source, target):
            zoned_kernels.check_zone(zone)
        instants = zones.instants_of(moments, source)
        return zones.local_of(instants.cast(pa.int64()), target)

    return Kernel(
        function=function, arguments=(arrow_type, pa.string(), pa.string()), result=arrow_type
    )


MICROSECONDS_OF_DAY = 86_400_000_000


def _add_months(match: re.Match[str]) -> Kernel:
    """A day that its new month lacks becomes that month's last; `_last`: a last day stays one."""
    stays_last = bool(match.group(2))
    _, arrow_type = INSTANTS[match.group(1)]

    def of_days(days: Any, months: Any) -> Any:
        ordinal = pc.add(pc.multiply(pc.year(days), 12), pc.subtract(pc.month(days), 1))
        outside = pc.or_(
            pc.or_(
                pc.less(months, pc.subtract(MONTHS_LOW, ordinal)),
                pc.greater(months, pc.subtract(MONTHS_HIGH, ordinal)),
            ),
            pc.less(ordinal, pa.scalar(MONTHS_LOW)),
        )
        if pc.any(outside).as_py():
            day, count = (array.filter(outside)[0] for array in (days, months))
            raise coded("100039", f"{pc.cast(day, pa.string())} + {count} months")
        moved = pc.add(ordinal, months)
        day, first = pc.day(days), _first_of_month(moved)
        length = pc.subtract(_first_of_month(pc.add(moved, 1)), first)
        wanted = pc.min_element_wise(day, length, skip_nulls=False)
        if stays_last:
            before = pc.subtract(_first_of_month(pc.add(ordinal, 1)), _first_of_month(ordinal))
            wanted = pc.if_else(pc.equal(day, before), length, wanted)
        return pc.subtract(pc.add(first, wanted), 1)

    def of_dates(dates: Any, months: Any) -> Any:
        return of_days(dates, months).cast(pa.int32()).cast(pa.date32())

    def of_timestamps(moments: Any, months: Any) -> Any:
        starts = pc.floor_temporal(moments, unit="day")
        rest = pc.subtract(moments.cast(pa.int64()), starts.cast(pa.int64()))
        days = pc.multiply(of_days(starts, months), MICROSECONDS_OF_DAY)
        return pc.add(days, rest).cast(arrow_type)

    return Kernel(
        function=of_dates if arrow_type == pa.date32() else of_timestamps,
        arguments=(arrow_type, pa.int64()),
        result=arrow_type,
    )


MONTHS_LOW, MONTHS_HIGH = 1 * 12, 9999 * 12 + 11
"""The months of the years 1 to 9999, counted from year 0."""


def _first_of_month(ordinal: Any) -> Any:
    """Return the days from 1970-01-01 to the first of a month that is counted from year 0.

    Years begin in March here, so that a leap day is the last of its year; divisions are of
    numbers that are not negative.
    """
    since_march = pc.subtract(ordinal, 2)
    year = pc.divide(since_march, 12)
    month = pc.subtract(since_march, pc.multiply(year, 12))
    leap_days = pc.add(pc.subtract(pc.divide(year, 4), pc.divide(year, 100)), pc.divide(year, 400))
    of_year = pc.divide(pc.add(pc.multiply(month, 153), 2), 5)
    days = pc.add(pc.add(pc.multiply(year, 365), leap_days), of_year)
    return pc.subtract(days, MARCH_OF_YEAR_ZERO)


MARCH_OF_YEAR_ZERO = 719_468
"""Days from 0000-03-01 to 1970-01-01."""


def _local_instant(_: re.Match[str], zone: str) -> Kernel:
    """A TIMESTAMP_NTZ as the TIMESTAMP_LTZ at which the session's zone shows it."""
    return Kernel(
        function=lambda local: zones.instants_of(local, zone),
        arguments=(pa.timestamp("us"),),
        result=pa.timestamp("us", zone),
    )


def _offset_text(match: re.Match[str], zone: str) -> Kernel:
    """The offset of an instant in the session's zone: +hhmm, or +hh:mm.

    The exact one is +hhmm, or +hhmmss if it has seconds, as those of times before time zones do.
    """
    form = match.group(1)
    separator = ":" if form == "colon" else ""
    arrow_type = pa.timestamp("us", zone)

    def text(micros: int) -> str:
        minutes, second = divmod(abs(micros) // 1_000_000, 60)
        hour, minute = divmod(minutes, 60)
        shown = f"{'-' if micros < 0 else '+'}{hour:02}{separator}{minute:02}"
        return f"{shown}{second:02}" if second and form == "exact" else shown

    def function(instants: Any) -> Any:
        micros = instants.cast(pa.int64())
        offsets = pc.subtract(zones.local_of(micros, zone).cast(pa.int64()), micros)
        return per_value(offsets, text, pa.string(), lenient=False)

    return Kernel(function=function, arguments=(arrow_type,), result=pa.string())


def _to_instant(match: re.Match[str], zone: str) -> Kernel:
    """Text of any known form as TIMESTAMP_LTZ: of its own offset, or else of the session's zone."""
    lenient = bool(match.group(1))
    return text_kernel(
        lambda texts: _instants_of_texts(texts, parse_moment, zone, lenient=lenient),
        pa.timestamp("us", zone),
    )


def _parse_instant(match: re.Match[str], zone: str) -> Kernel:
    """Text by a pattern with an offset as TIMESTAMP_LTZ."""
    lenient = bool(match.group(1))

    def parsed(pattern: str, texts: Any) -> Any:
        parse = _reader_of(match, pattern, "moment")
        return _instants_of_texts(texts, parse, zone, lenient=lenient)

    return _kernel_of_pattern(parsed, pa.timestamp("us", zone))


def _instants_of_texts(
    texts: Any, parse: Callable[[str], datetime.datetime], zone: str, *, lenient: bool
) -> Any:
    """Return texts as instants: of their own offsets, or else of the session's zone."""
    encoded, result = texts.dictionary_encode(), pa.timestamp("us", zone)
    moments: list[datetime.datetime | None] = []
    offsets: list[int | None] = []
    cycles: list[int] = []
    for text in encoded.dictionary.to_pylist():
        moment, offset, cycle = None, None, 0
        try:
            moment, cycle = far_or_near(parse, text)
            offset = moment.utcoffset()
            if offset is not None and moment.year == datetime.MAXYEAR:
                moment.astimezone(datetime.UTC)  # raises OverflowError beyond that year
        except (ValueError, OverflowError):
            if not lenient:
                raise
            moment, offset, cycle = None, None, 0
        moments.append(None if moment is None else moment.replace(tzinfo=None))
        offsets.append(None if offset is None else offset // datetime.timedelta(microseconds=1))
        cycles.append(cycle)
    read = later_cycles(pa.array(moments, pa.timestamp("us")), cycles)
    # Not as Python's astimezone: the first hours of year 1 may lie in year 0 of UTC.
    moved = pa.array(offsets, pa.int64())
    at_utc = pc.subtract(read.cast(pa.int64()), moved).cast(result)
    instants = pc.if_else(moved.is_valid(), at_utc, zones.instants_of(read, zone))
    return instants.take(encoded.indices)


def _to_zoned(match: re.Match[str], zone: str) -> Kernel:
    """Text of any known form as TIMESTAMP_TZ."""
    function = zoned_kernels.of_texts(
        functools.partial(far_or_near, parse_moment),
        later_cycles,
        zone,
        lenient=bool(match.group(1)),
    )
    return text_kernel(function, zoned_kernels.PACKED)


def _parse_zoned(match: re.Match[str], zone: str) -> Kernel:
    """Text by a pattern with an offset as TIMESTAMP_TZ."""
    lenient = bool(match.group(1))

    def parsed(pattern: str, texts: Any) -> Any:
        parse = _reader_of(match, pattern, "moment")
        return zoned_kernels.of_texts(
            functools.partial(far_or_near, parse),
            later_cycles,
            zone,
            lenient=lenient,
        )(texts)

    return _kernel_of_pattern(parsed, zoned_kernels.PACKED)


def _floor(match: re.Match[str]) -> Kernel:
    """A TIMESTAMP_NTZ cut to a unit; weeks begin on Monday."""
    unit: Any = match.group(1)
    arrow_type = pa.timestamp("us")
    return Kernel(
        function=lambda moments: pc.floor_temporal(moments, unit=unit),
        arguments=(arrow_type,),
        result=arrow_type,
    )


def _later(match: re.Match[str]) -> Kernel:
    """A TIMESTAMP_NTZ so many of the units of that many microseconds later."""
    micros = int(match.group(1))
    sql_type = pa.timestamp("us")

    def function(moments: Any, counts: Any) -> Any:
        out_of_range = coded("100039", "a timestamp outside the years 1 to 9999")
        try:
            steps = pc.multiply_checked(counts, micros)
            moved = pc.add_checked(moments.cast(pa.int64()), steps)
        except pa.ArrowInvalid:
            raise out_of_range from None
        early, late = (pa.scalar(end) for end in (MOMENT_LOW, MOMENT_HIGH))
        if pc.any(pc.or_(pc.less(moved, early), pc.greater(moved, late))).as_py():
            raise out_of_range
        return moved.cast(sql_type)

    # Volatile as `_nonzero` is.
    return Kernel(
        function=function, arguments=(sql_type, pa.int64()), result=sql_type, volatility="volatile"
    )


MOMENT_LOW, MOMENT_HIGH = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last microsecond of the years 1 to 9999."""


def _months_between(_: re.Match[str]) -> Kernel:
    """The months between two moments: whole ones between equal days or two last days."""
    unit = decimal.Decimal("0.000001")

    def between(first: datetime.datetime, last: datetime.datetime) -> decimal.Decimal:
        months = (first.year - last.year) * 12 + first.month - last.month
        days = [calendar.monthrange(each.year, each.month)[1] == each.day for each in (first, last)]
        if first.day == last.day or all(days):
            return decimal.Decimal(months).quantize(unit)
        micros = [
            each.day * MICROSECONDS_OF_DAY
            + (each - each.replace(hour=0, minute=0, second=0, microsecond=0))
            // datetime.timedelta(microseconds=1)
            for each in (first, last)
        ]
        part = decimal.Decimal(micros[0] - micros[1]) / (31 * MICROSECONDS_OF_DAY)
        return (months + part).quantize(unit, context=DIGITS)

    moment = pa.timestamp("us")
    return by_row(moment, moment, result=pa.decimal128(38, 6))(between)


def _time_slice(match: re.Match[str]) -> Kernel:
    """The begin or the end of the slice of the calendar in which a TIMESTAMP_NTZ lies.

    Slices of months, or of microseconds from a day on, are counted from 1970.
    """
    is_months, is_end = match.group(1) == "months", match.group(4) == "end"
    length, first_day = int(match.group(2)), int(match.group(3))
    origin = datetime.datetime(1970, 1, 1) - datetime.timedelta(days=first_day)  # noqa: DTZ001
    unit = datetime.timedelta(microseconds=1)
    naive = pa.timestamp("us")

    def sliced(moment: datetime.datetime) -> datetime.datetime:
        try:
            if is_months:
                number = (moment.year - 1970) * 12 + moment.month - 1
                years, month = divmod((number // length + is_end) * length, 12)
                return datetime.datetime(1970 + years, month + 1, 1)  # noqa: DTZ001 - local
            count = (moment - origin) // unit // length + is_end
            return origin + count * length * unit
        except (OverflowError, ValueError):
            raise coded("100039", str(moment)) from None

    return Kernel(
        function=lambda array: per_value(array, sliced, naive, lenient=False),
        arguments=(naive,),
        result=naive,
        volatility="volatile",
    )


def _epoch(_: re.Match[str]) -> Kernel:
    arrow_type = pa.timestamp("us")
    return Kernel(
        function=lambda array: per_value(array, _from_epoch, arrow_type, lenient=False),
        arguments=(pa.int64(),),
        result=arrow_type,
    )


def _whole_micros(_: re.Match[str]) -> Kernel:
    """Microseconds of nanoseconds."""

    def function(nanos: Any) -> Any:
        micros = pc.divide(nanos, NANOSECONDS)
        rest = pc.subtract(nanos, pc.multiply(micros, NANOSECONDS))
        lost = nanos.filter(pc.not_equal(rest, ZERO))
        if lost.null_count < len(lost):
            raise finer_than_held(f"{lost.drop_null()[0]} nanoseconds")
        return micros

    return Kernel(
        function=function, arguments=(pa.int64(),), result=pa.int64(), volatility="volatile"
    )


ZERO: Any = 0
NANOSECONDS: Any = 1000
"""Of a microsecond."""


def _of_nanos(match: re.Match[str]) -> Kernel:
    """A TIMESTAMP_NTZ of nanoseconds in microseconds: cut, or refused if that loses a digit."""

    def function(moments: Any) -> Any:
        nanos = moments.cast(pa.int64())
        if match.group(1) == "whole":
            return _whole_micros(match).function(nanos).cast(pa.timestamp("us"))
        micros = pc.divide(_cut_to(nanos, 1000), NANOSECONDS)
        return micros.cast(pa.timestamp("us"))

    return Kernel(
        function=function,
        arguments=(pa.timestamp("ns"),),
        result=pa.timestamp("us"),
        volatility="volatile",
    )


def _cut_micros(match: re.Match[str]) -> Kernel:
    """Microseconds cut to a multiple of so many."""
    step = int(match.group(1))
    return Kernel(
        function=lambda micros: _cut_to(micros, step), arguments=(pa.int64(),), result=pa.int64()
    )


def _cut_to(numbers: Any, step: int) -> Any:
    """Return integers cut to a multiple of step that is not greater."""
    divisor: Any = step
    rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor))
    below = pc.if_else(pc.less(rest, ZERO), step, 0)
    return pc.subtract(pc.subtract(numbers, rest), below)


def cut_texts(array: Any) -> Any:
    """Return an array of texts of moments without their digits below a microsecond."""
    if not pc.any(pc.match_substring_regex(array, MAYBE_FINE)).as_py():
        return array
    return per_value(array, cut_text, pa.string(), lenient=False)


MAYBE_FINE = r":[0-9]{2}\.[0-9]{7}|^\s*-?[0-9]{17,19}\s*$"


def _cut_text(_: re.Match[str]) -> Kernel:
    return text_kernel(cut_texts, pa.string())


INSTANTS: dict[str, tuple[Callable[[str], Any], pa.DataType]] = {
    "date": (parse_date, pa.date32()),
    "timestamp": (parse_timestamp, pa.timestamp("us")),
    "time": (parse_time, pa.time64("us")),
}


FAMILIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Kernel]], ...] = (
    (re.compile(r"_(try_)?to_(date|timestamp|time)"), _instant),
    (
        re.compile(r"_(try_)?parse_(date|timestamp|time)" + PARSED),
        _parse_moment_by_pattern,
    ),
    (re.compile("_convert_zone"), _convert_zone),
    (re.compile("_zoned_local"), zoned_kernels.local),
    (re.compile("_zoned_instant"), zoned_kernels.instant),
    (re.compile("_zoned_offset"), zoned_kernels.offset),
    (re.compile("_zoned_(?:at_offset|of_bind)"), zoned_kernels.at_offset),
    (re.compile("_zoned_of_instant"), zoned_kernels.of_instant),
    (re.compile("_zoned_at_zone"), zoned_kernels.at_zone),
    (re.compile("_zoned_offset_(text|colon)"), zoned_kernels.offset_text),
    (re.compile("_add_months_(date|timestamp)(_last)?"), _add_months),
    (re.compile(r"_later_(\d+)"), _later),
    (
        re.compile(r"_floor_(year|quarter|month|week|day|hour|minute|second|millisecond)"),
        _floor,
    ),
    (re.compile("_epoch_to_timestamp"), _epoch),
    (re.compile("_whole_micros"), _whole_micros),
    (re.compile("_(whole|cut)_of_nanos"), _of_nanos),
    (re.compile(r"_cut_micros_(\d+)"), _cut_micros),
    (re.compile("_cut_text"), _cut_text),
    (re.compile("_months_between"), _months_between),
    (re.compile("_time_slice_(months|micros)_([0-9]+)_([0-9])_(begin|end)"), _time_slice),
)

FAMILIES_OF_ZONE: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], Kernel]], ...] = (
    (re.compile("_local_instant"), _local_instant),
    (re.compile(r"_(try_)?to_instant"), _to_instant),
    (re.compile(r"_offset_(text|colon|exact)"), _offset_text),
    (re.compile(r"_(try_)?to_zoned"), _to_zoned),
    (re.compile(r"_(try_)?parse_instant" + PARSED), _parse_instant),
    (re.compile(r"_(try_)?parse_zoned" + PARSED), _parse_zoned),
)
