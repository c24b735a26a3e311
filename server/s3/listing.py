"""face: listings: one page of a bucket's keys, or of their versions, in UTF-8 byte order."""

from __future__ import annotations

import functools

from server import asgi, calls
from server.s3 import (
    bucketacls,
    engines,
    errors,
    fields,
    operations,
    tokens,
    visible,
    wire,
)
from storage import model


async def list_objects(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.ListObjects = call.value
    bucket = services.buckets.get(operation.bucket)
    page = await _page(services, call, operation, after=operation.marker)
    body = wire.list_objects(
        page,
        bucket=bucket.name,
        prefix=operation.prefix,
        delimiter=operation.delimiter,
        marker=operation.marker,
        max_keys=operation.max_keys,
        encode=operation.encode_keys,
        owner=engines.owner_of(services, bucket.owner),
        name_owner=_name_owner(services, bucket),
    )
    return asgi.Response(200, (*wire.XML_HEADERS, ("x-amz-bucket-region", bucket.region)), body)


async def list_objects_v2(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.ListObjectsV2 = call.value
    bucket = services.buckets.get(operation.bucket)
    query = ("objects", operation.bucket, operation.prefix, operation.delimiter)
    after = operation.start_after or ""
    if operation.continuation_token:
        redeemed = tokens.redeem(operation.continuation_token, *query)
        if redeemed is None:
            raise fields.bad_token(operation.continuation_token)
        after = redeemed
    page = await _page(services, call, operation, after=after)
    owner = None
    if operation.fetch_owner:
        owner = engines.owner_of(services, bucket.owner)
    body = wire.list_objects_v2(
        page,
        bucket=bucket.name,
        prefix=operation.prefix,
        delimiter=operation.delimiter,
        start_after=operation.start_after,
        continuation_token=operation.continuation_token,
        next_token=None if page.next_after is None else tokens.issue(page.next_after, *query),
        max_keys=operation.max_keys,
        encode=operation.encode_keys,
        owner=owner,
        name_owner=_name_owner(services, bucket),
    )
    return asgi.Response(200, (*wire.XML_HEADERS, ("x-amz-bucket-region", bucket.region)), body)


async def list_object_versions(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.ListObjectVersions = call.value
    bucket = services.buckets.get(operation.bucket)
    if bucket.type == "table":
        raise errors.TableBucketVerb(
            "The objects of a table bucket have no versions: ListObjectVersions is not offered.",
            Method="GET",
            ResourceType="TABLE BUCKET",
        )
    page = services.objects.list_versions(
        operation.bucket,
        prefix=operation.prefix,
        delimiter=operation.delimiter,
        key_marker=operation.key_marker,
        version_marker=operation.version_marker,
        max_keys=operation.max_keys,
    )
    body = wire.list_versions(
        page,
        bucket=bucket.name,
        prefix=operation.prefix,
        delimiter=operation.delimiter,
        key_marker=operation.key_marker,
        version_marker=operation.version_marker,
        max_keys=operation.max_keys,
        encode=operation.encode_keys,
        owner=engines.owner_of(services, bucket.owner),
        name_owner=_name_owner(services, bucket),
    )
    return asgi.Response(200, wire.XML_HEADERS, body)


def _name_owner(services: engines.S3Services, bucket: model.BucketInfo) -> wire.NameOwner | None:
    """Return what names the owners of objects that have access control lists, if those count."""
    if not bucket.has_acls or not bucketacls.takes_acls(bucket.settings):
        return None
    return functools.partial(engines.named_owner, services)


async def _page(
    services: engines.S3Services,
    call: calls.Call,
    operation: operations.ListObjects | operations.ListObjectsV2,
    *,
    after: str,
) -> model.ListedPage:
    if operation.max_keys == 0:
        # With max-keys=0 the page is not truncated, or clients would request it again for ever.
        return model.ListedPage(objects=(), common_prefixes=(), next_after=None)
    visibility = visible.across_tables(services, call, operation.bucket, operation.prefix)
    if visibility is not None:
        return await visibility.page_of_objects(operation, after=after)
    return await services.objects.list_patiently(
        operation.bucket,
        prefix=operation.prefix,
        delimiter=operation.delimiter,
        start_after=after,
        max_keys=operation.max_keys,
    )
