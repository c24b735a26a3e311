"""rule: one page of a listing: prefix, delimiter, common prefixes, where the next page starts.

Works on key bytes in order, from a walk that can start anywhere: behind a common prefix it starts
anew past everything below it, so a page costs what it shows and not what it skips. A common prefix
counts as one entry, appears once over all pages, and stands where its first key would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from storage import keys

Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[Row]):
    """rows and common_prefixes, each in order; next_after None on the last page."""

    rows: tuple[tuple[bytes, Row], ...]
    common_prefixes: tuple[bytes, ...]
    next_after: bytes | None


def page(
    walk: Callable[[bytes], Iterator[tuple[bytes, Row]]],
    *,
    prefix: bytes,
    delimiter: bytes,
    start_after: bytes,
    entries_max: int,
    end_mark: bytes | None = None,
) -> Page[Row]:
    """Return the first entries_max entries behind start_after.

    walk(start) yields visible (key, row) with key >= start in byte order. A common prefix that is
    not greater than start_after was on an earlier page and is left out with all below it. No
    delimiter is looked for behind end_mark.
    """
    rows: list[tuple[bytes, Row]] = []
    common_prefixes: list[bytes] = []
    if entries_max <= 0:
        return Page(rows=(), common_prefixes=(), next_after=None)
    start: bytes | None = max(prefix, start_after)
    last = b""
    left = entries_max
    stop = keys.successor(prefix)
    while start is not None:
        jump: bytes | None = None
        for key, row in walk(start):
            if stop is not None and key >= stop:
                break
            if delimiter:
                end = None if end_mark is None else key.index(end_mark)
                cut = key.find(delimiter, len(prefix), end)
                if cut >= 0:
                    jump = key[: cut + len(delimiter)]
                    if jump <= start_after:
                        break
                    if left == 0:
                        return _page(rows, common_prefixes, last)
                    left -= 1
                    common_prefixes.append(jump)
                    last = jump
                    break
            if key <= start_after:
                continue
            if left == 0:
                return _page(rows, common_prefixes, last)
            left -= 1
            rows.append((key, row))
            last = key
        start = None if jump is None else keys.successor(jump)
    return _page(rows, common_prefixes, None)


def _page(
    rows: list[tuple[bytes, Row]], common_prefixes: list[bytes], next_after: bytes | None
) -> Page[Row]:
    return Page(rows=tuple(rows), common_prefixes=tuple(common_prefixes), next_after=next_after)
