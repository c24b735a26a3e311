"""View metadata: versions that say the same are one, history is bounded, dialects are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from catalog.metadata import errors, limits, views
from tests.kit import metadata as kit

SCHEMA = {
    "type": "struct",
    "schema-id": 12,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}
OTHER_SCHEMA = {
    "type": "struct",
    "schema-id": 12,
    "fields": [{"id": 1, "name": "n", "required": False, "type": "string"}],
}


def version(
    *texts: tuple[str, str], version_id: int = 1, schema_id: int = -1, at_ms: int = kit.NOW_MS
) -> dict[str, Any]:
    return {
        "version-id": version_id,
        "schema-id": schema_id,
        "timestamp-ms": at_ms,
        "summary": {"engine-name": "spark"},
        "default-namespace": ["ns"],
        "representations": [
            {"type": "sql", "sql": sql, "dialect": dialect} for dialect, sql in texts
        ],
    }


def view(**properties: str) -> views.ViewMetadata:
    return views.new_view(
        schema=SCHEMA,
        view_version=version(("spark", "select 1"), schema_id=99),
        location="s3://lake/ns/v/",
        properties={name.replace("_", "."): value for name, value in properties.items()},
        view_uuid=kit.UUID,
        now_ms=kit.NOW_MS,
    )


def apply(base: views.ViewMetadata, *updates: Mapping[str, Any]) -> views.ViewMetadata:
    return views.apply_view_updates(base, [dict(one) for one in updates], now_ms=kit.NOW_MS + 50)


def replace(version: dict[str, Any], schema: Any = None) -> list[dict[str, Any]]:
    adding = [] if schema is None else [{"action": "add-schema", "schema": schema}]
    return [
        *adding,
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


def test_create_view_gives_the_version_the_schemas_id() -> None:
    metadata = view(owner="ana")
    assert json.loads(views.encode(metadata)) == {
        "view-uuid": kit.UUID,
        "format-version": 1,
        "location": "s3://lake/ns/v",
        "schemas": [{**SCHEMA, "schema-id": 0}],
        "current-version-id": 1,
        "versions": [{**version(("spark", "select 1")), "schema-id": 0}],
        "version-log": [{"timestamp-ms": kit.NOW_MS, "version-id": 1}],
        "properties": {"owner": "ana"},
    }
    assert metadata.current_schema() == {**SCHEMA, "schema-id": 0}


def test_decode_then_encode_keeps_every_field() -> None:
    written = json.loads(views.encode(view(owner="ana")))
    written["x-future"] = {"big": 2**63 - 1}
    written["versions"][0]["x-in-version"] = [1]
    written["versions"][0]["representations"].append({"type": "later", "x": 1})
    data = json.dumps(written, indent=2).encode()
    assert json.loads(views.encode(views.decode(data))) == written


@pytest.mark.parametrize(
    "change",
    [
        {"format-version": 2},
        {"versions": []},
        {"current-version-id": 9},
        {"schemas": []},
        {"schemas": [{"fields": []}]},
        {"view-uuid": None},
        {"location": 4},
    ],
)
def test_decode_of_broken_view_metadata_is_refused(change: dict[str, Any]) -> None:
    written = {**json.loads(views.encode(view())), **change}
    with pytest.raises(errors.InvalidMetadata):
        views.decode(json.dumps(written).encode())


def test_replace_view_adds_the_next_version_and_logs_it() -> None:
    metadata = apply(
        view(),
        *replace(version(("spark", "select 2"), at_ms=kit.NOW_MS + 9), OTHER_SCHEMA),
    )
    assert metadata.current_version_id == 2
    assert metadata.current_version()["schema-id"] == 1
    assert [one["version-id"] for one in metadata.versions] == [1, 2]
    assert metadata.version_log[-1] == {"timestamp-ms": kit.NOW_MS + 9, "version-id": 2}


def test_replace_view_by_an_identical_version_reuses_its_id() -> None:
    base = apply(view(), *replace(version(("spark", "select 2"), schema_id=0)))
    metadata = apply(base, *replace(version(("spark", "select 1"), version_id=77), SCHEMA))
    assert [one["version-id"] for one in metadata.versions] == [1, 2]
    assert metadata.current_version_id == 1
    assert metadata.version_log[-1] == {"timestamp-ms": kit.NOW_MS + 50, "version-id": 1}
    assert apply(metadata, *replace(version(("spark", "select 1")), SCHEMA)) is metadata


def test_replace_view_keeps_a_version_id_that_is_higher_than_all() -> None:
    metadata = apply(view(), *replace(version(("spark", "select 2"), version_id=40, schema_id=0)))
    assert metadata.current_version_id == 40


def test_view_version_with_two_texts_of_one_dialect_is_refused() -> None:
    with pytest.raises(errors.BadUpdate) as refused:
        apply(view(), *replace(version(("Trino", "a"), ("trino", "b"), schema_id=0)))
    assert str(refused.value) == (
        "Invalid view version: Cannot add multiple queries for dialect trino"
    )


def test_replace_view_that_loses_a_dialect_is_refused_unless_allowed() -> None:
    both = version(("spark", "select 1"), ("trino", "select 1"), schema_id=0)
    only_spark = version(("SPARK", "select 3"), schema_id=0)
    base = apply(view(), *replace(both))
    with pytest.raises(errors.BadUpdate, match="due to loss of view dialects") as caught:
        apply(base, *replace(only_spark))
    assert str(caught.value).endswith("\nPrevious dialects: [spark, trino]\nNew dialects: [spark]")
    allowed = apply(
        base,
        {"action": "set-properties", "updates": {"replace.drop-dialect.allowed": "true"}},
        *replace(only_spark),
    )
    assert allowed.current_version_id == 3


def test_view_history_keeps_ten_versions_or_as_many_as_the_property_says() -> None:
    metadata = view()
    for number in range(2, 15):
        metadata = apply(metadata, *replace(version(("spark", f"select {number}"), schema_id=0)))
    assert [one["version-id"] for one in metadata.versions] == list(range(5, 15))
    assert [entry["version-id"] for entry in metadata.version_log] == list(range(5, 15))
    small = apply(
        metadata, {"action": "set-properties", "updates": {"version.history.num-entries": "2"}}
    )
    assert [one["version-id"] for one in small.versions] == [13, 14]


def test_view_history_never_loses_the_current_version_and_cuts_the_log_at_a_gap() -> None:
    metadata = view(**{"version_history_num-entries": "2"})
    metadata = apply(metadata, *replace(version(("spark", "select 2"), schema_id=0)))
    metadata = apply(metadata, {"action": "set-current-view-version", "view-version-id": 1})
    metadata = apply(
        metadata,
        {
            "action": "add-view-version",
            "view-version": version(("spark", "select 3"), schema_id=0),
        },
    )
    assert [one["version-id"] for one in metadata.versions] == [1, 3]
    assert [entry["version-id"] for entry in metadata.version_log] == [1]


def test_a_schema_of_a_view_goes_with_the_last_version_that_has_it() -> None:
    metadata = view(**{"version_history_num-entries": "2"})
    for number in (2, 3, 4):
        schema = {"type": "struct", "fields": [{**OTHER_SCHEMA["fields"][0], "name": f"c{number}"}]}
        metadata = apply(metadata, *replace(version(("spark", f"select {number}")), schema))
    assert [one["schema-id"] for one in metadata.versions] == [2, 3]
    assert [one["schema-id"] for one in metadata.schemas] == [2, 3]
    unused = apply(metadata, {"action": "add-schema", "schema": SCHEMA})
    assert [one["schema-id"] for one in unused.schemas] == [2, 3, 4], "it was never a version's"


def test_the_versions_and_the_log_of_a_view_are_bounded_whatever_its_history_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "VIEW_VERSIONS_MAX", 3)
    monkeypatch.setattr(limits, "VIEW_LOG_ENTRIES_MAX", 4)
    metadata = view(**{"version_history_num-entries": "1000000"})
    for number in range(2, 7):
        metadata = apply(metadata, *replace(version(("spark", f"select {number}"), schema_id=0)))
    assert [one["version-id"] for one in metadata.versions] == [4, 5, 6]
    for number in (4, 5, 6, 4, 5):
        metadata = apply(
            metadata, {"action": "set-current-view-version", "view-version-id": number}
        )
    assert [entry["version-id"] for entry in metadata.version_log] == [5, 6, 4, 5]


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"action": "assign-uuid", "uuid": "u" * 256}, "uuid is at most 255 characters"),
        (
            {"action": "set-properties", "updates": {str(number): "" for number in range(10_001)}},
            "At most 10000 properties",
        ),
        (
            {
                "action": "add-view-version",
                "view-version": version(*[(f"d{n}", "") for n in range(101)]),
            },
            "at most 100 representations",
        ),
    ],
)
def test_what_one_update_of_a_view_may_hold_is_bounded(
    update: dict[str, Any], message: str
) -> None:
    with pytest.raises(errors.BadUpdate, match=message):
        apply(view(), update)


def test_the_schemas_of_a_view_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "VIEW_SCHEMAS_MAX", 1)
    with pytest.raises(errors.BadUpdate, match="at most 1 schemas"):
        apply(view(), {"action": "add-schema", "schema": OTHER_SCHEMA})


def test_view_history_size_below_one_is_refused() -> None:
    with pytest.raises(errors.BadUpdate, match="must be positive but was 0"):
        apply(
            view(),
            {"action": "set-properties", "updates": {"version.history.num-entries": "0"}},
        )


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"action": "assign-uuid", "uuid": "other"}, "^Cannot reassign uuid$"),
        ({"action": "upgrade-format-version", "format-version": 2}, "Unsupported format version"),
        ({"action": "upgrade-format-version", "format-version": 0}, "Cannot downgrade v1 view"),
        ({"action": "set-location", "location": ""}, "empty location"),
        ({"action": "set-current-view-version", "view-version-id": 9}, "unknown version: 9"),
        ({"action": "set-current-view-version", "view-version-id": -1}, "no current version id"),
        ({"action": "add-snapshot", "snapshot": {}}, "Cannot apply update add-snapshot to a view"),
        ({"action": "add-view-version", "view-version": version()}, "no schema has been added"),
        (
            {"action": "add-view-version", "view-version": version(schema_id=8)},
            "Cannot add version with unknown schema: 8",
        ),
        ({"action": "add-view-version", "view-version": {}}, "missing int: version-id"),
        ({"action": "add-schema", "schema": {}}, "missing list: fields"),
    ],
)
def test_view_update_that_breaks_a_rule_is_refused(update: dict[str, Any], message: str) -> None:
    base = view()
    with pytest.raises(errors.BadUpdate, match=message):
        apply(base, update)


def test_view_updates_that_change_nothing_answer_the_base_itself() -> None:
    base = view(owner="ana")
    assert (
        apply(
            base,
            {"action": "assign-uuid", "uuid": kit.UUID},
            {"action": "upgrade-format-version", "format-version": 1},
            {"action": "set-location", "location": "s3://lake/ns/v/"},
            {"action": "set-properties", "updates": {"owner": "ana"}},
            {"action": "remove-properties", "removals": ["zz"]},
            {"action": "set-current-view-version", "view-version-id": 1},
            {"action": "add-schema", "schema": SCHEMA},
        )
        is base
    )


def test_view_properties_and_location_change() -> None:
    metadata = apply(
        view(owner="ana"),
        {"action": "set-location", "location": "s3://lake/ns/w"},
        {"action": "set-properties", "updates": {"a": "1"}},
        {"action": "remove-properties", "removals": ["owner"]},
    )
    assert (metadata.location, metadata.properties) == ("s3://lake/ns/w", {"a": "1"})


def test_assert_view_uuid_passes_and_fails_with_its_sentence() -> None:
    views.check_view_requirements(view(), [{"type": "assert-view-uuid", "uuid": kit.UUID.upper()}])
    with pytest.raises(errors.RequirementFailed) as failed:
        views.check_view_requirements(view(), [{"type": "assert-view-uuid", "uuid": "x"}])
    assert str(failed.value) == (
        f"Requirement failed: view UUID does not match: expected {kit.UUID} != x"
    )


@pytest.mark.parametrize(
    "requirement", [{}, None, {"type": "assert-table-uuid", "uuid": kit.UUID}, {"type": "x"}]
)
def test_view_requirement_malformed_or_of_tables_is_refused(requirement: Any) -> None:
    with pytest.raises(errors.BadRequirement):
        views.check_view_requirements(view(), [requirement])
