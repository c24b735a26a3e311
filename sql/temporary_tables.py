"""engine: temporary tables: their hidden table bucket, which lives as long as their session.

A temporary table is an Iceberg table like any other, in a table bucket that no door but SQL leads
to. The bucket is created with the session's first temporary table. It is deleted when the session
ends, at the latest by the next start of the server, and frees every row and file of its tables.
Dropping one table frees its files at once, since no other table can reference them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from catalog import errors as catalog_errors
from catalog import files, idents, namespaces, receipts, tables
from sql import errors, places, sessions, temporary_names
from storage import buckets, model
from storage import errors as storage_errors
from storage import names as storage_names

GONE = (
    catalog_errors.NoSuchWarehouse,
    catalog_errors.NoSuchTable,
    storage_errors.NoSuchBucket,
)


class TemporaryTables:
    """Creates and deletes the table buckets of sessions. Sessions hold their names."""

    def __init__(
        self,
        *,
        buckets: buckets.Buckets,
        files: files.Files,
        namespaces: namespaces.Namespaces,
        tables: tables.Tables,
        region: str,
        new_id: model.NewId,
    ) -> None:
        self._buckets = buckets
        self._files = files
        self._namespaces = namespaces
        self._tables = tables
        self._region = region
        self._new_id = new_id
        self._creating = asyncio.Lock()
        self._open: set[str] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._log = logging.getLogger("boathouse.sql.temporary")

    async def prepare(self, session: sessions.Session, schema: places.Schema) -> places.Schema:
        """Return where the temporary tables of a schema lie; create it if it does not exist."""
        async with self._creating:
            if session.temporary_bucket is None:
                session.temporary_bucket = await self._create()
            bucket = session.temporary_bucket
            if session.is_closed:  # meanwhile; nothing else would delete the bucket
                session.temporary_bucket = None
                await self._delete(bucket)
                raise errors.session_gone()
        home = temporary_names.namespace(schema.database, schema.name)
        with contextlib.suppress(catalog_errors.NamespaceAlreadyExists):
            await self._namespaces.create(bucket, home, by=session.principal.arn, via="sql")
        return places.Schema(database=bucket, name=home[0], namespace=home)

    async def _create(self) -> str:
        suffix = self._new_id()
        try:
            info = await self._buckets.create_hidden(suffix, region=self._region)
        except BaseException:  # a cancelled statement's bucket may exist, and no session has it
            self.end(storage_names.hidden(suffix))
            raise
        self._open.add(info.name)
        return info.name

    async def aside(self, session: sessions.Session, ident: idents.TableIdent) -> idents.TableIdent:
        """Return a free name beside a temporary table, which no statement can name."""
        with contextlib.suppress(catalog_errors.NamespaceAlreadyExists):
            await self._namespaces.create(
                ident.table_bucket, temporary_names.ASIDE, by=session.principal.arn, via="sql"
            )
        return idents.TableIdent(
            table_bucket=ident.table_bucket, namespace=temporary_names.ASIDE, name=self._new_id()
        )

    async def drop(
        self, ident: idents.TableIdent, *, by: str, receipt: receipts.Receipt | None
    ) -> None:
        """Drop a temporary table and free its files. Raises NoSuchTable."""
        pointer = await self._tables.drop(ident, purge=True, by=by, via="sql", receipt=receipt)
        with contextlib.suppress(*GONE):  # the session has ended
            await self._files.remove_all(pointer.location, table_bucket=ident.table_bucket)

    async def drop_schema(self, session: sessions.Session, schema: places.Schema) -> None:
        """Drop the session's temporary tables of a schema that was dropped."""
        bucket = session.temporary_bucket
        if bucket is None:
            return
        home = temporary_names.namespace(schema.database, schema.name)
        with contextlib.suppress(catalog_errors.NoSuchNamespace, *GONE):
            for ident in self._tables.list(bucket, home):
                await self.drop(ident, by=session.principal.arn, receipt=None)

    def end(self, bucket: str) -> None:
        """Delete, in the background, the bucket of a session that has ended."""
        task = asyncio.get_running_loop().create_task(self._delete(bucket))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """Delete the buckets of all sessions: no session's temporary tables outlive the server."""
        await asyncio.gather(*self._ending)
        for bucket in tuple(self._open):
            await self._delete(bucket)

    async def _delete(self, bucket: str) -> None:
        try:
            await self._buckets.delete(bucket, discard=True)
        except storage_errors.NoSuchBucket:
            pass
        except storage_errors.StorageError:
            self._log.exception("temporary tables are left to the next start")
            return
        self._open.discard(bucket)
