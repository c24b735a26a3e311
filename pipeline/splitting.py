"""engine: finds the rows of raw text files that a load cannot read, before an engine reads them.

Each file is read once, line by line. A row that cannot be read keeps its file, line, reason and
text. Where a file has such rows, a copy of it is read instead, in which their lines are empty:
neither engine takes an empty line for a row, and line numbers stay. So both engines leave out the
same rows. Never leaves out a row that a load of the file without it would refuse for other rows.
"""

from __future__ import annotations

import csv
import dataclasses
import decimal
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pipeline import errors, inspection, progress, reading, sources

REJECTED_MAX = 100_000
"""Rows that one load rejects at most: with more, an option is wrong rather than the rows."""
RAW_CHARACTERS_MAX = 65_536
"""Characters of a rejected row's text that are kept."""
REJECTED_CHARACTERS_MAX = 64 * 1024 * 1024
UNCLOSED_MAX = 100
"""Quotes of one file without an end; after each, the rest of the file is read again."""
VERDICTS_MAX = 100_000

_UNDECODED = re.compile("[\udc80-\udcff]")
_LINE_END = re.compile(r"(?:\r\n|\n|\r)\Z")
_NOT_NUMBERS = frozenset(
    {"NaN", "INF", "+INF", "-INF", "Infinity", "+Infinity", "-Infinity"}
)  # fmt: skip
_LONGS = range(-(2**63), 2**63)
_MOMENTS = ("date", "timestamp", "timestamptz")


class _Unreadable(Exception):
    """Why a row cannot be read."""


def split(
    s3: Any,
    reader: reading.SourceReader,
    wanted: sources.WantedSources,
    live: Mapping[str, Any],
    schema: Mapping[str, str],
    folder: Path,
) -> sources.WantedSources:
    """Return the sources with their rejected rows, and the files to read in their place.

    live: the table's columns, as Iceberg's JSON writes their types. schema: of the load. folder:
    for the copies. Raises BadSource for a file that is not text or has no readable beginning, for
    too many rejected rows, and if no row can be read; SourceChanged.
    """
    checks = {name.lower(): _Column(name, one, live=False) for name, one in schema.items()}
    checks |= {name.lower(): _Column(name, one, live=True) for name, one in live.items()}
    rejected: list[sources.RejectedRow] = []
    cleaned: list[sources.Source] = []
    characters = count = 0
    for number, source in enumerate(wanted.readable):
        bad_lines: set[int] = set()
        with sources.opened(s3, source) as stream:
            for lines, row in _rows(stream, source, reader, checks):
                if row is None:
                    count += 1
                    continue
                rejected.append(row)
                bad_lines.update(lines)
                characters += len(row.raw)
                if len(rejected) > REJECTED_MAX or characters > REJECTED_CHARACTERS_MAX:
                    most = progress.counted(len(rejected) - 1, "row")
                    raise errors.BadSource(
                        f"more than {most} cannot be read, first {_shown(rejected[0])}; "
                        "an option may be missing"
                    )
        cleaned.append(
            _without(s3, source, reader, bad_lines, folder / f"{number:06}.{reader.format}")
            if bad_lines
            else source
        )
    if rejected and not count and not wanted.may_be_empty:
        raise errors.BadSource(
            f"no row can be read, first {_shown(rejected[0])}; an option may be missing"
        )
    return dataclasses.replace(
        wanted,
        cleaned=tuple(cleaned) if count or not rejected else (),
        rejected=(*wanted.rejected, *rejected),
    )


def _shown(row: sources.RejectedRow) -> str:
    return f"{row.source}: line {row.line} {row.reason}"


def _without(
    s3: Any,
    source: sources.Source,
    reader: reading.SourceReader,
    bad_lines: set[int],
    path: Path,
) -> sources.Source:
    """Write a copy of a source whose bad lines are empty; return it."""
    codec = inspection.codec(reader)
    with (
        sources.opened(s3, source) as stream,
        path.open("w", encoding=codec, errors="surrogateescape", newline="") as copy,
    ):
        for number, line in enumerate(_text(stream, reader), start=1):
            copy.write(_end_of(line) if number in bad_lines else line)
    return sources.Source(place=f"file://{path}", etag=source.etag, size_bytes=path.stat().st_size)


def _text(stream: IO[bytes], reader: reading.SourceReader) -> io.TextIOWrapper:
    codec = inspection.codec(reader)
    return io.TextIOWrapper(stream, encoding=codec, errors="surrogateescape", newline="")


def _end_of(line: str) -> str:
    end = _LINE_END.search(line)
    return end.group() if end else ""


def _rows(
    stream: IO[bytes],
    source: sources.Source,
    reader: reading.SourceReader,
    checks: Mapping[str, _Column],
) -> Iterator[tuple[range, sources.RejectedRow | None]]:
    """Yield each row's lines, with the row if it cannot be read."""
    text = _text(stream, reader)
    if reader.format == "json":
        verdicts = _json_rows(text, source, reader, checks)
    else:
        verdicts = _csv_rows(text, source, reader, checks)
    codec = inspection.codec(reader).removesuffix("-sig")
    for first, lines, reason in verdicts:
        row = None
        if reason is not None:
            whole = "".join(lines)[:RAW_CHARACTERS_MAX]
            raw = whole.encode(codec, "surrogateescape").decode(codec, "backslashreplace")
            raw = _LINE_END.sub("", raw)
            row = sources.RejectedRow(source=source.place, line=first, reason=reason, raw=raw)
        yield range(first, first + len(lines)), row


def _check_text(lines: Iterable[str], reader: reading.SourceReader) -> None:
    """Raise _Unreadable for bytes that are not text in the reader's encoding."""
    for line in lines:
        if not line.isascii() and _UNDECODED.search(line):
            raise _Unreadable(f"is not {reader.encoding}")
        if "\0" in line:
            raise _Unreadable("has a zero byte")


# CSV.


class _Lines:
    """Lines of a file as csv takes them. Mutable: it keeps those of the current record."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._record: list[str] = []
        self.at_end = False

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        try:
            line = next(self._lines)
        except StopIteration:
            self.at_end = True
            raise
        self._record.append(line)
        return line

    def take(self) -> list[str]:
        """Return the lines since the last call."""
        record, self._record = self._record, []
        return record

    def put_back(self, lines: Sequence[str]) -> None:
        """Let these lines come again."""
        self._lines = itertools.chain(lines, self._lines)
        self.at_end = False


def _csv_rows(
    text: Iterable[str],
    source: sources.Source,
    reader: reading.SourceReader,
    checks: Mapping[str, _Column],
) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield (line, lines, reason) of each record; reason None for one that can be read."""
    csv.field_size_limit(inspection.FIELD_CHARACTERS_MAX)
    absent = {"", reader.null_value}
    header: list[str] | None = None
    checked: list[tuple[int, str, _Column]] = []
    for first, lines, values, problem in _csv_records(text, source, reader):
        if problem is None and values is not None and inspection.is_blank(values, reader):
            continue
        try:
            if problem is not None:
                raise _Unreadable(problem)
            _check_text(lines, reader)
            assert values is not None
            if header is None:
                names = [f"_c{position}" for position in range(len(values))]
                header = values if reader.has_header else names
                checked = [
                    (position, name, checks[name.lower()])
                    for position, name in enumerate(header)
                    if name.lower() in checks
                ]
                if reader.has_header:
                    continue
            if len(values) != len(header):
                raise _Unreadable(f"has {len(values)} columns, the header has {len(header)}")
            for position, name, column in checked:
                value = values[position]
                if value not in absent:
                    column.check_text(name, value, reader)
        except _Unreadable as error:
            if header is None:
                raise errors.BadSource(f"{source.place}: line {first} {error}") from error
            yield first, lines, str(error)
        else:
            yield first, lines, None


def _csv_records(
    text: Iterable[str], source: sources.Source, reader: reading.SourceReader
) -> Iterator[tuple[int, list[str], list[str] | None, str | None]]:
    """Yield (line, lines, values, problem) of each record: values, or a problem of its quotes."""
    lines = _Lines(text)
    first, unclosed = 1, 0
    while True:
        tokens = csv.reader(lines, **inspection.dialect(reader, strict=True))
        try:
            for values in tokens:
                record = lines.take()
                yield first, record, values, None
                first += len(record)
            return
        except csv.Error as error:
            record = lines.take()
            problem = f"is not CSV: {error}"
            if lines.at_end:  # a quote without its end has taken the lines after it
                problem = "has a quote without an end"
                unclosed += 1
                if unclosed > UNCLOSED_MAX:
                    raise errors.BadSource(
                        f"{source.place}: more than {UNCLOSED_MAX} quotes have no end"
                    ) from error
                lines.put_back(record[1:])
                record = record[:1]
            yield first, record, None, problem
            first += len(record)


# JSON.


def _json_whole(text: str) -> int | decimal.Decimal:
    # Python itself converts numbers of up to 4,300 digits alone.
    return int(text) if len(text) <= reading.WIDEST_DIGITS else decimal.Decimal(text)


_JSON = json.JSONDecoder(parse_int=_json_whole, parse_float=decimal.Decimal)


def _json_rows(
    text: io.TextIOWrapper,
    source: sources.Source,
    reader: reading.SourceReader,
    checks: Mapping[str, _Column],
) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield (line, lines, reason) of each line with text; reason None for one that can be read."""
    lines: Iterable[tuple[int, str]] = enumerate(text, start=1)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    if _json_problem(first[1], reader, {}) is not None:
        rest = text.read()
        if rest.strip() and _is_document(first[1] + rest, source, reader, checks):
            yield first[0], [first[1]], None
            return
        lines = enumerate(io.StringIO(rest, newline=""), start=first[0] + 1)
    for number, line in itertools.chain((first,), lines):
        if line.strip():
            yield number, [line], _json_problem(line, reader, checks)


def _json_problem(
    text: str, reader: reading.SourceReader, checks: Mapping[str, _Column]
) -> str | None:
    """Return why a text is not JSON objects of the table's types; None if it is."""
    try:
        _check_text((text,), reader)
        value = _JSON.decode(text)
        for entry in value if isinstance(value, list) else (value,):
            if not isinstance(entry, dict):
                raise _Unreadable("is not JSON: it is not an object")
            for name, field in entry.items():
                if name.lower() in checks:
                    checks[name.lower()].check_json(name, field, reader)
    except _Unreadable as error:
        return str(error)
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {getattr(error, 'msg', None) or error}"
    return None


def _is_document(
    text: str,
    source: sources.Source,
    reader: reading.SourceReader,
    checks: Mapping[str, _Column],
) -> bool:
    """Return whether a file is one JSON document over several lines.

    Raises BadSource for one with an object that cannot be read: it has no lines of its own.
    """
    try:
        _JSON.decode(text)
    except (ValueError, RecursionError):
        return False
    problem = _json_problem(text, reader, checks)
    if problem is not None:
        raise errors.BadSource(
            f"{source.place} {problem}; of one document over several lines no row can be left out"
        )
    return True


# Values.


class _Column:
    """A column's type, for the values of its rows. Mutable: it remembers verdicts.

    live: whether it is the table's, which Iceberg may widen.
    """

    def __init__(self, name: str, column_type: Any, *, live: bool) -> None:
        self._name = name
        self._type = column_type
        self._is_live = live
        self._verdicts: dict[str, bool] = {}

    def check_text(self, name: str, value: str, reader: reading.SourceReader) -> None:
        """Raise _Unreadable for a value of CSV that the column cannot take."""
        if not isinstance(self._type, str):
            return
        if not self._fits_text(value, self._type, reader):
            raise self._misfit(name, value, self._type)

    def check_json(self, name: str, value: Any, reader: reading.SourceReader) -> None:
        """Raise _Unreadable for a value of JSON that the column cannot take, at any depth."""
        self._check_json(name, value, self._type, reader)

    def _fits_text(self, value: str, column_type: str, reader: reading.SourceReader) -> bool:
        if column_type in _MOMENTS and reader.forms_dates:
            return True
        verdict = self._verdicts.get(value)
        if verdict is None:
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            classes = (reading.class_of(value),)
            widest = reading.type_into(column_type, classes) if self._is_live else column_type
            verdict = reading.holds(widest, classes) and _fits_decimal(value, column_type)
            self._verdicts[value] = verdict
        return verdict

    def _check_json(
        self, name: str, value: Any, column_type: Any, reader: reading.SourceReader
    ) -> None:
        if value is None:
            return
        if isinstance(column_type, Mapping):
            self._check_nested(name, value, column_type, reader)
        elif not self._fits_json(value, str(column_type), reader):
            raise self._misfit(name, value, str(column_type))

    def _check_nested(
        self, name: str, value: Any, column_type: Mapping[str, Any], reader: reading.SourceReader
    ) -> None:
        nested = str(column_type["type"])
        if nested == "list" and isinstance(value, list):
            for element in value:
                self._check_json(f"{name}.element", element, column_type["element"], reader)
        elif nested == "list" or not isinstance(value, dict):
            raise self._misfit(name, value, nested)
        elif nested == "map":
            for inner in value.values():
                self._check_json(f"{name}.value", inner, column_type["value"], reader)
        else:
            types = {field["name"].lower(): field["type"] for field in column_type["fields"]}
            for field, inner in value.items():
                if field.lower() in types:
                    self._check_json(f"{name}.{field}", inner, types[field.lower()], reader)

    def _fits_json(self, value: Any, column_type: str, reader: reading.SourceReader) -> bool:
        is_number = isinstance(value, int | float | decimal.Decimal)
        is_number = is_number and not isinstance(value, bool)
        if column_type == "boolean":
            return isinstance(value, bool)
        if column_type == "long" or (column_type == "int" and self._is_live):
            return is_number and isinstance(value, int) and value in _LONGS
        if column_type == "int":
            return is_number and isinstance(value, int) and -(2**31) <= value < 2**31
        if column_type in {"float", "double"}:
            return is_number or (isinstance(value, str) and value in _NOT_NUMBERS)
        if column_type.startswith("decimal("):
            return is_number and _fits_decimal(str(value), column_type)
        if column_type in _MOMENTS:
            if is_number:
                return column_type == "timestamptz" and isinstance(value, int)
            return isinstance(value, str) and self._fits_text(value, column_type, reader)
        return True

    @staticmethod
    def _misfit(name: str, value: Any, column_type: str) -> _Unreadable:
        return _Unreadable(inspection.misfit_reason(name, str(value), column_type))


def _fits_decimal(value: str, column_type: str) -> bool:
    """Return whether a number has no more whole digits than a decimal type; others fit."""
    match = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", column_type)
    if match is None:
        return True
    precision, scale = int(match.group(1)), int(match.group(2))
    try:
        number = decimal.Decimal(value)
    except decimal.InvalidOperation:
        return False
    if not number.is_finite():
        return False
    # Further digits of the fraction are rounded, as Spark does.
    if number and number.adjusted() > precision:
        return False
    with decimal.localcontext(prec=2 * reading.WIDEST_DIGITS + 4):
        rounded = number.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP)
        return abs(rounded) < decimal.Decimal(10) ** (precision - scale)
