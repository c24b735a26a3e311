"""Groups of a regular expression, counted without compiling it; Python's `re` is the oracle."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sql.dialect import regexps


@given(st.text(alphabet="()[]\\?:<>P=!a^|*", max_size=12))
def test_groups_are_counted_as_re_counts_them(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            groups = re.compile(pattern).groups
        except re.error:
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
        ("((((a))))", 4),
        ("(" * 1000 + ")" * 1000, 1000),
    ],
)
def test_groups_in_brackets_and_escapes_are_characters(pattern: str, groups: int) -> None:
    assert regexps.group_count(pattern) == groups


def test_a_pattern_that_is_slow_to_compile_is_counted_in_steps_of_its_length() -> None:
    # re.compile() takes minutes for this one.
    assert regexps.group_count("(?i)" + "([a-\uffff])" * 5_000) == 5_000
