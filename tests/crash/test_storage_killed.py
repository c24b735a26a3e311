"""kill -9 of a process that writes objects, many at once: what it was told is there, and whole."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from pathlib import Path

import pytest

from storage import errors
from tests.kit import folders, invariants

WRITER = """
import asyncio, sys, time, uuid
from pathlib import Path
from storage import model, opening
from storage.disk import Disk

SIZES = (0, 100, 65_536, 65_537, 300_000, 1_500_000)
MD5 = frozenset({"md5"})

def body(number):
    return (b"%09d" % number * 200_000)[: SIZES[number % len(SIZES)]]

async def write(storage, first):
    number = first
    while True:
        key = f"{number % 40:02d}"
        received = await storage.blobs.store(body(number), digests=MD5)
        info = await storage.objects.put(
            "raw", key, received, attributes=model.ObjectAttributes(tags={"n": str(number)})
        )
        print("put", key, number, info.etag, flush=True)
        if number % 5 == 0:
            gone = f"{(number + 8) % 40:02d}"
            print("deleting", gone, number, flush=True)
            await storage.objects.delete("raw", gone)
        number += 8

async def main():
    storage = opening.open_storage(
        Path(sys.argv[1]), disk=Disk(), now_ms=lambda: time.time_ns() // 1_000_000,
        new_id=lambda: uuid.uuid4().hex, map_size_bytes=1 << 30, reserve_bytes=1 << 16,
    )
    if not storage.buckets.list():
        await storage.buckets.create("raw", bucket_type="general", owner="o", region="r")
    sweeping = asyncio.create_task(storage.sweep.run(interval_s=0.02))
    await asyncio.gather(*(write(storage, int(sys.argv[2]) + each) for each in range(8)))

asyncio.run(main())
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_after_kill_9_every_acknowledged_put_is_there_and_whole(tmp_path: Path, seed: int) -> None:
    data = tmp_path / "data"
    after_lines = random.Random(seed).randint(60, 200)
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(data), str(seed * 1_000_000)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert child.stdout is not None
    lines: list[str] = []
    keys: set[str] = set()
    while len(keys) < 40 or len(lines) < after_lines:
        line = child.stdout.readline()
        assert line, "the writing process has ended by itself"
        lines.append(line)
        if line.startswith("put "):
            keys.add(line.split()[1])
    child.kill()
    lines += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    acknowledged: dict[str, tuple[int, str]] = {}
    deleted_after: dict[str, int] = {}
    for line in lines:
        if not line.endswith("\n"):
            continue
        word, key, number, *etag = line.split()
        if word == "put":
            acknowledged[key] = (int(number), etag[0])
            deleted_after.pop(key, None)
        else:
            deleted_after[key] = int(number)
    assert len(acknowledged) == 40

    storage = folders.open_folder(data, ids=folders.Ids("reopened"))
    invariants.check_recovered(storage, data)
    for key, (number, etag) in acknowledged.items():
        try:
            info = storage.objects.head("raw", key)
        except errors.NoSuchKey:
            assert key in deleted_after, key
            continue
        assert hashlib.md5(storage.objects.read(info)).hexdigest() == info.etag
        stored_number = int(info.attributes.tags["n"])
        assert stored_number >= number or key in deleted_after
        if stored_number == number:
            assert info.etag == etag
    storage.close()
