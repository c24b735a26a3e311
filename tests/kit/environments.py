"""Virtual environments for clients whose pins clash with the server's, made when a test asks.

`python("awscli")` returns the interpreter of `.venv-clients/awscli`, made from
`tests/kit/requirements/awscli.txt` and made again when that file or this Python changes. Two test
runs at once wait for one another. `python -m tests.kit.environments [NAME...]` makes them
beforehand.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-clients"
REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
INSTALL_TIMEOUT_SECONDS = 900


def names() -> list[str]:
    """Return every environment that a requirements file describes."""
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))


def python(name: str) -> Path:
    """Return the interpreter of the named environment, made first if need be."""
    wanted = _digest(name)
    place = FOLDER / name
    interpreter = place / "bin" / "python"
    stamp = place / "requirements.sha256"
    if _read(stamp) == wanted:
        return interpreter
    with _lock(name):
        if _read(stamp) != wanted:
            shutil.rmtree(place, ignore_errors=True)
            venv.create(place, with_pip=True, symlinks=True)
            _install(interpreter, REQUIREMENTS / f"{name}.txt")
            stamp.write_text(wanted)
    return interpreter


def program(name: str, command: str) -> Path:
    """Return a program that the named environment installs."""
    return python(name).parent / command


def _install(interpreter: Path, requirements: Path) -> None:
    command = [str(interpreter), "-m", "pip", "install", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--requirement", str(requirements)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS, check=False
    )
    if done.returncode:
        raise AssertionError(f"{requirements.name} cannot be installed:\n{done.stderr[-4000:]}")


def _digest(name: str) -> str:
    text = (REQUIREMENTS / f"{name}.txt").read_bytes()
    version = ".".join(map(str, sys.version_info[:3])).encode()
    return hashlib.sha256(version + b"\0" + text).hexdigest()


def _read(stamp: Path) -> str | None:
    try:
        return stamp.read_text()
    except FileNotFoundError:
        return None


@contextmanager
def _lock(name: str) -> Iterator[None]:
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> None:
    """Make the named environments, or all of them, telling which."""
    for name in arguments or names():
        print(f"client environment {name} ...", flush=True)
        python(name)


if __name__ == "__main__":
    main(sys.argv[1:])
