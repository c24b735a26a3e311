"""Data files and delete files of a table, as other writers make them.

Files are made by hand with pyarrow and committed through the catalog, so that what a file holds
does not come from the code under test.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring

from catalog import manifests, parquet_stats
from storage import model
from tests.kit import lakes, local_sql

IDS = "PARQUET:field_id"
COLUMNS = {
    1: ("id", pa.int64()),
    2: ("name", pa.string()),
    3: ("v", pa.int32()),
}


@dataclass(kw_only=True)
class Maker:
    """Makes files of one table."""

    local: local_sql.LocalSql
    ident: Any

    @property
    def metadata(self) -> Any:
        return self.local.lake.load(self.ident).metadata

    async def put(self, name: str, data: bytes) -> str:
        uri = f"{self.metadata.location}/data/{name}"
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        receiver = self.local.lake.storage.blobs.receive(
            size_hint=len(data), digests=frozenset({"md5"})
        )
        await receiver.write(data)
        await self.local.lake.storage.objects.put(
            bucket,
            key,
            await receiver.finish(),
            attributes=model.ObjectAttributes(owner=lakes.ACCOUNT),
        )
        return uri

    async def parquet(
        self,
        columns: Mapping[int, tuple[str, pa.DataType]],
        rows: Sequence[Sequence[Any]],
        *,
        with_ids: bool = True,
    ) -> tuple[str, pq.FileMetaData, int]:
        fields = [
            pa.field(name, arrow_type, metadata={IDS: str(field_id)} if with_ids else None)
            for field_id, (name, arrow_type) in columns.items()
        ]
        arrays = [
            pa.array([row[index] for row in rows], field.type) for index, field in enumerate(fields)
        ]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(arrays, schema=pa.schema(fields)), sink)
        data = sink.getvalue().to_pybytes()
        uri = await self.put(f"{uuid.uuid4().hex}.parquet", data)
        return uri, pq.read_metadata(pa.BufferReader(data)), len(data)

    async def data_file(
        self,
        columns: Mapping[int, tuple[str, pa.DataType]],
        rows: Sequence[Sequence[Any]],
        *,
        partition: Sequence[Any] = (),
        with_ids: bool = True,
    ) -> manifests.DataFile:
        uri, footer, size_bytes = await self.parquet(columns, rows, with_ids=with_ids)
        return parquet_stats.data_file(
            footer,
            path=uri,
            size_bytes=size_bytes,
            schema=self.metadata.current_schema(),
            spec_id=self.metadata.default_spec_id,
            partition=partition,
        )

    async def commit(self, *files: manifests.DataFile, operation: str = "append") -> int:
        loaded = await self.local.appends.commit_files(
            self.ident,
            files,
            operation=operation,
            based_on=self.metadata.current_snapshot_id,
            principal=lakes.ROOT,
        )
        return int(loaded.metadata.current_snapshot_id)

    async def delete(
        self,
        form: str,
        file: manifests.DataFile,
        positions: Sequence[int],
        *,
        spelled: str | None = None,
    ) -> None:
        """Commit a delete of file's rows at positions; for `equality` they are ids too."""
        more: dict[str, Any] = {"content": manifests.Content.POSITION_DELETES}
        if form == "vector":
            blob = vector(positions)
            puffin = b"PFA1" + blob + b"rest of the file"
            uri, size_bytes = await self.put(f"{uuid.uuid4().hex}.puffin", puffin), len(puffin)
            more["content_offset"], more["content_size_in_bytes"] = 4, len(blob)
            more["referenced_data_file"] = file.file_path
        elif form == "positions":
            columns, rows = position_file([(spelled or file.file_path, at) for at in positions])
            uri, _, size_bytes = await self.parquet(columns, rows)
            more["referenced_data_file"] = file.file_path
        else:
            ids = [(at,) for at in positions]
            uri, _, size_bytes = await self.parquet({1: COLUMNS[1]}, ids)
            more["content"] = manifests.Content.EQUALITY_DELETES
            more["equality_ids"] = (1,)
        await self.commit(
            manifests.DataFile(
                file_path=uri,
                file_format="PUFFIN" if form == "vector" else "PARQUET",
                record_count=len(positions),
                file_size_in_bytes=size_bytes,
                **more,
            ),
            operation="delete",
        )

    async def update(self, *updates: Mapping[str, Any]) -> None:
        await self.local.lake.tables.commit(self.ident, [], list(updates), by=lakes.BY)

    async def new_schema(self, fields: Sequence[Mapping[str, Any]]) -> None:
        await self.update(
            {"action": "add-schema", "schema": {"type": "struct", "fields": list(fields)}},
            {"action": "set-current-schema", "schema-id": -1},
        )


def field(field_id: int, name: str, field_type: Any, **more: Any) -> dict[str, Any]:
    return {"id": field_id, "name": name, "type": field_type, "required": False, **more}


BASE = [field(1, "id", "long"), field(2, "name", "string"), field(3, "v", "int")]


async def make(
    local: local_sql.LocalSql,
    *,
    fields: Sequence[Mapping[str, Any]] = BASE,
    spec: Any = None,
    properties: Mapping[str, str] | None = None,
) -> Maker:
    ident = local.lake.ident("ns.t")
    await local.lake.tables.create(
        ident,
        schema={"type": "struct", "schema-id": 0, "fields": list(fields)},
        partition_spec=spec,
        properties=properties,
        by=lakes.BY,
    )
    return Maker(local=local, ident=ident)


def position_file(
    rows: Sequence[tuple[str, int]],
) -> tuple[Mapping[int, tuple[str, pa.DataType]], list[tuple[str, int]]]:
    columns = {2147483546: ("file_path", pa.string()), 2147483545: ("pos", pa.int64())}
    return columns, sorted(rows)


def vector(positions: Sequence[int]) -> bytes:
    body = b"\xd1\xd3\x39\x64" + pyroaring.BitMap64(positions).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
