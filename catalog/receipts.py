"""rule: remembering what a request with an idempotency key came to.

The memory is a row in the very transaction of the effect, so an effect without its row, or a row
without its effect, cannot be. Only final outcomes are kept: success, and refusals that would be
the same again. A second row lists the first by its end, and each new receipt takes the oldest
ended ones away: what is kept stays bounded by the traffic of one lifetime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from catalog import records
from storage import batch
from storage import errors as storage_errors

LIFETIME_MS: Final = 30 * 60 * 1000
"""How long a key is remembered, as the configuration advertises it."""

GRACE_MS: Final = 5 * 60 * 1000
"""How much longer it is kept, since clocks differ."""

ENDED_REMOVED_MAX: Final = 16
"""Ended rows that one receipt takes away; more than one, so that their number falls."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What identifies one request. key: of IDEMPOTENCY. fingerprint: of operation and body."""

    key: bytes
    fingerprint: bytes
    now_ms: int

    def plan(
        self,
        *,
        status: int = 200,
        error_type: str | None = None,
        error_message: str = "",
        pointer: records.Pointer | None = None,
        reply: object = None,
    ) -> batch.Batch:
        """Return the Batch that remembers an outcome.

        pointer: of the table or view that the reply shows. reply: any other, as JSON.
        """
        expires_at_ms = self.now_ms + LIFETIME_MS + GRACE_MS
        row = records.IdempotencyRow(
            fingerprint=self.fingerprint,
            status=status,
            expires_at_ms=expires_at_ms,
            error=None if error_type is None else (error_type, error_message),
            pointer=pointer,
            reply=b"" if reply is None else msgspec.json.encode(reply),
        )
        return batch.Batch(derive=(self._putting(row, expires_at_ms),))

    def _putting(self, row: records.IdempotencyRow, expires_at_ms: int) -> batch.Derivation:
        store = batch.Store.IDEMPOTENCY

        def put(reading: batch.Reading) -> Sequence[batch.Write]:
            if find(reading, self.key, now_ms=self.now_ms) is not None:
                raise storage_errors.ExpectationFailed(
                    "the idempotency key has come to something already", store=store, key=self.key
                )
            start, stop = records.expired_range(self.now_ms)
            ended: list[bytes] = []
            for expiry_key, _ in reading.scan(store, start, stop):
                if len(ended) >= 2 * ENDED_REMOVED_MAX:
                    break
                ended.append(expiry_key)
                # A key used again has a newer row by now, which has an expiry key of its own.
                row_key = records.expired_row(expiry_key)
                if row_key == self.key or find(reading, row_key, now_ms=self.now_ms) is None:
                    ended.append(row_key)
            # The key's own row may be among the ended ones, so what is new is put last.
            return (
                *(batch.Delete(store=store, key=key) for key in ended),
                batch.Put(store=store, key=self.key, value=records.encode(row)),
                batch.Put(store=store, key=records.expiry_key(expires_at_ms, self.key), value=b""),
            )

        return put


def find(reading: batch.Reading, key: bytes, *, now_ms: int) -> records.IdempotencyRow | None:
    """Return what a key's request came to, None if it is unknown or has ended."""
    value = reading.get(batch.Store.IDEMPOTENCY, key)
    if value is None:
        return None
    row = records.decode(value, records.IdempotencyRow)
    return row if row.expires_at_ms > now_ms else None
