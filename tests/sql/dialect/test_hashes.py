"""HASH and HASH_AGG: the properties that Snowflake documents; their values are not Snowflake's."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.kit import sql_text

EQUAL = [
    ("10", "10.0", "10::float", "10::number(38, 10)", "to_variant(10)", "to_variant(1e1)"),
    ("0", "-0.0::float", "0.00"),
    ("1.5", "1.5::float", "'1.50'::number(10, 2)", "parse_json('1.5e0')"),
    ("123456789012345680", "123456789012345680::float"),
    ("36028797018963968", "36028797018963968::float", "to_variant(36028797018963968::float)"),
    ("-9007199254740993.0", "-9007199254740993"),
    ("1125899906842624.5", "1125899906842624.5::float"),
    ("to_variant(9007199254740994)", "9007199254740994::float", "9007199254740994"),
    ("99999999999999991611392", "1e23::float", "to_variant(1e23::float)"),
    ("1e300::float", "to_variant(1e300::float)"),
    ("0.00000001", "1e-8::float"),
    ("'NaN'::float", "'NaN'::float"),
    ("null", "null::int", "null::varchar"),
    ("array_construct(1, 2)", "array_construct(1e0, 2)", "parse_json('[1.0, 2e0]')"),
    (
        "'2024-01-01 12:00 +0000'::timestamp_tz",
        "'2024-01-01 13:00 +0100'::timestamp_tz",
        "'2024-01-01 12:00 +0000'::timestamp_ltz",
    ),
]

DIFFERENT = (
    *("10", "'10'", "11", "null", "true", "'true'", "'2024-01-01'", "'2024-01-01'::date"),
    *("'2024-01-01'::timestamp_ntz", "1.5", "-1.5", "''", "'a'", "'A'", "to_binary('61')"),
    *("array_construct()", "object_construct()", "'[]'", "'00:00'::time"),
)


@pytest.mark.parametrize("values", EQUAL, ids=[values[0] for values in EQUAL])
def test_equal_values_have_one_hash_whatever_their_types(values: tuple[str, ...]) -> None:
    listed = ", ".join(f"hash({value})" for value in values)
    ((first, *others),) = sql_text.answer(f"select {listed}").rows
    assert isinstance(first, int)
    assert -(1 << 63) <= first < 1 << 63
    assert others == [first] * len(others)


def test_different_values_and_places_have_different_hashes() -> None:
    listed = [f"hash({value})" for value in DIFFERENT]
    listed += ["hash('a', 'b')", "hash('b', 'a')", "hash('ab', '')", "hash('a', null)"]
    listed += ["hash(null, 'a')", "hash('a\",\"b')"]
    ((*hashes,),) = sql_text.answer(f"select {', '.join(listed)}").rows
    assert None not in hashes
    assert len(set(hashes)) == len(listed)


TABLE = pa.table(
    {
        "i": pa.array([1, 2, None, 2], pa.int64()),
        "s": ["a", None, "c", "b"],
        "f": pa.array([1.0, 2.5, float("inf"), 2.0], pa.float64()),
    }
)


def test_a_star_stands_for_the_columns() -> None:
    answer = sql_text.answer(
        "select hash(*) = hash(i, s, f), hash(i) = hash(f) from t", {"t": TABLE}
    )
    assert answer.rows == [(True, True), (True, False), (True, False), (True, True)]


def aggregated(rows: str, of: str = "*") -> int:
    cell = sql_text.answer(f"select hash_agg({of}) from {rows}").cell
    assert isinstance(cell, int)
    return cell


def test_the_hash_of_rows_has_no_order_and_sees_each_of_them() -> None:
    one = "(values (1, 'a'), (2, 'b'), (2, 'b'), (null, null)) v(i, s)"
    other_order = "(values (2, 'b'), (null, null), (1, 'a'), (2, 'b')) v(i, s)"
    once = "(values (1, 'a'), (2, 'b'), (null, null)) v(i, s)"
    swapped = "(values (1, 'b'), (2, 'a'), (2, 'b'), (null, null)) v(i, s)"
    whole = aggregated(one)
    assert whole == aggregated(other_order) == aggregated(one, "i, s")
    assert whole not in (aggregated(once), aggregated(swapped), aggregated(one, "s, i"))
    assert aggregated(one, "distinct i, s") == aggregated(once)
    assert aggregated(f"{one} where i > 5") == 0


def test_the_hash_of_one_row_is_that_of_its_group() -> None:
    answer = sql_text.answer(
        "select s, hash_agg(i) = hash(i), hash_agg(i) over (partition by s) = hash(i)"
        " from t group by s, i order by s nulls last",
        {"t": TABLE},
    )
    assert answer.rows == [(s, True, True) for s in ("a", "b", "c", None)]
