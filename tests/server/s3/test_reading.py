"""Conditions and ranges of a read."""

from __future__ import annotations

import email.utils
import itertools

import pytest

from server.s3 import errors, reading

MODIFIED_MS = 1_700_000_000_123
SECOND = 1_700_000_000_000
ETAG = "abc"


def test_every_combination_of_conditions_is_judged_as_rfc_9110_orders_them() -> None:
    matches = ((), ("*",), (ETAG,), ("other", ETAG), ("other",))
    times = (None, SECOND - 1000, SECOND, SECOND + 1000)
    for if_match, if_none_match, since, unmodified in itertools.product(
        matches, matches, times, times
    ):
        conditions = reading.Conditions(
            if_match=if_match,
            if_none_match=if_none_match,
            if_modified_since_ms=since,
            if_unmodified_since_ms=unmodified,
        )
        outcome, _ = reading.judge(conditions, etag=ETAG, modified_at_ms=MODIFIED_MS)
        hits = {(): None, ("*",): True, (ETAG,): True, ("other", ETAG): True, ("other",): False}
        # RFC 9110, section 13.2.2, steps 1 to 4.
        if hits[if_match] is not None:
            step = hits[if_match]
        else:
            step = unmodified is None or unmodified >= SECOND
        if not step:
            expected = "failed"
        elif hits[if_none_match] is not None:
            expected = "not-modified" if hits[if_none_match] else "proceed"
        else:
            expected = "not-modified" if since is not None and since >= SECOND else "proceed"
        assert outcome == expected, conditions


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"a"', ("a",)),
        ("a", ("a",)),
        ('"a", "b"', ("a", "b")),
        ('W/"a"', ("a",)),
        ("*", ("*",)),
        ("", ()),
    ],
)
def test_parse_etags_takes_quoted_bare_weak_and_listed_ones(
    value: str, expected: tuple[str, ...]
) -> None:
    assert reading.parse_etags(value) == expected


def test_parse_date_reads_http_dates_and_shrugs_at_the_rest() -> None:
    assert reading.parse_date(email.utils.formatdate(SECOND / 1000, usegmt=True)) == SECOND
    for garbage in ("", "yesterday", "2023-99-99", "Tue, 99 Foo 2023", "\0"):
        assert reading.parse_date(garbage) is None


@pytest.mark.parametrize(
    ("value", "size_bytes", "expected"),
    [
        ("bytes=0-4", 10, (0, 5)),
        ("bytes=0-9", 10, (0, 10)),
        ("bytes=5-", 10, (5, 10)),
        ("bytes=-3", 10, (7, 10)),
        ("bytes=-30", 10, (0, 10)),
        ("bytes=5-500", 10, (5, 10)),
        ("bytes=9-9", 10, (9, 10)),
        ("BYTES=0-0", 10, (0, 1)),
    ],
)
def test_a_range_becomes_a_half_open_slice(
    value: str, size_bytes: int, expected: tuple[int, int]
) -> None:
    wanted = reading.parse_range(value)
    assert wanted is not None
    found = reading.resolve_range(wanted, size_bytes=size_bytes)
    assert (found.start, found.stop) == expected


@pytest.mark.parametrize(
    ("value", "size_bytes"),
    [("bytes=10-", 10), ("bytes=10-20", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-5", 0)],
)
def test_a_range_that_begins_past_the_end_is_a_fact(value: str, size_bytes: int) -> None:
    wanted = reading.parse_range(value)
    assert wanted is not None
    with pytest.raises(errors.InvalidRange):
        reading.resolve_range(wanted, size_bytes=size_bytes)


@pytest.mark.parametrize(
    "value",
    ["bytes=0-1,3-4", "bytes=", "bytes=-", "bytes=a-b", "lines=0-1", "bytes", "bytes=5-2",
     "bytes=0-" + "9" * 30, "bytes=٣-"],
)  # fmt: skip
def test_several_ranges_and_garbage_mean_the_whole_body(value: str) -> None:
    assert reading.parse_range(value) is None
