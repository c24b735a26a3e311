"""The published examples of the S3 API reference, and single rules of the canonical forms."""

from __future__ import annotations

import hashlib
import hmac
import re

import hypothesis
import pytest
from hypothesis import strategies as st

from server.auth import errors, sigv4
from tests.server import requesting

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HOST = ("host", "examplebucket.s3.amazonaws.com")
DATE = ("x-amz-date", "20130524T000000Z")

PUBLISHED = {
    "get object with a range": (
        "GET",
        "/test.txt",
        "",
        [HOST, ("range", "bytes=0-9"), ("x-amz-content-sha256", EMPTY), DATE],
        EMPTY,
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    "put object with a dollar in its key": (
        "PUT",
        "/test$file.text",
        "",
        [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            HOST,
            (
                "x-amz-content-sha256",
                "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            ),
            DATE,
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    "get bucket lifecycle": (
        "GET",
        "/",
        "lifecycle",
        [HOST, ("x-amz-content-sha256", EMPTY), DATE],
        EMPTY,
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    "list objects with parameters": (
        "GET",
        "/",
        "max-keys=2&prefix=J",
        [HOST, ("x-amz-content-sha256", EMPTY), DATE],
        EMPTY,
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
    "presigned get": (
        "GET",
        "/test.txt",
        "X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host",
        [HOST],
        "UNSIGNED-PAYLOAD",
        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    ),
    "seed of a chunked upload": (
        "PUT",
        "/examplebucket/chunkObject.txt",
        "",
        [
            ("content-encoding", "aws-chunked"),
            ("content-length", "66824"),
            ("host", "s3.amazonaws.com"),
            ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
            DATE,
            ("x-amz-decoded-content-length", "66560"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    ),
}


def signature(method, path, query, headers, payload_hash, *, service="s3"):
    raw = {name.encode(): value.encode() for name, value in headers}
    names = tuple(sorted(raw))
    canonical = sigv4.canonical_request(
        method=method,
        path=sigv4.canonical_path(path.encode(), double_encoded=service != "s3"),
        query=sigv4.canonical_query(query.encode()),
        headers=sigv4.canonical_headers(raw, names),
        names=names,
        payload_hash=payload_hash,
    )
    key = sigv4.signing_key(SECRET, date="20130524", region="us-east-1", service=service)
    scope = f"20130524/us-east-1/{service}/aws4_request"
    return sigv4.sign(key, sigv4.string_to_sign("20130524T000000Z", scope, canonical))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_example_has_the_published_signature(name):
    method, path, query, headers, payload_hash, expected = PUBLISHED[name]
    assert signature(method, path, query, headers, payload_hash) == expected


def test_signing_key_of_the_user_guide_example():
    key = sigv4.signing_key(
        "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        date="20150830",
        region="us-east-1",
        service="iam",
    )
    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"/b/k", b"/b/k"),
        (b"", b"/"),
        (b"/b/test$file", b"/b/test%24file"),
        (b"/b/a%7eb%2Dc", b"/b/a~b-c"),
        (b"/b/%e9", b"/b/%E9"),
        (b"/b/a+b", b"/b/a%2Bb"),
        (b"/b/a%20b", b"/b/a%20b"),
        (b"/b/a%2Fb", b"/b/a%2Fb"),
        (b"/b//x/./../y", b"/b//x/./../y"),
        (b"/b/%25", b"/b/%25"),
        (b"/b/%zz", b"/b/%25zz"),
    ],
)
def test_canonical_path_of_s3_is_encoded_once_per_segment(raw, expected):
    assert sigv4.canonical_path(raw, double_encoded=False) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"/buckets/arn%3Aaws%3As3tables", b"/buckets/arn%253Aaws%253As3tables"),
        (b"/a/b~c", b"/a/b~c"),
        (b"/iceberg/v1/ns%1Fx", b"/iceberg/v1/ns%251Fx"),
        (b"", b"/"),
    ],
)
def test_canonical_path_of_other_services_is_encoded_twice(raw, expected):
    assert sigv4.canonical_path(raw, double_encoded=True) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", b""),
        (b"uploads", b"uploads="),
        (b"b=2&a=1&a=0", b"a=0&a=1&b=2"),
        (b"prefix=a/b&delimiter=%2f", b"delimiter=%2F&prefix=a%2Fb"),
        (b"k=a+b", b"k=a%20b"),
        (b"k=a%2Bb", b"k=a%2Bb"),
        (b"k=a=b", b"k=a%3Db"),
        (b"&&a=1&", b"a=1"),
        (b"a-b=1&a=2", b"a=2&a-b=1"),
    ],
)
def test_canonical_query_is_sorted_and_says_what_it_means(raw, expected):
    assert sigv4.canonical_query(raw) == expected


UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
ESCAPES = [b"%%%02X" % byte for byte in range(256)] + [b"%%%02x" % byte for byte in range(256)]
CHARACTERS = [b"a", b"Z", b"0", b"-", b".", b"_", b"~", b"=", b"+", b"%", b"%4", b"%zz", b"\xc3"]


def encoded_once(text):
    """Return a text that is decoded and encoded once, byte by byte as the AWS user guide says."""
    decoded = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), text)
    return b"".join(b"%c" % byte if byte in UNRESERVED else b"%%%02X" % byte for byte in decoded)


@pytest.mark.parametrize("escape", ESCAPES)
def test_each_escape_is_decoded_once_and_encoded_once(escape):
    path = b"/b/a" + escape + b"/c"
    expected = b"/".join(map(encoded_once, path.split(b"/")))
    assert sigv4.canonical_path(path, double_encoded=False) == expected
    encoded = encoded_once(escape)
    expected = b"&".join(sorted([encoded + b"=1", b"z=" + encoded]))
    assert sigv4.canonical_query(b"z=" + escape + b"&" + escape + b"=1") == expected


@hypothesis.given(st.lists(st.sampled_from([*CHARACTERS, *ESCAPES, b"/", b"&"]), max_size=12))
def test_canonical_forms_are_those_of_each_part(pieces):
    text = b"".join(pieces)
    path = b"/" + text
    expected = b"/".join(map(encoded_once, path.split(b"/")))
    assert sigv4.canonical_path(path, double_encoded=False) == expected
    pairs = []
    for part in text.replace(b"/", b"").replace(b"+", b" ").split(b"&"):
        name, _, value = part.partition(b"=")
        if part:
            pairs.append((encoded_once(name), encoded_once(value)))
    expected = b"&".join(name + b"=" + value for name, value in sorted(pairs))
    assert sigv4.canonical_query(text.replace(b"/", b"")) == expected


def test_canonical_query_leaves_the_signature_itself_out():
    raw = b"a=1&X-Amz-Signature=00&b=2"
    assert sigv4.canonical_query(raw, without=frozenset({b"X-Amz-Signature"})) == b"a=1&b=2"


def test_canonical_headers_join_repetitions_and_squeeze_spaces():
    parts = requesting.request(
        headers=[("x-b", " two   words\there "), ("host", "h"), ("x-b", "again "), ("y", "no")]
    )
    canonical = sigv4.canonical_headers(parts.headers.joined, (b"host", b"x-b"))
    assert canonical == b"host:h\nx-b:two words here,again\n"


def test_signed_header_that_is_absent_counts_as_empty():
    assert sigv4.canonical_headers({b"host": b"h"}, (b"expect", b"host")) == b"expect:\nhost:h\n"


@pytest.mark.parametrize(
    "text",
    [
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 Credential=A/20130524/r/s3/aws4_request",
        "AWS4-HMAC-SHA256 Credential=A/20130524/r/s3/aws4_request,SignedHeaders=host",
        "AWS4-HMAC-SHA256 Credential=A/20130524/r/s3/aws4,SignedHeaders=host,Signature=0",
        "AWS4-HMAC-SHA256 Credential=A/2013-05/r/s3/aws4_request,SignedHeaders=host,Signature=0",
        "AWS4-HMAC-SHA256 Credential=20130524/r/s3/aws4_request,SignedHeaders=host,Signature=0",
        "AWS4-HMAC-SHA256 Credential=/20130524/r/s3/aws4_request,SignedHeaders=host,Signature=0",
        "AWS4-HMAC-SHA256 Credential=A/20130524/r/s3/aws4_request,SignedHeaders=date,Signature=0",
        "AWS4-HMAC-SHA256 Credential=A/20130524/r/s3/aws4_request,SignedHeaders=Host,Signature=0",
        "AWS4-HMAC-SHA256 Credential=A/20130524/r/s3/aws4_request,SignedHeaders=host;host,"
        "Signature=0",
        "AWS4-HMAC-SHA256 Credential=A/20130524/r/s3/aws4_request,SignedHeaders=host,"
        "Signature=0,Signature=1",
    ],
)
def test_parse_authorization_of_a_broken_header_is_refused(text):
    with pytest.raises(errors.MalformedAuthorization):
        sigv4.parse_authorization(text)


def test_parse_authorization_takes_access_keys_with_slashes_and_any_spacing():
    proof = sigv4.parse_authorization(
        "AWS4-HMAC-SHA256 Credential=team/a/20130524/eu/s3/aws4_request ,"
        "SignedHeaders=host;x-amz-date,  Signature=abc"
    )
    assert proof.claim.credential.access_key == "team/a"
    assert proof.claim.credential.scope == "20130524/eu/s3/aws4_request"
    assert proof.claim.signed_headers == ("host", "x-amz-date")
    assert proof.claim.names == (b"host", b"x-amz-date")
    assert proof.signature == "abc"


def test_elliptic_curve_signatures_are_named_in_their_refusal():
    with pytest.raises(errors.UnsupportedAuthorization) as caught:
        sigv4.parse_authorization("AWS4-ECDSA-P256-SHA256 Credential=A/20130524/s3/aws4_request")
    assert caught.value.scheme == "AWS4-ECDSA-P256-SHA256"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20130524T000000Z", 1_369_353_600_000),
        ("20240229T235959Z", 1_709_251_199_000),
        ("20230229T000000Z", None),
        ("20131324T000000Z", None),
        ("20130524T250000Z", None),
        ("2013-05-24T00:00:00Z", None),
        ("２０130524T000000Z", None),
        ("", None),
    ],
)
def test_parse_timestamp_takes_one_form(text, expected):
    assert sigv4.parse_timestamp(text) == expected


def test_format_timestamp_is_the_inverse_of_parse_timestamp():
    for text in ("20130524T000000Z", "20240229T235959Z", "19991231T000001Z"):
        moment_ms = sigv4.parse_timestamp(text)
        assert moment_ms is not None
        assert sigv4.format_timestamp(moment_ms) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fri, 24 May 2013 00:00:00 GMT", 1_369_353_600_000),
        ("20130524T000000Z", 1_369_353_600_000),
        ("yesterday", None),
        ("", None),
    ],
)
def test_parse_date_header_takes_http_dates_and_the_compact_form(text, expected):
    assert sigv4.parse_date_header(text) == expected


@hypothesis.given(key=st.binary(min_size=32, max_size=32), text=st.text(max_size=300))
def test_a_signer_signs_as_the_standard_librarys_hmac(key, text):
    expected = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    signer = sigv4.Signer(key)
    assert [signer.sign(text), signer.sign(text)] == [expected] * 2


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("varying", [(), (b"host",), (b"x-amz-date", b"host", b"x-absent")])
def test_a_canonical_request_in_pieces_is_the_whole_one(name, varying):
    method, path, query, headers, payload_hash, _ = PUBLISHED[name]
    raw = {name.encode(): value.encode() for name, value in headers}
    names = tuple(sorted(raw))
    parts = {
        "method": method,
        "path": sigv4.canonical_path(path.encode(), double_encoded=False),
        "query": sigv4.canonical_query(query.encode()),
        "names": names,
        "payload_hash": payload_hash,
    }
    pieces, between = sigv4.split_canonical(**parts, headers=raw, varying=varying)
    assert between == tuple(name for name in names if name in varying)
    whole = pieces[0] + b"".join(
        raw[name] + piece for name, piece in zip(between, pieces[1:], strict=True)
    )
    canonical = sigv4.canonical_headers(raw, names)
    assert whole == sigv4.canonical_request(**parts, headers=canonical)
