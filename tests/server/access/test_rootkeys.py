"""The key files: made once, private, and refused when they cannot be read."""

from __future__ import annotations

import json
import os
import re
import stat

import pytest

from server.access import errors, rootkeys
from storage import disk


def open_root(folder, **more):
    return rootkeys.open_root(folder, disk=disk.Disk(), random_bytes=os.urandom, **more)


def open_ring(folder):
    return rootkeys.open_ring(folder, disk=disk.Disk(), random_bytes=os.urandom)


def test_first_start_makes_a_pair_and_later_ones_read_it(tmp_path):
    root = open_root(tmp_path)
    assert root.created
    assert re.fullmatch(r"BH[A-Z2-7]{18}", root.access_key)
    assert re.fullmatch(r"[A-Za-z0-9_-]{40}", root.secret_key)
    again = open_root(tmp_path)
    assert (again.access_key, again.secret_key) == (root.access_key, root.secret_key)
    assert not again.created
    assert json.loads((tmp_path / "root.json").read_text())["access_key"] == root.access_key


def test_key_files_are_for_their_owner_alone(tmp_path):
    open_root(tmp_path)
    open_ring(tmp_path)
    for name in ("root.json", "keys.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_two_folders_share_nothing(tmp_path):
    folders = (tmp_path / "a", tmp_path / "b")
    for folder in folders:
        folder.mkdir()
    assert len({open_root(folder).secret_key for folder in folders}) == 2
    assert len({open_ring(folder).keys[0].secret for folder in folders}) == 2


def test_pair_from_outside_wins_and_is_not_written_down(tmp_path):
    root = open_root(tmp_path, access_key="AK", secret_key="SK")
    assert (root.access_key, root.secret_key, root.created) == ("AK", "SK", False)
    assert list(tmp_path.iterdir()) == []


def test_ring_is_kept(tmp_path):
    ring = open_ring(tmp_path)
    assert open_ring(tmp_path) == ring
    assert len(ring.keys[0].secret) == len(ring.master) == 32
    assert ring.master != ring.keys[0].secret


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1}', '{"format": 1, "access_key": "a"}'],
)
def test_key_file_that_cannot_be_read_is_never_replaced(tmp_path, content):
    for name, opening in (("root.json", open_root), ("keys.json", open_ring)):
        (tmp_path / name).write_text(content)
        with pytest.raises(errors.CorruptKeys, match=name):
            opening(tmp_path)
        assert (tmp_path / name).read_text() == content


@pytest.mark.parametrize(
    "change",
    [
        {"master": "ab"},
        {"master": "xyz"},
        {"master": 5},
        {"signing": []},
        {"signing": [{"key_id": "a"}]},
        {"signing": [{"key_id": "a", "secret": "ab"}]},
        {"signing": ["a"]},
    ],
)
def test_ring_with_a_short_or_missing_secret_is_refused(tmp_path, change):
    open_ring(tmp_path)
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(errors.CorruptKeys):
        open_ring(tmp_path)
