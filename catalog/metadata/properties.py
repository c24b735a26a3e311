"""rule: the properties that this catalog reads, and those that are never stored.

Source: Iceberg's table and view properties.
"""

from __future__ import annotations

from collections.abc import Mapping

from catalog.metadata import errors

FORMAT_VERSION = "format-version"
FORMAT_VERSION_DEFAULT = 2

RESERVED = frozenset(
    {
        FORMAT_VERSION,
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""They direct a create or an update; their values are stored elsewhere in the metadata."""

CREATE_DEFAULTS: Mapping[str, str] = {"write.parquet.compression-codec": "zstd"}
"""Stored with a new table, as the Java implementation does; writers' own default is gzip."""

PREVIOUS_VERSIONS_MAX = "write.metadata.previous-versions-max"
PREVIOUS_VERSIONS_MAX_DEFAULT = 100
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"

VIEW_HISTORY_SIZE = "version.history.num-entries"
VIEW_HISTORY_SIZE_DEFAULT = 10
VIEW_DROP_DIALECT_ALLOWED = "replace.drop-dialect.allowed"


def storable(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that may be stored."""
    return {name: value for name, value in properties.items() if name not in RESERVED}


def whole_number(properties: Mapping[str, str], name: str, default: int) -> int:
    """Return a property's value as an integer. Raises BadUpdate."""
    text = properties.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise errors.BadUpdate(f"Invalid integer value of {name}: {text}") from None


def switched_on(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return a property's value as a boolean; every value except `true` is false."""
    text = properties.get(name)
    return default if text is None else text.strip().lower() == "true"
