"""The folder of pipelines: no entry of it keeps the others from being read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobs import folder

FILE = 'target = "lake.s.t"\nschedule = "@daily"\n'


@pytest.fixture
def pipelines(tmp_path: Path) -> folder.PipelineFolder:
    path = tmp_path / "pipelines"
    path.mkdir()
    (path / "good.toml").write_text(FILE)
    return folder.PipelineFolder(path)


def faults(pipelines: folder.PipelineFolder) -> dict[str, str]:
    return {name: each.error or "" for name, each in pipelines.read().items()}


def path_of(pipelines: folder.PipelineFolder) -> Path:
    assert pipelines.path is not None
    return pipelines.path


def test_an_entry_that_is_no_file_is_a_pipeline_with_an_error(
    pipelines: folder.PipelineFolder,
) -> None:
    path = path_of(pipelines)
    (path / "circle.toml").symlink_to("circle.toml")
    (path / "device.toml").symlink_to("/dev/zero")
    (path / "folder.toml").mkdir()
    (path / "none.toml").symlink_to("absent")
    os.mkfifo(path / "pipe.toml")
    (path / "bytes.toml").write_bytes(b"\xff")
    (path / "large.toml").write_bytes(b"#" * (folder.FILE_BYTES_MAX + 1))
    (path / os.fsdecode(b"n\xff.toml")).symlink_to(os.fsdecode(b"n\xff.toml"))
    (path / "link.toml").symlink_to("good.toml")
    errors = faults(pipelines)
    assert "none" not in errors
    assert (errors.pop("good"), errors.pop("link")) == ("", "")
    assert set(errors) == {"bytes", "circle", "device", "folder", "large", "n\ufffd", "pipe"}
    assert all(errors.values()), errors
    assert "".join(errors.values()).encode()
    assert "is larger than 1 MiB" in errors["large"]


def test_more_files_than_are_read_have_an_error_each(
    pipelines: folder.PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "PIPELINES_MAX", 1)
    (path_of(pipelines) / "later.toml").write_text(FILE)
    assert faults(pipelines) == {
        "good": "", "later": "the folder has more than 1 pipelines"
    }  # fmt: skip


def test_a_file_that_every_user_may_write_is_not_run_until_its_mode_changes(
    pipelines: folder.PipelineFolder,
) -> None:
    file = path_of(pipelines) / "good.toml"
    file.chmod(0o666)
    assert "every user may write" in faults(pipelines)["good"]
    file.chmod(0o664)
    assert faults(pipelines)["good"] == ""


def test_no_file_of_a_folder_that_every_user_may_write_into_is_run(
    pipelines: folder.PipelineFolder,
) -> None:
    path_of(pipelines).chmod(0o1777)
    assert "every user may write into the folder" in faults(pipelines)["good"]


def test_no_file_of_a_folder_that_another_user_has_put_there_is_run(
    pipelines: folder.PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(pipelines)
    if os.geteuid() == 0:
        os.chown(path, 12_345, -1)
    else:
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
    assert faults(pipelines)["good"] == ""
    path.parent.chmod(0o1777)
    assert "belongs to another user" in faults(pipelines)["good"]
