"""rule: the value of each S3 operation, and the parser that makes it from a request.

A parser reads query and headers once; after it, no code reads a header or a query string. All
parsers have one signature, that of a row's column (`server.s3.routes`, which identifies the
operation of a request). Parsers read no body and no index.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from server.s3 import documents, errors, fields, forms, preconditions
from storage import checksums, lifecycle, model, names

Query: TypeAlias = Mapping[str, str]
"""The query's parameters, decoded; the last value of a repeated name."""
Headers: TypeAlias = preconditions.HeaderView

HEADERS_BESIDE_FORM: Final = frozenset({"x-amz-expected-bucket-owner", "x-amz-request-payer"})
"""S3 headers that a request with a form may have; the others are fields of the form."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The bucket and key of an operation without parameters. key is "" for a bucket."""

    bucket: str = ""
    key: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListBuckets:
    prefix: str = ""
    max_buckets: int | None = None
    continuation_token: str | None = None
    bucket_region: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateBucket:
    """Create a bucket. constraint, tags: of the document, which the handler reads."""

    bucket: str
    object_lock: bool = False
    integrity: fields.Integrity = fields.NO_INTEGRITY
    ownership: str | None = None
    acl: fields.WantedAcl | None = None
    constraint: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PutConfiguration:
    """Replace one configuration of a bucket; the body is the document.

    gives_up_access: the policy may deny its writer the right to replace it. transition_minimum: of
    lifecycle rules.
    """

    bucket: str
    integrity: fields.Integrity = fields.NO_INTEGRITY
    gives_up_access: bool = False
    transition_minimum: str = lifecycle.MINIMUM


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
class ListObjectVersions:
    """List versions. version_marker: "" starts after all versions of key_marker."""

    bucket: str
    prefix: str = ""
    delimiter: str = ""
    key_marker: str = ""
    version_marker: str = ""
    max_keys: int = fields.KEYS_MAX
    encode_keys: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PutBucketVersioning:
    bucket: str
    integrity: fields.Integrity = fields.NO_INTEGRITY


@dataclass(frozen=True, kw_only=True, slots=True)
class PutObjectLockConfiguration:
    bucket: str
    integrity: fields.Integrity = fields.NO_INTEGRITY


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObjectLock:
    """Read the retention or the legal hold of an object."""

    bucket: str
    key: str
    version_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PutObjectLock:
    """Change the retention or the legal hold of an object. bypass: of a GOVERNANCE retention.

    lock: what the body asks for, as headers of a write would say it; None until it is read.
    """

    bucket: str
    key: str
    version_id: str | None = None
    bypass: bool = False
    lock: Mapping[str, str] | None = None
    integrity: fields.Integrity = fields.NO_INTEGRITY


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteObjects:
    bucket: str
    bypass: bool = False
    integrity: fields.Integrity = fields.NO_INTEGRITY


class GetObject(msgspec.Struct, frozen=True, kw_only=True):
    bucket: str
    key: str
    read: fields.Read = fields.PLAIN_READ


class HeadObject(msgspec.Struct, frozen=True, kw_only=True):
    bucket: str
    key: str
    read: fields.Read = fields.PLAIN_READ


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObjectAttributes:
    """Return attributes of an object without its bytes. names: the attributes."""

    bucket: str
    key: str
    names: frozenset[str]
    version_id: str | None = None
    after_part_number: int = 0
    max_parts: int = fields.KEYS_MAX


class PutObject(msgspec.Struct, frozen=True, kw_only=True):
    """Write an object. size_bytes is the decoded length, None if the client sent none.

    form_encryption: the field x-amz-server-side-encryption of a form, which is no header.
    """

    bucket: str
    key: str
    size_bytes: int | None
    written: fields.Written
    integrity: fields.Integrity = fields.NO_INTEGRITY
    conditions: model.Precondition = model.ALWAYS
    form_encryption: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PostObject:
    """Write an object by a browser's form; the fields from the request's head.

    boundary: the separator of the fields. owner: the account that the bucket must belong to.
    """

    bucket: str
    boundary: str
    owner: str | None = None
    conditions: model.Precondition = model.ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyObject:
    """Copy an object. checksum_algorithm: the algorithm of the copy's checksum."""

    bucket: str
    key: str
    source: fields.CopySource
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
    bypass: bool = False
    conditions: model.Precondition = model.ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreObject:
    bucket: str
    key: str
    version_id: str | None = None
    integrity: fields.Integrity = fields.NO_INTEGRITY


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObjectTagging:
    bucket: str
    key: str
    version_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PutObjectTagging:
    """Replace the tags of an object. tags: of the document, which the handler reads."""

    bucket: str
    key: str
    version_id: str | None = None
    integrity: fields.Integrity = fields.NO_INTEGRITY
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteObjectTagging:
    bucket: str
    key: str
    version_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PutBucketAcl:
    """Replace a bucket's access control list. acl: None if it comes as a document."""

    bucket: str
    acl: fields.WantedAcl | None = None
    integrity: fields.Integrity = fields.NO_INTEGRITY


@dataclass(frozen=True, kw_only=True, slots=True)
class GetObjectAcl:
    bucket: str
    key: str
    version_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PutObjectAcl:
    """Replace an object's access control list. acl: None if it comes as a document."""

    bucket: str
    key: str
    version_id: str | None = None
    acl: fields.WantedAcl | None = None
    integrity: fields.Integrity = fields.NO_INTEGRITY


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
    """Copy a part from an object. byte_range: first and last offset, both inclusive."""

    bucket: str
    key: str
    upload_id: str
    part_number: int
    source: fields.CopySource
    byte_range: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteMultipartUpload:
    """Finish an upload. checksum: the client's checksum of the whole object, with its `-N`."""

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


def locate(raw_path: bytes, host_bucket: str | None) -> tuple[str, str]:
    """Return bucket and key, decoded once; either may be empty.

    A key that is not UTF-8 keeps its bad bytes as surrogates, so that a layout rule can name them;
    `is_text` detects them. Raises NoSuchBucket for a hidden bucket.
    """
    path = raw_path[1:] if raw_path[:1] == b"/" else raw_path
    if host_bucket is not None:
        return names.check_shown(host_bucket), _unquote(path)
    bucket, slash, rest = path.partition(b"/")
    if slash and not bucket:
        raise errors.InvalidUri("Couldn't parse the specified URI.", URI=_shown(raw_path))
    if b"%" in path:
        return names.check_shown(_unquote(bucket)), _unquote(rest)
    text = rest.decode("utf-8", "surrogateescape")
    return names.check_shown(bucket.decode("utf-8", "surrogateescape")), text


def is_text(key: str) -> bool:
    """Return whether the key came from valid UTF-8."""
    if key.isascii():
        return True
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_target(bucket: str, key: str, query: Query, headers: Headers) -> Target:
    """Return bucket and key, for operations without parameters and for unimplemented ones."""
    return Target(bucket=bucket, key=key)


def parse_nothing(bucket: str, key: str, query: Query, headers: Headers) -> Target:
    """Return an empty target, for an operation on no bucket; the path may name one all the same."""
    return Target()


def parse_object_target(bucket: str, key: str, query: Query, headers: Headers) -> Target:
    """Return bucket and key for a sub-resource of an object, after a check of its version id."""
    fields.parse_version_id(query)
    return Target(bucket=bucket, key=key)


def parse_get_object(bucket: str, key: str, query: Query, headers: Headers) -> GetObject:
    return GetObject(bucket=bucket, key=key, read=fields.parse_read(headers, query))


def get_with_key(value: GetObject, key: str) -> GetObject:
    """Return the GetObject of another key."""
    return GetObject(bucket=value.bucket, key=key, read=value.read)


def head_with_key(value: HeadObject, key: str) -> HeadObject:
    """Return the HeadObject of another key."""
    return HeadObject(bucket=value.bucket, key=key, read=value.read)


def parse_head_object(bucket: str, key: str, query: Query, headers: Headers) -> HeadObject:
    return HeadObject(bucket=bucket, key=key, read=fields.parse_read(headers, query))


def parse_get_attributes(
    bucket: str, key: str, query: Query, headers: Headers
) -> GetObjectAttributes:
    fields.check_headers_done(headers)
    max_parts = fields.parse_count(headers, "x-amz-max-parts", fields.KEYS_MAX)
    return GetObjectAttributes(
        bucket=bucket,
        key=key,
        names=fields.parse_attribute_names(headers),
        version_id=fields.parse_version_id(query),
        after_part_number=fields.parse_count(headers, "x-amz-part-number-marker", 0),
        max_parts=min(max_parts, fields.KEYS_MAX),
    )


def parse_delete_object(bucket: str, key: str, query: Query, headers: Headers) -> DeleteObject:
    fields.check_headers_done(headers, done=(fields.BYPASS_GOVERNANCE,))
    return DeleteObject(
        bucket=bucket,
        key=key,
        version_id=fields.parse_version_id(query),
        bypass=fields.parse_flag(headers, fields.BYPASS_GOVERNANCE),
        conditions=preconditions.parse_write(headers),
    )


def parse_get_tagging(bucket: str, key: str, query: Query, headers: Headers) -> GetObjectTagging:
    return GetObjectTagging(bucket=bucket, key=key, version_id=fields.parse_version_id(query))


def parse_put_tagging(bucket: str, key: str, query: Query, headers: Headers) -> PutObjectTagging:
    return PutObjectTagging(
        bucket=bucket,
        key=key,
        version_id=fields.parse_version_id(query),
        integrity=fields.parse_integrity(headers),
    )


def parse_delete_tagging(
    bucket: str, key: str, query: Query, headers: Headers
) -> DeleteObjectTagging:
    return DeleteObjectTagging(bucket=bucket, key=key, version_id=fields.parse_version_id(query))


def parse_create_bucket(bucket: str, key: str, query: Query, headers: Headers) -> CreateBucket:
    done = (fields.BUCKET_OBJECT_LOCK, fields.OWNERSHIP, *fields.ACL_HEADERS)
    fields.check_headers_done(headers, done=done)
    ownership = headers.get(fields.OWNERSHIP)
    if ownership not in (None, *documents.OWNERSHIPS):
        raise errors.InvalidArgument(
            "Invalid x-amz-object-ownership header",
            ArgumentName=fields.OWNERSHIP,
            ArgumentValue=str(ownership),
        )
    return CreateBucket(
        bucket=bucket,
        object_lock=fields.parse_flag(headers, fields.BUCKET_OBJECT_LOCK),
        integrity=fields.parse_integrity(headers),
        ownership=ownership,
        acl=fields.parse_acl(headers),
    )


def parse_put_bucket_acl(bucket: str, key: str, query: Query, headers: Headers) -> PutBucketAcl:
    fields.check_headers_done(headers, done=fields.ACL_HEADERS)
    return PutBucketAcl(
        bucket=bucket,
        acl=fields.parse_acl(headers),
        integrity=fields.parse_integrity(headers),
    )


def parse_get_object_acl(bucket: str, key: str, query: Query, headers: Headers) -> GetObjectAcl:
    return GetObjectAcl(bucket=bucket, key=key, version_id=fields.parse_version_id(query))


def parse_put_object_acl(bucket: str, key: str, query: Query, headers: Headers) -> PutObjectAcl:
    fields.check_headers_done(headers, done=fields.ACL_HEADERS)
    return PutObjectAcl(
        bucket=bucket,
        key=key,
        version_id=fields.parse_version_id(query),
        acl=fields.parse_acl(headers),
        integrity=fields.parse_integrity(headers),
    )


def parse_put_versioning(
    bucket: str, key: str, query: Query, headers: Headers
) -> PutBucketVersioning:
    fields.check_headers_done(headers)
    return PutBucketVersioning(bucket=bucket, integrity=fields.parse_integrity(headers))


def parse_put_configuration(
    bucket: str, key: str, query: Query, headers: Headers
) -> PutConfiguration:
    minimum = headers.get(fields.TRANSITION_MINIMUM) or lifecycle.MINIMUM
    if minimum not in lifecycle.MINIMUMS:
        raise errors.InvalidRequest(f"Invalid TransitionDefaultMinimumObjectSize found: {minimum}")
    fields.check_headers_done(headers)
    confirmed = headers.get("x-amz-confirm-remove-self-bucket-access") or ""
    return PutConfiguration(
        bucket=bucket,
        integrity=fields.parse_integrity(headers),
        gives_up_access=confirmed.lower() == "true",
        transition_minimum=minimum,
    )


def parse_put_object_lock(
    bucket: str, key: str, query: Query, headers: Headers
) -> PutObjectLockConfiguration:
    if headers.get("x-amz-bucket-object-lock-token") is not None:
        raise errors.S3FeatureNotImplemented(
            "A header you provided implies functionality that is not implemented: "
            "x-amz-bucket-object-lock-token",
            Header="x-amz-bucket-object-lock-token",
        )
    fields.check_headers_done(headers)
    return PutObjectLockConfiguration(bucket=bucket, integrity=fields.parse_integrity(headers))


def parse_restore(bucket: str, key: str, query: Query, headers: Headers) -> RestoreObject:
    return RestoreObject(
        bucket=bucket,
        key=key,
        version_id=fields.parse_version_id(query),
        integrity=fields.parse_integrity(headers),
    )


def parse_get_lock(bucket: str, key: str, query: Query, headers: Headers) -> GetObjectLock:
    return GetObjectLock(bucket=bucket, key=key, version_id=fields.parse_version_id(query))


def parse_put_legal_hold(bucket: str, key: str, query: Query, headers: Headers) -> PutObjectLock:
    fields.check_headers_done(headers)
    return PutObjectLock(
        bucket=bucket,
        key=key,
        version_id=fields.parse_version_id(query),
        integrity=fields.parse_integrity(headers),
    )


def parse_put_retention(bucket: str, key: str, query: Query, headers: Headers) -> PutObjectLock:
    fields.check_headers_done(headers, done=(fields.BYPASS_GOVERNANCE,))
    return PutObjectLock(
        bucket=bucket,
        key=key,
        version_id=fields.parse_version_id(query),
        bypass=fields.parse_flag(headers, fields.BYPASS_GOVERNANCE),
        integrity=fields.parse_integrity(headers),
    )


def parse_delete_objects(bucket: str, key: str, query: Query, headers: Headers) -> DeleteObjects:
    preconditions.check_none(headers)  # each key has its own, in the document
    fields.check_headers_done(headers, done=(fields.BYPASS_GOVERNANCE,))
    return DeleteObjects(
        bucket=bucket,
        bypass=fields.parse_flag(headers, fields.BYPASS_GOVERNANCE),
        integrity=fields.parse_integrity(headers),
    )


def parse_abort(bucket: str, key: str, query: Query, headers: Headers) -> AbortMultipartUpload:
    fields.refuse_version_id(query)
    fields.check_headers_done(headers)
    return AbortMultipartUpload(bucket=bucket, key=key, upload_id=query["uploadId"])


def parse_put_object(bucket: str, key: str, query: Query, headers: Headers) -> PutObject:
    if query:
        fields.refuse_version_id(query)
    written, _ = fields.parse_written(headers)
    return PutObject(
        bucket=bucket,
        key=key,
        size_bytes=fields.parse_size(headers),
        written=written,
        integrity=fields.parse_integrity(headers),
        conditions=preconditions.parse_write(headers),
    )


def put_with_body(
    value: PutObject, key: str | None, size_bytes: int, digests: Mapping[bytes, bytes]
) -> PutObject | None:
    """Return the PutObject of another key and body; None if a digest is malformed.

    key: None for the same. digests: of the body, by their headers.
    """
    integrity = value.integrity
    if integrity is not fields.NO_INTEGRITY:
        try:
            integrity = fields.integrity_with(integrity, digests)
        except errors.S3Error:
            return None
    return PutObject(
        bucket=value.bucket,
        key=value.key if key is None else key,
        size_bytes=size_bytes,
        written=value.written,
        integrity=integrity,
        conditions=value.conditions,
    )


def parse_post_object(bucket: str, key: str, query: Query, headers: Headers) -> PostObject:
    boundary = forms.parse_boundary(headers.get("content-type"))
    owner = headers.get("x-amz-expected-bucket-owner")
    misplaced = [
        name
        for name, _ in headers.items()
        if fields.is_header(name) and name not in HEADERS_BESIDE_FORM
    ]
    if misplaced:
        raise errors.InvalidArgument(
            f"A POST form has {misplaced[0]} as a field, not as a header",
            ArgumentName=misplaced[0],
        )
    return PostObject(
        bucket=bucket,
        boundary=boundary,
        owner=owner,
        conditions=preconditions.parse_write(headers),
    )


def parse_form(form: PostObject, values: Mapping[str, str]) -> PutObject:
    """Return the PutObject of a form. values: its fields, by lower-case names.

    A field has the meaning of the PutObject header of the same name; `acl` is x-amz-acl.
    """
    if "key" not in values:
        raise errors.InvalidArgument(
            "Bucket POST must contain a field named 'key'.  If it is specified, please check the "
            "order of the fields.",
            ArgumentName="key",
            ArgumentValue="",
        )
    if not values["key"]:
        raise errors.InvalidArgument(
            "User key must have a length greater than 0.", ArgumentName="key", ArgumentValue=""
        )
    headers = fields.select_form_headers(values)
    written, _ = fields.parse_written(headers)
    conditions = preconditions.parse_write(headers)
    if form.conditions != model.ALWAYS:
        if conditions != model.ALWAYS:
            raise errors.InvalidArgument("A form has its conditions as headers or as fields")
        conditions = form.conditions
    announced = headers.get("x-amz-checksum-algorithm")
    if announced is not None:
        headers["x-amz-sdk-checksum-algorithm"] = announced
    if values.get("tagging"):
        if written.tags:
            raise errors.InvalidArgument(
                "A form has either tagging or x-amz-tagging", ArgumentName="tagging"
            )
        tags = documents.parse_tagging(values["tagging"].encode())
        written = msgspec.structs.replace(written, tags=tags)
    return PutObject(
        bucket=form.bucket,
        key=values["key"],
        size_bytes=None,
        written=written,
        integrity=fields.parse_integrity(headers),
        conditions=conditions,
    )


def parse_copy_object(bucket: str, key: str, query: Query, headers: Headers) -> CopyObject:
    fields.refuse_version_id(query)
    fields.check_no_annotations(headers)
    fields.refuse_copied_range(headers)
    written, storage_class_given = fields.parse_written(headers)
    tagging_directive = fields.parse_directive(headers, "tagging")
    if tagging_directive == "COPY":
        # The copy does not get these tags, so that policies must not see them.
        written = msgspec.structs.replace(written, tags={})
    return CopyObject(
        bucket=bucket,
        key=key,
        source=fields.parse_source(headers),
        written=written,
        metadata_directive=fields.parse_directive(headers, "metadata"),
        tagging_directive=tagging_directive,
        storage_class_given=storage_class_given,
        checksum_algorithm=fields.parse_algorithm(headers, "x-amz-checksum-algorithm"),
        conditions=preconditions.parse_write(headers),
    )


def parse_create_upload(
    bucket: str, key: str, query: Query, headers: Headers
) -> CreateMultipartUpload:
    fields.refuse_version_id(query)
    written, _ = fields.parse_written(headers)
    algorithm = fields.parse_algorithm(headers, "x-amz-checksum-algorithm")
    checksum_type = fields.parse_checksum_type(headers)
    if algorithm is None:
        if checksum_type is not None:
            raise errors.InvalidRequest(
                "The x-amz-checksum-type header can only be used with the "
                "x-amz-checksum-algorithm header."
            )
        return CreateMultipartUpload(bucket=bucket, key=key, written=written)
    if checksum_type is None:
        checksum_type = "FULL_OBJECT" if algorithm == checksums.CRC64NVME else "COMPOSITE"
    elif (
        (checksum_type == "FULL_OBJECT")
        if algorithm not in checksums.CRC_BYTES
        else (checksum_type == "COMPOSITE" and algorithm == checksums.CRC64NVME)
    ):
        raise errors.InvalidRequest(
            f"The {checksum_type} checksum type cannot be used with the {algorithm} checksum "
            "algorithm."
        )
    return CreateMultipartUpload(
        bucket=bucket,
        key=key,
        written=written,
        checksum_algorithm=algorithm,
        checksum_type=checksum_type,
    )


def parse_upload_part(bucket: str, key: str, query: Query, headers: Headers) -> UploadPart:
    upload_id, part_number = _parse_part(query, headers)
    return UploadPart(
        bucket=bucket,
        key=key,
        upload_id=upload_id,
        part_number=part_number,
        size_bytes=fields.parse_size(headers),
        integrity=fields.parse_integrity(headers),
    )


def parse_upload_part_copy(bucket: str, key: str, query: Query, headers: Headers) -> UploadPartCopy:
    upload_id, part_number = _parse_part(query, headers)
    return UploadPartCopy(
        bucket=bucket,
        key=key,
        upload_id=upload_id,
        part_number=part_number,
        source=fields.parse_source(headers),
        byte_range=fields.parse_copy_range(headers.get(fields.COPY_RANGE)),
    )


def parse_complete_upload(
    bucket: str, key: str, query: Query, headers: Headers
) -> CompleteMultipartUpload:
    fields.refuse_version_id(query)
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


def parse_list_buckets(bucket: str, key: str, query: Query, headers: Headers) -> ListBuckets:
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


def parse_list_objects(bucket: str, key: str, query: Query, headers: Headers) -> ListObjects:
    if query.get("list-type") not in (None, "1"):
        raise errors.InvalidArgument(
            "Invalid List Type specified in Request",
            ArgumentName="list-type",
            ArgumentValue=query["list-type"],
        )
    fields.check_optional_attributes(headers)
    return ListObjects(
        bucket=bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        marker=query.get("marker", ""),
        max_keys=fields.parse_page_size(query, "max-keys"),
        encode_keys=fields.parse_encoding(query),
    )


def parse_list_objects_v2(bucket: str, key: str, query: Query, headers: Headers) -> ListObjectsV2:
    fields.check_optional_attributes(headers)
    return ListObjectsV2(
        bucket=bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        start_after=query.get("start-after"),
        continuation_token=query.get("continuation-token"),
        max_keys=fields.parse_page_size(query, "max-keys"),
        encode_keys=fields.parse_encoding(query),
        fetch_owner=query.get("fetch-owner", "").lower() == "true",
    )


def parse_list_versions(
    bucket: str, key: str, query: Query, headers: Headers
) -> ListObjectVersions:
    fields.check_optional_attributes(headers)
    key_marker, version_marker = fields.parse_version_markers(query)
    return ListObjectVersions(
        bucket=bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        key_marker=key_marker,
        version_marker=version_marker,
        max_keys=fields.parse_page_size(query, "max-keys"),
        encode_keys=fields.parse_encoding(query),
    )


def parse_list_uploads(
    bucket: str, key: str, query: Query, headers: Headers
) -> ListMultipartUploads:
    return ListMultipartUploads(
        bucket=bucket,
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        key_marker=query.get("key-marker", ""),
        upload_id_marker=query.get("upload-id-marker", ""),
        max_uploads=fields.parse_page_size(query, "max-uploads"),
        encode_keys=fields.parse_encoding(query),
    )


def parse_list_parts(bucket: str, key: str, query: Query, headers: Headers) -> ListParts:
    fields.check_headers_done(headers)
    return ListParts(
        bucket=bucket,
        key=key,
        upload_id=query["uploadId"],
        after_part_number=fields.parse_count(query, "part-number-marker", 0),
        max_parts=fields.parse_page_size(query, "max-parts"),
        encode_keys=fields.parse_encoding(query),
    )


def _parse_part(query: Query, headers: Headers) -> tuple[str, int]:
    """Return upload id and part number. Raises InvalidArgument without an upload id."""
    upload_id = query.get("uploadId")
    if upload_id is None:
        raise fields.part_without_upload()
    fields.refuse_version_id(query)
    fields.check_headers_done(headers)
    return upload_id, fields.parse_part_number(query["partNumber"])


def _unquote(raw: bytes) -> str:
    if b"%" in raw:
        raw = urllib.parse.unquote_to_bytes(raw)
    return raw.decode("utf-8", "surrogateescape")


def _shown(raw: bytes) -> str:
    return raw.decode("latin-1")
