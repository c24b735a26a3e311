"""rule: the JSON Web Tokens of identity providers, and the keys that sign them.

Only asymmetric algorithms are accepted, and a key only for the algorithms of its type, so that no
token can choose how it is checked. A token's own key, certificate or URL of keys is ignored.
Source: RFC 7515 to 7519, RFC 8725, OpenID Connect Core 1.0, sections 2 and 3.1.3.7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jwt

from server.oidc import errors

LEEWAY_MS: Final = 60_000
"""How far the clocks of a provider and this server may differ."""
KEYS_MAX: Final = 64
SECONDS_MAX: Final = 1e11
"""Times beyond it are no times of tokens."""
MODULUS_CHARACTERS_MAX: Final = 1_400
MODULUS_BITS_MIN: Final = 2_048
EXPONENT_CHARACTERS_MAX: Final = 8
SUBJECT_CHARACTERS_MAX: Final = 255
AUDIENCES_MAX: Final = 100
ALGORITHMS: Final[Mapping[str, tuple[str, str]]] = {
    "RS256": ("RSA", ""), "RS384": ("RSA", ""), "RS512": ("RSA", ""),
    "PS256": ("RSA", ""), "PS384": ("RSA", ""), "PS512": ("RSA", ""),
    "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"), "ES512": ("EC", "P-521"),
}  # fmt: skip
"""Algorithm -> type and curve of its keys."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyingKey:
    """A public key of a provider. algorithms: those that it may check. value: pyjwt's."""

    key_id: str | None
    algorithms: frozenset[str]
    value: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenHead:
    """What a token says before it is checked."""

    algorithm: str
    key_id: str | None
    issuer: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WebIdentity:
    """The identity of a checked token. audience: that the token was issued to."""

    issuer: str
    subject: str
    audience: str
    audiences: tuple[str, ...]
    methods: tuple[str, ...]


def read_head(token: str) -> TokenHead:
    """Return what names a token's key. Raises InvalidIdentityToken."""
    try:
        header = jwt.get_unverified_header(token)
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise errors.InvalidIdentityToken("The web identity token cannot be read.") from None
    algorithm, key_id, issuer = header.get("alg"), header.get("kid"), claims.get("iss")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS or "crit" in header:
        raise errors.InvalidIdentityToken(
            "The web identity token is signed by an algorithm that is not accepted."
        )
    if not isinstance(issuer, str) or not (key_id is None or isinstance(key_id, str)):
        raise errors.InvalidIdentityToken("The web identity token names no issuer.")
    return TokenHead(algorithm=algorithm, key_id=key_id, issuer=issuer)


def parse_keys(document: bytes) -> tuple[VerifyingKey, ...]:
    """Return the usable keys of a JSON Web Key Set; others are left out.

    Raises ProviderUnreachable for a document that is no key set.
    """
    try:
        listed = json.loads(document)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise errors.ProviderUnreachable("The identity provider's key set is no JWKS.") from None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise errors.ProviderUnreachable(
            f"The identity provider's key set is no list of at most {KEYS_MAX} keys."
        )
    keys = (_parse_key(each) for each in listed)
    return tuple([key for key in keys if key is not None])


def find_key(keys: Sequence[VerifyingKey], head: TokenHead) -> VerifyingKey | None:
    """Return the key that signed a token; None if it is not among the keys.

    A token without a key id has the one key that could have signed it, if there is just one.
    """
    usable = [key for key in keys if head.algorithm in key.algorithms]
    if head.key_id is not None:
        return next((key for key in usable if key.key_id == head.key_id), None)
    return usable[0] if len(usable) == 1 else None


def verify(
    token: str,
    head: TokenHead,
    key: VerifyingKey,
    *,
    client_ids: Sequence[str],
    now_ms: int,
) -> WebIdentity:
    """Return the identity of a token. client_ids: the audiences that the provider has here.

    Raises InvalidIdentityToken, ExpiredIdentityToken and RejectedClaim.
    """
    assert head.algorithm in key.algorithms, "find_key chooses by algorithm"
    try:
        # pyjwt would read the clock, so that times are checked below.
        claims = jwt.decode(
            token,
            key.value,
            algorithms=[head.algorithm],
            options={
                "verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False,
                "verify_iss": False, "verify_sub": False, "verify_jti": False,
                "require": ["iss", "sub", "aud", "exp", "iat"],
            },
        )  # fmt: skip
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise errors.InvalidIdentityToken(
            "The web identity token's signature or a required claim is missing or wrong."
        ) from None
    _check_times(claims, now_ms)
    subject, audiences = claims["sub"], _texts(claims["aud"])
    if claims["iss"] != head.issuer or not isinstance(subject, str):
        raise errors.InvalidIdentityToken("The web identity token names no subject.")
    is_usable = 0 < len(subject) <= SUBJECT_CHARACTERS_MAX and subject.isprintable()
    if not is_usable or not audiences:  # answers and the audit log contain the subject
        raise errors.InvalidIdentityToken("The web identity token has no usable subject.")
    accepted = [each for each in audiences if each in client_ids]
    if "azp" in claims:
        accepted = [claims["azp"]]
    if not accepted or accepted[0] not in client_ids:
        raise errors.RejectedClaim("The web identity token is for another audience.")
    return WebIdentity(
        issuer=head.issuer,
        subject=subject,
        audience=accepted[0],
        audiences=audiences,
        methods=_texts(claims.get("amr", ())),
    )


def _check_times(claims: Mapping[str, Any], now_ms: int) -> None:
    times: dict[str, float] = {}
    for name in ("exp", "nbf", "iat"):
        value = claims.get(name)
        if value is None and name == "nbf":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise errors.InvalidIdentityToken(f"The web identity token's {name} is no time.")
        if not abs(value) < SECONDS_MAX:  # also what is no number
            raise errors.InvalidIdentityToken(f"The web identity token's {name} is no time.")
        times[name] = value * 1000
    if now_ms >= times["exp"] + LEEWAY_MS:
        raise errors.ExpiredIdentityToken("The web identity token has expired.")
    if max(times["iat"], times.get("nbf", 0)) > now_ms + LEEWAY_MS:
        raise errors.InvalidIdentityToken("The web identity token is not valid yet.")


def _texts(value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or len(listed) > AUDIENCES_MAX:
        return ()
    return tuple(listed) if all(isinstance(each, str) for each in listed) else ()


def _parse_key(entry: Any) -> VerifyingKey | None:
    """Return a key; None for one that is no public key for signatures."""
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    key_type, curve, key_id = entry.get("kty"), entry.get("crv", ""), entry.get("kid")
    algorithms = frozenset(
        name
        for name, (own_type, own_curve) in ALGORITHMS.items()
        if own_type == key_type and own_curve in ("", curve)
    )
    if "alg" in entry:
        algorithms &= frozenset(_texts(entry["alg"]))
    if not algorithms or not (key_id is None or isinstance(key_id, str)):
        return None
    if key_type == "RSA" and not _is_sane_rsa(entry):
        return None
    public = {name: value for name, value in entry.items() if name in _PUBLIC_MEMBERS}
    try:
        # Of several algorithms of one type any builds the same key.
        value = jwt.PyJWK(public, algorithm=min(algorithms)).key
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
        return None
    if key_type == "RSA" and value.key_size < MODULUS_BITS_MIN:
        return None
    return VerifyingKey(key_id=key_id, algorithms=algorithms, value=value)


def _is_sane_rsa(entry: Mapping[str, Any]) -> bool:
    """Return whether a key's numbers have sizes that are quick to compute with."""
    modulus, exponent = entry.get("n"), entry.get("e")
    return (
        isinstance(modulus, str)
        and len(modulus) <= MODULUS_CHARACTERS_MAX
        and isinstance(exponent, str)
        and len(exponent) <= EXPONENT_CHARACTERS_MAX
    )


_PUBLIC_MEMBERS: Final = frozenset({"kty", "kid", "n", "e", "crv", "x", "y"})
