"""Raw files, ingest as Spark tests run it, and all that a failed load must not touch."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline import ingest, jobs, loads, progress, reading, session, settings, sources


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What a block of a job counted, beside the whole of it."""

    counts: progress.JobCounters
    total_bytes: int | None
    total_rows: int | None


class Raw:
    """A bucket of raw files."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self.s3 = s3
        self.bucket = bucket
        s3.create_bucket(Bucket=bucket)

    def put(self, key: str, body: str | bytes) -> str:
        """Store one object; return its bare ETag."""
        answer = self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)
        return str(answer["ETag"]).strip('"')

    def place(self, prefix: str = "") -> settings.ObjectPrefix:
        return settings.ObjectPrefix(bucket=self.bucket, prefix=prefix)

    def uri(self, key: str = "") -> str:
        return f"s3://{self.bucket}/{key}"


def a_load(
    table: str,
    *,
    place: settings.Place,
    format: settings.Format = "csv",
    options: Mapping[str, str] | None = None,
    **changes: Any,
) -> jobs.Load:
    """Return a load into a table. changes: of jobs.Load."""
    return jobs.Load(
        places=(place,),
        reader=reading.reader(format, options or {}),
        table=settings.parse_table(table),
        **changes,
    )


@dataclass(frozen=True, kw_only=True)
class Lake:
    """The warehouse `lake`, its one Spark session, and PyIceberg as the witness."""

    server: settings.ServerEndpoint
    spark: session.Spark
    catalog: Any
    said: list[str] = field(default_factory=list)

    def open_spark(self, warehouse: str) -> contextlib.AbstractContextManager[session.Spark]:
        assert warehouse == "lake"
        return contextlib.nullcontext(self.spark)

    def ingest(
        self, raw: Raw, table: str, *, prefix: str = "in/", say: Any = None, **changes: Any
    ) -> jobs.Loaded:
        """Load what lies at prefix into lake.TABLE, by Spark. changes: of a_load."""
        changes = {"place": raw.place(prefix), "engine": "spark", **changes}
        load = a_load(f"lake.{table}", **changes)
        return ingest.run(
            self.server, load, open_spark=self.open_spark, say=say or self.said.append
        )

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return all rows, as PyIceberg reads them, in order of their first column."""
        rows: list[dict[str, Any]] = self.catalog.load_table(table).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: next(iter(row.values())))

    def taken(self, table: str) -> set[tuple[str, str]]:
        return loads.taken(self.server, settings.parse_table(f"lake.{table}"))

    def state(self, table: str) -> object:
        """Return what a failed load must not change; None if the table does not exist."""
        if not self.catalog.table_exists(table):
            return None
        loaded = self.catalog.load_table(table)
        return {
            "metadata": loaded.metadata_location,
            "snapshots": [one.snapshot_id for one in loaded.metadata.snapshots],
            "schema": loaded.schema(),
            "spec": loaded.spec(),
            "rows": self.rows(table),
            "taken": self.taken(table),
            "files": self.data_files(table),
        }

    def data_files(self, table: str) -> list[str]:
        """Return the data objects in the table's folder, whether or not a snapshot names them."""
        s3 = sources.client(self.server)
        prefix = table.replace(".", "/") + "/data/"
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def metadata_files(self, table: str) -> set[str]:
        """Return the objects in the metadata folder of the table."""
        s3 = sources.client(self.server)
        prefix = table.replace(".", "/") + "/metadata/"
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=prefix)
        return {entry["Key"] for page in pages for entry in page.get("Contents", ())}


def no_spark(_: str) -> Any:
    raise AssertionError("Spark was started for a small load")


class Small:
    """The warehouse `lake` for loads by Arrow, with PyIceberg as the witness."""

    def __init__(self, server: settings.ServerEndpoint, catalog: Any) -> None:
        self.server = server
        self.catalog = catalog
        self.said: list[str] = []

    def ingest(
        self, raw: Raw, table: str, *, prefix: str = "in/", say: Any = None, **changes: Any
    ) -> jobs.Loaded:
        changes = {"place": raw.place(prefix), "engine": "arrow", **changes}
        load = a_load(f"lake.{table}", **changes)
        return ingest.run(self.server, load, open_spark=no_spark, say=say or self.said.append)

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.catalog.load_table(table).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: str(next(iter(row.values()))))

    def types(self, table: str) -> dict[str, str]:
        fields = self.catalog.load_table(table).schema().fields
        return {field.name: str(field.field_type) for field in fields}

    def state(self, table: str) -> object:
        """As for Lake."""
        if not self.catalog.table_exists(table):
            return None
        loaded = self.catalog.load_table(table)
        return loaded.metadata_location, self.rows(table), self.taken(table), self.data_files(table)

    def taken(self, table: str) -> set[tuple[str, str]]:
        return loads.taken(self.server, settings.parse_table(f"lake.{table}"))

    def data_files(self, table: str) -> list[str]:
        s3 = sources.client(self.server)
        prefix = table.replace(".", "/") + "/data/"
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]
