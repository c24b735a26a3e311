"""A metadata file that is registered over a table: of the same table, and of another one.

The file of another table is a drop of the one that bears the name and a registration of the other,
in one commit. So everything that guards a drop guards it, and both keep what a drop and a
registration keep.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from catalog import errors, owners, records, store, tables
from storage import batch, model
from tests.kit import lakes, sweeps

BY = lakes.BY
PROTECTED = {"boathouse.protected": "true"}


@pytest.fixture
def ns(lake: lakes.Lake) -> lakes.Lake:
    lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    return lake


def create(lake: lakes.Lake, name: str, **more: Any) -> tables.LoadedTable:
    return lake.run(lake.tables.create(lake.ident(name), schema=lakes.SCHEMA, by=BY, **more))


def register(lake: lakes.Lake, name: str, location: str | None, **more: Any) -> tables.LoadedTable:
    assert location is not None
    more = {"overwrite": True, "permit": lakes.permit_all, "by": BY, **more}
    return lake.run(lake.tables.register(lake.ident(name), location, **more))


def unregistered(lake: lakes.Lake, name: str) -> tables.LoadedTable:
    table = create(lake, name)
    lake.run(lake.tables.unregister(lake.ident(name), by=BY))
    return table


def put(lake: lakes.Lake, key: str, **members: Any) -> str:
    """Store a metadata file as a client would; return its URI."""
    content = {**json.loads(create(lake, f"ns.s{uuid.uuid4().hex}").data), **members}

    async def write() -> None:
        received = await lake.storage.blobs.store(
            json.dumps(content).encode(), digests=frozenset({"md5"})
        )
        await lake.storage.objects.put("lake", key, received, attributes=model.ObjectAttributes())

    lake.run(write())
    return f"s3://lake/{key}"


def set_property(lake: lakes.Lake, name: str, key: str, value: str) -> tables.LoadedTable:
    update = {"action": "set-properties", "updates": {key: value}}
    return lake.run(lake.tables.commit(lake.ident(name), [], [update], by=BY))


def test_a_file_of_another_table_brings_that_table_back_and_drops_the_one_of_the_name(
    ns: lakes.Lake,
) -> None:
    other, standing = unregistered(ns, "ns.a"), create(ns, "ns.t")
    standing = set_property(ns, "ns.t", "newest", "1")
    before = len(ns.log())
    ns.clock.now_ms += 1_000
    loaded = register(ns, "ns.t", other.metadata_location)
    assert loaded.pointer.object_uuid == other.pointer.object_uuid
    assert loaded.pointer.location == other.pointer.location
    assert len(ns.log()) == before + 1
    dropped = ns.tables.dropped(ns.ident("ns.t"))
    assert dropped.pointer == standing.pointer
    assert dropped.kept_until_ms == ns.clock.now_ms + 30 * sweeps.DAY_MS
    assert ns.broken_chain() is None
    restored = ns.run(ns.tables.undrop(ns.ident("ns.t"), target=ns.ident("ns.back"), by=BY))
    assert restored.object_uuid == standing.pointer.object_uuid
    assert ns.load(ns.ident("ns.back")).metadata.properties["newest"] == "1"
    assert ns.load(ns.ident("ns.t")).data == other.data


def test_what_a_register_dropped_is_kept_for_the_days_of_a_drop(ns: lakes.Lake) -> None:
    other, standing = unregistered(ns, "ns.a"), create(ns, "ns.t")
    ns.run(ns.storage.buckets.update("lake", {"purge_on_drop": "always", "dropped_table_days": 20}))
    register(ns, "ns.t", other.metadata_location)
    ns.run(ns.storage.buckets.update("lake", {"dropped_table_days": 1}))
    key = str(standing.metadata_location).removeprefix("s3://lake/")
    for _ in range(2):
        sweeps.pass_days(ns, 9.5)
        sweeps.run(ns)
    assert key in sweeps.keys_in(ns)
    sweeps.pass_days(ns, 2)
    for days in (8, 11):
        sweeps.run(ns)
        sweeps.pass_days(ns, days)
    sweeps.run(ns)
    assert key not in sweeps.keys_in(ns)
    assert ns.load(ns.ident("ns.t")).data == other.data


def test_a_file_that_has_no_owner_is_a_table_of_its_own(ns: lakes.Lake) -> None:
    standing = create(ns, "ns.t")
    location = put(
        ns,
        "imported/o/metadata/1.metadata.json",
        location="s3://lake/imported/o",
        **{"table-uuid": str(uuid.uuid4())},
    )
    loaded = register(ns, "ns.t", location)
    assert loaded.pointer.object_uuid != standing.pointer.object_uuid
    assert ns.tables.dropped(ns.ident("ns.t")).pointer == standing.pointer


@pytest.mark.parametrize("size_chars", [10, store.SMALL_BYTES])
def test_a_default_of_null_in_a_registered_file_is_none_in_loads_and_after_a_commit(
    ns: lakes.Lake, size_chars: int
) -> None:
    """Iceberg's Java library reads no schema that spells a default of null."""
    plain = {"id": 1, "name": "d", "required": False, "type": "int"}
    nested = {"type": "list", "element-id": 3, "element": "int", "element-required": False}
    valued = {"id": 2, "name": "e", "required": False, "type": nested}
    schema = {"type": "struct", "schema-id": 0, "fields": [plain, valued]}
    nulls = {"initial-default": None, "write-default": None}
    spelled = {**schema, "fields": [{**plain, **nulls}, {**valued, **nulls}]}
    location = put(
        ns,
        "imported/o/metadata/1.metadata.json",
        **{
            "location": "s3://lake/imported/o",
            "table-uuid": str(uuid.uuid4()),
            "last-column-id": 3,
            "schemas": [spelled],
            "properties": {"filler": "x" * size_chars},
        },
    )
    ident = ns.ident("ns.o")
    same = {"action": "add-schema", "schema": {**schema, "schema-id": 7}}
    current = {"action": "set-current-schema", "schema-id": -1}
    noted = {"action": "set-properties", "updates": {"a": "b"}}

    async def steps() -> list[bytes]:
        registered = await ns.tables.register(ident, location, permit=lakes.permit_all, by=BY)
        assert registered.metadata_location == location
        ns.store._cache = store._Cache(0)  # the file is read again
        fetched = await ns.store.fetch_metadata(location, place=ns.store.place("lake"))
        committed = await ns.tables.commit(ident, [], [same, current, noted], by=BY)
        key = str(committed.metadata_location).removeprefix("s3://lake/")
        info = ns.storage.objects.head("lake", key)
        stored = ns.storage.objects.read(info, limit_bytes=info.size_bytes)
        await ns.store.close()
        return [registered.data, fetched.data, committed.data, stored]

    for data in ns.run(steps()):
        assert json.loads(data)["schemas"] == [schema]


def test_the_same_table_that_was_copied_to_a_free_location_stays_the_same(ns: lakes.Lake) -> None:
    standing = create(ns, "ns.t")
    location = put(
        ns,
        "moved/t/metadata/1.metadata.json",
        location="s3://lake/moved/t",
        **{"table-uuid": str(standing.metadata.table_uuid).upper()},
    )
    loaded = register(ns, "ns.t", location)
    assert loaded.pointer.object_uuid == standing.pointer.object_uuid
    with pytest.raises(errors.NotRestorable):
        ns.tables.dropped(ns.ident("ns.t"))


def test_a_file_at_the_tables_location_with_another_uuid_is_refused(ns: lakes.Lake) -> None:
    standing = create(ns, "ns.t")
    home = standing.pointer.location
    location = put(
        ns,
        f"{home.removeprefix('s3://lake/')}/metadata/9.metadata.json",
        location=home,
        **{"table-uuid": str(uuid.uuid4())},
    )
    with pytest.raises(errors.InvalidMetadataFile, match=r"drop the table ns\.t to register it"):
        register(ns, "ns.t", location)
    assert ns.tables.pointer(ns.ident("ns.t")) == standing.pointer


@pytest.mark.parametrize("table_uuid", ["5b1d1c3e-0f0a-4c52-9d7e-2a3b4c5d6e7f", None])
def test_a_file_of_another_uuid_at_a_dropped_tables_location_leaves_it_restorable(
    ns: lakes.Lake, table_uuid: str | None
) -> None:
    dropped = create(ns, "ns.t")
    home = dropped.pointer.location
    ns.run(ns.tables.drop(ns.ident("ns.t"), by=BY))
    location = put(
        ns,
        f"{home.removeprefix('s3://lake/')}/metadata/9.metadata.json",
        location=home,
        **{"table-uuid": table_uuid, "format-version": 2 if table_uuid else 1},
    )
    loaded = register(ns, "ns.u", location)
    assert loaded.pointer.location == home
    assert loaded.pointer.object_uuid != dropped.pointer.object_uuid
    assert ns.tables.dropped(ns.ident("ns.t")).pointer == dropped.pointer
    key = str(dropped.metadata_location).removeprefix("s3://lake/")
    for _ in range(3):
        sweeps.pass_days(ns, 9.5)
        sweeps.run(ns)
    assert key in sweeps.keys_in(ns)
    with pytest.raises(errors.InvalidLocation, match="it is the location of another table"):
        ns.run(ns.tables.undrop(ns.ident("ns.t"), by=BY, permit=lakes.permit_all))
    ns.run(ns.tables.drop(ns.ident("ns.u"), purge=True, by=BY))
    sweeps.run(ns)
    ns.run(ns.tables.undrop(ns.ident("ns.t"), by=BY, permit=lakes.permit_all))
    assert ns.load(ns.ident("ns.t")).data == dropped.data


def test_a_protected_table_is_not_replaced_and_still_pointed_back(ns: lakes.Lake) -> None:
    other = unregistered(ns, "ns.a")
    first = create(ns, "ns.t", properties=PROTECTED)
    standing = set_property(ns, "ns.t", "newest", "1")
    before = len(ns.log())
    with pytest.raises(errors.Protected, match=r"Table ns\.t is protected"):
        register(ns, "ns.t", other.metadata_location)
    assert len(ns.log()) == before
    assert ns.tables.pointer(ns.ident("ns.t")) == standing.pointer
    back = register(ns, "ns.t", first.metadata_location)
    assert back.pointer.object_uuid == standing.pointer.object_uuid
    assert "newest" not in ns.load(ns.ident("ns.t")).metadata.properties


def test_the_right_to_drop_is_asked_only_for_a_table_that_goes(ns: lakes.Lake) -> None:
    other, standing = unregistered(ns, "ns.a"), create(ns, "ns.t")
    judged: list[records.Pointer | None] = []

    def refuse(place: records.Place, ident: Any, pointer: records.Pointer | None) -> None:
        judged.append(pointer)
        raise PermissionError

    register(ns, "ns.t", standing.metadata_location, judge_drop=refuse)
    register(ns, "ns.new", create_and_drop(ns), judge_drop=refuse)
    assert judged == []
    standing_now = ns.tables.pointer(ns.ident("ns.t"))
    with pytest.raises(PermissionError):
        register(ns, "ns.t", other.metadata_location, judge_drop=refuse)
    assert judged == [standing_now]
    assert ns.tables.pointer(ns.ident("ns.t")) == standing_now


def create_and_drop(lake: lakes.Lake) -> str | None:
    return unregistered(lake, f"ns.gone{uuid.uuid4().hex}").metadata_location


def test_the_owner_of_the_file_is_asked_for_not_only_the_table_of_the_name(ns: lakes.Lake) -> None:
    other, standing = unregistered(ns, "ns.a"), create(ns, "ns.t")

    def permit(path: str, owner: owners.LocationOwner | None) -> None:
        assert owner is not None
        if owner.object_uuid == other.pointer.object_uuid:
            raise PermissionError

    with pytest.raises(PermissionError):
        register(ns, "ns.t", other.metadata_location, permit=permit)
    assert ns.tables.pointer(ns.ident("ns.t")) == standing.pointer


def test_the_file_of_a_table_that_stands_under_another_name_is_refused(ns: lakes.Lake) -> None:
    other, standing = create(ns, "ns.a"), create(ns, "ns.t")
    with pytest.raises(errors.InvalidLocation):
        register(ns, "ns.t", other.metadata_location)
    assert ns.tables.pointer(ns.ident("ns.t")) == standing.pointer
    assert ns.tables.pointer(ns.ident("ns.a")) == other.pointer


def test_a_setting_of_the_bucket_that_changes_meanwhile_counts_for_the_drop(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, standing = unregistered(ns, "ns.a"), create(ns, "ns.t")
    original = type(ns.storage.index).commit

    async def late(index: Any, planned: batch.Batch) -> None:
        monkeypatch.setattr(type(ns.storage.index), "commit", original)
        await ns.storage.buckets.update("lake", {"dropped_table_days": 3})
        await original(index, planned)

    monkeypatch.setattr(type(ns.storage.index), "commit", late)
    loaded = register(ns, "ns.t", other.metadata_location)
    assert loaded.pointer.object_uuid == other.pointer.object_uuid
    dropped = ns.tables.dropped(ns.ident("ns.t"))
    assert dropped.pointer == standing.pointer
    assert dropped.kept_until_ms == ns.clock.now_ms + 3 * sweeps.DAY_MS


def test_a_location_that_changes_its_owner_meanwhile_is_looked_at_again(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, standing = unregistered(ns, "ns.a"), create(ns, "ns.t")
    commit = ns.storage.index.commit
    uses = 0

    async def late(planned: batch.Batch) -> None:
        nonlocal uses
        uses += 1
        if uses == 1:
            # Another client brings the owner of the file back under a name of its own.
            monkeypatch.setattr(type(ns.storage.index), "commit", original)
            await ns.tables.register(
                ns.ident("ns.b"), str(other.metadata_location), by=BY, permit=lakes.permit_all
            )
        await commit(planned)

    original = type(ns.storage.index).commit
    monkeypatch.setattr(type(ns.storage.index), "commit", lambda index, planned: late(planned))
    with pytest.raises(errors.InvalidLocation):
        register(ns, "ns.t", other.metadata_location)
    assert ns.tables.pointer(ns.ident("ns.t")) == standing.pointer
    assert ns.tables.pointer(ns.ident("ns.b")).object_uuid == other.pointer.object_uuid
