"""rule: continuation tokens: where the next page of a listing starts.

A token holds its listing and the last item shown, so it stays valid whatever is created or deleted,
and the server keeps no state for it. It is opaque to clients but not secret; a digest detects
tokens that are forged or truncated.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Final, TypeAlias

import orjson

from s3tables import errors

_DIGEST_BYTES: Final = 6

SortKey: TypeAlias = tuple[str, ...]


def format_token(after: Sequence[str], *, listing: str) -> str:
    """Return the token of the page after an item's key."""
    body = orjson.dumps(after)
    return base64.urlsafe_b64encode(_digest(body, listing) + body).rstrip(b"=").decode()


def parse_token(token: str, *, listing: str) -> SortKey:
    """Return the key of the last item shown. Raises InvalidContinuationToken."""
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise errors.InvalidContinuationToken from None
    body = data[_DIGEST_BYTES:]
    if data[:_DIGEST_BYTES] != _digest(body, listing):
        raise errors.InvalidContinuationToken
    return tuple(orjson.loads(body))


def _digest(body: bytes, listing: str) -> bytes:
    return hashlib.blake2b(listing.encode() + b"\0" + body, digest_size=_DIGEST_BYTES).digest()
