"""INFORMATION_SCHEMA: views made from the catalog when they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql import errors
from tests.kit import local_sql


async def build(local: local_sql.LocalSql) -> None:
    await local.run("create table t (id int not null, v varchar(5), n number(10,2), x binary(9))")
    await local.run("insert into t values (1, 'a', 1.5, null), (2, 'b', 2.5, null)")
    await local.run("create schema other comment = 'spare'")
    await local.run("create table u (a timestamp_ltz) comment = 'times'")
    await local.run("use schema ns")


def test_views_answer_as_dbt_and_sqlalchemy_ask(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        assert await local.rows(
            "select catalog_name, schema_name from information_schema.schemata order by 2"
        ) == [("LAKE", "INFORMATION_SCHEMA"), ("LAKE", "NS"), ("LAKE", "OTHER")]
        assert await local.rows(
            "select table_catalog, table_schema, table_name, table_type, row_count, comment, "
            "is_dynamic from lake.information_schema.tables order by table_name"
        ) == [
            ("LAKE", "NS", "T", "BASE TABLE", 2, None, "NO"),
            ("LAKE", "OTHER", "U", "BASE TABLE", 0, "times", "NO"),
        ]
        assert await local.rows(
            "select column_name, ordinal_position, data_type, is_nullable, "
            "character_maximum_length, numeric_precision, numeric_scale "
            "from information_schema.columns where table_name = 'T' order by ordinal_position"
        ) == [
            ("ID", 1, "NUMBER", "NO", None, 38, 0),
            ("V", 2, "TEXT", "YES", 5, None, None),
            ("N", 3, "NUMBER", "YES", None, 10, 2),
            ("X", 4, "BINARY", "YES", 9, None, None),
        ]
        assert await local.rows("select database_name from information_schema.databases") == [
            ("LAKE",)
        ]
        assert await local.rows("select count(*) from information_schema.views") == [(0,)]

    local_sql.run_local(tmp_path, work)


def test_databases_and_schemas_have_their_comments_and_times(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        created = await local.one(
            "select created from information_schema.schemata where schema_name = 'OTHER'"
        )
        (shown,) = await local.rows("show schemas like 'OTHER'")
        assert created == shown[0]
        assert await local.rows(
            "select schema_name, comment, is_managed_access, retention_time, sql_path "
            "from information_schema.schemata order by 1"
        ) == [
            ("INFORMATION_SCHEMA", None, "NO", 1, None),
            ("NS", None, "NO", 1, None),
            ("OTHER", "spare", "NO", 1, None),
        ]
        text = "select comment, created from information_schema.databases"
        (shown,) = await local.rows("show databases")
        assert await local.rows(text) == [(None, shown[0])]
        await local.run("comment on database lake is 'of all'")
        assert await local.rows(text) == [("of all", shown[0])]
        await local.run("create view v as select 1 as a")
        assert await local.rows(
            "select table_name, is_insertable_into, last_ddl, auto_clustering_on "
            "from information_schema.tables where table_schema = 'NS' order by 1"
        ) == [("T", "YES", None, "NO"), ("V", "NO", None, "NO")]

    local_sql.run_local(tmp_path, work)


def test_views_join_like_tables_and_know_the_databases_own_name(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        text = (
            "select t.table_name, count(*) from information_schema.tables t "
            "join information_schema.columns c using (table_schema, table_name) "
            "where upper(t.table_schema) = 'NS' group by 1"
        )
        assert await local.rows(text) == [("T", 4)]
        await local.run("use schema information_schema")
        assert await local.rows("select count(*) from tables") == [(2,)]

    local_sql.run_local(tmp_path, work)


def test_counts_and_times_follow_the_newest_snapshot(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        local.lake.clock.now_ms += 60_000
        await local.run("insert into t (id) values (3)")
        ((rows, size, altered, created),) = await local.rows(
            "select row_count, bytes, last_altered, created from information_schema.tables "
            "where table_name = 'T'"
        )
        assert rows == 3
        assert size > 0
        assert (altered - created).total_seconds() == 60
        text = "select hour(created) from information_schema.tables where table_name = 'T'"
        hour = await local.one(text)
        await local.run("alter session set timezone = 'Asia/Tokyo'")
        assert await local.one(text) == (hour + 9) % 24

    local_sql.run_local(tmp_path, work)


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
    async def work(local: local_sql.LocalSql) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(text)
        assert caught.value.code == code

    local_sql.run_local(tmp_path, work)


def test_rows_are_only_of_what_the_caller_may_see(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        local.session.principal = local_sql.user(
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
        assert await local.rows("select table_name from information_schema.tables") == [("U",)]
        assert await local.rows("select column_name from information_schema.columns") == [("A",)]

    local_sql.run_local(tmp_path, work)


def test_sequences_stages_formats_and_keys_are_views_too(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table p (id int primary key, v int unique)")
        await local.run("create table c (id int, p int constraint to_p references p (id))")
        await local.run("create sequence counting start 5 increment 2 comment = 'ids'")
        await local.run("create stage files comment = 'inbox'")
        await local.run("create temporary stage passing")
        await local.run("create file format lines type = csv field_delimiter = '|'")
        assert await local.rows(
            "select table_name, constraint_type, enforced "
            "from information_schema.table_constraints "
            "order by 1, 2"
        ) == [("C", "FOREIGN KEY", "NO"), ("P", "PRIMARY KEY", "NO"), ("P", "UNIQUE", "NO")]
        assert await local.rows(
            "select r.constraint_name, r.unique_constraint_schema, t.table_name, t.constraint_type,"
            " update_rule, delete_rule from information_schema.referential_constraints r"
            " join information_schema.table_constraints t"
            " on t.constraint_name = r.unique_constraint_name"
        ) == [("TO_P", "NS", "P", "PRIMARY KEY", "NO ACTION", "NO ACTION")]
        assert await local.rows(
            "select sequence_schema || '.' || sequence_name, next_value + 1, increment, comment "
            "from information_schema.sequences"
        ) == [("NS.COUNTING", 6, "2", "ids")]
        assert await local.rows(
            "select stage_name, stage_type, comment from information_schema.stages order by 1"
        ) == [("FILES", "Internal Named", "inbox"), ("PASSING", "Internal Temporary", None)]
        assert await local.rows(
            "select file_format_name, file_format_type, format_options like '%|%' "
            "from information_schema.file_formats"
        ) == [("LINES", "CSV", True)]
        assert await local.rows(
            "select catalog_name from information_schema.information_schema_catalog_name"
        ) == [("LAKE",)]

    local_sql.run_local(tmp_path, work)


def test_sequences_and_stages_that_the_caller_may_not_see_have_no_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create sequence counting start 5 comment = 'ids'")
        await local.run("create stage files")
        everything = {"Effect": "Allow", "Action": "s3tables:*", "Resource": "*"}
        hidden: dict[str, object] = {"Effect": "Deny", "Resource": "*"}
        numbers = "select sequence_name, next_value, comment from information_schema.sequences"
        stages = "select stage_name from information_schema.stages"
        local.session.principal = local_sql.user(
            "narrow", [everything, {**hidden, "Action": "s3tables:ListTables"}]
        )
        assert await local.rows(numbers) == []
        local.session.principal = local_sql.user(
            "short", [everything, {**hidden, "Action": "s3tables:GetTable"}]
        )
        assert await local.rows(numbers) == [("COUNTING", None, None)]
        local.session.principal = local_sql.user(
            "blind", [everything, {**hidden, "Action": "s3tables:GetNamespace"}]
        )
        assert await local.rows(stages) == []

    local_sql.run_local(tmp_path, work)


def test_transient_tables_have_snowflakes_words_in_listings(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create transient table tr (a int)")
        await local.run("create or replace transient table tas as select 1 as a")
        await local.run("create table plain (a int)")
        await local.run("create table copied like tr")
        await local.run("create transient table label clone plain")
        await local.run("create temporary table tmp (a int)")
        words = {
            "TR": "TRANSIENT",
            "TAS": "TRANSIENT",
            "PLAIN": "TABLE",
            "COPIED": "TRANSIENT",
            "LABEL": "TRANSIENT",
            "TMP": "TEMPORARY",
        }
        for statement, position in (("show tables", 4), ("show terse tables", 2)):
            rows = await local.rows(statement)
            assert {row[1]: row[position] for row in rows} == words
        # dbt reads the kind of SHOW OBJECTS, where Snowflake has no such word.
        assert {row[4] for row in await local.rows("show objects")} == {"TABLE", "TEMPORARY"}
        rows = await local.rows(
            "select table_name, table_type, is_transient, is_iceberg from information_schema.tables"
        )
        assert {row[0]: row[1:] for row in rows} == {
            name: (
                "LOCAL TEMPORARY" if word == "TEMPORARY" else "BASE TABLE",
                "YES" if word == "TRANSIENT" else "NO",
                "NO",
            )
            for name, word in words.items()
        }
        assert await local.one("select get_ddl('table', 'tr')") == (
            "create or replace TRANSIENT TABLE TR (\n\tA NUMBER(38,0)\n);"
        )
        await local.run("create or replace table tr (a int)")
        await local.run("create or replace transient table plain clone label")
        rows = await local.rows("show tables like '%R'")
        assert [row[4] for row in rows if row[1] == "TR"] == ["TABLE"]
        rows = await local.rows("show tables like 'plain'")
        assert [row[4] for row in rows] == ["TRANSIENT"]

    local_sql.run_local(tmp_path, work)


def test_roles_are_listed_for_the_user_and_the_session(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create role analyst")
        await local.run("create role other")
        await local.run("create user ann password = 'long enough 1'")
        await local.run("grant role analyst to user ann")
        await local.run("grant usage on database lake to user ann")
        await local.run("grant usage on database lake to role analyst")
        local.log_in("ann")
        applicable = "select * from lake.information_schema.applicable_roles order by 2"
        enabled = "select role_name, role_owner from lake.information_schema.enabled_roles"
        assert await local.rows(applicable) == [
            ("ANN", "ANALYST", None, "NO"),
            ("ANN", "PUBLIC", None, "NO"),
        ]
        assert await local.rows(enabled) == [("PUBLIC", None)]
        await local.run("use role analyst")
        assert await local.rows(enabled) == [("ANALYST", None)]
        assert len(await local.rows(applicable)) == 2

    local_sql.run_local(tmp_path, work)


def test_functions_and_procedures_have_their_columns_and_no_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for view, first in (("functions", "FUNCTION"), ("procedures", "PROCEDURE")):
            outcome = await local.run(f"select * from information_schema.{view}")
            names = [column.name for column in outcome.columns]
            assert names[:5] == [
                f"{first}_CATALOG",
                f"{first}_SCHEMA",
                f"{first}_NAME",
                f"{first}_OWNER",
                "ARGUMENT_SIGNATURE",
            ]
            assert {f"{first}_LANGUAGE", f"{first}_DEFINITION", "CREATED", "COMMENT"} <= set(names)
            assert await local_sql.rows_of(outcome) == []

    local_sql.run_local(tmp_path, work)
