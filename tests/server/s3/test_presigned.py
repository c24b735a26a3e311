"""Presigned requests whose headers stand in the query, as boto3 and the JavaScript SDK put them."""

from __future__ import annotations

import base64
import hashlib
import urllib.parse
from typing import Any

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from tests.kit import s3 as kit

BODY = b"body"


def target_of(store: kit.ObjectStore, url: str) -> str:
    return url.partition(f":{store.port}")[2]


@pytest.fixture(params=["s3", "s3v4"])
def presigner(request: pytest.FixtureRequest, store: kit.ObjectStore) -> Any:
    """boto3 presigning by version 2, which it does by default, and by version 4."""
    return kit.client(store, config={"signature_version": request.param})


def presigned(
    store: kit.ObjectStore, presigner: Any, operation: str, **params: Any
) -> tuple[str, dict[str, str]]:
    """Return the target and the headers that a presigned request is sent with.

    Version 4 of boto3 leaves the headers to the client that sends the request, and names them in
    X-Amz-SignedHeaders; here they move to the query, as the JavaScript SDK moves them.
    """
    if presigner.meta.config.signature_version == "s3":
        return target_of(store, presigner.generate_presigned_url(operation, Params=params)), {}
    hoisted: dict[str, str] = {}

    def hoist(request: Any, **_: Any) -> None:
        for name in list(request.headers):
            if name.lower().startswith("x-amz-"):
                hoisted[name.lower()] = request.headers[name]
                del request.headers[name]
        separator = "&" if "?" in request.url else "?"
        if hoisted:
            request.url += separator + urllib.parse.urlencode(hoisted)

    events = presigner.meta.events
    events.register("before-sign.s3", hoist)
    try:
        url = presigner.generate_presigned_url(operation, Params=params)
    finally:
        events.unregister("before-sign.s3", hoist)
    return target_of(store, url), {}


def test_a_copy_source_in_the_query_copies(
    store: kit.ObjectStore, s3: Any, presigner: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="from", Body=BODY)
    source = {"Bucket": bucket, "Key": "from"}
    target, headers = presigned(
        store, presigner, "copy_object", Bucket=bucket, Key="to", CopySource=source
    )
    answer = kit.send(store, "PUT", target, headers=headers)
    assert answer.status == 200, answer.body
    assert answer.element("ETag")
    assert s3.get_object(Bucket=bucket, Key="to")["Body"].read() == BODY


def test_metadata_and_tags_in_the_query_are_stored(
    store: kit.ObjectStore, s3: Any, presigner: Any, bucket: str
) -> None:
    target, headers = presigned(
        store,
        presigner,
        "put_object",
        Bucket=bucket,
        Key="k",
        Metadata={"colour": "blue"},
        Tagging="team=a",
        StorageClass="STANDARD_IA",
    )
    answer = kit.send(store, "PUT", target, body=BODY, headers=headers)
    assert answer.status == 200, answer.body
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["Metadata"] == {"colour": "blue"}
    assert head["StorageClass"] == "STANDARD_IA"
    tags = s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"]
    assert tags == [{"Key": "team", "Value": "a"}]


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"ServerSideEncryption": "aws:kms"}, "x-amz-server-side-encryption"),
        ({"WebsiteRedirectLocation": "/x"}, "x-amz-website-redirect-location"),
    ],
)
def test_what_is_not_done_is_refused_by_name_in_the_query_too(
    store: kit.ObjectStore, s3: Any, presigner: Any, bucket: str, params: dict[str, str], name: str
) -> None:
    target, headers = presigned(store, presigner, "put_object", Bucket=bucket, Key="k", **params)
    answer = kit.send(store, "PUT", target, body=BODY, headers=headers)
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert name in answer.body.decode()
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_digests_in_the_query_are_checked(
    store: kit.ObjectStore, s3: Any, presigner: Any, bucket: str
) -> None:
    digest = base64.b64encode(hashlib.sha256(BODY).digest()).decode()
    target, headers = presigned(
        store, presigner, "put_object", Bucket=bucket, Key="k", ChecksumSHA256=digest
    )
    refused = kit.send(store, "PUT", target, body=b"other", headers=headers)
    assert (refused.status, refused.code) == (400, "BadDigest")
    stored = kit.send(store, "PUT", target, body=BODY, headers=headers)
    assert stored.status == 200, stored.body
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumSHA256"] == digest


def test_the_checksum_of_no_body_in_the_query_is_not_that_of_the_upload(
    store: kit.ObjectStore, s3: Any, presigner: Any, bucket: str
) -> None:
    """The JavaScript SDK presigns it for every upload, and AWS ignores checksums there."""
    params = {"Bucket": bucket, "Key": "k", "ChecksumCRC32": "AAAAAA=="}
    target, headers = presigned(store, presigner, "put_object", **params, ChecksumAlgorithm="CRC32")
    assert "AAAAAA" in target
    for body in (BODY, b""):
        answer = kit.send(store, "PUT", target, headers=headers, body=body)
        assert answer.status == 200, answer.body
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == body
    upload_id = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    params |= {"Key": "m", "UploadId": upload_id, "PartNumber": 1}
    target, headers = presigned(store, presigner, "upload_part", **params)
    answer = kit.send(store, "PUT", target, headers=headers, body=BODY)
    assert answer.status == 200, answer.body
    assert s3.list_parts(Bucket=bucket, Key="m", UploadId=upload_id)["Parts"][0]["Size"] == 4


def test_the_expected_owner_in_the_query_is_checked(
    store: kit.ObjectStore, s3: Any, presigner: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=BODY)
    target, headers = presigned(
        store,
        presigner,
        "delete_object",
        Bucket=bucket,
        Key="k",
        ExpectedBucketOwner="999999999999",
    )
    answer = kit.send(store, "DELETE", target, headers=headers)
    assert (answer.status, answer.code) == (403, "AccessDenied")
    assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == len(BODY)


def test_version_2_carries_content_type_and_md5_in_the_query(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    signer = kit.client(store, config={"signature_version": "s3"})
    md5 = base64.b64encode(hashlib.md5(BODY).digest()).decode()
    params = {"Bucket": bucket, "Key": "k", "ContentType": "text/x-own", "ContentMD5": md5}
    target = target_of(store, signer.generate_presigned_url("put_object", Params=params))
    refused = kit.send(store, "PUT", target, body=b"other")
    assert (refused.status, refused.code) == (400, "BadDigest")
    assert kit.send(store, "PUT", target, body=BODY).status == 200
    assert s3.head_object(Bucket=bucket, Key="k")["ContentType"] == "text/x-own"
    other = kit.send(store, "PUT", target, body=BODY, headers={"content-type": "text/html"})
    assert (other.status, other.code) == (403, "SignatureDoesNotMatch")
    # Beside a header the signature covers the header, and the parameter means nothing.
    target = target.replace("text%2Fx-own", "text%2Fhtml")
    both = kit.send(store, "PUT", target, body=BODY, headers={"content-type": "text/x-own"})
    assert both.status == 200
    assert s3.head_object(Bucket=bucket, Key="k")["ContentType"] == "text/x-own"


def test_a_header_that_contradicts_the_query_is_refused(
    store: kit.ObjectStore, bucket: str
) -> None:
    target = f"/{bucket}/k?x-amz-meta-a=1"
    refused = kit.call(store, "PUT", target, body=BODY, headers={"x-amz-meta-a": "2"})
    assert (refused.status, refused.code) == (400, "InvalidRequest")
    assert kit.call(store, "PUT", target, body=BODY, headers={"x-amz-meta-a": "1"}).status == 200


@pytest.mark.parametrize(
    "query",
    [
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0",
        "X-Amz-Signature=0",
        "AWSAccessKeyId=a&Signature=b&Expires=1",
    ],
)
def test_a_request_has_one_proof_of_its_caller(
    store: kit.ObjectStore, s3: Any, bucket: str, query: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=BODY)
    refused = kit.call(store, "GET", f"/{bucket}/k?{query}")
    assert (refused.status, refused.code) == (400, "InvalidArgument")
    assert refused.element("Message").startswith("Only one auth mechanism allowed; only the X-Amz")
    for value in ("Basic eDp5", "Bearer x"):
        refused = kit.send(store, "GET", f"/{bucket}/k?{query}", {"authorization": value})
        assert (refused.status, refused.code) == (400, "InvalidArgument")


def test_a_parameter_that_comes_twice_is_refused(store: kit.ObjectStore, bucket: str) -> None:
    target = f"/{bucket}/k?X-Amz-Meta-A=1&x-amz-meta-a=2"
    refused = kit.call(store, "PUT", target, body=BODY)
    assert (refused.status, refused.code) == (400, "InvalidRequest")


@pytest.mark.parametrize("value", ["a%0D%0Ax-evil%3A%201", "a%00", "a%7F"])
def test_a_value_that_no_header_can_have_is_refused(
    store: kit.ObjectStore, bucket: str, value: str
) -> None:
    refused = kit.call(store, "PUT", f"/{bucket}/k?x-amz-meta-a={value}", body=BODY)
    assert (refused.status, refused.code) == (400, "InvalidRequest")
    assert "x-evil" not in refused.headers


@pytest.mark.parametrize(
    "addition",
    ["x-amz-copy-source", "X-Amz-Copy-Source", "x-amz-copy-%73ource", "X-AMZ-COPY-SOURCE"],
)
def test_no_header_can_be_added_to_a_presigned_url(
    store: kit.ObjectStore, s3: Any, presigner: Any, bucket: str, addition: str
) -> None:
    s3.put_object(Bucket=bucket, Key="secret", Body=BODY)
    target, headers = presigned(store, presigner, "put_object", Bucket=bucket, Key="k")
    target += f"&{addition}={bucket}/secret"
    answer = kit.send(store, "PUT", target, headers=headers)
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")


def signed_with(store: kit.ObjectStore, method: str, path: str, params: dict[str, str]) -> str:
    """Return the target of a URL of version 4 whose signature covers further parameters."""
    request = botocore.awsrequest.AWSRequest(method=method, url=store.url + path, params=params)
    pair = botocore.credentials.Credentials(store.access_key, store.secret_key)
    botocore.auth.S3SigV4QueryAuth(pair, "s3", kit.REGION).add_auth(request)
    return target_of(store, request.url)


def test_the_conditions_of_a_write_hold_in_the_query(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    """AWS reads them as headers: who gives the URL away says that it replaces no object."""
    target = signed_with(store, "PUT", f"/{bucket}/k", {"If-None-Match": "*"})
    assert kit.send(store, "PUT", target, body=BODY).status == 200
    again = kit.send(store, "PUT", target, body=b"other")
    assert (again.status, again.code) == (412, "PreconditionFailed")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == BODY
    etag = s3.head_object(Bucket=bucket, Key="k")["ETag"]
    target = signed_with(store, "PUT", f"/{bucket}/k", {"If-Match": etag})
    contradicted = kit.send(store, "PUT", target, headers={"If-Match": "*"}, body=b"other")
    assert (contradicted.status, contradicted.code) == (400, "InvalidRequest")
    assert kit.send(store, "PUT", target, body=b"other").status == 200
    assert kit.send(store, "PUT", target, body=b"third").status == 412
    read = signed_with(store, "GET", f"/{bucket}/k", {"If-Match": etag})
    assert kit.send(store, "GET", read).status == 412


@pytest.mark.parametrize("scheme", ["header", "s3", "s3v4"])
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("If-None-Match=%2A", (412, "PreconditionFailed")),
        ("if-match=%22d41d8cd98f00b204e9800998ecf8427e%22", (412, "PreconditionFailed")),
        ("If-Unmodified-Since=yesterday", (501, "NotImplemented")),
    ],
)
@pytest.mark.parametrize(("method", "sub"), [("PUT", ""), ("DELETE", ""), ("POST", "uploadId")])
def test_a_write_with_a_condition_in_its_query_changes_no_object_against_it(
    store: kit.ObjectStore,
    s3: Any,
    bucket: str,
    scheme: str,
    condition: str,
    expected: tuple[int, str],
    method: str,
    sub: str,
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=BODY)
    path, body = f"/{bucket}/k?{condition}", b"other"
    if sub:
        upload_id = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
        numbered = {"UploadId": upload_id, "PartNumber": 1}
        etag = s3.upload_part(Bucket=bucket, Key="k", **numbered, Body=body)["ETag"]
        path += f"&uploadId={upload_id}"
        part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    if method == "DELETE":
        body = b""
    if scheme == "header":
        answer = kit.call(store, method, path, body=body)
    else:
        pair = botocore.credentials.Credentials(store.access_key, store.secret_key)
        request = botocore.awsrequest.AWSRequest(method=method, url=store.url + path)
        signer: Any = botocore.auth.HmacV1QueryAuth(pair)
        if scheme == "s3v4":
            signer = botocore.auth.S3SigV4QueryAuth(pair, "s3", kit.REGION)
        signer.add_auth(request)
        answer = kit.send(store, method, target_of(store, request.url), body=body)
    assert (answer.status, answer.code) == expected
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == BODY


def test_a_read_has_its_conditions_in_the_query_of_a_presigned_url_alone(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=BODY)
    condition = {"If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:01 GMT"}
    answer = kit.send(store, "GET", signed_with(store, "GET", f"/{bucket}/k", condition))
    assert (answer.status, answer.code) == (412, "PreconditionFailed")
    query = urllib.parse.urlencode(condition, quote_via=urllib.parse.quote)
    assert kit.call(store, "GET", f"/{bucket}/k?{query}").status == 200


@pytest.mark.parametrize(
    ("version", "dropped", "expected"),
    [
        ("s3", "Expires", (403, "AccessDenied")),
        ("s3v4", "X-Amz-Date", (400, "AuthorizationQueryParametersError")),
    ],
)
def test_a_presigned_url_without_a_parameter_hears_which_it_needs(
    store: kit.ObjectStore, bucket: str, version: str, dropped: str, expected: tuple[int, str]
) -> None:
    client = kit.client(store, config={"signature_version": version})
    params = {"Bucket": bucket, "Key": "k"}
    path, _, query = target_of(
        store, client.generate_presigned_url("put_object", Params=params)
    ).partition("?")
    kept = "&".join(pair for pair in query.split("&") if not pair.startswith(dropped + "="))
    answer = kit.send(store, "PUT", f"{path}?{kept}", body=BODY)
    assert (answer.status, answer.code) == expected
    assert answer.element("Message").startswith("Query-string authentication ")
    assert dropped in answer.element("Message")
