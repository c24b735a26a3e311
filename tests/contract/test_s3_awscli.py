"""S3 as the AWS command line uses it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import environments
from tests.kit import s3 as kit
from tests.kit import server as server_kit
from tests.kit.server import Running

Aws = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def aws(server: Running, tmp_path: Path) -> Aws:
    program = environments.program("awscli", "aws")
    environment = {
        **server_kit.client_environment(),
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_DEFAULT_REGION": kit.REGION,
        "AWS_ENDPOINT_URL": server.url,
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_MAX_ATTEMPTS": "1",
    }

    def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(program), *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


def test_awscli_copies_in_lists_and_copies_out(server: Running, aws: Aws, tmp_path: Path) -> None:
    bucket = kit.unique_name()
    body = hashlib.shake_256(b"awscli").digest(9_000_000)
    (tmp_path / "large.bin").write_bytes(body)
    aws("s3", "mb", f"s3://{bucket}")
    aws("s3", "cp", "large.bin", f"s3://{bucket}/in/large.bin", "--only-show-errors")
    assert "large.bin" in aws("s3", "ls", f"s3://{bucket}/in/").stdout
    aws("s3", "cp", f"s3://{bucket}/in/large.bin", "back.bin", "--only-show-errors")
    assert (tmp_path / "back.bin").read_bytes() == body


@pytest.mark.clients
def test_awscli_syncs_both_ways_and_removes(server: Running, aws: Aws, tmp_path: Path) -> None:
    bucket = kit.unique_name()
    source = tmp_path / "source"
    for number in range(12):
        path = source / f"d{number % 3}" / f"f {number}+é.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"body {number}")
        # S3's times have whole seconds: a file that changed in the second of its PUT is newer.
        changed_at = time.time() - 2
        os.utime(path, (changed_at, changed_at))
    aws("s3", "mb", f"s3://{bucket}")
    aws("s3", "sync", "source", f"s3://{bucket}/tree", "--only-show-errors")
    assert aws("s3", "sync", "source", f"s3://{bucket}/tree").stdout == ""
    aws("s3", "sync", f"s3://{bucket}/tree", "back", "--only-show-errors")
    contents = {p.relative_to(source): p.read_text() for p in source.rglob("*.txt")}
    back = tmp_path / "back"
    assert {p.relative_to(back): p.read_text() for p in back.rglob("*.txt")} == contents
    aws("s3", "mv", f"s3://{bucket}/tree/d0", f"s3://{bucket}/moved", "--recursive")
    aws("s3", "rb", f"s3://{bucket}", "--force")
    assert bucket not in aws("s3", "ls").stdout


@pytest.mark.clients
def test_awscli_api_commands_answer_as_documented(server: Running, aws: Aws) -> None:
    bucket = kit.unique_name()
    aws("s3api", "create-bucket", "--bucket", bucket)
    location = json.loads(aws("s3api", "get-bucket-location", "--bucket", bucket).stdout)
    assert location == {"LocationConstraint": None}
    assert aws("s3api", "get-bucket-versioning", "--bucket", bucket).stdout.strip() == ""
    refused = aws("s3api", "get-bucket-policy", "--bucket", bucket, check=False)
    assert "NoSuchBucketPolicy" in refused.stderr
    refused = aws(
        "s3api",
        "put-bucket-versioning",
        "--bucket",
        bucket,
        "--versioning-configuration",
        "Status=Enabled,MFADelete=Enabled",
        check=False,
    )
    assert "NotImplemented" in refused.stderr
    missing = aws("s3api", "head-object", "--bucket", bucket, "--key", "k", check=False)
    assert "404" in missing.stderr
