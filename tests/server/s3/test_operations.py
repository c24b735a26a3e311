"""What a request means: method, path, host, query and headers become one operation."""

from __future__ import annotations

import dataclasses
import functools
import urllib.parse
from typing import Any

import botocore.session
import pytest

from server.s3 import errors, fields, operations, routes, rows
from storage import conditions, model

ABSENT = frozenset({
    "DeleteBucketAnalyticsConfiguration",
    "DeleteBucketIntelligentTieringConfiguration",
    "DeleteBucketInventoryConfiguration",
    "DeleteBucketMetricsConfiguration",
    "DeleteBucketReplication",
    "DeleteBucketWebsite",
    "GetBucketAccelerateConfiguration",
    "GetBucketAnalyticsConfiguration",
    "GetBucketIntelligentTieringConfiguration",
    "GetBucketInventoryConfiguration",
    "GetBucketMetricsConfiguration",
    "GetBucketNotificationConfiguration",
    "GetBucketReplication",
    "GetBucketRequestPayment",
    "GetBucketWebsite",
    "GetObjectTorrent",
    "ListBucketAnalyticsConfigurations",
    "ListBucketIntelligentTieringConfigurations",
    "ListBucketInventoryConfigurations",
    "ListBucketMetricsConfigurations",
})  # fmt: skip
"""Configurations that clients ask for before they work; no bucket has one."""

ENCRYPTION = frozenset({f"{verb}BucketEncryption" for verb in ("Delete", "Get", "Put")})

# Names that S3 gives to the same request as another name.
SAME_REQUEST = {
    "GetBucketLifecycle": "GetBucketLifecycleConfiguration",
    "PutBucketLifecycle": "PutBucketLifecycleConfiguration",
    "GetBucketNotification": "GetBucketNotificationConfiguration",
    "PutBucketNotification": "PutBucketNotificationConfiguration",
    "ListDirectoryBuckets": "ListBuckets",
}


class Headers(dict[str, str]):
    """A stand-in for the request's headers."""


def identify(
    method: str,
    target: str,
    headers: dict[str, str] | None = None,
    *,
    host_bucket: str | None = None,
) -> Any:
    return identify_row(method, target, headers, host_bucket=host_bucket)[1]


def identify_row(
    method: str,
    target: str,
    headers: dict[str, str] | None = None,
    *,
    host_bucket: str | None = None,
) -> tuple[routes.S3Row, Any]:
    path, _, query = target.partition("?")
    return rows.TABLE.identify(
        method=method,
        raw_path=path.encode(),
        host_bucket=host_bucket,
        pairs=urllib.parse.parse_qsl(query, keep_blank_values=True),
        headers=Headers(headers or {}),
    )


@functools.cache
def aws_model() -> Any:
    """AWS's own model of S3, which botocore reads anew for each session."""
    return botocore.session.get_session().get_service_model("s3")


def aws_operations() -> list[tuple[str, str, str, dict[str, str]]]:
    """Every operation of AWS's own S3 model: name, method, request target, headers."""
    model = aws_model()
    requests = []
    for name in model.operation_names:
        operation = model.operation_model(name)
        path, _, query = operation.http["requestUri"].partition("?")
        path = path.replace("{Bucket}", "a-bucket").replace("{Key+}", "a/key")
        parts = [query] if query else []
        headers = {}
        shape = operation.input_shape
        for member in shape.required_members if shape else ():
            serialized = shape.members[member].serialization
            if serialized.get("location") == "querystring":
                parts.append(f"{serialized['name']}=1")
            elif serialized.get("location") == "header":
                header = serialized["name"].lower()
                headers[header] = "ETag" if header == "x-amz-object-attributes" else "b/k"
        requests.append((name, operation.http["method"], path + "?" + "&".join(parts), headers))
    return requests


@pytest.mark.parametrize(
    ("name", "method", "target", "headers"),
    [pytest.param(*row, id=row[0]) for row in aws_operations()],
)
def test_every_operation_of_aws_s3_is_known_by_its_name(
    name: str, method: str, target: str, headers: dict[str, str]
) -> None:
    row, _ = identify_row(method, target, headers)
    assert row.name == SAME_REQUEST.get(name, name)


def test_the_rows_hold_every_operation_of_aws_s3() -> None:
    names = {SAME_REQUEST.get(name, name) for name, *_ in aws_operations()}
    named = [row for row in rows.ROWS if row.status is not None]
    assert len(named) == len({row.name for row in named})
    assert {row.name for row in named} == names | {"PostObject"}


def test_a_row_without_a_handler_is_not_implemented_and_no_other() -> None:
    for row in rows.ROWS:
        assert (row.operation.handler is None) == (row.status == "no"), row.name
    partly = {row.name for row in rows.ROWS if row.status == "partly"}
    narrow = {
        "PutBucketLogging",
        "PutBucketNotificationConfiguration",
        "PutBucketRequestPayment",
    }
    assert partly == ABSENT | ENCRYPTION | narrow


def test_a_condition_that_all_requests_meet_hides_no_later_row() -> None:
    unconditional = set()
    for row in rows.ROWS:
        for method in row.methods:
            place = (row.scope, row.subresource, method)
            assert place not in unconditional, row.name
            if row.when is None:
                unconditional.add(place)


def test_a_post_of_a_form_is_identified_by_its_content_type() -> None:
    headers = {"content-type": "multipart/form-data; boundary=x", "if-none-match": "*"}
    assert identify("POST", "/b", headers) == operations.PostObject(
        bucket="b", boundary="x", conditions=model.Precondition(if_none_match=("*",))
    )
    with pytest.raises(errors.NotAForm):
        identify("POST", "/b", {"content-type": "application/x-www-form-urlencoded"})


@pytest.mark.parametrize(
    ("target", "host_bucket", "expected"),
    [
        ("/b/k", None, ("b", "k")),
        ("/b/", None, ("b", "")),
        ("/b", None, ("b", "")),
        ("/", None, ("", "")),
        ("/b/a//c", None, ("b", "a//c")),
        ("/b//c", None, ("b", "/c")),
        ("/b/a%2Fb", None, ("b", "a/b")),
        ("/b/a%252Fb", None, ("b", "a%2Fb")),
        ("/b/a+b", None, ("b", "a+b")),
        ("/b/../c", None, ("b", "../c")),
        ("/b/caf%C3%A9", None, ("b", "café")),
        ("/k", "b", ("b", "k")),
        ("//k", "b", ("b", "/k")),
        ("/", "b", ("b", "")),
    ],
)
def test_locate_decodes_once_and_normalises_nothing(
    target: str, host_bucket: str | None, expected: tuple[str, str]
) -> None:
    assert operations.locate(target.encode(), host_bucket) == expected


def test_locate_keeps_bytes_that_are_not_utf8_and_is_text_tells() -> None:
    _, key = operations.locate(b"/b/a%FFb", None)
    assert key.encode("utf-8", "surrogateescape") == b"a\xffb"
    assert not operations.is_text(key)
    assert operations.is_text("café")


def test_an_empty_bucket_in_the_path_is_refused() -> None:
    with pytest.raises(errors.InvalidUri):
        identify("GET", "//k")


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/", operations.ListBuckets()),
        ("GET", "/?x-id=ListBuckets&max-buckets=3", operations.ListBuckets(max_buckets=3)),
        ("GET", "/b/?list-type=2&prefix=p%2F", operations.ListObjectsV2(bucket="b", prefix="p/")),
        ("GET", "/b/", operations.ListObjects(bucket="b")),
        ("GET", "/b?max-keys=0", operations.ListObjects(bucket="b", max_keys=0)),
        ("GET", "/b?max-keys=5000", operations.ListObjects(bucket="b", max_keys=1000)),
        ("GET", "/b?delimiter=", operations.ListObjects(bucket="b")),
        ("GET", "/b/?location", operations.Target(bucket="b")),
        ("POST", "/b/?delete=", operations.DeleteObjects(bucket="b")),
        ("PUT", "/b/", operations.CreateBucket(bucket="b")),
        ("HEAD", "/b/", operations.Target(bucket="b")),
        ("GET", "/b/k?x-id=GetObject", operations.GetObject(bucket="b", key="k")),
        (
            "GET",
            "/b/k?partNumber=2",
            operations.GetObject(bucket="b", key="k", read=fields.Read(part_number=2)),
        ),
        (
            "DELETE",
            "/b/k?uploadId=u",
            operations.AbortMultipartUpload(bucket="b", key="k", upload_id="u"),
        ),
        (
            "GET",
            "/b/k?uploadId=u&max-parts=2&part-number-marker=7",
            operations.ListParts(
                bucket="b", key="k", upload_id="u", after_part_number=7, max_parts=2
            ),
        ),
        (
            "POST",
            "/b/k?uploads=",
            operations.CreateMultipartUpload(bucket="b", key="k", written=fields.Written()),
        ),
        ("OPTIONS", "/b/k", operations.Target(bucket="b", key="k")),
    ],
)
def test_identify_reads_the_query(method: str, target: str, expected: object) -> None:
    assert identify(method, target) == expected


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/"), ("POST", "/b/k"), ("PATCH", "/b/k"), ("DELETE", "/b?versions"), ("PUT", "/")],
)
def test_a_method_that_the_resource_lacks_is_not_allowed(method: str, target: str) -> None:
    with pytest.raises(errors.ResourceMethodNotAllowed):
        identify(method, target)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("uploadId=u", errors.InvalidRequest),
        ("partNumber=1", errors.InvalidRequest),
        ("versionId=null", errors.InvalidArgument),
        ("versioning&versionId=null", errors.InvalidArgument),
        ("legal-hold", errors.ResourceMethodNotAllowed),
        ("x-id=a&retention", errors.ResourceMethodNotAllowed),
    ],
)
def test_a_request_about_an_object_without_its_key_is_not_one_of_the_bucket(
    method: str, query: str, error: type[errors.S3Error]
) -> None:
    for target in (f"/b?{query}", f"/b/?{query}"):
        with pytest.raises(error):
            identify(method, target)
    with pytest.raises(error):
        identify(method, f"/?{query}", host_bucket="b")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("/b/k?policy&tagging", "policy, tagging"),
        ("/b/k?tagging&policy", "policy, tagging"),
        ("/b/k?retention=&acl=1&x-id=a", "acl, retention"),
        ("/b/k?uploads&uploadId=u", "uploadId, uploads"),
        ("/b/k?tagging&uploadId=u&partNumber=1", "partNumber, tagging, uploadId"),
        ("/b/k?tagging&partNumber=1", "partNumber, tagging"),
        ("/b/k?versionId=null&acl&tagging", "acl, tagging"),
        ("/b?policy&versioning", "policy, versioning"),
        ("/b?uploads&legal-hold", "legal-hold, uploads"),
        ("/b?delete&acl", "acl, delete"),
    ],
)
def test_two_sub_resources_in_one_query_are_a_conflict(
    method: str, target: str, names: str
) -> None:
    with pytest.raises(errors.InvalidArgument) as raised:
        identify(method, target)
    assert str(raised.value) == f"Conflicting query string parameters: {names}"
    assert raised.value.fields == {
        "ArgumentName": "ResourceType",
        "ArgumentValue": names.partition(",")[0],
    }


@pytest.mark.parametrize(
    ("method", "query"),
    [
        ("PUT", "uploadId=u"),
        ("DELETE", "uploadId=u&partNumber=1"),
        ("POST", "partNumber=1&uploadId=u"),
        ("GET", "uploadId=u&partNumber=1"),
        ("HEAD", "uploadId=u&partNumber=1"),
        ("HEAD", "uploadId=u"),
        ("HEAD", "tagging"),
        ("HEAD", "policy"),
    ],
)
def test_a_part_or_a_sub_resource_is_not_taken_for_its_object(method: str, query: str) -> None:
    with pytest.raises(errors.ResourceMethodNotAllowed):
        identify(method, f"/b/k?{query}")


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_write_of_a_part_without_an_upload_is_an_invalid_argument(method: str) -> None:
    for headers in ({}, {"x-amz-copy-source": "b/from"}):
        with pytest.raises(errors.InvalidArgument, match="partNumber without uploadId"):
            identify(method, "/b/k?partNumber=1", headers)


def test_an_abort_has_no_version_id() -> None:
    with pytest.raises(errors.InvalidArgument):
        identify("DELETE", "/b/k?uploadId=u&versionId=null")


@pytest.mark.parametrize("query", ["policy", "location", "versions", "cors&versionId=null"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_read_about_a_bucket_with_a_key_is_not_one_of_the_object(method: str, query: str) -> None:
    with pytest.raises(errors.ResourceMethodNotAllowed):
        identify(method, f"/b/k?{query}")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    "query", ["policy", "versioning", "lifecycle=", "cors&x-id=a", "object-lock", "delete"]
)
def test_a_write_about_a_bucket_with_a_key_is_not_one_of_the_object(
    method: str, query: str
) -> None:
    with pytest.raises(errors.ResourceMethodNotAllowed) as raised:
        identify(method, f"/b/k?{query}")
    assert raised.value.fields["Method"] == method


def test_parameters_that_mean_nothing_to_s3_are_ignored() -> None:
    for method, target, name in (
        ("PUT", "/b/k?x-id=PutObject&colour=red", "PutObject"),
        ("DELETE", "/b?x-id=DeleteBucket", "DeleteBucket"),
        ("GET", "/b/k?session=1&Policy=2", "GetObject"),
        ("HEAD", "/b/k?session=1&publicAccessBlock", "HeadObject"),
        ("GET", "/b/k?partNumber=1&versionId=null&response-expires=x", "GetObject"),
        ("GET", "/b?prefix=x&X-Amz-Expires=1&Signature=x", "ListObjects"),
        ("OPTIONS", "/b/k?tagging&policy", "Preflight"),
    ):
        assert identify_row(method, target)[0].name == name


def test_put_object_takes_in_what_the_headers_say() -> None:
    operation = identify(
        "PUT",
        "/b/k",
        {
            "content-length": "77",
            "x-amz-decoded-content-length": "11",
            "content-encoding": "gzip, aws-chunked",
            "content-type": "text/plain",
            "x-amz-meta-colour": "blue",
            "x-amz-tagging": "a=1&b=",
            "x-amz-storage-class": "STANDARD_IA",
            "x-amz-trailer": "x-amz-checksum-crc32c",
            "x-amz-sdk-checksum-algorithm": "CRC32C",
            "if-none-match": "*",
            "x-amz-acl": "private",
        },
    )
    assert operation == operations.PutObject(
        bucket="b",
        key="k",
        size_bytes=11,
        written=fields.Written(
            headers={"content-encoding": "gzip", "content-type": "text/plain"},
            user_metadata={"colour": "blue"},
            tags={"a": "1", "b": ""},
            storage_class="STANDARD_IA",
            acl=fields.WantedAcl(canned="private"),
        ),
        integrity=fields.Integrity(trailer="crc32c", announced="crc32c"),
        conditions=model.Precondition(if_none_match=("*",)),
    )


def test_put_object_stores_no_content_encoding_if_it_was_only_aws_chunked() -> None:
    operation = identify("PUT", "/b/k", {"content-encoding": "aws-chunked"})
    assert operation.written.headers == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("/b/k", ("b", "k", None)),
        ("b/k", ("b", "k", None)),
        ("b/a%20b%2Fc", ("b", "a b/c", None)),
        ("b/a b", ("b", "a b", None)),
        ("b/a+b%2Bc", ("b", "a b+c", None)),
        ("b/café".encode().decode("latin-1"), ("b", "café", None)),
        ("b//k?versionId=null", ("b", "/k", "null")),
        ("b/what?is=this", ("b", "what?is=this", None)),
    ],
)
def test_copy_object_understands_every_spelling_of_the_source(
    source: str, expected: tuple[str, str, str | None]
) -> None:
    operation = identify("PUT", "/d/k", {"x-amz-copy-source": source})
    assert isinstance(operation, operations.CopyObject)
    parsed_source = operation.source
    assert (parsed_source.bucket, parsed_source.key, parsed_source.version_id) == expected


def test_a_copy_of_the_empty_version_is_not_one_of_the_newest() -> None:
    with pytest.raises(errors.InvalidArgument) as raised:
        identify("PUT", "/b/k", {"x-amz-copy-source": "b/from?versionId="})
    assert raised.value.fields["ArgumentName"] == "x-amz-copy-source"


@pytest.mark.parametrize("source", ["", "/", "b", "b/", "/b/", "b/%FF"])
def test_copy_object_without_a_source_key_is_refused(source: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        identify("PUT", "/d/k", {"x-amz-copy-source": source})


def test_copy_object_reads_the_sources_conditions_apart_from_its_own() -> None:
    operation = identify(
        "PUT",
        "/d/k",
        {
            "x-amz-copy-source": "b/k",
            "x-amz-copy-source-if-match": '"one"',
            "if-none-match": "*",
        },
    )
    assert operation.source.conditions == conditions.ReadConditions(if_match=("one",))
    assert operation.conditions == model.Precondition(if_none_match=("*",))


def test_upload_part_copy_takes_a_closed_range_only() -> None:
    target = "/d/k?partNumber=1&uploadId=u"
    headers = {"x-amz-copy-source": "b/k", "x-amz-copy-source-range": "bytes=0-9"}
    assert identify("PUT", target, headers).byte_range == (0, 9)
    for refused in ("bytes=5-", "bytes=-5", "0-9", "bytes=9-0", "bytes=0-1,3-4"):
        with pytest.raises(errors.InvalidArgument):
            identify("PUT", target, {**headers, "x-amz-copy-source-range": refused})


@pytest.mark.parametrize("number", ["0", "10001", "-1", "x", "", "99999999"])
def test_a_part_number_outside_one_to_ten_thousand_is_refused(number: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        identify("PUT", f"/d/k?partNumber={number}&uploadId=u")


@pytest.mark.parametrize(
    ("algorithm", "checksum_type", "expected"),
    [
        ("CRC32", None, ("crc32", "COMPOSITE")),
        ("CRC64NVME", None, ("crc64nvme", "FULL_OBJECT")),
        ("CRC32C", "FULL_OBJECT", ("crc32c", "FULL_OBJECT")),
        ("SHA256", "COMPOSITE", ("sha256", "COMPOSITE")),
        ("XXHASH128", None, ("xxhash128", "COMPOSITE")),
        ("MD5", None, ("md5", "COMPOSITE")),
        (None, None, (None, None)),
    ],
)
def test_create_multipart_upload_settles_the_checksum_type(
    algorithm: str | None, checksum_type: str | None, expected: tuple[str | None, str | None]
) -> None:
    headers = {}
    if algorithm:
        headers["x-amz-checksum-algorithm"] = algorithm
    if checksum_type:
        headers["x-amz-checksum-type"] = checksum_type
    operation = identify("POST", "/b/k?uploads", headers)
    assert (operation.checksum_algorithm, operation.checksum_type) == expected


@pytest.mark.parametrize(
    ("algorithm", "checksum_type"),
    [
        ("SHA1", "FULL_OBJECT"),
        ("SHA512", "FULL_OBJECT"),
        ("MD5", "FULL_OBJECT"),
        ("XXHASH3", "FULL_OBJECT"),
        ("CRC64NVME", "COMPOSITE"),
        ("XXHASH32", None),
        (None, "COMPOSITE"),
    ],
)
def test_create_multipart_upload_refuses_checksum_types_that_cannot_be(
    algorithm: str | None, checksum_type: str | None
) -> None:
    headers = {}
    if algorithm:
        headers["x-amz-checksum-algorithm"] = algorithm
    if checksum_type:
        headers["x-amz-checksum-type"] = checksum_type
    with pytest.raises(errors.InvalidRequest):
        identify("POST", "/b/k?uploads", headers)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-mfa", "serial 123456"),
        ("x-amz-bypass-governance-retention", "true"),
        ("x-amz-bucket-object-lock-enabled", "true"),
        ("x-amz-website-redirect-location", "/elsewhere"),
        ("x-amz-storage-class", "GLACIER"),
        ("x-amz-bucket-namespace", "account-regional"),
        ("x-amz-object-lock-event-hold", "ON"),
        ("x-amz-object-lock-event-hold-duration-days", "30"),
        ("x-amz-object-lock-event-hold-duration-years", "1"),
    ],
)
def test_a_header_that_asks_for_more_than_is_done_is_refused_by_name(
    header: str, value: str
) -> None:
    with pytest.raises(errors.S3FeatureNotImplemented) as raised:
        identify("PUT", "/b/k", {header: value})
    assert raised.value.fields == {"Header": header}


def test_an_abort_on_a_condition_is_refused_by_name() -> None:
    headers = {"x-amz-if-match-initiated-time": "Sun, 22 Nov 2026 10:00:00 GMT"}
    with pytest.raises(errors.S3FeatureNotImplemented) as raised:
        identify("DELETE", "/b/k?uploadId=1", headers)
    assert raised.value.fields == {"Header": "x-amz-if-match-initiated-time"}


def test_an_object_size_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(errors.InvalidRequest):
        identify("POST", "/b/k?uploadId=1", {"x-amz-mp-object-size": "1" * 5000})


def test_get_object_ignores_the_odd_headers_that_iceberg_sends() -> None:
    operation = identify(
        "GET", "/b/k", {"x-amz-te": "append-md5", "x-amz-checksum-crc32": "AAAAAA=="}
    )
    assert operation == operations.GetObject(bucket="b", key="k")


IGNORED: dict[tuple[str, str], str] = {
    ("*", "x-amz-request-payer"): "no bucket has requesters that pay",
    ("*", "x-amz-expected-bucket-owner"): "the face compares it with every bucket's owner",
    ("*", "x-amz-source-expected-bucket-owner"): "the face compares it with the source's owner",
    ("CopyObject", "x-amz-tagging"): "counts with the directive REPLACE alone",
    ("*", "if-modified-since"): "a date that cannot be parsed is none (RFC 9110, 13.1.3)",
    ("*", "if-unmodified-since"): "a date that cannot be parsed is none (RFC 9110, 13.1.3)",
    ("*", "x-amz-copy-source-if-modified-since"): "a date that cannot be parsed is none",
    ("*", "x-amz-copy-source-if-unmodified-since"): "a date that cannot be parsed is none",
    ("*", "x-amz-checksum-mode"): "anything but ENABLED asks for no checksum",
    (
        "PutBucketNotificationConfiguration",
        "x-amz-skip-destination-validation",
    ): "the document has no destination",
    ("PutBucketPolicy", "x-amz-confirm-remove-self-bucket-access"): "anything but true is false",
}
"""Headers of S3's model, by operation, that may be anything, and why."""


def needed(operation: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return a query and headers that an operation of the model takes."""
    values = {
        "x-amz-copy-source": "/b/k",
        "x-amz-object-attributes": "ETag",
        "partNumber": "1",
        "uploadId": "1",
    }
    _, _, subresource = operation.http["requestUri"].partition("?")
    query = dict(pair.partition("=")[::2] for pair in subresource.split("&") if pair)
    headers = {}
    for name in operation.input_shape.required_members:
        serialization = operation.input_shape.members[name].serialization
        if serialization.get("location") == "querystring":
            query[serialization["name"]] = values.get(serialization["name"], "x")
        elif serialization.get("location") == "header":
            headers[serialization["name"]] = values[serialization["name"]]
    return query, headers


@pytest.mark.parametrize(
    "row", [row for row in rows.ROWS if row.status in ("yes", "partly")], ids=lambda row: row.name
)
def test_no_header_of_the_model_is_ignored(row: routes.S3Row) -> None:
    """A header is a part of the operation's value, or it is refused."""
    operation = aws_model().operation_model
    if row.name == "PostObject" or operation(row.name).input_shape is None:
        return
    query, headers = needed(operation(row.name))
    key = "k" if row.scope == "object" else ""
    plain = row.parse("b", key, query, Headers(headers))
    for member in operation(row.name).input_shape.members.values():
        if member.serialization.get("location") != "header":
            continue
        name = member.serialization["name"].lower()
        if name in headers or {(row.name, name), ("*", name)} & IGNORED.keys():
            continue
        try:
            value = row.parse("b", key, query, Headers({**headers, name: "strange"}))
        except errors.S3Error:
            continue
        assert value != plain, name


def test_every_value_is_frozen_and_names_its_bucket() -> None:
    values = [
        value
        for value in vars(operations).values()
        if dataclasses.is_dataclass(value) and value.__module__ == operations.__name__
    ]
    assert len(values) > 15
    for value in values:
        assert value.__dataclass_params__.frozen
        names = {field.name for field in dataclasses.fields(value)}
        assert "bucket" in names or value is operations.ListBuckets
