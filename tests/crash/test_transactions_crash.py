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
from tests.kit.faulty_disk import Data, FaultyDisk, Names, PowerCut, Recording, spread

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
CLONED = {"lake.dev.t": [(1,)], "lake.dev.u": [(2,)]}
"""What CREATE SCHEMA ... CLONE adds."""
ALONE = {
    "insert into t values (10), (11)": {**BEFORE, "lake.ns.t": [(1,), (10,), (11,)]},
    "insert all into t values (a) into pond.ns.v values (a) select 9 as a": {
        **BEFORE,
        "lake.ns.t": [(1,), (9,)],
        "pond.ns.v": [(3,), (9,)],
    },
    "update t set a = a + 1": {**BEFORE, "lake.ns.t": [(2,)]},
    "create schema dev clone ns": {**BEFORE, **CLONED},
}
"""Statements that commit their own changes, and the rows after each."""
FIRST_ID = 1_000_000


def opened_statements(lake: lakes.Lake, data: Path) -> local_sql.LocalSql:
    spill = data.with_name("spill")
    spill.mkdir(parents=True, exist_ok=True)
    return local_sql.build(lake, engine_inline.InlineEngine(spill_directory=spill))


def prepare(data: Path) -> None:
    with lakes.opened(data) as lake:
        lake.run(lake.namespaces.create("lake", ("ns",), by=lakes.BY))
        local = opened_statements(lake, data)

        async def work() -> None:
            await local.run("create database pond")
            await local.run("create schema pond.ns")
            await local.run("use schema lake.ns")
            for table, rows in BEFORE.items():
                await local.run(f"create table {table} (a int)")
                await local.run(f"insert into {table} values ({rows[0][0]})")

        asyncio.run(work())


def transact(data: Path, disk: Disk, *, texts: Sequence[str] = STATEMENTS) -> bool:
    """Run statements on a disk that may lose power; return whether the last was answered."""
    with (
        contextlib.suppress(PowerCut),
        lakes.opened(data, disk=disk, first_id=FIRST_ID) as lake,
    ):
        if isinstance(disk, FaultyDisk):
            disk.begin()
        local = opened_statements(lake, data)

        async def work() -> None:
            for text in texts:
                await local.run(text)

        try:
            asyncio.run(work())
        except (PowerCut, errors.SqlError, storage_errors.StorageError):
            assert isinstance(disk, FaultyDisk)
            assert disk.off
            return False
        if isinstance(disk, FaultyDisk):
            disk.end()
        return True
    return False


def state(data: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of all tables; what an unfinished transaction left is swept away."""
    with lakes.opened(data, first_id=2 * FIRST_ID) as lake:
        assert lake.storage.recovery.missing == ()
        invariants.check_recovered(lake.storage, data)
        for _ in range(2):
            sweeps.pass_days(lake, 30)
            for bucket in ("lake", "pond"):
                sweeps.run(lake, bucket=bucket)
        local = opened_statements(lake, data)

        tables = {**BEFORE, **(CLONED if lake.namespaces.exists("lake", ("dev",)) else {})}

        async def read() -> dict[str, list[tuple[Any, ...]]]:
            return {
                table: await local.rows(f"select a from {table} order by a") for table in tables
            }

        rows = asyncio.run(read())
        assert tables.keys() > BEFORE.keys() or not sweeps.keys_in(lake, "dev/", "lake")
        for table in tables:
            bucket, schema, name = table.split(".")
            ident = idents.TableIdent(table_bucket=bucket, namespace=(schema,), name=name)
            metadata = lake.load(ident).metadata
            summaries = [metadata.snapshot(each) or {} for each in metadata.snapshot_ids]
            added = sum(int(each["summary"].get("added-data-files", 0)) for each in summaries)
            assert len(sweeps.keys_in(lake, f"{schema}/{name}/data/", bucket)) == added
    return rows


Rows = dict[str, list[tuple[Any, ...]]]
CASES: dict[str, tuple[Sequence[str], Rows, Sequence[tuple[Data, Names]]]] = {
    "a transaction": (STATEMENTS, AFTER, [("lost", "lost")]),
    **{
        text: ((text,), after, [("lost", "lost"), ("kept", "kept")])
        for text, after in ALONE.items()
    },
}
"""Statements, the rows after them, and in which modes a cut leaves the folder."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("transactions") / "data"
    prepare(data)
    return data


@pytest.mark.generated
@pytest.mark.parametrize("name", CASES)
def test_after_a_power_cut_at_any_event_a_transaction_is_wholly_there_or_absent(
    prepared: Path, tmp_path: Path, name: str
) -> None:
    texts, after, modes = CASES[name]
    data = tmp_path / "data"
    shutil.copytree(prepared, data)
    disk = FaultyDisk(tmp_path / "aside")
    recording = Recording(disk, data, tmp_path / "left", modes=modes, restart=state)
    assert transact(data, disk, texts=texts)
    assert all(rows == after for rows in recording.last()), "what was acknowledged is kept"
    states = recording.states()
    for each in states:
        assert each.observed in (BEFORE, after), each.when
    assert BEFORE in [each.observed for each in states]
    assert after in [each.observed for each in states[: -len(modes)]], (
        "a cut right after the transaction keeps it"
    )
    for stop_after in spread(recording.events - 1, count=4):
        check_cut(prepared, tmp_path / str(stop_after), name, stop_after=stop_after)


def check_cut(prepared: Path, place: Path, name: str, *, stop_after: int) -> bool:
    """Cut the power at one event; return whether the statements were acknowledged before it.

    `transact` asserts that nothing fails but for the cut.
    """
    texts, after, modes = CASES[name]
    shutil.copytree(prepared, place / "data")
    disk = FaultyDisk(place / "aside", stop_after=stop_after)
    acknowledged = transact(place / "data", disk, texts=texts)
    for number, remains in enumerate(disk.remains(place / "data", modes)):
        left = place / str(number) / "data"
        remains.write(left)
        assert state(left) in ((after,) if acknowledged else (BEFORE, after)), remains.mode
    shutil.rmtree(place)
    return acknowledged


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_after_a_power_cut_at_any_event_no_statement_is_acknowledged(
    prepared: Path, tmp_path: Path, name: str
) -> None:
    stop_after = 1
    while not check_cut(prepared, tmp_path / str(stop_after), name, stop_after=stop_after):
        stop_after += 1
    assert stop_after > 3, "the transaction is an event before and one after it"
