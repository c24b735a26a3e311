"""Garbage in a proof of identity gives the module's own errors, and never a caller with rights."""

from __future__ import annotations

import contextlib
import urllib.parse

from hypothesis import given, settings
from hypothesis import strategies as st

from server import dispatch
from server import errors as kit_errors
from server.access import errors as access_errors
from server.access import policies
from server.auth import errors, postpolicy, presign, sigv2, sigv4
from tests.kit import examples
from tests.server import requesting
from tests.server.requesting import request, run

REFUSED = (errors.AuthError, errors.PayloadError, kit_errors.KitError)

latin = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=60)
words = st.sampled_from(
    [
        "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "AWS", "Bearer", "Basic", "Credential=",
        "SignedHeaders=", "Signature=", "host", ";", "x-amz-date", ",", " ", "/", "=", ":",
        requesting.ACCESS_KEY, "20251121", "us-east-1", "s3", "s3tables", "aws4_request",
        "20251121T160000Z", "0" * 64, "é", "%2F", "+", "UNSIGNED-PAYLOAD", "STREAMING-",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "5", "-1", "600", "9" * 30,
    ]
)  # fmt: skip
pieces = st.lists(words | latin, max_size=14).map("".join)
header = st.tuples(
    st.sampled_from(
        [
            "authorization", "original-authorization", "x-amz-date", "date", "host",
            "x-amz-content-sha256", "x-amz-decoded-content-length", "x-amz-trailer",
            "x-amz-security-token", "content-length", "x-amz-meta-a",
        ]
    ),
    pieces,
)  # fmt: skip
parameter = st.tuples(
    st.sampled_from([*presign.V4_PARAMETERS, *presign.V2_PARAMETERS, *presign.OPTIONAL, "acl"]),
    pieces,
)
faces = st.sampled_from([*dispatch.FACES])


def target(pairs):
    return "/bucket/key?" + "&".join(
        f"{name}={urllib.parse.quote(value, safe='/%')}" for name, value in pairs
    )


@examples.at_most(400)
@given(
    faces,
    st.lists(header, max_size=8),
    st.lists(parameter, max_size=9),
    st.booleans(),
    st.binary(max_size=20),
)
def test_garbage_is_anonymous_or_refused(face, headers, pairs, sigv2_header, body):
    headers = [(name, value.strip()) for name, value in headers]
    sent = request("PUT", target(pairs), headers, body)
    checker = requesting.verifier(sigv2_header=sigv2_header)
    with contextlib.suppress(*REFUSED):
        caller = run(checker.verify(sent, face))
        assert caller.principal.type == "anonymous"
        assert caller.credential_id == ""


@examples.at_most(200)
@given(pieces)
def test_every_parser_raises_its_one_error(text):
    raw = text.encode("latin-1", "replace")
    for parse in (
        sigv4.parse_authorization,
        sigv4.parse_credential,
        sigv4.parse_signed_headers,
        sigv2.parse_authorization,
        postpolicy.parse_policy,
    ):
        with contextlib.suppress(errors.AuthError):
            parse(text)
    sigv4.parse_timestamp(text)
    sigv4.parse_date_header(text)
    sigv4.canonical_path(raw, double_encoded=False)
    sigv4.canonical_path(raw, double_encoded=True)
    sigv4.canonical_query(raw)
    sigv4.canonical_headers({b"a": raw}, (b"a", b"b"))
    sigv2.canonical_resource(raw, raw, None)


@settings(max_examples=300)
@given(st.binary(max_size=40))
def test_canonical_forms_are_stable(raw):
    """Encoding what is canonical already changes nothing: one meaning, one signature."""
    path = sigv4.canonical_path(raw, double_encoded=False)
    assert sigv4.canonical_path(path, double_encoded=False) == path
    query = sigv4.canonical_query(raw)
    assert sigv4.canonical_query(query) == query
    assert urllib.parse.unquote_to_bytes(path) == (urllib.parse.unquote_to_bytes(raw) or b"/")


@examples.at_most(300)
@given(
    st.lists(st.tuples(st.sampled_from([*"abkAé/%+ ~:"]), st.booleans()), min_size=1, max_size=12),
    st.lists(st.tuples(st.sampled_from([*"abkAé/%+ ~:"]), st.booleans()), min_size=1, max_size=12),
)
def test_paths_with_one_canonical_form_mean_the_same_segments(one, other):
    """So no other spelling of a signed path reaches another key."""

    def spell(characters):
        return "/" + "".join(
            urllib.parse.quote(c, safe="") if encoded or c in "é% " else c
            for c, encoded in characters
        )

    first, second = spell(one), spell(other)
    same = sigv4.canonical_path(first.encode(), double_encoded=False) == sigv4.canonical_path(
        second.encode(), double_encoded=False
    )
    assert same == (request(target=first).segments == request(target=second).segments)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | pieces,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "Version", "Statement", "Effect", "Action", "Resource", "Principal", "AWS",
                    "Condition", "StringLike", "IpAddress", "DateLessThan", "NumericEquals",
                    "ArnLike", "Null", "aws:username", "s3:prefix", "Sid", "NotAction",
                ]
            ),
            inner
            | st.sampled_from(
                ["Allow", "Deny", "*", "s3:*", "2012-10-17", "arn:aws:s3:::b/${aws:username}"]
            ),
            max_size=5,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@examples.at_most(300)
@given(json_values, st.sampled_from(["identity", "resource"]))
def test_any_json_is_a_policy_or_malformed(value, policy_type):
    with contextlib.suppress(access_errors.MalformedPolicy):
        policy = policies.parse_policy(value, policy_type=policy_type)
        for statement in policy.statements:
            statement.applies("s3:GetObject", "arn:aws:s3:::b/k", {"aws:username": ("a",)})
