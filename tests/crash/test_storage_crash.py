"""Power cuts at every step of every operation that changes the store.

Acknowledged means there and whole afterwards; what was under way is wholly there or wholly absent;
no blob is without a name, and no name without its blob.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from server.access import rootkeys
from storage import errors, expiry, lifecycle, locks, records, uploads
from storage.disk import Disk
from storage.model import (
    NULL_VERSION,
    AccessControlList,
    ByteRange,
    Grant,
    Precondition,
    Versioning,
)
from storage.opening import Storage
from storage.removals import Removal
from tests.kit import examples, folders, invariants
from tests.kit.faulty_disk import Data, FaultyDisk, Names, PowerCut, Recording, spread

BIG = bytes(range(256)) * 300
BIGGER = bytes(reversed(range(256))) * 8200
LONG = "k" * 900
MODES: tuple[tuple[Data, Names], ...] = (
    ("kept", "kept"),
    ("lost", "lost"),
    ("torn", "kept"),
    ("torn", "lost"),
    ("lost", "kept"),
    ("kept", "lost"),
)


@dataclass
class World:
    """The plain model beside the store, mutable: what must be there.

    objects: (bucket, key) -> (bytes, tombstoned, tags). uploads: (bucket, key) -> sizes of parts by
    number. versioning: of each bucket that has one. versions: (bucket, key) -> what each version
    holds, newest first, in those buckets: bytes, or None for a delete marker, and whether it is the
    null version. locking: buckets with object lock. held: keys with a version of a legal hold.
    retained: keys with a version of a retention. shared: keys with a version of an access control
    list. tagged: tags of a key's versions that have some. rules: ids of the lifecycle rules of a
    bucket that has some. settings: the others of a bucket that has some. classes: storage classes
    of a key's versions, newest first, that are not STANDARD.
    """

    buckets: set[str] = field(default_factory=set)
    objects: dict[tuple[str, str], tuple[bytes, bool, dict[str, str]]] = field(default_factory=dict)
    uploads: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    versioning: dict[str, Versioning] = field(default_factory=dict)
    versions: dict[tuple[str, str], list[tuple[bytes | None, bool]]] = field(default_factory=dict)
    locking: set[str] = field(default_factory=set)
    held: set[tuple[str, str]] = field(default_factory=set)
    retained: set[tuple[str, str]] = field(default_factory=set)
    shared: set[tuple[str, str]] = field(default_factory=set)
    rules: dict[str, list[str]] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    tagged: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    classes: dict[tuple[str, str], list[str]] = field(default_factory=dict)


def seen(storage: Storage) -> World:
    """Read the whole store through its public operations."""
    world = World()
    for bucket in storage.buckets.list():
        world.buckets.add(bucket.name)
        rest = {name: each for name, each in bucket.settings.items() if name != lifecycle.SETTING}
        if rest:
            world.settings[bucket.name] = rest
        record = storage.buckets.lifecycle_of(bucket)
        if record is not None:
            world.rules[bucket.name] = [each.id for each in records.decode_lifecycle(record).rules]
        for info in storage.objects.list(bucket.name, include_tombstoned=True).objects:
            assert storage.objects.head(bucket.name, info.key) == info
            world.objects[bucket.name, info.key] = (
                storage.objects.read(info),
                info.tombstoned_at_ms is not None,
                dict(info.attributes.tags),
            )
        if bucket.versioning is not None:
            world.versioning[bucket.name] = bucket.versioning
            if bucket.object_lock:
                world.locking.add(bucket.name)
            for each in storage.objects.list_versions(bucket.name).versions:
                body = None
                if not each.is_delete_marker:
                    version = storage.objects.head(
                        bucket.name, each.key, version_id=each.version_id
                    )
                    body = storage.objects.read(version)
                    if locks.legal_hold_of(version.attributes.headers):
                        world.held.add((bucket.name, each.key))
                    if locks.retention_of(version.attributes.headers) is not None:
                        world.retained.add((bucket.name, each.key))
                    if version.attributes.storage_class != "STANDARD":
                        classes = world.classes.setdefault((bucket.name, each.key), [])
                        classes.append(version.attributes.storage_class)
                    if version.attributes.tags:
                        world.tagged[bucket.name, each.key] = dict(version.attributes.tags)
                    if version.attributes.acl is not None:
                        world.shared.add((bucket.name, each.key))
                history = world.versions.setdefault((bucket.name, each.key), [])
                assert each.is_latest == (not history)
                history.append((body, each.version_id == NULL_VERSION))
        for upload in storage.uploads.list(bucket.name).uploads:
            page = storage.uploads.list_parts(bucket.name, upload.key, upload.upload_id)
            world.uploads[bucket.name, upload.key] = {
                part.part_number: part.size_bytes for part in page.parts
            }
    return world


Step = Callable[[Storage, World], Awaitable[None]]


def put(key: str, data: bytes) -> Step:
    async def step(storage: Storage, world: World) -> None:
        world.objects["raw", key] = (data, False, {})
        await folders.put(storage, key, data)

    return step


def delete(key: str) -> Step:
    async def step(storage: Storage, world: World) -> None:
        world.objects.pop(("raw", key), None)
        await storage.objects.delete("raw", key)

    return step


def copy_object(source: str, target: str) -> Step:
    async def step(storage: Storage, world: World) -> None:
        data, _, _ = world.objects["raw", source]
        world.objects["raw", target] = (data, False, {})
        info = storage.objects.head("raw", source)
        await storage.objects.copy(info, "raw", target, attributes=folders.PLAIN)

    return step


async def make_buckets(storage: Storage, world: World) -> None:
    world.buckets.add("raw")
    await folders.make_bucket(storage)


def set_settings(settings: dict[str, Any]) -> Step:
    """Replace the configurations of a bucket: its policy, CORS rules, tags and so on."""

    async def step(storage: Storage, world: World) -> None:
        world.settings.pop("raw", None)
        if settings:
            world.settings["raw"] = settings
        bucket_id = storage.buckets.get("raw").bucket_id
        await storage.buckets.change("raw", lambda _: settings, bucket_id=bucket_id)

    return step


async def make_doomed(storage: Storage, world: World) -> None:
    world.buckets.add("doomed")
    await folders.make_bucket(storage, "doomed")


async def delete_doomed(storage: Storage, world: World) -> None:
    world.buckets.discard("doomed")
    await storage.buckets.delete("doomed")


async def fill_doomed(storage: Storage, world: World) -> None:
    world.objects["doomed", LONG] = (BIG, False, {})
    await folders.put(storage, LONG, BIG, bucket="doomed")


async def discard_doomed(storage: Storage, world: World) -> None:
    world.buckets.discard("doomed")
    del world.objects["doomed", LONG]
    await storage.buckets.delete("doomed", discard=True)


async def delete_many(storage: Storage, world: World) -> None:
    for key in ("small", LONG):
        world.objects.pop(("raw", key), None)
    removals = [Removal(key=key) for key in ("small", LONG, "absent")]
    await storage.objects.delete_many("raw", removals)


async def tombstone(storage: Storage, world: World) -> None:
    data, _, tags = world.objects["raw", "big"]
    world.objects["raw", "big"] = (data, True, tags)
    await storage.objects.tombstone("raw", "big", by="me")


async def restore(storage: Storage, world: World) -> None:
    data, _, tags = world.objects["raw", "big"]
    world.objects["raw", "big"] = (data, False, tags)
    await folders.remove_tombstone(storage, "big")


async def tag(storage: Storage, world: World) -> None:
    data, hidden, _ = world.objects["raw", "big"]
    world.objects["raw", "big"] = (data, hidden, {"a": "b"})
    await storage.objects.set_tags("raw", "big", {"a": "b"})


async def commit_metadata(storage: Storage, world: World) -> None:
    data = BIG * 10
    world.objects["raw", "metadata.json"] = (data, False, {})
    planned = storage.objects.plan_put(
        storage.buckets.get("raw"), "metadata.json", data, attributes=folders.PLAIN, now_ms=1
    )
    await storage.index.commit(planned)


async def refused(storage: Storage, world: World) -> None:
    taken = Precondition(if_none_match=("*",))
    with contextlib.suppress(errors.PreconditionFailed):
        await folders.put(storage, "big", BIGGER, precondition=taken)
        raise AssertionError("the key was taken")


def create_upload(key: str) -> Step:
    async def step(storage: Storage, world: World) -> None:
        world.uploads["raw", key] = {}
        storage.uploads._part_bytes_min = 1
        await storage.uploads.create("raw", key, attributes=folders.PLAIN)

    return step


def upload_id_of(storage: Storage, key: str) -> str:
    (upload,) = storage.uploads.list("raw", prefix=key).uploads
    return upload.upload_id


def put_part(key: str, number: int, data: bytes) -> Step:
    async def step(storage: Storage, world: World) -> None:
        world.uploads["raw", key][number] = len(data)
        upload_id = upload_id_of(storage, key)
        received = await storage.blobs.store(data, digests=folders.MD5)
        await storage.uploads.put_part("raw", key, upload_id, number, received)

    return step


def copy_part(key: str, number: int) -> Step:
    async def step(storage: Storage, world: World) -> None:
        world.uploads["raw", key][number] = 500
        source = storage.objects.head("raw", "big")
        part = ByteRange(start=100, stop=600)
        await storage.uploads.copy_part(
            "raw", key, upload_id_of(storage, key), number, source, part
        )

    return step


async def copy_part_again(storage: Storage, world: World) -> None:
    """Copy a part from an object of more segments than a part shares."""
    source = storage.objects.head("raw", "parts")
    assert len(source.body.segments) > 2
    world.uploads["raw", LONG][2] = source.size_bytes
    upload_id = upload_id_of(storage, LONG)
    with mock.patch.object(uploads, "COPIED_SEGMENTS_MAX", 2):
        await storage.uploads.copy_part("raw", LONG, upload_id, 2, source)


async def complete_over(storage: Storage, world: World) -> None:
    """Complete an upload whose key has an object by now."""
    del world.uploads["raw", "big"]
    world.objects["raw", "big"] = (BIG, False, {})
    upload_id = upload_id_of(storage, "big")
    (part,) = storage.uploads.list_parts("raw", "big", upload_id).parts
    await storage.uploads.complete("raw", "big", upload_id, [(1, part.etag)])


async def complete(storage: Storage, world: World) -> None:
    del world.uploads["raw", "parts"]
    big = world.objects["raw", "big"][0]
    world.objects["raw", "parts"] = (BIG + big[100:600] + b"tail", False, {})
    upload_id = upload_id_of(storage, "parts")
    page = storage.uploads.list_parts("raw", "parts", upload_id)
    named = [(part.part_number, part.etag) for part in page.parts if part.part_number != 2]
    await storage.uploads.complete("raw", "parts", upload_id, named)


async def abort(storage: Storage, world: World) -> None:
    del world.uploads["raw", LONG]
    await storage.uploads.abort("raw", LONG, upload_id_of(storage, LONG))


async def make_versioned(storage: Storage, world: World) -> None:
    world.buckets.add("kept")
    await folders.make_bucket(storage, "kept")


def set_versioning(versioning: Versioning) -> Step:
    async def step(storage: Storage, world: World) -> None:
        world.versioning["kept"] = versioning
        for (bucket, key), (data, _, _) in world.objects.items():
            if bucket == "kept":
                world.versions.setdefault((bucket, key), [(data, True)])
        bucket_id = storage.buckets.get("kept").bucket_id
        await storage.buckets.set_versioning("kept", versioning, bucket_id=bucket_id)

    return step


def write_version(world: World, key: str, body: bytes | None) -> None:
    """Put a version before the others of a key, and into the listing of objects."""
    history = world.versions.setdefault(("kept", key), [])
    is_null = world.versioning["kept"] == "Suspended"
    if is_null:
        history[:] = [each for each in history if not each[1]]
    history.insert(0, (body, is_null))
    show_newest(world, key)


def show_newest(world: World, key: str) -> None:
    history = world.versions["kept", key]
    world.objects.pop(("kept", key), None)
    if not history:
        del world.versions["kept", key]
    elif history[0][0] is not None:
        world.objects["kept", key] = (history[0][0], False, {})


def put_version(key: str, data: bytes) -> Step:
    async def step(storage: Storage, world: World) -> None:
        write_version(world, key, data)
        await folders.put(storage, key, data, bucket="kept")

    return step


async def complete_version(storage: Storage, world: World) -> None:
    """Complete an upload of one part; what it takes before that is not the store's content yet."""
    write_version(world, "v", BIG[2:])
    (upload,) = storage.uploads.list("kept").uploads
    (part,) = storage.uploads.list_parts("kept", "v", upload.upload_id).parts
    del world.uploads["kept", "v"]
    await storage.uploads.complete("kept", "v", upload.upload_id, [(1, part.etag)])


async def create_upload_of_version(storage: Storage, world: World) -> None:
    world.uploads["kept", "v"] = {}
    await storage.uploads.create("kept", "v", attributes=folders.PLAIN)


async def put_part_of_version(storage: Storage, world: World) -> None:
    world.uploads["kept", "v"][1] = len(BIG[2:])
    (upload,) = storage.uploads.list("kept").uploads
    received = await folders.store_by_process(storage, BIG[2:])
    await storage.uploads.put_part("kept", "v", upload.upload_id, 1, received)


def mark_deleted(key: str) -> Step:
    async def step(storage: Storage, world: World) -> None:
        write_version(world, key, None)
        await storage.objects.delete("kept", key)

    return step


def copy_version(source: str, number: int, target: str) -> Step:
    async def step(storage: Storage, world: World) -> None:
        write_version(world, target, world.versions["kept", source][number][0])
        named = storage.objects.list_versions("kept", prefix=source).versions[number]
        info = storage.objects.head("kept", source, version_id=named.version_id)
        await storage.objects.copy(info, "kept", target, attributes=folders.PLAIN)

    return step


def remove_versions(key: str, *numbers: int) -> Step:
    """Remove versions of a key, newest first, in one transaction."""

    async def step(storage: Storage, world: World) -> None:
        listed = storage.objects.list_versions("kept", prefix=key).versions
        removals = [Removal(key=key, version_id=listed[number].version_id) for number in numbers]
        history = world.versions["kept", key]
        history[:] = [each for at, each in enumerate(history) if at not in numbers]
        show_newest(world, key)
        await storage.objects.delete_many("kept", removals)

    return step


async def set_object_lock(storage: Storage, world: World) -> None:
    world.locking.add("kept")
    bucket_id = storage.buckets.get("kept").bucket_id
    await storage.buckets.set_object_lock("kept", None, bucket_id=bucket_id)


def set_legal_hold(key: str, is_held: bool) -> Step:
    """Turn the legal hold of the newest version of a key on or off."""

    async def step(storage: Storage, world: World) -> None:
        (world.held.add if is_held else world.held.discard)(("kept", key))
        await storage.objects.set_legal_hold("kept", key, is_held)

    return step


def tag_version(key: str, number: int) -> Step:
    """Give a version of a key tags, newest first."""

    async def step(storage: Storage, world: World) -> None:
        world.tagged["kept", key] = {"a": "b"}
        if number == 0:
            body, _, _ = world.objects["kept", key]
            world.objects["kept", key] = (body, False, {"a": "b"})
        named = storage.objects.list_versions("kept", prefix=key).versions[number]
        await storage.objects.set_tags("kept", key, {"a": "b"}, version_id=named.version_id)

    return step


async def set_default_retention(storage: Storage, world: World) -> None:
    """Give new versions a retention, which needs object lock."""
    written = {"mode": "GOVERNANCE", "unit": "Days", "count": 1}
    world.settings["kept"] = {locks.DEFAULT_RETENTION: written}
    bucket_id = storage.buckets.get("kept").bucket_id
    default = locks.DefaultRetention(mode="GOVERNANCE", unit="Days", count=1)
    await storage.buckets.set_object_lock("kept", default, bucket_id=bucket_id)


async def put_retained(storage: Storage, world: World) -> None:
    """Write a version that gets the bucket's default retention."""
    world.retained.add(("kept", "r"))
    await put_version("r", BIG)(storage, world)


async def refused_removal(storage: Storage, world: World) -> None:
    """Ask for the removal of a held version and of another one, in one transaction."""
    history = world.versions["kept", "v"]
    held, free = storage.objects.list_versions("kept", prefix="v").versions[:2]
    del history[1]
    removals = [Removal(key="v", version_id=each.version_id) for each in (held, free)]
    outcome = await storage.objects.delete_many("kept", removals)
    assert isinstance(outcome[0], errors.ObjectLocked)


async def sweep(storage: Storage, world: World) -> None:
    while await storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1):
        pass


def set_retention(key: str) -> Step:
    """Give the newest version of a key a retention that can be bypassed."""

    async def step(storage: Storage, world: World) -> None:
        world.retained.add(("kept", key))
        retention = locks.VersionRetention(mode="GOVERNANCE", until_ms=folders.START_MS + 9)
        await storage.objects.set_retention("kept", key, retention)

    return step


async def remove_retained(storage: Storage, world: World) -> None:
    """Remove the newest version of a key by a caller who may bypass its retention."""
    del world.versions["kept", "v"][0]
    world.retained.discard(("kept", "v"))
    show_newest(world, "v")
    (newest, *_) = storage.objects.list_versions("kept", prefix="v").versions
    await storage.objects.delete("kept", "v", version_id=newest.version_id, bypass_governance=True)


def set_acl(key: str) -> Step:
    async def step(storage: Storage, world: World) -> None:
        world.shared.add(("kept", key))
        grants = (Grant(grantee="b" * 64, permission="READ"),)
        acl = AccessControlList(owner="a" * 64, account="1", grants=grants)
        await storage.objects.set_acl("kept", key, acl, judged=None)

    return step


def put_unversioned(key: str, data: bytes) -> Step:
    async def step(storage: Storage, world: World) -> None:
        world.objects["kept", key] = (data, False, {})
        await folders.put(storage, key, data, bucket="kept")

    return step


def set_rules(*rules: lifecycle.LifecycleRule) -> Step:
    """Replace the lifecycle rules of the bucket; none removes them."""

    async def step(storage: Storage, world: World) -> None:
        world.rules = {"kept": [each.id for each in rules]} if rules else {}
        bucket_id = storage.buckets.get("kept").bucket_id
        await storage.buckets.set_lifecycle("kept", rules, bucket_id=bucket_id)

    return step


def run_rules(days: int, change: Callable[[World], None]) -> Step:
    """Run the lifecycle rules some days after the start; what is due here is one transaction.

    change: what the run does to the model.
    """

    async def step(storage: Storage, world: World) -> None:
        change(world)
        sweeper = expiry.Expiry(
            index=storage.index,
            buckets=storage.buckets,
            blobs=storage.blobs,
            now_ms=lambda: folders.START_MS + days,
            new_id=folders.Ids("lifecycle"),
            day_ms=1,
        )
        changes = await sweeper.once()
        if sweeper.totals.outcomes["kept_without_room"]:
            raise errors.DiskFull("a version was kept for want of room")
        assert changes > 0

    return step


def rule(name: str, **fields: Any) -> lifecycle.LifecycleRule:
    return lifecycle.LifecycleRule(id=name, is_enabled=True, written="filter", **fields)


def expired(world: World) -> None:
    for key in ("p/a", "p/" + LONG):
        del world.objects["kept", key]


def marked(world: World) -> None:
    write_version(world, "p/v", None)


def aborted(world: World) -> None:
    del world.uploads["kept", "v"]


def moved(world: World) -> None:
    world.classes["kept", "m"] = ["GLACIER_IR", "STANDARD_IA"]


def removed(key: str, *numbers: int) -> Callable[[World], None]:
    """Return what removes versions of a key, newest first, from the model."""

    def change(world: World) -> None:
        history = world.versions["kept", key]
        history[:] = [each for at, each in enumerate(history) if at not in numbers]
        show_newest(world, key)

    return change


STEPS: tuple[Step, ...] = (
    make_buckets,
    put("small", b"small"),
    put("big", BIG),
    put("bigger", BIGGER),
    put(LONG, b"long"),
    put("small", BIG),
    put("big", BIG[::-1]),
    put("bigger", b"now small"),
    copy_object("big", "copy"),
    copy_object("bigger", "copy"),
    copy_object("big", "big"),
    commit_metadata,
    refused,
    tombstone,
    restore,
    tag,
    sweep,
    create_upload("parts"),
    put_part("parts", 1, BIG),
    put_part("parts", 2, BIG),
    put_part("parts", 2, b"again"),
    copy_part("parts", 3),
    put_part("parts", 4, b"tail"),
    complete,
    put("big", b"gone"),
    sweep,
    create_upload(LONG),
    put_part(LONG, 1, BIG),
    copy_part_again,
    abort,
    delete_many,
    delete("parts"),
    make_doomed,
    fill_doomed,
    discard_doomed,
    sweep,
)

STEPS_OF_VERSIONS: tuple[Step, ...] = (
    make_versioned,
    set_versioning("Enabled"),
    put_version("v", BIG),
    put_version("v", BIG[1:]),
    put_version(LONG, b"long"),
    put_version(LONG, BIG),
    mark_deleted("v"),
    mark_deleted(LONG),
    remove_versions("v", 0),
    set_versioning("Suspended"),
    put_version("v", BIGGER),
    put_version("v", BIGGER[1:]),
    mark_deleted("v"),
    put_version("v", b"small"),
    set_versioning("Enabled"),
    create_upload_of_version,
    put_part_of_version,
    complete_version,
    copy_version("v", 3, "w"),
    copy_version("v", 2, "v"),
    set_object_lock,
    set_legal_hold("v", True),
    refused_removal,
    set_legal_hold("v", False),
    sweep,
    remove_versions("v", 0),
    remove_versions("v", 0, 1),
    remove_versions(LONG, 0, 2),
    remove_versions(LONG, 0),
    remove_versions("v", 0),
    sweep,
)


MOVES = rule(
    "moves",
    prefix="m",
    size_greater_than=0,
    transitions=(lifecycle.Transition(storage_class="GLACIER_IR", days=1),),
    noncurrent_transitions=(lifecycle.NoncurrentTransition(storage_class="STANDARD_IA", days=1),),
)
STEPS_OF_SETTINGS: tuple[Step, ...] = (
    make_buckets,
    set_settings({"policy": "one", "cors": [1]}),
    create_upload("big"),
    put_part("big", 1, BIG),
    put("big", BIG[::-1]),
    complete_over,
    set_settings({"policy": LONG}),
    make_doomed,
    delete_doomed,
    make_versioned,
    set_versioning("Enabled"),
    put_version("v", BIG),
    put_version("v", b"small"),
    tag_version("v", 1),
    tag_version("v", 0),
    set_object_lock,
    set_default_retention,
    put_retained,
    set_settings({}),
    sweep,
)
STEPS_OF_LIFECYCLES: tuple[Step, ...] = (
    make_versioned,
    put_unversioned("p/a", BIG),
    put_unversioned("p/" + LONG, b"small"),
    put_unversioned("q", BIG[1:]),
    set_rules(rule("expire", prefix="p/", expiration_at_ms=0), rule("second", abort_days=9_999)),
    run_rules(10, expired),
    sweep,
    set_versioning("Enabled"),
    put_version("p/v", BIG),
    run_rules(20, marked),
    set_rules(rule("noncurrent", prefix="p/", noncurrent_days=1)),
    run_rules(30, removed("p/v", 1)),
    set_rules(rule("markers", removes_markers=True)),
    run_rules(40, removed("p/v", 0)),
    set_object_lock,
    put_version("v", BIG),
    put_version("v", BIG[1:]),
    set_legal_hold("v", True),
    set_acl("v"),
    put_version("v", b"newest"),
    set_rules(rule("noncurrent", noncurrent_days=1)),
    run_rules(50, removed("v", 2)),
    set_retention("v"),
    remove_retained,
    create_upload_of_version,
    put_part_of_version,
    set_rules(rule("abort", abort_days=1)),
    run_rules(60, aborted),
    put_version("m", BIG),
    put_version("m", b"small"),
    set_rules(MOVES),
    run_rules(70, moved),
    set_rules(),
    sweep,
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """How far a run came: the worlds before and after the step that was cut, equal if none was."""

    disk: FaultyDisk
    before: World
    after: World
    cut: bool


def run(place: Path, stop_at: int | None, steps: tuple[Step, ...]) -> Run:
    """Do every step on a disk that loses power at event stop_at."""
    disk = FaultyDisk(place / "aside", stop_at=stop_at)
    before = World()
    after = World()
    try:
        storage = folders.open_folder(
            place / "data", disk=disk, ids=folders.Ids("run"), map_size_bytes=1 << 26
        )
    except (PowerCut, errors.StorageError):
        assert disk.off
        return Run(disk=disk, before=before, after=after, cut=True)

    async def work() -> bool:
        nonlocal before
        for step in steps:
            try:
                await step(storage, after)
            except (PowerCut, errors.StorageError):
                assert disk.off
                return True
            before = copy.deepcopy(after)
        return False

    try:
        cut = asyncio.run(work())
    finally:
        with contextlib.suppress(PowerCut):
            storage.close()
    return Run(disk=disk, before=before, after=after, cut=cut or disk.off)


@pytest.mark.parametrize(
    "steps",
    [STEPS, STEPS_OF_VERSIONS, STEPS_OF_LIFECYCLES, STEPS_OF_SETTINGS],
    ids=["objects", "versions", "lifecycles", "settings"],
)
def test_a_run_without_a_cut_ends_as_the_model_says(
    workplace: Path, steps: tuple[Step, ...]
) -> None:
    ended = run(workplace, None, steps)
    assert not ended.cut
    storage = folders.open_folder(workplace / "data")
    assert seen(storage) == ended.after == ended.before
    invariants.check_recovered(storage, workplace / "data")
    storage.close()


def observed(left: Path) -> World:
    """Restart from what a power cut left, check it whole, and return what is there."""
    storage = folders.open_folder(left, ids=folders.Ids("again"))
    world = seen(storage)
    invariants.check_recovered(storage, left)
    storage.close()
    return world


RUNS = pytest.mark.parametrize(
    ("steps", "events_min"),
    [(STEPS, 140), (STEPS_OF_VERSIONS, 100), (STEPS_OF_LIFECYCLES, 70), (STEPS_OF_SETTINGS, 90)],
    ids=["objects", "versions", "lifecycles", "settings"],
)


@pytest.mark.generated
@RUNS
def test_after_a_power_cut_at_any_event_the_store_is_as_before_or_after_the_step(
    workplace: Path, steps: tuple[Step, ...], events_min: int
) -> None:
    disk = FaultyDisk(workplace / "aside")
    recording = Recording(
        disk, workplace / "data", workplace / "left", modes=MODES, restart=observed
    )
    before, after = World(), World()
    disk.begin()
    storage = folders.open_folder(
        workplace / "data", disk=disk, ids=folders.Ids("run"), map_size_bytes=1 << 26
    )
    with asyncio.Runner() as runner:
        for step in steps:
            runner.run(step(storage, after))  # type: ignore[arg-type]
            for state in recording.states():
                assert state.observed in (before, after), state.when
            before = copy.deepcopy(after)
    disk.end()
    storage.close()
    assert all(world == after for world in recording.last())
    assert disk.events > events_min, "the run has that many events"


def check_cut(place: Path, stop_at: int, steps: tuple[Step, ...]) -> bool:
    """Cut the power at one event, and restart in each mode; return whether there was such an event.

    `run` asserts that no step is acknowledged after that, and this that it has left nothing.
    """
    ended = run(place, stop_at, steps)
    if ended.cut:
        for number, remains in enumerate(ended.disk.remains(place / "data", MODES)):
            left = place / f"left{number}"
            remains.write(left)
            assert observed(left) in (ended.before, ended.after), (stop_at, remains.mode)
    shutil.rmtree(place)
    return ended.cut


@RUNS
def test_the_store_does_nothing_more_after_a_power_cut(
    workplace: Path, steps: tuple[Step, ...], events_min: int
) -> None:
    for stop_at in spread(events_min, count=6):
        assert check_cut(workplace / str(stop_at), stop_at, steps)


@pytest.mark.long
@RUNS
def test_the_store_does_nothing_more_after_a_power_cut_at_any_event(
    workplace: Path, steps: tuple[Step, ...], events_min: int
) -> None:
    stop_at = 1
    while check_cut(workplace / str(stop_at), stop_at, steps):
        stop_at += 1
    assert stop_at > events_min, "the run has that many events"


# The first start: from no folder to one with keys and a table bucket.


@dataclass
class FirstStart:
    """What a first start has told the user, mutable: the key pair that was shown."""

    shown: rootkeys.RootKeys | None = None
    finished: bool = False


def start(place: Path, disk: Disk, first: FirstStart, *, seed: str) -> None:
    """Do what `mini.py` does before it serves."""
    random_bytes = random.Random(seed).randbytes
    storage = folders.open_folder(
        place, disk=disk, ids=folders.Ids(seed), map_size_bytes=1 << 26, reserve_bytes=4096
    )
    try:
        root = rootkeys.open_root(place, disk=disk, random_bytes=random_bytes)
        first.shown = first.shown or root
        assert (root.access_key, root.secret_key) == (
            first.shown.access_key,
            first.shown.secret_key,
        )
        rootkeys.open_ring(place, disk=disk, random_bytes=random_bytes)
        if "lake" not in {bucket.name for bucket in storage.buckets.list()}:
            asyncio.run(storage.buckets.create("lake", bucket_type="table", owner="o", region="r"))
        first.finished = True
    finally:
        storage.close()


@pytest.mark.generated
def test_after_a_power_cut_at_any_event_of_the_first_start_the_next_one_succeeds(
    workplace: Path,
) -> None:
    stop_at = 0
    first = FirstStart()
    share = examples.Share()
    while not first.finished:
        stop_at += 1
        first = FirstStart()
        place = workplace / str(stop_at)
        data = place / "deep" / "data"
        disk = FaultyDisk(place / "aside", stop_at=stop_at)
        with contextlib.suppress(PowerCut, errors.StorageError):
            start(data, disk, first, seed="first")
        states = disk.remains(data, MODES) if first.finished or share.takes_next() else []
        for number, remains in enumerate(states):
            left = place / f"left{number}"
            remains.write(left)
            again = copy.copy(first)
            try:
                for seed in ("second", "third"):
                    start(left, Disk(), again, seed=seed)
            except errors.StorageError as error:
                raise AssertionError((stop_at, remains.mode)) from error
            assert sorted(each.name for each in left.iterdir()) == [
                "blobs", "cache", "format.json", "index", "keys.json", "lock", "root.json", "tmp",
            ]  # fmt: skip
        shutil.rmtree(place)
    assert stop_at > 40, "the first start has that many events"


def test_the_first_start_ends_with_every_name_and_byte_synced(workplace: Path) -> None:
    disk = FaultyDisk(workplace / "aside")
    start(workplace / "deep" / "data", disk, FirstStart(), seed="first")
    assert [each for each in disk.pending_names if each.folder.name != "index"] == []
    assert set(disk.synced_bytes.values()) != {0}
