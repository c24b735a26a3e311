"""face: the operations on one object: get, head, put, copy, delete, tags.

GetObject and PutObject are the hot path: one lookup in the index, no parsing after `identify`.
Bodies are sent as slices of files and received directly into storage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from server import asgi, calls, pending
from server.access import model as access_model
from server.s3 import (
    acls,
    demands,
    documents,
    encryption,
    engines,
    errors,
    fields,
    guard,
    incoming,
    operations,
    wire,
)
from storage import batch, byteranges, checksums, conditions, locks, model, puts
from storage import errors as storage_errors

COPY_SOURCE_BYTES_MAX = incoming.OBJECT_BYTES_MAX


def reveal_absent_object(services: engines.S3Services, call: calls.Call) -> None:
    """Raise NoSuchBucket or NoSuchKey to a caller that may not read an absent object.

    NoSuchKey needs the right to list the key. Otherwise nothing is raised: the answer for an absent
    object is then that for an existing one.
    """
    operation: operations.GetObject | operations.HeadObject = call.value
    try:
        engines.find(services, call, operation.bucket, operation.key, operation.read.version_id)
    except (errors.Forbidden, storage_errors.IsDeleteMarker):
        return


def get_object(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.GetObject = call.value
    bucket, key, read = operation.bucket, operation.key, operation.read
    status, prepared = 200, b""
    headers: asgi.ResponseHeaders = ()
    byte_range: model.ByteRange | None = None
    with services.objects.view() as view:
        held = engines.ruling(call, bucket, key, view)
        info = engines.find_readable(
            services, call, bucket, key, read.version_id, reading=view, held=held
        )
        shown = engines.headers_of_read(
            services, call, info, read.version_id, held.bucket, reading=view
        )
        if read is fields.PLAIN_READ or read is fields.CHECKED_READ:
            prepared = services.lines.of(info, with_checksums=read.with_checksums)
            headers = shown
        else:
            status, headers, byte_range, prepared = _read(services, info, read, call, shown)
            if status == 304:
                return asgi.Response(status, headers)
        pieces = services.objects.pieces(info, byte_range, reading=view)
    if len(pieces) == 1:
        piece = pieces[0]
        if isinstance(piece, bytes):
            return asgi.Response(status, headers, piece, None, prepared)
    # One file stays open for the whole response; of several files, one is open at a time.
    holding = services.blobs.hold(info.body) if len(pieces) > 1 else None
    return asgi.Response(status, headers, pieces, holding, prepared)


def head_object(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.HeadObject = call.value
    bucket, key, read = operation.bucket, operation.key, operation.read
    with services.objects.view() as view:
        held = engines.ruling(call, bucket, key, view)
        info = engines.find_readable(
            services, call, bucket, key, read.version_id, reading=view, held=held
        )
        shown = engines.headers_of_read(
            services, call, info, read.version_id, held.bucket, reading=view
        )
    if read is fields.PLAIN_READ or read is fields.CHECKED_READ:
        length = ("content-length", str(info.size_bytes))
        prepared = services.lines.of(info, with_checksums=read.with_checksums)
        return asgi.Response(200, (*shown, length), prepared=prepared)
    status, headers, byte_range, prepared = _read(services, info, read, call, shown)
    if status == 304:
        return asgi.Response(status, headers)
    size_bytes = info.size_bytes if byte_range is None else byte_range.stop - byte_range.start
    length = ("content-length", str(size_bytes))
    return asgi.Response(status, (*headers, length), prepared=prepared)


def put_object(
    services: engines.S3Services, call: calls.Call
) -> asgi.Response | Awaitable[asgi.Response]:
    operation: operations.PutObject = call.value
    bucket, key = operation.bucket, operation.key
    size_bytes = operation.size_bytes
    incoming.check_size(size_bytes, call.request)
    held = engines.ruling(call, bucket, key)
    concerns_acl = acls.concerns(call, held)
    if concerns_acl:
        acls.of_new(services, call, held)
    engines.check_ruling(call, held, bucket, key, size_bytes)
    if operation.written.lock and operation.integrity == fields.NO_INTEGRITY:
        # A locked object cannot be replaced if its body arrived damaged.
        raise errors.InvalidRequest(
            "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with "
            "Object Lock parameters"
        )
    engines.check_precondition(services, call, bucket, key, operation.conditions)
    at_once = held.content_check is None and not concerns_acl
    arriving = incoming.arriving(call.request, size_bytes=size_bytes)
    if arriving is not None:
        return pending.Pending(arriving, lambda _: _put_arrived(services, call, held, at_once))
    return _put_arrived(services, call, held, at_once)


def _put_arrived(
    services: engines.S3Services, call: calls.Call, held: guard.Ruling, at_once: bool
) -> asgi.Response | Awaitable[asgi.Response]:
    """Put an object whose write is allowed, in one attempt if its small body has arrived.

    held: the Ruling of its key. at_once: neither the body nor an access control list has to be
    judged."""
    operation: operations.PutObject = call.value
    bucket, key = operation.bucket, operation.key
    arrived = incoming.receive_arrived(
        call.request,
        call.caller,
        size_bytes=operation.size_bytes,
        integrity=operation.integrity,
    )
    if arrived is None or not at_once:
        return _receive_and_put(services, call, arrived)
    received, sent = arrived
    putting = services.objects.start_put(
        engines.bucket_of(held, bucket),
        key,
        received,
        attributes=_attributes_of(call, sent, None),
        precondition=engines.guarded(operation.conditions, held),
        expects=held.expects,
    )

    def finish(
        put: asyncio.Future[tuple[model.ObjectInfo, bool]],
    ) -> asgi.Response | Awaitable[asgi.Response]:
        try:
            return _answer_put(services, held.bucket, put.result()[0])
        except (
            storage_errors.ContentDiffers,
            storage_errors.ExpectationFailed,
            puts.Unproven,
            batch.TakesLong,
        ):
            return _receive_and_put(services, call, arrived)

    return pending.Pending(putting, finish)


async def _receive_and_put(
    services: engines.S3Services,
    call: calls.Call,
    arrived: tuple[model.Received, Mapping[str, str]] | None,
) -> asgi.Response:
    """Put an object whose body has not arrived, or that needs another attempt.

    arrived: the body, if it has arrived."""
    operation: operations.PutObject = call.value
    if arrived is None:
        arrived = await incoming.receive(
            services.blobs,
            call.request,
            call.caller,
            size_bytes=operation.size_bytes,
            integrity=operation.integrity,
        )
    info = await store(services, call, *arrived)
    return _answer_put(services, engines.ruling(call, info.bucket, info.key).bucket, info)


async def store(
    services: engines.S3Services,
    call: calls.Call,
    received: model.Received,
    sent: Mapping[str, str],
) -> model.ObjectInfo:
    """Put a received body with the attributes of the call's PutObject; on an error discard it.

    sent: the client's checksum.
    """

    def attributes_of(acl: model.AccessControlList | None) -> model.ObjectAttributes:
        return _attributes_of(call, sent, acl)

    def judge() -> None:
        engines.authorise(services, call)

    return await _store(services, call, received, attributes_of, judge)


async def _store(
    services: engines.S3Services,
    call: calls.Call,
    received: model.Received,
    attributes_of: Callable[[model.AccessControlList | None], model.ObjectAttributes],
    authorise: Callable[[], None],
) -> model.ObjectInfo:
    """Put a received body where a PutObject or a CopyObject puts it; on an error discard it.

    attributes_of: returns the attributes of the object with its access control list. authorise:
    raises unless the caller may still write.
    """
    operation: operations.PutObject | operations.CopyObject = call.value
    bucket, key = operation.bucket, operation.key

    async def put(ruling: guard.Ruling) -> model.ObjectInfo:
        try:
            acl = acls.of_new(services, call, ruling)
            ruling.check_body(received.size_bytes)
            await engines.check_content(services, ruling, received.body, received.size_bytes)
        except BaseException:
            await services.blobs.discard(received)
            raise
        return await services.objects.put(
            engines.bucket_of(ruling, bucket),
            key,
            received,
            attributes=attributes_of(acl),
            precondition=engines.guarded(operation.conditions, ruling),
            expects=ruling.expects,
        )

    async def judge() -> None:
        try:
            authorise()
            engines.check_writable(call, bucket, key, received.size_bytes)
        except BaseException:
            await services.blobs.discard(received)
            raise

    try:
        return await engines.settle(call, bucket, key, put, judge=judge)
    except storage_errors.ExpectationFailed:
        await services.blobs.discard(received)
        raise


def _attributes_of(
    call: calls.Call, sent: Mapping[str, str], acl: model.AccessControlList | None
) -> model.ObjectAttributes:
    """Return the attributes that a PutObject gives. sent: the client's checksum."""
    written = call.value.written
    return model.ObjectAttributes(
        headers=written.stored,
        user_metadata=written.user_metadata,
        checksums=sent,
        tags=written.tags,
        storage_class=written.storage_class,
        owner=call.caller.principal.account_id,
        acl=acl,
    )


def _answer_put(
    services: engines.S3Services, bucket: model.BucketInfo | None, info: model.ObjectInfo
) -> asgi.Response:
    further = engines.headers_in_bucket(services, bucket, info)
    return asgi.Response(200, (*wire.written_version(info), *further), prepared=_lines_of_put(info))


def _lines_of_put(info: model.ObjectInfo) -> bytes:
    """Return the ETag and the checksum of an object, encoded as lines of the head of an answer."""
    if info.attributes.checksums:
        return asgi.encode_headers((("etag", f'"{info.etag}"'), *wire.checksum_headers(info)))
    crc = checksums.to_text(info.crc64nvme.to_bytes(8, "big"))
    return (
        f'etag: "{info.etag}"\r\nx-amz-checksum-crc64nvme: {crc}\r\n'
        "x-amz-checksum-type: FULL_OBJECT\r\n"
    ).encode()


async def copy_object(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    await incoming.refuse_body(call.request, call.caller)
    return await engines.from_source(services, call, lambda: _copy_object(services, call))


async def _copy_object(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.CopyObject = call.value
    source = find_source(services, operation.source, call)
    bucket, key = operation.bucket, operation.key
    check_copied_size(source.size_bytes)
    if (
        (source.bucket, source.key) == (bucket, key)
        and operation.source.version_id is None
        and operation.metadata_directive == "COPY"
        and operation.tagging_directive == "COPY"
        and not operation.storage_class_given
        and not encryption.is_wanted(call.request)
    ):
        raise errors.InvalidRequest(
            "This copy request is illegal because it is trying to copy an object to itself "
            "without changing the object's metadata, storage class, website redirect location or "
            "encryption attributes."
        )
    _check_tags_copied(services, call, source)
    acls.of_new(services, call, engines.ruling(call, bucket, key))
    engines.check_writable(call, bucket, key, source.size_bytes)
    engines.check_precondition(services, call, bucket, key, operation.conditions)
    await engines.check_content(
        services, engines.ruling(call, bucket, key), source.body, source.size_bytes
    )
    attributes = await _attributes_of_copy(services, operation, source, call)

    async def copy(ruling: guard.Ruling) -> model.ObjectInfo:
        acl = acls.of_new(services, call, ruling)
        return await services.objects.copy(
            source,
            engines.bucket_of(ruling, bucket),
            key,
            attributes=msgspec.structs.replace(attributes, acl=acl),
            precondition=engines.guarded(operation.conditions, ruling),
            expects=ruling.expects,
        )

    def authorise() -> None:
        engines.authorise(services, call)
        _check_tags_copied(services, call, source)

    async def judge() -> None:
        authorise()
        engines.check_writable(call, bucket, key, source.size_bytes)
        await engines.check_content(
            services, engines.ruling(call, bucket, key), source.body, source.size_bytes
        )

    try:
        info = await engines.settle(call, bucket, key, copy, judge=judge)
    except storage_errors.SourceGone:
        if (source.bucket, source.key) == (bucket, key):
            raise  # begin anew, or the earlier bytes would replace the later ones
        info = await _copy_bytes(services, call, source, attributes, authorise)
    body = wire.copy_result(
        "CopyObjectResult",
        etag=info.etag,
        modified_at_ms=info.modified_at_ms,
        elements=wire.checksum_elements(*wire.checksums_of(info)),
    )
    versions = (*source_version(call, source), *_copied_version(call, info))
    further = engines.headers_of_write(services, call, info)
    return asgi.Response(200, (*wire.XML_HEADERS, *versions, *further), body)


def _copied_version(call: calls.Call, info: model.ObjectInfo) -> asgi.ResponseHeaders:
    """Return the version header of a copy. Unlike other writes, AWS's copies show a null version
    where versioning is suspended."""
    bucket = engines.ruling(call, info.bucket, info.key).bucket
    if bucket is not None and bucket.versioning == "Suspended":
        return (("x-amz-version-id", info.version_id),)
    return wire.written_version(info)


async def _copy_bytes(
    services: engines.S3Services,
    call: calls.Call,
    source: model.ObjectInfo,
    attributes: model.ObjectAttributes,
    authorise: Callable[[], None],
) -> model.ObjectInfo:
    """Copy a source that was overwritten or removed since it was found, by storing its bytes again.

    attributes: of the copy. Raises SourceGone if the bytes are freed already.
    """
    with services.blobs.hold(source.body):
        try:
            received = await services.blobs.store_again(source.body, None, digests=frozenset())
        except storage_errors.BodyMissing:
            raise storage_errors.SourceGone(
                f"{source.key!r} was overwritten or removed before it was copied", key=source.key
            ) from None
    try:
        checksums.check_stored(received.digests, source.crc64nvme, source.key)
    except storage_errors.BodyDamaged:
        await services.blobs.discard(received)
        raise

    def attributes_of(acl: model.AccessControlList | None) -> model.ObjectAttributes:
        return msgspec.structs.replace(attributes, acl=acl)

    return await _store(services, call, received, attributes_of, authorise)


def _check_tags_copied(
    services: engines.S3Services, call: calls.Call, source: model.ObjectInfo
) -> None:
    """Raise AccessDenied unless the caller may read the tags that a copy takes over, and set them.

    Source: Amazon S3 user guide, "Copying objects": GetObjectTagging and PutObjectTagging.
    """
    operation: operations.CopyObject = call.value
    if operation.tagging_directive == "REPLACE" or not source.attributes.tags:
        return
    for demand in demands.copied_tags(call, source):
        services.authoriser.check(call.principal, demands.with_request_keys(services, call, demand))


async def delete_object(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.DeleteObject = call.value
    deleted = await delete(
        services,
        operation.bucket,
        operation.key,
        operation.version_id,
        operation.conditions,
        call,
    )
    headers: asgi.ResponseHeaders = ()
    if deleted.version_id is not None:
        headers = (("x-amz-version-id", deleted.version_id),)
    if deleted.is_delete_marker:
        headers = (*headers, ("x-amz-delete-marker", "true"))
    return asgi.Response(204, headers)


def get_object_attributes(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.GetObjectAttributes = call.value
    info = engines.find_readable(
        services, call, operation.bucket, operation.key, operation.version_id
    )
    body = wire.object_attributes(
        info,
        names=operation.names,
        after_part_number=operation.after_part_number,
        max_parts=operation.max_parts,
    )
    modified = ("last-modified", wire.format_date(info.modified_at_ms))
    version = engines.version_shown(call, info)
    return asgi.Response(200, (*wire.XML_HEADERS, modified, *version), body)


def get_object_tagging(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.GetObjectTagging = call.value
    with engines.refusing_marker():
        info = engines.find_readable(
            services, call, operation.bucket, operation.key, operation.version_id
        )
    headers = (*wire.XML_HEADERS, *engines.version_shown(call, info))
    return asgi.Response(200, headers, wire.tagging(info.attributes.tags))


def get_object_torrent(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """Raise NoSuchKey: no object has a torrent."""
    operation: operations.Target = call.value
    engines.find(services, call, operation.bucket, operation.key)
    raise storage_errors.NoSuchKey(
        f"{operation.key!r} has no torrent: BitTorrent is not offered", key=operation.key
    )


async def restore_object(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """Raise NotArchived: no object is in an archive."""
    operation: operations.RestoreObject = call.value
    data = await incoming.read_configuration(call)
    engines.check_allowed(services, call)
    await incoming.parsed(documents.check_restore, data)
    info = engines.find(services, call, operation.bucket, operation.key, operation.version_id)
    raise errors.NotArchived(
        "Restore is not allowed for the object's current storage class",
        StorageClass=info.attributes.storage_class,
    )


async def put_object_tagging(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.PutObjectTagging = call.value
    tags = await engines.read_judged(
        services, call, documents.parse_tagging, lambda tags: {"tags": tags}
    )
    tagged = await _set_tags(services, operation, tags, call)
    return asgi.Response(200, engines.version_shown(call, tagged))


async def delete_object_tagging(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.DeleteObjectTagging = call.value
    untagged = await _set_tags(services, operation, {}, call)
    return asgi.Response(204, engines.version_shown(call, untagged))


async def delete(
    services: engines.S3Services,
    bucket: str,
    key: str,
    version_id: str | None,
    precondition: model.Precondition,
    call: calls.Call,
) -> model.Deleted:
    """Remove or hide an object, or raise, as the Ruling of its key says.

    version_id: the version to remove. Objects of table buckets have the null version alone.
    """
    engines.bucket_of(engines.ruling(call, bucket, key), bucket)
    if not operations.is_text(key):
        return model.Deleted(version_id=version_id)

    def demanded() -> list[access_model.Demand]:
        bare = demands.deletion(call, bucket, key, version_id, precondition)
        return [demands.with_request_keys(services, call, demand) for demand in bare]

    async def change(ruling: guard.Ruling) -> model.Deleted:
        bucket_info = engines.bucket_of(ruling, bucket)
        match ruling.on_delete:
            case "remove":
                judged_owner = None
                if acls.may_allow_deletion(call, bucket_info, version_id):
                    judged_owner = acls.owner_of_object(services, bucket_info, key)
                    for demand in demanded():
                        if not services.authoriser.permits(call.principal, demand):
                            services.authoriser.check(call.principal, demand)
                return await services.objects.delete(
                    bucket_info,
                    key,
                    version_id=version_id,
                    bypass_governance=engines.may_bypass(services, call, bucket, key, version_id),
                    owner=call.principal.account_id,
                    judged_owner=judged_owner,
                    precondition=precondition,
                    expects=ruling.expects,
                )
            case "tombstone" if version_id in (None, model.NULL_VERSION):
                await services.objects.tombstone(
                    bucket_info,
                    key,
                    by=call.principal.arn,
                    precondition=precondition,
                    expects=ruling.expects,
                )
                return model.Deleted(version_id=version_id)
            case "tombstone":
                return model.Deleted(version_id=version_id)
            case "refuse":
                raise errors.ResourceMethodNotAllowed(
                    "The specified method is not allowed against this resource.",
                    Method="DELETE",
                    ResourceType="OBJECT",
                )

    async def judge() -> None:
        for demand in demanded():
            services.authoriser.check(call.principal, demand)

    return await engines.settle(call, bucket, key, change, judge=judge)


def find_source(
    services: engines.S3Services, source: fields.CopySource, call: calls.Call
) -> model.ObjectInfo:
    """Return the source of a copy. Raises PreconditionFailed unless its conditions hold."""
    try:
        info = engines.find_readable(services, call, source.bucket, source.key, source.version_id)
    except storage_errors.IsDeleteMarker:
        raise errors.InvalidRequest(
            "The source of a copy request may not specifically refer to a delete marker by version "
            "id."
        ) from None
    conditions.check_copy_source(
        source.conditions,
        etag=info.etag,
        modified_at_ms=info.modified_at_ms,
        now_ms=services.authoriser.now_ms(),
    )
    return info


def check_copied_size(size_bytes: int) -> None:
    """Raise InvalidRequest for a copy of more bytes than one object or part is uploaded with."""
    if size_bytes > COPY_SOURCE_BYTES_MAX:
        raise errors.InvalidRequest(
            "The specified copy source is larger than the maximum allowable size for a copy "
            f"source: {COPY_SOURCE_BYTES_MAX}"
        )


def source_version(call: calls.Call, source: model.ObjectInfo) -> asgi.ResponseHeaders:
    """Return the header with the version id of the source of a copy."""
    shown = engines.version_shown(call, source)
    return tuple(("x-amz-copy-source-version-id", value) for _, value in shown)


def _read(
    services: engines.S3Services,
    info: model.ObjectInfo,
    read: fields.Read,
    call: calls.Call,
    shown: asgi.ResponseHeaders,
) -> tuple[int, asgi.ResponseHeaders, model.ByteRange | None, bytes]:
    """Return the status, the headers without the length, the range of bytes to send, and encoded
    headers that come before the others.

    shown: the headers that depend on the bucket.
    """
    if read.overrides and call.principal.type == "anonymous":
        raise errors.InvalidRequest(
            "Request specific response headers cannot be used for anonymous GET requests."
        )
    unmodified = conditions.unmodified_by(
        read.conditions,
        etag=info.etag,
        modified_at_ms=info.modified_at_ms,
        now_ms=services.authoriser.now_ms(),
    )
    if unmodified is not None:
        return 304, wire.unmodified_headers(info, overrides=read.overrides), None, b""
    byte_range = None
    if read.byte_range is not None:
        if read.if_range is None or read.if_range == info.etag:
            byte_range = byteranges.parse(read.byte_range, info.size_bytes)
    elif read.part_number is not None:
        byte_range = _part_range(info, read.part_number)
    # Also a range of all bytes has the object's checksum, by which SDKs check the body.
    is_whole = byte_range is None or (
        read.part_number is None and (byte_range.start, byte_range.stop) == (0, info.size_bytes)
    )
    with_checksums = read.with_checksums and is_whole
    prepared = b""
    if read.overrides:
        headers = wire.object_headers(info, overrides=read.overrides, with_checksums=with_checksums)
    else:
        headers = []
        prepared = services.lines.of(info, with_checksums=with_checksums)
    headers.extend(shown)
    if read.part_number is not None:
        if read.with_checksums and byte_range is not None:
            headers.extend(wire.part_checksum_headers(info, read.part_number))
        if info.attributes.part_sizes_bytes:
            headers.append(("x-amz-mp-parts-count", str(len(info.attributes.part_sizes_bytes))))
    if byte_range is None:
        return 200, tuple(headers), None, prepared
    span = f"bytes {byte_range.start}-{byte_range.stop - 1}/{info.size_bytes}"
    headers.append(("content-range", span))
    return 206, tuple(headers), byte_range, prepared


def _part_range(info: model.ObjectInfo, part_number: int) -> model.ByteRange | None:
    """Return the byte range of a part; None for an empty object.

    Raises RangeNotSatisfiable for an empty part of an object that is not.
    """
    sizes = info.attributes.part_sizes_bytes or (info.size_bytes,)
    if part_number > len(sizes):
        raise errors.InvalidPartNumber(
            "The requested partnumber is not satisfiable",
            PartNumberRequested=str(part_number),
            ActualPartCount=str(len(sizes)),
        )
    start = sum(sizes[: part_number - 1])
    size_bytes = sizes[part_number - 1]
    if size_bytes:
        return model.ByteRange(start=start, stop=start + size_bytes)
    if info.size_bytes:
        raise storage_errors.RangeNotSatisfiable(
            f"part {part_number} is empty",
            requested=f"partNumber={part_number}",
            size_bytes=info.size_bytes,
        )
    return None


async def _attributes_of_copy(
    services: engines.S3Services,
    operation: operations.CopyObject,
    source: model.ObjectInfo,
    call: calls.Call,
) -> model.ObjectAttributes:
    before, written = source.attributes, operation.written
    stated, checksum_type = before.checksums, before.checksum_type
    part_checksums = before.part_checksums
    wanted = operation.checksum_algorithm
    if wanted is not None and (wanted not in stated or checksum_type == "COMPOSITE"):
        with services.blobs.hold(source.body):
            digests = await services.blobs.digest(source.body, None, (wanted,))
        checksums.check_stored(digests, source.crc64nvme, source.key)
        stated, checksum_type = {wanted: checksums.to_text(digests[wanted])}, "FULL_OBJECT"
        part_checksums = b""
    replaced = operation.metadata_directive == "REPLACE"
    headers = written.headers if replaced else locks.without(before.headers)
    return model.ObjectAttributes(
        headers={**headers, **written.lock},
        user_metadata=written.user_metadata if replaced else before.user_metadata,
        checksums=stated,
        checksum_type=checksum_type,
        tags=written.tags if operation.tagging_directive == "REPLACE" else before.tags,
        storage_class=written.storage_class,
        owner=call.principal.account_id,
        etag=source.etag,
        part_sizes_bytes=before.part_sizes_bytes,
        part_checksums=part_checksums,
    )


async def _set_tags(
    services: engines.S3Services,
    operation: operations.PutObjectTagging | operations.DeleteObjectTagging,
    tags: Mapping[str, str],
    call: calls.Call,
) -> model.ObjectInfo:
    bucket, key, version_id = operation.bucket, operation.key, operation.version_id
    with engines.refusing_marker():
        engines.find(services, call, bucket, key, version_id)

    async def change(ruling: guard.Ruling) -> model.ObjectInfo:
        return await services.objects.set_tags(
            engines.bucket_of(ruling, bucket),
            key,
            tags,
            version_id=version_id,
            expects=ruling.expects,
        )

    async def judge() -> None:
        engines.authorise(services, call)

    with engines.refusing_marker():
        return await engines.settle(call, bucket, key, change, judge=judge)
