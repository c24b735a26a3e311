"""rule: Snowflake's types in the binder, and the arithmetic on them.

A NUMBER of scale 0 is computed as a 64-bit integer as long as its bounds prove that no operation
overflows, else as a 128-bit decimal (`wide`). The engine's 64-bit arithmetic wraps silently, so
every integer expression has bounds: exact for literals, those that the manifests state for columns,
otherwise the type's. A statement of a manifest is any writer's, so such bounds are claims: what
relies on them is computed of values that the engine has checked (`casts.proven`).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sql import intervals, outcomes
from sql.dialect import formats, names

TypeName: TypeAlias = outcomes.LogicalType | Literal["null", "interval"]

INT64_LOW, INT64_HIGH = -(1 << 63), (1 << 63) - 1
INT32_LOW, INT32_HIGH = -(1 << 31), (1 << 31) - 1
INT32_DIGITS = 10
PRECISION_MAX = 38
DIVISION_SCALE_STEP = 6
DIVISION_SCALE_MAX = 12
MULTIPLY_SCALE_MAX = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlType:
    """A type. precision, scale: of fixed; scale also of times. length: of text and binary.

    Of an INTERVAL precision is the digits of the leading field, scale the place of its span.

    wide: a fixed value is held as a 128-bit decimal. low, high: bounds of a fixed value of scale 0
    that is not wide. is_claimed: a writer states these bounds, and the values may break them.
    is_nested: an object or array is held in the engine's own nested type, as Iceberg's struct, map
    and list are. structure: of a nested value, if SQL reads what is in it. digits: of a time that
    is held in microseconds, how many of a second it is shown with; None means scale. Six are those
    that a column's declaration names. is_packed: a VARIANT column is stored in Iceberg's `variant`
    (`sql.variant_columns`); expressions have no such type. inputs: of a text, the models by which
    the session reads it as a date or time; None means AUTO. is_named: a cast has named the
    precision of a 64-bit integer, so that a table made of it has a decimal of so many digits. These
    two are no part of what a type is.
    """

    name: TypeName
    precision: int = 0
    scale: int = 0
    length: int | None = None
    wide: bool = False
    low: int = INT64_LOW
    high: int = INT64_HIGH
    is_claimed: bool = False
    is_nested: bool = False
    structure: Structure | None = None
    digits: int | None = None
    is_packed: bool = False
    inputs: formats.Inputs | None = dataclasses.field(default=None, compare=False, repr=False)
    is_named: bool = dataclasses.field(default=False, compare=False, repr=False)

    @property
    def is_variant(self) -> bool:
        """Whether values are canonical text (`sql.variants`)."""
        return self.name in SEMISTRUCTURED and not self.is_nested

    @property
    def is_integer(self) -> bool:
        """Whether values are stored as 64-bit integers."""
        return self.name == "fixed" and not self.wide

    @property
    def is_temporal(self) -> bool:
        return self.name in ("date", "timestamp_ntz", "timestamp_ltz", "timestamp_tz")


StructureWord: TypeAlias = Literal["struct", "list", "map"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Structure:
    """The types inside a structured OBJECT, ARRAY or MAP.

    members: of a struct its fields by name; of a list `element`; of a map `key` and `value`.
    """

    word: StructureWord
    members: tuple[tuple[str, SqlType], ...]

    def member(self, name: str) -> SqlType | None:
        """Return the type of a member; None if there is none of that name."""
        return next((of_member for each, of_member in self.members if each == name), None)


SEMISTRUCTURED = frozenset({"variant", "object", "array"})

NULL = SqlType(name="null")
TEXT = SqlType(name="text")
BOOLEAN = SqlType(name="boolean")
REAL = SqlType(name="real")
DATE = SqlType(name="date")
TIME = SqlType(name="time", scale=6)
TIMESTAMP_NTZ = SqlType(name="timestamp_ntz", scale=6)
TIMESTAMP_LTZ = SqlType(name="timestamp_ltz", scale=6)
TIMESTAMP_TZ = SqlType(name="timestamp_tz", scale=6)
CLOCKS = frozenset({"time", "timestamp_ntz", "timestamp_ltz", "timestamp_tz"})
MICROSECOND_DIGITS = 6
BINARY = SqlType(name="binary")
VARIANT = SqlType(name="variant")
PACKED_VARIANT = SqlType(name="variant", is_packed=True)
OBJECT = SqlType(name="object")
ARRAY = SqlType(name="array")


def number(precision: int, scale: int = 0) -> SqlType:
    """Return a NUMBER held as a decimal."""
    return SqlType(name="fixed", precision=precision, scale=scale, wide=True)


def integer(
    precision: int = 19,
    low: int = INT64_LOW,
    high: int = INT64_HIGH,
    *,
    is_claimed: bool = False,
) -> SqlType:
    """Return a NUMBER of scale 0 held as a 64-bit integer with these bounds."""
    assert low >= INT64_LOW
    assert high <= INT64_HIGH
    return SqlType(name="fixed", precision=precision, low=low, high=high, is_claimed=is_claimed)


def structured(word: StructureWord, members: Mapping[str, SqlType]) -> SqlType:
    """Return a structured OBJECT, ARRAY or MAP with these members."""
    return SqlType(
        name="array" if word == "list" else "object",
        is_nested=True,
        structure=Structure(word=word, members=tuple(members.items())),
    )


def interval(name: intervals.IntervalName, place: int, precision: int) -> SqlType:
    """Return an INTERVAL type. place: of its span (`sql.intervals`)."""
    return SqlType(name=name, scale=place, precision=precision)


def interval_of(text: str) -> SqlType | None:
    """Return the INTERVAL type that a text names; None if it names none."""
    parsed = intervals.parse_type(text)
    return None if parsed is None else interval(*parsed)


def text(length: int | None) -> SqlType:
    """Return VARCHAR(length)."""
    return SqlType(name="text", length=length)


def unpacked(sql_type: SqlType) -> SqlType:
    """Return the type that expressions have for values of a column's type."""
    return VARIANT if sql_type.is_packed else sql_type


def at_microseconds(sql_type: SqlType) -> SqlType:
    """Return the type in which a query has the values of a column of fewer digits of a second."""
    if sql_type.name in CLOCKS and sql_type.scale < MICROSECOND_DIGITS:
        return dataclasses.replace(sql_type, scale=MICROSECOND_DIGITS, digits=sql_type.scale)
    return sql_type


def declared_digits(sql_type: SqlType, digits: int) -> SqlType:
    """Return the type of a column whose declaration names so many digits of a second.

    Six are what every column holds; named, they are in `digits` too (`names_digits`).
    """
    if digits > MICROSECOND_DIGITS:
        return sql_type
    return dataclasses.replace(
        sql_type, scale=digits, digits=digits if digits == MICROSECOND_DIGITS else None
    )


def names_digits(sql_type: SqlType) -> bool:
    """Return whether a column's declaration names its digits of a second, so that writes cut."""
    return sql_type.scale < MICROSECOND_DIGITS or sql_type.digits is not None


def with_all_digits(sql_type: SqlType) -> SqlType:
    """Return the type of a value that may have more digits of a second than those shown."""
    return sql_type if sql_type.digits is None else dataclasses.replace(sql_type, digits=None)


def shown_digits(sql_type: SqlType) -> int:
    """Return how many digits of a second a value of a TIME or TIMESTAMP is shown with."""
    return sql_type.scale if sql_type.digits is None else sql_type.digits


def arrow_name(sql_type: SqlType) -> str:
    """Return the type's name for the engine's arrow_cast."""
    unit = "Nanosecond" if sql_type.scale > 6 else "Microsecond"
    match sql_type.name:
        case "fixed":
            return (
                f"Decimal128({sql_type.precision}, {sql_type.scale})" if sql_type.wide else "Int64"
            )
        case "real":
            return "Float64"
        case "text":
            return "Utf8"
        case "boolean":
            return "Boolean"
        case "date":
            return "Date32"
        case "time":
            return f"Time64({unit})"
        case "timestamp_ntz":
            return f"Timestamp({unit}, None)"
        case "timestamp_tz":  # an instant and its offset: see `sql.zoned_kernels`
            return "Decimal128(38, 0)"
        case "binary":
            return "Binary"
        case "interval_year_month":
            return "Int64"
        case "interval_day_time":
            return "Decimal128(38, 0)"
        case "variant" if sql_type.is_packed:
            return "Binary"
        case "variant" | "object" | "array" if sql_type.is_variant:
            return "Utf8"
    raise AssertionError(f"{sql_type.name} has no Arrow name")


TYPES_MAX: Final = 16
"""Types whose encoded form stays: that of a struct is needed once for each field that is read."""


@functools.lru_cache(TYPES_MAX)
def encoded(sql_type: SqlType) -> str:
    """Return a nested type as the names of kernels contain it (`sql.nested_kernels`)."""
    return json.dumps(_form(sql_type), separators=(",", ":")).encode().hex()


def _form(sql_type: SqlType) -> Any:
    structure = sql_type.structure
    if structure is not None:
        members = [[name, _form(of_member)] for name, of_member in structure.members]
        return [structure.word, members]
    match sql_type.name:
        case "text":
            return "Utf8View"
        case "timestamp_ltz":
            return "Instant" if sql_type.scale <= MICROSECOND_DIGITS else "Instant(Nanosecond)"
    return arrow_name(sql_type)


def holds_floats(sql_type: SqlType) -> bool:
    """Return whether there are FLOATs inside the values of a structured type."""
    members = () if sql_type.structure is None else sql_type.structure.members
    return any(of_member.name == "real" or holds_floats(of_member) for _, of_member in members)


def shown(sql_type: SqlType) -> str:
    """Return the type as in DESCRIBE and messages."""
    if sql_type.structure is not None:
        return _shown_structure(sql_type.structure, shown)
    match sql_type.name:
        case "fixed":
            return f"NUMBER({sql_type.precision},{sql_type.scale})"
        case "real":
            return "FLOAT"
        case "text":
            return f"VARCHAR({sql_type.length or outcomes.TEXT_LENGTH_MAX})"
        case "binary":
            return f"BINARY({sql_type.length or outcomes.BINARY_LENGTH_MAX})"
        case "time" | "timestamp_ntz" | "timestamp_ltz" | "timestamp_tz":
            return f"{sql_type.name.upper()}({shown_digits(sql_type)})"
        case "interval_year_month" | "interval_day_time":
            return intervals.type_text(sql_type.name, sql_type.scale, sql_type.precision)
    return sql_type.name.upper()


def as_declared(sql_type: SqlType) -> str:
    """Return the type as CREATE TABLE makes it again.

    It is the shown one, but for integers without a declaration, as other engines and structured
    types have them: BIGINT and INT make a `long`, while NUMBER(19,0) is a decimal.
    """

    def part(of_member: SqlType) -> str:
        return "INT" if of_member.is_integer else as_declared(of_member)

    if sql_type.is_integer and sql_type.precision < PRECISION_MAX:
        return "BIGINT" if sql_type.precision > INT32_DIGITS else "INT"
    if sql_type.structure is None:
        return shown(sql_type)
    return _shown_structure(sql_type.structure, part)


def _shown_structure(structure: Structure, part: Callable[[SqlType], str]) -> str:
    parts = [part(of_member) for _, of_member in structure.members]
    if structure.word == "struct":
        keys = [each for each, _ in structure.members]
        written = [each if PLAIN_KEY.fullmatch(each) else names.quoted(each) for each in keys]
        parts = [f"{key} {text}" for key, text in zip(written, parts, strict=True)]
    word = {"struct": "OBJECT", "list": "ARRAY", "map": "MAP"}[structure.word]
    return f"{word}({', '.join(parts)})"


PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def shown_with_storage(sql_type: SqlType) -> str:
    """Return the type as SYSTEM$TYPEOF names it: with the size in which a value is held."""
    return f"{shown(sql_type)}[{_storage(sql_type)}]"


def _storage(sql_type: SqlType) -> str:
    match sql_type.name:
        case "real":
            return "DOUBLE"
        case "boolean":
            return "SB1"
        case "date":
            return "SB4"
        case "fixed":
            digits = 10**sql_type.precision - 1
            low, high = -digits, digits
            if sql_type.is_integer:
                low, high = max(low, sql_type.low), min(high, sql_type.high)
            return _signed_octets(low, high)
        case "time" | "timestamp_ntz" | "timestamp_ltz":
            day = 24 * 60 * 60
            seconds = day if sql_type.name == "time" else SECONDS_TO_YEAR_10000
            count = seconds * 10 ** shown_digits(sql_type)
            return _signed_octets(-count, count)
        case "timestamp_tz":
            return "SB16"
    return "LOB"


SECONDS_TO_YEAR_10000 = 253_402_300_800


def _signed_octets(low: int, high: int) -> str:
    """Return the smallest of Snowflake's sizes that holds the numbers from low to high."""
    for octets in (1, 2, 4, 8):
        if -(1 << (8 * octets - 1)) <= low and high < 1 << (8 * octets - 1):
            return f"SB{octets}"
    return "SB16"


def cast_name(sql_type: SqlType) -> str:
    """Return a column's type as a cast to it is written: it cuts the digits that a write cuts."""
    if sql_type.name in CLOCKS and not names_digits(sql_type):
        return sql_type.name.upper()
    return shown(sql_type)


# Arithmetic


def added(left: SqlType, right: SqlType, *, negative: bool = False) -> SqlType:
    """Return the type of left + right (or left - right) for two fixed types."""
    if left.is_integer and right.is_integer:
        low, high = (
            (left.low - right.high, left.high - right.low)
            if negative
            else (left.low + right.low, left.high + right.high)
        )
        digits = min(max(left.precision, right.precision) + 1, PRECISION_MAX)
        return _bounded(digits, low, high)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return number(min(whole + scale + 1, PRECISION_MAX), scale)


def multiplied(left: SqlType, right: SqlType) -> SqlType:
    """Return the type of left * right for two fixed types."""
    if left.is_integer and right.is_integer:
        ends = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        digits = min(left.precision + right.precision, PRECISION_MAX)
        return _bounded(digits, min(ends), max(ends))
    scale = min(left.scale + right.scale, max(left.scale, right.scale, MULTIPLY_SCALE_MAX))
    whole = left.precision - left.scale + right.precision - right.scale
    return number(min(whole + scale, PRECISION_MAX), scale)


def divided(dividend: SqlType, divisor: SqlType) -> SqlType:
    """Return the type of dividend / divisor for two fixed types."""
    scale = divided_scale(dividend)
    whole = dividend.precision - dividend.scale + divisor.scale
    return number(min(whole + scale, PRECISION_MAX), scale)


def divided_scale(dividend: SqlType) -> int:
    """Return the scale of dividend / anything."""
    scale = dividend.scale
    return max(scale, min(scale + DIVISION_SCALE_STEP, DIVISION_SCALE_MAX))


def _bounded(digits: int, low: int, high: int) -> SqlType:
    if low < INT64_LOW or high > INT64_HIGH:
        return number(digits)
    return integer(digits, low, high)


def negated(sql_type: SqlType) -> SqlType:
    """Return the type of -x for a fixed type."""
    if sql_type.is_integer:
        return _bounded(sql_type.precision, -sql_type.high, -sql_type.low)
    return sql_type


def unified(sql_types: list[SqlType]) -> SqlType | None:
    """Return the common type of sql_types in one column, or None if there is none."""
    unified = NULL
    for sql_type in sql_types:
        pair = _unified_pair(unified, sql_type)
        if pair is None:
            return None
        unified = pair
    return unified


def _unified_pair(left: SqlType, right: SqlType) -> SqlType | None:
    if left.name == "null" or right.name == "null":
        return right if left.name == "null" else left
    if left.name == right.name:
        return _same_name(left, right)
    pair = {left.name, right.name}
    if pair == {"fixed", "real"}:
        return REAL
    if pair & SEMISTRUCTURED:
        return VARIANT if not (left.is_nested or right.is_nested) else None
    if "text" in pair:
        # Snowflake converts the text to the other type, and fails on invalid text.
        other = left if right.name == "text" else right
        if other.name == "interval":
            return None
        if other.name == "fixed":
            return number(PRECISION_MAX, max(other.scale, 5))
        return with_all_digits(other)
    if pair <= {"date", "timestamp_ntz", "timestamp_ltz", "timestamp_tz"}:
        if "timestamp_tz" in pair:
            return TIMESTAMP_TZ
        return TIMESTAMP_LTZ if "timestamp_ltz" in pair else TIMESTAMP_NTZ
    if pair == {"boolean", "fixed"}:
        return BOOLEAN
    return None


def _same_name(left: SqlType, right: SqlType) -> SqlType | None:
    if left.is_nested != right.is_nested:
        return None
    if left.is_nested:
        return _same_structure(left, right)
    match left.name:
        case "fixed":
            if left.is_integer and right.is_integer:
                both = integer(
                    max(left.precision, right.precision),
                    min(left.low, right.low),
                    max(left.high, right.high),
                    is_claimed=left.is_claimed or right.is_claimed,
                )
                is_named = left.is_named and right.is_named
                return dataclasses.replace(both, is_named=True) if is_named else both
            scale = max(left.scale, right.scale)
            whole = max(left.precision - left.scale, right.precision - right.scale)
            return number(min(whole + scale, PRECISION_MAX), scale)
        case "text" | "binary":
            lengths = (left.length, right.length)
            known_lengths = [length for length in lengths if length is not None]
            return dataclasses.replace(
                left, length=max(known_lengths) if len(known_lengths) == 2 else None
            )
    if left.name in intervals.NAMES:
        return left if same_in_engine(left, right) else None
    if left.name in CLOCKS and left.scale == right.scale:
        return left if shown_digits(left) >= shown_digits(right) else right
    return left if left.scale >= right.scale else right


def _same_structure(left: SqlType, right: SqlType) -> SqlType | None:
    """Return the common type of two nested types that the engine holds alike; None for others."""
    if not same_in_engine(left, right):
        return None
    if left.structure is None or right.structure is None:
        return left
    members = []
    for (name, ours), (_, theirs) in zip(
        left.structure.members, right.structure.members, strict=True
    ):
        shared = _same_name(ours, theirs)
        if shared is None:
            return None
        members.append((name, shared))
    structure = dataclasses.replace(left.structure, members=tuple(members))
    return dataclasses.replace(left, structure=structure)


def same_in_engine(left: SqlType, right: SqlType) -> bool:
    """Return whether values of both have the same representation, so that no cast is needed."""
    if left.name != right.name or left.is_nested != right.is_nested:
        return False
    if left.structure is not None and right.structure is not None:
        ours, theirs = left.structure, right.structure
        return (
            ours.word == theirs.word
            and [name for name, _ in ours.members] == [name for name, _ in theirs.members]
            and all(map(same_in_engine, *(map(_type_of, each.members) for each in (ours, theirs))))
        )
    if left.name == "fixed":
        if left.is_integer or right.is_integer:
            return left.is_integer and right.is_integer
        return (left.precision, left.scale) == (right.precision, right.scale)
    if left.name in ("time", "timestamp_ntz", "timestamp_ltz"):
        return left.scale == right.scale
    if left.name in intervals.NAMES:
        return (left.scale, left.precision) == (right.scale, right.precision)
    return True


def converts_implicitly(source: SqlType, target: SqlType) -> bool:
    """Return whether a structured value becomes one of another structured type without a cast.

    Its parts are numbers for numbers, and else of the same types. An OBJECT has the same keys, in
    any order.
    """
    ours, theirs = source.structure, target.structure
    if ours is None or theirs is None:
        numbers = {"fixed", "real"}
        return same_in_engine(source, target) or {source.name, target.name} <= numbers
    pairs = [(member, theirs.member(name)) for name, member in ours.members]
    return (
        ours.word == theirs.word
        and len(ours.members) == len(theirs.members)
        and all(other is not None and converts_implicitly(member, other) for member, other in pairs)
    )


def _type_of(member: tuple[str, SqlType]) -> SqlType:
    return member[1]


def column(name: str, sql_type: SqlType, *, nullable: bool = True) -> outcomes.Column:
    """Return the result column of this type."""
    if sql_type.name == "null":
        sql_type = TEXT
    assert sql_type.name != "interval"
    assert sql_type.name != "null"
    return outcomes.Column(
        name=name,
        type=sql_type.name,
        nullable=nullable,
        precision=sql_type.precision if sql_type.name in PRECISE else None,
        scale=shown_digits(sql_type) if sql_type.name in SCALED else None,
        length=sql_type.length,
    )


PRECISE = ("fixed", *intervals.NAMES)
SCALED = ("time", "timestamp_ntz", "timestamp_ltz", "timestamp_tz", *PRECISE)
