"""No request of any principal stalls or bloats the server: every row of the tables of hostile
requests is sent to a server that a user could have started.

A table is a module of `tests.kit` with a tuple `ROWS` of `stalls.Hostile`; each table has a server
of its own, with the table bucket `lake`, the general bucket `plain` and the five users of
`tests.kit.users`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import hostile_sql, server, stalls, users

pytestmark = pytest.mark.alone

FIRST_LATENCY_MS_MAX = 100.0
"""What loading the SQL floor may add to an answer; the loop itself is held for some 20 ms."""

TABLES = ("hostile_sql", "hostile_http", "hostile_rest")
"""The longest first."""


def rows() -> list[Any]:
    """Return the rows of all tables, each with its table; the id begins with the table's name."""
    parameters = []
    for table in TABLES:
        module = importlib.import_module(f"tests.kit.{table}")
        for row in module.ROWS:
            marks = [pytest.mark.long] if row.long else []
            parameters.append(pytest.param(table, row, id=f"{table}-{row.name}", marks=marks))
    return parameters


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaigns]:
    servers = Campaigns(tmp_path_factory.mktemp("campaign"))
    yield servers
    servers.stop()


class Campaigns:
    """One server at a time: that of the table whose rows are being sent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings = users.write_settings(folder)
        self._table = ""
        self._campaign: stalls.Campaign | None = None

    def of(self, table: str) -> stalls.Campaign:
        if self._campaign is None or table != self._table:
            self.stop()
            running = server.start(
                self._folder / table,
                *("--config", str(self._settings)),
                *("--table-bucket", "lake", "--bucket", "plain"),
            )
            self._table, self._campaign = table, stalls.Campaign(running=running)
        return self._campaign

    def stop(self) -> None:
        if self._campaign is not None:
            print("\n" + "\n".join(map(str, self._campaign.costs)))
            campaign, self._campaign = self._campaign, None
            assert campaign.running.stop() == 0


@pytest.mark.parametrize(("table", "row"), rows())
def test_a_hostile_request_neither_stalls_others_nor_grows_the_server(
    campaigns: Campaigns, table: str, row: stalls.Hostile
) -> None:
    cost = campaigns.of(table).run(row)
    assert cost.faults == [], str(cost)


def test_the_first_login_and_the_first_query_hold_up_no_other_request(tmp_path: Path) -> None:
    running = server.start(tmp_path / "data")
    campaign = stalls.Campaign(running=running)

    def query(target: stalls.Target) -> None:
        assert hostile_sql.Connection(target).run("select sum(column1) from values (1), (1)")[
            "success"
        ]

    try:
        for name, send in (("login", hostile_sql.Connection), ("query", query)):
            row = stalls.Hostile(name=name, principal=stalls.ROOT, growth_mib=200, send=send)
            cost = campaign.run(row)
            assert cost.faults == []
            assert cost.worst_ms - cost.baseline_ms <= FIRST_LATENCY_MS_MAX, str(cost)
    finally:
        assert running.stop() == 0
