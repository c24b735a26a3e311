"""The canonical text of values, and what leaves the engine for it."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql import variants
from tests.kit import examples

WHOLE = st.integers(-(10**37), 10**37)
"""What a NUMBER holds; longer ones become FLOATs."""

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | WHOLE
    | st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-1e9, max_value=1e9)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


def as_json(value: Any) -> str:
    return json.dumps(value, default=lambda number: float(number), ensure_ascii=False)


@given(VALUES)
@examples.at_most(200)
def test_canonical_text_is_json_that_reads_back_as_it_was(value: Any) -> None:
    canonical = variants.parse_json(as_json(value))
    assert variants.parse_json(canonical) == variants.dumps(variants.loads(canonical))
    assert variants.dumps(variants.loads(canonical)) == canonical
    plain = json.loads(variants.plain_text(canonical))
    assert as_json(plain) == as_json(json.loads(variants.shown(canonical)))
    assert plain == json.loads(as_json(value)) or not math.isfinite(sum(_numbers(plain)))


def _numbers(value: Any) -> list[float]:
    if isinstance(value, list):
        return [number for item in value for number in _numbers(item)]
    if isinstance(value, dict):
        return _numbers(list(value.values()))
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


@given(
    WHOLE | st.floats(-1e15, 1e15),
    WHOLE | st.floats(-1e15, 1e15),
)
@examples.at_most(300)
def test_numbers_are_ordered_by_their_size(left: float, right: float) -> None:
    keys = [variants.order_text(variants.loads(repr(side))) for side in (left, right)]
    assert (keys[0] < keys[1], keys[0] == keys[1]) == (left < right, left == right)


@given(st.text(), st.text())
@examples.at_most(200)
def test_texts_and_arrays_of_them_are_ordered_by_code_points(left: str, right: str) -> None:
    sides = [variants.text_value(side) for side in (left, right)]
    keys = [variants.order_text(side) for side in sides]
    listed = [variants.order_text([side, 1]) for side in sides]
    assert (keys[0] == keys[1]) == (left == right) == (listed[0] == listed[1])
    if "\0" not in left + right:
        assert (keys[0] < keys[1]) == (left < right)


def test_a_text_that_begins_with_the_mark_stays_a_text() -> None:
    canonical = variants.parse_json('["\\u0001d2024-01-01", "\\u0001"]')
    value = variants.loads(canonical)
    assert [variants.type_name(item) for item in value] == ["VARCHAR", "VARCHAR"]
    assert [variants.scalar_text(item) for item in value] == ["\x01d2024-01-01", "\x01"]
    assert json.loads(variants.plain_text(canonical)) == ["\x01d2024-01-01", "\x01"]


def test_marks_and_texts_that_look_like_them_stand_beside_each_other() -> None:
    canonical = variants.parse_json('[undefined, nan, "\\u0001u"]')
    assert variants.shown(canonical).split() == ["[", "undefined,", "NaN,", '"\\u0001u"', "]"]


@pytest.mark.parametrize(
    ("text", "shown"), [("NaN", "NaN"), ("Infinity", "inf"), ("-Infinity", "-inf")]
)
def test_a_number_that_is_not_finite_is_a_float(text: str, shown: str) -> None:
    value = variants.loads(text)
    assert variants.type_name(value) == "DOUBLE"
    assert variants.scalar_text(value) == variants.shown(variants.parse_json(text)) == shown
    again = variants.loads(variants.parse_json(text))
    assert variants.order_text(value) == variants.order_text(again)


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    for text in ('"\\ud83d"', '["\\ud83d", 1.5]', '["\\ude00\\ud83d", 1.5]'):
        with pytest.raises(variants.BadJson):
            variants.loads(text)
    assert variants.loads('["\\ud83d\\ude00", 1.5]')[0] == "\U0001f600"


def test_many_comments_are_refused_as_fast_as_few() -> None:
    # Each comment could end at each later end of one: 2 ** 1,000 ways to read this text.
    for comment in ("/* */", "//a"):
        with pytest.raises(variants.BadJson):
            variants.parse_json("[1 " + comment * 1_000 + "\n !]")


def test_a_table_stores_json_alone() -> None:
    canonical = variants.dumps([variants.UNDEFINED, "\x01d2024-01-01", "\x01fNaN", 1])
    assert json.loads(variants.stored_text(canonical)) == [None, "2024-01-01", "NaN", 1]


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a.b[0]", ("a", "b", 0)),
        ('["c d"].e', ("c d", "e")),
        ("a['b''c']", ("a", "b'c")),
        ('a."b.c"', ("a", "b.c")),
        ("", ()),
    ],
)
def test_a_path_has_its_steps(path: str, steps: tuple[str | int, ...]) -> None:
    assert variants.parse_path(path) == steps
    assert variants.parse_path(variants.path_text(steps)) == steps


@pytest.mark.parametrize("path", [".a", "a..b", "a[", "a[x]", "a[-1]", "a]"])
def test_another_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        variants.parse_path(path)


def test_a_value_is_indented_by_as_many_blanks_as_the_session_has() -> None:
    canonical = variants.parse_json('{"a": [1, {"b": "x\\n    y"}], "c": {}, "d": [], "e": 1.5e0}')
    plain = '{"a":[1,{"b":"x\\n    y"}],"c":{},"d":[],"e":1.500000000000000e+00}'
    assert variants.shown(canonical, indent=0) == plain
    for indent in (1, 2, 3, 16):
        assert variants.shown(canonical, indent=indent) == _indented(plain, " " * indent)
    for text in ("[]", "{}", "1", '"x"', "null"):
        assert variants.shown(text, indent=4) == text


def test_a_member_that_is_named_twice_is_refused_in_linear_time() -> None:
    count = 20_000
    plain = ",".join(f'"k{number}":1' for number in range(count))
    started_at = time.process_time()
    variants.parse_json(f"{{{plain}}}")
    seconds = time.process_time() - started_at

    started_at = time.process_time()
    with pytest.raises(variants.BadJson, match=f'duplicate object attribute "k{count - 1}"'):
        variants.parse_json(f'{{{plain},"k{count - 1}":2}}')
    assert time.process_time() - started_at < 20 * seconds


def _indented(plain: str, blanks: str) -> str:
    """Return compact JSON, of which no text has a mark of JSON in it, with one element a line."""
    written, depth = "", 0
    for index, mark in enumerate(plain):
        if mark in "[{":
            depth += plain[index + 1] not in "]}"
            written += mark + ("" if plain[index + 1] in "]}" else f"\n{blanks * depth}")
        elif mark in "]}" and plain[index - 1] not in "[{":
            depth -= 1
            written += f"\n{blanks * depth}{mark}"
        elif mark == ",":
            written += f",\n{blanks * depth}"
        else:
            written += ": " if mark == ":" else mark
    return written
