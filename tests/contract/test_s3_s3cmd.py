"""S3 as s3cmd uses it, in an environment of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import client_programs, environments
from tests.kit import s3 as kit
from tests.kit.server import Running

S3cmd = Callable[..., str]


@pytest.fixture
def s3cmd(server: Running, tmp_path: Path) -> S3cmd:
    settings = tmp_path / "s3cfg"
    settings.write_text(
        "\n".join(
            (
                "[default]",
                f"access_key = {server.access_key}",
                f"secret_key = {server.secret_key}",
                f"host_base = {server.url.removeprefix('http://')}",
                f"host_bucket = {server.url.removeprefix('http://')}",
                "use_https = False",
                "max_retries = 1",
            )
        )
    )
    program = [str(environments.program("s3clients", "s3cmd")), "-c", str(settings)]

    def run(*words: str) -> str:
        return client_programs.run(server, [*program, *words], folder=tmp_path)

    return run


def test_s3cmd_puts_in_parts_lists_gets_and_removes(s3cmd: S3cmd, tmp_path: Path) -> None:
    bucket = kit.unique_name()
    body = hashlib.shake_256(b"s3cmd").digest(12_000_000)
    (tmp_path / "large.bin").write_bytes(body)
    s3cmd("mb", f"s3://{bucket}")
    s3cmd("put", "large.bin", f"s3://{bucket}/in/a b+é.bin", "--multipart-chunk-size-mb=5")
    assert f"s3://{bucket}/in/a b+é.bin" in s3cmd("ls", "-r", f"s3://{bucket}")
    s3cmd("get", f"s3://{bucket}/in/a b+é.bin", "back.bin")
    assert (tmp_path / "back.bin").read_bytes() == body
    s3cmd("rb", "-r", "-f", f"s3://{bucket}")
    assert bucket not in s3cmd("ls")


@pytest.mark.clients
def test_s3cmd_syncs_copies_and_sets_rules(s3cmd: S3cmd, tmp_path: Path) -> None:
    bucket = kit.unique_name()
    source = tmp_path / "source"
    for number in range(9):
        path = source / f"d{number % 3}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number * 100)
    s3cmd("mb", f"s3://{bucket}")
    s3cmd("sync", "source/", f"s3://{bucket}/tree/")
    assert "upload" not in s3cmd("sync", "source/", f"s3://{bucket}/tree/")
    s3cmd("sync", f"s3://{bucket}/tree/", "back/")
    assert (tmp_path / "back" / "d1" / "f4").read_bytes() == b"4" * 100
    s3cmd("cp", f"s3://{bucket}/tree/d1/f4", f"s3://{bucket}/copy")
    s3cmd("mv", f"s3://{bucket}/copy", f"s3://{bucket}/moved")
    assert "100" in s3cmd("info", f"s3://{bucket}/moved")
    s3cmd("settagging", f"s3://{bucket}/moved", "team=blue")
    assert "blue" in s3cmd("gettagging", f"s3://{bucket}/moved")
    s3cmd("expire", f"s3://{bucket}", "--expiry-days=30", "--expiry-prefix=tree/")
    assert "<Days>30</Days>" in s3cmd("getlifecycle", f"s3://{bucket}")
    s3cmd("rb", "-r", "-f", f"s3://{bucket}")
