"""`make bench-pipeline`: loads, a merge, a compaction and an expiry beside Spark alone.

Each step is one process on both sides: `python -m pipeline` against a fresh Boathouse, and Spark
with a Hadoop catalog in a local folder (`plain_spark.py`). Both have the same rows, Spark, jars,
memory and cores, and run in turn; the side that comes first changes from step to step and from
round to round. Figures include the start of Python and of the JVM; our CPU includes the server's.
Uploads to the server's bucket come before and are not measured. The compaction rewrites a table
whose data files are the small Parquet files as they are. At the end the rows of both sides are
compared, and the server sweeps, with days of one second, until it has freed those files.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import datetime
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tests.bench import machines, plain_spark
from tests.kit import lake_client
from tests.kit import server as server_kit

Row: TypeAlias = dict[str, Any]

TARGET: Final = 1.15
"""Our wall time over that of Spark alone, of all steps together."""
RAW: Final = "raw"
NAMESPACE: Final = "bench"
CHUNK_ROWS: Final = 20_000
FILE_ROWS: Final = 2_000
CHANGES_SHARE: Final = 100
"""One changed row for so many rows of the CSV file; as many are new."""
ID_FIRST: Final = 10_000_000_000
"""Beyond 32 bits, so that every reader finds the same type."""
AT_FIRST: Final = 1_700_000_000
UPLOADS: Final = 8
STEP_TIMEOUT_SECONDS: Final = 3600
SWEEP_TIMEOUT_SECONDS: Final = 300
SETTINGS: Final = """
[table_buckets.lake]
unreferenced_days = 1
noncurrent_days = 1
history_days = 1
"""
QUIET: Final = (
    "--sweep-interval-seconds", "0", "--maintenance-interval-seconds", "0", "--pipelines", "",
)  # fmt: skip
SUMS: Final = "select count(*), sum(id), sum(g), cast(sum(v * 100) as bigint) from {}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What is loaded. csv_mb: megabytes of the CSV file. files: small Parquet files."""

    csv_mb: int
    files: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sides:
    """Both sides. sources: the folder of the generated files. plain: that of Spark alone."""

    running: server_kit.Running
    sources: Path
    plain: Path
    cores: int
    driver_mib: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Wall and CPU seconds of one step; those of the server are part of cpu_s."""

    wall_s: float
    cpu_s: float
    server_cpu_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """name: in the table. ours: arguments of `python -m pipeline`. plain: a step of plain_spark."""

    name: str
    ours: tuple[str, ...]
    plain: str
    work: Mapping[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-pipeline", description=__doc__)
    parser.add_argument("--csv-mb", type=int, default=1_000, help="size of the CSV file, MB")
    parser.add_argument("--files", type=int, default=2_000, help="small Parquet files")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2, help="tasks at once, of either Spark")
    parser.add_argument("--driver-mib", type=int, default=2_048, help="heap of either Spark")
    options = parser.parse_args()
    sizes = Sizes(csv_mb=options.csv_mb, files=options.files)
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="boathouse-bench-")))
        generate(root / "sources", sizes)
        config = root / "mini.toml"
        config.write_text(SETTINGS)
        running = server_kit.start(root / "data", "--config", str(config), *QUIET)
        stack.callback(running.stop)
        sides = Sides(
            running=running,
            sources=root / "sources",
            plain=root / "plain",
            cores=options.cores,
            driver_mib=options.driver_mib,
        )
        machines.s3(running).create_bucket(Bucket=RAW)
        _upload(running, sides.sources, RAW)
        lake_client.catalog(running).create_namespace(NAMESPACE)
        rows = measure(sides, sizes, options.rounds)
        running.stop()
        swept = server_kit.start(
            root / "data", "--config", str(config), *QUIET, "--lifecycle-day-seconds", "1"
        )
        stack.callback(swept.stop)
        rows.append(_freed(swept, sides, sizes, options.rounds))
        print(_line(rows[-1]), flush=True)
    results = server_kit.ROOT / "bench-results"
    results.mkdir(exist_ok=True)
    path = results / f"pipeline-{time.strftime('%Y%m%dT%H%M%S')}.json"
    path.write_text(json.dumps(rows, indent=1))
    print(f"written to {path.relative_to(server_kit.ROOT)}")
    return 0


def generate(folder: Path, sizes: Sizes) -> None:
    """Write csv/rows.csv, changes/changes.parquet, and small/NUMBER.parquet."""
    for name in ("csv", "changes", "small"):
        (folder / name).mkdir(parents=True)
    path, rows_count = folder / "csv" / "rows.csv", 0
    with path.open("wb") as file:
        while file.tell() < sizes.csv_mb * 1_000_000:
            options = pyarrow.csv.WriteOptions(
                include_header=rows_count == 0, quoting_style="needed"
            )
            rows = _rows(range(rows_count, rows_count + CHUNK_ROWS))
            pyarrow.csv.write_csv(rows, file, options)
            rows_count += CHUNK_ROWS
    changed = range(0, 2 * rows_count, CHANGES_SHARE)
    changes = folder / "changes" / "changes.parquet"
    pyarrow.parquet.write_table(_rows(changed, seed=1), changes)
    for number in range(sizes.files):
        rows = _rows(range(number * FILE_ROWS, (number + 1) * FILE_ROWS))
        pyarrow.parquet.write_table(rows, folder / "small" / f"{number:06}.parquet")


def _rows(numbers: range, seed: int = 0) -> pa.Table:
    """Return rows with these numbers as their ids."""
    ids = numpy.arange(numbers.start, numbers.stop, numbers.step, dtype=numpy.int64)
    random = numpy.random.default_rng((seed, numbers.start))
    names = numpy.char.add("name-", random.integers(0, 1 << 40, len(ids)).astype("U13"))
    return pa.table(
        {
            "id": pa.array(ids + ID_FIRST),
            "at": pa.array(ids % 10_000_000 + AT_FIRST)
            .cast(pa.timestamp("s"))
            .cast(pa.timestamp("us", "UTC")),
            "g": pa.array((ids % 1_000).astype(numpy.int32)),
            "v": pa.array(random.integers(0, 10_000_000, len(ids)) / 100),
            "s": pa.array(names),
        }
    )


def measure(sides: Sides, sizes: Sizes, rounds: int) -> list[Row]:
    """Do all steps on both sides, compare their rows, print a line for each step; return them."""
    costs: dict[str, list[tuple[Cost, Cost]]] = {}
    for number in range(rounds):
        _prepare(sides, number)
        for position, step in enumerate(_steps(sides, sizes, number)):
            if (number + position) % 2:
                plain, ours = _plain(sides, step.plain, step.work)[0], _ours(sides, step)
            else:
                ours, plain = _ours(sides, step), _plain(sides, step.plain, step.work)[0]
            costs.setdefault(step.name, []).append((ours, plain))
            print(
                f"round {number}: {step.name}: {ours.wall_s:.1f} s, {plain.wall_s:.1f} s; "
                f"of CPU {ours.cpu_s:.1f} s, {plain.cpu_s:.1f} s",
                flush=True,
            )
        _compare(sides, number)
    every = list(costs.values())
    totals = [
        (_together(ours for ours, _ in pairs), _together(plain for _, plain in pairs))
        for pairs in zip(*every, strict=True)
    ]
    rows = [_row(name, pairs) for name, pairs in (*costs.items(), ("all steps", totals))]
    for row in rows:
        print(_line(row), flush=True)
    return rows


def _steps(sides: Sides, sizes: Sizes, number: int) -> Sequence[Step]:
    rows, events, small = (f"{NAMESPACE}.{name}_{number}" for name in ("rows", "events", "small"))
    csv, parquet, changes = (str(sides.sources / name) for name in ("csv", "small", "changes"))

    def ingest(place: str, table: str, *more: str) -> tuple[str, ...]:
        return ("ingest", "--from", f"s3://{RAW}/{place}/", "--to", f"lake.{table}", *more)

    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    return (
        Step(
            name=f"load {sizes.csv_mb} MB of CSV",
            ours=ingest("csv", rows, "--format", "csv"),
            plain="csv",
            work={"source": csv, "table": _named(rows)},
        ),
        Step(
            name=f"load {sizes.files} Parquet files",
            ours=ingest("small", events, "--format", "parquet"),
            plain="parquet",
            work={"source": parquet, "table": _named(events)},
        ),
        Step(
            name="merge 2 % of the rows",
            ours=ingest("changes", rows, "--format", "parquet", "--mode", "merge", "--key", "id"),
            plain="merge",
            work={"source": changes, "table": _named(rows)},
        ),
        Step(
            name=f"compact {sizes.files} data files",
            ours=("compact", "--table", f"lake.{small}"),
            plain="compact",
            work={"table": _named(small)},
        ),
        Step(
            name="expire snapshots",
            ours=(
                "expire", "--table", f"lake.{small}", "--older-than", now.isoformat(),
                "--retain-last", "1",
            ),
            plain="expire",
            work={"table": _named(small), "older_than": f"{now:%Y-%m-%d %H:%M:%S}"},
        ),
    )  # fmt: skip


def _named(table: str) -> str:
    return f"{plain_spark.CATALOG}.{table}"


def _prepare(sides: Sides, number: int) -> None:
    """Give each side a table whose data files are the small files."""
    name = f"{NAMESPACE}.small_{number}"
    catalog = lake_client.catalog(sides.running)
    files = sorted((sides.sources / "small").iterdir())
    table = catalog.create_table(name, schema=pyarrow.parquet.read_schema(files[0]))
    bucket, _, prefix = table.location().removeprefix("s3://").partition("/")
    _upload(sides.running, sides.sources / "small", bucket, f"{prefix}/data/")
    table.add_files(
        [f"{table.location()}/data/{file.name}" for file in files], check_duplicate_files=False
    )
    copies = sides.plain / f"small_{number}"
    shutil.copytree(sides.sources / "small", copies)
    _plain(sides, "add", {"table": _named(name), "source": str(copies)})


def _upload(running: server_kit.Running, folder: Path, bucket: str, prefix: str = "") -> None:
    s3 = machines.s3(running)
    files = [path for path in folder.rglob("*") if path.is_file()]

    def put(path: Path) -> None:
        s3.upload_file(str(path), bucket, prefix + str(path.relative_to(folder)))

    with futures.ThreadPoolExecutor(UPLOADS) as threads:
        list(threads.map(put, files))


def _ours(sides: Sides, step: Step) -> Cost:
    before = machines.cpu_seconds(sides.running.pid)
    cost, _ = _done([
        sys.executable, "-m", "pipeline", *step.ours, "--data", str(sides.running.data), "--json",
        "--cores", str(sides.cores), "--driver-memory", f"{sides.driver_mib}m",
    ])  # fmt: skip
    server_s = machines.cpu_seconds(sides.running.pid) - before
    return Cost(wall_s=cost.wall_s, cpu_s=cost.cpu_s + server_s, server_cpu_s=server_s)


def _plain(sides: Sides, step: str, work: Mapping[str, str]) -> tuple[Cost, Any]:
    return _done([
        sys.executable, "-m", "tests.bench.plain_spark", step, str(sides.plain / "warehouse"),
        f"local[{sides.cores}]", str(sides.driver_mib), json.dumps(work),
    ])  # fmt: skip


def _done(command: Sequence[str]) -> tuple[Cost, Any]:
    """Run a program; return what it cost with its children, and the JSON that it printed last."""
    before, started = _children_cpu_seconds(), time.perf_counter()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=server_kit.ROOT,
        check=False,
        timeout=STEP_TIMEOUT_SECONDS,
    )
    wall_s = time.perf_counter() - started
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr[-2000:]}"
    cost = Cost(wall_s=wall_s, cpu_s=_children_cpu_seconds() - before)
    return cost, json.loads(done.stdout[done.stdout.index("{") :])


def _children_cpu_seconds() -> float:
    """CPU of the children that have ended, and of theirs; the server has not."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _compare(sides: Sides, number: int) -> None:
    """Fail if a table's rows differ between the sides."""
    tables = [f"{NAMESPACE}.{name}_{number}" for name in ("rows", "events", "small")]
    work = {"table": " ".join(map(_named, tables)), "query": SUMS}
    _, theirs = _plain(sides, "sums", work)
    with lake_client.session(sides.running) as client:
        for table in tables:
            (ours,) = client.rows(SUMS.format(f"lake.{table}"))
            assert [int(value) for value in ours] == theirs[_named(table)], (table, ours, theirs)


def _freed(running: server_kit.Running, sides: Sides, sizes: Sizes, rounds: int) -> Row:
    """Sweep until what compaction and expiry left is freed; return a row of the bytes freed.

    The server's days are seconds meanwhile.
    """
    wanted = rounds * sum(path.stat().st_size for path in (sides.sources / "small").iterdir())
    freed, started = 0, time.perf_counter()
    while freed < wanted:
        passed = time.perf_counter() - started
        assert passed < SWEEP_TIMEOUT_SECONDS, f"the sweep freed {freed} bytes of {wanted}"
        _native(running, "POST")
        while (report := _native(running, "GET"))["state"] in {"waiting", "running"}:
            time.sleep(0.05)
        assert report["state"] == "done", report["error"]
        freed += report["freed"]["size_bytes"]
    left = sum(
        path.stat().st_size
        for number in range(rounds)
        for path in (sides.plain / f"small_{number}").glob("*.parquet")
    )
    return {
        "case": "bytes freed",
        "freed_mb": freed / 1e6,
        "spark_freed_mb": (wanted - left) / 1e6,
        "small_files_mb": wanted / 1e6,
        "sweep_s": time.perf_counter() - started,
        "files": sizes.files,
        "target": "small_files_mb",
    }


def _native(running: server_kit.Running, method: str) -> Any:
    pair = base64.b64encode(f"{running.access_key}:{running.secret_key}".encode()).decode()
    request = urllib.request.Request(
        f"{running.url}/_api/v1/warehouses/lake/sweep",
        method=method,
        headers={"Authorization": f"Basic {pair}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def _together(costs: Iterable[Cost]) -> Cost:
    every = list(costs)
    return Cost(
        wall_s=sum(cost.wall_s for cost in every),
        cpu_s=sum(cost.cpu_s for cost in every),
        server_cpu_s=sum(cost.server_cpu_s for cost in every),
    )


def _row(name: str, pairs: Sequence[tuple[Cost, Cost]]) -> Row:
    """Return medians of the rounds."""
    ratios = [ours.wall_s / plain.wall_s for ours, plain in pairs]
    return {
        "case": name,
        "s": statistics.median(ours.wall_s for ours, _ in pairs),
        "cpu_s": statistics.median(ours.cpu_s for ours, _ in pairs),
        "server_cpu_s": statistics.median(ours.server_cpu_s for ours, _ in pairs),
        "spark_s": statistics.median(plain.wall_s for _, plain in pairs),
        "spark_cpu_s": statistics.median(plain.cpu_s for _, plain in pairs),
        "ratio": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
        "cpu_ratio": statistics.median(ours.cpu_s / plain.cpu_s for ours, plain in pairs),
        "target": f"ratio <= {TARGET}",
    }


def _line(row: Row) -> str:
    figures = "  ".join(
        f"{name} {value:.2f}" for name, value in row.items() if isinstance(value, float)
    )
    return f"{row['case']:26} {figures}  target {row['target']}"


if __name__ == "__main__":
    sys.exit(main())
