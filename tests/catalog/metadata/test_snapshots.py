"""Snapshots and refs: numbers handed out once, main and the log in step, nothing left dangling."""

from __future__ import annotations

import json
from typing import Any

import pytest

from catalog.metadata import errors, model
from tests.kit import metadata as kit


def remove(*snapshot_ids: int) -> dict[str, Any]:
    return {"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}


def remove_ref(name: str) -> dict[str, Any]:
    return {"action": "remove-snapshot-ref", "ref-name": name}


def log_of(metadata: model.TableMetadata) -> list[tuple[int, int]]:
    return [(entry["timestamp-ms"], entry["snapshot-id"]) for entry in metadata.snapshot_log]


# --- add-snapshot -------------------------------------------------------------------------------


def test_add_snapshot_alone_moves_no_ref_and_leaves_no_log_entry() -> None:
    metadata = kit.apply(kit.table(), kit.add_snapshot(7, 1))
    assert list(metadata.snapshot_ids) == [7]
    assert metadata.snapshot(7) == kit.add_snapshot(7, 1)["snapshot"]
    assert metadata.last_sequence_number == 1
    assert metadata.current_snapshot_id is None
    assert metadata.refs == {}
    assert metadata.snapshot_log == []


def test_add_snapshot_with_main_makes_it_current_and_logs_its_own_time() -> None:
    metadata = kit.apply(kit.table(), kit.add_snapshot(7, 1, at_ms=kit.NOW_MS + 5), kit.set_main(7))
    assert metadata.current_snapshot_id == 7
    assert metadata.refs == {"main": {"snapshot-id": 7, "type": "branch"}}
    assert log_of(metadata) == [(kit.NOW_MS + 5, 7)]
    assert metadata.last_updated_ms == kit.NOW_MS + 1_000


@pytest.mark.parametrize("version", [2, 3])
def test_add_snapshot_with_a_stale_sequence_number_may_be_retried(version: int) -> None:
    base = kit.with_snapshots(kit.table(version=version), 2)
    with pytest.raises(errors.StaleSequenceNumber) as stale:
        kit.apply(base, kit.add_snapshot(9, 2, parent=2, first_row_id=20, added_rows=1))
    assert str(stale.value) == (
        "Validation failed, please retry: Cannot add snapshot with sequence number 2 older than"
        " last sequence number 2"
    )


def test_add_snapshot_without_parent_may_lie_behind_and_never_lowers_the_last_number() -> None:
    base = kit.with_snapshots(kit.table(), 3)
    metadata = kit.apply(base, kit.add_snapshot(9, 1), kit.set_ref("other", 9))
    assert metadata.last_sequence_number == 3


def test_add_snapshot_v1_has_no_sequence_numbers() -> None:
    metadata = kit.apply(kit.table(version=1), kit.add_snapshot(9, 0), kit.set_main(9))
    assert "sequence-number" not in metadata.snapshot(9)
    assert metadata.last_sequence_number == 0
    with pytest.raises(errors.BadUpdate, match="sequence number to a v1 table"):
        kit.apply(kit.table(version=1), kit.add_snapshot(9, 1))


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("member", ["first-row-id", "added-rows"])
def test_add_snapshot_refuses_row_lineage_that_is_no_number_at_every_version(
    version: int, member: str
) -> None:
    """Readers of every version parse these members where they stand."""
    numbers = {"first_row_id": 0, "added_rows": 0} if version == 3 else {}
    for wrong in ("x", 1.5, True, [], 1 << 63):
        update = kit.add_snapshot(9, 0 if version == 1 else 1, **numbers)
        update["snapshot"][member] = wrong
        with pytest.raises(errors.BadUpdate, match=f"Cannot parse to a long value: {member}"):
            kit.apply(kit.table(version=version), update)


def test_add_snapshot_v1_may_list_its_manifests() -> None:
    update = kit.add_snapshot(9)
    del update["snapshot"]["manifest-list"]
    update["snapshot"]["manifests"] = ["a.avro", "b.avro"]
    assert kit.apply(kit.table(version=1), update).snapshot(9)["manifests"] == ["a.avro", "b.avro"]
    with pytest.raises(errors.BadUpdate, match="not supported after v1"):
        kit.apply(kit.table(version=2), update)


def test_add_snapshot_with_a_known_id_is_refused() -> None:
    base = kit.with_snapshots(kit.table(), 1)
    with pytest.raises(errors.BadUpdate, match=r"^Snapshot already exists for id: 1$"):
        kit.apply(base, kit.add_snapshot(1, 9))


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("snapshot-id", "Cannot parse missing long: snapshot-id"),
        ("timestamp-ms", "Cannot parse missing long: timestamp-ms"),
        ("manifest-list", "Cannot parse missing string: manifest-list"),
        ("summary", "Cannot parse missing field: summary"),
    ],
)
def test_add_snapshot_without_a_required_field_is_refused(missing: str, message: str) -> None:
    update = kit.add_snapshot(1, 1)
    del update["snapshot"][missing]
    with pytest.raises(errors.BadUpdate, match=message):
        kit.apply(kit.table(), update)


@pytest.mark.parametrize(
    "wrong",
    [
        {"snapshot-id": "1"},
        {"snapshot-id": 2**63},
        {"snapshot-id": 1.0},
        {"timestamp-ms": True},
        {"summary": {"operation": 1}},
        {"summary": {"added": "1"}},
        {"parent-snapshot-id": "x"},
        {"sequence-number": -1},
        {"manifest-list": 4},
    ],
)
def test_add_snapshot_with_a_field_of_the_wrong_kind_is_refused(wrong: dict[str, Any]) -> None:
    update = kit.add_snapshot(1, 1)
    update["snapshot"].update(wrong)
    with pytest.raises(errors.BadUpdate):
        kit.apply(kit.table(), update)


@pytest.mark.parametrize("beyond", ["\ud800", {"\udfff": 1}])
def test_add_snapshot_with_an_unknown_field_json_cannot_say_is_refused(beyond: Any) -> None:
    with pytest.raises(errors.MetadataError):
        kit.apply(kit.table(), kit.add_snapshot(1, 1, x_future={"deep": [beyond]}))


@pytest.mark.parametrize(
    ("fields", "what"),
    [("schemas", "schema"), ("partition_specs", "partition spec"), ("sort_orders", "sort order")],
)
def test_add_snapshot_needs_schema_spec_and_order(fields: str, what: str) -> None:
    creating = [
        {"action": "assign-uuid", "uuid": kit.UUID},
        {"action": "set-location", "location": kit.LOCATION},
    ]
    if fields != "schemas":
        creating += [
            {"action": "add-schema", "schema": kit.SCHEMA},
            {"action": "set-current-schema", "schema-id": -1},
        ]
    if fields == "sort_orders":
        creating.append({"action": "add-spec", "spec": {"fields": []}})
    with pytest.raises(
        errors.BadUpdate, match=f"^Attempting to add a snapshot before a {what} is added$"
    ):
        kit.apply(None, *creating, kit.add_snapshot(1, 1))


# --- row lineage --------------------------------------------------------------------------------


def test_add_snapshot_v3_moves_next_row_id_even_off_main() -> None:
    base = kit.table(version=3)
    metadata = kit.apply(
        base,
        kit.add_snapshot(1, 1, first_row_id=0, added_rows=25),
        kit.set_ref("audit", 1),
    )
    assert metadata.next_row_id == 25
    gap = kit.apply(metadata, kit.add_snapshot(2, 2, parent=1, first_row_id=30, added_rows=5))
    assert gap.next_row_id == 35


def test_add_snapshot_v3_behind_next_row_id_may_be_retried() -> None:
    base = kit.with_snapshots(kit.table(version=3), 1)
    with pytest.raises(errors.StaleSequenceNumber) as stale:
        kit.apply(base, kit.add_snapshot(2, 2, parent=1, first_row_id=9, added_rows=1))
    assert str(stale.value) == (
        "Validation failed, please retry: Cannot add a snapshot, first-row-id is behind table"
        " next-row-id: 9 < 10"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "^Cannot add a snapshot: first-row-id is null$"),
        ({"first_row_id": 0}, "^Cannot add a snapshot: added-rows is null$"),
        ({"first_row_id": 0, "added_rows": -1}, "^Cannot add a snapshot: added-rows is -1$"),
    ],
)
def test_add_snapshot_v3_without_row_ids_is_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(errors.BadUpdate, match=message):
        kit.apply(kit.table(version=3), kit.add_snapshot(1, 1, **fields))


def test_upgrade_to_v3_starts_row_ids_at_0_and_leaves_old_snapshots_alone() -> None:
    base = kit.with_snapshots(kit.table(version=2), 2)
    metadata = kit.apply(base, {"action": "upgrade-format-version", "format-version": 3})
    assert json.loads(model.encode(metadata))["next-row-id"] == 0
    assert metadata.snapshots.text == base.snapshots.text


# --- references ---------------------------------------------------------------------------------


def test_set_snapshot_ref_makes_branches_and_tags_with_their_retention() -> None:
    base = kit.with_snapshots(kit.table(), 2)
    metadata = kit.apply(
        base,
        kit.set_ref("dev", 1, min_snapshots_to_keep=3, max_snapshot_age_ms=4, max_ref_age_ms=5),
        kit.set_ref("v1", 1, ref_type="tag", max_ref_age_ms=6),
    )
    assert metadata.refs == {
        "main": {"snapshot-id": 2, "type": "branch"},
        "dev": {
            "snapshot-id": 1,
            "type": "branch",
            "min-snapshots-to-keep": 3,
            "max-snapshot-age-ms": 4,
            "max-ref-age-ms": 5,
        },
        "v1": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 6},
    }
    assert metadata.current_snapshot_id == 2
    assert log_of(metadata) == log_of(base)


def test_set_snapshot_ref_equal_changes_nothing() -> None:
    base = kit.with_snapshots(kit.table(), 2)
    assert kit.apply(base, kit.set_main(2)) is base


def test_set_snapshot_ref_back_to_an_older_snapshot_logs_the_time_of_the_change() -> None:
    base = kit.with_snapshots(kit.table(), 2)
    metadata = kit.apply(base, kit.set_main(1), now_ms=kit.NOW_MS + 9_000)
    assert metadata.current_snapshot_id == 1
    assert log_of(metadata) == [*log_of(base), (kit.NOW_MS + 9_000, 1)]
    assert metadata.last_sequence_number == 2


def test_set_snapshot_ref_of_main_to_other_retention_alone_leaves_no_log_entry() -> None:
    base = kit.with_snapshots(kit.table(), 1)
    metadata = kit.apply(base, kit.set_ref("main", 1, min_snapshots_to_keep=2))
    assert metadata.refs["main"]["min-snapshots-to-keep"] == 2
    assert log_of(metadata) == log_of(base)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (kit.set_ref("x", 99), "^Cannot set x to unknown snapshot: 99$"),
        (kit.set_ref("main", 1, ref_type="tag"), "^Cannot set main to a tag, it must be a branch$"),
        (kit.set_ref("x", 1, ref_type="fork"), "Invalid snapshot ref type: fork"),
        (kit.set_ref("x", 1, min_snapshots_to_keep=0), "must be greater than 0"),
        (kit.set_ref("x", 1, max_ref_age_ms=-5), "must be greater than 0"),
        (kit.set_ref("x", 1, ref_type="tag", min_snapshots_to_keep=1), "Tags do not support"),
        (kit.set_ref("x", 1, ref_type="tag", max_snapshot_age_ms=1), "Tags do not support"),
        ({"action": "set-snapshot-ref", "type": "tag", "snapshot-id": 1}, "ref-name"),
    ],
)
def test_set_snapshot_ref_that_cannot_be_is_refused(update: Any, message: str) -> None:
    base = kit.with_snapshots(kit.table(), 2)
    with pytest.raises(errors.BadUpdate, match=message):
        kit.apply(base, update)


def test_remove_snapshot_ref_of_main_clears_the_current_snapshot() -> None:
    base = kit.with_snapshots(kit.table(), 2)
    metadata = kit.apply(base, remove_ref("main"))
    assert metadata.refs == {}
    assert metadata.current_snapshot_id is None
    assert list(metadata.snapshot_ids) == [1, 2]
    assert log_of(metadata) == log_of(base)


def test_remove_snapshot_ref_unknown_changes_nothing() -> None:
    base = kit.with_snapshots(kit.table(), 1)
    assert kit.apply(base, remove_ref("unknown")) is base


# --- remove-snapshots ---------------------------------------------------------------------------


def test_remove_snapshots_takes_statistics_along() -> None:
    statistics = [
        {
            "action": "set-statistics",
            "statistics": {
                "snapshot-id": number,
                "statistics-path": f"s{number}.puffin",
                "file-size-in-bytes": 1,
                "file-footer-size-in-bytes": 1,
                "blob-metadata": [],
            },
        }
        for number in (1, 2)
    ]
    partition_statistics = [
        {
            "action": "set-partition-statistics",
            "partition-statistics": {
                "snapshot-id": number,
                "statistics-path": "p",
                "file-size-in-bytes": 1,
            },
        }
        for number in (1, 2)
    ]
    base = kit.apply(kit.with_snapshots(kit.table(), 2), *statistics, *partition_statistics)
    metadata = kit.apply(base, remove(1, 404))
    assert list(metadata.snapshot_ids) == [2]
    assert metadata.refs == {"main": {"snapshot-id": 2, "type": "branch"}}
    assert [file["snapshot-id"] for file in metadata.statistics] == [2]
    assert [file["snapshot-id"] for file in metadata.partition_statistics] == [2]
    assert metadata.snapshot(2)["parent-snapshot-id"] == 1
    assert metadata.last_sequence_number == 2


@pytest.mark.parametrize("ref_type", ["tag", "branch"])
def test_remove_snapshots_to_which_a_ref_points_is_refused_until_it_is_removed_or_moved(
    ref_type: str,
) -> None:
    base = kit.apply(kit.with_snapshots(kit.table(), 3), kit.set_ref("v1", 2, ref_type=ref_type))
    for changes in ([remove(1, 2)], [remove(2), remove_ref("v1")], [remove_ref("main"), remove(2)]):
        with pytest.raises(errors.RequirementFailed) as caught:
            kit.apply(base, *changes)
        assert str(caught.value) == f"Cannot remove snapshot 2: {ref_type} v1 points to it"
    with pytest.raises(errors.RequirementFailed, match="branch main points to it"):
        kit.apply(base, remove(3))
    gone = kit.apply(base, remove_ref("v1"), remove(2))
    assert list(gone.snapshot_ids) == [1, 3]
    moved = kit.apply(base, kit.set_ref("v1", 3, ref_type=ref_type), remove(2))
    assert moved.refs["v1"]["snapshot-id"] == 3


def test_remove_snapshots_unknown_changes_nothing() -> None:
    base = kit.with_snapshots(kit.table(), 1)
    assert kit.apply(base, remove(5)) is base
    assert kit.apply(base, remove()) is base


def test_remove_snapshots_cuts_the_log_before_the_last_removed_entry() -> None:
    base = kit.with_snapshots(kit.table(), 4)
    at = {number: kit.NOW_MS + number * 1_000 for number in range(1, 5)}
    assert log_of(kit.apply(base, remove(1))) == [(at[2], 2), (at[3], 3), (at[4], 4)]
    assert log_of(kit.apply(base, remove(2))) == [(at[3], 3), (at[4], 4)]
    gone = kit.apply(base, remove_ref("main"), remove(4))
    assert gone.current_snapshot_id is None
    assert gone.refs == {}
    assert gone.snapshot_log == []


# --- the snapshot log ---------------------------------------------------------------------------


def test_snapshots_added_and_replaced_in_one_request_leave_no_log_entry() -> None:
    base = kit.with_snapshots(kit.table(), 1)
    metadata = kit.apply(
        base,
        kit.add_snapshot(2, 2, parent=1),
        kit.set_main(2),
        kit.add_snapshot(3, 3, parent=2),
        kit.set_main(3),
    )
    assert list(metadata.snapshot_ids) == [1, 2, 3]
    assert [entry["snapshot-id"] for entry in metadata.snapshot_log] == [1, 3]
    dropped = kit.apply(base, kit.add_snapshot(2, 2, parent=1), kit.set_main(2), remove_ref("main"))
    assert [entry["snapshot-id"] for entry in dropped.snapshot_log] == [1]


def test_a_snapshot_from_the_future_is_refused_beyond_a_minute() -> None:
    base = kit.table()
    ahead = kit.apply(
        base,
        kit.add_snapshot(1, 1, at_ms=kit.NOW_MS + 60_000),
        kit.set_main(1),
        now_ms=kit.NOW_MS,
    )
    assert log_of(ahead) == [(kit.NOW_MS + 60_000, 1)]
    with pytest.raises(errors.BadUpdate, match="before last snapshot log entry at"):
        kit.apply(
            base,
            kit.add_snapshot(1, 1, at_ms=kit.NOW_MS + 60_001),
            kit.set_main(1),
            now_ms=kit.NOW_MS,
        )


def test_a_snapshot_of_a_slow_clock_never_turns_the_log_backwards() -> None:
    base = kit.with_snapshots(kit.table(), 2)
    newest = kit.NOW_MS + 2_000
    near = kit.apply(base, kit.add_snapshot(3, 3, parent=2, at_ms=newest - 60_000), kit.set_main(3))
    assert log_of(near)[-1] == (newest - 60_000, 3)
    far = kit.apply(base, kit.add_snapshot(3, 3, parent=2, at_ms=5), kit.set_main(3))
    assert log_of(far)[-1] == (newest, 3)


def test_a_clock_set_back_never_lowers_last_updated_ms() -> None:
    base = kit.with_snapshots(kit.table(), 2)
    metadata = kit.apply(base, kit.set_main(1), now_ms=5)
    assert metadata.last_updated_ms == base.last_updated_ms
    assert log_of(metadata)[-1] == (base.last_updated_ms, 1)
