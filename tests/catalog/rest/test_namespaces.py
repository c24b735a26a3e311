"""Namespaces over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.catalog.rest import house as houses


def test_a_namespace_is_created_loaded_and_dropped(house: houses.House) -> None:
    made = house.ask("POST", "namespaces", {"namespace": ["ns"], "properties": {"a": "b"}})
    content = {"namespace": ["ns"], "properties": {"location": "s3://lake/ns", "a": "b"}}
    assert (made.status, made.json) == (200, content)
    assert house.ask("GET", "namespaces/ns").json == content
    there = house.ask("HEAD", "namespaces/ns")
    assert (there.status, there.body) == (204, b"")
    assert house.ask("DELETE", "namespaces/ns").status == 204
    gone = house.ask("HEAD", "namespaces/ns")
    assert (gone.status, gone.body) == (404, b"")
    assert house.ask("GET", "namespaces/ns").error == (
        404,
        "NoSuchNamespaceException",
        "Namespace does not exist: ns",
    )


def test_a_name_that_is_taken_is_refused(house: houses.House) -> None:
    house.make_namespace("ns")
    assert house.ask("POST", "namespaces", {"namespace": ["ns"]}).error == (
        409,
        "AlreadyExistsException",
        "Namespace already exists: ns",
    )


def test_levels_travel_by_0x1f_whatever_they_hold(house: houses.House) -> None:
    house.make_namespace("a.b")
    house.make_namespace("a.b", "c/d e")
    house.make_namespace("a.b", "c/d e", "ü%2F")
    found = house.ask("GET", "namespaces/a.b%1Fc%2Fd%20e%1F%C3%BC%252F")
    assert found.json["namespace"] == ["a.b", "c/d e", "ü%2F"]
    listed = house.ask("GET", "namespaces?parent=a.b%1Fc%2Fd%20e").json
    assert listed == {"namespaces": [["a.b", "c/d e", "ü%2F"]], "next-page-token": None}


def test_a_listing_holds_direct_children_only(house: houses.House) -> None:
    for levels in (("a",), ("b",), ("a", "x"), ("a", "x", "y")):
        house.make_namespace(*levels)
    whole = {"namespaces": [["a"], ["b"]], "next-page-token": None}
    assert house.ask("GET", "namespaces").json == whole
    assert house.ask("GET", "namespaces?parent=").json == whole
    assert house.ask("GET", "namespaces?parent=a").json["namespaces"] == [["a", "x"]]
    assert house.ask("GET", "namespaces?parent=none").error[1] == "NoSuchNamespaceException"


def test_a_listing_comes_in_pages_when_asked(house: houses.House) -> None:
    for number in range(5):
        house.make_namespace(f"n{number}")
    seen: list[Any] = []
    token: str | None = ""
    while token is not None:
        page = house.ask("GET", f"namespaces?pageToken={token}&pageSize=2").json
        seen += page["namespaces"]
        token = page["next-page-token"]
    assert seen == [[f"n{number}"] for number in range(5)]
    assert house.ask("GET", "namespaces?pageToken=nonsense").error[:2] == (
        400,
        "BadRequestException",
    )


def test_properties_are_set_and_removed(house: houses.House) -> None:
    house.make_namespace("ns", a="1", b="2")
    answer = house.ask(
        "POST", "namespaces/ns/properties", {"updates": {"c": "3"}, "removals": ["a", "x"]}
    )
    assert answer.json == {"updated": ["c"], "removed": ["a"], "missing": ["x"]}
    assert house.ask("GET", "namespaces/ns").json["properties"] == {
        "location": "s3://lake/ns",
        "b": "2",
        "c": "3",
    }
    both = house.ask("POST", "namespaces/ns/properties", {"updates": {"b": "1"}, "removals": ["b"]})
    assert both.error[:2] == (422, "UnprocessableEntityException")
    none = house.ask("POST", "namespaces/no/properties", {"updates": {}, "removals": []})
    assert none.error == (404, "NoSuchNamespaceException", "Namespace does not exist: no")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"namespace": "ns"},
        {"namespace": [1]},
        {"namespace": []},
        {"namespace": [""]},
        {"namespace": ["a\x1fb"]},
        {"namespace": ["x" * 256]},
        {"namespace": ["x" * 250] * 2},
        {"namespace": ["a"] * 17},
        {"namespace": ["ns"], "properties": []},
        {"namespace": ["ns"], "properties": {"a": 1}},
        {"namespace": ["ns"], "properties": {"location": "s3://other/x"}},
        {"namespace": ["ns"], "properties": {"a": "x" * 100_000}},
        [],
        "x",
    ],
)
def test_a_malformed_request_is_refused_and_makes_nothing(house: houses.House, body: Any) -> None:
    assert house.ask("POST", "namespaces", body).error[0] == 400
    assert house.ask("GET", "namespaces").json["namespaces"] == []


def test_a_namespace_that_holds_something_is_not_dropped(house: houses.House) -> None:
    house.make_namespace("a")
    house.make_namespace("a", "b")
    refused = (409, "NamespaceNotEmptyException", "Namespace a is not empty")
    assert house.ask("DELETE", "namespaces/a").error == refused
    house.ask("DELETE", "namespaces/a%1Fb")
    house.make_table("a.t")
    assert house.ask("DELETE", "namespaces/a").error == refused


def test_without_prefix_the_default_warehouse_is_meant(house: houses.House) -> None:
    house.make_namespace("ns")
    assert house.ask("GET", "namespaces", prefix="").json["namespaces"] == [["ns"]]
    assert house.ask("GET", "namespaces/ns", prefix="").status == 200


def test_another_warehouse_is_another_catalog(house: houses.House) -> None:
    house.run(
        house.lake.storage.buckets.create(
            "pond", kind="table", owner=houses.ACCOUNT, region=houses.REGION
        )
    )
    house.make_namespace("ns")
    assert house.ask("GET", "namespaces", prefix="pond").json["namespaces"] == []
    assert house.ask("GET", "namespaces", prefix="none").error[:2] == (
        404,
        "NoSuchWarehouseException",
    )
