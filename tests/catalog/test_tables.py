"""Tables: the engine."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from catalog import errors, idents, records, store, tables
from catalog.metadata import errors as metadata_errors
from storage import batch, model
from tests.kit import folders, invariants, lakes

BY = lakes.BY


@pytest.fixture
def ns(lake: lakes.Lake) -> lakes.Lake:
    lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    return lake


def create(lake: lakes.Lake, dotted: str = "ns.t", **more: Any) -> tables.LoadedTable:
    return lake.run(lake.tables.create(lake.ident(dotted), schema=lakes.SCHEMA, by=BY, **more))


def commit(
    lake: lakes.Lake, dotted: str, *updates: dict[str, Any], requirements: Any = ()
) -> tables.LoadedTable:
    return lake.run(lake.tables.commit(lake.ident(dotted), list(requirements), updates, by=BY))


def set_property(name: str, value: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {name: value}}


def put(lake: lakes.Lake, key: str, data: bytes) -> str:
    async def write() -> None:
        received = await lake.storage.blobs.store(data, digests=frozenset({"md5"}))
        await lake.storage.objects.put("lake", key, received, attributes=model.ObjectAttributes())

    lake.run(write())
    return f"s3://lake/{key}"


def read(lake: lakes.Lake, location: str | None) -> Any:
    assert location is not None
    return json.loads(lake.store.read_file(location, table_bucket="lake"))


# Create and load.


def test_a_new_table_is_a_pointer_to_a_readable_metadata_file(ns: lakes.Lake) -> None:
    table = create(ns, properties={"a": "b"})
    assert table.pointer.location == "s3://lake/ns/t"
    assert table.metadata_location is not None
    assert table.metadata_location.startswith("s3://lake/ns/t/metadata/00000-")
    stored = read(ns, table.metadata_location)
    assert stored == json.loads(table.data)
    assert stored["table-uuid"] == table.pointer.table_uuid
    assert stored["properties"]["a"] == "b"
    loaded = ns.load(ns.ident("ns.t"))
    assert (loaded.data, loaded.pointer) == (table.data, table.pointer)
    assert table.pointer.object_uuid != table.pointer.table_uuid
    assert ns.broken_chain() is None


def test_a_table_is_found_by_its_object_uuid_under_its_present_name(ns: lakes.Lake) -> None:
    table = create(ns)
    uuid = table.pointer.object_uuid
    assert ns.tables.by_object_uuid("lake", uuid) == (ns.ident("ns.t"), table.pointer)
    ns.run(ns.tables.rename(ns.ident("ns.t"), ns.ident("ns.u"), by=BY))
    assert ns.tables.by_object_uuid("lake", uuid)[0] == ns.ident("ns.u")
    ns.run(ns.tables.drop(ns.ident("ns.u"), by=BY))
    for gone in (uuid, "no uuid"):
        with pytest.raises(errors.NoSuchTable):
            ns.tables.by_object_uuid("lake", gone)


def test_a_table_that_is_not_there_is_named_whatever_is_missing(lake: lakes.Lake) -> None:
    for dotted in ("no.t", "a.b.t", "x" * 300 + ".t", "ns." + "x" * 300, "\ud800.t", "ns.\ud800"):
        with pytest.raises(errors.NoSuchTable, match=r"^Table does not exist: "):
            lake.load(lake.ident(dotted))
        assert not lake.tables.exists(lake.ident(dotted))


def test_a_table_needs_its_namespace_and_a_free_name(ns: lakes.Lake) -> None:
    with pytest.raises(errors.NoSuchNamespace, match=r"^Namespace does not exist: non-existing$"):
        create(ns, "non-existing.t")
    create(ns)
    with pytest.raises(errors.TableAlreadyExists, match=r"^Table already exists: ns.t$"):
        create(ns)
    assert ns.tables.list("lake", ("ns",)) == [ns.ident("ns.t")]


def test_sixteen_creators_of_one_name_make_one_table(ns: lakes.Lake) -> None:
    async def race() -> list[Any]:
        return await asyncio.gather(
            *(ns.tables.create(ns.ident("ns.t"), schema=lakes.SCHEMA, by=BY) for _ in range(16)),
            return_exceptions=True,
        )

    outcome = ns.run(race())
    table = [each for each in outcome if isinstance(each, tables.LoadedTable)]
    assert len(table) == 1
    assert all(
        isinstance(each, errors.TableAlreadyExists) for each in outcome if each is not table[0]
    )
    assert ns.load(ns.ident("ns.t")).data == table[0].data
    assert ns.broken_chain() is None


def test_names_that_look_alike_are_different_tables(ns: lakes.Lake) -> None:
    for name in ("t", "T", "t.x", "t/x", "t%2Fx", "té", "t x"):
        ident = idents.TableIdent(table_bucket="lake", namespace=("ns",), name=name)
        ns.run(ns.tables.create(ident, schema=lakes.SCHEMA, by=BY))
        assert ns.load(ident).ident == ident
    assert len(ns.tables.list("lake", ("ns",))) == 7
    places = {row.pointer.location for row in map(ns.load, ns.tables.list("lake", ("ns",)))}
    assert len(places) == 7


def test_a_table_without_metadata_exists_and_cannot_be_loaded(ns: lakes.Lake) -> None:
    pointer = ns.run(ns.tables.create_empty(ns.ident("ns.t"), by=BY))
    assert pointer.metadata_location is None
    assert ns.tables.pointer(ns.ident("ns.t")) == pointer
    with pytest.raises(errors.TableWithoutMetadata):
        ns.load(ns.ident("ns.t"))
    with pytest.raises(errors.TableAlreadyExists):
        create(ns)


# Tables made without metadata, which an engine then creates.


def bare(lake: lakes.Lake) -> records.Pointer:
    pointer = lake.run(lake.tables.create_empty(lake.ident("ns.t"), by=BY))
    lake.clock.now_ms += 1000
    return pointer


def test_creating_a_table_that_awaits_its_metadata_adopts_its_place_and_uuid(
    ns: lakes.Lake,
) -> None:
    before = bare(ns)
    assert ns.tables.awaits_metadata(ns.ident("ns.t"))
    table = create(ns, adopts=True)
    after = table.pointer
    assert after == ns.load(ns.ident("ns.t")).pointer
    for kept in ("object_uuid", "location", "created_at_ms", "created_by"):
        assert getattr(after, kept) == getattr(before, kept)
    assert after.modified_at_ms == before.modified_at_ms + 1000
    assert records.version_token(after) != records.version_token(before)
    assert after.metadata_location is not None
    assert after.metadata_location.startswith("s3://lake/ns/t/metadata/00000-")
    (op,) = ns.log()[-1].record.ops
    assert op.before == records.encode(before)
    assert op.after == records.encode(after)
    assert ns.broken_chain() is None
    assert not ns.tables.awaits_metadata(ns.ident("ns.t"))
    with pytest.raises(errors.TableAlreadyExists):
        create(ns, adopts=True)


def test_a_staged_create_of_a_table_that_awaits_its_metadata_is_finished_in_it(
    ns: lakes.Lake,
) -> None:
    before = bare(ns)
    staged = create(ns, stage=True, adopts=True)
    assert staged.pointer.object_uuid == before.object_uuid
    assert staged.metadata.location == before.location
    assert ns.tables.pointer(ns.ident("ns.t")) == before
    done = commit(ns, "ns.t", *creation(staged), requirements=CREATE)
    assert done.pointer.object_uuid == before.object_uuid
    assert done.pointer.table_uuid == staged.metadata.table_uuid
    assert done.pointer.location == before.location
    with pytest.raises(metadata_errors.RequirementFailed):
        commit(ns, "ns.t", *creation(staged), requirements=CREATE)


def test_a_commit_that_does_not_create_finds_no_table_without_metadata(ns: lakes.Lake) -> None:
    before = bare(ns)
    with pytest.raises(errors.TableWithoutMetadata):
        commit(ns, "ns.t", set_property("a", "b"))
    assert ns.tables.pointer(ns.ident("ns.t")) == before


@pytest.mark.parametrize("location", ["s3://lake/ns/t2", "s3://lake/ns/t/inside", "s3://lake/x"])
def test_a_table_that_awaits_its_metadata_is_created_nowhere_else(
    ns: lakes.Lake, location: str
) -> None:
    before = bare(ns)
    with pytest.raises(errors.InvalidLocation, match=r"made without metadata, at s3://lake/ns/t$"):
        create(ns, adopts=True, location=location)
    assert ns.tables.pointer(ns.ident("ns.t")) == before
    table = create(ns, adopts=True, location="s3a://lake/ns/t/")
    assert table.metadata.location == "s3a://lake/ns/t"
    assert table.pointer.location == before.location


def test_of_many_who_create_a_table_that_awaits_its_metadata_one_does(ns: lakes.Lake) -> None:
    before = bare(ns)
    ident = ns.ident("ns.t")

    async def race() -> list[Any]:
        return await asyncio.gather(
            *(ns.tables.create(ident, schema=lakes.SCHEMA, adopts=True, by=BY) for _ in range(8)),
            return_exceptions=True,
        )

    outcome = ns.run(race())
    (table,) = [each for each in outcome if isinstance(each, tables.LoadedTable)]
    assert all(isinstance(each, errors.TableAlreadyExists) for each in outcome if each is not table)
    assert table.pointer.object_uuid == before.object_uuid
    assert ns.load(ident).pointer == table.pointer
    assert len(ns.log()) == 3


def test_a_renamed_table_that_awaits_its_metadata_keeps_its_place(ns: lakes.Lake) -> None:
    before = bare(ns)
    ns.run(ns.tables.rename(ns.ident("ns.t"), ns.ident("ns.u"), by=BY))
    table = create(ns, "ns.u", adopts=True)
    assert (table.pointer.location, table.pointer.object_uuid) == (
        before.location,
        before.object_uuid,
    )


def test_missing_metadata_is_reported_as_missing(ns: lakes.Lake) -> None:
    table = create(ns)
    assert table.metadata_location is not None
    key = table.metadata_location.removeprefix("s3://lake/")
    ns.run(ns.storage.objects.delete("lake", key))
    ns.store._cache._entries.clear()
    with pytest.raises(
        errors.MetadataFileMissing, match=f"^Failed to open input stream for file: s3://lake/{key}"
    ):
        ns.load(ns.ident("ns.t"))


# Places.


def test_of_a_table_that_is_committed_to_the_newest_metadata_stays_in_memory(
    ns: lakes.Lake,
) -> None:
    first = create(ns)
    other = create(ns, "ns.other")
    latest = first
    for number in range(5):
        before, latest = latest, commit(ns, "ns.t", set_property("n", str(number)))
        assert before.metadata_location is not None
        place = ns.tables.place(before.ident)
        assert ns.store.cached_metadata(before.metadata_location, place=place) is None
        assert latest.metadata_location is not None
        cached = ns.store.cached_metadata(latest.metadata_location, place=place)
        assert cached is not None
        assert (cached.data, cached.table) == (latest.data, latest.metadata)
    assert ns.store._cache._bytes == store.CACHE_OVERHEAD * (len(latest.data) + len(other.data))
    earlier = ns.run(ns.tables.fetch_at(first.ident, first.pointer))
    assert (earlier.data, earlier.metadata.table_uuid) == (first.data, first.metadata.table_uuid)
    assert ns.load(first.ident).data == latest.data


def test_a_place_once_used_gets_a_suffix_the_next_time(ns: lakes.Lake) -> None:
    first = create(ns)
    ns.run(ns.tables.drop(ns.ident("ns.t"), purge=True, by=BY))
    again = create(ns)
    uuid = again.pointer.object_uuid
    assert again.pointer.location == f"s3://lake/ns/t-{uuid[:8]}"
    assert again.pointer.object_uuid != first.pointer.object_uuid


def test_a_renamed_table_keeps_its_place_and_its_old_name_gets_another(ns: lakes.Lake) -> None:
    create(ns)
    ns.run(ns.tables.rename(ns.ident("ns.t"), ns.ident("ns.u"), by=BY))
    assert ns.load(ns.ident("ns.u")).pointer.location == "s3://lake/ns/t"
    assert create(ns).pointer.location.startswith("s3://lake/ns/t-")


@pytest.mark.parametrize(
    "location",
    ["s3://lake/a/b", "s3://lake/a/b/c", "s3://lake/a/b/c/d/", "s3a://lake/a/b/c"],
)
def test_a_location_in_around_or_at_another_is_refused(ns: lakes.Lake, location: str) -> None:
    create(ns, "ns.one", location="s3://lake/a/b/c")
    before = len(ns.log())
    with pytest.raises(errors.InvalidLocation, match=r"Cannot use location"):
        create(ns, "ns.two", location=location)
    assert len(ns.log()) == before
    assert not ns.tables.exists(ns.ident("ns.two"))


def test_a_neighbour_is_no_overlap(ns: lakes.Lake) -> None:
    create(ns, "ns.one", location="s3://lake/a/b/c")
    create(ns, "ns.two", location="s3://lake/a/b/c2")
    create(ns, "ns.three", location="s3://lake/a/b2/")
    assert ns.load(ns.ident("ns.three")).metadata.location == "s3://lake/a/b2"


def test_a_nested_and_its_surrounding_location_cannot_both_win_a_race(ns: lakes.Lake) -> None:
    async def race() -> list[Any]:
        places = ["s3://lake/x/y", "s3://lake/x/y/z", "s3://lake/x/y/z/w", "s3://lake/x/y/q"]
        return await asyncio.gather(
            *(
                ns.tables.create(
                    ns.ident(f"ns.t{number}"), schema=lakes.SCHEMA, location=place, by=BY
                )
                for number, place in enumerate(places)
            ),
            return_exceptions=True,
        )

    ns.run(race())
    places = [ns.load(ident).pointer.location for ident in ns.tables.list("lake", ("ns",))]
    for one in places:
        assert not any(other != one and other.startswith(one + "/") for other in places), places
    assert places


def test_a_table_is_created_in_constant_time_beside_many_siblings(ns: lakes.Lake) -> None:
    reads: list[int] = []
    view = ns.storage.index.view

    def counting() -> Any:
        opened = view()
        reads[-1] += 1
        return opened

    for number in range(60):
        reads.append(0)
        ns.storage.index.view = counting  # type: ignore[method-assign]
        create(ns, f"ns.t{number}")
        ns.storage.index.view = view  # type: ignore[method-assign]
    assert max(reads) == min(reads)


def test_a_location_outside_the_bucket_is_refused(ns: lakes.Lake) -> None:
    for location in ("s3://other/a/b", "file:/tmp/a/b", "s3://lake/one"):
        with pytest.raises(errors.InvalidLocation):
            create(ns, location=location)


def test_a_path_property_outside_the_location_is_refused_at_create_and_commit(
    ns: lakes.Lake,
) -> None:
    with pytest.raises(errors.InvalidProperty):
        create(ns, properties={"write.data.path": "s3://lake/elsewhere/data"})
    create(ns)
    with pytest.raises(errors.InvalidProperty):
        commit(ns, "ns.t", set_property("write.metadata.path", "s3://lake/ns/t/other"))
    done = commit(ns, "ns.t", set_property("write.data.path", "s3://lake/ns/t/data/x=1"))
    assert done.metadata.properties["write.data.path"] == "s3://lake/ns/t/data/x=1"


def test_where_no_name_is_judged_a_path_property_may_name_any_folder_of_the_data(
    ns: lakes.Lake,
) -> None:
    landing = {"write.data.path": "s3://lake/ns/t/data/landing"}
    with pytest.raises(errors.InvalidProperty):
        create(ns, properties=landing)
    ns.run(ns.storage.buckets.update("lake", {"layout": "off"}))
    create(ns, properties=landing)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("write.data.path", "s3://lake/ns/t/data/archive", "data-directory"),
        ("write.object-storage.path", "s3a://lake/ns/t/data/.hidden", "hidden-segment"),
        ("write.folder-storage.path", "s3://lake/ns/t/data/a=1//b=2", "empty-segment"),
        ("write.metadata.path", "s3://lake/ns/t/metadata/x", "metadata-nested"),
        ("flink.manifests.location", "s3://lake/ns/t/metadata/flink", "metadata-nested"),
    ],
)
def test_a_path_property_where_the_layout_takes_no_file_is_refused_at_create_and_commit(
    ns: lakes.Lake, name: str, value: str, rule: str
) -> None:
    with pytest.raises(errors.InvalidProperty, match=f"Cannot set {name} to {value}: .*{rule}"):
        create(ns, properties={name: value})
    create(ns)
    with pytest.raises(errors.InvalidProperty, match=f"Cannot set {name} to {value}: .*{rule}"):
        commit(ns, "ns.t", set_property(name, value))
    for fitting in ("data/day=1/", "data/0101/0110", "data") if "metadata" not in value else ():
        commit(ns, "ns.t", set_property(name, f"s3://lake/ns/t/{fitting}"))


def test_a_new_metadata_path_is_used_by_the_commit_that_sets_it(ns: lakes.Lake) -> None:
    create(ns)
    done = commit(ns, "ns.t", set_property("write.metadata.path", "s3://lake/ns/t/metadata"))
    assert done.metadata_location is not None
    assert done.metadata_location.startswith("s3://lake/ns/t/metadata/00001-")


def test_a_commit_writes_no_metadata_file_that_the_layout_refuses(ns: lakes.Lake) -> None:
    ns.run(ns.storage.buckets.update("lake", {"layout": "off"}))
    create(ns, properties={"write.metadata.path": "s3://lake/ns/t/metadata/x"})
    commit(ns, "ns.t", set_property("a", "b"))
    # The bucket becomes stricter: only the commit that names another folder goes through.
    ns.run(ns.storage.buckets.update("lake", {"layout": "names"}))
    before = ns.storage.objects.list("lake").objects
    with pytest.raises(errors.InvalidProperty, match=r"x/00002-.*layout rule metadata-nested"):
        commit(ns, "ns.t", {"action": "upgrade-format-version", "format-version": 3})
    assert ns.storage.objects.list("lake").objects == before
    commit(ns, "ns.t", set_property("write.metadata.path", "s3://lake/ns/t/metadata"))


# Staged creates.


def test_a_staged_create_registers_nothing_and_holds_its_place(ns: lakes.Lake) -> None:
    staged = create(ns, stage=True)
    assert staged.metadata_location is None
    assert not ns.tables.exists(ns.ident("ns.t"))
    assert len(ns.log()) == 1
    with pytest.raises(errors.InvalidLocation):
        create(ns, "ns.other", location=staged.metadata.location)
    assert create(ns, "ns.other").pointer.location == "s3://lake/ns/other"


def creation(staged: tables.LoadedTable) -> list[dict[str, Any]]:
    """What Iceberg's clients send to finish a staged create."""
    metadata = json.loads(staged.data)
    return [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
        {"action": "set-properties", "updates": metadata["properties"]},
    ]


CREATE = [{"type": "assert-create"}]


def test_a_staged_create_is_finished_at_its_place_with_its_uuids(ns: lakes.Lake) -> None:
    staged = create(ns, stage=True)
    done = commit(ns, "ns.t", *creation(staged), requirements=CREATE)
    assert done.pointer.object_uuid == staged.pointer.object_uuid
    assert done.pointer.table_uuid == staged.metadata.table_uuid
    assert done.pointer.location == staged.pointer.location == "s3://lake/ns/t"
    assert ns.load(ns.ident("ns.t")).data == done.data
    assert ns.broken_chain() is None


def test_of_two_staged_creates_one_becomes_the_table(ns: lakes.Lake) -> None:
    one, two = create(ns, stage=True), create(ns, stage=True)
    assert one.metadata.location != two.metadata.location
    commit(ns, "ns.t", *creation(two), requirements=CREATE)
    with pytest.raises(
        metadata_errors.RequirementFailed, match=r"^Requirement failed: table already exists$"
    ):
        commit(ns, "ns.t", *creation(one), requirements=CREATE)
    assert ns.load(ns.ident("ns.t")).metadata.location == two.metadata.location


def test_a_staged_place_is_free_again_after_a_day(ns: lakes.Lake) -> None:
    staged = create(ns, stage=True)
    ns.clock.now_ms += tables.STAGED_MS + 1
    with pytest.raises(errors.InvalidLocation, match="another table"):
        create(ns, "ns.other", location=staged.metadata.location)
    table = create(ns, "ns.other", location=staged.metadata.location, permit=lakes.permit_all)
    assert table.pointer.object_uuid != staged.pointer.object_uuid
    with pytest.raises(errors.InvalidLocation):
        commit(ns, "ns.t", *creation(staged), requirements=CREATE)


def test_a_create_by_commit_alone_finds_its_own_place(ns: lakes.Lake) -> None:
    updates = [each for each in creation(create(ns, stage=True)) if each["action"] not in (
        "set-location", "assign-uuid"
    )]  # fmt: skip
    done = commit(ns, "ns.t", *updates, requirements=CREATE)
    assert done.pointer.location.startswith("s3://lake/ns/t-")
    assert done.pointer.table_uuid


@pytest.mark.parametrize(
    ("dotted", "update", "error"),
    [
        ("ns.t@main", None, errors.InvalidName),
        ("ns." + "n" * 1000, None, errors.InvalidName),
        ("ns.t", {"write.data.path": "s3://lake/elsewhere/data"}, errors.InvalidProperty),
        ("ns.t", {"write.metadata.path": "s3://lake/ns/t/metadata/x"}, errors.InvalidProperty),
    ],
)
def test_a_create_by_commit_alone_is_checked_as_other_creates_are(
    ns: lakes.Lake, dotted: str, update: dict[str, str] | None, error: type[Exception]
) -> None:
    updates = [each for each in creation(create(ns, stage=True)) if each["action"] not in (
        "set-location", "assign-uuid"
    )]  # fmt: skip
    if update is not None:
        updates.append({"action": "set-properties", "updates": update})
    before = len(ns.log())
    with pytest.raises(error):
        commit(ns, dotted, *updates, requirements=CREATE)
    assert not ns.tables.exists(ns.ident(dotted))
    assert len(ns.log()) == before
    assert ns.storage.objects.list("lake").objects == ()


# Commits.


def test_a_commit_swaps_the_pointer_and_remembers_the_file_before(ns: lakes.Lake) -> None:
    table = create(ns)
    ns.clock.now_ms += 1_000
    done = commit(ns, "ns.t", set_property("a", "1"))
    assert done.metadata_location is not None
    assert done.metadata_location.startswith("s3://lake/ns/t/metadata/00001-")
    assert done.metadata.metadata_log == [
        {"metadata-file": table.metadata_location, "timestamp-ms": lakes.NOW_MS}
    ]
    assert done.pointer.created_at_ms == lakes.NOW_MS
    assert done.pointer.modified_at_ms == lakes.NOW_MS + 1_000
    assert read(ns, table.metadata_location)["properties"].get("a") is None
    last = ns.log()[-1].record
    assert last.via == "rest"
    (op,) = last.ops
    assert op.summary == {"operation": "update", "updates": ["set-properties"]}
    assert op.before is not None
    assert records.decode(op.before, records.Pointer) == table.pointer
    assert ns.broken_chain() is None


def test_updates_that_change_nothing_commit_nothing(ns: lakes.Lake) -> None:
    create(ns)
    done = commit(ns, "ns.t", set_property("a", "1"))
    again = commit(ns, "ns.t", set_property("a", "1"))
    assert again.metadata_location == done.metadata_location
    assert len(ns.log()) == 3


def test_a_commit_to_a_missing_table_is_refused(ns: lakes.Lake) -> None:
    with pytest.raises(errors.NoSuchTable, match=r"^Table does not exist: ns.t$"):
        commit(ns, "ns.t", set_property("a", "1"))


def test_a_failed_requirement_leaves_no_file_behind(ns: lakes.Lake) -> None:
    create(ns)
    before = len(ns.storage.objects.list("lake").objects)
    with pytest.raises(metadata_errors.RequirementFailed):
        commit(
            ns, "ns.t", set_property("a", "1"), requirements=[{"type": "assert-table-uuid",
            "uuid": "other"}],
        )  # fmt: skip
    with pytest.raises(metadata_errors.BadUpdate):
        commit(ns, "ns.t", {"action": "fly"})
    assert len(ns.storage.objects.list("lake").objects) == before
    assert len(ns.log()) == 2


def test_commits_that_only_lost_a_race_are_applied_on_the_new_head(ns: lakes.Lake) -> None:
    create(ns)

    async def all_at_once() -> None:
        await asyncio.gather(
            *(
                ns.tables.commit(ns.ident("ns.t"), [], [set_property(f"p{each}", "x")], by=BY)
                for each in range(50)
            )
        )

    ns.run(all_at_once())
    metadata = ns.load(ns.ident("ns.t")).metadata
    assert {name for name in metadata.properties if name.startswith("p")} == {
        f"p{each}" for each in range(50)
    }
    assert len(ns.log()) == 52
    assert ns.broken_chain() is None
    assert len(metadata.metadata_log) == 50


def test_a_pointer_moved_by_another_process_is_retried_not_refused(ns: lakes.Lake) -> None:
    """Two stores over one index know nothing of each other's queues."""
    from catalog.store import CatalogStore
    from catalog.tables import Tables

    create(ns)
    other = Tables(
        store=CatalogStore(
            index=ns.storage.index,
            buckets=ns.storage.buckets,
            objects=ns.storage.objects,
            blobs=ns.storage.blobs,
            now_ms=ns.clock,
            new_id=lakes.ids(50_000),
        )
    )

    async def race() -> None:
        await asyncio.gather(
            *(
                each.commit(ns.ident("ns.t"), [], [set_property(f"{name}{n}", "x")], by=BY)
                for name, each in (("a", ns.tables), ("b", other))
                for n in range(10)
            )
        )

    ns.run(race())
    metadata = ns.load(ns.ident("ns.t")).metadata
    assert len([name for name in metadata.properties if name[0] in "ab" and len(name) == 2]) == 20
    assert ns.broken_chain() is None


def test_of_two_writers_that_saw_no_snapshot_one_gets_an_honest_refusal(ns: lakes.Lake) -> None:
    create(ns)
    unborn = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}]

    async def race() -> list[Any]:
        return await asyncio.gather(
            *(
                ns.tables.commit(ns.ident("ns.t"), unborn, append(each, 1), by=BY)
                for each in (11, 12)
            ),
            return_exceptions=True,
        )

    outcome = ns.run(race())
    lost = [each for each in outcome if isinstance(each, Exception)]
    assert len(lost) == 1
    assert isinstance(lost[0], metadata_errors.RequirementFailed)
    assert str(lost[0]) == "Requirement failed: branch main was created concurrently"
    assert len(list(ns.load(ns.ident("ns.t")).metadata.snapshot_ids)) == 1


def append(snapshot_id: int, sequence_number: int, **summary: str) -> list[dict[str, Any]]:
    return [
        {
            "action": "add-snapshot",
            "snapshot": {
                "snapshot-id": snapshot_id,
                "sequence-number": sequence_number,
                "timestamp-ms": lakes.NOW_MS,
                "manifest-list": f"s3://lake/ns/t/metadata/snap-{snapshot_id}.avro",
                "summary": {"operation": "append", **summary},
                "schema-id": 0,
            },
        },
        {
            "action": "set-snapshot-ref",
            "ref-name": "main",
            "type": "branch",
            "snapshot-id": snapshot_id,
        },
    ]


def test_a_table_may_move_but_not_onto_another(ns: lakes.Lake) -> None:
    one = create(ns, "ns.one")
    create(ns, "ns.two")
    with pytest.raises(errors.InvalidLocation):
        commit(ns, "ns.one", {"action": "set-location", "location": "s3://lake/ns/two"})
    with pytest.raises(errors.InvalidLocation):
        commit(ns, "ns.one", {"action": "set-location", "location": "s3://other/ns/x"})
    moved = commit(ns, "ns.one", {"action": "set-location", "location": "s3://lake/new/one"})
    assert moved.pointer.location == "s3://lake/new/one"
    assert moved.pointer.object_uuid == one.pointer.object_uuid
    with pytest.raises(errors.InvalidLocation):
        create(ns, "ns.three", location="s3://lake/new/one")
    # The files written before the move still lie at the old place.
    assert create(ns, "ns.four", location="s3://lake/ns/four").pointer.location
    with pytest.raises(errors.InvalidLocation):
        create(ns, "ns.five", location="s3://lake/ns/one")


def test_metadata_beyond_a_mebibyte_is_a_file_of_its_own(ns: lakes.Lake) -> None:
    create(ns)
    done = commit(ns, "ns.t", set_property("big", "x" * 1_100_000))
    assert done.metadata_location is not None
    info = ns.storage.objects.head("lake", done.metadata_location.removeprefix("s3://lake/"))
    assert info.size_bytes == len(done.data) > 1024 * 1024
    ns.store._cache._entries.clear()
    assert ns.run(ns.tables.fetch(ns.ident("ns.t"))).data == done.data


def test_a_refused_commit_of_large_metadata_leaves_no_file(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from storage import errors as storage_errors

    create(ns)

    async def full(_: object) -> None:
        raise storage_errors.DiskFull("no room")

    blobs = ns.storage.path / "blobs"
    before = sorted(path for path in blobs.rglob("*") if path.is_file())
    monkeypatch.setattr(ns.storage.index, "commit", full)
    with pytest.raises(storage_errors.DiskFull):
        commit(ns, "ns.t", set_property("big", "x" * 1_100_000))
    assert sorted(path for path in blobs.rglob("*") if path.is_file()) == before


def test_an_unknown_outcome_is_reported_and_removes_nothing(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from storage import errors as storage_errors

    create(ns)

    async def lost(_: object) -> None:
        raise storage_errors.CommitUnknown("the disk said nothing")

    blobs = ns.storage.path / "blobs"
    before = {path for path in blobs.rglob("*") if path.is_file()}
    monkeypatch.setattr(ns.storage.index, "commit", lost)
    with pytest.raises(errors.CommitStateUnknown):
        commit(ns, "ns.t", set_property("big", "x" * 1_100_000))
    assert len({path for path in blobs.rglob("*") if path.is_file()} - before) == 1


def test_compressed_metadata_is_named_so_and_reads_the_same(ns: lakes.Lake) -> None:
    table = create(ns, properties={"write.metadata.compression-codec": "gzip"})
    assert table.metadata_location is not None
    assert table.metadata_location.endswith(".gz.metadata.json")
    raw = ns.store.read_file(table.metadata_location, table_bucket="lake")
    assert raw[:2] == b"\x1f\x8b"
    ns.store._cache._entries.clear()
    assert ns.load(ns.ident("ns.t")).data == table.data
    with pytest.raises(errors.InvalidProperty):
        commit(ns, "ns.t", set_property("write.metadata.compression-codec", "lz4"))


def test_metadata_is_compressed_while_others_are_served(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    compress = store.compress

    def watched(data: bytes) -> bytes:
        threads.append(threading.get_ident())
        return compress(data)

    monkeypatch.setattr(store, "compress", watched)
    create(ns, properties={"write.metadata.compression-codec": "gzip"})
    assert len(threads) == 1
    assert threads[0] != ns.run(_thread_of_the_loop())


async def _thread_of_the_loop() -> int:
    return threading.get_ident()


def test_old_metadata_is_tombstoned_only_on_request_after_the_commit(
    ns: lakes.Lake,
) -> None:
    first = create(ns, properties={"write.metadata.previous-versions-max": "2"})
    for number in range(4):
        commit(ns, "ns.t", set_property("n", str(number)))
    assert folders.tombstones(ns.storage, "lake") == []
    third = ns.load(ns.ident("ns.t")).metadata.metadata_log[0]["metadata-file"]
    commit(ns, "ns.t", set_property("write.metadata.delete-after-commit.enabled", "true"))
    gone = [tombstone.key for tombstone in folders.tombstones(ns.storage, "lake")]
    assert gone == [third.removeprefix("s3://lake/")]
    # Hidden, and still served: a reader of the old file is not cut off.
    assert ns.storage.objects.head("lake", gone[0])
    assert first.metadata_location is not None


# Several tables in one commit.


def test_a_transaction_over_tables_is_one_commit(ns: lakes.Lake) -> None:
    for name in ("a", "b", "c"):
        create(ns, f"ns.{name}")
    before = len(ns.log())
    changes = [
        tables.TableChange(
            ident=ns.ident(f"ns.{name}"), requirements=[], updates=[set_property("x", name)]
        )
        for name in ("a", "b", "c")
    ]
    ns.run(ns.tables.commit_many(changes, by=BY))
    assert len(ns.log()) == before + 1
    assert [op.name for op in ns.log()[-1].record.ops] == ["a", "b", "c"]
    for name in ("a", "b", "c"):
        assert ns.load(ns.ident(f"ns.{name}")).metadata.properties["x"] == name
    assert ns.broken_chain() is None


def test_a_transaction_that_fails_for_one_table_changes_none(ns: lakes.Lake) -> None:
    create(ns, "ns.a")
    create(ns, "ns.b")
    good = tables.TableChange(
        ident=ns.ident("ns.a"), requirements=[], updates=[set_property("x", "1")]
    )
    wrong = [{"type": "assert-table-uuid", "uuid": "no"}]
    for bad in (
        tables.TableChange(
            ident=ns.ident("ns.b"), requirements=wrong, updates=[set_property("x", "1")]
        ),
        tables.TableChange(ident=ns.ident("ns.none"), requirements=[], updates=[]),
        tables.TableChange(ident=ns.ident("ns.b"), requirements=[], updates=[{"action": "no"}]),
    ):
        with pytest.raises((errors.CatalogError, metadata_errors.MetadataError)):
            ns.run(ns.tables.commit_many([good, bad], by=BY))
        assert "x" not in ns.load(ns.ident("ns.a")).metadata.properties
    assert len(ns.log()) == 3


def test_a_transaction_creates_and_changes_at_once(ns: lakes.Lake) -> None:
    create(ns, "ns.a")
    staged = create(ns, "ns.b", stage=True)
    ns.run(
        ns.tables.commit_many(
            [
                tables.TableChange(
                    ident=ns.ident("ns.b"), requirements=CREATE, updates=creation(staged)
                ),
                tables.TableChange(
                    ident=ns.ident("ns.a"), requirements=[], updates=[set_property("x", "1")]
                ),
            ],
            by=BY,
        )
    )
    assert ns.tables.exists(ns.ident("ns.b"))
    assert ns.load(ns.ident("ns.a")).metadata.properties["x"] == "1"


def test_two_changes_of_one_table_in_a_transaction_are_applied_in_order(ns: lakes.Lake) -> None:
    create(ns)
    unborn = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}]
    born = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7}]
    ident = ns.ident("ns.t")
    (done,) = ns.run(
        ns.tables.commit_many(
            [
                tables.TableChange(ident=ident, requirements=unborn, updates=append(7, 1)),
                tables.TableChange(
                    ident=ident, requirements=born, updates=[set_property("x", "1")]
                ),
            ],
            by=BY,
        )
    )
    assert done.metadata.current_snapshot_id == 7
    assert done.metadata.properties["x"] == "1"
    assert len(done.metadata.metadata_log) == 1
    with pytest.raises(metadata_errors.RequirementFailed):
        ns.run(
            ns.tables.commit_many(
                [
                    tables.TableChange(ident=ident, requirements=[], updates=append(8, 2)),
                    tables.TableChange(ident=ident, requirements=born, updates=append(9, 3)),
                ],
                by=BY,
            )
        )


def test_transactions_that_cross_do_not_wait_for_each_other_for_ever(ns: lakes.Lake) -> None:
    create(ns, "ns.a")
    create(ns, "ns.b")

    def both(first: str, second: str, value: str) -> list[tables.TableChange]:
        return [
            tables.TableChange(
                ident=ns.ident(name), requirements=[], updates=[set_property(value, value)]
            )
            for name in (first, second)
        ]

    async def cross() -> None:
        async with asyncio.timeout(20):
            await asyncio.gather(
                *(
                    ns.tables.commit_many(both(*names, f"v{number}"), by=BY)
                    for number in range(20)
                    for names in [("ns.a", "ns.b") if number % 2 else ("ns.b", "ns.a")]
                )
            )

    ns.run(cross())
    for name in ("ns.a", "ns.b"):
        properties = ns.load(ns.ident(name)).metadata.properties
        assert {f"v{number}" for number in range(20)} <= properties.keys()


def test_an_empty_transaction_is_refused(ns: lakes.Lake) -> None:
    with pytest.raises(errors.InvalidCatalogRequest):
        ns.run(ns.tables.commit_many([], by=BY))


# Drop, unregister, register, rename.


@pytest.mark.parametrize("purge", [True, False])
def test_a_drop_is_remembered_with_its_intent_and_frees_nothing(
    ns: lakes.Lake, purge: bool
) -> None:
    table = create(ns)
    ns.run(ns.tables.drop(ns.ident("ns.t"), purge=purge, by=BY))
    assert not ns.tables.exists(ns.ident("ns.t"))
    (op,) = ns.log()[-1].record.ops
    until = {} if purge else {"kept-until-ms": lakes.NOW_MS + 30 * 24 * 3600 * 1000}
    assert op.summary == {"operation": "drop", "purge": purge, **until}
    assert op.after is None
    assert read(ns, table.metadata_location)
    with pytest.raises(errors.NoSuchTable):
        ns.run(ns.tables.drop(ns.ident("ns.t"), by=BY))


def test_a_rename_within_one_millisecond_changes_the_token_both_ways(ns: lakes.Lake) -> None:
    table = create(ns)
    there, back = ns.ident("ns.other"), ns.ident("ns.t")
    seen = {records.version_token(table.pointer)}
    for source, target in ((back, there), (there, back)):
        seen.add(records.version_token(ns.run(ns.tables.rename(source, target, by=BY))))
    assert len(seen) == 3


def test_a_drop_with_a_stale_token_is_refused(ns: lakes.Lake) -> None:
    table = create(ns)
    stale = records.version_token(table.pointer)
    now = commit(ns, "ns.t", set_property("a", "1"))
    with pytest.raises(errors.StaleVersionToken):
        ns.run(ns.tables.drop(ns.ident("ns.t"), version_token=stale, by=BY))
    token = records.version_token(now.pointer)
    ns.run(ns.tables.drop(ns.ident("ns.t"), version_token=token, by=BY))


def test_a_full_disk_lets_drops_through_and_nothing_else(ns: lakes.Lake) -> None:
    from storage import errors as storage_errors

    create(ns)
    ns.storage.index._crowded = True
    with pytest.raises(storage_errors.DiskFull):
        commit(ns, "ns.t", set_property("a", "1"))
    ns.run(ns.tables.drop(ns.ident("ns.t"), by=BY))
    ns.run(ns.namespaces.drop("lake", ("ns",), by=BY))
    assert ns.namespaces.list("lake") == []


def test_an_unregistered_table_can_be_registered_again_and_is_the_same(ns: lakes.Lake) -> None:
    table = create(ns)
    commit(ns, "ns.t", set_property("a", "1"))
    last = ns.run(ns.tables.unregister(ns.ident("ns.t"), by=BY))
    assert last.metadata.properties["a"] == "1"
    with pytest.raises(errors.NoSuchTable):
        commit(ns, "ns.t", set_property("a", "2"))
    assert last.metadata_location is not None
    again = ns.run(
        ns.tables.register(ns.ident("ns.u"), last.metadata_location, by=BY, permit=lakes.permit_all)
    )
    assert again.data == last.data
    assert again.metadata_location == last.metadata_location
    assert again.pointer.object_uuid == table.pointer.object_uuid
    assert ns.broken_chain() is None
    # The next commit goes on from there.
    done = commit(ns, "ns.u", set_property("a", "3"))
    assert done.metadata_location is not None
    assert "/00002-" in done.metadata_location


def test_a_foreign_file_becomes_a_table(ns: lakes.Lake) -> None:
    table = create(ns)
    content = json.loads(table.data)
    content["location"] = "s3://lake/imported/orders"
    content["table-uuid"] = "11111111-2222-3333-4444-555555555555"
    location = put(ns, "imported/orders/metadata/v7.metadata.json", json.dumps(content).encode())
    loaded = ns.run(
        ns.tables.register(ns.ident("ns.orders"), location, by=BY, permit=lakes.permit_all)
    )
    assert loaded.pointer.table_uuid == content["table-uuid"]
    assert loaded.pointer.location == "s3://lake/imported/orders"
    done = commit(ns, "ns.orders", set_property("a", "1"))
    assert done.metadata_location is not None
    assert "/00000-" in done.metadata_location


def test_a_registered_file_must_be_metadata_of_this_bucket_outside_every_other_table(
    ns: lakes.Lake,
) -> None:
    table = create(ns)
    content = json.loads(table.data)

    def at(key: str, **changes: Any) -> str:
        return put(ns, key, json.dumps({**content, **changes}).encode())

    home = "s3://lake/imported/orders"
    cases: list[tuple[str, type[Exception]]] = [
        ("s3://lake/none/t/metadata/v1.metadata.json", errors.MetadataFileMissing),
        ("s3://other/a/b/metadata/v1.metadata.json", errors.InvalidMetadataFile),
        (at("imported/o/metadata/v1.json", location=home), errors.InvalidMetadataFile),
        (at("imported/o/metadata/a.metadata.json"), errors.InvalidMetadataFile),
        (at("imported/orders/a.metadata.json", location=home), errors.InvalidMetadataFile),
        (at("imported/orders/data/a.metadata.json", location=home), errors.InvalidMetadataFile),
        (at("imported/orders2/metadata/a.metadata.json", location=home),
            errors.InvalidMetadataFile),
        (at("ns/t/metadata/a.metadata.json"), errors.InvalidLocation),
        (
            at("imported/o/metadata/b.metadata.json", location="s3://other/x/y"),
            errors.InvalidLocation,
        ),
        (
            at("ns/t/data/metadata/c.metadata.json", location="s3://lake/ns/t/data"),
            errors.InvalidLocation,
        ),
        (put(ns, "imported/o/metadata/d.metadata.json", b"{}"), metadata_errors.InvalidMetadata),
        (
            at("imported/o/metadata/e.metadata.json", location=home, refs={
                "main": {"type": "branch", "snapshot-id": 9}}),
            metadata_errors.InvalidMetadata,
        ),
    ]  # fmt: skip
    before = len(ns.log())
    for location, error in cases:
        with pytest.raises(error):
            ns.run(
                ns.tables.register(ns.ident("ns.orders"), location, by=BY, permit=lakes.permit_all)
            )
    assert len(ns.log()) == before
    assert table.metadata_location is not None
    with pytest.raises(errors.TableAlreadyExists, match=r"^Table already exists: ns.t$"):
        ns.run(ns.tables.register(ns.ident("ns.t"), table.metadata_location, by=BY))


def test_register_with_overwrite_points_a_table_back(ns: lakes.Lake) -> None:
    table = create(ns)
    commit(ns, "ns.t", set_property("a", "1"))
    assert table.metadata_location is not None
    back = ns.run(
        ns.tables.register(
            ns.ident("ns.t"),
            table.metadata_location,
            overwrite=True,
            by=BY,
            permit=lakes.permit_all,
        )
    )
    assert back.pointer.object_uuid == table.pointer.object_uuid
    assert "a" not in ns.load(ns.ident("ns.t")).metadata.properties
    assert ns.broken_chain() is None


def test_a_rename_moves_the_pointer_and_nothing_else(ns: lakes.Lake) -> None:
    ns.run(ns.namespaces.create("lake", ("other",), by=BY))
    table = create(ns)
    ns.run(ns.tables.rename(ns.ident("ns.t"), ns.ident("other.u"), by=BY))
    assert not ns.tables.exists(ns.ident("ns.t"))
    renamed = ns.load(ns.ident("other.u"))
    assert renamed.data == table.data
    assert renamed.pointer.object_uuid == table.pointer.object_uuid
    assert len(ns.log()[-1].record.ops) == 2
    assert ns.broken_chain() is None


def test_a_rename_needs_a_source_a_namespace_and_a_free_name(ns: lakes.Lake) -> None:
    create(ns, "ns.a")
    create(ns, "ns.b")

    def rename(source: str, target: str) -> None:
        ns.run(ns.tables.rename(ns.ident(source), ns.ident(target), by=BY))

    with pytest.raises(errors.NoSuchTable, match=r"^Table does not exist: ns.none$"):
        rename("ns.none", "ns.c")
    with pytest.raises(errors.NoSuchNamespace, match=r"^Namespace does not exist: no$"):
        rename("ns.a", "no.a")
    with pytest.raises(
        errors.TableAlreadyExists, match=r"^Cannot rename ns.a to ns.b. Table already exists$"
    ):
        rename("ns.a", "ns.b")
    with pytest.raises(errors.TableAlreadyExists):
        rename("ns.a", "ns.a")
    with pytest.raises(errors.InvalidName):
        rename("ns.a", "ns.x@dev")
    assert len(ns.log()) == 3


def test_a_pointer_is_set_with_its_version_token(ns: lakes.Lake) -> None:
    table = create(ns)
    content = {**json.loads(table.data), "properties": {"by": "hand"}}
    location = put(ns, "ns/t/metadata/00001-x.metadata.json", json.dumps(content).encode())
    token = records.version_token(table.pointer)

    def set_location(place: str, token: str) -> records.Pointer:
        return ns.run(
            ns.tables.set_metadata_location(ns.ident("ns.t"), place, version_token=token, by=BY)
        )

    with pytest.raises(errors.StaleVersionToken):
        set_location(location, "00000000000000000000")
    pointer = set_location(location, token)
    assert pointer.metadata_location == location
    assert ns.load(ns.ident("ns.t")).metadata.properties == {"by": "hand"}
    with pytest.raises(errors.StaleVersionToken):
        set_location(location, token)
    assert ns.log()[-1].record.via == "s3tables"


def test_a_pointer_is_never_set_to_what_is_not_the_tables_own(ns: lakes.Lake) -> None:
    table = create(ns)
    other = create(ns, "ns.other")
    token = records.version_token(table.pointer)
    stranger = {**json.loads(table.data), "table-uuid": "11111111-2222-3333-4444-555555555555"}
    moved = {**json.loads(table.data), "location": "s3://lake/ns/elsewhere"}
    assert other.metadata_location is not None
    for location in (
        other.metadata_location,
        "s3://lake/ns/t2/metadata/x.metadata.json",
        put(ns, "ns/t/metadata/a.metadata.json", json.dumps(stranger).encode()),
        put(ns, "ns/t/metadata/b.metadata.json", json.dumps(moved).encode()),
        put(ns, "ns/t/data/c.parquet", table.data),
    ):
        with pytest.raises(errors.InvalidMetadataFile):
            ns.run(
                ns.tables.set_metadata_location(
                    ns.ident("ns.t"), location, version_token=token, by=BY
                )
            )
    assert ns.load(ns.ident("ns.t")).data == table.data


# Loads and reports.


LOADS = json.dumps([{"source": "s3://raw/a.csv", "etag": "1"}, {"source": "s3://raw/b.csv"}])


def test_what_a_commit_has_taken_in_is_remembered_with_it(ns: lakes.Lake) -> None:
    create(ns)
    commit(ns, "ns.t", *append(7, 1, **{"boathouse.loads": LOADS}))
    page = ns.tables.taken(ns.ident("ns.t"))
    assert {(row.source, row.etag, row.snapshot_id) for row in page.loads} == {
        ("s3://raw/a.csv", "1", 7),
        ("s3://raw/b.csv", "", 7),
    }
    assert page.next is None


def test_a_source_is_taken_in_once_even_by_two_jobs_at_once(ns: lakes.Lake) -> None:
    create(ns)

    async def race() -> list[Any]:
        return await asyncio.gather(
            *(
                ns.tables.commit(
                    ns.ident("ns.t"), [], append(each, each, **{"boathouse.loads": LOADS}), by=BY
                )
                for each in (1, 2, 3)
            ),
            return_exceptions=True,
        )

    outcome = ns.run(race())
    lost = [each for each in outcome if isinstance(each, Exception)]
    assert len(lost) == 2
    assert all(isinstance(each, errors.LoadAlreadyTaken) for each in lost)
    assert "s3://raw/a.csv" in str(lost[0])
    assert len(list(ns.load(ns.ident("ns.t")).metadata.snapshot_ids)) == 1


def test_loads_outlive_their_snapshot_and_a_rename(ns: lakes.Lake) -> None:
    create(ns)
    commit(ns, "ns.t", *append(1, 1, **{"boathouse.loads": LOADS}))
    commit(ns, "ns.t", *append(2, 2))
    commit(ns, "ns.t", {"action": "remove-snapshots", "snapshot-ids": [1]})
    ns.run(ns.tables.rename(ns.ident("ns.t"), ns.ident("ns.u"), by=BY))
    assert len(ns.tables.taken(ns.ident("ns.u")).loads) == 2
    with pytest.raises(errors.LoadAlreadyTaken):
        commit(ns, "ns.u", *append(3, 3, **{"boathouse.loads": LOADS}))
    create(ns)
    assert ns.tables.taken(ns.ident("ns.t")).loads == ()


def test_a_replacing_load_forgets_what_the_table_held_before(ns: lakes.Lake) -> None:
    create(ns)
    commit(ns, "ns.t", *append(1, 1, **{"boathouse.loads": LOADS}))
    only = json.dumps([{"source": "s3://raw/a.csv", "etag": "1"}])
    commit(
        ns, "ns.t", *append(2, 2, **{"boathouse.loads": only, "boathouse.loads.mode": "replace"})
    )
    (row,) = ns.tables.taken(ns.ident("ns.t")).loads
    assert (row.source, row.snapshot_id) == ("s3://raw/a.csv", 2)


def test_a_long_list_lies_in_an_object(ns: lakes.Lake) -> None:
    create(ns)
    rows = [{"source": f"s3://raw/{number}", "etag": "e"} for number in range(2_500)]
    place = put(ns, "lists/l/data/list.parquet", json.dumps(rows).encode())
    commit(ns, "ns.t", *append(1, 1, **{"boathouse.loads": json.dumps({"object": place})}))
    sources: set[str] = set()
    after = ""
    pages = 0
    while True:
        page = ns.tables.taken(ns.ident("ns.t"), after=after)
        sources.update(row.source for row in page.loads)
        pages += 1
        if page.next is None:
            break
        after = page.next
    assert sources == {row["source"] for row in rows}
    assert pages == 3
    with pytest.raises(errors.InvalidPageToken):
        ns.tables.taken(ns.ident("ns.t"), after="zz")


@pytest.mark.parametrize(
    "value",
    ["", "x", "{}", '{"object": 1}', '{"object": "s3://lake/no/such/thing"}', "[1]",
     '[{"etag": "e"}]', '[{"source": ""}]', '[{"source": "a", "etag": 1}]'],
)  # fmt: skip
def test_a_list_of_loads_that_cannot_be_read_is_refused(ns: lakes.Lake, value: str) -> None:
    create(ns)
    with pytest.raises(errors.InvalidCatalogRequest):
        commit(ns, "ns.t", *append(1, 1, **{"boathouse.loads": value}))
    assert ns.load(ns.ident("ns.t")).metadata.current_snapshot_id is None


def test_the_newest_reports_of_a_table_are_kept(ns: lakes.Lake) -> None:
    create(ns)
    for number in range(25):
        ns.run(
            ns.tables.report_metrics(
                ns.ident("ns.t"), json.dumps({"number": number}).encode(), by="me"
            )
        )
    kept = ns.tables.metrics(ns.ident("ns.t"))
    assert [json.loads(each.report)["number"] for each in kept] == list(range(5, 25))
    with pytest.raises(errors.InvalidCatalogRequest):
        ns.run(ns.tables.report_metrics(ns.ident("ns.t"), b"x" * 70_000, by="me"))
    with pytest.raises(errors.NoSuchTable):
        ns.run(ns.tables.report_metrics(ns.ident("ns.no"), b"{}", by="me"))


# Restarts.


def test_a_restart_keeps_everything(tmp_path: Any) -> None:
    with lakes.opened(tmp_path / "d") as lake:
        lake.run(lake.namespaces.create("lake", ("ns",), {"a": "b"}, by=BY))
        create(lake)
        done = commit(lake, "ns.t", set_property("a", "1"))
        create(lake, "ns.gone")
        lake.run(lake.tables.drop(lake.ident("ns.gone"), by=BY))
        log = lake.log()
    with lakes.opened(tmp_path / "d", first_id=900) as lake:
        assert lake.log() == log
        assert lake.broken_chain() is None
        assert lake.namespaces.load("lake", ("ns",)).properties == {"a": "b"}
        reloaded = lake.load(lake.ident("ns.t"))
        assert (reloaded.data, reloaded.pointer) == (done.data, done.pointer)
        assert lake.tables.list("lake", ("ns",)) == [lake.ident("ns.t")]
        again = commit(lake, "ns.t", set_property("a", "2"))
        assert again.metadata_location is not None
        assert "/00002-" in again.metadata_location


def test_tables_of_one_commit_get_locations_apart(ns: lakes.Lake) -> None:
    for name in ("a", "b"):
        create(ns, f"ns.{name}")
    before = len(ns.log())
    for first, second in (("x/y", "x/y"), ("x/y", "x/y/z"), ("x/y/z/w", "x/y")):
        changes = [
            tables.TableChange(
                ident=ns.ident(f"ns.{name}"),
                requirements=[],
                updates=[{"action": "set-location", "location": f"s3://lake/{path}"}],
            )
            for name, path in (("a", first), ("b", second))
        ]
        with pytest.raises(errors.InvalidLocation, match="another table of the same commit"):
            ns.run(ns.tables.commit_many(changes, by=BY))
    assert len(ns.log()) == before
    changes[1] = tables.TableChange(
        ident=ns.ident("ns.b"),
        requirements=[],
        updates=[{"action": "set-location", "location": "s3://lake/x/y/z/v"}],
    )
    ns.run(ns.tables.commit_many(changes, by=BY))


def test_a_table_that_moved_below_its_old_location_can_be_registered_again(
    ns: lakes.Lake,
) -> None:
    table = create(ns)
    below = f"{table.metadata.location}/below"
    commit(ns, "ns.t", {"action": "set-location", "location": below})
    last = ns.run(ns.tables.unregister(ns.ident("ns.t"), by=BY))
    assert last.metadata_location is not None
    again = ns.run(
        ns.tables.register(ns.ident("ns.u"), last.metadata_location, by=BY, permit=lakes.permit_all)
    )
    assert again.pointer.object_uuid == table.pointer.object_uuid
    assert again.pointer.location == below


def test_register_with_overwrite_asks_for_the_table_that_it_meets(ns: lakes.Lake) -> None:
    table = create(ns)
    commit(ns, "ns.t", set_property("a", "1"))
    assert table.metadata_location is not None
    with pytest.raises(errors.InvalidLocation):
        ns.run(ns.tables.register(ns.ident("ns.t"), table.metadata_location, overwrite=True, by=BY))
    assert ns.load(ns.ident("ns.t")).metadata.properties["a"] == "1"


# Metadata of many snapshots.


def add_snapshots(first: int, count: int) -> list[dict[str, Any]]:
    updates: list[dict[str, Any]] = []
    for number in range(first, first + count):
        snapshot = {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": lakes.NOW_MS + number,
            "manifest-list": f"s3://lake/ns/t/metadata/snap-{number}.avro",
            "summary": {"operation": "append", "added-records": str(number)},
            "schema-id": 0,
        }
        updates += [
            {"action": "add-snapshot", "snapshot": snapshot},
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": number,
            },
        ]
    return updates


def body_bytes(lake: lakes.Lake) -> int:
    with lake.storage.index.view() as view:
        return sum(len(value) for _, value in view.scan(batch.Store.BODIES, b""))


def test_a_commit_on_many_snapshots_stores_what_the_file_before_holds_only_once(
    ns: lakes.Lake, tmp_path: Path
) -> None:
    create(ns)
    commit(ns, "ns.t", *add_snapshots(1, 1_000))
    for number in range(1_001, 1_005):
        before = body_bytes(ns)
        table = commit(ns, "ns.t", *add_snapshots(number, 1))
        assert len(table.data) > 180_000
        assert body_bytes(ns) - before < 10_000
        assert table.metadata_location is not None
        assert ns.store.read_file(table.metadata_location, table_bucket="lake") == table.data
        assert [each["snapshot-id"] for each in json.loads(table.data)["snapshots"]] == list(
            range(1, number + 1)
        )
    # Without its first snapshot the list begins otherwise, and the file is written whole.
    table = commit(ns, "ns.t", {"action": "remove-snapshots", "snapshot-ids": [1]})
    assert table.metadata_location is not None
    assert ns.store.read_file(table.metadata_location, table_bucket="lake") == table.data
    invariants.check(ns.storage, ns.storage.path)


def test_a_commit_on_a_file_that_this_process_did_not_write_stores_it_whole(
    ns: lakes.Lake,
) -> None:
    create(ns)
    first = commit(ns, "ns.t", *add_snapshots(1, 1_000))
    spaced = first.data.replace(b'"snapshots":[', b'"snapshots": [ ').replace(b"},{", b"} , {")
    location = put(ns, "ns/t/metadata/00009-spaced.metadata.json", spaced)
    ns.run(
        ns.tables.register(
            ns.ident("ns.t"), location, overwrite=True, by=BY, permit=lakes.permit_all
        )
    )
    for number in range(1_001, 1_004):
        table = commit(ns, "ns.t", *add_snapshots(number, 1))
        assert table.metadata_location is not None
        assert ns.store.read_file(table.metadata_location, table_bucket="lake") == table.data
        assert len(json.loads(table.data)["snapshots"]) == number


def test_a_commit_on_a_thousand_snapshots_takes_less_than_100_kb_of_disk(ns: lakes.Lake) -> None:
    table = create(ns)
    ident = ns.ident("ns.t")

    def snapshot(number: int) -> dict[str, Any]:
        ns.clock.now_ms += 1_000
        added = {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": ns.clock.now_ms,
            "manifest-list": f"{table.pointer.location}/metadata/snap-{number}-{number:032x}.avro",
            "summary": {
                "operation": "append",
                "added-data-files": "1",
                "added-records": "100",
                "total-records": str(number * 100),
                "total-data-files": str(number),
            },
            "schema-id": 0,
            **({"parent-snapshot-id": number - 1} if number > 1 else {}),
        }
        return {"action": "add-snapshot", "snapshot": added}

    def head(number: int) -> dict[str, Any]:
        return {
            "action": "set-snapshot-ref",
            "ref-name": "main",
            "type": "branch",
            "snapshot-id": number,
        }

    def bytes_on_disk() -> int:
        folder = ns.storage.path
        return sum(each.stat().st_blocks * 512 for each in folders.files_of(folder))

    updates = [snapshot(number) for number in range(1, 1_001)]
    ns.run(ns.tables.commit(ident, [], [*updates, head(1_000)], by=BY))
    before, count = bytes_on_disk(), 50

    async def append() -> None:
        for number in range(1_001, 1_001 + count):
            await ns.tables.commit(ident, [], [snapshot(number), head(number)], by=BY)

    ns.run(append())
    assert (bytes_on_disk() - before) / count < 100_000


@pytest.mark.parametrize("name", ["", "a\x00b", "n" * 256])
def test_a_table_without_metadata_has_a_name_like_any_other(lake: lakes.Lake, name: str) -> None:
    lake.run(lake.namespaces.create("lake", ("empty",), {}, by=lakes.BY))
    ident = idents.TableIdent(table_bucket="lake", namespace=("empty",), name=name)
    with pytest.raises(errors.InvalidName):
        lake.run(lake.tables.create_empty(ident, by=lakes.BY))
    assert lake.namespaces.list("lake", ("empty",)) == []
    assert len(lake.log()) == 1
