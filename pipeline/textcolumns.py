"""engine: reads CSV files into typed Arrow columns, by the rules of `reading`.

Values are text first (`read`). The classes of all values of a column, in all files together, decide
its type; then the text becomes values of that type (`rows`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import errors, inspection, jobs, progress, reading, sources

READABLE = (*reading.INFERRED, "float", "string")
"""Types of a table's columns whose values both engines read from the same text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextRows:
    """The rows of all files as text. names: the spelling of columns by their name in lower case.

    parts: of each file with text its number of rows, and its columns by lower-case name. listing:
    all files.
    """

    names: Mapping[str, str]
    parts: Sequence[tuple[int, Mapping[str, Any]]]
    listing: Sequence[sources.Source]

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(count for count, _ in self.parts)


def read(reader: reading.SourceReader, contents: Iterable[sources.SourceContent]) -> TextRows:
    """Return the rows of files as text. Raises BadSource, NotForArrow."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow.compute as pc

    parts: list[tuple[int, dict[str, Any]]] = []
    names: dict[str, str] = {}
    listing: list[sources.Source] = []
    for opened in contents:
        source, content = opened.source, opened.content
        listing.append(source)
        text_shape = inspection.shape(io.BytesIO(content), source, reader)
        if text_shape is None:
            continue
        if inspection.has_blank_lines(content, reader):
            raise errors.NotForArrow("a line of white space")
        line_end = inspection.line_end(content)
        if text_shape.spans_lines and line_end == b"\r":
            raise errors.NotForArrow("line ends inside quotes where lines end with CR")
        header, row_count, texts = _texts(opened, reader)
        if text_shape.spans_lines and line_end == b"\r\n":
            # As Spark: where lines end with CR LF, a line end inside quotes becomes LF.
            texts = [pc.replace_substring(text, "\r\n", "\n") for text in texts]
        if not reader.has_header and parts and list(parts[0][1]) != [one.lower() for one in header]:
            raise errors.NotForArrow("files without a header that differ in width")
        for name in header:
            names.setdefault(name.lower(), name)
        lower = (name.lower() for name in header)
        parts.append((row_count, dict(zip(lower, texts, strict=True))))
    if not names:
        raise errors.every_file_empty("csv")
    return TextRows(names=names, parts=parts, listing=listing)


def rows(
    s3: Any,
    reader: reading.SourceReader,
    read: TextRows,
    columns: Mapping[str, str],
    schema: Mapping[str, str],
    so_far: progress.ReadCount,
) -> Any:
    """Return the rows as an Arrow table. columns: the table's types by name in lower case.

    schema: types of columns that stand first, whether or not a source has them. so_far: gains the
    columns that have their type. Raises BadSource, BadArgument, NotForArrow.
    """
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    fixed = {name.lower(): column_type for name, column_type in schema.items()}
    names = {**read.names, **{name.lower(): name for name in schema}}
    names = {name.lower(): name for name in jobs.in_order(schema, names.values())}
    whole = {
        name: pa.chunked_array(
            [part.get(name, pa.nulls(count, pa.string())) for count, part in read.parts],
            pa.string(),
        )
        for name in names
    }
    classes = {
        name: classes_of(column) if reader.infers or name in {*columns, *fixed} else frozenset()
        for name, column in whole.items()
    }
    types = {
        name: _readable(fixed[name])
        if name in fixed and name not in columns
        else _type(name, classes[name], reader, columns)
        for name in names
    }
    misfits = {
        name: column_type
        for name, column_type in types.items()
        if not reading.holds(column_type, classes[name])
    }
    if misfits:
        inspection.locate_in_csv(s3, read.listing, reader, misfits)
        raise errors.NotForArrow(f"a value of column {next(iter(misfits))!r}")
    values: dict[str, Any] = {}
    for name, column in whole.items():
        values[names[name]] = typed(column, types[name])
        so_far.end()
    return pa.table(values)


def _texts(
    content: sources.SourceContent, reader: reading.SourceReader
) -> tuple[tuple[str, ...], int, list[Any]]:
    """Return a file's column names, its number of rows, and its columns as text."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    source = content.source
    try:
        table = inspection.records(content.opened(), source, reader)
        rows = [row for _, row in table.rows]
    except csv.Error as error:
        raise errors.NotForArrow(f"{source.place}: {error}") from error
    except UnicodeError as error:
        raise errors.BadSource(f"{source.place} is not {reader.encoding}") from error
    lower = [name.lower() for name in table.header]
    if len(set(lower)) != len(lower) or not all(lower):
        raise errors.NotForArrow("a header with an empty name, or one name twice")
    absent = {"", reader.null_value}
    columns = [
        pa.array([None if value in absent else value for value in column], pa.string())
        for column in zip(*rows, strict=True)
    ]
    if not rows:
        columns = [pa.array([], pa.string()) for _ in table.header]
    return table.header, len(rows), columns


def _type(
    name: str, present: frozenset[str], reader: reading.SourceReader, columns: Mapping[str, str]
) -> str:
    if name not in columns:
        return reading.type_of(present) if reader.infers else "string"
    return reading.type_into(_readable(columns[name]), present)


def _readable(column_type: str) -> str:
    if column_type not in READABLE:
        raise errors.NotForArrow(f"a column of the type {column_type}")
    return column_type


def classes_of(column: Any) -> frozenset[str]:
    """Return the classes of a text column's values."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow.compute as pc

    left = pc.unique(column).drop_null()
    present = set()
    for name, pattern in reading.PATTERNS.items():
        if not len(left):
            break
        matches = pc.match_substring_regex(left, reading.anchored(pattern))
        if pc.any(matches).as_py():
            present.add(name)
            left = left.filter(pc.invert(matches))
    if len(left):
        present.add(reading.TEXT)
    return frozenset(present)


def typed(column: Any, column_type: str) -> Any:
    """Return a text column as values of a type, which the classes of its values allow."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa
    import pyarrow.compute as pc

    if column_type == "boolean":
        return pc.equal(pc.ascii_lower(column), pa.scalar("true"))
    if column_type == "timestamptz":
        return _with_zone(column).cast(pa.timestamp("us", tz="UTC"))
    arrow_type = {
        "int": pa.int32(), "long": pa.int64(), "decimal(38,0)": pa.decimal128(38, 0),
        "float": pa.float32(), "double": pa.float64(), "date": pa.date32(), "string": pa.string(),
    }[column_type]  # fmt: skip
    return column.cast(arrow_type)


def _with_zone(column: Any) -> Any:
    """Return times as text with a time of day, up to microseconds, and a zone: UTC by default."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow.compute as pc

    text = pc.replace_substring_regex(column, pattern=r"^(.{10})$", replacement=r"\1T00:00:00")
    text = pc.replace_substring_regex(text, pattern=r"(\.\d{6})\d+", replacement=r"\1")
    zoned = pc.match_substring_regex(text, r"(?:Z|[+-]\d\d:\d\d)$")
    return pc.if_else(zoned, text, pc.binary_join_element_wise(text, "Z", ""))
