"""Views over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any

import pytest

from catalog.metadata import limits
from tests.catalog.rest import rest_server as kit
from tests.kit import lakes, s3

EMPTY = {"identifiers": [], "next-page-token": None}
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
VIEW = "namespaces/ns/views/v"


def version(
    *texts: tuple[str, str], version_id: int = 1, schema_id: int = 0, at_ms: int = lakes.NOW_MS
) -> dict[str, Any]:
    """A view version with one SQL text per dialect."""
    return {
        "version-id": version_id,
        "schema-id": schema_id,
        "timestamp-ms": at_ms,
        "summary": {"engine-name": "spark"},
        "default-namespace": ["ns"],
        "representations": [
            {"type": "sql", "sql": sql, "dialect": dialect}
            for dialect, sql in texts or (("spark", "select 1"),)
        ],
    }


def body(name: str = "v", **more: Any) -> dict[str, Any]:
    """What creates a view."""
    return {"name": name, "schema": kit.SCHEMA, "view-version": version(), **more}


def make_view(rest: kit.RestServer, dotted: str = "ns.v", **more: Any) -> Any:
    """Create a view, its namespace too if need be; return the answer's JSON."""
    *namespace, name = dotted.split(".")
    rest.ask("POST", "namespaces", {"namespace": namespace})
    answer = rest.ask("POST", f"namespaces/{kit.join(namespace)}/views", body(name, **more))
    assert answer.status == 200, answer.body
    return answer.json


def replace(rest: kit.RestServer, *updates: Any, requirements: Any = (), **headers: str) -> Any:
    change = {"requirements": list(requirements), "updates": list(updates)}
    return rest.ask("POST", VIEW, change, **headers)


def to_version(version: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


def files(rest: kit.RestServer, prefix: str = "") -> list[str]:
    return [info.key for info in rest.lake.storage.objects.list("lake", prefix=prefix).objects]


# Create and load.


def test_a_view_is_created_and_loaded(rest: kit.RestServer) -> None:
    view = make_view(rest, properties={"owner": "ana"})
    metadata = view["metadata"]
    assert view["config"] == {}
    assert view["metadata-location"].startswith("s3://lake/ns/v/metadata/00000-")
    assert metadata == {
        "view-uuid": metadata["view-uuid"],
        "format-version": 1,
        "location": "s3://lake/ns/v",
        "schemas": [kit.SCHEMA],
        "current-version-id": 1,
        "versions": [version()],
        "version-log": [{"timestamp-ms": lakes.NOW_MS, "version-id": 1}],
        "properties": {"owner": "ana"},
    }
    loaded = rest.ask("GET", VIEW)
    assert (loaded.status, loaded.json) == (200, view)
    assert "etag" not in loaded.headers
    there = rest.ask("HEAD", VIEW)
    assert (there.status, there.body) == (204, b"")
    key = view["metadata-location"].removeprefix("s3://lake/")
    assert files(rest) == [key]
    stored = rest.lake.storage.objects.read(rest.lake.storage.objects.head("lake", key))
    assert json.loads(stored) == metadata


def test_the_schema_of_a_view_is_the_versions_whatever_ids_the_client_gave(
    rest: kit.RestServer,
) -> None:
    view = make_view(
        rest,
        schema={**kit.SCHEMA, "schema-id": 12},
        **{"view-version": version(schema_id=99)},
    )["metadata"]
    assert view["schemas"] == [kit.SCHEMA]
    assert view["versions"][0]["schema-id"] == 0


def test_a_missing_view_is_reported(rest: kit.RestServer) -> None:
    missing = (404, "NoSuchViewException", "View does not exist: ns.v")
    rest.make_table("ns.t")
    for method, body_ in (
        ("GET", None),
        ("POST", {"requirements": [], "updates": []}),
        ("DELETE", None),
    ):
        assert rest.ask(method, VIEW, body_).error == missing
        of_a_table = rest.ask(method, "namespaces/ns/views/t", body_)
        assert of_a_table.error == (404, "NoSuchViewException", "View does not exist: ns.t")
    assert rest.ask("HEAD", VIEW).status == 404
    assert rest.ask("HEAD", "namespaces/ns/views/t").status == 404
    nowhere = rest.ask("POST", "namespaces/non-existing/views", body())
    assert nowhere.error == (
        404,
        "NoSuchNamespaceException",
        "Namespace does not exist: non-existing",
    )


def test_a_view_is_no_table(rest: kit.RestServer) -> None:
    make_view(rest)
    missing = (404, "NoSuchTableException", "Table does not exist: ns.v")
    assert rest.load("ns.v").error == missing
    assert rest.commit("ns.v", kit.set_property("a", "b")).error == missing
    assert rest.ask("DELETE", "namespaces/ns/tables/v").error == missing
    assert rest.ask("GET", "namespaces/ns/tables").json == EMPTY
    assert rest.ask("HEAD", VIEW).status == 204


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"name": 1},
        {"name": ""},
        {"name": "a@b"},
        {"name": "x" * 256},
        {"schema": None},
        {"schema": []},
        {"schema": {"type": "struct", "fields": [{"id": 1}]}},
        {"view-version": None},
        {"view-version": {}},
        {"view-version": {**version(), "representations": [{"type": "sql", "sql": "x"}]}},
        {"view-version": {**version(), "summary": {"a": 1}}},
        {"view-version": {**version(), "default-namespace": "ns"}},
        {"view-version": version(*[(f"d{n}", "x") for n in range(limits.REPRESENTATIONS_MAX + 1)])},
        {"location": 5},
        {"location": "s3://other/a/b"},
        {"location": "file:/tmp/v"},
        {"location": "s3://lake/v"},
        {"properties": {"a": 1}},
        {"properties": {"write.metadata.path": "s3://lake/ns/other/metadata"}},
        {"properties": {"version.history.num-entries": "0"}},
        {"properties": {"version.history.num-entries": "ten"}},
        {"properties": {"x" * 1_025: "y"}},
    ],
)
def test_a_malformed_create_is_refused_and_makes_nothing(rest: kit.RestServer, change: Any) -> None:
    rest.make_namespace("ns")
    answer = rest.ask("POST", "namespaces/ns/views", {**body(), **change})
    assert answer.error[0] == 400
    assert rest.ask("GET", "namespaces/ns/views").json == EMPTY
    assert files(rest) == []


def test_two_texts_of_one_dialect_are_refused_in_the_words_of_the_specifications_kit(
    rest: kit.RestServer,
) -> None:
    rest.make_namespace("ns")
    twice = version(("trino", "select 1"), ("TRINO", "select 2"))
    answer = rest.ask("POST", "namespaces/ns/views", body(**{"view-version": twice}))
    assert answer.error == (
        400,
        "IllegalArgumentException",
        "Invalid view version: Cannot add multiple queries for dialect trino",
    )


def test_a_body_that_is_too_large_is_refused(rest: kit.RestServer) -> None:
    rest.make_namespace("ns")
    large = version(("spark", "x" * 1024 * 1024))
    answer = rest.ask("POST", "namespaces/ns/views", body(**{"view-version": large}))
    assert answer.status == 413


# Names.


def test_tables_and_views_share_one_space_of_names(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    make_view(rest)

    def refused(method: str, path: str, body: Any) -> tuple[str, str]:
        status, error_type, message = rest.ask(method, path, body).error
        assert status == 409
        return error_type, message

    exists = "AlreadyExistsException"
    new_table = {"name": "v", "schema": kit.SCHEMA}
    assert refused("POST", "namespaces/ns/views", body()) == (exists, "View already exists: ns.v")
    assert refused("POST", "namespaces/ns/views", body("t")) == (
        exists,
        "Table with same name already exists: ns.t",
    )
    for stage in (False, True):
        assert refused("POST", "namespaces/ns/tables", {**new_table, "stage-create": stage}) == (
            exists,
            "View with same name already exists: ns.v",
        )
    table, view = ({"namespace": ["ns"], "name": name} for name in ("t", "v"))
    assert refused("POST", "tables/rename", {"source": table, "destination": view}) == (
        exists,
        "Cannot rename ns.t to ns.v. View already exists",
    )
    assert refused("POST", "views/rename", {"source": view, "destination": table}) == (
        exists,
        "Cannot rename ns.v to ns.t. Table already exists",
    )
    location = rest.load("ns.t").json["metadata-location"]
    assert refused(
        "POST", "namespaces/ns/register", {"name": "v", "metadata-location": location}
    ) == (exists, "View with same name already exists: ns.v")
    location = rest.ask("GET", VIEW).json["metadata-location"]
    assert refused(
        "POST", "namespaces/ns/register-view", {"name": "t", "metadata-location": location}
    ) == (exists, "Table with same name already exists: ns.t")
    assert refused(
        "POST", "namespaces/ns/register-view", {"name": "v", "metadata-location": location}
    ) == (exists, "View already exists: ns.v")


def test_a_view_is_renamed_across_namespaces_and_keeps_its_files(rest: kit.RestServer) -> None:
    view = make_view(rest)
    rest.make_namespace("other")
    source = {"namespace": ["ns"], "name": "v"}
    target = {"namespace": ["other"], "name": "w"}
    answer = rest.ask("POST", "views/rename", {"source": source, "destination": target})
    assert (answer.status, answer.body) == (204, b"")
    assert rest.ask("GET", "namespaces/other/views/w").json == view
    assert rest.ask("GET", "namespaces/ns/views").json == EMPTY
    again = rest.ask("POST", "views/rename", {"source": source, "destination": target})
    assert again.error == (404, "NoSuchViewException", "View does not exist: ns.v")
    make_view(rest)
    nowhere = {"namespace": ["none"], "name": "w"}
    lost = rest.ask("POST", "views/rename", {"source": source, "destination": nowhere})
    assert lost.error == (404, "NoSuchNamespaceException", "Namespace does not exist: none")
    taken = rest.ask("POST", "views/rename", {"source": source, "destination": target})
    assert taken.error == (
        409,
        "AlreadyExistsException",
        "Cannot rename ns.v to other.w. View already exists",
    )
    assert rest.lake.broken_chain() is None


def test_a_namespace_with_a_view_is_not_empty(rest: kit.RestServer) -> None:
    make_view(rest)
    refused = (409, "NamespaceNotEmptyException", "Namespace ns is not empty")
    assert rest.ask("DELETE", "namespaces/ns").error == refused
    assert rest.ask("DELETE", VIEW).status == 204
    assert rest.ask("DELETE", "namespaces/ns").status == 204


def test_a_dropped_view_is_gone_and_its_name_is_free(rest: kit.RestServer) -> None:
    first = make_view(rest)
    answer = rest.ask("DELETE", VIEW)
    assert (answer.status, answer.body) == (204, b"")
    assert rest.ask("DELETE", VIEW).status == 404
    second = make_view(rest)
    assert second["metadata"]["view-uuid"] != first["metadata"]["view-uuid"]
    assert second["metadata"]["location"] != first["metadata"]["location"], "its files stay"
    rest.ask("DELETE", VIEW)
    rest.make_table("ns.v")


# Listing.


@pytest.mark.parametrize("query", ["", "?pageToken=", "?pageToken=&pageSize=1", "?pageSize=1"])
def test_list_views_of_a_namespace_with_tables_answers_an_empty_list(
    rest: kit.RestServer, query: str
) -> None:
    rest.make_table("ns.t")
    answer = rest.ask("GET", f"namespaces/ns/views{query}")
    assert (answer.status, answer.json) == (200, EMPTY)


def test_list_views_comes_in_pages(rest: kit.RestServer) -> None:
    for name in ("b", "a", "c"):
        make_view(rest, f"ns.{name}")
    rest.make_table("ns.t")
    names: list[list[str]] = []
    token: str | None = ""
    while token is not None:
        page = rest.ask("GET", f"namespaces/ns/views?pageToken={token}&pageSize=2").json
        names.append([each["name"] for each in page["identifiers"]])
        token = page["next-page-token"]
    assert names == [["a", "b"], ["c"]]
    whole = rest.ask("GET", "namespaces/ns/views").json
    assert [each["name"] for each in whole["identifiers"]] == ["a", "b", "c"]
    assert whole["next-page-token"] is None


@pytest.mark.parametrize("query", ["pageSize=0", "pageSize=x", "pageToken=!"])
def test_list_views_refuses_the_parameters_that_list_tables_refuses(
    rest: kit.RestServer, query: str
) -> None:
    rest.make_namespace("ns")
    refused = rest.ask("GET", f"namespaces/ns/views?{query}").error
    assert refused == rest.ask("GET", f"namespaces/ns/tables?{query}").error
    assert refused[0] == 400


def test_list_views_refuses_a_page_token_of_list_tables(rest: kit.RestServer) -> None:
    rest.make_table("ns.a")
    rest.make_table("ns.b")
    token = rest.ask("GET", "namespaces/ns/tables?pageToken=&pageSize=1").json["next-page-token"]
    refused = rest.ask("GET", f"namespaces/ns/views?pageToken={token}").error
    assert refused == (
        400,
        "BadRequestException",
        "Invalid page token: it belongs to another listing",
    )


@pytest.mark.parametrize("prefix", ["lake", "pond"])
def test_list_views_of_what_does_not_exist_answers_as_list_tables_does(
    rest: kit.RestServer, prefix: str
) -> None:
    refused = rest.ask("GET", "namespaces/none/views", prefix=prefix).error
    assert refused == rest.ask("GET", "namespaces/none/tables", prefix=prefix).error
    assert refused[0] == 404


def test_all_operations_on_views_are_advertised(rest: kit.RestServer) -> None:
    endpoints = rest.ask("GET", "config", prefix="").json["endpoints"]
    namespace = "/v1/{prefix}/namespaces/{namespace}"
    assert {each for each in endpoints if "view" in each} == {
        f"GET {namespace}/views",
        f"POST {namespace}/views",
        f"GET {namespace}/views/{{view}}",
        f"POST {namespace}/views/{{view}}",
        f"DELETE {namespace}/views/{{view}}",
        f"HEAD {namespace}/views/{{view}}",
        "POST /v1/{prefix}/views/rename",
        f"POST {namespace}/register-view",
    }


# Replace.


def test_a_replacement_adds_a_version_and_a_file(rest: kit.RestServer) -> None:
    view = make_view(rest)
    uuid = {"type": "assert-view-uuid", "uuid": view["metadata"]["view-uuid"].upper()}
    rest.lake.clock.now_ms += 60_000
    second = version(("spark", "select 2"), version_id=2, at_ms=rest.lake.clock.now_ms)
    answer = replace(rest, *to_version(second), requirements=[uuid])
    assert answer.status == 200
    metadata = answer.json["metadata"]
    assert metadata["versions"] == [version(), second]
    assert metadata["current-version-id"] == 2
    assert metadata["version-log"] == [
        {"timestamp-ms": lakes.NOW_MS, "version-id": 1},
        {"timestamp-ms": lakes.NOW_MS + 60_000, "version-id": 2},
    ]
    assert "/metadata/00001-" in answer.json["metadata-location"]
    assert rest.ask("GET", VIEW).json == answer.json
    assert len(files(rest)) == 2

    back = replace(rest, {"action": "set-current-view-version", "view-version-id": 1}).json
    assert back["metadata"]["current-version-id"] == 1
    assert [entry["version-id"] for entry in back["metadata"]["version-log"]] == [1, 2, 1]


def test_a_version_that_says_the_same_gets_the_id_of_the_first(rest: kit.RestServer) -> None:
    make_view(rest)
    replace(rest, *to_version(version(("spark", "select 2"), version_id=2)))
    again = replace(rest, *to_version(version(version_id=3)))
    assert again.json["metadata"]["current-version-id"] == 1
    assert len(again.json["metadata"]["versions"]) == 2


def test_every_update_of_a_view_takes_effect(rest: kit.RestServer) -> None:
    view = make_view(rest, properties={"a": "1", "b": "2"})
    other = {
        "type": "struct",
        "fields": [{"id": 1, "name": "n", "required": False, "type": "string"}],
    }
    answer = replace(
        rest,
        {"action": "assign-uuid", "uuid": view["metadata"]["view-uuid"]},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-properties", "updates": {"a": "9", "c": "3"}},
        {"action": "remove-properties", "removals": ["b", "none"]},
        {"action": "set-location", "location": "s3://lake/ns/moved/"},
        {"action": "add-schema", "schema": other},
        *to_version(version(("spark", "select n"), version_id=2, schema_id=-1)),
    )
    assert answer.status == 200, answer.body
    metadata = answer.json["metadata"]
    assert metadata["properties"] == {"a": "9", "c": "3"}
    assert metadata["location"] == "s3://lake/ns/moved"
    assert answer.json["metadata-location"].startswith("s3://lake/ns/moved/metadata/00001-")
    assert metadata["schemas"] == [kit.SCHEMA, {**other, "schema-id": 1}]
    assert metadata["versions"][1]["schema-id"] == 1
    assert metadata["view-uuid"] == view["metadata"]["view-uuid"]


def test_a_replacement_that_changes_nothing_writes_nothing(rest: kit.RestServer) -> None:
    view = make_view(rest, properties={"a": "1"})
    log, keys = rest.lake.log(), files(rest)
    answer = replace(rest, kit.set_property("a", "1"), *to_version(version(version_id=5)))
    assert (answer.status, answer.json) == (200, view)
    assert (rest.lake.log(), files(rest)) == (log, keys)


@pytest.mark.parametrize(
    ("updates", "requirements", "refused"),
    [
        (
            [kit.set_property("a", "b")],
            [{"type": "assert-view-uuid", "uuid": UUID}],
            (409, "CommitFailedException", "Requirement failed: view UUID does not match"),
        ),
        (
            [kit.set_property("a", "b")],
            [{"type": "assert-create"}],
            (409, "CommitFailedException", "Requirement failed: view already exists"),
        ),
        (
            [kit.set_property("a", "b")],
            [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}],
            (400, "IllegalArgumentException", "Cannot check requirement"),
        ),
        (
            [{"action": "assign-uuid", "uuid": UUID}],
            [],
            (400, "IllegalArgumentException", "Cannot reassign uuid"),
        ),
        (
            [{"action": "upgrade-format-version", "format-version": 2}],
            [],
            (400, "IllegalArgumentException", "Unsupported format version: 2"),
        ),
        (
            [{"action": "set-current-view-version", "view-version-id": -1}],
            [],
            (400, "IllegalArgumentException", "Cannot set last version id"),
        ),
        (
            [{"action": "set-current-view-version", "view-version-id": 7}],
            [],
            (400, "IllegalArgumentException", "unknown version: 7"),
        ),
        (
            [{"action": "add-view-version", "view-version": version(schema_id=9)}],
            [],
            (400, "IllegalArgumentException", "unknown schema: 9"),
        ),
        (
            [{"action": "add-view-version", "view-version": version(schema_id=-1)}],
            [],
            (400, "IllegalArgumentException", "no schema has been added"),
        ),
        (
            [{"action": "add-snapshot", "snapshot": {}}],
            [],
            (400, "IllegalArgumentException", "Cannot apply update add-snapshot to a view"),
        ),
        (
            to_version(version(("trino", "select 1"), version_id=2)),
            [],
            (400, "IllegalArgumentException", "loss of view dialects"),
        ),
        (
            [{"action": "set-location", "location": "s3://other/ns/v"}],
            [],
            (400, "ValidationException", "must lie in s3://lake/"),
        ),
        (
            [{"action": "set-location", "location": "s3://lake/ns/t/x"}],
            [],
            (400, "ValidationException", "it lies inside the location ns/t"),
        ),
        (
            [kit.set_property("write.metadata.path", "s3://lake/ns/t/metadata")],
            [],
            (400, "ValidationException", "write.metadata.path"),
        ),
        (
            [kit.set_property("a", "b")] * (limits.VIEW_UPDATES_MAX + 1),
            [],
            (400, "IllegalArgumentException", "at most 1000 updates"),
        ),
    ],
)
def test_a_refused_replacement_changes_nothing(
    rest: kit.RestServer, updates: Any, requirements: Any, refused: tuple[int, str, str]
) -> None:
    rest.make_table("ns.t")
    view = make_view(rest)
    log, keys = rest.lake.log(), files(rest)
    answer = replace(rest, *updates, requirements=requirements)
    assert answer.error[:2] == refused[:2]
    assert refused[2] in answer.error[2]
    assert rest.ask("GET", VIEW).json == view
    assert (rest.lake.log(), files(rest)) == (log, keys)


def test_a_view_whose_version_ids_are_used_up_takes_no_more_and_stays_usable(
    rest: kit.RestServer,
) -> None:
    make_view(rest)
    last = version(("spark", "select 2"), version_id=2**31 - 1)
    assert replace(rest, *to_version(last)).status == 200
    refused = replace(rest, *to_version(version(("spark", "select 3"), version_id=2)))
    assert refused.error == (
        400,
        "IllegalArgumentException",
        "Cannot add a view version: the highest id is 2147483647 already",
    )
    assert replace(rest, kit.set_property("a", "1")).status == 200
    assert rest.ask("GET", VIEW).json["metadata"]["current-version-id"] == 2**31 - 1


def test_a_dialect_is_dropped_where_the_view_allows_it(rest: kit.RestServer) -> None:
    make_view(rest, properties={"replace.drop-dialect.allowed": "true"})
    answer = replace(rest, *to_version(version(("trino", "select 1"), version_id=2)))
    assert answer.status == 200
    (text,) = answer.json["metadata"]["versions"][1]["representations"]
    assert text["dialect"] == "trino"


def test_replacements_at_once_all_take_place(rest: kit.RestServer) -> None:
    view = make_view(rest, properties={"version.history.num-entries": "100"})
    uuid = {"type": "assert-view-uuid", "uuid": view["metadata"]["view-uuid"]}

    async def all_at_once() -> list[kit.Answer]:
        return await asyncio.gather(
            *(
                rest.exchange(
                    "POST",
                    VIEW,
                    {
                        "requirements": [uuid],
                        "updates": to_version(version(("spark", f"select {n}"), version_id=2)),
                    },
                )
                for n in range(2, 12)
            )
        )

    answers = rest.run(all_at_once())
    assert [each.status for each in answers] == [200] * 10
    metadata = rest.ask("GET", VIEW).json["metadata"]
    assert [each["version-id"] for each in metadata["versions"]] == list(range(1, 12))
    texts = {each["representations"][0]["sql"] for each in metadata["versions"]}
    assert texts == {f"select {n}" for n in range(1, 12)}
    assert rest.lake.broken_chain() is None


def test_what_a_view_keeps_is_bounded(rest: kit.RestServer) -> None:
    make_view(rest)
    for number in range(2, 31):
        schema = {
            "type": "struct",
            "fields": [{"id": 1, "name": f"c{number}", "required": False, "type": "long"}],
        }
        text = version(("spark", f"select {number}"), version_id=number, schema_id=-1)
        answer = replace(rest, {"action": "add-schema", "schema": schema}, *to_version(text))
        assert answer.status == 200, answer.body
    metadata = answer.json["metadata"]
    assert [each["version-id"] for each in metadata["versions"]] == list(range(21, 31))
    assert [each["version-id"] for each in metadata["version-log"]] == list(range(21, 31))
    named = {each["schema-id"] for each in metadata["versions"]}
    assert {each["schema-id"] for each in metadata["schemas"]} == named


def test_metadata_of_a_view_has_a_greatest_size(rest: kit.RestServer) -> None:
    make_view(rest)
    for number in (2, 3):
        text = version(("spark", "x" * 900_000 + str(number)), version_id=number)
        assert replace(rest, *to_version(text)).status == 200
    before = rest.ask("GET", VIEW)
    assert before.status == 200
    refused = replace(rest, *to_version(version(("spark", "y" * 900_000), version_id=4)))
    assert refused.error[:2] == (400, "BadRequestException")
    assert refused.error[2] == (
        "The metadata of ns.v would be more than 2097152 bytes: keep fewer versions"
        " (version.history.num-entries)"
    )
    assert rest.ask("GET", VIEW).json == before.json
    fewer = {"version.history.num-entries": "2"}
    assert (
        replace(
            rest,
            {"action": "set-properties", "updates": fewer},
            *to_version(version(("spark", "y" * 900_000), version_id=4)),
        ).status
        == 200
    )


def test_a_view_keeps_compressed_metadata_where_it_says_so(rest: kit.RestServer) -> None:
    view = make_view(rest, properties={"write.metadata.compression-codec": "gzip"})
    assert view["metadata-location"].endswith(".gz.metadata.json")
    assert rest.ask("GET", VIEW).json == view
    assert replace(rest, kit.set_property("a", "b")).status == 200


# Places.


def test_a_view_has_its_location_to_itself(rest: kit.RestServer) -> None:
    make_view(rest)
    rest.make_table("ns.t")
    for location, reason in (
        ("s3://lake/ns/v", "it is the location of another table or view"),
        ("s3://lake/ns/v/below", "it lies inside the location ns/v"),
    ):
        for path, new in (
            ("tables", {"name": "x", "schema": kit.SCHEMA}),
            ("views", body("x")),
        ):
            answer = rest.ask("POST", f"namespaces/ns/{path}", {**new, "location": location})
            assert answer.error[:2] == (400, "ValidationException")
            assert answer.error[2].endswith(reason)
    answer = rest.ask("POST", "namespaces/ns/views", body("x", location="s3://lake/ns/t"))
    assert answer.error[2].endswith("it is the location of another table or view")


def test_the_files_of_a_view_are_protected_as_a_tables_are(rest: kit.RestServer) -> None:
    view = make_view(rest)
    key = view["metadata-location"].removeprefix("s3://lake/")
    url = f"/lake/{key}"

    rest.lake.clock.now_ms = int(time.time() * 1000)  # botocore signs by its own clock

    def send(method: str, path: str, data: bytes = b"") -> kit.Answer:
        headers = s3.sign(
            None,
            method,
            path,
            payload_hash=hashlib.sha256(data).hexdigest(),
            access_key=kit.ROOT[0],
            secret_key=kit.ROOT[1],
            host=kit.HOST,
        )
        return rest.send(method, path, data, headers)

    assert send("PUT", url, b"{}").status == 403
    assert send("PUT", "/lake/ns/v/data/f.parquet", b"PAR1").status == 403
    assert send("DELETE", url).status == 204
    assert rest.ask("GET", VIEW).json == view, "a DELETE hides the file and frees nothing"


# Register.


def test_a_dropped_view_is_registered_again_from_its_file(rest: kit.RestServer) -> None:
    view = make_view(rest)
    rest.ask("DELETE", VIEW)
    request = {"name": "w", "metadata-location": view["metadata-location"]}
    answer = rest.ask("POST", "namespaces/ns/register-view", request)
    assert (answer.status, answer.json) == (200, view)
    assert rest.ask("GET", "namespaces/ns/views/w").json == view
    again = rest.ask("POST", "namespaces/ns/register-view", {**request, "name": "other"})
    assert again.error[:2] == (400, "ValidationException")
    assert rest.lake.broken_chain() is None


def test_what_is_no_metadata_of_a_view_is_not_registered(rest: kit.RestServer) -> None:
    table = rest.make_table("ns.t")["metadata-location"]
    rest.ask("DELETE", "namespaces/ns/tables/t")

    def register(location: str) -> tuple[int, str, str]:
        request = {"name": "v", "metadata-location": location}
        return rest.ask("POST", "namespaces/ns/register-view", request).error

    missing = "s3://lake/a/b/metadata/v1.metadata.json"
    assert register(missing) == (
        404,
        "NotFoundException",
        f"Failed to open input stream for file: {missing}",
    )
    assert register(table)[:2] == (400, "BadRequestException")
    assert register("s3://other/a/b/metadata/v1.metadata.json")[:2] == (400, "BadRequestException")
    assert register("s3://lake/a/b/metadata/v1.json")[:2] == (400, "BadRequestException")
    assert rest.ask("GET", "namespaces/ns/views").json == EMPTY


# Repeated requests.


def test_repeated_requests_on_views_are_done_once(rest: kit.RestServer) -> None:
    rest.make_namespace("ns")
    uuids = iter(f"018f2c5e-7b1a-7000-8000-{number:012d}" for number in range(100))

    def twice(method: str, path: str, body: Any = None) -> kit.Answer:
        key = next(uuids)
        first = rest.ask(method, path, body, idempotency_key=key)
        before = rest.lake.log()
        again = rest.ask(method, path, body, idempotency_key=key)
        assert first.status in (200, 204), first.body
        assert (again.status, again.body) == (first.status, first.body)
        assert rest.lake.log() == before
        return first

    view = twice("POST", "namespaces/ns/views", body())
    twice("POST", VIEW, {"requirements": [], "updates": [kit.set_property("a", "1")]})
    twice("POST", VIEW, {"requirements": [], "updates": []})
    source, target = ({"namespace": ["ns"], "name": name} for name in ("v", "w"))
    twice("POST", "views/rename", {"source": source, "destination": target})
    twice("DELETE", "namespaces/ns/views/w")
    request = {"name": "v", "metadata-location": view.json["metadata-location"]}
    twice("POST", "namespaces/ns/register-view", request)


# Locations that the server replaces.


def test_a_view_asked_for_elsewhere_gets_its_place_where_the_bucket_says_so(
    rest: kit.RestServer,
) -> None:
    rest.run(rest.lake.storage.buckets.update("lake", {"requested_location": "override"}))
    view = make_view(rest, location="file:/tmp/v")
    assert view["metadata"]["location"] == "s3://lake/ns/v"
    assert view["metadata-location"].startswith("s3://lake/ns/v/metadata/00000-")
    moved = replace(
        rest,
        {"action": "set-location", "location": "s3://other/ns/v"},
        kit.set_property("a", "1"),
    )
    assert moved.json["metadata"]["location"] == "s3://lake/ns/v"
    assert moved.json["metadata"]["properties"] == {"a": "1"}
    log = rest.lake.log()
    kept = replace(rest, {"action": "set-location", "location": "file:/tmp/w"})
    assert kept.json == moved.json
    assert rest.lake.log() == log
    inside = replace(rest, {"action": "set-location", "location": "s3://lake/ns/w"})
    assert inside.json["metadata"]["location"] == "s3://lake/ns/w"
    for update in (
        {"action": "set-location", "location": "s3://lake/w"},
        kit.set_property("write.metadata.path", "file:/tmp/elsewhere"),
    ):
        assert replace(rest, update).error[:2] == (400, "ValidationException")
