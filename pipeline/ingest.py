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
import dataclasses
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pipeline import (
    arrow,
    catalogs,
    errors,
    fetching,
    frames,
    jobs,
    loads,
    merging,
    progress,
    queries,
    rejects,
    relations,
    retries,
    session,
    settings,
    sources,
    staging,
    steps,
    topics,
)

# What the catalog client throws when the server refused a commit and wrote nothing.
EXISTS = "AlreadyExistsException"
CONFLICTS = frozenset({"CommitFailedException", EXISTS, "ValidationException"})
# What it throws when the outcome is unknown.
UNANSWERED = frozenset({"CommitStateUnknownException", "RESTException"})
ATTEMPTS_MAX = 3
"""How often a load starts again because another job committed first."""

TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"
WRITTEN_FILES = "org.apache.iceberg.spark.FileRewriteCoordinator"


def run(
    server: settings.ServerEndpoint,
    load: jobs.Load,
    *,
    open_spark: session.Open,
    say: progress.Say,
    only: Sequence[sources.Source] | None = None,
    taken: steps.Steps | None = None,
) -> jobs.Loaded:
    """Load the sources that the table does not have yet. Raises PipelineError if nothing changed.

    open_spark: called only if there is something to load. only: load no other than these, which
    the load's places listed. taken: gains the steps of the load.
    """
    taken = taken or steps.Steps(say)
    s3 = sources.client(server)
    with _chosen(server, load, s3, only) as still_wanted:
        with taken.taking("list sources") as counts:
            wanted = still_wanted()
            counts.size_bytes = wanted.size_bytes
        if not wanted.fresh:
            return _nothing(load, wanted, say)
        with _for_spark(load, say) as by_arrow:
            if by_arrow:
                return _tried(
                    still_wanted, load, wanted, say,
                    lambda wanted: arrow.run(server, load, s3, wanted, say=say, taken=taken),
                )  # fmt: skip
        with contextlib.ExitStack() as block:
            with taken.taking("start Spark"):
                spark = block.enter_context(open_spark(load.table.warehouse))
            block.enter_context(relations.explained(load))
            block.enter_context(session.failures())
            return _tried(
                still_wanted, load, wanted, say,
                lambda wanted: _load(spark, server, load, s3, wanted, say, taken),
            )  # fmt: skip


def plan(
    server: settings.ServerEndpoint, load: jobs.Load, *, open_spark: session.Open, say: progress.Say
) -> jobs.LoadPlan | None:
    """Return what `run` would do, without writing anything; None if there is nothing to load.

    Raises PipelineError as `run` does, where the sources, the table or the options are the reason.
    """
    s3 = sources.client(server)
    with _chosen(server, load, s3) as still_wanted:
        wanted = still_wanted()
        if not wanted.fresh:
            return None
        with _for_spark(load, say) as by_arrow:
            if by_arrow:
                return arrow.plan(server, load, s3, wanted)
        with (
            open_spark(load.table.warehouse) as spark,
            relations.explained(load),
            session.failures(),
        ):
            return _plan(spark, server, load, s3, wanted)


@contextlib.contextmanager
def _for_spark(load: jobs.Load, say: progress.Say) -> Iterator[bool]:
    """Yield whether Arrow is to be tried. A block that raises NotForArrow leaves the load to Spark.

    Raises BadArgument instead where the load asks for Arrow.
    """
    try:
        yield load.engine != "spark"
    except errors.NotForArrow as reason:
        if load.engine == "arrow":
            raise errors.BadArgument(
                f"--engine arrow does not load {reason} as Spark does; leave --engine out"
            ) from reason
        if load.relation is None:
            say(f"Spark loads this, because of {reason}")


def _tried(
    still_wanted: Callable[[], sources.WantedSources],
    load: jobs.Load,
    wanted: sources.WantedSources,
    say: progress.Say,
    attempt: Callable[[sources.WantedSources], jobs.Loaded],
) -> jobs.Loaded:
    """Load what is wanted; where another job commits first, what is still missing then."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return attempt(wanted)
        except errors.Overtaken as error:
            say(f"{error.reason}; trying again")
        wanted = still_wanted()
        if not wanted.fresh:
            return _nothing(load, wanted, say)
    return attempt(wanted)


@contextlib.contextmanager
def _chosen(
    server: settings.ServerEndpoint,
    load: jobs.Load,
    s3: Any,
    only: Sequence[sources.Source] | None = None,
) -> Iterator[Callable[[], sources.WantedSources]]:
    """Yield the function that chooses the sources to load, without rows that are rejected."""
    with (
        topics.opened(server, load, s3) as topic,
        rejects.splitting_of(server, load, s3) as split,
    ):
        if topic is None:
            yield lambda: split(_wanted(server, load, s3, only))
        else:
            yield lambda: topic.located(split(topic.wanted()))


def _wanted(
    server: settings.ServerEndpoint,
    load: jobs.Load,
    s3: Any,
    only: Sequence[sources.Source] | None = None,
) -> sources.WantedSources:
    """Return the sources to load. A replacing load takes all, or none if the table has just these.

    The table has them if a replacing load of these very sources wrote its current content.
    """
    if load.relation is not None:
        return relations.wanted(server, load, s3)
    listed = sources.listed_at(s3, load.places) if only is None else only
    if not listed:
        raise errors.BadArgument("no objects at " + ", ".join(map(str, load.places)))
    sources.check_names(listed, load.places, load.reader.format)
    pairs = {(source.place, source.etag) for source in listed}
    if load.mode == "replace":
        pairs |= set(loads.of_transforms(load))
        is_equal = loads.content(server, load.table, s3) == pairs
        return sources.WantedSources(
            fresh=() if is_equal else listed, skipped=len(listed) if is_equal else 0
        )
    taken = loads.taken(server, load.table)
    fresh = [source for source in listed if (source.place, source.etag) not in taken]
    return sources.WantedSources(fresh=fresh, skipped=len(listed) - len(fresh))


def _nothing(load: jobs.Load, wanted: sources.WantedSources, say: progress.Say) -> jobs.Loaded:
    has = f"all of these {load.noun}s"
    if isinstance(load.relation, settings.KafkaSource):
        has = f"the records of {load.relation}"
    say(f"nothing to load: {load.table.full} has {has} already")
    return jobs.Loaded(
        rows=0, sources=0, skipped=wanted.skipped, files=0, columns_added=(), snapshot_id=None
    )


def _load(
    spark: session.Spark,
    server: settings.ServerEndpoint,
    load: jobs.Load,
    s3: Any,
    wanted: sources.WantedSources,
    say: progress.Say,
    taken: steps.Steps,
) -> jobs.Loaded:
    """Load the wanted sources in one transaction. Raises as `run` does, and Overtaken."""
    with taken.taking("open table"):
        wanted = relations.resolved(spark, load, wanted)
        columns = frames.live_columns(spark, load.table)
    if not wanted.fresh:
        return _nothing(load, wanted, say)
    fresh = wanted.fresh
    if wanted.remark:
        say(wanted.remark)
    say(wanted.sentence)
    load_id = uuid.uuid4().hex
    applied = load
    if wanted.is_empty:  # it has no columns, which transforms and a merge read
        applied = dataclasses.replace(load, transforms=(), merge=None)
    with contextlib.ExitStack() as whole:
        with taken.taking("inspect"):
            whole.enter_context(_namespace(spark, load.table))
            # Columns of a transform's sources are not those of the table.
            read_as = {} if load.transforms else columns
            block = whole.enter_context(contextlib.ExitStack())
            readable: Sequence[sources.Source] = ()
            if wanted.rows is not None:
                frame = block.enter_context(relations.frame(spark, server, load, wanted.rows))
            else:
                readable = block.enter_context(fetching.fetched(spark, s3, load, wanted.readable))
                frame = _frame_of_files(spark, load, s3, readable, read_as)
        with block:
            frame = block.enter_context(queries.transformed(spark, applied, frame, taken))
            frame = frames.spelled(frame, {name.lower(): name for name in columns})
            counts, with_lineage = None, False
            what = progress.counted(len(fresh), load.noun)
            # Transforms, and rows of a table, read other files than those of the sources.
            is_of_sources = wanted.rows is None and not applied.transforms
            total_bytes = wanted.size_bytes if is_of_sources else None
            total_rows: int | None = None
            replaced: Sequence[Any] = ()
            if applied.merge is None:
                basis = merging.read(spark, load.table)
                if load.merge is not None:
                    counts = jobs.MergeCounts(inserted=0, updated=0, deleted=0)
            else:
                with frames.located(s3, load.reader, readable):
                    merged = block.enter_context(
                        merging.merged(
                            spark, load.table, applied.merge, frame,
                            what=what, size_bytes=total_bytes, taken=taken,
                        )
                    )  # fmt: skip
                frame, basis, counts = merged.rows, merged.basis, merged.counts
                with_lineage = merged.has_lineage
                replaced, total_rows = merged.replaced, merging.rows_written_max(merged)
                total_bytes = None
            if load.checks:  # the rows that are checked are those that are written
                frame = frame.persist()
                block.callback(frame.unpersist)
            written_rows = frame
            if with_lineage:
                frame = merging.without_lineage(frame)
            with taken.taking("write") as counted:
                relations.check_record(server, load, wanted)
                transaction, added = _transaction(spark, load, frame, basis)
                with (
                    progress.watching(
                        f"writing {what}",
                        spark.counting(),
                        total_bytes=total_bytes,
                        total_rows=total_rows,
                    ),
                    frames.located(s3, load.reader, readable),
                ):
                    clustered = _clustered(written_rows, load, transaction.table())
                    files = _write(spark, transaction, clustered, load_id)
                written = [(int(file.recordCount()), int(file.fileSizeInBytes())) for file in files]
                counted.rows = sum(rows for rows, _ in written)
                counted.size_bytes = sum(size_bytes for _, size_bytes in written)
            with _given_back(transaction, files):
                checks = queries.checked(spark, load, frame, basis, say=say, taken=taken)
        with _given_back(transaction, files), taken.taking("commit"):
            is_live = load.mode != "replace" and basis.table is not None
            is_checked = is_live and (bool(load.checks) or wanted.chain is not None)
            if is_live and applied.merge is not None:
                change = _overwrite(spark, transaction, basis, replaced, files)
            else:
                change = _append(transaction, files)
            summary = loads.summary(s3, fresh, load, load_id=load_id, claims=wanted.claims)
            for name, value in summary.items():
                change.set(name, value)
            # The transaction may have opened after another client's commit.
            with _contested(load.table):
                change.commit()
            catalog = (
                catalogs.opened(server, load.table.warehouse)
                if wanted.cleaned is not None
                else None
            )
            others = rejects.changes(catalog, load, wanted) if catalog is not None else ()
            moved = sources.changed(s3, load.places, fresh) if load.relation is None else ()
            if moved:
                raise errors.source_changed(moved[0].place)
            snapshot = transaction.table().currentSnapshot()
            say(f"committing {progress.counted(len(files), 'file')}")
            properties = session.strings(transaction.table().properties())
            with (
                retries.bounded(spark, load.table, properties, commits_here=True),
                _contested(load.table),
            ):
                if is_checked:
                    _check_unchanged(basis)
                if others:
                    opened = None if basis.table is None else basis.table.operations().current()
                    own = rejects.java_change(spark.jvm, load, transaction, opened)
                    catalogs.commit(catalog, (own, *others))
                elif is_checked:
                    _commit_once(transaction, basis)
                else:
                    transaction.commitTransaction()
        summary = session.strings(snapshot.summary())
        return jobs.Loaded(
            rows=int(summary.get("added-records", 0))
            if counts is None
            else counts.inserted + counts.updated,
            sources=len(fresh),
            skipped=wanted.skipped,
            files=int(summary.get("added-data-files", 0)),
            columns_added=added,
            snapshot_id=int(snapshot.snapshotId()),
            engine="spark",
            merged=counts,
            checks=checks,
            rejected=len(wanted.rejected),
            bytes_read=wanted.size_bytes,
            bytes_written=int(summary.get("added-files-size", 0)),
            steps=taken.done,
        )


def _append(transaction: Any, files: Any) -> Any:
    append = transaction.newAppend()
    for file in files:
        append.appendFile(file)
    return append


def _check_unchanged(basis: merging.Basis) -> None:
    """Raise Overtaken if a commit came between the basis and the transaction's beginning."""
    # The transaction has refreshed the table once, when it opened.
    snapshot = basis.table.operations().current().currentSnapshot()
    if (None if snapshot is None else int(snapshot.snapshotId())) != basis.snapshot_id:
        raise errors.Overtaken("another client has just changed the table")


def _commit_once(transaction: Any, basis: merging.Basis) -> None:
    """Commit a transaction of the basis's table, once, if nothing was committed since it opened.

    `commitTransaction` would apply it to what another client has committed, unchecked.
    """
    operations = basis.table.operations()
    operations.commit(operations.current(), transaction.table().operations().current())


def _overwrite(
    spark: session.Spark,
    transaction: Any,
    basis: merging.Basis,
    replaced: Sequence[Any],
    files: Any,
) -> Any:
    """Return an overwrite that fails if a commit followed the snapshot that the load has read.

    replaced: the Java DataFile of each file that goes.
    """
    overwrite = transaction.newOverwrite()
    for file in replaced:
        overwrite.deleteFile(file)
    for file in files:
        overwrite.addFile(file)
    everything = spark.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
    if basis.snapshot_id is not None:
        overwrite.validateFromSnapshot(basis.snapshot_id)
    overwrite.conflictDetectionFilter(everything)
    return overwrite.validateNoConflictingData().validateNoConflictingDeletes()


def _plan(
    spark: session.Spark,
    server: settings.ServerEndpoint,
    load: jobs.Load,
    s3: Any,
    wanted: sources.WantedSources,
) -> jobs.LoadPlan | None:
    wanted = relations.resolved(spark, load, wanted)
    if not wanted.fresh:
        return None
    if wanted.rows is not None:
        with relations.frame(spark, server, load, wanted.rows) as frame:
            return _planned(spark, load, s3, wanted, frame)
    # Columns of a transform's sources are not those of the table.
    columns = {} if load.transforms else frames.live_columns(spark, load.table)
    with fetching.fetched(spark, s3, load, wanted.readable) as readable:
        frame = _frame_of_files(spark, load, s3, readable, columns)
        return _planned(spark, load, s3, wanted, frame)


def _frame_of_files(
    spark: session.Spark,
    load: jobs.Load,
    s3: Any,
    readable: Sequence[sources.Source],
    columns: Mapping[str, Any],
) -> Any:
    """Return the rows of a load's files. columns: of the live table, as Spark types."""
    if not readable:
        return frames.without_rows(spark, load)
    return frames.read(spark, s3, load.reader, readable, columns, load.types)


def _planned(
    spark: session.Spark, load: jobs.Load, s3: Any, wanted: sources.WantedSources, frame: Any
) -> jobs.LoadPlan:
    """Return the plan of a load of these rows."""
    selects = dataclasses.replace(
        load, transforms=() if wanted.is_empty else load.transforms, checks=()
    )
    unseen = steps.Steps(lambda line: None)
    with queries.transformed(spark, selects, frame, unseen) as transformed:
        return _planned_rows(spark, load, s3, wanted, transformed)


def _planned_rows(
    spark: session.Spark, load: jobs.Load, s3: Any, wanted: sources.WantedSources, frame: Any
) -> jobs.LoadPlan:
    """Return the plan of a load of rows that no transform changes further."""
    columns = frames.live_columns(spark, load.table)
    frame = frames.spelled(frame, {name.lower(): name for name in columns})
    if load.merge is not None and not wanted.is_empty:
        merging.check(load.merge, frame)
        frame = merging.stored_columns(load.merge, frame, columns)
    catalog = spark.catalog(load.table.warehouse)
    identifier = spark.identifier(load.table)
    before = None
    if catalog.tableExists(identifier):
        table = catalog.loadTable(identifier)
        _check_partitions(spark, table, load.partitions)
        before, spec = _types(table.schema()), table.spec()
        schema = frames.iceberg_schema(spark, frame, table)
        schema = table.updateSchema().unionByNameWith(schema).apply()
    else:
        schema = frames.iceberg_schema(spark, frame, None)
        spec = _partition_spec(spark, schema, load.partitions)
    with frames.located(s3, load.reader, wanted.readable):
        first_rows = frame.limit(jobs.ROWS_SHOWN_MAX).collect()
    return jobs.LoadPlan(
        engine="spark",
        creates_table=before is None,
        mode=load.mode,
        sources=len(wanted.fresh),
        skipped=wanted.skipped,
        size_bytes=sum(source.size_bytes for source in wanted.fresh),
        rows=None,
        columns=jobs.planned_columns(before, _types(schema)),
        partitions=tuple(
            f"{field.transform().toString()}({schema.findColumnName(field.sourceId())})"
            for field in session.each(spec.fields())
        ),
        first_rows=tuple(row.asDict(recursive=True) for row in first_rows),
        rejected=len(wanted.rejected),
    )


def _types(schema: Any) -> dict[str, str]:
    return {
        str(column.name()): str(column.type().toString())
        for column in session.each(schema.columns())
    }


@contextlib.contextmanager
def _given_back(transaction: Any, files: Any) -> Iterator[None]:
    """Delete the data files if the load certainly failed."""
    try:
        yield
    except (errors.SourceChanged, errors.Overtaken, errors.CheckFailed, errors.BadArgument):
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
            raise errors.outcome_unknown(table.full) from error
        if java_class not in CONFLICTS:
            raise
        is_taken = loads.ALREADY_TAKEN in message
        raise errors.overtaken(table.full, message, is_taken=is_taken) from error


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
            if (session.thrown(error) or ("", ""))[0] != EXISTS:
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


def _clustered(frame: Any, load: jobs.Load, table: Any) -> Any:
    """Bring the rows of a partition together, so that one task writes each partition as one file.

    The rows are sorted, so that a task has one file open at a time.
    """
    fields = [
        field for field in session.each(table.spec().fields()) if not field.transform().isVoid()
    ]
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


def _transaction(
    spark: session.Spark, load: jobs.Load, frame: Any, basis: merging.Basis
) -> tuple[Any, tuple[str, ...]]:
    """Open the transaction: a new table's creation, or the new columns of the basis's table.

    Raises Overtaken if another job has just created the table, BadArgument if its name is a view's.
    """
    table = basis.table
    schema = frames.iceberg_schema(spark, frame, table)
    if table is None:
        catalog = spark.catalog(load.table.warehouse)
        identifier = spark.identifier(load.table)
        builder = catalog.buildTable(identifier, schema)
        spec = _partition_spec(spark, schema, load.partitions)
        try:
            return builder.withPartitionSpec(spec).createTransaction(), ()
        except Exception as error:
            if (session.thrown(error) or ("", ""))[0] != EXISTS:
                raise
            if not catalog.tableExists(identifier):
                raise errors.target_is_view(load.table.full) from error
            raise errors.Overtaken(f"another job has just created {load.table.full}") from error
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
    names = (session.each(by_name(each.asStruct()).keySet()) for each in (before, after))
    return jobs.names_added(*names)


def _write(spark: session.Spark, transaction: Any, frame: Any, load_id: str) -> list[Any]:
    """Write the rows as data files of the transaction's table; return them, uncommitted.

    Spark finds the table by load_id in Iceberg's own cache, and leaves the files it wrote with
    Iceberg's coordinator under the same id, as for `rewrite_data_files`. That of a Spark Connect
    server is in another process: see `staging`.
    """
    if spark.remote is not None:
        return staging.write(spark, spark.remote.endpoint, transaction, frame, load_id)
    cache, written = spark.singleton(TABLE_CACHE), spark.singleton(WRITTEN_FILES)
    table = transaction.table()
    cache.add(load_id, table)
    try:
        writer = frame.write.format("iceberg").mode("append")
        writer.option("fanout-enabled", "false").save(load_id)
        return list(session.each(written.fetchNewFiles(table, load_id)))
    finally:
        cache.remove(load_id)
        written.clearRewrite(table, load_id)


def _partition_spec(
    spark: session.Spark, schema: Any, transforms: Sequence[settings.PartitionTransform]
) -> Any:
    builder = spark.jvm.org.apache.iceberg.PartitionSpec.builderFor(schema)
    for transform in transforms:
        if schema.findField(transform.column) is None:
            names = [str(column.name()) for column in session.each(schema.columns())]
            raise errors.no_partition_column(transform.column, names)
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
        raise errors.other_partitions(
            f"{field.transform().toString()}({schema.findColumnName(field.sourceId())})"
            for field in session.each(table.spec().fields())
        )
