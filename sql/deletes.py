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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyroaring

from sql import engine

POSITIONS: Any = pa.schema({"file": pa.string(), "position": pa.int64()})  # type: ignore[arg-type]  # stubs want one value type
VECTOR_MAGIC = b"\xd1\xd3\x39\x64"


DAMAGED = "091364"


def read_positions(deletes: Sequence[engine.PositionDeletes]) -> pa.Table:
    """Return (file, position) of all rows gone; file is a name in the group's directory.

    Raises EngineFault for a damaged vector, and for a file that names no row of its one target.
    """
    parts = [
        _read_vector(item) if item.form == "vector" else _read_position_file(item)
        for item in deletes
    ]
    # One row twice would be harmless to an anti join, but not to its memory.
    table = pa.concat_tables(parts) if parts else POSITIONS.empty_table()
    return table.group_by(["file", "position"]).aggregate([]).cast(POSITIONS)


def read_equal_rows(deletes: engine.EqualityDeletes) -> pa.Table:
    """Return the rows of equality delete files: the columns that are compared, named by id."""
    wanted = [field_id for _, field_id in deletes.columns]
    tables = [
        _by_field_id(pq.read_table(path, partitioning=None), wanted) for path in deletes.paths
    ]
    return pa.concat_tables(tables, promote_options="permissive")


def _by_field_id(table: pa.Table, wanted: list[int]) -> pa.Table:
    places = {}
    for index, field in enumerate(table.schema):
        stated = (field.metadata or {}).get(b"PARQUET:field_id")
        if stated is not None:
            places[int(stated)] = index
    if any(field_id not in places for field_id in wanted):
        raise ValueError("an equality delete file lacks a column that it compares")
    columns = [table.column(places[field_id]) for field_id in wanted]
    return pa.table(dict(zip(map(str, wanted), columns, strict=True)))


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


def _read_vector(item: engine.PositionDeletes) -> pa.Table:
    ((location, name),) = item.targets.items()
    with Path(item.path).open("rb") as stream:
        stream.seek(item.offset)
        blob = stream.read(item.length)
    try:
        positions = read_vector(blob)
    except ValueError as error:
        raise engine.EngineFault("value", f"Rows deleted from {location}: {error}", DAMAGED) from (
            error
        )
    column = pa.array(positions, pa.int64())
    return pa.table([pa.repeat(name, len(column)), column], schema=POSITIONS)


def _read_position_file(item: engine.PositionDeletes) -> pa.Table:
    table = pq.read_table(item.path, columns=["file_path", "pos"], partitioning=None)
    locations = pa.array(list(item.targets), pa.string())
    index: Any = pc.index_in(table["file_path"].cast(pa.string()), value_set=locations)
    wanted = pc.is_valid(index)
    files = pa.array(list(item.targets.values()), pa.string()).take(
        pa.chunked_array(index.chunks, pa.int32()).filter(wanted).combine_chunks()
    )
    if item.names_target and table.num_rows and not len(files):
        raise engine.EngineFault(
            "value",
            f"Rows deleted from {next(iter(item.targets))}: the delete file names none of them",
            DAMAGED,
        )
    return pa.table([files, table["pos"].cast(pa.int64()).filter(wanted)], schema=POSITIONS)
