"""Signatures that were right before: what repeats them is not computed again, and nothing else
gains by them."""

from __future__ import annotations

import pytest

from server import limits
from server.auth import errors, sigv4, verify
from tests.server import requesting
from tests.server.auth import test_verify
from tests.server.requesting import ACCESS_KEY, NOW_MS, as_request, request, signed


def ask(checker, request, face="s3"):
    return requesting.run(checker.verify(request, face))


@pytest.fixture
def computed(monkeypatch):
    """The texts that signatures were computed over."""
    texts = []
    sign = sigv4.Signer.sign

    def count(signer, text):
        texts.append(text)
        return sign(signer, text)

    monkeypatch.setattr(sigv4.Signer, "sign", count)
    return texts


@pytest.mark.parametrize("expires_seconds", [None, 600])
def test_a_request_that_comes_again_is_not_computed_again(computed, expires_seconds):
    checker = requesting.verifier()
    prepared = signed(expires_seconds=expires_seconds)
    callers = [ask(checker, as_request(prepared)) for _ in range(3)]
    assert [caller.principal.type for caller in callers] == ["root"] * 3
    assert callers[0] == callers[2]
    assert len(computed) == 1


@pytest.mark.parametrize("what", test_verify.ALTERED)
def test_a_signature_that_was_right_is_wrong_for_another_request(what):
    checker = requesting.verifier()
    prepared = signed()
    ask(checker, as_request(prepared))
    with pytest.raises(errors.SignatureDoesNotMatch):
        ask(checker, as_request(prepared, **test_verify.ALTERED[what]))
    assert ask(checker, as_request(prepared)).principal.type == "root"


@pytest.mark.parametrize("change", [{"method": "DELETE"}, {"headers": {"host": "elsewhere:5253"}}])
def test_a_presigned_signature_that_was_right_is_wrong_for_another_request(change):
    checker = requesting.verifier()
    prepared = signed(expires_seconds=600)
    ask(checker, as_request(prepared))
    with pytest.raises(errors.SignatureDoesNotMatch):
        ask(checker, as_request(prepared, **change))


def test_a_remembered_presigned_request_of_another_object_is_refused():
    checker = requesting.verifier()
    prepared = signed(expires_seconds=600)
    ask(checker, as_request(prepared))
    query = prepared.url.partition("?")[2]
    for target in (
        f"/bucket/other?{query}",
        f"/bucket/key/?{query}",
        f"/bucket/key?{query}&versionId=1",
        "/bucket/key?" + query.replace("Expires=600", "Expires=6000"),
    ):
        with pytest.raises(errors.SignatureDoesNotMatch):
            ask(checker, as_request(prepared, target=target))


def test_a_remembered_presigned_request_ends():
    clock = requesting.Clock()
    checker = requesting.verifier(clock)
    prepared = signed(expires_seconds=600)
    ask(checker, as_request(prepared))
    clock.now_ms = NOW_MS + 599_999
    ask(checker, as_request(prepared))
    clock.now_ms = NOW_MS + 600_000
    with pytest.raises(errors.ExpiredPresign):
        ask(checker, as_request(prepared))


def test_a_remembered_signed_request_is_refused_beyond_the_clocks_skew():
    clock = requesting.Clock()
    checker = requesting.verifier(clock)
    prepared = signed()
    ask(checker, as_request(prepared))
    clock.now_ms = NOW_MS + limits.CLOCK_SKEW_MS_MAX + 1
    with pytest.raises(errors.RequestTimeTooSkewed):
        ask(checker, as_request(prepared))


@pytest.mark.parametrize("expires_seconds", [None, 600])
def test_a_header_added_to_a_remembered_request_is_refused(expires_seconds):
    checker = requesting.verifier()
    prepared = signed("PUT", expires_seconds=expires_seconds)
    ask(checker, as_request(prepared))
    with pytest.raises(errors.HeadersNotSigned):
        ask(checker, as_request(prepared, headers={"x-amz-copy-source": "other/secret"}))


def test_a_remembered_request_goes_with_its_session_token():
    clock = requesting.Clock()
    checker = requesting.verifier(clock)
    keys = test_verify.vended()
    prepared = signed(
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        token=keys.session_token,
        expires_seconds=3600,
    )
    assert ask(checker, as_request(prepared)).principal.name == "alice"
    clock.now_ms = NOW_MS + 900_000
    with pytest.raises(errors.ExpiredToken):
        ask(checker, as_request(prepared))


class Changing:
    """Principals whose access keys can be taken away, or get another secret."""

    def __init__(self, before):
        self.now = before

    def __getattr__(self, name):
        return getattr(self.now, name)


@pytest.mark.parametrize("expires_seconds", [None, 600])
def test_a_remembered_request_goes_with_its_access_key(expires_seconds):
    alice = requesting.ALICE
    people = Changing(requesting.people(alice))
    checker = verify.Verifier(principals=people, ring=requesting.RING, now_ms=requesting.Clock())
    prepared = signed(
        access_key=alice.access_key, secret_key=alice.secret_key, expires_seconds=expires_seconds
    )
    assert ask(checker, as_request(prepared)).principal.name == "alice"
    people.now = requesting.people()
    with pytest.raises(errors.InvalidAccessKey):
        ask(checker, as_request(prepared))
    people.now = requesting.people(
        type(alice)(name="alice", access_key=alice.access_key, secret_key="another secret")
    )
    with pytest.raises(errors.SignatureDoesNotMatch):
        ask(checker, as_request(prepared))


def test_a_presigned_signature_proves_nothing_in_a_header():
    """The form of the signature is part of what was proven: a presigned URL has an end, which a
    header that repeats its signature must not be able to leave out."""
    checker = requesting.verifier()
    headers = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    prepared = signed(headers=headers.items(), expires_seconds=60)
    target = prepared.url.removeprefix("http://127.0.0.1:5253")
    covered = dict(part.split("=") for part in target.partition("?")[2].split("&"))
    ask(checker, as_request(prepared))
    names = covered["X-Amz-SignedHeaders"].replace("%3B", ";")
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{covered['X-Amz-Date'][:8]}/"
        f"{requesting.REGION}/s3/aws4_request, SignedHeaders={names}, "
        f"Signature={covered['X-Amz-Signature']}"
    )
    forged = request(
        "GET",
        target,
        (
            ("host", "127.0.0.1:5253"),
            *headers.items(),
            ("date", covered["X-Amz-Date"]),
            ("authorization", authorization),
        ),
    )
    with pytest.raises(errors.SeveralProofs):
        ask(checker, forged)


def test_more_requests_than_are_remembered_are_still_judged():
    checker = requesting.verifier()
    first = signed(expires_seconds=600)
    ask(checker, as_request(first))
    for number in range(limits.VERDICTS_MAX + 1):
        ask(checker, as_request(signed(url=f"http://127.0.0.1:5253/bucket/{number}")))
    assert ask(checker, as_request(first)).principal.type == "root"
    with pytest.raises(errors.SignatureDoesNotMatch):
        ask(checker, as_request(first, method="PUT"))
