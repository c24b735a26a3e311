"""engine: what maintenance of a table would do; nothing is written. Of an expiry, `expiry` says it.

Compaction is planned by Iceberg's own planner, with the options of the compaction itself. Iceberg
has no plan of rewritten manifests and of statistics: what its actions choose is counted here by
their rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipeline import errors, maintenance, progress, session, settings

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
        deletes = f" and {progress.counted(self.delete_files, 'delete file')}"
        return (
            f"would rewrite {progress.counted(self.rewritten_files, 'file')} of "
            f"{progress.sized(self.rewritten_bytes)}"
            f"{deletes if self.delete_files else ''} into about {self.added_files} "
            f"({self.strategy}); expiry frees them later"
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
            f"{progress.sized(self.rewritten_bytes)} into about {self.added_manifests}"
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
