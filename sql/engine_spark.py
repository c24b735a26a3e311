"""engine: queries of a Spark warehouse: their files, their child process, their rows.

A warehouse that mini.toml declares with `engine = "spark"` runs SELECTs in one child (`python -m
pipeline.warehouse`), which starts at the first query, runs one at a time, and ends when it has been
idle. The child gets the text that `sql.plan.emit_spark` wrote and the paths of the statement's
files; it knows no catalog, and no credentials.

Spark reads a group of files as they are, by columns, if no deletes apply and no column is computed.
DataFusion first writes the live rows of the other groups, only the columns that the text names,
into files of the query's own. The types of a result are those that DataFusion gives the same query.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from server import children
from sql import engine, errors, frames, ipc, kernelforms, outcomes
from sql.plan import emit_spark
from storage import disk
from storage import model as storage_model

START_SECONDS_MAX: Final = 180.0
"""How long the child may take until it knows a query's columns: it may have to start Java."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkWarehouse:
    """A declared warehouse. memory_mib: of Spark's driver. idle_seconds: then the child ends.

    cores, executor_memory_mib, executor_cores: of a cluster; None leaves them to Spark.
    """

    master: str
    memory_mib: int
    idle_seconds: int
    cores: int | None = None
    executor_memory_mib: int | None = None
    executor_cores: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkFolder:
    """Parquet files that are read in the same way. columns: of the files, in the table's order."""

    path: str
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkTable:
    """A relation of the query's text. columns: (name, Spark's type)."""

    name: str
    columns: tuple[tuple[str, str], ...]
    folders: tuple[SparkFolder, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkQuery:
    """One query as the child gets it."""

    text: str
    timezone: str
    tables: tuple[SparkTable, ...]
    query_id: str
    owner: str
    warehouse: str
    limits: engine.QueryBounds


class SparkEngine:
    """Runs the queries of one Spark warehouse.

    local: the engine of children with DataFusion. variables: of the child's environment, besides
    the usual ones. is_installed: whether PySpark is there.
    """

    def __init__(
        self,
        warehouse: SparkWarehouse,
        *,
        local: engine.Engine,
        disk: disk.Disk,
        scratch: Path,
        variables: Mapping[str, str],
        is_installed: Callable[[], bool],
        new_id: storage_model.NewId,
    ) -> None:
        self._warehouse = warehouse
        self._local = local
        self._disk = disk
        self._scratch = scratch = scratch.absolute()
        self._variables = variables
        self._is_installed = is_installed
        self._new_id = new_id
        self._children = engine.WorkerEngine(
            workers=1,
            spill_directory=scratch / f"spark-{new_id()}",
            disk=disk,
            planning_seconds_max=START_SECONDS_MAX,
            start=self._start,
            idle_seconds=warehouse.idle_seconds,
        )

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The process id of the running child, if there is one."""
        return self._children.process_ids

    async def run(self, query: engine.EngineQuery, text: str) -> engine.Results:
        """Run the query on Spark. text: Spark's; the query's own is DataFusion's.

        Raises EngineFault, and SqlError for a column that Spark cannot read.
        """
        if not self._is_installed():
            raise errors.unsupported("a Spark warehouse without PySpark: run `make setup-all`")
        described = await self._local.run(_described(query))
        await described.close()
        folder = self._scratch / self._new_id()
        await asyncio.to_thread(self._disk.make_folder, folder)
        try:
            tables = [
                await self._table(query, relation, text, folder / str(number))
                for number, relation in enumerate(query.relations)
            ]
            results = await self._children.run(
                SparkQuery(
                    text=text,
                    timezone=query.settings.timezone,
                    tables=tuple(tables),
                    query_id=query.query_id,
                    owner=query.owner,
                    warehouse=query.warehouse,
                    limits=query.limits,
                )
            )
        except BaseException:
            await self._remove(folder)
            raise
        return _CastResults(results, described.schema, lambda: self._remove(folder))

    async def cancel(self, query_id: str) -> bool:
        """End the query of that id; return False if it does not run."""
        return await self._children.cancel(query_id)

    def counts(self) -> engine.QueryCounts:
        """Return which queries run on Spark now, and which wait."""
        return self._children.counts()

    async def close(self) -> None:
        """End the child."""
        await self._children.close()

    async def _start(self, folder: Path) -> children.Child:
        wanted = dataclasses.asdict(self._warehouse)
        return await children.start(
            "pipeline.warehouse",
            str(folder),
            msgspec.json.encode(wanted).decode(),
            buffer_bytes=frames.BUFFER_BYTES,
            leaves_out=False,
            has_bulk=False,
            **self._variables,
        )

    async def _table(
        self, query: engine.EngineQuery, relation: engine.Relation, text: str, folder: Path
    ) -> SparkTable:
        """Return a relation as Spark reads it. folder: for the rows that are written anew."""
        schema = pa.ipc.read_schema(pa.py_buffer(relation.schema))
        variants = _variants(relation)
        wanted = pa.schema(_wanted(schema, text, variants))
        for name in wanted.names:
            if name in variants:
                raise errors.unsupported(f"column {name} of type VARIANT in a Spark warehouse")
        if not len(wanted):
            raise errors.unsupported("a table of no column that a Spark warehouse reads")
        columns = tuple((field.name, _spark_type(field)) for field in wanted)
        folders: list[SparkFolder] = []
        others: list[engine.Group] = []
        for group in relation.groups:
            of_files = _columns_as_they_are(group, wanted)
            if of_files is None:
                others.append(group)
            else:
                folders.append(SparkFolder(path=group.directory, columns=of_files))
        if others or relation.rows is not None:
            rest = dataclasses.replace(relation, groups=tuple(others))
            await self._write(query, rest, wanted, folder)
            folders.append(SparkFolder(path=str(folder), columns=tuple(wanted.names)))
        return SparkTable(name=relation.name, columns=columns, folders=tuple(folders))

    async def _write(
        self,
        query: engine.EngineQuery,
        relation: engine.Relation,
        wanted: pa.Schema,
        folder: Path,
    ) -> None:
        """Write columns of a relation's rows as Parquet files into a new folder."""
        await asyncio.to_thread(self._disk.make_folder, folder)
        names = ", ".join(map(engine.quoted, wanted.names))
        order = engine.Write(
            directory=str(folder),
            schema=ipc.encode_schema(pa.schema([_stored(field) for field in wanted])),
            checks=tuple(engine.ColumnConstraint(name=name) for name in wanted.names),
        )
        writing = dataclasses.replace(
            query,
            text=f"SELECT {names} FROM {engine.quoted(relation.name)}",
            relations=(relation,),
            functions=(),
            variants=(),
            is_aggregate=False,
            write=order,
        )
        results = await self._local.run(writing)
        await engine.collect(results)

    async def _remove(self, folder: Path) -> None:
        await asyncio.shield(asyncio.to_thread(self._disk.remove_tree, folder))


class _CastResults:
    """The rows of a query on Spark in the types that its client gets. Mutable."""

    def __init__(
        self,
        results: engine.Results,
        schema: pa.Schema,
        remove: Callable[[], Awaitable[None]],
    ) -> None:
        self._results = results
        self._remove = remove
        self._is_removed = False
        self._rows = 0
        self.schema = schema

    @property
    def finished(self) -> engine.Finished:
        """The result of the query; available after the last batch."""
        return engine.Finished(rows=self._rows)

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield the batches, once; raises EngineFault."""
        try:
            async for batch in self._results.batches():
                if batch.num_rows:
                    self._rows += batch.num_rows
                    yield _cast(batch, self.schema)
        finally:
            await self.close()

    def encode(self, columns: Sequence[outcomes.Column]) -> None:
        """Do nothing: Spark's child does not encode, and the caller does."""

    def row_groups(self) -> AsyncIterator[outcomes.RowGroup]:
        """Yield the batches."""
        return self.batches()

    async def close(self) -> None:
        """End the query if it still runs, and remove its files. Idempotent."""
        try:
            await self._results.close()
        finally:
            if not self._is_removed:
                self._is_removed = True
                await self._remove()


def _described(query: engine.EngineQuery) -> engine.EngineQuery:
    """Return the query for DataFusion to plan, without rows."""
    relations = tuple(
        dataclasses.replace(relation, groups=(), rows=None) for relation in query.relations
    )
    return dataclasses.replace(query, purpose="describe", relations=relations)


def _cast(batch: Any, schema: pa.Schema) -> pa.RecordBatch:
    try:
        arrays = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
    except pa.ArrowInvalid as error:
        raise engine.EngineFault("internal", f"a column of Spark's: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


TYPES: Final[Mapping[str, str]] = {
    "bool": "BOOLEAN",
    "int32": "INT",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "date32[day]": "DATE",
    "string": "STRING",
    "string_view": "STRING",
    "binary": "BINARY",
    "timestamp[us]": "TIMESTAMP_NTZ",
}
"""Spark's types of those that relations have; decimals and instants besides."""


def _spark_type(field: pa.Field[Any]) -> str:
    arrow_type: Any = field.type
    if pa.types.is_decimal128(arrow_type):
        return f"DECIMAL({arrow_type.precision}, {arrow_type.scale})"
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "us" and arrow_type.tz is not None:
        return "TIMESTAMP"
    spark_type = TYPES.get(str(arrow_type))
    if spark_type is None:
        raise errors.unsupported(f"column {field.name} of its type in a Spark warehouse")
    return spark_type


def _wanted(schema: pa.Schema, text: str, variants: Collection[str]) -> Sequence[pa.Field[Any]]:
    """Return the columns of a relation that a text may read; at least one, if there is one.

    variants: the names of columns that Spark does not read.
    A name in quotes may be another relation's, or stand in a literal: then more are read.
    """
    if "SELECT *" in text:
        return list(schema)
    named = [field for field in schema if emit_spark.quoted(field.name) in text]
    if named:
        return named
    return [field for field in schema if field.name not in variants and _is_read(field)][:1]


def _is_read(field: pa.Field[Any]) -> bool:
    try:
        _spark_type(field)
    except errors.SqlError:
        return False
    return True


def _variants(relation: engine.Relation) -> frozenset[str]:
    """Return the columns that kernels read from files: their texts are the engine's own form."""
    names: set[str] = set()
    for group in relation.groups:
        calls = tuple(f"{kernelforms.engine_name(name)}(" for name in group.functions)
        names.update(name for name, text in group.projection if calls and text.startswith(calls))
    return frozenset(names)


def _columns_as_they_are(group: engine.Group, wanted: pa.Schema) -> tuple[str, ...] | None:
    """Return the files' columns that stand for those of a relation; None if Spark cannot read them.

    It reads neither rows that deletes remove nor columns that are computed or that files lack.
    """
    if group.row_column or group.position_deletes or group.equality_deletes:
        return None
    if not group.projection:
        return tuple(wanted.names)
    of_files = pa.ipc.read_schema(pa.py_buffer(group.schema)).names
    texts = {engine.quoted(name): name for name in of_files}
    expressions = dict(group.projection)
    columns = tuple(texts.get(expressions[name], "") for name in wanted.names)
    # A file's column that is read twice would need two names.
    return columns if all(columns) and len(set(columns)) == len(columns) else None


def _stored(field: pa.Field[Any]) -> pa.Field[Any]:
    arrow_type = pa.string() if pa.types.is_string_view(field.type) else field.type
    return pa.field(field.name, arrow_type)
