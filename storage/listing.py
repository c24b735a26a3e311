"""rule: one page of a listing: prefix, delimiter, common prefixes, where the next page starts.

Works on key bytes in order, from rows that can be entered anywhere: behind a common prefix it looks
past everything below it, so a page costs what it shows and not what it skips. A common prefix
counts as one entry, appears once over all pages, and stands where its first key would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from storage import keys

Row = TypeVar("Row")
RowOut = TypeVar("RowOut", covariant=True)


class Rows(Protocol[RowOut]):
    """What is listed: the visible rows, in byte order of their keys."""

    def walk(self, start: bytes) -> Iterator[tuple[bytes, RowOut]]:
        """Yield (key, row) for every key >= start."""

    def first(self, start: bytes) -> tuple[bytes, RowOut] | None:
        """Return what walk would yield first."""

    def take(self, start: bytes, stop: bytes | None, count: int) -> Sequence[tuple[bytes, RowOut]]:
        """Return the first count of what walk yields; it may leave out keys from stop on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[Row]):
    """rows and common_prefixes, each in order; next_after None on the last page."""

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
    """Return the first entries_max entries behind start_after.

    A common prefix that is not greater than start_after was on an earlier page and is left out with
    all below it. enter_at: the first key to look at, where nothing before it is shown. No delimiter
    is looked for behind end_mark.
    """
    if entries_max <= 0:
        return Page(rows=(), common_prefixes=(), next_after=None)
    if not delimiter:
        return _page_of_keys(rows, prefix, start_after, enter_at, entries_max)
    found: list[tuple[bytes, Row]] = []
    common_prefixes: list[bytes] = []
    last: bytes | None = None
    for entry, row in _entries(rows, prefix, delimiter, start_after, enter_at, end_mark):
        if len(found) + len(common_prefixes) == entries_max:
            break
        last = entry
        if row is None:
            common_prefixes.append(entry)
        else:
            found.append((entry, row[0]))
    else:
        last = None
    return Page(rows=tuple(found), common_prefixes=tuple(common_prefixes), next_after=last)


def _page_of_keys(
    rows: Rows[Row], prefix: bytes, start_after: bytes, enter_at: bytes, entries_max: int
) -> Page[Row]:
    """A page without a delimiter, cut out of the walk without looking at each key."""
    after = start_after + b"\x00" if start_after else b""  # the lowest key behind it
    stop = keys.successor(prefix)
    found = list(rows.take(max(prefix, after, enter_at), stop, entries_max + 1))
    if stop is not None:
        while found and found[-1][0] >= stop:
            found.pop()
    more = len(found) > entries_max
    return Page(
        rows=tuple(found[:entries_max]),
        common_prefixes=(),
        next_after=found[entries_max - 1][0] if more else None,
    )


def _entries(
    rows: Rows[Row],
    prefix: bytes,
    delimiter: bytes,
    start_after: bytes,
    enter_at: bytes,
    end_mark: bytes | None,
) -> Iterator[tuple[bytes, tuple[Row] | None]]:
    """Yield every entry behind start_after: a key with its row in a tuple, or a common prefix."""
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
