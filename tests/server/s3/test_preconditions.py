"""If-* headers as values."""

from __future__ import annotations

import email.utils

import pytest

from server.s3 import preconditions
from storage import conditions, model

SECOND = 1_700_000_000_000
DATE = email.utils.formatdate(SECOND / 1000, usegmt=True)


def test_a_request_without_conditions_has_none() -> None:
    assert preconditions.parse_read({}) == preconditions.NO_CONDITIONS
    assert preconditions.parse_write({}) is model.ALWAYS


def test_every_condition_of_a_read_is_taken_in() -> None:
    parsed = preconditions.parse_read(
        {
            "if-match": '"a", "b"',
            "if-none-match": "*",
            "if-modified-since": DATE,
            "if-unmodified-since": DATE,
        }
    )
    assert parsed == conditions.ReadConditions(
        if_match=("a", "b"),
        if_none_match=("*",),
        if_modified_since_ms=SECOND,
        if_unmodified_since_ms=SECOND,
    )


def test_the_source_of_a_copy_has_conditions_of_its_own() -> None:
    headers = {"x-amz-copy-source-if-none-match": '"a"', "if-match": '"b"'}
    parsed = preconditions.parse_read(headers, prefix="x-amz-copy-source-")
    assert parsed == conditions.ReadConditions(if_none_match=("a",))


def test_a_write_takes_if_match_and_if_none_match() -> None:
    assert preconditions.parse_write({"if-match": "abc"}) == model.Precondition(if_match=("abc",))
    assert preconditions.parse_write({"if-none-match": "*"}) == model.Precondition(
        if_none_match=("*",)
    )


@pytest.mark.parametrize("garbage", ["", "yesterday", "2023-99-99", "Tue, 99 Foo 2023", "\0"])
def test_a_date_that_is_none_is_no_condition(garbage: str) -> None:
    assert preconditions.parse_date(garbage) is None
