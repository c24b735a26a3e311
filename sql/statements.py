"""engine: one statement from its text to its outcome.

The dialect parses a text into one operation of a closed set. `Statements._statement_rows` has one
row for each: its method, and what surrounds it. `sql.planning` plans queries; DML and DDL end in
one commit of the catalog. A statement that Boathouse does not implement is refused by its name
before it changes anything.

`sql.transactions` takes the changes of DML: it commits them, or holds them back until COMMIT. DDL
commits the open transaction first, as in Snowflake.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import decimal
import functools
import logging
import re
import zoneinfo
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_args

import pyarrow as pa

from catalog import errors as catalog_errors
from catalog import tables
from catalog.metadata import errors as metadata_errors
from sql import (
    accounts,
    alterations,
    bindings,
    changes,
    compiler,
    constants,
    databases,
    ddl_texts,
    definitions,
    engine,
    engine_spark,
    errors,
    explaining,
    faults,
    granting,
    inputs,
    inserts,
    intervals,
    limits,
    multi_inserts,
    numbering,
    outcomes,
    parameters,
    places,
    planning,
    relations,
    results,
    roles,
    schemas,
    sessions,
    show,
    staged_reads,
    staged_statements,
    tabletypes,
    templates,
    transactions,
    transfers,
    user_tokens,
    views,
    warehouses,
)
from sql.dialect import (
    filling,
    formats,
    names,
    operations,
    reading,
    resolve,
    shapes,
)
from storage import errors as storage_errors
from storage import model as storage_model

DEFAULT_SCHEMA = "public"


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """The server's values for the context functions CURRENT_VERSION and CURRENT_REGION."""

    version: str
    region: str


class Statements:
    """Runs statements. Stateless: sessions hold all state."""

    def __init__(
        self,
        *,
        engine: engine.Engine,
        compiler: compiler.Compiler,
        places: places.Places,
        tables: tables.Tables,
        relations: relations.Relations,
        inserts: inserts.Inserts,
        changes: changes.Changes,
        multi_inserts: multi_inserts.MultiInserts,
        shows: show.Shows,
        planning: planning.Planning,
        definitions: definitions.Definitions,
        schemas: schemas.Schemas,
        databases: databases.Databases,
        warehouses: warehouses.Warehouses,
        transactions: transactions.Transactions,
        alterations: alterations.Alterations,
        views: views.ViewStatements,
        staged_reads: staged_reads.StagedReads,
        staged_statements: staged_statements.StagedStatements,
        numbering: numbering.Numbering,
        roles: roles.Roles,
        accounts: accounts.Accounts,
        user_tokens: user_tokens.UserTokens,
        granting: granting.Granting,
        ddl_texts: ddl_texts.DdlTexts,
        now_ms: storage_model.NowMs,
        about: About,
        spark: Mapping[str, engine_spark.SparkEngine] | None = None,
    ) -> None:
        self._engine = engine
        self._spark = spark or {}
        self._compiler = compiler
        self._places = places
        self._tables = tables
        self._relations = relations
        self._inserts = inserts
        self._changes = changes
        self._multi_inserts = multi_inserts
        self._shows = shows
        self._planning = planning
        self._definitions = definitions
        self._schemas = schemas
        self._databases = databases
        self._warehouses = warehouses
        self._transactions = transactions
        self._alterations = alterations
        self._views = views
        self._staged_reads = staged_reads
        self._staged_statements = staged_statements
        self._numbering = numbering
        self._roles = roles
        self._accounts = accounts
        self._user_tokens = user_tokens
        self._granting = granting
        self._ddl_texts = ddl_texts
        self._now_ms = now_ms
        self._about = about
        self._explaining = explaining.Explaining(
            engine=engine,
            planning=planning,
            relations=relations,
            transactions=transactions,
            changes=changes,
            definitions=definitions,
        )
        self._rows = self._statement_rows()

    async def execute(
        self,
        session: sessions.Session,
        text: str,
        *,
        bindings: Mapping[str, bindings.Binding],
        parameters: Mapping[str, parameters.Value],
        describe_only: bool,
        query_id: str,
        results: results.StoredResults,
        flow_ids: Sequence[str] = (),
        is_immediate: bool = False,
        is_template: bool = False,
    ) -> outcomes.Outcome:
        """Run text and return its outcome; raises SqlError. Cancelling it ends the query.

        describe_only: return the columns of the result, and change nothing. results: what
        RESULT_SCAN reads. flow_ids: the queries before it in a flow, the nearest last.
        is_immediate: the text comes from EXECUTE IMMEDIATE, and may not be another one.
        is_template: the text is that of USING TEMPLATE, and must be a query.
        """
        run = functools.partial(
            self._execute,
            session,
            text,
            bindings=bindings,
            parameters=parameters,
            describe_only=describe_only,
            query_id=query_id,
            results=results,
            flow_ids=flow_ids,
            is_immediate=is_immediate,
            is_template=is_template,
        )
        try:
            return await run(trusts_statistics=True)
        except errors.SqlError as error:
            if error.code != errors.FALSE_STATISTICS:
                raise
        return await run(trusts_statistics=False)

    def waiting(self) -> frozenset[str]:
        """Return the ids of the statements whose query waits for a child."""
        engines: list[engine.CountingEngine] = [self._engine, *self._spark.values()]
        return engine.together(engines).waiting_ids

    async def _execute(
        self,
        session: sessions.Session,
        text: str,
        *,
        bindings: Mapping[str, bindings.Binding],
        parameters: Mapping[str, parameters.Value],
        describe_only: bool,
        query_id: str,
        results: results.StoredResults,
        flow_ids: Sequence[str],
        is_immediate: bool,
        is_template: bool,
        trusts_statistics: bool,
    ) -> outcomes.Outcome:
        is_bound = bool(bindings)
        text, bindings = await self._filled(text, bindings, session, parameters)
        compiled = None
        staged: staged_reads.Opened | None = None
        await self._places.refresh_mounts(text, session)
        try:
            if not COPIES.match(text):
                staged = await self._staged_reads.open(
                    session, text, query_id=query_id, describe_only=describe_only
                )
            compiled = await self._compiler.compile(
                text if staged is None else staged.text, owner=session.principal.name
            )
            operation = compiled.operation
            if is_template and not isinstance(operation, operations.Query):
                raise templates.refusal()
            if is_immediate and isinstance(operation, operations.ExecuteImmediate):
                raise errors.unsupported("EXECUTE IMMEDIATE of EXECUTE IMMEDIATE")
            if is_immediate and isinstance(operation, operations.PutFiles | operations.GetFiles):
                # A driver moves files only for a text that begins with PUT or GET.
                raise errors.unsupported("EXECUTE IMMEDIATE of PUT or GET")
            if is_bound and isinstance(operation, operations.PutFiles):
                transfers.check_bound_upload(
                    operation.local, session.client_app_id, session.client_app_version
                )
            await self._transactions.check_not_lost(session, operation)
            available_roles: tuple[str, ...] = ()
            if AVAILABLE_ROLES.search(text):
                available_roles = tuple(await self._roles.available(session.login))
            ddl = await self._ddl_texts.of_calls(session, text) if GET_DDL.search(text) else {}
            execution = self._execution(
                session,
                bindings,
                parameters,
                describe_only,
                query_id,
                compiled,
                results,
                flow_ids,
                available_roles,
                ddl,
            )
            execution = dataclasses.replace(execution, trusts_statistics=trusts_statistics)
            if staged is None:
                return await self._run(execution, operation)
            if isinstance(operation, operations.CreateView):
                raise errors.unsupported("a view of staged files")
            execution = dataclasses.replace(execution, staged=staged.tables)
            outcome = await self._run(execution, operation)
            if outcome.batches is not None:
                batches = self._closing(outcome.batches, staged)
                outcome, staged = dataclasses.replace(outcome, batches=batches), None
            return outcome
        except engine.EngineFault as fault:
            raise _sql_error(fault, query_id) from fault
        except (
            catalog_errors.CatalogError,
            metadata_errors.MetadataError,
            storage_errors.StorageError,
        ) as error:
            sql_error = faults.of_catalog(error)
            if sql_error is None:
                raise
            raise sql_error from error
        finally:
            if compiled is not None:
                await compiled.close()
            if staged is not None:
                await self._staged_reads.close(staged.folders)

    async def _filled(
        self,
        text: str,
        binding_by_name: Mapping[str, bindings.Binding],
        session: sessions.Session,
        settings: Mapping[str, parameters.Value],
    ) -> tuple[str, Mapping[str, bindings.Binding]]:
        variables = {name: variable.text for name, variable in session.variables.items()}
        ignores_case = settings.get(
            parameters.IGNORE_CASE, session.parameter(parameters.IGNORE_CASE)
        )

        def fill() -> tuple[str, Mapping[str, bindings.Binding]]:
            filled, kept = filling.fill(text, binding_by_name)
            spelled = filling.spell_out(filled, variables)
            return filling.fold(spelled) if ignores_case else spelled, kept

        return await asyncio.to_thread(fill) if len(text) > limits.TEXT_HERE_LENGTH_MAX else fill()

    async def _closing(
        self, batches: AsyncIterator[outcomes.RowGroup], staged: staged_reads.Opened
    ) -> AsyncIterator[outcomes.RowGroup]:
        """Yield batches, and then remove the decoded files that they were computed from."""
        try:
            async for batch in batches:
                yield batch
        finally:
            await self._staged_reads.close(staged.folders)

    def _execution(
        self,
        session: sessions.Session,
        binding_by_name: Mapping[str, bindings.Binding],
        statement_parameters: Mapping[str, parameters.Value],
        describe_only: bool,
        query_id: str,
        compiled: compiler.Compilation,
        stored_results: results.StoredResults,
        flow_ids: Sequence[str],
        available_roles: tuple[str, ...],
        ddl: Mapping[tuple[str, str, bool], str],
    ) -> planning.Execution:
        zone = zoneinfo.ZoneInfo(str(session.parameter("TIMEZONE")))
        now = datetime.datetime.fromtimestamp(self._now_ms() / 1000, zone)
        open_transaction = transactions.current(session)
        context = shapes.Context(
            now=now,
            database=None if session.database is None else names.of_database(session.database),
            schema=session.schema,
            warehouse=session.warehouse,
            role=session.role,
            available_roles=available_roles,
            ddl_texts=ddl,
            user=session.login.name.upper(),
            account=session.account_name.upper(),
            ip_address=session.client_ip,
            region=self._about.region,
            session_id=session.id,
            transaction=None if open_transaction is None else open_transaction.id,
            last_transaction=session.last_transaction,
            version=self._about.version,
            client=f"{session.client_app_id} {session.client_app_version}".strip(),
            query_ids=tuple(session.query_ids),
            flow_ids=tuple(flow_ids),
            timestamp_mapping=str(session.parameter("TIMESTAMP_TYPE_MAPPING")),
            forms=_forms(session),
            inputs=_inputs(session),
            weeks=shapes.Weeks(
                start=int(session.parameter("WEEK_START")),
                is_of_january=session.parameter("WEEK_OF_YEAR_POLICY") == 1,
            ),
            century_start=int(session.parameter("TWO_DIGIT_CENTURY_START")),
        )
        return planning.Execution(
            session=session,
            query_id=query_id,
            bindings=binding_by_name,
            parameters=statement_parameters,
            describe_only=describe_only,
            now=now,
            context=context,
            compiled=compiled,
            results=stored_results,
            transaction=open_transaction,
        )

    async def _run(
        self, execution: planning.Execution, operation: operations.Operation
    ) -> outcomes.Outcome:
        row = self._rows[type(operation)]
        if execution.describe_only and not row.describes:
            return outcomes.Outcome(columns=STATUS_COLUMNS, statement_type_id=row.statement_type)
        if row.commits_first(execution, operation):
            await self._commit_waiting(execution)
        return await row.run(execution, operation)

    def _statement_rows(self) -> Mapping[type, StatementRow]:
        """Return how each operation of the dialect runs: a statement is one row here."""
        staged = self._staged_statements
        types = outcomes.StatementType
        rows = (
            # Their columns are computed: the engine or the listing describes itself.
            _row(operations.Query, self._query, describes=True),
            _row(operations.Explain, self._explain, describes=True),
            _row(operations.Show, self._show, describes=True),
            _row(operations.ShowGrants, self._granting.show, describes=True),
            _row(operations.Describe, self._describe, describes=True),
            _row(operations.DescribeResult, self._shows.describe_result, describes=True),
            _row(operations.DescribeUser, self._accounts.describe_user, describes=True),
            _row(operations.ShowTokens, self._user_tokens.show, describes=True),
            _row(operations.ExecuteImmediate, self._execute_immediate, describes=True),
            _row(operations.Insert, self._inserts.insert, describes=True),
            _row(operations.InsertAll, self._multi_inserts.insert, describes=True),
            _row(operations.ChangeRows, self._changes.change, describes=True),
            # Changes within a transaction, and its bounds.
            _row(operations.Truncate, self._inserts.truncate),
            _row(operations.BeginTransaction, self._begin, statement_type=types.BEGIN),
            _row(operations.CommitTransaction, self._commit, statement_type=types.COMMIT),
            _row(operations.RollbackTransaction, self._rollback, statement_type=types.BEGIN),
            # The session.
            _row(operations.Use, self._use, statement_type=types.USE),
            _row(operations.SetVariables, self._set_variables, statement_type=types.ALTER_SESSION),
            _row(
                operations.UnsetVariables, self._unset_variables, statement_type=types.ALTER_SESSION
            ),
            _row(operations.AlterSession, self._alter_session, statement_type=types.ALTER_SESSION),
            # Stages.
            _row(operations.CreateStage, staged.run, commits_first=_is_lasting),
            _row(operations.CreateFileFormat, staged.run, commits_first=_is_lasting),
            _row(operations.AlterStaging, staged.run, commits_first=self._changes_lasting),
            _row(operations.DropStaging, staged.run, commits_first=self._changes_lasting),
            _row(operations.DescribeStaging, staged.run, describes=True),
            _row(operations.PutFiles, staged.run, statement_type=types.PUT),
            _row(operations.GetFiles, staged.run, statement_type=types.GET),
            _row(operations.ListFiles, staged.run, describes=True),
            _row(operations.RemoveFiles, staged.run, describes=True),
            _row(operations.CopyInto, staged.run, describes=True),
            _row(operations.Unload, staged.run, describes=True),
            # DDL commits the open transaction first.
            _ddl(operations.CreateTable, self._create_table),
            _ddl(operations.AlterTable, self._alter_table),
            _ddl(operations.DropTable, self._definitions.drop_table),
            _ddl(operations.UndropTable, self._definitions.undrop_table),
            _ddl(operations.CreateView, self._views.create),
            _ddl(operations.AlterView, self._views.alter),
            _ddl(operations.DropView, self._views.drop),
            _ddl(operations.CreateSequence, self._numbering.create),
            _ddl(operations.AlterSequence, self._numbering.alter),
            _ddl(operations.DropSequence, self._numbering.drop),
            _ddl(operations.CreateSchema, self._schemas.create),
            _ddl(operations.AlterSchema, self._schemas.alter),
            _ddl(operations.DropSchema, self._schemas.drop),
            _ddl(operations.UndropSchema, self._schemas.undrop),
            _ddl(operations.CreateDatabase, self._databases.create),
            _ddl(operations.AlterDatabase, self._databases.alter),
            _ddl(operations.DropDatabase, self._databases.drop),
            _ddl(operations.CreateWarehouse, self._warehouses.create),
            _ddl(operations.AlterWarehouse, self._warehouses.alter),
            _ddl(operations.DropWarehouse, self._warehouses.drop),
            _ddl(operations.CreateUser, self._accounts.create_user),
            _ddl(operations.AlterUser, self._accounts.alter_user),
            _ddl(operations.AddToken, self._user_tokens.add),
            _ddl(operations.ModifyToken, self._user_tokens.modify),
            _ddl(operations.RotateToken, self._user_tokens.rotate),
            _ddl(operations.RemoveToken, self._user_tokens.remove),
            _ddl(operations.CreateRole, self._accounts.create_role),
            _ddl(operations.AlterRole, self._accounts.alter_role),
            _ddl(operations.DropIdentity, self._accounts.drop),
            _ddl(operations.GrantPrivileges, self._granting.grant_privileges),
            _ddl(operations.GrantWarehouse, self._granting.grant_warehouse),
            _ddl(operations.GrantRole, self._granting.grant_role),
        )
        by_type = dict(rows)
        assert len(by_type) == len(rows), "an operation has one row"
        assert by_type.keys() == set(get_args(operations.Operation)), "every operation has a row"
        return by_type

    def _changes_lasting(
        self,
        execution: planning.Execution,
        operation: operations.AlterStaging | operations.DropStaging,
    ) -> bool:
        return not self._staged_statements.is_temporary(execution, operation)

    async def _explain(
        self, execution: planning.Execution, operation: operations.Explain
    ) -> outcomes.Outcome:
        if execution.session.warehouse in self._spark:
            raise errors.unsupported("EXPLAIN in a Spark warehouse")
        return await self._explaining.explain(execution, operation)

    async def _alter_table(
        self, execution: planning.Execution, operation: operations.AlterTable
    ) -> outcomes.Outcome:
        of_view = operation.of_view
        if of_view is None:
            return await self._alterations.alter_table(execution, operation)
        try:
            strict = dataclasses.replace(operation, if_exists=False)
            return await self._alterations.alter_table(execution, strict)
        except errors.SqlError as missing:
            if missing.code != errors.DOES_NOT_EXIST:
                raise
            try:
                return await self._views.alter(execution, of_view)
            except errors.SqlError as error:
                raise missing if error.code == errors.DOES_NOT_EXIST else error from None

    async def _show(
        self, execution: planning.Execution, operation: operations.Show
    ) -> outcomes.Outcome:
        return await self._shows.show(execution.session, operation)

    async def _describe(
        self, execution: planning.Execution, operation: operations.Describe
    ) -> outcomes.Outcome:
        return await self._shows.describe(execution.session, operation)

    async def _execute_immediate(
        self, execution: planning.Execution, statement: operations.ExecuteImmediate
    ) -> outcomes.Outcome:
        """Run the statement that a text spells, as if the client had sent it."""
        session, text = execution.session, statement.text
        if statement.variable is not None:
            variable = _variable(session, statement.variable)
            if variable.text is None:
                raise errors.empty_statement()
            text = variable.text
        return await self.execute(
            session,
            text,
            bindings={
                str(number): _bound(session, value)
                for number, value in enumerate(statement.using, 1)
            },
            parameters=execution.parameters,
            describe_only=execution.describe_only,
            query_id=execution.query_id,
            results=execution.results,
            flow_ids=execution.context.flow_ids,
            is_immediate=True,
        )

    async def _create_table(
        self, execution: planning.Execution, statement: operations.CreateTable
    ) -> outcomes.Outcome:
        """Create a table; by a template, run its query and then the statement with its columns."""
        if statement.template is None:
            return await self._definitions.create_table(execution, statement)
        run = functools.partial(
            self.execute,
            execution.session,
            bindings={},
            parameters=execution.parameters,
            describe_only=False,
            query_id=execution.query_id,
            results=execution.results,
            flow_ids=execution.context.flow_ids,
        )
        template = statement.template
        outcome = await run(template.query, is_template=True)
        batches: Any = outcome.batches
        cells: list[Any] = []
        async with contextlib.aclosing(batches):
            async for batch in batches:  # begun, so that its end removes decoded files
                cells += batch.column(0).slice(0, 2).to_pylist()
                if len(cells) > 1 or batch.num_columns != 1:
                    raise templates.refusal()
        listed = templates.columns(cells)
        return await run(f"{template.before} ({listed}) {template.after}")

    # Queries

    async def _query(self, execution: planning.Execution, _: operations.Query) -> outcomes.Outcome:
        spark = self._spark.get(execution.session.warehouse)
        query, query_tables = await self._planning.bound(execution, emits_spark=spark is not None)
        constant = await self._row_without_engine(execution, query, query_tables)
        if constant is not None:
            return outcomes.Outcome(
                columns=_columns(query, constant.schema),
                batches=None if execution.describe_only else _one_batch(constant),
                statement_type_id=outcomes.StatementType.SELECT,
                bind_count=query.bind_count,
            )
        if not any(query_tables.tables):
            spark = None  # it reads no table: no Java starts for what drivers and tools look up
        if spark is not None and query.spark_refusal:
            raise errors.SqlError.of_parts(query.spark_refusal)
        if execution.describe_only:
            results = await self._start(execution, query, query_tables, purpose="describe")
            await results.close()
            return outcomes.Outcome(
                columns=_columns(query, results.schema),
                statement_type_id=outcomes.StatementType.SELECT,
                bind_count=query.bind_count,
            )
        await asyncio.sleep(query.wait_seconds)
        planned = await self._planning.query(execution, query, query_tables)
        if spark is None:
            results = await self._engine.run(planned)
        else:
            results = await spark.run(planned, query.spark)
        batches = self._batches(results, execution, query_tables)
        if CHECKS.intersection(query.functions):
            batches = await _begun(batches)
        columns = _columns(query, results.schema)
        return outcomes.Outcome(
            columns=columns,
            batches=batches,
            encode=functools.partial(results.encode, columns),
            statement_type_id=outcomes.StatementType.SELECT,
            bind_count=query.bind_count,
        )

    async def _batches(
        self,
        results: engine.Results,
        execution: planning.Execution,
        query_tables: planning.QueryTables,
    ) -> AsyncIterator[outcomes.RowGroup]:
        try:
            async for group in results.row_groups():
                yield group
        except engine.EngineFault as fault:
            if fault.code == errors.FALSE_STATISTICS:
                self._relations.distrust(query_tables.tables)
            raise _sql_error(fault, execution.query_id) from fault
        finally:
            await results.close()

    async def _start(
        self,
        execution: planning.Execution,
        bound_query: resolve.BoundQuery,
        query_tables: planning.QueryTables,
        *,
        purpose: planning.Purpose = "run",
    ) -> engine.Results:
        query = await self._planning.query(execution, bound_query, query_tables, purpose=purpose)
        return await self._engine.run(query)

    async def _row_without_engine(
        self,
        execution: planning.Execution,
        query: resolve.BoundQuery,
        query_tables: planning.QueryTables,
    ) -> pa.RecordBatch | None:
        """Return the row of a query that needs no engine: constants, or a table's row count.

        None if the query needs the engine.
        """
        values = query.constants
        table = None if query.counted is None else query_tables.tables[query.counted]
        if table is not None:
            count = await self._relations.count_rows(table)
            values = None if count is None else (count,) * len(query.columns)
        if values is None:
            return None
        columns = [column.name for column in query.columns]
        row = functools.partial(constants.row, columns, query.types, values, zone=execution.zone)
        return await asyncio.to_thread(row) if len(columns) > limits.COLUMNS_HERE_MAX else row()

    # The session

    async def _use(
        self, execution: planning.Execution, statement: operations.Use
    ) -> outcomes.Outcome:
        session = execution.session
        statement_type = outcomes.StatementType.USE
        match statement.object_type:
            case "warehouse":
                session.warehouse = _single(statement).folded
                statement_type = outcomes.StatementType.USE_WAREHOUSE
            case "role":
                self._roles.enter(session, _single(statement).folded)
            case "secondary roles":
                if _single(statement).folded not in ("ALL", "NONE"):
                    raise errors.unsupported("USE SECONDARY ROLES of this form")
            case "database":
                self._use_database(session, _single(statement))
                statement_type = outcomes.StatementType.USE_DATABASE
            case "" if len(statement.name) == 1:
                self._use_database(session, statement.name[0])
                statement_type = outcomes.StatementType.USE_DATABASE
            case _:
                with self._places.view(session.principal) as catalog:
                    schema = catalog.visible_schema(
                        statement.name, database=session.database, exactly=False
                    )
                session.database, session.schema = schema.database, schema.name
                statement_type = outcomes.StatementType.USE_SCHEMA
        return outcomes.status("Statement executed successfully.", statement_type)

    def _use_database(self, session: sessions.Session, ident: names.Ident) -> None:
        with self._places.view(session.principal) as catalog:
            database = catalog.visible_database(ident)
            has_default = catalog.lists_schema(database, (DEFAULT_SCHEMA,))
        session.database = database
        session.schema = DEFAULT_SCHEMA if has_default else None

    async def _set_variables(
        self, execution: planning.Execution, statement: operations.SetVariables
    ) -> outcomes.Outcome:
        query, query_tables = await self._planning.bound(execution)
        if any(sql_type.name == "timestamp_tz" for sql_type in query.types):
            raise errors.unsupported("a session variable of type TIMESTAMP_TZ")
        if any(sql_type.name in intervals.NAMES for sql_type in query.types):
            raise errors.unsupported("a session variable of an INTERVAL type")
        table, _ = await engine.collect(await self._start(execution, query, query_tables))
        try:
            row = [column[0].as_py() for column in table.columns]
        except (OverflowError, ValueError):  # Python's dates end with the year 9999
            raise errors.unsupported("a session variable with a year after 9999") from None
        variables = execution.session.variables
        for ident, sql_type, value in zip(statement.names, query.types, row, strict=True):
            text = inputs.variable_text(value)
            if text is not None and len(text) > limits.VARIABLE_LENGTH_MAX:
                raise errors.too_long(text[:40])
            if len(variables) >= limits.VARIABLES_MAX and ident.folded.upper() not in variables:
                raise errors.unsupported(f"more than {limits.VARIABLES_MAX} session variables")
            logical: Any = "text" if sql_type.name in ("null", "interval") else sql_type.name
            variables[ident.folded.upper()] = sessions.Variable(type=logical, text=text)
        return outcomes.status(
            "Statement executed successfully.", outcomes.StatementType.ALTER_SESSION
        )

    async def _unset_variables(
        self, execution: planning.Execution, statement: operations.UnsetVariables
    ) -> outcomes.Outcome:
        for ident in statement.names:
            execution.session.variables.pop(ident.folded.upper(), None)
        return outcomes.status(
            "Statement executed successfully.", outcomes.StatementType.ALTER_SESSION
        )

    async def _alter_session(
        self, execution: planning.Execution, statement: operations.AlterSession
    ) -> outcomes.Outcome:
        """Set and unset parameters. Turning AUTOCOMMIT on commits the open transaction."""
        explicit = execution.session.parameters
        parsed = {name: parameters.parse(name, value) for name, value in statement.set}
        for name in statement.unset:
            if name not in parameters.PARAMETERS:
                raise errors.unknown_parameter(name)
        autocommit = parameters.PARAMETERS["AUTOCOMMIT"]
        default = autocommit.default if "AUTOCOMMIT" in statement.unset else False
        if parsed.get("AUTOCOMMIT", default) and not execution.session.parameter("AUTOCOMMIT"):
            await self._commit_waiting(execution)
        explicit.update(parsed)
        for name in statement.unset:
            explicit.pop(name, None)
        return outcomes.status(
            "Statement executed successfully.", outcomes.StatementType.ALTER_SESSION
        )

    # Transactions

    async def _begin(
        self, execution: planning.Execution, statement: operations.BeginTransaction
    ) -> outcomes.Outcome:
        self._transactions.begin(execution.session, statement.name)
        return outcomes.status("Statement executed successfully.", outcomes.StatementType.BEGIN)

    async def _commit(
        self, execution: planning.Execution, _: operations.CommitTransaction
    ) -> outcomes.Outcome:
        await self._transactions.commit(execution.session)
        return outcomes.status("Statement executed successfully.", outcomes.StatementType.COMMIT)

    async def _rollback(
        self, execution: planning.Execution, _: operations.RollbackTransaction
    ) -> outcomes.Outcome:
        await self._transactions.rollback(execution.session)
        return outcomes.status("Statement executed successfully.", outcomes.StatementType.BEGIN)

    async def _commit_waiting(self, execution: planning.Execution) -> None:
        """End the transaction, if there is one, and commit its changes: DDL begins so."""
        await self._transactions.commit(execution.session)


COPIES = re.compile(
    rf"{reading.LEAD}(?:COPY|CREATE\s(?:[^(']*\s)?USING\s+TEMPLATE"
    r"|CREATE\s+(?:OR\s+(?:REPLACE|ALTER)\s+)?(?:PIPE|TASK))\b",
    re.IGNORECASE,
)
"""COPY, and the query of a template, read staged files themselves; pipes and tasks, which are
refused, read none."""

GET_DDL = re.compile(r"\bGET_DDL\b", re.IGNORECASE)
AVAILABLE_ROLES = re.compile(r"\bCURRENT_AVAILABLE_ROLES\b", re.IGNORECASE)
"""The roles of a user are looked up for a statement that names this function."""

STATUS_COLUMNS = (outcomes.Column(name="status", type="text"),)


@dataclass(frozen=True, kw_only=True, slots=True)
class StatementRow:
    """How an operation runs.

    commits_first: whether the open transaction is committed before it. describes: whether a request
    for its columns runs it, which then changes nothing; the others have the column `status`.
    statement_type: what such a request answers.
    """

    run: Callable[[planning.Execution, Any], Awaitable[outcomes.Outcome]]
    commits_first: Callable[[planning.Execution, Any], bool]
    describes: bool
    statement_type: outcomes.StatementType


_Op = TypeVar("_Op")


def _row(
    operation_type: type[_Op],
    run: Callable[[planning.Execution, _Op], Awaitable[outcomes.Outcome]],
    *,
    commits_first: Callable[[planning.Execution, _Op], bool] = lambda _, __: False,
    describes: bool = False,
    statement_type: outcomes.StatementType = outcomes.StatementType.DDL,
) -> tuple[type, StatementRow]:
    row = StatementRow(
        run=run, commits_first=commits_first, describes=describes, statement_type=statement_type
    )
    return operation_type, row


def _ddl(
    operation_type: type[_Op],
    run: Callable[[planning.Execution, _Op], Awaitable[outcomes.Outcome]],
) -> tuple[type, StatementRow]:
    return _row(operation_type, run, commits_first=lambda _, __: True)


def _is_lasting(
    _: planning.Execution, operation: operations.CreateStage | operations.CreateFileFormat
) -> bool:
    return not operation.temporary


CHECKS: Final = frozenset({"_beyond", "_within"})
"""The kernels that find that a table's metadata states what is not so."""


async def _begun(
    batches: AsyncIterator[outcomes.RowGroup],
) -> AsyncIterator[outcomes.RowGroup]:
    """Return the same batches when the first of them is there; raises what it raises."""
    first = await anext(batches, None)

    async def all_of_them() -> AsyncIterator[outcomes.RowGroup]:
        async with contextlib.aclosing(batches):  # type: ignore[type-var]  # it is a generator
            if first is not None:
                yield first
            async for batch in batches:
                yield batch

    return all_of_them()


async def _one_batch(batch: pa.RecordBatch) -> AsyncIterator[pa.RecordBatch]:
    yield batch


def _sql_error(fault: engine.EngineFault, query_id: str) -> errors.SqlError:
    """Return the client's error for fault; the log keeps the engine's message."""
    if fault.cause in ("plan", "internal", "crashed", "panicked"):
        log = logging.getLogger("boathouse.sql.engine")
        log.warning("query %s: %s: %s", query_id, fault.cause, fault.message)
    return faults.of_engine(fault, query_id=query_id)


def _columns(query: resolve.BoundQuery, schema: pa.Schema) -> tuple[outcomes.Column, ...]:
    return tuple(
        tabletypes.result_type(column, arrow.type)
        for column, arrow in zip(query.columns, schema, strict=True)
    )


def _forms(session: sessions.Session) -> formats.Forms:
    """Return the session's text formats of values; AUTO and "" mean Snowflake's default."""
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
        timestamp_tz=form("TIMESTAMP_TZ", common),
        binary=form("BINARY", default.binary),
    )


def _inputs(session: sessions.Session) -> formats.Inputs | None:
    """Return the session's input formats; None if all of them are AUTO."""
    inputs = formats.Inputs(
        date=str(session.parameter("DATE_INPUT_FORMAT")),
        time=str(session.parameter("TIME_INPUT_FORMAT")),
        timestamp=str(session.parameter("TIMESTAMP_INPUT_FORMAT")),
        century_start=int(session.parameter("TWO_DIGIT_CENTURY_START")),
    )
    has_models = {inputs.date, inputs.time, inputs.timestamp} != {formats.AUTO}
    return inputs if has_models else None


def _variable(session: sessions.Session, ident: names.Ident) -> sessions.Variable:
    variable = session.variables.get(ident.folded.upper())
    if variable is None:
        raise errors.no_session_variable(ident.folded)
    return variable


def _bound(session: sessions.Session, value: names.Ident | str | int) -> bindings.Binding:
    """Return a value of USING as a bind. A bind of a variable's type is read from its text."""
    if isinstance(value, int):
        return bindings.Binding(type="fixed", values=(value,))
    if isinstance(value, str):
        return bindings.Binding(type="text", values=(value,))
    variable = _variable(session, value)
    match variable.type:
        case "fixed" if variable.text is not None:
            return bindings.Binding(type="fixed", values=(decimal.Decimal(variable.text),))
        case "real" if variable.text is not None:
            return bindings.Binding(type="real", values=(float(variable.text),))
        case "boolean" if variable.text is not None:
            return bindings.Binding(type="boolean", values=(variable.text == "true",))
    return bindings.Binding(type="text", values=(variable.text,))


def _single(statement: operations.Use) -> names.Ident:
    if len(statement.name) != 1:
        raise errors.invalid_identifier(names.dotted(statement.name))
    return statement.name[0]
