"""engine: opens and closes a data folder: lock, format, index, recovery.

DIR/lock is released when its process ends. DIR/format.json has the folder's on-disk format and its
server id; the index has the same server id. The first start writes format.json last, so a power cut
before that leaves a folder without data, and the next start completes it. Later, a folder that
lacks format.json, its index or all of its blobs is damaged: it is refused and not changed. A folder
of a newer format is refused; every older format is read for ever.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storage import errors
from storage.batch import Batch, Put, Store
from storage.blobs import FOLDERS, Blobs
from storage.buckets import Buckets
from storage.disk import Disk
from storage.index import (
    MAP_SIZE_BYTES,
    RESERVE_BYTES,
    SERVER_ID,
    Identity,
    Index,
    create,
    identify,
    reading,
)
from storage.links import Links
from storage.model import NewId, NowMs
from storage.objects import Objects
from storage.sweep import Recovery, Sweep
from storage.uploads import Uploads

FORMAT = 1
"""The on-disk format that this release writes: its newest one."""


EMPTIED = ("tmp", "cache")
"""The folders that a start empties."""
OWN_NAMES = frozenset({"format.json", "lock", "index", "blobs", "tmp", "cache"})
"""The names that storage creates in a data folder; the server's keys and logs come later."""
OPENED = b"opened"
"""The row of Store.META that a first start writes after format.json."""


ROOM_BYTES_MIN = 1 << 20
"""The disk counts as full below this room: a commit and its audit lines must fit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Storage:
    """An open data folder. path: absolute, resolved. server_id: created once per folder."""

    path: Path
    server_id: str
    recovery: Recovery
    index: Index
    blobs: Blobs
    buckets: Buckets
    objects: Objects
    uploads: Uploads
    links: Links
    sweep: Sweep
    disk: Disk
    lock: int

    def is_full(self) -> bool:
        """Return whether the disk or the index has no room for writes."""
        return self.index.is_crowded or self.disk.room_bytes(self.path) < ROOM_BYTES_MIN

    def close(self) -> None:
        """Finish running work, close the index, release the folder."""
        self.links.close()
        self.blobs.close()
        try:
            self.blobs.settle()
        finally:
            self.index.close()
            self.disk.close(self.lock)


def open_storage(
    path: Path,
    *,
    disk: Disk,
    now_ms: NowMs,
    new_id: NewId,
    map_size_bytes: int = MAP_SIZE_BYTES,
    reserve_bytes: int = RESERVE_BYTES,
    repair: bool = False,
) -> Storage:
    """Open the data folder at path, creating it if it does not exist, and recover it. Blocks.

    The path is resolved here, once: `Storage.path` is absolute and has no symbolic link and no
    `..`, so that child processes and execution libraries name a file as this process does.
    repair: the operator asked for the changes of `storage.repair.plan`.
    Raises FolderInUse, NewerFormat, CorruptFolder, CorruptIndex, DiskFull.
    """
    path = path.resolve()
    disk.make_durable_folder(path)
    lock = disk.lock(path / "lock")
    try:
        server_id, rows = _settle_identity(
            path, disk, now_ms=now_ms, new_id=new_id, map_size_bytes=map_size_bytes, repair=repair
        )
        index = Index(
            path=path / "index",
            disk=disk,
            map_size_bytes=map_size_bytes,
            reserve_bytes=reserve_bytes,
        )
    except BaseException:
        disk.close(lock)
        raise
    blobs = Blobs(
        folder=path / "blobs", scratch=path / "tmp", disk=disk, index=index, new_id=new_id
    )
    sweep = Sweep(
        index=index,
        blobs=blobs,
        disk=disk,
        folder=path / "blobs",
        scratch=path / "tmp",
        cache=path / "cache",
        now_ms=now_ms,
    )
    try:
        recovery = sweep.recover(repair=repair)
        if rows:
            with contextlib.suppress(errors.DiskFull):  # the next start writes them
                index.commit_now(Batch(writes=rows, makes_room=True))
    except BaseException:
        blobs.close()
        index.close()
        disk.close(lock)
        raise
    objects = Objects(index=index, blobs=blobs, now_ms=now_ms, new_id=new_id)
    return Storage(
        path=path,
        server_id=server_id,
        recovery=recovery,
        index=index,
        blobs=blobs,
        buckets=Buckets(index=index, now_ms=now_ms),
        objects=objects,
        uploads=Uploads(index=index, blobs=blobs, now_ms=now_ms, new_id=new_id),
        links=Links(folder=path / "cache", blobs=blobs, disk=disk, now_ms=now_ms, new_id=new_id),
        sweep=sweep,
        disk=disk,
        lock=lock,
    )


def _settle_identity(
    path: Path,
    disk: Disk,
    *,
    now_ms: NowMs,
    new_id: NewId,
    map_size_bytes: int,
    repair: bool,
) -> tuple[str, tuple[Put, ...]]:
    """Return the folder's server id, creating what a new folder lacks in the module's order.

    The second value: rows that the index lacks. OPENED is written after format.json, so an index
    with OPENED but without format.json is damaged; without OPENED the first start did not finish.
    """
    _check_emptied(path)
    server_id = read_format(path, disk)
    identity = identify(path / "index", disk)
    if server_id is not None:
        check_index(path, server_id, identity, disk)
        assert identity is not None
        check_blobs(path, disk, repair=repair)
        _make_folders(path, disk)
        return server_id, _rows_for(identity, server_id)
    if identity is not None and identity.names_anything:
        if not repair:
            raise errors.CorruptFolder(
                f"the data folder {path} has an index but no format.json: put that file back, or "
                "let `mini.py recover --yes` write it again",
                path=str(path),
            )
        check_blobs(path, disk, repair=repair)
        server_id = identity.server_id or new_id()
        _make_folders(path, disk)
    else:
        _check_nothing_stored(path, disk)
        server_id = (identity.server_id if identity else None) or new_id()
        _make_folders(path, disk)
        if identity is None or identity.server_id is None:
            disk.remove_tree(path / "index")
            create(path / "index", server_id=server_id, disk=disk, map_size_bytes=map_size_bytes)
            identity = Identity(server_id=server_id, names_anything=False)
    document = {"format": FORMAT, "server_id": server_id, "created_at_ms": now_ms()}
    disk.write_file(path / "format.json", json.dumps(document, indent=2).encode() + b"\n")
    return server_id, _rows_for(identity, server_id)


def read_format(path: Path, disk: Disk) -> str | None:
    """Return the server id in format.json, or None if the file does not exist.

    Raises CorruptFolder, NewerFormat.
    """
    place = path / "format.json"
    if not disk.exists(place):
        return None
    try:
        document = json.loads(disk.read_file(place))
        number, server_id = int(document["format"]), str(document["server_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise errors.CorruptFolder(
            f"{place} cannot be read: put it back from a backup, or move it away and let "
            "`mini.py recover --yes` write it again",
            path=str(path),
        ) from error
    if number > FORMAT:
        raise errors.NewerFormat(
            f"the data folder {path} has on-disk format {number}, this release reads up to "
            f"{FORMAT}; start it with a newer release",
            path=str(path),
            number=number,
            newest_known=FORMAT,
        )
    return server_id


def check_index(path: Path, server_id: str, identity: Identity | None, disk: Disk) -> None:
    """Raise CorruptFolder for an index that is not this folder's.

    An index without names and server id is correct for a folder in which an older release stored
    nothing, if there is neither a blob nor a file of a server (its keys).
    """
    if identity is None:
        raise errors.CorruptFolder(
            f"the data folder {path} has lost its index: put index/ back from a backup; "
            "without it the blobs have no names",
            path=str(path),
        )
    if identity.server_id is None and not identity.names_anything and _was_used(path, disk):
        raise errors.CorruptFolder(
            f"the index of the data folder {path} is empty, but the folder has other files: put "
            "index/ back from a backup; without it no object has a name",
            path=str(path),
        )
    if identity.server_id not in (None, server_id):
        raise errors.CorruptFolder(
            f"the index of the data folder {path} belongs to another folder (server id "
            f"{identity.server_id}, format.json says {server_id}): put index/ and format.json "
            "back from one backup",
            path=str(path),
        )


def check_blobs(path: Path, disk: Disk, *, repair: bool) -> None:
    """Raise CorruptFolder if the index names blobs and blobs/ is gone."""
    if repair or has_blob_folders(path, disk):
        return
    with reading(path / "index") as view:
        names_blobs = view is not None and next(view.scan(Store.BLOBS, b"f"), None) is not None
    if names_blobs:
        raise errors.CorruptFolder(
            f"the data folder {path} has lost blobs/: put it back, or let `mini.py recover --yes` "
            "continue without the bodies that were in it",
            path=str(path),
        )


def has_blob_folders(path: Path, disk: Disk) -> bool:
    """Return whether any folder for blobs exists; an unmounted disk leaves an empty blobs/."""
    return any(disk.exists(path / "blobs" / name) for name in FOLDERS)


def blob_files(path: Path, disk: Disk) -> Iterator[str]:
    """Yield the names of all blob files."""
    folder = path / "blobs"
    present = set(disk.names(folder)) if disk.exists(folder) else set()
    for name in FOLDERS:
        if name in present:
            yield from disk.names(folder / name)


def has_blobs(path: Path, disk: Disk) -> bool:
    """Return whether there is a blob file."""
    return next(blob_files(path, disk), None) is not None


def _was_used(path: Path, disk: Disk) -> bool:
    """Return whether the folder has names besides those that a first start creates."""
    return has_blobs(path, disk) or not OWN_NAMES.issuperset(disk.names(path))


def _check_nothing_stored(path: Path, disk: Disk) -> None:
    """Raise CorruptFolder for a folder with other content: a start would empty its tmp/."""
    if has_blobs(path, disk):
        raise errors.CorruptFolder(
            f"the data folder {path} has blobs but neither index nor format.json: put both back "
            "from a backup",
            path=str(path),
        )
    for name in EMPTIED:
        folder = path / name
        if disk.exists(folder) and disk.names(folder):
            raise errors.CorruptFolder(
                f"the folder {path} is not a data folder, and a start would empty {folder}: choose "
                "another folder with --data, or move its content away",
                path=str(path),
            )


def _check_emptied(path: Path) -> None:
    """Raise CorruptFolder if a start would empty a folder that is not below path."""
    for name in EMPTIED:
        folder = path / name
        if folder.is_symlink():
            raise errors.CorruptFolder(
                f"{folder} is a symbolic link, and a start would empty the folder that it names: "
                "remove the link",
                path=str(path),
            )


def _make_folders(path: Path, disk: Disk) -> None:
    for name in ("blobs", "tmp", "cache"):
        disk.make_folder(path / name)
    present = set(disk.names(path / "blobs"))
    if missing := [name for name in FOLDERS if name not in present]:
        disk.make_folders(path / "blobs", missing)
    disk.fsync_folder(path / "blobs")
    disk.fsync_folder(path)


def _rows_for(identity: Identity, server_id: str) -> tuple[Put, ...]:
    if identity.server_id is not None and identity.names_anything:
        return ()
    return (
        Put(store=Store.META, key=SERVER_ID, value=server_id.encode()),
        Put(store=Store.META, key=OPENED, value=b"\x01"),
    )
