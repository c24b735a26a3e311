"""rule: the versions of a key: where each is stored, and what writes and removals do to them.

Store.OBJECTS has the newest version of every key, a delete marker too; Store.VERSIONS has the older
ones, newest first: an address is followed by the complement of the version's sequence. The one
older version whose id is `null` has the bare address as its key, so that every version is found by
one read: an id begins with its sequence. A walk yields the null version where its sequence belongs.

A key has at most one null version, an older version only beside a newest one, and every older
version has a lower sequence than the newest. Computes writes from values; reads no body.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator, Sequence

import msgspec

from storage import checksums, keys, records
from storage.batch import Delete, Put, Reading, Store, Write
from storage.model import NULL_VERSION, ObjectAttributes, Segment, Versioning

SEQUENCE_BITS = 20
"""A sequence number is Unix milliseconds and this many bits for writes in the same one."""
SEQUENCE_DIGITS = 16
RANDOM_DIGITS = 16

_LAST = (1 << 64) - 1
_POSITION = struct.Struct(">Q")
_BEHIND_ALL = b"\xff" * (_POSITION.size + 1)
_VERSION_ID = re.compile(f"[0-9a-f]{{{SEQUENCE_DIGITS + RANDOM_DIGITS}}}")


class Stored(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A version in the index: its row and its record. newest: the row is in Store.OBJECTS."""

    address: bytes
    row: bytes
    value: bytes
    newest: bool

    @property
    def store(self) -> Store:
        """The store of the row."""
        return Store.OBJECTS if self.newest else Store.VERSIONS


class VersionChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What happens to stored versions: writes, and the segments that lose a name."""

    writes: tuple[Write, ...] = ()
    removed: tuple[Segment, ...] = ()


_NO_CHANGE = VersionChange()


def is_version_id(text: str) -> bool:
    """Return whether a version may have this id."""
    return text == NULL_VERSION or _VERSION_ID.fullmatch(text) is not None


def identity(
    before: records.ObjectRecord | None,
    versioning: Versioning | None,
    *,
    now_ms: int,
    random_id: str,
) -> tuple[int, str]:
    """Return sequence and version id of a new version. random_id: a name from NewId.

    before: the newest version of the key. A sequence may come again once its version is removed, an
    id never does.
    """
    sequence = now_ms << SEQUENCE_BITS
    if before is not None:
        sequence = max(sequence, before.sequence + 1)
    if versioning != "Enabled":
        return sequence, NULL_VERSION
    return sequence, f"{sequence:0{SEQUENCE_DIGITS}x}{random_id[:RANDOM_DIGITS]}"


def delete_marker(
    before: records.ObjectRecord | None,
    versioning: Versioning,
    *,
    now_ms: int,
    random_id: str,
    owner: str,
) -> records.ObjectRecord:
    """Return a new delete marker. owner: the account of its writer."""
    sequence, version_id = identity(before, versioning, now_ms=now_ms, random_id=random_id)
    return records.ObjectRecord(
        sequence=sequence,
        version_id=version_id,
        size_bytes=0,
        etag="",
        crc64nvme=checksums.crc64nvme(b""),
        modified_at_ms=now_ms,
        segments=(),
        attributes=ObjectAttributes(owner=owner),
    )


def find(reading: Reading, bucket_id: int, key: bytes, version_id: str) -> Stored | None:
    """Return a version of a key. None if there is none with that id, or no id has that form."""
    if not 1 <= len(key) <= keys.KEY_BYTES_MAX or not is_version_id(version_id):
        return None
    address = keys.locate(reading, bucket_id, key)
    newest = None if address is None else reading.get(Store.OBJECTS, address)
    if address is None or newest is None:
        return None
    if records.decode_object(newest).version_id == version_id:
        return Stored(address=address, row=address, value=newest, newest=True)
    row = _row_of(address, version_id)
    value = reading.get(Store.VERSIONS, row)
    if value is None or records.decode_object(value).version_id != version_id:
        return None
    return Stored(address=address, row=row, value=value, newest=False)


def plan_succession(
    reading: Reading,
    bucket_id: int,
    key: bytes,
    address: bytes,
    before: records.ObjectRecord | None,
    versioning: Versioning | None,
) -> VersionChange:
    """Return what a new version of a key does to the stored ones, besides taking the newest's row.

    before: the newest version, if there is one, at address. A null version replaces the null
    version before it; every other version is kept.
    """
    if before is None:
        return _NO_CHANGE
    if versioning is None:
        return VersionChange(removed=before.segments)
    writes: list[Write] = []
    removed: tuple[Segment, ...] = ()
    if versioning == "Suspended":
        if before.version_id == NULL_VERSION:
            return VersionChange(removed=before.segments)
        replaced = reading.get(Store.VERSIONS, address)
        if replaced is not None:
            writes.append(Delete(store=Store.VERSIONS, key=address))
            removed = records.decode_object(replaced).segments
    row = address
    if before.version_id != NULL_VERSION:
        row += _position(before.sequence)
    _, placing = keys.place(reading, Store.VERSIONS, bucket_id, key)
    writes += (*placing, Put(store=Store.VERSIONS, key=row, value=records.encode(before)))
    return VersionChange(writes=tuple(writes), removed=removed)


def plan_removal(reading: Reading, version: Stored, versioning: Versioning | None) -> VersionChange:
    """Return what removes one version. The newest of the older ones follows a removed newest.

    versioning: None says that there is no older one.
    """
    removed = records.decode_object(version.value).segments
    if not version.newest:
        return VersionChange(
            writes=(Delete(store=Store.VERSIONS, key=version.row),), removed=removed
        )
    follower = None if versioning is None else _newest_older(reading, version.address)
    if follower is None:
        return VersionChange(
            writes=(Delete(store=Store.OBJECTS, key=version.row),), removed=removed
        )
    row, value = follower
    return VersionChange(
        writes=(
            Put(store=Store.OBJECTS, key=version.row, value=value),
            Delete(store=Store.VERSIONS, key=row),
        ),
        removed=removed,
    )


def has_older(reading: Reading, address: bytes) -> bool:
    """Return whether the key at an address has a version besides its newest one."""
    return _newest_older(reading, address) is not None


def count_newer(reading: Reading, version: Stored, *, count_max: int) -> int:
    """Return how many older versions of its key are newer than an older version, up to a number."""
    assert not version.newest, "the newest version has no newer one"
    row = version.address + _position(records.sequence(version.value))
    scan = reading.scan(Store.VERSIONS, version.address + b"\x00", row)
    count = sum(1 for _ in itertools.islice(scan, count_max))
    if count < count_max and version.row != version.address:
        null_value = reading.get(Store.VERSIONS, version.address)
        if null_value is not None and records.sequence(null_value) > records.sequence(
            version.value
        ):
            count += 1
    return count


class VersionRows:
    """A bucket's versions for a listing: an entry is the encoded key, its end mark and a position.

    Each row is a version's record, and whether the version is its key's newest.
    """

    def __init__(self, view: Reading, bucket_id: int) -> None:
        self._view = view
        self._bucket_id = bucket_id

    def walk(self, start: bytes) -> Iterator[tuple[bytes, tuple[bytes, bool]]]:
        encoded, _, position = start.partition(keys.END)
        first = keys.decode_chunk(encoded)
        older = self._walk_older(first, position)
        row = next(older, None)
        for key, _, value in keys.walk(self._view, Store.OBJECTS, self._bucket_id, first):
            prefix = keys.encode_chunk(key) + keys.END
            entry = prefix + _position(records.sequence(value))
            if entry >= start:
                yield entry, (value, True)
            while row is not None and row[0] == key:
                entry = prefix + row[1]
                if entry >= start:
                    yield entry, (row[2], False)
                row = next(older, None)

    def first(self, start: bytes) -> tuple[bytes, tuple[bytes, bool]] | None:
        return next(self.walk(start), None)

    def take(
        self, start: bytes, stop: bytes | None, count: int
    ) -> Sequence[tuple[bytes, tuple[bytes, bool]]]:
        return list(itertools.islice(self.walk(start), count))

    def _walk_older(self, key: bytes, position: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield (key, position, record) of the older versions of keys >= key.

        position: the lowest one to begin at for key itself; rows of lower ones are not read.
        """
        waiting = self._null_version(key) if position else None
        rows = keys.walk(self._view, Store.VERSIONS, self._bucket_id, key, position)
        for row_key, suffix, value in rows:
            if waiting is not None and (waiting[0] != row_key or waiting[1] < suffix):
                yield waiting
                waiting = None
            if suffix:
                yield row_key, suffix, value
            else:
                waiting = row_key, _position(records.sequence(value)), value
        if waiting is not None:
            yield waiting

    def _null_version(self, key: bytes) -> tuple[bytes, bytes, bytes] | None:
        address = keys.locate(self._view, self._bucket_id, key)
        value = None if address is None else self._view.get(Store.VERSIONS, address)
        return None if value is None else (key, _position(records.sequence(value)), value)


def entry_of(text: str) -> bytes:
    """Return the entry of `VersionRows` where the versions of a key or below a prefix begin."""
    return keys.encode_chunk(text.encode("utf-8", "surrogatepass"))


def key_of(entry: bytes) -> str:
    """Return the key, or the common prefix, of an entry."""
    return key_bytes(entry).decode()


def key_bytes(entry: bytes) -> bytes:
    """Return the key of an entry, in UTF-8."""
    return keys.decode_chunk(entry.partition(keys.END)[0])


def entry_of_key(key: bytes) -> bytes:
    """Return an entry before all versions of a key, and after those of the one before."""
    return keys.encode_chunk(key) + keys.END


def entry_behind_key(key: bytes) -> bytes:
    """Return an entry after all versions of a key, and before those of the next one."""
    return keys.encode_chunk(key) + keys.END + _BEHIND_ALL


def marker_of(entry: bytes) -> str:
    """Return the version marker of an entry: a text of the form of a version id.

    It has the sequence alone, so that a page can start after it once the version is removed.
    """
    position = entry.partition(keys.END)[2]
    if not position:
        return ""
    sequence = _LAST - int(_POSITION.unpack(position)[0])
    return f"{sequence:0{SEQUENCE_DIGITS}x}" + "0" * RANDOM_DIGITS


def entry_behind(reading: Reading, bucket_id: int, key: str, version_marker: str) -> bytes:
    """Return the entry after which a page starts.

    version_marker: `marker_of` an entry, or a version id; "" for all versions of the key. A null
    version that no longer exists has no place among the others: then the key's versions are listed
    from the newest.
    """
    if not key:
        return b""
    entry = entry_of(key)
    if not version_marker:
        return entry_behind_key(key.encode("utf-8", "surrogatepass"))
    if version_marker != NULL_VERSION:
        return entry + keys.END + _position(int(version_marker[:SEQUENCE_DIGITS], 16))
    version = find(reading, bucket_id, key.encode("utf-8", "surrogatepass"), NULL_VERSION)
    if version is None:
        return entry + keys.END
    return entry + keys.END + _position(records.sequence(version.value))


def _newest_older(reading: Reading, address: bytes) -> tuple[bytes, bytes] | None:
    """Return row and record of the newest of a key's older versions."""
    null_value = reading.get(Store.VERSIONS, address)
    start, stop = address + b"\x00", address[: -len(keys.END)] + keys.MARK
    row = next(iter(reading.scan(Store.VERSIONS, start, stop)), None)
    if null_value is None:
        return row
    if row is None or records.sequence(row[1]) < records.sequence(null_value):
        return address, null_value
    return row


def _row_of(address: bytes, version_id: str) -> bytes:
    """Return the row of a version that is not the newest."""
    if version_id == NULL_VERSION:
        return address
    return address + _position(int(version_id[:SEQUENCE_DIGITS], 16))


def _position(sequence: int) -> bytes:
    """Return the complement of a sequence: newer versions come first."""
    return _POSITION.pack(_LAST - sequence)
