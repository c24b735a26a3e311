"""The mark: what it keeps of many tables and commits, and what each file that it reads names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from catalog.commits import LoadedTable
from catalog.sweep import marking
from tests.kit import datafiles, lakes, manifestfiles, sweeps

BY = lakes.BY


@pytest.fixture
def bench(lake: lakes.Lake) -> datafiles.Bench:
    return datafiles.bench(lake)


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
        live = await manifestfiles.live_files(bench.scans, bench.reader(loaded))
        sweeps.pass_days(lake, -20)
        await overwrite(bench, loaded, 2)
        return {each.file_path.removeprefix("s3://lake/") for each in live}

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

    async def live_keys(loaded: LoadedTable) -> set[str]:
        live = await manifestfiles.live_files(bench.scans, bench.reader(loaded))
        return {each.file_path.removeprefix("s3://lake/") for each in live}

    async def prepare() -> LoadedTable:
        return await bench.add(await bench.create(), rows(1))

    loaded = asyncio.run(prepare())
    replaced = asyncio.run(live_keys(loaded))
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
