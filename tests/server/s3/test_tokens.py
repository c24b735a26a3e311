"""Continuation tokens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from server.s3 import tokens

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=40)


@settings(max_examples=100)
@given(TEXT, TEXT, TEXT)
def test_a_token_gives_back_its_key_to_its_own_query_alone(
    after: str, bucket: str, prefix: str
) -> None:
    token = tokens.issue(after, bucket, prefix)
    assert tokens.redeem(token, bucket, prefix) == after
    assert tokens.redeem(token, bucket, prefix + "x") is None
    assert tokens.redeem(token, bucket + prefix) is None
    assert token.replace("-", "").replace("_", "").isalnum()


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_garbage_is_no_token(token: str) -> None:
    assert tokens.redeem(token, "b") is None
