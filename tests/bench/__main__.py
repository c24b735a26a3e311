"""`make bench` and `make bench-compare A=... B=...`: ratios measured in one run, sides in turn.

Within each round of a case a bare uvicorn, Boathouse (or both commits of a comparison) and the
case's stand-in run one after the other; a row holds medians of the rounds. Wall figures of two runs
are never compared. Server CPU per answer in units of the bare server is the steady figure. The
table goes to the terminal, the numbers to bench-results/ as JSON.

With `--weed PATH` the cases of S3 are also run against SeaweedFS, one more side of each round. It
syncs nothing and checks the same signatures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import bare, cases, cases_sql, growth, machines, planning, tpch, warehouse
from tests.kit import server as server_kit

RESULTS = server_kit.ROOT / "bench-results"
BARE_REQUEST_PATH = "/"
BARE_CONNECTIONS = 16
BARE_SECONDS_SHARE = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One Boathouse that is measured. label: what its rows are called."""

    label: str
    bench: cases.Bench


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="per measurement")
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    parser.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="two commits to measure interleaved"
    )
    parser.add_argument("--weed", metavar="PATH", help="SeaweedFS's program, as one more side")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H's scale factor")
    options = parser.parse_args()
    listed = (
        *cases.s3_cases(), *cases.catalog_cases(), *growth.cases(), *cases_sql.sql_cases(),
    )  # fmt: skip
    chosen = [case for case in listed if options.only.lower() in case.name.lower()]
    rows: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="boathouse-bench-")))
        if options.compare is None:
            rows += tpch.measure(
                root, scale=options.scale, rounds=options.rounds, only=options.only.lower()
            )
            rows += growth.measure(root, only=options.only.lower())
            rows += planning.measure(root, only=options.only.lower())
            rows += warehouse.measure(root, only=options.only.lower())
        nginx = stack.enter_context(machines.nginx(root / "nginx"))
        if nginx is None:
            print("nginx is not installed: no ratios for its cases")
        unit = stack.enter_context(bare.started())
        sides = [
            stack.enter_context(
                _side(label, checkout, root / label, nginx, options.seconds, chosen)
            )
            for label, checkout in _checkouts(stack, root, options.compare)
        ]
        peer = []
        if options.weed is not None:
            running = stack.enter_context(machines.seaweedfs(root / "weed", Path(options.weed)))
            bench = cases.Bench(running=running, nginx=None, seconds=options.seconds)
            peer.append(Side(label="weed", bench=bench))
        of_s3 = {case.name for case in cases.s3_cases() if case.prepare is None}
        for case in chosen:
            all_sides = [*sides, *peer] if case.name in of_s3 else sides
            measured = _measure(all_sides, unit, case, options.rounds, options.seconds)
            rows.extend(measured)
            for row in measured:
                print(_line(row), flush=True)
            if len(sides) > 1:
                print(_comparison(*measured[: len(sides)]), flush=True)
            if len(measured) > len(sides):
                print(_lead(measured[0], measured[-1]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{time.strftime('%Y%m%dT%H%M%S')}.json"
    path.write_text(json.dumps(rows, indent=1))
    print(f"written to {path.relative_to(server_kit.ROOT)}")
    return 0


def _checkouts(
    stack: contextlib.ExitStack, root: Path, commits: Sequence[str] | None
) -> list[tuple[str, Path]]:
    """Return labels and folders: this checkout, or two commits checked out beside each other."""
    if commits is None:
        return [("here", server_kit.ROOT)]
    checkouts = []
    for label, commit in zip("AB", commits, strict=True):
        folder = root / f"checkout-{label}"
        _git("worktree", "add", "--quiet", "--detach", str(folder), commit)
        stack.callback(_git, "worktree", "remove", "--force", str(folder))
        checkouts.append((label, folder))
    return checkouts


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=server_kit.ROOT, check=True)


@contextlib.contextmanager
def _side(
    label: str,
    checkout: Path,
    folder: Path,
    nginx: machines.Peer | None,
    seconds: float,
    chosen: Sequence[cases.Case],
) -> Iterator[Side]:
    folder.mkdir()
    for case in chosen:
        if case.prepare is not None:
            case.prepare(folder / "data")
    running = server_kit.start(folder / "data", checkout=checkout)
    try:
        yield Side(label=label, bench=cases.Bench(running=running, nginx=nginx, seconds=seconds))
    finally:
        running.stop()


def _measure(
    sides: Sequence[Side], unit: bare.Bare, case: cases.Case, rounds: int, seconds: float
) -> list[dict[str, Any]]:
    units: list[machines.Figure] = []
    figures: dict[str, list[cases.Pair]] = {side.label: [] for side in sides}
    for number in range(rounds):
        units.append(_bare_figure(unit, seconds * BARE_SECONDS_SHARE))
        # Which side comes first changes from round to round: the second finds warmer caches.
        for side in sides if number % 2 == 0 else reversed(sides):
            figures[side.label].append(case.run(side.bench))
    bare_us = statistics.median(figure.cpu_us for figure in units)
    return [_row(side.label, case, figures[side.label], bare_us) for side in sides]


def _bare_figure(unit: bare.Bare, seconds: float) -> machines.Figure:
    return machines.drive(
        unit.url,
        unit.pid,
        [machines.raw_request("GET", unit.url + BARE_REQUEST_PATH)],
        connections=BARE_CONNECTIONS,
        seconds=seconds,
    )


def _row(
    label: str, case: cases.Case, pairs: Sequence[cases.Pair], bare_us: float
) -> dict[str, Any]:
    ours = [pair[0] for pair in pairs]
    ratios = [mine.per_second / theirs.per_second for mine, theirs in pairs if theirs is not None]
    cpu_us = statistics.median(figure.cpu_us for figure in ours)
    shares = [mine.cpu_us / theirs.cpu_us for mine, theirs in pairs if theirs is not None]
    above = [mine.cpu_us - theirs.cpu_us for mine, theirs in pairs if theirs is not None]
    return {
        "case": case.name,
        "side": label,
        "stand_in": case.stand_in,
        "target": case.target,
        "per_second": statistics.median(figure.per_second for figure in ours),
        "ratio": statistics.median(ratios) if ratios else None,
        "ratio_range": [min(ratios), max(ratios)] if ratios else None,
        "cpu_us": cpu_us,
        "cpu_ratio": statistics.median(shares) if shares else None,
        "cpu_ratio_range": [min(shares), max(shares)] if shares else None,
        "cpu_above_us": statistics.median(above) if above else None,
        "bare_us": bare_us,
        "units_of_bare": cpu_us / bare_us,
        "p50_ms": statistics.median(figure.p50_ms for figure in ours),
        "p99_ms": statistics.median(figure.p99_ms for figure in ours),
    }


def _line(row: dict[str, Any]) -> str:
    ratio = "     -" if row["ratio"] is None else f"{row['ratio']:6.2f}"
    share = ""
    if row["cpu_ratio"] is not None:
        share = f", {row['cpu_ratio']:5.2f} of its, {row['cpu_above_us']:+.0f} us"
    return (
        f"{row['case']:30} {row['side']:4} {row['per_second']:9.1f}/s  ratio {ratio} "
        f"({row['stand_in']})  CPU {row['cpu_us']:9.1f} us = {row['units_of_bare']:7.2f} bare"
        f"{share}  "
        f"p50 {row['p50_ms']:7.2f} ms  p99 {row['p99_ms']:7.2f} ms  target {row['target']}"
    )


def _lead(ours: dict[str, Any], peers: dict[str, Any]) -> str:
    speed = ours["per_second"] / peers["per_second"]
    cpu = ours["cpu_us"] / peers["cpu_us"]
    return f"{ours['case']:30} beside SeaweedFS: {speed:.2f} times the answers, {cpu:.2f} the CPU"


def _comparison(before: dict[str, Any], after: dict[str, Any]) -> str:
    cpu = after["cpu_us"] / before["cpu_us"] - 1
    speed = after["per_second"] / before["per_second"] - 1
    return f"{before['case']:30} B against A: CPU {cpu:+.1%}, answers per second {speed:+.1%}"


if __name__ == "__main__":
    sys.exit(main())
