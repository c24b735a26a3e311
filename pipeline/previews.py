"""engine: what maintenance of a table would do, and what it would free; nothing is written.

Compaction is planned by Iceberg's own planner, with the options of the compaction itself. Of an
expiry, Iceberg says which snapshots would go; their files are those of the table's metadata tables
that no remaining snapshot has. Iceberg has no plan of rewritten manifests and of statistics: what
its actions choose is counted here by their rules.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipeline import errors, maintenance, progress, session, settings

SNAPSHOTS_MAX: Final = 100
"""Remaining snapshots whose files are read; of a table with more, no bytes are counted."""

MANIFEST_BYTES: Final = 8 * 1024 * 1024
"""Iceberg's default of `commit.manifest.target-size-bytes`."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestsPreview:
    """What a rewrite of manifests would do."""

    rewritten_manifests: int
    rewritten_bytes: int
    added_manifests: int

    @property
    def sentence(self) -> str:
        if not self.rewritten_manifests:
            return "would rewrite nothing: no manifests would become fewer"
        return (
            f"would rewrite {progress.counted(self.rewritten_manifests, 'manifest')} of "
            f"{self.rewritten_bytes / 1e6:.1f} MB into about {self.added_manifests}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsPreview:
    """What statistics would be computed. snapshot_id: None without one. is_stored: whether that
    snapshot has statistics already, which would be replaced."""

    snapshot_id: int | None
    columns: tuple[str, ...]
    is_stored: bool

    @property
    def sentence(self) -> str:
        if self.snapshot_id is None:
            return "would compute nothing: the table has no snapshot"
        replaced = ", in place of those that it has," if self.is_stored else ""
        return (
            f"would compute statistics of {progress.counted(len(self.columns), 'column')} of "
            f"snapshot {self.snapshot_id}{replaced}"
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
        options = maintenance.compaction_options(
            spark,
            table,
            target_file_size_mib=target_file_size_mib,
            min_input_files=min_input_files,
            is_sorted=bool(arrangement),
        )
        files = size_bytes = added = groups = 0
        deletes: set[str] = set()
        for group in maintenance.planned_groups(spark, table, options):
            groups += 1
            files += int(group.inputFileNum())
            size_bytes += int(group.inputFilesSizeInBytes())
            added += int(group.expectedOutputFiles())
            for task in session.each(group.fileScanTasks()):
                deletes |= {str(file.location()) for file in session.each(task.deletes())}
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
        expired = {int(each.snapshotId()) for each in session.each(change.apply())}
        kept = [int(each.snapshotId()) for each in session.each(loaded.snapshots())]
        kept = [each for each in kept if each not in expired]
        files, size_bytes = _freed(spark, table, kept) if expired else (0, 0)
    return ExpiryPreview(
        expired_snapshots=len(expired), kept_snapshots=len(kept), files=files, size_bytes=size_bytes
    )


def manifests(table: settings.TargetTable, *, open_spark: session.Open) -> ManifestsPreview:
    """Return what `maintenance.rewrite_manifests` would do."""
    with open_spark(table.warehouse) as spark, session.failures():
        loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
        text = str(loaded.properties().get("commit.manifest.target-size-bytes"))
        target_bytes = int(text) if text.isdecimal() and int(text) else MANIFEST_BYTES
        snapshot = loaded.currentSnapshot()
        lengths: dict[str, list[int]] = {"DATA": [], "DELETES": []}
        for manifest in (
            () if snapshot is None else session.each(snapshot.allManifests(loaded.io()))
        ):
            if manifest.partitionSpecId() == loaded.spec().specId():
                lengths[str(manifest.content())].append(int(manifest.length()))
    rewritten = rewritten_bytes = added = 0
    for group in lengths.values():
        target = -(-sum(group) // target_bytes)
        if group and not (target == 1 and len(group) == 1):
            rewritten += len(group)
            rewritten_bytes += sum(group)
            added += target
    return ManifestsPreview(
        rewritten_manifests=rewritten, rewritten_bytes=rewritten_bytes, added_manifests=added
    )


def statistics(
    table: settings.TargetTable, *, columns: Sequence[str] = (), open_spark: session.Open
) -> StatisticsPreview:
    """Return what `maintenance.compute_statistics` would do. Raises BadArgument for a column that
    is not there or of no plain type."""
    with open_spark(table.warehouse) as spark, session.failures():
        loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
        snapshot = loaded.currentSnapshot()
        snapshot_id = None if snapshot is None else int(snapshot.snapshotId())
        plain: list[str] = []
        for name in columns:
            field = loaded.schema().findField(name)
            if field is None or not field.type().isPrimitiveType():
                raise errors.BadArgument(f"{table.full} has no column {name!r} of a plain type")
            plain.append(name)
        if not columns:
            fields = session.each(loaded.schema().columns())
            plain = [str(each.name()) for each in fields if each.type().isPrimitiveType()]
        is_stored = any(
            int(each.snapshotId()) == snapshot_id for each in session.each(loaded.statisticsFiles())
        )
    return StatisticsPreview(
        snapshot_id=snapshot_id,
        columns=() if snapshot_id is None else tuple(plain),
        is_stored=is_stored,
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
