"""XML bodies as values: the document, or one of two errors."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server import errors as kit_errors
from server.s3 import documents, errors, fields, lifecycles
from tests.kit import examples

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
    documents.parse_logging,
    documents.parse_encryption,
    documents.check_request_payment,
    documents.check_notification,
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
    assert documents.parse_create_bucket(b"") == documents.NewBucket()
    assert documents.parse_create_bucket(b"<CreateBucketConfiguration/>") == documents.NewBucket()


def test_a_bucket_comes_with_a_location_and_tags() -> None:
    body = (
        b"<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint><Tags>"
        b"<Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value/></Tag></Tags>"
        b"</CreateBucketConfiguration>"
    )
    wanted = documents.NewBucket(constraint="eu-west-1", tags={"a": "1", "b": ""})
    assert documents.parse_create_bucket(body) == wanted


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


@examples.at_most(300)
@given(st.one_of(TREES.map(str.encode), st.binary(max_size=200)))
def test_garbage_gives_a_value_or_a_typed_error(data: bytes) -> None:
    for parse in PARSERS:
        with contextlib.suppress(*REFUSALS):
            parse(data)


SAMPLES: tuple[tuple[Callable[[bytes], object], str], ...] = (
    (
        documents.parse_create_bucket,
        "<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint>"
        "</CreateBucketConfiguration>",
    ),
    (
        documents.parse_deletes,
        "<Delete><Quiet>true</Quiet><Object><Key>k</Key><VersionId>null</VersionId>"
        "<ETag>&quot;a&quot;</ETag></Object><Object><Key>l</Key></Object></Delete>",
    ),
    (
        documents.parse_complete,
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>a</ETag>"
        "<ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part><Part><PartNumber>2</PartNumber>"
        "<ETag>b</ETag></Part></CompleteMultipartUpload>",
    ),
    (
        documents.parse_tagging,
        "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag><Tag><Key>c</Key><Value/></Tag>"
        "</TagSet></Tagging>",
    ),
    (
        documents.parse_versioning,
        "<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Disabled</MfaDelete>"
        "</VersioningConfiguration>",
    ),
    (
        documents.parse_object_lock,
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>"
        "<DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>"
        "</ObjectLockConfiguration>",
    ),
    (
        documents.parse_retention,
        "<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2140-01-01T00:00:00Z"
        "</RetainUntilDate></Retention>",
    ),
    (documents.parse_legal_hold, "<LegalHold><Status>ON</Status></LegalHold>"),
    (
        documents.parse_cors,
        "<CORSConfiguration><CORSRule><ID>a</ID><AllowedMethod>GET</AllowedMethod>"
        "<AllowedOrigin>*</AllowedOrigin><AllowedHeader>*</AllowedHeader>"
        "<ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>1</MaxAgeSeconds></CORSRule>"
        "</CORSConfiguration>",
    ),
    (
        documents.parse_public_access_block,
        "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>"
        "<IgnorePublicAcls>false</IgnorePublicAcls></PublicAccessBlockConfiguration>",
    ),
    (
        documents.parse_ownership,
        "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>"
        "</OwnershipControls>",
    ),
    (
        documents.parse_acl,
        "<AccessControlPolicy><Owner><ID>a</ID></Owner><AccessControlList><Grant>"
        "<Grantee xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' "
        "xsi:type='CanonicalUser'><ID>b</ID></Grantee><Permission>READ</Permission></Grant>"
        "</AccessControlList></AccessControlPolicy>",
    ),
    (
        documents.parse_logging,
        "<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket>"
        "<TargetPrefix>p/</TargetPrefix><TargetObjectKeyFormat><PartitionedPrefix>"
        "<PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix>"
        "</TargetObjectKeyFormat></LoggingEnabled></BucketLoggingStatus>",
    ),
    (
        documents.parse_encryption,
        "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>"
        "<SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault>"
        "<BucketKeyEnabled>false</BucketKeyEnabled></Rule></ServerSideEncryptionConfiguration>",
    ),
    (
        lifecycles.parse,
        "<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter><And>"
        "<Prefix>p/</Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And></Filter><Expiration>"
        "<Days>1</Days></Expiration><NoncurrentVersionExpiration><NoncurrentDays>1"
        "</NoncurrentDays></NoncurrentVersionExpiration></Rule></LifecycleConfiguration>",
    ),
)
"""A document that each parser takes. Changes of it reach further than trees of any names."""
TEXTS = st.sampled_from(["", "0", "-1", "9" * 30, " x ", "\u00e9", "true", "Enabled", "2140-01-01"])


@st.composite
def changed_samples(draw: st.DrawFn) -> tuple[Callable[[bytes], object], bytes]:
    """Return a parser with its sample, of which elements are repeated, renamed, moved or gone."""
    parse, sample = draw(st.sampled_from(SAMPLES))
    root = ElementTree.fromstring(sample)
    for _ in range(draw(st.integers(0, 3))):
        parents = [each for each in root.iter() if len(each)]
        parent = draw(st.sampled_from(parents)) if parents else root
        child = draw(st.sampled_from(list(parent))) if len(parent) else root
        match draw(st.sampled_from(["remove", "repeat", "rename", "text", "move"])):
            case "remove" if child is not root:
                parent.remove(child)
            case "repeat" if child is not root:
                parent.append(copy.deepcopy(child))
            case "rename":
                child.tag = draw(NAMES)
            case "text":
                child.text = draw(TEXTS)
            case "move" if child is not root:
                parent.remove(child)
                root.append(child)
    return parse, ElementTree.tostring(root)


@pytest.mark.parametrize(("parse", "sample"), SAMPLES)
def test_each_sample_is_a_document_that_its_parser_takes(
    parse: Callable[[bytes], object], sample: str
) -> None:
    parse(sample.encode())


@examples.at_most(1000)
@given(changed_samples())
def test_a_changed_document_gives_a_value_or_a_typed_error(
    changed: tuple[Callable[[bytes], object], bytes],
) -> None:
    parse, data = changed
    with contextlib.suppress(*REFUSALS, errors.S3Error):
        parse(data)


ACL = b"<AccessControlPolicy>%s<AccessControlList>%s</AccessControlList></AccessControlPolicy>"
GRANT = b"<Grant><Grantee><ID>%s</ID></Grantee><Permission>%s</Permission></Grant>"
CORS = b"<CORSConfiguration><CORSRule>%s</CORSRule></CORSConfiguration>"
LOCK = (
    b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>"
    b"<DefaultRetention>%s</DefaultRetention></Rule></ObjectLockConfiguration>"
)


@pytest.mark.parametrize(
    ("parse", "body", "element"),
    [
        (
            documents.parse_object_lock,
            LOCK % b"<Mode>GOVERNANCE</Mode><DefaultEventHold><Days>1</Days></DefaultEventHold>",
            "DefaultEventHold",
        ),
        (
            documents.parse_object_lock,
            LOCK % b"<Mode>GOVERNANCE</Mode><Days>1</Days><DefaultEventHold/>",
            "DefaultEventHold",
        ),
        (
            documents.parse_retention,
            b"<Retention><Mode>COMPLIANCE</Mode><EventHold>ON</EventHold></Retention>",
            "EventHold",
        ),
        (
            documents.parse_retention,
            b"<Retention><EventHoldDuration><Days>1</Days></EventHoldDuration></Retention>",
            "EventHoldDuration",
        ),
    ],
)
def test_an_event_hold_is_refused_by_name(
    parse: Callable[[bytes], object], body: bytes, element: str
) -> None:
    with pytest.raises(errors.S3FeatureNotImplemented) as raised:
        parse(body)
    assert raised.value.fields == {"Element": element}


@pytest.mark.parametrize(
    ("parse", "body"),
    [
        (
            documents.parse_create_bucket,
            b"<CreateBucketConfiguration>eu</CreateBucketConfiguration>",
        ),
        (
            documents.parse_create_bucket,
            b"<CreateBucketConfiguration><LocationConstraint>eu<b/>-1</LocationConstraint>"
            b"</CreateBucketConfiguration>",
        ),
        *(
            (documents.parse_deletes, b"<Delete>%s</Delete>" % content)
            for content in (
                b"<Object><Key>lo<b/>gs</Key></Object>",
                b"<Object><Key>a</Key><VersionId>v<b>1</b></VersionId></Object>",
                b"<Object><Key>a</Key><VersionId><b>1</b></VersionId></Object>",
                b"<Object><Key>a</Key><ETag><b>1</b></ETag></Object>",
                b"<Object>b<Key>a</Key></Object>",
                b"<Quiet>tr<b/>ue</Quiet><Object><Key>a</Key></Object>",
            )
        ),
        (
            documents.parse_complete,
            b"<CompleteMultipartUpload><Part><PartNumber>1<b/></PartNumber><ETag>a</ETag></Part>"
            b"</CompleteMultipartUpload>",
        ),
        *(
            (
                documents.parse_tagging,
                b"<Tagging><TagSet><Tag>%s</Tag></TagSet></Tagging>" % content,
            )
            for content in (
                b"<Key>lo<b/>gs</Key><Value>v</Value>",
                b"<Key>k</Key><Value><b>v</b></Value>",
                b"text<Key>k</Key><Value>v</Value>",
            )
        ),
        (documents.parse_tagging, b"<Tagging><TagSet>k=v</TagSet></Tagging>"),
        (
            documents.parse_versioning,
            b"<VersioningConfiguration><Status>En<b/>abled</Status></VersioningConfiguration>",
        ),
        (documents.parse_object_lock, LOCK % b"<Mode>GOVERNANCE</Mode><Days>1<b/>0</Days>"),
        (documents.parse_object_lock, LOCK % b"<Mode>GOVERNANCE<b/></Mode><Days>10</Days>"),
        (documents.parse_retention, b"<Retention>GOVERNANCE</Retention>"),
        (
            documents.parse_retention,
            b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2140-01-01T00:00:00Z<b/>"
            b"</RetainUntilDate></Retention>",
        ),
        (documents.parse_legal_hold, b"<LegalHold><Status>O<b/>FF</Status></LegalHold>"),
        (
            documents.parse_cors,
            CORS % b"<AllowedMethod>GET</AllowedMethod><AllowedOrigin>*<b>.a</b></AllowedOrigin>",
        ),
        (
            documents.parse_public_access_block,
            b"<PublicAccessBlockConfiguration><BlockPublicAcls>fal<b/>se</BlockPublicAcls>"
            b"</PublicAccessBlockConfiguration>",
        ),
        (
            documents.parse_ownership,
            b"<OwnershipControls><Rule><ObjectOwnership>Object<b/>Writer</ObjectOwnership></Rule>"
            b"</OwnershipControls>",
        ),
        (documents.parse_acl, ACL % (b"<Owner><ID>a<b/>b</ID></Owner>", b"")),
        (documents.parse_acl, ACL % (b"", GRANT % (b"a<b/>b", b"READ"))),
        (documents.parse_acl, ACL % (b"", GRANT % (b"a", b"RE<b/>AD"))),
        (documents.parse_acl, ACL % (b"", b"text")),
    ],
)
def test_elements_within_a_text_and_text_among_elements_are_malformed(
    parse: Callable[[bytes], object], body: bytes
) -> None:
    """What is left of them names another object, tag or grantee, or removes a retention."""
    expected = errors.MalformedAcl if parse is documents.parse_acl else kit_errors.MalformedXML
    with pytest.raises(expected):
        parse(body)


def test_unknown_elements_of_tags_and_grants_are_ignored_with_what_they_contain() -> None:
    odd = b"<Odd>one<b>two</b>three</Odd>"
    tag = b"<Tag>" + odd + b"<Key>k</Key><Value>v</Value></Tag>"
    body = b"<Tagging>" + odd + b"<TagSet>\n" + tag + b"\n</TagSet></Tagging>"
    assert documents.parse_tagging(body) == {"k": "v"}
    grantee = b"<ID>a</ID><DisplayName>" + odd + b"</DisplayName>" + odd
    body = ACL % (
        b"<Owner>" + odd + b"<ID>o</ID></Owner>",
        b"<Grant><Grantee>"
        + grantee
        + b"</Grantee>"
        + odd
        + b"<Permission>READ</Permission></Grant>",
    )
    assert documents.parse_acl(body) == documents.WantedAclDocument(
        owner_id="o", grants=(fields.WantedGrant(type="id", grantee="a", permission="READ"),)
    )


REPEATED = {
    "CreateBucket": (
        documents.parse_create_bucket,
        "<CreateBucketConfiguration><LocationConstraint>a</LocationConstraint>"
        "<LocationConstraint>b</LocationConstraint></CreateBucketConfiguration>",
    ),
    "PutBucketVersioning": (
        documents.parse_versioning,
        "<VersioningConfiguration><Status>Enabled</Status><Status>Suspended</Status>"
        "</VersioningConfiguration>",
    ),
    "DeleteObjects, the key": (
        documents.parse_deletes,
        "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
    ),
    "DeleteObjects, the version": (
        documents.parse_deletes,
        "<Delete><Object><Key>a</Key><VersionId>1</VersionId><VersionId>2</VersionId></Object>"
        "</Delete>",
    ),
    "DeleteObjects, quiet": (
        documents.parse_deletes,
        "<Delete><Object><Key>a</Key></Object><Quiet>true</Quiet><Quiet>false</Quiet></Delete>",
    ),
    "CompleteMultipartUpload, the number": (
        documents.parse_complete,
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><PartNumber>2</PartNumber>"
        "<ETag>a</ETag></Part></CompleteMultipartUpload>",
    ),
    "CompleteMultipartUpload, a checksum": (
        documents.parse_complete,
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>a</ETag>"
        "<ChecksumCRC32>AAAAAA==</ChecksumCRC32><ChecksumCRC32>BBBBBB==</ChecksumCRC32></Part>"
        "</CompleteMultipartUpload>",
    ),
    "PutObjectTagging": (
        documents.parse_tagging,
        "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value><Value>2</Value></Tag></TagSet>"
        "</Tagging>",
    ),
    "PutPublicAccessBlock": (
        documents.parse_public_access_block,
        "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>"
        "<BlockPublicAcls>false</BlockPublicAcls></PublicAccessBlockConfiguration>",
    ),
    "PutBucketOwnershipControls": (
        documents.parse_ownership,
        "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership>"
        "<ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>",
    ),
    "an algorithm of encryption": (
        documents.parse_encryption,
        "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>"
        "<SSEAlgorithm>AES256</SSEAlgorithm><SSEAlgorithm>aws:kms</SSEAlgorithm>"
        "</ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>",
    ),
    "a default of encryption": (
        documents.parse_encryption,
        "<ServerSideEncryptionConfiguration><Rule>"
        + 2
        * "<ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>"
        "</ApplyServerSideEncryptionByDefault>" + "</Rule></ServerSideEncryptionConfiguration>",
    ),
}


@pytest.mark.parametrize("name", list(REPEATED))
def test_an_element_that_may_stand_once_and_is_repeated_is_malformed(name: str) -> None:
    """AWS validates documents against a schema; two parsers might use different occurrences."""
    parse, text = REPEATED[name]
    with pytest.raises((errors.UnexpectedXml, kit_errors.MalformedXML)):
        parse(text.encode())


def test_a_repeated_owner_of_an_access_control_list_is_malformed() -> None:
    owner = "<Owner><ID>a</ID></Owner>"
    text = f"<AccessControlPolicy>{owner * 2}<AccessControlList/></AccessControlPolicy>"
    with pytest.raises(errors.MalformedAcl):
        documents.parse_acl(text.encode())


def test_a_completion_names_up_to_ten_thousand_parts_with_checksums() -> None:
    part = (
        "<Part><PartNumber>{}</PartNumber><ETag>&quot;" + "a" * 32 + "&quot;</ETag>"
        "<ChecksumSHA256>" + "A" * 43 + "=</ChecksumSHA256></Part>"
    )

    def body(count: int) -> bytes:
        parts = "".join(part.format(number) for number in range(1, count + 1))
        return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()

    assert [each.part_number for each in documents.parse_complete(body(10_000))] == list(
        range(1, 10_001)
    )
    with pytest.raises(errors.UnexpectedXml):
        documents.parse_complete(body(10_001))
