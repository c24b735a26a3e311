"""Where a result is cut, and who may fetch the parts."""

from __future__ import annotations

import urllib.parse

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sql import chunks

KEY = b"k" * 32


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 50), max_size=12))
def test_cutting_loses_nothing_and_keeps_the_order(sizes: list[int]) -> None:
    cutter = chunks.Cutter(
        inline_bytes_max=80, inline_rows_max=7, chunk_bytes_max=160, chunk_rows_max=15
    )
    batches, start = [], 0
    for size in sizes:
        batches.append(pa.record_batch([pa.array(range(start, start + size), pa.int64())], ["n"]))
        start += size
    groups = [group for batch in batches for group in cutter.add(batch)]
    groups += cutter.finish()

    numbers = [
        number for group in groups for batch in group for number in batch.column(0).to_pylist()
    ]
    assert numbers == list(range(start))
    rows = [sum(batch.num_rows for batch in group) for group in groups]
    assert all(rows)
    assert all(count <= 15 for count in rows)
    if rows:
        assert rows[0] == min(7, start)


def test_a_row_larger_than_a_chunk_travels_alone() -> None:
    cutter = chunks.Cutter(
        inline_bytes_max=10, inline_rows_max=10, chunk_bytes_max=10, chunk_rows_max=10
    )
    batch = pa.record_batch([pa.array(["x" * 100] * 3)], names=["t"])
    groups = [*cutter.add(batch), *cutter.finish()]
    assert [[part.num_rows for part in group] for group in groups] == [[1], [1], [1]]


def test_an_address_is_genuine_only_whole_and_in_time() -> None:
    address = chunks.path(KEY, "q", 3, 1_000)
    parts = urllib.parse.urlsplit(address)
    assert parts.path == "/queries/q/chunks/3"
    query = dict(urllib.parse.parse_qsl(parts.query))
    signature = query["signature"]
    assert query["expires"] == "1000"
    assert chunks.is_genuine(KEY, "q", 3, 1_000, signature, now_ms=999)
    assert not chunks.is_genuine(KEY, "q", 3, 1_000, signature, now_ms=1_000)
    assert not chunks.is_genuine(KEY, "q", 4, 1_000, signature, now_ms=0)
    assert not chunks.is_genuine(KEY, "p", 3, 1_000, signature, now_ms=0)
    assert not chunks.is_genuine(KEY, "q", 3, 1_001, signature, now_ms=0)
    assert not chunks.is_genuine(b"other", "q", 3, 1_000, signature, now_ms=0)
    assert not chunks.is_genuine(KEY, "q", 3, 1_000, "ü", now_ms=0)
