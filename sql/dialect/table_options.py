"""rule: options of tables that are properties of the table.

The same ones stand in CREATE TABLE, after SET of ALTER TABLE, and by their names after UNSET. Those
of ICEBERG tables decide how files are written, from then on; DATA_RETENTION_TIME_IN_DAYS for how
long snapshots are kept at least. Options that ask for what Boathouse does not have take FALSE
alone. Source: Snowflake's pages CREATE TABLE, CREATE ICEBERG TABLE and Parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from sql import errors

Value: TypeAlias = str | int | bool
Properties: TypeAlias = tuple[tuple[str, str | None], ...]
"""Names of the table's properties, and their values; None removes one."""

FILE_SIZE: Final = "write.target-file-size-bytes"
SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
DAY_MS: Final = 24 * 60 * 60 * 1000
RETENTION: Final = "DATA_RETENTION_TIME_IN_DAYS"
RETENTION_DAYS_MAX: Final = 90
AGE_DIGITS_MAX: Final = 18
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
NAMES_OF_ALL: Final = (RETENTION, "CHANGE_TRACKING", "ENABLE_SCHEMA_EVOLUTION")
"""Options of every table, ICEBERG or not."""


def properties(name: str, value: Value) -> Properties:
    """Return the properties that an option sets. Raises SqlError 001008 for a value it cannot have.

    name: one of NAMES or NAMES_OF_ALL. Raises SqlError 000002 for what Boathouse does not have.
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
        case "DATA_RETENTION_TIME_IN_DAYS" if type(value) is int:
            if 0 <= value <= RETENTION_DAYS_MAX:
                return ((SNAPSHOT_AGE, str(value * DAY_MS)),)
        case "CHANGE_TRACKING" | "ENABLE_SCHEMA_EVOLUTION" if text == "FALSE":
            return ()
        case "CHANGE_TRACKING" | "ENABLE_SCHEMA_EVOLUTION" if text == "TRUE":
            raise errors.unsupported(f"{name} = TRUE")
    raise errors.invalid_parameter(name, value)


def defaults(name: str) -> Properties | None:
    """Return the properties that UNSET of an option removes; None if it cannot be unset."""
    match name:
        case "TARGET_FILE_SIZE":
            return ((FILE_SIZE, None),)
        case "ICEBERG_MERGE_ON_READ_BEHAVIOR" | "ENABLE_ICEBERG_MERGE_ON_READ":
            return _write_modes(None)
        case "DATA_RETENTION_TIME_IN_DAYS":
            return ((SNAPSHOT_AGE, None),)
        case "CHANGE_TRACKING" | "ENABLE_SCHEMA_EVOLUTION":
            return ()
    return None


def retention_days(stored: Mapping[str, str]) -> int | None:
    """Return DATA_RETENTION_TIME_IN_DAYS of a table's properties; None if it is not set."""
    text = stored.get(SNAPSHOT_AGE, "")
    if not text.isdecimal() or len(text) > AGE_DIGITS_MAX or int(text) % DAY_MS:
        return None
    return int(text) // DAY_MS


def check_retention(assigned: Iterable[tuple[str, str | None]], *, dropped_table_days: int) -> None:
    """Raise SqlError for a retention that is longer than a dropped table is kept."""
    days = retention_days({name: text for name, text in assigned if text is not None})
    if days is not None and days > dropped_table_days:
        raise errors.unsupported(
            f"{RETENTION} = {days}, which is more than dropped_table_days = {dropped_table_days}"
            " of the database"
        )


def _write_modes(mode: str | None) -> Properties:
    return tuple((each, mode) for each in WRITE_MODES)
