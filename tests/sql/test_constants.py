"""A SELECT of constants is answered without the engine: same types, same values as with it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sql import constants, engine, engine_datafusion, errors, tabletypes
from tests.kit import local_sql, sql_text

CONSTANTS = """
1 | -1 | 0 | 007 | 9223372036854775807 | -9223372036854775807 | -9223372036854775808
9223372036854775808 | 99999999999999999999999999999999999999
-99999999999999999999999999999999999999
1.5 | -1.50 | .5 | 0.00 | 100. | 12345678901234567890.123456789
0.0000000000000000000000000000000000001
1e3 | -1e-3 | 1.5e300 | 1e-310 | 0e0 | 123456789012345678901234567890123456789
null | true | false | '' | 'a' | 'it''s' | 'a\\nb' | 'é😀' | $$q$$ | 'x' || null
null::int | null::number(10,2) | null::float | null::varchar | null::varchar(3)
null::date | null::time
null::timestamp | null::timestamp_ltz | null::boolean | null::binary
'1'::int | '1.255'::number(5,2) | ' 7 '::number | '1e2'::number(38,3) | 5::number(10,2)
5::number(3)
2.5::int | -2.5::int | 1.005::number(10,2) | 12::varchar | 'abc'::varchar(2) | 'abc'::varchar(5)
'abc'::varchar | 'true'::boolean | 'no'::boolean | '2024-02-29'::date | '0001-01-01'::date
'9999-12-31'::date | '10:11:12'::time | '10:11:12.123456'::time
'2024-01-31 10:11:12.5'::timestamp
'2024-01-31T10:11:12Z'::timestamp_ltz | '2024-01-31 10:11:12 +02:00'::timestamp_ltz
'1969-12-31 23:59:59.999999'::timestamp | date '2024-01-01' | timestamp '2024-01-01 00:00:00'
x'' | x'00ff' | try_cast('a' as int) | try_cast('12' as int) | try_cast('x' as date)
try_to_number('12.6') | to_date('2024-05-06') | to_number('12.345', 10, 2)
current_version() | current_user() | current_role() | current_warehouse() | current_database()
current_schema() | current_account() | current_region() | current_session() | current_client()
current_date | current_timestamp | current_timestamp() | current_time | localtimestamp
sysdate()
last_query_id() | getdate() | 1 + 1 | 'a' || 'b' | upper('x') | 1 = 1 | (3) | ((-4))
- (-5) | +6
interval '1 day' + current_date | case when true then 1 end | pi() | 1::float
'1.5'::float | 'nan'::float
""".replace("\n", " | ")

TEXTS = [text.strip() for text in CONSTANTS.split(" | ") if text.strip()]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_row_is_what_the_engine_gives(zone: str, tmp_path: Path) -> None:
    planner = engine_datafusion.Planner(spill_directory=tmp_path, in_thread=False)
    context = sql_text.context(query_ids=("q",))
    folded = []

    async def computed(bound: Any) -> pa.RecordBatch:
        query = engine.EngineQuery(
            text=bound.sql,
            functions=bound.functions,
            settings=engine.Settings(timezone=zone),
        )
        run = await planner.start(query)
        (batch,) = [batch async for batch in run.batches()]
        return batch

    for text in TEXTS:
        bound, _ = sql_text.bind(f"select {text} as x", context=context)
        if bound.constants is None:
            continue
        built = constants.row(["X"], bound.types, bound.constants, zone=zone)
        assert built is not None, text
        folded.append(text)
        theirs = asyncio.run(computed(bound))
        assert built.schema.types == theirs.schema.types, text
        ours, expected = built.column(0)[0].as_py(), theirs.column(0)[0].as_py()
        both_nan = isinstance(expected, float) and math.isnan(expected)
        assert both_nan or ours == expected, text
        assert tabletypes.result_type(bound.columns[0], built.schema[0].type) == (
            tabletypes.result_type(bound.columns[0], theirs.schema[0].type)
        )
    assert len(folded) > 70


def test_constants_are_answered_and_described_without_a_child(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        assert isinstance(local.engine, engine.WorkerEngine)
        assert await local.rows("select 1, 'a', null, 2.50 as x") == [(1, "a", None, 2.5)]
        described = await local.run("select 1, current_version()", describe_only=True)
        assert [column.type for column in described.columns] == ["fixed", "text"]
        assert await local.one("select current_version()") == "9.0.0"
        assert local.engine.process_ids == ()
        for text, rows in (
            ("select 1 limit 0", []),
            ("select 1 where false", []),
            ("(select 1) limit 0", []),
            ("select 1 from values (1), (2)", [(1,), (1,)]),
            ("select 1 union all select 1", [(1,), (1,)]),
            ("with a as (select 2) select 1", [(1,)]),
        ):
            assert await local.rows(text) == rows, text
        assert len(local.engine.process_ids) == 1

    local_sql.run_local(tmp_path, work, workers=1)


def test_the_rows_of_a_table_are_counted_from_its_manifests(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int)")
        assert await local.one("select count(*) from t") == 0
        assert local.engine.process_ids == ()  # type: ignore[attr-defined]  # it is a WorkerEngine
        await local.rows("insert into t values (1), (null), (3)")
        at = local.lake.load(local.lake.ident("ns.t")).metadata.current_snapshot_id
        await local.rows("insert into t values (4)")
        (process_id,) = local.engine.process_ids  # type: ignore[attr-defined]
        os.kill(process_id, 9)  # whatever is answered now is answered without it
        with contextlib.suppress(ChildProcessError):
            await asyncio.to_thread(os.waitid, os.P_PID, process_id, os.WEXITED | os.WNOWAIT)
        counts = "select count(*), count(1) as n, count(2) from t as u"
        assert await local.rows(counts) == [(4, 4, 4)]
        outcome = await local.run(counts)
        assert [column.name for column in outcome.columns] == ["COUNT(*)", "N", "COUNT(2)"]
        assert await local.one(f"select count(*) from t at(version => {at})") == 3
        assert local.engine.process_ids == (process_id,)  # type: ignore[attr-defined]
        for text, expected in (
            ("select count(a) from t", 3),
            ("select count(null) from t", 0),
            ("select count(*) from t where a > 1", 2),
            ("select count(*) from t join t u on t.a = u.a", 3),
            ("select count(*) from (select distinct 1 from t)", 1),
            ("select count(*) over () from t limit 1", 4),
            ("select count(distinct 1) from t", 1),
        ):
            assert await local.one(text) == expected, text
        assert await local.rows("select count(*) from t limit 0") == []
        assert len(await local.rows("select count(*) from t group by a")) == 4

        stored = local.lake.storage.objects.list("lake", prefix="ns/t/data/").objects
        await local.lake.storage.objects.delete("lake", stored[0].key)
        with pytest.raises(errors.SqlError, match="does not exist"):
            await local.rows("select count(*) from t")

    local_sql.run_local(tmp_path, work, workers=1)
