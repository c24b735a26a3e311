"""If-* headers as values."""

from __future__ import annotations

import email.utils
import time

import pytest

from server.s3 import errors, preconditions
from storage import conditions, model
from storage import errors as storage_errors

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


def test_a_write_on_a_condition_of_reads_is_refused_by_name() -> None:
    with pytest.raises(errors.S3FeatureNotImplemented) as raised:
        preconditions.parse_write({"if-unmodified-since": DATE})
    assert raised.value.fields == {"Header": "If-Unmodified-Since"}
    # A recipient ignores it in all but GET and HEAD (RFC 9110, section 13.1.3).
    assert preconditions.parse_write({"if-modified-since": DATE}) is model.ALWAYS


def test_an_empty_list_of_etags_is_a_condition_that_no_object_meets() -> None:
    parsed = preconditions.parse_write({"if-match": ""})
    with pytest.raises(storage_errors.PreconditionFailed):
        conditions.check_write(parsed, key="k", etag="a" * 32)
    parsed = preconditions.parse_write({"if-none-match": ""})
    conditions.check_write(parsed, key="k", etag="a" * 32)


@pytest.mark.parametrize("name", ["if-match", "if-none-match"])
@pytest.mark.parametrize("value", ['"abc', 'abc"', '"a", "b', "a b"])
def test_a_malformed_list_of_etags_is_refused_with_its_header(name: str, value: str) -> None:
    for parse, header in (
        (lambda headers: preconditions.parse_read(headers), name),
        (
            lambda headers: preconditions.parse_read(headers, prefix="x-amz-copy-source-"),
            f"x-amz-copy-source-{name}",
        ),
        (lambda headers: preconditions.parse_write(headers), name),
    ):
        with pytest.raises(errors.InvalidArgument) as raised:
            parse({header: value})
        assert raised.value.fields == {"ArgumentName": header, "ArgumentValue": value}


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 -0000",
    ],
)
def test_each_form_of_a_date_is_in_utc_wherever_the_server_is(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """RFC 9110, section 5.6.7."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert preconditions.parse_date(text) == 784_111_777_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("garbage", ["", "yesterday", "2023-99-99", "Tue, 99 Foo 2023", "\0"])
def test_a_date_that_is_none_is_no_condition(garbage: str) -> None:
    assert preconditions.parse_date(garbage) is None
