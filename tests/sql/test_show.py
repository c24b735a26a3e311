"""SHOW and DESCRIBE: columns by name and place, filters, paging, what there is none of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sql import errors, show, show_listings
from sql.dialect import functions
from tests.kit import local_sql


async def build(local: local_sql.LocalSql) -> None:
    await local.run("create table alpha (id int not null comment 'the key', v varchar(5))")
    await local.run("create table beta (at timestamp_ntz, x binary, f float) comment = 'second'")
    await local.run('create table "Gamma" (n number(10,2)) cluster by (n)')
    await local.run("insert into alpha values (1, 'a'), (2, null)")
    await local.run("create schema other")
    await local.run("create table delta (id int)")
    await local.run("use schema ns")


def named(rows: list[tuple[Any, ...]], place: int = 1) -> list[Any]:
    return [row[place] for row in rows]


def test_every_listing_has_snowflakes_columns_in_their_order(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for words, listing in show_listings.LISTINGS.items():
            outcome = await local.run(f"show {words.lower()}")
            assert [column.name for column in outcome.columns] == [
                each.name for each in listing.columns
            ], words
            assert all(len(row) == len(listing.columns) for row in outcome.rows or ()), words
        tables = show_listings.LISTINGS["TABLES"].columns
        objects = show_listings.LISTINGS["OBJECTS"].columns
        assert [each.name for each in tables[:11]] == [each.name for each in objects[:11]]
        assert len(tables) == 25

    local_sql.run_local(tmp_path, work)


def test_show_tables_lists_the_schema_with_counts(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        outcome = await local.run("show tables")
        columns = [column.name for column in outcome.columns]
        rows = [dict(zip(columns, row, strict=True)) for row in outcome.rows or ()]
        assert [row["name"] for row in rows] == ["ALPHA", "BETA", "Gamma"]
        assert (rows[0]["rows"], rows[1]["rows"]) == (2, 0)
        assert rows[0]["bytes"] > 0
        assert rows[1]["comment"] == "second"
        assert rows[2]["cluster_by"] == "LINEAR(N)"
        assert {row["database_name"] for row in rows} == {"LAKE"}
        assert {row["is_iceberg"] for row in rows} == {"N"}

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("show tables", ["ALPHA", "BETA", "Gamma"]),
        ("show tables like 'a%'", ["ALPHA"]),
        ("show tables like '%A%'", ["ALPHA", "BETA", "Gamma"]),
        ("show tables starts with 'B'", ["BETA"]),
        ("show tables starts with 'b'", []),
        ("show tables limit 2", ["ALPHA", "BETA"]),
        ("show tables limit 2 from 'ALPHA'", ["BETA", "Gamma"]),
        ("show tables in schema other", ["DELTA"]),
        ("show tables in lake.other", ["DELTA"]),
        ("show tables in database lake", ["ALPHA", "BETA", "DELTA", "Gamma"]),
        ("show tables in account", ["ALPHA", "BETA", "DELTA", "Gamma"]),
        ("show objects in lake.ns", ["ALPHA", "BETA", "Gamma"]),
        ("show terse objects in database lake like 'd%'", ["DELTA"]),
        ("show schemas", ["INFORMATION_SCHEMA", "NS", "OTHER"]),
        ("show schemas like 'n%' in database lake", ["NS"]),
        ("show terse schemas in database lake limit 10000", ["INFORMATION_SCHEMA", "NS", "OTHER"]),
        ("show databases", ["LAKE"]),
        ("show databases like 'x%'", []),
        ("show views", []),
        ("show primary keys", []),
        ("show user functions in schema ns", []),
        ("show user functions", []),
        ("show functions like 'greatest%'", ["GREATEST", "GREATEST_IGNORE_NULLS"]),
        ("show functions like '%_SHA%' in account", []),
        ("show builtin functions starts with 'BITA'", ["BITAND", "BITANDAGG", "BITAND_AGG"]),
        ("show functions starts with 'bita'", []),
        ("show functions limit 2 from 'COSH'", ["COT", "COUNT"]),
        ("show functions in schema ns", []),
        ("show functions in database lake", []),
    ],
)
def test_listings_are_filtered_scoped_and_paged(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        assert named(await local.rows(text)) == expected

    local_sql.run_local(tmp_path, work)


def test_show_functions_lists_exactly_what_a_text_may_call(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        outcome = await local.run("show functions")
        columns = [column.name for column in outcome.columns]
        rows = {row[1]: dict(zip(columns, row, strict=True)) for row in outcome.rows or ()}
        assert (await local.rows("select upper('a')")) == [("A",)]
        with pytest.raises(errors.SqlError) as caught:
            await local.run("select input_file_name()")
        assert caught.value.code == "002140"
        assert "UPPER" in rows
        assert "INPUT_FILE_NAME" not in rows
        assert set(rows) == set(functions.FUNCTIONS)
        assert {row["is_builtin"] for row in rows.values()} == {"Y"}
        substr = rows["SUBSTR"]
        assert (substr["min_num_arguments"], substr["max_num_arguments"]) == (2, 3)
        assert substr["arguments"] == "SUBSTR(VARCHAR, NUMBER [, NUMBER]) RETURN VARCHAR"
        assert rows["PI"]["arguments"] == "PI() RETURN FLOAT"
        assert rows["RANDOM"]["arguments"] == "RANDOM([CONSTANT]) RETURN NUMBER"
        assert rows["COALESCE"]["arguments"] == "COALESCE(ANY [, ANY ...]) RETURN ANY"
        assert (substr["is_aggregate"], rows["SUM"]["is_aggregate"]) == ("N", "Y")

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("words", ["alerts", "tags", "functions history", "shares"])
def test_show_of_what_is_not_built_is_refused_by_its_name(tmp_path: Path, words: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await local.run(f"show {words}")
        assert caught.value.code == "000002"
        assert caught.value.message.endswith(f"Unsupported feature 'SHOW {words.upper()}'.")

    local_sql.run_local(tmp_path, work)


def test_terse_listings_have_five_columns(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        for text in ("show terse tables", "show terse schemas", "show terse databases"):
            outcome = await local.run(text)
            assert [column.name for column in outcome.columns] == [
                "created_on",
                "name",
                "kind",
                "database_name",
                "schema_name",
            ]
            assert outcome.rows

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    ["show tables in schema nosuch", "show objects in lake.nosuch", "show schemas in database no"],
)
def test_show_in_what_is_not_there_is_002043(tmp_path: Path, text: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await local.run(text)
        assert (caught.value.code, caught.value.sqlstate) == ("002043", "02000")

    local_sql.run_local(tmp_path, work)


def test_show_columns_tells_types_as_json(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        rows = await local.rows("show columns in table alpha")
        assert [row[2] for row in rows] == ["ID", "V"]
        assert json.loads(rows[0][3]) == {
            "type": "FIXED",
            "precision": 38,
            "scale": 0,
            "nullable": False,
        }
        assert json.loads(rows[1][3]) == {
            "type": "TEXT",
            "length": 5,
            "byteLength": 20,
            "fixed": False,
            "nullable": True,
        }
        assert rows[0][5] == ""
        assert rows[0][8] == "the key"
        assert len(await local.rows("show columns in schema ns")) == 6
        assert len(await local.rows("show columns like 'i%' in table alpha")) == 1
        with pytest.raises(errors.SqlError) as caught:
            await local.rows("show columns in table nosuch")
        assert caught.value.sqlstate == "02000"

    local_sql.run_local(tmp_path, work)


def test_describe_table_tells_declared_types(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        outcome = await local.run("describe table beta")
        assert [column.name for column in outcome.columns] == list(show.DESCRIBE_COLUMNS)
        assert [(row[0], row[1], row[3]) for row in outcome.rows or ()] == [
            ("AT", "TIMESTAMP_NTZ(6)", "Y"),
            ("X", "BINARY(8388608)", "Y"),
            ("F", "FLOAT", "Y"),
        ]
        (first, _) = await local.rows("desc table lake.ns.alpha type = columns")
        assert first[:4] == ("ID", "NUMBER(38,0)", "COLUMN", "N")
        assert first[9] == "the key"
        assert sorted(named(await local.rows("describe schema ns"))) == ["ALPHA", "BETA", "Gamma"]
        assert named(await local.rows("describe database lake")) == ["NS", "OTHER"]
        for text in ("describe table nosuch", "describe view alpha", "desc schema nosuch"):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(text)
            assert (caught.value.code, caught.value.sqlstate) == ("002003", "02000"), text

    local_sql.run_local(tmp_path, work)


def test_show_parameters_and_variables_tell_the_session(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        ((key, value, default, level, *_),) = await local.rows(
            "show parameters like 'query_tag' in session"
        )
        assert (key, value, default, level) == ("QUERY_TAG", "", "", "")
        await local.run("alter session set query_tag = 'mine'")
        ((_, value, _, level, *_),) = await local.rows("show parameters like 'QUERY_TAG'")
        assert (value, level) == ("mine", "SESSION")
        await local.run("set x = 5")
        ((_, _, _, name, text, type_name, _),) = await local.rows("show variables")
        assert (name, text, type_name) == ("X", "5", "fixed")
        ((warehouse, *_),) = await local.rows("show warehouses")
        assert warehouse == "LOCAL"

    local_sql.run_local(tmp_path, work)


def test_listings_hold_only_what_the_caller_may_see(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await build(local)
        local.session.principal = local_sql.user(
            "half",
            [
                {
                    "Effect": "Allow",
                    "Action": ["s3tables:GetTableBucket", "s3tables:ListNamespaces"],
                    "Resource": "*",
                },
                {
                    "Effect": "Allow",
                    "Action": ["s3tables:GetNamespace", "s3tables:ListTables"],
                    "Resource": "*",
                    "Condition": {"StringEquals": {"s3tables:namespace": "other"}},
                },
            ],
        )
        assert named(await local.rows("show schemas")) == ["INFORMATION_SCHEMA", "OTHER"]
        assert named(await local.rows("show tables in database lake")) == ["DELTA"]

    local_sql.run_local(tmp_path, work)


def test_show_jobs_lists_the_runs_that_the_caller_may_see_the_newest_first(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        alice, carol = (local_sql.user(name, []) for name in ("alice", "carol"))
        root, target = local.session.principal, "lake.ns.orders"
        nightly = await local.runs.begin(
            task="pipeline", name="nightly", target=target, by=root.arn, by_server=True
        )
        await local.runs.end(nightly, "failed", error="s3://raw/a.csv: line 3 is not JSON")
        local.lake.clock.now_ms += 1_000
        await local.runs.begin(
            task="pipeline", name="hourly", target=target, by=alice.arn, by_server=False
        )
        columns = [column.name for column in (await local.run("show jobs")).columns]
        place = columns.index("name")
        rows = (await local.run("show jobs")).rows or []
        assert named(rows, place) == ["hourly", "nightly"]
        assert [dict(zip(columns, row, strict=True))["state"] for row in rows] == [
            "running",
            "failed",
        ]
        assert rows[1][columns.index("error")] == "s3://raw/a.csv: line 3 is not JSON"
        assert rows[0][columns.index("ended_on")] is None
        assert named((await local.run("show jobs like 'NIGHT%'")).rows or [], place) == ["nightly"]
        for principal, expected in ((alice, ["hourly"]), (carol, [])):
            local.session.principal = principal
            assert named((await local.run("show jobs")).rows or [], place) == expected

    local_sql.run_local(tmp_path, work)
