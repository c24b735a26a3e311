"""What each row of the table of functions declares holds for the function, and is documented."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from sql import engine, errors
from sql.dialect import builders, functions
from tests.kit import sql_text

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "SQL.md"
MARK = "<!-- the table of functions -->"

VALUES = {
    "any": "'12'",
    "text": "'12'",
    "number": "1.0",
    "real": "1.0",
    "whole": "1",
    "boolean": "true",
    "moment": "'2024-01-02 03:04:05'::timestamp",
    "word": "day",
    "constant": "1",
}
"""A value of each coercion."""

CALLS = {
    "ADD_MONTHS": "ADD_MONTHS('2024-01-02'::date, 1)",
    "CONVERT_TIMEZONE": "CONVERT_TIMEZONE('UTC', 'Asia/Tokyo', '2024-01-02'::timestamp)",
    "IFF": "IFF(true, 'a', 'b')",
    "NEXT_DAY": "NEXT_DAY('2024-01-02'::date, 'mo')",
    "PERCENTILE_CONT": "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY 1)",
    "PREVIOUS_DAY": "PREVIOUS_DAY('2024-01-02'::date, 'mo')",
    "TIMESTAMP_FROM_PARTS": "TIMESTAMP_FROM_PARTS('2024-01-02'::date, '12:00'::time)",
    "LOG": "LOG(2, 8)",
    "ATANH": "ATANH(0.5)",
}
"""Calls whose arguments must be of more than their declared kind."""

ROWS = [row for rows in functions.GROUPS.values() for row in rows]

NOT_STRICT = (
    *("COALESCE", "NVL", "NVL2", "IFF", "NULLIF", "ZEROIFNULL", "DECODE", "EQUAL_NULL", "DIV0"),
    *("BOOLAND", "BOOLOR", "GREATEST_IGNORE_NULLS", "LEAST_IGNORE_NULLS"),
)
"""Functions that may be more than NULL of a NULL."""


def call(row: builders.Function, name: str = "") -> str:
    text = CALLS.get(row.names[0])
    if text is None:
        text = f"{row.names[0]}({', '.join(VALUES[each] for each in row.required)})"
    if name:
        text = name + text.removeprefix(row.names[0])
    return f"{text} OVER (ORDER BY 1)" if row.function_type == "window" else text


@pytest.mark.parametrize("row", ROWS, ids=[row.names[0] for row in ROWS])
def test_a_function_is_callable_by_each_of_its_names_and_gives_what_its_row_declares(
    row: builders.Function,
) -> None:
    for name in row.names:
        bound, _ = sql_text.bind(f"select {call(row, name)}")
        (sql_type,) = bound.types
        if row.result in builders.RESULTS:
            assert sql_type.name == {"integer": "fixed"}.get(row.result, row.result)
        elif row.result == "number":
            assert sql_type.name in ("fixed", "real")
        elif row.result == "moment":
            assert sql_type.is_temporal or sql_type.name == "time"


@pytest.mark.parametrize("row", ROWS, ids=[row.names[0] for row in ROWS])
def test_a_function_is_volatile_if_its_row_says_so(row: builders.Function) -> None:
    text = call(row)
    if row.is_volatile:
        with pytest.raises(errors.SqlError) as caught:
            sql_text.bind(f"select sign({text})")
        assert "more than once" in caught.value.message
    else:
        sql_text.bind(f"select sign(length({text}))")


def calls_with_null(row: builders.Function) -> list[str]:
    """Return a call of a strict function for each argument that can be NULL, with that NULL."""
    if row.function_type != "scalar" or row.names[0] in (*NOT_STRICT, *CALLS):
        return []
    calls = []
    for index, each in enumerate(row.required):
        if each not in ("word", "constant"):
            arguments = [VALUES[other] for other in row.required]
            arguments[index] = f"nullif({arguments[index]}, {arguments[index]})"
            calls.append(f"{row.names[0]}({', '.join(arguments)})")
    return calls


STRICT = [(row.names[0], calls) for row in ROWS if (calls := calls_with_null(row))]


@pytest.mark.parametrize("calls", [calls for _, calls in STRICT], ids=[name for name, _ in STRICT])
def test_a_scalar_function_is_null_if_an_argument_is(calls: list[str]) -> None:
    try:
        (values,) = sql_text.answer(f"select {', '.join(calls)}").rows
    except engine.EngineFault as fault:
        raise AssertionError(f"{calls}: {fault}") from fault
    assert set(values) == {None}, calls


def test_no_name_stands_for_two_functions() -> None:
    names = [name for row in ROWS for name in row.names]
    assert len(names) == len(set(names)) == len(functions.FUNCTIONS)


def documented() -> Iterable[str]:
    """Return the table of functions as lines of docs/SQL.md."""
    for group, rows in functions.GROUPS.items():
        yield from ("", f"### {group}", "", "| function | also called |", "|---|---|")
        for row in rows:
            shown = functions.signature(row.names[0]).replace("RETURN", "→")
            volatile = ", volatile" if row.is_volatile else ""
            yield f"| `{shown}`{volatile} | {', '.join(row.names[1:])} |"


def test_the_document_of_sql_lists_the_table_of_functions() -> None:
    text, mark, listed = DOCUMENT.read_text().partition(MARK)
    assert mark
    table = "\n".join(("", *documented(), ""))
    if os.environ.get("UPDATE_GOLDEN"):
        DOCUMENT.write_text(text + mark + table)
    else:
        assert listed == table, "UPDATE_GOLDEN=1 writes it anew"
