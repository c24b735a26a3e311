"""Retention: what the log says of tables that left the catalog."""

from __future__ import annotations

from catalog.sweep import retention
from tests.kit import lakes


def test_the_log_says_how_each_table_left(lake: lakes.Lake) -> None:
    lake.run(lake.namespaces.create("lake", ("ns",), {}, by=lakes.BY))
    left: dict[str, str | None] = {}
    for how in ("drop", "purge", "unregister", "stays"):
        ident = lake.ident(f"ns.{how}")
        loaded = lake.run(lake.tables.create(ident, schema=lakes.SCHEMA, by=lakes.BY))
        left[loaded.pointer.object_uuid] = None if how == "stays" else how
        if how == "unregister":
            lake.run(lake.tables.unregister(ident, by=lakes.BY))
        elif how != "stays":
            lake.run(lake.tables.drop(ident, purge=how == "purge", by=lakes.BY))
    seen: dict[str, str | None] = {}
    for commit in reversed(lake.log()):
        for object_uuid, departure in retention.departures_of(commit.record):
            seen.setdefault(object_uuid, None if departure is None else departure.how)
    assert seen == left
