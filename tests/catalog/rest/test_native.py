"""The native API's OpenAPI document: whole by OpenAPI's rules, and true of the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.catalog.rest import rest_server as kit

TYPES = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "object": dict,
    "array": list,
    "null": type(None),
}


def document_of(rest: kit.RestServer) -> Any:
    token = rest.run(rest.token("root"))
    answer = rest.send("GET", "/_api/v1/openapi.json", None, {"authorization": f"Bearer {token}"})
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    return answer.json


def operations_of(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def check(value: Any, schema: Any, document: Any) -> None:
    """Assert that a value is as its JSON Schema says; knows the keywords that the document uses."""
    assert schema.keys() <= {
        "$ref", "type", "properties", "required", "additionalProperties", "items",
    }  # fmt: skip
    if "$ref" in schema:
        target = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        check(value, target, document)
        return
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert type(value) in {TYPES[name] for name in names}, (value, schema)
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema["required"]) <= value.keys() <= schema["properties"].keys()
        assert schema["additionalProperties"] is False
        for name, each in value.items():
            check(each, schema["properties"][name], document)
    if isinstance(value, list):
        for each in value:
            check(each, schema["items"], document)


def test_the_document_is_whole_by_the_rules_of_openapi(rest: kit.RestServer) -> None:
    document = document_of(rest)
    assert document.keys() == {"openapi", "info", "paths", "components"}
    assert document["openapi"].startswith("3.1.")
    assert document["info"].keys() == {"title", "version"}
    ids = [operation["operationId"] for _, _, operation in operations_of(document)]
    assert len(set(ids)) == len(ids) >= 8
    schemes = document["components"]["securitySchemes"].keys()
    for path, method, operation in operations_of(document):
        assert path.startswith("/")
        assert method in ("get", "post", "put", "patch", "delete")
        named = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        parameters = operation["parameters"]
        assert {each["name"] for each in parameters if each["in"] == "path"} == named
        assert all(each["required"] for each in parameters if each["in"] == "path")
        assert len({(each["in"], each["name"]) for each in parameters}) == len(parameters)
        assert {name for each in operation["security"] for name in each} <= schemes
        for status, response in operation["responses"].items():
            assert status == "default" or 200 <= int(status) < 300
            assert response["description"]
            assert all("schema" in media for media in response["content"].values())


VALUES = {
    "table": "ns.t",
    "principal": "root",
    "action": "s3tables:GetTable",
    "resource": "lake/ns/t",
    "namespace": "ns",
    "pipeline": "nightly",
    "target": "lake.ns.nightly",
}
"""What the required parameters of all operations may be."""
BY_DEFAULT = {"beginJob": ("pipeline",)}
"""Parameters that an operation requires unless another one says otherwise."""
OF_A_PIPELINE = ("getPipeline", "runPipeline")
"""Operations whose subject is a file of the server's folder, which has none here."""
DROPS = (
    "dropTable",
    "undropTable",
    "discardTable",
    "dropNamespace",
    "listDroppedNamespaces",
    "undropNamespace",
)


def in_order(operation: tuple[str, str, Any]) -> int:
    """Drops come last: of a table, which is restored, and of its namespace, which is too."""
    name = operation[2]["operationId"]
    return DROPS.index(name) if name in DROPS else -1


def test_every_operation_answers_as_the_document_says(rest: kit.RestServer) -> None:
    document = document_of(rest)
    rest.make_table("ns.t")
    taken = json.dumps([{"source": "s3://raw/a.csv", "etag": "e1"}])
    added = rest.commit("ns.t", *kit.add_snapshot(1, 1, **{"boathouse.loads": taken}))
    assert added.status == 200, added.body
    report = {
        "report-type": "scan-report", "table-name": "ns.t", "snapshot-id": 1, "filter": True,
        "schema-id": 0, "projected-field-ids": [1], "projected-field-names": ["id"], "metrics": {},
    }  # fmt: skip
    rest.ask("POST", "namespaces/ns/tables/t/metrics", report)
    token = rest.run(rest.token("root"))
    filled = {"listLoads": "loads", "listReports": "reports", "listDropped": "dropped"}
    filled["listDroppedNamespaces"] = "dropped"
    rest.make_table("ns.gone")
    gone = rest.lake.tables.pointer(rest.lake.ident("ns.gone")).object_uuid
    assert rest.ask("DELETE", "namespaces/ns/tables/gone").status == 204
    values = {**VALUES, "object_uuid": gone}
    for path, method, operation in sorted(operations_of(document), key=in_order):
        required = {p["name"] for p in operation["parameters"] if p.get("required")}
        required.update(BY_DEFAULT.get(operation["operationId"], ()))
        query = "?" + "&".join(
            f"{name}={value}" for name, value in values.items() if name in required
        )
        job = ""
        if "{job}" in path:
            names = f"pipeline={operation['operationId']}&target=lake.ns.{operation['operationId']}"
            begun = rest.send(
                "POST", f"/_api/v1/jobs?{names}", None, {"authorization": f"Bearer {token}"}
            )
            job = begun.json["run_id"]
        subjects = {"{warehouse}": "lake", "{job}": job, "{pipeline}": "nightly"}
        for name, subject in subjects.items():
            path = path.replace(name, subject)
        target = path + query
        body = b"{}" if method == "patch" else None
        answer = rest.send(method.upper(), target, body, {"authorization": f"Bearer {token}"})
        (status,) = (status for status in operation["responses"] if status != "default")
        if operation["operationId"] in OF_A_PIPELINE:
            assert (answer.status, answer.json["error"]["type"]) == (404, "NoSuchPipeline")
            continue
        assert str(answer.status) == status, answer.body
        (media,) = operation["responses"][status]["content"]
        assert answer.headers["content-type"].partition(";")[0] == media
        if media == "application/json":
            schema = operation["responses"][status]["content"][media]["schema"]
            check(answer.json, schema, document)
        if operation["operationId"] in filled:
            assert answer.json[filled[operation["operationId"]]]
        if not operation["security"]:
            continue
        refused = rest.send(method.upper(), target, body)
        assert refused.status == 401
        error = operation["responses"]["default"]["content"]["application/json"]["schema"]
        check(refused.json, error, document)


@pytest.mark.parametrize("path", ["/_health", "/_api/v1/warehouses/lake"])
def test_head_is_answered_where_get_is(rest: kit.RestServer, path: str) -> None:
    headers = {"authorization": f"Bearer {rest.run(rest.token('root'))}"}
    by_get = rest.send("GET", path, None, headers)
    by_head = rest.send("HEAD", path, None, headers)
    assert (by_head.status, by_head.body) == (200, b"")
    assert by_head.headers["content-length"] == str(len(by_get.body))
