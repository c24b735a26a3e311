"""Tables over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.rest import rest_server as kit

CREATE = [{"type": "assert-create"}]


def test_a_table_is_created_and_loaded(rest: kit.RestServer) -> None:
    table = rest.make_table("ns.t", properties={"a": "b"})
    assert table["metadata"]["location"] == "s3://lake/ns/t"
    assert table["metadata"]["properties"]["a"] == "b"
    loaded = rest.load("ns.t")
    assert loaded.status == 200
    assert loaded.json == table
    assert loaded.headers["vary"] == "X-Iceberg-Access-Delegation"
    there = rest.ask("HEAD", "namespaces/ns/tables/t")
    assert (there.status, there.body) == (204, b"")
    assert rest.ask("GET", "namespaces/ns/tables").json == {
        "identifiers": [{"namespace": ["ns"], "name": "t"}],
        "next-page-token": None,
    }


def test_spec_order_and_format_version_are_taken(rest: kit.RestServer) -> None:
    table = rest.make_table(
        "ns.t",
        **{
            "partition-spec": {"fields": [{"source-id": 1, "transform": "bucket[4]", "name": "b"}]},
            "write-order": {
                "order-id": 5,
                "fields": [
                    {
                        "source-id": 2,
                        "transform": "identity",
                        "direction": "asc",
                        "null-order": "nulls-first",
                    }
                ],
            },
            "properties": {"format-version": "3"},
        },
    )["metadata"]
    assert table["format-version"] == 3
    assert table["partition-specs"][0]["fields"][0]["field-id"] == 1000
    assert table["default-sort-order-id"] == 1
    assert "format-version" not in table["properties"]


def test_the_clients_way_to_the_files_comes_with_the_table(rest: kit.RestServer) -> None:
    table = rest.make_table("ns.t")
    config = table["config"]
    assert config["s3.endpoint"] == f"http://{kit.HOST}"
    assert config["s3.path-style-access"] == "true"
    assert config["client.region"] == kit.REGION
    assert config["s3.access-key-id"].startswith("ASIA")
    assert table["storage-credentials"] == [{"prefix": "s3://lake/ns/t/", "config": config}]
    refresh = config["client.refresh-credentials-endpoint"]
    fresh = rest.ask("GET", refresh.removeprefix("v1/lake/"))
    assert fresh.json == {"storage-credentials": table["storage-credentials"]}


def test_a_missing_table_is_reported(rest: kit.RestServer) -> None:
    missing = (404, "NoSuchTableException", "Table does not exist: ns.t")
    for method, path, body in (
        ("GET", "", None),
        ("POST", "", {"requirements": [], "updates": []}),
        ("DELETE", "", None),
        ("POST", "/unregister", None),
        ("GET", "/credentials", None),
        ("POST", "/metrics", {"report-type": "scan-report"}),
    ):
        assert rest.ask(method, f"namespaces/ns/tables/t{path}", body).error == missing
    assert rest.ask("HEAD", "namespaces/ns/tables/t").status == 404
    assert rest.ask("GET", "namespaces/ns/tables").error == (
        404,
        "NoSuchNamespaceException",
        "Namespace does not exist: ns",
    )
    create = rest.ask("POST", "namespaces/non-existing/tables", {"name": "t", "schema": kit.SCHEMA})
    assert create.error == (
        404,
        "NoSuchNamespaceException",
        "Namespace does not exist: non-existing",
    )


def test_a_name_that_is_taken_is_refused(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    again = rest.ask("POST", "namespaces/ns/tables", {"name": "t", "schema": kit.SCHEMA})
    assert again.error == (409, "AlreadyExistsException", "Table already exists: ns.t")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "t"},
        {"schema": kit.SCHEMA},
        {"name": 1, "schema": kit.SCHEMA},
        {"name": "", "schema": kit.SCHEMA},
        {"name": "a@b", "schema": kit.SCHEMA},
        {"name": "x" * 256, "schema": kit.SCHEMA},
        {"name": "t", "schema": []},
        {"name": "t", "schema": {"type": "struct", "fields": [{"id": 1}]}},
        {"name": "t", "schema": kit.SCHEMA, "location": 5},
        {"name": "t", "schema": kit.SCHEMA, "location": "s3://other/a/b"},
        {"name": "t", "schema": kit.SCHEMA, "stage-create": "yes"},
        {"name": "t", "schema": kit.SCHEMA, "properties": {"format-version": "9"}},
        {"name": "t", "schema": kit.SCHEMA, "properties": {"write.data.path": "s3://x/y"}},
        {"name": "t", "schema": kit.SCHEMA, "partition-spec": {"fields": [{}]}},
    ],
)
def test_a_malformed_create_is_refused_and_makes_nothing(rest: kit.RestServer, body: Any) -> None:
    rest.make_namespace("ns")
    assert rest.ask("POST", "namespaces/ns/tables", body).error[0] == 400
    assert rest.ask("GET", "namespaces/ns/tables").json["identifiers"] == []
    assert rest.lake.storage.objects.list("lake").objects == ()


def test_variant_needs_version_three(rest: kit.RestServer) -> None:
    rest.make_namespace("ns")
    schema = {
        "type": "struct",
        "fields": [{"id": 1, "name": "v", "required": False, "type": "variant"}],
    }
    answer = rest.ask("POST", "namespaces/ns/tables", {"name": "t", "schema": schema})
    assert answer.error[0] == 400
    assert "variant is not supported until v3" in answer.error[2]


# Entity tags.


def test_an_entity_tag_answers_whether_anything_changed(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    etag = rest.load("ns.t").headers["etag"]
    same = rest.load("ns.t", if_none_match=f'"x", {etag}')
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", etag)
    assert rest.load("ns.t", if_none_match="*").status == 304
    rest.commit("ns.t", kit.set_property("a", "1"))
    changed = rest.load("ns.t", if_none_match=etag)
    assert changed.status == 200
    assert changed.headers["etag"] != etag


def test_an_entity_tag_differs_whenever_the_answer_does(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    tags = [
        rest.load("ns.t").headers["etag"],
        rest.load("ns.t", "?snapshots=refs").headers["etag"],
        rest.load("ns.t", host="elsewhere:1").headers["etag"],
        rest.load("ns.t", x_iceberg_access_delegation="vended-credentials").headers["etag"],
    ]
    rest.lake.clock.now_ms += 15 * 60 * 1000
    tags.append(rest.load("ns.t").headers["etag"])
    assert len(set(tags)) == len(tags)


def test_load_table_is_no_304_once_the_vended_keys_are_about_to_expire(
    rest: kit.RestServer,
) -> None:
    rest.make_table("ns.t")
    first = rest.load("ns.t")
    ends = int(first.json["config"]["s3.session-token-expires-at-ms"])
    while True:
        rest.tokens.clear()
        answer = rest.load("ns.t", if_none_match=first.headers["etag"])
        if answer.status == 200:
            break
        assert rest.lake.clock() < ends - 30 * 60 * 1000
        rest.lake.clock.now_ms += 60_000
    renewed = int(answer.json["config"]["s3.session-token-expires-at-ms"])
    assert renewed >= rest.lake.clock() + 45 * 60 * 1000


def test_the_tag_of_a_commit_is_none_of_a_load(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    tag = rest.commit("ns.t", kit.set_property("a", "1")).headers["etag"]
    assert rest.load("ns.t", if_none_match=tag).status == 200


def test_refs_leaves_out_what_no_branch_or_tag_points_at(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    for number in (1, 2, 3):
        rest.commit("ns.t", *kit.add_snapshot(number, number, parent=number - 1 or None))
    everything = rest.load("ns.t").json["metadata"]
    refs = rest.load("ns.t", "?snapshots=refs").json["metadata"]
    assert [each["snapshot-id"] for each in everything["snapshots"]] == [1, 2, 3]
    assert [each["snapshot-id"] for each in refs["snapshots"]] == [3]
    assert refs["snapshot-log"] == everything["snapshot-log"]
    assert refs["metadata-log"] == everything["metadata-log"]
    assert rest.load("ns.t", "?snapshots=some").error[0] == 400


# Commits.


def test_a_commit_answers_with_the_table_after_it(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    answer = rest.commit("ns.t", kit.set_property("a", "1"))
    assert answer.status == 200
    assert answer.json.keys() == {"metadata-location", "metadata"}
    loaded = rest.load("ns.t").json
    assert answer.json["metadata"] == loaded["metadata"]
    assert answer.json["metadata-location"] == loaded["metadata-location"]


@pytest.mark.parametrize(
    ("body", "status", "error_type"),
    [
        ({}, 400, "IllegalArgumentException"),
        ({"requirements": [], "updates": {}}, 400, "IllegalArgumentException"),
        ({"requirements": [{"type": "x"}], "updates": []}, 400, "IllegalArgumentException"),
        ({"requirements": [], "updates": [{"action": "x"}]}, 400, "IllegalArgumentException"),
        ({"requirements": [], "updates": ["x"]}, 400, "IllegalArgumentException"),
        (
            {
                "identifier": {"namespace": ["ns"], "name": "u"},
                "requirements": [],
                "updates": [],
            },
            400,
            "BadRequestException",
        ),
        (
            {"requirements": [{"type": "assert-table-uuid", "uuid": "x"}], "updates": []},
            409,
            "CommitFailedException",
        ),
        ({"requirements": CREATE, "updates": []}, 409, "CommitFailedException"),
    ],
)
def test_a_commit_that_cannot_be_is_refused_for_certain(
    rest: kit.RestServer, body: Any, status: int, error_type: str
) -> None:
    before = rest.make_table("ns.t")
    answer = rest.ask("POST", "namespaces/ns/tables/t", body)
    assert answer.error[:2] == (status, error_type)
    assert rest.load("ns.t").json["metadata-location"] == before["metadata-location"]


def test_a_stale_snapshot_is_a_conflict_the_client_may_retry(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    rest.commit("ns.t", *kit.add_snapshot(1, 1))
    answer = rest.commit("ns.t", *kit.add_snapshot(2, 1, parent=1))
    assert answer.error[:2] == (409, "CommitFailedException")
    assert answer.error[2].startswith("Validation failed, please retry: ")


def test_an_unforeseen_failure_of_a_commit_never_reads_as_a_failure_for_certain(
    rest: kit.RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from storage import errors as storage_errors

    rest.make_table("ns.t")

    async def lost(_: object) -> None:
        raise storage_errors.CommitUnknown("the disk said nothing")

    async def broken(_: object) -> None:
        raise ZeroDivisionError

    index = rest.lake.storage.index
    for failure in (lost, broken):
        with monkeypatch.context() as patch:
            patch.setattr(index, "commit", failure)
            answer = rest.commit("ns.t", kit.set_property("a", "1"))
        assert answer.error[:2] == (500, "CommitStateUnknownException")
    assert "ZeroDivision" not in answer.body.decode()


def test_an_unforeseen_failure_while_a_commit_is_planned_is_one_for_certain(
    rest: kit.RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rest.make_table("ns.t")["metadata-location"]

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    change = {"identifier": {"namespace": ["ns"], "name": "t"}, "requirements": [], "updates": []}
    with monkeypatch.context() as patch:
        patch.setattr(rest.lake.tables._commits, "_plan_step", broken)
        patch.setattr(rest.lake.tables._commits, "find_site", broken)
        for answer in (
            rest.commit("ns.t", kit.set_property("a", "1")),
            rest.ask("POST", "transactions/commit", {"table-changes": [change]}),
            rest.ask("POST", "namespaces/ns/tables", {"name": "u", "schema": kit.SCHEMA}),
        ):
            assert answer.error[:2] == (500, "InternalServerError")
            assert "ZeroDivision" not in answer.body.decode()
    assert rest.load("ns.t").json["metadata-location"] == before


def test_a_full_disk_is_reported_as_full(
    rest: kit.RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from storage import errors as storage_errors

    rest.make_table("ns.t")

    async def full(_: object) -> None:
        raise storage_errors.DiskFull("there is no room left")

    monkeypatch.setattr(rest.lake.storage.index, "commit", full)
    answer = rest.commit("ns.t", kit.set_property("a", "1"))
    assert answer.error == (507, "InsufficientStorageException", "there is no room left")


def test_a_staged_create_is_finished_by_a_commit(rest: kit.RestServer) -> None:
    staged = rest.make_table("ns.t", **{"stage-create": True})
    assert "metadata-location" not in staged
    assert staged["config"]["s3.access-key-id"].startswith("ASIA")
    assert rest.load("ns.t").status == 404
    metadata = staged["metadata"]
    done = rest.commit(
        "ns.t",
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
        *kit.add_snapshot(7, 1),
        requirements=CREATE,
    )
    assert done.status == 200
    assert done.json["metadata"]["table-uuid"] == metadata["table-uuid"]
    assert done.json["metadata"]["location"] == "s3://lake/ns/t"
    assert rest.load("ns.t").json["metadata"]["current-snapshot-id"] == 7


# Transactions.


def change(name: str, *updates: Any, requirements: Any = ()) -> dict[str, Any]:
    return {
        "identifier": {"namespace": ["ns"], "name": name},
        "requirements": list(requirements),
        "updates": list(updates),
    }


def test_a_transaction_changes_all_its_tables_or_none(rest: kit.RestServer) -> None:
    rest.make_table("ns.a")
    rest.make_table("ns.b")
    both = [change(name, kit.set_property("x", "1")) for name in ("a", "b")]
    done = rest.ask("POST", "transactions/commit", {"table-changes": both})
    assert (done.status, done.body) == (204, b"")
    wrong = [{"type": "assert-table-uuid", "uuid": "no"}]
    refused = rest.ask(
        "POST",
        "transactions/commit",
        {
            "table-changes": [
                change("a", kit.set_property("x", "2")),
                change("b", kit.set_property("x", "2"), requirements=wrong),
            ]
        },
    )
    assert refused.error[:2] == (409, "CommitFailedException")
    for name in ("a", "b"):
        assert rest.load(f"ns.{name}").json["metadata"]["properties"]["x"] == "1"


@pytest.mark.parametrize("is_new", [True, False])
def test_a_transaction_with_a_source_taken_before_changes_no_other_table(
    rest: kit.RestServer, is_new: bool
) -> None:
    """A load that writes two tables names its sources in one of them."""
    rest.make_table("ns.t")
    staged = rest.make_table("ns.t__rejected", **({"stage-create": True} if is_new else {}))
    taken = json.dumps([{"source": "s3://raw/a.csv", "etag": "e1"}])
    second = kit.add_snapshot(11, 1)
    if is_new:
        metadata = staged["metadata"]
        creation = [
            {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": metadata["schemas"][0]},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": metadata["partition-specs"][0]},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": metadata["location"]},
        ]
        second = [*creation, *second]

    def load(listed: str) -> kit.Answer:
        rows = kit.add_snapshot(2, 2, parent=1, **{"boathouse.loads": listed})
        changes = [
            change("t", *rows),
            change("t__rejected", *second, requirements=CREATE if is_new else ()),
        ]
        return rest.ask("POST", "transactions/commit", {"table-changes": changes})

    first = rest.commit("ns.t", *kit.add_snapshot(1, 1, **{"boathouse.loads": taken}))
    assert first.status == 200
    before = rest.load("ns.t").json, rest.load("ns.t__rejected").body
    again = load(taken)
    assert again.error[:2] == (409, "CommitFailedException")
    assert "s3://raw/a.csv" in again.error[2]
    assert (rest.load("ns.t").json, rest.load("ns.t__rejected").body) == before
    other = json.dumps([{"source": "s3://raw/b.csv", "etag": "e2"}])
    assert load(other).status == 204
    assert rest.load("ns.t").json["metadata"]["current-snapshot-id"] == 2
    assert rest.load("ns.t__rejected").json["metadata"]["current-snapshot-id"] == 11


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"table-changes": [{}]}, 400),
        ({"table-changes": ["x"]}, 400),
        ({"table-changes": [{"requirements": [], "updates": []}]}, 400),
        ({"table-changes": [change("none", kit.set_property("x", "1"))]}, 404),
        ({"table-changes": []}, 204),
    ],
)
def test_a_transaction_needs_to_say_which_tables(
    rest: kit.RestServer, body: Any, status: int
) -> None:
    rest.make_namespace("ns")
    assert rest.ask("POST", "transactions/commit", body).status == status


# Drop, rename, register, unregister.


@pytest.mark.parametrize(
    ("query", "purge"),
    [("", False), ("?purgeRequested=true", True), ("?purgeRequested=false", False)],
)
def test_a_drop_purges_only_on_request(rest: kit.RestServer, query: str, purge: bool) -> None:
    table = rest.make_table("ns.t")
    answer = rest.ask("DELETE", f"namespaces/ns/tables/t{query}")
    assert (answer.status, answer.body) == (204, b"")
    assert rest.load("ns.t").status == 404
    assert rest.lake.log()[-1].record.ops[0].summary["purge"] is purge
    # The file is freed by the sweep alone.
    key = table["metadata-location"].removeprefix("s3://lake/")
    assert rest.lake.storage.objects.head("lake", key).size_bytes > 0


def rename(rest: kit.RestServer, source: str, target: str) -> kit.Answer:
    def ident(dotted: str) -> dict[str, Any]:
        *namespace, name = dotted.split(".")
        return {"namespace": namespace, "name": name}

    return rest.ask(
        "POST", "tables/rename", {"source": ident(source), "destination": ident(target)}
    )


def test_a_rename_goes_across_namespaces(rest: kit.RestServer) -> None:
    table = rest.make_table("ns.t")
    rest.make_namespace("other")
    rest.make_namespace("other", "deep")
    assert rename(rest, "ns.t", "other.deep.u").status == 204
    assert rest.load("ns.t").status == 404
    assert rest.load("other.deep.u").json["metadata"] == table["metadata"]


def test_a_rename_that_cannot_be_says_why(rest: kit.RestServer) -> None:
    rest.make_table("ns.a")
    rest.make_table("ns.b")
    assert rename(rest, "ns.x", "ns.y").error == (
        404,
        "NoSuchTableException",
        "Table does not exist: ns.x",
    )
    assert rename(rest, "ns.a", "no.a").error == (
        404,
        "NoSuchNamespaceException",
        "Namespace does not exist: no",
    )
    assert rename(rest, "ns.a", "ns.b").error == (
        409,
        "AlreadyExistsException",
        "Cannot rename ns.a to ns.b. Table already exists",
    )
    assert rest.ask("POST", "tables/rename", {"source": {}}).error[0] == 400


def test_a_table_is_unregistered_and_registered_elsewhere(rest: kit.RestServer) -> None:
    table = rest.make_table("ns.t")
    gone = rest.ask("POST", "namespaces/ns/tables/t/unregister")
    assert gone.status == 200
    assert gone.json == {
        "metadata-location": table["metadata-location"],
        "metadata": table["metadata"],
        "config": {},
    }
    assert rest.commit("ns.t", kit.set_property("a", "1")).status == 404
    body = {"name": "u", "metadata-location": table["metadata-location"]}
    again = rest.ask("POST", "namespaces/ns/register", body)
    assert again.status == 200
    assert again.json["metadata-location"] == table["metadata-location"]
    assert again.json["storage-credentials"][0]["prefix"] == "s3://lake/ns/t/"
    taken = rest.ask("POST", "namespaces/ns/register", body)
    assert taken.error == (409, "AlreadyExistsException", "Table already exists: ns.u")
    over = rest.ask("POST", "namespaces/ns/register", {**body, "overwrite": True})
    assert over.status == 200


def test_a_register_of_a_missing_file_is_refused(rest: kit.RestServer) -> None:
    rest.make_namespace("ns")
    place = "s3://lake/ns/t/metadata/v1.metadata.json"
    answer = rest.ask("POST", "namespaces/ns/register", {"name": "t", "metadata-location": place})
    assert answer.error == (
        404,
        "NotFoundException",
        f"Failed to open input stream for file: {place}",
    )


def test_reports_of_clients_are_kept_and_shown(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    report = {"report-type": "scan-report", "table-name": "ns.t", "metrics": {"x": 1}}
    assert rest.ask("POST", "namespaces/ns/tables/t/metrics", report).status == 204
    assert rest.ask("POST", "namespaces/ns/tables/t/metrics", {"report-type": "x"}).status == 400
    headers = {"authorization": f"Bearer {rest.run(rest.token('root'))}"}
    shown = rest.send("GET", "/_api/v1/warehouses/lake/metrics?table=ns.t", headers=headers)
    (row,) = shown.json["reports"]
    assert row["report"] == report
    assert row["principal"].endswith(":root")


def test_what_a_table_has_taken_in_is_shown(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    taken = json.dumps([{"source": "s3://raw/a.csv", "etag": "e1"}])
    done = rest.commit("ns.t", *kit.add_snapshot(1, 1, **{"boathouse.loads": taken}))
    assert done.status == 200
    again = rest.commit("ns.t", *kit.add_snapshot(2, 2, parent=1, **{"boathouse.loads": taken}))
    assert again.error[:2] == (409, "CommitFailedException")
    assert "s3://raw/a.csv" in again.error[2]
    headers = {"authorization": f"Bearer {rest.run(rest.token('root'))}"}

    def ask(query: str, warehouse: str = "lake") -> kit.Answer:
        return rest.send("GET", f"/_api/v1/warehouses/{warehouse}/loads{query}", headers=headers)

    assert ask("?table=ns.t").json == {
        "loads": [
            {
                "source": "s3://raw/a.csv",
                "etag": "e1",
                "snapshot_id": 1,
                "taken_at_ms": rest.lake.clock(),
            }
        ],
        "next": None,
    }
    assert ask("?table=ns.none").status == 404
    assert ask("?table=ns.t", "none").status == 404
    assert ask("?table=t").status == 400
    assert ask("").status == 400
    assert ask("?table=ns.t&after=xyz").status == 400
    assert rest.send("GET", "/_api/v1/warehouses/lake/loads?table=ns.t").status == 401


@pytest.mark.parametrize("size", ["-1", "0", "many", ""])
@pytest.mark.parametrize("path", ["namespaces", "namespaces/ns/tables"])
def test_a_page_size_that_is_no_positive_number_is_refused(
    rest: kit.RestServer, path: str, size: str
) -> None:
    rest.make_namespace("ns")
    status, error_type, message = rest.ask("GET", f"{path}?pageSize={size}").error
    assert (status, error_type) == (400, "BadRequestException")
    assert "pageSize" in message


def test_tables_list_in_pages(rest: kit.RestServer) -> None:
    for name in ("b", "a", "c"):
        rest.make_table(f"ns.{name}")
    page = rest.ask("GET", "namespaces/ns/tables?pageToken=&pageSize=2").json
    assert [each["name"] for each in page["identifiers"]] == ["a", "b"]
    second = rest.ask(
        "GET", f"namespaces/ns/tables?pageToken={page['next-page-token']}&pageSize=2"
    ).json
    assert [each["name"] for each in second["identifiers"]] == ["c"]
    assert second["next-page-token"] is None


def test_a_name_is_one_segment_whatever_it_holds(rest: kit.RestServer) -> None:
    rest.make_namespace("ns")
    for name, path in (("a/b", "a%2Fb"), ("a b", "a%20b"), ("ü", "%C3%BC"), ("%2F", "%252F")):
        table = rest.ask("POST", "namespaces/ns/tables", {"name": name, "schema": kit.SCHEMA})
        assert table.status == 200
        assert (
            rest.ask("GET", f"namespaces/ns/tables/{path}").json["metadata"]
            == table.json["metadata"]
        )
    assert len(rest.ask("GET", "namespaces/ns/tables").json["identifiers"]) == 4


def bare(rest: kit.RestServer) -> str:
    """A table made without metadata, as s3tables' CreateTable makes it; its uuid."""
    rest.make_namespace("ns")
    ident = rest.lake.ident("ns.t")
    return rest.run(rest.lake.tables.create_empty(ident, by="arn:aws:iam::1:root")).object_uuid


def test_a_table_without_metadata_is_not_there_until_it_is_created(rest: kit.RestServer) -> None:
    bare(rest)
    missing = (404, "NoSuchTableException", "Table does not have metadata: ns.t")
    assert rest.load("ns.t").error == missing
    assert rest.ask("HEAD", "namespaces/ns/tables/t").status == 404
    table = rest.make_table("ns.t")
    assert table["metadata"]["location"] == "s3://lake/ns/t"
    assert rest.load("ns.t").json == table
    assert rest.ask("HEAD", "namespaces/ns/tables/t").status == 204
    again = rest.ask("POST", "namespaces/ns/tables", {"name": "t", "schema": kit.SCHEMA})
    assert again.error == (409, "AlreadyExistsException", "Table already exists: ns.t")


def test_a_table_without_metadata_is_created_by_a_staged_create_too(rest: kit.RestServer) -> None:
    object_uuid = bare(rest)
    wanted = {"name": "t", "schema": kit.SCHEMA, "stage-create": True}
    staged = rest.ask("POST", "namespaces/ns/tables", wanted)
    assert staged.status == 200
    metadata = staged.json["metadata"]
    assert rest.load("ns.t").status == 404
    updates = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
    ]
    assert rest.commit("ns.t", *updates, requirements=CREATE).status == 200
    pointer = rest.lake.tables.pointer(rest.lake.ident("ns.t"))
    assert (pointer.object_uuid, pointer.table_uuid) == (object_uuid, metadata["table-uuid"])


# Locations that the server replaces.


@pytest.fixture
def overriding(rest: kit.RestServer) -> kit.RestServer:
    rest.run(rest.lake.storage.buckets.update("lake", {"requested_location": "override"}))
    rest.make_namespace("ns")
    return rest


@pytest.mark.parametrize("location", ["file:/tmp/t", "s3://other/ns/t", "gs://lake/ns/t", "x"])
def test_a_table_asked_for_elsewhere_gets_its_place_where_the_bucket_says_so(
    overriding: kit.RestServer, location: str
) -> None:
    table = overriding.make_table("ns.t", location=location)
    assert table["metadata"]["location"] == "s3://lake/ns/t"
    assert table["metadata-location"].startswith("s3://lake/ns/t/metadata/00000-")
    moved = overriding.commit(
        "ns.t",
        {"action": "set-location", "location": location},
        kit.set_property("a", "1"),
        *kit.add_snapshot(1, 1),
    ).json
    assert moved["metadata"]["location"] == "s3://lake/ns/t"
    assert moved["metadata"]["properties"]["a"] == "1"
    assert moved["metadata-location"].startswith("s3://lake/ns/t/metadata/00001-")


def test_a_staged_table_asked_for_elsewhere_is_made_where_it_was_staged(
    overriding: kit.RestServer,
) -> None:
    request = {
        "name": "t",
        "schema": kit.SCHEMA,
        "location": "file:/tmp/t",
        "stage-create": True,
    }
    staged = overriding.ask("POST", "namespaces/ns/tables", request).json["metadata"]
    assert staged["location"] == "s3://lake/ns/t"
    table = overriding.commit(
        "ns.t",
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": kit.SCHEMA, "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
        requirements=CREATE,
    ).json["metadata"]
    assert table["location"] == "s3://lake/ns/t"


def test_a_location_in_the_bucket_is_judged_as_ever(overriding: kit.RestServer) -> None:
    overriding.make_table("ns.a")
    for location in ("s3://lake/t", "s3://lake/ns/a", "s3://lake/ns/a/b", "s3://lake/ns/.t"):
        request = {"name": "t", "schema": kit.SCHEMA, "location": location}
        answer = overriding.ask("POST", "namespaces/ns/tables", request)
        assert answer.error[:2] == (400, "ValidationException")
    for name in ("write.data.path", "write.metadata.path"):
        path = {name: "file:/tmp/elsewhere"}
        request = {"name": "t", "schema": kit.SCHEMA, "properties": path}
        answer = overriding.ask("POST", "namespaces/ns/tables", request)
        assert answer.error[:2] == (400, "ValidationException"), "writers would follow it"
    assert overriding.commit("ns.a", {"action": "set-location", "location": 5}).error[0] == 400


def test_files_at_a_location_that_is_replaced_are_not_the_tables_own(tmp_path: Path) -> None:
    """A writer without rights on another bucket's files cannot name them by asking for a place."""
    everything = kit.allow("s3tables:*", [kit.BUCKET_ARN, f"{kit.BUCKET_ARN}/table/*"])
    with kit.opened(tmp_path / "d", users={"writer": [everything]}) as rest:
        rest.run(rest.lake.storage.buckets.update("lake", {"requested_location": "override"}))
        rest.run(
            rest.lake.storage.buckets.create(
                "pond", bucket_type="table", owner=kit.ACCOUNT, region=kit.REGION
            )
        )
        rest.make_table("ns.t")
        snapshot = kit.add_snapshot(1, 1)
        snapshot[0]["snapshot"]["manifest-list"] = "s3://pond/ns/t/metadata/snap-1.avro"
        asking = {"action": "set-location", "location": "s3://pond/ns/t"}
        answer = rest.commit("ns.t", asking, *snapshot, user="writer")
        assert answer.error[:2] == (403, "ForbiddenException")
