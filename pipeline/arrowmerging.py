"""engine: what a small merging load changes, worked out with PyArrow. The result is `merging`'s.

The rows of a table that have a key of the sources are looked for in the data files whose bounds
admit one. A file that has such a row is written again without it, unless the table's row is newer.
What Spark would compare otherwise, or what is too large, raises NotForArrow before anything is
written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pipeline import errors, jobs, parquetfiles, progress

Key: TypeAlias = tuple[Any, ...]

TABLE_FILES_MAX: Final = 2_000
"""Data files of a table whose manifests are read here."""
FILES_MAX: Final = 200
"""Data files that are searched for keys."""
ROWS_MAX: Final = 1_000_000
"""Rows of the sources, and rows of the data files that are searched: a key takes hundreds of bytes
as Python's objects, however few in Arrow."""
LITERALS_MAX: Final = 200
"""PyIceberg compares a file's bounds with so many values at most; with more, with the range."""
NOTHING: Final = jobs.MergeCounts(inserted=0, updated=0, deleted=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchBounds:
    """How much of a table is searched. stored_bytes: of data files; unpacked_bytes: of their
    values in memory."""

    stored_bytes: int
    unpacked_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MergedRows:
    """What a load writes. rows: an Arrow table of all rows to write, the replaced files' among
    them. replaced: PyIceberg's DataFile of each file that is written again. is_change: whether the
    rows depend on those of the table."""

    rows: Any
    replaced: Sequence[Any] = ()
    counts: jobs.MergeCounts = NOTHING
    is_change: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoredFile:
    """A data file of the table, and its rows in the types of the table after the load."""

    file: Any
    rows: Any
    keys: Mapping[int, Key]


@dataclass(kw_only=True, slots=True)
class _Match:
    """The rows of the table that have a key. Mutable: grows with each file. first: the position of
    the first one, as (file, row)."""

    first: tuple[int, int]
    count: int = 0
    files: set[int] = dataclasses.field(default_factory=set)
    newest: Any = None


def check(merge: jobs.Merge, rows: Any) -> None:
    """Raise as `merging.check` does, and NotForArrow for types that Spark compares otherwise."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    column_types = {field.name.lower(): field.type for field in rows.schema}
    for option, name in merge.named:
        column_type = column_types.get(name.lower())
        if column_type is None:
            raise errors.no_column(option, name, rows.column_names)
        is_fraction = pa.types.is_floating(column_type)
        if option == "--delete-flag":
            if is_fraction or pa.types.is_decimal(column_type):
                raise errors.NotForArrow(f"--delete-flag of type {column_type}")
            if not (pa.types.is_boolean(column_type) or pa.types.is_integer(column_type)):
                raise errors.no_flag(name, str(column_type))
        elif pa.types.is_nested(column_type):
            raise errors.no_plain_column(option, name)
        elif is_fraction or pa.types.is_binary(column_type):
            raise errors.NotForArrow(f"{option} of type {column_type}")


def merged(
    merge: jobs.Merge,
    rows: Any,
    table: Any,
    metadata: Any,
    *,
    bounds: SearchBounds,
    begin: Callable[[int], progress.ReadCount],
) -> MergedRows:
    """Work out a merge of Arrow rows, whose columns are spelled as the table's.

    table: PyIceberg's, None where the load creates it. metadata: the table's, with the columns that
    the rows add. begin: called with the number of files to read, for what counts them.
    Raises NotForArrow; BadSource for keys that are NULL or, without an order, for two different
    rows with one key.
    """
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    if rows.num_rows > ROWS_MAX:
        raise errors.NotForArrow(f"a merge of more than {ROWS_MAX:,} rows")
    names = {name.lower(): name for name in rows.column_names}
    key = [names[name.lower()] for name in merge.key]
    order_by = names[merge.order_by.lower()] if merge.order_by else None
    source_keys = _keys(rows, key)
    absent = sum(None in one for one in source_keys)
    if absent:
        raise errors.keys_absent(progress.counted(absent, "row"), merge.key)
    order = _values(rows[order_by]) if order_by else [None] * rows.num_rows
    newest = _newest(merge, rows, key, source_keys, order)
    flags = _values(rows[names[merge.delete_flag.lower()]]) if merge.delete_flag else None
    is_deleted = [bool(flag) for flag in flags] if flags else [False] * rows.num_rows
    if table is None or table.current_snapshot() is None:
        kept = [row for row in newest.values() if not is_deleted[row]]
        live = () if table is None else table.schema().column_names
        stored = rows.select(merge.stored(rows.column_names, live))
        return MergedRows(
            rows=stored.take(pa.array(kept, pa.int64())),
            counts=jobs.MergeCounts(inserted=len(kept), updated=0, deleted=0),
            is_change=True,
        )
    live = [field.name for field in table.schema().fields]
    if not set(key) <= set(live):
        raise errors.NotForArrow("a key that the table does not have")
    stored = list(_stored(rows, key, table, metadata, newest, bounds, begin))
    is_ordered = order_by is not None and order_by in live
    matches = _matches(stored, newest, order_by if is_ordered else None)
    applied = {
        one: row
        for one, row in newest.items()
        if one not in matches
        or matches[one].newest is None
        or (order[row] is not None and order[row] >= matches[one].newest)
    }
    added = [(row, matches.get(one)) for one, row in applied.items() if not is_deleted[row]]
    counts = jobs.MergeCounts(
        inserted=sum(match is None for _, match in added),
        updated=sum(match is not None for _, match in added),
        deleted=sum(
            matches[one].count for one, row in applied.items() if is_deleted[row] and one in matches
        ),
    )
    rewritten = set[int]().union(*(matches[one].files for one in applied if one in matches))
    schema = stored_schema(metadata)
    parts = [_without(stored[number], applied) for number in sorted(rewritten)]
    parts.append(_added(rows, added, stored, schema))
    return MergedRows(
        rows=pa.concat_tables(parts).combine_chunks(),
        replaced=[stored[number].file for number in sorted(rewritten)],
        counts=counts,
        is_change=True,
    )


def stored_schema(metadata: Any) -> Any:
    """Return a table's schema as Arrow's. Raises NotForArrow for types that have no place here."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return parquetfiles.plain_schema(schema_to_pyarrow(metadata.schema(), include_field_ids=False))


def _newest(
    merge: jobs.Merge, rows: Any, key: Sequence[str], source_keys: Sequence[Key], order: list[Any]
) -> dict[Key, int]:
    """Return the number of the row that is the last of its key by the order; NULL is the first."""
    newest: dict[Key, int] = {}
    equal: dict[Key, list[int]] = {}
    for row, one in enumerate(source_keys):
        last = newest.setdefault(one, row)
        if last == row:
            continue
        if order[row] == order[last]:
            equal.setdefault(one, [last]).append(row)
        elif order[last] is None or (order[row] is not None and order[row] > order[last]):
            newest[one] = row
            equal.pop(one, None)
    for numbers in equal.values():
        count = len({repr(entry) for entry in _entries(rows.take(numbers))})
        if count == 1:
            continue
        if merge.order_by:
            raise errors.NotForArrow("different rows of one key with the same --order-by")
        entry = _entries(rows.select(list(key)).slice(numbers[0], 1))[0]
        named = ", ".join(
            f"{name} = {entry[column]}" for name, column in zip(merge.key, key, strict=True)
        )
        raise errors.key_repeated(count, named)
    return newest


def _stored(
    rows: Any,
    key: Sequence[str],
    table: Any,
    metadata: Any,
    wanted: Mapping[Key, int],
    bounds: SearchBounds,
    begin: Callable[[int], progress.ReadCount],
) -> Iterator[_StoredFile]:
    """Yield the data files that can have one of the wanted keys, with their rows."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow.compute as pc
    from pyarrow import parquet
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.manifest import FileFormat
    from pyiceberg.table import FileScanTask

    if not wanted:
        return
    schema = stored_schema(metadata)
    if any(schema.field(name).type != rows.schema.field(name).type for name in key):
        raise errors.NotForArrow("a key of another type than the table's")
    _check_table(table)
    with _for_spark():
        tasks = list(table.scan(row_filter=_condition(rows, key)).plan_files())
    # The count in the snapshot's summary is optional, and what its writer says.
    if any(task.delete_files for task in tasks):
        raise errors.NotForArrow("a table with delete files")
    if len(tasks) > FILES_MAX:
        raise errors.NotForArrow(f"a search of {progress.counted(len(tasks), 'data file')}")
    if sum(task.file.file_size_in_bytes for task in tasks) > bounds.stored_bytes:
        raise errors.NotForArrow(f"a search of more than {bounds.stored_bytes / 1e6:.0f} MB")
    if sum(task.file.record_count for task in tasks) > ROWS_MAX:
        raise errors.NotForArrow(f"a search of more than {ROWS_MAX:,} rows")
    scan = ArrowScan(metadata, table.io, metadata.schema(), AlwaysTrue())
    value_sets = {name: pc.unique(rows[name]) for name in key}
    read, left = begin(len(tasks)), bounds.unpacked_bytes
    for task in tasks:
        if task.file.file_format != FileFormat.PARQUET:
            raise errors.NotForArrow(f"a data file of the format {task.file.file_format.value}")
        with table.io.new_input(task.file.file_path).open() as stream:
            content = stream.read()
        with _for_spark():
            file = parquet.ParquetFile(io.BytesIO(content))
            _check_footer(file.metadata, task.file)
            for size_bytes in parquetfiles.unpacked_sizes(file, content):
                left -= size_bytes
                if left < 0:
                    raise errors.NotForArrow(f"a search of more than {bounds.unpacked_bytes} bytes")
            stored = scan.to_table([FileScanTask(task.file)]).cast(schema)
        read.add(task.file.file_size_in_bytes)
        read.end()
        is_candidate: Any = None
        for name, value_set in value_sets.items():
            is_equal = pc.is_in(stored[name], value_set=value_set)
            is_candidate = is_equal if is_candidate is None else pc.and_(is_candidate, is_equal)
        numbers = pc.indices_nonzero(is_candidate)
        pairs = zip(numbers.to_pylist(), _keys(stored.take(numbers), key), strict=True)
        yield _StoredFile(
            file=task.file, rows=stored, keys={row: one for row, one in pairs if one in wanted}
        )


def _check_table(table: Any) -> None:
    """Raise NotForArrow for a table with delete files, several partition specs or many files."""
    counts = table.current_snapshot().summary
    if counts is None or counts.get("total-delete-files") != "0":
        raise errors.NotForArrow("a table with delete files")
    if len(table.metadata.partition_specs) > 1:
        raise errors.NotForArrow("a table of several partition specs")
    if int(counts.get("total-data-files") or TABLE_FILES_MAX + 1) > TABLE_FILES_MAX:
        raise errors.NotForArrow(f"a table of more than {TABLE_FILES_MAX:,} data files")


def _check_footer(footer: Any, file: Any) -> None:
    """Raise NotForArrow for a data file that PyArrow reads otherwise than Spark, or that has other
    rows than its manifest says."""
    # Arrow reads INT96 as nanoseconds, which end in the year 2262: later ones come out as others.
    for number in range(footer.num_columns):
        if footer.schema.column(number).physical_type == "INT96":
            raise errors.NotForArrow("a data file with times of the type INT96")
    if footer.num_rows != file.record_count:
        raise errors.NotForArrow("a data file with other rows than its manifest says")


@contextlib.contextmanager
def _for_spark() -> Iterator[None]:
    """Raise NotForArrow for what PyIceberg and PyArrow cannot read, as Parquet without field ids
    in a table without a name mapping."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg import exceptions
    from pyiceberg.io import pyarrow as iceberg_arrow

    try:
        yield
    except (
        ValueError,
        TypeError,
        NotImplementedError,
        exceptions.ResolveError,
        iceberg_arrow.UnsupportedPyArrowTypeException,
    ) as error:
        reason = " ".join(str(error).split())[: progress.REASON_MAX]
        raise errors.NotForArrow(f"what PyIceberg does not read ({reason})") from error


def _condition(rows: Any, key: Sequence[str]) -> Any:
    """Return a condition that holds for each row of the table with a key of the rows."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyiceberg import expressions

    condition: Any = expressions.AlwaysTrue()
    for name in key:
        if not (pa.types.is_integer(rows[name].type) or pa.types.is_string(rows[name].type)):
            continue
        distinct = pc.unique(rows[name])
        if len(distinct) <= LITERALS_MAX:
            part: Any = _untyped(expressions.In)(name, distinct.to_pylist())
        else:
            part = expressions.And(
                _untyped(expressions.GreaterThanOrEqual)(name, pc.min(distinct).as_py()),
                _untyped(expressions.LessThanOrEqual)(name, pc.max(distinct).as_py()),
            )
        condition = expressions.And(condition, part)
    return condition


def _untyped(condition: Any) -> Any:
    """Return a class of conditions, whose types PyIceberg does not state."""
    return condition


def _matches(
    stored: Sequence[_StoredFile], wanted: Mapping[Key, int], order_by: str | None
) -> dict[Key, _Match]:
    """Return what the table has of each wanted key. order_by: the table's column, if it counts."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    matches: dict[Key, _Match] = {}
    for number, one in enumerate(stored):
        orders = [None] * len(one.keys)
        if order_by is not None:
            orders = _values(one.rows[order_by].take(pa.array(one.keys, pa.int64())))
        for (row, key), order in zip(one.keys.items(), orders, strict=True):
            match = matches.setdefault(key, _Match(first=(number, row)))
            match.count += 1
            match.files.add(number)
            if order is not None and (match.newest is None or order > match.newest):
                match.newest = order
    return matches


def _without(stored: _StoredFile, applied: Mapping[Key, int]) -> Any:
    """Return the rows of a file but those whose keys are applied."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    gone = {row for row, key in stored.keys.items() if key in applied}
    return stored.rows.filter(pa.array([row not in gone for row in range(stored.rows.num_rows)]))


def _added(
    rows: Any,
    added: Sequence[tuple[int, _Match | None]],
    stored: Sequence[_StoredFile],
    schema: Any,
) -> Any:
    """Return the rows that come in. A column that the sources do not have keeps its value."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    starts, total = [], 0
    for one in stored:
        starts.append(total)
        total += one.rows.num_rows
    before = [
        None if match is None else starts[match.first[0]] + match.first[1] for _, match in added
    ]
    taken = rows.take(pa.array([row for row, _ in added], pa.int64()))
    columns = []
    for field in schema:
        if field.name in taken.column_names:
            columns.append(taken[field.name].cast(field.type))
            continue
        chunks = [chunk for one in stored for chunk in one.rows[field.name].chunks]
        columns.append(pa.chunked_array(chunks, field.type).take(pa.array(before, pa.int64())))
    return pa.table(columns, schema=schema)


def _keys(rows: Any, key: Sequence[str]) -> list[Key]:
    return list(zip(*(_values(rows[name]) for name in key), strict=True))


def _values(column: Any) -> list[Any]:
    """Return a column's values, so that equal ones are equal and the greater one is greater."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    # Python has no dates after the year 9999.
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return list(column.to_pylist())


def _entries(rows: Any) -> list[dict[str, Any]]:
    try:
        return list(rows.to_pylist())
    except (ValueError, OverflowError) as error:
        raise errors.NotForArrow("dates that Python does not have") from error
