"""CASE x, DECODE, NULLIF, SIGN: what is equal to what, whichever form the engine computes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.kit import sql_text

TABLE = pa.table(
    {
        "i": pa.array([1, 2, None]),
        "j": pa.array([1, 3, None], pa.int32()),
        "s": pa.array(["a", "", None]),
        "d": pa.array([Decimal("1.00"), Decimal("2.50"), None], pa.decimal128(10, 2)),
        "w": pa.array([Decimal(10**37 + 1), Decimal(0), None], pa.decimal128(38, 0)),
        "f": pa.array([1.0, float("nan"), None]),
    }
)

CASES: list[tuple[str, list[Any]]] = [
    # A branch that no row takes fails no row, in results that are truth values either.
    ("iff(i = 2, false, 10 / (i - 2) = -10)", [True, False, None]),
    ("iff(i = 2, true, 10 / (i - 2) > 0)", [False, True, None]),
    (
        "case when i = 2 then true when 10 / (i - 2) = -10 then false else true end",
        [False, True, True],
    ),
    ("iff(iff(i = 2, false, 10 / (i - 2) = -10) or i = 2, 1, 0)", [1, 1, 0]),
    ("case i when 1 then 'one' when null then 'null' else 'other' end", ["one", "other", "other"]),
    ("case i when 1 then 'one' end", ["one", None, None]),
    ("case i when j then 'same' else 'other' end", ["same", "other", "other"]),
    ("case s when '' then 'empty' when 'a' then 'a' else 'other' end", ["a", "empty", "other"]),
    ("case i when 1.0 then 'one' when '2' then 'two' end", ["one", "two", None]),
    ("case d when 2.5 then 'half' when 1 then 'one' end", ["one", "half", None]),
    ("case f when 'NaN' then 'nan' when 1 then 'one' end", ["one", "nan", None]),
    ("decode(i, 1, 'one', null, 'null', 'other')", ["one", "other", "null"]),
    ("decode(i, 1, 'one', 'other')", ["one", "other", "other"]),
    ("decode(i, j, 'same', 'other')", ["same", "other", "same"]),
    ("decode(s, '', 'empty', 'a', 'a')", ["a", "empty", None]),
    ("nullif(i, 1)", [None, 2, None]),
    ("nullif(i, j)", [None, 2, None]),
    ("nullif(i, null)", [1, 2, None]),
    ("nullif(1, i)", [None, 1, 1]),
    ("nullif(s, '')", ["a", None, None]),
    ("nullif(s, s)", [None, None, None]),
    ("nullif(d, 1)", [None, Decimal("2.50"), None]),
    ("nullif(d, 2.50)", [Decimal("1.00"), None, None]),
    ("nullif(w, 0)", [10**37 + 1, None, None]),
    ("nullif(f, 1)", [None, "nan", None]),
    ("(i = 1)::int", [1, 0, None]),
    ("(i = 1)::number(3, 1)", [Decimal("1.0"), Decimal("0.0"), None]),
    ("sign(i - 1)", [0, 1, None]),
    ("sign(d - 1.5)", [-1, 1, None]),
    ("sign(-w)", [-1, 0, None]),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_a_choice_by_equality_has_snowflakes_rows(text: str, expected: list[Any]) -> None:
    rows = sql_text.answer(f"select {text} from t", {"t": TABLE}).rows
    cells = ["nan" if cell != cell else cell for (cell,) in rows]
    assert cells == expected


def test_the_operand_of_a_case_fails_only_where_the_case_is_reached() -> None:
    text = "iff(i = 1, 'one', case 1 / (i - 1) when 1 then 'two' else 'other' end)"
    assert sql_text.answer(f"select {text} from t", {"t": TABLE}).rows == [
        ("one",),
        ("two",),
        ("other",),
    ]


def test_a_volatile_operand_is_one_value_in_all_branches() -> None:
    text = "case uniform(1, 2, random()) when 1 then 'a' when 2 then 'b' else 'neither' end"
    table = pa.table({"i": pa.array(range(1_000))})
    rows = sql_text.answer(f"select distinct {text} from t", {"t": table}).rows
    assert sorted(rows) == [("a",), ("b",)]


def test_a_nullif_of_text_nested_thirty_deep_has_a_value() -> None:
    text = "upper(s)"
    for _ in range(30):
        text = f"nullif({text}, 'b')"
    assert sql_text.answer(f"select {text} from t", {"t": TABLE}).rows == [("A",), ("",), (None,)]
