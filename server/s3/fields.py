"""rule: the headers and query parameters of S3 requests, parsed into values.

One function for each group of fields: the attributes of a write, the digests of a body, the source
of a copy, the page of a listing. A header for a feature that Boathouse does not have raises
S3FeatureNotImplemented with its name, so that no such header is silently ignored.
`server.s3.routes` identifies the operation.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
import urllib.parse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from server.access import acls
from server.s3 import errors, preconditions
from storage import conditions, lifecycle, locks, model, names, versions

Directive = Literal["COPY", "REPLACE"]
GranteeType = Literal["id", "group", "email"]


KEYS_MAX = 1000


PARTS_MAX = 10_000


USER_METADATA_BYTES_MAX = 2048


TAGS_MAX = 10


BUCKET_TAGS_MAX = 50


TAG_KEY_CHARS_MAX = 128


TAG_VALUE_CHARS_MAX = 256


RESERVED_TAG_PREFIX = "aws:"


CHECKSUM_BYTES = {
    "crc32": 4,
    "crc32c": 4,
    "crc64nvme": 8,
    "md5": 16,
    "sha1": 20,
    "sha256": 32,
    "sha512": 64,
    "xxhash3": 8,
    "xxhash64": 8,
    "xxhash128": 16,
}


OBJECT_ATTRIBUTES = frozenset({"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"})
"""The attributes that GetObjectAttributes may name."""


CHECKSUM_PREFIX = "x-amz-checksum-"


STORAGE_CLASSES = frozenset(
    {
        "STANDARD",
        "REDUCED_REDUNDANCY",
        "STANDARD_IA",
        "ONEZONE_IA",
        "INTELLIGENT_TIERING",
        "GLACIER_IR",
    }
)


STORAGE_CLASSES_NOT_DONE = frozenset({"GLACIER", "DEEP_ARCHIVE", "SNOW", "EXPRESS_ONEZONE"})


STORED_HEADERS = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
    }
)


BYPASS_GOVERNANCE = "x-amz-bypass-governance-retention"


BUCKET_OBJECT_LOCK = "x-amz-bucket-object-lock-enabled"


OWNERSHIP = "x-amz-object-ownership"


TRANSITION_MINIMUM = "x-amz-transition-default-minimum-object-size"


COPY_RANGE = "x-amz-copy-source-range"


ANNOTATIONS = "x-amz-object-annotation-directive"


OPTIONAL_ATTRIBUTES = "x-amz-optional-object-attributes"


CANNED_ACL = "x-amz-acl"


GRANTS: Mapping[str, str] = {
    "x-amz-grant-full-control": "FULL_CONTROL",
    "x-amz-grant-read": "READ",
    "x-amz-grant-read-acp": "READ_ACP",
    "x-amz-grant-write": "WRITE",
    "x-amz-grant-write-acp": "WRITE_ACP",
}
"""Headers that grant a permission, and the permission."""


ACL_HEADERS = frozenset({CANNED_ACL, *GRANTS})


GRANTEES: Mapping[str, GranteeType] = {"id": "id", "uri": "group", "emailaddress": "email"}
"""How a header names a grantee, in lower case."""


OVERRIDES = {
    "response-cache-control": "cache-control",
    "response-content-disposition": "content-disposition",
    "response-content-encoding": "content-encoding",
    "response-content-language": "content-language",
    "response-content-type": "content-type",
    "response-expires": "expires",
}


_PLAIN_HEADERS = frozenset(name.encode() for name in STORED_HEADERS) | {
    b"content-length",
    b"content-md5",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"if-unmodified-since",
    b"range",
}

# Headers with S3's prefix that belong to authentication, or that S3 ignores.
_FOREIGN_HEADERS = frozenset(
    {
        b"x-amz-api-version",
        b"x-amz-content-sha256",
        b"x-amz-date",
        b"x-amz-security-token",
        b"x-amz-te",
        b"x-amz-user-agent",
    }
)

# The parameters of the signature in a presigned URL.
_OF_SIGNATURE = frozenset(
    {
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-signature",
        "x-amz-signedheaders",
    }
)
X_AMZ = "x-amz-"
_PRESIGNED_V2 = "AWSAccessKeyId"
_PRESIGNED_V4 = "X-Amz-Signature"
_CRC32_OF_NO_BYTES = "AAAAAA=="
_CHECKSUM_OF_NO_BODY = frozenset({"x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm"})
_FURTHER_HEADERS_OF_FORM = frozenset(
    {"content-md5", "if-match", "if-none-match", "if-unmodified-since"}
)
_PLAIN_HEADERS_OF_V2 = frozenset({"content-md5", "content-type"})
_CONDITIONS = frozenset({"if-match", "if-none-match", "if-unmodified-since"})
_UNFIT_FOR_HEADERS = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_GRANTEE = re.compile(r"""[ \t]*([A-Za-z]+)[ \t]*=[ \t]*(?:"([^"]+)"|([^\s",]+))[ \t]*(?:,|$)""")
_TAG_MARKS = "_.:/=+-@"
_PLAIN_TAG = re.compile(r"[A-Za-z0-9 _.:/=+@-]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")

# Headers of features that Boathouse does not have, and their values that mean "not used".
_HEADERS_NOT_DONE: Mapping[str, frozenset[str]] = {
    "x-amz-bucket-namespace": frozenset({"global"}),
    "x-amz-if-match-initiated-time": frozenset(),
    "x-amz-acl": frozenset({"private", "bucket-owner-full-control"}),
    "x-amz-grant-full-control": frozenset(),
    "x-amz-grant-read": frozenset(),
    "x-amz-grant-read-acp": frozenset(),
    "x-amz-grant-write": frozenset(),
    "x-amz-grant-write-acp": frozenset(),
    "x-amz-server-side-encryption": frozenset(),
    "x-amz-server-side-encryption-aws-kms-key-id": frozenset(),
    "x-amz-server-side-encryption-bucket-key-enabled": frozenset({"false"}),
    "x-amz-server-side-encryption-context": frozenset(),
    "x-amz-server-side-encryption-customer-algorithm": frozenset(),
    "x-amz-server-side-encryption-customer-key": frozenset(),
    "x-amz-server-side-encryption-customer-key-md5": frozenset(),
    "x-amz-copy-source-server-side-encryption-customer-algorithm": frozenset(),
    "x-amz-copy-source-server-side-encryption-customer-key": frozenset(),
    "x-amz-copy-source-server-side-encryption-customer-key-md5": frozenset(),
    "x-amz-object-lock-mode": frozenset(),
    "x-amz-object-lock-retain-until-date": frozenset(),
    "x-amz-object-lock-legal-hold": frozenset({"OFF"}),
    "x-amz-object-lock-event-hold": frozenset({"OFF"}),
    "x-amz-object-lock-event-hold-duration-days": frozenset(),
    "x-amz-object-lock-event-hold-duration-years": frozenset(),
    BUCKET_OBJECT_LOCK: frozenset({"false"}),
    BYPASS_GOVERNANCE: frozenset({"false"}),
    OWNERSHIP: frozenset({"BucketOwnerEnforced"}),
    "x-amz-website-redirect-location": frozenset(),
    "x-amz-write-offset-bytes": frozenset(),
    "x-amz-if-match-last-modified-time": frozenset(),
    "x-amz-if-match-size": frozenset(),
    "x-amz-mfa": frozenset(),
    TRANSITION_MINIMUM: lifecycle.MINIMUMS,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Integrity:
    """The digests that the client announces for a body.

    content_md5: sixteen raw bytes. checksum: algorithm and base64 value by header.
    trailer: algorithm whose value follows the body. announced: the algorithm that
    x-amz-sdk-checksum-algorithm names.
    """

    content_md5: bytes | None = None
    checksum: tuple[str, str] | None = None
    trailer: str | None = None
    announced: str | None = None


NO_INTEGRITY = Integrity()


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedGrant:
    """A grant that a request asks for. grantee: a canonical id, a group's URI or an email address,
    as `type` says."""

    type: GranteeType
    grantee: str
    permission: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedAcl:
    """The access control list that a request's headers ask for: a canned one, or grants.

    headers: the headers that ask for it, or the fields of a form, as they were sent.
    """

    canned: str | None = None
    grants: tuple[WantedGrant, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of a write: headers, metadata, tags, storage class, lock.

    lock: retention and legal hold, as stored headers (`storage.locks`). acl: None if the headers
    ask for no access control list. Every write makes one, so it is a Struct.
    """

    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    user_metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)
    storage_class: str = "STANDARD"
    lock: Mapping[str, str] = msgspec.field(default_factory=dict)
    acl: WantedAcl | None = None

    @property
    def stored(self) -> Mapping[str, str]:
        """The headers to store, with the lock."""
        return {**self.headers, **self.lock} if self.lock else self.headers


@dataclass(frozen=True, kw_only=True, slots=True)
class CopySource:
    """The source of a copy, and the conditions on it."""

    bucket: str
    key: str
    version_id: str | None = None
    conditions: conditions.ReadConditions = preconditions.NO_CONDITIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """The parameters of a GET or HEAD. byte_range: the Range header, resolved when the size is
    known.

    overrides: response headers by lower-case name. if_range: the ETag of the object that the range
    is of; None for any.
    """

    version_id: str | None = None
    byte_range: str | None = None
    if_range: str | None = None
    part_number: int | None = None
    conditions: conditions.ReadConditions = preconditions.NO_CONDITIONS
    overrides: Mapping[str, str] = field(default_factory=dict)
    with_checksums: bool = False


PLAIN_READ = Read()
CHECKED_READ = Read(with_checksums=True)
"""The read of a whole object and that of one with its checksums, which SDKs ask for: what a request
without further parameters means."""


def select_headers(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers that S3 defines, by lower-case name; values of a repeated one are joined.

    Other headers, which are the majority, are not decoded.
    """
    metadata: dict[str, str] = {}
    for name, value in raw:
        if name in _PLAIN_HEADERS or (name[:6] == b"x-amz-" and name not in _FOREIGN_HEADERS):
            text, shown = name.decode("latin-1"), value.decode("latin-1")
            metadata[text] = f"{metadata[text]},{shown}" if text in metadata else shown
    return metadata


def select_form_headers(values: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a POST form that have the meaning of a header; see `select_headers`.

    values: by lower-case names; an empty one counts as absent. Raises InvalidArgument for a value
    that a header cannot have.
    """
    headers: dict[str, str] = {}
    for name, text in values.items():
        if name == "acl":
            name = "x-amz-acl"
        raw_name = name.encode()
        if raw_name in _FOREIGN_HEADERS or name in _OF_SIGNATURE:
            continue
        if not (is_header(name) or name in STORED_HEADERS or name in _FURTHER_HEADERS_OF_FORM):
            continue
        value = text.encode().decode("latin-1").strip(" \t")
        if _UNFIT_FOR_HEADERS.search(value) or not _HEADER_NAME.fullmatch(name):
            raise errors.InvalidArgument(
                "A field of the form cannot be a header", ArgumentName=name, ArgumentValue=text
            )
        if value:
            headers[name] = value
    return headers


def is_header(name: str) -> bool:
    """Return whether a query parameter has the meaning of a header: all with S3's prefix have."""
    return name[:6].lower() == X_AMZ


def plain_parameters(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the parameters of a query that have not the meaning of a header, by name."""
    return {name: value for name, value in pairs if name[:6].lower() != X_AMZ}


def header_value(text: str) -> str:
    """Return the value of a query parameter as that of a header: one character per byte, without
    the spaces around it."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1").strip(" \t")


def take_headers_of_query(
    headers: dict[str, str], pairs: Sequence[tuple[str, str]], *, writes: bool = False
) -> None:
    """Add to headers, in place, those that come as query parameters.

    Presigned URLs have them there: the names that begin with `x-amz-`, with signature version 4
    also conditions, with version 2 (boto3) Content-MD5 and Content-Type. The signature covers them.
    A write has its conditions there whatever its signature: one that ignored them could replace an
    object. Raises InvalidRequest for one that comes twice, that differs from the header of the same
    name, or whose value a header cannot have.

    A CRC32 of no bytes is not taken: the JavaScript SDK signs it for every upload, because it has
    no body yet when it presigns.
    """
    names = {name for name, _ in pairs}
    covered = _PLAIN_HEADERS_OF_V2 if _PRESIGNED_V2 in names else frozenset[str]()
    conditional = _CONDITIONS if writes or _PRESIGNED_V4 in names else frozenset[str]()
    untaken = _CHECKSUM_OF_NO_BODY if _signs_no_body(pairs) else frozenset[str]()
    taken = set()
    for parameter, text in pairs:
        name = parameter.lower()
        if name[:6] != X_AMZ:
            # Beside a header of this name version 2 covers the header, not the parameter.
            if name not in conditional and (name not in covered or name in headers):
                continue
        elif name in _OF_SIGNATURE or name in untaken or name.encode() in _FOREIGN_HEADERS:
            continue
        value = header_value(text)
        if _UNFIT_FOR_HEADERS.search(value):
            raise errors.InvalidRequest(f"The query parameter {parameter} has a control character")
        if name in taken or headers.get(name, value) != value:
            raise errors.InvalidRequest(
                f"The header {name} has two values: send it once, as a header or in the query"
            )
        taken.add(name)
        headers[name] = value


def _signs_no_body(pairs: Sequence[tuple[str, str]]) -> bool:
    """Return whether a query has the CRC32 of no bytes."""
    return any(
        text == _CRC32_OF_NO_BYTES and name.lower() == "x-amz-checksum-crc32"
        for name, text in pairs
    )


def parse_read(headers: preconditions.HeaderView, query: Mapping[str, str] | None = None) -> Read:
    """Return the parameters of a GET or HEAD."""
    byte_range = if_range = None
    conditional = with_checksums = False
    for name, value in headers.items():
        if name == "range":
            byte_range = value
        elif name == "if-range":
            if_range = preconditions.parse_if_range(value)
        elif name.startswith("if-"):
            conditional = True
        elif name == "x-amz-checksum-mode":
            with_checksums = value.upper() == "ENABLED"
        elif name.startswith("x-amz-server-side-encryption-customer"):
            raise _header_not_done(name)
    if not (query or byte_range or conditional):
        return CHECKED_READ if with_checksums else PLAIN_READ
    part_number = None
    if query and "partNumber" in query:
        part_number = parse_part_number(query["partNumber"])
        if byte_range is not None:
            raise errors.InvalidRequest(
                "Cannot specify both Range header and partNumber query parameter"
            )
    return Read(
        version_id=parse_version_id(query) if query else None,
        byte_range=byte_range,
        if_range=if_range,
        part_number=part_number,
        conditions=preconditions.parse_read(headers)
        if conditional
        else preconditions.NO_CONDITIONS,
        overrides={OVERRIDES[name]: value for name, value in query.items() if name in OVERRIDES}
        if query
        else {},
        with_checksums=with_checksums,
    )


def parse_written(headers: preconditions.HeaderView) -> tuple[Written, bool]:
    """Return the attributes in a write's headers, and whether they name a storage class."""
    stored: dict[str, str] = {}
    user_metadata: dict[str, str] = {}
    tags: dict[str, str] = {}
    lock: Mapping[str, str] = {}
    acl = None
    storage_class = None
    metadata_bytes = 0
    for name, value in headers.items():
        if name in STORED_HEADERS:
            if name == "content-encoding":
                value = _without_aws_chunked(value)
                if not value:
                    continue
            stored[name] = value
        elif name.startswith("x-amz-"):
            if name.startswith("x-amz-meta-"):
                user_metadata[name[11:]] = value
                metadata_bytes += len(name) - 11 + len(value)
            elif name == "x-amz-tagging":
                tags = _parse_tagging(value)
            elif name == "x-amz-storage-class":
                storage_class = _storage_class(value)
            elif name in locks.HEADERS:
                lock = parse_lock(headers)
            elif name in ACL_HEADERS:
                acl = parse_acl(headers)
            elif name in _HEADERS_NOT_DONE and value not in _HEADERS_NOT_DONE[name]:
                raise _header_not_done(name)
    if metadata_bytes > USER_METADATA_BYTES_MAX:
        raise errors.MetadataTooLarge(
            "Your metadata headers exceed the maximum allowed metadata size",
            Size=str(metadata_bytes),
            MaxSizeAllowed=str(USER_METADATA_BYTES_MAX),
        )
    written = Written(
        headers=stored,
        user_metadata=user_metadata,
        tags=tags,
        storage_class=storage_class or "STANDARD",
        lock=lock,
        acl=acl,
    )
    return written, storage_class is not None


def parse_acl(headers: preconditions.HeaderView) -> WantedAcl | None:
    """Return the access control list that headers ask for, None if they ask for none.

    Raises InvalidArgument, and InvalidRequest for a canned list beside grants.
    """
    canned = headers.get(CANNED_ACL)
    if canned is not None and canned not in acls.CANNED_NAMES:
        raise errors.InvalidArgument(
            "The canned ACL is none that S3 has", ArgumentName=CANNED_ACL, ArgumentValue=canned
        )
    grants: list[WantedGrant] = []
    for name, permission in GRANTS.items():
        value = headers.get(name)
        if value is not None:
            grants += _parse_grants(name, value, permission)
    if canned is not None and grants:
        raise errors.InvalidRequest("Specifying both Canned ACLs and Header Grants is not allowed")
    if canned is None and not grants:
        return None
    if len(grants) > acls.GRANTS_MAX:
        raise errors.InvalidArgument(
            f"An access control list has at most {acls.GRANTS_MAX} grants", ArgumentName="Grant"
        )
    sent = {name: value for name, value in headers.items() if name in ACL_HEADERS}
    return WantedAcl(canned=canned, grants=tuple(grants), headers=sent)


def _parse_grants(name: str, value: str, permission: str) -> list[WantedGrant]:
    """Return what a header such as `id="...", uri="..."` grants."""
    grants = []
    position = 0
    while position < len(value):
        match = _GRANTEE.match(value, position)
        grantee_type = None if match is None else GRANTEES.get(match[1].lower())
        if match is None or grantee_type is None:
            raise errors.InvalidArgument(
                "Argument format not recognized", ArgumentName=name, ArgumentValue=value
            )
        grantee = match[3] if match[2] is None else match[2]
        grants.append(WantedGrant(type=grantee_type, grantee=grantee, permission=permission))
        position = match.end()
    if not grants:
        raise errors.InvalidArgument(
            "Argument format not recognized", ArgumentName=name, ArgumentValue=value
        )
    return grants


def parse_lock(headers: preconditions.HeaderView) -> Mapping[str, str]:
    """Return the retention and the legal hold of a write's headers, as stored headers."""
    mode, until = headers.get(locks.MODE), headers.get(locks.RETAIN_UNTIL)
    retention = None
    if (mode is None) != (until is None):
        raise errors.InvalidArgument(
            "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied",
            ArgumentName=locks.RETAIN_UNTIL if until is None else locks.MODE,
        )
    if mode is not None and until is not None:
        if mode not in ("GOVERNANCE", "COMPLIANCE"):
            raise errors.InvalidArgument(
                "Unknown wormMode directive.", ArgumentName=locks.MODE, ArgumentValue=mode
            )
        until_ms = locks.parse_moment(until)
        if until_ms is None:
            raise errors.InvalidArgument(
                "The retain until date must be provided in ISO 8601 format",
                ArgumentName=locks.RETAIN_UNTIL,
                ArgumentValue=until,
            )
        retention = locks.VersionRetention(
            mode="COMPLIANCE" if mode == "COMPLIANCE" else "GOVERNANCE", until_ms=until_ms
        )
    hold = headers.get(locks.LEGAL_HOLD)
    if hold not in (None, "ON", "OFF"):
        raise errors.InvalidArgument(
            "Legal Hold must be either of 'ON' or 'OFF'",
            ArgumentName=locks.LEGAL_HOLD,
            ArgumentValue=str(hold),
        )
    return locks.headers_of(retention, None if hold is None else hold == "ON")


def parse_flag(headers: preconditions.HeaderView, name: str) -> bool:
    """Return whether a header is `true`. Raises InvalidArgument unless it is `true` or `false`."""
    value = (headers.get(name) or "false").lower()
    if value not in ("true", "false"):
        raise errors.InvalidArgument(
            f"The value of {name} must be true or false", ArgumentName=name, ArgumentValue=value
        )
    return value == "true"


def check_headers_done(
    headers: preconditions.HeaderView, *, done: Collection[str] = frozenset()
) -> None:
    """Raise S3FeatureNotImplemented if a header asks for something that the operation does not do.

    done: the headers that it does.
    """
    for name, value in headers.items():
        if name in _HEADERS_NOT_DONE and value not in _HEADERS_NOT_DONE[name] and name not in done:
            raise _header_not_done(name)


def refuse_copied_range(headers: preconditions.HeaderView) -> None:
    """Raise InvalidRequest if a copy of a whole object is to have a range of its source."""
    if headers.get(COPY_RANGE) is not None:
        raise errors.InvalidRequest(
            f"The header {COPY_RANGE} can only be used with the copy of a part."
        )


def check_no_annotations(headers: preconditions.HeaderView) -> None:
    """Raise InvalidArgument unless a copy's annotations, of which there are none, are to be copied
    or left out."""
    value = headers.get(ANNOTATIONS)
    if value not in (None, "COPY", "EXCLUDE"):
        raise errors.InvalidArgument(
            "Unknown annotation directive.", ArgumentName=ANNOTATIONS, ArgumentValue=str(value)
        )


def check_optional_attributes(headers: preconditions.HeaderView) -> None:
    """Raise InvalidArgument if a listing is to have an attribute that S3 does not name.

    S3 names RestoreStatus, which only an object in an archive has."""
    value = headers.get(OPTIONAL_ATTRIBUTES)
    if value is not None and {name.strip() for name in value.split(",")} != {"RestoreStatus"}:
        raise errors.InvalidArgument(
            "Invalid attribute name specified.",
            ArgumentName=OPTIONAL_ATTRIBUTES,
            ArgumentValue=value,
        )


def parse_integrity(headers: preconditions.HeaderView) -> Integrity:
    """Return the digests announced for a body. Raises for malformed or contradictory ones."""
    content_md5 = None
    checksum = trailer = announced = None
    for name, value in headers.items():
        if name == "content-md5":
            content_md5 = _content_md5(value)
        elif name == "x-amz-sdk-checksum-algorithm":
            announced = value.lower()
        elif name == "x-amz-trailer":
            trailer = value.strip().lower().removeprefix(CHECKSUM_PREFIX)
            if trailer not in CHECKSUM_BYTES:
                raise errors.InvalidRequest(
                    "The value specified in the x-amz-trailer header is not supported"
                )
        elif name.startswith(CHECKSUM_PREFIX):
            algorithm = _algorithm_of(name)
            if algorithm is None:
                continue
            if checksum is not None:
                raise errors.InvalidRequest(
                    "Expecting a single x-amz-checksum- header. "
                    "Multiple checksum Types are not allowed."
                )
            checksum = algorithm, parse_checksum(algorithm, value)
    if content_md5 is None and checksum is None and trailer is None and announced is None:
        return NO_INTEGRITY
    if checksum is not None and trailer is not None:
        raise errors.InvalidRequest(
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        )
    sent = trailer if checksum is None else checksum[0]
    if announced is not None and announced != sent:
        if sent is None:
            raise errors.InvalidRequest(
                "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* "
                "or x-amz-trailer headers were found."
            )
        raise errors.InvalidRequest("Value for x-amz-sdk-checksum-algorithm header is invalid.")
    return Integrity(
        content_md5=content_md5, checksum=checksum, trailer=trailer, announced=announced
    )


def integrity_with(integrity: Integrity, sent: Mapping[bytes, bytes]) -> Integrity:
    """Return the digests of another body that are announced by the same headers.

    sent: the values of headers about the body that differ; the others are the same. Raises as
    `parse_integrity` does.
    """
    content_md5, checksum = integrity.content_md5, integrity.checksum
    other_md5 = sent.get(b"content-md5")
    if other_md5 is not None:
        content_md5 = _content_md5(other_md5.decode("latin-1"))
    if checksum is not None:
        name = checksum[0]
        other = sent.get(f"{CHECKSUM_PREFIX}{name}".encode())
        if other is not None:
            checksum = name, parse_checksum(name, other.decode("latin-1"))
    return Integrity(
        content_md5=content_md5,
        checksum=checksum,
        trailer=integrity.trailer,
        announced=integrity.announced,
    )


def parse_checksum(name: str, value: str) -> str:
    """Return a checksum in base64. Raises BadDigest if it is none of that algorithm: no body has
    it."""
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != CHECKSUM_BYTES[name]:
        raise errors.BadDigest(f"Value for {CHECKSUM_PREFIX}{name} header is invalid.")
    return value


def _algorithm_of(name: str) -> str | None:
    """Return the algorithm of a header with a checksum; None for a header about checksums.

    name: begins with CHECKSUM_PREFIX. Raises S3FeatureNotImplemented for another algorithm."""
    algorithm = name[len(CHECKSUM_PREFIX) :]
    if algorithm in ("algorithm", "type", "mode"):
        return None
    if algorithm not in CHECKSUM_BYTES:
        raise _header_not_done(name)
    return algorithm


def parse_whole_checksum(headers: preconditions.HeaderView) -> tuple[str, str] | None:
    """Return the checksum of a whole multipart object, with or without the suffix `-N`."""
    for name, value in headers.items():
        if not name.startswith(CHECKSUM_PREFIX):
            continue
        algorithm = _algorithm_of(name)
        if algorithm is not None:
            digest, dash, count = value.partition("-")
            parse_checksum(algorithm, digest)
            if dash and not (count.isascii() and count.isdigit()):
                raise errors.InvalidRequest(f"Value for {name} header is invalid.")
            return algorithm, value
    return None


def parse_size(headers: preconditions.HeaderView) -> int | None:
    """Return the length of the body without aws-chunked framing."""
    decoded = headers.get("x-amz-decoded-content-length")
    value = headers.get("content-length") if decoded is None else decoded
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 19):
        raise errors.InvalidArgument("The length of the body must be a number", ArgumentValue=value)
    return int(value)


def parse_source(headers: preconditions.HeaderView) -> CopySource:
    """Return the source of a copy: `[/]bucket/key[?versionId=...]`, percent-encoded or not.

    A `+` is a space, as on AWS and as s5cmd writes spaces; a client writes a plus sign as `%2B`.
    """
    value = headers.get("x-amz-copy-source") or ""
    path, separator, version_id = value.partition("?versionId=")
    if separator and not version_id:
        raise errors.InvalidArgument(
            "Version id cannot be the empty string",
            ArgumentName="x-amz-copy-source",
            ArgumentValue=value,
        )
    # The header's text is Latin-1, one character a byte; a client may send UTF-8 unescaped.
    spaced = path.replace("+", " ").encode("latin-1", "surrogateescape")
    raw = urllib.parse.unquote_to_bytes(spaced)
    bucket, _, key = raw.removeprefix(b"/").partition(b"/")
    try:
        source = CopySource(
            bucket=names.check_shown(bucket.decode()),
            key=key.decode(),
            version_id=check_version_id(version_id, "x-amz-copy-source") if version_id else None,
            conditions=_source_conditions(headers),
        )
    except UnicodeDecodeError:
        source = CopySource(bucket="", key="")
    if not source.bucket or not source.key:
        raise errors.InvalidArgument(
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
            ArgumentName="x-amz-copy-source",
            ArgumentValue=value,
        )
    return source


def _source_conditions(headers: preconditions.HeaderView) -> conditions.ReadConditions:
    prefix = conditions.COPY_SOURCE_PREFIX
    if any(name.startswith(f"{prefix}if-") for name, _ in headers.items()):
        return preconditions.parse_read(headers, prefix=prefix)
    return preconditions.NO_CONDITIONS


def parse_copy_range(value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    first, dash, last = value.removeprefix("bytes=").partition("-")
    if value.startswith("bytes=") and dash and _is_offset(first) and _is_offset(last):
        offsets = int(first), int(last)
        if offsets[0] <= offsets[1]:
            return offsets
    raise errors.InvalidArgument(
        "The x-amz-copy-source-range value must be of the form bytes=first-last where first and "
        "last are the zero-based offsets of the first and last bytes to copy",
        ArgumentName=COPY_RANGE,
        ArgumentValue=value,
    )


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19


def parse_directive(headers: preconditions.HeaderView, what: str) -> Directive:
    value = headers.get(f"x-amz-{what}-directive")
    if value is None or value == "COPY":
        return "COPY"
    if value == "REPLACE":
        return "REPLACE"
    raise errors.InvalidArgument(
        f"Unknown {what} directive.",
        ArgumentName=f"x-amz-{what}-directive",
        ArgumentValue=value,
    )


def parse_algorithm(headers: preconditions.HeaderView, name: str) -> str | None:
    value = headers.get(name)
    if value is None:
        return None
    if value.lower() not in CHECKSUM_BYTES:
        raise errors.InvalidRequest(
            "Checksum algorithm provided is unsupported. Please try again with any of the valid "
            f"types: [{', '.join(sorted(CHECKSUM_BYTES)).upper()}]"
        )
    return value.lower()


def parse_checksum_type(headers: preconditions.HeaderView) -> model.ChecksumType | None:
    value = headers.get("x-amz-checksum-type")
    if value is None:
        return None
    if value == "FULL_OBJECT":
        return "FULL_OBJECT"
    if value == "COMPOSITE":
        return "COMPOSITE"
    raise errors.InvalidRequest("Value for x-amz-checksum-type header is invalid.")


def check_tags(tags: Sequence[tuple[str, str]], *, tags_max: int = TAGS_MAX) -> dict[str, str]:
    """Return the tags by key; raises TooManyTags, or InvalidTag for one that breaks a rule."""
    check_count_of_tags(len(tags), tags_max)
    values: dict[str, str] = {}
    for name, value in tags:
        if not name or len(name) > TAG_KEY_CHARS_MAX or not _fits_tag(name):
            raise errors.InvalidTag("The TagKey you have provided is invalid", TagKey=name)
        if name.startswith(RESERVED_TAG_PREFIX):
            raise errors.InvalidTag(
                "Your TagKey cannot be prefixed with aws:"
                if tags_max == TAGS_MAX
                else "System tags cannot be added/updated by requester",
                TagKey=name,
            )
        if len(value) > TAG_VALUE_CHARS_MAX or not _fits_tag(value):
            raise errors.InvalidTag(
                "The TagValue you have provided is invalid", TagKey=name, TagValue=value
            )
        if name in values:
            raise errors.InvalidTag("Cannot provide multiple Tags with the same key", TagKey=name)
        values[name] = value
    return values


def check_count_of_tags(count: int, tags_max: int) -> None:
    """Raise TooManyTags for more tags than an object or a bucket may have."""
    if count > tags_max:
        what = "Object" if tags_max == TAGS_MAX else "Bucket"
        raise errors.TooManyTags(f"{what} tags cannot be greater than {tags_max}")


def _fits_tag(text: str) -> bool:
    """Return whether a tag's key or value has only characters that S3 allows there: letters,
    numbers and separators of any script, and some marks."""
    return _PLAIN_TAG.fullmatch(text) is not None or all(
        char in _TAG_MARKS or unicodedata.category(char)[0] in "LNZ" for char in text
    )


def parse_version_id(query: Mapping[str, str]) -> str | None:
    """Return the version id of the request; None for the newest version."""
    version_id = query.get("versionId")
    if version_id == "":
        raise errors.InvalidArgument(
            "Version id cannot be the empty string", ArgumentName="versionId", ArgumentValue=""
        )
    return None if version_id is None else check_version_id(version_id, "versionId")


def refuse_version_id(query: Mapping[str, str]) -> None:
    """Raise InvalidArgument if a request that is about no version of an object has a version id."""
    if "versionId" in query:
        raise errors.InvalidArgument(
            "This operation does not accept a version-id.",
            ArgumentName="versionId",
            ArgumentValue=query["versionId"],
        )


def part_without_upload() -> errors.InvalidArgument:
    """Return the error of a request that names a part and no upload."""
    return errors.InvalidArgument(
        "This operation does not accept partNumber without uploadId",
        ArgumentName="partNumber",
        ArgumentValue="partNumber",
    )


def check_version_id(version_id: str, name: str) -> str:
    """Return a version id. Raises InvalidArgument if it is malformed. name: of the parameter."""
    if not versions.is_version_id(version_id):
        raise errors.InvalidArgument(
            "Invalid version id specified", ArgumentName=name, ArgumentValue=version_id
        )
    return version_id


def parse_version_markers(query: Mapping[str, str]) -> tuple[str, str]:
    """Return the key and the version after which a listing of versions starts; "" if absent."""
    key_marker, version_marker = query.get("key-marker", ""), query.get("version-id-marker")
    if version_marker is None:
        return key_marker, ""
    if not version_marker or not key_marker:
        raise errors.InvalidArgument(
            "A version-id marker cannot be specified without a key marker."
            if version_marker
            else "A version-id marker cannot be empty.",
            ArgumentName="version-id-marker",
            ArgumentValue=version_marker,
        )
    return key_marker, check_version_id(version_marker, "version-id-marker")


def parse_part_number(value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) <= 5 and 1 <= int(value) <= PARTS_MAX:
        return int(value)
    raise errors.InvalidArgument(
        "Part number must be an integer between 1 and 10000, inclusive",
        ArgumentName="partNumber",
        ArgumentValue=value,
    )


def parse_page_size(query: Mapping[str, str], name: str) -> int:
    return min(parse_count(query, name, KEYS_MAX), KEYS_MAX)


def parse_attribute_names(headers: preconditions.HeaderView) -> frozenset[str]:
    """Return the attribute names of GetObjectAttributes."""
    stated = headers.get("x-amz-object-attributes")
    names = frozenset(name.strip() for name in (stated or "").split(",")) - {""}
    if not names:
        raise errors.InvalidRequest(
            "The x-amz-object-attributes header specifying the attributes to be retrieved is "
            "either missing or empty"
        )
    unknown = names - OBJECT_ATTRIBUTES
    if unknown:
        raise errors.InvalidArgument(
            "Invalid attribute name specified.",
            ArgumentName="x-amz-object-attributes",
            ArgumentValue=min(unknown),
        )
    return names


def parse_count(
    query: Mapping[str, str] | preconditions.HeaderView, name: str, default: int
) -> int:
    """Return a number from the query or the headers. Raises InvalidArgument."""
    value = query.get(name)
    if value is None or value == "":
        return default
    if value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= 2**31 - 1:
        return int(value)
    if value.removeprefix("-").isdigit() and value.isascii():
        message = f"Argument {name} must be an integer between 0 and 2147483647"
    else:
        message = f"Provided {name} not an integer or within integer range"
    raise errors.InvalidArgument(message, ArgumentName=name, ArgumentValue=value)


def parse_encoding(query: Mapping[str, str]) -> bool:
    value = query.get("encoding-type")
    if value is None:
        return False
    if value.lower() == "url":
        return True
    raise errors.InvalidArgument(
        "Invalid Encoding Method specified in Request",
        ArgumentName="encoding-type",
        ArgumentValue=value,
    )


def bad_token(token: str) -> errors.InvalidArgument:
    """Return the error for a continuation token that does not belong to this query."""
    return errors.InvalidArgument(
        "The continuation token provided is incorrect",
        ArgumentName="continuation-token",
        ArgumentValue=token,
    )


def _storage_class(value: str) -> str:
    if value in STORAGE_CLASSES:
        return value
    if value in STORAGE_CLASSES_NOT_DONE:
        raise errors.S3FeatureNotImplemented(
            "A header you provided implies functionality that is not implemented: "
            f"x-amz-storage-class {value}",
            Header="x-amz-storage-class",
        )
    raise errors.InvalidStorageClass(
        "The storage class you specified is not valid", StorageClassRequested=value
    )


def _parse_tagging(value: str) -> dict[str, str]:
    """Return the tags of a header. Raises InvalidArgument, TooManyTags, and InvalidTag for a
    reserved key."""
    parts = [part for part in value.split("&") if part]
    check_count_of_tags(len(parts), TAGS_MAX)
    try:
        return check_tags(
            urllib.parse.parse_qsl("&".join(parts), keep_blank_values=True, errors="strict")
        )
    except errors.InvalidTag as invalid:
        if invalid.fields["TagKey"].startswith(RESERVED_TAG_PREFIX):
            raise
    except ValueError:
        pass
    raise errors.InvalidArgument(
        "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query "
        "parameters without tag name duplicates.",
        ArgumentName="x-amz-tagging",
        ArgumentValue=value,
    )


def _without_aws_chunked(value: str) -> str:
    if "aws-chunked" not in value.lower():
        return value
    codings = [coding.strip() for coding in value.split(",")]
    return ",".join(coding for coding in codings if coding and coding.lower() != "aws-chunked")


def _content_md5(value: str) -> bytes:
    try:
        digest = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != 16:
        raise errors.InvalidDigest(
            "The Content-MD5 you specified was invalid.", **{"Content-MD5": value}
        )
    return digest


def _header_not_done(name: str) -> errors.S3FeatureNotImplemented:
    return errors.S3FeatureNotImplemented(
        f"A header you provided implies functionality that is not implemented: {name}",
        Header=name,
    )
