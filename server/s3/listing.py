"""face: ListObjects and ListObjectsV2: one page of a bucket's keys, in UTF-8 byte order."""

from __future__ import annotations

from server import asgi, calls
from server.s3 import engines, fields, operations, tokens, wire
from storage import model


async def list_objects(services: engines.Services, call: calls.Call) -> asgi.Response:
    operation: operations.ListObjects = call.value
    bucket = services.buckets.get(operation.bucket)
    page = await _page(
        services,
        operation.bucket,
        prefix=operation.prefix,
        delimiter=operation.delimiter,
        after=operation.marker,
        max_keys=operation.max_keys,
    )
    body = wire.list_objects(
        page,
        bucket=bucket.name,
        prefix=operation.prefix,
        delimiter=operation.delimiter,
        marker=operation.marker,
        max_keys=operation.max_keys,
        encode=operation.encode_keys,
        owner=engines.owner_of(services, bucket.owner, call.principal),
    )
    return asgi.Response(200, (*wire.XML_HEADERS, ("x-amz-bucket-region", bucket.region)), body)


async def list_objects_v2(services: engines.Services, call: calls.Call) -> asgi.Response:
    operation: operations.ListObjectsV2 = call.value
    bucket = services.buckets.get(operation.bucket)
    query = ("objects", operation.bucket, operation.prefix, operation.delimiter)
    after = operation.start_after or ""
    if operation.continuation_token is not None:
        redeemed = tokens.redeem(operation.continuation_token, *query)
        if redeemed is None:
            raise fields.bad_token(operation.continuation_token)
        after = redeemed
    page = await _page(
        services,
        operation.bucket,
        prefix=operation.prefix,
        delimiter=operation.delimiter,
        after=after,
        max_keys=operation.max_keys,
    )
    owner = None
    if operation.fetch_owner:
        owner = engines.owner_of(services, bucket.owner, call.principal)
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
    )
    return asgi.Response(200, (*wire.XML_HEADERS, ("x-amz-bucket-region", bucket.region)), body)


async def _page(
    services: engines.Services,
    bucket: str,
    *,
    prefix: str,
    delimiter: str,
    after: str,
    max_keys: int,
) -> model.ListedPage:
    if max_keys == 0:
        # Nothing was asked for, so nothing is left: a truncated page would be asked for again.
        return model.ListedPage(objects=(), common_prefixes=(), next_after=None)
    return await services.objects.list_patiently(
        bucket, prefix=prefix, delimiter=delimiter, start_after=after, max_keys=max_keys
    )
