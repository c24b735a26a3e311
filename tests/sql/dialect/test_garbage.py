"""Garbage in, a statement or one of Snowflake's errors out; never anything else.

Texts are made from the grammar's own words, from mutated good statements, and from noise.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sql import errors
from sql.dialect import operations, parse, references, resolve, shapes, sqltypes
from tests.kit import examples, garbage_sql, sql_text

COLUMNS = (
    shapes.ShapeColumn(name="id", type=sqltypes.integer()),
    shapes.ShapeColumn(name="grp", type=sqltypes.TEXT),
    shapes.ShapeColumn(name="v", type=sqltypes.number(10, 2)),
    shapes.ShapeColumn(name="d", type=sqltypes.DATE),
    shapes.ShapeColumn(name="ts", type=sqltypes.TIMESTAMP_NTZ),
    shapes.ShapeColumn(name="b", type=sqltypes.BOOLEAN),
    shapes.ShapeColumn(name="f", type=sqltypes.REAL),
    shapes.ShapeColumn(name="x", type=sqltypes.BINARY),
    shapes.ShapeColumn(name="o", type=sqltypes.SqlType(name="object")),
)

ROW = shapes.ShapeColumn(name=shapes.ROW, type=sqltypes.integer(19))


def read(text: str) -> None:
    """Parse and bind text; only SqlError may come out."""
    try:
        parse.split(text)
        operation = parse.parse(text)
        if isinstance(operation, operations.Explain):
            operation = operation.statement
        tree = {
            operations.Query: lambda: operation.tree,  # type: ignore[union-attr]
            operations.Insert: lambda: operation.source,  # type: ignore[union-attr]
            operations.ChangeRows: lambda: operation.tree,  # type: ignore[union-attr]
            operations.CreateTable: lambda: operation.query,  # type: ignore[union-attr]
        }.get(type(operation), lambda: None)()
        if tree is None:
            return
        environment = shapes.Environment(context=sql_text.context(), binds=None)
        uses = references.references(tree, environment)
        tables = tuple(
            shapes.TableShape(
                relation=f"r{use.index}", path=("lake", "ns", "t"), columns=(*COLUMNS, ROW)
            )
            for use in uses
        )
        environment = shapes.Environment(context=sql_text.context(), tables=tables, binds=None)
        if isinstance(operation, operations.Insert):
            resolve.bind_into(tree, environment, [column.type for column in COLUMNS[:2]])
        elif isinstance(operation, operations.ChangeRows):
            numbers = [value for clause in operation.clauses for value in clause.values]
            assigned = sum(value is not None for value in numbers)
            resolve.bind_changes(tree, environment, [COLUMNS[0].type] * assigned)
        else:
            resolve.bind_query(tree, environment)
    except errors.SqlError:
        pass


@examples.at_most(400)
@given(st.lists(st.sampled_from(garbage_sql.WORDS), min_size=1, max_size=25))
def test_words_in_any_order_are_a_statement_or_an_error(words: list[str]) -> None:
    read(" ".join(words))


@examples.at_most(400)
@given(st.integers(0, 10**9))
def test_mutated_statements_are_a_statement_or_an_error(seed: int) -> None:
    read(garbage_sql.mutated(random.Random(seed)))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_noise_is_an_error(text: str) -> None:
    read(text)


@examples.at_most(300)
@given(st.lists(st.sampled_from(garbage_sql.WORDS), min_size=1, max_size=12))
def test_any_expression_is_bound_or_refused(words: list[str]) -> None:
    read(f"select {' '.join(words)} from t")
