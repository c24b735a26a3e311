"""engine: raw objects become rows of an Iceberg table, each object exactly once, all or nothing.

One load is one Iceberg transaction: the table's creation or new columns, the rows, and the list of
sources taken in become visible together, or not at all. Spark writes the files against the
transaction's own view of the table, and hands them back uncommitted, as it does when it rewrites
files; they join the transaction, and only if every source still is what was listed, the
transaction is committed. So a job that dies at any moment leaves at most files that nothing names,
and running it again loads exactly what is missing. A load that another job's commit overtakes looks
anew at what is missing, and loads that.
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


# What the catalog client throws when a commit was refused for good and nothing was written.
CONFLICTS = frozenset({"CommitFailedException", "AlreadyExistsException", "ValidationException"})
# What it throws when it cannot tell.
UNANSWERED = frozenset({"CommitStateUnknownException", "RESTException"})
ATTEMPTS_MAX = 3
"""How often a load starts anew because another job's commit came first."""

ALREADY_TAKEN = "already taken in"
TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
WRITTEN_FILES = "org.apache.iceberg.spark.FileRewriteCoordinator"


def run(
    server: settings.Server, load: Load, *, open_spark: session.Open, say: progress.Say
) -> Loaded:
    """Load what the table has not taken in yet. Raises a PipelineError; then nothing changed.

    open_spark: asked only once there is something to load.
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
    """The sources to load, and how many of those that lie there need not be."""

    fresh: Sequence[sources.Source]
    skipped: int


def _wanted(server: settings.Server, load: Load, s3: Any) -> _Wanted:
    """Return what the table lacks. A replacing load takes all, or nothing where it would be vain.

    It is vain only if the table still holds just what a replacing load of these very sources wrote.
    """
    listed = sources.listed(s3, load.place)
    if not listed:
        raise errors.BadArgument(f"nothing to read at s3://{load.place.bucket}/{load.place.prefix}")
    pairs = {(source.place, source.etag) for source in listed}
    if load.mode == "replace":
        is_equal = loads.content(server, load.table, s3) == pairs
        return _Wanted(fresh=() if is_equal else listed, skipped=len(listed) if is_equal else 0)
    known = loads.taken(server, load.table)
    fresh = [source for source in listed if (source.place, source.etag) not in known]
    return _Wanted(fresh=fresh, skipped=len(listed) - len(fresh))


def _nothing(load: Load, wanted: _Wanted, say: progress.Say) -> Loaded:
    say(f"nothing to load: all that lies there is in {load.table.full} already")
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
    """Remove the files that were written for nothing, where it is certain that it was."""
    try:
        yield
    except (errors.SourceChanged, errors.Overtaken):
        for file in files:
            # The sweep finds whatever stays; the job's own reason matters more.
            with contextlib.suppress(Exception):
                transaction.table().io().deleteFile(file.location())
        raise


@contextlib.contextmanager
def _contested(table: settings.Table) -> Iterator[None]:
    """Say in one sentence that another job's commit came first, or that no answer came."""
    try:
        yield
    except Exception as error:
        kind, message = session.thrown(error) or ("", "")
        if kind in UNANSWERED:
            raise errors.OutcomeUnknown(
                f"the answer to the commit was lost, so {table.full} has the rows or has not; "
                "run the same command again, it loads only what is missing"
            ) from error
        if kind not in CONFLICTS:
            raise
        if ALREADY_TAKEN in message:
            reason = f"another job has loaded some of these objects into {table.full} meanwhile"
        else:
            reason = f"{table.full} was changed meanwhile ({message})"
        raise errors.Overtaken(reason) from error


@contextlib.contextmanager
def _namespace(spark: session.Spark, table: settings.Table) -> Iterator[None]:
    """Make the table's namespace where it is missing, with the ones it lies in.

    A load that fails takes away what it made; one that is killed leaves an empty namespace.
    """
    catalog = spark.catalog(table.warehouse)
    made: list[Any] = []
    for depth in range(1, len(table.namespace) + 1):
        namespace = spark.namespace(table.namespace[:depth])
        if catalog.namespaceExists(namespace):
            continue
        try:
            catalog.createNamespace(namespace)
        except Exception as error:
            # Another job was quicker, and it is there: that is what was wanted.
            if (session.thrown(error) or ("", ""))[0] != "AlreadyExistsException":
                raise
        else:
            made.append(namespace)
    try:
        yield
    except BaseException:
        for namespace in reversed(made):
            # Somebody may have put a table there meanwhile; then it stays, as it must.
            with contextlib.suppress(Exception):
                catalog.dropNamespace(namespace)
        raise


def _frame(spark: session.Spark, load: Load, s3: Any, fresh: Sequence[sources.Source]) -> Any:
    """Read the sources as one data frame, with the columns' types found in the data.

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
    # A Parquet file's types are its own; in text they are only guessed.
    known = {} if load.format == "parquet" else columns
    frames = []
    for group in groups:
        paths = [source.path for source in group]
        frame = spark.session.read.format(load.format).options(**options).load(paths)
        types = _types_to_read(frame.schema, known)
        if types != frame.schema:
            reader = spark.session.read.format(load.format).options(**options)
            frame = reader.schema(types).load(paths)
        frames.append(frame)
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    return _spelled(whole, columns)


def _spelled(frame: Any, columns: Iterable[str]) -> Any:
    """Return the frame with the table's own spelling of names that differ in case alone.

    Spark holds `ID` and `id` to be one name; a table with both could not be written any more.
    """
    own = {name.lower(): name for name in columns}
    for name in frame.columns:
        frame = frame.withColumnRenamed(name, own.get(name.lower(), name))
    return frame


def _live_columns(spark: session.Spark, load: Load) -> Mapping[str, Any]:
    """Return the live table's columns as Spark types; none where the table is not there."""
    catalog, identifier = spark.catalog(load.table.warehouse), spark.identifier(load.table)
    if not catalog.tableExists(identifier):
        return {}
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    schema = catalog.loadTable(identifier).schema()
    converted = spark.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(schema)
    columns = types.StructType.fromJson(json.loads(converted.json()))
    return {column.name: column.dataType for column in columns}


def _types_to_read(inferred: Any, known: Mapping[str, Any]) -> Any:
    """Return the types to read the sources with: the table's own, not what a few values look like.

    Else a file whose column is empty would be text, and a text column's `007` a number. Where the
    table can be widened to what was found (int to long), what was found stays.
    """
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    by_name = {name.lower(): kind for name, kind in known.items()}

    def wanted(field: Any) -> Any:
        own, found = by_name.get(field.name.lower(), field.dataType), field.dataType
        widens = (
            (isinstance(own, types.IntegerType) and isinstance(found, types.LongType))
            or (isinstance(own, types.FloatType) and isinstance(found, types.DoubleType))
            or (isinstance(own, types.DecimalType) and isinstance(found, types.DecimalType))
        )
        nested = isinstance(own, types.StructType | types.ArrayType | types.MapType)
        guessed = isinstance(found, types.StringType)
        if widens or isinstance(own, types.BinaryType) or (nested and not guessed):
            return field
        return types.StructField(field.name, own)

    return types.StructType([wanted(field) for field in inferred])


def _clustered(frame: Any, load: Load, table: Any) -> Any:
    """Bring the rows of a partition together, so that each is written by one task as one file.

    In order, so that a task has one file open at a time, however many partitions there are.
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
            kind, width = transform.rstrip("]").split("[")
            keys.append(functions.expr(f"{system}.{kind}({width}, {column})"))
    return frame.repartition(*keys).sortWithinPartitions(*keys) if keys else frame


def _column(frame: Any, name: str) -> str | None:
    """Return a column's name for Spark SQL, a nested one's with dots; None if the data has none."""
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
    """Return the columns that are new, nested ones with dots, without those inside a new one."""
    by_name = spark.jvm.org.apache.iceberg.types.TypeUtil.indexByName
    known = set(by_name(before.asStruct()))
    fresh = sorted(set(by_name(after.asStruct())) - known)
    return tuple(name for name in fresh if name.rpartition(".")[0] not in fresh)


def _write(spark: session.Spark, transaction: Any, frame: Any, load_id: str) -> Any:
    """Write the rows as data files of the transaction's table; return them, uncommitted.

    Spark finds the table by load_id in Iceberg's own cache, and leaves the files it wrote with
    Iceberg's coordinator under the same id: the way of `rewrite_data_files`.
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
    spark: session.Spark, schema: Any, transforms: Sequence[settings.Transform]
) -> Any:
    builder = spark.jvm.org.apache.iceberg.PartitionSpec.builderFor(schema)
    for transform in transforms:
        if schema.findField(transform.column) is None:
            names = ", ".join(column.name() for column in schema.columns())
            raise errors.BadArgument(
                f"--partition-by names {transform.column!r}, but the data has: {names}"
            )
        width = () if transform.width is None else (transform.width,)
        with _fitting():
            builder = getattr(builder, transform.kind)(transform.column, *width)
    with _fitting():
        return builder.build()


@contextlib.contextmanager
def _fitting() -> Iterator[None]:
    """Say as a wrong argument that transforms do not go with their columns or one another."""
    try:
        yield
    except Exception as error:
        refused = session.thrown(error)
        if refused is None:
            raise
        raise errors.BadArgument(f"--partition-by: {refused[1]}") from error


def _check_partitions(
    spark: session.Spark, table: Any, transforms: Sequence[settings.Transform]
) -> None:
    """A live table keeps its partitioning; asking for another one is a mistake worth saying."""
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
            f"the table is partitioned by {fields or 'nothing'} already; "
            "leave --partition-by out, or name the same"
        )
