"""engine: local copies of the files that queries of mounted tables read.

The SQL engine reads local files alone, so a file is copied before it is read, once: files of
Iceberg tables never change. A copy is a blob that no record names: a restart removes it. Past the
bound the copies unused for longest are removed, but none that was returned within KEPT_SECONDS: a
query links what it reads a moment after it was returned. A query that needs more is refused.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import Final

from catalog import errors
from storage import blobs, disk, model

KEPT_SECONDS: Final = 15 * 60
FILES_AT_ONCE: Final = 24
"""Files that one caller waits for: after a failure no further ones are begun."""

Copy = Callable[[Callable[[bytes], None], int], int]
"""Passes a file's bytes to a function, of which there are at most so many; returns their number."""


class Mirror:
    """The copies of all mounts. Its state are copies alone."""

    def __init__(
        self,
        *,
        blobs: blobs.Blobs,
        disk: disk.Disk,
        scratch: Path,
        new_id: model.NewId,
        bytes_max: int,
    ) -> None:
        self._blobs = blobs
        self._disk = disk
        self._scratch = scratch
        self._new_id = new_id
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._copies: OrderedDict[tuple[str, str], tuple[model.ObjectInfo, float]] = OrderedDict()
        self._bytes = 0
        self._running: dict[tuple[str, str], asyncio.Future[None]] = {}

    def find(self, mount: str, uri: str) -> model.ObjectInfo:
        """Return the copy of a file as an object. Raises MetadataFileMissing if there is none."""
        with self._lock:
            copied = self._copies.get((mount, uri))
            if copied is None:
                raise errors.MetadataFileMissing(f"Failed to open input stream for file: {uri}")
            self._copies[mount, uri] = (copied[0], time.monotonic())
            self._copies.move_to_end((mount, uri))
            return copied[0]

    async def bring(
        self, mount: str, uris: Iterable[str], copy: Callable[[str], Copy], pool: Executor
    ) -> None:
        """Copy the files that are not here. Raises MetadataFileMissing, MountUnavailable, DiskFull.

        copy: of a URI. Several callers that need one file wait for one copy.
        """
        wanted = list(dict.fromkeys(uris))
        for start in range(0, len(wanted), FILES_AT_ONCE):
            await asyncio.sleep(0)
            await self._bring_some(mount, wanted[start : start + FILES_AT_ONCE], copy, pool)

    async def _bring_some(
        self, mount: str, uris: Iterable[str], copy: Callable[[str], Copy], pool: Executor
    ) -> None:
        waiting: list[asyncio.Future[None]] = []
        loop = asyncio.get_running_loop()
        for uri in uris:
            try:
                self.find(mount, uri)
            except errors.MetadataFileMissing:
                running = self._running.get((mount, uri))
                if running is None:
                    running = loop.run_in_executor(pool, self._copy, mount, uri, copy(uri))
                    self._running[mount, uri] = running
                    running.add_done_callback(
                        lambda _, key=(mount, uri): self._running.pop(key, None)  # type: ignore[misc]  # a default binds the key
                    )
                waiting.append(running)
        if waiting:
            results = await asyncio.gather(
                *(asyncio.shield(each) for each in waiting), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    def close(self) -> None:
        """Remove all copies."""
        with self._lock:
            for info, _ in self._copies.values():
                self._remove(info)
            self._copies.clear()
            self._bytes = 0

    def _copy(self, mount: str, uri: str, copy: Copy) -> None:
        self._disk.make_folder(self._scratch)
        aside = self._scratch / self._new_id()
        descriptor = self._disk.create(aside)
        try:
            try:
                size_bytes = copy(lambda data: self._disk.write(descriptor, data), self._bytes_max)
            finally:
                self._disk.close(descriptor)
            with self._lock:
                self._make_room(mount, size_bytes)
                body = self._blobs.shelve(aside)
                info = model.ObjectInfo(
                    bucket=mount,
                    key=uri,
                    version_id="",
                    size_bytes=size_bytes,
                    etag="",
                    crc64nvme=0,
                    modified_at_ms=0,
                    attributes=model.ObjectAttributes(),
                    body=body,
                )
                self._copies[mount, uri] = (info, time.monotonic())
                self._bytes += size_bytes
        except BaseException:
            self._disk.unlink(aside)
            raise

    def _make_room(self, mount: str, size_bytes: int) -> None:
        """Remove the copies unused for longest until one more fits. Raises MountUnavailable."""
        while self._bytes + size_bytes > self._bytes_max:
            if not self._copies:
                return
            key, (info, used_at) = next(iter(self._copies.items()))
            if used_at > time.monotonic() - KEPT_SECONDS:
                raise errors.MountUnavailable(
                    f"The files of the mount {mount} that queries read do not fit into the cache"
                    f" of {self._bytes_max >> 20} MiB: raise mount_cache_mib"
                )
            del self._copies[key]
            self._bytes -= info.size_bytes
            self._remove(info)

    def _remove(self, info: model.ObjectInfo) -> None:
        for segment in info.body.segments:
            self._blobs.unlink(segment.blob)
