"""engine: maintenance of a table: compact small files, expire old snapshots.

Both are Iceberg's own Spark procedures, which commit through the REST catalog like any client. A
job that fails changes nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from pipeline import progress, session, settings


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
