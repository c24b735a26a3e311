"""Garbage in, a statement or one of Snowflake's errors out; never anything else.

Texts are made from the grammar's own words, from mutated good statements, and from noise.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sql import errors
from sql.dialect import operations, parse, references, resolve, shapes, sqltypes
from tests.kit import sql_text


def _words(text: str) -> list[str]:
    return text.split()


WORDS = _words(
    """
    select from where group by order having qualify with recursive as on using natural left right
    full join cross lateral union all except intersect minus distinct top limit offset fetch first
    rows only values table t u id grp v d ts b f x o * ( ) , . ; : :: = <> < <= > >= + - / % || ? $1
    $x :name @s 'a' 'it''s' 'a\\'b' $$q$$ "Q" 1 2.5 1e3 0 null true false case when then else end
    cast try_cast int varchar number date timestamp interval '1 day' between and or not in is like
    ilike any escape rlike exists over partition count sum avg min max row_number rank lag
    first_value listagg within iff nvl coalesce decode dateadd datediff day month to_date to_char
    concat substr round abs upper extract current_date current_timestamp() at before version offset
    => pivot unpivot sample flatten generator create or replace transient insert into drop schema if
    exists show tables describe use set unset alter session begin commit rollback explain cascade
    comment cluster /* x */ -- y
    """
)

GOOD = [
    "select a.id, sum(v) over (partition by grp order by id) from t a join u using (id) "
    "where v > 1 group by 1",
    "with x as (select id, count(*) c from t group by all) select * exclude (c) from x order by 1",
    "select case when id in (1, 2) then 'a' else upper(grp) end k from t qualify row_number() "
    "over (partition by k order by id) = 1 limit 5",
    "create table if not exists n (a int not null comment 'x', b varchar(5)) cluster by (a)",
    "insert into t (id, grp) select id + 1, 'x' || grp from t where d between '2024-01-01' and d",
    "select dateadd(day, 1, d), datediff('month', d, ts), d::timestamp::varchar from t",
    "show terse tables like 'a%' in schema lake.ns starts with 'x' limit 5 from 'y'",
    "alter session set timezone = 'UTC', query_tag = 'x'",
    "select * from t at(offset => -60) union all (select * from t order by id limit 1)",
]

COLUMNS = (
    shapes.ShapeColumn(name="id", type=sqltypes.integer()),
    shapes.ShapeColumn(name="grp", type=sqltypes.TEXT),
    shapes.ShapeColumn(name="v", type=sqltypes.number(10, 2)),
    shapes.ShapeColumn(name="d", type=sqltypes.DATE),
    shapes.ShapeColumn(name="ts", type=sqltypes.TIMESTAMP_NTZ),
    shapes.ShapeColumn(name="b", type=sqltypes.BOOLEAN),
    shapes.ShapeColumn(name="f", type=sqltypes.REAL),
    shapes.ShapeColumn(name="x", type=sqltypes.BINARY),
    shapes.ShapeColumn(name="o", type=sqltypes.SqlType(name="object")),
)

ROW = shapes.ShapeColumn(name=shapes.ROW, type=sqltypes.integer(19))


def read(text: str) -> None:
    """Parse and bind text; only SqlError may come out."""
    try:
        parse.split(text)
        operation = parse.parse(text)
        if isinstance(operation, operations.Explain):
            operation = operation.statement
        tree = {
            operations.Query: lambda: operation.tree,  # type: ignore[union-attr]
            operations.Insert: lambda: operation.source,  # type: ignore[union-attr]
            operations.ChangeRows: lambda: operation.tree,  # type: ignore[union-attr]
            operations.CreateTable: lambda: operation.query,  # type: ignore[union-attr]
        }.get(type(operation), lambda: None)()
        if tree is None:
            return
        environment = shapes.Environment(context=sql_text.context(), binds=None)
        uses = references.references(tree, environment)
        tables = tuple(
            shapes.TableShape(
                relation=f"r{use.index}", path=("lake", "ns", "t"), columns=(*COLUMNS, ROW)
            )
            for use in uses
        )
        environment = shapes.Environment(context=sql_text.context(), tables=tables, binds=None)
        if isinstance(operation, operations.Insert):
            resolve.bind_into(tree, environment, [column.type for column in COLUMNS[:2]])
        elif isinstance(operation, operations.ChangeRows):
            numbers = [value for clause in operation.clauses for value in clause.values]
            assigned = sum(value is not None for value in numbers)
            resolve.bind_changes(tree, environment, [COLUMNS[0].type] * assigned)
        else:
            resolve.bind_query(tree, environment)
    except errors.SqlError:
        pass


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=25))
def test_words_in_any_order_are_a_statement_or_an_error(words: list[str]) -> None:
    read(" ".join(words))


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(GOOD), st.integers(0, 10**9), st.integers(1, 6))
def test_mutated_statements_are_a_statement_or_an_error(text: str, seed: int, count: int) -> None:
    chance = random.Random(seed)
    words = text.split(" ")
    for _ in range(count):
        place = chance.randrange(len(words))
        match chance.randrange(4):
            case 0:
                words[place] = chance.choice(WORDS)
            case 1:
                words.insert(place, chance.choice(WORDS))
            case 2 if len(words) > 1:
                del words[place]
            case _:
                other = chance.randrange(len(words))
                words[place], words[other] = words[other], words[place]
    read(" ".join(words))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_noise_is_an_error(text: str) -> None:
    read(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
def test_any_expression_is_bound_or_refused(words: list[str]) -> None:
    read(f"select {' '.join(words)} from t")
