"""rule: options of Iceberg tables that are properties of the table.

The same ones stand in CREATE ICEBERG TABLE, after SET of ALTER TABLE, and by their names after
UNSET. Each decides how files are written, from then on. Source: Snowflake's pages CREATE ICEBERG
TABLE and Parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from sql import errors

Value: TypeAlias = str | int | bool
Properties: TypeAlias = tuple[tuple[str, str | None], ...]
"""Names of the table's properties, and their values; None removes one."""

FILE_SIZE: Final = "write.target-file-size-bytes"
FORMAT_VERSION: Final = "format-version"
WRITE_MODES: Final = ("write.delete.mode", "write.update.mode", "write.merge.mode")
MERGE_ON_READ: Final = "merge-on-read"
COPY_ON_WRITE: Final = "copy-on-write"

FILE_SIZES: Final = {"16MB": 16 << 20, "32MB": 32 << 20, "64MB": 64 << 20, "128MB": 128 << 20}
BEHAVIOURS: Final[Mapping[str, str | None]] = {
    "AUTO": None,
    "ENABLED": MERGE_ON_READ,
    "DISABLED": COPY_ON_WRITE,
}

NAMES: Final = (
    "TARGET_FILE_SIZE",
    "ICEBERG_VERSION",
    "ICEBERG_MERGE_ON_READ_BEHAVIOR",
    "ENABLE_ICEBERG_MERGE_ON_READ",
)


def properties(name: str, value: Value) -> Properties:
    """Return the properties that an option sets. Raises SqlError 001008 for a value it cannot have.

    name: one of NAMES.
    """
    text = str(value).upper()
    match name:
        case "TARGET_FILE_SIZE" if text in FILE_SIZES:
            return ((FILE_SIZE, str(FILE_SIZES[text])),)
        case "TARGET_FILE_SIZE" if text == "AUTO":
            return ((FILE_SIZE, None),)
        case "ICEBERG_VERSION" if type(value) is int and value != 1:
            return ((FORMAT_VERSION, str(value)),)
        case "ICEBERG_MERGE_ON_READ_BEHAVIOR" if text in BEHAVIOURS:
            return _write_modes(BEHAVIOURS[text])
        case "ENABLE_ICEBERG_MERGE_ON_READ" if isinstance(value, bool):
            return _write_modes(MERGE_ON_READ if value else COPY_ON_WRITE)
    raise errors.invalid_parameter(name, value)


def defaults(name: str) -> Properties | None:
    """Return the properties that UNSET of an option removes; None if it cannot be unset."""
    match name:
        case "TARGET_FILE_SIZE":
            return ((FILE_SIZE, None),)
        case "ICEBERG_MERGE_ON_READ_BEHAVIOR" | "ENABLE_ICEBERG_MERGE_ON_READ":
            return _write_modes(None)
    return None


def _write_modes(mode: str | None) -> Properties:
    return tuple((each, mode) for each in WRITE_MODES)
