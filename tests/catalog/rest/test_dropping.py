"""The native API's drops, restores and settings, and what the REST catalog asks for a purge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog import drops
from storage import settings
from tests.catalog.rest import rest_server as kit
from tests.catalog.rest import test_native
from tests.kit import lakes


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[kit.RestServer]:
    drops = ["s3tables:ListTables", "s3tables:DeleteTable", "s3tables:GetTable"]
    namespaces = ["s3tables:DeleteNamespace", "s3tables:CreateNamespace"]
    but_t = {"StringEquals": {"s3tables:tableName": "t"}}
    policies = {
        "dropper": [kit.allow(drops, "*")],
        "powerless": [],
        "restorer": [kit.allow("*", "*"), kit.deny("lake:Undrop", "*", Condition=but_t)],
        "undropper": [kit.allow(["lake:Undrop", "s3tables:CreateTable"], "*")],
        "emptier": [kit.allow(namespaces, "*")],
        "lister": [kit.allow([*namespaces, "s3tables:ListTables"], "*")],
    }
    with kit.opened(tmp_path / "data", users=policies) as server:
        for namespace in (["ns"], ["ns", "in"]):
            assert server.ask("POST", "namespaces", {"namespace": namespace}).status == 200
        for where in ("ns", "ns%1Fin"):
            body = {"name": "t", "schema": kit.SCHEMA}
            assert server.ask("POST", f"namespaces/{where}/tables", body).status == 200
        yield server


def ask(
    rest: kit.RestServer, method: str, path: str, body: Any = None, *, user: str = "root"
) -> kit.Answer:
    headers = {"authorization": f"Bearer {rest.run(rest.token(user))}"}
    data = None if body is None else json.dumps(body).encode()
    answer: kit.Answer = rest.send(method, f"/_api/v1/warehouses/lake{path}", data, headers)
    return answer


def test_a_dry_run_of_a_recursive_drop_lists_all_and_drops_nothing(rest: kit.RestServer) -> None:
    answer = ask(rest, "DELETE", "/namespaces?namespace=ns&dry_run=true")
    assert answer.status == 200, answer.body
    listed = answer.json
    assert listed["dry_run"] is True
    assert listed["namespaces"] == [["ns"], ["ns", "in"]]
    assert [each["namespace"] for each in listed["tables"]] == [["ns"], ["ns", "in"]]
    assert listed["files"] == len(listed["listed"]) == 2
    assert listed["size_bytes"] == sum(each["size_bytes"] for each in listed["listed"]) > 0
    assert listed["is_whole"] is True
    assert rest.ask("HEAD", "namespaces/ns%1Fin/tables/t").status == 204


def test_a_recursive_drop_leaves_nothing_and_undrop_restores_each_table(
    rest: kit.RestServer,
) -> None:
    assert ask(rest, "DELETE", "/namespaces?namespace=ns").json["dry_run"] is False
    assert rest.ask("GET", "namespaces").json["namespaces"] == []
    kept = ask(rest, "GET", "/dropped").json["dropped"]
    assert [(each["namespace"], each["how"], each["files"]) for each in kept] == [
        (["ns"], "drop", 1),
        (["ns", "in"], "drop", 1),
    ]
    assert rest.ask("POST", "namespaces", {"namespace": ["ns"]}).status == 200
    answer = ask(rest, "POST", "/undrop?table=ns.in.t&to=ns.back")
    assert answer.status == 200, answer.body
    assert (answer.json["namespace"], answer.json["name"]) == (["ns"], "back")
    assert rest.ask("GET", "namespaces/ns/tables/back").status == 200
    assert ask(rest, "POST", "/undrop?table=ns.in.t").status == 404


def test_a_namespace_comes_back_with_what_was_dropped_with_it(rest: kit.RestServer) -> None:
    assert ask(rest, "DELETE", "/namespaces?namespace=ns").status == 200
    listed = ask(rest, "GET", "/dropped-namespaces").json["dropped"]
    assert [(each["namespace"], each["namespaces"], each["tables"]) for each in listed] == [
        (["ns"], 2, 2)
    ]
    answer = ask(rest, "POST", "/undrop-namespace?namespace=ns")
    assert answer.status == 200, answer.body
    assert answer.json["namespaces"] == [["ns"], ["ns", "in"]]
    assert [(each["namespace"], each["name"]) for each in answer.json["tables"]] == [
        (["ns"], "t"),
        (["ns", "in"], "t"),
    ]
    assert answer.json["missing"] == []
    assert rest.ask("GET", "namespaces/ns%1Fin/tables/t").status == 200
    assert ask(rest, "GET", "/dropped-namespaces").json == {"dropped": [], "next": None}
    assert ask(rest, "POST", "/undrop-namespace?namespace=ns").status == 409
    assert ask(rest, "POST", "/undrop-namespace?namespace=absent").status == 404


def test_restoring_a_namespace_needs_the_rights_for_each_part(rest: kit.RestServer) -> None:
    assert ask(rest, "DELETE", "/namespaces?namespace=ns").status == 200
    path = "/undrop-namespace?namespace=ns"
    assert ask(rest, "POST", path, user="dropper").status == 403  # no CreateNamespace
    assert ask(rest, "POST", "/undrop-namespace?namespace=absent", user="dropper").status == 403
    assert ask(rest, "POST", path, user="restorer").status == 403  # not for tables called t
    assert rest.ask("HEAD", "namespaces/ns").status == 404
    assert ask(rest, "GET", "/dropped-namespaces", user="powerless").status == 403
    assert ask(rest, "POST", path).status == 200


def test_a_location_that_was_taken_comes_back_to_a_caller_who_may_read_what_took_it(
    rest: kit.RestServer,
) -> None:
    """Each side is asked for the rights on the other's files; see decision 0005."""
    location = rest.load("ns.in.t").json["metadata"]["location"]
    assert rest.ask("DELETE", "namespaces/ns%1Fin/tables/t").status == 204
    rest.make_table("ns.taker", location=location)
    path = "/undrop?table=ns.in.t&to=ns.back"
    standing = ask(rest, "POST", path)
    assert (standing.status, standing.json["error"]["type"]) == (400, "ValidationException")
    assert rest.ask("DELETE", "namespaces/ns/tables/taker?purgeRequested=true").status == 204
    refused = ask(rest, "POST", path, user="undropper")
    assert (refused.status, refused.json["error"]["type"]) == (403, "AccessDenied")
    assert f"s3tables:GetTableData on location {location}" in refused.json["error"]["message"]
    assert ask(rest, "POST", path).status == 200
    assert rest.load("ns.back").json["metadata"]["location"] == location


def test_answers_are_as_the_document_says(rest: kit.RestServer) -> None:
    document = test_native.document_of(rest)
    for method, path in (
        ("DELETE", "/tables?table=ns.t&dry_run=true"),
        ("DELETE", "/namespaces?namespace=ns.in"),
        ("GET", "/dropped-namespaces"),
        ("POST", "/undrop-namespace?namespace=ns.in"),
        ("DELETE", "/namespaces?namespace=ns.in"),
        ("GET", "/dropped"),
        ("POST", "/undrop?table=ns.in.t&to=ns.u"),
        ("PATCH", ""),
    ):
        answer = ask(rest, method, path, {} if method == "PATCH" else None)
        assert answer.status == 200, answer.body
        template = "/_api/v1/warehouses/{warehouse}" + path.partition("?")[0]
        described = document["paths"][template][method.lower()]["responses"]["200"]
        schema = described["content"]["application/json"]["schema"]
        test_native.check(answer.json, schema, document)


def test_a_purge_needs_a_right_of_its_own(rest: kit.RestServer) -> None:
    path = "namespaces/ns/tables/t"
    refused = rest.ask("DELETE", f"{path}?purgeRequested=true", user="dropper")
    assert refused.error[:2] == (403, "ForbiddenException")
    assert "lake:RunMaintenance" in refused.error[2]
    assert ask(rest, "DELETE", "/tables?table=ns.t&purge=true", user="dropper").status == 403
    assert rest.ask("HEAD", path).status == 204
    assert rest.ask("DELETE", path, user="dropper").status == 204


def test_a_purge_by_the_buckets_setting_needs_no_request_for_it(rest: kit.RestServer) -> None:
    assert ask(rest, "PATCH", "", {"purge_on_drop": "always"}).status == 200
    path = "namespaces/ns/tables/t?purgeRequested=false"
    assert rest.ask("DELETE", path, user="dropper").status == 204
    assert ask(rest, "GET", "/dropped").json["dropped"] == []


def test_a_user_restores_only_what_a_policy_lets_him(rest: kit.RestServer) -> None:
    assert rest.ask("DELETE", "namespaces/ns/tables/t").status == 204
    assert ask(rest, "POST", "/undrop?table=ns.t", user="dropper").status == 403
    assert ask(rest, "POST", "/undrop?table=ns.absent", user="dropper").status == 404
    assert ask(rest, "POST", "/undrop?table=ns.absent", user="powerless").status == 403
    assert ask(rest, "GET", "/dropped", user="powerless").status == 403
    assert len(ask(rest, "GET", "/dropped", user="dropper").json["dropped"]) == 1


def test_a_protected_table_is_refused_with_its_property(rest: kit.RestServer) -> None:
    change = {
        "requirements": [],
        "updates": [{"action": "set-properties", "updates": {"boathouse.protected": "true"}}],
    }
    assert rest.ask("POST", "namespaces/ns/tables/t", change).status == 200
    for answer in (
        rest.ask("DELETE", "namespaces/ns/tables/t"),
        rest.ask("DELETE", "namespaces/ns/tables/t?purgeRequested=true"),
        rest.ask("POST", "namespaces/ns/tables/t/unregister"),
    ):
        assert answer.error[:2] == (403, "ForbiddenException")
        assert "boathouse.protected" in answer.error[2]
    assert ask(rest, "DELETE", "/namespaces?namespace=ns").status == 403


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/tables?table=ns", None),
        ("DELETE", "/tables?table=ns.t&purge=maybe", None),
        ("DELETE", "/tables?table=ns.t&type=index", None),
        ("DELETE", "/tables?table=ns.t&type=view&purge=true", None),
        ("DELETE", "/namespaces?namespace=a..b", None),
        ("POST", "/undrop?table=ns.t&to=u", None),
        ("GET", "/dropped?after=zz", None),
        ("PATCH", "", {"layout": "off"}),
        ("PATCH", "", {"dropped_table_days": 0}),
        ("PATCH", "", {"purge_on_drop": "sometimes"}),
        ("PATCH", "", [1]),
    ],
)
def test_a_malformed_request_is_refused(
    rest: kit.RestServer, method: str, path: str, body: Any
) -> None:
    assert ask(rest, method, path, body).status == 400


def test_a_discard_answers_what_goes(rest: kit.RestServer) -> None:
    unregistered = rest.ask("POST", "namespaces/ns/tables/t/unregister")
    assert unregistered.status == 200
    (kept,) = ask(rest, "GET", "/dropped").json["dropped"]
    assert (kept["how"], kept["kept_until_ms"]) == ("unregister", None)
    path = f"/dropped?object_uuid={kept['object_uuid']}"
    assert ask(rest, "DELETE", path, user="dropper").status == 403
    discarded = ask(rest, "DELETE", path)
    assert discarded.json == {
        "object_uuid": kept["object_uuid"],
        "files": kept["files"],
        "size_bytes": kept["size_bytes"],
        "is_whole": True,
    }
    assert ask(rest, "DELETE", path).status == 404
    assert ask(rest, "DELETE", path, user="powerless").status == 403


@pytest.mark.parametrize("more", ["", "&dry_run=true"])
def test_a_refused_recursive_drop_names_tables_only_to_those_who_may_list_them(
    rest: kit.RestServer, more: str
) -> None:
    rest.make_table("deep.secret")
    hidden = ask(rest, "DELETE", f"/namespaces?namespace=deep{more}", user="emptier")
    assert (hidden.status, b"secret" in hidden.body) == (403, False), hidden.body
    assert b"every table and view of namespace deep" in hidden.body
    shown = ask(rest, "DELETE", f"/namespaces?namespace=deep{more}", user="lister")
    assert (shown.status, b"deep.secret" in shown.body) == (403, True), shown.body
    assert rest.ask("HEAD", "namespaces/deep/tables/secret").status == 204


def test_a_refused_restore_names_tables_only_to_those_who_may_list_them(
    rest: kit.RestServer,
) -> None:
    rest.make_table("deep.secret")
    assert ask(rest, "DELETE", "/namespaces?namespace=deep").status == 200
    path = "/undrop-namespace?namespace=deep"
    hidden = ask(rest, "POST", path, user="emptier")
    assert (hidden.status, b"secret" in hidden.body) == (403, False), hidden.body
    assert b"every table and view of namespace deep" in hidden.body
    shown = ask(rest, "POST", path, user="lister")
    assert (shown.status, b"deep.secret" in shown.body) == (403, True), shown.body
    assert ask(rest, "POST", path).status == 200


@pytest.mark.parametrize("name", ["t%00", "t%00%00"])
def test_a_name_that_begins_with_another_restores_nothing_of_that(
    rest: kit.RestServer, name: str
) -> None:
    assert rest.ask("DELETE", "namespaces/ns/tables/t").status == 204
    assert ask(rest, "POST", "/undrop?table=ns.t&to=ns.u", user="restorer").status == 403
    assert ask(rest, "POST", f"/undrop?table=ns.{name}&to=ns.u", user="restorer").status == 404
    assert ask(rest, "POST", "/undrop?table=ns.t&to=ns.u").status == 200


def test_a_drop_answers_that_the_buckets_setting_forbids_the_purge(rest: kit.RestServer) -> None:
    assert ask(rest, "PATCH", "", {"purge_on_drop": "never"}).status == 200
    for path in ("/tables?table=ns.t", "/namespaces?namespace=ns"):
        for more in ("&dry_run=true", ""):
            answer = ask(rest, "DELETE", f"{path}&purge=true{more}")
            assert (answer.status, answer.json["purge"]) == (200, False)
    assert len(ask(rest, "GET", "/dropped").json["dropped"]) == 2


@pytest.mark.parametrize("path", ["/tables?table=ns.in.t", "/namespaces?namespace=ns.in"])
def test_a_drop_answers_what_it_dropped_if_the_table_was_replaced_meanwhile(
    rest: kit.RestServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    measure = drops.Drops.measure
    uuids: list[str] = []

    async def replacing(self: drops.Drops, *arguments: Any, **more: Any) -> drops.CountedFiles:
        counted = await measure(self, *arguments, **more)
        if not uuids:
            ident = rest.lake.ident("ns.in.t")
            await rest.lake.tables.drop(ident, by=lakes.BY)
            table = await rest.lake.tables.create(ident, schema=lakes.SCHEMA, by=lakes.BY)
            uuids.append(table.pointer.object_uuid)
            location = table.pointer.metadata_location
            uuids.append(str(location).removeprefix("s3://lake/"))
        return counted

    monkeypatch.setattr(drops.Drops, "measure", replacing)
    answer = ask(rest, "DELETE", path).json
    assert [each["object_uuid"] for each in answer["tables"]] == uuids[:1]
    assert [each["key"] for each in answer["listed"]] == uuids[1:]


def test_a_discard_asks_for_the_rights_on_the_table_however_its_uuid_is_spelled(
    rest: kit.RestServer,
) -> None:
    pointer = rest.lake.tables.pointer(rest.lake.ident("ns.t"))
    table_arn = f"{kit.BUCKET_ARN}/table/{pointer.object_uuid}"
    policy = kit.deny("lake:RunMaintenance", table_arn, Principal="*")
    bucket_id = rest.lake.store.place("lake").bucket_id
    planned = settings.plan_policy(bucket_id, pointer.object_uuid, json.dumps(policy))
    rest.run(rest.lake.storage.index.commit(planned))
    assert rest.ask("DELETE", "namespaces/ns/tables/t").status == 204
    for spelling in (pointer.object_uuid, pointer.object_uuid.upper()):
        answer = ask(rest, "DELETE", f"/dropped?object_uuid={spelling}", user="restorer")
        assert answer.status == 403, answer.body
    assert ask(rest, "POST", "/undrop?table=ns.t").status == 200
