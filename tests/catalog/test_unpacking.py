"""Long lists of loads: one row in their commit, one row per source afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog import errors, loads, records, unpacking
from storage import batch
from storage import errors as storage_errors
from tests.catalog import test_tables as samples
from tests.kit import lakes

MANY = 3 * loads.ROWS_AT_ONCE + 7


def pairs(prefix: str, count: int = MANY) -> set[tuple[str, str]]:
    return {(f"s3://raw/{prefix}{number}", "e") for number in range(count)}


def load(
    lake: lakes.Lake, snapshot: int, sources: set[tuple[str, str]], *, replace: bool = False
) -> None:
    rows = [{"source": source, "etag": etag} for source, etag in sorted(sources)]
    summary = {"boathouse.loads": json.dumps(rows)}
    if replace:
        summary["boathouse.loads.mode"] = "replace"
    samples.commit(lake, "ns.t", *samples.append(snapshot, snapshot, **summary))


def make_table(lake: lakes.Lake) -> None:
    lake.run(lake.namespaces.create("lake", ("ns",), by=samples.BY))
    samples.create(lake)


def taken(lake: lakes.Lake, limit: int = 300) -> set[tuple[str, str]]:
    """All loads of the table, in pages; no row may come twice."""
    rows: list[tuple[str, str]] = []
    place = lake.store.place("lake")
    uuid_of = lake.run(lake.tables.fetch(lake.ident("ns.t"))).pointer.object_uuid
    after: str | None = ""
    while after is not None:
        with lake.storage.index.view() as view:
            page = loads.page(view, place, uuid_of, after=after, limit=limit)
        assert len(page.loads) <= limit
        rows += [(row.source, row.etag) for row in page.loads]
        after = page.next
    assert len(set(rows)) == len(rows)
    return set(rows)


def is_unwritten(lake: lakes.Lake) -> bool:
    pointer = lake.run(lake.tables.fetch(lake.ident("ns.t"))).pointer
    key = records.unwritten_loads_key(lake.store.place("lake").bucket_id, pointer.object_uuid)
    return lake.storage.index.get(batch.Store.LOADS, key) is not None


class Stopped(storage_errors.StorageError):
    """The server stops here."""


@contextlib.contextmanager
def stopping_after(steps: int, patches: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a load write its rows for some transactions, and no more."""
    plan_rows, plan_removals, plan_end = loads.plan_rows, loads.plan_removals, loads.plan_end
    left = steps

    def step() -> None:
        nonlocal left
        if left == 0:
            raise Stopped("the server stops here")
        left -= 1

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any) -> Any:
            step()
            return work(*arguments)

        return count

    def rows(unwritten: loads.Unwritten) -> Iterator[batch.Batch]:
        for each in plan_rows(unwritten):
            step()
            yield each

    with patches.context() as patched:
        patched.setattr(loads, "plan_rows", rows)
        patched.setattr(loads, "plan_removals", counted(plan_removals))
        patched.setattr(loads, "plan_end", counted(plan_end))
        yield


def test_a_long_list_is_one_row_in_its_commit_and_one_per_source_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lakes.opened(tmp_path) as lake:
        make_table(lake)
        with stopping_after(0, monkeypatch):
            load(lake, 1, pairs("a"))
        assert is_unwritten(lake)
        assert taken(lake) == pairs("a")
        with lake.storage.index.view() as view:
            assert len(list(view.scan(batch.Store.LOADS, b""))) == 2
    with lakes.opened(tmp_path, first_id=1_000) as lake:
        assert taken(lake) == pairs("a")
        load(lake, 2, pairs("b", 3))
        assert not is_unwritten(lake)
        with lake.storage.index.view() as view:
            assert len(list(view.scan(batch.Store.LOADS, b""))) == MANY + 3
        assert taken(lake) == pairs("a") | pairs("b", 3)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("steps", range(10))
def test_a_server_that_stops_at_any_step_forgets_no_load_and_takes_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, replace: bool
) -> None:
    first, second = pairs("a"), pairs("a", 10) | pairs("b")
    expected = second if replace else first | (second - first)
    with lakes.opened(tmp_path) as lake:
        make_table(lake)
        load(lake, 1, first)
        with stopping_after(steps, monkeypatch):
            load(lake, 2, second if replace else second - first, replace=replace)
        assert taken(lake) == expected
    with lakes.opened(tmp_path, first_id=1_000) as lake:
        assert taken(lake) == expected
        for again in (min(second - first), *sorted(expected)[:2]):
            with pytest.raises(errors.LoadAlreadyTaken):
                load(lake, 3, {again})
        assert not is_unwritten(lake)
        assert taken(lake) == expected
        load(lake, 4, {("s3://raw/new", "e")})
        if replace:
            load(lake, 5, {min(first - second)})


def test_of_two_long_lists_with_a_common_source_one_is_taken(tmp_path: Path) -> None:
    with lakes.opened(tmp_path) as lake:
        make_table(lake)

        def change(snapshot: int, sources: set[tuple[str, str]]) -> list[dict[str, Any]]:
            rows = [{"source": source, "etag": etag} for source, etag in sources]
            return samples.append(snapshot, snapshot, **{"boathouse.loads": json.dumps(rows)})

        async def race() -> list[Any]:
            lists = (pairs("a") | pairs("x", 1), pairs("b") | pairs("x", 1), pairs("x", 1))
            return await asyncio.gather(
                *(
                    lake.tables.commit(
                        lake.ident("ns.t"), [], change(number, sources), by=samples.BY
                    )
                    for number, sources in enumerate(lists, 1)
                ),
                return_exceptions=True,
            )

        outcome = lake.run(race())
        lost = [each for each in outcome if isinstance(each, Exception)]
        assert [type(each) for each in lost] == [errors.LoadAlreadyTaken] * 2
        assert len(list(lake.run(lake.tables.fetch(lake.ident("ns.t"))).metadata.snapshot_ids)) == 1
        assert ("s3://raw/x0", "e") in taken(lake)


def test_a_full_disk_hides_no_load_whose_rows_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lakes.opened(tmp_path) as lake:
        make_table(lake)
        with stopping_after(1, monkeypatch):
            load(lake, 1, pairs("a"))
        monkeypatch.setattr(lake.storage.index, "_crowded", True)
        assert taken(lake) == pairs("a")
        with pytest.raises(storage_errors.DiskFull):
            load(lake, 2, pairs("b", 1))
        monkeypatch.setattr(lake.storage.index, "_crowded", False)
        load(lake, 2, pairs("b", 1))
        assert taken(lake) == pairs("a") | pairs("b", 1)


def test_no_transaction_of_a_list_as_long_as_may_be_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100,000 rows in one transaction held the writer thread for 0.4 s of its own time."""
    held: list[float] = []
    with lakes.opened(tmp_path) as lake:
        index = lake.storage.index
        write = index._write

        def measured(*arguments: Any) -> Any:
            began = time.thread_time()
            try:
                return write(*arguments)
            finally:
                held.append(time.thread_time() - began)

        place, object_uuid = lake.store.place("lake"), str(uuid.UUID(int=5))
        monkeypatch.setattr(index, "_write", measured)
        for snapshot, mode in ((1, "append"), (2, "replace")):
            sources = tuple(
                (f"s3://plain/in{snapshot}/{number:07}.parquet", "e")
                for number in range(loads.LOADS_MAX)
            )
            each = loads.Taken(snapshot_id=snapshot, sources=sources, mode=mode)  # type: ignore[arg-type]  # one of the two
            with index.view() as view:
                planned = loads.plan(
                    view, place, object_uuid, [each], now_ms=1, load_id=str(snapshot)
                )
            lake.run(index.commit(planned))
            lake.run(unpacking.write_rows(index, place.bucket_id, object_uuid))
            with index.view() as view:
                assert len(list(view.scan(batch.Store.LOADS, b""))) == loads.LOADS_MAX
    assert max(held) < 0.04, f"{max(held):.3f} s"


def test_sources_of_the_commit_that_creates_a_table_are_taken(lake: lakes.Lake) -> None:
    lake.run(lake.namespaces.create("lake", ("ns",), by=samples.BY))
    staged = samples.create(lake, stage=True)
    summary = {"boathouse.loads": json.dumps([{"source": "s3://raw/a", "etag": "e"}])}
    samples.commit(
        lake,
        "ns.t",
        *samples.creation(staged),
        *samples.append(1, 1, **summary),
        requirements=samples.CREATE,
    )
    assert taken(lake) == {("s3://raw/a", "e")}
    with pytest.raises(errors.LoadAlreadyTaken):
        samples.commit(lake, "ns.t", *samples.append(2, 2, **summary))
