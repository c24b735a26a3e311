"""engine: the only place that opens, writes, moves, links, fsyncs and unlinks files.

Everything that must survive a power cut goes through a Disk, so that tests can replace it by one
that stops at the n-th sync and loses or tears pending writes. `write_file` is the one recipe for a
small durable file: write aside, fsync, move, fsync the directory. `transact` is where the index
commits its transaction, because LMDB writes that file itself.

A Disk does not interpret files and has no state; without room it raises `DiskFull`, and
`DiskReadOnly` where the system takes no writes: a file system that was mounted read-only, as Linux
does after a fault of the device, or a limit on the size of files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from storage import errors

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
READ_ONLY = frozenset({errno.EROFS, errno.EFBIG})
READ_ONLY_TEXTS = tuple(os.strerror(number) for number in READ_ONLY)
"""How LMDB names them."""
COPY_STEP_BYTES = 1 << 20
SHARED_MEMORY = Path("/dev/shm")

Result = TypeVar("Result")


class Disk:
    """The local file system. One method per action that a crash can interrupt."""

    def make_folder(self, path: Path) -> None:
        """Create path and its parents, private to this user; existing ones are not changed."""
        with _naming_full_disk(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def make_folders(self, parent: Path, names: Iterable[str]) -> None:
        """Create many folders in parent, as `make_folder` does."""
        with _naming_full_disk(parent):
            for name in names:
                try:
                    os.mkdir(f"{parent}/{name}", mode=0o700)  # noqa: PTH102 - half of the cost
                except FileExistsError:
                    if not (parent / name).is_dir():
                        raise

    def make_durable_folder(self, path: Path) -> None:
        """Create path and its missing parents; each is durable in its parent before the next."""
        missing = [each for each in (path, *path.parents) if not each.exists()]
        for folder in reversed(missing):
            self.make_folder(folder)
            self.fsync_folder(folder.parent)

    def let_create(self, folder: Path, work: Callable[[], Result]) -> Result:
        """Run a library's function that creates its own files in folder; none is durable yet."""
        with _naming_full_disk(folder):
            return work()

    def create(self, path: Path, *, mode: int = 0o600) -> int:
        """Create path, which must be absent, for writing; return its descriptor."""
        with _naming_full_disk(path):
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        """Append all of data."""
        view = memoryview(data)
        with _naming_full_disk(None):
            while view:
                view = view[os.write(descriptor, view) :]

    def write_past_cache(self, descriptor: int, data: bytes | memoryview) -> None:
        """Append all of data, for the disk and not for the system's cache, where that is possible.

        The disk then reads the caller's memory itself: a fifth of the processor time. It takes data
        that begins with a page of memory; a last part of a page, and other data, are written as
        `write` does. What is read again soon is faster in the cache.
        """
        view = memoryview(data)
        pages = view[: len(view) - len(view) % mmap.PAGESIZE]
        with _naming_full_disk(None):
            while pages:
                count = _written_directly(descriptor, pages)
                if not count:
                    break
                view, pages = view[count:], pages[count:]
        self.write(descriptor, view)

    def fsync(self, descriptor: int) -> None:
        """Make written bytes durable; on macOS in the drive's own cache too."""
        with _naming_full_disk(None):
            if sys.platform == "darwin":
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            else:
                os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Close a descriptor of `create` or `open`."""
        os.close(descriptor)

    def start_writeback(self, descriptor: int, start: int, stop: int) -> None:
        """Let the system start to write a range of a file to the disk; makes nothing durable.

        Does nothing where the system has no such call.
        """
        if sys.platform == "linux":
            # Linux writes dirty pages of a range that will not be read soon, without a wait.
            os.posix_fadvise(descriptor, start, stop - start, os.POSIX_FADV_DONTNEED)

    def fsync_folder(self, path: Path) -> None:
        """Make the names in a folder durable: a crash undoes a move whose folder is not synced."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.fsync(descriptor)
        finally:
            os.close(descriptor)

    def fsync_path(self, path: Path) -> None:
        """Make a file that another process wrote durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.fsync(descriptor)
        finally:
            os.close(descriptor)

    def move(self, source: Path, target: Path) -> None:
        """Rename source to target, replacing it."""
        with _naming_full_disk(target):
            source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        """Give source's file target as a second name, which must be absent."""
        with _naming_full_disk(target):
            os.link(source, target)

    def make_read_only(self, path: Path) -> None:
        """Remove this user's write permission on a file, if the file system has permissions.

        An absent file is ignored.
        """
        with contextlib.suppress(FileNotFoundError, PermissionError):
            path.chmod(0o400)

    def is_read_only(self, path: Path) -> bool:
        """Return whether `make_read_only` was called for a file."""
        return not path.stat().st_mode & 0o200

    def point(self, source: Path, target: Path) -> None:
        """Make target, which must be absent, a symbolic link to source."""
        with _naming_full_disk(target):
            target.symlink_to(source)

    def spare_folder(self) -> Path:
        """Create an empty folder, private to this user and not on the data folder's disk: in memory
        if the system has a file system there, otherwise with temporary files."""
        memory = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        with _naming_full_disk(None):
            return Path(tempfile.mkdtemp(prefix="boathouse-", dir=memory))

    def unlink(self, path: Path) -> None:
        """Remove a name; an absent one is ignored."""
        with _naming_full_disk(path):
            path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a folder and all below it; an absent one is ignored."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def write_file(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        """Replace path by data durably: after a crash it holds the old bytes or the new ones."""
        aside = path.with_name(path.name + ".new")
        self.unlink(aside)
        descriptor = self.create(aside, mode=mode)
        try:
            self.write(descriptor, data)
            self.fsync(descriptor)
        finally:
            self.close(descriptor)
        self.move(aside, path)
        self.fsync_folder(path.parent)

    def allocate(self, path: Path, size_bytes: int) -> None:
        """Create path, which must be absent, and allocate size_bytes of disk space to it."""
        descriptor = self.create(path)
        try:
            zeros = bytes(min(size_bytes, COPY_STEP_BYTES))
            left = size_bytes
            while left > 0:
                self.write(descriptor, zeros[: min(left, len(zeros))])
                left -= len(zeros)
            self.fsync(descriptor)
        finally:
            self.close(descriptor)

    def exists(self, path: Path) -> bool:
        """Return whether path exists."""
        return path.exists()

    def size_bytes(self, path: Path) -> int:
        """Return the length of a file."""
        return path.stat().st_size

    def room_bytes(self, path: Path) -> int:
        """Return how many bytes this user may still write to the disk that path lies on."""
        state = os.statvfs(path)
        return state.f_bavail * state.f_frsize

    def names(self, path: Path) -> list[str]:
        """Return the names in a folder, in no order."""
        return [entry.name for entry in path.iterdir()]

    def open(self, path: Path) -> int:
        """Open path for reading; return its descriptor."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read_at(self, descriptor: int, offset: int, count: int) -> bytes:
        """Return up to count bytes from offset on; fewer only at the end of the file."""
        return os.pread(descriptor, count, offset)

    def send_at(self, descriptor: int, offset: int, count: int, *, to: int) -> int:
        """Send up to count bytes from offset on to the socket `to`; return how many it accepted.

        0 at the end of the file. Raises BlockingIOError while the socket accepts none.
        """
        return os.sendfile(to, descriptor, offset, count)

    def read_file(self, path: Path) -> bytes:
        """Return the content of a small file."""
        return path.read_bytes()

    def lock(self, path: Path) -> int:
        """Lock the file at path; the lock ends with this process.

        Raises FolderInUse if another process, or this one, already holds it.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise errors.FolderInUse(
                f"another process holds the data folder {path.parent}", path=str(path.parent)
            ) from error
        return descriptor

    def transact(self, commit: Callable[[], Any]) -> None:
        """Commit an index transaction: LMDB syncs its data, then its meta page."""
        commit()


def _written_directly(descriptor: int, pages: memoryview) -> int:
    """Write pages without the system's cache; return how many bytes, 0 if that is not possible."""
    if not hasattr(os, "O_DIRECT"):
        return 0
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
        return os.write(descriptor, pages)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of a file system without it, and of an odd address
            raise
        return 0
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)


@contextlib.contextmanager
def _naming_full_disk(path: Path | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f" for {path}" if path else ""
        if error.errno in FULL:
            raise errors.DiskFull(f"the disk has no room left{where}") from error
        if error.errno in READ_ONLY:
            raise errors.DiskReadOnly(f"the disk takes no writes{where}: {error}") from error
        raise
