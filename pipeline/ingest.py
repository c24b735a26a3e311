"""engine: loads raw objects into an Iceberg table: each object once, in one transaction.

One load is one Iceberg transaction: the table's creation or new columns, the rows, and the list of
loaded sources become visible together, or not at all. Spark writes the files against the
transaction's own view of the table and returns them uncommitted, as it does when it rewrites files.
The files join the transaction, which is committed only if every source still has the ETag that was
listed. So a job that dies at any moment leaves at most unreferenced files, and a second run loads
the sources that are missing. When another job commits first, the load lists what is missing again,
and loads that.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import errors, loads, progress, session, settings, sources

READER_OPTIONS: Mapping[settings.Format, Mapping[str, str]] = {
    "csv": {"header": "true", "inferSchema": "true", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
    "parquet": {"mergeSchema": "true"},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What to load: source, format, table, partitioning, mode and reader options."""

    place: settings.ObjectPrefix
    format: settings.Format
    table: settings.TargetTable
    partitions: tuple[settings.PartitionTransform, ...]
    mode: settings.Mode
    options: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What a load did. snapshot_id is None if there was nothing to load."""

    rows: int
    sources: int
    skipped: int
    files: int
    columns_added: tuple[str, ...]
    snapshot_id: int | None


# What the catalog client throws when the server refused a commit and wrote nothing.
CONFLICTS = frozenset({"CommitFailedException", "AlreadyExistsException", "ValidationException"})
# What it throws when the outcome is unknown.
UNANSWERED = frozenset({"CommitStateUnknownException", "RESTException"})
ATTEMPTS_MAX = 3
"""How often a load starts again because another job committed first."""

ALREADY_TAKEN = "already taken in"
TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
WRITTEN_FILES = "org.apache.iceberg.spark.FileRewriteCoordinator"


def run(
    server: settings.ServerEndpoint, load: Load, *, open_spark: session.Open, say: progress.Say
) -> Loaded:
    """Load the sources that the table does not have yet. Raises PipelineError if nothing changed.

    open_spark: called only if there is something to load.
    """
    s3 = sources.client(server)
    wanted = _wanted(server, load, s3)
    if not wanted.fresh:
        return _nothing(load, wanted, say)
    with open_spark(load.table.warehouse) as spark, session.failures():
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                return _load(spark, load, s3, wanted, say)
            except errors.Overtaken as error:
                say(f"{error.reason}; trying again")
            wanted = _wanted(server, load, s3)
            if not wanted.fresh:
                return _nothing(load, wanted, say)
        return _load(spark, load, s3, wanted, say)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    """The sources to load, and the number of listed sources to skip."""

    fresh: Sequence[sources.Source]
    skipped: int


def _wanted(server: settings.ServerEndpoint, load: Load, s3: Any) -> _Wanted:
    """Return the sources to load. A replacing load takes all, or none if the table has just these.

    The table has them if a replacing load of these very sources wrote its current content.
    """
    listed = sources.listed(s3, load.place)
    if not listed:
        raise errors.BadArgument(f"no objects at s3://{load.place.bucket}/{load.place.prefix}")
    pairs = {(source.place, source.etag) for source in listed}
    if load.mode == "replace":
        is_equal = loads.content(server, load.table, s3) == pairs
        return _Wanted(fresh=() if is_equal else listed, skipped=len(listed) if is_equal else 0)
    taken = loads.taken(server, load.table)
    fresh = [source for source in listed if (source.place, source.etag) not in taken]
    return _Wanted(fresh=fresh, skipped=len(listed) - len(fresh))


def _nothing(load: Load, wanted: _Wanted, say: progress.Say) -> Loaded:
    say(f"nothing to load: {load.table.full} has all of these objects already")
    return Loaded(
        rows=0, sources=0, skipped=wanted.skipped, files=0, columns_added=(), snapshot_id=None
    )


def _load(spark: session.Spark, load: Load, s3: Any, wanted: _Wanted, say: progress.Say) -> Loaded:
    """Load the wanted sources in one transaction. Raises as `run` does, and Overtaken."""
    fresh = wanted.fresh
    size_mb = sum(source.size_bytes for source in fresh) / 1e6
    what = progress.counted(len(fresh), "object")
    say(f"loading {what}, {size_mb:.1f} MB; {wanted.skipped} loaded before")
    load_id = uuid.uuid4().hex
    with _namespace(spark, load.table):
        frame = _frame(spark, load, s3, fresh)
        transaction, added = _transaction(spark, load, frame)
        frame = _clustered(frame, load, transaction.table())
        with progress.watching("writing", spark.counters):
            files = _write(spark, transaction, frame, load_id)
        with _given_back(transaction, files):
            append = transaction.newAppend()
            for file in files:
                append.appendFile(file)
            summary = loads.summary(s3, fresh, mode=load.mode, load_id=load_id)
            for name, value in summary.items():
                append.set(name, value)
            append.commit()
            moved = sources.changed(s3, load.place, fresh)
            if moved:
                raise errors.SourceChanged(
                    f"{moved[0].place} changed while it was being read; nothing was loaded, "
                    "run the same command again"
                )
            snapshot = transaction.table().currentSnapshot()
            say(f"committing {progress.counted(len(files), 'file')}")
            with _contested(load.table):
                transaction.commitTransaction()
        written = dict(snapshot.summary())
        return Loaded(
            rows=int(written.get("added-records", 0)),
            sources=len(fresh),
            skipped=wanted.skipped,
            files=int(written.get("added-data-files", 0)),
            columns_added=added,
            snapshot_id=int(snapshot.snapshotId()),
        )


@contextlib.contextmanager
def _given_back(transaction: Any, files: Any) -> Iterator[None]:
    """Delete the data files if the load certainly failed."""
    try:
        yield
    except (errors.SourceChanged, errors.Overtaken):
        for file in files:
            # The sweep removes files that stay; the load's own error matters more.
            with contextlib.suppress(Exception):
                transaction.table().io().deleteFile(file.location())
        raise


@contextlib.contextmanager
def _contested(table: settings.TargetTable) -> Iterator[None]:
    """Raise Overtaken if another job committed first, OutcomeUnknown if no answer came."""
    try:
        yield
    except Exception as error:
        java_class, message = session.thrown(error) or ("", "")
        if java_class in UNANSWERED:
            raise errors.OutcomeUnknown(
                f"the answer to the commit was lost, so {table.full} may or may not have the rows; "
                "run the same command again: it loads only what is missing"
            ) from error
        if java_class not in CONFLICTS:
            raise
        if ALREADY_TAKEN in message:
            reason = f"another job has just loaded some of these objects into {table.full}"
        else:
            reason = f"another client has just changed {table.full} ({message})"
        raise errors.Overtaken(reason) from error


@contextlib.contextmanager
def _namespace(spark: session.Spark, table: settings.TargetTable) -> Iterator[None]:
    """Create the table's namespace and its parents where they are missing.

    A load that fails drops the namespaces it created; one that is killed leaves them empty.
    """
    catalog = spark.catalog(table.warehouse)
    created: list[Any] = []
    for depth in range(1, len(table.namespace) + 1):
        namespace = spark.namespace(table.namespace[:depth])
        if catalog.namespaceExists(namespace):
            continue
        try:
            catalog.createNamespace(namespace)
        except Exception as error:
            # Another job created it first, so it exists.
            if (session.thrown(error) or ("", ""))[0] != "AlreadyExistsException":
                raise
        else:
            created.append(namespace)
    try:
        yield
    except BaseException:
        for namespace in reversed(created):
            # If another client has put a table there, the server refuses to drop it.
            with contextlib.suppress(Exception):
                catalog.dropNamespace(namespace)
        raise


def _frame(spark: session.Spark, load: Load, s3: Any, fresh: Sequence[sources.Source]) -> Any:
    """Read the sources as one data frame, with the column types that Spark infers.

    CSV files are read together only where their header lines are the same: Spark takes the first
    file's header for all of them, and would put values under the wrong names.
    """
    options = {**READER_OPTIONS[load.format], **load.options}
    groups = (
        sources.by_header(s3, fresh)
        if load.format == "csv" and options["header"].lower() == "true"
        else [fresh]
    )
    columns = _live_columns(spark, load)
    # A Parquet file has types; Spark only infers those of text.
    column_types = {} if load.format == "parquet" else columns
    frames = []
    for group in groups:
        paths = [source.path for source in group]
        frame = spark.session.read.format(load.format).options(**options).load(paths)
        types = _types_to_read(frame.schema, column_types)
        if types != frame.schema:
            reader = spark.session.read.format(load.format).options(**options)
            frame = reader.schema(types).load(paths)
        frames.append(frame)
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    return _spelled(whole, columns)


def _spelled(frame: Any, columns: Iterable[str]) -> Any:
    """Return the frame with the table's own spelling of names that differ only in case.

    To Spark, `ID` and `id` are one name; it could not write a table that has both.
    """
    own = {name.lower(): name for name in columns}
    for name in frame.columns:
        frame = frame.withColumnRenamed(name, own.get(name.lower(), name))
    return frame


def _live_columns(spark: session.Spark, load: Load) -> Mapping[str, Any]:
    """Return the live table's columns as Spark types; none if the table does not exist."""
    catalog, identifier = spark.catalog(load.table.warehouse), spark.identifier(load.table)
    if not catalog.tableExists(identifier):
        return {}
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    schema = catalog.loadTable(identifier).schema()
    converted = spark.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(schema)
    columns = types.StructType.fromJson(json.loads(converted.json()))
    return {column.name: column.dataType for column in columns}


def _types_to_read(inferred: Any, column_types: Mapping[str, Any]) -> Any:
    """Return the types to read the sources with: the table's own where it has the column.

    Otherwise a file with an empty column would read it as text, and a text column's `007` as a
    number. Where the inferred type is wider (long for int), it stays and the table is widened.
    """
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    by_name = {name.lower(): column_type for name, column_type in column_types.items()}

    def wanted(field: Any) -> Any:
        table_type, inferred_type = by_name.get(field.name.lower(), field.dataType), field.dataType
        widens = (
            (
                isinstance(table_type, types.IntegerType)
                and isinstance(inferred_type, types.LongType)
            )
            or (
                isinstance(table_type, types.FloatType)
                and isinstance(inferred_type, types.DoubleType)
            )
            or (
                isinstance(table_type, types.DecimalType)
                and isinstance(inferred_type, types.DecimalType)
            )
        )
        nested = isinstance(table_type, types.StructType | types.ArrayType | types.MapType)
        guessed = isinstance(inferred_type, types.StringType)
        if widens or isinstance(table_type, types.BinaryType) or (nested and not guessed):
            return field
        return types.StructField(field.name, table_type)

    return types.StructType([wanted(field) for field in inferred])


def _clustered(frame: Any, load: Load, table: Any) -> Any:
    """Bring the rows of a partition together, so that one task writes each partition as one file.

    The rows are sorted, so that a task has one file open at a time.
    """
    fields = [field for field in table.spec().fields() if not field.transform().isVoid()]
    if not fields:
        return frame
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    schema = table.schema()
    keys = []
    for field in fields:
        column = _column(frame, str(schema.findColumnName(field.sourceId())))
        if column is None:
            continue
        transform = str(field.transform().toString())
        system = f"`{load.table.warehouse}`.system"
        if transform == "identity":
            keys.append(functions.expr(column))
        elif transform in settings.UNITS:
            keys.append(functions.expr(f"{system}.{transform}s({column})"))
        else:
            function, width = transform.rstrip("]").split("[")
            keys.append(functions.expr(f"{system}.{function}({width}, {column})"))
    return frame.repartition(*keys).sortWithinPartitions(*keys) if keys else frame


def _column(frame: Any, name: str) -> str | None:
    """Return a column's name for Spark SQL, a nested one's with dots; None if it does not exist."""
    if name in frame.columns:
        return f"`{name}`"
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    inside, parts = frame.schema, name.split(".")
    for part in parts:
        if not isinstance(inside, types.StructType) or part not in inside.names:
            return None
        inside = inside[part].dataType
    return ".".join(f"`{part}`" for part in parts)


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
    evolved = table.updateSchema().unionByNameWith(schema).apply()
    added = _names_added(spark, table.schema(), evolved)
    transaction = table.newTransaction()
    if not evolved.sameSchema(table.schema()):
        transaction.updateSchema().unionByNameWith(schema).commit()
    if load.mode == "replace":
        everything = spark.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
        transaction.newDelete().deleteFromRowFilter(everything).commit()
    return transaction, added


def _names_added(spark: session.Spark, before: Any, after: Any) -> tuple[str, ...]:
    """Return the new columns, nested ones with dots, without those inside a new one."""
    by_name = spark.jvm.org.apache.iceberg.types.TypeUtil.indexByName
    names_before = set(by_name(before.asStruct()))
    fresh = sorted(set(by_name(after.asStruct())) - names_before)
    return tuple(name for name in fresh if name.rpartition(".")[0] not in fresh)


def _write(spark: session.Spark, transaction: Any, frame: Any, load_id: str) -> Any:
    """Write the rows as data files of the transaction's table; return them, uncommitted.

    Spark finds the table by load_id in Iceberg's own cache, and leaves the files it wrote with
    Iceberg's coordinator under the same id, as for `rewrite_data_files`.
    """
    cache, written = spark.singleton(TABLE_CACHE), spark.singleton(WRITTEN_FILES)
    table = transaction.table()
    cache.add(load_id, table)
    try:
        writer = frame.write.format("iceberg").mode("append")
        writer.option("fanout-enabled", "false").save(load_id)
        return written.fetchNewFiles(table, load_id)
    finally:
        cache.remove(load_id)
        written.clearRewrite(table, load_id)


def _partition_spec(
    spark: session.Spark, schema: Any, transforms: Sequence[settings.PartitionTransform]
) -> Any:
    builder = spark.jvm.org.apache.iceberg.PartitionSpec.builderFor(schema)
    for transform in transforms:
        if schema.findField(transform.column) is None:
            names = ", ".join(column.name() for column in schema.columns())
            raise errors.BadArgument(
                f"--partition-by names {transform.column!r}, but the columns are: {names}"
            )
        width = () if transform.width is None else (transform.width,)
        with _fitting():
            builder = getattr(builder, transform.name)(transform.column, *width)
    with _fitting():
        return builder.build()


@contextlib.contextmanager
def _fitting() -> Iterator[None]:
    """Raise BadArgument if a transform does not fit its column or another transform."""
    try:
        yield
    except Exception as error:
        java_exception = session.thrown(error)
        if java_exception is None:
            raise
        raise errors.BadArgument(f"--partition-by: {java_exception[1]}") from error


def _check_partitions(
    spark: session.Spark, table: Any, transforms: Sequence[settings.PartitionTransform]
) -> None:
    """Raise BadArgument if the transforms differ from a live table's partitioning."""
    if not transforms:
        return
    wanted = _partition_spec(spark, table.schema(), transforms)
    if not table.spec().compatibleWith(wanted):
        schema = table.schema()
        fields = ", ".join(
            f"{field.transform().toString()}({schema.findColumnName(field.sourceId())})"
            for field in table.spec().fields()
        )
        raise errors.BadArgument(
            f"the table is already partitioned by {fields or 'nothing'}; "
            "leave --partition-by out, or give the same partitioning"
        )
