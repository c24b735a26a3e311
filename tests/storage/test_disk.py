"""What the disk says of a file system that takes no writes."""

from __future__ import annotations

import errno
import fcntl
import mmap
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


def pages(count: int) -> memoryview:
    """Memory that begins with a page and holds no repetition at a page's length."""
    memory = mmap.mmap(-1, count * mmap.PAGESIZE)
    memory[:] = (bytes(range(251)) * (len(memory) // 251 + 1))[: len(memory)]
    return memoryview(memory)


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 7), (0, 7 * mmap.PAGESIZE), (0, 7 * mmap.PAGESIZE - 3), (5, 7 * mmap.PAGESIZE), (0, 0)],
)
@pytest.mark.parametrize("refusal", [None, errno.EINVAL])
def test_what_is_written_past_the_cache_is_what_was_given(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    start: int,
    stop: int,
    refusal: int | None,
) -> None:
    disk, path, data = Disk(), tmp_path / "a", pages(7)[start:stop]
    direct = getattr(os, "O_DIRECT", 0)
    written: list[bool] = []
    write = os.write

    def watched(descriptor: int, part: memoryview) -> int:
        is_direct = bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & direct)
        if is_direct and refusal:
            raise OSError(refusal, os.strerror(refusal))
        count = write(descriptor, part[: 2 * mmap.PAGESIZE])  # as the system may
        written.append(is_direct)
        return count

    monkeypatch.setattr(os, "write", watched)
    descriptor = disk.create(path)
    disk.write_past_cache(descriptor, data)
    disk.write(descriptor, b"after")
    disk.close(descriptor)
    assert path.read_bytes() == bytes(data) + b"after"
    if refusal:
        assert not any(written)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_fault_of_a_write_past_the_cache_is_no_reason_to_try_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    disk = Disk()
    tries = 0

    def refuse(*arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", refuse)
    descriptor = disk.create(tmp_path / "a")
    with pytest.raises(errors.DiskFull if number == errno.ENOSPC else OSError):
        disk.write_past_cache(descriptor, pages(2))
    disk.close(descriptor)
    assert tries == 1
