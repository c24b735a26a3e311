"""rule: the pages that list a bucket's objects, versions and tombstones, in UTF-8 byte order.

A page is read from one view of the index. Delete markers are no objects; tombstoned objects are
listed only on demand.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from storage import keys, listing, lookups, records, versions
from storage.batch import Entering, Store
from storage.model import NULL_VERSION, VersionPage

PAGE_ENTRIES_MAX = 1000
_value: Final = operator.itemgetter(1)
"""The value of a row, for whole pages of them."""


def objects_page(
    view: Entering,
    bucket: str,
    *,
    prefix: str,
    delimiter: str,
    start_after: str,
    max_keys: int,
    hidden_max: int | None,
    enter_at: bytes = b"",
    include_tombstoned: bool = False,
) -> tuple[listing.Page[bytes], bytes | None]:
    """Return a page of object records, and the key where it stopped after hidden_max hidden rows.

    hidden_max: None skips all hidden rows. enter_at: the key where an earlier page stopped. Raises
    NoSuchBucket.
    """
    prefix_bytes = prefix.encode("utf-8", "surrogatepass")
    bucket_id = records.bucket_id(lookups.find_bucket(view, bucket))
    hidden = records.has_delete_marker if include_tombstoned else records.is_hidden
    rows = _ShownRows(view, bucket_id, hidden, hidden_max)
    page = listing.page(
        rows,
        prefix=prefix_bytes,
        delimiter=delimiter.encode("utf-8", "surrogatepass"),
        start_after=start_after.encode("utf-8", "surrogatepass"),
        entries_max=min(max_keys, PAGE_ENTRIES_MAX),
        enter_at=enter_at,
    )
    paused_at = rows.paused_at
    if paused_at is not None and not paused_at.startswith(prefix_bytes):
        paused_at = None  # it stopped after the prefix, where the listing ends
    return page, paused_at


def versions_page(
    view: Entering,
    bucket: str,
    *,
    prefix: str,
    delimiter: str,
    key_marker: str,
    version_marker: str,
    max_keys: int,
) -> VersionPage:
    """Return a page of versions and delete markers, by key, then newest first.

    Raises NoSuchBucket.
    """
    bucket_id = records.bucket_id(lookups.find_bucket(view, bucket))
    page = listing.page(
        versions.VersionRows(view, bucket_id),
        prefix=versions.entry_of(prefix),
        delimiter=versions.entry_of(delimiter),
        start_after=versions.entry_behind(view, bucket_id, key_marker, version_marker),
        entries_max=min(max_keys, PAGE_ENTRIES_MAX),
        end_mark=keys.END,
    )
    listed = tuple(
        [
            records.listed_version(versions.key_of(entry), value, is_latest=newest)
            for entry, (value, newest) in page.rows
        ]
    )
    next_after = None
    if page.next_after is not None:
        marker = versions.marker_of(page.next_after)
        if marker and listed[-1].version_id != NULL_VERSION:
            marker = listed[-1].version_id
        next_after = versions.key_of(page.next_after), marker
    return VersionPage(
        versions=listed,
        common_prefixes=tuple([versions.key_of(each) for each in page.common_prefixes]),
        next_after=next_after,
    )


class _ShownRows:
    """A bucket's object records, by S3 key, without those that is_hidden.

    Mutable: paused_at is the key at which the walk stopped after hidden_max hidden rows; None means
    that it skips all.
    """

    paused_at: bytes | None = None

    def __init__(
        self,
        view: Entering,
        bucket_id: int,
        is_hidden: Callable[[bytes], bool],
        hidden_max: int | None,
    ) -> None:
        self._view = view
        self._bucket_id = bucket_id
        self._is_hidden = is_hidden
        self._hidden_left = -1 if hidden_max is None else hidden_max

    def walk(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        hidden = self._is_hidden
        for key, _, value in keys.walk(self._view, Store.OBJECTS, self._bucket_id, start):
            if not hidden(value):
                yield key, value
            elif self._hidden_left == 0:
                self.paused_at = key
                return
            else:
                self._hidden_left -= 1

    def first(self, start: bytes) -> tuple[bytes, bytes] | None:
        row = keys.first(self._view, Store.OBJECTS, self._bucket_id, start)
        if row is None:
            return None
        key, _, value = row
        return next(self.walk(key), None) if self._is_hidden(value) else (key, value)

    def take(self, start: bytes, stop: bytes | None, count: int) -> list[tuple[bytes, bytes]]:
        rows = keys.take(self._view, Store.OBJECTS, self._bucket_id, start, stop, count)
        if rows is None or self._some_hidden(rows):
            return list(itertools.islice(self.walk(start), count))
        return rows

    def _some_hidden(self, rows: Sequence[tuple[bytes, bytes]]) -> bool:
        if not records.any_flagged(map(_value, rows)):
            return False
        return any(map(self._is_hidden, map(_value, rows)))
