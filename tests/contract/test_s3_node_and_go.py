"""S3 as programs in JavaScript and in Go use it: AWS's SDKs, minio-go, and s5cmd."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.kit import client_programs, environments
from tests.kit import s3 as kit
from tests.kit import server as server_kit
from tests.kit.server import Running

INSTALL_SECONDS = environments.INSTALL_TIMEOUT_SECONDS + client_programs.TIMEOUT_SECONDS
"""The first run on a machine fetches and compiles the clients."""


@pytest.mark.timeout(INSTALL_SECONDS)
def test_the_sdk_for_javascript_writes_reads_copies_and_signs(server: Running) -> None:
    client_programs.run(server, environments.node("node-s3"))


@pytest.mark.timeout(INSTALL_SECONDS)
def test_minio_go_writes_reads_joins_and_removes_versions(server: Running) -> None:
    client_programs.run(server, environments.go("go-s3"))


@pytest.mark.clients
@pytest.mark.timeout(INSTALL_SECONDS)
def test_the_sdk_for_go_writes_reads_pages_and_signs(server: Running) -> None:
    client_programs.run(server, environments.go("go-aws"))


@pytest.mark.timeout(INSTALL_SECONDS)
def test_s5cmd_copies_syncs_lists_and_removes(server: Running, tmp_path: Path) -> None:
    program = environments.go("go-s5cmd")
    environment = {
        **server_kit.client_environment(),
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_REGION": kit.REGION,
        "S3_ENDPOINT_URL": server.url,
    }

    def s5cmd(*words: str) -> list[str]:
        done = subprocess.run(
            [*program, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=client_programs.TIMEOUT_SECONDS,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout.splitlines()

    bucket = f"s3://{kit.unique_name()}"
    source = tmp_path / "source"
    source.mkdir()
    bodies = {f"f{number}": b"%d" % number for number in range(5)}
    bodies |= {"a b+é.txt": b"odd name", "large": hashlib.shake_256(b"s5").digest(12_000_000)}
    for name, data in bodies.items():
        (source / name).write_bytes(data)
    s5cmd("mb", bucket)
    s5cmd("cp", "--part-size", "5", "source/", f"{bucket}/in/")
    assert sorted(line.split(maxsplit=3)[3] for line in s5cmd("ls", f"{bucket}/in/")) == sorted(
        bodies
    )
    s5cmd("cp", "--part-size", "5", f"{bucket}/in/*", "copied/")
    copied = {path.name: path.read_bytes() for path in (tmp_path / "copied").iterdir()}
    assert copied == bodies
    assert s5cmd("cat", f"{bucket}/in/f3") == ["3"]
    (source / "f0").unlink()
    s5cmd("sync", "--delete", "source/", f"{bucket}/in/")
    s5cmd("mv", f"{bucket}/in/f1", f"{bucket}/out/f1")
    s5cmd("cp", f"{bucket}/in/a b+é.txt", f"{bucket}/out/odd")
    assert s5cmd("cat", f"{bucket}/out/odd") == ["odd name"]
    listed = {line.split(maxsplit=3)[3] for line in s5cmd("ls", f"{bucket}/*")}
    still = {f"in/{name}" for name in bodies if name not in ("f0", "f1")}
    assert listed == still | {"out/f1", "out/odd"}
    s5cmd("rm", f"{bucket}/*")
    s5cmd("rb", bucket)
