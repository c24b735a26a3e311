"""engine: views: create, load, replace, drop, rename, register.

A view is a pointer to a metadata file, as a table is: both have one space of names and one of
locations, and a change of either is one index transaction that swaps the pointer together with the
new file and the log. A replacement is planned on the newest pointer, so two of them that come at
once both take place. Files are named by uuids and never written twice; the sweep of tables frees
those that no retained state names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from catalog import (
    claims,
    commit,
    commits,
    errors,
    idents,
    locations,
    owners,
    properties,
    receipts,
    records,
    sites,
    store,
)
from catalog.metadata import reading as json_values
from catalog.metadata import views as rules
from server import documents, limits
from storage import batch

SMALL_VIEW_BYTES: Final = 64 * 1024
"""View metadata up to here is decoded and changed where it is asked for."""


class LoadedView(msgspec.Struct, frozen=True, kw_only=True):
    """A view as it stands. data: the metadata file's JSON, uncompressed."""

    ident: idents.TableIdent
    pointer: records.Pointer
    data: bytes

    @property
    def metadata_location(self) -> str:
        """Where the metadata lies."""
        return location_of(self.pointer)


class Views:
    """The views of every table bucket. Stateless beside its store."""

    def __init__(self, *, store: store.CatalogStore) -> None:
        self._store = store
        self._commits = commits.Commits(store=store)

    # Reading.

    async def fetch(self, ident: idents.TableIdent) -> LoadedView:
        """Return a view. Raises NoSuchWarehouse, NoSuchView, MetadataFileMissing."""
        with self._store.index.view() as view:
            place = self._store.place(ident.table_bucket, view)
            entry = self._entry(view, place, ident)
        data = await self._store.fetch_view(location_of(entry.pointer), place=place)
        return LoadedView(ident=ident, pointer=entry.pointer, data=data)

    def load_at(self, ident: idents.TableIdent, pointer: records.Pointer) -> LoadedView:
        """Return a view as it was when its pointer was read. Raises MetadataFileMissing."""
        place = self._store.place(ident.table_bucket)
        data = self._store.read_view(location_of(pointer), place=place)
        return LoadedView(ident=ident, pointer=pointer, data=data)

    def pointer(self, ident: idents.TableIdent) -> records.Pointer:
        """Return a view's pointer. Raises NoSuchWarehouse, NoSuchView."""
        place = self._store.place(ident.table_bucket)
        with self._store.index.view() as view:
            return self._entry(view, place, ident).pointer

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
        receipt: receipts.Receipt | None = None,
    ) -> LoadedView:
        """Create a view.

        schema, view_version: decoded JSON as the client sent it. permit: is asked before a location
        is taken that has an owner or files.
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
                sites.check_name_free(self._store, view, place, ident, kind="view")
                site = sites.find_site(
                    view,
                    place,
                    ident,
                    holder,
                    kind="view",
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

        return await self._store.write(plan, keys=self._keys(place, ident))

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

        Updates that change nothing commit nothing. permit: as in `create`. judge: is asked about
        the view as it is found; None for a caller that has every right.
        Raises NoSuchView, RequirementFailed, BadUpdate, InvalidLocation, InvalidProperty,
        CommitFailed, CommitStateUnknown.
        """
        place = self._store.place(ident.table_bucket)
        granted = sites.granted(place, updates)
        many = json_values.has_more_values((requirements, updates), commits.LARGE_CHANGE_VALUES)

        async def plan() -> store.Planned[LoadedView]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                entry = self._entry(view, place, ident)
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
                with self._store.index.view() as view:
                    claim = claims.claim(
                        view,
                        place,
                        locations.parse_location(after.location, table_bucket=place.table_bucket),
                        object_uuid=old.object_uuid,
                        kind="view",
                        namespace_id=entry.namespace_id,
                        name=ident.name,
                        now_ms=now_ms,
                        permit=permit,
                        standing_uuid=old.object_uuid,
                    )
                extra.append(claim)
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

        return await self._store.write(plan, keys=self._keys(place, ident))

    async def register(
        self,
        ident: idents.TableIdent,
        metadata_location: str,
        *,
        by: str,
        via: str = "rest",
        permit: owners.Permit = owners.refuse,
        receipt: receipts.Receipt | None = None,
    ) -> LoadedView:
        """Make a view of a metadata file that lies below the location which it names.

        permit: is asked whether the caller may have the location, which has files at the least.
        Raises NoSuchNamespace, ViewAlreadyExists, TableAlreadyExists, InvalidMetadataFile,
        MetadataFileMissing, InvalidMetadata, InvalidLocation for a place that belongs to another.
        """
        idents.check_name(ident.name, "view")
        place = self._store.place(ident.table_bucket)
        new_uuid = sites.hyphenated(self._store.new_id())

        async def plan() -> store.Planned[LoadedView]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                holder = self._store.namespace(view, place, ident.namespace)
                sites.check_name_free(self._store, view, place, ident, kind="view")
            sites.check_named(metadata_location)
            if locations.path_in(metadata_location, table_bucket=place.table_bucket) is None:
                raise errors.InvalidMetadataFile(
                    f"{metadata_location} does not lie in s3://{place.table_bucket}/"
                )
            data, unchanged = await self._store.fetch_foreign_view(metadata_location, place=place)
            if documents.has_too_many_values(data):
                raise errors.InvalidMetadataFile(
                    f"{metadata_location} holds more than {limits.JSON_VALUES_MAX} JSON values"
                )
            large = len(data) > SMALL_VIEW_BYTES
            metadata = await commits.run(rules.decode, data, large=large)
            path = locations.parse_location(metadata.location, table_bucket=place.table_bucket)
            sites.check_below(place, path, metadata_location, kind="view")
            commits.check_placement(metadata, place)
            namespace_id = holder.row.namespace_id
            with self._store.index.view() as view:
                row = claims.find_claimable(
                    view, place, path, namespace_id=namespace_id, name=ident.name, now_ms=now_ms
                )
                object_uuid = new_uuid
                if row is not None and row.kind == "view":
                    object_uuid = row.object_uuid
                claim = claims.claim(
                    view,
                    place,
                    path,
                    object_uuid=object_uuid,
                    kind="view",
                    namespace_id=namespace_id,
                    name=ident.name,
                    now_ms=now_ms,
                    permit=permit,
                )
            pointer = records.Pointer(
                kind="view",
                object_uuid=object_uuid,
                table_uuid=metadata.view_uuid,
                metadata_location=metadata_location,
                location=properties.plain_uri(metadata.location),
                created_at_ms=now_ms,
                created_by=by,
                modified_at_ms=now_ms,
                modified_by=by,
            )
            change = commits.change(
                ident,
                namespace_id,
                kind="view",
                before=None,
                after=pointer,
                summary={"operation": "register"},
                holder=holder,
            )
            done = commit.plan(place, [change], author=by, via=via, time_ms=now_ms)
            note = () if receipt is None else (receipt.plan(pointer=pointer),)
            return store.Planned(
                result=LoadedView(ident=ident, pointer=pointer, data=data),
                batch=batch.merge((claim, unchanged, done, *note)),
            )

        return await self._store.write(plan, keys=self._keys(place, ident))

    async def drop(
        self,
        ident: idents.TableIdent,
        *,
        by: str,
        via: str = "rest",
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> None:
        """Drop a view. The sweep keeps its last metadata file for `dropped_table_days`.

        Raises NoSuchView.
        """
        place = self._store.place(ident.table_bucket)

        async def plan() -> store.Planned[None]:
            with self._store.index.view() as view:
                entry = self._entry(view, place, ident)
            if judge is not None:
                judge(place, ident, entry.pointer)
            change = commits.change(
                ident,
                entry.namespace_id,
                kind="view",
                before=entry.value,
                after=None,
                summary={"operation": "drop", "purge": False},
            )
            done = commit.plan(place, [change], author=by, via=via, time_ms=self._store.now_ms())
            note = () if receipt is None else (receipt.plan(status=204),)
            # Dropping leads to freeing, so a full disk lets it through.
            whole = msgspec.structs.replace(batch.merge((done, *note)), makes_room=True)
            return store.Planned(result=None, batch=whole)

        await self._store.write(plan, keys=self._keys(place, ident))

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
        idents.check_name(target.name, "view")
        place = self._store.place(source.table_bucket)
        assert source.table_bucket == target.table_bucket, "a rename stays in its table bucket"

        async def plan() -> store.Planned[records.Pointer]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                entry = self._entry(view, place, source)
                if judge is not None:
                    judge(place, source, entry.pointer)
                holder = self._store.namespace(view, place, target.namespace)
                sites.check_rename_free(self._store, view, place, source, target)
            pointer = msgspec.structs.replace(
                entry.pointer,
                modified_at_ms=max(now_ms, entry.pointer.modified_at_ms + 1),
                modified_by=by,
            )
            summary = {"operation": "rename", "from": source.dotted(), "to": target.dotted()}
            changes = [
                commits.change(
                    source,
                    entry.namespace_id,
                    kind="view",
                    before=entry.value,
                    after=None,
                    summary=summary,
                ),
                commits.change(
                    target,
                    holder.row.namespace_id,
                    kind="view",
                    before=None,
                    after=pointer,
                    summary=summary,
                    holder=holder,
                ),
            ]
            done = commit.plan(place, changes, author=by, via=via, time_ms=now_ms)
            note = () if receipt is None else (receipt.plan(status=204),)
            return store.Planned(result=pointer, batch=batch.merge((done, *note)))

        return await self._store.write(plan, keys=self._keys(place, source, target))

    # Parts.

    def _entry(
        self, reading: batch.Reading, place: records.Place, ident: idents.TableIdent
    ) -> store.FoundPointer:
        entry = self._store.find_pointer(reading, place, "view", ident)
        if entry is None:
            raise errors.NoSuchView(f"View does not exist: {ident.dotted()}")
        return entry

    def _keys(self, place: records.Place, *views: idents.TableIdent) -> list[bytes]:
        """Return what writers of these views queue for."""
        return self._commits.keys(place, views, kind="view")

    async def _write(
        self,
        place: records.Place,
        ident: idents.TableIdent,
        namespace_id: int,
        *,
        before: store.FoundPointer | None,
        after: rules.ViewMetadata,
        object_uuid: str,
        holder: store.FoundNamespace | None = None,
        extra: Sequence[batch.Batch],
        summary: Mapping[str, Any],
        by: str,
        via: str,
        now_ms: int,
        receipt: receipts.Receipt | None,
    ) -> store.Planned[LoadedView]:
        """Return the plan that writes new metadata of a view and points to it."""
        commits.check_placement(after, place)
        data = rules.encode(after)
        _check_size(ident, data)
        codec = properties.metadata_codec(after.properties)
        old = None if before is None else before.pointer
        location = commits.next_file(
            None if old is None else old.metadata_location,
            after,
            codec=codec,
            new_id=sites.hyphenated(self._store.new_id()),
        )
        commits.check_file(location, after, place)
        body = await asyncio.to_thread(store.compress, data) if codec == "gzip" else data
        named, files = await self._store.plan_file(location, body, bucket=place.bucket, owner=by)
        pointer = records.Pointer(
            kind="view",
            object_uuid=object_uuid,
            table_uuid=after.view_uuid,
            metadata_location=location,
            location=properties.plain_uri(after.location),
            created_at_ms=now_ms if old is None else old.created_at_ms,
            created_by=by if old is None else old.created_by,
            modified_at_ms=now_ms,
            modified_by=by,
        )
        change = commits.change(
            ident,
            namespace_id,
            kind="view",
            before=None if before is None else before.value,
            after=pointer,
            summary=summary,
            holder=holder,
        )
        done = commit.plan(place, [change], author=by, via=via, time_ms=now_ms)
        note = () if receipt is None else (receipt.plan(pointer=pointer),)
        # First the claim on the location: it is checked before the view's file lies there.
        return store.Planned(
            result=LoadedView(ident=ident, pointer=pointer, data=data),
            batch=batch.merge((*extra, named, done, *note)),
            files=files,
        )


def location_of(pointer: records.Pointer) -> str:
    """Return where a view's metadata lies; a view is never without."""
    if pointer.metadata_location is None:
        raise errors.IntegrityBroken(f"The view {pointer.object_uuid} has no metadata")
    return pointer.metadata_location


def _check_size(ident: idents.TableIdent, data: bytes) -> None:
    """Raise InvalidArgument for metadata that would take too long to decode again."""
    bound = ""
    if len(data) > store.VIEW_METADATA_BYTES_MAX:
        bound = f"{store.VIEW_METADATA_BYTES_MAX} bytes"
    elif documents.has_too_many_values(data):
        bound = f"{limits.JSON_VALUES_MAX} JSON values"
    if bound:
        raise errors.InvalidArgument(
            f"The metadata of {ident.dotted()} would be more than {bound}: keep fewer versions"
            " (version.history.num-entries)"
        )


def _apply(
    data: bytes, requirements: Sequence[Any], updates: Sequence[Any], *, now_ms: int
) -> tuple[rules.ViewMetadata, rules.ViewMetadata]:
    """Return the metadata in data, and what the updates make of it."""
    base = rules.decode(data)
    rules.check_view_requirements(base, requirements)
    return base, rules.apply_view_updates(base, updates, now_ms=now_ms)
