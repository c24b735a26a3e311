"""Key-pair logins, token by token."""

from __future__ import annotations

import base64
import functools
import hashlib
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from sql import errors, keypair

NOW = 1_700_000_000


@functools.cache
def key(number: int) -> rsa.RSAPrivateKey:
    assert number < 4
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@functools.cache
def curve() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def pem(private: Any) -> str:
    return (
        private.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


def fingerprint(private: Any) -> str:
    der = private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return "SHA256:" + base64.b64encode(hashlib.sha256(der).digest()).decode()


def token(private: Any = None, algorithm: str = "RS256", **changed: Any) -> str:
    private = private or key(0)
    issuer = changed.get("iss") or f"ACCOUNT.ALICE.{fingerprint(private)}"
    claims = {
        "iss": issuer,
        "sub": "ACCOUNT.ALICE",
        "iat": NOW,
        "exp": NOW + 60,
        **changed,
    }
    return jwt.encode(
        {name: value for name, value in claims.items() if value is not None},
        private,
        algorithm=algorithm,
    )


def keys_of(user: str) -> tuple[str, list[str]]:
    bare = "".join(pem(key(1)).splitlines()[1:-1])
    return ("alice", [pem(key(0)), bare, pem(curve())]) if user.upper() == "ALICE" else (user, [])


def check(text: str, name: str = "alice", now: int = NOW) -> str:
    return keypair.check(text, name, keys_of=keys_of, now_ms=now * 1000)


def code(text: str, name: str = "alice", now: int = NOW) -> str:
    with pytest.raises(errors.SessionFault) as caught:
        check(text, name, now)
    assert caught.value.sqlstate == "28000"
    return caught.value.code


def test_each_registered_key_and_any_account_name_let_the_user_in() -> None:
    assert check(token()) == "alice"
    assert check(token(key(1))) == "alice"
    assert check(token(curve(), "ES256")) == "alice"
    assert check(token(), name="") == "alice"
    other = f"ORG-OTHER.ALICE.{fingerprint(key(0))}"
    assert check(token(iss=other, sub="ORG-OTHER.ALICE")) == "alice"
    assert check(token(), now=NOW - 50) == "alice"
    assert check(token(), now=NOW + 110) == "alice"


def test_each_fault_has_its_number() -> None:
    assert code("garbage") == "394306"
    assert code("x" * 10_000) == "394306"
    assert code(token("a secret of thirty-two characters", "HS256", iss="A.ALICE.SHA256:x",
                      sub="A.ALICE")) == "394305"  # fmt: skip
    assert code(token(iss="ACCOUNT.ALICE")) == "394300"
    assert code(token(sub="ACCOUNT.BOB")) == "394300"
    assert code(token(), name="bob") == "390144"
    assert code(token(exp=None)) == "394303"
    assert code(token(exp=NOW + 7200)) == "394303"
    assert code(token(), now=NOW - 120) == "394302"
    assert code(token(), now=NOW + 200) == "394301"
    assert code(token(key(2))) == "394304"
    assert (
        code(token(iss=f"ACCOUNT.BOB.{fingerprint(key(0))}", sub="ACCOUNT.BOB"), "bob") == "394304"
    )


def test_a_token_signed_by_another_key_than_its_fingerprint_says_is_refused() -> None:
    assert code(token(key(2), iss=f"ACCOUNT.ALICE.{fingerprint(key(0))}")) == "394300"


def test_a_token_without_a_signature_is_refused() -> None:
    head, body, _ = token().split(".")
    assert code(f"{head}.{body}.") == "394300"
    unsigned = jwt.encode({"iss": "A.ALICE.SHA256:x", "sub": "A.ALICE"}, None, algorithm="none")
    assert code(unsigned) == "394305"
