"""Temporary folders of jobs: private, and removed also where a job is killed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import workfolders
from tests.kit import server as server_kit

JOB = """
import time
from pipeline import workfolders
with workfolders.opened() as folder:
    (folder / "copy").write_bytes(b"rows")
    print(folder, flush=True)
    time.sleep(300)
"""


@contextlib.contextmanager
def job(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a process that has a folder, until the block ends or it is killed there."""
    process = subprocess.Popen(
        [sys.executable, "-c", JOB],
        stdout=subprocess.PIPE,
        text=True,
        cwd=server_kit.ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert process.stdout is not None
    with process.stdout as output:
        try:
            yield process, Path(output.readline().strip())
        finally:
            process.kill()
            process.wait()


def test_a_folder_is_this_users_and_goes_away() -> None:
    with workfolders.opened() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "spark.log").touch()
    assert not folder.exists()


def test_the_next_job_removes_what_a_killed_one_left_and_nothing_of_a_live_one(
    server: server_kit.Running, tmp_path: Path
) -> None:
    other = tmp_path / "boathouse-of-another-program"
    other.mkdir()
    with job(tmp_path) as (_, live), job(tmp_path) as (killed, left):
        killed.kill()
        killed.wait()
        assert (left / "copy").read_bytes() == b"rows"
        history = subprocess.run(
            [sys.executable, "-m", "pipeline", "history", "--data", str(server.data)],
            capture_output=True,
            text=True,
            cwd=server_kit.ROOT,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            timeout=120,
            check=False,
        )
        assert history.returncode == 0, history.stderr
        assert (live / "copy").read_bytes() == b"rows"
        assert sorted(tmp_path.iterdir()) == sorted([live, other])


def test_a_link_that_looks_like_a_folder_of_a_job_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (tmp_path / "temporary").mkdir()
    (tmp_path / "temporary" / f"{workfolders.PREFIX}x").symlink_to(kept)
    assert workfolders.remove_abandoned() == 0
    assert (kept / "file").exists()


def test_a_folder_that_another_job_takes_for_an_abandoned_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    new_folder = tempfile.mkdtemp
    removed: list[int] = []

    def mkdtemp(**options: str) -> str:
        path = new_folder(**options)
        if not removed:
            removed.append(workfolders.remove_abandoned())
        return path

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with workfolders.opened() as folder:
        assert removed == [1]
        assert list(tmp_path.iterdir()) == [folder]
        assert workfolders.remove_abandoned() == 0


def test_a_folder_that_cannot_be_locked_is_none_that_other_jobs_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with contextlib.ExitStack() as stack:
        with monkeypatch.context() as patched:
            patched.setattr(fcntl, "flock", refused)
            folder = stack.enter_context(workfolders.opened())
        workfolders.remove_abandoned()  # where locks work
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []
