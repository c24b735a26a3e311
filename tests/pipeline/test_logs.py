"""Where Spark's own output is kept: few files, none of them large."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import logs


def test_the_folder_is_the_one_that_is_named_else_in_the_cache(tmp_path: Path) -> None:
    assert logs.folder({"BOATHOUSE_LOGS": "/a/b", "BOATHOUSE_CACHE": "/c"}) == Path("/a/b")
    assert logs.folder({"BOATHOUSE_CACHE": "/c"}) == Path("/c/logs")


def test_a_new_log_is_its_users_alone_and_the_oldest_ones_leave(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "logs"
    folder.mkdir(parents=True)
    (folder / "other.txt").touch()
    created = [logs.new(folder) for _ in range(logs.LOGS_MAX + 3)]
    paths = [path for path in created if path is not None]
    assert sorted(folder.glob("spark-*.log")) == paths[3:]
    assert (folder / "other.txt").exists()
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths[3:]} == {0o600}


def test_a_folder_that_cannot_be_written_costs_the_log_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").write_text("a file")
    assert logs.new(tmp_path / "logs") is None
    assert capsys.readouterr().err.startswith("pipeline: Spark's log is not kept: ")


def test_a_log_keeps_all_that_a_process_says_up_to_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = logs.new(tmp_path)
    assert path is not None
    said = copied(path, "print('first'); print('last')")
    assert said == "first\nlast\n"
    monkeypatch.setattr(logs, "LOG_BYTES_MAX", 100_000)
    said = copied(path, "for number in range(200_000): print(f'line {number}')")
    lines = said.splitlines()
    assert len(said) <= 100_000
    assert lines[0] == "... what stood here is left out ..."
    first = int(lines[1].removeprefix("line "))
    assert lines[1:] == [f"line {number}" for number in range(first, 200_000)]


def copied(path: Path, program: str) -> str:
    """Return what is in a log after a program has written into it."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as output, logs.copying(output, path):
        process.wait(60)
    return path.read_text()
