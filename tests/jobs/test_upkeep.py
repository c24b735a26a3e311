"""Maintenance by the settings of a table: snapshots expired by a commit, compactions handed
over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from catalog import errors, maintenance
from jobs import rows, scheduler, upkeep
from storage import settings
from tests.jobs import scheduling
from tests.kit import lakes

HOUR_MS = 3_600_000
Result = TypeVar("Result")


class Keeping:
    """A table with commits an hour apart, and the checks over it."""

    def __init__(self, lake: lakes.Lake, path: Path, **options: Any) -> None:
        self.work = scheduling.make(lake, path, **options)
        self.lake = lake
        self.data = self.work.data
        self.ident = lake.ident("ns.t")
        self.upkeep = upkeep.Upkeep(
            store=lake.store,
            namespaces=lake.namespaces,
            tables=lake.tables,
            scans=self.data.scans,
            reader_of=self.data.reader,
            account=lakes.ACCOUNT,
            runs=self.work.runs,
        )

    async def fill(self, commits: int, *, first: int = 0) -> None:
        if not first:
            await self.data.create("ns.t")
        for number in range(first, first + commits):
            self.lake.clock.now_ms += HOUR_MS
            await self.data.add(await self.lake.tables.fetch(self.ident), [{"id": number}])

    async def configure(self, **changes: Any) -> None:
        """Store settings of the table, by type, as the s3tables API does."""
        names = {"snapshots": "icebergSnapshotManagement", "compaction": "icebergCompaction"}
        stored = {names[name]: value for name, value in changes.items()}
        pointer = self.lake.tables.pointer(self.ident)
        bucket_id = self.lake.store.place("lake").bucket_id
        key = settings.table_key(bucket_id, pointer.object_uuid)
        await self.lake.storage.index.commit(
            settings.plan_change(key, lambda old: {**old, settings.MAINTENANCE: stored})
        )

    async def put_property(self, name: str, value: str) -> None:
        key = f"boathouse.maintenance.{name}"
        change = {"action": "set-properties", "updates": {key: value}}
        await self.lake.tables.commit(self.ident, [], [change], by=lakes.BY)

    async def put_statistics(self) -> None:
        """Name a statistics file of the current snapshot."""
        loaded = await self.lake.tables.fetch(self.ident)
        statistics = {
            "snapshot-id": loaded.metadata.current_snapshot_id,
            "statistics-path": f"{loaded.metadata.location}/metadata/1.stats",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
        change = {"action": "set-statistics", "statistics": statistics}
        await self.lake.tables.commit(self.ident, [], [change], by=lakes.BY)

    async def snapshot_count(self) -> int:
        return len((await self.lake.tables.fetch(self.ident)).metadata.snapshots)

    def row(self, task: rows.Task) -> rows.MaintenanceRow | None:
        pointer = self.lake.tables.pointer(self.ident)
        bucket_id = self.lake.store.place("lake").bucket_id
        return rows.find_maintenance(self.lake.storage.index, bucket_id, pointer.object_uuid, task)


@pytest.fixture
def keeping(lake: lakes.Lake, tmp_path: Path) -> Keeping:
    return Keeping(lake, tmp_path)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(work)


def test_snapshots_that_are_old_enough_are_removed_by_one_commit(keeping: Keeping) -> None:
    async def scenario() -> None:
        await keeping.fill(6)
        assert await keeping.upkeep.check() == []
        assert await keeping.snapshot_count() == 6  # all are younger than 120 hours
        await keeping.configure(
            snapshots={"minSnapshotsToKeep": 2, "maxSnapshotAgeHours": 3, "status": "enabled"}
        )
        log = len(keeping.lake.log())
        await keeping.upkeep.check()
        # Kept are those of the last three hours: of ages 0, 1 and 2.
        assert await keeping.snapshot_count() == 3
        assert [each.record.via for each in keeping.lake.log()[log:]] == ["maintenance"]
        (listed,) = keeping.work.runs.latest(10)
        assert (listed.task, listed.target, listed.state) == (
            "snapshots", "lake.ns.t", "succeeded"
        )  # fmt: skip
        assert json.loads(listed.answer) == {"expired_snapshots": 3, "kept_snapshots": 3}
        assert (listed.by_server, listed.by) == (True, keeping.lake.log()[-1].record.author)
        assert keeping.lake.broken_chain() is None
        loaded = await keeping.lake.tables.fetch(keeping.ident)
        files = await keeping.data.scans.data_files(
            keeping.data.reader(loaded),
            snapshot_id=loaded.metadata.current_snapshot_id or 0,
            files_max=100,
        )
        assert files is not None
        assert len(files) == 6
        # Nothing is written while nothing is due; time alone makes the next one due.
        await keeping.upkeep.check()
        assert len(keeping.lake.log()) == log + 1
        keeping.lake.clock.now_ms += HOUR_MS
        await keeping.upkeep.check()
        assert await keeping.snapshot_count() == 2

    run(scenario())
    row = keeping.row("snapshots")
    assert row is not None
    assert (row.failure, row.started_at_ms) == ("", keeping.lake.clock())


def test_a_table_whose_snapshot_management_is_disabled_keeps_them(keeping: Keeping) -> None:
    async def scenario() -> None:
        await keeping.fill(3)
        await keeping.configure(snapshots={"status": "disabled", "maxSnapshotAgeHours": 1})
        keeping.lake.clock.now_ms += 1000 * HOUR_MS
        await keeping.upkeep.check()
        assert await keeping.snapshot_count() == 3

    run(scenario())
    assert keeping.row("snapshots") is None


def test_a_commit_during_the_check_keeps_every_snapshot_until_the_next(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await keeping.fill(4)
        await keeping.configure(
            snapshots={"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 1, "status": "enabled"}
        )
        commit = keeping.lake.tables.commit

        async def overtaken(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(keeping.lake.tables, "commit", commit)
            await keeping.fill(1, first=4)
            return await commit(*arguments, **options)

        monkeypatch.setattr(keeping.lake.tables, "commit", overtaken)
        await keeping.upkeep.check()
        assert await keeping.snapshot_count() == 5
        assert keeping.row("snapshots") is None  # it yields to the writer, and has not failed
        await keeping.upkeep.check()
        assert await keeping.snapshot_count() == 1

    run(scenario())


@pytest.mark.parametrize("change", ["tag", "disable"])
def test_a_tag_or_a_setting_of_the_last_moment_keeps_the_snapshots(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    async def scenario() -> None:
        await keeping.fill(4)
        await keeping.configure(
            snapshots={"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 1, "status": "enabled"}
        )
        keeping.lake.clock.now_ms += HOUR_MS
        first, *_ = (await keeping.lake.tables.fetch(keeping.ident)).metadata.snapshots.ids
        tag = {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": first}
        commit = keeping.lake.tables.commit

        async def overtaken(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(keeping.lake.tables, "commit", commit)
            if change == "tag":
                await commit(keeping.ident, [], [tag], by=lakes.BY)
            else:
                await keeping.configure(snapshots={"status": "disabled"})
            return await commit(*arguments, **options)

        monkeypatch.setattr(keeping.lake.tables, "commit", overtaken)
        await keeping.upkeep.check()
        loaded = await keeping.lake.tables.fetch(keeping.ident)
        assert len(loaded.metadata.snapshots) == 4
        assert keeping.row("snapshots") is None
        if change == "tag":
            await keeping.upkeep.check()
            loaded = await keeping.lake.tables.fetch(keeping.ident)
            assert first in loaded.metadata.snapshots.ids
            assert set(loaded.metadata.refs) == {"main", "v1"}
            assert len(loaded.metadata.snapshots) == 2

    run(scenario())


def test_an_expiry_that_fails_waits_and_the_status_says_why(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await keeping.fill(3)
        await keeping.configure(
            snapshots={"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 1, "status": "enabled"}
        )
        commit = keeping.lake.tables.commit

        async def fail(*arguments: Any, **options: Any) -> Any:
            raise errors.CommitStateUnknown("the disk is gone")

        monkeypatch.setattr(keeping.lake.tables, "commit", fail)
        await keeping.upkeep.check()
        monkeypatch.setattr(keeping.lake.tables, "commit", commit)
        await keeping.upkeep.check()
        assert await keeping.snapshot_count() == 3  # not before its pause is over
        row = keeping.row("snapshots")
        assert row is not None
        assert (row.failure, row.failures) == ("the disk is gone", 1)
        (listed,) = keeping.work.runs.latest(10)
        assert (listed.state, listed.error) == ("failed", "the disk is gone")
        keeping.lake.clock.now_ms += upkeep.PAUSE_MS
        await keeping.upkeep.check()
        assert await keeping.snapshot_count() == 1
        row = keeping.row("snapshots")
        assert row is not None
        assert (row.failure, row.failures) == ("", 0)

    run(scenario())


def test_a_compaction_is_due_from_twenty_small_files_on(keeping: Keeping) -> None:
    async def scenario() -> None:
        await keeping.fill(19)
        assert await keeping.upkeep.check() == []
        await keeping.fill(1, first=19)
        (due,) = await keeping.upkeep.check()
        assert (due.task, due.ident, due.files) == ("compaction", keeping.ident, 20)
        assert due.options == ("--target-file-size-mib", "512", "--strategy", "auto")
        await keeping.configure(compaction={"status": "disabled"})
        assert await keeping.upkeep.check() == []
        await keeping.configure(compaction={"status": "enabled", "targetFileSizeMB": 64})
        (due,) = await keeping.upkeep.check()
        assert due.options[:2] == ("--target-file-size-mib", "64")
        await keeping.upkeep.note(due, started_at_ms=keeping.lake.clock(), failure="why")
        assert await keeping.upkeep.check() == []
        keeping.lake.clock.now_ms += upkeep.PAUSE_MS
        assert await keeping.upkeep.check() == [due]

    run(scenario())


def test_a_compaction_that_changed_nothing_is_due_after_a_change_alone(keeping: Keeping) -> None:
    async def scenario() -> None:
        await keeping.fill(20)
        (due,) = await keeping.upkeep.check()
        await keeping.upkeep.note(due, started_at_ms=1, failure="")
        assert await keeping.upkeep.check() == []
        await keeping.fill(1, first=20)
        (due,) = await keeping.upkeep.check()
        assert due.files == 21

    run(scenario())


def test_a_compaction_that_waits_is_forgotten_when_its_table_or_settings_change(
    keeping: Keeping,
) -> None:
    async def scenario() -> None:
        await keeping.fill(20)
        (due,) = await keeping.upkeep.check()
        assert keeping.upkeep.is_wanted(due)
        await keeping.configure(compaction={"status": "disabled"})
        assert not keeping.upkeep.is_wanted(due)
        await keeping.configure()
        assert keeping.upkeep.is_wanted(due)
        await keeping.lake.tables.drop(keeping.ident, purge=False, by=lakes.BY)
        assert not keeping.upkeep.is_wanted(due)
        await keeping.fill(1)
        assert not keeping.upkeep.is_wanted(due)

    run(scenario())


def test_manifests_are_due_by_the_table_buckets_setting_and_a_property_says_otherwise(
    keeping: Keeping,
) -> None:
    async def scenario() -> None:
        await keeping.fill(4)
        assert await keeping.upkeep.check() == []  # the default is a hundred
        await keeping.lake.storage.buckets.update("lake", {maintenance.MANIFESTS_MAX: 3})
        (due,) = await keeping.upkeep.check()
        assert (due.task, due.files, due.options) == ("manifests", 4, ())
        assert keeping.upkeep.is_wanted(due)
        await keeping.put_property("manifests-max", "4")
        assert await keeping.upkeep.check() == []
        await keeping.put_property("manifests-max", "0")
        assert await keeping.upkeep.check() == []
        await keeping.put_property("manifests-max", "2")
        (due,) = await keeping.upkeep.check()
        await keeping.lake.storage.buckets.update("lake", {maintenance.MANIFESTS_MAX: 5})
        assert not keeping.upkeep.is_wanted(due)

    run(scenario())


def test_statistics_are_due_only_where_they_are_asked_for(keeping: Keeping) -> None:
    async def scenario() -> None:
        await keeping.fill(2)
        assert await keeping.upkeep.check() == []
        await keeping.put_property("statistics-snapshots", "2")
        (due,) = await keeping.upkeep.check()
        assert (due.task, due.options) == ("statistics", ())
        await keeping.put_statistics()
        assert await keeping.upkeep.check() == []
        await keeping.fill(1, first=2)
        assert await keeping.upkeep.check() == []
        await keeping.fill(1, first=3)
        (due,) = await keeping.upkeep.check()
        assert due.task == "statistics"

    run(scenario())


def test_a_table_whose_maintenance_is_all_disabled_is_left_as_it_is(keeping: Keeping) -> None:
    async def scenario() -> None:
        await keeping.fill(4)
        await keeping.put_property("manifests-max", "3")
        await keeping.put_property("statistics-snapshots", "1")
        disabled = {"status": "disabled"}
        await keeping.configure(compaction=disabled, snapshots=disabled)
        assert await keeping.upkeep.check() == []
        await keeping.configure(compaction=disabled)
        (due,) = await keeping.upkeep.check()
        assert due.task == "manifests"
        await keeping.configure(compaction=disabled, snapshots=disabled)
        assert not keeping.upkeep.is_wanted(due)

    run(scenario())


def test_a_task_that_failed_or_changed_nothing_lets_the_next_of_its_table_come(
    keeping: Keeping,
) -> None:
    async def scenario() -> None:
        await keeping.fill(20)
        await keeping.put_property("manifests-max", "3")
        await keeping.put_property("statistics-snapshots", "1")
        (due,) = await keeping.upkeep.check()
        assert due.task == "compaction"
        await keeping.upkeep.note(due, started_at_ms=1, failure="why")
        (due,) = await keeping.upkeep.check()
        assert due.task == "manifests"
        await keeping.upkeep.note(due, started_at_ms=1, failure="")
        (due,) = await keeping.upkeep.check()
        assert due.task == "statistics"
        await keeping.upkeep.note(due, started_at_ms=1, failure="")
        assert await keeping.upkeep.check() == []
        keeping.lake.clock.now_ms += upkeep.PAUSE_MS
        (due,) = await keeping.upkeep.check()
        assert due.task == "compaction"

    run(scenario())
    for task in ("compaction", "manifests", "statistics"):
        row = keeping.row(task)
        assert row is not None
        assert row.failure == ("why" if task == "compaction" else "")


def test_a_table_that_cannot_be_looked_at_keeps_no_other_from_maintenance(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await keeping.fill(3)
        await keeping.configure(
            snapshots={"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 1, "status": "enabled"}
        )
        for name in ("ns.a", "ns.z"):
            await keeping.data.create(name)
        fetch = keeping.lake.tables.fetch

        async def fail_at_others(ident: Any, *arguments: Any, **options: Any) -> Any:
            if ident != keeping.ident:
                raise RuntimeError("planted")
            return await fetch(ident, *arguments, **options)

        monkeypatch.setattr(keeping.lake.tables, "fetch", fail_at_others)
        keeping.lake.clock.now_ms += HOUR_MS
        await keeping.upkeep.check()
        assert await keeping.snapshot_count() == 1

    run(scenario())


def test_a_dropped_table_leaves_no_row(keeping: Keeping) -> None:
    async def scenario() -> None:
        await keeping.fill(20)
        (due,) = await keeping.upkeep.check()
        await keeping.upkeep.note(due, started_at_ms=1, failure="")
        await keeping.lake.tables.drop(keeping.ident, purge=False, by=lakes.BY)
        await keeping.upkeep.check()
        index = keeping.lake.storage.index
        assert rows.find_maintenance(index, due.bucket_id, due.object_uuid, "compaction") is None

    run(scenario())


def test_the_scheduler_hands_a_due_compaction_to_its_child_with_no_users_rights(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    keeping = Keeping(lake, tmp_path, interval_s=60)

    async def scenario() -> None:
        await keeping.fill(20)
        async with scheduling.begun(keeping.work):
            assert keeping.work.done() == []
            lake.clock.now_ms += 60_000
            await scheduling.until(lambda: keeping.row("compaction"))

    run(scenario())
    ((_, words),) = keeping.work.done()
    assert words == [
        "compact", "--table", "lake.ns.t", "--target-file-size-mib", "512", "--strategy", "auto",
    ]  # fmt: skip
    (done,) = keeping.work.runs.latest(10)
    assert (done.task, done.state, done.target) == ("compaction", "succeeded", "lake.ns.t")
    assert done.by == "arn:aws:iam::000000000000:user/boathouse-maintenance"


def test_the_scheduler_runs_manifests_and_statistics_in_the_same_child(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    keeping = Keeping(lake, tmp_path, interval_s=60)

    async def scenario() -> None:
        await keeping.fill(4)
        await keeping.put_property("manifests-max", "3")
        await keeping.put_property("statistics-snapshots", "1")
        async with scheduling.begun(keeping.work):
            for task in ("manifests", "statistics"):
                lake.clock.now_ms += 60_000
                await scheduling.until(lambda task=task: keeping.row(task))

    run(scenario())
    assert [words for _, words in keeping.work.done()] == [
        ["manifests", "--table", "lake.ns.t"],
        ["statistics", "--table", "lake.ns.t"],
    ]
    assert [each.task for each in keeping.work.runs.latest(10)] == ["statistics", "manifests"]


def test_a_pipeline_runs_while_tables_are_looked_at(
    lake: lakes.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("a")
    looks: list[int] = []

    async def look(self: upkeep.Upkeep) -> list[upkeep.DueTask]:
        looks.append(1)
        await asyncio.Event().wait()
        raise AssertionError("it waits until it is cancelled")

    monkeypatch.setattr(upkeep.Upkeep, "check", look)

    async def scenario() -> None:
        async with scheduling.begun(work):
            work.scheduler.check_maintenance()
            await scheduling.until(lambda: looks)
            await work.scheduler.ask("a")
            await work.ended("a", 1)
            work.scheduler.check_maintenance()  # one look at a time
            await work.scheduler.ask("a")
            await work.ended("a", 2)

    run(scenario())
    assert len(looks) == 1


def test_without_spark_no_child_starts_and_the_status_says_why(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    keeping = Keeping(lake, tmp_path, interval_s=0, has_spark=False)

    async def scenario() -> None:
        await keeping.fill(20)
        async with scheduling.begun(keeping.work):
            keeping.work.scheduler.check_maintenance()
            await scheduling.until(lambda: keeping.row("compaction"))

    run(scenario())
    assert keeping.work.started == []
    row = keeping.row("compaction")
    assert row is not None
    assert row.failure == scheduler.NO_SPARK
