"""engine: ALTER TABLE, and COMMENT ON a table or a column.

A change of a table's metadata is one commit whose requirements name the state on which it was
planned. If another writer was faster, the change is planned again on the new state, so that changes
which do not conflict in meaning all succeed. RENAME TO and SWAP WITH move pointers only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

import msgspec

from catalog import idents, owners, receipts, rights, tables
from catalog.metadata import errors as metadata_errors
from catalog.metadata import model
from sql import (
    backfills,
    column_defaults,
    defaults,
    errors,
    foreign_keys,
    offsets,
    outcomes,
    places,
    planning,
    replays,
    schema_changes,
    stages,
    tabletypes,
    temporary_names,
    threads,
)
from sql.dialect import names, operations, sqltypes, table_options

ATTEMPTS_MAX: Final = 20
"""How often a change is planned, each time on a newer state of the table."""

RENAME_ACTIONS: Final = ("RenameTable",)
SUCCESS: Final = "Statement executed successfully."


class Alterations:
    """Changes tables. Stateless."""

    def __init__(
        self,
        *,
        places: places.Places,
        tables: tables.Tables,
        replays: replays.Replays,
        defaults: defaults.Defaults,
        foreign_keys: foreign_keys.ForeignKeys,
        backfills: backfills.Backfills,
        stages: stages.Stages,
    ) -> None:
        self._places = places
        self._tables = tables
        self._replays = replays
        self._defaults = defaults
        self._foreign_keys = foreign_keys
        self._backfills = backfills
        self._stages = stages

    async def alter_table(
        self, execution: planning.Execution, statement: operations.AlterTable
    ) -> outcomes.Outcome:
        """Change a table; raises SqlError."""
        session, change = execution.session, statement.change
        moves = isinstance(change, operations.RenameTable | operations.SwapTables)
        actions = RENAME_ACTIONS if moves else rights.COMMIT_ACTIONS
        try:
            with self._places.view_of(session) as catalog:
                schema = catalog.schema_of(
                    statement.name, database=session.database, schema=session.schema, exactly=True
                )
                if not schema.namespace:
                    raise errors.unsupported("ALTER TABLE in INFORMATION_SCHEMA")
                receipt = self._replays.receipt(
                    schema.database, execution.query_id, by=execution.by
                )
                if self._replays.is_done(receipt) or self._replays.is_done_in(
                    session.temporary_bucket, execution.query_id, by=execution.by
                ):
                    return outcomes.status(SUCCESS)
                missing = catalog.no_table(schema, statement.name, object_type="Table")
                table = catalog.find_table(schema, statement.name[-1], exactly=True)
                if table is None:
                    raise missing
                if table.is_temporary:
                    receipt = self._replays.receipt(
                        table.ident.table_bucket, execution.query_id, by=execution.by
                    )
                catalog.check_table(table, actions, missing=missing)
                target = self._target(execution, statement, catalog, table)
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return outcomes.status(SUCCESS)
            raise
        if isinstance(change, operations.RenameTable | operations.SwapTables):
            assert target is not None
            await self._move(execution, change, table.ident, target, receipt)
        else:
            await self._change(execution, change, table, receipt)
        return outcomes.status(SUCCESS)

    def _target(
        self,
        execution: planning.Execution,
        statement: operations.AlterTable,
        catalog: places.CatalogView,
        table: places.NamedTable,
    ) -> idents.TableIdent | None:
        """Return the other name of RENAME TO and SWAP WITH. Raises SqlError."""
        session = execution.session
        match statement.change:
            case operations.RenameTable(to=name) | operations.SwapTables(other=name):
                place = temporary_names.logical(table.ident)
                schema = catalog.schema_of(
                    name, database=session.database, schema=session.schema, exactly=True
                )
                if len(name) == 1 and isinstance(statement.change, operations.RenameTable):
                    # Snowflake renames within the session's schema only by a qualified name.
                    schema = places.Schema(
                        database=place.table_bucket,
                        name=idents.dotted(place.namespace),
                        namespace=place.namespace,
                    )
            case operations.SetTableProperties(properties=assigned):
                days = catalog.dropped_table_days(table.ident.table_bucket)
                table_options.check_retention(assigned, dropped_table_days=days)
                return None
            case _:
                return None
        if schema.database != place.table_bucket or not schema.namespace:
            raise errors.unsupported("ALTER TABLE into another database")
        if isinstance(statement.change, operations.SwapTables):
            missing = catalog.no_table(schema, name, object_type="Table")
            other = catalog.find_table(schema, name[-1], exactly=True)
            if other is None:
                raise missing
            if other.is_temporary != table.is_temporary:
                raise errors.unsupported("SWAP WITH of a temporary table and a permanent one")
            catalog.check_table(other, RENAME_ACTIONS, missing=missing)
            return other.ident
        ident = idents.TableIdent(
            table_bucket=schema.database, namespace=schema.namespace, name=name[-1].stored
        )
        if table.is_temporary:
            if schema.namespace != place.namespace:
                raise errors.unsupported("ALTER TABLE of a temporary table into another schema")
            return msgspec.structs.replace(table.ident, name=name[-1].stored)
        hidden = catalog.no_table(schema, name)
        catalog.check_new_name(ident, missing=hidden if len(name) > 1 else None)
        return ident

    async def _move(
        self,
        execution: planning.Execution,
        change: operations.RenameTable | operations.SwapTables,
        source: idents.TableIdent,
        target: idents.TableIdent,
        receipt: receipts.Receipt,
    ) -> None:
        principal = execution.session.principal
        judge = self._places.judge(principal, RENAME_ACTIONS)
        if isinstance(change, operations.SwapTables):
            await self._tables.swap(
                source, target, by=execution.by, via="sql", judge=judge, receipt=receipt
            )
            return
        await self._tables.rename(
            source,
            target,
            by=execution.by,
            via="sql",
            judge=self._places.judge_rename(principal, target),
            receipt=receipt,
        )

    async def _change(
        self,
        execution: planning.Execution,
        change: operations.SchemaChange,
        table: places.NamedTable,
        receipt: receipts.Receipt,
    ) -> None:
        """Commit a change of the metadata, planned on the newest state of the table."""
        loaded = await self._tables.fetch_at(table.ident, table.pointer)
        change = await self._qualified(execution, change, table.ident)
        resolved_defaults = await self._resolve(execution, change, loaded)
        for number in range(1, ATTEMPTS_MAX + 1):
            if loaded.pointer.object_uuid != table.pointer.object_uuid:
                raise errors.does_not_exist("Table", names.shown(table.ident.name))
            resolved = schema_changes.Resolved(
                is_empty=_is_empty(loaded.metadata), defaults=resolved_defaults
            )
            width = len(loaded.metadata.current_schema()["fields"])
            planned = await threads.for_columns(
                width, schema_changes.plan, loaded.metadata, change, resolved
            )
            if planned.checks_nulls and not resolved.is_empty:
                await self._check_nulls(execution, table.ident, planned.checks_nulls)
            judge = self._places.judge(execution.session.principal, rights.COMMIT_ACTIONS)
            if planned.replaces_lists or planned.filled:
                judge = owners.unmoved(judge, loaded.pointer)
            try:
                if planned.filled:
                    await self._backfills.commit(
                        execution,
                        loaded,
                        planned.updates,
                        planned.filled,
                        judge=judge,
                        receipt=receipt,
                    )
                    return
                await self._tables.commit(
                    table.ident,
                    schema_changes.requirements(loaded.metadata, planned),
                    planned.updates,
                    by=execution.by,
                    via="sql",
                    judge=judge,
                    receipt=receipt,
                )
                return
            except metadata_errors.RequirementFailed:
                if number == ATTEMPTS_MAX:
                    raise
            loaded = await self._tables.fetch(table.ident)

    async def _qualified(
        self,
        execution: planning.Execution,
        change: operations.SchemaChange,
        own: idents.TableIdent,
    ) -> operations.SchemaChange:
        """Return a change whose foreign keys have full names, and whose format is a property."""
        if isinstance(change, operations.AddColumns):
            keys = await self._foreign_keys.qualified(execution, change.keys, own=own)
            return dataclasses.replace(change, keys=keys)
        if isinstance(change, operations.AddKey):
            (key,) = await self._foreign_keys.qualified(execution, (change.key,), own=own)
            return operations.AddKey(key=key)
        if isinstance(change, operations.SetTableProperties) and change.stage_format is not None:
            assigned = self._stages.as_property(execution.session, change.stage_format)
            return operations.SetTableProperties(properties=(*change.properties, assigned))
        return change

    async def _resolve(
        self,
        execution: planning.Execution,
        change: operations.SchemaChange,
        loaded: tables.LoadedTable,
    ) -> Mapping[int, column_defaults.Default]:
        """Return the defaults that a change names, by the column's position in it."""
        resolved: dict[int, column_defaults.Default] = {}
        if isinstance(change, operations.AddColumns):
            for position, column in enumerate(change.columns):
                assert column.type is not None
                default = await self._defaults.declared(execution, column, column.type)
                if default is not None:
                    resolved[position] = default
        if isinstance(change, operations.ChangeColumns):
            for position, column_change in enumerate(change.changes):
                if column_change.default:
                    column_type = column_change.type or _type_of(loaded, column_change.column)
                    resolved[position] = await self._defaults.of_text(
                        execution, column_change.default, column_type
                    )
        return resolved

    async def _check_nulls(
        self,
        execution: planning.Execution,
        ident: idents.TableIdent,
        stored: tuple[str, ...],
    ) -> None:
        """Raise SqlError 100072 if a column that becomes NOT NULL has a NULL."""
        table = ".".join(names.quoted(part) for part in temporary_names.path(ident))
        for name in stored:
            column = names.quoted(name)
            text = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {column} IS NULL LIMIT 1)"
            if await self._defaults.value(execution, text):
                raise errors.null_into_not_null(names.shown(name))


def _is_empty(metadata: model.TableMetadata) -> bool:
    """Return whether the current snapshot certainly has no data file."""
    snapshot_id = metadata.current_snapshot_id
    if snapshot_id is None or snapshot_id < 0:
        return True
    summary = (metadata.snapshot(snapshot_id) or {}).get("summary") or {}
    return summary.get("total-data-files") == "0"


def _type_of(loaded: tables.LoadedTable, ident: names.Ident) -> sqltypes.SqlType:
    fields = offsets.columns(loaded.metadata)
    positions = names.find(ident, [field["name"] for field in fields])
    if not positions:
        raise errors.invalid_identifier(ident.folded)
    field = fields[positions[0]]
    declared = tabletypes.declared_types(loaded.metadata.properties)
    return tabletypes.sql_type(field["type"], declared.get(field["id"]))
