"""Two spellings of one name."""

from __future__ import annotations

import pytest

from sql import names


@pytest.mark.parametrize(
    ("stored", "reported"),
    [("lake", "LAKE"), ("a_1$", "A_1$"), ("Lake", "Lake"), ("my-lake", "my-lake"),
     ("2024", "2024"), ("a.b", "a.b"), ("LAKE", "LAKE"), ("ö", "ö")],
)  # fmt: skip
def test_plain_lower_case_is_reported_in_upper_case(stored: str, reported: str) -> None:
    assert names.reported(stored) == reported


@pytest.mark.parametrize(
    ("identifier", "found"),
    [
        ("lake", "lake"), ("LAKE", "lake"), ("Lake", "lake"), ('"LAKE"', "lake"),
        ('"lake"', "lake"), ('"Lake"', None), ("my-lake", "my-lake"), ("MY-LAKE", "my-lake"),
        ('"MY-LAKE"', None), ("absent", None), ("", None), ("mixed", "MIXED"), ("MIXED", "MIXED"),
        ('"Mixed"', "Mixed"), (" lake ", "lake"),
    ],
)  # fmt: skip
def test_an_identifier_means_at_most_one_stored_name(identifier: str, found: str | None) -> None:
    assert names.resolve(identifier, ["lake", "my-lake", "Mixed", "MIXED"]) == found


def test_an_unquoted_identifier_means_the_lower_case_name_beside_its_upper_case_one() -> None:
    for identifier in ("LAKE", "lake", "LaKe"):
        assert names.resolve(identifier, ["Lake", "LAKE", "lake"]) == "lake"
        assert names.resolve(identifier, ["LAKE", "LaKE"]) == "LAKE"
    assert names.resolve('"LAKE"', ["LAKE", "lake"]) == "LAKE"


def test_what_is_reported_always_leads_back_in_quotes() -> None:
    for stored in ("lake", "my-lake", "Mixed", "2024", 'quo"te'):
        quoted = '"' + names.reported(stored).replace('"', '""') + '"'
        assert names.resolve(quoted, ["lake", "my-lake", "Mixed", "2024", 'quo"te']) == stored


def test_labels_fold_like_identifiers() -> None:
    assert names.label("compute_wh") == "COMPUTE_WH"
    assert names.label('"My Wh"') == "My Wh"
