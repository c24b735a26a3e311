"""What the pipeline's tests share: the server as jobs know it, and buckets of raw files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from pipeline import servers, settings, sources
from tests.kit import server as server_kit


@pytest.fixture(scope="session")
def house(server: server_kit.Running) -> settings.Server:
    """The running server, found as a job finds it."""
    return servers.find(url=None, data=str(server.data), environment={}, region=None)


@pytest.fixture
def unused(tmp_path: Path) -> str:
    """A URL on loopback where nothing listens."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


class Raw:
    """A bucket of raw files."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self.s3 = s3
        self.bucket = bucket
        s3.create_bucket(Bucket=bucket)

    def put(self, key: str, body: str | bytes) -> str:
        """Store one object; return its bare ETag."""
        answer = self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)
        return str(answer["ETag"]).strip('"')

    def place(self, prefix: str = "") -> settings.Place:
        return settings.Place(bucket=self.bucket, prefix=prefix)

    def uri(self, key: str = "") -> str:
        return f"s3://{self.bucket}/{key}"


NUMBERS = itertools.count(1)


@pytest.fixture
def raw(house: settings.Server) -> Raw:
    """An empty bucket of the test's own."""
    return Raw(sources.client(house), f"pipeline-raw-{next(NUMBERS)}")
