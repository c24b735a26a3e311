"""rule: storage's errors. They have no HTTP status; each face has its own table of codes."""

from __future__ import annotations


class StorageError(Exception):
    """A condition of storage and its fields. `str()` is one sentence for the user."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)


class NoSuchBucket(StorageError):
    """The bucket does not exist."""


class BucketAlreadyExists(StorageError):
    """The bucket's name is taken; `owner` is the account that has it."""


class BucketNotEmpty(StorageError):
    """The bucket still holds objects."""


class InvalidBucketName(StorageError):
    """The name violates a naming rule; `reason` says which."""


class InvalidKey(StorageError):
    """The key is empty, longer than 1,024 bytes, or not valid UTF-8."""


class NoSuchKey(StorageError):
    """The bucket has no such object."""


class KeyDeleted(NoSuchKey):
    """The newest version of the key is a delete marker: `version_id`, of `modified_at_ms`."""


class NoSuchVersion(StorageError):
    """The object has no such version."""


class IsDeleteMarker(StorageError):
    """The version named by `version_id` is a delete marker, of `modified_at_ms`."""


class ObjectLocked(StorageError):
    """A retention or a legal hold protects the version; `mode` says which."""


class RetentionInPast(StorageError):
    """A retention was to end in the past, at `until_ms`."""


class InvalidBucketState(StorageError):
    """Object lock needs versioning that is enabled, and keeps it so."""


class NoSuchUpload(StorageError):
    """The upload does not exist, is complete or aborted, or belongs to another key."""


class InvalidPart(StorageError):
    """A part named at completion is unknown, or its ETag differs."""


class PartOutOfOrder(StorageError):
    """Parts must be named in ascending order; `part_number` came after `after`."""


class PartTooSmall(StorageError):
    """A part other than the last is smaller than 5 MiB."""


class PreconditionFailed(StorageError):
    """If-Match or If-None-Match did not hold when the write would have become visible."""


class ContentDiffers(StorageError):
    """A write-once key exists with other bytes."""


class ExpectationFailed(StorageError):
    """An expectation of a Batch did not hold; `store` and `key` say which."""


class DiskFull(StorageError):
    """No room for the write; reads, listings and deletes still work."""


class DiskReadOnly(DiskFull):
    """The disk takes no writes, not even deletes: it is mounted read-only. Reads still work."""


class BodyDamaged(StorageError):
    """The stored bytes of a body differ from its checksum; `key` is the object's."""


class BodyMissing(StorageError):
    """A record names a blob that does not exist."""


class FolderInUse(StorageError):
    """Another process holds the data folder."""


class NewerFormat(StorageError):
    """The data folder was written by a newer release."""


class CorruptRecord(StorageError):
    """A stored record cannot be decoded."""


class CorruptIndex(StorageError):
    """The index file is truncated or damaged."""


class CommitUnknown(StorageError):
    """It is not known whether the write is durable; nothing that it needs may be removed."""


class CommitRefused(StorageError):
    """The index refused a write that no client can cause, such as one with an over-long key."""


class IndexClosed(StorageError):
    """The index is closed, because the process is ending."""


class RangeNotSatisfiable(StorageError):
    """The range starts past the end of the body, whose size is `size_bytes`."""


class SizeLimitExceeded(StorageError):
    """The body is larger than the caller's limit; `size_bytes`, `limit_bytes`."""


class SourceGone(StorageError):
    """The source of a copy was removed before the copy."""


class CorruptFolder(StorageError):
    """The data folder lacks a necessary file, or a file in it cannot be read."""
