"""Sums of products of decimals, whose products are compared with their digits and not cast."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from sql import engine
from tests.kit import sql_text


def scaled(unscaled: int, scale: int) -> Decimal:
    """Return a decimal of any number of digits, which arithmetic of Python's would round."""
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def table(*unscaled: int) -> pa.Table:
    """A table of two equal columns of NUMBER(15,2), whose values may have more digits, as in files
    of others."""
    words = b"".join(value.to_bytes(16, "little", signed=True) for value in unscaled)
    column = pa.Array.from_buffers(pa.decimal128(15, 2), len(unscaled), [None, pa.py_buffer(words)])
    return pa.table({"a": column, "b": column})


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_products_of_the_largest_factors_are_exact(sign: int) -> None:
    largest = sign * (10**15 - 1)
    answered = sql_text.answer(
        "select sum(a * b), avg(a * b), sum(-a * b), sum(distinct a * b), max(a * b) from t",
        {"t": table(*[largest] * 3)},
    )
    square = largest * largest
    assert answered.rows == [
        tuple(scaled(times * square, 4) for times in (3, 1, -3, 1, 1)),
    ]


def test_a_product_is_a_key_and_a_summand_at_once() -> None:
    answered = sql_text.answer(
        "select a * b, (a * b) * 2, sum(a * b), sum((a * b) * 2), sum(sum(a * b)) over (),"
        " sum(a * b) over () from t group by a * b having sum(a * b) > 0 order by sum(a * b)",
        {"t": table(100, 200, 200)},
    )
    assert answered.rows == [
        tuple(map(Decimal, (1, 2, 1, 2, 9, 5))),
        tuple(map(Decimal, (4, 8, 8, 16, 9, 5))),
    ]


def test_sums_of_products_of_three_factors_are_exact() -> None:
    answered = sql_text.answer(
        "select sum(a * (1 - b) * (1 + b)), sum(a * b * 0.5) from t", {"t": table(150, 225, -7)}
    )
    factors = [Decimal("1.50"), Decimal("2.25"), Decimal("-0.07")]
    assert answered.rows == [
        (
            sum(each * (1 - each) * (1 + each) for each in factors),
            sum(each * each * Decimal("0.5") for each in factors),
        )
    ]


@pytest.mark.parametrize("text", ["sum(a * b)", "avg(a * b)", "sum(a * b) over ()"])
@pytest.mark.parametrize("sign", [1, -1])
def test_products_of_more_digits_than_their_columns_declare_end_the_query(
    text: str, sign: int
) -> None:
    # Each product fits in 127 bits, and three of them do not.
    beyond = table(*[8 * 10**18] * 3)
    signed = text.replace("a * b", f"{sign} * a * b")
    with pytest.raises(engine.EngineFault) as caught:
        sql_text.answer(f"select {signed} from t", {"t": beyond})
    assert (caught.value.cause, caught.value.code) == ("value", "100039")
