"""Conditions on stored columns that WHERE and ON imply, as pruning reads them from a plan.

That they leave no row out is proved over files: `tests/sql/test_pruned_filters.py`.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sql import limits
from sql.plan import predicates
from tests.kit import sql_text

TABLES = {
    "t": pa.table(
        {
            "id": pa.array([1, 2, 3, 4], pa.int64()),
            "grp": pa.array(["a", "a", "b", None], pa.string()),
            "v": pa.array([10, 20, 30, None], pa.int64()),
            "d": pa.array([datetime.date(2024, 1, day) for day in (1, 2, 3, 4)], pa.date32()),
        }
    ),
    "u": pa.table(
        {
            "id": pa.array([2, 3, 5], pa.int64()),
            "name": pa.array(["two", "three", "five"], pa.string()),
        }
    ),
}


def test_conditions_on_stored_columns_are_kept_for_pruning() -> None:
    bound, _ = sql_text.bind(
        "select * from t where id >= 2 and 4 > id and grp in ('a', 'b') and d = '2024-01-02' "
        "and v is null and upper(grp) = 'A' and id between 1 and 9",
        TABLES,
    )

    conditions = [(item.column, item.operator, item.values) for item in bound.filters[0]]
    assert conditions == [
        (0, ">=", (2,)),
        (0, "<", (4,)),
        (1, "in", ("a", "b")),
        (3, "=", (datetime.date(2024, 1, 2),)),
        (2, "is null", ()),
        (0, ">=", (1,)),
        (0, "<=", (9,)),
    ]


def test_conditions_of_an_outer_query_do_not_prune_inside_a_subquery() -> None:
    bound, _ = sql_text.bind(
        "select id from t where not exists (select 1 from u where t.id = 5 and u.id = 2)", TABLES
    )

    assert 0 not in bound.filters
    assert [item.column for item in bound.filters[1]] == [0]


@pytest.mark.parametrize(
    "text",
    [
        "select * from (select id as k, v from t) x where k = 3",
        "select * from (select * from (select distinct id, grp from t) y) x where id = 3",
        "with c as (select id from t) select id from c where id = 3",
        "with c as (select id from t), e as (select id from c where id = 3) select * from e",
    ],
)
def test_a_condition_prunes_through_queries_that_hide_no_rows(text: str) -> None:
    bound, _ = sql_text.bind(text, TABLES)

    assert [(item.column, item.values) for item in bound.filters[0]] == [(0, (3,))]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id = 10 + 10", ("=", (20,))),
        ("id < 3 * 7 - 1", ("<", (20,))),
        ("id = abs(-20)", ("=", (20,))),
        ("id in (2 * 2, 5)", ("in", (4, 5))),
        ("name = 'y' || 'z'", ("=", ("yz",))),
    ],
)
def test_arithmetic_of_constants_prunes_and_is_computed_by_the_engine(
    condition: str, expected: tuple[str, tuple[object, ...]]
) -> None:
    table = pa.table({"id": [19, 20, 4], "name": ["x", "y", "yz"]})
    answer = sql_text.answer(f"select id from t where {condition}", {"t": table})
    (item,) = answer.bound.filters[0]
    assert isinstance(item, predicates.ColumnPredicate)
    assert (item.operator, item.values) == expected
    plain = condition.replace("10 + 10", "20").replace("3 * 7 - 1", "20")
    plain = plain.replace("abs(-20)", "20").replace("2 * 2", "4").replace("'y' || 'z'", "'yz'")
    assert answer.rows == sql_text.answer(f"select id from t where {plain}", {"t": table}).rows


def filters_of(condition: str) -> list[object]:
    table = pa.table(
        {
            "id": pa.array([], pa.int64()),
            "s": pa.array([], pa.string()),
            "r": pa.array([], pa.float64()),
            "wide": pa.array([], pa.decimal128(38, 0)),
            "d": pa.array([], pa.date32()),
            "at": pa.array([], pa.timestamp("us")),
        }
    )
    bound, _ = sql_text.bind(f"select id from t where {condition}", {"t": table})
    return list(bound.filters.get(0, ()))


def column(
    index: int, operator: predicates.Operator, *values: object, negated: bool = False
) -> Any:
    return predicates.ColumnPredicate(
        column=index, operator=operator, values=values, negated=negated
    )


ID, S, R, WIDE, D, AT = range(6)
DAY = datetime.datetime.fromisoformat("2024-03-01")
NEXT_DAY = datetime.datetime.fromisoformat("2024-03-02")
TWO_DAYS_BEFORE = datetime.datetime.fromisoformat("2024-02-27 22:00:00")
CUT = datetime.datetime.fromisoformat("2024-03-01 00:00:00.123456")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("s like 'a\\\\b%'", [column(S, "starts with", "a\\b")]),
        ("s like 'a!%b%' escape '!'", [column(S, "starts with", "a%b")]),
        ("s like 'a!%b' escape '!'", [column(S, "=", "a%b")]),
        ("s not like 'ab%'", [column(S, "starts with", "ab", negated=True)]),
        ("s not like 'ab%c'", []),
        ("s like any ('a%', 'b')", [[column(S, "starts with", "a"), column(S, "=", "b")]]),
        ("s ilike 'ab'", []),
        ("(id, s) = (1, 'a')", [column(ID, "=", 1), column(S, "=", "a")]),
        ("id = any (1, 2)", [[column(ID, "=", 1), column(ID, "=", 2)]]),
        ("id in (1) and id in (2)", [column(ID, "in", 1), column(ID, "in", 2)]),
        ("(id in (1) or id in (2))", [[column(ID, "in", 1), column(ID, "in", 2)]]),
        ("id in (1, null)", []),
        ("id = null", []),
        ("id = 1.5e0", []),
        ("r = 1.5", [column(R, "=", 1.5)]),
        ("wide < 1.5", [column(WIDE, "<", Decimal("1.5"))]),
        ("s = 1", []),
        ("s::int = 1", []),
        ("d = '2024-03-01 01:00:00'::timestamp", []),
        ("at::date = '2024-03-01'", [column(AT, ">=", DAY), column(AT, "<", NEXT_DAY)]),
        ("at::date in ('2024-03-01')", [column(AT, ">=", DAY), column(AT, "<", NEXT_DAY)]),
        ("at < '2024-03-01 00:00:00.123456789'", [column(AT, "<=", CUT)]),
        (
            "not (id = 1 and s = 'a')",
            [[column(ID, "=", 1, negated=True), column(S, "=", "a", negated=True)]],
        ),
        ("id in (1, length(s))", []),
        ("id not in (1, 2)", [column(ID, "in", 1, 2, negated=True)]),
        ("not (id < 3)", [column(ID, "<", 3, negated=True)]),
        ("not (id <> 3)", [column(ID, "=", 3)]),
        ("startswith(s, 'ab')", [column(S, "starts with", "ab")]),
        ("not startswith(s, 'ab')", [column(S, "starts with", "ab", negated=True)]),
        ("startswith(s, '')", []),
        ("startswith(s, null)", []),
        ("startswith(s, s)", []),
        ("startswith(upper(s), 'A')", []),
        # Clocks differ by a day at most, and a cast to a date takes another one.
        ("at > '2024-03-01 00:00:00 +02:00'::timestamp_ltz", [column(AT, ">=", TWO_DAYS_BEFORE)]),
        ("not (at > '2024-03-01 00:00:00 +02:00'::timestamp_ltz)", []),
        ("at::date < '2024-03-01'", [column(AT, "<", DAY)]),
        ("at::date <> '2024-03-01'", []),
        ("at::date in ('2024-03-01', d)", []),
        ("to_date(s) = '2024-03-01'", []),
        ("d::date = '2024-03-01'", [column(D, "=", DAY.date())]),
        ("nvl(id, 1) = 1", []),
        ("id + 0 = 1", []),
        ("case when id = 1 then true else false end", []),
    ],
)
def test_pruning_conditions_are_read_from_the_bound_condition(
    condition: str, expected: list[Any]
) -> None:
    """A list within the list is of parts of which one has to hold."""
    pruning: list[Any] = []
    for each in filters_of(condition):
        match each:
            case predicates.AllOf(parts=parts):
                pruning += parts
            case predicates.AnyOf(parts=(predicates.AllOf(parts=parts),)):
                pruning += parts
            case predicates.AnyOf(parts=parts):
                pruning.append(list(parts))
            case _:
                pruning.append(each)
    assert pruning == expected


@pytest.mark.parametrize(
    "text",
    [
        "select * from (select id from t limit 5) x where id = 3",
        "select * from (select id, row_number() over (order by v) r from t) x where id = 3",
        "select * from (select id, count(*) c from t group by id) x where id = 3",
        "select * from (select u.id from t left join u on t.id = u.id) x where id is null",
        "select * from (select id from t union all select id from u) x where id = 3",
        "with c as (select id from t) select * from c where id = 3 union all select * from c",
        "select * from (select id + 1 as id from t) x where id = 3",
    ],
)
def test_a_condition_stays_outside_of_queries_whose_rows_it_would_change(text: str) -> None:
    bound, _ = sql_text.bind(text, TABLES)

    assert bound.filters == {}


def test_is_null_does_not_prune_beside_an_outer_join() -> None:
    bound, _ = sql_text.bind(
        "select t.id from t left join u on t.id = u.id where u.name is null", TABLES
    )

    assert bound.filters == {}


def test_a_condition_over_two_tables_is_one_of_neither() -> None:
    bound, _ = sql_text.bind(
        "select t.id from t, u where (t.id = 1 or u.id = 2) and (t.id = 1 and u.id = 2"
        " or t.id = 3 and u.name = 'five')",
        TABLES,
    )

    assert bound.filters == {
        0: (predicates.AnyOf(parts=(column(ID, "=", 1), column(ID, "=", 3))),),
        1: (predicates.AnyOf(parts=(column(0, "=", 2), column(1, "=", "five"))),),
    }


def test_a_condition_of_too_many_comparisons_prunes_by_none_of_them() -> None:
    most = limits.PRUNING_TERMS_MAX
    for count, conditions in ((most, 1), (most + 1, 0)):
        terms = " or ".join(f"id = {number}" for number in range(count))
        assert len(filters_of(f"({terms})")) == conditions
