"""Applying updates: the closed table, the lone ones, logs and counters, creates from nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.metadata import errors, model, updates, views
from tests.kit import examples
from tests.kit import metadata as kit


def test_there_are_25_updates() -> None:
    assert len({*updates.TABLE_UPDATES, *updates.VIEW_UPDATES}) == 25
    assert set(updates.VIEW_UPDATES) == set(views.VIEW_UPDATES) - set(updates.TABLE_UPDATES)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"action": "drop-everything"}, "Cannot apply unknown update: drop-everything"),
        ({"action": "add-view-version"}, "it is for views"),
        ({}, "Cannot parse missing string: action"),
        ({"action": 3}, "Cannot parse to a string value: action"),
        ("assign-uuid", "Cannot parse table update from a non-object"),
        (None, "Cannot parse table update from a non-object"),
    ],
)
def test_an_update_outside_the_table_is_refused(update: Any, message: str) -> None:
    with pytest.raises(errors.BadUpdate, match=message):
        kit.apply_all(kit.table(), [update], now_ms=1, base_location=None)


def test_no_updates_answer_the_base_itself() -> None:
    base = kit.table()
    assert kit.apply(base) is base


def test_a_refused_update_leaves_the_base_as_it_was() -> None:
    base = kit.with_snapshots(kit.table(), 2)
    before = model.encode(base)
    with pytest.raises(errors.BadUpdate):
        kit.apply(
            base,
            {"action": "set-properties", "updates": {"a": "b"}},
            kit.add_snapshot(3, 3),
            {"action": "remove-schemas", "schema-ids": [0]},
        )
    assert model.encode(base) == before


# --- the lone ones ------------------------------------------------------------------------------


def test_assign_uuid_to_a_table_with_another_is_refused() -> None:
    base = kit.table()
    assert kit.apply(base, {"action": "assign-uuid", "uuid": kit.UUID.upper()}) is base
    with pytest.raises(errors.BadUpdate, match="Cannot reassign uuid"):
        kit.apply(base, {"action": "assign-uuid", "uuid": "other"})


def test_assign_uuid_to_a_v1_table_without_one_is_kept() -> None:
    old = model.decode(
        json.dumps(
            {
                "format-version": 1,
                "location": kit.LOCATION,
                "last-updated-ms": 5,
                "last-column-id": 3,
                "schema": kit.SCHEMA,
                "partition-spec": [],
            }
        ).encode()
    )
    assert kit.apply(old, {"action": "assign-uuid", "uuid": kit.UUID}).table_uuid == kit.UUID
    change = {"action": "set-properties", "updates": {"a": "1"}}
    metadata = kit.apply_all(old, [change], now_ms=9, base_location=None, table_uuid="u")
    assert metadata.table_uuid == "u"


@pytest.mark.parametrize(
    ("have", "want", "message"),
    [
        (2, 1, "^Cannot downgrade v2 table to v1$"),
        (3, 2, "^Cannot downgrade v3 table to v2$"),
        (2, 4, r"Cannot upgrade table to unsupported format version: v4 \(supported: v3\)"),
    ],
)
def test_upgrade_format_version_down_or_too_far_is_refused(
    have: int, want: int, message: str
) -> None:
    with pytest.raises(errors.BadUpdate, match=message):
        kit.apply(
            kit.table(version=have), {"action": "upgrade-format-version", "format-version": want}
        )


@pytest.mark.parametrize(("have", "want"), [(1, 2), (1, 3), (2, 3)])
def test_upgrade_format_version_goes_up(have: int, want: int) -> None:
    base = kit.with_snapshots(kit.table(version=have), 1)
    metadata = kit.apply(base, {"action": "upgrade-format-version", "format-version": want})
    assert metadata.format_version == want
    again = model.decode(model.encode(metadata))
    assert again.snapshot(1) == base.snapshot(1)
    assert again.next_row_id == 0


def test_upgrade_format_version_to_the_same_changes_nothing() -> None:
    base = kit.table(version=2)
    assert kit.apply(base, {"action": "upgrade-format-version", "format-version": 2}) is base


def test_set_location_drops_the_trailing_slash() -> None:
    base = kit.table()
    metadata = kit.apply(base, {"action": "set-location", "location": "s3://lake/ns/other/"})
    assert metadata.location == "s3://lake/ns/other"
    assert kit.apply(base, {"action": "set-location", "location": kit.LOCATION + "/"}) is base
    with pytest.raises(errors.BadUpdate, match="empty location"):
        kit.apply(base, {"action": "set-location", "location": "/"})


RESERVED = [
    "format-version",
    "uuid",
    "snapshot-count",
    "current-snapshot-id",
    "current-snapshot-summary",
    "current-snapshot-timestamp-ms",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
]


def test_set_properties_never_stores_reserved_ones() -> None:
    base = kit.table()
    metadata = kit.apply(
        base, {"action": "set-properties", "updates": {"a": "1", **dict.fromkeys(RESERVED, "x")}}
    )
    assert metadata.properties == {**base.properties, "a": "1"}


@pytest.mark.parametrize("name", ["updates", "updated"])
def test_set_properties_takes_both_spellings(name: str) -> None:
    metadata = kit.apply(kit.table(), {"action": "set-properties", name: {"a": "1"}})
    assert metadata.properties["a"] == "1"
    assert kit.apply(metadata, {"action": "set-properties", name: {"a": "1"}}) is metadata


@pytest.mark.parametrize("name", ["removals", "removed"])
def test_remove_properties_takes_both_spellings_and_ignores_unknown_ones(name: str) -> None:
    base = kit.table(properties={"a": "1", "b": "2"})
    metadata = kit.apply(base, {"action": "remove-properties", name: ["a", "zz"]})
    assert "a" not in metadata.properties
    assert metadata.properties["b"] == "2"
    assert kit.apply(metadata, {"action": "remove-properties", name: ["zz"]}) is metadata


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-properties"},
        {"action": "set-properties", "updates": {"a": 1}},
        {"action": "set-properties", "updates": {"a": None}},
        {"action": "set-properties", "updates": ["a"]},
        {"action": "remove-properties"},
        {"action": "remove-properties", "removals": "a"},
        {"action": "remove-properties", "removals": [1]},
    ],
)
def test_malformed_property_updates_are_refused(update: dict[str, Any]) -> None:
    with pytest.raises(errors.BadUpdate):
        kit.apply(kit.table(), update)


# --- logs ---------------------------------------------------------------------------------------


def test_metadata_log_gains_the_previous_file_with_its_own_time() -> None:
    base = kit.table()
    metadata = kit.apply(
        base,
        {"action": "set-properties", "updates": {"a": "1"}},
        now_ms=kit.NOW_MS + 5,
        base_location="s3://lake/ns/t/metadata/00000-a.metadata.json",
    )
    assert metadata.metadata_log == [
        {
            "timestamp-ms": kit.NOW_MS,
            "metadata-file": "s3://lake/ns/t/metadata/00000-a.metadata.json",
        }
    ]
    assert metadata.last_updated_ms == kit.NOW_MS + 5


@pytest.mark.parametrize(("setting", "kept"), [("3", 3), ("1", 1), ("0", 1), ("-4", 1)])
def test_metadata_log_is_exactly_as_long_as_the_property_says(setting: str, kept: int) -> None:
    metadata = kit.table(properties={"write.metadata.previous-versions-max": setting})
    for number in range(8):
        metadata = kit.apply(
            metadata,
            {"action": "set-properties", "updates": {"n": str(number)}},
            base_location=f"m{number}",
        )
    assert [entry["metadata-file"] for entry in metadata.metadata_log] == [
        f"m{number}" for number in range(8 - kept, 8)
    ]


def test_metadata_log_holds_100_entries_by_default() -> None:
    metadata = kit.table()
    for number in range(103):
        metadata = kit.apply(
            metadata,
            {"action": "set-properties", "updates": {"n": str(number)}},
            base_location=f"m{number}",
        )
    assert [entry["metadata-file"] for entry in metadata.metadata_log] == [
        f"m{number}" for number in range(3, 103)
    ]


def test_metadata_log_setting_of_the_same_request_counts() -> None:
    metadata = kit.with_snapshots(kit.table(), 5)
    updated = kit.apply(
        metadata,
        {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "2"}},
        base_location="last",
    )
    assert [entry["metadata-file"] for entry in updated.metadata_log][1:] == ["last"]


def test_metadata_log_setting_that_is_no_number_is_refused() -> None:
    with pytest.raises(errors.BadUpdate, match=r"Invalid integer value of write.metadata"):
        kit.apply(
            kit.table(),
            {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "x"}},
            base_location="m",
        )


# --- creates ------------------------------------------------------------------------------------

CREATE: list[dict[str, Any]] = [
    {"action": "assign-uuid", "uuid": kit.UUID},
    {"action": "upgrade-format-version", "format-version": 2},
    {"action": "add-schema", "schema": kit.SCHEMA},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "set-location", "location": kit.LOCATION},
    {"action": "set-properties", "updates": {"write.parquet.compression-codec": "zstd"}},
]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_create_from_updates_gives_what_create_gives(version: int) -> None:
    changes = [dict(update) for update in CREATE]
    changes[1] = {"action": "upgrade-format-version", "format-version": version}
    metadata = kit.apply(None, *changes, now_ms=kit.NOW_MS)
    assert json.loads(model.encode(metadata)) == json.loads(
        model.encode(kit.table(version=version))
    )


def test_create_from_updates_may_bring_a_first_snapshot() -> None:
    metadata = kit.apply(None, *CREATE, kit.add_snapshot(1, 1), kit.set_main(1))
    assert metadata.current_snapshot_id == 1
    assert [entry["snapshot-id"] for entry in metadata.snapshot_log] == [1]
    assert metadata.metadata_log == []


def test_create_from_updates_defaults_to_format_version_2() -> None:
    metadata = kit.apply(None, *[one for one in CREATE if "format" not in one["action"]])
    assert metadata.format_version == 2


def test_create_from_updates_takes_uuid_and_location_from_the_caller_if_none_is_given() -> None:
    changes = [one for one in CREATE if one["action"] not in ("assign-uuid", "set-location")]
    metadata = kit.apply_all(
        None, changes, now_ms=1, base_location=None, table_uuid="u", location="s3://lake/n/x/"
    )
    assert (metadata.table_uuid, metadata.location) == ("u", "s3://lake/n/x")


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("assign-uuid", "Cannot create a table without a uuid"),
        ("set-location", "Cannot create a table without a location"),
        ("set-current-schema", "Cannot create a table without a current schema"),
        ("add-schema", "no schema"),
        ("set-default-spec", "Cannot create a table without a default partition spec"),
        ("set-default-sort-order", "Cannot create a table without a default sort order"),
    ],
)
def test_create_from_updates_that_lacks_a_part_is_refused(without: str, message: str) -> None:
    with pytest.raises(errors.BadUpdate, match=message):
        kit.apply(None, *[one for one in CREATE if one["action"] != without])


def test_create_from_updates_may_say_last_which_schema_is_current() -> None:
    """DuckDB does. The finished table is the same."""
    later = [one for one in CREATE if one["action"] != "set-current-schema"]
    later.append({"action": "set-current-schema", "schema-id": 0})
    metadata, usual = kit.apply(None, *later), kit.apply(None, *CREATE)
    assert model.encode(metadata) == model.encode(usual)


@pytest.mark.parametrize("version", [0, 4, "2", None])
def test_create_from_updates_of_an_unknown_format_version_is_refused(version: Any) -> None:
    with pytest.raises(errors.BadUpdate):
        kit.apply(None, *CREATE, {"action": "upgrade-format-version", "format-version": version})


# --- garbage ------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    sorted(
        {
            "schema", "fields", "id", "name", "type", "required", "spec", "sort-order", "snapshot",
            "snapshot-id", "schema-id", "spec-id", "sort-order-id", "ref-name", "updates",
            "removals", "snapshot-ids", "statistics", "uuid", "location", "format-version",
            "source-id", "transform", "direction", "null-order", "element", "element-id",
            "summary", "operation", "manifest-list", "timestamp-ms", "identifier-field-ids",
        }
    )
)  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["struct", "list", "map", "long", "main", "branch", "identity", "asc"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
GARBAGE = st.builds(
    lambda action, rest: {**rest, "action": action},
    st.sampled_from(sorted(updates.TABLE_UPDATES)),
    st.dictionaries(NAMES, VALUES, max_size=5),
)


@examples.at_most(300)
@given(st.lists(GARBAGE, max_size=4), st.sampled_from([1, 2, 3]))
def test_any_json_gives_metadata_or_the_modules_one_error(changes: list[Any], version: int) -> None:
    base = kit.with_snapshots(kit.table(version=version), 1)
    try:
        metadata = kit.apply_all(base, changes, now_ms=kit.NOW_MS, base_location="m")
    except errors.MetadataError:
        return
    assert json.loads(model.encode(model.decode(model.encode(metadata)))) == json.loads(
        model.encode(metadata)
    )


@pytest.mark.parametrize(
    ("change", "update", "message"),
    [
        (
            {"schemas": [{**kit.SCHEMA, "schema-id": 2**31 - 1}], "current-schema-id": 2**31 - 1},
            {"action": "add-schema", "schema": {"type": "struct", "fields": []}},
            "Cannot add a schema: the highest id is 2147483647 already",
        ),
        (
            {
                "partition-specs": [{"spec-id": 2**31 - 1, "fields": []}],
                "default-spec-id": 2**31 - 1,
            },
            {
                "action": "add-spec",
                "spec": {"fields": [{"source-id": 1, "transform": "identity", "name": "p"}]},
            },
            "Cannot add a partition spec: the highest id is 2147483647 already",
        ),
        (
            {
                "sort-orders": [
                    {
                        "order-id": 2**31 - 1,
                        "fields": [
                            {
                                "source-id": 1,
                                "transform": "identity",
                                "direction": "asc",
                                "null-order": "nulls-first",
                            }
                        ],
                    }
                ],
                "default-sort-order-id": 2**31 - 1,
            },
            {
                "action": "add-sort-order",
                "sort-order": {
                    "order-id": 1,
                    "fields": [
                        {
                            "source-id": 1,
                            "transform": "identity",
                            "direction": "desc",
                            "null-order": "nulls-first",
                        }
                    ],
                },
            },
            "Cannot add a sort order: the highest id is 2147483647 already",
        ),
    ],
)
def test_an_id_beyond_32_bits_is_never_given(
    change: dict[str, Any], update: dict[str, Any], message: str
) -> None:
    fields = {**json.loads(model.encode(kit.table())), **change}
    registered = model.decode(json.dumps(fields).encode())
    with pytest.raises(errors.BadUpdate, match=message):
        kit.apply(registered, update)
