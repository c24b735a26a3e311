"""rule: programmatic access tokens: texts that open SQL sessions in place of a password.

A token is its id, a dot and 256 random bits. The user's row has the SHA-256 digest of the text: it
opens nothing, and a text that cannot be guessed needs no slow hash. A removed token has no row; one
that has expired keeps its row for some days, so that listings show why it does not work. The clock
and the random bytes are arguments.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from server import limits
from server.access import identityrows as rows

ID_PREFIX: Final = "BHPT"
ID_BYTES: Final = 10
SECRET_BYTES: Final = 32
DAY_MS: Final = 24 * 60 * 60 * 1000
EXPIRED_KEPT_MS: Final = 7 * DAY_MS
"""How long an expired token is listed."""


def new_text(random: bytes) -> tuple[str, str]:
    """Return the id and the text of a new token. random: ID_BYTES and SECRET_BYTES of them."""
    assert len(random) == ID_BYTES + SECRET_BYTES
    token_id = ID_PREFIX + base64.b32encode(random[:ID_BYTES]).decode()
    secret = base64.urlsafe_b64encode(random[ID_BYTES:]).decode().rstrip("=")
    return token_id, f"{token_id}.{secret}"


def id_of(text: str) -> str:
    """Return the id of a token's text; "" for a text that is no token."""
    token_id, dot, _ = text.partition(".")
    is_token = bool(dot) and token_id.startswith(ID_PREFIX) and text.isascii()
    return token_id if is_token and len(text) <= limits.PROGRAMMATIC_TOKEN_CHARS_MAX else ""


def is_id(credential_id: str) -> bool:
    """Return whether the id of a credential has the form of a token's id."""
    return credential_id.startswith(ID_PREFIX)


def digest_of(text: str) -> bytes:
    """Return what is stored of a token's text."""
    return hashlib.sha256(text.encode()).digest()


def matches(row: rows.TokenRow, text: str) -> bool:
    """Return whether a text is that of a token."""
    return hmac.compare_digest(row.digest, digest_of(text))


def is_expired(row: rows.TokenRow, *, now_ms: int) -> bool:
    """Return whether a token's time is over."""
    return now_ms >= row.expires_at_ms


def kept(tokens: Sequence[rows.TokenRow], *, now_ms: int) -> tuple[rows.TokenRow, ...]:
    """Return tokens without those that expired days ago, and without the oldest expired ones where
    there are too many."""
    expired = [
        each
        for each in tokens
        if is_expired(each, now_ms=now_ms) and now_ms < each.expires_at_ms + EXPIRED_KEPT_MS
    ]
    expired.sort(key=lambda each: each.expires_at_ms)
    listed = {each.token_id for each in expired[-limits.PROGRAMMATIC_TOKENS_MAX :]}
    return tuple(
        each for each in tokens if each.token_id in listed or not is_expired(each, now_ms=now_ms)
    )
