"""engine: stores chunks of results until they are fetched, in memory and then in files.

A file is written without a sync, because a result does not outlive the process; the folder is
emptied at start. A chunk without references frees its room, so results that share chunks need no
counter.
"""

from __future__ import annotations

import asyncio
import weakref
from pathlib import Path

from sql import limits
from storage import disk as disks
from storage import model


class ShelvedBytes:
    """Bytes on the shelf, or in a file. Dropping the last reference frees them."""

    __slots__ = ("__weakref__", "piece", "size_bytes")

    def __init__(self, piece: bytes | memoryview | model.FileSlice, size_bytes: int) -> None:
        self.piece = piece
        self.size_bytes = size_bytes


class Shelf:
    """Keeps chunks. folder is this shelf's alone, and is emptied when the first file is written."""

    def __init__(
        self,
        *,
        folder: Path,
        disk: disks.Disk,
        new_id: model.NewId,
        memory_bytes_max: int = limits.RESULTS_MEMORY_BYTES_MAX,
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._new_id = new_id
        self._memory_bytes_max = memory_bytes_max
        self._folder_is_ready = False
        self.memory_bytes = 0

    async def keep(self, data: bytes | memoryview) -> ShelvedBytes:
        """Return data, kept; no one may write into its memory. Raises DiskFull."""
        if self.memory_bytes + len(data) <= self._memory_bytes_max:
            self.memory_bytes += len(data)
            kept = ShelvedBytes(data, len(data))
            weakref.finalize(kept, self._release, len(data))
            return kept
        if not self._folder_is_ready:
            self._disk.remove_tree(self._folder)
            self._disk.make_folder(self._folder)
            self._folder_is_ready = True
        path = self._folder / self._new_id()
        kept = ShelvedBytes(model.FileSlice(path=path, offset=0, length=len(data)), len(data))
        weakref.finalize(kept, self._disk.unlink, path)
        await asyncio.to_thread(self._write, path, data)
        return kept

    def _release(self, size_bytes: int) -> None:
        self.memory_bytes -= size_bytes

    def _write(self, path: Path, data: bytes | memoryview) -> None:
        descriptor = self._disk.create(path)
        try:
            self._disk.write(descriptor, data)
        finally:
            self._disk.close(descriptor)
