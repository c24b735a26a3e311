"""XML bodies as values: the document, or one of two errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server import errors as kit_errors
from server.s3 import documents, errors

PARSERS: tuple[Callable[[bytes], object], ...] = (
    documents.parse_create_bucket,
    documents.parse_deletes,
    documents.parse_complete,
    documents.parse_tagging,
    documents.parse_versioning,
    documents.parse_object_lock,
    documents.parse_retention,
    documents.parse_legal_hold,
    documents.parse_cors,
    documents.parse_public_access_block,
    documents.parse_ownership,
    documents.parse_acl,
)
REFUSALS = (
    errors.UnexpectedXml,
    errors.S3FeatureNotImplemented,
    errors.InvalidTag,
    errors.IllegalVersioning,
    errors.InvalidRequest,
    errors.MalformedAcl,
    errors.TooManyTags,
    errors.InvalidRetentionPeriod,
    kit_errors.MalformedXML,
)


def test_deletes_keep_keys_as_they_are() -> None:
    body = (
        b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>'
        b"<Object><Key> a &amp; b </Key><VersionId>null</VersionId></Object>"
        b"<Object><Key>c</Key><ETag>&quot;1&quot;</ETag></Object></Delete>"
    )
    assert documents.parse_deletes(body) == documents.Deletes(
        quiet=True,
        targets=(
            documents.ObjectToDelete(key=" a & b ", version_id="null"),
            documents.ObjectToDelete(key="c", etag="1"),
        ),
    )


def test_complete_takes_parts_with_checksums_in_the_order_named() -> None:
    body = (
        b"<CompleteMultipartUpload><Part><ETag>b</ETag><PartNumber>2</PartNumber>"
        b"<ChecksumCRC64NVME>x=</ChecksumCRC64NVME></Part>"
        b"<Part><PartNumber>1</PartNumber><ETag>&#34;a&#34;</ETag></Part>"
        b"</CompleteMultipartUpload>"
    )
    assert documents.parse_complete(body) == (
        documents.NamedPart(part_number=2, etag="b", checksums={"crc64nvme": "x="}),
        documents.NamedPart(part_number=1, etag="a", checksums={}),
    )


def test_a_bucket_may_come_with_no_body_at_all() -> None:
    assert documents.parse_create_bucket(b"") is None
    assert documents.parse_create_bucket(b"<CreateBucketConfiguration/>") is None


def test_a_bucket_of_a_kind_that_is_not_done_is_refused_by_name() -> None:
    body = b"<CreateBucketConfiguration><Location/></CreateBucketConfiguration>"
    with pytest.raises(errors.S3FeatureNotImplemented) as raised:
        documents.parse_create_bucket(body)
    assert raised.value.fields == {"Element": "Location"}


def test_tags_come_in_pairs() -> None:
    body = (
        b"<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag>"
        b"<Tag><Value></Value><Key>b</Key></Tag></TagSet></Tagging>"
    )
    assert documents.parse_tagging(body) == {"a": "1", "b": ""}


@pytest.mark.parametrize(
    "number", ["0", "10001", "-1", "x", "", "1.0", "99999999999999999999", "٣", "0" * 5000 + "1"]
)
def test_a_part_number_out_of_bounds_is_malformed(number: str) -> None:
    body = (
        "<CompleteMultipartUpload><Part><ETag>a</ETag>"
        f"<PartNumber>{number}</PartNumber></Part></CompleteMultipartUpload>"
    ).encode()
    with pytest.raises(errors.UnexpectedXml):
        documents.parse_complete(body)


NAMES = st.sampled_from(
    ["Delete", "Object", "Key", "Quiet", "VersionId", "CompleteMultipartUpload", "Part", "ETag",
     "PartNumber", "ChecksumCRC32", "Tagging", "TagSet", "Tag", "Value", "LocationConstraint",
     "CreateBucketConfiguration", "VersioningConfiguration", "Status", "MfaDelete",
     "ObjectLockConfiguration", "ObjectLockEnabled", "Rule", "DefaultRetention", "Mode", "Days",
     "Years", "Retention", "RetainUntilDate", "LegalHold", "CORSConfiguration", "CORSRule",
     "AllowedMethod", "AllowedOrigin", "MaxAgeSeconds", "PublicAccessBlockConfiguration",
     "BlockPublicAcls", "OwnershipControls", "ObjectOwnership", "AccessControlPolicy", "Owner",
     "ID", "AccessControlList", "Grant", "Grantee", "URI", "EmailAddress", "Permission",
     "LifecycleConfiguration", "Filter", "Prefix", "Expiration", "Date", "And", "x"]
)  # fmt: skip
TREES = st.recursive(
    st.sampled_from(
        [
            "",
            "1",
            "k",
            "&amp;",
            " ",
            "true",
            "Enabled",
            "GOVERNANCE",
            "ON",
            "-5",
            "2140-01-01",
            "GET",
            "*",
            "READ",
            "ObjectWriter",
            "9" * 30,
        ]
    ),
    lambda inner: st.builds(
        lambda name, parts: f"<{name}>{''.join(parts)}</{name}>",
        NAMES,
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.one_of(TREES.map(str.encode), st.binary(max_size=200)))
def test_garbage_gives_a_value_or_a_typed_error(data: bytes) -> None:
    for parse in PARSERS:
        with contextlib.suppress(*REFUSALS):
            parse(data)


@pytest.mark.parametrize(
    "fields",
    [
        b"<Key>lo<b/>gs</Key>",
        b"<Key>a</Key><VersionId>v<b>1</b></VersionId>",
        b"<Key>a</Key><VersionId><b>1</b></VersionId>",
        b"<Key>a</Key><ETag><b>1</b></ETag>",
    ],
)
def test_a_deletion_with_elements_within_its_texts_is_malformed(fields: bytes) -> None:
    """The text beside them names another object, or no version, which removes the newest one."""
    body = b"<Delete><Object>%s</Object></Delete>" % fields
    with pytest.raises(errors.UnexpectedXml):
        documents.parse_deletes(body)
