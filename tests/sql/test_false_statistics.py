"""Manifests and summaries that state bounds and numbers of rows which their files do not keep.

The expected values are those of Python's integers, which do not overflow.
"""

from __future__ import annotations

import decimal
import struct
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from catalog import manifests
from sql import errors
from tests.kit import local_sql
from tests.kit.tablefiles import BASE, Maker, field, make

HUGE = 9_000_000_000_000_000_000
NUMBERS = [HUGE, HUGE - 1, -HUGE, None, HUGE]
SUM = sum(number for number in NUMBERS if number is not None)
COLUMNS = {1: ("id", pa.int64()), 2: ("name", pa.string()), 3: ("n", pa.int64())}
FIELDS = [*BASE[:2], field(3, "n", "long")]

QUERIES: dict[str, list[tuple[Any, ...]]] = {
    "select sum(n) from t": [(SUM,)],
    "select avg(n) from t": [(decimal.Decimal(SUM) / 4,)],
    "select n + n from t order by id": [(None if n is None else n + n,) for n in NUMBERS],
    "select 3 - n from t order by id": [(None if n is None else 3 - n,) for n in NUMBERS],
    "select n * n from t where id = 0": [(HUGE * HUGE,)],
    "select coalesce(n, 0) * 2 from t order by id": [((n or 0) * 2,) for n in NUMBERS],
    "select -(n - 1) - 9 from t where id = 2": [(HUGE - 8,)],
    "select abs(n) + 7000000000000000000 from t where id = 2": [(HUGE + 7 * 10**18,)],
    "select sum(distinct n) from t": [(HUGE - 1,)],
    "select sum(n) over (order by id) from t order by id": [
        (sum(n or 0 for n in NUMBERS[: at + 1]),) for at in range(len(NUMBERS))
    ],
    "select name, sum(n) from t group by cube (name) order by name": [
        ("x", SUM - HUGE),
        ("y", HUGE),
        (None, SUM),
    ],
    "select m + 1 from (select max(n) m from t)": [(HUGE + 1,)],
    "select (select sum(i.n) from t i where i.name = o.name) from t o where id = 4": [(HUGE,)],
    "select sum(n * 1.5) from t": [(decimal.Decimal(SUM) * 3 / 2,)],
    "select sum(n) from (select n from t union all select 1)": [(SUM + 1,)],
}


async def make_table(local: local_sql.LocalSql) -> Maker:
    """Make a table of NUMBERS whose manifest says that they are 0 and 1."""
    maker = await make(local, fields=FIELDS)
    rows = [(at, "y" if at == 4 else "x", number) for at, number in enumerate(NUMBERS)]
    await commit(maker, rows, {3: (0, 1)})
    return maker


async def commit(
    maker: Maker, rows: list[tuple[Any, ...]], stated: dict[int, tuple[int, int]], **more: Any
) -> None:
    file = await maker.data_file(COLUMNS, rows)
    if stated:
        more["metrics"] = manifests.Metrics(
            lower_bounds={each: struct.pack("<q", low) for each, (low, _) in stated.items()},
            upper_bounds={each: struct.pack("<q", high) for each, (_, high) in stated.items()},
        )
    await maker.commit(msgspec.structs.replace(file, **more))


def test_arithmetic_does_not_rely_on_false_bounds(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text, expected in QUERIES.items():
            await make_table(local)
            assert await local.rows(text) == expected, text
            assert await local.rows(text) == expected, text  # and not when it knows of them
            await local.run("drop table t")

    local_sql.run_local(tmp_path, work)


def test_a_sum_does_not_rely_on_a_false_number_of_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=FIELDS)
        rows = [(at, "x", HUGE) for at in range(3)]
        await commit(maker, rows, {}, record_count=1)
        assert await local.rows("select sum(n) from t") == [(3 * HUGE,)]
        assert await local.rows("select name, avg(n) from t group by name") == [("x", HUGE)]

    local_sql.run_local(tmp_path, work)


def test_a_change_does_not_rely_on_false_bounds(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await make_table(local)
        await local.run("create table sums as select sum(n) s, name from t group by name")
        assert await local.rows("select s from sums where name = 'y'") == [(HUGE,)]
        await make_table_again(local)
        with pytest.raises(errors.SqlError) as caught:
            await local.run("update t set n = n + n")
        assert caught.value.code == "100039"  # the column has no room for 1.8e19
        assert await local.rows("select max(n) from t") == [(HUGE,)]
        await local.run("update t set n = n - 9000000000000000000 where id = 0")
        assert await local.rows("select n from t where id = 0") == [(0,)]

    async def make_table_again(local: local_sql.LocalSql) -> None:
        await local.run("drop table t")
        await make_table(local)

    local_sql.run_local(tmp_path, work)


def test_a_cast_does_not_rely_on_false_bounds(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await make_table(local)
        with pytest.raises(errors.SqlError) as caught:
            await local.rows("select cast(n as number(2)), n + 1 from t where id = 0")
        assert caught.value.code == "100039"

    local_sql.run_local(tmp_path, work)


def test_rows_that_were_sent_already_are_followed_by_an_error(tmp_path: Path) -> None:
    """Then the next run has the right answer."""

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=FIELDS)
        numbers = [1] * 200_000 + [HUGE] * 2
        await commit(maker, [(at, "x", n) for at, n in enumerate(numbers)], {3: (0, 1)})
        outcome = await local.run("select n + n from t")
        with pytest.raises(errors.SqlError) as caught:
            await local_sql.rows_of(outcome)
        assert caught.value.code == "091366"
        rows = await local.rows("select n + n from t")
        assert (rows.count((2,)), rows.count((2 * HUGE,))) == (200_000, 2)

    local_sql.run_local(tmp_path, work)


def test_true_bounds_keep_arithmetic_in_64_bits(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=FIELDS)
        await commit(maker, [(1, "x", 5), (2, "x", None), (3, "y", 7)], {})
        outcome = await local.run("select sum(n), sum(n + n), max(n) * 2 from t")
        assert outcome.batches is not None
        (batch,) = [each async for each in outcome.batches]
        assert batch.schema.types == [pa.int64()] * 3
        assert [column[0].as_py() for column in batch.columns] == [12, 24, 14]

    local_sql.run_local(tmp_path, work)


def test_a_file_with_wider_numbers_than_its_column_is_refused(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=[BASE[0], field(2, "v", "int")])
        wide = {1: ("id", pa.int64()), 2: ("v", pa.int64())}
        file = await maker.data_file(wide, [(1, 5)])
        await maker.commit(file)
        with pytest.raises(errors.SqlError) as caught:
            await local.rows("select v from t")
        assert caught.value.code == "091364"
        assert "v" in caught.value.message

    local_sql.run_local(tmp_path, work)
