"""A valid example of every table update and requirement, and values that none of them expects."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from tests.kit import metadata as kit

FIELD: Final = {"id": 4, "name": "extra", "required": False, "type": "int"}
STATISTICS: Final = {
    "snapshot-id": 1,
    "statistics-path": "s3://lake/ns/t/metadata/1.puffin",
    "file-size-in-bytes": 10,
    "file-footer-size-in-bytes": 4,
    "blob-metadata": [
        {
            "type": "apache-datasketches-theta-v1",
            "snapshot-id": 1,
            "sequence-number": 1,
            "fields": [1],
            "properties": {"ndv": "3"},
        }
    ],
}
NESTED: Final = {
    "type": "struct",
    "fields": [
        {"id": 6, "name": "a", "required": True, "type": "decimal(9,2)"},
        {
            "id": 7,
            "name": "l",
            "required": False,
            "type": {
                "type": "list",
                "element-id": 8,
                "element": "string",
                "element-required": True,
            },
        },
        {
            "id": 9,
            "name": "m",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 10,
                "key": "string",
                "value-id": 11,
                "value": "fixed[4]",
                "value-required": False,
            },
        },
    ],
}
SCHEMA: Final = {
    "type": "struct",
    "schema-id": 1,
    "identifier-field-ids": [1],
    "fields": [
        *kit.SCHEMA["fields"],
        {**FIELD, "doc": "text", "initial-default": 1, "write-default": 2},
        {"id": 5, "name": "nested", "required": False, "type": NESTED},
    ],
}

UPDATES: Final[dict[str, dict[str, Any]]] = {
    "assign-uuid": {"uuid": kit.UUID},
    "upgrade-format-version": {"format-version": 3},
    "add-schema": {"schema": SCHEMA, "last-column-id": 11},
    "set-current-schema": {"schema-id": 0},
    "remove-schemas": {"schema-ids": [3, 4]},
    "add-spec": {
        "spec": {
            "spec-id": 1,
            "fields": [
                {"source-id": 2, "field-id": 1000, "name": "cut", "transform": "truncate[3]"},
                {"source-id": 3, "field-id": 1001, "name": "month", "transform": "month"},
            ],
        }
    },
    "set-default-spec": {"spec-id": 0},
    "remove-partition-specs": {"spec-ids": [3, 4]},
    "add-sort-order": {
        "sort-order": {
            "order-id": 1,
            "fields": [
                {
                    "source-id": 1,
                    "transform": "identity",
                    "direction": "asc",
                    "null-order": "nulls-first",
                }
            ],
        }
    },
    "set-default-sort-order": {"sort-order-id": 0},
    "add-snapshot": {
        "snapshot": {
            "snapshot-id": 9,
            "parent-snapshot-id": 2,
            "sequence-number": 3,
            "timestamp-ms": kit.NOW_MS + 3_000,
            "manifest-list": "s3://lake/ns/t/metadata/snap-9.avro",
            "summary": {"operation": "append", "added-records": "1"},
            "schema-id": 0,
            "first-row-id": 1_000,
            "added-rows": 1,
            "key-id": "k",
        }
    },
    "set-snapshot-ref": {
        "ref-name": "dev",
        "type": "branch",
        "snapshot-id": 1,
        "min-snapshots-to-keep": 1,
        "max-snapshot-age-ms": 1,
        "max-ref-age-ms": 1,
    },
    "remove-snapshots": {"snapshot-ids": [1]},
    "remove-snapshot-ref": {"ref-name": "main"},
    "set-location": {"location": "s3://lake/ns/t"},
    "set-properties": {"updates": {"a": "b"}},
    "remove-properties": {"removals": ["a"]},
    "set-statistics": {"snapshot-id": 1, "statistics": STATISTICS},
    "remove-statistics": {"snapshot-id": 1},
    "set-partition-statistics": {
        "partition-statistics": {
            "snapshot-id": 1,
            "statistics-path": "s3://lake/ns/t/metadata/1.parquet",
            "file-size-in-bytes": 10,
        }
    },
    "remove-partition-statistics": {"snapshot-id": 1},
    "add-encryption-key": {
        "encryption-key": {
            "key-id": "k",
            "encrypted-key-metadata": "AAAA",
            "encrypted-by-id": "j",
            "properties": {"a": "b"},
        }
    },
    "remove-encryption-key": {"key-id": "k"},
}

REQUIREMENTS: Final[dict[str, dict[str, Any]]] = {
    "assert-create": {},
    "assert-table-uuid": {"uuid": kit.UUID},
    "assert-ref-snapshot-id": {"ref": "main", "snapshot-id": 2},
    "assert-last-assigned-field-id": {"last-assigned-field-id": 3},
    "assert-current-schema-id": {"current-schema-id": 0},
    "assert-last-assigned-partition-id": {"last-assigned-partition-id": 999},
    "assert-default-spec-id": {"default-spec-id": 0},
    "assert-default-sort-order-id": {"default-sort-order-id": 0},
    "assert-view-uuid": {"uuid": kit.UUID},
}


def _deep(wrap: Any) -> Any:
    value: Any = 1
    for _ in range(600):
        value = wrap(value)
    return value


VALUES: Final[dict[str, Any]] = {
    "null": None,
    "true": True,
    "zero": 0,
    "negative": -7,
    "fraction": 1.5,
    "past 32 bits": 2**31,
    "last of 64 bits": 2**63 - 1,
    "past 64 bits": 2**63,
    "past 128 bits": -(2**130),
    "empty text": "",
    "text": "x",
    "long text": "x" * 5_000,
    "empty list": [],
    "list of null": [None],
    "list of lists": [[]],
    "list of objects": [{}],
    "empty object": {},
    "object of null": {"a": None},
    "deep list": _deep(lambda value: [value]),
    "deep object": _deep(lambda value: {"type": value}),
    "deep struct": _deep(lambda value: {"type": "struct", "fields": [value]}),
}

ABSENT: Final = object()


def updates() -> Iterator[dict[str, Any]]:
    for action, members in UPDATES.items():
        yield {"action": action, **members}


def requirements() -> Iterator[dict[str, Any]]:
    for name, members in REQUIREMENTS.items():
        yield {"type": name, **members}


def paths(value: Any, *, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every member of a JSON value, at any depth."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for name, inner in items:
        yield (*above, name)
        yield from paths(inner, above=(*above, name))


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """Return a copy of value with another value at path, or with nothing there for ABSENT."""
    variant = copy.deepcopy(value)
    inner = variant
    for name in path[:-1]:
        inner = inner[name]
    if other is ABSENT:
        del inner[path[-1]]
    else:
        inner[path[-1]] = other
    return variant
