"""Parsers of the S3 face under coverage-guided fuzzing: each input has a value, or an S3 error."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from server import asgi
from server.access import globs, policies
from server.auth import chunked, postpolicy, presign, sigv2, sigv4
from server.s3 import documents, fields, forms, lifecycles, preconditions, tokens, wire_errors
from storage import byteranges
from tests.kit import guided

pytestmark = pytest.mark.campaign

RUNS, RUNS_FURTHER, RUNS_LONG = 400, 600, 60_000
NOT_IMPLEMENTED = 501
XML = (b"</", b"/>", b"<![CDATA[", b"]]>", b"&#x0;", b"&amp;", b"xmlns", b"<!DOCTYPE a>", b"<?")
SIGNED = "AWS4-HMAC-SHA256 Credential=AK/20250101/us-east-1/s3/aws4_request, "
POLICY = b'{"expiration": "2030-01-01T00:00:00Z", "conditions": [{"bucket": "b"}, %s]}'


@dataclass(frozen=True, kw_only=True)
class Parser:
    """A parser, texts that it takes, and words of its format."""

    parse: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    tokens: tuple[bytes, ...] = ()


def text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    """A parser of what a header has, which is latin-1."""
    return lambda data: parse(data.decode("latin-1"))


def headers(parse: Callable[[Any], object]) -> Callable[[bytes], object]:
    """A parser of headers, a line each."""

    def of_lines(data: bytes) -> object:
        lines = (line.partition(": ") for line in data.decode("latin-1").split("\n"))
        return parse({name.lower(): value for name, _, value in lines})

    return of_lines


def form(data: bytes) -> None:
    decoder = forms.Decoder("b-1")
    decoder.feed(data)
    decoder.finish()


def framed(data: bytes) -> None:
    said = chunked.Payload(
        mode="unsigned-trailer", decoded_length=5, seed=None, trailers=("x-amz-checksum-crc32",)
    )
    decoder = said.decoder()
    decoder.feed(data)
    decoder.finish()


LISTING = ("objects", "bucket", "pre/", "/")


def listing_token(data: bytes) -> None:
    """A token is of no query, or continues behind a key for which the query has a token."""
    after = tokens.redeem(data.decode("latin-1"), *LISTING)
    if after is not None:
        assert tokens.redeem(tokens.issue(after, *LISTING), *LISTING) == after


def presigned(data: bytes) -> object:
    """A query as the exchange reads it: parsed by the version of its signature."""
    pairs = asgi.parse_pairs(data)
    if presign.is_v4(data):
        return presign.parse_v4(pairs)
    if not presign.is_v2(data):
        return None
    expires = presign.parse_v2(pairs).expires
    return signed_by_v2(b"Content-MD5: a", data, expires)


def sigv2_header(data: bytes) -> object:
    """The first line has the Authorization header, the second the query, the others are headers."""
    authorization, _, rest = data.partition(b"\n")
    query, _, lines = rest.partition(b"\n")
    sigv2.parse_authorization(authorization.decode("latin-1"))
    return signed_by_v2(lines, query, None)


def signed_by_v2(lines: bytes, query: bytes, expires: str | None) -> bytes:
    pairs = [line.partition(b": ") for line in lines.split(b"\n")]
    text = sigv2.string_to_sign(
        method="GET",
        raw_path=b"/b/k",
        query=query,
        headers=[(name.lower(), value) for name, _, value in pairs],
        bucket_of_host=None,
        expires=expires,
    )
    assert sigv2.sign("secret", text)
    return text


POLICY_SEEDS = (
    b'{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", '
    b'"Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}]}',
    b'{"Statement": {"Sid": "a", "Effect": "Deny", "Principal": {"AWS": ["000000000000"]}, '
    b'"NotAction": ["s3:*"], "Resource": ["arn:aws:s3:::b"], "Condition": {"StringLike": '
    b'{"s3:prefix": ["${aws:username}/*"]}, "IpAddress": {"aws:SourceIp": "10.0.0.0/8"}, '
    b'"NumericLessThan": {"s3:max-keys": "5"}, "Bool": {"aws:SecureTransport": "true"}}}}',
)

PARSERS = {
    "policy": Parser(
        parse=lambda data: policies.parse_policy(data, policy_type="resource"),
        seeds=POLICY_SEEDS,
        tokens=(
            b"[" * 500,
            b"null",
            b"1e999",
            b"{}",
            b'"\\ud800"',
            b"NaN",
            b"IfExists",
            b"ForAnyValue:",
            b"DateGreaterThan",
            b"NotPrincipal",
            b"::/0",
            b"${",
            b"arn:aws:",
        ),
    ),
    "listing token": Parser(
        parse=listing_token,
        seeds=(tokens.issue("pre/a", *LISTING).encode(), tokens.issue("\u00e9", *LISTING).encode()),
        tokens=(b"=", b"-", b"_", b"//"),
    ),
    "presigned query": Parser(
        parse=presigned,
        seeds=(
            b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AK%2F20250101%2Fus-east-1%2Fs3%2F"
            b"aws4_request&X-Amz-Date=20250101T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host"
            b"&X-Amz-Signature=" + b"0" * 64,
            b"AWSAccessKeyId=AK&Expires=1735689600&Signature=a%2Bb%3D&x-amz-acl=private&uploads",
        ),
        tokens=(b"&", b"=", b"%2", b"%00", b"+", b"Expires=", b"X-Amz-Security-Token=t", b"-1"),
    ),
    "SigV2 header": Parser(
        parse=sigv2_header,
        seeds=(
            b"AWS AK:c2ln\nacl&versionId=null\nDate: Thu, 01 Jan 2025 00:00:00 GMT\nx-amz-a: 1",
            b"AWS AK:c2ln\nresponse-expires=a%20b\nx-amz-date: \nContent-Type: a",
        ),
        tokens=(b"AWS ", b":", b"\nx-amz-a: 2", b"&location", b"%zz"),
    ),
    "versioning": Parser(
        parse=documents.parse_versioning,
        seeds=(
            b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
            b"<VersioningConfiguration><Status>Suspended</Status><MfaDelete>Disabled</MfaDelete>"
            b"</VersioningConfiguration>",
        ),
        tokens=XML,
    ),
    "object lock": Parser(
        parse=documents.parse_object_lock,
        seeds=(
            b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>"
            b"<DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>"
            b"</ObjectLockConfiguration>",
        ),
        tokens=(*XML, b"<Years>1</Years>", b"COMPLIANCE", b"-1"),
    ),
    "retention": Parser(
        parse=documents.parse_retention,
        seeds=(
            b"<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2030-01-01T00:00:00Z"
            b"</RetainUntilDate></Retention>",
            b"<Retention/>",
        ),
        tokens=(*XML, b"2030-02-30T25:61:61.999999999999+99:99", b"0000", b"+00:00"),
    ),
    "legal hold": Parser(
        parse=documents.parse_legal_hold,
        seeds=(b"<LegalHold><Status>ON</Status></LegalHold>",),
        tokens=(*XML, b"OFF"),
    ),
    "tagging": Parser(
        parse=documents.parse_tagging,
        seeds=(b"<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>",),
        tokens=XML,
    ),
    "deletes": Parser(
        parse=documents.parse_deletes,
        seeds=(b"<Delete><Quiet>true</Quiet><Object><Key>a</Key></Object></Delete>",),
        tokens=(*XML, b"<VersionId>null</VersionId>", b"<ETag>a</ETag>"),
    ),
    "complete": Parser(
        parse=documents.parse_complete,
        seeds=(
            b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>a</ETag></Part>"
            b"</CompleteMultipartUpload>",
        ),
        tokens=(*XML, b"<ChecksumCRC32>AAAAAA==</ChecksumCRC32>"),
    ),
    "lifecycle": Parser(
        parse=lifecycles.parse,
        seeds=(
            b"<LifecycleConfiguration><Rule><ID>a</ID><Filter><Prefix>p</Prefix></Filter>"
            b"<Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>"
            b"</LifecycleConfiguration>",
            b"<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status><Transition><Days>0"
            b"</Days><StorageClass>STANDARD_IA</StorageClass></Transition>"
            b"<NoncurrentVersionTransition><NoncurrentDays>0</NoncurrentDays><StorageClass>"
            b"GLACIER_IR</StorageClass></NoncurrentVersionTransition></Rule>"
            b"</LifecycleConfiguration>",
        ),
        tokens=(*XML, b"<Date>2030-01-01T00:00:00Z</Date>", b"<And>", b"</And>", b"GLACIER"),
    ),
    "cors": Parser(
        parse=documents.parse_cors,
        seeds=(
            b"<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod>"
            b"<AllowedOrigin>*</AllowedOrigin></CORSRule></CORSConfiguration>",
        ),
        tokens=(*XML, b"<MaxAgeSeconds>5</MaxAgeSeconds>"),
    ),
    "acl": Parser(
        parse=documents.parse_acl,
        seeds=(
            b'<AccessControlPolicy xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><Owner>'
            b"<ID>a</ID></Owner><AccessControlList><Grant><Grantee xsi:type="
            b'"CanonicalUser"><ID>a</ID></Grantee><Permission>READ</Permission></Grant>'
            b"</AccessControlList></AccessControlPolicy>",
        ),
        tokens=(*XML, b"Group", b"<URI>u</URI>"),
    ),
    "create bucket": Parser(
        parse=documents.parse_create_bucket,
        seeds=(
            b"<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint>"
            b"</CreateBucketConfiguration>",
            b" ",
        ),
        tokens=(*XML, b"us-east-1", b"<Bucket><Type>Directory</Type></Bucket>", b"<Tags/>"),
    ),
    "public access block": Parser(
        parse=documents.parse_public_access_block,
        seeds=(
            b"<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>"
            b"<RestrictPublicBuckets>FALSE</RestrictPublicBuckets></PublicAccessBlockConfiguration>",
        ),
        tokens=(*XML, b"<IgnorePublicAcls>true</IgnorePublicAcls>", b"<BlockPublicPolicy>"),
    ),
    "ownership": Parser(
        parse=documents.parse_ownership,
        seeds=(
            b"<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership>"
            b"</Rule></OwnershipControls>",
        ),
        tokens=(*XML, b"ObjectWriter", b"BucketOwnerPreferred", b"<Rule>", b"</Rule>"),
    ),
    "encryption": Parser(
        parse=documents.parse_encryption,
        seeds=(
            b"<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>"
            b"<SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault>"
            b"<BucketKeyEnabled>false</BucketKeyEnabled></Rule>"
            b"</ServerSideEncryptionConfiguration>",
        ),
        tokens=(*XML, b"aws:kms", b"<KMSMasterKeyID>a</KMSMasterKeyID>", b"<Rule>", b"</Rule>"),
    ),
    "logging": Parser(
        parse=documents.parse_logging,
        seeds=(
            b"<BucketLoggingStatus><LoggingEnabled><TargetBucket>b</TargetBucket><TargetPrefix>p"
            b"</TargetPrefix></LoggingEnabled></BucketLoggingStatus>",
            b"<BucketLoggingStatus/>",
        ),
        tokens=(
            *XML,
            b"<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime"
            b"</PartitionDateSource></PartitionedPrefix></TargetObjectKeyFormat>",
            b"<TargetGrants/>",
        ),
    ),
    "form": Parser(
        parse=form,
        seeds=(
            b'--b-1\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n--b-1\r\n'
            b'Content-Disposition: form-data; name="file"; filename="x"\r\n\r\nbody\r\n--b-1--\r\n',
        ),
        tokens=(b"\r\n--b-1", b"--b-1--\r\n", b"; name*=utf-8''a", b"\\"),
    ),
    "post policy": Parser(
        parse=lambda data: postpolicy.parse_policy(base64.b64encode(data).decode()),
        seeds=(
            POLICY % b'["starts-with", "$key", ""]',
            POLICY % b'["content-length-range", 1, "2"]',
        ),
        tokens=(b"[" * 500, b"null", b"1e999", b"{}", b'"\\ud800"', b"NaN"),
    ),
    "aws-chunked": Parser(
        parse=framed,
        seeds=(b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n",),
        tokens=(b"0\r\n", b";chunk-signature=", b":"),
    ),
    "authorization": Parser(
        parse=text(sigv4.parse_authorization),
        seeds=((SIGNED + "SignedHeaders=host;x-amz-date, Signature=" + "0" * 64).encode(),),
        tokens=(b", ", b"=", b";", b"/"),
    ),
    "range": Parser(
        parse=text(lambda header: byteranges.parse(header, 1000)),
        seeds=(b"bytes=0-1", b"bytes=-5", b"bytes=5-"),
        tokens=(b"bytes=", b"-", b","),
    ),
    "written": Parser(
        parse=headers(fields.parse_written),
        seeds=(
            b"x-amz-tagging: a=1&b=%20\nx-amz-meta-a: =?utf-8?b?YQ==?=\nx-amz-acl: private",
            b"x-amz-object-lock-mode: GOVERNANCE\n"
            b"x-amz-object-lock-retain-until-date: 2030-01-01T00:00:00Z",
        ),
        tokens=(b"\nx-amz-grant-read: id=a", b"x-amz-storage-class: STANDARD", b"%zz"),
    ),
    "integrity": Parser(
        parse=headers(fields.parse_integrity),
        seeds=(b"content-md5: AAAAAAAAAAAAAAAAAAAAAA==", b"x-amz-checksum-crc32: AAAAAA=="),
        tokens=(b"\nx-amz-trailer: x-amz-checksum-crc32", b"\nx-amz-sdk-checksum-algorithm: CRC32"),
    ),
    "copy source": Parser(
        parse=headers(fields.parse_source),
        seeds=(b"x-amz-copy-source: /b/k?versionId=null", b"x-amz-copy-source: b/k%20"),
        tokens=(b"arn:aws:s3:", b"?versionId="),
    ),
    "conditions": Parser(
        parse=headers(preconditions.parse_write),
        seeds=(b'if-match: "a"', b"if-none-match: *"),
        tokens=(b'W/"', b", "),
    ),
    "pattern": Parser(parse=text(globs.parse), seeds=(b"a*b?${*}",), tokens=(b"${aws:username}",)),
}


def checked(parser: Parser) -> Callable[[bytes], None]:
    """Return a target that fails unless an input has a value or an error of the client."""

    def parse(data: bytes) -> None:
        try:
            parser.parse(data)
        except Exception as error:
            answer = wire_errors.encode(
                error, method="GET", resource="/", request_id="r", host_id="h"
            )
            if answer.status >= 500 and answer.status != NOT_IMPLEMENTED:
                raise

    return parse


@pytest.mark.parametrize(
    "runs",
    [
        RUNS,
        pytest.param(RUNS_FURTHER, marks=pytest.mark.further),
        pytest.param(RUNS_LONG, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
    ids=["short", "further", "long"],
)
@pytest.mark.parametrize("name", PARSERS)
def test_each_input_that_takes_a_new_path_has_a_value_or_an_error_of_the_client(
    name: str, runs: int
) -> None:
    parser = PARSERS[name]
    of_seeds: set[guided.Step] = set()
    for seed in parser.seeds:
        parser.parse(seed)  # no error: the seeds are texts of the format
        of_seeds |= guided.steps_of(checked(parser), seed, guided.OURS)
    explored = guided.explore(
        checked(parser), parser.seeds, runs=runs, seed=name, tokens=parser.tokens
    )
    print(f"{name}: {len(of_seeds)} steps, then {len(explored.steps)}, {len(explored.inputs)} kept")
    assert explored.steps > of_seeds, "the mutations reach what the seeds do not"


def nested(data: bytes) -> None:
    """A parser with a fault behind five bytes, one after the other."""
    if data[:1] != b"q":
        return
    if data[1:2] != b"u":
        return
    if data[2:3] != b"i":
        return
    if data[3:4] != b"t":
        return
    if data[4:5] == b"e":
        raise RecursionError("planted")


def test_a_planted_fault_behind_five_bytes_is_reached_step_by_step() -> None:
    seeds = (b"aaaaaaaa",)
    with pytest.raises(guided.Failed, match=r"quite.*planted"):
        guided.explore(nested, seeds, runs=200_000, seed="1", folders=(__file__,))
    # Without the steps as a guide the same number of runs does not come near.
    guided.explore(nested, seeds, runs=20_000, seed="1", folders=("nowhere",))
