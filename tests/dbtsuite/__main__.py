"""`make dbt-tests`: run the test classes that dbt publishes for adapters; what fails is listed.

The classes are those of `dbt-tests-adapter`, run with dbt-snowflake in an environment of their own
(`tests/kit/requirements/dbt.txt`). A server is started for the run. `failing.txt` names the
tests that fail, below the reason. A test that fails and is not listed fails the run, and so does
one that is listed and passes.
"""

from __future__ import annotations

import argparse
import collections
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.kit import environments
from tests.kit import server as server_kit

HERE: Final = Path(__file__).parent
FAILING: Final = HERE / "failing.txt"
AREAS: Final = (
    "basic",
    "incremental",
    "simple_seed",
    "simple_snapshot",
    "utils",
    "aliases",
    "concurrency",
    "dbt_clone",
    "dbt_debug",
    "relations",
    "store_test_failures_tests",
)
"""Areas of the suite whose classes run on any adapter, with little said about it."""
SETTINGS: Final = "[pytest]\npython_files = classes.py\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make dbt-tests", description=__doc__)
    parser.add_argument(
        "areas", nargs="*", default=AREAS, help="areas of the suite; all by default"
    )
    parser.add_argument("-k", dest="matching", default="", help="as for pytest")
    parser.add_argument("-v", dest="verbose", action="store_true", help="show what dbt prints")
    options = parser.parse_args()
    outcomes = run(options.areas, options.matching, verbose=options.verbose)
    passed: collections.Counter[str] = collections.Counter()
    counted: collections.Counter[str] = collections.Counter()
    for name, fault in outcomes.items():
        area = name.split("/")[0]
        counted[area] += 1
        passed[area] += not fault
    for area in counted:
        print(f"{area:30} {passed[area]:4} / {counted[area]}")
    print(f"DBT {passed.total()}/{counted.total()}")
    listed = set(_listed())
    failing = {name for name, fault in outcomes.items() if fault}
    wrong = sorted(failing ^ (listed & set(outcomes)))
    for name in wrong:
        print(
            f"fails, and is not listed: {name}: {outcomes[name]}"
            if name in failing
            else f"passes, and is listed: {name}"
        )
    return 1 if wrong else 0


def run(areas: Sequence[str], matching: str, *, verbose: bool) -> Mapping[str, str]:
    """Run the classes of areas against a server of its own; return each test's fault, or "".

    matching: as pytest's -k. verbose: with pytest's and dbt's output.
    """
    with tempfile.TemporaryDirectory(prefix="boathouse-dbt-") as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text(SETTINGS)
        report = folder / "report.xml"
        server = server_kit.start(folder / "lake")
        try:
            interpreter = environments.python("dbt")
            # Copies: this project's own conftest is not for dbt's environment, and a test of the
            # suite looks for its file beside the classes.
            classes = shutil.copy(HERE / "classes.py", folder)
            for file in interpreter.parents[1].glob(
                "lib/*/site-packages/dbt/tests/adapter/*/*.csv"
            ):
                shutil.copy(file, folder)
            command = [str(interpreter), "-m", "pytest", "-q"]
            command += ["-c", str(folder / "pytest.ini"), "-p", "no:cacheprovider"]
            command += ["-p", "dbt.tests.fixtures.project", f"--junitxml={report}"]
            command += ["--basetemp", str(folder / "projects"), "-k", matching, "--tb=short"]
            subprocess.run(
                [*command, classes],
                cwd=folder,
                env={
                    **server_kit.client_environment(),
                    "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
                    "DO_NOT_TRACK": "1",
                    "LAKE_PORT": str(server.port),
                    "LAKE_KEY": server.access_key,
                    "LAKE_SECRET": server.secret_key,
                    "LAKE_AREAS": ",".join(areas),
                },
                stdout=None if verbose else subprocess.DEVNULL,
                check=False,
            )
        finally:
            server.stop()
        return dict(_outcomes(report))


def _outcomes(report: Path) -> Iterator[tuple[str, str]]:
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        area, _, label = case.get("classname", "").rpartition(".")[2].partition("__")
        name = f"{area.removeprefix('Test_')}/{label}.{case.get('name')}"
        faults = [
            each.get("message", "") for each in case if each.tag in ("failure", "error", "skipped")
        ]
        if not any(each.tag == "skipped" for each in case):
            yield name, " ".join(faults[0].split())[:300] if faults else ""


def _listed() -> Iterator[str]:
    for line in FAILING.read_text().splitlines() if FAILING.exists() else ():
        if line and not line.startswith("#"):
            yield line


if __name__ == "__main__":
    sys.exit(main())
