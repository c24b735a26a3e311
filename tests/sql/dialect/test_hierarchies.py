"""CONNECT BY: the rows below others, against recursive WITH in DuckDB and against lists of rows."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sql import errors
from sql.plan import expressions as exprs
from tests.kit import sql_text

TABLES = {
    "emp": pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5]),
            "name": pa.array(["a", "b", "c", "d", None]),
            "boss": pa.array([None, 1, 1, 2, 4]),
        }
    ),
    "one": pa.table({"x": pa.array([1])}),
}
TREE = "start with boss is null connect by prior id = boss"

ROWS: dict[str, list[tuple[Any, ...]]] = {
    f"select level, id from emp {TREE}": [(1, 1), (2, 2), (2, 3), (3, 4), (4, 5)],
    f"select * from emp {TREE}": [
        (1, "a", None), (2, "b", 1), (3, "c", 1), (4, "d", 2), (5, None, 4),
    ],
    f"select e.* exclude name, level as depth from emp e {TREE}": [
        (1, None, 1), (2, 1, 2), (3, 1, 2), (4, 2, 3), (5, 4, 4),
    ],
    "select id, connect_by_root name as root, sys_connect_by_path(id, ' > ') as path from emp"
    " start with boss = 1 connect by boss = prior id": [
        (2, "b", " > 2"), (3, "c", " > 3"), (4, "b", " > 2 > 4"), (5, "b", " > 2 > 4 > 5"),
    ],
    "select id, level from emp start with id = 5 connect by id = prior boss": [
        (1, 4), (2, 3), (4, 2), (5, 1),
    ],
    f"select id, level from emp where level <> 2 {TREE} and level < 4": [(1, 1), (4, 3)],
    "select id from emp e connect by prior e.id = e.boss and prior e.boss is null": [
        (1,), (2,), (2,), (3,), (3,), (4,), (5,),
    ],
    f"select level, count(*) from emp {TREE} group by level having count(*) = 1": [
        (1, 1), (3, 1), (4, 1),
    ],
    "select level from one connect by level <= 3": [(1,), (2,), (3,)],
    "select level * 2 from dual connect by level <= 3": [(2,), (4,), (6,)],
    "with dual as (select 7 as q) select q, level from dual connect by level < 2": [(7, 1)],
    "select t.id from (select id, boss from emp where id <> 4) t start with boss is null"
    " connect by prior id = boss": [(1,), (2,), (3,)],
    f"with e as (select * from emp where id < 4) select count(*) from e {TREE}": [(3,)],
    f"select x.id, y.id from (select id from emp {TREE} and level < 3) x,"
    " (select id from emp start with id = 4 connect by prior id = boss) y where x.id > 2": [
        (3, 4), (3, 5),
    ],
    "select id from emp start with id = 1 connect by prior id + id = boss + id": [
        (1,), (2,), (3,), (4,), (5,),
    ],
    "select id from emp start with id = 1 connect by boss || name = prior id || name": [
        (1,), (2,), (3,), (4,),
    ],
    f"select object_keys(object_construct(*)) = ['BOSS', 'ID', 'NAME'] from emp {TREE}"
    " and level < 3 order by hash(*) = hash(id, name, boss)": [(False,), (True,), (True,)],
    f"select hash(*) = hash(id, name, boss) as same from emp {TREE}": [(True,)] * 5,
    f"select * ilike 'b%' from emp {TREE}": [(None,), (1,), (1,), (2,), (4,)],
    "select id, count(distinct root) from (select id, connect_by_root u as root from"
    " (select id, uuid_string() u, boss from emp) e connect by prior id = boss) group by id": [
        (1, 1), (2, 2), (3, 2), (4, 3), (5, 4),
    ],
    "select connect_by_root name, count(*), max(sys_connect_by_path(name, '>')) from emp"
    " start with boss = 1 connect by prior id = boss group by connect_by_root name"
    " order by connect_by_root name": [("b", 3, ">b>d"), ("c", 1, ">c")],
    f"select sys_connect_by_path(id, '/') from emp {TREE} and level < 3"
    " group by sys_connect_by_path(id, '/') having sys_connect_by_path(id, '/') like '/1/%'": [
        ("/1/2",), ("/1/3",),
    ],
    "select level, v.a from (values (7)) v(a) connect by level < 3": [(1, 7), (2, 7)],
    f"select id from emp {TREE} qualify max(level) over () = level": [(5,)],
    f"select id from emp where id in (select boss from emp {TREE})": [(1,), (2,), (4,)],
    f"select id, level from emp {TREE} and prior level < 3": [(1, 1), (2, 2), (3, 2), (4, 3)],
    "select emp.id from ns.emp start with ns.emp.id = 2 connect by ns.emp.boss = prior ns.emp.id": [
        (2,), (4,), (5,),
    ],
    'select e.id, e.level, "LEVEL" from (select id, boss, 7 as level from emp) e start with id = 4'
    " connect by prior id = boss": [(4, 7, 7), (5, 7, 7)],
    f"select h.id, h.level from (select id, level from emp {TREE}) h where level > 2": [
        (4, 3), (5, 4),
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", ROWS)
def test_rows_below_others_are_read_with_their_level_root_and_path(text: str) -> None:
    assert sorted(sql_text.answer(text, TABLES).rows, key=repr) == sorted(ROWS[text], key=repr)


def test_columns_are_named_as_they_are_written() -> None:
    bound = sql_text.answer(
        f"select level, connect_by_root name, sys_connect_by_path(name, '/'), level + 1 from emp"
        f" {TREE}",
        TABLES,
    )
    names = [column.name for column in bound.columns]
    assert names == [
        "LEVEL", "CONNECT_BY_ROOT NAME", "SYS_CONNECT_BY_PATH(NAME, '/')", "LEVEL + 1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            "select id, ? from emp where id > ? start with id = ? connect by boss = prior id"
            " and level < ? order by 1 limit ?",
            (77, 1, 1, 4, 3),
        ),
        (
            "select id, ? from (select * from emp where id <> ?) e where id > ?"
            " connect by boss = prior id and level < ? start with id = ? group by 1 having id < ?",
            (77, 9, 1, 4, 1, 5),
        ),
    ],
)
def test_placeholders_have_their_places_in_the_text(text: str, values: tuple[int, ...]) -> None:
    binds = {str(place): exprs.integer(value) for place, value in enumerate(values, start=1)}
    rows = sql_text.answer(text, TABLES, binds=binds).rows
    assert sorted(rows) == [(2, 77), (3, 77), (4, 77)]


def test_random_trees_have_the_rows_of_duckdb() -> None:
    chance = random.Random(7)
    ids = list(range(60))
    bosses = [None if each < 4 else chance.randrange(each) for each in ids]
    tables = {"t": pa.table({"id": pa.array(ids), "boss": pa.array(bosses)})}
    with duckdb.connect() as connection:
        connection.register("t", tables["t"])
        expected = connection.execute(
            "with recursive r as (select id, 1 as depth, id as root, '/' || id as path from t"
            " where boss is null union all select t.id, depth + 1, root, path || '/' || t.id"
            " from t join r on t.boss = r.id where t.id % 7 <> 0) select * from r"
        ).fetchall()
    text = (
        "select id, level, connect_by_root id, sys_connect_by_path(id, '/') from t"
        " start with boss is null connect by boss = prior id and id % 7 <> 0"
    )
    assert sorted(sql_text.answer(text, tables).rows) == sorted(expected)


REFUSED = [
    ("select id from emp, one start with boss is null connect by prior id = boss", "one table"),
    (
        "select id from emp pivot(max(name) for boss in (1)) p connect by prior id = boss",
        "one table",
    ),
    ("select id from emp join one on true connect by prior id = boss", "one table"),
    ("select id from emp connect by nocycle prior id = boss", "NOCYCLE"),
    ("select id from emp connect by prior id = (select 1)", "with a query"),
    (
        "select 1 from emp connect by 1 = (select 1 from emp connect by prior id = 1)",
        "with a query",
    ),
    ("select id from emp connect by connect_by_root id = boss", "CONNECT_BY_ROOT"),
    ("select id from (select 1 as id) connect by prior id = id", "without an alias"),
    ("select a from emp as e(a, b, c) connect by prior a = b", "are renamed"),
    (f"select sys_connect_by_path(name, name) from emp {TREE}", "a column and a text"),
    (
        "select (select count(*) from emp i start with i.id = o.id connect by prior i.id = i.boss)"
        " from emp o",
        "columns of a query around it",
    ),
    (
        "select a.id from emp a join emp b on a.id = b.id connect by prior a.id = a.boss",
        "Put the join into a query",
    ),
    (
        "select (with recursive r as (select o.id n union all select n + 1 from r where n < 5)"
        " select max(n) from r) from emp o",
        "columns of a query around it",
    ),
    ("select id from emp sample (50) connect by prior id = boss", "one table"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_what_connect_by_does_not_take_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(text, TABLES)
    assert (caught.value.code, words in caught.value.message) == ("000002", True)


def test_more_than_a_few_of_them_in_one_statement_are_refused() -> None:
    one = f"select id from emp {TREE}"
    paths = ", ".join(f"sys_connect_by_path(id, '{number}')" for number in range(20))
    for text in (" union all ".join([one] * 17), f"select {paths} from emp {TREE}"):
        with pytest.raises(errors.SqlError) as caught:
            sql_text.bind(text, TABLES)
        assert "too complex" in caught.value.message


def test_prior_is_a_column_of_other_statements_after_an_error() -> None:
    tables = {"t": pa.table({"prior": pa.array([1])})}
    for condition in (
        "prior id = = boss",
        "prior id = (select id from emp connect by prior id = 1)",
    ):
        with pytest.raises(errors.SqlError):
            sql_text.bind(f"select id from emp connect by {condition}", TABLES)
        assert sql_text.answer("select prior from t", tables).cell == 1


def test_level_is_a_column_of_connect_by_alone() -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind("select level from emp", TABLES)
    assert caught.value.code == "000904"
