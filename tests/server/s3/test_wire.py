"""Answers as headers and XML."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server import asgi
from server.s3 import engines, wire
from storage import model, records


def info(key: str = "k", **attributes: object) -> model.ObjectInfo:
    return model.ObjectInfo(
        bucket="b",
        key=key,
        version_id="null",
        size_bytes=3,
        etag="abc",
        crc64nvme=1,
        modified_at_ms=1_700_000_000_120,
        attributes=model.ObjectAttributes(**attributes),  # type: ignore[arg-type]
        body=model.SegmentBody(segments=()),
    )


def record(**attributes: object) -> bytes:
    return records.encode(
        records.ObjectRecord(
            sequence=1,
            version_id="null",
            size_bytes=3,
            etag="abc",
            crc64nvme=1,
            modified_at_ms=1_700_000_000_120,
            segments=(),
            attributes=model.ObjectAttributes(**attributes),  # type: ignore[arg-type]
        )
    )


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_007, "2023-11-14T22:13:20.000Z"),
        (951_782_400_999, "2000-02-29T00:00:00.000Z"),
    ],
)
def test_timestamps_are_iso_8601_of_whole_seconds(at_ms: int, expected: str) -> None:
    assert wire.format_timestamp(at_ms) == expected


def test_dates_in_headers_are_whole_seconds_gmt() -> None:
    assert wire.format_date(1_700_000_000_999) == "Tue, 14 Nov 2023 22:13:20 GMT"


@settings(max_examples=60)
@given(st.text(st.characters(blacklist_categories=["Cs"], min_codepoint=32), min_size=1))
def test_any_key_survives_a_listing_in_both_encodings(key: str) -> None:
    if any(ord(c) in (0xFFFE, 0xFFFF) for c in key):
        return  # XML 1.0 has no form for these two; AWS asks for encoding-type=url
    page = model.ListedPage(
        objects=((key.encode(), record()),), common_prefixes=(), next_after=None
    )
    owner = wire.Owner(canonical_id="1", display_name="x")
    for encode in (False, True):
        body = wire.list_objects(
            page, bucket="b", prefix="", delimiter="", marker="", max_keys=1, encode=encode,
            owner=owner,
        )  # fmt: skip
        element = ET.fromstring(body).find(f"{{{wire.NAMESPACE}}}Contents/{{{wire.NAMESPACE}}}Key")
        assert element is not None
        shown = element.text or ""
        assert (wire.urllib.parse.unquote(shown) if encode else shown) == key


def test_a_listing_shows_each_object_in_aws_order_with_its_owner_if_asked() -> None:
    # The order of the elements is AWS's, from the ListObjectsV2 page of its API reference.
    plain = record()
    stated = record(
        checksums={"crc32": "AAAAAA=="}, checksum_type="COMPOSITE", storage_class="GLACIER_IR"
    )
    long = record(user_metadata={"m": "x" * 2048})
    page = model.ListedPage(
        objects=((b"a", plain), (b"b&c", stated), (b"d", long)), common_prefixes=(), next_after=None
    )
    shown = "<LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>&quot;abc&quot;</ETag>"
    computed = (
        "<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
        "<Size>3</Size>"
    )
    sent = (
        "<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>COMPOSITE</ChecksumType>"
        "<Size>3</Size>"
    )
    named = "<Owner><ID>1</ID><DisplayName>x</DisplayName></Owner>"
    for owner, element in ((None, ""), (wire.Owner(canonical_id="1", display_name="x"), named)):
        body = wire.list_objects_v2(
            page, bucket="b", prefix="", delimiter="", start_after=None, continuation_token=None,
            next_token=None, max_keys=3, encode=False, owner=owner,
        ).decode()  # fmt: skip
        standard = f"{element}<StorageClass>STANDARD</StorageClass></Contents>"
        assert body.endswith(
            "<IsTruncated>false</IsTruncated>"
            f"<Contents><Key>a</Key>{shown}{computed}{standard}"
            f"<Contents><Key>b&amp;c</Key>{shown}{sent}{element}"
            "<StorageClass>GLACIER_IR</StorageClass></Contents>"
            f"<Contents><Key>d</Key>{shown}{computed}{standard}</ListBucketResult>"
        )


def test_object_headers_hold_what_was_stored_and_no_checksum_unasked() -> None:
    headers = wire.object_headers(
        info(
            headers={"content-type": "a/b", "cache-control": "no"},
            user_metadata={"m": "1"},
            tags={"t": "1", "u": "2"},
            storage_class="STANDARD_IA",
            checksums={"crc32": "AAAAAA=="},
        )
    )
    assert dict(headers) == {
        "last-modified": "Tue, 14 Nov 2023 22:13:20 GMT",
        "etag": '"abc"',
        "accept-ranges": "bytes",
        "content-type": "a/b",
        "cache-control": "no",
        "x-amz-meta-m": "1",
        "x-amz-storage-class": "STANDARD_IA",
    }
    assert len(headers) == len(dict(headers))


def test_remembered_lines_are_those_of_the_same_object_alone() -> None:
    lines = engines.ObjectLines()
    first, second = info(headers={"content-type": "a/b"}), info(headers={"content-type": "c/d"})
    for _ in range(2):
        assert lines.of(first) == asgi.encode_headers(wire.object_headers(first))
        assert lines.of(second) == asgi.encode_headers(wire.object_headers(second))
    assert b"content-type: a/b\r\n" in lines.of(first)


def test_no_more_lines_are_remembered_than_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "LINES_REMEMBERED_MAX", 3)
    lines = engines.ObjectLines()
    objects = [info(headers={"content-type": f"a/{number}"}) for number in range(10)]
    for number, each in enumerate([*objects, *objects]):
        assert b"content-type: a/%d\r\n" % (number % 10) in lines.of(each)


def test_objects_of_many_parts_are_not_kept_with_their_lines() -> None:
    lines = engines.ObjectLines()
    segment = model.Segment(blob="0" * 32, offset=0, length=1)
    copied = msgspec.structs.replace(info(), body=model.SegmentBody(segments=(segment,) * 10_000))
    for large in (copied, info(part_sizes_bytes=(1,) * 10_000)):
        references = sys.getrefcount(large)
        assert lines.of(large) == asgi.encode_headers(wire.object_headers(large))
        assert sys.getrefcount(large) == references


def test_an_object_without_a_checksum_of_its_own_shows_its_crc64nvme() -> None:
    assert wire.checksum_headers(info()) == (
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAE="),
        ("x-amz-checksum-type", "FULL_OBJECT"),
    )


def test_the_location_is_empty_in_us_east_1_alone() -> None:
    assert wire.bucket_location("us-east-1").endswith(b"></LocationConstraint>")
    assert wire.bucket_location("eu-west-1").endswith(b">eu-west-1</LocationConstraint>")
