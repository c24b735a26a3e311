"""engine: tables: create, load, commit, drop, rename, register.

A table is a pointer to a metadata file. Every change of a table is one index transaction, which
replaces the pointer and writes the new file, the log record and all other rows of the change. A
commit is planned on the newest pointer and checks its requirements there, so a pointer that moved
is a conflict only if a requirement fails. Metadata files are named by uuids and never written
twice. A dropped table keeps its location and its files; only the sweep frees them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from catalog import (
    commit,
    commits,
    departures,
    errors,
    idents,
    loads,
    locations,
    owners,
    pointers,
    properties,
    protection,
    receipts,
    records,
    sites,
    store,
)
from catalog.metadata import creation, filenames, json_values
from storage import batch

STAGED_MS = 24 * 60 * 60 * 1000
"""How long a staged create reserves its name and location."""

FILES_CHECKED_AT_ONCE = 32
"""Files that are checked for rights between two turns of the event loop."""

METRICS_KEPT_MAX = 20
METRICS_BYTES_MAX = 64 * 1024

LoadedTable = commits.LoadedTable
TableChange = commits.TableChange
Also: TypeAlias = Callable[[str], batch.Batch]
"""Returns a Batch that is committed with a table's creation. Argument: the table's object uuid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsReport:
    """A client's report about a scan or a commit. report: the JSON that the client sent."""

    received_at_ms: int
    principal: str
    report: bytes


class Tables:
    """The tables of every table bucket. Stateless beside its store."""

    def __init__(self, *, store: store.CatalogStore) -> None:
        self._store = store
        self._commits = commits.Commits(store=store)
        self._pointers = pointers.Pointers(store=store, object_type="table")

    # Reading.

    async def fetch(self, ident: idents.TableIdent) -> LoadedTable:
        """Return a table. Raises NoSuchWarehouse, NoSuchTable, and as `fetch_at` does."""
        loaded = self.begin_fetch(ident)
        return loaded if isinstance(loaded, LoadedTable) else await loaded

    def begin_fetch(self, ident: idents.TableIdent) -> LoadedTable | Awaitable[LoadedTable]:
        """Return what `fetch` does at once if its metadata is in memory, or an awaitable of it."""
        with self._store.view() as view:
            place = self._store.place(ident.table_bucket, view)
            pointer = self._pointers.entry(view, place, ident).pointer
        if pointer.metadata_location is not None:
            file = self._store.cached_metadata(pointer.metadata_location, place=place)
            if file is not None:
                return LoadedTable(
                    ident=ident, pointer=pointer, metadata=file.table, data=file.data
                )
        return self._commits.fetched(place, ident, pointer)

    async def fetch_at(self, ident: idents.TableIdent, pointer: records.Pointer) -> LoadedTable:
        """Return a table as it was when its pointer was read.

        Large metadata is decoded in a child process. Raises TableWithoutMetadata,
        MetadataFileMissing, InvalidMetadata for a damaged file.
        """
        return await self._commits.fetched(self._store.place(ident.table_bucket), ident, pointer)

    def pointer(self, ident: idents.TableIdent) -> records.Pointer:
        """Return a table's pointer, metadata or not. Raises NoSuchWarehouse, NoSuchTable."""
        return self._pointers.read(ident)

    def place(self, ident: idents.TableIdent) -> records.Place:
        """Return where the rows of a table's bucket are. Raises NoSuchWarehouse."""
        return self._store.place(ident.table_bucket)

    def exists(self, ident: idents.TableIdent) -> bool:
        """Return whether the table exists. Raises NoSuchWarehouse."""
        place = self._store.place(ident.table_bucket)
        return self._store.newest_pointer(place, "table", ident) is not None

    def awaits_metadata(self, ident: idents.TableIdent) -> bool:
        """Return whether the table exists and was created without metadata and has none yet."""
        place = self._store.place(ident.table_bucket)
        entry = self._store.newest_pointer(place, "table", ident)
        return entry is not None and entry.pointer.metadata_location is None

    def list(self, table_bucket: str, namespace: idents.Namespace) -> list[idents.TableIdent]:
        """Return the tables of a namespace, in byte order. Raises NoSuchNamespace."""
        place = self._store.place(table_bucket)
        with self._store.view() as view:
            namespace_row = self._store.namespace(view, place, namespace)
            names = self._store.names(view, place, "table", namespace_row.row.namespace_id)
        return [
            idents.TableIdent(table_bucket=table_bucket, namespace=namespace, name=name)
            for name in names
        ]

    def names(
        self, table_bucket: str, namespace: idents.Namespace, *, after: str = ""
    ) -> Iterator[str]:
        """Yield the names of a namespace's tables, in steps. Raises NoSuchNamespace."""
        return self._store.names_in_steps(table_bucket, "table", namespace, after=after)

    def by_object_uuid(
        self, table_bucket: str, object_uuid: str
    ) -> tuple[idents.TableIdent, records.Pointer]:
        """Return the table with this uuid, under its present name. Raises NoSuchTable."""
        place = self._store.place(table_bucket)
        with self._store.view() as view:
            name = self._store.name_of_object(view, place, object_uuid)
            if name is None or name.object_type != "table":
                raise errors.NoSuchTable(f"Table does not exist: {object_uuid}")
            ident = idents.TableIdent(
                table_bucket=table_bucket,
                namespace=self._store.namespace_of(view, place, name.namespace_id),
                name=name.name,
            )
            return ident, self._pointers.entry(view, place, ident).pointer

    def taken(self, ident: idents.TableIdent, *, after: str = "") -> loads.LoadPage:
        """Return a page of the sources that a table has loaded.

        Raises NoSuchTable, InvalidPageToken.
        """
        place = self._store.place(ident.table_bucket)
        with self._store.view() as view:
            pointer = self._pointers.entry(view, place, ident).pointer
            return loads.page(view, place, pointer.object_uuid, after=after)

    def metrics(self, ident: idents.TableIdent) -> tuple[MetricsReport, ...]:
        """Return the newest reports of a table's clients, oldest first. Raises NoSuchTable."""
        place = self._store.place(ident.table_bucket)
        with self._store.view() as view:
            pointer = self._pointers.entry(view, place, ident).pointer
            prefix = records.object_prefix(place.bucket_id, pointer.object_uuid)
            rows = [
                records.decode(value, records.MetricsRow)
                for _, value in view.scan(batch.Store.METRICS, prefix, records.stop_after(prefix))
            ]
        return tuple(
            MetricsReport(
                received_at_ms=row.received_at_ms, principal=row.principal, report=row.report
            )
            for row in rows
        )

    # Writing.

    async def create(
        self,
        ident: idents.TableIdent,
        *,
        schema: Any,
        partition_spec: Any = None,
        sort_order: Any = None,
        location: str | None = None,
        base_path: str | None = None,
        properties: Mapping[str, str] | None = None,
        stage: bool = False,
        adopts: bool = False,
        by: str,
        via: str = "rest",
        permit: owners.Permit = owners.refuse,
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
        also: Also | None = None,
    ) -> LoadedTable:
        """Create a table. With stage, only reserve its name and location, and return the result.

        schema, partition_spec, sort_order: decoded JSON as the client sent it. base_path: where the
        table lies in its bucket if no location is given, with a suffix if that was used. adopts: a
        table of this name that was created without metadata gets its first metadata, and keeps its
        location and uuid. permit: called before a location is taken that has an owner or files.
        judge: called with the adopted or the new table; None for a caller with all rights.
        Raises InvalidName, InvalidLocation, InvalidProperty, NoSuchNamespace, TableAlreadyExists,
        ViewAlreadyExists, BadUpdate.
        """
        assert not (stage and also), "a staged create commits nothing else"
        idents.check_name(ident.name)
        place = self._store.place(ident.table_bucket)
        requested = None if sites.overrides(place, location) else location
        table_uuid = sites.hyphenated(self._store.new_id())
        object_uuid = sites.hyphenated(self._store.new_id())
        keys = self._pointers.keys(place, ident)
        large = json_values.has_more_values(
            (schema, partition_spec, sort_order, dict(properties or {})),
            commits.LARGE_CHANGE_VALUES,
        )

        async def plan() -> store.Planned[tuple[LoadedTable, ...]]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                site = self._commits.find_site(
                    view,
                    place,
                    ident,
                    requested=requested,
                    object_uuid=object_uuid,
                    now_ms=now_ms,
                    permit=permit,
                    reserved_until_ms=now_ms + STAGED_MS if stage else 0,
                    adopts=adopts,
                    base_path=base_path,
                )
            if judge is not None:
                judge(place, ident, None if site.entry is None else site.entry.pointer)
            metadata = await commits.run(
                creation.new_table,
                schema=schema,
                partition_spec=partition_spec,
                sort_order=sort_order,
                location=site.location,
                properties=properties,
                table_uuid=table_uuid,
                now_ms=now_ms,
                large=large,
            )
            commits.check_placement(metadata, place)
            step = commits.Step(
                ident=ident,
                namespace_id=site.holder.row.namespace_id,
                holder=site.holder,
                before=site.entry,
                base=None,
                metadata=metadata,
                object_uuid=site.object_uuid,
                extra=(site.claim, *_together(also, site.object_uuid)),
                summary={"operation": "stage-create" if stage else "create"},
                large=large,
            )
            if stage:
                loaded = await commits.run(
                    self._commits.staged, step, by=by, now_ms=now_ms, large=large
                )
                note: tuple[batch.Batch, ...] = ()
                if receipt is not None:
                    reply = msgspec.Raw(loaded.data)
                    note = (receipt.plan(pointer=loaded.pointer, reply=reply),)
                held = commit.hold(place, site.holder.holder)
                return store.Planned(result=(loaded,), batch=batch.merge((held, site.claim, *note)))
            return await self._commits.finish(
                place, [step], by=by, via=via, now_ms=now_ms, receipt=receipt
            )

        (loaded,) = await self._store.write(plan, keys=keys, place=place)
        return loaded

    async def create_empty(
        self,
        ident: idents.TableIdent,
        *,
        by: str,
        via: str = "s3tables",
        judge: owners.Judge | None = None,
        also: Also | None = None,
    ) -> records.Pointer:
        """Create a table with a location and no metadata. judge, and the errors: as `create`."""
        idents.check_name(ident.name)
        place = self._store.place(ident.table_bucket)
        object_uuid = sites.hyphenated(self._store.new_id())

        async def plan() -> store.Planned[records.Pointer]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                site = self._commits.find_site(
                    view,
                    place,
                    ident,
                    requested=None,
                    object_uuid=object_uuid,
                    now_ms=now_ms,
                    permit=owners.refuse,
                )
            if judge is not None:
                judge(place, ident, None)
            pointer = self._pointers.next(
                None,
                object_uuid=site.object_uuid,
                metadata_uuid=None,
                metadata_location=None,
                location=site.location,
                by=by,
                now_ms=now_ms,
            )
            change = self._pointers.change(
                ident,
                site.holder.row.namespace_id,
                before=None,
                after=pointer,
                summary={"operation": "create"},
                holder=site.holder,
            )
            committed = commit.plan(place, [change], author=by, via=via, time_ms=now_ms)
            together = _together(also, site.object_uuid)
            return store.Planned(
                result=pointer, batch=batch.merge((site.claim, committed, *together))
            )

        return await self._store.write(plan, keys=self._pointers.keys(place, ident), place=place)

    async def register(
        self,
        ident: idents.TableIdent,
        metadata_location: str,
        *,
        overwrite: bool = False,
        by: str,
        via: str = "rest",
        permit: owners.Permit = owners.refuse,
        judge: owners.Judge | None = None,
        judge_drop: owners.Judge | None = None,
        check_file: owners.FileCheck | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> LoadedTable:
        """Create a table from a metadata file that lies below the location that the file names.

        overwrite: an existing table of this name gets the file instead of a refusal. If the file
        belongs to another table, the existing one is dropped, as without purge, and the other comes
        back with the object uuid that owns the location. judge: called with the existing table, or
        for a new one; judge_drop: if it is dropped. permit: called for the location, which has
        files. check_file: called for each file outside the location that the metadata names.
        Raises NoSuchNamespace, TableAlreadyExists, ViewAlreadyExists, InvalidMetadataFile,
        MetadataFileMissing, InvalidLocation for a location of another table or view, Protected.
        """
        idents.check_name(ident.name)
        object_uuid = sites.hyphenated(self._store.new_id())

        async def plan() -> store.Planned[LoadedTable]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                place = self._store.place(ident.table_bucket, view)
                holder = self._store.namespace(view, place, ident.namespace)
                entry = self._store.find_pointer(view, place, "table", ident)
                if entry is None or not overwrite:
                    sites.check_name_free(self._store, view, place, ident, object_type="table")
                else:
                    _permit_overwrite(permit, place, ident, entry)
                if judge is not None:
                    judge(place, ident, None if entry is None else entry.pointer)
            file, unchanged = await self._foreign_file(place, metadata_location)
            path = locations.parse_location(file.table.location, table_bucket=place.table_bucket)
            sites.check_below(place, path, metadata_location, object_type="table")
            await _check_files(file, check_file)
            departure, seen = None, batch.Batch()
            if entry is not None:
                departure, seen = await self._departure(
                    place, ident, entry.pointer, file, path, judge_drop=judge_drop, now_ms=now_ms
                )
            pointer, registered = self._pointers.plan_registration(
                place,
                ident,
                metadata_location,
                location=file.table.location,
                metadata_uuid=file.table.table_uuid,
                holder=holder,
                before=entry,
                departure=departure,
                new_uuid=object_uuid,
                by=by,
                via=via,
                now_ms=now_ms,
                permit=permit,
                receipt=receipt,
            )
            return store.Planned(
                result=LoadedTable(
                    ident=ident, pointer=pointer, metadata=file.table, data=file.data
                ),
                batch=batch.merge((unchanged, seen, registered)),
                cached=((place.bucket_id, file),),
            )

        place = self._store.place(ident.table_bucket)
        return await self._store.write(plan, keys=self._pointers.keys(place, ident), place=place)

    async def commit(
        self,
        ident: idents.TableIdent,
        requirements: Sequence[Any],
        updates: Sequence[Any],
        *,
        by: str,
        via: str = "rest",
        permit: owners.Permit = owners.refuse,
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
        naming: commits.Naming | None = None,
    ) -> LoadedTable:
        """Apply updates to a table if its requirements hold, and return the table after it.

        With the requirement assert-create, create it. Updates that change nothing commit nothing.
        permit: called before a location is taken that has an owner or files. judge: as in
        `Commits.commit`.
        Raises NoSuchTable, RequirementFailed, BadUpdate, StaleSequenceNumber, LoadAlreadyTaken,
        InvalidLocation, InvalidProperty, CommitFailed, CommitStateUnknown.
        """
        change = TableChange(ident=ident, requirements=requirements, updates=updates)
        (loaded,) = await self._commits.commit(
            [change],
            by=by,
            via=via,
            permit=permit,
            judge=judge,
            receipt=receipt,
            naming=naming,
        )
        return loaded

    async def commit_many(
        self,
        changes: Sequence[TableChange],
        *,
        by: str,
        via: str = "rest",
        permit: owners.Permit = owners.refuse,
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
        naming: commits.Naming | None = None,
    ) -> tuple[LoadedTable, ...]:
        """Commit to several tables, all or none. See `Commits.commit`."""
        return await self._commits.commit(
            changes,
            by=by,
            via=via,
            permit=permit,
            judge=judge,
            receipt=receipt,
            naming=naming,
        )

    async def set_metadata_location(
        self,
        ident: idents.TableIdent,
        metadata_location: str,
        *,
        version_token: str,
        by: str,
        via: str = "s3tables",
        judge: owners.Judge | None = None,
        check_file: owners.FileCheck | None = None,
    ) -> records.Pointer:
        """Point a table to a metadata file that a client wrote below the table's location.

        version_token: of the pointer that the client's file continues. check_file: called for each
        file outside the location that the metadata names.
        Raises NoSuchTable, StaleVersionToken, InvalidMetadataFile, MetadataFileMissing.
        """
        place = self._store.place(ident.table_bucket)

        async def plan() -> store.Planned[records.Pointer]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                entry = self._pointers.entry(view, place, ident)
            old = entry.pointer
            if judge is not None:
                judge(place, ident, old)
            pointers.check_token(old, version_token)
            path = locations.parse_location(old.location, table_bucket=place.table_bucket)
            sites.check_below(place, path, metadata_location, object_type="table")
            file, unchanged = await self._foreign_file(place, metadata_location)
            if properties.plain_uri(file.table.location) != properties.plain_uri(old.location):
                raise errors.InvalidMetadataFile(
                    f"{metadata_location} is metadata of a table at {file.table.location}, not at"
                    f" {old.location}"
                )
            if old.table_uuid is not None and file.table.table_uuid != old.table_uuid:
                raise errors.InvalidMetadataFile(
                    f"{metadata_location} is metadata of the table {file.table.table_uuid}, not of"
                    f" {old.table_uuid}"
                )
            await _check_files(file, check_file)
            pointer = msgspec.structs.replace(
                old,
                metadata_location=metadata_location,
                table_uuid=file.table.table_uuid,
                modified_at_ms=pointers.later(now_ms, old),
                modified_by=by,
            )
            change = self._pointers.change(
                ident,
                entry.namespace_id,
                before=entry,
                after=pointer,
                summary={"operation": "set-metadata-location"},
            )
            committed = commit.plan(place, [change], author=by, via=via, time_ms=now_ms)
            return store.Planned(
                result=pointer,
                batch=batch.merge((unchanged, committed)),
                cached=((place.bucket_id, file),),
            )

        return await self._store.write(plan, keys=self._pointers.keys(place, ident), place=place)

    async def drop(
        self,
        ident: idents.TableIdent,
        *,
        purge: bool | None = False,
        version_token: str | None = None,
        by: str,
        via: str = "rest",
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> records.Pointer:
        """Drop a table, and return its pointer. purge: the next sweep frees its files.

        purge None: the table bucket's setting `purge_on_drop` decides. Without purge the table can
        be restored for `dropped_table_days`. Frees no bytes. Raises NoSuchTable, StaleVersionToken,
        Protected.
        """

        def depart(place: records.Place, now_ms: int) -> departures.DropPlan:
            return departures.plan_drop(
                place.bucket.settings, purge=purge, now_ms=now_ms, day_ms=self._store.day_ms
            )

        return await self._pointers.drop(
            ident,
            depart,
            version_token=version_token,
            by=by,
            via=via,
            judge=judge,
            receipt=receipt,
            check=functools.partial(protection.check, self._store, ident),
        )

    async def unregister(
        self,
        ident: idents.TableIdent,
        *,
        by: str,
        via: str = "rest",
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> LoadedTable:
        """Remove a table, keep its files for another registration, and return the table.

        Raises NoSuchTable, Protected.
        """
        place = self._store.place(ident.table_bucket)

        async def check(pointer: records.Pointer) -> None:
            loaded = await self._commits.fetched(place, ident, pointer)
            departures.check_unprotected(loaded.metadata.properties, f"Table {ident.dotted()}")

        pointer = await self._pointers.drop(
            ident,
            lambda place, now_ms: departures.plan_unregistration(),
            by=by,
            via=via,
            judge=judge,
            receipt=receipt,
            check=check,
        )
        return await self._commits.fetched(place, ident, pointer)

    async def undrop(
        self,
        ident: idents.TableIdent,
        *,
        object_uuid: str | None = None,
        target: idents.TableIdent | None = None,
        by: str,
        via: str = "undrop",
        permit: owners.Permit = owners.refuse,
        judge: owners.Undrop | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> records.Pointer:
        """Restore the table that was dropped last under a name, and return its pointer.

        object_uuid: of one of several dropped tables of this name. target: the name that it gets,
        in any namespace of its table bucket; by default its last one. permit: called if another
        table or view took its location since, and is gone, too. A table that was dropped with
        purge, unregistered, or dropped longer ago than it is kept, cannot be restored. Raises as
        `Pointers.undrop` does, and MetadataFileMissing.
        """

        async def check(pointer: records.Pointer) -> None:
            if pointer.metadata_location is not None:
                place = self._store.place(ident.table_bucket)
                await self._store.fetch_metadata(pointer.metadata_location, place=place)

        return await self._pointers.undrop(
            ident,
            object_uuid=object_uuid,
            target=target,
            by=by,
            via=via,
            permit=permit,
            judge=judge,
            receipt=receipt,
            check=check,
        )

    async def discard(
        self, table_bucket: str, object_uuid: str, *, judge: owners.Judge | None = None
    ) -> records.Dropped:
        """Give up a dropped or unregistered table; see `Pointers.discard`."""
        return await self._pointers.discard(table_bucket, object_uuid, judge=judge)

    def dropped(
        self, ident: idents.TableIdent, *, object_uuid: str | None = None
    ) -> records.Dropped:
        """Return what `undrop` would restore; see `Pointers.dropped`."""
        return self._pointers.dropped(ident, object_uuid=object_uuid)

    async def rename(
        self,
        source: idents.TableIdent,
        target: idents.TableIdent,
        *,
        version_token: str | None = None,
        by: str,
        via: str = "rest",
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> records.Pointer:
        """Give a table another name, in any namespace of its table bucket. Its files stay.

        Raises NoSuchTable, NoSuchNamespace, TableAlreadyExists, ViewAlreadyExists, InvalidName,
        StaleVersionToken.
        """
        return await self._pointers.rename(
            source,
            target,
            version_token=version_token,
            by=by,
            via=via,
            judge=judge,
            receipt=receipt,
        )

    async def swap(
        self,
        first: idents.TableIdent,
        second: idents.TableIdent,
        *,
        by: str,
        via: str,
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> None:
        """Exchange the names of two tables of one table bucket, as one commit. Their files stay.

        judge: called with each of them. Raises NoSuchTable.
        """
        await self._pointers.swap(first, second, by=by, via=via, judge=judge, receipt=receipt)

    async def report_metrics(self, ident: idents.TableIdent, report: bytes, *, by: str) -> None:
        """Store a client's report, and delete the oldest beyond METRICS_KEPT_MAX.

        Raises NoSuchTable, InvalidCatalogRequest for one that is too large.
        """
        if len(report) > METRICS_BYTES_MAX:
            raise errors.InvalidCatalogRequest(
                f"A metrics report is at most {METRICS_BYTES_MAX} bytes long"
            )
        place = self._store.place(ident.table_bucket)
        self._store.check_stored(place)
        pointer = self.pointer(ident)
        row = records.MetricsRow(received_at_ms=self._store.now_ms(), principal=by, report=report)
        missing = errors.NoSuchTable(f"Table does not exist: {ident.dotted()}")
        held = commit.hold_thing(place, pointer.object_uuid, missing=missing)
        keep = _keep_report(place, pointer.object_uuid, records.encode(row))
        await self._store.index.commit(batch.merge((held, batch.Batch(derive=(keep,)))))

    # Parts.

    async def _departure(
        self,
        place: records.Place,
        ident: idents.TableIdent,
        standing: records.Pointer,
        file: store.LoadedMetadata,
        path: str,
        *,
        judge_drop: owners.Judge | None,
        now_ms: int,
    ) -> tuple[departures.DropPlan | None, batch.Batch]:
        """Return how a table is dropped by a register of its name; None if it only gets the file.

        file, path: the registered metadata, and the location that it claims. The Batch expects what
        decides this. Raises what judge_drop raises, Protected, InvalidMetadataFile for metadata of
        another uuid at the table's location.
        """
        table_uuid = file.table.table_uuid
        is_of_another, seen = self._pointers.is_of_another(place, path, standing, table_uuid)
        if is_of_another:
            if judge_drop is not None:
                judge_drop(place, ident, standing)
            await protection.check(self._store, ident, standing)
            departure = departures.plan_drop(
                place.bucket.settings,
                purge=False,
                now_ms=departures.dropped_after(standing, now_ms),
                day_ms=self._store.day_ms,
            )
            return departure, seen
        uuids = {each.lower() for each in (standing.table_uuid, table_uuid) if each is not None}
        if len(uuids) > 1:
            raise errors.InvalidMetadataFile(
                f"{file.location} is metadata of the table {table_uuid}, not of"
                f" {standing.table_uuid}: drop the table {ident.dotted()} to register it"
            )
        return None, seen

    async def _foreign_file(
        self, place: records.Place, location: str
    ) -> tuple[store.LoadedMetadata, batch.Batch]:
        """Return checked metadata that a client wrote, and the Batch that expects it unchanged."""
        sites.check_named(place, location)
        file, unchanged = await self._store.fetch_foreign(location, place=place)
        commits.check_placement(file.table, place)
        return file, unchanged


async def _check_files(file: store.LoadedMetadata, check_file: owners.FileCheck | None) -> None:
    """Call check_file for each file outside the table's location that its metadata names."""
    if check_file is None:
        return
    if len(file.data) > store.SMALL_BYTES:
        named = await asyncio.to_thread(filenames.named_in, file.table)
    else:
        named = filenames.named_in(file.table)
    home = properties.plain_uri(file.table.location)
    for number, uri in enumerate(named, 1):
        if not properties.is_below(uri, home):
            check_file(uri)
        if number % FILES_CHECKED_AT_ONCE == 0:
            await asyncio.sleep(0)


def _permit_overwrite(
    permit: owners.Permit,
    place: records.Place,
    ident: idents.TableIdent,
    standing: store.StoredPointer,
) -> None:
    """Call permit for the location of the table that a register overwrites."""
    path = locations.path_in(standing.pointer.location, table_bucket=place.table_bucket)
    owner = owners.LocationOwner(
        object_uuid=standing.pointer.object_uuid,
        namespace_id=standing.namespace_id,
        name=ident.name,
        is_live=True,
    )
    permit(path or "", owner)


def _together(also: Also | None, object_uuid: str) -> tuple[batch.Batch, ...]:
    return () if also is None else (also(object_uuid),)


def _keep_report(place: records.Place, object_uuid: str, row: bytes) -> batch.Derivation:
    """Return the derivation that adds a report and deletes the oldest ones."""
    prefix = records.object_prefix(place.bucket_id, object_uuid)

    def keep(reading: batch.Reading) -> list[batch.Write]:
        rows = reading.scan(batch.Store.METRICS, prefix, records.stop_after(prefix))
        kept = [key for key, _ in rows]
        number = int.from_bytes(kept[-1][len(prefix) :], "big") + 1 if kept else 1
        key = records.metrics_key(place.bucket_id, object_uuid, number)
        writes: list[batch.Write] = [batch.Put(store=batch.Store.METRICS, key=key, value=row)]
        gone = kept[: max(0, len(kept) + 1 - METRICS_KEPT_MAX)]
        return [*writes, *(batch.Delete(store=batch.Store.METRICS, key=old) for old in gone)]

    return keep
