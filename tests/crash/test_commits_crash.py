"""Power cuts during one commit of three tables: all of its changes are there, or none.

A REST transaction names tables of one table bucket, because its URL has the prefix of one
warehouse. A transaction of SQL names those of several (tests/crash/test_transactions_crash.py); the
commit below both is cut here as well, over two buckets.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from catalog import commits, idents
from catalog import errors as catalog_errors
from storage import errors as storage_errors
from storage.disk import Disk
from tests.catalog.rest import rest_server
from tests.kit import invariants, lakes
from tests.kit.faulty_disk import FaultyDisk, PowerCut, Recording, spread

LARGE = "x" * 700_000
"""Two texts of this length make a metadata file that is a blob of its own."""
COLUMN = {"id": 3, "name": "added", "required": False, "type": "long"}
UPDATES: tuple[list[dict[str, Any]], ...] = (
    [{"action": "set-properties", "updates": {"a": "1"}}],
    [
        {
            "action": "add-schema",
            "schema": {"type": "struct", "fields": [*lakes.SCHEMA["fields"], COLUMN]},
        },
        {"action": "set-current-schema", "schema-id": -1},
    ],
    [{"action": "set-properties", "updates": {"one": LARGE, "two": LARGE}}],
)
"""The changes of the three tables."""
KEY = "0198f1c2-7d3a-7000-8000-0123456789ab"
FIRST_ID = 1_000_000


def ident(dotted: str) -> idents.TableIdent:
    bucket, namespace, name = dotted.split(".")
    return idents.TableIdent(table_bucket=bucket, namespace=(namespace,), name=name)


def prepare(data: Path, tables: tuple[str, ...]) -> None:
    with lakes.opened(data) as lake:
        if any(name.startswith("pond.") for name in tables):
            created = lake.storage.buckets.create(
                "pond", bucket_type="table", owner=lakes.ACCOUNT, region="us-east-1"
            )
            lake.run(created)
        for bucket, namespace in dict.fromkeys(tuple(name.split(".")[:2]) for name in tables):
            lake.run(lake.namespaces.create(bucket, (namespace,), by=lakes.BY))
        for name in tables:
            lake.run(lake.tables.create(ident(name), schema=lakes.SCHEMA, by=lakes.BY))


def commit_by_rest(data: Path, tables: tuple[str, ...], disk: Disk) -> bool:
    """Commit by one request with an idempotency key; return whether it was acknowledged."""
    with (
        contextlib.suppress(PowerCut),
        rest_server.opened(data, first_id=FIRST_ID, on_disk=disk) as rest,
    ):
        rest.run(rest.token("root"))
        if isinstance(disk, FaultyDisk):
            disk.begin()
        table_changes = [
            {
                "identifier": {"namespace": list(ident(name).namespace), "name": ident(name).name},
                "requirements": [],
                "updates": updates,
            }
            for name, updates in zip(tables, UPDATES, strict=True)
        ]
        request = rest.exchange(
            "POST",
            "transactions/commit",
            {"table-changes": table_changes},
            idempotency_key=KEY,
        )
        answer = rest.run(answered(request, disk))
        if answer is None:
            return False
        if answer.status != 204:
            # Only an answer that the outcome is unknown lets the client keep its files.
            assert answer.status >= 500, answer.body
            assert isinstance(disk, FaultyDisk)
            assert disk.off
        elif isinstance(disk, FaultyDisk):
            disk.end()
        return answer.status == 204
    return False


async def answered(request: Coroutine[Any, Any, Any], disk: Disk) -> Any:
    """Return the answer to a request; None if the power goes before one comes."""
    asking = asyncio.ensure_future(request)
    while not (asking.done() or (isinstance(disk, FaultyDisk) and disk.off)):  # noqa: ASYNC110 - the disk offers no event
        await asyncio.sleep(0.001)
    if asking.done():
        return asking.result()
    asking.cancel()
    return None


def commit_below(data: Path, tables: tuple[str, ...], disk: Disk) -> bool:
    """Commit as every interface does; return whether it was acknowledged."""
    with contextlib.suppress(PowerCut), lakes.opened(data, disk=disk, first_id=FIRST_ID) as lake:
        if isinstance(disk, FaultyDisk):
            disk.begin()
        changes = [
            commits.TableChange(ident=ident(name), requirements=[], updates=updates)
            for name, updates in zip(tables, UPDATES, strict=True)
        ]
        try:
            lake.run(lake.tables.commit_many(changes, by=lakes.BY))
        except (PowerCut, storage_errors.StorageError, catalog_errors.CatalogError):
            assert isinstance(disk, FaultyDisk)
            assert disk.off
            return False
        if isinstance(disk, FaultyDisk):
            disk.end()
        return True
    return False


def state(data: Path, tables: tuple[str, ...]) -> list[tuple[int, list[str], dict[str, int]]]:
    """Check a folder whole; return each table's commits, columns, and properties by length."""
    observed = []
    with lakes.opened(data, first_id=2 * FIRST_ID) as lake:
        assert lake.storage.recovery.missing == ()
        for name in tables:
            loaded = lake.run(lake.tables.fetch(ident(name)))
            metadata = json.loads(loaded.data)
            assert metadata["table-uuid"] == loaded.pointer.table_uuid
            (fields,) = (
                each["fields"]
                for each in metadata["schemas"]
                if each["schema-id"] == metadata["current-schema-id"]
            )
            properties = {key: len(metadata["properties"].get(key, "")) for key in ("a", "one")}
            columns = [field["name"] for field in fields]
            observed.append((len(metadata["metadata-log"]), columns, properties))
        assert lake.broken_chain() is None
        invariants.check_recovered(lake.storage, data)
    return observed


NAMES = ["id", "name"]
BEFORE = [(0, NAMES, {"a": 0, "one": 0})] * 3
AFTER = [
    (1, NAMES, {"a": 1, "one": 0}),
    (1, [*NAMES, "added"], {"a": 0, "one": 0}),
    (1, NAMES, {"a": 0, "one": len(LARGE)}),
]

Commit = Callable[..., bool]
WAYS: dict[str, tuple[Commit, tuple[str, ...]]] = {
    "rest": (commit_by_rest, ("lake.ns.t", "lake.ns.u", "lake.other.v")),
    "two table buckets": (commit_below, ("lake.ns.t", "lake.ns.u", "pond.ns.v")),
}


Rows = list[tuple[int, list[str], dict[str, int]]]


def restarted(left: Path, way: str) -> Rows:
    """Return what a restart observes; the client of a REST request then repeats it.

    It is done once, whether the first one was done or not.
    """
    tables = WAYS[way][1]
    rows = state(left, tables)
    if way == "rest":
        assert commit_by_rest(left, tables, Disk())
        assert state(left, tables) == AFTER
    return rows


@pytest.mark.generated
@pytest.mark.parametrize("way", WAYS)
def test_after_a_power_cut_at_any_event_three_tables_are_all_changed_or_none_is(
    tmp_path: Path, way: str
) -> None:
    commit, tables = WAYS[way]
    prepare(tmp_path / "prepared", tables)
    assert state(tmp_path / "prepared", tables) == BEFORE
    data = tmp_path / "data"
    shutil.copytree(tmp_path / "prepared", data)
    disk = FaultyDisk(tmp_path / "aside")
    recording = Recording(
        disk,
        data,
        tmp_path / "left",
        modes=[("lost", "lost")],
        restart=lambda left: restarted(left, way),
    )
    assert commit(data, tables, disk)
    assert recording.last() == [AFTER], "what was acknowledged is kept"
    states = recording.states()
    for each in states:
        assert each.observed in (BEFORE, AFTER), each.when
    assert BEFORE in [each.observed for each in states]
    assert AFTER in [each.observed for each in states[:-1]], (
        "a cut right after the transaction keeps it"
    )
    for stop_after in spread(recording.events - 1, count=3):
        check_cut(tmp_path, way, stop_after=stop_after)


def check_cut(folder: Path, way: str, *, stop_after: int) -> bool:
    """Cut the power at one event; return whether the commit was acknowledged before it."""
    commit, tables = WAYS[way]
    place = folder / str(stop_after)
    shutil.copytree(folder / "prepared", place / "data")
    disk = FaultyDisk(place / "aside", stop_after=stop_after)
    acknowledged = commit(place / "data", tables, disk)
    (remains,) = disk.remains(place / "data", [("lost", "lost")])
    remains.write(place / "left")
    assert restarted(place / "left", way) in ((AFTER,) if acknowledged else (BEFORE, AFTER))
    shutil.rmtree(place)
    return acknowledged


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_after_a_power_cut_at_any_event_no_commit_is_acknowledged(tmp_path: Path, way: str) -> None:
    prepare(tmp_path / "prepared", WAYS[way][1])
    stop_after = 1
    while not check_cut(tmp_path, way, stop_after=stop_after):
        stop_after += 1
    assert stop_after > 3, "the transaction is an event before and one after it"
