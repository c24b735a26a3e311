"""Keys that sort and fit, values that read back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import idents, records
from storage import errors as storage_errors
from tests.kit import lakes

PLACE = lakes.place(bucket_id=7)
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
POINTER = records.Pointer(
    object_type="table",
    object_uuid=UUID,
    table_uuid=None,
    metadata_location=None,
    location="s3://lake/ns/t",
    created_at_ms=1,
    created_by="a",
    modified_at_ms=2,
    modified_by="b",
)


def test_a_row_reads_back_as_it_was_written() -> None:
    assert records.decode(records.encode(POINTER), records.Pointer) == POINTER


@pytest.mark.parametrize(
    "value",
    [b"", b"\x02\x90", b"\x01", b"\x01\x90", b"\x01\xc1garbage", b"\x01\x92\xa5table\xa1\x80"],
)
def test_a_row_that_cannot_be_read_is_named_corrupt(value: bytes) -> None:
    with pytest.raises(storage_errors.CorruptRecord):
        records.decode(value, records.Pointer)


def test_a_row_of_an_older_release_gets_the_defaults_of_what_it_lacks() -> None:
    import msgspec

    short = records.FORMAT + msgspec.msgpack.encode([UUID, "table"])
    row = records.decode(short, records.LocationRow)
    assert (row.object_uuid, row.reserved_until_ms, row.name) == (UUID, 0, "")


def test_a_row_of_a_newer_release_may_say_more() -> None:
    import msgspec

    longer = records.FORMAT + msgspec.msgpack.encode(["table", 3, "t", "something new"])
    assert records.decode(longer, records.Name) == records.Name(
        object_type="table", namespace_id=3, name="t"
    )


def test_every_key_fits_lmdb_whatever_the_names_are() -> None:
    name = "é" * 127 + "x"
    path = "/".join(["x" * 199, "y" * 200])
    namespace = ("x" * 199, "y" * 200)
    assert len(idents.format_namespace(namespace)) == 400
    for key in (
        records.pointer_key(PLACE, "table", 2**32 - 1, name),
        records.namespace_path_key(7, namespace),
        records.location_key(7, path),
        records.uuid_key(PLACE, UUID),
        records.load_key(7, UUID, "s" * 4096, "e" * 4096),
        records.metrics_key(7, UUID, 2**64 - 1),
        records.log_key(7, 2**64 - 1),
        records.commit_key(7, b"x" * 16),
        records.expiry_key(2**63, records.idempotency_key(7, "p" * 900, UUID)),
    ):
        assert len(key) <= 511


@settings(max_examples=100)
@given(st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=8, unique=True))
def test_names_of_a_namespace_list_in_utf8_byte_order(names: list[str]) -> None:
    names = [name for name in names if name.isprintable()]
    keys = sorted(records.pointer_key(PLACE, "table", 5, name) for name in names)
    assert [records.name_of(key) for key in keys] == sorted(names, key=lambda n: n.encode())
    prefix = records.pointer_range(PLACE, "table", 5)
    assert all(prefix <= key < records.stop_after(prefix) for key in keys)
    other = records.pointer_key(PLACE, "table", 6, "a")
    assert not prefix <= other < records.stop_after(prefix)


def test_a_version_token_changes_with_anything_in_the_pointer() -> None:
    import msgspec

    token = records.version_token(POINTER)
    assert token == records.version_token(POINTER)
    assert token != records.version_token(msgspec.structs.replace(POINTER, modified_at_ms=3))
    assert len(token) == 20


def test_an_expiry_key_leads_back_to_its_row() -> None:
    key = records.idempotency_key(7, "root", UUID)
    expiry = records.expiry_key(1_000, key)
    start, stop = records.expired_range(1_000)
    assert start <= expiry < stop
    assert records.expired_row(expiry) == key
    assert not start <= expiry < records.expired_range(999)[1]


@pytest.mark.parametrize("text", ["", "x", UUID[:-1], UUID + "0", UUID.replace("-", "")])
def test_only_a_hyphenated_uuid_is_one(text: str) -> None:
    with pytest.raises(ValueError, match="UUID"):
        records.uuid_bytes(text)
