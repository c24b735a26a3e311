"""The examples of the S3 API reference for version 2, whose secrets are published."""

from __future__ import annotations

import pytest

from server.auth import errors, sigv2

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

PUBLISHED = [
    (
        "GET",
        "/photos/puppy.jpg",
        "",
        [("date", "Tue, 27 Mar 2007 19:36:42 +0000")],
        "awsexamplebucket1",
        "qgk2+6Sv9/oM7G3qLEjTH1a1l1g=",
    ),
    (
        "PUT",
        "/photos/puppy.jpg",
        "",
        [
            ("content-type", "image/jpeg"),
            ("content-length", "94328"),
            ("date", "Tue, 27 Mar 2007 21:15:45 +0000"),
        ],
        "awsexamplebucket1",
        "iqRzw+ileNPu1fhspnRs8nOjjIA=",
    ),
    (
        "GET",
        "/",
        "prefix=photos&max-keys=50&marker=puppy",
        [("date", "Tue, 27 Mar 2007 19:42:41 +0000"), ("user-agent", "Mozilla/5.0")],
        "awsexamplebucket1",
        "m0WP8eCtspQl5Ahe6L1SozdX9YA=",
    ),
    (
        "GET",
        "/",
        "acl",
        [("date", "Tue, 27 Mar 2007 19:44:46 +0000")],
        "awsexamplebucket1",
        "82ZHiFIjc+WbcwFKGUVEQspPn+0=",
    ),
    (
        "PUT",
        "/db-backup.dat.gz",
        "",
        [
            ("user-agent", "curl/7.15.5"),
            ("date", "Tue, 27 Mar 2007 21:06:08 +0000"),
            ("x-amz-acl", "public-read"),
            ("content-type", "application/x-download"),
            ("content-md5", "4gJE4saaMU4BqNR0kLY+lw=="),
            ("x-amz-meta-reviewedby", "joe@example.com"),
            ("x-amz-meta-reviewedby", "jane@example.com"),
            ("x-amz-meta-filechecksum", "0x02661779"),
            ("x-amz-meta-checksumalgorithm", "crc32"),
            ("content-disposition", "attachment; filename=database.dat"),
            ("content-encoding", "gzip"),
            ("content-length", "5913339"),
        ],
        "static.example.com",
        "jtBQa0Aq+DkULFI8qrpwIjGEx0E=",
    ),
    (
        "GET",
        "/",
        "",
        [("date", "Wed, 28 Mar 2007 01:29:59 +0000")],
        None,
        "qGdzdERIC03wnaRNKh6OqZehG9s=",
    ),
    (
        "GET",
        "/dictionary/fran%C3%A7ais/pr%c3%a9f%c3%a8re",
        "",
        [("date", "Wed, 28 Mar 2007 01:49:49 +0000")],
        None,
        "DNEZGsoieTZ92F3bUfSPQcbGmlM=",
    ),
]


@pytest.mark.parametrize(("method", "path", "query", "headers", "bucket", "expected"), PUBLISHED)
def test_published_example_has_the_published_signature(
    method, path, query, headers, bucket, expected
):
    text = sigv2.string_to_sign(
        method=method,
        raw_path=path.encode(),
        query=query.encode(),
        headers=[(name.encode(), value.encode()) for name, value in headers],
        bucket_of_host=bucket,
        expires=None,
    )
    assert sigv2.sign(SECRET, text) == expected


def test_amz_date_stands_among_the_amz_headers_and_leaves_the_date_empty():
    # The reference's DELETE example signs otherwise than its text says; clients do as it says.
    text = sigv2.string_to_sign(
        method="DELETE",
        raw_path=b"/b/k",
        query=b"",
        headers=[(b"date", b"Tue, 27 Mar 2007 21:20:27 +0000"), (b"x-amz-date", b"later")],
        bucket_of_host=None,
        expires=None,
    )
    assert text == b"DELETE\n\n\n\nx-amz-date:later\n/b/k"


def test_canonical_resource_sorts_sub_resources_by_name_and_decodes_values():
    resource = sigv2.canonical_resource(
        b"/b/k", b"select-type=2&select&uploadId=a%2Bb&other=1&partNumber=3", None
    )
    assert resource == b"/b/k?partNumber=3&select&select-type=2&uploadId=a+b"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"uploads", (b"uploads",)),
        (b"uploads=", (b"uploads=", b"uploads")),
        (
            b"acl=&prefix=a%3D&uploads=x=",
            (b"acl=&prefix=a%3D&uploads=x=", b"acl&prefix=a%3D&uploads=x="),
        ),
        (b"", (b"",)),
        (b"=", (b"=", b"")),
    ],
)
def test_sub_resource_with_an_empty_value_may_be_signed_without_its_equals_sign(query, expected):
    assert sigv2.queries_of(query) == expected


@pytest.mark.parametrize("name", ["tagging", "%74agging", "%74%61gging"])
def test_sub_resource_is_signed_however_its_name_is_spelt(name):
    signed = sigv2.canonical_resource(b"/b/k", b"Expires=1&" + name.encode(), None)
    assert signed == b"/b/k?tagging"


def test_amz_parameter_of_a_presigned_request_is_signed_however_its_name_is_spelt():
    def text(query):
        return sigv2.string_to_sign(
            method="GET",
            raw_path=b"/b/k",
            query=query,
            headers=[],
            bucket_of_host=None,
            expires="1",
        )

    assert text(b"%78-amz-acl=private") == text(b"x-amz-acl=private")
    assert b"x-amz-acl:private" in text(b"x-amz-acl=private")


@pytest.mark.parametrize("text", ["AWS ", "AWS key", "AWS key:", "AWS :signature", "AWS"])
def test_parse_authorization_of_a_broken_header_is_refused(text):
    with pytest.raises(errors.MalformedAuthorization):
        sigv2.parse_authorization(text)


def test_parse_authorization_lets_access_keys_have_colons():
    proof = sigv2.parse_authorization("AWS tenant:key:c2ln")
    assert (proof.access_key, proof.signature) == ("tenant:key", "c2ln")
