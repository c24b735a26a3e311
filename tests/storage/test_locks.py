"""Object lock: what protects a version, judged where it would be removed or changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage import errors, locks
from storage.model import Deleted, ObjectAttributes, ObjectInfo
from storage.opening import Storage
from storage.removals import Removal
from tests.kit import folders, invariants

DAY_MS = 86_400_000
LATER_MS = folders.START_MS + 10 * DAY_MS
MODES: tuple[locks.Mode, ...] = ("GOVERNANCE", "COMPLIANCE")

run = folders.run


@pytest.fixture
def storage(tmp_path: Path, clock: folders.Clock) -> Iterator[Storage]:
    opened = folders.open_folder(tmp_path / "data", clock=clock)
    run(
        opened.buckets.create("raw", bucket_type="general", owner="o", region="r", object_lock=True)
    )
    yield opened
    invariants.check(opened, tmp_path / "data")
    opened.close()


def put(storage: Storage, lock: dict[str, str] | None = None, **options: Any) -> ObjectInfo:
    attributes = ObjectAttributes(headers={"content-type": "a/b", **(lock or {})})
    return run(folders.put(storage, "k", b"x", attributes=attributes, **options))


def remove(storage: Storage, version_id: str, *, bypass: bool = False) -> Deleted:
    return run(storage.objects.delete("raw", "k", version_id=version_id, bypass_governance=bypass))


def retain(
    storage: Storage, retention: locks.VersionRetention | None, *, bypass: bool = False
) -> ObjectInfo:
    return run(storage.objects.set_retention("raw", "k", retention, bypass_governance=bypass))


def until(mode: locks.Mode, at_ms: int = LATER_MS) -> locks.VersionRetention:
    return locks.VersionRetention(mode=mode, until_ms=at_ms)


@pytest.mark.parametrize(("mode", "bypass"), list(itertools.product(MODES, [False, True])))
def test_a_retained_version_is_removed_only_by_a_bypass_of_governance(
    storage: Storage, clock: folders.Clock, mode: locks.Mode, bypass: bool
) -> None:
    version_id = put(storage, locks.headers_of(until(mode), None)).version_id
    if mode == "GOVERNANCE" and bypass:
        assert remove(storage, version_id, bypass=True).version_id == version_id
        return
    with pytest.raises(errors.ObjectLocked):
        remove(storage, version_id, bypass=bypass)
    assert storage.objects.head("raw", "k").version_id == version_id
    clock.move(10 * DAY_MS - 1)
    with pytest.raises(errors.ObjectLocked):
        remove(storage, version_id, bypass=bypass)
    clock.move(1)
    remove(storage, version_id, bypass=bypass)
    with pytest.raises(errors.NoSuchKey):
        storage.objects.head("raw", "k")


def test_a_legal_hold_cannot_be_bypassed(storage: Storage) -> None:
    version_id = put(storage, locks.headers_of(None, True)).version_id
    for bypass in (False, True):
        with pytest.raises(errors.ObjectLocked):
            remove(storage, version_id, bypass=bypass)
    run(storage.objects.set_legal_hold("raw", "k", False, version_id=version_id))
    remove(storage, version_id)


def test_a_locked_object_may_be_hidden_and_overwritten_but_not_lost(storage: Storage) -> None:
    version_id = put(storage, locks.headers_of(until("COMPLIANCE"), None)).version_id
    put(storage)
    marker = run(storage.objects.delete("raw", "k"))
    assert marker.is_delete_marker
    with pytest.raises(errors.ObjectLocked):
        remove(storage, version_id)
    assert marker.version_id is not None
    remove(storage, marker.version_id)
    assert storage.objects.head("raw", "k", version_id=version_id).version_id == version_id


def test_delete_many_removes_what_is_not_locked(storage: Storage) -> None:
    locked = put(storage, locks.headers_of(until("GOVERNANCE"), None)).version_id
    free = put(storage).version_id
    wanted = [Removal(key="k", version_id=each) for each in (locked, free)]
    refused, removed = run(storage.objects.delete_many("raw", wanted))
    assert isinstance(refused, errors.ObjectLocked)
    assert removed == Deleted(version_id=free)
    assert storage.objects.head("raw", "k").version_id == locked


MOMENTS = (None, LATER_MS - DAY_MS, LATER_MS, LATER_MS + DAY_MS)


@pytest.mark.parametrize(
    ("before", "mode", "at_ms", "bypass"),
    list(itertools.product(MODES, MODES, MOMENTS, [False, True])),
)
def test_every_change_of_a_retention_is_an_extension_or_a_bypass(
    storage: Storage,
    clock: folders.Clock,
    before: locks.Mode,
    mode: locks.Mode,
    at_ms: int | None,
    bypass: bool,
) -> None:
    put(storage, locks.headers_of(until(before), True))
    wanted = None if at_ms is None else until(mode, at_ms)
    extends = mode == before and at_ms is not None and at_ms >= LATER_MS
    if extends or (before == "GOVERNANCE" and bypass):
        headers = retain(storage, wanted, bypass=bypass).attributes.headers
        assert locks.retention_of(headers) == wanted
        assert locks.legal_hold_of(headers) is True
        assert headers["content-type"] == "a/b"
    else:
        with pytest.raises(errors.ObjectLocked):
            retain(storage, wanted, bypass=bypass)
        headers = storage.objects.head("raw", "k").attributes.headers
        assert locks.retention_of(headers) == until(before)
    clock.move(12 * DAY_MS)
    retain(storage, None)


def test_a_retention_in_the_past_is_refused(storage: Storage) -> None:
    past = until("GOVERNANCE", folders.START_MS)
    with pytest.raises(errors.RetentionInPast):
        put(storage, locks.headers_of(past, None))
    source = put(storage)
    with pytest.raises(errors.RetentionInPast):
        retain(storage, past)
    attributes = ObjectAttributes(headers=locks.headers_of(past, None))
    with pytest.raises(errors.RetentionInPast):
        run(storage.objects.copy(source, "raw", "copy", attributes=attributes))
    with pytest.raises(errors.RetentionInPast):
        run(storage.uploads.create("raw", "k", attributes=attributes))
    assert storage.uploads.list("raw").uploads == ()
    assert storage.objects.head("raw", "k") == source


def test_new_versions_get_the_buckets_retention_unless_they_have_one(
    storage: Storage, clock: folders.Clock
) -> None:
    bucket_id = storage.buckets.get("raw").bucket_id
    default = locks.DefaultRetention(mode="COMPLIANCE", unit="Years", count=2)
    run(storage.buckets.set_object_lock("raw", default, bucket_id=bucket_id))
    expected = until("COMPLIANCE", folders.START_MS + 2 * 365 * DAY_MS)
    plain = put(storage)
    assert locks.retention_of(plain.attributes.headers) == expected
    own = put(storage, locks.headers_of(until("GOVERNANCE"), None))
    assert locks.retention_of(own.attributes.headers) == until("GOVERNANCE")
    held = put(storage, locks.headers_of(None, True))
    assert locks.retention_of(held.attributes.headers) == expected
    assert locks.legal_hold_of(held.attributes.headers) is True
    copied = run(storage.objects.copy(plain, "raw", "copy", attributes=folders.PLAIN))
    assert locks.retention_of(copied.attributes.headers) == expected
    upload = run(storage.uploads.create("raw", "parts", attributes=folders.PLAIN))
    received = run(storage.blobs.store(b"x", digests=folders.MD5))
    part = run(storage.uploads.put_part("raw", "parts", upload.upload_id, 1, received))
    clock.move(DAY_MS)
    done = run(storage.uploads.complete("raw", "parts", upload.upload_id, [(1, part.etag)]))
    assert locks.retention_of(done.attributes.headers) == until(
        "COMPLIANCE", expected.until_ms + DAY_MS
    )
    marker = run(storage.objects.delete("raw", "k"))
    assert marker.version_id is not None
    remove(storage, marker.version_id)
    run(storage.buckets.set_object_lock("raw", None, bucket_id=bucket_id))
    assert locks.retention_of(put(storage).attributes.headers) is None


def test_object_lock_needs_enabled_versioning_and_keeps_it(storage: Storage) -> None:
    run(folders.make_bucket(storage, "plain"))
    plain, raw = storage.buckets.get("plain"), storage.buckets.get("raw")
    assert (raw.versioning, raw.object_lock) == ("Enabled", True)

    def lock() -> Any:
        return run(storage.buckets.set_object_lock("plain", None, bucket_id=plain.bucket_id))

    with pytest.raises(errors.InvalidBucketState):
        lock()
    for versioning in ("Suspended", "Enabled"):
        run(
            storage.buckets.set_versioning(
                "plain",
                versioning,  # type: ignore[arg-type] # literals of a loop
                bucket_id=plain.bucket_id,
            )
        )
        if versioning == "Suspended":
            with pytest.raises(errors.InvalidBucketState):
                lock()
    assert lock().object_lock
    for name in ("plain", "raw"):
        bucket_id = storage.buckets.get(name).bucket_id
        with pytest.raises(errors.InvalidBucketState):
            run(storage.buckets.set_versioning(name, "Suspended", bucket_id=bucket_id))
        run(storage.buckets.change(name, lambda settings: {**settings, "a": 1}))
        info = storage.buckets.get(name)
        assert (info.versioning, info.object_lock, info.settings) == ("Enabled", True, {"a": 1})


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2030-01-01T00:00:00Z", 1_893_456_000_000),
        ("2030-01-01T02:00:00+02:00", 1_893_456_000_000),
        ("2030-01-01T00:00:00.123Z", 1_893_456_000_123),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ("2030-01-01T00:00:00", None),
        ("2030-13-01T00:00:00Z", None),
        ("tomorrow", None),
        ("", None),
    ],
)
def test_parse_moment(text: str, at_ms: int | None) -> None:
    assert locks.parse_moment(text) == at_ms
    if at_ms is not None and at_ms >= 0:
        assert locks.parse_moment(locks.format_moment(at_ms)) == at_ms
