"""Users, roles and grants in SQL, in this process: they are those of the access model."""

from __future__ import annotations

import dataclasses
import json
import types
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from server import limits
from server.access import errors as access_errors
from server.access import identities, identityrows, model, passwords, principals, tokens
from server.iam import errors as iam_errors
from server.iam import users
from sql import authentication, errors, grants
from storage import batch
from storage import errors as storage_errors
from tests.kit import lakes, local_sql

PASSWORD = "correct horse"


async def refused(local: local_sql.LocalSql, text: str) -> tuple[str, str]:
    with pytest.raises(errors.SqlError) as caught:
        await local.run(text)
    return caught.value.code, caught.value.message


def test_create_user_stores_a_hash_and_the_properties(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        answer = await local.one(
            f"create user alice password = '{PASSWORD}' default_role = etl comment = 'of sales'"
        )
        assert answer == "User ALICE successfully created."
        row = local.iam.user("alice")
        assert row is not None
        assert passwords.verify(row.password, PASSWORD)
        assert not passwords.verify(row.password, PASSWORD + "x")
        assert row.properties == {"default_role": "ETL", "comment": "of sales"}
        assert (await refused(local, "create user ALICE"))[0] == "002002"
        assert await local.one("create user if not exists alice") == (
            "ALICE already exists, statement succeeded."
        )
        rows = {row[0]: row[1] for row in await local.rows("describe user alice")}
        assert (rows["NAME"], rows["COMMENT"], rows["PASSWORD"]) == (
            "ALICE", "of sales", "********",
        )  # fmt: skip
        listed = await local.rows("show users like 'alice'")
        assert [(row[0], row[9], row[10], row[24]) for row in listed] == [
            ("ALICE", "of sales", "false", "true")
        ]

    local_sql.run_local(tmp_path, work)


def test_alter_user_changes_and_removes_credentials(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(f"create user alice password = '{PASSWORD}'")
        await local.run("alter user alice set disabled = true, comment = 'x'")
        entry = local.iam.principals.by_name("alice")
        assert entry is not None
        assert entry.is_disabled
        await local.run("alter user alice unset password, comment, disabled")
        row = local.iam.user("alice")
        assert row is not None
        assert (row.password, row.disabled, row.properties) == ("", False, {})
        assert (await refused(local, "alter user alice set rsa_public_key = 'x'"))[0] == "002049"
        assert (await refused(local, "alter user alice set password = 'short'"))[0] == "003002"
        assert (await refused(local, "alter user bob set disabled = true"))[0] == "002003"
        await local.run("alter user if exists bob set disabled = true")
        assert (await refused(local, "alter user root set disabled = true"))[0] == "003001"
        for text in (
            "create user bob must_change_password = true",
            "alter user alice rename to bob",
            "alter user alice set network_policy = p",
            "create or replace user alice",
        ):
            assert (await refused(local, text))[0] == "000002", text

    local_sql.run_local(tmp_path, work)


def test_a_password_is_a_string_and_no_property_is_written_twice(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create user alice comment = 'x'")
        for changes in (
            "password = LongEnough",
            "password = 0123456789",
            "password = true",
            "rsa_public_key = null",
            "disabled = true disabled = false",
            "comment = 'a', comment = 'b'",
        ):
            assert (await refused(local, f"create user bob {changes}"))[0] == "001003", changes
            assert (await refused(local, f"alter user alice set {changes}"))[0] == "001003", changes
        row = local.iam.user("alice")
        assert row is not None
        assert (row.password, row.public_keys, row.disabled) == ("", (), False)
        assert row.properties == {"comment": "x"}
        assert local.iam.user("bob") is None

    local_sql.run_local(tmp_path, work)


def test_drop_user_and_role_remove_all_that_they_have(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text in (
            "create user alice",
            "create role etl comment = 'x'",
            "create table t (a int)",
            "grant select on table t to user alice",
            "grant select on table t to role etl",
        ):
            await local.run(text)
        assert await local.one("drop user alice") == "ALICE successfully dropped."
        assert await local.one("drop role etl") == "ETL successfully dropped."
        assert local.iam.user("alice") is None
        assert local.iam.role("etl") is None
        assert (await refused(local, "drop role etl"))[0] == "002003"
        answer = await local.one("drop user if exists alice")
        assert answer == "Drop statement executed successfully (ALICE already dropped)."
        with local.iam.identities.view() as view:
            counts = [row.name for row in local.iam.users_after(view, "")]
        assert counts == []

    local_sql.run_local(tmp_path, work)


def test_a_role_has_its_own_rights_alone_and_those_whom_it_is_granted_to(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        root = local.session.principal
        for text in (
            "create user alice",
            "create role etl",
            "create table t as select 1 as a",
            "create table other as select 2 as a",
            "grant select on table t to role etl",
            "grant usage on schema ns to role etl",
            "grant usage on database lake to role etl",
            "grant select on table other to user alice",
        ):
            await local.run(text)
        local.log_in("alice")
        assert (await refused(local, "use role etl"))[0] == "002003"
        assert await local.one("select current_available_roles()") == '["PUBLIC"]'
        local.session.user, local.session.principal = None, root
        await local.run("grant role etl to user alice")
        local.log_in("alice")
        assert await local.one("select current_available_roles()") == '["ETL", "PUBLIC"]'
        assert (await refused(local, "select a from lake.ns.t"))[0] == "002003"
        assert await local.one("select a from lake.ns.other") == 2
        await local.run("use role etl")
        assert await local.rows("select current_role(), current_user()") == [("ETL", "ALICE")]
        assert await local.one("select a from lake.ns.t") == 1
        assert (await refused(local, "select a from lake.ns.other"))[0] == "003001"
        assert (await refused(local, "insert into t values (2)"))[0] == "003001"
        assert (await refused(local, "grant select on table t to user alice"))[0] == "003001"
        roles = await local.rows("show roles")
        assert [(row[1], row[3], row[5]) for row in roles] == [("ETL", "Y", 1), ("PUBLIC", "N", 0)]
        await local.run("use role public")
        assert (await refused(local, "select a from lake.ns.t"))[0] == "002003"
        local.session.user, local.session.principal = None, root
        await local.run("revoke role etl from user alice")
        local.log_in("alice")
        assert (await refused(local, "use role etl"))[0] == "002003"
        local.session.role = "ETL"  # as in a session that was in the role
        assert (await refused(local, "show grants to role etl"))[0] == "002003"

    local_sql.run_local(tmp_path, work)


def test_a_new_user_of_the_same_name_does_not_get_the_roles_of_the_old_one(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        root = local.session.principal
        for text in ("create role etl", "create user alice", "create user bob"):
            await local.run(text)
        for name in ("alice", "bob"):
            await local.run(f"grant role etl to user {name}")
        await local.run("drop user alice")
        await local.run("create user alice")
        assert [row[3] for row in await local.rows("show grants of role etl")] == ["BOB"]
        assert await local.rows("show grants to user alice") == []
        assert [row[5] for row in await local.rows("show roles like 'etl'")] == [1]
        local.log_in("alice")
        assert await local.one("select current_available_roles()") == '["PUBLIC"]'
        assert (await refused(local, "use role etl"))[0] == "002003"
        local.log_in("bob")
        await local.run("use role etl")
        local.session.user, local.session.principal = None, root
        await local.run("grant role etl to user alice")
        assert [row[3] for row in await local.rows("show grants of role etl")] == ["BOB", "ALICE"]
        local.log_in("alice")
        await local.run("use role etl")

    local_sql.run_local(tmp_path, work)


def test_a_grant_is_a_statement_of_a_policy_that_names_the_table(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create role etl")
        await local.run("create table t (a int)")
        await local.run("grant select on t to role etl")
        row = local.iam.role("etl")
        assert row is not None
        assert json.loads(row.inline["snowflake-grants"]) == {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Sid": "SelectOnTable1",
                    "Effect": "Allow",
                    "Action": [
                        "s3tables:GetTable",
                        "s3tables:GetTableMetadataLocation",
                        "s3tables:GetTableData",
                    ],
                    "Resource": [local_sql.table_arn(local, "ns.t")],
                }
            ],
        }
        await local.run("revoke all on table t from role etl")
        row = local.iam.role("etl")
        assert row is not None
        assert row.inline == {}

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("name", ["${aws:username}", "${x}", "${$}{", "$${{*}"])
def test_a_grant_on_a_schema_whose_name_is_a_variable_is_for_that_schema(
    tmp_path: Path, name: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text in (
            "create user alice",
            "create schema alice",
            f'create schema "{name}"',
            "grant usage on database lake to user alice",
            f'grant usage on schema "{name}" to user alice',
        ):
            await local.run(text)
        granted = await local.rows(f'show grants on schema "{name}"')
        assert [(row[1], row[5]) for row in granted] == [("USAGE", "ALICE")]
        local.log_in("alice")
        listed = [row[1] for row in await local.rows("show schemas in database lake")]
        assert sorted(listed) == sorted([name, "INFORMATION_SCHEMA"])

    local_sql.run_local(tmp_path, work)


def test_grants_on_dropped_tables_leave_room_for_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "USER_POLICIES_CHARS_MAX", 600)

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create user alice")
        for number in range(8):
            await local.run(f"create table t{number} (a int)")
            await local.run(f"grant select on table t{number} to user alice")
            if number != 1:
                await local.run(f"drop table t{number}")
        await local.run("undrop table t7")
        shown = "show grants to user alice"
        assert {row[7] for row in await local.rows(shown)} == {"LAKE.NS.T1", "LAKE.NS.T7"}
        for number in range(8, 12):
            await local.run(f"create table t{number} (a int)")
        with pytest.raises(errors.SqlError) as caught:
            await local.run("grant select on all tables in schema ns to user alice")
        assert "more than 600 characters" in caught.value.message
        assert len(await local.rows(shown)) == 2

    local_sql.run_local(tmp_path, work)


def test_privileges_that_are_one_right_are_granted_together_or_refused(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create role etl")
        await local.run("create table t (a int)")
        writes = "insert, update, delete, truncate"
        for text in (
            "grant insert on table t to role etl",
            f"grant {writes} on table t to role etl",
            "grant create table on schema ns to role etl",
            "grant references on table t to role etl",
            "grant ownership on table t to role etl",
            "grant select on table t to role etl with grant option",
            "grant select on future tables in schema ns to role etl",
            "grant operate on warehouse w to role etl",
            "grant usage, monitor on warehouse w to role etl",
            "revoke usage on warehouse w from role etl",
            "grant role etl to role etl",
            "grant usage on integration i to role etl",
        ):
            assert (await refused(local, text))[0] == "000002", text
        row = local.iam.role("etl")
        assert row is not None
        assert row.inline == {}
        await local.run(f"grant select, {writes} on table t to role etl")
        assert (await refused(local, "revoke select on table t from role etl"))[0] == "000002"
        await local.run(f"revoke {writes} on table t from role etl")
        granted = await local.rows("show grants to role etl")
        assert [row[1:6] for row in granted] == [
            ("SELECT", "TABLE", "LAKE.NS.T", "ROLE", "ETL"),
        ]
        assert (await refused(local, "grant select on table t to role no_role"))[0] == "002003"
        assert (await refused(local, "grant select on table no_t to role etl"))[0] == "002003"

    local_sql.run_local(tmp_path, work)


def test_each_grant_on_schemas_databases_and_the_account_allows_what_it_says(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        root = local.session.principal
        for text in (
            "create role etl",
            "create user alice",
            "grant role etl to user alice",
            "create schema s",
            "create table lake.s.one as select 1 as a",
            "create table lake.s.two as select 2 as a",
        ):
            await local.run(text)

        async def granted(text: str) -> None:
            local.session.user, local.session.principal = None, root
            await local.run(text)
            local.log_in("alice", "ETL")

        local.log_in("alice", "ETL")
        assert await local.rows("show databases") == []
        await granted("grant usage on database lake to role etl")
        assert [row[1] for row in await local.rows("show databases")] == ["LAKE"]
        assert await local.rows("show tables in database lake") == []
        await granted("grant usage on schema lake.s to role etl")
        tables = [row[1] for row in await local.rows("show tables in schema lake.s")]
        assert tables == ["ONE", "TWO"]
        await granted("grant select on all tables in schema lake.s to role etl")
        assert await local.one("select sum(a) from (select * from lake.s.one union all"
                               " select * from lake.s.two)") == 3  # fmt: skip
        assert (await refused(local, "create table lake.s.three (a int)"))[0] == "003001"
        await granted("grant all on schema lake.s to role etl")
        await local.run("create table lake.s.three (a int)")
        assert (await refused(local, "select * from lake.s.three"))[0] == "003001"
        assert (await refused(local, "create schema lake.s2"))[0] == "003001"
        await granted("grant create schema on database lake to role etl")
        await local.run("create schema lake.s2")
        assert (await refused(local, "create database pond"))[0] == "003001"
        await granted("grant create database, create user, create role on account to role etl")
        await local.run("create database pond")
        await local.run("create role other")
        await local.run("create user bob")
        assert (await refused(local, "drop user bob"))[0] == "003001"
        granted_rows = await local.rows("show grants to role etl")
        shown = {(row[1], row[2], row[3]) for row in granted_rows}
        assert {
            ("USAGE", "DATABASE", "LAKE"),
            ("USAGE", "SCHEMA", "LAKE.S"),
            ("CREATE VIEW", "SCHEMA", "LAKE.S"),
            ("SELECT", "TABLE", "LAKE.S.TWO"),
            ("CREATE ROLE", "ACCOUNT", lakes.ACCOUNT),
        } <= shown

    local_sql.run_local(tmp_path, work)


def test_the_right_to_create_tables_in_a_schema_writes_to_none_that_exists(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text in (
            "create role etl",
            "create user alice",
            "grant role etl to user alice",
            "create table t as select 1 as a",
            "grant create table, create view, create sequence on schema ns to role etl",
        ):
            await local.run(text)
        local.log_in("alice", "ETL")
        arn = local_sql.table_arn(local, "ns.t")
        for action in ("PutTableData", "GetTableData", "UpdateTableMetadataLocation"):
            demand = local_sql.model.Demand(
                action=f"s3tables:{action}",
                resource=arn,
                context={"s3tables:namespace": "ns", "s3tables:tableName": "t"},
            )
            assert not local.iam.authoriser.permits(local.session.principal, demand)

    local_sql.run_local(tmp_path, work)


def test_show_grants_in_all_its_forms(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text in (
            "create role etl",
            "create user alice",
            "grant role etl to user alice",
            "create table t (a int)",
            "create view v as select a from t",
            "grant select on table t to role etl",
            "grant select on view v to user alice",
        ):
            await local.run(text)
        on_table = await local.rows("show grants on table t")
        assert [row[1:8] for row in on_table] == [
            ("SELECT", "TABLE", "LAKE.NS.T", "ROLE", "ETL", "false", "")
        ]
        on_view = await local.rows("show grants on view v")
        assert [row[1:6] for row in on_view] == [("SELECT", "VIEW", "LAKE.NS.V", "USER", "ALICE")]
        assert [row[1:4] for row in await local.rows("show grants of role etl")] == [
            ("ETL", "USER", "ALICE")
        ]
        to_user = await local.rows("show grants to user alice")
        assert [(row[1], row[5], row[7]) for row in to_user] == [
            ("ETL", "", ""), ("", "SELECT", "LAKE.NS.V"),
        ]  # fmt: skip
        local.log_in("alice")
        assert [row[1:4] for row in await local.rows("show grants")] == [("ETL", "USER", "ALICE")]
        assert await local.rows("show grants to role public") == []
        assert (await refused(local, "show grants to role etl"))[0] == "002003"
        local.log_in("alice", "ETL")
        assert len(await local.rows("show grants to role etl")) == 1

    local_sql.run_local(tmp_path, work)


def test_statements_of_accounts_with_a_repeated_query_id_run_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        async def twice(text: str) -> list[Any]:
            query_id = str(uuid.uuid4())
            return [await local.one(text, query_id=query_id) for _ in range(2)]

        assert await twice("create user alice") == ["User ALICE successfully created."] * 2
        assert await twice("create role etl") == ["Role ETL successfully created."] * 2
        await local.run("create table t (a int)")
        done = ["Statement executed successfully."] * 2
        assert await twice("grant select on table t to role etl") == done
        assert await twice("grant role etl to user alice") == done
        assert await twice("drop role etl") == ["ETL successfully dropped."] * 2
        assert await twice("drop user alice") == ["ALICE successfully dropped."] * 2

    local_sql.run_local(tmp_path, work)


def test_rights_on_users_and_roles_are_those_of_iam(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        users = ("create user alice", "create user bob")
        for text in ("create role etl", "create table t (a int)", *users):
            await local.run(text)
        cases = {
            "create user carol": "iam:CreateUser",
            "alter user bob set password = 'long enough'": "iam:UpdateLoginProfile",
            "alter user bob set disabled = true": "iam:UpdateUser",
            "alter user bob add pat p": "iam:CreateServiceSpecificCredential",
            "alter user bob modify pat p set comment = 'x'": "iam:UpdateServiceSpecificCredential",
            "alter user bob rotate pat p": "iam:ResetServiceSpecificCredential",
            "alter user bob remove pat p": "iam:DeleteServiceSpecificCredential",
            "create role r2": "iam:CreateRole",
            "alter role etl set comment = 'x'": "iam:UpdateRole",
            "grant role etl to user bob": "iam:UpdateAssumeRolePolicy",
            "grant select on table t to role etl": "iam:PutRolePolicy",
            "grant select on table t to user bob": "iam:PutUserPolicy",
            "drop user carol": "iam:DeleteUser",
            "drop role r2": "iam:DeleteRole",
        }
        tables = {"Effect": "Allow", "Action": "s3tables:*", "Resource": "*"}
        for text, action in cases.items():
            await act_as_alice(local, tables)
            assert (await refused(local, text))[0] == "003001", text
            await act_as_alice(
                local, tables, {"Effect": "Allow", "Action": action, "Resource": "*"}
            )
            await local.run(text)

    local_sql.run_local(tmp_path, work)


def test_a_policy_of_grants_that_was_changed_by_other_means_is_refused() -> None:
    grant = grants.GrantedRight(object_type="TABLE", privileges=grants.SELECT, arn="arn:x")
    text = grants.document([grant])
    assert grants.parse(text) == {grant}
    changed = json.loads(text)
    changed["Statement"][0]["Action"].append("s3tables:DeleteTable")
    for other in (json.dumps(changed, separators=(",", ":")), "{}", "[]", "x", '{"Statement":[1]}'):
        with pytest.raises(grants.Malformed):
            grants.parse(other)


async def new_token(local: local_sql.LocalSql, text: str) -> str:
    """Run ADD or ROTATE, and return the token's text."""
    return str((await local.rows(text))[0][1])


async def give_rights(local: local_sql.LocalSql, *statements: Any, role: str = "") -> None:
    """Give Alice, or a role, these rights and no others."""
    document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    inline = {"rights": document} if statements else {}

    def plan(draft: identities.IdentityDraft) -> None:
        row: Any = draft.role(role) if role else draft.user("alice")
        key = identityrows.key_of(identityrows.ROLE if role else identityrows.USER, row.name)
        draft.put(key, msgspec.structs.replace(row, inline=inline))

    await local.iam.identities.change(plan)


async def act_as_alice(local: local_sql.LocalSql, *statements: Any) -> None:
    """Let the session be Alice's, with these rights."""
    await give_rights(local, *statements)
    alice = logins_of(local).principal_of("alice", {})
    assert alice is not None
    local.session.user, local.session.principal = None, alice


def logins_of(local: local_sql.LocalSql) -> authentication.Authenticator:
    return authentication.Authenticator(
        principals=local.iam.principals,
        ring=tokens.KeyRing(keys=(), master=b""),
        now_ms=local.lake.clock,
    )


DAY_MS = 24 * 60 * 60 * 1000


def test_a_token_opens_sessions_until_it_is_removed_disabled_or_expired(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        logins = logins_of(local)
        await local.run("create user alice")
        await local.run("create user bob")
        (row,) = await local.rows("alter user alice add programmatic access token nightly")
        name, text = row
        assert name == "NIGHTLY"
        principal = logins.check_programmatic_token(text)
        assert principal.name.upper() == "ALICE"
        assert (await logins.check_password("Alice", text)).name == principal.name
        with pytest.raises(access_errors.WrongPassword):
            await logins.check_password("bob", text)
        for wrong in (text[:-1], text + "A", text.partition(".")[0] + ".", "BHPT.x"):
            with pytest.raises(access_errors.AccessError):
                logins.check_programmatic_token(wrong)

        def goes_on() -> bool:
            return logins.principal_of(principal.name, {}, principal.access_key) is not None

        assert goes_on()
        await local.run("alter user alice modify pat nightly set disabled = true")
        assert not goes_on()
        with pytest.raises(access_errors.InvalidPAT):
            logins.check_programmatic_token(text)
        await local.run("alter user alice modify pat nightly unset disabled")
        assert goes_on()
        await local.run("alter user alice set disabled = true")
        assert not goes_on()
        await local.run("alter user alice set disabled = false")
        assert not goes_on()  # Snowflake leaves the tokens of such a user disabled
        await local.run("alter user alice modify pat nightly set disabled = false")
        local.lake.clock.now_ms += 15 * DAY_MS - 1
        assert goes_on()
        local.lake.clock.now_ms += 1
        assert not goes_on()
        with pytest.raises(access_errors.ExpiredPAT):
            logins.check_programmatic_token(text)
        other = await new_token(local, "alter user if exists alice add pat other")
        assert logins.check_programmatic_token(other).name == principal.name
        answer = await local.one("alter user alice remove programmatic access token other")
        assert answer == "Programmatic access token OTHER successfully removed."
        with pytest.raises(access_errors.InvalidPAT):
            logins.check_programmatic_token(other)

    local_sql.run_local(tmp_path, work)


def test_the_text_of_a_token_is_stored_nowhere(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> str:
        await local.run("create user alice")
        return await new_token(local, "alter user alice add pat nightly comment = 'of the night'")

    text = local_sql.run_local(tmp_path, work)
    secret = text.partition(".")[2].encode()
    assert len(secret) == 43  # 256 bits in base64
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"of the night" in each for each in stored)
    assert not any(secret in each for each in stored)


def test_a_rotated_token_has_a_new_text_and_the_old_one_some_hours(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        logins, clock = logins_of(local), local.lake.clock
        await local.run("create user alice")
        old = await new_token(local, "alter user alice add pat nightly days_to_expiry = 30")
        clock.now_ms += 10 * DAY_MS
        at = clock.now_ms
        (row,) = await local.rows("alter user alice rotate programmatic access token nightly")
        assert (row[0], row[2]) == ("NIGHTLY", f"NIGHTLY_ROTATED_{at}")
        listed = {
            row[0]: (row[1], row[3].timestamp() * 1000, row[4], row[9])
            for row in await local.rows("show user programmatic access tokens for user alice")
        }
        assert listed == {
            "NIGHTLY": ("ALICE", at + 30 * DAY_MS, "ACTIVE", None),
            f"NIGHTLY_ROTATED_{at}": ("ALICE", at + DAY_MS, "ACTIVE", "NIGHTLY"),
        }
        assert logins.check_programmatic_token(old).name == "ALICE".lower()
        for change in ("rotate pat {}", "modify pat {} set comment = 'x'"):
            text = f"alter user alice {change.format(row[2])}"
            assert (await refused(local, text))[0] == "001008", text
        await local.run(f"alter user alice modify pat {row[2]} set disabled = true")
        with pytest.raises(access_errors.InvalidPAT):
            logins.check_programmatic_token(old)
        await local.run(f"alter user alice modify pat {row[2]} set disabled = false")
        clock.now_ms += DAY_MS
        with pytest.raises(access_errors.ExpiredPAT):
            logins.check_programmatic_token(old)
        newest = await new_token(
            local, "alter user alice rotate pat nightly expire_rotated_token_after_hours = 0"
        )
        with pytest.raises(access_errors.ExpiredPAT):
            logins.check_programmatic_token(row[1])
        assert logins.check_programmatic_token(newest).name == "alice"
        beyond = "alter user alice rotate pat nightly expire_rotated_token_after_hours = 721"
        assert (await refused(local, beyond))[0] == "001008"
        statuses = [row[4] for row in await local.rows("show user pats for user alice")]
        assert sorted(statuses) == ["ACTIVE", "EXPIRED", "EXPIRED"]
        clock.now_ms += 7 * DAY_MS
        assert len(await local.rows("show user pats for user alice")) == 1

    local_sql.run_local(tmp_path, work)


def test_a_token_with_a_role_keeps_its_sessions_in_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        logins = logins_of(local)
        for text in ("create user alice", "create role etl", "create role other"):
            await local.run(text)
        adding = "alter user alice add pat nightly role_restriction = 'etl'"
        assert (await refused(local, adding))[0] == "002003"
        for role in ("etl", "other"):
            await local.run(f"grant role {role} to user alice")
        text = await new_token(local, adding)
        (row,) = await local.rows("show user pats for user alice")
        assert row[2] == "ETL"
        principal = logins.check_programmatic_token(text)
        assert logins.role_restriction(principal) == "ETL"
        local.session.user, local.session.principal = None, principal
        local.roles.enter(local.session, "ETL")
        assert await local.one("select current_available_roles()") == '["ETL"]'
        for role in ("other", "public", "accountadmin"):
            assert (await refused(local, f"use role {role}"))[0] == "002003", role
        await local.run("use role etl")
        assert local.session.principal.access_key == principal.access_key

    local_sql.run_local(tmp_path, work)


def is_valid(people: principals.Principals, claims: tokens.Claims) -> bool:
    """Whether the keys of a transfer, which have root's rights, are valid still."""
    entry = people.of_claims(claims)
    assert entry is None or entry.principal == people.root
    session = model.CredentialSession(
        subject=claims.subject,
        token_id=claims.token_id,
        issued_at_ms=claims.issued_at_ms,
        expires_at_ms=claims.expires_at_ms,
        claims=claims.extra,
    )
    caller = dataclasses.replace(people.root, session=session)
    assert (people.current(caller) is not None) == (entry is not None)
    return entry is not None


async def claims_of_transfer(local: local_sql.LocalSql) -> tokens.Claims:
    """The claims of the keys with which the session's client uploads a file."""
    transfer = (await local.run("put file:///tmp/x @~")).transfer
    assert transfer is not None
    now_ms = local.lake.clock()
    token = transfer.keys.session_token
    return tokens.verify(local_sql.RING, token, types=("sts",), now_ms=now_ms)


def test_the_keys_of_a_transfer_end_with_the_token_of_the_session(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        now_ms, people, logins = local.lake.clock, local.iam.principals, logins_of(local)
        await local.run("create user alice")
        text = await new_token(local, "alter user alice add pat nightly days_to_expiry = 1")
        local.session.user = None
        local.session.principal = logins.check_programmatic_token(text)
        local.session.role = "PUBLIC"
        claims = await claims_of_transfer(local)
        assert is_valid(people, claims)
        local.session.principal = local_sql.ROOT
        await local.run("alter user alice modify pat nightly set disabled = true")
        assert not is_valid(people, claims)
        await local.run("alter user alice modify pat nightly set disabled = false")
        assert is_valid(people, claims)
        await local.run("alter user alice set disabled = true")
        assert not is_valid(people, claims)
        await local.run("alter user alice set disabled = false")
        await local.run("alter user alice modify pat nightly set disabled = false")
        assert is_valid(people, claims)
        now_ms.now_ms += DAY_MS
        assert not is_valid(people, claims)
        now_ms.now_ms -= DAY_MS
        await local.run("alter user alice remove pat nightly")
        assert not is_valid(people, claims)

    local_sql.run_local(tmp_path, work)


def test_the_keys_of_a_transfer_end_with_the_user_of_a_login_by_password(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        people, logins = local.iam.principals, logins_of(local)
        await local.run(f"create user alice password = '{PASSWORD}'")
        local.session.user = None
        local.session.principal = await logins.check_password("alice", PASSWORD)
        local.session.role = "PUBLIC"
        claims = await claims_of_transfer(local)
        assert is_valid(people, claims)
        local.session.principal = local_sql.ROOT
        await local.run("alter user alice set disabled = true")
        assert not is_valid(people, claims)
        await local.run("alter user alice set disabled = false")
        assert is_valid(people, claims)
        await local.run("drop user alice")
        assert not is_valid(people, claims)
        await local.run(f"create user alice password = '{PASSWORD}'")
        assert not is_valid(people, claims), "another user has the name now"

    local_sql.run_local(tmp_path, work)


def test_who_a_credential_was_issued_to_is_looked_up_again_after_each_change(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        people, logins = local.iam.principals, logins_of(local)
        for text in ("create user alice", "create role etl", "grant role etl to user alice"):
            await local.run(text)
        token_text = await new_token(local, "alter user alice add pat nightly")
        by_token = logins.check_programmatic_token(token_text)
        claims = tokens.Claims(
            typ="sts", subject="alice", token_id="t", issued_at_ms=0, expires_at_ms=1, extra={}
        )
        entry = people.of_claims(claims)
        token_entry = people.by_credential(by_token.access_key)
        assert entry is not None
        assert token_entry is not None
        role = people.role("etl")
        assert role is not None
        session = model.CredentialSession(
            subject="alice",
            token_id="t",
            issued_at_ms=0,
            expires_at_ms=1,
            claims=identities.session_claims(role, "alice"),
        )
        caller = people.enter_stored_role(entry.principal, role)
        caller = dataclasses.replace(caller, session=session)

        def states() -> tuple[bool, ...]:
            return (
                people.holds(entry),
                people.holds(token_entry),
                people.of_claims(claims) is not None,
                people.current(caller) is not None,
            )

        assert states() == (True, True, True, True)
        await local.run("alter user alice set comment = 'x'")
        assert states() == (False, False, True, True), "another entry, the same user"
        await local.run("alter user alice set disabled = true")
        assert states() == (False, False, False, False)
        await local.run("alter user alice set disabled = false")
        assert states() == (False, False, True, True)
        await local.run("drop role etl")
        assert states() == (False, False, True, False)
        await local.run("drop user alice")
        assert states() == (False, False, False, False)

    local_sql.run_local(tmp_path, work)


def test_a_session_of_a_key_pair_that_is_gone_has_no_token(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        people = local.iam.principals
        await local.run("create user alice")
        entry = people.by_name("alice")
        assert entry is not None
        gone = dataclasses.replace(entry.principal, access_key="AKGONE")
        assert people.token_of(gone) is None
        assert people.token_of(entry.principal) is None
        assert people.token_of(people.root) is None

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("end", ["remove pat nightly", "modify pat nightly set disabled = true"])
def test_a_session_whose_token_has_ended_gets_neither_roles_nor_tokens(
    tmp_path: Path, end: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        logins = logins_of(local)
        everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        for text in ("create user alice", "create role etl", "grant role etl to user alice"):
            await local.run(text)
        text = await new_token(local, "alter user alice add pat nightly role_restriction = 'etl'")
        principal = logins.check_programmatic_token(text)
        await local.run(f"alter user alice {end}")
        rights = local_sql.user("alice", [everything]).policies
        local.session.user = None
        local.session.principal = dataclasses.replace(principal, policies=rights)
        for statement in (
            "use role public",
            "use role accountadmin",
            "select current_available_roles()",
            "alter user add pat another",
        ):
            assert (await refused(local, statement))[0] == "390111", statement
        assert local.session.role == "PUBLIC"
        with pytest.raises(errors.SessionFault):
            logins.role_restriction(principal)

    local_sql.run_local(tmp_path, work)


def test_a_session_of_a_token_changes_no_token_of_its_user(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        for text in ("create user alice", "create user bob", "alter user bob add pat other"):
            await local.run(text)
        text = await new_token(local, "alter user alice add pat nightly")
        await give_rights(local, everything)
        local.session.user = None
        local.session.principal = logins_of(local).check_programmatic_token(text)
        for change in (
            "add pat another",
            "rotate pat nightly",
            "modify pat nightly set comment = 'x'",
            "remove pat nightly",
        ):
            for user in ("", "alice "):
                assert (await refused(local, f"alter user {user}{change}"))[0] == "003001", change
        assert [row[0] for row in await local.rows("show user pats")] == ["NIGHTLY"]
        await local.run("alter user bob rotate pat other")

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("role", ["", "etl"])
def test_a_right_that_is_taken_meanwhile_changes_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    everything = {"Effect": "Allow", "Action": "iam:*", "Resource": "*"}

    async def work(local: local_sql.LocalSql) -> None:
        for text in (
            "create user alice",
            "create role etl",
            "grant role etl to user alice",
            "create user bob",
            "alter user bob add pat nightly",
        ):
            await local.run(text)
        index, stored = local.lake.storage.index, local.iam.identities
        decide, key = index.decide, identityrows.key_of(identityrows.USER, "alice")
        key = identityrows.key_of(identityrows.ROLE, "etl") if role else key
        without = index.get(batch.Store.IDENTITIES, key)
        assert without is not None
        await give_rights(local, everything, role=role)
        with_rights = index.get(batch.Store.IDENTITIES, key)
        assert with_rights is not None
        alice = logins_of(local).principal_of("alice", {})
        assert alice is not None
        local.session.user, local.session.principal = None, alice
        if role:
            await local.run("use role etl")
        await local.run("alter user bob add pat weekly")

        async def put(value: bytes) -> None:
            await index.commit(
                batch.Batch(writes=(batch.Put(store=batch.Store.IDENTITIES, key=key, value=value),))
            )

        async def after_another(decision: Any, **more: Any) -> Any:
            await put(without)
            assert stored.user("alice") is not None  # as it was: only `change` forgets it
            assert stored.role("etl") is not None
            return await decide(decision, **more)

        for change in (
            "add pat another",
            "rotate pat nightly",
            "modify pat nightly set disabled = true",
            "remove pat nightly",
        ):
            monkeypatch.setattr(index, "decide", after_another)
            assert (await refused(local, f"alter user bob {change}"))[0] == "003001", change
            monkeypatch.setattr(index, "decide", decide)
            await put(with_rights)
        listed = await local.rows("show user pats for user bob")
        assert [(row[0], row[4]) for row in listed] == [("NIGHTLY", "ACTIVE"), ("WEEKLY", "ACTIVE")]

    local_sql.run_local(tmp_path, work)


def test_tokens_follow_their_user_and_go_with_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        logins = logins_of(local)
        await local.run("create user alice")
        text = await new_token(local, "alter user alice add pat nightly")
        again = await new_token(local, "alter user alice add pat weekly")
        await local.run("alter user alice modify pat weekly rename to monthly")
        listed = [row[0] for row in await local.rows("show user pats for user alice")]
        assert listed == ["MONTHLY", "NIGHTLY"]
        assert logins.check_programmatic_token(again).name == "alice"
        deletion: Any = types.SimpleNamespace(
            value=types.SimpleNamespace(members={"UserName": "alice"})
        )
        with pytest.raises(iam_errors.DeleteConflict):  # IAM asks for no right on tokens
            await users.delete_user(local.iam, deletion)
        await local.run("drop user alice")
        await local.run("create user alice")
        assert await local.rows("show user pats for user alice") == []
        with pytest.raises(access_errors.InvalidPAT):
            logins.check_programmatic_token(text)

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("end", ["remove pat nightly", "modify pat nightly set disabled = true"])
def test_a_token_can_be_ended_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create user alice")
        text = await new_token(local, "alter user alice add pat nightly")
        index = local.lake.storage.index
        decide = index.decide

        async def full(decision: Any, *, makes_room: bool = False, **more: Any) -> Any:
            if not makes_room:
                raise storage_errors.DiskFull("the disk is full")
            return await decide(decision, makes_room=makes_room, **more)

        monkeypatch.setattr(index, "decide", full)
        await refused(local, "alter user alice modify pat nightly set comment = 'x'")
        await local.run(f"alter user alice {end}")
        with pytest.raises(access_errors.InvalidPAT):
            logins_of(local).check_programmatic_token(text)

    local_sql.run_local(tmp_path, work)


def test_what_is_no_statement_of_tokens_is_refused(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create user alice")
        await local.run("alter user alice add pat nightly")
        for text, code in {
            "alter user alice add pat nightly": "002002",
            "alter user alice add pat days days_to_expiry = 0": "001008",
            "alter user alice add pat days days_to_expiry = 366": "001008",
            "alter user alice add pat days days_to_expiry = 'x'": "001008",
            "alter user alice add pat p mins_to_bypass_network_policy_requirement = 5": "000002",
            'alter user alice add pat "a b"': "001008",
            "alter user alice add pat": "001003",
            "alter user alice add pat p comment = 5": "001003",
            "alter user alice add pat p role_restriction = ''": "001008",
            "alter user alice add pat p role_restriction = 'public'": "001008",
            "alter user alice add pat p role_restriction = 'AccountAdmin'": "001008",
            "alter user alice modify pat nightly": "001003",
            "alter user alice modify pat nightly set": "001003",
            "alter user alice modify pat absent set comment = 'x'": "002003",
            "alter user alice rotate pat absent": "002003",
            "alter user alice remove pat absent": "002003",
            "alter user bob add pat p": "002003",
            "alter user root add pat p": "003001",
            "alter user add pat p": "003001",  # root's row is the configuration
            "show user pats for user bob": "002003",
            "show user pats for alice": "001003",
        }.items():
            assert (await refused(local, text))[0] == code, text
        await local.run("alter user if exists bob add pat p")
        for number in range(14):
            await local.run(f"alter user alice add pat p{number}")
        assert (await refused(local, "alter user alice add pat p14"))[0] == "000625"
        assert (await refused(local, "alter user alice rotate pat p1"))[0] == "000625"
        local.lake.clock.now_ms += 15 * DAY_MS
        # The 15 of before have expired, and do not raise the limit of those that have not.
        for number in range(14, 29):
            await local.run(f"alter user alice add pat p{number}")
        assert (await refused(local, "alter user alice add pat p29"))[0] == "000625"

    local_sql.run_local(tmp_path, work)
