"""FILTER, TRANSFORM and REDUCE: lambdas over the elements of arrays.

Many cases are those of Snowflake's pages of these functions.
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sql import engine, errors, faults, lambda_kernels
from sql.dialect import lambdas
from tests.kit import sql_text

PEOPLE = (
    "[{'name': 'Pat', 'value': 50}, {'name': 'Terry', 'value': 75}, {'name': 'Dana', 'value': 25}]"
)

ARRAYS: list[tuple[str, Any]] = [
    ("transform([1, 2, 3], a int -> a * 2)", [2, 4, 6]),
    (
        f"transform({PEOPLE}, c -> c:value || ' is the number')",
        [f"{n} is the number" for n in (50, 75, 25)],
    ),
    (
        f"filter({PEOPLE}, a -> a:value >= 50)",
        [{"name": "Pat", "value": 50}, {"name": "Terry", "value": 75}],
    ),
    ("filter([1, null, 3, 5, null], a -> a is not null)", [1, 3, 5]),
    ("filter([1, null, 3], a -> a > 1)", [3]),
    ("filter(['1', 'b'], A -> a = 'b')", ["b"]),
    ("filter([], a -> true)", []),
    ("transform([1, 2], x -> 7)", [7, 7]),
    ("transform([1.5, 2], x number(10, 1) -> x + 0.5)", [2, 2.5]),
    ("transform(['2024-02-28'], d date -> dateadd(day, 1, d))", ["2024-02-29"]),
    # the written type's length, scale and digits of a second
    ("transform(['abc'], x varchar(2) -> x)", ["ab"]),
    ("transform([1.26], x number(3, 1) -> x)", [1.3]),
    (
        "transform(['2024-01-01 00:00:00.98765'], t timestamp_ntz(3) -> t)",
        ["2024-01-01 00:00:00.987"],
    ),
    (
        "transform([1, 2], x -> {'n': x, 'is': x = 2})",
        [{"is": False, "n": 1}, {"is": True, "n": 2}],
    ),
    # lambdas in each other; an inner parameter hides an outer one
    ("transform([[1, 2], [3]], r -> transform(r, e -> e::int + array_size(r)))", [[3, 4], [4]]),
    ("transform([[1], [2, 3]], x -> filter(x, x -> x > 1))", [[], [2, 3]]),
    ("transform([[1, 2], [3, 4]], r -> reduce(r, 0, (a int, x int) -> a + x))", [3, 7]),
    ("transform(filter([1, 2, 3], x -> x > 1), x int -> x * x)", [4, 9]),
    ("reduce([1, 2, 3, 4], [], (acc, val) -> array_prepend(acc, val))", [4, 3, 2, 1]),
]


@pytest.mark.parametrize(("expression", "expected"), ARRAYS)
def test_a_lambda_makes_an_array(expression: str, expected: Any) -> None:
    assert json.loads(sql_text.value(expression)) == expected


VALUES: list[tuple[str, Any]] = [
    ("reduce([1, 2, 3], 0, (acc, val) -> acc + val)", 6),
    ("reduce([1, 2, 3], 10, (acc, val) -> acc + val)", 16),
    ("reduce([1, 2, 3], 0, (acc, val) -> acc + val * val)", 14),
    ("reduce([1, null, 2, null, 3, 4], 0, (acc, val) -> acc + zeroifnull(val))", 10),
    ("reduce(['a', 'b', 'c'], '', (acc, val) -> acc || ' ' || val)", " a b c"),
    ("reduce([5, 10, 15], 0, (acc, val) -> iff(val < 7, acc + val * val, acc + val))", 50),
    ("reduce([1, 2, 3], 0, (acc int, val int) -> acc + val)", 6),
    ("reduce([9223372036854775807, 1], 0, (a int, x int) -> a + x)", 9223372036854775808),
    (
        "reduce([1, 2], '2024-01-01'::date, (d, n int) -> dateadd(day, n, d))",
        datetime.date(2024, 1, 4),
    ),
    ("reduce([], 'a', (acc, val) -> acc || val)", "a"),
    ("reduce([1, 2], 1.26, (a number(10, 1), x int) -> a + x)", Decimal("4.3")),
    ("reduce(['b', 'c'], 'xyz', (a varchar(2), x varchar) -> a || x)", "xyc"),
    # NULL: of no array, of no first value, and where the lambda gives it
    ("reduce(null, 0, (acc, val) -> acc + val)", None),
    ("reduce([1], null, (acc, val) -> acc + val)", None),
    ("reduce([1, null], 0, (acc, val) -> acc + val)", None),
    ("transform(null, x -> x)", None),
    ("transform(parse_json('{}'), x -> x)", None),
    ("filter(parse_json('null'), x -> true)", None),
    ("array_size(transform([1, null], x -> null))", 2),
    ("transform([1, null], x -> x)[1] is null", True),
]


@pytest.mark.parametrize(("expression", "expected"), VALUES)
def test_a_lambda_makes_a_value(expression: str, expected: Any) -> None:
    assert sql_text.value(expression) == expected


MANY = lambda_kernels.REDUCED_ELEMENTS_MAX + 1

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "s": ["1,2,3", "4", None, ""],
        "n": pa.array([0, 10, 20, None], pa.int64()),
        "w": ["a", "b", "c", "d"],
        "d": pa.array(["2024-01-01"] * 4).cast(pa.timestamp("us")),
    }
)


def test_an_accumulator_s_timestamp_is_what_the_session_says() -> None:
    context = sql_text.context(timestamp_mapping="TIMESTAMP_LTZ")
    answer = sql_text.answer(
        "select reduce([1], '2024-01-01', (a timestamp, n int) -> dateadd(day, n, a)) as r",
        context=context,
    )
    assert answer.columns[0].type == "timestamp_ltz"
    assert answer.cell.date() == datetime.date(2024, 1, 2)


def test_a_lambda_reads_the_columns_of_its_row() -> None:
    answer = sql_text.answer(
        "select id, array_to_string(transform(split(s, ','), e -> w || e || t.n), '|'),"
        " reduce(split(s, ','), 10, (acc, val) -> (acc + n) + try_to_number(val::varchar)),"
        " array_size(filter(split(s, ','), e -> e::varchar <> w and year(d) = 2024))"
        " from t where id <> 9 order by id",
        {"t": TABLE},
    )
    assert answer.rows == [
        (1, "a10|a20|a30", 16, 3),
        (2, "b410", 24, 1),
        (3, None, None, None),
        (4, "", None, 1),
    ]


def test_a_lambda_stands_over_aggregates_and_in_conditions() -> None:
    answer = sql_text.answer(
        "select array_to_string("
        "transform(array_agg(id) within group (order by id), x int -> x * 2), ',')"
        " from t where array_size(filter(split(s, ','), e -> length(e) > 0)) > 0",
        {"t": TABLE},
    )
    assert answer.cell == "2,4"


def test_a_column_through_two_lambdas_is_that_of_the_row() -> None:
    answer = sql_text.answer(
        "select transform([[1], [2]], r -> transform(r, e -> e || w))[1][0]::varchar from t"
        " order by id",
        {"t": TABLE},
    )
    assert answer.rows == [("2a",), ("2b",), ("2c",), ("2d",)]


def test_many_rows_and_elements_keep_their_places() -> None:
    count = 30_000
    table = pa.table({"i": pa.array(range(count), pa.int64())})
    answer = sql_text.answer(
        "select count_if(transform(array_construct(i, i + 1), x int -> x * 2)[1]::int = 2 * i + 2),"
        " sum(reduce(array_construct(1, i), 0, (a int, x int) -> a + x)) from t",
        {"t": table},
    )
    assert answer.rows == [(count, count + count * (count - 1) // 2)]


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("filter([1], (a, b) -> true)", "000002"),
        ("reduce([1], 0, x -> x)", "000002"),
        ("transform([1], 5)", "001044"),
        ("upper(x -> x)", "000002"),
        ("transform(1, x -> x)", "001044"),
        ("transform([1], x -> y)", "000904"),
        ("transform([1], x -> random())", "000002"),
        ("transform([1], x -> sum(x))", "000002"),
        ("transform([1], x -> (select 1))", "000002"),
        ("transform([1], x -> x in (select 1))", "000002"),
        ("reduce([1], true, (a, x) -> '2024-01-01'::date)", "001065"),
    ],
)
def test_what_a_lambda_is_not_is_refused(expression: str, code: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(f"select {expression}")
    assert caught.value.code == code


def test_elements_are_evaluated_some_at_a_time_with_the_columns_of_their_rows() -> None:
    sizes = []

    @contextlib.contextmanager
    def joined(_: lambda_kernels.Lambda) -> Iterator[lambda_kernels.Evaluate]:
        def evaluate(batch: pa.RecordBatch) -> Any:
            sizes.append(batch.num_rows)
            return pc.binary_join_element_wise(batch["p0"], batch["c0"], "")

        yield evaluate

    computed = lambda_kernels.Lambda(
        text="", functions=(), arguments=("Utf8", "Utf8"), result="Utf8"
    )
    kernel = lambda_kernels.kernel("transform", computed, joined, zone="UTC")
    rows = 3_001
    arrays = pa.array(["[1,2,3]", "[]", None, "[4]"] * rows)
    owners = pa.array([str(row % 10) for row in range(4 * rows)])
    values = kernel.function(arrays, owners).to_pylist()
    expected = []
    for row in range(0, 4 * rows, 4):
        first = ",".join(f"{element}{row % 10}" for element in (1, 2, 3))
        expected += [f"[{first}]", "[]", None, f"[4{(row + 3) % 10}]"]
    assert values == expected
    assert max(sizes) <= lambda_kernels.ELEMENTS_AT_ONCE
    assert sum(sizes) == 4 * rows


def test_lambdas_in_each_other_are_bounded() -> None:
    def nested(depth: int) -> str:
        text = "x::int"
        for _ in range(depth):
            text = f"transform([1], x -> {text})"
        return text

    cell = sql_text.value(nested(lambdas.DEPTH_MAX))
    assert json.loads(cell) == [[[[1]]]]
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(f"select {nested(lambdas.DEPTH_MAX + 1)}")
    assert caught.value.code == "000002"


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("transform([1, 0], x int -> 1 / x)", "100051"),
        ("transform(['a'], x int -> x)", "100071"),
        ("transform([12345], x number(3, 0) -> x)", "100071"),
        ("transform([1, 2], x -> repeat('a', 16000000))", "100078"),
        ("reduce(array_generate_range(0, 26), 'x', (acc, x) -> acc || acc)", "100078"),
        (
            f"reduce(array_generate_range(0, {MANY}), 0, (acc, x) -> acc + x)",
            "000002",
        ),
    ],
)
def test_an_error_in_a_lambda_is_the_query_s(expression: str, code: str) -> None:
    with pytest.raises(engine.EngineFault) as caught:
        sql_text.value(expression)
    assert faults.of_engine(caught.value).code == code
