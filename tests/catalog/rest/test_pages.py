"""Pages of listings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import errors
from catalog.rest import pages

NAMES = ["a", "b", "z", "é", "\U0001f600"]


def test_without_a_token_a_listing_is_whole() -> None:
    assert pages.cut(NAMES, {"pageSize": "1"}, listing="x") == (NAMES, None)


def test_an_empty_token_begins_paging() -> None:
    page, token = pages.cut(NAMES, {"pageToken": "", "pageSize": "2"}, listing="x")
    assert page == ["a", "b"]
    assert token is not None
    page, token = pages.cut(NAMES, {"pageToken": token, "pageSize": "2"}, listing="x")
    assert page == ["z", "é"]
    assert token is not None
    page, token = pages.cut(NAMES, {"pageToken": token, "pageSize": "2"}, listing="x")
    assert (page, token) == (["\U0001f600"], None)


def test_a_page_that_ends_with_the_listing_is_the_last() -> None:
    assert pages.cut(NAMES, {"pageToken": "", "pageSize": "5"}, listing="x") == (NAMES, None)
    assert pages.cut([], {"pageToken": ""}, listing="x") == ([], None)


def test_entries_that_come_and_go_meanwhile_neither_repeat_nor_hide_others() -> None:
    _, token = pages.cut(NAMES, {"pageToken": "", "pageSize": "2"}, listing="x")
    assert token is not None
    changed = ["0", "a", "c", "z"]
    assert pages.cut(changed, {"pageToken": token}, listing="x") == (["c", "z"], None)


@pytest.mark.parametrize("size", ["0", "-1", "x", "", "1.5", "²"])
@pytest.mark.parametrize("token", [{}, {"pageToken": ""}])
def test_a_page_size_is_a_positive_number(size: str, token: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidCatalogRequest):
        pages.cut(NAMES, {**token, "pageSize": size}, listing="x")


@pytest.mark.parametrize("token", ["x", "!!!!", "AAAA", "é", "A" * 1000, "_w"])
def test_a_token_that_was_not_made_here_is_refused(token: str) -> None:
    with pytest.raises(errors.InvalidPageToken):
        pages.cut(NAMES, {"pageToken": token}, listing="x")


def test_a_token_belongs_to_its_listing() -> None:
    _, token = pages.cut(NAMES, {"pageToken": "", "pageSize": "2"}, listing="x")
    assert token is not None
    with pytest.raises(errors.InvalidPageToken):
        pages.cut(NAMES, {"pageToken": token}, listing="y")


@settings(max_examples=60)
@given(st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=30), st.integers(1, 7))
def test_pages_put_together_are_the_listing(names: list[str], size: int) -> None:
    names = sorted((n for n in names if not any("\ud800" <= c <= "\udfff" for c in n)),
                   key=lambda n: n.encode())  # fmt: skip
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        page, token = pages.cut(names, {"pageToken": token, "pageSize": str(size)}, listing="x")
        assert len(page) <= size
        seen += page
    assert seen == names
