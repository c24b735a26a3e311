"""Pages of listings against the plainest reading of the rules."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from storage import listing
from tests.kit import examples

key = st.text(st.sampled_from("/ab-é"), min_size=1, max_size=6).map(str.encode)
part = st.text(st.sampled_from("/ab-é"), max_size=3).map(str.encode)


def expected(
    stored: list[bytes], prefix: bytes, delimiter: bytes, start_after: bytes
) -> list[tuple[str, bytes]]:
    """Return all entries: ("key", key) or ("prefix", common prefix), each once, in byte order."""
    entries: dict[bytes, str] = {}
    for each in stored:
        if not each.startswith(prefix):
            continue
        rest = each[len(prefix) :]
        if delimiter and delimiter in rest:
            common = prefix + rest[: rest.index(delimiter) + len(delimiter)]
            if common > start_after:
                entries[common] = "prefix"
        elif each > start_after:
            entries[each] = "key"
    return [(entry_type, entry) for entry, entry_type in sorted(entries.items())]


class Sorted:
    """Keys in a list, each its own row; `seen` is what was looked at."""

    def __init__(self, stored: list[bytes]) -> None:
        self.stored = sorted(stored)
        self.seen: list[bytes] = []

    def walk(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        for each in self.stored:
            if each >= start:
                self.seen.append(each)
                yield each, b"v" + each

    def first(self, start: bytes) -> tuple[bytes, bytes] | None:
        return next(self.walk(start), None)

    def take(self, start: bytes, stop: bytes | None, count: int) -> list[tuple[bytes, bytes]]:
        return list(itertools.islice(self.walk(start), count))


def pages(
    stored: list[bytes], prefix: bytes, delimiter: bytes, start_after: bytes, entries_max: int
) -> Iterator[listing.Page[bytes]]:
    rows = Sorted(stored)
    after: bytes | None = start_after
    while after is not None:
        page = listing.page(
            rows,
            prefix=prefix,
            delimiter=delimiter,
            start_after=after,
            entries_max=entries_max,
        )
        yield page
        after = page.next_after


@given(st.sets(key, max_size=20), part, part, part, st.integers(1, 6))
@examples.at_most(400)
def test_the_pages_hold_every_entry_once_and_in_order(
    stored: set[bytes], prefix: bytes, delimiter: bytes, start_after: bytes, entries_max: int
) -> None:
    listed: list[tuple[str, bytes]] = []
    for page in pages(list(stored), prefix, delimiter, start_after, entries_max):
        count = len(page.rows) + len(page.common_prefixes)
        assert count <= entries_max
        if page.next_after is not None:
            assert count == entries_max
        here = [("key", each) for each, _ in page.rows]
        here += [("prefix", each) for each in page.common_prefixes]
        listed += sorted(here, key=lambda entry: entry[1])
        assert all(value == b"v" + each for each, value in page.rows)
    assert listed == expected(list(stored), prefix, delimiter, start_after)


def test_a_page_of_no_entries_is_the_last() -> None:
    page = next(pages([b"a"], b"", b"", b"", 0))
    assert page == listing.Page(rows=(), common_prefixes=(), next_after=None)


def test_a_full_last_page_has_no_token() -> None:
    assert [page.next_after for page in pages([b"a", b"b"], b"", b"", b"", 2)] == [None]


def test_a_key_before_the_slash_sorts_before_the_folder() -> None:
    stored = [b"dir1-2", b"dir1/x", b"dir1/y"]
    (page,) = pages(stored, b"", b"/", b"", 10)
    assert [each for each, _ in page.rows] == [b"dir1-2"]
    assert page.common_prefixes == (b"dir1/",)
    first, second = pages(stored, b"", b"/", b"", 1)
    assert (first.next_after, second.common_prefixes) == (b"dir1-2", (b"dir1/",))


def test_a_page_behind_a_common_prefix_never_looks_below_it() -> None:
    rows = Sorted([b"a", *(b"d/%04d" % number for number in range(1000)), b"e"])
    page = listing.page(rows, prefix=b"", delimiter=b"/", start_after=b"", entries_max=10)
    assert page.common_prefixes == (b"d/",)
    assert set(rows.seen) == {b"a", b"d/0000", b"e"}
