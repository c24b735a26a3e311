"""Guards for tests of the S3 face, which must not need tables."""

from __future__ import annotations

from collections import Counter

from server.s3 import guard
from storage import batch, errors, model, opening


class PlainGuard:
    """Rules no key. A subclass returns other rulings; asked counts how often each key came up."""

    def __init__(self, storage: opening.Storage) -> None:
        self.storage = storage
        self.asked: Counter[str] = Counter()

    def at(self, bucket: str, key: str, reading: batch.Reading | None = None) -> guard.Ruling:
        self.asked[key] += 1
        try:
            info = self.storage.buckets.get(bucket, reading)
        except errors.NoSuchBucket:
            return guard.PlainRuling(bucket=None)
        return self.ruling(info, key)

    def ruling(self, bucket: model.BucketInfo, key: str) -> guard.Ruling:
        """Return what holds for a key of a bucket that exists."""
        return guard.PlainRuling(bucket=bucket)
