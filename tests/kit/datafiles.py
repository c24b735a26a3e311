"""Parquet files in a lake's tables, and other engines reading what was committed of them."""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import manifest
from pyiceberg.io import InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable

from catalog import (
    access,
    appends,
    files,
    guard,
    manifests,
    parquet_stats,
    readers,
    scans,
)
from catalog.commits import LoadedTable
from server.access import decide
from tests.kit import duck, lakes, manifestfiles

ARROW_TYPES: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "double": pa.float64(),
    "date": pa.date32(),
    "decimal(9, 2)": pa.decimal128(9, 2),
    "timestamp": pa.timestamp("us"),
    "boolean": pa.bool_(),
}


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A lake with the engines that read and write its tables' files."""

    lake: lakes.Lake
    files: files.Files
    scans: scans.Scans
    appends: appends.Appends
    readers: readers.Readers
    numbers: Any = field(default_factory=itertools.count)

    def reader(self, loaded: LoadedTable) -> readers.Reader:
        """A table as root reads its files."""
        return self.readers.of(lakes.ROOT, loaded)

    def read(self, loaded: LoadedTable, uri: str) -> bytes:
        """A file that a table names."""
        return self.files.read(self.files.open(self.reader(loaded).file(uri)))

    async def create(self, dotted: str = "ns.t", **more: Any) -> LoadedTable:
        ident = self.lake.ident(dotted)
        if not self.lake.namespaces.exists("lake", ident.namespace):
            await self.lake.namespaces.create("lake", ident.namespace, {}, by=lakes.BY)
        return await self.lake.tables.create(ident, **{"schema": lakes.SCHEMA, **more}, by=lakes.BY)

    async def write(
        self,
        loaded: LoadedTable,
        rows: list[dict[str, Any]],
        *,
        spec_id: int | None = None,
        partition: tuple[Any, ...] = (),
        name: str | None = None,
    ) -> manifests.DataFile:
        """Write rows as a Parquet file of the table's, by no commit yet."""
        table = loaded.metadata
        schema = table.current_schema()
        data = parquet_of(schema, rows)
        name = name or f"{next(self.numbers):05}.parquet"
        uri = f"{table.location}/data/{name}"
        await self.files.write(uri, data, table_bucket="lake", owner=lakes.ACCOUNT)
        return parquet_stats.data_file(
            pq.read_metadata(io.BytesIO(data)),
            path=uri,
            size_bytes=len(data),
            schema=schema,
            spec_id=table.default_spec_id if spec_id is None else spec_id,
            partition=partition,
        )

    async def add(
        self, loaded: LoadedTable, rows: list[dict[str, Any]], **more: Any
    ) -> LoadedTable:
        file = await self.write(loaded, rows, **more)
        return await self.appends.commit_files(
            loaded.ident, [file], operation="append", principal=lakes.ROOT
        )

    def export(self, loaded: LoadedTable, folder: Path) -> Path:
        """Copy all of a table's files to folder/lake/...; return where the metadata file is."""
        prefix = loaded.metadata.location.removeprefix("s3://lake/") + "/"
        after: str | None = ""
        while after is not None:
            page = self.lake.storage.objects.list("lake", prefix=prefix, start_after=after)
            for info in page.objects:
                target = folder / "lake" / info.key
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self.lake.storage.objects.read(info))
            after = page.next_after
        assert loaded.pointer.metadata_location is not None
        return folder / loaded.pointer.metadata_location.removeprefix("s3://")

    def keys(self, loaded: LoadedTable, folder: str = "metadata") -> list[str]:
        prefix = f"{loaded.metadata.location.removeprefix('s3://lake/')}/{folder}/"
        page = self.lake.storage.objects.list("lake", prefix=prefix)
        return [info.key.removeprefix(prefix) for info in page.objects]


def bench(lake: lakes.Lake) -> Bench:
    table_files = files.Files(
        objects=lake.storage.objects,
        blobs=lake.storage.blobs,
        guard=guard.TableGuard(store=lake.store, region="us-east-1", account_id=lakes.ACCOUNT),
    )
    table_scans = scans.Scans(files=table_files, decoder=manifestfiles.InlineDecoder())
    table_readers = readers.Readers(
        store=lake.store,
        access=access.Access(
            store=lake.store,
            authoriser=decide.Authoriser(now_ms=lake.clock),
            region="us-east-1",
            account_id=lakes.ACCOUNT,
        ),
    )
    return Bench(
        lake=lake,
        files=table_files,
        scans=table_scans,
        appends=appends.Appends(
            tables=lake.tables,
            scans=table_scans,
            files=table_files,
            readers=table_readers,
            now_ms=lake.clock,
            new_id=lake.store.new_id,
        ),
        readers=table_readers,
    )


def parquet_of(schema: Any, rows: list[dict[str, Any]]) -> bytes:
    """Rows as a Parquet file with the schema's field ids; columns of ARROW_TYPES alone."""
    arrow = pa.schema(
        [
            pa.field(
                column["name"],
                ARROW_TYPES[column["type"]],
                nullable=not column["required"],
                metadata={"PARQUET:field_id": str(column["id"])},
            )
            for column in schema["fields"]
        ]
    )
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow), buffer)
    return buffer.getvalue()


class _Exported(PyArrowFileIO):
    """Reads s3:// URIs from the folder that properties name."""

    def new_input(self, location: str) -> InputFile:
        folder = self.properties["exported.folder"]
        return super().new_input(f"file://{folder}/{location.removeprefix('s3://')}")


def static_table(metadata_file: Path, folder: Path) -> StaticTable:
    """An exported table as PyIceberg opens it.

    PyIceberg keeps manifests by their paths, and two tests may give two manifests one path.
    """
    manifest.clear_manifest_cache()
    location = f"s3://{metadata_file.relative_to(folder)}"
    return StaticTable.from_metadata(
        location,
        properties={
            "py-io-impl": f"{_Exported.__module__}.{_Exported.__name__}",
            "exported.folder": str(folder),
        },
    )


def rows_by_pyiceberg(metadata_file: Path, folder: Path) -> list[dict[str, Any]]:
    """What PyIceberg reads of an exported table."""
    rows: list[dict[str, Any]] = static_table(metadata_file, folder).scan().to_arrow().to_pylist()
    return rows


def rows_by_duckdb(metadata_file: Path, folder: Path) -> list[dict[str, Any]]:
    """What DuckDB reads of an exported table. folder: for DuckDB's extensions to lie in."""
    connection = duck.opened(folder, ("avro", "iceberg"))
    version = metadata_file.name.removesuffix(".metadata.json")
    rows: list[dict[str, Any]] = (
        connection.execute(
            "select * from iceberg_scan(?, version = ?, allow_moved_paths = true)",
            [str(metadata_file.parent.parent), version],
        )
        .to_arrow_table()
        .to_pylist()
    )
    return rows
