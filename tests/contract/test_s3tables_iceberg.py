"""A table made by one API is at once usable by the other."""

from __future__ import annotations

import json
import uuid
from typing import Any

import boto3
import pyarrow as pa
import pytest
from pyiceberg import types
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.view.metadata import SQLViewRepresentation, ViewRepresentation, ViewVersion

from tests.kit import server as server_kit


@pytest.fixture
def client(server: server_kit.Running) -> Any:
    return boto3.client(
        "s3tables",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    )


@pytest.fixture
def bucket(client: Any) -> str:
    created = client.create_table_bucket(name=f"both-{uuid.uuid4().hex[:12]}")
    return str(created["arn"])


@pytest.fixture
def catalog(server: server_kit.Running, bucket: str) -> Catalog:
    return load_catalog(
        "boathouse",
        type="rest",
        uri=server.iceberg,
        warehouse=bucket,
        credential=f"{server.access_key}:{server.secret_key}",
        **{
            "oauth2-server-uri": f"{server.iceberg}/v1/oauth/tokens",
            "s3.endpoint": server.url,
            "s3.access-key-id": server.access_key,
            "s3.secret-access-key": server.secret_key,
            "s3.region": "us-east-1",
        },
    )


def test_a_table_of_s3tables_takes_rows_through_iceberg_rest(
    client: Any, bucket: str, catalog: Catalog
) -> None:
    client.create_namespace(tableBucketARN=bucket, namespace=["sales"])
    where = {"tableBucketARN": bucket, "namespace": "sales", "name": "orders"}
    schema = {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "id", "type": "long", "required": False},
            {"id": 2, "name": "note", "type": "string", "required": False},
        ],
    }
    created = client.create_table(
        **where, format="ICEBERG", metadata={"iceberg": {"schemaV2": schema}}
    )
    table = catalog.load_table("sales.orders")
    assert [field.name for field in table.schema().fields] == ["id", "note"]
    rows = pa.table({"id": [1, 2], "note": ["a", None]})
    table.append(rows)
    after = client.get_table(**where)
    assert after["versionToken"] != created["versionToken"]
    assert after["metadataLocation"] == catalog.load_table("sales.orders").metadata_location
    assert catalog.load_table("sales.orders").scan().to_arrow().to_pydict() == rows.to_pydict()


def test_a_table_of_iceberg_rest_is_a_table_of_s3tables(
    client: Any, bucket: str, catalog: Catalog
) -> None:
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.theirs", schema=pa.schema([("id", pa.int64())]))
    where = {"tableBucketARN": bucket, "namespace": "sales", "name": "theirs"}
    described = client.get_table(**where)
    assert described["metadataLocation"] == table.metadata_location
    assert described["warehouseLocation"] == table.location()
    client.rename_table(**where, newName="renamed", versionToken=described["versionToken"])
    assert catalog.load_table("sales.renamed").metadata_location == table.metadata_location
    client.delete_table(**{**where, "name": "renamed"})
    assert catalog.list_tables("sales") == []


@pytest.mark.parametrize("name", [("sales", "by-day"), ("eu-west", "orders"), ("a", "b", "t")])
def test_a_table_with_a_name_of_icebergs_is_reached_by_its_arn(
    client: Any, bucket: str, catalog: Catalog, name: tuple[str, ...]
) -> None:
    for depth in range(1, len(name)):
        catalog.create_namespace(name[:depth])
    table = catalog.create_table(name, schema=pa.schema([("id", pa.int64())]))
    (listed,) = client.list_tables(tableBucketARN=bucket)["tables"]
    assert (*listed["namespace"], listed["name"]) == name
    described = client.get_table(tableArn=listed["tableARN"])
    assert (*described["namespace"], described["name"]) == name
    assert described["metadataLocation"] == table.metadata_location
    tags = {"owner": "eu"}
    client.tag_resource(resourceArn=listed["tableARN"], tags=tags)
    assert client.list_tags_for_resource(resourceArn=listed["tableARN"])["tags"] == tags
    namespace = ".".join(name[:-1])
    with pytest.raises(client.exceptions.BadRequestException, match="regular expression pattern"):
        client.get_table(tableBucketARN=bucket, namespace=namespace, name=name[-1])


@pytest.mark.parametrize("staged", [False, True])
def test_a_table_made_without_metadata_is_created_by_an_engine_and_stays_itself(
    client: Any, bucket: str, catalog: Catalog, staged: bool
) -> None:
    client.create_namespace(tableBucketARN=bucket, namespace=["sales"])
    where = {"tableBucketARN": bucket, "namespace": "sales", "name": "orders"}
    created = client.create_table(**where, format="ICEBERG", tags={"team": "lake"})
    before = client.get_table(**where)
    assert not catalog.table_exists("sales.orders")
    schema = pa.schema([("id", pa.int64())])
    if staged:
        with catalog.create_table_transaction("sales.orders", schema=schema) as transaction:
            transaction.set_properties(kept="yes")
    else:
        catalog.create_table("sales.orders", schema=schema)
    table = catalog.load_table("sales.orders")
    table.append(pa.table({"id": [1]}))
    after = client.get_table(**where)
    assert after["tableARN"] == before["tableARN"] == created["tableARN"]
    assert after["warehouseLocation"] == before["warehouseLocation"] == table.location()
    assert after["createdAt"] == before["createdAt"]
    assert after["metadataLocation"].startswith(before["warehouseLocation"] + "/metadata/")
    assert client.list_tags_for_resource(resourceArn=created["tableARN"])["tags"] == {
        "team": "lake"
    }
    with pytest.raises(client.exceptions.ConflictException):
        client.update_table_metadata_location(
            **where,
            versionToken=created["versionToken"],
            metadataLocation=after["metadataLocation"],
        )
    with pytest.raises(client.exceptions.ConflictException):
        client.create_table(**where, format="ICEBERG")


def test_a_view_is_not_shown_by_s3tables_and_keeps_its_namespace(
    client: Any, bucket: str, catalog: Catalog
) -> None:
    client.create_namespace(tableBucketARN=bucket, namespace=["sales"])
    schema = Schema(types.NestedField(1, "id", types.LongType(), required=False))
    text = SQLViewRepresentation(type="sql", sql="select 1", dialect="spark")
    version = ViewVersion(
        schema_id=0,
        representations=[ViewRepresentation(root=text)],
        default_namespace=("sales",),
    )
    catalog.create_view("sales.v", schema, version)
    assert client.list_tables(tableBucketARN=bucket)["tables"] == []
    where = {"tableBucketARN": bucket, "namespace": "sales", "name": "v"}
    with pytest.raises(client.exceptions.NotFoundException):
        client.get_table(**where)
    with pytest.raises(client.exceptions.NotFoundException):
        client.delete_table(**where)
    with pytest.raises(client.exceptions.ConflictException):
        client.create_table(**where, format="ICEBERG")
    with pytest.raises(client.exceptions.ConflictException):
        client.delete_namespace(tableBucketARN=bucket, namespace="sales")
    with pytest.raises(client.exceptions.ConflictException):
        client.delete_table_bucket(tableBucketARN=bucket)
    catalog.drop_view("sales.v")
    client.delete_namespace(tableBucketARN=bucket, namespace="sales")
    client.delete_table_bucket(tableBucketARN=bucket)


class MetadataWriter:
    """A client that writes metadata files by itself, as AWS's catalog library for Java does.

    It knows a table by the s3tables API alone, stores each metadata.json by S3 in the table's
    folder, and has UpdateTableMetadataLocation swap the pointer.
    """

    def __init__(self, client: Any, s3: Any, where: dict[str, str]) -> None:
        self._client = client
        self._s3 = s3
        self._where = where

    def pointer(self) -> tuple[str | None, str]:
        """Return where the metadata is, None before the first, and the version token."""
        answer = self._client.get_table_metadata_location(**self._where)
        return answer.get("metadataLocation"), answer["versionToken"]

    def read(self, location: str) -> dict[str, Any]:
        bucket, _, key = location.removeprefix("s3://").partition("/")
        stored = self._s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        metadata: dict[str, Any] = json.loads(stored)
        return metadata

    def write(self, metadata: dict[str, Any], number: int) -> str:
        location = f"{metadata['location']}/metadata/{number:05d}-{uuid.uuid4()}.metadata.json"
        bucket, _, key = location.removeprefix("s3://").partition("/")
        self._s3.put_object(Bucket=bucket, Key=key, Body=json.dumps(metadata).encode())
        return location

    def swap(self, location: str, token: str) -> None:
        self._client.update_table_metadata_location(
            **self._where, versionToken=token, metadataLocation=location
        )


def test_a_client_that_writes_metadata_itself_and_engines_of_the_catalog_share_a_table(
    client: Any, bucket: str, catalog: Catalog, server: server_kit.Running
) -> None:
    where = {"tableBucketARN": bucket, "namespace": "sales", "name": "orders"}
    client.create_namespace(tableBucketARN=bucket, namespace=["sales"])
    client.create_table(**where, format="ICEBERG")
    s3 = boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    )
    writer = MetadataWriter(client, s3, where)
    location, token = writer.pointer()
    assert location is None
    first = new_table_metadata(
        Schema(types.NestedField(1, "id", types.LongType(), required=False)),
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        client.get_table(**where)["warehouseLocation"],
    )
    writer.swap(writer.write(json.loads(first.model_dump_json()), 0), token)
    # An engine of the catalog appends; the client goes on from there.
    catalog.load_table("sales.orders").append(pa.table({"id": [1, 2]}))
    location, token = writer.pointer()
    assert location == catalog.load_table("sales.orders").metadata_location
    metadata = writer.read(location)
    metadata["properties"]["owner"] = "the client"
    writer.swap(writer.write(metadata, 2), token)
    table = catalog.load_table("sales.orders")
    assert table.properties["owner"] == "the client"
    assert table.scan().to_arrow().to_pydict() == {"id": [1, 2]}
    # A swap with the token of before loses, and changes nothing.
    lost = writer.write(metadata, 3)
    with pytest.raises(client.exceptions.ConflictException):
        writer.swap(lost, token)
    table.append(pa.table({"id": [3]}))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    with pytest.raises(client.exceptions.BadRequestException):
        writer.swap("s3://elsewhere/metadata/00000.metadata.json", writer.pointer()[1])
