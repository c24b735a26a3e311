"""engine: pointers of tables and views: finding, dropping, renaming, registering.

A table and a view differ here in their object type and in the error for one that does not exist;
both have one space of names and one of locations. Each change of a pointer is one index transaction
that expects the pointer as it was read. Reads and writes no metadata file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from catalog import (
    claims,
    commit,
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
from storage import batch

PointerType: TypeAlias = Literal["table", "view"]


class Pointers:
    """The pointers of all tables, or of all views. Stateless beside its store."""

    def __init__(self, *, store: store.CatalogStore, object_type: PointerType) -> None:
        self._store = store
        self._object_type = object_type

    def read(self, ident: idents.TableIdent) -> records.Pointer:
        """Return a pointer. Raises NoSuchWarehouse, and NoSuchTable or NoSuchView."""
        with self._store.index.view() as view:
            return self.entry(view, self._store.place(ident.table_bucket, view), ident).pointer

    def entry(
        self, reading: batch.Reading, place: records.Place, ident: idents.TableIdent
    ) -> store.FoundPointer:
        """Return a pointer's row. Raises NoSuchTable or NoSuchView."""
        entry = self._store.find_pointer(reading, place, self._object_type, ident)
        if entry is not None:
            return entry
        if self._object_type == "view":
            raise errors.NoSuchView(f"View does not exist: {ident.dotted()}")
        raise errors.NoSuchTable(f"Table does not exist: {ident.dotted()}")

    def keys(self, place: records.Place, *pointers: idents.TableIdent) -> list[bytes]:
        """Return the keys for which writers of these pointers queue.

        A namespace without an id has none.
        """
        keys = []
        for ident in pointers:
            namespace_id = self._store.namespace_id(self._store.index, place, ident.namespace)
            if namespace_id:
                name = ident.name.encode("utf-8", "replace").decode()
                keys.append(records.pointer_key(place, self._object_type, namespace_id, name))
        return keys

    async def drop(
        self,
        ident: idents.TableIdent,
        summary: Mapping[str, Any],
        *,
        version_token: str | None = None,
        by: str,
        via: str,
        judge: owners.Judge | None,
        receipt: receipts.Receipt | None,
        check: Callable[[records.Pointer], Awaitable[object]] | None = None,
    ) -> records.Pointer:
        """Remove a pointer, and return it. Its files stay.

        judge, check: called with the pointer while the write is planned; check raises if the
        pointer must stay. Raises as `read` does, StaleVersionToken, and what the two raise.
        """
        place = self._store.place(ident.table_bucket)

        async def plan() -> store.Planned[records.Pointer]:
            with self._store.index.view() as view:
                entry = self.entry(view, place, ident)
            if judge is not None:
                judge(place, ident, entry.pointer)
            check_token(entry.pointer, version_token)
            if check is not None:
                await check(entry.pointer)
            removed = self.change(
                ident, entry.namespace_id, before=entry, after=None, summary=summary
            )
            committed = commit.plan(
                place, [removed], author=by, via=via, time_ms=self._store.now_ms()
            )
            note = () if receipt is None else (receipt.plan(pointer=entry.pointer),)
            # A drop leads to freed bytes, so a full disk does not refuse it.
            whole = msgspec.structs.replace(batch.merge((committed, *note)), makes_room=True)
            return store.Planned(result=entry.pointer, batch=whole)

        return await self._store.write(plan, keys=self.keys(place, ident), place=place)

    async def rename(
        self,
        source: idents.TableIdent,
        target: idents.TableIdent,
        *,
        version_token: str | None = None,
        by: str,
        via: str,
        judge: owners.Judge | None,
        receipt: receipts.Receipt | None,
    ) -> records.Pointer:
        """Give a pointer another name, in any namespace of its table bucket. Its files stay.

        judge: called with the pointer while the write is planned. Raises as `read` does,
        NoSuchNamespace, TableAlreadyExists, ViewAlreadyExists, InvalidName, StaleVersionToken.
        """
        idents.check_name(target.name, self._object_type)
        place = self._store.place(source.table_bucket)
        assert source.table_bucket == target.table_bucket, "a rename stays in its table bucket"

        async def plan() -> store.Planned[records.Pointer]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                entry = self.entry(view, place, source)
                if judge is not None:
                    judge(place, source, entry.pointer)
                check_token(entry.pointer, version_token)
                holder = self._store.namespace(view, place, target.namespace)
                sites.check_rename_free(self._store, view, place, source, target)
            pointer = msgspec.structs.replace(
                entry.pointer, modified_at_ms=later(now_ms, entry.pointer), modified_by=by
            )
            summary = {"operation": "rename", "from": source.dotted(), "to": target.dotted()}
            changes = (
                self.change(source, entry.namespace_id, before=entry, after=None, summary=summary),
                self.change(
                    target,
                    holder.row.namespace_id,
                    before=None,
                    after=pointer,
                    summary=summary,
                    holder=holder,
                ),
            )
            committed = commit.plan(place, changes, author=by, via=via, time_ms=now_ms)
            note = () if receipt is None else (receipt.plan(status=204),)
            return store.Planned(result=pointer, batch=batch.merge((committed, *note)))

        return await self._store.write(plan, keys=self.keys(place, source, target), place=place)

    async def swap(
        self,
        first: idents.TableIdent,
        second: idents.TableIdent,
        *,
        by: str,
        via: str,
        judge: owners.Judge | None,
        receipt: receipts.Receipt | None,
    ) -> None:
        """Exchange the names of two pointers of one table bucket. Their files stay.

        judge: called with each while the write is planned. Raises as `read` does.
        """
        place = self._store.place(first.table_bucket)
        assert first.table_bucket == second.table_bucket, "a swap stays in its table bucket"

        async def plan() -> store.Planned[None]:
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                entries = {ident: self.entry(view, place, ident) for ident in (first, second)}
            if judge is not None:
                for ident, entry in entries.items():
                    judge(place, ident, entry.pointer)
            changes = []
            for ident, other in ((first, second), (second, first)):
                moved = entries[other].pointer
                pointer = msgspec.structs.replace(
                    moved, modified_at_ms=later(now_ms, moved), modified_by=by
                )
                summary = {"operation": "swap", "from": other.dotted(), "to": ident.dotted()}
                changes.append(
                    self.change(
                        ident,
                        entries[ident].namespace_id,
                        before=entries[ident],
                        after=pointer,
                        summary=summary,
                    )
                )
            note = () if receipt is None else (receipt.plan(status=204),)
            if first == second:
                return store.Planned(result=None, batch=batch.merge(note) if note else None)
            committed = commit.plan(place, changes, author=by, via=via, time_ms=now_ms)
            return store.Planned(result=None, batch=batch.merge((committed, *note)))

        await self._store.write(plan, keys=self.keys(place, first, second), place=place)

    def plan_registration(
        self,
        place: records.Place,
        ident: idents.TableIdent,
        metadata_location: str,
        *,
        location: str,
        metadata_uuid: str | None,
        holder: store.FoundNamespace,
        before: store.FoundPointer | None,
        new_uuid: str,
        by: str,
        via: str,
        now_ms: int,
        permit: owners.Permit,
        receipt: receipts.Receipt | None,
    ) -> tuple[records.Pointer, batch.Batch]:
        """Return a pointer to a metadata file that a client wrote, and the Batch that writes it.

        location, metadata_uuid: as the file names them. before: a pointer of this name, which is
        replaced. new_uuid: of a pointer whose location never had an owner. permit: called for the
        owner of the location. Raises InvalidLocation, and what permit raises.
        """
        path = locations.parse_location(location, table_bucket=place.table_bucket)
        with self._store.index.view() as view:
            owner_uuid = new_uuid
            if before is not None:
                owner_uuid = before.pointer.object_uuid
            else:
                row = claims.find_claimable(
                    view,
                    place,
                    path,
                    namespace_id=holder.row.namespace_id,
                    name=ident.name,
                    now_ms=now_ms,
                )
                if row is not None and row.object_type == self._object_type:
                    owner_uuid = row.object_uuid
            claim = claims.claim(
                view,
                place,
                path,
                object_uuid=owner_uuid,
                object_type=self._object_type,
                namespace_id=holder.row.namespace_id,
                name=ident.name,
                now_ms=now_ms,
                permit=permit,
                standing_uuid=None if before is None else before.pointer.object_uuid,
            )
        pointer = self.next(
            None if before is None else before.pointer,
            object_uuid=owner_uuid,
            metadata_uuid=metadata_uuid,
            metadata_location=metadata_location,
            location=location,
            by=by,
            now_ms=now_ms,
        )
        registered = self.change(
            ident,
            holder.row.namespace_id,
            before=before,
            after=pointer,
            summary={"operation": "register"},
            holder=holder,
        )
        committed = commit.plan(place, [registered], author=by, via=via, time_ms=now_ms)
        note = () if receipt is None else (receipt.plan(pointer=pointer),)
        return pointer, batch.merge((claim, committed, *note))

    def plan_move(
        self,
        place: records.Place,
        ident: idents.TableIdent,
        entry: store.FoundPointer,
        location: str,
        *,
        now_ms: int,
        permit: owners.Permit,
    ) -> batch.Batch:
        """Return the claim of an existing table or view on a location that an update names.

        permit: called if another owns the location, or it has files. Raises InvalidLocation, and
        what permit raises.
        """
        object_uuid = entry.pointer.object_uuid
        with self._store.index.view() as view:
            return claims.claim(
                view,
                place,
                locations.parse_location(location, table_bucket=place.table_bucket),
                object_uuid=object_uuid,
                object_type=self._object_type,
                namespace_id=entry.namespace_id,
                name=ident.name,
                now_ms=now_ms,
                permit=permit,
                standing_uuid=object_uuid,
            )

    def next(
        self,
        old: records.Pointer | None,
        *,
        object_uuid: str,
        metadata_uuid: str | None,
        metadata_location: str | None,
        location: str,
        by: str,
        now_ms: int,
    ) -> records.Pointer:
        """Return the pointer after old; None for the first. metadata_uuid: as metadata names it."""
        return records.Pointer(
            object_type=self._object_type,
            object_uuid=object_uuid,
            table_uuid=metadata_uuid,
            metadata_location=metadata_location,
            location=properties.plain_uri(location),
            created_at_ms=now_ms if old is None else old.created_at_ms,
            created_by=by if old is None else old.created_by,
            modified_at_ms=now_ms,
            modified_by=by,
        )

    def change(
        self,
        ident: idents.TableIdent,
        namespace_id: int,
        *,
        before: store.FoundPointer | None,
        after: records.Pointer | None,
        summary: Mapping[str, Any],
        holder: store.FoundNamespace | None = None,
    ) -> commit.Change:
        """Return a pointer's part of a commit. holder: the namespace of a new one."""
        return commit.Change(
            object_type=self._object_type,
            namespace=ident.namespace,
            namespace_id=namespace_id,
            name=ident.name,
            before=None if before is None else before.value,
            after=after,
            holder=None if holder is None else holder.holder,
            summary=summary,
        )


def later(now_ms: int, before: records.Pointer) -> int:
    """Return a time after a pointer's last change, so that its version token changes with it."""
    return max(now_ms, before.modified_at_ms + 1)


def check_token(pointer: records.Pointer, version_token: str | None) -> None:
    """Raise StaleVersionToken if version_token is that of another pointer; None fits any."""
    if version_token is not None and version_token != records.version_token(pointer):
        raise errors.StaleVersionToken(
            "Provided version token does not match the table version token."
        )
