"""What a check of a data folder says of each kind of damage, and what its repair mends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from storage import bodies, errors, fsck, keys, model, records
from storage.batch import Batch, Delete, Put, Store
from storage.disk import Disk
from storage.opening import Storage
from tests.kit import folders, invariants

BIG = bytes(range(256)) * 400
LONG = "n" * 900


async def fill(storage: Storage) -> None:
    """Objects in the index and in files, copies, versions, long keys and an upload."""
    await folders.make_bucket(storage)
    await storage.buckets.set_versioning("raw", "Enabled", bucket_id=1)
    await folders.put(storage, "small", b"small")
    await folders.put(storage, "empty", b"")
    await folders.put(storage, "big", BIG)
    await folders.put(storage, "big", BIG[1:])
    await folders.put(storage, LONG, BIG[2:])
    for key in ("copy", "other copy"):
        info = storage.objects.head("raw", "big")
        await storage.objects.copy(info, "raw", key, attributes=folders.PLAIN)
    small = storage.objects.head("raw", "small")
    await storage.objects.copy(small, "raw", "small copy", attributes=folders.PLAIN)
    upload = await storage.uploads.create("raw", "u", attributes=folders.PLAIN)
    for number, data in ((1, BIG[3:]), (2, b"part")):
        received = await storage.blobs.store(data, digests=folders.MD5)
        await storage.uploads.put_part("raw", "u", upload.upload_id, number, received)
    await folders.put(storage, "gone", BIG[4:])
    gone = storage.objects.head("raw", "gone")
    await storage.objects.delete("raw", "gone", version_id=gone.version_id)


def check(path: Path, *, mend: bool = False) -> tuple[fsck.CheckResult, list[tuple[str, str]]]:
    findings: list[fsck.Finding] = []
    result = fsck.check(
        path, disk=Disk(), mend=mend, report=findings.append, tell=lambda progress: None
    )
    return result, [(each.damage, each.where) for each in findings]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    storage = folders.open_folder(path)
    asyncio.run(fill(storage))
    storage.close()
    return path


def change(path: Path, work: Callable[[Storage], Batch]) -> None:
    """Write a Batch into the index of a folder as a fault would."""
    storage = folders.open_folder(path, ids=folders.Ids("fault"))
    storage.index.commit_now(work(storage))
    storage.close()


def segment_of(path: Path, key: str) -> model.Segment:
    storage = folders.open_folder(path, ids=folders.Ids("look"))
    (segment,) = storage.objects.head("raw", key).body.segments
    storage.close()
    return segment


def file_of(path: Path, key: str) -> Path:
    blob = segment_of(path, key).blob
    place = path / "blobs" / blob[:2] / blob
    place.chmod(0o600)
    return place


def is_whole(path: Path) -> None:
    """Check that a folder is sound, opens, and keeps every invariant."""
    assert check(path)[1] == []
    storage = folders.open_folder(path, ids=folders.Ids("whole"))
    invariants.check_recovered(storage, path)
    storage.close()


def test_a_sound_folder_has_no_findings_and_is_not_changed(data: Path) -> None:
    before = {file: file.read_bytes() for file in folders.files_of(data)}
    result, findings = check(data, mend=True)
    assert findings == []
    assert result.is_sound
    assert (result.bodies, result.files) == (10, 5)
    assert {file: file.read_bytes() for file in folders.files_of(data)} == before


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_check_in_parts_finds_the_same(
    data: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    (data / "blobs" / "00" / ("00" * 16)).write_bytes(b"x")
    file_of(data, "copy").write_bytes(BIG)
    whole = check(data)
    monkeypatch.setattr(fsck, "BLOBS_AT_ONCE", at_once)
    result, findings = check(data)
    assert sorted(findings) == sorted(whole[1])
    assert result.findings == whole[0].findings


def test_a_changed_byte_is_reported_with_every_name_of_the_body(data: Path) -> None:
    place = file_of(data, "big")
    place.write_bytes(BIG[1:-1] + b"\x00")
    for mend in (False, True):
        result, findings = check(data, mend=mend)
        assert [damage for damage, _ in findings] == ["changed-bytes"] * 3
        assert [where.partition(" version")[0] for _, where in findings] == [
            "raw/big", "raw/copy", "raw/other copy",
        ]  # fmt: skip
        assert not result.is_sound
    storage = folders.open_folder(data, ids=folders.Ids("after"))
    assert storage.objects.head("raw", "big").size_bytes == len(BIG) - 1, "no name is removed"
    storage.close()


def test_a_changed_byte_of_a_long_key_and_of_a_part_is_reported_by_its_name(data: Path) -> None:
    file_of(data, LONG).write_bytes(BIG[2:-1] + b"\x00")
    storage = folders.open_folder(data, ids=folders.Ids("look"))
    (upload,) = storage.uploads.list("raw").uploads
    with storage.index.view() as view:
        row = next(view.scan(Store.PARTS, b""))
    (segment,) = records.decode_part(row[1]).segments
    storage.close()
    place = data / "blobs" / segment.blob[:2] / segment.blob
    place.chmod(0o600)
    place.write_bytes(BIG[3:-1] + b"\x00")
    _, findings = check(data)
    assert len(findings) == 2
    assert findings[0][1].startswith(f"raw/{LONG} version ")
    assert findings[1] == ("changed-bytes", f"part 1 of the upload {upload.upload_id}")


def test_of_many_long_keys_only_the_end_is_named(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To name one takes a walk over all nodes: for each of a million keys that would never end."""
    monkeypatch.setattr(fsck, "LONG_KEYS_NAMED", 0)
    file_of(data, LONG).unlink()
    ((damage, where),) = check(data)[1]
    assert (damage, where.partition(" version")[0]) == ("missing-blob", "raw/... " + "n" * 100)


def test_a_truncated_and_a_longer_file_have_different_findings(data: Path) -> None:
    file_of(data, LONG).write_bytes(BIG[2:-1])
    with file_of(data, "big").open("ab") as file:
        file.write(b"more")
    _, findings = check(data)
    assert [damage for damage, _ in findings] == ["longer-blob", "truncated-blob"]


def test_a_missing_file_is_reported_by_name_and_the_name_stays(data: Path) -> None:
    file_of(data, LONG).unlink()
    result, findings = check(data, mend=True)
    assert [damage for damage, _ in findings] == ["missing-blob"]
    assert not result.is_sound


def test_a_missing_and_a_changed_row_are_reported(data: Path) -> None:
    small = segment_of(data, "small").blob
    change(
        data,
        lambda _: Batch(
            writes=(Put(store=Store.BODIES, key=bytes.fromhex(small), value=b"smalL"),)
        ),
    )
    assert [damage for damage, _ in check(data)[1]] == ["changed-bytes"] * 2
    change(data, lambda _: Batch(writes=(Delete(store=Store.BODIES, key=bytes.fromhex(small)),)))
    assert [damage for damage, _ in check(data)[1]] == ["missing-blob"] * 2


def test_an_unnamed_file_is_removed_by_the_repair(data: Path) -> None:
    place = data / "blobs" / "00" / ("00" * 16)
    place.write_bytes(b"x")
    assert check(data)[1] == [("unnamed-file", f"blob {'00' * 16}")]
    assert place.exists()
    result, _ = check(data, mend=True)
    assert result.is_sound
    assert not place.exists()
    is_whole(data)


def test_files_that_were_named_before_stay_because_the_index_may_be_older(data: Path) -> None:
    place = data / "blobs" / "00" / ("00" * 16)
    place.write_bytes(b"x")
    place.chmod(0o400)
    result, _ = check(data, mend=True)
    assert place.exists()
    assert not result.is_sound
    assert result.why_not_repaired is not None
    assert "the index is older" in result.why_not_repaired


def test_more_writable_files_than_a_crash_leaves_stay_because_their_modes_may_be_lost(
    data: Path,
) -> None:
    """As in a restored folder whose index is older, and whose files lost their modes."""
    blobs = [data / "blobs" / "00" / f"{number:032x}" for number in range(257)]
    for blob in blobs:
        blob.write_bytes(b"newer")
    result, _ = check(data, mend=True)
    assert [blob.read_bytes() for blob in blobs] == [b"newer"] * 257
    assert result.findings["unnamed-file"] == 257
    assert result.repaired["unnamed-file"] == 0
    assert result.why_not_repaired is not None
    assert result.why_not_repaired.startswith("257 of 262 blobs are unnamed and writable")
    assert "put the newest index/ back, or use `mini.py recover --yes`" in result.why_not_repaired

    blobs[0].unlink()
    result, _ = check(data, mend=True)
    assert result.is_sound, "256 files are what a crash may leave"
    is_whole(data)


def test_an_unnamed_row_is_removed_by_the_repair(data: Path) -> None:
    row = bytes(15) + b"\x01"
    change(data, lambda _: Batch(writes=(Put(store=Store.BODIES, key=row, value=b"x"),)))
    assert check(data)[1] == [("unnamed-row", f"blob {row.hex()} in the index")]
    assert check(data, mend=True)[0].is_sound
    is_whole(data)


@pytest.mark.parametrize("count", [None, 1, 9])
@pytest.mark.parametrize("key", ["big", "small"])
def test_a_wrong_count_is_corrected_by_the_repair(data: Path, key: str, count: int | None) -> None:
    segment = segment_of(data, key)
    row = bodies.blob_key(segment)

    def fault(_: Storage) -> Batch:
        if count is None:
            return Batch(writes=(Delete(store=Store.BLOBS, key=row),))
        record = records.BlobRecord(references=count, size_bytes=segment.length)
        return Batch(writes=(Put(store=Store.BLOBS, key=row, value=records.encode(record)),))

    change(data, fault)
    if count is None and key == "big":
        # A start would take the file for one that was named before, and refuse.
        assert {damage for damage, _ in check(data)[1]} == {"wrong-count"}
    result, findings = check(data, mend=True)
    assert [damage for damage, _ in findings] == ["wrong-count"]
    assert result.is_sound
    is_whole(data)


def test_a_count_without_names_is_released_with_its_file(data: Path) -> None:
    segment = segment_of(data, LONG)

    def fault(storage: Storage) -> Batch:
        address = keys.locate(storage.index, 1, LONG.encode())
        assert address is not None
        vacate = Batch(derive=(lambda reading: keys.vacate(reading, 1, LONG.encode()),))
        return Batch(writes=(Delete(store=Store.OBJECTS, key=address),), derive=vacate.derive)

    change(data, fault)
    assert [damage for damage, _ in check(data)[1]] == ["wrong-count"]
    assert check(data, mend=True)[0].is_sound
    is_whole(data)
    assert segment.blob not in folders.blob_files(data)


def test_a_named_blob_that_waits_for_its_removal_is_kept_by_the_repair(data: Path) -> None:
    segment = segment_of(data, LONG)
    storage = folders.open_folder(data, ids=folders.Ids("fault"))
    storage.index.commit_now(
        Batch(writes=(bodies.released("file", segment.blob, folders.START_MS),))
    )
    storage.close()
    result, findings = check(data, mend=True)
    assert [damage for damage, _ in findings] == ["released-but-named"]
    assert result.is_sound
    is_whole(data)


def test_parts_without_an_upload_are_removed_with_their_bytes(data: Path) -> None:
    def fault(storage: Storage) -> Batch:
        with storage.index.view() as view:
            rows = [key for key, _ in view.scan(Store.UPLOADS, b"")]
        return Batch(writes=tuple(Delete(store=Store.UPLOADS, key=key) for key in rows))

    change(data, fault)
    assert [damage for damage, _ in check(data)[1]] == ["part-without-upload"] * 2
    assert check(data, mend=True)[0].is_sound
    is_whole(data)
    assert len(folders.blob_files(data)) == 3


def test_rows_that_no_listing_reaches_are_reported(data: Path) -> None:
    def fault(storage: Storage) -> Batch:
        with storage.index.view() as view:
            marker = next(
                key for key, _ in view.scan(Store.OBJECTS, b"") if keys.suffix_of(key) is None
            )
        return Batch(writes=(Delete(store=Store.OBJECTS, key=marker),))

    change(data, fault)
    result, findings = check(data, mend=True)
    assert ("unreachable-rows", "raw (objects)") in findings
    assert not result.is_sound


def test_while_a_record_cannot_be_read_nothing_is_repaired(data: Path) -> None:
    place = data / "blobs" / "00" / ("00" * 16)
    place.write_bytes(b"x")

    def fault(storage: Storage) -> Batch:
        address = keys.locate(storage.index, 1, b"empty")
        assert address is not None
        return Batch(writes=(Put(store=Store.OBJECTS, key=address, value=b"\x01\x00\xff"),))

    storage = folders.open_folder(data, ids=folders.Ids("fault"))
    storage.index.commit_now(fault(storage))
    storage.close()
    place.write_bytes(b"x")
    result, findings = check(data, mend=True)
    assert ("unreadable-record", "raw/empty") in findings
    assert place.exists()
    assert result.why_not_repaired is not None
    assert not result.is_sound


def test_a_folder_in_use_and_one_without_an_index_are_not_checked(data: Path) -> None:
    storage = folders.open_folder(data, ids=folders.Ids("holder"))
    with pytest.raises(errors.FolderInUse):
        check(data)
    storage.close()
    (data / "index" / "data.mdb").unlink()
    with pytest.raises(errors.CorruptFolder, match="has lost its index"):
        check(data, mend=True)


def test_progress_counts_bodies_and_bytes(data: Path) -> None:
    reports: list[tuple[str, int, int, int]] = []

    def tell(progress: fsck.Progress) -> None:
        reports.append((progress.phase, progress.bodies, progress.bodies_all, progress.read_bytes))

    result = fsck.check(data, disk=Disk(), mend=False, report=lambda _: None, tell=tell)
    assert reports == sorted(reports, key=lambda each: (each[0] == "bytes", each[1:]))
    assert reports[-1] == ("bytes", 10, 10, result.read_bytes)
    # Each file once, each row once, however many objects name it.
    assert result.read_bytes == sum(len(BIG) - cut for cut in (0, 1, 2, 3)) + len("smallpart")
