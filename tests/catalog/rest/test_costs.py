"""What a request costs does not grow with the number of its neighbours."""

from __future__ import annotations

import bisect
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from catalog import store
from catalog.rest import answers
from storage import index, sweep
from tests.catalog.rest import rest_server as kit

FEW, MANY = 100, 10_000
AT_ONCE = 1_000
"""Tables that one transaction makes."""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what the index is asked, in views and in the writer: values, scans and their rows."""
    counted: Counter[str] = Counter()

    def counting(what: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **more: Any) -> Any:
            counted[what] += 1
            return ask(*values, **more)

        return call

    scan = index.ReadView.scan

    def scanned(*values: Any, **more: Any) -> Iterator[tuple[bytes, bytes]]:
        counted["scans"] += 1
        for row in scan(*values, **more):
            counted["rows"] += 1
            yield row

    async def nothing(_: sweep.Sweep) -> int:
        return 0

    # The sweep reads the index each second, beside any request.
    monkeypatch.setattr(sweep.Sweep, "once", nothing)
    monkeypatch.setattr(index.ReadView, "get", counting("gets", index.ReadView.get))
    monkeypatch.setattr(index.ReadView, "first", counting("firsts", index.ReadView.first))
    monkeypatch.setattr(index.ReadView, "scan", scanned)
    monkeypatch.setattr(index.Index, "get", counting("gets", index.Index.get))
    return counted


def add_tables(rest: kit.RestServer, numbers: range) -> None:
    """Make tables of the namespace ns, by AT_ONCE, whose names lie around those of the test."""
    updates = [
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": kit.SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    for start in range(numbers.start, numbers.stop, AT_ONCE):
        changes = [
            {
                "identifier": {"namespace": ["ns"], "name": f"{'aoz'[number % 3]}{number}"},
                "requirements": [{"type": "assert-create"}],
                "updates": [
                    {"action": "assign-uuid", "uuid": str(uuid.UUID(int=number))},
                    *updates,
                ],
            }
            for number in range(start, min(start + AT_ONCE, numbers.stop))
        ]
        answer = rest.ask("POST", "transactions/commit", {"table-changes": changes})
        assert answer.status == 204, answer.body


@pytest.mark.parametrize("many", [1_000, pytest.param(MANY, marks=pytest.mark.long)])
def test_creating_loading_and_committing_cost_the_same_among_few_and_many_tables(
    rest: kit.RestServer, reads: Counter[str], many: int
) -> None:
    def costs_of(name: str) -> dict[str, Counter[str]]:
        table = {"name": name, "schema": kit.SCHEMA}
        update = {"requirements": [], "updates": kit.add_snapshot(1, 1)}
        path = f"namespaces/ns/tables/{name}"
        costs = {}
        for operation, method, where, body in (
            ("create", "POST", "namespaces/ns/tables", table),
            ("load", "GET", path, None),
            ("commit", "POST", path, update),
            ("drop", "DELETE", path, None),
        ):
            reads.clear()
            assert rest.ask(method, where, body).status in (200, 204)
            costs[operation] = Counter(reads)
        return costs

    rest.make_namespace("ns")
    add_tables(rest, range(FEW))
    costs_of("warm")
    among_few = costs_of("n0")
    add_tables(rest, range(FEW, many))
    assert len(rest.ask("GET", "namespaces/ns/tables").json["identifiers"]) == many
    among_many = costs_of("n1")
    assert among_many == among_few
    assert among_few["load"].total() <= 5
    assert among_few["commit"].total() <= 20
    assert among_few["create"].total() <= 40


@pytest.mark.parametrize("where", ["namespaces/ns/tables", "namespaces"])
def test_a_page_of_a_listing_costs_the_same_among_many_names(
    rest: kit.RestServer, reads: Counter[str], where: str
) -> None:
    def add(numbers: range) -> None:
        for number in numbers:
            rest.make_namespace(f"n{number:04}")
            rest.make_table(f"ns.t{number:04}")

    def cost_of_second_page() -> Counter[str]:
        first = rest.ask("GET", f"{where}?pageToken=&pageSize=3").json
        reads.clear()
        second = rest.ask("GET", f"{where}?pageToken={first['next-page-token']}&pageSize=3").json
        assert second["next-page-token"]
        return Counter(reads)

    add(range(10))
    cost_of_second_page()
    among_few = cost_of_second_page()
    add(range(10, 60))
    assert cost_of_second_page() == among_few
    assert among_few["rows"] <= 5


def test_a_whole_listing_goes_on_where_one_step_ends(
    rest: kit.RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"t{number:02}" for number in range(12)]
    for name in names:
        rest.make_table(f"ns.{name}")
    monkeypatch.setattr(store, "NAMES_AT_ONCE", 5)
    monkeypatch.setattr(answers, "ITEMS_AT_ONCE", 5)
    listed = rest.ask("GET", "namespaces/ns/tables").json
    assert listed == {
        "identifiers": [{"namespace": ["ns"], "name": name} for name in names],
        "next-page-token": None,
    }


@pytest.mark.parametrize("where", ["namespaces/ns/tables", "namespaces"])
def test_a_listing_without_a_page_token_is_whole_beyond_100_000_names(
    rest: kit.RestServer, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    rest.make_namespace("ns")
    names = [f"t{number:06}" for number in range(100_001)]

    def read(*_: Any, after: str = "", limit: int | None = None) -> list[str]:
        assert limit is not None
        start = bisect.bisect_right(names, after)
        return names[start : start + limit]

    monkeypatch.setattr(store.CatalogStore, "names", read)
    listed = rest.ask("GET", where).json
    assert listed["next-page-token"] is None
    (answered,) = (value for key, value in listed.items() if key != "next-page-token")
    as_listed = [{"namespace": ["ns"], "name": name} for name in names]
    assert answered == (as_listed if "tables" in where else [[name] for name in names])
