"""engine: table buckets: one function per operation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from catalog import departures, history, rights
from catalog import errors as catalog_errors
from s3tables import emptiness, errors, labels, listings, names, settings
from s3tables.resources import Resources, format_bucket_id
from server import calls
from server.access import arns
from storage import batch
from storage import errors as storage_errors
from storage import model as storage_model

Members = Mapping[str, Any]

DELETION_ATTEMPTS_MAX: Final = 10
"""Times that an empty bucket is looked at anew because something changed in it meanwhile."""


async def create_table_bucket(resources: Resources, call: calls.Call) -> Members:
    """CreateTableBucket: the bucket belongs to the caller's account."""
    members, principal = call.value.members, call.principal
    name = members["name"]
    account = principal.account_id
    arn = arns.table_bucket_arn(resources.region, account, name)
    resources.check(principal, "CreateTableBucket", rights.of_bucket(arn))
    tags = members.get("tags", {})
    if tags:
        resources.check(principal, "TagResource", rights.of_bucket(arn))
    names.check_tags(tags)
    settings.check_storage(members)
    try:
        await resources.buckets.create(
            name,
            bucket_type="table",
            owner=account,
            region=resources.region,
            settings={**resources.seeds.get(name, {}), labels.BUCKET_SETTING: tags},
        )
    except storage_errors.BucketAlreadyExists as error:
        if error.fields["owner"] != account or error.fields["type"] != "table":
            raise errors.BucketNameTaken from None
        raise
    return {"arn": arn}


async def list_table_buckets(resources: Resources, call: calls.Call) -> Members:
    """ListTableBuckets: the buckets of the caller's account, by name."""
    members, principal = call.value.members, call.principal
    prefix = members.get("prefix", "")

    def show(bucket: storage_model.BucketInfo) -> Members | None:
        subject = rights.of_bucket(resources.bucket_arn(bucket))
        if not resources.permits(principal, "GetTableBucket", subject):
            return None
        return _describe(resources, bucket)

    buckets = sorted(
        ((bucket.name,), bucket)
        for bucket in resources.buckets.list()
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
    """DeleteTableBucket: refused while the bucket has a namespace or a file."""
    members = call.value.members
    bucket = resources.bucket(members["tableBucketARN"])
    bucket_id = bucket.bucket_id
    for _ in range(DELETION_ATTEMPTS_MAX):
        seen = await asyncio.to_thread(_look, resources, bucket)

        def refuse(reading: batch.Reading, seen: emptiness.Empty = seen) -> Sequence[batch.Write]:
            changes = resources.index.object_changes(bucket_id)
            emptiness.check_unchanged(reading, bucket, seen, object_changes=changes)
            _check_unprotected(resources.buckets.get(bucket.name, reading))
            return ()

        # One transaction, so that the bucket cannot change between the check and the deletion.
        check = batch.Batch(derive=(refuse,), makes_room=True)
        deletion = resources.buckets.plan_delete(bucket.name, discard=True, bucket_id=bucket_id)
        whole = batch.merge((check, deletion))

        async def delete(policies: batch.Expect, whole: batch.Batch = whole) -> None:
            held = batch.Batch(expects=(policies,), makes_room=True)
            await resources.index.commit(batch.merge((held, whole)))

        with contextlib.suppress(emptiness.Changed):
            await resources.change_judged(call, bucket, delete)
            return {}
    raise errors.TableBucketNotEmpty  # things come into it all the while


def _look(resources: Resources, bucket: storage_model.BucketInfo) -> emptiness.Empty:
    """Return when the table bucket was empty. Raises TableBucketNotEmpty."""
    object_changes = resources.index.object_changes(bucket.bucket_id)  # before the view is opened
    with resources.index.view() as view:
        emptiness.check_empty(view, bucket)
        sequence = history.last_sequence(view, bucket.bucket_id)
    return emptiness.Empty(sequence=sequence, object_changes=object_changes)


def _check_unprotected(bucket: storage_model.BucketInfo) -> None:
    if bucket.settings.get(departures.BUCKET_PROTECTED) is True:
        raise catalog_errors.Protected(f"Table bucket {bucket.name} is protected from deletion")


def _describe(resources: Resources, bucket: storage_model.BucketInfo) -> Members:
    return {
        "arn": resources.bucket_arn(bucket),
        "name": bucket.name,
        "ownerAccountId": resources.account_of(bucket),
        "createdAt": bucket.created_at_ms,
        "tableBucketId": format_bucket_id(bucket),
        "type": "customer",
    }
