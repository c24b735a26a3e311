"""Statements over a real catalog: DDL, DML, sessions, transactions, rights."""

from __future__ import annotations

import asyncio
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import errors as catalog_errors
from catalog import staging
from sql import bindings, errors, outcomes, parameters, planning, sessions
from storage import batch
from tests.kit import lakes, local_sql, manifestfiles, waits

STAMP = datetime.datetime


async def code_of(local: local_sql.LocalSql, text: str, **more: Any) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text, **more)
    return caught.value.code


def count_files(local: local_sql.LocalSql, dotted: str) -> int:
    prefix = "/".join(dotted.split(".")) + "/data/"
    page = local.lake.storage.objects.list("lake", prefix=prefix)
    return len(page.objects)


def test_create_insert_select_drop_are_real_iceberg_commits(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        created = "create table t (id int not null, v varchar(5), n number(10,2), d date, f float)"
        assert await local.rows(created) == [("Table T successfully created.",)]
        outcome = await local.run(
            "insert into t values (1, 'a', 1.255, '2024-02-29', 1.5), (2, null, null, null, null)"
        )
        assert [column.name for column in outcome.columns] == ["number of rows inserted"]
        assert outcome.rows == ((2,),)
        assert outcome.statement_type_id == outcomes.StatementType.INSERT
        assert outcome.stats == outcomes.Stats(rows_inserted=2)

        metadata = local.lake.load(local.lake.ident("ns.t")).metadata
        assert [
            (item["name"], item["type"], item["required"])
            for item in metadata.current_schema()["fields"]
        ] == [
            ("id", "long", True),
            ("v", "string", False),
            ("n", "decimal(10,2)", False),
            ("d", "date", False),
            ("f", "double", False),
        ]
        summary = metadata.snapshot(metadata.current_snapshot_id)["summary"]
        assert summary["operation"] == "append"
        assert summary["added-records"] == "2"
        assert await local.rows("select * from t order by id") == [
            (1, "a", Decimal("1.26"), datetime.date(2024, 2, 29), 1.5),
            (2, None, None, None, None),
        ]
        assert await local.rows("drop table t") == [("T successfully dropped.",)]
        assert await code_of(local, "select * from t") == "002003"

    local_sql.run_local(tmp_path, work)


def test_an_insert_that_comes_again_after_a_restart_is_not_done_twice(tmp_path: Path) -> None:
    async def insert(local: local_sql.LocalSql) -> None:
        if not local.lake.namespaces.exists("lake", ("once",)):
            await local.rows("create schema lake.once")
            await local.rows("create table lake.once.t (id int)")
        for query_id, text in (
            ("11111111-1111-5111-8111-111111111111", "values (1), (2)"),
            ("22222222-2222-5222-8222-222222222222", "select 3 where false"),
        ):
            expected = 2 if "values" in text else 0
            outcome = f"insert into lake.once.t {text}"
            assert await local.rows(outcome, query_id=query_id) == [(expected,)]
        assert await local.one("select count(*) from lake.once.t") == 2
        assert count_files(local, "once.t") == 1

    local_sql.run_local(tmp_path, insert)
    local_sql.run_local(tmp_path, insert)


def test_ddl_that_comes_again_after_a_restart_has_its_first_answer_and_is_not_done_twice(
    tmp_path: Path,
) -> None:
    statements_of = [
        ("create schema lake.again", "Schema AGAIN successfully created."),
        ("create table lake.again.plain (id int)", "Table PLAIN successfully created."),
        (
            "create table lake.again.t as select column1 as id from values (1), (2)",
            "Table T successfully created.",
        ),
        ("drop table lake.again.plain", "PLAIN successfully dropped."),
        ("create schema lake.gone", "Schema GONE successfully created."),
        ("drop schema lake.gone", "GONE successfully dropped."),
    ]

    async def work(local: local_sql.LocalSql) -> list[outcomes.Stats | None]:
        stats = []
        for number, (text, answer) in enumerate(statements_of):
            query_id = f"{number}1111111-1111-5111-8111-111111111111"
            outcome = await local.run(text, query_id=query_id)
            assert outcome.rows == ((answer,),), text
            stats.append(outcome.stats)
        assert await local.one("select count(*) from lake.again.t") == 2
        assert await code_of(local, "select * from lake.again.plain") == "002003"
        assert local.lake.namespaces.exists("lake", ("again",))
        assert not local.lake.namespaces.exists("lake", ("gone",))
        return stats

    async def meanwhile(local: local_sql.LocalSql) -> None:
        await local.rows("create table lake.again.plain (other int)")

    async def dropped_again(local: local_sql.LocalSql) -> None:
        text, answer = statements_of[3]
        query_id = "31111111-1111-5111-8111-111111111111"
        assert await local.rows(text, query_id=query_id) == [(answer,)]
        assert await local.one("select count(*) from lake.again.plain") == 0
        assert await code_of(local, "create table lake.again.t as select 1 as a") == "002002"

    first = local_sql.run_local(tmp_path, work)
    assert local_sql.run_local(tmp_path, work) == first
    assert first[2] == outcomes.Stats(rows_inserted=2)
    local_sql.run_local(tmp_path, meanwhile)
    local_sql.run_local(tmp_path, dropped_again)


def test_an_insert_cancelled_while_it_commits_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (id int)")
        index = local.lake.storage.index
        begun, go_on, commit = asyncio.Event(), asyncio.Event(), index.commit

        async def slow(transaction: Any) -> None:
            if not any(each.store is batch.Store.POINTERS for each in transaction.writes):
                await commit(transaction)
                return
            done = asyncio.ensure_future(commit(transaction))
            begun.set()
            await go_on.wait()
            await done

        monkeypatch.setattr(index, "commit", slow)  # the writer thread, but slow
        running = asyncio.ensure_future(local.rows("insert into t values (1)"))
        await asyncio.wait_for(begun.wait(), waits.WAIT_SECONDS)
        running.cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert await running == [(1,)]
        assert await local.one("select count(*) from t") == 1
        assert await local.one("select id from t") == 1

    local_sql.run_local(tmp_path, work)


def test_written_files_carry_field_ids_and_statistics(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, name varchar)")
        await local.run("insert into t select column1, column2 from values (5, 'x'), (7, 'y')")
        (file,) = await manifestfiles.live_files(local.scans, local.reader("ns.t"))

        bucket, _, key = file.file_path.removeprefix("s3://").partition("/")
        info = local.lake.storage.objects.head(bucket, key)
        read = pq.read_table(local.lake.storage.links.path_of(info))
        assert read.to_pylist() == [{"id": 5, "name": "x"}, {"id": 7, "name": "y"}]
        assert [item.metadata[b"PARQUET:field_id"] for item in read.schema] == [b"1", b"2"]
        assert file.record_count == 2
        assert file.metrics.lower_bounds == {1: (5).to_bytes(8, "little"), 2: b"x"}
        assert file.metrics.upper_bounds == {1: (7).to_bytes(8, "little"), 2: b"y"}
        assert file.metrics.null_value_counts == {1: 0, 2: 0}
        assert info.attributes.owner == local.session.principal.arn

    local_sql.run_local(tmp_path, work)


def test_column_lists_reorder_and_leave_out(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run('create table t (a int, b varchar, "C c" date)')
        await local.run("insert into t (\"C c\", A) values ('2024-01-01', 1)")
        await local.run("insert into t (b) select 'only'")

        assert await local.rows("select * from t order by a") == [
            (1, None, datetime.date(2024, 1, 1)),
            (None, "only", None),
        ]
        assert await code_of(local, "insert into t (a, a) values (1, 1)") == "002025"
        assert await code_of(local, "insert into t (nosuch) values (1)") == "000904"
        assert await code_of(local, "insert into t values (1)") == "002020"
        assert await code_of(local, "insert into t (a) select 1, 2") == "002020"

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ("(null, 'x')", "100072"),
        ("(1, 'toolong')", "100078"),
        ("('abc', 'x')", "100038"),
        ("(99999999999999999999, 'x')", "100039"),
        ("(1/0, 'x')", "100051"),
    ],
)
def test_a_refused_insert_changes_nothing_and_leaves_no_file(
    tmp_path: Path, values: str, code: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int not null, v varchar(5))")
        await local.run("insert into t values (1, 'a')")
        before = local.lake.load(local.lake.ident("ns.t")).pointer

        assert await code_of(local, f"insert into t values (2, 'ok'), {values}") == code

        assert local.lake.load(local.lake.ident("ns.t")).pointer == before
        assert count_files(local, "ns.t") == 1
        assert list((tmp_path / "tmp").iterdir()) == []

    local_sql.run_local(tmp_path, work)


NUMBERS = [(1, 0), (5, 0), (9, 0), (10, 2), (18, 0), (18, 5), (19, 0), (38, 0), (38, 37)]


@pytest.mark.parametrize(("digits", "scale"), NUMBERS)
def test_every_integer_within_a_number_can_be_inserted(
    tmp_path: Path, digits: int, scale: int
) -> None:
    highest = 10 ** (digits - scale) - 1

    async def work(local: local_sql.LocalSql) -> None:
        await local.run(f"create table t (n number({digits},{scale}))")
        await local.run("create table small (i int)")
        await local.run("insert into small values (1), (-1)")
        expected: list[int | None] = []

        async def insert(source: str, rows: list[int | None], *values: Any) -> None:
            bound = binds(*(("FIXED", value) for value in values))
            await local.run(f"insert into t {source}", bindings=bound)
            expected.extend(rows)

        await insert(f"values ({highest}), (-{highest}), (null)", [highest, -highest, None])
        await insert(f"values ('{highest}')", [highest])
        await insert(f"select {highest}", [highest])
        await insert("select 1::number(1)", [1])
        await insert("select i from small", [1, -1])
        await insert("values (true)", [1])
        await insert("select length('x')", [1])
        await insert("values (?)", [highest], str(highest))
        await insert("select ?", [-highest], str(-highest))
        await insert("values (?)", [highest, None, -highest], [str(highest), None, str(-highest)])
        await local.run("create table copied as select n from t")
        await local.run("insert into copied select n from t")

        for table, times in (("t", 1), ("copied", 2)):
            stored = [row[0] for row in await local.rows(f"select n from {table}")]
            assert sorted(stored, key=str) == sorted(expected * times, key=lambda item: str(
                item if item is None else Decimal(f"{item}." + "0" * scale)))  # fmt: skip

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(("digits", "scale"), NUMBERS)
def test_an_integer_beyond_a_number_is_out_of_range_and_nothing_is_inserted(
    tmp_path: Path, digits: int, scale: int
) -> None:
    # 10^38 has 39 digits and is a FLOAT, whose double is a little less: 9.9999999999999998e37.
    beyond = 10 ** (digits - scale) * (2 if digits - scale == 38 else 1)
    bound = [binds(("FIXED", str(beyond))), binds(("FIXED", ["0", str(-beyond)]))]

    async def work(local: local_sql.LocalSql) -> None:
        await local.run(f"create table t (n number({digits},{scale}))")
        for source in (f"values (0), ({beyond})", f"values (-{beyond})", f"select {beyond}"):
            assert await code_of(local, f"insert into t {source}") == "100039", source
        for values in bound:
            assert await code_of(local, "insert into t values (?)", bindings=values) == "100039"
        assert await local.rows("select count(*) from t") == [(0,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("transform", [None, "identity", "bucket[4]"])
def test_bytes_of_a_fixed_length_are_inserted_exactly(
    tmp_path: Path, transform: str | None
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        fields = [
            {"id": 1, "name": "id", "type": "long", "required": False},
            {"id": 2, "name": "f", "type": "fixed[4]", "required": False},
        ]
        spec = {"spec-id": 0, "fields": [
            {"source-id": 2, "field-id": 1000, "name": "p", "transform": transform}
        ]}  # fmt: skip
        await local.lake.tables.create(
            local.lake.ident("ns.t"),
            schema={"type": "struct", "schema-id": 0, "fields": fields},
            partition_spec=spec if transform else None,
            by=lakes.BY,
        )
        await local.run("insert into t (id) values (1)")
        await local.run("insert into t values (2, x'00ff00ff'), (3, null), (4, x'01020304')")
        await local.run("insert into t select id + 10, f from t where id > 1")

        rows = [(1, None), (2, b"\0\xff\0\xff"), (3, None), (4, bytes([1, 2, 3, 4]))]
        rows += [(id_ + 10, value) for id_, value in rows[1:]]
        assert await local.rows("select * from t order by id") == rows
        assert await local.rows("select id from t where f = x'01020304' order by id") == [
            (4,), (14,),
        ]  # fmt: skip
        assert await code_of(local, "insert into t values (5, x'0102030405')") == "100078"
        assert await code_of(local, "insert into t values (5, x'010203')") == "001008"
        assert await local.rows("select count(*) from t") == [(7,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_table_whose_location_has_another_scheme_takes_rows(tmp_path: Path, scheme: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.lake.tables.create(
            local.lake.ident("ns.t"),
            schema=lakes.SCHEMA,
            location=f"{scheme}://lake/ns/place",
            by=lakes.BY,
        )
        await local.run("insert into t values (1, 'a')")
        await local.run("insert into t select id + 1, name from t")

        assert await local.rows("select * from t order by id") == [(1, "a"), (2, "a")]
        assert count_files(local, "ns.place") == 2
        location = local.lake.load(local.lake.ident("ns.t")).metadata.location
        assert location == f"{scheme}://lake/ns/place"
        assert await code_of(local, "insert into t select null, 'x'") == "100072"
        assert count_files(local, "ns.place") == 2

    local_sql.run_local(tmp_path, work)


def test_inserted_values_are_converted_as_snowflake_does(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create table t (i int, n number(5,1), s varchar, b boolean, d date, "
            "ts timestamp_ntz, tm time, x binary)"
        )
        await local.run(
            "insert into t values ('12', '1.25', 5, 'yes', '2024-02-29 10:00:00', "
            "'2024-02-29', '10:11:12.5', 'ab01')"
        )

        assert await local.rows("select * from t") == [
            (
                12,
                Decimal("1.3"),
                "5",
                True,
                datetime.date(2024, 2, 29),
                STAMP(2024, 2, 29),
                datetime.time(10, 11, 12, 500000),
                b"\xab\x01",
            )
        ]

    local_sql.run_local(tmp_path, work)


def test_partitioned_and_clustered_tables_are_written_by_their_spec(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create table t (id int, k varchar, m timestamp) "
            "partition by (k, month(m), bucket(4, id)) cluster by (id)"
        )
        await local.run(
            "insert into t values (3, 'x', '2024-01-31 23:59:59'), (1, 'x', '2024-01-01'), "
            "(2, 'y z', '1969-12-31'), (4, null, null)"
        )
        loaded = local.lake.load(local.lake.ident("ns.t"))
        files = await manifestfiles.live_files(
            local.scans, local.readers.of(local_sql.ROOT, loaded)
        )

        # Buckets of 1..4 are 32-bit murmur3 of the 8-byte value: 0, 0, 3, 2 modulo 4.
        written = {file.partition: (file.record_count, file.sort_order_id) for file in files}
        assert {partition[:2] for partition in written} == {("x", 648), ("y z", -1), (None, None)}
        assert sum(rows for rows, _ in written.values()) == 4
        assert {order for _, order in written.values()} == {1}
        assert any("/k=y+z/m_month=1969-12/" in file.file_path for file in files)
        assert await local.rows("select id from t where k = 'x' order by id") == [(1,), (3,)]
        assert await local.rows("select id from t where m < '1970-01-01'") == [(2,)]

    local_sql.run_local(tmp_path, work)


def test_create_table_as_is_one_commit(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table s (id int, v varchar(7))")
        await local.run("insert into s values (1, 'a'), (2, 'b')")
        before = len(local.lake.log())
        outcome = await local.run(
            'create table c as select id, v as "Mixed", id / 2 half, count(*) over () as n from s'
        )

        assert outcome.rows == (("Table C successfully created.",),)
        assert outcome.stats == outcomes.Stats(rows_inserted=2)
        assert len(local.lake.log()) == before + 1
        assert await local.rows("select * from c order by id") == [
            (1, "a", Decimal("0.500000"), 2),
            (2, "b", Decimal("1.000000"), 2),
        ]
        described = await local.rows("describe table c")
        assert [(row[0], row[1]) for row in described] == [
            ("ID", "NUMBER(38,0)"),
            ("Mixed", "VARCHAR(7)"),
            ("HALF", "NUMBER(38,6)"),
            ("N", "NUMBER(38,0)"),
        ]
        await local.run("create table e (a int, b varchar(3)) as select id, v from s where false")
        assert await local.rows("select count(*) from e") == [(0,)]
        assert await code_of(local, "create table f as select 1 a, 2 a") == "002025"
        assert await code_of(local, "create table f as select count(*) from s") == "002022"
        assert await code_of(local, "create table f as select 'abc'::int x") == "100038"
        assert await code_of(local, "select * from f") == "002003"

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "create", ["create table T (a int)", "create table if not exists t as select 7 as a"]
)
def test_a_table_that_another_api_made_without_metadata_is_created_at_its_place(
    tmp_path: Path, create: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        ident = local.lake.ident("ns.t")
        before = await local.lake.tables.create_empty(ident, by="arn:aws:iam::1:root")
        assert await code_of(local, "select * from t") == "000002"
        assert await local.one(create) == "Table T successfully created."
        after = local.lake.load(ident).pointer
        assert (after.object_uuid, after.location) == (before.object_uuid, before.location)
        await local.run("insert into t values (1)")
        assert (1,) in await local.rows("select a from t")
        assert await code_of(local, "create table t (a int)") == "002002"

    local_sql.run_local(tmp_path, work)


def test_names_that_are_taken_or_missing_are_snowflakes_errors(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        assert await code_of(local, "create table T (a int)") == "002002"
        assert await local.one("create table if not exists t (a int)") == (
            "T already exists, statement succeeded."
        )
        assert await local.one("create or replace table t (a int)") == (
            "Table T successfully created."
        )
        assert await local.one("create or replace table fresh (a int)") == (
            "Table FRESH successfully created."
        )
        assert await code_of(local, "drop table nosuch") == "002003"
        assert await local.one("drop table if exists nosuch") == (
            "Drop statement executed successfully (NOSUCH already dropped)."
        )
        assert await code_of(local, "create table a.b.c (a int)") == "002003"
        assert await code_of(local, "create table nosuch.c (a int)") == "002003"
        assert await code_of(local, "select * from lake.ns.nosuch") == "002003"
        assert await code_of(local, "use schema nosuch") == "002003"
        assert await code_of(local, "use database nosuch") == "002003"
        assert await code_of(local, "create table d (a int, A varchar)") == "002025"

    local_sql.run_local(tmp_path, work)


def test_unquoted_names_are_stored_lower_case_and_found_in_any(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run('create table TaB (Col int, "Exact" int, "UP" int)')
        await local.run("insert into tab values (1, 2, 3)")
        names = [
            item["name"]
            for item in local.lake.load(local.lake.ident("ns.tab")).metadata.current_schema()[
                "fields"
            ]
        ]
        assert names == ["col", "Exact", "UP"]
        for text in (
            "select col, exact, up from tab",
            'select "COL", "Exact", "UP" from "TAB"',
            'select "col", EXACT, Up from Lake.NS."tab"',
        ):
            assert await local.rows(text) == [(1, 2, 3)], text
        assert await code_of(local, 'select "Col" from tab') == "000904"
        assert await code_of(local, 'select * from "Tab"') == "002003"

    local_sql.run_local(tmp_path, work)


def test_schemas_are_made_used_and_dropped_with_what_they_hold(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        assert await local.one("create schema if not exists lake.s2") == (
            "Schema S2 successfully created."
        )
        assert (local.session.database, local.session.schema) == ("lake", "s2")
        assert await local.one("create schema if not exists s2") == (
            "S2 already exists, statement succeeded."
        )
        assert await code_of(local, "create schema s2") == "002002"
        await local.run("create table t (a int)")
        await local.run("use schema ns")
        assert await code_of(local, "select * from t") == "002003"
        assert await local.rows("select count(*) from s2.t") == [(0,)]
        assert await local.one("drop schema s2 cascade") == "S2 successfully dropped."
        assert await code_of(local, "select * from s2.t") == "002003"
        assert await code_of(local, "drop schema s2") == "002003"
        assert await local.one("drop schema if exists s2") == (
            "Drop statement executed successfully (S2 already dropped)."
        )

    local_sql.run_local(tmp_path, work)


def test_a_view_of_another_engine_is_no_table_of_sql_and_says_why(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema s")
        await local.lake.views.create(
            local.lake.ident("s.v"),
            schema=lakes.SCHEMA,
            view_version=lakes.VIEW_VERSION,
            by=lakes.BY,
        )
        before = local.lake.log()
        for text, code in (
            ("select * from s.v", "000002"),
            ("insert into s.v values (1, 'x')", "002203"),
            ("create table s.v (id int)", "002002"),
            ("create or replace table s.v as select 1 as x", "001998"),
            ("drop table s.v", "002203"),
        ):
            assert await code_of(local, text) == code, text
        assert local.lake.log() == before
        await local.run("drop schema s")
        with pytest.raises(catalog_errors.NoSuchView):
            local.lake.views.pointer(local.lake.ident("s.v"))

    local_sql.run_local(tmp_path, work)


def test_use_changes_the_context_that_names_are_looked_up_in(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        session = local.session
        session.schema = None
        assert await code_of(local, "create table t (a int)") == "090106"
        outcome = await local.run("use schema lake.ns")
        assert outcome.statement_type_id == outcomes.StatementType.USE_SCHEMA
        assert await local.one("select current_schema()") == "NS"
        assert (await local.run("use warehouse big")).statement_type_id == (
            outcomes.StatementType.USE_WAREHOUSE
        )
        assert await local.one("select current_warehouse()") == "BIG"
        await local.run("use role sysadmin")
        assert await local.one("select current_role()") == "SYSADMIN"
        assert await code_of(local, "use role unknown") == "002003"
        await local.run("use database LAKE")
        assert (session.database, session.schema) == ("lake", None)
        session.database = None
        assert await code_of(local, "select * from t") == "090105"

    local_sql.run_local(tmp_path, work)


def test_variables_are_set_used_and_unset(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1), (5)")
        await local.run("set (low, word) = (2 + 1, 'it''s')")
        await local.run("set top_value = (select max(a) from t)")

        assert await local.rows("select $low + 1, $word, $TOP_VALUE") == [(4, "it's", 5)]
        assert await local.rows("select a from t where a > $low") == [(5,)]
        await local.run("unset (low, word)")
        assert await code_of(local, "select $low") == "002211"

    local_sql.run_local(tmp_path, work)


def test_session_parameters_are_checked_set_and_unset(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("alter session set timezone = 'America/Los_Angeles', query_tag = 'x'")
        assert local.session.parameter("QUERY_TAG") == "x"
        moment = await local.one("select to_timestamp_ltz('2024-07-01 00:00:00')")
        assert moment == datetime.datetime(2024, 7, 1, 7, tzinfo=datetime.UTC)
        assert await local.one("select '2024-07-01 07:00:00Z'::timestamp_ltz::timestamp_ntz") == (
            STAMP(2024, 7, 1)
        )
        await local.run("alter session unset timezone")
        assert local.session.parameter("TIMEZONE") == parameters.PARAMETERS["TIMEZONE"].default
        assert await code_of(local, "alter session set nosuch = 1") == "001006"
        assert await code_of(local, "alter session set timezone = 'Moon'") == "001008"
        await local.run("alter session set timestamp_type_mapping = 'TIMESTAMP_LTZ'")
        outcome = await local.run("select '2024-01-01'::timestamp")
        assert outcome.columns[0].type == "timestamp_ltz"

    local_sql.run_local(tmp_path, work)


def test_quoted_names_are_read_in_upper_case_where_the_session_wants_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run('create table "MixedCase" ("aB" int)')
        await local.run("alter session set quoted_identifiers_ignore_case = true")
        assert await code_of(local, 'select * from "MixedCase"') == "002003"
        await local.run('create table "Other" ("aB" int, b int)')
        await local.run('insert into other ("AB", "b") values (1, 2)')
        outcome = await local.run('select "aB" as "xY", b from Other where "B" = 2')
        assert [column.name for column in outcome.columns] == ["XY", "B"]
        await local.run("alter session unset quoted_identifiers_ignore_case")
        assert await code_of(local, 'select "aB" from other') == "000904"
        setting = {parameters.IGNORE_CASE: True}
        assert await local.rows('select "aB" from "oTHER"', parameters=setting) == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_two_digits_of_a_year_are_in_the_century_that_the_session_says(tmp_path: Path) -> None:
    dates = (
        "select to_date('1.2.' || y, 'DD.MM.YY') from values ('00'), ('69'), ('70'), ('99') v(y)"
    )

    async def work(local: local_sql.LocalSql) -> None:
        for start, years in {
            1970: (2000, 2069, 1970, 1999),
            1900: (1900, 1969, 1970, 1999),
            1999: (2000, 2069, 2070, 1999),
            2100: (2100, 2169, 2170, 2199),
        }.items():
            if start != 1970:
                await local.run(f"alter session set two_digit_century_start = {start}")
            rows = await local.rows(dates)
            assert sorted(day.year for (day,) in rows) == sorted(years)
        # 2100 is no leap year.
        assert await code_of(local, "select to_date('29.02.00', 'DD.MM.YY')") == "100040"

    local_sql.run_local(tmp_path, work)


def test_input_formats_of_the_session_read_texts_as_dates_and_times(tmp_path: Path) -> None:
    day, moment = datetime.date(2024, 4, 3), STAMP(2024, 4, 3, 13, 5)
    ours, usual = "03.04.2024", "2024-04-03"

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (d date, s varchar)")
        await local.run(
            "alter session set date_input_format = 'DD.MM.YYYY', time_input_format = 'HH12-MI AM',"
            " timestamp_input_format = 'MM/DD/YY HH24:MI'"
        )
        texts = f"(select column1 s from values ('{ours}'), ('x'))"
        expected: dict[str, object] = {
            f"select '{ours}'::date": day,
            f"select date '{ours}'": day,
            f"select max(try_cast(s as date)) from {texts}": day,
            f"select max(try_to_date(s)) from {texts}": day,
            f"select count(*) from {texts} where try_to_date(s) = '{ours}'": 1,
            f"select to_date('{ours}') between '02.04.2024' and '04.04.2024'": True,
            f"select to_date('{ours}') in ('04.04.2024', '{ours}')": True,
            f"select iff(true, '{ours}', to_date('{ours}'))": day,
            "select '01-05 pm'::time": datetime.time(13, 5),
            "select '04/03/24 13:05'::timestamp_ntz": moment,
            "select '04/03/24 13:05'::timestamp_ltz::timestamp_ntz": moment,
            "select '04/03/24 13:05'::timestamp_tz::timestamp_ntz": moment,
            "select '04/03/24 13:05'::timestamp_ntz(0)": moment,
            "select dateadd(hour, 1, '04/03/24 12:05')": moment,
            f"select max(d) from (select to_date('01.04.2024') d union select '{ours}')": day,
            # A format of the statement's own, AUTO, and VARIANTs, which are read by AUTO
            f"select to_date('{usual}', 'YYYY-MM-DD')": day,
            f"select to_date('{usual}', 'auto')": day,
            f"select parse_json('[\"{usual}\"]')[0]::date": day,
        }  # fmt: skip
        for text, value in expected.items():
            assert await local.one(text) == value, text
        for text in (f"select '{usual}'::date", f"select to_date(s) from {texts}"):
            assert await code_of(local, text) == "100040", text
        await local.run(f"insert into t values ('{ours}', '{ours}')")
        await local.run("insert into t select s, 'x' from t")
        await local.run("update t set d = '05.04.2024' where s = 'x' and d = '03.04.2024'")
        assert sorted(await local.rows("select d from t")) == [
            (day,), (datetime.date(2024, 4, 5),)
        ]  # fmt: skip
        pivot = "select * from (select d, 1 n from t) pivot (count(n) for d in (any))"
        assert await local.rows(pivot) == [(1, 1)]
        await local.run("alter session unset date_input_format")
        assert await local.one(f"select '{usual}'::date") == day
        assert await code_of(local, "select '13.04.2024'::date") == "100040"
        assert await code_of(local, "alter session set date_input_format = 'J'") == "000002"

    local_sql.run_local(tmp_path, work)


def test_output_formats_of_the_session_make_text_of_dates_and_times(tmp_path: Path) -> None:
    text = (
        "select d::varchar, to_char(ts), 'on ' || d, upper(t), ts like '29.%' from "
        "(select '2024-02-29'::date d, '2024-02-29 13:14:15'::timestamp ts, '13:14'::time t)"
    )

    async def work(local: local_sql.LocalSql) -> None:
        assert await local.rows(text) == [
            ("2024-02-29", "2024-02-29 13:14:15.000", "on 2024-02-29", "13:14:00", False)
        ]
        await local.run(
            "alter session set date_output_format = 'DD MON YYYY', "
            "timestamp_ntz_output_format = 'DD.MM.YYYY HH12:MI AM', time_output_format = 'HH24:MI'"
        )
        assert await local.rows(text) == [
            ("29 Feb 2024", "29.02.2024 01:14 PM", "on 29 Feb 2024", "13:14", True)
        ]
        await local.run("create table s (v varchar)")
        await local.run("insert into s values ('2024-02-29'::date)")
        assert await local.rows("select v from s") == [("29 Feb 2024",)]
        await local.run("alter session set date_output_format = 'AUTO'")
        assert await local.one("select '2024-02-29'::date::varchar") == "2024-02-29"

    local_sql.run_local(tmp_path, work)


def test_a_transaction_reads_its_own_changes_and_commits_them_together(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("create table u (a int)")
        commits_before = len(local.lake.log())

        await local.run("begin")
        assert await local.rows("insert into t values (1), (2)") == [(2,)]
        assert await local.rows("select count(*) from t") == [(2,)]
        assert await local.rows("insert into t select a + 10 from t") == [(2,)]
        assert await local.rows("select a from t order by a") == [(1,), (2,), (11,), (12,)]
        assert await local.rows("insert into u select sum(a) from t") == [(1,)]
        assert await local.rows("select a from u where a > 25") == [(26,)]
        assert len(local.lake.log()) == commits_before
        assert local.lake.load(local.lake.ident("ns.t")).metadata.current_snapshot_id is None
        await local.run("rollback")
        assert await local.rows("select count(*) from t") == [(0,)]
        assert count_files(local, "ns.t") == count_files(local, "ns.u") == 0

        await local.run("begin transaction")
        await local.run("insert into t values (4)")
        await local.run("insert into t values (5)")
        await local.run("insert into u values (6)")
        await local.run("commit")
        assert len(local.lake.log()) == commits_before + 1
        assert await local.rows("select a from t order by a") == [(4,), (5,)]
        assert await local.rows("select a from u") == [(6,)]

        await local.run("begin")
        await local.run("insert into t values (7)")
        await local.run("create table v (a int)")  # DDL commits first
        assert await local.rows("select count(*) from t") == [(3,)]
        assert (await local.run("rollback")).statement_type_id == outcomes.StatementType.BEGIN
        assert await local.rows("select count(*) from t") == [(3,)]
        assert (await local.run("commit")).statement_type_id == outcomes.StatementType.COMMIT

    local_sql.run_local(tmp_path, work)


def test_without_autocommit_dml_waits_for_commit(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("alter session set autocommit = false")
        await local.run("insert into t values (1)")
        await local.run("rollback")
        await local.run("insert into t values (2)")
        await local.run("commit")
        assert await local.rows("select a from t") == [(2,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("on", ["set autocommit = true", "unset autocommit"])
def test_turning_autocommit_on_commits_the_open_transaction(tmp_path: Path, on: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("alter session set autocommit = false")
        await local.run("insert into t values (1)")
        await local.run(f"alter session {on}")
        assert await local.rows("select a from t") == [(1,)]
        await local.run("insert into t values (2)")
        await local.run("rollback")
        assert await local.rows("select a from t order by a") == [(1,), (2,)]

        await local.run("begin")
        await local.run("insert into t values (3)")
        await local.run(f"alter session {on}")  # it was on before
        await local.run("rollback")
        assert await local.rows("select count(*) from t") == [(2,)]

    local_sql.run_local(tmp_path, work)


def test_an_unquoted_name_creates_and_drops_nothing_of_mixed_case(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run('create table "Foo" (a int)')
        await local.run('insert into "Foo" values (1)')
        assert await code_of(local, "drop table foo") == "002003"
        (row,) = await local.rows("drop table if exists foo")
        assert row == ("Drop statement executed successfully (FOO already dropped).",)
        assert await local.rows("select a from foo") == [(1,)]  # read, for want of another

        await local.run("create table foo (a int)")
        await local.run("insert into foo values (2)")
        assert await local.rows("select a from foo") == [(2,)]
        await local.run("drop table foo")
        await local.run("drop table if exists foo")
        assert await local.rows('select a from "Foo"') == [(1,)]

        await local.run('create schema "Bar"')
        await local.run('create table "Bar".t (a int)')
        assert await code_of(local, "drop schema bar") == "002003"
        await local.run("drop schema if exists bar")
        await local.run("create schema bar")
        await local.run("drop schema bar")
        await local.run("drop schema if exists bar")
        assert await local.rows('select a from "Bar".t') == []

    local_sql.run_local(tmp_path, work)


MIXED_CASE = (
    'create table "Foo" (b int, "Cc" int)',
    'insert into "Foo" values (1, 2)',
    "create table plain (b int)",
    'create view "Vw" as select 1 x',
    'create sequence "Sq"',
    'create stage "St"',
    'create file format "Ff" type = csv',
    'create schema "Sch"',
    'create table "Sch".t (a int)',
    'create view "Sch".v as select 1 x',
    'create sequence "Sch".s',
    'create stage "Sch".g',
    "use schema lake.ns",
)
CHANGING = {
    "foo": (
        "drop table foo",
        "truncate table foo",
        "insert into foo values (1, 2)",
        "insert overwrite into foo values (5, 6)",
        "insert all into foo values (1, 2) select 1",
        "update foo set b = 3",
        "delete from foo",
        "merge into foo using (select 1 b) s on foo.b = s.b when matched then delete",
        "explain insert into foo values (1, 2)",
        "explain delete from foo",
        "alter table foo rename to bar",
        "alter table foo add column z int",
        "alter table foo drop column b",
        "alter table foo swap with plain",
        "alter table plain swap with foo",
        "alter table plain add foreign key (b) references foo (b)",
        "comment on table foo is 'x'",
        "comment on column foo.b is 'x'",
        "copy into foo from @~/none",
        "remove @%foo",
        "grant select on table foo to role public",
    ),
    "sch": (
        "drop schema sch",
        "comment on schema sch is 'x'",
        "create table sch.u (a int)",
        "create temporary table sch.u (a int)",
        "create view sch.w as select 1 x",
        "create sequence sch.s2",
        "create stage sch.g2",
        "create file format sch.f2 type = csv",
        "drop table sch.t",
        "drop view sch.v",
        "drop sequence sch.s",
        "drop stage sch.g",
        "truncate table sch.t",
        "insert into sch.t values (1)",
        "update sch.t set a = 1",
        "delete from sch.t",
        "alter table sch.t add column z int",
        "alter table plain rename to sch.plain",
        "alter view sch.v rename to sch.w",
        "remove @sch.g",
        "undrop table sch.gone",
        "grant usage on schema sch to role public",
    ),
    "sq": (
        "drop sequence sq",
        "alter sequence sq rename to sr",
        "alter sequence sq set increment 5",
    ),
    "others": (
        "drop view vw",
        "alter view vw rename to vx",
        "comment on view vw is 'x'",
        "drop stage st",
        "remove @st",
        "drop file format ff",
    ),
}


@pytest.mark.parametrize("named", CHANGING)
def test_statements_that_change_something_refuse_the_mixed_case_namesake(
    tmp_path: Path, named: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text in MIXED_CASE:
            await local.run(text)
        before = await local.rows("show objects")
        codes = {text: await code_of(local, text) for text in CHANGING[named]}
        assert codes == dict.fromkeys(CHANGING[named], "002003")
        assert await local.rows("show objects") == before
        assert await local.rows('select * from "Foo"') == [(1, 2)]
        assert await local.rows('select "Sq".nextval') == [(1,)]
        # Reading finds them: a table of another engine may have any letters.
        assert await local.rows("select * from foo") == [(1, 2)]
        assert await local.rows("select * from sch.v, vw") == [(1, 1)]
        await local.run("describe table foo")

    local_sql.run_local(tmp_path, work)


def test_if_exists_skips_the_mixed_case_namesake(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text in MIXED_CASE:
            await local.run(text)
        for text in (
            "drop sequence if exists sq",
            "drop table if exists sch.t",
            "alter table if exists foo rename to bar",
            "truncate table if exists foo",
        ):
            await local.run(text)
        assert await local.rows('select * from "Foo"') == [(1, 2)]
        assert await local.rows('select count(*) from "Sch".t') == [(0,)]
        assert await local.rows('select "Sq".nextval') == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_alter_table_refuses_the_mixed_case_namesake_of_a_column(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run('create table t (a int, "Bb" int)')
        for change in (
            "drop column bb",
            "rename column bb to c",
            "alter column bb set not null",
            "alter column bb comment 'x'",
        ):
            assert (change, await code_of(local, f"alter table t {change}")) == (change, "000904")
        # For engines that ignore case the names would be one.
        assert await code_of(local, "alter table t add column bb int") == "001430"
        assert [row[0] for row in await local.rows("describe table t")] == ["A", "Bb"]

    local_sql.run_local(tmp_path, work)


def restarted(local: local_sql.LocalSql, record: bytes) -> None:
    """Use the session that a record on disk says."""
    fields = sessions._decode(record)
    del fields["principal"], fields["principal_id"], fields["access_key"]
    local.session = sessions.Session(id=1, principal=local_sql.ROOT, **fields)


def test_after_a_crash_the_table_shows_whether_a_commit_happened(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("begin")
        await local.run("insert into t values (1)")
        before_commit = sessions._encode(local.session)

        restarted(local, before_commit)
        assert await code_of(local, "commit") == "000625"
        await local.run("commit")  # said once
        assert await local.rows("select a from t") == []

        await local.run("begin")
        await local.run("insert into t values (2)")
        before_commit = sessions._encode(local.session)
        await local.run("commit")
        for text in ("commit", "create table u (a int)", "select a from t", "rollback"):
            restarted(local, before_commit)
            await local.run(text)
            assert not local.session.transaction_lost
        assert await local.rows("select a from t") == [(2,)]

        restarted(local, before_commit)
        await local.run("drop table t")
        restarted(local, before_commit)
        await local.run("commit")  # its receipt outlives the table

    local_sql.run_local(tmp_path, work)


def test_a_record_written_while_rows_are_committed_says_what_was_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile: list[bytes] = []
    committed = staging.Staging.commit

    async def work(local: local_sql.LocalSql) -> None:
        async def commit(*arguments: Any, **named: Any) -> Any:
            meanwhile.append(sessions._encode(local.session))
            return await committed(*arguments, **named)

        await local.run("create table t (a int)")
        await local.run("begin")
        await local.run("insert into t values (1)")
        monkeypatch.setattr(staging.Staging, "commit", commit)
        await local.run("commit")
        restarted(local, sessions._encode(local.session))
        assert not local.session.transaction_lost
        restarted(local, meanwhile[0])
        assert local.session.transaction_lost
        await local.run("rollback")
        restarted(local, meanwhile[0])
        await local.run("commit")

    local_sql.run_local(tmp_path, work)


def test_a_transaction_in_which_nothing_waits_outlives_the_server(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("begin")
        restarted(local, sessions._encode(local.session))
        await local.run("insert into t values (1)")
        await local.run("rollback")
        assert await local.rows("select a from t") == []
        await local.run("begin")
        restarted(local, sessions._encode(local.session))
        await local.run("commit")
        assert local.session.transaction is None

    local_sql.run_local(tmp_path, work)


def binds(*values: tuple[str, Any]) -> dict[str, bindings.Binding]:
    return bindings.parse(
        {
            str(place): {"type": type_name, "value": value}
            for place, (type_name, value) in enumerate(values, start=1)
        }
    )


def test_bound_values_are_typed_literals(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, s varchar, d date)")
        await local.run(
            "insert into t values (?, ?, ?)",
            bindings=binds(("FIXED", "5"), ("TEXT", "q'); drop"), ("DATE", "1709164800000")),
        )
        rows = await local.rows(
            "select a, s, d from t where a = :1 and s = :2",
            bindings=binds(("FIXED", "5"), ("TEXT", "q'); drop")),
        )
        assert rows == [(5, "q'); drop", datetime.date(2024, 2, 29))]
        assert await local.rows(
            "select ? + 1, ?, ?, ?",
            bindings=binds(
                ("FIXED", "1.5"),
                ("BOOLEAN", "true"),
                ("TIMESTAMP_NTZ", "1709210096123456000"),
                ("ANY", None),
            ),
        ) == [(Decimal("2.5"), True, STAMP(2024, 2, 29, 12, 34, 56, 123456), None)]
        assert await code_of(local, "select ?") == "002049"

    local_sql.run_local(tmp_path, work)


def test_array_binds_are_one_row_each_and_one_commit(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, n number(5,2), s varchar, at timestamp_ntz)")
        before = len(local.lake.log())
        outcome = await local.run(
            "insert into t (a, n, s, at) values (?, ? * 2, upper(?), ?)",
            bindings=binds(
                ("FIXED", ["1", "2", None]),
                ("FIXED", ["1.5", "2.25", "3"]),
                ("TEXT", ["x", None, "z"]),
                ("TIMESTAMP_NTZ", ["0", "1000000000", None]),
            ),
        )

        assert outcome.rows == ((3,),)
        assert len(local.lake.log()) == before + 1
        assert await local.rows("select a, n, s, at from t order by n") == [
            (1, Decimal("3.00"), "X", STAMP(1970, 1, 1)),
            (2, Decimal("4.50"), None, STAMP(1970, 1, 1, 0, 0, 1)),
            (None, Decimal("6.00"), "Z", None),
        ]
        two_rows = "insert into t (a) values (?), (?)"
        lists = binds(("FIXED", ["1"]), ("FIXED", ["2"]))
        assert await code_of(local, two_rows, bindings=lists) == "000002"

    local_sql.run_local(tmp_path, work)


ROWWISE_INSERTS = (
    "insert into t select ?, parse_json(?)",
    "insert into t (a, v) select :1, parse_json(:2) where :1 is not null",
    "insert into t (a, v) select column1, parse_json(column2) from values (?, ?)",
    "insert into t select $1, parse_json($2) from values (?, ?) where column1 is not null",
    "insert into t select v.k, parse_json(v.d) from (values (?, ?)) as v(k, d)",
    "insert into t select k, parse_json(d) from (select ? as k, ? as d) s",
    "insert into t select ?, (select max(parse_json(x)) from (select '1' x) where ? is not null)",
)
"""The last one is refused: its second placeholder is no part of the row itself."""
LISTS = (("FIXED", ["1", "2", "3"]), ("TEXT", ['{"k":1}', None, "[2]"]))


@pytest.mark.parametrize("text", ROWWISE_INSERTS[:-1])
def test_array_binds_of_insert_select_give_what_the_rows_would_one_by_one(
    tmp_path: Path, text: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, v variant)")
        described = await local.run(text, describe_only=True)
        assert described.array_bind_supported
        assert described.bind_count == 2

        before = len(local.lake.log())
        assert (await local.run(text, bindings=binds(*LISTS))).rows == ((3,),)
        assert len(local.lake.log()) == before + 1
        shown = "select a, to_json(v) from t order by a"
        at_once = await local.rows(shown)
        assert at_once == [(1, '{"k":1}'), (2, None), (3, "[2]")]

        await local.run("truncate table t")
        for number in range(3):
            one = [(type_name, values[number]) for type_name, values in LISTS]
            await local.run(text, bindings=binds(*one))
        assert await local.rows(shown) == at_once

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    [
        ROWWISE_INSERTS[-1],
        "insert into t (a) select count(?)",
        "insert into t (a) select sum(k) from (select ? as k) s",
        "insert into t (a) select k from (select count(?) as k) s",
        "insert into t (a) select k from (select a as k from t where a = ?) s",
        "insert into t (a) select k from (select ? as k) s where k < ?",
        "insert into t (a) select row_number() over (order by k) from (select ? as k) s",
        "insert into t (a) select distinct ?",
        "insert into t (a) select ? limit 1",
        "insert into t (a) select ? union all select 9",
        "insert into t (a) select ? from t",
        "insert into t (a) select k from (select ? as k) s join t on true",
        "insert into t (a) with s as (select ? as k) select k from s",
        "insert into t (a) select ? + (select 1)",
        "update t set a = ?",
    ],
)
def test_array_binds_of_a_query_that_is_not_one_of_single_rows_are_refused(
    tmp_path: Path, text: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, v variant)")
        assert not (await local.run(text, describe_only=True)).array_bind_supported
        lists = binds(*LISTS[: text.count("?")])
        assert await code_of(local, text, bindings=lists) == "000002"
        assert await local.rows("select count(*) from t") == [(0,)]

    local_sql.run_local(tmp_path, work)


def test_describe_only_plans_and_does_nothing(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int not null, s varchar(7))")
        await local.run("insert into t values (1, 'x')")
        before = len(local.lake.log())

        described = await local.run(
            "select a, s, count(*) from t group by 1, 2", describe_only=True
        )
        assert [(item.name, item.type) for item in described.columns] == [
            ("A", "fixed"),
            ("S", "text"),
            ("COUNT(*)", "fixed"),
        ]
        assert [item.nullable for item in described.columns] == [False, True, False]
        assert described.columns[1].length == 7
        assert described.batches is None
        assert described.rows is None

        insert = await local.run("insert into t values (?, ?)", describe_only=True)
        assert insert.array_bind_supported
        assert insert.bind_count == 2
        assert [item.name for item in insert.columns] == ["number of rows inserted"]

        for text in ("create table u (a int)", "drop table t", "begin", "use schema ns"):
            outcome = await local.run(text, describe_only=True)
            assert [item.name for item in outcome.columns] == ["status"], text
        assert len(local.lake.log()) == before
        assert local.session.transaction is None

    local_sql.run_local(tmp_path, work)


def test_explain_shows_tables_and_a_plan_without_running(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1)")
        await local.run("insert into t values (2)")
        outcome = await local.run("explain using text select * from t where a = 1")
        assert outcome.statement_type_id == outcomes.StatementType.EXPLAIN
        assert outcome.rows is not None
        ((text,),) = outcome.rows
        assert "Table LAKE.NS.T: snapshot " in text
        assert ", 1 of 2 files" in text
        assert "DataSourceExec" in text
        assert str(tmp_path).strip("/") not in text

    local_sql.run_local(tmp_path, work)


def test_an_engine_fault_while_rows_stream_is_a_sql_error(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (s varchar)")
        await local.run("insert into t values ('1'), ('x')")
        assert await code_of(local, "select s::int from t") == "100038"
        assert await code_of(local, "select 1 / (length(s) - 1) from t") == "100051"

    local_sql.run_local(tmp_path, work)


def test_time_limits_of_statement_and_session_end_a_query(tmp_path: Path) -> None:
    heavy = (
        "with recursive n as (select 1 i union all select i + 1 from n where i < 100000000) "
        "select count(*) from n"
    )

    async def work(local: local_sql.LocalSql) -> None:
        limited = {"STATEMENT_TIMEOUT_IN_SECONDS": 1}
        assert await code_of(local, heavy, parameters=limited) == "000630"
        await local.run("alter session set statement_timeout_in_seconds = 1")
        assert await code_of(local, heavy) == "000630"

    local_sql.run_local(tmp_path, work, workers=1)


def test_concurrent_inserts_all_land(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await asyncio.gather(*(local.run(f"insert into t values ({item})") for item in range(8)))
        assert await local.rows("select count(*), count(distinct a) from t") == [(8, 8)]

    local_sql.run_local(tmp_path, work)


# Rights

READ = {"Effect": "Allow", "Action": ["s3tables:Get*", "s3tables:List*"], "Resource": "*"}


def test_a_user_without_rights_sees_nothing_and_touches_nothing(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        local.session.principal = local_sql.user("powerless", [])
        for text in (
            "select * from t",
            "insert into t values (1)",
            "drop table t",
            "create table u (a int)",
            "describe table t",
            "create table c as select * from t",
        ):
            assert await code_of(local, text) in ("002003", "003001"), text
        assert await local.rows("show tables") == []
        assert await local.rows("show databases") == []
        assert await code_of(local, "create schema s") == "003001"
        local.session.principal = local_sql.ROOT
        assert await local.rows("select count(*) from t") == [(0,)]

    local_sql.run_local(tmp_path, work)


def test_a_reader_reads_and_may_not_write(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1)")
        local.session.principal = local_sql.user("reader", [READ])
        assert await local.rows("select a from t") == [(1,)]
        assert await local.rows("show tables like 't'") != []
        for text in (
            "insert into t values (2)",
            "drop table t",
            "create table u (a int)",
            "create schema s",
            "drop schema ns",
            "create table c as select * from t",
        ):
            assert await code_of(local, text) == "003001", text
        local.session.principal = local_sql.ROOT
        assert await local.rows("select a from t") == [(1,)]
        assert count_files(local, "ns.t") == 1

    local_sql.run_local(tmp_path, work)


def test_rights_on_one_table_suffice_to_read_it_and_hide_the_rest(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table mine (a int)")
        await local.run("create table theirs (a int)")
        grant = {
            "Effect": "Allow",
            "Action": "s3tables:Get*",
            "Resource": local_sql.table_arn(local, "ns.mine"),
        }
        local.session.principal = local_sql.user("guest", [grant])
        assert await local.rows("select count(*) from mine") == [(0,)]
        for name in ("theirs", "nosuch"):  # what is hidden looks absent
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(f"select * from {name}")
            assert caught.value.code == "002003"
            assert name.upper() in caught.value.message
        assert await code_of(local, "insert into mine values (1)") == "002003"
        assert await local.rows("show tables") == []

    local_sql.run_local(tmp_path, work)


def test_table_data_may_be_denied_where_metadata_is_not(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table open_t (a int)")
        await local.run("create table closed_t (a int)")
        deny = {
            "Effect": "Deny",
            "Action": "s3tables:GetTableData",
            "Resource": local_sql.table_arn(local, "ns.closed_t"),
        }
        local.session.principal = local_sql.user("limited", [READ, deny])
        assert await local.rows("select count(*) from open_t") == [(0,)]
        assert (await local.rows("describe table closed_t"))[0][0] == "A"
        for text in (
            "select * from closed_t",
            "select 1 from open_t where exists (select 1 from closed_t)",
            "with x as (select * from closed_t) select 1 from x",
            "explain select * from closed_t",
        ):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(text)
            assert caught.value.code == "003001", text
            assert "s3tables:GetTableData" in caught.value.message

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    [
        "select * from '/etc/passwd'",
        "select * from @stage/etc",
        'select * from "/etc/passwd"',
        'select * from "s3://lake/ns/t/data/x.parquet"',
        "select * from parquet_scan('/etc/passwd')",
        "select * from table(read_csv('/etc/passwd'))",
        "select read_file('/etc/passwd')",
        "select input_file_name() from t",
        "copy into '/tmp/x' from t",
        "create external table x location '/etc'",
    ],
)
def test_no_sql_reaches_the_file_system_or_the_network(tmp_path: Path, text: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(text)
        assert caught.value.code in ("000002", "001003", "002003", "002140")
        assert str(tmp_path) not in caught.value.message

    local_sql.run_local(tmp_path, work)


def test_statements_have_the_type_ids_that_drivers_branch_on(tmp_path: Path) -> None:
    types = outcomes.StatementType

    async def work(local: local_sql.LocalSql) -> None:
        for text, expected in (
            ("create table t (a int)", types.DDL),
            ("select 1", types.SELECT),
            ("insert into t values (1)", types.INSERT),
            ("show tables", types.SHOW),
            ("describe table t", types.DESCRIBE),
            ("explain select 1", types.EXPLAIN),
            ("alter session set query_tag = 'a'", types.ALTER_SESSION),
            ("set x = 1", types.ALTER_SESSION),
            ("use database lake", types.USE_DATABASE),
            ("begin", types.BEGIN),
            ("commit", types.COMMIT),
            ("drop table ns.t", types.DDL),
        ):
            outcome = await local.run(text)
            assert outcome.statement_type_id == expected, text
            if outcome.batches is not None:
                assert [batch async for batch in outcome.batches]

    local_sql.run_local(tmp_path, work)


def test_results_come_in_the_arrow_types_of_their_columns(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        outcome = await local.run("select 1 a, 1.5 b, 'x' c, true d, current_date e, 1::float f")
        assert outcome.batches is not None
        (batch,) = [item async for item in outcome.batches]
        assert batch.schema.types == [
            pa.int64(),
            pa.decimal128(2, 1),
            pa.string(),
            pa.bool_(),
            pa.date32(),
            pa.float64(),
        ]

    local_sql.run_local(tmp_path, work)


def test_limits_have_defaults_that_bound_every_statement() -> None:
    limits = planning.StatementLimits()
    assert limits.timeout_seconds > 0
    assert limits.memory_bytes > 0


def test_subqueries_that_are_joined_in_parentheses_are_joined(tmp_path: Path) -> None:
    left = "(SELECT * FROM VALUES (1, 'a'), (2, 'b') v(k, l)) AS x"
    right = "(SELECT * FROM VALUES (2, 'c'), (3, 'd') v(m, r)) AS y"

    async def work(local: local_sql.LocalSql) -> None:
        for side, expected in (
            ("INNER", [(2, "b", 2, "c")]),
            ("LEFT", [(1, "a", None, None), (2, "b", 2, "c")]),
            ("FULL", [(1, "a", None, None), (2, "b", 2, "c"), (None, None, 3, "d")]),
        ):
            joined = f"({left} {side} JOIN {right} ON (k = m))"
            assert await local.rows(f"SELECT * FROM {joined} ORDER BY k") == expected
            third = f"SELECT y.r, z.n FROM {joined} JOIN (SELECT 2 AS n) z ON z.n = x.k"
            assert await local.rows(third) == [("c", 2)]

    local_sql.run_local(tmp_path, work)
