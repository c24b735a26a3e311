"""Continuation tokens."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from s3tables import errors, listings, tokens
from tests.kit import examples


@examples.at_most(200)
@given(
    st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), unique=True, max_size=12),
    st.integers(1, 5),
    st.integers(0, 3),
)
def test_pages_hold_every_shown_item_once_and_in_order(
    keys: list[tuple[str, str]], items_max: int, hidden: int
) -> None:
    keys = sorted(key for key in keys if _encodable(key))

    def show(key: tuple[str, str]) -> tuple[str, str] | None:
        return None if len(key[0]) == hidden else key

    items: list[tuple[str, str]] = []
    token = None
    for _ in range(len(keys) + 1):
        page = asyncio.run(
            listings.paginate(
                [(key, key) for key in keys], show, listing="l", token=token, items_max=items_max
            )
        )
        assert len(page.items) <= items_max
        items.extend(page.items)
        token = page.token
        if token is None:
            break
        assert len(page.items) == items_max
    assert items == [key for key in keys if len(key[0]) != hidden]


def _encodable(key: tuple[str, ...]) -> bool:
    return not any("\ud800" <= character <= "\udfff" for part in key for character in part)


def test_a_token_is_good_after_its_item_is_gone() -> None:
    token = tokens.format_token(("b",), listing="l")
    page = asyncio.run(
        listings.paginate(
            [(("a",), "a"), (("c",), "c")], str, listing="l", token=token, items_max=None
        )
    )
    assert page == listings.TokenPage(items=("c",), token=None)


@examples.at_most(200)
@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda data: data.hex()))
def test_garbage_is_no_token(token: str) -> None:
    with pytest.raises(errors.InvalidContinuationToken):
        tokens.parse_token(token, listing="l")


def test_a_token_of_another_listing_is_none_here() -> None:
    token = tokens.format_token(("a",), listing="one")
    assert tokens.parse_token(token, listing="one") == ("a",)
    with pytest.raises(errors.InvalidContinuationToken):
        tokens.parse_token(token, listing="two")
