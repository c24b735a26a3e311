"""Where things live."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import errors, idents, layout, locations
from tests.kit import examples

LEVEL = st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("namespace", "name", "path"),
    [
        (("sales",), "orders", "sales/orders"),
        (("sales", "eu"), "orders", "sales.eu/orders"),
        (("sales.eu",), "orders", "sales%2Eeu/orders"),
        (("a/b",), "c/d", "a%2Fb/c%2Fd"),
        (("50%",), "a?b#c*d", "50%25/a%3Fb%23c%2Ad"),
        (("Ünï",), "Île de France", "Ünï/Île de France"),
        (("ns",), ".hidden", "ns/%2Ehidden"),
        (("ns",), "..", "ns/%2E."),
        (("data",), "metadata", "data/metadata"),
    ],
)
def test_a_default_place_is_one_segment_for_the_namespace_and_one_for_the_name(
    namespace: idents.Namespace, name: str, path: str
) -> None:
    parent = locations.namespace_path(namespace)
    assert locations.default_path(parent_path=parent, name=name) == path


@examples.at_most(200)
@given(st.lists(LEVEL, min_size=1, max_size=4), LEVEL, st.lists(LEVEL, min_size=1, max_size=4))
def test_two_names_never_share_a_default_place(
    levels: list[str], name: str, others: list[str]
) -> None:
    one = locations.default_path(parent_path=locations.namespace_path(tuple(levels)), name=name)
    two = locations.default_path(parent_path=locations.namespace_path(tuple(others)), name=name)
    assert (one == two) == (levels == others)
    layout.check_location(one)
    assert one.count("/") == 1


@pytest.mark.parametrize(
    "location",
    ["s3://lake/ns/t", "s3://lake/ns/t/", "s3a://lake/ns/t", "s3n://lake/ns/t//"],
)
def test_a_location_is_read_in_every_spelling(location: str) -> None:
    assert locations.parse_location(location, table_bucket="lake") == "ns/t"


@pytest.mark.parametrize(
    "location",
    [
        "s3://other/ns/t",
        "s3://lake2/ns/t",
        "s3://lake",
        "s3://lake/t",
        "file:/tmp/ns/t",
        "s3://lake/ns/../t",
        "s3://lake/ns//t",
        "s3://lake/ns/.t",
        "s3://lake/ns/t?x",
        "s3://lake/ns/t*",
        "s3://lake/" + "/".join("abcdefghijklmnopqr"),
        "s3://lake/ns/" + "x" * 398,
        "s3://lake/ns/\ud800",
        "",
    ],
)
def test_a_location_that_is_not_writable_is_refused(location: str) -> None:
    with pytest.raises(errors.InvalidLocation):
        locations.parse_location(location, table_bucket="lake")


def test_only_places_of_two_segments_and_more_are_ancestors() -> None:
    assert locations.ancestors("a/b") == ()
    assert locations.ancestors("a/b/c/d") == ("a/b/c", "a/b")


def test_a_namespace_with_a_location_of_its_own_has_its_tables_there() -> None:
    properties = {"location": "s3://lake/warehouse/sales/"}
    assert locations.tables_path(("s",), properties, table_bucket="lake") == "warehouse/sales"
    assert locations.tables_path(("s",), {}, table_bucket="lake") == "s"
    for refused in ("s3://other/x", "s3://lake/", "s3://lake", "s3://lake/a//b"):
        with pytest.raises(errors.InvalidLocation):
            locations.check_namespace_location(refused, table_bucket="lake")
