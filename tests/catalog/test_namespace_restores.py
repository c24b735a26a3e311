"""Restoring a dropped namespace with what was dropped with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from catalog import departures, drops, errors, idents, namespace_restores, namespaces, records
from server.access import errors as access_errors
from storage import batch, model
from tests.kit import lakes, sweeps

BY = lakes.BY
DAY_MS = sweeps.DAY_MS


@pytest.fixture
def ns(lake: lakes.Lake) -> lakes.Lake:
    properties = {"owner": "ann", "location": "s3://lake/elsewhere"}
    lake.run(lake.namespaces.create("lake", ("ns",), properties, by=BY))
    return lake


def create(lake: lakes.Lake, dotted: str) -> records.Pointer:
    table = lake.run(lake.tables.create(lake.ident(dotted), schema=lakes.SCHEMA, by=BY))
    return table.pointer


def create_view(lake: lakes.Lake, dotted: str) -> records.Pointer:
    ident = lake.ident(dotted)
    view = lake.run(
        lake.views.create(ident, schema=lakes.SCHEMA, view_version=lakes.VIEW_VERSION, by=BY)
    )
    return view.pointer


def drop_whole(lake: lakes.Lake, *namespace: str, **more: Any) -> None:
    lake.run(
        lake.namespaces.drop_whole(
            "lake",
            namespace or ("ns",),
            check=lambda _, __: None,
            check_child=lambda _: None,
            by=BY,
            **more,
        )
    )


def undrop(lake: lakes.Lake, *namespace: str, **more: Any) -> namespace_restores.Restored:
    return lake.run(lake.namespaces.undrop("lake", namespace or ("ns",), by=BY, **more))


def kept(lake: lakes.Lake) -> int:
    prefix = records.dropped_namespace_range(lake.store.place("lake"))
    with lake.storage.index.view() as view:
        return len(list(view.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix))))


def test_tables_views_namespaces_and_properties_come_back_in_one_commit(ns: lakes.Lake) -> None:
    ns.run(ns.namespaces.create("lake", ("ns", "in"), {"depth": "2"}, by=BY))
    before = [create(ns, "ns.t"), create(ns, "ns.in.t"), create_view(ns, "ns.v")]
    uuid = ns.namespaces.load("lake", ("ns",)).object_uuid
    drop_whole(ns)
    commits = len(ns.log())
    ns.clock.now_ms += 1_000
    restored = undrop(ns)
    assert len(ns.log()) == commits + 1
    assert restored.namespaces == (("ns",), ("ns", "in"))
    assert restored.missing == ()
    assert {(ident.dotted(), each.object_uuid) for ident, each in restored.items} == set(
        zip(("ns.t", "ns.in.t", "ns.v"), (each.object_uuid for each in before), strict=True)
    )
    namespace = ns.namespaces.load("lake", ("ns",))
    assert namespace.object_uuid == uuid
    assert namespace.properties == {"owner": "ann", "location": "s3://lake/elsewhere"}
    assert ns.namespaces.load("lake", ("ns", "in")).properties == {"depth": "2"}
    assert ns.load(ns.ident("ns.in.t")).metadata.location == before[1].location
    assert ns.broken_chain() is None
    assert kept(ns) == 0
    # The namespaces and the tables are whole: they change and leave as before.
    ns.run(ns.tables.rename(ns.ident("ns.t"), ns.ident("ns.in.u"), by=BY))
    drop_whole(ns)
    assert undrop(ns).missing == ()
    assert ns.tables.exists(ns.ident("ns.in.u"))


@pytest.mark.parametrize("lost", ["table", "view"])
def test_a_namespace_with_a_lost_metadata_file_is_not_restored(tmp_path: Path, lost: str) -> None:
    with lakes.opened(tmp_path / "data") as lake:
        lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
        pointers = {"table": create(lake, "ns.t"), "view": create_view(lake, "ns.v")}
        # A table without metadata has no file to lose.
        lake.run(lake.tables.create_empty(lake.ident("ns.empty"), by=BY))
        drop_whole(lake)
        location = pointers[lost].metadata_location
        assert location is not None
        key = location.removeprefix("s3://lake/")
        body = lake.storage.objects.read(lake.storage.objects.head("lake", key))
        lake.run(lake.storage.objects.delete("lake", key))
    with lakes.opened(tmp_path / "data", first_id=1_000) as lake:
        with pytest.raises(errors.MetadataFileMissing):
            undrop(lake)
        assert not lake.namespaces.exists("lake", ("ns",))
        put = lake.storage.objects.plan_put(
            lake.store.bucket("lake"), key, body, attributes=model.ObjectAttributes(), now_ms=1
        )
        lake.run(lake.storage.index.commit(put))
        assert len(undrop(lake).items) == 3


def test_a_namespace_is_not_dropped_by_a_caller_without_the_right(ns: lakes.Lake) -> None:
    create(ns, "ns.t")

    def judge() -> None:
        raise access_errors.AccessDenied("no", action="a", resource="r")

    with pytest.raises(access_errors.AccessDenied):
        drop_whole(ns, judge=judge)
    assert ns.tables.exists(ns.ident("ns.t"))
    drop_whole(ns)
    with pytest.raises(access_errors.AccessDenied):
        undrop(ns, judge=judge)
    assert not ns.namespaces.exists("lake", ("ns",))


def test_namespaces_in_a_dropped_one_are_asked_for(ns: lakes.Lake) -> None:
    ns.run(ns.namespaces.create("lake", ("ns", "in"), by=BY))
    seen: list[idents.Namespace] = []

    def refuse(namespace: idents.Namespace) -> None:
        seen.append(namespace)
        raise access_errors.AccessDenied("no", action="a", resource="r")

    def drop(**more: Any) -> None:
        ns.run(ns.namespaces.drop_whole("lake", ("ns",), check=lambda _, __: None, by=BY, **more))

    before = ns.log()
    with pytest.raises(access_errors.AccessDenied):
        drop(check_child=refuse)
    assert seen == [("ns", "in")]
    with pytest.raises(errors.NamespaceNotEmpty):
        drop()
    protected = {departures.PROTECTED: "true"}
    ns.run(ns.namespaces.update("lake", ("ns", "in"), updates=protected, removals=[], by=BY))
    with pytest.raises(errors.Protected):
        drop(check_child=lambda _: None)
    assert len(ns.log()) == len(before) + 1
    ns.run(
        ns.namespaces.update(
            "lake", ("ns", "in"), updates={}, removals=[departures.PROTECTED], by=BY
        )
    )
    drop(check_child=lambda _: None)


@pytest.mark.parametrize("what", ["tables", "namespaces"])
def test_a_drop_of_more_than_its_bound_is_refused(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(namespaces, "TABLES_DROPPED_MAX", 2)
    ns.run(ns.namespaces.create("lake", ("ns", "in"), by=BY))
    for name in ("ns.a", "ns.b"):
        create(ns, name)
    drop_whole(ns)
    undrop(ns)
    if what == "tables":
        create_view(ns, "ns.c")
    else:
        ns.run(ns.namespaces.create("lake", ("ns", "more"), by=BY))
    before = ns.log()
    with pytest.raises(errors.InvalidCatalogRequest):
        drop_whole(ns)
    assert ns.log() == before


def test_an_empty_namespace_comes_back_with_its_properties(ns: lakes.Lake) -> None:
    ns.run(ns.namespaces.drop("lake", ("ns",), by=BY))
    undrop(ns)
    assert ns.namespaces.load("lake", ("ns",)).properties["owner"] == "ann"


def test_what_left_before_or_was_restored_or_given_up_since_is_left_as_it_is(
    ns: lakes.Lake,
) -> None:
    ns.run(ns.namespaces.create("lake", ("other",), by=BY))
    earlier = create(ns, "ns.earlier")
    ns.run(ns.tables.drop(ns.ident("ns.earlier"), by=BY))
    ns.clock.now_ms += 1_000
    pointers = {name: create(ns, f"ns.{name}") for name in ("kept", "moved", "again", "given_up")}
    drop_whole(ns)
    ns.clock.now_ms += 1_000
    target = ns.ident("other.moved")
    ns.run(ns.tables.undrop(ns.ident("ns.moved"), target=target, by=BY))
    # This one came back, and was dropped once more on its own, under its old name.
    ns.run(ns.tables.undrop(ns.ident("ns.again"), target=ns.ident("other.again"), by=BY))
    ns.run(ns.tables.drop(ns.ident("other.again"), by=BY))
    ns.run(ns.tables.discard("lake", pointers["given_up"].object_uuid))
    restored = undrop(ns)
    assert [ident.dotted() for ident, _ in restored.items] == ["ns.kept"]
    assert set(restored.missing) == {
        pointers[name].object_uuid for name in ("moved", "again", "given_up")
    }
    assert ns.tables.exists(target)
    assert not ns.tables.exists(ns.ident("ns.earlier"))
    # Its own restore is as possible as before.
    back = ns.run(ns.tables.undrop(ns.ident("ns.earlier"), by=BY))
    assert back.object_uuid == earlier.object_uuid


def test_the_namespace_that_was_dropped_last_comes_first(ns: lakes.Lake) -> None:
    create(ns, "ns.first")
    drop_whole(ns)
    ns.clock.now_ms += 1
    ns.run(ns.namespaces.create("lake", ("ns",), by=BY))
    create(ns, "ns.second")
    with pytest.raises(errors.NamespaceAlreadyExists):
        undrop(ns)
    drop_whole(ns)
    undrop(ns)
    assert ns.tables.exists(ns.ident("ns.second"))
    drop_whole(ns, purge=True)
    undrop(ns)  # a purged namespace is not restored, so the one before it is the last
    assert ns.tables.exists(ns.ident("ns.first"))
    with pytest.raises(errors.NamespaceAlreadyExists, match=r"^Namespace already exists: ns$"):
        undrop(ns)


def test_a_namespace_without_its_parent_is_not_restored(ns: lakes.Lake) -> None:
    ns.run(ns.namespaces.create("lake", ("ns", "in"), by=BY))
    create(ns, "ns.in.t")
    drop_whole(ns, "ns", "in")
    ns.run(ns.namespaces.drop("lake", ("ns",), by=BY))
    with pytest.raises(errors.NoSuchNamespace, match=r"^Namespace does not exist: ns$"):
        undrop(ns, "ns", "in")
    undrop(ns)
    undrop(ns, "ns", "in")
    assert ns.tables.exists(ns.ident("ns.in.t"))


@pytest.mark.parametrize("refuser", ["judge", "judge_item", "judge_child"])
def test_a_refused_part_refuses_the_whole(ns: lakes.Lake, refuser: str) -> None:
    ns.run(ns.namespaces.create("lake", ("ns", "in"), by=BY))
    create(ns, "ns.t")
    drop_whole(ns)

    def refuse(*_: object) -> None:
        raise errors.Protected("not allowed here")

    with pytest.raises(errors.Protected):
        undrop(ns, **{refuser: refuse})
    assert not ns.namespaces.exists("lake", ("ns",))
    undrop(ns)
    assert ns.tables.exists(ns.ident("ns.t"))


def test_other_requests_are_served_while_the_rights_to_a_restore_are_judged(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "CHECKED_AT_ONCE", 1)
    for number in range(3):
        create(ns, f"ns.t{number}")
    drop_whole(ns)
    events: list[str] = []

    async def restore_beside_another() -> None:
        async def other() -> None:
            while True:
                events.append("other")
                await asyncio.sleep(0)

        running = asyncio.ensure_future(other())
        await ns.namespaces.undrop(
            "lake",
            ("ns",),
            by=BY,
            judge_item=lambda _, ident, __, ___: events.append(ident.name),
        )
        running.cancel()

    ns.run(restore_beside_another())
    judged = [each for each in events if each != "other"]
    assert sorted(judged) == ["t0", "t1", "t2"]
    assert "other" in events[events.index(judged[0]) : events.index(judged[2])]


def test_it_is_kept_for_as_long_as_its_tables(ns: lakes.Lake) -> None:
    create(ns, "ns.t")
    ns.run(ns.storage.buckets.update("lake", {"dropped_table_days": 7}))
    drop_whole(ns)
    ns.run(ns.storage.buckets.update("lake", {"dropped_table_days": 0}))
    ns.clock.now_ms += 7 * DAY_MS - 1
    sweeps.run(ns)
    assert kept(ns) == 1
    undrop(ns)
    assert ns.tables.exists(ns.ident("ns.t"))
    ns.run(ns.storage.buckets.update("lake", {"dropped_table_days": 7}))
    drop_whole(ns)
    ns.clock.now_ms += 7 * DAY_MS
    sweeps.run(ns)
    assert kept(ns) == 0
    with pytest.raises(errors.NamespaceNotRestorable):
        undrop(ns)


def test_dropped_namespaces_are_listed_in_pages(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drops, "PAGE_MAX", 2)
    monkeypatch.setattr(drops, "NAMESPACES_AT_ONCE", 1)
    for number in range(5):
        ns.run(ns.namespaces.create("lake", (f"n{number}",), by=BY))
        ns.run(ns.namespaces.drop("lake", (f"n{number}",), by=BY))
    engine = drops.Drops(store=ns.store)
    after, pages = "", []
    while True:

        def is_shown(namespace: idents.Namespace) -> bool:
            return namespace != ("n1",)

        page, after = ns.run(engine.namespaces("lake", after=after, is_shown=is_shown))
        pages.append([namespace for namespace, _ in page])
        if not after:
            break
    assert pages == [[("n0",), ("n2",)], [("n3",), ("n4",)], []]
    with pytest.raises(errors.InvalidPageToken):
        ns.run(engine.namespaces("lake", after="zz", is_shown=lambda _: True))
