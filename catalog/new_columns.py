"""rule: optional columns that a table gets in the commit of the first files that have them.

The files are written before the commit, with the ids that the columns will have. So the columns
fit a table whose columns are still those for which the files were written, and one to which
another writer has added the same columns with the same ids. Never adds a column that rows must
have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog.metadata import errors
from catalog.metadata.model import TableMetadata

LAST_ADDED: Final = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class NewColumns:
    """fields: optional fields of the schema, by ascending id. properties: set with them."""

    fields: tuple[Mapping[str, Any], ...]
    properties: Mapping[str, str]


def updates_for(
    table: TableMetadata, columns: NewColumns, *, schema_id: int | None
) -> list[dict[str, Any]]:
    """Return the updates that add columns to a table; none if it has all of them.

    schema_id: of the schema for which the files were written. Raises ColumnsDiffer if the columns
    do not fit the table as it is now.
    """
    schema = table.current_schema()
    present = {field["id"]: field for field in schema["fields"]}
    if table.current_schema_id != schema_id:
        same_fields = all(_is_same(present.get(each["id"]), each) for each in columns.fields)
        if same_fields and columns.properties.items() <= table.properties.items():
            return []
        raise _differ()
    if any(each["id"] <= table.last_column_id for each in columns.fields):
        raise _differ()
    changed = {name: value for name, value in schema.items() if name != "schema-id"}
    changed["fields"] = [*schema["fields"], *map(dict, columns.fields)]
    return [
        {"action": "add-schema", "schema": changed},
        {"action": "set-current-schema", "schema-id": LAST_ADDED},
        {"action": "set-properties", "updates": dict(columns.properties)},
    ]


def _is_same(field: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    return field is not None and (field["name"], field["type"]) == (wanted["name"], wanted["type"])


def _differ() -> errors.ColumnsDiffer:
    return errors.ColumnsDiffer(
        "Requirement failed: the table's columns have changed while rows with a further column"
        " were written"
    )
