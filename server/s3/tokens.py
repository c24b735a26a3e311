"""rule: continuation tokens: where a listing continues, bound to its query.

A token has the last key of its page, so it stays valid whatever is created or deleted between two
pages. It also has a digest of the query: a token of another bucket, prefix or delimiter is refused.
It is opaque to clients and not secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

_DIGEST_BYTES = 9


def issue(after: str, *query: str) -> str:
    """Return the token that continues after a key or common prefix of this query."""
    data = _digest(query) + after.encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def redeem(token: str, *query: str) -> str | None:
    """Return the key to continue after, or None if the token does not belong to this query."""
    try:
        padded = token + "=" * (-len(token) % 4)
        data = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        after = data[_DIGEST_BYTES:].decode()
    except (binascii.Error, ValueError):
        return None
    return after if data[:_DIGEST_BYTES] == _digest(query) else None


def _digest(query: tuple[str, ...]) -> bytes:
    text = "\0".join(f"{len(part)}:{part}" for part in query)
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()
