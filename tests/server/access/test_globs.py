"""Globs of policies: the same answers as expressions give, in bounded work."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.access import globs
from tests.kit import examples

LETTERS = "abé\n."
GLOBS = st.text(alphabet=LETTERS + "*?", max_size=8)
TEXTS = st.text(alphabet=LETTERS, max_size=12)


def expected(pattern, text):
    """Say by an expression whether all of a short text matches; in a long one it backtracks."""
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, text, re.DOTALL) is not None


def matches(pattern, text):
    matched = globs.parse(pattern).matches(text)
    assert globs.build(globs.elements_of(pattern)).matches(text) is matched
    return matched


@given(GLOBS, TEXTS)
@examples.at_most(300)
def test_a_glob_matches_what_its_expression_matches(pattern, text):
    assert matches(pattern, text) is expected(pattern, text)


def simulated(pattern, text):
    """Say the same by following every position of the pattern at once, for texts of any length."""
    positions = {0}
    for character in [*text, None]:
        for star in range(len(pattern)):
            if star in positions and pattern[star] == "*":
                positions.add(star + 1)
        if character is not None:
            positions = {
                position + (pattern[position] != "*")
                for position in positions
                if position < len(pattern) and pattern[position] in ("*", "?", character)
            }
    return len(pattern) in positions


@given(GLOBS, TEXTS)
def test_the_simulation_of_a_glob_matches_what_its_expression_matches(pattern, text):
    assert simulated(pattern, text) is expected(pattern, text)


@given(GLOBS, TEXTS, st.sampled_from(["", "a", "ab", "é"]))
def test_a_glob_matches_in_a_long_text_what_its_simulation_matches(pattern, text, filling):
    """A character that is in no glob makes the text too long for `str.find`."""
    long = "-" * globs.FOUND_CHARS_MAX + filling + text
    assert matches("*" + pattern, long) is simulated("*" + pattern, long)
    assert matches(pattern + "*", text + long) is simulated(pattern + "*", text + long)


@given(st.lists(st.sampled_from(["a", "ab", "*", "?", globs.ANY, globs.STAR]), max_size=8), TEXTS)
def test_literal_signs_of_wildcards_stand_for_themselves(elements, text):
    said = "".join(
        ".*" if each == globs.STAR else "." if each is globs.ANY else re.escape(each)
        for each in elements
    )
    fits = re.fullmatch(said, text, re.DOTALL) is not None
    assert globs.build(elements).matches(text) is fits


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("*a" * 2_500 + "b", "a" * 1_024),
        ("*" + "a?" * 400 + "b*", "a" * 1_024),
        ("*a?" * 1_000 + "*b", "a" * 4_096),
        ("*" + "a" * 1_500 + "b" + "a" * 1_500 + "*", "a" * 4_096),
        ("**Get**?**" * 2_000 + "b", "GetObject" * 100),
    ],
    ids=["stars", "gaps", "stars-and-gaps", "a-long-run", "everything"],
)
def test_a_glob_that_fails_at_its_last_character_fails_without_trying_again(pattern, text):
    """An expression of `.*` does not end within hours."""
    assert not matches(pattern, text)
