"""rule: values of VARIANT, OBJECT and ARRAY, and their canonical text.

In the engine a value is JSON text with sorted keys and without blanks. A number without an exponent
is a fixed-point number, exact and without zeros at its end; one with an exponent (`1.5e0`) is a
FLOAT. What JSON lacks is a string that begins with MARK and a letter: `u` an element of an array
that is SQL NULL, `d` DATE, `t` TIME, `n` TIMESTAMP_NTZ, `l` TIMESTAMP_LTZ, `b` BINARY, `f` a FLOAT
that is not finite, and `s` a text that begins with MARK itself. Such marks never leave the engine:
`shown` is what a client gets, `plain_text` what a table stores.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

from sql import limits

Value: TypeAlias = Any
"""None (JSON null), bool, int, Decimal, Real, str (marked if JSON lacks the value), list, dict."""

MARK: Final = "\x01"
UNDEFINED: Final = MARK + "u"
UNDEFINED_TEXT: Final = '"\\u0001u"'
"""The canonical text of an element that is SQL NULL."""

NULL_TEXT: Final = "null"
"""The canonical text of JSON's null."""

SORTED: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
INDENTED: Final = SORTED | orjson.OPT_INDENT_2
INDENT: Final = 2
"""The blanks of INDENTED."""
LINES: Final = re.compile("^ +", re.MULTILINE)
EXACT_DIGITS: Final = 38
SCALE_MAX: Final = 37


class BadJson(ValueError):
    """A text is not JSON, or it is nested too deeply."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Real:
    """A FLOAT inside a value."""

    value: float


# Reading


def loads(text: str) -> Value:
    """Return the value of a canonical text, or of JSON; raises BadJson."""
    try:
        if INEXACT.search(text) is None:
            return orjson.loads(text)
        value = json.loads(
            text, parse_float=_parse_number, parse_int=_parse_number, parse_constant=_parse_constant
        )
    except RecursionError:
        raise BadJson(NESTED) from None
    except ValueError as error:
        raise BadJson(str(error)) from None
    if SURROGATE.search(text) is not None:
        dumps(value)  # half of a pair is no text, and refused as orjson refuses it
    return value


INEXACT = re.compile(r"\d\.\d|\d[eE][+-]?\d|\d{19}|NaN|Infinity")
"""Numbers that orjson would read as binary fractions or refuse."""
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
NESTED = "it is nested too deeply"


def _parse_number(text: str) -> Value:
    if "e" in text or "E" in text:
        return Real(value=float(text))
    return normal_number(decimal.Decimal(text))


def _parse_constant(word: str) -> Real:
    """Return NaN, Infinity or -Infinity."""
    return Real(value=float(word))


def normal_number(number: decimal.Decimal) -> Value:
    """Return a fixed-point number without zeros at its end; a Real beyond 38 digits."""
    if not number.is_finite():
        return f"{MARK}f{number}"
    if number == number.to_integral_value() and number.adjusted() < EXACT_DIGITS:
        whole = int(number)
        return whole if -(1 << 63) <= whole < 1 << 63 else decimal.Decimal(whole)
    stripped = number.normalize(EXACT)
    exponent = int(stripped.as_tuple().exponent)
    if len(stripped.as_tuple().digits) > EXACT_DIGITS or not -SCALE_MAX <= exponent <= 0:
        return Real(value=float(number))
    return stripped


EXACT = decimal.Context(prec=200)


def parse_json(text: str, *, repeats: bool = False) -> str:
    """Return the canonical text of a user's JSON text, with the freedoms that PARSE_JSON takes.

    repeats: whether an object may name a member twice; the last one counts. Raises BadJson.
    """
    try:
        value = loads_stored(text)
    except BadJson:
        value = _Lenient(text, repeats=repeats).value()
    canonical = dumps(value)
    if not repeats:
        check_members(text, canonical)
    return canonical


def check_members(text: str, canonical: str) -> None:
    """Raise BadJson if an object of a JSON text names a member twice. canonical: its value's."""
    has_marks = MARK_IN_JSON in canonical  # of numbers, in quotes that the text does not have
    if has_marks or "\\u0022" in text or text.count('"') > canonical.count('"'):
        # Fewer quotes: some members are gone, or the text has quotes in its own way.
        _check_members(text)


def loads_stored(text: str) -> Value:
    """Return the value of JSON that any writer spelled; raises BadJson.

    Its texts are themselves: none is a mark, even if it begins with MARK.
    """
    value = loads(text)
    return _escaped(value) if MARK_IN_JSON in text else value


def escaped_text(text: str) -> str:
    """Return stored JSON as a text in which no text is a mark; what is no JSON stays as it is."""
    if MARK_IN_JSON not in text:
        return text
    try:
        return dumps(loads_stored(text))
    except BadJson:
        return text


def _check_members(text: str) -> None:
    """Raise BadJson if an object of a text that is JSON names a member twice."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        names = set()
        for name, _ in pairs:
            if name in names:
                raise _repeated(name)
            names.add(name)

    try:
        json.loads(text, object_pairs_hook=check)
    except BadJson:
        raise
    except ValueError:
        return  # a lenient text, whose reader has looked


def _repeated(name: str) -> BadJson:
    return BadJson(f'duplicate object attribute "{name}"')


def _escaped(value: Value) -> Value:
    """Return a value with its texts as themselves, not as marks."""
    if isinstance(value, str):
        return text_value(value)
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {name: _escaped(item) for name, item in value.items()}
    return value


def text_value(text: str) -> str:
    """Return the value of a VARCHAR."""
    return f"{MARK}s{text}" if text.startswith(MARK) else text


class _Lenient:
    """Reads JSON with bare names as keys, single quotes, comments, and elements left out."""

    # (?>...) is never tried twice: without it, many comments take exponential time to refuse.
    TOKEN = re.compile(
        r"""(?>(?:\s|//[^\n]*|/\*.*?\*/)*)
        (?:(?P<mark>[{}\[\]:,])
        |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
        |(?P<word>[A-Za-z_$][\w$]*)
        |(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
        |(?P<end>\Z))""",
        re.DOTALL | re.VERBOSE,
    )

    def __init__(self, text: str, *, repeats: bool) -> None:
        self._text = text
        self._repeats = repeats
        self._at = 0
        self._sort = self._token = ""
        self._next()

    def value(self) -> Value:
        parsed = self._value(0)
        if self._sort != "end":
            raise self._bad()
        return parsed

    def _next(self) -> None:
        match = self.TOKEN.match(self._text, self._at)
        if match is None:
            raise self._bad()
        self._sort, self._token = str(match.lastgroup), str(match[str(match.lastgroup)])
        self._at = match.end()

    def _bad(self) -> BadJson:
        return BadJson(f"unexpected {self._token[:20] or 'end'!r}, pos {self._at}")

    def _value(self, depth: int) -> Value:
        if depth > limits.VARIANT_DEPTH_MAX:
            raise BadJson(NESTED)
        sort, token = self._sort, self._token
        if sort == "mark" and token in "[{":
            self._next()
            return self._array(depth) if token == "[" else self._object(depth)
        self._next()
        if sort == "string":
            return text_value(_unquoted(token))
        if sort == "number":
            return _parse_number(token)
        if sort == "word" and token.lower() in WORDS:
            return WORDS[token.lower()]
        raise self._bad()

    def _array(self, depth: int) -> list[Value]:
        items: list[Value] = []
        while self._token != "]" or self._sort != "mark":
            if self._sort == "mark" and self._token == ",":
                items.append(UNDEFINED)
            else:
                items.append(self._value(depth + 1))
            if self._is_mark("]"):
                break
            if not self._is_mark(","):
                raise self._bad()
            self._next()
            if self._is_mark("]"):
                items.append(UNDEFINED)
        self._next()
        return items

    def _object(self, depth: int) -> dict[str, Value]:
        members: dict[str, Value] = {}
        while not self._is_mark("}"):
            if self._sort not in ("string", "word"):
                raise self._bad()
            name = _unquoted(self._token) if self._sort == "string" else self._token
            self._next()
            if not self._is_mark(":"):
                raise self._bad()
            self._next()
            value = self._value(depth + 1)
            if name in members and not self._repeats:
                raise _repeated(name)
            if value != UNDEFINED:
                members[name] = value
            if self._is_mark(","):
                self._next()
            elif not self._is_mark("}"):
                raise self._bad()
        self._next()
        return members

    def _is_mark(self, mark: str) -> bool:
        return self._sort == "mark" and self._token == mark


WORDS: dict[str, Value] = {
    "null": None,
    "true": True,
    "false": False,
    "undefined": UNDEFINED,
    "nan": f"{MARK}fNaN",
    "infinity": f"{MARK}finf",
    "inf": f"{MARK}finf",
}


def _unquoted(token: str) -> str:
    body = token[1:-1]
    if token[0] == "'":
        body = body.replace("\\'", "'").replace('"', '\\"')
    try:
        return str(json.loads(f'"{body}"', strict=False))
    except ValueError as error:
        raise BadJson(str(error)) from None


# Writing


def dumps(value: Value) -> str:
    """Return the canonical text of a value; raises BadJson for one nested too deeply."""
    return _dumped(value, SORTED, _canonical)


def dumps_with(value: Value, string_of: Callable[[Any], str | None]) -> str:
    """Like `dumps`, of a value that may contain what is none.

    string_of: returns the string value that stands for it; None for numbers.
    """

    def default(part: Any) -> Any:
        string = string_of(part)
        return _canonical(part) if string is None else string

    return _dumped(value, SORTED, default)


def shown(text: str, *, indent: int = INDENT) -> str:
    """Return what a client gets for a canonical text, or for stored JSON.

    indent: the blanks before each element of each level; 0 for one line.
    """
    if indent and text and text[0] in "[{":
        if len(text) == 2:
            return text
        written = _dumped(_unmarked(loads(text)), INDENTED, _shown_number)
        if indent == INDENT:
            return written
        # No text in JSON has a line's end in it, so each line begins with its indentation.
        return LINES.sub(lambda line: " " * (len(line[0]) // INDENT * indent), written)
    if MARK_IN_JSON not in text and INEXACT.search(text) is None:
        return text
    return _dumped(_unmarked(loads(text)), SORTED, _shown_number)


def plain_text(text: str) -> str:
    """Return the compact JSON of a canonical text, as TO_JSON gives it."""
    if MARK_IN_JSON not in text and INEXACT.search(text) is None:
        return text
    return _dumped(_unmarked(loads(text)), SORTED, _shown_number)


def stored_text(text: str) -> str:
    """Return what a table stores for a canonical text: JSON, whose dates are texts.

    Moments have the digits that they are shown with, or all where those would lose something.
    """
    if MARK_IN_JSON not in text:
        return text
    return _dumped(_unmarked(loads(text), _exact_text), SORTED, _stored)


def _stored(value: Any) -> Any:
    if isinstance(value, _Bare):
        return None if value.text == "undefined" else value.text
    return _canonical(value)


MARK_IN_JSON: Final = "\\u0001"


def _dumped(value: Value, option: int, default: Any) -> str:
    try:
        return orjson.dumps(value, default=default, option=option).decode()
    except TypeError as error:
        raise BadJson(NESTED if "ecursion" in str(error) else str(error)) from None


def _canonical(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return orjson.Fragment(f"{value:f}")
    if isinstance(value, Real):
        return _real(value.value)
    raise TypeError(type(value).__name__)


def _real(value: float) -> Any:
    if not math.isfinite(value):
        return f"{MARK}f{'NaN' if math.isnan(value) else value}"
    return orjson.Fragment(real_text(value))


def real_text(value: float) -> str:
    """Return a finite FLOAT's canonical text, which has an exponent."""
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa}e{int(exponent or 0)}"


def _shown_number(value: Any) -> Any:
    if isinstance(value, Real):
        if not math.isfinite(value.value):
            return orjson.Fragment(plain_real(value.value))
        return orjson.Fragment(f"{value.value:.15e}")
    if isinstance(value, _Bare):
        return orjson.Fragment(value.text)
    return _canonical(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bare:
    """What is written without quotes though JSON lacks it."""

    text: str


def _unmarked(value: Value, text_of: Callable[[str], str] | None = None) -> Any:
    """Return a value with its marked strings as they are shown, or as text_of gives them."""
    if isinstance(value, str):
        if not value.startswith(MARK):
            return value
        if value == UNDEFINED:
            return _Bare(text="undefined")
        if value[1] == "f":
            return _Bare(text=value[2:])
        return (text_of or unmarked_text)(value)
    if isinstance(value, list):
        return [_unmarked(item, text_of) for item in value]
    if isinstance(value, dict):
        return {name: _unmarked(item, text_of) for name, item in value.items()}
    return value


OFFSET_SHOWN: Final = len("+0000")
"""An offset has seconds behind its minutes, if it has some: they are not shown."""


def unmarked_text(value: str) -> str:
    """Return a string value as text: a date or time in ISO's form, bytes in hexadecimal."""
    if not value.startswith(MARK):
        return value
    letter, rest = value[1], value[2:]
    if letter in "nl":
        day, clock, *offset = rest.split(" ")
        return " ".join((day, clock[:12], *(each[:OFFSET_SHOWN] for each in offset)))
    return rest[:8] if letter == "t" else rest


def _exact_text(value: str) -> str:
    """Like `unmarked_text`, but a moment keeps all digits if those that are not shown say more."""
    letter, rest = value[:2].removeprefix(MARK), value[2:]
    if letter == "t" and rest[8:].strip(".0"):
        return rest
    if letter not in ("n", "l"):
        return unmarked_text(value)
    day, clock, *offset = rest.split(" ")
    return " ".join((day, clock if clock[12:].strip("0") else clock[:12], *offset))


def scalar_text(value: Value) -> str | None:
    """Return a value as VARCHAR, as ::VARCHAR gives it; None for null."""
    if value is None or value == UNDEFINED:
        return None
    if isinstance(value, str):
        return unmarked_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Real):
        return plain_real(value.value)
    return _dumped(_unmarked(value), SORTED, _shown_number)


def plain_real(value: float) -> str:
    """Return a FLOAT as text: as many digits as it needs, none for a whole number."""
    if math.isnan(value) or math.isinf(value):
        return {"nan": "NaN", "inf": "inf", "-inf": "-inf"}[repr(value)]
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa.removesuffix(".0")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+03d}"


# Types, order and paths


def type_name(value: Value) -> str:
    """Return what TYPEOF says of a value."""
    if isinstance(value, str):
        return MARKED_TYPES[value[1]] if value.startswith(MARK) else "VARCHAR"
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, decimal.Decimal) and value == value.to_integral_value():
        return "INTEGER"
    return TYPE_NAMES[type(value)]


TYPE_NAMES: dict[type, str] = {
    type(None): "NULL_VALUE",
    int: "INTEGER",
    decimal.Decimal: "DECIMAL",
    Real: "DOUBLE",
    list: "ARRAY",
    dict: "OBJECT",
}
MARKED_TYPES: dict[str, str] = {
    "u": "NULL_VALUE",
    "d": "DATE",
    "t": "TIME",
    "n": "TIMESTAMP_NTZ",
    "l": "TIMESTAMP_LTZ",
    "b": "BINARY",
    "f": "DOUBLE",
    "s": "VARCHAR",
}


def order_text(value: Value) -> str:
    """Return a text whose order is that of values, and which is the same for equal ones.

    Numbers are equal and in order by their size, whatever their type. Values of other types are
    ordered by the type; null comes last.
    """
    # END closes each value, so that no text is the beginning of another one.
    if isinstance(value, list):
        items = (f"\1{order_text(item)}" for item in value)
        return f"6{''.join(items)}{END}"
    if isinstance(value, dict):
        members = (f"\1{_text_order(name)}{END}{order_text(value[name])}" for name in sorted(value))
        return f"7{''.join(members)}{END}"
    return f"{_scalar_order(value)}{END}"


END: Final = "\0\0"


def _text_order(text: str) -> str:
    return text.replace("\0", "\0\1")


def _scalar_order(value: Value) -> str:
    if isinstance(value, bool):
        return "1t" if value else "1f"
    if isinstance(value, int | decimal.Decimal):
        return "2" + _number_order(decimal.Decimal(value))
    if isinstance(value, Real):
        if not math.isfinite(value.value):
            return "2" + NOT_FINITE_ORDER[plain_real(value.value)]
        return "2" + _number_order(decimal.Decimal(repr(value.value)))
    if isinstance(value, str):
        if not value.startswith(MARK) or value[1] == "s":
            return "3" + _text_order(value.removeprefix(f"{MARK}s"))
        if value[1] == "f":
            return "2" + NOT_FINITE_ORDER[value[2:]]
        return "9" if value == UNDEFINED else "4" + value[1:]
    return "8"


def _number_order(number: decimal.Decimal) -> str:
    if number == 0:
        return "1"
    exponent = number.adjusted() + EXPONENT_SHIFT
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    if number > 0:
        return f"2{exponent:04}{digits}"
    return "0" + f"{exponent:04}{digits}".translate(NINES) + "~"


EXPONENT_SHIFT: Final = 5_000
NINES: Final = str.maketrans("0123456789", "9876543210")
NOT_FINITE_ORDER: Final = {"-inf": "0!", "inf": "3", "NaN": "4"}


Path: TypeAlias = tuple[str | int, ...]


def parse_path(text: str) -> Path:
    """Return the steps of a path such as `a.b[0]["c d"]`; raises ValueError."""
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        match = STEP.match(text, at)
        if match is None or (match["dot"] and not at):
            raise ValueError(text)
        if match["index"] is not None:
            steps.append(int(match["index"]))
        elif match["quoted"] is not None:
            steps.append(match["quoted"].replace('""', '"'))
        elif match["double"] is not None:
            steps.append(match["double"])
        elif match["single"] is not None:
            steps.append(match["single"].replace("''", "'"))
        else:
            steps.append(match["name"])
        at = match.end()
    if len(steps) > limits.VARIANT_DEPTH_MAX:
        raise ValueError(text)
    return tuple(steps)


STEP = re.compile(
    r"""(?P<dot>[.:])?(?:(?P<name>[^\s.:\[\]"']+)|"(?P<quoted>(?:[^"]|"")*)")
    |\[\s*(?:(?P<index>\d{1,9})|'(?P<single>(?:[^']|'')*)'|"(?:(?P<double>[^"]*))")\s*\]""",
    re.VERBOSE,
)


def path_text(steps: Iterable[str | int]) -> str:
    """Return the text of a path's steps, which `parse_path` reads."""
    parts = []
    for step in steps:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        else:
            quoted = step.replace("'", "''")
            parts.append(f"['{quoted}']")
    return "".join(parts)


MISSING: Final = object()
"""What a path gives that leads nowhere: SQL NULL."""


def at_path(value: Value, steps: Path) -> Any:
    """Return what stands at a path in a value, or MISSING."""
    for step in steps:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return MISSING
            value = value[step]
            if value == UNDEFINED:
                return MISSING
        else:
            if not isinstance(value, dict) or step not in value:
                return MISSING
            value = value[step]
    return value
