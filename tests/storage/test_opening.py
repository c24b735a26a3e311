"""Opening a data folder: one holder, formats, recovery; what a restart keeps."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from storage import disk, errors, index, opening
from storage.batch import Batch, Delete, Store
from storage.disk import Disk
from storage.model import InlineBody
from storage.sweep import Missing
from tests.kit import folders
from tests.kit.waits import WAIT_SECONDS

BIG = b"0123456789abcdef" * 10_000


def test_a_new_folder_gets_its_format_and_a_server_id_for_life(tmp_path: Path) -> None:
    storage = folders.open_folder(tmp_path / "deep" / "data")
    server_id = storage.server_id
    storage.close()
    stated = json.loads((tmp_path / "deep" / "data" / "format.json").read_text())
    assert stated == {
        "format": 1, "server_id": server_id, "created_at_ms": folders.START_MS,
    }  # fmt: skip
    again = folders.open_folder(tmp_path / "deep" / "data", ids=folders.Ids("other"))
    assert again.server_id == server_id
    assert again.recovery.blobs_removed == again.recovery.temporary_removed == 0
    assert again.recovery.missing == ()
    again.close()


def test_the_folder_is_private_to_its_user(tmp_path: Path) -> None:
    storage = folders.open_folder(tmp_path / "data")
    asyncio.run(folders.make_bucket(storage))
    asyncio.run(folders.put(storage, "k", BIG))
    storage.close()
    for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_held_folder_is_refused_and_free_again_after_close(tmp_path: Path) -> None:
    storage = folders.open_folder(tmp_path / "data")
    with pytest.raises(errors.FolderInUse, match=str(tmp_path / "data")):
        folders.open_folder(tmp_path / "data")
    storage.close()
    folders.open_folder(tmp_path / "data").close()


HOLD = """
import sys, time, uuid
from pathlib import Path
from storage.disk import Disk
from storage.opening import open_storage
storage = open_storage(
    Path(sys.argv[1]), disk=Disk(), now_ms=lambda: 1, new_id=lambda: uuid.uuid4().hex,
    map_size_bytes=1 << 26, reserve_bytes=4096,
)
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_dies_with_its_holder_even_by_kill_9(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(errors.FolderInUse):
            folders.open_folder(tmp_path / "data")
        child.kill()
    folders.open_folder(tmp_path / "data").close()


def test_a_folder_of_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    folders.open_folder(tmp_path / "data").close()
    place = tmp_path / "data" / "format.json"
    stated = json.loads(place.read_text())
    place.write_text(json.dumps({**stated, "format": opening.FORMAT + 1, "new": "field"}))
    before = place.read_bytes()
    with pytest.raises(errors.NewerFormat) as caught:
        folders.open_folder(tmp_path / "data")
    assert "\n" not in str(caught.value)
    assert caught.value.fields["number"] == opening.FORMAT + 1
    assert place.read_bytes() == before
    place.write_text(json.dumps({**stated, "new": "field"}))
    folders.open_folder(tmp_path / "data").close()


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"format": "x"}', "\x00"])
def test_an_index_without_a_readable_format_is_a_damaged_folder(
    tmp_path: Path, content: str | None
) -> None:
    folders.open_folder(tmp_path / "data").close()
    place = tmp_path / "data" / "format.json"
    if content is None:
        place.unlink()
    else:
        place.write_text(content)
    with pytest.raises(errors.CorruptFolder):
        folders.open_folder(tmp_path / "data")


def test_all_state_is_there_after_a_restart(tmp_path: Path) -> None:
    clock = folders.Clock()
    storage = folders.open_folder(tmp_path / "data", clock=clock)

    async def fill() -> None:
        await folders.make_bucket(storage)
        for key, data in (("small", b"x"), ("big", BIG), ("k" * 1000, b"y"), ("hidden", BIG)):
            await folders.put(storage, key, data)
        await storage.objects.tombstone("raw", "hidden", by="me")
        upload = await storage.uploads.create("raw", "u", attributes=folders.PLAIN)
        for number, data in ((1, BIG), (2, b"tail")):
            received = await storage.blobs.store(data, digests=folders.MD5)
            await storage.uploads.put_part("raw", "u", upload.upload_id, number, received)

    def seen(opened: opening.Storage) -> object:
        (upload,) = opened.uploads.list("raw").uploads
        page = opened.objects.list("raw", include_tombstoned=True)
        return (
            opened.buckets.list(),
            page,
            [opened.objects.read(info) for info in page.objects],
            folders.tombstones(opened),
            upload,
            opened.uploads.list_parts("raw", "u", upload.upload_id),
        )

    asyncio.run(fill())
    before = seen(storage)
    storage.close()
    again = folders.open_folder(tmp_path / "data", clock=clock)
    assert seen(again) == before
    again.close()


def test_recovery_removes_what_nothing_names_and_keeps_the_rest(tmp_path: Path) -> None:
    storage = folders.open_folder(tmp_path / "data")
    asyncio.run(folders.make_bucket(storage))
    asyncio.run(folders.put(storage, "kept", BIG))
    asyncio.run(storage.blobs.store(BIG))
    storage.close()
    (tmp_path / "data" / "tmp" / "half").write_bytes(b"x")
    (tmp_path / "data" / "blobs" / "00" / ("00" * 16)).write_bytes(b"x")
    assert len(folders.blob_files(tmp_path / "data")) == 3
    again = folders.open_folder(tmp_path / "data")
    assert (again.recovery.temporary_removed, again.recovery.blobs_removed) == (1, 2)
    assert again.recovery.missing == ()
    assert len(folders.blob_files(tmp_path / "data")) == 1
    assert list((tmp_path / "data" / "tmp").iterdir()) == []
    assert folders.get(again, "kept") == BIG
    again.close()


def test_recovery_frees_at_once_what_was_released(tmp_path: Path) -> None:
    storage = folders.open_folder(tmp_path / "data")

    async def release() -> None:
        await folders.make_bucket(storage)
        await folders.make_bucket(storage, "doomed")
        for number in range(3):
            await folders.put(storage, "k", BIG + b"%d" % number)
            await folders.put(storage, "s", b"%d" % number)
            await folders.put(storage, f"{number}", BIG, bucket="doomed")
        await storage.buckets.delete("doomed", discard=True)

    asyncio.run(release())
    storage.close()
    again = folders.open_folder(tmp_path / "data")
    assert len(folders.blob_files(tmp_path / "data")) == 1
    with again.index.view() as view:
        assert list(view.scan(Store.RELEASED, b"")) == []
        assert len(list(view.scan(Store.BODIES, b""))) == 1
        assert len(list(view.scan(Store.OBJECTS, b""))) == 2
    assert (folders.get(again, "k"), folders.get(again, "s")) == (BIG + b"2", b"2")
    again.close()


def test_recovery_reports_names_whose_blob_is_missing_and_removes_no_name(tmp_path: Path) -> None:
    storage = folders.open_folder(tmp_path / "data")

    async def fill() -> str:
        await folders.make_bucket(storage)
        await folders.put(storage, "whole", BIG)
        await folders.put(storage, "k" * 1000, BIG + b"1")
        upload = await storage.uploads.create("raw", "u", attributes=folders.PLAIN)
        received = await storage.blobs.store(BIG + b"2", digests=folders.MD5)
        await storage.uploads.put_part("raw", "u", upload.upload_id, 1, received)
        return upload.upload_id

    upload_id = asyncio.run(fill())
    info = storage.objects.head("raw", "k" * 1000)
    lost = info.body.segments[0].blob
    storage.close()
    part = (folders.blob_files(tmp_path / "data")) - {lost}
    kept = {
        file
        for file in part
        if (tmp_path / "data" / "blobs" / file[:2] / file).stat().st_size == len(BIG)
    }
    (part_blob,) = part - kept
    for blob in (lost, part_blob):
        (tmp_path / "data" / "blobs" / blob[:2] / blob).unlink()
    again = folders.open_folder(tmp_path / "data")
    assert set(again.recovery.missing) == {
        Missing(blob=lost, bucket="raw", key="k" * 1000),
        Missing(blob=part_blob, bucket="raw", key="u", upload_id=upload_id),
    }
    assert again.objects.head("raw", "k" * 1000) == info
    with pytest.raises(errors.BodyMissing):
        again.objects.read(info)
    assert folders.get(again, "whole") == BIG
    again.close()


def test_a_start_empties_the_temporary_folder_of_files_and_of_folders(tmp_path: Path) -> None:
    folders.open_folder(tmp_path / "data").close()
    scratch = tmp_path / "data" / "tmp"
    (scratch / "spill" / "deep").mkdir(parents=True)
    (scratch / "spill" / "deep" / "file").write_bytes(b"x")
    (scratch / "part").write_bytes(b"x")
    again = folders.open_folder(tmp_path / "data")
    assert again.recovery.temporary_removed == 2
    assert list(scratch.iterdir()) == []
    again.close()


class Stubborn(Disk):
    """A disk that refuses to remove a blob, three times."""

    def __init__(self) -> None:
        self.failures_left = 3

    def unlink(self, path: Path) -> None:
        if "blobs" in path.parts and self.failures_left > 0:
            self.failures_left -= 1
            raise PermissionError("no")
        super().unlink(path)


@pytest.mark.parametrize("name", ["tmp", "cache"])
def test_a_start_empties_no_folder_that_a_link_names(tmp_path: Path, name: str) -> None:
    folders.open_folder(tmp_path / "data").close()
    letters = tmp_path / "letters"
    letters.mkdir()
    (letters / "kept.txt").write_text("of another program")
    (tmp_path / "data" / name).rmdir()
    (tmp_path / "data" / name).symlink_to(letters)
    with pytest.raises(errors.CorruptFolder, match=f"{name} is a symbolic link"):
        folders.open_folder(tmp_path / "data")
    assert (letters / "kept.txt").read_text() == "of another program"


def test_the_sweep_tries_again_what_failed(tmp_path: Path) -> None:
    disk, clock = Stubborn(), folders.Clock()
    storage = folders.open_folder(tmp_path / "data", disk=disk, clock=clock)

    async def serve() -> None:
        await folders.make_bucket(storage)
        await folders.put(storage, "k", BIG)
        await storage.objects.delete("raw", "k")
        clock.move(60_001)
        sweeping = asyncio.create_task(storage.sweep.run(interval_s=0.001))
        for _ in range(60_000):
            if not folders.blob_files(tmp_path / "data"):
                break
            await asyncio.sleep(0.002)
        sweeping.cancel()

    asyncio.run(serve())
    assert disk.failures_left == 0
    assert folders.blob_files(tmp_path / "data") == set()
    storage.close()


def test_the_sweep_runs_periodically_and_stops_on_request(tmp_path: Path) -> None:
    clock = folders.Clock()
    storage = folders.open_folder(tmp_path / "data", clock=clock)

    async def serve() -> None:
        await folders.make_bucket(storage)
        await folders.put(storage, "k", BIG)
        await storage.objects.delete("raw", "k")
        clock.move(60_001)
        sweeping = asyncio.create_task(storage.sweep.run(interval_s=0.001))
        for _ in range(60_000):
            if not folders.blob_files(tmp_path / "data"):
                break
            await asyncio.sleep(0.002)
        assert folders.blob_files(tmp_path / "data") == set()
        sweeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sweeping

    asyncio.run(serve())
    storage.close()


class Refusing(disk.Disk):
    """A disk that refuses to unlink blobs while told to."""

    refusals = 0

    def unlink(self, path: Path) -> None:
        if self.refusals and path.parent.parent.name == "blobs":
            self.refusals -= 1
            raise PermissionError(f"not now: {path}")
        super().unlink(path)


def test_the_sweep_goes_on_after_a_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refusing, clock = Refusing(), folders.Clock()
    storage = folders.open_folder(tmp_path / "data", disk=refusing, clock=clock)

    async def serve() -> None:
        await folders.make_bucket(storage)
        await folders.put(storage, "k", BIG)
        await storage.objects.delete("raw", "k")
        refusing.refusals = 3
        clock.move(60_001)
        sweeping = asyncio.create_task(storage.sweep.run(interval_s=0.001))
        async with asyncio.timeout(WAIT_SECONDS):
            while folders.blob_files(tmp_path / "data"):  # noqa: ASYNC110 - files say nothing
                await asyncio.sleep(0.002)
        sweeping.cancel()

    asyncio.run(serve())
    storage.close()
    assert refusing.refusals == 0
    assert [record.getMessage() for record in caplog.records] == [
        "the sweep failed and will be tried again"
    ]


# A folder that lost a part of itself.


def filled(path: Path, *, big: int = 3) -> None:
    """Make a folder with a small object and some blobs, and close it."""
    storage = folders.open_folder(path)

    async def fill() -> None:
        await folders.make_bucket(storage)
        await folders.put(storage, "small", b"x")
        for number in range(big):
            await folders.put(storage, f"big{number}", BIG)

    asyncio.run(fill())
    storage.close()


def contents(path: Path) -> dict[str, bytes]:
    """Every file of a folder but LMDB's lock table and the folder's own lock."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in folders.files_of(path)
        if file.name not in {"lock.mdb", "lock"}
    }


def refused(path: Path) -> str:
    """Open a folder that is refused; say why. Nothing in it may change."""
    before = contents(path)
    with pytest.raises(errors.CorruptFolder) as caught:
        folders.open_folder(path, ids=folders.Ids("again"))
    assert contents(path) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_without_its_index_is_refused_and_keeps_every_blob(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "index")
    assert "has lost its index: put index/ back" in refused(tmp_path / "data")


def test_a_folder_of_small_objects_without_its_index_is_refused_too(tmp_path: Path) -> None:
    filled(tmp_path / "data", big=0)
    shutil.rmtree(tmp_path / "data" / "index")
    assert "has lost its index" in refused(tmp_path / "data")


@pytest.mark.parametrize("rest", [(), ("lock.mdb",), ("reserve",)])
def test_an_index_folder_without_its_file_is_refused(tmp_path: Path, rest: tuple[str, ...]) -> None:
    filled(tmp_path / "data")
    for file in (tmp_path / "data" / "index").iterdir():
        if file.name not in rest:
            file.unlink()
    assert "has lost its index" in refused(tmp_path / "data")


def test_an_index_file_of_no_bytes_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    (tmp_path / "data" / "index" / "data.mdb").write_bytes(b"")
    assert "has lost its index" in refused(tmp_path / "data")


def test_an_index_of_zeros_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    (tmp_path / "data" / "index" / "data.mdb").write_bytes(bytes(1 << 16))
    before = folders.blob_files(tmp_path / "data")
    with pytest.raises(errors.CorruptIndex):
        folders.open_folder(tmp_path / "data")
    assert folders.blob_files(tmp_path / "data") == before


@pytest.mark.parametrize("rest", ["blobs", "keys.json"])
def test_an_index_that_is_new_and_empty_is_refused_in_a_used_folder(
    tmp_path: Path, rest: str
) -> None:
    filled(tmp_path / "data", big=3 if rest == "blobs" else 0)
    if rest == "keys.json":
        (tmp_path / "data" / rest).write_text("{}")
    data = tmp_path / "data" / "index" / "data.mdb"
    data.unlink()
    index.Index(path=tmp_path / "data" / "index", disk=Disk(), map_size_bytes=1 << 26).close()
    assert "is empty, but the folder has other files" in refused(tmp_path / "data")


def test_the_index_of_another_folder_is_refused_by_its_server_id(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    filled(tmp_path / "other")
    shutil.rmtree(tmp_path / "data" / "index")
    shutil.copytree(tmp_path / "other" / "index", tmp_path / "data" / "index")
    assert "belongs to another folder" in refused(tmp_path / "data")


def test_an_older_index_beside_newer_blobs_is_refused_and_keeps_every_blob(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    shutil.copytree(tmp_path / "data" / "index", tmp_path / "backup")
    storage = folders.open_folder(tmp_path / "data", ids=folders.Ids("later"))
    asyncio.run(folders.put(storage, "later", BIG))
    storage.close()
    shutil.rmtree(tmp_path / "data" / "index")
    shutil.copytree(tmp_path / "backup", tmp_path / "data" / "index")
    message = refused(tmp_path / "data")
    assert message.startswith("1 of 4 blobs were named before and the index does not name them now")
    assert "`mini.py recover --yes`" in message


def test_a_few_blobs_of_many_that_an_older_index_does_not_name_are_left_alone(
    tmp_path: Path,
) -> None:
    filled(tmp_path / "data", big=120)
    shutil.copytree(tmp_path / "data" / "index", tmp_path / "backup")
    storage = folders.open_folder(tmp_path / "data", ids=folders.Ids("later"))
    asyncio.run(folders.put(storage, "later", BIG))
    storage.close()
    shutil.rmtree(tmp_path / "data" / "index")
    shutil.copytree(tmp_path / "backup", tmp_path / "data" / "index")
    again = folders.open_folder(tmp_path / "data", ids=folders.Ids("again"))
    assert (again.recovery.blobs_removed, again.recovery.unnamed_left) == (0, 1)
    again.close()
    assert len(folders.blob_files(tmp_path / "data")) == 121


def test_more_arriving_blobs_than_a_crash_leaves_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    for number in range(300):
        blob = f"{number:032x}"
        (tmp_path / "data" / "blobs" / blob[:2] / blob).write_bytes(b"x")
    again = folders.open_folder(tmp_path / "data", ids=folders.Ids("again"))
    assert (again.recovery.blobs_removed, again.recovery.unnamed_left) == (0, 300)
    again.close()


def test_a_folder_without_format_is_refused_beside_its_index(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    (tmp_path / "data" / "format.json").unlink()
    assert "has an index but no format.json" in refused(tmp_path / "data")


def test_blobs_without_index_and_format_are_refused(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    (tmp_path / "data" / "format.json").unlink()
    shutil.rmtree(tmp_path / "data" / "index")
    assert "has blobs but neither index nor format.json" in refused(tmp_path / "data")


@pytest.mark.parametrize("leave_empty", [False, True])
def test_a_folder_without_its_blobs_is_refused(tmp_path: Path, *, leave_empty: bool) -> None:
    filled(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "blobs")
    if leave_empty:
        (tmp_path / "data" / "blobs").mkdir()
    assert "has lost blobs/: put it back" in refused(tmp_path / "data")


@pytest.mark.parametrize("name", ["tmp", "cache"])
def test_a_folder_that_is_none_of_ours_keeps_its_temporary_files(tmp_path: Path, name: str) -> None:
    (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "data" / name / "thesis").write_bytes(b"years")
    assert "is not a data folder" in refused(tmp_path / "data")


@pytest.mark.parametrize("name", ["tmp", "blobs", "index", "cache"])
def test_an_empty_folder_left_by_an_unfinished_start_is_no_obstacle(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "data" / name).mkdir(parents=True)
    folders.open_folder(tmp_path / "data").close()
    folders.open_folder(tmp_path / "data").close()


def test_an_index_of_an_older_release_gets_the_folders_server_id(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    storage = folders.open_folder(tmp_path / "data")
    row = Delete(store=Store.META, key=index.SERVER_ID)
    storage.index.commit_now(Batch(writes=(row,)))
    server_id = storage.server_id
    storage.close()
    folders.open_folder(tmp_path / "data", ids=folders.Ids("again")).close()
    identity = index.identify(tmp_path / "data" / "index", Disk())
    assert identity == index.Identity(server_id=server_id, names_anything=True)


def test_a_blob_is_read_only_once_it_is_named_and_the_sweep_came_round(tmp_path: Path) -> None:
    storage = folders.open_folder(tmp_path / "data")

    async def run() -> tuple[Path, Path]:
        await folders.make_bucket(storage)
        info = await folders.put(storage, "named", BIG)
        received = await storage.blobs.store(BIG)
        await storage.sweep.once()
        assert not isinstance(received.body, InlineBody)
        return (
            storage.blobs.path_of(info.body.segments[0].blob),
            storage.blobs.path_of(received.body.segments[0].blob),
        )

    named, arriving = asyncio.run(run())
    assert (named.stat().st_mode & 0o777, arriving.stat().st_mode & 0o777) == (0o400, 0o600)
    storage.close()


def test_named_blobs_of_an_older_release_become_read_only_in_time(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    files = folders.files_of(tmp_path / "data" / "blobs")
    for file in files:
        file.chmod(0o600)
    storage = folders.open_folder(tmp_path / "data", ids=folders.Ids("again"))

    async def sweep_often() -> None:
        for _ in range(256):
            await storage.sweep.once()

    asyncio.run(sweep_often())
    assert {file.stat().st_mode & 0o777 for file in files} == {0o400}
    storage.close()


class NoRoom(Disk):
    """A disk without room for a reserve."""

    def allocate(self, path: Path, size_bytes: int) -> None:
        raise errors.DiskFull("the disk has no room left")


def test_a_folder_of_an_older_release_opens_on_a_full_disk(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    storage = folders.open_folder(tmp_path / "data")
    row = Delete(store=Store.META, key=index.SERVER_ID)
    storage.index.commit_now(Batch(writes=(row,)))
    storage.close()
    (tmp_path / "data" / "index" / "reserve").unlink()
    again = folders.open_folder(tmp_path / "data", disk=NoRoom(), ids=folders.Ids("again"))
    assert folders.get(again, "small") == b"x"
    again.close()
