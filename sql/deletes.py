"""engine: reads Iceberg's delete files into rows that a scan can be joined against.

Position delete files name data files by location; the engine knows a group's files by their names
in the group's directory, so locations are translated here. Deletion vectors are Puffin blobs of
type `deletion-vector-v1`: length, magic, a 64-bit roaring bitmap, CRC-32. A damaged vector is a
fault, never an empty one, and so is a delete file that names no row of the data file for which it
was written: rows that were deleted must not come back.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyroaring

from sql import engine

POSITIONS: Any = pa.schema({"file": pa.string(), "position": pa.int64()})  # type: ignore[arg-type]  # stubs want one value type
ROWS: Any = pa.schema({"file_path": pa.string(), "pos": pa.int64()})  # type: ignore[arg-type]  # stubs want one value type
LOOKED_UP_ROWS = 1 << 20
"""Rows of delete files that are looked up together."""
VECTOR_MAGIC = b"\xd1\xd3\x39\x64"


DAMAGED = "091364"


def read_positions(group: engine.Group) -> pa.Table:
    """Return (file, position) of all rows gone; file is a name in the group's directory.

    Raises EngineFault for a damaged vector, for a file that names no row of its one target, and for
    one that is no position delete file.
    """
    parts = []
    wide: list[engine.PositionDeletes] = []
    for item in group.position_deletes:
        if item.form == "vector":
            parts.append(_read_vector(item, group.data_files[item.location].name))
        elif item.location:
            parts.append(_read_file_of_one(item, group.data_files[item.location].name))
        else:
            wide.append(item)
    if wide:
        parts += _read_wide(wide, group.data_files)
    # One row twice would be harmless to an anti join, but not to its memory.
    table = pa.concat_tables(parts) if parts else POSITIONS.empty_table()
    return table.group_by(["file", "position"]).aggregate([]).cast(POSITIONS)


def read_equal_rows(deletes: engine.EqualityDeletes) -> pa.Table:
    """Return the rows of equality delete files: the columns that are compared, named by id.

    With `compares_list` there is a column "list", and with `compares_age` a column "age", the
    highest of equal rows; both are texts as names of data files hold them.
    """
    wanted = [field_id for _, field_id in deletes.columns]
    tables = []
    for file in deletes.files:
        table = _by_field_id(_read_file(file.path), wanted)
        if deletes.compares_list:
            table = table.append_column("list", _repeat(file.list_number, table.num_rows))
        if deletes.compares_age:
            table = table.append_column("age", _repeat(file.age, table.num_rows))
        tables.append(table)
    together = pa.concat_tables(tables, promote_options="permissive")
    if not deletes.compares_age:
        return together
    # A key that was deleted often would meet each of its rows as often.
    keys = [name for name in together.column_names if name != "age"]
    newest = together.group_by(keys).aggregate([("age", "max")])
    return _with_texts(newest.rename_columns({"age_max": "age"}), ("list", "age"))


def _repeat(number: int, rows: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(number, pa.int64()), rows)


def _with_texts(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    for index, name in enumerate(table.column_names):
        if name in columns:
            texts = pc.utf8_lpad(table[name].cast(pa.string()), engine.NUMBER_LENGTH, "0")
            table = table.set_column(index, name, texts)
    return table


def _by_field_id(table: pa.Table, wanted: list[int]) -> pa.Table:
    places = {}
    for index, field in enumerate(table.schema):
        stated = (field.metadata or {}).get(b"PARQUET:field_id")
        if stated is not None:
            places[int(stated)] = index
    if any(field_id not in places for field_id in wanted):
        raise engine.EngineFault(
            "value",
            "Rows deleted from a table: an equality delete file lacks a column that it compares",
            DAMAGED,
        )
    columns = [_stored(table.column(places[field_id])) for field_id in wanted]
    return pa.table(dict(zip(map(str, wanted), columns, strict=True)))


def _stored(column: Any) -> Any:
    """Return the values of a column under the type that Arrow has for what Parquet stores.

    A Parquet file may note the Arrow type that its writer had: a UUID, a dictionary, a view, a time
    zone. Files with different ones can be neither concatenated nor grouped.
    """
    if isinstance(column.type, pa.BaseExtensionType):
        chunked_array: Any = pa.chunked_array
        return chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    stored = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string_view(stored):
        stored = pa.string()
    elif pa.types.is_binary_view(stored):
        stored = pa.binary()
    elif pa.types.is_timestamp(stored) and stored.tz is not None:
        stored = pa.timestamp(stored.unit, "UTC")
    return column if stored == column.type else column.cast(stored)


def read_vector(blob: bytes) -> pyroaring.BitMap64:
    """Return the positions of a `deletion-vector-v1` blob; raises ValueError when it is damaged."""
    if len(blob) < 12 or blob[4:8] != VECTOR_MAGIC:
        raise ValueError("not a deletion vector")
    (size_bytes,) = struct.unpack(">I", blob[:4])
    body = blob[4 : 4 + size_bytes]
    checksum = blob[4 + size_bytes : 8 + size_bytes]
    if len(body) != size_bytes or len(checksum) != 4:
        raise ValueError("a deletion vector is cut short")
    if struct.unpack(">I", checksum)[0] != zlib.crc32(body):
        raise ValueError("a deletion vector's checksum differs")
    return pyroaring.BitMap64.deserialize(body[4:])


def _read_vector(item: engine.PositionDeletes, name: str) -> pa.Table:
    with Path(item.path).open("rb") as stream:
        stream.seek(item.offset)
        blob = stream.read(item.length)
    try:
        positions = read_vector(blob)
    except ValueError as error:
        raise engine.EngineFault(
            "value", f"Rows deleted from {item.location}: {error}", DAMAGED
        ) from error
    column = pa.array(positions, pa.int64())
    return pa.table([pa.repeat(name, len(column)), column], schema=POSITIONS)


def _read_file_of_one(item: engine.PositionDeletes, name: str) -> pa.Table:
    table = _read_rows(item)
    wanted = pc.equal(table["file_path"], pa.scalar(item.location, pa.string()))
    positions = table["pos"].filter(wanted)
    if table.num_rows and not len(positions):
        raise engine.EngineFault(
            "value",
            f"Rows deleted from {item.location}: the delete file names none of them",
            DAMAGED,
        )
    return pa.table([pa.repeat(name, len(positions)), positions], schema=POSITIONS)


def _read_wide(
    items: Sequence[engine.PositionDeletes], data_files: Mapping[str, engine.ScanFile]
) -> Iterator[pa.Table]:
    """Yield the rows of delete files that may name many data files.

    Many files' rows are looked up together, for each look-up first makes a table of all locations.
    """
    listed = {
        location: file for location, file in data_files.items() if file.list_number is not None
    }
    locations = pa.array(list(listed), pa.string())
    names = pa.array([file.name for file in listed.values()], pa.string())
    numbers = pa.array([file.list_number for file in listed.values()], pa.int64())
    sequence_numbers = pa.array([file.sequence_number for file in listed.values()], pa.int64())
    gathered: list[pa.Table] = []
    rows = 0
    for place, item in enumerate(items):
        table = _read_rows(item)
        by_item = {
            "list_number": pa.repeat(pa.scalar(item.list_number, pa.int64()), table.num_rows),
            "sequence_number": pa.repeat(
                pa.scalar(item.sequence_number, pa.int64()), table.num_rows
            ),
        }
        for column, values in by_item.items():
            table = table.append_column(column, values)
        gathered.append(table)
        rows += table.num_rows
        if rows < LOOKED_UP_ROWS and place < len(items) - 1:
            continue
        together = pa.concat_tables(gathered)
        gathered, rows = [], 0
        index = pc.index_in(together["file_path"], value_set=locations)
        is_present = pc.is_valid(index)
        together, index = together.filter(is_present), index.filter(is_present)
        reached = pc.and_(
            pc.equal(numbers.take(index), together["list_number"]),
            pc.less_equal(sequence_numbers.take(index), together["sequence_number"]),
        )
        yield pa.table(
            [names.take(index.filter(reached)), together["pos"].filter(reached)], schema=POSITIONS
        )


def _read_rows(item: engine.PositionDeletes) -> pa.Table:
    names = ["file_path", "pos"]
    try:
        return _read_file(item.path, names).select(names).cast(ROWS)
    except (pa.ArrowException, KeyError) as error:
        raise engine.EngineFault(
            "value",
            f"Rows deleted from {item.location or 'a table'}: a position delete file has no columns"
            " file_path and pos of texts and numbers",
            DAMAGED,
        ) from error


def _read_file(path: str, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of a file, which is small: threads would cost more than they spare."""
    with pq.ParquetFile(path) as file:
        return file.read(columns=columns, use_threads=False)
