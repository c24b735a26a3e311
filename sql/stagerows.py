"""rule: the rows of stages and file formats in the index: their keys and values.

docs/ON_DISK.md describes them. A temporary object's key begins with the number of its session, so
that it hides a permanent one of the same name for that session alone. The key names the schema by
its uuid, which no other schema ever gets.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeVar

import msgspec

from catalog import records
from sql.dialect import operations
from storage import batch
from storage import errors as storage_errors

FORMAT: Final = b"\x01"
"""First byte of every value below."""
PERMANENT: Final = 0
"""The session number of a permanent object."""
NAME_BYTES_MAX: Final = 255

_KEY: Final = struct.Struct(">cQI16s")
_TYPES: Final[dict[operations.StagingType, bytes]] = {"stage": b"s", "file format": b"f"}
_DROPPED: Final = b"d"
_TABLE: Final = b"t"

Row = TypeVar("Row")


class StagingRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A stage or a file format. namespace: its path when it was created.

    object_id: of a stage, the name of its folder. query_id: of the statement that created it.
    """

    object_id: str
    name: str
    table_bucket: str
    namespace: tuple[str, ...]
    namespace_uuid: str
    session_id: int
    owner: str
    created_at_ms: int
    comment: str
    format_type: str
    format_options: dict[str, Any]
    query_id: str = ""


class DroppedRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A stage that is gone, and whose files the sweep removes. prefix: of their keys."""

    prefix: str
    dropped_at_ms: int


class TableStageRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The stage of a table. prefix: of its files' keys."""

    prefix: str


def key(
    object_type: operations.StagingType,
    *,
    session_id: int,
    bucket_id: int,
    namespace_uuid: str,
    name: str,
) -> bytes:
    """Return the key of an object."""
    return _KEY.pack(
        _TYPES[object_type], session_id, bucket_id, records.uuid_bytes(namespace_uuid)
    ) + name.encode(errors="surrogatepass")


def prefix(
    object_type: operations.StagingType, *, session_id: int, bucket_id: int, namespace_uuid: str
) -> bytes:
    """Return the prefix of the keys of a schema's objects."""
    return _KEY.pack(_TYPES[object_type], session_id, bucket_id, records.uuid_bytes(namespace_uuid))


def all_of(object_type: operations.StagingType) -> bytes:
    """Return the prefix of every object's key."""
    return _TYPES[object_type]


def session_of(row_key: bytes) -> int:
    """Return the session number of an object's key; PERMANENT for none."""
    return int.from_bytes(row_key[1:9], "big")


def dropped_key(object_id: str) -> bytes:
    """Return the key of a stage that is gone."""
    return _DROPPED + object_id.encode()


def table_key(object_uuid: str) -> bytes:
    """Return the key of a table's stage."""
    return _TABLE + records.uuid_bytes(object_uuid)


def table_of(row_key: bytes) -> str:
    """Return the table's uuid of the key of its stage."""
    text = row_key[1:].hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


ALL_DROPPED: Final = _DROPPED
ALL_TABLES: Final = _TABLE


def encode(row: StagingRow | DroppedRow | TableStageRow) -> bytes:
    """Return a row's value."""
    return FORMAT + msgspec.msgpack.encode(row)


def decode(value: bytes, row_type: type[Row]) -> Row:
    """Return a value's row. Raises CorruptRecord."""
    if value[:1] != FORMAT:
        raise storage_errors.CorruptRecord("a stage's row has another format")
    try:
        return msgspec.msgpack.decode(value[1:], type=row_type)
    except msgspec.MsgspecError as error:
        raise storage_errors.CorruptRecord("a stage's row cannot be read") from error


def stop_after(start: bytes) -> bytes:
    """Return the first key after every key with that prefix."""
    return start[:-1] + bytes([start[-1] + 1]) if start[-1] < 255 else start + b"\xff" * 300


STORE: Final = batch.Store.STAGES
