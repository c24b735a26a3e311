"""Configurations of buckets: tags and CORS rules, as boto3 and a browser see them."""

from __future__ import annotations

from typing import Any

import botocore.exceptions
import pytest

from server.s3 import cors, documents, errors
from tests.kit import s3 as kit

ORIGIN = "https://app.example"


def refusal(work: Any, **params: Any) -> tuple[int, str]:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        work(**params)
    answer = caught.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def test_tags_of_a_bucket_are_put_shown_replaced_and_removed(s3: Any, bucket: str) -> None:
    assert refusal(s3.get_bucket_tagging, Bucket=bucket) == (404, "NoSuchTagSet")
    for tags in ({"b": "2", "a": "1"}, {"c": ""}):
        rows = [{"Key": name, "Value": value} for name, value in tags.items()]
        s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": rows})
        assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == sorted(
            rows, key=lambda row: row["Key"]
        )
    for _ in range(2):
        answer = s3.delete_bucket_tagging(Bucket=bucket)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert refusal(s3.get_bucket_tagging, Bucket=bucket) == (404, "NoSuchTagSet")


@pytest.mark.parametrize(
    ("tags", "code"),
    [
        ([{"Key": f"k{n}", "Value": ""} for n in range(51)], "BadRequest"),
        ([{"Key": "aws:a", "Value": ""}], "InvalidTag"),
        ([{"Key": "a", "Value": ""}, {"Key": "a", "Value": "b"}], "InvalidTag"),
        ([{"Key": "a", "Value": "v" * 257}], "InvalidTag"),
    ],
)
def test_tags_that_a_bucket_may_not_have_are_refused(
    s3: Any, bucket: str, tags: list[dict[str, str]], code: str
) -> None:
    assert refusal(s3.put_bucket_tagging, Bucket=bucket, Tagging={"TagSet": tags}) == (400, code)
    assert refusal(s3.get_bucket_tagging, Bucket=bucket) == (404, "NoSuchTagSet")


@pytest.mark.parametrize("document", [b"<Tagging><TagSet/></Tagging>", b"<Tagging/>"])
def test_an_empty_set_of_tags_is_none(
    store: kit.ObjectStore, s3: Any, bucket: str, document: bytes
) -> None:
    tags = {"TagSet": [{"Key": "a", "Value": "1"}]}
    s3.put_bucket_tagging(Bucket=bucket, Tagging=tags)
    assert kit.call(store, "PUT", f"/{bucket}?tagging", body=document).status == 204
    assert refusal(s3.get_bucket_tagging, Bucket=bucket) == (404, "NoSuchTagSet")
    s3.put_object(Bucket=bucket, Key="k", Tagging="a=1")
    assert kit.call(store, "PUT", f"/{bucket}/k?tagging", body=document).status == 200
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []


def test_fifty_tags_are_taken(s3: Any, bucket: str) -> None:
    rows = [{"Key": f"k{n:02}", "Value": "v"} for n in range(50)]
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": rows})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == rows


def test_the_configurations_of_a_table_bucket_are_not_set_here(s3: Any) -> None:
    tagging = {"TagSet": [{"Key": "a", "Value": "b"}]}
    assert refusal(s3.put_bucket_tagging, Bucket="lake", Tagging=tagging)[0] == 405
    assert refusal(s3.delete_bucket_tagging, Bucket="lake")[0] == 405
    assert refusal(s3.get_bucket_tagging, Bucket="lake") == (404, "NoSuchTagSet")
    assert refusal(s3.get_bucket_tagging, Bucket="absent-one") == (404, "NoSuchBucket")


def test_a_bucket_takes_the_configuration_that_every_bucket_has_and_no_other(s3: Any) -> None:
    bucket = kit.new_bucket(s3)
    pays, notifies = s3.put_bucket_request_payment, s3.put_bucket_notification_configuration
    owner, requester = {"Payer": "BucketOwner"}, {"Payer": "Requester"}
    events = {"EventBridgeConfiguration": {}}
    pays(Bucket=bucket, RequestPaymentConfiguration=owner)
    notifies(Bucket=bucket, NotificationConfiguration={}, SkipDestinationValidation=True)
    for call, name, value in (
        (pays, "RequestPaymentConfiguration", requester),
        (notifies, "NotificationConfiguration", events),
    ):
        assert refusal(call, Bucket=bucket, **{name: value}) == (501, "NotImplemented")
    for call, name, value in (
        (pays, "RequestPaymentConfiguration", owner),
        (notifies, "NotificationConfiguration", {}),
    ):
        assert refusal(call, Bucket="absent-one", **{name: value}) == (404, "NoSuchBucket")
        assert refusal(call, Bucket="lake", **{name: value})[0] == 405
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
    malformed = {"Payer": "Anyone"}
    assert refusal(pays, Bucket=bucket, RequestPaymentConfiguration=malformed)[0] == 400


RULES = [
    {
        "ID": "one",
        "AllowedMethods": ["GET", "PUT"],
        "AllowedOrigins": ["https://*.example", ORIGIN],
        "AllowedHeaders": ["x-amz-*", "Content-Type"],
        "ExposeHeaders": ["ETag", "x-amz-request-id"],
        "MaxAgeSeconds": 600,
    },
    {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]},
]


def test_cors_rules_are_put_shown_and_removed(s3: Any, bucket: str) -> None:
    assert refusal(s3.get_bucket_cors, Bucket=bucket) == (404, "NoSuchCORSConfiguration")
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == RULES
    s3.delete_bucket_cors(Bucket=bucket)
    assert refusal(s3.get_bucket_cors, Bucket=bucket) == (404, "NoSuchCORSConfiguration")


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"AllowedMethods": ["PATCH"], "AllowedOrigins": ["*"]}, "InvalidRequest"),
        ({"AllowedMethods": ["get"], "AllowedOrigins": ["*"]}, "InvalidRequest"),
        ({"AllowedMethods": ["GET"], "AllowedOrigins": ["http://*.*"]}, "InvalidRequest"),
        (
            {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "AllowedHeaders": ["**"]},
            "InvalidRequest",
        ),
        ({"AllowedMethods": ["GET"], "AllowedOrigins": ["a\nb: c"]}, "MalformedXML"),
        ({"AllowedMethods": ["GET"], "AllowedOrigins": ["x" * 65_536]}, "InvalidRequest"),
    ],
)
def test_cors_rules_that_s3_does_not_take_are_refused(
    s3: Any, bucket: str, rule: dict[str, Any], code: str
) -> None:
    rules = {"CORSRules": [rule]}
    assert refusal(s3.put_bucket_cors, Bucket=bucket, CORSConfiguration=rules) == (400, code)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<CORSConfiguration/>",
        b"<Tagging/>",
        b"<CORSConfiguration><CORSRule/></CORSConfiguration>",
        b"<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>"
        b"</CORSConfiguration>",
        b"<CORSConfiguration><Rule><AllowedMethod>GET</AllowedMethod>"
        b"<AllowedOrigin>*</AllowedOrigin></Rule></CORSConfiguration>",
    ],
)
def test_a_document_that_is_no_cors_configuration_is_malformed(document: bytes) -> None:
    with pytest.raises((errors.UnexpectedXml, Exception)) as caught:
        documents.parse_cors(document)
    assert type(caught.value).__name__ in ("UnexpectedXml", "MalformedXML")


def preflight(
    store: kit.ObjectStore,
    target: str,
    *,
    method: str | None,
    origin: str | None,
    headers: str = "",
) -> kit.Answer:
    sent = {
        "origin": origin,
        "access-control-request-method": method,
        "access-control-request-headers": headers or None,
    }
    present = {name: value for name, value in sent.items() if value is not None}
    return kit.send(store, "OPTIONS", target, present)


def test_a_preflight_names_what_the_first_rule_that_fits_allows(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    target = f"/{bucket}/k"
    answer = preflight(store, target, method="PUT", origin=ORIGIN)
    assert (answer.status, answer.code) == (403, "AccessForbidden")
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    answer = preflight(
        store, target, method="PUT", origin=ORIGIN, headers="X-Amz-Date, content-type"
    )
    assert (answer.status, answer.body) == (200, b"")
    allowed = {
        name: value for name, value in answer.headers.items() if name.startswith("access-control")
    }
    assert allowed == {
        "access-control-allow-origin": ORIGIN,
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "GET, PUT",
        "access-control-allow-headers": "x-amz-date, content-type",
        "access-control-expose-headers": "ETag, x-amz-request-id",
        "access-control-max-age": "600",
    }
    assert answer.headers["vary"].startswith("Origin")
    answer = preflight(store, target, method="GET", origin="http://elsewhere")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    ("method", "origin", "headers", "status"),
    [
        ("PUT", "http://elsewhere", "", 403),
        ("DELETE", ORIGIN, "", 403),
        ("PUT", ORIGIN, "authorization", 403),
        ("GET", "http://elsewhere", "x-amz-date", 403),
        (None, ORIGIN, "", 400),
        ("PUT", None, "", 400),
    ],
)
def test_a_preflight_for_more_than_the_rules_allow_is_refused(
    store: kit.ObjectStore,
    s3: Any,
    bucket: str,
    method: str | None,
    origin: str | None,
    headers: str,
    status: int,
) -> None:
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    answer = preflight(store, f"/{bucket}/k", method=method, origin=origin, headers=headers)
    assert answer.status == status
    assert "access-control-allow-origin" not in answer.headers


def test_a_preflight_without_rules_hears_what_is_missing(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    """The origin comes first, then the bucket, its rules, and the method of the request to come."""
    for name in (bucket, "absent-bucket"):
        answer = preflight(store, f"/{name}/k", method="PUT", origin=None)
        assert (answer.status, answer.code) == (400, "BadRequest")
        assert (
            answer.element("Message") == "Insufficient information. Origin request header needed."
        )
    for method in ("PUT", None):
        for name, message in (
            (bucket, "CORSResponse: CORS is not enabled for this bucket."),
            ("absent-bucket", "CORSResponse: Bucket not found"),
        ):
            answer = preflight(store, f"/{name}/k", method=method, origin=ORIGIN)
            assert (answer.status, answer.code) == (403, "AccessForbidden")
            assert answer.element("Message") == message
            assert answer.element("Method") == (method or "OPTIONS")
            assert answer.element("ResourceType") == "BUCKET"
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    for target, resource_type in ((f"/{bucket}/k", "OBJECT"), (f"/{bucket}", "BUCKET")):
        answer = preflight(store, target, method="PUT", origin="http://elsewhere")
        assert (answer.status, answer.element("ResourceType")) == (403, resource_type)


def test_an_empty_origin_of_a_cors_rule_allows_none(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    """Terraform's tests put one, and AWS takes it."""
    rule = {"AllowedMethods": ["GET"], "AllowedOrigins": [""]}
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [rule]
    assert preflight(store, f"/{bucket}/k", method="GET", origin=ORIGIN).status == 403


def test_a_preflight_of_a_presigned_or_sub_resource_url_needs_no_signature(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    client = kit.client(store, config={"signature_version": "s3v4"})
    urls = [
        client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"}),
        f"{store.url}/{bucket}/k?tagging",
    ]
    for url in urls:
        target = url.removeprefix(store.url)
        assert preflight(store, target, method="PUT", origin=ORIGIN).status == 200


def test_answers_and_errors_have_the_headers_of_the_rules(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": RULES})
    s3.put_object(Bucket=bucket, Key="k", Body=b"body")
    origin = {"origin": ORIGIN}
    for method, target, status in (
        ("GET", f"/{bucket}/k", 200),
        ("GET", f"/{bucket}/absent", 404),
        ("PUT", f"/{bucket}/new", 200),
        ("GET", f"/{bucket}?policy", 404),
        ("GET", f"/{bucket}?website", 404),
    ):
        answer = kit.call(store, method, target, origin)
        assert answer.status == status, answer.body
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert answer.headers["access-control-expose-headers"] == "ETag, x-amz-request-id"
    answer = kit.send(store, "GET", f"/{bucket}/k", origin)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (403, ORIGIN)
    answer = kit.call(store, "DELETE", f"/{bucket}/k", origin)
    assert answer.status == 204
    assert "access-control-allow-origin" not in answer.headers
    answer = kit.call(store, "GET", f"/{bucket}/new")
    assert "access-control-allow-origin" not in answer.headers
    assert "access-control-allow-origin" not in kit.call(store, "GET", "/none-such", origin).headers


@pytest.mark.parametrize(
    ("pattern", "origin", "fits"),
    [
        ("*", "http://a", True),
        ("*suffix", "foo.suffix", True),
        ("*suffix", "foo.suffix.get", False),
        ("start*end", "startend", True),
        ("start*end", "start12end", True),
        ("start*end", "0start12end", False),
        ("aba*aba", "aba", False),
        ("aba*aba", "ababa", False),
        ("prefix*", "bla.prefix", False),
        ("http://a", "HTTP://A", False),
    ],
)
def test_a_pattern_of_an_origin(pattern: str, origin: str, fits: bool) -> None:
    rule = cors.Rule(methods=("GET",), origins=(pattern,))
    wanted = cors.Wanted(origin=origin, method="GET")
    assert (cors.allow((rule,), wanted) is not None) == fits
