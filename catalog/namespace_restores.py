"""engine: namespaces that were dropped, and are restored with what was dropped with them.

A drop of a namespace that purges nothing leaves a DroppedNamespace row, which names the tables and
views of the same commit. Restoring it is one commit too: the namespaces come back with their
properties, and so does what is still kept of their tables and views. What was restored, discarded
or dropped again on its own is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from catalog import claims, commit, departures, errors, idents, locations, owners, records
from catalog.pointers import DroppedEntry, Pointers, later
from catalog.store import CatalogStore, StoredNamespace
from storage import batch

Refs: TypeAlias = Iterable[tuple[idents.PointerType, str]]

OBJECT_TYPES: Final[tuple[idents.PointerType, ...]] = ("table", "view")


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """What came back. namespaces: parents before their children. missing: uuids of tables and views
    of which nothing is kept under the namespace any more."""

    namespaces: tuple[idents.Namespace, ...]
    items: tuple[tuple[idents.TableIdent, records.Pointer], ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NamespaceEntry:
    """The row of a dropped namespace, stored and decoded."""

    key: bytes
    value: bytes
    dropped: records.DroppedNamespace


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptContents:
    """The tables and views of a dropped namespace. missing: uuids, as in `Restored`."""

    kept: tuple[tuple[idents.PointerType, DroppedEntry], ...]
    missing: tuple[str, ...]


def plan_drop(
    place: records.Place,
    namespaces: Sequence[StoredNamespace],
    objects: Refs,
    *,
    by: str,
    now_ms: int,
    day_ms: int,
) -> batch.Batch:
    """Return the Batch that remembers a dropped namespace.

    namespaces: it and those in it, parents before their children. objects: the tables and views
    that leave in the same commit and are kept.
    """
    days = departures.dropped_table_days(place.bucket.settings)
    # If the clock was set back for the drop, the days count from the last change.
    counted_from_ms = max(now_ms, *(each.row.modified_at_ms for each in namespaces))
    row = records.DroppedNamespace(
        namespaces=tuple((each.namespace, each.row) for each in namespaces),
        objects=tuple(objects),
        dropped_at_ms=now_ms,
        dropped_by=by,
        kept_until_ms=counted_from_ms + days * day_ms,
    )
    key = records.dropped_namespace_key(place, namespaces[0].row, now_ms)
    put = batch.Put(store=batch.Store.POINTERS, key=key, value=records.encode(row))
    return batch.Batch(writes=(put,))


def find(
    store: CatalogStore,
    reading: batch.Reading,
    place: records.Place,
    namespace: idents.Namespace,
) -> NamespaceEntry:
    """Return the namespace of a path that was dropped last. Raises NamespaceNotRestorable."""
    namespace_id = store.namespace_id(reading, place, namespace)
    if namespace_id:
        prefix = records.dropped_namespace_range(place, namespace_id)
        rows = reading.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix), reverse=True)
        for key, value in rows:
            dropped = records.decode(value, records.DroppedNamespace)
            return NamespaceEntry(key=key, value=value, dropped=dropped)
    raise errors.NamespaceNotRestorable(
        f"No dropped namespace {idents.dotted(namespace)} can be restored"
    )


def kept_uuids(reading: batch.Reading, place: records.Place) -> frozenset[str]:
    """Return the uuids of the namespaces of a table bucket that were dropped and can be restored.

    A namespace that is not among them and does not exist never returns.
    """
    prefix = records.dropped_namespace_range(place)
    rows = reading.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix))
    return frozenset(
        row.object_uuid
        for _, value in rows
        for _, row in records.decode(value, records.DroppedNamespace).namespaces
    )


def find_contents(
    store: CatalogStore, reading: batch.Reading, place: records.Place, entry: NamespaceEntry
) -> KeptContents:
    """Return what is still kept of the tables and views of a dropped namespace."""
    namespaces = {namespace for namespace, _ in entry.dropped.namespaces}
    pointers = {each: Pointers(store=store, object_type=each) for each in OBJECT_TYPES}
    kept: list[tuple[idents.PointerType, DroppedEntry]] = []
    missing: list[str] = []
    for object_type, object_uuid in entry.dropped.objects:
        try:
            item = pointers[object_type].find_departed(reading, place, object_uuid)
        except errors.NotRestorable:
            missing.append(object_uuid)
            continue
        is_of_drop = (item.dropped.how, item.dropped.dropped_at_ms) == (
            "drop",
            entry.dropped.dropped_at_ms,
        )
        if item.ident.namespace in namespaces and is_of_drop:
            kept.append((object_type, item))
        else:
            missing.append(object_uuid)
    return KeptContents(kept=tuple(kept), missing=tuple(missing))


def plan(
    reading: batch.Reading,
    place: records.Place,
    entry: NamespaceEntry,
    contents: KeptContents,
    parent: StoredNamespace | None,
    *,
    by: str,
    via: str,
    now_ms: int,
    permit: owners.Permit,
) -> tuple[Restored, batch.Batch]:
    """Return what a restore brings back, and its Batch. parent: None at the top.

    permit: called for each location that another table or view took since. Raises InvalidLocation
    if one that exists has it now, and what permit raises.
    """
    changes: list[commit.Change] = []
    holders: dict[idents.Namespace, StoredNamespace | None] = {}
    for namespace, row in entry.dropped.namespaces:
        above = holders.get(namespace[:-1], parent)
        change, holders[namespace] = _returning(place, namespace, row, above, by, now_ms)
        changes.append(change)
    items: list[tuple[idents.TableIdent, records.Pointer]] = []
    batches: list[batch.Batch] = []
    for object_type, kept in contents.kept:
        holder = holders[kept.ident.namespace]
        assert holder is not None, "it lay in a namespace of the drop"
        old = kept.dropped.pointer
        batches.append(
            claims.claim(
                reading,
                place,
                locations.parse_location(old.location, table_bucket=place.table_bucket),
                object_uuid=old.object_uuid,
                object_type=object_type,
                namespace_id=holder.row.namespace_id,
                name=kept.ident.name,
                now_ms=now_ms,
                permit=permit,
                standing_uuid=old.object_uuid,
            )
        )
        pointer = msgspec.structs.replace(old, modified_at_ms=later(now_ms, old), modified_by=by)
        items.append((kept.ident, pointer))
        batches.append(_expecting(kept.key, kept.value))
        changes.append(
            commit.Change(
                object_type=object_type,
                namespace=kept.ident.namespace,
                namespace_id=holder.row.namespace_id,
                name=kept.ident.name,
                before=None,
                after=pointer,
                holder=holder.holder,
                summary=_summary(kept.ident.dotted()),
            )
        )
    committed = commit.plan(place, changes, author=by, via=via, time_ms=now_ms)
    gone = batch.Batch(writes=(batch.Delete(store=batch.Store.POINTERS, key=entry.key),))
    restored = Restored(
        namespaces=tuple(namespace for namespace, _ in entry.dropped.namespaces),
        items=tuple(items),
        missing=contents.missing,
    )
    expected = _expecting(entry.key, entry.value)
    return restored, batch.merge((expected, *batches, committed, gone))


def _returning(
    place: records.Place,
    namespace: idents.Namespace,
    row: records.NamespaceRow,
    parent: StoredNamespace | None,
    by: str,
    now_ms: int,
) -> tuple[commit.Change, StoredNamespace]:
    """Return the change that restores one namespace, and its row as it is then."""
    row = msgspec.structs.replace(
        row, modified_at_ms=max(now_ms, row.modified_at_ms), modified_by=by
    )
    parent_id = records.ROOT_NAMESPACE_ID if parent is None else parent.row.namespace_id
    change = commit.Change(
        object_type="namespace",
        namespace=namespace[:-1],
        namespace_id=parent_id,
        name=namespace[-1],
        before=None,
        after=row,
        holder=None if parent is None else parent.holder,
        summary=_summary(idents.dotted(namespace)),
    )
    restored = StoredNamespace(
        namespace=namespace,
        key=records.pointer_key(place, "namespace", parent_id, namespace[-1]),
        value=records.encode(row),
        row=row,
    )
    return change, restored


def _summary(name: str) -> Mapping[str, Any]:
    return {"operation": "undrop", "from": name}


def _expecting(key: bytes, value: bytes) -> batch.Batch:
    return batch.Batch(expects=(batch.Expect(store=batch.Store.POINTERS, key=key, value=value),))
