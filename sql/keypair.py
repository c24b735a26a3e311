"""rule: key-pair login: a JWT that a user signs with a private key of his own.

`iss` is `ACCOUNT.USER.SHA256:<fingerprint>`, `sub` is `ACCOUNT.USER`, where the fingerprint is the
base64 of the SHA-256 over the public key's DER form. Any account name will do: clients derive it
from whatever address they connect to. A user may have several keys, so that they can rotate; the
one with the fingerprint must have signed. The clock is an argument.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from sql import errors, limits

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512")


def check(
    token: str,
    login_name: str,
    *,
    keys_of: Callable[[str], tuple[str, Sequence[str]]],
    now_ms: int,
) -> str:
    """Return the name of the user who signed token.

    keys_of: any spelling of a user's name to the stored one and the registered public keys (PEM, or
    the bare base64 of its body); unknown users have none. Raises SessionFault with 390144 or one of
    394300 to 394306.
    """
    header, claims = _decoded(token)
    if header.get("alg") not in ALGORITHMS:
        raise _refused("394305", "The JWT's signing algorithm is not accepted.")
    issuer, fingerprint = _issuer(claims)
    subject = claims.get("sub")
    if not isinstance(subject, str) or issuer.upper() != subject.upper():
        raise _refused("394300", "The JWT's issuer and subject do not match.")
    user = subject.partition(".")[2]
    if not user or (login_name and user.upper() != login_name.upper()):
        raise _refused("390144", "JWT token is invalid: it was issued for another user.")
    _check_times(claims, now_ms // 1000)
    stored_name, keys = keys_of(user)
    key_by_fingerprint = {
        _fingerprint(key): key for key in map(_public_key, keys) if key is not None
    }
    key = key_by_fingerprint.get(fingerprint)
    if key is None:
        raise _refused("394304", "The JWT's public key fingerprint matches no registered key.")
    try:
        jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            options={
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
                "verify_aud": False,
                "verify_iss": False,
            },
        )
    except (jwt.PyJWTError, ValueError, TypeError):
        raise _refused("394300", "The JWT's signature is invalid.") from None
    return stored_name


def _decoded(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if len(token) > limits.KEYPAIR_TOKEN_LENGTH_MAX:
        raise _refused("394306", "The JWT is too long.")
    try:
        header = jwt.get_unverified_header(token)
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, TypeError):
        raise _refused("394306", "The JWT cannot be read.") from None
    return header, claims


def _issuer(claims: Mapping[str, Any]) -> tuple[str, str]:
    text = claims.get("iss")
    if isinstance(text, str):
        name, separator, fingerprint = text.rpartition(".SHA256:")
        if separator:
            return name, fingerprint
    raise _refused("394300", "The JWT's issuer is not ACCOUNT.USER.SHA256:fingerprint.")


def _check_times(claims: Mapping[str, Any], now: int) -> None:
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(issued, int | float) or not isinstance(expires, int | float):
        raise _refused("394303", "The JWT has no issue or expiration time.")
    if (
        expires - issued > limits.KEYPAIR_SECONDS_MAX + limits.KEYPAIR_LEEWAY_SECONDS
        or expires <= issued
    ):
        raise _refused("394303", "The JWT's expiration time is not within an hour of its issue.")
    if now < issued - limits.KEYPAIR_LEEWAY_SECONDS:
        raise _refused("394302", "The JWT is not valid yet.")
    if now > expires + limits.KEYPAIR_LEEWAY_SECONDS:
        raise _refused("394301", "The JWT has expired.")


def is_public_key(text: str) -> bool:
    """Return whether a text is a public key that a user may log in with."""
    return len(text) <= limits.PUBLIC_KEY_LENGTH_MAX and _public_key(text) is not None


def fingerprint_of(text: str) -> str:
    """Return the fingerprint of a public key, "" for a text that is none."""
    key = _public_key(text)
    return "" if key is None else _fingerprint(key)


def _public_key(text: str) -> Any:
    body = text.strip()
    if not body.startswith("-----"):
        body = f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----"
    try:
        return serialization.load_pem_public_key(body.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm, binascii.Error):
        return None


def _fingerprint(key: Any) -> str:
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def _refused(code: str, message: str) -> errors.SessionFault:
    return errors.SessionFault(code, message, "28000")
