"""Sixteen clients at once create different things, through every face: none is refused.

What does not conflict in meaning never answers a conflict, however many writers come at once.
"""

from __future__ import annotations

import concurrent.futures
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import botocore.config
import pytest

from tests.kit import rest, server
from tests.sql.rest import raw

WRITERS = 16
ROUNDS = 2
PART = b"p" * 100


@dataclass(frozen=True, kw_only=True)
class Writer:
    """One client of every face. number: its own. round: which of the ROUNDS this is."""

    number: int
    round: int
    s3: Any
    tables: Any
    arn: str
    catalog: rest.Client
    sql: raw.Client

    @property
    def name(self) -> str:
        return f"w{self.number}_{self.round}"

    def ask(self, method: str, path: str, value: Any) -> Any:
        status, answer = self.catalog.ask(method, path, value)
        assert status in (200, 204), (status, answer)
        return answer

    def query(self, text: str) -> None:
        answer = self.sql.query(text)
        assert answer.body["success"], answer.body["message"]


@dataclass(frozen=True, kw_only=True)
class Clients:
    """What the writers of one server are made of."""

    running: server.Running
    s3: Any
    tables: Any
    arn: str
    sessions: list[raw.Client]

    def writer(self, number: int, round_number: int, token: str) -> Writer:
        return Writer(
            number=number,
            round=round_number,
            s3=self.s3,
            tables=self.tables,
            arn=self.arn,
            catalog=rest.Client(self.running, token=token),
            sql=self.sessions[number],
        )


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    running = server.start(tmp_path_factory.mktemp("conflicts") / "data")

    def client(service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=running.url,
            region_name="us-east-1",
            aws_access_key_id=running.access_key,
            aws_secret_access_key=running.secret_key,
            config=botocore.config.Config(
                s3={"addressing_style": "path"},
                retries={"max_attempts": 0},
                max_pool_connections=2 * WRITERS,
            ),
        )

    try:
        s3, tables = client("s3"), client("s3tables")
        arn = next(
            each["arn"] for each in tables.list_table_buckets()["tableBuckets"]
            if each["name"] == "lake"
        )  # fmt: skip
        sessions = []
        with rest.Client(running) as catalog:
            for namespace in ("shared", "deep"):
                assert catalog.ask("POST", "namespaces", {"namespace": [namespace]})[0] == 200
            catalog.make_table("shared", "one")
            # Every table of this namespace has new ancestors to note.
            assert catalog.ask(
                "POST",
                "namespaces/deep/properties",
                {"updates": {"location": "s3://lake/a/b/c/d"}},
            )[0] == 200  # fmt: skip
        s3.create_bucket(Bucket="plain")
        for _ in range(WRITERS):
            session = raw.Client(url=running.url)
            session.login(
                query="databaseName=lake&schemaName=shared",
                LOGIN_NAME=running.access_key,
                PASSWORD=running.secret_key,
            )
            sessions.append(session)
        sessions[0].query("create table filled (a int)")
        yield Clients(running=running, s3=s3, tables=tables, arn=arn, sessions=sessions)
    finally:
        running.stop()


# S3.


def create_bucket(writer: Writer) -> None:
    writer.s3.create_bucket(Bucket=writer.name.replace("_", "-"))


def put_object(writer: Writer) -> None:
    writer.s3.put_object(Bucket="plain", Key=f"same/{writer.name}", Body=b"x")


def put_object_with_a_long_key(writer: Writer) -> None:
    writer.s3.put_object(Bucket="plain", Key="k" * 900 + writer.name, Body=b"x")


def put_object_of_one_key(writer: Writer) -> None:
    writer.s3.put_object(Bucket="plain", Key="one", Body=writer.name.encode())


def put_object_below_a_table(writer: Writer) -> None:
    key = f"shared/one/data/{writer.name}.parquet"
    writer.s3.put_object(Bucket="lake", Key=key, Body=b"PAR1" + b"x" * 100_000 + b"PAR1")


def copy_object(writer: Writer) -> None:
    source = {"Bucket": "plain", "Key": "one"}
    writer.s3.copy_object(Bucket="plain", Key=f"copy/{writer.name}", CopySource=source)


def tag_object(writer: Writer) -> None:
    key = f"same/{writer.name}"
    tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
    writer.s3.put_object_tagging(Bucket="plain", Key=key, Tagging=tags)


def upload(writer: Writer) -> None:
    where = {"Bucket": "plain", "Key": f"upload/{writer.name}"}
    upload_id = writer.s3.create_multipart_upload(**where)["UploadId"]
    part = writer.s3.upload_part(**where, UploadId=upload_id, PartNumber=1, Body=PART)
    parts = [{"ETag": part["ETag"], "PartNumber": 1}]
    writer.s3.complete_multipart_upload(
        **where, UploadId=upload_id, MultipartUpload={"Parts": parts}
    )


# s3tables.


def create_table_bucket(writer: Writer) -> None:
    writer.tables.create_table_bucket(name="t" + writer.name.replace("_", "-"))


def create_namespace(writer: Writer) -> None:
    writer.tables.create_namespace(tableBucketARN=writer.arn, namespace=[f"n{writer.name}"])


def create_table_without_metadata(writer: Writer) -> None:
    writer.tables.create_table(
        tableBucketARN=writer.arn, namespace="shared", name=f"e{writer.name}", format="ICEBERG"
    )


def create_table(writer: Writer) -> None:
    writer.tables.create_table(
        tableBucketARN=writer.arn,
        namespace="shared",
        name=f"m{writer.name}",
        format="ICEBERG",
        metadata={"iceberg": {"schema": {"fields": [{"name": "a", "type": "long"}]}}},
        tags={"a": "b"},
    )


def tag_table_bucket(writer: Writer) -> None:
    writer.tables.tag_resource(resourceArn=writer.arn, tags={f"k{writer.number}": writer.name})


def tag_table(writer: Writer) -> None:
    arn = writer.tables.get_table(
        tableBucketARN=writer.arn, namespace="shared", name="one"
    )["tableARN"]  # fmt: skip
    writer.tables.tag_resource(resourceArn=arn, tags={f"k{writer.number}": writer.name})


# The Iceberg REST catalog.


def rest_create_namespace(writer: Writer) -> None:
    writer.ask("POST", "namespaces", {"namespace": [f"r{writer.name}"]})


def rest_create_child(writer: Writer) -> None:
    writer.ask("POST", "namespaces", {"namespace": ["shared", writer.name]})


def rest_update_properties(writer: Writer) -> None:
    updates = {"updates": {f"k{writer.number}": writer.name}}
    answer = writer.ask("POST", "namespaces/shared/properties", updates)
    assert answer["updated"] == [f"k{writer.number}"]


def rest_create_table(writer: Writer) -> None:
    body = {"name": f"r{writer.name}", "schema": rest.SCHEMA}
    writer.ask("POST", "namespaces/shared/tables", body)


def rest_create_table_with_ancestors(writer: Writer) -> None:
    body = {"name": writer.name, "schema": rest.SCHEMA}
    writer.ask("POST", "namespaces/deep/tables", body)


def rest_create_table_while_its_namespace_changes(writer: Writer) -> None:
    if writer.number % 2:
        rest_update_properties(writer)
    else:
        body = {"name": f"c{writer.name}", "schema": rest.SCHEMA}
        writer.ask("POST", "namespaces/shared/tables", body)


def rest_stage_and_create(writer: Writer) -> None:
    body = {"name": f"s{writer.name}", "schema": rest.SCHEMA, "stage-create": True}
    staged = writer.ask("POST", "namespaces/shared/tables", body)["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": staged["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": staged["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": staged["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    writer.ask("POST", f"namespaces/shared/tables/s{writer.name}", body)


def rest_commit(writer: Writer) -> None:
    updates = [{"action": "set-properties", "updates": {f"k{writer.number}": writer.name}}]
    writer.ask("POST", "namespaces/shared/tables/one", {"requirements": [], "updates": updates})


def rest_rename(writer: Writer) -> None:
    rename = {
        "source": {"namespace": ["shared"], "name": f"r{writer.name}"},
        "destination": {"namespace": ["deep"], "name": f"moved_{writer.name}"},
    }
    writer.ask("POST", "tables/rename", rename)


def rest_register(writer: Writer) -> None:
    path = f"namespaces/deep/tables/moved_{writer.name}"
    was = writer.ask("POST", f"{path}/unregister", None)
    body = {"name": f"again_{writer.name}", "metadata-location": was["metadata-location"]}
    writer.ask("POST", "namespaces/shared/register", body)


# SQL.


def sql_create_schema(writer: Writer) -> None:
    writer.query(f"create schema lake.q{writer.name}")


def sql_create_table(writer: Writer) -> None:
    writer.query(f"create table lake.shared.q{writer.name} (a int)")


def sql_create_table_as(writer: Writer) -> None:
    writer.query(f"create table lake.shared.qa{writer.name} as select {writer.number} as a")


def sql_insert(writer: Writer) -> None:
    writer.query(f"insert into lake.shared.filled values ({writer.number})")


def all_faces(writer: Writer) -> None:
    """Every writer something else, on what the others rely on."""
    suffix = f"x{writer.name}"
    works: tuple[Callable[[], Any], ...] = (
        lambda: tag_table_bucket(writer),
        lambda: tag_table(writer),
        lambda: rest_update_properties(writer),
        lambda: rest_commit(writer),
        lambda: writer.s3.put_object(
            Bucket="lake", Key=f"shared/one/data/{suffix}.parquet", Body=PART
        ),
        lambda: writer.ask(
            "POST", "namespaces/shared/tables", {"name": suffix, "schema": rest.SCHEMA}
        ),
        lambda: writer.tables.create_table(
            tableBucketARN=writer.arn, namespace="shared", name=suffix, format="ICEBERG"
        ),
        lambda: writer.query(f"create table lake.shared.{suffix} (a int)"),
    )
    works[writer.number % len(works)]()


OPERATIONS: tuple[Callable[[Writer], None], ...] = (
    create_bucket,
    put_object,
    put_object_with_a_long_key,
    put_object_of_one_key,
    put_object_below_a_table,
    copy_object,
    tag_object,
    upload,
    create_table_bucket,
    create_namespace,
    create_table_without_metadata,
    create_table,
    tag_table_bucket,
    tag_table,
    rest_create_namespace,
    rest_create_child,
    rest_update_properties,
    rest_create_table,
    rest_create_table_with_ancestors,
    rest_create_table_while_its_namespace_changes,
    rest_stage_and_create,
    rest_commit,
    rest_rename,
    rest_register,
    sql_create_schema,
    sql_create_table,
    sql_create_table_as,
    sql_insert,
    all_faces,
)


@pytest.mark.campaign
def test_sixteen_writers_of_different_things_are_never_refused(clients: Clients) -> None:
    """In the order of OPERATIONS: some go on with what earlier ones of the same writer made."""
    with rest.Client(clients.running) as first:
        token = first.token
    barrier = threading.Barrier(WRITERS)
    refusals: list[str] = []

    def work(number: int) -> None:
        for operation in OPERATIONS:
            for round_number in range(ROUNDS):
                writer = clients.writer(number, round_number, token)
                barrier.wait(120)
                try:
                    operation(writer)
                except Exception:  # noqa: BLE001 - every refusal is shown, not the first alone
                    refusals.append(f"{operation.__name__}: {traceback.format_exc(limit=-1)}")

    with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(work, number) for number in range(WRITERS)]:
            done.result()
    assert not refusals, f"{len(refusals)} refusals, among them:\n" + "\n".join(refusals[:10])
    with rest.Client(clients.running) as catalog:
        _, shared = catalog.ask("GET", "namespaces/shared")
        _, one = catalog.ask("GET", "namespaces/shared/tables/one")
    last = {f"k{number}": f"w{number}_{ROUNDS - 1}" for number in range(WRITERS)}
    assert shared["properties"].items() >= last.items()
    assert one["metadata"]["properties"].items() >= last.items()
    tags = clients.tables.list_tags_for_resource(resourceArn=clients.arn)["tags"]
    assert tags.items() >= last.items()


def test_a_second_creator_of_one_name_is_refused_as_such(clients: Clients) -> None:
    """The counterpart: what does conflict in meaning is one writer's, and the others hear so."""
    with rest.Client(clients.running) as first:
        token = first.token

    def create(_: int) -> tuple[int, str]:
        with rest.Client(clients.running, token=token) as catalog:
            status, answer = catalog.ask("POST", "namespaces", {"namespace": ["same"]})
        return status, answer.get("error", {}).get("type", "")

    with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
        answers = sorted(pool.map(create, range(WRITERS)))
    assert answers == [(200, ""), *[(409, "AlreadyExistsException")] * (WRITERS - 1)]
