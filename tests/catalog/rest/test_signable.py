"""What the catalog signs: requests for the files of one table, and nothing that reads otherwise."""

from __future__ import annotations

import hashlib
from typing import Any

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from catalog.metadata import errors as metadata_errors
from catalog.rest import errors, signable

ORIGIN = "http://127.0.0.1:5253"
LOCATION = "s3://lake/ns/t"
BASE = f"{ORIGIN}/lake"
DELETION = "<Delete>{}</Delete>"
OBJECT = "<Object><Key>{}</Key></Object>"


def check(
    method: str = "GET",
    uri: str = f"{BASE}/ns/t/data/f.parquet",
    headers: dict[str, Any] | None = None,
    **more: Any,
) -> signable.Signable:
    values = {"region": "us-east-1", "method": method, "uri": uri, "headers": headers or {}}
    return signable.check(
        signable.parse({**values, **more}), origin=ORIGIN, location=more.pop("location", LOCATION)
    )


def deletion(*keys: str) -> str:
    return DELETION.format("".join(OBJECT.format(key) for key in keys))


@pytest.mark.parametrize(
    ("method", "target", "writes"),
    [
        ("GET", "ns/t/data/f.parquet", False),
        ("GET", "ns/t/data/f.parquet?x-id=GetObject&partNumber=1", False),
        ("HEAD", "ns/t/metadata/v1.metadata.json", False),
        ("PUT", "ns/t/data/d%20e=%C3%A9/f.parquet", True),
        ("PUT", "ns/t/data/f.parquet?partNumber=2&uploadId=abc", True),
        ("POST", "ns/t/data/f.parquet?uploads", True),
        ("POST", "ns/t/data/f.parquet?uploads=", True),
        ("POST", "ns/t/data/f.parquet?uploadId=abc", True),
        ("DELETE", "ns/t/data/f.parquet", True),
        ("DELETE", "ns/t/data/f.parquet?uploadId=abc", True),
        ("GET", "?list-type=2&prefix=ns%2Ft%2F", False),
        ("GET", "?list-type=2&prefix=ns/t/data/&delimiter=%2F&max-keys=7&start-after=x", False),
    ],
)
def test_requests_for_the_tables_files_are_signable(method: str, target: str, writes: bool) -> None:
    uri = f"{BASE}{'' if target.startswith('?') else '/'}{target}"
    request = check(method, uri)
    assert (request.method, request.writes) == (method, writes)
    assert request.host == "127.0.0.1:5253"


def test_a_deletion_is_signed_with_the_hash_of_its_body() -> None:
    body = deletion("ns/t/data/a", "ns/t/data/b")
    request = check("POST", f"{BASE}?delete", body=body)
    assert request.writes
    assert request.payload_hash == hashlib.sha256(body.encode()).hexdigest()
    check("POST", f"{BASE}/?delete=", body=body)


@pytest.mark.parametrize(
    "uri",
    [
        # Other tables, and the location itself.
        f"{BASE}/ns/t2/data/f",
        f"{BASE}/ns/other/data/f",
        f"{BASE}/ns/t",
        f"{BASE}/ns/t/",
        f"{BASE}/ns/T/data/f",
        # Other buckets and hosts.
        f"{ORIGIN}/other/ns/t/data/f",
        "http://127.0.0.1:5254/lake/ns/t/data/f",
        "http://evil.example/lake/ns/t/data/f",
        "http://lake.127.0.0.1:5253/ns/t/data/f",
        "https://127.0.0.1:5253/lake/ns/t/data/f",
        "http://127.0.0.1:5253@evil.example/lake/ns/t/data/f",
        "http://evil.example@127.0.0.1:5253/lake/ns/t/data/f",
        "http://127.0.0.1:5253.evil.example/lake/ns/t/data/f",
        "//127.0.0.1:5253/lake/ns/t/data/f",
        "/lake/ns/t/data/f",
        "file:///lake/ns/t/data/f",
        "",
        # Paths with more than one reading.
        f"{BASE}/ns/t/../other/data/f",
        f"{BASE}/ns/t/%2e%2e/other/data/f",
        f"{BASE}/ns/t/./data/f",
        f"{BASE}/ns/t//data/f",
        f"{BASE}//ns/t/data/f",
        f"{ORIGIN}//lake/ns/t/data/f",
        f"{BASE}/ns%2Ft/data/f",
        f"{BASE}/ns/t/data%2Ff",
        f"{BASE}/ns/t/data%5Cf",
        f"{BASE}/ns/t/data%00f",
        f"{BASE}/ns/t/data%0Af",
        f"{BASE}/ns/t/data/%FF",
        f"{BASE}/ns/t/data/%zz",
        f"{BASE}/ns/t/data/%2",
        f"{BASE}/ns/t/data/f#x",
        f"{BASE}/ns/t/data/f g",
        f"{BASE}/ns/t/data/f\r\nx-amz-acl: public-read",
        f"{BASE}/ns/t/data/é",
        f"{BASE}/ns/t/data/" + "x" * 9_000,
        # Subresources and parameters of other operations.
        f"{BASE}/ns/t/data/f?acl",
        f"{BASE}/ns/t/data/f?tagging",
        f"{BASE}/ns/t/data/f?retention",
        f"{BASE}/ns/t/data/f?uploadId=abc",
        f"{BASE}/ns/t/data/f?attributes",
        f"{BASE}/ns/t/data/f?versionId=1",
        f"{BASE}/ns/t/data/f?partNumber=1&partNumber=2",
        f"{BASE}/ns/t/data/f?X-Amz-Signature=0",
        f"{BASE}/ns/t/data/f?=1",
        f"{BASE}/ns/t/data/f?a?acl",
        # Buckets.
        ORIGIN,
        f"{ORIGIN}/",
        BASE,
        f"{BASE}/",
        f"{BASE}?location",
        f"{BASE}?policy",
        f"{BASE}?acl",
        f"{BASE}?lifecycle",
        f"{BASE}?uploads",
        f"{BASE}?versions&prefix=ns/t/",
        f"{BASE}?prefix=ns/t/",
        f"{BASE}?list-type=1&prefix=ns/t/",
        f"{BASE}?list-type=2",
        f"{BASE}?list-type=2&prefix=",
        f"{BASE}?list-type=2&prefix=ns/",
        f"{BASE}?list-type=2&prefix=ns/t",
        f"{BASE}?list-type=2&prefix=ns/t2/",
        f"{BASE}?list-type=2&prefix=ns/t/&prefix=ns/other/",
        f"{BASE}?list-type=2&prefix=ns/t/&%70refix=ns/other/",
        f"{BASE}?list-type=2&prefix=ns/t/&policy",
        f"{BASE}?list-type=2&prefix=ns/t/%FF",
    ],
)
def test_a_get_of_anything_else_is_not_signed(uri: str) -> None:
    with pytest.raises(errors.SigningRefused):
        check("GET", uri)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", "/ns/t/data/f?acl"),
        ("PUT", "/ns/t/data/f?tagging"),
        ("PUT", "/ns/t/data/f?partNumber=1"),
        ("PUT", ""),
        ("PUT", "?policy"),
        ("PUT", "?versioning"),
        ("DELETE", ""),
        ("DELETE", "?policy"),
        ("DELETE", "?lifecycle"),
        ("POST", "/ns/t/data/f"),
        ("POST", "/ns/t/data/f?select&select-type=2"),
        ("POST", "/ns/t/data/f?restore"),
        ("POST", ""),
        ("POST", "/ns/t/data/f?delete"),
        ("HEAD", ""),
        ("HEAD", "/ns/t2/data/f"),
        ("PATCH", "/ns/t/data/f"),
        ("OPTIONS", "/ns/t/data/f"),
        ("get", "/ns/t/data/f"),
        ("GET\n", "/ns/t/data/f"),
    ],
)
def test_other_operations_are_not_signed(method: str, target: str) -> None:
    with pytest.raises(errors.SigningRefused):
        check(method, f"{BASE}{target}", body=deletion("ns/t/data/a"))


@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "<Delete/>",
        "<NoDelete/>",
        deletion("ns/t/data/a", "ns/other/data/b"),
        deletion("ns/t"),
        deletion("ns/t/"),
        deletion("ns/t2/a"),
        deletion("/ns/t/data/a"),
        '<!DOCTYPE x [<!ENTITY e "y">]>' + deletion("ns/t/data/a"),
    ],
)
def test_a_deletion_of_anything_else_is_not_signed(body: str | None) -> None:
    with pytest.raises(errors.SigningRefused):
        check("POST", f"{BASE}?delete", body=body)


def test_a_deletion_with_the_hash_of_another_body_is_not_signed() -> None:
    headers = {"x-amz-content-sha256": [hashlib.sha256(b"other").hexdigest()]}
    with pytest.raises(errors.SigningRefused):
        check("POST", f"{BASE}?delete", headers, body=deletion("ns/t/data/a"))
    with pytest.raises(errors.SigningRefused):
        check(
            "POST",
            f"{BASE}?delete",
            {"x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]},
            body=deletion("ns/t/data/a"),
        )


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-copy-source": ["/lake/ns/other/data/f"]},
        {"X-Amz-Copy-Source": ["/lake/ns/other/data/f"]},
        {"x-amz-acl": ["public-read"]},
        {"x-amz-grant-read": ['uri="x"']},
        {"x-amz-security-token": ["x"]},
        {"x-amz-tagging": ["a=b"]},
        {"x-amz-bypass-governance-retention": ["true"]},
        {"x-amz-website-redirect-location": ["http://evil.example"]},
        {"x-amz-something-new": ["1"]},
        {"Authorization": ["AWS4-HMAC-SHA256 x"]},
        {"Host": ["evil.example"]},
        {"x-amz-content-sha256": ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD"]},
        {"x-amz-content-sha256": ["nonsense"]},
    ],
)
def test_headers_that_change_a_request_are_not_signed(headers: dict[str, list[str]]) -> None:
    with pytest.raises(errors.SigningRefused):
        check("PUT", f"{BASE}/ns/t/data/f", headers)


@pytest.mark.parametrize(
    "values",
    [
        {"headers": {"a": ["x\r\nx-amz-acl: public-read"]}},
        {"headers": {"a\r\nb": ["x"]}},
        {"headers": {"A": ["x"], "a": ["y"]}},
        {"headers": {"a": "x"}},
        {"headers": {"a": [1]}},
        {"headers": {"a": ["x"] * 17}},
        {"headers": {f"h{number}": ["x"] for number in range(101)}},
        {"headers": "x"},
        {"method": None},
        {"uri": 7},
        {"body": 7},
        {"region": None},
    ],
)
def test_a_malformed_request_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises((errors.MalformedJson, metadata_errors.MetadataError)):
        check(**values)


@pytest.mark.parametrize("location", ["s3://lake", "s3://lake/", "s3://lake/n*/t", "s3://lake/a?b"])
def test_nothing_is_signed_for_a_location_with_more_than_one_reading(location: str) -> None:
    request = signable.parse(
        {"region": "r", "method": "GET", "uri": f"{BASE}/ns/t/data/f", "headers": {}}
    )
    with pytest.raises(errors.SigningRefused):
        signable.check(request, origin=ORIGIN, location=location)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/ns/t/data/d%20e/f.parquet"),
        ("PUT", "/ns/t/data/f?partNumber=2&uploadId=a%2Fb"),
        ("GET", "?list-type=2&prefix=ns%2Ft%2F&delimiter=%2F"),
    ],
)
def test_the_signature_is_that_of_botocore(
    method: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"x-amz-meta-a": ["b  c"], "range": ["bytes=0-1"], "user-agent": ["x"]}
    request = check(method, f"{BASE}{target}", headers)
    keys = {"access_key": "AK", "secret_key": "SK", "session_token": "ST"}
    now_ms = 1_780_000_000_000
    signed = signable.sign(request, **keys, region="us-east-1", now_ms=now_ms)
    expected = botocore.awsrequest.AWSRequest(
        method=method,
        url=f"{BASE}{target}",
        headers={
            "x-amz-meta-a": "b  c",
            "x-amz-date": signed["x-amz-date"],
            "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
            "x-amz-security-token": "ST",
        },
    )
    expected.context["timestamp"] = signed["x-amz-date"]
    oracle = botocore.auth.S3SigV4Auth(
        botocore.credentials.Credentials("AK", "SK", "ST"), "s3", "us-east-1"
    )
    canonical = oracle.canonical_request(expected)
    signature = oracle.signature(oracle.string_to_sign(expected, canonical), expected)
    assert signed["Authorization"].endswith(f"Signature={signature}")
    assert "range" not in signed["Authorization"]
