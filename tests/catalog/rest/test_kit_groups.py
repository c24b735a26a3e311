"""The groups of Iceberg's compatibility kit about concurrent changes, as bare requests.

`make rck` runs the kit itself, with Java; `tests/rck/groups.py` names our test for each of its own.
Here are the same situations as a client sends them, with the requirements that Iceberg's Java
client derives from its updates: of a change of a table all of them, of a replacement those about
its uuid and the ids it assigns. A case has the name of the test of the kit
(org.apache.iceberg.catalog.CatalogTests) that meets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.catalog.rest import rest_server as kit
from tests.kit import lakes

Json = dict[str, Any]

TABLE: Final = "ns.t"
ID: Final = {"id": 1, "name": "id", "required": True, "type": "long"}
NAME: Final = {"id": 2, "name": "name", "required": False, "type": "string"}
SOME_ID: Final = {"id": 1, "name": "some_id", "required": True, "type": "int"}
BY_ID: Final = {"name": "by_id", "source-id": 1, "transform": "bucket[16]"}
BY_NAME: Final = {"name": "by_name", "source-id": 2, "transform": "bucket[16]"}
ID_ORDER: Final = {
    "source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"
}  # fmt: skip
NAME_ORDER: Final = {**ID_ORDER, "source-id": 2, "direction": "desc"}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as a client has loaded it: what its requirements compare with."""

    metadata: Json

    def requires(self, *updates: Json, replaces: bool = False) -> list[Json]:
        """The requirements that Iceberg's Java client derives from updates, each once."""
        old = self.metadata
        derived: list[Json] = [{"type": "assert-table-uuid", "uuid": old["table-uuid"]}]
        assigned = {
            "add-schema": ("field", "last-column-id"),
            "add-spec": ("partition", "last-partition-id"),
        }
        current = {
            "set-current-schema": ("current-schema", "current-schema-id"),
            "set-default-spec": ("default-spec", "default-spec-id"),
            "set-default-sort-order": ("default-sort-order", "default-sort-order-id"),
            "remove-schemas": ("current-schema", "current-schema-id"),
            "remove-partition-specs": ("default-spec", "default-spec-id"),
        }
        for action in (update["action"] for update in updates):
            if action in assigned:
                name, member = assigned[action]
                name = f"last-assigned-{name}-id"
                derived.append({"type": f"assert-{name}", name: old[member]})
            elif action in current and not replaces:
                name, member = current[action]
                derived.append({"type": f"assert-{name}-id", member: old[member]})
            if action in ("remove-schemas", "remove-partition-specs"):
                derived += [
                    {"type": "assert-ref-snapshot-id", "ref": name, **of}
                    for name, of in (
                        (name, {"snapshot-id": ref["snapshot-id"]})
                        for name, ref in old.get("refs", {}).items()
                    )
                ]
        return [each for number, each in enumerate(derived) if each not in derived[:number]]


def schema(*fields: Json) -> list[Json]:
    """The updates that give a table a schema."""
    new = {"type": "struct", "fields": list(fields)}
    return [
        {"action": "add-schema", "schema": new},
        {"action": "set-current-schema", "schema-id": -1},
    ]


def column(name: str) -> list[Json]:
    """The updates that add a column to the schema id, name."""
    return schema(ID, NAME, {"id": 3, "name": name, "required": False, "type": "long"})


def spec(*fields: Json) -> list[Json]:
    numbered = [{**field, "field-id": 1000 + at} for at, field in enumerate(fields)]
    return [
        {"action": "add-spec", "spec": {"fields": numbered}},
        {"action": "set-default-spec", "spec-id": -1},
    ]


def known_spec(spec_id: int) -> list[Json]:
    return [{"action": "set-default-spec", "spec-id": spec_id}]


def known_schema(schema_id: int) -> list[Json]:
    return [{"action": "set-current-schema", "schema-id": schema_id}]


def order(*fields: Json) -> list[Json]:
    new = {"order-id": 1 if fields else 0, "fields": list(fields)}
    return [
        {"action": "add-sort-order", "sort-order": new},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]


def snapshot(snapshot_id: int) -> list[Json]:
    """The updates that begin a history anew: the snapshot has no parent."""
    return kit.add_snapshot(snapshot_id, 1)


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Two clients that have loaded the same table; the second commits after the first.

    before: what the table gets first. conflict: the reason of the second one's refusal, "" if it
    succeeds. replaces: both replace the table instead of changing it.
    """

    test: str
    first: list[Json]
    second: list[Json]
    conflict: str = ""
    before: list[Json] | None = None
    replaces: bool = False


CHANGES: Final = (
    Conflict(
        test="testUpdateTableSchemaServerSideRetry", first=spec(BY_ID), second=column("new_col")
    ),
    Conflict(
        test="testUpdateTableSchemaConflict",
        first=schema(ID),
        second=schema(ID, {**NAME, "doc": "x"}),
        conflict="current schema changed: expected id 0 != 1",
    ),
    Conflict(
        test="testUpdateTableSchemaAssignmentConflict",
        first=column("another_col"),
        second=column("new_col"),
        conflict="last assigned field id changed: expected id 2 != 3",
    ),
    Conflict(test="testUpdateTableSpecServerSideRetry", first=column("more"), second=spec(BY_ID)),
    Conflict(
        test="testUpdateTableSpecConflict",
        before=spec(BY_ID),
        first=known_spec(0),
        second=spec({**BY_ID, "name": "other"}),
        conflict="default partition spec changed: expected id 1 != 0",
    ),
    Conflict(
        test="testUpdateTableAssignmentSpecConflict",
        first=spec(BY_ID),
        second=spec(BY_NAME),
        conflict="last assigned partition id changed: expected id 999 != 1000",
    ),
    Conflict(
        test="testUpdateTableSortOrderServerSideRetry",
        first=column("more"),
        second=order(ID_ORDER),
    ),
    Conflict(
        test="(a conflict of sort orders, which CatalogTests has of replacements alone)",
        first=order(ID_ORDER),
        second=order(NAME_ORDER),
        conflict="default sort order changed: expected id 0 != 1",
    ),
    Conflict(
        test="testRemoveUnusedSchemas, and a schema is made current meanwhile",
        before=[*column("more"), *known_schema(0)],
        first=known_schema(1),
        second=[{"action": "remove-schemas", "schema-ids": [1]}],
        conflict="current schema changed: expected id 0 != 1",
    ),
    Conflict(
        test="testRemoveUnusedSpec, and a spec is made the default meanwhile",
        before=[*spec(BY_ID), *known_spec(0)],
        first=known_spec(1),
        second=[{"action": "remove-partition-specs", "spec-ids": [1]}],
        conflict="default partition spec changed: expected id 0 != 1",
    ),
    Conflict(
        test="testRemoveUnusedSchemas, and rows arrive meanwhile",
        before=[*column("more"), *known_schema(0), *snapshot(1)],
        first=kit.add_snapshot(2, 2, parent=1),
        second=[{"action": "remove-schemas", "schema-ids": [1]}],
        conflict="branch main has changed: expected id 1 != 2",
    ),
    Conflict(
        test="testConcurrentReplaceTransactions",
        first=[*schema(ID, NAME), *snapshot(1)],
        second=[*schema(ID, NAME), *snapshot(2)],
        replaces=True,
    ),
    Conflict(
        test="testConcurrentReplaceTransactionSchema",
        first=[*schema({**ID, "id": 3}, {**NAME, "id": 4}), *snapshot(1)],
        second=[*known_schema(0), *snapshot(2)],
        replaces=True,
    ),
    Conflict(
        test="testConcurrentReplaceTransactionSchema2",
        first=[*known_schema(0), *snapshot(1)],
        second=[*schema({**ID, "id": 3}), *snapshot(2)],
        replaces=True,
    ),
    Conflict(
        test="testConcurrentReplaceTransactionSchemaConflict",
        first=[*schema({**SOME_ID, "id": 3}), *snapshot(1)],
        second=[*schema({**SOME_ID, "id": 3}), *snapshot(2)],
        conflict="last assigned field id changed: expected id 2 != 3",
        replaces=True,
    ),
    Conflict(
        test="testConcurrentReplaceTransactionPartitionSpec",
        first=[*spec(BY_ID), *snapshot(1)],
        second=[*known_spec(0), *snapshot(2)],
        replaces=True,
    ),
    Conflict(
        test="testConcurrentReplaceTransactionPartitionSpec2",
        first=[*known_spec(0), *snapshot(1)],
        second=[*spec(BY_ID), *snapshot(2)],
        replaces=True,
    ),
    Conflict(
        test="testConcurrentReplaceTransactionPartitionSpecConflict",
        first=[*spec(BY_ID), *snapshot(1)],
        second=[*spec(BY_ID), *snapshot(2)],
        conflict="last assigned partition id changed: expected id 999 != 1000",
        replaces=True,
    ),
    Conflict(
        test="testConcurrentReplaceTransactionSortOrder",
        first=[*order(ID_ORDER), *snapshot(1)],
        second=[*order(), *snapshot(2)],
        replaces=True,
    ),
    Conflict(
        test="testConcurrentReplaceTransactionSortOrderConflict",
        first=[*order(NAME_ORDER), *snapshot(1)],
        second=[*order(ID_ORDER), *snapshot(2)],
        replaces=True,
    ),
)
"""Two clients at once, and what becomes of the second one."""


def load(rest: kit.RestServer) -> Json:
    answer = rest.load(TABLE)
    assert answer.status == 200, answer.body
    return dict(answer.json)


@pytest.fixture
def table(rest: kit.RestServer) -> kit.RestServer:
    """A server with the table id, name."""
    rest.make_table(TABLE)
    return rest


def current(metadata: Json) -> tuple[list[Json], list[Json], list[Json]]:
    """The fields of a table's schema, partition spec and sort order, without their own ids."""
    (fields,) = (
        each["fields"]
        for each in metadata["schemas"]
        if each["schema-id"] == metadata["current-schema-id"]
    )
    (parts,) = (
        each["fields"]
        for each in metadata["partition-specs"]
        if each["spec-id"] == metadata["default-spec-id"]
    )
    (ordered,) = (
        each["fields"]
        for each in metadata["sort-orders"]
        if each["order-id"] == metadata["default-sort-order-id"]
    )
    return fields, [{**each, "field-id": 0} for each in parts], ordered


@pytest.mark.parametrize("conflict", CHANGES, ids=lambda each: each.test)
def test_of_two_clients_the_second_one_commits_or_learns_what_has_changed(
    table: kit.RestServer, conflict: Conflict
) -> None:
    if conflict.before is not None:
        assert table.commit(TABLE, *conflict.before).status == 200
    seen = Table(metadata=load(table)["metadata"])
    answer = None
    for updates in (conflict.first, conflict.second):
        between = load(table)
        requirements = seen.requires(*updates, replaces=conflict.replaces)
        answer = table.commit(TABLE, *updates, requirements=requirements)
        if updates is conflict.first:
            assert answer.status == 200, answer.body
    assert answer is not None
    after = load(table)
    if conflict.conflict:
        expected = f"Requirement failed: {conflict.conflict}"
        assert answer.error == (409, "CommitFailedException", expected)
        assert after == between  # and no metadata file was written for it
        return
    assert answer.status == 200, answer.body
    assert after["metadata"]["table-uuid"] == seen.metadata["table-uuid"]
    # Alone, on the table as it was loaded, the second change has the same outcome.
    table.make_table("ns.alone")
    if conflict.before is not None:
        assert table.commit("ns.alone", *conflict.before).status == 200
    alone = table.commit("ns.alone", *conflict.second)
    assert alone.status == 200, alone.body
    changed = {update["action"] for update in conflict.second}
    for position, action in enumerate(
        ("set-current-schema", "set-default-spec", "set-default-sort-order")
    ):
        if action in changed:
            assert current(after["metadata"])[position] == current(alone.json["metadata"])[position]
    assert after["metadata"]["refs"] == alone.json["metadata"]["refs"]


def test_a_replacement_keeps_uuid_location_and_history(table: kit.RestServer) -> None:
    """testReplaceTransaction, testReplaceTableKeepsSnapshotLog."""
    assert table.commit(TABLE, *snapshot(1)).status == 200
    before = load(table)
    seen = Table(metadata=before["metadata"])
    updates = [
        *schema({**SOME_ID, "id": 3}),
        *known_spec(0),
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        *snapshot(2),
    ]
    requirements = seen.requires(*updates, replaces=True)
    assert [each["type"] for each in requirements] == [
        "assert-table-uuid",
        "assert-last-assigned-field-id",
    ]
    answer = table.commit(TABLE, *updates, requirements=requirements)
    assert answer.status == 200, answer.body
    after = load(table)["metadata"]
    for member in ("table-uuid", "location"):
        assert after[member] == before["metadata"][member]
    assert current(after)[0] == [{**SOME_ID, "id": 3}]
    assert [each["snapshot-id"] for each in after["snapshot-log"]] == [1, 2]
    assert after["snapshot-log"][:1] == before["metadata"]["snapshot-log"]
    assert [each["snapshot-id"] for each in after["snapshots"]] == [1, 2]
    assert after["current-snapshot-id"] == 2
    assert [each["metadata-file"] for each in after["metadata-log"]][-1:] == [
        before["metadata-location"]
    ]


def test_a_replacement_of_a_missing_table_is_refused(rest: kit.RestServer) -> None:
    """testReplaceTransactionRequiresTableExists."""
    rest.make_namespace("ns")
    missing = (404, "NoSuchTableException", "Table does not exist: ns.t")
    assert rest.load(TABLE).error == missing
    uuid = "11111111-2222-3333-4444-555555555555"
    answer = rest.commit(
        TABLE, *schema(ID), requirements=[{"type": "assert-table-uuid", "uuid": uuid}]
    )
    assert answer.error == missing


def test_a_replacement_of_a_table_that_was_made_anew_is_refused(table: kit.RestServer) -> None:
    """testUUIDValidation, of a replacement."""
    seen = Table(metadata=load(table)["metadata"])
    assert table.ask("DELETE", "namespaces/ns/tables/t").status == 204
    table.make_table(TABLE)
    anew = load(table)
    updates = [*known_schema(0), *snapshot(1)]
    answer = table.commit(TABLE, *updates, requirements=seen.requires(*updates, replaces=True))
    expected, present = seen.metadata["table-uuid"], anew["metadata"]["table-uuid"]
    assert answer.error == (
        409,
        "CommitFailedException",
        f"Requirement failed: UUID does not match: expected {present} != {expected}",
    )
    assert load(table) == anew


def staged(rest: kit.RestServer) -> tuple[list[Json], list[Json]]:
    """The updates and requirements of a create-or-replace where no table is."""
    answer = rest.ask(
        "POST", "namespaces/ns/tables", {"name": "t", "schema": kit.SCHEMA, "stage-create": True}
    )
    assert answer.status == 200, answer.body
    new = answer.json["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": new["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": new["format-version"]},
        *schema(*new["schemas"][0]["fields"]),
        *spec(),
        *order(),
        {"action": "set-location", "location": new["location"]},
        *snapshot(1),
    ]
    return updates, [{"type": "assert-create"}]


def test_create_or_replace_creates_a_table_only_when_it_is_committed(rest: kit.RestServer) -> None:
    """testCreateOrReplaceTransactionCreate."""
    rest.make_namespace("ns")
    updates, requirements = staged(rest)
    assert rest.load(TABLE).status == 404
    answer = rest.commit(TABLE, *updates, requirements=requirements)
    assert answer.status == 200, answer.body
    after = load(rest)["metadata"]
    assert after["current-snapshot-id"] == 1
    assert after["metadata-log"] == []


def test_create_or_replace_loses_to_a_table_created_meanwhile(rest: kit.RestServer) -> None:
    """testCreateOrReplaceTransactionConcurrentCreate, testConcurrentCreateTransaction."""
    rest.make_namespace("ns")
    updates, requirements = staged(rest)
    rest.make_table(TABLE, schema={**kit.SCHEMA, "fields": [SOME_ID]})
    concurrent = load(rest)
    answer = rest.commit(TABLE, *updates, requirements=requirements)
    assert answer.error == (
        409,
        "CommitFailedException",
        "Requirement failed: table already exists",
    )
    assert load(rest) == concurrent
    assert current(concurrent["metadata"])[0] == [SOME_ID]


def test_create_or_replace_of_a_present_table_is_a_replacement(table: kit.RestServer) -> None:
    """testCreateOrReplaceReplaceTransactionReplace."""
    before = load(table)
    seen = Table(metadata=before["metadata"])
    updates = [*known_schema(0), *order(ID_ORDER), *snapshot(1)]
    answer = table.commit(TABLE, *updates, requirements=seen.requires(*updates, replaces=True))
    assert answer.status == 200, answer.body
    after = load(table)["metadata"]
    assert after["table-uuid"] == before["metadata"]["table-uuid"]
    assert current(after) == (kit.SCHEMA["fields"], [], [ID_ORDER])
    assert [each["metadata-file"] for each in after["metadata-log"]] == [
        before["metadata-location"]
    ]


@pytest.mark.parametrize("with_branch", [False, True])
def test_unused_schemas_are_removed_and_used_ones_stay(
    table: kit.RestServer, with_branch: bool
) -> None:
    """testRemoveUnusedSchemas."""
    assert table.commit(TABLE, *snapshot(1)).status == 200
    if with_branch:
        ref = {"action": "set-snapshot-ref", "ref-name": "test", "type": "branch", "snapshot-id": 1}
        assert table.commit(TABLE, ref).status == 200
    assert table.commit(TABLE, *column("gone"), *known_schema(0)).status == 200
    extra = {"id": 4, "name": "extra", "required": False, "type": "long"}
    assert table.commit(TABLE, *schema(ID, NAME, extra)).status == 200
    seen = Table(metadata=load(table)["metadata"])
    assert [each["schema-id"] for each in seen.metadata["schemas"]] == [0, 1, 2]
    unused = {"action": "remove-schemas", "schema-ids": [1]}
    answer = table.commit(TABLE, unused, requirements=seen.requires(unused))
    assert answer.status == 200, answer.body
    after = load(table)
    assert [each["schema-id"] for each in after["metadata"]["schemas"]] == [0, 2]
    refused = table.commit(TABLE, {"action": "remove-schemas", "schema-ids": [2]})
    assert refused.error == (
        400,
        "IllegalArgumentException",
        "Cannot remove the current schema",
    )
    assert load(table) == after
    assert table.commit(TABLE, *column("gone")).json["metadata"]["current-schema-id"] == 3


@pytest.mark.parametrize("with_branch", [False, True])
def test_unused_specs_are_removed_and_used_ones_stay(
    table: kit.RestServer, with_branch: bool
) -> None:
    """testRemoveUnusedSpec."""
    assert table.commit(TABLE, *snapshot(1)).status == 200
    if with_branch:
        ref = {"action": "set-snapshot-ref", "ref-name": "test", "type": "branch", "snapshot-id": 1}
        assert table.commit(TABLE, ref).status == 200
    assert table.commit(TABLE, *spec(BY_ID), *known_spec(0)).status == 200
    fields = [{**BY_NAME, "field-id": 1001}]
    added = [{"action": "add-spec", "spec": {"fields": fields}}, *known_spec(-1)]
    assert table.commit(TABLE, *added).status == 200
    seen = Table(metadata=load(table)["metadata"])
    assert [each["spec-id"] for each in seen.metadata["partition-specs"]] == [0, 1, 2]
    unused = {"action": "remove-partition-specs", "spec-ids": [1]}
    answer = table.commit(TABLE, unused, requirements=seen.requires(unused))
    assert answer.status == 200, answer.body
    after = load(table)
    assert [each["spec-id"] for each in after["metadata"]["partition-specs"]] == [0, 2]
    assert after["metadata"]["last-partition-id"] == 1001
    refused = table.commit(TABLE, {"action": "remove-partition-specs", "spec-ids": [2]})
    assert refused.error == (
        400,
        "IllegalArgumentException",
        "Cannot remove the default partition spec",
    )
    assert load(table) == after


VALUED: Final = {
    "id": 1, "name": "colWithDefault", "required": True, "type": "int",
    "initial-default": 10, "write-default": 12,
}  # fmt: skip
V3: Final = {"properties": {"format-version": "3"}}


def test_a_table_is_created_with_a_column_that_has_defaults(rest: kit.RestServer) -> None:
    """testCreateTableWithDefaultColumnValue."""
    table = rest.make_table(TABLE, schema={"type": "struct", "fields": [VALUED]}, **V3)
    assert current(table["metadata"])[0] == [VALUED]
    assert current(load(rest)["metadata"])[0] == [VALUED]


def test_a_default_of_null_is_stored_as_none_by_create_and_commit(rest: kit.RestServer) -> None:
    plain = {"id": 1, "name": "d", "required": False, "type": "int"}
    valueless = {**plain, "initial-default": None, "write-default": None}
    table = rest.make_table(TABLE, schema={"type": "struct", "fields": [valueless]}, **V3)
    assert current(table["metadata"])[0] == [plain]
    fields = [{**valueless, "id": 1}, {**valueless, "id": 2, "name": "e"}]
    added = {"action": "add-schema", "schema": {"type": "struct", "fields": fields}}
    assert rest.commit(TABLE, added, known_schema(-1)[0]).status == 200
    assert current(load(rest)["metadata"])[0] == [plain, {**plain, "id": 2, "name": "e"}]
    assert b'default": null' not in rest.load(TABLE).body.replace(b":null", b": null")


@pytest.mark.parametrize(
    ("type_", "member", "value"),
    [
        ("int", "initial-default", "x"),
        ("int", "initial-default", 2**40),
        ("date", "initial-default", "zzz"),
        ("int", "write-default", [1]),
        ("variant", "write-default", {"a": 1}),
        ("unknown", "initial-default", 1),
    ],
)
def test_a_default_that_no_client_could_read_is_refused_at_create_and_commit(
    rest: kit.RestServer, type_: str, member: str, value: Any
) -> None:
    wrong = {"id": 3, "name": "d", "required": False, "type": type_, member: value}
    rest.make_table(TABLE, **V3)
    before = load(rest)
    creation = {"name": "u", "schema": {"type": "struct", "fields": [wrong]}, **V3}
    created = rest.ask("POST", "namespaces/ns/tables", creation)
    fields = [*current(before["metadata"])[0], wrong]
    added = {"action": "add-schema", "schema": {"type": "struct", "fields": fields}}
    for answer in (created, rest.commit(TABLE, added)):
        status, error_type, message = answer.error
        assert (status, error_type) == (400, "IllegalArgumentException")
        assert f"Invalid {member.replace('-', ' ')} for d: Cannot parse default" in message
    assert load(rest) == before
    assert rest.load("ns.u").status == 404


def test_what_is_asked_of_a_missing_namespace_says_so(rest: kit.RestServer) -> None:
    """testSetNamespacePropertiesNamespaceDoesNotExist, testDropNonexistentNamespace, ..."""
    missing = (404, "NoSuchNamespaceException", "Namespace does not exist: none")
    for method, path, body in (
        ("POST", "namespaces/none/properties", {"updates": {"a": "b"}}),
        ("POST", "namespaces/none/properties", {"removals": ["a"]}),
        ("DELETE", "namespaces/none", None),
        ("GET", "namespaces?parent=none", None),
        ("GET", "namespaces/none/tables", None),
        ("GET", "namespaces/none/views", None),
    ):
        assert rest.ask(method, path, body).error == missing
    assert rest.ask("GET", "namespaces").json["namespaces"] == []


@pytest.mark.parametrize(
    ("there", "back", "list_", "current_id"),
    [
        (column("more"), schema(ID, NAME), "schemas", "current-schema-id"),
        (spec(BY_ID), spec(), "partition-specs", "default-spec-id"),
        (order(ID_ORDER), order(), "sort-orders", "default-sort-order-id"),
    ],
    ids=["schema", "spec", "order"],
)
def test_a_definition_that_comes_back_has_the_id_that_it_had(
    table: kit.RestServer, there: list[Json], back: list[Json], list_: str, current_id: str
) -> None:
    """testUpdateTableSchemaThenRevert, testUpdateTableSpecThenRevert, ...OrderThenRevert."""
    before = load(table)["metadata"]
    assert table.commit(TABLE, *there).status == 200
    changed = load(table)["metadata"]
    assert changed[current_id] != before[current_id]
    assert table.commit(TABLE, *back).status == 200
    after = load(table)["metadata"]
    assert after[current_id] == before[current_id]
    assert current(after) == current(before)
    assert after[list_] == changed[list_]


def test_a_register_of_a_taken_name_is_refused_and_changes_nothing(table: kit.RestServer) -> None:
    """testRegisterExistingTable."""
    before = load(table)
    body = {"name": "t", "metadata-location": before["metadata-location"]}
    assert table.ask("POST", "namespaces/ns/register", body).error == (
        409,
        "AlreadyExistsException",
        "Table already exists: ns.t",
    )
    assert load(table) == before


@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-properties", "updates": {"a": "1"}},
        {"action": "set-location", "location": "s3://lake/ns/elsewhere"},
    ],
    ids=lambda each: each["action"],
)
def test_a_change_of_a_view_that_was_dropped_meanwhile_is_refused(
    rest: kit.RestServer, update: Json, is_made_anew: bool
) -> None:
    """updateViewPropertiesConflict, replaceViewVersionConflict, updateViewLocationConflict."""
    rest.make_namespace("ns")
    view = {"name": "v", "schema": lakes.SCHEMA, "view-version": lakes.VIEW_VERSION}
    loaded = rest.ask("POST", "namespaces/ns/views", view).json["metadata"]
    assert rest.ask("DELETE", "namespaces/ns/views/v").status == 204
    if is_made_anew:
        assert rest.ask("POST", "namespaces/ns/views", view).status == 200
    change = {
        "requirements": [{"type": "assert-view-uuid", "uuid": loaded["view-uuid"]}],
        "updates": [update],
    }
    status, error_type, message = rest.ask("POST", "namespaces/ns/views/v", change).error
    if is_made_anew:
        assert (status, error_type) == (409, "CommitFailedException")
        assert message.startswith("Requirement failed: view UUID does not match")
    else:
        assert (status, error_type) == (404, "NoSuchViewException")
        assert message == "View does not exist: ns.v"
