"""rule: what one commit changes in the index, as one Batch.

Every changed key must still hold the row it was validated against, so a Batch that goes through
was decided on the newest state of everything it touches. What is new needs its namespace to be
there still, and who drops a namespace looks once more, inside the transaction, that nothing moved
in. Rows of other keys are never compared: commits to different tables do not meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from catalog import history, idents, records
from storage import batch

Row = records.Pointer | records.NamespaceRow


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace's row as it was read: what is put into the namespace needs it to stay."""

    key: bytes
    value: bytes


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One key's step. before: the row as stored, None if there is none. after: None to drop.

    namespace: the levels that the name stands in; namespace_id: theirs. holder: None in the root.
    """

    kind: records.Kind
    namespace: idents.Namespace
    namespace_id: int
    name: str
    before: bytes | None
    after: Row | None
    holder: Holder | None = None
    summary: Mapping[str, Any] = {}


def plan(
    place: records.Place,
    changes: Sequence[Change],
    *,
    author: str,
    via: str,
    time_ms: int,
    message: str = "",
) -> batch.Batch:
    """Return the Batch that makes changes one commit on the place's branch."""
    expects: list[batch.Expect] = []
    writes: list[batch.Write] = []
    ops: list[records.Op] = []
    for change in changes:
        key = records.pointer_key(place, change.kind, change.namespace_id, change.name)
        after = None if change.after is None else records.encode(change.after)
        expects.append(batch.Expect(store=batch.Store.POINTERS, key=key, value=change.before))
        if after is None:
            writes.append(batch.Delete(store=batch.Store.POINTERS, key=key))
        else:
            writes.append(batch.Put(store=batch.Store.POINTERS, key=key, value=after))
        if change.before is None:
            expects.extend(_hold(change.holder))
            expects.extend(_alone(place, change))
        ops.append(
            records.Op(
                kind=change.kind,
                namespace=change.namespace,
                name=change.name,
                before=change.before,
                after=after,
                summary=dict(change.summary),
            )
        )
    named = _plan_names(place, changes)
    draft = history.Draft(
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
        derive=(history.append(draft),),
    )


def _hold(holder: Holder | None) -> tuple[batch.Expect, ...]:
    if holder is None:
        return ()
    return (batch.Expect(store=batch.Store.POINTERS, key=holder.key, value=holder.value),)


def _alone(place: records.Place, change: Change) -> tuple[batch.Expect, ...]:
    """Tables and views of a namespace share one space of names, but not one range of keys."""
    if change.kind == "namespace":
        return ()
    other: records.Kind = "view" if change.kind == "table" else "table"
    key = records.pointer_key(place, other, change.namespace_id, change.name)
    return (batch.Expect(store=batch.Store.POINTERS, key=key, value=None),)


def _plan_names(place: records.Place, changes: Sequence[Change]) -> batch.Batch:
    """Return what keeps the rows that lead from an object uuid to its name in step."""
    gone: dict[str, Change] = {}
    come: dict[str, Change] = {}
    for change in changes:
        if change.kind == "namespace":
            continue
        old = None if change.before is None else records.decode(change.before, records.Pointer)
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
    for object_uuid in gone.keys() - come.keys():
        key = records.uuid_key(place, object_uuid)
        writes.append(batch.Delete(store=batch.Store.POINTERS, key=key))
        # Its files stay, and with them the question whose they are.
        name = _name_of(gone[object_uuid])
        key = records.gone_key(place, object_uuid)
        writes.append(batch.Put(store=batch.Store.POINTERS, key=key, value=records.encode(name)))
    for object_uuid, change in come.items():
        key = records.uuid_key(place, object_uuid)
        if object_uuid not in gone:
            expects.append(batch.Expect(store=batch.Store.POINTERS, key=key, value=None))
            gone_key = records.gone_key(place, object_uuid)
            writes.append(batch.Delete(store=batch.Store.POINTERS, key=gone_key))
        value = records.encode(_name_of(change))
        writes.append(batch.Put(store=batch.Store.POINTERS, key=key, value=value))
    return batch.Batch(expects=tuple(expects), writes=tuple(writes))


def _name_of(change: Change) -> records.Name:
    assert change.kind != "namespace"
    return records.Name(kind=change.kind, namespace_id=change.namespace_id, name=change.name)
