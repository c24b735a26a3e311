"""engine: table buckets: one function per operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from s3tables import errors, labels, names, settings, tokens
from s3tables.resources import Resources, format_bucket_id
from server.access import arns, model
from storage import model as storage_model

Members = Mapping[str, Any]


async def create_table_bucket(
    resources: Resources, members: Members, principal: model.Principal
) -> Members:
    """CreateTableBucket: the bucket belongs to the account of who makes it."""
    name = members["name"]
    account = principal.account_id
    arn = arns.table_bucket_arn(resources.region, account, name)
    resources.check(principal, "CreateTableBucket", arn)
    tags = members.get("tags", {})
    if tags:
        resources.check(principal, "TagResource", arn)
    names.check_tags(tags)
    settings.check_storage(members)
    made = await resources.buckets.create(
        name, kind="table", owner=account, region=resources.region
    )
    if tags:
        key = labels.ResourceKey(bucket_id=made.bucket_id)
        await resources.tags.change(key, lambda old: {**old, **tags})
    return {"arn": arn}


async def list_table_buckets(
    resources: Resources, members: Members, principal: model.Principal
) -> Members:
    """ListTableBuckets: the account's own, by name."""
    prefix = members.get("prefix", "")

    def show(bucket: storage_model.BucketInfo) -> Members | None:
        if not resources.permits(principal, "GetTableBucket", resources.bucket_arn(bucket)):
            return None
        return _describe(resources, bucket)

    found = sorted(
        ((bucket.name,), bucket)
        for bucket in resources.buckets.list()
        if bucket.kind == "table"
        and bucket.name.startswith(prefix)
        and resources.account_of(bucket) == principal.account_id
        and members.get("type", "customer") == "customer"
    )
    page = tokens.paginate(
        found,
        show,
        listing=f"buckets {prefix}",
        token=members.get("continuationToken"),
        items_max=members.get("maxBuckets"),
    )
    return page.members("tableBuckets")


async def get_table_bucket(
    resources: Resources, members: Members, principal: model.Principal
) -> Members:
    """GetTableBucket."""
    return _describe(resources, resources.bucket(members["tableBucketARN"]))


async def delete_table_bucket(
    resources: Resources, members: Members, principal: model.Principal
) -> Members:
    """DeleteTableBucket: refused while it holds a namespace or a file."""
    bucket = resources.bucket(members["tableBucketARN"])
    if resources.namespaces.list(bucket.name):
        raise errors.BucketNotEmpty
    await resources.buckets.delete(bucket.name)
    return {}


def _describe(resources: Resources, bucket: storage_model.BucketInfo) -> Members:
    return {
        "arn": resources.bucket_arn(bucket),
        "name": bucket.name,
        "ownerAccountId": resources.account_of(bucket),
        "createdAt": bucket.created_at_ms,
        "tableBucketId": format_bucket_id(bucket),
        "type": "customer",
    }
