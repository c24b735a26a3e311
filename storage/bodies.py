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
from storage.model import Body, ByteRange, InlineBody, Segment, SharedBytes

ROWS_BYTES_MAX = 1 << 20
"""The largest body that may be stored in the index."""

SHARED_BYTES_MIN = 16 << 10
"""Shorter runs of bytes that two bodies have in common are stored twice."""
SEGMENTS_MAX = 16
"""A body that would have more segments in common with others is stored whole."""
OWN_SHARE_MAX = 4
"""A body is stored beside another if at most a fourth of it is its own."""

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


def cut(segments: Sequence[Segment], byte_range: ByteRange) -> tuple[Segment, ...]:
    """Return the segments that hold byte_range of the body that segments make."""
    overlapping: list[Segment] = []
    position = 0
    for segment in segments:
        start = max(byte_range.start - position, 0)
        stop = min(byte_range.stop - position, segment.length)
        if start < stop:
            overlapping.append(
                Segment(
                    blob=segment.blob,
                    offset=segment.offset + start,
                    length=stop - start,
                    indexed=segment.indexed,
                )
            )
        position += segment.length
        if position >= byte_range.stop:
            break
    return tuple(overlapping)


def name_repeating(
    reading: Reading,
    data: bytes,
    *,
    repeats: Sequence[SharedBytes],
    other: Sequence[Segment],
    row: str,
    now_ms: int,
) -> tuple[tuple[Segment, ...], tuple[Write, ...]] | None:
    """Do what `name_new` does, for a body that repeats bytes of another; None if it gains little.

    other: the segments of the other body, which are named at this moment. Only long runs in the
    index are shared, and only after a comparison of their bytes; all other bytes go into one new
    row, so that a body never has many segments. Raises as `recount` does.
    """
    segments: list[Segment] = []
    shared: list[Segment] = []
    own: list[memoryview] = []
    own_bytes = position = 0
    whole = memoryview(data)

    def keep_own(stop: int) -> None:
        nonlocal own_bytes
        if stop > position:
            length = stop - position
            segments.append(Segment(blob=row, offset=own_bytes, length=length, indexed=True))
            own.append(whole[position:stop])
            own_bytes += length

    for repeat in repeats:
        start = repeat.start
        for piece in cut(other, ByteRange(start=repeat.other, stop=repeat.other + repeat.length)):
            if (
                piece.indexed
                and piece.length >= SHARED_BYTES_MIN
                and _repeats(data, start, reading, piece)
            ):
                keep_own(start)
                segments.append(piece)
                shared.append(piece)
                position = start + piece.length
            start += piece.length
    keep_own(len(data))
    if not own_bytes or own_bytes * OWN_SHARE_MAX > len(data) or len(segments) > SEGMENTS_MAX:
        return None
    writes: list[Write] = [
        Put(store=Store.BODIES, key=bytes.fromhex(row), value=b"".join(own)),
        *recount(reading, added=shared, removed=(), now_ms=now_ms),
    ]
    if len(own) > 1:
        counted = records.BlobRecord(references=len(own), size_bytes=own_bytes)
        key = blob_key(Segment(blob=row, offset=0, length=own_bytes, indexed=True))
        writes.append(Put(store=Store.BLOBS, key=key, value=records.encode(counted)))
    return tuple(segments), tuple(writes)


def recount(
    reading: Reading, *, added: Sequence[Segment], removed: Sequence[Segment], now_ms: int
) -> tuple[Write, ...]:
    """Return the writes for records that gain the segments `added` and lose `removed`.

    The blobs of `added` must be named by a record at this moment. Raises SourceGone if a blob file
    has no row, and CorruptRecord if a count would fall below zero.
    """
    if not added and len(removed) == 1 and removed[0].indexed:
        return _recount_one(reading, removed[0], -1, now_ms)
    reading.weigh(len(added) + len(removed))
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


def _repeats(data: bytes, start: int, reading: Reading, segment: Segment) -> bool:
    """Return whether data has the bytes of a segment in the index from start on."""
    row = reading.get(Store.BODIES, bytes.fromhex(segment.blob)) or b""
    stored = memoryview(row)[segment.offset : segment.offset + segment.length]
    return len(stored) == segment.length and data.startswith(stored, start)


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
