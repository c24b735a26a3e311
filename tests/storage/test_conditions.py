"""If-* conditions: every combination of the four for reads, and those of writes."""

from __future__ import annotations

import itertools

import pytest

from storage import conditions, errors
from storage.model import Precondition

ETAG = "abc"
MODIFIED_MS = 1_700_000_000_500
AT_THE_SECOND_MS = 1_700_000_000_000
NOW_MS = MODIFIED_MS + 60_000
MATCHING = (("abc",), ("x", "abc"), ("*",))
OTHER = (("x",), ("ab",))


def outcome(**fields: object) -> str:
    read_conditions = conditions.ReadConditions(**fields)  # type: ignore[arg-type] # fields by name
    try:
        unmodified = conditions.unmodified_by(
            read_conditions, etag=ETAG, modified_at_ms=MODIFIED_MS, now_ms=NOW_MS
        )
    except errors.PreconditionFailed as failed:
        return f"412 {failed.fields['condition']}"
    return "200" if unmodified is None else f"304 {unmodified}"


@pytest.mark.parametrize("etags", MATCHING)
def test_if_match_that_holds_outranks_if_unmodified_since(etags: tuple[str, ...]) -> None:
    assert outcome(if_match=etags) == "200"
    assert outcome(if_match=etags, if_unmodified_since_ms=0) == "200"


@pytest.mark.parametrize("etags", OTHER)
def test_if_match_that_fails_is_a_failure(etags: tuple[str, ...]) -> None:
    assert outcome(if_match=etags) == "412 If-Match"
    assert outcome(if_match=etags, if_none_match=("abc",)) == "412 If-Match"


@pytest.mark.parametrize("etags", MATCHING)
def test_if_none_match_that_hits_is_not_modified(etags: tuple[str, ...]) -> None:
    assert outcome(if_none_match=etags) == "304 If-None-Match"


@pytest.mark.parametrize("etags", OTHER)
def test_if_none_match_that_misses_outranks_if_modified_since(etags: tuple[str, ...]) -> None:
    assert outcome(if_none_match=etags, if_modified_since_ms=MODIFIED_MS + 9000) == "200"


def test_dates_are_compared_by_whole_seconds() -> None:
    assert outcome(if_modified_since_ms=AT_THE_SECOND_MS) == "304 If-Modified-Since"
    assert outcome(if_modified_since_ms=AT_THE_SECOND_MS - 1) == "200"
    assert outcome(if_unmodified_since_ms=AT_THE_SECOND_MS) == "200"
    assert outcome(if_unmodified_since_ms=AT_THE_SECOND_MS - 1) == "412 If-Unmodified-Since"


def test_every_combination_agrees_with_the_order_of_rfc_9110() -> None:
    etags = ((), ("abc",), ("x",))
    dates = (None, AT_THE_SECOND_MS - 1000, AT_THE_SECOND_MS + 1000)
    for match, none_match, modified, unmodified in itertools.product(etags, etags, dates, dates):
        expected = "200"
        if match:
            failed = "abc" not in match
            expected = "412 If-Match" if failed else "200"
        elif unmodified is not None and unmodified < AT_THE_SECOND_MS:
            expected = "412 If-Unmodified-Since"
        if expected == "200":
            if none_match:
                expected = "304 If-None-Match" if "abc" in none_match else "200"
            elif modified is not None and modified > AT_THE_SECOND_MS:
                expected = "304 If-Modified-Since"
        decided = outcome(
            if_match=match,
            if_none_match=none_match,
            if_modified_since_ms=modified,
            if_unmodified_since_ms=unmodified,
        )
        assert decided == expected, (match, none_match, modified, unmodified)


def test_if_modified_since_of_a_later_moment_than_now_is_ignored() -> None:
    assert outcome(if_modified_since_ms=NOW_MS) == "304 If-Modified-Since"
    assert outcome(if_modified_since_ms=NOW_MS + 1000) == "200"
    assert outcome(if_unmodified_since_ms=NOW_MS + 1000) == "200"


@pytest.mark.parametrize(
    ("wanted", "condition"),
    [
        (conditions.ReadConditions(if_match=("x",)), "If-Match"),
        (conditions.ReadConditions(if_none_match=("abc",)), "If-None-Match"),
        (conditions.ReadConditions(if_modified_since_ms=NOW_MS), "If-Modified-Since"),
        (conditions.ReadConditions(if_unmodified_since_ms=0), "If-Unmodified-Since"),
    ],
)
def test_a_copy_source_is_never_not_modified_but_fails_by_the_name_of_its_header(
    wanted: conditions.ReadConditions, condition: str
) -> None:
    with pytest.raises(errors.PreconditionFailed) as caught:
        conditions.check_copy_source(wanted, etag=ETAG, modified_at_ms=MODIFIED_MS, now_ms=NOW_MS)
    assert caught.value.fields["condition"] == f"x-amz-copy-source-{condition}"
    assert caught.value.fields["etag"] == ETAG


@pytest.mark.parametrize(
    ("precondition", "etag", "error"),
    [
        (Precondition(), None, None),
        (Precondition(), "abc", None),
        (Precondition(if_match=("abc",)), "abc", None),
        (Precondition(if_match=("*",)), "abc", None),
        (Precondition(if_match=("x",)), "abc", errors.PreconditionFailed),
        (Precondition(if_match=("abc",)), None, errors.NoSuchKey),
        (Precondition(if_match=("*",)), None, errors.NoSuchKey),
        (Precondition(if_none_match=("*",)), None, None),
        (Precondition(if_none_match=("*",)), "abc", errors.PreconditionFailed),
        (Precondition(if_none_match=("x",)), "abc", None),
        (Precondition(if_none_match=("abc",)), "abc", errors.PreconditionFailed),
    ],
)
def test_check_write(
    precondition: Precondition, etag: str | None, error: type[Exception] | None
) -> None:
    if error is None:
        conditions.check_write(precondition, key="k", etag=etag)
    else:
        with pytest.raises(error):
            conditions.check_write(precondition, key="k", etag=etag)
