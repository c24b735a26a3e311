"""engine: raw objects become rows of an Iceberg table, each object exactly once, all or nothing.

One load is one Iceberg transaction: the table's creation or new columns, the rows, and the list of
sources taken in become visible together, or not at all. Spark writes the files through the
transaction's own view of the table; only when every file is written, and every source still is
what was listed, is the transaction committed. So a job that dies at any moment leaves at most
files that nothing names, and running it again loads exactly what is missing.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import errors, loads, progress, session, settings, sources


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What to load: from where, in which format, into which table, partitioned how, and how."""

    place: settings.Place
    format: settings.Format
    table: settings.Table
    partitions: tuple[settings.Transform, ...]
    mode: settings.Mode
    options: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What a load did. snapshot_id is None where there was nothing to load."""

    rows: int
    sources: int
    skipped: int
    files: int
    columns_added: tuple[str, ...]
    snapshot_id: int | None


def run(server: settings.Server, load: Load, *, master: str, say: progress.Say) -> Loaded:
    """Load what the table has not taken in yet. Raises a PipelineError; then nothing changed."""
    s3 = sources.client(server)
    found = sources.listed(s3, load.place)
    if not found:
        raise errors.BadArgument(f"nothing to read at s3://{load.place.bucket}/{load.place.prefix}")
    known = loads.taken(server, load.table)
    fresh = [source for source in found if (source.place, source.etag) not in known]
    if load.mode == "replace" and (fresh or len(known) != len(found)):
        fresh = list(found)
    skipped = len(found) - len(fresh)
    if not fresh:
        say(f"nothing to load: all {skipped} objects are in {load.table.dotted} already")
        return Loaded(
            rows=0, sources=0, skipped=skipped, files=0, columns_added=(), snapshot_id=None
        )
    size_mb = sum(source.size_bytes for source in fresh) / 1e6
    say(f"loading {len(fresh)} objects, {size_mb:.1f} MB; {skipped} are loaded already")
    load_id = uuid.uuid4().hex
    with (
        session.started(server, load.table.warehouse, master=master, say=say) as spark,
        _namespace(spark, load.table),
    ):
        frame = _frame(spark, load, fresh)
        transaction, added = _transaction(spark, load, frame)
        summary = loads.summary(s3, fresh, mode=load.mode, load_id=load_id)
        with progress.watching("writing", spark.counters):
            _write(spark, transaction, frame, load_id, summary)
        moved = sources.changed(s3, load.place, fresh)
        if moved:
            raise errors.SourceChanged(
                f"{moved[0].place} changed while it was being read; nothing was loaded, "
                "run the same command again"
            )
        transaction.commitTransaction()
        snapshot = transaction.table().currentSnapshot()
        written = dict(snapshot.summary())
        return Loaded(
            rows=int(written.get("added-records", 0)),
            sources=len(fresh),
            skipped=skipped,
            files=int(written.get("added-data-files", 0)),
            columns_added=added,
            snapshot_id=int(snapshot.snapshotId()),
        )


@contextlib.contextmanager
def _namespace(spark: session.Spark, table: settings.Table) -> Iterator[None]:
    """Make the table's namespace if it is missing; a load that fails takes it away again."""
    catalog = spark.catalog(table.warehouse)
    namespace = spark.namespace(table)
    if catalog.namespaceExists(namespace):
        yield
        return
    catalog.createNamespace(namespace)
    try:
        yield
    except BaseException:
        # Somebody may have put a table there meanwhile; then it stays, as it must.
        with contextlib.suppress(Exception):
            catalog.dropNamespace(namespace)
        raise


def _frame(spark: session.Spark, load: Load, fresh: Sequence[sources.Source]) -> Any:
    """Read the sources as one data frame, with the columns' types found in the data."""
    reader = spark.session.read.format(load.format)
    if load.format == "csv":
        reader = reader.option("header", "true").option("inferSchema", "true")
        reader = reader.option("mode", "FAILFAST")
    if load.format == "parquet":
        reader = reader.option("mergeSchema", "true")
    for name, value in load.options.items():
        reader = reader.option(name, value)
    return reader.load([source.path for source in fresh])


def _transaction(spark: session.Spark, load: Load, frame: Any) -> tuple[Any, tuple[str, ...]]:
    """Open the transaction: a new table's creation, or a live table's new columns."""
    catalog = spark.catalog(load.table.warehouse)
    identifier = spark.identifier(load.table)
    schema = spark.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(frame._jdf.schema())  # noqa: SLF001 - py4j
    if not catalog.tableExists(identifier):
        builder = catalog.buildTable(identifier, schema)
        spec = _partition_spec(spark, schema, load.partitions)
        return builder.withPartitionSpec(spec).createTransaction(), ()
    table = catalog.loadTable(identifier)
    _check_partitions(spark, table, load.partitions)
    known = {column.name() for column in table.schema().columns()}
    added = tuple(column.name() for column in schema.columns() if column.name() not in known)
    transaction = table.newTransaction()
    if added:
        transaction.updateSchema().unionByNameWith(schema).commit()
    if load.mode == "replace":
        everything = spark.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
        transaction.newDelete().deleteFromRowFilter(everything).commit()
    return transaction, added


def _write(
    spark: session.Spark, transaction: Any, frame: Any, load_id: str, summary: Mapping[str, str]
) -> None:
    """Write the rows through the transaction's own table, which Spark finds by a cache's key."""
    cache = spark.jvm.org.apache.iceberg.spark.SparkTableCache.get()
    cache.add(load_id, transaction.table())
    try:
        writer = frame.write.format("iceberg").mode("append")
        writer = writer.option("check-nullability", "true").option("fanout-enabled", "true")
        for name, value in summary.items():
            writer = writer.option(f"snapshot-property.{name}", value)
        writer.save(load_id)
    finally:
        cache.remove(load_id)


def _partition_spec(
    spark: session.Spark, schema: Any, transforms: Sequence[settings.Transform]
) -> Any:
    builder = spark.jvm.org.apache.iceberg.PartitionSpec.builderFor(schema)
    for transform in transforms:
        if schema.findField(transform.column) is None:
            names = ", ".join(column.name() for column in schema.columns())
            raise errors.BadArgument(
                f"--partition-by names {transform.column!r}, but the data has: {names}"
            )
        add = getattr(builder, transform.kind)
        builder = (
            add(transform.column)
            if transform.width is None
            else add(transform.column, transform.width)
        )
    return builder.build()


def _check_partitions(
    spark: session.Spark, table: Any, transforms: Sequence[settings.Transform]
) -> None:
    """A live table keeps its partitioning; asking for another one is a mistake worth saying."""
    if not transforms:
        return
    wanted = _partition_spec(spark, table.schema(), transforms)
    if not table.spec().compatibleWith(wanted):
        raise errors.BadArgument(
            f"the table is partitioned by {table.spec().toString()} already; "
            "leave --partition-by out, or name the same"
        )
