"""engine: CREATE and DROP of tables, CTAS included.

Each statement is one commit of the catalog. The commit stores a receipt, so that a repeated request
gets the first one's answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from catalog import commits, idents, receipts, records, rights, tables
from catalog import errors as catalog_errors
from catalog.metadata import errors as metadata_errors
from server.access import model as access_model
from sql import (
    clones,
    column_defaults,
    defaults,
    errors,
    foreign_keys,
    iceberg_options,
    limits,
    offsets,
    outcomes,
    pinned,
    places,
    planning,
    replacements,
    replays,
    stages,
    stored_views,
    tabletypes,
    temporary_names,
    temporary_tables,
    threads,
    writes,
)
from sql.dialect import names, operations, resolve, sqltypes, table_options
from storage import errors as storage_errors

ATTEMPTS_MAX: Final = 10
"""How often CREATE TABLE is executed, each time on a newer state."""

CHANGED_MEANWHILE: Final = (
    catalog_errors.TableAlreadyExists,
    catalog_errors.ViewAlreadyExists,
    catalog_errors.NoSuchTable,
    metadata_errors.RequirementFailed,
)
"""What CREATE TABLE raises if its table has changed since the statement looked it up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _NewTable:
    """The table that CREATE TABLE names, as the catalog was in the statement's view.

    existing: a table of that name. adopts: existing has no metadata yet, and the statement creates
    its first. is_done: an earlier request with this receipt executed the statement.
    """

    ident: idents.TableIdent
    receipt: receipts.Receipt | None
    existing: places.NamedTable | None = None
    adopts: bool = False
    is_done: bool = False


class Definitions:
    """Creates and drops tables. Stateless."""

    def __init__(
        self,
        *,
        planning: planning.Planning,
        places: places.Places,
        writes: writes.Writes,
        tables: tables.Tables,
        replays: replays.Replays,
        defaults: defaults.Defaults,
        foreign_keys: foreign_keys.ForeignKeys,
        replacements: replacements.Replacements,
        temporary: temporary_tables.TemporaryTables,
        clones: clones.Clones,
        stages: stages.Stages,
    ) -> None:
        self._planning = planning
        self._places = places
        self._writes = writes
        self._tables = tables
        self._replays = replays
        self._defaults = defaults
        self._foreign_keys = foreign_keys
        self._replacements = replacements
        self._temporary = temporary
        self._clones = clones
        self._stages = stages

    async def create_table(
        self, execution: planning.Execution, statement: operations.CreateTable
    ) -> outcomes.Outcome:
        """Create a table, with the rows of a query for CTAS; raises SqlError.

        With OR REPLACE or IF NOT EXISTS it is no error that another session creates, replaces or
        drops the table meanwhile: the statement is executed again on the newest state.
        """
        may_repeat = statement.replace or statement.if_not_exists
        for _ in range(ATTEMPTS_MAX - 1 if may_repeat else 0):
            try:
                return await self._create_table(execution, statement)
            except CHANGED_MEANWHILE:
                continue
        return await self._create_table(execution, statement)

    async def look_up_query(
        self, execution: planning.Execution, statement: operations.CreateTable
    ) -> planning.Names:
        """Return the names of a CTAS' query, which may create its table; raises SqlError."""

        def look_up(catalog: places.CatalogView) -> None:
            if statement.is_temporary:
                self._temporary_schema(execution, statement, catalog)
                return
            table = self._look_up(execution, statement, catalog)
            may_exist = statement.replace or statement.if_not_exists or table.adopts
            if table.existing is not None and not may_exist:
                raise errors.already_exists("Object", statement.name[-1].folded)

        _, query_names = await self._planning.look_up(execution, look_up)
        return query_names

    async def _create_table(
        self, execution: planning.Execution, statement: operations.CreateTable
    ) -> outcomes.Outcome:
        session = execution.session
        shown = statement.name[-1].folded
        success = f"Table {shown} successfully created."
        query_names = None
        look_up = functools.partial(self._look_up, execution, statement)
        if statement.is_temporary:
            with self._places.view_of(session) as catalog:
                schema = self._temporary_schema(execution, statement, catalog)
            home = await self._temporary.prepare(session, schema)
            look_up = functools.partial(self._look_up_temporary, execution, statement, home)
        if statement.query is None:
            with self._places.view_of(session) as catalog:
                table = look_up(catalog)
        else:
            table, query_names = await self._planning.look_up(execution, look_up)
        existing, adopts = table.existing, table.adopts
        if table.is_done:  # the client did not get the first request's answer
            return outcomes.status(success)
        if existing is not None and existing.pointer.object_type == "view":
            if statement.if_not_exists:
                return outcomes.status(f"{shown} already exists, statement succeeded.")
            if statement.replace:
                raise errors.exists_as(stored_views.shown_name(existing.ident), "VIEW")
            raise errors.already_exists("Object", shown)
        if existing is not None and not adopts:
            loaded = await self._tables.fetch_at(existing.ident, existing.pointer)
            rows = await writes.find_rows_committed(loaded, execution.query_id)
            if rows is not None and statement.query is not None:
                return outcomes.status(success, stats=outcomes.Stats(rows_inserted=rows))
            if statement.if_not_exists:
                return outcomes.status(f"{shown} already exists, statement succeeded.")
            if not statement.replace:
                raise errors.already_exists("Object", shown)
        kept = None if existing is None else existing.pointer.location
        iceberg_options.check(statement, table.ident, kept=kept)
        keys = await self._foreign_keys.qualified(execution, statement.keys, own=table.ident)
        statement = dataclasses.replace(statement, keys=keys)
        if statement.stage_format is not None:
            statement = dataclasses.replace(
                statement,
                settings=(
                    *statement.settings,
                    self._stages.as_property(session, statement.stage_format),
                ),
            )
        if existing is not None and existing.is_temporary:
            rows_inserted = await self._replace_temporary(execution, query_names, statement, table)
        else:
            rows_inserted = await self._define(execution, query_names, statement, table)
        stats = None if rows_inserted is None else outcomes.Stats(rows_inserted=rows_inserted)
        return outcomes.status(success, stats=stats)

    async def _define(
        self,
        execution: planning.Execution,
        query_names: planning.Names | None,
        statement: operations.CreateTable,
        table: _NewTable,
    ) -> int | None:
        """Create or replace a table; return the number of rows of CTAS."""
        principal, replaces = execution.session.principal, table.existing and not table.adopts
        if statement.copies:
            await self._copy(execution, query_names, statement, table)
            return None
        if statement.query is None:
            declared = await self._declared_defaults(execution, statement)
            if replaces:
                await self._replace(execution, statement, table, declared)
                return None
            new_table = await threads.for_columns(
                len(statement.columns), _new_table, statement, declared
            )
            await self._create(
                table.ident,
                new_table,
                principal=principal,
                adopts=table.adopts,
                receipt=table.receipt,
                base_path=iceberg_options.base_path(statement),
            )
            return None
        if replaces:
            return await self._replace_as(execution, query_names, statement, table)
        return await self._create_as(
            execution, query_names, statement, table.ident, adopts=table.adopts
        )

    async def _replace_temporary(
        self,
        execution: planning.Execution,
        query_names: planning.Names | None,
        statement: operations.CreateTable,
        table: _NewTable,
    ) -> int | None:
        """Create another temporary table, exchange the two names, and drop the old table.

        So a session that replaces a table often keeps no files of the tables before.
        """
        existing = table.existing
        assert existing is not None
        reads_itself = query_names is not None and any(
            isinstance(meaning, places.NamedTable) and meaning.ident == existing.ident
            for meaning in query_names.meanings.values()
        )

        def check(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            if ident == existing.ident and reads_itself and pointer != existing.pointer:
                raise metadata_errors.RequirementFailed(
                    "Requirement failed: the table has changed since the statement has read it"
                )

        aside = await self._temporary.aside(execution.session, existing.ident)
        try:
            rows_inserted = await self._define(
                execution,
                query_names,
                statement,
                dataclasses.replace(table, ident=aside, existing=None, receipt=None),
            )
            has_rows = statement.query is not None and statement.copies != "like"
            await self._tables.swap(
                aside,
                existing.ident,
                by=execution.by,
                via="sql",
                judge=check,
                receipt=None if has_rows else table.receipt,
            )
        finally:  # a table that is not dropped here ends with the session
            with contextlib.suppress(catalog_errors.CatalogError, storage_errors.StorageError):
                await commits.to_the_end(self._temporary.drop(aside, by=execution.by, receipt=None))
        return rows_inserted

    async def _declared_defaults(
        self, execution: planning.Execution, statement: operations.CreateTable
    ) -> dict[int, column_defaults.Default]:
        """Return the defaults of a CREATE TABLE, by the columns' positions; raises SqlError."""
        declared = {}
        for position, column in enumerate(statement.columns):
            if column.default is not None or column.identity is not None:
                column_type = column.type or sqltypes.TEXT
                default = await self._defaults.declared(execution, column, column_type)
                assert default is not None
                declared[position] = default
        return declared

    def _look_up(
        self,
        execution: planning.Execution,
        statement: operations.CreateTable,
        catalog: places.CatalogView,
    ) -> _NewTable:
        """Return the table of a CREATE TABLE as the catalog has it; raises SqlError."""
        session = execution.session
        schema = catalog.schema_of(
            statement.name, database=session.database, schema=session.schema, exactly=True
        )
        if not schema.namespace:
            raise errors.unsupported("CREATE TABLE in INFORMATION_SCHEMA")
        ident = idents.TableIdent(
            table_bucket=schema.database,
            namespace=schema.namespace,
            name=statement.name[-1].stored,
        )
        table_options.check_retention(
            statement.settings, dropped_table_days=catalog.dropped_table_days(schema.database)
        )
        hidden = catalog.no_table(schema, statement.name)
        catalog.check_new_table(ident, missing=hidden if len(statement.name) > 1 else None)
        receipt = self._replays.receipt(schema.database, execution.query_id, by=execution.by)
        if self._replays.is_done(receipt):
            return _NewTable(ident=ident, receipt=receipt, is_done=True)
        existing = catalog.find_object(schema, statement.name[-1], only_lasting=True)
        adopts = existing is not None and existing.pointer.metadata_location is None
        if existing is not None and (adopts or statement.replace):
            # Without metadata: a client of another API created the table.
            already_exists = errors.already_exists("Object", statement.name[-1].folded)
            catalog.check_table(existing, rights.COMMIT_ACTIONS, missing=already_exists)
            ident = existing.ident
        return _NewTable(ident=ident, receipt=receipt, existing=existing, adopts=adopts)

    def _temporary_schema(
        self,
        execution: planning.Execution,
        statement: operations.CreateTable,
        catalog: places.CatalogView,
    ) -> places.Schema:
        """Return the schema of a CREATE TEMPORARY TABLE; raises SqlError."""
        session, name = execution.session, statement.name
        schema = catalog.schema_of(
            name, database=session.database, schema=session.schema, exactly=True
        )
        if not schema.namespace:
            raise errors.unsupported("CREATE TABLE in INFORMATION_SCHEMA")
        catalog.check_new_temporary(schema, missing=catalog.no_table(schema, name))
        return schema

    def _look_up_temporary(
        self,
        execution: planning.Execution,
        statement: operations.CreateTable,
        home: places.Schema,
        catalog: places.CatalogView,
    ) -> _NewTable:
        """Return the table of a CREATE TEMPORARY TABLE; raises SqlError.

        home: the namespace of the temporary tables of its schema.
        """
        schema = self._temporary_schema(execution, statement, catalog)
        ident = idents.TableIdent(
            table_bucket=home.database, namespace=home.namespace, name=statement.name[-1].stored
        )
        receipt = self._replays.receipt(home.database, execution.query_id, by=execution.by)
        if self._replays.is_done(receipt):
            return _NewTable(ident=ident, receipt=receipt, is_done=True)
        view = stored_views.find_temporary(execution.session, schema, statement.name[-1])
        if view is not None:
            raise errors.already_exists("Object", statement.name[-1].folded)
        existing = catalog.find_temporary(schema, statement.name[-1], exactly=True)
        if existing is not None:
            ident = existing.ident
        elif catalog.count_temporary(schema) >= limits.TEMPORARY_TABLES_MAX:
            raise errors.too_complex(
                "a session has at most"
                f" {limits.TEMPORARY_TABLES_MAX:,} temporary tables in a schema"
            )
        return _NewTable(ident=ident, receipt=receipt, existing=existing)

    async def _create(
        self,
        ident: idents.TableIdent,
        new_table: writes.NewTable,
        *,
        principal: access_model.Principal,
        adopts: bool,
        stage: bool = False,
        receipt: receipts.Receipt | None = None,
        base_path: str | None = None,
    ) -> tables.LoadedTable:
        return await self._tables.create(
            ident,
            schema=new_table.schema,
            partition_spec=new_table.partition_spec,
            sort_order=new_table.sort_order,
            properties=new_table.properties,
            base_path=base_path,
            stage=stage,
            adopts=adopts,
            by=principal.arn,
            via="sql",
            judge=self._places.judge(principal, rights.COMMIT_ACTIONS),
            receipt=receipt,
        )

    async def _create_as(
        self,
        execution: planning.Execution,
        query_names: planning.Names | None,
        statement: operations.CreateTable,
        ident: idents.TableIdent,
        *,
        adopts: bool,
    ) -> int:
        """Create a table with the rows of a query in one commit; return the number of rows."""
        bound_query, query_tables = await self._planning.bound(execution, query_names)
        width = len(bound_query.columns)
        columns = await threads.for_columns(width, new_columns, statement.columns, bound_query)
        new_table = await threads.for_columns(width, writes.new_table, statement, columns)
        loaded = await self._create(
            ident,
            new_table,
            principal=execution.session.principal,
            adopts=adopts,
            stage=True,
            base_path=iceberg_options.base_path(statement),
        )
        staged = await self.stage_rows(execution, query_tables, columns, loaded, is_staged=True)
        await self._writes.commit(
            staged, principal=execution.session.principal, query_id=execution.query_id
        )
        return staged.rows

    async def _copy(
        self,
        execution: planning.Execution,
        query_names: planning.Names | None,
        statement: operations.CreateTable,
        table: _NewTable,
    ) -> None:
        """Create or replace a table by LIKE or CLONE: with a source's definition, and its rows."""
        query_tables = await self._planning.open(execution, query_names)
        source = query_tables.tables[0]
        if source is None:
            raise errors.of_other_type("VIEW", "TABLE")
        is_temporary = temporary_names.is_temporary(source.loaded.ident)
        if statement.copies == "clone" and is_temporary and not statement.is_temporary:
            raise errors.unsupported("CLONE of a temporary table into a permanent one")
        numbers = self._clones.numbers(source) if statement.copies == "clone" else {}
        principal = execution.session.principal
        defined = await threads.for_columns(
            len(source.fields), functools.partial(clones.definition, numbers=numbers), source
        )
        defined = dataclasses.replace(defined, table=_labelled(statement, defined.table))
        if table.existing is not None and not table.adopts:
            await self._replace_by_copy(execution, query_tables, statement, table, source, numbers)
            return
        if statement.copies == "like":
            await self._create(
                table.ident,
                defined.table,
                principal=principal,
                adopts=table.adopts,
                receipt=table.receipt,
            )
            return
        loaded = await self._create(
            table.ident, defined.table, principal=principal, adopts=table.adopts, stage=True
        )
        target = writes.WriteTarget(
            loaded=loaded,
            fields=tuple(source.fields),
            is_staged=True,
            judge=self._places.judge(principal, rights.COMMIT_ACTIONS),
            is_adopted=table.adopts,
        )
        try:
            staged = await self._clones.share(source, target, by=execution.by)
        except clones.Unshared:
            staged = await self.stage_rows(
                execution, query_tables, defined.columns, loaded, is_staged=True
            )
        await self._writes.commit(staged, principal=principal, query_id=execution.query_id)

    async def _replace_by_copy(
        self,
        execution: planning.Execution,
        query_tables: planning.QueryTables,
        statement: operations.CreateTable,
        table: _NewTable,
        source: pinned.PinnedTable,
        numbers: Mapping[int, int],
    ) -> None:
        """Replace a table by LIKE or CLONE. The columns get new ids, so the rows are written."""
        assert table.existing is not None
        existing, principal = table.existing, execution.session.principal

        def describe(first_id: int) -> writes.NewTable:
            defined = clones.definition(source, numbers=numbers, first_id=first_id)
            return clones.without_version(_labelled(statement, defined.table))

        base = await self._tables.fetch_at(existing.ident, existing.pointer)
        replacement = await self._replacements.plan(base, describe)
        staged = None
        if statement.copies == "clone":
            columns = clones.definition(source, numbers=numbers).columns
            staged = await self.stage_rows(execution, query_tables, columns, replacement.after)
            assert staged.target.columns is None, "the definition has what the source's rows need"
        try:
            await self._replacements.commit(
                replacement,
                describe,
                () if staged is None else staged.files,
                principal=principal,
                judge=self._places.judge(principal, rights.COMMIT_ACTIONS),
                query_id=execution.query_id,
                may_rebase=source.loaded.ident != existing.ident,
                receipt=table.receipt if staged is None else None,
            )
        except catalog_errors.CommitStateUnknown:
            raise  # the rows may be committed, so their files stay
        except BaseException:
            if staged is not None:
                await commits.to_the_end(self._writes.discard(staged))
            raise

    async def stage_rows(
        self,
        execution: planning.Execution,
        query_tables: planning.QueryTables,
        columns: Sequence[writes.NewColumn],
        loaded: tables.LoadedTable,
        *,
        is_staged: bool = False,
    ) -> writes.Staged:
        """Write the rows of CTAS as files of a table that is created or replaced afterwards."""
        fields = offsets.columns(loaded.metadata)
        target = writes.WriteTarget(
            loaded=loaded,
            fields=tuple(fields),
            is_staged=is_staged,
            judge=self._places.judge(execution.session.principal, rights.COMMIT_ACTIONS),
        )
        packs = [field["type"] == "variant" for field in fields]
        targets = [
            tabletypes.new_column_type(column.type, packs=is_packed)
            for column, is_packed in zip(columns, packs, strict=True)
        ]
        environment = await self._planning.environment(execution, query_tables.shapes)
        environment = dataclasses.replace(environment, numbers=query_tables.numbers)
        bound_query = await execution.compiled.bind_into(environment, targets)
        text = await threads.for_columns(
            len(columns), writes.plan_text, bound_query, target, fields
        )
        query = await self._planning.query(execution, bound_query, query_tables, text=text)
        return await self._writes.stage(query, target, by=execution.by)

    async def _replace(
        self,
        execution: planning.Execution,
        statement: operations.CreateTable,
        table: _NewTable,
        declared: Mapping[int, column_defaults.Default],
    ) -> None:
        """Replace a table by an empty one."""
        assert table.existing is not None
        existing = table.existing

        def describe(first_id: int) -> writes.NewTable:
            return _new_table(statement, declared, first_id=first_id)

        base = await self._tables.fetch_at(existing.ident, existing.pointer)
        replacement = await self._replacements.plan(base, describe)
        await self._replacements.commit(
            replacement,
            describe,
            (),
            principal=execution.session.principal,
            judge=self._places.judge(execution.session.principal, rights.COMMIT_ACTIONS),
            query_id=execution.query_id,
            may_rebase=True,
            receipt=table.receipt,
        )

    async def _replace_as(
        self,
        execution: planning.Execution,
        query_names: planning.Names | None,
        statement: operations.CreateTable,
        table: _NewTable,
    ) -> int:
        """Replace a table by one with the rows of a query; return the number of rows."""
        assert table.existing is not None
        existing, principal = table.existing, execution.session.principal
        bound_query, query_tables = await self._planning.bound(execution, query_names)
        width = len(bound_query.columns)
        columns = await threads.for_columns(width, new_columns, statement.columns, bound_query)

        def describe(first_id: int) -> writes.NewTable:
            return writes.new_table(statement, columns, first_id=first_id)

        base = await self._tables.fetch_at(existing.ident, existing.pointer)
        replacement = await self._replacements.plan(base, describe)
        staged = await self.stage_rows(execution, query_tables, columns, replacement.after)
        if staged.target.columns is not None:

            def describe(first_id: int) -> writes.NewTable:
                table = writes.new_table(statement, columns, first_id=first_id)
                return writes.with_offsets(table)

            replacement = await self._replacements.plan(base, describe)
        own = temporary_names.path(existing.ident)
        reads_itself = any(shape.path == own for shape in query_tables.shapes)
        try:
            await self._replacements.commit(
                replacement,
                describe,
                staged.files,
                principal=principal,
                judge=self._places.judge(principal, rights.COMMIT_ACTIONS),
                query_id=execution.query_id,
                may_rebase=not reads_itself,
            )
        except catalog_errors.CommitStateUnknown:
            raise  # the rows may be committed, so their files stay
        except BaseException:
            await commits.to_the_end(self._writes.discard(staged))
            raise
        return staged.rows

    async def drop_table(
        self, execution: planning.Execution, statement: operations.DropTable
    ) -> outcomes.Outcome:
        """Drop a table; raises SqlError."""
        session = execution.session
        shown = statement.name[-1].folded
        success = outcomes.status(f"{shown} successfully dropped.")
        try:
            with self._places.view_of(session) as catalog:
                schema = catalog.schema_of(
                    statement.name, database=session.database, schema=session.schema, exactly=True
                )
                receipt = self._replays.receipt(
                    schema.database, execution.query_id, by=execution.by
                )
                if schema.namespace and self._replays.is_done(receipt):
                    return success
                if self._replays.is_done_in(
                    session.temporary_bucket, execution.query_id, by=execution.by
                ):
                    return success
                missing = catalog.no_table(schema, statement.name, object_type="Table")
                table = catalog.find_object(schema, statement.name[-1])
                if table is None:
                    raise missing
                catalog.check_table(table, rights.DROP_ACTIONS, missing=missing)
                if table.pointer.object_type == "view":
                    raise errors.of_other_type("VIEW", "TABLE")
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return outcomes.already_dropped(shown)
            raise
        try:
            if table.is_temporary:
                receipt = self._replays.receipt(
                    table.ident.table_bucket, execution.query_id, by=execution.by
                )
                await self._temporary.drop(table.ident, by=execution.by, receipt=receipt)
                return success
            await self._tables.drop(
                table.ident,
                by=execution.by,
                via="sql",
                judge=self._places.judge(session.principal, rights.DROP_ACTIONS),
                receipt=receipt,
            )
        except catalog_errors.NoSuchTable:  # another request dropped it meanwhile
            if not statement.if_exists:
                raise
            return outcomes.already_dropped(shown)
        return success

    async def undrop_table(
        self, execution: planning.Execution, statement: operations.UndropTable
    ) -> outcomes.Outcome:
        """Restore the table of a name that was dropped last; raises SqlError."""
        session = execution.session
        shown = statement.name[-1].folded
        success = outcomes.status(f"Table {shown} successfully restored.")
        with self._places.view_of(session) as catalog:
            schema = catalog.schema_of(
                statement.name, database=session.database, schema=session.schema, exactly=True
            )
            receipt = self._replays.receipt(schema.database, execution.query_id, by=execution.by)
            if schema.namespace and self._replays.is_done(receipt):
                return success
            missing = catalog.no_table(schema, statement.name, object_type="Table")
        ident = self._dropped(schema, statement.name[-1])
        if ident is None:
            raise missing
        await self._tables.undrop(
            ident,
            by=execution.by,
            via="sql",
            permit=self._places.permit(session.principal, schema.database),
            judge=self._places.judge_undrop(session.principal, missing=missing),
            receipt=receipt,
        )
        return success

    def _dropped(self, schema: places.Schema, name: names.Ident) -> idents.TableIdent | None:
        """Return the name of the dropped table that UNDROP restores, None if none is kept."""
        if not schema.namespace:
            return None
        for spelling in names.spellings(name):
            ident = idents.TableIdent(
                table_bucket=schema.database, namespace=schema.namespace, name=spelling
            )
            try:
                self._tables.dropped(ident)
            except catalog_errors.NotRestorable:
                continue
            return ident
        return None


def _labelled(statement: operations.CreateTable, new_table: writes.NewTable) -> writes.NewTable:
    """Return a copy of a table with the word TRANSIENT, if the statement has it."""
    if not statement.is_transient:
        return new_table
    properties = {**new_table.properties, tabletypes.FORM: tabletypes.TRANSIENT}
    return dataclasses.replace(new_table, properties=properties)


def _new_table(
    statement: operations.CreateTable,
    declared: Mapping[int, column_defaults.Default],
    *,
    first_id: int = 1,
) -> writes.NewTable:
    """Return the table of a CREATE TABLE that lists its columns; raises SqlError.

    declared: the columns' defaults, by position. first_id: of the first column.
    """
    columns = [
        writes.NewColumn(
            name=column.name.stored,
            is_quoted=column.name.quoted,
            type=column.type or sqltypes.TEXT,
            required=column.required,
            comment=column.comment,
            default=declared.get(position),
        )
        for position, column in enumerate(statement.columns)
    ]
    return writes.new_table(statement, columns, first_id=first_id)


def new_columns(
    named_columns: Sequence[operations.ColumnDefinition], query: resolve.BoundQuery
) -> list[writes.NewColumn]:
    """Return the columns of a table or view of a query: those that the statement lists, or else
    those of the query. Raises SqlError.
    """
    if named_columns and len(named_columns) != len(query.columns):
        raise errors.SqlError(
            "002022",
            "42601",
            "SQL compilation error:\nNumber of columns in the list differs from the query's",
            phase="COMPILATION",
        )
    if not named_columns and query.unnamed:
        raise errors.SqlError(
            "002022",
            "42601",
            f"SQL compilation error:\nMissing column specification for '{query.unnamed[0]}'",
            phase="COMPILATION",
        )
    columns = []
    for index, (column, sql_type) in enumerate(zip(query.columns, query.types, strict=True)):
        if named_columns:
            columns.append(
                writes.NewColumn(
                    name=named_columns[index].name.stored,
                    is_quoted=named_columns[index].name.quoted,
                    type=named_columns[index].type or _storable(sql_type),
                    required=named_columns[index].required,
                    comment=named_columns[index].comment,
                )
            )
        else:
            columns.append(
                writes.NewColumn(
                    name=_stored_name(column.name),
                    is_quoted=_stored_name(column.name) == column.name,
                    type=_storable(sql_type),
                )
            )
    return columns


def _storable(sql_type: sqltypes.SqlType) -> sqltypes.SqlType:
    """Return the type of a new column for values of a query's type."""
    if sql_type.name in ("null", "interval"):
        return sqltypes.TEXT
    if sql_type.is_integer and sql_type.is_named:
        return sqltypes.number(sql_type.precision)
    if sql_type.is_integer:
        return sqltypes.integer(sqltypes.PRECISION_MAX)
    return sql_type


def _stored_name(shown: str) -> str:
    return shown.lower() if names.PLAIN_UPPER.fullmatch(shown) else shown
