"""rule: the index rows that count the references to a body's blobs.

Every segment of every record holds one reference to its blob. A blob file has its count in
Store.BLOBS as soon as it is named; a blob in the index (Store.BODIES) has a row there only while it
is shared. When the last reference is removed, the same transaction writes a row in Store.RELEASED,
and the sweep frees the blob once its readers are done. A released blob is never named again.

Computes writes from values; removes nothing itself.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from storage import errors, records
from storage.batch import Delete, Put, Reading, Store, Write
from storage.model import Body, InlineBody, Segment

ROWS_BYTES_MAX = 1 << 20
"""The largest body that may be stored in the index."""

Released = Literal["file", "row", "bucket"]

_TIME = struct.Struct(">Q")


def row_name(now_ms: int, random_id: str) -> str:
    """Return the name of a new blob in the index: ordered by time, so that rows are appended."""
    return f"{now_ms:012x}{random_id[:20]}"


def name_new(body: Body, *, row: str) -> tuple[tuple[Segment, ...], tuple[Write, ...]]:
    """Return the segments of a body just received, and the writes of its blobs' rows.

    row: the name of an inline body in the index.
    """
    if not isinstance(body, InlineBody):
        return body.segments, tuple(
            Put(
                store=Store.BLOBS,
                key=blob_key(segment),
                value=records.encode(
                    records.BlobRecord(references=1, size_bytes=segment.offset + segment.length)
                ),
            )
            for segment in body.segments
        )
    if not body.data:
        return (), ()
    assert len(body.data) <= ROWS_BYTES_MAX, "a body in the index is bounded"
    segment = Segment(blob=row, offset=0, length=len(body.data), indexed=True)
    return (segment,), (Put(store=Store.BODIES, key=bytes.fromhex(row), value=body.data),)


def recount(
    reading: Reading, *, added: Sequence[Segment], removed: Sequence[Segment], now_ms: int
) -> tuple[Write, ...]:
    """Return the writes for records that gain the segments `added` and lose `removed`.

    The blobs of `added` must be named by a record at this moment. Raises SourceGone if a blob file
    has no row, and CorruptRecord if a count would fall below zero.
    """
    if not added and len(removed) == 1 and removed[0].indexed:
        return _recount_one(reading, removed[0], -1, now_ms)
    changes: Counter[tuple[str, bool]] = Counter()
    segments: dict[tuple[str, bool], Segment] = {}
    for sequence, change in ((added, 1), (removed, -1)):
        for segment in sequence:
            identity = (segment.blob, segment.indexed)
            changes[identity] += change
            segments[identity] = segment
    writes: list[Write] = []
    for identity, change in changes.items():
        if change:
            writes.extend(_recount_one(reading, segments[identity], change, now_ms))
    return tuple(writes)


def released(what: Released, name: str, now_ms: int) -> Put:
    """Return the row that passes something that no record names any more to the sweep."""
    return Put(
        store=Store.RELEASED,
        key=released_before(what, now_ms) + name.encode(),
        value=records.encode(records.ReleasedRecord(what=what, name=name)),
    )


def released_before(what: Released, time_ms: int) -> bytes:
    """Return the lowest key of Store.RELEASED for releases at time_ms or later."""
    return what[:1].encode() + _TIME.pack(time_ms)


def blob_key(segment: Segment) -> bytes:
    """Return the key of a blob's count in Store.BLOBS."""
    return (b"i" if segment.indexed else b"f") + bytes.fromhex(segment.blob)


def _recount_one(reading: Reading, segment: Segment, change: int, now_ms: int) -> tuple[Write, ...]:
    key = blob_key(segment)
    value = reading.get(Store.BLOBS, key)
    if value is not None:
        record = records.decode_blob(value)
    elif segment.indexed:
        record = records.BlobRecord(references=1, size_bytes=segment.offset + segment.length)
    elif change > 0:
        raise errors.SourceGone("the source was removed while it was copied", blob=segment.blob)
    else:
        raise errors.CorruptRecord(f"blob {segment.blob} is named but not counted")
    references = record.references + change
    if references < 0:
        raise errors.CorruptRecord(f"blob {segment.blob} is named more often than counted")
    if references == 0:
        forget = () if value is None else (Delete(store=Store.BLOBS, key=key),)
        return (*forget, released("row" if segment.indexed else "file", segment.blob, now_ms))
    if segment.indexed and references == 1:
        return (Delete(store=Store.BLOBS, key=key),)
    counted = records.BlobRecord(references=references, size_bytes=record.size_bytes)
    return (Put(store=Store.BLOBS, key=key, value=records.encode(counted)),)
