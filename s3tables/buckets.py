"""engine: table buckets: one function per operation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from catalog import rights
from s3tables import access, errors, labels, listings, names, settings
from s3tables.resources import Resources, format_bucket_id
from server import calls
from server.access import arns
from storage import errors as storage_errors
from storage import model as storage_model

Members = Mapping[str, Any]


async def create_table_bucket(resources: Resources, call: calls.Call) -> Members:
    """CreateTableBucket: the bucket belongs to the caller's account."""
    members, principal = call.value.members, call.principal
    name = members["name"]
    account = principal.account_id
    arn = arns.table_bucket_arn(resources.region, account, name)
    tags = members.get("tags", {})
    context = access.context_of(members)
    for action in _actions_of_creation(members):
        demand = rights.in_request(rights.demand(action, rights.of_bucket(arn)), context)
        # A mount's name is taken, which the store says.
        resources.authoriser.check(principal, demand)
    names.check_tags(tags)
    settings.check_storage(members, encrypted_disk=resources.encrypted_disk)
    bucket_settings = {**resources.seeds.get(name, {}), labels.BUCKET_SETTING: tags}
    if "encryptionConfiguration" in members:
        bucket_settings = settings.with_encryption(bucket_settings)
    try:
        await resources.buckets.create(
            name,
            bucket_type="table",
            owner=account,
            region=resources.region,
            settings=bucket_settings,
        )
    except storage_errors.BucketAlreadyExists as error:
        if error.fields["owner"] != account or error.fields["type"] != "table":
            raise errors.BucketNameTaken from None
        raise
    return {"arn": arn}


def _actions_of_creation(members: Members) -> list[str]:
    """Return the actions of CreateTableBucket: those too that put what it is created with.

    Source: Amazon S3 API reference, CreateTableBucket, Permissions.
    """
    actions = {
        "tags": "TagResource",
        "encryptionConfiguration": "PutTableBucketEncryption",
        "storageClassConfiguration": "PutTableBucketStorageClass",
    }
    return ["CreateTableBucket", *(each for name, each in actions.items() if members.get(name))]


async def list_table_buckets(resources: Resources, call: calls.Call) -> Members:
    """ListTableBuckets: the buckets of the caller's account, by name."""
    members, principal = call.value.members, call.principal
    prefix = members.get("prefix", "")

    def show(bucket: storage_model.BucketInfo) -> Members | None:
        subject = rights.of_bucket(resources.bucket_arn(bucket))
        if not resources.permits(principal, "GetTableBucket", subject):
            return None
        return _describe(resources, bucket)

    read_all = resources.buckets.list
    every = await asyncio.to_thread(read_all) if resources.buckets.are_many() else read_all()
    buckets = sorted(
        ((bucket.name,), bucket)
        for bucket in every
        if bucket.type == "table"
        and bucket.name.startswith(prefix)
        and resources.account_of(bucket) == principal.account_id
        and members.get("type", "customer") == "customer"
    )
    page = await listings.paginate(
        buckets,
        show,
        listing=f"buckets {prefix}",
        token=members.get("continuationToken"),
        items_max=members.get("maxBuckets"),
    )
    return page.members("tableBuckets")


async def get_table_bucket(resources: Resources, call: calls.Call) -> Members:
    """GetTableBucket."""
    members = call.value.members
    return _describe(resources, resources.bucket(members["tableBucketARN"]))


async def delete_table_bucket(resources: Resources, call: calls.Call) -> Members:
    """DeleteTableBucket: refused while the bucket has a namespace or a file.

    For a caller that may not purge, also while a dropped table can be restored.
    """
    bucket = resources.bucket(call.value.members["tableBucketARN"])
    purge = rights.demand(rights.PURGE, rights.of_bucket(resources.bucket_arn(bucket)))
    may_purge = resources.authoriser.permits(call.principal, purge)

    def judge() -> None:
        demands = call.operation.demands(resources, call)
        resources.access.recheck(call.principal, (*demands, purge) if may_purge else demands)

    await resources.table_buckets.delete(bucket, losing="nothing", may_purge=may_purge, judge=judge)
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
