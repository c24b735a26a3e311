"""engine: EXPLAIN: the plan of a statement, which is not run.

A statement that writes needs the rights that it needs to run, and is bound as it is then; its plan
is that of the query whose rows it would write. Sequences give no numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from catalog import rights
from sql import (
    changes,
    definitions,
    engine,
    outcomes,
    places,
    plan_texts,
    planning,
    relations,
    threads,
    transactions,
    writes,
)
from sql.dialect import names, operations, resolve


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Planned:
    """A statement's query. text: the engine's, if not the bound query's own. verb, target: see
    `plan_texts.steps`. planned: the engine's query, if it is made already.
    """

    bound: resolve.BoundQuery
    tables: planning.QueryTables
    verb: str = ""
    target: str = ""
    planned: engine.EngineQuery | None = None


class Explaining:
    """Runs EXPLAIN. Stateless."""

    def __init__(
        self,
        *,
        engine: engine.Engine,
        planning: planning.Planning,
        relations: relations.Relations,
        transactions: transactions.Transactions,
        changes: changes.Changes,
        definitions: definitions.Definitions,
    ) -> None:
        self._engine = engine
        self._planning = planning
        self._relations = relations
        self._transactions = transactions
        self._changes = changes
        self._definitions = definitions

    async def explain(
        self, execution: planning.Execution, statement: operations.Explain
    ) -> outcomes.Outcome:
        """Return the plan of a statement; raises SqlError, EngineFault."""
        columns = _columns(statement.form)
        planned = await self._plan(execution, statement.statement)
        if execution.describe_only:
            return outcomes.Outcome(
                columns=columns, statement_type_id=outcomes.StatementType.EXPLAIN
            )
        query = planned.planned
        if query is None:
            query = await self._planning.query(
                execution, planned.bound, planned.tables, purpose="explain"
            )
        query = dataclasses.replace(query, purpose="explain", variants=())
        table, _ = await engine.collect(await self._engine.run(query))
        lines: dict[str, list[str]] = {"logical": [], "physical": []}
        for part, line in zip(table["part"].to_pylist(), table["plan"].to_pylist(), strict=True):
            lines[str(part)].append(str(line))
        steps = plan_texts.steps(
            lines["logical"],
            await self._scans(planned),
            columns=[column.name for column in planned.bound.columns],
            verb=planned.verb,
            target=planned.target,
        )
        rows: Sequence[tuple[Any, ...]]
        if statement.form == "tabular":
            rows = plan_texts.rows(steps)
        elif statement.form == "json":
            rows = [(plan_texts.json(steps),)]
        else:
            # Of a change, the target's rows are not in the engine's plan.
            physical = lines["physical"] if planned.planned is None else ()
            rows = [(plan_texts.text(steps, physical),)]
        return outcomes.Outcome(
            columns=columns, rows=rows, statement_type_id=outcomes.StatementType.EXPLAIN
        )

    async def _plan(
        self, execution: planning.Execution, statement: operations.Operation
    ) -> _Planned:
        """Return the query of a statement, with the rights that it needs to run."""
        match statement:
            case operations.Query():
                bound, tables = await self._planning.bound(_unnumbered(execution))
                return _Planned(bound=bound, tables=tables)
            case operations.Insert():
                return await self._insert(execution, statement)
            case operations.InsertAll():
                return await self._insert_all(execution, statement)
            case operations.ChangeRows():
                bound, tables, query = await self._changes.explained(execution, statement)
                return _Planned(
                    bound=bound,
                    tables=tables,
                    planned=query,
                    verb=statement.statement.title(),
                    target=names.dotted(statement.name),
                )
            case operations.CreateTable(query=query) if query is not None and not statement.copies:
                query_names = await self._definitions.look_up_query(execution, statement)
                bound, tables = await self._planning.bound(_unnumbered(execution), query_names)
                return _Planned(
                    bound=bound,
                    tables=tables,
                    verb="CreateTableAsSelect",
                    target=names.dotted(statement.name),
                )
        raise AssertionError("the parser refuses EXPLAIN of other statements")

    async def _insert(
        self, execution: planning.Execution, statement: operations.Insert
    ) -> _Planned:
        session = execution.session

        def find_target(catalog: places.CatalogView) -> places.NamedTable:
            return catalog.table(
                statement.name,
                database=session.database,
                schema=session.schema,
                exactly=True,
                actions=rights.COMMIT_ACTIONS,
            )

        table, query_names = await self._planning.look_up(execution, find_target)
        loaded = await self._transactions.table(session, table.ident, table.pointer)
        width = len(loaded.metadata.current_schema()["fields"])
        _, fields = await threads.for_columns(width, writes.fields_for, loaded, statement.columns)
        bound, tables = await self._planning.bound_unfilled(
            execution, query_names, loaded, fields, defaulted=statement.defaulted
        )
        return _Planned(bound=bound, tables=tables, verb="Insert", target=_shown(table))

    async def _insert_all(
        self, execution: planning.Execution, statement: operations.InsertAll
    ) -> _Planned:
        session = execution.session

        def find_targets(catalog: places.CatalogView) -> list[places.NamedTable]:
            return [
                catalog.table(
                    clause.name,
                    database=session.database,
                    schema=session.schema,
                    exactly=True,
                    actions=rights.COMMIT_ACTIONS,
                )
                for clause in statement.clauses
            ]

        targets, query_names = await self._planning.look_up(execution, find_targets)
        query_tables = await self._planning.open(execution, query_names)
        environment = await self._planning.environment(execution, query_tables.shapes)
        bound = await execution.compiled.bind_source(environment)
        shown = ", ".join(dict.fromkeys(map(_shown, targets)))
        return _Planned(bound=bound, tables=query_tables, verb="MultiTableInsert", target=shown)

    async def _scans(self, planned: _Planned) -> dict[int, plan_texts.ScannedTable]:
        """Return the tables of a query by their numbers, with their files."""
        scans = {}
        query_tables = planned.tables
        for index, (shape, table) in enumerate(
            zip(query_tables.shapes, query_tables.tables, strict=True)
        ):
            path = ".".join(names.shown(part) for part in shape.path)
            if table is None:
                scans[index] = plan_texts.ScannedTable(path=path)
                continue
            count = await self._relations.count_files(table, planned.bound.filters.get(index, ()))
            scans[index] = plan_texts.ScannedTable(
                path=path,
                files_in_all=count.in_all,
                files=count.kept,
                size_bytes=count.kept_bytes,
                note=f"Table {path}: snapshot {table.snapshot_id},"
                f" {count.kept} of {count.in_all} files",
            )
        return scans


def _unnumbered(execution: planning.Execution) -> planning.Execution:
    """Return the execution for binding alone: then a sequence gives no numbers."""
    return dataclasses.replace(execution, describe_only=True)


def _shown(table: places.NamedTable) -> str:
    ident = table.ident
    return ".".join(
        map(names.shown, (names.of_database(ident.table_bucket), *ident.namespace, ident.name))
    )


def _columns(form: str) -> tuple[outcomes.Column, ...]:
    if form != "tabular":
        return (outcomes.Column(name="content", type="text"),)
    return tuple(
        outcomes.Column(name=name, type="fixed", precision=38, scale=0)
        if type_name == "fixed"
        else outcomes.Column(name=name, type="text")
        for name, type_name in plan_texts.COLUMNS
    )
