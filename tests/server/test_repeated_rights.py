"""Rights that end while the heads of requests are remembered: each way of IAM to end them, and
buckets that are deleted and created by another account."""

from __future__ import annotations

import hashlib
import json
import urllib.parse

import pytest

from server import config
from tests.server import clocked as clocking
from tests.server import requesting, test_repeated_puts
from tests.server.clocked import HOST, KEYS

BODY = b"a" * 20


def document(effect, action="*", **more):
    statement = {"Effect": effect, "Action": action, "Resource": "*", **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


TAGGED = {"Condition": {"StringEquals": {"aws:PrincipalTag/team": "a"}}}
OTHER = config.User(
    name="other",
    access_key="AKOTHER",
    secret_key="other's secret",
    account="222222222222",
    policies=(json.loads(document("Allow")),),
)
OTHERS = {"access_key": OTHER.access_key, "secret_key": OTHER.secret_key}


@pytest.fixture
def clocked(tmp_path):
    with clocking.started(tmp_path / "data", users=(OTHER,)) as clocked:
        yield clocked


def iam(clocked, action, **members):
    """Do an operation of IAM as root; return a function from an element's name to its text."""
    body = urllib.parse.urlencode({"Action": action, "Version": "2010-05-08", **members}).encode()
    prepared = requesting.signed(
        "POST",
        f"http://{HOST}/",
        [("content-type", "application/x-www-form-urlencoded")],
        body,
        at_ms=clocked.clock.now_ms,
        service="iam",
        **KEYS,
    )
    answer = clocked.send("POST", "/", prepared.headers.items(), body)
    assert answer.status == 200, answer.body
    text = answer.body.decode()
    return lambda name: text.partition(f"<{name}>")[2].partition("<")[0]


def add_bob(clocked):
    """Add a user whose rights come from a managed policy and one of his tags."""
    iam(clocked, "CreateUser", UserName="bob")
    tag = {"Tags.member.1.Key": "team", "Tags.member.1.Value": "a"}
    iam(clocked, "TagUser", UserName="bob", **tag)
    policy = document("Allow", **TAGGED)
    arn = iam(clocked, "CreatePolicy", PolicyName="p", PolicyDocument=policy)("Arn")
    iam(clocked, "AttachUserPolicy", UserName="bob", PolicyArn=arn)
    key = iam(clocked, "CreateAccessKey", UserName="bob")
    return arn, {"access_key": key("AccessKeyId"), "secret_key": key("SecretAccessKey")}


CHANGES = {
    "a version of the policy": lambda arn, _: (
        "CreatePolicyVersion",
        {"PolicyArn": arn, "PolicyDocument": document("Deny"), "SetAsDefault": "true"},
    ),
    "detached": lambda arn, _: ("DetachUserPolicy", {"UserName": "bob", "PolicyArn": arn}),
    "an inline policy": lambda *_: (
        "PutUserPolicy",
        {"UserName": "bob", "PolicyName": "d", "PolicyDocument": document("Deny")},
    ),
    "a tag": lambda *_: ("UntagUser", {"UserName": "bob", "TagKeys.member.1": "team"}),
    "an inactive key": lambda _, key: (
        "UpdateAccessKey",
        {"UserName": "bob", "AccessKeyId": key, "Status": "Inactive"},
    ),
    "a deleted key": lambda _, key: ("DeleteAccessKey", {"UserName": "bob", "AccessKeyId": key}),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_each_remembered_head_ends_with_the_rights_of_its_user(clocked, change):
    arn, keys = add_bob(clocked)
    url = clocked.url("/raw/k", **keys)

    def ask(number):
        """Return the statuses of four requests, and how many of them were identified."""
        clocked.clock.now_ms += 1000
        outcomes = [
            clocked.get("/raw/k", **keys),
            test_repeated_puts.put(clocked, f"/raw/{number}", BODY, **keys),
            clocked.counted("GET", clocked.url("/raw/k", **keys)),
            clocked.counted("GET", url),
        ]
        return [answer.status for answer, _ in outcomes], sum(count for _, count in outcomes)

    for number in range(8):
        statuses, count = ask(number)
        assert statuses == [200] * 4
    assert count == 0
    action, members = CHANGES[change](arn, keys["access_key"])
    iam(clocked, action, **members)
    for number in (8, 9):
        assert ask(number)[0] == [403] * 4
        assert clocked.signed("GET", f"/raw/{number}").status == 404


def test_a_bucket_that_another_account_creates_anew_is_closed_to_remembered_heads(clocked):
    def signed(method, target, body=b"", **keys):
        prepared = requesting.signed(
            method, f"http://{HOST}{target}", body=body, at_ms=clocked.clock.now_ms, **keys
        )
        return clocked.send(method, target, prepared.headers.items(), body).status

    def ask():
        clocked.clock.now_ms += 1000
        outcomes = [
            test_repeated_puts.put(clocked, "/mine/k", BODY, **OTHERS),
            clocked.get("/mine/k", **OTHERS),
        ]
        return [answer.status for answer, _ in outcomes], sum(count for _, count in outcomes)

    assert signed("PUT", "/mine", **OTHERS) == 200
    for _ in range(8):
        outcome = ask()
    assert outcome == ([200, 200], 0)
    assert signed("DELETE", "/mine/k", **OTHERS) == 204
    assert signed("DELETE", "/mine", **OTHERS) == 204
    assert ask() == ([404, 404], 0)
    assert signed("PUT", "/mine", **KEYS) == 200
    assert signed("PUT", "/mine/k", b"root's", **KEYS) == 200
    assert ask() == ([403, 403], 0)
    assert test_repeated_puts.read(clocked, "/mine/k") == b"root's"


def test_a_condition_on_a_value_that_differs_is_about_that_of_each_request(clocked):
    _, keys = add_bob(clocked)
    refused = b"b" * 20
    condition = {"s3:x-amz-content-sha256": hashlib.sha256(refused).hexdigest()}
    denial = document("Deny", "s3:PutObject", Condition={"StringEquals": condition})
    iam(clocked, "PutUserPolicy", UserName="bob", PolicyName="d", PolicyDocument=denial)
    for number in range(8):
        answer, count = test_repeated_puts.put(clocked, f"/raw/{number}", BODY, **keys)
        assert answer.status == 200
    assert count == 0
    answer, count = test_repeated_puts.put(clocked, "/raw/refused", refused, **keys)
    assert (answer.status, count) == (403, 0)
