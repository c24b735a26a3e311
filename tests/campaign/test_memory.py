"""Memory of the started server: when idle, and while large bodies pass through it.

Anonymous memory of the server and its children is what counts: pages of files that the system
caches belong to no process. The bodies lie on the disk, and are removed.
"""

import contextlib
import http.client
import math
import shutil
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.bench import machines
from tests.kit import server as server_kit

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc"),
]

MIB = 1 << 20
IDLE_BYTES_MAX = 110 * MIB
PASSING_BYTES_MAX = 150 * MIB
CLIENTS = 8
PART_BYTES = 16 * MIB
PIECE = bytes(range(256)) * (MIB // 256)
SAMPLE_SECONDS = 0.02
BUCKET = "large"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_kit.Running]:
    folder = tmp_path_factory.mktemp("memory")
    started = server_kit.start(folder / "data")
    try:
        yield started
    finally:
        started.stop()
        shutil.rmtree(folder)


def test_a_server_that_has_not_run_sql_holds_little_memory(running: server_kit.Running) -> None:
    assert anonymous_bytes(running.pid) <= IDLE_BYTES_MAX


@pytest.mark.parametrize(
    "size_bytes", [32 * MIB, pytest.param(1024 * MIB, marks=pytest.mark.long)], ids=["32M", "1G"]
)
def test_large_bodies_pass_through_the_server_in_bounded_memory(
    running: server_kit.Running, size_bytes: int
) -> None:
    s3 = machines.s3(running)
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket=BUCKET)
    idle_bytes = anonymous_bytes(running.pid)

    with watching(running.pid) as put:
        in_parallel(lambda number: put_whole(s3, f"whole-{number}", size_bytes))
    with watching(running.pid) as memory:
        in_parallel(lambda number: get_whole(s3, f"whole-{number}", size_bytes))
    remove_all(s3)
    with watching(running.pid) as put_parts:
        in_parallel(lambda number: put_in_parts(s3, f"parts-{number}", size_bytes))
    with watching(running.pid) as got_parts:
        in_parallel(lambda number: get_whole(s3, f"parts-{number}", size_bytes))
    remove_all(s3)

    grown = {
        "PUT": put.most_bytes - idle_bytes,
        "GET": memory.most_bytes - idle_bytes,
        "PUT of parts": put_parts.most_bytes - idle_bytes,
        "GET of parts": got_parts.most_bytes - idle_bytes,
    }
    print({name: f"{growth / MIB:.1f} MiB" for name, growth in grown.items()}, idle_bytes / MIB)
    assert max(grown.values()) <= PASSING_BYTES_MAX, grown


class Watched:
    """The most anonymous memory of a process while it was watched. Mutable."""

    most_bytes = 0


@contextlib.contextmanager
def watching(pid: int) -> Iterator[Watched]:
    """Look at the memory of a process and its children until the block ends."""
    watched = Watched()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            watched.most_bytes = max(watched.most_bytes, anonymous_bytes(pid))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield watched
    finally:
        ended.set()
        thread.join()
    assert watched.most_bytes, "the block took no time"


def anonymous_bytes(pid: int) -> int:
    """Return the anonymous memory of a process and its children."""
    total = 0
    for member in machines.family(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for line in Path(f"/proc/{member}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    total += int(line.split()[1]) * 1024
    return total


def in_parallel(work: Callable[[int], None]) -> None:
    """Run work in CLIENTS threads, with the number of each."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(work, range(CLIENTS)))


def put_whole(s3: Any, key: str, size_bytes: int) -> None:
    url = s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": key})
    send(url, size_bytes)


def put_in_parts(s3: Any, key: str, size_bytes: int) -> None:
    named = {"Bucket": BUCKET, "Key": key}
    upload = {**named, "UploadId": s3.create_multipart_upload(**named)["UploadId"]}
    parts = []
    for number in range(1, math.ceil(size_bytes / PART_BYTES) + 1):
        url = s3.generate_presigned_url("upload_part", Params={**upload, "PartNumber": number})
        parts.append({"PartNumber": number, "ETag": send(url, PART_BYTES)})
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def send(url: str, size_bytes: int) -> str:
    """PUT a body, one piece after the other; return its ETag."""
    with connected(url) as (connection, target):
        body = (PIECE for _ in range(size_bytes // len(PIECE)))
        connection.request("PUT", target, body=body, headers={"Content-Length": str(size_bytes)})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        response.read()
        return response.headers["ETag"]


def get_whole(s3: Any, key: str, size_bytes: int) -> None:
    """GET an object; compare what arrives with what was sent."""
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": key})
    with connected(url) as (connection, target):
        connection.request("GET", target)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        for _ in range(size_bytes // len(PIECE)):
            assert response.read(len(PIECE)) == PIECE
        assert response.read() == b""


@contextlib.contextmanager
def connected(url: str) -> Iterator[tuple[http.client.HTTPConnection, str]]:
    """Return a connection to a URL's server, and the URL's path and query."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=300)
    try:
        yield connection, f"{parts.path}?{parts.query}"
    finally:
        connection.close()


def remove_all(s3: Any) -> None:
    """Remove every object of the bucket."""
    for entry in s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        s3.delete_object(Bucket=BUCKET, Key=entry["Key"])
