"""What a repair of a data folder would do, and what it does."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from storage import errors, repair
from storage.disk import Disk
from storage.sweep import Missing
from tests.kit import folders
from tests.storage.test_opening import BIG, contents, filled

BIG_BYTES = len(BIG)


def mend(path: Path) -> None:
    folders.open_folder(path, ids=folders.Ids("mended"), repair=True).close()


def test_a_whole_folder_needs_no_repair(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    plan = repair.plan(tmp_path / "data", disk=Disk())
    assert plan == repair.Plan(
        writes_format=False,
        makes_blobs=False,
        files_count=3,
        files_bytes=3 * BIG_BYTES,
        arriving_count=0,
        settled_count=0,
        unnamed_bytes=0,
        missing=(),
    )
    assert not plan.changes_anything


def test_unnamed_blobs_are_counted_first_and_removed_by_the_repair(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    shutil.copytree(tmp_path / "data" / "index", tmp_path / "backup")
    storage = folders.open_folder(tmp_path / "data", ids=folders.Ids("later"))
    for number in range(2):
        asyncio.run(folders.put(storage, f"later{number}", BIG))
    storage.close()
    shutil.rmtree(tmp_path / "data" / "index")
    shutil.copytree(tmp_path / "backup", tmp_path / "data" / "index")
    (tmp_path / "data" / "blobs" / "00" / ("00" * 16)).write_bytes(b"x")
    before = contents(tmp_path / "data")
    plan = repair.plan(tmp_path / "data", disk=Disk())
    assert contents(tmp_path / "data") == before
    assert (plan.files_count, plan.settled_count, plan.arriving_count) == (6, 2, 1)
    assert plan.unnamed_bytes == 2 * BIG_BYTES + 1
    mend(tmp_path / "data")
    assert not repair.plan(tmp_path / "data", disk=Disk()).changes_anything
    again = folders.open_folder(tmp_path / "data", ids=folders.Ids("again"))
    assert folders.get(again, "big2") == BIG
    again.close()


def test_a_lost_format_is_written_from_the_index(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    place = tmp_path / "data" / "format.json"
    server_id = json.loads(place.read_text())["server_id"]
    place.unlink()
    assert repair.plan(tmp_path / "data", disk=Disk()).writes_format
    assert not place.exists()
    mend(tmp_path / "data")
    assert json.loads(place.read_text())["server_id"] == server_id
    folders.open_folder(tmp_path / "data", ids=folders.Ids("again")).close()


def test_lost_blobs_are_listed_and_their_names_stay(tmp_path: Path) -> None:
    filled(tmp_path / "data", big=1)
    storage = folders.open_folder(tmp_path / "data", ids=folders.Ids("seen"))
    (segment,) = storage.objects.head("raw", "big0").body.segments
    storage.close()
    shutil.rmtree(tmp_path / "data" / "blobs")
    plan = repair.plan(tmp_path / "data", disk=Disk())
    assert plan.makes_blobs
    assert plan.missing == (Missing(blob=segment.blob, bucket="raw", key="big0"),)
    mend(tmp_path / "data")
    again = folders.open_folder(tmp_path / "data", ids=folders.Ids("again"))
    assert again.recovery.missing == plan.missing
    assert folders.get(again, "small") == b"x"
    again.close()


def test_a_lost_index_cannot_be_repaired_and_every_blob_stays(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "index")
    before = contents(tmp_path / "data")
    with pytest.raises(errors.CorruptFolder, match="has lost its index"):
        repair.plan(tmp_path / "data", disk=Disk())
    with pytest.raises(errors.CorruptFolder, match="has lost its index"):
        mend(tmp_path / "data")
    assert contents(tmp_path / "data") == before


def test_the_index_of_another_folder_cannot_be_repaired(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    filled(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "index" / "data.mdb", tmp_path / "data" / "index")
    with pytest.raises(errors.CorruptFolder, match="belongs to another folder"):
        repair.plan(tmp_path / "data", disk=Disk())
    with pytest.raises(errors.CorruptFolder, match="belongs to another folder"):
        mend(tmp_path / "data")


def test_a_folder_that_was_never_one_is_not_made_by_looking_at_it(tmp_path: Path) -> None:
    with pytest.raises(errors.CorruptFolder, match="is not a data folder"):
        repair.plan(tmp_path / "data", disk=Disk())
    assert not (tmp_path / "data").exists()


def test_a_held_folder_is_not_looked_at(tmp_path: Path) -> None:
    storage = folders.open_folder(tmp_path / "data")
    with pytest.raises(errors.FolderInUse):
        repair.plan(tmp_path / "data", disk=Disk())
    storage.close()
