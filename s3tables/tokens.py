"""rule: continuation tokens: where the next page of a listing starts.

A token holds the listing it was made for and the last item shown, so it stays good whatever is
created or deleted meanwhile, and the server remembers nothing. It is opaque to clients and no
secret; a digest over it tells a token from a guess or a cut one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

import orjson

from s3tables import errors

PAGE_ITEMS_MAX: Final = 1000
_DIGEST_BYTES: Final = 6

Item = TypeVar("Item")
Shown = TypeVar("Shown")
SortKey: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[Shown]):
    """One page. token: None on the last."""

    items: tuple[Shown, ...]
    token: str | None

    def members(self, name: str) -> dict[str, object]:
        """Return the page as a listing answers it, its items under name."""
        listed: dict[str, object] = {name: list(self.items)}
        return listed if self.token is None else {**listed, "continuationToken": self.token}


def paginate(
    items: Iterable[tuple[SortKey, Item]],
    show: Callable[[Item], Shown | None],
    *,
    listing: str,
    token: str | None,
    items_max: int | None,
) -> Page[Shown]:
    """Return one page of what show makes of items, which come in the order of their keys.

    show: None leaves an item out; asked only from the token on. listing: names what is listed,
    filters included. Raises InvalidContinuationToken.
    """
    after = None if token is None else parse_token(token, listing=listing)
    wanted = PAGE_ITEMS_MAX if items_max is None else items_max
    page: list[Shown] = []
    last: SortKey = ()
    for key, item in items:
        if after is not None and key <= after:
            continue
        shown = show(item)
        if shown is None:
            continue
        if len(page) == wanted:
            return Page(items=tuple(page), token=format_token(last, listing=listing))
        page.append(shown)
        last = key
    return Page(items=tuple(page), token=None)


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
