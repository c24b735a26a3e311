"""Run Iceberg's REST Compatibility Kit against a freshly started server.

    python -m tests.rck [--keep FOLDER]

Maven fetches the kit as Iceberg publishes it; its own settings say from where. Each half of the kit
gets a server of its own on a free port, over an empty folder, because the kit insists that its
namespaces are absent and leaves some behind. Exits with 1 if any test's outcome differs from what
`tests.rck.scoring` has written down, and with 2 if the kit cannot run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pipeline import errors, java
from tests.kit import maven, server
from tests.rck import scoring

POM: Final = Path(__file__).with_name("pom.xml")
HALF_SECONDS_MAX: Final = 900
TABLE_BUCKET: Final = "lake"
SETTINGS: Final = f"""[table_buckets.{TABLE_BUCKET}]
requested_location = "override"
"""
"""Some tests ask for locations in the local file system."""

FLAGS: Final = (
    "-Drck.local=false",
    "-Drck.requires-namespace-create=true",
    "-Drck.supports-names-with-dot=true",
    "-Drck.overrides-requested-location=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)


class CannotRun(Exception):
    """Something that the kit needs is not there. `str()` says what."""


def main(arguments: Sequence[str]) -> int:
    """Run both halves, print the score, and return the exit code."""
    parser = argparse.ArgumentParser(prog="make rck", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, help="folder that JUnit's reports and logs go to")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="boathouse-rck-") as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        try:
            runtime = java.find(os.environ)
            class_path = find_class_path(runtime)
        except (CannotRun, errors.NoJava) as error:
            print(f"make rck: {error}", file=sys.stderr)
            return 2
        outcomes: list[scoring.Outcome] = []
        for half in scoring.HALVES:
            reports = folder / half
            run_half(runtime, class_path, half, data=Path(temporary) / "data" / half, to=reports)
            outcomes += scoring.read(reports, half)
            if not any(each.half == half for each in outcomes):
                print((reports / "log.txt").read_text()[-3_000:], file=sys.stderr)
    return report(outcomes)


def report(outcomes: Sequence[scoring.Outcome]) -> int:
    """Print the score and what is not as written down; return the exit code."""
    for (half, name), reason in sorted(scoring.NOT_PASSING.items()):
        print(f"known: {half}: {name} {reason}")
    findings = list(scoring.findings(outcomes))
    for finding in findings:
        print(f"FINDING: {finding}")
    scores = {half: scoring.score(outcomes, half) for half in scoring.HALVES}
    passed = sum(each.passed for each in scores.values())
    ran = sum(each.ran for each in scores.values())
    shown = " ".join(f"{half} {each.passed}/{each.ran}" for half, each in scores.items())
    print(f"RCK {shown} total {passed}/{ran}")
    return 1 if findings else 0


def find_class_path(runtime: java.Java) -> str:
    """Return the kit's class path. Raises CannotRun."""
    try:
        return maven.class_path(runtime, POM, name="rck", called="the kit", size="150 MB")
    except maven.CannotFetch as error:
        raise CannotRun(str(error)) from error


def run_half(runtime: java.Java, class_path: str, half: str, *, data: Path, to: Path) -> None:
    """Run one half of the kit against a server of its own. JUnit's reports and a log go to `to`."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    data.parent.mkdir(parents=True, exist_ok=True)
    settings = data.parent / f"{half}.toml"
    settings.write_text(SETTINGS)
    running = server.start(data, "--config", str(settings))
    command = [
        str(runtime.command),
        *FLAGS,
        f"-Duri={running.iceberg}",
        f"-Dwarehouse={TABLE_BUCKET}",
        f"-Dcredential={running.access_key}:{running.secret_key}",
        "-Dheader.X-Iceberg-Access-Delegation=vended-credentials",
        *("-cp", class_path, "org.junit.platform.console.ConsoleLauncher", "execute"),
        *("--select-class", scoring.HALVES[half][0], "--reports-dir", str(to)),
        *("--details", "tree", "--disable-ansi-colors", "--disable-banner"),
    ]
    try:
        with (to / "log.txt").open("wb") as log:
            subprocess.run(
                command, stdout=log, stderr=log, timeout=HALF_SECONDS_MAX, check=False, cwd=to
            )
    except subprocess.TimeoutExpired:
        print(f"{half}: given up after {HALF_SECONDS_MAX} s", file=sys.stderr)
    finally:
        running.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
