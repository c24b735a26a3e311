"""face: object lock: the configuration of a bucket, retention and legal hold of a version.

Storage decides in its transaction whether a retention may be changed and a version removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from server import asgi, calls
from server.s3 import configurations, documents, engines, errors, guard, incoming, operations, wire
from storage import buckets, locks, model


async def get_object_lock_configuration(
    services: engines.S3Services, call: calls.Call
) -> asgi.Response:
    operation: operations.Target = call.value
    bucket = services.buckets.get(operation.bucket)
    if not bucket.object_lock:
        raise errors.NotConfigured(
            "ObjectLockConfigurationNotFoundError",
            "Object Lock configuration does not exist for this bucket",
            BucketName=operation.bucket,
        )
    body = wire.object_lock(locks.default_of(bucket.settings))
    return asgi.Response(200, wire.XML_HEADERS, body)


async def put_object_lock_configuration(
    services: engines.S3Services, call: calls.Call
) -> asgi.Response:
    data = await incoming.read_configuration(call)
    engines.check_allowed(services, call)
    if not data:
        raise errors.MissingRequestBody("Request Body is empty")
    default = await incoming.parsed(documents.parse_object_lock, data)

    async def change(bucket: model.BucketInfo, check: buckets.SettingsCheck) -> None:
        await services.buckets.set_object_lock(
            bucket.name, default, bucket_id=bucket.bucket_id, check=check
        )

    await configurations.change_judged(services, call, change)
    return asgi.Response(200)


async def get_object_retention(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    info = _find(services, call)
    retention = locks.retention_of(info.attributes.headers)
    if retention is None:
        raise _not_locked()
    headers = (*wire.XML_HEADERS, *engines.version_shown(call, info))
    return asgi.Response(200, headers, wire.retention(retention))


async def put_object_retention(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.PutObjectLock = call.value
    bucket, key, version_id = operation.bucket, operation.key, operation.version_id
    retention = await engines.read_judged(
        services,
        call,
        documents.parse_retention,
        lambda retention: {"lock": locks.headers_of(retention, None)},
    )

    async def change(ruling: guard.Ruling) -> model.ObjectInfo:
        return await services.objects.set_retention(
            engines.bucket_of(ruling, bucket),
            key,
            retention,
            version_id=version_id,
            bypass_governance=engines.may_bypass(services, call, bucket, key, version_id),
            expects=ruling.expects,
        )

    return await _put(services, call, change)


async def get_object_legal_hold(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    info = _find(services, call)
    legal_hold = locks.legal_hold_of(info.attributes.headers)
    if legal_hold is None:
        raise _not_locked()
    headers = (*wire.XML_HEADERS, *engines.version_shown(call, info))
    return asgi.Response(200, headers, wire.legal_hold(legal_hold))


async def put_object_legal_hold(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.PutObjectLock = call.value
    legal_hold = await engines.read_judged(
        services,
        call,
        documents.parse_legal_hold,
        lambda legal_hold: {"lock": locks.headers_of(None, legal_hold)},
    )

    async def change(ruling: guard.Ruling) -> model.ObjectInfo:
        return await services.objects.set_legal_hold(
            engines.bucket_of(ruling, operation.bucket),
            operation.key,
            legal_hold,
            version_id=operation.version_id,
            expects=ruling.expects,
        )

    return await _put(services, call, change)


async def _put(
    services: engines.S3Services,
    call: calls.Call,
    change: Callable[[guard.Ruling], Awaitable[model.ObjectInfo]],
) -> asgi.Response:
    """Change the lock of a version; repeat the access decision if its rows change meanwhile."""
    operation: operations.PutObjectLock = call.value
    _find(services, call)

    async def judge() -> None:
        engines.authorise(services, call)

    info = await engines.settle(call, operation.bucket, operation.key, change, judge=judge)
    return asgi.Response(200, engines.version_shown(call, info))


def _find(services: engines.S3Services, call: calls.Call) -> model.ObjectInfo:
    """Return the version of a call. Raises InvalidRequest in a bucket without object lock."""
    operation: operations.GetObjectLock | operations.PutObjectLock = call.value
    held = engines.ruling(call, operation.bucket, operation.key)
    engines.check_lockable(engines.bucket_of(held, operation.bucket))
    return engines.find_readable(
        services, call, operation.bucket, operation.key, operation.version_id
    )


def _not_locked() -> errors.NotConfigured:
    return errors.NotConfigured(
        "NoSuchObjectLockConfiguration",
        "The specified object does not have a ObjectLock configuration",
    )
