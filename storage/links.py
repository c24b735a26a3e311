"""engine: local paths of bodies, for engines that read files.

A body that is one whole blob file is linked, not copied; one that lies in the index or in several
segments is copied once into `cache/joined`. `directory` collects the files of one table snapshot
under given file names. A link keeps a blob's bytes even when the sweep removes its name.

Nothing here is durable: recovery empties the cache, so its state is kept in memory. Past its bounds
the cache removes the paths that were unused for longest, but none that was returned within IDLE_MS,
which is longer than any query runs. Paths go to other processes, which only read them. On a full
disk a spare cache in memory (or in the temporary folder) takes new paths, up to SPARE_BYTES_MAX of
joined bodies; symbolic links there lead to blobs. Blocks; for worker threads, and thread-safe.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Iterable
from pathlib import Path

from storage import errors
from storage.blobs import BATCH_BYTES, Blobs
from storage.disk import Disk
from storage.model import FileSlice, NewId, NowMs, ObjectInfo, Segment

JOINED_BYTES_MAX = 4 << 30
LINKED_MAX = 10_000
DIRECTORIES_MAX = 256
IDLE_MS = 60 * 60 * 1000
SPARE_BYTES_MAX = 64 << 20

_PLAIN_NAME = re.compile(r"[^/\x00]{1,255}\Z")


class Links:
    """The cache of local paths of one data folder."""

    def __init__(
        self,
        *,
        folder: Path,
        blobs: Blobs,
        disk: Disk,
        now_ms: NowMs,
        new_id: NewId,
        joined_bytes_max: int = JOINED_BYTES_MAX,
        linked_max: int = LINKED_MAX,
        directories_max: int = DIRECTORIES_MAX,
        idle_ms: int = IDLE_MS,
        is_spare: bool = False,
    ) -> None:
        self._is_spare = is_spare
        self._spare: Links | None = None
        self._folder = folder
        self._blobs = blobs
        self._disk = disk
        self._now_ms = now_ms
        self._new_id = new_id
        self._idle_ms = idle_ms
        self._lock = threading.Lock()
        self._joined = _Shelf(disk, folder / "joined", joined_bytes_max)
        self._linked = _Shelf(disk, folder / "linked", linked_max)
        self._directories = _Shelf(disk, folder / "directories", directories_max)

    def path_of(self, info: ObjectInfo) -> Path:
        """Return a file with exactly the object's bytes. Raises BodyMissing, DiskFull."""
        try:
            return self._path_of(info)
        except errors.DiskFull:
            if self._is_spare:
                raise
            return self._spare_cache().path_of(info)

    def _path_of(self, info: ObjectInfo) -> Path:
        with self._lock:
            blob = self._whole_blob(info)
            if blob is None:
                return self._join(info)
            path = self._linked.path(blob)
            if not self._linked.use(path, self._now_ms()):
                self._link(self._blobs.path_of(blob), path)
                self._linked.add(path, 1, self._now_ms())
                self._linked.trim(self._now_ms() - self._idle_ms)
            return path

    def directory(self, name: str, files: Iterable[tuple[str, ObjectInfo]]) -> Path:
        """Return a folder with each (file name, object). Raises BodyMissing, DiskFull.

        name identifies these files: an existing folder of that name is returned as it is.
        """
        listed = tuple(files)
        try:
            return self._directory(name, listed)
        except errors.DiskFull:
            if self._is_spare:
                raise
            return self._spare_cache().directory(name, listed)

    def present(self, name: str) -> Path | None:
        """Return the folder of that name if it is here; None if not, or if that is not known yet.

        It never blocks: while another thread links or joins, the answer is None.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            path = self._directories.path(_plain(name))
            return path if self._directories.use_present(path, self._now_ms()) else None
        finally:
            self._lock.release()

    def close(self) -> None:
        """Remove the spare cache, if there is one."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.remove()

    def remove(self) -> None:
        """Remove all of this cache."""
        self._disk.remove_tree(self._folder)

    def _spare_cache(self) -> Links:
        with self._lock:
            if self._spare is None:
                self._spare = Links(
                    folder=self._disk.spare_folder(),
                    blobs=self._blobs,
                    disk=self._disk,
                    now_ms=self._now_ms,
                    new_id=self._new_id,
                    joined_bytes_max=SPARE_BYTES_MAX,
                    idle_ms=self._idle_ms,
                    is_spare=True,
                )
            return self._spare

    def _directory(self, name: str, files: Iterable[tuple[str, ObjectInfo]]) -> Path:
        with self._lock:
            path = self._directories.path(_plain(name))
            if self._directories.use(path, self._now_ms()):
                return path
            aside = self._folder / "tmp" / self._new_id()
            self._disk.make_folder(aside)
            try:
                for file_name, info in files:
                    blob = self._whole_blob(info)
                    source = self._join(info) if blob is None else self._blobs.path_of(blob)
                    self._link(source, aside / _plain(file_name))
                self._disk.move(aside, path)
            except BaseException:
                self._disk.remove_tree(aside)
                raise
            self._directories.add(path, 1, self._now_ms())
            self._directories.trim(self._now_ms() - self._idle_ms)
            return path

    def _whole_blob(self, info: ObjectInfo) -> str | None:
        """Return the blob whose file is the object's body, if there is one."""
        if len(info.body.segments) != 1:
            return None
        segment = info.body.segments[0]
        if segment.indexed or segment.offset != 0:
            return None
        try:
            size_bytes = self._disk.size_bytes(self._blobs.path_of(segment.blob))
        except FileNotFoundError as error:
            raise errors.BodyMissing(
                f"blob {segment.blob} does not exist", blob=segment.blob
            ) from error
        return segment.blob if size_bytes == segment.length else None

    def _join(self, info: ObjectInfo) -> Path:
        path = self._joined.path(_identity(info.body.segments))
        if self._joined.use(path, self._now_ms()):
            return path
        if self._is_spare and not self._joined.has_room(info.size_bytes):
            raise errors.DiskFull("the disk has no room left, and neither has the spare cache")
        self._disk.make_folder(self._folder / "tmp")
        aside = self._folder / "tmp" / self._new_id()
        descriptor = self._disk.create(aside)
        try:
            try:
                for piece in self._blobs.slices(info.body):
                    for data in self._steps(piece):
                        self._disk.write(descriptor, data)
            finally:
                self._disk.close(descriptor)
            self._disk.move(aside, path)
        except BaseException:
            self._disk.unlink(aside)
            raise
        self._joined.add(path, info.size_bytes, self._now_ms())
        self._joined.trim(self._now_ms() - self._idle_ms)
        return path

    def _steps(self, piece: bytes | FileSlice) -> Iterable[bytes]:
        if isinstance(piece, bytes):
            return (piece,)
        return self._blobs.steps(piece, BATCH_BYTES)

    def _link(self, source: Path, target: Path) -> None:
        try:
            if self._is_spare and not source.is_relative_to(self._folder):
                self._disk.point(source, target)  # the blob is on another file system
            else:
                self._disk.link(source, target)
        except FileNotFoundError as error:
            raise errors.BodyMissing(
                f"blob {source.name} does not exist", blob=source.name
            ) from error


class _Shelf:
    """Paths of one sort, in order of last use; each has a weight, and their sum is bounded."""

    def __init__(self, disk: Disk, folder: Path, weight_max: int) -> None:
        self._disk = disk
        self._folder = folder
        self._weight_max = weight_max
        self._weight = 0
        self._entries: dict[Path, tuple[int, int]] = {}

    def path(self, name: str) -> Path:
        return self._folder / name

    def use(self, path: Path, now_ms: int) -> bool:
        """Return whether path is present, and record that it is used now.

        If it is not, its folder is there for it.
        """
        if self.use_present(path, now_ms):
            return True
        self._disk.make_folder(self._folder)
        return False

    def use_present(self, path: Path, now_ms: int) -> bool:
        """Return whether path is present, and record that it is used now."""
        entry = self._entries.pop(path, None)
        if entry is None:
            return False
        self._entries[path] = (entry[0], now_ms)
        return True

    def has_room(self, weight: int) -> bool:
        """Return whether a path of that weight fits beside the others."""
        return self._weight + weight <= self._weight_max

    def add(self, path: Path, weight: int, now_ms: int) -> None:
        self._entries[path] = (weight, now_ms)
        self._weight += weight

    def trim(self, idle_since_ms: int) -> None:
        """Remove the least recently used paths until the rest fits or is in use."""
        while self._weight > self._weight_max:
            path, (weight, used_at_ms) = next(iter(self._entries.items()))
            if used_at_ms >= idle_since_ms:
                return
            with contextlib.suppress(NotADirectoryError):
                self._disk.remove_tree(path)
            self._disk.unlink(path)
            del self._entries[path]
            self._weight -= weight


def _identity(segments: Iterable[Segment]) -> str:
    """Return a name for a body: equal for equal segments only."""
    described = ";".join(
        f"{segment.blob},{segment.offset},{segment.length}" for segment in segments
    )
    return hashlib.blake2b(described.encode(), digest_size=16).hexdigest()


def _plain(name: str) -> str:
    if not _PLAIN_NAME.match(name) or name in (".", ".."):
        raise ValueError(f"not a plain file name: {name!r}")
    return name
