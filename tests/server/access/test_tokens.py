"""Tokens: what is signed is what is read; nothing else is believed."""

from __future__ import annotations

import base64
import dataclasses
import json

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.access import errors, model, tokens
from tests.kit import examples

NOW_MS = 1_763_740_800_000
RING = tokens.KeyRing(
    keys=(
        tokens.SigningKey(key_id="new", secret=b"n" * 32),
        tokens.SigningKey(key_id="old", secret=b"o" * 32),
    ),
    master=b"m" * 32,
)


def issue(ring=RING, typ="access", now_ms=NOW_MS, **extra):
    return tokens.issue(
        ring,
        typ=typ,
        subject="alice",
        token_id="t1",
        now_ms=now_ms,
        lifetime_seconds=3600,
        extra=extra,
    )


def verify(token, *, types=("access",), now_ms=NOW_MS, ring=RING):
    return tokens.verify(ring, token, types=types, now_ms=now_ms)


def test_verified_token_says_what_was_issued():
    assert verify(issue(scope="catalog")) == tokens.Claims(
        typ="access",
        subject="alice",
        token_id="t1",
        issued_at_ms=NOW_MS,
        expires_at_ms=NOW_MS + 3_600_000,
        extra={"scope": "catalog"},
    )


@given(st.dictionaries(st.text(max_size=5), st.text() | st.integers() | st.lists(st.text())))
@examples.at_most(100)
def test_token_is_the_one_that_pyjwt_signs(extra):
    extra = {name: value for name, value in extra.items() if name not in tokens.RESERVED}
    token = tokens.issue(
        RING,
        typ="access",
        subject="alice \u00fc",
        token_id="t1",
        now_ms=NOW_MS,
        lifetime_seconds=60,
        extra=extra,
    )
    claims = jwt.decode(
        token,
        b"n" * 32,
        algorithms=["HS256"],
        options={
            "verify_signature": True,
            "verify_aud": False,
            "verify_exp": False,
            "verify_iat": False,
        },
    )
    assert {**claims, **extra} == claims
    assert token == jwt.encode(claims, b"n" * 32, algorithm="HS256", headers={"kid": "new"})


def test_token_lives_until_its_end_and_not_longer():
    token = issue()
    assert verify(token, now_ms=NOW_MS + 3_599_999)
    with pytest.raises(errors.ExpiredJWT):
        verify(token, now_ms=NOW_MS + 3_600_000)


def test_token_from_the_future_is_refused():
    assert verify(issue(now_ms=NOW_MS + 900_000))
    with pytest.raises(errors.InvalidJWT):
        verify(issue(now_ms=NOW_MS + 902_000))


def test_token_of_an_older_key_is_believed_until_the_key_goes():
    old = dataclasses.replace(RING, keys=RING.keys[1:])
    token = issue(ring=old)
    assert verify(token)
    with pytest.raises(errors.InvalidJWT):
        verify(token, ring=dataclasses.replace(RING, keys=RING.keys[:1]))


@pytest.mark.parametrize("typ", ["sts", "job", "sf", "sf-master"])
def test_every_use_is_apart(typ):
    token = issue(typ=typ)
    assert verify(token, types=(typ,)).typ == typ
    with pytest.raises(errors.InvalidJWT):
        verify(token)


def other(key=RING.keys[0].secret, algorithm="HS256", kid="new", without=(), **change):
    claims = {
        "iss": "boathouse", "aud": "boathouse", "sub": "root", "typ": "access", "jti": "x",
        "iat": NOW_MS // 1000, "exp": NOW_MS // 1000 + 60, **change,
    }  # fmt: skip
    for name in without:
        del claims[name]
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})


@pytest.mark.parametrize(
    "token",
    [
        other(key=b"x" * 32),
        other(key=b"n" * 64, algorithm="HS512"),
        other(kid="unknown"),
        other(iss="elsewhere"),
        other(aud="elsewhere"),
        other(typ="admin"),
        other(typ=["access"]),
        other(sub=5),
        other(exp="soon"),
        *(other(without=(name,)) for name in ("iss", "aud", "sub", "typ", "jti", "iat", "exp")),
    ],
)
def test_token_that_is_not_wholly_ours_is_refused(token):
    assert verify(other())
    with pytest.raises(errors.InvalidJWT):
        verify(token)


def test_changed_claims_are_refused():
    head, body, signature = issue().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["sub"] = "root"
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    with pytest.raises(errors.InvalidJWT):
        verify(f"{head}.{changed}.{signature}")


@examples.at_most(200)
@given(st.text(max_size=80) | st.binary(max_size=60).map(lambda b: base64.b64encode(b).decode()))
def test_garbage_is_refused_by_the_one_error(text):
    for token in (text, text + ".e30.x", f"{issue().partition('.')[0]}.{text}.x"):
        with pytest.raises(errors.InvalidJWT):
            verify(token)


SCOPES = (
    model.Scope(bucket="lake", prefix="ns/t/", writable=True),
    model.Scope(bucket="raw", prefix="", writable=False),
)


def vend(scopes=SCOPES, token_id="0123456789abcdef0123456789abcdef"):
    return tokens.vend(
        RING, subject="alice", token_id=token_id, scopes=scopes, now_ms=NOW_MS, lifetime_seconds=900
    )


def test_vended_keys_can_be_derived_again_from_their_token():
    keys = vend()
    claims = verify(keys.session_token, types=("sts",))
    assert claims.subject == "alice"
    assert tokens.scopes_of(claims) == SCOPES
    assert tokens.vended_access_key(claims.token_id) == keys.access_key == "ASIA0123456789ABCDEF"
    assert tokens.vended_secret_key(RING, claims.token_id) == keys.secret_key
    assert keys.expires_at_ms == claims.expires_at_ms == NOW_MS + 900_000


def test_vended_secrets_differ_by_token_and_by_server():
    other_ring = dataclasses.replace(RING, master=b"M" * 32)
    secrets = {
        vend().secret_key,
        vend(token_id="f" * 32).secret_key,
        tokens.vended_secret_key(other_ring, "f" * 32),
    }
    assert len(secrets) == 3


@pytest.mark.parametrize(
    "scopes", [(model.Scope(bucket="b", prefix="orders", writable=False),),
               (model.Scope(bucket="", prefix="orders/", writable=False),)]
)  # fmt: skip
def test_scope_that_could_reach_a_neighbour_is_never_vended(scopes):
    with pytest.raises(AssertionError):
        vend(scopes)


@pytest.mark.parametrize("scp", [None, "all", [["b"]], [["b", "p/", "w"]], [[1, "p/", "r"]], ["b"]])
def test_scope_that_cannot_be_read_is_refused(scp):
    claims = verify(issue(typ="sts", scp=scp), types=("sts",))
    with pytest.raises(errors.InvalidJWT):
        tokens.scopes_of(claims)
