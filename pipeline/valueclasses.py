"""engine: tells the classes of a CSV file's values from the bytes that a load looks through.

Arrow tells them in a tenth of the time that Spark takes. It does so only for files that both divide
into the same values: lines of equally many values, and quotes around whole values, without line
ends inside. Of any other file the classes stay unknown, and Spark has to tell them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from pipeline import reading, textcolumns

HELD_BYTES_MAX: Final = 16 * 1024 * 1024
"""The longest line of a file whose classes Arrow tells."""
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
BLANK: Final = r"[\x00-\x20]+"
"""A value of what Java's `String.trim` removes. Spark leaves out lines that have nothing else."""

ColumnClasses: TypeAlias = Sequence[frozenset[str]]
"""For each column classes of its values. One may be left out if the type that the others decide
holds it."""


def applies_to(reader: reading.SourceReader) -> bool:
    """Return whether Arrow divides files into values as Spark does by these options."""
    return (
        reader.format == "csv"
        and reader.for_spark_alone is None
        and reader.is_utf8
        and reader.separator.isascii()
        and reader.quote.isascii()
    )


def together(files: Iterable[ColumnClasses | None], width: int) -> ColumnClasses | None:
    """Return the classes of several files' values; None if those of a file are unknown.

    width: how many columns each file must have.
    """
    classes: list[frozenset[str]] = [frozenset()] * width
    for columns in files:
        if columns is None or len(columns) != width:
            return None
        classes = [one | other for one, other in zip(classes, columns, strict=True)]
    return classes


class FileClasses:
    """The classes of one file's values. Mutable: it gets the file in parts."""

    def __init__(self, reader: reading.SourceReader) -> None:
        self._reader = reader
        self._quote = reader.quote.encode()
        self._whole_values = _whole_values(self._quote, reader.separator.encode())
        self._held = b""
        self._classes: list[frozenset[str]] = []
        self._is_begun = False
        self._is_unknown = False

    def feed(self, part: bytes) -> None:
        """Take the next bytes."""
        if self._is_unknown or self._is_text_alone:
            return
        lines, end, rest = (self._held + part).rpartition(b"\n")
        self._held = rest
        self._is_unknown = len(rest) > HELD_BYTES_MAX
        if end and not self._is_unknown:
            self._take(lines + end)

    def end(self) -> ColumnClasses | None:
        """Return the classes of all values, for each column; None if they are unknown."""
        if self._held:
            self.feed(b"\n")
        return None if self._is_unknown or not self._is_begun else self._classes

    @property
    def _is_text_alone(self) -> bool:
        return self._is_begun and all(reading.TEXT in present for present in self._classes)

    def _take(self, lines: bytes) -> None:
        # Imported here: a job's `--help` need not load it.
        import pyarrow as pa

        # A CR alone may end a line, too.
        has_odd_ends = b"\r" in lines and lines.count(b"\r") != lines.count(b"\r\n")
        if has_odd_ends or self._has_odd_quotes(lines):
            self._is_unknown = True
            return
        try:
            self._take_values(lines if self._is_begun else self._begin(lines))
        except pa.ArrowException:
            self._is_unknown = True

    def _has_odd_quotes(self, lines: bytes) -> bool:
        """Return whether a quote stands elsewhere than around a whole value of one line."""
        if self._quote not in lines:
            return False
        return self._quote in self._whole_values.sub(b"", b"\n" + lines)

    def _begin(self, lines: bytes) -> bytes:
        """Take the columns from the first line; return the lines that have values."""
        first, end, rest = lines.partition(b"\n")
        if first.startswith(BYTE_ORDER_MARK) or not first.strip(bytes(range(33))):
            self._is_unknown = True
            return b""
        self._classes = [frozenset()] * self._read(first + end, None).num_columns
        self._is_begun = True
        return rest if self._reader.has_header else lines

    def _take_values(self, lines: bytes) -> None:
        open_columns = [
            position
            for position, present in enumerate(self._classes)
            if reading.TEXT not in present
        ]
        if not lines or not open_columns:
            return
        if lines.startswith(BYTE_ORDER_MARK):  # Arrow would pass over it, at the start of any part
            self._is_unknown = True
            return
        table = self._read(lines, open_columns)
        for position, column in zip(open_columns, table.columns, strict=True):
            present = self._classes[position]
            if present and _match(column, "|".join(reading.PATTERNS[name] for name in present)):
                continue
            if _match(column, BLANK, is_any=True):
                self._is_unknown = True
                return
            self._classes[position] |= textcolumns.classes_of(column)

    def _read(self, lines: bytes, columns: Sequence[int] | None) -> Any:
        """Return columns of the lines as text; None: all, as many as the first line has."""
        # Imported here: a job's `--help` need not load it.
        import pyarrow as pa
        from pyarrow import csv

        names = [str(position) for position in range(len(self._classes))]
        chosen = [] if columns is None else [names[position] for position in columns]
        return csv.read_csv(
            io.BytesIO(lines),
            csv.ReadOptions(
                use_threads=False,
                block_size=len(lines) + 1,
                column_names=None if columns is None else names,
                autogenerate_column_names=columns is None,
            ),
            csv.ParseOptions(
                delimiter=self._reader.separator,
                quote_char=self._reader.quote,
                double_quote=True,
                escape_char=False,
                newlines_in_values=False,
                ignore_empty_lines=True,
            ),
            csv.ConvertOptions(
                include_columns=chosen,
                column_types=dict.fromkeys(chosen, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                null_values=["", self._reader.null_value],
            ),
        )


def _match(column: Any, pattern: str, *, is_any: bool = False) -> bool:
    """Return whether all values of a column match a pattern as a whole; or, if is_any, one does."""
    # Imported here: a job's `--help` need not load it.
    import pyarrow.compute as pc

    matches = pc.match_substring_regex(column, reading.anchored(pattern))
    if is_any:
        return pc.any(matches).as_py() is True
    return pc.all(matches).as_py() is not False


def _whole_values(quote: bytes, separator: bytes) -> re.Pattern[bytes]:
    """Return the pattern of quotes around a whole value, without line ends inside.

    It begins with a quote, which `re` searches fast, and looks back from there.
    """
    mark, between = re.escape(quote), rb"[\r\n" + re.escape(separator) + rb"]"
    inside = rb"[^\r\n" + mark + rb"]*"
    return re.compile(
        mark + rb"(?<=" + between + mark + rb")"
        + inside + rb"(?:" + mark + mark + inside + rb")*" + mark
        + rb"(?=" + between + rb")"
    )  # fmt: skip
