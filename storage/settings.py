"""rule: the settings of tables, and the policies of a table bucket and of its tables.

A table's settings are one row under its object uuid, which is never used again: they survive
renames, and a table that is dropped and restored has them again. A table bucket's policy is the row
of the bucket, which also counts the changes of all policies and tags in the bucket. So a write that
expects the bucket's row is refused if any of them changed after its rights were judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from storage import records
from storage.batch import Batch, Delete, Derivation, Expect, Lookup, Put, Reading, Store, Write

BUCKET_BYTES: Final = 4
UUID_BYTES: Final = 16
POLICY: Final = "policy"
MAINTENANCE: Final = "maintenance"
"""A table's maintenance settings by type, as the s3tables API names them."""
CHANGES: Final = "policy_changes"
"""How often a policy or the tags of the bucket or of one of its tables changed. In the bucket's
row."""

Settings: TypeAlias = Mapping[str, Any]
Change: TypeAlias = Callable[[Settings], Settings]
"""Computes new settings from the old. It may be called more than once, and may raise."""


def bucket_key(bucket_id: int) -> bytes:
    """Return the key of a table bucket's row."""
    return bucket_id.to_bytes(BUCKET_BYTES, "big")


def table_key(bucket_id: int, object_uuid: str) -> bytes:
    """Return the key of a table's row. Raises ValueError for text that is no UUID."""
    digits = bytes.fromhex(object_uuid.replace("-", ""))
    if len(digits) != UUID_BYTES:
        raise ValueError(f"{object_uuid!r} is no UUID")
    return bucket_key(bucket_id) + digits


def bucket_key_of(key: bytes) -> bytes:
    """Return the key of the row of the table bucket that a row belongs to."""
    return key[:BUCKET_BYTES]


def read(reading: Lookup, key: bytes) -> Settings:
    """Return the settings under a key; empty without a row."""
    value = reading.get(Store.SETTINGS, key)
    return {} if value is None else records.decode_settings(value).settings


def expect_policies(reading: Lookup, bucket_id: int) -> Expect:
    """Return the expectation that no policy and no tag in a table bucket changes after this
    reading."""
    key = bucket_key(bucket_id)
    return Expect(store=Store.SETTINGS, key=key, value=reading.get(Store.SETTINGS, key))


def plan_change(key: bytes, change: Change) -> Batch:
    """Return the Batch that changes settings other than policies, or counts a change."""
    return Batch(derive=(_changing(key, change),))


def plan_policy(bucket_id: int, object_uuid: str | None, policy: str | None) -> Batch:
    """Return the Batch that replaces the policy of a table, or of its bucket without object_uuid.

    policy: the document's text; None removes it.
    """
    own = bucket_key(bucket_id)
    key = own if object_uuid is None else table_key(bucket_id, object_uuid)

    def replace(settings: Settings) -> Settings:
        others = {name: value for name, value in settings.items() if name != POLICY}
        return others if policy is None else {**others, POLICY: policy}

    def derive(reading: Reading) -> Sequence[Write]:
        if key == own:
            return _changing(own, lambda settings: count_change(replace(settings)))(reading)
        return (*_changing(key, replace)(reading), *_changing(own, count_change)(reading))

    return Batch(derive=(derive,))


def count_change(settings: Settings) -> Settings:
    """Return the settings of a table bucket after one more change of its policies or tags."""
    return {**settings, CHANGES: settings.get(CHANGES, 0) + 1}


def put(key: bytes, settings: Settings) -> Put:
    """Return the write of settings, which are not empty."""
    value = records.encode(records.SettingsRecord(settings=dict(settings)))
    return Put(store=Store.SETTINGS, key=key, value=value)


def _changing(key: bytes, change: Change) -> Derivation:
    def derive(reading: Reading) -> Sequence[Write]:
        after = dict(change(read(reading, key)))
        if not after:
            return (Delete(store=Store.SETTINGS, key=key),)
        return (put(key, after),)

    return derive
