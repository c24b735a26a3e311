"""rule: the XML bodies of S3 requests, parsed into values.

Elements match with and without the namespace, because some clients leave it out. A body that is not
the operation's document raises UnexpectedXml, or MalformedXML for elements within a text and text
among elements; an element for a feature that Boathouse does not have raises S3FeatureNotImplemented
with its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from server import errors as kit_errors
from server import xmltext
from server.access import acls
from server.accesslogs import targets
from server.s3 import cors, errors, fields
from storage import locks, model

_PART_FIELDS = frozenset({"ETag", "PartNumber"})
PUBLIC_ACCESS_BLOCK = (
    "BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"
)  # fmt: skip
"""Members of a public access block, in S3's order."""
OWNERSHIPS = ("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter")

_RESTORE_FIELDS = frozenset({
    "Days",
    "Type",
    "Tier",
    "Description",
    "GlacierJobParameters",
    "SelectParameters",
    "OutputLocation",
})  # fmt: skip
_COUNT = re.compile(r"0*[1-9][0-9]*")
_LOGGING_FIELDS = frozenset(
    {"TargetBucket", "TargetPrefix", "TargetGrants", "TargetObjectKeyFormat"}
)
_CORS_FIELDS = (
    "ID", "AllowedMethod", "AllowedOrigin", "AllowedHeader", "ExposeHeader", "MaxAgeSeconds"
)  # fmt: skip
_GRANTEES: Mapping[str, fields.GranteeType] = {
    "ID": "id",
    "URI": "group",
    "EmailAddress": "email",
}
_TARGET_FIELDS = frozenset({"Key", "VersionId", "ETag"})
_CHECKSUM_FIELDS: Mapping[str, str] = {
    f"Checksum{name.upper()}": name for name in fields.CHECKSUM_BYTES
}


AES256 = "AES256"
LOCK_DAYS_MAX = 36_500
LOCK_YEARS_MAX = 100
"""The longest default retention of a bucket."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewBucket:
    """The body of CreateBucket. constraint: None if it names no location."""

    constraint: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedAclDocument:
    """The body of PutBucketAcl or PutObjectAcl. owner_id: None if it names no owner."""

    owner_id: str | None
    grants: tuple[fields.WantedGrant, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Encryption:
    """The body of PutBucketEncryption. bucket_key: whether it asks for a bucket key, which counts
    for keys of KMS alone."""

    algorithm: str
    bucket_key: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectToDelete:
    """One key of DeleteObjects. etag: delete only if the object has this ETag."""

    key: str
    version_id: str | None = None
    etag: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Deletes:
    """The body of DeleteObjects. quiet: the response lists failures only."""

    targets: tuple[ObjectToDelete, ...]
    quiet: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedPart:
    """One part that CompleteMultipartUpload names; etag is bare."""

    part_number: int
    etag: str
    checksums: Mapping[str, str]


def parse_create_bucket(data: bytes) -> NewBucket:
    """Return CreateBucket's location constraint and tags. Raises InvalidTag, TooManyTags."""
    if not data.strip():
        return NewBucket()
    root = _root(data, "CreateBucketConfiguration")
    for child in root.children:
        if child.name not in ("LocationConstraint", "Tags"):
            raise _not_done(child.name)
    constraint, tags = root.child("LocationConstraint"), root.child("Tags")
    return NewBucket(
        constraint=None if constraint is None else constraint.text.strip() or None,
        tags={} if tags is None else _tags(tags, tags_max=fields.BUCKET_TAGS_MAX),
    )


def parse_versioning(data: bytes) -> model.Versioning:
    """Return PutBucketVersioning's state. Raises S3FeatureNotImplemented for MFA delete."""
    root = _root(data, "VersioningConfiguration")
    for child in root.children:
        if child.name not in ("Status", "MfaDelete", "MFADelete"):
            raise _malformed()
        if child.name != "Status" and child.text.strip() != "Disabled":
            raise _not_done(child.name)
    status = root.child("Status")
    if status is None:
        raise errors.IllegalVersioning("The Versioning element must be specified")
    match status.text.strip():
        case "Enabled":
            return "Enabled"
        case "Suspended":
            return "Suspended"
    raise _malformed()


def parse_object_lock(data: bytes) -> locks.DefaultRetention | None:
    """Return PutObjectLockConfiguration's default retention; None if it has none."""
    root = _root(data, "ObjectLockConfiguration")
    rule, status = root.child("Rule"), root.child("ObjectLockEnabled")
    if len(root.children) != 1 + (rule is not None) or status is None:
        raise _malformed()
    if status.text.strip() != "Enabled":
        raise _malformed()
    if rule is None:
        return None
    default = rule.child("DefaultRetention")
    if default is not None:
        _refuse(default, "DefaultEventHold")
    if default is None or len(rule.children) != 1 or len(default.children) != 2:
        raise _malformed()
    mode = _mode(default)
    days, years = default.child("Days"), default.child("Years")
    if days is not None:
        return locks.DefaultRetention(mode=mode, unit="Days", count=_period(days, LOCK_DAYS_MAX))
    if years is not None:
        return locks.DefaultRetention(mode=mode, unit="Years", count=_period(years, LOCK_YEARS_MAX))
    raise _malformed()


def parse_retention(data: bytes) -> locks.VersionRetention | None:
    """Return PutObjectRetention's retention; None if it removes the retention."""
    root = _root(data, "Retention")
    _refuse(root, "EventHold", "EventHoldDuration")
    if not root.children:
        return None
    until = root.child("RetainUntilDate")
    if until is None or len(root.children) != 2:
        raise _malformed()
    until_ms = locks.parse_moment(until.text.strip())
    if until_ms is None:
        raise _malformed()
    return locks.VersionRetention(mode=_mode(root), until_ms=until_ms)


def parse_legal_hold(data: bytes) -> bool:
    """Return whether PutObjectLegalHold turns the legal hold on."""
    root = _root(data, "LegalHold")
    status = root.child("Status")
    if status is None or len(root.children) != 1 or status.text.strip() not in ("ON", "OFF"):
        raise _malformed()
    return status.text.strip() == "ON"


def _mode(element: xmltext.Element) -> locks.Mode:
    mode = element.child("Mode")
    match "" if mode is None else mode.text.strip():
        case "GOVERNANCE":
            return "GOVERNANCE"
        case "COMPLIANCE":
            return "COMPLIANCE"
    raise _malformed()


def _period(element: xmltext.Element, count_max: int) -> int:
    """Return a number of days or years. Raises InvalidRetentionPeriod."""
    text = element.text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise _malformed()
    count = int(text)
    if count < 1:
        raise errors.InvalidRetentionPeriod(
            "Default retention period must be a positive integer value."
        )
    if count > count_max:
        raise errors.InvalidRetentionPeriod(
            "Default retention period too large, must be less than or equal to "
            f"{count_max} {element.name.lower()}."
        )
    return count


def parse_deletes(data: bytes) -> Deletes:
    """Return the keys of DeleteObjects, at most a thousand."""
    root = _root(data, "Delete")
    quiet = root.child("Quiet")
    targets = []
    for child in root.children:
        if child.name == "Object":
            targets.append(_target(child))
        elif child is not quiet:
            raise _malformed()
    if not 1 <= len(targets) <= fields.KEYS_MAX:
        raise _malformed()
    return Deletes(
        targets=tuple(targets), quiet=quiet is not None and quiet.text.strip().lower() == "true"
    )


def parse_complete(data: bytes) -> tuple[NamedPart, ...]:
    """Return the parts of CompleteMultipartUpload, in the order of the document.

    Of entries for one part that follow one another the last counts: a client that sent a part again
    may name both.
    """
    root = _root(data, "CompleteMultipartUpload")
    if not root.children:
        raise errors.InvalidRequest("You must specify at least one part")
    parts = tuple(_part(child) for child in root.children)
    if len(parts) > fields.PARTS_MAX:
        raise _malformed()
    return tuple(
        part
        for part, following in zip(parts, (*parts[1:], None), strict=True)
        if following is None or following.part_number != part.part_number
    )


def parse_tagging(data: bytes, *, tags_max: int = fields.TAGS_MAX) -> dict[str, str]:
    """Return the tags of PutObjectTagging. Raises InvalidTag, TooManyTags."""
    root = _root(data, "Tagging")
    tag_set = root.child("TagSet")
    if tag_set is None:
        if root.children:
            raise _malformed()
        return {}
    return _tags(tag_set, tags_max=tags_max)


def parse_tag_resource(data: bytes) -> dict[str, str]:
    """Return the tags of S3 Control's TagResource. Raises InvalidTag, TooManyTags."""
    tags = _root(data, "TagResourceRequest").child("Tags")
    if tags is None:
        raise _malformed()
    return _tags(tags, tags_max=fields.BUCKET_TAGS_MAX)


def _tags(element: xmltext.Element, *, tags_max: int) -> dict[str, str]:
    pairs = []
    for tag in element.children:
        name, value = tag.child("Key"), tag.child("Value")
        if tag.name != "Tag" or name is None or value is None:
            raise _malformed()
        pairs.append((name.text, value.text))
    return fields.check_tags(pairs, tags_max=tags_max)


def parse_cors(data: bytes) -> tuple[cors.Rule, ...]:
    """Return the rules of PutBucketCors. Raises InvalidRequest for a rule that S3 refuses."""
    if len(data) > cors.BYTES_MAX:
        raise errors.InvalidRequest(f"A CORS configuration has at most {cors.BYTES_MAX} bytes")
    root = _root(data, "CORSConfiguration")
    rules = tuple(_cors_rule(child) for child in root.children)
    if not 1 <= len(rules) <= cors.RULES_MAX:
        raise _malformed()
    return rules


def parse_public_access_block(data: bytes) -> dict[str, bool]:
    """Return the members of PutPublicAccessBlock; an absent one is false."""
    root = _root(data, "PublicAccessBlockConfiguration")
    block = dict.fromkeys(PUBLIC_ACCESS_BLOCK, False)
    for child in root.children:
        text = child.text.strip().lower()
        if child.name not in block or root.child(child.name) is not child:
            raise _malformed()
        if text not in ("true", "false"):
            raise _malformed()
        block[child.name] = text == "true"
    return block


def parse_logging(data: bytes) -> targets.LogTarget | None:
    """Return PutBucketLogging's target; None if the document turns logging off."""
    root = _root(data, "BucketLoggingStatus")
    if not root.children:
        return None
    enabled = root.children[0]
    elements = {child.name: child for child in enabled.children}
    if len(root.children) > 1 or enabled.name != "LoggingEnabled":
        raise _malformed()
    if len(elements) != len(enabled.children) or not elements.keys() <= _LOGGING_FIELDS:
        raise _malformed()
    if "TargetGrants" in elements and elements["TargetGrants"].children:
        raise _not_done("TargetGrants")
    bucket, prefix = elements.get("TargetBucket"), elements.get("TargetPrefix")
    if bucket is None or prefix is None:
        raise _malformed()
    return targets.LogTarget(
        bucket=bucket.text.strip(),
        prefix=prefix.text,
        key_format=_key_format(elements.get("TargetObjectKeyFormat")),
    )


def _key_format(element: xmltext.Element | None) -> targets.KeyFormat | None:
    if element is None:
        return None
    if len(element.children) != 1:
        raise _malformed()
    (chosen,) = element.children
    if chosen.name == "SimplePrefix" and not chosen.children:
        return "simple"
    if chosen.name != "PartitionedPrefix" or len(chosen.children) > 1:
        raise _malformed()
    source = chosen.child("PartitionDateSource")
    if source is None:
        if chosen.children:
            raise _malformed()
        return "EventTime"
    match source.text.strip():
        case "EventTime":
            return "EventTime"
        case "DeliveryTime":
            return "DeliveryTime"
    raise _malformed()


def parse_encryption(data: bytes) -> Encryption:
    """Return the encryption that PutBucketEncryption wants for new objects.

    BlockedEncryptionTypes changes nothing: no bucket takes objects with a client's key (SSE-C).
    A rule of it alone leaves new objects with the default, AES256. Raises InvalidArgument for a key
    of KMS beside AES256, as AWS does.
    """
    root = _root(data, "ServerSideEncryptionConfiguration")
    if [child.name for child in root.children] != ["Rule"]:
        raise _malformed()
    algorithm = key_id = ""
    bucket_key = False
    rule = root.children[0]
    for child in rule.children:
        if rule.child(child.name) is not child:
            raise _malformed()
        match child.name:
            case "ApplyServerSideEncryptionByDefault":
                algorithm, key_id = _default_encryption(child)
            case "BucketKeyEnabled" if child.text.strip().lower() in ("", "false", "true"):
                bucket_key = child.text.strip().lower() == "true"
            case "BlockedEncryptionTypes":
                _check_blocked_types(child)
                if rule.child("ApplyServerSideEncryptionByDefault") is None:
                    algorithm = AES256
            case _:
                raise _malformed()
    if algorithm not in (AES256, "aws:kms", "aws:kms:dsse"):
        raise _malformed()
    if key_id and algorithm == AES256:
        raise errors.InvalidArgument(
            "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or "
            "aws:kms:dsse",
            ArgumentName="ApplyServerSideEncryptionByDefault",
        )
    return Encryption(algorithm=algorithm, bucket_key=bucket_key)


def _default_encryption(element: xmltext.Element) -> tuple[str, str]:
    """Return algorithm and key of KMS, each empty if the element does not name it."""
    for part in element.children:
        if part.name not in ("SSEAlgorithm", "KMSMasterKeyID"):
            raise _malformed()
    algorithm, key_id = element.child("SSEAlgorithm"), element.child("KMSMasterKeyID")
    return (
        "" if algorithm is None else algorithm.text.strip(),
        "" if key_id is None else key_id.text.strip(),
    )


def _check_blocked_types(element: xmltext.Element) -> None:
    for child in element.children:
        if child.name != "EncryptionType" or child.text.strip() not in ("NONE", "SSE-C"):
            raise _malformed()


def check_request_payment(data: bytes) -> None:
    """Raise S3FeatureNotImplemented unless the bucket's owner pays, as for every bucket."""
    root = _root(data, "RequestPaymentConfiguration")
    payer = root.child("Payer")
    text = "" if payer is None else payer.text.strip()
    if len(root.children) != 1 or text not in ("BucketOwner", "Requester"):
        raise _malformed()
    if text == "Requester":
        raise _not_done("Payer")


def check_restore(data: bytes) -> None:
    """Raise UnexpectedXml unless the document is that of RestoreObject."""
    root = _root(data, "RestoreRequest")
    if any(child.name not in _RESTORE_FIELDS for child in root.children):
        raise _malformed()
    days = root.child("Days")
    if days is not None and not _COUNT.fullmatch(days.text.strip()):
        raise _malformed()


def check_notification(data: bytes) -> None:
    """Raise S3FeatureNotImplemented unless nothing is notified of a bucket's events."""
    for child in _root(data, "NotificationConfiguration").children:
        raise _not_done(child.name)


def parse_ownership(data: bytes) -> str:
    """Return PutBucketOwnershipControls' object ownership."""
    root = _root(data, "OwnershipControls")
    rules = [child.child("ObjectOwnership") for child in root.children if child.name == "Rule"]
    if len(rules) != 1 or len(root.children) != 1 or rules[0] is None:
        raise _malformed()
    ownership = rules[0].text.strip()
    if ownership not in OWNERSHIPS:
        raise _malformed()
    return ownership


def parse_acl(data: bytes) -> WantedAclDocument:
    """Return the access control list of a document. Raises MalformedAcl."""
    root = xmltext.parse(data)
    try:
        return _acl(root)
    except kit_errors.MalformedXML:
        raise _malformed_acl() from None


def _acl(root: xmltext.Element) -> WantedAclDocument:
    grants = root.child("AccessControlList")
    if root.name != "AccessControlPolicy" or grants is None:
        raise _malformed_acl()
    owner = root.child("Owner")
    owner_id = None if owner is None else owner.child("ID")
    if owner_id is None:
        raise _malformed_acl()
    if any(child.name not in ("Owner", "AccessControlList") for child in root.children):
        raise _malformed_acl()
    if len(grants.children) > acls.GRANTS_MAX:
        raise _malformed_acl()
    return WantedAclDocument(
        owner_id=owner_id.text.strip(),
        grants=tuple(_grant(child) for child in grants.children),
    )


def _grant(element: xmltext.Element) -> fields.WantedGrant:
    grantee, permission = element.child("Grantee"), element.child("Permission")
    if element.name != "Grant" or grantee is None or permission is None:
        raise _malformed_acl()
    name = permission.text.strip()
    named = [
        (grantee_type, child.text.strip())
        for child in grantee.children
        if (grantee_type := _GRANTEES.get(child.name)) is not None
    ]
    if name not in acls.PERMISSIONS or len(named) != 1:
        raise _malformed_acl()
    grantee_type, text = named[0]
    return fields.WantedGrant(type=grantee_type, grantee=text, permission=name)


def _malformed_acl() -> errors.MalformedAcl:
    return errors.MalformedAcl(
        "The XML you provided was not well-formed or did not validate against our published schema"
    )


def _cors_rule(element: xmltext.Element) -> cors.Rule:
    texts: dict[str, list[str]] = {name: [] for name in _CORS_FIELDS}
    for child in element.children:
        if child.name not in texts:
            raise _malformed()
        texts[child.name].append(child.text.strip())
    methods, origins = texts["AllowedMethod"], texts["AllowedOrigin"]
    ages, ids = texts["MaxAgeSeconds"], texts["ID"]
    if element.name != "CORSRule" or not methods or not origins or len(ages) > 1 or len(ids) > 1:
        raise _malformed()
    for method in methods:
        if method not in cors.METHODS:
            raise errors.InvalidRequest(
                "Found unsupported HTTP method in CORS config. Unsupported method is " + method
            )
    for name in ("AllowedOrigin", "AllowedHeader"):
        for pattern in texts[name]:
            if pattern.count(cors.STAR) > 1:
                raise errors.InvalidRequest(
                    f'{name} "{pattern}" can not have more than one wildcard.'
                )
    for name in (*origins, *texts["AllowedHeader"], *texts["ExposeHeader"]):
        if not (name.isascii() and name.isprintable()):
            raise _malformed()
    # S3 takes an empty origin, which no request has.
    if "" in texts["AllowedHeader"] or "" in texts["ExposeHeader"]:
        raise _malformed()
    if ages and not (ages[0].isascii() and ages[0].isdigit() and len(ages[0]) <= 9):
        raise _malformed()
    if ids and len(ids[0]) > 255:
        raise errors.InvalidRequest("The ID of a CORS rule has at most 255 characters")
    return cors.Rule(
        id=ids[0] if ids else "",
        methods=tuple(methods),
        origins=tuple(origins),
        headers=tuple(texts["AllowedHeader"]),
        expose=tuple(texts["ExposeHeader"]),
        max_age_seconds=int(ages[0]) if ages else None,
    )


def _target(element: xmltext.Element) -> ObjectToDelete:
    for child in element.children:
        if child.name not in _TARGET_FIELDS:
            raise _not_done(child.name)
    key = element.child("Key")
    if key is None or not key.text:
        raise _malformed()
    version_id, etag = element.child("VersionId"), element.child("ETag")
    return ObjectToDelete(
        key=key.text,
        version_id=None if version_id is None else version_id.text or None,
        etag=None if etag is None else etag.text.strip().strip('"'),
    )


def _part(element: xmltext.Element) -> NamedPart:
    number, etag = element.child("PartNumber"), element.child("ETag")
    if element.name != "Part" or number is None or etag is None:
        raise _malformed()
    digits = number.text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 6):
        raise _malformed()
    if not 1 <= int(digits) <= fields.PARTS_MAX:
        raise _malformed()
    checksums = {}
    for child in element.children:
        if child.name in _PART_FIELDS:
            continue
        algorithm = _CHECKSUM_FIELDS.get(child.name)
        if algorithm is None or element.child(child.name) is not child:
            raise _malformed()
        if child.text.strip():  # a client without a checksum may send an empty element
            checksums[algorithm] = child.text.strip()
    return NamedPart(
        part_number=int(digits), etag=etag.text.strip().strip('"'), checksums=checksums
    )


def _root(data: bytes, name: str) -> xmltext.Element:
    root = xmltext.parse(data)
    if root.name != name:
        raise _malformed()
    return root


def _malformed() -> errors.UnexpectedXml:
    return errors.UnexpectedXml("the body is not the document that this operation requires")


def _refuse(element: xmltext.Element, *names: str) -> None:
    """Raise S3FeatureNotImplemented if an element has a child of one of these names."""
    for name in names:
        if element.child(name) is not None:
            raise _not_done(name)


def _not_done(name: str) -> errors.S3FeatureNotImplemented:
    return errors.S3FeatureNotImplemented(
        f"The element {name} asks for functionality that is not implemented", Element=name
    )
