"""engine: from a query's tree to the engine's query.

It looks names up with the caller's rights, pins each table to one snapshot, has the dialect bind
the query, and gives the engine only the files that the query's filters do not exclude.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from catalog import idents, readers, rights, sequences, tables
from sql import (
    bindings,
    compiler,
    computed_rows,
    engine,
    errors,
    information_schema,
    inputs,
    ipc,
    limits,
    parameters,
    pinned,
    places,
    relations,
    results,
    sessions,
    staged_reads,
    stored_views,
    tablecolumns,
    tabletypes,
    threads,
    transactions,
    warehouserows,
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
    """One statement while it runs. transaction: the open one when the statement began.

    staged: the tables that stand for its staged files, by the names that its text has for them.
    trusts_statistics: what the metadata of tables states of their values may be relied on.
    """

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
    staged: Mapping[str, staged_reads.StagedTable] = field(default_factory=dict, repr=False)
    trusts_statistics: bool = True

    @property
    def by(self) -> str:
        """The ARN of the statement's principal, as commits record it."""
        return self.session.principal.arn

    @property
    def zone(self) -> str:
        """The name of the session's time zone."""
        return str(self.session.parameter("TIMEZONE"))


Purpose: TypeAlias = Literal["run", "describe", "explain"]
SequenceUses: TypeAlias = tuple[shapes.SequenceUse, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryTables:
    """The tables of a query, one for each use; None for a view and for a stored result.

    ready: the relations of stored results and of the views of INFORMATION_SCHEMA, by use.
    sequences: each NEXTVAL. numbers: what was reserved for each, the first number and the step to
    the next row's. drawn: the rows of volatile WITH expressions, as far as they are computed, so
    that all queries of a statement read the same; mutable.
    """

    shapes: tuple[shapes.TableShape, ...]
    tables: tuple[pinned.PinnedTable | None, ...]
    ready: Mapping[int, engine.Relation]
    sequences: SequenceUses = ()
    numbers: tuple[tuple[int, int], ...] = ()
    drawn: dict[resolve.Drawing, engine.Relation] | None = None


Fill: TypeAlias = Callable[
    [resolve.BoundQuery, QueryTables],
    Awaitable[tuple[resolve.BoundQuery, Mapping[int, str]]],
]
"""Returns the query of an INSERT, which may need more functions now, and the engine's text of each
default, by field id."""

Meaning: TypeAlias = (
    places.NamedTable | information_schema.Gathered | stored_views.View | staged_reads.StagedTable
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """The tables that the names of a query refer to, read in one view of the catalog.

    needs: of the query and of all views that it reads. meanings: by the number of the table use.
    fault: the error of a name that refers to no table that the caller may read; `Planning.bound`
    raises it.
    """

    needs: compilation.Needs
    meanings: Mapping[int, Meaning]
    fault: errors.SqlError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reference:
    """A table use, and where it stands: in the statement, or in the innermost of these views."""

    use: shapes.TableUse
    within: tuple[stored_views.View, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Unread:
    """A view whose text is to be read before the names in it can be looked up."""

    reference: _Reference
    view: places.NamedTable | stored_views.View


@dataclass(kw_only=True, slots=True)
class _Expansion:
    """The views of a statement, by table use, as far as they are read; mutable."""

    needs: compilation.Needs
    opened: dict[int, tuple[stored_views.View, compilation.Needs]] = field(default_factory=dict)

    @property
    def all_needs(self) -> tuple[compilation.Needs, ...]:
        return (self.needs, *(needs for _, needs in self.opened.values()))


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
        views: stored_views.StoredViews,
        sequences: sequences.Sequences,
        engine: engine.Engine,
        warehouses: warehouserows.WarehouseRows,
        limits: StatementLimits | None = None,
    ) -> None:
        self._places = places
        self._tables = tables
        self._relations = relations
        self._readers = readers
        self._described = described
        self._transactions = transactions
        self._views = views
        self._sequences = sequences
        self._engine = engine
        self._warehouses = warehouses
        self._limits = limits or StatementLimits()

    async def look_up(
        self, execution: Execution, read: Callable[[places.CatalogView], _Read]
    ) -> tuple[_Read, Names]:
        """Return read's result, and the tables that the names of the query refer to.

        Both read one view of the catalog, so that the statement sees all or nothing of each commit.
        read: reads what else the statement needs there; its errors propagate. It is called again
        for each level of views below the query: the text of a view is read from its file outside
        the view of the catalog, and then all names are looked up again in a new one.
        """
        environment = await self.environment(execution)
        expansion = _Expansion(needs=await execution.compiled.needs(environment))
        for _ in range(limits.VIEW_READINGS_MAX):
            result, names_or_unread = await self._look(execution, expansion, read)
            if isinstance(names_or_unread, Names):
                return result, names_or_unread
            if not names_or_unread:  # a view was replaced meanwhile
                expansion = _Expansion(needs=await execution.compiled.needs(environment))
                continue
            try:
                for unread in names_or_unread:
                    await self._expand(execution, environment, expansion, unread)
            except errors.SqlError as fault:
                return result, Names(needs=expansion.needs, meanings={}, fault=fault)
        raise errors.too_complex("its views are replaced too often to be read")

    async def _look(
        self,
        execution: Execution,
        expansion: _Expansion,
        read: Callable[[places.CatalogView], _Read],
    ) -> tuple[_Read, Names | list[_Unread]]:
        """Return read's result, and the names, or the views that are to be read first.

        No view is to be read, and there are no names, where a view has changed since it was read.
        """

        def look() -> tuple[_Read, Names | list[_Unread]]:
            with self._places.view_of(execution.session) as catalog:
                return read(catalog), self._names(execution, expansion, catalog)

        uses = sum(len(needs.uses) for needs in expansion.all_needs)
        if uses > limits.NAMES_HERE_MAX or _lists_names(execution, expansion):
            # A database may have very many tables, and each one's rights are checked.
            return await asyncio.to_thread(look)
        return look()

    async def _expand(
        self,
        execution: Execution,
        environment: shapes.Environment,
        expansion: _Expansion,
        unread: _Unread,
    ) -> None:
        """Read a view's text, and the names in it. Raises SqlError."""
        reference = unread.reference
        view = unread.view
        if isinstance(view, places.NamedTable):
            view = await self._views.load(view)
        within = (*reference.within, view)
        try:
            text = stored_views.query_of(view)
            needs = await execution.compiled.expand(environment, reference.use.index, text)
        except errors.SqlError as error:
            raise _within(within, error) from None
        expansion.opened[reference.use.index] = (view, needs)

    async def bound(
        self,
        execution: Execution,
        query_names: Names | None = None,
        *,
        emits_spark: bool = False,
    ) -> tuple[resolve.BoundQuery, QueryTables]:
        """Return the statement's query bound to its tables, and the tables.

        query_names: the query's names if they are looked up already. emits_spark: its text is
        wanted in Spark's language, too.
        """
        query_tables = await self.open(execution, query_names)
        environment = await self.environment(execution, query_tables.shapes)
        environment = dataclasses.replace(environment, pivots={}, emits_spark=emits_spark)
        query = await execution.compiled.bind_query(environment)
        while query.pivot is not None:
            values = await self._pivot_values(execution, query, query_tables)
            pivots = {**(environment.pivots or {}), query.pivot: values}
            environment = dataclasses.replace(environment, pivots=pivots)
            query = await execution.compiled.bind_query(environment)
        if query_tables.sequences and not execution.describe_only:
            query_tables = await self._numbered(execution, query, query_tables)
            environment = dataclasses.replace(environment, numbers=query_tables.numbers)
            query = await execution.compiled.bind_query(environment)
        return query, query_tables

    async def _pivot_values(
        self, execution: Execution, query: resolve.BoundQuery, query_tables: QueryTables
    ) -> tuple[Any, ...]:
        """Return the values of a PIVOT, which a query over the same snapshots gives."""
        planned = await self.query(execution, query, query_tables)
        rows, _ = await engine.collect(await self._engine.run(planned))
        try:
            return tuple(value for value in rows.column(0).to_pylist() if value is not None)
        except (OverflowError, ValueError):  # Python's dates end with the year 9999
            raise errors.unsupported("PIVOT of a column with a year after 9999") from None

    async def _numbered(
        self, execution: Execution, query: resolve.BoundQuery, query_tables: QueryTables
    ) -> QueryTables:
        """Reserve the numbers that a query takes. query: bound without them."""
        principal = execution.session.principal
        rows = 1
        is_array = any(binding.is_array for binding in execution.bindings.values())
        if is_array or any(use.is_per_row for use in query_tables.sequences):
            rows = await self.count_rows(execution, query, query_tables)
        counts: dict[names.Name, int] = {}
        for use in query_tables.sequences:
            counts[use.name] = counts.get(use.name, 0) + rows
        following: dict[names.Name, tuple[int, int]] = {}
        for name, count in counts.items():
            ident = self.sequence(execution, name)
            judge = self._places.judge_sequence(principal, (ident, rights.WRITE_DATA))
            following[name] = await self._sequences.reserve(
                ident.table_bucket, ident.namespace, ident.name, count, judge=judge
            )
        numbers: list[tuple[int, int]] = []
        for use in query_tables.sequences:
            first, step = following[use.name]
            numbers.append((first, step))
            following[use.name] = (first + step * rows, step)
        return dataclasses.replace(query_tables, numbers=tuple(numbers))

    def sequence(self, execution: Execution, name: names.Name) -> idents.TableIdent:
        """Return the sequence that a name refers to, if the caller may take numbers of it.

        Raises SqlError 002003 for a sequence that does not exist or is hidden; 003001.
        """
        session = execution.session
        with self._places.view(session.principal) as catalog:
            schema = catalog.schema_of(
                name, database=session.database, schema=session.schema, exactly=False
            )
            missing = catalog.no_table(schema, name, object_type="Sequence")
            if not schema.namespace:
                raise missing
            listed = self._sequences.list(schema.database, schema.namespace)
            stored = names.find_one(name[-1], [each.name for each in listed])
            if stored is None:
                raise missing
            ident = idents.TableIdent(
                table_bucket=schema.database, namespace=schema.namespace, name=stored
            )
            catalog.check_sequence(ident, rights.WRITE_DATA, missing=missing)
        return ident

    async def count_rows(
        self, execution: Execution, query: resolve.BoundQuery, query_tables: QueryTables
    ) -> int:
        """Return the number of rows of a query."""
        if query.row_count is not None:
            return query.row_count
        array = [binding for binding in execution.bindings.values() if binding.is_array]
        if array:
            return max(binding.rows for binding in array)
        text = f'SELECT count(*) FROM ({query.sql}) AS "rows"'
        planned = await self.query(execution, query, query_tables, text=text)
        table, _ = await engine.collect(await self._engine.run(planned))
        return int(table.column(0)[0].as_py())

    async def bound_source(
        self, execution: Execution, query_names: Names
    ) -> tuple[resolve.BoundQuery, engine.EngineQuery]:
        """Return the query of a multi-table INSERT bound, and the engine's query for its rows."""
        query_tables = await self.open(execution, query_names)
        environment = await self.environment(execution, query_tables.shapes)
        query = await execution.compiled.bind_source(environment)
        planned = await self.query(execution, query, query_tables, text=query.sql)
        return query, dataclasses.replace(planned, keeps_nested=True)

    async def bound_clause(
        self,
        execution: Execution,
        source: QueryTables,
        number: int,
        fields: Sequence[Mapping[str, Any]],
        target: writes.WriteTarget,
        fill: Fill | None = None,
    ) -> engine.EngineQuery:
        """Return the engine's query for the rows of an INTO clause. Like `bound_into`.

        source: the rows of the statement's query.
        """
        targets = await threads.for_columns(len(fields), _types_of, target.loaded, fields)
        environment = await self.environment(execution, source.shapes)
        query = await execution.compiled.bind_clause(environment, number, targets)
        filled: Mapping[int, str] = {}
        if fill is not None:
            query, filled = await fill(query, source)
        text = await threads.for_columns(
            len(target.fields), writes.plan_text, query, target, fields, filled
        )
        return await self.query(execution, query, source, text=text)

    async def bound_into(
        self,
        execution: Execution,
        query_names: Names,
        loaded: tables.LoadedTable,
        fields: Sequence[Mapping[str, Any]],
        target: writes.WriteTarget,
        fill: Fill | None = None,
        *,
        defaulted: Sequence[int] = (),
    ) -> tuple[resolve.BoundQuery, engine.EngineQuery]:
        """Return the statement's query bound to the types of a table's columns, and the engine's
        query for its rows.

        query_names: the query's names. fields: the columns that the query fills, in its order.
        fill: returns the defaults of the other columns. defaulted: as in `operations.Insert`.
        """
        targets = await threads.for_columns(len(fields), _types_of, loaded, fields)
        targets += [sqltypes.BOOLEAN] * len(defaulted)
        query_tables = await self.open(execution, query_names)
        environment = await self.environment(execution, query_tables.shapes)
        query = await execution.compiled.bind_into(environment, targets)
        if query_tables.sequences:
            query_tables = await self._numbered(execution, query, query_tables)
            environment = dataclasses.replace(environment, numbers=query_tables.numbers)
            query = await execution.compiled.bind_into(environment, targets)
        filled: Mapping[int, str] = {}
        if fill is not None:
            query, filled = await fill(query, query_tables)
        text = await threads.for_columns(
            len(target.fields),
            writes.plan_text,
            query,
            target,
            fields,
            filled,
            defaulted=defaulted,
        )
        return query, await self.query(execution, query, query_tables, text=text)

    async def bound_unfilled(
        self,
        execution: Execution,
        query_names: Names,
        loaded: tables.LoadedTable,
        fields: Sequence[Mapping[str, Any]],
        *,
        defaulted: Sequence[int] = (),
    ) -> tuple[resolve.BoundQuery, QueryTables]:
        """Return what `bound_into` binds, for a plan alone: sequences give no numbers."""
        targets = await threads.for_columns(len(fields), _types_of, loaded, fields)
        targets += [sqltypes.BOOLEAN] * len(defaulted)
        query_tables = await self.open(execution, query_names)
        environment = await self.environment(execution, query_tables.shapes)
        return await execution.compiled.bind_into(environment, targets), query_tables

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

    async def open(self, execution: Execution, query_names: Names | None) -> QueryTables:
        """Load every table of a query, as it was in the view in which its name was looked up, with
        the changes of the session's transaction.

        query_names: the query's names if they are looked up already.
        """
        if query_names is None:
            _, query_names = await self.look_up(execution, lambda _: None)
        if query_names.fault is not None:
            raise query_names.fault
        session, needs = execution.session, query_names.needs
        loaded: dict[tuple[idents.TableIdent, bool], tables.LoadedTable] = {}
        current: dict[idents.TableIdent, tuple[pinned.PinnedTable, tablecolumns.Bounds | None]] = {}
        stored: list[pinned.PinnedTable | None] = []
        described: list[shapes.TableShape] = []
        ready: dict[int, engine.Relation] = {}
        scanned_bytes = 0
        for use in needs.uses:
            name = f"{use.index}:{names.dotted(use.name)}"
            if use.result_id:
                result = await execution.results.stored(session, use.result_id)
                scanned_bytes += result.size_bytes
                results.check_size(scanned_bytes)
                shape, ready[use.index] = await results.relation(result, name, zone=execution.zone)
                described.append(shape)
                stored.append(None)
                continue
            named = query_names.meanings[use.index]
            if isinstance(named, staged_reads.StagedTable):
                described.append(named.shape(name))
                ready[use.index] = named.named(name)
                stored.append(None)
                continue
            if isinstance(named, information_schema.Gathered):
                shape, ready[use.index] = await self._described.relation(
                    named,
                    name,
                    zone=execution.zone,
                    recorded=lambda sees_all: execution.results.recorded(
                        session, sees_all=sees_all
                    ),
                )
                described.append(shape)
                stored.append(None)
                continue
            if isinstance(named, stored_views.View):
                described.append(stored_views.shape(named, name))
                stored.append(None)
                continue
            key = (named.ident, use.moment is None)
            if key not in loaded:
                # Time travel reads committed states alone.
                loaded[key] = (
                    await self._transactions.table(session, named.ident, named.pointer)
                    if use.moment is None
                    else await self._tables.fetch_at(named.ident, named.pointer)
                )
            opened = current.get(named.ident) if use.moment is None else None
            if opened is None:
                reader = self._readers.of(session.principal, loaded[key])
                table = await pinned.find_snapshot(reader, use.moment)
                if not execution.trusts_statistics:
                    self._relations.distrust([table])
                ends = await self._relations.bounds(table) if needs.wants_bounds else None
                if use.moment is None:
                    current[named.ident] = (table, ends)
            else:
                table, ends = opened
            width = len(table.fields)
            described.append(
                await threads.for_columns(
                    width, self._relations.shape, table, name, ends, numbered=use.is_target
                )
            )
            stored.append(table)
        return QueryTables(
            shapes=tuple(described),
            tables=tuple(stored),
            ready=ready,
            sequences=needs.sequences,
            drawn={},
        )

    def _names(
        self, execution: Execution, expansion: _Expansion, catalog: places.CatalogView
    ) -> Names | list[_Unread]:
        try:
            return self._find(execution, expansion, catalog)
        except errors.SqlError as fault:
            return Names(needs=expansion.needs, meanings={}, fault=fault)

    def _find(
        self, execution: Execution, expansion: _Expansion, catalog: places.CatalogView
    ) -> Names | list[_Unread]:
        """Return the table that each name of a query and of its views refers to. Raises SqlError.

        Views that are not read yet are returned instead; none of them where one has changed.
        """
        waiting = [_Reference(use=use) for use in expansion.needs.uses]
        meanings: dict[int, Meaning] = {}
        uses: list[shapes.TableUse] = []
        unread: list[_Unread] = []
        for reference in waiting:  # grows while it is read
            use = reference.use
            if use.result_id:
                uses.append(use)
                continue
            try:
                meaning = self._meaning(execution, reference, catalog)
            except errors.SqlError as error:
                if reference.within and error.code == "003001":
                    error = errors.does_not_exist("Object", names.dotted(use.name))
                raise _within(reference.within, error) from None
            uses.append(use)
            if not _is_view(meaning):
                meanings[use.index] = meaning
                continue
            assert isinstance(meaning, places.NamedTable | stored_views.View)
            opened = expansion.opened.get(use.index)
            if opened is None:
                unread.append(_Unread(reference=reference, view=meaning))
                continue
            view, needs = opened
            if view.pointer.metadata_location != meaning.pointer.metadata_location:
                return []
            meanings[use.index] = view
            waiting += [
                _Reference(
                    use=inner if inner.moment else dataclasses.replace(inner, moment=use.moment),
                    within=(*reference.within, view),
                )
                for inner in needs.uses
            ]
        if unread:
            return unread
        uses.sort(key=lambda use: use.index)
        wants_bounds = any(needs.wants_bounds for needs in expansion.all_needs)
        needs = compilation.Needs(
            uses=tuple(uses),
            wants_bounds=wants_bounds,
            sequences=expansion.needs.sequences,
        )
        return Names(needs=needs, meanings=meanings)

    def _meaning(
        self, execution: Execution, reference: _Reference, catalog: places.CatalogView
    ) -> Meaning:
        """Return the table or view that one name refers to. Raises SqlError."""
        session, use = execution.session, reference.use
        if not reference.within and len(use.name) == 1 and use.name[0].quoted:
            staged = execution.staged.get(use.name[0].text)
            if staged is not None:
                return staged
        database, schema_name, name = session.database, session.schema, use.name
        if reference.within:
            # A name in a view means the same in every session.
            view = reference.within[-1]
            database, schema_name, name = view.database, view.schema, view.here(name)
        schema = catalog.schema_of(
            name, database=database, schema=schema_name, exactly=use.is_target
        )
        if not schema.namespace:
            if use.moment is not None:
                raise errors.unsupported("AT or BEFORE on INFORMATION_SCHEMA")
            return self._described.gather(catalog, session, name[-1], schema)
        table: places.NamedTable | stored_views.View | None = None
        is_own = all(view.is_temporary for view in reference.within)
        if is_own:
            table = stored_views.find_temporary(session, schema, name[-1])
        if table is None:
            actions: Sequence[str] = rights.READ_ACTIONS
            if use.is_target:
                actions = rights.LOAD_ACTIONS if execution.describe_only else rights.COMMIT_ACTIONS
            table = catalog.relation(
                name,
                database=database,
                schema=schema_name,
                exactly=use.is_target,
                actions=actions,
                only_lasting=not is_own,
            )
        if _is_view(table):
            if use.moment is not None and use.moment.parameter in ("version", "ref"):
                raise errors.unsupported(f"AT ({use.moment.parameter.upper()} => ...) on a view")
            if len(reference.within) >= limits.VIEW_DEPTH_MAX:
                raise errors.too_complex(f"views nest deeper than {limits.VIEW_DEPTH_MAX}")
            if any(view.ident == table.ident for view in reference.within):
                raise errors.view_of_itself(stored_views.shown_name(table.ident))
        return table

    async def query(
        self,
        execution: Execution,
        query: resolve.BoundQuery,
        query_tables: QueryTables,
        *,
        text: str | None = None,
        purpose: Purpose = "run",
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
        drawn = query_tables.drawn if purpose == "run" else None
        drawn = {} if drawn is None else drawn
        for drawing in query.drawings:
            if drawing not in drawn:
                held_bytes = sum(len(each.rows or b"") for each in drawn.values())
                drawn[drawing] = await self._drawn(
                    execution, drawing, relations, held_bytes, computes=purpose == "run"
                )
            relations = (*relations, drawn[drawing])
        return engine.EngineQuery(
            text=query.sql if text is None else text,
            query_id=execution.query_id,
            owner=execution.session.principal.name,
            warehouse=execution.session.warehouse,
            relations=relations,
            functions=query.functions,
            settings=engine.Settings(
                timezone=execution.zone, partitions=1 if _is_small(query, relations) else 0
            ),
            limits=engine.QueryBounds(
                seconds=self.seconds(execution), memory_bytes=self._limits.memory_bytes
            ),
            purpose=purpose,
            variants=query.variants if text is None else (),
            json_indent=int(execution.session.parameter(parameters.JSON_INDENT)),
            is_aggregate=query.is_aggregate,
        )

    async def _drawn(
        self,
        execution: Execution,
        drawing: resolve.Drawing,
        relations: tuple[engine.Relation, ...],
        held_bytes: int,
        *,
        computes: bool,
    ) -> engine.Relation:
        """Return the rows of a WITH expression that the engine computes before the query.

        relations: what it may read. held_bytes: of the statement's other such rows. computes: else
        the relation has no rows.
        """
        plain = self.plain(execution, drawing.sql, relations)
        query = dataclasses.replace(
            plain,
            functions=drawing.functions,
            settings=engine.Settings(timezone=execution.zone),
            purpose="run" if computes else "describe",
            keeps_nested=True,
        )
        rows = await computed_rows.collect(
            await self._engine.run(query),
            bytes_max=limits.DRAWN_BYTES_MAX,
            source="WITH expressions with RANDOM or its like that are read more than once have",
            held_bytes=held_bytes,
        )
        return await asyncio.to_thread(computed_rows.relation, rows, drawing.name, drawing.columns)

    def plain(
        self, execution: Execution, text: str, relations: tuple[engine.Relation, ...]
    ) -> engine.EngineQuery:
        """Return the engine's query of a text that no statement's own query stands behind."""
        return engine.EngineQuery(
            text=text,
            query_id=execution.query_id,
            owner=execution.session.principal.name,
            warehouse=execution.session.warehouse,
            relations=relations,
            limits=engine.QueryBounds(
                seconds=self.seconds(execution), memory_bytes=self._limits.memory_bytes
            ),
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
        read: dict[tuple[int, Any], engine.Relation] = {}
        tables_by_use = zip(query_tables.shapes, query_tables.tables, strict=True)
        for index, (shape, table) in enumerate(tables_by_use):
            if table is None:
                if index in query_tables.ready:
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
                conditions = tuple(query.filters.get(index, ()))
                same = read.get((id(table), conditions))
                if same is None:
                    same = read[id(table), conditions] = await self._relations.relation(
                        table,
                        shape.relation,
                        conditions=conditions,
                        zone=execution.zone,
                        owner=execution.session.principal.name,
                        query_id=execution.query_id,
                        warehouse=execution.session.warehouse,
                    )
                relations.append(dataclasses.replace(same, name=shape.relation))
        return tuple(relations)

    def seconds(self, execution: Execution) -> float:
        """Return the statement's time limit."""
        return float(
            self._warehouses.statement_seconds(
                execution.session,
                execution.parameters,
                seconds_max=self._limits.timeout_seconds,
            )
        )


def _types_of(
    loaded: tables.LoadedTable, fields: Sequence[Mapping[str, Any]]
) -> list[sqltypes.SqlType]:
    """Return the declared types of a table's columns."""
    declared = tabletypes.declared_types(loaded.metadata.properties)
    return [tabletypes.sql_type(column["type"], declared.get(column["id"])) for column in fields]


def _is_small(query: resolve.BoundQuery, relations: Sequence[engine.Relation]) -> bool:
    """Return whether a query reads tables alone, or GENERATOR alone, of few rows together.

    One thread computes it then, so that rows without ORDER BY come in the order of their commits,
    and those of GENERATOR in the order of their numbers.
    """
    if query.generated_rows:
        return not relations and query.generated_rows <= limits.ONE_THREAD_GENERATED_MAX
    counts = [each.row_count for each in relations]
    return (
        bool(counts)
        and sum(limits.ONE_THREAD_ROWS_MAX + 1 if count is None else count for count in counts)
        <= limits.ONE_THREAD_ROWS_MAX
    )


def _bound_relation(binding_by_name: Mapping[str, bindings.Binding], zone: str) -> engine.Relation:
    rows = inputs.bound_rows(binding_by_name, zone)
    return engine.Relation(
        name=inputs.BINDS_RELATION,
        schema=ipc.encode_schema(rows.schema),
        rows=ipc.encode_rows(rows),
    )


def _lists_names(execution: Execution, expansion: _Expansion) -> bool:
    """Return whether a name may be a view of INFORMATION_SCHEMA, which lists a whole database."""
    schema = execution.session.schema or ""
    named = [(use, schema) for use in expansion.needs.uses]
    for view, needs in expansion.opened.values():
        named += [(use, view.schema or "") for use in needs.uses]
    return any(
        (use.name[-2].folded if len(use.name) > 1 else schema_name).lower()
        == places.INFORMATION_SCHEMA
        for use, schema_name in named
    )


def _is_view(meaning: Meaning) -> bool:
    if isinstance(meaning, places.NamedTable):
        return meaning.pointer.object_type == "view"
    return isinstance(meaning, stored_views.View)


def _within(views: Sequence[stored_views.View], error: errors.SqlError) -> errors.SqlError:
    """Return the error of a statement whose views fail, the innermost one last, with error."""
    for view in reversed(views):
        error = error.within_view(stored_views.shown_name(view.ident))
    return error
