"""Index keys: bounded, reversible, and in the byte order of the S3 keys, however long."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from storage import keys
from storage.batch import Delete, Put, Store, Write
from storage.index import KEY_BYTES_MAX
from tests.kit import examples


class Table:
    """A sorted map for each store, as the writer's transaction would show it."""

    def __init__(self) -> None:
        self.rows: dict[Store, dict[bytes, bytes]] = {store: {} for store in Store}

    def get(self, store: Store, key: bytes) -> bytes | None:
        return self.rows[store].get(key)

    def scan(
        self, store: Store, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        in_order = sorted(self.rows[store])
        chosen = in_order[bisect.bisect_left(in_order, start) :]
        if stop is not None:
            chosen = [key for key in chosen if key < stop]
        for key in reversed(chosen) if reverse else chosen:
            yield key, self.rows[store][key]

    def first(self, store: Store, start: bytes, stop: bytes) -> tuple[bytes, bytes] | None:
        return next(self.scan(store, start, stop), None)

    def take(
        self, store: Store, start: bytes, stop: bytes, count: int
    ) -> list[tuple[bytes, bytes]]:
        return list(itertools.islice(self.scan(store, start, stop), count))

    def take_columns(
        self, store: Store, start: bytes, stop: bytes, count: int
    ) -> tuple[list[bytes], list[bytes]]:
        rows = self.take(store, start, stop, count)
        return [key for key, _ in rows], [value for _, value in rows]

    def do(self, *writes: Write) -> None:
        for write in writes:
            assert 0 < len(write.key) <= KEY_BYTES_MAX
            if isinstance(write, Put):
                self.rows[write.store][write.key] = write.value
            else:
                self.rows[write.store].pop(write.key, None)

    def put(self, store: Store, bucket_id: int, key: bytes, suffix: bytes = b"") -> None:
        address, placing = keys.place(self, store, bucket_id, key)
        self.do(*placing, Put(store=store, key=address + suffix, value=b"v" + key))

    def delete(self, store: Store, bucket_id: int, key: bytes, suffix: bytes = b"") -> None:
        address = keys.locate(self, bucket_id, key)
        assert address is not None
        self.do(Delete(store=store, key=address + suffix))
        self.do(*keys.vacate(self, bucket_id, key))

    def is_empty(self) -> bool:
        return not any(rows for store, rows in self.rows.items() if store is not Store.META)


stem = st.sampled_from([b"", b"a", b"a/", b"\x00", b"ab" * 200, b"ab" * 400, "é€😀".encode() * 45])
tail = st.text(
    st.sampled_from("\x00\x01/ab~\x7fé€😀"),
    max_size=8,
).map(str.encode)
key_bytes = (
    st.tuples(stem, tail, st.sampled_from([b"", b"c" * 390, b"c" * 400]), tail)
    .map(b"".join)
    .filter(lambda key: 1 <= len(key) <= keys.KEY_BYTES_MAX)
)


@given(st.lists(key_bytes, unique=True, max_size=25), key_bytes)
@examples.at_most(150)
def test_walk_yields_every_key_from_start_on_in_byte_order(
    wanted: list[bytes], start: bytes
) -> None:
    table = Table()
    for key in wanted:
        table.put(Store.OBJECTS, 7, key)
        table.put(Store.OBJECTS, 8, key + b"!")
    for begin in (b"", start):
        walked = [(key, value) for key, _, value in keys.walk(table, Store.OBJECTS, 7, begin)]
        expected = sorted(key for key in wanted if key >= begin)
        assert walked == [(key, b"v" + key) for key in expected]
        entered = keys.first(table, Store.OBJECTS, 7, begin)
        assert entered == next(keys.walk(table, Store.OBJECTS, 7, begin), None)


@given(
    st.lists(key_bytes, unique=True, max_size=12),
    key_bytes | st.just(b""),
    key_bytes | st.none(),
    st.integers(1, 6),
    st.sampled_from([1, 7, 0x61, 0xFF, 0x100, 0x10000, 0x01000001, 0xFFFFFF00]),
)
@examples.at_most(150)
def test_take_returns_what_walk_yields_first_or_none_where_a_key_is_long(
    wanted: list[bytes], start: bytes, stop: bytes | None, count: int, bucket_id: int
) -> None:
    table = Table()
    for key in wanted:
        table.put(Store.OBJECTS, bucket_id, key)
        table.put(Store.OBJECTS, bucket_id + 1, key + b"!")
    expected = sorted(key for key in wanted if key >= start and (stop is None or key < stop))
    taken = keys.take(table, Store.OBJECTS, bucket_id, start, stop, count)
    if taken is None:
        bounds = (start, stop or b"")
        assert any(len(key) > keys.CHUNK_BYTES for key in (*bounds, *expected[:count]))
    else:
        assert taken == [(key, b"v" + key) for key in expected[:count]]


@given(st.lists(key_bytes, unique=True, max_size=12), st.randoms(use_true_random=False))
@examples.at_most(100)
def test_deleting_every_key_leaves_no_marker_and_no_node(
    wanted: list[bytes], random: object
) -> None:
    table = Table()
    for key in wanted:
        table.put(Store.OBJECTS, 1, key)
        table.put(Store.TOMBSTONES, 1, key)
    order = [(store, key) for key in wanted for store in (Store.OBJECTS, Store.TOMBSTONES)]
    random.shuffle(order)  # type: ignore[attr-defined] # Hypothesis types it as object
    gone: set[tuple[Store, bytes]] = set()
    for store, key in order:
        table.delete(store, 1, key)
        gone.add((store, key))
        for each in (Store.OBJECTS, Store.TOMBSTONES):
            left = sorted(other for other in wanted if (each, other) not in gone)
            assert [name for name, _, _ in keys.walk(table, each, 1)] == left
    assert table.is_empty()


def test_rows_of_one_key_come_in_the_order_of_their_suffixes_and_before_longer_keys() -> None:
    table = Table()
    for key in (b"a", b"a\x00", b"ab", b"a" * 400, b"a" * 401):
        for suffix in (b"\xff" * 8, b"\x00" * 8, b"\x01\x00"):
            table.put(Store.VERSIONS, 1, key, suffix)
    walked = [(key, suffix) for key, suffix, _ in keys.walk(table, Store.VERSIONS, 1)]
    suffixes = [b"\x00" * 8, b"\x01\x00", b"\xff" * 8]
    in_order = [b"a", b"a\x00", b"a" * 400, b"a" * 401, b"ab"]
    assert walked == [(key, suffix) for key in in_order for suffix in suffixes]


def test_the_longest_key_with_the_longest_suffix_fits_lmdb() -> None:
    table = Table()
    for length in (399, 400, 401, 800, 801, 1024):
        address, placing = keys.place(table, Store.UPLOADS, 2**32 - 2, b"\xf4" * length)
        table.do(*placing)
        assert len(address) + 16 <= KEY_BYTES_MAX


def test_a_node_is_never_used_twice() -> None:
    table = Table()
    seen: set[bytes] = set()
    for number in range(5):
        key = b"k" * 500 + b"%d" % number
        table.put(Store.OBJECTS, 1, key)
        address = keys.locate(table, 1, key)
        assert address is not None
        assert address[:8] not in seen
        seen.add(address[:8])
        table.delete(Store.OBJECTS, 1, key)


def test_locate_an_unknown_long_key_finds_nothing() -> None:
    assert keys.locate(Table(), 1, b"k" * 401) is None


def test_successor_is_the_lowest_string_above_the_prefix() -> None:
    assert keys.successor(b"ab") == b"ac"
    assert keys.successor(b"a\xff\xff") == b"b"
    assert keys.successor(b"\xff") is None
    assert keys.successor(b"") is None
