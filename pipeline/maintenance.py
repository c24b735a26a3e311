"""engine: maintenance of a table: its files, manifests, statistics and old snapshots.

All are Iceberg's own Spark procedures, which commit through the REST catalog like any client. A
commit that a writer's has overtaken is not made. A compaction is several commits; what it has
committed stays when it fails. What a command does not say, the table's maintenance settings in the
s3tables API say.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from pipeline import errors, progress, retries, session, settings, shredding, sources

Strategy: TypeAlias = Literal["auto", "binpack", "sort", "z-order"]
"""How a compaction arranges rows: as they come, by the table's sort order, or along a curve
through its columns; `auto` sorts a table that has a sort order. Names of the s3tables API."""
STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)

DEFAULTS: Final[Mapping[str, int | str]] = {
    "targetFileSizeMB": 512,
    "strategy": "auto",
    "minSnapshotsToKeep": 1,
    "maxSnapshotAgeHours": 120,
}
"""The defaults of the s3tables API, which Iceberg has too unless the table's properties differ."""


MIB: Final = 1024 * 1024
COUNTED_FILES_MAX: Final = 5_000
"""Files of a compaction whose rows are added up: Spark is asked for each."""
TRIES_MAX: Final = 4
"""Rounds of one compaction: writers' commits that come first leave files for the next."""
GROUP_TARGETS: Final = 8
"""The size of a group of files that are packed, in files of the target size."""
DELETE_FILES_MIN: Final = 10
"""Delete files with which a data file is rewritten, whatever its size. One is rewritten too if
delete files of its own remove three rows of ten: Iceberg's default."""
PARTIAL_PROGRESS: Final = {"partial-progress.enabled": "true"}
"""Groups are committed as they are ready, in at most GROUP_COMMITS_MAX commits."""
GROUP_COMMITS_MAX: Final = 10
"""Iceberg's default of `partial-progress.max-commits`."""
COMPACTION_COMMITS_MAX: Final = (GROUP_COMMITS_MAX + 1) * TRIES_MAX
"""Of all rounds, with those that remove delete files."""
WITH_DANGLING_DELETES: Final = {"remove-dangling-deletes": "true"}
"""Delete files go with the compaction: Spark Connect has no action for them alone."""
COMPACTION_COUNTS: Final = (
    "rewritten_data_files_count",
    "added_data_files_count",
    "rewritten_bytes_count",
    "removed_delete_files_count",
)
CONFLICTS: Final = frozenset({"ValidationException", "CommitFailedException"})
"""Iceberg's exceptions of a commit that another has overtaken."""
COMMIT_LOGGERS: Final = (
    "org.apache.iceberg.actions.BaseCommitService",
    "org.apache.iceberg.actions.RewriteDataFilesCommitManager",
    "org.apache.iceberg.spark.actions.RewriteDataFilesSparkAction",
)
"""They print the stack of each conflict."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Configured:
    """A table's maintenance settings; None for one that has AWS's default."""

    target_file_size_mib: int | None = None
    strategy: Strategy = "auto"
    retain_last: int | None = None
    max_age: datetime.timedelta | None = None


def configured(tables: Any, table: settings.TargetTable, *, for_expiry: bool) -> Configured:
    """Return a table's maintenance settings. tables: a boto3 client of the s3tables API.

    A table that this API cannot name has the defaults. So has a compaction by a caller who may not
    read the settings; an expiry would remove snapshots that the settings keep, and raises
    BadArgument. Raises NoServer.
    """
    # Imported here: a job's `--help` need not load an AWS SDK.
    from botocore.exceptions import ClientError

    if len(table.namespace) != 1:
        return Configured()
    with sources.asking():
        buckets = tables.list_table_buckets(prefix=table.warehouse)["tableBuckets"]
        arns = [bucket["arn"] for bucket in buckets if bucket["name"] == table.warehouse]
        if not arns:  # the caller may not see the table bucket, or it does not exist
            if for_expiry:
                raise _unreadable(table)
            return Configured()
        try:
            answer = tables.get_table_maintenance_configuration(
                tableBucketARN=arns[0], namespace=table.namespace[0], name=table.name
            )
        except ClientError as error:
            code = error.response["Error"].get("Code")
            if code in {"NotFoundException", "BadRequestException"}:
                return Configured()
            if code != "AccessDeniedException":
                raise
            if for_expiry:
                raise _unreadable(table) from error
            return Configured()
    values = {
        name: value
        for configuration in answer["configuration"].values()
        for members in configuration["settings"].values()
        for name, value in members.items()
        if value != DEFAULTS.get(name)
    }
    hours = values.get("maxSnapshotAgeHours")
    return Configured(
        target_file_size_mib=values.get("targetFileSizeMB"),
        strategy=values.get("strategy", "auto"),
        retain_last=values.get("minSnapshotsToKeep"),
        max_age=None if hours is None else datetime.timedelta(hours=hours),
    )


def _unreadable(table: settings.TargetTable) -> errors.BadArgument:
    return errors.BadArgument(
        f"the settings that say how long snapshots of {table.full} are kept cannot be read by this "
        "caller; --older-than and --retain-last say it instead"
    )


def compact(
    table: settings.TargetTable,
    *,
    target_file_size_mib: int | None,
    min_input_files: int | None,
    strategy: Strategy = "auto",
    open_spark: session.Open,
    say: progress.Say,
) -> Mapping[str, Any]:
    """Rewrite small data files, and those with many deletes, into larger ones; return counts.

    Groups of files are committed by themselves. A group that a writer has changed meanwhile is
    planned and rewritten again, in at most TRIES_MAX rounds; `left_data_files_count` says how many
    files are left after the last, for the next compaction. Delete files that no data file needs any
    more are removed. Raises BadArgument where a strategy sorts and the table has no sort order;
    SparkJobFailed, also after some groups were committed.
    """
    with contextlib.ExitStack() as opened:
        spark = opened.enter_context(open_spark(table.warehouse))
        with session.failures():
            loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
            opened.enter_context(shredding.by_rows(spark, str(loaded.schema().toString())))
        arrangement_arguments = arrangement(spark, table, strategy)
        options = compaction_options(
            spark,
            table,
            target_file_size_mib=target_file_size_mib,
            min_input_files=min_input_files,
            is_sorted=bool(arrangement_arguments),
        )
        counts = {**dict.fromkeys(COMPACTION_COUNTS, 0), "left_data_files_count": 0}
        pauses = retries.Pauses()
        for number in range(TRIES_MAX):
            planned = _planned(spark, table, options)
            if not planned.files:
                break
            # A group that cannot be rewritten says why only if it ends the procedure: so do all
            # groups of the last round.
            is_last = number == TRIES_MAX - 1
            partial = {} if is_last else PARTIAL_PROGRESS
            rewritten = _rewrite(
                spark, table, {**options, **partial}, arrangement_arguments, planned, pauses
            )
            for name in COMPACTION_COUNTS:
                counts[name] += rewritten.get(name, 0)
            left = max(0, planned.files - rewritten.get("rewritten_data_files_count", 0))
            counts["left_data_files_count"] = left
            if not left:
                break
            say(
                f"{progress.counted(left, 'file')} of {table.full} were not rewritten: a writer's "
                f"commit came first{'' if is_last else '; planning them again'}"
            )
        if counts["rewritten_data_files_count"] and spark.remote is None:
            counts["removed_delete_files_count"] += _remove_dangling_deletes(spark, table, pauses)
    return counts


def _rewrite(
    spark: session.Spark,
    table: settings.TargetTable,
    options: Mapping[str, str],
    arrangement_arguments: Sequence[str],
    planned: _Planned,
    pauses: retries.Pauses,
) -> Mapping[str, Any]:
    """Call the procedure; return its counts, none if a conflicting commit came first."""
    if spark.remote is not None:
        options = {**options, **WITH_DANGLING_DELETES}
    pairs = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
    arguments = [
        f"table => '{full_name(table)}'",
        f"options => map({pairs})",
        *arrangement_arguments,
    ]
    try:
        with spark.quiet(*COMMIT_LOGGERS):
            return call(
                spark, table, "rewrite_data_files", arguments, planned.label,
                total_rows=planned.rows, commits_max=COMPACTION_COMMITS_MAX, pauses=pauses,
            )  # fmt: skip
    except errors.SparkJobFailed as error:
        if session.is_caused_by(error, CONFLICTS):
            return {}
        raise


@contextlib.contextmanager
def _conflicts() -> Iterator[None]:
    """Suppress the error of a commit that another has overtaken."""
    try:
        yield
    except errors.SparkJobFailed as error:
        if not session.is_caused_by(error, CONFLICTS):
            raise


def _remove_dangling_deletes(
    spark: session.Spark, table: settings.TargetTable, pauses: retries.Pauses
) -> int:
    """Remove the delete files that no data file needs; return their number. They do no harm, so
    that after conflicts they stay for the next compaction."""
    properties = _properties(spark, table)
    for _ in range(TRIES_MAX):
        with (
            _conflicts(),
            retries.bounded(
                spark, table, properties, commits_max=COMPACTION_COMMITS_MAX, pauses=pauses
            ),
            session.failures(),
            spark.quiet(*COMMIT_LOGGERS),
        ):
            actions = spark.jvm.org.apache.iceberg.spark.actions.SparkActions.get(
                spark.session._jsparkSession  # noqa: SLF001 - py4j
            )
            loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
            removed = actions.removeDanglingDeleteFiles(loaded).execute().removedDeleteFiles()
            return sum(1 for _ in session.each(removed))
    return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Planned:
    """What a compaction would rewrite now. rows: None where there are too many files to ask."""

    files: int
    size_bytes: int
    rows: int | None

    @property
    def label(self) -> str:
        files = progress.counted(self.files, "file")
        return f"compacting {files} of {progress.sized(self.size_bytes)}"


def _planned(
    spark: session.Spark, table: settings.TargetTable, options: Mapping[str, str]
) -> _Planned:
    with session.failures():
        groups = planned_groups(spark, table, options)
        files = sum(int(group.inputFileNum()) for group in groups)
        return _Planned(
            files=files,
            size_bytes=sum(int(group.inputFilesSizeInBytes()) for group in groups),
            rows=sum(
                int(task.estimatedRowsCount())
                for group in groups
                for task in session.each(group.fileScanTasks())
            )
            if files <= COUNTED_FILES_MAX
            else None,
        )


def planned_groups(
    spark: session.Spark, table: settings.TargetTable, options: Mapping[str, str]
) -> Sequence[Any]:
    """Return the groups of files (Java's RewriteFileGroup) that a compaction would rewrite now."""
    loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
    if loaded.currentSnapshot() is None:
        return ()
    java_options = spark.jvm.java.util.HashMap()
    for name, value in options.items():
        java_options.put(name, value)
    planner = spark.jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(loaded)
    planner.init(java_options)
    return list(session.each(planner.plan().groups()))


def compaction_options(
    spark: session.Spark,
    table: settings.TargetTable,
    *,
    target_file_size_mib: int | None,
    min_input_files: int | None,
    is_sorted: bool,
) -> Mapping[str, str]:
    """Return Iceberg's options that say which files a compaction rewrites, in which groups.

    Groups of files that are packed are small, so that a conflict costs little. A sort orders the
    rows of a group, and has Iceberg's own groups of 100 GiB.
    """
    options = {"delete-file-threshold": str(DELETE_FILES_MIN)}
    if target_file_size_mib is not None:
        options["target-file-size-bytes"] = str(target_file_size_mib * MIB)
    if min_input_files is not None:
        options["min-input-files"] = str(min_input_files)
    if not is_sorted:
        target_bytes = (target_file_size_mib or 0) * MIB or _target_bytes(spark, table)
        options["max-file-group-size-bytes"] = str(GROUP_TARGETS * target_bytes)
    return options


def _target_bytes(spark: session.Spark, table: settings.TargetTable) -> int:
    """Return the size of files that the table's properties ask for."""
    with session.failures():
        loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
        text = str(loaded.properties().get("write.target-file-size-bytes"))
    return int(text) if text.isascii() and text.isdecimal() and int(text) else 512 * MIB


def arrangement(
    spark: session.Spark, table: settings.TargetTable, strategy: Strategy
) -> tuple[str, ...]:
    """Return the arguments of `rewrite_data_files` for a strategy. Raises BadArgument."""
    if strategy == "binpack":
        return ()
    with session.failures():
        loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
        schema, fields = loaded.schema(), loaded.sortOrder().fields()
        columns = [str(schema.findColumnName(field.sourceId())) for field in session.each(fields)]
    if not columns:
        if strategy == "auto":
            return ()
        raise errors.BadArgument(
            f"the strategy {strategy} needs a sort order, and {table.full} has none; "
            "ALTER TABLE ... WRITE ORDERED BY, or CLUSTER BY in SQL, gives it one"
        )
    if strategy != "z-order":
        return ("strategy => 'sort'",)
    # A text of SQL in a text of SQL: a quote of either would end it early.
    names = ", ".join(f"`{name}`" for name in columns)
    if any(mark in name for name in columns for mark in "`'\\"):
        raise errors.BadArgument(f"the strategy z-order cannot name the columns {names}")
    return ("strategy => 'sort'", f"sort_order => 'zorder({names})'")


def rewrite_manifests(
    table: settings.TargetTable, *, open_spark: session.Open
) -> Mapping[str, Any]:
    """Rewrite a table's manifests by partition; return Iceberg's own counts by name.

    Where a writer has replaced some of them meanwhile, they are planned again, in at most TRIES_MAX
    rounds. Raises SparkJobFailed after the last.
    """
    arguments = [f"table => '{full_name(table)}'"]
    pauses = retries.Pauses()
    with open_spark(table.warehouse) as spark:

        def rewrite() -> Mapping[str, Any]:
            return call(
                spark, table, "rewrite_manifests", arguments, "rewriting manifests",
                commits_max=TRIES_MAX, pauses=pauses,
            )  # fmt: skip

        for _ in range(TRIES_MAX - 1):
            with _conflicts():
                return rewrite()
        return rewrite()


def compute_statistics(
    table: settings.TargetTable, *, columns: Sequence[str] = (), open_spark: session.Open
) -> Mapping[str, Any]:
    """Store how many distinct values columns have, as a sketch in a Puffin file of the current
    snapshot; return the file. columns: names; none means all of plain types."""
    arguments = [f"table => '{full_name(table)}'"]
    if columns:
        for name in columns:
            if not name or any(mark in name for mark in "'\\"):
                raise errors.BadArgument(f"{name!r} is no name of a column")
        arguments.append("columns => array(" + ", ".join(f"'{name}'" for name in columns) + ")")
    with open_spark(table.warehouse) as spark:
        return call(spark, table, "compute_table_stats", arguments, "computing statistics")


def call(
    spark: session.Spark,
    table: settings.TargetTable,
    procedure: str,
    arguments: list[str],
    label: str,
    *,
    total_rows: int | None = None,
    commits_max: int = 1,
    pauses: retries.Pauses | None = None,
) -> Mapping[str, Any]:
    """Call a procedure of Iceberg's; return its row by name. total_rows: that it writes, if any.

    commits_max, pauses: as for `retries.bounded`.
    """
    statement = f"CALL `{table.warehouse}`.system.{procedure}({', '.join(arguments)})"
    counting = spark.counting(is_writing=total_rows is not None)
    with (
        retries.bounded(
            spark, table, _properties(spark, table), commits_max=commits_max, pauses=pauses
        ),
        session.failures(),
        progress.watching(label, counting, total_rows=total_rows),
    ):
        rows = spark.session.sql(statement).collect()
    return dict(rows[0].asDict()) if rows else {}


def _properties(spark: session.Spark, table: settings.TargetTable) -> Mapping[str, str]:
    with session.failures():
        loaded = spark.catalog(table.warehouse).loadTable(spark.identifier(table))
        return session.strings(loaded.properties())


def full_name(table: settings.TargetTable) -> str:
    """Return a table as an argument of a procedure."""
    # The procedure parses a quoted identifier; a quote inside a name cannot occur (settings.py).
    return ".".join(
        (f"`{table.warehouse}`", *(f"`{n}`" for n in table.namespace), f"`{table.name}`")
    )
