"""What a request costs does not grow with the number of its neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from storage import index
from tests.catalog.rest import house as houses

NEIGHBOURS = 150


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what the index is asked, in views and in the writer: values, scans and their rows."""
    counted: Counter[str] = Counter()

    def counting(what: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*values: Any, **more: Any) -> Any:
            counted[what] += 1
            return ask(*values, **more)

        return asked

    scan = index.View.scan

    def scanned(*values: Any, **more: Any) -> Iterator[tuple[bytes, bytes]]:
        counted["scans"] += 1
        for row in scan(*values, **more):
            counted["rows"] += 1
            yield row

    monkeypatch.setattr(index.View, "get", counting("gets", index.View.get))
    monkeypatch.setattr(index.View, "first", counting("firsts", index.View.first))
    monkeypatch.setattr(index.View, "scan", scanned)
    monkeypatch.setattr(index.Index, "get", counting("gets", index.Index.get))
    return counted


def test_creating_loading_and_committing_cost_the_same_among_many_tables(
    house: houses.House, reads: Counter[str]
) -> None:
    def costs_of(name: str) -> dict[str, Counter[str]]:
        table = {"name": name, "schema": houses.SCHEMA}
        update = {"requirements": [], "updates": houses.add_snapshot(1, 1)}
        path = f"namespaces/ns/tables/{name}"
        costs = {}
        for operation, method, where, body in (
            ("create", "POST", "namespaces/ns/tables", table),
            ("load", "GET", path, None),
            ("commit", "POST", path, update),
            ("drop", "DELETE", path, None),
        ):
            reads.clear()
            assert house.ask(method, where, body).status in (200, 204)
            costs[operation] = Counter(reads)
        return costs

    house.make_namespace("ns")
    house.make_table("ns.m")
    costs_of("warm")
    among_few = costs_of("n0")
    for number in range(NEIGHBOURS):
        house.make_table(f"ns.{'aoz'[number % 3]}{number}")
    among_many = costs_of("n1")
    assert among_many == among_few
    assert among_few["load"].total() <= 5
    assert among_few["commit"].total() <= 20
