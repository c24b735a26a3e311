"""Namespaces: the engine."""

from __future__ import annotations

import asyncio

import pytest

from catalog import errors
from catalog.store import CatalogStore
from tests.kit import lakes

BY = lakes.BY


def make(lake: lakes.Lake, *levels: str, **properties: str) -> None:
    lake.run(lake.namespaces.create("lake", levels, properties, by=BY))


def test_a_namespace_is_there_with_its_properties_and_its_place(lake: lakes.Lake) -> None:
    make(lake, "sales", owner="me")
    namespace = lake.namespaces.load("lake", ("sales",))
    assert namespace.properties == {"owner": "me"}
    assert namespace.location == "s3://lake/sales"
    assert namespace.created_at_ms == lakes.NOW_MS
    assert namespace.created_by == BY


def test_a_listing_holds_direct_children_in_byte_order(lake: lakes.Lake) -> None:
    for levels in (("b",), ("a",), ("é",), ("Z",), ("a", "y"), ("a", "x"), ("a", "x", "deep")):
        make(lake, *levels)
    assert lake.namespaces.list("lake") == [("Z",), ("a",), ("b",), ("é",)]
    assert lake.namespaces.list("lake", ("a",)) == [("a", "x"), ("a", "y")]
    assert lake.namespaces.list("lake", ("a", "x")) == [("a", "x", "deep")]
    assert lake.namespaces.list("lake", ("b",)) == []
    with pytest.raises(errors.NoSuchNamespace, match=r"^Namespace does not exist: a.z$"):
        lake.namespaces.list("lake", ("a", "z"))


def test_a_child_needs_its_parent(lake: lakes.Lake) -> None:
    with pytest.raises(errors.NoSuchNamespace, match=r"^Namespace does not exist: a$"):
        make(lake, "a", "b")
    assert lake.namespaces.list("lake") == []


def test_a_name_is_taken_once(lake: lakes.Lake) -> None:
    make(lake, "a")
    with pytest.raises(errors.NamespaceAlreadyExists, match=r"^Namespace already exists: a$"):
        make(lake, "a")
    assert len(lake.log()) == 1


def test_only_a_table_bucket_is_a_warehouse(lake: lakes.Lake) -> None:
    lake.run(
        lake.storage.buckets.create("plain", bucket_type="general", owner=BY, region="us-east-1")
    )
    for bucket in ("plain", "none", "NO SUCH NAME"):
        with pytest.raises(errors.NoSuchWarehouse):
            lake.namespaces.list(bucket)


def test_an_update_says_what_it_did(lake: lakes.Lake) -> None:
    make(lake, "a", kept="1", gone="2", changed="3")
    done = lake.run(
        lake.namespaces.update(
            "lake", ("a",), updates={"changed": "4", "new": "5"}, removals=["gone", "no"], by=BY
        )
    )
    assert (done.updated, done.removed, done.missing) == (("changed", "new"), ("gone",), ("no",))
    namespace = lake.namespaces.load("lake", ("a",))
    assert namespace.properties == {"kept": "1", "changed": "4", "new": "5"}


def test_an_update_that_changes_nothing_is_no_commit(lake: lakes.Lake) -> None:
    make(lake, "a", x="1")
    lake.run(lake.namespaces.update("lake", ("a",), updates={"x": "1"}, removals=["y"], by=BY))
    assert len(lake.log()) == 1


def test_one_update_cannot_set_and_remove_the_same(lake: lakes.Lake) -> None:
    make(lake, "a", x="1")
    with pytest.raises(errors.PropertiesOverlap):
        lake.run(lake.namespaces.update("lake", ("a",), updates={"x": "2"}, removals=["x"], by=BY))
    assert lake.namespaces.load("lake", ("a",)).properties == {"x": "1"}


def test_a_namespace_may_have_its_tables_elsewhere_in_its_bucket(lake: lakes.Lake) -> None:
    make(lake, "a", location="s3://lake/wh/a")
    assert lake.namespaces.load("lake", ("a",)).location == "s3://lake/wh/a"
    with pytest.raises(errors.InvalidLocation):
        make(lake, "b", location="s3://other/b")
    with pytest.raises(errors.InvalidLocation):
        lake.run(
            lake.namespaces.update(
                "lake", ("a",), updates={"location": "file:/x"}, removals=[], by=BY
            )
        )


def test_a_namespace_that_holds_anything_is_not_dropped(lake: lakes.Lake) -> None:
    make(lake, "a")
    make(lake, "a", "b")
    lake.run(lake.tables.create(lake.ident("a.b.t"), schema=lakes.SCHEMA, by=BY))
    for levels in (("a",), ("a", "b")):
        with pytest.raises(errors.NamespaceNotEmpty, match=r"is not empty$"):
            lake.run(lake.namespaces.drop("lake", levels, by=BY))
    lake.run(lake.tables.drop(lake.ident("a.b.t"), by=BY))
    lake.run(lake.namespaces.drop("lake", ("a", "b"), by=BY))
    lake.run(lake.namespaces.drop("lake", ("a",), by=BY))
    assert lake.namespaces.list("lake") == []
    with pytest.raises(errors.NoSuchNamespace):
        lake.run(lake.namespaces.drop("lake", ("a",), by=BY))
    assert lake.broken_chain() is None


def test_a_namespace_made_again_is_another_one(lake: lakes.Lake) -> None:
    make(lake, "a", x="1")
    first = lake.namespaces.load("lake", ("a",)).object_uuid
    lake.run(lake.namespaces.drop("lake", ("a",), by=BY))
    make(lake, "a")
    again = lake.namespaces.load("lake", ("a",))
    assert again.object_uuid != first
    assert again.properties == {}


def test_a_table_that_moves_in_while_its_namespace_is_dropped_wins_or_loses_whole(
    lake: lakes.Lake,
) -> None:
    make(lake, "a")

    async def race() -> list[object]:
        return await asyncio.gather(
            lake.namespaces.drop("lake", ("a",), by=BY),
            lake.tables.create(lake.ident("a.t"), schema=lakes.SCHEMA, by=BY),
            return_exceptions=True,
        )

    dropped, created = lake.run(race())
    if lake.namespaces.exists("lake", ("a",)):
        assert isinstance(dropped, errors.NamespaceNotEmpty)
        assert lake.tables.exists(lake.ident("a.t"))
    else:
        assert dropped is None
        assert isinstance(created, errors.NoSuchNamespace)
    assert lake.broken_chain() is None


def test_sixteen_creators_get_sixteen_numbers(lake: lakes.Lake) -> None:
    async def create_all() -> None:
        await asyncio.gather(
            *(lake.namespaces.create("lake", (f"n{each}",), by=BY) for each in range(16))
        )

    lake.run(create_all())
    with lake.storage.index.view() as view:
        numbers = {
            lake.store.namespace(view, lake.store.place("lake"), (f"n{each}",)).row.namespace_id
            for each in range(16)
        }
    assert numbers == set(range(1, 17))
    assert lake.broken_chain() is None


def test_the_bounded_memory_of_numbers_forgets_but_never_errs(lake: lakes.Lake) -> None:
    make(lake, "a")
    fresh = CatalogStore(
        index=lake.storage.index,
        buckets=lake.storage.buckets,
        objects=lake.storage.objects,
        blobs=lake.storage.blobs,
        now_ms=lake.clock,
        new_id=lakes.ids(999),
    )
    with lake.storage.index.view() as view:
        place = fresh.place("lake")
        assert fresh.namespace_id(view, place, ("a",)) == 1
        assert fresh.namespace_id(view, place, ("b",)) is None
        assert fresh.namespace_id(view, place, ("x" * 500,)) is None
        assert fresh.namespace_id(view, place, ("\ud800",)) is None
        assert fresh.namespace_of(view, place, 1) == ("a",)
