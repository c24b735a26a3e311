"""engine: opens a data folder: lock, format, index, recovery; and closes it again.

DIR/lock dies with its holder. DIR/format.json says which on-disk format the folder has and which
server it belongs to; it is written before anything else, so a folder with an index and without it
is damaged. A folder of a newer format is refused, one of an older format is read for ever.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from storage import errors
from storage.blobs import FOLDERS, Blobs
from storage.buckets import Buckets
from storage.disk import Disk
from storage.index import MAP_SIZE_BYTES, RESERVE_BYTES, Index
from storage.links import Links
from storage.model import NewId, NowMs
from storage.objects import Objects
from storage.sweep import Recovery, Sweep
from storage.uploads import Uploads

FORMAT = 1
"""The on-disk format this release writes: the number of the newest shape it knows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Storage:
    """An open data folder. path: absolute, resolved. server_id: made once per folder."""

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

    def close(self) -> None:
        """Finish what is under way, close the index, let go of the folder."""
        self.blobs.close()
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
) -> Storage:
    """Open the data folder at path, making it if it is not there, and recover it. Blocks.

    The path is resolved here, once: `Storage.path` is absolute and holds no link and no `..`, so
    that child processes and execution libraries spell a file as this process does.
    Raises FolderInUse, NewerFormat, CorruptFolder, CorruptIndex, DiskFull.
    """
    path = path.resolve()
    disk.make_folder(path)
    lock = disk.lock(path / "lock")
    try:
        server_id = _check_format(path, disk, now_ms=now_ms, new_id=new_id)
        for name in ("blobs", "tmp", "cache"):
            disk.make_folder(path / name)
        made = set(disk.names(path / "blobs"))
        for name in FOLDERS:
            if name not in made:
                disk.make_folder(path / "blobs" / name)
        disk.fsync_folder(path / "blobs")
        disk.fsync_folder(path)
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
        recovery = sweep.recover()
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


def _check_format(path: Path, disk: Disk, *, now_ms: NowMs, new_id: NewId) -> str:
    """Return the folder's server id, writing format.json into a new folder."""
    place = path / "format.json"
    if not disk.exists(place):
        if disk.exists(path / "index"):
            raise errors.CorruptFolder(
                f"the data folder {path} has an index but no format.json; restore that file",
                path=str(path),
            )
        server_id = new_id()
        stated = {"format": FORMAT, "server_id": server_id, "created_at_ms": now_ms()}
        disk.write_file(place, json.dumps(stated, indent=2).encode() + b"\n")
        return server_id
    try:
        stated = json.loads(disk.read_file(place))
        found, server_id = int(stated["format"]), str(stated["server_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise errors.CorruptFolder(
            f"{place} cannot be read; restore that file", path=str(path)
        ) from error
    if found > FORMAT:
        raise errors.NewerFormat(
            f"the data folder {path} has on-disk format {found}, this release reads up to "
            f"{FORMAT}; start it with a newer release",
            path=str(path),
            found=found,
            newest_known=FORMAT,
        )
    return server_id
