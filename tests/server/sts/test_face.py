"""boto3's sts client: who a caller is, and temporary credentials at every door."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit import aws, programs

EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"},
}
USERS = programs.users({"alice": [EVERYTHING], "carol": []})
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Server]:
    folder = tmp_path_factory.mktemp("sts") / "data"
    with aws.serving(folder, users=[*USERS.values()]) as running:
        running.client("s3").create_bucket(Bucket="docs")
        yield running


def session_of(server: aws.Server, keys: aws.Keys, **members: Any) -> aws.Keys:
    return aws.Keys.of(server.client("sts", keys).get_session_token(**members))


def test_get_caller_identity_names_root_and_a_user(server: aws.Server) -> None:
    root = server.client("sts").get_caller_identity()
    assert (root["UserId"], root["Account"]) == ("000000000000", "000000000000")
    assert root["Arn"] == "arn:aws:iam::000000000000:root"
    carol = server.client("sts", aws.keys_of("carol")).get_caller_identity()
    assert carol["Arn"] == "arn:aws:iam::000000000000:user/carol"
    assert carol["UserId"].startswith("AIDA")
    assert len(carol["UserId"]) == 21


def test_a_wrong_secret_and_an_unknown_key_are_refused_in_the_services_form(
    server: aws.Server,
) -> None:
    wrong = aws.Keys(access_key="ALICEKEY", secret_key="guess")
    assert aws.refusal(server.client("sts", wrong).get_caller_identity) == (
        403,
        "SignatureDoesNotMatch",
    )
    unknown = aws.Keys(access_key="NOBODYKEY", secret_key="guess")
    assert aws.refusal(server.client("sts", unknown).get_caller_identity) == (
        403,
        "InvalidClientTokenId",
    )


def test_session_credentials_open_every_signed_door_with_the_users_rights(
    server: aws.Server,
) -> None:
    session = session_of(server, aws.keys_of("alice"))
    assert session.access_key.startswith("ASIA")
    server.client("s3", session).put_object(Bucket="docs", Key="a", Body=b"1")
    assert server.client("s3tables", session).list_table_buckets()["tableBuckets"]
    assert server.client("sts", session).get_caller_identity()["Arn"].endswith("user/alice")
    nothing = session_of(server, aws.keys_of("carol"))
    assert aws.refusal(server.client("s3", nothing).get_object, Bucket="docs", Key="a") == (
        403,
        "AccessDenied",
    )


def test_session_credentials_without_their_token_or_with_anothers_are_refused(
    server: aws.Server,
) -> None:
    alice = session_of(server, aws.keys_of("alice"))
    carol = session_of(server, aws.keys_of("carol"))
    bare = aws.Keys(access_key=alice.access_key, secret_key=alice.secret_key)
    assert aws.refusal(server.client("s3", bare).list_buckets) == (403, "InvalidAccessKeyId")
    mixed = aws.Keys(access_key=carol.access_key, secret_key=carol.secret_key, token=alice.token)
    assert aws.refusal(server.client("s3", mixed).list_buckets)[0] in (400, 403)
    assert aws.refusal(server.client("sts", mixed).get_caller_identity) == (
        403,
        "InvalidClientTokenId",
    )


def test_session_credentials_end_when_they_expire(server: aws.Server) -> None:
    try:
        server.clock.offset_ms = -10 * MINUTE_MS
        session = session_of(server, aws.keys_of("alice"), DurationSeconds=900)
        server.client("s3", session).list_buckets()
        server.clock.offset_ms = 10 * MINUTE_MS
        assert aws.refusal(server.client("s3", session).list_buckets)[1] == "ExpiredToken"
        assert aws.refusal(server.client("sts", session).get_caller_identity) == (
            403,
            "ExpiredToken",
        )
    finally:
        server.clock.offset_ms = 0


def test_session_credentials_cannot_get_further_ones(server: aws.Server) -> None:
    session = session_of(server, aws.keys_of("alice"))
    assert aws.refusal(server.client("sts", session).get_session_token) == (403, "AccessDenied")


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"DurationSeconds": 899}, "ValidationError"),
        ({"DurationSeconds": 43_201}, "ValidationError"),
        ({"SerialNumber": "arn:aws:iam::0:mfa/alice", "TokenCode": "123456"}, "AccessDenied"),
    ],
)
def test_get_session_token_refuses_what_it_cannot_grant(
    server: aws.Server, members: dict[str, Any], code: str
) -> None:
    call = server.client("sts", aws.keys_of("alice")).get_session_token
    assert aws.refusal(call, **members)[1] == code


def test_operations_without_a_function_are_named_after_authorisation(server: aws.Server) -> None:
    members = {"EncodedMessage": "x"}
    call = server.client("sts").decode_authorization_message
    assert aws.refusal(call, **members) == (501, "NotImplemented")
    call = server.client("sts", aws.keys_of("carol")).decode_authorization_message
    assert aws.refusal(call, **members) == (403, "AccessDenied")


def test_a_session_token_alone_is_no_bearer_token(server: aws.Server) -> None:
    session = session_of(server, aws.keys_of("alice"))
    connection = http.client.HTTPConnection("127.0.0.1", server.serving.port, timeout=60)
    headers = {"authorization": f"Bearer {session.token}"}
    connection.request("GET", "/iceberg/v1/lake/namespaces", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 401
    assert json.loads(answer.read())["error"]["type"] == "NotAuthorizedException"


def test_a_url_presigned_with_session_credentials_is_answered_again(server: aws.Server) -> None:
    session = session_of(server, aws.keys_of("alice"))
    server.client("s3").put_object(Bucket="docs", Key="shared", Body=b"shared")
    url = server.client("s3", session).generate_presigned_url(
        "get_object", Params={"Bucket": "docs", "Key": "shared"}
    )
    for _ in range(3):
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.read() == b"shared"
