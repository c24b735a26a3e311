"""engine: sources of a load that are rows already: an Iceberg table or view, a database's rows.

What a load reads of a table is decided from its metadata and the record of loads before Spark
starts; a snapshot never changes. What it reads of a database Spark looks up there first. In all
cases the record's rows form a chain, and a load commits only if the chain has not changed since.
A view is read whole, as a database is without a watermark: by Spark if it has a text in Spark's
SQL, else by the server's SQL.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

from pipeline import (
    errors,
    jdbc,
    jobs,
    lineage,
    loads,
    session,
    settings,
    shredding,
    sources,
    unloads,
    watermarks,
)

SPARK_DIALECT: Final = "spark"
"""What Spark calls its SQL in an Iceberg view."""
SERVER_DIALECT: Final = "snowflake"
"""The dialect of views that the server's SQL makes and reads."""


def check(load: jobs.Load) -> None:
    """Raise BadArgument for a relation that does not go with the load's mode, or is unreadable."""
    source = load.relation
    if isinstance(source, settings.ViewSource) and load.mode == "append":
        raise errors.BadArgument(
            f"{source} has no record of what changed in its rows: use --mode replace or merge"
        )
    if not isinstance(source, settings.JdbcSource):
        return
    if load.mode == "append" and source.watermark is None:
        raise errors.BadArgument(
            f"{source} has no record of what changed: name a column of whole numbers that only "
            "grows as --watermark, or use --mode replace or merge"
        )
    jdbc.check(source)


def wanted(server: settings.ServerEndpoint, load: jobs.Load, s3: Any) -> sources.WantedSources:
    """Return what to load of a load's relation. Raises BadArgument, NoServer."""
    check(load)
    match load.relation:
        case settings.TableSource() as source:
            return _wanted_of_table(server, load, source, s3)
        case settings.ViewSource() as source:
            _check_view(server, source)
            return _unresolved(server, load, str(source))
        case settings.JdbcSource() as source:
            return _unresolved(server, load, jdbc.place_of(source))
        case settings.KafkaSource() | None:
            raise AssertionError("the load has files")


def resolved(
    spark: session.Spark, load: jobs.Load, wanted: sources.WantedSources
) -> sources.WantedSources:
    """Return what to load, with what only the source itself can say. wanted: of `wanted`."""
    match load.relation:
        case settings.ViewSource() | settings.JdbcSource(watermark=None):
            return _whole(load, wanted)
        case settings.JdbcSource() as source:
            return jdbc.resolved(spark, load, source, wanted.chain)
    return wanted


def check_record(
    server: settings.ServerEndpoint, load: jobs.Load, wanted: sources.WantedSources
) -> None:
    """Raise Overtaken if another load of the relation was committed since its rows were chosen.

    A load that replaces the table can have brought in rows that this one was about to add.
    """
    if wanted.chain is not None and _etags(server, load, wanted.fresh[0].place) != wanted.chain:
        raise errors.Overtaken(
            f"another job has just loaded {load.relation} into {load.table.full}"
        )


def explained(load: jobs.Load) -> AbstractContextManager[None]:
    """Return a block whose errors have no credentials in them, and name the option that helps."""
    if isinstance(load.relation, settings.JdbcSource):
        return jdbc.explained(load.relation)
    return contextlib.nullcontext()


def _etags(server: settings.ServerEndpoint, load: jobs.Load, place: str) -> frozenset[str]:
    """Return the ETags that the table's record of loads has of a source."""
    return frozenset(etag for one, etag in loads.taken(server, load.table) if one == place)


def _unresolved(
    server: settings.ServerEndpoint, load: jobs.Load, place: str
) -> sources.WantedSources:
    """Return a source of which only its name and its chain in the record of loads are known."""
    chain = None if load.mode == "replace" else _etags(server, load, place)
    before = sources.Source(place=place, etag="", size_bytes=0)
    return sources.WantedSources(fresh=(before,), skipped=0, chain=chain, noun=load.noun)


def _whole(load: jobs.Load, wanted: sources.WantedSources) -> sources.WantedSources:
    """Return a load of all rows. wanted: of `_unresolved`."""
    place = wanted.fresh[0].place
    etag, claim = watermarks.whole(uuid.uuid4().hex)
    return sources.WantedSources(
        fresh=(sources.Source(place=place, etag=etag, size_bytes=0),),
        skipped=0,
        # The claim exists once; a replacing load removes the earlier ones.
        claims=() if claim in (wanted.chain or ()) else ((place, claim),),
        chain=wanted.chain,
        rows=watermarks.WatermarkRange(),
        noun=load.noun,
    )


def _check_view(server: settings.ServerEndpoint, source: settings.ViewSource) -> None:
    """Raise BadArgument unless the view exists and has a text for Spark or for the server's SQL.

    Spark would run another dialect's text as its own, with other results for the same words.
    """
    metadata = loads.view_metadata(server, source.view)
    if not metadata:
        raise errors.BadArgument(f"there is no view {source.view.full}")
    dialects = unloads.dialects(metadata)
    if not {SPARK_DIALECT, SERVER_DIALECT}.intersection(dialects):
        raise errors.BadArgument(
            f"{source} has no text in Spark's SQL or in the server's, only in that of "
            f"{', '.join(dialects)}; load its tables, with a SELECT of your own in a pipeline's "
            "file"
        )


def _wanted_of_table(
    server: settings.ServerEndpoint, load: jobs.Load, source: settings.TableSource, s3: Any
) -> sources.WantedSources:
    # The record first: what another load adds to it afterwards is refused at the commit.
    is_replacing = load.mode == "replace"
    taken = None if is_replacing else loads.taken(server, load.table)
    content = loads.content(server, load.table, s3) if is_replacing else None
    metadata = loads.metadata(server, source.table)
    if not metadata:
        hint = ""
        if loads.view_metadata(server, source.table):
            hint = f"; it is a view: write {settings.VIEW_BEGINNING}{source.table.full}"
        raise errors.BadArgument(f"there is no table {source.table.full}{hint}")
    if taken is None:
        digests = {row for row in content or () if row[0] == loads.TRANSFORMS}
        if digests != set(loads.of_transforms(load)):
            content = None
        portion = lineage.replacing(source, metadata, content)
    else:
        portion = lineage.adding(source, metadata, taken, may_read_whole=load.mode == "merge")
    places = {place for (place, _), _ in portion.fresh}
    return sources.WantedSources(
        chain=None
        if taken is None
        else frozenset(etag for place, etag in taken if place in places),
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


@contextlib.contextmanager
def frame(
    spark: session.Spark,
    server: settings.ServerEndpoint,
    load: jobs.Load,
    rows: lineage.SnapshotRange | watermarks.WatermarkRange,
) -> Iterator[Any]:
    """Yield the rows as a frame, which holds for the time of the block. rows: of `resolved`."""
    if isinstance(load.relation, settings.ViewSource):
        view = load.relation.view
        if SPARK_DIALECT in unloads.dialects(loads.view_metadata(server, view)):
            _open_catalog(spark, server, view.warehouse, load.table.warehouse)
            yield spark.session.table(view.quoted)
            return
        with unloads.rows(spark, server, view, load.table) as unloaded:
            yield unloaded
        return
    if isinstance(rows, watermarks.WatermarkRange):
        assert isinstance(load.relation, settings.JdbcSource)
        yield jdbc.frame(spark, load.relation, rows)
        return
    _open_catalog(spark, server, rows.table.warehouse, load.table.warehouse)
    options: dict[str, Any] = (
        {"versionAsOf": rows.until}
        if rows.after is None
        else {"start-snapshot-id": rows.after, "end-snapshot-id": rows.until}
    )
    options |= shredding.read_options(json.dumps(loads.metadata(server, rows.table)))
    yield spark.session.read.format("iceberg").options(**options).table(rows.table.quoted)


def _open_catalog(
    spark: session.Spark, server: settings.ServerEndpoint, warehouse: str, own: str
) -> None:
    """Let the session read a warehouse beside its own. Spark opens a catalog at its first use."""
    if warehouse != own:
        for name, value in settings.catalog_settings(server, warehouse).items():
            spark.session.conf.set(name, value)
