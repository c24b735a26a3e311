"""Columns of TIMESTAMP_TZ: instants, and what declarations say of them.

Their offsets: `test_offsets`.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import manifests
from sql import bindings, errors, tabletypes
from tests.kit import datafiles, local_sql, tablefiles

NEW_YEAR = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
"""The instant of most tests."""


async def texts(local: local_sql.LocalSql, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query whose column `z` is a value with its offset, as text."""
    shown = "to_char(z, 'YYYY-MM-DD HH24:MI:SS.FF6 TZH:TZM')"
    return await local.rows(f"select * exclude z, {shown} from ({query}) order by 1")


async def refusal(local: local_sql.LocalSql, text: str) -> tuple[str, str]:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text)
    return caught.value.code, caught.value.message


@pytest.mark.parametrize("shape", ["", "partition by (day(z))", "cluster by (z)"])
def test_every_statement_writes_and_reads_instants(tmp_path: Path, shape: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(f"create table t (a int, z timestamp_tz) {shape}")
        await local.rows(
            "insert into t values (1, '2024-01-01 00:00:00.123456 +00:00'), (2, null), (3, default)"
        )
        await local.rows(
            "insert into t select 4, convert_timezone('UTC', '2024-01-01 05:00:00 +05:00'"
            "::timestamp_tz)"
        )
        await local.rows("insert into t (a) values (5)")
        first = "2024-01-01 00:00:00.123456 +00:00"
        new_year = "2024-01-01 00:00:00.000000 +00:00"
        rows = [(1, first), (2, None), (3, None), (4, new_year), (5, None)]
        assert await texts(local, "select * from t") == rows
        await local.rows("update t set z = '2020-02-29 12:00:00 +00:00' where a = 2")
        await local.rows("update t set a = 10 where a = 1")
        await local.rows(
            "merge into t using (select 3 as k, to_timestamp_tz('2021-01-01 00:00:00 +0000') as v"
            " union all select 6, null) on a = k when matched then update set z = v"
            " when not matched then insert values (k, v)"
        )
        await local.rows("delete from t where z = '2024-01-01 01:00:00 +01:00'")
        assert await texts(local, "select * from t") == [
            (2, "2020-02-29 12:00:00.000000 +00:00"),
            (3, "2021-01-01 00:00:00.000000 +00:00"),
            (5, None),
            (6, None),
            (10, first),
        ]
        # Other engines read the instants.
        loaded = local.lake.load(local.lake.ident("ns.t"))
        metadata_file = datafiles.bench(local.lake).export(loaded, tmp_path / "out")
        rows_read = datafiles.rows_by_pyiceberg(metadata_file, tmp_path / "out")
        read = {row["a"]: row["z"] for row in rows_read}
        assert read[10] == NEW_YEAR.replace(microsecond=123456)
        assert read[6] is None

    local_sql.run_local(tmp_path, work)


def test_a_text_without_an_offset_has_the_sessions(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        await local.rows("insert into t values (1, '2024-01-01 00:00:00Z')")
        await local.rows("alter session set timezone = 'Europe/Berlin'")
        await local.rows("insert into t values (2, '2024-01-01'), (3, '2024-07-01 12:00:00')")
        await local.rows("update t set z = '2024-01-01 00:00:00' where a = 1")
        await local.rows("alter session set timezone = 'UTC'")
        assert await texts(local, "select * from t") == [
            (1, "2024-01-01 00:00:00.000000 +01:00"),
            (2, "2024-01-01 00:00:00.000000 +01:00"),
            (3, "2024-07-01 12:00:00.000000 +02:00"),
        ]

    local_sql.run_local(tmp_path, work)


def test_conditions_joins_and_groups_compare_instants(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, z timestamp_tz)")
        for day in range(1, 6):  # a file for each
            await local.rows(f"insert into t values ({day}, '2024-01-0{day} 12:00:00 +00:00')")
        for condition, expected in (
            ("z > '2024-01-03 12:00:00 +00:00'", [4, 5]),
            ("z >= '2024-01-03 14:00:00 +02:00'::timestamp_tz", [3, 4, 5]),
            ("z = '2024-01-02 07:00:00 -05:00'", [2]),
            ("z in ('2024-01-01 12:00:00 +00:00', '2024-01-05 13:00:00 +01:00')", [1, 5]),
            ("not z < '2024-01-04 12:00:00 +00:00'", [4, 5]),
            ("z::date = '2024-01-02'", [2]),
            ("z::timestamp_ntz < '2024-01-02'", [1]),
            ("z between '2024-01-02' and '2024-01-04'", [2, 3]),
            ("z is null", []),
        ):
            rows = await local.rows(f"select a from t where {condition} order by a")
            assert rows == [(each,) for each in expected], condition
        assert await local.rows(
            "select count(distinct z), min(z) = '2024-01-01 12:00:00Z' from t"
        ) == [(5, True)]
        assert await local.rows("select l.a from t l join t r on l.z = r.z where r.a = 4") == [(4,)]

    local_sql.run_local(tmp_path, work)


def test_the_type_is_kept_by_definitions_and_copies(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t as select to_timestamp_tz('2024-01-01 00:00:00Z') as z")
        await local.rows("alter table t add column y timestamp_tz")
        await local.rows("create table k like t")
        await local.rows("create table c clone t")
        await local.rows("create view v as select z from t")
        for name in ("t", "k", "c", "v"):
            types = [row[1] for row in await local.rows(f"describe table {name}")]
            assert set(types) == {"TIMESTAMP_TZ(6)"}, name
        assert "Z TIMESTAMP_TZ(6)" in (await local.rows("select get_ddl('table', 't')"))[0][0]
        assert await local.rows("select z = '2024-01-01 00:00:00Z' from v") == [(True,)]
        code, message = await refusal(local, "create iceberg table i (z timestamp_tz)")
        assert (code, "ICEBERG" in message) == ("000002", True)

    local_sql.run_local(tmp_path, work)


def test_defaults_fill_the_column(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(
            "create table t (a int, y timestamp_tz default current_timestamp(),"
            " z timestamp_tz default '2024-01-01 00:00:00 +00:00')"
        )
        await local.rows("insert into t (a) values (1)")
        await local.rows("insert into t (a, z) values (2, '2025-01-01 00:00:00Z')")
        await local.rows("insert into t values (3, default, default)")
        await local.rows(
            "merge into t using (select 4 as k) on a = k"
            " when not matched then insert (a) values (k)"
        )
        assert await local.rows(
            "select a, y > '2000-01-01 00:00:00Z', year(z) from t order by a"
        ) == [(1, True, 2024), (2, True, 2025), (3, True, 2024), (4, True, 2024)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("version", [2, 3])
def test_rows_get_the_constant_default_of_a_new_column(tmp_path: Path, version: int) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, y timestamp_tz)")
        await local.rows(f"alter table t set iceberg_version = {version}")
        await local.rows("insert into t values (1, '2020-01-01 00:00:00Z')")
        await local.rows(
            "alter table t add column z timestamp_tz not null"
            " default '2024-01-01 05:00:00 +00:00'::timestamp_tz"
        )
        await local.rows("insert into t (a) values (2)")
        await local.rows("update t set y = '2021-01-01 00:00:00Z' where a = 2")
        moment = "2024-01-01 05:00:00.000000 +00:00"
        assert await texts(local, "select a, year(y), z from t") == [
            (1, 2020, moment),
            (2, 2021, moment),
        ]
        loaded = local.lake.load(local.lake.ident("ns.t"))
        fields = loaded.metadata.current_schema()["fields"]
        assert fields[-1]["write-default"] == "2024-01-01T05:00:00.000000+00:00"
        ddl = (await local.rows("select get_ddl('table', 't')"))[0][0]
        await local.rows(ddl)
        await local.rows("insert into t (a) values (3)")
        assert await texts(local, "select a, z from t") == [(3, moment)]
        # Iceberg has no constant with an offset, so such a value is no default of old rows.
        code, _ = await refusal(
            local, "alter table t add column x timestamp_tz default '2024-01-01 00:00:00 +01:00'"
        )
        assert code == "002262"

    local_sql.run_local(tmp_path, work)


def test_rows_of_another_engine_are_read_at_utc(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await tablefiles.make(
            local,
            fields=[tablefiles.field(1, "a", "int"), tablefiles.field(2, "z", "timestamptz")],
            properties={tabletypes.DECLARED: json.dumps({"2": tabletypes.ZONED})},
        )
        columns = {1: ("a", pa.int32()), 2: ("z", pa.timestamp("us", "UTC"))}
        await maker.commit(
            await maker.data_file(columns, [(1, NEW_YEAR), (2, None)]),
            await maker.data_file({1: ("a", pa.int32())}, [(3,)]),
        )
        assert await texts(local, "select * from t") == [
            (1, "2024-01-01 00:00:00.000000 +00:00"),
            (2, None),
            (3, None),
        ]

    local_sql.run_local(tmp_path, work)


def test_a_column_whose_type_another_engine_replaced_is_read_as_it_is(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        fields = [
            tablefiles.field(1, "a", "int"),
            tablefiles.field(2, "n", "timestamp"),
            tablefiles.field(3, "z", "timestamptz"),
        ]
        declared = json.dumps({str(each["id"]): tabletypes.ZONED for each in fields})
        maker = await tablefiles.make(
            local, fields=fields, properties={tabletypes.DECLARED: declared}
        )
        columns = {1: ("a", pa.int32()), 2: ("n", pa.timestamp("us"))}
        noon = datetime.datetime(2024, 1, 1, 12)  # noqa: DTZ001 - a clock without a zone
        await maker.commit(await maker.data_file(columns, [(5, noon)]))
        assert await local.rows("select * from t") == [(5, noon, None)]
        await local.rows("insert into t (a, z) values (6, '2024-01-01 00:00:00Z')")
        await local.rows("update t set n = '2024-01-01 12:00:00' where a = 6")
        await local.rows(
            "merge into t using (select 7 as k) on a = k"
            " when not matched then insert (a) values (k)"
        )
        assert await local.rows("select a, n, year(z) from t order by a") == [
            (5, noon, None),
            (6, noon, 2024),
            (7, None, None),
        ]

    local_sql.run_local(tmp_path, work)


def test_equality_deletes_by_such_a_column_are_refused_by_name(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await tablefiles.make(
            local,
            fields=[tablefiles.field(1, "z", "timestamptz")],
            properties={tabletypes.DECLARED: json.dumps({"1": tabletypes.ZONED})},
        )
        columns = {1: ("z", pa.timestamp("us", "UTC"))}
        await maker.commit(await maker.data_file(columns, [(NEW_YEAR,)]))
        uri, footer, size_bytes = await maker.parquet(columns, [(NEW_YEAR,)])
        await maker.commit(
            manifests.DataFile(
                file_path=uri,
                file_format="PARQUET",
                record_count=footer.num_rows,
                file_size_in_bytes=size_bytes,
                content=manifests.Content.EQUALITY_DELETES,
                equality_ids=(1,),
            ),
            operation="delete",
        )
        code, message = await refusal(local, "select z from t")
        assert (code, "equality deletes" in message) == ("000002", True)

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("setting", ["", "iceberg_version = 2", "iceberg_version = 3"])
def test_rows_beside_floats_are_located_in_their_files(tmp_path: Path, setting: str) -> None:
    """A column that the engine computes from its file, and one that turns off its statistics."""

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, f float, z timestamp_tz)")
        if setting:
            await local.rows(f"alter table t set {setting}, enable_iceberg_merge_on_read = true")
        moment = "'2024-01-01 00:00:00Z'"
        await local.rows(f"insert into t values (1, 'NaN', {moment}), (2, 0, null), (3, 1, null)")
        await local.rows("delete from t where a = 2")
        await local.rows(f"update t set a = 4 where z = {moment}")
        assert await local.rows(f"select a, z = {moment} from t order by a") == [
            (3, None),
            (4, True),
        ]
        assert await local.rows("select count(f), count(z), count(*) from t") == [(2, 1, 2)]
        await local.rows("merge into t using (select 3 as k) on a = k when matched then delete")
        assert await local.rows("select a from t") == [(4,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("digits", [0, 1, 3, 5, 6])
def test_every_write_cuts_the_digits_that_a_declaration_does_not_name(
    tmp_path: Path, digits: int
) -> None:
    fraction = "987654321"
    kept = "987654"[:digits].ljust(6, "0")

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(f"create table t (a int, z timestamp_tz({digits}) default null)")
        await local.rows(f"insert into t values (1, '1969-12-31 23:59:59.{fraction} +00:00')")
        await local.rows(
            "insert into t select 2, '2024-01-01 05:00:00.987654Z'::timestamp_tz"
            " union all select 3, null"
        )
        await local.rows(f"update t set z = '2024-01-01 00:00:00.{fraction}Z' where a = 3")
        await local.rows(
            f"merge into t using (select 4 as k, '2024-01-01 00:00:00.{fraction}Z' as v) on a = k"
            " when not matched then insert values (k, v)"
        )
        old, new = f"1969-12-31 23:59:59.{kept} +00:00", f"2024-01-01 00:00:00.{kept} +00:00"
        row = f"5,2024-01-01 00:00:00.{fraction}Z\n"
        await local_sql.put_file(local, "@%t", "a.csv", row.encode())
        await local.rows("copy into t from @%t")
        nanos = {
            "1": bindings.Binding(type="fixed", values=(6, 7), is_array=True),
            "2": bindings.Binding(
                type="timestamp_tz",
                values=(bindings.Zoned(nanos=1_704_067_200_987_654_321, offset_minutes=0),) * 2,
                is_array=True,
            ),
        }
        await local.rows("insert into t values (?, ?)", bindings=nanos)
        rows = [(1, old), (2, new.replace(" 00:", " 05:")), *((a, new) for a in range(3, 8))]
        assert await texts(local, "select * from t") == rows
        await local.rows("create table k like t")
        await local.rows("create table c clone t")
        await local.rows("create table s as select * from t")
        for name in ("t", "k", "c", "s"):
            described = await local.rows(f"describe table {name}")
            assert described[1][1] == f"TIMESTAMP_TZ({digits})", name
            await local.rows(f"insert into {name} values (9, '2024-01-01 00:00:00.{fraction}Z')")
            (row,) = await texts(local, f"select * from {name} where a = 9")
            assert row == (9, new), name
        await local.rows(
            f"insert overwrite into t values (1, '1969-12-31 23:59:59.{fraction} -03:30'),"
            f" (2, '0001-01-01 00:00:00.{fraction} +05:30')"
        )
        assert await texts(local, "select * from t") == [
            (1, f"1969-12-31 23:59:59.{kept} -03:30"),
            (2, f"0001-01-01 00:00:00.{kept} +05:30"),
        ]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("declared", ["timestamp_tz", "timestamp_tz(9)"])
def test_a_declaration_without_six_digits_or_fewer_refuses_those_below(
    tmp_path: Path, declared: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(f"create table t (a int, z {declared})")
        for text in ("2024-01-01 00:00:00.123456789Z", "2024-01-01 00:00:00.000000001 +00:00"):
            assert (await refusal(local, f"insert into t values (1, '{text}')"))[0] == "000002"
        await local.rows("alter table t alter column z type timestamp_tz(6)")
        await local.rows("insert into t values (1, '2024-01-01 00:00:00.123456789Z')")
        assert await texts(local, "select * from t") == [(1, "2024-01-01 00:00:00.123456 +00:00")]
        assert (await refusal(local, "alter table t alter column z type timestamp_tz(3)"))[
            0
        ] == "002108"

    local_sql.run_local(tmp_path, work)
