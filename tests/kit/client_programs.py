"""Runs the programs of S3 clients against a server, which the environment names."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kit import s3 as kit
from tests.kit import server as server_kit
from tests.kit.server import Running

TIMEOUT_SECONDS = 300


def run(
    server: Running, command: list[str], *, folder: Path | None = None, with_bucket: bool = False
) -> str:
    """Run a command with URL, KEY, SECRET and BUCKET in its environment; return what it prints.

    with_bucket: the bucket exists; otherwise its name is a free one.
    """
    bucket = kit.new_bucket(kit.client(server)) if with_bucket else kit.unique_name()
    environment = {
        **server_kit.client_environment(),
        "URL": server.url,
        "KEY": server.access_key,
        "SECRET": server.secret_key,
        "BUCKET": bucket,
    }
    done = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
