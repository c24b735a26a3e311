"""Guards for tests of the S3 face, which must not need tables."""

from __future__ import annotations

from server.s3 import guard
from storage import batch, errors, model, opening


class PlainGuard:
    """Rules no key. A subclass returns other rulings."""

    def __init__(self, storage: opening.Storage) -> None:
        self.storage = storage

    def at(self, bucket: str, key: str, reading: batch.Reading | None = None) -> guard.Ruling:
        if reading is None:
            with self.storage.index.view() as view:
                return self._at(bucket, key, view)
        return self._at(bucket, key, reading)

    def ruling(self, bucket: model.BucketInfo, key: str) -> guard.Ruling | None:
        """Return what holds for a key of a bucket that exists; None if it is a plain key."""
        return None

    def _at(self, bucket: str, key: str, reading: batch.Reading) -> guard.Ruling:
        try:
            info, record = self.storage.buckets.read(bucket, reading)
        except errors.NoSuchBucket:
            return guard.PlainRuling(bucket=None)
        ruling = self.ruling(info, key)
        return guard.PlainRuling(bucket=info, record=record) if ruling is None else ruling
