"""rule: every S3 request becomes one value of a closed type, or one typed refusal.

`identify` reads method, raw path, bucket of the host, query and headers once; past it nobody
touches a header or a query string. Every S3 operation has a name here: what Boathouse does not do
becomes `Unsupported(name)`. Reads no body and looks nothing up.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from server.s3 import errors, fields, preconditions, subresources
from storage import model


@dataclass(frozen=True, kw_only=True, slots=True)
class ListBuckets:
    prefix: str = ""
    max_buckets: int | None = None
    continuation_token: str | None = None
    bucket_region: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateBucket:
    bucket: str
    integrity: fields.Integrity = fields.NO_INTEGRITY


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadBucket:
    bucket: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteBucket:
    bucket: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GetBucketLocation:
    bucket: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GetBucketVersioning:
    bucket: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GetBucketConfiguration:
    """A configuration that no bucket can have yet; name is the S3 operation's."""

    bucket: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Preflight:
    """A browser's OPTIONS request before a cross-origin one."""

    bucket: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ListObjects:
    bucket: str
    prefix: str = ""
    delimiter: str = ""
    marker: str = ""
    max_keys: int = fields.KEYS_MAX
    encode_keys: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ListObjectsV2:
    """List objects. start_after None means the parameter was not sent."""

    bucket: str
    prefix: str = ""
    delimiter: str = ""
    start_after: str | None = None
    continuation_token: str | None = None
    max_keys: int = fields.KEYS_MAX
    encode_keys: bool = False
    fetch_owner: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteObjects:
    bucket: str
    integrity: fields.Integrity = fields.NO_INTEGRITY


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObject:
    bucket: str
    key: str
    read: fields.Read = fields.PLAIN_READ


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadObject:
    bucket: str
    key: str
    read: fields.Read = fields.PLAIN_READ


@dataclass(frozen=True, kw_only=True, slots=True)
class PutObject:
    """Write an object. size_bytes is the decoded length, None when the client tells none."""

    bucket: str
    key: str
    size_bytes: int | None
    written: fields.Written
    integrity: fields.Integrity = fields.NO_INTEGRITY
    conditions: model.Precondition = model.ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyObject:
    """Copy an object. checksum_algorithm: what the copy's checksum is to be computed by."""

    bucket: str
    key: str
    source: fields.Source
    written: fields.Written
    metadata_directive: fields.Directive = "COPY"
    tagging_directive: fields.Directive = "COPY"
    storage_class_given: bool = False
    checksum_algorithm: str | None = None
    conditions: model.Precondition = model.ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteObject:
    bucket: str
    key: str
    version_id: str | None = None
    conditions: model.Precondition = model.ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObjectTagging:
    bucket: str
    key: str
    version_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PutObjectTagging:
    bucket: str
    key: str
    version_id: str | None = None
    integrity: fields.Integrity = fields.NO_INTEGRITY


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteObjectTagging:
    bucket: str
    key: str
    version_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateMultipartUpload:
    """Begin an upload in parts. checksum_type is None exactly when checksum_algorithm is."""

    bucket: str
    key: str
    written: fields.Written
    checksum_algorithm: str | None = None
    checksum_type: model.ChecksumType | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadPart:
    bucket: str
    key: str
    upload_id: str
    part_number: int
    size_bytes: int | None
    integrity: fields.Integrity = fields.NO_INTEGRITY


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadPartCopy:
    """Take a part from an object. byte_range: first and last offset, both inclusive."""

    bucket: str
    key: str
    upload_id: str
    part_number: int
    source: fields.Source
    byte_range: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteMultipartUpload:
    """Finish an upload. checksum: what the client expects of the whole object, `-N` included."""

    bucket: str
    key: str
    upload_id: str
    conditions: model.Precondition = model.ALWAYS
    checksum: tuple[str, str] | None = None
    checksum_type: model.ChecksumType | None = None
    object_size_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AbortMultipartUpload:
    bucket: str
    key: str
    upload_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ListParts:
    bucket: str
    key: str
    upload_id: str
    after_part_number: int = 0
    max_parts: int = fields.KEYS_MAX
    encode_keys: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ListMultipartUploads:
    bucket: str
    prefix: str = ""
    delimiter: str = ""
    key_marker: str = ""
    upload_id_marker: str = ""
    max_uploads: int = fields.KEYS_MAX
    encode_keys: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsupported:
    """An S3 operation that Boathouse does not do. key is "" below no object."""

    name: str
    bucket: str = ""
    key: str = ""


Operation: TypeAlias = (
    ListBuckets
    | CreateBucket
    | HeadBucket
    | DeleteBucket
    | GetBucketLocation
    | GetBucketVersioning
    | GetBucketConfiguration
    | Preflight
    | ListObjects
    | ListObjectsV2
    | DeleteObjects
    | GetObject
    | HeadObject
    | PutObject
    | CopyObject
    | DeleteObject
    | GetObjectTagging
    | PutObjectTagging
    | DeleteObjectTagging
    | CreateMultipartUpload
    | UploadPart
    | UploadPartCopy
    | CompleteMultipartUpload
    | AbortMultipartUpload
    | ListParts
    | ListMultipartUploads
    | Unsupported
)


Pairs: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Expecting:
    """An operation whose client says which accounts its buckets must belong to."""

    operation: Operation
    owner: str | None
    source_owner: str | None


def identify(
    *,
    method: str,
    raw_path: bytes,
    host_bucket: str | None,
    pairs: Pairs,
    headers: preconditions.HeaderView,
) -> Operation:
    """Return the operation that a request means.

    raw_path: percent-encoded, without the query. host_bucket: the bucket that the Host names, or
    None for path style. pairs: the query, decoded, in order. Raises errors of `server.s3.errors`.
    """
    bucket, key = locate(raw_path, host_bucket)
    if key:
        return _identify_object(method, bucket, key, pairs, headers)
    if bucket:
        return _identify_bucket(method, bucket, pairs, headers)
    if method in ("GET", "HEAD"):
        return _list_buckets(dict(pairs))
    raise _method_not_allowed(method, "SERVICE")


def locate(raw_path: bytes, host_bucket: str | None) -> tuple[str, str]:
    """Return bucket and key, decoded once; either may be empty.

    A key that is not UTF-8 keeps its bad bytes as surrogates, so that a layout rule may name them;
    `is_text` tells.
    """
    path = raw_path[1:] if raw_path[:1] == b"/" else raw_path
    if host_bucket is not None:
        return host_bucket, _unquote(path)
    bucket, slash, rest = path.partition(b"/")
    if slash and not bucket:
        raise errors.InvalidUri("Couldn't parse the specified URI.", URI=_shown(raw_path))
    return _unquote(bucket), _unquote(rest)


def is_text(key: str) -> bool:
    """Say whether the key came from valid UTF-8."""
    if key.isascii():
        return True
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _identify_object(
    method: str, bucket: str, key: str, pairs: Pairs, headers: preconditions.HeaderView
) -> Operation:
    if not pairs:
        if method == "GET":
            return GetObject(bucket=bucket, key=key, read=fields.parse_read(headers))
        if method == "PUT" and headers.get("x-amz-copy-source") is None:
            return _put_object(bucket, key, headers)
    query = dict(pairs)
    for name in query:
        names = subresources.OBJECT_SUBRESOURCES.get(name)
        if names is not None and method != "HEAD":
            operation = names.get(method)
            if operation is None:
                raise _method_not_allowed(method, name.upper())
            return _object_subresource(operation, bucket, key, query, headers)
    match method:
        case "GET" if "uploadId" in query:
            return _list_parts(bucket, key, query)
        case "GET":
            return GetObject(bucket=bucket, key=key, read=fields.parse_read(headers, query))
        case "HEAD":
            return HeadObject(bucket=bucket, key=key, read=fields.parse_read(headers, query))
        case "PUT" if "uploadId" in query or "partNumber" in query:
            return _upload_part(bucket, key, query, headers)
        case "PUT" if headers.get("x-amz-copy-source") is not None:
            return _copy_object(bucket, key, headers)
        case "PUT":
            return _put_object(bucket, key, headers)
        case "POST" if "uploadId" in query:
            return _complete_upload(bucket, key, query, headers)
        case "DELETE" if "uploadId" in query:
            return AbortMultipartUpload(bucket=bucket, key=key, upload_id=query["uploadId"])
        case "DELETE":
            fields.check_headers_done(headers)
            return DeleteObject(
                bucket=bucket,
                key=key,
                version_id=fields.parse_version_id(query),
                conditions=preconditions.parse_write(headers),
            )
        case "OPTIONS":
            return Preflight(bucket=bucket)
        case _:
            raise _method_not_allowed(method, "OBJECT")


def _object_subresource(
    name: str, bucket: str, key: str, query: Mapping[str, str], headers: preconditions.HeaderView
) -> Operation:
    version_id = fields.parse_version_id(query)
    match name:
        case "GetObjectTagging":
            return GetObjectTagging(bucket=bucket, key=key, version_id=version_id)
        case "PutObjectTagging":
            return PutObjectTagging(
                bucket=bucket,
                key=key,
                version_id=version_id,
                integrity=fields.parse_integrity(headers),
            )
        case "DeleteObjectTagging":
            return DeleteObjectTagging(bucket=bucket, key=key, version_id=version_id)
        case "CreateMultipartUpload":
            return _create_upload(bucket, key, headers)
        case "GetObjectAnnotation" if "annotationName" not in query:
            return Unsupported(name="ListObjectAnnotations", bucket=bucket, key=key)
        case _:
            return Unsupported(name=name, bucket=bucket, key=key)


def _identify_bucket(
    method: str, bucket: str, pairs: Pairs, headers: preconditions.HeaderView
) -> Operation:
    query = dict(pairs)
    if method == "HEAD":
        return HeadBucket(bucket=bucket)
    for name in query:
        names = subresources.BUCKET_SUBRESOURCES.get(name)
        if names is not None:
            operation = names.get(method)
            if operation is None:
                raise _method_not_allowed(method, name.upper())
            return _bucket_subresource(operation, bucket, query, headers)
    match method:
        case "GET" if query.get("list-type") == "2":
            return _list_objects_v2(bucket, query)
        case "GET" if query.get("list-type") not in (None, "1"):
            raise errors.InvalidArgument(
                "Invalid List Type specified in Request",
                ArgumentName="list-type",
                ArgumentValue=query["list-type"],
            )
        case "GET":
            return _list_objects(bucket, query)
        case "PUT":
            fields.check_headers_done(headers)
            return CreateBucket(bucket=bucket, integrity=fields.parse_integrity(headers))
        case "DELETE":
            return DeleteBucket(bucket=bucket)
        case "POST" if bucket == "WriteGetObjectResponse":
            return Unsupported(name="WriteGetObjectResponse")
        case "POST":
            return Unsupported(name="PostObject", bucket=bucket)
        case "OPTIONS":
            return Preflight(bucket=bucket)
        case _:
            raise _method_not_allowed(method, "BUCKET")


def _bucket_subresource(
    name: str, bucket: str, query: Mapping[str, str], headers: preconditions.HeaderView
) -> Operation:
    match name:
        case "DeleteObjects":
            return DeleteObjects(bucket=bucket, integrity=fields.parse_integrity(headers))
        case "GetBucketLocation":
            return GetBucketLocation(bucket=bucket)
        case "GetBucketVersioning":
            return GetBucketVersioning(bucket=bucket)
        case "ListMultipartUploads":
            return _list_uploads(bucket, query)
        case _ if name in subresources.ABSENT_CONFIGURATIONS:
            return GetBucketConfiguration(bucket=bucket, name=name)
        case _ if name in subresources.LISTED_WITHOUT_ID and "id" not in query:
            return Unsupported(name=subresources.LISTED_WITHOUT_ID[name], bucket=bucket)
        case _:
            return Unsupported(name=name, bucket=bucket)


def _put_object(bucket: str, key: str, headers: preconditions.HeaderView) -> PutObject:
    written, _ = fields.parse_written(headers)
    return PutObject(
        bucket=bucket,
        key=key,
        size_bytes=fields.parse_size(headers),
        written=written,
        integrity=fields.parse_integrity(headers),
        conditions=preconditions.parse_write(headers),
    )


def _copy_object(bucket: str, key: str, headers: preconditions.HeaderView) -> CopyObject:
    written, storage_class_given = fields.parse_written(headers)
    return CopyObject(
        bucket=bucket,
        key=key,
        source=fields.parse_source(headers),
        written=written,
        metadata_directive=fields.parse_directive(headers, "metadata"),
        tagging_directive=fields.parse_directive(headers, "tagging"),
        storage_class_given=storage_class_given,
        checksum_algorithm=fields.parse_algorithm(headers, "x-amz-checksum-algorithm"),
        conditions=preconditions.parse_write(headers),
    )


def _create_upload(
    bucket: str, key: str, headers: preconditions.HeaderView
) -> CreateMultipartUpload:
    written, _ = fields.parse_written(headers)
    algorithm = fields.parse_algorithm(headers, "x-amz-checksum-algorithm")
    kind = fields.parse_checksum_type(headers)
    if algorithm is None:
        if kind is not None:
            raise errors.InvalidRequest(
                "The x-amz-checksum-type header can only be used with the "
                "x-amz-checksum-algorithm header."
            )
        return CreateMultipartUpload(bucket=bucket, key=key, written=written)
    if kind is None:
        kind = "FULL_OBJECT" if algorithm == "crc64nvme" else "COMPOSITE"
    elif (
        (kind == "FULL_OBJECT")
        if algorithm.startswith("sha")
        else (kind == "COMPOSITE" and algorithm == "crc64nvme")
    ):
        raise errors.InvalidRequest(
            f"The {kind} checksum type cannot be used with the {algorithm} checksum algorithm."
        )
    return CreateMultipartUpload(
        bucket=bucket,
        key=key,
        written=written,
        checksum_algorithm=algorithm,
        checksum_type=kind,
    )


def _upload_part(
    bucket: str, key: str, query: Mapping[str, str], headers: preconditions.HeaderView
) -> UploadPart | UploadPartCopy:
    upload_id = query.get("uploadId")
    if upload_id is None or "partNumber" not in query:
        missing = "uploadId" if upload_id is None else "partNumber"
        raise errors.InvalidArgument(
            "This operation does not accept a query-string.", ArgumentName=missing
        )
    fields.check_headers_done(headers)
    part_number = fields.parse_part_number(query["partNumber"])
    if headers.get("x-amz-copy-source") is None:
        return UploadPart(
            bucket=bucket,
            key=key,
            upload_id=upload_id,
            part_number=part_number,
            size_bytes=fields.parse_size(headers),
            integrity=fields.parse_integrity(headers),
        )
    return UploadPartCopy(
        bucket=bucket,
        key=key,
        upload_id=upload_id,
        part_number=part_number,
        source=fields.parse_source(headers),
        byte_range=fields.parse_copy_range(headers.get("x-amz-copy-source-range")),
    )


def _complete_upload(
    bucket: str, key: str, query: Mapping[str, str], headers: preconditions.HeaderView
) -> CompleteMultipartUpload:
    fields.check_headers_done(headers)
    size = headers.get("x-amz-mp-object-size")
    if size is not None and not (size.isascii() and size.isdigit() and len(size) <= 19):
        raise errors.InvalidRequest("Value for x-amz-mp-object-size header is invalid.")
    return CompleteMultipartUpload(
        bucket=bucket,
        key=key,
        upload_id=query["uploadId"],
        conditions=preconditions.parse_write(headers),
        checksum=fields.parse_whole_checksum(headers),
        checksum_type=fields.parse_checksum_type(headers),
        object_size_bytes=None if size is None else int(size),
    )


def _list_buckets(query: Mapping[str, str]) -> ListBuckets:
    limit = query.get("max-buckets")
    if limit is not None and not (
        limit.isascii()
        and limit.isdigit()
        and len(limit) <= 19
        and 1 <= int(limit) <= fields.PARTS_MAX
    ):
        raise errors.InvalidArgument(
            "Argument max-buckets must be an integer between 1 and 10000",
            ArgumentName="max-buckets",
            ArgumentValue=limit,
        )
    return ListBuckets(
        prefix=query.get("prefix", ""),
        max_buckets=None if limit is None else int(limit),
        continuation_token=query.get("continuation-token"),
        bucket_region=query.get("bucket-region"),
    )


def _list_objects(bucket: str, query: Mapping[str, str]) -> ListObjects:
    return ListObjects(
        bucket=bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        marker=query.get("marker", ""),
        max_keys=fields.parse_page_size(query, "max-keys"),
        encode_keys=fields.parse_encoding(query),
    )


def _list_objects_v2(bucket: str, query: Mapping[str, str]) -> ListObjectsV2:
    token = query.get("continuation-token")
    if token == "":
        raise fields.bad_token(token)
    return ListObjectsV2(
        bucket=bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        start_after=query.get("start-after"),
        continuation_token=token,
        max_keys=fields.parse_page_size(query, "max-keys"),
        encode_keys=fields.parse_encoding(query),
        fetch_owner=query.get("fetch-owner", "").lower() == "true",
    )


def _list_uploads(bucket: str, query: Mapping[str, str]) -> ListMultipartUploads:
    return ListMultipartUploads(
        bucket=bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        key_marker=query.get("key-marker", ""),
        upload_id_marker=query.get("upload-id-marker", ""),
        max_uploads=fields.parse_page_size(query, "max-uploads"),
        encode_keys=fields.parse_encoding(query),
    )


def _list_parts(bucket: str, key: str, query: Mapping[str, str]) -> ListParts:
    return ListParts(
        bucket=bucket,
        key=key,
        upload_id=query["uploadId"],
        after_part_number=fields.parse_count(query, "part-number-marker", 0),
        max_parts=fields.parse_page_size(query, "max-parts"),
        encode_keys=fields.parse_encoding(query),
    )


def _method_not_allowed(method: str, resource: str) -> errors.MethodNotAllowed:
    return errors.MethodNotAllowed(
        "The specified method is not allowed against this resource.",
        Method=method,
        ResourceType=resource,
    )


def _unquote(raw: bytes) -> str:
    if b"%" in raw:
        raw = urllib.parse.unquote_to_bytes(raw)
    return raw.decode("utf-8", "surrogateescape")


def _shown(raw: bytes) -> str:
    return raw.decode("latin-1")
