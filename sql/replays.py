"""engine: whether a statement was done already, when its request comes again.

A driver that hears no answer repeats its request, and a repeated request has the id of the first,
also after a restart. What DDL does is remembered in the very transaction that does it, so there is
no moment in which a statement is done and not known. Rows need no memory of their own: their
snapshot says the id (`sql.writes.rows_committed`).

A receipt is kept for as long as those of the Iceberg face (`catalog.receipts`): 30 minutes and 5 of
grace, longer than a driver goes on repeating. Its key is of a space of its own, so that no
Idempotency-Key of that face can stand for a statement, or be spent by one.
"""

from __future__ import annotations

import hashlib
from typing import Final

from catalog import receipts, records, store

KEY_PREFIX: Final = b"s"
"""What sets a statement's receipts apart from those of the Iceberg face."""

DONE_STATUSES: Final = range(200, 300)
"""What a receipt says of a transaction that did its work; others remember refusals."""


class Replays:
    """What statements with an id of their own came to. Owns nothing."""

    def __init__(self, *, store: store.CatalogStore) -> None:
        self._store = store

    def receipt(self, database: str, query_id: str, *, by: str) -> receipts.Receipt:
        """Return what the statement's transaction shall remember. by: ARN of who runs it."""
        place = self._store.place(database)
        return receipts.Receipt(
            key=KEY_PREFIX + records.idempotency_key(place.bucket_id, by, query_id),
            fingerprint=hashlib.blake2b(b"sql", digest_size=16).digest(),
            now_ms=self._store.now_ms(),
        )

    def is_done(self, receipt: receipts.Receipt) -> bool:
        """Say whether the transaction of that receipt is committed."""
        with self._store.index.view() as view:
            row = receipts.find(view, receipt.key, now_ms=receipt.now_ms)
        return row is not None and row.status in DONE_STATUSES
