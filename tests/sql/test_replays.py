"""What is remembered of statements, so that a repeated request is not done twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog import receipts, records
from sql import replays
from tests.kit import lakes, local_sql

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


@pytest.mark.parametrize(
    "text",
    [
        "delete from t where a > 10",
        "update t set a = 0 where a > 10",
        "merge into t using (select 11 as b) on a = b when matched then delete",
        "insert into t select a from s",
        "copy into t from @st",
    ],
)
def test_a_statement_that_changed_no_row_changes_none_when_repeated(
    tmp_path: Path, text: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("create table s (a int)")
        await local.run("create stage st")
        await local.run("insert into t values (1)")
        answer = await local.rows(text)
        first = local.last_id
        await local.run("insert into s values (11)")
        await local.run("insert into t values (11)")
        await local.run("copy into @st/f from (select 12)")
        assert await local.rows(text, query_id=first) == answer
        assert await local.rows("select a from t order by a") == [(1,), (11,)]
        # As a statement of its own it does its work.
        await local.run(text)
        assert await local.rows("select a from t order by a") != [(1,), (11,)]

    local_sql.run_local(tmp_path, work)
