"""ETags: made as S3 makes them, read as clients write them."""

from __future__ import annotations

import hashlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import etags


def test_the_etag_of_a_body_is_its_md5() -> None:
    assert etags.of_digest(hashlib.md5(b"").digest()) == "d41d8cd98f00b204e9800998ecf8427e"


def test_the_etag_of_parts_is_the_md5_of_their_md5s_and_their_number() -> None:
    parts = [hashlib.md5(data) for data in (b"one", b"two")]
    expected = hashlib.md5(parts[0].digest() + parts[1].digest()).hexdigest() + "-2"
    assert etags.of_parts([part.hexdigest() for part in parts]) == expected


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("", ("",)),
        (" , ", ("",)),
        ("*", ("*",)),
        ('"abc"', ("abc",)),
        ("abc", ("abc",)),
        ('W/"abc"', ("abc",)),
        ('"a", "b"', ("a", "b")),
        ('"a","b" , W/"c"', ("a", "b", "c")),
        ('"a,b", c', ("a,b", "c")),
        (', "a",, b,', ("a", "b")),
        ("a b", None),
        ('"open', None),
        ('open"', None),
        ('"a", "open', None),
        ('"a" "b"', None),
    ],
)
def test_parse_list(text: str, tags: tuple[str, ...] | None) -> None:
    assert etags.parse_list(text) == tags


@given(st.text(st.sampled_from('"*,W/ ab'), max_size=20))
def test_parse_list_of_garbage_ends_and_gives_texts_or_none(text: str) -> None:
    listed = etags.parse_list(text)
    assert listed is None or all(isinstance(each, str) for each in listed)
    assert listed != ()


@pytest.mark.parametrize("text", ['"a",%s"', '%s"', "%s,", '"a"%sb', ",%s," * 3])
def test_parse_list_takes_time_in_proportion_to_its_length(text: str) -> None:
    """A list of 60,000 spaces, which the limits of a head allow, is read before the signature."""
    started = time.process_time()
    etags.parse_list(text.replace("%s", " " * 60_000))
    assert time.process_time() - started < 5  # the square of that would take minutes


A, B = "a" * 32, "b" * 32


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((A, ()), (A, ()), True),
        ((A, ()), (B, ()), False),
        ((A + "-2", (5, 3)), (A + "-2", (5, 3)), True),
        ((A + "-2", (5, 3)), (B + "-2", (5, 3)), False),
        # Other parts, or one in parts and the other whole: no digest of the same bytes.
        ((A + "-2", (5, 3)), (B + "-2", (4, 4)), None),
        ((A + "-2", (5, 3)), (A + "-2", (4, 4)), None),
        ((A, ()), (A + "-2", (5, 3)), None),
        # What looks like an ETag of parts, and is none.
        ((A + "-1", ()), (A + "-1", ()), None),
        ((A + "-1", ()), (A, ()), None),
        ((A + "-3", (5, 3)), (A + "-3", (5, 3)), None),
        (("chosen", ()), ("chosen", ()), None),
    ],
)
def test_etags_prove_or_refute_equal_bytes_only_where_they_digest_the_same(
    one: tuple[str, tuple[int, ...]], other: tuple[str, tuple[int, ...]], same: bool | None
) -> None:
    assert etags.same_bytes(*one, *other) is same
    assert etags.same_bytes(*other, *one) is same
