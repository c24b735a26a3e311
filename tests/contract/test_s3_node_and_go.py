"""S3 as programs in JavaScript and in Go use it: AWS's SDK for JavaScript, and minio-go."""

from __future__ import annotations

import pytest

from tests.kit import client_programs, environments
from tests.kit.server import Running


@pytest.mark.clients
def test_the_sdk_for_javascript_writes_reads_copies_and_signs(server: Running) -> None:
    client_programs.run(server, environments.node("node-s3"))


@pytest.mark.clients
def test_minio_go_writes_reads_joins_and_removes_versions(server: Running) -> None:
    client_programs.run(server, environments.go("go-s3"))
