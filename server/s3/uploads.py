"""face: multipart uploads: create, put and copy parts, list, complete, abort.

CompleteMultipartUpload copies no bytes, so it answers at once, with the status of any error. It
compares the checksum and the size that the client sent for the whole object with the named parts
before they become the object. The ETag of a part identifies its bytes.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Final

from server import asgi, calls
from server import errors as kit_errors
from server.s3 import (
    acls,
    bucketacls,
    documents,
    engines,
    errors,
    guard,
    incoming,
    objects,
    operations,
    visible,
    wire,
)
from storage import checksums, model
from storage import errors as storage_errors

PARTS_AT_ONCE_MAX: Final = 500
"""The number of parts whose records are read without a turn for other requests."""


async def create_upload(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.CreateMultipartUpload = call.value
    bucket, key = operation.bucket, operation.key
    acls.of_new(services, call, engines.ruling(call, bucket, key))
    engines.check_writable(call, bucket, key, None)
    written = operation.written

    async def create(ruling: guard.Ruling) -> model.UploadInfo:
        acl = acls.of_new(services, call, ruling)
        return await services.uploads.create(
            engines.bucket_of(ruling, bucket),
            key,
            attributes=model.ObjectAttributes(
                headers=written.stored,
                user_metadata=written.user_metadata,
                tags=written.tags,
                storage_class=written.storage_class,
                owner=call.principal.account_id,
                acl=acl,
            ),
            checksum_algorithm=operation.checksum_algorithm,
            checksum_type=operation.checksum_type or "FULL_OBJECT",
            expects=ruling.expects,
        )

    async def judge() -> None:
        engines.authorise(services, call)
        engines.check_writable(call, bucket, key, None)

    upload = await engines.settle(call, bucket, key, create, judge=judge)
    headers = (*wire.XML_HEADERS, *engines.abort_of(services, call, upload))
    headers = (*headers, *engines.encrypted_by(services))
    if upload.checksum_algorithm is not None:
        headers = (
            *headers,
            ("x-amz-checksum-algorithm", upload.checksum_algorithm.upper()),
            ("x-amz-checksum-type", upload.checksum_type),
        )
    body = wire.initiate_multipart_upload(
        bucket=upload.bucket, key=upload.key, upload_id=upload.upload_id
    )
    return asgi.Response(200, headers, body)


async def upload_part(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.UploadPart = call.value
    incoming.check_size(operation.size_bytes, call.request)
    upload = services.uploads.get(operation.bucket, operation.key, operation.upload_id)
    integrity, expected = operation.integrity, upload.checksum_algorithm
    sent_by = integrity.trailer if integrity.checksum is None else integrity.checksum[0]
    if expected is not None and sent_by is not None and sent_by != expected:
        raise errors.InvalidRequest(
            f"Checksum Type mismatch occurred, expected checksum Type: {expected}, "
            f"actual checksum Type: {sent_by}"
        )
    received, sent = await incoming.receive(
        services.blobs,
        call.request,
        call.caller,
        size_bytes=operation.size_bytes,
        integrity=integrity,
        also=expected,
    )
    if expected is not None and not sent:
        sent = {expected: checksums.to_text(received.digests[expected])}

    async def put(ruling: guard.Ruling) -> model.PartInfo:
        return await services.uploads.put_part(
            operation.bucket,
            operation.key,
            operation.upload_id,
            operation.part_number,
            received,
            checksums_text=sent,
            expects=ruling.expects,
        )

    async def judge() -> None:
        try:
            engines.authorise(services, call)
        except BaseException:
            await services.blobs.discard(received)
            raise

    try:
        part = await engines.settle(call, operation.bucket, operation.key, put, judge=judge)
    except storage_errors.ExpectationFailed:
        await services.blobs.discard(received)
        raise
    return asgi.Response(
        200,
        (
            ("etag", f'"{part.etag}"'),
            *engines.encrypted_by(services),
            *((f"x-amz-checksum-{name}", value) for name, value in part.checksums.items()),
        ),
    )


async def upload_part_copy(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    await incoming.refuse_body(call.request, call.caller)
    return await engines.from_source(services, call, lambda: _upload_part_copy(services, call))


async def _upload_part_copy(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.UploadPartCopy = call.value
    services.uploads.get(operation.bucket, operation.key, operation.upload_id)
    source = objects.find_source(services, operation.source, call)
    byte_range = _copied_range(operation, source)
    objects.check_copied_size(
        source.size_bytes if byte_range is None else byte_range.stop - byte_range.start
    )

    async def copy(ruling: guard.Ruling) -> model.PartInfo:
        return await services.uploads.copy_part(
            operation.bucket,
            operation.key,
            operation.upload_id,
            operation.part_number,
            source,
            byte_range,
            expects=ruling.expects,
        )

    async def judge() -> None:
        engines.authorise(services, call)

    part = await engines.settle(call, operation.bucket, operation.key, copy, judge=judge)
    body = wire.copy_result(
        "CopyPartResult",
        etag=part.etag,
        modified_at_ms=part.modified_at_ms,
        elements=wire.checksum_elements(part.checksums),
    )
    versions = objects.source_version(call, source)
    headers = (*wire.XML_HEADERS, *versions, *engines.encrypted_by(services))
    return asgi.Response(200, headers, body)


async def complete_upload(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.CompleteMultipartUpload = call.value
    bucket, key, upload_id = operation.bucket, operation.key, operation.upload_id
    data = await incoming.read_document(call.request, call.caller)
    engines.check_allowed(services, call)
    try:
        named = await incoming.parsed(documents.parse_complete, data)
    except (errors.S3Error, kit_errors.MalformedXML):
        services.uploads.get(bucket, key, upload_id)  # its absence counts before the document
        raise

    async def check() -> None:
        engines.check_writable(call, bucket, key, None)
        if len(named) <= PARTS_AT_ONCE_MAX:
            _check_whole(services, call, named)
        else:
            await asyncio.to_thread(_check_whole, services, call, named)
        try:
            services.uploads.get(bucket, key, upload_id)
        except storage_errors.NoSuchUpload:
            pass  # storage answers a repeated completion as the first one
        else:
            engines.check_precondition(services, call, bucket, key, operation.conditions)
        await _check_content(services, call, named)

    async def judge() -> None:
        engines.authorise(services, call)
        await check()

    def requested_acl() -> model.AccessControlList | None:
        try:
            return services.uploads.get(bucket, key, upload_id).attributes.acl
        except storage_errors.NoSuchUpload:
            return None  # the object exists with its list

    async def check_repeat(info: model.ObjectInfo) -> None:
        if len(named) <= PARTS_AT_ONCE_MAX:
            _check_repeat(operation, named, info)
        else:
            await asyncio.to_thread(_check_repeat, operation, named, info)

    async def complete(ruling: guard.Ruling) -> model.ObjectInfo:
        bucket_info = engines.bucket_of(ruling, bucket)
        return await services.uploads.complete(
            bucket,
            key,
            upload_id,
            [(part.part_number, part.etag) for part in named],
            precondition=engines.guarded(operation.conditions, ruling),
            part_checksums={part.part_number: part.checksums for part in named if part.checksums},
            keeps_acl=acls.is_kept(bucket_info, requested_acl()),
            on_repeat=check_repeat,
            expects=ruling.expects,
        )

    try:
        await check()
        info = await engines.settle(call, bucket, key, complete, judge=judge)
    except (storage_errors.InvalidPart, storage_errors.PartOutOfOrder) as refused:
        raise type(refused)(str(refused), **refused.fields, upload_id=upload_id) from None
    location = f"{call.request.origin}/{bucket}/{urllib.parse.quote(key)}"
    body = wire.complete_multipart_upload(info, location=location)
    further = engines.headers_of_write(services, call, info)
    headers = (*wire.XML_HEADERS, *wire.written_version(info), *further)
    return asgi.Response(200, headers, body)


async def abort_upload(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.AbortMultipartUpload = call.value
    await services.uploads.abort(operation.bucket, operation.key, operation.upload_id)
    return asgi.Response(204)


async def list_parts(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.ListParts = call.value
    upload = services.uploads.get(operation.bucket, operation.key, operation.upload_id)
    page = services.uploads.list_parts(
        operation.bucket,
        operation.key,
        operation.upload_id,
        after=operation.after_part_number,
        parts_max=operation.max_parts,
    )
    initiator, owner = _owners_of(services, services.buckets.get(operation.bucket), upload)
    body = wire.list_parts(
        page,
        upload=upload,
        initiator=initiator,
        owner=owner,
        after_part_number=operation.after_part_number,
        max_parts=operation.max_parts,
        encode=operation.encode_keys,
    )
    headers = (*wire.XML_HEADERS, *engines.abort_of(services, call, upload))
    return asgi.Response(200, headers, body)


async def list_uploads(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    operation: operations.ListMultipartUploads = call.value
    bucket = services.buckets.get(operation.bucket)

    visibility = visible.across_tables(services, call, operation.bucket, operation.prefix)
    if visibility is None:
        page = services.uploads.list(
            operation.bucket,
            prefix=operation.prefix,
            delimiter=operation.delimiter,
            key_marker=operation.key_marker,
            upload_id_marker=operation.upload_id_marker,
            uploads_max=operation.max_uploads,
        )
    else:
        page = await visibility.page_of_uploads(operation)
    body = wire.list_multipart_uploads(
        page,
        bucket=bucket.name,
        owners=lambda upload: _owners_of(services, bucket, upload),
        prefix=operation.prefix,
        delimiter=operation.delimiter,
        key_marker=operation.key_marker,
        upload_id_marker=operation.upload_id_marker,
        max_uploads=operation.max_uploads,
        encode=operation.encode_keys,
    )
    return asgi.Response(200, wire.XML_HEADERS, body)


def _owners_of(
    services: engines.S3Services, bucket: model.BucketInfo, upload: model.UploadInfo
) -> tuple[wire.Owner, wire.Owner]:
    """Return the initiator of an upload, and the owner of the object that it is to become."""
    initiator = engines.owner_of(services, upload.attributes.owner)
    acl = upload.attributes.acl
    if acl is None or not bucketacls.takes_acls(bucket.settings):
        return initiator, engines.owner_of(services, bucket.owner)
    return initiator, engines.named_owner(services, acl.owner)


def _copied_range(
    operation: operations.UploadPartCopy, source: model.ObjectInfo
) -> model.ByteRange | None:
    if operation.byte_range is None:
        return None
    first, last = operation.byte_range
    if last >= source.size_bytes:
        raise storage_errors.RangeNotSatisfiable(
            f"Range specified is not valid for source object of size: {source.size_bytes}",
            requested=f"bytes={first}-{last}",
            size_bytes=source.size_bytes,
        )
    return model.ByteRange(start=first, stop=last + 1)


def _check_whole(
    services: engines.S3Services, call: calls.Call, named: Sequence[documents.NamedPart]
) -> None:
    """Raise if the named parts contradict the checksum or size of the request, or the layout.

    Storage reports missing parts and finished uploads.
    """
    operation: operations.CompleteMultipartUpload = call.value
    wanted = operation.checksum
    if (
        wanted is None
        and operation.checksum_type is None
        and operation.object_size_bytes is None
        and not operation.key.endswith("/")
    ):
        return
    try:
        upload = services.uploads.get(operation.bucket, operation.key, operation.upload_id)
        stored = _all_parts(services, operation)
    except storage_errors.NoSuchUpload:
        return
    parts = [stored[part.part_number] for part in named if part.part_number in stored]
    if len(parts) != len(named):
        return
    size_bytes = sum(part.size_bytes for part in parts)
    engines.ruling(call, operation.bucket, operation.key).check_body(size_bytes)
    _check_size_and_type(operation, size_bytes, upload.checksum_type)
    if wanted is not None:
        _check_checksum(wanted, _whole_checksum(wanted[0], upload, parts))


def _check_repeat(
    operation: operations.CompleteMultipartUpload,
    named: Sequence[documents.NamedPart],
    info: model.ObjectInfo,
) -> None:
    """Raise if a repeated completion contradicts the object that the first one made.

    What the object does not have, such as a checksum of another algorithm, contradicts nothing.
    """
    attributes, wanted = info.attributes, operation.checksum
    _check_size_and_type(operation, info.size_bytes, attributes.checksum_type)
    if wanted is not None:
        crc64nvme = {checksums.CRC64NVME: checksums.to_text(info.crc64nvme.to_bytes(8, "big"))}
        stored = {**crc64nvme, **attributes.checksums}.get(wanted[0])
        if stored is not None:
            _check_checksum(wanted, stored)
    for position, part in enumerate(named, 1):
        for algorithm, text in wire.part_checksum(attributes, position).items():
            if part.checksums.get(algorithm, text) != text:
                raise storage_errors.InvalidPart(
                    f"part {part.part_number} has a different {algorithm} checksum",
                    part_number=part.part_number,
                    etag=part.etag,
                )


def _check_size_and_type(
    operation: operations.CompleteMultipartUpload,
    size_bytes: int,
    checksum_type: model.ChecksumType,
) -> None:
    """Raise InvalidRequest if a completion names another size or type of checksums."""
    if operation.object_size_bytes not in (None, size_bytes):
        raise errors.InvalidRequest(
            "The provided 'x-amz-mp-object-size' header value "
            f"{operation.object_size_bytes} does not match what was computed: {size_bytes}"
        )
    if operation.checksum_type not in (None, checksum_type):
        raise errors.InvalidRequest(
            f"The upload was created using the {checksum_type} checksum mode. "
            "The complete request must use the same checksum mode."
        )


def _check_checksum(wanted: tuple[str, str], computed: str | None) -> None:
    """Raise BadDigest unless the checksum of a completion is the computed one.

    minio-go names a COMPOSITE one without the number of parts at its end.
    """
    algorithm, text = wanted
    if computed is None or text not in (computed, computed.partition("-")[0]):
        raise errors.BadDigest(
            f"The {algorithm.upper()} you specified did not match the calculated checksum."
        )


async def _check_content(
    services: engines.S3Services, call: calls.Call, named: Sequence[documents.NamedPart]
) -> None:
    """Raise LayoutRefused unless the body of the named parts may be stored at the key."""
    operation: operations.CompleteMultipartUpload = call.value
    bucket, key = operation.bucket, operation.key
    ruling = engines.ruling(call, bucket, key)
    if ruling.content_check is None:
        return
    parts = [(part.part_number, part.etag) for part in named]
    try:
        body = services.uploads.joined(bucket, key, operation.upload_id, parts)
    except storage_errors.NoSuchUpload:
        # The upload is finished: storage detects a repeated request.
        return
    size_bytes = sum(segment.length for segment in body.segments)
    await engines.check_content(services, ruling, body, size_bytes)


def _all_parts(
    services: engines.S3Services, operation: operations.CompleteMultipartUpload
) -> Mapping[int, model.PartInfo]:
    part_by_number: dict[int, model.PartInfo] = {}
    after: int | None = 0
    while after is not None:
        page = services.uploads.list_parts(
            operation.bucket, operation.key, operation.upload_id, after=after
        )
        part_by_number.update((part.part_number, part) for part in page.parts)
        after = page.next_after
    return part_by_number


def _whole_checksum(
    algorithm: str, upload: model.UploadInfo, parts: Sequence[model.PartInfo]
) -> str | None:
    """Return the checksum of the object made of the parts; None if it cannot be computed."""
    if algorithm == checksums.CRC64NVME and upload.checksum_algorithm in (None, algorithm):
        pieces = [(part.crc64nvme, part.size_bytes) for part in parts]
        return checksums.to_text(checksums.combine(algorithm, pieces).to_bytes(8, "big"))
    texts = [
        (part.checksums[algorithm], part.size_bytes)
        for part in parts
        if algorithm in part.checksums
    ]
    if len(texts) != len(parts):
        return None
    if upload.checksum_algorithm == algorithm and upload.checksum_type == "COMPOSITE":
        return checksums.composite_text(algorithm, [text for text, _ in texts])
    if algorithm in checksums.CRC_BYTES:
        return checksums.combine_text(algorithm, texts)
    return None
