"""Versions of a key: writes keep them, removals choose the next newest, listings order them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage import errors, records, versions
from storage.batch import Decision, Store
from storage.model import (
    NULL_VERSION,
    Deleted,
    ListedVersion,
    ObjectAttributes,
    ObjectInfo,
    Precondition,
    Versioning,
)
from storage.opening import Storage
from storage.removals import Removal
from tests.kit import folders, invariants

BIG = b"0123456789abcdef" * 10_000
LONG = "k" * 900
UNKNOWN = "0" * 32

run = folders.run


@pytest.fixture
def storage(tmp_path: Path, clock: folders.Clock) -> Iterator[Storage]:
    opened = folders.open_folder(tmp_path / "data", clock=clock)
    run(folders.make_bucket(opened))
    yield opened
    invariants.check(opened, tmp_path / "data")
    opened.close()


def set_versioning(storage: Storage, versioning: Versioning, bucket: str = "raw") -> None:
    bucket_id = storage.buckets.get(bucket).bucket_id
    run(storage.buckets.set_versioning(bucket, versioning, bucket_id=bucket_id))


def put(storage: Storage, key: str, data: bytes, **options: Any) -> ObjectInfo:
    return run(folders.put(storage, key, data, **options))


def delete(storage: Storage, key: str, version_id: str | None = None) -> Deleted:
    return run(storage.objects.delete("raw", key, version_id=version_id))


def listed(storage: Storage, **options: Any) -> tuple[ListedVersion, ...]:
    return storage.objects.list_versions("raw", **options).versions


def ids(storage: Storage, key: str = "k") -> list[str]:
    return [each.version_id for each in listed(storage, prefix=key) if each.key == key]


def body(storage: Storage, key: str, version_id: str | None = None) -> bytes:
    return storage.objects.read(storage.objects.head("raw", key, version_id=version_id))


@pytest.mark.parametrize("key", ["k", LONG])
def test_put_in_an_enabled_bucket_keeps_every_version(storage: Storage, key: str) -> None:
    set_versioning(storage, "Enabled")
    written = [put(storage, key, data).version_id for data in (b"one", BIG, b"")]
    assert len(set(written)) == 3
    assert ids(storage, key) == written[::-1]
    assert [body(storage, key, each) for each in written] == [b"one", BIG, b""]
    assert body(storage, key) == b""
    assert [each.is_latest for each in listed(storage)] == [True, False, False]


def test_the_object_of_before_versioning_stays_as_the_null_version(storage: Storage) -> None:
    put(storage, "k", b"before")
    set_versioning(storage, "Enabled")
    after = put(storage, "k", b"after").version_id
    assert ids(storage) == [after, NULL_VERSION]
    assert body(storage, "k", NULL_VERSION) == b"before"


def test_put_in_a_suspended_bucket_replaces_the_null_version_alone(storage: Storage) -> None:
    put(storage, "k", BIG)
    set_versioning(storage, "Enabled")
    kept = put(storage, "k", b"kept").version_id
    set_versioning(storage, "Suspended")
    assert put(storage, "k", b"null").version_id == NULL_VERSION
    assert ids(storage) == [NULL_VERSION, kept]
    put(storage, "k", b"null again")
    assert ids(storage) == [NULL_VERSION, kept]
    assert body(storage, "k", NULL_VERSION) == b"null again"
    assert body(storage, "k", kept) == b"kept"


def test_the_null_version_is_listed_where_it_was_written(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    first = put(storage, "k", b"1").version_id
    set_versioning(storage, "Suspended")
    put(storage, "k", b"null")
    set_versioning(storage, "Enabled")
    third, fourth = (put(storage, "k", data).version_id for data in (b"3", b"4"))
    assert ids(storage) == [fourth, third, NULL_VERSION, first]


@pytest.mark.parametrize(("count_max", "expected"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_the_versions_between_an_old_one_and_the_newest_are_counted_up_to_a_number(
    storage: Storage, count_max: int, expected: int
) -> None:
    set_versioning(storage, "Enabled")
    first = put(storage, "k", b"1").version_id
    set_versioning(storage, "Suspended")
    put(storage, "k", b"null")
    set_versioning(storage, "Enabled")
    third, _ = (put(storage, "k", data).version_id for data in (b"3", b"4"))
    bucket_id = storage.buckets.get("raw").bucket_id
    with storage.index.view() as view:

        def count(version_id: str) -> int:
            version = versions.find(view, bucket_id, b"k", version_id)
            assert version is not None
            return versions.count_newer(view, version, count_max=count_max)

        assert count(first) == expected
        assert count(NULL_VERSION) == min(1, count_max)
        assert count(third) == 0


def test_delete_in_an_enabled_bucket_writes_a_marker_that_hides_the_key(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    kept = put(storage, "k", b"x").version_id
    deleted = delete(storage, "k")
    assert deleted.is_delete_marker
    assert deleted.version_id not in (kept, NULL_VERSION, None)
    with pytest.raises(errors.KeyDeleted) as gone:
        storage.objects.head("raw", "k")
    assert gone.value.fields["version_id"] == deleted.version_id
    with pytest.raises(errors.IsDeleteMarker) as marker:
        storage.objects.head("raw", "k", version_id=deleted.version_id)
    assert marker.value.fields["modified_at_ms"] == folders.START_MS
    assert body(storage, "k", kept) == b"x"
    assert storage.objects.list("raw").objects == ()
    assert storage.objects.list("raw", include_tombstoned=True).objects == ()
    assert [(each.is_delete_marker, each.is_latest) for each in listed(storage)] == [
        (True, True),
        (False, False),
    ]


def test_delete_of_an_absent_key_writes_a_marker_and_a_second_one_another(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    for _ in range(2):
        assert delete(storage, LONG).is_delete_marker
    assert [each.is_delete_marker for each in listed(storage)] == [True, True]


def test_delete_in_a_suspended_bucket_replaces_the_null_version_by_a_null_marker(
    storage: Storage,
) -> None:
    set_versioning(storage, "Suspended")
    put(storage, "k", BIG)
    for _ in range(2):
        assert delete(storage, "k") == Deleted(version_id=NULL_VERSION, is_delete_marker=True)
    (marker,) = listed(storage)
    assert (marker.version_id, marker.is_delete_marker) == (NULL_VERSION, True)
    while run(storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1)):
        pass
    with storage.index.view() as view:
        assert list(view.scan(Store.BLOBS, b"")) == []


def test_removing_the_marker_restores_the_object(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    kept = put(storage, "k", b"x").version_id
    marker = delete(storage, "k").version_id
    assert delete(storage, "k", marker) == Deleted(version_id=marker, is_delete_marker=True)
    assert storage.objects.head("raw", "k").version_id == kept
    assert [info.key for info in storage.objects.list("raw").objects] == ["k"]


@pytest.mark.parametrize("key", ["k", LONG])
@pytest.mark.parametrize("null_at", range(4))
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_removing_versions_one_by_one_leaves_the_others_in_order(
    storage: Storage, key: str, null_at: int, order: tuple[int, ...]
) -> None:
    for number in range(4):
        set_versioning(storage, "Suspended" if number == null_at else "Enabled")
        put(storage, key, b"%d" % number)
    written = ids(storage, key)
    left = list(written)
    for number in order:
        assert delete(storage, key, written[number]) == Deleted(version_id=written[number])
        left.remove(written[number])
        assert ids(storage, key) == left
        if left:
            assert storage.objects.head("raw", key).version_id == left[0]
    with pytest.raises(errors.NoSuchKey):
        storage.objects.head("raw", key)
    with storage.index.view() as view:
        for store in (Store.OBJECTS, Store.VERSIONS, Store.PREFIXES):
            assert list(view.scan(store, b"")) == []


def test_removing_an_unknown_version_changes_nothing(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    kept = put(storage, "k", b"x").version_id
    for version_id in (UNKNOWN, NULL_VERSION, kept[:16] + "f" * 16):
        assert delete(storage, "k", version_id) == Deleted(version_id=version_id)
        with pytest.raises(errors.NoSuchVersion):
            storage.objects.head("raw", "k", version_id=version_id)
    assert ids(storage) == [kept]


def test_a_version_written_after_a_removal_in_the_same_moment_has_another_id(
    storage: Storage,
) -> None:
    set_versioning(storage, "Enabled")
    first = put(storage, "k", b"x").version_id
    delete(storage, "k", first)
    second = put(storage, "k", b"x").version_id
    assert first != second
    with pytest.raises(errors.NoSuchVersion):
        storage.objects.head("raw", "k", version_id=first)


def test_versions_stay_in_order_when_the_clock_goes_back(
    storage: Storage, clock: folders.Clock
) -> None:
    set_versioning(storage, "Enabled")
    written = []
    for step in (0, -5_000, 3_000, -60_000):
        clock.move(step)
        written.append(put(storage, "k", b"x").version_id)
    assert ids(storage) == written[::-1]


def test_preconditions_judge_the_newest_version_and_no_marker(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    absent = Precondition(if_none_match=("*",))
    first = put(storage, "k", b"x", precondition=absent)
    with pytest.raises(errors.PreconditionFailed):
        put(storage, "k", b"y", precondition=absent)
    second = put(storage, "k", b"y")
    with pytest.raises(errors.PreconditionFailed):
        put(storage, "k", b"z", precondition=Precondition(if_match=(first.etag,)))
    put(storage, "k", b"z", precondition=Precondition(if_match=(second.etag,)))
    delete(storage, "k")
    with pytest.raises(errors.NoSuchKey):
        put(storage, "k", b"w", precondition=Precondition(if_match=("*",)))
    put(storage, "k", b"w", precondition=absent)


def test_a_precondition_of_a_removal_is_judged_on_the_version_named(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    first, second = put(storage, "k", b"x"), put(storage, "k", b"y")
    wrong = Precondition(if_match=(second.etag,))
    with pytest.raises(errors.PreconditionFailed):
        run(storage.objects.delete("raw", "k", version_id=first.version_id, precondition=wrong))
    assert len(ids(storage)) == 2


def test_a_copy_reads_the_version_named_although_the_key_was_overwritten(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    put(storage, "k", BIG)
    source = storage.objects.head("raw", "k")
    put(storage, "k", b"later")
    copied = run(storage.objects.copy(source, "raw", "copy", attributes=folders.PLAIN))
    assert body(storage, "copy") == BIG
    delete(storage, "k", source.version_id)
    assert body(storage, "copy", copied.version_id) == BIG
    with pytest.raises(errors.SourceGone):
        run(storage.objects.copy(source, "raw", "copy", attributes=folders.PLAIN))


def test_tags_belong_to_one_version(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    first = put(storage, "k", b"x").version_id
    put(storage, "k", b"y")
    run(storage.objects.set_tags("raw", "k", {"a": "b"}, version_id=first))
    run(storage.objects.set_tags("raw", "k", {"c": "d"}))
    tags = [
        storage.objects.head("raw", "k", version_id=each).attributes.tags for each in ids(storage)
    ]
    assert tags == [{"c": "d"}, {"a": "b"}]
    marker = delete(storage, "k").version_id
    with pytest.raises(errors.KeyDeleted):
        run(storage.objects.set_tags("raw", "k", {}))
    with pytest.raises(errors.IsDeleteMarker):
        run(storage.objects.set_tags("raw", "k", {}, version_id=marker))
    with pytest.raises(errors.NoSuchVersion):
        run(storage.objects.set_tags("raw", "k", {}, version_id=UNKNOWN))


def test_completing_an_upload_keeps_the_version_before(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    first = put(storage, "k", b"x").version_id
    upload = run(storage.uploads.create("raw", "k", attributes=ObjectAttributes()))
    received = run(storage.blobs.store(BIG, digests=folders.MD5))
    part = run(storage.uploads.put_part("raw", "k", upload.upload_id, 1, received))
    named = [(1, part.etag)]
    info = run(storage.uploads.complete("raw", "k", upload.upload_id, named))
    assert run(storage.uploads.complete("raw", "k", upload.upload_id, named)) == info
    assert ids(storage) == [info.version_id, first]
    assert body(storage, "k", info.version_id) == BIG


def test_the_segments_that_deletions_release_are_those_of_the_versions_they_remove(
    storage: Storage,
) -> None:
    storage.uploads._part_bytes_min = 1

    async def put_parts(key: str, count: int) -> str:
        upload = await storage.uploads.create("raw", key, attributes=folders.PLAIN)
        parts = []
        for number in range(1, count + 1):
            received = await storage.blobs.store(bytes([number]), digests=folders.MD5)
            part = await storage.uploads.put_part("raw", key, upload.upload_id, number, received)
            parts.append((number, part.etag))
        return (await storage.uploads.complete("raw", key, upload.upload_id, parts)).version_id

    def counts(*wanted: tuple[str, str | None]) -> list[int]:
        return storage.objects.count_segments(storage.buckets.get("raw"), wanted)

    run(put_parts("a", 3))
    assert counts(("a", None), ("a", "null"), ("b", None), ("", None), ("k" * 2000, None)) == [
        3, 3, 0, 0, 0
    ]  # fmt: skip
    set_versioning(storage, "Enabled")
    version_id = run(put_parts("a", 5))
    assert counts(("a", None), ("a", "null"), ("a", version_id), ("a", "x")) == [0, 3, 5, 0]
    set_versioning(storage, "Suspended")
    assert counts(("a", None), ("b", None)) == [3, 0]


def test_delete_many_removes_versions_and_writes_markers_in_one_transaction(
    storage: Storage,
) -> None:
    set_versioning(storage, "Enabled")
    first, second = (put(storage, "k", data).version_id for data in (b"x", b"y"))
    put(storage, "other", b"z")
    wanted = [
        Removal(key="k", version_id=first),
        Removal(key="k", version_id=second),
        Removal(key="k", version_id=second),
        Removal(key="other"),
        Removal(key=LONG),
        Removal(key=LONG + "2"),
    ]
    outcome = run(storage.objects.delete_many("raw", wanted))
    assert outcome[:3] == [Deleted(version_id=each) for each in (first, second, second)]
    assert [isinstance(each, Deleted) and each.is_delete_marker for each in outcome[3:]] == [
        True, True, True,
    ]  # fmt: skip
    assert [each.key for each in listed(storage)] == [LONG, LONG + "2", "other", "other"]


@pytest.mark.parametrize("versioning", [None, "Enabled", "Suspended"])
def test_on_a_full_disk_a_removal_is_taken_and_a_delete_marker_is_not(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, versioning: Versioning | None
) -> None:
    put(storage, "k", b"x")
    if versioning is not None:
        set_versioning(storage, versioning)
    decide, made_room = storage.index.decide, []

    async def watch(decision: Decision[Any], *, makes_room: bool = False) -> Any:
        made_room.append(makes_room)
        return await decide(decision, makes_room=makes_room)

    monkeypatch.setattr(storage.index, "decide", watch)
    bucket = storage.buckets.get("raw")
    run(storage.objects.delete(bucket, "k"))
    run(storage.objects.delete(bucket, "k", version_id=NULL_VERSION))
    mixed = [Removal(key="k", version_id=NULL_VERSION), Removal(key="k")]
    run(storage.objects.delete_many(bucket, mixed))
    never = versioning is None
    assert made_room == [never, True, never]


def test_a_bucket_with_versions_or_markers_is_not_empty(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    first = put(storage, "k", b"x").version_id
    marker = delete(storage, "k").version_id
    with pytest.raises(errors.BucketNotEmpty):
        run(storage.buckets.delete("raw"))
    delete(storage, "k", first)
    with pytest.raises(errors.BucketNotEmpty):
        run(storage.buckets.delete("raw"))
    delete(storage, "k", marker)
    run(storage.buckets.delete("raw"))


def test_a_discarded_bucket_frees_the_bodies_of_its_versions(
    storage: Storage, tmp_path: Path
) -> None:
    set_versioning(storage, "Enabled")
    for key in ("k", LONG):
        put(storage, key, BIG)
        put(storage, key, BIG[1:])
        delete(storage, key)
    run(storage.buckets.delete("raw", discard=True))
    while run(storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1)):
        pass
    assert folders.blob_files(tmp_path / "data") == set()
    with storage.index.view() as view:
        for store in (Store.OBJECTS, Store.VERSIONS, Store.PREFIXES, Store.BLOBS):
            assert list(view.scan(store, b"")) == []


def test_a_lost_body_of_an_older_version_is_reported_at_start(tmp_path: Path) -> None:
    opened = folders.open_folder(tmp_path / "data")
    run(folders.make_bucket(opened))
    set_versioning(opened, "Enabled")
    (segment,) = put(opened, "k", BIG).body.segments
    put(opened, "k", b"newer")
    put(opened, "other", BIG[1:])
    opened.close()
    (tmp_path / "data" / "blobs" / segment.blob[:2] / segment.blob).unlink()
    again = folders.open_folder(tmp_path / "data")
    assert [(each.bucket, each.key) for each in again.recovery.missing] == [("raw", "k")]
    again.close()


def test_settings_and_versioning_change_without_each_other(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    run(storage.buckets.update("raw", {"a": 1}))
    set_versioning(storage, "Suspended")
    info = storage.buckets.get("raw")
    assert (info.versioning, info.settings) == ("Suspended", {"a": 1})


def test_set_versioning_of_a_bucket_made_anew_is_refused(storage: Storage) -> None:
    before = storage.buckets.get("raw")
    run(storage.buckets.delete("raw"))
    run(folders.make_bucket(storage))
    with pytest.raises(errors.NoSuchBucket):
        run(storage.buckets.set_versioning("raw", "Enabled", bucket_id=before.bucket_id))
    assert storage.buckets.get("raw").versioning is None


def test_a_bucket_without_versions_stores_the_records_of_before(storage: Storage) -> None:
    put(storage, "k", b"x")
    with storage.index.view() as view:
        ((_, value),) = view.scan(Store.OBJECTS, b"")
        ((_, bucket),) = view.scan(Store.BUCKETS, b"")
    assert value[1] == 0
    assert bucket[1] == records.FLAG_ACLS_KNOWN
    assert len(records._objects.decode(value[2:]).__struct_fields__) == 10


# Listings of versions.


def pages(storage: Storage, max_keys: int, **options: Any) -> Iterator[tuple[str, ...]]:
    """Yield the entries of each page: `key version_id`, or a common prefix."""
    after: tuple[str, str] | None = ("", "")
    while after is not None:
        page = storage.objects.list_versions(
            "raw", max_keys=max_keys, key_marker=after[0], version_marker=after[1], **options
        )
        entries = [f"{each.key} {each.version_id}" for each in page.versions]
        assert len(entries) + len(page.common_prefixes) <= max_keys
        yield (*entries, *page.common_prefixes)
        after = page.next_after


@pytest.fixture
def history(storage: Storage) -> list[str]:
    """Versions of five keys, some below one prefix; the second of each is its null version."""
    entries = []
    for key in ("a", "a/b", "a/c", "b", LONG):
        written = []
        for number in range(4):
            set_versioning(storage, "Suspended" if number == 1 else "Enabled")
            written.append(put(storage, key, b"x").version_id)
        written.append(str(delete(storage, key).version_id))
        entries += [f"{key} {each}" for each in reversed(written)]
    return entries


@pytest.mark.parametrize("max_keys", [1, 2, 3, 5, 7, 1000])
def test_pages_of_any_size_show_every_version_once(
    storage: Storage, history: list[str], max_keys: int
) -> None:
    shown = [entry for page in pages(storage, max_keys) for entry in page]
    assert shown == history


@pytest.mark.parametrize("max_keys", [1, 2, 4, 1000])
def test_a_delimiter_groups_the_versions_of_keys_below_it(
    storage: Storage, history: list[str], max_keys: int
) -> None:
    shown = [entry for page in pages(storage, max_keys, delimiter="/") for entry in page]
    below = [entry for entry in history if entry.startswith("a/")]
    expected = [entry for entry in history if entry not in below]
    assert sorted(shown) == sorted([*expected, "a/"])


def test_a_prefix_selects_keys(storage: Storage, history: list[str]) -> None:
    shown = [entry for page in pages(storage, 3, prefix="a/") for entry in page]
    assert shown == [entry for entry in history if entry.startswith("a/")]


def test_a_key_marker_alone_starts_after_all_versions_of_the_key(
    storage: Storage, history: list[str]
) -> None:
    page = storage.objects.list_versions("raw", key_marker="a/c", max_keys=1)
    assert page.versions[0].key == "b"


@pytest.mark.parametrize("stop", range(1, 25))
def test_a_page_starts_after_the_marker_of_a_removed_version(
    storage: Storage, history: list[str], stop: int
) -> None:
    page = storage.objects.list_versions("raw", max_keys=stop)
    assert page.next_after is not None
    key, _, version_id = history[stop - 1].rpartition(" ")
    delete(storage, key, version_id)
    rest = storage.objects.list_versions(
        "raw", key_marker=page.next_after[0], version_marker=page.next_after[1]
    )
    assert [f"{each.key} {each.version_id}" for each in rest.versions] == history[stop:]


def test_the_marker_null_starts_after_the_null_version(
    storage: Storage, history: list[str]
) -> None:
    rest = storage.objects.list_versions("raw", key_marker="a", version_marker=NULL_VERSION)
    expected = history[history.index(f"a {NULL_VERSION}") + 1 :]
    assert [f"{each.key} {each.version_id}" for each in rest.versions] == expected


def test_a_page_of_an_old_version_reads_no_row_before_it(storage: Storage) -> None:
    set_versioning(storage, "Enabled")
    written = [put(storage, "k", b"x").version_id for _ in range(30)]
    read = 0

    with storage.index.view() as view:
        start = versions.entry_behind(view, storage.buckets.get("raw").bucket_id, "k", written[1])

        class Counting:
            def get(self, store: Store, key: bytes) -> bytes | None:
                return view.get(store, key)

            def scan(self, store: Store, *bounds: bytes) -> Iterator[tuple[bytes, bytes]]:
                nonlocal read
                for row in view.scan(store, *bounds):
                    read += 1
                    yield row

        rows = versions.VersionRows(Counting(), storage.buckets.get("raw").bucket_id)  # type: ignore[arg-type] # a Reading of two methods
        ((_, (value, newest)),) = list(rows.walk(start + b"\x00"))
    assert (records.decode_object(value).version_id, newest) == (written[0], False)
    assert read == 2


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("null", True),
        (UNKNOWN, True),
        ("f" * 32, True),
        ("f" * 31, False),
        ("f" * 33, False),
        ("F" * 32, False),
        ("f" * 32 + "\n", False),
        ("", False),
        ("NULL", False),
        ("٣" * 32, False),
    ],
)
def test_is_version_id(text: str, valid: bool) -> None:
    assert versions.is_version_id(text) == valid
