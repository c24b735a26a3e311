"""rule: what decoding of staged files returns: their columns, and a report of each file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from sql import tabletypes

FAULTS_KEPT_MAX: Final = 200
"""Faults of one file that a report describes; the others are counted."""

FILE: Final = "metadata$filename"
ROW: Final = "metadata$file_row_number"
KEY: Final = "metadata$file_content_key"
MODIFIED: Final = "metadata$file_last_modified"
STARTED: Final = "metadata$start_scan_time"
NUMBER: Final = "#file"
LINE: Final = "#line"

EXTRA: Final = {
    FILE: "string",
    ROW: "long",
    KEY: "string",
    MODIFIED: "timestamp",
    STARTED: "timestamptz",
    NUMBER: "long",
    LINE: "long",
}
"""Columns beside a file's own, by their Iceberg types."""


CANONICAL: Final = "variant"
"""The type of a column of canonical texts (`sql.variants`), which keep what JSON lacks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodedColumn:
    """A decoded column. type: as Iceberg names it. is_document: it is a VARIANT; a JSON text, or
    with the type CANONICAL a canonical text."""

    name: str
    type: str
    is_document: bool = False
    nullable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFault:
    """A record, or a whole file, that could not be read. row: the record's number, from 1."""

    code: str
    message: str
    line: int = 0
    character: int = 0
    column: int = 0
    row: int = 0


def stored_type(type_name: str) -> pa.DataType:
    """Return the Arrow type in which decoded files hold a column of a type."""
    return pa.string() if type_name == CANONICAL else tabletypes.stored_type(type_name)


@dataclass(kw_only=True, slots=True)
class FileReport:
    """What was read of one file; mutable. is_broken: its end was not reached."""

    rows: int = 0
    parsed: int = 0
    faults: list[FileFault] = field(default_factory=list)
    faults_count: int = 0
    is_broken: bool = False
    header: list[str] = field(default_factory=list)
    columns: list[DecodedColumn] = field(default_factory=list)

    def add(self, fault: FileFault) -> None:
        self.faults_count += 1
        if len(self.faults) < FAULTS_KEPT_MAX:
            self.faults.append(fault)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingReport:
    """What was read of all files. columns: those that every Parquet file has."""

    files: list[FileReport]
    columns: list[DecodedColumn]
