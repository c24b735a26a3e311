"""What the disk says of a file system that takes no writes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage import errors
from storage.disk import Disk


@pytest.mark.parametrize(
    ("number", "error_class"),
    [
        (errno.ENOSPC, errors.DiskFull),
        (errno.EDQUOT, errors.DiskFull),
        (errno.EROFS, errors.DiskReadOnly),
        (errno.EFBIG, errors.DiskReadOnly),
    ],
)
@pytest.mark.parametrize(
    "action", ["mkdir", "open", "write", "link", "symlink", "replace", "unlink"]
)
def test_a_write_that_the_system_refuses_is_named_by_its_cause(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    number: int,
    error_class: type[Exception],
) -> None:
    disk, path = Disk(), tmp_path / "a"
    path.write_bytes(b"a")
    actions: dict[str, Callable[[], Any]] = {
        "mkdir": lambda: disk.make_folder(tmp_path / "folder"),
        "open": lambda: disk.create(tmp_path / "b"),
        "write": lambda: disk.write(3, b"a"),
        "link": lambda: disk.link(path, tmp_path / "b"),
        "symlink": lambda: disk.point(path, tmp_path / "b"),
        "replace": lambda: disk.move(path, tmp_path / "b"),
        "unlink": lambda: disk.unlink(path),
    }

    def refuse(*arguments: Any, **named: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, action, refuse)
    with pytest.raises(error_class) as caught:
        actions[action]()
    assert type(caught.value) is error_class
