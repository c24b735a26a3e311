"""Power cuts during a transaction of two databases: all of its changes are there, or none."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from catalog import idents
from sql import engine_inline, errors
from storage import errors as storage_errors
from storage.disk import Disk
from tests.kit import invariants, lakes, local_sql, sweeps
from tests.kit.faulty_disk import FaultyDisk, PowerCut

BEFORE = {"lake.ns.t": [(1,)], "lake.ns.u": [(2,)], "pond.ns.v": [(3,)]}
"""Tables of two databases, and their rows."""
AFTER = {"lake.ns.t": [(10,), (11,)], "lake.ns.u": [(3,), (21,)], "pond.ns.v": [(21,), (22,)]}
STATEMENTS = (
    "begin",
    "insert overwrite into t values (10)",
    "insert into t select a + 1 from t",
    "insert into u select sum(a) from t",
    "update u set a = a + 1 where a < 10",
    "insert overwrite into pond.ns.v select a from u where a > 10",
    "insert into pond.ns.v select a + 1 from pond.ns.v",
    "commit",
)
ALONE = {
    "insert into t values (10), (11)": {**BEFORE, "lake.ns.t": [(1,), (10,), (11,)]},
    "insert all into t values (a) into pond.ns.v values (a) select 9 as a": {
        **BEFORE,
        "lake.ns.t": [(1,), (9,)],
        "pond.ns.v": [(3,), (9,)],
    },
    "update t set a = a + 1": {**BEFORE, "lake.ns.t": [(2,)]},
}
"""Statements that commit their own changes, and the rows after each."""
FIRST_ID = 1_000_000


def opened_statements(lake: lakes.Lake, place: Path) -> local_sql.LocalSql:
    spill = place / "spill"
    spill.mkdir(parents=True, exist_ok=True)
    return local_sql.build(lake, engine_inline.InlineEngine(spill_directory=spill))


def prepare(place: Path) -> None:
    with lakes.opened(place / "data") as lake:
        lake.run(lake.namespaces.create("lake", ("ns",), by=lakes.BY))
        local = opened_statements(lake, place)

        async def work() -> None:
            await local.run("create database pond")
            await local.run("create schema pond.ns")
            await local.run("use schema lake.ns")
            for table, rows in BEFORE.items():
                await local.run(f"create table {table} (a int)")
                await local.run(f"insert into {table} values ({rows[0][0]})")

        asyncio.run(work())


def transact(
    place: Path, disk: Disk, *, stop_at: int | None = None, texts: Sequence[str] = STATEMENTS
) -> bool:
    """Run statements on a disk that may lose power; return whether the last was answered."""
    with (
        contextlib.suppress(PowerCut),
        lakes.opened(place / "data", disk=disk, first_id=FIRST_ID) as lake,
    ):
        if isinstance(disk, FaultyDisk) and stop_at is not None:
            disk.stop_at = disk.events + stop_at
        local = opened_statements(lake, place)

        async def work() -> None:
            for text in texts:
                await local.run(text)

        try:
            asyncio.run(work())
        except (PowerCut, errors.SqlError, storage_errors.StorageError):
            assert isinstance(disk, FaultyDisk)
            assert disk.off
            return False
        return True
    return False


def state(place: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of both tables; what an unfinished transaction left is swept away."""
    with lakes.opened(place / "data", first_id=2 * FIRST_ID) as lake:
        assert lake.storage.recovery.missing == ()
        invariants.check_recovered(lake.storage, place / "data")
        for _ in range(2):
            sweeps.pass_days(lake, 30)
            for bucket in ("lake", "pond"):
                sweeps.run(lake, bucket=bucket)
        local = opened_statements(lake, place)

        async def read() -> dict[str, list[tuple[Any, ...]]]:
            return {
                table: await local.rows(f"select a from {table} order by a") for table in BEFORE
            }

        rows = asyncio.run(read())
        for table in BEFORE:
            bucket, _, name = table.partition(".")
            ident = idents.TableIdent(table_bucket=bucket, namespace=("ns",), name=name[3:])
            metadata = lake.load(ident).metadata
            summaries = [metadata.snapshot(each) or {} for each in metadata.snapshot_ids]
            added = sum(int(each["summary"].get("added-data-files", 0)) for each in summaries)
            assert len(sweeps.keys_in(lake, f"ns/{name[3:]}/data/", bucket)) == added
    return rows


def test_after_a_power_cut_at_any_event_a_transaction_is_wholly_there_or_absent(
    tmp_path: Path,
) -> None:
    prepare(tmp_path)
    shutil.copytree(tmp_path / "data", tmp_path / "whole" / "data")
    assert transact(tmp_path / "whole", Disk())
    assert state(tmp_path / "whole") == AFTER
    seen = []
    stop_at, acknowledged = 1, False
    while not acknowledged:
        place = tmp_path / str(stop_at)
        shutil.copytree(tmp_path / "data", place / "data")
        disk = FaultyDisk(place / "aside")
        acknowledged = transact(place, disk, stop_at=stop_at)
        (remains,) = disk.remains(place / "data", [("lost", "lost")])
        remains.write(place / "left" / "data")
        rows = state(place / "left")
        assert rows in (BEFORE, AFTER), stop_at
        assert rows == AFTER or not acknowledged
        seen.append(rows)
        shutil.rmtree(place)
        stop_at += 1
    assert BEFORE in seen
    assert AFTER in seen[:-1], "a cut right after the transaction keeps it"


@pytest.mark.parametrize("text", ALONE)
def test_after_a_power_cut_at_any_event_a_statement_is_wholly_there_or_absent(
    tmp_path: Path, text: str
) -> None:
    prepare(tmp_path)
    after = ALONE[text]
    seen = []
    stop_at, acknowledged = 1, False
    while not acknowledged:
        place = tmp_path / str(stop_at)
        shutil.copytree(tmp_path / "data", place / "data")
        disk = FaultyDisk(place / "aside")
        acknowledged = transact(place, disk, stop_at=stop_at, texts=(text,))
        for number, fate in enumerate((("lost", "lost"), ("kept", "kept"))):
            (remains,) = disk.remains(place / "data", [fate])
            left = place / f"left-{number}"
            remains.write(left / "data")
            rows = state(left)
            assert rows in (BEFORE, after), stop_at
            assert rows == after or not acknowledged
            seen.append(rows)
        shutil.rmtree(place)
        stop_at += 1
    assert BEFORE in seen
    assert after in seen[:-2], "a cut right after the commit keeps it"
