"""engine: maintenance of a table: compact small files, expire old snapshots.

Both are Iceberg's own Spark procedures, which commit through the REST catalog like any client. A
job that fails changes nothing. What a command does not say, the table's maintenance settings in the
s3tables API say.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipeline import progress, session, settings, sources

DEFAULTS: Final[Mapping[str, int]] = {
    "targetFileSizeMB": 512,
    "minSnapshotsToKeep": 1,
    "maxSnapshotAgeHours": 120,
}
"""The defaults of the s3tables API, which Iceberg has too unless the table's properties differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Configured:
    """A table's maintenance settings; None for one that has AWS's default."""

    target_file_size_mib: int | None = None
    retain_last: int | None = None
    max_age: datetime.timedelta | None = None


def configured(tables: Any, table: settings.TargetTable) -> Configured:
    """Return a table's maintenance settings. tables: a boto3 client of the s3tables API.

    A table that this API cannot name, or whose settings the caller may not read, has the defaults.
    Raises NoServer.
    """
    # Imported here: a job's `--help` need not load an AWS SDK.
    from botocore.exceptions import ClientError

    if len(table.namespace) != 1:
        return Configured()
    with sources.asking():
        buckets = tables.list_table_buckets(prefix=table.warehouse)["tableBuckets"]
        arns = [bucket["arn"] for bucket in buckets if bucket["name"] == table.warehouse]
        try:
            answer = tables.get_table_maintenance_configuration(
                tableBucketARN=arns[0] if arns else "",
                namespace=table.namespace[0],
                name=table.name,
            )
        except ClientError:
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
        retain_last=values.get("minSnapshotsToKeep"),
        max_age=None if hours is None else datetime.timedelta(hours=hours),
    )


def compact(
    table: settings.TargetTable,
    *,
    target_file_size_mib: int | None,
    min_input_files: int | None,
    open_spark: session.Open,
) -> Mapping[str, Any]:
    """Rewrite small data files into larger ones; return Iceberg's own counts by name."""
    options = {}
    if target_file_size_mib is not None:
        options["target-file-size-bytes"] = str(target_file_size_mib * 1024 * 1024)
    if min_input_files is not None:
        options["min-input-files"] = str(min_input_files)
    arguments = [f"table => '{_full_name(table)}'"]
    if options:
        pairs = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
        arguments.append(f"options => map({pairs})")
    return _call(table, "rewrite_data_files", arguments, "compacting", open_spark)


def expire(
    table: settings.TargetTable,
    *,
    older_than: datetime.datetime | None,
    retain_last: int | None,
    open_spark: session.Open,
) -> Mapping[str, Any]:
    """Expire snapshots; return Iceberg's own counts by name.

    older_than: zone-aware; None means Iceberg's own default of five days ago.
    """
    arguments = [f"table => '{_full_name(table)}'"]
    if older_than is not None:
        utc = older_than.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        arguments.append(f"older_than => TIMESTAMP '{utc}'")
    if retain_last is not None:
        arguments.append(f"retain_last => {retain_last}")
    return _call(table, "expire_snapshots", arguments, "expiring", open_spark)


def _call(
    table: settings.TargetTable,
    procedure: str,
    arguments: list[str],
    label: str,
    open_spark: session.Open,
) -> Mapping[str, Any]:
    statement = f"CALL `{table.warehouse}`.system.{procedure}({', '.join(arguments)})"
    with open_spark(table.warehouse) as spark, session.failures():
        with progress.watching(label, spark.counters):
            rows = spark.session.sql(statement).collect()
        return dict(rows[0].asDict()) if rows else {}


def _full_name(table: settings.TargetTable) -> str:
    # The procedure parses a quoted identifier; a quote inside a name cannot occur (settings.py).
    return ".".join(
        (f"`{table.warehouse}`", *(f"`{n}`" for n in table.namespace), f"`{table.name}`")
    )
