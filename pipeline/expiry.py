"""engine: expiry of snapshots: which ones go, and what no snapshot names any more then.

Iceberg says which snapshots go, and removes them. What it names no more is counted before, from the
table's metadata tables, so that a dry run and the expiry itself count the same: the files that no
remaining snapshot has. The sweep of the server frees their bytes later.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipeline import maintenance, progress, session, settings

SNAPSHOTS_MAX: Final = 100
"""Remaining snapshots whose files are read; of a table with more, no bytes are counted."""
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
    planned, are None if there are too many remaining snapshots to look at. is_done: it happened."""

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
            plan = _planned(spark, table, older_than=older_than, retain_last=retain_last)
            before = _snapshots(spark, table)
        label = f"expiring {progress.counted(plan.expired_snapshots, 'snapshot')}, {plan.freed}"
        counts = maintenance.call(spark, table, "expire_snapshots", arguments, label)
        with session.failures():
            gone = before - _snapshots(spark, table)
    done = dataclasses.replace(
        plan,
        expired_snapshots=len(gone),
        kept_snapshots=len(before) - len(gone),
        files=sum(int(counts.get(name) or 0) for name in DATA_COUNTS),
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
    loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
    change = loaded.expireSnapshots()
    if older_than is not None:
        change = change.expireOlderThan(int(older_than.timestamp() * 1000))
    if retain_last is not None:
        change = change.retainLast(retain_last)
    expired = {int(each.snapshotId()) for each in session.each(change.apply())}
    kept = sorted(_snapshots(spark, table) - expired)
    files, size_bytes = _freed_files(spark, table, kept) if expired else (0, 0)
    return TableExpiry(
        expired_snapshots=len(expired),
        kept_snapshots=len(kept),
        files=files,
        size_bytes=size_bytes,
        manifests=_freed_manifests(spark, table, kept) if expired else 0,
        manifest_lists=len(expired),
    )


def _snapshots(spark: session.Spark, table: settings.TargetTable) -> set[int]:
    """Return the ids of a table's snapshots."""
    loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
    return {int(each.snapshotId()) for each in session.each(loaded.snapshots())}


def _freed_files(
    spark: session.Spark, table: settings.TargetTable, kept: list[int]
) -> tuple[int | None, int | None]:
    """Return how many data and delete files, and bytes of them, no remaining snapshot has."""
    if len(kept) > SNAPSHOTS_MAX:
        return None, None
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
