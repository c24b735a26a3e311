"""Five users at every door of one server: what is not theirs is neither read nor told from nothing.

The server is a process as a user starts it, with tests/kit/users.py as its settings. bob owns
`bob.secret`; each question is asked about it, and about names that do not exist.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import botocore.client
import botocore.exceptions
import pytest

from sql import shell
from tests.kit import lakes, rest, users
from tests.kit import server as server_kit

BUCKET_ARN = "arn:aws:s3tables:us-east-1:000000000000:bucket"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_kit.Running]:
    folder = tmp_path_factory.mktemp("access")
    settings = users.write_settings(folder)
    server = server_kit.start(folder / "data", "--config", str(settings))
    try:
        for name in ("alice", "bob", "dave"):
            ask(server, "root", f"create schema lake.{name}")
        ask(server, "bob", "create table lake.bob.secret (id int, word varchar)")
        ask(server, "bob", "insert into lake.bob.secret values (41, 'hidden'), (42, 'hidden')")
        for name in ("alice", "dave"):
            ask(server, name, f"create table lake.{name}.mine (id int, word varchar)")
        yield server
    finally:
        server.stop()


def login_of(server: server_kit.Running, name: str) -> server_kit.Running:
    """Return the server with a user's keys for the root's."""
    if name == "root":
        return server
    return replace(server, access_key=users.access_key(name), secret_key=users.secret_key(name))


def ask(server: server_kit.Running, name: str, text: str, **login: str) -> Any:
    """Return the rows of a statement, or (code, message) of its refusal."""
    keys = login_of(server, name)
    client = shell.Client(url=server.url)
    where = {"database": "", "schema": "", **login}
    client.login(user=keys.access_key, password=keys.secret_key, **where)
    try:
        (answer,) = client.query(text)
        return answer["rowset"]
    except shell.ShellError as error:
        return "refused", str(error)
    finally:
        client.logout()


def rest_answer(server: server_kit.Running, name: str, method: str, path: str, body: Any) -> Any:
    """Return status and body of a REST answer."""
    with rest.Client(login_of(server, name)) as client:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        data = None if body is None else json.dumps(body)
        connection.request(
            method, f"/iceberg/v1/{path}", data, {"authorization": f"Bearer {client.token}"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def s3tables(server: server_kit.Running, name: str) -> Any:
    keys = login_of(server, name)
    return boto3.client(
        "s3tables",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        config=botocore.client.Config(retries={"max_attempts": 1}),
    )


def called(client: Any, operation: str, **members: Any) -> Any:
    try:
        answer = getattr(client, operation)(**members)
    except botocore.exceptions.ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return status, error.response["Error"]["Code"], error.response["Error"]["Message"]
    answer.pop("ResponseMetadata")
    return answer


def plain(answer: Any, database: str, namespace: str, table: str) -> str:
    """Return an answer with its names replaced, so that answers about two names compare."""
    text = repr(answer)
    for name, word in ((table, "T"), (namespace, "N"), (database, "D")):
        text = re.sub(re.escape(name), word, text, flags=re.IGNORECASE)
    return text


ABSENT = [("lake", "bob", "nothing"), ("lake", "nowhere", "secret"), ("nolake", "bob", "secret")]
REGISTRATION = {"name": "{t}", "metadata-location": "s3://{d}/{n}/{t}/metadata/0.metadata.json"}
CREATION = {"name": "{t}", "schema": rest.SCHEMA}
REST = [
    ("GET", "config?warehouse={d}", None),
    ("GET", "config?warehouse=s3://{d}", None),
    ("GET", "{d}/namespaces", None),
    ("GET", "{d}/namespaces/{n}", None),
    ("HEAD", "{d}/namespaces/{n}", None),
    ("DELETE", "{d}/namespaces/{n}", None),
    ("POST", "{d}/namespaces/{n}/properties", {"updates": {"a": "b"}}),
    ("GET", "{d}/namespaces/{n}/tables", None),
    ("POST", "{d}/namespaces/{n}/tables", CREATION),
    (
        "POST",
        "{d}/namespaces/{n}/views",
        {**CREATION, "view-version": lakes.VIEW_VERSION},
    ),
    ("POST", "{d}/namespaces/{n}/register", {**REGISTRATION, "overwrite": True}),
    ("POST", "{d}/namespaces/{n}/register-view", REGISTRATION),
    ("GET", "{d}/namespaces/{n}/tables/{t}", None),
    ("HEAD", "{d}/namespaces/{n}/tables/{t}", None),
    ("DELETE", "{d}/namespaces/{n}/tables/{t}", None),
    ("GET", "{d}/namespaces/{n}/tables/{t}/credentials", None),
    ("POST", "{d}/namespaces/{n}/tables/{t}", {"requirements": [], "updates": []}),
    (
        "POST",
        "{d}/namespaces/{n}/tables/{t}",
        {"requirements": [{"type": "assert-create"}], "updates": []},
    ),
    (
        "POST",
        "{d}/tables/rename",
        {
            "source": {"namespace": ["{n}"], "name": "{t}"},
            "destination": {"namespace": ["{n}"], "name": "x"},
        },
    ),
    (
        "POST",
        "{d}/transactions/commit",
        {
            "table-changes": [
                {
                    "identifier": {"namespace": ["{n}"], "name": "{t}"},
                    "requirements": [],
                    "updates": [],
                }
            ]
        },
    ),
]


def filled(body: Any, **names: str) -> Any:
    text = json.dumps(body)
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return json.loads(text)


@pytest.mark.parametrize(("method", "path", "body"), REST)
def test_the_catalog_tells_carol_nothing_of_what_exists(
    running: server_kit.Running, method: str, path: str, body: Any
) -> None:
    def answer(database: str, namespace: str, table: str) -> str:
        names = {"d": database, "n": namespace, "t": table}
        response = rest_answer(
            running, "carol", method, path.format(**names), filled(body, **names)
        )
        assert response[0] == 403
        return plain(response, database, namespace, table)

    hidden = answer("lake", "bob", "secret")
    for names in ABSENT:
        assert answer(*names) == hidden


def test_s3tables_tells_carol_nothing_of_what_exists(running: server_kit.Running) -> None:
    client = s3tables(running, "carol")
    arn = s3tables(running, "root").get_table(
        tableBucketARN=f"{BUCKET_ARN}/lake", namespace="bob", name="secret"
    )["tableARN"]
    uuid = arn.rpartition("/")[2]

    def answers(database: str, namespace: str, table: str, table_uuid: str) -> list[str]:
        bucket = {"tableBucketARN": f"{BUCKET_ARN}/{database}"}
        space = {**bucket, "namespace": namespace}
        named = {**space, "name": table}
        table_arn = f"{BUCKET_ARN}/{database}/table/{table_uuid}"
        responses = [
            called(client, "get_table_bucket", **bucket),
            called(client, "list_namespaces", **bucket),
            called(client, "get_namespace", **space),
            called(client, "create_namespace", **bucket, namespace=[namespace]),
            called(client, "delete_namespace", **space),
            called(client, "list_tables", **space),
            called(client, "create_table", **named, format="ICEBERG"),
            called(client, "get_table", **named),
            called(client, "get_table", tableArn=table_arn),
            called(client, "get_table_metadata_location", **named),
            called(client, "delete_table", **named),
            called(client, "rename_table", **named, newName="x"),
            called(client, "list_tags_for_resource", resourceArn=table_arn),
        ]
        assert {each[0] for each in responses} == {403}
        return [
            plain(each, database, namespace, table).replace(table_uuid, "U") for each in responses
        ]

    hidden = answers("lake", "bob", "secret", uuid)
    other = "0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10"
    for names in ABSENT:
        assert answers(*names, other) == hidden


def test_s3_tells_carol_nothing_of_what_exists(running: server_kit.Running) -> None:
    client = s3_client(running, "carol")

    def answers(database: str, namespace: str, table: str) -> list[str]:
        key = f"{namespace}/{table}/data/x.parquet"
        responses = [
            called(client, "get_object", Bucket=database, Key=key),
            called(client, "put_object", Bucket=database, Key=key, Body=b"x"),
            called(client, "delete_object", Bucket=database, Key=key),
            called(client, "list_objects_v2", Bucket=database, Prefix=f"{namespace}/{table}/"),
            called(client, "head_bucket", Bucket=database),
        ]
        assert {each[0] for each in responses} == {403}
        return [plain(each, database, namespace, table) for each in responses]

    hidden = answers("lake", "bob", "secret")
    for names in ABSENT:
        if names[0] == "lake":
            assert answers(*names) == hidden
    # General and table buckets share one name space, so that a name is taken is no secret.
    absent = called(client, "get_object", Bucket="nolake", Key="bob/secret/data/x.parquet")
    assert absent[:2] == (404, "NoSuchBucket")


def s3_client(server: server_kit.Running, name: str) -> Any:
    keys = login_of(server, name)
    return boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        config=botocore.client.Config(s3={"addressing_style": "path"}),
    )


def test_a_listing_across_tables_shows_dave_nothing_of_bobs(running: server_kit.Running) -> None:
    """Dave may list the bucket, and is denied what lies in the namespace bob."""
    root, dave = s3_client(running, "root"), s3_client(running, "dave")

    def keys_of(client: Any, **options: Any) -> list[str]:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket="lake", **options)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def prefixes_of(client: Any, **options: Any) -> list[str]:
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket="lake", Delimiter="/", **options
        )
        return [each["Prefix"] for page in pages for each in page.get("CommonPrefixes", ())]

    for key in ("alice/mine/data/f.parquet", "boa/loose/data/f.parquet", "bobby/t/data/f.parquet"):
        root.put_object(Bucket="lake", Key=key, Body=b"x")
    everything = keys_of(root)
    allowed = [key for key in everything if not key.startswith("bob/")]
    assert len(everything) > len(allowed) > 3
    assert keys_of(dave) == allowed
    old = dave.get_paginator("list_objects").paginate(
        Bucket="lake", PaginationConfig={"PageSize": 2}
    )
    assert [each["Key"] for page in old for each in page["Contents"]] == allowed
    for size in (1, 2, 3, 7, len(allowed)):
        for page in dave.get_paginator("list_objects_v2").paginate(
            Bucket="lake", PaginationConfig={"PageSize": size}
        ):
            token = page.get("NextContinuationToken", "")
            named = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            assert b"bob/" not in named
            assert page["KeyCount"] == len(page["Contents"]) <= size
        assert keys_of(dave, PaginationConfig={"PageSize": size}) == allowed
    assert prefixes_of(root) == ["alice/", "boa/", "bob/", "bobby/", "dave/"]
    assert prefixes_of(dave) == ["alice/", "boa/", "bobby/", "dave/"]
    assert prefixes_of(dave, PaginationConfig={"PageSize": 1}) == prefixes_of(dave)
    assert prefixes_of(dave, Prefix="bob") == ["bobby/"]
    for prefix in ("bob/", "bob/sec", "bob/secret"):
        assert prefixes_of(dave, Prefix=prefix) == keys_of(dave, Prefix=prefix) == []
    key = "bob/secret/data/upload.parquet"
    started = s3_client(running, "bob").create_multipart_upload(Bucket="lake", Key=key)
    try:
        for options in ({}, {"Delimiter": "/"}, {"Prefix": "bob/"}, {"MaxUploads": 1}):
            listed = dave.list_multipart_uploads(Bucket="lake", **options)
            assert "bob/" not in repr([listed.get("Uploads"), listed.get("CommonPrefixes")])
            assert not listed["IsTruncated"]
        uploads = root.list_multipart_uploads(Bucket="lake")["Uploads"]
        assert [each["Key"] for each in uploads] == [key]
    finally:
        s3_client(running, "bob").abort_multipart_upload(
            Bucket="lake", Key=key, UploadId=started["UploadId"]
        )


@pytest.mark.parametrize(
    "text",
    [
        "use database {d}",
        "use schema {d}.{n}",
        "show tables in schema {d}.{n}",
        "show schemas in database {d}",
        "describe table {d}.{n}.{t}",
        "describe schema {d}.{n}",
        "select * from {d}.{n}.{t}",
        "select * from {d}.information_schema.tables",
        "drop table if exists {d}.{n}.{t}",
    ],
)
def test_sql_tells_carol_nothing_of_what_exists(running: server_kit.Running, text: str) -> None:
    def answer(database: str, namespace: str, table: str) -> str:
        response = ask(running, "carol", text.format(d=database, n=namespace, t=table))
        return plain(response, database, namespace, table)

    hidden = answer("lake", "bob", "secret")
    for names in ABSENT:
        assert answer(*names) == hidden


def test_a_login_tells_carol_nothing_of_what_exists(running: server_kit.Running) -> None:
    text = "select current_database(), current_schema()"
    for database, schema in (("lake", "bob"), ("lake", "nowhere"), ("nolake", "bob")):
        assert ask(running, "carol", text, database=database, schema=schema) == [[None, None]]


def test_erin_sees_names_of_tables_and_nothing_of_the_tables(running: server_kit.Running) -> None:
    rows = ask(
        running,
        "erin",
        "select table_name, row_count, bytes from lake.information_schema.tables order by 1",
    )
    assert rows == [["MINE", None, None], ["MINE", None, None], ["SECRET", None, None]]
    assert ask(running, "erin", "select * from lake.information_schema.columns") == []
    assert ask(running, "erin", "show columns in database lake") == []
    assert ask(running, "erin", "describe table lake.bob.secret")[0] == "refused"


def test_dave_reads_nothing_of_bobs_through_a_snapshot_of_his_own(
    running: server_kit.Running,
) -> None:
    with rest.Client(running) as client:
        _, secret = client.ask("GET", "namespaces/bob/tables/secret")
        updates, _ = rest.append(secret["metadata"], 7)
        snapshot = secret["metadata"]["snapshots"][-1]
        updates[0]["snapshot"] = {**snapshot, "snapshot-id": 7, "sequence-number": 1}
    with rest.Client(login_of(running, "dave")) as client:
        status, refused = client.commit("dave", "mine", updates)
        assert (status, refused["error"]["type"]) == (403, "ForbiddenException")
    with rest.Client(running) as client:  # a principal that may read the file may name it
        assert client.commit("dave", "mine", updates)[0] == 200
    assert ask(running, "root", "select count(*) from lake.dave.mine") == [["2"]]
    for text in (
        "select * from lake.dave.mine",
        "select count(*) from lake.dave.mine",
        "select max(id + 1) from lake.dave.mine",
        "explain select * from lake.dave.mine where id > 1000",
    ):
        refusal, message = ask(running, "dave", text)
        assert refusal == "refused"
        assert "is not authorized to read" in message


@pytest.mark.further(
    "tests/sql/test_one_view.py::test_tables_of_one_query_never_show_half_of_a_commit",
    "tests/sql/test_one_view.py::test_a_commit_between_the_loads_of_two_tables_is_not_seen",
)
def test_a_join_never_shows_half_of_a_commit_to_two_tables(running: server_kit.Running) -> None:
    """The writer's commits each move both tables to the same one of two snapshots."""
    for name in ("a", "b"):
        ask(running, "root", f"create table lake.alice.{name} as select 1 as n")
        ask(running, "root", f"insert into lake.alice.{name} values (2)")
    with rest.Client(running) as client:
        history = {
            name: [
                each["snapshot-id"]
                for each in client.ask("GET", f"namespaces/alice/tables/{name}")[1]["metadata"][
                    "snapshots"
                ]
            ]
            for name in ("a", "b")
        }
    done = threading.Event()
    commits = 0

    def write() -> None:
        nonlocal commits
        with rest.Client(running) as client:
            while not done.is_set():
                commits += 1
                changes = [
                    {
                        "identifier": {"namespace": ["alice"], "name": name},
                        "requirements": [],
                        "updates": [
                            {
                                "action": "set-snapshot-ref",
                                "ref-name": "main",
                                "type": "branch",
                                "snapshot-id": history[name][commits % 2],
                            }
                        ],
                    }
                    for name in ("a", "b")
                ]
                status, answer = client.ask(
                    "POST", "transactions/commit", {"table-changes": changes}
                )
                assert status == 204, answer

    writer = threading.Thread(target=write)
    writer.start()
    try:
        text = (
            "select (select sum(n + 0) from lake.alice.a) - (select sum(n + 0) from lake.alice.b)"
        )
        queries = 0
        while queries < 40 or (commits <= 10 and writer.is_alive()):
            assert ask(running, "root", text) == [["0"]]
            queries += 1
    finally:
        done.set()
        writer.join()
    assert commits > 10
