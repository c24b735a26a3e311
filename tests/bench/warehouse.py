"""Rows of the bench for a warehouse's work over the wire: what one statement costs, a point lookup,
a fetch to pandas, MERGE beside Spark's, many sessions at once, PUTs during a heavy join.

The other side of a row runs in the same minute on the same bytes: pandas reads the same rows from
an Arrow file, raw DataFusion the same Parquet files, Spark merges the same changes into a copy of
the table. Where a row has no other side, it is measured alone and has a bound.
"""

from __future__ import annotations

import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet

from tests.bench import fetches, machines, wires
from tests.kit import lake_client
from tests.kit import server as server_kit

Row: TypeAlias = dict[str, Any]

SELECTS: Final = 300
LOOKUPS: Final = 100
FILES: Final = 100
CLUSTERED_ROWS: Final = 1_000_000
FETCHED_ROWS: Final = 1_000_000
MERGED_ROWS: Final = 5_000_000
CHANGES: Final = 10_000
SESSIONS: Final = 50
SESSION_QUERIES: Final = 6
PUTS: Final = 200
PUT_BYTES: Final = 4096
NAMESPACE: Final = "bench"
LOOKUP: Final = "select * from {} where id = {}"
JOIN: Final = (
    "select count(*), sum(a.v + b.v) from lake.bench.merged a join lake.bench.merged b on a.g = b.g"
    " where a.id < 60000 and b.id < 60000"
)
MERGE: Final = (
    "merge into {} as t using lake.bench.changes as c on t.id = c.id"
    " when matched then update set t.v = c.v, t.s = c.s"
    " when not matched then insert (id, g, v, s) values (c.id, c.g, c.v, c.s)"
)
RAW_LOOKUP: Final = """
import json, sys, time
import datafusion
context = datafusion.SessionContext()
context.register_parquet("t", sys.argv[1])
seconds = []
for number in range(int(sys.argv[3]) + 3):
    text = sys.argv[2].format("t", number * 9973)
    started = time.perf_counter()
    context.sql(text).collect()
    seconds.append(time.perf_counter() - started)
print(json.dumps(sorted(seconds[3:])[int(sys.argv[3]) // 2]))
"""
SPARK_PROGRAM: Final = """
import sys, time
from pipeline import resources, servers, session
endpoint = servers.find(url=None, data=sys.argv[1], environment={}, region=None)
say = lambda text: print(text, file=sys.stderr)
gets = resources.SparkResources(master="local[2]")
with session.started(endpoint, "lake", gets=gets, say=say) as spark:
    spark.session.sql("select count(*) from lake.bench.changes").collect()
    started = time.perf_counter()
    spark.session.sql(sys.argv[2])
    print(time.perf_counter() - started)
"""


def measure(root: Path, *, only: str) -> list[Row]:
    """Measure the rows whose name contains only; print a line for each; return them."""
    chosen = [(name, run) for name, run in ROWS if only in name.lower()]
    if not chosen:
        return []
    rows = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=root)))
        running = server_kit.start(folder / "data")
        stack.callback(running.stop)
        lake_client.catalog(running).create_namespace(NAMESPACE)
        for name, run in chosen:
            row = {"case": name, **run(running, folder)}
            rows.append(row)
            print(_line(row), flush=True)
    return rows


def _line(row: Row) -> str:
    figures = "  ".join(
        f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in row.items()
        if name not in ("case", "target")
    )
    return f"{row['case']:34} {figures}  target {row['target']}"


def _select_1(running: server_kit.Running, folder: Path) -> Row:
    session = wires.Wire(running)
    seconds, cpu_ms = _repeated(running, session, ["select 1"] * SELECTS)
    return {
        "p50_ms": statistics.median(seconds) * 1000,
        "cpu_ms": cpu_ms,
        "target": "p50 < 3 ms, CPU < 1 ms",
    }


def _lookup(running: server_kit.Running, folder: Path) -> Row:
    """One row of a table whose hundred files are apart by id."""
    rows = _rows(CLUSTERED_ROWS)
    table = lake_client.catalog(running).create_table("bench.clustered", schema=rows.schema)
    raw = folder / "clustered"
    raw.mkdir()
    each = CLUSTERED_ROWS // FILES
    with table.transaction() as transaction:
        for number in range(FILES):
            part = rows.slice(number * each, each)
            transaction.append(part)
            pa.parquet.write_table(part, raw / f"{number}.parquet", compression="zstd")
    session = wires.Wire(running)
    texts = [LOOKUP.format("lake.bench.clustered", number * 9973) for number in range(LOOKUPS)]
    seconds, cpu_ms = _repeated(running, session, texts)
    plan = session.query(f"explain using text {texts[-1]}")
    command = [sys.executable, "-c", RAW_LOOKUP, str(raw), LOOKUP, str(LOOKUPS)]
    raw_ms = float(_output(command)) * 1000
    p50_ms = statistics.median(seconds) * 1000
    return {
        "p50_ms": p50_ms,
        "cpu_ms": cpu_ms,
        "raw_datafusion_ms": raw_ms,
        "files": _files_of(plan),
        "target": "one file",
    }


def _fetch(running: server_kit.Running, folder: Path) -> Row:
    rows = _rows(FETCHED_ROWS)
    moments = pa.array(range(1_700_000_000_000_000, 1_700_000_000_000_000 + FETCHED_ROWS))
    rows = rows.append_column("t", moments.cast(pa.timestamp("us")))
    return fetches.measure(running, folder, rows)


def _merge(running: server_kit.Running, folder: Path) -> Row:
    """Half of the changes update a row, half insert one; each side has a table of its own."""
    _ensure_merged(running)
    catalog = lake_client.catalog(running)
    rows = catalog.load_table("bench.merged").scan().to_arrow()
    ids = [n * (MERGED_ROWS // CHANGES) + (0 if n % 2 else MERGED_ROWS) for n in range(CHANGES)]
    changes = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "g": pa.array([0] * CHANGES, pa.int32()),
            "v": pa.array([1.5] * CHANGES),
            "s": pa.array(["changed"] * CHANGES),
        }
    )
    catalog.create_table("bench.changes", schema=changes.schema).append(changes)
    _fill(catalog.create_table("bench.merged_by_spark", schema=rows.schema), rows)
    session = wires.Wire(running)
    session.query("select count(*) from lake.bench.changes")
    spent = machines.cpu_seconds(running.pid)
    started = time.perf_counter()
    session.query(MERGE.format("lake.bench.merged"))
    seconds, cpu = time.perf_counter() - started, machines.cpu_seconds(running.pid) - spent
    spark_text = MERGE.format("lake.bench.merged_by_spark")
    command = [sys.executable, "-c", SPARK_PROGRAM, str(running.data), spark_text]
    by_spark = float(_output(command))
    with lake_client.session(running) as client:
        (sums,) = {
            client.rows(f"select count(*), sum(v) from lake.bench.{name}")[0]
            for name in ("merged", "merged_by_spark")
        }
    return {
        "s": seconds,
        "cpu_s": cpu,
        "spark_s": by_spark,
        "ratio": seconds / by_spark,
        "rows": int(sums[0]),
        "target": "ratio < 1",
    }


def _sessions(running: server_kit.Running, folder: Path) -> Row:
    """Fifty sessions with six group-bys each; the slowest session beside the fastest."""
    _ensure_merged(running)
    text = "select g, count(*), sum(v) from lake.bench.merged group by g"
    before = machines.memory_mib(running.pid)
    peak = [before]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            peak[0] = max(peak[0], machines.memory_mib(running.pid))

    def work(session: wires.Wire) -> tuple[float, list[float]]:
        seconds = []
        began = time.perf_counter()
        for _ in range(SESSION_QUERIES):
            started = time.perf_counter()
            session.query(text)
            seconds.append(time.perf_counter() - started)
        return time.perf_counter() - began, seconds

    watcher = threading.Thread(target=watch)
    watcher.start()
    sessions = [wires.Wire(running) for _ in range(SESSIONS)]
    started = time.perf_counter()
    try:
        with futures.ThreadPoolExecutor(SESSIONS) as threads:
            done = list(threads.map(work, sessions))
    finally:
        ended.set()
        watcher.join()
    whole = time.perf_counter() - started
    every = sorted(each for _, seconds in done for each in seconds)
    wholes = sorted(each for each, _ in done)
    return {
        "per_s": len(every) / whole,
        "p50_ms": statistics.median(every) * 1000,
        "p99_ms": every[len(every) * 99 // 100] * 1000,
        "slowest_of_fastest": wholes[-1] / wholes[0],
        "grew_mib": peak[0] - before,
        "target": "no error, fair",
    }


def _puts(running: server_kit.Running, folder: Path) -> Row:
    """PUTs one after the other, alone and while a session joins; both in turns."""
    _ensure_merged(running)
    s3 = machines.s3(running)
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket="puts")
    session = wires.Wire(running)
    session.query(JOIN)

    def put_all() -> list[float]:
        seconds = []
        for number in range(PUTS):
            started = time.perf_counter()
            s3.put_object(Bucket="puts", Key=f"k{number}", Body=b"x" * PUT_BYTES)
            seconds.append(time.perf_counter() - started)
        return seconds

    put_all()
    quiet = put_all()
    joins = 0
    ended = threading.Event()

    def join() -> None:
        nonlocal joins
        while not ended.is_set():
            session.query(JOIN)
            joins += 1

    thread = threading.Thread(target=join)
    thread.start()
    try:
        busy = put_all() + put_all()
    finally:
        ended.set()
        thread.join()
    return {
        "p50_ms": statistics.median(busy) * 1000,
        "p99_ms": sorted(busy)[len(busy) * 99 // 100] * 1000,
        "quiet_p50_ms": statistics.median(quiet) * 1000,
        "quiet_p99_ms": sorted(quiet)[len(quiet) * 99 // 100] * 1000,
        "joins": joins,
        "target": "-",
    }


ROWS: Final[Sequence[tuple[str, Callable[[server_kit.Running, Path], Row]]]] = (
    ("SELECT 1", _select_1),
    ("SELECT one row of 100 files", _lookup),
    ("SELECT 1 M rows x 5 to pandas", _fetch),
    ("PUT 4K during a join", _puts),
    ("50 sessions, group by of 5 M rows", _sessions),
    ("MERGE 10,000 into 5 M rows", _merge),
)
"""In this order: the last one changes the table that others read."""


def _repeated(
    running: server_kit.Running, session: wires.Wire, texts: Sequence[str]
) -> tuple[list[float], float]:
    """Return the seconds of each statement, and the server's CPU of one, in milliseconds."""
    for text in texts[:5]:
        session.query(text)
    seconds = []
    before = machines.cpu_seconds(running.pid)
    for text in texts:
        started = time.perf_counter()
        session.query(text)
        seconds.append(time.perf_counter() - started)
    return seconds, (machines.cpu_seconds(running.pid) - before) / len(texts) * 1000


def _rows(count: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "g": pa.array([number % 100 for number in range(count)], pa.int32()),
            "v": pa.array([float(number % 1009) for number in range(count)]),
            "s": pa.array([f"name-{number % 1000}" for number in range(count)]),
        }
    )


def _ensure_merged(running: server_kit.Running) -> None:
    catalog = lake_client.catalog(running)
    if not catalog.table_exists("bench.merged"):
        rows = _rows(MERGED_ROWS)
        _fill(catalog.create_table("bench.merged", schema=rows.schema), rows)


def _fill(table: Any, rows: pa.Table) -> None:
    """Write five files in one commit."""
    each = rows.num_rows // 5
    with table.transaction() as transaction:
        for number in range(5):
            transaction.append(rows.slice(number * each, each))


def _files_of(plan: Any) -> int:
    """Return how many of a table's files a plan reads, as EXPLAIN says."""
    matched = re.search(r"(\d+) of \d+ files", json.dumps(plan["rowset"]))
    assert matched is not None, plan["rowset"]
    return int(matched[1])


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=server_kit.ROOT, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]
