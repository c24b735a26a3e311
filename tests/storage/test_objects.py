"""Objects: put, read, copy, delete, tombstone, list, and who wins a race."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage import checksums, errors, objects, records
from storage.batch import Expect, Store
from storage.model import (
    ByteRange,
    Deleted,
    FileSlice,
    InlineBody,
    ListedPage,
    ObjectAttributes,
    ObjectInfo,
    Precondition,
    Repeated,
    SharedBytes,
)
from storage.opening import Storage
from storage.removals import Removal
from tests.kit import collisions, folders, invariants

BIG = b"0123456789abcdef" * 10_000
LONG_KEYS = ("k" * 400, "k" * 401, "é" * 512, "k" * 1024)

run = folders.run


def put(storage: Storage, key: str, data: bytes, **options: Any) -> ObjectInfo:
    return run(folders.put(storage, key, data, **options))


def count(storage: Storage, store: Store) -> int:
    with storage.index.view() as view:
        return len(list(view.scan(store, b"")))


def sweep(storage: Storage) -> None:
    while run(storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1)):
        pass


@pytest.mark.parametrize("data", [b"", b"x", BIG])
@pytest.mark.parametrize("key", ["k", "a//b", "../..", "dir/", "\x00", *LONG_KEYS])
def test_put_then_head_and_read_give_everything_back(
    storage: Storage, key: str, data: bytes
) -> None:
    attributes = ObjectAttributes(
        headers={"content-type": "a/b"},
        user_metadata={"x": "y"},
        checksums={"crc32": "AAAAAA=="},
        tags={"t": "u"},
        owner="me",
    )
    info = put(storage, key, data, attributes=attributes)
    assert storage.objects.head("raw", key) == info
    assert storage.objects.read(info) == data
    assert (info.bucket, info.key, info.version_id) == ("raw", key, "null")
    assert (info.size_bytes, info.modified_at_ms) == (len(data), folders.START_MS)
    assert info.etag == hashlib.md5(data).hexdigest()
    assert info.crc64nvme == checksums.crc64nvme(data)
    assert info.attributes == attributes
    assert info.tombstoned_at_ms is None
    assert storage.objects.list("raw").objects == (info,)


def test_an_etag_given_with_the_attributes_is_kept(storage: Storage) -> None:
    info = put(storage, "k", b"x", attributes=ObjectAttributes(etag="abc-1"))
    assert info.etag == storage.objects.head("raw", "k").etag == "abc-1"


def test_a_small_body_lies_in_the_index_and_a_large_one_in_a_file(
    storage: Storage, tmp_path: Path
) -> None:
    small, large = put(storage, "s", b"x" * (64 << 10)), put(storage, "l", b"x" * ((64 << 10) + 1))
    assert storage.objects.pieces(small) == (b"x" * (64 << 10),)
    (piece,) = storage.objects.pieces(large)
    assert isinstance(piece, FileSlice)
    assert (piece.offset, piece.length) == (0, (64 << 10) + 1)
    assert piece.path.read_bytes() == b"x" * ((64 << 10) + 1)
    assert folders.blob_files(tmp_path / "data") == {piece.path.name}


@pytest.mark.parametrize("data", [b"0123456789", BIG])
def test_a_range_of_a_body_is_exactly_that(storage: Storage, data: bytes) -> None:
    info = put(storage, "k", data)
    for start, stop in ((0, 1), (3, 7), (len(data) - 1, len(data)), (0, len(data))):
        byte_range = ByteRange(start=start, stop=stop)
        assert storage.objects.read(info, byte_range) == data[start:stop]


def test_read_is_bounded(storage: Storage) -> None:
    info = put(storage, "k", b"0123456789")
    assert storage.objects.read(info, limit_bytes=10) == b"0123456789"
    with pytest.raises(errors.SizeLimitExceeded):
        storage.objects.read(info, limit_bytes=9)
    assert storage.objects.read(info, ByteRange(start=1, stop=3), limit_bytes=2) == b"12"


@pytest.mark.parametrize("key", ["absent", "", "x" * 1025, "\ud800", "y" * 900])
def test_head_of_an_absent_key_is_no_such_key(storage: Storage, key: str) -> None:
    put(storage, "k", b"x")
    with pytest.raises(errors.NoSuchKey):
        storage.objects.head("raw", key)


def test_head_knows_the_null_version_alone(storage: Storage) -> None:
    info = put(storage, "k", b"x")
    assert storage.objects.head("raw", "k", version_id="null") == info
    with pytest.raises(errors.NoSuchVersion):
        storage.objects.head("raw", "k", version_id="other")


def test_everything_in_an_absent_bucket_is_no_such_bucket(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(errors.NoSuchBucket):
        storage.objects.head("none", "k")
    with pytest.raises(errors.NoSuchBucket):
        storage.objects.list("none")
    with pytest.raises(errors.NoSuchBucket):
        put(storage, "k", BIG, bucket="none")
    with pytest.raises(errors.NoSuchBucket):
        run(storage.objects.delete("none", "k"))
    assert folders.blob_files(tmp_path / "data") == set()


def test_a_put_with_a_bad_key_leaves_no_file(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidKey):
        put(storage, "x" * 1025, BIG)
    assert folders.blob_files(tmp_path / "data") == set()


@pytest.mark.parametrize("new", [b"new", BIG + b"new"])
@pytest.mark.parametrize("old", [b"old", BIG])
def test_an_overwritten_body_is_served_until_its_grace_ends_and_then_freed(
    storage: Storage, tmp_path: Path, clock: folders.Clock, old: bytes, new: bytes
) -> None:
    before = put(storage, "k", old)
    after = put(storage, "k", new)
    assert storage.objects.head("raw", "k") == after
    assert storage.objects.read(before) == old
    run(storage.sweep.once())
    assert storage.objects.read(before) == old
    clock.move(60_001)
    run(storage.sweep.once())
    assert storage.objects.read(after) == new
    with pytest.raises(errors.BodyMissing):
        storage.objects.read(before)
    assert count(storage, Store.BODIES) == (new == b"new")
    assert count(storage, Store.BLOBS) == len(folders.blob_files(tmp_path / "data"))
    assert count(storage, Store.RELEASED) == 0


def test_a_held_body_outlives_its_grace(
    storage: Storage, tmp_path: Path, clock: folders.Clock
) -> None:
    info = put(storage, "k", BIG)
    run(storage.objects.delete("raw", "k"))
    clock.move(10**9)
    with storage.blobs.hold(info.body):
        run(storage.sweep.once())
        assert storage.objects.read(info) == BIG
    run(storage.sweep.once())
    assert folders.blob_files(tmp_path / "data") == set()


def test_an_overwrite_is_newer_even_when_the_clock_went_back(
    storage: Storage, clock: folders.Clock
) -> None:
    put(storage, "k", b"1")
    clock.move(-5_000)
    put(storage, "k", b"2")
    assert folders.get(storage, "k") == b"2"


@pytest.mark.parametrize("data", [b"x", BIG])
@pytest.mark.parametrize("key", ["k", "k" * 1000])
def test_delete_removes_the_object_and_in_the_end_every_trace(
    storage: Storage, tmp_path: Path, key: str, data: bytes
) -> None:
    put(storage, key, data)
    run(storage.objects.delete("raw", key))
    with pytest.raises(errors.NoSuchKey):
        storage.objects.head("raw", key)
    assert storage.objects.list("raw").objects == ()
    run(storage.objects.delete("raw", key))
    sweep(storage)
    for store in (Store.OBJECTS, Store.BODIES, Store.BLOBS, Store.PREFIXES, Store.RELEASED):
        assert count(storage, store) == 0
    assert folders.blob_files(tmp_path / "data") == set()


def test_delete_with_a_precondition_that_fails_deletes_nothing(storage: Storage) -> None:
    put(storage, "k", b"x")
    with pytest.raises(errors.PreconditionFailed):
        run(storage.objects.delete("raw", "k", precondition=Precondition(if_match=("no",))))
    assert folders.get(storage, "k") == b"x"


def test_delete_many_says_for_each_what_went_wrong(storage: Storage) -> None:
    for key in ("a", "b", "k" * 500):
        put(storage, key, b"x")
    wanted = [Removal(key=key) for key in ("a", "absent", "", "k" * 500, "a")]
    outcome = run(storage.objects.delete_many("raw", wanted))
    assert [type(each) for each in outcome] == [
        Deleted, Deleted, errors.InvalidKey, Deleted, Deleted,
    ]  # fmt: skip
    assert [info.key for info in storage.objects.list("raw").objects] == ["b"]
    assert run(storage.objects.delete_many("raw", [])) == []


@pytest.mark.parametrize("data", [b"x", b"", BIG])
def test_a_copy_shares_its_bytes_and_no_fate(storage: Storage, tmp_path: Path, data: bytes) -> None:
    source = put(storage, "source", data, attributes=ObjectAttributes(tags={"a": "b"}))
    copied = run(storage.objects.copy(source, "raw", "copy", attributes=folders.PLAIN))
    assert (copied.etag, copied.size_bytes, copied.crc64nvme) == (
        source.etag, source.size_bytes, source.crc64nvme,
    )  # fmt: skip
    assert copied.attributes == folders.PLAIN
    assert count(storage, Store.BODIES) + len(folders.blob_files(tmp_path / "data")) == bool(data)
    put(storage, "source", b"other")
    sweep(storage)
    assert folders.get(storage, "copy") == data
    run(storage.objects.delete("raw", "copy"))
    sweep(storage)
    assert count(storage, Store.BODIES) == 1
    assert folders.blob_files(tmp_path / "data") == set()


@pytest.mark.parametrize("data", [b"x", BIG])
def test_a_copy_onto_itself_changes_the_attributes_alone(storage: Storage, data: bytes) -> None:
    source = put(storage, "k", data)
    for number in range(3):
        attributes = ObjectAttributes(user_metadata={"n": str(number)})
        source = run(storage.objects.copy(source, "raw", "k", attributes=attributes))
        sweep(storage)
        assert folders.get(storage, "k") == data
        assert storage.objects.head("raw", "k").attributes == attributes
    assert count(storage, Store.RELEASED) == 0


def test_a_copy_of_what_was_overwritten_or_removed_meanwhile_is_refused(storage: Storage) -> None:
    source = put(storage, "source", b"x")
    put(storage, "source", b"y")
    with pytest.raises(errors.SourceGone):
        run(storage.objects.copy(source, "raw", "copy", attributes=folders.PLAIN))
    source = storage.objects.head("raw", "source")
    run(storage.objects.delete("raw", "source"))
    with pytest.raises(errors.SourceGone):
        run(storage.objects.copy(source, "raw", "copy", attributes=folders.PLAIN))
    with pytest.raises(errors.NoSuchKey):
        storage.objects.head("raw", "copy")


NEW_ONLY = Precondition(if_none_match=("*",))


def test_put_object_if_none_match_star_lets_one_of_many_writers_win(
    storage: Storage, tmp_path: Path
) -> None:
    async def race() -> list[ObjectInfo | BaseException]:
        return await asyncio.gather(
            *(
                folders.put(storage, "k", BIG + b"%d" % number, precondition=NEW_ONLY)
                for number in range(16)
            ),
            return_exceptions=True,
        )

    results = run(race())
    winners = [each for each in results if isinstance(each, ObjectInfo)]
    assert len(winners) == 1
    assert sum(isinstance(each, errors.PreconditionFailed) for each in results) == 15
    assert storage.objects.head("raw", "k") == winners[0]
    assert len(folders.blob_files(tmp_path / "data")) == 1


def test_put_object_if_match_lets_one_of_many_writers_win(storage: Storage) -> None:
    first = put(storage, "k", b"first")

    async def race() -> list[ObjectInfo | BaseException]:
        held = Precondition(if_match=(first.etag,))
        return await asyncio.gather(
            *(folders.put(storage, "k", b"%d" % n, precondition=held) for n in range(16)),
            return_exceptions=True,
        )

    results = run(race())
    assert sum(isinstance(each, ObjectInfo) for each in results) == 1
    assert sum(isinstance(each, errors.PreconditionFailed) for each in results) == 15


def test_put_if_match_on_an_absent_key_is_no_such_key_and_leaves_no_file(
    storage: Storage, tmp_path: Path
) -> None:
    with pytest.raises(errors.NoSuchKey):
        put(storage, "k", BIG, precondition=Precondition(if_match=("*",)))
    assert folders.blob_files(tmp_path / "data") == set()


ONCE = Precondition(write_once=True)


@pytest.mark.parametrize("data", [b"x", BIG])
def test_a_write_once_key_takes_identical_bytes_again_and_no_others(
    storage: Storage, tmp_path: Path, clock: folders.Clock, data: bytes
) -> None:
    first = put(storage, "k", data, precondition=ONCE)
    clock.move(1000)
    assert put(storage, "k", data, precondition=ONCE) == first
    with pytest.raises(errors.ContentDiffers):
        put(storage, "k", data + b"!", precondition=ONCE)
    changed = bytes([data[0] ^ 1]) + data[1:]
    with pytest.raises(errors.ContentDiffers):
        put(storage, "k", changed, precondition=ONCE)
    assert folders.get(storage, "k") == data
    assert len(folders.blob_files(tmp_path / "data")) == (data == BIG)
    assert count(storage, Store.BODIES) == (data != BIG)


@pytest.mark.parametrize("data", [b"x", BIG])
@pytest.mark.parametrize("tombstoned", [False, True])
def test_identical_bytes_at_a_write_once_key_bring_their_own_attributes(
    storage: Storage, tmp_path: Path, clock: folders.Clock, data: bytes, tombstoned: bool
) -> None:
    first = put(storage, "k", data, precondition=ONCE)
    if tombstoned:
        run(storage.objects.tombstone("raw", "k", by="me"))
    clock.move(1000)
    said = ObjectAttributes(
        headers={"content-type": "text/csv"}, user_metadata={"by": "me"}, tags={"a": "1"}
    )
    again = put(storage, "k", data, attributes=said, precondition=ONCE)
    assert (again.attributes, again.etag) == (said, first.etag)
    assert again.modified_at_ms == first.modified_at_ms + 1000
    assert again.body == first.body
    assert storage.objects.list("raw").objects == (again,)
    assert folders.tombstones(storage) == []
    copied = run(
        storage.objects.copy(again, "raw", "k", attributes=folders.PLAIN, precondition=ONCE)
    )
    assert copied.attributes == folders.PLAIN
    assert storage.objects.head("raw", "k") == copied
    assert folders.get(storage, "k") == data
    assert len(folders.blob_files(tmp_path / "data")) == (data == BIG)
    assert count(storage, Store.BODIES) == (data != BIG)


@pytest.mark.parametrize("data", [b"sixteen bytes and more", BIG])
def test_other_bytes_of_the_same_length_and_crc_are_refused_at_a_write_once_key(
    storage: Storage, tmp_path: Path, data: bytes
) -> None:
    other = collisions.other_body(data)
    first = put(storage, "k", data, precondition=ONCE)
    with pytest.raises(errors.ContentDiffers):
        put(storage, "k", other, precondition=ONCE)
    forged = put(storage, "other", other)
    with pytest.raises(errors.ContentDiffers):
        run(storage.objects.copy(forged, "raw", "k", attributes=folders.PLAIN, precondition=ONCE))
    assert storage.objects.head("raw", "k") == first
    assert folders.get(storage, "k") == data
    assert len(folders.blob_files(tmp_path / "data")) == 2 * (data == BIG)


@pytest.mark.parametrize("data", [b"sixteen bytes and more", BIG])
def test_an_etag_that_is_no_md5_leaves_it_to_the_bytes(
    storage: Storage, tmp_path: Path, data: bytes
) -> None:
    chosen = ObjectAttributes(etag="0" * 32 + "-1")
    first = put(storage, "k", data, attributes=chosen)
    with pytest.raises(errors.ContentDiffers):
        put(storage, "k", collisions.other_body(data), precondition=ONCE)
    with pytest.raises(errors.ContentDiffers):
        put(storage, "k", collisions.other_body(data), attributes=chosen, precondition=ONCE)
    assert storage.objects.head("raw", "k") == first
    again = put(storage, "k", data, precondition=ONCE)
    assert (again.etag, again.body) == (hashlib.md5(data).hexdigest(), first.body)
    assert folders.get(storage, "k") == data
    assert len(folders.blob_files(tmp_path / "data")) == (data == BIG)


def test_write_once_judges_the_other_conditions_first(storage: Storage) -> None:
    put(storage, "k", b"x")
    both = Precondition(write_once=True, if_none_match=("*",))
    with pytest.raises(errors.PreconditionFailed):
        put(storage, "k", b"x", precondition=both)


@pytest.mark.parametrize("key", ["t/data/k", "k" * 700])
def test_a_tombstone_hides_from_listings_and_from_nothing_else(
    storage: Storage, clock: folders.Clock, key: str
) -> None:
    info = put(storage, key, BIG)
    clock.move(5)
    run(storage.objects.tombstone("raw", key, by="me"))
    run(storage.objects.tombstone("raw", key, by="you"))
    assert storage.objects.list("raw").objects == ()
    hidden = storage.objects.head("raw", key)
    assert hidden.tombstoned_at_ms == folders.START_MS + 5
    assert storage.objects.read(hidden) == BIG
    assert hidden.etag == info.etag
    (shown,) = storage.objects.list("raw", include_tombstoned=True).objects
    assert shown == hidden
    assert folders.tombstones(storage) == [(key, folders.START_MS + 5, "me")]
    assert run(folders.remove_tombstone(storage, key, by="you")) == 0
    assert storage.objects.list("raw").objects == ()
    assert run(folders.remove_tombstone(storage, key)) == 1
    assert storage.objects.list("raw").objects == (info,)
    assert folders.tombstones(storage) == []


TREE = [
    f"{folder}{name}"
    for folder in ("", "a/", "a/b/", "c/", "d" * 500 + "/")
    for name in ("1", "2", "3", "4", "z/1", "z/2")
]


def hide(storage: Storage, hidden: Callable[[int], bool]) -> None:
    for number, key in enumerate(sorted(TREE)):
        put(storage, key, b"x")
        if hidden(number):
            run(storage.objects.tombstone("raw", key, by="me"))


@pytest.mark.parametrize("hidden_max", [1, 3, 100])
@pytest.mark.parametrize(
    "hidden",
    [lambda n: True, lambda n: n != 17, lambda n: n % 5 != 0, lambda n: n > 3, lambda n: n < 25],
)
def test_a_patient_listing_shows_what_an_impatient_one_does(
    storage: Storage,
    monkeypatch: pytest.MonkeyPatch,
    hidden_max: int,
    hidden: Callable[[int], bool],
) -> None:
    monkeypatch.setattr(objects, "HIDDEN_MAX", hidden_max)
    hide(storage, hidden)
    for prefix, delimiter, start_after, max_keys in itertools.product(
        ("", "a", "a/", "b", "d"), ("", "/"), ("", "a/2", "a/z/", "c/1"), (1, 2, 1000)
    ):
        options = {"prefix": prefix, "delimiter": delimiter, "max_keys": max_keys}
        expected = storage.objects.list("raw", start_after=start_after, **options)
        page = run(storage.objects.list_patiently("raw", start_after=start_after, **options))
        assert [
            records.object_info("raw", key.decode(), record) for key, record in page.objects
        ] == list(expected.objects)
        assert page.common_prefixes == expected.common_prefixes
        if page.next_after != expected.next_after:
            assert expected.next_after is None
            rest = run(
                storage.objects.list_patiently("raw", start_after=page.next_after, **options)
            )
            assert (rest.objects, rest.common_prefixes) == ((), ())


def test_many_tombstones_leave_others_their_turn(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "HIDDEN_MAX", 3)
    hide(storage, lambda n: True)
    turns = folders.Turns()

    async def both() -> ListedPage:
        async with turns:
            return await storage.objects.list_patiently("raw")

    assert run(both()) == ListedPage(objects=(), common_prefixes=(), next_after=None)
    assert turns.count >= len(TREE) // 3 - 1


def test_a_listing_does_not_look_past_tombstones_behind_its_prefix(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "HIDDEN_MAX", 1)
    looked: list[bytes] = []
    hide(storage, lambda n: True)
    put(storage, "a0", b"x")
    is_tombstoned = records.is_tombstoned

    def counting(value: bytes) -> bool:
        looked.append(value)
        return is_tombstoned(value)

    monkeypatch.setattr(records, "is_tombstoned", counting)
    page = run(storage.objects.list_patiently("raw", prefix="a0"))
    assert [key for key, _ in page.objects] == [b"a0"]
    assert len(looked) <= 3


def test_a_tombstone_of_an_absent_key_is_no_fault(storage: Storage) -> None:
    run(storage.objects.tombstone("raw", "absent", by="me"))
    assert folders.tombstones(storage) == []


@pytest.mark.parametrize("key", ["k", "k" * 700])
def test_deleting_a_tombstoned_object_removes_both(storage: Storage, key: str) -> None:
    put(storage, key, b"x")
    run(storage.objects.tombstone("raw", key, by="me"))
    run(storage.objects.delete("raw", key))
    assert folders.tombstones(storage) == []
    sweep(storage)
    for store in (Store.OBJECTS, Store.TOMBSTONES, Store.PREFIXES, Store.BODIES):
        assert count(storage, store) == 0


@pytest.mark.parametrize("precondition", [Precondition(), ONCE])
@pytest.mark.parametrize("key", ["k", "k" * 401])
def test_a_put_over_a_tombstone_lifts_it(
    storage: Storage, key: str, precondition: Precondition
) -> None:
    put(storage, key, b"x")
    run(storage.objects.tombstone("raw", key, by="me"))
    put(storage, key, b"x", precondition=precondition)
    assert [info.key for info in storage.objects.list("raw").objects] == [key]
    assert folders.tombstones(storage) == []
    assert count(storage, Store.TOMBSTONES) == 0


def test_a_tombstoned_key_counts_as_existing(storage: Storage) -> None:
    put(storage, "k", b"x")
    run(storage.objects.tombstone("raw", "k", by="me"))
    with pytest.raises(errors.ContentDiffers):
        put(storage, "k", b"y", precondition=ONCE)
    with pytest.raises(errors.PreconditionFailed):
        put(storage, "k", b"y", precondition=NEW_ONLY)


def test_a_common_prefix_of_tombstones_alone_is_not_shown(storage: Storage) -> None:
    for key in ("a/1", "a/2", "b/1", "b/2"):
        put(storage, key, b"x")
    for key in ("a/1", "a/2", "b/1"):
        run(storage.objects.tombstone("raw", key, by="me"))
    assert storage.objects.list("raw", delimiter="/").common_prefixes == ("b/",)


def test_set_tags_changes_the_tags_alone(storage: Storage, clock: folders.Clock) -> None:
    info = put(storage, "k", b"x", attributes=ObjectAttributes(tags={"a": "b"}, owner="me"))
    clock.move(1000)
    run(storage.objects.set_tags("raw", "k", {"c": "d"}))
    after = storage.objects.head("raw", "k")
    assert after.attributes == ObjectAttributes(tags={"c": "d"}, owner="me")
    assert (after.modified_at_ms, after.etag) == (info.modified_at_ms, info.etag)
    with pytest.raises(errors.NoSuchKey):
        run(storage.objects.set_tags("raw", "absent", {}))


@pytest.mark.parametrize("stale", ["raw", "beside"])
@pytest.mark.parametrize("expected", [("raw",), ("raw", "beside"), ("beside", "raw")])
def test_a_put_is_refused_if_the_record_of_any_bucket_that_it_expects_has_changed(
    storage: Storage, stale: str, expected: tuple[str, ...]
) -> None:
    run(storage.buckets.create("beside", bucket_type="general", owner="", region="us-east-1"))
    read = {name: storage.buckets.read(name, storage.index) for name in ("raw", "beside")}
    run(storage.buckets.update(stale, {"cors": "other"}))
    expects = tuple(
        Expect(store=Store.BUCKETS, key=name.encode(), value=read[name][1]) for name in expected
    )
    body = run(storage.blobs.store(b"x", digests=folders.MD5))
    putting = storage.objects.put(
        read["raw"][0], "k", body, attributes=folders.PLAIN, expects=expects
    )
    if stale in expected:
        with pytest.raises(errors.ExpectationFailed):
            run(putting)
        with pytest.raises(errors.NoSuchKey):
            storage.objects.head("raw", "k")
    else:
        assert run(putting).key == "k"


@pytest.mark.parametrize("key", ["k", "k" * 900])
@pytest.mark.parametrize("size_bytes", [0, 10, 1 << 20])
def test_plan_put_is_one_transaction_that_needs_an_absent_key(
    storage: Storage, tmp_path: Path, key: str, size_bytes: int
) -> None:
    bucket = storage.buckets.get("raw")
    data = b"m" * size_bytes
    planned = storage.objects.plan_put(
        bucket, key, data, attributes=folders.PLAIN, now_ms=folders.START_MS
    )
    with pytest.raises(errors.NoSuchKey):
        storage.objects.head("raw", key)
    run(storage.index.commit(planned))
    assert folders.get(storage, key) == data
    assert folders.blob_files(tmp_path / "data") == set()
    again = storage.objects.plan_put(
        bucket, key, b"other", attributes=folders.PLAIN, now_ms=folders.START_MS
    )
    with pytest.raises(errors.ExpectationFailed):
        run(storage.index.commit(again))
    assert folders.get(storage, key) == data


def put_repeating(
    storage: Storage, key: str, data: bytes, other: str, *repeats: tuple[int, int, int]
) -> None:
    """Put data, saying of some (start, other, length) that they repeat what lies at another key."""
    planned = storage.objects.plan_put(
        storage.buckets.get("raw"),
        key,
        data,
        attributes=ObjectAttributes(etag="e"),
        now_ms=folders.START_MS,
        repeated=Repeated(
            key=other,
            repeats=tuple(
                SharedBytes(start=start, other=other_start, length=length)
                for start, other_start, length in repeats
            ),
        ),
    )
    run(storage.index.commit(planned))


def rows(storage: Storage, store: Store) -> dict[str, bytes]:
    with storage.index.view() as view:
        return {key.hex(): value for key, value in view.scan(store, b"")}


def plan_put_large(storage: Storage, key: str, data: bytes) -> None:
    bucket = storage.buckets.get("raw")
    attributes = ObjectAttributes(etag="e")
    planned = storage.objects.plan_put(bucket, key, data, attributes=attributes, now_ms=1)
    run(storage.index.commit(planned))


def test_plan_put_of_a_body_that_repeats_another_stores_the_common_bytes_once(
    storage: Storage, tmp_path: Path
) -> None:
    old = b"<" + b"s" * 100_000 + b"|" + b"l" * 40_000 + b">"
    new = b"<<" + b"s" * 100_000 + b",s|" + b"l" * 40_000 + b",l>>"
    plan_put_large(storage, "old", old)
    put_repeating(storage, "new", new, "old", (2, 1, 100_000), (100_005, 100_002, 40_000))
    assert sorted(rows(storage, Store.BODIES).values()) == sorted([old, b"<<,s|,l>>"])
    assert folders.get(storage, "new") == new
    assert folders.get(storage, "old") == old
    invariants.check(storage, tmp_path / "data")
    run(storage.objects.delete("raw", "old"))
    sweep(storage)
    assert folders.get(storage, "new") == new
    invariants.check(storage, tmp_path / "data")
    run(storage.objects.delete("raw", "new"))
    sweep(storage)
    assert rows(storage, Store.BODIES) == rows(storage, Store.BLOBS) == {}


@pytest.mark.parametrize(
    "meanwhile",
    ["removed", "overwritten", "overwritten with the same length and CRC", "in a file"],
)
def test_plan_put_of_a_body_that_repeats_one_of_another_state_is_stored_whole(
    storage: Storage, tmp_path: Path, meanwhile: str
) -> None:
    data = b"x" * 100_000
    forged = collisions.other_body(data, 50_000)
    plan_put_large(storage, "old", data)
    match meanwhile:
        case "removed":
            run(storage.objects.delete("raw", "old"))
        case "overwritten with the same length and CRC":
            run(storage.objects.delete("raw", "old"))
            plan_put_large(storage, "old", forged)
        case "overwritten":
            put(storage, "old", b"y" * 100_000)
        case "in a file":
            put(storage, "old", data)
    planned = storage.objects.plan_put(
        storage.buckets.get("raw"),
        "new",
        data + b"!",
        attributes=ObjectAttributes(etag="e"),
        now_ms=folders.START_MS,
        repeated=Repeated(
            key="old",
            repeats=(SharedBytes(start=0, other=0, length=100_000),),
        ),
    )
    run(storage.index.commit(planned))
    sweep(storage)
    is_forged = meanwhile == "overwritten with the same length and CRC"
    others = [forged] if is_forged else []
    assert sorted(rows(storage, Store.BODIES).values()) == sorted([data + b"!", *others])
    assert folders.get(storage, "new") == data + b"!"
    invariants.check(storage, tmp_path / "data")


def test_a_body_of_which_more_than_a_fourth_is_new_is_stored_whole(storage: Storage) -> None:
    plan_put_large(storage, "old", b"x" * 90_000)
    put_repeating(storage, "new", b"x" * 90_000 + b"y" * 30_000, "old", (0, 0, 90_000))
    put_repeating(storage, "newer", b"x" * 90_000 + b"y" * 30_001, "old", (0, 0, 90_000))
    assert sorted(map(len, rows(storage, Store.BODIES).values())) == [30_000, 90_000, 120_001]


def test_a_chain_of_bodies_that_repeat_each_other_has_few_segments_and_small_rows(
    storage: Storage, tmp_path: Path
) -> None:
    plan_put_large(storage, "0", b"x" * 100_000)
    for number in range(1, 1_500):
        size_bytes = 100_000 + 200 * (number - 1)
        data = b"x" * size_bytes + b"%04d" % number * 50
        put_repeating(storage, str(number), data, str(number - 1), (0, 0, size_bytes - 200))
        info = storage.objects.head("raw", str(number))
        assert len(info.body.segments) <= 16
        assert folders.get(storage, str(number)) == data
        if number % 3:
            run(storage.objects.delete("raw", str(number - 1)))
    sweep(storage)
    invariants.check(storage, tmp_path / "data")
    assert sum(map(len, rows(storage, Store.BODIES).values())) < 500 * 16_600 + 2_000_000


def test_plan_put_into_a_bucket_made_anew_is_refused(storage: Storage) -> None:
    bucket = storage.buckets.get("raw")
    run(storage.buckets.delete("raw"))
    run(folders.make_bucket(storage))
    planned = storage.objects.plan_put(bucket, "k", b"x", attributes=folders.PLAIN, now_ms=1)
    with pytest.raises(errors.NoSuchBucket):
        run(storage.index.commit(planned))
    assert storage.objects.list("raw").objects == ()


def test_plan_put_received_names_a_file_that_was_received_before(
    storage: Storage, tmp_path: Path
) -> None:
    bucket = storage.buckets.get("raw")
    received = run(storage.blobs.store(BIG))
    planned = storage.objects.plan_put_received(
        bucket, "k", received, attributes=ObjectAttributes(etag="e"), now_ms=folders.START_MS
    )
    run(storage.index.commit(planned))
    assert folders.get(storage, "k") == BIG
    assert not isinstance(received.body, InlineBody)
    assert folders.blob_files(tmp_path / "data") == {received.body.segments[0].blob}


def test_list_pages_through_long_and_non_ascii_keys_in_byte_order(storage: Storage) -> None:
    stored = ["a", "é", "z" * 400, "z" * 400 + "a", "z" * 801, "z" * 399 + "é", "𝄞", "\uffff"]
    for key in stored:
        put(storage, key, b"x")
    expected = sorted(stored, key=str.encode)
    listed: list[str] = []
    after: str | None = ""
    while after is not None:
        page = storage.objects.list("raw", start_after=after, max_keys=3)
        listed += [info.key for info in page.objects]
        after = page.next_after
    assert listed == expected


def test_list_never_returns_more_than_a_thousand(storage: Storage) -> None:
    async def fill() -> None:
        await asyncio.gather(*(folders.put(storage, f"{n:04d}", b"") for n in range(1001)))

    run(fill())
    page = storage.objects.list("raw", max_keys=5000)
    assert len(page.objects) == 1000
    assert page.next_after == "0999"
    assert storage.objects.list("raw", max_keys=0).next_after is None
