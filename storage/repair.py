"""engine: finds damage of a data folder, and plans its repair.

`plan` changes nothing. The repair itself is a start with `repair=True` (`storage.opening`), so both
use the same code. Damage that cannot be repaired (an index that is lost, empty or another folder's)
is refused by both with the same message.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from storage import errors, opening, sweep
from storage.batch import Store
from storage.disk import Disk
from storage.index import ReadView, identify, reading
from storage.sweep import Missing


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The changes that a repair would make to a folder.

    writes_format: format.json does not exist and would be written. makes_blobs: blobs/ does not
    exist and would be created. arriving, settled: unnamed blob files, as in `sweep.Survey`; all of
    them would be removed. missing: names without their bytes, which stay as they are.
    """

    writes_format: bool
    makes_blobs: bool
    files_count: int
    files_bytes: int
    arriving_count: int
    settled_count: int
    unnamed_bytes: int
    missing: tuple[Missing, ...]

    @property
    def unnamed_count(self) -> int:
        """The number of unnamed blob files."""
        return self.arriving_count + self.settled_count

    @property
    def changes_anything(self) -> bool:
        """Return whether there is anything to repair."""
        return self.writes_format or self.makes_blobs or self.unnamed_count > 0


@contextlib.contextmanager
def examining(path: Path, *, disk: Disk, also: Sequence[Store] = ()) -> Iterator[ReadView]:
    """Open the index of a data folder that no server holds, read-only, and lock the folder. Blocks.

    also: stores that the view needs besides those that are always read.

    Raises FolderInUse, NewerFormat, CorruptIndex, and CorruptFolder for what cannot be repaired.
    """
    if not disk.exists(path / "index") and not disk.exists(path / "format.json"):
        raise errors.CorruptFolder(f"{path} is not a data folder", path=str(path))
    lock = disk.lock(path / "lock")
    try:
        server_id = opening.read_format(path, disk)
        identity = identify(path / "index", disk)
        if identity is None or server_id is not None:
            opening.check_index(path, server_id or "", identity, disk)
        with reading(path / "index", also) as view:
            if view is None:
                raise errors.CorruptFolder(
                    f"the index of the data folder {path} is empty: put index/ back from a backup",
                    path=str(path),
                )
            yield view
    finally:
        disk.close(lock)


def plan(path: Path, *, disk: Disk) -> Plan:
    """Plan the repair of the data folder at path. Blocks. Raises as `examining` does."""
    with examining(path, disk=disk) as view:
        return _plan(path, view, disk)


def _plan(path: Path, view: ReadView, disk: Disk) -> Plan:
    blobs = path / "blobs"
    survey = sweep.survey(view, blobs, disk)
    missing = tuple(sweep.names_of(view, survey.lost)) if survey.lost else ()
    unnamed = (*survey.arriving, *survey.settled)
    return Plan(
        writes_format=opening.read_format(path, disk) is None,
        makes_blobs=survey.named_count > 0 and not opening.has_blob_folders(path, disk),
        files_count=survey.files_count,
        files_bytes=_bytes_of(opening.blob_files(path, disk), blobs, disk),
        arriving_count=len(survey.arriving),
        settled_count=len(survey.settled),
        unnamed_bytes=_bytes_of(unnamed, blobs, disk),
        missing=missing,
    )


def _bytes_of(names: Iterable[str], blobs: Path, disk: Disk) -> int:
    return sum(disk.size_bytes(blobs / name[:2] / name) for name in names)
