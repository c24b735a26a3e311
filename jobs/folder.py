"""engine: the folder of the server's pipelines, `NAME.toml`, read again where a file has changed.

A folder that is absent has no pipelines. A file that cannot be read is a pipeline with an error.
"""

from __future__ import annotations

import os
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
        for entry in self._entries():
            name = entry.name.removesuffix(SUFFIX)
            try:
                state = entry.stat()
                version = self._versions.get(name)
                sign = (state.st_mtime_ns, state.st_size, state.st_ino)
                if version is None or sign != (
                    version.changed_ns, version.size_bytes, version.inode
                ):  # fmt: skip
                    version = _Version(
                        changed_ns=state.st_mtime_ns,
                        size_bytes=state.st_size,
                        inode=state.st_ino,
                        pipeline=_read(Path(entry.path), name, state.st_size),
                    )
                versions[name] = version
            except FileNotFoundError:  # removed since it was listed
                continue
        self._versions = versions
        return schedules.check_order({name: each.pipeline for name, each in versions.items()})

    def _entries(self) -> list[os.DirEntry[str]]:
        if self.path is None:
            return []
        try:
            with os.scandir(self.path) as entries:
                files = [each for each in entries if each.name.endswith(SUFFIX)]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return []
        return sorted(files, key=lambda each: each.name)[:PIPELINES_MAX]


def _read(path: Path, name: str, size_bytes: int) -> schedules.ScheduledPipeline:
    if size_bytes > FILE_BYTES_MAX:
        reason = f"{path} is larger than {FILE_BYTES_MAX >> 20} MiB"
        return schedules.ScheduledPipeline(name=name, error=reason)
    try:
        return schedules.read(name, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        return schedules.ScheduledPipeline(name=name, error=f"{path} cannot be read: {error}")
