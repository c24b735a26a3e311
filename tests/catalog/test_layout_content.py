"""The strict half of the layout rules: bodies against their names."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import content, layout
from server.s3 import guard

TABLE = content.MetadataOwner(object_type="table", uuid="u-1", location="s3://lake/sales/orders")
VIEW = content.MetadataOwner(object_type="view", uuid="v-1", location="s3://lake/sales/orders")
METADATA = {"format-version": 2, "table-uuid": "u-1", "location": "s3://lake/sales/orders"}


def check(name: str, body: bytes, *, owner: content.MetadataOwner | None = TABLE) -> None:
    directory = "data" if name.endswith((".parquet", ".orc")) else "metadata"
    key = f"sales/orders/{directory}/{name}"
    content.check_content(
        key,
        role=layout.judge(key, location=None).role,
        size_bytes=len(body),
        head=body[: content.EDGE_BYTES],
        tail=body[-content.EDGE_BYTES :],
        whole=body if len(body) <= content.whole_bytes_max(key) else None,
        owner=owner,
    )


def refused(name: str, body: bytes, *, owner: content.MetadataOwner | None = TABLE) -> str:
    with pytest.raises(guard.LayoutRefused) as caught:
        check(name, body, owner=owner)
    assert caught.value.segment == name
    assert caught.value.position == 3
    return caught.value.rule


def parquet() -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"a": [1]}), sink)
    return sink.getvalue()


def orc() -> bytes:
    sink = io.BytesIO()
    pyarrow.orc.write_table(pa.table({"a": [1]}), sink)
    return sink.getvalue()


def avro() -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "r", "fields": []}, [{}])
    return sink.getvalue()


def metadata(**changes: Any) -> bytes:
    said = {**METADATA, **changes}
    return json.dumps({name: value for name, value in said.items() if value is not None}).encode()


WRITERS = {
    "f.parquet": parquet(),
    "f.orc": orc(),
    "f.avro": avro(),
    "f.puffin": b"PFA1" + b"\0" * 8 + b"PFA1",
    "f.stats": b"PFA1PFA1",
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_real_writers_write_fits_its_name_and_no_other(name: str) -> None:
    check(name, WRITERS[name])
    for other, body in WRITERS.items():
        same = {name, other} == {"f.puffin", "f.stats"}
        if other != name and not same:
            assert refused(name, body) == "content-magic"


@pytest.mark.parametrize("name", WRITERS)
def test_a_body_cut_at_either_end_does_not_fit(name: str) -> None:
    body = WRITERS[name]
    assert refused(name, body[1:]) == "content-magic"
    assert refused(name, b"") == "content-magic"
    if name != "f.avro":
        assert refused(name, body[:-1]) == "content-magic"


def test_encrypted_files_fit() -> None:
    check("f.parquet", b"PARE" + b"x" * 8 + b"PARE")
    for name in ("f.avro", "f.puffin", "f.stats", "v1.metadata.json"):
        check(name, b"AGS1" + b"\x00\xff" * 8)
    assert refused("f.parquet", b"AGS1" + b"x" * 8) == "content-magic"
    assert refused("f.parquet", b"PAR1" + b"x" * 8 + b"PARE") == "content-magic"
    assert refused("f.parquet", b"PAR1PAR1") == "content-magic"


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("v1.metadata.json", bytes),
        ("v1.gz.metadata.json", gzip.compress),
        ("v1.metadata.json.gz", gzip.compress),
    ],
)
def test_metadata_of_the_tables_own_place_fits_however_it_is_packed(name: str, pack: Any) -> None:
    check(name, pack(metadata()))
    check(name, pack(metadata(location="s3a://lake/sales/orders/")))
    check(name, pack(metadata(**{"format-version": 1, "table-uuid": None})))
    check(name, pack(metadata(location="s3://else/where")), owner=None)
    for wrong in (
        metadata(location="s3://lake/sales/orders2"),
        metadata(location=None),
        metadata(location=5),
        metadata(**{"table-uuid": "u-2"}),
        metadata(**{"table-uuid": None}),
        metadata(**{"format-version": 5}),
        metadata(**{"format-version": True}),
        metadata(**{"format-version": None}),
        b"[]",
        b"{",
        b"",
    ):
        assert refused(name, pack(wrong)) == "content-metadata"


def test_metadata_of_a_view_has_its_own_uuid() -> None:
    said = {"format-version": 1, "view-uuid": "v-1", "location": VIEW.location}
    check("v1.metadata.json", json.dumps(said).encode(), owner=VIEW)
    assert refused("v1.metadata.json", metadata(), owner=VIEW) == "content-metadata"


def test_packed_metadata_is_packed_as_its_name_says() -> None:
    for name in ("v1.gz.metadata.json", "v1.metadata.json.gz"):
        assert refused(name, metadata()) == "content-magic"
        assert refused(name, gzip.compress(metadata())[:-4]) == "content-magic"
        assert refused(name, b"\x1f\x8b" + b"x" * 40) == "content-magic"
    check("v1.zstd.metadata.json", b"\x28\xb5\x2f\xfd" + b"x")
    assert refused("v1.zstd.metadata.json", metadata()) == "content-magic"


def test_metadata_that_unpacks_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "METADATA_BYTES_MAX", 1000)
    packed = gzip.compress(metadata(properties={"x": "y" * 2000}))
    assert refused("v1.gz.metadata.json", packed) == "content-magic"


def test_metadata_beyond_its_bound_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "METADATA_BYTES_MAX", 1000)
    large = metadata(properties={"x": "y" * 2000})
    for name in ("v1.metadata.json", "v1.gz.metadata.json"):
        assert refused(name, large) == "content-magic"
    check("v1.metadata.json", metadata())


def test_metadata_nested_without_end_is_refused() -> None:
    deep = b'{"format-version": 2, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert refused("v1.metadata.json", deep) == "content-metadata"


def test_a_version_hint_is_a_short_text() -> None:
    check("version-hint.text", b"12\n")
    for wrong in (b"x" * 65, b"\xff", b"a\x00b"):
        assert refused("version-hint.text", wrong) == "content-magic"


def test_spill_files_hold_anything_and_markers_nothing() -> None:
    key = "sales/orders/data/trino-tmp-files/sorting-file-writer-1"
    content.check_content(key, role="scratch", size_bytes=3, head=b"xyz", tail=b"xyz")
    marker = "sales/orders/data/"
    content.check_content(marker, role="marker", size_bytes=0, head=b"", tail=b"")
    with pytest.raises(guard.LayoutRefused) as caught:
        content.check_content(marker, role="marker", size_bytes=1, head=b"x", tail=b"x")
    assert caught.value.rule == "marker-body"


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([*WRITERS, "v1.metadata.json", "v1.gz.metadata.json", "version-hint.text"]),
    st.binary(max_size=40)
    | st.sampled_from([b"PAR1", b"\x1f\x8b", b"{}", b"AGS1", b"ORC", b"null", b'{"location":1}']),
)
def test_garbage_fits_or_is_refused_by_a_content_rule(name: str, body: bytes) -> None:
    try:
        check(name, body)
    except guard.LayoutRefused as refusal:
        rule = refusal.rule
    else:
        rule = None
    assert rule in (None, "content-magic", "content-metadata")


@pytest.mark.parametrize("name", ["format-version", "table-uuid", "location"])
def test_a_metadata_file_with_a_fact_of_many_bytes_is_refused_without_decoding_it(
    name: str,
) -> None:
    lists = b"[" + b"[]," * content.FACT_BYTES_MAX + b"[]]"
    whole = b'{"format-version":2,"%b":%b}' % (name.encode(), lists)
    assert refused("v1.metadata.json", whole) == "content-metadata"
