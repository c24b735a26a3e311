"""rule: documents in text: where JSON values begin and end, and how values are written as JSON."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

LENGTH_MAX: Final = 16 << 20
"""Characters of one JSON document, as of a VARIANT."""

EXPONENT_MAX: Final = 100
"""A number with a larger exponent is written with it."""


class BadDocument(Exception):
    """A text is not JSON from here on. line, character: from 1."""

    def __init__(self, message: str, line: int, character: int) -> None:
        super().__init__(message)
        self.line = line
        self.character = character


_SPACE: Final = " \t\r\n"


class Json(str):
    """A text that is JSON already, as a part of a value that `dumps` writes."""

    __slots__ = ()


BOUNDS: Final = re.compile(r'["\[\]{}\\]')


def documents(pieces: Iterator[str], *, strips_array: bool) -> Iterator[tuple[str, int]]:
    """Yield the text of each JSON value of a text, and the line on which it begins.

    Values follow each other with or without blanks between. strips_array: the members of an outer
    array are values of their own. Raises BadDocument.
    """
    scan = _Documents(pieces)
    while True:
        char = scan.peek()
        if char == "":
            return
        if strips_array and char == "[":
            yield from scan.members()
        else:
            yield scan.value()
        if scan.peek() == ",":
            scan.skip()


class _Documents:
    """Finds the ends of JSON values in text that comes in pieces. Mutable.

    It knows strings and brackets alone, so each character is looked at once; what is in between is
    checked when the value is read.
    """

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False

    def peek(self) -> str:
        """Return the next character that is no blank; "" at the end."""
        while True:
            while self._at < len(self._text):
                char = self._text[self._at]
                if char not in _SPACE:
                    return char
                self._line += char == "\n"
                self._at += 1
            if not self._more():
                return ""

    def skip(self) -> None:
        self._at += 1

    def members(self) -> Iterator[tuple[str, int]]:
        """Yield the members of the array that begins here."""
        self.skip()
        if self.peek() == "]":
            self.skip()
            return
        while True:
            yield self.value()
            char = self.peek()
            if char == ",":
                self.skip()
            elif char == "]":
                self.skip()
                return
            else:
                raise self._bad("unfinished array" if not char else f"unexpected '{char}'")

    def value(self) -> tuple[str, int]:
        """Return the value that begins here, and its line."""
        first = self.peek()
        start_line = self._line
        is_bracketed = first in ('"', "{", "[")
        text = self._bracketed() if is_bracketed else self._word()
        self._line += text.count("\n")
        return text, start_line

    def _word(self) -> str:
        end = self._at
        while True:
            while end < len(self._text) and self._text[end] not in ' \t\r\n,]}["{':
                end += 1
            if end < len(self._text) or not self._more_from(end):
                break
            end -= self._cut
            self._check(end)
        text = self._text[self._at : end]
        if not text:
            raise self._bad(f"unexpected '{self._text[end : end + 1]}'")
        self._at = end
        return text

    def _bracketed(self) -> str:
        end, depth, in_string = self._at, 0, False
        while True:
            match = BOUNDS.search(self._text, end)
            if match is None:
                end = len(self._text)
                if not self._more_from(end):
                    raise self._bad("unfinished string" if in_string else "unfinished value")
                end -= self._cut
                self._check(end)
                continue
            end = match.end()
            char = match[0]
            if in_string:
                if char == "\\":
                    if end >= len(self._text) and self._more_from(end):
                        end -= self._cut
                    end += 1
                elif char == '"':
                    in_string = False
            elif char == '"':
                in_string = True
            elif char in "[{":
                depth += 1
            elif char in "]}":
                depth -= 1
            if not in_string and depth == 0:
                break
        text = self._text[self._at : end]
        self._check(end)
        self._at = end
        return text

    def _check(self, end: int) -> None:
        if end - self._at > LENGTH_MAX:
            raise self._bad(f"a value is longer than {LENGTH_MAX >> 20} MiB")

    _cut = 0

    def _more(self) -> bool:
        return self._more_from(self._at)

    def _more_from(self, _end: int) -> bool:
        """Read the next piece; cut what was read before. _cut: by how much offsets move."""
        if self._ended:
            return False
        for piece in self._pieces:
            if piece:
                self._text = self._text[self._at :] + piece
                self._cut, self._at = self._at, 0
                return True
        self._ended = True
        return False

    def _bad(self, message: str) -> BadDocument:
        return BadDocument(message, self._line, 1)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value if each is not None]
    return value


def dumps(value: Any) -> str:
    """Return a value of Arrow, or of `loads`, as JSON. Numbers keep all their digits."""
    match value:
        case dict():
            members = [f"{_text(str(key))}:{dumps(each)}" for key, each in value.items()]
            return f"{{{','.join(members)}}}"
        case list() | tuple():
            return f"[{','.join([dumps(each) for each in value])}]"
        case decimal.Decimal():
            return _number(value)
        case Json():
            return str(value)
        case bytes():
            return _text(value.hex().upper())
        case datetime.datetime():
            return _text(value.isoformat(sep=" "))
        case datetime.date() | datetime.time():
            return _text(value.isoformat())
        case float() if not math.isfinite(value):
            return _text("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
        case bool() | int() | float() | None:
            return json.dumps(value)
    return _text(str(value))


def loads(text: str) -> Any:
    """Return the value of a JSON text; numbers are Decimal."""
    return json.loads(text, parse_float=decimal.Decimal, parse_int=decimal.Decimal)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(value: decimal.Decimal) -> str:
    """Return a number's digits, without a fraction of zeros.

    One with a large exponent keeps it: `1e999999999` has more digits than memory holds.
    """
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > EXPONENT_MAX:
        return str(value)
    whole = value.to_integral_value()
    return format(whole if whole == value else value, "f")
