"""`make bench`: ratios measured in one run, stand-in and Boathouse in turn, medians of rounds.

Wall figures of two runs are never compared; server CPU per answer is the steady one. The table goes
to the terminal, the numbers to bench-results/ as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import cases, cases_sql, machines
from tests.kit import server as server_kit

RESULTS = server_kit.ROOT / "bench-results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="per measurement")
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    options = parser.parse_args()
    chosen = [
        case
        for case in (*cases.s3_cases(), *cases.catalog_cases(), *cases_sql.sql_cases())
        if options.only.lower() in case.name.lower()
    ]
    rows = []
    with tempfile.TemporaryDirectory(prefix="boathouse-bench-") as folder:
        root = Path(folder)
        running = server_kit.start(root / "data")
        try:
            with machines.nginx(root / "nginx") as nginx:
                if nginx is None:
                    print("nginx is not installed: only CPU figures, no ratios, for its cases")
                bench = cases.Bench(running=running, nginx=nginx, seconds=options.seconds)
                for case in chosen:
                    rows.append(_measure(bench, case, options.rounds))
                    print(_line(rows[-1]), flush=True)
        finally:
            running.stop()
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    path.write_text(json.dumps(rows, indent=1))
    print(f"written to {path.relative_to(server_kit.ROOT)}")
    return 0


def _measure(bench: cases.Bench, case: cases.Case, rounds: int) -> dict[str, object]:
    pairs = [case.run(bench) for _ in range(rounds)]
    ours = [pair[0] for pair in pairs]
    ratios = [mine.per_second / theirs.per_second for mine, theirs in pairs if theirs is not None]
    return {
        "case": case.name,
        "stand_in": case.stand_in,
        "target": case.target,
        "per_second": statistics.median(figure.per_second for figure in ours),
        "ratio": statistics.median(ratios) if ratios else None,
        "ratio_range": [min(ratios), max(ratios)] if ratios else None,
        "cpu_us": statistics.median(figure.cpu_us for figure in ours),
        "p50_ms": statistics.median(figure.p50_ms for figure in ours),
        "p99_ms": statistics.median(figure.p99_ms for figure in ours),
    }


def _line(row: dict[str, object]) -> str:
    ratio = "      -" if row["ratio"] is None else f"{row['ratio']:7.2f}"
    return (
        f"{row['case']:32} {row['per_second']:10.1f}/s  ratio {ratio} ({row['stand_in']})  "
        f"CPU {row['cpu_us']:10.1f} us  p50 {row['p50_ms']:8.2f} ms  p99 {row['p99_ms']:8.2f} ms  "
        f"target {row['target']}"
    )


if __name__ == "__main__":
    sys.exit(main())
