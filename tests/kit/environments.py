"""Environments of test clients that do not belong into the server's own, made when a test asks.

`python("awscli")` returns the interpreter of a virtual environment made from
`tests/kit/requirements/awscli.txt`. It lies in the user's cache, as the jars do, under a name that
tells that file, this Python and where it lies, and the machine's processor, so that all checkouts
share it; when one of these changes, another one is made. `node`, `go` and `java` do so with the
packages of `tests/kit/packages/`, by the machine's npm, Go, and Maven and JDK. Two test runs at
once wait for one another. An environment that nothing has used for UNUSED_SECONDS is removed when
another of its name is made. `python -m tests.kit.environments [NAME...]` makes them beforehand.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline import jars

REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
PACKAGES = Path(__file__).resolve().parent / "packages"
INSTALL_TIMEOUT_SECONDS = 900
UNUSED_SECONDS = 30 * 24 * 3600
STAMP = "complete"
"""An empty file of a whole environment; its time is that of the last use."""
DIGITS = 12
"""Of the digest in a folder's name."""
COMMANDS = {"node": ("node", "npm"), "go": ("go",), "java": ("java", "javac", "mvn")}
"""What the packages of each language need on the machine."""


CUSTOMIZATION = """\
import atexit
import gc

gc.set_threshold(200_000, 10, 10)
atexit.register(gc.freeze)
"""
"""What Python runs first in an environment: it looks for cycles seldom, and not among all objects
before the process ends. A driver's imports make 200,000 objects, which all stay. Its import costs a
fifth to two fifths less."""


def names() -> list[str]:
    """Return every environment that this machine can have."""
    return [
        *sorted(path.stem for path in REQUIREMENTS.glob("*.txt")),
        *sorted(
            path.name
            for path in PACKAGES.iterdir()
            if all(shutil.which(command) for command in COMMANDS[_language(path.name)])
        ),
    ]


def python(name: str) -> Path:
    """Return the interpreter of the named environment, made first if need be."""
    requirements = REQUIREMENTS / f"{name}.txt"

    def make(place: Path) -> None:
        # This environment's pip installs into the other one, which then needs none, and compiles
        # nothing: Python compiles what a client imports, a small part of its packages.
        venv.create(place, with_pip=False, symlinks=True)
        interpreter = place / "bin" / "python"
        command = [sys.executable, "-m", "pip", "--python", str(interpreter), "install", "--quiet"]
        command += ["--no-input", "--no-compile", "--disable-pip-version-check"]
        command += ["--requirement", str(requirements)]
        _install(command, requirements, place)

    # The environment links to this Python, which may be gone when the environment is asked for.
    version = "\0".join([*map(str, sys.version_info[:3]), sys.base_prefix])
    program = Path("bin", "python")
    place = _prepared(name, version, [requirements], make, program)
    _write_customization(place)
    return place / program


def node(name: str) -> list[str]:
    """Return the command that runs the named package's client.js. Skips without Node.js."""
    runtime, npm = _runtime("node"), _runtime("npm")
    package = PACKAGES / name

    def make(place: Path) -> None:
        place.mkdir()
        for file in package.iterdir():
            shutil.copy(file, place)
        flags = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        _install([npm, "install", "--silent", *flags], package, place)

    return [runtime, str(_prepared(name, runtime, sorted(package.iterdir()), make) / "client.js")]


def go(name: str) -> list[str]:
    """Return the command that runs the named package's program. Skips without Go."""
    compiler = _runtime("go")
    package = PACKAGES / name

    def make(place: Path) -> None:
        place.mkdir()
        _install([compiler, "build", "-o", str(place / "client"), "."], package, package)

    return [str(_prepared(name, compiler, sorted(package.iterdir()), make) / "client")]


def java(name: str) -> list[str]:
    """Return the command that runs the named package's Client. Skips without a JDK and Maven."""
    runtime, compiler, maven = _runtime("java"), _runtime("javac"), _runtime("mvn")
    package = PACKAGES / name

    def make(place: Path) -> None:
        place.mkdir()
        fetch = [maven, "-q", "-B", "-f", str(package / "pom.xml")]
        _install(
            [*fetch, "dependency:copy-dependencies", f"-DoutputDirectory={place}"], package, place
        )
        source = str(package / "Client.java")
        _install([compiler, "-d", str(place), "-cp", f"{place}/*", source], package, place)

    place = _prepared(name, compiler, sorted(package.iterdir()), make)
    # Arrow reads memory that Java keeps to itself.
    opens = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    return [runtime, "-Xmx512m", opens, "-cp", f"{place}:{place}/*", "Client"]


def program(name: str, command: str) -> Path:
    """Return a program that the named environment installs."""
    return python(name).parent / command


def _write_customization(place: Path) -> None:
    (packages,) = place.glob("lib/python*/site-packages")
    path = packages / "sitecustomize.py"
    if not path.exists() or path.read_text() != CUSTOMIZATION:
        partial = packages / f"sitecustomize.{os.getpid()}.partial"
        partial.write_text(CUSTOMIZATION)
        partial.replace(path)


def _language(package: str) -> str:
    return package.partition("-")[0]


def _runtime(command: str) -> str:
    path = shutil.which(command)
    if path is None:
        pytest.skip(f"{command} is not installed")
    return path


def _prepared(
    name: str,
    version: str,
    files: list[Path],
    make: Callable[[Path], None],
    program: Path = Path(STAMP),
) -> Path:
    """Return the environment's folder for these files and this version, made first if need be.

    program: without which it is made again, by its path in the folder.
    """
    digest = hashlib.sha256(f"{version}\0{platform.machine()}".encode())
    for file in files:
        digest.update(b"\0" + file.read_bytes())
    folder = jars.cache_folder(os.environ).resolve() / "clients"
    place = folder / f"{name}-{digest.hexdigest()[:DIGITS]}"
    stamp = place / STAMP
    with _lock(folder, name):
        if not (stamp.exists() and (place / program).exists()):
            _remove_unused(folder, name)
            shutil.rmtree(place, ignore_errors=True)
            make(place)
            stamp.touch()
        os.utime(stamp)
    return place


def _remove_unused(folder: Path, name: str) -> None:
    """Remove the environments of a name that no test has used for long."""
    for place in folder.glob(f"{name}-{'[0-9a-f]' * DIGITS}"):
        used = place / STAMP if (place / STAMP).exists() else place
        if used.stat().st_mtime < time.time() - UNUSED_SECONDS:
            shutil.rmtree(place)


def _install(command: list[str], described: Path, folder: Path) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_SECONDS,
        check=False,
        cwd=folder,
    )
    if done.returncode:
        raise AssertionError(f"{described.name} cannot be installed:\n{done.stderr[-4000:]}")


@contextmanager
def _lock(folder: Path, name: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> None:
    """Make the named environments, or all of them, telling which."""
    for name in arguments or names():
        print(f"client environment {name} ...", flush=True)
        make: Callable[[str], object] = {"node": node, "go": go, "java": java}.get(
            _language(name), python
        )
        make(name)


if __name__ == "__main__":
    main(sys.argv[1:])
