"""boto3's transfer manager over a network that fails: it tries again, and the object is whole."""

from __future__ import annotations

import io
import os
import threading
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest
from boto3.s3 import transfer

from tests.kit import faulty_network, invariants
from tests.kit import s3 as kit
from tests.kit.waits import WAIT_SECONDS

MIB = 1 << 20
PART_BYTES = 5 * MIB
SIZE_BYTES = 2 * PART_BYTES + 1
CONFIG = transfer.TransferConfig(
    multipart_threshold=1, multipart_chunksize=PART_BYTES, max_concurrency=3
)
RETRIES = {"retries": {"total_max_attempts": 3, "mode": "standard"}}


class Faults:
    """Gives the first requests that match each of its faults, and counts all that match."""

    def __init__(self, *planned: tuple[faulty_network.Fault, Callable[[str, str], bool]]) -> None:
        self.left = list(planned)
        self.requests: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def __call__(self, method: str, target: str) -> faulty_network.Fault | None:
        with self._lock:
            self.requests.append((method, target))
            for number, (fault, is_meant) in enumerate(self.left):
                if is_meant(method, target):
                    del self.left[number]
                    return fault
        return None


def part(number: int) -> Callable[[str, str], bool]:
    return lambda method, target: method == "PUT" and f"partNumber={number}" in target


def is_get(method: str, target: str) -> bool:
    return method == "GET"


def is_completion(method: str, target: str) -> bool:
    query = urllib.parse.urlsplit(target).query
    return method == "POST" and query.startswith("uploadId=")


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def files_below(path: Path) -> set[Path]:
    return {each for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("end", ["slow down", "cut the answer"])
def test_an_upload_through_cut_connections_is_whole_and_leaves_nothing_over(
    store: kit.ObjectStore, end: faulty_network.Fault
) -> None:
    """end: what happens to the completion. With its answer lost, the client asks a second time."""
    faults = Faults(
        ("cut the body", part(1)),
        ("slow down", part(2)),
        ("cut the answer", part(3)),
        (end, is_completion),
    )
    body = os.urandom(SIZE_BYTES)
    direct = kit.client(store)
    bucket = kit.new_bucket(direct)
    blobs = store.storage.path / "blobs"
    before = files_below(blobs)
    with faulty_network.between(store.host, store.port, faults) as url:
        s3 = kit.client(store, endpoint_url=url, config=RETRIES)
        s3.upload_fileobj(io.BytesIO(body), bucket, "large", Config=CONFIG)
        s3.close()
    assert faults.left == []
    puts = [target for method, target in faults.requests if method == "PUT"]
    assert len(puts) == 6, "each part was sent twice"

    assert direct.get_object(Bucket=bucket, Key="large")["Body"].read() == body
    assert direct.head_object(Bucket=bucket, Key="large")["ETag"].endswith('-3"')
    assert "Uploads" not in direct.list_multipart_uploads(Bucket=bucket)
    assert [each["Key"] for each in direct.list_objects_v2(Bucket=bucket)["Contents"]] == ["large"]
    wait_until(lambda: not files_below(store.storage.path / "tmp"))
    # The last part is one byte, which lies in the index.
    assert len(files_below(blobs) - before) == 2
    invariants.check(store.storage, store.storage.path)


def test_a_download_through_cut_connections_is_whole_and_leaves_one_file(
    store: kit.ObjectStore, tmp_path: Path
) -> None:
    body = os.urandom(SIZE_BYTES)
    direct = kit.client(store)
    bucket = kit.new_bucket(direct)
    direct.put_object(Bucket=bucket, Key="large", Body=body)
    faults = Faults(("cut the answer", is_get), ("slow down", is_get), ("cut the answer", is_get))
    with faulty_network.between(store.host, store.port, faults) as url:
        s3 = kit.client(store, endpoint_url=url, config=RETRIES)
        s3.download_file(bucket, "large", str(tmp_path / "large"), Config=CONFIG)
        s3.close()
    assert faults.left == []
    assert {path.name for path in tmp_path.iterdir()} == {"large"}
    assert (tmp_path / "large").read_bytes() == body
    ranges = [target for method, target in faults.requests if method == "GET"]
    assert len(ranges) == 3 + 3, "each fault cost one more request"
