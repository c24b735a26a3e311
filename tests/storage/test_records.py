"""Records: their exact bytes, old shapes, and what cannot be read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import errors, lifecycle, records
from storage.model import AccessControlList, Grant, ObjectAttributes, Segment

ATTRIBUTES = ObjectAttributes(
    headers={"content-type": "a/b"},
    user_metadata={"k": "v"},
    checksums={"crc32": "AAAAAA=="},
    checksum_type="COMPOSITE",
    tags={"t": "u"},
    storage_class="GLACIER",
    owner="o",
    etag="e",
    part_sizes_bytes=(5, 6),
    part_checksums=b"12345678",
)
SEGMENT = Segment(blob="0f" * 16, offset=1, length=2, indexed=True)
OBJECT = records.ObjectRecord(
    sequence=3,
    version_id="null",
    size_bytes=2,
    etag="e",
    crc64nvme=2**64 - 1,
    modified_at_ms=4,
    segments=(SEGMENT,),
    attributes=ATTRIBUTES,
    tombstoned_at_ms=5,
    upload_id="ab",
)

# What version 1 wrote, as MessagePack arrays written out by hand: [flags, array].
GOLDEN: dict[str, tuple[msgspec.Struct, int, list[Any]]] = {
    "object": (
        OBJECT,
        1,
        [
            3, "null", 2, "e", 2**64 - 1, 4, [["0f" * 16, 1, 2, True]],
            [{"content-type": "a/b"}, {"k": "v"}, {"crc32": "AAAAAA=="}, "COMPOSITE", {"t": "u"},
             "GLACIER", "o", "e", [5, 6], b"12345678", None],
            5, "ab",
        ],
    ),
    "bucket": (
        records.BucketRecord(
            bucket_id=7, type="table", owner="o", region="r", created_at_ms=8, settings={"a": [1]}
        ),
        0,
        [7, "table", "o", "r", 8, {"a": [1]}],
    ),
    "blob": (records.BlobRecord(references=2, size_bytes=9), 0, [2, 9]),
    "upload": (
        records.UploadRecord(
            initiated_at_ms=1,
            attributes=ObjectAttributes(),
            checksum_algorithm="crc32",
            checksum_type="FULL_OBJECT",
        ),
        0,
        [1, [{}, {}, {}, "FULL_OBJECT", {}, "STANDARD", "", None, [], b"", None], "crc32",
         "FULL_OBJECT"],
    ),
    "part": (
        records.PartRecord(
            etag="e",
            size_bytes=1,
            crc64nvme=2,
            modified_at_ms=3,
            segments=(Segment(blob="0f" * 16, offset=1, length=2),),
            checksums={"sha1": "x"},
        ),
        0,
        ["e", 1, 2, 3, [["0f" * 16, 1, 2, False]], {"sha1": "x"}],
    ),
    "tombstone": (records.TombstoneRecord(at_ms=1, by="me"), 0, [1, "me"]),
    "settings": (records.SettingsRecord(settings={"policy": "{}"}), 0, [{"policy": "{}"}]),
    "released": (records.ReleasedRecord(what="file", name="ab"), 0, ["file", "ab"]),
    "lifecycle": (
        records.LifecycleRecord(
            rules=(
                lifecycle.LifecycleRule(
                    id="r",
                    is_enabled=True,
                    written="and",
                    prefix="p",
                    tags=(("a", "b"),),
                    size_greater_than=1,
                    size_less_than=2,
                    expiration_days=3,
                    expiration_at_ms=None,
                    removes_markers=None,
                    noncurrent_days=4,
                    newer_noncurrent=5,
                    abort_days=6,
                    transitions=(lifecycle.Transition(storage_class="STANDARD_IA", days=7),),
                    noncurrent_transitions=(
                        lifecycle.NoncurrentTransition(storage_class="GLACIER_IR", days=8, newer=9),
                    ),
                ),
            )
        ),
        0,
        [[["r", True, "and", "p", [["a", "b"]], 1, 2, 3, None, None, 4, 5, 6,
           [["STANDARD_IA", 7, None]], [["GLACIER_IR", 8, 9]]]], "all_storage_classes_128K"],
    ),
}  # fmt: skip


def written(flags: int, array: list[Any]) -> bytes:
    return bytes((1, flags)) + msgspec.msgpack.encode(array)


def decoder_of(name: str) -> Any:
    return getattr(records, f"decode_{name}")


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_a_record_has_the_bytes_of_version_1_and_reads_back(name: str) -> None:
    record, flags, array = GOLDEN[name]
    assert records.encode(record) == written(flags, array)
    assert decoder_of(name)(written(flags, array)) == record


def test_an_object_record_without_the_optional_fields_reads() -> None:
    array = GOLDEN["object"][2][:8]
    decoded = records.decode_object(written(0, array))
    assert (decoded.tombstoned_at_ms, decoded.upload_id) == (None, None)


def test_a_lifecycle_rule_without_transitions_reads() -> None:
    rules, _ = GOLDEN["lifecycle"][2]
    record = records.decode_lifecycle(written(0, [[rules[0][:13]]]))
    (rule,) = record.rules
    assert (rule.abort_days, rule.transitions, rule.noncurrent_transitions) == (6, (), ())
    assert record.transition_minimum == "all_storage_classes_128K"


def test_attributes_without_part_checksums_or_an_acl_read() -> None:
    array = list(GOLDEN["object"][2])
    array[7] = array[7][:-1]
    assert records.decode_object(written(1, array)) == OBJECT
    array[7] = array[7][:-1]
    decoded = records.decode_object(written(1, array))
    assert decoded.attributes.part_sizes_bytes == (5, 6)
    assert decoded.attributes.part_checksums == b""


def test_an_access_control_list_has_its_bytes_and_its_flag() -> None:
    grant = Grant(grantee="g", permission="READ")
    acl = AccessControlList(owner="i", account="a", grants=(grant,))
    attributes = msgspec.structs.replace(ATTRIBUTES, acl=acl)
    record = msgspec.structs.replace(OBJECT, attributes=attributes, tombstoned_at_ms=None)
    array = list(GOLDEN["object"][2])
    array[7] = [*array[7][:-1], ["i", "a", [["g", "READ"]]]]
    array[8] = None
    assert records.encode(record) == written(4, array)
    assert records.decode_object(written(4, array)) == record
    assert records.acl_owner(written(4, array)) == "i"
    assert records.acl_owner(written(0, array)) is None


def test_a_bucket_of_objects_with_acls_has_a_flag_beside_the_others() -> None:
    record, _, array = GOLDEN["bucket"]
    assert isinstance(record, records.BucketRecord)
    plain = records.encode_bucket(record, "Enabled", object_lock=True)
    flagged = records.encode_bucket(record, "Enabled", object_lock=True, acls=True)
    assert flagged == written(1 | 4 | 8 | 16, array) == records.with_acls(plain)
    assert [records.has_acls(each) for each in (plain, flagged)] == [False, True]
    assert records.bucket_info("b", flagged).has_acls


@pytest.mark.parametrize(
    ("flags", "bucket_type", "settings", "controls"),
    [
        (0, "general", {}, "BucketOwnerEnforced"),
        (1 | 4, "general", {"tags": {"a": "b"}}, "BucketOwnerEnforced"),
        # Flag 8, controls or a list: written by a release that knows lists.
        (8, "general", {}, None),
        (0, "general", {"acl": []}, None),
        (0, "general", {"ownership_controls": "ObjectWriter"}, "ObjectWriter"),
        (16, "general", {}, None),
        (0, "table", {}, None),
    ],
)
def test_a_bucket_written_before_access_control_lists_existed_takes_none(
    flags: int, bucket_type: str, settings: dict[str, object], controls: str | None
) -> None:
    value = written(flags, [7, bucket_type, "owner", "region", 1, settings])
    assert records.decode_bucket(value).settings.get("ownership_controls") == controls
    info = records.bucket_info("b", value)
    assert info.settings.get("ownership_controls") == controls
    again = records.encode_bucket(records.decode_bucket(value), None, object_lock=False)
    assert records.decode_bucket(again) == records.decode_bucket(value)


def test_a_record_with_fields_of_a_later_release_reads() -> None:
    record, flags, array = GOLDEN["bucket"]
    assert records.decode_bucket(written(flags, [*array, "later"])) == record


@pytest.mark.parametrize("name", sorted(GOLDEN))
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        b"\x02\x00\x90",
        b"\x01\x00\xc1",
        b"\x01\x00\x90",
        pytest.param(b"\x01\x00\x92\xa2\x00\x80", id="text that is not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_a_corrupt_record(name: str, value: bytes) -> None:
    with pytest.raises(errors.CorruptRecord):
        decoder_of(name)(value)


@given(st.binary(max_size=40))
def test_garbage_is_a_corrupt_record_or_a_record(value: bytes) -> None:
    for data in (value, b"\x01\x00" + value):
        for name in GOLDEN:
            try:
                decoder_of(name)(data)
            except errors.CorruptRecord:
                continue


def test_the_tombstone_flag_shows_without_decoding() -> None:
    assert records.is_tombstoned(records.encode(OBJECT))
    shown = records.with_tombstone(OBJECT, None)
    assert not records.is_tombstoned(records.encode(shown))
    assert records.with_tombstone(shown, 5) == OBJECT


def test_a_buckets_id_is_read_without_its_settings() -> None:
    record, flags, array = GOLDEN["bucket"]
    assert isinstance(record, records.BucketRecord)
    assert records.bucket_id(written(flags, array)) == record.bucket_id


def test_an_object_is_what_its_record_says() -> None:
    info = records.object_info("raw", "k", records.encode(OBJECT))
    assert (info.bucket, info.key, info.version_id) == ("raw", "k", "null")
    assert (info.size_bytes, info.etag, info.crc64nvme) == (2, "e", 2**64 - 1)
    assert (info.modified_at_ms, info.tombstoned_at_ms) == (4, 5)
    assert info.attributes == ATTRIBUTES
    assert info.body.segments == (SEGMENT,)


def test_a_listing_reads_of_a_record_what_the_object_says() -> None:
    record = msgspec.structs.replace(OBJECT, tombstoned_at_ms=None)
    for each in (record, msgspec.structs.replace(record, attributes=ObjectAttributes())):
        value = records.encode(each)
        info = records.object_info("b", "k", value)
        listed = records.listed_object(value)
        assert (listed.size_bytes, listed.etag) == (info.size_bytes, info.etag)
        assert listed.modified_at_ms == info.modified_at_ms
        assert listed.storage_class == info.attributes.storage_class
        assert listed.checksum_algorithms == tuple(info.attributes.checksums)
        assert listed.checksum_type == info.attributes.checksum_type


def test_a_listing_reads_a_record_with_much_metadata() -> None:
    attributes = ObjectAttributes(user_metadata={"m": "x" * 2048})
    value = records.encode(msgspec.structs.replace(OBJECT, attributes=attributes))
    assert records.listed_object(value).etag == "e"


@pytest.mark.parametrize(
    "value", [b"", b"\x02\x00\x90", b"\x01\x00\x90", b"\x01\x00\x93\x01\x02\x03"]
)
def test_a_listing_refuses_a_record_that_cannot_be_read(value: bytes) -> None:
    with pytest.raises(errors.CorruptRecord):
        records.listed_object(value)
