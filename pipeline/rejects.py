"""engine: the rows that a load could not read, in a table beside its own: `TABLE__rejected`.

The rows and the rejected rows are one commit of both tables, which the server makes whole or not at
all: the record of loads, which is the first table's, makes both of them exactly once. Written by
PyIceberg for either engine, since rejected rows are few.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from pipeline import (
    catalogs,
    errors,
    jobs,
    loads,
    reading,
    session,
    settings,
    sources,
    splitting,
    workfolders,
)

SUFFIX = "__rejected"
COLUMNS = ("source", "line", "reason", "raw", "rejected_at")

Split: TypeAlias = Callable[[sources.WantedSources], sources.WantedSources]


def table_of(load: jobs.Load) -> settings.TargetTable:
    """Return the table of a load's rejected rows."""
    return dataclasses.replace(load.table, name=load.table.name + SUFFIX)


@contextlib.contextmanager
def splitting_of(server: settings.ServerEndpoint, load: jobs.Load, s3: Any) -> Iterator[Split]:
    """Yield the function that sets apart the rows of sources that cannot be read.

    It returns the sources unchanged for a load that fails at such rows. In the block the files that
    it names exist; errors name the sources instead of them.
    """
    if load.on_error == "fail":
        yield lambda wanted: wanted
        return
    reading.check_rejectable(load.reader)
    places: dict[str, str] = {}
    with workfolders.opened() as own:

        def split(wanted: sources.WantedSources) -> sources.WantedSources:
            if not wanted.readable:
                return wanted
            # Columns of a transform's sources are not those of the table.
            live = {} if load.transforms else loads.columns_if_any(server, load.table)
            folder = Path(tempfile.mkdtemp(prefix="rows-", dir=own))
            done = splitting.split(s3, load.reader, wanted, live, load.types, folder)
            if done.readable:
                for source, readable in zip(done.fresh, done.readable, strict=True):
                    places[readable.place] = source.place
            return done

        with errors.renaming(places):
            yield split


def changes(
    catalog: Any, load: jobs.Load, wanted: sources.WantedSources
) -> tuple[catalogs.CatalogChange, ...]:
    """Write the rejected rows; return the change of their table, uncommitted, or none.

    A load that replaces its table replaces the rejected rows too. Raises BadArgument if another
    table has the name.
    """
    if load.on_error == "fail":
        return ()
    with catalogs.failures():
        return _changes(catalog, load, wanted)


def _changes(
    catalog: Any, load: jobs.Load, wanted: sources.WantedSources
) -> tuple[catalogs.CatalogChange, ...]:
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.expressions import AlwaysTrue

    target = table_of(load)
    identifier = (*target.namespace, target.name)
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        table = None
    replaces = load.mode == "replace" and table is not None and table.current_snapshot() is not None
    if not wanted.rejected and not replaces:
        return ()
    rows = _rows(wanted)
    if table is None:
        transaction = catalog.create_table_transaction(identifier, schema=rows.schema)
    else:
        names = [field.name for field in table.schema().fields]
        if names[: len(COLUMNS)] != list(COLUMNS):
            raise errors.BadArgument(
                f"{target.full} is not a table of rejected rows: its columns are not "
                + ", ".join(COLUMNS)
            )
        transaction = table.transaction()
    if replaces:
        with warnings.catch_warnings():
            # An empty table has no rows to delete.
            warnings.simplefilter("ignore")
            transaction.delete(AlwaysTrue())
    if wanted.rejected:
        transaction.append(rows)
    return (catalogs.change_of(target, transaction),)


def _rows(wanted: sources.WantedSources) -> Any:
    """Return the rejected rows as an Arrow table."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    now = datetime.datetime.now(datetime.UTC)
    fields: list[tuple[str, pa.DataType]] = [
        ("source", pa.string()), ("line", pa.int64()), ("reason", pa.string()),
        ("raw", pa.string()), ("rejected_at", pa.timestamp("us", tz="UTC")),
    ]  # fmt: skip
    rows = [{**dataclasses.asdict(row), "rejected_at": now} for row in wanted.rejected]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def java_change(jvm: Any, load: jobs.Load, transaction: Any, base: Any) -> catalogs.CatalogChange:
    """Return what one of Iceberg's Java transactions would commit.

    base: the metadata on which it was opened; None for a new table.
    """
    metadata = transaction.table().operations().current()
    updates = [
        json.loads(jvm.org.apache.iceberg.MetadataUpdateParser.toJson(each))
        for each in session.each(metadata.changes())
    ]
    requirements = jvm.org.apache.iceberg.UpdateRequirements
    if base is None:
        needed = requirements.forCreateTable(metadata.changes())
        updates = [*_creation(jvm, metadata), *updates]
    else:
        needed = requirements.forUpdateTable(base, metadata.changes())
    to_json = jvm.org.apache.iceberg.UpdateRequirementParser.toJson
    return catalogs.CatalogChange(
        table=load.table,
        requirements=[json.loads(to_json(each)) for each in needed],
        updates=updates,
    )


def _creation(jvm: Any, metadata: Any) -> list[dict[str, Any]]:
    """Return the updates that make a new table, before those of its first rows."""
    new = json.loads(jvm.org.apache.iceberg.TableMetadataParser.toJson(metadata))
    return [
        {"action": "assign-uuid", "uuid": new["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": new["format-version"]},
        {"action": "add-schema", "schema": new["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": new["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": new["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": new["location"]},
        {"action": "set-properties", "updates": new.get("properties", {})},
    ]
