"""boto3's s3tables client against a server as a user starts it, with only an endpoint_url."""

from __future__ import annotations

import json
import uuid
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.kit import server as server_kit


def client_of(server: server_kit.Running, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    )


@pytest.fixture
def client(server: server_kit.Running) -> Any:
    return client_of(server, "s3tables")


@pytest.fixture
def name() -> str:
    return f"contract-{uuid.uuid4().hex[:12]}"


def test_boto3_walks_a_tables_whole_life(
    server: server_kit.Running, client: Any, name: str
) -> None:
    s3 = client_of(server, "s3")
    bucket = client.create_table_bucket(name=name, tags={"team": "lake"})["arn"]
    assert client.list_tags_for_resource(resourceArn=bucket)["tags"] == {"team": "lake"}
    listed_buckets = client.list_table_buckets(prefix=name)["tableBuckets"]
    assert [listed["arn"] for listed in listed_buckets] == [bucket]
    client.create_namespace(tableBucketARN=bucket, namespace=["sales"])
    where = {"tableBucketARN": bucket, "namespace": "sales", "name": "orders"}
    schema = {"fields": [{"name": "id", "type": "long", "required": True}]}
    created = client.create_table(
        **where, format="ICEBERG", metadata={"iceberg": {"schema": schema}}, tags={"a": "b"}
    )
    table = client.get_table(tableArn=created["tableARN"])
    assert client.list_tags_for_resource(resourceArn=created["tableARN"])["tags"] == {"a": "b"}

    # The pointer, moved by a client that writes metadata itself through S3.
    key = table["metadataLocation"].removeprefix(f"s3://{name}/")
    metadata = json.loads(s3.get_object(Bucket=name, Key=key)["Body"].read())
    next_key = key.replace("00000-", "00001-")
    metadata["properties"] = {"moved": "yes"}
    s3.put_object(Bucket=name, Key=next_key, Body=json.dumps(metadata))
    moved = client.update_table_metadata_location(
        **where,
        versionToken=created["versionToken"],
        metadataLocation=f"s3://{name}/{next_key}",
    )
    with pytest.raises(client.exceptions.ConflictException):
        client.update_table_metadata_location(
            **where,
            versionToken=created["versionToken"],
            metadataLocation=f"s3://{name}/{next_key}",
        )
    client.rename_table(**where, newName="renamed", versionToken=moved["versionToken"])
    where = {**where, "name": "renamed"}
    located = client.get_table_metadata_location(**where)
    assert located["metadataLocation"] == f"s3://{name}/{next_key}"

    with pytest.raises(client.exceptions.ConflictException):
        client.delete_namespace(tableBucketARN=bucket, namespace="sales")
    client.delete_table(**where, versionToken=located["versionToken"])
    with pytest.raises(client.exceptions.NotFoundException):
        client.get_table(**where)
    client.delete_namespace(tableBucketARN=bucket, namespace="sales")
    client.delete_table_bucket(tableBucketARN=bucket)
    with pytest.raises(client.exceptions.NotFoundException):
        client.get_table_bucket(tableBucketARN=bucket)


def test_a_value_that_is_not_offered_is_refused_by_its_name(client: Any, name: str) -> None:
    bucket = client.create_table_bucket(name=name)["arn"]
    with pytest.raises(ClientError) as caught:
        client.put_table_bucket_storage_class(
            tableBucketARN=bucket,
            storageClassConfiguration={"storageClass": "INTELLIGENT_TIERING"},
        )
    assert caught.value.response["Error"] == {
        "Code": "BadRequestException",
        "Message": "The storage class INTELLIGENT_TIERING is not available: every object is in "
        "STANDARD.",
    }
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_tags_and_lists_survive_a_restart(tmp_path: Any, name: str) -> None:
    running = server_kit.start(tmp_path / "data")
    bucket = client_of(running, "s3tables").create_table_bucket(name=name, tags={"a": "b"})["arn"]
    where = {"tableBucketARN": bucket, "namespace": "sales", "name": "orders"}
    first = client_of(running, "s3tables")
    first.create_namespace(tableBucketARN=bucket, namespace=["sales"])
    created = first.create_table(**where, format="ICEBERG", tags={"c": "d"})
    running.kill()
    again = server_kit.start(tmp_path / "data")
    client = client_of(again, "s3tables")
    try:
        assert client.list_tags_for_resource(resourceArn=bucket)["tags"] == {"a": "b"}
        assert client.list_tags_for_resource(resourceArn=created["tableARN"])["tags"] == {"c": "d"}
        assert client.get_table(**where)["versionToken"] == created["versionToken"]
    finally:
        assert again.stop() == 0
