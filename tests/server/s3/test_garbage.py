"""Garbage gives a value or a typed error, and never a 5xx that is not 501."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from server.s3 import errors, fields, rows
from tests.kit import examples
from tests.kit import s3 as kit
from tests.server.s3 import test_documents

METHODS = st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH"])
NAMES = sorted(
    {
        *(row.subresource for row in rows.ROWS if row.subresource),
        *fields.OVERRIDES,
        "uploadId", "partNumber", "versionId", "list-type", "prefix", "delimiter", "marker",
        "start-after", "continuation-token", "max-keys", "max-parts", "max-uploads",
        "key-marker", "upload-id-marker", "part-number-marker", "encoding-type", "fetch-owner",
        "version-id-marker", "id", "max-buckets", "bucket-region", "x-id",
    }
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(["", "0", "1", "2", "-1", "10001", "url", "null", "/", "true", "bytes=0-1"]),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=12),
)
PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=4)
HEADER_NAMES = sorted(
    {
        *fields.STORED_HEADERS,
        "content-length", "content-md5", "if-match", "if-none-match", "if-modified-since",
        "if-unmodified-since", "range", "x-amz-copy-source", "x-amz-copy-source-range",
        "x-amz-copy-source-if-match", "x-amz-metadata-directive", "x-amz-tagging-directive",
        "x-amz-checksum-crc32", "x-amz-checksum-sha256", "x-amz-checksum-algorithm",
        "x-amz-checksum-type", "x-amz-sdk-checksum-algorithm", "x-amz-trailer", "x-amz-acl",
        "x-amz-meta-a", "x-amz-tagging", "x-amz-storage-class", "x-amz-mp-object-size",
        "x-amz-decoded-content-length", "x-amz-expected-bucket-owner", "x-amz-mfa",
        "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date",
        "x-amz-object-lock-legal-hold", "x-amz-bypass-governance-retention",
        "x-amz-bucket-object-lock-enabled", "x-amz-grant-read", "x-amz-grant-full-control",
        "x-amz-object-ownership", "x-amz-object-attributes", "x-amz-max-parts",
        "x-amz-part-number-marker", "x-amz-confirm-remove-self-bucket-access", "origin",
        "access-control-request-method", "x-amz-source-expected-bucket-owner",
        "x-amz-write-offset-bytes", "x-amz-if-match-initiated-time",
    }
)  # fmt: skip
HEADER_VALUES = st.one_of(
    st.sampled_from(
        [
            "*",
            '"a"',
            "CRC32",
            "COPY",
            "REPLACE",
            "AAAAAA==",
            "0",
            "5",
            "bytes=0-1",
            "b/k",
            "a=1",
            "GOVERNANCE",
            "2140-01-01T00:00:00Z",
            "ON",
            "true",
            'id="a"',
            "uri=http://acs.amazonaws.com/groups/global/AllUsers",
            "ETag,Checksum,ObjectParts",
            "BucketOwnerEnforced",
        ]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=12),
)
HEADERS = st.dictionaries(st.sampled_from(HEADER_NAMES), HEADER_VALUES, max_size=4)
PATHS = st.one_of(
    st.sampled_from([b"/", b"/b", b"/b/", b"/b/k", b"/b//", b"/b/%", b"/b/%FF", b"//", b""]),
    st.binary(max_size=20).map(lambda tail: b"/" + tail),
)


@examples.at_most(600)
@given(METHODS, PATHS, PAIRS, HEADERS, st.sampled_from([None, "hosted"]))
def test_any_request_is_one_operation_or_one_typed_refusal(
    method: str,
    path: bytes,
    pairs: list[tuple[str, str]],
    headers: dict[str, str],
    host_bucket: str | None,
) -> None:
    try:
        row, value = rows.TABLE.identify(
            method=method,
            raw_path=path,
            host_bucket=host_bucket,
            pairs=pairs,
            headers=headers,
        )
    except errors.S3Error:
        return
    assert row in rows.ROWS
    assert row.operation.name == "ListBuckets" or isinstance(value.bucket, str)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    with kit.serve(tmp_path_factory.mktemp("garbage") / "data") as running:
        kit.call(running, "PUT", "/bbb")
        kit.call(running, "PUT", "/bbb/k", body=b"hello")
        yield running


@examples.at_most(
    150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    METHODS,
    st.sampled_from(["/", "/bbb", "/bbb/k", "/bbb/none", "/bbb/%FF", "/none", "/none/k"]),
    PAIRS,
    HEADERS,
    st.one_of(
        st.just(b""),
        st.binary(max_size=30),
        test_documents.TREES.map(str.encode),
        st.sampled_from([b"{}", b'{"Version": "2012-10-17", "Statement": [{}]}']),
    ),
)
def test_any_signed_request_is_answered_in_the_protocols_own_words(
    place: kit.ObjectStore,
    method: str,
    path: str,
    pairs: list[tuple[str, str]],
    headers: dict[str, str],
    body: bytes,
) -> None:
    query = urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote)
    sent = {name: value for name, value in headers.items() if name != "content-length"}
    # A control character is no part of a value (RFC 9110, 5.5): no request would come of it.
    sent = {
        name: value.strip() or "-"
        for name, value in sent.items()
        if value.isascii() and value.isprintable()
    }
    answer = kit.call(place, method, f"{path}?{query}" if query else path, sent, body)
    assert answer.status < 500 or answer.status == 501, (answer, method, path, query, sent)
    if answer.status >= 400 and method != "HEAD":
        assert answer.code
