"""The mark: what it keeps of many tables and commits, and what each file that it reads names."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from catalog import departures, manifests, records
from catalog.commits import LoadedTable
from catalog.sweep import marking
from storage import batch, model
from tests.kit import datafiles, lakes, manifestfiles, sweeps

BY = lakes.BY


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": "x"} for number in numbers]


def mark_of(bench: datafiles.Bench) -> marking.Mark:
    return marking.Mark(
        store=bench.lake.store,
        files=bench.files,
        decoder=manifestfiles.InlineDecoder(),
        logs={},
        salt=b"s" * 16,
        day_ms=sweeps.DAY_MS,
    )


def keys_of(bench: datafiles.Bench, loaded: LoadedTable) -> set[str]:
    """Every file below a table's location."""
    return sweeps.keys_in(bench.lake, loaded.metadata.location.removeprefix("s3://lake/") + "/")


async def live_keys(bench: datafiles.Bench, loaded: LoadedTable) -> set[str]:
    """The data files that a table's current state names."""
    live = await manifestfiles.live_files(bench.scans, bench.reader(loaded))
    return {each.file_path.removeprefix("s3://lake/") for each in live}


async def make_tables(bench: datafiles.Bench, how: str, count: int) -> list[LoadedTable]:
    loaded = [await bench.create(f"ns.{how}{number}") for number in range(count)]
    return [await bench.add(each, rows(number)) for number, each in enumerate(loaded)]


@pytest.mark.parametrize("rows_at_once", [1, 2, 3, 500])
def test_a_sweep_keeps_every_retained_table_however_few_rows_one_view_reads(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    lake = bench.lake
    monkeypatch.setattr(marking, "ROWS_AT_ONCE", rows_at_once)

    async def prepare() -> dict[str, set[str]]:
        tables = {
            how: await make_tables(bench, how, count)
            for how, count in (("live", 4), ("dropped", 3), ("unregistered", 2), ("purged", 3))
        }
        for number in range(3):
            view = lake.ident(f"ns.v{number}")
            options: dict[str, Any] = {"schema": lakes.SCHEMA, "view_version": lakes.VIEW_VERSION}
            await lake.views.create(view, **options, by=BY)
        keys = {
            how: set().union(*[keys_of(bench, each) for each in loaded])
            for how, loaded in tables.items()
        }
        for loaded in tables["dropped"]:
            await lake.tables.drop(loaded.ident, by=BY)
        for loaded in tables["unregistered"]:
            await lake.tables.unregister(loaded.ident, by=BY)
        for loaded in tables["purged"]:
            await lake.tables.drop(loaded.ident, purge=True, by=BY)
        for number, loaded in enumerate(tables["live"]):
            await bench.add(loaded, rows(10 + number))
        return keys

    keys = asyncio.run(prepare())
    before = sweeps.keys_in(lake)
    sweeps.pass_days(lake, 6)
    report = sweeps.run(lake)
    assert {each.key for each in report.listed} == keys["purged"]
    assert sweeps.keys_in(lake) == before - keys["purged"]
    sweeps.pass_days(lake, 23)
    assert sweeps.run(lake).listed == []
    sweeps.pass_days(lake, 2)
    assert {each.key for each in sweeps.run(lake).listed} == keys["dropped"]


@pytest.mark.parametrize("rows_at_once", [1, 2, 500])
def test_a_mark_reads_every_commit_that_came_since(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    lake = bench.lake
    monkeypatch.setattr(marking, "ROWS_AT_ONCE", rows_at_once)

    async def work() -> None:
        before = await make_tables(bench, "before", 2)
        mark = mark_of(bench)
        await mark.run(now_ms=lake.clock())
        since = await make_tables(bench, "since", 3)
        with lake.storage.index.view() as view, pytest.raises(marking.Moved):
            mark.check(view)
        await mark.catch_up()
        with lake.storage.index.view() as view:
            mark.check(view)
        for loaded in (*before, *since):
            for key in keys_of(bench, loaded):
                assert mark.reached.holds("lake", key), key

    asyncio.run(work())


async def overwrite(bench: datafiles.Bench, loaded: LoadedTable, number: int) -> LoadedTable:
    """Replace all rows of a table, and drop every earlier snapshot."""
    live = await manifestfiles.live_files(bench.scans, bench.reader(loaded))
    loaded = await bench.appends.commit_files(
        loaded.ident,
        [await bench.write(loaded, rows(number))],
        operation="overwrite",
        removed=live,
        based_on=loaded.metadata.current_snapshot_id,
        principal=lakes.ROOT,
    )
    current = loaded.metadata.current_snapshot_id
    old = [each for each in loaded.metadata.snapshot_ids if each != current]
    update = {"action": "remove-snapshots", "snapshot-ids": old}
    return await bench.lake.tables.commit(loaded.ident, [], [update], by=BY)


@pytest.mark.parametrize("rows_at_once", [1, 2, 500])
def test_a_state_of_the_history_window_is_kept_behind_commits_of_a_clock_that_was_set_back(
    bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    lake = bench.lake
    monkeypatch.setattr(marking, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(marking, "OLDER_RECORDS_MAX", 3)

    async def prepare() -> set[str]:
        loaded = await bench.add(await bench.create(), rows(1))
        live = await live_keys(bench, loaded)
        sweeps.pass_days(lake, -20)
        await overwrite(bench, loaded, 2)
        return live

    replaced = asyncio.run(prepare())
    sweeps.pass_days(lake, 20 + 6.9)
    assert not replaced & {each.key for each in sweeps.run(lake).listed}
    sweeps.pass_days(lake, 0.2)
    assert replaced <= {each.key for each in sweeps.run(lake).listed}


def test_the_state_that_the_newest_commit_replaced_is_kept_for_the_history_window(
    bench: datafiles.Bench,
) -> None:
    """It is older than the window itself, and no other commit of the window names it."""
    lake = bench.lake

    async def prepare() -> LoadedTable:
        return await bench.add(await bench.create(), rows(1))

    loaded = asyncio.run(prepare())
    replaced = asyncio.run(live_keys(bench, loaded))
    sweeps.pass_days(lake, 30)
    snapshot_id = loaded.metadata.current_snapshot_id
    updates = [
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        {"action": "remove-snapshots", "snapshot-ids": [snapshot_id]},
    ]
    asyncio.run(lake.tables.commit(loaded.ident, [], updates, by=BY))
    sweeps.pass_days(lake, 6.9)
    assert sweeps.run(lake).listed == []
    sweeps.pass_days(lake, 0.2)
    assert replaced <= {each.key for each in sweeps.run(lake).listed}


def write_as_an_older_release(lake: lakes.Lake) -> None:
    """Remove what says of each dropped table for how long it is kept: older releases wrote none."""
    with lake.storage.index.view() as view:
        changed: list[batch.Write] = []
        for key, value in view.scan(batch.Store.LOG, b""):
            record = records.decode(value, records.LogRecord)
            ops = tuple(
                msgspec.structs.replace(
                    op,
                    summary={
                        name: each
                        for name, each in op.summary.items()
                        if name != departures.KEPT_UNTIL
                    },
                )
                for op in record.ops
            )
            older = records.encode(msgspec.structs.replace(record, ops=ops))
            changed.append(batch.Put(store=batch.Store.LOG, key=key, value=older))
        prefix = records.dropped_range(lake.store.place("lake"))
        for key, _ in view.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix)):
            changed.append(batch.Delete(store=batch.Store.POINTERS, key=key))
    lake.run(lake.storage.index.commit(batch.Batch(writes=changed)))


def test_tables_that_an_older_release_dropped_are_kept_for_their_days(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> tuple[set[str], set[str]]:
        (dropped,) = await make_tables(bench, "dropped", 1)
        (unregistered,) = await make_tables(bench, "unregistered", 1)
        await lake.tables.drop(dropped.ident, by=BY)
        await lake.tables.unregister(unregistered.ident, by=BY)
        return keys_of(bench, dropped), keys_of(bench, unregistered)

    dropped, unregistered = asyncio.run(prepare())
    write_as_an_older_release(lake)
    sweeps.pass_days(lake, 29.9)
    assert sweeps.run(lake).listed == []
    sweeps.pass_days(lake, 0.2)
    assert {each.key for each in sweeps.run(lake).listed} == dropped
    sweeps.pass_days(lake, 1_000)
    sweeps.run(lake)
    assert sweeps.keys_in(lake) == unregistered


@pytest.mark.parametrize("damaged", ["manifest list", "manifest"])
def test_a_file_that_is_repaired_is_read_for_the_next_commit(
    bench: datafiles.Bench, damaged: str
) -> None:
    objects, blobs = bench.lake.storage.objects, bench.lake.storage.blobs

    async def put(key: str, data: bytes) -> None:
        received = await blobs.store(data, digests=frozenset({"md5"}))
        await objects.put("lake", key, received, attributes=model.ObjectAttributes())

    async def work() -> None:
        loaded = await bench.add(await bench.create(), rows(1))
        live = await manifestfiles.live_files(bench.scans, bench.reader(loaded))
        snapshot = loaded.metadata.current_snapshot()
        assert snapshot is not None
        uri = str(snapshot["manifest-list"])
        if damaged == "manifest":
            data = objects.read(objects.head("lake", uri.removeprefix("s3://lake/")))
            (listed,) = manifests.decode_manifest_list(data)
            uri = listed.manifest_path
        key = uri.removeprefix("s3://lake/")
        whole = objects.read(objects.head("lake", key))
        await put(key, b"garbage")
        mark = mark_of(bench)
        await mark.run(now_ms=bench.lake.clock())
        assert mark.problems_count == 1
        (data_key,) = [each.file_path.removeprefix("s3://lake/") for each in live]
        assert not mark.reached.holds("lake", data_key)
        await put(key, whole)
        await bench.add(loaded, rows(2))
        await mark.catch_up()
        assert mark.reached.holds("lake", data_key)

    asyncio.run(work())


def test_a_purged_table_that_is_registered_again_has_its_history_window(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> set[str]:
        loaded = await bench.add(await bench.create(), rows(1))
        live = await live_keys(bench, loaded)
        await lake.tables.drop(loaded.ident, purge=True, by=BY)
        again = await lake.tables.register(
            loaded.ident, loaded.metadata_location, by=BY, permit=lakes.permit_all
        )
        assert again.pointer.object_uuid == loaded.pointer.object_uuid
        await overwrite(bench, again, 2)
        return live

    replaced = asyncio.run(prepare())
    sweeps.pass_days(lake, 6.9)
    assert sweeps.run(lake).listed == []
    sweeps.pass_days(lake, 0.2)
    assert replaced <= {each.key for each in sweeps.run(lake).listed}


def test_a_dropped_table_has_its_history_window(bench: datafiles.Bench) -> None:
    lake = bench.lake

    async def prepare() -> set[str]:
        loaded = await bench.add(await bench.create(), rows(1))
        live = await live_keys(bench, loaded)
        await overwrite(bench, loaded, 2)
        await lake.tables.drop(loaded.ident, by=BY)
        return live

    replaced = asyncio.run(prepare())
    sweeps.pass_days(lake, 6.9)
    assert sweeps.run(lake).listed == []
    sweeps.pass_days(lake, 0.2)
    assert replaced <= {each.key for each in sweeps.run(lake).listed}


def test_a_table_whose_metadata_is_missing_keeps_its_files_and_stops_no_other(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> tuple[LoadedTable, set[str]]:
        (gone,) = await make_tables(bench, "gone", 1)
        await lake.tables.drop(gone.ident, purge=True, by=BY)
        (broken,) = await make_tables(bench, "broken", 1)
        await bench.write(broken, rows(2))
        key = broken.metadata_location.removeprefix("s3://lake/")
        await lake.storage.objects.delete("lake", key)
        return broken, keys_of(bench, broken)

    broken, kept = asyncio.run(prepare())
    sweeps.pass_days(lake, 1_000)
    report = sweeps.run(lake)
    assert report.problems == [f"{broken.metadata_location} does not exist"]
    assert sweeps.keys_in(lake) == kept
    assert {info.key for info in lake.storage.objects.list("lake").objects} == kept


def test_manifests_that_a_snapshot_of_version_1_lists_itself_are_read(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> set[str]:
        (mine,) = await make_tables(bench, "mine", 1)
        snapshot = mine.metadata.current_snapshot()
        assert snapshot is not None
        key = str(snapshot["manifest-list"]).removeprefix("s3://lake/")
        data = lake.storage.objects.read(lake.storage.objects.head("lake", key))
        listed = [each.manifest_path for each in manifests.decode_manifest_list(data)]
        live = await manifestfiles.live_files(bench.scans, bench.reader(mine))
        other = await bench.create("ns.other", properties={"format-version": "1"})
        assert other.metadata.format_version == 1
        update = {
            "action": "add-snapshot",
            "snapshot": {"snapshot-id": 1, "timestamp-ms": lakes.NOW_MS, "manifests": listed},
        }
        await lake.tables.commit(other.ident, [], [update], by=BY)
        await lake.tables.drop(mine.ident, purge=True, by=BY)
        uris = [*listed, *[each.file_path for each in live]]
        return {each.removeprefix("s3://lake/") for each in uris}

    shared = asyncio.run(prepare())
    assert len(shared) == 2
    report = sweeps.run(lake)
    assert report.problems == []
    assert sweeps.keys_in(lake, "ns/mine") == shared


def test_a_dropped_table_that_cannot_be_read_keeps_its_place_though_another_took_it(
    bench: datafiles.Bench,
) -> None:
    lake = bench.lake

    async def prepare() -> set[str]:
        (loaded,) = await make_tables(bench, "dropped", 1)
        await lake.tables.drop(loaded.ident, by=BY)
        kept = keys_of(bench, loaded)
        location = loaded.metadata.location
        taker = await bench.create("ns.taker", location=location, permit=lakes.permit_all)
        await lake.tables.drop(taker.ident, purge=True, by=BY)
        snapshot = loaded.metadata.current_snapshot()
        assert snapshot is not None
        key = str(snapshot["manifest-list"]).removeprefix("s3://lake/")
        received = await lake.storage.blobs.store(b"garbage", digests=frozenset({"md5"}))
        await lake.storage.objects.put("lake", key, received, attributes=model.ObjectAttributes())
        return kept

    kept = asyncio.run(prepare())
    sweeps.pass_days(lake, 20)
    report = sweeps.run(lake)
    assert report.problems_count == 1
    assert kept <= sweeps.keys_in(lake)
    assert report.listed == []
