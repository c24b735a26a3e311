"""Texts that are nearly SQL: the grammar's words in any order, good statements with a few changes,
calls of functions with arguments of any type, and noise.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from sql.dialect import functions


def _words(text: str) -> list[str]:
    return text.split()


WORDS: Final = _words(
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

GOOD: Final = [
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

TABLE: Final = """
    create table t (id int, grp varchar(40), v number(10, 2), w number(38, 0), d date,
    ts timestamp_ntz(6), tz timestamp_ltz(6), h time(6), b boolean, f float, x binary,
    o variant, a array)
"""
ROWS: Final = """
    insert into t select column1, column2, column3, column4, column5, column6, column7, column8,
    column9, column10, to_binary(column11, 'hex'), parse_json(column12), parse_json(column13)
    from values
    (1, 'a', 1.25, 1, '2024-02-29', '2024-02-29 12:34:56.789012', '1969-12-31 23:59:59.999999',
     '23:59:59.999999', true, '1.5', 'FF00', '{"a": [1, "x", null]}', '[1, 2]'),
    (-2, '', -99999999.99, 99999999999999999999999999999999999999, '0001-01-01',
     '0001-01-01 00:00:00', '9999-12-31 23:59:59', '00:00:00', false, 'inf', '', 'null', '[]'),
    (0, '\u00e4\u4e2d\U0001f600 % _', 0, -99999999999999999999999999999999999999, '9999-12-31',
     '9999-12-31 23:59:59.999999', '2024-03-31 02:30:00', '12:00:00', null, 'nan', '00', '"t"',
     '[[1], {"k": 2}, null]'),
    (null, null, null, null, null, null, null, null, null, null, null, null, null)
"""
OPERANDS: Final = (
    "id", "grp", "v", "w", "d", "ts", "tz", "h", "b", "f", "x", "o", "a", "null", "0", "-1",
    "1e308", "1", "2.5", "38", "1000000", "9223372036854775807",
    "99999999999999999999999999999999999999",
    "''", "'a'", "'%'", "'YYYY-MM-DD'", "'2024-02-29'", "'12:00:00'", "'month'", "day", "'UTC'",
    "'[('", "'\\\\1'", "true", "'9,999.99'", "to_variant(id)", "array_construct(1, null, 'x')",
    "object_construct('k', v)", "f::number(38, 5)", "current_timestamp()", "interval '1 day'", "*",
)  # fmt: skip
"""Arguments of calls over TABLE."""
TYPED: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("grp", "''", "'a'", "'%a_'", "'[('", "'2024-02-29'"),
    "constant": ("1", "0", "-1", "3", "'a'", "'month'", "'UTC'", "true"),
    "whole": ("id", "1", "0", "-3", "null"),
    "real": ("f", "1.5", "0", "v"),
    "number": ("v", "w", "id", "0.5"),
    "variant": ("o", "parse_json('[1, null]')"),
    "moment": ("d", "ts", "tz", "h"),
    "array": ("a", "array_construct(1, 'x')", "array_construct()"),
    "object": ("o::object", "object_construct('k', v)"),
    "boolean": ("b", "id > 0", "null"),
    "word": ("month", "day", "'hour'", "year"),
    "lambda": ("x -> x", "x -> x > 0"),
}
"""Arguments by what a parameter takes."""


def mutated(chance: random.Random) -> str:
    """Return a good statement with a few words changed."""
    words = chance.choice(GOOD).split(" ")
    for _ in range(chance.randint(1, 6)):
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
    return " ".join(words)


def jumbled(chance: random.Random) -> str:
    """Return words of the grammar in any order."""
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 25)))


def noise(chance: random.Random) -> str:
    """Return characters of all planes, without surrogates, with a statement's word before some."""
    codes = [chance.choice((chance.randrange(128), chance.randrange(0xD800))) for _ in range(40)]
    return chance.choice(("", "select ", "show ", "copy into ")) + "".join(map(chr, codes))


def calling(chance: random.Random) -> str:
    """Return a query of TABLE that calls functions of the dialect."""
    calls = ", ".join(_call(chance, 2) for _ in range(chance.randint(1, 3)))
    ends = ("", " limit 3", " order by 1", " group by all", f" where {_call(chance, 1)} = id")
    return f"select {calls} from t{chance.choice(ends)}"


def _call(chance: random.Random, depth: int) -> str:
    name = chance.choice(NAMES)
    row = functions.FUNCTIONS[name]
    count = chance.randint(row.low, min(row.high, row.low + 2))
    parameters = (*row.required, *row.optional)[:count]
    arguments = []
    for parameter in parameters:
        if depth and chance.random() < 0.2:
            arguments.append(_call(chance, depth - 1))
        elif chance.random() < 0.8:
            arguments.append(chance.choice(TYPED.get(parameter, OPERANDS)))
        else:
            arguments.append(chance.choice(OPERANDS))
    over = " over (partition by grp order by id)" if chance.random() < 0.1 else ""
    return f"{name}({', '.join(arguments)}){over}"


NAMES: Final = tuple(sorted(functions.FUNCTIONS))
