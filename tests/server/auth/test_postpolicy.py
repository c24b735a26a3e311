"""A POST form's policy: what it may say, and what a form must meet."""

from __future__ import annotations

import base64
import json

import pytest

from server.auth import errors, postpolicy

NOW_MS = 1_763_740_800_000
EXPIRATION = "2025-11-21T17:00:00Z"


def policy(*conditions, expiration=EXPIRATION, **more):
    document = {"expiration": expiration, "conditions": list(conditions), **more}
    return postpolicy.parse_policy(base64.b64encode(json.dumps(document).encode()).decode())


def check(said, **fields):
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    postpolicy.check_policy(said, named, now_ms=NOW_MS)


def test_conditions_of_every_kind_are_met():
    said = policy(
        {"Bucket": "photos"},
        ["eq", "$ACL", "private"],
        ["starts-with", "$key", "user/"],
        ["starts-with", "$Content-Type", "image/"],
        ["starts-with", "$x-amz-meta-any", ""],
        ["content-length-range", 1, "10"],
    )
    check(said, bucket="photos", acl="private", key="user/x", content_type="image/a, image/b")
    assert said.size_range == (1, 10)


@pytest.mark.parametrize(
    "change",
    [
        {"bucket": "other"},
        {"acl": "Private"},
        {"key": "users/x"},
        {"content_type": "image/a,text/b"},
        {"tagging": "unnamed"},
        {"x_amz_security_token": "unnamed"},
    ],
)
def test_form_that_breaks_a_condition_or_has_a_field_too_many_is_refused(change):
    said = policy(
        {"bucket": "photos"},
        {"acl": "private"},
        ["starts-with", "$key", "user/"],
        ["starts-with", "$content-type", "image/"],
    )
    good = {"bucket": "photos", "acl": "private", "key": "user/x", "content_type": "image/a"}
    check(said, **good)
    with pytest.raises(errors.PostPolicyViolated):
        check(said, **{**good, **change})


@pytest.mark.parametrize("missing", ["acl", "key"])
def test_form_without_a_demanded_field_is_refused(missing):
    said = policy({"acl": "private"}, ["starts-with", "$key", "user/"])
    fields = {"acl": "private", "key": "user/x"}
    del fields[missing]
    with pytest.raises(errors.PostPolicyViolated):
        check(said, **fields)


def test_fields_of_the_proof_and_ignored_ones_need_no_condition():
    said = policy({"key": "a"})
    check(
        said,
        key="a",
        policy="p",
        signature="s",
        x_amz_signature="s",
        awsaccesskeyid="k",
        x_ignore_this="z",
        file="f",
    )


def test_policy_ends():
    said = policy({"key": "a"}, expiration="2025-11-21T16:00:00.000Z")
    with pytest.raises(errors.ExpiredPostPolicy):
        check(said, key="a")


def test_size_is_checked_at_both_ends():
    said = policy(["content-length-range", 2, 4])
    for size_bytes in (2, 3, 4):
        postpolicy.check_size(said, size_bytes)
    with pytest.raises(errors.PostBodyTooSmall):
        postpolicy.check_size(said, 1)
    with pytest.raises(errors.PostBodyTooLarge):
        postpolicy.check_size(said, 5)
    postpolicy.check_size(policy({"key": "a"}), 10**12)


def test_every_range_of_sizes_holds():
    said = policy(["content-length-range", 2, 4], ["content-length-range", 0, 9])
    assert said.size_range == (2, 4)
    said = policy(["content-length-range", 0, 9], ["content-length-range", 2, 4])
    assert said.size_range == (2, 4)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{",
        b'{"conditions": [{"key": "a"}]}',
        b'{"expiration": "2025-11-21T17:00:00Z"}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": []}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": {}}',
        b'{"expiration": "tomorrow", "conditions": [{"key": "a"}]}',
        b'{"expiration": 5, "conditions": [{"key": "a"}]}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": [{"key": 5}]}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": [["eq", "key", "a"]]}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": [["like", "$key", "a"]]}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": [["eq", "$key"]]}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": [["starts-with", "$key", 1]]}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": [["content-length-range", -1, 2]]}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": [["content-length-range", 1]]}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": [{"key": "a"}], "more": 1}',
        b'{"expiration": "2025-11-21T17:00:00Z", "conditions": [{}]}',
        b"[" * 100_000,
    ],
)
def test_policy_that_cannot_be_read_is_malformed(document):
    with pytest.raises(errors.MalformedPostPolicy):
        postpolicy.parse_policy(base64.b64encode(document).decode())


def test_policy_that_is_not_base64_is_malformed():
    for text in ("***", "é", "abc"):
        with pytest.raises(errors.MalformedPostPolicy):
            postpolicy.parse_policy(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"policy": "p"},
        {"policy": "p", "x-amz-signature": "s"},
        {"x-amz-credential": "A/20251121/r/s3/aws4_request"},
        {"policy": "p", "awsaccesskeyid": "A"},
        {"signature": "s", "awsaccesskeyid": "A"},
        {
            "policy": "p",
            "x-amz-algorithm": "AWS4-HMAC-SHA256",
            "x-amz-credential": "A/20251121/r/s3/aws4_request",
            "x-amz-date": "today",
        },
    ],
)
def test_proof_with_a_part_missing_is_malformed(fields):
    with pytest.raises(errors.MalformedAuthorization):
        postpolicy.parse_proof(fields)


def test_form_without_any_proof_has_none():
    assert postpolicy.parse_proof({"key": "a"}) is None
