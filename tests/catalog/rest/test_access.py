"""Who may do what: each operation has one case that is allowed and one that is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.access import actions, canned
from tests.catalog.rest import rest_server as kit
from tests.kit import lakes

BUCKET = kit.BUCKET_ARN
ANY_TABLE = f"{BUCKET}/table/*"
CHANGE = {
    "identifier": {"namespace": ["ns"], "name": "t"},
    "requirements": [],
    "updates": [kit.set_property("a", "1")],
}
IDENT = {"namespace": ["ns"], "name": "t"}
VIEW = {"namespace": ["ns"], "name": "v"}
NEW_VIEW = {
    "name": "w",
    "schema": kit.SCHEMA,
    "view-version": {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": lakes.NOW_MS,
        "summary": {},
        "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    },
}
NEW = {"name": "new", "schema": kit.SCHEMA}

# operation, method, path, body, actions needed, status when allowed
READ_ACTIONS = ["GetTable", "GetTableMetadataLocation", "GetTableData"]
CASES: list[tuple[str, str, str, Any, list[str], int]] = [
    ("getConfig", "GET", "config", None, ["GetTableBucket"], 200),
    ("listNamespaces", "GET", "namespaces", None, ["ListNamespaces"], 200),
    ("createNamespace", "POST", "namespaces", {"namespace": ["x"]}, ["CreateNamespace"], 200),
    ("loadNamespace", "GET", "namespaces/ns", None, ["GetNamespace"], 200),
    ("namespaceExists", "HEAD", "namespaces/ns", None, ["GetNamespace"], 204),
    ("dropNamespace", "DELETE", "namespaces/empty", None, ["DeleteNamespace"], 204),
    (
        "updateProperties",
        "POST",
        "namespaces/ns/properties",
        {"updates": {"a": "b"}},
        ["UpdateNamespace"],
        200,
    ),
    ("listTables", "GET", "namespaces/ns/tables", None, ["ListTables"], 200),
    ("listViews", "GET", "namespaces/ns/views", None, ["ListTables"], 200),
    ("createTable", "POST", "namespaces/ns/tables", NEW, ["CreateTable", "PutTableData"], 200),
    (
        "loadTable",
        "GET",
        "namespaces/ns/tables/t",
        None,
        ["GetTable", "GetTableMetadataLocation"],
        200,
    ),
    ("tableExists", "HEAD", "namespaces/ns/tables/t", None, ["GetTable"], 204),
    (
        "updateTable",
        "POST",
        "namespaces/ns/tables/t",
        CHANGE,
        ["UpdateTableMetadataLocation", "GetTableData", "PutTableData"],
        200,
    ),
    ("dropTable", "DELETE", "namespaces/ns/tables/t", None, ["DeleteTable"], 204),
    ("unregisterTable", "POST", "namespaces/ns/tables/t/unregister", None, ["DeleteTable"], 200),
    (
        "renameTable",
        "POST",
        "tables/rename",
        {"source": IDENT, "destination": {"namespace": ["ns"], "name": "u"}},
        ["RenameTable", "CreateTable"],
        204,
    ),
    (
        "loadCredentials",
        "GET",
        "namespaces/ns/tables/t/credentials",
        None,
        ["GetTable", "GetTableMetadataLocation", "GetTableData"],
        200,
    ),
    ("planTableScan", "POST", "namespaces/ns/tables/t/plan", {}, READ_ACTIONS, 200),
    (
        "fetchScanTasks",
        "POST",
        "namespaces/ns/tables/t/tasks",
        {"plan-task": "x"},
        READ_ACTIONS,
        404,
    ),
    ("fetchPlanningResult", "GET", "namespaces/ns/tables/t/plan/x", None, READ_ACTIONS, 404),
    ("cancelPlanning", "DELETE", "namespaces/ns/tables/t/plan/x", None, READ_ACTIONS, 404),
    (
        "reportMetrics",
        "POST",
        "namespaces/ns/tables/t/metrics",
        {"report-type": "scan-report"},
        ["GetTable"],
        204,
    ),
    (
        "commitTransaction",
        "POST",
        "transactions/commit",
        {"table-changes": [CHANGE]},
        ["UpdateTableMetadataLocation", "GetTableData", "PutTableData"],
        204,
    ),
    ("createView", "POST", "namespaces/ns/views", NEW_VIEW, ["CreateTable", "PutTableData"], 200),
    (
        "loadView",
        "GET",
        "namespaces/ns/views/v",
        None,
        ["GetTable", "GetTableMetadataLocation"],
        200,
    ),
    ("viewExists", "HEAD", "namespaces/ns/views/v", None, ["GetTable"], 204),
    (
        "replaceView",
        "POST",
        "namespaces/ns/views/v",
        {"requirements": [], "updates": [kit.set_property("a", "1")]},
        ["UpdateTableMetadataLocation", "GetTableData", "PutTableData"],
        200,
    ),
    ("dropView", "DELETE", "namespaces/ns/views/v", None, ["DeleteTable"], 204),
    (
        "renameView",
        "POST",
        "views/rename",
        {"source": VIEW, "destination": {"namespace": ["ns"], "name": "u"}},
        ["RenameTable", "CreateTable"],
        204,
    ),
]


def users(actions: list[str]) -> dict[str, list[dict[str, Any]]]:
    """One user with all the actions, and one for each action without it."""
    everything = [f"s3tables:{action}" for action in actions]
    allowed = {"all": [kit.allow(everything, [BUCKET, ANY_TABLE])]}
    for number, action in enumerate(everything):
        others = [each for each in everything if each != action]
        allowed[f"without{number}"] = [kit.allow(others, [BUCKET, ANY_TABLE])] if others else []
    return allowed


@pytest.mark.parametrize(
    ("method", "path", "body", "actions", "status"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_each_action_an_operation_needs_is_asked_for_before_anything_changes(
    tmp_path: Path, method: str, path: str, body: Any, actions: list[str], status: int
) -> None:
    with kit.opened(tmp_path / "d", users=users(actions)) as rest:
        rest.make_table("ns.t")
        rest.ask("POST", "namespaces/ns/views", {**NEW_VIEW, "name": "v"})
        rest.make_namespace("empty")
        prefix = "" if path == "config" else "lake"
        before = rest.lake.log()
        for number in range(len(actions)):
            answer = rest.ask(method, path, body, user=f"without{number}", prefix=prefix)
            assert answer.status == 403
            if method != "HEAD":
                assert answer.error[1] == "ForbiddenException"
                assert f"s3tables:{actions[number]}" in answer.error[2]
        assert rest.lake.log() == before
        assert rest.ask(method, path, body, user="all", prefix=prefix).status == status


def test_registering_a_view_needs_rights_on_the_files_of_the_place(tmp_path: Path) -> None:
    needed = ["CreateTable", "GetTableData", "PutTableData"]
    with kit.opened(tmp_path / "d", users=users(needed)) as rest:
        rest.make_namespace("ns")
        created = rest.ask("POST", "namespaces/ns/views", {**NEW_VIEW, "name": "v"})
        rest.ask("DELETE", "namespaces/ns/views/v")
        request = {"name": "w", "metadata-location": created.json["metadata-location"]}
        before = rest.lake.log()
        for number in range(len(needed)):
            path = "namespaces/ns/register-view"
            answer = rest.ask("POST", path, request, user=f"without{number}")
            assert answer.error[:2] == (403, "ForbiddenException")
        assert rest.lake.log() == before
        assert rest.ask("POST", path, request, user="all").status == 200


def test_every_action_that_the_catalog_asks_for_can_be_named_in_a_policy() -> None:
    asked_for = {action for case in CASES for action in case[4]}
    assert "UpdateNamespace" in asked_for
    assert [each for each in sorted(asked_for) if actions.suggest("s3tables", each)] == []


def test_creating_a_table_that_awaits_its_metadata_is_a_change_of_that_table(
    tmp_path: Path,
) -> None:
    (commit,) = (case for case in CASES if case[0] == "updateTable")
    actions = ["CreateTable", *commit[4]]
    with kit.opened(tmp_path / "d", users=users(actions)) as rest:
        rest.make_namespace("ns")
        ident = rest.lake.ident("ns.new")
        before = rest.run(rest.lake.tables.create_empty(ident, by="arn:aws:iam::1:root"))
        for number in range(len(actions)):
            answer = rest.ask("POST", "namespaces/ns/tables", NEW, user=f"without{number}")
            assert answer.error[:2] == (403, "ForbiddenException")
        assert rest.lake.tables.pointer(ident) == before
        answer = rest.ask("POST", "namespaces/ns/tables", NEW, user="all")
        assert answer.status == 200
        assert rest.lake.tables.pointer(ident).object_uuid == before.object_uuid


@pytest.fixture
def peopled(tmp_path: Path) -> Iterator[kit.RestServer]:
    everything = ["s3tables:*", "s3:*"]
    with kit.opened(
        tmp_path / "d",
        users={
            "powerless": [],
            "lister": [kit.allow("s3tables:ListTables", BUCKET)],
            "sales": [
                kit.allow(
                    "s3tables:*",
                    [BUCKET, ANY_TABLE],
                    Condition={"StringEquals": {"s3tables:namespace": "sales"}},
                )
            ],
            "named": [
                kit.allow(
                    "s3tables:*",
                    ANY_TABLE,
                    Condition={"StringLike": {"s3tables:tableName": "pub_*"}},
                )
            ],
            "reader": [
                kit.allow(
                    [
                        "s3tables:GetTable",
                        "s3tables:GetTableMetadataLocation",
                        "s3tables:GetTableData",
                    ],
                    ANY_TABLE,
                )
            ],
            "blind": [
                kit.allow(["s3tables:GetTable", "s3tables:GetTableMetadataLocation"], ANY_TABLE)
            ],
            "denied": [
                kit.allow(everything, "*"),
                kit.deny("s3tables:PutTableData", "*"),
            ],
            "no_hr": [
                kit.allow(everything, "*"),
                kit.deny("*", "*", Condition={"StringEquals": {"s3tables:namespace": "hr"}}),
            ],
        },
    ) as rest:
        for dotted in ("sales.t", "hr.t", "hr.pub_t"):
            rest.make_table(dotted)
        yield rest


def test_what_is_absent_looks_like_what_is_hidden_to_who_may_not_list(
    peopled: kit.RestServer,
) -> None:
    hidden = peopled.load("hr.t", user="powerless")
    absent = peopled.load("hr.none", user="powerless")
    assert hidden.status == absent.status == 403
    assert peopled.load("hr.none", user="lister").status == 404
    assert peopled.load("hr.t", user="lister").status == 403


def test_a_namespace_is_a_condition(peopled: kit.RestServer) -> None:
    assert peopled.load("sales.t", user="sales").status == 200
    assert peopled.load("hr.t", user="sales").status == 403
    assert peopled.ask("GET", "namespaces/sales/tables", user="sales").status == 200
    assert peopled.ask("GET", "namespaces/hr/tables", user="sales").status == 403
    request = {"name": "n", "schema": kit.SCHEMA}
    assert peopled.ask("POST", "namespaces/hr/tables", request, user="sales").status == 403
    assert peopled.ask("POST", "namespaces/sales/tables", request, user="sales").status == 200


def test_a_namespaces_name_is_a_condition_of_making_and_listing_it(
    peopled: kit.RestServer,
) -> None:
    """As at the other doors: the right to make or see a namespace is about its name."""
    for user, namespace, status in (
        ("sales", ["hr", "new"], 403),
        ("sales", ["other"], 403),
        ("no_hr", ["new"], 200),
    ):
        answer = peopled.ask("POST", "namespaces", {"namespace": namespace}, user=user)
        assert answer.status == status, answer.body
    assert peopled.ask("POST", "namespaces", {"namespace": ["hr", "below"]}).status == 200
    listed = peopled.ask("GET", "namespaces", user="no_hr").json
    assert listed == {"namespaces": [["new"], ["sales"]], "next-page-token": None}
    first = peopled.ask("GET", "namespaces?pageSize=1&pageToken=", user="no_hr").json
    assert first["namespaces"] == [["new"]]
    token = first["next-page-token"]
    last = peopled.ask("GET", f"namespaces?pageSize=1&pageToken={token}", user="no_hr").json
    assert last == {"namespaces": [["sales"]], "next-page-token": None}
    hidden = peopled.ask("GET", "namespaces?parent=hr", user="no_hr")
    absent = peopled.ask("GET", "namespaces?parent=xy", user="no_hr")
    assert hidden.error == (404, "NoSuchNamespaceException", "Namespace does not exist: hr")
    assert absent.error == (404, "NoSuchNamespaceException", "Namespace does not exist: xy")
    everything = peopled.ask("GET", "namespaces").json["namespaces"]
    assert everything == [["hr"], ["new"], ["sales"]]
    # A namespace of the forbidden name is not made either, where it is gone.
    for name in ("t", "pub_t"):
        assert peopled.ask("DELETE", f"namespaces/hr/tables/{name}").status == 204
    for namespace in ("hr%1Fbelow", "hr"):
        assert peopled.ask("DELETE", f"namespaces/{namespace}").status == 204
    refused = peopled.ask("POST", "namespaces", {"namespace": ["hr"]}, user="no_hr")
    assert refused.status == 403
    assert peopled.ask("GET", "namespaces").json["namespaces"] == [["new"], ["sales"]]
    assert peopled.ask("POST", "namespaces", {"namespace": ["hr"]}).status == 200


def test_a_tables_name_is_a_condition(peopled: kit.RestServer) -> None:
    assert peopled.load("hr.pub_t", user="named").status == 200
    assert peopled.load("hr.t", user="named").status == 403


def test_one_forbidden_table_stops_a_whole_transaction(peopled: kit.RestServer) -> None:
    changes = [
        {
            "identifier": {"namespace": [namespace], "name": "t"},
            "requirements": [],
            "updates": [kit.set_property("a", "1")],
        }
        for namespace in ("sales", "hr")
    ]
    before = peopled.lake.log()
    answer = peopled.ask("POST", "transactions/commit", {"table-changes": changes}, user="sales")
    assert answer.status == 403
    assert peopled.lake.log() == before


def test_keys_hold_no_more_than_their_principal(peopled: kit.RestServer) -> None:
    config = peopled.load("hr.t", user="reader").json
    assert config["config"]["s3.access-key-id"].startswith("ASIA")
    blind = peopled.load("hr.t", user="blind").json
    assert blind["config"] == {}
    assert "storage-credentials" not in blind


def test_a_deny_is_stronger_than_any_allow(peopled: kit.RestServer) -> None:
    refused = peopled.commit("hr.t", kit.set_property("a", "1"), user="denied")
    assert refused.error[1] == "ForbiddenException"
    assert peopled.load("hr.t", user="denied").status == 200


def test_a_table_is_made_by_a_commit_with_the_rights_of_a_creation(tmp_path: Path) -> None:
    creator = [kit.allow(["s3tables:CreateTable", "s3tables:PutTableData"], [BUCKET, ANY_TABLE])]
    with kit.opened(tmp_path / "d", users={"creator": creator, "none": []}) as rest:
        rest.make_namespace("ns")
        updates = [
            {"action": "add-schema", "schema": kit.SCHEMA},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ]
        create = [{"type": "assert-create"}]
        assert rest.commit("ns.t", *updates, requirements=create, user="none").status == 403
        assert rest.commit("ns.t", *updates, requirements=create, user="creator").status == 200
        # What is there now is not the creator's to change.
        assert rest.commit("ns.t", kit.set_property("a", "1"), user="creator").status == 403


def test_a_list_of_loads_is_read_only_for_who_may_read_it(peopled: kit.RestServer) -> None:
    update = kit.add_snapshot(1, 1, **{"boathouse.loads": '{"object": "s3://secrets/list.json"}'})
    answer = peopled.commit("sales.t", *update, user="sales")
    assert answer.error[1] == "ForbiddenException"
    assert "s3:GetObject" in answer.error[2]


def test_a_list_of_loads_that_is_another_tables_file_is_not_read(
    peopled: kit.RestServer,
) -> None:
    listed = '{"object": "s3://lake/hr/t/data/list.json"}'
    update = kit.add_snapshot(1, 1, **{"boathouse.loads": listed})
    answer = peopled.commit("sales.t", *update, user="sales")
    assert answer.error[:2] == (403, "ForbiddenException")
    assert "s3:GetObject on resource arn:aws:s3:::lake/hr/t/data/list.json" in answer.error[2]


def test_a_key_that_ends_in_a_slash_is_not_the_key_without_it(tmp_path: Path) -> None:
    people = {
        "writer": [
            kit.allow("s3tables:*", "*"),
            kit.allow("s3:GetObject", "arn:aws:s3:::open/list"),
        ]
    }
    with kit.opened(tmp_path / "d", users=people) as rest:
        rest.make_table("ns.t")
        for uri, status in (("s3://open/list", 200), ("s3://open/list/", 403)):
            assert rest.commit("ns.t", *naming(uri)[0], user="writer").status == status


def naming(uri: str) -> list[list[dict[str, Any]]]:
    """Updates that name a file, one for each kind of file that a table's metadata names."""
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": lakes.NOW_MS,
        "summary": {"operation": "append"},
    }
    return [
        [{"action": "add-snapshot", "snapshot": {**snapshot, "manifest-list": uri}}],
        [{"action": "add-snapshot", "snapshot": {**snapshot, "manifests": [uri]}}],
        [{"action": "set-statistics", "statistics": {"snapshot-id": 1, "statistics-path": uri}}],
        [
            {
                "action": "set-partition-statistics",
                "partition-statistics": {"snapshot-id": 1, "statistics-path": uri},
            }
        ],
    ]


@pytest.mark.parametrize("number", range(4))
def test_a_commit_names_files_of_other_tables_only_if_its_writer_may_read_them(
    peopled: kit.RestServer, number: int
) -> None:
    hidden = naming("s3a://lake/hr/t/metadata/x.avro")[number]
    before = peopled.lake.log()
    refused = peopled.commit("sales.t", *hidden, user="sales")
    assert refused.error == (
        403,
        "ForbiddenException",
        "arn:aws:iam::000000000000:user/sales is not authorized to read"
        " s3a://lake/hr/t/metadata/x.avro, which does not belong to table sales.t",
    )
    assert peopled.lake.log() == before
    # This server opens these as names below the table; clients with Hadoop's paths do not.
    for path in (
        "lake/sales/t/../../hr/t/metadata/x.avro",
        "lake/sales/t/./../../hr/t/metadata/x.avro",
        "lake/sales/t/../../../plain/x",
        "lake/sales/t/../../../../x/y",
        "lake/sales/t/metadata/../../../..",
    ):
        for uri in (f"s3://{path}", f"s3n://{path}"):
            refused = peopled.commit("sales.t", *naming(uri)[number], user="sales")
            assert refused.status == 403, uri
            assert f"is not authorized to read {uri}," in refused.error[2]
    assert peopled.lake.log() == before
    for path in ("lake/sales/t/metadata/x.avro", "lake/sales/t/../t/metadata/x.avro"):
        own = naming(f"s3a://{path}")[number]
        assert peopled.commit("sales.t", *own, user="sales").status != 403
    assert peopled.commit("sales.t", *hidden, user="denied").status != 200  # may read, not write


def test_a_writer_who_may_read_another_tables_files_may_name_them(
    peopled: kit.RestServer,
) -> None:
    foreign = naming("s3://lake/hr/t/metadata/x.avro")[0]
    assert peopled.commit("sales.t", *foreign).status == 200


def test_a_file_of_a_forbidden_table_cannot_be_registered(peopled: kit.RestServer) -> None:
    location = peopled.load("hr.t").json["metadata-location"]
    body = {"name": "mine", "metadata-location": location}
    answer = peopled.ask("POST", "namespaces/sales/register", body, user="sales")
    assert answer.status == 403


def test_who_may_not_see_a_table_sees_neither_its_loads_nor_its_reports(
    peopled: kit.RestServer,
) -> None:
    headers = {"authorization": f"Bearer {peopled.run(peopled.token('powerless'))}"}
    for what in ("loads", "metrics"):
        path = f"/_api/v1/warehouses/lake/{what}?table=hr.t"
        assert peopled.send("GET", path, headers=headers).status == 403


def test_a_table_buckets_settings_are_shown_to_an_authorised_caller(tmp_path: Path) -> None:
    people = {"reader": [kit.allow("s3tables:GetTableBucket", BUCKET)], "powerless": []}
    with kit.opened(tmp_path / "d", users=people) as rest:
        rest.run(rest.lake.storage.buckets.update("lake", {"layout": "off", "tags": {"a": "b"}}))

        def ask(name: str, user: str) -> kit.Answer:
            headers = {"authorization": f"Bearer {rest.run(rest.token(user))}"}
            return rest.send("GET", f"/_api/v1/warehouses/{name}", headers=headers)

        shown = ask("lake", "reader")
        assert shown.status == 200
        assert shown.json == {
            "name": "lake",
            "arn": BUCKET,
            "created_at_ms": lakes.NOW_MS,
            "settings": {
                "layout": "off",
                "require_registered": False,
                "aws_strict": False,
                "requested_location": "refuse",
                "unreferenced_days": 3,
                "noncurrent_days": 10,
                "history_days": 7,
                "dropped_table_days": 30,
                "purge_on_drop": "asked",
                "manifests_max": 100,
                "statistics_snapshots": 0,
                "protected": False,
            },
        }
        assert ask("lake", "powerless").status == 403
        assert ask("none", "powerless").status == 403
        assert ask("none", "root").status == 404


def test_the_policy_of_maintenance_commits_and_neither_creates_nor_drops(tmp_path: Path) -> None:
    documents = [json.loads(canned.CANNED["MaintenanceJob"].document)]
    with kit.opened(tmp_path / "data", users={"jobs": documents}) as rest:
        rest.make_table("ns.t")
        body = {"requirements": [], "updates": [kit.set_property("a", "b")]}
        assert rest.ask("POST", "namespaces/ns/tables/t", body, user="jobs").status == 200
        assert rest.ask("GET", "namespaces/ns/tables/t", user="jobs").status == 200
        create = {"name": "u", "schema": kit.SCHEMA}
        for method, path, value in (
            ("POST", "namespaces/ns/tables", create),
            ("POST", "namespaces", {"namespace": ["other"]}),
            ("DELETE", "namespaces/ns/tables/t", None),
            ("DELETE", "namespaces/ns/tables/t?purgeRequested=true", None),
            ("DELETE", "namespaces/ns", None),
        ):
            assert rest.ask(method, path, value, user="jobs").status == 403
        assert rest.ask("GET", "namespaces/ns/tables").json["identifiers"] == [
            {"namespace": ["ns"], "name": "t"}
        ]
        assert rest.ask("GET", "namespaces").json["namespaces"] == [["ns"]]
