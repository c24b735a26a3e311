"""engine: expiry of snapshots: which ones go, and what no snapshot names any more then.

Iceberg says which snapshots go, removes them, and counts what no snapshot names any more. A dry run
counts the same from the table's metadata tables: the files that no remaining snapshot has. So come
an expiry's bytes, which Iceberg does not count; without them the expiry happens too. The sweep of
the server frees the bytes later.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipeline import maintenance, progress, session, settings

SNAPSHOTS_MAX: Final = 100
"""Remaining snapshots whose files a dry run reads; of a table with more, no files are counted."""
SNAPSHOTS_OF_BYTES_MAX: Final = 10
"""Remaining snapshots whose files an expiry reads ahead; with more, its bytes are not counted."""
DATA_COUNTS: Final = (
    "deleted_data_files_count",
    "deleted_position_delete_files_count",
    "deleted_equality_delete_files_count",
)
MANIFESTS_COUNT: Final = "deleted_manifest_files_count"
LISTS_COUNT: Final = "deleted_manifest_lists_count"
"""Columns of Iceberg's `expire_snapshots`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableExpiry:
    """What an expiry removes. files, size_bytes: data and delete files that no remaining snapshot
    has; manifests, manifest_lists: those that none has. size_bytes, and files of an expiry that is
    planned, are None if there are too many remaining snapshots to look at; size_bytes of one that
    happened also if they could not be counted. is_done: it happened."""

    expired_snapshots: int
    kept_snapshots: int
    files: int | None
    size_bytes: int | None
    manifests: int
    manifest_lists: int
    is_done: bool = False

    @property
    def sentence(self) -> str:
        """What happens, or has happened, in words."""
        would, are = ("", "are") if self.is_done else ("would ", "would be")
        verb = "expired" if self.is_done else "expire"
        if not self.expired_snapshots:
            stay = progress.counted(self.kept_snapshots, "snapshot")
            return f"{would}{verb} nothing; {stay} stay" + ("s" if self.kept_snapshots == 1 else "")
        kept = f"{'kept' if self.is_done else 'keep'} {self.kept_snapshots:,}"
        return (
            f"{would}{verb} {progress.counted(self.expired_snapshots, 'snapshot')} and {kept}; "
            f"{self.freed}, {progress.counted(self.manifests, 'manifest')} and "
            f"{progress.counted(self.manifest_lists, 'manifest list')} {are} no longer referenced"
        )

    @property
    def freed(self) -> str:
        """The files that are no longer referenced, in words."""
        if self.files is None:
            return "files that were not counted"
        size = "unknown size" if self.size_bytes is None else progress.sized(self.size_bytes)
        return f"{progress.counted(self.files, 'file')} of {size}"


def planned(
    table: settings.TargetTable,
    *,
    older_than: datetime.datetime | None,
    retain_last: int | None,
    open_spark: session.Open,
) -> TableExpiry:
    """Return what `run` would do; nothing is written."""
    with open_spark(table.warehouse) as spark, session.failures():
        return _planned(spark, table, older_than=older_than, retain_last=retain_last)


def run(
    table: settings.TargetTable,
    *,
    older_than: datetime.datetime | None,
    retain_last: int | None,
    open_spark: session.Open,
) -> tuple[TableExpiry, Mapping[str, Any]]:
    """Expire snapshots; return what that removed, and Iceberg's own counts by name.

    older_than: zone-aware; None means Iceberg's own default of five days ago.
    """
    arguments = [f"table => '{maintenance.full_name(table)}'"]
    if older_than is not None:
        utc = older_than.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        arguments.append(f"older_than => TIMESTAMP '{utc}'")
    if retain_last is not None:
        arguments.append(f"retain_last => {retain_last}")
    with open_spark(table.warehouse) as spark:
        with session.failures():
            before = _snapshots(spark, table)
        expected, size_bytes = _expected(
            spark, table, older_than=older_than, retain_last=retain_last
        )
        noun = progress.counted(len(expected), "snapshot") if expected else "snapshots"
        counts = maintenance.call(spark, table, "expire_snapshots", arguments, f"expiring {noun}")
        with session.failures():
            gone = before - _snapshots(spark, table)
    done = TableExpiry(
        expired_snapshots=len(gone),
        kept_snapshots=len(before) - len(gone),
        files=sum(int(counts.get(name) or 0) for name in DATA_COUNTS),
        size_bytes=size_bytes if gone == expected else None,
        manifests=int(counts.get(MANIFESTS_COUNT) or 0),
        manifest_lists=int(counts.get(LISTS_COUNT) or 0),
        is_done=True,
    )
    return done, counts


def _planned(
    spark: session.Spark,
    table: settings.TargetTable,
    *,
    older_than: datetime.datetime | None,
    retain_last: int | None,
) -> TableExpiry:
    expired = _expired(spark, table, older_than=older_than, retain_last=retain_last)
    kept = sorted(_snapshots(spark, table) - expired)
    files, size_bytes = None, None
    if len(kept) <= SNAPSHOTS_MAX or not expired:
        files, size_bytes = _freed_files(spark, table, kept) if expired else (0, 0)
    return TableExpiry(
        expired_snapshots=len(expired),
        kept_snapshots=len(kept),
        files=files,
        size_bytes=size_bytes,
        manifests=_freed_manifests(spark, table, kept) if expired else 0,
        manifest_lists=len(expired),
    )


def _expected(
    spark: session.Spark,
    table: settings.TargetTable,
    *,
    older_than: datetime.datetime | None,
    retain_last: int | None,
) -> tuple[set[int], int | None]:
    """Return the snapshots that an expiry removes, and the bytes that this frees; None for bytes
    that are not counted, as too many snapshots remain or a file of them cannot be read."""
    expired: set[int] = set()
    try:
        expired = _expired(spark, table, older_than=older_than, retain_last=retain_last)
        kept = sorted(_snapshots(spark, table) - expired)
        if not expired:
            return expired, 0
        if len(kept) > SNAPSHOTS_OF_BYTES_MAX:
            return expired, None
        return expired, _freed_files(spark, table, kept)[1]
    except Exception:  # noqa: BLE001 - an expiry needs no count of bytes
        return expired, None


def _expired(
    spark: session.Spark,
    table: settings.TargetTable,
    *,
    older_than: datetime.datetime | None,
    retain_last: int | None,
) -> set[int]:
    """Return the ids of the snapshots that an expiry removes, as Iceberg says."""
    loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
    change = loaded.expireSnapshots()
    if older_than is not None:
        change = change.expireOlderThan(int(older_than.timestamp() * 1000))
    if retain_last is not None:
        change = change.retainLast(retain_last)
    return {int(each.snapshotId()) for each in session.each(change.apply())}


def _snapshots(spark: session.Spark, table: settings.TargetTable) -> set[int]:
    """Return the ids of a table's snapshots."""
    loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
    return {int(each.snapshotId()) for each in session.each(loaded.snapshots())}


def _freed_files(
    spark: session.Spark, table: settings.TargetTable, kept: list[int]
) -> tuple[int, int]:
    """Return how many data and delete files, and bytes of them, no remaining snapshot has."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    columns = ("file_path", "file_size_in_bytes")
    freed = spark.session.read.table(f"{table.quoted}.all_files").select(*columns)
    freed = freed.dropDuplicates(["file_path"])
    for snapshot_id in kept:
        reader = spark.session.read.format("iceberg").option("versionAsOf", str(snapshot_id))
        live = reader.load(f"{table.quoted}.files").select("file_path")
        freed = freed.join(live, ["file_path"], "left_anti")
    totals = freed.agg(functions.count("file_path"), functions.sum("file_size_in_bytes")).collect()
    return int(totals[0][0]), int(totals[0][1] or 0)


def _freed_manifests(spark: session.Spark, table: settings.TargetTable, kept: list[int]) -> int:
    """Return how many manifests no remaining snapshot has."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    manifests = spark.session.read.table(f"{table.quoted}.all_manifests")
    is_kept = functions.col("reference_snapshot_id").isin(kept)
    freed = manifests.groupBy("path").agg(functions.max(is_kept).alias("is_kept"))
    return int(freed.filter("not is_kept").count())
