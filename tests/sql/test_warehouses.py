"""CREATE, ALTER, DROP, USE and SHOW WAREHOUSES."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from sql import engine, errors, limits, warehouserows
from storage import errors as storage_errors
from tests.kit import local_sql, waits


async def listed(local: local_sql.LocalSql, name: str) -> dict[str, Any]:
    outcome = await local.run(f"show warehouses like '{name}'")
    columns = [column.name for column in outcome.columns]
    (row,) = await local_sql.rows_of(outcome)
    return dict(zip(columns, row, strict=True))


def test_a_warehouse_is_a_name_with_options(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        answer = await local.one(
            "create or replace warehouse demo_wh with warehouse_size = 'x-large' auto_suspend = 60"
            " auto_resume = true initially_suspended = true comment = 'for demos'"
        )
        assert answer == "Warehouse DEMO_WH successfully created."
        assert await local.one("select current_warehouse()") == "DEMO_WH"
        shown = await listed(local, "demo%")
        assert (shown["name"], shown["size"], shown["auto_suspend"]) == ("DEMO_WH", "X-Large", 60)
        assert (shown["auto_resume"], shown["comment"]) == ("true", "for demos")
        assert (shown["is_current"], shown["owner"]) == ("Y", "root")
        assert shown["created_on"] is not None
        await local.run("alter warehouse demo_wh set warehouse_size = medium, comment = ''")
        await local.run("alter warehouse demo_wh unset auto_suspend")
        for word in ("suspend", "resume if suspended"):
            answer = await local.one(f"alter warehouse demo_wh {word}")
            assert answer == "Statement executed successfully."
        shown = await listed(local, "DEMO_WH")
        assert (shown["size"], shown["auto_suspend"], shown["comment"]) == ("Medium", 600, "")
        await local.run("use warehouse other")  # a name needs no CREATE
        assert (await listed(local, "demo_wh"))["is_current"] == "N"
        assert (await listed(local, "other"))["is_current"] == "Y"
        assert await local.one("drop warehouse demo_wh") == "DEMO_WH successfully dropped."
        assert await local.rows("show warehouses like 'demo_wh'") == []

    local_sql.run_local(tmp_path, work)


def test_show_warehouses_counts_the_queries_that_run_and_that_wait(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t as select 1 a")
        await local.run("copy into @~/files/ from (select 1)")
        await local.run("use warehouse one")
        texts = (
            "insert into t select a + 1 from t",  # waits for the footers of its files
            "insert into t select a + 1 from (select 1 a)",
            "insert into t select $1 from @~/files/",
        )
        for text in texts:
            # The engine of these tests runs two queries at once.
            held = [
                await local.engine.run(engine.EngineQuery(text="select 1", warehouse=name))
                for name in ("ONE", "TWO")
            ]
            waiting = asyncio.create_task(local.run(text))
            await waits.until(lambda: bool(local.statements.waiting()))
            assert local.statements.waiting() == {local.last_id}
            shown = await listed(local, "one")
            assert (shown["running"], shown["queued"]) == (1, 1), text
            for each in held:
                await each.close()
            await waiting
            shown = await listed(local, "one")
            assert (shown["running"], shown["queued"]) == (0, 0)
        assert local.statements.waiting() == frozenset()

    local_sql.run_local(tmp_path, work)


def test_a_user_has_one_share_of_the_engine_for_queries_and_inserts(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t as select 1 a")
        owners: list[str] = []
        run = local.engine.run

        async def watched(query: engine.EngineQuery) -> engine.Results:
            owners.append(query.owner)
            return await run(query)

        local.engine.run = watched  # type: ignore[method-assign]  # it is this test's alone
        await local.rows("select a + 1 from t")
        await local.run("insert into t select a + 1 from t")
        await local.run("create table u as select a + 1 b from t")
        assert set(owners) == {"root"}

    local_sql.run_local(tmp_path, work)


def test_warehouses_that_exist_and_that_do_not(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create warehouse w comment = 'first'")
        answer = await local.one("create warehouse if not exists w comment = 'second'")
        assert answer == "W already exists, statement succeeded."
        assert (await listed(local, "w"))["comment"] == "first"
        for text, code in (
            ("create warehouse w", "002002"),
            ("alter warehouse v set auto_suspend = 1", "002003"),
            ("drop warehouse v", "002003"),
        ):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(text)
            assert caught.value.code == code
        await local.run("alter warehouse if exists v set auto_suspend = 1")
        await local.run("drop warehouse if exists v")
        await local.run("create or replace warehouse w")
        assert (await listed(local, "w"))["comment"] == ""

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "option",
    [
        "warehouse_size = 'huge'",
        "auto_suspend = -1",
        "auto_resume = 3",
        "warehouse_type = 'SNOWPARK-OPTIMIZED'",
        "max_cluster_count = 11",
        "statement_timeout_in_seconds = 604801",
    ],
)
def test_values_that_an_option_cannot_have_are_refused(tmp_path: Path, option: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await local.run(f"create warehouse w {option}")
        assert caught.value.code == "001008"
        assert await local.rows("show warehouses like 'w'") == []

    local_sql.run_local(tmp_path, work)


def test_the_least_time_limit_of_a_statement_counts(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        rows = warehouserows.WarehouseRows(index=local.lake.store.index)

        def seconds(**own: int) -> int:
            return rows.statement_seconds(local.session, own, seconds_max=100)

        assert seconds() == 100
        await local.run("create warehouse short statement_timeout_in_seconds = 30")
        assert seconds() == 30
        assert seconds(STATEMENT_TIMEOUT_IN_SECONDS=20) == 20
        await local.run("alter session set statement_timeout_in_seconds = 40")
        assert seconds() == 30
        await local.run("alter warehouse short unset statement_timeout_in_seconds")
        assert seconds() == 40
        await local.run("use warehouse other")
        await local.run("alter warehouse short set statement_timeout_in_seconds = 5")
        assert seconds() == 40

    local_sql.run_local(tmp_path, work)


def test_only_administrators_change_warehouses_and_everyone_uses_them(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create warehouse w")
        local.session.principal = local_sql.user("ann", [])
        for text in ("create warehouse x", "alter warehouse w suspend", "drop warehouse w"):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(text)
            assert caught.value.code == "003001"
        await local.run("use warehouse w")
        assert (await listed(local, "w"))["is_current"] == "Y"

    local_sql.run_local(tmp_path, work)


def test_the_use_of_a_warehouse_is_granted_to_all_and_cannot_be_revoked(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create role etl")
        answer = await local.one("grant usage on warehouse w to role etl")
        assert answer == "Statement executed successfully."
        for text, code in (
            ("grant usage on warehouse w to role nobody", "002003"),
            ("revoke usage on warehouse w from role etl", "000002"),
            ("grant modify on warehouse w to role etl", "000002"),
        ):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(text)
            assert caught.value.code == code
        assert await local.rows("show grants to role etl") == []

    local_sql.run_local(tmp_path, work)


def test_statements_of_warehouses_with_a_repeated_query_id_run_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text, other in (
            ("create warehouse w", "drop warehouse w"),
            ("drop warehouse if exists w", "create warehouse w comment = 'new'"),
        ):
            query_id = str(uuid.uuid4())
            first = await local.one(text, query_id=query_id)
            await local.run(other)
            before = await local.rows("show warehouses")
            again = await local.one(text, query_id=query_id)
            assert await local.rows("show warehouses") == before
            assert "W" in str(first)
            assert "W" in str(again)

    local_sql.run_local(tmp_path, work)


def test_their_number_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAREHOUSES_MAX", 2)

    async def work(local: local_sql.LocalSql) -> None:
        for name in ("a", "b"):
            await local.run(f"create warehouse {name}")
        with pytest.raises(errors.SqlError) as caught:
            await local.run("create warehouse c")
        assert "at most 2 warehouses" in caught.value.message
        await local.run("create or replace warehouse b")

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("value", [b"", b"\x02", b"\x01", b"\x01\xc0"])
def test_damaged_rows_are_named(value: bytes) -> None:
    with pytest.raises(storage_errors.CorruptRecord):
        warehouserows.decode(value)
