"""Large metadata decoded in steps: the value that decoding at once gives, no piece too large."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from catalog.metadata import contents, errors, joining, limits, model


def document(**changes: Any) -> dict[str, Any]:
    snapshot = {"sequence-number": 1, "timestamp-ms": 1, "manifest-list": "s3://b/n/t/l.avro"}
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "s3://b/n/t",
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": 1,
        "current-schema-id": 1,
        "schemas": [
            {"type": "struct", "schema-id": 0, "fields": []},
            {
                "type": "struct",
                "schema-id": 1,
                "fields": [{"id": 1, "name": "a, [é{", "required": False, "type": "string"}],
            },
        ],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {'a"b': "\\", "c": "é"},
        "current-snapshot-id": 3,
        "refs": {"main": {"snapshot-id": 3, "type": "branch"}},
        "snapshots": [{**snapshot, "snapshot-id": n} for n in (3, 1, 2)],
        "snapshot-log": [{"timestamp-ms": 1, "snapshot-id": 3}],
        "metadata-log": [],
        "statistics": None,
        "of a later release": [1, {"a": "}"}],
        **changes,
    }


def facts(table: model.TableMetadata) -> Any:
    named = {name: getattr(table, name) for name in table.__struct_fields__}
    del named["snapshots"], named["snapshot_entries"], named["metadata_entries"], named["extra"]
    return (
        named,
        {each: table.snapshot(each) for each in table.snapshot_ids},
        table.snapshot_log,
        table.metadata_log,
        {name: bytes(raw) for name, raw in table.extra.items()},
        [each for part in table.snapshots.parts() for each in json.loads(part)],
        json.loads(model.encode(table)),
    )


def spaced(value: Any) -> bytes:
    return b"\n " + json.dumps(value, indent=3, ensure_ascii=False).encode() + b" \n"


@pytest.mark.parametrize("is_foreign", [False, True])
@pytest.mark.parametrize("write", [msgspec.json.encode, spaced])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"snapshots": [], "refs": {}, "current-snapshot-id": None, "snapshot-log": []},
        {"snapshots": None, "refs": None, "current-snapshot-id": -1, "snapshot-log": None},
        {"statistics": [{"snapshot-id": 1, "statistics-path": "s3://b/n/t/metadata/a.stats"}]},
        {
            "format-version": 1,
            "schemas": None,
            "schema": {"type": "struct", "fields": []},
            "partition-specs": None,
            "partition-spec": [],
            "sort-orders": None,
        },
    ],
)
def test_metadata_assembled_from_its_parts_is_what_decoding_it_at_once_gives(
    changes: dict[str, Any], write: Any, is_foreign: bool
) -> None:
    data = write(document(**changes))
    assembled = contents.assemble(data, contents.examine(data, is_foreign=is_foreign))
    assert facts(assembled) == facts(model.decode(data))


def test_snapshots_assembled_with_blanks_between_them_can_be_added_to_and_removed() -> None:
    data = spaced(document())
    snapshots = contents.assemble(data, contents.examine(data, is_foreign=False)).snapshots
    added = snapshots.extended({9: b'{"snapshot-id":9}'})
    assert [each["snapshot-id"] for each in json.loads(added.text)] == [3, 1, 2, 9]
    assert added.get(9) == {"snapshot-id": 9}
    kept = added.without([1])
    assert [each["snapshot-id"] for each in json.loads(kept.text)] == [3, 2, 9]
    assert kept.get(2) == snapshots.get(2)


def test_snapshots_that_are_many_are_decoded_some_hundred_at_once() -> None:
    count = 2 * model.SNAPSHOTS_AT_ONCE + 1
    text = b"[" + b",".join(b'{"snapshot-id":%d}' % number for number in range(count)) + b"]"
    sizes = [len(json.loads(part)) for part in model.Snapshots(text).parts()]
    assert sizes == [model.SNAPSHOTS_AT_ONCE, model.SNAPSHOTS_AT_ONCE, 1]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"format-version":2',
        msgspec.json.encode(document(snapshots=[{"snapshot-id": 1}, {"snapshot-id": 1}])),
        msgspec.json.encode(document(snapshots=[{"snapshot-id": 2**63}])),
        msgspec.json.encode(document(snapshots={})),
        msgspec.json.encode(document(schemas=[3])),
        msgspec.json.encode(document(**{"current-schema-id": 7})),
        b'{"location":"s3://b/n/u",' + msgspec.json.encode(document())[1:],
        msgspec.json.encode(document())[:-1] + b',"location":"s3://b/n/t"}',
    ],
)
def test_metadata_that_cannot_be_taken_apart_is_refused(text: bytes) -> None:
    with pytest.raises(errors.InvalidMetadata):
        contents.examine(text, is_foreign=False)


def test_a_clients_metadata_is_checked_whole_and_the_servers_own_is_not() -> None:
    data = msgspec.json.encode(document(**{"current-snapshot-id": 1}))
    contents.examine(data, is_foreign=False)
    with pytest.raises(errors.InvalidMetadata, match="does not match main branch"):
        contents.examine(data, is_foreign=True)


LISTS = b"[" + b"[]," * limits.PIECE_VALUES_MAX + b"[]]"


@pytest.mark.parametrize("name", ["schemas", "snapshots", "properties", "refs", "statistics"])
def test_metadata_of_which_one_part_holds_very_many_values_is_refused(name: str) -> None:
    data = msgspec.json.encode(document())
    part = b'{"schema-id":1,"snapshot-id":3,"x":' + LISTS + b"}"
    whole = part if name in ("properties", "refs") else b"[" + part + b"]"
    data = msgspec.json.encode(document(**{name: msgspec.Raw(whole)}))
    with pytest.raises(errors.InvalidMetadata, match=f"A part of {name} holds more than"):
        contents.examine(data, is_foreign=False)


def test_marks_within_texts_do_not_count_as_values() -> None:
    text = "," * (2 * limits.PIECE_VALUES_MAX + 10)
    data = msgspec.json.encode(document(properties={"a": text}))
    assembled = contents.assemble(data, contents.examine(data, is_foreign=True))
    assert assembled.properties == {"a": text}


def test_metadata_with_very_many_values_in_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = msgspec.json.encode(document())
    monkeypatch.setattr(limits, "HEAD_VALUES_MAX", 100)
    contents.examine(data, is_foreign=True)
    monkeypatch.setattr(limits, "HEAD_VALUES_MAX", 10)
    with pytest.raises(errors.InvalidMetadata, match="more than 10 values beside"):
        contents.examine(data, is_foreign=True)


def test_metadata_with_very_many_snapshots_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SNAPSHOTS_MAX", 2)
    with pytest.raises(errors.InvalidMetadata, match="more than 2 snapshots"):
        contents.examine(msgspec.json.encode(document()), is_foreign=False)


def test_large_metadata_is_encoded_to_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = model.decode(msgspec.json.encode(document()))
    small = model.encode(table)
    monkeypatch.setattr(model, "JOINED_BYTES_MIN", 0)
    assert model.encode(table) == small
    monkeypatch.setattr(joining, "STEP_BYTES", 10)
    assert model.encode(table) == small
