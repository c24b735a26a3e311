"""`mini.py fsck`: what it prints, and the exit code that scripts go by."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import mini
from server import config
from tests.kit import folders

BIG = bytes(range(256)) * 400


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    storage = folders.open_folder(path)
    asyncio.run(folders.make_bucket(storage))
    asyncio.run(folders.put(storage, "a", BIG))
    storage.close()
    return path


def fsck(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> tuple[int, list[str]]:
    code = mini.main(["fsck", "--data", str(path), *options])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Boathouse {config.VERSION}  fsck {path}"
    return code, [line.strip() for line in lines[1:]]


def test_fsck_of_a_sound_folder_ends_with_0(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = f"checked  1 bodies, 1 blob files, {len(BIG)} bytes"
    assert fsck(capsys, data) == (0, [summary, "sound"])


def test_fsck_names_what_it_finds_and_repairs_it_on_request(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unnamed = "00" * 16
    (data / "blobs" / "00" / unnamed).write_bytes(b"xyz")
    finding = f"unnamed-file  blob {unnamed}: no record names its 3 bytes"
    summary = f"checked  1 bodies, 2 blob files, {len(BIG)} bytes"
    hint = "unnamed-file  1, `mini.py fsck --repair` repairs it"
    assert fsck(capsys, data) == (1, [finding, summary, hint])
    done = "unnamed-file  1, repaired"
    assert fsck(capsys, data, "--repair") == (0, [finding, summary, done, "sound"])
    assert fsck(capsys, data)[0] == 0


def test_fsck_ends_with_1_as_long_as_a_body_is_damaged(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (blob,) = folders.blob_files(data)
    place = data / "blobs" / blob[:2] / blob
    place.chmod(0o600)
    place.write_bytes(BIG[:-1] + b"\x00")
    for options in ((), ("--repair",)):
        code, lines = fsck(capsys, data, *options)
        assert code == 1
        assert lines[0] == (
            f"changed-bytes  raw/a: its CRC64NVME differs from the stored one (blob {blob})"
        )
        assert lines[-1] == (
            "changed-bytes  1, cannot be repaired: put the data back from a backup, or write it "
            "anew"
        )


def test_fsck_of_a_folder_that_it_cannot_check_ends_with_2(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = folders.open_folder(data, ids=folders.Ids("holder"))
    assert mini.main(["fsck", "--data", str(data)]) == 2
    assert "another process holds the data folder" in capsys.readouterr().err
    storage.close()
    assert mini.main(["fsck", "--data", str(tmp_path / "absent")]) == 2
    assert "is not a data folder" in capsys.readouterr().err
