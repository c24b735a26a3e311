"""engine: schemas, which are namespaces: CREATE, ALTER, DROP and UNDROP.

Each statement is one commit of the catalog. The commit stores a receipt, so that a repeated request
gets the first one's answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog import errors as catalog_errors
from catalog import idents, namespaces, owners, records
from sql import errors, outcomes, places, planning, replays, schema_clones, temporary_tables
from sql.dialect import names, operations


class Schemas:
    """Creates, changes, drops and restores schemas. Stateless."""

    def __init__(
        self,
        *,
        places: places.Places,
        namespaces: namespaces.Namespaces,
        replays: replays.Replays,
        temporary: temporary_tables.TemporaryTables,
        clones: schema_clones.SchemaClones,
    ) -> None:
        self._clones = clones
        self._places = places
        self._namespaces = namespaces
        self._replays = replays
        self._temporary = temporary

    async def create(
        self, execution: planning.Execution, statement: operations.CreateSchema
    ) -> outcomes.Outcome:
        """Create a schema, and make it the session's current one; raises SqlError."""
        session = execution.session
        database = session.database
        if len(statement.name) > 2:
            raise errors.unsupported("a schema name of more than two parts")
        ident = statement.name[-1]
        namespace = tuple(ident.stored.split("."))
        with self._places.view_of(session) as catalog:
            if len(statement.name) == 2:
                database = catalog.database(statement.name[0])
            if database is None:
                raise errors.no_current_database()
            catalog.check_new_schema(statement.name, database)
            receipt = self._replays.receipt(database, execution.query_id, by=execution.by)
            is_done = self._replays.is_done(receipt)
            is_taken = catalog.has_schema(database, ident)
        exists = outcomes.status(f"{ident.folded} already exists, statement succeeded.")
        if is_taken and not is_done and not statement.replace:
            if not statement.if_not_exists:
                raise errors.already_exists("Object", ident.folded)
            return exists
        if statement.source is not None and not is_done:
            try:
                await self._clone(
                    execution, statement, statement.source, database, replaces=is_taken
                )
            except catalog_errors.NamespaceAlreadyExists:  # another session created it meanwhile
                if not statement.if_not_exists:
                    raise
                return exists
            session.database, session.schema = database, ident.stored
            return outcomes.status(f"Schema {ident.folded} successfully created.")
        if is_taken and not is_done:
            return await self._replace(execution, statement, database)
        properties = {"comment": statement.comment} if statement.comment else {}
        if not is_done:
            try:
                await self._namespaces.create(
                    database,
                    namespace,
                    properties,
                    by=execution.by,
                    via="sql",
                    judge=self._places.judge_namespace(
                        session.principal, database, namespace, "CreateNamespace"
                    ),
                    receipt=receipt,
                )
            except catalog_errors.NamespaceAlreadyExists:
                if not statement.if_not_exists:
                    raise
                return exists
        session.database, session.schema = database, ident.stored
        return outcomes.status(f"Schema {ident.folded} successfully created.")

    async def _clone(
        self,
        execution: planning.Execution,
        statement: operations.CreateSchema,
        source: operations.CloneSource,
        database: str,
        *,
        replaces: bool,
    ) -> None:
        """Create a schema with what another one holds; drop the one of its name, if there is one.

        All of it is one commit.
        """
        session, ident = execution.session, statement.name[-1]
        namespace, replaced = tuple(ident.stored.split(".")), None
        judges = [
            self._places.judge_namespace(session.principal, database, namespace, "CreateNamespace")
        ]
        if replaces:
            replaced, judges = self._replaced(execution, statement, database)
            namespace = replaced.namespace
        with self._places.view(session.principal) as catalog:
            if len(source.name) > 2:
                raise errors.unsupported("a schema name of more than two parts")
            schema = catalog.visible_schema(source.name, database=session.database, exactly=False)
            if not schema.namespace:
                raise errors.unsupported("CLONE of INFORMATION_SCHEMA")
            cloned = self._clones.find(catalog, schema, database=database, namespace=namespace)
            if catalog.has_nested_schemas(schema):
                raise errors.unsupported("CLONE of a schema with nested schemas")
        await self._clones.check(execution, [cloned])
        await self._clones.clone(
            execution,
            source,
            [cloned],
            comment=statement.comment,
            judge=_all(judges),
            receipt=self._replays.receipt(database, execution.query_id, by=execution.by),
            replaces=replaces,
        )
        if replaced is not None:
            await self._temporary.drop_schema(session, replaced)

    def _replaced(
        self,
        execution: planning.Execution,
        statement: operations.CreateSchema,
        database: str,
    ) -> tuple[places.Schema, list[owners.Recheck]]:
        """Return the schema that OR REPLACE drops, and the checks of the rights on it."""
        session, ident = execution.session, statement.name[-1]
        with self._places.view(session.principal) as catalog:
            schema = catalog.schema(
                (names.Ident(text=database, quoted=True), ident), database=None, exactly=True
            )
            if not schema.namespace:
                raise errors.unsupported("CREATE OR REPLACE SCHEMA INFORMATION_SCHEMA")
            catalog.check_schema(statement.name, schema, "DeleteNamespace")
        judges = [
            self._places.judge_namespace(session.principal, database, schema.namespace, action)
            for action in ("DeleteNamespace", "CreateNamespace")
        ]
        return schema, judges

    async def _replace(
        self,
        execution: planning.Execution,
        statement: operations.CreateSchema,
        database: str,
    ) -> outcomes.Outcome:
        """Drop a schema with its tables and views, and create it anew, in one commit."""
        session, ident = execution.session, statement.name[-1]
        schema, judges = self._replaced(execution, statement, database)

        def check(ident: idents.TableIdent, pointer: records.Pointer) -> None:
            table = places.NamedTable(ident=ident, pointer=pointer)
            self._places.check_drop(session.principal, table)

        await self._namespaces.drop_whole(
            database,
            schema.namespace,
            check=check,
            by=execution.by,
            via="sql",
            judge=_all(judges),
            receipt=self._replays.receipt(database, execution.query_id, by=execution.by),
            successor={"comment": statement.comment} if statement.comment else {},
        )
        await self._temporary.drop_schema(session, schema)
        session.database, session.schema = database, schema.name
        return outcomes.status(f"Schema {ident.folded} successfully created.")

    async def alter(
        self, execution: planning.Execution, statement: operations.AlterSchema
    ) -> outcomes.Outcome:
        """Set or remove a schema's comment, which is a property of its namespace."""
        session, success = execution.session, outcomes.status("Statement executed successfully.")
        try:
            with self._places.view_of(session) as catalog:
                schema = catalog.schema(statement.name, database=session.database, exactly=True)
                if not schema.namespace:
                    raise errors.unsupported("ALTER SCHEMA INFORMATION_SCHEMA")
                catalog.check_schema(statement.name, schema, "UpdateNamespace")
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return success
            raise
        receipt = self._replays.receipt(schema.database, execution.query_id, by=execution.by)
        if self._replays.is_done(receipt):
            return success
        judge = self._places.judge_namespace(
            session.principal, schema.database, schema.namespace, "UpdateNamespace"
        )
        await self._namespaces.update(
            schema.database,
            schema.namespace,
            updates={"comment": statement.comment} if statement.comment else {},
            removals=() if statement.comment else ("comment",),
            by=execution.by,
            via="sql",
            judge=judge,
            receipt=receipt,
        )
        return success

    async def drop(
        self, execution: planning.Execution, statement: operations.DropSchema
    ) -> outcomes.Outcome:
        """Drop a schema with all its tables; raises SqlError.

        CASCADE and RESTRICT differ for foreign keys alone in Snowflake, and Boathouse has none.
        """
        session = execution.session
        shown = statement.name[-1].folded
        success = outcomes.status(f"{shown} successfully dropped.")
        receipt = None
        try:
            with self._places.view_of(session) as catalog:
                database = session.database
                if len(statement.name) == 2:
                    database = catalog.database(statement.name[0])
                if database is not None:
                    receipt = self._replays.receipt(database, execution.query_id, by=execution.by)
                    if self._replays.is_done(receipt):
                        return success
                schema = catalog.schema(statement.name, database=session.database, exactly=True)
                if not schema.namespace:
                    raise errors.unsupported("DROP SCHEMA INFORMATION_SCHEMA")
                catalog.check_schema(statement.name, schema, "DeleteNamespace")
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return outcomes.already_dropped(shown)
            raise

        def check(ident: idents.TableIdent, pointer: records.Pointer) -> None:
            table = places.NamedTable(ident=ident, pointer=pointer)
            self._places.check_drop(session.principal, table)

        try:
            await self._namespaces.drop_whole(
                schema.database,
                schema.namespace,
                check=check,
                by=execution.by,
                via="sql",
                judge=self._places.judge_namespace(
                    session.principal, schema.database, schema.namespace, "DeleteNamespace"
                ),
                receipt=receipt,
            )
        except catalog_errors.NoSuchNamespace:  # another session dropped it meanwhile
            if not statement.if_exists:
                raise
            success = outcomes.already_dropped(shown)
        await self._temporary.drop_schema(session, schema)
        if (session.database, session.schema) == (schema.database, schema.name):
            session.schema = None
        return success

    async def undrop(
        self, execution: planning.Execution, statement: operations.UndropSchema
    ) -> outcomes.Outcome:
        """Restore the schema of a name that was dropped last, with its tables; raises SqlError."""
        session, ident = execution.session, statement.name[-1]
        shown = ident.folded
        success = outcomes.status(f"Schema {shown} successfully restored.")
        if len(statement.name) > 2:
            raise errors.unsupported("a schema name of more than two parts")
        with self._places.view_of(session) as catalog:
            database = session.database
            if len(statement.name) == 2:
                database = catalog.database(statement.name[0])
            if database is None:
                raise errors.no_current_database()
            catalog.check_new_schema(statement.name, database)
            receipt = self._replays.receipt(database, execution.query_id, by=execution.by)
            if self._replays.is_done(receipt):
                return success
            missing = catalog.hidden(statement.name, database=database)
            if catalog.has_schema(database, ident):
                raise errors.already_exists("Object", shown)
        principal = session.principal
        for spelling in names.spellings(ident):
            namespace = tuple(spelling.split("."))

            def judge_child(child: idents.Namespace) -> None:
                self._places.judge_namespace(principal, database, child, "CreateNamespace")()

            try:
                await self._namespaces.undrop(
                    database,
                    namespace,
                    by=execution.by,
                    via="sql",
                    permit=self._places.permit(principal, database),
                    judge=self._places.judge_namespace(
                        principal, database, namespace, "CreateNamespace"
                    ),
                    judge_child=judge_child,
                    judge_item=self._places.judge_undrop(principal, missing=missing),
                    receipt=receipt,
                )
            except catalog_errors.NamespaceNotRestorable:
                continue
            except catalog_errors.NamespaceAlreadyExists:  # another session created it meanwhile
                raise errors.already_exists("Object", shown) from None
            return success
        raise missing


def _all(judges: Sequence[owners.Recheck]) -> owners.Recheck:
    def judge() -> None:
        for each in judges:
            each()

    return judge
