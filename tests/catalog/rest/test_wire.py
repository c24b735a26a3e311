"""Bodies in and out."""

from __future__ import annotations

import json

import pytest

from catalog.metadata import errors as metadata_errors
from catalog.rest import errors, wire


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"1", b'{"a":', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(errors.MalformedJson):
        wire.parse_object(body)


def test_integers_stay_exact() -> None:
    assert wire.parse_object(b'{"id": 9223372036854775807}') == {"id": 2**63 - 1}


def test_members_are_read_by_their_type() -> None:
    assert wire.get_texts({}, "properties") == {}
    assert wire.get_flag({}, "stage-create") is False
    assert wire.get_namespace({"namespace": ["a", "b"]}) == ("a", "b")
    ident = wire.get_ident({"x": {"namespace": ["a"], "name": "t"}}, "x", table_bucket="lake")
    assert ident.dotted() == "a.t"
    with pytest.raises(errors.MalformedJson):
        wire.get_flag({"stage-create": "true"}, "stage-create")
    for source in ({}, {"namespace": "a"}, {"namespace": [1]}, {"namespace": None}):
        with pytest.raises(metadata_errors.BadUpdate):
            wire.get_namespace(source)


def test_a_tables_answer_holds_its_bytes_untouched() -> None:
    data = b'{"format-version":2,"odd": 1.50,"big":9223372036854775807}'
    answer = wire.encode_table(
        metadata_location="s3://lake/a", data=data, config={"k": "v"}, etag='"x"'
    )
    assert isinstance(answer.body, bytes)
    assert data in answer.body
    assert json.loads(answer.body) == {
        "metadata-location": "s3://lake/a",
        "metadata": json.loads(data),
        "config": {"k": "v"},
    }
    assert ("etag", '"x"') in answer.headers
    staged = wire.encode_table(metadata_location=None, data=data, config={}, etag=None)
    assert json.loads(staged.body) == {"metadata": json.loads(data), "config": {}}  # type: ignore[arg-type] - bytes


@pytest.mark.parametrize(
    ("header", "same"),
    [
        (None, False),
        ('"a"', True),
        ('W/"a"', True),
        ("*", True),
        ('"b", "a"', True),
        ('"b"', False),
        ("a", False),
        ("", False),
    ],
)
def test_an_entity_tag_is_found_in_a_list(header: str | None, same: bool) -> None:
    assert wire.etag_matches(header, '"a"') is same


def test_an_entity_tag_differs_with_each_part() -> None:
    tags = {
        wire.format_etag("a", "b"),
        wire.format_etag("ab", ""),
        wire.format_etag("", "ab"),
        wire.format_etag("b", "a"),
    }
    assert len(tags) == 4
    assert all(tag.startswith('"') and tag.endswith('"') for tag in tags)


def test_a_body_of_more_values_than_the_bound_is_refused_before_it_is_decoded() -> None:
    within = b'{"a":[' + b"1," * 149_000 + b"1]}"
    assert len(wire.parse_object(within)["a"]) == 149_001
    for beyond in (
        b'{"a":[' + b"1," * 150_000 + b"1]}",
        b'{"a":[' + b"[],[]," * 50_000 + b"1]}",
        b'{"a":' + b'{"":[' * 150_000,
    ):
        with pytest.raises(errors.MalformedJson, match="more than 150000 JSON values"):
            wire.parse_object(beyond)
