"""`make slt SLT=FOLDER`: run a checkout's corpus of sqllogictest files; what fails is listed.

The corpus is `crates/sqllogictest/tests/slt/bronze_scope` of Embucket/rustice. The checkout is
brought along, and nothing of it belongs to this repository. A server is started for the run.
Queries and refusals count, set-up statements do not. `excluded.txt` names entries that no correct
server can be held to, below the reason; `failing.txt` names the entries that fail, by file. An
entry that fails and is not listed fails the run, and so does one that is listed and passes.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.kit import environments
from tests.kit import server as server_kit

HERE: Final = Path(__file__).parent
FAILING: Final = HERE / "failing.txt"
CORPUS: Final = "crates/sqllogictest/tests/slt/bronze_scope"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make slt", description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", help="a checkout of Embucket/rustice")
    parser.add_argument("--only", default="*", help="a pattern of file names, like '*/strtok.slt'")
    parser.add_argument("--update", action="store_true", help="write the list anew")
    parser.add_argument("--json", type=Path, help="where the outcomes go")
    options = parser.parse_args()
    folder = None if options.checkout is None else options.checkout / CORPUS
    if folder is None or not folder.is_dir():
        print("make slt needs SLT=FOLDER, a checkout of Embucket/rustice", file=sys.stderr)
        return 2
    outcomes = _run(folder, options.only)
    if options.json is not None:
        options.json.write_text(json.dumps(outcomes, indent=1, sort_keys=True))
    scored = {name: why for name, why in outcomes.items() if _is_scored(name)}
    _print_score(scored)
    failing = {name for name, why in scored.items() if why}
    listed = set(_names(FAILING))
    if options.update:
        _write(failing | (listed - set(outcomes)))
        return 0
    wrong = sorted(failing ^ (listed & set(outcomes)))
    for name in wrong:
        print(
            f"fails, and is not listed: {name}: {scored[name][:120]}"
            if name in failing
            else f"passes, and is listed: {name}"
        )
    return 1 if wrong else 0


def _run(folder: Path, only: str) -> dict[str, str]:
    """Run the corpus against a server of its own; return why each entry failed, or ""."""
    with tempfile.TemporaryDirectory(prefix="boathouse-slt-") as name:
        results = Path(name) / "outcomes.json"
        server = server_kit.start(Path(name) / "data")
        try:
            connection = {
                "host": server.host,
                "port": server.port,
                "protocol": "http",
                "account": "slt",
                "user": server.access_key,
                "password": server.secret_key,
                "database": "lake",
            }
            interpreter = str(environments.python("snowflake4"))
            subprocess.run(
                [interpreter, "-m", "tests.slt.runner", str(folder), str(results), only],
                cwd=server_kit.ROOT,
                env={**server_kit.client_environment(), "SLT_CONNECTION": json.dumps(connection)},
                check=True,
            )
        finally:
            server.stop()
        outcomes: dict[str, str] = json.loads(results.read_text())
        return outcomes


def _is_scored(name: str) -> bool:
    return not name.rpartition(" ")[2].startswith("s") and name not in EXCLUDED


def _print_score(scored: Mapping[str, str]) -> None:
    passed: collections.Counter[str] = collections.Counter()
    counted: collections.Counter[str] = collections.Counter()
    for name, why in scored.items():
        group = name.split("/")[-2]
        counted[group] += 1
        passed[group] += not why
    for group in sorted(counted):
        print(f"{group:40} {passed[group]:4} / {counted[group]}")
    percent = 1000 * passed.total() // max(counted.total(), 1) / 10
    print(f"SLT {passed.total()}/{counted.total()} ({percent}%)")


def _names(path: Path) -> Iterable[str]:
    """Return the entries that a list names, one file and its entries per line."""
    for line in path.read_text().splitlines() if path.exists() else ():
        if line and not line.startswith("#"):
            file, *entries = line.split()
            yield from (f"{file} {entry}" for entry in entries)


def _write(failing: Iterable[str]) -> None:
    by_file = collections.defaultdict(list)
    for name in failing:
        file, _, entry = name.rpartition(" ")
        by_file[file].append(entry)
    lines = []
    for file in sorted(by_file):
        entries = sorted(by_file[file], key=lambda entry: (entry[0], int(entry[1:])))
        lines.append(f"{file} {' '.join(entries)}\n")
    FAILING.write_text("".join(lines))


EXCLUDED: Final = frozenset(_names(HERE / "excluded.txt"))


if __name__ == "__main__":
    sys.exit(main())
