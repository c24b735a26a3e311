"""Trino against the running server, by its documented catalog properties alone.

Needs a Java 22 or newer and Maven, which fetches the artefacts (559 MB) into its own cache once.
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
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit import server as server_kit

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

VERSION = "476"
JAVA_MAJOR_MIN = 22
ARTEFACTS = {
    "trino-server-core": ("tar.gz", ""),
    "trino-iceberg": ("zip", ""),
    "trino-cli": ("jar", "executable"),
}
FETCH_TIMEOUT_SECONDS = 600
START_TIMEOUT_SECONDS = 180
QUERY_TIMEOUT_SECONDS = 120
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
    extension, classifier = ARTEFACTS[name]
    suffix = f"-{classifier}" if classifier else ""
    cache = Path.home() / ".m2" / "repository" / "io" / "trino" / name / VERSION
    file = cache / f"{name}-{VERSION}{suffix}.{extension}"
    if file.exists():
        return file
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"{file.name} is not in Maven's cache, and there is no mvn to fetch it")
    coordinates = f"io.trino:{name}:{VERSION}:{extension}"
    done = subprocess.run(
        [maven, "-q", "-B", "dependency:get", "-Dtransitive=false",
         f"-Dartifact={coordinates}{':' + classifier if classifier else ''}"],
        capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode or not file.exists():
        pytest.skip(f"{file.name} cannot be fetched: {done.stdout.strip()[-300:]}")
    return file


@dataclass(frozen=True, kw_only=True)
class Trino:
    """A running coordinator and its command line."""

    java: Path
    cli: Path
    url: str

    def sql(self, statement: str) -> list[list[str]]:
        """Run one statement; return its rows as text."""
        done = subprocess.run(
            [str(self.java), "-jar", str(self.cli), "--server", self.url, "--catalog", "lake",
             "--output-format", "JSON", "--execute", statement],
            capture_output=True, text=True, timeout=QUERY_TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{statement}\n{done.stderr[-2000:]}"
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [[str(value) for value in row.values()] for row in rows]


@pytest.fixture(scope="module")
def trino(server: server_kit.Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    home = java_home()
    if home is None:
        pytest.skip(f"no Java {JAVA_MAJOR_MIN} or newer was found")
    files = {name: artefact(name) for name in ARTEFACTS}
    folder = tmp_path_factory.mktemp("trino")
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
        yield Trino(java=home / "bin" / "java", cli=files["trino-cli"], url=url)
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


def test_trino_writes_changes_and_reads_a_partitioned_table(
    trino: Trino, server: server_kit.Running
) -> None:
    sql = trino.sql
    sql("CREATE SCHEMA lake.trino_sql")
    table = "lake.trino_sql.events"
    sql(
        f"CREATE TABLE {table} (id bigint, kind varchar, day date) "
        "WITH (partitioning = ARRAY['day'])"
    )
    sql(f"INSERT INTO {table} VALUES (1, 'a', DATE '2026-01-01'), (2, 'b', DATE '2026-01-02')")
    sql(f"UPDATE {table} SET kind = 'A' WHERE id = 1")
    sql(
        f"MERGE INTO {table} t USING (VALUES (2, 'B'), (3, 'c')) AS s(id, kind) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET kind = s.kind "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.kind, DATE '2026-01-03')"
    )
    sql(f"DELETE FROM {table} WHERE id = 3")
    expected = [["1", "A"], ["2", "B"]]
    assert sql(f"SELECT id, kind FROM {table} ORDER BY id") == expected
    sql(f"ALTER TABLE {table} EXECUTE optimize")
    assert sql(f"SELECT id, kind FROM {table} ORDER BY id") == expected
    ((snapshots,),) = sql('SELECT count(*) FROM lake.trino_sql."events$snapshots"')
    assert int(snapshots) >= 5
    assert _read_by_pyiceberg(server, "trino_sql.events") == expected
    sql(f"DROP TABLE {table}")
    assert sql("SHOW TABLES FROM lake.trino_sql") == []
    sql("DROP SCHEMA lake.trino_sql")


def test_trino_makes_tables_of_queries_views_and_reads_earlier_states(
    trino: Trino, server: server_kit.Running
) -> None:
    sql = trino.sql
    sql("CREATE SCHEMA lake.trino_views")
    table = "lake.trino_views.numbers"
    sql(f"CREATE TABLE {table} AS SELECT x AS id, 'first' AS word FROM UNNEST(sequence(1, 3)) t(x)")
    ((first,),) = sql('SELECT max(snapshot_id) FROM lake.trino_views."numbers$snapshots"')
    sql(f"ALTER TABLE {table} ADD COLUMN note varchar")
    sql(f"INSERT INTO {table} VALUES (4, 'later', 'new')")
    assert sql(f"SELECT sum(id), count(note) FROM {table}") == [["10", "1"]]
    assert sql(f"SELECT sum(id) FROM {table} FOR VERSION AS OF {first}") == [["6"]]
    sql(f"CREATE VIEW lake.trino_views.large AS SELECT id, word FROM {table} WHERE id > 2")
    expected = [["3", "first"], ["4", "later"]]
    assert sql("SELECT id, word FROM lake.trino_views.large ORDER BY id") == expected
    sql(f"CREATE OR REPLACE VIEW lake.trino_views.large AS SELECT id FROM {table} WHERE id > 3")
    assert sql("SELECT id FROM lake.trino_views.large") == [["4"]]
    assert sorted(sql("SHOW TABLES FROM lake.trino_views")) == [["large"], ["numbers"]]
    sql("ALTER VIEW lake.trino_views.large RENAME TO lake.trino_views.largest")
    sql("DROP VIEW lake.trino_views.largest")
    sql(f"CREATE OR REPLACE TABLE {table} AS SELECT 7 AS id, 'again' AS word, 'x' AS kind")
    assert sql(f"SELECT id, word FROM {table}") == [["7", "again"]]
    sql(f"ALTER TABLE {table} RENAME TO lake.trino_views.renamed")
    assert _read_by_pyiceberg(server, "trino_views.renamed") == [["7", "x"]]
    sql("DROP SCHEMA lake.trino_views CASCADE")
    assert ["trino_views"] not in sql("SHOW SCHEMAS FROM lake")


def _read_by_pyiceberg(server: server_kit.Running, table: str) -> list[list[str]]:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(
        "lake",
        type="rest",
        uri=server.iceberg,
        warehouse="lake",
        credential=f"{server.access_key}:{server.secret_key}",
        **{"oauth2-server-uri": f"{server.iceberg}/v1/oauth/tokens"},
    )
    rows = catalog.load_table(table).scan(selected_fields=("id", "kind")).to_arrow().to_pylist()
    return sorted([str(row["id"]), row["kind"]] for row in rows)
