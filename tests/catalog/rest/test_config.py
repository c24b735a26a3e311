"""The configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.rest import rows
from tests.catalog.rest import rest_server as kit


def config(rest: kit.RestServer, query: str = "", **headers: str) -> kit.Answer:
    return rest.ask("GET", "config" + query, prefix="", **headers)


def test_config_has_all_settings_that_a_client_needs(rest: kit.RestServer) -> None:
    answer = config(rest, "?warehouse=lake")
    assert answer.status == 200
    content = answer.json
    endpoints = content.pop("endpoints")
    assert content == {
        "defaults": {
            "s3.endpoint": "http://boathouse.test:5253",
            "s3.path-style-access": "true",
            "s3.region": "us-east-1",
            "client.region": "us-east-1",
            "oauth2-server-uri": "http://boathouse.test:5253/iceberg/v1/oauth/tokens",
        },
        "overrides": {"prefix": "lake"},
        "idempotency-key-lifetime": "PT30M",
    }
    assert "POST /v1/{prefix}/transactions/commit" in endpoints
    assert len(endpoints) == len(set(endpoints))


def test_what_is_advertised_is_built_and_what_is_built_is_advertised(rest: kit.RestServer) -> None:
    advertised = set(config(rest).json["endpoints"])
    for row in rows.ROWS:
        if row.name in ("getConfig", "getToken"):
            continue
        assert (row.endpoint in advertised) == (row.operation.handler is not None)


def test_every_operation_of_the_specification_is_built() -> None:
    assert len(rows.ROWS) == 35
    assert all(row.operation.handler is not None for row in rows.ROWS)


@pytest.mark.parametrize(
    "warehouse",
    ["", "lake", "s3://lake", "s3://lake/", "lake@main", kit.BUCKET_ARN],
)
def test_a_warehouse_is_found_in_every_spelling(rest: kit.RestServer, warehouse: str) -> None:
    assert config(rest, f"?warehouse={warehouse}").json["overrides"] == {"prefix": "lake"}
    assert config(rest).json["overrides"] == {"prefix": "lake"}


@pytest.mark.parametrize("warehouse", ["none", "s3://none", "lake/x", "lake@dev", "%00", "plain"])
def test_an_unknown_warehouse_is_not_found_with_a_hint(
    rest: kit.RestServer, warehouse: str
) -> None:
    rest.run(
        rest.lake.storage.buckets.create(
            "plain", bucket_type="general", owner=kit.ACCOUNT, region=kit.REGION
        )
    )
    status, error_type, message = config(rest, f"?warehouse={warehouse}").error
    assert (status, error_type) == (404, "NoSuchWarehouseException")
    assert "a warehouse is a table bucket" in message


def test_addresses_are_those_by_which_the_client_came(rest: kit.RestServer) -> None:
    answer = config(rest, "", host="lake.example:8080")
    assert answer.json["defaults"]["s3.endpoint"] == "http://lake.example:8080"


def test_an_anonymous_request_learns_nothing(rest: kit.RestServer) -> None:
    for path in ("config", "lake/namespaces", "lake/namespaces/ns/tables/t", "nonsense"):
        answer = rest.send("GET", f"/iceberg/v1/{path}")
        assert answer.error[:2] == (401, "NotAuthorizedException")
    bad = rest.send("GET", "/iceberg/v1/config", headers={"authorization": "Bearer x.y.z"})
    assert bad.error[:2] == (401, "NotAuthorizedException")


def test_a_chosen_namespace_separator_works_beside_0x1f(tmp_path: Path) -> None:
    with kit.opened(tmp_path / "data", namespace_separator=".") as rest:
        overrides = config(rest).json["overrides"]
        assert overrides == {"prefix": "lake", "namespace-separator": "%2E"}
        rest.make_namespace("a")
        rest.make_namespace("a", "b")
        rest.make_namespace("x")
        rest.make_table("a.b.t")
        for path in ("a.b", "a%2Eb", "a%1Fb"):
            answer = rest.ask("GET", f"namespaces/{path}")
            assert (answer.status, answer.json["namespace"]) == (200, ["a", "b"])
        for parent in ("a.b", "a%1Fb"):
            assert rest.ask("GET", f"namespaces?parent={parent}").json["namespaces"] == []
        assert rest.ask("GET", "namespaces?parent=a").json["namespaces"] == [["a", "b"]]
        loaded = rest.ask("GET", "namespaces/a.b/tables/t").json["config"]
        refresh = "v1/lake/namespaces/a.b/tables/t/credentials"
        assert loaded["client.refresh-credentials-endpoint"] == refresh
        assert rest.ask("GET", refresh.removeprefix("v1/lake/")).status == 200
        refused = rest.ask("POST", "namespaces", {"namespace": ["x", "y.z"]})
        assert (refused.status, refused.json["error"]["type"]) == (400, "IllegalArgumentException")
        assert "namespace_separator" in refused.json["error"]["message"]
        assert rest.ask("GET", "namespaces?parent=x").json["namespaces"] == []
