"""Power cuts during every change of a view: all views are wholly as before, or wholly as after."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from catalog import errors as catalog_errors
from storage import errors as storage_errors
from storage.disk import Disk
from tests.kit import invariants, lakes
from tests.kit.faulty_disk import Data, FaultyDisk, Names, PowerCut, Recording, spread

Change = Callable[[lakes.Lake], Coroutine[Any, Any, Any]]
LARGE = "x" * 700_000
"""Two texts of this length make metadata that is a blob of its own."""
MODES: tuple[tuple[Data, Names], ...] = (("kept", "kept"), ("lost", "lost"), ("torn", "kept"))
FIRST_ID = 1_000_000
"""Ids of the change; the folders that it is made on have others."""


def version(number: int, text: str) -> dict[str, Any]:
    return {
        **lakes.VIEW_VERSION,
        "version-id": number,
        "representations": [{"type": "sql", "sql": text, "dialect": "spark"}],
    }


def create_view(lake: lakes.Lake, dotted: str, text: str = "select 1") -> Coroutine[Any, Any, Any]:
    return lake.views.create(
        lake.ident(dotted), schema=lakes.SCHEMA, view_version=version(1, text), by=lakes.BY
    )


def replaced(
    lake: lakes.Lake, dotted: str, text: str, *more: dict[str, Any]
) -> Coroutine[Any, Any, Any]:
    updates = [
        {"action": "add-view-version", "view-version": version(2, text)},
        {"action": "set-current-view-version", "view-version-id": -1},
        *more,
    ]
    return lake.views.replace(lake.ident(dotted), [], updates, by=lakes.BY)


def register(lake: lakes.Lake) -> Coroutine[Any, Any, Any]:
    (key,) = [info.key for info in lake.storage.objects.list("lake", prefix="ns/gone/").objects]
    return lake.views.register(
        lake.ident("other.back"), f"s3://lake/{key}", by=lakes.BY, permit=lakes.permit_all
    )


MOVE = {"action": "set-location", "location": "s3://lake/ns/moved"}
CHANGES: dict[str, Change] = {
    "create": lambda lake: create_view(lake, "ns.new"),
    "create large": lambda lake: create_view(lake, "ns.new", "x" * 1_200_000),
    "replace": lambda lake: replaced(lake, "ns.v", "select 2"),
    "replace large": lambda lake: replaced(lake, "ns.large", LARGE),
    "move": lambda lake: replaced(lake, "ns.v", "select 2", MOVE),
    "rename": lambda lake: lake.views.rename(
        lake.ident("ns.v"), lake.ident("other.w"), by=lakes.BY
    ),
    "drop": lambda lake: lake.views.drop(lake.ident("ns.v"), by=lakes.BY),
    "register": register,
    "drop with its namespace": lambda lake: lake.namespaces.drop_whole(
        "lake", ("ns",), check=lambda *_: None, by=lakes.BY
    ),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two views, one of them large, and the file of one that was dropped."""
    data = tmp_path_factory.mktemp("views") / "data"
    with lakes.opened(data) as lake:
        for namespace in ("ns", "other"):
            lake.run(lake.namespaces.create("lake", (namespace,), by=lakes.BY))
        lake.run(create_view(lake, "ns.v"))
        lake.run(create_view(lake, "ns.large", LARGE + "y"))
        lake.run(create_view(lake, "ns.gone"))
        lake.run(lake.views.drop(lake.ident("ns.gone"), by=lakes.BY))
    return data


def state(data: Path) -> dict[str, Any]:
    """Check a folder whole, and return the metadata of every view, by its name."""
    views: dict[str, Any] = {}
    with lakes.opened(data, first_id=2 * FIRST_ID) as lake:
        assert lake.storage.recovery.missing == ()
        for namespace in ("ns", "other"):
            if not lake.namespaces.exists("lake", (namespace,)):
                continue
            views[namespace] = "is there"
            for name in lake.run(lake.store.page("lake", "view", (namespace,), limit=100)):
                ident = lake.ident(f"{namespace}.{name}")
                loaded = lake.run(lake.views.fetch(ident))
                metadata = json.loads(loaded.data)
                assert metadata["view-uuid"] == loaded.pointer.table_uuid
                assert metadata["location"] == loaded.pointer.location
                views[ident.dotted()] = metadata
        assert lake.broken_chain() is None
        invariants.check_recovered(lake.storage, data)
    return views


def change(data: Path, name: str, disk: Disk) -> bool:
    """Make a change on a disk that may lose power; say whether it was acknowledged."""
    with contextlib.suppress(PowerCut), lakes.opened(data, disk=disk, first_id=FIRST_ID) as lake:
        if isinstance(disk, FaultyDisk):
            disk.begin()
        try:
            lake.run(CHANGES[name](lake))
        except (PowerCut, storage_errors.StorageError, catalog_errors.CatalogError):
            assert isinstance(disk, FaultyDisk)
            assert disk.off
            return False
        if isinstance(disk, FaultyDisk):
            disk.end()
        return True
    return False


@pytest.mark.generated
@pytest.mark.parametrize("name", CHANGES)
def test_after_a_power_cut_at_any_event_every_view_is_as_before_or_as_after(
    prepared: Path, tmp_path: Path, name: str
) -> None:
    before = state(prepared)
    shutil.copytree(prepared, tmp_path / "whole")
    assert change(tmp_path / "whole", name, Disk())
    after = state(tmp_path / "whole")
    assert after != before
    data = tmp_path / "data"
    shutil.copytree(prepared, data)
    disk = FaultyDisk(tmp_path / "aside")
    recording = Recording(disk, data, tmp_path / "left", modes=MODES, restart=state)
    assert change(data, name, disk)
    assert all(views == after for views in recording.last()), "what was acknowledged is kept"
    states = recording.states()
    for each in states:
        assert each.observed in (before, after), each.when
    assert before in [each.observed for each in states]
    assert after in [each.observed for each in states[: -len(recording.last())]], (
        "a cut right after the transaction keeps it"
    )
    for stop_after in spread(recording.events - 1, count=3):
        place = tmp_path / str(stop_after)
        check_cut(prepared, place, name, stop_after=stop_after, whole=(before, after))


def check_cut(
    prepared: Path, place: Path, name: str, *, stop_after: int, whole: tuple[Any, Any]
) -> bool:
    """Cut the power at one event; return whether the change was acknowledged before it.

    whole: the views before and after the change.
    """
    shutil.copytree(prepared, place / "data")
    disk = FaultyDisk(place / "aside", stop_after=stop_after)
    acknowledged = change(place / "data", name, disk)
    for number, remains in enumerate(disk.remains(place / "data", MODES)):
        left = place / f"left{number}"
        remains.write(left)
        assert state(left) in (whole[1:] if acknowledged else whole), remains.mode
    shutil.rmtree(place)
    return acknowledged


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGES)
def test_after_a_power_cut_at_any_event_no_change_is_acknowledged(
    prepared: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(prepared, tmp_path / "whole")
    assert change(tmp_path / "whole", name, Disk())
    whole = (state(prepared), state(tmp_path / "whole"))
    stop_after = 1
    while not check_cut(
        prepared, tmp_path / str(stop_after), name, stop_after=stop_after, whole=whole
    ):
        stop_after += 1
    assert stop_after > 2, "the transaction is an event before and one after it"
