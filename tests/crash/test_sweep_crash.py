"""Power cuts during the sweep of tables: what is retained is whole, and the next sweep finishes."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from storage.disk import Disk
from tests.kit import datafiles, invariants, lakes, manifestfiles, sweeps
from tests.kit.faulty_disk import Data, FaultyDisk, Names, PowerCut, Recording, spread


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": "x" * 100_000} for number in numbers]


def prepare(data: Path) -> int:
    """Make a lake with a table that was replaced and expired, and one that was purged; return when
    all that they left may be freed."""
    clock = lakes.Clock()
    with lakes.opened(data, clock=clock) as lake:
        bench = datafiles.bench(lake)

        async def work() -> None:
            kept = await bench.add(await bench.create("ns.kept"), rows(1))
            live = await manifestfiles.live_files(bench.scans, bench.reader(kept))
            kept = await bench.appends.commit_files(
                kept.ident,
                [await bench.write(kept, rows(2))],
                operation="overwrite",
                removed=live,
                based_on=kept.metadata.current_snapshot_id,
                principal=lakes.ROOT,
            )
            old = [*kept.metadata.snapshot_ids][:1]
            update = {"action": "remove-snapshots", "snapshot-ids": old}
            await lake.tables.commit(kept.ident, [], [update], by=lakes.BY)
            purged = await bench.add(await bench.create("ns.purged"), rows(3))
            await lake.tables.drop(purged.ident, purge=True, by=lakes.BY)

        asyncio.run(work())
        sweeps.pass_days(lake, 8)
        sweeps.run(lake)
        sweeps.pass_days(lake, 11)
        # One more table to purge, so that the sweep under test frees both sorts.
        asyncio.run(add_purged(bench))
    return clock.now_ms


async def add_purged(bench: datafiles.Bench) -> None:
    table = await bench.add(await bench.create("ns.again"), rows(4))
    await bench.lake.tables.drop(table.ident, purge=True, by=lakes.BY)


def sweep(data: Path, now_ms: int, disk: Disk, first_id: int) -> None:
    """Sweep tables, then what that released."""
    if isinstance(disk, FaultyDisk):
        disk.begin()
    with lakes.opened(data, clock=lakes.Clock(now_ms), disk=disk, first_id=first_id) as lake:
        sweeps.run(lake)
        lake.clock.now_ms += 120_000
        lake.run(lake.storage.sweep.once())
        if isinstance(disk, FaultyDisk):
            disk.end()


def look(data: Path, now_ms: int) -> set[str]:
    """Check what is retained, and return every key."""
    with lakes.opened(data, clock=lakes.Clock(now_ms), first_id=50_000) as lake:
        assert lake.storage.recovery.missing == ()
        bench = datafiles.bench(lake)
        table = lake.load(lake.ident("ns.kept"))

        async def read() -> list[str]:
            return [
                each.file_path
                for each in await manifestfiles.live_files(bench.scans, bench.reader(table))
            ]

        for path in asyncio.run(read()):
            assert bench.read(table, path)[:4] == b"PAR1"
        keys = sweeps.keys_in(lake)
        invariants.check_recovered(lake.storage, data)
    return keys


@pytest.mark.generated
def test_after_a_power_cut_at_any_event_of_a_sweep_nothing_retained_is_lost_and_the_next_finishes(
    tmp_path: Path,
) -> None:
    now_ms = prepare(tmp_path / "first")
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "first", whole)
    before = look(tmp_path / "first", now_ms)
    sweep(whole, now_ms, Disk(), first_id=20_000)
    after = look(whole, now_ms)
    assert after < before
    assert not [key for key in after if not key.startswith("ns/kept/")]

    def restarted(left: Path) -> set[str]:
        keys = look(left, now_ms)
        sweep(left, now_ms, Disk(), first_id=30_000)
        assert look(left, now_ms) == after
        return keys

    data = tmp_path / "data"
    shutil.copytree(tmp_path / "first", data)
    disk = FaultyDisk(tmp_path / "aside")
    modes: list[tuple[Data, Names]] = [("lost", "lost")]
    recording = Recording(disk, data, tmp_path / "left", modes=modes, restart=restarted)
    sweep(data, now_ms, disk, first_id=20_000)
    states = {frozenset(state.observed) for state in recording.states()}
    assert states >= {frozenset(before), frozenset(after)}
    assert len(states) > 3, "several transactions: a cut between each two of them"
    for stop_after in spread(recording.events - 1, count=4):
        place = tmp_path / str(stop_after)
        shutil.copytree(tmp_path / "first", place / "data")
        disk = FaultyDisk(place / "aside", stop_after=stop_after)
        with pytest.raises((PowerCut, Exception)):
            sweep(place / "data", now_ms, disk, first_id=20_000)
        assert disk.off
        (remains,) = disk.remains(place / "data", modes)
        remains.write(place / "left")
        restarted(place / "left")
