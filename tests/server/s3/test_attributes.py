"""GetObjectAttributes over the wire, by boto3. Expected digests are computed here."""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Any

import pytest

from tests.kit import s3 as kit
from tests.server.s3 import test_uploads

ALL = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
FIRST, SECOND, LAST = (
    bytes([number]) * size for number, size in ((1, 5 << 20), (2, 5 << 20), (3, 9))
)


def attributes(s3: Any, bucket: str, key: str = "k", **options: Any) -> Any:
    options.setdefault("ObjectAttributes", ALL)
    answer = s3.get_object_attributes(Bucket=bucket, Key=key, **options)
    answer.pop("ResponseMetadata")
    return answer


def crc32(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def sha256(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()


def upload(s3: Any, bucket: str, **options: Any) -> None:
    identity = test_uploads.begin(s3, bucket, **options)
    algorithm = options["ChecksumAlgorithm"]
    parts = test_uploads.put_parts(
        s3, bucket, identity, FIRST, SECOND, LAST, ChecksumAlgorithm=algorithm
    )
    test_uploads.complete(s3, bucket, identity, parts)


def test_an_object_stored_whole_has_everything_but_parts(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"hello", StorageClass="STANDARD_IA")
    answer = attributes(s3, bucket)
    assert answer.pop("LastModified") == s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    assert answer == {
        "ETag": hashlib.md5(b"hello").hexdigest(),
        "Checksum": {"ChecksumCRC32": crc32(b"hello"), "ChecksumType": "FULL_OBJECT"},
        "StorageClass": "STANDARD_IA",
        "ObjectSize": 5,
    }


def test_only_the_named_attributes_are_returned(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"hello")
    answer = attributes(s3, bucket, ObjectAttributes=["ObjectSize"])
    assert set(answer) == {"LastModified", "ObjectSize"}


def test_the_parts_of_a_composite_checksum_are_listed_in_pages(s3: Any, bucket: str) -> None:
    upload(s3, bucket, ChecksumAlgorithm="SHA256")
    first = attributes(s3, bucket, MaxParts=2)
    digests = b"".join(hashlib.sha256(body).digest() for body in (FIRST, SECOND, LAST))
    assert first["Checksum"] == {
        "ChecksumSHA256": sha256(digests) + "-3",
        "ChecksumType": "COMPOSITE",
    }
    assert first["ObjectParts"] == {
        "TotalPartsCount": 3,
        "PartNumberMarker": 0,
        "NextPartNumberMarker": 2,
        "MaxParts": 2,
        "IsTruncated": True,
        "Parts": [
            {"PartNumber": 1, "Size": len(FIRST), "ChecksumSHA256": sha256(FIRST)},
            {"PartNumber": 2, "Size": len(SECOND), "ChecksumSHA256": sha256(SECOND)},
        ],
    }
    rest = attributes(s3, bucket, MaxParts=2, PartNumberMarker=2)["ObjectParts"]
    assert (rest["IsTruncated"], rest["PartNumberMarker"]) == (False, 2)
    assert rest["Parts"] == [{"PartNumber": 3, "Size": len(LAST), "ChecksumSHA256": sha256(LAST)}]
    beyond = attributes(s3, bucket, PartNumberMarker=9)["ObjectParts"]
    assert (beyond["IsTruncated"], beyond.get("Parts")) == (False, None)


def test_a_copy_keeps_the_checksums_of_its_parts(s3: Any, bucket: str) -> None:
    upload(s3, bucket, ChecksumAlgorithm="SHA256")
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"})
    kept, copied = attributes(s3, bucket), attributes(s3, bucket, "copy")
    assert copied["ObjectParts"] == kept["ObjectParts"]
    s3.copy_object(
        Bucket=bucket,
        Key="other",
        CopySource={"Bucket": bucket, "Key": "k"},
        ChecksumAlgorithm="CRC32",
    )
    other = attributes(s3, bucket, "other")
    assert other["Checksum"] == {
        "ChecksumCRC32": crc32(FIRST + SECOND + LAST),
        "ChecksumType": "FULL_OBJECT",
    }
    assert other["ObjectParts"]["Parts"] == [
        {"PartNumber": number, "Size": len(body)}
        for number, body in enumerate((FIRST, SECOND, LAST), start=1)
    ]


def test_parts_below_a_checksum_of_the_whole_are_listed_with_theirs(s3: Any, bucket: str) -> None:
    upload(s3, bucket, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    answer = attributes(s3, bucket)
    assert answer["Checksum"]["ChecksumCRC32"] == crc32(FIRST + SECOND + LAST)
    parts = [
        {"PartNumber": number, "Size": len(body), "ChecksumCRC32": crc32(body)}
        for number, body in enumerate((FIRST, SECOND, LAST), start=1)
    ]
    assert answer["ObjectParts"]["Parts"] == parts
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"})
    assert attributes(s3, bucket, "copy")["ObjectParts"]["Parts"] == parts


@pytest.mark.parametrize("checksum_type", ["FULL_OBJECT", "COMPOSITE"])
def test_a_read_of_one_part_shows_the_checksum_of_that_part(
    s3: Any, bucket: str, checksum_type: str
) -> None:
    upload(s3, bucket, ChecksumAlgorithm="CRC32", ChecksumType=checksum_type)
    for number, body in enumerate((FIRST, SECOND, LAST), start=1):
        for read in (s3.get_object, s3.head_object):
            answer = read(Bucket=bucket, Key="k", PartNumber=number, ChecksumMode="ENABLED")
            assert answer["ChecksumCRC32"] == crc32(body)
            assert answer["ChecksumType"] == checksum_type
    ranged = s3.get_object(Bucket=bucket, Key="k", Range="bytes=0-9", ChecksumMode="ENABLED")
    assert "ChecksumType" not in ranged


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "InvalidRequest"),
        ({"x-amz-object-attributes": " , "}, "InvalidRequest"),
        ({"x-amz-object-attributes": "ETag,Colour"}, "InvalidArgument"),
        ({"x-amz-object-attributes": "ETag", "x-amz-max-parts": "-1"}, "InvalidArgument"),
        ({"x-amz-object-attributes": "ETag", "x-amz-part-number-marker": "x"}, "InvalidArgument"),
    ],
)
def test_get_object_attributes_refuses_invalid_headers(
    store: kit.ObjectStore, bucket: str, headers: dict[str, str], code: str
) -> None:
    kit.call(store, "PUT", f"/{bucket}/k", body=b"hello")
    answer = kit.call(store, "GET", f"/{bucket}/k?attributes", headers)
    assert (answer.status, answer.code) == (400, code)


def test_an_absent_object_has_no_attributes(store: kit.ObjectStore, bucket: str) -> None:
    answer = kit.call(
        store, "GET", f"/{bucket}/none?attributes", {"x-amz-object-attributes": "ETag"}
    )
    assert (answer.status, answer.code) == (404, "NoSuchKey")
