"""engine: sources of a load that are rows already: another Iceberg table.

What of them a load reads is decided from their metadata and the record of loads before Spark
starts. A snapshot never changes, so a load that has read one need not look at it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline import errors, jobs, lineage, loads, session, settings, sources


def wanted(server: settings.ServerEndpoint, load: jobs.Load, s3: Any) -> sources.WantedSources:
    """Return what to load of a load's relation. Raises BadArgument, NoServer."""
    source = load.relation
    assert source is not None
    # The record first: what another load adds to it afterwards is refused at the commit.
    is_replacing = load.mode == "replace"
    taken = None if is_replacing else loads.taken(server, load.table)
    content = loads.content(server, load.table, s3) if is_replacing else None
    metadata = loads.metadata(server, source.table)
    if not metadata:
        raise errors.BadArgument(f"there is no table {source.table.full}")
    if taken is None:
        digests = {row for row in content or () if row[0] == loads.TRANSFORMS}
        if digests != set(loads.of_transforms(load)):
            content = None
        portion = lineage.replacing(source, metadata, content)
    else:
        portion = lineage.adding(source, metadata, taken, may_read_whole=load.mode == "merge")
    return sources.WantedSources(
        fresh=tuple(
            sources.Source(place=place, etag=etag, size_bytes=size_bytes)
            for (place, etag), size_bytes in portion.fresh
        ),
        skipped=portion.skipped,
        claims=portion.claims,
        rows=portion.rows,
        noun=load.noun,
        remark=portion.remark,
    )


def frame(spark: session.Spark, server: settings.ServerEndpoint, load: jobs.Load, rows: Any) -> Any:
    """Return the rows as a frame. rows: of `wanted`."""
    _open_catalog(spark, server, rows.table.warehouse, load.table.warehouse)
    options: Mapping[str, int] = (
        {"versionAsOf": rows.until}
        if rows.after is None
        else {"start-snapshot-id": rows.after, "end-snapshot-id": rows.until}
    )
    return spark.session.read.format("iceberg").options(**options).table(rows.table.quoted)


def _open_catalog(
    spark: session.Spark, server: settings.ServerEndpoint, warehouse: str, own: str
) -> None:
    """Let the session read a warehouse beside its own. Spark opens a catalog at its first use."""
    if warehouse != own:
        for name, value in settings.catalog_settings(server, warehouse).items():
            spark.session.conf.set(name, value)
