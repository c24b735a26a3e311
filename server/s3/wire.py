"""rule: the responses of S3 as headers and XML documents.

Element order and spelling are AWS's: some clients compare the root element's name before they read
on. Documents are built as strings, because a listing of a thousand keys is a hot path. Reads no
index; times are Unix milliseconds and come from the caller.
"""

from __future__ import annotations

import datetime
import email.utils
import functools
import re
import urllib.parse
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from server import xmltext
from server.access import arns
from server.accesslogs import targets
from server.s3 import control, cors
from storage import checksums, locks, model, records

Headers = tuple[tuple[str, str], ...]

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
PROLOGUE = '<?xml version="1.0" encoding="UTF-8"?>\n'
XML_HEADERS: Headers = (("content-type", "application/xml"),)
DEFAULT_CONTENT_TYPE = "binary/octet-stream"

_XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'

SECONDS_REMEMBERED = 1024
"""The number of formatted timestamps in the cache: entries of one listing often share them."""

ROWS_REMEMBERED = 8192
"""The number of listing rows in the cache: readers of tables list the same prefixes repeatedly."""

CHECKSUMS_REMEMBERED = 64
"""The number of combinations of checksums in the cache; few clients use more."""

OWNERS_REMEMBERED = 2
"""The number of owner forms whose rows are cached: without owner, and one account."""

RECORD_BYTES_REMEMBERED_MAX = 1024
"""The longest object record whose row is cached."""

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - an offset would be formatted, at twice the cost
_UNRESERVED = re.compile(r"[A-Za-z0-9_.~/-]*")
_UNRESERVED_BYTES = bytes(code for code in range(128) if _UNRESERVED.fullmatch(chr(code)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """S3's Owner: a canonical user id and a display name."""

    canonical_id: str
    display_name: str


NameOwner = Callable[[str], Owner]
"""Returns the owner of a canonical id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Deletion:
    """The result for one key of DeleteObjects. error: code and message, None if it was deleted.

    version_id: the version that the request named. delete_marker: the version id of the delete
    marker that was written or removed.
    """

    key: str
    version_id: str | None = None
    delete_marker: str | None = None
    error: tuple[str, str] | None = None


def encode_key(key: str, *, encode: bool) -> str:
    """Return a key, prefix or marker as a listing shows it; encode: encoding-type=url."""
    if _UNRESERVED.fullmatch(key):
        return key
    return urllib.parse.quote(key, safe="/") if encode else xmltext.escape(key)


def document(root: str, content: str) -> bytes:
    """Return an XML document of S3's namespace."""
    return f'{PROLOGUE}<{root} xmlns="{NAMESPACE}">{content}</{root}>'.encode()


def _listing(before: str, contents: bytes, behind: str) -> bytes:
    """Return a ListBucketResult. before, behind: the elements before and after its Contents."""
    head = f'{PROLOGUE}<ListBucketResult xmlns="{NAMESPACE}">{before}'
    return b"".join((head.encode(), contents, f"{behind}</ListBucketResult>".encode()))


def format_timestamp(at_ms: int) -> str:
    """Return the ISO 8601 form that S3's XML uses: whole seconds, as in headers.

    Clients compare the time in a listing with that of a HEAD.
    """
    return _iso_second(at_ms // 1000)


def format_date(at_ms: int) -> str:
    """Return the RFC 9110 form that headers use."""
    return _http_second(at_ms // 1000)


_CACHING = ("cache-control", "expires")
"""Stored headers that an answer without the body has, too."""


def object_headers(
    info: model.ObjectInfo,
    *,
    overrides: Mapping[str, str] | None = None,
    with_checksums: bool = False,
) -> list[tuple[str, str]]:
    """Return the headers of GET and HEAD that every reader of an object gets, without the length.

    overrides: response headers by lower-case name, in place of the stored ones.
    """
    attributes = info.attributes
    headers = [
        ("last-modified", format_date(info.modified_at_ms)),
        ("etag", f'"{info.etag}"'),
        ("accept-ranges", "bytes"),
    ]
    stored = attributes.headers
    if overrides:
        stored = {**stored, **overrides}
    if "content-type" not in stored:
        headers.append(("content-type", DEFAULT_CONTENT_TYPE))
    headers.extend([row for row in stored.items() if row[0] not in locks.HEADERS])
    for name, value in attributes.user_metadata.items():
        headers.append((f"x-amz-meta-{name}", value))
    if attributes.storage_class != "STANDARD":
        headers.append(("x-amz-storage-class", attributes.storage_class))
    if with_checksums:
        headers.extend(checksum_headers(info))
    return headers


def unmodified_headers(info: model.ObjectInfo, *, overrides: Mapping[str, str]) -> Headers:
    """Return the headers of a 304: what a cache may do with the copy that it has (RFC 9110, section
    15.4.5)."""
    stored = {**info.attributes.headers, **overrides} if overrides else info.attributes.headers
    return (
        ("etag", f'"{info.etag}"'),
        ("last-modified", format_date(info.modified_at_ms)),
        *[(name, stored[name]) for name in _CACHING if name in stored],
    )


def written_version(info: model.ObjectInfo) -> Headers:
    """Return the version header of a write; none for a null version, as in S3."""
    if info.version_id == model.NULL_VERSION:
        return ()
    return (("x-amz-version-id", info.version_id),)


def checksums_of(info: model.ObjectInfo) -> tuple[Mapping[str, str], model.ChecksumType]:
    """Return an object's checksums and their type.

    Without one from the client, S3 shows the CRC64NVME that it computed.
    """
    attributes = info.attributes
    if attributes.checksums:
        return attributes.checksums, attributes.checksum_type
    return {"crc64nvme": checksums.to_text(info.crc64nvme.to_bytes(8, "big"))}, "FULL_OBJECT"


def checksum_headers(info: model.ObjectInfo) -> Headers:
    """Return the checksum headers of an object."""
    checksums_text, checksum_type = checksums_of(info)
    return (
        *((f"x-amz-checksum-{name}", value) for name, value in checksums_text.items()),
        ("x-amz-checksum-type", checksum_type),
    )


def part_checksum_headers(info: model.ObjectInfo, part_number: int) -> Headers:
    """Return the checksum headers of one part of an object; none if its checksum is unknown."""
    attributes = info.attributes
    if not attributes.part_sizes_bytes:
        return checksum_headers(info)
    checksum = part_checksum(attributes, part_number)
    return (
        *((f"x-amz-checksum-{name}", value) for name, value in checksum.items()),
        *((("x-amz-checksum-type", attributes.checksum_type),) if checksum else ()),
    )


def part_checksum(attributes: model.ObjectAttributes, part_number: int) -> Mapping[str, str]:
    """Return the checksum of a part, with its algorithm; an empty mapping if it is unknown."""
    digests = attributes.part_checksums
    if not digests:
        return {}
    (algorithm,) = attributes.checksums
    width = len(digests) // len(attributes.part_sizes_bytes)
    return {algorithm: checksums.to_text(digests[(part_number - 1) * width : part_number * width])}


def checksum_elements(values: Mapping[str, str], checksum_type: str | None = None) -> str:
    """Return the checksum elements of an XML answer."""
    parts = [f"<Checksum{name.upper()}>{value}</Checksum{name.upper()}>"
             for name, value in values.items()]  # fmt: skip
    if values and checksum_type is not None:
        parts.append(f"<ChecksumType>{checksum_type}</ChecksumType>")
    return "".join(parts)


def list_buckets(
    buckets: Iterable[model.BucketInfo],
    *,
    owner: Owner,
    prefix: str,
    continuation_token: str | None,
) -> bytes:
    rows = [
        f"<Bucket><Name>{bucket.name}</Name>"
        f"<CreationDate>{format_timestamp(bucket.created_at_ms)}</CreationDate>"
        f"<BucketRegion>{xmltext.escape(bucket.region)}</BucketRegion>"
        f"<BucketArn>{xmltext.escape(bucket_arn(bucket))}</BucketArn></Bucket>"
        for bucket in buckets
    ]
    token = _element("ContinuationToken", continuation_token)
    shown_prefix = _element("Prefix", prefix or None)
    return document(
        "ListAllMyBucketsResult",
        f"{_owner(owner)}<Buckets>{''.join(rows)}</Buckets>{token}{shown_prefix}",
    )


def bucket_arn(bucket: model.BucketInfo) -> str:
    """Return the ARN by which policies name a bucket."""
    if bucket.type == "table":
        return arns.table_bucket_arn(bucket.region, bucket.owner, bucket.name)
    return arns.bucket_arn(bucket.name)


def bucket_location(region: str) -> bytes:
    """Return GetBucketLocation's answer: empty for us-east-1, where clients expect it so."""
    return document("LocationConstraint", "" if region == "us-east-1" else xmltext.escape(region))


def list_objects(
    page: model.ListedPage,
    *,
    bucket: str,
    prefix: str,
    delimiter: str,
    marker: str,
    max_keys: int,
    encode: bool,
    owner: Owner,
    name_owner: NameOwner | None = None,
) -> bytes:
    """Return ListObjects' answer. owner: of the bucket. name_owner: returns the owner by the
    canonical id in an object's access control list; None where those do not count."""
    next_marker = page.next_after if delimiter else None
    return _listing(
        f"<Name>{bucket}</Name><Prefix>{encode_key(prefix, encode=encode)}</Prefix>"
        f"<Marker>{encode_key(marker, encode=encode)}</Marker>"
        + _encoded("NextMarker", next_marker, encode=encode)
        + f"<MaxKeys>{max_keys}</MaxKeys>"
        + _encoded("Delimiter", delimiter or None, encode=encode)
        + _encoding_type(encode=encode)
        + f"<IsTruncated>{_boolean(page.next_after is not None)}</IsTruncated>",
        _contents(page.objects, encode=encode, owner=owner, name_owner=name_owner),
        _common_prefixes(page.common_prefixes, encode=encode),
    )


def list_objects_v2(
    page: model.ListedPage,
    *,
    bucket: str,
    prefix: str,
    delimiter: str,
    start_after: str | None,
    continuation_token: str | None,
    next_token: str | None,
    max_keys: int,
    encode: bool,
    owner: Owner | None,
    name_owner: NameOwner | None = None,
) -> bytes:
    """Return ListObjectsV2's answer. owner: None leaves the owners out. name_owner: as in
    `list_objects`."""
    key_count = len(page.objects) + len(page.common_prefixes)
    return _listing(
        f"<Name>{bucket}</Name><Prefix>{encode_key(prefix, encode=encode)}</Prefix>"
        + _encoded("StartAfter", start_after, encode=encode)
        + _element("ContinuationToken", continuation_token)
        + _element("NextContinuationToken", next_token)
        + f"<KeyCount>{key_count}</KeyCount><MaxKeys>{max_keys}</MaxKeys>"
        + _encoded("Delimiter", delimiter or None, encode=encode)
        + _encoding_type(encode=encode)
        + f"<IsTruncated>{_boolean(next_token is not None)}</IsTruncated>",
        _contents(page.objects, encode=encode, owner=owner, name_owner=name_owner),
        _common_prefixes(page.common_prefixes, encode=encode),
    )


def delete_result(deletions: Sequence[Deletion], *, quiet: bool) -> bytes:
    rows = []
    for deletion in deletions:
        version = _element("VersionId", deletion.version_id)
        if deletion.error is not None:
            code, message = deletion.error
            rows.append(
                f"<Error><Key>{xmltext.escape(deletion.key)}</Key>{version}"
                f"<Code>{code}</Code><Message>{xmltext.escape(message)}</Message></Error>"
            )
        elif not quiet:
            marker = ""
            if deletion.delete_marker is not None:
                marker = "<DeleteMarker>true</DeleteMarker>" + _element(
                    "DeleteMarkerVersionId", deletion.delete_marker
                )
            rows.append(
                f"<Deleted><Key>{xmltext.escape(deletion.key)}</Key>{version}{marker}</Deleted>"
            )
    return document("DeleteResult", "".join(rows))


def copy_result(root: str, *, etag: str, modified_at_ms: int, elements: str) -> bytes:
    """Return CopyObjectResult or CopyPartResult. elements: the encoded checksum elements."""
    return document(
        root,
        f"<LastModified>{format_timestamp(modified_at_ms)}</LastModified>"
        f"<ETag>&quot;{etag}&quot;</ETag>{elements}",
    )


def tagging(tags: Mapping[str, str]) -> bytes:
    """Return the tags in the order of their keys, as S3 shows them."""
    return document("Tagging", f"<TagSet>{_tags(tags)}</TagSet>")


def _tags(tags: Mapping[str, str]) -> str:
    return "".join(
        f"<Tag><Key>{xmltext.escape(name)}</Key><Value>{xmltext.escape(value)}</Value></Tag>"
        for name, value in sorted(tags.items())
    )


def tags_of_resource(tags: Mapping[str, str]) -> bytes:
    """Return the answer of S3 Control's ListTagsForResource."""
    return (
        f'{PROLOGUE}<ListTagsForResourceResult xmlns="{control.NAMESPACE}"><Tags>'
        f"{_tags(tags)}</Tags></ListTagsForResourceResult>"
    ).encode()


def control_error(body: bytes) -> bytes:
    """Return an error document as S3 Control has it, with S3's within."""
    inner = body.removeprefix(PROLOGUE.encode())
    return (
        f'{PROLOGUE}<ErrorResponse xmlns="{control.NAMESPACE}">'.encode()
        + inner
        + b"</ErrorResponse>"
    )


def public_access_block(block: Mapping[str, bool]) -> bytes:
    """Return GetPublicAccessBlock's answer."""
    rows = [f"<{name}>{_boolean(value)}</{name}>" for name, value in block.items()]
    return document("PublicAccessBlockConfiguration", "".join(rows))


def bucket_logging(target: targets.LogTarget | None) -> bytes:
    """Return GetBucketLogging's answer."""
    if target is None:
        return document("BucketLoggingStatus", "")
    key_format = ""
    if target.key_format == "simple":
        key_format = "<TargetObjectKeyFormat><SimplePrefix/></TargetObjectKeyFormat>"
    elif target.key_format is not None:
        key_format = (
            "<TargetObjectKeyFormat><PartitionedPrefix>"
            f"<PartitionDateSource>{target.key_format}</PartitionDateSource>"
            "</PartitionedPrefix></TargetObjectKeyFormat>"
        )
    return document(
        "BucketLoggingStatus",
        f"<LoggingEnabled><TargetBucket>{xmltext.escape(target.bucket)}</TargetBucket>"
        f"<TargetPrefix>{xmltext.escape(target.prefix)}</TargetPrefix>{key_format}</LoggingEnabled>",
    )


def policy_status(*, public: bool) -> bytes:
    """Return GetBucketPolicyStatus' answer."""
    return document("PolicyStatus", f"<IsPublic>{_boolean(public)}</IsPublic>")


def encryption_configuration(algorithm: str, *, bucket_key: bool) -> bytes:
    """Return GetBucketEncryption's answer, by which no key of a client (SSE-C) is taken."""
    default = (
        "<ApplyServerSideEncryptionByDefault>"
        f"<SSEAlgorithm>{algorithm}</SSEAlgorithm></ApplyServerSideEncryptionByDefault>"
    )
    blocked = (
        "<BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType></BlockedEncryptionTypes>"
    )
    enabled = f"<BucketKeyEnabled>{_boolean(bucket_key)}</BucketKeyEnabled>"
    return document(
        "ServerSideEncryptionConfiguration", f"<Rule>{default}{enabled}{blocked}</Rule>"
    )


def ownership_controls(ownership: str) -> bytes:
    """Return GetBucketOwnershipControls' answer."""
    rule = f"<Rule><ObjectOwnership>{ownership}</ObjectOwnership></Rule>"
    return document("OwnershipControls", rule)


def access_control_policy(
    owner: Owner, grants: Iterable[tuple[Owner | None, model.Grant]]
) -> bytes:
    """Return an access control list. grants: each with its grantee, None for a group."""
    rows = []
    for grantee, grant in grants:
        if grantee is None:
            shown = f'<Grantee {_XSI} xsi:type="Group">{_element("URI", grant.grantee)}</Grantee>'
        else:
            shown = (
                f'<Grantee {_XSI} xsi:type="CanonicalUser">{_element("ID", grantee.canonical_id)}'
                f"{_element('DisplayName', grantee.display_name)}</Grantee>"
            )
        rows.append(f"<Grant>{shown}<Permission>{grant.permission}</Permission></Grant>")
    return document(
        "AccessControlPolicy",
        f"{_owner(owner)}<AccessControlList>{''.join(rows)}</AccessControlList>",
    )


def cors_configuration(rules: Iterable[cors.Rule]) -> bytes:
    """Return GetBucketCors's answer."""
    rows = []
    for rule in rules:
        columns = (
            ("ID", (rule.id,) if rule.id else ()),
            ("AllowedMethod", rule.methods),
            ("AllowedOrigin", rule.origins),
            ("AllowedHeader", rule.headers),
            ("MaxAgeSeconds", () if rule.max_age_seconds is None else (str(rule.max_age_seconds),)),
            ("ExposeHeader", rule.expose),
        )
        elements = "".join(_element(name, value) for name, values in columns for value in values)
        rows.append(f"<CORSRule>{elements}</CORSRule>")
    return document("CORSConfiguration", "".join(rows))


def versioning(status: model.Versioning | None) -> bytes:
    """Return GetBucketVersioning's answer; it is empty for a bucket that was never versioned."""
    return document("VersioningConfiguration", _element("Status", status))


def object_lock(default: locks.DefaultRetention | None) -> bytes:
    """Return GetObjectLockConfiguration's answer. default: the retention of new versions."""
    rule = ""
    if default is not None:
        rule = (
            f"<Rule><DefaultRetention><Mode>{default.mode}</Mode>"
            f"<{default.unit}>{default.count}</{default.unit}></DefaultRetention></Rule>"
        )
    return document(
        "ObjectLockConfiguration", f"<ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}"
    )


def retention(value: locks.VersionRetention) -> bytes:
    until = locks.format_moment(value.until_ms)
    return document(
        "Retention", f"<Mode>{value.mode}</Mode><RetainUntilDate>{until}</RetainUntilDate>"
    )


def legal_hold(is_on: bool) -> bytes:
    return document("LegalHold", f"<Status>{'ON' if is_on else 'OFF'}</Status>")


def list_versions(
    page: model.VersionPage,
    *,
    bucket: str,
    prefix: str,
    delimiter: str,
    key_marker: str,
    version_marker: str,
    max_keys: int,
    encode: bool,
    owner: Owner,
    name_owner: NameOwner | None = None,
) -> bytes:
    """Return ListObjectVersions' answer. owner, name_owner: as in `list_objects`."""
    bucket_owner = _owner(owner)

    def shown_owner(version: model.ListedVersion) -> str:
        if version.owner is None or name_owner is None:
            return bucket_owner
        return _owner(name_owner(version.owner))

    next_key, next_version = page.next_after or (None, None)
    return document(
        "ListVersionsResult",
        f"<Name>{bucket}</Name><Prefix>{encode_key(prefix, encode=encode)}</Prefix>"
        f"<KeyMarker>{encode_key(key_marker, encode=encode)}</KeyMarker>"
        f"<VersionIdMarker>{version_marker}</VersionIdMarker>"
        + _encoded("NextKeyMarker", next_key, encode=encode)
        + _element("NextVersionIdMarker", next_version or None)
        + f"<MaxKeys>{max_keys}</MaxKeys>"
        + _encoded("Delimiter", delimiter or None, encode=encode)
        + _encoding_type(encode=encode)
        + f"<IsTruncated>{_boolean(page.next_after is not None)}</IsTruncated>"
        + "".join([_version(each, shown_owner(each), encode=encode) for each in page.versions])
        + _common_prefixes(page.common_prefixes, encode=encode),
    )


def _version(version: model.ListedVersion, shown_owner: str, *, encode: bool) -> str:
    identity = (
        f"<Key>{encode_key(version.key, encode=encode)}</Key>"
        f"<VersionId>{version.version_id}</VersionId>"
        f"<IsLatest>{_boolean(version.is_latest)}</IsLatest>"
        f"<LastModified>{format_timestamp(version.modified_at_ms)}</LastModified>"
    )
    if version.is_delete_marker:
        return f"<DeleteMarker>{identity}{shown_owner}</DeleteMarker>"
    checksum = _listed_checksum(version.checksum_algorithms, version.checksum_type)
    return (
        f"<Version>{identity}<ETag>&quot;{version.etag}&quot;</ETag>{checksum}"
        f"<Size>{version.size_bytes}</Size>{shown_owner}"
        f"<StorageClass>{version.storage_class}</StorageClass></Version>"
    )


def initiate_multipart_upload(*, bucket: str, key: str, upload_id: str) -> bytes:
    return document(
        "InitiateMultipartUploadResult",
        f"<Bucket>{bucket}</Bucket><Key>{xmltext.escape(key)}</Key><UploadId>{upload_id}</UploadId>",
    )


def complete_multipart_upload(info: model.ObjectInfo, *, location: str) -> bytes:
    return document(
        "CompleteMultipartUploadResult",
        f"<Location>{xmltext.escape(location)}</Location><Bucket>{info.bucket}</Bucket>"
        f"<Key>{xmltext.escape(info.key)}</Key><ETag>&quot;{info.etag}&quot;</ETag>"
        + checksum_elements(*checksums_of(info)),
    )


def post_response(info: model.ObjectInfo, *, location: str) -> bytes:
    """Return PostObject's response 201, whose elements have no namespace, as in S3."""
    return (
        f"{PROLOGUE}<PostResponse><Location>{xmltext.escape(location)}</Location>"
        f"<Bucket>{info.bucket}</Bucket><Key>{xmltext.escape(info.key)}</Key>"
        f"<ETag>&quot;{info.etag}&quot;</ETag></PostResponse>"
    ).encode()


def list_parts(
    page: model.PartPage,
    *,
    upload: model.UploadInfo,
    initiator: Owner,
    owner: Owner,
    after_part_number: int,
    max_parts: int,
    encode: bool,
) -> bytes:
    rows = [
        f"<Part><PartNumber>{part.part_number}</PartNumber>"
        f"<LastModified>{format_timestamp(part.modified_at_ms)}</LastModified>"
        f"<ETag>&quot;{part.etag}&quot;</ETag><Size>{part.size_bytes}</Size>"
        f"{checksum_elements(part.checksums if upload.checksum_algorithm else {})}</Part>"
        for part in page.parts
    ]
    next_marker = page.parts[-1].part_number if page.parts else 0
    return document(
        "ListPartsResult",
        f"<Bucket>{upload.bucket}</Bucket><Key>{encode_key(upload.key, encode=encode)}</Key>"
        f"<UploadId>{upload.upload_id}</UploadId>"
        + _named_owner("Initiator", initiator)
        + _owner(owner)
        + f"<StorageClass>{upload.attributes.storage_class}</StorageClass>"
        f"<PartNumberMarker>{after_part_number}</PartNumberMarker>"
        f"<NextPartNumberMarker>{next_marker}</NextPartNumberMarker>"
        f"<MaxParts>{max_parts}</MaxParts>"
        + _encoding_type(encode=encode)
        + f"<IsTruncated>{_boolean(page.next_after is not None)}</IsTruncated>"
        + _upload_checksum(upload)
        + "".join(rows),
    )


def object_attributes(
    info: model.ObjectInfo, *, names: Container[str], after_part_number: int, max_parts: int
) -> bytes:
    """Return GetObjectAttributes' answer. names: the attributes to include."""
    attributes = info.attributes
    parts = ""
    if "ObjectParts" in names and attributes.part_sizes_bytes:
        parts = _object_parts(attributes, after=after_part_number, max_parts=max_parts)
    checksum = ""
    if "Checksum" in names:
        checksum = f"<Checksum>{checksum_elements(*checksums_of(info))}</Checksum>"
    return document(
        "GetObjectAttributesResponse",
        _element("ETag", info.etag if "ETag" in names else None)
        + checksum
        + parts
        + _element("StorageClass", attributes.storage_class if "StorageClass" in names else None)
        + _element("ObjectSize", str(info.size_bytes) if "ObjectSize" in names else None),
    )


def _object_parts(attributes: model.ObjectAttributes, *, after: int, max_parts: int) -> str:
    """Return a page of the parts, each with its checksum if that is known."""
    sizes = attributes.part_sizes_bytes
    count = f"<PartsCount>{len(sizes)}</PartsCount>"
    first = min(after, len(sizes))
    stop = min(first + max_parts, len(sizes))
    rows = []
    for number in range(first, stop):
        checksum = checksum_elements(part_checksum(attributes, number + 1))
        rows.append(
            f"<Part>{checksum}<PartNumber>{number + 1}</PartNumber>"
            f"<Size>{sizes[number]}</Size></Part>"
        )
    return (
        f"<ObjectParts><IsTruncated>{_boolean(stop < len(sizes))}</IsTruncated>"
        f"<MaxParts>{max_parts}</MaxParts>"
        f"<NextPartNumberMarker>{stop if rows else 0}</NextPartNumberMarker>"
        f"<PartNumberMarker>{after}</PartNumberMarker>{''.join(rows)}{count}</ObjectParts>"
    )


def list_multipart_uploads(
    page: model.UploadPage,
    *,
    bucket: str,
    owners: Callable[[model.UploadInfo], tuple[Owner, Owner]],
    prefix: str,
    delimiter: str,
    key_marker: str,
    upload_id_marker: str,
    max_uploads: int,
    encode: bool,
) -> bytes:
    """Return ListMultipartUploads' answer. owners: the initiator of an upload, and the owner of the
    object that it is to become."""
    rows = [
        f"<Upload><Key>{encode_key(upload.key, encode=encode)}</Key>"
        f"<UploadId>{upload.upload_id}</UploadId>"
        + "".join(
            _named_owner(name, each)
            for name, each in zip(("Initiator", "Owner"), owners(upload), strict=True)
        )
        + f"<StorageClass>{upload.attributes.storage_class}</StorageClass>"
        f"<Initiated>{format_timestamp(upload.initiated_at_ms)}</Initiated>"
        + _upload_checksum(upload)
        + "</Upload>"
        for upload in page.uploads
    ]
    next_key, next_upload = page.next_after or ("", "")
    if page.next_after is None and page.uploads:
        next_key, next_upload = page.uploads[-1].key, page.uploads[-1].upload_id
    return document(
        "ListMultipartUploadsResult",
        f"<Bucket>{bucket}</Bucket><KeyMarker>{encode_key(key_marker, encode=encode)}</KeyMarker>"
        f"<UploadIdMarker>{xmltext.escape(upload_id_marker)}</UploadIdMarker>"
        + _encoded("NextKeyMarker", next_key, encode=encode)
        + _element("NextUploadIdMarker", next_upload)
        + _encoded("Prefix", prefix or None, encode=encode)
        + _encoded("Delimiter", delimiter or None, encode=encode)
        + f"<MaxUploads>{max_uploads}</MaxUploads>"
        + _encoding_type(encode=encode)
        + f"<IsTruncated>{_boolean(page.next_after is not None)}</IsTruncated>"
        + "".join(rows)
        + _common_prefixes(page.common_prefixes, encode=encode),
    )


def error(code: str, message: str, fields: Sequence[tuple[str, str]]) -> bytes:
    """Return an error document. Characters that XML does not allow are replaced, and quotes of the
    message stand as they are, as on AWS, so that clients may look for it in the text."""
    rows = [f"<{name}>{xmltext.escape(_legible(value))}</{name}>" for name, value in fields]
    text = xmltext.escape(_legible(message)).replace("&quot;", '"')
    return (
        f"{PROLOGUE}<Error><Code>{code}</Code><Message>{text}</Message>{''.join(rows)}</Error>"
    ).encode()


def _contents(
    objects: Sequence[tuple[bytes, bytes]],
    *,
    encode: bool,
    owner: Owner | None,
    name_owner: NameOwner | None,
) -> bytes:
    shown_owner = "" if owner is None else _owner(owner)
    keys = [key for key, _ in objects]
    if b"".join(keys).translate(None, _UNRESERVED_BYTES):
        keys = [encode_key(key.decode(), encode=encode).encode() for key in keys]
    # Three pieces per object, assigned a whole column at a time.
    pieces = [b"<Contents><Key>"] * (3 * len(keys))
    pieces[1::3] = keys
    values = [value for _, value in objects]
    pieces[2::3] = _rows_of(shown_owner).find(values)
    if owner is not None and name_owner is not None:
        # Few objects belong to another account than their bucket.
        for number, value in enumerate(values):
            owner_id = records.acl_owner(value)
            if owner_id is not None:
                pieces[3 * number + 2] = _row(value, _owner(name_owner(owner_id)))
    return b"".join(pieces)


class _Rows:
    """A cache of the listing text of objects without their keys, by record, for one owner form.

    Mutable; bounded. A page whose rows are all in the cache needs no call for each row.
    """

    def __init__(self, shown_owner: str) -> None:
        self._shown_owner = shown_owner
        self._rows: dict[bytes, bytes] = {}

    def find(self, values: Sequence[bytes]) -> list[bytes]:
        """Return the listing text of some records."""
        remembered = list(map(self._rows.get, values))
        if None not in remembered:
            return cast("list[bytes]", remembered)
        if len(self._rows) + len(values) > ROWS_REMEMBERED:
            self._rows.clear()
        rows = []
        for value, row in zip(values, remembered, strict=True):
            if row is None:
                row = _row(value, self._shown_owner)
                if len(value) <= RECORD_BYTES_REMEMBERED_MAX:
                    self._rows[value] = row
            rows.append(row)
        return rows


_rows_of = functools.lru_cache(OWNERS_REMEMBERED)(_Rows)


def _row(value: bytes, shown_owner: str) -> bytes:
    """Return the listing text of an object after its key. value: its record."""
    listed = records.listed_object(value)
    checksum = _listed_checksum(listed.checksum_algorithms, listed.checksum_type)
    return (
        f"</Key><LastModified>{format_timestamp(listed.modified_at_ms)}</LastModified>"
        f"<ETag>&quot;{listed.etag}&quot;</ETag>{checksum}<Size>{listed.size_bytes}</Size>"
        f"{shown_owner}<StorageClass>{listed.storage_class}</StorageClass></Contents>"
    ).encode()


@functools.lru_cache(CHECKSUMS_REMEMBERED)
def _listed_checksum(algorithms: tuple[str, ...], checksum_type: model.ChecksumType) -> str:
    """Return the listing text of an object's checksums."""
    rows = "".join(
        f"<ChecksumAlgorithm>{name.upper()}</ChecksumAlgorithm>"
        for name in algorithms or ("crc64nvme",)
    )
    shown_type = checksum_type if algorithms else "FULL_OBJECT"
    return f"{rows}<ChecksumType>{shown_type}</ChecksumType>"


def _common_prefixes(prefixes: Sequence[str], *, encode: bool) -> str:
    return "".join(
        f"<CommonPrefixes><Prefix>{encode_key(prefix, encode=encode)}</Prefix></CommonPrefixes>"
        for prefix in prefixes
    )


def _upload_checksum(upload: model.UploadInfo) -> str:
    if upload.checksum_algorithm is None:
        return ""
    return (
        f"<ChecksumAlgorithm>{upload.checksum_algorithm.upper()}</ChecksumAlgorithm>"
        f"<ChecksumType>{upload.checksum_type}</ChecksumType>"
    )


@functools.lru_cache(SECONDS_REMEMBERED)
def _iso_second(seconds: int) -> str:
    return (_EPOCH + datetime.timedelta(0, seconds)).isoformat() + ".000Z"


@functools.lru_cache(SECONDS_REMEMBERED)
def _http_second(seconds: int) -> str:
    return email.utils.formatdate(seconds, usegmt=True)


def _owner(owner: Owner) -> str:
    return _named_owner("Owner", owner)


def _named_owner(name: str, owner: Owner) -> str:
    return (
        f"<{name}><ID>{xmltext.escape(owner.canonical_id)}</ID>"
        f"<DisplayName>{xmltext.escape(owner.display_name)}</DisplayName></{name}>"
    )


def _element(name: str, value: str | None) -> str:
    return "" if value is None else f"<{name}>{xmltext.escape(value)}</{name}>"


def _encoded(name: str, value: str | None, *, encode: bool) -> str:
    return "" if value is None else f"<{name}>{encode_key(value, encode=encode)}</{name}>"


def _encoding_type(*, encode: bool) -> str:
    return "<EncodingType>url</EncodingType>" if encode else ""


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _legible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" or 0xA0 <= ord(c) < 0xD800 else "\ufffd" for c in text
    )
