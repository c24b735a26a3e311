"""A table is copied into the REST catalog server that Iceberg publishes, and read from there.

That server has Iceberg's JDBC catalog in SQLite behind it, and a general bucket of a second
Boathouse as its store. Its `register` cannot overwrite, and its configuration names no endpoint of
a store.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from pipeline import java, replicas, replication, resources, servers, session, settings
from tests.cluster import standalone
from tests.kit import maven
from tests.kit import server as server_kit

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.cluster,
    pytest.mark.timeout(standalone.TEST_SECONDS),
]

POM: Final = Path(__file__).with_name("reference.pom.xml")
MAIN: Final = "org.apache.iceberg.rest.RESTCatalogServer"
BUCKET: Final = "copies"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The server's REST URI, and the Boathouse whose bucket is its store."""

    uri: str
    store: server_kit.Running


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_kit.Running]:
    running = server_kit.start(tmp_path_factory.mktemp("lake") / "data")
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    folder = tmp_path_factory.mktemp("reference")
    store = server_kit.start(folder / "data", "--bucket", BUCKET)
    try:
        with reference_server(folder, store) as uri:
            yield Reference(uri=uri, store=store)
    finally:
        store.stop()


@contextlib.contextmanager
def reference_server(folder: Path, store: server_kit.Running) -> Iterator[str]:
    """Run Iceberg's server for the time of the block; yield its URI."""
    runtime = java.find(os.environ)
    jars = maven.class_path(
        runtime, POM, name="reference-catalog", called="the server", size="150 MB"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    properties = {
        "REST_PORT": str(port),
        "URI": f"jdbc:sqlite:{folder}/catalog.db",
        "WAREHOUSE": f"s3://{BUCKET}/warehouse",
        "IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "S3_ENDPOINT": store.url,
        "S3_ACCESS__KEY__ID": store.access_key,
        "S3_SECRET__ACCESS__KEY": store.secret_key,
        "S3_PATH__STYLE__ACCESS": "true",
        "CLIENT_REGION": "us-east-1",
    }
    log = folder / "reference.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(runtime.home / "bin" / "java"), "-Xmx256m", "-cp", jars, MAIN],
            env={**os.environ, **{f"CATALOG_{name}": text for name, text in properties.items()}},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    uri = f"http://127.0.0.1:{port}"
    try:
        while not answers(f"{uri}/v1/config"):
            assert process.poll() is None, log.read_text()[-3_000:]
            time.sleep(0.2)
        yield uri
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def rows(*ids: int) -> pa.Table:
    names = pa.array([f"n{each}" for each in ids], pa.string())
    return pa.table({"id": pa.array(ids, pa.int64()), "name": names})


def history(table: Any) -> list[tuple[int, list[dict[str, Any]]]]:
    """Return every snapshot of a table with its rows."""
    return [
        (
            each.snapshot_id,
            sorted(
                table.scan(snapshot_id=each.snapshot_id).to_arrow().to_pylist(),
                key=lambda row: int(row["id"]),
            ),
        )
        for each in table.metadata.snapshots
    ]


def test_a_table_with_its_history_is_copied_into_the_reference_server_and_followed(
    lake: server_kit.Running, reference: Reference
) -> None:
    endpoint = servers.find(url=None, data=str(lake.data), environment={}, region=None)
    ours = load_catalog(
        "ours", type="rest", uri=endpoint.iceberg, warehouse="lake",
        **settings.catalog_credentials(endpoint),
    )  # fmt: skip
    ours.create_namespace("sales")
    table = ours.create_table("sales.orders", schema=rows().schema)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    table.delete("id = 2")
    table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "first").commit()

    keys = {
        replicas.ACCESS_KEY: reference.store.access_key,
        replicas.SECRET_KEY: reference.store.secret_key,
    }
    to = replicas.parse(
        reference.uri,
        keys,
        warehouse="ignored",
        location=f"s3://{BUCKET}/orders",
        s3_endpoint=reference.store.url,
    )
    theirs = load_catalog(
        "theirs",
        type="rest",
        uri=reference.uri,
        **{
            "s3.endpoint": reference.store.url,
            "s3.access-key-id": reference.store.access_key,
            "s3.secret-access-key": reference.store.secret_key,
            "s3.region": "us-east-1",
        },
    )
    source = settings.parse_table("lake.sales.orders")
    said: list[str] = []
    gets = resources.SparkResources(master="local[2]")
    with session.started(endpoint, "lake", gets=gets, say=print) as spark:

        def copy() -> replication.Replicated | None:
            return replication.run(
                endpoint,
                source,
                to,
                open_spark=lambda _: contextlib.nullcontext(spark),
                say=said.append,
            )

        first = copy()
        assert first is not None
        assert first.since is None
        copied = theirs.load_table("sales.orders")
        assert history(copied) == history(table.refresh())
        assert [len(listed) for _, listed in history(copied)][:2] == [3, 4]
        assert copied.location() == f"s3://{BUCKET}/orders"
        assert set(copied.refs()) == {"main", "first"}
        assert copy() is None

        version = table.metadata_location.rpartition("/")[2]
        table.append(rows(5, 6))
        more = copy()
        assert more is not None
        # The rows, one manifest, the list of manifests, the metadata.
        assert (more.since, more.files) == (version, 4)
        copied = theirs.load_table("sales.orders")
        assert history(copied) == history(table.refresh())
        assert copied.metadata_location == more.metadata_location
        assert said[-1] == (
            "the target cannot replace sales.orders at once: it is dropped and registered again"
        )
        # As a user of that catalog reads it: Spark, by the catalog and its store alone.
        name = "spark.sql.catalog.theirs"
        for key, value in {
            name: settings.CATALOG_CLASS,
            f"{name}.type": "rest",
            f"{name}.uri": reference.uri,
            f"{name}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            f"{name}.s3.endpoint": reference.store.url,
            f"{name}.s3.access-key-id": reference.store.access_key,
            f"{name}.s3.secret-access-key": reference.store.secret_key,
            f"{name}.s3.path-style-access": "true",
            f"{name}.client.region": "us-east-1",
        }.items():
            spark.session.conf.set(key, value)
        read = spark.session.sql("select id from theirs.sales.orders order by id").collect()
        assert [row[0] for row in read] == [1, 3, 4, 5, 6]
