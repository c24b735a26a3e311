"""Namespaces, by boto3's own client."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tests.kit import lakes
from tests.s3tables.tables_service import ACCOUNT, TablesService, bucket_arn, refused

NO_NAMESPACE = (404, "NotFoundException", "The specified namespace does not exist.")


def test_create_namespace_answers_and_get_describes_it(client: Any, bucket: str) -> None:
    created = client.create_namespace(tableBucketARN=bucket, namespace=["sales"])
    assert (created["tableBucketARN"], created["namespace"]) == (bucket, ["sales"])
    described = client.get_namespace(tableBucketARN=bucket, namespace="sales")
    assert len(described.pop("namespaceId")) == 36
    assert (
        described.pop("tableBucketId")
        == (client.get_table_bucket(tableBucketARN=bucket)["tableBucketId"])
    )
    described.pop("ResponseMetadata")
    assert described == {
        "namespace": ["sales"],
        "createdAt": datetime.datetime.fromtimestamp(lakes.NOW_MS / 1000, datetime.UTC),
        "createdBy": ACCOUNT,
        "ownerAccountId": ACCOUNT,
    }


def test_create_namespace_twice_conflicts(client: Any, sales: str) -> None:
    assert refused(client.create_namespace, tableBucketARN=sales, namespace=["sales"]) == (
        409,
        "ConflictException",
        "A namespace with an identical name already exists in the bucket.",
    )


@pytest.mark.parametrize("name", ["_a", "a_", "aws", "aws_things"])
def test_create_namespace_with_a_reserved_name_is_refused(
    client: Any, bucket: str, name: str
) -> None:
    assert refused(client.create_namespace, tableBucketARN=bucket, namespace=[name]) == (
        400,
        "BadRequestException",
        "The specified namespace name is not valid: it must begin and end with a letter or a "
        "digit, and must not begin with aws",
    )
    assert client.list_namespaces(tableBucketARN=bucket)["namespaces"] == []


def test_create_namespace_in_no_bucket_is_not_found(client: Any) -> None:
    assert refused(
        client.create_namespace, tableBucketARN=bucket_arn("nowhere"), namespace=["sales"]
    ) == (404, "NotFoundException", "The specified bucket does not exist.")


def test_list_namespaces_pages_and_shows_deeper_ones_with_their_levels(
    service: TablesService, client: Any, bucket: str
) -> None:
    name = bucket.rpartition("/")[2]
    for levels in (("b",), ("a",), ("a", "x"), ("a0",), ("a", "x", "y")):
        service.run(service.lake.namespaces.create(name, levels, by=lakes.BY))
    in_order = [["a"], ["a", "x"], ["a", "x", "y"], ["a0"], ["b"]]
    pages = client.get_paginator("list_namespaces").paginate(
        tableBucketARN=bucket, PaginationConfig={"PageSize": 2}
    )
    listed_pages = [[listed["namespace"] for listed in page["namespaces"]] for page in pages]
    assert listed_pages == [in_order[:2], in_order[2:4], in_order[4:]]
    only = client.list_namespaces(tableBucketARN=bucket, prefix="a0")["namespaces"]
    assert [listed["namespace"] for listed in only] == [["a0"]]


def test_delete_namespace_needs_it_empty(client: Any, sales: str) -> None:
    client.create_table(tableBucketARN=sales, namespace="sales", name="t", format="ICEBERG")
    assert refused(client.delete_namespace, tableBucketARN=sales, namespace="sales") == (
        409,
        "ConflictException",
        "The namespace that you tried to delete is not empty.",
    )
    client.delete_table(tableBucketARN=sales, namespace="sales", name="t")
    done = client.delete_namespace(tableBucketARN=sales, namespace="sales")
    assert done["ResponseMetadata"]["HTTPStatusCode"] == 204
    for call in (client.get_namespace, client.delete_namespace, client.list_tables):
        assert refused(call, tableBucketARN=sales, namespace="sales") == NO_NAMESPACE
