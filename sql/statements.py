"""engine: one statement from text to answer.

A text becomes one operation of the dialect's closed set; each operation has one method here. A
query: names are looked up with the caller's rights, tables are pinned to one snapshot each, the
dialect binds, and the engine runs over just the files that can matter. DML and DDL end in one
commit of the catalog. What is not built is refused by name before anything happened.

BEGIN holds one DML statement back until COMMIT: its files are written and named by nobody, so
ROLLBACK really takes it back. A second one, or reading a table that waits to be changed, is refused
rather than answered wrongly. DDL commits what waits first, as Snowflake does.
"""

from __future__ import annotations

import asyncio
import datetime
import decimal
import logging
import zoneinfo
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from catalog import errors as catalog_errors
from catalog import idents, namespaces, receipts, tables
from catalog.metadata import errors as metadata_errors
from sql import (
    bindings,
    constants,
    engine,
    errors,
    faults,
    information_schema,
    kernels,
    outcomes,
    parameters,
    places,
    relations,
    replays,
    sessions,
    show,
    tabletypes,
    writes,
)
from sql import names as session_names
from sql.dialect import bound as bounds
from sql.dialect import (
    expressions,
    formats,
    names,
    operations,
    parse,
    references,
    resolve,
    rewrites,
    shapes,
    sqltypes,
)
from storage import errors as storage_errors
from storage import model as storage_model

THREAD_TEXT_LENGTH_MIN = 20_000
"""From this length on a text is read in a thread, so that other requests get their turn."""

BINDS_RELATION = "__binds"
DEFAULT_SCHEMA = "public"
VARIABLE_LENGTH_MAX = 256
VARIABLES_MAX = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one statement may use. batch_rows: of the engine's record batches."""

    timeout_seconds: int = 1200
    memory_bytes: int = 2 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """What the context functions tell of the server."""

    version: str
    region: str


@dataclass(kw_only=True, slots=True)
class Transaction:
    """BEGIN until COMMIT or ROLLBACK; mutable. waiting: the one DML statement held back."""

    waiting: writes.Staged | None = None
    query_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    """One statement being run."""

    session: sessions.Session
    query_id: str
    bindings: Mapping[str, bindings.Binding]
    parameters: Mapping[str, parameters.Value]
    describe_only: bool
    now: datetime.datetime
    context: shapes.Context = field(repr=False)

    @property
    def by(self) -> str:
        return self.session.principal.arn

    @property
    def zone(self) -> str:
        return str(self.session.parameter("TIMEZONE"))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Opened:
    """The tables of a query, looked up. tables: by use; None where it is no stored table."""

    shapes: tuple[shapes.TableShape, ...]
    tables: tuple[relations.Table | None, ...]
    ready: Mapping[int, engine.Relation]


class Statements:
    """Runs statements. Owns nothing but what it is given."""

    def __init__(
        self,
        *,
        engine: engine.Engine,
        places: places.Places,
        relations: relations.Relations,
        writes: writes.Writes,
        shows: show.Shows,
        described: information_schema.InformationSchema,
        namespaces: namespaces.Namespaces,
        tables: tables.Tables,
        replays: replays.Replays,
        now_ms: storage_model.NowMs,
        about: About,
        limits: Limits | None = None,
    ) -> None:
        self._engine = engine
        self._places = places
        self._relations = relations
        self._writes = writes
        self._shows = shows
        self._described = described
        self._namespaces = namespaces
        self._tables = tables
        self._replays = replays
        self._now_ms = now_ms
        self._about = about
        self._limits = limits or Limits()

    async def execute(
        self,
        session: sessions.Session,
        text: str,
        *,
        bindings: Mapping[str, bindings.Binding],
        parameters: Mapping[str, parameters.Value],
        describe_only: bool,
        query_id: str,
    ) -> outcomes.Outcome:
        """Run text and return its answer; raises SqlError. Cancelling the call ends the work."""
        call = self._call(session, bindings, parameters, describe_only, query_id)
        try:
            if len(text) >= THREAD_TEXT_LENGTH_MIN:
                operation = await asyncio.to_thread(parse.parse, text)
            else:
                operation = parse.parse(text)
            _check_transaction(session, operation)
            return await self._run(call, operation)
        except engine.EngineFault as fault:
            raise _told(fault, query_id) from fault
        except (
            catalog_errors.CatalogError,
            metadata_errors.MetadataError,
            storage_errors.StorageError,
        ) as error:
            known = faults.of_catalog(error)
            if known is None:
                raise
            raise known from error

    def _call(
        self,
        session: sessions.Session,
        given: Mapping[str, bindings.Binding],
        statement_parameters: Mapping[str, parameters.Value],
        describe_only: bool,
        query_id: str,
    ) -> _Call:
        zone = zoneinfo.ZoneInfo(str(session.parameter("TIMEZONE")))
        now = datetime.datetime.fromtimestamp(self._now_ms() / 1000, zone)
        context = shapes.Context(
            now=now,
            database=session.database,
            schema=session.schema,
            warehouse=session.warehouse,
            role=session.role,
            user=session.principal.name.upper(),
            account=session.account_name.upper(),
            region=self._about.region,
            session_id=session.id,
            version=self._about.version,
            client=f"{session.client_app_id} {session.client_app_version}".strip(),
            query_ids=tuple(session.query_ids),
            timestamp_mapping=str(session.parameter("TIMESTAMP_TYPE_MAPPING")),
            forms=_forms(session),
        )
        return _Call(
            session=session,
            query_id=query_id,
            bindings=given,
            parameters=statement_parameters,
            describe_only=describe_only,
            now=now,
            context=context,
        )

    async def _run(self, call: _Call, operation: operations.Operation) -> outcomes.Outcome:
        match operation:
            case operations.Query():
                return await self._query(call, operation.tree)
            case operations.Explain():
                return await self._explain(call, operation.tree)
            case operations.Show():
                return self._shows.show(call.session, operation)
            case operations.Describe():
                return self._shows.describe(call.session, operation)
            case operations.Insert():
                return await self._insert(call, operation)
        if call.describe_only:
            kind = STATEMENT_TYPES.get(type(operation), outcomes.StatementType.DDL)
            return outcomes.Outcome(columns=STATUS_COLUMNS, statement_type_id=kind)
        match operation:
            case operations.CreateTable():
                await self._commit_waiting(call)
                return await self._create_table(call, operation)
            case operations.CreateSchema():
                await self._commit_waiting(call)
                return await self._create_schema(call, operation)
            case operations.DropTable():
                await self._commit_waiting(call)
                return await self._drop_table(call, operation)
            case operations.DropSchema():
                await self._commit_waiting(call)
                return await self._drop_schema(call, operation)
            case operations.Use():
                return self._use(call, operation)
            case operations.SetVariables():
                return await self._set_variables(call, operation)
            case operations.UnsetVariables():
                return self._unset_variables(call, operation)
            case operations.AlterSession():
                return self._alter_session(call, operation)
            case operations.Begin():
                return await self._begin(call)
            case operations.Commit():
                return await self._commit(call)
            case operations.Rollback():
                return await self._rollback(call)
        raise AssertionError(operation)

    # Queries

    async def _query(self, call: _Call, tree: operations.Tree) -> outcomes.Outcome:
        found, opened = await self._bound(call, tree)
        constant = await self._known_row(call, found, opened)
        if constant is not None:
            return outcomes.Outcome(
                columns=_columns(found, constant.schema),
                batches=None if call.describe_only else _one_batch(constant),
                statement_type_id=outcomes.StatementType.SELECT,
                bind_count=found.bind_count,
            )
        if call.describe_only:
            results = await self._start(call, found, opened, purpose="describe")
            await results.close()
            return outcomes.Outcome(
                columns=_columns(found, results.schema),
                statement_type_id=outcomes.StatementType.SELECT,
                bind_count=found.bind_count,
            )
        results = await self._start(call, found, opened)
        return outcomes.Outcome(
            columns=_columns(found, results.schema),
            batches=_batches(results, call.query_id),
            statement_type_id=outcomes.StatementType.SELECT,
            bind_count=found.bind_count,
        )

    async def _known_row(
        self, call: _Call, found: resolve.BoundQuery, opened: _Opened
    ) -> pa.RecordBatch | None:
        """Return the one row of a query that needs no engine: constants, or a table's size."""
        values = found.constants
        table = None if found.counted is None else opened.tables[found.counted]
        if table is not None:
            count = await self._relations.count_rows(table, principal=call.session.principal)
            values = None if count is None else (count,) * len(found.columns)
        if values is None:
            return None
        columns = [column.name for column in found.columns]
        return constants.row(columns, found.types, values, zone=call.zone)

    async def _explain(self, call: _Call, tree: operations.Tree) -> outcomes.Outcome:
        column = outcomes.Column(name="content", type="text")
        kind = outcomes.StatementType.EXPLAIN
        found, opened = await self._bound(call, tree)
        if call.describe_only:
            return outcomes.Outcome(columns=(column,), statement_type_id=kind)
        results = await self._start(call, found, opened, purpose="explain")
        table, _ = await engine.collect(results)
        lines = [*await self._file_lines(opened, found), *table["plan"].to_pylist()]
        return outcomes.Outcome(
            columns=(column,), rows=[("\n".join(map(str, lines)),)], statement_type_id=kind
        )

    async def _file_lines(self, opened: _Opened, found: resolve.BoundQuery) -> list[str]:
        lines = []
        for index, (shape, table) in enumerate(zip(opened.shapes, opened.tables, strict=True)):
            if table is None:
                continue
            kept, every = await self._relations.count_files(table, found.filters.get(index, ()))
            name = ".".join(names.shown(part) for part in shape.path)
            lines.append(f"Table {name}: snapshot {table.snapshot_id}, {kept} of {every} files")
        return lines

    async def _bound(
        self, call: _Call, tree: operations.Tree
    ) -> tuple[resolve.BoundQuery, _Opened]:
        environment = self._environment(call)
        uses = references.references(tree, environment)
        opened = await self._open(call, tree, uses)
        environment = self._environment(call, opened.shapes)
        return resolve.bind_query(tree, environment), opened

    def _environment(
        self, call: _Call, tables: tuple[shapes.TableShape, ...] = ()
    ) -> shapes.Environment:
        binds: dict[str, Any] | None = None
        is_array = any(binding.is_array for binding in call.bindings.values())
        if call.bindings or not call.describe_only:
            binds = {
                name: _bind_column(name, binding)
                if is_array
                else expressions.binding_literal(binding.type, binding.value)
                for name, binding in call.bindings.items()
            }
        return shapes.Environment(
            context=call.context,
            tables=tables,
            binds=binds,
            variables={
                name: _variable(variable) for name, variable in call.session.variables.items()
            },
            rows_relation=BINDS_RELATION if is_array else "",
        )

    async def _open(
        self, call: _Call, tree: operations.Tree, uses: Sequence[shapes.TableUse]
    ) -> _Opened:
        """Look up every table of a query. The same table at the same moment is loaded once."""
        session = call.session
        wants_bounds = references.wants_bounds(tree)
        loaded: dict[names.Name, tables.LoadedTable] = {}
        found: list[relations.Table | None] = []
        described: list[shapes.TableShape] = []
        ready: dict[int, engine.Relation] = {}
        for use in uses:
            name = f"{use.index}:{names.dotted(use.name)}"
            if use.function:
                raise errors.unsupported(f"table function {use.function}")
            place = self._places.schema_of(
                use.name, database=session.database, schema=session.schema
            )
            if not place.namespace:
                if use.moment is not None:
                    raise errors.unsupported("AT or BEFORE on INFORMATION_SCHEMA")
                shape, relation = self._described.relation(
                    use.name[-1], place, session.principal, name
                )
                described.append(shape)
                found.append(None)
                ready[use.index] = relation
                continue
            if use.name not in loaded:
                loaded[use.name] = self._places.table(
                    session.principal,
                    use.name,
                    database=session.database,
                    schema=session.schema,
                )
            self._check_not_waiting(call, loaded[use.name].ident)
            table = relations.snapshot_at(loaded[use.name], use.moment)
            ends = await self._relations.bounds(table) if wants_bounds else None
            described.append(self._relations.shape(table, name, ends))
            found.append(table)
        return _Opened(shapes=tuple(described), tables=tuple(found), ready=ready)

    async def _relations_of(
        self, call: _Call, found: resolve.BoundQuery, opened: _Opened, *, empty: bool
    ) -> tuple[engine.Relation, ...]:
        made = []
        for index, (shape, table) in enumerate(zip(opened.shapes, opened.tables, strict=True)):
            if table is None:
                made.append(opened.ready[index])
            elif empty:
                made.append(self._relations.empty(table, shape.relation, zone=call.zone))
            else:
                made.append(
                    await self._relations.relation(
                        table,
                        shape.relation,
                        principal=call.session.principal,
                        conditions=found.filters.get(index, ()),
                        zone=call.zone,
                    )
                )
        return tuple(made)

    async def _start(
        self,
        call: _Call,
        found: resolve.BoundQuery,
        opened: _Opened,
        *,
        purpose: Literal["run", "describe", "explain"] = "run",
    ) -> engine.Results:
        query = await self._plan(call, found, opened, purpose=purpose)
        return await self._engine.run(query)

    async def _plan(
        self,
        call: _Call,
        found: resolve.BoundQuery,
        opened: _Opened,
        *,
        text: str | None = None,
        purpose: Literal["run", "describe", "explain"] = "run",
    ) -> engine.Query:
        made = await self._relations_of(call, found, opened, empty=purpose == "describe")
        if any(binding.is_array for binding in call.bindings.values()):
            made = (*made, _binds_relation(call.bindings, call.zone))
        return engine.Query(
            text=found.sql if text is None else text,
            query_id=call.query_id,
            relations=made,
            functions=found.functions,
            settings=engine.Settings(timezone=call.zone),
            limits=engine.Limits(
                seconds=self._seconds(call), memory_bytes=self._limits.memory_bytes
            ),
            purpose=purpose,
        )

    def _seconds(self, call: _Call) -> float:
        name = "STATEMENT_TIMEOUT_IN_SECONDS"
        asked = int(call.parameters.get(name) or call.session.parameter(name))
        ours = self._limits.timeout_seconds
        return float(min(asked, ours) if asked else ours)

    # INSERT

    async def _insert(self, call: _Call, statement: operations.Insert) -> outcomes.Outcome:
        if statement.overwrite:
            raise errors.unsupported("INSERT OVERWRITE")
        session = call.session
        loaded = self._places.table(
            session.principal,
            statement.name,
            database=session.database,
            schema=session.schema,
            actions=places.READ_ACTIONS[:2] if call.describe_only else places.WRITE_ACTIONS,
        )
        written, given = writes.fields_for(loaded, statement.columns)
        if call.describe_only:
            references.references(statement.source, self._environment(call))
            return outcomes.Outcome(
                columns=INSERT_COLUMNS,
                statement_type_id=outcomes.StatementType.INSERT,
                bind_count=references.bind_count(statement.source),
                array_bind_supported=True,
            )
        rows = writes.rows_committed(loaded, call.query_id)
        if rows is not None:  # only its answer was lost
            again = outcomes.Stats(rows_inserted=rows)
            answer = outcomes.changed_rows(outcomes.StatementType.INSERT, again, inserted=rows)
            return _with_binds(answer, references.bind_count(statement.source))
        self._check_may_write(call)
        target = writes.Target(loaded=loaded, fields=tuple(written))
        found, query = await self._bound_into(call, statement.source, loaded, given, target)
        staged = await self._writes.stage(query, target, by=call.by)
        await self._commit_or_wait(call, staged)
        stats = outcomes.Stats(rows_inserted=staged.rows)
        answer = outcomes.changed_rows(outcomes.StatementType.INSERT, stats, inserted=staged.rows)
        return _with_binds(answer, found.bind_count)

    async def _bound_into(
        self,
        call: _Call,
        source: operations.Tree,
        loaded: tables.LoadedTable,
        given: Sequence[Mapping[str, Any]],
        target: writes.Target,
    ) -> tuple[resolve.BoundQuery, engine.Query]:
        declared = tabletypes.declared_types(loaded.metadata.properties)
        targets = [
            tabletypes.sql_type(column["type"], declared.get(column["id"])) for column in given
        ]
        environment = self._environment(call)
        uses = references.references(source, environment)
        opened = await self._open(call, source, uses)
        environment = self._environment(call, opened.shapes)
        found = resolve.bind_into(source, environment, targets)
        text = writes.plan_text(found, target, given)
        return found, await self._plan(call, found, opened, text=text)

    # Tables and schemas

    async def _create_table(
        self, call: _Call, statement: operations.CreateTable
    ) -> outcomes.Outcome:
        session = call.session
        place = self._places.schema_of(
            statement.name, database=session.database, schema=session.schema
        )
        if not place.namespace:
            raise errors.unsupported("CREATE TABLE in INFORMATION_SCHEMA")
        ident = idents.TableIdent(
            table_bucket=place.database,
            namespace=place.namespace,
            name=statement.name[-1].stored,
        )
        shown = statement.name[-1].folded
        done = f"Table {shown} successfully created."
        self._places.check_new_table(session.principal, ident)
        receipt = self._replays.receipt(place.database, call.query_id, by=call.by)
        if self._replays.is_done(receipt):  # only its answer was lost
            return outcomes.status(done)
        existing = self._places.find_table(place, statement.name[-1])
        adopts = existing is not None and self._tables.awaits_metadata(existing)
        if existing is not None and adopts:
            # Another API made the table without metadata; here it gets its first.
            taken = errors.already_exists("Object", shown)
            self._places.check_table(
                session.principal, existing, places.WRITE_ACTIONS, missing=taken
            )
            ident = existing
        elif existing is not None:
            rows = writes.rows_committed(self._tables.load(existing), call.query_id)
            if rows is not None and statement.query is not None:
                return outcomes.status(done, stats=outcomes.Stats(rows_inserted=rows))
            if statement.if_not_exists:
                return outcomes.status(f"{shown} already exists, statement succeeded.")
            if statement.replace:
                raise errors.unsupported("CREATE OR REPLACE of a table that exists")
            raise errors.already_exists("Object", shown)
        if statement.query is None:
            columns = [
                writes.NewColumn(
                    name=column.name.stored,
                    type=column.type or sqltypes.TEXT,
                    required=column.required,
                    comment=column.comment,
                )
                for column in statement.columns
            ]
            wanted = writes.new_table(statement, columns)
            await self._create(ident, wanted, by=call.by, adopts=adopts, receipt=receipt)
            return outcomes.status(done)
        created = await self._create_as(call, statement, ident, adopts=adopts)
        return outcomes.status(done, stats=outcomes.Stats(rows_inserted=created))

    async def _create(
        self,
        ident: idents.TableIdent,
        wanted: writes.NewTable,
        *,
        by: str,
        adopts: bool,
        stage: bool = False,
        receipt: receipts.Receipt | None = None,
    ) -> tables.LoadedTable:
        return await self._tables.create(
            ident,
            schema=wanted.schema,
            partition_spec=wanted.partition_spec,
            sort_order=wanted.sort_order,
            properties=wanted.properties,
            stage=stage,
            adopts=adopts,
            by=by,
            via="sql",
            receipt=receipt,
        )

    async def _create_as(
        self,
        call: _Call,
        statement: operations.CreateTable,
        ident: idents.TableIdent,
        *,
        adopts: bool,
    ) -> int:
        """CTAS: the table and its first snapshot are one commit."""
        found, opened = await self._bound(call, statement.query)
        columns = _new_columns(statement, found)
        wanted = writes.new_table(statement, columns)
        loaded = await self._create(ident, wanted, by=call.by, adopts=adopts, stage=True)
        fields = list(loaded.metadata.current_schema()["fields"])
        target = writes.Target(loaded=loaded, fields=tuple(fields), is_staged=True)
        targets = [column.type for column in columns]
        environment = self._environment(call, opened.shapes)
        found = resolve.bind_into(statement.query, environment, targets)
        query = await self._plan(call, found, opened, text=writes.plan_text(found, target, fields))
        staged = await self._writes.stage(query, target, by=call.by)
        await self._writes.commit(staged, by=call.by, query_id=call.query_id)
        return staged.rows

    async def _drop_table(self, call: _Call, statement: operations.DropTable) -> outcomes.Outcome:
        session = call.session
        shown = statement.name[-1].folded
        gone = f"Drop statement executed successfully ({shown} already dropped)."
        try:
            place = self._places.schema_of(
                statement.name, database=session.database, schema=session.schema
            )
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return outcomes.status(gone)
            raise
        done = outcomes.status(f"{shown} successfully dropped.")
        receipt = self._replays.receipt(place.database, call.query_id, by=call.by)
        if place.namespace and self._replays.is_done(receipt):
            return done
        ident = self._places.find_table(place, statement.name[-1])
        missing = errors.does_not_exist("Table", names.dotted(statement.name))
        if ident is None:
            if statement.if_exists:
                return outcomes.status(gone)
            raise missing
        self._places.check_table(session.principal, ident, places.DROP_ACTIONS, missing=missing)
        await self._tables.drop(ident, by=call.by, via="sql", receipt=receipt)
        return done

    async def _create_schema(
        self, call: _Call, statement: operations.CreateSchema
    ) -> outcomes.Outcome:
        session = call.session
        database = session.database
        if len(statement.name) == 2:
            database = self._places.database(statement.name[0])
        if len(statement.name) > 2:
            raise errors.unsupported("a schema name of more than two parts")
        if database is None:
            raise errors.no_current_database()
        ident = statement.name[-1]
        namespace = tuple(ident.stored.split("."))
        self._places.check_namespace(session.principal, database, namespace, "CreateNamespace")
        receipt = self._replays.receipt(database, call.query_id, by=call.by)
        is_done = self._replays.is_done(receipt)
        if self._is_taken(database, ident) and not is_done:
            if not statement.if_not_exists:
                raise errors.already_exists("Object", ident.folded)
            return outcomes.status(f"{ident.folded} already exists, statement succeeded.")
        properties = {"comment": statement.comment} if statement.comment else {}
        if not is_done:
            await self._namespaces.create(
                database, namespace, properties, by=call.by, via="sql", receipt=receipt
            )
        session.database, session.schema = database, ident.stored
        return outcomes.status(f"Schema {ident.folded} successfully created.")

    def _is_taken(self, database: str, ident: names.Ident) -> bool:
        try:
            self._places.schema((ident,), database=database)
        except errors.SqlError:
            return False
        return True

    async def _drop_schema(self, call: _Call, statement: operations.DropSchema) -> outcomes.Outcome:
        session = call.session
        shown = statement.name[-1].folded
        done = outcomes.status(f"{shown} successfully dropped.")
        database = session.database
        if len(statement.name) == 2:
            database = self._places.database(statement.name[0])
        receipt = None
        if database is not None:
            receipt = self._replays.receipt(database, call.query_id, by=call.by)
            if self._replays.is_done(receipt):
                return done
        try:
            place = self._places.schema(statement.name, database=session.database)
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                text = f"Drop statement executed successfully ({shown} already dropped)."
                return outcomes.status(text)
            raise
        if not place.namespace:
            raise errors.unsupported("DROP SCHEMA INFORMATION_SCHEMA")
        principal = session.principal
        self._places.check_namespace(principal, place.database, place.namespace, "DeleteNamespace")
        held = self._tables.list(place.database, place.namespace)
        # Snowflake drops a schema with all it holds unless RESTRICT is said.
        for ident in held:
            missing = errors.does_not_exist("Table", names.shown(ident.name))
            self._places.check_table(principal, ident, places.DROP_ACTIONS, missing=missing)
        for ident in held:
            await self._tables.drop(ident, by=call.by, via="sql")
        await self._namespaces.drop(
            place.database, place.namespace, by=call.by, via="sql", receipt=receipt
        )
        if (session.database, session.schema) == (place.database, place.name):
            session.schema = None
        return done

    # The session

    def _use(self, call: _Call, statement: operations.Use) -> outcomes.Outcome:
        session = call.session
        kind = outcomes.StatementType.USE
        match statement.kind:
            case "warehouse":
                session.warehouse = _single(statement).folded
                kind = outcomes.StatementType.USE_WAREHOUSE
            case "role":
                role = _single(statement).folded
                if role not in session_names.ANY_ROLE and role != session.role:
                    raise errors.does_not_exist("Role", role)
                session.role = role
            case "secondary roles":
                if _single(statement).folded not in ("ALL", "NONE"):
                    raise errors.unsupported("USE SECONDARY ROLES of this form")
            case "database":
                self._use_database(session, _single(statement))
                kind = outcomes.StatementType.USE_DATABASE
            case "" if len(statement.name) == 1:
                self._use_database(session, statement.name[0])
                kind = outcomes.StatementType.USE_DATABASE
            case _:
                place = self._places.visible_schema(
                    session.principal, statement.name, database=session.database
                )
                session.database, session.schema = place.database, place.name
                kind = outcomes.StatementType.USE_SCHEMA
        return outcomes.status("Statement executed successfully.", kind)

    def _use_database(self, session: sessions.Session, ident: names.Ident) -> None:
        database = self._places.visible_database(session.principal, ident)
        listed = [
            idents.dotted(namespace)
            for namespace in self._places.schemas(session.principal, database)
        ]
        session.database = database
        session.schema = DEFAULT_SCHEMA if DEFAULT_SCHEMA in listed else None

    async def _set_variables(
        self, call: _Call, statement: operations.SetVariables
    ) -> outcomes.Outcome:
        tree = references.select_of(statement.values)
        found, opened = await self._bound(call, tree)
        table, _ = await engine.collect(await self._start(call, found, opened))
        row = [column[0].as_py() for column in table.columns]
        variables = call.session.variables
        for ident, kind, value in zip(statement.names, found.types, row, strict=True):
            text = _variable_text(value)
            if text is not None and len(text) > VARIABLE_LENGTH_MAX:
                raise errors.too_long(text[:40])
            if len(variables) >= VARIABLES_MAX and ident.folded.upper() not in variables:
                raise errors.unsupported(f"more than {VARIABLES_MAX} session variables")
            logical: Any = "text" if kind.kind in ("null", "interval") else kind.kind
            variables[ident.folded.upper()] = sessions.Variable(type=logical, text=text)
        return outcomes.status(
            "Statement executed successfully.", outcomes.StatementType.ALTER_SESSION
        )

    def _unset_variables(
        self, call: _Call, statement: operations.UnsetVariables
    ) -> outcomes.Outcome:
        for ident in statement.names:
            call.session.variables.pop(ident.folded.upper(), None)
        return outcomes.status(
            "Statement executed successfully.", outcomes.StatementType.ALTER_SESSION
        )

    def _alter_session(self, call: _Call, statement: operations.AlterSession) -> outcomes.Outcome:
        explicit = call.session.parameters
        read = {name: parameters.parse(name, value) for name, value in statement.set}
        for name in statement.unset:
            if name not in parameters.PARAMETERS:
                raise errors.unknown_parameter(name)
        explicit.update(read)
        for name in statement.unset:
            explicit.pop(name, None)
        return outcomes.status(
            "Statement executed successfully.", outcomes.StatementType.ALTER_SESSION
        )

    # Transactions

    async def _begin(self, call: _Call) -> outcomes.Outcome:
        if _transaction(call.session) is None:
            call.session.transaction = Transaction()
        return outcomes.status("Statement executed successfully.", outcomes.StatementType.BEGIN)

    async def _commit(self, call: _Call) -> outcomes.Outcome:
        await self._commit_waiting(call)
        return outcomes.status("Statement executed successfully.", outcomes.StatementType.COMMIT)

    async def _rollback(self, call: _Call) -> outcomes.Outcome:
        transaction = _transaction(call.session)
        call.session.transaction = None
        if transaction is not None and transaction.waiting is not None:
            await self._writes.discard(transaction.waiting)
        return outcomes.status("Statement executed successfully.", outcomes.StatementType.BEGIN)

    async def _commit_waiting(self, call: _Call) -> None:
        """End the transaction, if there is one, with what waits in it."""
        transaction = _transaction(call.session)
        call.session.transaction = None
        if transaction is not None and transaction.waiting is not None:
            await self._writes.commit(
                transaction.waiting, by=call.by, query_id=transaction.query_id
            )

    def _check_may_write(self, call: _Call) -> None:
        transaction = _transaction(call.session)
        if transaction is not None and transaction.waiting is not None:
            raise errors.unsupported("a second DML statement in one transaction")

    def _check_not_waiting(self, call: _Call, ident: idents.TableIdent) -> None:
        transaction = _transaction(call.session)
        if transaction is None or transaction.waiting is None:
            return
        if transaction.waiting.target.loaded.ident == ident:
            raise errors.unsupported("reading a table that the open transaction has changed")

    async def _commit_or_wait(self, call: _Call, staged: writes.Staged) -> None:
        session = call.session
        transaction = _transaction(session)
        if transaction is None and not session.parameter("AUTOCOMMIT"):
            transaction = session.transaction = Transaction()
        if transaction is None:
            await self._writes.commit(staged, by=call.by, query_id=call.query_id)
        else:
            transaction.waiting, transaction.query_id = staged, call.query_id


STATUS_COLUMNS = (outcomes.Column(name="status", type="text"),)
INSERT_COLUMNS = outcomes.changed_rows(
    outcomes.StatementType.INSERT, outcomes.Stats(), inserted=0
).columns

STATEMENT_TYPES: Mapping[type, outcomes.StatementType] = {
    operations.Use: outcomes.StatementType.USE,
    operations.SetVariables: outcomes.StatementType.ALTER_SESSION,
    operations.UnsetVariables: outcomes.StatementType.ALTER_SESSION,
    operations.AlterSession: outcomes.StatementType.ALTER_SESSION,
    operations.Begin: outcomes.StatementType.BEGIN,
    operations.Rollback: outcomes.StatementType.BEGIN,
    operations.Commit: outcomes.StatementType.COMMIT,
}


async def _batches(results: engine.Results, query_id: str) -> AsyncIterator[pa.RecordBatch]:
    try:
        async for batch in results.batches():
            yield batch
    except engine.EngineFault as fault:
        raise _told(fault, query_id) from fault
    finally:
        await results.close()


async def _one_batch(batch: pa.RecordBatch) -> AsyncIterator[pa.RecordBatch]:
    yield batch


def _told(fault: engine.EngineFault, query_id: str) -> errors.SqlError:
    """Return fault as the client hears it; the log keeps the engine's own words."""
    if fault.kind in ("plan", "internal", "crashed"):
        log = logging.getLogger("boathouse.sql.engine")
        log.warning("query %s: %s: %s", query_id, fault.kind, fault.message)
    return faults.of_engine(fault, query_id=query_id)


def _columns(found: resolve.BoundQuery, schema: pa.Schema) -> tuple[outcomes.Column, ...]:
    return tuple(
        tabletypes.result_type(column, arrow.type)
        for column, arrow in zip(found.columns, schema, strict=True)
    )


def _with_binds(answer: outcomes.Outcome, count: int) -> outcomes.Outcome:
    return outcomes.Outcome(
        columns=answer.columns,
        rows=answer.rows,
        statement_type_id=answer.statement_type_id,
        stats=answer.stats,
        bind_count=count,
        array_bind_supported=True,
    )


def _forms(session: sessions.Session) -> formats.Forms:
    """Return how the session wants values as text; AUTO and nothing mean Snowflake's default."""
    default = formats.DEFAULT

    def form(name: str, otherwise: str) -> str:
        text = str(session.parameter(f"{name}_OUTPUT_FORMAT"))
        return otherwise if text.upper() in ("", "AUTO") else text

    common = form("TIMESTAMP", default.timestamp_ltz)
    return formats.Forms(
        date=form("DATE", default.date),
        time=form("TIME", default.time),
        timestamp_ntz=form("TIMESTAMP_NTZ", default.timestamp_ntz),
        timestamp_ltz=form("TIMESTAMP_LTZ", common),
        binary=form("BINARY", default.binary),
    )


def _transaction(session: sessions.Session) -> Transaction | None:
    found = session.transaction
    assert found is None or isinstance(found, Transaction)
    return found


def _check_transaction(session: sessions.Session, operation: operations.Operation) -> None:
    """Say once that an open transaction is lost, to whoever still counts on it."""
    if not session.transaction_lost:
        return
    session.transaction_lost = False
    if not isinstance(operation, operations.Begin | operations.Rollback):
        raise errors.transaction_lost()


def _single(statement: operations.Use) -> names.Ident:
    if len(statement.name) != 1:
        raise errors.invalid_identifier(names.dotted(statement.name))
    return statement.name[0]


def _new_columns(
    statement: operations.CreateTable, found: resolve.BoundQuery
) -> list[writes.NewColumn]:
    """Return the columns of CTAS: the statement's where it gives them, else the query's."""
    given = statement.columns
    if given and len(given) != len(found.columns):
        raise errors.SqlError(
            "002022",
            "42601",
            "SQL compilation error:\nNumber of columns in the list differs from the query's",
            phase="COMPILATION",
        )
    if not given and found.unnamed:
        raise errors.SqlError(
            "002022",
            "42601",
            f"SQL compilation error:\nMissing column specification for '{found.unnamed[0]}'",
            phase="COMPILATION",
        )
    made = []
    for index, (column, kind) in enumerate(zip(found.columns, found.types, strict=True)):
        if given:
            made.append(
                writes.NewColumn(
                    name=given[index].name.stored,
                    type=given[index].type or _storable(kind),
                    required=given[index].required,
                    comment=given[index].comment,
                )
            )
        else:
            made.append(writes.NewColumn(name=_stored_name(column.name), type=_storable(kind)))
    return made


def _storable(kind: sqltypes.SqlType) -> sqltypes.SqlType:
    """Return the type of a new column for values of a query's type."""
    if kind.kind in ("null", "interval"):
        return sqltypes.TEXT
    if kind.is_integer:
        return sqltypes.integer(sqltypes.PRECISION_MAX)
    return kind


def _stored_name(shown: str) -> str:
    return shown.lower() if names.PLAIN_UPPER.fullmatch(shown) else shown


# Binds and variables


def _variable(variable: sessions.Variable) -> bounds.Bound:
    kind = expressions.BIND_TYPES.get(variable.type, sqltypes.TEXT)
    if variable.text is None:
        return bounds.null(kind)
    found = bounds.text(variable.text)
    if variable.type == "fixed":
        return bounds.number(decimal.Decimal(variable.text))
    if variable.type == "real":
        return bounds.real(float(variable.text))
    return rewrites.cast(found, kind) if variable.type != "text" else found


def _variable_text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case datetime.datetime():
            return value.isoformat(sep=" ")
        case decimal.Decimal():
            return f"{value.normalize(kernels.DIGITS) if value else 0:f}"
    return str(value)


def _bind_column(name: str, binding: bindings.Binding) -> bounds.Bound:
    """Return an array bind as a column of the relation of binds."""
    kind = sqltypes.TEXT
    if binding.type == "fixed":
        kind = _fixed_type([value for value in binding.values if value is not None])
    elif binding.type is not None:
        kind = expressions.BIND_TYPES.get(binding.type, sqltypes.TEXT)
    return bounds.Bound(sql=f"{names.quoted(BINDS_RELATION)}.{names.quoted(name)}", type=kind)


def _fixed_type(values: Sequence[Any]) -> sqltypes.SqlType:
    exponents = [
        -int(value.as_tuple().exponent) for value in values if isinstance(value, decimal.Decimal)
    ]
    if not exponents and all(
        sqltypes.INT64_LOW <= value <= sqltypes.INT64_HIGH for value in values
    ):
        return sqltypes.integer()
    return sqltypes.number(sqltypes.PRECISION_MAX, min(max([0, *exponents]), 37))


def _binds_relation(given: Mapping[str, bindings.Binding], zone: str) -> engine.Relation:
    """Return array binds as the relation that INSERT ... VALUES reads, one row per value."""
    count = max(len(binding.values) for binding in given.values() if binding.is_array)
    columns = {}
    for name, binding in given.items():
        values = binding.values if binding.is_array else binding.values * count
        columns[name] = _bind_array(binding, values, zone)
    table = pa.table(columns)
    return engine.Relation(
        name=BINDS_RELATION,
        schema=engine.ipc_schema(table.schema),
        rows=engine.ipc_rows(table),
    )


def _bind_array(binding: bindings.Binding, values: Sequence[Any], zone: str) -> Any:
    match binding.type:
        case "fixed":
            kind = _fixed_type([value for value in values if value is not None])
            if kind.is_integer:
                return pa.array(values, pa.int64())
            return pa.array(
                [None if value is None else decimal.Decimal(value) for value in values],
                pa.decimal128(kind.precision, kind.scale),
            )
        case "real":
            return pa.array(values, pa.float64())
        case "boolean":
            return pa.array(values, pa.bool_())
        case "date":
            return pa.array(values, pa.date32())
        case "binary":
            return pa.array(values, pa.binary())
        case "time":
            micros = [None if value is None else value // 1000 for value in values]
            return pa.array(micros, pa.int64()).cast(pa.time64("us"))
        case "timestamp_ntz" | "timestamp_ltz" | "timestamp_tz":
            micros = [None if value is None else _nanos(value) // 1000 for value in values]
            target_zone = None if binding.type == "timestamp_ntz" else zone
            return pa.array(micros, pa.int64()).cast(pa.timestamp("us", target_zone))
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _nanos(value: Any) -> int:
    return int(value.nanos) if isinstance(value, bindings.Zoned) else int(value)
