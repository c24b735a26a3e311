"""Tags of table buckets and tables, by boto3's own client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.s3tables.tables_service import bucket_arn, refused


@pytest.fixture(params=["bucket", "table"])
def resource(request: pytest.FixtureRequest, client: Any, sales: str) -> str:
    """The ARN of a bucket or table that was created with two tags."""
    tags = {"team": "lake", "stage": ""}
    if request.param == "bucket":
        name = f"tagged-{sales.rpartition('-')[2]}"
        return str(client.create_table_bucket(name=name, tags=tags)["arn"])
    created = client.create_table(
        tableBucketARN=sales, namespace="sales", name="t", format="ICEBERG", tags=tags
    )
    return str(created["tableARN"])


def tags_of(client: Any, arn: str) -> Any:
    return client.list_tags_for_resource(resourceArn=arn)["tags"]


def test_tags_of_creation_are_listed_changed_and_removed(client: Any, resource: str) -> None:
    assert tags_of(client, resource) == {"team": "lake", "stage": ""}
    done = client.tag_resource(resourceArn=resource, tags={"team": "boat", "more": "x"})
    assert done["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert tags_of(client, resource) == {"team": "boat", "stage": "", "more": "x"}
    done = client.untag_resource(resourceArn=resource, tagKeys=["team", "absent", "stage"])
    assert done["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert tags_of(client, resource) == {"more": "x"}
    client.untag_resource(resourceArn=resource, tagKeys=["more"])
    assert tags_of(client, resource) == {}


def test_a_resource_has_at_most_50_tags(client: Any, resource: str) -> None:
    client.tag_resource(resourceArn=resource, tags={f"k{n}": "v" for n in range(48)})
    before = tags_of(client, resource)
    assert len(before) == 50
    refusal = (400, "BadRequestException", "A resource can have at most 50 tags.")
    assert refused(client.tag_resource, resourceArn=resource, tags={"one": "more"}) == refusal
    assert tags_of(client, resource) == before
    client.tag_resource(resourceArn=resource, tags={"team": "replaced"})


def test_create_with_too_many_or_reserved_tags_creates_nothing(client: Any, sales: str) -> None:
    for tags in ({f"k{n}": "v" for n in range(51)}, {"aws:x": "v"}, {"AWS:x": "v"}):
        status, code, _ = refused(client.create_table_bucket, name="never-made", tags=tags)
        assert (status, code) == (400, "BadRequestException")
        where = {"tableBucketARN": sales, "namespace": "sales", "name": "t"}
        status, code, _ = refused(client.create_table, **where, format="ICEBERG", tags=tags)
        assert (status, code) == (400, "BadRequestException")
    missing = refused(client.get_table_bucket, tableBucketARN=bucket_arn("never-made"))
    assert missing[0] == 404
    assert client.list_tables(tableBucketARN=sales)["tables"] == []


def test_tags_of_a_table_outlive_a_rename(client: Any, sales: str) -> None:
    where = {"tableBucketARN": sales, "namespace": "sales", "name": "t"}
    arn = client.create_table(**where, format="ICEBERG", tags={"a": "b"})["tableARN"]
    client.rename_table(**where, newName="u")
    assert tags_of(client, arn) == {"a": "b"}


def test_tags_of_nothing_are_not_found(client: Any, sales: str) -> None:
    table = f"{sales}/table/0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10"
    for arn, message in (
        (table, "The specified table does not exist."),
        (bucket_arn("nowhere"), "The specified bucket does not exist."),
        (f"{sales}/nothing/x", "The specified bucket does not exist."),
    ):
        expected = (404, "NotFoundException", message)
        assert refused(client.list_tags_for_resource, resourceArn=arn) == expected
        assert refused(client.tag_resource, resourceArn=arn, tags={"a": "b"}) == expected
        assert refused(client.untag_resource, resourceArn=arn, tagKeys=["a"]) == expected
