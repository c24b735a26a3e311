"""engine: multi-table INSERT: the rows of one query into several tables, as one commit.

The query runs once. Its rows are kept in memory, up to a bound, and each INTO clause is a query of
them whose rows become data files. The changes of all tables are taken together.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from catalog import commits, idents, rights, tables
from sql import (
    computed_rows,
    defaults,
    engine,
    errors,
    limits,
    offsets,
    outcomes,
    places,
    planning,
    threads,
    transactions,
    writes,
)
from sql.dialect import multi_inserts, names, operations, resolve, shapes

WAITING_CLAUSES_MAX: Final = 8
"""INTO clauses of a statement whose small files wait for the commit: each may have 1 MiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Into:
    """An INTO clause and its table. written, fields: as `writes.fields_for` returns them."""

    loaded: tables.LoadedTable
    written: Sequence[Mapping[str, Any]]
    fields: Sequence[Mapping[str, Any]]


class MultiInserts:
    """Adds rows to several tables. Stateless."""

    def __init__(
        self,
        *,
        engine: engine.Engine,
        planning: planning.Planning,
        places: places.Places,
        writes: writes.Writes,
        transactions: transactions.Transactions,
        defaults: defaults.Defaults,
    ) -> None:
        self._engine = engine
        self._planning = planning
        self._places = places
        self._writes = writes
        self._transactions = transactions
        self._defaults = defaults

    async def insert(
        self, execution: planning.Execution, statement: operations.InsertAll
    ) -> outcomes.Outcome:
        """Add the rows of a query to the tables of its clauses; raises SqlError."""
        run = transactions.replaced if statement.overwrite else transactions.added
        if execution.describe_only:
            return await self._insert(execution, statement)
        return await run(lambda: self._insert(execution, statement))

    async def _insert(
        self, execution: planning.Execution, statement: operations.InsertAll
    ) -> outcomes.Outcome:
        session = execution.session
        actions = rights.LOAD_ACTIONS if execution.describe_only else rights.COMMIT_ACTIONS

        def find_targets(catalog: places.CatalogView) -> list[places.NamedTable]:
            return [
                catalog.table(
                    clause.name,
                    database=session.database,
                    schema=session.schema,
                    exactly=True,
                    actions=actions,
                )
                for clause in statement.clauses
            ]

        found_tables, query_names = await self._planning.look_up(execution, find_targets)
        loaded_tables = {
            table.ident: await self._transactions.table(session, table.ident, table.pointer)
            for table in found_tables
        }
        into = [
            await self._into(clause, loaded_tables[table.ident])
            for clause, table in zip(statement.clauses, found_tables, strict=True)
        ]
        environment = await self._planning.environment(execution)
        bind_count = await execution.compiled.bind_count(environment)
        if execution.describe_only:
            counts = dict.fromkeys(loaded_tables, 0)
            return dataclasses.replace(_inserted(counts, bind_count), rows=None, stats=None)
        counts = {}
        for ident, loaded in loaded_tables.items():
            rows = await writes.find_rows_committed(loaded, execution.query_id)
            if rows is not None:  # the client did not get the first request's answer
                counts[ident] = rows
        if counts:
            return _inserted(counts, bind_count)
        if environment.rows_relation:
            raise errors.unsupported("array binds in a multi-table INSERT")
        self._transactions.check_may_write(session, *loaded_tables)
        source = await self._source(execution, query_names)
        changes = await self._stage(execution, source, into)
        if statement.overwrite:
            await self._transactions.replace_rows(execution, *changes)
        else:
            await self._transactions.keep(execution, *changes)
        return _inserted({each.target.loaded.ident: each.rows for each in changes}, bind_count)

    async def _into(self, clause: operations.IntoClause, loaded: tables.LoadedTable) -> _Into:
        """Return a clause's table and columns; a column whose value is DEFAULT is not listed."""
        columns = clause.columns
        if clause.defaults:
            stored = offsets.columns(loaded.metadata)
            listed = columns or tuple(
                names.Ident(text=field["name"], quoted=True) for field in stored
            )
            if clause.defaults[-1] >= len(listed):
                raise errors.unsupported("more values than columns in an INTO clause")
            columns = tuple(
                ident for index, ident in enumerate(listed) if index not in clause.defaults
            )
        width = len(loaded.metadata.current_schema()["fields"])
        written, fields = await threads.for_columns(width, writes.fields_for, loaded, columns)
        return _Into(loaded=loaded, written=written, fields=fields)

    async def _source(
        self, execution: planning.Execution, query_names: planning.Names
    ) -> planning.QueryTables:
        """Run the statement's query, and return its rows as a table of other queries."""
        query, planned = await self._planning.bound_source(execution, query_names)
        results = await self._engine.run(planned)
        rows = await computed_rows.collect(
            results,
            bytes_max=limits.INTO_SOURCE_BYTES_MAX,
            source="the query of a multi-table INSERT returns",
        )
        shape, relation = await asyncio.to_thread(_relation, query, rows)
        return planning.QueryTables(shapes=(shape,), tables=(None,), ready={0: relation})

    async def _stage(
        self, execution: planning.Execution, source: planning.QueryTables, into: Sequence[_Into]
    ) -> list[writes.Staged]:
        """Write the rows of every clause; return one change for each table."""
        changes: dict[idents.TableIdent, writes.Staged] = {}
        judge = self._places.judge(execution.session.principal, rights.COMMIT_ACTIONS)
        try:
            for number, each in enumerate(into):
                target = writes.WriteTarget(
                    loaded=each.loaded, fields=tuple(each.written), judge=judge
                )
                fill = self._defaults.filling(execution, each.loaded, each.fields)
                query = await self._planning.bound_clause(
                    execution, source, number, each.fields, target, fill
                )
                staged = await self._writes.stage(
                    query,
                    target,
                    by=execution.by,
                    names_at_commit=len(into) <= WAITING_CLAUSES_MAX,
                )
                ident = each.loaded.ident
                before = changes.get(ident)
                changes[ident] = staged if before is None else _joined(before, staged)
                if fill is not None:
                    fill.check_rows(staged.rows)
        except BaseException:
            for change in changes.values():
                await commits.to_the_end(self._writes.discard(change))
            raise
        return list(changes.values())


def _joined(first: writes.Staged, second: writes.Staged) -> writes.Staged:
    """Return the change of two clauses. What one of them adds to the columns, the other might."""
    target = second.target if first.target.columns is None else first.target
    return dataclasses.replace(
        first,
        target=target,
        files=(*first.files, *second.files),
        rows=first.rows + second.rows,
        unnamed=(*first.unnamed, *second.unnamed),
    )


def _relation(
    query: resolve.BoundQuery, rows: pa.Table
) -> tuple[shapes.TableShape, engine.Relation]:
    """Return the rows of a bound query as a table's shape and its relation."""
    named = [f"c{index}" for index in range(len(query.columns))]
    shape = shapes.TableShape(
        relation=multi_inserts.SOURCE,
        path=("", "", ""),
        columns=tuple(
            shapes.ShapeColumn(name=name, type=sql_type, nullable=column.nullable)
            for name, sql_type, column in zip(named, query.types, query.columns, strict=True)
        ),
        rows=rows.num_rows,
        shown=tuple(column.name for column in query.columns),
    )
    return shape, computed_rows.relation(rows, multi_inserts.SOURCE, named)


def _inserted(counts: Mapping[idents.TableIdent, int], bind_count: int) -> outcomes.Outcome:
    return outcomes.Outcome(
        columns=tuple(
            outcomes.Column(
                name=f"number of rows inserted into {names.shown(ident.name)}",
                type="fixed",
                nullable=False,
                precision=19,
                scale=0,
            )
            for ident in counts
        ),
        rows=(tuple(counts.values()),),
        statement_type_id=outcomes.StatementType.MULTI_TABLE_INSERT,
        stats=outcomes.Stats(rows_inserted=sum(counts.values())),
        bind_count=bind_count,
    )
