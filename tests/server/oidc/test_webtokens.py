"""Tokens of identity providers: which are accepted, and which key checks them."""

from __future__ import annotations

import json
from typing import Any

import jwt
import pytest

from server.oidc import errors, webtokens
from tests.server.oidc import issuers

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000


@pytest.fixture(scope="module")
def issuer() -> issuers.Issuer:
    return issuers.Issuer(port=1, now_s=NOW_S)


def check(token: str, keys: list[dict[str, Any]], **changes: Any) -> webtokens.WebIdentity:
    parsed = webtokens.parse_keys(json.dumps({"keys": keys}).encode())
    head = webtokens.read_head(token)
    key = webtokens.find_key(parsed, head)
    if key is None:
        raise errors.InvalidIdentityToken("no key")
    wanted: dict[str, Any] = {"client_ids": [issuers.CLIENT], "now_ms": NOW_MS, **changes}
    return webtokens.verify(token, head, key, **wanted)


def test_a_valid_token_gives_its_subject_and_audience(issuer: issuers.Issuer) -> None:
    identity = check(issuer.token(amr=["mfa", "pwd"]), issuer.keys)
    assert identity == webtokens.WebIdentity(
        issuer=issuer.url,
        subject="job-7",
        audience=issuers.CLIENT,
        audiences=(issuers.CLIENT,),
        methods=("mfa", "pwd"),
    )


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "ES256"])
def test_every_asymmetric_algorithm_is_checked_by_its_own_type_of_key(
    issuer: issuers.Issuer, algorithm: str
) -> None:
    key = issuers.ec_key() if algorithm == "ES256" else issuers.rsa_key()
    token = jwt.encode(issuer.claims(), key, algorithm=algorithm, headers={"kid": "k"})
    both = [issuers.jwk(issuers.rsa_key(), "k"), issuers.jwk(issuers.ec_key(), "k")]
    assert check(token, both).subject == "job-7"
    changed = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
    with pytest.raises(errors.InvalidIdentityToken):
        check(changed, both)


@pytest.mark.parametrize(
    "algorithm", ["HS256", "none", "None", "NONE", "", "RS1", None, 7, ["RS256"]]
)
def test_a_token_cannot_choose_another_way_to_be_checked(
    issuer: issuers.Issuer, algorithm: Any
) -> None:
    public = issuers.pem(issuers.rsa_key())
    for secret in (public, public.strip(), b"", None):
        header = {"alg": algorithm, "kid": "k1", "typ": "JWT"}
        with pytest.raises(errors.InvalidIdentityToken):
            check(issuers.forged(header, issuer.claims(), secret), issuer.keys)


def test_a_key_of_another_type_or_for_another_use_checks_nothing(issuer: issuers.Issuer) -> None:
    token = issuer.token()
    secret = {"kty": "oct", "kid": "k1", "k": issuers.encode_part(b"0" * 32)}
    for keys in (
        [],
        [secret],
        [issuers.jwk(issuers.ec_key())],
        [issuers.jwk(issuers.rsa_key(2))],
        [issuers.jwk(issuers.rsa_key(), "k2")],
        [issuers.jwk(issuers.rsa_key(), use="enc")],
        [issuers.jwk(issuers.rsa_key(), alg="RS512")],
        [issuers.jwk(issuers.rsa_key(), n="A" * 9_000)],
        [issuers.jwk(issuers.rsa_key(), e="A" * 99)],
        [{"kty": "RSA"}, 7, None, [], {"kty": ["RSA"]}],
    ):
        with pytest.raises(errors.InvalidIdentityToken):
            check(token, keys)
    assert check(token, [secret, *issuer.keys]).subject == "job-7"


def test_a_short_key_checks_nothing(issuer: issuers.Issuer) -> None:
    weak = issuers.rsa_key(1, 1024)
    token = jwt.encode(issuer.claims(), weak, algorithm="RS256", headers={"kid": "k1"})
    with pytest.raises(errors.InvalidIdentityToken):
        check(token, [issuers.jwk(weak)])


def test_the_tokens_own_key_is_ignored(issuer: issuers.Issuer) -> None:
    other = issuers.rsa_key(2)
    headers = {
        "kid": "k1",
        "jwk": issuers.jwk(other),
        "jku": "http://127.0.0.1:1/keys",
        "x5u": "http://127.0.0.1:1/keys",
    }
    token = jwt.encode(issuer.claims(), other, algorithm="RS256", headers=headers)
    with pytest.raises(errors.InvalidIdentityToken):
        check(token, issuer.keys)


@pytest.mark.parametrize("key_id", ["../../k1", "k1\x00", "K1", "", "k1' OR '1'='1"])
def test_a_key_id_is_compared_and_nothing_else(issuer: issuers.Issuer, key_id: str) -> None:
    with pytest.raises(errors.InvalidIdentityToken):
        check(issuer.token(headers={"kid": key_id}), issuer.keys)


def test_a_token_without_a_key_id_has_the_only_key_or_none(issuer: issuers.Issuer) -> None:
    token = jwt.encode(issuer.claims(), issuers.rsa_key(), algorithm="RS256")
    assert check(token, [issuers.jwk(issuers.rsa_key(), None)]).subject == "job-7"
    with pytest.raises(errors.InvalidIdentityToken):
        check(token, [issuers.jwk(issuers.rsa_key()), issuers.jwk(issuers.rsa_key(2), "k2")])


def test_a_critical_header_is_not_ignored(issuer: issuers.Issuer) -> None:
    with pytest.raises(errors.InvalidIdentityToken):
        check(issuer.token(headers={"crit": ["b64"], "b64": False}), issuer.keys)


@pytest.mark.parametrize("name", ["sub", "aud", "exp", "iat", "iss"])
def test_a_claim_that_is_missing_refuses_the_token(issuer: issuers.Issuer, name: str) -> None:
    with pytest.raises(errors.OidcError):
        check(issuer.token(**{name: None}), issuer.keys)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"exp": NOW_S - 60}, errors.ExpiredIdentityToken),
        ({"exp": NOW_S - 59}, None),
        ({"nbf": NOW_S + 60}, None),
        ({"nbf": NOW_S + 61}, errors.InvalidIdentityToken),
        ({"iat": NOW_S + 61}, errors.InvalidIdentityToken),
        ({"exp": 1e300}, errors.InvalidIdentityToken),
        ({"exp": float("inf")}, errors.InvalidIdentityToken),
        ({"exp": float("nan")}, errors.InvalidIdentityToken),
        ({"exp": True}, errors.InvalidIdentityToken),
        ({"exp": "9999999999"}, errors.InvalidIdentityToken),
        ({"aud": "another"}, errors.RejectedClaim),
        ({"aud": ["another", issuers.CLIENT]}, None),
        ({"aud": [issuers.CLIENT, 7]}, errors.InvalidIdentityToken),
        ({"aud": []}, errors.InvalidIdentityToken),
        ({"azp": "another"}, errors.RejectedClaim),
        ({"azp": issuers.CLIENT, "aud": "another"}, None),
        ({"azp": ["x"]}, errors.RejectedClaim),
        ({"sub": ""}, errors.InvalidIdentityToken),
        ({"sub": "s" * 256}, errors.InvalidIdentityToken),
        ({"sub": 7}, errors.InvalidIdentityToken),
        ({"sub": "job\n7"}, errors.InvalidIdentityToken),
        ({"sub": "job\x007"}, errors.InvalidIdentityToken),
        ({"sub": "job\ud8007"}, errors.InvalidIdentityToken),
    ],
    ids=str,
)
def test_times_audience_and_subject_are_checked(
    issuer: issuers.Issuer, changes: dict[str, Any], error: type[Exception] | None
) -> None:
    header = {"alg": "RS256", "kid": "k1"}
    signed = f"{issuers.encode_part(header)}.{issuers.encode_part(issuer.claims(**changes))}"
    signature = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign(
        signed.encode(), issuers.rsa_key()
    )
    token = f"{signed}.{issuers.encode_part(signature)}"
    if error is None:
        assert check(token, issuer.keys).subject == "job-7"
        return
    with pytest.raises(error):
        check(token, issuer.keys)


@pytest.mark.parametrize(
    "token",
    ["", "a.b.c", "....", "é.é.é", "e30.e30.", "W10.W10.W10", "[" * 9_999, "{" * 9_999 + ".a.b"],
)
def test_garbage_gives_the_modules_own_error(token: str) -> None:
    with pytest.raises(errors.InvalidIdentityToken):
        webtokens.read_head(token)


@pytest.mark.parametrize(
    "document",
    [b"", b"{}", b"[]", b"null", b'{"keys":{}}', b"[" * 99_999, b'{"keys":' + b"[0," * 99],
)
def test_a_document_that_is_no_key_set_is_a_fault_of_the_provider(document: bytes) -> None:
    with pytest.raises(errors.ProviderUnreachable):
        webtokens.parse_keys(document)
