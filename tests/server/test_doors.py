"""Every door of a running server: nothing but health opens without a credential that is right."""

from __future__ import annotations

import base64
import http.client
import json
import re
import time
from urllib.parse import urlsplit

import pytest

from tests.server import requesting

OPEN = {"/_health"}
CLOSED = [
    ("GET", "/"),
    ("GET", "/lake"),
    ("GET", "/lake/any/key"),
    ("PUT", "/lake/any/key"),
    ("DELETE", "/lake"),
    ("POST", "/lake?delete"),
    ("POST", "/no-such-bucket?delete"),
    ("GET", "/iceberg/v1/config"),
    ("GET", "/iceberg/v1/lake/namespaces"),
    ("POST", "/iceberg/v1/lake/namespaces"),
    ("GET", "/iceberg/nothing"),
    ("GET", "/_metrics"),
    ("GET", "/_api/v1/warehouses/lake/loads"),
    ("GET", "/_api/v1/nothing"),
    ("GET", "/_console"),
]
SQL = [
    ("POST", "/queries/v1/query-request?requestId=1"),
    ("POST", "/session?delete=true"),
    ("POST", "/session/heartbeat"),
    ("GET", "/monitoring/queries//1"),
    ("POST", "/telemetry/send"),
    ("POST", "/telemetry/send/sessionless"),
]

# Every face: a route that it has and one that it has not, with the service that a signature names;
# the statuses and codes of an unsigned request, of a wrong signature, of an unknown access key, and
# the status of the right one. A request without a signature names no service, so that on s3tables
# and by GET on sts it is one to S3: on s3tables to a bucket of the path's name, which is absent.
S3 = ("403 AccessDenied", "403 SignatureDoesNotMatch", "403 InvalidAccessKeyId")
S3TABLES = (
    "404 NoSuchBucket",
    "403 InvalidSignatureException",
    "403 UnrecognizedClientException",
)
QUERY = ("403 AccessDenied", "403 SignatureDoesNotMatch", "403 InvalidClientTokenId")
ICEBERG = ("401 NotAuthorizedException",) * 3
NATIVE = ("401 Unauthorized",) * 3
NO_ROUTE = ("405 MethodNotAllowed",)
NO_ACTION = ("400 MissingAction",)
LOGGING = "/buckets/arn%3Aaws%3As3tables%3Aus-east-1%3A000000000000%3Abucket%2Flake/logging"
DOORS = [
    ("GET", "/", "s3", S3, 200),
    ("PUT", "/never-made", "s3", S3, None),
    ("GET", "/lake/no/such/key", "s3", S3, 404),
    ("GET", "/lake?acl", "s3", S3, 405),
    ("PUT", "/lake?accelerate", "s3", S3, 501),
    ("GET", "/buckets", "s3tables", S3TABLES, 200),
    # An unsigned POST to a bucket is an upload by a form, and this one has none.
    ("POST", "/start-table-migration", "s3tables", ("412 PreconditionFailed", *S3TABLES[1:]), 400),
    ("PUT", LOGGING, "s3tables", S3TABLES, 400),
    ("GET", "/no/such/route", "s3tables", S3TABLES, 404),
    ("GET", "/iceberg/v1/config", "s3tables", ICEBERG, 200),
    ("GET", "/iceberg/v1/config", "glue", ICEBERG, 200),
    ("POST", "/iceberg/v1/lake/namespaces/ns/tables/t/sign", "execute-api", ICEBERG, 404),
    ("GET", "/iceberg/no/such/route", "execute-api", ICEBERG, 404),
    ("GET", "/_metrics", "execute-api", NATIVE, 200),
    ("GET", "/_console", "execute-api", NATIVE, 404),
    ("GET", "/_console/app.js", "execute-api", NATIVE, 404),
    ("GET", "/_api/v1/no-such-route", "execute-api", NATIVE, 404),
    ("GET", "/?Action=GetCallerIdentity&Version=2011-06-15", "sts", QUERY, 200),
    # An unsigned POST of the root is for STS, which has an operation without a signature.
    ("POST", "/", "sts", NO_ACTION + QUERY[1:], 400),
    ("POST", "/", "iam", NO_ACTION + QUERY[1:], 400),
    ("POST", "/", "dynamodb", NO_ACTION + NO_ROUTE * 2, 405),
]  # fmt: skip


def ask(server, method, target, headers=None, body=b""):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    try:
        connection.request(method, target, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def ask_signed(server, method, target, *, change=None, **more):
    more.setdefault("access_key", server.access_key)
    more.setdefault("secret_key", server.secret_key)
    more.setdefault("at_ms", int(time.time() * 1000))
    prepared = requesting.signed(method, server.url + target, **more)
    parts = urlsplit(prepared.url)
    sent = parts.path + ("?" + parts.query if parts.query else "")
    headers = {**prepared.headers, **(change or {}).get("headers", {})}
    return ask(server, method, (change or {}).get("target", sent), headers, more.get("body", b""))


def test_every_answer_of_s3_names_the_host_that_gave_it(server):
    answers = [
        ask(server, "GET", "/lake"),
        ask_signed(server, "GET", "/"),
        ask_signed(server, "HEAD", "/none-such"),
    ]
    assert [status for status, _, _ in answers] == [403, 200, 404]
    names = {headers["x-amz-id-2"] for _, _, headers in answers}
    assert len(names) == 1
    name = names.pop()
    assert len(base64.b64decode(name, validate=True)) == 48
    assert f"<HostId>{name}</HostId>" in answers[0][1].decode()
    assert "x-amz-id-2" not in ask(server, "GET", "/_health")[2]


def test_health_needs_no_credential(server):
    status, body, headers = ask(server, "GET", "/_health")
    assert status == 200
    assert json.loads(body)["status"] == "ok"
    assert headers["x-amz-request-id"]


@pytest.mark.parametrize(("method", "target"), CLOSED)
def test_unsigned_request_gets_nothing(server, method, target):
    status, _, _ = ask(server, method, target)
    assert status in (401, 403)


@pytest.mark.parametrize(("method", "target"), [("GET", "/buckets"), ("PUT", "/tables/x")])
def test_unsigned_request_to_a_route_of_s3tables_is_one_to_an_absent_bucket(server, method, target):
    status, body, headers = ask(server, method, target)
    assert (status, code_of(body, headers)) == (404, "NoSuchBucket")


def code_of(body, headers):
    """The error's name, in the form of the face that answered."""
    if headers.get("content-type", "").endswith("xml"):
        return re.search(rb"<Code>(\w+)</Code>", body)[1].decode()
    said = json.loads(body)
    if "__type" in said:
        assert headers["x-amzn-ErrorType"] == said["__type"]
        return said["__type"]
    return said["error"]["type"]


@pytest.mark.parametrize(("method", "target", "service", "refusals", "right"), DOORS)
def test_every_door_refuses_in_its_own_form_before_it_says_what_is_behind_it(
    server, method, target, service, refusals, right
):
    wrong = (
        lambda: ask(server, method, target),
        lambda: ask_signed(server, method, target, service=service, secret_key="wrong"),
        lambda: ask_signed(server, method, target, service=service, access_key="NOBODY"),
    )
    for attempt, expected in zip(wrong, refusals, strict=True):
        status, body, headers = attempt()
        assert f"{status} {code_of(body, headers)}" == expected
        assert server.secret_key.encode() not in body
    if right is not None:
        assert ask_signed(server, method, target, service=service)[0] == right


@pytest.mark.parametrize(("method", "target"), SQL)
def test_sql_without_a_session_gets_nothing(server, method, target):
    for headers in ({}, {"authorization": 'Snowflake Token="None"'}):
        status, body, _ = ask(
            server, method, target, {"content-type": "application/json", **headers}, b"{}"
        )
        assert status in (200, 401, 403)
        if status == 200:
            assert json.loads(body)["success"] is False


@pytest.mark.parametrize("target", ["/iceberg/v1/config", "/_metrics"])
@pytest.mark.parametrize(
    "authorization",
    ["Bearer x.y.z", "Bearer ", "Basic eDp5", "AWS x:y", "Negotiate", "AWS4-HMAC-SHA256 x", "é"],
)
def test_wrong_credential_gets_nothing(server, target, authorization):
    status, _, _ = ask(server, "GET", target, {"authorization": authorization.encode("latin-1")})
    assert status in (400, 401, 403)


@pytest.mark.parametrize(
    ("service", "target"),
    [("s3", "/"), ("s3tables", "/buckets"), ("glue", "/iceberg/v1/config")],
)
def test_right_signature_opens_and_every_wrong_one_does_not(server, service, target):
    def status(**more):
        return ask_signed(server, "GET", target, service=service, **more)[0]

    hour_ago_ms = int(time.time() * 1000) - 3_600_000
    assert status() == 200
    assert status(secret_key="wrong") in (401, 403)
    assert status(access_key="NOBODY") in (401, 403)
    assert status(at_ms=hour_ago_ms) in (401, 403)
    assert status(change={"target": target + "?x=1"}) in (401, 403)
    assert status(change={"headers": {"Host": "elsewhere"}}) in (401, 403)


def test_presigned_request_opens_until_its_end_and_only_what_was_signed(server):
    def ask_presigned(**more):
        return ask_signed(server, "GET", "/lake?list-type=2", expires_seconds=60, **more)

    assert ask_presigned()[0] in (200, 403)
    minutes_ago_ms = int(time.time() * 1000) - 120_000
    status, body, _ = ask_presigned(at_ms=minutes_ago_ms)
    assert (status, b"<Code>AccessDenied</Code>" in body) == (403, True)
    status, body, _ = ask_presigned(secret_key="wrong")
    assert (status, b"<Code>SignatureDoesNotMatch</Code>" in body) == (403, True)


def test_metrics_count_what_was_served(server):
    status, body, _ = ask_signed(server, "GET", "/_metrics", service="execute-api")
    assert status == 200
    assert b'boathouse_requests_total{face="native",status="200"}' in body or b"boathouse" in body


def test_refusals_stand_in_the_audit_log_without_secrets(server):
    status, _, headers = ask_signed(server, "GET", "/", secret_key="wrong")
    assert status == 403
    wanted = headers["x-amz-request-id"]
    deadline = time.monotonic() + 60
    records: list[dict[str, str]] = []
    while not records and time.monotonic() < deadline:
        lines = [
            json.loads(line)
            for path in sorted((server.data / "audit").iterdir())
            # the server is writing: what stands after the last line end is not a line yet
            for line in path.read_text().rpartition("\n")[0].splitlines()
        ]
        records = [line for line in lines if line.get("request_id") == wanted]
    assert records[0]["event"] == "refuse"
    assert records[0]["reason"] == "SignatureDoesNotMatch"
    assert server.secret_key not in json.dumps(lines)
