"""A write of a table asks about the rights of its caller as it is planned, and is refused whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from catalog import departures, errors, idents, owners, records
from server.access import errors as access_errors
from storage import model
from tests.catalog import test_tables as samples
from tests.kit import lakes

BY = lakes.BY
Writing = Callable[..., Coroutine[Any, Any, Any]]


@pytest.fixture
def ns(lake: lakes.Lake) -> lakes.Lake:
    """Tables ns.t, and ns.gone, which was dropped; metadata at lake/free/m, of no table."""
    lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
    for name in ("ns.t", "ns.gone"):
        samples.create(lake, name)
    lake.run(lake.tables.drop(lake.ident("ns.gone"), by=BY))
    return lake


def put_metadata(lake: lakes.Lake, home: str, **changes: Any) -> str:
    """Store a table's metadata file below a location, and return its URI."""
    document = {**json.loads(lake.load(lake.ident("ns.t")).data), "location": home, **changes}
    key = f"{home.removeprefix('s3://lake/')}/metadata/00009-{lake.store.new_id()}.metadata.json"
    put = lake.storage.objects.plan_put(
        lake.store.bucket("lake"),
        key,
        json.dumps(document).encode(),
        attributes=model.ObjectAttributes(),
        now_ms=1,
    )
    lake.run(lake.storage.index.commit(put))
    return f"s3://lake/{key}"


def commit(lake: lakes.Lake, **named: Any) -> Coroutine[Any, Any, Any]:
    update = {"action": "set-properties", "updates": {"a": "b"}}
    return lake.tables.commit(lake.ident("ns.t"), [], [update], by=BY, **named)


def register(lake: lakes.Lake, **named: Any) -> Coroutine[Any, Any, Any]:
    uri = put_metadata(lake, "s3://lake/free/m", **named.pop("document", {}))
    return lake.tables.register(
        lake.ident(named.pop("name", "ns.new")), uri, by=BY, permit=lakes.permit_all, **named
    )


def point(lake: lakes.Lake, **named: Any) -> Coroutine[Any, Any, Any]:
    pointer = lake.tables.pointer(lake.ident("ns.t"))
    uri = put_metadata(lake, pointer.location, **named.pop("document", {}))
    return lake.tables.set_metadata_location(
        lake.ident("ns.t"), uri, version_token=records.version_token(pointer), by=BY, **named
    )


def judged(name: str) -> Writing:
    return {
        "create": lambda lake, **named: lake.tables.create(
            lake.ident("ns.new"), schema=lakes.SCHEMA, by=BY, **named
        ),
        "stage": lambda lake, **named: lake.tables.create(
            lake.ident("ns.new"), schema=lakes.SCHEMA, stage=True, by=BY, **named
        ),
        "create without metadata": lambda lake, **named: lake.tables.create_empty(
            lake.ident("ns.new"), by=BY, **named
        ),
        "register": register,
        "register over": lambda lake, **named: register(
            lake, name="ns.t", overwrite=True, document={"table-uuid": OTHER_UUID}, **named
        ),
        "point": point,
        "commit": commit,
        "drop": lambda lake, **named: lake.tables.drop(lake.ident("ns.t"), by=BY, **named),
        "unregister": lambda lake, **named: lake.tables.unregister(
            lake.ident("ns.t"), by=BY, **named
        ),
    }[name]


OTHER_UUID = "11111111-2222-3333-4444-555555555555"
WRITES = (
    "create", "stage", "create without metadata", "register", "register over", "point", "commit",
    "drop", "unregister",
)  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_its_judge_refuses_changes_nothing(ns: lakes.Lake, name: str) -> None:
    seen: list[tuple[str, records.Pointer | None]] = []

    def judge(
        place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
    ) -> None:
        seen.append((ident.dotted(), pointer))
        raise access_errors.AccessDenied("no", action="a", resource="r")

    before, rows = ns.log(), ns.load(ns.ident("ns.t")).pointer
    with pytest.raises(access_errors.AccessDenied):
        ns.run(judged(name)(ns, judge=judge))
    assert seen == [("ns.new", None) if "create" in name or name in NEW else ("ns.t", rows)]
    assert ns.log() == before
    assert ns.load(ns.ident("ns.t")).pointer == rows
    assert not ns.tables.exists(ns.ident("ns.new"))
    ns.run(judged(name)(ns))


NEW = ("stage", "register")


@pytest.mark.parametrize("name", ["register", "point"])
def test_a_file_outside_a_table_that_its_metadata_names_is_asked_for(
    ns: lakes.Lake, name: str
) -> None:
    home = "s3://lake/free/m" if name == "register" else ns.load(ns.ident("ns.t")).metadata.location
    snapshots = [
        {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": lakes.NOW_MS,
            "manifest-list": uri,
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        for number, uri in enumerate(
            (f"{home}/metadata/a.avro", f"{home}-more/b.avro", "s3://other/c.avro"), 1
        )
    ]
    document = {"snapshots": snapshots, "last-sequence-number": 3}
    seen: list[str] = []

    def refuse(uri: str) -> None:
        seen.append(uri)
        if len(seen) == 2:
            raise access_errors.AccessDenied("no", action="a", resource="r")

    before = ns.log()
    with pytest.raises(access_errors.AccessDenied):
        ns.run(judged(name)(ns, check_file=refuse, document=document))
    assert set(seen) == {f"{home}-more/b.avro", "s3://other/c.avro"}
    assert ns.log() == before
    ns.run(judged(name)(ns, check_file=seen.append, document=document))
    assert len(seen) == 4


@pytest.mark.parametrize("name", ["register", "point"])
def test_a_clients_metadata_with_paths_elsewhere_is_refused(ns: lakes.Lake, name: str) -> None:
    document = {"properties": {"write.data.path": "s3://lake/elsewhere/data"}}
    before = ns.log()
    with pytest.raises(errors.InvalidProperty):
        ns.run(judged(name)(ns, document=document))
    assert ns.log() == before


def test_a_register_over_a_table_asks_for_its_location_as_that_of_a_live_table(
    ns: lakes.Lake,
) -> None:
    standing = ns.tables.pointer(ns.ident("ns.t"))
    seen: list[tuple[str, owners.LocationOwner | None]] = []

    def permit(path: str, owner: owners.LocationOwner | None) -> None:
        seen.append((path, owner))

    uri = put_metadata(ns, "s3://lake/free/m", **{"table-uuid": OTHER_UUID})
    ns.run(ns.tables.register(ns.ident("ns.t"), uri, overwrite=True, by=BY, permit=permit))
    path, owner = seen[0]
    assert path == standing.location.removeprefix("s3://lake/")
    assert owner is not None
    assert (owner.object_uuid, owner.name, owner.is_live) == (standing.object_uuid, "t", True)


def test_a_register_over_a_table_needs_the_right_to_drop_it_and_leaves_it_restorable(
    ns: lakes.Lake,
) -> None:
    standing = ns.tables.pointer(ns.ident("ns.t"))

    def refuse(
        place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
    ) -> None:
        assert (ident.dotted(), pointer) == ("ns.t", standing)
        raise access_errors.AccessDenied("no", action="a", resource="r")

    before = ns.log()
    with pytest.raises(access_errors.AccessDenied):
        ns.run(judged("register over")(ns, judge_drop=refuse))
    assert ns.log() == before
    protect = {"action": "set-properties", "updates": {departures.PROTECTED: "true"}}
    ns.run(ns.tables.commit(ns.ident("ns.t"), [], [protect], by=BY))
    with pytest.raises(errors.Protected):
        ns.run(judged("register over")(ns))
    ns.run(
        ns.tables.commit(
            ns.ident("ns.t"),
            [],
            [{"action": "remove-properties", "removals": [departures.PROTECTED]}],
            by=BY,
        )
    )
    registered = ns.run(judged("register over")(ns))
    assert registered.pointer.object_uuid != standing.object_uuid
    target = ns.ident("ns.back")
    restored = ns.run(ns.tables.undrop(ns.ident("ns.t"), target=target, by=BY))
    assert restored.object_uuid == standing.object_uuid


def test_a_dropped_table_without_its_metadata_file_is_not_restored(tmp_path: Path) -> None:
    with lakes.opened(tmp_path / "data") as lake:
        lake.run(lake.namespaces.create("lake", ("ns",), by=BY))
        loaded = samples.create(lake, "ns.t")
        assert loaded.metadata_location is not None
        lake.run(lake.tables.drop(lake.ident("ns.t"), by=BY))
        key = loaded.metadata_location.removeprefix("s3://lake/")
        lake.run(lake.storage.objects.delete("lake", key))
    with lakes.opened(tmp_path / "data", first_id=1_000) as lake:
        with pytest.raises(errors.MetadataFileMissing):
            lake.run(lake.tables.undrop(lake.ident("ns.t"), by=BY))
        assert not lake.tables.exists(lake.ident("ns.t"))
