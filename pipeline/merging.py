"""engine: what a merging load changes: which rows it adds, and which data files it rewrites.

A row of the sources takes the place of the table's row with the same key (upsert), or removes it.
Data files that hold such a row are rewritten without it, so that the load is one overwrite of
Iceberg: it is committed only if no other commit came after the snapshot that was read. In format
version 3 a row of the table keeps its `_row_id`, and one that only moved to another file the number
of the commit that wrote it last, as the Iceberg specification says, Row Lineage.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import errors, frames, jobs, progress, session, settings, shredding, steps

# Columns of this module beside the table's own.
_FILE = "__boathouse_file"
_RANK = "__boathouse_rank"
_TEXT = "__boathouse_text"
_MATCHED = "__boathouse_matched"
_NEWEST = "__boathouse_newest"
_STORED = "__boathouse_stored"
ROW_ID = "_row_id"
WRITTEN_BY = "_last_updated_sequence_number"
"""Iceberg's columns of row lineage."""
# Spark's own JSON has milliseconds, and leaves absent values out.
_WHOLE_TEXT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Basis:
    """The state of a table that a load has read, and that must not have changed at its commit.

    table: the Java table, None where the load creates it. snapshot_id: None for a table without a
    snapshot. rewritten: URIs of the data files that the load replaces.
    """

    table: Any
    snapshot_id: int | None = None
    rewritten: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Merged:
    """What a merge writes. rows: a frame of all rows to write, the rewritten files' among them.

    has_lineage: whether the frame has the columns of row lineage beside the table's. replaced: the
    Java DataFile of each file that is rewritten.
    """

    rows: Any
    has_lineage: bool = False
    replaced: Sequence[Any] = ()
    basis: Basis
    counts: jobs.MergeCounts


def read(spark: session.Spark, target: settings.TargetTable) -> Basis:
    """Return the table as it is; what is read from it afterwards is that old or newer."""
    catalog, identifier = spark.catalog(target.warehouse), spark.identifier(target)
    if not catalog.tableExists(identifier):
        return Basis(table=None)
    table = catalog.loadTable(identifier)
    snapshot = table.currentSnapshot()
    return Basis(table=table, snapshot_id=None if snapshot is None else int(snapshot.snapshotId()))


def check(merge: jobs.Merge, frame: Any) -> None:
    """Raise BadArgument if the sources lack a column that merge names, or it has no fit type."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import types

    column_types = {field.name.lower(): field.dataType for field in frame.schema}
    for option, name in merge.named:
        column_type = column_types.get(name.lower())
        if column_type is None:
            raise errors.no_column(option, name, frame.columns)
        if option == "--delete-flag":
            if not isinstance(column_type, types.BooleanType | types.NumericType):
                raise errors.no_flag(name, column_type.simpleString())
        elif isinstance(column_type, types.StructType | types.ArrayType | types.MapType):
            raise errors.no_plain_column(option, name)


def stored_columns(merge: jobs.Merge, frame: Any, live: Iterable[str]) -> Any:
    """Return the frame with the columns that the table stores. live: as for `jobs.Merge.stored`."""
    return frame.select(*map(_column, merge.stored(frame.columns, live)))


@contextlib.contextmanager
def merged(
    spark: session.Spark,
    target: settings.TargetTable,
    merge: jobs.Merge,
    frame: Any,
    *,
    what: str,
    size_bytes: int | None,
    taken: steps.Steps,
) -> Iterator[Merged]:
    """Work out a merge of the frame's rows. Its result is valid inside the block.

    what: what is read, as it is shown. size_bytes: of all that is read for the rows, None where
    that is not known. taken: gains the steps.
    Raises BadArgument for columns that do not fit, BadSource for keys that are NULL or, without an
    order, for two different rows with one key.
    """
    check(merge, frame)
    held = [frame.persist()]
    try:
        with taken.taking("read") as counted:
            counting = spark.counting(is_writing=False, is_first_stage_alone=True)
            with progress.watching(f"reading {what}", counting, total_bytes=size_bytes):
                counted.rows, nulls = _counted(merge, held[0])
            counted.size_bytes = size_bytes
        with taken.taking("merge"):
            counting = spark.counting(is_writing=False)
            with progress.watching(f"comparing rows with {target.full}", counting):
                has_repeats = _check_keys(merge, held[0], nulls)
                result = _worked_out(spark, target, merge, held, has_repeats=has_repeats)
                result = dataclasses.replace(result, replaced=_data_files(result.basis))
        yield result
    finally:
        for each in held:
            with contextlib.suppress(Exception):
                each.unpersist()


def _worked_out(
    spark: session.Spark,
    target: settings.TargetTable,
    merge: jobs.Merge,
    held: list[Any],
    *,
    has_repeats: bool,
) -> Merged:
    """Return the merge of the frame that is held. held: gains what the result reads.

    has_repeats: whether several of its rows have one key.
    """
    newest = _newest(merge, held[0]) if has_repeats else held[0]
    # Before the rows are read: a commit in between is a conflict, not a lost change.
    basis = read(spark, target)
    _check_types(spark, merge, held[0], basis)
    if basis.snapshot_id is None:
        held.append(newest.persist())
        return _all_new(merge, held[-1], basis)
    if spark.remote is not None and _has_lineage(spark, basis):
        raise errors.BadArgument(
            f"--mode merge into {target.full}, a table of format version 3, keeps the ids of "
            f"rows, which cannot be written at {spark.remote.address}; name another --master"
        )
    options = shredding.read_options(str(basis.table.schema().toString()))
    stored = spark.session.read.options(**options).table(target.quoted)
    lineage = (ROW_ID, WRITTEN_BY) if _has_lineage(spark, basis) else ()
    applied = _applied(merge, in_order(newest, stored), stored, lineage)
    held.append(applied.persist())
    return _rewriting(merge, held[-1], stored, basis, lineage)


def _data_files(basis: Basis) -> list[Any]:
    """Return the Java DataFile of each file that a load rewrites. Raises Overtaken."""
    if not basis.rewritten:
        return []
    files: list[Any] = []
    tasks = basis.table.newScan().useSnapshot(basis.snapshot_id).planFiles()
    try:
        iterator = tasks.iterator()
        while iterator.hasNext() and len(files) < len(basis.rewritten):
            file = iterator.next().file()
            if str(file.location()) in basis.rewritten:
                files.append(file)
    finally:
        tasks.close()
    if len(files) < len(basis.rewritten):
        raise errors.Overtaken("another client has just changed the table")
    return files


def rows_written_max(merged: Merged) -> int:
    """Return how many rows a merge writes at most; fewer where delete files apply to the files.

    A changed row takes the place of one.
    """
    kept = sum(int(file.recordCount()) for file in merged.replaced) - merged.counts.deleted
    return kept + merged.counts.inserted


def without_lineage(frame: Any) -> Any:
    """Return a frame without the columns of row lineage."""
    return frame.drop(ROW_ID, WRITTEN_BY)


def _has_lineage(spark: session.Spark, basis: Basis) -> bool:
    """Return whether a table's rows have ids."""
    return bool(spark.jvm.org.apache.iceberg.TableUtil.supportsRowLineage(basis.table))


def without_files(stored: Any, files: frozenset[str]) -> Any:
    """Return a table's rows without those of some data files. stored: the table's frame."""
    if not files:
        return stored
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    spark = stored.sparkSession
    gone = spark.createDataFrame([(file,) for file in sorted(files)], f"{_FILE} string")
    return (
        stored.select("*", _column("_file").alias(_FILE))
        .join(functions.broadcast(gone), [_FILE], "left_anti")
        .drop(_FILE)
    )


def in_order(frame: Any, stored: Any) -> Any:
    """Return the frame with the fields inside its maps in the order of a table's frame.

    A union of two frames compares the fields inside maps by position, all others by name.
    """
    wanted = {field.name.lower(): field.dataType for field in stored.schema}
    for field in frame.schema:
        table_type = wanted.get(field.name.lower())
        if table_type is not None and "map<" in field.dataType.simpleString():
            column = _in_order(_column(field.name), field.dataType, table_type)
            frame = frame.withColumn(field.name, column)
    return frame


def _in_order(column: Any, own: Any, wanted: Any) -> Any:
    """Return a column of type `own` with its fields in the order of the type `wanted`."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions, types

    if own.simpleString() == wanted.simpleString():
        return column
    if isinstance(own, types.ArrayType) and isinstance(wanted, types.ArrayType):
        return functions.transform(
            column, lambda each: _in_order(each, own.elementType, wanted.elementType)
        )
    if isinstance(own, types.MapType) and isinstance(wanted, types.MapType):
        return functions.transform_values(
            column, lambda _, value: _in_order(value, own.valueType, wanted.valueType)
        )
    if isinstance(own, types.StructType) and isinstance(wanted, types.StructType):
        fields = [
            _in_order(column.getField(field.name), own[field.name].dataType, field.dataType)
            if field.name in own.names
            else functions.lit(None).cast(field.dataType)
            for field in wanted
        ]
        fields = [each.alias(field.name) for each, field in zip(fields, wanted, strict=True)]
        fields += [
            column.getField(name).alias(name) for name in own.names if name not in wanted.names
        ]
        return functions.when(column.isNotNull(), functions.struct(*fields))
    return column


def _check_types(spark: session.Spark, merge: jobs.Merge, frame: Any, basis: Basis) -> None:
    """Raise BadSource for a column whose type does not fit the table's.

    Spark would compare text with numbers, and so find `01` equal to 1.
    """
    if basis.table is None:
        return
    stored = stored_columns(merge, frame, _names(basis.table))
    schema = frames.iceberg_schema(spark, stored, basis.table)
    try:
        basis.table.updateSchema().unionByNameWith(schema).apply()
    except Exception as error:
        if session.thrown(error) is None:
            raise
        raise errors.BadSource(
            f"the rows do not fit the table: {session.reason(error)}; nothing was loaded"
        ) from error


def _names(table: Any) -> list[str]:
    """Return the names of a Java table's columns."""
    return [str(column.name()) for column in session.each(table.schema().columns())]


def _counted(merge: jobs.Merge, frame: Any) -> tuple[int, int]:
    """Return how many rows a frame has, and how many of them lack a value in the key."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    is_null = functions.lit(False)
    for name in merge.key:
        is_null = is_null | _column(name).isNull()
    everything = functions.count(functions.lit(1))
    counts = frame.agg(everything, functions.count_if(is_null)).collect()[0]
    return int(counts[0]), int(counts[1])


def _check_keys(merge: jobs.Merge, frame: Any, nulls: int) -> bool:
    """Raise BadSource for keys without a value, and for different rows with one key.

    nulls: rows that lack a value in the key. Returns whether several rows have one key: only then
    must rows be compared as text.
    """
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    if nulls:
        raise errors.keys_absent(progress.counted(nulls, "row"), merge.key)
    by_key = frame.groupBy(*(_column(name) for name in merge.key)).agg(
        functions.count(functions.lit(1)).alias(_RANK)
    )
    if by_key.filter(_column(_RANK) > 1).first() is None:
        return False
    if merge.order_by:
        return True
    repeated = (
        frame.select(*(_column(name) for name in merge.key), _text_of_row(frame).alias(_TEXT))
        .groupBy(*(_column(name) for name in merge.key))
        .agg(functions.count_distinct(_column(_TEXT)).alias(_RANK))
        .filter(_column(_RANK) > 1)
        .first()
    )
    if repeated is not None:
        key = ", ".join(f"{name} = {repeated[name]}" for name in merge.key)
        raise errors.key_repeated(repeated[_RANK], key)
    return True


def _newest(merge: jobs.Merge, frame: Any) -> Any:
    """Return the row of each key that is the last by the order; equals by their whole text."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions, window

    order = [_column(merge.order_by).desc_nulls_last()] if merge.order_by else []
    over = window.Window.partitionBy(*(_column(name) for name in merge.key)).orderBy(
        *order, _text_of_row(frame).desc()
    )
    ranked = frame.withColumn(_RANK, functions.row_number().over(over))
    return ranked.filter(_column(_RANK) == 1).drop(_RANK)


def _text_of_row(frame: Any) -> Any:
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    return functions.to_json(
        functions.struct(*(_column(name) for name in frame.columns)), _WHOLE_TEXT
    )


def _all_new(merge: jobs.Merge, newest: Any, basis: Basis) -> Merged:
    live = [] if basis.table is None else _names(basis.table)
    rows = stored_columns(merge, newest.filter(~_is_deleted(merge)), live)
    counts = jobs.MergeCounts(inserted=rows.count(), updated=0, deleted=0)
    return Merged(rows=rows, basis=basis, counts=counts)


def _applied(merge: jobs.Merge, newest: Any, table: Any, lineage: Sequence[str]) -> Any:
    """Return the source rows that change the table, with what the table has for their keys.

    lineage: the columns of row lineage that the table's frame has.

    A row that is older than the table's own, by the order, changes nothing.
    """
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    names = {name.lower() for name in newest.columns}
    kept = [name for name in table.columns if name.lower() not in names]
    is_ordered = merge.order_by is not None and merge.order_by.lower() in {
        name.lower() for name in table.columns
    }
    order = _column(merge.order_by or "") if is_ordered else functions.lit(None)
    wanted = newest.select(*(_column(name) for name in merge.key))
    stored = (
        table.select("*", _column("_file").alias(_FILE), *(_column(name) for name in lineage))
        .join(wanted, list(merge.key), "left_semi")
        .groupBy(*(_column(name) for name in merge.key))
        .agg(
            functions.count(functions.lit(1)).alias(_MATCHED),
            functions.collect_set(_column(_FILE)).alias(_FILE),
            functions.max(order).alias(_NEWEST),
            functions.first(
                functions.struct(
                    functions.lit(1).alias(_RANK),
                    *(_column(name) for name in (*kept, *lineage[:1])),
                )
            ).alias(_STORED),
        )
    )
    both = newest.join(stored, list(merge.key), "left")
    if is_ordered:
        both = both.filter(
            _column(_NEWEST).isNull() | (_column(merge.order_by or "") >= _column(_NEWEST))
        )
    return both


def _rewriting(
    merge: jobs.Merge, applied: Any, stored: Any, basis: Basis, lineage: Sequence[str]
) -> Merged:
    """Return the merge of rows into a table. stored: its frame. lineage: as for `_applied`."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    is_deleted, is_matched = _is_deleted(merge), _column(_MATCHED).isNotNull()
    count = functions.coalesce(
        functions.sum(functions.when(~is_deleted & ~is_matched, 1)), functions.lit(0)
    )
    updated = functions.coalesce(
        functions.sum(functions.when(~is_deleted & is_matched, 1)), functions.lit(0)
    )
    deleted = functions.coalesce(
        functions.sum(functions.when(is_deleted & is_matched, _column(_MATCHED))), functions.lit(0)
    )
    totals = applied.agg(count, updated, deleted).collect()[0]
    files = applied.filter(is_matched).select(functions.explode(_FILE).alias(_FILE)).distinct()
    rewritten = frozenset(str(row[0]) for row in files.collect())
    added = applied.filter(~is_deleted)
    for name in stored.columns:
        # A column that the sources do not have keeps its value.
        if name.lower() not in {present.lower() for present in applied.columns}:
            added = added.withColumn(name, functions.col(_STORED).getField(name))
    if lineage:
        # A new row's id, and the number of this commit, follow from the commit.
        added = added.withColumn(ROW_ID, functions.col(_STORED).getField(ROW_ID))
        added = added.withColumn(WRITTEN_BY, functions.lit(None).cast("bigint"))
    added = stored_columns(merge, added, stored.columns).drop(_MATCHED, _FILE, _NEWEST, _STORED)
    rows = added
    if rewritten:
        unchanged = (
            stored.select("*", _column("_file").alias(_FILE), *(_column(name) for name in lineage))
            .join(functions.broadcast(files), [_FILE], "left_semi")
            .join(
                applied.select(*(_column(name) for name in merge.key)), list(merge.key), "left_anti"
            )
            .drop(_FILE)
        )
        rows = unchanged.unionByName(added, allowMissingColumns=True)
    return Merged(
        rows=rows,
        has_lineage=bool(lineage),
        basis=dataclasses.replace(basis, rewritten=rewritten),
        counts=jobs.MergeCounts(
            inserted=int(totals[0]), updated=int(totals[1]), deleted=int(totals[2])
        ),
    )


def _is_deleted(merge: jobs.Merge) -> Any:
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    if merge.delete_flag is None:
        return functions.lit(False)
    flag = _column(merge.delete_flag).cast("boolean")
    return functions.coalesce(flag, functions.lit(False))


def _column(name: str) -> Any:
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")
