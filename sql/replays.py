"""engine: detects repeated requests of statements that were already executed.

A driver that gets no answer repeats its request, and a repeated request has the id of the first,
also after a restart. The outcome of DDL is stored in the transaction of its effect, so neither
exists without the other. Rows need no stored outcome: their snapshot contains the id
(`sql.writes.rows_committed`). A statement that changes no row has a transaction for its outcome
alone: repeated later, it might change some.

A receipt is kept as long as those of the Iceberg face (`catalog.receipts`): 30 minutes and 5 of
grace, longer than a driver repeats. Its key has a separate prefix, so that an Idempotency-Key of
that face never matches a statement's.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import Final

from catalog import receipts, records, store
from storage import errors as storage_errors
from storage import sweep

KEY_PREFIX: Final = b"s"
"""Prefix that separates statements' receipts from those of the Iceberg face."""

NO_BUCKET: Final = sweep.NO_BUCKET
"""In `receipt_in`, for statements about the server's account, or about a bucket as a whole."""

DONE_STATUSES: Final = range(200, 300)
"""What a receipt says of a transaction that did its work; others remember refusals."""


class Replays:
    """What statements with an id of their own came to. Owns nothing."""

    def __init__(self, *, store: store.CatalogStore) -> None:
        self._store = store

    def receipt(self, database: str, query_id: str, *, by: str) -> receipts.Receipt:
        """Return the receipt to store in the statement's transaction. by: ARN of its principal."""
        return self.receipt_in(self._store.place(database).bucket_id, query_id, by=by)

    def receipt_in(self, bucket_id: int, query_id: str, *, by: str) -> receipts.Receipt:
        """Return the receipt of a statement that belongs to no table bucket.

        bucket_id: of the bucket with which the receipt is removed.
        """
        return receipts.Receipt(
            key=KEY_PREFIX + records.idempotency_key(bucket_id, by, query_id),
            fingerprint=hashlib.blake2b(b"sql", digest_size=16).digest(),
            now_ms=self._store.now_ms(),
        )

    def is_done_in(self, bucket: str | None, query_id: str, *, by: str) -> bool:
        """Return whether a statement was executed on a temporary table.

        bucket: the session's table bucket of temporary tables, None without one.
        """
        return bucket is not None and self.is_done(self.receipt(bucket, query_id, by=by))

    def is_done(self, receipt: receipts.Receipt) -> bool:
        """Return whether the transaction of that receipt is committed."""
        with self._store.index.view() as view:
            row = receipts.find(view, receipt.key, now_ms=receipt.now_ms)
        return row is not None and row.status in DONE_STATUSES

    async def note(self, receipt: receipts.Receipt) -> None:
        """Store that a statement is done which has no other effect.

        Its answer is right without the row, so a full disk does not make it fail.
        """
        with contextlib.suppress(storage_errors.StorageError):
            await self._store.index.commit(receipt.plan())

    def reply(self, receipt: receipts.Receipt) -> bytes | None:
        """Return the answer that the transaction of that receipt has stored, None without one."""
        with self._store.index.view() as view:
            row = receipts.find(view, receipt.key, now_ms=receipt.now_ms)
        return None if row is None or row.status not in DONE_STATUSES else row.reply
