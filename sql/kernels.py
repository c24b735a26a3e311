"""rule: Snowflake's semantics as Arrow functions, where the engine has no equivalent.

A kernel is selected by its name, which may contain parameters (`_to_fixed_38_2`), so that a query
only contains names. Text is parsed or formatted once per distinct value. An invalid value raises
`kernelforms.coded`, which the engine turns into Snowflake's error; the `_try_` form
returns NULL instead.

`sql.moment_kernels`, `sql.number_kernels` and `sql.text_kernels` hold families of their own.
"""

from __future__ import annotations

import decimal
import functools
import hashlib
import math
import re
import string
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sql import (
    choice_kernels,
    errors,
    group_kernels,
    hash_kernels,
    intervals,
    kernelforms,
    moment_kernels,
    nested_kernels,
    number_kernels,
    outcomes,
    sketch_kernels,
    text_kernels,
    variant_columns,
    variant_kernels,
    variants,
    zones,
)
from sql.kernelforms import DIGITS, Kernel, by_row, coded, per_value, text_kernel

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
    return kernelforms.fit_fixed(decimal.Decimal(stripped), precision, scale)


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


def _beyond(_: re.Match[str]) -> Kernel:
    """The fault of each value: no bound holds for it that a table's writer stated."""

    def function(array: Any) -> Any:
        if array.null_count < len(array):
            raise coded(errors.FALSE_STATISTICS, "")
        return array

    return Kernel(function=function, arguments=(pa.int64(),), result=pa.int64())


def _within(_: re.Match[str]) -> Kernel:
    """The first argument; a fault if a value of it is outside the bounds, the other two."""

    def function(array: Any, low: Any, high: Any) -> Any:
        outside = pc.or_(pc.less(array, low), pc.greater(array, high))
        if pc.any(outside).as_py():
            raise coded(errors.FALSE_STATISTICS, "")
        return array

    return Kernel(function=function, arguments=(pa.int64(),) * 3, result=pa.int64())


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

    return text_kernel(function, result)


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

    return text_kernel(
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

    return text_kernel(
        lambda array: per_value(array, parse, pa.bool_(), lenient=lenient), pa.bool_()
    )


def _not_negative(_: re.Match[str]) -> Kernel:
    return Kernel(
        function=lambda array: pc.max_element_wise(array, pa.scalar(0), skip_nulls=False),
        arguments=(pa.int64(),),
        result=pa.int64(),
    )


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
        return by_row(pa.float64(), pa.int64(), result=pa.float64())(real)
    beyond = decimal.Decimal(1).scaleb(precision + 1 - scale)

    def number(value: decimal.Decimal, digits: int) -> decimal.Decimal:
        rounded = exact(value, digits)
        if rounded.copy_abs() >= beyond:
            raise coded("100039", str(value))
        return rounded.quantize(decimal.Decimal(1).scaleb(-scale), context=DIGITS)

    types = (pa.decimal128(precision, scale), pa.int64())
    return by_row(*types, result=pa.decimal128(precision + 1, scale))(number)


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
    return by_row(real, real, real, pa.int64(), result=pa.int64())(bucket)


EARTH_RADIUS_KM = 6371.0


def _haversine(_: re.Match[str]) -> Kernel:
    """The kilometres between two places on a sphere, by latitudes and longitudes in degrees."""

    def function(*degrees: Any) -> Any:
        first, first_long, second, second_long = (
            pc.multiply(each, math.pi / 180) for each in degrees
        )
        halves = [
            pc.sin(pc.divide(pc.subtract(*pair), 2.0))
            for pair in ((second, first), (second_long, first_long))
        ]
        squares = [pc.multiply(half, half) for half in halves]
        slope = pc.multiply(pc.multiply(pc.cos(first), pc.cos(second)), squares[1])
        share: Any = pc.sqrt(pc.add(squares[0], slope))
        # Of opposite places, rounding can make it a little more than one.
        share = pc.min_element_wise(share, pa.scalar(1.0), skip_nulls=False)
        return pc.multiply(pc.asin(share), 2 * EARTH_RADIUS_KM)

    return Kernel(function=function, arguments=(pa.float64(),) * 4, result=pa.float64())


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
    return by_row(number, number, pa.int64(), result=number)(real if match.group(1) else whole)


def _random_of(_: re.Match[str]) -> Kernel:
    """A number of 64 bits that a seed and a row's number determine."""

    def number(seed: int, row: int) -> int:
        return _mixed((_mixed(seed & WORD) + row) & WORD) - (1 << 63)

    return by_row(pa.int64(), pa.int64(), result=pa.int64())(number)


def _normal(_: re.Match[str]) -> Kernel:
    """A number of a normal distribution, which its third argument determines."""

    def normal(mean: float, deviation: float, source: int) -> float:
        word = _mixed(source)
        first, second = (word + 1) / (WORD + 1), _mixed(word) / WORD
        return mean + deviation * math.sqrt(-2 * math.log(first)) * math.cos(2 * math.pi * second)

    real = pa.float64()
    return by_row(real, real, pa.int64(), result=real)(normal)


def _zipf(_: re.Match[str]) -> Kernel:
    """A number of a Zipf distribution, which its third argument determines.

    Drawn by rejection and inversion, in a few steps whatever the count: the area under x ** -s
    from 1.5 to count + 0.5, and a bar of area 1 for the number 1, is chosen from evenly, and a
    choice that lies outside the bar of its number is drawn anew. Source: W. Hörmann, G. Derflinger,
    Rejection-inversion to generate variates from monotone discrete distributions, 1996.
    """

    def zipf(exponent: float, count: int, source: int) -> int:
        if not 1 <= count <= ZIPF_MAX or not 0 <= exponent <= ZIPF_EXPONENT_MAX:
            raise coded("100039", f"{exponent}, {count}")
        low, high = _zipf_area(exponent, 1.5) - 1, _zipf_area(exponent, count + 0.5)
        word = source
        while True:
            word = _mixed(word)
            area = high + (low - high) * (word / WORD)
            place = _zipf_place(exponent, area)
            number = min(max(int(place + 0.5), 1), count)
            if area >= _zipf_area(exponent, number + 0.5) - float(number) ** -exponent:
                return number

    return by_row(pa.float64(), pa.int64(), pa.int64(), result=pa.int64())(zipf)


def _zipf_area(exponent: float, place: float) -> float:
    """Return the area under x ** -exponent from 1 to a place."""
    logarithm = math.log(place)
    power = (1 - exponent) * logarithm
    return logarithm * (math.expm1(power) / power if power else 1.0)


def _zipf_place(exponent: float, area: float) -> float:
    """Return the place up to which the area is that."""
    scaled = max(area * (1 - exponent), -1 + NEAREST_ONE)
    return math.exp(area * (math.log1p(scaled) / scaled if scaled else 1.0))


NEAREST_ONE = 2.0**-53
ZIPF_MAX = 1 << 24
ZIPF_EXPONENT_MAX = 30.0


def _factorial(_: re.Match[str]) -> Kernel:
    """The product of the numbers up to one of 0 to 33, which has 37 digits."""

    def product(number: int) -> decimal.Decimal:
        if not 0 <= number <= FACTORIAL_MAX:
            raise coded("100039", str(number))
        return decimal.Decimal(math.factorial(number))

    return by_row(pa.int64(), result=pa.decimal128(38, 0))(product)


FACTORIAL_MAX = 33


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

    return by_row(pa.int64(), pa.int64(), result=pa.string())(text)


def _unit_of(_: re.Match[str]) -> Kernel:
    """A number from 0 to 1 that a text, a row's number among equal rows and a seed determine."""

    def unit(contents: str, number: int, seed: int) -> float:
        digest = hashlib.blake2b(f"{seed} {number} {contents}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / (WORD + 1)

    return by_row(pa.string(), pa.int64(), pa.int64(), result=pa.float64())(unit)


LETTERS = string.ascii_letters + string.digits


def _of_variant(match: re.Match[str], zone: str = "UTC") -> Kernel:
    """What stands at a path in a VARIANT, as a value of another type; NULL for null."""
    target, cuts = match.group(1), bool(match.group(2))
    converting = None if target == "text" else kernel(f"_to_{target}", zone=zone)
    shown_target = VARIANT_TARGETS[target.partition("_")[0]]
    spelled = VARIANT_SPELLINGS.get(target.partition("_")[0], variants.scalar_text)
    if target.startswith("fixed_"):
        spelled = functools.partial(_fixed_spelled, int(target.rpartition("_")[2]))

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
        if cuts:
            texts = moment_kernels.cut_texts(texts)
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
    "zoned": "TIMESTAMP_TZ",
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


def _fixed_spelled(scale: int, value: Any) -> str | None:
    """Return a value as the text of a NUMBER of a scale.

    A FLOAT is rounded as the engine casts one: times a power of ten, to the next whole number. So
    1.005 with two digits is 1.00, because it is a bit less in binary.
    """
    if isinstance(value, variants.Real) and math.isfinite(value.value):
        shifted = value.value * 10.0**scale
        if math.isfinite(shifted):
            whole = decimal.Decimal(shifted).quantize(decimal.Decimal(1), context=WIDE)
            return f"{whole.scaleb(-scale, WIDE):f}"
    return _number_spelled(value)


WIDE: Final = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)
"""Digits of every finite FLOAT."""

VARIANT_SPELLINGS: dict[str, Callable[[Any], str | None]] = {
    "fixed": _number_spelled,
    "real": _number_spelled,
    "boolean": _boolean_spelled,
    **dict.fromkeys(("date", "time", "timestamp", "instant", "zoned", "binary"), _exactly_spelled),
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
    offset_text = kernel("_offset_exact", zone=zone)

    def function(instants: Any) -> Any:
        local = zones.local_of(instants.cast(pa.int64()), zone)
        texts, offsets = local.cast(pa.string()), offset_text.function(instants)
        body = pc.binary_join_element_wise(texts, offsets, " ")
        return _enclosed('"\\u0001l', body)

    return Kernel(function=function, arguments=(pa.timestamp("us", zone),), result=pa.string())


def _variant_of_nested(match: re.Match[str], zone: str) -> Kernel:
    return nested_kernels.as_variant(match[1], zone, functools.partial(kernel, zone=zone))


def _nested_of_variant(match: re.Match[str], zone: str) -> Kernel:
    return nested_kernels.of_variant(match[1], zone, functools.partial(kernel, zone=zone))


def _variant_of_group(match: re.Match[str], zone: str) -> Kernel:
    return variant_columns.read(match[1], zone, functools.partial(kernel, zone=zone))


def _packed_group(match: re.Match[str]) -> Kernel:
    return variant_columns.pack(match[1])


def _of_maps(match: re.Match[str], zone: str) -> Kernel:
    match match[1]:
        case "cat":
            return nested_kernels.map_cat(match[2], zone)
        case "insert":
            return nested_kernels.map_insert(match[2], zone)
    return nested_kernels.map_only(match[2], match[3], zone, keeps=match[1] == "pick")


def _field(match: re.Match[str], zone: str) -> Kernel:
    return nested_kernels.field(match[1], match[2], zone)


def _one_zero(match: re.Match[str], zone: str) -> Kernel:
    return nested_kernels.one_zero(match[1], zone)


def _flatten_nested(match: re.Match[str], zone: str) -> Kernel:
    leaf = functools.partial(kernel, zone=zone)
    return nested_kernels.flatten(match[2], zone, leaf, is_outer=bool(match[1]))


FAMILIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Kernel]], ...] = (
    (re.compile("_nonzero"), _nonzero),
    (re.compile("_beyond"), _beyond),
    (re.compile("_within"), _within),
    (
        re.compile(r"_v_to_(text|fixed_\d+_\d+|real|boolean|date|time|timestamp|binary)(_cut)?"),
        _of_variant,
    ),
    (re.compile("_v_escaped"), variant_kernels.escaped),
    (re.compile("_v_bounded"), variant_kernels.bounded),
    (re.compile("_v_packed"), variant_columns.packed),
    (re.compile("_v_packed_group_([0-9a-f]+)"), _packed_group),
    (re.compile("_flatten_(both|array|object)(_recursive)?(_outer)?"), variant_kernels.flatten),
    (re.compile("_rows_of_(split|strtok)"), variant_kernels.rows_of_parts),
    (re.compile("_uniform(_real)?"), _uniform),
    (re.compile("_normal"), _normal),
    (re.compile("_randstr"), _randstr),
    (re.compile("_zipf"), _zipf),
    (re.compile("_factorial"), _factorial),
    (re.compile("_random_of"), _random_of),
    (re.compile("_unit_of"), _unit_of),
    (re.compile("_v_of_text"), _variant_of_text),
    (re.compile("_v_of_decimal"), _variant_of_decimal),
    (re.compile("_v_of_real"), _variant_of_real),
    (re.compile("_v_of_(date|time|timestamp|binary)"), _variant_of_moment),
    (re.compile(f"_domain_({'|'.join(DOMAINS)})"), _domain),
    (re.compile(r"_(try_)?to_fixed_(\d+)_(\d+)"), _fixed),
    (re.compile(r"_(try_)?to_real"), _real),
    (re.compile(r"_(try_)?to_boolean"), _boolean),
    (re.compile("_not_negative"), _not_negative),
    (re.compile(f"_rounded_({'|'.join(ROUNDINGS)})(?:_([0-9]+)_([0-9]+))?"), _rounded),
    (re.compile("_width_bucket"), _width_bucket),
    (re.compile("_haversine"), _haversine),
    *choice_kernels.FAMILIES,
    *group_kernels.FAMILIES,
    *hash_kernels.FAMILIES,
    *intervals.FAMILIES,
    *moment_kernels.FAMILIES,
    *number_kernels.FAMILIES,
    *sketch_kernels.FAMILIES,
    *text_kernels.FAMILIES,
)

FAMILIES_OF_ZONE: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], Kernel]], ...] = (
    (re.compile("_v_to_(instant|zoned)(_cut)?"), _of_variant),
    (re.compile("_v_of_instant"), _variant_of_instant),
    (re.compile("_field_([0-9]+(?:_[0-9]+)*)_([0-9a-f]+)"), _field),
    (re.compile("_v_of_nested_([0-9a-f]+)"), _variant_of_nested),
    (re.compile("_v_of_group_([0-9a-f]+)"), _variant_of_group),
    (re.compile("_v_to_nested_([0-9a-f]+)"), _nested_of_variant),
    (re.compile("_map_(cat|insert|pick|delete)_([0-9a-f]+)(?:_([0-9a-f]+))?"), _of_maps),
    (re.compile("_one_zero_([0-9a-f]+)"), _one_zero),
    (re.compile("_flatten_nested(_outer)?_([0-9a-f]+)"), _flatten_nested),
    *moment_kernels.FAMILIES_OF_ZONE,
)
