"""Random DELETE, UPDATE and MERGE statements that Snowflake and DuckDB both understand.

The tables are `t(id, k, a, b, d)` and `s(id, k, a, b)`; the ids of `s` differ, so that no row of
`t` is matched twice.
"""

from __future__ import annotations

import random
from typing import Final

TABLES: Final = {
    "t": "id int, k int, a int, b varchar, d date",
    "s": "id int, k int, a int, b varchar",
}


def rows(rng: random.Random, table: str, first: int, count: int) -> str:
    """Return an INSERT of rows with the ids from first on."""
    listed = []
    for number in range(first, first + count):
        cells = [str(number), _number(rng, 5), _number(rng, 100), _text(rng)]
        if table == "t":
            cells.append("null" if rng.random() < 0.2 else f"date '2024-01-{rng.randint(1, 9):02}'")
        listed.append(f"({', '.join(cells)})")
    return f"insert into {table} values {', '.join(listed)}"


def statement(rng: random.Random) -> str:
    """Return one change of t."""
    return rng.choice((_delete, _delete_using, _update, _update, _update_from, _merge, _merge))(rng)


def _number(rng: random.Random, below: int) -> str:
    return "null" if rng.random() < 0.15 else str(rng.randrange(below))


def _text(rng: random.Random) -> str:
    return "null" if rng.random() < 0.15 else f"'{rng.choice('abcde') * rng.randint(1, 3)}'"


def _condition(rng: random.Random, alias: str = "t", *, queries: bool = True) -> str:
    terms = (
        lambda: f"{alias}.k = {rng.randrange(5)}",
        lambda: f"{alias}.a > {rng.randrange(100)}",
        lambda: f"{alias}.id between {rng.randrange(40)} and {rng.randrange(20, 80)}",
        lambda: f"{alias}.b in ('a', 'bb', 'ccc')",
        lambda: f"{alias}.b is null",
        lambda: f"not ({alias}.a < {rng.randrange(100)})",
        lambda: (
            f"{alias}.k in (select k from s where s.a < {rng.randrange(100)} and k is not null)"
        ),
    )
    terms = terms if queries else terms[:-1]
    first = rng.choice(terms)()
    if rng.random() < 0.4:
        return f"({first} {rng.choice(('and', 'or'))} {rng.choice(terms)()})"
    return first


def _value(rng: random.Random, column: str, source: str | None, target: str = "t") -> str:
    name = source if source is not None and rng.random() < 0.7 else target
    if column == "b":
        return rng.choice((f"{name}.b || 'z'", _text(rng), f"coalesce({name}.b, 'none')"))
    return rng.choice(
        (
            f"{name}.a + 1",
            f"coalesce({name}.k, 0) * 2",
            _number(rng, 100),
            f"case when {name}.a > 50 then {name}.k else {name}.a end",
        )
    )


def _assignments(rng: random.Random, source: str | None) -> str:
    chosen = rng.sample(("k", "a", "b"), rng.randint(1, 3))
    return ", ".join(f"{column} = {_value(rng, column, source)}" for column in chosen)


def _delete(rng: random.Random) -> str:
    return f"delete from t where {_condition(rng)}"


def _delete_using(rng: random.Random) -> str:
    return f"delete from t using s where t.k = s.k and {_condition(rng, 's')}"


def _update(rng: random.Random) -> str:
    return f"update t set {_assignments(rng, None)} where {_condition(rng)}"


def _update_from(rng: random.Random) -> str:
    return (
        f"update t set {_assignments(rng, 's')} from s where t.id = s.id and {_condition(rng, 's')}"
    )


def _merge(rng: random.Random) -> str:
    source = rng.choice(("s", "(select id, k, a, b from s where a is not null) as s"))
    whens = []
    for number in range(rng.randint(0, 3)):
        condition = f" and {_condition(rng, rng.choice('st'), queries=False)}" if number < 2 else ""
        action = rng.choice(("delete", f"update set {_assignments(rng, 's')}"))
        whens.append(f"when matched{condition} then {action}")
    for _ in range(rng.randint(0 if whens else 1, 2)):
        values = f"s.id, s.k, {_value(rng, 'a', 's', 's')}, {_value(rng, 'b', 's', 's')}"
        condition = f" and s.a > {rng.randrange(100)}"
        whens.append(f"when not matched{condition} then insert (id, k, a, b) values ({values})")
    on = "t.id = s.id" + (f" and t.k = {rng.randrange(5)}" if rng.random() < 0.2 else "")
    return f"merge into t using {source} on {on} {' '.join(whens)}"
