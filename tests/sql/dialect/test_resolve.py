"""Queries through dialect and engine: names, stars, joins, grouping, windows, set operations."""

from __future__ import annotations

import datetime
import itertools
import re
import zoneinfo
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from sql import bindings, engine, errors
from sql.dialect import (
    expressions,
    formats,
    operations,
    parse,
    references,
    resolve,
    shapes,
    sqltypes,
)
from tests.kit import sql_text

TABLES = {
    "t": pa.table(
        {
            "id": pa.array([1, 2, 3, 4], pa.int64()),
            "grp": pa.array(["a", "a", "b", None], pa.string()),
            "v": pa.array([10, 20, 30, None], pa.int64()),
            "Mixed": pa.array([1.5, 2.5, 3.5, 4.5], pa.float64()),
            "d": pa.array([datetime.date(2024, 1, day) for day in (1, 2, 3, 4)], pa.date32()),
        }
    ),
    "u": pa.table(
        {
            "id": pa.array([2, 3, 5], pa.int64()),
            "name": pa.array(["two", "three", "five"], pa.string()),
        }
    ),
    "p": pa.table(
        {
            "id": pa.array([1, 2, 2, None, 3], pa.int64()),
            "w": pa.array([None, 20, 30, 40, 50], pa.int64()),
        }
    ),
    "wide": pa.table({"n": pa.array([2**62], pa.int64())}),
}


def rows(text: str, **more: Any) -> list[tuple[Any, ...]]:
    return sql_text.answer(text, TABLES, **more).rows


def refused(text: str, **more: Any) -> errors.SqlError:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(text, TABLES, **more)
    return caught.value


CASES: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("select id from t where id > 2 order by id", [(3,), (4,)]),
    ("select T.ID, \"v\", \"V\" from t where id = 1", [(1, 10, 10)]),
    ("select lake.ns.t.id from t where ns.t.id = 1", [(1,)]),
    ("select * from u order by 1", [(2, "two"), (3, "three"), (5, "five")]),
    ("select u.*, t.id from t join u on t.id = u.id order by 1", [(2, "two", 2), (3, "three", 3)]),
    ("select * exclude (v, d) from t where id = 1", [(1, "a", 1.5)]),
    ("select * exclude id from u where id = 2", [("two",)]),
    ("select * rename (name as label) from u where id = 2", [(2, "two")]),
    ("select * replace (id * 10 as id) from u where id = 2", [(20, "two")]),
    ("select id, id from u where id = 2", [(2, 2)]),
    ("select count(*), count(*), count(v), count(distinct grp) from t", [(4, 4, 3, 2)]),
    ("select count(distinct grp, v) from t", [(3,)]),
    ("select grp, sum(v), avg(v) from t group by grp order by grp",
     [("a", 30, Decimal(15)), ("b", 30, Decimal(30)), (None, None, None)]),
    ("select grp, sum(v) from t group by 1 order by 2 desc, 1",
     [(None, None), ("a", 30), ("b", 30)]),
    ("select upper(grp) as g, count(*) from t group by g order by g",
     [("A", 2), ("B", 1), (None, 1)]),
    ("select grp, count(*) c from t group by all order by c desc, grp",
     [("a", 2), ("b", 1), (None, 1)]),
    ("select 'x', count(*) from t group by 1", [("x", 4)]),
    ("select grp from t group by grp having sum(v) >= 30 and grp = 'a'", [("a",)]),
    ("select grp, count(*) n from t group by grp having n > 1", [("a", 2)]),
    ("select sum(v) from t where false", [(None,)]),
    ("select v + 1 as x, x * 2 as y from t where y > 40 order by id", [(21, 42), (31, 62)]),
    ("select id as v from t order by v desc limit 2", [(4,), (3,)]),
    ("select v from t order by v", [(10,), (20,), (30,), (None,)]),
    ("select v from t order by v desc", [(None,), (30,), (20,), (10,)]),
    ("select v from t order by v nulls first limit 1", [(None,)]),
    ("select id from t order by -id limit 1 offset 1", [(3,)]),
    ("select top 2 id from t order by id", [(1,), (2,)]),
    ("select id from t order by id fetch first 2 rows only", [(1,), (2,)]),
    ("select id from t order by id fetch first row only", [(1,)]),
    ("select id from t order by id offset 1 row fetch next row only", [(2,)]),
    ("select $1, u.$2 from u where $1 = 2", [(2, "two")]),
    ("select t.$1, u.$1 from t join u on t.id = u.id order by 1", [(2, 2), (3, 3)]),
    ("select distinct grp from t order by grp", [("a",), ("b",), (None,)]),
    ("select id from t qualify row_number() over (partition by grp order by id desc) = 1 "
     "order by id", [(2,), (3,), (4,)]),
    ("select id, row_number() over (order by id desc) r from t qualify r = 1", [(4, 1)]),
    ("select row_number() over (order by id desc) r from t qualify id = 3", [(2,)]),
    ("select sum(v) over () from t qualify id > 2 and v is null", [(60,)]),
    ("select id from (select id, count(*) over () n from t qualify v < 30) order by id",
     [(1,), (2,)]),
    ("select id, lag(v) over (order by id), lead(id, 1, 0) over (order by id) from t order by id",
     [(1, None, 2), (2, 10, 3), (3, 20, 4), (4, 30, 0)]),
    ("select id, last_value(id) over (order by id) from t order by id limit 1", [(1, 4)]),
    ("select id, sum(v) over (order by id rows between 1 preceding and current row) from t "
     "order by id", [(1, 10), (2, 30), (3, 50), (4, 30)]),
    ("select first_value(v) ignore nulls over (order by id desc) from t limit 1", [(30,)]),
    ("select ntile(2) over (order by id) from t order by id", [(1,), (1,), (2,), (2,)]),
    ("select ratio_to_report(v) over () from t where id < 3 order by id",
     [(Decimal("0.333333"),), (Decimal("0.666667"),)]),
    ("select t.id, u.name from t left join u on t.id = u.id order by t.id",
     [(1, None), (2, "two"), (3, "three"), (4, None)]),
    ("select u.id from t right join u on t.id = u.id where t.id is null", [(5,)]),
    ("select coalesce(t.id, u.id) from t full outer join u on t.id = u.id order by 1",
     [(1,), (2,), (3,), (4,), (5,)]),
    ("select * from t join u using (id) where v > 20",
     [(3, "b", 30, 3.5, datetime.date(2024, 1, 3), "three")]),
    ("select id, name from t natural join u order by id", [(2, "two"), (3, "three")]),
    ("select id from t full join u using (id) order by id", [(1,), (2,), (3,), (4,), (5,)]),
    ("select count(*) from t, u", [(12,)]),
    ("select count(*) from t cross join u", [(12,)]),
    ("select a.id from t a join t b on a.id = b.id + 1 order by 1", [(2,), (3,), (4,)]),
    ("select id from t where id in (select id from u) order by id", [(2,), (3,)]),
    ("select id from t where id not in (select id from u) order by id", [(1,), (4,)]),
    ("select id from t where exists (select 1 from u where u.id = t.id) order by id",
     [(2,), (3,)]),
    ("select id from t where not exists (select 1 from u where u.id = t.id) order by id",
     [(1,), (4,)]),
    ("select id, exists (select 1 from u where u.id = t.id) from t order by id",
     [(1, False), (2, True), (3, True), (4, False)]),
    ("select (select max(id) from u)", [(5,)]),
    ("select id, (select max(name) from u where u.id = t.id) from t order by id limit 2",
     [(1, None), (2, "two")]),
    ("select x.a from (select id as a from t) x where x.a = 2", [(2,)]),
    ("select y from (select 1, 2) as q(x, y)", [(2,)]),
    ("with a as (select id from t), b as (select id + 1 as n from a) select max(n) from b",
     [(5,)]),
    ("with a(k) as (select id from t) select k from a where k = 2", [(2,)]),
    ("with t as (select 99 as id) select id from t", [(99,)]),
    ("with recursive n as (select 1 as i union all select i + 1 from n where i < 4) "
     "select sum(i) from n", [(10,)]),
    ("select 1 union select 1", [(1,)]),
    ("select 1 as a union all select 2.5 order by a", [(Decimal("1.0"),), (Decimal("2.5"),)]),
    ("select id from t except select id from u order by 1", [(1,), (4,)]),
    ("select id from t minus select id from u order by 1", [(1,), (4,)]),
    ("select id from t intersect select id from u order by id", [(2,), (3,)]),
    ("(select id from t order by id limit 1) union all (select id from u order by id limit 1) "
     "order by 1",
     [(1,), (2,)]),
    ("select * from values (1, 'a'), (2.5, null)", [(Decimal("1.0"), "a"), (Decimal("2.5"), None)]),
    ("select column2 from values (1, 'a')", [("a",)]),
    ("select to_char(column1) from values (150.00), (-1.50)", [("150.0",), ("-1.5",)]),
    ("select to_char(12345678901234567890123456789012345.60)",
     [("12345678901234567890123456789012345.60",)]),
    ("select to_char(column1) from values (12345678901234567890123456789012345.60)",
     [("12345678901234567890123456789012345.6",)]),
    ("select least(a, b) from (select 1 as a, 2 as b union all select 3, null) order by 1",
     [(1,), (None,)]),
    ("select null union all select null", [(None,), (None,)]),
    ("select v.x from (values (1), (2)) as v(x) where x > 1", [(2,)]),
    ("select grouping(grp), grp, count(*) from t group by rollup(grp) order by 1, 2",
     [(0, "a", 2), (0, "b", 1), (0, None, 1), (1, None, 4)]),
    ("select listagg(grp, '-') within group (order by id) from t", [("a-a-b",)]),
    ("select listagg(distinct grp) within group (order by grp) from t", [("ab",)]),
    ("select listagg(grp) from t where false", [("",)]),
    ("select count_if(v > 15), booland_agg(id > 0), boolor_agg(id > 3) from t",
     [(2, True, True)]),
    ("select median(v), min(grp), max(d) from t",
     [(Decimal(20), "a", datetime.date(2024, 1, 4))]),
    ("select max_by(grp, id), min_by(id, v) from t where id < 4", [("b", 1)]),
    ("select sum(v), sum(v::float), sum(v::number(12,2)) from t", [(60, 60.0, Decimal(60))]),
    ("select 1 from dual", [(1,)]),
    ("select \"Mixed\", mixed from t where id = 1", [(1.5, 1.5)]),
    ("select id from t where d = '2024-01-02'", [(2,)]),
    ("select id from t where '3' = id", [(3,)]),
    ("select id from t where id in ((select id from u order by id) limit 1)", [(2,)]),
    ("select id from t where id in ((select id from u) order by id desc limit 1)", []),
    ("select id from t where id in ((select id from u order by id) offset 1)", [(3,)]),
    ("select id from t where (id, v) in (select id, v from t) order by 1", [(1,), (2,), (3,)]),
    ("select (select id from u where id = 99) is null, nvl((select id from u where id = 99), 0)",
     [(True, 0)]),
    ("select null in (select null), 1 in (select null)", [(None, None)]),
    ("select id, exists (select 1 from u where u.id = t.id order by u.id) from t order by 1",
     [(1, False), (2, True), (3, True), (4, False)]),
    ("select t.id, u.id, u.* from t right join u using (id) order by 2",
     [(2, 2, 2, "two"), (3, 3, 3, "three"), (None, 5, 5, "five")]),
    ("select id, t.grp, u.* from t left join u using (id) order by 1",
     [(1, "a", None, None), (2, "a", 2, "two"), (3, "b", 3, "three"), (4, None, None, None)]),
    ("select id, grp from t order by all desc limit 1", [(4, None)]),
    ("with ns as (select 7 a), u as (select 8 a) select u.id, ns.a, (select a from u) "
     "from ns.u u, ns where u.id = 2", [(2, 7, 8)]),
    ('select ab, x."Ab", x.AB from (select 1 as "Ab") x', [(1, 1, 1)]),
    ('select ab from (select 1 as "Ab", 2 as ab)', [(2,)]),
    ('select ab from (select 1 as "Ab") x, (select 2 as ab) y', [(2,)]),
    ("select count(*) from (select '2024-01-01 00:00:00 +00:00'::timestamp_tz a "
     "union select '2024-01-01 01:00:00 +01:00'::timestamp_tz)", [(1,)]),
    ("select count(*) from (select '2024-01-01 00:00:00 +00:00'::timestamp_tz a "
     "union all select '2024-01-01 01:00:00 +01:00'::timestamp_tz)", [(2,)]),
    ("select count(*) from (select '2024-01-01 00:00:00 +00:00'::timestamp_tz a "
     "intersect select '2024-01-01 01:00:00 +01:00'::timestamp_tz)", [(1,)]),
    ("select count(*) from (select '2024-01-01 00:00:00 +00:00'::timestamp_tz a "
     "except select '2024-01-01 01:00:00 +01:00'::timestamp_tz)", [(0,)]),
    ("with recursive w as (select null a union all select a from w where false) select * from w",
     [(None,)]),
    ("select t.id from t where t.id between 2 and 3 and (grp = 'a' or grp = 'b') order by 1",
     [(2,), (3,)]),
    ("select id from t where exists (select count(*) from u where u.id = t.id) order by 1",
     [(1,), (2,), (3,), (4,)]),
    ("select id from t where not exists (select max(id) from u where u.id = t.id limit 1)", []),
    ("select id, exists (select distinct max(id) from u where u.id = t.id) from t where id < 3 "
     "order by 1", [(1, True), (2, True)]),
    ("select id from t where exists (select count(*) n from u where u.id = t.id having n = 0) "
     "order by 1", [(1,), (4,)]),
    ("select id, exists (select 1 from u where u.id = t.id having max(name) is null) from t "
     "order by 1", [(1, True), (2, False), (3, False), (4, True)]),
    ("select id, exists (select 1 from u where u.id = t.id having count(*) = 0 and t.id > 1) "
     "from t order by 1", [(1, False), (2, False), (3, False), (4, True)]),
    ("select id from t where (select count(*) from u where u.id = t.id having max(id) > 0) is null "
     "order by 1", [(1,), (4,)]),
    ("select id, (select count(*) from u where u.id = t.id having count(*) < t.id - 1) from t "
     "order by 1", [(1, None), (2, None), (3, 1), (4, 0)]),
    ("select id, (select count(*) from u where u.id = t.id "
     "having count(*) >= (select count(*) from u where name = 'x')) from t order by 1",
     [(1, 0), (2, 1), (3, 1), (4, 0)]),
    ("select id, (select distinct count(*) from u where u.id = t.id order by 1) from t order by 1",
     [(1, 0), (2, 1), (3, 1), (4, 0)]),
    ("select id, (select count(*) + (select max(id) from u) from u where u.id = t.id) from t "
     "order by 1", [(1, 5), (2, 6), (3, 6), (4, 5)]),
    ("select id, (select count(*) * 0 from u where u.id = t.id) from t order by 1",
     [(1, 0), (2, 0), (3, 0), (4, 0)]),
    ("select id, (select count(*) is null from u where u.id = t.id and t.id > 1) from t order by 1",
     [(1, False), (2, False), (3, False), (4, False)]),
    ("select id, (select iff(true, 1, max(id)) from u where u.id = t.id) from t order by 1",
     [(1, 1), (2, 1), (3, 1), (4, 1)]),
    ("select t.id, n from t, lateral (select count(*) >= 0 n from u where u.id = t.id) order by 1",
     [(1, True), (2, True), (3, True), (4, True)]),
    ("select id from t where 'x' in (select nvl('x', max(name)) from u where u.id = t.id) "
     "order by 1", [(1,), (2,), (3,), (4,)]),
    ("select id, (select 'x' from u where u.id = t.id having count(*) = 0) from t order by 1",
     [(1, "x"), (2, None), (3, None), (4, "x")]),
    ("select id, (with q as (select * from p) select count(*) * 0 from q where q.id = t.id), "
     "(with q as (select * from p) select count(*) from q where q.id = t.id "
     "having count(*) < t.id) from t order by 1",
     [(1, 0, None), (2, 0, None), (3, 0, 1), (4, 0, 0)]),
    ("select id, (with q as (select * from p), r as (select * from q) "
     "select max(w) + count(*) + t.id from r where r.id = t.id and t.v > 10) from t order by 1",
     [(1, None), (2, 34), (3, 54), (4, None)]),
    ("select id, (with q as (select * from p) select count(*) + (select max(w) from q) "
     "from q where q.id = t.id), (with q as (select * from p) select max(w) from q "
     "where q.id = t.id having count(*) < (select count(*) from q where q.id = 2)) "
     "from t order by 1", [(1, 51, None), (2, 52, None), (3, 51, 50), (4, 50, None)]),
    ("select id from t where exists "
     "(with q as (select * from p) select count(*) from q where q.id = t.id) order by 1",
     [(1,), (2,), (3,), (4,)]),
    ("select id, exists (with q as (select * from p) select count(*) from q where q.id = t.id "
     "having count(*) = 0) from t order by 1", [(1, False), (2, False), (3, False), (4, True)]),
    ("select id from t where exists (with q as (select * from p) select 1 from q "
     "where q.id = t.id order by q.w limit 1) order by 1", [(1,), (2,), (3,)]),
    ("select id from t where exists (select count(*) from u where u.id = t.id limit 0)", []),
    ("select id from t where exists (select 1 from p where p.id = t.id order by w limit 1) "
     "order by 1", [(1,), (2,), (3,)]),
    ("select id, exists (select top 1 w from p where p.id = t.id order by w), "
     "exists (select 1 from p where p.id = t.id limit 0) from t order by 1",
     [(1, True, False), (2, True, False), (3, True, False), (4, False, False)]),
    ("select id from t where exists (select 1 from p where p.id = t.id "
     "qualify row_number() over (partition by p.id order by w) > 1)", [(2,)]),
    ("select id from t where exists (select 1 from p where t.id = p.id and p.w > 0 and t.v > 10 "
     "qualify count(*) over (partition by p.w > 0, p.id) > 1)", [(2,)]),
    ("select id from t where exists (select 1 from p x where x.id = t.id "
     "and x.w = (select max(w) from p y where y.id = x.id) and x.w in (select v + 10 from t) "
     "qualify row_number() over (partition by x.id order by x.w) = 1) order by 1", [(2,)]),
    ("select id, (select (select max(id) from u) where t.id > 2), "
     "(select c from (values (1)) q(c) where c = t.id) from t order by 1",
     [(1, None, 1), (2, None, None), (3, 5, None), (4, 5, None)]),
    ("select id, v in (select w from p where p.id = t.id) from t order by 1",
     [(1, None), (2, True), (3, False), (4, False)]),
    ("select id, v not in (select w from p where p.id >= t.id) from t order by 1",
     [(1, None), (2, False), (3, True), (4, True)]),
    ("select id from t where v not in (select w from p where p.id = t.id) order by 1",
     [(3,), (4,)]),
    ("select id from t where v not in (select w from p where w is not null) order by 1", [(1,)]),
    ("select grp from t group by grp having max(v) not in (select w from p)", []),
    ("select grp from t group by grp having max(id) in (select id from u) order by 1",
     [("a",), ("b",)]),
    ("select id, id in (select p.id from p where p.w > t.v order by 1) from t order by 1",
     [(1, None), (2, True), (3, True), (4, False)]),
    ('select count(*) from t where "Mixed" - 0.5 in (select id from t)', [(4,)]),
    ("select exists (select id from u group by id having count(*) > 1), exists (select id from u "
     "qualify row_number() over (order by id) > 5), exists (select 1 from u offset 5)",
     [(False, False, False)]),
    ("select sum(nvl(a.n, b.n)) from wide a full join wide b on false", [(2**63,)]),
    ("select sum(n) from (select n from wide union all select n from wide)", [(2**63,)]),
    ("select sum(n) from (select n from wide, lateral flatten(parse_json('[1, 2, 3]')) "
     "union all select n from wide)", [(2**64,)]),
    ('select "1", "2" from (select 5 as "2", 6 as "1")', [(6, 5)]),
    ('select "X".a, b from (select 1 a) x, (select 2 b)', [(1, 2)]),
    ("select a, b from (select 1 a), (select 2 b)", [(1, 2)]),
    ("select id from t order by '1', id desc limit 1", [(4,)]),
    ("select id from t order by 1.5, id desc limit 1", [(4,)]),
    ('select id, -id as "1" from t order by "1" limit 1', [(4, -4)]),
    ("select 1 a, 3 b union all select 1, 2 union all select 0, 9 union all select 1, 1 "
     "order by all desc", [(1, 3), (1, 2), (1, 1), (0, 9)]),
    ('select 2 as x, 1 as "ALL" union all select 1, 2 order by all', [(2, 1), (1, 2)]),
    ("select id from t order by id limit '2'", [(1,), (2,)]),
    ("select id from t order by id limit null offset 3", [(4,)]),
    ("select count(*) from (select [0::float]::array(float) a "
     "union select ['-0'::float]::array(float))", [(1,)]),
    ("select count(*) from (select [0::float]::array(float) a "
     "except select ['-0'::float]::array(float))", [(0,)]),
    ("select count(*) from (select [0::float]::array(float) a "
     "intersect select ['-0'::float]::array(float))", [(1,)]),
    ("select a, b, c from (select 1 a, 2 b union all by name select 3 a, 'x' c) order by a",
     [(1, 2, None), (3, None, "x")]),
    ("select count(*) from (select 1 a union all (select 2 union all select 3 limit 1))", [(2,)]),
    ("(select 1 a union all select 2 offset 1) union all select 3 order by 1", [(2,), (3,)]),
    ("(with c as (select 1 a) select a from c union all select 2) union all select 3 order by 1",
     [(1,), (2,), (3,)]),
    ("select 1 except (select 2 except select 1)", [(1,)]),
    ("select 1 union all (select 1 union select 1)", [(1,), (1,)]),
    ('with recursive r as (select 1 as "a" union all select "a" + 1 from r where "a" < 3) '
     'select "a" from r order by 1', [(1,), (2,), (3,)]),
    ("with recursive r as (select 'a' s union all select s || 'b' from r where length(s) < 3) "
     "select s from r order by 1", [("a",), ("ab",), ("abb",)]),
    ("with t as (select 1 id union all select id from ns.t where id > 3) select id from t "
     "order by 1", [(1,), (4,)]),
    ("with a as (select 1 x), b as (select x, random() r from a) select count(distinct r) "
     "from (select r from b union all select r from b)", [(1,)]),
    ("with w as (select id from t order by random() limit 1) "
     "select count(distinct id) from (select id from w union all select id from w)", [(1,)]),
    ("select seq4() from table(generator(rowcount => 2)), table(generator(rowcount => 2)) "
     "order by 1", [(0,), (1,), (2,), (3,)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[case[0][:90] for case in CASES])
def test_a_query_gives_the_rows_that_snowflake_gives(
    text: str, expected: list[tuple[Any, ...]]
) -> None:
    assert rows(text) == expected


NEVER_NULL = pa.schema([pa.field("id", pa.int64(), nullable=False)])
SIDES = {
    "a": pa.table([pa.array([1, 2, 3], pa.int64())], schema=NEVER_NULL),
    "b": pa.table([pa.array([2, 3, 5], pa.int64())], schema=NEVER_NULL),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select a.id, b.id is null from a left join b on a.id = b.id order by 1",
         [(1, True), (2, False), (3, False)]),
        ("select a.id from a left join b on a.id = b.id where b.id not in (select 99) order by 1",
         [(2,), (3,)]),
        ("select b.id from a right join b on a.id = b.id where a.id not in (select 99) order by 1",
         [(2,), (3,)]),
        ("select a.id, b.id in (select 2) from a full join b on a.id = b.id order by 1, 2",
         [(1, None), (2, True), (3, False), (None, False)]),
        ("select id, id not in (select 2) from a group by rollup (id) order by 1",
         [(1, True), (2, False), (3, True), (None, None)]),
        ("select id is null, count(*) from a join b using (id) group by rollup (id) order by 1, 2",
         [(False, 1), (False, 1), (True, 2)]),
        ("select id from a group by rollup (id) having id is null", [(None,)]),
        ("select id from a where (id, id) not in (select id, id from b)", [(1,)]),
        ("select a.id from a left join b on a.id = b.id "
         "where (b.id, a.id) in (select id, id from b) order by 1", [(2,), (3,)]),
        ("select nvl((select id from a where id = 9), 0), (select id from a where id = 9) is null",
         [(0, True)]),
    ],
)  # fmt: skip
def test_what_is_never_null_may_be_null_beside_an_outer_join(
    text: str, expected: list[tuple[Any, ...]]
) -> None:
    assert sql_text.answer(text, SIDES).rows == expected


def test_rows_of_which_one_value_may_be_null_are_not_compared_by_not_in() -> None:
    text = (
        "select a.id from a left join b on a.id = b.id "
        "where (b.id, a.id) not in (select id, id from b)"
    )
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(text, SIDES)
    assert caught.value.code == "000002"


@pytest.mark.parametrize(
    ("text", "nullable"),
    [
        ("select a.id, b.id from a join b on a.id = b.id", [False, False]),
        ("select a.id, b.id from a left join b on a.id = b.id", [False, True]),
        ("select a.id, b.id from a right join b on a.id = b.id", [True, False]),
        ("select a.id, b.id from a full join b on a.id = b.id", [True, True]),
        ("select id from a group by id", [False]),
        ("select id from a group by rollup (id)", [True]),
        ("select (select id from a where id = 9)", [True]),
    ],
)
def test_a_result_says_which_of_its_columns_are_never_null(text: str, nullable: list[bool]) -> None:
    assert [column.nullable for column in sql_text.answer(text, SIDES).columns] == nullable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('select id, T.Id, "Mixed", mixed from t', ["ID", "ID", "Mixed", "Mixed"]),
        ("select count(*), 1+1, 'A', Sum(id) from t", ["COUNT(*)", "1+1", "'A'", "SUM(ID)"]),
        ("select 'keeps Case' || id from t", ["'KEEPS CASE' || ID"]),
        ('select id as lower, id as "Quoted" from t', ["LOWER", "Quoted"]),
        ("select * from u", ["ID", "NAME"]),
        ("select 1, 1", ["1", "1"]),
        ("select a from (select 1 a) union select 2 b", ["A"]),
        ('select "COUNT(*)" from (select count(*) from t)', ["COUNT(*)"]),
        ("select iff(true, 1,   2)", ["IFF(TRUE, 1,   2)"]),
    ],
)
def test_result_columns_are_named_by_alias_column_or_text(text: str, expected: list[str]) -> None:
    assert sql_text.answer(text, TABLES).names == expected


def test_result_columns_carry_the_table_they_come_from() -> None:
    (column,) = sql_text.answer("select name from u", TABLES).columns

    assert (column.database, column.schema, column.table) == ("LAKE", "NS", "U")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("select nosuch from t", "000904"),
        ("select t.nosuch from t", "000904"),
        ("select x.id from t", "000904"),
        ('select "ID2" from t', "000904"),
        ('select "Id" from t', "000904"),
        ("select id from t, u", "002028"),
        ("select $1 from t, u", "002028"),
        ("select $0 from u", "000904"),
        ("select $3 from u", "000904"),
        ("select u.$3 from t, u", "000904"),
        ("select x.$1 from t, u", "000904"),
        ("select id as x, t.x from t", "000904"),
        ("select x + 1 as x from t", "000904"),
        ("select y + 1 as x, x + 1 as y from t", "000904"),
        (
            "select id from t where id in (select max(id) from u where u.id = t.id limit 0)",
            "002031",
        ),
        (
            "select id from t where id in (select max(id) from u where u.id = t.id "
            "qualify row_number() over (order by 1) > 1)",
            "002031",
        ),
        (
            "select id from t where id in (select id from u where u.id = t.id union all select 1)",
            "002031",
        ),
        (
            "select id from t where exists (select 1 from u where u.id = t.id group by cube (id))",
            "002031",
        ),
        ("select id from t where (id, v) not in (select id, v from t)", "000002"),
        ("select (id, v) in (select id, v from t) from t", "000002"),
        (
            "with recursive w as (select 1 a union select a + 1 from w where a < 3) "
            "select * from w",
            "000002",
        ),
        ("with recursive w as (select 1 a) select * from w, w", "002027"),
        ("select id from t order by id fetch first 2 rows with ties", "000002"),
        ("select id from t order by id fetch first 2 percent rows only", "000002"),
        ("select * exclude nosuch from t", "000904"),
        ("select * replace (0, 4) from t", "000002"),
        ("select * rename (id) from t", "000002"),
        ("select * replace (1 as nosuch) from t", "000904"),
        ("select * rename (nosuch as x) from t", "000904"),
        ("select * ilike '%nosuch%' from t", "001003"),
        ("select * ilike id from t", "000002"),
        ("select x.* from t", "000904"),
        ("select id in (select 1, 2) from t", "000002"),
        ("select d in (select true) from t", "000002"),
        ("select random() in (select v from t) from t", "000002"),
        ("with a(x, y) as (select 1) select * from a", "000002"),
        (
            "select (with recursive r as (select 1 a union all select a + t.id from r where a < 3) "
            "select max(a) from r) from t",
            "000002",
        ),
        (
            "select id from t where id in (select max(id) from u where u.id = t.id "
            "having count(*) > 1)",
            "002031",
        ),
        (
            "select id from t where 2 in (select count(*) from u where u.id = t.id group by id)",
            "002031",
        ),
        (
            "select id from t where id in (select max(id) from u where u.id = t.id offset 1)",
            "002031",
        ),
        ("select id from t where exists (select 1 from p where p.id = t.id offset 1)", "002031"),
        ("select id, exists (select 1 from p where p.id = t.id offset 1) from t", "002031"),
        *(
            (
                "select id from t where exists "
                f"(with q as (select * from p) select 1 from q where q.id = t.id {end})",
                "002031",
            )
            for end in ("offset 1", "group by rollup (q.w)", "qualify count(*) over () > 1")
        ),
        (
            "select (with q as (select w from p limit 2) select max(w) + min(w) + t.id from q) "
            "from t",
            "002031",
        ),
        (
            "select id from t where exists (select max(w) from p where p.id = t.id offset 1)",
            "002031",
        ),
        *(
            (
                f"select id from t where exists (select 1 from p where {where} qualify {over})",
                "002031",
            )
            for where, over in (
                ("p.id = t.id", "count(*) over () > 1"),
                ("p.id = t.id", "count(*) over (partition by p.id) > 1 and max(w) over () > 40"),
                ("p.id = t.id and p.w = t.v", "count(*) over (partition by p.id) > 1"),
                ("p.id > t.id", "count(*) over (partition by p.id) > 1"),
                ("p.id + 1 = t.id", "count(*) over (partition by p.id) > 1"),
                (
                    "p.id = t.id and p.w in (select v from t x where x.id = t.id)",
                    "count(*) over (partition by p.id) > 1",
                ),
            )
        ),
        (
            "select (select max(w) + min(w) + t.id from (select w from p offset 1)) from t",
            "002031",
        ),
        ('select 1 a union select 2 order by "ALL"', "000904"),
        ("select id from t limit 1.5", "000002"),
        ("select id from t limit -1", "000002"),
        ("select id from t limit 'x'", "000002"),
        ("select * from values (1, 2), (3)", "001788"),
        ("select * from values (count(*))", "002035"),
        ("select 1 from t a, u a", "002027"),
        ("select 1 from t, t", "002027"),
        ("select id from t group by 9", "002027"),
        ("select id from t order by 0", "002027"),
        ("select id from t where sum(v) > 1", "002035"),
        ("select 1 union select 1, 2", "001789"),
        ("select '2024-01-01'::date union select true", "001790"),
        ("select * from t pivot(sum(v) for grp in (any))", "000002"),
        ("select id into x from t", "000002"),
        ("select * from t, lateral flatten(input => grp) f", "001065"),
        ("select * from table(generator(rowcount => 5))", "000002"),
        ("select $1 from @stage", "000002"),
        ("select * from t at(timestamp => 'x'::timestamp)", "100035"),
        ("select * from t at(timestamp => 'x'::timestamp_tz)", "100035"),
        ("select v:a from t", "001065"),
        ("select top 50 percent id from t", "000002"),
        ("select t.v[0] from t", "001065"),
        ("select sum(v) over w from t window w as (partition by grp)", "001003"),
        ("select (select name from u where u.id = t.id) from t", "002031"),
        ("select connect_by_root id from t", "000002"),
        ("select id from t qualify id = 1", "002035"),
        ("select * from values (least(interval '1 day'))", "000002"),
        ("select object_construct(select * from t)", "000002"),
        ("select count(select * from t)", "000002"),
    ],
)
def test_a_query_that_means_nothing_here_is_refused(text: str, code: str) -> None:
    assert refused(text).code == code


@pytest.mark.parametrize("tail", ["limit 0", "offset 1", "limit 1 offset 1"])
def test_a_correlated_aggregate_whose_row_is_left_out_is_not_that_row(tail: str) -> None:
    """The engine has no form for it; what it says becomes 002031."""
    with pytest.raises(engine.EngineFault):
        rows(f"select id, (select count(*) from u where u.id = t.id {tail}) from t")


def test_int64_sums_widen_only_where_bounds_do_not_rule_overflow_out() -> None:
    wide = pa.table({"n": pa.array([2**62, 2**62, 2**62], pa.int64())})

    result = sql_text.answer(
        "select sum(n), sum(n) + 1, n + n, n * 4 from w group by n", {"w": wide}
    )

    assert result.rows == [(3 * 2**62, 3 * 2**62 + 1, 2**63, 2**64)]
    assert "Decimal128" in result.bound.sql
    narrow = sql_text.answer(
        "select sum(id) from t where id < 3", {"t": pa.table({"id": pa.array([1, 2], pa.int32())})}
    )
    assert narrow.rows == [(3,)]
    assert "Decimal128" not in narrow.bound.sql


def test_a_constant_that_overflows_is_left_to_the_engine() -> None:
    """Its sum is a decimal, and a fault of it stays where a row reaches it."""
    table = pa.table({"id": [1]})
    text = "select id from t where id = 9223372036854775807 + 1"
    assert sql_text.answer(text, {"t": table}).rows == []
    assert sql_text.answer("select 9223372036854775807 + 1").rows == [(2**63,)]


def test_placeholders_are_numbered_in_text_order_and_typed() -> None:
    binds = bindings.parse(
        {
            "1": {"type": "FIXED", "value": "7"},
            "2": {"type": "TEXT", "value": "it's"},
            "3": {"type": "FIXED", "value": "2"},
            "4": {"type": "DATE", "value": "1704153600000"},
        }
    )
    literals = {
        name: expressions.binding_literal(item.type, item.value) for name, item in binds.items()
    }

    result = sql_text.answer(
        "with c as (select ? as a) select c.a, ?, id from t, c where id = ? and d = ?",
        TABLES,
        binds=literals,
    )

    assert result.rows == [(7, "it's", 2)]
    assert result.bound.bind_count == 4


def test_the_bind_of_top_comes_before_those_of_the_select_list() -> None:
    binds = {
        name: expressions.binding_literal("fixed", value)
        for name, value in (("1", "2"), ("2", "7"))
    }
    answer = sql_text.answer("select top ? id, ? from t order by id", TABLES, binds=binds)
    assert answer.rows == [(1, 7), (2, 7)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("offset ? rows fetch next ? rows only", ("1", "2")),
        ("offset ? row fetch first ? row only", ("1", "2")),
        ("offset ? limit ?", ("1", "2")),
        ("limit ? offset ?", ("2", "1")),
    ],
)
@pytest.mark.parametrize("query", ["select id from t", "select id from t union select id from t"])
def test_the_binds_of_limit_fetch_and_offset_are_taken_in_the_order_of_the_text(
    query: str, text: str, numbers: tuple[str, str]
) -> None:
    binds = {
        name: expressions.binding_literal("fixed", value)
        for name, value in zip(("1", "2"), numbers, strict=True)
    }
    answer = sql_text.answer(f"{query} order by id {text}", TABLES, binds=binds)
    assert answer.rows == [(2,), (3,)]


@pytest.mark.parametrize("text", ["position(? in ?)", "position(?, ?)", "charindex(?, ?)"])
def test_the_binds_of_position_are_the_part_and_then_the_whole(text: str) -> None:
    binds = {
        name: expressions.binding_literal("text", value)
        for name, value in (("1", "b"), ("2", "abc"))
    }
    assert sql_text.answer(f"select {text}", TABLES, binds=binds).rows == [(2,)]


@pytest.mark.parametrize(
    "text",
    [
        "with w as (select ? a) select a, ? from w where a = ? group by ? having ? > 1 "
        "qualify ? = 1 order by ? limit ? offset ?",
        "select top ? a, ? from t where b = ? order by ?",
        "select distinct top ? a, ? from t where b in (select top ? ? from u)",
        "select ? from (select a from t order by ? offset ? rows fetch next ? rows only) limit ?",
        "select ? from (select a from t offset ? limit ?) offset ? limit ?",
        "select distinct ?, ? from t join u on t.id = ? left join v on v.a = ? where t.b = ?",
        "select * from (select ? a from t where b = ?) x, lateral flatten(input => ?) f where ?",
        "select case ? when ? then ? else ? end, case when a = ? then ? when ? then ? end from t",
        "select iff(?, ?, ?), ? in (?, ?), ? like ? escape ?, ? between ? and ?, ?::int from t",
        "select sum(?) over (partition by ? order by ?), lag(?, ?, ?) over (order by ?) from t",
        "select listagg(?, ?) within group (order by ?), min_by(?, ?), count(distinct ?, ?) from t",
        "select * from t where a in (select ? from u where b = ?) and exists (select ? from u)",
        "select ? union all select ? union select ? order by ? limit ?",
        "select * from values (?, ?), (?, ?) where column1 = ?",
        "select * from t start with id = ? connect by prior id = pid and ? = 1",
        "select * from t pivot(sum(v) for k in (?, ?)) where a = ?",
        "select * from t at(offset => ?) where a = ?",
        "select ?:a, get(?, ?), ?[?], object_construct('a', ?, 'b', ?) from t",
        "select * from t asof join u match_condition (t.a >= ?) on t.b = ? where ?",
        "select position(? in ?), position(?, ?, ?), extract(year from ?), substr(?, ?, ?) from t",
        "select ? ilike any (?, ?), ? rlike ?, ? is distinct from ?, date_trunc(?, ?) from t",
        "insert into t (a, b) with w as (select ? a) select a, ? from w where c = ?",
        "update t set a = ?, b = ? from (select ? x) u where t.id = ?",
        "delete from t using (select ? x) u where t.id = ?",
        "merge into t using (select ? a) u on t.id = ? when matched and ? = 1 then delete "
        "when matched then update set a = ?, b = ? "
        "when not matched and ? then insert (a) values (?)",
    ],
)
def test_question_marks_are_numbered_as_they_stand_in_the_text(text: str) -> None:
    count = itertools.count(1)
    spelled_out = re.sub(r"\?", lambda _: f":{next(count)}", text)
    numbered, named = (places_of(each) for each in (text, spelled_out))
    assert [place.meta["position"] for place in numbered] == [int(each.this) for each in named]
    assert len(numbered) == text.count("?")


def places_of(text: str) -> list[Any]:
    """Return the placeholders of a statement, numbered."""
    operation = parse.parse(text)
    tree = operation.source if isinstance(operation, operations.Insert) else operation.tree
    references.number_placeholders(tree)
    return list(tree.find_all(exp.Placeholder))


def test_a_missing_bind_is_an_error_and_a_described_one_is_not() -> None:
    assert refused("select ?").code == "002049"
    bound, _ = sql_text.bind("select ? + 1, :name", TABLES, binds=None)
    assert bound.bind_count == 2


def test_variables_are_literals_and_absent_ones_are_errors() -> None:
    result = sql_text.answer(
        "select $limit + 1",
        variables={"LIMIT": expressions.binding_literal("fixed", 4)},
    )

    assert result.rows == [(5,)]
    assert refused("select $nosuch").code == "002211"


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("at(version => 12)", shapes.Moment(parameter="version", value=12)),
        ("before(version => 12)", shapes.Moment(parameter="version", value=12, before=True)),
        ("at(ref => 'tag')", shapes.Moment(parameter="ref", value="tag")),
        ("at(statement => 'q')", shapes.Moment(parameter="statement", value="q")),
        (
            "at(offset => -60*5)",
            shapes.Moment(
                parameter="timestamp", value=sql_text.NOW - datetime.timedelta(minutes=5)
            ),
        ),
        (
            "at(timestamp => '2024-01-01 10:00:00'::timestamp)",
            shapes.Moment(
                parameter="timestamp",
                value=datetime.datetime(2024, 1, 1, 10, tzinfo=datetime.UTC),
            ),
        ),
        *(
            (
                f"at(timestamp => {moment})",
                shapes.Moment(
                    parameter="timestamp",
                    value=datetime.datetime(2024, 1, 1, 10, tzinfo=datetime.UTC),
                ),
            )
            for moment in (
                "'2024-01-01 10:00:00'",
                "'2024-01-01 10:00:00'::timestamp_tz",
                "'2024-01-01 12:00:00 +0200'::timestamp_tz",
                "'2024-01-01 12:00:00.000 +02:00'::timestamp_ltz",
                "'2024-01-01 10:00:00.000000000Z'::timestamp_tz",
                "'2024-01-01 12:00:00 +0200'::timestamp_tz::timestamp_ltz",
                "to_timestamp_tz('2024-01-01 12:00:00 +0200')",
                "to_timestamp_ltz('2024-01-01 10:00:00')",
                "dateadd(hour, 1, '2024-01-01 09:00:00'::timestamp_tz)",
            )
        ),
        (
            "at(timestamp => dateadd(hour, -1, current_timestamp()))",
            shapes.Moment(parameter="timestamp", value=sql_text.NOW - datetime.timedelta(hours=1)),
        ),
    ],
)
def test_time_travel_is_worked_out_before_tables_are_looked_up(
    clause: str, expected: shapes.Moment
) -> None:
    tree = parse.parse(f"select * from t {clause}").tree  # type: ignore[union-attr]

    (use,) = references.references(tree, shapes.Environment(context=sql_text.context()))

    assert use.moment == expected


@pytest.mark.parametrize(
    ("moment", "hour"),
    [
        ("'2024-01-01 10:00:00'", 10),
        ("'2024-01-01 10:00:00'::timestamp_ntz", 10),
        ("'2024-01-01 10:00:00'::timestamp_tz", 15),
        ("'2024-01-01 10:00:00'::timestamp_ltz", 15),
        ("'2024-01-01 10:00:00 +0100'::timestamp_tz", 9),
    ],
)
def test_time_travel_reads_a_text_with_a_zone_in_that_of_the_session(
    moment: str, hour: int
) -> None:
    """Only a moment without a zone is in UTC, as Snowflake's page of AT and BEFORE says."""
    now = sql_text.NOW.astimezone(zoneinfo.ZoneInfo("America/New_York"))
    tree = parse.parse(f"select * from t at(timestamp => {moment})").tree  # type: ignore[union-attr]

    (use,) = references.references(tree, shapes.Environment(context=sql_text.context(now=now)))

    assert use.moment is not None
    assert use.moment.value == datetime.datetime(2024, 1, 1, hour, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("model", "moment", "hour"),
    [
        ("DD/MM/YYYY HH24:MI", "'02/01/2024 10:00'", 10),
        ("DD/MM/YYYY HH24:MI", "'02/01/2024 10:00'::timestamp_ltz", 15),
        ("DD/MM/YY HH24:MI", "'02/01/24 10:00'::timestamp_ntz", 10),
        ("DD/MM/YYYY HH24:MI TZHTZM", "'02/01/2024 10:00 +0100'::timestamp_tz", 9),
    ],
)
def test_time_travel_reads_a_text_by_the_input_format_of_the_session(
    model: str, moment: str, hour: int
) -> None:
    inputs = formats.Inputs(timestamp=model)
    now = sql_text.NOW.astimezone(zoneinfo.ZoneInfo("America/New_York"))
    environment = shapes.Environment(context=sql_text.context(now=now, inputs=inputs))
    tree = parse.parse(f"select * from t at(timestamp => {moment})").tree  # type: ignore[union-attr]

    (use,) = references.references(tree, environment)

    assert use.moment is not None
    assert use.moment.value == datetime.datetime(2024, 1, 2, hour, tzinfo=datetime.UTC)
    tree = parse.parse("select * from t at(timestamp => '2024-01-02 10:00')").tree  # type: ignore[union-attr]
    with pytest.raises(errors.SqlError) as caught:
        references.references(tree, environment)
    assert caught.value.code == "100035"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select nosuch from t", "error line 1 at position 7\ninvalid identifier 'NOSUCH'"),
        (
            "select\n  id,\n  t.nosuch\nfrom t",
            "error line 3 at position 2\ninvalid identifier 'T.NOSUCH'",
        ),
        (
            "select nam from u where id = 1",
            "error line 1 at position 7\ninvalid identifier 'NAM'; did you mean NAME?",
        ),
        (
            "select id from t where exists (select 1 from u where grpp = name)",
            "error line 1 at position 53\ninvalid identifier 'GRPP'; did you mean GRP?",
        ),
        (
            "select mixde from t",
            "error line 1 at position 7\ninvalid identifier 'MIXDE'; did you mean \"Mixed\"?",
        ),
        (
            'select id from u where name = "two"',
            "error line 1 at position 30\ninvalid identifier 'two'; a text stands in single quotes",
        ),
        ("select u.grp from u, t", "error line 1 at position 7\ninvalid identifier 'U.GRP'"),
        ("select cont(id) from u", "Unknown function CONT; did you mean COUNT?"),
        ("select nosuchfunction(id) from u", "Unknown function NOSUCHFUNCTION"),
    ],
)
def test_an_unknown_name_is_refused_with_its_place_and_what_may_be_meant(
    text: str, message: str
) -> None:
    assert refused(text).message == f"SQL compilation error:\n{message}"


def test_names_of_common_tables_are_no_references() -> None:
    tree = parse.parse(  # type: ignore[union-attr]
        "with a as (select * from t), b as (select * from a) select * from b, u, lake.ns.a"
    ).tree

    uses = references.references(tree, shapes.Environment(context=sql_text.context()))

    assert [[part.folded for part in use.name] for use in uses] == [
        ["T"], ["U"], ["LAKE", "NS", "A"],
    ]  # fmt: skip


def test_values_for_a_table_are_converted_cell_by_cell() -> None:
    tree = parse.parse("insert into x values ('1', '2024-01-01'), (2, null)").source  # type: ignore[union-attr]
    environment = shapes.Environment(context=sql_text.context())
    references.references(tree, environment)

    bound = resolve.bind_into(tree, environment, [sqltypes.integer(), sqltypes.DATE])

    assert [each.name for each in bound.types] == ["fixed", "date"]
    with pytest.raises(errors.SqlError) as caught:
        resolve.bind_into(tree, environment, [sqltypes.integer()])
    assert caught.value.code == "002020"


def test_numbers_beside_words_in_values_are_refused_even_for_a_column_of_text() -> None:
    """Snowflake types the column of VALUES first, as one of numbers."""
    tree = parse.parse("insert into x values (3), ('d')").source  # type: ignore[union-attr]
    environment = shapes.Environment(context=sql_text.context())
    references.references(tree, environment)

    with pytest.raises(errors.SqlError) as caught:
        resolve.bind_into(tree, environment, [sqltypes.TEXT])

    assert caught.value.code == "100038"


def test_a_thousand_terms_are_no_recursion() -> None:
    terms = " or ".join(f"id = {number}" for number in range(3000))

    assert len(rows(f"select id from t where {terms}")) == 4


FLOATS = {
    "t": pa.table(
        {
            "k": pa.array([1, 2, 3, 4], pa.int64()),
            "f": pa.array([1e-16, 0.1, 1e300, -1e-17], pa.float64()),
            "d": pa.array([Decimal(0), Decimal("0.1"), Decimal(-1), Decimal(0)]),
        }
    )
}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("f > 0.0", [1, 2, 3]),
        ("f <> 0.0", [1, 2, 3, 4]),
        ("0.0 > f", [4]),
        ("f = 0.1", [2]),
        ("f in (0.1, 5.5)", [2]),
        ("f not in (0.1, 5)", [1, 3, 4]),
        ("f between 0.0 and 1.5", [1, 2]),
        ("f > d", [1, 3]),
        ("f = d", [2]),
        ("nullif(f, 0.1) is null", [2]),
        ("decode(f, 0.1, 'y', 'n') = 'y'", [2]),
        ("case f when 0.1 then 1 else 0 end = 1", [2]),
        ("f is distinct from 0.1", [1, 3, 4]),
        ("f in (select d from t)", [2]),
    ],
)
def test_a_float_beside_a_decimal_is_compared_as_a_float(
    condition: str, expected: list[int]
) -> None:
    result = sql_text.answer(f"select k from t where {condition} order by k", FLOATS)
    assert [row[0] for row in result.rows] == expected


NULLS_BETWEEN = {
    "t": pa.table(
        {
            "k": pa.array([1, 2, 3, 4, 5, 6, 7], pa.int64()),
            "v": pa.array([1, None, 3, None, None, 6, 7], pa.int64()),
        }
    )
}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("lag(v)", [None, 1, 1, 3, 3, 3, 6]),
        ("lag(v, 2)", [None, None, None, 1, 1, 1, 3]),
        ("lag(v, 2, -1)", [-1, -1, -1, 1, 1, 1, 3]),
        ("lead(v)", [3, 3, 6, 6, 6, 7, None]),
        ("lead(v, 1, -1)", [3, 3, 6, 6, 6, 7, -1]),
        ("lag(v, -1)", [3, 3, 6, 6, 6, 7, None]),
    ],
)
def test_a_neighbour_is_found_over_nulls(call: str, expected: list[int | None]) -> None:
    text = f"select k, {call} ignore nulls over (order by k) from t order by k"
    assert [row[1] for row in sql_text.answer(text, NULLS_BETWEEN).rows] == expected


@pytest.mark.parametrize("call", ["lead(v, 2)", "lead(v, 3, 0)", "lag(v, -2)"])
def test_a_neighbour_that_the_engine_would_miss_over_nulls_is_refused(call: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(f"select {call} ignore nulls over (order by k) from t", NULLS_BETWEEN)
    assert caught.value.code == "000002"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" union all ".join(f"select {n}" for n in range(1000)), list(range(1000))),
        (" union ".join(f"select {n % 300}" for n in range(500)), list(range(300))),
        ("select " + " + ".join(map(str, range(1000))), [499_500]),
        ("select " + " ".join(f"{n} {'+-'[n % 2]}" for n in range(400)) + " 7", [193]),
        ("select " + " || ".join("'ab'" for _ in range(3000)), ["ab" * 3000]),
        (
            "select column1 from values (1), (2), (9) where "
            + " or ".join(f"column1 = {n + 2}" for n in range(5000)),
            [2, 9],
        ),
        (
            "select column1 from values (1), (2), (9) where "
            + " and ".join(f"column1 <> {n + 5}" for n in range(900)),
            [1, 2],
        ),
        ("select " + "not " * 31 + "true", [False]),
        ("select " + "abs(" * 30 + "-1" + ")" * 30, [1]),
    ],
    ids=lambda value: str(value)[:24],
)
def test_long_chains_of_operators_and_branches_are_computed(text: str, expected: list[Any]) -> None:
    assert sorted(row[0] for row in sql_text.answer(text).rows) == expected


@pytest.mark.parametrize(
    "text",
    [
        "select " + "+".join("1" for _ in range(5000)),
        " union all ".join("select 1" for _ in range(5000)),
        "select 1 where " + " and ".join("1 <> 2" for _ in range(5000)),
        "select 1 where " + " or ".join("1 <> 2" for _ in range(20_000)),
        "select " + "(" * 5000 + "1" + ")" * 5000,
    ],
    ids=lambda value: str(value)[:24],
)
def test_longer_ones_are_refused_by_name(text: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.answer(text)
    assert caught.value.code == "000002"


def test_values_alone_are_ordered_and_limited() -> None:
    text = "values (1, 'a'), (2, 'c'), (3, 'b') order by column2 desc limit 1 offset 1"
    assert sql_text.answer(text).rows == [(3, "b")]
    assert sql_text.answer("values (1), (3) union values (2) order by 1").rows == [(1,), (2,), (3,)]


@pytest.mark.parametrize("word", ["except all", "minus all", "intersect all"])
def test_a_set_operation_that_counts_equal_rows_is_refused(word: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(f"(select 1 a union all select 1) {word} select 1")
    wanted = word.upper().replace("MINUS", "EXCEPT")
    assert (caught.value.code, f"'{wanted}'" in caught.value.message) == ("000002", True)


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("select id from t order by v limit 1 by id", "LIMIT ... BY"),
        ("select id from t limit 1 offset 1 by id", "LIMIT ... BY"),
        ("select count(*) from t group by distinct rollup(id), rollup(v)", "GROUP BY DISTINCT"),
        ("select count(*) from t group by all rollup(id)", "GROUP BY ALL beside keys"),
        ("select id from t order by id with fill", "ORDER BY ... WITH FILL"),
        (
            "with recursive q(n) as (select 1 union all select n + 1 from q where n < 3)"
            " search depth first by n set place select * from q",
            "WITH ... SEARCH or CYCLE",
        ),
    ],
)
def test_clauses_of_other_databases_are_refused_by_name(text: str, clause: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(text, TABLES)
    message = caught.value.message.split("\n")[1]
    assert (caught.value.code, message) == ("000002", f"Unsupported feature '{clause}'.")


def test_insert_with_a_partition_is_refused() -> None:
    with pytest.raises(errors.SqlError) as caught:
        parse.parse("insert into t partition (id = 1) values (1, 2, 'x')")
    assert "'INSERT ... PARTITION'" in caught.value.message


def test_a_union_of_many_branches_has_one_type_for_each_column() -> None:
    result = sql_text.answer("select 1, null union all select 2.25, null union all select 30, 'x'")
    assert sorted(row[0] for row in result.rows) == [Decimal("1"), Decimal("2.25"), Decimal("30")]
    assert {row[1] for row in result.rows} == {None, "x"}
    assert [column.type for column in result.columns] == ["fixed", "text"]
    mixed = "(select 1 union all select 1) union (select 1 union all select 2)"
    assert sorted(sql_text.answer(mixed).rows) == [(1,), (2,)]
    mixed = "select 1 union select 1 union all select 1"
    assert sql_text.answer(mixed).rows == [(1,), (1,)]
    mixed = "select 1 union all select 1 union select 1"
    assert sql_text.answer(mixed).rows == [(1,)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select grp, count(*) from t group by grp", True),
        ("select * from t where v > 1", False),
        ("with g as (select grp, max(id) as id from t group by grp) "
         "select name from u join g on g.id = u.id", True),
        ("with g as (select max(id) as id from u) select grp from t join g on g.id = t.id", False),
        ("select name from u where id > (select min(id) from t)", False),
    ],
)  # fmt: skip
def test_a_query_is_grouped_where_most_rows_that_it_reads_are(text: str, expected: bool) -> None:
    bound, _ = sql_text.bind(text, TABLES)
    assert bound.is_aggregate is expected
