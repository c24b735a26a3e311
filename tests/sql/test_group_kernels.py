"""SKEW, KURTOSIS, APPROX_TOP_K, and MAX_BY of several values."""

from __future__ import annotations

import json
import math
import statistics
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.kit import sql_text

NUMBER = pa.decimal128(10, 2)
DOCUMENTED = pa.table(
    {
        "k": pa.array([1, 2, 2, 2, 2], pa.int64()),
        "v": pa.array([Decimal(each) for each in (10, 10, 20, 25, 30)], NUMBER),
        "v2": pa.array([None, Decimal(12), Decimal(22), None, Decimal(35)], NUMBER),
    }
)


def test_the_kurtosis_of_numbers_is_a_number_and_of_less_than_four_null() -> None:
    answer = sql_text.answer(
        "select kurtosis(k), kurtosis(v), kurtosis(v2) from t", {"t": DOCUMENTED}
    )
    assert answer.rows == [(Decimal("5.000000000000"), Decimal("-2.324218750000"), None)]
    assert [column.scale for column in answer.columns] == [12, 12, 12]


def test_the_skew_is_the_documented_one() -> None:
    sparse = pa.array([None, None, Decimal(22), None, Decimal(35)], NUMBER)
    ((k, v, none),) = sql_text.answer(
        "select skew(k), skew(v), skew(v2) from t", {"t": DOCUMENTED.set_column(2, "v2", sparse)}
    ).rows
    # The documented digits are fewer than those of the formula.
    assert k == pytest.approx(-2.236069766, abs=1e-5)
    assert v == pytest.approx(0.05240788515, abs=1e-5)
    assert none is None


def sample(values: list[float], power: int) -> float:
    """Return the sum of the powers of the distances from the mean, in standard deviations."""
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    return sum(((value - mean) / deviation) ** power for value in values)


def test_each_group_and_window_has_its_own_moments() -> None:
    groups: dict[str, list[float]] = {
        "a": [1, 2, 4, 8, 16],
        "b": [5, 5, 5, 5],
        "c": [1, 9],
        "d": [],
    }
    rows = [(name, value) for name, values in groups.items() for value in values]
    rows += [("d", None), ("a", None)]
    table = pa.table({"g": [g for g, _ in rows], "x": pa.array([x for _, x in rows], pa.float64())})
    answer = sql_text.answer(
        "select g, skew(x), kurtosis(x) from t group by g order by g", {"t": table}
    )
    n, values = 5, groups["a"]
    skew = n / ((n - 1) * (n - 2)) * sample(values, 3)
    kurtosis = n * (n + 1) / ((n - 1) * (n - 2) * (n - 3)) * sample(values, 4)
    kurtosis -= 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))
    assert answer.rows[0] == ("a", pytest.approx(skew), pytest.approx(kurtosis))
    assert answer.rows[1:] == [(name, None, None) for name in "bcd"]
    windows = sql_text.answer(
        "select distinct g, skew(x) over (partition by g) from t", {"t": table}
    )
    assert dict(windows.rows) == {"a": pytest.approx(skew), "b": None, "c": None, "d": None}


@pytest.mark.parametrize(("value", "count"), [(0.1, 3), (0.1, 6), (1.1, 7), (1e300, 5), (-0.3, 11)])
def test_equal_values_have_no_skew_though_their_mean_is_rounded(value: float, count: int) -> None:
    table = pa.table({"x": [value] * count})
    answer = sql_text.answer("select skew(x), kurtosis(x) from t", {"t": table})
    assert answer.rows == [(None, None)]


def test_the_skew_of_nan_and_one_value_is_nan() -> None:
    table = pa.table({"x": [float("nan"), 1.0, 1.0, 1.0]})
    ((skew, kurtosis),) = sql_text.answer("select skew(x), kurtosis(x) from t", {"t": table}).rows
    assert math.isnan(skew)
    assert math.isnan(kurtosis)


def parsed(text: str, table: pa.Table) -> list[tuple[Any, ...]]:
    rows = sql_text.answer(text, {"t": table}).rows
    return [
        tuple(json.loads(cell) if isinstance(cell, str) else cell for cell in row) for row in rows
    ]


def test_the_most_frequent_values_are_counted_and_null_is_none_of_them() -> None:
    table = pa.table(
        {
            "s": ["b", "a", None, "b", None, None, "c", "a", "b"],
            "i": pa.array([10, 10, 9, 9, 9, 1, None, None, None], pa.int64()),
        }
    )
    answer = parsed(
        "select approx_top_k(s), approx_top_k(s, 2), approx_top_k(i, 9, 10) from t", table
    )
    assert answer == [([["b", 3]], [["b", 3], ["a", 2]], [[9, 3], [10, 2], [1, 1]])]
    assert parsed("select approx_top_k(s) from t where i > 99", table) == [([],)]


def test_the_best_values_stand_in_the_order_of_their_keys() -> None:
    table = pa.table(
        {
            "id": pa.array([1001, 1002, 1003, 1004, 1005, None], pa.int64()),
            "pay": pa.array([10, 25, 15, None, 5, 20], pa.int64()),
        }
    )
    answer = sql_text.answer(
        "select max_by(id, pay, 3), min_by(id, pay, 3), max_by(id, pay, 9), max_by(id, pay) from t",
        {"t": table},
    )
    shown = [cell.replace(" ", "").replace("\n", "") for cell in answer.rows[0][:3]]
    assert shown == [
        "[1002,undefined,1003]",
        "[1005,1001,1003]",
        "[1002,undefined,1003,1001,1005]",
    ]
    assert answer.rows[0][3] == 1002
    assert parsed("select max_by(id, pay, 3) from t where pay > 99", table) == [([],)]


def test_the_type_of_an_aggregate_is_one_row() -> None:
    answer = sql_text.answer(
        "select system$typeof(count(*)), system$typeof(max(v)) from t", {"t": DOCUMENTED}
    )
    assert answer.rows == [("NUMBER(18,0)[SB8]", "NUMBER(10,2)[SB8]")]
