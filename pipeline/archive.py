"""engine: an archive of Spark's classes, which halves what the start of its JVM costs.

A JVM of Spark reads, checks and links some 20,000 classes before its first row. Java keeps them
ready in a file ("class data sharing", JEP 350) that later JVMs with the same jars map into memory.
`python -m pipeline.prepare` writes the file by running a small job on this machine once. Java
compares the file with its own version and with the jars, and starts without it where they differ.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.server
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline import gateway, jars, java, resources, settings, workfolders

FOLDER = Path(sys.prefix) / "share" / "boathouse"
NAME = "spark-classes-{digest}.jsa"
STOP_TIMEOUT_SECONDS = 1800
"""Java writes the archive while it ends: half a minute on two busy cores, over five where twenty
programs want them."""

# A JVM that cannot archive a class, as it cannot those of signed jars, says so for each.
QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")

SMALL = resources.SparkResources(master="local[2]")

STATEMENTS = (
    "CREATE TABLE local.a.t (id bigint, name string, at timestamp, n decimal(12, 2)) USING iceberg "
    "PARTITIONED BY (bucket(2, id))",
    "INSERT INTO local.a.t SELECT id, concat('n', id), timestamp '2020-01-01', id FROM range(200)",
    "MERGE INTO local.a.t t USING (SELECT * FROM local.a.t WHERE id < 20) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM local.a.t WHERE id = 3",
    "SELECT date_trunc('day', at), count(*), max(name) FROM local.a.t GROUP BY 1 ORDER BY 1",
    "CALL local.system.rewrite_data_files(table => 'a.t', options => map('rewrite-all', 'true'))",
    "CALL local.system.expire_snapshots(table => 'a.t', retain_last => 1)",
)
"""What jobs do, in small, on tables in a folder. Reference: Iceberg, Spark procedures."""


def options(runtime: java.Java, folder: Path) -> tuple[str, ...]:
    """Return the options of a JVM that uses the archive; none where there is no archive.

    folder: of Spark's jars.
    """
    path = location(runtime, folder)
    return (f"-XX:SharedArchiveFile={path}", *QUIET) if path.exists() else ()


def installed(runtime: java.Java, environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the class path of Spark's jars, and the options that go with it; fetches nothing.

    Raises JarsMissing.
    """
    folder = jars.ensure(runtime, environment, say=lambda _: None, may_fetch=False)
    return f"{folder}/*", options(runtime, folder)


def location(runtime: java.Java, folder: Path) -> Path:
    """Return the archive's place, beside the installed PySpark whose classes it holds."""
    release = runtime.home / "release"
    identity = hashlib.sha256()
    for part in (str(runtime.home), str(gateway.spark_home()), str(folder)):
        identity.update(part.encode() + b"\0")
    identity.update(release.read_bytes() if release.exists() else b"")
    return Path(sys.prefix) / "share" / "boathouse" / NAME.format(digest=identity.hexdigest()[:12])


def ensure(
    runtime: java.Java,
    folder: Path,
    environment: Mapping[str, str],
    *,
    say: Callable[[str], None],
) -> None:
    """Write the archive unless it is there; a JVM that cannot write one is no error.

    say: takes one line of progress. Raises SparkFailed when the small job's JVM does not start.
    """
    path = location(runtime, folder)
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = (path.parent / ".lock").open("w")
    except OSError as error:
        say(f"Spark starts without an archive of its classes ({error.strerror}: {path.parent})")
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return
        say("preparing a faster start of Spark, once")
        started = time.monotonic()
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        in_time = _run_small_job(runtime, folder, environment, partial)
        for old in path.parent.glob(NAME.format(digest="*")):
            old.unlink()
        if not in_time:
            partial.unlink(missing_ok=True)
            say(
                f"Java had not written the archive of classes after {STOP_TIMEOUT_SECONDS} s; "
                "Spark starts without one until this is run again"
            )
        elif partial.exists():
            partial.replace(path)
            seconds = time.monotonic() - started
            say(f"prepared {path.stat().st_size // 1_000_000} MB in {seconds:.0f} s")
        else:
            say("this Java writes no archive of classes; Spark starts without one")


def _run_small_job(
    runtime: java.Java, jars_folder: Path, environment: Mapping[str, str], archive: Path
) -> bool:
    """Run a job whose JVM writes the archive as it ends; return whether it ended in time."""
    environment = {**environment, "SPARK_LOCAL_IP": "127.0.0.1"}
    with workfolders.opened() as folder, _empty_server() as url:
        endpoint = settings.ServerEndpoint(
            url=url, access_key="none", secret_key="none", region="us-east-1"
        )
        wanted = {
            **settings.spark_settings(
                endpoint, "lake", gets=SMALL, jars=jars_folder, java_options=()
            ),
            "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.local.type": "hadoop",
            "spark.sql.catalog.local.warehouse": str(folder / "warehouse"),
        }
        with gateway.running(
            runtime,
            wanted,
            folder=folder,
            environment=environment,
            jvm_options=(f"-XX:ArchiveClassesAtExit={archive}", *QUIET),
            stop_timeout_seconds=STOP_TIMEOUT_SECONDS,
        ):
            # Imported here: PySpark takes a second to import, and most commands do not need it.
            from pyspark import SparkContext
            from pyspark.sql import SparkSession

            session = SparkSession.builder.getOrCreate()
            session.sparkContext.setLogLevel("OFF")
            _run(session, folder)
            session.stop()
            spark_gateway = SparkContext._gateway  # noqa: SLF001 - PySpark keeps no other reference
            if spark_gateway is not None:
                spark_gateway.shutdown()
            SparkContext._gateway = None  # noqa: SLF001
            SparkContext._jvm = None  # noqa: SLF001
            stopping = time.monotonic()
    return time.monotonic() - stopping < STOP_TIMEOUT_SECONDS


def _run(session: Any, folder: Path) -> None:
    for statement in STATEMENTS:
        session.sql(statement).collect()
    for form in ("parquet", "json", "csv"):
        rows = str(folder / form)
        session.table("local.a.t").write.format(form).save(rows)
        session.read.format(form).load(rows).writeTo(f"local.a.{form}").create()
    # The answers are refusals; the classes of both clients are loaded all the same.
    with contextlib.suppress(Exception):
        session.sql("SHOW NAMESPACES IN lake").collect()
    with contextlib.suppress(Exception):
        session.read.text("s3a://lake/rows.txt").collect()


class _NotThere(http.server.BaseHTTPRequestHandler):
    """Answers each request with 404."""

    def do_GET(self) -> None:
        self.send_error(404)

    do_HEAD = do_POST = do_GET  # noqa: N815 - the names that http.server calls

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


@contextmanager
def _empty_server() -> Iterator[str]:
    """Run a server on this machine that has nothing; yields its URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _NotThere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
