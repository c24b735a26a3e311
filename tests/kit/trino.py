"""A Trino of one node on a running server, by its documented catalog properties alone.

Needs a Java 22 or newer and Maven, which fetches the artefacts (546 MB) into its own cache once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit import server as server_kit

VERSION = "476"
JAVA_MAJOR_MIN = 22
ARTEFACTS = {
    "trino-server-core": "tar.gz",
    "trino-iceberg": "zip",
}
FETCH_TIMEOUT_SECONDS = 600
START_TIMEOUT_SECONDS = 600
"""Half a minute on two cores; 124 s where thirty programs wanted them, until its first port."""
QUERY_TIMEOUT_SECONDS = 300
STOP_TIMEOUT_SECONDS = 60

JVM_OPTIONS = (
    "-server", "-Xmx2G", "-XX:+UseG1GC", "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:+ExitOnOutOfMemoryError", "-XX:ReservedCodeCacheSize=256M",
    "-Djdk.attach.allowAttachSelf=true", "-Dfile.encoding=UTF-8",
    "-XX:+UnlockDiagnosticVMOptions", "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)  # fmt: skip


def java_home() -> Path | None:
    """Return the home of a Java that Trino starts on, if the machine has one."""
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path).resolve().parents[1])
    candidates += sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)
    for home in candidates:
        command = home / "bin" / "java"
        if not command.exists():
            continue
        said = subprocess.run(
            [str(command), "-version"], capture_output=True, text=True, check=False
        ).stderr
        match = re.search(r'version "(\d+)', said)
        if match and int(match.group(1)) >= JAVA_MAJOR_MIN:
            return home
    return None


def artefact(name: str) -> Path:
    """Return one of Trino's files out of Maven's cache, fetched first if need be."""
    extension = ARTEFACTS[name]
    cache = Path.home() / ".m2" / "repository" / "io" / "trino" / name / VERSION
    file = cache / f"{name}-{VERSION}.{extension}"
    if file.exists():
        return file
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"{file.name} is not in Maven's cache, and there is no mvn to fetch it")
    done = subprocess.run(
        [maven, "-q", "-B", "dependency:get", "-Dtransitive=false",
         f"-Dartifact=io.trino:{name}:{VERSION}:{extension}"],
        capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode or not file.exists():
        pytest.skip(f"{file.name} cannot be fetched: {done.stdout.strip()[-300:]}")
    return file


class TrinoError(Exception):
    """A statement failed. The text is Trino's message."""


@dataclass(frozen=True, kw_only=True)
class Trino:
    """A running coordinator, which takes statements over HTTP as from Trino's own clients."""

    url: str

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement in catalog `lake`; return its rows, values as in JSON."""
        headers = {"X-Trino-User": "test", "X-Trino-Catalog": "lake"}
        page = urllib.request.Request(
            f"{self.url}/v1/statement", data=statement.encode(), headers=headers
        )
        rows: list[tuple[Any, ...]] = []
        deadline = time.monotonic() + QUERY_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            with urllib.request.urlopen(page, timeout=QUERY_TIMEOUT_SECONDS) as answer:
                result = json.loads(answer.read())
            if "error" in result:
                raise TrinoError(result["error"]["message"])
            rows += map(tuple, result.get("data", ()))
            if "nextUri" not in result:
                return rows
            page = urllib.request.Request(result["nextUri"], headers=headers)
        raise AssertionError(f"no end after {QUERY_TIMEOUT_SECONDS} s: {statement}")


@contextmanager
def started(server: server_kit.Running, folder: Path) -> Iterator[Trino]:
    """Run Trino below a folder, with the server's warehouse as catalog `lake`.

    Skips the test, with what is missing, where Trino cannot be had.
    """
    home = java_home()
    if home is None:
        pytest.skip(f"no Java {JAVA_MAJOR_MIN} or newer was found")
    files = {name: artefact(name) for name in ARTEFACTS}
    with tarfile.open(files["trino-server-core"]) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (place,) = (folder / "unpacked").iterdir()
    with zipfile.ZipFile(files["trino-iceberg"]) as archive:
        archive.extractall(folder / "plugin")
    (plugin,) = (folder / "plugin").iterdir()
    (place / "plugin").mkdir(exist_ok=True)
    plugin.rename(place / "plugin" / "iceberg")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _configure(place / "etc", server, port)
    log = folder / "trino.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(home / "bin" / "java"), "-cp", f"{place}/lib/*", *JVM_OPTIONS,
             "-Dnode.environment=test", "-Dnode.id=one", f"-Dnode.data-dir={folder / 'data'}",
             "-Dnode.internal-address=127.0.0.1", "-Dconfig=etc/config.properties",
             "-Dlog.levels-file=etc/log.properties", f"-Dplugin.dir={place / 'plugin'}",
             "-Dcatalog.config-dir=etc/catalog", "io.trino.server.TrinoServer"],
            cwd=place, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_started(url, process, log)
        yield Trino(url=url)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _configure(etc: Path, server: server_kit.Running, port: int) -> None:
    (etc / "catalog").mkdir(parents=True)
    (etc / "log.properties").write_text("io.trino=INFO\n")
    (etc / "config.properties").write_text(
        f"""coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
http-server.http.enabled=true
discovery.uri=http://127.0.0.1:{port}
query.max-memory=512MB
query.max-memory-per-node=512MB
catalog.management=static
"""
    )
    (etc / "catalog" / "lake.properties").write_text(
        f"""connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri={server.iceberg}
iceberg.rest-catalog.warehouse=lake
iceberg.rest-catalog.security=OAUTH2
iceberg.rest-catalog.oauth2.credential={server.access_key}:{server.secret_key}
iceberg.rest-catalog.oauth2.server-uri={server.iceberg}/v1/oauth/tokens
iceberg.rest-catalog.vended-credentials-enabled=true
iceberg.rest-catalog.view-endpoints-enabled=true
iceberg.file-format=PARQUET
fs.hadoop.enabled=false
fs.native-s3.enabled=true
s3.endpoint={server.url}
s3.region=us-east-1
s3.path-style-access=true
"""
    )


def _wait_until_started(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/v1/info", timeout=5) as answer:
                if json.loads(answer.read()).get("starting") is False:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"Trino did not start:\n{log.read_text(errors='replace')[-4000:]}")
