"""What SQL tells of things that are not the caller's: nothing that tells them from absent ones.

The users are those of tests/kit/users.py. carol may do nothing, alice all in her own namespace,
dave all but what lies in the namespace bob, erin lists names and reads no table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from sql import errors, places, sessions
from storage import model
from tests.kit import lakes, local_sql, users

State = Literal["table", "view", "schema", "nothing"]

STATEMENTS = [
    "use database {d}",
    "use {d}",
    "use schema {d}.bob",
    "use schema {d}.information_schema",
    "show tables in database {d}",
    "show schemas in database {d}",
    "show objects in {d}.bob",
    "show tables in schema {d}.bob",
    "show terse tables in schema {d}.bob",
    "show columns in schema {d}.bob",
    "show columns in table {d}.bob.secret",
    "describe table {d}.bob.secret",
    "describe schema {d}.bob",
    "select * from {d}.bob.secret",
    "select count(*) from {d}.bob.secret",
    "explain select * from {d}.bob.secret",
    "select * from {d}.information_schema.tables where table_schema = 'BOB'",
    "select * from {d}.information_schema.schemata where schema_name = 'BOB'",
    "insert into {d}.bob.secret values (1, 'x')",
    "insert into {d}.bob.secret select * from {d}.bob.secret",
    "delete from {d}.bob.secret",
    "update {d}.bob.secret set id = 1",
    "merge into {d}.bob.secret t using {d}.bob.secret s on t.id = s.id when matched then delete",
    "create table {d}.bob.secret (id int)",
    "create table if not exists {d}.bob.secret (id int)",
    "create table {d}.bob.other as select 1 as x",
    "drop table {d}.bob.secret",
    "drop table if exists {d}.bob.secret",
    "undrop table {d}.bob.secret",
    "undrop table {d}.bob.gone",
    "undrop schema {d}.bob",
    "drop schema {d}.bob",
    "drop schema if exists {d}.bob",
    "create schema {d}.bob",
    "create schema if not exists {d}.bob",
    "alter table {d}.bob.secret add column x int",
    "alter table if exists {d}.bob.secret add column x int",
    "alter table {d}.bob.secret rename to {d}.bob.other",
    "alter table {d}.bob.secret swap with {d}.bob.secret",
    "create or replace table {d}.bob.secret (id int)",
    "truncate table if exists {d}.bob.secret",
    "comment if exists on table {d}.bob.secret is 'x'",
    "comment on column {d}.bob.secret.id is 'x'",
    "comment on schema {d}.bob is 'x'",
    "create or replace view {d}.bob.secret as select 1 as x",
    "create temporary view {d}.bob.secret as select 1 as x",
    "drop view if exists {d}.bob.secret",
    "alter view {d}.bob.secret rename to {d}.bob.other",
    "show primary keys in table {d}.bob.secret",
    "create sequence {d}.bob.numbers",
    "create or replace sequence {d}.bob.numbers",
    "create sequence if not exists {d}.bob.numbers",
    "alter sequence {d}.bob.numbers set increment = 2",
    "alter sequence {d}.bob.numbers rename to {d}.bob.other",
    "comment on sequence {d}.bob.numbers is 'x'",
    "drop sequence {d}.bob.numbers",
    "drop sequence if exists {d}.bob.numbers",
    "describe sequence {d}.bob.numbers",
    "show sequences in schema {d}.bob",
    "select {d}.bob.numbers.nextval",
]


def be(local: local_sql.LocalSql, name: str) -> None:
    statements = [dict(each) for policy in users.POLICIES[name] for each in policy["Statement"]]
    local.session = sessions.Session(id=1, principal=local_sql.user(name, statements))


async def answer_of(local: local_sql.LocalSql, text: str, **more: Any) -> object:
    try:
        outcome = await local.run(text, **more)
        if outcome.batches is None:
            return outcome.rows
        return [batch.to_pylist() async for batch in outcome.batches]
    except errors.SqlError as error:
        return error.code, error.sqlstate, error.message


def answers_of(path: Path, name: str, *, database: str, state: State) -> list[object]:
    """Return what a user is answered where bob's table or view, only his schema, or none is."""

    async def work(local: local_sql.LocalSql) -> list[object]:
        if state != "nothing":
            await local.run("create schema bob")
        if state in ("table", "view"):
            await local.run("create sequence bob.numbers")
        if state == "table":
            await local.run("create table bob.secret (id int, word varchar)")
            await local.run("insert into bob.secret values (1, 'hidden')")
        if state == "view":
            await local.lake.views.create(
                local.lake.ident("bob.secret"),
                schema=lakes.SCHEMA,
                view_version=lakes.VIEW_VERSION,
                by=lakes.BY,
            )
        before = local.lake.log()
        answers = []
        for describe_only in (True, False):
            for statement in STATEMENTS:
                be(local, name)
                text = statement.format(d=database)
                answers.append((text, await answer_of(local, text, describe_only=describe_only)))
        assert local.lake.log() == before
        return answers

    return local_sql.run_local(path, work)


@pytest.mark.parametrize("name", ["carol", "dave", "alice"])
def test_a_hidden_schema_table_or_view_answers_as_an_absent_one(tmp_path: Path, name: str) -> None:
    absent = answers_of(tmp_path / "a", name, database="lake", state="nothing")
    for number, state in enumerate(("schema", "table", "view")):
        path = tmp_path / f"{number}"
        assert answers_of(path, name, database="lake", state=state) == absent  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["carol", "alice"])
def test_a_hidden_database_answers_as_an_absent_one(tmp_path: Path, name: str) -> None:
    hidden = answers_of(tmp_path / "a", name, database="lake", state="table")
    absent = answers_of(tmp_path / "b", name, database="nodb", state="table")
    assert repr(hidden) == repr(absent).replace("nodb", "lake").replace("NODB", "LAKE")


def test_a_user_of_one_schema_uses_it_by_its_full_name(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema alice")
        be(local, "alice")
        await local.run("create table lake.alice.t (id int)")
        await local.run("insert into lake.alice.t values (7)")
        await local.run("use schema lake.alice")
        assert await local.rows("select id from t") == [(7,)]
        assert [row[1] for row in await local.rows("show tables in schema lake.alice")] == ["T"]
        with pytest.raises(errors.SqlError, match=r"LAKE\.ALICE\.MISSING"):
            await local.run("select * from lake.alice.missing")

    local_sql.run_local(tmp_path, work)


def test_a_caller_who_may_list_but_not_load_tables_sees_names_alone(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema bob")
        await local.run("create table bob.secret (id int, hidden_word varchar) comment = 'hidden'")
        await local.run("insert into bob.secret values (1, 'hidden')")
        be(local, "erin")
        (row,) = await local.rows(
            "select table_name, table_owner, row_count, bytes, comment, clustering_key"
            " from lake.information_schema.tables"
        )
        assert row == ("SECRET", None, None, None, None, None)
        assert await local.rows("select * from lake.information_schema.columns") == []
        assert await local.rows("show columns in database lake") == []
        assert await local.rows("show columns in schema lake.bob") == []
        for listing in ("tables", "objects"):
            outcome = await local.run(f"show {listing} in schema lake.bob")
            (shown,) = outcome.rows or ()
            named = dict(zip((column.name for column in outcome.columns), shown, strict=True))
            assert (named["name"], named["rows"], named["bytes"]) == ("SECRET", None, None)
            assert (named["owner"], named["comment"]) == ("", "")
        for text in ("describe table lake.bob.secret", "show columns in table lake.bob.secret"):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(text)
            assert caught.value.code == "003001"

    local_sql.run_local(tmp_path, work)


def test_a_table_with_damaged_metadata_does_not_silence_the_others(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for name in ("a", "b", "c"):
            await local.run(f"create table {name} (id int)")
            await local.run(f"insert into {name} values (1)")
        pointer = local.lake.tables.pointer(local.lake.ident("ns.b"))
        assert pointer.metadata_location is not None
        key = pointer.metadata_location.removeprefix("s3://lake/")
        storage = local.lake.storage
        receiver = storage.blobs.receive(size_hint=9, digests=frozenset({"md5"}))
        await receiver.write(b"no JSON, ")
        attributes = model.ObjectAttributes(owner=lakes.ACCOUNT)
        await storage.objects.put("lake", key, await receiver.finish(), attributes=attributes)
        local.lake.store._cache._entries.clear()

        assert await local.rows(
            "select table_name, row_count from information_schema.tables order by 1"
        ) == [("A", 1), ("B", None), ("C", 1)]
        assert await local.rows(
            "select table_name, column_name from information_schema.columns order by 1"
        ) == [("A", "ID"), ("C", "ID")]
        assert [(row[1], row[7]) for row in await local.rows("show tables")] == [
            ("A", 1),
            ("B", None),
            ("C", 1),
        ]
        assert [row[0] for row in await local.rows("show columns")] == ["A", "C"]

    local_sql.run_local(tmp_path, work)


def test_names_are_found_without_a_look_at_their_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema s")
        await local.run('create schema "Mixed"')
        await local.run("create table s.t as select 1 as n")
        await local.run('create table "Mixed"."T" as select 2 as n')
        assert await local.one("select n from mixed.t") == 2

        def refuse(*arguments: object, **more: object) -> None:
            raise AssertionError("names were listed")

        monkeypatch.setattr(places.CatalogView, "_namespaces", refuse)
        monkeypatch.setattr(places.CatalogView, "_table_names", refuse)
        for name in ("s.t", 'S."T"', '"s"."t"', "lake.s.t"):
            assert await local.one(f"select n from {name}") == 1
        assert await local.one('select n from "Mixed".T') == 2

    local_sql.run_local(tmp_path, work)


def test_an_unquoted_name_means_the_stored_form_of_new_names_before_others(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for number, name in enumerate(('"Abc"', "abc", '"ABC"')):
            await local.lake.tables.create(
                local.lake.ident(f"ns.{name.strip(chr(34))}"), schema=lakes.SCHEMA, by=lakes.BY
            )
            await local.run(f'insert into ns."{name.strip(chr(34))}" (id) values ({number})')
        # A table "ABC" that another client makes takes no reader or writer away from `abc`.
        assert await local.one("select id from aBc") == 1  # the form of a new unquoted name
        await local.run("insert into abc (id) values (7)")
        assert await local.one('select count(*) from "ABC"') == 1
        assert await local.one('select max(id) from ns."abc"') == 7
        await local.lake.tables.drop(local.lake.ident("ns.abc"), by=lakes.BY)
        assert await local.one("select id from aBc") == 2  # the exact upper-case form
        await local.lake.tables.drop(local.lake.ident("ns.ABC"), by=lakes.BY)
        assert await local.one("select id from aBc") == 0

    local_sql.run_local(tmp_path, work)


def test_a_new_name_in_a_hidden_schema_answers_as_in_an_absent_one(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table ns.t (id int)")
        await local.run("create view ns.v as select 1 as x")
        await local.run("create schema bob")
        be(local, "dave")
        for name in ("table lake.ns.t", "view lake.ns.v"):
            hidden = await answer_of(local, f"alter {name} rename to lake.bob.other")
            absent = await answer_of(local, f"alter {name} rename to lake.nobody.other")
            assert repr(hidden).replace("BOB", "NOBODY") == repr(absent)
            assert repr(hidden).startswith("('002003'")

    local_sql.run_local(tmp_path, work)


IDENTITY_STATEMENTS = [
    "grant select on table lake.ns.t to user {name}",
    "revoke select on table lake.ns.t from user {name}",
    "grant select on table lake.ns.t to role {name}",
    "grant usage on warehouse local to user {name}",
    "grant usage on warehouse local to role {name}",
    "grant role {name} to user {name}",
    "revoke role {name} from user {name}",
    "show grants to user {name}",
    "show grants of role {name}",
    "alter user {name} set comment = 'x'",
    "alter user {name} add pat p",
    "alter user {name} modify pat p set comment = 'x'",
    "alter user {name} rotate pat p",
    "alter user {name} remove pat p",
    "show user pats for user {name}",
    "drop user {name}",
    "drop role {name}",
    "describe user {name}",
]


@pytest.mark.parametrize("name", ["carol", "alice"])
def test_a_user_or_role_that_is_not_the_callers_answers_as_an_absent_one(
    tmp_path: Path, name: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table ns.t (id int)")
        await local.run("create user present")
        await local.run("create role present")
        be(local, name)
        for text in IDENTITY_STATEMENTS:
            present = await answer_of(local, text.format(name="present"))
            absent = await answer_of(local, text.format(name="missing"))
            assert repr(present).lower().replace("present", "missing") == repr(absent).lower(), text

    local_sql.run_local(tmp_path, work)


def test_grants_on_a_table_are_without_those_whose_policies_the_caller_may_not_read(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table ns.t (id int)")
        for name in ("open", "closed"):
            await local.run(f"create role {name}")
            await local.run(f"grant select on table ns.t to role {name}")
        statements = [
            {"Effect": "Allow", "Action": "*", "Resource": "*"},
            {
                "Effect": "Deny",
                "Action": "iam:GetRolePolicy",
                "Resource": "arn:aws:iam::000000000000:role/closed",
            },
        ]
        local.session = sessions.Session(id=1, principal=local_sql.user("reader", statements))
        rows = await local.rows("show grants on table lake.ns.t")
        assert {row[5] for row in rows} == {"OPEN"}
        statements = [
            {"Effect": "Allow", "Action": "s3tables:*", "Resource": "*"},
            {
                "Effect": "Allow",
                "Action": "iam:GetRolePolicy",
                "Resource": "arn:aws:iam::000000000000:role/o*",
            },
        ]
        local.session = sessions.Session(id=1, principal=local_sql.user("reader", statements))
        rows = await local.rows("show grants on table lake.ns.t")
        assert {row[5] for row in rows} == {"OPEN"}

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    [
        "drop schema s",
        "drop schema s cascade",
        "drop schema if exists s",
        "create or replace schema s",
        "create or replace schema s clone other",
    ],
)
def test_a_schema_with_a_table_that_the_caller_may_not_drop_stays(
    tmp_path: Path, text: str
) -> None:
    allowed = {"Effect": "Allow", "Action": "s3tables:*", "Resource": "*"}
    kept = {"StringEquals": {"s3tables:tableName": "kept"}}
    denied = {**allowed, "Effect": "Deny", "Action": "s3tables:DeleteTable", "Condition": kept}

    async def work(local: local_sql.LocalSql) -> None:
        for statement in (
            "create schema other",
            "create schema s",
            "create table s.mine (a int)",
            "create table s.kept (a int)",
        ):
            await local.run(statement)
        root, before = local.session, local.lake.log()
        local.session = sessions.Session(
            id=2, principal=local_sql.user("ann", [allowed, denied]), database="lake"
        )
        with pytest.raises(errors.SqlError) as caught:
            await local.run(text)
        assert caught.value.code == "003001"
        assert "may not" in caught.value.message or "not authorized" in caught.value.message
        assert local.lake.log() == before
        await local.run("drop table s.mine")
        local.session = root
        await local.run(text)
        assert local.lake.log() != before

    local_sql.run_local(tmp_path, work)
