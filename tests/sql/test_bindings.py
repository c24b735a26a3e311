"""Bind values."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql import bindings, errors
from tests.kit import examples


def value(type_name: str, text: str | None) -> Any:
    return bindings.parse({"1": {"type": type_name, "value": text}})["1"].value


@pytest.mark.parametrize(
    ("type_name", "text", "expected"),
    [
        ("FIXED", "7", 7),
        ("fixed", "-12345678901234567890123456789012345678",
         -12345678901234567890123456789012345678),
        ("FIXED", "1.25", Decimal("1.25")),
        ("REAL", "1e3", 1000.0),
        ("REAL", "-inf", -math.inf),
        ("TEXT", "it's", "it's"),
        ("BOOLEAN", "true", True),
        ("BOOLEAN", "False", False),
        ("BINARY", "00ab", b"\x00\xab"),
        ("DATE", "1709164800000", datetime.date(2024, 2, 29)),
        ("DATE", "-86400000", datetime.date(1969, 12, 31)),
        ("TIME", "45296500000000", 45_296_500_000_000),
        ("TIMESTAMP_NTZ", "-500000000", -500_000_000),
        ("TIMESTAMP_LTZ", "0", 0),
        ("TIMESTAMP_TZ", "0", bindings.Zoned(nanos=0, offset_minutes=0)),
        ("TIMESTAMP_TZ", "5 1500", bindings.Zoned(nanos=5, offset_minutes=60)),
        ("TIMESTAMP_TZ", "5 960", bindings.Zoned(nanos=5, offset_minutes=-480)),
        ("VARIANT", '{"a":1}', '{"a":1}'),
        ("ANY", None, None),
        ("FIXED", None, None),
    ],
)  # fmt: skip
def test_each_type_is_read(type_name: str, text: str | None, expected: Any) -> None:
    assert value(type_name, text) == expected
    assert type(value(type_name, text)) is type(expected)


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("FIXED", ""), ("FIXED", "x"), ("FIXED", "NaN"), ("FIXED", "1E+40"), ("FIXED", "9" * 60),
        ("REAL", "x"), ("BOOLEAN", "yes"), ("BINARY", "0"), ("BINARY", "zz"), ("DATE", "1.5"),
        ("DATE", "9" * 30), ("TIME", "-1"), ("TIME", "86400000000000"), ("TIMESTAMP_NTZ", "x"),
        ("TIMESTAMP_NTZ", "9" * 30), ("TIMESTAMP_TZ", "1 9999"), ("TIMESTAMP_TZ", "1 x"),
        ("NO_TYPE", "1"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_name(type_name: str, text: str) -> None:
    with pytest.raises(errors.SqlError, match="Bind variable 1") as caught:
        value(type_name, text)
    assert (caught.value.code, caught.value.sqlstate) == ("002049", "42601")


def test_lists_are_one_value_per_row() -> None:
    bound = bindings.parse(
        {
            "1": {"type": "FIXED", "value": ["1", None, "3"]},
            "name": {"type": "TEXT", "value": ["a", "b", "c"]},
            "2": {"type": "TEXT", "value": "every row"},
        }
    )
    assert bound["1"] == bindings.Binding(type="fixed", values=(1, None, 3), is_array=True)
    assert bound["name"].values == ("a", "b", "c")
    assert not bound["2"].is_array


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(errors.SqlError, match="different lengths"):
        bindings.parse(
            {"1": {"type": "FIXED", "value": ["1"]}, "2": {"type": "FIXED", "value": []}}
        )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@examples.at_most(200)
@given(
    st.dictionaries(
        st.text(max_size=3),
        st.fixed_dictionaries({"type": st.sampled_from(sorted(bindings.READERS)), "value": JSON})
        | JSON,
        max_size=3,
    )
)
def test_garbage_gives_values_or_the_one_error(raw: dict[str, Any]) -> None:
    try:
        bound = bindings.parse(raw)
    except errors.SqlError as error:
        code = error.code
    else:
        code = "002049" if bound.keys() == raw.keys() else "names were lost"
    assert code == "002049"
