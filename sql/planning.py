"""engine: from a query's tree to the engine's query.

It looks names up with the caller's rights, pins each table to one snapshot, has the dialect bind
the query, and gives the engine only the files that the query's filters do not exclude.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from catalog import readers, tables
from sql import (
    bindings,
    compiler,
    engine,
    errors,
    information_schema,
    inputs,
    ipc,
    limits,
    parameters,
    places,
    relations,
    results,
    sessions,
    tabletypes,
    threads,
    transactions,
    writes,
)
from sql.dialect import compilation, expressions, names, resolve, shapes, sqltypes

_Read = TypeVar("_Read")


@dataclass(frozen=True, kw_only=True, slots=True)
class StatementLimits:
    """Bounds of one statement: its time, and the memory of its query."""

    timeout_seconds: int = 1200
    memory_bytes: int = 2 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """One statement while it runs. transaction: the open one when the statement began."""

    session: sessions.Session
    query_id: str
    bindings: Mapping[str, bindings.Binding]
    parameters: Mapping[str, parameters.Value]
    describe_only: bool
    now: datetime.datetime
    context: shapes.Context = field(repr=False)
    compiled: compiler.Compilation = field(repr=False)
    results: results.StoredResults = field(repr=False)
    transaction: transactions.Transaction | None = None

    @property
    def by(self) -> str:
        """The ARN of the statement's principal, as commits record it."""
        return self.session.principal.arn

    @property
    def zone(self) -> str:
        """The name of the session's time zone."""
        return str(self.session.parameter("TIMEZONE"))


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryTables:
    """The tables of a query, one for each use. tables: None for a view of INFORMATION_SCHEMA and
    for a stored result.

    ready: the relations of those, by use.
    """

    shapes: tuple[shapes.TableShape, ...]
    tables: tuple[relations.PinnedTable | None, ...]
    ready: Mapping[int, engine.Relation]


Fill: TypeAlias = Callable[
    [resolve.BoundQuery, QueryTables],
    Awaitable[tuple[resolve.BoundQuery, Mapping[int, str]]],
]
"""Returns the query of an INSERT, which may need more functions now, and the engine's text of each
default, by field id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """The tables that the names of a query refer to, read in one view of the catalog.

    fault: the error of a name that refers to no table that the caller may read; `Planning.bound`
    raises it.
    """

    needs: compilation.Needs
    meanings: Mapping[names.Name, places.FoundTable | information_schema.Gathered]
    fault: errors.SqlError | None = None


class Planning:
    """Binds queries and plans them. Stateless."""

    def __init__(
        self,
        *,
        places: places.Places,
        tables: tables.Tables,
        relations: relations.Relations,
        readers: readers.Readers,
        described: information_schema.InformationSchema,
        transactions: transactions.Transactions,
        limits: StatementLimits | None = None,
    ) -> None:
        self._places = places
        self._tables = tables
        self._relations = relations
        self._readers = readers
        self._described = described
        self._transactions = transactions
        self._limits = limits or StatementLimits()

    async def look_up(
        self, execution: Execution, read: Callable[[places.CatalogView], _Read]
    ) -> tuple[_Read, Names]:
        """Return read's result, and the tables that the names of the query refer to.

        Both read one view of the catalog, so that the statement sees all or nothing of each commit.
        read: reads what else the statement needs there; its errors propagate.
        """
        needs = await execution.compiled.needs(await self.environment(execution))

        def look() -> tuple[_Read, Names]:
            with self._places.view(execution.session.principal) as catalog:
                return read(catalog), self._names(execution, needs, catalog)

        if any(_lists_names(use, execution.session) for use in needs.uses):
            # A database may have very many tables, and each one's rights are checked.
            return await asyncio.to_thread(look)
        return look()

    async def bound(
        self, execution: Execution, query_names: Names | None = None
    ) -> tuple[resolve.BoundQuery, QueryTables]:
        """Return the statement's query bound to its tables, and the tables.

        query_names: the query's names if they are looked up already.
        """
        query_tables = await self._open(execution, query_names)
        environment = await self.environment(execution, query_tables.shapes)
        return await execution.compiled.bind_query(environment), query_tables

    async def bound_into(
        self,
        execution: Execution,
        query_names: Names,
        loaded: tables.LoadedTable,
        fields: Sequence[Mapping[str, Any]],
        target: writes.WriteTarget,
        fill: Fill | None = None,
    ) -> tuple[resolve.BoundQuery, engine.EngineQuery]:
        """Return the statement's query bound to the types of a table's columns, and the engine's
        query for its rows.

        query_names: the query's names. fields: the columns that the query fills, in its order.
        fill: returns the defaults of the other columns.
        """
        targets = await threads.for_columns(len(fields), _types_of, loaded, fields)
        query_tables = await self._open(execution, query_names)
        environment = await self.environment(execution, query_tables.shapes)
        query = await execution.compiled.bind_into(environment, targets)
        filled: Mapping[int, str] = {}
        if fill is not None:
            query, filled = await fill(query, query_tables)
        text = await threads.for_columns(
            len(target.fields), writes.plan_text, query, target, fields, filled
        )
        return query, await self.query(execution, query, query_tables, text=text)

    async def environment(
        self, execution: Execution, tables: tuple[shapes.TableShape, ...] = ()
    ) -> shapes.Environment:
        """Return the input of binding beside the text: context, tables, binds and variables."""
        if sum(binding.rows for binding in execution.bindings.values()) > limits.BINDS_HERE_MAX:
            return await asyncio.to_thread(self._environment, execution, tables)
        return self._environment(execution, tables)

    def _environment(
        self, execution: Execution, tables: tuple[shapes.TableShape, ...]
    ) -> shapes.Environment:
        binds: dict[str, Any] | None = None
        is_array = any(binding.is_array for binding in execution.bindings.values())
        if execution.bindings or not execution.describe_only:
            binds = {
                name: inputs.bind_column(name, binding)
                if is_array
                else expressions.binding_literal(binding.type, binding.value)
                for name, binding in execution.bindings.items()
            }
        return shapes.Environment(
            context=execution.context,
            tables=tables,
            binds=binds,
            variables={
                name: inputs.variable(variable)
                for name, variable in execution.session.variables.items()
            },
            rows_relation=inputs.BINDS_RELATION if is_array else "",
            columns_max=limits.COLUMNS_HERE_MAX,
        )

    async def _open(self, execution: Execution, query_names: Names | None) -> QueryTables:
        """Load every table of a query, as it was in the view in which its name was looked up, with
        the changes of the session's transaction.
        """
        if query_names is None:
            _, query_names = await self.look_up(execution, lambda _: None)
        if query_names.fault is not None:
            raise query_names.fault
        session, needs = execution.session, query_names.needs
        loaded: dict[tuple[names.Name, bool], tables.LoadedTable] = {}
        stored: list[relations.PinnedTable | None] = []
        described: list[shapes.TableShape] = []
        ready: dict[int, engine.Relation] = {}
        for use in needs.uses:
            name = f"{use.index}:{names.dotted(use.name)}"
            if use.result_id:
                result = await execution.results.stored(session, use.result_id)
                shape, ready[use.index] = await results.relation(result, name, zone=execution.zone)
                described.append(shape)
                stored.append(None)
                continue
            named = query_names.meanings[use.name]
            if isinstance(named, information_schema.Gathered):
                shape, ready[use.index] = await self._described.relation(
                    named, name, zone=execution.zone
                )
                described.append(shape)
                stored.append(None)
                continue
            key = (use.name, use.moment is None)
            if key not in loaded:
                # Time travel reads committed states alone.
                loaded[key] = (
                    await self._transactions.table(session, named.ident, named.pointer)
                    if use.moment is None
                    else await self._tables.fetch_at(named.ident, named.pointer)
                )
            reader = self._readers.of(session.principal, loaded[key])
            table = await relations.find_snapshot(reader, use.moment)
            ends = await self._relations.bounds(table) if needs.wants_bounds else None
            width = len(table.fields)
            described.append(
                await threads.for_columns(width, self._relations.shape, table, name, ends)
            )
            stored.append(table)
        return QueryTables(shapes=tuple(described), tables=tuple(stored), ready=ready)

    def _names(
        self, execution: Execution, needs: compilation.Needs, catalog: places.CatalogView
    ) -> Names:
        try:
            meanings = self._find(execution, needs.uses, catalog)
        except errors.SqlError as fault:
            return Names(needs=needs, meanings={}, fault=fault)
        return Names(needs=needs, meanings=meanings)

    def _find(
        self, execution: Execution, uses: Sequence[shapes.TableUse], catalog: places.CatalogView
    ) -> dict[names.Name, places.FoundTable | information_schema.Gathered]:
        """Return the table that each name of a query refers to. Raises SqlError."""
        session = execution.session
        meanings: dict[names.Name, places.FoundTable | information_schema.Gathered] = {}
        for use in uses:
            if use.result_id:
                continue
            schema = catalog.schema_of(use.name, database=session.database, schema=session.schema)
            if not schema.namespace and use.moment is not None:
                raise errors.unsupported("AT or BEFORE on INFORMATION_SCHEMA")
            if use.name in meanings:
                continue
            if not schema.namespace:
                meanings[use.name] = self._described.gather(catalog, use.name[-1], schema)
                continue
            meanings[use.name] = catalog.table(
                use.name, database=session.database, schema=session.schema
            )
        return meanings

    async def query(
        self,
        execution: Execution,
        query: resolve.BoundQuery,
        query_tables: QueryTables,
        *,
        text: str | None = None,
        purpose: Literal["run", "describe", "explain"] = "run",
    ) -> engine.EngineQuery:
        """Return the engine's query. text: the engine's SQL, if not the bound query's own.

        The statement is bound by now, so its compilation gives back its child.
        """
        await execution.compiled.close()
        relations = await self._relations_of(
            execution, query, query_tables, empty=purpose == "describe"
        )
        if any(binding.is_array for binding in execution.bindings.values()):
            rows = await asyncio.to_thread(_bound_relation, execution.bindings, execution.zone)
            relations = (*relations, rows)
        return engine.EngineQuery(
            text=query.sql if text is None else text,
            query_id=execution.query_id,
            owner=execution.session.principal.name,
            relations=relations,
            functions=query.functions,
            settings=engine.Settings(timezone=execution.zone),
            limits=engine.QueryBounds(
                seconds=self._seconds(execution), memory_bytes=self._limits.memory_bytes
            ),
            purpose=purpose,
            variants=query.variants if text is None else (),
        )

    async def _relations_of(
        self,
        execution: Execution,
        query: resolve.BoundQuery,
        query_tables: QueryTables,
        *,
        empty: bool,
    ) -> tuple[engine.Relation, ...]:
        relations = []
        tables_by_use = zip(query_tables.shapes, query_tables.tables, strict=True)
        for index, (shape, table) in enumerate(tables_by_use):
            if table is None:
                relations.append(query_tables.ready[index])
            elif empty:
                relation = await threads.for_columns(
                    len(shape.columns),
                    self._relations.empty,
                    table,
                    shape.relation,
                    zone=execution.zone,
                )
                relations.append(relation)
            else:
                relations.append(
                    await self._relations.relation(
                        table,
                        shape.relation,
                        conditions=query.filters.get(index, ()),
                        zone=execution.zone,
                        owner=execution.session.principal.name,
                    )
                )
        return tuple(relations)

    def _seconds(self, execution: Execution) -> float:
        name = "STATEMENT_TIMEOUT_IN_SECONDS"
        requested = int(execution.parameters.get(name) or execution.session.parameter(name))
        seconds_max = self._limits.timeout_seconds
        return float(min(requested, seconds_max) if requested else seconds_max)


def _types_of(
    loaded: tables.LoadedTable, fields: Sequence[Mapping[str, Any]]
) -> list[sqltypes.SqlType]:
    """Return the declared types of a table's columns."""
    declared = tabletypes.declared_types(loaded.metadata.properties)
    return [tabletypes.sql_type(column["type"], declared.get(column["id"])) for column in fields]


def _bound_relation(binding_by_name: Mapping[str, bindings.Binding], zone: str) -> engine.Relation:
    rows = inputs.bound_rows(binding_by_name, zone)
    return engine.Relation(
        name=inputs.BINDS_RELATION,
        schema=ipc.encode_schema(rows.schema),
        rows=ipc.encode_rows(rows),
    )


def _lists_names(use: shapes.TableUse, session: sessions.Session) -> bool:
    """Return whether a name may be a view of INFORMATION_SCHEMA, which lists a whole database."""
    schema = use.name[-2].folded if len(use.name) > 1 else (session.schema or "")
    return schema.lower() == places.INFORMATION_SCHEMA
