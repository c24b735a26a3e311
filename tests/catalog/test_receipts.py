"""Receipts: what requests with an idempotency key came to."""

from __future__ import annotations

import pytest

from catalog import receipts, records
from storage import batch
from storage import errors as storage_errors
from tests.kit import lakes

UUID = "018f0000-0000-7000-8000-00000000000{}"


def receipt(lake: lakes.Lake, number: int = 1) -> receipts.Receipt:
    return receipts.Receipt(
        key=records.idempotency_key(1, "root", UUID.format(number)),
        fingerprint=b"f" * 16,
        now_ms=lake.clock(),
    )


def find(lake: lakes.Lake, number: int = 1) -> records.IdempotencyRow | None:
    with lake.storage.index.view() as view:
        return receipts.find(view, receipt(lake, number).key, now_ms=lake.clock())


def test_a_receipt_is_found_until_its_lifetime_and_grace_are_over(lake: lakes.Lake) -> None:
    lake.run(lake.storage.index.commit(receipt(lake).plan(status=204)))
    stored = find(lake)
    assert stored is not None
    assert (stored.status, stored.fingerprint, stored.error) == (204, b"f" * 16, None)
    lake.clock.now_ms += receipts.LIFETIME_MS + receipts.GRACE_MS - 1
    assert find(lake) is not None
    lake.clock.now_ms += 1
    assert find(lake) is None


def test_a_receipt_is_written_once(lake: lakes.Lake) -> None:
    lake.run(lake.storage.index.commit(receipt(lake).plan()))
    with pytest.raises(storage_errors.ExpectationFailed):
        lake.run(lake.storage.index.commit(receipt(lake).plan()))


def test_a_key_is_free_again_once_it_has_ended(lake: lakes.Lake) -> None:
    lake.run(lake.storage.index.commit(receipt(lake).plan(status=200)))
    lake.clock.now_ms += receipts.LIFETIME_MS + receipts.GRACE_MS + 1
    lake.run(lake.storage.index.commit(receipt(lake).plan(status=204)))
    stored = find(lake)
    assert stored is not None
    assert stored.status == 204


def test_each_receipt_takes_ended_ones_away(lake: lakes.Lake) -> None:
    for number in range(5):
        lake.run(lake.storage.index.commit(receipt(lake, number).plan()))
    lake.clock.now_ms += receipts.LIFETIME_MS + receipts.GRACE_MS + 1
    lake.run(lake.storage.index.commit(receipt(lake, 9).plan()))
    with lake.storage.index.view() as view:
        rows = [key for key, _ in view.scan(batch.Store.IDEMPOTENCY, b"")]
    assert len(rows) == 2
    assert receipt(lake, 9).key in rows


def test_keys_of_two_principals_are_two_keys() -> None:
    one = records.idempotency_key(1, "alice", UUID.format(1))
    assert one != records.idempotency_key(1, "bob", UUID.format(1))
    assert one != records.idempotency_key(2, "alice", UUID.format(1))
