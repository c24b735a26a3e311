"""What is remembered of DDL statements, so that a repeated request is not done twice."""

from __future__ import annotations

from pathlib import Path

from catalog import receipts, records
from sql import replays
from tests.kit import lakes

QUERY_ID = "11111111-1111-5111-8111-111111111111"


def remembered(lake: lakes.Lake, key: bytes, *, status: int) -> None:
    receipt = receipts.Receipt(key=key, fingerprint=b"f" * 16, now_ms=lake.store.now_ms())
    lake.run(lake.storage.index.commit(receipt.plan(status=status)))


def test_an_idempotency_key_of_the_iceberg_face_is_no_statement(tmp_path: Path) -> None:
    with lakes.opened(tmp_path) as lake:
        stored = replays.Replays(store=lake.store)
        receipt = stored.receipt("lake", QUERY_ID, by=lakes.BY)
        bucket_id = lake.store.place("lake").bucket_id
        remembered(lake, records.idempotency_key(bucket_id, lakes.BY, QUERY_ID), status=200)
        assert not stored.is_done(receipt)
        lake.run(lake.storage.index.commit(receipt.plan()))
        assert stored.is_done(receipt)


def test_a_remembered_refusal_is_not_taken_for_done(tmp_path: Path) -> None:
    with lakes.opened(tmp_path) as lake:
        stored = replays.Replays(store=lake.store)
        for number, (status, is_done) in enumerate([(200, True), (204, True), (409, False)]):
            receipt = stored.receipt("lake", f"{number}{QUERY_ID[1:]}", by=lakes.BY)
            remembered(lake, receipt.key, status=status)
            assert stored.is_done(receipt) is is_done
