"""Table metadata as a value: exact round trips, strict heads, histories kept as text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.metadata import checks, errors, model
from tests.kit import metadata as kit


def document(version: int = 2, **changes: Any) -> dict[str, Any]:
    """A metadata.json as another writer would write it; a change of None removes the field."""
    fields: dict[str, Any] = {
        "format-version": version,
        "table-uuid": kit.UUID,
        "location": kit.LOCATION,
        "last-sequence-number": 2,
        "last-updated-ms": kit.NOW_MS,
        "last-column-id": 3,
        "current-schema-id": 0,
        "schemas": [kit.SCHEMA],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "ana"},
        "current-snapshot-id": 2,
        "refs": {"main": {"snapshot-id": 2, "type": "branch"}},
        "snapshots": [
            {"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 5, "manifest-list": "m1"},
            {
                "snapshot-id": 2,
                "parent-snapshot-id": 1,
                "sequence-number": 2,
                "timestamp-ms": 6,
                "manifest-list": "m2",
            },
        ],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [
            {"timestamp-ms": 5, "snapshot-id": 1},
            {"timestamp-ms": 6, "snapshot-id": 2},
        ],
        "metadata-log": [{"timestamp-ms": 5, "metadata-file": "m.json"}],
    }
    if version == 1:
        fields["schema"] = kit.SCHEMA
        fields["partition-spec"] = []
        del fields["last-sequence-number"]
        for snapshot in fields["snapshots"]:
            del snapshot["sequence-number"]
    if version == 3:
        fields["next-row-id"] = 0
    fields.update(changes)
    return {name: value for name, value in fields.items() if value is not None}


def decode(value: dict[str, Any], **layout: Any) -> model.TableMetadata:
    return model.decode(json.dumps(value, **layout).encode())


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("indent", [None, 2])
def test_decode_then_encode_keeps_every_field(version: int, indent: int | None) -> None:
    fields = document(version, **{"x-future": {"big": 2**63 - 1, "list": [1.5, None]}})
    assert json.loads(model.encode(decode(fields, indent=indent))) == fields


def test_decode_then_encode_keeps_fields_unknown_inside_snapshots_schemas_and_refs() -> None:
    fields = document()
    fields["snapshots"][1]["x-new"] = {"deep": [2**62 + 1]}
    fields["schemas"] = [{**kit.SCHEMA, "x-schema": True}]
    fields["refs"]["main"]["x-ref"] = "kept"
    fields["snapshot-log"][0]["x-log"] = 1
    assert json.loads(model.encode(decode(fields))) == fields


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, -(2**63), 9_223_372_036_854_775_807])
def test_snapshot_ids_are_exact_integers(number: int) -> None:
    fields = document(
        **{
            "current-snapshot-id": number,
            "refs": {"main": {"snapshot-id": number, "type": "branch"}},
            "snapshots": [{"snapshot-id": number, "timestamp-ms": 1, "manifest-list": "m"}],
            "snapshot-log": [{"timestamp-ms": 1, "snapshot-id": number}],
        }
    )
    metadata = decode(fields)
    assert list(metadata.snapshot_ids) == [number]
    assert metadata.snapshot(number) == fields["snapshots"][0]
    assert json.loads(model.encode(metadata)) == fields


def test_snapshots_are_found_one_by_one_in_their_order() -> None:
    metadata = decode(document(), indent=3)
    assert list(metadata.snapshot_ids) == [1, 2]
    assert metadata.snapshot(1) == document()["snapshots"][0]
    assert metadata.snapshot(3) is None
    assert metadata.current_snapshot() == document()["snapshots"][1]


def test_encode_refs_only_keeps_referenced_snapshots_and_both_logs() -> None:
    base = kit.with_snapshots(kit.table(), 5)
    tagged = kit.apply(base, kit.set_ref("v2", 2, ref_type="tag"))
    whole = json.loads(model.encode(tagged))
    refs_only = json.loads(model.encode_refs_only(tagged))
    assert [snapshot["snapshot-id"] for snapshot in refs_only.pop("snapshots")] == [2, 5]
    whole.pop("snapshots")
    assert refs_only == whole


def test_decode_current_snapshot_id_of_minus_one_means_none_and_is_not_written_back() -> None:
    fields = document(
        **{"current-snapshot-id": -1, "refs": {}, "snapshots": [], "snapshot-log": []}
    )
    metadata = decode(fields)
    assert metadata.current_snapshot_id is None
    assert "current-snapshot-id" not in json.loads(model.encode(metadata))


def test_decode_without_refs_makes_main_of_the_current_snapshot() -> None:
    assert decode(document(refs=None)).refs == {"main": {"snapshot-id": 2, "type": "branch"}}


def test_decode_v1_of_old_takes_the_single_schema_and_spec() -> None:
    old = {
        "format-version": 1,
        "location": kit.LOCATION,
        "last-updated-ms": 5,
        "last-column-id": 3,
        "schema": {"type": "struct", "fields": kit.SCHEMA["fields"]},
        "partition-spec": [{"name": "day", "transform": "identity", "source-id": 3}],
    }
    metadata = decode(old)
    assert metadata.table_uuid is None
    assert metadata.current_schema() == kit.SCHEMA
    assert metadata.default_spec() == {
        "spec-id": 0,
        "fields": [{"field-id": 1000, "name": "day", "transform": "identity", "source-id": 3}],
    }
    assert metadata.last_partition_id == 1000
    assert metadata.default_sort_order() == {"order-id": 0, "fields": []}
    assert metadata.properties == {}


def test_encode_v1_writes_the_single_schema_and_spec_beside_the_lists() -> None:
    spec = {"fields": [{"source-id": 3, "name": "day", "transform": "identity"}]}
    written = json.loads(model.encode(kit.table(version=1, spec=spec)))
    assert written["schema"] == written["schemas"][0]
    assert written["partition-spec"] == written["partition-specs"][0]["fields"]
    assert "last-sequence-number" not in written


@pytest.mark.parametrize("version", [2, 3])
def test_encode_v2_and_later_omit_the_single_schema_and_spec(version: int) -> None:
    written = json.loads(model.encode(kit.table(version=version)))
    assert not {"schema", "partition-spec"} & written.keys()
    assert ("next-row-id" in written) == (version == 3)


@pytest.mark.parametrize(
    ("version", "missing"),
    [
        (2, "table-uuid"),
        (2, "last-sequence-number"),
        (2, "schemas"),
        (2, "partition-specs"),
        (2, "last-partition-id"),
        (2, "sort-orders"),
        (2, "default-spec-id"),
        (3, "next-row-id"),
    ],
)
def test_decode_without_a_required_field_is_refused_by_name(version: int, missing: str) -> None:
    with pytest.raises(errors.InvalidMetadata, match=f"^{missing} must exist in format v{version}"):
        decode(document(version, **{missing: None}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format-version": 4}, "Cannot read unsupported version 4"),
        ({"format-version": 0}, "Cannot read unsupported version 0"),
        ({"location": None}, "missing required field `location`"),
        ({"last-column-id": "3"}, "Expected `int`, got `str`"),
        ({"current-schema-id": 7}, "Cannot find schema with current-schema-id=7 from schemas"),
        ({"default-spec-id": 7}, "Cannot find partition spec with id 7"),
        ({"default-sort-order-id": 7}, "Cannot find sort order with id 7"),
        ({"snapshots": {"a": 1}}, "Cannot parse snapshots from non-array"),
        ({"refs": {"main": {"type": "branch"}}}, "Cannot parse snapshot reference main"),
        ({"refs": {"x": {"snapshot-id": 1, "type": "fork"}}}, "Cannot parse snapshot reference x"),
    ],
)
def test_decode_of_a_broken_head_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidMetadata, match=message):
        decode(document(**changes))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b'{"format-version": 2}'])
def test_decode_of_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(errors.InvalidMetadata):
        model.decode(data)


def test_check_table_passes_sound_metadata() -> None:
    for version in (1, 2, 3):
        checks.check_table(decode(document(version)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"refs": {"old": {"snapshot-id": 9, "type": "tag"}}},
            "Snapshot for reference old does not exist in the existing snapshots list: 9",
        ),
        (
            {"current-snapshot-id": 9, "refs": {}},
            "Invalid table metadata: Cannot find current version",
        ),
        (
            {"current-snapshot-id": 1},
            r"Current snapshot ID does not match main branch \(1 != 2\)",
        ),
        (
            {"last-sequence-number": 1},
            "Invalid snapshot with sequence number 2 greater than last sequence number 1",
        ),
        ({"snapshots": [7]}, "Cannot parse snapshots"),
        ({"snapshot-log": [{"timestamp-ms": 5}]}, "Malformed entry in snapshot-log"),
        ({"metadata-log": [{"timestamp-ms": 5}]}, "Malformed entry in metadata-log"),
        ({"schemas": [{"schema-id": 0, "type": "struct"}]}, "Cannot parse missing list: fields"),
        (
            {"partition-specs": [{"spec-id": 0, "fields": [{"name": "x"}]}]},
            "Cannot parse missing int: field-id",
        ),
        (
            {
                "partition-specs": [
                    {
                        "spec-id": 0,
                        "fields": [
                            {
                                "name": "x",
                                "field-id": 1000,
                                "source-id": 9,
                                "transform": "identity",
                            }
                        ],
                    }
                ]
            },
            "Cannot find source column for partition field",
        ),
        (
            {
                "snapshots": [
                    {"snapshot-id": 2, "timestamp-ms": 1},
                    {"snapshot-id": 2, "timestamp-ms": 1},
                ]
            },
            "Two snapshots have the same id",
        ),
        ({"snapshots": [{"timestamp-ms": 1}]}, "Cannot parse snapshots"),
    ],
)
def test_check_table_of_a_contradiction_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidMetadata, match=message):
        checks.check_table(decode(document(**changes)))


def test_snapshots_with_one_id_are_refused_at_every_attempt() -> None:
    twice = model.Snapshots(b'[{"snapshot-id":2},{"snapshot-id":2}]')
    for _ in range(2):
        with pytest.raises(errors.InvalidMetadata, match="same id"):
            len(twice)


def test_json_array_extends_text_whatever_its_layout() -> None:
    empty = model.JsonArray(b" [ \n ]".strip())
    assert not empty
    one = empty.extended([b'{"a":1}'])
    assert one.text == b'[{"a":1}]'
    spaced = model.JsonArray(b'[\n {"a": 1}\n]').extended([b'{"b":2}', b'{"c":3}'])
    assert spaced.decoded() == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert spaced.extended([]) is spaced


def test_json_array_with_one_more_item_has_the_last_ones_as_if_they_were_joined_anew() -> None:
    items = [b'{"n":%d}' % (10**number) for number in range(6)]
    spaced = model.JsonArray(b"[ " + b" , ".join(items) + b"\n]")
    for items_max in range(1, 9):
        for first in (model.JsonArray(), model.JsonArray.of(items), spaced):
            array, expected = first, list(first.items())
            for number in range(4):
                item = b'{"new":%d}' % number
                array = array.with_last(item, items_max=items_max)
                expected = [*expected, item][-items_max:]
                assert array.text == b"[" + b",".join(expected) + b"]"
                assert array.items() == tuple(expected)
        assert spaced.text.startswith(b"[ {")


def test_snapshots_appended_and_removed_keep_each_text_at_its_id() -> None:
    snapshots = model.Snapshots(b'[ {"snapshot-id": 5, "x": "],["} , {"snapshot-id":6} ]')
    grown = snapshots.extended({7: b'{"snapshot-id":7}'})
    assert {snapshot_id: grown.get(snapshot_id) for snapshot_id in grown.ids} == {
        5: {"snapshot-id": 5, "x": "],["},
        6: {"snapshot-id": 6},
        7: {"snapshot-id": 7},
    }
    assert list(snapshots.ids) == [5, 6]
    assert grown.without({6}).text == b'[{"snapshot-id": 5, "x": "],["},{"snapshot-id":7}]'
    assert model.Snapshots().extended({1: b'{"snapshot-id":1}'}).text == b'[{"snapshot-id":1}]'


@pytest.mark.parametrize("separator", [b",", b", ", b" ,\n  "])
@pytest.mark.parametrize("count", [0, 1, 2, 6])
def test_snapshots_without_any_of_them_are_the_others_in_their_order(
    separator: bytes, count: int
) -> None:
    items = {
        number: b'{"snapshot-id":%d,"x":"%b"}' % (number, b"y" * number) for number in range(count)
    }
    snapshots = model.Snapshots(b"[" + separator.join(items.values()) + b"]")
    for chosen in range(2**count):
        gone = [number for number in items if chosen >> number & 1]
        left = snapshots.without(gone)
        kept = [number for number in items if number not in gone]
        assert list(left.ids) == kept
        assert [left.text_of(number) for number in kept] == [items[number] for number in kept]
        assert [each["snapshot-id"] for each in json.loads(left.text)] == kept
        assert list(model.Snapshots(left.text).ids) == kept


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 3),  # snapshots added
        st.sets(st.integers(0, 12), max_size=2),  # snapshots removed, by position
        st.booleans(),  # whether the table is read again from its file
    ),
    min_size=1,
    max_size=8,
)


@given(changes=CHANGES)
def test_file_of_snapshots_in_pieces_has_the_bytes_of_one_that_is_encoded_whole(
    changes: list[tuple[int, set[int], bool]],
) -> None:
    """Beside a dictionary of texts: sizes around the bound from which snapshots stay in pieces."""
    texts: dict[int, bytes] = {}
    table = kit.table()
    number = 0
    for added, removed, reads_again in changes:
        gone = [each for position, each in enumerate(texts) if position in removed]
        new = {}
        for _ in range(added):
            number += 1
            padding = "é" * (number % 4) + "x" * (model.JOINED_BYTES_MIN // 3)
            new[number] = json.dumps(
                {"snapshot-id": number, "sequence-number": number, "x": padding}
            ).encode()
        kept = table.snapshots.without(gone) if gone else table.snapshots
        snapshots = kept.extended(new) if new else kept
        log = table.snapshot_entries.extended(b'{"snapshot-id":%d}' % each for each in new)
        table = msgspec.structs.replace(table, snapshots=snapshots, snapshot_entries=log)
        texts = {each: text for each, text in texts.items() if each not in gone} | new
        whole = b"[" + b",".join(texts.values()) + b"]"
        fresh = msgspec.structs.replace(table, snapshots=model.Snapshots(whole))
        encoded = model.encode_file(table)

        assert encoded.data == model.encode(fresh)
        assert json.loads(encoded.data)["snapshots"] == json.loads(whole)
        if encoded.arrays:
            assert [encoded.data[start - 1 : stop + 1] for start, stop in encoded.arrays] == [
                whole,
                log.text,
            ]
        assert model.encode_file(table) == encoded
        if reads_again:
            table = model.decode(encoded.data)
        assert table.snapshots.text == whole
        assert table.snapshots.size_bytes == len(whole)
        assert {each: table.snapshots.text_of(each) for each in table.snapshots.ids} == texts
        assert [each for part in table.snapshots.parts() for each in json.loads(part)] == [
            json.loads(text) for text in texts.values()
        ]
        some = list(texts)[::2]
        assert table.snapshots.only(some).text == b"[" + b",".join(map(texts.get, some)) + b"]"


def test_snapshots_that_a_commit_extends_are_kept_once_in_its_file() -> None:
    table = kit.with_snapshots(kit.table(), 200)
    number = 201
    table = kit.apply(table, kit.add_snapshot(number, number, parent=200), kit.set_main(number))
    encoded = model.encode_file(table)
    (piece,) = table.snapshots.pieces
    assert isinstance(piece, memoryview)
    assert piece.obj is encoded.data
