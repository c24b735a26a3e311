"""What a table costs among many others, counted in operations on the index."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage import batch, index
from tests.kit import lakes

BY = lakes.BY
FEW, MANY = 20, 1_000
"""Tables in the bucket. What grows with them would be 50 times as much."""


class Operations:
    """Counts the rows that are read and written. Mutable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = self.writes = 0
        for owner in (index.Index, index.ReadView):
            monkeypatch.setattr(owner, "get", self._get(owner.get))
        view: Any = index.ReadView
        for name in ("first", "take", "take_columns", "count"):
            monkeypatch.setattr(view, name, self._get(getattr(view, name)))
        monkeypatch.setattr(view, "scan", self._scan(view.scan))
        monkeypatch.setattr(view, "keys", self._scan(view.keys))
        monkeypatch.setattr(index._Writing, "do", self._do(index._Writing.do))

    def take(self) -> tuple[int, int]:
        counts = self.reads, self.writes
        self.reads = self.writes = 0
        return counts

    def _get(self, method: Any) -> Any:
        def get(*arguments: Any, **more: Any) -> Any:
            self.reads += 1
            return method(*arguments, **more)

        return get

    def _scan(self, method: Any) -> Any:
        def scan(*arguments: Any, **more: Any) -> Iterator[Any]:
            for row in method(*arguments, **more):
                self.reads += 1
                yield row

        return scan

    def _do(self, method: Any) -> Any:
        def do(writing: Any, write: batch.Write) -> None:
            self.writes += 1
            method(writing, write)

        return do


def test_a_create_a_load_and_a_commit_cost_the_same_among_many_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lakes.opened(tmp_path / "data") as lake:
        operations = Operations(monkeypatch)

        async def create(number: int) -> None:
            ident = lake.ident(f"ns.t{number:05d}")
            await lake.tables.create(ident, schema=lakes.SCHEMA, by=BY)

        async def fill(start: int, stop: int) -> None:
            for number in range(start, stop, 20):
                await asyncio.gather(*map(create, range(number, number + 20)))

        async def measure(number: int) -> dict[str, tuple[int, int]]:
            ident = lake.ident(f"ns.t{number:05d}")
            operations.take()
            await create(number)
            costs = {"create": operations.take()}
            lake.load(ident)
            costs["load"] = operations.take()
            update = {"action": "set-properties", "updates": {"a": "b"}}
            await lake.tables.commit(ident, [], [update], by=BY)
            costs["commit"] = operations.take()
            return costs

        async def work() -> None:
            await lake.namespaces.create("lake", ("ns",), by=BY)
            await fill(0, FEW)
            few = await measure(50_000)
            await fill(FEW, MANY)
            many = await measure(50_001)
            assert many == few
            assert all(sum(each) > 0 for each in few.values())

        lake.run(work())
