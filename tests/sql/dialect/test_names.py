"""Two spellings of one name."""

from __future__ import annotations

import pytest

from sql.dialect import names


@pytest.mark.parametrize(
    ("stored", "shown"),
    [("lake", "LAKE"), ("a_1$", "A_1$"), ("Lake", "Lake"), ("my-lake", "my-lake"),
     ("2024", "2024"), ("a.b", "a.b"), ("LAKE", "LAKE"), ("ö", "ö")],
)  # fmt: skip
def test_plain_lower_case_is_shown_in_upper_case(stored: str, shown: str) -> None:
    assert names.shown(stored) == shown


def resolved(identifier: str, stored: list[str]) -> str | None:
    return names.find_one(names.parse(identifier), stored)


@pytest.mark.parametrize(
    ("identifier", "stored"),
    [
        ("lake", "lake"), ("LAKE", "lake"), ("Lake", "lake"), ('"LAKE"', "lake"),
        ('"lake"', "lake"), ('"Lake"', None), ("my-lake", "my-lake"), ("MY-LAKE", "my-lake"),
        ('"MY-LAKE"', None), ("absent", None), ("", None), ("mixed", "MIXED"), ("MIXED", "MIXED"),
        ('"Mixed"', "Mixed"), (" lake ", "lake"),
    ],
)  # fmt: skip
def test_an_identifier_refers_to_at_most_one_stored_name(
    identifier: str, stored: str | None
) -> None:
    assert resolved(identifier, ["lake", "my-lake", "Mixed", "MIXED"]) == stored


def test_an_unquoted_identifier_refers_to_the_lower_case_name_beside_its_upper_case_one() -> None:
    for identifier in ("LAKE", "lake", "LaKe"):
        assert resolved(identifier, ["Lake", "LAKE", "lake"]) == "lake"
        assert resolved(identifier, ["LAKE", "LaKE"]) == "LAKE"
    assert resolved('"LAKE"', ["LAKE", "lake"]) == "LAKE"


def test_an_unquoted_identifier_of_several_mixed_case_names_refers_to_none_of_them() -> None:
    assert resolved("lake", ["Lake", "LaKe"]) is None


def test_a_shown_name_in_quotes_refers_to_its_stored_name() -> None:
    for stored in ("lake", "my-lake", "Mixed", "2024", 'quo"te'):
        quoted = '"' + names.shown(stored).replace('"', '""') + '"'
        assert resolved(quoted, ["lake", "my-lake", "Mixed", "2024", 'quo"te']) == stored


def test_an_unquoted_identifier_folds_to_upper_case() -> None:
    assert names.parse("compute_wh").folded == "COMPUTE_WH"
    assert names.parse('"My Wh"').folded == "My Wh"
