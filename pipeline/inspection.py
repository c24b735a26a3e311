"""engine: looks through raw text files, before a load reads them and after one could not.

Before: which files have the same header, which have line ends inside quotes, and whether the text
is what the options say. Spark would store wrong characters or wrong columns without an error.
After: the file, line and column that could not be read, which Spark's errors do not name.
"""

from __future__ import annotations

import codecs
import concurrent.futures
import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from pipeline import errors, progress, reading, sources

AT_ONCE = 8
CHUNK_BYTES = 1024 * 1024
HEADER_BYTES_MAX = 64 * 1024
FIELD_CHARACTERS_MAX = 64 * 1024 * 1024
"""The longest value of a CSV file that is looked at."""
SHOWN_MAX = 60
"""Characters of a value that an error quotes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextShape:
    """What the sources of one read have in common: CSV's header; whether a record spans lines."""

    header: tuple[str, ...]
    spans_lines: bool


def grouped(
    s3: Any,
    listing: Sequence[sources.Source],
    reader: reading.SourceReader,
    so_far: progress.ReadCount | None = None,
    listener: Callable[[sources.Source], Callable[[bytes], None]] | None = None,
) -> dict[TextShape, list[sources.Source]]:
    """Return text sources by their shape, without empty ones. Raises BadSource, BadArgument.

    so_far: gains what is read. listener: returns for a source what is called with each part of its
    unpacked bytes; in the threads that read them, several sources at once.

    Spark takes one file's header for all that it reads together, so that files with other headers
    are read apart.
    """
    groups: dict[TextShape, list[sources.Source]] = {}
    so_far = so_far or progress.ReadCount(len(listing))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        shapes = pool.map(lambda source: _shape(s3, source, reader, so_far, listener), listing)
        for source, its_shape in zip(listing, shapes, strict=True):
            if its_shape is not None:
                groups.setdefault(its_shape, []).append(source)
    if not groups:
        raise errors.every_file_empty(reader.format)
    return groups


def _shape(
    s3: Any,
    source: sources.Source,
    reader: reading.SourceReader,
    so_far: progress.ReadCount,
    listener: Callable[[sources.Source], Callable[[bytes], None]] | None,
) -> TextShape | None:
    """Return a source's shape; None if it has no text."""
    if not source.size_bytes:
        return None
    is_packed = reading.packed_as(source.place) is not None
    hear = None if listener is None else listener(source)

    def seen(part: bytes) -> None:
        if not is_packed:
            so_far.add(len(part))
        if hear is not None:
            hear(part)

    with sources.opened(s3, source) as stream:
        its_shape = shape(stream, source, reader, seen=seen)
    if is_packed:
        so_far.add(source.size_bytes)
    so_far.end()
    return its_shape


def shape(
    stream: IO[bytes],
    source: sources.Source,
    reader: reading.SourceReader,
    *,
    seen: Callable[[bytes], None] | None = None,
) -> TextShape | None:
    """Look through one file; return its shape, or None if it has no text. Raises BadSource.

    seen: called with each part of the bytes.
    """
    scan = _Scan(source, reader)
    for chunk in iter(lambda: stream.read(CHUNK_BYTES), b""):
        scan.feed(chunk)
        if seen is not None:
            seen(chunk)
    return scan.end()


class _Scan:
    """Looks through one text file, chunk by chunk. Mutable: it counts lines and quotes."""

    def __init__(self, source: sources.Source, reader: reading.SourceReader) -> None:
        self._source = source
        self._reader = reader
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        has_quotes = reader.format == "csv" and len(reader.quote) == 1
        self._quote = reader.quote.encode() if has_quotes else b""
        self._lines = 0
        self._held = b""
        self._begin = b""
        self._inside = self._spans = False
        self._mixed: tuple[int, bytes] | None = None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes. Raises BadSource."""
        if len(self._begin) < HEADER_BYTES_MAX:
            self._begin += chunk[: HEADER_BYTES_MAX - len(self._begin)]
        if self._reader.is_wide:
            return
        self._check_text(chunk)
        self._count(self._held + chunk)

    def _count(self, text: bytes) -> None:
        # A CR at the end waits for the LF that may follow it.
        self._held = text[-1:] if text.endswith(b"\r") else b""
        text = text.removesuffix(b"\r")
        counts = _line_ends(text)
        header_end = line_end(self._begin)
        is_mixed = any(count for end, count in counts.items() if end != header_end)
        if self._quote and is_mixed:
            self._follow_quotes(text)
        elif self._quote and (self._inside or self._quote in text):
            self._pass_quotes(text)
        self._lines += _lines(text, header_end)

    def end(self) -> TextShape | None:
        """Return the file's shape, or None without any text. Raises BadSource."""
        try:
            self._decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise self._not_utf8(self._lines + 1) from error
        if self._quote and self._held:
            self._follow_quotes(self._held)
        if self._reader.format == "json":
            return _json_shape(self._begin, self._reader)
        header = _header(self._begin, self._reader)
        if header is None:
            return None
        self._check_separator(header)
        if self._spans and self._mixed is not None:
            line, end = self._mixed
            one, other = sorted((LINE_ENDS[end], LINE_ENDS[line_end(self._begin)]))
            raise errors.BadSource(
                f"{self._source.place}: line {line} and the header end differently, "
                f"one with {one} and one with {other}, and there are line ends inside quotes; "
                "make the ends of its lines equal"
            )
        names = tuple(header) if self._reader.has_header else ()
        return TextShape(header=names, spans_lines=self._spans or self._reader.is_wide)

    def _check_text(self, chunk: bytes) -> None:
        if b"\0" in chunk:
            raise errors.BadSource(
                f"{self._source.place} is not text: it has a zero byte; leave it out, or name its "
                "encoding, like --option encoding=UTF-16"
            )
        if not self._reader.is_utf8:
            return
        try:
            self._decoder.decode(chunk)
        except UnicodeDecodeError as error:
            line = self._lines + chunk[: error.start].count(b"\n") + 1
            raise self._not_utf8(line) from error

    def _not_utf8(self, line: int) -> errors.BadSource:
        return errors.BadSource(
            f"{self._source.place}: line {line} is not UTF-8; name the file's encoding, like "
            "--option encoding=ISO-8859-1"
        )

    def _pass_quotes(self, text: bytes) -> None:
        """Do as `_follow_quotes`, for text whose line ends are all as the header's."""
        pieces = text.split(self._quote)
        quoted = b"".join(pieces[0 if self._inside else 1 :: 2])
        if b"\n" in quoted or b"\r" in quoted:
            self._spans = True
        self._inside ^= len(pieces) % 2 == 0

    def _follow_quotes(self, text: bytes) -> None:
        header_end = line_end(self._begin)
        pieces = _ENDS.split(text)
        begin = 0
        for piece, end in itertools.zip_longest(pieces[::2], pieces[1::2], fillvalue=b""):
            if piece.count(self._quote) & 1:
                self._inside = not self._inside
            if not end:
                break
            begin += len(piece)
            if self._inside:
                self._spans = True
            elif self._mixed is None and end != header_end:
                self._mixed = self._lines + _lines(text[:begin], header_end) + 1, end
            begin += len(end)

    def _check_separator(self, header: Sequence[str]) -> None:
        if "sep" in self._reader.chosen or len(header) != 1 or not self._reader.has_header:
            return
        other = reading.other_separator(header[0], self._reader.separator)
        if other is not None:
            separator, count = other
            raise errors.BadSource(
                f"{self._source.place}: its header has no {self._reader.separator!r} but {count} "
                f"{separator!r}; if they separate its columns: --option 'sep={separator}', "
                f"if not: --option 'sep={self._reader.separator}'"
            )


_ENDS = re.compile(rb"(\r\n|\n|\r)")
_FIRST_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")
LINE_ENDS = {b"\r\n": "CR LF", b"\n": "LF", b"\r": "CR"}


def line_end(begin: bytes) -> bytes:
    """Return the first line end of a file; LF if it has none."""
    first = _FIRST_END.search(begin)
    return first.group() if first else b"\n"


def _line_ends(text: bytes) -> dict[bytes, int]:
    """Return how many line ends of each form the text has. It does not end with CR."""
    if b"\r" not in text:
        return {b"\r\n": 0, b"\n": text.count(b"\n"), b"\r": 0}
    pairs = text.count(b"\r\n")
    return {
        b"\r\n": pairs,
        b"\n": text.count(b"\n") - pairs,
        b"\r": text.count(b"\r") - pairs,
    }


def _lines(text: bytes, header_end: bytes) -> int:
    """Return how many lines end in the text. A CR alone ends one where it ends the header."""
    ends = _line_ends(text)
    return ends[b"\r\n"] + ends[b"\n"] + (ends[b"\r"] if header_end == b"\r" else 0)


def _header(begin: bytes, reader: reading.SourceReader) -> list[str] | None:
    """Return the first record of a CSV file; None if it has none."""
    text = begin.decode(codec(reader), errors="replace")
    if len(reader.separator) != 1 or len(reader.quote) != 1:
        line = next((line for line in text.splitlines() if line.strip()), None)
        return None if line is None else [line]
    rows = csv.reader(io.StringIO(text, newline=""), **dialect(reader, strict=False))
    return next((row for row in rows if not is_blank(row, reader)), None)


# Numbers stay text: Python itself converts those of up to 4,300 digits alone.
_JSON = json.JSONDecoder(parse_int=str)


def _json_shape(begin: bytes, reader: reading.SourceReader) -> TextShape | None:
    """Return whether the file is one JSON document over several lines, or one document a line."""
    text = begin.decode(codec(reader), errors="replace").lstrip()
    if not text:
        return None
    first, end, _ = text.partition("\n")
    try:
        _JSON.decode(first)
    except (ValueError, RecursionError):
        # The first line is half of a document, unless it is longer than what was kept of it.
        return TextShape(header=(), spans_lines=bool(end) or len(begin) < HEADER_BYTES_MAX)
    return TextShape(header=(), spans_lines=reader.is_wide)


# Records with their line numbers.


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A CSV file's records as text. lines: the line that each record begins in."""

    header: tuple[str, ...]
    rows: Iterator[tuple[int, list[str]]]


def records(stream: IO[bytes], source: sources.Source, reader: reading.SourceReader) -> Table:
    """Return the records of a CSV file. Raises BadSource, and csv.Error for odd quotes.

    A record that has not as many values as the header raises BadSource, with its line.
    """
    csv.field_size_limit(FIELD_CHARACTERS_MAX)
    text = io.TextIOWrapper(stream, encoding=codec(reader), newline="")
    tokens = csv.reader(text, **dialect(reader, strict=True))

    def numbered() -> Iterator[tuple[int, list[str]]]:
        before = 0
        for row in tokens:
            if not is_blank(row, reader):
                yield before + 1, row
            before = tokens.line_num

    rows = numbered()
    first = next(rows, None)
    if first is None:
        return Table(header=(), rows=iter(()))
    if reader.has_header:
        header = tuple(first[1])
    else:
        header = tuple(f"_c{position}" for position in range(len(first[1])))
        rows = itertools.chain((first,), rows)
    return Table(header=header, rows=_of_one_width(rows, source, header))


def _of_one_width(
    rows: Iterable[tuple[int, list[str]]], source: sources.Source, header: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    for line, row in rows:
        if len(row) != len(header):
            raise errors.BadSource(
                f"{source.place}: line {line} has {len(row)} columns, the header has {len(header)}"
            )
        yield line, row


def locate_in_csv(
    s3: Any,
    listing: Iterable[sources.Source],
    reader: reading.SourceReader,
    column_types: Mapping[str, str],
) -> None:
    """Raise BadSource with the file, line and column of the first value that does not fit.

    column_types: by lower-case name, the types that columns must have. Returns if all values fit.
    """
    if len(reader.separator) != 1 or len(reader.quote) != 1:
        return
    absent = {"", reader.null_value}
    for source in listing:
        with sources.opened(s3, source) as stream:
            try:
                table = records(stream, source, reader)
                checked = [
                    (position, name, column_types[name.lower()])
                    for position, name in enumerate(table.header)
                    if name.lower() in column_types
                ]
                for line, row in table.rows:
                    for position, name, column_type in checked:
                        value = row[position]
                        if value in absent:
                            continue
                        if not reading.holds(column_type, (reading.class_of(value),)):
                            raise misfit(source, line, name, value, column_type)
            except (csv.Error, UnicodeError):
                # Quotes that this module does not understand: Spark's own error says what it met.
                continue


def misfit(
    source: sources.Source, line: int, name: str, value: str, column_type: str
) -> errors.BadSource:
    """Return the error of a value that its column cannot take."""
    reason = misfit_reason(name, value, column_type)
    return errors.BadSource(f"{source.place}: line {line}, {reason}")


def misfit_reason(name: str, value: str, column_type: str) -> str:
    """Return why a column cannot take a value."""
    shown = value if len(value) <= SHOWN_MAX else value[:SHOWN_MAX] + "..."
    return (
        f"column {name!r}: {shown!r} is not {reading.noun_of(column_type)}, "
        f"and the column has the type {column_type}"
    )


def locate_in_json(
    s3: Any, listing: Iterable[sources.Source], reader: reading.SourceReader
) -> None:
    """Raise BadSource with the file and line of the first text that is not JSON."""
    for source in listing:
        with sources.opened(s3, source) as stream:
            for _ in documents(stream, source, reader, _JSON):
                pass


def documents(
    stream: IO[bytes],
    source: sources.Source,
    reader: reading.SourceReader,
    decoder: json.JSONDecoder,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSON file with their lines: one in each line, or one whole document.

    An array stands for its objects. Raises BadSource.
    """
    text = io.TextIOWrapper(stream, encoding=codec(reader))
    try:
        begun = False
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            try:
                value = decoder.decode(line)
            except (ValueError, RecursionError) as error:
                if begun:
                    raise _not_json(source, number, error) from error
                value = _whole(line + text.read(), source, decoder)
            begun = True
            for entry in value if isinstance(value, list) else (value,):
                if not isinstance(entry, dict):
                    raise _not_json(source, number, ValueError("it is not an object"))
                yield number, entry
    except UnicodeDecodeError as error:
        raise errors.BadSource(
            f"{source.place} is not {reader.encoding}; name its encoding, like "
            "--option encoding=ISO-8859-1"
        ) from error


def _whole(text: str, source: sources.Source, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise _not_json(source, getattr(error, "lineno", 1), error) from error


def _not_json(source: sources.Source, line: int, error: Exception) -> errors.BadSource:
    reason = getattr(error, "msg", None) or str(error)
    return errors.BadSource(f"{source.place}: line {line} is not JSON: {reason}")


def codec(reader: reading.SourceReader) -> str:
    """Return Python's name of the encoding. Raises BadArgument."""
    if reader.is_utf8:
        return "utf-8-sig"
    try:
        return codecs.lookup(reader.encoding).name
    except LookupError as error:
        raise errors.BadArgument(
            f"--option encoding={reader.encoding}: there is no such encoding"
        ) from error


def dialect(reader: reading.SourceReader, *, strict: bool) -> dict[str, Any]:
    return {
        "delimiter": reader.separator,
        "quotechar": reader.quote,
        "doublequote": True,
        "strict": strict,
    }


_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))
"""What Java's `String.trim` removes."""


def is_blank(row: Sequence[str], reader: reading.SourceReader) -> bool:
    """Return whether a line is empty or has only white space: such lines are no records."""
    text = reader.separator.join(row)
    return not row or (bool(text) and not text.strip(_TRIMMED))


def has_blank_lines(content: bytes, reader: reading.SourceReader) -> bool:
    """Return whether a line consists of white space, or of that and quotes.

    Spark leaves out lines of white space, but not where records span lines; a value of white space
    in quotes is a record. An empty line is a record in neither case.
    """
    quote = re.escape(reader.quote.encode())
    blank = rb"[\x00-\x09\x0b\x0c\x0e-\x20]"
    return (
        re.search(
            rb"(?:^|[\r\n])"
            + quote
            + rb"*"
            + blank
            + rb"(?:"
            + blank
            + rb"|"
            + quote
            + rb")*(?:[\r\n]|$)",
            content,
        )
        is not None
    )
