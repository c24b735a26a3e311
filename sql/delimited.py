"""rule: records and fields of delimited text, as COPY reads CSV.

Text comes in pieces of any size, and records go out one by one with the line on which they begin. A
field in quotes may contain delimiters and line ends; the scanner keeps its state between lines, so
each character is looked at once. A fault ends its record, and the next line begins another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

RECORD_LENGTH_MAX: Final = 32 << 20
"""Characters of one record; a VARCHAR has 16 Mi at most."""

ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\x00"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How text is cut into fields. quote, escapes: "" for none. field: "" for one field a record.

    escape: inside quotes and outside. escape_unenclosed: outside quotes alone.
    """

    field: str = ","
    record: str = "\n"
    quote: str = ""
    escape: str = ""
    escape_unenclosed: str = "\\"
    trims: bool = False
    null_if: frozenset[str] = frozenset()
    empty_is_null: bool = True
    skips_blank: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A record that cannot be read. code: Snowflake's number. character: from 1 in its line.

    column: index of the field.
    """

    code: str
    message: str
    line: int
    character: int = 1
    column: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """The fields of a record; None is NULL. line: where it begins, from 1."""

    line: int
    fields: list[str | None]


class TooLong(Exception):
    """A record is longer than its bound. line: where it begins."""

    def __init__(self, line: int) -> None:
        super().__init__(f"a record is longer than {RECORD_LENGTH_MAX >> 20} MiB")
        self.line = line


def records(pieces: Iterable[str], dialect: Dialect) -> Iterator[Record | Fault]:
    """Yield the records of a text. Raises TooLong."""
    scanner = _Scanner(dialect)
    for line in _lines(pieces, dialect):
        record = scanner.add(line)
        if record is not None:
            yield record
    last = scanner.finish()
    if last is not None:
        yield last


def _lines(pieces: Iterable[str], dialect: Dialect) -> Iterator[str]:
    rest: list[str] = []
    length = 0
    number = 1
    for piece in pieces:
        if not dialect.record:
            rest.append(piece)
            length += len(piece)
            _check_length(length, number)
            continue
        # A delimiter of several characters may lie across two pieces.
        if dialect.record not in piece and len(dialect.record) == 1:
            rest.append(piece)
            length += len(piece)
            _check_length(length, number)
            continue
        lines = "".join((*rest, piece)).split(dialect.record)
        last = lines.pop()
        yield from lines
        number += len(lines)
        rest, length = [last], len(last)
        _check_length(length, number)
    if length:
        yield "".join(rest)


def _check_length(length: int, line: int) -> None:
    if length > RECORD_LENGTH_MAX:
        raise TooLong(line)


class _Scanner:
    """Makes records of lines. Mutable: a field in quotes may go on in the next line."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._ends_cr = dialect.record == "\n"
        self._line = 0
        self._first = 1
        self._fields: list[str | None] = []
        self._open: list[str] | None = None
        self._open_length = 0
        enclosed = dialect.quote + dialect.escape
        self._in_quotes = re.compile(f"[{re.escape(enclosed)}]") if enclosed else None
        outside = dialect.escape_unenclosed + dialect.escape
        self._specials = tuple(dict.fromkeys(dialect.quote + outside))
        stops = [re.escape(char) for char in dict.fromkeys(outside)]
        stops += [re.escape(dialect.field)] if dialect.field else []
        self._outside = re.compile("|".join(stops)) if stops else None
        self._escapes = frozenset(outside)
        self._plain_nulls = dialect.null_if | ({""} if dialect.empty_is_null else set())

    def add(self, line: str) -> Record | Fault | None:
        """Return the record that a line ends, None if it goes on or is blank."""
        self._line += 1
        if self._open is None:
            self._first = self._line
            self._fields = []
            plain = line.removesuffix("\r") if self._ends_cr else line
            if not plain and self._dialect.skips_blank:
                return None
            if not any(special in line for special in self._specials):
                return Record(line=self._line, fields=self._split(plain))
        else:
            self._open.append(self._dialect.record)
        return self._scan(line)

    def finish(self) -> Fault | None:
        """Return the fault of a text that ends inside quotes."""
        if self._open is None:
            return None
        self._open = None
        return Fault(
            code="100068",
            message="End of file reached while looking for the end of a field in quotes",
            line=self._first,
            column=len(self._fields),
        )

    def _split(self, line: str) -> list[str | None]:
        fields = line.split(self._dialect.field) if self._dialect.field else [line]
        if self._dialect.trims:
            fields = [field.strip(" ") for field in fields]
        nulls = self._plain_nulls
        return [None if field in nulls else field for field in fields]

    def _scan(self, line: str) -> Record | Fault | None:
        dialect = self._dialect
        at = 0
        while True:
            if self._open is not None:
                end = self._enclosed(line, at)
                if end is None:
                    return None
                at = _after_blanks(line, end) if dialect.trims else end
                if self._ends_cr and at == len(line) - 1 and line[at] == "\r":
                    at += 1
                if at < len(line) and not (dialect.field and line.startswith(dialect.field, at)):
                    return Fault(
                        code="100016",
                        message=f"Field delimiter '{dialect.field}' or record delimiter expected"
                        f" after a field in quotes, but found '{line[at]}'",
                        line=self._line,
                        character=at + 1,
                        column=len(self._fields) - 1,
                    )
            else:
                start = _after_blanks(line, at) if dialect.trims else at
                if dialect.quote and line.startswith(dialect.quote, start):
                    self._open, self._open_length = [], 0
                    at = start + 1
                    continue
                at = self._unenclosed(line, at)
            if at >= len(line):
                return Record(line=self._first, fields=self._fields)
            at += len(dialect.field)
            if at == len(line):  # a delimiter at the end: one more field, which is empty
                self._fields.append(None if "" in self._plain_nulls else "")
                return Record(line=self._first, fields=self._fields)

    def _enclosed(self, line: str, at: int) -> int | None:
        """Read a field in quotes; return where it ends, None if it goes on in the next line."""
        dialect, parts = self._dialect, self._open
        assert parts is not None
        assert self._in_quotes is not None
        while True:
            match = self._in_quotes.search(line, at)
            if match is None:
                parts.append(line[at:])
                self._open_length += len(line) - at + 1
                _check_length(self._open_length, self._first)
                return None
            stop = match.start()
            parts.append(line[at:stop])
            if line[stop] == dialect.escape and dialect.escape != dialect.quote:
                if stop + 1 < len(line):
                    parts.append(ESCAPES.get(line[stop + 1], line[stop + 1]))
                at = stop + 2
                if at > len(line):
                    return None
                continue
            if line.startswith(dialect.quote, stop + 1):
                parts.append(dialect.quote)
                at = stop + 2
                continue
            value = "".join(parts)
            self._open = None
            self._fields.append(None if value in dialect.null_if else value)
            return stop + 1

    def _unenclosed(self, line: str, at: int) -> int:
        """Read a field without quotes; return where it ends."""
        dialect = self._dialect
        parts: list[str] = []
        start = at
        while True:
            match = self._outside.search(line, at) if self._outside is not None else None
            if match is None:
                has_return = self._ends_cr and line.endswith("\r") and len(line) > at
                end = len(line) - has_return
                parts.append(line[at:end])
                break
            end = match.start()
            parts.append(line[at:end])
            if line[end] not in self._escapes or (
                dialect.field and line.startswith(dialect.field, end)
            ):
                break
            following = line[end + 1 : end + 2]
            parts.append(ESCAPES.get(following, following))
            at = end + 2
        value, raw = "".join(parts), line[start:end]
        if dialect.trims:
            value, raw = value.strip(" "), raw.strip(" ")
        is_null = raw in self._plain_nulls or value in dialect.null_if
        self._fields.append(None if is_null else value)
        return len(line) if match is None else end


def _after_blanks(line: str, at: int) -> int:
    # Not a slice of the rest: a line may have millions of fields.
    while at < len(line) and line[at] == " ":
        at += 1
    return at


def dialect_of(options: Any) -> Dialect:
    """Return the dialect of a CSV format. options: its value by an option's name."""
    return Dialect(
        field=options("FIELD_DELIMITER") or "",
        record=options("RECORD_DELIMITER") or "",
        quote=options("FIELD_OPTIONALLY_ENCLOSED_BY") or "",
        escape=options("ESCAPE") or "",
        escape_unenclosed=options("ESCAPE_UNENCLOSED_FIELD") or "",
        trims=options("TRIM_SPACE"),
        null_if=frozenset(options("NULL_IF")),
        empty_is_null=options("EMPTY_FIELD_AS_NULL"),
        skips_blank=options("SKIP_BLANK_LINES"),
    )
