"""Expressions inside expressions: the engine's text grows with the user's, or is refused."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sql import engine, errors
from sql.dialect import parse
from tests.kit import sql_text

pytestmark = pytest.mark.campaign

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


DEEP = [
    ("nullif({}, 2.5)", "length('a')", 1),
    ("case {} when 1.5 then 2 when 1 then 1.5 else 1 end", "length('a')", 1.0),
    ("({} between 1 and 2)::int", "length('a')", 1),
    ("({} between 0.5 and 2.25)::number(3, 1)", "length('a') * 1.5", 1),
    ("iff({} between 0 and 1e1, 1e0, 0e0)", "length('a')::float", 1),
    ("div0(1, {})", "length('a')", 1),
    ("div0null(1, {} - 1)", "length('a')", None),
    ("div0(1, {})", "length('a')::float", 1),
    ("greatest({}, nullif(1, 2))", "length('a')", 1),
    ("least({}, nullif(1.5, 2))", "length('a')", 1),
    ("greatest({}, nullif('a', 'b'))", "lower('A')", "a"),
]


@pytest.mark.parametrize(("template", "innermost", "expected"), DEEP)
def test_a_choice_that_is_nested_thirty_deep_grows_with_its_depth(
    template: str, innermost: str, expected: Any
) -> None:
    lengths = [
        len(sql_text.bind(f"select {nested(template, innermost, levels)}")[0].sql)
        for levels in (18, 24, 30)
    ]
    assert lengths[2] < 64 << 10
    assert lengths[2] - lengths[1] < 2 * (lengths[1] - lengths[0]) + 100
    if expected is not None:
        assert sql_text.value(nested(template, innermost, 30)) == expected


LONG_TABLE = pa.table(
    {
        "i": pa.array([1, 0, None, -7, 3]),
        "j": pa.array([2, 0, 3, None, 3]),
        "d": pa.array([Decimal("1.25"), Decimal(0), None, Decimal("-2.5"), Decimal("9.9")]),
        "f": pa.array([1.5, 0.0, None, float("nan"), -2.0]),
        "s": pa.array(["a", "", None, "b", "é"]),
        "b": pa.array([True, False, None, True, False]),
        "t": pa.array([DATE(2024, 1, 2), DATE(1, 1, 1), None, DATE(9999, 1, 1), DATE(2024, 1, 1)]),
    }
)
LONG_CHOICES = [
    "{i} between j and 2",
    "{i} between d and 2",
    "{d} between i and j",
    "{f} between -2 and 1.5",
    "{f} between f and 'NaN'::float",
    "{s} between 'a' and s",
    "{b} between false and b",
    "{t} between '2024-01-01' and t",
    "{t}::timestamp between t and '2024-01-02'",
    *(
        f"{name}({arguments})"
        for name in ("greatest", "least")
        for arguments in (
            "{i}, j",
            "{i}, d, j",
            "{f}, i",
            "i, {f}",
            "{s}, 'aa'",
            "{b}, false",
            "{t}, '2024-01-01'",
        )
    ),
    *(
        f"{name}({arguments})"
        for name in ("div0", "div0null")
        for arguments in ("i, {i}", "i, {d}", "{d}, {j}", "10, {d}", "d, {f}", "f, {i}", "2.5, {i}")
    ),
]


@pytest.mark.smoke
@pytest.mark.parametrize("template", LONG_CHOICES)
def test_a_choice_of_a_long_operand_has_the_value_of_a_short_one(template: str) -> None:
    def value_of(column: str) -> str:
        never = {"i": "1", "d": "1.5", "f": "1e0", "s": "'x'", "b": "true", "t": "current_date()"}
        other = never.get(column, "1")
        return f"iff(length('{'x' * 1100}') = 2, {other}, {column})"

    short = template.format(**{name: name for name in LONG_TABLE.column_names})
    long = template.format(**{name: value_of(name) for name in LONG_TABLE.column_names})
    answers = [
        sql_text.answer(f"select {text} from t", {"t": LONG_TABLE}) for text in (short, long)
    ]
    assert not any(name.startswith(KERNELS) for name in answers[0].bound.functions)
    assert any(name.startswith(KERNELS) for name in answers[1].bound.functions)
    assert [str(cell) for (cell,) in answers[1].rows] == [str(cell) for (cell,) in answers[0].rows]
    assert answers[1].type == answers[0].type


KERNELS = ("_between", "_greatest", "_least", "_div0")

REPEATED = {
    "sign": "sign({}::float)",
    "square": "square({})",
    "decode": "decode({}, null, 2, 2, 1)",
    "boolxor": "bitxor({}, 1)",
}
"""Expressions that write their operand more than once."""


@pytest.mark.smoke
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


@pytest.mark.smoke
@pytest.mark.parametrize("count", [200, 1_000])
def test_a_sum_of_many_decimals_is_flat_and_exact(count: int) -> None:
    text = " + ".join(["1.5"] * count)
    assert sql_text.value(text) == Decimal("1.5") * count


@pytest.mark.smoke
def test_a_long_sum_of_decimals_keeps_every_sign_and_scale() -> None:
    table = pa.table({"d": pa.array([Decimal("1.25"), None], pa.decimal128(10, 2))})
    terms = "".join(f" {'-' if number % 3 else '+'} d + {number}" for number in range(60))
    result = sql_text.answer(f"select d{terms} - (d - 0.125) from t", {"t": table})
    assert [row[0] for row in result.rows] == [
        Decimal("1.25") - 20 * Decimal("1.25") + sum(range(60)) - Decimal("1.125"),
        None,
    ]


def test_a_sum_of_a_thousand_decimal_products_is_planned_in_little_time() -> None:
    table = pa.table({"d": pa.array([Decimal("1.25")], pa.decimal128(10, 2))})
    terms = "".join(f" {'-' if number % 3 else '+'} d * 1.{number}" for number in range(999))
    begin = time.process_time()
    (row,) = sql_text.answer(f"select d{terms} from t", {"t": table}).rows
    assert time.process_time() - begin < SUM_SECONDS_MAX
    signed = (Decimal(f"1.{number}") * (-1 if number % 3 else 1) for number in range(999))
    assert row[0] == Decimal("1.25") + Decimal("1.25") * sum(signed)


SUM_SECONDS_MAX = 8
"""About eight times what it takes here; a sum of that depth took fifteen seconds."""


def _seconds(read: Callable[[str], Any], text: str) -> float:
    """Return the CPU time of reading a text, also of one that is refused."""
    begin = time.process_time()
    with contextlib.suppress(errors.SqlError):
        read(text)
    return time.process_time() - begin


def _takes_less(read: Callable[[str], Any], text: str, *, times: int, other: str) -> bool:
    """Return whether reading a text takes less CPU time than some times that of another one.

    A second and a third try are made where it does not, and the least of the tries counts.
    """
    seconds, of_other = [], []
    for _ in range(3):
        seconds.append(_seconds(read, text))
        of_other.append(_seconds(read, other))
        if min(seconds) < times * min(of_other):
            return True
    return False


def test_a_long_sum_is_looked_through_once() -> None:
    """For placeholders of one row, and for SEQ4 in an aggregate: not once more for each term."""
    placeholders = " + ".join("?" * 10_000)
    assert _takes_less(
        parse.parse,
        f"insert into t select {placeholders}",
        times=4,
        other=f"insert into t values ({placeholders})",
    )
    numbered, plain = (
        f"select {' + '.join([call] * 10_000)} from (select 1 a)" for call in ("seq4()", "sign(1)")
    )
    assert _takes_less(sql_text.bind, numbered, times=3, other=plain)


@pytest.mark.parametrize(
    ("step", "value"),
    [("({} * a)", Decimal(2)), ("({} * d)", Decimal(2)), ("({} * d + a - 2)", Decimal(2))],
)
def test_products_of_products_are_planned_in_time_that_grows_little(
    step: str, value: Decimal
) -> None:
    table = pa.table(
        {"a": pa.array([2, 0], pa.int64()), "d": pa.array([1, 0], pa.decimal128(10, 2))}
    )
    seconds = []
    for count in (8, 18):
        text = "(d + 1)"
        for _ in range(count):
            text = step.format(text)
        begin = time.process_time()
        column = [row[0] for row in sql_text.answer(f"select {text} from t", {"t": table}).rows]
        seconds.append(time.process_time() - begin)
        factor = value**count if step == "({} * a)" else 1
        assert column == [value * factor, -2 if "-" in step else 0]
    assert seconds[1] < seconds[0] * GROWTH_MAX


GROWTH_MAX = 100
"""Some four times what it is here; each further factor took three times longer, 60,000 in all."""


def test_a_long_product_of_too_many_digits_ends_the_query() -> None:
    table = {"t": pa.table({"a": pa.array([10], pa.int64())})}
    assert sql_text.answer(f"select {' * '.join(['a'] * 37)} from t", table).cell == 10**37
    with pytest.raises(engine.EngineFault, match="^1" + "0" * 38):
        sql_text.answer(f"select {' * '.join(['a'] * 38)} * 0 from t", table)


@pytest.mark.parametrize("constant", ["'{}'", "$${}$$", "x'{}'"])
def test_a_constant_may_be_as_long_as_a_text(constant: str) -> None:
    spelled = constant.format("ab" * 100_000)
    size_bytes = 100_000 if constant.startswith("x") else 200_000
    assert sql_text.value(f"octet_length({spelled})") == size_bytes
