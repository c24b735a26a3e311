"""One plan as the text of two engines: over the same rows, Spark gives the engine's answers."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest

from sql import errors
from sql.plan import code, emit_spark, relations
from tests.kit import sql_text

DATE, STAMP, D = datetime.date, datetime.datetime, decimal.Decimal

T = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, 6], pa.int64()),
        "k": pa.array([1, 1, 2, None, 2, 1], pa.int64()),
        "n": pa.array(
            [D("1.25"), None, D("-7.50"), D("0.00"), D("100000.01"), D("1.25")],
            pa.decimal128(10, 2),
        ),
        "v": pa.array(["ab", "", None, "it's \\ %", "Ümlaut", "ab"]),
        "f": pa.array([1.5, -0.5, None, 1e10, 0.0, 2.5]),
        "b": pa.array([True, False, None, True, False, True]),
        "d": pa.array([DATE(2024, 2, 29), None, DATE(1999, 12, 31), DATE(2024, 1, 1)] + [None] * 2),
        "ts": pa.array(
            [STAMP(2024, 2, 29, 12, 30), None, STAMP(1999, 12, 31, 23, 59, 59)] + [None] * 3,
            pa.timestamp("us"),
        ),
    }
)
U = pa.table(
    {
        "k": pa.array([1, 2, 2, 3, None], pa.int64()),
        "w": pa.array(["one", "two", "deux", "three", "none"]),
    }
)
TABLES = {"t": T, "u": U}

SMOKE_EVERY = 12
"""Each twelfth plan is in `make test`, all are in `make test-all`."""
PLANS = [
    # Expressions
    "select 1, 'x', null, true, 1.5, 1e3, -7",
    "select id + 1, id - 2 * id, -id, id % 2 from t",
    "select n + 1, n - 0.125, n * 2.5, -n, n * n from t",
    "select id / 3, 1 / 7, id / 0.5 from t",
    "select id / nullif(k - 1, 0) from t",
    "select n / 3, n / -7, -n / 0.03, n / id, id / n from t where n <> 0",
    "select avg(n), avg(id), sum(n) / count(*), sum(n) / -sum(id) from t",
    "select x / y from (values (1, 3), (2, 3), (-2, 3), (2, -3), (1, 8), (5, -8), (0, 9),"
    " (999999999999, 7), (1, 999999937)) as r(x, y)",
    "select x / y from (values (0.00000005, 1), (-0.0000005, 1), (0.124999999995, 1),"
    " (0.0000004999, 1.0), (1.000001499999, 3), (null, 2)) as r(x, y)",
    "select sum(n * 1.000000000001 * 0.0000000001) from t",
    "select round(n, 1), round(n), abs(n), sign(n) from t",
    "select f + 1, f * n, f - id from t",
    "select v || '!', upper(v), lower(v), length(v), reverse(v) from t",
    "select substr(v, 2), substr(v, 1, 2), left(v, 1), right(v, 2) from t",
    "select replace(v, 'a', 'x'), lpad(v, 4, '-'), rpad(v, 4, '-') from t",
    "select concat(v, '-', v), v || id || n, ascii(v) from t",
    "select v like 'a%', v like '%\\\\ %', v ilike 'AB', position('b', v) from t",
    "select v = 'it''s \\\\ %', v in ('ab', ''), v not in ('ab'), v between 'a' and 'b' from t",
    "select case when n > 0 then 'plus' when n < 0 then 'minus' else 'none' end from t",
    "select case k when 1 then 'one' when 2 then 'two' end, decode(k, null, 0, 1, 10) from t",
    "select coalesce(n, 0), nvl(v, '-'), nvl2(n, 1, 2), iff(b, 1, 0), zeroifnull(n) from t",
    "select nullif(k, 1), equal_null(k, null), k is null, n is not null from t",
    "select greatest(id, k), least(n, 1.5), greatest(k, 2, id) from t",
    "select b and k = 1, b or n > 0, not b, b = true, boolxor(b, false) from t",
    "select id::varchar, n::varchar, n::int, v::varchar(3), b::int, b::varchar from t",
    "select d is null, d = '2024-02-29', d < '2020-01-01'::date from t",
    "select d + interval '1 month', d - interval '90 days', d + interval '1 year, 3 days' from t",
    "select dateadd(month, 1, d), dateadd(day, -1, d) from t",
    "select d + 1, d - 30, d - '2024-01-01'::date, datediff(day, d, '2024-03-01') from t",
    "select ts + interval '1 month, 2 hours', ts - interval '3 seconds' from t",
    "select year(d), quarter(d), month(d), day(d), hour(ts), minute(ts), extract(year from ts)"
    " from t",
    "select v not like 'a%', v not ilike 'AB', not v like '%b' from t",
    "select ts > '2020-01-01', ts = '2024-02-29 12:30:00'::timestamp, ts::date from t",
    "select id in (1, 2, null), k not in (3) from t",
    # One SELECT
    "select * from t",
    "select id from t where n > 0 and v is not null",
    "select id, n from t where k = 1 or b order by n desc nulls last, id limit 3",
    "select id from t order by id desc limit 2 offset 1",
    "select distinct k, b from t",
    "select k, count(*), count(n), sum(n), min(v), max(d) from t group by k",
    "select k, avg(id), sum(f), min(n) from t group by k",
    "select count(*), count(distinct k), sum(id) from t where id < 0",
    "select k, sum(n) as total from t group by k having sum(n) > 0 or total is null",
    "select b, k, count(*) from t group by rollup (b, k)",
    "select b, k, sum(id) from t group by cube (b, k)",
    "select b, k, max(n) from t group by grouping sets ((b), (k), ())",
    "select upper(v) as u, count(*) from t group by u",
    "select stddev(id), variance(id), stddev_pop(id), var_pop(id) from t",
    # Windows
    "select id, row_number() over (order by n nulls first, id) from t",
    "select id, rank() over (partition by k order by n), dense_rank() over (order by k) from t",
    "select id, sum(n) over (partition by k order by id) from t",
    "select id, lag(n) over (order by id), lead(v, 1, 'end') over (order by id) from t",
    "select id, max(n) over (order by id rows between 1 preceding and 1 following) from t",
    "select id, k from t qualify row_number() over (partition by k order by id) = 1 order by id",
    # FROM
    "select t.id, w from t join u on t.k = u.k",
    "select t.id, w from t left join u using (k)",
    "select t.id, w from t right join u on t.k = u.k and t.id > 2",
    "select t.id, w from t full join u on t.k = u.k",
    "select count(*) from t, u",
    "select a.x, c.y from (select k as x, sum(n) as y from t group by k) as c"
    " join (select distinct k as x from u) as a on a.x = c.x",
    "select x, y from (values (1, 'a'), (2, null), (null, 'c')) as r(x, y) where x is not null",
    "select seq4() from table(generator(rowcount => 4))",
    # Queries of queries
    "select id from t where k in (select k from u where w like 't%')",
    "select id from t where exists (select 1 from u where u.k = t.k)",
    "select id, (select max(w) from u where u.k = t.k) from t",
    "select k from t union select k from u",
    "select k, 1.5 from t union all select k, 2 from u order by 1 nulls last, 2 limit 4",
    "select k from t except select k from u",
    "select k from t intersect select k from u",
    "with a as (select k, sum(n) as s from t group by k), b (x) as (select max(s) from a)"
    " select a.k, b.x from a, b",
    "(select id from t order by id limit 3) order by 1 desc limit 1",
]


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    """A Spark session of its own, with the tables as views."""
    own = spark.session.newSession()
    own.conf.set("spark.sql.caseSensitive", "true")
    own.conf.set("spark.sql.decimalOperations.allowPrecisionLoss", "false")
    own.conf.set("spark.sql.variable.substitute", "false")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    for name, table in TABLES.items():
        for number in range(3):
            own.createDataFrame(table).createOrReplaceTempView(f"`{number}:{name}`")
    return own


def cell(value: Any) -> Any:
    if isinstance(value, bool | None):
        return str(value)
    if isinstance(value, int | decimal.Decimal):
        return f"{decimal.Decimal(value).normalize():f}"
    if isinstance(value, float):
        return f"{value:.12g}" if math.isfinite(value) else str(value)
    return value if isinstance(value, str) else str(value)


def cells(rows: Any, *, ordered: bool) -> list[tuple[str, ...]]:
    compared = [tuple(map(cell, row)) for row in rows]
    return compared if ordered else sorted(compared)


def plan(text: str) -> relations.Rel:
    return sql_text.plan(text, TABLES)


@pytest.mark.spark
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, marks=[pytest.mark.smoke] * (number % SMOKE_EVERY == 0))
        for number, text in enumerate(PLANS)
    ],
)
def test_a_plan_has_the_same_rows_on_both_engines(session: Any, text: str) -> None:
    ordered = text.startswith("(") or " order by n desc" in text or text.endswith("order by id")
    ours = sql_text.answer(text, TABLES).rows
    theirs = session.sql(emit_spark.text(plan(text))).collect()
    assert cells(theirs, ordered=ordered) == cells(ours, ordered=ordered)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("select initcap(v) from t", "_initcap"),
        ("select v::number from t", "_to_fixed"),
        ("select datediff(second, ts, ts) from t", "in Spark SQL"),
        ("select 0.0000000000001 / n from t", "more than 12 digits"),
        ("select seq4() from t", "numbers of rows without an order"),
        ("select date_part(week, d) from t", "part of a date"),
        ("select listagg(v) within group (order by v) from t", "string_agg"),
        (
            "with recursive r as (select 1 as x union all select x + 1 from r) select * from r",
            "WITH",
        ),
        ("select value from t, lateral flatten(input => parse_json(v))", "get_field"),
        ("select k from t qualify rank() over (order by id) = 1 order by n + 1", "QUALIFY"),
    ],
)
def test_what_spark_cannot_express_is_refused_by_its_name(text: str, name: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        emit_spark.text(plan(text))
    assert caught.value.code == "000002"
    assert name in caught.value.message
    assert "Spark" in caught.value.message


def test_names_and_texts_are_quoted_as_spark_quotes_them() -> None:
    column = code.ColumnUse(relation="t`1", name="a")
    item = relations.ProjectItem(value=code.infix(column, "||", "it's \\"), name='say "x"')
    query = relations.Project(
        source=relations.TableScan(relation="0:T", alias="t`1"), items=(item,)
    )
    assert emit_spark.text(query) == (
        "SELECT (`t``1`.`a` || 'it\\'s \\\\') AS `say \"x\"` FROM `0:T` AS `t``1`"
    )


def test_qualify_is_a_condition_over_a_query() -> None:
    written = emit_spark.text(plan("select id from t qualify row_number() over (order by id) = 1"))
    assert "QUALIFY" not in written
    assert written.startswith("SELECT `ID` FROM (SELECT `t#1`.`id` AS `ID`, (CAST(row_number()")
    assert written.endswith("AS `qualifies` WHERE `qualifies`.`qualifies`")
