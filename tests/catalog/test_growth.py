"""What an operation on one table asks of the index, however many tables the table bucket has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from catalog import idents
from storage import index
from tests.kit import lakes

FEW, MANY = 20, 600


class Counted:
    """Counts rows read, lookups and writes of the index since the last `taken`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: dict[str, int] = {}
        for name in ("get", "first", "count"):
            self._count_calls(monkeypatch, index.ReadView, name)
        self._count_calls(monkeypatch, index._Writing, "do")
        for name in ("take", "take_columns", "keys", "scan"):
            self._count_rows(monkeypatch, name)

    def taken(self) -> dict[str, int]:
        """Return the counts, and begin again from 0."""
        counts, self.counts = self.counts, {}
        return counts

    def _note(self, name: str, count: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + count

    def _count_calls(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            self._note(name, 1)
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, counting)

    def _count_rows(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        original: Callable[..., Any] = getattr(index.ReadView, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            self._note(f"{name}s", 1)
            rows = original(*arguments, **named)
            if name == "take_columns":
                self._note(name, len(rows[0]))
                return rows
            return counted(rows) if isinstance(rows, Iterator) else self._noted(name, rows)

        def counted(rows: Iterator[Any]) -> Iterator[Any]:
            for row in rows:
                self._note(name, 1)
                yield row

        monkeypatch.setattr(index.ReadView, name, counting)

    def _noted(self, name: str, rows: Any) -> Any:
        self._note(name, len(rows))
        return rows


@pytest.fixture
def ns(lake: lakes.Lake) -> lakes.Lake:
    lake.run(lake.namespaces.create("lake", ("ns",), {}, by=lakes.BY))
    return lake


def ident(number: int) -> idents.TableIdent:
    return idents.TableIdent(table_bucket="lake", namespace=("ns",), name=f"t{number:05d}")


def test_a_create_a_load_and_a_commit_ask_the_same_of_the_index_with_few_and_many_tables(
    ns: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create(first: int, stop: int) -> None:
        for number in range(first, stop):
            await ns.tables.create(ident(number), schema=lakes.SCHEMA, by=lakes.BY)

    async def commit(number: int) -> None:
        update = {"action": "set-properties", "updates": {"owner": "x"}}
        await ns.tables.commit(ident(number), [], [update], by=lakes.BY)

    def costs(tables: int) -> dict[str, dict[str, int]]:
        """Create the table that makes it so many, load and commit one in the middle."""
        counted.taken()
        asyncio.run(create(tables - 1, tables))
        created = counted.taken()
        ns.load(ident(tables // 2))
        loaded = counted.taken()
        asyncio.run(commit(tables // 2))
        return {"create": created, "load": loaded, "commit": counted.taken()}

    asyncio.run(create(0, FEW - 1))
    counted = Counted(monkeypatch)
    few = costs(FEW)
    asyncio.run(create(FEW, MANY - 1))
    assert costs(MANY) == few
    assert all(sum(counts.values()) > 0 for counts in few.values())
