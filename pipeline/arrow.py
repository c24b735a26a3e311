"""engine: loads small sources with PyArrow and PyIceberg, without a JVM.

The reader's options, the classes of values and the types that follow from them are those of
`reading`, as for Spark; so is the record of loaded sources. What Arrow would not read or write just
as Spark does raises NotForArrow: the load goes to Spark. Nearly always nothing has been written by
then; files of the load that have been are deleted.

As with Spark, a load is one transaction: the table's creation or new columns, the rows and the
list of sources are committed together, if every source still has the ETag that was listed.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import io
import itertools
import json
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import (
    arrowmerging,
    catalogs,
    errors,
    inspection,
    jobs,
    loads,
    parquetfiles,
    progress,
    reading,
    rejects,
    relations,
    retries,
    settings,
    sources,
    steps,
    textcolumns,
)

SOURCE_BYTES_MAX = 32 * 1024 * 1024
"""Larger loads go to Spark: CSV of this size takes about 550 MB of memory here."""
PACKED_FACTOR = 6
"""How much larger text is taken to be than its packed file, when the size decides."""
UNPACKED_BYTES_MAX = 64 * 1024 * 1024
"""The unpacked bytes of all sources of one load; text takes up to 20 times as much in memory."""
FOR_SPARK_ALONE = frozenset({"orc", "avro"})
SOURCES_MAX = 200
"""Sources are read one after another here, by Spark side by side."""
WRITERS = 8
"""Data files that are written at once."""
PARTITIONS_MAX = 200
"""Each partition of a load is one file."""
LONG_MAX = 2**63 - 1
LONG_DIGITS_MAX = 19
REASON_MAX = 200
OWN_PROPERTIES = frozenset({"write.parquet.compression-codec", "write.format.default"})
SIZES = {"bucket": "bucket[{}]", "truncate": "truncate[{}]"}
FIELD_NAMES = {"identity": "{}", "truncate": "{}_trunc"}


def run(
    server: settings.ServerEndpoint,
    load: jobs.Load,
    s3: Any,
    wanted: sources.WantedSources,
    *,
    say: progress.Say,
    taken: steps.Steps,
) -> jobs.Loaded:
    """Load the wanted sources in one transaction. Raises NotForArrow, Overtaken, PipelineError."""
    _check_size(load, wanted.readable)
    with _failures():
        with taken.taking("open table"):
            target = _target(server, load)
        if wanted.remark:
            say(wanted.remark)
        say(wanted.sentence)
        rows = _read(load, s3, wanted, target.table, taken)
        return _loaded(server, load, s3, wanted, target, rows, say, taken)


def plan(
    server: settings.ServerEndpoint, load: jobs.Load, s3: Any, wanted: sources.WantedSources
) -> jobs.LoadPlan:
    """Return what `run` would do; nothing is written. Raises NotForArrow, PipelineError."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.schema import assign_fresh_schema_ids

    _check_size(load, wanted.readable)
    with _failures():
        target = _target(server, load)
        rows = _read(load, s3, wanted, target.table, steps.Steps(lambda line: None))
        rows = _stored_columns(load, wanted, target, rows)
        if target.table is None:
            before = None
            schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(rows.schema))
            spec = _partition_spec(schema, load.partitions)
        else:
            _check_partitions(target.table, load.partitions)
            before, spec = _types(target.table.schema()), target.table.spec()
            # Of a transaction that is never committed.
            transaction = target.table.transaction()
            _evolve(transaction, rows)
            schema = transaction.table_metadata.schema()
        return jobs.LoadPlan(
            engine="arrow",
            creates_table=target.table is None,
            mode=load.mode,
            sources=len(wanted.fresh),
            skipped=wanted.skipped,
            size_bytes=sum(source.size_bytes for source in wanted.fresh),
            rows=rows.num_rows,
            columns=jobs.planned_columns(before, _types(schema)),
            partitions=tuple(
                f"{field.transform}({schema.find_column_name(field.source_id)})"
                for field in spec.fields
            ),
            first_rows=tuple(rows.slice(0, jobs.ROWS_SHOWN_MAX).to_pylist()),
            rejected=len(wanted.rejected),
        )


def _check_size(load: jobs.Load, fresh: Sequence[sources.Source]) -> None:
    """Raise NotForArrow if the load is too large for this module, or has options of Spark alone."""
    if load.relation is not None and not isinstance(load.relation, settings.KafkaSource):
        raise errors.NotForArrow("a table as its source")
    if load.transforms or load.checks:
        raise errors.NotForArrow("transforms and checks")
    if load.reader.format in FOR_SPARK_ALONE:
        raise errors.NotForArrow(load.reader.format)
    if load.types and load.reader.format != "csv":
        raise errors.NotForArrow(f"--schema for {load.reader.format}")
    if load.reader.for_spark_alone is not None:
        raise errors.NotForArrow(load.reader.for_spark_alone)
    if len(fresh) > SOURCES_MAX:
        raise errors.NotForArrow(progress.counted(len(fresh), "object"))
    size_bytes = sum(
        source.size_bytes * (PACKED_FACTOR if reading.packed_as(source.place) else 1)
        for source in fresh
    )
    if size_bytes > SOURCE_BYTES_MAX:
        raise errors.NotForArrow(f"{size_bytes / 1e6:.0f} MB")


def _types(schema: Any) -> dict[str, str]:
    return {field.name: str(field.field_type) for field in schema.fields}


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Turn what PyArrow and PyIceberg raise in the block into the pipeline's own errors."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow

    try:
        with catalogs.failures():
            yield
    except pyarrow.ArrowException as error:
        raise errors.NotForArrow(" ".join(str(error).split())[:REASON_MAX]) from error
    except UnicodeEncodeError as error:
        # Text of CSV and Parquet is decoded from UTF-8, which has no such halves.
        raise errors.NotForArrow("JSON with half of a surrogate pair") from error


def _evolve(transaction: Any, rows: Any) -> None:
    """Add the rows' new columns to the transaction's table, and widen old ones."""
    try:
        with transaction.update_schema() as update:
            update.union_by_name(rows.schema)
    except ValueError as error:
        raise errors.NotForArrow(" ".join(str(error).split())[:REASON_MAX]) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class _Target:
    """The catalog, the name of the table in it, and the table, if it exists."""

    catalog: Any
    identifier: tuple[str, ...]
    table: Any


def _target(server: settings.ServerEndpoint, load: jobs.Load) -> _Target:
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.exceptions import NoSuchTableError

    catalog = catalogs.opened(server, load.table.warehouse)
    identifier = (*load.table.namespace, load.table.name)
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        return _Target(catalog=catalog, identifier=identifier, table=None)
    except ValueError as error:
        unread = catalogs.unread_type(error)
        if unread is None:
            raise
        raise errors.NotForArrow(f"a table with a column of {unread}") from error
    _check_table(table, load)
    retries.forget(table)
    return _Target(catalog=catalog, identifier=identifier, table=table)


def _loaded(
    server: settings.ServerEndpoint,
    load: jobs.Load,
    s3: Any,
    wanted: sources.WantedSources,
    target: _Target,
    rows: Any,
    say: progress.Say,
    taken: steps.Steps,
) -> jobs.Loaded:
    """Write and commit the rows."""
    fresh, load_id = wanted.fresh, uuid.uuid4()
    columns = _stored_columns(load, wanted, target, rows)
    merged = _merged(load, wanted, target, rows, columns, taken)
    counted = None if load.merge is None else merged.counts
    with contextlib.ExitStack() as block:
        with taken.taking("write") as counts:
            # After the table was opened: the commit expects that nothing follows.
            relations.check_record(server, load, wanted)
            block.enter_context(_namespace(target.catalog, load.table))
            transaction, added = _transaction(target, load, columns)
            tasks = _write_tasks(transaction.table_metadata, merged.rows, load_id)
            block.enter_context(_given_back(s3, _paths(transaction.table_metadata, tasks)))
            writing = _Writing(len(tasks))
            with progress.watching("writing", writing.counters, total_rows=merged.rows.num_rows):
                files = _write(transaction, tasks, writing)
            counts.rows = merged.rows.num_rows
            counts.size_bytes = sum(file.file_size_in_bytes for file in files)
        with taken.taking("commit"):
            summary = loads.summary(s3, fresh, load, load_id=load_id.hex, claims=wanted.claims)
            if target.table is not None and merged.is_change:
                snapshot_id = _overwrite(transaction, merged.replaced, files, summary)
            else:
                may_follow = load.mode == "append" and wanted.chain is None
                snapshot_id = _append(transaction, files, summary, may_follow=may_follow)
            others = rejects.changes(target.catalog, load, wanted)
            moved = sources.changed(s3, load.places, fresh) if load.relation is None else ()
            if moved:
                raise errors.source_changed(moved[0].place)
            say(f"committing {progress.counted(len(files), 'file')}")
            if others:
                own = catalogs.change_of(load.table, transaction)
                catalogs.commit(target.catalog, (own, *others))
            else:
                with _contested(load.table):
                    transaction.commit_transaction()
    return jobs.Loaded(
        rows=merged.rows.num_rows if counted is None else counted.inserted + counted.updated,
        sources=len(fresh),
        skipped=wanted.skipped,
        files=len(files),
        columns_added=added,
        snapshot_id=snapshot_id,
        engine="arrow",
        merged=counted,
        rejected=len(wanted.rejected),
        bytes_read=wanted.size_bytes,
        bytes_written=sum(file.file_size_in_bytes for file in files),
        steps=taken.done,
    )


def _stored_columns(
    load: jobs.Load, wanted: sources.WantedSources, target: _Target, rows: Any
) -> Any:
    """Return the sources' rows with the columns that the table has, or gains by the load."""
    if load.merge is None or wanted.is_empty:
        return rows
    arrowmerging.check(load.merge, rows)
    live = () if target.table is None else target.table.schema().column_names
    return rows.select(load.merge.stored(rows.column_names, live))


def _merged(
    load: jobs.Load,
    wanted: sources.WantedSources,
    target: _Target,
    rows: Any,
    columns: Any,
    taken: steps.Steps,
) -> arrowmerging.MergedRows:
    """Return what the load writes. columns: the rows with the columns that are stored alone."""
    # A load without a readable row has no columns that a merge could read.
    if load.merge is None or wanted.is_empty:
        return arrowmerging.MergedRows(rows=rows)
    searched = progress.ReadCount(0, "files")

    def begin(total: int) -> progress.ReadCount:
        nonlocal searched
        searched = progress.ReadCount(total, "files")
        return searched

    with (
        taken.taking("merge"),
        progress.watching(f"comparing rows with {load.table.full}", lambda: searched.counters()),
    ):
        metadata = None
        if target.table is not None:
            _check_partitions(target.table, load.partitions)
            # Of a transaction that is never committed.
            transaction = target.table.transaction()
            _evolve(transaction, columns)
            metadata = transaction.table_metadata
        bounds = arrowmerging.SearchBounds(
            stored_bytes=SOURCE_BYTES_MAX, unpacked_bytes=UNPACKED_BYTES_MAX
        )
        return arrowmerging.merged(
            load.merge, rows, target.table, metadata, bounds=bounds, begin=begin
        )


def _check_table(table: Any, load: jobs.Load) -> None:
    """Raise NotForArrow if PyIceberg would not write the table as Spark does."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.schema import index_by_id

    metadata = table.metadata
    if metadata.format_version != 2:
        raise errors.NotForArrow(f"a table of format version {metadata.format_version}")
    foreign = sorted(
        name
        for name in metadata.properties
        if name.startswith("write.") and name not in OWN_PROPERTIES
    )
    if foreign:
        raise errors.NotForArrow(f"a table with the property {foreign[0]}")
    if metadata.properties.get("write.format.default", "parquet") != "parquet":
        raise errors.NotForArrow("a table that is not written as Parquet")
    if any(field.required for field in index_by_id(metadata.schema()).values()):
        raise errors.NotForArrow("a table with a required column")
    if not table.sort_order().is_unsorted:
        raise errors.NotForArrow("a table with a sort order")
    snapshot = table.current_snapshot()
    counts = snapshot.summary if snapshot is not None else None
    if load.mode == "replace" and counts and counts.get("total-delete-files", "0") != "0":
        raise errors.NotForArrow("replacing a table with delete files")


# Reading.


class _Writing:
    """How many files were written, with how many rows. Mutable: threads count."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._rows_of: list[int] = []

    def end(self, file: Any) -> None:
        """Count a file that is written."""
        self._rows_of.append(int(file.record_count))

    def counters(self) -> progress.JobCounters:
        written = self._rows_of
        return progress.JobCounters(
            rows=sum(written), done=len(written), total=self._total, noun="files"
        )


def _read(
    load: jobs.Load, s3: Any, wanted: sources.WantedSources, table: Any, taken: steps.Steps
) -> Any:
    """Return the rows of the sources as an Arrow table, in the types to write."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    own = (
        parquetfiles.plain_schema(schema_to_pyarrow(table.schema(), include_field_ids=False))
        if table is not None
        else None
    )
    if wanted.is_empty:
        if own is None:
            raise errors.nothing_readable()
        return own.empty_table()
    columns = {name.lower(): _iceberg_name(one) for name, one in _fields(own).items()}
    jobs.check_schema(load.types, columns)
    so_far = progress.ReadCount(len(wanted.readable))
    what = progress.counted(len(wanted.readable), "object")
    with (
        taken.taking("read") as counts,
        progress.watching(f"reading {what}", so_far.counters, total_bytes=wanted.size_bytes),
    ):
        contents = _contents(s3, wanted.readable, so_far)
        values: Any
        if load.reader.format == "csv":
            values = textcolumns.read(load.reader, contents)
            counts.rows = values.count
        elif load.reader.format == "json":
            values = _json_entries(load.reader, contents)
            counts.rows = len(values)
        else:
            values = _parquet_tables(contents)
            counts.rows = sum(one.num_rows for one in values)
        counts.size_bytes = wanted.size_bytes
    with taken.taking("inspect"):
        if isinstance(values, textcolumns.TextRows):
            names = progress.ReadCount(len(values.names), "columns")
            with progress.watching("inferring types", names.counters):
                rows = textcolumns.rows(s3, load.reader, values, columns, load.types, names)
        elif load.reader.format == "json":
            rows = _json_rows(values, own)
        else:
            rows = _parquet_rows(values, own)
        return _spelled(rows, _fields(own))


def _contents(
    s3: Any, fresh: Iterable[sources.Source], so_far: progress.ReadCount
) -> Iterator[sources.SourceContent]:
    """Yield each source with its unpacked bytes, without empty ones."""
    left = UNPACKED_BYTES_MAX
    for source in fresh:
        if not source.size_bytes:
            continue
        with sources.opened(s3, source) as stream:
            content = stream.read(left + 1)
        left -= len(content)
        if left < 0:
            raise _too_large()
        opened = sources.SourceContent(source=source, content=content, so_far=so_far)
        yield opened
        opened.end()


def _too_large() -> errors.NotForArrow:
    return errors.NotForArrow(f"more than {UNPACKED_BYTES_MAX / 1e6:.0f} MB of unpacked values")


def _fields(schema: Any) -> dict[str, Any]:
    return {} if schema is None else {field.name: field.type for field in schema}


def _spelled(rows: Any, own: Mapping[str, Any]) -> Any:
    """Return the rows with the table's spelling of names that differ only in case."""
    by_name = {name.lower(): name for name in own}
    if len(by_name) != len(own):
        raise errors.NotForArrow("a table whose columns differ only in case")
    return rows.rename_columns([by_name.get(name.lower(), name) for name in rows.column_names])


def _iceberg_name(arrow_type: Any) -> str:
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    names = {
        pa.bool_(): "boolean", pa.int32(): "int", pa.int64(): "long", pa.float32(): "float",
        pa.float64(): "double", pa.date32(): "date", pa.string(): "string",
        pa.timestamp("us", tz="UTC"): "timestamptz", pa.timestamp("us"): "timestamp",
    }  # fmt: skip
    if pa.types.is_decimal128(arrow_type):
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    return names.get(arrow_type, str(arrow_type))


def _json_entries(
    reader: reading.SourceReader, contents: Iterable[sources.SourceContent]
) -> list[dict[str, Any]]:
    """Return the objects of JSON files."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_json_object, parse_constant=_json_constant, parse_int=_json_whole
    )
    return [
        entry
        for each in contents
        if inspection.shape(io.BytesIO(each.content), each.source, reader) is not None
        for _, entry in inspection.documents(each.opened(), each.source, reader, decoder)
    ]


def _json_rows(entries: Sequence[Mapping[str, Any]], own: Any) -> Any:
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    inferred: Any = None
    for entry in entries:
        inferred = _json_merged(inferred, _json_type(entry))
    if inferred is None or not inferred.num_fields:
        raise errors.NotForArrow("JSON without a field")
    fields = [
        pa.field(field.name, _settled(_into(_fields(own), field, fractions=True)))
        for field in inferred
    ]
    return pa.table(
        [pa.array([entry.get(field.name) for entry in entries], field.type) for field in fields],
        schema=pa.schema(fields),
    )


def _json_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len({name.lower() for name, _ in pairs}) != len(pairs):
        raise errors.NotForArrow("JSON with one name twice in an object")
    return dict(pairs)


def _json_constant(text: str) -> Any:
    raise errors.NotForArrow(f"JSON with {text}")


def _json_whole(text: str) -> int:
    # Python itself converts numbers of up to 4,300 digits alone.
    if len(text.removeprefix("-")) > LONG_DIGITS_MAX:
        raise errors.NotForArrow("JSON with a whole number of more than 64 bits")
    return int(text)


def _json_type(value: Any) -> Any:
    """Return the type of one JSON value, as Spark infers it."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        if abs(value) > LONG_MAX:
            raise errors.NotForArrow("JSON with a whole number of more than 64 bits")
        return pa.int64()
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, list):
        element = pa.null()
        for entry in value:
            element = _json_merged(element, _json_type(entry))
        return pa.list_(element)
    return pa.struct([pa.field(name, _json_type(value[name])) for name in sorted(value)])


def _json_merged(one: Any, other: Any) -> Any:
    """Return the type that holds the values of two. Raises NotForArrow if only text would."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    if one is None or pa.types.is_null(one) or one == other:
        return other
    if pa.types.is_null(other):
        return one
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            fields[field.name] = _json_merged(fields.get(field.name), field.type)
        if len({name.lower() for name in fields}) != len(fields):
            raise errors.NotForArrow("JSON with names that differ only in case")
        return pa.struct([pa.field(name, fields[name]) for name in sorted(fields)])
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_json_merged(one.value_type, other.value_type))
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    raise errors.NotForArrow("JSON with values of two types under one name")


def _settled(arrow_type: Any) -> Any:
    """Return the type with text for what has no value in any entry, as Spark infers it."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    if pa.types.is_null(arrow_type):
        return pa.string()
    if pa.types.is_list(arrow_type):
        return pa.list_(_settled(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        if not arrow_type.num_fields:
            raise errors.NotForArrow("JSON with an empty object")
        return pa.struct([pa.field(field.name, _settled(field.type)) for field in arrow_type])
    return arrow_type


def _parquet_tables(contents: Iterable[sources.SourceContent]) -> list[Any]:
    """Return the rows of each Parquet file."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa
    from pyarrow import parquet

    tables = []
    left = UNPACKED_BYTES_MAX
    for opened in contents:
        source = opened.source
        try:
            file = parquet.ParquetFile(io.BytesIO(opened.content))
            # Raises before anything is unpacked.
            parquetfiles.plain_schema(file.schema_arrow)
            for size_bytes in parquetfiles.unpacked_sizes(file, opened.content):
                left -= size_bytes
                if left < 0:
                    raise _too_large()
            one = file.read()
        except pa.ArrowNotImplementedError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise errors.BadSource(
                f"{source.place} is not Parquet: {' '.join(str(error).split())}"
            ) from error
        tables.append(one.cast(parquetfiles.plain_schema(one.schema)).replace_schema_metadata(None))
        opened.so_far.add(source.size_bytes)
    if not tables:
        raise errors.every_file_empty("parquet")
    return tables


def _parquet_rows(tables: Sequence[Any], own: Any) -> Any:
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    # Files whose types differ raise here, and go to Spark.
    rows = pa.concat_tables(tables, promote_options="default")
    if len({name.lower() for name in rows.column_names}) != rows.num_columns:
        raise errors.NotForArrow("columns that differ only in case")
    return rows.cast(
        pa.schema(
            [
                pa.field(field.name, _into(_fields(own), field, fractions=False))
                for field in rows.schema
            ]
        )
    )


def _into(own: Mapping[str, Any], field: Any, *, fractions: bool) -> Any:
    """Return the type to write a source's column with, where the table has these columns."""
    present = {name.lower(): (name, one) for name, one in own.items()}.get(field.name.lower())
    if present is None:
        return field.type
    return _type_into(present[1], field.type, fractions=fractions)


def _type_into(table_type: Any, source_type: Any, *, fractions: bool) -> Any:
    """Return the table's type, or what Iceberg can widen it to. Raises NotForArrow.

    fractions: whether whole numbers are values of a column of fractions, as in JSON.
    """
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    if table_type == source_type or pa.types.is_null(source_type):
        return table_type
    pair = (table_type, source_type)
    if pair in {(pa.int32(), pa.int64()), (pa.int64(), pa.int32())}:
        return pa.int64()
    if pair in {(pa.float32(), pa.float64()), (pa.float64(), pa.float32())}:
        return pa.float64()
    if fractions and pair == (pa.float64(), pa.int64()):
        return pa.float64()
    if pa.types.is_struct(table_type) and pa.types.is_struct(source_type):
        inside = {one.name: one.type for one in table_type}
        names = {one.lower() for one in inside} | {one.name.lower() for one in source_type}
        if len(names) != len({*inside, *(one.name for one in source_type)}):
            raise errors.NotForArrow("names inside a column that differ only in case")
        return pa.struct(
            [pa.field(one.name, _into(inside, one, fractions=fractions)) for one in source_type]
        )
    if pa.types.is_list(table_type) and pa.types.is_list(source_type):
        return pa.list_(
            _type_into(table_type.value_type, source_type.value_type, fractions=fractions)
        )
    raise errors.NotForArrow(f"values of the type {source_type} in a column of {table_type}")


# Writing.


@contextlib.contextmanager
def _namespace(catalog: Any, table: settings.TargetTable) -> Iterator[None]:
    """Create the table's namespace and its parents; drop them again if the load fails."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.exceptions import NamespaceAlreadyExistsError

    created: list[tuple[str, ...]] = []
    for depth in range(1, len(table.namespace) + 1):
        namespace = table.namespace[:depth]
        if catalog.namespace_exists(namespace):
            continue
        with contextlib.suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(namespace)
            created.append(namespace)
    try:
        yield
    except BaseException:
        for namespace in reversed(created):
            # If another client has put a table there, the server refuses to drop it.
            with contextlib.suppress(Exception):
                catalog.drop_namespace(namespace)
        raise


def _transaction(target: _Target, load: jobs.Load, rows: Any) -> tuple[Any, tuple[str, ...]]:
    """Open the transaction: a new table's creation, or a live table's new columns."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.exceptions import TableAlreadyExistsError
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.schema import assign_fresh_schema_ids

    table = target.table
    if table is None:
        schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(rows.schema))
        spec = _partition_spec(schema, load.partitions)
        try:
            transaction = target.catalog.create_table_transaction(
                target.identifier, schema=schema, partition_spec=spec
            )
        except TableAlreadyExistsError as error:
            if not target.catalog.table_exists(target.identifier):
                raise errors.target_is_view(load.table.full) from error
            raise _overtaken(load.table, error) from error
        if transaction.table_metadata.format_version != 2:
            raise errors.NotForArrow("a new table of another format version than 2")
        return transaction, ()
    _check_partitions(table, load.partitions)
    transaction = table.transaction()
    _evolve(transaction, rows)
    added = _names_added(table.schema(), transaction.table_metadata.schema())
    if load.mode == "replace" and table.current_snapshot() is not None:
        with warnings.catch_warnings():
            # An empty table has no rows to delete.
            warnings.simplefilter("ignore")
            transaction.delete(AlwaysTrue())
    return transaction, added


def _names_added(before: Any, after: Any) -> tuple[str, ...]:
    """Return the new columns, nested ones with dots, without those inside a new one."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.schema import index_by_name

    return jobs.names_added(index_by_name(before), index_by_name(after))


def _partition_spec(schema: Any, transforms: Sequence[settings.PartitionTransform]) -> Any:
    """Return the spec, with field names as Iceberg's Java library chooses them."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import parse_transform

    fields = []
    for number, wanted in enumerate(transforms):
        try:
            source = schema.find_field(wanted.column)
        except ValueError as error:
            names = [column.name for column in schema.columns]
            raise errors.no_partition_column(wanted.column, names) from error
        transform = parse_transform(SIZES.get(wanted.name, wanted.name).format(wanted.width))
        if not transform.can_transform(source.field_type):
            raise errors.BadArgument(
                f"--partition-by: Invalid source type {source.field_type} "
                f"for transform: {wanted.name}"
            )
        fields.append(
            PartitionField(
                source_id=source.field_id,
                field_id=1000 + number,
                transform=transform,
                name=FIELD_NAMES.get(wanted.name, "{}_" + wanted.name).format(wanted.column),
            )
        )
    distinct = {(field.source_id, field.transform.dedup_name) for field in fields}
    if len(distinct) != len(fields) or len({field.name for field in fields}) != len(fields):
        raise errors.NotForArrow("two partition transforms of one column")
    return PartitionSpec(*fields)


def _check_partitions(table: Any, transforms: Sequence[settings.PartitionTransform]) -> None:
    """Raise BadArgument if the transforms differ from a live table's partitioning."""
    spec = table.spec()
    if not transforms:
        return
    wanted = _partition_spec(table.schema(), transforms)
    if [(one.source_id, str(one.transform)) for one in spec.fields] != [
        (one.source_id, str(one.transform)) for one in wanted.fields
    ]:
        raise errors.other_partitions(
            f"{field.transform}({table.schema().find_column_name(field.source_id)})"
            for field in spec.fields
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Partition:
    """What PyIceberg's writer asks a partition key for: the record, and the folder's name."""

    partition: Any
    spec: Any
    schema: Any

    def to_path(self) -> str:
        """Return the folder of the partition's files."""
        return str(self.spec.partition_to_path(self.partition, self.schema))


def _write_tasks(metadata: Any, rows: Any, write_id: uuid.UUID) -> list[Any]:
    """Return PyIceberg's task for each data file to write."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.io.pyarrow import bin_pack_arrow_table, pyarrow_to_schema
    from pyiceberg.table import TableProperties, WriteTask

    schema = pyarrow_to_schema(rows.schema, name_mapping=metadata.schema().name_mapping)
    numbers = itertools.count()
    return [
        WriteTask(
            write_uuid=write_id,
            task_id=next(numbers),
            schema=schema,
            record_batches=batches,
            partition_key=key,
        )
        for key, part in _partitions(metadata, rows)
        for batches in bin_pack_arrow_table(
            part, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
        )
    ]


def _paths(metadata: Any, tasks: Iterable[Any]) -> list[str]:
    """Return where the tasks' files will be."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.table.locations import load_location_provider

    provider = load_location_provider(metadata.location, metadata.properties)
    return [
        provider.new_data_location(
            data_file_name=task.generate_data_file_filename("parquet"),
            partition_key=task.partition_key,
        )
        for task in tasks
    ]


def _write(transaction: Any, tasks: Sequence[Any], writing: _Writing) -> list[Any]:
    """Write the tasks' files; return them, uncommitted. No task runs on when it returns or raises.

    PyIceberg's own pool would go on with other tasks after one has raised.
    """
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.io.pyarrow import write_file

    table = transaction._table  # noqa: SLF001 - PyIceberg offers no other way to its files
    metadata = transaction.table_metadata

    def write(task: Any) -> Any:
        file = next(write_file(table.io, metadata, iter([task])))
        writing.end(file)
        return file

    with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
        written = [pool.submit(write, task) for task in tasks]
    return [future.result() for future in written]


def _partitions(metadata: Any, rows: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (partition key, its rows), in no particular order. The key is None without a spec."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa
    import pyarrow.compute as pc

    spec, schema = metadata.spec(), metadata.schema()
    if not rows.num_rows:
        return
    if spec.is_unpartitioned():
        yield None, rows
        return
    keyed, names, values = rows, [], []
    for number, field in enumerate(spec.fields):
        column = _source_column(rows, schema.find_column_name(field.source_id))
        distinct, codes = _transformed(column, schema.find_type(field.source_id), field.transform)
        names.append(f"__partition_{number}__")
        values.append(distinct)
        keyed = keyed.append_column(names[-1], codes)
    groups = keyed.group_by(names).aggregate([]).to_pylist()
    if len(groups) > PARTITIONS_MAX:
        raise errors.NotForArrow(progress.counted(len(groups), "partition"))
    from pyiceberg.typedef import Record

    for group in groups:
        mask = None
        for name in names:
            equal = pc.equal(keyed[name], pa.scalar(group[name], pa.int32()))
            mask = equal if mask is None else pc.and_(mask, equal)
        record = Record(
            *(distinct[group[name]] for name, distinct in zip(names, values, strict=True))
        )
        key = _Partition(partition=record, spec=spec, schema=schema)
        yield key, rows.filter(mask).combine_chunks()


def _source_column(rows: Any, name: str) -> Any:
    """Return a column, a nested one by dots; nulls if the rows do not have it."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa
    import pyarrow.compute as pc

    if name in rows.column_names:
        return rows[name]
    first, _, rest = name.partition(".")
    if not rest or first not in rows.column_names:
        return pa.nulls(rows.num_rows)
    column = rows[first]
    for part in rest.split("."):
        if not pa.types.is_struct(column.type) or column.type.get_field_index(part) < 0:
            return pa.nulls(rows.num_rows)
        column = pc.struct_field(column, part)
    return column


def _transformed(column: Any, source_type: Any, transform: Any) -> tuple[list[Any], Any]:
    """Return the distinct partition values, and for each row the position of its own."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    # Transforms work on Iceberg's own representation: days, and microseconds.
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_decimal(column.type) or pa.types.is_floating(column.type):
        raise errors.NotForArrow(f"a partition by a column of {source_type}")
    encoded = column.dictionary_encode(null_encoding="encode")
    apply: Callable[[Any], Any] = transform.transform(source_type)
    positions: dict[Any, int] = {}
    codes = []
    for value in encoded.dictionary.to_pylist():
        partition_value = None if value is None else apply(value)
        codes.append(positions.setdefault(partition_value, len(positions)))
    return list(positions), pa.array(codes, pa.int32()).take(encoded.indices)


def _append(
    transaction: Any, files: Iterable[Any], summary: Mapping[str, str], *, may_follow: bool
) -> int:
    """Append the files to the transaction, with the summary; return the snapshot's id.

    may_follow: whether the append may follow a commit of another client; otherwise the load starts
    again from its sources.
    """
    producer = transaction.update_snapshot(snapshot_properties=dict(summary)).fast_append()
    with producer as append:
        for file in files:
            append.append_data_file(file)
    if not may_follow:
        transaction._snapshot_producers = []  # noqa: SLF001 - PyIceberg's retry has no switch
    return int(transaction.table_metadata.current_snapshot_id)


def _overwrite(
    transaction: Any, replaced: Sequence[Any], files: Sequence[Any], summary: Mapping[str, str]
) -> int:
    """Add the files in place of the replaced ones, with the summary; return the snapshot's id.

    The commit is refused if another one followed what the merge has read.
    """
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.exceptions import ValidationException
    from pyiceberg.table.snapshots import Operation

    if files and not replaced:
        return _append(transaction, files, summary, may_follow=False)
    producer = transaction.update_snapshot(snapshot_properties=dict(summary)).overwrite()
    # As Iceberg's Java library calls an overwrite that only deletes, and one that does nothing.
    operation = Operation.DELETE if replaced and not files else Operation.OVERWRITE
    producer._operation = operation  # noqa: SLF001 - PyIceberg calls each an overwrite
    for file in replaced:
        producer.delete_data_file(file)
    for file in files:
        producer.append_data_file(file)
    try:
        producer.commit()
    except ValidationException as error:
        raise errors.NotForArrow(f"manifests in which PyIceberg finds no file: {error}") from error
    transaction._snapshot_producers = []  # noqa: SLF001 - PyIceberg's retry has no switch
    return int(transaction.table_metadata.current_snapshot_id)


@contextlib.contextmanager
def _given_back(s3: Any, paths: Iterable[str]) -> Iterator[None]:
    """Delete the data files at these paths if the load certainly failed, or goes to Spark."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow

    try:
        yield
    except (
        errors.SourceChanged, errors.Overtaken, errors.NotForArrow, pyarrow.ArrowException
    ):  # fmt: skip
        for path in paths:
            # The sweep removes files that stay; the load's own error matters more.
            with contextlib.suppress(Exception):
                bucket, _, key = path.removeprefix("s3://").partition("/")
                # Not by Arrow's file system, which leaves an empty object for the folder.
                s3.delete_object(Bucket=bucket, Key=key)
        raise


@contextlib.contextmanager
def _contested(table: settings.TargetTable) -> Iterator[None]:
    """Raise Overtaken if another job committed first, OutcomeUnknown if no answer came."""
    # Imported here: jobs of Spark need none of them.
    import requests
    from pyiceberg.exceptions import (
        BadRequestError,
        CommitFailedException,
        ForbiddenError,
        RESTError,
        TableAlreadyExistsError,
        UnauthorizedError,
        ValidationException,
    )

    try:
        yield
    except (CommitFailedException, TableAlreadyExistsError, ValidationException) as error:
        raise _overtaken(table, error) from error
    except (BadRequestError, ForbiddenError, UnauthorizedError):
        raise
    except (requests.RequestException, RESTError) as error:
        raise errors.outcome_unknown(table.full) from error


def _overtaken(table: settings.TargetTable, error: Exception) -> errors.Overtaken:
    is_taken = loads.ALREADY_TAKEN in str(error)
    return errors.overtaken(table.full, str(error), is_taken=is_taken)
