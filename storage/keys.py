"""rule: index keys within LMDB's 511 bytes that sort like the UTF-8 of the S3 key.

An address is `bucket id, node, chunk + 1, 0`. Chunk is the S3 key's UTF-8 with one added to every
byte: UTF-8 never uses 0xFF, so this keeps the order and frees 0 as an end mark lower than any byte.
Rows that belong to an S3 key (versions, uploads) put their own suffix after that mark.

A key longer than CHUNK_BYTES continues at the next level: Store.PREFIXES gives its first
CHUNK_BYTES bytes, below node 0, a node of their own, and the rest is addressed below that node. A
store with rows below a node has a marker row `bucket id, parent node, chunk + 1, 1` in their place:
it sorts after the key that is exactly the chunk and before everything else, so that walking the
store and descending at each marker yields all keys in byte order.

Nodes are created and removed only by derivations, inside the writer's transaction, and an id is
never reused. This module does not decode records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from storage.batch import Delete, Entering, Put, Reading, Store, Write

CHUNK_BYTES = 400
KEY_BYTES_MAX = 1024
ROOT = 0
END = b"\x00"
MARK = b"\x01"
NEXT_NODE = b"next_node"
KEYED_STORES = (Store.OBJECTS, Store.VERSIONS, Store.UPLOADS, Store.TOMBSTONES)
"""The stores whose rows belong to S3 keys; a node is kept while one of them has a row below it."""

_SCOPE = struct.Struct(">II")
_NODE = struct.Struct(">I")
_UP = bytes((value + 1) & 0xFF for value in range(256))
_DOWN = bytes((value - 1) & 0xFF for value in range(256))
_ENDED = END.translate(_DOWN)
"""What END becomes with the rest of an address: a byte that UTF-8 never uses."""


def bucket_range(bucket_id: int) -> tuple[bytes, bytes]:
    """Return start and stop of all rows of a bucket, in any keyed store and in PREFIXES."""
    return _NODE.pack(bucket_id), _NODE.pack(bucket_id + 1)


def encode_chunk(chunk: bytes) -> bytes:
    """Return the chunk as it is encoded in an address."""
    return chunk.translate(_UP)


def decode_chunk(encoded: bytes) -> bytes:
    """Return the chunk of an encoded one."""
    return encoded.translate(_DOWN)


def locate(reading: Reading, bucket_id: int, key: bytes) -> bytes | None:
    """Return the address of key, or None if no store has a row for it or below its nodes."""
    node = ROOT
    while len(key) > CHUNK_BYTES:
        value = reading.get(Store.PREFIXES, _marker(bucket_id, node, key[:CHUNK_BYTES]))
        if value is None:
            return None
        node = node_of(value)
        key = key[CHUNK_BYTES:]
    return _SCOPE.pack(bucket_id, node) + key.translate(_UP) + END


def place(
    reading: Reading, store: Store, bucket_id: int, key: bytes
) -> tuple[bytes, tuple[Write, ...]]:
    """Return the address of key, and the writes that make it reachable in store.

    Only for derivations, one key each: two keys of one derivation would get the same new node.
    """
    if len(key) <= CHUNK_BYTES:
        return _SCOPE.pack(bucket_id, ROOT) + key.translate(_UP) + END, ()
    writes: list[Write] = []
    node = ROOT
    fresh: int | None = None
    while len(key) > CHUNK_BYTES:
        marker = _marker(bucket_id, node, key[:CHUNK_BYTES])
        value = reading.get(Store.PREFIXES, marker) if fresh is None else None
        if value is None:
            if fresh is None:
                counted = reading.get(Store.META, NEXT_NODE)
                fresh = 1 if counted is None else node_of(counted)
            node = fresh
            fresh += 1
            writes.append(Put(store=Store.PREFIXES, key=marker, value=_NODE.pack(node)))
        else:
            node = node_of(value)
        if value is None or reading.get(store, marker) is None:
            writes.append(Put(store=store, key=marker, value=_NODE.pack(node)))
        key = key[CHUNK_BYTES:]
    if fresh is not None:
        writes.append(Put(store=Store.META, key=NEXT_NODE, value=_NODE.pack(fresh)))
    return _SCOPE.pack(bucket_id, node) + key.translate(_UP) + END, tuple(writes)


def vacate(reading: Reading, bucket_id: int, key: bytes) -> tuple[Write, ...]:
    """Return the deletions of markers and nodes that have no rows once key's row is deleted.

    For a derivation that runs after the row's deletion. Examines every keyed store, since a node
    must outlive the last marker that leads to it.
    """
    path: list[tuple[bytes, int]] = []
    node = ROOT
    while len(key) > CHUNK_BYTES:
        marker = _marker(bucket_id, node, key[:CHUNK_BYTES])
        value = reading.get(Store.PREFIXES, marker)
        if value is None:
            break
        node = node_of(value)
        path.append((marker, node))
        key = key[CHUNK_BYTES:]
    writes: list[Write] = []
    going: set[tuple[Store, bytes]] = set()
    for marker, node in reversed(path):
        idle = [each for each in KEYED_STORES if _is_empty(reading, each, bucket_id, node, going)]
        for store in idle:
            if reading.get(store, marker) is not None:
                writes.append(Delete(store=store, key=marker))
                going.add((store, marker))
        if len(idle) == len(KEYED_STORES):
            writes.append(Delete(store=Store.PREFIXES, key=marker))
    return tuple(writes)


def walk(
    reading: Reading, store: Store, bucket_id: int, start: bytes = b"", suffix: bytes = b""
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield (key, suffix, value) of a bucket's rows with key >= start, in byte order of the keys.

    Rows of one key come in the order of their suffixes. suffix: the lowest one to yield for the key
    `start`.
    """
    return _walk_node(reading, store, bucket_id, ROOT, b"", start, suffix)


def first(
    entering: Entering, store: Store, bucket_id: int, start: bytes
) -> tuple[bytes, bytes, bytes] | None:
    """Return the first item of `walk`."""
    if len(start) <= CHUNK_BYTES:
        scope = _SCOPE.pack(bucket_id, ROOT)
        row_found = entering.first(
            store, scope + start.translate(_UP), _SCOPE.pack(bucket_id, ROOT + 1)
        )
        if row_found is None:
            return None
        row, value = row_found
        end = row.find(END, _SCOPE.size)
        if end >= 0:
            return row[_SCOPE.size : end].translate(_DOWN), row[end + 1 :], value
    return next(walk(entering, store, bucket_id, start), None)


def take(
    entering: Entering, store: Store, bucket_id: int, start: bytes, stop: bytes | None, count: int
) -> list[tuple[bytes, bytes]] | None:
    """Return (key, value) of the first count rows with start <= key < stop, read at once.

    For stores whose rows have no suffix. None if a key among them, or one of the bounds, is long:
    only `walk` finds those. A page of 1,000 keys costs a fifth of what it costs through `walk`
    (tests/bench, "LIST").
    """
    if len(start) > CHUNK_BYTES or (stop is not None and len(stop) > CHUNK_BYTES):
        return None
    scope = _SCOPE.pack(bucket_id, ROOT)
    end = _SCOPE.pack(bucket_id, ROOT + 1) if stop is None else scope + stop.translate(_UP)
    addresses, values = entering.take_columns(store, scope + start.translate(_UP), end, count)
    if not addresses:
        return []
    # All addresses at once: between two keys stand the END of one and the scope of the next. A key
    # has no END, so this divides nothing else, and a marker, which has no END, is missed.
    lead = scope.translate(_DOWN)
    joined = b"".join(addresses).translate(_DOWN)
    names = joined[len(lead) : -1].split(_ENDED + lead)
    if len(names) != len(values) or not joined.endswith(_ENDED):
        return None
    return list(zip(names, values, strict=True))


def _walk_node(
    reading: Reading,
    store: Store,
    bucket_id: int,
    node: int,
    path: bytes,
    start: bytes,
    suffix: bytes,
) -> Iterator[tuple[bytes, bytes, bytes]]:
    scope = _SCOPE.pack(bucket_id, node)
    head = start[:CHUNK_BYTES]
    behind = MARK if len(start) > CHUNK_BYTES else END + suffix if suffix else b""
    begin = scope + head.translate(_UP) + behind
    stop = _SCOPE.pack(bucket_id, node + 1)
    first = _SCOPE.size
    for row, value in reading.scan(store, begin, stop):
        end = row.find(END, first)
        if end >= 0:
            chunk = row[first:end].translate(_DOWN)
            yield (path + chunk if path else chunk), row[end + 1 :], value
            continue
        chunk = row[_SCOPE.size : -1].translate(_DOWN)
        rest, lowest = (start[CHUNK_BYTES:], suffix) if chunk == head else (b"", b"")
        yield from _walk_node(reading, store, bucket_id, node_of(value), path + chunk, rest, lowest)


def suffix_of(row: bytes) -> bytes | None:
    """Return the bytes after the address in a row's key; None for a marker."""
    end = row.find(END, _SCOPE.size)
    return None if end < 0 else row[end + 1 :]


def successor(prefix: bytes) -> bytes | None:
    """Return the lowest byte string above all that start with prefix; None if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None


def node_of(value: bytes) -> int:
    """Return the node in a marker or a PREFIXES row."""
    return int(_NODE.unpack(value)[0])


def _marker(bucket_id: int, node: int, chunk: bytes) -> bytes:
    return _SCOPE.pack(bucket_id, node) + chunk.translate(_UP) + MARK


def _is_empty(
    reading: Reading, store: Store, bucket_id: int, node: int, going: set[tuple[Store, bytes]]
) -> bool:
    rows = reading.scan(store, _SCOPE.pack(bucket_id, node), _SCOPE.pack(bucket_id, node + 1))
    return all((store, row) in going for row, _ in rows)
