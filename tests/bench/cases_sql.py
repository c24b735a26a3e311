"""SQL cases of the bench: five million rows, over the wire beside raw DataFusion on files."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from tests.bench import cases, machines, wires
from tests.kit import server as server_kit

ROWS = 5_000_000
FILES = 5
TABLE = "bench.numbers"
QUERIES = {
    "SELECT count(*), 5 M rows": "select count(*) from {}",
    "SELECT group by, 5 M rows": "select g, count(*), sum(v) from {} group by g",
}
REPEATS = 5
INSERTS = 100

RAW = """
import json, sys, time, resource
import datafusion
context = datafusion.SessionContext()
context.register_listing_table("t", sys.argv[1], file_extension=".parquet")
def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
context.sql(sys.argv[2].format("t")).collect()
best, spent = 1e9, cpu()
for _ in range(int(sys.argv[3])):
    started = time.perf_counter()
    context.sql(sys.argv[2].format("t")).collect()
    best = min(best, time.perf_counter() - started)
print(json.dumps({"best": best, "cpu": (cpu() - spent) / int(sys.argv[3])}))
"""


def sql_cases() -> tuple[cases.Case, ...]:
    """One case per query, and INSERT."""
    return (*(_case(name, query) for name, query in QUERIES.items()), _insert())


def _case(name: str, query: str) -> cases.Case:
    def run(bench: cases.Bench) -> tuple[machines.Figure, machines.Figure | None]:
        files = _prepare(bench)
        session = wires.Wire(bench.running)
        session.query(query.format(f"lake.{TABLE}"))
        seconds = []
        before = machines.cpu_seconds(bench.running.pid)
        for _ in range(REPEATS):
            started = time.perf_counter()
            session.query(query.format(f"lake.{TABLE}"))
            seconds.append(time.perf_counter() - started)
        cpu = (machines.cpu_seconds(bench.running.pid) - before) / REPEATS
        answer = subprocess.run(
            [sys.executable, "-c", RAW, str(files), query, str(REPEATS)],
            capture_output=True,
            text=True,
            check=True,
            cwd=server_kit.ROOT,
        )
        raw = json.loads(answer.stdout)
        return _figure(min(seconds), cpu), _figure(raw["best"], raw["cpu"])

    return cases.Case(name=name, stand_in="raw DataFusion", target="ratio >= .9", run=run)


def _insert() -> cases.Case:
    """INSERT of one row, one after the other, each of them durable."""

    def run(bench: cases.Bench) -> tuple[machines.Figure, machines.Figure | None]:
        session = wires.Wire(bench.running)
        session.query("create schema if not exists lake.bench")
        session.query("create table if not exists lake.bench.inserted (id int, s varchar)")
        insert = "insert into lake.bench.inserted values ({}, 'a')"
        session.query(insert.format(-1))
        seconds = []
        before = machines.cpu_seconds(bench.running.pid)
        for number in range(INSERTS):
            started = time.perf_counter()
            session.query(insert.format(number))
            seconds.append(time.perf_counter() - started)
        cpu_us = (machines.cpu_seconds(bench.running.pid) - before) / INSERTS * 1e6
        ordered = sorted(seconds)
        figure = machines.Figure(
            answers=INSERTS,
            seconds=sum(seconds),
            cpu_us=cpu_us,
            p50_ms=ordered[INSERTS // 2] * 1000,
            p99_ms=ordered[INSERTS * 99 // 100] * 1000,
            megabytes=0.0,
        )
        return figure, None

    return cases.Case(name="INSERT one row", stand_in="-", target="p50 < 25 ms", run=run)


def _figure(best: float, cpu: float) -> machines.Figure:
    return machines.Figure(
        answers=1,
        seconds=best,
        cpu_us=cpu * 1e6,
        p50_ms=best * 1000,
        p99_ms=best * 1000,
        megabytes=0.0,
    )


def _prepare(bench: cases.Bench) -> Any:
    """Write the rows once: the same Parquet bytes as a table, and as plain files."""
    import pyarrow as pa
    import pyarrow.parquet
    from pyiceberg.catalog import load_catalog

    folder = bench.running.data.parent / "raw-numbers"
    if folder.exists():
        return folder
    folder.mkdir()
    catalog = load_catalog(
        "lake",
        type="rest",
        uri=bench.running.iceberg,
        warehouse="lake",
        credential=f"{bench.running.access_key}:{bench.running.secret_key}",
    )
    catalog.create_namespace_if_not_exists("bench")
    each = ROWS // FILES
    table = None
    for number in range(FILES):
        first = number * each
        ids = pa.array(range(first, first + each), pa.int64())
        rows = pa.table(
            {
                "id": ids,
                "g": pa.array([i % 100 for i in range(each)], pa.int32()),
                "v": pa.array([float(i % 1009) for i in range(each)], pa.float64()),
                "s": pa.array([f"name-{i % 1000}" for i in range(each)]),
                "t": pa.array([1_700_000_000_000_000 + i for i in range(each)], pa.timestamp("us")),
            }
        )
        if table is None:
            table = catalog.create_table(TABLE, schema=rows.schema)
        table.append(rows)
        pyarrow.parquet.write_table(rows, folder / f"{number}.parquet", compression="zstd")
    return folder
