"""rule: pages of a listing, and their tokens.

Without a page token in the request a listing is whole, however long. With one, even an empty one,
it is split into pages; a page size that is not a positive number is always refused. A
token holds the last entry of its page, so entries that are added or removed neither repeat nor hide
others, and it is valid for its own listing only.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from catalog import errors

PAGE_DEFAULT: Final = 1_000
PAGE_MAX: Final = 10_000
_DIGEST_BYTES = 8


def span(parameters: Mapping[str, str], *, listing: str) -> tuple[str, int | None]:
    """Return the name after which a page starts, and how many names `cut` needs; None for all.

    Raises InvalidPageToken, InvalidCatalogRequest.
    """
    size = _page_size(parameters.get("pageSize"))
    token = parameters.get("pageToken")
    if token is None:
        return "", None
    return (_parse_token(token, listing) if token else ""), size + 1


def cut(
    names: Sequence[str], parameters: Mapping[str, str], *, listing: str
) -> tuple[list[str], str | None]:
    """Return one page of names and the token of the next, None if there is none.

    names: at least those that `span` requires, in UTF-8 byte order. listing: identifies the
    listing, such as by the parent's name. Raises InvalidPageToken, InvalidCatalogRequest.
    """
    size = _page_size(parameters.get("pageSize"))
    token = parameters.get("pageToken")
    if token is None:
        return list(names), None
    start = 0
    if token:
        after = _parse_token(token, listing)
        start = _first_after(names, after)
    page = list(names[start : start + size])
    if start + size >= len(names):
        return page, None
    return page, _format_token(page[-1], listing)


def _page_size(text: str | None) -> int:
    if text is None:
        return PAGE_DEFAULT
    if not (text.isascii() and text.isdecimal()) or not int(text[:10]) >= 1:
        raise errors.InvalidCatalogRequest(f"Invalid pageSize: {text} is not a positive number")
    return min(int(text[:10]), PAGE_MAX)


def _first_after(names: Sequence[str], after: str) -> int:
    low, high = 0, len(names)
    wanted = after.encode()
    while low < high:
        middle = (low + high) // 2
        if names[middle].encode() <= wanted:
            low = middle + 1
        else:
            high = middle
    return low


def _format_token(last: str, listing: str) -> str:
    return base64.urlsafe_b64encode(_digest(listing) + last.encode()).decode().rstrip("=")


def _parse_token(token: str, listing: str) -> str:
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        last = data[_DIGEST_BYTES:].decode()
    except (binascii.Error, ValueError):
        raise errors.InvalidPageToken(f"Invalid page token: {token[:100]}") from None
    if data[:_DIGEST_BYTES] != _digest(listing):
        raise errors.InvalidPageToken("Invalid page token: it belongs to another listing")
    return last


def _digest(listing: str) -> bytes:
    return hashlib.blake2b(listing.encode("utf-8", "surrogatepass"), digest_size=8).digest()
