"""What one commit expects and writes."""

from __future__ import annotations

import msgspec

from catalog import commit, records
from storage import batch
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
