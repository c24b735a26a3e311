"""Dropping, restoring and protecting tables, views and namespaces: the engines."""

from __future__ import annotations

from typing import Any

import pytest

from catalog import drops, errors, idents, owners, pointers, records
from storage import batch
from tests.kit import lakes, sweeps

BY = lakes.BY
DAY_MS = sweeps.DAY_MS


@pytest.fixture
def ns(lake: lakes.Lake) -> lakes.Lake:
    lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    return lake


def create(lake: lakes.Lake, dotted: str = "ns.t", **more: Any) -> Any:
    return lake.run(lake.tables.create(lake.ident(dotted), schema=lakes.SCHEMA, by=BY, **more))


def drop(lake: lakes.Lake, dotted: str = "ns.t", **more: Any) -> None:
    lake.run(lake.tables.drop(lake.ident(dotted), by=BY, **more))


def undrop(lake: lakes.Lake, dotted: str = "ns.t", **more: Any) -> records.Pointer:
    return lake.run(lake.tables.undrop(lake.ident(dotted), by=BY, **more))


def setting(lake: lakes.Lake, **settings: Any) -> None:
    lake.run(lake.storage.buckets.update("lake", settings))


def dropped_rows(lake: lakes.Lake) -> int:
    prefix = records.dropped_range(lake.store.place("lake"))
    with lake.storage.index.view() as view:
        return len(list(view.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix))))


def create_view(lake: lakes.Lake, dotted: str = "ns.v", **more: Any) -> Any:
    return lake.run(
        lake.views.create(
            lake.ident(dotted),
            schema=lakes.SCHEMA,
            view_version=lakes.VIEW_VERSION,
            by=BY,
            **more,
        )
    )


def test_undrop_gives_a_dropped_table_its_name_uuid_and_metadata_back(ns: lakes.Lake) -> None:
    table = create(ns)
    drop(ns)
    ns.clock.now_ms += 1_000
    pointer = undrop(ns)
    assert pointer.object_uuid == table.pointer.object_uuid
    assert pointer.metadata_location == table.pointer.metadata_location
    assert pointer.modified_at_ms == lakes.NOW_MS + 1_000
    assert ns.load(ns.ident("ns.t")).metadata.table_uuid == table.metadata.table_uuid
    commit = ns.log()[-1].record
    assert commit.via == "undrop"
    assert commit.ops[0].summary == {"operation": "undrop", "from": "ns.t"}
    assert ns.broken_chain() is None
    assert dropped_rows(ns) == 0


def test_undrop_restores_what_was_dropped_last_under_a_name(ns: lakes.Lake) -> None:
    first = create(ns)
    drop(ns)
    ns.clock.now_ms += 1
    second = create(ns)
    drop(ns)
    assert undrop(ns).object_uuid == second.pointer.object_uuid
    ns.run(ns.tables.rename(ns.ident("ns.t"), ns.ident("ns.u"), by=BY))
    assert undrop(ns).object_uuid == first.pointer.object_uuid


def test_undrop_restores_an_older_table_by_its_uuid_under_another_name(ns: lakes.Lake) -> None:
    first = create(ns)
    drop(ns)
    create(ns)
    drop(ns)
    ns.run(ns.namespaces.create("lake", ("other",), by=BY))
    pointer = undrop(ns, object_uuid=first.pointer.object_uuid, target=ns.ident("other.old"))
    assert pointer.object_uuid == first.pointer.object_uuid
    assert ns.tables.pointer(ns.ident("other.old")) == pointer
    assert not ns.tables.exists(ns.ident("ns.t"))


def test_undrop_by_uuid_reaches_a_table_however_many_were_dropped_since(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pointers, "DROPPED_EXAMINED_MAX", 1)
    first = create(ns)
    for _ in range(3):
        drop(ns)
        ns.clock.now_ms += 1_000
        create(ns)
    drop(ns)
    pointer = undrop(ns, object_uuid=first.pointer.object_uuid)
    assert pointer.object_uuid == first.pointer.object_uuid


def test_undrop_by_uuid_needs_the_name_that_the_table_had(ns: lakes.Lake) -> None:
    table = create(ns)
    drop(ns)
    with pytest.raises(errors.NotRestorable):
        undrop(ns, "ns.other", object_uuid=table.pointer.object_uuid)
    with pytest.raises(errors.NotRestorable):
        undrop(ns, "ns.t", object_uuid="no-uuid")
    assert undrop(ns, object_uuid=table.pointer.object_uuid).object_uuid


def test_undrop_of_a_taken_name_is_refused_and_changes_nothing(ns: lakes.Lake) -> None:
    create(ns)
    drop(ns)
    create(ns)
    with pytest.raises(errors.TableAlreadyExists):
        undrop(ns)
    drop(ns, "ns.t")
    create_view(ns, "ns.t")
    with pytest.raises(errors.ViewAlreadyExists):
        undrop(ns)
    assert dropped_rows(ns) == 2


@pytest.mark.parametrize("how", ["purge", "unregister", "none"])
def test_undrop_of_a_table_that_was_purged_or_unregistered_is_refused(
    ns: lakes.Lake, how: str
) -> None:
    if how != "none":
        create(ns)
    if how == "purge":
        drop(ns, purge=True)
    if how == "unregister":
        ns.run(ns.tables.unregister(ns.ident("ns.t"), by=BY))
    with pytest.raises(errors.NotRestorable):
        undrop(ns)


def test_undrop_in_a_namespace_that_was_dropped_needs_another_name(ns: lakes.Lake) -> None:
    create(ns)
    ns.run(ns.namespaces.drop_whole("lake", ("ns",), check=lambda *_: None, by=BY))
    with pytest.raises(errors.NoSuchNamespace):
        undrop(ns)
    ns.run(ns.namespaces.create("lake", ("other",), by=BY))
    assert undrop(ns, target=ns.ident("other.t")).object_type == "table"


def test_undrop_restores_a_view(ns: lakes.Lake) -> None:
    view = create_view(ns)
    ns.run(ns.views.drop(ns.ident("ns.v"), by=BY))
    with pytest.raises(errors.NotRestorable):
        undrop(ns, "ns.v")
    pointer = ns.run(ns.views.undrop(ns.ident("ns.v"), by=BY))
    assert pointer.metadata_location == view.pointer.metadata_location
    assert ns.run(ns.views.fetch(ns.ident("ns.v"))).data == view.data


def test_undrop_is_refused_if_another_table_has_the_location_now(ns: lakes.Lake) -> None:
    table = create(ns)
    drop(ns)
    create(ns, "ns.u", location=table.pointer.location, permit=lakes.permit_all)
    with pytest.raises(errors.InvalidLocation, match="it is the location of another table"):
        undrop(ns, permit=lakes.permit_all)
    assert dropped_rows(ns) == 1


@pytest.mark.parametrize("purge", [False, True])
def test_undrop_takes_a_location_back_once_the_table_that_took_it_is_gone_too(
    ns: lakes.Lake, purge: bool
) -> None:
    table = create(ns)
    drop(ns)
    other = create(ns, "ns.u", location=table.pointer.location, permit=lakes.permit_all)
    drop(ns, "ns.u", purge=purge)
    with pytest.raises(errors.InvalidLocation, match="it holds files of another table"):
        undrop(ns)
    permitted: list[tuple[str, str]] = []

    def permit(path: str, owner: owners.LocationOwner | None) -> None:
        assert owner is not None
        permitted.append((path, owner.object_uuid))

    assert undrop(ns, permit=permit).object_uuid == table.pointer.object_uuid
    assert permitted == [("ns/t", other.pointer.object_uuid)]
    if not purge:
        with pytest.raises(errors.InvalidLocation, match="it is the location of another table"):
            undrop(ns, "ns.u", permit=lakes.permit_all)


def test_a_registration_of_a_dropped_tables_metadata_ends_its_undrop(ns: lakes.Lake) -> None:
    table = create(ns)
    drop(ns)
    assert table.pointer.metadata_location is not None
    ns.run(
        ns.tables.register(
            ns.ident("ns.u"), table.pointer.metadata_location, by=BY, permit=lakes.permit_all
        )
    )
    assert dropped_rows(ns) == 0
    with pytest.raises(errors.NotRestorable):
        undrop(ns)


def test_a_drop_fixes_the_time_until_which_it_can_be_undone(ns: lakes.Lake) -> None:
    setting(ns, dropped_table_days=2)
    create(ns)
    drop(ns)
    setting(ns, dropped_table_days=1)
    sweeps.pass_days(ns, 1.5)
    sweeps.run(ns)
    assert ns.tables.dropped(ns.ident("ns.t")).kept_until_ms == lakes.NOW_MS + 2 * DAY_MS
    undrop(ns)
    drop(ns)
    setting(ns, dropped_table_days=30)
    sweeps.pass_days(ns, 1)
    sweeps.run(ns)
    with pytest.raises(errors.NotRestorable):
        undrop(ns)
    assert dropped_rows(ns) == 0


def test_a_table_is_not_restored_once_a_sweep_gave_it_up_even_if_the_clock_goes_back(
    ns: lakes.Lake,
) -> None:
    create(ns)
    drop(ns)
    sweeps.pass_days(ns, 31)
    sweeps.run(ns)
    sweeps.pass_days(ns, -31)
    with pytest.raises(errors.NotRestorable):
        undrop(ns)


@pytest.mark.parametrize("whole", [False, True])
def test_a_table_that_is_dropped_while_the_clock_is_set_back_is_kept_for_its_days(
    ns: lakes.Lake, whole: bool
) -> None:
    table = create(ns)
    sweeps.pass_days(ns, -31)
    if whole:
        ns.run(ns.namespaces.drop_whole("lake", ("ns",), check=lambda *_: None, by=BY))
        ns.run(ns.namespaces.create("lake", ("ns",), by=BY))
    else:
        drop(ns)
    sweeps.pass_days(ns, 31 + 29)
    sweeps.run(ns)
    assert undrop(ns).object_uuid == table.pointer.object_uuid


def test_a_dry_run_of_the_sweep_gives_no_dropped_table_up(ns: lakes.Lake) -> None:
    create(ns)
    drop(ns)
    sweeps.pass_days(ns, 31)
    report = sweeps.run(ns, dry_run=True)
    assert report.hidden.files == 1
    assert undrop(ns).object_type == "table"


@pytest.mark.parametrize(
    ("rule", "purge", "is_purged"),
    [
        ("asked", None, False),
        ("asked", True, True),
        ("always", None, True),
        ("always", False, False),
        ("never", True, False),
        ("never", None, False),
    ],
)
def test_the_setting_of_a_bucket_says_which_drops_purge(
    ns: lakes.Lake, rule: str, purge: bool | None, is_purged: bool
) -> None:
    setting(ns, purge_on_drop=rule)
    create(ns)
    drop(ns, purge=purge)
    assert ns.log()[-1].record.ops[0].summary["purge"] is is_purged
    assert dropped_rows(ns) == (0 if is_purged else 1)


def test_a_discarded_table_is_freed_by_the_next_sweep(ns: lakes.Lake) -> None:
    table = create(ns)
    drop(ns)
    ns.run(ns.tables.discard("lake", table.pointer.object_uuid))
    with pytest.raises(errors.NotRestorable):
        undrop(ns)
    assert sweeps.run(ns).freed.files == 1
    assert sweeps.keys_in(ns) == set()
    with pytest.raises(errors.NotRestorable):
        ns.run(ns.tables.discard("lake", table.pointer.object_uuid))


def test_a_discarded_unregistered_table_is_freed_by_the_next_sweep(ns: lakes.Lake) -> None:
    table = create(ns)
    ns.run(ns.tables.unregister(ns.ident("ns.t"), by=BY))
    sweeps.pass_days(ns, 400)
    sweeps.run(ns)
    assert len(sweeps.keys_in(ns)) == 1
    ns.run(ns.tables.discard("lake", table.pointer.object_uuid))
    sweeps.run(ns)
    assert sweeps.keys_in(ns) == set()


@pytest.mark.parametrize("name", ["nothing", "not-a-uuid"])
def test_discard_of_something_unknown_is_refused(ns: lakes.Lake, name: str) -> None:
    with pytest.raises(errors.NotRestorable):
        ns.run(ns.tables.discard("lake", name))


PROTECTED = {"boathouse.protected": "true"}


def test_a_protected_table_is_neither_dropped_nor_unregistered(ns: lakes.Lake) -> None:
    create(ns, properties=PROTECTED)
    for purge in (False, True):
        with pytest.raises(errors.Protected, match=r"Table ns\.t is protected"):
            drop(ns, purge=purge)
    with pytest.raises(errors.Protected):
        ns.run(ns.tables.unregister(ns.ident("ns.t"), by=BY))
    with pytest.raises(errors.Protected):
        ns.run(ns.namespaces.drop_whole("lake", ("ns",), check=lambda *_: None, by=BY))
    assert ns.tables.exists(ns.ident("ns.t"))
    update = {"action": "remove-properties", "removals": list(PROTECTED)}
    ns.run(ns.tables.commit(ns.ident("ns.t"), [], [update], by=BY))
    drop(ns)


def test_a_protected_view_is_not_dropped(ns: lakes.Lake) -> None:
    create_view(ns, properties=PROTECTED)
    with pytest.raises(errors.Protected, match=r"View ns\.v is protected"):
        ns.run(ns.views.drop(ns.ident("ns.v"), by=BY))


def test_a_protected_namespace_is_not_dropped_alone_or_with_its_parent(ns: lakes.Lake) -> None:
    ns.run(ns.namespaces.create("lake", ("ns", "kept"), PROTECTED, by=BY))
    with pytest.raises(errors.Protected, match=r"Namespace ns\.kept is protected"):
        ns.run(ns.namespaces.drop("lake", ("ns", "kept"), by=BY))
    with pytest.raises(errors.Protected):
        drop_all(ns)
    assert ns.namespaces.exists("lake", ("ns", "kept"))


def test_a_table_without_readable_metadata_can_be_dropped(ns: lakes.Lake) -> None:
    ns.run(ns.tables.create_empty(ns.ident("ns.empty"), by=BY))
    drop(ns, "ns.empty")
    assert undrop(ns, "ns.empty").metadata_location is None


def drop_all(lake: lakes.Lake, **more: Any) -> Any:
    return lake.run(
        lake.namespaces.drop_whole(
            "lake", ("ns",), check=lambda *_: None, check_child=lambda _: None, by=BY, **more
        )
    )


def test_a_recursive_drop_takes_namespaces_tables_and_views_in_one_commit(ns: lakes.Lake) -> None:
    for namespace in (("ns", "a"), ("ns", "a", "b"), ("ns", "c")):
        ns.run(ns.namespaces.create("lake", namespace, by=BY))
    for name in ("ns.t", "ns.a.t", "ns.a.b.t"):
        create(ns, name)
    create_view(ns, "ns.c.v")
    before = len(ns.log())
    contents = drop_all(ns)
    assert [each.namespace for each in contents.namespaces] == [
        ("ns",),
        ("ns", "a"),
        ("ns", "c"),
        ("ns", "a", "b"),
    ]
    assert len(contents.items) == 4
    assert len(ns.log()) == before + 1
    assert len(ns.log()[-1].record.ops) == 8
    assert ns.broken_chain() is None
    assert ns.namespaces.list("lake") == []
    assert dropped_rows(ns) == 4


def test_a_recursive_purge_frees_every_tables_files_at_the_next_sweep(ns: lakes.Lake) -> None:
    ns.run(ns.namespaces.create("lake", ("ns", "a"), by=BY))
    create(ns, "ns.t")
    create(ns, "ns.a.t")
    drop_all(ns, purge=True)
    assert sweeps.run(ns).freed.files == 2


def test_a_recursive_drop_that_one_check_refuses_drops_nothing(ns: lakes.Lake) -> None:
    ns.run(ns.namespaces.create("lake", ("ns", "a"), by=BY))
    create(ns, "ns.a.t")

    def refuse(_: object) -> None:
        raise PermissionError

    with pytest.raises(PermissionError):
        ns.run(
            ns.namespaces.drop_whole(
                "lake", ("ns",), check=lambda *_: None, check_child=refuse, by=BY
            )
        )
    assert ns.tables.exists(ns.ident("ns.a.t"))


def test_a_drop_of_nested_namespaces_needs_to_be_recursive(ns: lakes.Lake) -> None:
    ns.run(ns.namespaces.create("lake", ("ns", "a"), by=BY))
    with pytest.raises(errors.NamespaceNotEmpty):
        ns.run(ns.namespaces.drop_whole("lake", ("ns",), check=lambda *_: None, by=BY))


def test_measuring_counts_the_files_below_tables_in_steps(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drops, "OBJECTS_AT_ONCE", 1)
    pointers = [create(ns, name).pointer for name in ("ns.t", "ns.t2")]
    engine = drops.Drops(store=ns.store)
    keys = sorted(sweeps.keys_in(ns))
    sizes = [ns.storage.objects.head("lake", key).size_bytes for key in keys]
    whole = ns.run(engine.measure("lake", pointers))
    assert (whole.files, whole.size_bytes, whole.is_whole) == (2, sum(sizes), True)
    assert sorted(whole.listed) == list(zip(keys, sizes, strict=True))
    part = ns.run(engine.measure("lake", pointers, objects_max=1))
    assert (part.files, part.is_whole) == (1, False)


def test_dropped_tables_are_listed_in_pages(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drops, "PAGE_MAX", 2)
    monkeypatch.setattr(drops, "ROWS_AT_ONCE", 1)
    for name in ("ns.a", "ns.b", "ns.hidden", "ns.c"):
        create(ns, name)
        drop(ns, name)
    engine = drops.Drops(store=ns.store)

    def is_shown(ident: idents.TableIdent, _: records.Pointer) -> bool:
        return ident.name != "hidden"

    first = ns.run(engine.page("lake", after="", is_shown=is_shown))
    second = ns.run(engine.page("lake", after=first.next, is_shown=is_shown))
    names = [[each.ident.name for each in page.kept] for page in (first, second)]
    assert names == [["a", "b"], ["c"]]
    assert [each.counted.files for each in first.kept] == [1, 1]
    assert second.next == ""
    for token in ("zz", "00" * 1000):
        with pytest.raises(errors.InvalidPageToken):
            ns.run(engine.page("lake", after=token, is_shown=is_shown))
