"""engine: views: create, load, replace, drop, rename, register.

A view is a pointer to a metadata file, as a table is. Tables and views share one space of names and
one of locations. Every change of a view is one index transaction, which replaces the pointer and
names the new file and the log record. A replacement is planned on the newest pointer, so two
concurrent replacements are both applied. Metadata files are named by uuids and never written twice;
the sweep of tables frees those that no retained state names.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from catalog import (
    commit,
    commits,
    departures,
    errors,
    idents,
    locations,
    owners,
    pointers,
    protection,
    receipts,
    records,
    sites,
    store,
)
from catalog.metadata import contents, json_values
from catalog.metadata import views as rules
from catalog.mounts import mounted
from server import documents, limits
from storage import batch
from storage import model as storage_model

SMALL_VIEW_BYTES: Final = 64 * 1024
"""View metadata up to this size is decoded and changed on the event loop."""


class LoadedView(msgspec.Struct, frozen=True, kw_only=True):
    """A view with its metadata. data: the metadata file's JSON, uncompressed."""

    ident: idents.TableIdent
    pointer: records.Pointer
    data: bytes

    @property
    def metadata_location(self) -> str:
        """The metadata file's URI."""
        return location_of(self.pointer)


class PlannedView(msgspec.Struct, frozen=True, kw_only=True):
    """What new metadata of a view changes, for the one `commit.plan` of its table bucket.

    named: names its file. files: as in `store.Planned`.
    """

    loaded: LoadedView
    change: commit.Change
    named: batch.Batch
    files: tuple[storage_model.Received, ...]


class Views:
    """The views of every table bucket. Stateless beside its store."""

    def __init__(self, *, store: store.CatalogStore) -> None:
        self._store = store
        self._pointers = pointers.Pointers(store=store, object_type="view")

    # Reading.

    async def fetch(self, ident: idents.TableIdent) -> LoadedView:
        """Return a view. Raises NoSuchWarehouse, NoSuchView, MetadataFileMissing."""
        with self._store.view() as view:
            place = self._store.place(ident.table_bucket, view)
            entry = self._pointers.entry(view, place, ident)
        mount = self._mount_of(ident)
        if mount is not None:
            pointer, data = await self._mounted(mount, ident, entry.pointer)
            return LoadedView(ident=ident, pointer=pointer, data=data)
        data = await self._store.fetch_view(location_of(entry.pointer), place=place)
        return LoadedView(ident=ident, pointer=entry.pointer, data=data)

    async def fetch_at(self, ident: idents.TableIdent, pointer: records.Pointer) -> LoadedView:
        """Return a view as it was when its pointer was read. Raises MetadataFileMissing.

        A view of a mount is as the other catalog has it, and keeps the pointer.
        """
        mount = self._mount_of(ident)
        if mount is not None:
            _, data = await self._mounted(mount, ident, pointer)
            return LoadedView(ident=ident, pointer=pointer, data=data)
        place = self._store.place(ident.table_bucket)
        data = await self._store.fetch_view(location_of(pointer), place=place)
        return LoadedView(ident=ident, pointer=pointer, data=data)

    def other_names(self, table_bucket: str) -> frozenset[str] | None:
        """Return the names that views of a mount have for it; None for a table bucket."""
        mounts = self._store.mounts
        mount = None if mounts is None else mounts.find(table_bucket)
        return None if mount is None else mount.other_names

    def _mount_of(self, ident: idents.TableIdent) -> mounted.MountedCatalog | None:
        mounts = self._store.mounts
        return None if mounts is None else mounts.find(ident.table_bucket)

    async def _mounted(
        self, mount: mounted.MountedCatalog, ident: idents.TableIdent, pointer: records.Pointer
    ) -> tuple[records.Pointer, bytes]:
        """Return a mounted view as the other catalog sent it, checked as a registered one is.

        Raises MountUnavailable, NoSuchView, InvalidMetadataFile, InvalidMetadata.
        """
        loaded, data = await mount.load_view(
            ident, pointer, bytes_max=store.VIEW_METADATA_BYTES_MAX
        )
        if contents.are_many_values(data, store.VIEW_VALUES_MAX):
            raise errors.InvalidMetadataFile(
                f"{ident.dotted()} holds more than {store.VIEW_VALUES_MAX} values"
            )
        await commits.run(rules.decode, data, large=len(data) > SMALL_VIEW_BYTES)
        return loaded, data

    def pointer(self, ident: idents.TableIdent) -> records.Pointer:
        """Return a view's pointer. Raises NoSuchWarehouse, NoSuchView."""
        return self._pointers.read(ident)

    # Writing.

    async def create(
        self,
        ident: idents.TableIdent,
        *,
        schema: Any,
        view_version: Any,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        by: str,
        via: str = "rest",
        permit: owners.Permit = owners.refuse,
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> LoadedView:
        """Create a view.

        schema, view_version: decoded JSON as the client sent it. permit: called before a location
        is taken that has an owner or files. judge: called for the new view; None for a caller with
        all rights.
        Raises InvalidName, InvalidLocation, InvalidProperty, NoSuchNamespace, ViewAlreadyExists,
        TableAlreadyExists, BadUpdate.
        """
        idents.check_name(ident.name, "view")
        place = self._store.place(ident.table_bucket)
        requested = None if sites.overrides(place, location) else location
        view_uuid = sites.hyphenated(self._store.new_id())
        object_uuid = sites.hyphenated(self._store.new_id())
        large = json_values.has_more_values((schema, view_version), commits.LARGE_CHANGE_VALUES)

        async def plan() -> store.Planned[LoadedView]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                holder = self._store.namespace(view, place, ident.namespace)
                sites.check_name_free(self._store, view, place, ident, object_type="view")
                if judge is not None:
                    judge(place, ident, None)
                site = sites.find_site(
                    view,
                    place,
                    ident,
                    holder,
                    object_type="view",
                    requested=requested,
                    object_uuid=object_uuid,
                    now_ms=now_ms,
                    permit=permit,
                )
            metadata = await commits.run(
                rules.new_view,
                schema=schema,
                view_version=view_version,
                location=site.location,
                properties=properties,
                view_uuid=view_uuid,
                now_ms=now_ms,
                large=large,
            )
            return await self._write(
                place,
                ident,
                holder.row.namespace_id,
                before=None,
                after=metadata,
                object_uuid=site.object_uuid,
                holder=holder,
                extra=(site.claim,),
                summary={"operation": "create"},
                by=by,
                via=via,
                now_ms=now_ms,
                receipt=receipt,
            )

        return await self._store.write(plan, keys=self._pointers.keys(place, ident), place=place)

    async def replace(
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
    ) -> LoadedView:
        """Apply updates to a view if its requirements hold, and return the view after it.

        Updates that change nothing commit nothing. permit: as in `create`. judge: called with the
        view before the change; None for a caller with all rights.
        Raises NoSuchView, RequirementFailed, BadUpdate, InvalidLocation, InvalidProperty,
        CommitFailed, CommitStateUnknown.
        """
        place = self._store.place(ident.table_bucket)
        granted = sites.granted(place, updates)
        many = json_values.has_more_values((requirements, updates), commits.LARGE_CHANGE_VALUES)

        async def plan() -> store.Planned[LoadedView]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                entry = self._pointers.entry(view, place, ident)
            old = entry.pointer
            if judge is not None:
                judge(place, ident, old)
            data = await self._store.fetch_view(location_of(old), place=place)
            large = many or len(data) > SMALL_VIEW_BYTES
            base, after = await commits.run(
                _apply, data, requirements, granted, now_ms=now_ms, large=large
            )
            if after is base:
                note = None if receipt is None else receipt.plan(pointer=old)
                unchanged = LoadedView(ident=ident, pointer=old, data=data)
                return store.Planned(result=unchanged, batch=note)
            extra: list[batch.Batch] = []
            if after.location != base.location:
                extra.append(
                    self._pointers.plan_move(
                        place, ident, entry, after.location, now_ms=now_ms, permit=permit
                    )
                )
            return await self._write(
                place,
                ident,
                entry.namespace_id,
                before=entry,
                after=after,
                object_uuid=old.object_uuid,
                extra=extra,
                summary={"operation": "replace", "version": after.current_version_id},
                by=by,
                via=via,
                now_ms=now_ms,
                receipt=receipt,
            )

        return await self._store.write(plan, keys=self._pointers.keys(place, ident), place=place)

    async def register(
        self,
        ident: idents.TableIdent,
        metadata_location: str,
        *,
        by: str,
        via: str = "rest",
        permit: owners.Permit = owners.refuse,
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> LoadedView:
        """Create a view from a metadata file that lies below the location that the file names.

        permit: called for the location, which has files. judge: as in `create`.
        Raises NoSuchNamespace, ViewAlreadyExists, TableAlreadyExists, InvalidMetadataFile,
        MetadataFileMissing, InvalidMetadata, InvalidLocation for a location of another table or
        view.
        """
        idents.check_name(ident.name, "view")
        place = self._store.place(ident.table_bucket)
        new_uuid = sites.hyphenated(self._store.new_id())

        async def plan() -> store.Planned[LoadedView]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                holder = self._store.namespace(view, place, ident.namespace)
                sites.check_name_free(self._store, view, place, ident, object_type="view")
                if judge is not None:
                    judge(place, ident, None)
            sites.check_named(place, metadata_location)
            data, unchanged = await self._store.fetch_foreign_view(metadata_location, place=place)
            if documents.has_too_many_values(data):
                raise errors.InvalidMetadataFile(
                    f"{metadata_location} holds more than {limits.JSON_VALUES_MAX} JSON values"
                )
            large = len(data) > SMALL_VIEW_BYTES
            metadata = await commits.run(rules.decode, data, large=large)
            path = locations.parse_location(metadata.location, table_bucket=place.table_bucket)
            sites.check_below(place, path, metadata_location, object_type="view")
            commits.check_placement(metadata, place)
            pointer, registered = self._pointers.plan_registration(
                place,
                ident,
                metadata_location,
                location=metadata.location,
                metadata_uuid=metadata.view_uuid,
                holder=holder,
                before=None,
                new_uuid=new_uuid,
                by=by,
                via=via,
                now_ms=now_ms,
                permit=permit,
                receipt=receipt,
            )
            return store.Planned(
                result=LoadedView(ident=ident, pointer=pointer, data=data),
                batch=batch.merge((unchanged, registered)),
            )

        return await self._store.write(plan, keys=self._pointers.keys(place, ident), place=place)

    async def drop(
        self,
        ident: idents.TableIdent,
        *,
        by: str,
        via: str = "rest",
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> records.Pointer:
        """Drop a view, and return its pointer. It can be restored for `dropped_table_days`.

        Raises NoSuchView, Protected.
        """

        def depart(place: records.Place, now_ms: int) -> departures.DropPlan:
            return departures.plan_drop(
                place.bucket.settings, purge=False, now_ms=now_ms, day_ms=self._store.day_ms
            )

        return await self._pointers.drop(
            ident,
            depart,
            by=by,
            via=via,
            judge=judge,
            receipt=receipt,
            check=functools.partial(protection.check, self._store, ident),
        )

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
        """Restore the view that was dropped last under a name; see `Tables.undrop`."""

        async def check(pointer: records.Pointer) -> None:
            assert pointer.metadata_location is not None, "a view has metadata"
            place = self._store.place(ident.table_bucket)
            await self._store.fetch_view(pointer.metadata_location, place=place)

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
        """Give up a dropped or unregistered view; see `Pointers.discard`."""
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
        by: str,
        via: str = "rest",
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> records.Pointer:
        """Give a view another name, in any namespace of its table bucket. Its files stay.

        Raises NoSuchView, NoSuchNamespace, TableAlreadyExists, ViewAlreadyExists, InvalidName.
        """
        return await self._pointers.rename(
            source, target, by=by, via=via, judge=judge, receipt=receipt
        )

    # Parts.

    async def _write(
        self,
        place: records.Place,
        ident: idents.TableIdent,
        namespace_id: int,
        *,
        before: store.StoredPointer | None,
        after: rules.ViewMetadata,
        object_uuid: str,
        holder: store.StoredNamespace | None = None,
        extra: Sequence[batch.Batch],
        summary: Mapping[str, Any],
        by: str,
        via: str,
        now_ms: int,
        receipt: receipts.Receipt | None,
    ) -> store.Planned[LoadedView]:
        """Return the plan that writes new metadata of a view and points to it."""
        planned = await self.plan_metadata(
            place,
            ident,
            namespace_id,
            before=before,
            after=after,
            object_uuid=object_uuid,
            holder=holder,
            summary=summary,
            by=by,
            now_ms=now_ms,
        )
        done = commit.plan(place, [planned.change], author=by, via=via, time_ms=now_ms)
        note = () if receipt is None else (receipt.plan(pointer=planned.loaded.pointer),)
        # The claim on the location is checked before the view's file is written there.
        return store.Planned(
            result=planned.loaded,
            batch=batch.merge((*extra, planned.named, done, *note)),
            files=planned.files,
        )

    async def plan_metadata(
        self,
        place: records.Place,
        ident: idents.TableIdent,
        namespace_id: int,
        *,
        before: store.StoredPointer | None,
        after: rules.ViewMetadata,
        object_uuid: str,
        holder: store.StoredNamespace | None = None,
        summary: Mapping[str, Any],
        by: str,
        now_ms: int,
    ) -> PlannedView:
        """Write new metadata of a view; return what a commit of it changes."""
        commits.check_placement(after, place)
        data = rules.encode(after)
        _check_size(ident, data)
        old = None if before is None else before.pointer
        location, named, files = await commits.plan_file(
            self._store, place, after, data, before=old, by=by
        )
        pointer = self._pointers.next(
            old,
            object_uuid=object_uuid,
            metadata_uuid=after.view_uuid,
            metadata_location=location,
            location=after.location,
            by=by,
            now_ms=now_ms,
        )
        change = self._pointers.change(
            ident, namespace_id, before=before, after=pointer, summary=summary, holder=holder
        )
        loaded = LoadedView(ident=ident, pointer=pointer, data=data)
        return PlannedView(loaded=loaded, change=change, named=named, files=files)


def location_of(pointer: records.Pointer) -> str:
    """Return the URI of a view's metadata file. Raises IntegrityBroken if there is none."""
    if pointer.metadata_location is None:
        raise errors.IntegrityBroken(f"The view {pointer.object_uuid} has no metadata")
    return pointer.metadata_location


def _check_size(ident: idents.TableIdent, data: bytes) -> None:
    """Raise InvalidCatalogRequest for metadata that would take too long to decode again."""
    bound = ""
    if len(data) > store.VIEW_METADATA_BYTES_MAX:
        bound = f"{store.VIEW_METADATA_BYTES_MAX} bytes"
    elif documents.has_too_many_values(data):
        bound = f"{limits.JSON_VALUES_MAX} JSON values"
    if bound:
        raise errors.InvalidCatalogRequest(
            f"The metadata of {ident.dotted()} would be more than {bound}: keep fewer versions"
            " (version.history.num-entries)"
        )


def _apply(
    data: bytes, requirements: Sequence[Any], updates: Sequence[Any], *, now_ms: int
) -> tuple[rules.ViewMetadata, rules.ViewMetadata]:
    """Return the metadata in data, and the metadata after the updates."""
    base = rules.decode(data)
    rules.check_view_requirements(base, requirements)
    return base, rules.apply_view_updates(base, updates, now_ms=now_ms)
