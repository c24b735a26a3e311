"""A disk that loses power at a chosen moment, and forgets what was not yet synced.

Every operation that a crash could come before is an event; `transact` is two, before the index
transaction and after it, so that it is lost or kept. At event `stop_at` the disk raises PowerCut,
and from then on for everything. `remains` then tells in which states a power cut might have left
the folder: file contents written since their last fsync are kept, lost or torn, and names made or
removed since their folder's last fsync are kept or lost.

What LMDB writes into an index that is there does not pass here; LMDB's own syncs make a transaction
whole or void. The files that it creates do (`let_create`): until they and their folder are synced
they may be lost, cut to nothing or torn.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from storage.disk import Disk, Result

Data = Literal["kept", "lost", "torn"]
Names = Literal["kept", "lost"]


class PowerCut(BaseException):
    """The machine is off. No code may go on as if it could do something about it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A name that is not durable yet. backup: the file that undoing brings back."""

    folder: Path
    created: Path | None = None
    moved_from: Path | None = None
    removed: Path | None = None
    backup: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """A file's content after a crash. synced_bytes: it is cut there; None if it is whole.

    is_torn: half of the rest is there, and then zeros.
    """

    source: str
    synced_bytes: int | None = None
    is_torn: bool = False


@dataclass(kw_only=True)
class Remains:
    """What a power cut left of a folder, by relative paths. exists: whether there is one.

    mode: the first mode that leaves this.
    """

    mode: tuple[Data, Names] = field(compare=False)
    exists: bool
    folders: set[Path]
    files: dict[Path, Content]

    def write(self, copy: Path) -> None:
        """Write it into copy, which is not there yet."""
        if not self.exists:
            return
        copy.mkdir(parents=True)
        for name in sorted(map(str, self.folders)):
            os.mkdir(f"{copy}/{name}")  # noqa: PTH102 - hundreds in each of hundreds of states
        for name, content in self.files.items():
            target = copy / name
            shutil.copy2(content.source, target)
            if content.synced_bytes is not None:
                tear(target, content.synced_bytes, torn=content.is_torn)

    def digest(self) -> bytes:
        """Return what two equal folders share: their names, and the bytes of their files."""
        digest = hashlib.sha256(repr((self.exists, sorted(map(str, self.folders)))).encode())
        for name, content in sorted(self.files.items()):
            cut = (str(name), content.synced_bytes, content.is_torn)
            digest.update(repr(cut).encode())
            with open(content.source, "rb") as file:  # noqa: PTH123 - as above
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.digest()

    def add_file(self, name: Path, content: Content) -> None:
        self.files[name] = content
        self.folders.update(parent for parent in name.parents if parent != Path())

    def move(self, source: Path, target: Path) -> None:
        """Move a file, or a folder with all that it holds."""
        if source not in self.folders:
            self.add_file(target, self.files.pop(source))
            return

        def moved(name: Path) -> Path:
            return target / name.relative_to(source) if name.is_relative_to(source) else name

        self.folders = {moved(name) for name in self.folders}
        self.files = {moved(name): content for name, content in self.files.items()}

    def remove(self, name: Path) -> None:
        """Remove a file, or a folder with all that it holds."""
        if name not in self.folders:
            self.files.pop(name, None)
            return
        self.folders = {each for each in self.folders if not each.is_relative_to(name)}
        self.files = {
            each: content for each, content in self.files.items() if not each.is_relative_to(name)
        }

    def clear(self) -> None:
        self.exists = False
        self.folders, self.files = set(), {}


class FaultyDisk(Disk):
    """See the module. aside: a folder outside the data folder, for what may come back."""

    def __init__(self, aside: Path, *, stop_at: int | None = None) -> None:
        aside.mkdir(parents=True, exist_ok=True)
        self.aside = aside
        self.stop_at = stop_at
        self.events = 0
        self.off = False
        self.transactions = 0
        self.pending_names: list[Change] = []
        self.synced_bytes: dict[int, int] = {}
        self.of_libraries: set[int] = set()
        self.backups = 0
        self.guard = threading.RLock()

    def event(self) -> None:
        with self.guard:
            self.events += 1
            if self.off or self.events == self.stop_at:
                self.off = True
                raise PowerCut

    def make_folder(self, path: Path) -> None:
        self.event()
        if path.exists():
            return
        super().make_folder(path)
        with self.guard:
            self.pending_names.append(Change(folder=path.parent, created=path))

    def make_folders(self, parent: Path, names: Iterable[str]) -> None:
        wanted = [name for name in names if not (parent / name).exists()]
        try:
            self.event()
        except PowerCut:
            for name in wanted[: len(wanted) // 2]:
                (parent / name).mkdir(mode=0o700)
            raise
        super().make_folders(parent, wanted)
        with self.guard:
            self.pending_names += [Change(folder=parent, created=parent / name) for name in wanted]

    def let_create(self, folder: Path, work: Callable[[], Result]) -> Result:
        self.event()
        before = set(folder.iterdir())
        result = super().let_create(folder, work)
        with self.guard:
            for path in sorted(set(folder.iterdir()) - before):
                self.synced_bytes[path.stat().st_ino] = 0
                self.of_libraries.add(path.stat().st_ino)
                self.pending_names.append(Change(folder=folder, created=path))
        return result

    def make_read_only(self, path: Path) -> None:
        self.event()
        super().make_read_only(path)

    def create(self, path: Path, *, mode: int = 0o600) -> int:
        self.event()
        descriptor = super().create(path, mode=mode)
        with self.guard:
            self.synced_bytes[os.fstat(descriptor).st_ino] = 0
            self.pending_names.append(Change(folder=path.parent, created=path))
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        self.event()
        super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self.event()
        state = os.fstat(descriptor)
        with self.guard:
            if state.st_ino in self.of_libraries:
                self.synced_bytes.pop(state.st_ino, None)  # from here on the library syncs it
            elif state.st_ino in self.synced_bytes:
                self.synced_bytes[state.st_ino] = state.st_size

    def fsync_folder(self, path: Path) -> None:
        self.event()
        with self.guard:
            self.pending_names = [each for each in self.pending_names if each.folder != path]

    def move(self, source: Path, target: Path) -> None:
        self.event()
        with self.guard:
            backup = self.back_up(target) if target.is_file() else None
            super().move(source, target)
            self.pending_names.append(
                Change(folder=target.parent, created=target, moved_from=source, backup=backup)
            )

    def link(self, source: Path, target: Path) -> None:
        self.event()
        super().link(source, target)
        with self.guard:
            self.pending_names.append(Change(folder=target.parent, created=target))

    def unlink(self, path: Path) -> None:
        self.event()
        with self.guard:
            if path.exists():
                backup = self.back_up(path)
                super().unlink(path)
                self.pending_names.append(Change(folder=path.parent, removed=path, backup=backup))

    def remove_tree(self, path: Path) -> None:
        self.event()
        super().remove_tree(path)

    def transact(self, commit: Callable[[], Any]) -> None:
        self.event()
        super().transact(commit)
        self.transactions += 1
        self.event()

    def back_up(self, path: Path) -> Path:
        self.backups += 1
        backup = self.aside / str(self.backups)
        os.link(path, backup)
        return backup

    def remains(self, root: Path, modes: Sequence[tuple[Data, Names]]) -> list[Remains]:
        """Return the different states in which a power cut might have left the folder root.

        Modes that leave the same state count once.
        """
        folders_left: set[Path] = set()
        sizes: dict[Path, os.stat_result] = {}
        for parent, folders_in_it, names_in_it in os.walk(root):
            below = Path(parent).relative_to(root)
            folders_left.update(below / name for name in folders_in_it)
            sizes.update({below / name: (root / below / name).stat() for name in names_in_it})
        states: list[Remains] = []
        for data, names in modes:
            state = Remains(
                mode=(data, names),
                exists=root.exists(),
                folders=set(folders_left),
                files={name: self.content(root / name, stat, data) for name, stat in sizes.items()},
            )
            if names == "lost":
                for change in reversed(self.pending_names):
                    self.undo(change, root, state)
            if state not in states:
                states.append(state)
        return states

    def content(self, path: Path, stat: os.stat_result, data: Data) -> Content:
        """Return what a crash leaves of a file."""
        synced_bytes = self.synced_bytes.get(stat.st_ino)
        if data == "kept" or synced_bytes is None or synced_bytes >= stat.st_size:
            return Content(source=str(path))
        return Content(source=str(path), synced_bytes=synced_bytes, is_torn=data == "torn")

    def undo(self, change: Change, root: Path, state: Remains) -> None:
        """Take a change of names back that no fsync has made durable."""
        if change.moved_from is not None and change.created is not None:
            state.move(change.created.relative_to(root), change.moved_from.relative_to(root))
        elif change.created is not None and root.is_relative_to(change.created):
            state.clear()
        elif change.created is not None:
            state.remove(change.created.relative_to(root))
        if change.backup is not None:
            back = change.removed or change.created
            assert back is not None
            state.add_file(back.relative_to(root), Content(source=str(change.backup)))


def tear(path: Path, synced_bytes: int, *, torn: bool) -> None:
    """Cut a file to what was synced; torn: half of the rest is there, and then zeros."""
    content = path.read_bytes()
    if len(content) <= synced_bytes:
        return
    rest = content[synced_bytes:]
    half = rest[: len(rest) // 2] + bytes(len(rest) - len(rest) // 2) if torn else b""
    path.write_bytes(content[:synced_bytes] + half)
