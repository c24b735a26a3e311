"""A disk that loses power at a chosen moment, and forgets what was not yet synced.

Every operation that a crash could come before is an event; `transact` is two, before the index
transaction and after it, so that it is lost or kept. At event `stop_at` the disk raises PowerCut,
and from then on for everything. `remains` then tells in which states a power cut might have left
the folder: file contents written since their last fsync are kept, lost or torn, and names made or
removed since their folder's last fsync are kept or lost.

A Recording takes these states at every event of one run, as if the power went at each of them, and
restarts once from each state that differs; in `make test` from a quarter of them, with those right
after a transaction and at the end. Only a disk that does raise PowerCut shows that the code does
nothing more, and acknowledges nothing, after it: some of a run's events are enough for that.

What LMDB writes into an index that is there does not pass here; LMDB's own syncs make a transaction
whole or void. The files that it creates do (`let_create`): until they and their folder are synced
they may be lost, cut to nothing or torn.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from storage.disk import Disk, Result
from tests.kit import examples

Data = Literal["kept", "lost", "torn"]
Names = Literal["kept", "lost"]
Moment = Literal["committed", "end", "any"]
"""An event right after a transaction of the index, the end of what is recorded, or another one."""
Observed = TypeVar("Observed")

LOCK_FILE = "lock.mdb"
"""LMDB's table of readers: the first process that opens an index makes it anew."""


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

    mode: the first mode that leaves this. Paths are texts: a state has hundreds, a run hundreds of
    states.
    """

    mode: tuple[Data, Names] = field(compare=False)
    exists: bool
    folders: set[str]
    files: dict[str, Content]

    def write(self, copy: Path) -> None:
        """Write it into copy, which is not there yet."""
        if not self.exists:
            return
        copy.mkdir(parents=True)
        for name in sorted(self.folders):
            os.mkdir(f"{copy}/{name}")  # noqa: PTH102 - see the class
        for name, content in self.files.items():
            shutil.copy2(content.source, f"{copy}/{name}")
            if content.synced_bytes is not None:
                tear(copy / name, content.synced_bytes, torn=content.is_torn)

    def digest(self, of_files: dict[str, bytes]) -> bytes:
        """Return what two equal folders share: their names, and the bytes of their files.

        of_files: the digests of sources, by path, as far as they are computed; gains others.
        """
        digest = hashlib.sha256(repr((self.exists, sorted(self.folders))).encode())
        for name, content in sorted(self.files.items()):
            digest.update(repr((name, content.synced_bytes, content.is_torn)).encode())
            if name.endswith(LOCK_FILE):
                continue
            if content.source not in of_files:
                with open(content.source, "rb") as file:  # noqa: PTH123 - see the class
                    of_files[content.source] = hashlib.file_digest(file, "sha256").digest()
            digest.update(of_files[content.source])
        return digest.digest()

    def add_file(self, name: str, content: Content) -> None:
        self.files[name] = content
        while name := name.rpartition("/")[0]:
            self.folders.add(name)

    def move(self, source: str, target: str) -> None:
        """Move a file, or a folder with all that it holds."""
        if source not in self.folders:
            self.add_file(target, self.files.pop(source))
            return

        def moved(name: str) -> str:
            is_below = name == source or name.startswith(source + "/")
            return target + name.removeprefix(source) if is_below else name

        self.folders = {moved(name) for name in self.folders}
        self.files = {moved(name): content for name, content in self.files.items()}

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that it holds."""
        if name not in self.folders:
            self.files.pop(name, None)
            return
        below = name + "/"
        self.folders = {each for each in self.folders if not (each + "/").startswith(below)}
        self.files = {
            each: content for each, content in self.files.items() if not each.startswith(below)
        }

    def clear(self) -> None:
        self.exists = False
        self.folders, self.files = set(), {}


class FaultyDisk(Disk):
    """See the module. aside: a folder outside the data folder, for what may come back.

    stop_after: the event after `begin` at which the power goes.
    """

    def __init__(
        self, aside: Path, *, stop_at: int | None = None, stop_after: int | None = None
    ) -> None:
        aside.mkdir(parents=True, exist_ok=True)
        self.aside = aside
        self.stop_at = stop_at
        self.stop_after = stop_after
        self.events = 0
        self.off = False
        self.transactions = 0
        self.pending_names: list[Change] = []
        self.synced_bytes: dict[int, int] = {}
        self.of_libraries: set[int] = set()
        self.backups = 0
        self.guard = threading.RLock()
        self.recording: Recording[Any] | None = None
        self.is_recorded = False

    def begin(self) -> None:
        """What a test is about begins: the power may go, and events are recorded."""
        if self.stop_after is not None:
            self.stop_at = self.events + self.stop_after
        self.is_recorded = self.recording is not None

    def end(self) -> None:
        """It has ended, and was acknowledged: from now on, nothing of it may be lost."""
        with self.guard:
            self.take("end")
            self.is_recorded = False

    def take(self, moment: Moment = "any") -> None:
        if self.is_recorded and self.recording is not None:
            self.recording.take(moment)

    def event(self, moment: Moment = "any") -> None:
        with self.guard:
            self.events += 1
            if self.off or self.events == self.stop_at:
                self.off = True
                raise PowerCut
            self.take(moment)

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
        with self.guard:
            super().make_folders(parent, wanted[: len(wanted) // 2])
            self.take()
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
        with self.guard:
            super().transact(commit)
        self.transactions += 1
        self.event("committed")

    def back_up(self, path: Path) -> Path:
        self.backups += 1
        backup = self.aside / str(self.backups)
        os.link(path, backup)
        return backup

    def remains(self, root: Path, modes: Sequence[tuple[Data, Names]]) -> list[Remains]:
        """Return the different states in which a power cut might have left the folder root.

        Modes that leave the same state count once.
        """
        folders_left: set[str] = set()
        sizes: dict[str, os.stat_result] = {}
        for parent, folders_in_it, names_in_it in os.walk(root):
            below = parent[len(str(root)) + 1 :] + "/" if parent != str(root) else ""
            folders_left.update(below + name for name in folders_in_it)
            sizes.update({below + name: os.stat(f"{root}/{below}{name}") for name in names_in_it})  # noqa: PTH116 - see Remains
        states: list[Remains] = []
        for data, names in modes:
            state = Remains(
                mode=(data, names),
                exists=root.exists(),
                folders=set(folders_left),
                files={
                    name: self.content(f"{root}/{name}", stat, data) for name, stat in sizes.items()
                },
            )
            if names == "lost":
                for change in reversed(self.pending_names):
                    self.undo(change, root, state)
            if state not in states:
                states.append(state)
        return states

    def content(self, path: str, stat: os.stat_result, data: Data) -> Content:
        """Return what a crash leaves of a file."""
        synced_bytes = self.synced_bytes.get(stat.st_ino)
        if data == "kept" or synced_bytes is None or synced_bytes >= stat.st_size:
            return Content(source=path)
        return Content(source=path, synced_bytes=synced_bytes, is_torn=data == "torn")

    def undo(self, change: Change, root: Path, state: Remains) -> None:
        """Take a change of names back that no fsync has made durable."""
        if change.moved_from is not None and change.created is not None:
            state.move(below(change.created, root), below(change.moved_from, root))
        elif change.created is not None and root.is_relative_to(change.created):
            state.clear()
        elif change.created is not None:
            state.remove(below(change.created, root))
        if change.backup is not None:
            back = change.removed or change.created
            assert back is not None
            state.add_file(below(back, root), Content(source=str(change.backup)))


def below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


@dataclass(frozen=True, kw_only=True, slots=True)
class State(Generic[Observed]):
    """What a restart observes. when: the event and the mode before it, for messages."""

    when: str
    observed: Observed


class Recording(Generic[Observed]):
    """What restarts observe after a power cut at each event from `begin` to `end` of a disk.

    root: the data folder of disk. aside: a folder for copies of it. restart: starts from a copy,
    and returns what it observes there; called once for all events that leave the same bytes. Of the
    states that differ `make test` takes a share: the first one, what each transaction leaves in the
    first mode, the end in all modes, and one in examples.SHARE of the others.
    """

    def __init__(
        self,
        disk: FaultyDisk,
        root: Path,
        aside: Path,
        *,
        modes: Sequence[tuple[Data, Names]],
        restart: Callable[[Path], Observed],
    ) -> None:
        self.events = 0
        self._disk = disk
        self._root = root
        self._aside = aside
        self._modes = modes
        self._restart = restart
        self._waiting: list[tuple[str, bytes]] = []
        self._copied: set[bytes] = set()
        self._left_out: set[bytes] = set()
        self._share = examples.Share()
        self._observed: dict[bytes, Observed] = {}
        self._last: list[bytes] = []
        disk.recording = self

    def take(self, moment: Moment) -> None:
        """Copy what a power cut would leave now, in each mode, unless it was copied before."""
        self.events += 1
        self._last = []
        of_files: dict[str, bytes] = {}
        for place, remains in enumerate(self._disk.remains(self._root, self._modes)):
            digest = remains.digest(of_files)
            must = moment == "end" or (place == 0 and moment == "committed") or not self._copied
            if digest not in self._copied:
                if not must and (digest in self._left_out or not self._share.takes_next()):
                    self._left_out.add(digest)
                    continue
                self._copied.add(digest)
                remains.write(self._aside / digest.hex())
            self._last.append(digest)
            self._waiting.append((f"event {self.events} {remains.mode}", digest))

    def states(self) -> list[State[Observed]]:
        """Return the states that were taken since the last call."""
        waiting, self._waiting = self._waiting, []
        return [State(when=when, observed=self._observe(digest, when)) for when, digest in waiting]

    def last(self) -> list[Observed]:
        """Return what restarts observe after the end."""
        return [self._observe(digest, "the end") for digest in self._last]

    def _observe(self, digest: bytes, when: str) -> Observed:
        if digest not in self._observed:
            copy = self._aside / digest.hex()
            try:
                self._observed[digest] = self._restart(copy)
            except Exception as error:
                error.add_note(f"restarted after {when}")
                raise
            subprocess.run(["rm", "-rf", str(copy)], check=True)  # a tenth of rmtree's CPU
        return self._observed[digest]


def spread(events: int, *, count: int) -> list[int]:
    """Return up to count numbers of events, evenly spread from the first to the last."""
    if events <= count:
        return list(range(1, events + 1))
    return sorted({1 + round(i * (events - 1) / (count - 1)) for i in range(count)})


def tear(path: Path, synced_bytes: int, *, torn: bool) -> None:
    """Cut a file to what was synced; torn: half of the rest is there, and then zeros."""
    content = path.read_bytes()
    if len(content) <= synced_bytes:
        return
    rest = content[synced_bytes:]
    half = rest[: len(rest) // 2] + bytes(len(rest) - len(rest) // 2) if torn else b""
    path.write_bytes(content[:synced_bytes] + half)
