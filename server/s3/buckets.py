"""face: the operations on buckets.

CreateBucket creates general buckets. Table buckets share their name space, and ListBuckets shows
them too, but only the s3tables API creates and deletes them: their deletion depends on tables.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from server import asgi, calls
from server.access import arns
from server.s3 import (
    acls,
    bucketacls,
    configurations,
    documents,
    engines,
    errors,
    fields,
    incoming,
    operations,
    tokens,
    wire,
)
from storage import buckets as storage_buckets
from storage import errors as storage_errors
from storage import model

GLOBAL_REGION: Final = "us-east-1"
"""The region where CreateBucket accepts every region's constraint, and succeeds for a bucket that
the caller owns already (Amazon S3 API, CreateBucket)."""

LOCATION: Final = "location_constraint"
"""The setting of a bucket that keeps the LocationConstraint it was created with."""

_REGION: Final = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+|EU")


async def list_buckets(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.ListBuckets = call.value
    account = call.principal.account_id
    after = ""
    query = ("buckets", account, operation.prefix, operation.bucket_region or "")
    if operation.continuation_token:
        redeemed = tokens.redeem(operation.continuation_token, *query)
        if redeemed is None:
            raise fields.bad_token(operation.continuation_token)
        after = redeemed

    def show() -> bytes:
        entries = [
            bucket
            for bucket in services.buckets.list()
            if bucket.owner == account
            and not (services.hide_table_buckets and bucket.type == "table")
            and bucket.name > after
            and bucket.name.startswith(operation.prefix)
            and operation.bucket_region in (None, bucket.region)
        ]
        token = None
        if operation.max_buckets is not None and len(entries) > operation.max_buckets:
            entries = entries[: operation.max_buckets]
            token = tokens.issue(entries[-1].name, *query)
        return wire.list_buckets(
            entries,
            owner=engines.owner_of(services, account),
            prefix=operation.prefix,
            continuation_token=token,
        )

    body = await asyncio.to_thread(show) if services.buckets.are_many() else show()
    return asgi.Response(200, wire.XML_HEADERS, body)


async def create_bucket(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.CreateBucket = call.value
    wanted = await engines.read_judged(
        services,
        call,
        documents.parse_create_bucket,
        lambda wanted: {"constraint": wanted.constraint, "tags": wanted.tags},
    )
    _check_region(wanted.constraint, services.region)
    owner = engines.owner_of(services, call.principal.account_id)
    acl: dict[str, Any] = {}
    if operation.acl is not None:
        grants = acls.of_bucket(services, operation.acl, owner=owner)
        acl = acls.settings_of(grants, owner)
    configurations.check_controls(operation.ownership, has_acl=bool(acl))
    try:
        await services.buckets.create(
            operation.bucket,
            bucket_type="general",
            owner=call.principal.account_id,
            region=services.region,
            settings=acl
            | {
                name: value
                for name, value in (
                    (LOCATION, wanted.constraint),
                    (bucketacls.CONTROLS, operation.ownership),
                    (configurations.TAGS, wanted.tags or None),
                )
                if value is not None
            },
            object_lock=operation.object_lock,
        )
    except storage_errors.BucketAlreadyExists as taken:
        if taken.fields.get("owner") != call.principal.account_id:
            raise
        if taken.fields.get("type") == "table":
            raise errors.BucketAlreadyOwnedByYou(
                "You own a table bucket of this name. Use the s3tables API for table buckets.",
                BucketName=operation.bucket,
            ) from None
        try:
            existing = services.buckets.get(operation.bucket)
        except storage_errors.NoSuchBucket:
            raise taken from None  # deleted since: it was there in the transaction
        # The name may have gone to another account since.
        if existing.owner != call.principal.account_id:
            raise
        if _location_of(existing) != GLOBAL_REGION or wanted.tags:
            raise errors.BucketAlreadyOwnedByYou(
                "Your previous request to create the named bucket succeeded and you already own "
                "it.",
                BucketName=operation.bucket,
            ) from None
        if not _is_as_wanted(existing, operation, wanted, acl):
            raise
    return asgi.Response(
        200,
        (
            ("location", f"/{operation.bucket}"),
            ("x-amz-bucket-arn", arns.bucket_arn(operation.bucket)),
        ),
    )


async def head_bucket(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.Target = call.value
    bucket = services.buckets.get(operation.bucket)
    return asgi.Response(
        200,
        (
            *wire.XML_HEADERS,
            ("x-amz-bucket-region", bucket.region),
            ("x-amz-bucket-arn", wire.bucket_arn(bucket)),
            ("x-amz-access-point-alias", "false"),
            ("content-length", "0"),
        ),
    )


async def delete_bucket(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.Target = call.value
    bucket = services.buckets.get(operation.bucket)
    if bucket.type == "table":
        raise errors.TableBucketVerb(
            "A table bucket is deleted by DeleteTableBucket of the s3tables API.",
            Method="DELETE",
            ResourceType="TABLE BUCKET",
        )
    try:
        await services.buckets.delete(operation.bucket, bucket_id=bucket.bucket_id)
    except storage_errors.BucketNotEmpty:
        if bucket.versioning is None:
            raise
        raise errors.BucketHasVersions(
            "The bucket you tried to delete is not empty. You must delete all versions in the "
            "bucket.",
            BucketName=bucket.name,
        ) from None
    return asgi.Response(204)


async def get_bucket_location(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.Target = call.value
    bucket = services.buckets.get(operation.bucket)
    location = _location_of(bucket)
    return asgi.Response(200, wire.XML_HEADERS, wire.bucket_location(location))


async def get_bucket_versioning(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.Target = call.value
    bucket = services.buckets.get(operation.bucket)
    return asgi.Response(200, wire.XML_HEADERS, wire.versioning(bucket.versioning))


async def put_bucket_versioning(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    data = await incoming.read_configuration(call)
    versioning = await incoming.parsed(documents.parse_versioning, data)

    async def change(bucket: model.BucketInfo, check: storage_buckets.SettingsCheck) -> None:
        await services.buckets.set_versioning(
            bucket.name, versioning, bucket_id=bucket.bucket_id, check=check
        )

    await configurations.change_judged(services, call, change)
    return asgi.Response(200)


async def refuse_absent(
    code: str, message: str, services: engines.S3Services, call: calls.Call
) -> asgi.Response:
    """Raise NotConfigured, with the code that AWS has for this configuration."""
    operation: operations.Target = call.value
    services.buckets.get(operation.bucket)
    raise errors.NotConfigured(code, message, BucketName=operation.bucket)


async def show_none(
    document: bytes, services: engines.S3Services, call: calls.Call
) -> asgi.Response:
    """Answer with the document that S3 has for a configuration that a bucket does not have."""
    operation: operations.Target = call.value
    services.buckets.get(operation.bucket)
    return asgi.Response(200, wire.XML_HEADERS, document)


async def delete_none(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """Answer the deletion of a configuration that no bucket has: as in S3, it is no error."""
    operation: operations.Target = call.value
    services.buckets.get(operation.bucket)
    return asgi.Response(204)


async def put_what_holds(
    check: Callable[[bytes], None], services: engines.S3Services, call: calls.Call
) -> asgi.Response:
    """Configure a bucket as every bucket is. check: raises for a document that asks for more."""
    configurations.bucket_to_configure(services, call)
    data = await incoming.read_configuration(call)
    engines.check_allowed(services, call)
    check(data)
    return asgi.Response(200)


def _is_as_wanted(
    bucket: model.BucketInfo,
    operation: operations.CreateBucket,
    wanted: documents.NewBucket,
    acl: Mapping[str, Any],
) -> bool:
    """Return whether an existing bucket of us-east-1 has all that a CreateBucket asks for.

    AWS would replace the bucket's access control list in silence.
    """
    settings = bucket.settings
    return (
        settings.get(bucketacls.ACL) == acl.get(bucketacls.ACL)
        and (bucket.object_lock or not operation.object_lock)
        and operation.ownership in (None, bucketacls.controls_of(settings))
        and wanted.constraint in (None, _location_of(bucket))
    )


def _location_of(bucket: model.BucketInfo) -> str:
    """Return the location constraint of a bucket, or the server's region if it has none."""
    return str(bucket.settings.get(LOCATION, bucket.region))


def _check_region(constraint: str | None, region: str) -> None:
    """Raise unless a bucket can be created with this constraint at an endpoint of the region.

    As on AWS, the endpoint of us-east-1 accepts every region's name, and another endpoint its own.
    AWS refuses the name us-east-1; it is accepted here, because s3fs sends it (decision 0071).
    """
    if constraint is None or constraint == region:
        return
    if region == GLOBAL_REGION:
        if _REGION.fullmatch(constraint):
            return
    elif _REGION.fullmatch(constraint):
        raise errors.IllegalLocationConstraint(
            f"The {constraint} location constraint is incompatible for the region specific "
            "endpoint this request was sent to."
        )
    raise errors.InvalidLocationConstraint(
        "The specified location-constraint is not valid", LocationConstraint=constraint
    )
