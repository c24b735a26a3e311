"""engine: stages and file formats: their definitions, and the files of stages.

A stage is a folder of the general bucket `boathouse-stages`, named by an id that no other stage
gets: `named/<id>/`, `users/<id>/` or `tables/<id>/`. A temporary stage belongs to its session, and
ends with it. Dropping a stage hides its files at once; a sweep removes them, and goes on for as
long as keys for uploads hold that the stage gave out.

The right to a stage is the right to what it belongs to: a user's stage is the user's own; a table's
is read and written with the rights to read and write the table; a named one is read by those who
may see its schema, and written by those who may create tables in it. Uploads and downloads use keys
that reach the stage's folder alone, and end with the credential of the session's login.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from catalog import access as catalog_access
from catalog import commits, idents, namespace_restores, receipts, records, rights, tables
from catalog import errors as catalog_errors
from catalog import store as catalog_store
from server.access import errors as access_errors
from server.access import model as access_model
from server.access import principals, tokens
from sql import (
    errors,
    fileformats,
    limits,
    listings,
    outcomes,
    places,
    replays,
    sessions,
    stagerows,
    table_stages,
    transfers,
)
from sql.dialect import names, operations
from storage import batch, blobs, buckets, objects, removals
from storage import errors as storage_errors
from storage import model as storage_model

BUCKET: Final = table_stages.BUCKET
QUERY_ID: Final = "boathouse-query-id"
"""User metadata of a file that COPY INTO a stage has stored: the statement's id."""
SWEPT_AT_ONCE: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class StageServices:
    """What stages need beside the catalog. root: the principal whose rights the keys narrow."""

    objects: objects.Objects
    buckets: buckets.Buckets
    root: access_model.Principal
    ring: tokens.KeyRing
    region: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A stage that a statement may use.

    prefix: of its files' keys; ends in a slash. shown: what stands before its files' names in
    listings. recheck: raises AccessDenied if the right is gone. table_uuid: of the permanent table
    whose stage it is, or "". table: whose stage it is.
    """

    prefix: str
    shown: str
    file_format: fileformats.FileFormat | None
    recheck: Callable[[], None]
    table_uuid: str = ""
    table: places.NamedTable | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Home:
    """The schema of a stage or a file format."""

    schema: places.Schema
    place: records.Place
    namespace_uuid: str

    def key(self, object_type: operations.StagingType, name: str, session_id: int) -> bytes:
        return stagerows.key(
            object_type,
            session_id=session_id,
            bucket_id=self.place.bucket_id,
            namespace_uuid=self.namespace_uuid,
            name=name,
        )


LIST_COLUMNS: Final = (
    outcomes.Column(name="name", type="text"),
    outcomes.Column(name="size", type="fixed", precision=38, scale=0),
    outcomes.Column(name="md5", type="text"),
    outcomes.Column(name="last_modified", type="text"),
)
REMOVE_COLUMNS: Final = (
    outcomes.Column(name="name", type="text"),
    outcomes.Column(name="result", type="text"),
)


class Stages:
    """Stages and file formats. Stateless but for the sweep that runs."""

    def __init__(
        self,
        *,
        store: catalog_store.CatalogStore,
        access: catalog_access.Access,
        places: places.Places,
        tables: tables.Tables,
        replays: replays.Replays,
        services: StageServices,
        of_tables: table_stages.TableStages,
    ) -> None:
        self._store = store
        self._access = access
        self._places = places
        self._tables = tables
        self._replays = replays
        self._services = services
        self._objects = services.objects
        self._of_tables = of_tables
        self._sweeping: asyncio.Task[None] | None = None
        self._log = logging.getLogger("boathouse.sql.stages")

    # Definitions

    async def create_stage(
        self, session: sessions.Session, statement: operations.CreateStage, *, query_id: str
    ) -> outcomes.Outcome:
        """Create a stage; raises SqlError."""
        file_format = self.format_of(session, statement.file_format, base=None)
        return await self._create(
            session,
            statement,
            "stage",
            fileformats.FileFormat(type="CSV") if file_format is None else file_format,
            query_id,
            has_format=file_format is not None,
        )

    async def create_format(
        self, session: sessions.Session, statement: operations.CreateFileFormat, *, query_id: str
    ) -> outcomes.Outcome:
        """Create a file format; raises SqlError."""
        parsed = fileformats.parse(statement.options)
        return await self._create(
            session, statement, "file format", parsed, query_id, has_format=True
        )

    async def _create(
        self,
        session: sessions.Session,
        statement: operations.CreateStage | operations.CreateFileFormat,
        object_type: operations.StagingType,
        file_format: fileformats.FileFormat,
        query_id: str,
        *,
        has_format: bool,
    ) -> outcomes.Outcome:
        ident = statement.name[-1]
        if len(ident.stored.encode(errors="replace")) > stagerows.NAME_BYTES_MAX:
            raise errors.invalid_identifier(ident.folded[:100])
        with self._places.view(session.principal) as catalog:
            home = self._home(session, statement.name, catalog, exactly=True)
        demands = self._demands(home, writes=not statement.temporary)
        self._check(session, demands, home, statement.name)
        session_id = session.id if statement.temporary else stagerows.PERMANENT
        key = home.key(object_type, ident.stored, session_id)
        row = stagerows.StagingRow(
            object_id=self._store.new_id(),
            name=ident.stored,
            table_bucket=home.schema.database,
            namespace=home.schema.namespace,
            namespace_uuid=home.namespace_uuid,
            session_id=session_id,
            owner=session.principal.arn,
            created_at_ms=self._store.now_ms(),
            comment=statement.comment,
            format_type=file_format.type if has_format else "",
            format_options=dict(file_format.options) if has_format else {},
            query_id=query_id,
        )

        def decide(reading: batch.Reading) -> batch.Decided[str]:
            self._access.recheck(session.principal, demands)
            self._check_home(reading, home)
            existing = reading.get(stagerows.STORE, key)
            earlier = None
            if existing is not None:
                earlier = stagerows.decode(existing, stagerows.StagingRow)
                if earlier.query_id == query_id:
                    return batch.Decided(result="created")
                if statement.if_not_exists:
                    return batch.Decided(result="exists")
                if not statement.replace:
                    raise errors.already_exists("Object", ident.folded)
            elif _is_full(reading, key[: -len(ident.stored.encode(errors="surrogatepass"))]):
                raise errors.resources_exhausted(
                    f"a schema has at most {limits.STAGES_MAX} stages, and as many of each session"
                )
            writes: list[batch.Write] = [
                batch.Put(store=stagerows.STORE, key=key, value=stagerows.encode(row))
            ]
            if earlier is not None and object_type == "stage":
                writes.append(self._dropped(earlier))
            return batch.Decided(result="created", batch=batch.Batch(writes=tuple(writes)))

        result = await self._decide(decide)
        if result == "exists":
            return outcomes.status(f"{ident.folded} already exists, statement succeeded.")
        word = "Stage area" if object_type == "stage" else "File format"
        return outcomes.status(f"{word} {ident.folded} successfully created.")

    async def alter(
        self, session: sessions.Session, statement: operations.AlterStaging
    ) -> outcomes.Outcome:
        """Change a stage's or a file format's comment or format; raises SqlError.

        Changes of others meanwhile stay: the change is made to the row as it is then.
        """
        done = outcomes.status("Statement executed successfully.")
        object_type, ident = statement.object_type, statement.name[-1]
        missing = errors.does_not_exist(object_type.title(), ident.folded)
        try:
            with self._places.view(session.principal) as catalog:
                home = self._home(session, statement.name, catalog, exactly=True)
            row = self._find(session, home, object_type, ident)
            if row is None:
                raise missing
            demands = self._demands(home, writes=row.session_id == stagerows.PERMANENT)
            self._check(session, demands, home, statement.name)
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return done
            raise
        of_stage = None
        if statement.file_format is not None:
            of_stage = self.format_of(session, statement.file_format, base=None)
        key = home.key(object_type, row.name, row.session_id)

        def decide(reading: batch.Reading) -> batch.Decided[None]:
            self._access.recheck(session.principal, demands)
            self._check_home(reading, home)
            existing = reading.get(stagerows.STORE, key)
            if existing is None:
                raise missing
            current = stagerows.decode(existing, stagerows.StagingRow)
            if statement.comment is not None:
                current = msgspec.structs.replace(current, comment=statement.comment)
            changed = of_stage
            if statement.options:
                if "TYPE" in statement.options:
                    raise errors.unsupported("ALTER FILE FORMAT ... SET TYPE")
                changed = fileformats.parse(statement.options, base=_format_of(current))
            if changed is not None:
                current = msgspec.structs.replace(
                    current, format_type=changed.type, format_options=dict(changed.options)
                )
            put = batch.Put(store=stagerows.STORE, key=key, value=stagerows.encode(current))
            return batch.Decided(result=None, batch=batch.Batch(writes=(put,)))

        await self._decide(decide)
        return done

    async def drop(
        self, session: sessions.Session, statement: operations.DropStaging, *, query_id: str
    ) -> outcomes.Outcome:
        """Drop a stage or a file format; raises SqlError. A repeated request drops nothing."""
        shown = statement.name[-1].folded
        status = f"{shown} successfully dropped."
        try:
            with self._places.view(session.principal) as catalog:
                home = self._home(session, statement.name, catalog, exactly=True)
            receipt = self._replays.receipt_in(
                home.place.bucket_id, query_id, by=session.principal.arn
            )
            if self._replays.is_done(receipt):
                return outcomes.status(status)
            row = self._find(session, home, statement.object_type, statement.name[-1])
            if row is None:
                raise errors.does_not_exist(statement.object_type.title(), shown)
            demands = self._demands(home, writes=row.session_id == stagerows.PERMANENT)
            self._check(session, demands, home, statement.name)
        except errors.SqlError as error:
            if statement.if_exists and error.code == "002003":
                return outcomes.status(
                    f"Drop statement executed successfully ({shown} already dropped)."
                )
            raise
        key = home.key(statement.object_type, row.name, row.session_id)
        dropped = row

        def decide(reading: batch.Reading) -> batch.Decided[None]:
            self._access.recheck(session.principal, demands)
            writes: list[batch.Write] = []
            existing = reading.get(stagerows.STORE, key)
            if existing == stagerows.encode(dropped):
                writes.append(batch.Delete(store=stagerows.STORE, key=key))
                if statement.object_type == "stage":
                    writes.append(self._dropped(dropped))
            if receipts.find(reading, receipt.key, now_ms=receipt.now_ms) is not None:
                return batch.Decided(result=None)  # the first request was under way
            writing = batch.Batch(writes=tuple(writes), makes_room=True)
            storing = receipt.plan()
            return batch.Decided(result=None, batch=batch.merge((writing, storing)))

        await self._decide(decide, makes_room=True)
        self.sweep_soon(None)
        return outcomes.status(status)

    def describe(
        self, session: sessions.Session, statement: operations.DescribeStaging
    ) -> outcomes.Outcome:
        """Return DESCRIBE's rows; raises SqlError."""
        row = self._visible(session, statement.object_type, statement.name)
        file_format = _format_of(row)
        rows: list[tuple[str, ...]] = []
        columns: tuple[str, ...]
        if statement.object_type == "file format":
            assert file_format is not None
            columns = ("property", "property_type", "property_value", "property_default")
            rows += fileformats.describe(file_format)
        else:
            columns = (
                "parent_property",
                "property",
                "property_type",
                "property_value",
                "property_default",
            )
            described = fileformats.describe(file_format or fileformats.FileFormat())
            rows += [("STAGE_FILE_FORMAT", *each) for each in described]
            rows.append(("STAGE_LOCATION", "URL", "String", "", ""))
            rows.append(("DIRECTORY", "ENABLE", "Boolean", "false", "false"))
        return outcomes.Outcome(
            columns=tuple(outcomes.Column(name=name, type="text") for name in columns),
            rows=rows,
            statement_type_id=outcomes.StatementType.DESCRIBE,
        )

    def listed(
        self,
        object_type: operations.StagingType,
        session: sessions.Session,
        schemas: Sequence[tuple[str, idents.Namespace]],
        *,
        count_max: int,
    ) -> list[listings.ListedStaging]:
        """Return stages or file formats of schemas that the caller may see, at most count_max."""
        listed: list[listings.ListedStaging] = []
        with self._store.index.view() as view:
            for database, namespace in schemas:
                sees = self._access.on_namespace(database, namespace, "GetNamespace")
                if not namespace or not self._access.permits(session.principal, (sees,)):
                    continue
                place = self._store.place(database, view)
                parent = self._store.find_namespace(view, place, namespace)
                if parent is None:
                    continue
                for session_id in (session.id, stagerows.PERMANENT):
                    start = stagerows.prefix(
                        object_type,
                        session_id=session_id,
                        bucket_id=place.bucket_id,
                        namespace_uuid=parent.row.object_uuid,
                    )
                    stop = stagerows.stop_after(start)
                    for _, value in view.scan(stagerows.STORE, start, stop):
                        row = stagerows.decode(value, stagerows.StagingRow)
                        listed.append(
                            listings.ListedStaging(
                                row=row,
                                region=self._services.region,
                                file_format=_format_of(row),
                            )
                        )
                        if len(listed) >= count_max:
                            return listed
        return listed

    # What statements use

    def stage(
        self, session: sessions.Session, location: operations.StageLocation, *, writes: bool
    ) -> Stage:
        """Return the stage of a location, with the right to read or to write it.

        Raises SqlError if it is missing, hidden, or not the caller's to use.
        """
        principal = session.principal
        if location.owner == "user":
            return Stage(
                prefix=f"users/{_user_id(principal)}/",
                shown="",
                file_format=None,
                recheck=lambda: None,
            )
        if location.owner == "table":
            return self._table_stage(session, location, writes=writes)
        with self._places.view(principal) as catalog:
            home = self._home(session, location.name, catalog, exactly=writes)
        row = self._find(session, home, "stage", location.name[-1])
        missing = errors.does_not_exist("Stage", names.dotted(location.name))
        if row is None:
            raise missing
        is_own = row.session_id != stagerows.PERMANENT
        demands = self._demands(home, writes=writes and not is_own)
        self._check(session, demands, home, location.name)
        return Stage(
            prefix=f"named/{row.object_id}/",
            shown=f"{row.name}/",
            file_format=_format_of(row),
            recheck=self._access.rechecking(principal, demands),
        )

    def _table_stage(
        self, session: sessions.Session, location: operations.StageLocation, *, writes: bool
    ) -> Stage:
        actions = rights.COMMIT_ACTIONS if writes else rights.READ_ACTIONS
        with self._places.view_of(session) as catalog:
            table = catalog.table(
                location.name,
                database=session.database,
                schema=session.schema,
                exactly=writes,
                actions=actions,
            )
        demands: tuple[access_model.Demand, ...] = ()
        if not table.is_temporary:
            demands = self._access.on_object(table.ident, table.pointer.object_uuid, actions)
        return Stage(
            prefix=self._of_tables.prefix(table.pointer.object_uuid),
            shown="",
            file_format=None,
            recheck=self._access.rechecking(session.principal, demands),
            table_uuid="" if table.is_temporary else table.pointer.object_uuid,
            table=table,
        )

    async def format_in(
        self,
        session: sessions.Session,
        stage: Stage,
        clause: operations.FormatClause,
        *,
        target: fileformats.FileFormat | None = None,
    ) -> fileformats.FileFormat:
        """Return the format of a statement's files in a stage: of the first of these that has one.

        They are the clause, the stage or the table whose stage it is, and the target, which is the
        format of the table that is loaded. Without one it is CSV. Raises SqlError.
        """
        base = stage.file_format
        if base is None and stage.table is not None and not clause.name:
            base = await self._format_of_table(stage.table)
        return self.format_of(session, clause, base=base or target) or fileformats.FileFormat()

    async def _format_of_table(self, table: places.NamedTable) -> fileformats.FileFormat | None:
        if table.pointer.metadata_location is None:
            return None
        loaded = await self._tables.fetch_at(table.ident, table.pointer)
        return fileformats.of_table(loaded.metadata.properties)

    def format_of(
        self,
        session: sessions.Session,
        clause: operations.FormatClause,
        *,
        base: fileformats.FileFormat | None,
    ) -> fileformats.FileFormat | None:
        """Return the format of a clause; base without a clause. Raises SqlError.

        base: the stage's own format, which options of the same type refine.
        """
        if clause.name:
            row = self._visible(session, "file format", clause.name)
            return _format_of(row)
        if clause.options:
            return fileformats.parse(clause.options, base=base)
        return base

    def as_property(
        self, session: sessions.Session, clause: operations.FormatClause
    ) -> tuple[str, str]:
        """Return the property of a table that holds a clause's format; raises SqlError."""
        file_format = self.format_of(session, clause, base=None) or fileformats.FileFormat()
        return fileformats.PROPERTY, fileformats.stored_text(file_format)

    async def files(
        self,
        stage: Stage,
        path: str,
        *,
        pattern: str | None = None,
        listed: Sequence[str] | None = None,
    ) -> list[storage_model.ObjectInfo]:
        """Return the files of a stage whose keys begin with path, in their order; raises SqlError.

        listed: names below path, each of which must exist. pattern: a regular expression for the
        whole name below the stage.
        """
        if listed is not None:
            folder = stage.prefix + path
            if path and not path.endswith("/"):
                folder += "/"
            return [self._head(stage, folder, name) for name in dict.fromkeys(listed)]
        try:
            infos = await self._listed(stage.prefix + path)
        except storage_errors.NoSuchBucket:
            return []
        if pattern is not None:
            infos = _matching(infos, stage, pattern)
        if len(infos) > limits.STAGED_FILES_MAX:
            raise errors.too_complex(f"more than {limits.STAGED_FILES_MAX:,} files of a stage")
        return infos

    async def _listed(self, prefix: str) -> list[storage_model.ObjectInfo]:
        infos: list[storage_model.ObjectInfo] = []
        after = ""
        while True:
            page = self._objects.list(BUCKET, prefix=prefix, start_after=after)
            infos += [info for info in page.objects if not info.key.endswith("/")]
            if page.next_after is None:
                return infos
            if len(infos) > limits.STAGED_FILES_LISTED_IN_ALL_MAX:
                raise errors.too_complex(
                    f"more than {limits.STAGED_FILES_LISTED_IN_ALL_MAX:,} files below a path"
                )
            after = page.next_after
            await asyncio.sleep(0)

    def _head(self, stage: Stage, folder: str, name: str) -> storage_model.ObjectInfo:
        segments = name.split("/")
        missing = errors.staged_file_missing(name[:200])
        if any(segment in ("", ".", "..") for segment in segments):
            raise missing
        try:
            return self._objects.head(BUCKET, folder + name)
        except (
            storage_errors.NoSuchKey,
            storage_errors.NoSuchBucket,
            storage_errors.InvalidKey,
        ):
            raise missing from None

    # Statements about files

    async def put(
        self, session: sessions.Session, statement: operations.PutFiles
    ) -> outcomes.Outcome:
        """Return where the client uploads its files; raises SqlError."""
        stage = self.stage(session, statement.location, writes=True)
        await self.begin_writing(stage)
        path = statement.location.path
        if path and not path.endswith("/"):
            path += "/"
        return self._transfer(
            session,
            stage,
            command="UPLOAD",
            prefix=stage.prefix + path,
            sources=(statement.local,),
            parallel=statement.parallel,
            auto_compress=statement.auto_compress,
            source_compression=statement.source_compression,
            overwrite=statement.overwrite,
        )

    async def get(
        self, session: sessions.Session, statement: operations.GetFiles
    ) -> outcomes.Outcome:
        """Return where the client downloads files; raises SqlError."""
        stage = self.stage(session, statement.location, writes=False)
        infos = await self.files(stage, statement.location.path, pattern=statement.pattern)
        return self._transfer(
            session,
            stage,
            command="DOWNLOAD",
            prefix=stage.prefix,
            sources=tuple(info.key.removeprefix(stage.prefix) for info in infos),
            local=statement.local,
            parallel=statement.parallel,
        )

    def _transfer(
        self, session: sessions.Session, stage: Stage, *, command: Any, prefix: str, **more: Any
    ) -> outcomes.Outcome:
        now_ms = self._store.now_ms()
        uploads = command == "UPLOAD"
        keys = tokens.vend(
            self._services.ring,
            subject=principals.subject_of(self._services.root),
            token_id=self._store.new_id(),
            scopes=(access_model.Scope(bucket=BUCKET, prefix=stage.prefix, writable=uploads),),
            now_ms=now_ms,
            lifetime_seconds=transfers.SECONDS,
            # No policy names the bucket of stages, so the keys are root's; they end with the login.
            extra={
                **principals.claims_of(self._services.root),
                **principals.login_claims(session.login),
            },
        )
        arguments = {"local": "", **more}
        transfer = transfers.Transfer(
            command=command,
            style=transfers.style_of(session.client_app_id, session.client_app_version),
            bucket=BUCKET,
            prefix=prefix,
            keys=keys,
            region=self._services.region,
            signed_at_ms=now_ms,
            **arguments,
        )
        statement_type = outcomes.StatementType.PUT if uploads else outcomes.StatementType.GET
        return outcomes.Outcome(
            columns=(outcomes.Column(name="status", type="text"),),
            rows=(),
            statement_type_id=statement_type,
            transfer=transfer,
        )

    async def list_files(
        self, session: sessions.Session, statement: operations.ListFiles
    ) -> outcomes.Outcome:
        """Return LIST's rows; raises SqlError."""
        stage = self.stage(session, statement.location, writes=False)
        infos = await self.files(stage, statement.location.path, pattern=statement.pattern)
        return outcomes.Outcome(
            columns=LIST_COLUMNS,
            rows=[
                (shown_name(stage, info), info.size_bytes, info.etag, _http_date(info))
                for info in infos
            ],
            statement_type_id=outcomes.StatementType.LIST,
        )

    async def remove_files(
        self, session: sessions.Session, statement: operations.RemoveFiles
    ) -> outcomes.Outcome:
        """Remove files; raises SqlError."""
        stage = self.stage(session, statement.location, writes=True)
        infos = await self.files(stage, statement.location.path, pattern=statement.pattern)
        with places.refused_as_sql():
            stage.recheck()
        removed = await self.remove(infos)
        return outcomes.Outcome(
            columns=REMOVE_COLUMNS,
            rows=[(shown_name(stage, info), "removed") for info in removed],
            statement_type_id=outcomes.StatementType.REMOVE,
        )

    async def store(
        self,
        stage: Stage,
        paths_by_name: Mapping[str, Path],
        *,
        blob_store: blobs.Blobs,
        owner: str,
        overwrites: bool,
        query_id: str,
    ) -> None:
        """Store files of a statement; raises SqlError if one of them exists and may not change.

        After any failure the new files that were stored before are removed again; those that took
        the place of another stay. query_id: a file that the same statement stored before a restart
        is replaced.
        """
        with places.refused_as_sql():
            stage.recheck()
        attributes = storage_model.ObjectAttributes(owner=owner, user_metadata={QUERY_ID: query_id})
        bodies: dict[str, storage_model.Received] = {}
        added: list[storage_model.ObjectInfo] = []
        try:
            for name, path in paths_by_name.items():  # a disk that is full changes no file
                bodies[name] = await blob_store.adopt(path)
            for name in paths_by_name:
                key = stage.prefix + name
                is_new = not overwrites or self._stored(key) is None
                condition = storage_model.Precondition()
                if not overwrites:
                    condition = self._absent_or_of(key, query_id)
                info = await self._objects.put(
                    BUCKET,
                    key,
                    bodies.pop(name),
                    attributes=attributes,
                    precondition=condition,
                )
                if is_new:
                    added.append(info)
        except BaseException as error:
            await commits.to_the_end(self._take_back(added, bodies.values(), blob_store))
            if isinstance(error, storage_errors.PreconditionFailed):
                raise errors.unload_exists(name) from None
            raise

    async def _take_back(
        self,
        added: Sequence[storage_model.ObjectInfo],
        unnamed: Iterable[storage_model.Received],
        blob_store: blobs.Blobs,
    ) -> None:
        for received in unnamed:
            await blob_store.discard(received)
        await self.remove(added)

    def _absent_or_of(self, key: str, query_id: str) -> storage_model.Precondition:
        """Return the condition that a file does not exist, or is one that the statement stored."""
        info = self._stored(key)
        if info is None:
            return storage_model.Precondition(if_none_match=("*",))
        if info.attributes.user_metadata.get(QUERY_ID) != query_id:
            return storage_model.Precondition(if_none_match=("*",))
        return storage_model.Precondition(if_match=(info.etag,))

    def _stored(self, key: str) -> storage_model.ObjectInfo | None:
        try:
            return self._objects.head(BUCKET, key)
        except (storage_errors.NoSuchKey, storage_errors.NoSuchBucket):
            return None

    async def remove(
        self, infos: Sequence[storage_model.ObjectInfo]
    ) -> list[storage_model.ObjectInfo]:
        """Remove files that are still those that were listed; return those that it has removed."""
        removed: list[storage_model.ObjectInfo] = []
        for start in range(0, len(infos), SWEPT_AT_ONCE):
            page = infos[start : start + SWEPT_AT_ONCE]
            if await self._remove(page):
                removed += page
            else:  # one of them has changed: all but those
                removed += [info for info in page if await self._remove((info,))]
        return removed

    async def _remove(self, infos: Sequence[storage_model.ObjectInfo]) -> bool:
        """Remove all these files, or none if one of them has changed or is gone."""
        wanted = [
            removals.Removal(
                key=info.key, precondition=storage_model.Precondition(if_match=(info.etag,))
            )
            for info in infos
        ]
        try:
            outcomes_of_files = await self._objects.delete_many(BUCKET, wanted)
        except (storage_errors.PreconditionFailed, storage_errors.NoSuchKey):
            return False
        for outcome in outcomes_of_files:
            if isinstance(outcome, storage_errors.StorageError):
                raise outcome
        return True

    async def purge(self, stage: Stage, infos: Sequence[storage_model.ObjectInfo]) -> None:
        """Remove files that a table has loaded, if the stage's right to be written still holds."""
        with places.refused_as_sql():
            stage.recheck()
        await self.remove(infos)

    async def begin_writing(self, stage: Stage) -> None:
        """Create what storing files in a stage needs, if it does not exist; raises SqlError."""
        await self._make_bucket()
        if stage.table_uuid:
            await self._of_tables.keep(stage.table_uuid)

    def receipt(self, session: sessions.Session, query_id: str) -> receipts.Receipt:
        """Return the receipt of a statement that stores files; raises NoSuchBucket."""
        bucket_id = self._services.buckets.get(BUCKET).bucket_id
        return self._replays.receipt_in(bucket_id, query_id, by=session.principal.arn)

    def reply(self, receipt: receipts.Receipt) -> bytes | None:
        """Return the answer that was stored for a receipt, None without one."""
        return self._replays.reply(receipt)

    async def keep_reply(self, receipt: receipts.Receipt, reply: object) -> None:
        """Store the answer of a statement, as JSON, for its repeated request."""
        with contextlib.suppress(storage_errors.ExpectationFailed):
            await self._store.index.commit(receipt.plan(reply=reply))

    async def _make_bucket(self) -> None:
        account = self._services.root.account_id
        try:
            info = self._services.buckets.get(BUCKET)
        except storage_errors.NoSuchBucket:
            try:
                info = await self._services.buckets.create(
                    BUCKET, bucket_type="general", owner=account, region=self._services.region
                )
            except storage_errors.BucketAlreadyExists:
                info = self._services.buckets.get(BUCKET)
        if info.type != "general" or info.owner != account:
            raise errors.unsupported(f"stages, because the bucket {BUCKET} belongs to others")

    # Names and rights

    def _home(
        self,
        session: sessions.Session,
        name: names.Name,
        catalog: places.CatalogView,
        *,
        exactly: bool,
    ) -> _Home:
        schema = catalog.schema_of(
            name, database=session.database, schema=session.schema, exactly=exactly
        )
        if not schema.namespace:
            raise errors.unsupported("stages and file formats in INFORMATION_SCHEMA")
        hidden = catalog.no_table(schema, name, object_type="Schema")
        try:
            place = self._store.place(schema.database)
        except catalog_errors.NoSuchWarehouse:
            raise hidden from None
        with self._store.index.view() as view:
            parent = self._store.find_namespace(view, place, schema.namespace)
        if parent is None:
            raise hidden
        return _Home(schema=schema, place=place, namespace_uuid=parent.row.object_uuid)

    def _check_home(self, reading: batch.Reading, home: _Home) -> None:
        parent = self._store.find_namespace(reading, home.place, home.schema.namespace)
        if parent is None or parent.row.object_uuid != home.namespace_uuid:
            raise errors.does_not_exist("Schema", names.shown(home.schema.name))

    def _demands(self, home: _Home, *, writes: bool) -> tuple[access_model.Demand, ...]:
        database, namespace = home.schema.database, home.schema.namespace
        if writes:
            return (self._access.on_namespace(database, namespace, "CreateTable"),)
        return (self._access.on_namespace(database, namespace, "GetNamespace"),)

    def _check(
        self,
        session: sessions.Session,
        demands: Sequence[access_model.Demand],
        home: _Home,
        name: names.Name,
    ) -> None:
        """Raise SqlError 003001 without the right; 002003 where the schema is hidden."""
        try:
            self._access.check(session.principal, demands)
        except access_errors.AccessDenied as denied:
            seeing = (
                self._access.on_namespace(home.schema.database, home.schema.namespace, action)
                for action in ("GetNamespace", "ListTables")
            )
            if not any(self._access.permits(session.principal, (each,)) for each in seeing):
                raise errors.does_not_exist("Object", names.dotted(name)) from None
            raise errors.not_authorized(str(denied)) from None

    def _find(
        self,
        session: sessions.Session,
        home: _Home,
        object_type: operations.StagingType,
        ident: names.Ident,
    ) -> stagerows.StagingRow | None:
        """Return an object of the session, or else a permanent one."""
        with self._store.index.view() as view:
            for session_id in (session.id, stagerows.PERMANENT):
                for spelling in names.spellings(ident):
                    value = view.get(
                        stagerows.STORE, home.key(object_type, spelling, session_id)[:511]
                    )
                    if value is not None:
                        return stagerows.decode(value, stagerows.StagingRow)
        return None

    def is_temporary(
        self,
        session: sessions.Session,
        statement: operations.AlterStaging | operations.DropStaging,
    ) -> bool:
        """Return whether a name is of a temporary object of the session."""
        try:
            with self._places.view(session.principal) as catalog:
                home = self._home(session, statement.name, catalog, exactly=True)
        except errors.SqlError:
            return False
        row = self._find(session, home, statement.object_type, statement.name[-1])
        return row is not None and row.session_id != stagerows.PERMANENT

    def _visible(
        self, session: sessions.Session, object_type: operations.StagingType, name: names.Name
    ) -> stagerows.StagingRow:
        with self._places.view(session.principal) as catalog:
            home = self._home(session, name, catalog, exactly=False)
        missing = errors.does_not_exist(object_type.title(), names.dotted(name))
        row = self._find(session, home, object_type, name[-1])
        self._check(session, self._demands(home, writes=False), home, name)
        if row is None:
            raise missing
        return row

    async def _decide(self, decision: batch.Decision[Any], *, makes_room: bool = False) -> Any:
        with places.refused_as_sql():
            return await self._store.index.decide(decision, makes_room=makes_room)

    def _dropped(self, row: stagerows.StagingRow) -> batch.Put:
        dropped = stagerows.DroppedRow(
            prefix=f"named/{row.object_id}/", dropped_at_ms=self._store.now_ms()
        )
        return batch.Put(
            store=stagerows.STORE,
            key=stagerows.dropped_key(row.object_id),
            value=stagerows.encode(dropped),
        )

    # The sweep

    def sweep_soon(self, is_known: Callable[[int], bool] | None) -> None:
        """Start a sweep, unless one runs. is_known: whether a session exists; None: skip these."""
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.get_running_loop().create_task(self._swept(is_known))

    async def stop(self) -> None:
        """End the sweep."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    async def _swept(self, is_known: Callable[[int], bool] | None) -> None:
        try:
            await self.sweep(is_known)
        except Exception:  # noqa: BLE001 - the next sweep tries again
            self._log.exception("the sweep of stages failed")

    async def sweep(self, is_known: Callable[[int], bool] | None) -> None:
        """Drop stages of ended sessions and of dropped schemas; remove files of dropped stages.

        The stage of a table is dropped with it. A table or schema that can be restored keeps its
        stages.
        """
        if is_known is not None:
            for object_type in ("stage", "file format"):
                await self._drop_orphans(object_type, is_known)
            await self._empty_table_stages()
        await self._empty_dropped()

    async def _drop_orphans(
        self, object_type: operations.StagingType, is_known: Callable[[int], bool]
    ) -> None:
        # There may be very many rows, so a thread looks at them.
        orphans = await asyncio.to_thread(self._orphans, object_type, is_known)
        for key, value, row in orphans:
            writes: tuple[batch.Write, ...] = (batch.Delete(store=stagerows.STORE, key=key),)
            if object_type == "stage":
                writes = (*writes, self._dropped(row))
            expects = (batch.Expect(store=stagerows.STORE, key=key, value=value),)
            try:
                await self._store.index.commit(
                    batch.Batch(expects=expects, writes=writes, makes_room=True)
                )
            except storage_errors.ExpectationFailed:
                continue

    def _orphans(
        self, object_type: operations.StagingType, is_known: Callable[[int], bool]
    ) -> list[tuple[bytes, bytes, stagerows.StagingRow]]:
        """Return some objects whose session is over, or whose schema neither exists nor can return.

        One view decides, so an UNDROP that comes later finds all objects of its schema.
        """
        start = stagerows.all_of(object_type)
        orphans: list[tuple[bytes, bytes, stagerows.StagingRow]] = []
        restorable: dict[int, frozenset[str]] = {}
        with self._store.index.view() as view:
            for key, value in view.scan(stagerows.STORE, start, stagerows.stop_after(start)):
                row = stagerows.decode(value, stagerows.StagingRow)
                session_id = stagerows.session_of(key)
                is_over = session_id != stagerows.PERMANENT and not is_known(session_id)
                if is_over or not self._has_home(view, row, restorable):
                    orphans.append((key, value, row))
                if len(orphans) >= SWEPT_AT_ONCE:
                    break
        return orphans

    def _has_home(
        self,
        view: batch.Reading,
        row: stagerows.StagingRow,
        restorable: dict[int, frozenset[str]],
    ) -> bool:
        """Return whether an object's schema exists or can be restored.

        restorable: by bucket id, the uuids of dropped namespaces; it is filled as needed.
        """
        try:
            place = self._store.place(row.table_bucket, view)
        except catalog_errors.NoSuchWarehouse:
            return False
        parent = self._store.find_namespace(view, place, tuple(row.namespace))
        if parent is not None and parent.row.object_uuid == row.namespace_uuid:
            return True
        if place.bucket_id not in restorable:
            restorable[place.bucket_id] = namespace_restores.kept_uuids(view, place)
        return row.namespace_uuid in restorable[place.bucket_id]

    async def _empty_dropped(self) -> None:
        start = stagerows.ALL_DROPPED
        with self._store.index.view() as view:
            dropped = [
                (key, value, stagerows.decode(value, stagerows.DroppedRow))
                for key, value in view.scan(stagerows.STORE, start, stagerows.stop_after(start))
            ]
        now_ms = self._store.now_ms()
        for key, value, row in dropped:
            await self._empty(row.prefix)
            if now_ms - row.dropped_at_ms > transfers.SECONDS * 1000:
                expects = (batch.Expect(store=stagerows.STORE, key=key, value=value),)
                writes = (batch.Delete(store=stagerows.STORE, key=key),)
                await self._store.index.commit(
                    batch.Batch(expects=expects, writes=writes, makes_room=True)
                )

    async def _empty(self, prefix: str) -> None:
        """Remove the files below a prefix, a page at a time; those that stay are the next sweep's.

        The listing goes on behind what stays, so that it ends.
        """
        after: str | None = ""
        while after is not None:
            try:
                page = self._objects.list(BUCKET, prefix=prefix, start_after=after)
            except storage_errors.NoSuchBucket:
                return
            after = page.next_after
            if page.objects:
                wanted = [removals.Removal(key=info.key) for info in page.objects]
                await self._objects.delete_many(BUCKET, wanted)

    async def _empty_table_stages(self) -> None:
        """Remove the files of the stages of tables that do not exist and cannot be restored.

        Keys for uploads may outlive their table, so each sweep looks at all folders again.
        """
        after: str | None = ""
        while after is not None:
            folders, after = await asyncio.to_thread(self._of_tables.folders_without_table, after)
            for folder in folders:
                await self._empty(folder)
        removing = await asyncio.to_thread(self._of_tables.plan_removals)
        if removing.writes:
            await self._store.index.commit(removing)


def _is_full(reading: batch.Reading, prefix: bytes) -> bool:
    """Return whether a schema has as many objects below a prefix as it may have."""
    rows = reading.scan(stagerows.STORE, prefix, stagerows.stop_after(prefix))
    return sum(1 for _ in itertools.islice(rows, limits.STAGES_MAX)) >= limits.STAGES_MAX


def shown_name(stage: Stage, info: storage_model.ObjectInfo) -> str:
    """Return a file's name as listings show it."""
    return stage.shown + info.key.removeprefix(stage.prefix)


def _format_of(row: stagerows.StagingRow) -> fileformats.FileFormat | None:
    if not row.format_type:
        return None
    options: Mapping[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in row.format_options.items()
    }
    return fileformats.FileFormat(type=row.format_type, options=options)


def _user_id(principal: access_model.Principal) -> str:
    """Return the folder of a user's stage: another user of the same name gets another one."""
    identity = f"{principal.account_id}/{principal.principal_id or principal.name.casefold()}"
    if principal.role_arn:
        identity += f"/{principal.role_arn}"
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def _matching(
    infos: Sequence[storage_model.ObjectInfo], stage: Stage, pattern: str
) -> list[storage_model.ObjectInfo]:
    """Return the files whose whole name below the stage matches.

    Arrow's regular expressions take time in proportion to the text, whatever the pattern is.
    """
    if len(pattern) > limits.STAGE_PATTERN_LENGTH_MAX:
        raise errors.bad_pattern(pattern[:100], "it is too long")
    if not infos:
        return []
    whole = f"^(?:{pattern})$"
    relative = pa.array([info.key.removeprefix(stage.prefix) for info in infos], pa.string())
    shown = pa.array([shown_name(stage, info) for info in infos], pa.string())
    try:
        matched: Any = pc.or_(
            pc.match_substring_regex(relative, whole), pc.match_substring_regex(shown, whole)
        )
    except pa.ArrowInvalid as error:
        raise errors.bad_pattern(pattern[:100], str(error)[:200]) from None
    return [info for info, is_match in zip(infos, matched.to_pylist(), strict=True) if is_match]


def _http_date(info: storage_model.ObjectInfo) -> str:
    moment = datetime.datetime.fromtimestamp(info.modified_at_ms / 1000, datetime.UTC)
    return moment.strftime("%a, %d %b %Y %H:%M:%S GMT")
