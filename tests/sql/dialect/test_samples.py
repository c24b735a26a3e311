"""SAMPLE, as queries over a small catalog."""

from __future__ import annotations

from pathlib import Path

from tests.kit import local_sql
from tests.sql.test_answers import answers

TABLE = "create table t (a int, b varchar, at timestamp_ltz, bytes binary, v variant)"
ROWS = (
    "insert into t select seq4() % 500, 'x', '2020-01-01'::timestamp_ltz, null, null "
    "from table(generator(rowcount => 1000))"
)


def test_a_sample_of_a_number_of_rows_has_so_many_of_all_rows(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select count(*) from t sample (7 rows)": (7,),
            "select count(*) from t tablesample bernoulli (5000 rows)": (1000,),
            "select count(*) from (select a from t where a < 4) sample (3 rows)": (3,),
            "select count(*) from (values (1), (2), (3)) sample row (2 rows)": (2,),
            # No condition goes into the sample: of seven rows at most seven have a small number.
            "select count(*) > 7 from t sample (7 rows) where a < 400": (False,),
            "select count(x.a) from t as x sample (5 rows) join t y on x.a = y.a": (10,),
            "select count(lake.ns.t.b) from t sample (0 rows)": (0,),
            "with s as (select a from t sample (50 rows)) select count(*) from s x"
            " where a not in (select a from s)": (0,),
        },
        TABLE,
        ROWS,
    )


def test_a_sample_of_a_share_keeps_each_row_with_that_probability(tmp_path: Path) -> None:
    # Of 1,000 rows 500 are expected; fewer than 350 or more than 650 are rarer than 1 in 10^20.
    answers(
        tmp_path,
        {
            "select count(*) from t sample (100)": (1000,),
            "select count(*) from t sample (0)": (0,),
            "select count(*) between 350 and 650 from t sample (50)": (True,),
            "select count(*) between 350 and 650 from t tablesample system (50.0)": (True,),
            "select count(*) between 350 and 650 from t sample row (5e1)": (True,),
            "select count(*) between 120 and 380 from t sample block (50) where a < 250": (True,),
            "select count(distinct a) > 200 from t sample (50)": (True,),
        },
        TABLE,
        ROWS,
    )


def test_a_sample_with_a_seed_is_the_same_each_time(tmp_path: Path) -> None:
    text = "select array_agg(a) within group (order by a) from t sample (50) {}"

    async def work(local: local_sql.LocalSql) -> None:
        await local.run(TABLE)
        await local.run(ROWS)
        await local.run("alter session set timezone = 'Asia/Tokyo'")
        first = await local.one(text.format("seed (1)"))
        await local.run("alter session set timezone = 'UTC'")
        assert await local.one(text.format("repeatable (1)")) == first
        assert await local.one(text.format("seed (2)")) != first
        count = await local.one("select count(*) from t sample (50) seed (1)")
        assert 350 <= count <= 650
        # Equal rows are chosen apart.
        once = "select count(*) from (select a from t sample (50) seed (1) group by a {})"
        assert await local.one(once.format("having count(*) = 1")) > 100

    local_sql.run_local(tmp_path, work)


def test_a_sample_of_another_form_is_refused(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select * from t sample (101)": "001008",
            "select * from t sample ('nan')": "001008",
            "select count(*) from t sample ('1e1' rows)": (0,),
            "select * from t sample (-1)": "001003",
            "select * from t sample (1.5 rows)": "001008",
            "select * from t sample (1000001 rows)": "001008",
            "select * from t sample (a)": "001003",
            "select * from t sample (10) seed (1.5)": "001008",
            "select * from t sample (10 rows) seed (1)": "000002",
            "select * from t sample system (10 rows)": "000002",
            "select * from (select * from t) sample (10) seed (1)": "000002",
            "select * from table(generator(rowcount => 3)) sample (10)": "000002",
            "select * from (t x join t y on x.a = y.a) sample (10)": "000002",
        },
        TABLE,
    )
