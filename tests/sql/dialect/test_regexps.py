"""Groups of a regular expression, counted without compiling it; RE2 is the oracle."""

from __future__ import annotations

import pytest
import re2
from hypothesis import assume, given
from hypothesis import strategies as st

from sql import engine
from sql.dialect import regexps
from tests.kit import sql_text


@given(st.text(alphabet="()[]\\?:<>P=!a^|*QE", max_size=12))
def test_groups_are_counted_as_re2_counts_them(pattern: str) -> None:
    options = re2.Options()
    options.log_errors = False
    try:
        groups = re2.compile(pattern, options).groups
    except re2.error:
        assume(False)
    assert regexps.group_count(pattern) == groups


@pytest.mark.parametrize(
    ("pattern", "groups"),
    [
        ("", 0),
        ("(a)(?:b)(?P<c>c)(?i:d)(?=e)(?<=f)(?<!g)", 2),
        (r"\((a\))", 1),
        ("[(](a)[])(](b)[^])(](c)", 3),
        ("[[:alpha:](](a)", 1),
        ("[[:^alpha:](](a)", 1),
        (r"\Q(a\E(b)\Q(", 1),
        (r"\\Q(a)", 1),
        ("((((a))))", 4),
        ("(" * 1000 + ")" * 1000, 1000),
    ],
)
def test_groups_in_brackets_and_escapes_are_characters(pattern: str, groups: int) -> None:
    assert regexps.group_count(pattern) == groups


def test_a_pattern_that_is_slow_to_compile_is_counted_in_steps_of_its_length() -> None:
    assert regexps.group_count("(?i)" + "([a-\uffff])" * 5_000) == 5_000


PLACED = [
    ("'aé\n'", "é$"),
    ("'ab1c2'", "[[:^alpha:]]"),
    ("'1é2ü'", r"\\p{L}"),
    ("'a\n'", r"\\z"),
    ("'ab\n'", r"b\\z"),
    ("'éa1 ü_2'", r"\\w+"),
    ("'日本 語本'", "本"),
    ("'ab\n'", "b$"),
    ("'aba'", "x*"),
    ("'Éé'", "(?i)é"),
]


@pytest.mark.parametrize("occurrence", [1, 2])
@pytest.mark.parametrize(("value", "pattern"), PLACED, ids=[pattern for _, pattern in PLACED])
def test_the_text_of_a_match_stands_at_its_place(value: str, pattern: str, occurrence: int) -> None:
    matched = f"regexp_substr({value}, '{pattern}', 1, {occurrence})"
    place = f"regexp_instr({value}, '{pattern}', 1, {occurrence})"
    text, start, at_place = sql_text.answer(
        f"select {matched}, {place}, substr({value}, {place}, length({matched}))"
    ).rows[0]
    assert (text is None) == (start == 0)
    if text is not None:
        assert at_place == text


def test_a_pattern_that_backtracks_is_matched_in_linear_time() -> None:
    # A backtracking matcher takes 2 ** 5000 steps.
    text = "a" * 5_000 + "!"
    assert sql_text.value(f"regexp_instr('{text}', '^(a+)+$')") == 0
    assert sql_text.value(f"regexp_substr('{text}', '^(a+)+$', 1, 1)") is None


@pytest.mark.parametrize("pattern", ["(a", "a(?=b)", "(a{1000}){1000}", "[a-é" + "x" * 10])
def test_a_pattern_that_is_none_or_too_large_is_refused(pattern: str) -> None:
    for name in ("regexp_instr", "regexp_substr"):
        with pytest.raises(engine.EngineFault) as caught:
            sql_text.value(f"{name}('abc', '{pattern}')")
        assert caught.value.code == "100048"
