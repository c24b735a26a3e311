"""engine: pages of listings, collected in steps so that other requests are served in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from s3tables import tokens

PAGE_ITEMS_MAX: Final = 1000
LOOKED_AT_ONCE: Final = 32
SKIPPED_AT_ONCE: Final = 2_000
"""Items examined, or skipped, in one step."""

Item = TypeVar("Item")
Shown = TypeVar("Shown")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenPage(Generic[Shown]):
    """One page. token: None on the last page."""

    items: tuple[Shown, ...]
    token: str | None

    def members(self, name: str) -> dict[str, object]:
        """Return the page as a listing's response, with its items under `name`."""
        listed: dict[str, object] = {name: list(self.items)}
        return listed if self.token is None else {**listed, "continuationToken": self.token}


async def paginate(
    items: Iterable[tuple[tokens.SortKey, Item]],
    show: Callable[[Item], Shown | None],
    *,
    listing: str,
    token: str | None,
    items_max: int | None,
) -> TokenPage[Shown]:
    """Return one page of items, in the order of their keys.

    show: returns an item's description, or None to leave it out; called from the token on.
    listing: identifies the listing with its filters. Yields to the event loop between items.
    Raises InvalidContinuationToken.
    """
    after = None if token is None else tokens.parse_token(token, listing=listing)
    wanted = PAGE_ITEMS_MAX if items_max is None else items_max
    page: list[Shown] = []
    last: tokens.SortKey = ()
    looked_at = 0
    for count, (key, item) in enumerate(items, 1):
        if count % SKIPPED_AT_ONCE == 0:
            await asyncio.sleep(0)
        if after is not None and key <= after:
            continue
        looked_at += 1
        if looked_at % LOOKED_AT_ONCE == 0:
            await asyncio.sleep(0)
        shown = show(item)
        if shown is None:
            continue
        if len(page) == wanted:
            return TokenPage(items=tuple(page), token=tokens.format_token(last, listing=listing))
        page.append(shown)
        last = key
    return TokenPage(items=tuple(page), token=None)
