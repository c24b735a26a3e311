"""engine: the folder of the server's pipelines, `NAME.toml`, read again where a file has changed.

A folder that is absent has no pipelines. A file that cannot be read is a pipeline with an error, as
is one that every user of the machine may write or put there: its SQL runs with the server's rights.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jobs import schedules

PIPELINES_MAX: Final = 1_000
FILE_BYTES_MAX: Final = 1024 * 1024
SUFFIX: Final = ".toml"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Version:
    """A file as it was read, by what changes when it is written."""

    changed_ns: int
    size_bytes: int
    inode: int
    pipeline: schedules.ScheduledPipeline


class PipelineFolder:
    """A folder of pipelines. Mutable: it remembers what it has read. path: None for no folder."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._versions: dict[str, _Version] = {}

    def read(self) -> dict[str, schedules.ScheduledPipeline]:
        """Return the pipelines by name, each with its error if it has one. Called in a thread."""
        versions: dict[str, _Version] = {}
        pipelines: dict[str, schedules.ScheduledPipeline] = {}
        refusal = "" if self.path is None else _refusal(self.path)
        for number, entry in enumerate(self._entries()):
            name = os.fsencode(entry.name).decode("utf-8", "replace").removesuffix(SUFFIX)
            if number >= PIPELINES_MAX:
                error = f"the folder has more than {PIPELINES_MAX:,} pipelines"
                pipelines[name] = _broken(name, error)
                continue
            try:
                state = entry.stat()
                version = self._versions.get(name)
                sign = (state.st_ctime_ns, state.st_size, state.st_ino)
                if version is None or sign != (
                    version.changed_ns, version.size_bytes, version.inode
                ):  # fmt: skip
                    version = _Version(
                        changed_ns=state.st_ctime_ns,
                        size_bytes=state.st_size,
                        inode=state.st_ino,
                        pipeline=_read(Path(entry.path), name, state.st_mode),
                    )
                versions[name] = version
                pipelines[name] = version.pipeline
            except FileNotFoundError:  # removed since it was listed
                continue
            except OSError as error:
                pipelines[name] = _broken(name, f"{entry.path} cannot be read: {error}")
            if refusal:
                pipelines[name] = _broken(name, refusal)
        self._versions = versions
        return schedules.check_order(pipelines)

    def _entries(self) -> list[os.DirEntry[str]]:
        if self.path is None:
            return []
        try:
            with os.scandir(self.path) as entries:
                files = [each for each in entries if each.name.endswith(SUFFIX)]
        except OSError:
            return []
        return sorted(files, key=lambda each: each.name)


def _refusal(folder: Path) -> str:
    """Return why no file of a folder is run: who else may put files there; "" for no reason."""
    try:
        state, above = folder.stat(), folder.parent.stat()
    except OSError:
        return ""
    if state.st_mode & stat.S_IWOTH:
        return f"every user may write into the folder {folder}; run `chmod o-w` on it"
    if above.st_mode & stat.S_IWOTH and state.st_uid not in (0, os.geteuid()):
        return f"the folder {folder} belongs to another user, in a folder that all may write into"
    return ""


def _read(path: Path, name: str, mode: int) -> schedules.ScheduledPipeline:
    if not stat.S_ISREG(mode):  # a pipe keeps its reader waiting, and a device may have no end
        return _broken(name, f"{path} is no file")
    if mode & stat.S_IWOTH:
        return _broken(name, f"every user may write {path}; run `chmod o-w` on it")
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        return _broken(name, f"{path} is larger than {FILE_BYTES_MAX >> 20} MiB")
    try:
        return schedules.read(name, content.decode())
    except UnicodeDecodeError as error:
        return _broken(name, f"{path} cannot be read: {error}")


def _broken(name: str, error: str) -> schedules.ScheduledPipeline:
    # A path may have bytes that are no UTF-8, which an answer cannot hold.
    text = error.encode("utf-8", "replace").decode()
    return schedules.ScheduledPipeline(name=name, error=text)
