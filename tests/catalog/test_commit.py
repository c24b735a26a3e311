"""What one commit expects and writes."""

from __future__ import annotations

import msgspec
import pytest

from catalog import commit, errors, records
from storage import batch
from storage import errors as storage_errors
from tests.kit import lakes

PLACE = lakes.place(bucket_id=1)
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
POINTER = records.Pointer(
    object_type="table",
    object_uuid=UUID,
    table_uuid=UUID,
    metadata_location="s3://lake/ns/t/metadata/00000-x.metadata.json",
    location="s3://lake/ns/t",
    created_at_ms=1,
    created_by="me",
    modified_at_ms=1,
    modified_by="me",
)
HOLDER = commit.ParentNamespace(key=b"holder", value=b"as read")


def change(
    before: records.Pointer | None, after: records.Pointer | None, name: str = "t"
) -> commit.Change:
    return commit.Change(
        object_type="table",
        namespace=("ns",),
        namespace_id=4,
        name=name,
        before=None if before is None else records.encode(before),
        after=after,
        holder=HOLDER,
    )


def plan(*changes: commit.Change) -> batch.Batch:
    return commit.plan(PLACE, changes, author="me", via="rest", time_ms=5)


def key_of(name: str, object_type: records.ObjectType = "table") -> bytes:
    return records.pointer_key(PLACE, object_type, 4, name)


def expected(planned: batch.Batch) -> dict[bytes, bytes | None]:
    return {expect.key: expect.value for expect in planned.expects}


def test_a_commit_expects_the_row_it_was_decided_on_and_no_other() -> None:
    moved = msgspec.structs.replace(POINTER, modified_at_ms=2)
    planned = plan(change(POINTER, moved))
    assert expected(planned) == {key_of("t"): records.encode(POINTER)}
    assert planned.writes == (
        batch.Put(store=batch.Store.POINTERS, key=key_of("t"), value=records.encode(moved)),
    )
    assert len(planned.derive) == 1


def test_a_creation_expects_that_no_view_has_its_name() -> None:
    planned = plan(change(None, POINTER))
    assert expected(planned) == {
        key_of("t"): None,
        key_of("t", "view"): None,
        records.uuid_key(PLACE, UUID): None,
    }
    name = records.Name(object_type="table", namespace_id=4, name="t")
    assert {write.key for write in planned.writes} == {key_of("t"), records.uuid_key(PLACE, UUID)}
    assert planned.writes[-1] == batch.Put(
        store=batch.Store.POINTERS,
        key=records.uuid_key(PLACE, UUID),
        value=records.encode(name),
    )


def test_a_drop_takes_the_pointer_and_remembers_the_name_that_it_had() -> None:
    planned = plan(change(POINTER, None))
    assert planned.writes == (
        batch.Delete(store=batch.Store.POINTERS, key=key_of("t")),
        batch.Delete(store=batch.Store.POINTERS, key=records.uuid_key(PLACE, UUID)),
        batch.Put(
            store=batch.Store.POINTERS,
            key=records.gone_key(PLACE, UUID),
            value=records.encode(records.LastName(object_type="table", namespace_id=4, name="t")),
        ),
    )
    assert HOLDER.key not in expected(planned)


def test_a_rename_changes_the_way_and_expects_nothing_of_it() -> None:
    planned = plan(change(POINTER, None), change(None, POINTER, name="u"))
    assert records.uuid_key(PLACE, UUID) not in expected(planned)
    last = planned.writes[-1]
    assert isinstance(last, batch.Put)
    assert records.decode(last.value, records.Name).name == "u"


def test_a_namespace_that_was_dropped_and_created_again_is_another_one(lake: lakes.Lake) -> None:
    index, place, namespaces = lake.storage.index, lake.store.place("lake"), lake.namespaces

    def check(holder: commit.ParentNamespace) -> None:
        lake.run(index.commit(commit.hold(place, holder)))

    lake.run(namespaces.create("lake", ("ns",), {}, by=lakes.BY))
    with index.view() as view:
        holder = lake.store.namespace(view, place, ("ns",)).holder
    changed = namespaces.update("lake", ("ns",), updates={"a": "b"}, removals=(), by=lakes.BY)
    lake.run(changed)
    check(holder)  # with other properties it is the same one
    lake.run(namespaces.drop("lake", ("ns",), by=lakes.BY))
    with pytest.raises(storage_errors.ExpectationFailed, match="no longer exists"):
        check(holder)
    lake.run(namespaces.create("lake", ("ns",), {}, by=lakes.BY))
    with pytest.raises(storage_errors.ExpectationFailed, match="no longer exists"):
        check(holder)


def test_a_table_that_was_dropped_is_held_by_nothing(lake: lakes.Lake) -> None:
    lake.run(lake.namespaces.create("lake", ("ns",), {}, by=lakes.BY))
    ident = lake.ident("ns.t")
    loaded = lake.run(lake.tables.create(ident, schema=lakes.SCHEMA, by=lakes.BY))
    missing = errors.NoSuchTable("it is gone")
    held = commit.hold_thing(lake.store.place("lake"), loaded.pointer.object_uuid, missing=missing)
    lake.run(lake.storage.index.commit(held))
    lake.run(lake.tables.drop(ident, by=lakes.BY))
    with pytest.raises(errors.NoSuchTable, match="it is gone"):
        lake.run(lake.storage.index.commit(held))


def test_a_namespace_may_have_the_name_of_a_table_beside_it(lake: lakes.Lake) -> None:
    lake.run(lake.namespaces.create("lake", ("ns",), {}, by=lakes.BY))
    lake.run(lake.tables.create(lake.ident("ns.t"), schema=lakes.SCHEMA, by=lakes.BY))
    lake.run(lake.namespaces.create("lake", ("ns", "t"), {}, by=lakes.BY))
    assert lake.namespaces.list("lake", ("ns",)) == [("ns", "t")]
