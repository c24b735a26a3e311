"""engine: the file of a body that is being received: written in `tmp/`, then moved to `blobs/`.

A file that is published is durable under its name, and never changes. Threads of the server write
such files, and the processes of `server.receiving_child`; naming them in the index is the server's.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from storage.disk import Disk

WRITEBACK_BYTES = 4 << 20
"""After so many bytes the system is let start to write them to the disk."""


class BodyFile:
    """One file. Mutable; used by one thread at a time.

    aside: its path until it is whole. place: its path then, with the same name: the blob's.
    """

    def __init__(self, *, disk: Disk, aside: Path, place: Path) -> None:
        self._disk = disk
        self.aside = aside
        self.place = place
        self._descriptor: int | None = None
        self._passed_bytes = 0
        self.size_bytes = 0

    @property
    def blob(self) -> str:
        """The blob's name."""
        return self.place.name

    def write(self, data: bytes | memoryview) -> None:
        """Append data. The first call creates the file. Raises DiskFull."""
        if self._descriptor is None:
            self._descriptor = self._disk.create(self.aside)
        self._disk.write(self._descriptor, data)
        self.size_bytes += len(data)
        if self.size_bytes - self._passed_bytes >= WRITEBACK_BYTES:
            # Otherwise `publish` waits for the whole body at its end.
            self._disk.start_writeback(self._descriptor, self._passed_bytes, self.size_bytes)
            self._passed_bytes = self.size_bytes

    def publish(self) -> None:
        """Make the file durable under its name. Raises DiskFull."""
        assert self._descriptor is not None, "nothing was written"
        self._disk.fsync(self._descriptor)
        self.close()
        self._disk.move(self.aside, self.place)
        # A move is durable only once its folder is: without this a crash loses a body that the
        # index names.
        self._disk.fsync_folder(self.place.parent)

    def written_bytes(self) -> int | None:
        """Return how much a process has written; None if the file is not there."""
        for path in (self.aside, self.place):  # in this order, as it may be moved in between
            with contextlib.suppress(FileNotFoundError):
                return self._disk.size_bytes(path)
        return None

    def remove(self) -> None:
        """Remove the file, under whichever of its names it has; an absent one is ignored."""
        self.close()
        self._disk.unlink(self.aside)
        self._disk.unlink(self.place)

    def close(self) -> None:
        """Write no more. The file stays as it is."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            self._disk.close(descriptor)
