"""rule: Snowflake's semantics as Arrow functions, where the engine has no equivalent.

A kernel is selected by its name, which may contain parameters (`_to_fixed_38_2`), so that a query
only contains names. Text is parsed or formatted once per distinct value. An invalid value raises
`ValueError("[[code|value]]")`, which the engine turns into Snowflake's error; the `_try_` form
returns NULL instead.
"""

from __future__ import annotations

import base64
import calendar
import datetime
import decimal
import hashlib
import itertools
import math
import re
import string
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import re2

from sql import kernelforms, limits, outcomes, searches, similarities, variant_kernels, variants
from sql.kernelforms import Kernel, coded, per_value

DIGITS = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)
TRUE_WORDS = frozenset({"true", "t", "yes", "y", "on", "1"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "off", "0"})


def kernel(name: str, *, zone: str = "UTC") -> Kernel:
    """Return the kernel with that name; raises KeyError for an unknown one.

    zone: the session's, for the kernels that turn a local time into an instant.
    """
    for pattern, make_of_zone in FAMILIES_OF_ZONE:
        match = pattern.fullmatch(name)
        if match is not None:
            return make_of_zone(match, zone)
    if name in variant_kernels.FUNCTIONS:
        return variant_kernels.kernel(name)
    for pattern, make in FAMILIES:
        match = pattern.fullmatch(name)
        if match is not None:
            return make(match)
    raise KeyError(name)


def parse_fixed(text: str, precision: int, scale: int) -> decimal.Decimal:
    """Return text as a NUMBER, rounded half away from zero; raises ValueError."""
    stripped = text.strip()
    if not NUMBER.fullmatch(stripped):
        raise coded("100038", text)
    return fit_fixed(decimal.Decimal(stripped), precision, scale)


def fit_fixed(value: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal:
    """Return value at scale; raises ValueError when it has too many digits."""
    if value.adjusted() > 40:
        raise coded("100039", str(value))
    rounded = value.quantize(decimal.Decimal(1).scaleb(-scale), context=DIGITS)
    if rounded.adjusted() >= precision - scale and rounded != 0:
        raise coded("100039", str(value))
    return rounded


NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")


def _nonzero(_: re.Match[str]) -> Kernel:
    def function(array: Any) -> Any:
        if pc.any(pc.equal(array, pa.scalar(0.0))).as_py():
            raise coded("100051", "Division by zero")
        return array

    # Volatile, so that planning does not evaluate a branch that no row takes.
    return Kernel(
        function=function,
        arguments=(pa.float64(),),
        result=pa.float64(),
        volatility="volatile",
    )


DOMAINS: dict[str, tuple[float, float, bool]] = {
    "ln": (0, math.inf, False),
    "log": (0, math.inf, False),
    "sqrt": (0, math.inf, True),
    "asin": (-1, 1, True),
    "acos": (-1, 1, True),
    "acosh": (1, math.inf, True),
    "atanh": (-1, 1, False),
}
"""Function: the least and the greatest argument it takes, and whether these are taken too."""


def _domain(match: re.Match[str]) -> Kernel:
    """Return its argument; raises where the engine returns NaN or infinity."""
    name = match.group(1)
    low, high, closed = DOMAINS[name]
    under: Any = pc.less if closed else pc.less_equal
    over: Any = pc.greater if closed or high == math.inf else pc.greater_equal

    def function(array: Any) -> Any:
        outside = pc.or_(under(array, low), over(array, high))
        if pc.any(outside).as_py():
            (value, *_) = array.filter(outside).to_pylist()
            raise coded(
                "100058", f"Invalid floating point operation: {name}({variants.plain_real(value)})"
            )
        return array

    return Kernel(
        function=function,
        arguments=(pa.float64(),),
        result=pa.float64(),
        volatility="volatile",
    )


def _fixed(match: re.Match[str]) -> Kernel:
    lenient = bool(match.group(1))
    precision, scale = int(match.group(2)), int(match.group(3))
    result = pa.decimal128(precision, scale)

    def function(array: Any) -> Any:
        if scale == 0 and precision >= 19:
            try:
                # Arrow reads hexadecimal digits as well, Snowflake does not.
                if not pc.any(pc.match_substring(array, "x", ignore_case=True)).as_py():
                    return pc.cast(pc.cast(pc.utf8_trim_whitespace(array), pa.int64()), result)
            except pa.ArrowInvalid:
                pass  # not all plain integers: each value by its own
        return per_value(
            array, lambda text: parse_fixed(text, precision, scale), result, lenient=lenient
        )

    return _text_kernel(function, result)


def _real(match: re.Match[str]) -> Kernel:
    lenient = bool(match.group(1))

    def parse(text: str) -> float:
        word = text.strip()
        if word.lower().lstrip("+-") in ("inf", "infinity", "nan"):
            return float(word)
        if not NUMBER.fullmatch(word):
            raise coded("100038", text)
        value = float(word)
        if math.isinf(value):
            raise coded("100039", text)
        return value

    return _text_kernel(
        lambda array: per_value(array, parse, pa.float64(), lenient=lenient), pa.float64()
    )


def _boolean(match: re.Match[str]) -> Kernel:
    lenient = bool(match.group(1))

    def parse(text: str) -> bool:
        word = text.strip().lower()
        if word in TRUE_WORDS:
            return True
        if word in FALSE_WORDS:
            return False
        raise coded("100037", text)

    return _text_kernel(
        lambda array: per_value(array, parse, pa.bool_(), lenient=lenient), pa.bool_()
    )


def _text_kernel(function: Callable[..., Any], result: pa.DataType) -> Kernel:
    return Kernel(function=function, arguments=(pa.string(),), result=result, volatility="volatile")


def _instant(match: re.Match[str]) -> Kernel:
    lenient, type_name = bool(match.group(1)), match.group(2)
    parse, result = INSTANTS[type_name]
    return _text_kernel(lambda array: per_value(array, parse, result, lenient=lenient), result)


def parse_date(text: str) -> datetime.date:
    """Return text as a DATE by Snowflake's AUTO formats; raises ValueError."""
    moment = _parse_moment(text, "Date")
    return moment.date()


def parse_moment(text: str) -> datetime.datetime:
    """Return text as a moment, aware when the text has an offset or is a number of seconds since
    1970 (or of milliseconds, ...), which names an instant. Raises ValueError."""
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
    r"\s*(Z|z|[+-]\d{2}(?::?\d{2})?)?)?"
)
NAMED = re.compile(r"(\d{1,2})-([A-Za-z]{3,9})-(\d{4})(?:\s+(\d{1,2}):(\d{2}):(\d{2}))?")
SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(?:\s+(\d{1,2}):(\d{2}):(\d{2}))?")
EPOCH = re.compile(r"-?\d{1,18}")


def _parse_moment(text: str, type_name: str) -> datetime.datetime:
    stripped = text.strip()
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
        if EPOCH.fullmatch(stripped):
            return _from_epoch(int(stripped))
    except (ValueError, OverflowError):
        pass
    raise coded("100035", f"{type_name}|{text}")


def _from_epoch(value: int) -> datetime.datetime:
    # Snowflake guesses the unit of a whole number by its size.
    micros = value // 1000
    for bound, factor, divisor in EPOCH_UNITS:
        if abs(value) < bound:
            micros = value * factor // divisor
            break
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)  # noqa: DTZ001


EPOCH_UNITS = (
    (31_536_000_000, 10**6, 1),
    (31_536_000_000_000, 10**3, 1),
    (31_536_000_000_000_000, 1, 1),
)
"""Below which size a whole number counts seconds, milliseconds, microseconds; above: nano."""


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
    return int((fraction or "0").ljust(6, "0")[:6])


def _zone(text: str | None) -> datetime.timezone | None:
    if text is None:
        return None
    if text in ("Z", "z"):
        return datetime.UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return datetime.timezone(-offset if text[0] == "-" else offset)


def parse_by_pattern(text: str, pattern: str, type_name: str) -> datetime.datetime:
    """Return text read by a strptime pattern; raises ValueError."""
    try:
        return datetime.datetime.strptime(text.strip(), pattern).replace(tzinfo=None)  # noqa: DTZ007
    except ValueError:
        raise coded("100035", f"{type_name}|{text}") from None


def _parse_moment_by_pattern(match: re.Match[str]) -> Kernel:
    lenient, type_name = bool(match.group(1)), match.group(2)
    _, result = INSTANTS[type_name]
    narrow: Callable[[datetime.datetime], Any] = {
        "date": datetime.datetime.date,
        "time": datetime.datetime.time,
        "timestamp": lambda moment: moment,
    }[type_name]

    def function(texts: Any, patterns: Any) -> Any:
        if not len(texts):
            return pa.array([], result)
        pattern = patterns[0].as_py()
        return per_value(
            texts,
            lambda text: narrow(parse_by_pattern(text, pattern, type_name.title())),
            result,
            lenient=lenient,
        )

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
        instants = pc.assume_timezone(moments, source, ambiguous="earliest", nonexistent="latest")
        return pc.local_timestamp(instants.cast(pa.timestamp("us", target))).cast(arrow_type)

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


def _not_negative(_: re.Match[str]) -> Kernel:
    return Kernel(
        function=lambda array: pc.max_element_wise(array, pa.scalar(0), skip_nulls=False),
        arguments=(pa.int64(),),
        result=pa.int64(),
    )


def _text_length(_: re.Match[str]) -> Kernel:
    """The length of a resulting text, if a text can have it."""

    def function(lengths: Any) -> Any:
        _check_lengths(lengths)
        return lengths

    # Volatile as `_nonzero` is.
    return Kernel(
        function=function, arguments=(pa.int64(),), result=pa.int64(), volatility="volatile"
    )


def _repeat(_: re.Match[str]) -> Kernel:
    """A text so many times."""

    def function(texts: Any, counts: Any) -> Any:
        times = counts.cast(pa.float64())
        _check_lengths(pc.multiply(pc.utf8_length(texts), times))
        size_bytes = pc.sum(pc.multiply(pc.binary_length(texts), times)).as_py() or 0
        if size_bytes > limits.REPEATED_BYTES_MAX:
            raise ValueError("Resources exhausted: repeated texts")
        return pc.binary_repeat(texts, counts)

    return Kernel(
        function=function,
        arguments=(pa.string(), pa.int64()),
        result=pa.string(),
        volatility="volatile",
    )


def _check_lengths(lengths: Any) -> None:
    longest = pc.max(lengths).as_py()
    if longest is not None and longest > outcomes.TEXT_LENGTH_MAX:
        raise coded("100078", f"... of {int(longest)} characters")


def _place(_: re.Match[str]) -> Kernel:
    """Where SUBSTR starts: 0 is the first character, -1 the last; beyond any text when before."""

    def function(starts: Any, lengths: Any) -> Any:
        from_end = pc.add(pc.add(lengths, starts), 1)
        from_end = pc.if_else(pc.less(from_end, pa.scalar(1)), PLACE_BEYOND, from_end)
        positions = pc.if_else(
            pc.less(starts, pa.scalar(0)), from_end, pc.max_element_wise(starts, 1)
        )
        return pc.if_else(pc.is_valid(lengths), positions, pa.scalar(None, pa.int64()))

    return Kernel(function=function, arguments=(pa.int64(), pa.int64()), result=pa.int64())


PLACE_BEYOND = (1 << 31) - 1


def instants_of(local: Any, zone: str) -> Any:
    """Return local times of a zone as instants.

    Of the two instants of a repeated local time it is the first. A local time that the clocks leave
    out is read with the offset before that, so that it comes out as much later as they leave out.
    """
    naive = pa.timestamp("us")
    if zone == "UTC":  # without the machine's time zone database, which may be absent
        return local.cast(pa.int64()).cast(pa.timestamp("us", zone))
    shown = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    instants = shown.cast(pa.int64())
    offsets = pc.subtract(pc.local_timestamp(shown).cast(naive).cast(pa.int64()), instants)
    return pc.subtract(local.cast(pa.int64()), offsets).cast(pa.timestamp("us", zone))


def _local_instant(_: re.Match[str], zone: str) -> Kernel:
    """A TIMESTAMP_NTZ as the TIMESTAMP_LTZ at which the session's zone shows it."""
    return Kernel(
        function=lambda local: instants_of(local, zone),
        arguments=(pa.timestamp("us"),),
        result=pa.timestamp("us", zone),
    )


def _offset_text(match: re.Match[str], zone: str) -> Kernel:
    """The offset of an instant in the session's zone: +hhmm, or +hh:mm."""
    separator = ":" if match.group(1) == "colon" else ""
    arrow_type = pa.timestamp("us", zone)

    def text(micros: int) -> str:
        hours, minutes = divmod(abs(micros) // 60_000_000, 60)
        return f"{'-' if micros < 0 else '+'}{hours:02}{separator}{minutes:02}"

    def function(instants: Any) -> Any:
        if zone == "UTC":
            offsets = pc.subtract(instants.cast(pa.int64()), instants.cast(pa.int64()))
        else:
            shown = pc.local_timestamp(instants).cast(pa.timestamp("us")).cast(pa.int64())
            offsets = pc.subtract(shown, instants.cast(pa.int64()))
        return per_value(offsets, text, pa.string(), lenient=False)

    return Kernel(function=function, arguments=(arrow_type,), result=pa.string())


def _to_instant(match: re.Match[str], zone: str) -> Kernel:
    """Text of any known form as TIMESTAMP_LTZ: of its own offset, or else of the session's zone."""
    lenient, naive = bool(match.group(1)), pa.timestamp("us")
    result = pa.timestamp("us", zone)

    def parse(text: str) -> tuple[datetime.datetime, bool]:
        moment = parse_moment(text)
        if moment.tzinfo is None:
            return moment, True
        return moment.astimezone(datetime.UTC).replace(tzinfo=None), False

    def function(texts: Any) -> Any:
        encoded = texts.dictionary_encode()
        moments: list[datetime.datetime | None] = []
        are_local: list[bool] = []
        for text in encoded.dictionary.to_pylist():
            try:
                moment, is_local = parse(text)
            except (ValueError, OverflowError):
                if not lenient:
                    raise
                moment, is_local = None, True
            moments.append(moment)
            are_local.append(is_local)
        read = pa.array(moments, naive)
        at_utc = read.cast(pa.int64()).cast(result)
        instants = pc.if_else(pa.array(are_local, pa.bool_()), instants_of(read, zone), at_utc)
        return instants.take(encoded.indices)

    return _text_kernel(function, result)


def _floor(match: re.Match[str]) -> Kernel:
    """A TIMESTAMP_NTZ cut to a unit; weeks begin on Monday."""
    unit: Any = match.group(1)
    arrow_type = pa.timestamp("us")
    return Kernel(
        function=lambda moments: pc.floor_temporal(moments, unit=unit),
        arguments=(arrow_type,),
        result=arrow_type,
    )


def _initcap(_: re.Match[str]) -> Kernel:
    """Each word in lower case but for its first letter; delimiters part the words."""

    def capitalised(text: str, delimiters: str) -> str:
        characters, is_first = [], True
        for character in text:
            if character in delimiters:
                characters.append(character)
                is_first = True
            else:
                characters.append(character.upper() if is_first else character.lower())
                is_first = False
        return "".join(characters)

    def function(texts: Any, delimiters: Any) -> Any:
        return pa.array(
            [
                None if text is None or marks is None else capitalised(text, marks)
                for text, marks in zip(texts.to_pylist(), delimiters.to_pylist(), strict=True)
            ],
            pa.string(),
        )

    return Kernel(function=function, arguments=(pa.string(), pa.string()), result=pa.string())


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


def _split_part(_: re.Match[str]) -> Kernel:
    def part(text: str | None, delimiter: str | None, number: int | None) -> str | None:
        if text is None or delimiter is None or number is None:
            return None
        parts = text.split(delimiter) if delimiter else [text]
        index = number - 1 if number > 0 else number
        return parts[index] if -len(parts) <= index < len(parts) else ""

    def function(*columns: Any) -> Any:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([part(*row) for row in rows], pa.string())

    return Kernel(
        function=function, arguments=(pa.string(), pa.string(), pa.int64()), result=pa.string()
    )


def _by_row(*arguments: pa.DataType, result: pa.DataType) -> Callable[[Callable[..., Any]], Kernel]:
    """Return what makes a kernel of a function of one row's values; NULL if one of them is."""

    def make(compute: Callable[..., Any]) -> Kernel:
        def function(*columns: Any) -> Any:
            rows = zip(*(column.to_pylist() for column in columns), strict=True)
            return kernelforms.array_of(
                (None if None in row else compute(*row) for row in rows), result
            )

        # Volatile as `_nonzero` is.
        return Kernel(function=function, arguments=arguments, result=result, volatility="volatile")

    return make


def _strtok(_: re.Match[str]) -> Kernel:
    """The part of that number between characters that delimit; parts are never empty."""

    def part(text: str, delimiters: str, number: int) -> str | None:
        if number < 1:
            return None
        pieces = re.split(f"[{re.escape(delimiters)}]", text) if delimiters else [text]
        parts = [piece for piece in pieces if piece]
        return parts[number - 1] if number <= len(parts) else None

    return _by_row(pa.string(), pa.string(), pa.int64(), result=pa.string())(part)


def _insert(_: re.Match[str]) -> Kernel:
    """A text in which so many characters from a place on are replaced by others."""

    def inserted(text: str, place: int, length: int, other: str) -> str:
        if not 1 <= place <= len(text) + 1 or length < 0:
            raise coded("100039", str(place if length >= 0 else length))
        return text[: place - 1] + other + text[place - 1 + length :]

    return _by_row(pa.string(), pa.int64(), pa.int64(), pa.string(), result=pa.string())(inserted)


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
    return _by_row(moment, moment, result=pa.decimal128(38, 6))(between)


def _sha1(_: re.Match[str]) -> Kernel:
    def digest(text: str) -> str:
        return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    return _by_row(pa.string(), result=pa.string())(digest)


def _base64_encode(match: re.Match[str]) -> Kernel:
    """Bytes in BASE64, in lines of so many characters; 0: in one line."""
    length, marks = int(match.group(1)), bytes.fromhex(match.group(2)).decode()
    own_marks = str.maketrans("+/=", marks)

    def encoded(value: bytes) -> str:
        text = base64.b64encode(value).decode().translate(own_marks)
        if not length:
            return text
        return "\n".join(text[at : at + length] for at in range(0, len(text), length))

    return _by_row(pa.binary(), result=pa.string())(encoded)


def _rounded(match: re.Match[str]) -> Kernel:
    """A number rounded to so many digits after the point, or before it if they are negative."""
    rounding = ROUNDINGS[match.group(1)]
    precision, scale = (int(group) if group else None for group in match.group(2, 3))

    def exact(value: decimal.Decimal, digits: int) -> decimal.Decimal:
        own_scale = -int(value.as_tuple().exponent)
        if digits >= own_scale:
            return value
        unit = decimal.Decimal(1).scaleb(-max(digits, -EXACT_DIGITS_MAX))
        return value.quantize(unit, rounding=rounding, context=DIGITS)

    def real(value: float, digits: int) -> float:
        if not math.isfinite(value):
            return value
        return float(exact(decimal.Decimal(repr(value)), digits))

    if precision is None or scale is None:
        return _by_row(pa.float64(), pa.int64(), result=pa.float64())(real)
    number = pa.decimal128(precision, scale)
    return _by_row(number, pa.int64(), result=pa.decimal128(precision + 1, scale))(
        lambda value, digits: exact(value, digits).quantize(
            decimal.Decimal(1).scaleb(-scale), context=DIGITS
        )
    )


EXACT_DIGITS_MAX = 39
ROUNDINGS = {
    "round": decimal.ROUND_HALF_UP,
    "half_even": decimal.ROUND_HALF_EVEN,
    "trunc": decimal.ROUND_DOWN,
    "ceil": decimal.ROUND_CEILING,
    "floor": decimal.ROUND_FLOOR,
}


def _width_bucket(_: re.Match[str]) -> Kernel:
    def bucket(value: float, low: float, high: float, count: int) -> int:
        if count < 1 or not low < high:
            raise coded("100039", str(count if count < 1 else low))
        if value < low:
            return 0
        if value >= high:
            return count + 1
        return int((value - low) / ((high - low) / count)) + 1

    real = pa.float64()
    return _by_row(real, real, real, pa.int64(), result=pa.int64())(bucket)


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


def _base64_decode(match: re.Match[str]) -> Kernel:
    def parse(text: str) -> bytes:
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            raise coded("100116", text) from None

    lenient = bool(match.group(1))
    return _text_kernel(
        lambda array: per_value(array, parse, pa.binary(), lenient=lenient), pa.binary()
    )


def _compiled(pattern: str) -> Any:
    """Return a pattern compiled by RE2, which matches in time linear in the text.

    Raises ValueError if RE2 refuses the pattern, or if its program would exceed PATTERN_BYTES_MAX.
    """
    options = re2.Options()
    options.max_mem = limits.PATTERN_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace").partition(":")[0]
        raise coded("100048", f"RE2|{reason}|{pattern}") from None


def _regexp(match: re.Match[str]) -> Kernel:
    """The text, or the place, of a match of that number from a place on; 0 is the whole match."""
    wanted, start, occurrence, group = match.group(1), *map(int, match.group(2, 3, 4))

    def result_of(text: str, pattern: Any) -> str | int | None:
        matches = pattern.finditer(text, min(start - 1, len(text)))
        if wanted == "all":
            following = itertools.islice(matches, occurrence - 1, None)
            return variants.dumps([_group_value(one, group) for one in following])
        one = next(itertools.islice(matches, occurrence - 1, None), None)
        if wanted == "substr":
            return None if one is None else one.group(group)
        if one is None:
            return 0
        place: int = one.start(group) if wanted == "instr" else one.end(group)
        return place + 1

    def function(texts: Any, patterns: Any) -> Any:
        results: list[str | int | None] = []
        spelled, pattern = None, None
        for text, wanted_pattern in zip(texts.to_pylist(), patterns.to_pylist(), strict=True):
            if wanted_pattern is not None and wanted_pattern != spelled:
                spelled, pattern = wanted_pattern, _compiled(wanted_pattern)
            is_null = text is None or wanted_pattern is None
            results.append(None if is_null else result_of(text, pattern))
        return pa.array(results, result)

    result = pa.string() if wanted in ("substr", "all") else pa.int64()
    return Kernel(
        function=function,
        arguments=(pa.string(), pa.string()),
        result=result,
        volatility="volatile",
    )


def _group_value(match: Any, group: int) -> str:
    text = match.group(group)
    return variants.UNDEFINED if text is None else variants.text_value(text)


def _search(match: re.Match[str]) -> Kernel:
    """Whether a text has one of the tokens of another one, or every one."""
    analyzer, every = match.group(1), match.group(2) == "and"

    def function(texts: Any, queries: Any) -> Any:
        wanted = searches.ANALYZERS[analyzer](queries[0].as_py()) if len(queries) else set()
        return per_value(
            texts,
            lambda text: searches.matches(text, wanted, analyzer, every=every),
            pa.bool_(),
            lenient=False,
        )

    return Kernel(function=function, arguments=(pa.string(), pa.string()), result=pa.bool_())


def _epoch(_: re.Match[str]) -> Kernel:
    arrow_type = pa.timestamp("us")
    return Kernel(
        function=lambda array: per_value(array, _from_epoch, arrow_type, lenient=False),
        arguments=(pa.int64(),),
        result=arrow_type,
    )


def _real_to_text(_: re.Match[str]) -> Kernel:
    return Kernel(
        function=lambda array: per_value(array, variants.plain_real, pa.string(), lenient=False),
        arguments=(pa.float64(),),
        result=pa.string(),
    )


def _to_binary(match: re.Match[str]) -> Kernel:
    def parse(text: str) -> bytes:
        if not HEX.fullmatch(text):
            raise coded("100115", text)
        return bytes.fromhex(text)

    lenient = bool(match.group(1))
    return _text_kernel(
        lambda array: per_value(array, parse, pa.binary(), lenient=lenient), pa.binary()
    )


HEX = re.compile("([0-9A-Fa-f]{2})*")


def _utf8(match: re.Match[str]) -> Kernel:
    """Bytes as the text that they are in UTF-8."""

    def parse(value: bytes) -> str:
        try:
            return value.decode()
        except ValueError:
            raise coded("100144", f"0x{value.hex().upper()}") from None

    lenient = bool(match.group(1))
    return Kernel(
        function=lambda array: per_value(array, parse, pa.string(), lenient=lenient),
        arguments=(pa.binary(),),
        result=pa.string(),
        volatility="volatile",
    )


def _mixed(source: int) -> int:
    """Return 64 bits in which each bit of a number has a part (the finaliser of SplitMix64)."""
    word = (source + 0x9E3779B97F4A7C15) & WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


WORD = (1 << 64) - 1


def _uniform(match: re.Match[str]) -> Kernel:
    """A number between two, both included, which its third argument determines."""

    def whole(low: int, high: int, source: int) -> int:
        if low > high:
            raise coded("100039", str(low))
        return low + _mixed(source) % (high - low + 1)

    def real(low: float, high: float, source: int) -> float:
        return low + (high - low) * (_mixed(source) / WORD)

    number = pa.float64() if match.group(1) else pa.int64()
    return _by_row(number, number, pa.int64(), result=number)(real if match.group(1) else whole)


def _normal(_: re.Match[str]) -> Kernel:
    """A number of a normal distribution, which its third argument determines."""

    def normal(mean: float, deviation: float, source: int) -> float:
        word = _mixed(source)
        first, second = (word + 1) / (WORD + 1), _mixed(word) / WORD
        return mean + deviation * math.sqrt(-2 * math.log(first)) * math.cos(2 * math.pi * second)

    real = pa.float64()
    return _by_row(real, real, pa.int64(), result=real)(normal)


def _randstr(_: re.Match[str]) -> Kernel:
    """A text of so many letters and digits, which its second argument determines."""

    def text(length: int, source: int) -> str:
        if not 0 <= length <= outcomes.TEXT_LENGTH_MAX:
            raise coded("100039", str(length))
        word, letters = source, []
        for _ in range(length):
            word = _mixed(word)
            letters.append(LETTERS[word % len(LETTERS)])
        return "".join(letters)

    return _by_row(pa.int64(), pa.int64(), result=pa.string())(text)


def _place_of_bytes(_: re.Match[str]) -> Kernel:
    """Where bytes stand in others, from a place on; 0 for nowhere."""

    def place(needle: bytes, value: bytes, start: int) -> int:
        return value.find(needle, start - 1) + 1

    return _by_row(pa.binary(), pa.binary(), pa.int64(), result=pa.int64())(place)


def _regexp_replaced(match: re.Match[str]) -> Kernel:
    """A text with one of its matches from a place on replaced, or with all of them for 0."""
    position, occurrence = int(match[1]), int(match[2])

    def replaced(text: str, pattern: Any, replacement: str) -> str:
        matches = pattern.finditer(text, min(position - 1, len(text)))
        if occurrence:
            matches = itertools.islice(matches, occurrence - 1, occurrence)
        written: list[str] = []
        at = 0
        for one in matches:
            written += (text[at : one.start()], _expanded(replacement, one))
            at = one.end()
        return "".join((*written, text[at:]))

    def function(texts: Any, patterns: Any, replacements: Any) -> Any:
        spelled, pattern = None, None
        results = []
        columns = (texts.to_pylist(), patterns.to_pylist(), replacements.to_pylist())
        for text, wanted, replacement in zip(*columns, strict=True):
            if wanted is not None and wanted != spelled:
                spelled, pattern = wanted, _compiled(wanted)
            is_null = text is None or wanted is None or replacement is None
            results.append(None if is_null else replaced(text, pattern, replacement))
        return kernelforms.array_of(results, pa.string())

    text_type = pa.string()
    return Kernel(
        function=function,
        arguments=(text_type, text_type, text_type),
        result=text_type,
        volatility="volatile",
    )


def _expanded(replacement: str, match: Any) -> str:
    r"""Return a replacement with the groups of a match in the place of \0 to \9."""

    def group(reference: re.Match[str]) -> str:
        letter = reference[1]
        if not letter.isdecimal():
            return letter
        number = int(letter)
        return (match.group(number) or "") if number <= match.re.groups else ""

    return REFERENCE.sub(group, replacement)


REFERENCE = re.compile(r"\\(.)", re.DOTALL)


def _uuid_of_name(_: re.Match[str]) -> Kernel:
    """The UUID of version 5 of a name in a namespace."""

    def named(namespace: str, name: str) -> str:
        if not UUID.fullmatch(namespace):
            raise coded("100038", namespace)
        space = bytes.fromhex(namespace.replace("-", ""))
        digest = bytearray(hashlib.sha1(space + name.encode(), usedforsecurity=False).digest())
        digest[6] = digest[6] & 0x0F | 0x50  # version 5
        digest[8] = digest[8] & 0x3F | 0x80
        digits = digest[:16].hex()
        ends = (0, 8, 12, 16, 20, 32)
        return "-".join(digits[start:end] for start, end in itertools.pairwise(ends))

    return _by_row(pa.string(), pa.string(), result=pa.string())(named)


UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _jaro_winkler(_: re.Match[str]) -> Kernel:
    """How similar two texts are, from 0 to 100, letters of both cases being the same."""
    return _by_row(pa.string(), pa.string(), result=pa.int64())(
        lambda left, right: int(100 * similarities.jaro_winkler(left.lower(), right.lower()))
    )


def _unit_of(_: re.Match[str]) -> Kernel:
    """A number from 0 to 1 that a text, a row's number among equal rows and a seed determine."""

    def unit(contents: str, number: int, seed: int) -> float:
        digest = hashlib.blake2b(f"{seed} {number} {contents}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / (WORD + 1)

    return _by_row(pa.string(), pa.int64(), pa.int64(), result=pa.float64())(unit)


LETTERS = string.ascii_letters + string.digits


def _of_variant(match: re.Match[str], zone: str = "UTC") -> Kernel:
    """What stands at a path in a VARIANT, as a value of another type; NULL for null."""
    target = match.group(1)
    converting = None if target == "text" else kernel(f"_to_{target}", zone=zone)
    shown_target = VARIANT_TARGETS[target.partition("_")[0]]
    spelled = VARIANT_SPELLINGS.get(target.partition("_")[0], variants.scalar_text)

    def text_of(cell: str, steps: variants.Path) -> str | None:
        value = variant_kernels.read_value(cell)
        if steps:
            value = variants.at_path(value, steps)
            if value is variants.MISSING:
                return None
        if isinstance(value, list | dict) and converting is not None:
            raise variant_kernels.failed_cast(value, shown_target)
        return spelled(value)

    def function(cells: Any, paths: Any) -> Any:
        if not len(cells):
            return pa.array([], result)
        steps = variant_kernels.steps_of(paths[0].as_py())
        try:
            texts = per_value(cells, lambda cell: text_of(cell, steps), pa.string(), lenient=False)
        except (variants.BadJson, RecursionError):
            raise variant_kernels.bad_json(variants.NESTED) from None
        if converting is None:
            return texts
        try:
            return converting.function(texts)
        except ValueError as error:
            value = re.search(r"\[\[\d+\|(?:\w+\|)?(.*)\]\]", str(error), re.DOTALL)
            shown = f'"{value[1]}"' if value else "value"
            raise coded(
                "100071", f"Failed to cast variant value {shown} to {shown_target}"
            ) from None

    result = pa.string() if converting is None else converting.result
    return Kernel(
        function=function,
        arguments=(pa.string(), pa.string()),
        result=result,
        volatility="volatile",
    )


VARIANT_TARGETS = {
    "text": "VARCHAR",
    "fixed": "FIXED",
    "real": "REAL",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP_NTZ",
    "instant": "TIMESTAMP_LTZ",
    "binary": "BINARY",
}


def _number_spelled(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(int(value))
    return repr(value.value) if isinstance(value, variants.Real) else _exactly_spelled(value)


def _boolean_spelled(value: Any) -> str | None:
    if isinstance(value, variants.Real):
        return str(value.value != 0)
    if isinstance(value, int | decimal.Decimal):
        return str(value != 0)
    return variants.scalar_text(value)


def _exactly_spelled(value: Any) -> str | None:
    """Return a scalar as text, a date or time with all its digits."""
    if isinstance(value, str) and value.startswith(variants.MARK) and value != variants.UNDEFINED:
        return value[2:]
    return variants.scalar_text(value)


VARIANT_SPELLINGS: dict[str, Callable[[Any], str | None]] = {
    "fixed": _number_spelled,
    "real": _number_spelled,
    "boolean": _boolean_spelled,
    **dict.fromkeys(("date", "time", "timestamp", "instant", "binary"), _exactly_spelled),
}


def _variant_of_text(_: re.Match[str]) -> Kernel:
    """A VARCHAR as a VARIANT."""

    def quoted(text: str) -> str:
        return variants.dumps(variants.text_value(text))

    def function(texts: Any) -> Any:
        if pc.any(pc.match_substring_regex(texts, ESCAPED_IN_JSON)).as_py():
            return per_value(texts, quoted, pa.string(), lenient=False)
        return _enclosed('"', texts)

    return Kernel(function=function, arguments=(pa.string(),), result=pa.string())


def _enclosed(head: str, texts: Any) -> Any:
    join: Any = pc.binary_join_element_wise
    return join(head, texts, '"', "")


ESCAPED_IN_JSON = r'["\\\x00-\x1f]'


def _variant_of_decimal(_: re.Match[str]) -> Kernel:
    """The digits of a decimal with a point as a VARIANT: without zeros at the end."""

    def function(texts: Any) -> Any:
        return pc.utf8_rtrim(pc.utf8_rtrim(texts, characters="0"), characters=".")

    return Kernel(function=function, arguments=(pa.string(),), result=pa.string())


def _real_spelled(value: float) -> str:
    return variants.dumps(variants.Real(value=value))


def _variant_of_real(_: re.Match[str]) -> Kernel:
    return Kernel(
        function=lambda array: per_value(
            array,
            _real_spelled,
            pa.string(),
            lenient=False,
        ),
        arguments=(pa.float64(),),
        result=pa.string(),
    )


def _variant_of_moment(match: re.Match[str]) -> Kernel:
    """A DATE, TIME, TIMESTAMP_NTZ or BINARY as a VARIANT."""
    letter, arrow_type = VARIANT_MARKS[match.group(1)]
    head = f'"\\u0001{letter}'

    def function(array: Any) -> Any:
        if letter == "b":
            texts = pa.array(
                [None if each is None else each.hex().upper() for each in array.to_pylist()],
                pa.string(),
            )
        else:
            texts = array.cast(pa.string())
        return _enclosed(head, texts)

    return Kernel(function=function, arguments=(arrow_type,), result=pa.string())


VARIANT_MARKS: dict[str, tuple[str, pa.DataType]] = {
    "date": ("d", pa.date32()),
    "time": ("t", pa.time64("us")),
    "timestamp": ("n", pa.timestamp("us")),
    "binary": ("b", pa.binary()),
}


def _variant_of_instant(_: re.Match[str], zone: str) -> Kernel:
    """A TIMESTAMP_LTZ as a VARIANT, as the session's zone shows it."""
    offset_text = kernel("_offset_text", zone=zone)

    def function(instants: Any) -> Any:
        if zone == "UTC":
            local = instants.cast(pa.int64()).cast(pa.timestamp("us"))
        else:
            local = pc.local_timestamp(instants)
        texts, offsets = local.cast(pa.string()), offset_text.function(instants)
        body = pc.binary_join_element_wise(texts, offsets, " ")
        return _enclosed('"\\u0001l', body)

    return Kernel(function=function, arguments=(pa.timestamp("us", zone),), result=pa.string())


INSTANTS: dict[str, tuple[Callable[[str], Any], pa.DataType]] = {
    "date": (parse_date, pa.date32()),
    "timestamp": (parse_timestamp, pa.timestamp("us")),
    "time": (parse_time, pa.time64("us")),
}

FAMILIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Kernel]], ...] = (
    (re.compile("_nonzero"), _nonzero),
    (
        re.compile(r"_v_to_(text|fixed_\d+_\d+|real|boolean|date|time|timestamp|binary)"),
        _of_variant,
    ),
    (re.compile("_v_escaped"), variant_kernels.escaped),
    (re.compile("_v_bounded"), variant_kernels.bounded),
    (re.compile("_flatten_(both|array|object)(_recursive)?(_outer)?"), variant_kernels.flatten),
    (re.compile("_rows_of_(split|strtok)"), variant_kernels.rows_of_parts),
    (re.compile("_uniform(_real)?"), _uniform),
    (re.compile("_normal"), _normal),
    (re.compile("_randstr"), _randstr),
    (re.compile("_unit_of"), _unit_of),
    (re.compile("_place_of_bytes"), _place_of_bytes),
    (re.compile(r"_regexp_replace_(\d+)_(\d+)"), _regexp_replaced),
    (re.compile("_uuid_of_name"), _uuid_of_name),
    (re.compile("_jaro_winkler"), _jaro_winkler),
    (re.compile("_v_of_text"), _variant_of_text),
    (re.compile("_v_of_decimal"), _variant_of_decimal),
    (re.compile("_v_of_real"), _variant_of_real),
    (re.compile("_v_of_(date|time|timestamp|binary)"), _variant_of_moment),
    (re.compile(f"_domain_({'|'.join(DOMAINS)})"), _domain),
    (re.compile(r"_(try_)?to_fixed_(\d+)_(\d+)"), _fixed),
    (re.compile(r"_(try_)?to_real"), _real),
    (re.compile(r"_(try_)?to_boolean"), _boolean),
    (re.compile(r"_(try_)?to_(date|timestamp|time)"), _instant),
    (re.compile(r"_(try_)?to_binary"), _to_binary),
    (re.compile(r"_(try_)?parse_(date|timestamp|time)"), _parse_moment_by_pattern),
    (re.compile("_convert_zone"), _convert_zone),
    (re.compile("_add_months_(date|timestamp)(_last)?"), _add_months),
    (re.compile(r"_later_(\d+)"), _later),
    (
        re.compile(r"_floor_(year|quarter|month|week|day|hour|minute|second|millisecond)"),
        _floor,
    ),
    (re.compile("_initcap"), _initcap),
    (re.compile("_not_negative"), _not_negative),
    (re.compile("_text_length"), _text_length),
    (re.compile("_repeat"), _repeat),
    (re.compile("_place"), _place),
    (re.compile("_split_part"), _split_part),
    (re.compile("_epoch_to_timestamp"), _epoch),
    (re.compile("_real_to_text"), _real_to_text),
    (re.compile("_strtok"), _strtok),
    (re.compile("_insert"), _insert),
    (re.compile("_months_between"), _months_between),
    (re.compile("_sha1"), _sha1),
    (re.compile("_base64_encode_([0-9]+)_([0-9a-f]{6})"), _base64_encode),
    (re.compile(f"_rounded_({'|'.join(ROUNDINGS)})(?:_([0-9]+)_([0-9]+))?"), _rounded),
    (re.compile("_width_bucket"), _width_bucket),
    (re.compile("_time_slice_(months|micros)_([0-9]+)_([0-9])_(begin|end)"), _time_slice),
    (re.compile("_(try_)?base64_decode"), _base64_decode),
    (re.compile("_(try_)?utf8"), _utf8),
    (re.compile(f"_search_({'|'.join(searches.ANALYZERS)})_(and|or)"), _search),
    (re.compile(r"_regexp_(substr|instr|end|all)_(\d+)_(\d+)_(\d+)"), _regexp),
)

FAMILIES_OF_ZONE: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], Kernel]], ...] = (
    (re.compile("_local_instant"), _local_instant),
    (re.compile("_v_to_(instant)"), _of_variant),
    (re.compile("_v_of_instant"), _variant_of_instant),
    (re.compile(r"_(try_)?to_instant"), _to_instant),
    (re.compile(r"_offset_(text|colon)"), _offset_text),
)
