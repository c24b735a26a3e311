"""Views over HTTP."""

from __future__ import annotations

import pytest

from tests.catalog.rest import house as houses

EMPTY = {"identifiers": [], "next-page-token": None}


@pytest.mark.parametrize("query", ["", "?pageToken=", "?pageToken=&pageSize=1", "?pageSize=1"])
def test_list_views_of_a_namespace_with_tables_answers_an_empty_list(
    house: houses.House, query: str
) -> None:
    house.make_table("ns.t")
    answer = house.ask("GET", f"namespaces/ns/views{query}")
    assert (answer.status, answer.json) == (200, EMPTY)


@pytest.mark.parametrize("query", ["pageSize=0", "pageSize=x", "pageToken=!"])
def test_list_views_refuses_the_parameters_that_list_tables_refuses(
    house: houses.House, query: str
) -> None:
    house.make_namespace("ns")
    refused = house.ask("GET", f"namespaces/ns/views?{query}").error
    assert refused == house.ask("GET", f"namespaces/ns/tables?{query}").error
    assert refused[0] == 400


def test_list_views_refuses_a_page_token_of_list_tables(house: houses.House) -> None:
    house.make_table("ns.a")
    house.make_table("ns.b")
    token = house.ask("GET", "namespaces/ns/tables?pageToken=&pageSize=1").json["next-page-token"]
    refused = house.ask("GET", f"namespaces/ns/views?pageToken={token}").error
    assert refused == (
        400,
        "BadRequestException",
        "Invalid page token: it belongs to another listing",
    )


@pytest.mark.parametrize("prefix", ["lake", "pond"])
def test_list_views_of_what_does_not_exist_answers_as_list_tables_does(
    house: houses.House, prefix: str
) -> None:
    refused = house.ask("GET", "namespaces/none/views", prefix=prefix).error
    assert refused == house.ask("GET", "namespaces/none/tables", prefix=prefix).error
    assert refused[0] == 404


def test_list_views_is_advertised(house: houses.House) -> None:
    endpoints = house.ask("GET", "config", prefix="").json["endpoints"]
    assert "GET /v1/{prefix}/namespaces/{namespace}/views" in endpoints
