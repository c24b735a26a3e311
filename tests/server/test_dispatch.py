"""One port, many faces: the table of the design, row by row, and what must not fall into a row."""

from __future__ import annotations

import pytest

from server import dispatch

LOCAL = "127.0.0.1:5253"


def face(path, host=LOCAL, service=None, domain=None):
    return dispatch.face_of(path.encode(), host, service, domain=domain)


ROWS = [
    # The scope's service s3 wins over every path.
    ("/iceberg/v1/config", LOCAL, "s3", "s3"),
    ("/buckets", LOCAL, "s3", "s3"),
    ("/session/v1/login-request", LOCAL, "s3", "s3"),
    ("/_health", LOCAL, "s3", "s3"),
    # So does the Host of a bucket, over every other service too.
    ("/iceberg/v1/config", "photos.localhost:5253", None, "s3"),
    ("/buckets", "photos.localhost", "s3tables", "s3"),
    ("/", "my.photos.localhost", None, "s3"),
    # s3tables, outside /iceberg.
    ("/buckets", LOCAL, "s3tables", "s3tables"),
    ("/", LOCAL, "s3tables", "s3tables"),
    ("/session/x", LOCAL, "s3tables", "s3tables"),
    ("/iceberg-tables/x", LOCAL, "s3tables", "s3tables"),
    ("/iceberg/v1/config", LOCAL, "s3tables", "iceberg"),
    ("/iceberg", LOCAL, "s3tables", "iceberg"),
    # The catalog's own first segment, for clients whose URI lacks `/iceberg`.
    ("/v1/config", LOCAL, None, "iceberg"),
    ("/v1/config", LOCAL, "s3tables", "iceberg"),
    ("/v1/config", LOCAL, "glue", "iceberg"),
    ("/v1/config", LOCAL, "s3", "s3"),
    ("/v1/config", "photos.localhost:5253", None, "s3"),
    ("/v11/config", LOCAL, None, "s3"),
    # The query APIs.
    ("/", LOCAL, "sts", "sts"),
    ("/", LOCAL, "iam", "iam"),
    ("/iceberg/v1/config", LOCAL, "sts", "sts"),
    # Prefixes, as whole first segments.
    ("/iceberg/v1/config", LOCAL, None, "iceberg"),
    ("/iceberg/v1/config", LOCAL, "glue", "iceberg"),
    ("/iceberg/v1/config", LOCAL, "execute-api", "iceberg"),
    ("/session", LOCAL, None, "snowflake"),
    ("/session/v1/login-request", LOCAL, None, "snowflake"),
    ("/queries/v1/query-request", LOCAL, None, "snowflake"),
    ("/monitoring/queries//id", LOCAL, None, "snowflake"),
    ("/telemetry/send", LOCAL, None, "snowflake"),
    ("/_console", LOCAL, None, "native"),
    ("/_console/", LOCAL, None, "native"),
    ("/_api/v1/x", LOCAL, None, "native"),
    ("/_health", LOCAL, None, "native"),
    ("/_metrics", LOCAL, None, "native"),
    # Everything else.
    ("/", LOCAL, None, "s3"),
    ("", LOCAL, None, "s3"),
    ("/buckets", LOCAL, None, "s3"),
    ("/sessions-eu/key", LOCAL, None, "s3"),
    ("/icebergs", LOCAL, None, "s3"),
    ("/iceberg%2Fv1", LOCAL, None, "s3"),
    ("/%69ceberg/v1/config", LOCAL, None, "s3"),
    ("//iceberg/v1/config", LOCAL, None, "s3"),
    ("/_healthy", LOCAL, None, "s3"),
    ("/bucket/iceberg/v1/config", LOCAL, None, "s3"),
    ("/bucket/key", LOCAL, "sns", "s3"),
    ("/bucket/key", "", None, "s3"),
    ("/ICEBERG/v1", LOCAL, None, "s3"),
]


@pytest.mark.parametrize(("path", "host", "service", "expected"), ROWS)
def test_first_matching_row_decides(path, host, service, expected):
    assert face(path, host, service) == expected


@pytest.mark.parametrize(
    ("host", "domain", "expected"),
    [
        ("photos.localhost", None, "photos"),
        ("photos.localhost:5253", None, "photos"),
        ("PHOTOS.LocalHost:5253", None, "photos"),
        ("photos.localhost.", None, "photos"),
        ("my.photos.localhost", None, "my.photos"),
        ("localhost", None, None),
        ("localhost:5253", None, None),
        ("photoslocalhost", None, None),
        (".localhost", None, None),
        ("a_b.localhost", None, None),
        ("ab.localhost", None, None),
        ("-ab.localhost", None, None),
        ("127.0.0.1:5253", None, None),
        ("[::1]:5253", None, None),
        ("[::1]", None, None),
        ("", None, None),
        ("photos.s3.example.com", None, None),
        ("photos.s3.example.com:443", "s3.example.com", "photos"),
        ("s3.example.com", "s3.example.com", None),
        ("photos.localhost", "s3.example.com", "photos"),
        ("evil-s3.example.com", "s3.example.com", None),
        ("x" * 64 + ".localhost", None, None),
    ],
)
def test_bucket_of_host_is_what_stands_before_the_domain(host, domain, expected):
    assert dispatch.bucket_of_host(host, domain) == expected


def scope(service, key="AK"):
    return f"AWS4-HMAC-SHA256 Credential={key}/20251121/us-east-1/{service}/aws4_request, Sig"


@pytest.mark.parametrize(
    ("authorization", "query", "expected"),
    [
        (scope("s3tables"), b"", "s3tables"),
        (scope("s3", key="team/a"), b"", "s3"),
        ("AWS4-HMAC-SHA256 SignedHeaders=host, Credential=A/1/r/glue/aws4_request", b"", "glue"),
        (
            "AWS4-ECDSA-P256-SHA256 Credential=A/20251121/s3/aws4_request, SignedHeaders=x",
            b"",
            "s3",
        ),
        (None, b"X-Amz-Credential=A%2F20251121%2Fr%2Fs3tables%2Faws4_request&x=1", "s3tables"),
        (None, b"x=1&X-Amz-Credential=A/20251121/r/s3/aws4_request", "s3"),
        (None, b"not-X-Amz-Credential=A/1/r/s3/aws4_request", None),
        (scope("sts"), b"X-Amz-Credential=A/1/r/s3/aws4_request", "sts"),
        ("Bearer abc", b"", None),
        ("AWS A:B", b"AWSAccessKeyId=A", None),
        ("AWS4-HMAC-SHA256 Credential=A", b"", None),
        ("AWS4-HMAC-SHA256", b"", None),
        (None, b"", None),
    ],
)
def test_service_of_reads_the_credential_scope(authorization, query, expected):
    assert dispatch.service_of(authorization, query) == expected


def test_double_slashes_are_joined_for_the_snowflake_face_alone():
    assert dispatch.path_for("snowflake", b"/monitoring/queries//id") == b"/monitoring/queries/id"
    assert dispatch.path_for("snowflake", b"/a///b//") == b"/a/b/"
    for name in dispatch.FACES:
        if name != "snowflake":
            assert dispatch.path_for(name, b"/bucket//key") == b"/bucket//key"


@pytest.mark.parametrize(
    ("path", "method", "service", "host", "expected"),
    [
        ("/", "POST", None, LOCAL, "sts"),
        ("", "POST", None, LOCAL, "sts"),
        ("/", "POST", "s3", LOCAL, "s3"),
        ("/", "POST", "iam", LOCAL, "iam"),
        ("/", "POST", None, "photos.localhost", "s3"),
        ("/", "GET", None, LOCAL, "s3"),
        ("/photos", "POST", None, LOCAL, "s3"),
        ("//", "POST", None, LOCAL, "s3"),
        ("/iceberg/v1/oauth/tokens", "POST", None, LOCAL, "iceberg"),
    ],
)
def test_an_unsigned_post_of_the_root_is_for_sts(
    path: str, method: str, service: str | None, host: str, expected: str
) -> None:
    name = dispatch.face_of(path.encode(), host, service, domain=None, method=method)
    assert name == expected
