"""engine: a table's columns as the binder and the engine see them.

Both are functions of the table's schema, of what SQL has declared of it, and of claims of its
manifests. They are kept for the tables that were used last, and used again while all of that is
equal; those of a table with more fields than COLUMNS_HERE_MAX, nested ones too, are not kept.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from sql import filecolumns, limits, offsets, pinned, tabletypes
from sql.dialect import shapes, sqltypes

_Kept = TypeVar("_Kept")

Bounds: TypeAlias = Mapping[int, tuple[int, int]]
"""The ends of whole-number columns, by field id."""


class TableColumns:
    """Gives columns of tables. Mutable: it keeps some."""

    def __init__(self) -> None:
        self._shapes: OrderedDict[Any, tuple[Any, tuple[shapes.ShapeColumn, ...]]] = OrderedDict()
        self._schemas: OrderedDict[Any, tuple[Any, bytes]] = OrderedDict()

    def shape_columns(
        self, table: pinned.PinnedTable, bounds: Bounds
    ) -> tuple[shapes.ShapeColumn, ...]:
        """Return a table's columns for the binder. bounds: claimed by its manifests."""
        # Some queries want the bounds and some do not, in turn.
        key = (table.loaded.pointer.object_uuid, bool(bounds))
        facts = (*_facts(table), bounds)
        kept = self._shapes.get(key)
        if kept is not None and kept[0] == facts:
            return kept[1]
        columns = tuple(
            _bounded(column, bounds.get(field["id"]))
            for field, column in zip(
                table.fields,
                tabletypes.shape_columns(table.fields, table.loaded.metadata.properties),
                strict=True,
            )
        )
        _keep(self._shapes, key, (facts, columns), table)
        return columns

    def encoded_schema(self, table: pinned.PinnedTable, zone: str) -> bytes:
        """Return the engine's schema of a table, as `filecolumns.encoded_schema` does."""
        key = (table.loaded.pointer.object_uuid, zone)
        facts = _facts(table)
        kept = self._schemas.get(key)
        if kept is not None and kept[0] == facts:
            return kept[1]
        encoded = filecolumns.encoded_schema(table, zone)
        _keep(self._schemas, key, (facts, encoded), table)
        return encoded


def _facts(table: pinned.PinnedTable) -> tuple[Any, ...]:
    properties = table.loaded.metadata.properties
    listed = (tabletypes.DECLARED, tabletypes.QUOTED, offsets.PROPERTY)
    return table.schema, *map(properties.get, listed)


def _bounded(column: shapes.ShapeColumn, ends: tuple[int, int] | None) -> shapes.ShapeColumn:
    sql_type = sqltypes.at_microseconds(column.type)
    if ends is not None and sql_type.is_integer:
        sql_type = sqltypes.integer(sql_type.precision, *ends, is_claimed=True)
    return dataclasses.replace(column, type=sql_type)


def _keep(
    entries: OrderedDict[Any, tuple[Any, _Kept]],
    key: Any,
    entry: tuple[Any, _Kept],
    table: pinned.PinnedTable,
) -> None:
    if _fields_in(table.schema) > limits.COLUMNS_HERE_MAX:
        entries.pop(key, None)
        return
    entries[key] = entry
    entries.move_to_end(key)
    while len(entries) > limits.TABLE_COLUMNS_KEPT_MAX:
        entries.popitem(last=False)


def _fields_in(iceberg_type: Any) -> int:
    """Return how many fields a schema or a type has, and those of their types."""
    if not isinstance(iceberg_type, Mapping):
        return 0
    match iceberg_type.get("type"):
        case "list":
            inner = [iceberg_type["element"]]
        case "map":
            inner = [iceberg_type["key"], iceberg_type["value"]]
        case _:
            inner = [field["type"] for field in iceberg_type["fields"]]
    return len(inner) + sum(map(_fields_in, inner))
