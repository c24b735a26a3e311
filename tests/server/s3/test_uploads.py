"""Multipart uploads over the wire."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import contextlib
import hashlib
import http.client
import io
import socket
import zlib
from typing import Any

import boto3.s3.transfer
import botocore.exceptions
import pytest
from awscrt import checksums as crt

from server.s3 import objects, uploads
from tests.kit import s3 as kit
from tests.kit import waits

MIB = 1 << 20
FIRST = hashlib.shake_256(b"first").digest(5 * MIB)
LAST = hashlib.shake_256(b"last").digest(1000)


def text(number: int, size: int = 4) -> str:
    return base64.b64encode(number.to_bytes(size, "big")).decode()


def begin(s3: Any, bucket: str, key: str = "k", **options: Any) -> str:
    return s3.create_multipart_upload(Bucket=bucket, Key=key, **options)["UploadId"]


def put_parts(s3: Any, bucket: str, upload: str, *bodies: bytes, **options: Any) -> list[Any]:
    parts = []
    for number, body in enumerate(bodies, 1):
        part = s3.upload_part(
            Bucket=bucket, Key="k", UploadId=upload, PartNumber=number, Body=body, **options
        )
        checksums = {name: value for name, value in part.items() if name.startswith("Checksum")}
        parts.append({"PartNumber": number, "ETag": part["ETag"], **checksums})
    return parts


def complete(s3: Any, bucket: str, upload: str, parts: list[Any], **options: Any) -> Any:
    return s3.complete_multipart_upload(
        Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts}, **options
    )


def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(botocore.exceptions.ClientError) as raised:
        call()
    answer = raised.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def test_an_upload_in_parts_becomes_one_object(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    upload = begin(s3, bucket, Metadata={"m": "1"}, ContentType="x/y", Tagging="t=1")
    parts = put_parts(s3, bucket, upload, FIRST, LAST)
    done = complete(s3, bucket, upload, parts)
    digests = hashlib.md5(FIRST).digest() + hashlib.md5(LAST).digest()
    etag = f'"{hashlib.md5(digests).hexdigest()}-2"'
    assert (done["ETag"], done["Bucket"], done["Key"]) == (etag, bucket, "k")
    answer = s3.get_object(Bucket=bucket, Key="k")
    assert answer["Body"].read() == FIRST + LAST
    assert (answer["ETag"], answer["Metadata"], answer["ContentType"]) == (etag, {"m": "1"}, "x/y")
    assert answer["TagCount"] == 1
    assert s3.list_multipart_uploads(Bucket=bucket).get("Uploads") is None


def test_the_answer_to_complete_has_the_root_element_clients_look_for(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    upload = begin(s3, bucket)
    (part,) = put_parts(s3, bucket, upload, LAST)
    # Without a namespace, as some clients write it, and with quotes as character references.
    body = (
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
        f"<ETag>&#34;{part['ETag'].strip(chr(34))}&#34;</ETag></Part></CompleteMultipartUpload>"
    ).encode()
    answer = kit.call(store, "POST", f"/{bucket}/k?uploadId={upload}", body=body)
    assert answer.status == 200
    assert b"<CompleteMultipartUploadResult xmlns=" in answer.body


def test_a_part_of_the_object_is_read_by_its_number(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket)
    complete(s3, bucket, upload, put_parts(s3, bucket, upload, FIRST, LAST))
    answer = s3.get_object(Bucket=bucket, Key="k", PartNumber=2)
    assert answer["Body"].read() == LAST
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert answer["PartsCount"] == 2
    assert answer["ContentRange"] == f"bytes {5 * MIB}-{5 * MIB + 999}/{5 * MIB + 1000}"
    head = s3.head_object(Bucket=bucket, Key="k", PartNumber=1)
    assert (head["ContentLength"], head["PartsCount"]) == (5 * MIB, 2)
    assert refusal(lambda: s3.get_object(Bucket=bucket, Key="k", PartNumber=3))[0] == 416


def test_an_empty_part_is_not_the_whole_object(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket)
    complete(s3, bucket, upload, put_parts(s3, bucket, upload, FIRST, b""))
    assert s3.get_object(Bucket=bucket, Key="k", PartNumber=1)["ContentLength"] == len(FIRST)
    for read in (s3.get_object, s3.head_object):
        assert refusal(lambda r=read: r(Bucket=bucket, Key="k", PartNumber=2))[0] == 416


@pytest.mark.parametrize(
    ("algorithm", "checksum_type", "expected"),
    [
        ("CRC32", "FULL_OBJECT", text(zlib.crc32(FIRST + LAST))),
        ("CRC32C", "FULL_OBJECT", text(crt.crc32c(FIRST + LAST))),
        ("CRC64NVME", "FULL_OBJECT", text(crt.crc64nvme(FIRST + LAST), 8)),
        (
            "CRC32",
            "COMPOSITE",
            text(zlib.crc32(b"".join(zlib.crc32(b).to_bytes(4, "big") for b in (FIRST, LAST))))
            + "-2",
        ),
        (
            "SHA256",
            "COMPOSITE",
            base64.b64encode(
                hashlib.sha256(
                    hashlib.sha256(FIRST).digest() + hashlib.sha256(LAST).digest()
                ).digest()
            ).decode()
            + "-2",
        ),
        (
            "SHA512",
            "COMPOSITE",
            base64.b64encode(
                hashlib.sha512(
                    hashlib.sha512(FIRST).digest() + hashlib.sha512(LAST).digest()
                ).digest()
            ).decode()
            + "-2",
        ),
        *[
            (
                f"XXHASH{name}",
                "COMPOSITE",
                base64.b64encode(compute(compute(FIRST) + compute(LAST))).decode() + "-2",
            )
            for name, compute in (
                ("64", crt.XXHash.compute_xxhash64),
                ("3", crt.XXHash.compute_xxhash3_64),
                ("128", crt.XXHash.compute_xxhash3_128),
            )
        ],
    ],
)
def test_the_checksum_of_the_whole_comes_from_its_parts(
    s3: Any, bucket: str, algorithm: str, checksum_type: str, expected: str
) -> None:
    upload = begin(s3, bucket, ChecksumAlgorithm=algorithm, ChecksumType=checksum_type)
    parts = put_parts(s3, bucket, upload, FIRST, LAST, ChecksumAlgorithm=algorithm)
    done = complete(s3, bucket, upload, parts)
    assert (done[f"Checksum{algorithm}"], done["ChecksumType"]) == (expected, checksum_type)
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (head[f"Checksum{algorithm}"], head["ChecksumType"]) == (expected, checksum_type)


def test_an_upload_without_an_algorithm_gets_the_crc64nvme_of_the_whole(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    upload = kit.call(store, "POST", f"/{bucket}/k?uploads").element("UploadId")
    put = kit.call(store, "PUT", f"/{bucket}/k?partNumber=1&uploadId={upload}", body=LAST)
    complete(s3, bucket, upload, [{"PartNumber": 1, "ETag": put.headers["etag"]}])
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumCRC64NVME"] == text(crt.crc64nvme(LAST), 8)
    assert head["ChecksumType"] == "FULL_OBJECT"


def test_what_the_client_says_of_the_whole_is_compared_before_it_becomes_visible(
    s3: Any, bucket: str
) -> None:
    upload = begin(s3, bucket, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    parts = put_parts(s3, bucket, upload, FIRST, LAST, ChecksumAlgorithm="CRC32")
    right, wrong = text(zlib.crc32(FIRST + LAST)), text(1)
    for options, code in (
        ({"ChecksumCRC32": wrong}, "BadDigest"),
        ({"ChecksumXXHASH64": text(1, 8)}, "BadDigest"),
        ({"MpuObjectSize": 7}, "InvalidRequest"),
        ({"ChecksumType": "COMPOSITE"}, "InvalidRequest"),
    ):
        answer = refusal(lambda o=options: complete(s3, bucket, upload, parts, **o))
        assert answer == (400, code)
        assert refusal(lambda: s3.head_object(Bucket=bucket, Key="k"))[0] == 404
    size = len(FIRST) + len(LAST)
    complete(s3, bucket, upload, parts, ChecksumCRC32=right, MpuObjectSize=size)


def test_a_composite_checksum_of_the_whole_may_lack_the_number_of_parts(
    s3: Any, bucket: str
) -> None:
    upload = begin(s3, bucket, ChecksumAlgorithm="CRC32C")
    parts = put_parts(s3, bucket, upload, FIRST, LAST, ChecksumAlgorithm="CRC32C")
    digests = b"".join(crt.crc32c(body).to_bytes(4, "big") for body in (FIRST, LAST))
    right = text(crt.crc32c(digests))
    for wrong in (text(1), f"{text(1)}-2", f"{right}-1", f"{right}-3"):
        answer = refusal(
            lambda checksum=wrong: complete(s3, bucket, upload, parts, ChecksumCRC32C=checksum)
        )
        assert answer == (400, "BadDigest")
        assert refusal(lambda: s3.head_object(Bucket=bucket, Key="k"))[0] == 404
    done = complete(s3, bucket, upload, parts, ChecksumCRC32C=right, ChecksumType="COMPOSITE")
    assert done["ChecksumCRC32C"] == f"{right}-2"


def test_a_part_with_another_algorithm_than_the_upload_is_refused(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, ChecksumAlgorithm="SHA256")
    answer = refusal(lambda: put_parts(s3, bucket, upload, LAST, ChecksumAlgorithm="CRC32"))
    assert answer == (400, "InvalidRequest")


def test_a_part_whose_checksum_is_named_wrongly_at_completion_is_invalid(
    s3: Any, bucket: str
) -> None:
    upload = begin(s3, bucket, ChecksumAlgorithm="CRC32")
    (part,) = put_parts(s3, bucket, upload, LAST, ChecksumAlgorithm="CRC32")
    wrong = {**part, "ChecksumCRC32": text(1)}
    assert refusal(lambda: complete(s3, bucket, upload, [wrong])) == (400, "InvalidPart")


@pytest.mark.parametrize("checksum_type", ["COMPOSITE", "FULL_OBJECT"])
def test_parts_may_be_named_without_their_checksums(
    s3: Any, bucket: str, checksum_type: str
) -> None:
    upload = begin(s3, bucket, ChecksumAlgorithm="CRC32", ChecksumType=checksum_type)
    (part,) = put_parts(s3, bucket, upload, LAST, ChecksumAlgorithm="CRC32")
    named = [{"PartNumber": 1, "ETag": part["ETag"]}]
    crc = zlib.crc32(LAST)
    expected = text(crc)
    if checksum_type == "COMPOSITE":
        expected = text(zlib.crc32(crc.to_bytes(4, "big"))) + "-1"
    assert complete(s3, bucket, upload, named)["ChecksumCRC32"] == expected


def test_a_part_that_is_named_with_a_checksum_it_does_not_have_is_invalid(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    upload = kit.call(store, "POST", f"/{bucket}/k?uploads").element("UploadId")
    put = kit.call(store, "PUT", f"/{bucket}/k?partNumber=1&uploadId={upload}", body=LAST)
    part = {"PartNumber": 1, "ETag": put.headers["etag"]}
    for wrong in (
        {"ChecksumCRC32C": text(crt.crc32c(LAST))},
        {"ChecksumCRC64NVME": text(1, 8)},
        {"ChecksumCRC64NVME": "no checksum"},
    ):
        answer = refusal(lambda w=wrong: complete(s3, bucket, upload, [{**part, **w}]))
        assert answer == (400, "InvalidPart")
        assert refusal(lambda: s3.head_object(Bucket=bucket, Key="k"))[0] == 404
    right = {"ChecksumCRC64NVME": text(crt.crc64nvme(LAST), 8)}
    complete(s3, bucket, upload, [{**part, **right}])


def test_a_part_sent_again_replaces_the_first(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket)
    put_parts(s3, bucket, upload, b"old")
    complete(s3, bucket, upload, put_parts(s3, bucket, upload, b"new"))
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new"


def test_of_a_part_that_is_named_twice_the_last_entry_counts(s3: Any, bucket: str) -> None:
    """A client that sent a part again names both, in the order of their answers."""
    upload = begin(s3, bucket)
    before = put_parts(s3, bucket, upload, b"before")
    after = put_parts(s3, bucket, upload, b"after")
    done = complete(s3, bucket, upload, [*before, *after])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"after"
    assert complete(s3, bucket, upload, [*before, *after])["ETag"] == done["ETag"]


def test_a_part_sent_again_while_the_first_is_under_way_yields_to_the_one_that_ends_last(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    upload = begin(s3, bucket)
    target = f"/{bucket}/k?partNumber=1&uploadId={upload}"
    digest = hashlib.sha256(b"first!").hexdigest()
    first = kit.sign(store, "PUT", target, {"content-length": "6"}, payload_hash=digest)
    connection = http.client.HTTPConnection(store.host, store.port, timeout=waits.WAIT_SECONDS)
    with contextlib.closing(connection):
        connection.putrequest("PUT", target, skip_host=True, skip_accept_encoding=True)
        for name, value in first.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(b"fir")
        again = put_parts(s3, bucket, upload, b"second")
        connection.send(b"st!")
        answer = connection.getresponse()
        answer.read()
    assert answer.status == 200
    complete(s3, bucket, upload, [*again, {"PartNumber": 1, "ETag": answer.headers["etag"]}])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"first!"


def test_parts_that_are_not_named_are_dropped(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket)
    parts = put_parts(s3, bucket, upload, b"one", b"two")
    complete(s3, bucket, upload, parts[1:])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"two"


def test_a_completion_that_cannot_be_says_why_and_changes_nothing(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket)
    one, two = put_parts(s3, bucket, upload, b"one", b"two")
    for parts, code in (
        ([two, one], "InvalidPartOrder"),
        ([one, two, one], "InvalidPartOrder"),
        ([one, {**one, "ETag": two["ETag"]}], "InvalidPart"),
        ([one, two], "EntityTooSmall"),
        ([{**one, "ETag": '"0123"'}], "InvalidPart"),
        ([{"PartNumber": 9, "ETag": one["ETag"]}], "InvalidPart"),
        ([], "InvalidRequest"),
    ):
        answer = refusal(lambda p=parts: complete(s3, bucket, upload, p))
        assert answer == (400, code)
    assert refusal(lambda: s3.head_object(Bucket=bucket, Key="k"))[0] == 404
    assert len(s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)["Parts"]) == 2


def test_the_errors_of_a_completion_name_the_part_and_the_upload(s3: Any, bucket: str) -> None:
    """The fields of recordings of AWS."""
    upload = begin(s3, bucket)
    one, two = put_parts(s3, bucket, upload, b"one", b"two")
    named = {"UploadId": upload, "PartNumber": "1", "ETag": "0123"}
    small = {
        "ProposedSize": "3",
        "MinSizeAllowed": "5242880",
        "PartNumber": "1",
        "ETag": one["ETag"].strip('"'),
    }
    for parts, expected in (
        ([{**one, "ETag": '"0123"'}], named),
        ([two, one], {"UploadId": upload}),
        ([one, two], small),
    ):
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            complete(s3, bucket, upload, parts)
        error = caught.value.response["Error"]
        assert {name: error[name] for name in expected} == expected


def test_the_location_of_a_completed_object_is_a_url(s3: Any, bucket: str) -> None:
    key = "a/— b"
    upload = begin(s3, bucket, key)
    part = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"x")
    completed = s3.complete_multipart_upload(
        Bucket=bucket,
        Key=key,
        UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
    )
    assert completed["Location"].endswith(f"/{bucket}/a/%E2%80%94%20b")


def test_complete_sent_twice_answers_the_same(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket)
    parts = put_parts(s3, bucket, upload, LAST)
    first, second = (complete(s3, bucket, upload, parts) for _ in range(2))
    assert first["ETag"] == second["ETag"]


def test_an_upload_that_is_not_there_is_no_such_upload(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket)
    s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)
    part = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    for call in (
        lambda: s3.upload_part(PartNumber=1, Body=b"x", **part),
        lambda: s3.list_parts(**part),
        lambda: s3.abort_multipart_upload(**part),
        lambda: complete(s3, bucket, upload, [{"PartNumber": 1, "ETag": "x"}]),
        lambda: complete(s3, bucket, upload, []),
    ):
        assert refusal(call) == (404, "NoSuchUpload")


def test_an_upload_id_is_bound_to_its_key(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket)
    call = {"Bucket": bucket, "Key": "other", "UploadId": upload}
    assert refusal(lambda: s3.upload_part(PartNumber=1, Body=b"x", **call))[0] == 404
    assert refusal(lambda: s3.list_parts(**call))[0] == 404


def test_complete_if_none_match_star_lets_one_of_two_uploads_win(s3: Any, bucket: str) -> None:
    uploads = [begin(s3, bucket) for _ in range(2)]
    parts = [put_parts(s3, bucket, upload, b"%d" % n) for n, upload in enumerate(uploads)]

    def finish(number: int) -> int:
        try:
            complete(s3, bucket, uploads[number], parts[number], IfNoneMatch="*")
        except botocore.exceptions.ClientError as error:
            return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
        return 200

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        statuses = list(pool.map(finish, range(2)))
    assert sorted(statuses) == [200, 412]
    winner = b"%d" % statuses.index(200)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == winner


def test_parts_are_copied_whole_and_by_range(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="source", Body=FIRST)
    upload = begin(s3, bucket)
    call = {"Bucket": bucket, "Key": "k", "UploadId": upload, "CopySource": f"{bucket}/source"}
    whole = s3.upload_part_copy(PartNumber=1, **call)["CopyPartResult"]
    assert whole["ETag"] == f'"{hashlib.md5(FIRST).hexdigest()}"'
    some = s3.upload_part_copy(PartNumber=2, CopySourceRange="bytes=10-29", **call)
    parts = [
        {"PartNumber": 1, "ETag": whole["ETag"]},
        {"PartNumber": 2, "ETag": some["CopyPartResult"]["ETag"]},
    ]
    complete(s3, bucket, upload, parts)
    s3.delete_object(Bucket=bucket, Key="source")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == FIRST + FIRST[10:30]


@pytest.mark.parametrize("change", ["put", "delete"])
def test_a_part_whose_source_is_replaced_while_it_is_read_has_the_bytes_of_before(
    store: kit.ObjectStore, s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    source = {"Bucket": bucket, "Key": "source"}
    s3.put_object(**source, Body=FIRST)
    digest = store.storage.blobs.digest

    async def late(*arguments: Any, **named: Any) -> Any:
        digests = await digest(*arguments, **named)
        if change == "delete":
            await asyncio.to_thread(s3.delete_object, **source)
        else:
            await asyncio.to_thread(s3.put_object, **source, Body=b"later")
        return digests

    monkeypatch.setattr(store.storage.blobs, "digest", late)
    upload = begin(s3, bucket)
    call = {"Bucket": bucket, "Key": "k", "UploadId": upload, "CopySource": f"{bucket}/source"}
    etag = s3.upload_part_copy(PartNumber=1, **call)["CopyPartResult"]["ETag"]
    complete(s3, bucket, upload, [{"PartNumber": 1, "ETag": etag}])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == FIRST


def test_a_part_is_copied_from_at_most_as_much_as_one_upload_takes(
    s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amazon S3 API, UploadPartCopy: 5 GiB, here ten bytes."""
    monkeypatch.setattr(objects, "COPY_SOURCE_BYTES_MAX", 10)
    s3.put_object(Bucket=bucket, Key="source", Body=b"0123456789a")
    upload = begin(s3, bucket)
    call = {"Bucket": bucket, "Key": "k", "UploadId": upload, "CopySource": f"{bucket}/source"}
    too_large = (400, "InvalidRequest")
    assert refusal(lambda: s3.upload_part_copy(PartNumber=1, **call)) == too_large
    s3.upload_part_copy(PartNumber=1, CopySourceRange="bytes=1-10", **call)


def test_a_copied_range_beyond_the_source_is_refused(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="source", Body=b"0123456789")
    upload = begin(s3, bucket)
    call = {"Bucket": bucket, "Key": "k", "UploadId": upload, "CopySource": f"{bucket}/source"}
    for value, expected in (
        ("bytes=0-10", (416, "InvalidRange")),
        ("bytes=10-10", (416, "InvalidRange")),
        ("bytes=5-", (400, "InvalidArgument")),
        ("0-5", (400, "InvalidArgument")),
    ):
        answer = refusal(
            lambda v=value: s3.upload_part_copy(PartNumber=1, CopySourceRange=v, **call)
        )
        assert answer == expected


def test_list_parts_pages_by_number(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, ChecksumAlgorithm="CRC32")
    put_parts(s3, bucket, upload, b"one", b"two", b"three", ChecksumAlgorithm="CRC32")
    call = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    page = s3.list_parts(MaxParts=2, **call)
    assert [part["PartNumber"] for part in page["Parts"]] == [1, 2]
    assert (page["IsTruncated"], page["NextPartNumberMarker"]) == (True, 2)
    assert (page["ChecksumAlgorithm"], page["ChecksumType"]) == ("CRC32", "COMPOSITE")
    assert page["Parts"][1]["ChecksumCRC32"] == text(zlib.crc32(b"two"))
    page = s3.list_parts(PartNumberMarker=2, **call)
    assert [(part["PartNumber"], part["Size"]) for part in page["Parts"]] == [(3, 5)]
    assert page["IsTruncated"] is False
    page = s3.list_parts(PartNumberMarker=3, **call)
    assert "Parts" not in page
    assert (page["PartNumberMarker"], page["NextPartNumberMarker"]) == (3, 0)


def test_list_parts_shows_checksums_only_of_an_upload_that_names_an_algorithm(
    s3: Any, bucket: str
) -> None:
    """As on AWS: boto3 sends the CRC32 of a part in any case."""
    upload = begin(s3, bucket)
    put_parts(s3, bucket, upload, b"one", ChecksumAlgorithm="CRC32")
    (part,) = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)["Parts"]
    assert part.keys() == {"PartNumber", "LastModified", "ETag", "Size"}


def test_uploads_are_listed_by_key_with_prefixes_and_pages(s3: Any, bucket: str) -> None:
    begun = {key: begin(s3, bucket, key) for key in ("a", "b/1", "b/2", "c")}
    page = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [upload["Key"] for upload in page["Uploads"]] == ["a", "c"]
    assert page["CommonPrefixes"] == [{"Prefix": "b/"}]
    assert page["Uploads"][0]["UploadId"] == begun["a"]
    assert (page["NextKeyMarker"], page["NextUploadIdMarker"]) == ("c", begun["c"])
    pages = s3.get_paginator("list_multipart_uploads").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": 1}
    )
    listed = [upload["Key"] for page in pages for upload in page.get("Uploads", [])]
    assert listed == ["a", "b/1", "b/2", "c"]


def test_an_unfinished_upload_is_no_object(s3: Any, bucket: str) -> None:
    put_parts(s3, bucket, begin(s3, bucket), LAST)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    assert refusal(lambda: s3.head_object(Bucket=bucket, Key="k"))[0] == 404


def test_the_transfer_manager_uploads_in_parallel_parts(s3: Any, bucket: str) -> None:
    body = hashlib.shake_256(b"parallel").digest(24 * MIB + 17)
    config = boto3.s3.transfer.TransferConfig(multipart_chunksize=5 * MIB, max_concurrency=6)
    s3.upload_fileobj(io.BytesIO(body), bucket, "k", Config=config)
    back = io.BytesIO()
    s3.download_fileobj(bucket, "k", back, Config=config)
    assert back.getvalue() == body


def test_a_slow_reader_gets_every_part_of_an_object_deleted_and_swept_meanwhile(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    bodies = [bytes([number]) * (5 * MIB) for number in range(4)]
    upload = begin(s3, bucket)
    complete(s3, bucket, upload, put_parts(s3, bucket, upload, *bodies))
    target = f"/{bucket}/k"
    signed = kit.sign(store, "GET", target, payload_hash="UNSIGNED-PAYLOAD")
    wire = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        reader.settimeout(waits.WAIT_SECONDS)
        reader.connect((store.host, store.port))
        reader.sendall(f"GET {target} HTTP/1.1\r\n{wire}connection: close\r\n\r\n".encode())
        answer = reader.recv(1000)
        s3.delete_object(Bucket=bucket, Key="k")
        store.run(store.storage.sweep.once(row_grace_ms=-1000, file_grace_ms=-1000))
        while data := reader.recv(1 << 20):
            answer += data
    assert answer.partition(b"\r\n\r\n")[2] == b"".join(bodies)
    assert store.run(store.storage.sweep.once(row_grace_ms=-1000, file_grace_ms=-1000)) == 4


def test_an_upload_of_many_parts_is_held_against_the_size_that_the_client_says(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    upload = begin(s3, bucket)
    count = uploads.PARTS_AT_ONCE_MAX + 1

    async def send() -> list[str]:
        etags = []
        for number in range(1, count + 1):
            received = await store.storage.blobs.store(b"x", digests=frozenset({"md5"}))
            part = await store.storage.uploads.put_part(bucket, "k", upload, number, received)
            etags.append(part.etag)
        return etags

    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
        for number, etag in enumerate(store.run(send()), 1)
    )
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    for size, code in ((count + 1, "InvalidRequest"), (count, "EntityTooSmall")):
        answer = kit.call(
            store,
            "POST",
            f"/{bucket}/k?uploadId={upload}",
            {"x-amz-mp-object-size": str(size)},
            body,
        )
        assert (answer.status, answer.code) == (400, code)


def test_a_completion_that_is_sent_again_is_answered_as_the_first_one_whatever_its_condition(
    s3: Any, bucket: str
) -> None:
    upload = {"Bucket": bucket, "Key": "once"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    etag = s3.upload_part(**upload, PartNumber=1, Body=b"part")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    answers = [
        s3.complete_multipart_upload(**upload, MultipartUpload=parts, IfNoneMatch="*")
        for _ in range(2)
    ]
    assert answers[0]["ETag"] == answers[1]["ETag"]
    other = s3.create_multipart_upload(Bucket=bucket, Key="once")["UploadId"]
    etag = s3.upload_part(Bucket=bucket, Key="once", UploadId=other, PartNumber=1, Body=b"x")[
        "ETag"
    ]
    with pytest.raises(botocore.exceptions.ClientError, match="PreconditionFailed"):
        s3.complete_multipart_upload(
            Bucket=bucket,
            Key="once",
            UploadId=other,
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]},
            IfNoneMatch="*",
        )


@pytest.mark.parametrize(
    ("checksum_type", "parts_at_once"),
    [("COMPOSITE", uploads.PARTS_AT_ONCE_MAX), ("FULL_OBJECT", 1)],  # more are compared in a thread
)
def test_a_completion_that_is_sent_again_and_contradicts_the_object_is_refused(
    s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch, checksum_type: str, parts_at_once: int
) -> None:
    monkeypatch.setattr(uploads, "PARTS_AT_ONCE_MAX", parts_at_once)
    named = {"ChecksumAlgorithm": "CRC32", "ChecksumType": checksum_type}
    upload = begin(s3, bucket, **named)
    parts = put_parts(s3, bucket, upload, FIRST, LAST, ChecksumAlgorithm="CRC32")
    done = complete(s3, bucket, upload, parts)
    size = len(FIRST) + len(LAST)
    other = text(zlib.crc32(b"another body"))
    wrong_part = [parts[0], {**parts[1], "ChecksumCRC32": other}]
    other_type = {"COMPOSITE": "FULL_OBJECT", "FULL_OBJECT": "COMPOSITE"}[checksum_type]
    refused: list[tuple[list[Any], dict[str, Any], str]] = [
        (parts, {"ChecksumCRC32": other}, "BadDigest"),
        (parts, {"ChecksumCRC64NVME": text(1, 8)}, "BadDigest"),
        (parts, {"MpuObjectSize": size + 1}, "InvalidRequest"),
        (parts, {"ChecksumType": other_type}, "InvalidRequest"),
        (wrong_part, {}, "InvalidPart"),
    ]
    for again, options, code in refused:
        assert refusal(lambda a=again, o=options: complete(s3, bucket, upload, a, **o)) == (
            400,
            code,
        )
    right = {"ChecksumCRC32": done["ChecksumCRC32"], "ChecksumType": checksum_type}
    for options in ({}, right, {"MpuObjectSize": size}):
        assert complete(s3, bucket, upload, parts, **options)["ETag"] == done["ETag"]
    bare = [{name: part[name] for name in ("PartNumber", "ETag")} for part in parts]
    assert complete(s3, bucket, upload, bare)["ETag"] == done["ETag"]


def test_of_two_completions_at_once_the_one_that_contradicts_the_object_is_refused(
    s3: Any, store: kit.ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = begin(s3, bucket, ChecksumAlgorithm="CRC32")
    parts = put_parts(s3, bucket, upload, LAST, ChecksumAlgorithm="CRC32")
    commit = store.storage.uploads.complete

    async def come_second(*arguments: Any, **options: Any) -> Any:
        # The other completion is done when this one has been judged.
        await commit(*arguments, **{**options, "part_checksums": None})
        return await commit(*arguments, **options)

    monkeypatch.setattr(store.storage.uploads, "complete", come_second)
    wrong = [{**parts[0], "ChecksumCRC32": text(zlib.crc32(b"another body"))}]
    assert refusal(lambda: complete(s3, bucket, upload, wrong)) == (400, "InvalidPart")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == LAST
    etag = s3.head_object(Bucket=bucket, Key="k")["ETag"]
    assert complete(s3, bucket, upload, parts)["ETag"] == etag


def test_an_empty_checksum_of_a_part_at_completion_is_none(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    upload = begin(s3, bucket, ChecksumAlgorithm="CRC32")
    (part,) = put_parts(s3, bucket, upload, LAST, ChecksumAlgorithm="CRC32")
    named = (
        f"<PartNumber>1</PartNumber><ETag>{part['ETag']}</ETag>"
        f"<ChecksumCRC32>{part['ChecksumCRC32']}</ChecksumCRC32><ChecksumCRC32C/>"
        "<ChecksumSHA1></ChecksumSHA1>"
    )
    target = f"/{bucket}/k?uploadId={upload}"

    def send(named: str) -> kit.Answer:
        body = f"<CompleteMultipartUpload><Part>{named}</Part></CompleteMultipartUpload>"
        return kit.call(store, "POST", target, body=body.encode())

    twice = send(f"{named}<ChecksumSHA1/>")
    assert (twice.status, twice.code) == (400, "MalformedXML")
    assert send(named).status == 200
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == LAST


@pytest.mark.long
def test_an_upload_of_ten_thousand_parts_is_completed_over_the_wire(
    store: kit.ObjectStore, s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.storage.uploads, "_part_bytes_min", 1)
    count = 10_000
    bodies = [b"%d;" % number for number in range(1, count + 1)]
    digests = [hashlib.md5(body).digest() for body in bodies]
    named = {"Bucket": bucket, "Key": "k"}
    upload_id = s3.create_multipart_upload(**named)["UploadId"]
    connection = http.client.HTTPConnection(store.host, store.port, timeout=waits.WAIT_SECONDS)
    for number, (body, digest) in enumerate(zip(bodies, digests, strict=True), 1):
        target = f"/{bucket}/k?partNumber={number}&uploadId={upload_id}"
        signed = kit.sign(store, "PUT", target, payload_hash="UNSIGNED-PAYLOAD")
        connection.request("PUT", target, body=body, headers=signed)
        response = connection.getresponse()
        response.read()
        assert (response.status, response.headers["etag"]) == (200, f'"{digest.hex()}"')
    connection.close()
    pages = s3.get_paginator("list_parts").paginate(**named, UploadId=upload_id)
    listed = [part["PartNumber"] for page in pages for part in page["Parts"]]
    assert listed == list(range(1, count + 1))
    parts = [
        {"PartNumber": number, "ETag": digest.hex()} for number, digest in enumerate(digests, 1)
    ]
    for _ in range(2):  # a repeated completion gets the first answer
        done = s3.complete_multipart_upload(
            **named, UploadId=upload_id, MultipartUpload={"Parts": parts}
        )
        assert done["ETag"] == f'"{hashlib.md5(b"".join(digests)).hexdigest()}-{count}"'
    assert s3.get_object(**named)["Body"].read() == b"".join(bodies)
    last = s3.get_object(**named, PartNumber=count)
    assert last["PartsCount"] == count
    assert last["Body"].read() == bodies[-1]
    s3.delete_object(**named)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
