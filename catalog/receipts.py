"""rule: stored outcomes of requests with an idempotency key.

An outcome is a row in the transaction of the effect, so that neither exists without the other. Only
final outcomes are stored: success, and refusals that a retry would repeat. A second row lists the
first by its expiry, and each new receipt removes the oldest expired ones, so the number of rows is
bounded by the traffic of one lifetime.
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
"""How long an outcome is stored, as the configuration advertises it."""

GRACE_MS: Final = 5 * 60 * 1000
"""How much longer it is stored, because clocks differ."""

ENDED_REMOVED_MAX: Final = 16
"""Expired rows that one receipt removes; more than one, so that their number falls."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """The identity of one request. key: of IDEMPOTENCY. fingerprint: of operation and body."""

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
        """Return the Batch that stores an outcome.

        pointer: of the table or view in the response. reply: any other response, as JSON.
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
                    "the idempotency key has a stored outcome already", store=store, key=self.key
                )
            start, stop = records.expired_range(self.now_ms)
            ended: list[bytes] = []
            for expiry_key, _ in reading.scan(store, start, stop):
                if len(ended) >= 2 * ENDED_REMOVED_MAX:
                    break
                ended.append(expiry_key)
                # A key that was used again has a newer row, with its own expiry key.
                row_key = records.expired_row(expiry_key)
                if row_key == self.key or find(reading, row_key, now_ms=self.now_ms) is None:
                    ended.append(row_key)
            # The key's own row may be among the expired ones, so the new one is written last.
            return (
                *(batch.Delete(store=store, key=key) for key in ended),
                batch.Put(store=store, key=self.key, value=records.encode(row)),
                batch.Put(store=store, key=records.expiry_key(expires_at_ms, self.key), value=b""),
            )

        return put


def find(reading: batch.Reading, key: bytes, *, now_ms: int) -> records.IdempotencyRow | None:
    """Return the stored outcome of a key's request, None if there is none or it has expired."""
    value = reading.get(batch.Store.IDEMPOTENCY, key)
    if value is None:
        return None
    row = records.decode(value, records.IdempotencyRow)
    return row if row.expires_at_ms > now_ms else None
