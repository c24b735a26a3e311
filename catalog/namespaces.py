"""engine: namespaces: create, load, list, update, drop, with what they hold or empty.

A namespace exists once it was created, and a child needs its parent. Each change is planned inside
its own transaction, so changes of different namespaces, and of different properties of one, never
conflict. A new table or child expects the namespace to exist; a drop checks inside its transaction
that the namespace is still empty. A path has an id that is assigned once and kept for ever, so
dropping and creating again is cheap and keys stay short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from catalog import (
    commit,
    departures,
    errors,
    idents,
    locations,
    namespace_restores,
    owners,
    properties,
    protection,
    receipts,
    records,
    sites,
)
from catalog.store import CatalogStore, LoadedMetadata, Planned, StoredNamespace, StoredPointer
from storage import batch
from storage import errors as storage_errors
from storage import model as storage_model

TABLES_DROPPED_MAX: Final = 1_000
"""Tables and views, and namespaces, that one commit drops with their namespace."""

CHECKED_AT_ONCE: Final = 100
"""Tables, views or namespaces that are checked for rights between two turns of the event loop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Namespace:
    """A namespace. properties: as stored; location: of its new tables."""

    table_bucket: str
    namespace: idents.Namespace
    object_uuid: str
    properties: Mapping[str, str]
    location: str
    created_at_ms: int
    created_by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdatedProperties:
    """The result of an update of properties: names, in the request's order."""

    updated: tuple[str, ...]
    removed: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A table or view of a namespace, as it was read."""

    ident: idents.TableIdent
    entry: StoredPointer


@dataclass(frozen=True, kw_only=True, slots=True)
class NamespaceContents:
    """What a namespace holds. namespaces: it and those in it, parents before their children."""

    namespaces: tuple[StoredNamespace, ...]
    items: tuple[Item, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedContents:
    """What a new namespace holds, for the one `commit.plan` that creates it.

    batches: what else is written. files, cached: as in `Planned`.
    """

    changes: tuple[commit.Change, ...]
    batches: tuple[batch.Batch, ...]
    files: tuple[storage_model.Received, ...]
    cached: tuple[tuple[int, LoadedMetadata], ...]


CheckItem: TypeAlias = Callable[[idents.TableIdent, records.Pointer], None]
"""Raises for a table or view that may not be dropped."""

Fill: TypeAlias = Callable[[records.Place, StoredNamespace, int], Awaitable[PlannedContents]]
"""Plans what a new namespace holds: its place, its row, and the time in Unix milliseconds."""


class Namespaces:
    """The namespaces of every table bucket. Stateless except for its store."""

    def __init__(self, *, store: CatalogStore) -> None:
        self._store = store

    def load(self, table_bucket: str, namespace: idents.Namespace) -> Namespace:
        """Return a namespace. Raises NoSuchWarehouse, NoSuchNamespace."""
        place = self._store.place(table_bucket)
        with self._store.view() as view:
            return _namespace(place, self._store.namespace(view, place, namespace))

    def exists(self, table_bucket: str, namespace: idents.Namespace) -> bool:
        """Say whether there is such a namespace. Raises NoSuchWarehouse."""
        place = self._store.place(table_bucket)
        with self._store.view() as view:
            return self._store.find_namespace(view, place, namespace) is not None

    def list(
        self, table_bucket: str, parent: idents.Namespace | None = None
    ) -> list[idents.Namespace]:
        """Return the direct children of parent, in byte order. Raises NoSuchNamespace."""
        place = self._store.place(table_bucket)
        above = parent or ()
        with self._store.view() as view:
            parent_id = records.ROOT_NAMESPACE_ID
            if above:
                parent_id = self._store.namespace(view, place, above).row.namespace_id
            names = self._store.names(view, place, "namespace", parent_id)
        return [(*above, name) for name in names]

    def names(
        self, table_bucket: str, parent: idents.Namespace = (), *, after: str = ""
    ) -> Iterator[str]:
        """Yield the last levels of parent's direct children, in steps. Raises NoSuchNamespace."""
        return self._store.names_in_steps(table_bucket, "namespace", parent, after=after)

    def location(self, table_bucket: str, namespace: idents.Namespace) -> str:
        """Return the location of new tables of a namespace. Raises NoSuchNamespace."""
        return self.load(table_bucket, namespace).location

    async def create(
        self,
        table_bucket: str,
        namespace: Iterable[str],
        properties: Mapping[str, str] | None = None,
        *,
        by: str,
        via: str = "rest",
        judge: owners.Recheck | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> Namespace:
        """Create a namespace and return it. judge: None for a caller with all rights.

        Raises InvalidName, InvalidLocation, NoSuchNamespace for a missing parent,
        NamespaceAlreadyExists.
        """
        levels = idents.check_namespace(tuple(namespace))
        stored = dict(properties or {})
        _check_properties(stored, table_bucket=table_bucket)
        place = self._store.place(table_bucket)
        object_uuid = sites.hyphenated(self._store.new_id())

        now_ms = self._store.now_ms()

        def decide(reading: batch.Reading) -> batch.Decided[Namespace]:
            parent = self._parent(reading, place, levels)
            if self._store.find_namespace(reading, place, levels) is not None:
                raise errors.NamespaceAlreadyExists(
                    f"Namespace already exists: {idents.dotted(levels)}"
                )
            row, creation = plan_creation(
                reading,
                place,
                levels,
                parent,
                properties=stored,
                object_uuid=object_uuid,
                by=by,
                via=via,
                now_ms=now_ms,
            )
            result = _describe(place, levels, row)
            note = _receipt(receipt, {"properties": stored, "location": result.location})
            return batch.Decided(result=result, batch=batch.merge((creation, *note)))

        return await self._store.decide(decide, place=place, judge=judge)

    async def update(
        self,
        table_bucket: str,
        namespace: idents.Namespace,
        *,
        updates: Mapping[str, str],
        removals: Iterable[str],
        by: str,
        via: str = "rest",
        judge: owners.Recheck | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> UpdatedProperties:
        """Set and remove properties. Raises NoSuchNamespace, PropertiesOverlap, InvalidLocation."""
        removed_names = tuple(dict.fromkeys(removals))
        both = sorted(set(removed_names).intersection(updates))
        if both:
            raise errors.PropertiesOverlap(
                f"Invalid namespace update, cannot simultaneously set and remove keys: {both}"
            )
        _check_properties(updates, table_bucket=table_bucket)
        place = self._store.place(table_bucket)

        now_ms = self._store.now_ms()

        def decide(reading: batch.Reading) -> batch.Decided[UpdatedProperties]:
            namespace_row = self._store.namespace(reading, place, namespace)
            parent = self._parent(reading, place, namespace)
            old = namespace_row.row
            stored = {
                name: value for name, value in old.properties.items() if name not in removed_names
            } | dict(updates)
            properties.check_namespace_properties(stored)
            result = UpdatedProperties(
                updated=tuple(updates),
                removed=tuple(name for name in removed_names if name in old.properties),
                missing=tuple(name for name in removed_names if name not in old.properties),
            )
            note = _receipt(receipt, describe_update(result))
            if stored == old.properties:
                return batch.Decided(result=result, batch=batch.merge(note))
            row = msgspec.structs.replace(
                old, properties=stored, modified_at_ms=now_ms, modified_by=by
            )
            change = _change(
                namespace,
                parent,
                before=namespace_row.value,
                after=row,
                summary={"operation": "update-namespace"},
            )
            done = commit.plan(place, [change], author=by, via=via, time_ms=now_ms)
            return batch.Decided(result=result, batch=batch.merge((done, *note)))

        return await self._store.decide(decide, place=place, judge=judge)

    async def drop(
        self,
        table_bucket: str,
        namespace: idents.Namespace,
        *,
        by: str,
        via: str = "rest",
        judge: owners.Recheck | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> None:
        """Drop an empty namespace. Raises NoSuchNamespace, NamespaceNotEmpty, Protected."""
        place = self._store.place(table_bucket)

        now_ms = self._store.now_ms()

        def decide(reading: batch.Reading) -> batch.Decided[None]:
            namespace_row = self._store.namespace(reading, place, namespace)
            parent = self._parent(reading, place, namespace)
            _check_empty(reading, place, namespace, namespace_row.row.namespace_id)
            _check_unprotected(namespace_row)
            change = _change(
                namespace,
                parent,
                before=namespace_row.value,
                after=None,
                summary={"operation": "drop-namespace"},
            )
            done = commit.plan(place, [change], author=by, via=via, time_ms=now_ms)
            kept = namespace_restores.plan_drop(
                place, [namespace_row], (), by=by, now_ms=now_ms, day_ms=self._store.day_ms
            )
            note = _receipt(receipt, None)
            return batch.Decided(result=None, batch=batch.merge((done, kept, *note)))

        # Dropping leads to freeing, so a full disk lets it through.
        await self._store.decide(decide, place=place, judge=judge, makes_room=True)

    async def drop_whole(
        self,
        table_bucket: str,
        namespace: idents.Namespace,
        *,
        check: CheckItem,
        check_child: Callable[[idents.Namespace], None] | None = None,
        purge: bool | None = False,
        by: str,
        via: str = "rest",
        judge: owners.Recheck | None = None,
        receipt: receipts.Receipt | None = None,
        successor: Mapping[str, str] | None = None,
        fill: Fill | None = None,
    ) -> NamespaceContents:
        """Drop a namespace with all its tables and views, as one commit, and return what it held.
        successor: the properties of a new namespace of its name, created in the same commit. fill:
        plans what the successor holds.

        check: raises for a table or view that may not be dropped, check_child for a namespace in
        it; then nothing is. Without check_child namespaces in it are refused. purge: as in
        `Tables.drop`. Raises NoSuchNamespace, NamespaceNotEmpty for namespaces in it, Protected,
        InvalidCatalogRequest for too many tables, views and namespaces.
        """

        async def plan() -> Planned[NamespaceContents]:
            if judge is not None:
                judge()
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                place = self._store.place(table_bucket, view)
                contents = self._contents(view, place, namespace, nested=check_child is not None)
                parent = self._parent(view, place, namespace)
            await check_contents(contents, check=check, check_child=check_child)
            for each in contents.namespaces:
                _check_unprotected(each)
            for item in contents.items:
                await protection.check(self._store, item.ident, item.entry.pointer)
            changes = [
                _departing(
                    item,
                    departures.plan_drop(
                        place.bucket.settings,
                        # A view is never purged: it has no files but its metadata.
                        purge=purge if item.entry.pointer.object_type == "table" else False,
                        now_ms=departures.dropped_after(item.entry.pointer, now_ms),
                        day_ms=self._store.day_ms,
                    ),
                )
                for item in contents.items
            ]
            planned = PlannedContents(changes=(), batches=(), files=(), cached=())
            rows = {each.namespace: each for each in contents.namespaces}
            for each in reversed(contents.namespaces):
                above = rows.get(each.namespace[:-1], parent)
                is_replaced = successor is not None and each.namespace == namespace
                after = self._successor(each.row, successor, by, now_ms) if is_replaced else None
                changes.append(
                    _change(
                        each.namespace,
                        above,
                        before=each.value,
                        after=after,
                        summary={
                            "operation": "replace-namespace" if is_replaced else "drop-namespace"
                        },
                    )
                )
                if after is not None and fill is not None:
                    planned = await fill(place, _stored(place, namespace, above, after), now_ms)
            changes = _succeeded(changes, planned.changes)
            committed = commit.plan(place, changes, author=by, via=via, time_ms=now_ms)
            entering = frozenset(
                records.pointer_key(place, change.object_type, change.namespace_id, change.name)
                for change in planned.changes
            )
            settled = batch.Batch(
                derive=tuple(
                    _check_settled(place, each.namespace, each.row.namespace_id, entering)
                    for each in contents.namespaces
                )
            )
            held = departures.hold_settings(place)
            note = _receipt(receipt, None)
            if departures.is_purge(place.bucket.settings, purge=purge):
                kept = batch.Batch()
            else:
                kept = namespace_restores.plan_drop(
                    place,
                    contents.namespaces,
                    (
                        (item.entry.pointer.object_type, item.entry.pointer.object_uuid)
                        for item in contents.items
                    ),
                    by=by,
                    now_ms=now_ms,
                    day_ms=self._store.day_ms,
                )
            # Dropping leads to freeing, so a full disk lets it through.
            whole = msgspec.structs.replace(
                batch.merge((*planned.batches, committed, held, settled, kept, *note)),
                makes_room=fill is None,
            )
            return Planned(result=contents, batch=whole, files=planned.files, cached=planned.cached)

        return await self._store.write(plan, keys=(), place=self._store.place(table_bucket))

    async def undrop(
        self,
        table_bucket: str,
        namespace: idents.Namespace,
        *,
        by: str,
        via: str = "undrop",
        permit: owners.Permit = owners.refuse,
        judge: owners.Recheck | None = None,
        judge_item: owners.Undrop | None = None,
        judge_child: Callable[[idents.Namespace], None] | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> namespace_restores.Restored:
        """Restore the namespace of a path that was dropped last, as one commit, with the tables and
        views that were dropped with it and are still kept.

        permit: called for each location that another table or view took since. judge: of the
        namespace itself; judge_child, judge_item: called for each namespace in it and for each
        table and view. If one of them raises, nothing is restored. Raises
        NamespaceNotRestorable, NamespaceAlreadyExists, NoSuchNamespace for a missing parent,
        InvalidLocation, MetadataFileMissing.
        """

        async def plan() -> Planned[namespace_restores.Restored]:
            if judge is not None:
                judge()
            now_ms = self._store.now_ms()
            with self._store.index.view() as view:
                place = self._store.place(table_bucket, view)
                if self._store.find_namespace(view, place, namespace) is not None:
                    raise errors.NamespaceAlreadyExists(
                        f"Namespace already exists: {idents.dotted(namespace)}"
                    )
                entry = namespace_restores.find(self._store, view, place, namespace)
                contents = namespace_restores.find_contents(self._store, view, place, entry)
            await _judge_restore(
                place, entry, contents, judge_item=judge_item, judge_child=judge_child
            )
            with self._store.index.view() as view:
                restored, returning = namespace_restores.plan(
                    view,
                    place,
                    entry,
                    contents,
                    self._parent(view, place, namespace),
                    by=by,
                    via=via,
                    now_ms=now_ms,
                    permit=permit,
                )
            for _, pointer in restored.items:
                await self._check_readable(place, pointer)
            note = _receipt(receipt, None)
            return Planned(result=restored, batch=batch.merge((returning, *note)))

        return await self._store.write(plan, keys=(), place=self._store.place(table_bucket))

    async def _check_readable(self, place: records.Place, pointer: records.Pointer) -> None:
        """Raise MetadataFileMissing for a table or view without its metadata file."""
        if pointer.metadata_location is None:
            return
        if pointer.object_type == "table":
            await self._store.fetch_metadata(pointer.metadata_location, place=place)
        else:
            await self._store.fetch_view(pointer.metadata_location, place=place)

    def _successor(
        self,
        row: records.NamespaceRow,
        properties: Mapping[str, str] | None,
        by: str,
        now_ms: int,
    ) -> records.NamespaceRow:
        """Return the row of a new namespace under the name of another, with an id of its own."""
        return records.NamespaceRow(
            namespace_id=row.namespace_id,
            object_uuid=sites.hyphenated(self._store.new_id()),
            properties=dict(properties or {}),
            created_at_ms=now_ms,
            created_by=by,
            modified_at_ms=now_ms,
            modified_by=by,
        )

    def contents(self, table_bucket: str, namespace: idents.Namespace) -> NamespaceContents:
        """Return what a namespace holds, at every depth. Raises as `drop_whole` does."""
        with self._store.index.view() as view:
            place = self._store.place(table_bucket, view)
            return self._contents(view, place, namespace, nested=True)

    def _contents(
        self,
        reading: batch.Reading,
        place: records.Place,
        namespace: idents.Namespace,
        *,
        nested: bool,
    ) -> NamespaceContents:
        object_types: tuple[idents.PointerType, ...] = ("table", "view")
        held = [self._store.namespace(reading, place, namespace)]
        items: list[Item] = []
        for each in held:  # it grows by the namespaces that are met
            namespace_id = each.row.namespace_id
            if not nested:
                _check_empty(reading, place, namespace, namespace_id, object_types=("namespace",))
            bound = TABLES_DROPPED_MAX + 1
            names = self._store.names(reading, place, "namespace", namespace_id, limit=bound)
            held += [
                self._store.namespace(reading, place, (*each.namespace, name)) for name in names
            ]
            for object_type in object_types:
                for name in self._store.names(
                    reading, place, object_type, namespace_id, limit=bound
                ):
                    ident = idents.TableIdent(
                        table_bucket=place.table_bucket, namespace=each.namespace, name=name
                    )
                    entry = self._store.find_pointer(reading, place, object_type, ident)
                    assert entry is not None, "a listed name exists in the same view"
                    items.append(Item(ident=ident, entry=entry))
            if len(items) > TABLES_DROPPED_MAX or len(held) > TABLES_DROPPED_MAX:
                raise errors.InvalidCatalogRequest(
                    f"Namespace {idents.dotted(namespace)} holds more than {TABLES_DROPPED_MAX}"
                    " tables and views, or namespaces: drop some of them first"
                )
        return NamespaceContents(namespaces=tuple(held), items=tuple(items))

    def _parent(
        self, reading: batch.Reading, place: records.Place, namespace: idents.Namespace
    ) -> StoredNamespace | None:
        if len(namespace) == 1:
            return None
        return self._store.namespace(reading, place, namespace[:-1])


def plan_creation(
    reading: batch.Reading,
    place: records.Place,
    namespace: idents.Namespace,
    parent: StoredNamespace | None,
    *,
    properties: Mapping[str, str],
    object_uuid: str,
    by: str,
    via: str,
    now_ms: int,
) -> tuple[records.NamespaceRow, batch.Batch]:
    """Return the row of a new namespace, and the Batch that creates it. parent: None at the top."""
    created, change, interning = describe_creation(
        reading,
        place,
        namespace,
        parent,
        properties=properties,
        object_uuid=object_uuid,
        by=by,
        now_ms=now_ms,
    )
    done = commit.plan(place, [change], author=by, via=via, time_ms=now_ms)
    return created.row, batch.merge((interning, done))


def describe_creation(
    reading: batch.Reading,
    place: records.Place,
    namespace: idents.Namespace,
    parent: StoredNamespace | None,
    *,
    properties: Mapping[str, str],
    object_uuid: str,
    by: str,
    now_ms: int,
) -> tuple[StoredNamespace, commit.Change, batch.Batch]:
    """Return a new namespace as it will be stored, its part of a commit, and what else is written.

    parent: None at the top.
    """
    namespace_id, interning = intern(reading, place, namespace)
    row = records.NamespaceRow(
        namespace_id=namespace_id,
        object_uuid=object_uuid,
        properties=dict(properties),
        created_at_ms=now_ms,
        created_by=by,
        modified_at_ms=now_ms,
        modified_by=by,
    )
    change = _change(
        namespace, parent, before=None, after=row, summary={"operation": "create-namespace"}
    )
    return _stored(place, namespace, parent, row), change, interning


def _stored(
    place: records.Place,
    namespace: idents.Namespace,
    parent: StoredNamespace | None,
    row: records.NamespaceRow,
) -> StoredNamespace:
    """Return a namespace as a commit stores it. parent: None at the top."""
    parent_id = records.ROOT_NAMESPACE_ID if parent is None else parent.row.namespace_id
    return StoredNamespace(
        namespace=namespace,
        key=records.pointer_key(place, "namespace", parent_id, namespace[-1]),
        value=records.encode(row),
        row=row,
    )


async def check_contents(
    contents: NamespaceContents,
    *,
    check: Callable[[idents.TableIdent, records.Pointer], None],
    check_child: Callable[[idents.Namespace], None] | None,
) -> None:
    """Call check for each table and view, and check_child for each nested namespace.

    Lets other requests be served in between: policies are evaluated for each of them.
    """
    for number, child in enumerate(contents.namespaces[1:], 1):
        assert check_child is not None, "without it there are no nested namespaces"
        check_child(child.namespace)
        if number % CHECKED_AT_ONCE == 0:
            await asyncio.sleep(0)
    for number, item in enumerate(contents.items, 1):
        check(item.ident, item.entry.pointer)
        if number % CHECKED_AT_ONCE == 0:
            await asyncio.sleep(0)


async def _judge_restore(
    place: records.Place,
    entry: namespace_restores.NamespaceEntry,
    contents: namespace_restores.KeptContents,
    *,
    judge_item: owners.Undrop | None,
    judge_child: Callable[[idents.Namespace], None] | None,
) -> None:
    """Judge each namespace, table and view of a restore, as `check_contents` does for a drop."""
    for number, (child, _) in enumerate(entry.dropped.namespaces[1:], 1):
        if judge_child is not None:
            judge_child(child)
        if number % CHECKED_AT_ONCE == 0:
            await asyncio.sleep(0)
    for number, (_, item) in enumerate(contents.kept, 1):
        if judge_item is not None:
            judge_item(place, item.ident, item.ident, item.dropped.pointer)
        if number % CHECKED_AT_ONCE == 0:
            await asyncio.sleep(0)


def _departing(item: Item, departure: departures.DropPlan) -> commit.Change:
    return commit.Change(
        object_type=item.entry.pointer.object_type,
        namespace=item.ident.namespace,
        namespace_id=item.entry.namespace_id,
        name=item.ident.name,
        before=item.entry.value,
        after=None,
        summary=departure.summary,
        leaving=departure.leaving,
    )


def _succeeded(
    leaving: Sequence[commit.Change], entering: Sequence[commit.Change]
) -> list[commit.Change]:
    """Return the changes of a commit in which tables and views take the names of others."""
    by_name = {(each.object_type, each.namespace_id, each.name): each for each in leaving}
    taken: list[commit.Change] = []
    for change in entering:
        before = by_name.pop((change.object_type, change.namespace_id, change.name), None)
        if before is not None:
            change = msgspec.structs.replace(
                change, before=before.before, leaving=before.leaving, holder=None
            )
        taken.append(change)
    return [*by_name.values(), *taken]


def _check_unprotected(namespace_row: StoredNamespace) -> None:
    what = f"Namespace {idents.dotted(namespace_row.namespace)}"
    departures.check_unprotected(namespace_row.row.properties, what)


def describe_update(result: UpdatedProperties) -> dict[str, list[str]]:
    """Return an update's result as JSON: names updated, removed and missing."""
    return {
        "updated": list(result.updated),
        "removed": list(result.removed),
        "missing": list(result.missing),
    }


def _change(
    namespace: idents.Namespace,
    parent: StoredNamespace | None,
    *,
    before: bytes | None,
    after: records.NamespaceRow | None,
    summary: Mapping[str, Any],
) -> commit.Change:
    return commit.Change(
        object_type="namespace",
        namespace=namespace[:-1],
        namespace_id=records.ROOT_NAMESPACE_ID if parent is None else parent.row.namespace_id,
        name=namespace[-1],
        before=before,
        after=after,
        holder=None if parent is None else parent.holder,
        summary=summary,
    )


def _check_settled(
    place: records.Place,
    namespace: idents.Namespace,
    namespace_id: int,
    entering: frozenset[bytes],
) -> batch.Derivation:
    """Return the derivation that has the drop planned again if the namespace is not empty.

    entering: the keys of what the commit itself creates in it.
    """

    def check(reading: batch.Reading) -> tuple[batch.Write, ...]:
        try:
            _check_empty(reading, place, namespace, namespace_id, entering=entering)
        except errors.NamespaceNotEmpty as error:
            raise storage_errors.ExpectationFailed(str(error)) from error
        return ()

    return check


def _check_empty(
    reading: batch.Reading,
    place: records.Place,
    namespace: idents.Namespace,
    namespace_id: int,
    *,
    object_types: tuple[records.ObjectType, ...] = ("table", "view", "namespace"),
    entering: frozenset[bytes] = frozenset(),
) -> None:
    """Raise NamespaceNotEmpty if a namespace has rows beside those of entering, by key."""
    for object_type in object_types:
        prefix = records.pointer_range(place, object_type, namespace_id)
        for key, _ in reading.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix)):
            if key in entering:
                continue
            raise errors.NamespaceNotEmpty(f"Namespace {idents.dotted(namespace)} is not empty")


def intern(
    reading: batch.Reading, place: records.Place, namespace: idents.Namespace
) -> tuple[int, batch.Batch]:
    """Return the id of a path, and the Batch that assigns one if it has none."""
    path_key = records.namespace_path_key(place.bucket_id, namespace)
    stored_id = reading.get(batch.Store.NAMESPACES, path_key)
    if stored_id is not None:
        return records.decode_integer(stored_id), batch.Batch()
    count_key = records.namespace_count_key(place.bucket_id)
    count = reading.get(batch.Store.NAMESPACES, count_key)
    number = (0 if count is None else records.decode_integer(count)) + 1
    value = records.encode_integer(number)
    path = records.encode(records.NamespacePath(namespace=namespace))
    id_key = records.namespace_id_key(place.bucket_id, number)
    store = batch.Store.NAMESPACES
    return number, batch.Batch(
        expects=(
            batch.Expect(store=store, key=count_key, value=count),
            batch.Expect(store=store, key=path_key, value=None),
        ),
        writes=(
            batch.Put(store=store, key=count_key, value=value),
            batch.Put(store=store, key=path_key, value=value),
            batch.Put(store=store, key=id_key, value=path),
        ),
    )


def _check_properties(changes: Mapping[str, str], *, table_bucket: str) -> None:
    properties.check_namespace_properties(changes)
    location = changes.get(properties.NAMESPACE_LOCATION)
    if location is not None:
        locations.check_namespace_location(location, table_bucket=table_bucket)


def _namespace(place: records.Place, namespace_row: StoredNamespace) -> Namespace:
    return _describe(place, namespace_row.namespace, namespace_row.row)


def _describe(
    place: records.Place, namespace: idents.Namespace, row: records.NamespaceRow
) -> Namespace:
    return Namespace(
        table_bucket=place.table_bucket,
        namespace=namespace,
        object_uuid=row.object_uuid,
        properties=row.properties,
        location=locations.format_uri(
            place.table_bucket,
            locations.tables_path(namespace, row.properties, table_bucket=place.table_bucket),
        ),
        created_at_ms=row.created_at_ms,
        created_by=row.created_by,
    )


def _receipt(receipt: receipts.Receipt | None, reply: object) -> tuple[batch.Batch, ...]:
    return () if receipt is None else (receipt.plan(reply=reply),)
