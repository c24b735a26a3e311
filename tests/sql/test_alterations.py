"""ALTER TABLE over a real catalog: each change is one commit, and old files still read right."""

from __future__ import annotations

import asyncio
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from catalog import errors as catalog_errors
from catalog import sequences
from sql import bindings, errors, replacements, writes
from tests.kit import datafiles, lakes, local_sql

DONE = [("Statement executed successfully.",)]


async def refusal(local: local_sql.LocalSql, text: str, **more: Any) -> errors.SqlError:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text, **more)
    return caught.value


def schema(local: local_sql.LocalSql, dotted: str) -> list[tuple[Any, ...]]:
    fields = local.lake.load(local.lake.ident(dotted)).metadata.current_schema()["fields"]
    return [(field["id"], field["name"], field["type"], field["required"]) for field in fields]


def commits(local: local_sql.LocalSql, dotted: str) -> int:
    return len(local.lake.load(local.lake.ident(dotted)).metadata.metadata_log)


def test_columns_keep_their_ids_and_old_files_read_right_after_each_change(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, b varchar(5), n number(10,2))")
        await local.rows("insert into t values (1, 'one', 1.5)")
        assert await local.rows("alter table t add column c int, d date") == DONE
        await local.rows("insert into t values (2, 'two', 2.5, 20, '2024-02-29')")
        assert await local.rows("alter iceberg table t rename column a to id") == DONE
        assert await local.rows("alter table t drop column c") == DONE
        assert await local.rows("alter table t add column c varchar comment 'again'") == DONE
        assert (
            await local.rows(
                "alter table t modify n set data type number(20,2), column b type varchar(50)"
            )
            == DONE
        )
        await local.rows("insert into t values (3, 'a longer text', 123456789012.25, null, 'c')")
        assert schema(local, "ns.t") == [
            (1, "id", "long", False),
            (2, "b", "string", False),
            (3, "n", "decimal(20,2)", False),
            (5, "d", "date", False),
            (6, "c", "string", False),
        ]
        assert await local.rows("select * from t order by id") == [
            (1, "one", Decimal("1.50"), None, None),
            (2, "two", Decimal("2.50"), datetime.date(2024, 2, 29), None),
            (3, "a longer text", Decimal("123456789012.25"), None, "c"),
        ]
        assert await local.rows(
            "select column_name, data_type from information_schema.columns"
            " where table_name = 'T' order by ordinal_position"
        ) == [
            ("ID", "NUMBER"),
            ("B", "TEXT"),
            ("N", "NUMBER"),
            ("D", "DATE"),
            ("C", "TEXT"),
        ]

    local_sql.run_local(tmp_path, work)


def test_each_alter_is_one_commit_and_a_repeated_request_changes_nothing(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int)")
        query_id = "11111111-1111-5111-8111-111111111111"
        text = "alter table t add column b int, c int, d int"
        before = commits(local, "ns.t")
        assert await local.rows(text, query_id=query_id) == DONE
        assert commits(local, "ns.t") == before + 1
        assert await local.rows(text, query_id=query_id) == DONE
        assert commits(local, "ns.t") == before + 1
        fault = await refusal(local, text)
        assert (fault.code, fault.sqlstate) == ("001430", "42601")

    local_sql.run_local(tmp_path, work)


def test_alters_at_once_are_all_done_beside_inserts(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int)")
        await asyncio.gather(
            *(local.rows(f"alter table t add column c{number} int") for number in range(8)),
            *(local.rows(f"insert into t (a) values ({number})") for number in range(4)),
        )
        ids = [field[0] for field in schema(local, "ns.t")]
        assert sorted(ids) == list(range(1, 10))
        assert await local.one("select count(*) from t") == 4
        taken = await asyncio.gather(
            *(local.rows("alter table t rename column c1 to only") for _ in range(4)),
            return_exceptions=True,
        )
        assert sum(outcome == DONE for outcome in taken) == 1

    local_sql.run_local(tmp_path, work)


def test_alters_at_once_keep_each_others_defaults_types_and_keys(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(
            "create table t (a int, b timestamp, c timestamp, d varchar(3), e varchar(3))"
        )
        await asyncio.gather(
            local.rows("alter table t alter column b set default current_timestamp()"),
            local.rows("alter table t alter column c set default current_timestamp()"),
            local.rows("alter table t alter column d set data type varchar(10)"),
            local.rows("alter table t alter column e set data type varchar(10)"),
            local.rows("alter table t add unique (a)"),
            local.rows("alter table t add unique (d)"),
            local.rows("insert into t (a) values (1)"),
        )
        described = {row[0]: row for row in await local.rows("describe table t")}
        assert [described[name][4] for name in "BC"] == ["current_timestamp()"] * 2
        assert [described[name][1] for name in "DE"] == ["VARCHAR(10)"] * 2
        assert [described[name][6] for name in "ABCDE"] == ["Y", "N", "N", "Y", "N"]

    local_sql.run_local(tmp_path, work)


def test_an_insert_beside_set_not_null_never_leaves_a_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = writes.Writes.commit

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, b int)")

        async def commit_after_change(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(writes.Writes, "commit", commit)
            await local.rows("alter table t alter column b set not null")
            return await commit(*arguments, **named)

        monkeypatch.setattr(writes.Writes, "commit", commit_after_change)
        fault = await refusal(local, "insert into t values (1, null)")
        assert (fault.code, fault.sqlstate) == ("100072", "22000")
        await local.rows("alter table t alter column b drop not null")
        monkeypatch.setattr(writes.Writes, "commit", commit_after_change)
        assert await local.rows("insert into t values (2, 2)") == [(1,)]
        assert await local.rows("select * from t") == [(2, 2)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("alters", "expected"),
    [
        (("drop column b", "add column b int"), [(1, 2), (2, None)]),
        (("drop column b",), "002020"),
        (("alter column b set not null",), "100072"),
        (("add column c int", "rename column b to d"), [(1, 2, None), (2, None, None)]),
        (("rename column b to d",), [(1, 2), (2, None)]),
    ],
)
def test_an_insert_beside_alters_keeps_all_its_values_or_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    alters: tuple[str, ...],
    expected: list[Any] | str,
) -> None:
    """Where a column is gone or must not be NULL it runs again, as if it came after the changes.

    Without metrics no file says whether it has NULLs.
    """
    commit = writes.Writes.commit

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, b int)")
        ident = local.lake.ident("ns.t")
        metrics = {"write.metadata.metrics.default": "none"}
        update = {"action": "set-properties", "updates": metrics}
        await local.lake.tables.commit(ident, [], [update], by="x")

        async def commit_after_changes(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(writes.Writes, "commit", commit)
            for alter in alters:
                await local.rows(f"alter table t {alter}")
            return await commit(*arguments, **named)

        monkeypatch.setattr(writes.Writes, "commit", commit_after_changes)
        insert = "insert into t values (1, 2), (2, null)"
        if isinstance(expected, str):
            assert (await refusal(local, insert)).code == expected
            assert await local.rows("select * from t") == []
        else:
            assert await local.rows(insert) == [(2,)]
            assert await local.rows("select * from t order by a") == expected

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("own", "other", "row"),
    [
        ("c int default 3", "c int default 7", (1, 7)),
        ("c boolean default true", "c boolean", (1, None)),
        ("c boolean default true", "d boolean", (1, None, True)),
        ("c int default 3", "d int default 7", (1, 7, 3)),
    ],
)
def test_old_rows_get_the_default_of_the_alter_that_wins(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    other: str,
    row: tuple[Any, ...],
) -> None:
    commit = replacements.Replacements.commit

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create iceberg table t (a int) iceberg_version = 2")
        await local.rows("insert into t values (1)")

        async def commit_after_other(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(replacements.Replacements, "commit", commit)
            assert await local.rows(f"alter table t add column {other}") == DONE
            return await commit(*arguments, **named)

        monkeypatch.setattr(replacements.Replacements, "commit", commit_after_other)
        if len(row) == 2:
            assert (await refusal(local, f"alter table t add column {own}")).code == "001430"
        else:
            assert await local.rows(f"alter table t add column {own}") == DONE
        assert await local.rows("select * from t") == [row]

    local_sql.run_local(tmp_path, work)


def test_old_rows_get_a_default_without_new_files_in_version_3(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create iceberg table t (a int) iceberg_version = 3")
        await local.rows("insert into t (a) values (1)")
        files = len(local.lake.storage.objects.list("lake", prefix="ns/t/data/").objects)
        fault = await refusal(local, "alter table t add column c varchar not null")
        assert "Non-nullable column 'C' cannot be added to a non-empty table" in fault.message
        assert await local.rows("alter table t add column n int default null") == DONE
        assert await local.rows("alter table t add c varchar(3) not null default 'x'") == DONE
        assert len(local.lake.storage.objects.list("lake", prefix="ns/t/data/").objects) == files
        assert await local.rows("insert into t (a) values (2)") == [(1,)]
        assert await local.rows("select * from t order by a") == [(1, None, "x"), (2, None, "x")]
        await local.rows("alter table t alter n set default 4, c set default 'y'")
        await local.rows("insert into t (a) values (3)")
        assert await local.rows("select n, c from t order by a") == [
            (None, "x"),
            (None, "x"),
            (4, "y"),
        ]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "shape", ["", "cluster by (a)", "partition by (a)", "partition by (bucket(a, 2))"]
)
def test_old_rows_get_a_default_in_new_files_before_version_3(tmp_path: Path, shape: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(f"create table t (a int, s varchar) {shape}")
        assert await local.rows("alter table t add column e int default 7") == DONE
        await local.rows("insert into t (a, s) values (3, 'c'), (1, 'a')")
        await local.rows("insert into t values (2, null, null), (4, 'd', 0)")
        await local.rows("delete from t where a = 4")
        before = commits(local, "ns.t")
        add = "add column n number(4,2) not null default 1.5, d date default '2024-02-29', z int"
        assert await local.rows(f"alter table t {add}") == DONE
        assert commits(local, "ns.t") == before + 1
        day = datetime.date(2024, 2, 29)
        expected = [
            (1, "a", 7, Decimal("1.50"), day, None),
            (2, None, None, Decimal("1.50"), day, None),
            (3, "c", 7, Decimal("1.50"), day, None),
        ]
        assert await local.rows("select * from t order by a") == expected
        loaded = local.lake.load(local.lake.ident("ns.t"))
        metadata_file = datafiles.bench(local.lake).export(loaded, tmp_path / "out")
        read = datafiles.rows_by_pyiceberg(metadata_file, tmp_path / "out")
        assert sorted(tuple(row.values()) for row in read) == expected
        # The rows of before are read as they were.
        snapshot = loaded.metadata.snapshot(loaded.metadata.current_snapshot_id or 0) or {}
        moment = f"at (version => {snapshot['parent-snapshot-id']})"
        assert await local.rows(f"select count(*) from t {moment}") == [(3,)]

    local_sql.run_local(tmp_path, work)


def test_old_rows_keep_nan_when_a_default_is_written(tmp_path: Path) -> None:
    """The least and the greatest value of a file's column leave NaN out."""

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, f float)")
        await local.rows("insert into t values (1, 1.5), (2, 'NaN'::float)")
        assert await local.rows("alter table t add column n int default 7") == DONE
        rows = await local.rows("select a, f::varchar, n from t order by a")
        assert rows == [(1, "1.5", 7), (2, "NaN", 7)]

    local_sql.run_local(tmp_path, work)


def test_rows_that_come_while_a_default_is_written_have_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int)")
        await local.rows("insert into t values (1)")
        commit = replacements.Replacements.commit

        async def commit_later(*arguments: Any, **named: Any) -> None:
            monkeypatch.setattr(replacements.Replacements, "commit", commit)
            await local.rows("insert into t values (2)")
            await commit(*arguments, **named)

        monkeypatch.setattr(replacements.Replacements, "commit", commit_later)
        assert await local.rows("alter table t add column b int default 5") == DONE
        assert await local.rows("select * from t order by a") == [(1, 5), (2, 5)]
        # What the first attempt wrote is gone.
        keys = [each.key for each in local.lake.storage.objects.list("lake").objects]
        assert sum("/data/" in key for key in keys) == 3

    local_sql.run_local(tmp_path, work)


def test_a_default_for_old_rows_is_refused_where_a_branch_has_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int)")
        await local.rows("insert into t values (1)")
        ident = local.lake.ident("ns.t")
        snapshot_id = (await local.lake.tables.fetch(ident)).metadata.current_snapshot_id
        update = {
            "action": "set-snapshot-ref",
            "ref-name": "kept",
            "type": "tag",
            "snapshot-id": snapshot_id,
        }
        await local.lake.tables.commit(ident, [], [update], by=lakes.BY)
        fault = await refusal(local, "alter table t add column b int default 5")
        assert (fault.code, "ICEBERG_VERSION = 3" in fault.message) == ("000002", True)

    local_sql.run_local(tmp_path, work)


def test_files_that_copy_has_loaded_stay_loaded_after_a_default_is_written(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int)")
        await local.rows("create stage st")
        await local.rows("copy into @st/f from (select 12)")
        await local.rows("copy into t from @st")
        await local.rows("alter table t add column b int default 5")
        await local.rows("copy into t (a) from @st")
        assert await local.rows("select * from t") == [(12, 5)]

    local_sql.run_local(tmp_path, work)


def test_not_null_is_set_only_where_no_row_has_null(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, b int)")
        await local.rows("insert into t values (1, 1), (2, null)")
        assert (await refusal(local, "alter table t alter b set not null")).code == "100072"
        assert await local.rows("alter table t alter column a set not null") == DONE
        assert (await refusal(local, "insert into t values (null, 1)")).code == "100072"
        assert await local.rows("alter table t alter column a drop not null") == DONE
        assert await local.rows("insert into t values (null, 1)") == [(1,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("modify a number(10,0)", "002108"),
        ("modify b varchar(4)", "002108"),
        ("modify b number(10,0)", "002108"),
        ("modify n number(10,3)", "002108"),
        ("modify n number(9,2)", "002108"),
        ("drop column p", "002262"),
        ("drop column s", "002262"),
        ("drop column k", "002262"),
        ("drop column nope", "000904"),
        ("drop column a, b, n, p, s, k, z", "002262"),
        ("rename column a to b", "001430"),
        ("rename column nope to x", "000904"),
        ("add column a varchar", "001430"),
        ("add column x int autoincrement", "002262"),
        ("add column x timestamp default current_timestamp()", "002262"),
        ("add primary key (a)", "002002"),
        ("add column x int check (x > 1)", "000002"),
        ("add search optimization", "000002"),
        ("set data_retention_time_in_days = 31", "000002"),
        ("set max_data_extension_time_in_days = 3", "000002"),
        ("swap with nope", "002003"),
        ("rename to nope.t", "002003"),
        ("rename to other", "002002"),
        ("add column", "001003"),
        ("", "000002"),
    ],
)
def test_a_refused_change_leaves_the_table_as_it_was(
    one_table: local_sql.LocalSql, loop: asyncio.Runner, change: str, code: str
) -> None:
    before = one_table.lake.load(one_table.lake.ident("ns.t")).data
    fault = loop.run(refusal(one_table, f"alter table t {change}"))
    assert fault.code == code, fault.message
    assert one_table.lake.load(one_table.lake.ident("ns.t")).data == before


@pytest.fixture(scope="module")
def loop() -> Any:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def one_table(loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Any:
    opened = local_sql.opened_inline(tmp_path_factory.mktemp("lake"))
    local = loop.run(opened.__aenter__())
    loop.run(
        local.rows(
            "create table t (a int, b varchar(5), n number(10,2), p date, s int, k int primary key,"
            " z int) cluster by (s) partition by (day(p))"
        )
    )
    loop.run(local.rows("create table other (a int)"))
    loop.run(local.rows("insert into t (a, k) values (1, 1)"))
    yield local
    loop.run(opened.__aexit__(None, None, None))


def test_clustering_is_the_sort_order(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, b int)")
        assert await local.rows("alter table t cluster by (b, a)") == DONE
        order = local.lake.load(local.lake.ident("ns.t")).metadata.default_sort_order()
        assert [field["source-id"] for field in order["fields"]] == [2, 1]
        assert await local.rows("alter table t drop clustering key") == DONE
        order = local.lake.load(local.lake.ident("ns.t")).metadata.default_sort_order()
        assert (order["order-id"], order["fields"]) == (0, [])
        assert await local.rows("alter table t drop column b") == DONE

    local_sql.run_local(tmp_path, work)


def test_swap_and_rename_move_names_and_nothing_else(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create schema other")
        local.session.schema = "ns"
        await local.rows("create table t as select 1 as a")
        await local.rows("create table u as select 'x' as b, 2 as c")
        first, second = (
            local.lake.tables.pointer(local.lake.ident(name)).object_uuid
            for name in ("ns.t", "ns.u")
        )
        query_id = "11111111-1111-5111-8111-111111111111"
        for _ in range(2):
            assert await local.rows("alter table t swap with u", query_id=query_id) == DONE
        assert await local.rows("select * from t") == [("x", 2)]
        assert await local.rows("select * from u") == [(1,)]
        assert local.lake.tables.pointer(local.lake.ident("ns.t")).object_uuid == second
        assert local.lake.tables.by_object_uuid("lake", first)[0].name == "u"
        assert await local.rows("alter table u rename to other.moved") == DONE
        assert await local.rows("select * from other.moved") == [(1,)]
        assert (await refusal(local, "select * from u")).code == "002003"
        assert await local.rows("alter table other.moved rename to again") == DONE
        assert await local.rows("select * from other.again") == [(1,)]
        assert await local.rows("alter table if exists u rename to w") == DONE
        assert (await refusal(local, "alter table u rename to w")).code == "002003"

    local_sql.run_local(tmp_path, work)


def test_only_who_may_write_a_table_alters_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int)")
        read = {"Effect": "Allow", "Action": ["s3tables:Get*", "s3tables:List*"], "Resource": "*"}
        local.session.principal = local_sql.user("reader", [read])
        for change in ("add column b int", "rename to u", "swap with t", "drop column a"):
            assert (await refusal(local, f"alter table t {change}")).code == "003001"
        local.session.principal = local_sql.user("stranger", [])
        assert (await refusal(local, "alter table t add column b int")).code == "002003"
        local.session.principal = lakes.ROOT
        assert schema(local, "ns.t") == [(1, "a", "long", False)]

    local_sql.run_local(tmp_path, work)


def test_keys_are_kept_and_a_primary_key_is_icebergs_identifier(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table p (id int, other int, primary key (id))")
        await local.rows(
            "create table t (a int unique, b float primary key, c int references p (id))"
        )
        load = local.lake.load
        fields = load(local.lake.ident("ns.p")).metadata.current_schema()
        assert fields["identifier-field-ids"] == [1]
        assert [field["required"] for field in fields["fields"]] == [True, False]
        floats = load(local.lake.ident("ns.t")).metadata.current_schema()
        assert "identifier-field-ids" not in floats
        assert (await refusal(local, "insert into p values (null, 1)")).code == "100072"
        await local.rows("insert into p values (1, 1), (1, 2)")
        assert await local.rows("alter table p drop primary key") == DONE
        assert await local.rows("alter table p add constraint pk primary key (id, other)") == DONE
        fields = load(local.lake.ident("ns.p")).metadata.current_schema()
        assert fields["identifier-field-ids"] == [1, 2]
        assert await local.rows("alter table p drop constraint pk") == DONE
        assert (await refusal(local, "alter table p drop constraint pk")).code == "002003"

    local_sql.run_local(tmp_path, work)


def test_identity_numbers_are_unique_over_concurrent_inserts_and_restarts(tmp_path: Path) -> None:
    async def fill(local: local_sql.LocalSql) -> None:
        await local.rows(
            "create table if not exists t (id int identity start 10 increment 5, v int)"
        )
        await asyncio.gather(
            *(local.rows("insert into t (v) values (1), (2), (3)") for _ in range(4)),
            *(local.rows("insert into t (v) select v from t limit 2") for _ in range(2)),
        )

    async def check(local: local_sql.LocalSql) -> None:
        ids = [row[0] for row in await local.rows("select id from t")]
        assert len(ids) == len(set(ids))
        assert set(ids) <= set(range(10, 1000, 5))
        assert await local.one("select count(*) from t where v is null") == 0

    async def restarted(local: local_sql.LocalSql) -> None:
        await check(local)
        highest = await local.one("select max(id) from t")
        pointer = local.lake.tables.pointer(local.lake.ident("ns.t"))
        kept = sequences.Sequences(store=local.lake.store)
        first = await kept.reserve_for_column(
            "lake", pointer.object_uuid, 1, 1, start=10, increment=5
        )
        assert first == highest + 5

    local_sql.run_local(tmp_path, fill)
    local_sql.run_local(tmp_path, restarted)


def test_a_dropped_table_reserves_no_identity_numbers(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (id int identity start 10 increment 5, v int)")
        await local.rows("insert into t (v) values (1)")
        object_uuid = local.lake.tables.pointer(local.lake.ident("ns.t")).object_uuid
        kept = sequences.Sequences(store=local.lake.store)
        before = kept.columns("lake", object_uuid)
        assert before == {1: 15}
        await local.rows("drop table t")
        with pytest.raises(catalog_errors.NoSuchTable):
            await kept.reserve_for_column("lake", object_uuid, 1, 3, start=10, increment=5)
        assert kept.columns("lake", object_uuid) == before
        await local.rows("undrop table t")
        await local.rows("insert into t (v) values (2)")
        assert await local.rows("select * from t order by id") == [(10, 1), (15, 2)]

    local_sql.run_local(tmp_path, work)


def test_a_default_of_another_type_is_stored_in_the_columns_type(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int, b int default '7', c int default 7.6, d int)")
        await local.rows("alter table t alter column d set default '-3'")
        fields = local.lake.load(local.lake.ident("ns.t")).metadata.current_schema()["fields"]
        stored = [field.get("write-default") for field in fields]
        assert stored == [None, 7, 8, -3]
        assert [type(value) for value in stored[1:]] == [int, int, int]
        await local.rows("insert into t (a) values (1)")
        assert await local.rows("select * from t") == [(1, 7, 8, -3)]
        fault = await refusal(local, "create table u (a int default '9223372036854775808')")
        assert fault.code in ("000002", "100039")

    local_sql.run_local(tmp_path, work)


def test_uuid_string_as_default_gives_each_row_a_value_of_its_own(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(
            "create table t (a int, id varchar(36) not null default uuid_string()) cluster by (id)"
        )
        await local.rows("insert into t (a) values (1), (2), (3)")
        await local.rows("insert into t (a) select seq4() from table(generator(rowcount => 500))")
        await local.rows("insert into t values (4, default), (5, 'mine'), (6, default)")
        numbers = {"1": bindings.Binding(type="fixed", values=(7, 8, 9), is_array=True)}
        await local.rows("insert into t (a) values (?)", bindings=numbers)
        await local.rows(
            "merge into t using (select column1 as a from values (1000), (1001)) s on t.a = s.a"
            " when not matched then insert (a) values (s.a)"
        )
        assert await local.rows(
            "select count(*), count(distinct id), count_if(length(id) = 36) from t"
        ) == [(511, 511, 510)]
        stored = set(await local.rows("select id from t"))
        assert set(await local.rows("select id from t")) == stored
        (_, described) = await local.rows("describe table t")
        assert described[4] == "UUID_STRING()"
        assert "DEFAULT UUID_STRING()" in await local.one("select get_ddl('table', 't')")
        for declared in ("varchar(35)", "binary", "number"):
            text = f"create table u (a {declared} default uuid_string())"
            assert (await refusal(local, text)).code == "000002"
        for default in ("uuid_string() || 'x'", "random()", "random(1)"):
            text = f"create table u (a varchar default {default})"
            assert (await refusal(local, text)).code == "000002"
        assert (
            await refusal(local, "alter table t add column u varchar default uuid_string()")
        ).code == "002262"

    local_sql.run_local(tmp_path, work)


def test_defaults_fill_the_columns_that_an_insert_leaves_out(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(
            "create table t (a int, i int default -3, n number(10,2) default 1.255,"
            " s varchar(5) default 'it''s', d date default '2024-02-29', b boolean default true,"
            " at timestamp default current_timestamp(), who varchar default current_user(),"
            " e int default null)"
        )
        await local.rows("insert into t (a) values (1)")
        await local.rows("insert into t (a) select 2")
        moment = (await local.rows("select current_timestamp()::timestamp_ntz"))[0][0]
        row = (-3, Decimal("1.26"), "it's", datetime.date(2024, 2, 29), True, moment, "ROOT", None)
        assert await local.rows("select * from t order by a") == [(1, *row), (2, *row)]
        for default in ("'longer'", "uuid_string()", "a", "(select 1)", "no_such()"):
            await refusal(local, f"create table u (a int, s varchar(5) default {default})")
        assert (await refusal(local, "select * from u")).code == "002003"

    local_sql.run_local(tmp_path, work)


def test_a_type_that_a_column_has_is_no_change(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, v varchar(5), ts timestamp_ntz(3))")
        before = schema(local, "ns.t")
        for column, same in {
            "a": ("number(38,0)", "int"),
            "v": ("varchar(5)",),
            "ts": ("timestamp_ntz(3)",),
        }.items():
            for data_type in same:
                done = await local.rows(f"alter table t alter {column} set data type {data_type}")
                assert done == DONE
        assert schema(local, "ns.t") == before
        error = await refusal(local, "alter table t alter a set data type number(37,0)")
        assert error.code == "002108"

    local_sql.run_local(tmp_path, work)


def test_the_days_of_retention_are_the_tables_own_age_of_snapshots(tmp_path: Path) -> None:
    day_ms = 86_400_000

    async def shown(local: local_sql.LocalSql) -> dict[str, str]:
        outcome = await local.run("show tables in schema ns")
        at = [column.name for column in outcome.columns].index("retention_time")
        listed = {row[1]: row[at] for row in await local_sql.rows_of(outcome)}
        query = "select table_name, retention_time from information_schema.tables"
        for name, days in await local.rows(f"{query} where table_schema = 'NS'"):
            assert listed[name] == str(days)
        return listed

    def stored(local: local_sql.LocalSql, dotted: str) -> str | None:
        metadata = local.lake.load(local.lake.ident(dotted)).metadata
        return metadata.properties.get("history.expire.max-snapshot-age-ms")

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table a (x int) data_retention_time_in_days = 9 copy grants")
        options = "data_retention_time_in_days = 0 change_tracking = false copy grants"
        await local.run(f"create or replace transient table b {options} as select 1 as x")
        await local.run("create table c (x int) enable_schema_evolution = false")
        assert await shown(local) == {"A": "9", "B": "0", "C": "1"}
        assert stored(local, "ns.a") == str(9 * day_ms)
        await local.run("alter table c set data_retention_time_in_days = 30, comment = 'x'")
        await local.run("alter table a unset data_retention_time_in_days, change_tracking")
        await local.run("alter table a set change_tracking = false")
        assert await shown(local) == {"A": "1", "B": "0", "C": "30"}
        assert (stored(local, "ns.a"), stored(local, "ns.c")) == (
            None,
            str(30 * day_ms),
        )
        text = await local.one("select get_ddl('table', 'c')")
        assert "data_retention_time_in_days=30 comment='x'" in text.lower()
        await local.run(text.replace("TABLE C", "TABLE D"))
        assert (await shown(local))["D"] == "30"
        # A dropped table is kept for 30 days.
        for beyond in (
            "alter table a set data_retention_time_in_days = 31",
            "create table e (x int) data_retention_time_in_days = 90",
        ):
            error = await refusal(local, beyond)
            assert (error.code, "dropped_table_days = 30" in error.message) == ("000002", True)
        error = await refusal(local, "alter table a set data_retention_time_in_days = 91")
        assert error.code == "001008"
        assert (await shown(local)).keys() == {"A", "B", "C", "D"}

    local_sql.run_local(tmp_path, work)
