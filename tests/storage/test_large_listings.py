"""A page of a listing reads as many rows of a large bucket as of a small one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from storage import pages
from storage.batch import Store
from storage.index import ReadView
from storage.opening import Storage
from tests.kit import folders, large_buckets

SMALL = 10_000
LARGE = 50_000
HUGE = 1_000_000
COUNTS = {"small": SMALL, "large": LARGE}
PAGE = 1_000
ROUNDS = 15

Shape = dict[str, Any]


class CountedView:
    """A view of the index that counts the rows it returns, and its searches. Mutable."""

    is_committed = True

    def __init__(self, view: ReadView) -> None:
        self._view = view
        self.rows = 0
        self.searches = 0

    def get(self, store: Store, key: bytes) -> bytes | None:
        self.searches += 1
        return self._view.get(store, key)

    def first(self, store: Store, start: bytes, stop: bytes) -> tuple[bytes, bytes] | None:
        self.searches += 1
        return self._view.first(store, start, stop)

    def take(
        self, store: Store, start: bytes, stop: bytes, count: int
    ) -> list[tuple[bytes, bytes]]:
        self.searches += 1
        rows = self._view.take(store, start, stop, count)
        self.rows += len(rows)
        return rows

    def take_columns(
        self, store: Store, start: bytes, stop: bytes, count: int
    ) -> tuple[list[bytes], list[bytes]]:
        self.searches += 1
        columns = self._view.take_columns(store, start, stop, count)
        self.rows += len(columns[0])
        return columns

    def scan(
        self, store: Store, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self.searches += 1
        for row in self._view.scan(store, start, stop, reverse=reverse):
            self.rows += 1
            yield row


OBJECTS: dict[str, Callable[[int], Shape]] = {
    "the first page": lambda count: {},
    "a prefix": lambda count: {"prefix": "wide/"},
    "a prefix of one folder of four": lambda count: {"prefix": "wide/0000100/"},
    "a prefix without keys": lambda count: {"prefix": "none/"},
    "a deep start": lambda count: {"start_after": f"deep/{count // 2 - PAGE - 1:08}"},
    "a start in a prefix": lambda count: {"prefix": "wide/", "start_after": "wide/0000050/3"},
    "common prefixes": lambda count: {"delimiter": "/"},
    "common prefixes of a folder": lambda count: {"delimiter": "/", "prefix": "wide/"},
    "keys of a folder": lambda count: {"delimiter": "/", "prefix": "deep/"},
    "common prefixes, deep": lambda count: {
        "delimiter": "/", "prefix": "wide/", "start_after": "wide/0000050/"},
}  # fmt: skip

VERSIONS: dict[str, Callable[[int], Shape]] = {
    "the first page": lambda count: {},
    "a prefix": lambda count: {"prefix": "wide/"},
    "a deep start": lambda count: {"key_marker": f"deep/{count // 2 - PAGE - 1:08}"},
    "common prefixes": lambda count: {"delimiter": "/"},
    "common prefixes of a folder": lambda count: {"delimiter": "/", "prefix": "wide/"},
    "keys of a folder": lambda count: {"delimiter": "/", "prefix": "deep/"},
}


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    opened = folders.open_folder(tmp_path_factory.mktemp("listings") / "data")
    for bucket, count in COUNTS.items():
        folders.run(large_buckets.make(opened, bucket, count))
    yield opened
    opened.close()


@pytest.mark.parametrize("shape", list(OBJECTS))
def test_a_page_of_objects_reads_no_more_rows_in_a_large_bucket(
    storage: Storage, shape: str
) -> None:
    costs = [objects_cost(storage, bucket, OBJECTS[shape](COUNTS[bucket])) for bucket in COUNTS]
    assert costs[0] == costs[1]
    rows, searches, entries = costs[0]
    # One search finds each common prefix; the rest of a page is read in one run.
    assert rows <= 2 * PAGE
    assert searches <= entries + 10


@pytest.mark.parametrize("shape", list(VERSIONS))
def test_a_page_of_versions_reads_no_more_rows_in_a_large_bucket(
    storage: Storage, shape: str
) -> None:
    costs = [versions_cost(storage, bucket, VERSIONS[shape](COUNTS[bucket])) for bucket in COUNTS]
    assert costs[0] == costs[1]
    rows, searches, entries = costs[0]
    assert rows <= 3 * PAGE
    assert searches <= 3 * entries + 10


@pytest.mark.long
def test_a_page_of_a_million_keys_costs_what_it_costs_of_ten_thousand(tmp_path: Path) -> None:
    """Prints the times; what is held is the number of rows."""
    opened = folders.open_folder(tmp_path / "data", map_size_bytes=8 << 30)
    counts = {"small": SMALL, "huge": HUGE}
    for bucket, count in counts.items():
        folders.run(large_buckets.make(opened, bucket, count))
    for cost, shapes in ((objects_cost, OBJECTS), (versions_cost, VERSIONS)):
        for shape in shapes:
            measured = {}
            for bucket, count in counts.items():
                options = shapes[shape](count)
                seconds = []
                for _ in range(ROUNDS):
                    start = time.perf_counter()
                    measured[bucket] = cost(opened, bucket, options)
                    seconds.append(time.perf_counter() - start)
                print(
                    f"{cost.__name__} {shape}, {count}: {statistics.median(seconds) * 1e3:.2f} ms"
                )
            assert measured["small"] == measured["huge"]
    opened.close()


def objects_cost(storage: Storage, bucket: str, options: Shape) -> tuple[int, int, int]:
    """Return how many rows and searches a page of objects takes, and its entries."""
    with storage.index.view() as view:
        counted = CountedView(view)
        settings = {"prefix": "", "delimiter": "", "start_after": "", **options}
        page, _ = pages.objects_page(counted, bucket, max_keys=PAGE, hidden_max=None, **settings)
        return counted.rows, counted.searches, entries_of(page.rows, page.common_prefixes)


def versions_cost(storage: Storage, bucket: str, options: Shape) -> tuple[int, int, int]:
    """Return how many rows and searches a page of versions takes, and its entries."""
    with storage.index.view() as view:
        counted = CountedView(view)
        settings = {"prefix": "", "delimiter": "", "key_marker": "", **options}
        page = pages.versions_page(counted, bucket, max_keys=PAGE, version_marker="", **settings)
        return counted.rows, counted.searches, entries_of(page.versions, page.common_prefixes)


def entries_of(rows: Sequence[Any], common_prefixes: Sequence[Any]) -> int:
    return len(rows) + len(common_prefixes)
