"""Claims on locations: what they expect, so that two that meet cannot both go through."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from catalog import claims, errors, layout, owners, records
from storage import batch, model
from storage import errors as storage_errors
from tests.kit import lakes

A = "00000000-0000-0000-0000-00000000000a"
B = "00000000-0000-0000-0000-00000000000b"


def plan(
    lake: lakes.Lake,
    path: str,
    owner: str,
    *,
    name: str = "t",
    until: int = 0,
    now_ms: int = 100,
    standing: str | None = None,
    permit: owners.Permit = lakes.permit_all,
) -> batch.Batch:
    place = lake.store.place("lake")
    with lake.storage.index.view() as view:
        return claims.claim(
            view,
            place,
            path,
            object_uuid=owner,
            object_type="table",
            namespace_id=1,
            name=name,
            now_ms=now_ms,
            permit=permit,
            standing_uuid=standing,
            reserved_until_ms=until,
        )


def do(lake: lakes.Lake, planned: batch.Batch) -> None:
    lake.run(lake.storage.index.commit(planned))


def live(lake: lakes.Lake, owner: str) -> None:
    """Make the owner something that is there."""
    key = records.uuid_key(lake.store.place("lake"), owner)
    name = records.encode(records.Name(object_type="table", namespace_id=1, name="t"))
    do(lake, batch.Batch(writes=(batch.Put(store=batch.Store.POINTERS, key=key, value=name),)))


@pytest.mark.parametrize(
    ("first", "second"),
    [("a/b", "a/b"), ("a/b", "a/b/c"), ("a/b/c", "a/b"), ("a/b/c/d", "a/b"), ("a/b", "a/b/c/d")],
)
def test_two_overlapping_claims_planned_at_once_cannot_both_commit(
    lake: lakes.Lake, first: str, second: str
) -> None:
    one, two = plan(lake, first, A), plan(lake, second, B, name="u")
    do(lake, one)
    with pytest.raises(storage_errors.ExpectationFailed):
        do(lake, two)


def test_two_siblings_planned_at_once_both_land_and_their_ancestor_is_noted_once(
    lake: lakes.Lake,
) -> None:
    one, two = plan(lake, "a/b/c", A), plan(lake, "a/b/d", B)
    do(lake, one)
    do(lake, two)
    with pytest.raises(errors.InvalidLocation, match="other locations lie inside it"):
        plan(lake, "a/b", B)


def test_claims_of_two_segments_never_meet(lake: lakes.Lake) -> None:
    one, two = plan(lake, "a/b", A), plan(lake, "a/c", B)
    do(lake, one)
    do(lake, two)


def test_a_live_owner_keeps_its_place_and_may_claim_inside_it(lake: lakes.Lake) -> None:
    do(lake, plan(lake, "a/b", A))
    live(lake, A)
    for path in ("a/b", "a/b/c"):
        with pytest.raises(errors.InvalidLocation):
            plan(lake, path, B)
    do(lake, plan(lake, "a/b/c", A, standing=A))


def test_a_place_whose_owner_is_gone_may_be_asked_for_but_not_around_or_inside(
    lake: lakes.Lake,
) -> None:
    do(lake, plan(lake, "a/b/c", A))
    for path in ("a/b", "a/b/c/d"):
        with pytest.raises(errors.InvalidLocation):
            plan(lake, path, B)
    taking = plan(lake, "a/b/c", B)
    live(lake, A)
    with pytest.raises(storage_errors.ExpectationFailed):
        do(lake, taking)


def owners_asked(
    lake: lakes.Lake, path: str, **more: Any
) -> list[tuple[str, owners.LocationOwner | None]]:
    """Whom a claim of path by B asks for permission."""
    questions: list[tuple[str, owners.LocationOwner | None]] = []
    with contextlib.suppress(errors.InvalidLocation):
        plan(lake, path, B, permit=lambda *question: questions.append(question), **more)
    return questions


def test_every_owner_at_or_above_a_path_is_asked_for_living_or_gone(lake: lakes.Lake) -> None:
    do(lake, plan(lake, "a/b/c", A, name="old"))
    gone = owners.LocationOwner(object_uuid=A, namespace_id=1, name="old", is_live=False)
    assert owners_asked(lake, "a/b/c") == [("a/b/c", gone)]
    assert owners_asked(lake, "a/b/c/d") == [("a/b/c/d", gone)]
    assert owners_asked(lake, "a/b") == []
    with pytest.raises(errors.InvalidLocation):
        plan(lake, "a/b", B)
    live(lake, A)
    standing = owners.LocationOwner(object_uuid=A, namespace_id=1, name="t", is_live=True)
    assert owners_asked(lake, "a/b/c") == [("a/b/c", standing)]
    assert owners_asked(lake, "a/b/c", standing=A) == []
    assert owners_asked(lake, "a/b/c/d", standing=A) == []


def test_a_permission_is_for_the_name_that_the_owner_had_when_it_was_given(
    lake: lakes.Lake,
) -> None:
    do(lake, plan(lake, "a/b", A))
    taking = plan(lake, "a/b", B)
    key = records.gone_key(lake.store.place("lake"), A)
    value = records.encode(records.Name(object_type="table", namespace_id=2, name="u"))
    do(lake, batch.Batch(writes=(batch.Put(store=batch.Store.POINTERS, key=key, value=value),)))
    with pytest.raises(storage_errors.ExpectationFailed):
        do(lake, taking)


def test_files_without_an_owner_need_a_permission(
    lake: lakes.Lake,
) -> None:
    def put(key: str, data: bytes = b"x") -> None:
        bucket = lake.store.bucket("lake")
        do(
            lake,
            lake.storage.objects.plan_put(
                bucket, key, data, attributes=model.ObjectAttributes(), now_ms=1
            ),
        )

    taking = plan(lake, "a/b", B)
    put("a/b/", b"")
    put("a/bc/data/f.parquet")
    assert owners_asked(lake, "a/b") == []
    put("a/b/data/f.parquet")
    with pytest.raises(storage_errors.ExpectationFailed):
        do(lake, taking)
    assert owners_asked(lake, "a/b") == [("a/b", None)]
    lake.run(lake.storage.objects.tombstone("lake", "a/b/data/f.parquet", by="x"))
    assert owners_asked(lake, "a/b") == []
    do(lake, taking)


def test_a_staged_place_is_its_names_until_it_ends(lake: lakes.Lake) -> None:
    do(lake, plan(lake, "a/b", A, name="t", until=1_000))
    place = lake.store.place("lake")

    def claimable(name: str, now_ms: int) -> str | None:
        with lake.storage.index.view() as view:
            row = claims.find_claimable(
                view, place, "a/b", namespace_id=1, name=name, now_ms=now_ms
            )
        return None if row is None else row.object_uuid

    assert claimable("t", 999) == A
    assert claimable("u", 999) is None
    assert claimable("u", 1_000) == A
    with pytest.raises(errors.InvalidLocation):
        plan(lake, "a/b", B, name="u", now_ms=999)
    do(lake, plan(lake, "a/b", B, name="u", now_ms=1_000))


def test_a_key_finds_the_longest_location_above_it(lake: lakes.Lake) -> None:
    do(lake, plan(lake, "a/b", A))
    do(lake, plan(lake, "a/b/c/d", A, standing=A))
    place = lake.store.place("lake")

    def find(key: str) -> str | None:
        with lake.storage.index.view() as view:
            location = claims.find_location(view, place.bucket_id, key)
        if location is None:
            return None
        assert location[0] == layout.Location(path=location[0].path, object_type="table")
        return location[0].path

    assert find("a/b/data/f.parquet") == "a/b"
    assert find("a/b") == "a/b"
    assert find("a/b/c/x") == "a/b"
    assert find("a/b/c/d/metadata/") == "a/b/c/d"
    assert find("a/bc/data/f.parquet") is None
    assert find("a") is None
    assert find("x" * 600 + "/y/z") is None
    assert find("a/\ud800/z") is None


@pytest.mark.parametrize(("until", "is_asked"), [(0, True), (50, False), (500, False)])
def test_a_location_that_was_used_under_the_same_name_is_asked_for(
    lake: lakes.Lake, until: int, is_asked: bool
) -> None:
    """A staged create may be finished or begun again; a dropped table's location has an owner."""
    do(lake, plan(lake, "a/b", A, until=until))
    seen: list[str] = []

    def permit(path: str, owner: owners.LocationOwner | None) -> None:
        assert owner is not None
        seen.append(owner.object_uuid)

    plan(lake, "a/b", B, permit=permit)
    assert seen == ([A] if is_asked else [])


def test_the_owner_of_a_location_is_read_and_expected(lake: lakes.Lake) -> None:
    do(lake, plan(lake, "a/b", A))
    place = lake.store.place("lake")
    for path, owner in (("a/b", A), ("a", None), ("a/c", None)):
        with lake.storage.index.view() as view:
            read, seen = claims.read_owner(view, place, path)
        assert read == owner
        do(lake, seen)
    do(lake, plan(lake, "a/c", B))
    with pytest.raises(storage_errors.ExpectationFailed):
        do(lake, seen)
