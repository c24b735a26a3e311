"""rule: the rows of tables' tags.

A table's tags are one row under its object uuid, which is never used again: they survive renames,
and a table that is dropped and restored has them again.
"""

from __future__ import annotations

from typing import Final

import msgspec

from storage import errors
from storage.batch import Lookup, Store

FORMAT: Final = b"\x01"
BUCKET_SETTING: Final = "tags"
"""The setting of a bucket with its tags."""


class TagsRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A table's tags. A row of TAGS; a table without tags has none."""

    tags: dict[str, str]


def encode(tags: dict[str, str]) -> bytes:
    """Return the value of a row."""
    return FORMAT + msgspec.msgpack.encode(TagsRow(tags=tags))


def decode(value: bytes | None) -> dict[str, str]:
    """Return the tags in a row's value, none without a row. Raises CorruptRecord."""
    if value is None:
        return {}
    if value[:1] != FORMAT:
        raise errors.CorruptRecord(f"A TagsRow has the unknown format {value[:1]!r}")
    try:
        return msgspec.msgpack.decode(value[1:], type=TagsRow).tags
    except msgspec.MsgspecError as error:
        raise errors.CorruptRecord(f"A TagsRow cannot be read: {error}") from error


def read(reading: Lookup, key: bytes) -> dict[str, str]:
    """Return the tags of a table. key: `settings.table_key` of it."""
    return decode(reading.get(Store.TAGS, key))
