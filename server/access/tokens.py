"""rule: the tokens that this server signs, and the credentials derived from them.

HS256 JSON Web Tokens of pyjwt; a key id in the header, so that keys can rotate; `typ` separates
uses and is always checked: a SQL session token does not open the catalog. A vended key pair is
derived, not stored: its secret is an HMAC of the token's id, and the token contains its scope. The
clock is an argument; key material comes from `server.access.rootkeys`.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import jwt

from server import limits
from server.access import errors, model

TokenType: TypeAlias = Literal["access", "sts", "job", "sf", "sf-master"]

ALGORITHM: Final = "HS256"
ISSUER: Final = "boathouse"
VENDED_PREFIX: Final = "ASIA"
EVERYTHING: Final = "*"
"""The scope of a session token with all rights of its principal or role."""
RESERVED: Final = frozenset({"iss", "aud", "sub", "typ", "jti", "iat", "exp"})

_encode_json = json.JSONEncoder(separators=(",", ":")).encode


class _RingKeys(jwt.algorithms.HMACAlgorithm):
    """HS256 with keys of a ring. They are random bytes, so nothing is to be prepared.

    pyjwt's own looks for a certificate in the key at each token: 75 us for a token, 25 with this,
    and createTable signs one.
    """

    def prepare_key(self, key: str | bytes) -> bytes:
        """Return a ring's key as it is."""
        assert isinstance(key, bytes)
        return key


_SIGNER: Final = jwt.PyJWS(algorithms=[])
_SIGNER.register_algorithm(ALGORITHM, _RingKeys(_RingKeys.SHA256))


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningKey:
    """One signing key, and its id in tokens' headers."""

    key_id: str
    secret: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyRing:
    """All valid signing keys; the first signs new tokens. master derives secrets."""

    keys: tuple[SigningKey, ...]
    master: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """The claims of a verified token. subject: the principal's name; extra: claims of its use."""

    typ: TokenType
    subject: str
    token_id: str
    issued_at_ms: int
    expires_at_ms: int
    extra: Mapping[str, Any] = field(default_factory=dict)


def issue(
    ring: KeyRing,
    *,
    typ: TokenType,
    subject: str,
    token_id: str,
    now_ms: int,
    lifetime_seconds: int,
    extra: Mapping[str, Any] | None = None,
) -> str:
    """Return a signed token. extra: further claims, JSON values, none of RESERVED."""
    assert not RESERVED & (extra or {}).keys()
    issued = now_ms // 1000
    claims = {
        **(extra or {}),
        "iss": ISSUER,
        "aud": ISSUER,
        "sub": subject,
        "typ": typ,
        "jti": token_id,
        "iat": issued,
        "exp": issued + lifetime_seconds,
    }
    key = ring.keys[0]
    return _SIGNER.encode(
        _encode_json(claims).encode(), key.secret, ALGORITHM, headers={"kid": key.key_id}
    )


def verify(ring: KeyRing, token: str, *, types: Collection[TokenType], now_ms: int) -> Claims:
    """Return the claims of a token of this server. Raises InvalidJWT, ExpiredJWT."""
    if len(token) > limits.TOKEN_BYTES_MAX:
        raise errors.InvalidJWT("the token is too long")
    try:
        key_id = jwt.get_unverified_header(token).get("kid")
        secret = next((key.secret for key in ring.keys if key.key_id == key_id), None)
        if secret is None:
            raise errors.InvalidJWT("the token was not signed by this server")
        # pyjwt would read the clock for these three; they are checked below with now_ms.
        claims = jwt.decode(
            token,
            secret,
            algorithms=[ALGORITHM],
            issuer=ISSUER,
            audience=ISSUER,
            options={
                "require": ["iss", "aud", "sub", "jti", "iat", "exp"],
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise errors.InvalidJWT("the token is not valid") from None
    verified = _claims(claims)
    if verified.typ not in types:
        raise errors.InvalidJWT("the token is for another use")
    if now_ms >= verified.expires_at_ms:
        raise errors.ExpiredJWT("the token has expired")
    if verified.issued_at_ms > now_ms + limits.CLOCK_SKEW_MS_MAX:
        raise errors.InvalidJWT("the token is from the future")
    return verified


@dataclass(frozen=True, kw_only=True, slots=True)
class VendedKeys:
    """A temporary key pair and its session token."""

    access_key: str
    secret_key: str
    session_token: str
    expires_at_ms: int


def vend(
    ring: KeyRing,
    *,
    subject: str,
    token_id: str,
    scopes: tuple[model.Scope, ...] | None,
    now_ms: int,
    lifetime_seconds: int,
    extra: Mapping[str, Any] | None = None,
) -> VendedKeys:
    """Return a key pair with its subject's rights inside scopes only. Stores nothing.

    token_id: unique. Each scope's prefix is empty or ends in a slash; scopes None: all rights of
    the subject, or of the session that extra describes.
    """
    bounds: dict[str, Any] = {"scp": EVERYTHING}
    if scopes is not None:
        for scope in scopes:
            assert scope.bucket, "a scope names its bucket"
            assert not scope.prefix or scope.prefix.endswith("/"), "a prefix ends in a slash"
        bounds["scp"] = [
            [scope.bucket, scope.prefix, "rw" if scope.writable else "r"] for scope in scopes
        ]
    token = issue(
        ring,
        typ="sts",
        subject=subject,
        token_id=token_id,
        now_ms=now_ms,
        lifetime_seconds=lifetime_seconds,
        extra={**(extra or {}), **bounds},
    )
    return VendedKeys(
        access_key=vended_access_key(token_id),
        secret_key=vended_secret_key(ring, token_id),
        session_token=token,
        expires_at_ms=(now_ms // 1000 + lifetime_seconds) * 1000,
    )


def vended_access_key(token_id: str) -> str:
    """Return the access key that belongs to a session token."""
    return VENDED_PREFIX + token_id[:16].upper()


def vended_secret_key(ring: KeyRing, token_id: str) -> str:
    """Return the secret key that belongs to a session token."""
    digest = hmac.digest(ring.master, b"vended:" + token_id.encode(), "sha256")
    return base64.b64encode(digest[:30]).decode()


def scopes_of(claims: Claims) -> tuple[model.Scope, ...] | None:
    """Return the scopes of a session token; None for all rights. Raises InvalidJWT if the token
    does not say."""
    listed = claims.extra.get("scp")
    if listed == EVERYTHING:
        return None
    if not isinstance(listed, list):
        raise errors.InvalidJWT("the token has no scope")
    scopes = []
    for entry in listed:
        match entry:
            case [str(bucket), str(prefix), ("r" | "rw") as access]:
                scopes.append(model.Scope(bucket=bucket, prefix=prefix, writable=access == "rw"))
            case _:
                raise errors.InvalidJWT("the token's scope cannot be read")
    return tuple(scopes)


def _claims(claims: Mapping[str, Any]) -> Claims:
    match claims:
        case {
            "typ": ("access" | "sts" | "job" | "sf" | "sf-master") as typ,
            "sub": str(subject),
            "jti": str(token_id),
            "iat": int(issued),
            "exp": int(expires),
        }:
            return Claims(
                typ=typ,
                subject=subject,
                token_id=token_id,
                issued_at_ms=issued * 1000,
                expires_at_ms=expires * 1000,
                extra={name: value for name, value in claims.items() if name not in RESERVED},
            )
    raise errors.InvalidJWT("the token's claims cannot be read")
