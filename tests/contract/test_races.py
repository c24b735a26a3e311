"""Two clients that contradict each other, at once and many times: one of them wins, wholly."""

from __future__ import annotations

import concurrent.futures
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import botocore.config
import pytest
from botocore.exceptions import ClientError

from tests.kit import lakes, rest, server

ROUNDS = 40


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Running]:
    started = server.start(tmp_path_factory.mktemp("races") / "data")
    try:
        yield started
    finally:
        started.stop()


def client(running: server.Running, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id=running.access_key,
        aws_secret_access_key=running.secret_key,
        config=botocore.config.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}),
    )


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Do works in threads of their own that start together; return what each came to."""
    barrier = threading.Barrier(len(works))

    def work(each: Callable[[], Any]) -> Any:
        barrier.wait(120)
        try:
            return each()
        except ClientError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(work, works))


@pytest.mark.parametrize("other", ["delete", "put"])
def test_a_registered_table_always_has_its_metadata_file(
    running: server.Running, other: str
) -> None:
    s3 = client(running, "s3")
    with rest.Client(running) as catalog:
        created = catalog.make_table(f"races_{other}", "source")
        winners = set()
        for number in range(ROUNDS):
            home = f"imported/{other}{number}"
            key = f"{home}/metadata/v1.metadata.json"
            content = {
                **created["metadata"],
                "location": f"s3://lake/{home}",
                "table-uuid": str(uuid.uuid4()),
            }
            s3.put_object(Bucket="lake", Key=key, Body=json.dumps(content).encode())
            path = f"namespaces/races_{other}"
            body = {"name": f"r{number}", "metadata-location": f"s3://lake/{key}"}
            spoiling = {
                "delete": lambda key=key: s3.delete_object(Bucket="lake", Key=key),
                "put": lambda key=key: s3.put_object(Bucket="lake", Key=key, Body=b"{}"),
            }[other]

            (status, answer), _ = at_once(
                lambda path=path, body=body: catalog.ask("POST", f"{path}/register", body),
                spoiling,
            )
            winners.add(status)
            loaded, table = catalog.ask("GET", f"{path}/tables/r{number}")
            if status != 200:
                assert status in (400, 404), answer
                assert loaded == 404
                continue
            assert loaded == 200
            read = s3.get_object(Bucket="lake", Key=key)["Body"].read()
            assert json.loads(read)["table-uuid"] == content["table-uuid"]
            assert table["metadata"]["table-uuid"] == content["table-uuid"]


def test_a_namespace_is_never_created_in_a_table_bucket_that_is_deleted(
    running: server.Running,
) -> None:
    tables = client(running, "s3tables")
    other = client(running, "s3tables")
    for number in range(ROUNDS):
        arn = tables.create_table_bucket(name=f"race-{number:03}")["arn"]
        created, deleted = at_once(
            lambda arn=arn: tables.create_namespace(tableBucketARN=arn, namespace=["ns"]),
            lambda arn=arn: other.delete_table_bucket(tableBucketARN=arn),
        )
        assert isinstance(created, ClientError) != isinstance(deleted, ClientError)
        if isinstance(deleted, ClientError):
            assert deleted.response["Error"]["Code"] == "ConflictException"
            names = tables.list_namespaces(tableBucketARN=arn)["namespaces"]
            assert [each["namespace"] for each in names] == [["ns"]]
        else:
            assert created.response["Error"]["Code"] == "NotFoundException"


def test_of_a_table_and_a_view_that_are_made_at_once_under_one_name_one_is_there(
    running: server.Running,
) -> None:
    with rest.Client(running) as one, rest.Client(running) as other:
        one.ask("POST", "namespaces", {"namespace": ["race_names"]})
        winners = set()
        for number in range(ROUNDS):
            name = f"n{number}"
            table = {"name": name, "schema": lakes.SCHEMA}
            view = {**table, "view-version": lakes.VIEW_VERSION}
            (as_table, _), (as_view, _) = at_once(
                lambda body=table: one.ask("POST", "namespaces/race_names/tables", body),
                lambda body=view: other.ask("POST", "namespaces/race_names/views", body),
            )
            assert sorted((as_table, as_view)) == [200, 409]
            winners.add(as_table)
            assert one.ask("GET", f"namespaces/race_names/tables/{name}")[0] == (
                200 if as_table == 200 else 404
            )
            assert one.ask("GET", f"namespaces/race_names/views/{name}")[0] == (
                200 if as_view == 200 else 404
            )


def test_replacements_of_one_view_at_once_all_take_place(running: server.Running) -> None:
    with rest.Client(running) as one, rest.Client(running) as other:
        one.ask("POST", "namespaces", {"namespace": ["race_views"]})
        view = {
            "name": "v",
            "schema": lakes.SCHEMA,
            "view-version": lakes.VIEW_VERSION,
            "properties": {"version.history.num-entries": "1000"},
        }
        status, created = one.ask("POST", "namespaces/race_views/views", view)
        assert status == 200
        uuid_held = {"type": "assert-view-uuid", "uuid": created["metadata"]["view-uuid"]}
        texts = {"select 1"}
        for number in range(ROUNDS):
            replacements = []
            for writer in ("a", "b"):
                text = f"select '{writer}{number}'"
                texts.add(text)
                representation = {"type": "sql", "sql": text, "dialect": "spark"}
                version = {
                    **lakes.VIEW_VERSION,
                    "version-id": number + 2,
                    "representations": [representation],
                }
                updates = [
                    {"action": "add-view-version", "view-version": version},
                    {"action": "set-current-view-version", "view-version-id": -1},
                ]
                replacements.append({"requirements": [uuid_held], "updates": updates})
            first, second = replacements
            (status_one, _), (status_other, _) = at_once(
                lambda body=first: one.ask("POST", "namespaces/race_views/views/v", body),
                lambda body=second: other.ask("POST", "namespaces/race_views/views/v", body),
            )
            assert (status_one, status_other) == (200, 200)
        _, loaded = one.ask("GET", "namespaces/race_views/views/v")
        versions = loaded["metadata"]["versions"]
        assert {each["representations"][0]["sql"] for each in versions} == texts
        assert [each["version-id"] for each in versions] == list(range(1, 2 * ROUNDS + 2))
