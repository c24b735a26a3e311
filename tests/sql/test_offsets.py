"""Offsets of TIMESTAMP_TZ in tables: a column beside the instants, which SQL does not show."""

from __future__ import annotations

import asyncio
import datetime
import json
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sql import bindings, errors, inputs, offsets, sessions, tabletypes, writes
from tests.kit import datafiles, local_sql, tablefiles
from tests.sql.test_transactions import READS_WRITES, Other

SHOWN = "to_char(z, 'YYYY-MM-DD HH24:MI TZH:TZM')"
UTC = "+00:00"
WEST = "2024-01-01 00:00 -08:00"
EAST = "2024-01-01 00:00 +05:30"
ZULU = "2024-01-01 00:00 +00:00"


async def shown(local: Any, source: str = "t") -> list[tuple[Any, ...]]:
    """Return columns a and z of a relation, z as text with its offset."""
    return list(await local.rows(f"select a, {SHOWN} from {source} order by a, 2"))


def fields_of(local: local_sql.LocalSql, dotted: str = "ns.t") -> dict[str, Any]:
    """Return the Iceberg fields of a table: their types by name."""
    schema = local.lake.load(local.lake.ident(dotted)).metadata.current_schema()
    return {field["name"]: field["type"] for field in schema["fields"]}


async def alter(local: local_sql.LocalSql, *updates: dict[str, Any]) -> None:
    """Commit updates of table t as another engine would."""
    await local.lake.tables.commit(local.lake.ident("ns.t"), [], list(updates), by="other")


def with_schema(
    local: local_sql.LocalSql, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the updates that give table t other columns."""
    schema = local.lake.load(local.lake.ident("ns.t")).metadata.current_schema()
    fields = change([dict(field) for field in schema["fields"]])
    return [
        {"action": "add-schema", "schema": {**schema, "fields": fields}},
        {"action": "set-current-schema", "schema-id": -1},
    ]


WAYS = {
    "plain": "",
    "partitioned": "partition by (day(z))",
    "clustered": "cluster by (z)",
    "position deletes": "",
    "deletion vectors": "",
}
VERSIONS = {"position deletes": 2, "deletion vectors": 3}


async def create(local: local_sql.LocalSql, way: str) -> None:
    """Create table t in one of WAYS."""
    await local.rows(f"create table t (a int, z timestamp_tz) {WAYS[way]}")
    if way in VERSIONS:
        await local.rows(
            f"alter table t set iceberg_version = {VERSIONS[way]},"
            " enable_iceberg_merge_on_read = true"
        )


@pytest.mark.parametrize("way", WAYS)
def test_every_statement_keeps_offsets(tmp_path: Path, way: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await create(local, way)
        await local.rows(f"insert into t values (1, '{ZULU}'), (2, null)")
        assert list(fields_of(local)) == ["a", "z"]
        await local.rows(f"insert into t values (3, '{WEST}'), (4, '{EAST}'), (5, null)")
        assert fields_of(local) == {
            "a": "long",
            "z": "timestamptz",
            "z__offset_minutes": "int",
        }
        await local.rows("insert into t (a) values (6)")
        await local.rows("insert into t (z, a) select z, a + 10 from t where a = 3")
        assert await shown(local) == [
            *((1, ZULU), (2, None), (3, WEST), (4, EAST), (5, None), (6, None), (13, WEST))
        ]
        await local.rows("update t set a = 14 where a = 4")
        await local.rows(f"update t set z = '{EAST}' where a in (1, 2)")
        await local.rows("update t set z = null where a = 13")
        await local.rows(
            f"merge into t using (select 5 as k, '{WEST}'::timestamp_tz as v union all"
            f" select 7, '{EAST}' union all select 3, null) on a = k"
            " when matched and v is null then delete"
            " when matched then update set z = v when not matched then insert values (k, v)"
        )
        rows = [(1, EAST), (2, EAST), (5, WEST), (6, None), (7, EAST), (13, None), (14, EAST)]
        assert await shown(local) == rows
        await local.rows("delete from t where z = '2024-01-01 08:00 +00:00'")
        await local.rows("delete from t where a = 14")
        rows = [(1, EAST), (2, EAST), (6, None), (7, EAST), (13, None)]
        assert await shown(local) == rows
        await local.rows("insert overwrite into t select a, z from t where a < 7")
        assert await shown(local) == rows[:3]
        await local.rows("truncate table t")
        await local.rows(f"insert into t values (1, '{WEST}')")
        assert await shown(local) == [(1, WEST)]

    local_sql.run_local(tmp_path, work)


def test_other_engines_read_instants_and_minutes(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows(f"insert into t values (1, '{ZULU}')")
        await local.rows(f"insert into t values (2, '{WEST}'), (3, '{EAST}'), (4, null)")
        loaded = local.lake.load(local.lake.ident("ns.t"))
        metadata_file = datafiles.bench(local.lake).export(loaded, tmp_path / "out")
        new_year = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
        expected = {
            1: (new_year, None),
            2: (new_year + datetime.timedelta(hours=8), -480),
            3: (new_year - datetime.timedelta(hours=5, minutes=30), 330),
            4: (None, None),
        }
        for rows_by in (datafiles.rows_by_pyiceberg, datafiles.rows_by_duckdb):
            rows = {row["a"]: row for row in rows_by(metadata_file, tmp_path / "out")}
            read = {a: (row["z"], row["z__offset_minutes"]) for a, row in rows.items()}
            assert read == expected, rows_by.__name__
        field = loaded.metadata.current_schema()["fields"][2]
        assert field["doc"] == offsets.doc("z")

    local_sql.run_local(tmp_path, work)


def test_no_listing_shows_the_column_and_no_statement_names_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz, b int)")
        await local.rows(f"insert into t values (1, '{WEST}', 2)")
        assert len(fields_of(local)) == 4
        assert [row[0] for row in await local.rows("describe table t")] == ["A", "Z", "B"]
        assert [row[2] for row in await local.rows("show columns in table t")] == ["A", "Z", "B"]
        listed = "select column_name from information_schema.columns where table_name = 'T'"
        assert sorted(await local.rows(listed)) == [("A",), ("B",), ("Z",)]
        assert "OFFSET" not in (await local.rows("select get_ddl('table', 't')"))[0][0].upper()
        assert len((await local.rows("select * from t"))[0]) == 3
        assert len((await local.rows("select * exclude a from t"))[0]) == 2
        await local.rows("create view v as select * from t")
        assert len((await local.rows("select * from v"))[0]) == 3
        for text in (
            "select z__offset_minutes from t",
            'select "z__offset_minutes" from t',
            "select t.z__offset_minutes from t",
            "insert into t (a, z__offset_minutes) values (1, 2)",
            "update t set z__offset_minutes = 0",
            "alter table t drop column z__offset_minutes",
            "alter table t rename column z__offset_minutes to c",
            "alter table t alter column z__offset_minutes comment 'c'",
            "alter table t cluster by (z__offset_minutes)",
            "merge into t using (select 1 as k) on a = k when matched then"
            " update set z__offset_minutes = 0",
        ):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(text)
            assert caught.value.code == "000904", text
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"insert into t values (1, '{WEST}', 2, 3)")
        assert caught.value.code == "002020"
        assert await local.rows("select count(*) from t") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_a_table_without_other_offsets_has_no_further_column(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows(f"insert into t values (1, '{ZULU}')")
        before = local.lake.load(local.lake.ident("ns.t")).metadata
        with pytest.raises(errors.SqlError):
            await local.rows(f"insert into t select 1 / (a - 1), '{WEST}' from t")
        await local.rows(f"update t set z = '{ZULU}'")
        await local.rows("create table u as select * from t")
        after = local.lake.load(local.lake.ident("ns.t")).metadata
        assert after.schemas == before.schemas
        assert offsets.PROPERTY not in after.properties
        assert list(fields_of(local, "ns.u")) == ["a", "z"]

    local_sql.run_local(tmp_path, work)


def test_definitions_and_copies_keep_offsets(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(
            f"create table t as select 1 as a, '{WEST}'::timestamp_tz as z,"
            f" '{EAST}'::timestamp_tz as y"
        )
        assert list(fields_of(local)) == [*"azy", "z__offset_minutes", "y__offset_minutes"]
        for text in (
            "create table u clone t",
            "create table u like t",
            "create table u as select * from t",
            "create temporary table u as select * from t",
            "create temporary table u clone t",
            "create transient table u clone t",
        ):
            await local.rows(text)
            if "like" in text:
                await local.rows("insert into u select * from t")
            await local.rows("insert into u select a + 1, y, z from u")
            assert await shown(local, "u") == [(1, WEST), (2, EAST)], text
            await local.rows("drop table u")
        for text in (
            "create or replace table u clone t",
            "create or replace table u like t",
            "create or replace table u as select * from t",
            f"create or replace table u as select 1 as a, '{WEST}'::timestamp_tz as z,"
            f" '{EAST}'::timestamp_tz as y",
        ):
            await local.rows(f"create or replace table u as select '{EAST}'::timestamp_tz as old")
            await local.rows(text)
            if "like" in text:
                await local.rows("insert into u select * from t")
            await local.rows("insert into u select a + 1, y, z from u")
            assert await shown(local, "u") == [(1, WEST), (2, EAST)], text
        await local.rows("create or replace table u as select 1 as a, 2 as b")
        assert list(fields_of(local, "ns.u")) == ["a", "b"]
        await local.rows("insert into u select 1, 2")
        await local.rows("alter table u add column z timestamp_tz")
        await local.rows(f"insert into u values (2, 2, '{EAST}')")
        await local.rows("alter table t swap with u")
        assert (2, EAST) in await shown(local)
        assert await shown(local, "u") == [(1, WEST)]
        await local.rows("alter table u rename to p")
        await local.rows("drop table p")
        await local.rows("undrop table p")
        assert await shown(local, "p") == [(1, WEST)]
        await local.rows("create schema s clone ns")
        assert await shown(local, "s.p") == [(1, WEST)]

    local_sql.run_local(tmp_path, work)


def test_alter_table_keeps_both_columns_together(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows(f"insert into t values (1, '{WEST}')")
        await local.rows("alter table t rename column z to w")
        assert list(fields_of(local)) == ["a", "w", "w__offset_minutes"]
        assert await local.rows(
            "select timezone_hour from (select date_part(tzh, w) as timezone_hour from t)"
        ) == [(-8,)]
        # A column of that name makes the other one give way.
        await local.rows("alter table t add column w__offset_minutes int")
        assert list(fields_of(local)) == ["a", "w", "w__offset_minutes_2", "w__offset_minutes"]
        await local.rows(f"insert into t values (2, '{EAST}', 77)")
        await local.rows("alter table t rename column w to z")
        assert list(fields_of(local)) == ["a", "z", "z__offset_minutes", "w__offset_minutes"]
        await local.rows('alter table t rename column w__offset_minutes to "z__OFFSET_minutes"')
        assert list(fields_of(local)) == ["a", "z", "z__offset_minutes_2", "z__OFFSET_minutes"]
        assert await shown(local) == [(1, WEST), (2, EAST)]
        assert await local.rows('select a, "z__OFFSET_minutes" from t order by a') == [
            (1, None),
            (2, 77),
        ]
        with_both = local.last_id
        await local.rows("alter table t add column y timestamp_tz")
        await local.rows(f"insert into t values (3, '{ZULU}', 78, '{EAST}')")
        assert len(fields_of(local)) == 6
        await local.rows("alter table t drop column z")
        assert list(fields_of(local)) == ["a", "z__OFFSET_minutes", "y", "y__offset_minutes"]
        assert await local.rows("select a, to_char(y, 'TZH:TZM') from t order by a") == [
            (1, None),
            (2, None),
            (3, "+05:30"),
        ]
        assert with_both
        await local.rows('alter table t drop column a, "z__OFFSET_minutes"')
        with pytest.raises(errors.SqlError):
            await local.rows("alter table t drop column y")  # the last one

    local_sql.run_local(tmp_path, work)


def test_time_travel_reads_the_offsets_of_then(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        at: list[tuple[str, list[tuple[Any, ...]]]] = []
        for text, rows in (
            (f"insert into t values (1, '{ZULU}')", [(1, ZULU)]),
            (f"insert into t values (2, '{WEST}')", [(1, ZULU), (2, WEST)]),
            (f"update t set z = '{EAST}'", [(1, EAST), (2, EAST)]),
        ):
            await local.rows(text)
            at.append((local.last_id, rows))
        await local.rows("alter table t drop column z")
        await local.rows("insert into t values (3)")
        await local.rows(f"create or replace table t as select 5 as b, '{WEST}'::timestamp_tz as x")
        await local.rows("create or replace table t as select 6 as c")
        for query_id, rows in at:
            source = f"t at(statement => '{query_id}')"
            assert await shown(local, source) == rows
            assert len((await local.rows(f"select * from {source}"))[0]) == 2
        first = at[1][0]
        await local.rows(f"create table u clone t at(statement => '{first}')")
        assert await shown(local, "u") == at[1][1]

    local_sql.run_local(tmp_path, work)


def test_defaults_and_sessions_of_a_zone_have_their_offset(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("alter session set timezone = 'America/Los_Angeles'")
        await local.rows(
            "create table t (a int, z timestamp_tz default '2024-07-01 00:00'::timestamp_tz,"
            " n timestamp_tz default current_timestamp()::timestamp_tz)"
        )
        await local.rows("insert into t (a) values (1)")
        await local.rows("insert into t values (2, '2024-01-01 00:00', default)")
        await local.rows(
            "merge into t using (select 3 as k) on a = k"
            " when not matched then insert (a) values (k)"
        )
        assert await shown(local) == [
            (1, "2024-07-01 00:00 -07:00"),
            (2, "2024-01-01 00:00 -08:00"),
            (3, "2024-07-01 00:00 -07:00"),
        ]
        assert {row[0] for row in await local.rows("select to_char(n, 'TZH') from t")} <= {
            "-08",
            "-07",
        }

    local_sql.run_local(tmp_path, work)


def test_binds_have_the_offset_of_the_driver(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("alter session set timezone = 'Asia/Tokyo'")
        await local.rows("create table t (a int, z timestamp_tz)")
        new_year = 1_704_067_200_000_000_000
        rows = [(new_year, -480), (new_year, 0), (-1_000, 330)]
        cells = [f"{nanos} {minutes + 1440}" for nanos, minutes in rows]
        moments = [ZULU.replace("2024-01-01 00", "2023-12-31 16").replace(UTC, "-08:00"), ZULU]
        moments.append("1970-01-01 05:29 +05:30")
        one = {"1": {"type": "TIMESTAMP_TZ", "value": cells[0]}}
        await local.rows("insert into t values (1, ?)", bindings=bindings.parse(one))
        several = {
            "1": {"type": "FIXED", "value": ["2", "3", "4"]},
            "2": {"type": "TIMESTAMP_TZ", "value": [cells[1], cells[2], None]},
        }
        for parsed in (
            bindings.parse(several),
            inputs.read_large(json.dumps(several).encode()),
        ):
            await local.rows("insert into t values (?, ?)", bindings=parsed)
        expected = [(1, moments[0]), *[(2, ZULU)] * 2, *[(3, moments[2])] * 2, *[(4, None)] * 2]
        assert await shown(local) == expected
        bound = bindings.parse(one)
        for text, answer in (
            ("select count(*) from t where z = ?", 3),
            ("select to_char(?, 'YYYY-MM-DD HH24 TZH:TZM')", "2023-12-31 16 -08:00"),
            ("select to_char(?::timestamp_ltz, 'YYYY-MM-DD HH24 TZH:TZM')", "2024-01-01 09 +09:00"),
            ("select ?::timestamp_ntz::text", "2023-12-31 16:00:00.000"),
            ("select '2024-01-01 09:00'::timestamp_ntz = ?", True),
            ("select array_construct(?)[0]::timestamp_ltz = '2024-01-01 00:00Z'", True),
            ("select ?::variant::timestamp_ltz = '2024-01-01 00:00Z'", True),
            ("select coalesce(null, ?) = '2024-01-01 00:00Z'", True),
        ):
            assert await local.one(text, bindings=bound) == answer, text
        await local.rows("create table l (i timestamp_ltz)")
        for day in (1, 2, 3):
            await local.rows(f"insert into l values ('2024-01-0{day} 00:00Z')")
        ((plan,),) = await local.rows(
            "explain using text select * from l where i <= ?", bindings=bound
        )
        assert "1 of 3 files" in plan

    local_sql.run_local(tmp_path, work)


def test_texts_at_the_ends_of_time_are_values(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        first, last = "0001-01-01 00:00 +14:00", "9999-12-31 23:59 -12:00"
        await local.rows(f"insert into t values (1, '{first}'), (2, '{last}')")
        await local.rows(
            "insert into t select 3, try_cast('10000-01-01 00:00 -12:00' as timestamp_tz)"
            " union all select 4, try_cast('no moment' as timestamp_tz)"
        )
        assert await shown(local, "t where a <> 3") == [(1, first), (2, last), (4, None)]
        assert await local.rows(
            f"select a from t where z = '{first}'::timestamp_tz or z >= '{last}'::timestamp_tz"
            " order by a"
        ) == [(1,), (2,), (3,)]

    local_sql.run_local(tmp_path, work)


def test_a_variant_is_read_with_the_offset_of_its_text(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("alter session set timezone = 'Europe/Berlin'")
        for variant, expected in (
            ("parse_json('\"2024-01-01 00:00 -08:00\"')", WEST),
            ('parse_json(\'{"a": "2024-01-01T00:00+05:30"}\'):a', EAST),
            ("parse_json('\"2024-07-01 00:00\"')", "2024-07-01 00:00 +02:00"),
            ("parse_json('1704067200')", ZULU),
            ("to_variant('2024-01-01 00:00'::timestamp_ntz)", "2024-01-01 00:00 +01:00"),
            ("parse_json('null')", None),
        ):
            text = f"select 1 as a, ({variant})::timestamp_tz as z"
            assert await shown(local, f"({text})") == [(1, expected)], variant
        await local.rows(
            "create table t as " + f"select 1 as a, '{WEST}'::variant::timestamp_tz as z"
        )
        assert await shown(local) == [(1, WEST)]

    local_sql.run_local(tmp_path, work)


def test_copy_and_insert_into_several_tables_keep_offsets(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows("create stage s")
        await local.rows(
            f"copy into @s/x.csv from (select * from values (1, '{WEST}'), (2, '{ZULU}'))"
        )
        await local.rows("copy into t from @s file_format = (type = csv)")
        assert await shown(local) == [(1, WEST), (2, ZULU)]
        await local.rows(
            "copy into t from (select $1 + 10, $2 from @s) file_format = (type = csv) force = true"
        )
        assert await shown(local) == [(1, WEST), (2, ZULU), (11, WEST), (12, ZULU)]
        await local.rows("create table u (a int, z timestamp_tz)")
        await local.rows("create table w (z timestamp_tz, y timestamp_tz, a int)")
        await local.rows(
            "insert all when a = 2 then into u when a = 1 then into u when true then"
            " into w (a, z) values (a, z) select a, z from t where a < 3"
        )
        assert await shown(local, "u") == [(1, WEST), (2, ZULU)]
        assert await shown(local, "w") == [(1, WEST), (2, ZULU)]
        assert len(fields_of(local, "ns.w")) == 5

    local_sql.run_local(tmp_path, work)


def test_parquet_of_a_stage_has_the_instants(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("alter session set timezone = 'Asia/Tokyo'")
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows(f"insert into t values (1, '{WEST}'), (2, '{EAST}'), (3, null)")
        await local.rows("create stage s")
        await local.rows("copy into @s from t header = true file_format = (type = parquet)")
        await local.rows("create table u like t")
        await local.rows(
            "copy into u from @s file_format = (type = parquet)"
            " match_by_column_name = case_insensitive"
        )
        assert await shown(local, "u") == [
            (1, "2024-01-01 17:00 +09:00"),
            (2, "2024-01-01 03:30 +09:00"),
            (3, None),
        ]

    local_sql.run_local(tmp_path, work)


def test_queries_compare_instants(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows(
            "insert into t values (1, '2024-01-01 12:00 +00:00'), (2, '2024-01-01 04:00 -08:00'),"
            " (3, '2024-01-01 17:30 +05:30'), (4, '2024-01-01 12:01 +14:00')"
        )
        noon = "z = '2024-01-01 12:00 +00:00'"
        assert await local.rows(f"select a from t where {noon} order by a") == [(1,), (2,), (3,)]
        assert await local.rows("select count(*), max(a) from t group by z order by 1") == [
            (1, 4),
            (3, 3),
        ]
        assert await local.rows("select count(distinct z) from t") == [(2,)]
        joined = "select count(*) from t l join t r on l.z = r.z"
        assert await local.rows(joined) == [(10,)]
        assert (await local.rows("select a from t order by z, a"))[0] == (4,)
        assert await local.rows("select a, hour(z), z::date::text from t where a > 2") == [
            (3, 17, "2024-01-01"),
            (4, 12, "2024-01-01"),
        ]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("shape", ["", "partition by (day(z))"])
def test_a_condition_reads_the_files_with_its_instants(tmp_path: Path, shape: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(f"create table t (a int, z timestamp_tz) {shape}")
        shifts = [0, -8, 14, 5, -12, 0]
        for day, shift in enumerate(shifts, start=1):  # a file each, of noon in UTC
            zone = datetime.timezone(datetime.timedelta(hours=shift))
            moment = datetime.datetime(2024, 1, day, 12, tzinfo=datetime.UTC).astimezone(zone)
            await local.rows(f"insert into t values ({day}, '{moment.isoformat(' ')}')")
        await local.rows("insert into t values (7, null)")
        for condition, days, files in (
            ("z = '2024-01-02 12:00 +00:00'", [2], 1),
            ("z = '2024-01-02 04:00 -08:00'", [2], 1),
            ("z > '2024-01-04 12:00 +00:00'", [5, 6], 2),
            ("z >= '2024-01-05 02:00 +14:00'::timestamp_tz", [4, 5, 6], 3),
            ("'2024-01-02 11:00 +00:00'::timestamp_ltz > z", [1], 1),
            ("z in ('2024-01-01 12:00Z', '2024-01-03 13:00 +01:00')", [1, 3], 2),
            ("not z < '2024-01-05 12:00 +00:00'", [5, 6], 2),
            ("z <> '2024-01-05 12:00 +00:00'", [1, 2, 3, 4, 6], 6),
            ("z between '2024-01-02 12:00Z' and '2024-01-03 12:00Z'", [2, 3], 2),
            ("z is null", [7], 1),
            ("z is not null and z::timestamp_ltz < '2024-01-02 00:00Z'", [1], 1),
            ("z < '2024-01-02 00:00Z' or z > '2024-01-06 00:00Z'", [1, 6], 2),
            ("z::date = '2024-01-04'", [3, 4], 7),
            ("hour(z) = 12", [1, 6], 7),
        ):
            rows = await local.rows(f"select a from t where {condition} order by a")
            assert rows == [(each,) for each in days], condition
            ((plan,),) = await local.rows(f"explain using text select a from t where {condition}")
            kept = re.findall(r"snapshot \d+, (\d+) of 7 files", plan)
            assert kept == [str(files)], condition

    local_sql.run_local(tmp_path, work)


def test_a_user_who_may_insert_may_bring_the_first_offset(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        allowed = {"Effect": "Allow", "Action": list(READS_WRITES), "Resource": "*"}
        other = Other(local, local_sql.user("u", [allowed]))
        await other.rows(f"insert into t values (1, '{WEST}')")
        assert await shown(other) == [(1, WEST)]
        with pytest.raises(errors.SqlError):
            await Other(local, local_sql.user("v", [])).rows(f"insert into t values (1, '{WEST}')")

    local_sql.run_local(tmp_path, work)


def test_columns_of_a_wide_table_get_theirs_in_one_pass() -> None:
    count = 3_000
    fields = [
        {"id": number, "name": f"c{number}", "type": "timestamptz", "required": False}
        for number in range(1, count + 1)
    ]
    declared = {str(field["id"]): tabletypes.ZONED for field in fields}
    properties = {tabletypes.DECLARED: json.dumps(declared)}
    added = offsets.missing(fields, properties, last_id=count)
    assert added is not None
    assert [field["id"] for field in added.fields] == list(range(count + 1, 2 * count + 1))
    together = [*fields, *added.fields]
    assert offsets.visible(together, {**properties, **added.properties}) == fields
    wider = {**properties, **added.properties}
    assert offsets.missing(together, wider, last_id=2 * count) is None


def test_alter_table_of_many_columns_looks_for_those_of_offsets_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        count = 1_000
        declared = ", ".join(f"c{number} timestamp_tz" for number in range(count))
        changed = ", ".join(f"d{number}" for number in range(count))
        seconds = {}
        for name in ("plain", "wide"):
            await local.rows(f"create table {name} ({declared})")
            if name == "wide":
                await local.rows(f"insert into wide (c0) values ('{WEST}')")
                await local.rows("truncate table wide")
                assert len(fields_of(local, "ns.wide")) == 2 * count
            started_at = time.process_time()
            await local.rows(f"alter table {name} add column {changed.replace(',', ' int,')} int")
            await local.rows(f"alter table {name} drop column {changed}")
            seconds[name] = time.process_time() - started_at
        assert seconds["wide"] < 6 * seconds["plain"]

    local_sql.run_local(tmp_path, work)


def test_a_column_is_not_dropped_while_another_engine_orders_by_its_offsets(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows(f"insert into t values (1, '{WEST}')")
        ordering = {"source-id": 3, "transform": "identity"}
        sort_field = {**ordering, "direction": "asc", "null-order": "nulls-first"}
        await alter(
            local,
            {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [sort_field]}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        )
        with pytest.raises(errors.SqlError) as caught:
            await local.rows("alter table t drop column z")
        assert "DROP CLUSTERING KEY first" in caught.value.message
        await local.rows(f"insert into t values (2, '{EAST}')")
        assert await shown(local) == [(1, WEST), (2, EAST)]
        # A clustering key of columns that SQL does not show is none.
        assert "cluster by" not in await local.one("select get_ddl('table', 't')")
        shown_key = "select clustering_key from information_schema.tables where table_name = 'T'"
        assert await local.rows(shown_key) == [(None,)]
        await local.rows("alter table t drop clustering key")
        await alter(
            local,
            {"action": "add-spec", "spec": {"fields": [{**ordering, "name": "minutes"}]}},
            {"action": "set-default-spec", "spec-id": -1},
        )
        with pytest.raises(errors.SqlError) as caught:
            await local.rows("alter table t drop column z")
        assert "the table is partitioned by it" in caught.value.message
        await alter(local, {"action": "set-default-spec", "spec-id": 0})
        await local.rows("alter table t drop column z")
        assert list(fields_of(local)) == ["a"]

    local_sql.run_local(tmp_path, work)


# Transactions and writers at the same time


def test_a_transaction_reads_its_own_offsets(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.rows("create table t (a int, z timestamp_tz)")
        for end in ("rollback", "commit"):
            await local.rows("begin")
            await local.rows(f"insert into t values (1, '{ZULU}')")
            await local.rows(f"insert into t values (2, '{WEST}')")
            await local.rows(f"insert into t values (3, '{EAST}')")
            await local.rows("update t set a = 4 where a = 2")
            await local.rows("delete from t where a = 1")
            assert await shown(local) == [(3, EAST), (4, WEST)]
            assert await shown(other) == []
            assert list(fields_of(local)) == ["a", "z"]
            await local.rows(end)
            assert len(fields_of(local)) == (2 if end == "rollback" else 3)
        assert await shown(other) == [(3, EAST), (4, WEST)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("own", [ZULU, WEST])
def test_a_transaction_goes_on_when_another_session_has_added_the_column(
    tmp_path: Path, own: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows(f"insert into t values (0, '{ZULU}')")
        await local.rows("begin")
        await local.rows(f"insert into t values (1, '{own}')")
        await local.rows("delete from t where a = 0")
        await other.rows(f"insert into t values (2, '{EAST}')")
        assert await shown(local) == [(1, own), (2, EAST)]
        await local.rows(f"insert into t values (3, '{WEST}')")
        await other.rows(f"insert into t values (4, '{EAST}')")
        await local.rows("commit")
        assert await shown(other) == [(1, own), (2, EAST), (3, WEST), (4, EAST)]
        assert len(fields_of(local)) == 3

    local_sql.run_local(tmp_path, work)


def test_a_transaction_that_adds_the_column_conflicts_with_other_columns(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows("begin")
        await local.rows(f"insert into t values (1, '{WEST}')")
        await other.rows("alter table t add column b int")
        with pytest.raises(errors.SqlError) as caught:
            await local.rows("commit")
        assert caught.value.code == "000625"
        assert await local.rows("select * from t") == []

    local_sql.run_local(tmp_path, work)


def test_sessions_that_write_first_offsets_at_once_add_one_column(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, y timestamp_tz, z timestamp_tz)")
        await local.rows(f"insert into t values (0, '{ZULU}', '{ZULU}')")

        async def run(number: int) -> None:
            session = sessions.Session(
                id=number + 2, principal=local_sql.ROOT, database="lake", schema="ns"
            )
            column = "y" if number % 2 else "z"
            texts = [
                f"insert into t (a, {column}) values ({number + 1}, '{WEST}')",
                f"update t set {column} = '{EAST}' where a = {number + 1}",
            ]
            for text in texts if number % 3 else texts[:1]:
                await local_sql.rows_of(
                    await local.statements.execute(
                        session,
                        text,
                        bindings={},
                        parameters={},
                        describe_only=False,
                        query_id=str(uuid.uuid4()),
                        results=local.results,
                    )
                )

        await asyncio.gather(*map(run, range(8)))
        names = ["a", "y", "z", "y__offset_minutes", "z__offset_minutes"]
        assert list(fields_of(local)) == names
        expected = [(0, ZULU)]
        expected += [(each + 1, EAST if each % 3 else WEST) for each in range(8)]
        either = "(select a, coalesce(case when a > 0 then null else z end, y, z) as z from t)"
        assert await shown(local, either) == expected

    local_sql.run_local(tmp_path, work)


Meanwhile = Callable[[local_sql.LocalSql, Other], Awaitable[None]]


async def add_column(local: local_sql.LocalSql, other: Other) -> None:
    await other.rows("alter table t add column b int default 5")


async def drop_and_add(local: local_sql.LocalSql, other: Other) -> None:
    await other.rows("alter table t drop column y")
    await other.rows("alter table t add column y int")


async def add_offsets(local: local_sql.LocalSql, other: Other) -> None:
    await other.rows(f"insert into t (a, z) values (9, '{EAST}')")


async def drop_column(local: local_sql.LocalSql, other: Other) -> None:
    await other.rows("alter table t drop column y")


async def rename(local: local_sql.LocalSql, other: Other) -> None:
    await other.rows(f"insert into t (a, z) values (9, '{EAST}')")
    await other.rows("alter table t rename column z to w")
    await other.rows("alter table t rename column w to z")


INSERT = f"insert into t (a, z) select a + 1, '{WEST}' from t where a = 0"
WRITING = (
    INSERT,
    f"insert into t (a, z) values (1, '{WEST}')",
    f"insert overwrite into t (a, z) select * from values (0, '{WEST}'), (1, '{WEST}')",
    f"update t set z = '{WEST}', a = 1 where a = 0",
    f"merge into t using (select 1 as k) on a = k when not matched then"
    f" insert (a, z) values (k, '{WEST}')",
    "copy into t (a, z) from @s file_format = (type = csv)",
    f"insert all into t (a, z) values (k, '{WEST}') select 1 as k",
    f"create or replace table t as select 1 as a, '{WEST}'::timestamp_tz as z",
)
CHANGES: tuple[Meanwhile, ...] = (add_column, drop_column, drop_and_add, add_offsets, rename)


def writes_meanwhile() -> list[Any]:
    """Each statement beside each change; in `make test` each of both has a case."""
    return [
        pytest.param(
            statement,
            change,
            marks=[] if statement == INSERT or change is add_offsets else pytest.mark.further,
        )
        for statement in WRITING
        for change in CHANGES
    ]


@pytest.mark.parametrize(("statement", "meanwhile"), writes_meanwhile())
def test_a_statement_runs_again_where_columns_have_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, meanwhile: Meanwhile
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.rows("create table t (a int, y int, z timestamp_tz)")
        await local.rows(f"insert into t values (0, 0, '{ZULU}')")
        await local.rows("create stage s")
        await local.rows(f"copy into @s/x.csv from (select * from values (1, '{WEST}'))")
        plain = writes.Writes.stage
        waiting: list[Meanwhile] = [meanwhile]

        async def stage(self: Any, *arguments: Any, **named: Any) -> Any:
            staged = await plain(self, *arguments, **named)
            if waiting:
                await waiting.pop()(local, other)
            return staged

        monkeypatch.setattr(writes.Writes, "stage", stage)
        await local.rows(statement)
        assert waiting == []
        rows = dict(await shown(local))
        assert rows[1] == WEST
        assert rows.get(0, ZULU) in (ZULU, WEST)
        if not statement.startswith(("create or replace", "insert overwrite")):
            assert rows.get(9, EAST) == EAST
        names = [name.upper() for name in fields_of(local)]
        assert len(names) == len(set(names))
        assert len([name for name in names if "OFFSET" in name]) == 1

    local_sql.run_local(tmp_path, work)


# Other writers


def test_rows_of_other_writers_have_the_offset_that_they_state(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows(f"insert into t values (1, '{WEST}')")
        maker = tablefiles.Maker(local=local, ident=local.lake.ident("ns.t"))
        new_year = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
        columns = {1: ("a", pa.int64()), 2: ("z", pa.timestamp("us", "UTC"))}
        await maker.commit(await maker.data_file(columns, [(2, new_year)]))
        more = {**columns, 3: ("minutes", pa.int32())}
        await maker.commit(
            await maker.data_file(
                more,
                [
                    *((3, new_year, None), (4, new_year, 60), (5, new_year, 1440)),
                    *((6, new_year, -(2**31)), (7, new_year, -1439), (8, None, 60)),
                ],
            )
        )
        assert await shown(local) == [
            (1, WEST),
            (2, ZULU),
            (3, ZULU),
            (4, "2024-01-01 01:00 +01:00"),
            (5, ZULU),
            (6, ZULU),
            (7, "2023-12-31 00:01 -23:59"),
            (8, None),
        ]
        assert await local.rows(f"select count(*) from t where z = '{ZULU}'") == [(6,)]
        await local.rows("update t set a = a + 10")
        assert (14, "2024-01-01 01:00 +01:00") in await shown(local)

    local_sql.run_local(tmp_path, work)


def test_another_engine_may_rename_widen_require_and_drop_the_column(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows(f"insert into t values (1, '{WEST}')")
        rows = [(1, WEST)]

        async def change(number: int, **values: Any) -> None:
            await alter(
                local,
                *with_schema(
                    local,
                    lambda fields: [
                        {**field, **values} if field["id"] == number else field for field in fields
                    ],
                ),
            )

        for count, values in enumerate(
            ({"name": "other"}, {"type": "long"}, {"required": True}), start=2
        ):
            if "required" in values:  # no client may do so to a table with rows, but one may do it
                await local.rows("truncate table t")
                rows = []
                await alter(local, *with_schema(local, lambda fields: [*fields[:2]]))
                await local.rows(f"insert into t values (0, '{EAST}')")
                rows = [(0, EAST)]
                assert list(fields_of(local)) == ["a", "z", "z__offset_minutes"]
                continue
            await change(3, **values)
            await local.rows(f"insert into t values ({count}, '{EAST}')")
            rows.append((count, EAST))
            assert await shown(local) == rows
            assert len(await local.rows("describe table t")) == 2
        # Without the instants, the minutes are an ordinary column.
        await alter(local, *with_schema(local, lambda fields: [fields[0], fields[2]]))
        assert [row[0] for row in await local.rows("describe table t")] == [
            "A",
            "Z__OFFSET_MINUTES",
        ]
        assert await local.rows("select * from t") == [(0, 330)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"2": "x"}', '{"2": null}', '{"2": 99}', "7"])
def test_a_damaged_property_shows_the_column(tmp_path: Path, text: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows(f"insert into t values (1, '{WEST}')")
        await alter(local, {"action": "set-properties", "updates": {offsets.PROPERTY: text}})
        assert await shown(local) == [(1, "2024-01-01 08:00 +00:00")]
        assert await local.rows("select z__offset_minutes from t") == [(-480,)]
        await local.rows(f"insert into t values (2, '{EAST}', 7)")
        assert await shown(local) == [(1, "2024-01-01 08:00 +00:00"), (2, EAST)]
        assert list(fields_of(local))[2:] == ["z__offset_minutes", "z__offset_minutes_2"]

    local_sql.run_local(tmp_path, work)


def test_a_column_holds_the_offsets_of_one_other_alone(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, y timestamp_tz, z timestamp_tz)")
        await local.rows(f"insert into t values (1, '{EAST}', '{WEST}')")
        text = '{"2": 4, "3": 4, "4": 5}'
        await alter(local, {"action": "set-properties", "updates": {offsets.PROPERTY: text}})
        assert await shown(local) == [(1, "2024-01-01 08:00 +00:00")]
        assert len(await local.rows("describe table t")) == 4
        await local.rows(f"insert into t (a, y, z) values (2, '{WEST}', '{EAST}')")
        assert await shown(local) == [(1, "2024-01-01 08:00 +00:00"), (2, EAST)]
        assert await shown(local, "(select a, y as z from t)") == [(1, EAST), (2, WEST)]

    local_sql.run_local(tmp_path, work)


def test_nested_columns_stand_beside_offsets(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(
            "create table t as select 1 as a, {'x': 1}::object(x int) as s,"
            f" [1, 2]::array(int) as l, '{WEST}'::timestamp_tz as z"
        )
        await local.rows(f"insert into t select 2, s, l, '{EAST}' from t")
        await local.rows("update t set a = 3 where a = 1")
        assert await shown(local) == [(2, EAST), (3, WEST)]
        assert await local.rows("select s:x, l[1] from t") == [(1, 2), (1, 2)]
        text = '{"4": 2}'  # a struct holds no offsets
        await alter(local, {"action": "set-properties", "updates": {offsets.PROPERTY: text}})
        assert len(await local.rows("describe table t")) == 5

    local_sql.run_local(tmp_path, work)


def test_a_name_that_is_taken_is_not_used(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows('create table t (a int, z timestamp_tz, "Z__Offset_Minutes" int)')
        await local.rows(f"insert into t values (1, '{WEST}', 5)")
        assert list(fields_of(local))[2:] == ["Z__Offset_Minutes", "z__offset_minutes_2"]
        assert await shown(local) == [(1, WEST)]
        assert await local.rows('select "Z__Offset_Minutes" from t') == [(5,)]

    local_sql.run_local(tmp_path, work)


def test_properties_name_the_column_by_its_id(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (s variant, z timestamp_tz, y timestamp_tz)")
        await local.rows(f"insert into t select null, '{WEST}', null")
        properties = local.lake.load(local.lake.ident("ns.t")).metadata.properties
        assert json.loads(properties[offsets.PROPERTY]) == {"2": 4, "3": 5}

    local_sql.run_local(tmp_path, work)


# Random statements beside a model

MOMENTS = [
    *(None, ZULU, WEST, EAST, "2024-01-01 08:00 +00:00", "1969-12-31 23:59 -00:01"),
    *("0001-01-01 00:00 +14:00", "9999-12-31 23:59 -12:00"),
]
COMPARED = MOMENTS[:6]
"""Without the first and the last local times, whose instants no text spells in UTC."""


def instant_of(text: str | None) -> Any:
    """Return the instant of a text: minutes since the year 1."""
    if text is None:
        return None
    local, offset = text[:16], text[17:]
    moment = datetime.datetime.strptime(local, "%Y-%m-%d %H:%M")  # noqa: DTZ007 - no zone is meant
    minutes = int(offset[1:3]) * 60 + int(offset[4:])
    shift = -minutes if offset[0] == "-" else minutes
    return moment.toordinal() * 1440 + moment.hour * 60 + moment.minute - shift


Row = tuple[int, str | None]
Model = list[Row]


def literal(moment: str | None) -> str:
    return "null" if moment is None else f"'{moment}'"


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, int, str | None, str | None]:
    word = draw(
        st.sampled_from(
            ["insert", "update", "move", "delete", "merge", "overwrite", "copy", "begin", "end"]
        )
    )
    key = draw(st.integers(1, 5))
    return word, key, draw(st.sampled_from(MOMENTS)), draw(st.sampled_from(COMPARED))


async def step(
    local: local_sql.LocalSql, rows: Model, word: str, key: int, new: Any, old: Any
) -> Model:
    """Run one statement; return the model's rows after it."""
    match word:
        case "insert":
            await local.rows(f"insert into t values ({key}, {literal(new)})")
            return [*rows, (key, new)]
        case "update":
            await local.rows(f"update t set z = {literal(new)} where a = {key}")
            return [(a, new if a == key else z) for a, z in rows]
        case "move":
            await local.rows(f"update t set a = {key} where z = {literal(old)}")
            same = instant_of(old)
            return [(key if z and instant_of(z) == same else a, z) for a, z in rows]
        case "delete":
            await local.rows(f"delete from t where z = {literal(old)}")
            same = instant_of(old)
            return [(a, z) for a, z in rows if not (z and instant_of(z) == same)]
        case "merge":
            await local.rows(
                f"merge into t using (select {key} as k, {literal(new)}::timestamp_tz as v) on"
                " a = k when matched then update set z = v when not matched then insert values"
                " (k, v)"
            )
            if any(a == key for a, _ in rows):
                return [(a, new if a == key else z) for a, z in rows]
            return [*rows, (key, new)]
        case "overwrite":
            await local.rows(f"insert overwrite into t select a, z from t where a <= {key}")
            return [(a, z) for a, z in rows if a <= key]
        case "copy":
            await local.rows("create or replace table t as select a, z from t")
            return rows
    return rows


@pytest.mark.campaign
@pytest.mark.parametrize("way", ["plain", "deletion vectors"])
def test_random_statements_keep_what_a_model_keeps(tmp_path: Path, way: str) -> None:
    runs = iter(range(10_000))

    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(st.lists(steps(), min_size=4, max_size=10))
    def keep(listed: Sequence[tuple[str, int, str | None, str | None]]) -> None:
        async def work(local: local_sql.LocalSql) -> None:
            await create(local, way)
            rows: Model = []
            saved: Model | None = None
            for word, key, new, old in listed:
                if word == "begin" and saved is None:
                    await local.rows("begin")
                    saved = rows
                elif word == "end" and saved is not None:
                    await local.rows("commit" if key > 2 else "rollback")
                    rows = rows if key > 2 else saved
                    saved = None
                elif word == "copy" and saved is not None:
                    continue  # it would commit the transaction
                else:
                    rows = await step(local, rows, word, key, new, old)
                read = await shown(local)
                assert sorted(read, key=str) == sorted(rows, key=str), (word, key, new, old)

        path = tmp_path / str(next(runs))
        path.mkdir()
        local_sql.run_local(path, work)

    keep()
