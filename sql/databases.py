"""engine: CREATE, ALTER and DROP DATABASE. A database is a table bucket.

CREATE makes the bucket with the schema PUBLIC. CLONE makes it without schemas, and one commit then
creates all of them with what they hold; if that fails, the bucket is deleted again. DROP deletes
one without tables and views; CASCADE frees their files for good, because a deleted bucket cannot be
restored. The last transaction of each statement has a receipt, which belongs to no bucket.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final

from catalog import commits, idents, namespaces, owners, receipts, records, rights, table_buckets
from catalog import errors as catalog_errors
from server.access import model as access_model
from sql import errors, outcomes, places, planning, replays, schema_clones
from sql.dialect import names, operations
from storage import errors as storage_errors
from storage import model as storage_model

FIRST_SCHEMA: Final = "public"
CREATE: Final = "CreateTableBucket"
DELETE: Final = "DeleteTableBucket"
DONE: Final = "Statement executed successfully."


class Databases:
    """Creates, changes and drops databases. Stateless."""

    def __init__(
        self,
        *,
        places: places.Places,
        table_buckets: table_buckets.TableBuckets,
        replays: replays.Replays,
        clones: schema_clones.SchemaClones,
    ) -> None:
        self._clones = clones
        self._places = places
        self._table_buckets = table_buckets
        self._replays = replays

    async def create(
        self, execution: planning.Execution, statement: operations.CreateDatabase
    ) -> outcomes.Outcome:
        """Create a database with the schema PUBLIC, the session's current ones from now on."""
        session, shown = execution.session, statement.name.folded
        name = names.table_bucket_of(statement.name)
        try:
            self._table_buckets.check_name(name)
        except storage_errors.InvalidBucketName as error:
            raise errors.invalid_name("database", shown, str(error)) from None
        judge = self._places.judge_new_database(session.principal, name)
        judge()
        receipt = self._replays.receipt_in(replays.NO_BUCKET, execution.query_id, by=execution.by)
        existing, cloned = None, list[schema_clones.ClonedSchema]()
        exists = outcomes.status(f"{shown} already exists, statement succeeded.")
        if not self._replays.is_done(receipt):
            if statement.replace:
                existing = self._replaced(execution, statement.name, shown)
            if statement.source is not None and existing is not None:
                # The old database would be gone before the copy, which may fail.
                raise errors.unsupported(
                    f"OR REPLACE with CLONE of a database that exists: DROP DATABASE {shown} first"
                )
            if statement.source is not None and statement.if_not_exists:
                is_taken = self._table_buckets.find(name) is not None
                if is_taken and self._is_visible(execution, statement.name):
                    return exists
            taken = name if existing is None else existing.name
            if statement.source is not None:
                cloned = self._cloned(execution, statement.source.name[0], taken)
                await self._clones.check(execution, cloned)
            creation = self._table_buckets.create(
                taken,
                owner=session.principal.account_id,
                namespace=FIRST_SCHEMA if statement.source is None else None,
                comment=statement.comment,
                by=execution.by,
                via="sql",
                judge=self._judge_both(judge, session.principal, existing),
                replaces=existing,
                check_namespace=self._check_namespace(session.principal, name),
                receipt=receipt if not cloned else None,
            )
            try:
                bucket = await (self._created(creation) if cloned else creation)
            except storage_errors.BucketAlreadyExists:
                if statement.if_not_exists and self._is_visible(execution, statement.name):
                    return exists
                raise errors.already_exists("Object", shown) from None
            except catalog_errors.TableBucketNotEmpty as error:
                raise errors.not_empty(f"Database {shown} cannot be replaced: {error}") from None
            if statement.source is not None and cloned:
                await self._fill(execution, statement.source, cloned, bucket, receipt)
        session.database = name if existing is None else existing.name
        with self._places.view(session.principal) as catalog:
            first = names.Ident(text=FIRST_SCHEMA, quoted=True)
            has_first = catalog.has_schema(session.database, first)
        session.schema = FIRST_SCHEMA if has_first else None
        return outcomes.status(f"Database {shown} successfully created.")

    def _cloned(
        self, execution: planning.Execution, source: names.Ident, name: str
    ) -> list[schema_clones.ClonedSchema]:
        """Return what the clone `name` of a database is to hold; raises SqlError."""
        with self._places.view(execution.session.principal) as catalog:
            database = catalog.visible_database(source)
            cloned: list[schema_clones.ClonedSchema] = []
            most = namespaces.TABLES_DROPPED_MAX
            for schema in catalog.all_schemas(database):
                each = self._clones.find(catalog, schema, database=name, namespace=schema.namespace)
                cloned.append(each)
                most -= 1 + len(each.tables) + len(each.views) + len(each.sequences)
                if most < 0:
                    raise errors.too_complex(
                        f"a database has more than {namespaces.TABLES_DROPPED_MAX:,} schemas,"
                        " tables, views and sequences"
                    )
        return cloned

    async def _created(
        self, creation: Coroutine[Any, Any, storage_model.BucketInfo]
    ) -> storage_model.BucketInfo:
        """Return the database that a clone is to fill; a cancelled statement leaves none."""
        running = asyncio.ensure_future(creation)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            bucket = await commits.outcome_of(running)
            await commits.to_the_end(self._take_back(bucket))
            raise

    async def _fill(
        self,
        execution: planning.Execution,
        source: operations.CloneSource,
        cloned: list[schema_clones.ClonedSchema],
        bucket: storage_model.BucketInfo,
        receipt: receipts.Receipt,
    ) -> None:
        """Create all schemas of a new database in one commit; without it, delete the database."""
        principal = execution.session.principal
        judges = [
            self._places.judge_namespace(principal, bucket.name, each.namespace, "CreateNamespace")
            for each in cloned
        ]

        def judge() -> None:
            for each in judges:
                each()

        try:
            await self._clones.clone(
                execution, source, cloned, comment=None, judge=judge, receipt=receipt
            )
        except catalog_errors.CommitStateUnknown:
            raise  # the schemas may be there
        except BaseException:
            await commits.to_the_end(self._take_back(bucket))
            raise

    async def _take_back(self, bucket: storage_model.BucketInfo) -> None:
        """Delete a database that was created and could not be filled."""
        with contextlib.suppress(catalog_errors.CatalogError, storage_errors.StorageError):
            await self._table_buckets.delete(
                bucket, losing="nothing", may_purge=True, judge=lambda: None
            )

    async def alter(
        self, execution: planning.Execution, statement: operations.AlterDatabase
    ) -> outcomes.Outcome:
        """Set or remove a database's comment; raises SqlError."""
        success = outcomes.status(DONE)
        try:
            bucket = self._find(execution, statement.name, rights.ADMINISTER)
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return success
            raise
        receipt = self._replays.receipt(bucket.name, execution.query_id, by=execution.by)
        if not self._replays.is_done(receipt):
            judge = self._places.judge_database(
                execution.session.principal, bucket.name, (rights.ADMINISTER,)
            )
            await self._table_buckets.set_comment(
                bucket, statement.comment, judge=judge, receipt=receipt
            )
        return success

    async def drop(
        self, execution: planning.Execution, statement: operations.DropDatabase
    ) -> outcomes.Outcome:
        """Drop a database; with CASCADE also its tables and views, for good. Raises SqlError."""
        session, shown = execution.session, statement.name.folded
        success = outcomes.status(f"{shown} successfully dropped.")
        receipt = self._replays.receipt_in(replays.NO_BUCKET, execution.query_id, by=execution.by)
        if self._replays.is_done(receipt):
            return success
        actions = (DELETE, rights.PURGE) if statement.cascade else (DELETE,)
        try:
            bucket = self._find(execution, statement.name, *actions)
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return outcomes.already_dropped(shown)
            raise

        def check(ident: idents.TableIdent, pointer: records.Pointer) -> None:
            table = places.NamedTable(ident=ident, pointer=pointer)
            self._places.check_drop(session.principal, table, actions=rights.PURGE_ACTIONS)

        try:
            await self._table_buckets.delete(
                bucket,
                losing="everything" if statement.cascade else "namespaces",
                may_purge=statement.cascade,
                judge=self._places.judge_database(session.principal, bucket.name, actions),
                check=check,
                check_namespace=self._check_namespace(session.principal, bucket.name),
                receipt=receipt,
            )
        except storage_errors.NoSuchBucket:  # another session dropped it meanwhile
            if not statement.if_exists:
                raise errors.does_not_exist("Database", shown) from None
            success = outcomes.already_dropped(shown)
        except catalog_errors.FilesReferenced as error:
            raise errors.not_empty(f"Database {shown} cannot be dropped: {error}") from None
        except catalog_errors.TableBucketNotEmpty as error:
            raise errors.not_empty(
                f"Database {shown} cannot be dropped: {error}. DROP DATABASE ... CASCADE frees"
                " the files of all its tables, which nothing restores."
            ) from None
        if session.database == bucket.name:
            session.database = session.schema = None
        return success

    def _find(
        self, execution: planning.Execution, name: names.Ident, *actions: str
    ) -> storage_model.BucketInfo:
        """Return a table bucket on which the caller may do actions. Raises SqlError, 002003 if it
        is hidden."""
        with self._places.view(execution.session.principal) as catalog:
            database = catalog.database(name)
            catalog.check_database(name, database, actions)
        bucket = self._table_buckets.find(database)
        if bucket is None:  # another session dropped it meanwhile
            raise errors.does_not_exist("Database", name.folded)
        return bucket

    def _replaced(
        self, execution: planning.Execution, name: names.Ident, shown: str
    ) -> storage_model.BucketInfo | None:
        """Return the table bucket that OR REPLACE replaces, if there is one."""
        bucket = self._table_buckets.find(names.table_bucket_of(name))
        if bucket is None:
            return None
        if bucket.type != "table":
            raise errors.already_exists("Object", shown)
        with self._places.view(execution.session.principal) as catalog:
            catalog.check_database(name, bucket.name, (DELETE,))
        return bucket

    def _is_visible(self, execution: planning.Execution, name: names.Ident) -> bool:
        """Return whether the name is taken by a database that the caller may see."""
        try:
            with self._places.view(execution.session.principal) as catalog:
                catalog.visible_database(name)
        except errors.SqlError:
            return False
        return True

    def _judge_both(
        self,
        judge: owners.Recheck,
        principal: access_model.Principal,
        existing: storage_model.BucketInfo | None,
    ) -> owners.Recheck:
        """Return the check of judge, and of the right to delete a bucket that is replaced."""
        if existing is None:
            return judge
        judge_deletion = self._places.judge_database(principal, existing.name, (DELETE,))

        def check() -> None:
            judge()
            judge_deletion()

        return check

    def _check_namespace(
        self, principal: access_model.Principal, database: str
    ) -> table_buckets.CheckNamespace:
        """Return the check that principal may drop a schema of a database."""

        def check(namespace: idents.Namespace) -> None:
            self._places.judge_namespace(principal, database, namespace, "DeleteNamespace")()

        return check
