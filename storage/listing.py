"""rule: one page of a listing: prefix, delimiter, common prefixes, start of the next page.

Works on key bytes in order, on rows that can be entered anywhere: it skips the keys below a common
prefix without reading them, so a page's cost depends on its entries only. A common prefix counts as
one entry, appears once over all pages, and stands at its first key's position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from storage import keys

Row = TypeVar("Row")
RowOut = TypeVar("RowOut", covariant=True)


class Rows(Protocol[RowOut]):
    """The visible rows to list, in byte order of their keys."""

    def walk(self, start: bytes) -> Iterator[tuple[bytes, RowOut]]:
        """Yield (key, row) for every key >= start."""

    def first(self, start: bytes) -> tuple[bytes, RowOut] | None:
        """Return the first item of walk."""

    def take(self, start: bytes, stop: bytes | None, count: int) -> Sequence[tuple[bytes, RowOut]]:
        """Return the first count of what walk yields; it may leave out keys from stop on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[Row]):
    """One page of entries, each field in key order. next_after: None on the last page."""

    rows: tuple[tuple[bytes, Row], ...]
    common_prefixes: tuple[bytes, ...]
    next_after: bytes | None


def page(
    rows: Rows[Row],
    *,
    prefix: bytes,
    delimiter: bytes,
    start_after: bytes,
    entries_max: int,
    enter_at: bytes = b"",
    end_mark: bytes | None = None,
) -> Page[Row]:
    """Return the first entries_max entries after start_after.

    A common prefix that is not greater than start_after was on an earlier page and is left out
    with all keys below it. enter_at: a key before which no row is shown. A delimiter after end_mark
    does not count.
    """
    if entries_max <= 0:
        return Page(rows=(), common_prefixes=(), next_after=None)
    if not delimiter:
        return _page_of_keys(rows, prefix, start_after, enter_at, entries_max)
    rows_shown: list[tuple[bytes, Row]] = []
    common_prefixes: list[bytes] = []
    last: bytes | None = None
    for entry, row in _entries(rows, prefix, delimiter, start_after, enter_at, end_mark):
        if len(rows_shown) + len(common_prefixes) == entries_max:
            break
        last = entry
        if row is None:
            common_prefixes.append(entry)
        else:
            rows_shown.append((entry, row[0]))
    else:
        last = None
    return Page(rows=tuple(rows_shown), common_prefixes=tuple(common_prefixes), next_after=last)


def _page_of_keys(
    rows: Rows[Row], prefix: bytes, start_after: bytes, enter_at: bytes, entries_max: int
) -> Page[Row]:
    """Return a page without a delimiter, without examining each key."""
    after = start_after + b"\x00" if start_after else b""  # the lowest key after it
    stop = keys.successor(prefix)
    rows_shown = list(rows.take(max(prefix, after, enter_at), stop, entries_max + 1))
    if stop is not None:
        while rows_shown and rows_shown[-1][0] >= stop:
            rows_shown.pop()
    more = len(rows_shown) > entries_max
    return Page(
        rows=tuple(rows_shown[:entries_max]),
        common_prefixes=(),
        next_after=rows_shown[entries_max - 1][0] if more else None,
    )


def _entries(
    rows: Rows[Row],
    prefix: bytes,
    delimiter: bytes,
    start_after: bytes,
    enter_at: bytes,
    end_mark: bytes | None,
) -> Iterator[tuple[bytes, tuple[Row] | None]]:
    """Yield every entry after start_after: a key with its row in a tuple, or a common prefix."""
    stop = keys.successor(prefix)
    start: bytes | None = max(prefix, start_after, enter_at)
    while start is not None:
        entered = rows.first(start)
        if entered is None:
            return
        common = _common_prefix(entered[0], prefix, delimiter, end_mark)
        if common is None:
            for key, row in rows.walk(entered[0]):
                common = _common_prefix(key, prefix, delimiter, end_mark)
                if common is not None or (stop is not None and key >= stop):
                    break
                if key > start_after:
                    yield key, (row,)
            else:
                return
        if common is None or (stop is not None and common >= stop):
            return
        if common > start_after:
            yield common, None
        start = keys.successor(common)


def _common_prefix(
    key: bytes, prefix: bytes, delimiter: bytes, end_mark: bytes | None
) -> bytes | None:
    end = None if end_mark is None else key.index(end_mark)
    cut = key.find(delimiter, len(prefix), end)
    return None if cut < 0 else key[: cut + len(delimiter)]
