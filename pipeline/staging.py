"""engine: data files that a Spark Connect server writes for a transaction that it cannot see.

The table as the transaction has it, new columns and all, is stored as the metadata of a table of
its own, without snapshots, in the bucket of what loads store beside their tables. The server opens
it by Iceberg's Hadoop catalog and appends the rows. The location in the metadata is the real
table's, so that the data files lie where they belong; manifests and the next metadata lie beside
the copy. The files are taken from there into the transaction, and the copy is removed. A job that
is killed leaves its copy, some kB, and data files that no snapshot names.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipeline import loads, session, settings, sources

TABLE: Final = ("staged", "rows")
"""Namespace and name of the copy in its catalog."""
FIRST, SECOND = "v1.metadata.json", "v2.metadata.json"
"""Files of metadata as Iceberg's Hadoop catalog names them: the copy's, and that of the append."""
HINT: Final = "version-hint.text"
HISTORY: Final[Mapping[str, Any]] = {
    "current-snapshot-id": -1, "refs": {}, "snapshots": [], "snapshot-log": [], "metadata-log": [],
    "statistics": [], "partition-statistics": [],
}  # fmt: skip
"""What the copy does not have of the table."""
PROPERTIES: Final = {
    # Rows without a column that the table has: Iceberg writes it as absent.
    "write.spark.accept-any-schema": "true",
    "write.metadata.compression-codec": "none",
}
LEFT_OUT: Final = ("write.metadata.path",)
"""Properties of the table that a Hadoop catalog refuses."""
WRITE_OPTIONS: Final = {
    "fanout-enabled": "false",
    # The rows come as the load has arranged them.
    "use-table-distribution-and-ordering": "false",
}
DELETED_MAX: Final = 1_000
"""Keys of one request."""


def write(
    spark: session.Spark,
    server: settings.ServerEndpoint,
    transaction: Any,
    frame: Any,
    load_id: str,
) -> list[Any]:
    """Write the rows as data files of the transaction's table; return them, uncommitted.

    load_id: fresh, and a plain word.
    """
    s3 = sources.client(server)
    folder = f"{load_id}/{'/'.join(TABLE)}/metadata"
    metadata = spark.jvm.org.apache.iceberg.TableMetadataParser
    own = json.loads(metadata.toJson(transaction.table().operations().current()))
    with sources.asking():
        loads.create_lists_bucket(s3)
    try:
        with sources.asking():
            for name, text in ((FIRST, json.dumps(_copy_of(own))), (HINT, "1")):
                s3.put_object(Bucket=loads.LISTS_BUCKET, Key=f"{folder}/{name}", Body=text.encode())
        with _catalog(spark, server, load_id) as catalog:
            name = ".".join(f"`{part}`" for part in (catalog, *TABLE))
            frame.writeTo(name).options(**WRITE_OPTIONS).append()
        with _file_io(spark, server) as io:
            written = metadata.read(io, f"s3://{loads.LISTS_BUCKET}/{folder}/{SECOND}")
            return list(session.each(written.currentSnapshot().addedDataFiles(io)))
    finally:
        # The load's own error matters more.
        with contextlib.suppress(Exception):
            _remove(s3, f"{load_id}/")


def _copy_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's metadata without its history, with the properties of a copy."""
    properties = {
        name: value
        for name, value in metadata.get("properties", {}).items()
        if name not in LEFT_OUT
    }
    return {**metadata, **HISTORY, "properties": {**properties, **PROPERTIES}}


@contextlib.contextmanager
def _catalog(spark: session.Spark, server: settings.ServerEndpoint, load_id: str) -> Iterator[str]:
    """Yield the name of the copy's catalog in the session, for the time of the block."""
    name = f"boathouse_{load_id}"
    prefix = f"spark.sql.catalog.{name}"
    scheme = settings.scheme_of_raw_files(server)
    wanted = {
        "type": "hadoop",
        "warehouse": f"{scheme}://{loads.LISTS_BUCKET}/{load_id}",
        "io-impl": settings.FILE_IO,
        "cache-enabled": "false",
        **settings.file_settings(server),
    }
    names = [prefix, *(f"{prefix}.{key}" for key in wanted)]
    try:
        for key, value in zip(names, (settings.CATALOG_CLASS, *wanted.values()), strict=True):
            spark.session.conf.set(key, value)
        yield name
    finally:
        with contextlib.suppress(Exception):  # the session may be gone
            for key in names:
                spark.session.conf.unset(key)


@contextlib.contextmanager
def _file_io(spark: session.Spark, server: settings.ServerEndpoint) -> Iterator[Any]:
    """Yield a Java FileIO with the job's keys."""
    properties = spark.jvm.java.util.HashMap()
    for key, value in settings.file_settings(server).items():
        properties.put(key, value)
    io = spark.jvm.org.apache.iceberg.aws.s3.S3FileIO()
    io.initialize(properties)
    try:
        yield io
    finally:
        io.close()


def _remove(s3: Any, prefix: str) -> None:
    """Delete a load's objects: the copy, and what the append wrote beside it."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=loads.LISTS_BUCKET, Prefix=prefix)
    keys = [{"Key": entry["Key"]} for page in pages for entry in page.get("Contents", ())]
    for start in range(0, len(keys), DELETED_MAX):
        s3.delete_objects(
            Bucket=loads.LISTS_BUCKET, Delete={"Objects": keys[start : start + DELETED_MAX]}
        )
