"""The three streaming forms of a body, framed and signed by hand."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest

from server.s3 import fields, incoming
from storage import checksums
from tests.kit import s3 as kit

BODY = b"the quick brown fox jumps over the lazy dog\n" * 3000
CHUNKS = (BODY[:65536], BODY[65536:100000], BODY[100000:])
CRC32 = base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode()


def trailer_of(mode: str, value: str = CRC32) -> tuple[str, str] | None:
    return ("x-amz-checksum-crc32", value) if "TRAILER" in mode else None


@pytest.mark.parametrize("mode", kit.STREAMING_MODES)
def test_a_streamed_body_is_stored_without_its_framing(
    store: kit.ObjectStore, bucket: str, mode: str
) -> None:
    target = f"/{bucket}/k"
    headers = {"content-type": "text/x", "content-encoding": "gzip,aws-chunked"}
    put = kit.stream(
        store, "PUT", target, CHUNKS, mode=mode, headers=headers, trailer=trailer_of(mode)
    )
    assert put.status == 200, put.body
    answer = kit.call(store, "GET", target, {"x-amz-checksum-mode": "ENABLED"})
    assert answer.body == BODY
    assert answer.headers["content-encoding"] == "gzip"
    if "TRAILER" in mode:
        assert put.headers["x-amz-checksum-crc32"] == CRC32
        assert answer.headers["x-amz-checksum-crc32"] == CRC32


@pytest.mark.parametrize("mode", kit.STREAMING_MODES)
def test_an_empty_streamed_body_is_empty(store: kit.ObjectStore, bucket: str, mode: str) -> None:
    empty = base64.b64encode(bytes(4)).decode()
    put = kit.stream(
        store, "PUT", f"/{bucket}/dir/", (), mode=mode, trailer=trailer_of(mode, empty)
    )
    assert put.status == 200, put.body
    assert kit.call(store, "HEAD", f"/{bucket}/dir/").headers["content-length"] == "0"


@pytest.mark.parametrize("mode", kit.STREAMING_MODES)
@pytest.mark.parametrize(
    ("what", "spoil"),
    [
        ("cut short", lambda body: body[: len(body) // 2]),
        ("without its last chunk", lambda body: body[: body.rindex(b"\r\n0") + 2]),
        ("with bytes behind it", lambda body: body + b"5\r\nextra\r\n"),
        ("with a length that is none", lambda body: b"zz" + body[2:]),
    ],
)  # fmt: skip
def test_a_streamed_body_that_is_not_whole_stores_nothing(
    store: kit.ObjectStore, bucket: str, mode: str, what: str, spoil: object
) -> None:
    put = kit.stream(
        store, "PUT", f"/{bucket}/k", CHUNKS, mode=mode, trailer=trailer_of(mode), spoil=spoil
    )
    assert (put.status, put.code) == (400, "IncompleteBody"), what
    assert kit.call(store, "HEAD", f"/{bucket}/k").status == 404


@pytest.mark.parametrize("mode", [each for each in kit.STREAMING_MODES if "HMAC" in each])
def test_a_chunk_that_was_changed_on_its_way_is_refused(
    store: kit.ObjectStore, bucket: str, mode: str
) -> None:
    put = kit.stream(
        store,
        "PUT",
        f"/{bucket}/k",
        CHUNKS,
        mode=mode,
        trailer=trailer_of(mode),
        spoil=lambda body: body.replace(b"lazy", b"busy", 1),
    )
    assert (put.status, put.code) == (403, "SignatureDoesNotMatch")
    assert kit.call(store, "HEAD", f"/{bucket}/k").status == 404


@pytest.mark.parametrize("mode", [each for each in kit.STREAMING_MODES if "TRAILER" in each])
def test_trailers_have_checksums_of_every_algorithm(
    store: kit.ObjectStore, bucket: str, mode: str
) -> None:
    body = b"".join(CHUNKS)
    for name, digest in checksums.digest(body, fields.CHECKSUM_BYTES).items():
        trailer = f"x-amz-checksum-{name}", checksums.to_text(digest)
        headers = {"x-amz-sdk-checksum-algorithm": name.upper()}
        answer = kit.stream(
            store, "PUT", f"/{bucket}/{name}", CHUNKS, mode=mode, headers=headers, trailer=trailer
        )
        assert (answer.status, answer.headers[trailer[0]]) == (200, trailer[1])
        wrong = trailer[0], checksums.to_text(bytes(len(digest)))
        answer = kit.stream(store, "PUT", f"/{bucket}/wrong", CHUNKS, mode=mode, trailer=wrong)
        assert (answer.status, answer.code) == (400, "BadDigest")
    assert kit.call(store, "HEAD", f"/{bucket}/wrong").status == 404


@pytest.mark.parametrize("mode", [each for each in kit.STREAMING_MODES if "TRAILER" in each])
def test_a_trailer_that_does_not_fit_the_body_is_a_bad_digest(
    store: kit.ObjectStore, bucket: str, mode: str
) -> None:
    wrong = base64.b64encode(b"nope").decode()
    put = kit.stream(
        store, "PUT", f"/{bucket}/k", CHUNKS, mode=mode, trailer=trailer_of(mode, wrong)
    )
    assert (put.status, put.code) == (400, "BadDigest")
    assert kit.call(store, "HEAD", f"/{bucket}/k").status == 404


def test_a_streamed_body_without_its_decoded_length_is_refused(
    store: kit.ObjectStore, bucket: str
) -> None:
    mode = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    put = kit.call(store, "PUT", f"/{bucket}/k", body=b"0\r\n\r\n", payload_hash=mode)
    assert (put.status, put.code) == (411, "MissingContentLength")


def test_a_streamed_body_without_the_trailer_that_it_announces_is_malformed(
    store: kit.ObjectStore, bucket: str
) -> None:
    put = kit.stream(
        store,
        "PUT",
        f"/{bucket}/k",
        CHUNKS,
        mode="STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        headers={"x-amz-trailer": "x-amz-checksum-crc32"},
    )
    assert (put.status, put.code) == (400, "MalformedTrailerError")
    assert kit.call(store, "HEAD", f"/{bucket}/k").status == 404


def test_a_streamed_body_shorter_than_announced_is_incomplete(
    store: kit.ObjectStore, bucket: str
) -> None:
    put = kit.stream(
        store,
        "PUT",
        f"/{bucket}/k",
        CHUNKS,
        mode="STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        headers={"x-amz-decoded-content-length": str(len(BODY) + 1)},
    )
    assert (put.status, put.code) == (400, "IncompleteBody")


def test_a_streamed_part_is_stored_without_its_framing(store: kit.ObjectStore, bucket: str) -> None:
    s3 = kit.client(store)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    mode = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    put = kit.stream(
        store,
        "PUT",
        f"/{bucket}/k?partNumber=1&uploadId={upload}",
        CHUNKS,
        mode=mode,
        trailer=trailer_of(mode),
    )
    assert put.status == 200, put.body
    s3.complete_multipart_upload(
        Bucket=bucket,
        Key="k",
        UploadId=upload,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": put.headers["etag"]}]},
    )
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == BODY


def test_a_body_in_chunked_transfer_coding_needs_no_announced_length(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    target = f"/{bucket}/k"
    headers = {
        **kit.sign(store, "PUT", target, payload_hash="UNSIGNED-PAYLOAD"),
        "transfer-encoding": "chunked",
    }
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (b"one ", b"two"))
    answer = kit.send(store, "PUT", target, headers=headers, body=body + b"0\r\n\r\n")
    assert answer.status == 200, answer.body
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"one two"


def test_a_body_in_another_transfer_coding_is_refused_and_stores_nothing(
    store: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    """It would have to be decoded; without that its coded bytes would be the object."""
    body = b"5\r\nhello\r\n0\r\n\r\n"
    for coding in ("gzip, chunked", "identity, chunked", "Chunked"):
        headers = kit.sign(store, "PUT", f"/{bucket}/k", payload_hash="UNSIGNED-PAYLOAD")
        headers["transfer-encoding"] = coding
        answer = kit.send(store, "PUT", f"/{bucket}/k", headers, body)
        if coding == "Chunked":
            assert answer.status == 200, answer.body
            assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"hello"
            continue
        assert (answer.status, answer.code) == (400, "InvalidRequest")
        assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_body_of_unknown_length_is_bounded(
    store: kit.ObjectStore, s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "OBJECT_BYTES_MAX", 1000)
    target = f"/{bucket}/k"
    headers = {
        **kit.sign(store, "PUT", target, payload_hash="UNSIGNED-PAYLOAD"),
        "transfer-encoding": "chunked",
    }
    body = b"3e9\r\n" + bytes(1001) + b"\r\n0\r\n\r\n"
    answer = kit.send(store, "PUT", target, headers=headers, body=body)
    assert (answer.status, answer.code) == (400, "EntityTooLarge")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
