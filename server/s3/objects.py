"""face: the operations on one object: get, head, put, copy, delete, tags.

GetObject and PutObject are the hot path: one look at the index, no parsing beyond `identify`, and
bodies that pass as slices of files or straight into storage.
"""

from __future__ import annotations

from server import asgi
from server.auth import callers
from server.s3 import documents, engines, errors, fields, incoming, operations, wire
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
    precondition = engines.precondition_of(house, bucket, key, operation.conditions)
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
    try:
        await engines.check_content(house, bucket, key, received.body, received.size_bytes)
    except BaseException:
        await house.blobs.discard(received)
        raise
    # While the body came, the key may have become a file of a table.
    precondition = engines.guarded(house, bucket, key, precondition)
    try:
        info = await house.objects.put(
            bucket, key, received, attributes=attributes, precondition=precondition
        )
    except storage_errors.ContentDiffers:
        house.guard.refuse_overwrite(key)
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
    precondition = engines.precondition_of(house, bucket, key, operation.conditions)
    await engines.check_content(house, bucket, key, source.body, source.size_bytes)
    attributes = await _attributes_of_copy(house, operation, source, caller)
    try:
        info = await house.objects.copy(
            source, bucket, key, attributes=attributes, precondition=precondition
        )
    except storage_errors.ContentDiffers:
        house.guard.refuse_overwrite(key)
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
    await delete(
        house, operation.bucket, operation.key, operation.conditions, by=caller.principal.arn
    )
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
    engines.find(house, caller.principal, operation.bucket, operation.key)
    await house.objects.set_tags(operation.bucket, operation.key, tags)
    return asgi.Response(200)


async def delete_object_tagging(
    house: engines.Engines,
    operation: operations.DeleteObjectTagging,
    request: asgi.Request,
    caller: callers.Caller,
) -> asgi.Response:
    _check_version(operation.version_id)
    engines.find(house, caller.principal, operation.bucket, operation.key)
    await house.objects.set_tags(operation.bucket, operation.key, {})
    return asgi.Response(204)


async def delete(
    house: engines.Engines, bucket: str, key: str, precondition: model.Precondition, *, by: str
) -> None:
    """Do what a DELETE of key means in this bucket: remove it, hide it, or refuse."""
    house.buckets.get(bucket)
    if not operations.is_text(key):
        return
    match house.guard.on_delete(bucket, key):
        case "remove":
            await house.objects.delete(bucket, key, precondition=precondition)
        case "tombstone":
            if precondition is not model.ALWAYS:
                # Files below a table never change, so what holds now holds when it is hidden.
                engines.precondition_of(house, bucket, key, precondition)
            await house.objects.tombstone(bucket, key, by=by)
        case "refuse":
            raise errors.MethodNotAllowed(
                "The specified method is not allowed against this resource.",
                Method="DELETE",
                ResourceType="OBJECT",
            )


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


def _check_version(version_id: str | None) -> None:
    if version_id not in (None, model.NULL_VERSION):
        raise errors.InvalidArgument(
            "Invalid version id specified",
            ArgumentName="versionId",
            ArgumentValue=str(version_id),
        )
