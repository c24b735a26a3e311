"""UNDROP: the table or schema of a name that was dropped last comes back, with its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql import errors, limits, sessions
from tests.kit import local_sql


async def fault_of(local: local_sql.LocalSql, text: str) -> tuple[str, str]:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text)
    return caught.value.code, caught.value.message


def test_the_table_that_was_dropped_last_comes_back_with_its_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for number in (1, 2):
            await local.run("create table t (a int)")
            await local.run(f"insert into t values ({number})")
            local.lake.clock.now_ms += 1
            await local.run("drop table t")
        assert await local.rows("undrop table t") == [("Table T successfully restored.",)]
        assert await local.rows("select a from t") == [(2,)]
        await local.run("insert into t values (3)")
        # The name is taken, so the older one stays where it is.
        assert (await fault_of(local, "undrop table t"))[0] == "002002"
        await local.run("alter table t rename to newer")
        assert await local.rows("undrop table lake.ns.t") == [("Table T successfully restored.",)]
        assert await local.rows("select a from t union all select a from newer order by 1") == [
            (1,), (2,), (3,)
        ]  # fmt: skip

    local_sql.run_local(tmp_path, work)


def test_what_was_never_dropped_or_is_a_view_is_no_table_to_restore(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        assert (await fault_of(local, "undrop table t"))[0] == "002003"
        await local.run("create view v as select 1 as a")
        await local.run("drop view v")
        assert (await fault_of(local, "undrop table v"))[0] == "002003"
        assert (await fault_of(local, "undrop table nowhere.t"))[0] == "002003"

    local_sql.run_local(tmp_path, work)


def test_a_repeated_request_restores_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("drop table t")
        await local.run("undrop table t")
        first = local.last_id
        commits = len(local.lake.log())
        await local.run("undrop table t", query_id=first)
        assert len(local.lake.log()) == commits

    local_sql.run_local(tmp_path, work)


def test_restoring_needs_its_own_right_and_that_of_creating(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("drop table t")

        def may(*actions: str) -> None:
            local.session = sessions.Session(
                id=1,
                principal=local_sql.user(
                    "erin", [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]
                ),
                database="lake",
                schema="ns",
            )

        may("s3tables:GetTable")
        assert (await fault_of(local, "undrop table t"))[0] == "002003"
        may("s3tables:ListTables", "s3tables:CreateTable")
        code, message = await fault_of(local, "undrop table t")
        assert (code, "lake:Undrop" in message) == ("003001", True)
        may("s3tables:ListTables", "lake:Undrop")
        code, message = await fault_of(local, "undrop table t")
        assert (code, "s3tables:CreateTable" in message) == ("003001", True)
        may("lake:Undrop", "s3tables:CreateTable")
        assert await local.rows("undrop table t") == [("Table T successfully restored.",)]

    local_sql.run_local(tmp_path, work)


def test_a_schema_comes_back_with_its_tables_views_and_sequences(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema s comment = 'kept'")
        await local.run("create table t (a int)")
        await local.run("insert into t values (7)")
        await local.run("create view v as select a + 1 as b from lake.s.t")
        await local.run("create sequence numbers start 5")
        await local.run("drop table t")
        local.lake.clock.now_ms += 1
        await local.run("create table t (a int)")
        await local.run("insert into t values (8)")
        await local.run("drop schema s")
        assert (await fault_of(local, "select a from lake.s.t"))[0] == "002003"
        restored = [("Schema S successfully restored.",)]
        assert await local.rows("undrop schema lake.s") == restored
        assert await local.rows("select a from lake.s.t") == [(8,)]
        assert await local.rows("select b from lake.s.v") == [(9,)]
        assert await local.rows("select lake.s.numbers.nextval") == [(5,)]
        assert "kept" in (await local.rows("show schemas like 's'"))[0]
        assert (await fault_of(local, "undrop schema s"))[0] == "002002"
        # What was dropped on its own before is restored on its own.
        await local.run("use schema s")
        await local.run("alter table t rename to newer")
        await local.run("undrop table t")
        assert await local.rows("select a from t") == [(7,)]

    local_sql.run_local(tmp_path, work)


def test_a_schema_of_mixed_case_comes_back_by_its_quoted_name(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run('create schema "Mixed"')
        await local.run("create table t (a int)")
        await local.run('drop schema "Mixed"')
        assert (await fault_of(local, "undrop schema mixed"))[0] == "002003"
        assert (await fault_of(local, "undrop schema absent.mixed"))[0] == "002003"
        await local.run('undrop schema "Mixed"')
        assert await local.rows('select a from lake."Mixed".t') == []

    local_sql.run_local(tmp_path, work)


def test_a_repeated_request_restores_a_schema_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema s")
        await local.run("drop schema s")
        await local.run("undrop schema s")
        first = local.last_id
        commits = len(local.lake.log())
        assert await local.rows("undrop schema s", query_id=first) == [
            ("Schema S successfully restored.",)
        ]
        assert len(local.lake.log()) == commits

    local_sql.run_local(tmp_path, work)


def test_restoring_a_schema_needs_the_rights_of_its_tables_too(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema s")
        await local.run("create table t (a int)")
        await local.run("drop schema s")

        def may(*actions: str) -> None:
            local.session = sessions.Session(
                id=1,
                principal=local_sql.user(
                    "erin", [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]
                ),
                database="lake",
                schema="ns",
            )

        may("s3tables:GetTableBucket")
        code, message = await fault_of(local, "undrop schema s")
        assert (code, "s3tables:CreateNamespace" in message) == ("003001", True)
        may("s3tables:CreateNamespace", "s3tables:ListTables", "s3tables:CreateTable")
        code, message = await fault_of(local, "undrop schema s")
        assert (code, "lake:Undrop" in message) == ("003001", True)
        may("s3tables:CreateNamespace", "s3tables:CreateTable", "lake:Undrop")
        assert await local.rows("undrop schema s") == [("Schema S successfully restored.",)]

    local_sql.run_local(tmp_path, work)


def test_show_history_searches_more_than_it_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SHOWN_ROWS_MAX", 2)

    async def work(local: local_sql.LocalSql) -> None:
        for name in ("a1", "a2", "z"):
            await local.run(f"create table {name} (a int)")
            await local.run(f"drop table {name}")
        for name in ("a1", "a2", "z"):
            await local.run(f"create schema {name}")
            await local.run(f"drop schema {name}")
        for listing in (
            "tables history like 'z' in schema ns",
            "schemas history like 'z' in database lake",
        ):
            assert [row[1] for row in await local.rows(f"show {listing}")] == ["Z"]

    local_sql.run_local(tmp_path, work)


def test_show_history_lists_what_undrop_can_restore(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        clock = local.lake.clock
        await local.run("create table t as select column1 as a from values (1), (2)")
        await local.run("create table other (a int)")
        clock.now_ms += 1000
        first = clock.now_ms
        await local.run("drop table t")
        await local.run("create table t (a int)")
        clock.now_ms += 1000
        second = clock.now_ms
        await local.run("drop table t")
        await local.run("create view v as select 1 as a")
        await local.run("drop view v")
        outcome = await local.run("show tables history in schema ns")
        names = [column.name for column in outcome.columns]
        place = names.index("dropped_on")
        assert names[place - 1] == "retention_time"
        plain = [column.name for column in (await local.run("show tables")).columns]
        assert [name for name in names if name != "dropped_on"] == plain
        assert outcome.rows is not None
        listed = [
            (row[1], row[names.index("rows")], row[place] and row[place].timestamp() * 1000)
            for row in outcome.rows
        ]
        assert listed == [("OTHER", 0, None), ("T", 2, first), ("T", 0, second)]
        assert [row[1] for row in await local.rows("show tables in schema ns")] == ["OTHER"]
        assert len(await local.rows("show tables history like 'o%' in schema ns")) == 1
        await local.run("undrop table t")
        rows = await local.rows("show tables history like 't' in schema ns")
        assert [row[place] and row[place].timestamp() * 1000 for row in rows] == [None, first]

        await local.run("create schema gone comment = 'x'")
        await local.run("drop schema gone")
        outcome = await local.run("show schemas history like 'gone' in database lake")
        names = [column.name for column in outcome.columns]
        assert outcome.rows is not None
        ((*_, dropped_on, _),) = [row[: names.index("dropped_on") + 2] for row in outcome.rows]
        assert dropped_on.timestamp() * 1000 == clock.now_ms
        assert [row[6] for row in outcome.rows] == ["x"]
        assert await local.rows("show schemas like 'gone' in database lake") == []
        outcome = await local.run("show databases history")
        place = [column.name for column in outcome.columns].index("dropped_on")
        assert [(row[1], row[place]) for row in outcome.rows or ()] == [("LAKE", None)]
        for text in ("show views history", "show terse tables history"):
            with pytest.raises(errors.SqlError) as refused:
                await local.run(text)
            assert refused.value.code == "000002"

        listing = {"Effect": "Allow", "Action": "s3tables:GetNamespace", "Resource": "*"}
        local.session.principal = local_sql.user("bob", [listing])
        assert await local.rows("show tables history in schema lake.ns") == []

    local_sql.run_local(tmp_path, work)
