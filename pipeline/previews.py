"""engine: what maintenance of a table would do, and what it would free; nothing is written.

Compaction is planned by Iceberg's own planner, with the options of the compaction itself. Of an
expiry, Iceberg says which snapshots would go; their files are those of the table's metadata tables
that no remaining snapshot has.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pipeline import maintenance, progress, session, settings

SNAPSHOTS_MAX: Final = 100
"""Remaining snapshots whose files are read; of a table with more, no bytes are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionPreview:
    """What a compaction would rewrite. delete_files: those that apply to the rewritten files."""

    strategy: maintenance.Strategy
    rewritten_files: int
    rewritten_bytes: int
    added_files: int
    delete_files: int
    file_groups: int

    @property
    def sentence(self) -> str:
        if not self.rewritten_files:
            return "would rewrite nothing: no files are worth it"
        size_mb = self.rewritten_bytes / 1e6
        deletes = f" and {progress.counted(self.delete_files, 'delete file')}"
        return (
            f"would rewrite {progress.counted(self.rewritten_files, 'file')} of {size_mb:.1f} MB"
            f"{deletes if self.delete_files else ''} into about {self.added_files} "
            f"({self.strategy}); expiry frees them later"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpiryPreview:
    """What an expiry would remove. files, size_bytes: data and delete files that no remaining
    snapshot has; None if there are too many remaining snapshots to look at."""

    expired_snapshots: int
    kept_snapshots: int
    files: int | None
    size_bytes: int | None

    @property
    def sentence(self) -> str:
        if not self.expired_snapshots:
            return f"would expire nothing; {progress.counted(self.kept_snapshots, 'snapshot')} stay"
        freed = "files that were not counted"
        if self.files is not None and self.size_bytes is not None:
            freed = f"{progress.counted(self.files, 'file')} of {self.size_bytes / 1e6:.1f} MB"
        return (
            f"would expire {progress.counted(self.expired_snapshots, 'snapshot')} and keep "
            f"{self.kept_snapshots}, which frees {freed}"
        )


def compaction(
    table: settings.TargetTable,
    *,
    target_file_size_mib: int | None,
    min_input_files: int | None,
    strategy: maintenance.Strategy,
    open_spark: session.Open,
) -> CompactionPreview:
    """Return what `maintenance.compact` would do. Raises what it raises."""
    with open_spark(table.warehouse) as spark, session.failures():
        arrangement = maintenance.arrangement(spark, table, strategy)
        loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
        options = spark.jvm.java.util.HashMap()
        for name, value in maintenance.size_options(target_file_size_mib, min_input_files).items():
            options.put(name, value)
        planner = spark.jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(loaded)
        planner.init(options)
        files = size_bytes = added = groups = 0
        deletes: set[str] = set()
        if loaded.currentSnapshot() is not None:
            for group in _each(planner.plan().groups()):
                groups += 1
                files += int(group.inputFileNum())
                size_bytes += int(group.inputFilesSizeInBytes())
                added += int(group.expectedOutputFiles())
                for task in _each(group.fileScanTasks()):
                    deletes |= {str(file.location()) for file in _each(task.deletes())}
    if strategy == "auto":
        strategy = "sort" if arrangement else "binpack"
    return CompactionPreview(
        strategy=strategy,
        rewritten_files=files,
        rewritten_bytes=size_bytes,
        added_files=added,
        delete_files=len(deletes),
        file_groups=groups,
    )


def expiry(
    table: settings.TargetTable,
    *,
    older_than: datetime.datetime | None,
    retain_last: int | None,
    open_spark: session.Open,
) -> ExpiryPreview:
    """Return what `maintenance.expire` would do."""
    with open_spark(table.warehouse) as spark, session.failures():
        loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
        change = loaded.expireSnapshots()
        if older_than is not None:
            change = change.expireOlderThan(int(older_than.timestamp() * 1000))
        if retain_last is not None:
            change = change.retainLast(retain_last)
        expired = {int(each.snapshotId()) for each in _each(change.apply())}
        kept = [int(each.snapshotId()) for each in _each(loaded.snapshots())]
        kept = [each for each in kept if each not in expired]
        files, size_bytes = _freed(spark, table, kept) if expired else (0, 0)
    return ExpiryPreview(
        expired_snapshots=len(expired), kept_snapshots=len(kept), files=files, size_bytes=size_bytes
    )


def _freed(
    spark: session.Spark, table: settings.TargetTable, kept: list[int]
) -> tuple[int | None, int | None]:
    """Return how many files, and bytes of them, no remaining snapshot has."""
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


def _each(elements: Any) -> Iterable[Any]:
    """Yield what a Java iterable has."""
    iterator = elements.iterator()
    while iterator.hasNext():
        yield iterator.next()
