"""Snowflake's drivers for Java, JavaScript and Go, in programs of their own, which assert."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import environments
from tests.kit import server as server_kit

TIMEOUT_SECONDS = 300


@pytest.mark.clients
@pytest.mark.timeout(900)  # a compiler builds the driver of Go first
@pytest.mark.parametrize(
    ("prepare", "package"),
    [
        (environments.java, "java-snowflake"),
        (environments.node, "node-snowflake"),
        (environments.go, "go-snowflake"),
    ],
    ids=["java", "node", "go"],
)
def test_a_driver_reads_writes_and_moves_files(
    prepare: Callable[[str], list[str]],
    package: str,
    server: server_kit.Running,
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        prepare(package),
        env={
            **server_kit.client_environment(),
            "URL": server.url,
            "HOST": server.host,
            "PORT": str(server.port),
            "KEY": server.access_key,
            "SECRET": server.secret_key,
            "SCHEMA": f"driver_{uuid.uuid4().hex[:8]}",
            "FOLDER": str(tmp_path),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-4000:]
