"""face: the documents that configure a general bucket: tags, CORS rules.

Each is a setting in the bucket's record. A table bucket has none of them: the s3tables API
configures it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from server import asgi, calls
from server.s3 import cors, documents, engines, errors, fields, incoming, operations, wire
from storage import model

TAGS: Final = "tags"

ABSENT: Final[Mapping[str, tuple[str, str]]] = {
    TAGS: ("NoSuchTagSet", "The TagSet does not exist"),
    cors.SETTING: ("NoSuchCORSConfiguration", "The CORS configuration does not exist"),
}
"""What S3 answers for a configuration that a bucket does not have: code and message."""


async def get_bucket_tagging(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    tags = _find(services, call, TAGS)
    return asgi.Response(200, wire.XML_HEADERS, wire.tagging(tags))


async def put_bucket_tagging(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    def parse(data: bytes) -> Mapping[str, str]:
        return documents.parse_tagging(data, tags_max=fields.BUCKET_TAGS_MAX)

    await _put(services, call, TAGS, parse)
    return asgi.Response(204)


async def get_bucket_cors(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    rules = cors.decode(_find(services, call, cors.SETTING))
    return asgi.Response(200, wire.XML_HEADERS, wire.cors_configuration(rules))


async def put_bucket_cors(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    def parse(data: bytes) -> list[dict[str, Any]]:
        return cors.encode(documents.parse_cors(data))

    await _put(services, call, cors.SETTING, parse)
    return asgi.Response(200)


async def delete_configuration(
    name: str, services: engines.S3Services, call: calls.Call
) -> asgi.Response:
    """Remove a configuration; one that is not there is removed too."""
    operation: operations.Target = call.value
    bucket = _bucket(services, call)
    if name in bucket.settings:
        await services.buckets.change(
            operation.bucket, functools.partial(_without, name), bucket_id=bucket.bucket_id
        )
    return asgi.Response(204)


async def preflight(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """Answer a browser's question before a cross-origin request. It is never signed."""
    operation: operations.Target = call.value
    bucket = services.buckets.get(operation.bucket)
    wanted = cors.parse_wanted(call.request.headers.joined)
    if wanted is None:
        raise errors.PreflightIncomplete(
            "Insufficient information. Origin and Access-Control-Request-Method request headers "
            "are needed."
        )
    rules = cors.rules_of(bucket.settings.get(cors.SETTING))
    if not rules:
        raise errors.CorsNotEnabled("CORSResponse: CORS is not enabled for this bucket.")
    headers = cors.allow(rules, wanted)
    if headers is None:
        raise errors.CorsNotEnabled(
            "CORSResponse: This CORS request is not allowed. This is usually because the "
            "evalution of Origin, request method / Access-Control-Request-Method or "
            "Access-Control-Request-Headers are not whitelisted by the resource's CORS spec."
        )
    return asgi.Response(200, headers)


def _find(services: engines.S3Services, call: calls.Call, name: str) -> Any:
    """Return a bucket's configuration. Raises NotConfigured."""
    bucket = services.buckets.get(call.value.bucket)
    value = bucket.settings.get(name) if bucket.kind == "general" else None
    if value is None:
        code, message = ABSENT[name]
        raise errors.NotConfigured(code, message, BucketName=bucket.name)
    return value


async def _put(
    services: engines.S3Services, call: calls.Call, name: str, parse: Callable[[bytes], Any]
) -> None:
    """Replace a bucket's configuration by what the body says."""
    operation: operations.PutConfiguration = call.value
    data = await incoming.read_document(call.request, call.caller, integrity=operation.integrity)
    value = parse(data)
    bucket = _bucket(services, call)
    await services.buckets.change(
        operation.bucket, functools.partial(_with, name, value), bucket_id=bucket.bucket_id
    )


def _bucket(services: engines.S3Services, call: calls.Call) -> model.BucketInfo:
    """Return a bucket to configure. Raises TableBucketVerb for a table bucket."""
    bucket = services.buckets.get(call.value.bucket)
    if bucket.kind == "table":
        raise errors.TableBucketVerb(
            "A table bucket is configured through the s3tables API.",
            Method=call.request.method,
            ResourceType="TABLE BUCKET",
        )
    return bucket


def _with(name: str, value: Any, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**settings, name: value}


def _without(name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {other: value for other, value in settings.items() if other != name}
