"""The sweep of lifecycle rules on a data folder: what it removes, and what it must leave."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from storage import errors, expiry, lifecycle, locks, model, opening
from storage.batch import Store
from tests.kit import folders, invariants

DAY_MS = 1000
LONG = "p/" + "k" * 900


class Lake:
    """A folder with one bucket, a clock, and the sweep."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = folders.Clock(now_ms=1_700_000_000_000)
        self.storage = folders.open_folder(path, clock=self.clock)
        self.expiry = self.sweeper()

    def sweeper(self) -> expiry.Expiry:
        return expiry.Expiry(
            index=self.storage.index,
            buckets=self.storage.buckets,
            blobs=self.storage.blobs,
            now_ms=self.clock,
            new_id=folders.Ids("sweep"),
            day_ms=DAY_MS,
        )

    async def make(
        self, *rules: lifecycle.LifecycleRule, versioning: model.Versioning | None = None
    ) -> None:
        await folders.make_bucket(self.storage)
        if versioning is not None:
            await self.storage.buckets.set_versioning("raw", versioning, bucket_id=1)
        await self.rules(*rules)

    async def rules(self, *rules: lifecycle.LifecycleRule) -> None:
        await self.storage.buckets.set_lifecycle("raw", rules, bucket_id=1)

    async def put(self, *keys: str, data: bytes = b"data", **attributes: Any) -> None:
        for key in keys:
            await folders.put(
                self.storage, key, data, attributes=model.ObjectAttributes(**attributes)
            )
            self.clock.move(1)

    def keys(self) -> list[str]:
        return [each.key for each in self.storage.objects.list("raw").objects]

    def versions(self) -> list[tuple[str, bool]]:
        """Return each version's key and whether it is a delete marker."""
        listed = self.storage.objects.list_versions("raw").versions
        return [(each.key, each.is_delete_marker) for each in listed]

    def uploads(self) -> list[str]:
        return [each.key for each in self.storage.uploads.list("raw").uploads]

    def outcomes(self) -> dict[str, int]:
        return {name: count for name, count in self.expiry.totals.outcomes.items() if count}


def rule(**fields: Any) -> lifecycle.LifecycleRule:
    return lifecycle.LifecycleRule(**{"id": "r", "is_enabled": True, "written": "filter", **fields})


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    new_lake = Lake(tmp_path / "data")
    yield new_lake
    invariants.check(new_lake.storage, new_lake.path)
    new_lake.storage.close()


def run(work: Awaitable[None]) -> None:
    folders.run(work)


def test_objects_below_a_prefix_are_removed_when_they_are_due(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(rule(prefix="p/", expiration_days=2))
        await lake.put("p/a", "p/b", LONG, "q/a", "p")
        assert await lake.expiry.once() == 0
        lake.clock.move(2 * DAY_MS)
        await lake.put("p/young")
        lake.clock.move(DAY_MS)
        assert await lake.expiry.once() == 3
        assert lake.keys() == ["p", "p/young", "q/a"]
        assert await lake.expiry.once() == 0

    run(work())
    assert lake.outcomes() == {"expired": 3}


def test_a_bucket_without_rules_or_with_disabled_ones_is_not_walked(lake: Lake) -> None:
    async def work() -> None:
        await lake.make()
        await lake.put("a")
        lake.clock.move(100 * DAY_MS)
        assert await lake.expiry.once() == 0
        await lake.rules(rule(is_enabled=False, expiration_days=1))
        assert await lake.expiry.once() == 0
        assert lake.keys() == ["a"]

    run(work())
    assert lake.expiry.totals.versions_seen == 0


def test_an_expired_object_of_a_versioned_bucket_gets_a_delete_marker(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(rule(expiration_days=1), versioning="Enabled")
        await lake.put("a")
        lake.clock.move(2 * DAY_MS)
        assert await lake.expiry.once() == 1
        assert lake.versions() == [("a", True), ("a", False)]
        lake.clock.move(9 * DAY_MS)
        assert await lake.expiry.once() == 0, "a marker before versions stays"

    run(work())


def test_an_expired_object_of_a_suspended_bucket_is_replaced_by_a_null_marker(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(rule(expiration_days=1), versioning="Enabled")
        await lake.put("a")
        await lake.storage.buckets.set_versioning("raw", "Suspended", bucket_id=1)
        await lake.put("a")
        lake.clock.move(2 * DAY_MS)
        assert await lake.expiry.once() == 1
        assert lake.versions() == [("a", True), ("a", False)]

    run(work())


def test_noncurrent_versions_go_and_then_the_marker_that_they_left(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(rule(noncurrent_days=2, removes_markers=True), versioning="Enabled")
        for number in range(3):
            await lake.put("a", LONG, data=bytes([number]))
        await lake.storage.objects.delete("raw", "a")
        lake.clock.move(DAY_MS)
        assert await lake.expiry.once() == 0
        lake.clock.move(2 * DAY_MS)
        assert await lake.expiry.once() == 5
        assert lake.versions() == [("a", True), (LONG, False)]
        assert await lake.expiry.once() == 1
        assert lake.versions() == [(LONG, False)]

    run(work())
    assert lake.outcomes() == {"noncurrent_removed": 5, "markers_removed": 1}


def test_newer_noncurrent_versions_stay_over_steps_of_any_size(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "VERSIONS_AT_ONCE", 3)
    monkeypatch.setattr(expiry, "CHANGES_AT_ONCE", 2)

    async def work() -> None:
        await lake.make(rule(noncurrent_days=1, newer_noncurrent=4), versioning="Enabled")
        for number in range(12):
            await lake.put("a", data=bytes([number]))
        await lake.put("b")
        lake.clock.move(2 * DAY_MS)
        assert await lake.expiry.once() == 7
        listed = lake.storage.objects.list_versions("raw", prefix="a").versions
        bodies = [
            lake.storage.objects.read(
                lake.storage.objects.head("raw", "a", version_id=each.version_id)
            )
            for each in listed
        ]
        assert bodies == [bytes([number]) for number in (11, 10, 9, 8, 7)]

    run(work())


def sizes_of_transactions(lake: Lake) -> list[int]:
    """Return a list to which the sweep adds the number of versions of each transaction."""
    remove, sizes = lake.expiry._change, []

    async def count(held: Any, some: Any, *, makes_room: bool) -> None:
        sizes.append(len(some))
        await remove(held, some, makes_room=makes_room)

    lake.expiry._change = count  # type: ignore[method-assign]  # the seam of the test
    return sizes


def test_a_transaction_releases_a_bounded_number_of_segments(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each segment costs the writer a count: 100 objects of 1,000 parts held it for seconds."""
    monkeypatch.setattr(expiry, "SEGMENTS_AT_ONCE", 4)
    sizes = sizes_of_transactions(lake)

    async def put_parts(key: str, count: int) -> None:
        lake.storage.uploads._part_bytes_min = 1
        upload = await lake.storage.uploads.create("raw", key, attributes=folders.PLAIN)
        parts = []
        for number in range(1, count + 1):
            received = await lake.storage.blobs.store(bytes([number]), digests=folders.MD5)
            part = await lake.storage.uploads.put_part(
                "raw", key, upload.upload_id, number, received
            )
            parts.append((number, part.etag))
        await lake.storage.uploads.complete("raw", key, upload.upload_id, parts)

    async def work() -> None:
        await lake.make(rule(expiration_days=1))
        for key, count in (("a", 2), ("b", 2), ("c", 1), ("d", 6), ("e", 3), ("f", 1), ("g", 1)):
            await put_parts(key, count)
        lake.clock.move(3 * DAY_MS)
        assert await lake.expiry.once() == 7
        assert lake.keys() == []

    run(work())
    assert sizes == [2, 1, 1, 2, 1]


def test_a_step_reads_a_bounded_number_of_bytes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = sizes_of_transactions(lake)

    async def work() -> None:
        await lake.make(rule(noncurrent_days=1, newer_noncurrent=1), versioning="Enabled")
        for _ in range(6):
            await lake.put("a")
        with lake.storage.index.view() as view:
            record_bytes = min(len(value) for _, value in view.scan(Store.VERSIONS, b""))
        monkeypatch.setattr(expiry, "BYTES_AT_ONCE", 2 * record_bytes)
        lake.clock.move(3 * DAY_MS)
        assert await lake.expiry.once() == 4
        assert len(lake.versions()) == 2

    run(work())
    assert max(sizes) <= 2
    assert sum(sizes) == 4


def test_each_noncurrent_version_counts_from_the_version_that_followed_it(lake: Lake) -> None:
    """Versions that go in one run do not delay those before them."""

    async def work() -> None:
        await lake.make(rule(noncurrent_days=5), versioning="Enabled")
        for _ in range(8):
            await lake.put("a")
            lake.clock.move(DAY_MS)
        # 8 days and 8 ms after the first: versions 1 and 2 were followed 7 and 6 days ago.
        assert await lake.expiry.once() == 2
        assert len(lake.versions()) == 6

    run(work())


def test_a_null_version_between_others_counts_where_its_sequence_is(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(rule(noncurrent_days=1, newer_noncurrent=2), versioning="Enabled")
        await lake.put("a", data=b"1")
        await lake.storage.buckets.set_versioning("raw", "Suspended", bucket_id=1)
        await lake.put("a", data=b"null")
        await lake.storage.buckets.set_versioning("raw", "Enabled", bucket_id=1)
        await lake.put("a", data=b"3")
        await lake.put("a", data=b"4")
        lake.clock.move(2 * DAY_MS)
        assert await lake.expiry.once() == 1
        listed = lake.storage.objects.list_versions("raw").versions
        assert [each.version_id == "null" for each in listed] == [False, False, True]

    run(work())


def test_a_locked_version_is_never_removed(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(
            rule(expiration_days=1, noncurrent_days=1, removes_markers=None), versioning="Enabled"
        )
        await lake.storage.buckets.set_object_lock("raw", None, bucket_id=1)
        await lake.put("held", "kept", "free")
        await lake.storage.objects.set_legal_hold("raw", "held", True)
        retention = locks.VersionRetention(mode="GOVERNANCE", until_ms=lake.clock() + 100 * DAY_MS)
        await lake.storage.objects.set_retention("raw", "kept", retention)
        lake.clock.move(3 * DAY_MS)
        assert await lake.expiry.once() == 3, "a delete marker removes no version"
        lake.clock.move(3 * DAY_MS)
        assert await lake.expiry.once() == 1
        assert [key for key, is_marker in lake.versions() if not is_marker] == ["held", "kept"]
        lake.clock.move(100 * DAY_MS)
        await lake.expiry.once()
        assert [key for key, is_marker in lake.versions() if not is_marker] == ["held"]

    run(work())
    assert lake.expiry.totals.outcomes["kept_locked"] == 3


def of_class(storage_class: str, days: int) -> dict[str, Any]:
    """The members of a rule that moves versions of any size above zero to a storage class."""
    return {
        "size_greater_than": 0,
        "transitions": (lifecycle.Transition(storage_class=storage_class, days=days),),
    }


def of_noncurrent(storage_class: str, days: int, newer: int | None = None) -> dict[str, Any]:
    """The same for noncurrent versions. newer: how many of them do not move."""
    move = lifecycle.NoncurrentTransition(storage_class=storage_class, days=days, newer=newer)
    return {"size_greater_than": 0, "noncurrent_transitions": (move,)}


def classes(lake: Lake) -> list[tuple[str, str]]:
    listed = lake.storage.objects.list_versions("raw").versions
    return [(each.key, each.storage_class) for each in listed if not each.is_delete_marker]


def test_versions_move_when_they_are_due_and_no_further_than_once(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(
            rule(prefix="p/", **of_class("STANDARD_IA", 1)),
            rule(prefix="p/a", **of_class("GLACIER_IR", 3)),
        )
        await lake.put("p/a", "q")
        await lake.put("p/b", data=b"")
        assert await lake.expiry.once() == 0
        lake.clock.move(2 * DAY_MS)
        before = lake.storage.objects.head("raw", "p/a")
        assert await lake.expiry.once() == 1
        assert classes(lake) == [("p/a", "STANDARD_IA"), ("p/b", "STANDARD"), ("q", "STANDARD")]
        assert await lake.expiry.once() == 0
        after = lake.storage.objects.head("raw", "p/a")
        assert (after.modified_at_ms, after.body) == (before.modified_at_ms, before.body)
        lake.clock.move(2 * DAY_MS)
        assert await lake.expiry.once() == 1
        assert classes(lake)[0] == ("p/a", "GLACIER_IR")
        assert folders.get(lake.storage, "p/a") == b"data"

    run(work())
    assert lake.outcomes() == {"moved": 2}


def test_noncurrent_versions_move_behind_the_newer_ones_that_stay_also_locked_ones(
    lake: Lake,
) -> None:
    async def work() -> None:
        await lake.make(rule(**of_noncurrent("ONEZONE_IA", 1, 1)), versioning="Enabled")
        await lake.storage.buckets.set_object_lock("raw", None, bucket_id=1)
        await lake.put("a")
        await lake.storage.objects.set_legal_hold("raw", "a", True)
        await lake.put("a", "a", "a")
        await lake.storage.objects.delete("raw", "b")
        lake.clock.move(3 * DAY_MS)
        assert await lake.expiry.once() == 2
        moved = ["STANDARD", "STANDARD", "ONEZONE_IA", "ONEZONE_IA"]
        assert classes(lake) == [("a", each) for each in moved]
        assert await lake.expiry.once() == 0

    run(work())
    assert lake.outcomes() == {"noncurrent_moved": 2}


@pytest.mark.parametrize("versioning", [None, "Enabled"])
def test_an_object_that_expires_does_not_move_before_that(
    lake: Lake, versioning: model.Versioning | None
) -> None:
    async def work() -> None:
        await lake.make(rule(expiration_days=1, **of_class("GLACIER_IR", 0)), versioning=versioning)
        await lake.put("a")
        lake.clock.move(3 * DAY_MS)
        assert await lake.expiry.once() == 1
        assert lake.keys() == []

    run(work())
    assert lake.outcomes() == {"expired": 1}


def test_uploads_are_aborted_with_their_parts_when_they_are_due(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(rule(prefix="p/", abort_days=2))
        lake.storage.uploads._part_bytes_min = 1
        for key in ("p/a", "p/a", LONG, "q"):
            upload = await lake.storage.uploads.create("raw", key, attributes=folders.PLAIN)
            for number in (1, 2):
                received = await lake.storage.blobs.store(b"x" * 70_000, digests=folders.MD5)
                await lake.storage.uploads.put_part("raw", key, upload.upload_id, number, received)
        lake.clock.move(2 * DAY_MS)
        await lake.storage.uploads.create("raw", "p/young", attributes=folders.PLAIN)
        lake.clock.move(DAY_MS)
        assert await lake.expiry.once() == 3
        assert lake.uploads() == ["p/young", "q"]
        with lake.storage.index.view() as view:
            assert len(list(view.scan(Store.PARTS, b""))) == 2

    run(work())
    assert lake.expiry.totals.uploads_aborted == 3


Change = Callable[[Lake], Awaitable[object]]


async def overwrite(lake: Lake) -> None:
    await lake.put("a", data=b"new")


async def retag(lake: Lake) -> None:
    await lake.storage.objects.set_tags("raw", "a", {"keep": "yes"})


async def hold(lake: Lake) -> None:
    await lake.storage.objects.set_legal_hold("raw", "a", True)


async def remove(lake: Lake) -> None:
    await lake.storage.objects.delete("raw", "a")


def between_walk_and_write(lake: Lake, change: Change) -> None:
    """Do something right after the first step of the walk has judged."""
    remove_some = lake.expiry._change

    async def after_change(*arguments: Any, **options: Any) -> None:
        lake.expiry._change = remove_some  # type: ignore[method-assign]  # once
        await change(lake)
        await remove_some(*arguments, **options)

    lake.expiry._change = after_change  # type: ignore[method-assign]  # the seam of the test


@pytest.mark.parametrize("change", [overwrite, retag])
def test_an_object_that_changes_before_the_transaction_stays(lake: Lake, change: Change) -> None:
    async def work() -> None:
        await lake.make(rule(expiration_days=1))
        await lake.put("a", "b")
        lake.clock.move(3 * DAY_MS)
        between_walk_and_write(lake, change)
        assert await lake.expiry.once() == 1
        assert lake.keys() == ["a"]

    run(work())
    assert lake.outcomes() == {"expired": 1, "kept_changed": 1}


@pytest.mark.parametrize("change", [overwrite, retag, remove])
def test_an_object_that_changes_before_the_transaction_does_not_move(
    lake: Lake, change: Change
) -> None:
    async def work() -> None:
        await lake.make(rule(**of_class("STANDARD_IA", 1)))
        await lake.put("a", "b")
        lake.clock.move(3 * DAY_MS)
        between_walk_and_write(lake, change)
        assert await lake.expiry.once() == 1
        kept = [] if change is remove else [("a", "STANDARD")]
        assert classes(lake) == [*kept, ("b", "STANDARD_IA")]

    run(work())
    assert lake.outcomes() == {"moved": 1, "kept_changed": 1}


@pytest.mark.parametrize("rules", [(), (rule(prefix="z", expiration_days=1),)])
def test_rules_that_change_before_the_transaction_remove_nothing(
    lake: Lake, rules: tuple[lifecycle.LifecycleRule, ...]
) -> None:
    async def work() -> None:
        await lake.make(rule(expiration_days=1))
        await lake.put("a", "b")
        lake.clock.move(3 * DAY_MS)
        between_walk_and_write(lake, lambda lake: lake.rules(*rules))
        assert await lake.expiry.once() == 0
        assert lake.keys() == ["a", "b"]

    run(work())


def before_each_write(lake: Lake, change: Change) -> None:
    """Do something before each transaction of the sweep."""
    remove_some, abort_one = lake.expiry._change, lake.expiry._abort

    async def remove_after(*arguments: Any, **options: Any) -> None:
        await change(lake)
        await remove_some(*arguments, **options)

    async def abort_after(*arguments: Any) -> None:
        await change(lake)
        await abort_one(*arguments)

    lake.expiry._change = remove_after  # type: ignore[method-assign]  # the seam of the test
    lake.expiry._abort = abort_after  # type: ignore[method-assign]  # the seam of the test


@pytest.mark.parametrize("rules", [(), (rule(prefix="p/", abort_days=9),)])
def test_rules_that_change_before_the_transaction_abort_no_upload(
    lake: Lake, rules: tuple[lifecycle.LifecycleRule, ...]
) -> None:
    async def work() -> None:
        await lake.make(rule(prefix="p/", abort_days=1))
        for key in ("p/a", "p/b"):
            await lake.storage.uploads.create("raw", key, attributes=folders.PLAIN)
        lake.clock.move(3 * DAY_MS)
        before_each_write(lake, lambda lake: lake.rules(*rules))
        assert await lake.expiry.once() == 0
        assert lake.uploads() == ["p/a", "p/b"]

    run(work())
    assert lake.expiry.totals.uploads_aborted == 0


def test_a_bucket_whose_record_changes_all_the_time_is_walked_once_and_to_its_end(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the rules and the versioning matter to a verdict."""
    monkeypatch.setattr(expiry, "VERSIONS_AT_ONCE", 2)
    numbers = itertools.count()

    async def change_tags(lake: Lake) -> None:
        tags = {"n": str(next(numbers))}
        await lake.storage.buckets.change("raw", lambda settings: {**settings, "tags": tags})

    async def work() -> None:
        await lake.make(rule(expiration_days=1, abort_days=1))
        await lake.put(*(f"k{number:02}" for number in range(20)))
        for key in ("u1", "u2", "u3"):
            await lake.storage.uploads.create("raw", key, attributes=folders.PLAIN)
        lake.clock.move(3 * DAY_MS)
        before_each_write(lake, change_tags)
        assert await lake.expiry.once() == 23
        assert (lake.keys(), lake.uploads()) == ([], [])

    run(work())
    assert next(numbers) >= 13
    assert lake.expiry.totals.versions_seen == 20
    assert lake.expiry.totals.runs == {"done": 1, "incomplete": 0, "failed": 0}


def test_a_run_that_leaves_a_bucket_to_the_next_one_is_incomplete_and_logged(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    days = itertools.count(2)

    async def change_rules(lake: Lake) -> None:
        await lake.rules(rule(expiration_days=next(days)))

    async def work() -> None:
        await lake.make(rule(expiration_days=1))
        await lake.put("a", "b")
        lake.clock.move(100 * DAY_MS)
        before_each_write(lake, change_rules)
        assert await lake.expiry.once() == 0
        assert lake.keys() == ["a", "b"]
        assert await lake.sweeper().once() == 2

    run(work())
    assert next(days) == 2 + expiry.ATTEMPTS_MAX
    assert lake.expiry.totals.runs == {"done": 0, "incomplete": 1, "failed": 0}
    lines = list(expiry.format_metrics(lake.expiry.totals))
    assert 'boathouse_lifecycle_runs_total{outcome="incomplete"} 1' in lines
    assert "'raw'" in caplog.text


def test_versioning_that_is_enabled_before_the_transaction_keeps_the_version(lake: Lake) -> None:
    async def enable(lake: Lake) -> None:
        await lake.storage.buckets.set_versioning("raw", "Enabled", bucket_id=1)

    async def work() -> None:
        await lake.make(rule(expiration_days=1))
        await lake.put("a")
        lake.clock.move(3 * DAY_MS)
        between_walk_and_write(lake, enable)
        assert await lake.expiry.once() == 1
        assert lake.versions() == [("a", True), ("a", False)]

    run(work())


def test_an_object_lock_that_is_turned_on_before_the_transaction_keeps_held_versions(
    lake: Lake,
) -> None:
    async def lock(lake: Lake) -> None:
        await lake.storage.buckets.set_object_lock("raw", None, bucket_id=1)
        versions = lake.storage.objects.list_versions("raw").versions
        await lake.storage.objects.set_legal_hold(
            "raw", "a", True, version_id=versions[1].version_id
        )

    async def work() -> None:
        await lake.make(rule(noncurrent_days=1), versioning="Enabled")
        await lake.put("a", "a", "b", "b")
        lake.clock.move(3 * DAY_MS)
        between_walk_and_write(lake, lock)
        assert await lake.expiry.once() == 1
        assert [key for key, _ in lake.versions()] == ["a", "a", "b"]

    run(work())


def test_a_bucket_that_was_deleted_and_made_anew_keeps_its_objects(lake: Lake) -> None:
    async def replace(lake: Lake) -> None:
        await lake.storage.buckets.delete("raw", discard=True)
        await folders.make_bucket(lake.storage)
        await lake.put("a", data=b"of another bucket")

    async def work() -> None:
        await lake.make(rule(expiration_days=1))
        await lake.put("a")
        lake.clock.move(3 * DAY_MS)
        between_walk_and_write(lake, replace)
        assert await lake.expiry.once() == 0
        assert lake.keys() == ["a"]
        await lake.storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1)
        with lake.storage.index.view() as view:
            assert list(view.scan(Store.LIFECYCLES, b"")) == []

    run(work())


def test_a_noncurrent_version_that_was_the_newest_again_stays(lake: Lake) -> None:
    """The newer version is removed and written anew: the older one is noncurrent since then."""

    async def restore_and_overwrite(lake: Lake) -> None:
        newest = lake.storage.objects.head("raw", "a")
        await lake.storage.objects.delete("raw", "a", version_id=newest.version_id)
        await lake.put("a", data=b"third")

    async def work() -> None:
        await lake.make(rule(noncurrent_days=1), versioning="Enabled")
        await lake.put("a", data=b"first")
        await lake.put("a", data=b"second")
        lake.clock.move(3 * DAY_MS)
        between_walk_and_write(lake, restore_and_overwrite)
        assert await lake.expiry.once() == 0
        assert len(lake.versions()) == 2

    run(work())


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize(
    "fields", [{"noncurrent_days": 1}, of_noncurrent("STANDARD_IA", 1)], ids=str
)
def test_a_noncurrent_version_that_changes_or_goes_before_the_transaction_is_left(
    lake: Lake, fields: dict[str, Any], gone: bool
) -> None:
    older: list[str | None] = []

    async def change(lake: Lake) -> None:
        if gone:
            await lake.storage.objects.delete("raw", "a", version_id=older[0])
        else:
            await lake.storage.objects.set_tags("raw", "a", {"x": "y"}, version_id=older[0])

    async def work() -> None:
        await lake.make(rule(**fields), versioning="Enabled")
        await lake.put("a", data=b"first")
        older.append(lake.storage.objects.head("raw", "a").version_id)
        await lake.put("a", data=b"second")
        lake.clock.move(3 * DAY_MS)
        between_walk_and_write(lake, change)
        assert await lake.expiry.once() == 0
        assert classes(lake) == [("a", "STANDARD")] * (1 if gone else 2)

    run(work())
    assert lake.outcomes() == {"kept_changed": 1}


def test_noncurrent_versions_of_a_key_that_is_written_all_the_time_are_removed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write between a walk and its transaction, and between steps, delays no older version."""
    monkeypatch.setattr(expiry, "VERSIONS_AT_ONCE", 3)
    remove_some = lake.expiry._change

    async def after_write(*arguments: Any, **options: Any) -> None:
        await lake.put("a", data=b"new")
        await remove_some(*arguments, **options)

    async def work() -> None:
        await lake.make(rule(noncurrent_days=1, newer_noncurrent=1), versioning="Enabled")
        for _ in range(12):
            await lake.put("a", data=b"old")
        lake.clock.move(3 * DAY_MS)
        lake.expiry._change = after_write  # type: ignore[method-assign]  # the seam of the test
        assert await lake.expiry.once() == 10
        newest = lake.storage.objects.head("raw", "a")
        assert lake.storage.objects.read(newest) == b"new"

    run(work())


def test_a_key_that_is_overwritten_right_before_the_step_that_begins_with_it_is_not_due(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "VERSIONS_AT_ONCE", 2)

    async def overwrite_b(lake: Lake) -> None:
        await lake.put("b")

    async def work() -> None:
        await lake.make(rule(noncurrent_days=1), versioning="Enabled")
        await lake.put("a", "a", "b")
        lake.clock.move(3 * DAY_MS)
        between_walk_and_write(lake, overwrite_b)
        assert await lake.expiry.once() == 1
        assert [key for key, _ in lake.versions()] == ["a", "b", "b"]

    run(work())
    assert lake.outcomes() == {"noncurrent_removed": 1}


def test_noncurrent_versions_that_a_client_removes_first_are_not_made_good(lake: Lake) -> None:
    """Two newer noncurrent versions must be kept: while a client removes one, no other goes."""

    async def remove_a_newer_one(lake: Lake) -> None:
        version = lake.storage.objects.list_versions("raw").versions[1]
        await lake.storage.objects.delete("raw", "a", version_id=version.version_id)

    async def work() -> None:
        await lake.make(rule(noncurrent_days=1, newer_noncurrent=2), versioning="Enabled")
        for _ in range(4):
            await lake.put("a")
        lake.clock.move(3 * DAY_MS)
        between_walk_and_write(lake, remove_a_newer_one)
        assert await lake.expiry.once() == 0
        assert len(lake.versions()) == 3

    run(work())


def test_a_marker_that_got_a_version_before_it_stays(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(rule(removes_markers=True), versioning="Enabled")
        await lake.storage.objects.delete("raw", "a")
        await lake.storage.objects.delete("raw", "b")
        between_walk_and_write(lake, remove)
        assert await lake.expiry.once() == 1
        assert lake.versions() == [("a", True), ("a", True)]

    run(work())


def test_a_new_sweep_goes_on_where_another_stopped(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "VERSIONS_AT_ONCE", 2)

    class Stop(Exception):
        pass

    async def work() -> None:
        await lake.make(rule(expiration_days=1))
        await lake.put(*"abcdefgh")
        lake.clock.move(3 * DAY_MS)
        await lake.put("new")
        remove_some, calls = lake.expiry._change, 0

        async def stop_at_third(*arguments: Any, **options: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise Stop
            await remove_some(*arguments, **options)

        lake.expiry._change = stop_at_third  # type: ignore[method-assign]  # the seam of the test
        with pytest.raises(Stop):
            await lake.expiry.once()
        assert len(lake.keys()) == 5
        assert lake.expiry.totals.runs == {"done": 0, "incomplete": 0, "failed": 1}
        assert await lake.sweeper().once() == 4
        assert lake.keys() == ["new"]

    run(work())


def test_a_bucket_that_cannot_be_swept_does_not_stop_the_others(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(rule(expiration_days=1))
        await lake.put("a")
        await folders.make_bucket(lake.storage, "other")
        await lake.storage.buckets.set_lifecycle("other", (rule(expiration_days=1),), bucket_id=2)
        await folders.put(lake.storage, "a", b"x", bucket="other")
        lake.clock.move(3 * DAY_MS)
        sweep_one = lake.expiry._sweep

        async def fail(name: str, progress: expiry.RunProgress) -> bool:
            if name == "other":
                raise errors.CorruptRecord("a record that cannot be read")
            return await sweep_one(name, progress)

        lake.expiry._sweep = fail  # type: ignore[method-assign]  # the seam of the test
        with pytest.raises(errors.CorruptRecord):
            await lake.expiry.once()
        assert lake.keys() == []

    run(work())


def test_on_a_full_disk_what_frees_room_goes_and_what_needs_room_waits(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        await lake.make(rule(expiration_days=1, noncurrent_days=1), versioning="Enabled")
        await lake.put("a", "a", "b")
        lake.clock.move(3 * DAY_MS)
        monkeypatch.setattr(lake.storage.index, "_crowded", True)
        monkeypatch.setattr(lake.storage.index, "_is_crowded", lambda: True)
        assert await lake.expiry.once() == 1
        assert lake.versions() == [("a", False), ("b", False)]
        monkeypatch.setattr(lake.storage.index, "_crowded", False)
        monkeypatch.setattr(lake.storage.index, "_is_crowded", lambda: False)
        assert await lake.expiry.once() == 2
        await lake.rules(rule(**of_class("STANDARD_IA", 1)))
        await lake.put("c")
        lake.clock.move(3 * DAY_MS)
        monkeypatch.setattr(lake.storage.index, "_crowded", True)
        monkeypatch.setattr(lake.storage.index, "_is_crowded", lambda: True)
        assert await lake.expiry.once() == 0
        assert classes(lake)[-1] == ("c", "STANDARD")

    run(work())
    assert lake.expiry.totals.outcomes["kept_without_room"] == 3


def test_a_disk_that_takes_no_writes_changes_nothing_and_the_next_run_goes_on(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(commit: Callable[[], Any]) -> None:
        raise lmdb.Error("mdb_txn_commit: Read-only file system")

    async def work() -> None:
        await lake.make(rule(expiration_days=1, abort_days=1))
        await lake.put("a", data=b"x" * 70_000)
        await lake.storage.uploads.create("raw", "u", attributes=folders.PLAIN)
        lake.clock.move(3 * DAY_MS)
        with monkeypatch.context() as patch:
            patch.setattr(lake.storage.disk, "transact", refuse)
            with pytest.raises(errors.DiskReadOnly):
                await lake.expiry.once()
        assert (lake.keys(), lake.uploads()) == (["a"], ["u"])
        assert folders.get(lake.storage, "a") == b"x" * 70_000
        assert await lake.expiry.once() == 2
        assert (lake.keys(), lake.uploads()) == ([], [])

    run(work())


def test_the_loop_turns_while_thousands_of_versions_are_judged(lake: Lake) -> None:
    """Every step of the walk is in a thread, and every transaction is bounded."""

    async def work() -> None:
        rules = [
            rule(id=f"r{number}", size_less_than=1, expiration_days=1) for number in range(999)
        ]
        await lake.make(*rules, rule(id="last", size_greater_than=3, expiration_days=1))
        data = [lake.put(f"k{number:04}") for number in range(300)]
        for each in data:
            await each
        lake.clock.move(3 * DAY_MS)
        async with folders.Turns() as turns:
            assert await lake.expiry.once() == 300
        assert turns.count > 300 // 50, "at most 50 versions of a thousand rules are one step"

    run(work())


def test_the_index_reads_nothing_of_rules_for_a_bucket_that_has_none(lake: Lake) -> None:
    async def work() -> None:
        await lake.make()
        await lake.put("a")
        info = lake.storage.objects.head("raw", "a")
        bucket = lake.storage.buckets.get("raw")

        class Refusing:
            is_committed = True

            def get(self, store: Store, key: bytes) -> bytes | None:
                raise AssertionError(store)

        assert lake.expiry.expiration(bucket, info, reading=Refusing()) is None

    run(work())


def test_metrics_are_prometheus_text_of_every_outcome(lake: Lake) -> None:
    async def work() -> None:
        await lake.make(rule(expiration_days=1))
        await lake.put("a")
        lake.clock.move(3 * DAY_MS)
        await lake.expiry.once()

    run(work())
    lines = list(expiry.format_metrics(lake.expiry.totals))
    assert 'boathouse_lifecycle_versions_total{outcome="expired"} 1' in lines
    assert 'boathouse_lifecycle_runs_total{outcome="done"} 1' in lines
    assert "boathouse_lifecycle_versions_seen_total 1" in lines
    assert "boathouse_lifecycle_running 0" in lines


def test_metrics_show_how_far_a_run_is_and_what_the_run_before_has_seen(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "VERSIONS_AT_ONCE", 2)
    shown: list[set[str]] = []
    remove_some = lake.expiry._change

    async def look(*arguments: Any, **options: Any) -> None:
        lines = set(expiry.format_metrics(lake.expiry.totals))
        shown.append({line for line in lines if "_walk_" in line or "_buckets{" in line})
        assert "boathouse_lifecycle_running 1" in lines
        await remove_some(*arguments, **options)

    lake.expiry._change = look  # type: ignore[method-assign]  # the seam of the test

    async def work() -> None:
        await lake.make(rule(expiration_days=1))
        await folders.make_bucket(lake.storage, "other")
        await lake.storage.buckets.set_lifecycle("other", (rule(expiration_days=1),), bucket_id=2)
        await folders.put(lake.storage, "x", b"x", bucket="other")
        await lake.put("a", "b", "c")
        lake.clock.move(3 * DAY_MS)
        await lake.expiry.once()
        await lake.put("d")
        lake.clock.move(3 * DAY_MS)
        await lake.expiry.once()

    run(work())

    def samples(done: int, left: int) -> set[str]:
        states = {"done": done, "left": left}
        return {
            f'boathouse_lifecycle_buckets{{state="{state}"}} {count}'
            for state, count in states.items()
        }

    def seen(bucket: str, count: int) -> str:
        return f'boathouse_lifecycle_walk_versions_seen{{bucket="{bucket}"}} {count}'

    def expected(bucket: str, count: int) -> str:
        return f'boathouse_lifecycle_walk_versions_expected{{bucket="{bucket}"}} {count}'

    def lines(shown_lines: set[str]) -> set[str]:
        return {line for line in shown_lines if not line.startswith("#")}

    assert [lines(each) for each in shown] == [
        {*samples(0, 2), seen("other", 1)},
        {*samples(1, 1), seen("raw", 2)},
        {*samples(1, 1), seen("raw", 3)},
        {*samples(1, 1), seen("raw", 1), expected("raw", 3)},
    ]
    after = "\n".join(expiry.format_metrics(lake.expiry.totals))
    assert "_walk_" not in after
    assert "lifecycle_buckets" not in after


def test_rules_survive_a_restart(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "data")
    asyncio.run(lake.make(rule(expiration_days=1)))
    asyncio.run(lake.put("a"))
    lake.storage.close()
    again: opening.Storage = folders.open_folder(tmp_path / "data", clock=lake.clock)
    lake.storage = again
    lake.clock.move(3 * DAY_MS)
    assert asyncio.run(lake.sweeper().once()) == 1
    assert lake.keys() == []
    again.close()
