"""Columns that a table gets in the commit of the first files that have them."""

from __future__ import annotations

from typing import Any

import pytest

from catalog import new_columns
from catalog.metadata import creation, errors, updates

FIELDS = [{"id": 1, "name": "a", "required": False, "type": "long"}]
ADDED = {"id": 2, "name": "minutes", "required": False, "type": "int"}
COLUMNS = new_columns.NewColumns(fields=(ADDED,), properties={"p": "x"})


def table() -> Any:
    return creation.new_table(
        schema={"type": "struct", "fields": FIELDS},
        location="s3://b/t",
        table_uuid="4a0d6a8c-8f3c-4a8e-9a2e-6f1a6f0b6f1a",
        now_ms=1,
    )


def changed(metadata: Any, *listed: dict[str, Any]) -> Any:
    part = updates.Part(requirements=(), updates=listed)
    return updates.apply_parts(metadata, [part], now_ms=2, base_location=None)


def with_fields(metadata: Any, *fields: dict[str, Any]) -> Any:
    return changed(
        metadata,
        {"action": "add-schema", "schema": {"type": "struct", "fields": list(fields)}},
        {"action": "set-current-schema", "schema-id": -1},
    )


def test_columns_are_added_once() -> None:
    before = table()
    adding = new_columns.updates_for(before, COLUMNS, schema_id=0)
    after = changed(before, *adding)
    assert after.current_schema()["fields"] == [*FIELDS, ADDED]
    assert (after.last_column_id, after.properties["p"]) == (2, "x")
    # Another writer of the same rows comes second, with files for the schema before.
    assert new_columns.updates_for(after, COLUMNS, schema_id=0) == []


@pytest.mark.parametrize(
    "field",
    [
        {**ADDED, "name": "other"},
        {**ADDED, "type": "long"},
        {"id": 3, "name": "minutes", "required": False, "type": "int"},
    ],
)
def test_other_columns_than_those_of_the_files_are_a_conflict(field: dict[str, Any]) -> None:
    other = with_fields(table(), *FIELDS, field)
    other = changed(other, {"action": "set-properties", "updates": {"p": "x"}})
    with pytest.raises(errors.ColumnsDiffer):
        new_columns.updates_for(other, COLUMNS, schema_id=0)


def test_the_same_columns_with_other_properties_are_a_conflict() -> None:
    other = with_fields(table(), *FIELDS, ADDED)
    with pytest.raises(errors.ColumnsDiffer):
        new_columns.updates_for(other, COLUMNS, schema_id=0)


def test_an_id_that_was_given_out_is_not_used_again() -> None:
    gone = with_fields(with_fields(table(), *FIELDS, ADDED), *FIELDS)
    assert gone.current_schema_id == 0
    with pytest.raises(errors.ColumnsDiffer):
        new_columns.updates_for(gone, COLUMNS, schema_id=0)


def test_files_for_an_unknown_schema_fit_none_but_the_same_columns() -> None:
    with pytest.raises(errors.ColumnsDiffer):
        new_columns.updates_for(table(), COLUMNS, schema_id=None)
