"""engine: a query from its tree to what the engine is asked.

Names are looked up with the caller's rights, tables are pinned to one snapshot each, the dialect
binds, and the engine gets just the files that can matter.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

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
    """What one statement may use."""

    timeout_seconds: int = 1200
    memory_bytes: int = 2 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """One statement being run."""

    session: sessions.Session
    query_id: str
    bindings: Mapping[str, bindings.Binding]
    parameters: Mapping[str, parameters.Value]
    describe_only: bool
    now: datetime.datetime
    context: shapes.Context = field(repr=False)
    compiled: compiler.Compilation = field(repr=False)

    @property
    def by(self) -> str:
        return self.session.principal.arn

    @property
    def zone(self) -> str:
        return str(self.session.parameter("TIMEZONE"))


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryTables:
    """The tables of a query, looked up. tables: by use; None where it is no stored table."""

    shapes: tuple[shapes.TableShape, ...]
    tables: tuple[relations.PinnedTable | None, ...]
    ready: Mapping[int, engine.Relation]


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """What the names of a query mean, read in one view of the catalog.

    fault: why one of them means nothing to the caller; raised when the query is bound.
    """

    needs: compilation.Needs
    meanings: Mapping[names.Name, places.FoundTable | information_schema.Gathered]
    fault: errors.SqlError | None = None


class Planning:
    """Binds queries and plans them. Owns nothing but what it is given."""

    def __init__(
        self,
        *,
        places: places.Places,
        tables: tables.Tables,
        relations: relations.Relations,
        readers: readers.Readers,
        described: information_schema.InformationSchema,
        limits: StatementLimits | None = None,
    ) -> None:
        self._places = places
        self._tables = tables
        self._relations = relations
        self._readers = readers
        self._described = described
        self._limits = limits or StatementLimits()

    async def look_up(
        self, execution: Execution, read: Callable[[places.CatalogView], _Read]
    ) -> tuple[_Read, Names]:
        """Return what read returns, and what the names of the statement's query mean.

        Both see the catalog in one view, so that one statement sees each commit whole or not at
        all. read: what else the statement reads there; it raises what it raises.
        """
        needs = await execution.compiled.needs(await self.environment(execution))

        def look() -> tuple[_Read, Names]:
            with self._places.view(execution.session.principal) as catalog:
                return read(catalog), self._names(execution, needs, catalog)

        if any(_lists_names(use, execution.session) for use in needs.uses):
            # A database may hold very many names, and each is judged.
            return await asyncio.to_thread(look)
        return look()

    async def bound(
        self, execution: Execution, meant: Names | None = None
    ) -> tuple[resolve.BoundQuery, QueryTables]:
        """Return the statement's query bound to its tables, and these.

        meant: its names, looked up before.
        """
        opened = await self._open(execution, meant)
        environment = await self.environment(execution, opened.shapes)
        return await execution.compiled.bind_query(environment), opened

    async def bound_into(
        self,
        execution: Execution,
        meant: Names,
        loaded: tables.LoadedTable,
        fields: Sequence[Mapping[str, Any]],
        target: writes.WriteTarget,
    ) -> tuple[resolve.BoundQuery, engine.EngineQuery]:
        """Return the statement's rows as columns of a table take them, and the query for them.

        meant: the names of its query, looked up before.
        """
        targets = await threads.for_columns(len(fields), _types_of, loaded, fields)
        opened = await self._open(execution, meant)
        environment = await self.environment(execution, opened.shapes)
        query = await execution.compiled.bind_into(environment, targets)
        text = await threads.for_columns(
            len(target.fields), writes.plan_text, query, target, fields
        )
        return query, await self.query(execution, query, opened, text=text)

    async def environment(
        self, execution: Execution, tables: tuple[shapes.TableShape, ...] = ()
    ) -> shapes.Environment:
        """Return what the dialect knows beside the text."""
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

    async def _open(self, execution: Execution, meant: Names | None) -> QueryTables:
        """Load every table of a query, as it was in the view that its names were looked up in."""
        if meant is None:
            _, meant = await self.look_up(execution, lambda _: None)
        if meant.fault is not None:
            raise meant.fault
        session, needs = execution.session, meant.needs
        loaded: dict[names.Name, tables.LoadedTable] = {}
        stored: list[relations.PinnedTable | None] = []
        described: list[shapes.TableShape] = []
        ready: dict[int, engine.Relation] = {}
        for use in needs.uses:
            name = f"{use.index}:{names.dotted(use.name)}"
            place = meant.meanings[use.name]
            if isinstance(place, information_schema.Gathered):
                shape, ready[use.index] = await self._described.relation(place, name)
                described.append(shape)
                stored.append(None)
                continue
            if use.name not in loaded:
                loaded[use.name] = await self._tables.fetch_at(place.ident, place.pointer)
            reader = self._readers.of(session.principal, loaded[use.name])
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
        """Return what each name of a query means. Raises SqlError."""
        session = execution.session
        meanings: dict[names.Name, places.FoundTable | information_schema.Gathered] = {}
        for use in uses:
            if use.function:
                raise errors.unsupported(f"table function {use.function}")
            place = catalog.schema_of(use.name, database=session.database, schema=session.schema)
            if not place.namespace and use.moment is not None:
                raise errors.unsupported("AT or BEFORE on INFORMATION_SCHEMA")
            if use.name in meanings:
                continue
            if not place.namespace:
                meanings[use.name] = self._described.gather(catalog, use.name[-1], place)
                continue
            table = catalog.table(use.name, database=session.database, schema=session.schema)
            transactions.check_not_waiting(session, table.ident)
            meanings[use.name] = table
        return meanings

    async def query(
        self,
        execution: Execution,
        query: resolve.BoundQuery,
        opened: QueryTables,
        *,
        text: str | None = None,
        purpose: Literal["run", "describe", "explain"] = "run",
    ) -> engine.EngineQuery:
        """Return what the engine is asked. text: instead of the bound one.

        The statement is bound by now, so another may be read in its place.
        """
        await execution.compiled.close()
        relations = await self._relations_of(execution, query, opened, empty=purpose == "describe")
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
        )

    async def _relations_of(
        self, execution: Execution, query: resolve.BoundQuery, opened: QueryTables, *, empty: bool
    ) -> tuple[engine.Relation, ...]:
        relations = []
        for index, (shape, table) in enumerate(zip(opened.shapes, opened.tables, strict=True)):
            if table is None:
                relations.append(opened.ready[index])
            elif empty:
                relation = await threads.for_columns(
                    len(shape.columns),
                    self._relations.empty,
                    table,
                    shape.relation,
                    zone=call.zone,
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
        ours = self._limits.timeout_seconds
        return float(min(requested, ours) if requested else ours)


def _types_of(
    loaded: tables.LoadedTable, fields: Sequence[Mapping[str, Any]]
) -> list[sqltypes.SqlType]:
    """Return the types of a table's columns as they were declared."""
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
    """Say whether a name may be a view of INFORMATION_SCHEMA, which lists a whole database."""
    schema = use.name[-2].folded if len(use.name) > 1 else (session.schema or "")
    return schema.lower() == places.INFORMATION_SCHEMA
