"""Large bodies over the wire, which other processes receive: what is checked of them, and what
follows them on their connection."""

from __future__ import annotations

import base64
import concurrent.futures
import hashlib
import http.client
import os
import socket
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server import receiving
from storage import blobs
from tests.kit import s3 as kit
from tests.kit import waits
from tests.kit.waits import WAIT_SECONDS

MIB = 1 << 20
BODY = os.urandom(3 * MIB + 11)
ETAG = f'"{hashlib.md5(BODY).hexdigest()}"'
WRONG_MD5 = base64.b64encode(bytes(16)).decode()
WRONG_CRC32 = base64.b64encode(bytes(4)).decode()


@pytest.fixture
def stretches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What other processes received of bodies, each time."""
    taken: list[int] = []
    write_from = blobs.Receiver.write_from

    async def noting(self: blobs.Receiver, intake: blobs.Intake) -> int:
        taken.append(await write_from(self, intake))
        return taken[-1]

    monkeypatch.setattr(blobs.Receiver, "write_from", noting)
    return taken


def files_of(store: kit.ObjectStore) -> set[Path]:
    """Every file of a body, finished or not."""
    folders = (store.storage.path / "tmp", store.storage.path / "blobs")
    return {path for folder in folders for path in folder.rglob("*") if path.is_file()}


def wait_for(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < ends_at, "the state does not come"
        time.sleep(0.005)


def put(
    store: kit.ObjectStore,
    connection: http.client.HTTPConnection,
    target: str,
    headers: dict[str, str],
    *,
    payload_hash: str,
) -> tuple[int, str, bytes]:
    signed = kit.sign(store, "PUT", target, headers, payload_hash=payload_hash)
    connection.request("PUT", target, body=BODY, headers=signed)
    response = connection.getresponse()
    return response.status, response.headers.get("etag", ""), response.read()


def test_a_large_body_is_stored_whole_and_its_connection_serves_on(
    store: kit.ObjectStore, bucket: str, stretches: list[int]
) -> None:
    right = {
        "content-md5": base64.b64encode(hashlib.md5(BODY).digest()).decode(),
        "x-amz-checksum-crc32": base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode(),
    }
    connection = http.client.HTTPConnection(store.host, store.port, timeout=waits.WAIT_SECONDS)
    for number, payload_hash in enumerate(("UNSIGNED-PAYLOAD", hashlib.sha256(BODY).hexdigest())):
        answer = put(
            store, connection, f"/{bucket}/{number}", dict(right), payload_hash=payload_hash
        )
        assert answer == (200, ETAG, b"")
        assert kit.call(store, "GET", f"/{bucket}/{number}").body == BODY
    connection.close()
    assert sum(stretches) > 2 * len(BODY) - 2 * MIB


@pytest.mark.parametrize(
    ("headers", "payload_hash", "code"),
    [
        ({"content-md5": WRONG_MD5}, "UNSIGNED-PAYLOAD", b"BadDigest"),
        ({"x-amz-checksum-crc32": WRONG_CRC32}, "UNSIGNED-PAYLOAD", b"BadDigest"),
        ({}, "0" * 64, b"XAmzContentSHA256Mismatch"),
    ],
)
def test_a_large_body_with_a_wrong_digest_leaves_nothing(
    store: kit.ObjectStore,
    bucket: str,
    stretches: list[int],
    headers: dict[str, str],
    payload_hash: str,
    code: bytes,
) -> None:
    before = files_of(store)
    connection = http.client.HTTPConnection(store.host, store.port, timeout=waits.WAIT_SECONDS)
    status, _, body = put(store, connection, f"/{bucket}/k", headers, payload_hash=payload_hash)
    assert status == 400
    assert b"<Code>" + code + b"</Code>" in body
    assert stretches
    assert kit.call(store, "HEAD", f"/{bucket}/k").status == 404
    assert files_of(store) <= before
    answer = put(store, connection, f"/{bucket}/k", {}, payload_hash="UNSIGNED-PAYLOAD")
    assert answer == (200, ETAG, b"")
    connection.close()


def test_more_large_bodies_at_once_than_processes_are_all_whole(
    store: kit.ObjectStore, bucket: str, stretches: list[int]
) -> None:
    def send(number: int) -> tuple[int, str]:
        answer = kit.call(store, "PUT", f"/{bucket}/{number}", body=BODY)
        return answer.status, answer.headers["etag"]

    count = receiving.PROCESSES_MAX * 4
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        assert list(pool.map(send, range(count))) == [(200, ETAG)] * count
    assert stretches


def test_large_parts_are_received_by_processes(s3: Any, bucket: str, stretches: list[int]) -> None:
    named = {"Bucket": bucket, "Key": "k"}
    upload = {**named, "UploadId": s3.create_multipart_upload(**named)["UploadId"]}
    sizes = (5 * MIB, 5 * MIB + 1, MIB)
    bodies = [os.urandom(size_bytes) for size_bytes in sizes]
    parts = [
        {
            "PartNumber": number,
            "ETag": s3.upload_part(**upload, PartNumber=number, Body=body)["ETag"],
        }
        for number, body in enumerate(bodies, 1)
    ]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(**named)["Body"].read() == b"".join(bodies)
    assert stretches


@pytest.mark.parametrize("mode", kit.STREAMING_MODES)
def test_a_large_framed_body_is_decoded_in_the_event_loop(
    store: kit.ObjectStore, bucket: str, stretches: list[int], mode: str
) -> None:
    crc32 = base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode()
    trailer = ("x-amz-checksum-crc32", crc32) if "TRAILER" in mode else None
    chunks = (BODY[:MIB], BODY[MIB:])
    answer = kit.stream(store, "PUT", f"/{bucket}/k", chunks, mode=mode, trailer=trailer)
    assert answer.status == 200, answer.body
    assert kit.call(store, "GET", f"/{bucket}/k").body == BODY
    assert stretches == []


def test_a_client_that_is_lost_within_a_large_body_leaves_nothing(
    store: kit.ObjectStore, bucket: str, stretches: list[int]
) -> None:
    before = files_of(store)
    target = f"/{bucket}/k"
    headers = {"content-length": str(len(BODY))}
    signed = kit.sign(store, "PUT", target, headers, payload_hash="UNSIGNED-PAYLOAD")
    lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
    with socket.create_connection((store.host, store.port), timeout=waits.WAIT_SECONDS) as client:
        client.sendall(f"PUT {target} HTTP/1.1\r\n{lines}\r\n".encode() + BODY[: 2 * MIB])
        wait_for(lambda: any(each.stat().st_size > MIB for each in files_of(store) - before))
    wait_for(lambda: files_of(store) <= before)
    assert stretches
    assert kit.call(store, "HEAD", target).status == 404
