"""Names of databases: `_` in SQL is a hyphen in the table bucket's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql import errors
from sql.dialect import names
from tests.kit import local_sql


@pytest.mark.parametrize(
    ("table_bucket", "stored", "shown"),
    [
        ("lake", "lake", "LAKE"),
        ("tb-101", "tb_101", "TB_101"),
        ("a-b--c", "a_b__c", "A_B__C"),
        ("1st-lake", "1st-lake", "1st-lake"),
        ("Mixed-lake", "Mixed-lake", "Mixed-lake"),
    ],
)
def test_a_table_bucket_is_a_database_with_an_identifier_for_a_name(
    table_bucket: str, stored: str, shown: str
) -> None:
    assert names.of_database(table_bucket) == stored
    assert names.shown_database(table_bucket) == shown
    assert names.find_database(names.Ident(text=shown, quoted=True), [table_bucket]) == table_bucket
    exact = names.Ident(text=table_bucket, quoted=True)
    assert names.find_database(exact, ["other", table_bucket]) == table_bucket


@pytest.mark.parametrize(
    ("written", "table_bucket"),
    [
        ("tb_101", "tb-101"),
        ("Tb_101", "tb-101"),
        ('"TB_101"', "tb-101"),
        ('"tb-101"', "tb-101"),
        ('"tb_101"', "tb_101"),
        ('"Tb_101"', "Tb_101"),
    ],
)
def test_a_new_database_has_the_table_bucket_of_its_name(written: str, table_bucket: str) -> None:
    assert names.table_bucket_of(names.parse(written)) == table_bucket


def test_a_database_with_an_underscore_is_reached_by_every_statement(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        assert await local.one("create database tb_101") == "Database TB_101 successfully created."
        assert local.lake.storage.buckets.get("tb-101").type == "table"
        assert await local.one("select current_database()") == "TB_101"
        await local.run("create schema tb_101.raw_pos")
        await local.run("create table tb_101.raw_pos.menu (id int primary key)")
        await local.run("insert into TB_101.raw_pos.menu values (1)")
        await local.run("create view tb_101.raw_pos.v as select id from menu")
        for name in ("tb_101", "TB_101", '"TB_101"', '"tb-101"'):
            assert await local.one(f"select id from {name}.raw_pos.menu") == 1
        assert await local.one("select tb_101.raw_pos.menu.id from tb_101.raw_pos.menu") == 1
        assert await local.one("select id from tb_101.raw_pos.v") == 1
        (database,) = await local.rows("show databases like 'tb%'")
        assert database[1] == "TB_101"
        (table,) = await local.rows("show tables in database tb_101")
        assert "TB_101" in table
        (key,) = await local.rows("show primary keys in table menu")
        assert key[1:4] == ("TB_101", "RAW_POS", "MENU")
        await local.run(
            "create table orders (menu_id int references tb_101.raw_pos.menu (id), n int)"
        )
        (imported,) = await local.rows("show imported keys in table orders")
        assert imported[1:4] == ("TB_101", "RAW_POS", "MENU")
        (exported,) = await local.rows("show exported keys in table menu")
        assert exported[1:4] == ("TB_101", "RAW_POS", "MENU")
        catalogs = await local.rows(
            "select distinct table_catalog from tb_101.information_schema.tables"
        )
        assert catalogs == [("TB_101",)]
        ddl = await local.one("select get_ddl('database', 'tb_101', true)")
        assert str(ddl).startswith("create or replace database TB_101;")
        assert "TB_101.RAW_POS.MENU" in str(ddl)
        with pytest.raises(errors.SqlError) as caught:
            await local.run("create database TB_101")
        assert "'TB_101' already exists" in caught.value.message
        await local.run("use database lake")
        await local.run("drop database tb_101 cascade")
        with pytest.raises(errors.SqlError) as caught:
            await local.run("use database tb_101")
        assert "TB_101" in caught.value.message

    local_sql.run_local(tmp_path, work)
