"""rule: the rows of the index that a bucket's name, a key and a version id select.

Every function reads one view or transaction and writes nothing.
"""

from __future__ import annotations

from typing import TypeAlias

from storage import errors, keys, names, records, versions
from storage.batch import Lookup, Reading, Store
from storage.model import BucketInfo, ObjectInfo

InBucket: TypeAlias = str | BucketInfo
"""A bucket's name, or a bucket that was looked up before, which saves a lookup."""


def find_bucket(reading: Lookup, name: str) -> bytes:
    """Return a bucket's record. Raises NoSuchBucket."""
    key = name.encode("utf-8", "surrogatepass")
    value = reading.get(Store.BUCKETS, key) if 0 < len(key) <= names.NAME_BYTES_MAX else None
    if value is None:
        raise errors.NoSuchBucket(f"the bucket {name!r} does not exist", name=name)
    return value


def name_of(bucket: InBucket) -> str:
    """Return a bucket's name."""
    return bucket if isinstance(bucket, str) else bucket.name


def id_of(reading: Lookup, bucket: InBucket) -> int:
    """Return a bucket's id, looked up if only the name is given. Raises NoSuchBucket."""
    if isinstance(bucket, str):
        return records.bucket_id(find_bucket(reading, bucket))
    return bucket.bucket_id


def check_bucket(
    reading: Reading, name: str, bucket_id: int, *, judged: bytes | None = None
) -> bytes:
    """Return a bucket's record. Raises NoSuchBucket unless name still has that id.

    judged: a record from which that id was read, which is not decoded again.
    """
    value = find_bucket(reading, name)
    if value != judged and records.bucket_id(value) != bucket_id:
        raise errors.NoSuchBucket(f"the bucket {name!r} was deleted", name=name)
    return value


def find(reading: Reading, bucket_id: int, key: str) -> bytes | None:
    """Return the record of a key's newest version, or None; also None for an invalid key."""
    encoded = key.encode("utf-8", "surrogatepass")
    if not 1 <= len(encoded) <= keys.KEY_BYTES_MAX:
        return None
    address = keys.locate(reading, bucket_id, encoded)
    return None if address is None else reading.get(Store.OBJECTS, address)


def newest(reading: Reading, bucket_id: int, encoded: bytes) -> versions.Stored | None:
    """Return the newest version of a key, a delete marker too."""
    address = keys.locate(reading, bucket_id, encoded)
    value = None if address is None else reading.get(Store.OBJECTS, address)
    if address is None or value is None:
        return None
    return versions.Stored(address=address, row=address, value=value, newest=True)


def find_version(reading: Reading, bucket_id: int, key: str, version_id: str) -> versions.Stored:
    """Return a version, a delete marker too. Raises NoSuchVersion."""
    encoded = key.encode("utf-8", "surrogatepass")
    stored = versions.find(reading, bucket_id, encoded, version_id)
    if stored is None:
        raise errors.NoSuchVersion(
            f"{key!r} has no version {version_id!r}", key=key, version_id=version_id
        )
    return stored


def check_source(reading: Reading, source: ObjectInfo) -> None:
    """Raise SourceGone unless the source of a copy still has the body that was read."""
    try:
        bucket_id = records.bucket_id(find_bucket(reading, source.bucket))
    except errors.NoSuchBucket:
        bucket_id = 0
    encoded = source.key.encode("utf-8", "surrogatepass")
    stored = versions.find(reading, bucket_id, encoded, source.version_id)
    if stored is None or records.decode_object(stored.value).segments != source.body.segments:
        raise errors.SourceGone(
            f"{source.key!r} was overwritten or removed during the copy", key=source.key
        )


def no_such_key(bucket: str, key: str) -> errors.NoSuchKey:
    """Return the error of a key that has no version."""
    return errors.NoSuchKey(f"{key!r} does not exist", bucket=bucket, key=key)


def delete_marker_error(
    bucket: str, key: str, value: bytes, version_id: str | None
) -> errors.StorageError:
    """Return the error of reading a delete marker. version_id: None if it is the newest version."""
    record = records.decode_object(value)
    if version_id is None:
        return errors.KeyDeleted(
            f"{key!r} was deleted",
            bucket=bucket,
            key=key,
            version_id=record.version_id,
            modified_at_ms=record.modified_at_ms,
        )
    return errors.IsDeleteMarker(
        f"the version {version_id!r} of {key!r} is a delete marker",
        bucket=bucket,
        key=key,
        version_id=version_id,
        modified_at_ms=record.modified_at_ms,
    )
