"""INFORMATION_SCHEMA: views made from the catalog when they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql import errors
from tests.kit import sql_house


async def build(house: sql_house.House) -> None:
    await house.run("create table t (id int not null, v varchar(5), n number(10,2), x binary(9))")
    await house.run("insert into t values (1, 'a', 1.5, null), (2, 'b', 2.5, null)")
    await house.run("create schema other comment = 'spare'")
    await house.run("create table u (a timestamp_ltz) comment = 'times'")
    await house.run("use schema ns")


def test_views_answer_as_dbt_and_sqlalchemy_ask(tmp_path: Path) -> None:
    async def work(house: sql_house.House) -> None:
        await build(house)
        assert await house.rows(
            "select catalog_name, schema_name from information_schema.schemata order by 2"
        ) == [("LAKE", "INFORMATION_SCHEMA"), ("LAKE", "NS"), ("LAKE", "OTHER")]
        assert await house.rows(
            "select table_catalog, table_schema, table_name, table_type, row_count, comment, "
            "is_dynamic from lake.information_schema.tables order by table_name"
        ) == [
            ("LAKE", "NS", "T", "BASE TABLE", 2, None, "NO"),
            ("LAKE", "OTHER", "U", "BASE TABLE", 0, "times", "NO"),
        ]
        assert await house.rows(
            "select column_name, ordinal_position, data_type, is_nullable, "
            "character_maximum_length, numeric_precision, numeric_scale "
            "from information_schema.columns where table_name = 'T' order by ordinal_position"
        ) == [
            ("ID", 1, "NUMBER", "NO", None, 38, 0),
            ("V", 2, "TEXT", "YES", 5, None, None),
            ("N", 3, "NUMBER", "YES", None, 10, 2),
            ("X", 4, "BINARY", "YES", 9, None, None),
        ]
        assert await house.rows("select database_name from information_schema.databases") == [
            ("LAKE",)
        ]
        assert await house.rows("select count(*) from information_schema.views") == [(0,)]

    sql_house.in_house(tmp_path, work)


def test_views_join_like_tables_and_know_the_databases_own_name(tmp_path: Path) -> None:
    async def work(house: sql_house.House) -> None:
        await build(house)
        text = (
            "select t.table_name, count(*) from information_schema.tables t "
            "join information_schema.columns c using (table_schema, table_name) "
            "where upper(t.table_schema) = 'NS' group by 1"
        )
        assert await house.rows(text) == [("T", 4)]
        await house.run("use schema information_schema")
        assert await house.rows("select count(*) from tables") == [(2,)]

    sql_house.in_house(tmp_path, work)


def test_counts_and_times_follow_the_newest_snapshot(tmp_path: Path) -> None:
    async def work(house: sql_house.House) -> None:
        await build(house)
        house.lake.clock.now_ms += 60_000
        await house.run("insert into t (id) values (3)")
        ((rows, size, altered, created),) = await house.rows(
            "select row_count, bytes, last_altered, created from information_schema.tables "
            "where table_name = 'T'"
        )
        assert rows == 3
        assert size > 0
        assert (altered - created).total_seconds() == 60

    sql_house.in_house(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("select * from information_schema.nosuch", "002003"),
        ("select * from nosuch.information_schema.tables", "002003"),
        ("select * from information_schema.tables at(offset => -1)", "000002"),
        ("create table information_schema.x (a int)", "000002"),
        ("create schema information_schema", "002002"),
        ("drop schema information_schema", "000002"),
    ],
)
def test_what_is_not_a_view_is_refused(tmp_path: Path, text: str, code: str) -> None:
    async def work(house: sql_house.House) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await house.rows(text)
        assert caught.value.code == code

    sql_house.in_house(tmp_path, work)


def test_rows_are_only_of_what_the_caller_may_see(tmp_path: Path) -> None:
    async def work(house: sql_house.House) -> None:
        await build(house)
        house.session.principal = sql_house.user(
            "half",
            [
                {"Effect": "Allow", "Action": "s3tables:*", "Resource": "*"},
                {
                    "Effect": "Deny",
                    "Action": "s3tables:ListTables",
                    "Resource": "*",
                    "Condition": {"StringEquals": {"s3tables:namespace": "ns"}},
                },
            ],
        )
        assert await house.rows("select table_name from information_schema.tables") == [("U",)]
        assert await house.rows("select column_name from information_schema.columns") == [("A",)]

    sql_house.in_house(tmp_path, work)
