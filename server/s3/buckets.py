"""face: the operations on buckets.

Buckets made here are general ones. Table buckets share their name space and are listed beside them,
but are made and removed through the s3tables API, which knows what hangs on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from server import asgi
from server.auth import callers
from server.s3 import documents, engines, errors, fields, incoming, operations, tokens, wire
from storage import errors as storage_errors

_REGION: Final = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+|EU")

# Operation -> the code and message by which AWS says that there is no such configuration.
ABSENT: Final[Mapping[str, tuple[str, str]]] = {
    "GetBucketCors": (
        "NoSuchCORSConfiguration",
        "The CORS configuration does not exist",
    ),
    "GetBucketEncryption": (
        "ServerSideEncryptionConfigurationNotFoundError",
        "The server side encryption configuration was not found",
    ),
    "GetBucketLifecycleConfiguration": (
        "NoSuchLifecycleConfiguration",
        "The lifecycle configuration does not exist",
    ),
    "GetBucketOwnershipControls": (
        "OwnershipControlsNotFoundError",
        "The bucket ownership controls were not found",
    ),
    "GetBucketPolicy": ("NoSuchBucketPolicy", "The bucket policy does not exist"),
    "GetBucketReplication": (
        "ReplicationConfigurationNotFoundError",
        "The replication configuration was not found",
    ),
    "GetBucketTagging": ("NoSuchTagSet", "The TagSet does not exist"),
    "GetBucketWebsite": (
        "NoSuchWebsiteConfiguration",
        "The specified bucket does not have a website configuration",
    ),
    "GetObjectLockConfiguration": (
        "ObjectLockConfigurationNotFoundError",
        "Object Lock configuration does not exist for this bucket",
    ),
    "GetPublicAccessBlock": (
        "NoSuchPublicAccessBlockConfiguration",
        "The public access block configuration was not found",
    ),
}


async def list_buckets(
    house: engines.Engines,
    operation: operations.ListBuckets,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    account = caller.principal.account_id
    after = ""
    query = ("buckets", account, operation.prefix, operation.bucket_region or "")
    if operation.continuation_token is not None:
        redeemed = tokens.redeem(operation.continuation_token, *query)
        if redeemed is None:
            raise fields.bad_token(operation.continuation_token)
        after = redeemed
    found = [
        bucket
        for bucket in house.buckets.list()
        if bucket.owner == account
        and bucket.name > after
        and bucket.name.startswith(operation.prefix)
        and operation.bucket_region in (None, bucket.region)
    ]
    token = None
    if operation.max_buckets is not None and len(found) > operation.max_buckets:
        found = found[: operation.max_buckets]
        token = tokens.issue(found[-1].name, *query)
    body = wire.list_buckets(
        found,
        owner=engines.owner_of(house, account, caller.principal),
        prefix=operation.prefix,
        continuation_token=token,
    )
    return asgi.Response(200, wire.XML_HEADERS, body)


async def create_bucket(
    house: engines.Engines,
    operation: operations.CreateBucket,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    data = await incoming.read_document(request, caller, integrity=operation.integrity)
    _check_region(documents.parse_create_bucket(data), house.region)
    try:
        await house.buckets.create(
            operation.bucket,
            kind="general",
            owner=caller.principal.account_id,
            region=house.region,
        )
    except storage_errors.BucketAlreadyExists as taken:
        if taken.fields.get("owner") != caller.principal.account_id:
            raise
        message = (
            "Your previous request to create the named bucket succeeded and you already own it."
        )
        if taken.fields.get("kind") == "table":
            message = "A table bucket of yours has this name; the s3tables API makes those."
        raise errors.BucketAlreadyOwnedByYou(message, BucketName=operation.bucket) from None
    return asgi.Response(200, (("location", f"/{operation.bucket}"),))


async def head_bucket(
    house: engines.Engines,
    operation: operations.HeadBucket,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    bucket = house.buckets.get(operation.bucket)
    return asgi.Response(
        200, (*wire.XML_HEADERS, ("x-amz-bucket-region", bucket.region), ("content-length", "0"))
    )


async def delete_bucket(
    house: engines.Engines,
    operation: operations.DeleteBucket,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    bucket = house.buckets.get(operation.bucket)
    if bucket.kind == "table":
        raise errors.TableBucketVerb(
            "A table bucket is deleted by DeleteTableBucket of the s3tables API.",
            Method="DELETE",
            ResourceType="TABLE BUCKET",
        )
    await house.buckets.delete(operation.bucket, bucket_id=bucket.bucket_id)
    return asgi.Response(204)


async def get_bucket_location(
    house: engines.Engines,
    operation: operations.GetBucketLocation,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    bucket = house.buckets.get(operation.bucket)
    return asgi.Response(200, wire.XML_HEADERS, wire.bucket_location(bucket.region))


async def get_bucket_versioning(
    house: engines.Engines,
    operation: operations.GetBucketVersioning,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    house.buckets.get(operation.bucket)
    return asgi.Response(200, wire.XML_HEADERS, wire.versioning())


async def get_bucket_configuration(
    house: engines.Engines,
    operation: operations.GetBucketConfiguration,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    house.buckets.get(operation.bucket)
    code, message = ABSENT[operation.name]
    raise errors.NotConfigured(code, message, BucketName=operation.bucket)


async def preflight(
    house: engines.Engines,
    operation: operations.Preflight,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    raise errors.CorsNotEnabled("CORSResponse: CORS is not enabled for this bucket.")


def _check_region(constraint: str | None, region: str) -> None:
    if constraint is None or constraint == region:
        return
    if _REGION.fullmatch(constraint):
        raise errors.IllegalLocationConstraint(
            f"The {constraint} location constraint is incompatible for the region specific "
            "endpoint this request was sent to."
        )
    raise errors.InvalidLocationConstraint(
        "The specified location-constraint is not valid", LocationConstraint=constraint
    )
