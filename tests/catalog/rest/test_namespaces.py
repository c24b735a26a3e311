"""Namespaces over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.catalog.rest import rest_server as kit


def test_a_namespace_is_created_loaded_and_dropped(rest: kit.RestServer) -> None:
    created = rest.ask("POST", "namespaces", {"namespace": ["ns"], "properties": {"a": "b"}})
    content = {"namespace": ["ns"], "properties": {"location": "s3://lake/ns", "a": "b"}}
    assert (created.status, created.json) == (200, content)
    assert rest.ask("GET", "namespaces/ns").json == content
    there = rest.ask("HEAD", "namespaces/ns")
    assert (there.status, there.body) == (204, b"")
    assert rest.ask("DELETE", "namespaces/ns").status == 204
    gone = rest.ask("HEAD", "namespaces/ns")
    assert (gone.status, gone.body) == (404, b"")
    assert rest.ask("GET", "namespaces/ns").error == (
        404,
        "NoSuchNamespaceException",
        "Namespace does not exist: ns",
    )


def test_a_name_that_is_taken_is_refused(rest: kit.RestServer) -> None:
    rest.make_namespace("ns")
    assert rest.ask("POST", "namespaces", {"namespace": ["ns"]}).error == (
        409,
        "AlreadyExistsException",
        "Namespace already exists: ns",
    )


def test_levels_travel_by_0x1f_whatever_they_hold(rest: kit.RestServer) -> None:
    rest.make_namespace("a.b")
    rest.make_namespace("a.b", "c/d e")
    rest.make_namespace("a.b", "c/d e", "ü%2F")
    loaded = rest.ask("GET", "namespaces/a.b%1Fc%2Fd%20e%1F%C3%BC%252F")
    assert loaded.json["namespace"] == ["a.b", "c/d e", "ü%2F"]
    listed = rest.ask("GET", "namespaces?parent=a.b%1Fc%2Fd%20e").json
    assert listed == {"namespaces": [["a.b", "c/d e", "ü%2F"]], "next-page-token": None}


def test_a_listing_holds_direct_children_only(rest: kit.RestServer) -> None:
    for levels in (("a",), ("b",), ("a", "x"), ("a", "x", "y")):
        rest.make_namespace(*levels)
    whole = {"namespaces": [["a"], ["b"]], "next-page-token": None}
    assert rest.ask("GET", "namespaces").json == whole
    assert rest.ask("GET", "namespaces?parent=").json == whole
    assert rest.ask("GET", "namespaces?parent=a").json["namespaces"] == [["a", "x"]]
    assert rest.ask("GET", "namespaces?parent=none").error[1] == "NoSuchNamespaceException"


def test_a_listing_is_paged_on_request(rest: kit.RestServer) -> None:
    for number in range(5):
        rest.make_namespace(f"n{number}")
    seen: list[Any] = []
    token: str | None = ""
    while token is not None:
        page = rest.ask("GET", f"namespaces?pageToken={token}&pageSize=2").json
        seen += page["namespaces"]
        token = page["next-page-token"]
    assert seen == [[f"n{number}"] for number in range(5)]
    assert rest.ask("GET", "namespaces?pageToken=nonsense").error[:2] == (
        400,
        "BadRequestException",
    )


def test_properties_are_set_and_removed(rest: kit.RestServer) -> None:
    rest.make_namespace("ns", a="1", b="2")
    answer = rest.ask(
        "POST", "namespaces/ns/properties", {"updates": {"c": "3"}, "removals": ["a", "x"]}
    )
    assert answer.json == {"updated": ["c"], "removed": ["a"], "missing": ["x"]}
    assert rest.ask("GET", "namespaces/ns").json["properties"] == {
        "location": "s3://lake/ns",
        "b": "2",
        "c": "3",
    }
    both = rest.ask("POST", "namespaces/ns/properties", {"updates": {"b": "1"}, "removals": ["b"]})
    assert both.error[:2] == (422, "UnprocessableEntityException")
    none = rest.ask("POST", "namespaces/no/properties", {"updates": {}, "removals": []})
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
def test_a_malformed_request_is_refused_and_makes_nothing(rest: kit.RestServer, body: Any) -> None:
    assert rest.ask("POST", "namespaces", body).error[0] == 400
    assert rest.ask("GET", "namespaces").json["namespaces"] == []


def test_a_namespace_that_holds_something_is_not_dropped(rest: kit.RestServer) -> None:
    rest.make_namespace("a")
    rest.make_namespace("a", "b")
    refused = (409, "NamespaceNotEmptyException", "Namespace a is not empty")
    assert rest.ask("DELETE", "namespaces/a").error == refused
    rest.ask("DELETE", "namespaces/a%1Fb")
    rest.make_table("a.t")
    assert rest.ask("DELETE", "namespaces/a").error == refused


def test_without_prefix_the_default_warehouse_is_meant(rest: kit.RestServer) -> None:
    rest.make_namespace("ns")
    assert rest.ask("GET", "namespaces", prefix="").json["namespaces"] == [["ns"]]
    assert rest.ask("GET", "namespaces/ns", prefix="").status == 200


def test_another_warehouse_is_another_catalog(rest: kit.RestServer) -> None:
    rest.run(
        rest.lake.storage.buckets.create(
            "pond", bucket_type="table", owner=kit.ACCOUNT, region=kit.REGION
        )
    )
    rest.make_namespace("ns")
    assert rest.ask("GET", "namespaces", prefix="pond").json["namespaces"] == []
    assert rest.ask("GET", "namespaces", prefix="none").error[:2] == (
        404,
        "NoSuchWarehouseException",
    )
