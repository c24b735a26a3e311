"""Snowflake text through dialect and engine over Arrow tables, without a catalog, for tests."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sql import computed_rows, engine, engine_datafusion, ipc, outcomes
from sql.dialect import operations, parse, references, resolve, shapes, sqltypes
from sql.plan import relations

NOW = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)

TYPES: Mapping[Any, sqltypes.SqlType] = {
    pa.int64(): sqltypes.integer(),
    pa.int32(): sqltypes.integer(10, sqltypes.INT32_LOW, sqltypes.INT32_HIGH),
    pa.float64(): sqltypes.REAL,
    pa.string(): sqltypes.TEXT,
    pa.string_view(): sqltypes.TEXT,
    pa.bool_(): sqltypes.BOOLEAN,
    pa.date32(): sqltypes.DATE,
    pa.timestamp("us"): sqltypes.TIMESTAMP_NTZ,
    pa.binary(): sqltypes.BINARY,
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a query gave: its columns, its rows, and what the engine was asked."""

    columns: tuple[outcomes.Column, ...]
    rows: list[tuple[Any, ...]]
    bound: resolve.BoundQuery

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def cell(self) -> Any:
        ((cell,),) = self.rows
        return cell

    @property
    def type(self) -> str:
        (column,) = self.columns
        if column.type == "fixed":
            return f"fixed({column.precision},{column.scale})"
        return column.type


def context(**changes: Any) -> shapes.Context:
    return shapes.Context(
        **{
            "now": NOW,
            "database": "lake",
            "schema": "ns",
            "warehouse": "LOCAL",
            "role": "PUBLIC",
            "user": "ROOT",
            "version": "9.0.0",
            "ddl_texts": {
                ("table", "t", False): "create or replace TABLE T (\n\tA NUMBER(38,0)\n);"
            },
            **changes,
        }
    )


def bind(
    text: str, tables: Mapping[str, pa.Table] | None = None, **more: Any
) -> tuple[resolve.BoundQuery, tuple[engine.Relation, ...]]:
    """Return text bound over Arrow tables that its names stand for."""
    tree, environment, engine_relations = _read(text, tables, **more)
    return resolve.bind_query(tree, environment), engine_relations


def plan(text: str, tables: Mapping[str, pa.Table] | None = None, **more: Any) -> relations.Rel:
    """Return the plan of text over Arrow tables that its names stand for."""
    tree, environment, _ = _read(text, tables, **more)
    return resolve.Binder(environment, {}).query(tree, None).rel


def _read(
    text: str, tables: Mapping[str, pa.Table] | None, **more: Any
) -> tuple[Any, shapes.Environment, tuple[engine.Relation, ...]]:
    """Return the tree of text, what it is bound with, and its tables for the engine."""
    operation = parse.parse(text)
    assert isinstance(operation, operations.Query)
    statement_context = more.pop("context", context())
    environment = shapes.Environment(context=statement_context, **more)
    bound_tables, engine_relations = [], []
    for use in references.references(operation.tree, environment):
        table = (tables or {})[use.name[-1].stored]
        name = f"{use.index}:{use.name[-1].stored}"
        bound_tables.append(
            shapes.TableShape(
                relation=name,
                path=("lake", "ns", use.name[-1].stored),
                columns=tuple(
                    shapes.ShapeColumn(
                        name=field.name, type=type_of(field.type), nullable=field.nullable
                    )
                    for field in table.schema
                ),
                rows=table.num_rows,
            )
        )
        engine_relations.append(
            engine.Relation(
                name=name, schema=ipc.encode_schema(table.schema), rows=ipc.encode_rows(table)
            )
        )
    environment = shapes.Environment(context=statement_context, tables=tuple(bound_tables), **more)
    return operation.tree, environment, tuple(engine_relations)


def type_of(arrow_type: pa.DataType) -> sqltypes.SqlType:
    if pa.types.is_decimal(arrow_type):
        return sqltypes.number(arrow_type.precision, arrow_type.scale)
    nested: Any = arrow_type
    if pa.types.is_map(nested):
        pair = {"key": type_of(nested.key_type), "value": type_of(nested.item_type)}
        return sqltypes.structured("map", pair)
    if pa.types.is_struct(nested):
        members = {member.name: type_of(member.type) for member in nested}
        return sqltypes.structured("struct", members)
    if pa.types.is_list(nested):
        return sqltypes.structured("list", {"element": type_of(nested.value_type)})
    return TYPES[arrow_type]


def answer(text: str, tables: Mapping[str, pa.Table] | None = None, **more: Any) -> Answer:
    """Run text in this process; raises SqlError and EngineFault."""
    zone = more.get("context", context()).now.tzinfo
    bound, relations = bind(text, tables, **more)
    settings = engine.Settings(timezone=str(zone))
    for drawing in bound.drawings:
        drawn = engine.EngineQuery(
            text=drawing.sql,
            relations=relations,
            functions=drawing.functions,
            settings=settings,
            keeps_nested=True,
        )
        relation = computed_rows.relation(asyncio.run(_table(drawn)), drawing.name, drawing.columns)
        relations = (*relations, relation)
    query = engine.EngineQuery(
        text=bound.sql,
        relations=relations,
        functions=bound.functions,
        settings=settings,
        variants=bound.variants,
    )
    rows = _rows(asyncio.run(_table(query)))
    return Answer(columns=bound.columns, rows=rows, bound=bound)


async def _table(query: engine.EngineQuery) -> pa.Table:
    planner = engine_datafusion.Planner(spill_directory=Path("/nonexistent-spill"), in_thread=False)
    run = await planner.start(query)
    batches = [batch async for batch in run.batches()]
    return pa.Table.from_batches(batches, schema=run.schema)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [
        row
        for batch in table.to_batches()
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def value(expression: str, **more: Any) -> Any:
    """Return the value of one constant expression."""
    return answer(f"select {expression} as x", **more).cell
