"""Our metadata rules beside PyIceberg's: random commits, the same metadata.

PyIceberg applies updates as a client does, so where it and the specification part, the
specification holds: `test_deviation_...` names each such place, shows that PyIceberg still
differs there, and says what is right instead.
"""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.table import update as pyiceberg_update
from pyiceberg.table.metadata import TableMetadata as PyIcebergMetadata
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata

from catalog.metadata import errors, model
from catalog.metadata.model import TableMetadata
from tests.kit import examples
from tests.kit import metadata as kit

_UPDATES = pydantic.TypeAdapter(tuple[pyiceberg_update.TableUpdate, ...])

TYPES = ["boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz",
         "string", "uuid", "binary", "fixed[4]", "decimal(9, 2)"]  # fmt: skip


def oracle_of(metadata: TableMetadata) -> PyIcebergMetadata:
    return TableMetadataUtil.parse_raw(model.encode(metadata).decode())


def applied_by_oracle(
    base: PyIcebergMetadata, changes: list[dict[str, Any]], location: str
) -> PyIcebergMetadata:
    return pyiceberg_update.update_table_metadata(
        base, _UPDATES.validate_json(json.dumps(changes)), metadata_location=location
    )


def comparable(text: str, *, clock: bool = True) -> dict[str, Any]:
    """The document without what may differ: nulls, spelled-out defaults, the oracle's own clock."""
    document = _without_nulls(json.loads(text))
    if not clock:
        document.pop("last-updated-ms")
    if document["format-version"] == 1:
        for name in ("last-sequence-number", "schema", "partition-spec"):
            document.pop(name, None)  # stale singles: a deviation of its own, below
    for name in ("statistics", "partition-statistics", "encryption-keys"):
        if not document.get(name):
            document.pop(name, None)
    for snapshot in document["snapshots"]:
        snapshot.pop("sequence-number" if snapshot.get("sequence-number") == 0 else "", None)
    for schema in document["schemas"]:
        if not schema.get("identifier-field-ids"):
            schema.pop("identifier-field-ids", None)
    return document


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def written_by_oracle(metadata: PyIcebergMetadata) -> str:
    # v3's own model_dump_json refuses; the fields themselves are there
    return pydantic.BaseModel.model_dump_json(metadata, by_alias=True, exclude_none=True)


# --- random commits both understand alike -------------------------------------------------------


class Writer:
    """Draws commits that hold for a table in the state it is in."""

    def __init__(self, data: st.DataObject, version: int) -> None:
        self.data = data
        self.version = version
        self.number = 0

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self.data.draw(strategy)

    def commit(self, table: TableMetadata) -> list[dict[str, Any]]:
        updates = [
            self.snapshot,
            self.schema,
            self.spec,
            self.order,
            self.properties,
            self.location,
        ]
        if table.snapshot_ids:
            updates += [self.ref, self.statistics, self.partition_statistics]
        return list(self.draw(st.sampled_from(updates))(table))

    def snapshot(self, table: TableMetadata) -> list[dict[str, Any]]:
        self.number += 1
        more: dict[str, Any] = {"summary": {"operation": "append", "added-records": "5"}}
        if self.version >= 3:
            more |= {"first-row-id": table.next_row_id, "added-rows": self.draw(st.integers(0, 9))}
        snapshot_id = self.draw(st.integers(1, 2**60)) * 4 + self.number % 4
        if snapshot_id in table.snapshots:
            return []
        changes: list[dict[str, Any]] = [
            kit.add_snapshot(
                snapshot_id,
                None if self.version == 1 else table.last_sequence_number + 1,
                parent=table.current_snapshot_id,
                at_ms=kit.NOW_MS + self.number * 1_000,
                **more,
            )
        ]
        branch = self.draw(st.sampled_from(["main", "main", "dev", None]))
        if branch is not None:
            changes.append(kit.set_ref(branch, snapshot_id))
        return changes

    def schema(self, table: TableMetadata) -> list[dict[str, Any]]:
        fields = [dict(field) for field in table.current_schema()["fields"]]
        next_id = table.last_column_id + 1
        type_: Any = self.draw(st.sampled_from(TYPES))
        if self.draw(st.booleans()):
            type_ = {
                "type": "list",
                "element-id": next_id + 1,
                "element": type_,
                "element-required": self.draw(st.booleans()),
            }
        fields.append({"id": next_id, "name": f"c{next_id}", "type": type_, "required": False})
        schema_id = max(schema["schema-id"] for schema in table.schemas) + 1
        added = {
            "type": "struct",
            "schema-id": schema_id,
            "fields": fields,
            "identifier-field-ids": self.draw(st.sampled_from([[], [1]])),
        }
        current = {"action": "set-current-schema", "schema-id": -1}
        return [{"action": "add-schema", "schema": added}, current]

    def spec(self, table: TableMetadata) -> list[dict[str, Any]]:
        if self.version == 1:
            return []
        next_id = table.last_partition_id + 1
        width = len(table.partition_specs) + 1
        field = {
            "source-id": 1,
            "field-id": next_id,
            "transform": f"bucket[{width}]",
            "name": f"id_bucket_{width}",
        }
        spec_id = max(spec["spec-id"] for spec in table.partition_specs) + 1
        return [
            {"action": "add-spec", "spec": {"spec-id": spec_id, "fields": [field]}},
            {"action": "set-default-spec", "spec-id": self.draw(st.sampled_from([-1, spec_id]))},
        ]

    def order(self, table: TableMetadata) -> list[dict[str, Any]]:
        order_id = max(order["order-id"] for order in table.sort_orders) + 1
        field = {
            "source-id": 1,
            "transform": f"truncate[{order_id}]",
            "direction": self.draw(st.sampled_from(["asc", "desc"])),
            "null-order": self.draw(st.sampled_from(["nulls-first", "nulls-last"])),
        }
        added = {"order-id": order_id, "fields": [field]}
        return [
            {"action": "add-sort-order", "sort-order": added},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ]

    def properties(self, table: TableMetadata) -> list[dict[str, Any]]:
        names = st.sampled_from(["a", "b", "c"])
        present = [name for name in ("a", "b", "c") if name in table.properties]
        if present and self.draw(st.booleans()):
            return [
                {"action": "remove-properties", "removals": [self.draw(st.sampled_from(present))]}
            ]
        properties = self.draw(st.dictionaries(names, st.text(max_size=3), min_size=1, max_size=2))
        return [{"action": "set-properties", "updates": properties}]

    def location(self, table: TableMetadata) -> list[dict[str, Any]]:
        place = self.draw(st.sampled_from(["s3://lake/ns/t", "s3://lake/ns/u"]))
        if place == table.location:
            return []  # a change in PyIceberg's eyes
        return [{"action": "set-location", "location": place}]

    def ref(self, table: TableMetadata) -> list[dict[str, Any]]:
        snapshot_id = self.draw(st.sampled_from(sorted(table.snapshot_ids)))
        others = [name for name in table.refs if name != "main"]
        if others and self.draw(st.booleans()):
            return [{"action": "remove-snapshot-ref", "ref-name": others[0]}]
        if self.draw(st.booleans()):
            return [kit.set_ref("v1", snapshot_id, ref_type="tag", max_ref_age_ms=9)]
        return [kit.set_ref("audit", snapshot_id, min_snapshots_to_keep=2, max_snapshot_age_ms=7)]

    def statistics(self, table: TableMetadata) -> list[dict[str, Any]]:
        snapshot_id = self.draw(st.sampled_from(sorted(table.snapshot_ids)))
        if any(file["snapshot-id"] == snapshot_id for file in table.statistics):
            return [{"action": "remove-statistics", "snapshot-id": snapshot_id}]
        file = {
            "snapshot-id": snapshot_id,
            "statistics-path": "s.puffin",
            "file-size-in-bytes": 5,
            "file-footer-size-in-bytes": 3,
            "blob-metadata": [],
        }
        return [{"action": "set-statistics", "statistics": file}]

    def partition_statistics(self, table: TableMetadata) -> list[dict[str, Any]]:
        snapshot_id = self.draw(st.sampled_from(sorted(table.snapshot_ids)))
        if any(file["snapshot-id"] == snapshot_id for file in table.partition_statistics):
            return [{"action": "remove-partition-statistics", "snapshot-id": snapshot_id}]
        file = {"snapshot-id": snapshot_id, "statistics-path": "p", "file-size-in-bytes": 5}
        return [{"action": "set-partition-statistics", "partition-statistics": file}]


@examples.at_most(60)
@given(data=st.data(), version=st.sampled_from([1, 2, 3]), commits=st.integers(1, 8))
def test_random_commits_give_the_metadata_pyiceberg_gives(
    data: st.DataObject, version: int, commits: int
) -> None:
    ours = kit.table(version=version, properties={"write.metadata.previous-versions-max": "3"})
    theirs = oracle_of(ours)
    writer = Writer(data, version)
    for number in range(commits):
        changes = writer.commit(ours)
        if not changes:
            continue
        location = f"s3://lake/ns/t/metadata/{number:05}-a.metadata.json"
        now_ms = ours.last_updated_ms + 1_000
        # the oracle reads the clock; everything that follows from it is taken from our side
        theirs = theirs.model_copy(update={"last_updated_ms": ours.last_updated_ms})
        changed = kit.apply_all(ours, changes, now_ms=now_ms, base_location=location)
        if changed is ours:
            continue  # the oracle writes a file for it, see the next test
        ours = changed
        theirs = applied_by_oracle(theirs, changes, location)
        assert comparable(model.encode(ours).decode(), clock=False) == comparable(
            written_by_oracle(theirs), clock=False
        )
        assert ours.last_updated_ms == now_ms


def test_a_commit_that_changes_nothing_makes_no_metadata_where_pyiceberg_logs_one() -> None:
    """A deviation: the reference implementation, too, returns the metadata it was given."""
    ours = kit.table(version=2, properties={"a": "1"})
    changes = [{"action": "set-properties", "updates": {"a": "1"}}]
    same = kit.apply_all(
        ours, changes, now_ms=ours.last_updated_ms + 1, base_location="s3://lake/ns/t/m.json"
    )
    assert same is ours
    theirs = applied_by_oracle(oracle_of(ours), changes, "s3://lake/ns/t/m.json")
    assert len(theirs.metadata_log) == len(oracle_of(ours).metadata_log) + 1


@examples.at_most(60)
@given(data=st.data(), version=st.sampled_from([1, 2, 3]))
def test_random_creates_number_columns_as_pyiceberg_does(data: st.DataObject, version: int) -> None:
    schema = {"type": "struct", "fields": data.draw(fields_of(3)), "schema-id": 0}
    numbered = json.loads(json.dumps(schema))
    _number(numbered, iter(range(100, 10_000)))
    first = numbered["fields"][0]
    spec = {"spec-id": 0, "fields": []}
    order: dict[str, Any] = {"order-id": 0, "fields": []}
    if isinstance(first["type"], str):
        spec["fields"] = [
            {"source-id": first["id"], "field-id": 1007, "transform": "identity", "name": "p"}
        ]
        order = {
            "order-id": 4,
            "fields": [
                {
                    "source-id": first["id"],
                    "transform": "identity",
                    "direction": "asc",
                    "null-order": "nulls-last",
                }
            ],
        }
    request = CreateTableRequest.model_validate_json(
        json.dumps(
            {
                "name": "t",
                "location": kit.LOCATION,
                "schema": numbered,
                "partition-spec": spec,
                "write-order": order,
            }
        )
    )
    assert request.partition_spec is not None
    assert request.write_order is not None
    theirs = new_table_metadata(
        request.table_schema,
        request.partition_spec,
        request.write_order,
        kit.LOCATION,
        {"format-version": str(version), "write.parquet.compression-codec": "zstd"},
    )
    ours = kit.table(version=version, schema=numbered, spec=spec, order=order)
    mine = comparable(model.encode(ours).decode(), clock=False)
    other = comparable(written_by_oracle(theirs), clock=False)
    del mine["table-uuid"], other["table-uuid"]
    assert mine.pop("next-row-id", None) == (0 if version == 3 else None)  # v3 requires it
    assert mine == other


def fields_of(depth: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Fields without ids; names are distinct in their struct."""
    return st.lists(type_of(depth), min_size=1, max_size=3).map(
        lambda types: [
            {"name": f"f{place}", "required": False, "type": type_}
            for place, type_ in enumerate(types)
        ]
    )


def type_of(depth: int) -> st.SearchStrategy[Any]:
    plain = st.sampled_from(TYPES)
    if depth == 0:
        return plain
    return (
        plain
        | st.builds(lambda fields: {"type": "struct", "fields": fields}, fields_of(depth - 1))
        | st.builds(
            lambda element: {"type": "list", "element": element, "element-required": True},
            type_of(depth - 1),
        )
        | st.builds(
            lambda value: {
                "type": "map", "key": "string", "value": value, "value-required": False,
            },
            type_of(depth - 1),
        )
    )  # fmt: skip


def _number(type_: Any, ids: Any) -> None:
    """Give every field some id, in an order unlike the one asked for."""
    if not isinstance(type_, dict):
        return
    for field in type_.get("fields", []):
        _number(field["type"], ids)
        field["id"] = next(ids)
    for part in ("element", "key", "value"):
        if part in type_:
            type_[f"{part}-id"] = next(ids)
            _number(type_[part], ids)


# --- where PyIceberg and the specification part ------------------------------------------------

BASE = kit.apply(
    kit.with_snapshots(kit.table(properties={"a": "1"}), 3),
    kit.set_ref("v2", 2, ref_type="tag"),
    {
        "action": "add-schema",
        "schema": {
            "type": "struct",
            "schema-id": 1,
            "fields": [
                *kit.SCHEMA["fields"],
                {"id": 4, "name": "extra", "required": False, "type": "int"},
            ],
        },
    },
)

RAISES: dict[str, dict[str, Any]] = {
    "remove-snapshots of an unknown id": {"action": "remove-snapshots", "snapshot-ids": [99]},
    "remove-statistics of none": {"action": "remove-statistics", "snapshot-id": 1},
    "remove-partition-statistics of none": {
        "action": "remove-partition-statistics",
        "snapshot-id": 1,
    },
    "remove-partition-specs of an unknown id": {
        "action": "remove-partition-specs",
        "spec-ids": [99],
    },
    "remove-schemas of an unknown id": {"action": "remove-schemas", "schema-ids": [99]},
    "remove-properties of an unknown name": {"action": "remove-properties", "removals": ["zz"]},
}


@pytest.mark.parametrize("change", RAISES.values(), ids=RAISES.keys())
def test_deviation_pyiceberg_raises_where_the_unknown_is_ignored(change: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError)):
        applied_by_oracle(oracle_of(BASE), [change], "m")
    assert kit.apply(BASE, change) is BASE


def test_deviation_pyiceberg_adds_an_identical_schema_twice() -> None:
    change = {"action": "add-schema", "schema": {**kit.SCHEMA, "schema-id": 7}}
    assert len(applied_by_oracle(oracle_of(BASE), [change], "m").schemas) == 3
    assert kit.apply(BASE, change) is BASE


def test_deviation_pyiceberg_keeps_the_schema_id_it_was_given() -> None:
    fields = [*kit.SCHEMA["fields"], {"id": 5, "name": "z", "required": False, "type": "int"}]
    change = {
        "action": "add-schema",
        "schema": {"type": "struct", "schema-id": 40, "fields": fields},
    }
    assert applied_by_oracle(oracle_of(BASE), [change], "m").schemas[-1].schema_id == 40
    assert kit.apply(BASE, change).schemas[-1]["schema-id"] == 2


def test_deviation_pyiceberg_adds_an_identical_spec_twice() -> None:
    change = {"action": "add-spec", "spec": {"spec-id": 3, "fields": []}}
    assert len(applied_by_oracle(oracle_of(BASE), [change], "m").partition_specs) == 2
    assert kit.apply(BASE, change) is BASE


def test_deviation_pyiceberg_adds_an_identical_sort_order_twice() -> None:
    change = {"action": "add-sort-order", "sort-order": {"order-id": 3, "fields": []}}
    assert len(applied_by_oracle(oracle_of(BASE), [change], "m").sort_orders) == 2
    assert kit.apply(BASE, change) is BASE


def test_deviation_pyiceberg_drops_a_tag_with_its_snapshot() -> None:
    change = {"action": "remove-snapshots", "snapshot-ids": [2]}
    assert "v2" not in applied_by_oracle(oracle_of(BASE), [change], "m").refs
    with pytest.raises(errors.RequirementFailed):
        kit.apply(BASE, change)


REMOVAL = [
    {"action": "remove-snapshot-ref", "ref-name": "v2"},
    {"action": "remove-snapshots", "snapshot-ids": [2]},
]


def test_deviation_pyiceberg_leaves_gaps_in_the_snapshot_log() -> None:
    theirs = applied_by_oracle(oracle_of(BASE), REMOVAL, "m")
    assert [entry.snapshot_id for entry in theirs.snapshot_log] == [1, 3]
    assert [entry["snapshot-id"] for entry in kit.apply(BASE, *REMOVAL).snapshot_log] == [3]


def test_deviation_pyiceberg_rewrites_the_parents_of_snapshots_it_keeps() -> None:
    theirs = applied_by_oracle(oracle_of(BASE), REMOVAL, "m").snapshot_by_id(3)
    assert theirs is not None
    assert theirs.parent_snapshot_id is None
    assert kit.apply(BASE, *REMOVAL).snapshot(3) == BASE.snapshot(3)


def test_deviation_pyiceberg_logs_snapshots_replaced_in_the_same_request() -> None:
    changes = [
        kit.add_snapshot(4, 4, parent=3),
        kit.set_main(4),
        kit.add_snapshot(5, 5, parent=4),
        kit.set_main(5),
    ]
    theirs = applied_by_oracle(oracle_of(BASE), changes, "m")
    assert [entry.snapshot_id for entry in theirs.snapshot_log] == [1, 2, 3, 4, 5]
    ours = kit.apply(BASE, *changes)
    assert [entry["snapshot-id"] for entry in ours.snapshot_log] == [1, 2, 3, 5]


def test_deviation_pyiceberg_lowers_last_sequence_number_for_a_parentless_snapshot() -> None:
    change = kit.add_snapshot(9, 1)
    assert applied_by_oracle(oracle_of(BASE), [change], "m").last_sequence_number == 1
    assert kit.apply(BASE, change).last_sequence_number == 3


def test_deviation_pyiceberg_adds_rows_to_next_row_id_but_not_the_gap() -> None:
    base = kit.table(version=3)
    change = kit.add_snapshot(1, 1, first_row_id=100, added_rows=5)
    assert applied_by_oracle(oracle_of(base), [change], "m").next_row_id == 5
    assert kit.apply(base, change).next_row_id == 105


def test_deviation_pyiceberg_accepts_a_stale_sequence_number_in_v3() -> None:
    base = kit.with_snapshots(kit.table(version=3), 2)
    change = kit.add_snapshot(9, 1, parent=2, first_row_id=20, added_rows=1)
    assert applied_by_oracle(oracle_of(base), [change], "m").last_sequence_number == 1
    with pytest.raises(Exception, match="please retry: Cannot add snapshot with sequence number"):
        kit.apply(base, change)


def test_deviation_pyiceberg_stores_reserved_properties() -> None:
    change = {"action": "set-properties", "updates": {"format-version": "3"}}
    assert applied_by_oracle(oracle_of(BASE), [change], "m").properties["format-version"] == "3"
    assert kit.apply(BASE, change) is BASE


def test_deviation_pyiceberg_overwrites_the_uuid_of_a_live_table() -> None:
    other = "00000000-0000-4000-8000-000000000001"
    change = {"action": "assign-uuid", "uuid": other}
    assert str(applied_by_oracle(oracle_of(BASE), [change], "m").table_uuid) == other
    with pytest.raises(Exception, match="Cannot reassign uuid"):
        kit.apply(BASE, change)


def test_deviation_pyiceberg_makes_a_tag_of_main() -> None:
    change = kit.set_ref("main", 1, ref_type="tag")
    theirs = applied_by_oracle(oracle_of(BASE), [change], "m").refs["main"]
    assert str(theirs.snapshot_ref_type.value) == "tag"
    with pytest.raises(Exception, match="it must be a branch"):
        kit.apply(BASE, change)


def test_deviation_pyiceberg_leaves_the_single_schema_and_spec_of_v1_stale() -> None:
    base = kit.table(version=1)
    field = {"source-id": 1, "field-id": 1000, "transform": "bucket[4]", "name": "b"}
    wider = BASE.schema(1)
    changes = [
        {"action": "add-schema", "schema": wider},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 1, "fields": [field]}},
        {"action": "set-default-spec", "spec-id": -1},
    ]
    theirs = json.loads(written_by_oracle(applied_by_oracle(oracle_of(base), changes, "m")))
    assert (theirs["schema"]["schema-id"], theirs["partition-spec"]) == (0, [])
    written = json.loads(model.encode(kit.apply(base, *changes)))
    assert (written["schema"], written["partition-spec"]) == (wider, [field])


def test_deviation_pyiceberg_cannot_upgrade_to_v3() -> None:
    change = {"action": "upgrade-format-version", "format-version": 3}
    with pytest.raises(ValueError, match="Unsupported table format version: 3"):
        applied_by_oracle(oracle_of(BASE), [change], "m")
    assert kit.apply(BASE, change).format_version == 3
