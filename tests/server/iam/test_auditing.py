"""The native API's view of the audit log."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import pytest

from tests.kit import aws, programs


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Server]:
    folder = tmp_path_factory.mktemp("auditing") / "data"
    with aws.serving(folder, users=[*programs.users({"carol": []}).values()]) as running:
        yield running


def ask(server: aws.Server, path: str, keys: aws.Keys = aws.ROOT, **query: str) -> tuple[int, Any]:
    encoded = urllib.parse.urlencode(query)
    return aws.signed(server, keys, "GET", f"{path}?{encoded}", service="execute-api")


def denied(server: aws.Server) -> None:
    with pytest.raises(botocore.exceptions.ClientError):
        server.client("iam", aws.keys_of("carol")).create_user(UserName="Mallory")


def test_the_latest_lines_say_who_did_what(server: aws.Server) -> None:
    server.client("iam").create_user(UserName="Seen")
    denied(server)
    status, answer = ask(server, "/_api/v1/audit", action="iam:CreateUser", limit="2")
    assert (status, answer["topic"]) == (200, "audit")
    refusal, creation = answer["lines"]  # newest first
    assert (creation["event"], creation["reason"]) == ("allow", "root")
    assert creation["resource"].endswith("user/Seen")
    assert refusal["event"] == "deny"
    assert refusal["principal"].endswith("user/carol")
    assert creation["changes_access"] is refusal["changes_access"] is True
    _, of_request = ask(server, "/_api/v1/audit", request_id=creation["request_id"])
    assert [line["event"] for line in of_request["lines"]] == ["outcome", "allow"]
    _, denials = ask(server, "/_api/v1/audit", event="deny", principal=refusal["principal"])
    assert refusal in denials["lines"]
    assert {line["event"] for line in denials["lines"]} == {"deny"}


def test_locks_that_a_body_asks_for_have_their_line(server: aws.Server) -> None:
    s3 = server.client("s3")
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket="locked", Key="k", Body=b"x")
    s3.put_object_legal_hold(Bucket="locked", Key="k", LegalHold={"Status": "OFF"})
    _, answer = ask(server, "/_api/v1/audit", action="s3:PutObjectLegalHold")
    assert [line["event"] for line in answer["lines"]] == ["allow"]
    stranger = server.client("s3", aws.keys_of("carol"))
    for bucket, code in (("locked", "AccessDenied"), ("nowhere", "NoSuchBucket")):
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            stranger.put_object_legal_hold(Bucket=bucket, Key="k", LegalHold={"Status": "ON"})
        assert caught.value.response["Error"]["Code"] == code


def test_lines_about_clients_without_an_identity_are_a_topic(server: aws.Server) -> None:
    wrong = aws.Keys(access_key=aws.ROOT.access_key, secret_key="wrong")
    assert ask(server, "/_api/v1/audit", wrong)[0] in (401, 403)
    status, answer = ask(server, "/_api/v1/audit", topic="anonymous")
    assert status == 200
    assert {line["event"] for line in answer["lines"]} == {"refuse", "outcome"}
    assert ask(server, "/_api/v1/audit", topic="reads") == (200, {"topic": "reads", "lines": []})


def test_denials_are_counted_by_principal_and_action(server: aws.Server) -> None:
    def count() -> int:
        status, answer = ask(server, "/_api/v1/access/denials")
        assert status == 200
        return sum(
            row["count"]
            for row in answer["denials"]
            if row["principal"].endswith("user/carol") and row["action"] == "iam:CreateUser"
        )

    before = count()
    denied(server)
    denied(server)
    assert count() == before + 2


@pytest.mark.parametrize(
    "query", [{"topic": "all"}, {"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"limit": "²"}]
)
def test_parameters_without_meaning_are_refused(server: aws.Server, query: dict[str, str]) -> None:
    status, answer = ask(server, "/_api/v1/audit", **query)
    assert (status, answer["error"]["type"]) == (400, "BadRequest")


@pytest.mark.parametrize("path", ["/_api/v1/audit", "/_api/v1/access/denials"])
def test_only_administrators_read_the_log(server: aws.Server, path: str) -> None:
    assert ask(server, path, aws.keys_of("carol"))[0] == 403
