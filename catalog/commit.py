"""rule: the changes of one commit to the index, as one Batch.

Every changed key must still have the row against which it was validated, so a Batch that commits
was decided on the newest state of all its keys. The namespace of a new table, or the table bucket
of a new namespace, is read inside the transaction: it must still exist, but may have changed. A
drop of a namespace checks inside its transaction that the namespace is still empty. Rows of other
keys are not compared: commits to different tables do not conflict.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from catalog import departures, errors, history, idents, records
from storage import batch
from storage import errors as storage_errors
from storage import records as storage_records

Row = records.Pointer | records.NamespaceRow


class ParentNamespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace's row as it was read: a new table in it expects the namespace to exist."""

    key: bytes
    value: bytes


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One key's change. before: the stored row, None if there is none. after: None for a drop.

    namespace: the levels of the name's namespace; namespace_id: theirs. holder: None in the root.
    leaving: how a table or view that this commit drops is kept; None with its files, or for a
    rename.
    """

    object_type: records.ObjectType
    namespace: idents.Namespace
    namespace_id: int
    name: str
    before: bytes | None
    after: Row | None
    holder: ParentNamespace | None = None
    summary: Mapping[str, Any] = {}
    leaving: departures.Leaving | None = None


def plan(
    place: records.Place,
    changes: Sequence[Change],
    *,
    author: str,
    via: str,
    time_ms: int,
    message: str = "",
) -> batch.Batch:
    """Return the Batch that writes changes as one commit on the place's branch."""
    expects: list[batch.Expect] = []
    writes: list[batch.Write] = []
    held: list[batch.Derivation] = []
    ops: list[records.Op] = []
    leaving = {
        (change.object_type, change.namespace_id, change.name)
        for change in changes
        if change.after is None
    }
    for change in changes:
        key = records.pointer_key(place, change.object_type, change.namespace_id, change.name)
        after = None if change.after is None else records.encode(change.after)
        expects.append(batch.Expect(store=batch.Store.POINTERS, key=key, value=change.before))
        if after is None:
            writes.append(batch.Delete(store=batch.Store.POINTERS, key=key))
        else:
            writes.append(batch.Put(store=batch.Store.POINTERS, key=key, value=after))
        if change.before is None:
            expects.extend(_alone(place, change, leaving))
            held.extend(hold(place, change.holder).derive)
        ops.append(
            records.Op(
                object_type=change.object_type,
                namespace=change.namespace,
                name=change.name,
                before=change.before,
                after=after,
                summary=dict(change.summary),
            )
        )
    named = _plan_names(place, changes, author=author, time_ms=time_ms)
    draft = history.CommitDraft(
        bucket_id=place.bucket_id,
        branch=place.branch,
        author=author,
        via=via,
        message=message,
        time_ms=time_ms,
        ops=tuple(ops),
    )
    return batch.Batch(
        expects=(*expects, *named.expects),
        writes=(*writes, *named.writes),
        derive=(*held, *named.derive, history.append(draft)),
    )


def hold(place: records.Place, holder: ParentNamespace | None) -> batch.Batch:
    """Return the Batch that writes nothing and expects a namespace to exist.

    holder: None for the root of the table bucket, which exists as long as the bucket; a bucket
    with a namespace cannot be deleted. A namespace that was dropped and created again is another
    one. Committing it raises NoSuchWarehouse, or ExpectationFailed for a namespace.
    """

    def check(reading: batch.Reading) -> Sequence[batch.Write]:
        if holder is None:
            value = reading.get(batch.Store.BUCKETS, place.table_bucket.encode())
            if value is None or storage_records.bucket_id(value) != place.bucket_id:
                raise errors.NoSuchWarehouse(f"Warehouse does not exist: {place.table_bucket}")
            return ()
        stored = reading.get(batch.Store.POINTERS, holder.key)
        if stored != holder.value and _uuid_of(stored) != _uuid_of(holder.value):
            raise storage_errors.ExpectationFailed(
                "the namespace no longer exists", store=batch.Store.POINTERS, key=holder.key
            )
        return ()

    return batch.Batch(derive=(check,))


def hold_thing(place: records.Place, object_uuid: str, *, missing: Exception) -> batch.Batch:
    """Return the Batch that writes nothing and expects the table with this uuid to exist.

    missing: the error of the commit if the table does not exist.
    """
    key = records.uuid_key(place, object_uuid)

    def check(reading: batch.Reading) -> Sequence[batch.Write]:
        if reading.get(batch.Store.POINTERS, key) is None:
            raise missing
        return ()

    return batch.Batch(derive=(check,))


def _uuid_of(value: bytes | None) -> str | None:
    return None if value is None else records.decode(value, records.NamespaceRow).object_uuid


def _alone(
    place: records.Place, change: Change, leaving: Container[tuple[str, int, str]]
) -> tuple[batch.Expect, ...]:
    """Tables and views of a namespace share one space of names, but not one range of keys.

    leaving: what the same commit drops, by object type, namespace id and name.
    """
    if change.object_type == "namespace":
        return ()
    other: records.ObjectType = "view" if change.object_type == "table" else "table"
    if (other, change.namespace_id, change.name) in leaving:
        return ()
    key = records.pointer_key(place, other, change.namespace_id, change.name)
    return (batch.Expect(store=batch.Store.POINTERS, key=key, value=None),)


def _plan_names(
    place: records.Place, changes: Sequence[Change], *, author: str, time_ms: int
) -> batch.Batch:
    """Return the writes of the rows that lead from an object uuid to its present or last name."""
    gone: dict[str, Change] = {}
    come: dict[str, Change] = {}
    for change in changes:
        if change.object_type == "namespace":
            continue
        old = None if change.before is None else records.decode_pointer(change.before)
        new = change.after
        assert new is None or isinstance(new, records.Pointer)
        if old is not None and new is not None and old.object_uuid == new.object_uuid:
            continue
        if old is not None:
            gone[old.object_uuid] = change
        if new is not None:
            come[new.object_uuid] = change
    expects: list[batch.Expect] = []
    writes: list[batch.Write] = []
    derive: list[batch.Derivation] = []
    for object_uuid in gone.keys() - come.keys():
        key = records.uuid_key(place, object_uuid)
        writes.append(batch.Delete(store=batch.Store.POINTERS, key=key))
        writes.extend(
            _plan_departure(place, gone[object_uuid], object_uuid, by=author, time_ms=time_ms)
        )
    for object_uuid, change in come.items():
        key = records.uuid_key(place, object_uuid)
        if object_uuid not in gone:
            expects.append(batch.Expect(store=batch.Store.POINTERS, key=key, value=None))
            derive.append(_returning(place, object_uuid))
        value = records.encode(_name_of(change))
        writes.append(batch.Put(store=batch.Store.POINTERS, key=key, value=value))
    return batch.Batch(expects=tuple(expects), writes=tuple(writes), derive=tuple(derive))


def _plan_departure(
    place: records.Place, change: Change, object_uuid: str, *, by: str, time_ms: int
) -> Iterator[batch.Write]:
    """Yield the writes of the last name of what a commit drops, and of its Dropped row, if any."""
    assert change.object_type != "namespace"
    assert change.before is not None, "what is dropped stood there"
    leaving = change.leaving
    # Its files stay, so the name of their owner is kept.
    last = records.LastName(
        object_type=change.object_type,
        namespace_id=change.namespace_id,
        name=change.name,
        dropped_at_ms=0 if leaving is None else time_ms,
    )
    key = records.gone_key(place, object_uuid)
    yield batch.Put(store=batch.Store.POINTERS, key=key, value=records.encode(last))
    if leaving is None:
        return
    dropped = records.Dropped(
        pointer=records.decode_pointer(change.before),
        how=leaving.how,
        dropped_at_ms=time_ms,
        dropped_by=by,
        kept_until_ms=leaving.kept_until_ms,
    )
    key = records.dropped_key(place, change.namespace_id, change.name, time_ms, object_uuid)
    yield batch.Put(store=batch.Store.POINTERS, key=key, value=records.encode(dropped))


def _returning(place: records.Place, object_uuid: str) -> batch.Derivation:
    """Return the derivation that removes the last name, and the Dropped row, of what comes back."""
    gone_key = records.gone_key(place, object_uuid)

    def remove(reading: batch.Reading) -> Sequence[batch.Write]:
        value = reading.get(batch.Store.POINTERS, gone_key)
        if value is None:
            return ()
        last = records.decode(value, records.LastName)
        writes = [batch.Delete(store=batch.Store.POINTERS, key=gone_key)]
        if last.dropped_at_ms:
            key = records.dropped_key(
                place, last.namespace_id, last.name, last.dropped_at_ms, object_uuid
            )
            writes.append(batch.Delete(store=batch.Store.POINTERS, key=key))
        return writes

    return remove


def _name_of(change: Change) -> records.Name:
    assert change.object_type != "namespace"
    return records.Name(
        object_type=change.object_type, namespace_id=change.namespace_id, name=change.name
    )
