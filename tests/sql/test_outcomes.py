"""The answers that have no batches."""

from __future__ import annotations

from sql import outcomes


def test_a_status_is_one_text_row() -> None:
    answer = outcomes.status("Table T successfully created.")
    assert answer.rows == (("Table T successfully created.",),)
    assert [(column.name, column.type) for column in answer.columns] == [("status", "text")]
    assert answer.statement_type_id == 0x6000
    assert answer.batches is None


def test_changed_rows_have_the_exact_names_that_drivers_sum() -> None:
    stats = outcomes.Stats(rows_inserted=1, rows_updated=2, rows_deleted=3)
    answer = outcomes.changed_rows(
        outcomes.StatementType.MERGE, stats, inserted=1, updated=2, multi_joined=0, deleted=3
    )
    assert [column.name for column in answer.columns] == [
        "number of rows inserted",
        "number of rows updated",
        "number of multi-joined rows updated",
        "number of rows deleted",
    ]
    assert {(column.type, column.precision, column.scale) for column in answer.columns} == {
        ("fixed", 19, 0)
    }
    assert answer.rows == ((1, 2, 0, 3),)
    assert answer.stats == stats


def test_statement_types_are_the_protocols_numbers() -> None:
    types = outcomes.StatementType
    assert (types.SELECT, types.INSERT, types.MERGE, types.DDL) == (4096, 12544, 13312, 24576)
    assert (types.USE_DATABASE, types.USE_SCHEMA, types.USE_WAREHOUSE) == (17153, 17154, 17155)
    assert types.MULTI_STATEMENT == 40960
