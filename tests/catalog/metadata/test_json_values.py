"""Typed reads from JSON: how many values a document has."""

from __future__ import annotations

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from catalog import commits
from catalog.metadata import json_values

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=20,
)


def count(value):
    if isinstance(value, dict):
        return 1 + sum(map(count, value.values()))
    if isinstance(value, list | tuple):
        return 1 + sum(map(count, value))
    return 1


@given(DOCUMENTS)
def test_values_of_a_document_are_itself_and_all_members_at_any_depth(document):
    size = count(document)
    assert not json_values.has_more_values(document, size)
    assert json_values.has_more_values(document, size - 1)
    assert json_values.has_more_values(document, 0)


@given(DOCUMENTS, DOCUMENTS)
@example([[]] * 993, [0] * 1_000)
@example([], [0] * 1_985)
@example([], [[[[[]]]]] * 400)
def test_a_short_json_text_has_no_more_values_than_the_event_loop_may_apply(asserted, updates):
    text = msgspec.json.encode({"requirements": asserted, "updates": updates})
    if len(text) <= commits.SMALL_CHANGE_BYTES:
        values = [(asserted, updates)]
        assert not json_values.has_more_values(values, commits.LARGE_CHANGE_VALUES)


def test_values_of_a_long_list_are_more_than_a_small_bound():
    assert json_values.has_more_values([[0] * 100_000] * 3, 10)
    assert not json_values.has_more_values("a" * 100_000, 1)
