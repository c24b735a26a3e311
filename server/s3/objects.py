"""face: the operations on one object: get, head, put, copy, delete, tags.

GetObject and PutObject are the hot path: one look at the index, no parsing beyond `identify`, and
bodies that pass as slices of files or straight into storage.
"""

from __future__ import annotations

from collections.abc import Mapping

from server import asgi
from server.auth import callers
from server.s3 import (
    demands,
    documents,
    engines,
    errors,
    fields,
    guard,
    incoming,
    operations,
    wire,
)
from storage import byteranges, checksums, conditions, model
from storage import errors as storage_errors

COPY_SOURCE_BYTES_MAX = incoming.OBJECT_BYTES_MAX


async def get_object(
    house: engines.Engines,
    operation: operations.GetObject,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    info, status, headers, byte_range = _read(house, operation, caller)
    pieces = house.objects.pieces(info, byte_range)
    # One file is open from the first byte to the last; of several, each only in its turn.
    holding = house.blobs.hold(info.body) if len(pieces) > 1 else None
    return asgi.Response(status, tuple(headers), pieces, holding)


async def head_object(
    house: engines.Engines,
    operation: operations.HeadObject,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    info, status, headers, byte_range = _read(house, operation, caller)
    size_bytes = info.size_bytes if byte_range is None else byte_range.stop - byte_range.start
    headers.append(("content-length", str(size_bytes)))
    return asgi.Response(status, tuple(headers))


async def put_object(
    house: engines.Engines,
    operation: operations.PutObject,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    bucket, key = operation.bucket, operation.key
    size_bytes = incoming.check_size(operation.size_bytes)
    engines.check_writable(house, bucket, key, size_bytes)
    engines.check_precondition(house, bucket, key, operation.conditions)
    received, sent = await incoming.receive(
        house.blobs, request, caller, size_bytes=size_bytes, integrity=operation.integrity
    )
    written = operation.written
    attributes = model.ObjectAttributes(
        headers=written.headers,
        user_metadata=written.user_metadata,
        checksums=sent,
        tags=written.tags,
        storage_class=written.storage_class,
        owner=caller.principal.account_id,
    )

    async def put(ruling: guard.Ruling) -> model.ObjectInfo:
        try:
            await engines.check_content(house, ruling, received.body, received.size_bytes)
        except BaseException:
            await house.blobs.discard(received)
            raise
        return await house.objects.put(
            engines.bucket_of(ruling, bucket),
            key,
            received,
            attributes=attributes,
            precondition=engines.guarded(operation.conditions, ruling),
            expects=ruling.expects,
        )

    async def judge() -> None:
        try:
            engines.authorise(house, caller.principal, operation)
            engines.check_writable(house, bucket, key, received.size_bytes)
        except BaseException:
            await house.blobs.discard(received)
            raise

    try:
        info = await engines.settle(house, bucket, key, put, judge=judge)
    except storage_errors.ExpectationFailed:
        await house.blobs.discard(received)
        raise
    return asgi.Response(200, (("etag", f'"{info.etag}"'), *wire.checksum_headers(info)))


async def copy_object(
    house: engines.Engines,
    operation: operations.CopyObject,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    source = find_source(house, operation.source, caller)
    bucket, key = operation.bucket, operation.key
    if source.size_bytes > COPY_SOURCE_BYTES_MAX:
        raise errors.InvalidRequest(
            "The specified copy source is larger than the maximum allowable size for a copy "
            f"source: {COPY_SOURCE_BYTES_MAX}"
        )
    if (
        (source.bucket, source.key) == (bucket, key)
        and operation.metadata_directive == "COPY"
        and operation.tagging_directive == "COPY"
        and not operation.storage_class_given
    ):
        raise errors.InvalidRequest(
            "This copy request is illegal because it is trying to copy an object to itself "
            "without changing the object's metadata, storage class, website redirect location or "
            "encryption attributes."
        )
    engines.check_writable(house, bucket, key, source.size_bytes)
    engines.check_precondition(house, bucket, key, operation.conditions)
    await engines.check_content(house, house.guard.at(bucket, key), source.body, source.size_bytes)
    attributes = await _attributes_of_copy(house, operation, source, caller)

    async def copy(ruling: guard.Ruling) -> model.ObjectInfo:
        return await house.objects.copy(
            source,
            engines.bucket_of(ruling, bucket),
            key,
            attributes=attributes,
            precondition=engines.guarded(operation.conditions, ruling),
            expects=ruling.expects,
        )

    async def judge() -> None:
        engines.authorise(house, caller.principal, operation)
        engines.check_writable(house, bucket, key, source.size_bytes)
        await engines.check_content(
            house, house.guard.at(bucket, key), source.body, source.size_bytes
        )

    info = await engines.settle(house, bucket, key, copy, judge=judge)
    body = wire.copy_result(
        "CopyObjectResult",
        etag=info.etag,
        modified_at_ms=info.modified_at_ms,
        elements=wire.checksum_elements(*wire.checksums_of(info)),
    )
    return asgi.Response(200, wire.XML_HEADERS, body)


async def delete_object(
    house: engines.Engines,
    operation: operations.DeleteObject,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    _check_version(operation.version_id)
    await delete(house, operation.bucket, operation.key, operation.conditions, caller)
    return asgi.Response(204)


async def get_object_tagging(
    house: engines.Engines,
    operation: operations.GetObjectTagging,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    info = engines.find(
        house, caller.principal, operation.bucket, operation.key, operation.version_id
    )
    return asgi.Response(200, wire.XML_HEADERS, wire.tagging(info.attributes.tags))


async def put_object_tagging(
    house: engines.Engines,
    operation: operations.PutObjectTagging,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    data = await incoming.read_document(request, caller, integrity=operation.integrity)
    tags = documents.parse_tagging(data)
    _check_version(operation.version_id)
    await _set_tags(house, operation, tags, caller)
    return asgi.Response(200)


async def delete_object_tagging(
    house: engines.Engines,
    operation: operations.DeleteObjectTagging,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    _check_version(operation.version_id)
    await _set_tags(house, operation, {}, caller)
    return asgi.Response(204)


async def delete(
    house: engines.Engines,
    bucket: str,
    key: str,
    precondition: model.Precondition,
    caller: callers.Caller,
) -> None:
    """Do what a DELETE of key means in this bucket: remove it, hide it, or refuse."""
    engines.bucket_of(house.guard.at(bucket, key), bucket)
    if not operations.is_text(key):
        return

    async def change(ruling: guard.Ruling) -> None:
        place = engines.bucket_of(ruling, bucket)
        match ruling.on_delete:
            case "remove":
                await house.objects.delete(
                    place, key, precondition=precondition, expects=ruling.expects
                )
            case "tombstone":
                await house.objects.tombstone(
                    place,
                    key,
                    by=caller.principal.arn,
                    precondition=precondition,
                    expects=ruling.expects,
                )
            case "refuse":
                raise errors.MethodNotAllowed(
                    "The specified method is not allowed against this resource.",
                    Method="DELETE",
                    ResourceType="OBJECT",
                )

    async def judge() -> None:
        demand = demands.key(house.guard, bucket, key, "s3:DeleteObject")
        house.authoriser.check(caller.principal, demand)

    await engines.settle(house, bucket, key, change, judge=judge)


def find_source(
    house: engines.Engines, source: fields.Source, caller: callers.Caller
) -> model.ObjectInfo:
    """Return the object that a copy reads, once its conditions hold."""
    info = engines.find(house, caller.principal, source.bucket, source.key, source.version_id)
    conditions.check_copy_source(
        source.conditions, etag=info.etag, modified_at_ms=info.modified_at_ms
    )
    return info


def _read(
    house: engines.Engines,
    operation: operations.GetObject | operations.HeadObject,
    caller: callers.Caller,
) -> tuple[model.ObjectInfo, int, list[tuple[str, str]], model.ByteRange | None]:
    """Return the object, the status, the headers but for the length, and which bytes to send."""
    read = operation.read
    info = engines.find(house, caller.principal, operation.bucket, operation.key, read.version_id)
    if read is fields.PLAIN_READ:
        return info, 200, wire.object_headers(info), None
    if read.overrides and caller.principal.kind == "anonymous":
        raise errors.InvalidRequest(
            "Request specific response headers cannot be used for anonymous GET requests."
        )
    conditions.check_read(read.conditions, etag=info.etag, modified_at_ms=info.modified_at_ms)
    byte_range = None
    if read.byte_range is not None:
        byte_range = byteranges.parse(read.byte_range, info.size_bytes)
    elif read.part_number is not None:
        byte_range = _part_range(info, read.part_number)
    headers = wire.object_headers(
        info,
        overrides=read.overrides,
        with_checksums=read.with_checksums and byte_range is None,
    )
    if read.part_number is not None and info.attributes.part_sizes_bytes:
        headers.append(("x-amz-mp-parts-count", str(len(info.attributes.part_sizes_bytes))))
    if byte_range is None:
        return info, 200, headers, None
    span = f"bytes {byte_range.start}-{byte_range.stop - 1}/{info.size_bytes}"
    headers.append(("content-range", span))
    return info, 206, headers, byte_range


def _part_range(info: model.ObjectInfo, part_number: int) -> model.ByteRange | None:
    """Return where a part lies; None for the empty body of an object stored whole."""
    sizes = info.attributes.part_sizes_bytes or (info.size_bytes,)
    if part_number > len(sizes):
        raise errors.InvalidPartNumber(
            "The requested partnumber is not satisfiable",
            PartNumberRequested=str(part_number),
            ActualPartCount=str(len(sizes)),
        )
    start = sum(sizes[: part_number - 1])
    size_bytes = sizes[part_number - 1]
    return model.ByteRange(start=start, stop=start + size_bytes) if size_bytes else None


async def _attributes_of_copy(
    house: engines.Engines,
    operation: operations.CopyObject,
    source: model.ObjectInfo,
    caller: callers.Caller,
) -> model.ObjectAttributes:
    before, written = source.attributes, operation.written
    stated, kind = before.checksums, before.checksum_type
    wanted = operation.checksum_algorithm
    if wanted is not None and (wanted not in stated or kind == "COMPOSITE"):
        with house.blobs.hold(source.body):
            digests = await house.blobs.digest(source.body, None, (wanted,))
        stated, kind = {wanted: checksums.to_text(digests[wanted])}, "FULL_OBJECT"
    replaced = operation.metadata_directive == "REPLACE"
    return model.ObjectAttributes(
        headers=written.headers if replaced else before.headers,
        user_metadata=written.user_metadata if replaced else before.user_metadata,
        checksums=stated,
        checksum_type=kind,
        tags=written.tags if operation.tagging_directive == "REPLACE" else before.tags,
        storage_class=written.storage_class,
        owner=caller.principal.account_id,
        etag=source.etag,
        part_sizes_bytes=before.part_sizes_bytes,
    )


async def _set_tags(
    house: engines.Engines,
    operation: operations.PutObjectTagging | operations.DeleteObjectTagging,
    tags: Mapping[str, str],
    caller: callers.Caller,
) -> None:
    bucket, key = operation.bucket, operation.key
    engines.find(house, caller.principal, bucket, key)

    async def change(ruling: guard.Ruling) -> None:
        await house.objects.set_tags(
            engines.bucket_of(ruling, bucket), key, tags, expects=ruling.expects
        )

    async def judge() -> None:
        engines.authorise(house, caller.principal, operation)

    await engines.settle(house, bucket, key, change, judge=judge)


def _check_version(version_id: str | None) -> None:
    if version_id not in (None, model.NULL_VERSION):
        raise errors.InvalidArgument(
            "Invalid version id specified",
            ArgumentName="versionId",
            ArgumentValue=str(version_id),
        )
