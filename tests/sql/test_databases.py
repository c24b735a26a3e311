"""CREATE, ALTER, DROP DATABASE and CREATE OR REPLACE SCHEMA, in this process."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from catalog import idents, namespaces
from sql import errors
from storage import errors as storage_errors
from tests.kit import lakes, local_sql

BUCKETS = "arn:aws:s3tables:us-east-1:000000000000:bucket/*"


def refusal(caught: pytest.ExceptionInfo[errors.SqlError]) -> tuple[str, str]:
    return caught.value.code, caught.value.message


def test_create_database_makes_a_table_bucket_with_the_schema_public(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        answer = await local.one("create database sales comment = 'all of it'")
        assert answer == "Database SALES successfully created."
        assert (local.session.database, local.session.schema) == ("sales", "public")
        bucket = local.lake.storage.buckets.get("sales")
        assert (bucket.type, bucket.settings["comment"]) == ("table", "all of it")
        await local.run("create table t (a int)")
        await local.run("insert into t values (1)")
        assert await local.one("select a from sales.public.t") == 1
        rows = await local.rows("show databases like 'sales'")
        assert [(row[1], row[3], row[6]) for row in rows] == [("SALES", "Y", "all of it")]

    local_sql.run_local(tmp_path, work)


def test_drop_database_reads_its_schemas_off_the_event_loop_and_not_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        monkeypatch.setattr(namespaces, "TABLES_DROPPED_MAX", 3)
        contents, threads = local.lake.namespaces.contents, []

        def recorded(*arguments: Any) -> namespaces.NamespaceContents:
            threads.append(threading.get_ident())
            return contents(*arguments)

        monkeypatch.setattr(local.lake.namespaces, "contents", recorded)
        await local.run("create database sales")
        for number in range(9):
            await local.run(f"create schema sales.s{number}")
        with pytest.raises(errors.SqlError) as caught:
            await local.run("drop database sales")
        assert "more than 3 tables, views and namespaces" in caught.value.message
        assert len(threads) == 7
        assert threading.get_ident() not in threads
        for number in range(9):
            await local.run(f"drop schema sales.s{number}")
        await local.run("drop database sales")

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("my_db_", "must begin and end with a letter or digit"),
        ('"my_db"', "may hold only lower-case letters, digits and hyphens"),
        ('"Mixed"', "may hold only lower-case letters, digits and hyphens"),
        ("db", "must have 3 to 63 characters"),
        ("iceberg", "is a word this server reserves"),
    ],
)
def test_create_database_of_a_name_that_no_bucket_may_have_is_refused_with_the_reason(
    tmp_path: Path, name: str, reason: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await local.run(f"create database {name}")
        code, message = refusal(caught)
        assert code == "001008"
        assert message.endswith(reason)
        assert [bucket.name for bucket in local.lake.storage.buckets.list()] == ["lake"]

    local_sql.run_local(tmp_path, work)


def test_create_database_that_exists_is_refused_accepted_or_replaced(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create database one")
        with pytest.raises(errors.SqlError) as caught:
            await local.run("create database one")
        assert refusal(caught)[0] == "002002"
        answer = await local.one("create database if not exists one")
        assert answer == "ONE already exists, statement succeeded."
        await local.run("create schema extra")
        before = local.lake.storage.buckets.get("one").bucket_id
        await local.run("create or replace database one")
        assert local.lake.storage.buckets.get("one").bucket_id != before
        schemas = [row[1] for row in await local.rows("show schemas in database one")]
        assert schemas == ["INFORMATION_SCHEMA", "PUBLIC"]
        await local.run("create table one.public.t (a int)")
        with pytest.raises(errors.SqlError) as caught:
            await local.run("create or replace database one")
        assert refusal(caught)[0] == "002030"
        assert await local.rows("select * from one.public.t") == []

    local_sql.run_local(tmp_path, work)


def test_drop_database_loses_tables_with_cascade_alone(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create database one")
        await local.run("create table t as select 1 as a")
        for statement in ("drop database one", "drop database one restrict"):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(statement)
            code, message = refusal(caught)
            assert code == "002030"
            assert "CASCADE" in message
        await local.run("drop table t")  # it could still be restored
        with pytest.raises(errors.SqlError) as caught:
            await local.run("drop database one")
        assert refusal(caught)[0] == "002030"
        assert await local.one("undrop table t") == "Table T successfully restored."
        assert await local.one("drop database one cascade") == "ONE successfully dropped."
        assert (local.session.database, local.session.schema) == (None, None)
        with pytest.raises(storage_errors.NoSuchBucket):
            local.lake.storage.buckets.get("one")
        with pytest.raises(errors.SqlError) as caught:
            await local.run("drop database one")
        assert refusal(caught)[0] == "002003"
        answer = await local.one("drop database if exists one")
        assert answer == "Drop statement executed successfully (ONE already dropped)."
        await local.run("create database one")
        assert await local.rows("show tables in database one") == []

    local_sql.run_local(tmp_path, work)


def test_drop_database_is_refused_while_a_table_of_another_one_names_its_files(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create database one")
        await local.run("create table t as select 1 as a")
        ident = idents.TableIdent(table_bucket="one", namespace=("public",), name="t")
        snapshot = (await local.lake.tables.fetch(ident)).metadata.current_snapshot()
        assert snapshot is not None
        await local.run("create table lake.ns.reader (a number(1,0))")
        branch = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot["snapshot-id"]}
        await local.lake.tables.commit(
            local.lake.ident("ns.reader"),
            [],
            [
                {"action": "add-snapshot", "snapshot": {**snapshot, "sequence-number": 1}},
                {"action": "set-snapshot-ref", **branch},
            ],
            by=lakes.BY,
        )
        with pytest.raises(errors.SqlError) as caught:
            await local.run("drop database one cascade")
        code, message = refusal(caught)
        assert code == "002030"
        assert "Database ONE cannot be dropped" in message
        assert "the table ns.reader of lake" in message
        assert await local.rows("select a from lake.ns.reader") == [(1,)]
        await local.lake.tables.drop(local.lake.ident("ns.reader"), purge=True, by=lakes.BY)
        assert await local.one("drop database one cascade") == "ONE successfully dropped."

    local_sql.run_local(tmp_path, work)


def test_drop_database_of_empty_schemas_needs_no_cascade(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create database one")
        await local.run("create schema extra")
        assert await local.one("drop database one") == "ONE successfully dropped."

    local_sql.run_local(tmp_path, work)


def test_drop_database_that_is_protected_is_refused(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create database one")
        await local.lake.storage.buckets.update("one", {"protected": True})
        with pytest.raises(errors.SqlError) as caught:
            await local.run("drop database one cascade")
        assert refusal(caught)[0] == "003001"
        await local.lake.storage.buckets.update("one", {"purge_on_drop": "never"})
        with pytest.raises(errors.SqlError) as caught:
            await local.run("drop database one cascade")
        assert refusal(caught)[0] == "003001"
        assert local.lake.storage.buckets.get("one").type == "table"

    local_sql.run_local(tmp_path, work)


def test_statements_of_databases_with_a_repeated_query_id_run_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        async def twice(text: str) -> list[Any]:
            query_id = str(uuid.uuid4())
            return [await local.one(text, query_id=query_id) for _ in range(2)]

        created = "Database ONE successfully created."
        assert await twice("create database one") == [created, created]
        assert await twice("create or replace database one") == [created, created]
        bucket_id = local.lake.storage.buckets.get("one").bucket_id
        assert bucket_id == 3  # `lake`, and two of the name
        done = "Statement executed successfully."
        assert await twice("alter database one set comment = 'x'") == [done, done]
        dropped = "ONE successfully dropped."
        assert await twice("drop database one cascade") == [dropped, dropped]

    local_sql.run_local(tmp_path, work)


def test_alter_database_sets_and_removes_the_comment_and_refuses_the_rest(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        async def comment() -> str:
            return str((await local.rows("show databases like 'lake'"))[0][6])

        await local.run("alter database lake set comment = 'one'")
        assert await comment() == "one"
        await local.run("comment on database lake is 'two'")
        assert await comment() == "two"
        await local.run("alter database lake unset comment")
        assert await comment() == ""
        await local.run("alter database if exists absent set comment = 'x'")
        for refused in (
            "alter database lake rename to pond",
            "alter database lake set data_retention_time_in_days = 1",
            "undrop database lake",
            "alter schema ns rename to other",
        ):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(refused)
            assert refusal(caught)[0] == "000002", refused

    local_sql.run_local(tmp_path, work)


def test_rights_on_databases_are_those_of_table_buckets(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create database one")
        await local.run("create table t (a int)")
        root = local.session.principal

        def allow(*actions: str) -> None:
            statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
            local.session.principal = local_sql.user("alice", [statement] if actions else [])

        async def refused(text: str) -> str:
            with pytest.raises(errors.SqlError) as caught:
                await local.run(text)
            return caught.value.code

        allow()
        assert await refused("create database two") == "003001"
        assert await refused("drop database one") == "002003"
        assert await refused("alter database one set comment = 'x'") == "002003"
        allow("s3tables:CreateTableBucket")
        await local.run("create database two")
        assert await refused("create or replace database two") == "002003"
        bucket_actions = ("s3tables:GetTableBucket", "s3tables:DeleteTableBucket")
        allow(*bucket_actions)
        assert await refused("drop database two") == "003001"  # of its schema
        allow(*bucket_actions, "s3tables:DeleteNamespace")
        await local.run("drop database two")
        assert await refused("drop database one cascade") == "003001"
        allow(*bucket_actions, "s3tables:DeleteNamespace", "s3tables:DeleteTable")
        assert await refused("drop database one cascade") == "003001"  # it frees files
        allow(
            *bucket_actions, "s3tables:DeleteNamespace", "s3tables:DeleteTable",
            "lake:RunMaintenance",
        )  # fmt: skip
        await local.run("drop database one cascade")
        local.session.principal = root
        names = [bucket.name for bucket in local.lake.storage.buckets.list()]
        assert names == ["lake"]

    local_sql.run_local(tmp_path, work)


def test_create_or_replace_schema_drops_its_tables_which_undrop_restores(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema s comment = 'old'")
        await local.run("create table t as select 1 as a")
        before = local.lake.namespaces.load("lake", ("s",)).object_uuid
        answer = await local.one("create or replace transient schema s comment = 'new'")
        assert answer == "Schema S successfully created."
        after = local.lake.namespaces.load("lake", ("s",))
        assert after.object_uuid != before
        assert after.properties == {"comment": "new"}
        assert await local.rows("show tables in schema s") == []
        await local.run("undrop table lake.s.t")
        assert await local.one("select a from lake.s.t") == 1

    local_sql.run_local(tmp_path, work)
