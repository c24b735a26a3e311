"""GROUP BY with ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sql import errors, kernels
from sql.dialect import sqltypes
from tests.kit import local_sql, sql_text

CASES = {
    # keys that are conditions
    "select column1 > 1, count(*) from values (1),(2),(3) group by rollup(column1 > 1)"
    " order by 1": [
        (False, 1), (True, 2), (None, 3),
    ],
    "select column1 like 'a%', count(*) from values ('a'),('b') group by cube(column1 like 'a%')"
    " order by 1": [(False, 1), (True, 1), (None, 2)],
    "select column1 > 1, count(*) from values (1),(2) group by grouping sets (column1 > 1, ())"
    " order by 1": [(False, 1), (True, 1), (None, 2)],
    # keys that are repeated: each set is there as often as the words say
    "select column1, count(*) from values (1),(2) group by rollup(column1, column1) order by 1": [
        (1, 1), (1, 1), (2, 1), (2, 1), (None, 2),
    ],
    "select column1, column1 c, count(*) from values (1),(2) group by cube(column1, c)"
    " order by 1": [
        *[(1, 1, 1)] * 3, *[(2, 2, 1)] * 3, (None, None, 2),
    ],
    "select column1, count(*) from values (1),(2) group by grouping sets ((column1, column1), ())"
    " order by 1": [(1, 1), (2, 1), (None, 2)],
    # constants are no keys, but count as elements
    "select column1, count(*) from values (1),(2) group by rollup(column1, 'x') order by 1": [
        (1, 1), (1, 1), (2, 1), (2, 1), (None, 2),
    ],
    "select count(*) from values (1),(2) group by cube('x')": [(2,), (2,)],
    # several keys are one element
    "select column1, column2, column3, count(*) from values (1,1,1),(2,1,1)"
    " group by rollup((column1, column2), column3) order by 1, 2, 3": [
        (1, 1, 1, 1), (1, 1, None, 1), (2, 1, 1, 1), (2, 1, None, 1), (None, None, None, 2),
    ],
    "select column1, column2, count(*) from values (1,1),(2,1)"
    " group by grouping sets (((column1), column2), ()) order by 1": [
        (1, 1, 1), (2, 1, 1), (None, None, 2),
    ],
    # ALL: what is selected, but for aggregates, window functions and constants
    "select column1, 1, count(*), sum(count(*)) over () from values (1),(1),(2)"
    " group by all order by 1": [(1, 1, 2, 3), (2, 1, 1, 3)],
    "select column1, row_number() over (order by column1) from values (1),(1),(2)"
    " group by all order by 1": [(1, 1), (2, 2)],
    "select 'x', count(*) from values (1) where column1 > 1 group by all": [("x", 0)],
    "select 'x', count(*) from values (1) where column1 > 1 group by 'x'": [],
    # no key: one group, also of no rows
    "select count(*) from values (1),(2) group by ()": [(2,)],
    "select 7 from values (1),(2) group by (), ()": [(7,)],
    "select count(*), max(column1) from values (1) where column1 > 1 group by ()": [(0, None)],
    "select column1, count(*) from values (1),(2) group by (), column1 order by 1": [
        (1, 1), (2, 1),
    ],
}  # fmt: skip


def test_groups_are_those_of_every_set(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text, expected in CASES.items():
            assert await local.rows(text) == expected, text

    local_sql.run_local(tmp_path, work)


def test_a_key_that_is_never_null_is_null_in_sets_without_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a int not null)")
        await local.rows("insert into t values (1), (2)")
        for sets in ("rollup(a)", "cube(a)", "grouping sets (a, ())"):
            text = f"select a, a is null, coalesce(a, 9), count(*) from t group by {sets}"
            rows = await local.rows(f"{text} having a is null or a > 1 order by 1")
            assert rows == [(2, False, 2, 1), (None, True, 9, 2)], sets
        rows = await local.rows("select a, a is null, count(*) from t group by a order by 1")
        assert rows == [(1, False, 1), (2, False, 1)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "keys",
    ["column1, count(*)", "row_number() over (order by column1)", "1", "rollup(count(*))"],
)
def test_an_aggregate_or_a_window_function_is_no_key(tmp_path: Path, keys: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"select sum(column1) from values (1) group by {keys}")
        assert caught.value.code == "002036"

    local_sql.run_local(tmp_path, work)


def test_sets_that_are_written_out_are_bounded(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        keys = ", ".join(["column1"] * 13)
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"select count(*) from values (1) group by cube({keys})")
        assert caught.value.code == "000002"
        rows = await local.rows(f"select count(*) from values (1) group by rollup({keys})")
        assert rows == [(1,)] * 14

    local_sql.run_local(tmp_path, work)


PAIR = pa.struct([("f", pa.float64()), ("n", pa.int64())])
ZEROS = {
    "t": pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5]),
            "z": pa.array([0.0, -0.0, 1.5, None, 1.5]),
            "s": pa.array(
                [
                    {"f": 0.0, "n": 1},
                    {"f": -0.0, "n": 1},
                    {"f": 1.5, "n": 1},
                    None,
                    {"f": None, "n": 1},
                ],
                PAIR,
            ),
            "l": pa.array(
                [[{"f": -0.0, "n": 1}, None], [{"f": 0.0, "n": 1}, None], [], None, [None]],
                pa.list_(pa.field("element", PAIR)),
            ),
        }
    )
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select max(id), count(*) from t group by s order by 1", [(2, 2), (3, 1), (4, 1), (5, 1)]),
        ("select max(id), count(*) from t group by l order by 1", [(2, 2), (3, 1), (4, 1), (5, 1)]),
        ("select s:f, max(id) from t where id < 4 group by s order by 2", [(0.0, 2), (1.5, 3)]),
        ("select count(*) from (select distinct s, id > 9 from t)", [(4,)]),
        ("select count(distinct s), count(distinct l), count(distinct z, 1) from t", [(3, 3, 2)]),
        ("select count(*) from (select s from t union select s from t)", [(4,)]),
        ("select s from t where id = 1 except select s from t where id = 2", []),
        ("select id from t where s in (select s from t where id = 2) order by 1", [(1,), (2,)]),
        (
            "select count(*) over (partition by s) from t order by id",
            [(2,), (2,), (1,), (1,), (1,)],
        ),
        (
            "select count(*) over (partition by z) from t order by id",
            [(2,), (2,), (2,), (1,), (2,)],
        ),
        (
            "select max(id), s:f, count(*) from t where id < 3 group by rollup(s) order by 2",
            [(2, 0.0, 2), (2, None, 2)],
        ),
    ],
)
def test_both_zeros_are_one_key_as_they_are_equal(text: str, expected: list[Any]) -> None:
    assert sql_text.answer(text, ZEROS).rows == expected


@pytest.mark.parametrize("start", [0, 1, 2])
def test_structured_values_have_one_zero_wherever_an_array_begins(start: int) -> None:
    doubles = pa.map_(pa.string(), pa.float64())
    arrow_type = pa.struct([("m", doubles), ("l", pa.list_(pa.field("element", pa.float64())))])
    sql_type = sqltypes.structured(
        "struct",
        {
            "m": sqltypes.structured("map", {"key": sqltypes.TEXT, "value": sqltypes.REAL}),
            "l": sqltypes.structured("list", {"element": sqltypes.REAL}),
        },
    )
    rows: list[Any] = [
        {"m": [("a", -0.0)], "l": [0.0, -0.0, None]},
        None,
        {"m": None, "l": []},
        {"m": [("b", -0.0), ("c", 2.0)], "l": [-0.0]},
    ]
    function = kernels.kernel(f"_one_zero_{sqltypes.encoded(sql_type)}").function
    normal = function(pa.array(rows, arrow_type).slice(start))
    normal.validate(full=True)
    assert normal.to_pylist() == rows[start:]
    last = normal[-1].as_py()
    assert [math.copysign(1, number) for number in [last["m"][0][1], *last["l"]]] == [1.0, 1.0]
