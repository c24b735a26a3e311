"""Expressions inside expressions: the engine's text grows with the user's, or is refused."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sql import errors
from tests.kit import sql_text

DATE, STAMP = datetime.date, datetime.datetime

NESTED = [
    ("add_months({}, length('a'))", "'2024-01-31'::timestamp", STAMP(2024, 11, 30)),
    ("add_months({}, length('a'))", "'2024-01-31'::date", DATE(2024, 11, 30)),
    ("dateadd(month, length('a'), {})", "'2024-01-15'::timestamp", STAMP(2024, 11, 15)),
    ("length(left('abc', {}))", "sign(1.5)", 1),
    ("length(right('abc', {}))", "sign(1.5)", 1),
    ("length(lpad('', {}, 'x'))", "sign(1.5)", 1),
    ("length(repeat('x', {}))", "sign(1.5)", 1),
    ("length(space({}))", "sign(1.5)", 1),
    ("length(split_part('a,bc', ',', {}))", "sign(1.5)", 1),
    ("length(substr('ab', {}))", "sign(1.5) + 1", 2),
    ("sign({})", "length('abc')", 1),
    ("sign({})", "length('abc') - 3.5", -1),
    ("nullif({}, 2)", "length('abc')", 3),
    ("nullif({}, 'b')", "upper('a')", "A"),
    ("case {} when 1 then 2 when 2 then 1 end", "length('a')", 1),
    ("case {} when 'a' then 'b' when 'b' then 'a' else 'c' end", "lower('A')", "a"),
    ("decode({}, 1, 2, 2, 1)", "length('a')", 1),
    ("({} = 1)::int", "length('a')", 1),
    ("({} in (1, 3))::int", "length('abc')", 1),
]


def nested(template: str, innermost: str, levels: int) -> str:
    text = innermost
    for _ in range(levels):
        text = template.format(text)
    return text


@pytest.mark.parametrize(
    ("template", "innermost", "expected"), NESTED, ids=[case[0] for case in NESTED]
)
def test_a_function_writes_its_operand_once_however_deep_it_is_nested(
    template: str, innermost: str, expected: Any
) -> None:
    lengths = [
        len(sql_text.bind(f"select {nested(template, innermost, levels)}")[0].sql)
        for levels in (2, 3, 4)
    ]
    assert lengths[2] - lengths[1] == lengths[1] - lengths[0]
    assert sql_text.value(nested(template, innermost, 10)) == expected


REPEATED = {
    "sign": "sign({}::float)",
    "square": "square({})",
    "nullif": "nullif({}, 2.5)",
    "case": "case {} when 1.5 then 2 when 2 then 1 end",
    "between": "({} between 1 and 2)::int",
    "decode": "decode({}, null, 2, 2, 1)",
    "div0": "div0(1, {})",
    "boolxor": "bitxor({}, 1)",
    "greatest": "greatest({}, nullif(1, 2))",
}
"""Expressions that write their operand more than once."""


@pytest.mark.parametrize("innermost", ["length('a')", "(select 1)", "(select length('a'))"])
@pytest.mark.parametrize("template", REPEATED.values(), ids=REPEATED)
def test_an_expression_that_would_outgrow_the_engine_is_refused_before_it_does(
    template: str, innermost: str
) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(f"select {nested(template, innermost, 20)}")
    assert caught.value.code == "000002"
    assert "repeats its operands" in caught.value.message


def test_a_query_in_an_expression_may_be_as_long_as_its_tables_ask() -> None:
    columns = ", ".join(f"{number} as c{number}" for number in range(10_000))
    query = f"(select count(*) from (select {columns}) t)"
    bound, _ = sql_text.bind(f"select abs(1 + {query})")
    assert len(bound.sql) > 128 << 10


def test_a_long_expression_of_many_terms_is_none_that_outgrows() -> None:
    members = ", ".join(f"{number}.25" for number in range(10_000))
    bound, _ = sql_text.bind(f"select 1.25 in ({members})")
    assert len(bound.sql) > 300_000


@pytest.mark.parametrize("count", [200, 400])
def test_a_sum_of_many_decimals_is_flat_and_exact(count: int) -> None:
    text = " + ".join(["1.5"] * count)
    assert sql_text.value(text) == Decimal("1.5") * count


def test_a_long_sum_of_decimals_keeps_every_sign_and_scale() -> None:
    table = pa.table({"d": pa.array([Decimal("1.25"), None], pa.decimal128(10, 2))})
    terms = "".join(f" {'-' if number % 3 else '+'} d + {number}" for number in range(60))
    result = sql_text.answer(f"select d{terms} - (d - 0.125) from t", {"t": table})
    assert [row[0] for row in result.rows] == [
        Decimal("1.25") - 20 * Decimal("1.25") + sum(range(60)) - Decimal("1.125"),
        None,
    ]
