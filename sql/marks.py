"""engine: the delete files of a change that is written merge-on-read.

Changed rows stay in their data files and are marked as deleted. In format version 2 each data file
gets a position delete file, in format version 3 a deletion vector that takes over the positions of
the vector before it; the vectors of one change share a Puffin file. Never reads or stores a file.
Source: Iceberg spec, Delete Formats and Puffin spec.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring

from catalog import deletes as delete_rules
from catalog import manifests, scans
from sql import deletes

MODES: Final[Mapping[str, str]] = {
    "delete": "write.delete.mode",
    "update": "write.update.mode",
    "merge": "write.merge.mode",
}
"""The table property that chooses how a statement is written."""
MERGE_ON_READ: Final = "merge-on-read"
ROWS_MAX: Final = 1_000_000
"""Rows of one statement whose positions are kept in memory; more are written copy-on-write."""
FILES_MAX: Final = 1_000
"""Data files of one statement that get a delete file."""
VECTORS_BYTES_MAX: Final = 16 << 20
"""Bytes of the vectors that one statement takes over: all of them are in memory together."""

POS_ID: Final = 2_147_483_545
ROW_POSITION_ID: Final = 2_147_483_645
PUFFIN_MAGIC: Final = b"PFA1"
VECTORS_FORMAT_VERSION: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteFile:
    """A new delete file: its bytes, and how the manifest describes it."""

    uri: str
    data: bytes
    content_type: str
    described: tuple[manifests.DataFile, ...]


def fits(
    tasks: Sequence[scans.FileTask],
    properties: Mapping[str, str],
    *,
    statement: str,
    format_version: int,
    rows: int,
) -> bool:
    """Return whether the changed rows of these data files are marked, rather than rewritten.

    The table's property must say so. A table of version 1 has no deletes, and in version 3 a
    vector must take over older position delete files: such files are rewritten instead.
    """
    if properties.get(MODES[statement], "").lower() != MERGE_ON_READ or format_version < 2:
        return False
    if rows > ROWS_MAX or len(tasks) > FILES_MAX:
        return False
    if format_version < VECTORS_FORMAT_VERSION:
        return True
    earlier = [file for task in tasks for file in task.deletes.exact]
    return (
        all(task.deletes.wide is None for task in tasks)
        and all(file.is_deletion_vector for file in earlier)
        and sum(file.content_size_in_bytes or 0 for file in earlier) <= VECTORS_BYTES_MAX
    )


def replaced_vectors(tasks: Sequence[scans.FileTask]) -> list[manifests.DataFile]:
    """Return the vectors that new ones of these data files replace."""
    return [file for task in tasks for file in task.deletes.exact if file.is_deletion_vector]


def position_files(
    tasks: Mapping[int, scans.FileTask],
    positions: Mapping[int, Sequence[int]],
    uri_of: Callable[[manifests.DataFile, str], str],
) -> list[DeleteFile]:
    """Return a position delete file for each data file. positions: ascending, by file number.

    uri_of: returns the location of a new file beside a data file, given its suffix.
    """
    built = []
    for number, of_file in positions.items():
        data_file = tasks[number].data_file
        data = _position_rows(data_file.file_path, of_file)
        uri = uri_of(data_file, "-deletes.parquet")
        path = data_file.file_path.encode()
        bounds = {delete_rules.FILE_PATH_ID: path}
        described = manifests.DataFile(
            content=manifests.Content.POSITION_DELETES,
            file_path=uri,
            file_format="PARQUET",
            record_count=len(of_file),
            file_size_in_bytes=len(data),
            spec_id=data_file.spec_id,
            partition=data_file.partition,
            metrics=manifests.Metrics(
                lower_bounds={**bounds, POS_ID: struct.pack("<q", of_file[0])},
                upper_bounds={**bounds, POS_ID: struct.pack("<q", of_file[-1])},
            ),
            referenced_data_file=data_file.file_path,
        )
        built.append(
            DeleteFile(
                uri=uri,
                data=data,
                content_type="application/vnd.apache.parquet",
                described=(described,),
            )
        )
    return built


def vector_file(
    tasks: Mapping[int, scans.FileTask],
    positions: Mapping[int, Sequence[int]],
    earlier: Mapping[int, bytes],
    uri_of: Callable[[manifests.DataFile, str], str],
) -> DeleteFile:
    """Return one Puffin file with a vector for each data file.

    positions: as in `position_files`. earlier: the blobs of the vectors that are replaced, by file
    number. Raises ValueError for a damaged one.
    """
    first = tasks[next(iter(positions))].data_file
    uri = uri_of(first, "-deletes.puffin")
    data = bytearray(PUFFIN_MAGIC)
    blobs: list[dict[str, Any]] = []
    spans: list[tuple[manifests.DataFile, int, int, int]] = []
    for number, of_file in positions.items():
        data_file = tasks[number].data_file
        vector = pyroaring.BitMap64(of_file)
        if number in earlier:
            vector |= deletes.read_vector(earlier[number])
        body = deletes.VECTOR_MAGIC + vector.serialize()
        blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        spans.append((data_file, len(data), len(blob), len(vector)))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [ROW_POSITION_ID],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(data),
                "length": len(blob),
                "properties": {
                    "referenced-data-file": data_file.file_path,
                    "cardinality": str(len(vector)),
                },
            }
        )
        data += blob
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "Boathouse"}}).encode()
    data += PUFFIN_MAGIC + footer + struct.pack("<i", len(footer)) + bytes(4) + PUFFIN_MAGIC
    described = tuple(
        manifests.DataFile(
            content=manifests.Content.POSITION_DELETES,
            file_path=uri,
            file_format="PUFFIN",
            record_count=cardinality,
            file_size_in_bytes=len(data),
            spec_id=data_file.spec_id,
            partition=data_file.partition,
            metrics=manifests.Metrics(lower_bounds=bounds, upper_bounds=bounds),
            referenced_data_file=data_file.file_path,
            content_offset=offset,
            content_size_in_bytes=length,
        )
        for data_file, offset, length, cardinality in spans
        # PyIceberg looks for the path here; without it, it compares partitions, and NaN equals none
        for bounds in ({delete_rules.FILE_PATH_ID: data_file.file_path.encode()},)
    )
    return DeleteFile(
        uri=uri, data=bytes(data), content_type="application/octet-stream", described=described
    )


def _position_rows(path: str, positions: Sequence[int]) -> bytes:
    fields: list[pa.Field[Any]] = [
        pa.field(name, arrow_type, nullable=False, metadata={"PARQUET:field_id": str(field_id)})
        for name, arrow_type, field_id in (
            ("file_path", pa.string(), delete_rules.FILE_PATH_ID),
            ("pos", pa.int64(), POS_ID),
        )
    ]
    columns: list[Any] = [
        pa.array([path] * len(positions), pa.string()),
        pa.array(positions, pa.int64()),
    ]
    sink = pa.BufferOutputStream()
    rows = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    pq.write_table(rows, sink, compression="zstd", store_schema=False)
    return sink.getvalue().to_pybytes()
