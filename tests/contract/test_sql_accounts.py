"""Users, roles and grants of SQL, over the wire and at the other faces."""

from __future__ import annotations

import io
import uuid

import boto3
import botocore.config
import botocore.exceptions
import pytest

from sql import shell
from tests.kit import server as server_kit
from tests.sql.rest import raw

PASSWORD = "a password of alice"


def run_as(
    server: server_kit.Running, text: str, *, user: str = "", password: str = ""
) -> tuple[int, str]:
    """Run statements as root, or as a user; return the exit code and what was written."""
    output, faults = io.StringIO(), io.StringIO()
    code = shell.run(
        text,
        url=server.url,
        user=user or server.access_key,
        password=password or server.secret_key,
        database="lake",
        output=output,
        errors=faults,
    )
    return code, output.getvalue() + faults.getvalue()


def test_a_grant_in_sql_is_a_right_at_every_face_until_it_is_revoked(
    server: server_kit.Running,
) -> None:
    suffix = uuid.uuid4().hex[:8]
    user, role, schema = f"alice{suffix}", f"etl{suffix}", f"grants_{suffix}"
    statements = f"""
        create schema {schema};
        create table {schema}.t as select 7 as a;
        create user {user} password = '{PASSWORD}' default_role = {role};
        create role {role};
        grant role {role} to user {user};
        grant select on table {schema}.t to role {role};
        grant select on table {schema}.t to user {user};
    """
    code, said = run_as(server, statements)
    assert code == 0, said
    code, said = run_as(server, "select 1", user=user, password="a wrong password")
    assert "390100" in said
    read = f"select current_role(), a from lake.{schema}.t"
    code, said = run_as(server, read, user=user, password=PASSWORD)
    assert code == 0, said
    assert role.upper() in said
    code, said = run_as(
        server, f"insert into lake.{schema}.t values (8)", user=user, password=PASSWORD
    )
    assert "002003" in said  # the role may not know the database

    root = {"aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key}
    iam = boto3.client("iam", endpoint_url=server.url, region_name="us-east-1", **root)
    key = iam.create_access_key(UserName=user)["AccessKey"]
    tables = boto3.client(
        "s3tables",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
        config=botocore.config.Config(retries={"total_max_attempts": 1}),
    )
    where = {
        "tableBucketARN": "arn:aws:s3tables:us-east-1:000000000000:bucket/lake",
        "namespace": schema,
        "name": "t",
    }
    assert tables.get_table(**where)["name"] == "t"
    assert iam.list_user_policies(UserName=user)["PolicyNames"] == ["snowflake-grants"]
    code, said = run_as(server, f"revoke select on table {schema}.t from user {user}")
    assert code == 0, said
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        tables.get_table(**where)
    assert refused.value.response["Error"]["Code"] == "AccessDeniedException"
    code, said = run_as(server, read, user=user, password=PASSWORD)
    assert code == 0, said  # in the role
    code, said = run_as(server, f"alter user {user} set disabled = true")
    assert code == 0, said
    code, said = run_as(server, "select 1", user=user, password=PASSWORD)
    assert "390100" in said
    code, said = run_as(
        server, "select 1", user=key["AccessKeyId"], password=key["SecretAccessKey"]
    )
    assert "390100" in said
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        tables.list_table_buckets()
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    code, said = run_as(server, f"drop user {user}; drop role {role}")
    assert code == 0, said


def session_of(server: server_kit.Running, user: str = "", password: str = "") -> raw.Client:
    client = raw.Client(url=server.url)
    login = {
        "LOGIN_NAME": user or server.access_key,
        "PASSWORD": password or server.secret_key,
        "SESSION_PARAMETERS": {"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"},
    }
    assert client.login(query="databaseName=lake", **login).body["success"]
    return client


def test_query_history_has_the_statements_that_the_caller_may_see(
    server: server_kit.Running,
) -> None:
    suffix = uuid.uuid4().hex[:8]
    user, schema = f"teller{suffix}", f"history_{suffix}"
    root = session_of(server)
    for text in (
        f"create user {user} password = '{PASSWORD}'",
        f"create schema {schema}",
        f"use schema {schema}",
        f"grant usage on database lake to user {user}",
        "alter session set query_tag = 'nightly'",
        "create table t (a int)",
        "insert into t values (1), (2), (3)",
    ):
        assert root.query(text).body["success"], text
    failed = root.query("select a / 0 from t")
    assert failed.code == "100051"
    teller = session_of(server, user, PASSWORD)
    assert teller.query(f"select 'of {suffix}'").body["success"]

    def history(client: raw.Client, call: str, columns: str) -> list[list[str | None]]:
        of = f"table(lake.information_schema.query_history{call})"
        answer = client.query(f"select {columns} from {of} where query_text not like '%history%'")
        rows: list[list[str | None]] = answer.data["rowset"]
        return rows

    columns = (
        "query_text, query_type, execution_status, rows_produced, error_code, query_tag,"
        " schema_name, database_name, session_id, user_name, end_time >= start_time"
    )
    about = ["nightly", schema.upper(), "LAKE", str(root.session_id), "ROOT", "1"]
    assert history(root, "_by_session(result_limit => 4)", columns) == [
        ["select a / 0 from t", "SELECT", "FAILED_WITH_ERROR", None, "100051", *about],
        ["insert into t values (1), (2), (3)", "INSERT", "SUCCESS", "3", None, *about],
        ["create table t (a int)", "CREATE", "SUCCESS", "1", None, *about],
    ]
    created = f"create user {user} password = '********'"
    own = f"_by_session(session_id => {root.session_id}, result_limit => 100)"
    assert [created] in history(root, own, "query_text")
    assert PASSWORD not in str(history(root, "(result_limit => 10000)", "query_text"))
    later = "(end_time_range_start => dateadd(hour, 1, current_timestamp()))"
    assert history(root, later, "query_text") == []

    seen = [[f"select 'of {suffix}'"]]
    assert history(teller, "()", "query_text") == seen
    assert history(teller, f"_by_session(session_id => {root.session_id})", "1") == []
    assert history(root, f"_by_user(user_name => '{user.upper()}')", "query_text")[-1:] == seen
    root.query(f"drop user {user}")
    root.query(f"drop schema {schema} cascade")
