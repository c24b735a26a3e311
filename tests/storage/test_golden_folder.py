"""Folders that earlier formats wrote open for ever, with everything in them.

`UPDATE_GOLDEN=1` writes the folder of the newest format anew, which is right only before a release
has shipped it; a folder that has shipped is never written again.
"""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from pathlib import Path

import pytest

from storage import opening
from storage.model import ObjectAttributes
from tests.kit import folders, invariants

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "folders"
BIG = b"0123456789abcdef" * 5_000
LONG = "k" * 399 + "é" * 200
OBJECTS = {
    "small": b"small", "empty": b"", "big": BIG, LONG: b"long", "copy": BIG, "hidden": b"hidden",
    "parts": BIG + b"tail",
}  # fmt: skip
ATTRIBUTES = ObjectAttributes(
    headers={"content-type": "text/plain"}, user_metadata={"a": "b"}, tags={"c": "d"}, owner="o"
)


async def fill(storage: opening.Storage) -> None:
    storage.uploads._part_bytes_min = 1
    await folders.make_bucket(storage)
    await storage.buckets.create(
        "lake", bucket_type="table", owner="o", region="r", settings={"tags": {"x": "y"}}
    )
    for key in ("small", "empty", "big", LONG, "hidden"):
        await folders.put(storage, key, OBJECTS[key], attributes=ATTRIBUTES)
    await storage.objects.tombstone("raw", "hidden", by="me")
    source = storage.objects.head("raw", "big")
    await storage.objects.copy(source, "raw", "copy", attributes=ATTRIBUTES)
    for key in ("parts", "open"):
        upload = await storage.uploads.create("raw", key, attributes=ATTRIBUTES)
        named = []
        for number, data in ((1, BIG), (2, b"tail")):
            received = await storage.blobs.store(data, digests=folders.MD5)
            part = await storage.uploads.put_part("raw", key, upload.upload_id, number, received)
            named.append((number, part.etag))
        if key == "parts":
            await storage.uploads.complete("raw", key, upload.upload_id, named)


def pack(folder: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for name in ("format.json", "index/data.mdb", "blobs"):
            archive.add(folder / name, arcname=name, filter=nameless)
    return packed.getvalue()


def nameless(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def test_every_format_has_its_golden_folder(tmp_path: Path) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        storage = folders.open_folder(tmp_path / "data", ids=folders.Ids("golden"))
        asyncio.run(fill(storage))
        storage.close()
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / f"format-{opening.FORMAT}.tar.xz").write_bytes(pack(tmp_path / "data"))
    file_names = {path.name for path in GOLDEN.iterdir()}
    assert file_names == {f"format-{number}.tar.xz" for number in range(1, opening.FORMAT + 1)}


@pytest.mark.parametrize("number", range(1, opening.FORMAT + 1))
def test_a_folder_of_every_format_opens_with_all_that_is_in_it(tmp_path: Path, number: int) -> None:
    with tarfile.open(GOLDEN / f"format-{number}.tar.xz") as archive:
        archive.extractall(tmp_path / "data")
    storage = folders.open_folder(tmp_path / "data")
    invariants.check_recovered(storage, tmp_path / "data")
    assert [(each.name, each.type, each.settings) for each in storage.buckets.list()] == [
        ("lake", "table", {"tags": {"x": "y"}}),
        # Written before access control lists existed: none counts in it.
        ("raw", "general", {"ownership_controls": "BucketOwnerEnforced"}),
    ]  # fmt: skip
    page = storage.objects.list("raw", include_tombstoned=True)
    assert {info.key: storage.objects.read(info) for info in page.objects} == OBJECTS
    for info in page.objects:
        assert info.attributes.tags == {"c": "d"}
        assert info.attributes.headers == {"content-type": "text/plain"}
        assert (info.tombstoned_at_ms is not None) == (info.key == "hidden")
        assert info.attributes.part_sizes_bytes == ((len(BIG), 4) if info.key == "parts" else ())
    (upload,) = storage.uploads.list("raw").uploads
    parts = storage.uploads.list_parts("raw", "open", upload.upload_id).parts
    assert [(part.part_number, part.size_bytes) for part in parts] == [(1, len(BIG)), (2, 4)]
    storage.uploads._part_bytes_min = 1
    named = [(part.part_number, part.etag) for part in parts]
    asyncio.run(storage.uploads.complete("raw", "open", upload.upload_id, named))
    assert folders.get(storage, "open") == BIG + b"tail"
    storage.close()
