"""Buckets: one name space, ids never used again, deletion that leaves nothing."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from storage import disk, errors, records, sweep
from storage.batch import Batch, Store
from storage.model import BucketInfo
from storage.opening import Storage
from storage.uploads import Uploads
from tests.kit import folders


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    opened = folders.open_folder(tmp_path / "data")
    yield opened
    opened.close()


def create(storage: Storage, name: str = "raw", **fields: Any) -> BucketInfo:
    fields = {"bucket_type": "general", "owner": "root", "region": "here", **fields}
    return asyncio.run(storage.buckets.create(name, **fields))


def test_a_record_that_is_read_while_its_change_is_synced_is_not_kept(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(storage)
    transact = disk.Disk.transact
    seen: list[Mapping[str, Any]] = []

    def look(each: disk.Disk, commit: Callable[[], Any]) -> None:
        seen.append(storage.buckets.get("raw").settings)
        transact(each, commit)
        seen.append(storage.buckets.get("raw").settings)

    monkeypatch.setattr(disk.Disk, "transact", look)
    for number in range(2):
        asyncio.run(storage.buckets.update("raw", {"n": number}))
        seen.append(storage.buckets.get("raw").settings)
    assert seen == [{}, {"n": 0}, {"n": 0}, {"n": 0}, {"n": 1}, {"n": 1}]


def test_a_bucket_is_what_its_creation_said(storage: Storage) -> None:
    bucket = create(storage, "lake", bucket_type="table", owner="me", settings={"tags": {"a": "b"}})
    assert bucket == BucketInfo(
        name="lake",
        bucket_id=1,
        type="table",
        owner="me",
        region="here",
        created_at_ms=folders.START_MS,
        settings={"tags": {"a": "b"}},
    )
    assert storage.buckets.get("lake") == bucket


def test_the_buckets_that_have_a_setting_are_found_without_decoding_the_others(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = create(storage, "first", settings={"access_log": {"a": 1}})
    create(storage, "named-in-a-value", settings={"tags": {"access_log": "access_log"}})
    for number in range(20):
        create(storage, f"plain-{number}", settings={"tags": {"a": "b"}})
    last = create(storage, "zz-last", settings={"access_log": None})
    hidden = asyncio.run(storage.buckets.create_hidden("of-a-session", region="here"))
    asyncio.run(storage.buckets.change(hidden.name, lambda _: {"access_log": {}}))
    decoded: list[str] = []
    bucket_info = records.bucket_info
    monkeypatch.setattr(
        records, "bucket_info", lambda name, value: decoded.append(name) or bucket_info(name, value)
    )
    assert storage.buckets.having("access_log") == [first, last]
    assert storage.buckets.having("absent") == []
    assert decoded == [hidden.name, "first", "named-in-a-value", "zz-last"]


def test_a_bucket_is_looked_up_again_after_every_change_of_a_bucket(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = create(storage)
    looks: list[Store] = []
    get = storage.index.get
    monkeypatch.setattr(
        storage.index, "get", lambda store, key: looks.append(store) or get(store, key)
    )
    assert [storage.buckets.get("raw") for _ in range(3)] == [bucket] * 3
    assert looks == [Store.BUCKETS]
    changed = asyncio.run(storage.buckets.change("raw", lambda settings: {**settings, "a": 1}))
    assert storage.buckets.get("raw") == changed != bucket
    asyncio.run(storage.buckets.delete("raw"))
    with pytest.raises(errors.NoSuchBucket):
        storage.buckets.get("raw")
    again = create(storage)
    assert storage.buckets.get("raw") == again
    assert again.bucket_id != bucket.bucket_id


def test_create_a_name_that_is_taken_says_by_whom_and_changes_nothing(storage: Storage) -> None:
    bucket = create(storage, owner="me")
    with pytest.raises(errors.BucketAlreadyExists) as caught:
        create(storage, bucket_type="table", owner="you")
    assert caught.value.fields["owner"] == "me"
    assert storage.buckets.get("raw") == bucket


def test_create_with_a_bad_name_is_refused(storage: Storage) -> None:
    with pytest.raises(errors.InvalidBucketName):
        create(storage, "Raw")
    with pytest.raises(errors.InvalidBucketName):
        create(storage, "a.b", bucket_type="table")
    assert storage.buckets.list() == []


def test_of_many_creators_of_one_name_exactly_one_wins(storage: Storage) -> None:
    async def race() -> list[BucketInfo | BaseException]:
        return await asyncio.gather(
            *(folders.make_bucket(storage) for _ in range(20)), return_exceptions=True
        )

    results = asyncio.run(race())
    assert sum(isinstance(each, BucketInfo) for each in results) == 1
    assert sum(isinstance(each, errors.BucketAlreadyExists) for each in results) == 19


def test_list_is_by_name(storage: Storage) -> None:
    for name in ("b-b", "a.a", "b-a"):
        create(storage, name)
    assert [bucket.name for bucket in storage.buckets.list()] == ["a.a", "b-a", "b-b"]


@pytest.mark.parametrize("name", ["raw", "", "x" * 600, "\ud800"])
def test_an_absent_bucket_is_no_such_bucket(storage: Storage, name: str) -> None:
    with pytest.raises(errors.NoSuchBucket):
        storage.buckets.get(name)
    with pytest.raises(errors.NoSuchBucket):
        asyncio.run(storage.buckets.delete(name))
    with pytest.raises(errors.NoSuchBucket):
        asyncio.run(storage.buckets.update(name, {}))


def test_update_replaces_the_settings_alone(storage: Storage) -> None:
    bucket = create(storage, settings={"a": 1})
    changed = asyncio.run(storage.buckets.update("raw", {"b": [2]}))
    assert changed.settings == {"b": [2]}
    assert (changed.bucket_id, changed.owner) == (bucket.bucket_id, bucket.owner)
    assert storage.buckets.get("raw") == changed


def test_change_loses_no_other_change(storage: Storage) -> None:
    create(storage, settings={"n": 0})

    def add(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"n": settings["n"] + 1}

    async def crowd() -> None:
        await asyncio.gather(*(storage.buckets.change("raw", add) for _ in range(30)))

    asyncio.run(crowd())
    assert storage.buckets.get("raw").settings == {"n": 30}


def test_delete_of_a_bucket_with_an_object_is_refused(storage: Storage) -> None:
    create(storage)
    asyncio.run(folders.put(storage, "k" * 900, b"x"))
    with pytest.raises(errors.BucketNotEmpty):
        asyncio.run(storage.buckets.delete("raw"))
    assert storage.buckets.get("raw").bucket_id == 1


def test_a_name_made_anew_gets_a_new_id_and_is_empty(storage: Storage, tmp_path: Path) -> None:
    create(storage)
    asyncio.run(folders.put(storage, "k", b"x"))
    asyncio.run(storage.buckets.delete("raw", discard=True))
    assert create(storage).bucket_id == 2
    assert storage.objects.list("raw").objects == ()


def test_a_discarded_bucket_leaves_no_row_and_no_file_after_the_sweep(
    storage: Storage, tmp_path: Path
) -> None:
    create(storage)
    create(storage, "other")

    async def fill_and_discard() -> None:
        for number in range(600):
            await folders.put(storage, f"k{number}", b"x")
        big = await folders.put(storage, "L" * 1000, b"y" * 100_000)
        await storage.objects.copy(big, "other", "kept", attributes=folders.PLAIN)
        await folders.put(storage, "hidden", b"y" * 100_000)
        await storage.objects.tombstone("raw", "hidden", by="me")
        upload = await storage.uploads.create("raw", "U" * 700, attributes=folders.PLAIN)
        for number, data in ((1, b"z" * 100_000), (2, b"small")):
            received = await storage.blobs.store(data, digests=folders.MD5)
            await storage.uploads.put_part("raw", "U" * 700, upload.upload_id, number, received)
        await storage.buckets.delete("raw", discard=True)
        while await storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1):
            pass

    asyncio.run(fill_and_discard())
    with storage.index.view() as view:
        left = {store: len(list(view.scan(store, b""))) for store in Store}
    assert {store: count for store, count in left.items() if count} == {
        Store.META: 4,  # the next bucket id, the next node, server id, opened
        Store.BUCKETS: 1,
        Store.OBJECTS: 1,
        Store.BLOBS: 1,
    }
    assert len(folders.blob_files(tmp_path / "data")) == 1
    assert folders.get(storage, "kept", bucket="other") == b"y" * 100_000


def test_a_discarded_bucket_is_emptied_in_small_steps_whatever_hangs_on_a_row(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "STEP_MAX", 5)
    steps: list[int] = []
    commit = storage.index.commit

    async def counting(batch: Batch) -> None:
        steps.append(len(batch.derive))
        await commit(batch)

    async def fill_and_sweep() -> None:
        await folders.make_bucket(storage)
        for key in ("a", "b"):
            upload = await storage.uploads.create("raw", key, attributes=folders.PLAIN)
            for number in range(1, 13):
                received = await storage.blobs.store(b"x", digests=folders.MD5)
                await storage.uploads.put_part("raw", key, upload.upload_id, number, received)
        await storage.buckets.delete("raw", discard=True)
        monkeypatch.setattr(storage.index, "commit", counting)
        await storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1)
        await storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1)

    asyncio.run(fill_and_sweep())
    assert sum(steps) == 2 * (12 + 1)
    assert max(steps) <= 5
    with storage.index.view() as view:
        for store in (Store.UPLOADS, Store.PARTS, Store.BODIES, Store.RELEASED):
            assert list(view.scan(store, b"")) == []


def test_a_discarded_bucket_is_emptied_by_the_segments_of_its_objects(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "STEP_MAX", 5)
    steps: list[int] = []
    commit = storage.index.commit

    async def counting(batch: Batch) -> None:
        steps.append(len(batch.derive))
        await commit(batch)

    async def fill_and_sweep() -> None:
        await folders.make_bucket(storage)
        uploads = Uploads(
            index=storage.index,
            blobs=storage.blobs,
            now_ms=folders.Clock(),
            new_id=folders.Ids("parts"),
            part_bytes_min=0,
        )
        for key in ("a", "b", "c", "d"):
            upload_id = (await uploads.create("raw", key, attributes=folders.PLAIN)).upload_id
            sent = []
            for number in range(1, 4):
                received = await storage.blobs.store(b"x", digests=folders.MD5)
                part = await uploads.put_part("raw", key, upload_id, number, received)
                sent.append((number, part.etag))
            await uploads.complete("raw", key, upload_id, sent)
        await storage.buckets.delete("raw", discard=True)
        monkeypatch.setattr(storage.index, "commit", counting)
        await storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1)

    asyncio.run(fill_and_sweep())
    assert [count for count in steps if count] == [2, 2]


def test_tombstones_and_uploads_do_not_keep_a_bucket(storage: Storage, tmp_path: Path) -> None:
    create(storage)

    async def empty_but_for_those() -> None:
        await folders.put(storage, "k", b"y" * 100_000)
        await storage.objects.tombstone("raw", "k", by="me")
        await storage.uploads.create("raw", "u", attributes=folders.PLAIN)
        await storage.buckets.delete("raw")
        while await storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1):
            pass

    asyncio.run(empty_but_for_those())
    assert folders.blob_files(tmp_path / "data") == set()
    with storage.index.view() as view:
        for store in (Store.OBJECTS, Store.UPLOADS, Store.TOMBSTONES, Store.BLOBS):
            assert list(view.scan(store, b"")) == []


def test_large_settings_that_change_often_take_little_memory(storage: Storage) -> None:
    create(storage)
    tracemalloc.start()
    try:
        for number in range(200):
            asyncio.run(storage.buckets.update("raw", {"policy": f"{number:0100000}"}))
            storage.buckets.get("raw")
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 24 << 20
