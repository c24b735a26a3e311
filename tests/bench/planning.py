"""Rows of the bench for scan planning: one manifest of 5,000 files, and the loop meanwhile.

A plan with a filter that one file meets is timed at the client: `cold` is the first plan of a
table, whose manifest is decoded for it, `warm` the later ones. Their units are measured in the same
run: what fastavro's compiled reader takes for the same manifest, and what the same client takes for
4 KiB from the bare server. The stall is how late the server's
event loop was at most while cold and warm plans, of one file and of all files, were answered:
`boathouse_loop_lag_max_seconds` after them. Its value before them shows what the start caused.
The goals in milliseconds are those of a machine twice as fast as some; in units they are 1.28 of
fastavro's reading and 3 to 4 bare answers (docs/decisions/0084).
"""

from __future__ import annotations

import http.client
import io
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro

from tests.bench import bare
from tests.bench.cases import Rest
from tests.kit import bigtables, stalls
from tests.kit import rest as rest_kit
from tests.kit import server as server_kit

COLD_NAME = "plan 5,000 files, cold"
WARM_NAME = "plan 5,000 files, warm"
STALL_NAME = "loop stall while planning"
COLD_GOAL_MS, WARM_GOAL_MS, STALL_GOAL_MS = 150.0, 1.0, 10.0
TABLES = 5
WARM_PLANS = 500
WHOLE_PLANS = 20
NAMESPACE = "planned"
FILES = bigtables.MANIFEST_ENTRIES
ONE_FILE = {"filter": {"type": "eq", "term": "id", "value": FILES - 1}}


def measure(root: Path, *, only: str) -> list[dict[str, Any]]:
    """Print how long plans take, and how late the loop came meanwhile."""
    if not any(only in name for name in (COLD_NAME, WARM_NAME, STALL_NAME)):
        return []
    with tempfile.TemporaryDirectory(dir=root) as temporary:
        data = Path(temporary) / "data"
        running = server_kit.start(data)
        try:
            place = stalls.Target(
                running=running, access_key=running.access_key, secret_key=running.secret_key
            )
            for number in range(TABLES):
                name = f"t{number}"
                bigtables.make(place, NAMESPACE, name, bigtables.Sorts(data_files=FILES))
        finally:
            running.stop()
        running = server_kit.start(data)
        try:
            return _rows(*_measure(running), fastavro_ms=_fastavro_ms(), bare_ms=_bare_ms())
        finally:
            running.stop()


def _fastavro_ms() -> float:
    """Return how long fastavro reads the manifest of a table."""
    data = bigtables.data_manifest(bigtables.Sorts(data_files=FILES))

    def read() -> None:
        assert sum(1 for _ in fastavro.reader(io.BytesIO(data))) == FILES

    return _median_ms(read, TABLES)


def _bare_ms() -> float:
    """Return how long the bare server takes for an answer, at the sort of client that plans."""
    with bare.started() as server:
        parts = urlsplit(server.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

        def ask() -> None:
            connection.request("GET", "/")
            connection.getresponse().read()

        try:
            return _median_ms(ask, WARM_PLANS)
        finally:
            connection.close()


def _median_ms(work: Callable[[], None], times: int) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def _measure(running: server_kit.Running) -> tuple[float, float, float, float]:
    """Return milliseconds: of a cold and of a warm plan, how late the loop was before and after."""
    with rest_kit.Client(running) as client:
        _plan(client, 0, ONE_FILE, files=1)  # the process that decodes has started
        before = _latest_ms(running)
        cold = [_plan(client, number, ONE_FILE, files=1) for number in range(1, TABLES)]
        warm = [_plan(client, 1, ONE_FILE, files=1) for _ in range(WARM_PLANS)]
        for number in range(WHOLE_PLANS):
            _plan(client, number % TABLES, {})
        return statistics.median(cold), statistics.median(warm), before, _latest_ms(running)


def _plan(
    client: rest_kit.Client, number: int, body: dict[str, Any], files: int | None = None
) -> float:
    path = f"namespaces/{NAMESPACE}/tables/t{number}/plan"
    began = time.perf_counter()
    status, answer = client.ask("POST", path, body)
    took_ms = (time.perf_counter() - began) * 1000
    assert status == 200, answer
    assert files is None or len(answer["file-scan-tasks"]) == files, answer
    return took_ms


def _latest_ms(running: server_kit.Running) -> float:
    request = urllib.request.Request(
        f"{running.url}/_metrics", headers={"Authorization": f"Bearer {Rest(running).token}"}
    )
    with urllib.request.urlopen(request) as answer:
        lines = answer.read().decode().splitlines()
    (value,) = (
        line.split()[1] for line in lines if line.startswith("boathouse_loop_lag_max_seconds ")
    )
    return float(value) * 1000


def _rows(
    cold_ms: float,
    warm_ms: float,
    before_ms: float,
    latest_ms: float,
    *,
    fastavro_ms: float,
    bare_ms: float,
) -> list[dict[str, Any]]:
    rows = []
    for name, value, goal, note in (
        (COLD_NAME, cold_ms, COLD_GOAL_MS, f"{cold_ms / fastavro_ms:.2f} of fastavro's reading"),
        (WARM_NAME, warm_ms, WARM_GOAL_MS, f"{warm_ms / bare_ms:.2f} of a bare answer"),
        (STALL_NAME, latest_ms, STALL_GOAL_MS, f"before the plans {before_ms:.2f} ms"),
    ):
        print(f"{name:30} {value:8.2f} ms  target <= {goal:g} ms  {note}", flush=True)
        rows.append({"case": name, "ms": value, "target": f"<= {goal:g}", "note": note})
    return rows
