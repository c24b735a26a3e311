"""engine: a session on a Spark Connect server: what of a job runs there, and what runs here.

The server reads and writes data; it is another process's Spark, with a driver, memory and jars of
its own. Its protocol knows data frames and SQL, not Iceberg's transactions. So Iceberg's library
runs in a JVM of this machine too, which opens the catalog, plans and commits; no rows pass it. The
session's settings name the catalog and the keys, for this session alone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pipeline import errors, javanames, masters, progress, settings

PACKAGE = "grpc"
"""The client of Spark Connect needs it; PySpark does not install it."""
MODE_VARIABLE = "SPARK_CONNECT_MODE_ENABLED"
"""PySpark's functions make columns of Spark Connect while it is set."""
REACH_SECONDS = 10
RETRIES_MAX = 6
"""Of one call that finds no server, with waits of 0.05 s, four times as much each, up to 5 s."""
BACKOFF_MAX_MS = 5_000
JARS_MISSING: Mapping[str, str] = {
    settings.CATALOG_CLASS: "Iceberg's runtime for Spark",
    "org.apache.hadoop.fs.s3a.S3AFileSystem": "hadoop-aws",
    "software/amazon/awssdk": "the AWS SDK",
    "Failed to find data source: avro": "spark-avro",
}
"""The jars that a server lacks, by words of its error."""
SCHEME = re.compile(rf"\b{settings.SCHEME_BEGINNING}[0-9a-f]{{{settings.SCHEME_DIGITS}}}://")
"""The scheme by which a session reads raw files, in Spark's messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remote:
    """What a job knows of its session's server.

    address: of the Spark Connect server. endpoint: of Boathouse. catalogs: those that are open in
    the JVM of this machine; mutable. tasks: the server's tasks for this session.
    """

    address: masters.ConnectServer
    endpoint: settings.ServerEndpoint
    tasks: RemoteTasks
    catalogs: dict[str, Any] = field(default_factory=dict)

    def catalog(self, jvm: Any, warehouse: str) -> Any:
        """Return the Java Iceberg catalog of a warehouse, of this machine's JVM."""
        if warehouse not in self.catalogs:
            prefix = f"spark.sql.catalog.{warehouse}"
            properties = jvm.java.util.HashMap()
            for name, value in settings.catalog_settings(self.endpoint, warehouse).items():
                if name != prefix:
                    properties.put(name.removeprefix(prefix + "."), value)
            self.catalogs[warehouse] = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(
                warehouse, properties, jvm.org.apache.hadoop.conf.Configuration()
            )
        return self.catalogs[warehouse]

    def close(self) -> None:
        """Close the catalogs."""
        for catalog in self.catalogs.values():
            with contextlib.suppress(Exception):
                catalog.close()

    def path(self, place: str) -> str:
        """Return the name by which the server reads an object. place: `s3://...`."""
        return settings.scheme_of_raw_files(self.endpoint) + place.removeprefix("s3")


class RemoteTasks:
    """The tasks of a session on its server. Mutable: PySpark's client reports them.

    The protocol does not say how many rows they have written.
    """

    def __init__(self) -> None:
        self._stages: dict[int, tuple[int, int, int]] = {}

    def __call__(self, stages: Any, *_: Any, **__: Any) -> None:
        """Take a report. Source: pyspark.sql.connect.shell.progress.ProgressHandler."""
        for stage in stages or ():
            counts = (stage.num_completed_tasks, stage.num_tasks, stage.num_bytes_read)
            self._stages[stage.stage_id] = counts

    def counting(self, *, is_first_stage_alone: bool = False) -> Callable[[], progress.JobCounters]:
        """Return a function that counts what the server has done from now on."""
        earlier = set(self._stages)

        def counters() -> progress.JobCounters:
            stages = sorted(self._stages.items())
            counts = [each for number, each in stages if number not in earlier]
            if is_first_stage_alone:
                counts = counts[:1]
            return progress.JobCounters(
                rows=None,
                done=sum(done for done, _, _ in counts),
                total=sum(total for _, total, _ in counts),
                read_bytes=sum(read_bytes for _, _, read_bytes in counts),
            )

        return counters


def check_reach(address: masters.ConnectServer, endpoint: settings.ServerEndpoint) -> None:
    """Raise BadArgument if the Connect server cannot reach Boathouse by its URL."""
    is_here = settings.is_loopback_host(address.host)
    if not is_here and settings.is_loopback(endpoint.url):
        raise errors.BadArgument(
            f"the Spark Connect server at {address} cannot reach {endpoint.url}, an address of "
            "this machine alone; name another with --url"
        )


def check(address: masters.ConnectServer) -> None:
    """Raise SparkFailed unless the Connect server answers, and its client is installed."""
    try:
        socket.create_connection((address.host.strip("[]"), address.port), REACH_SECONDS).close()
    except OSError as error:
        raise errors.SparkFailed(
            f"no Spark Connect server answers at {address}: {error}"
        ) from error
    if importlib.util.find_spec(PACKAGE) is None:
        raise errors.SparkFailed(
            "the client of Spark Connect is not installed; run `make setup-all`"
        )


@contextmanager
def opened(
    address: masters.ConnectServer, wanted: Mapping[str, str], conf: Mapping[str, str]
) -> Iterator[Any]:
    """Open a session with these settings; release it with the block, and what still runs in it.

    conf: settings of the user's own; one that is no session's raises PySpark's error.
    """
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    before = os.environ.get(MODE_VARIABLE)
    os.environ[MODE_VARIABLE] = "1"
    session = None
    try:
        session = SparkSession.builder.remote(address.url).create()
        policy = DefaultPolicy(max_retries=RETRIES_MAX, max_backoff=BACKOFF_MAX_MS)
        session.client.set_retry_policies([policy])
        for name, value in (*wanted.items(), *conf.items()):
            session.conf.set(name, value)
        yield session
    finally:
        if session is not None:
            with contextlib.suppress(Exception):
                session.stop()
        if before is None:
            del os.environ[MODE_VARIABLE]
        else:
            os.environ[MODE_VARIABLE] = before


@contextmanager
def gateway() -> Iterator[Any]:
    """Yield py4j's gateway of the JVM that runs; it has no Spark session."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark import java_gateway as py4j

    launch: Callable[[], Any] = py4j.launch_gateway
    java_gateway = launch()
    javanames.install(java_gateway)
    try:
        yield java_gateway
    finally:
        with contextlib.suppress(Exception):
            java_gateway.shutdown()


def causes(error: Exception) -> list[tuple[str, str]]:
    """Return what a server's error says: classes and messages, the outermost first; else none."""
    if not hasattr(error, "getGrpcStatusCode"):
        return []
    stack = str(error.getStackTrace() or "") if hasattr(error, "getStackTrace") else ""
    message = str(error).partition("\n\nJVM stacktrace:")[0]
    first, *rest = re.split(r"^Caused by: ", stack, flags=re.MULTILINE)
    named = [(_simple(first.partition("\n")[0]) or type(error).__name__, message)]
    for each in rest:
        said = re.split(r"^\s+at ", each, maxsplit=1, flags=re.MULTILINE)[0].strip()
        java_class, _, text = said.partition(": ")
        named.append((_simple(java_class), text))
    return named


def missing(message: str) -> str | None:
    """Return what a server lacks by its message, as a sentence; None if it is something else."""
    for words, jars in JARS_MISSING.items():
        if words in message:
            return (
                f"the Spark Connect server was started without the jars of {jars}; the README says "
                "which it needs"
            )
    return None


def _simple(java_class: str) -> str:
    return java_class.strip().rpartition(".")[2]
