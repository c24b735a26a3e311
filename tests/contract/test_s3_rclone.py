"""S3 as rclone uses it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import s3 as kit
from tests.kit import server as server_kit
from tests.kit.server import Running

Rclone = Callable[..., str]


@pytest.fixture
def rclone(server: Running, tmp_path: Path) -> Rclone:
    program = Path(sys.executable).parent / "rclone"
    environment = {
        **server_kit.client_environment(),
        "RCLONE_CONFIG": str(tmp_path / "none"),
        "RCLONE_CONFIG_BOAT_TYPE": "s3",
        "RCLONE_CONFIG_BOAT_PROVIDER": "Other",
        "RCLONE_CONFIG_BOAT_ENDPOINT": server.url,
        "RCLONE_CONFIG_BOAT_ACCESS_KEY_ID": server.access_key,
        "RCLONE_CONFIG_BOAT_SECRET_ACCESS_KEY": server.secret_key,
        "RCLONE_CONFIG_BOAT_REGION": kit.REGION,
        "RCLONE_RETRIES": "1",
        "RCLONE_LOW_LEVEL_RETRIES": "1",
    }

    def run(*words: str) -> str:
        done = subprocess.run(
            [str(program), *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_rclone_copies_checks_and_lists(rclone: Rclone, tmp_path: Path) -> None:
    bucket = kit.unique_name()
    source = tmp_path / "source"
    source.mkdir()
    (source / "large.bin").write_bytes(hashlib.shake_256(b"rclone").digest(7_000_000))
    (source / "a b+é.txt").write_text("odd name")
    rclone("copy", "source", f"boat:{bucket}/in", "--s3-upload-cutoff=5Mi", "--s3-chunk-size=5Mi")
    rclone("check", "source", f"boat:{bucket}/in", "--download")
    assert sorted(rclone("lsf", f"boat:{bucket}/in").split("\n")) == [
        "", "a b+é.txt", "large.bin",
    ]  # fmt: skip


@pytest.mark.clients
def test_rclone_syncs_moves_and_purges(rclone: Rclone, tmp_path: Path) -> None:
    bucket = kit.unique_name()
    source = tmp_path / "source"
    for number in range(15):
        path = source / f"d{number % 4}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number * 100)
    rclone("mkdir", f"boat:{bucket}")
    rclone("sync", "source", f"boat:{bucket}/tree")
    (source / "d0" / "f0").unlink()
    rclone("sync", "source", f"boat:{bucket}/tree")
    assert rclone("check", "source", f"boat:{bucket}/tree") == ""
    rclone("moveto", f"boat:{bucket}/tree/d1", f"boat:{bucket}/moved")
    assert rclone("cat", f"boat:{bucket}/moved/f1") == "1" * 100
    assert "14" in rclone("size", f"boat:{bucket}")
    rclone("purge", f"boat:{bucket}")
    assert bucket not in rclone("lsd", "boat:")
