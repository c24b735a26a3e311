"""rule: records of a Kafka topic as rows: which columns they have beside their values.

A load may store parts of a record beside its value, as `kafka_offset`. A merge reads two columns
more, which no table stores: the order of the records, and whether a record without a value removes
the row of its key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from pipeline import errors, jobs, reading, settings

PREFIX: Final = "kafka_"
"""What the names of columns beside a value begin with."""
DELETED, ORDER = f"{PREFIX}deleted", f"{PREFIX}order"
TYPES: Final[Mapping[str, str]] = {
    "key": "string", "topic": "string", "partition": "int", "offset": "long",
    "timestamp": "timestamptz", DELETED: "boolean", ORDER: "long",
}  # fmt: skip
"""Iceberg types of parts of a record beside a value, and of a merge's columns."""
REMOVING: Final = ("json", "raw")
"""Formats in which a record without a value removes the row of its key."""


def prepared(load: jobs.Load) -> jobs.Load:
    """Return a load with the columns that it reads of records; another one as it is.

    Raises BadArgument for what does not go with the format of the values, or with a topic.
    """
    source = load.relation
    if not isinstance(source, settings.KafkaSource):
        return load
    _check(load, source)
    return dataclasses.replace(
        load, types=_types(source, load.types), merge=_merge(source, load.merge)
    )


def _types(source: settings.KafkaSource, schema: Mapping[str, str]) -> Mapping[str, str]:
    """Return the types that a load gives to columns. schema: of the user."""
    own = {PREFIX + name: TYPES[name] for name in source.columns if name in TYPES}
    if source.format == "csv":
        return {**own, **schema}
    if source.format == "json":
        # The others are numbers and texts in JSON too.
        return {**schema, **{name: one for name, one in own.items() if one == TYPES["timestamp"]}}
    return {}


def _merge(source: settings.KafkaSource, named: jobs.Merge | None) -> jobs.Merge | None:
    """Return how a load merges records, the last of a key as the newest if no column says so.

    That is the last one within a partition: Kafka orders no records of two. A record without a
    value removes a row only where its place in the order is known, and the user names no delete
    flag, for which it has no value.
    """
    if named is None:
        return None
    parts = {*(PREFIX + name for name in source.columns), *settings.RECORD_COLUMNS}
    if source.format != "raw":
        parts -= set(settings.RECORD_COLUMNS)
    is_ordered = named.order_by is None or named.order_by.lower() in parts
    flag = DELETED if source.format in REMOVING and is_ordered else None
    return dataclasses.replace(
        named,
        delete_flag=named.delete_flag or flag,
        order_by=named.order_by or ORDER,
        order_is_stored=named.order_by is not None,
    )


def _check(load: jobs.Load, source: settings.KafkaSource) -> None:
    for name in source.columns:
        if source.format != "raw" and name in {"value", "headers"}:
            raise errors.BadArgument(
                f"the column {name} of a record is for --format raw, not for {source.format}"
            )
    if source.format == "csv" and not load.types:
        raise errors.BadArgument(
            f"{source}: values of CSV have no header; --schema names their columns, in their order"
        )
    if (source.format == "avro") != (source.avro_schema_file is not None):
        raise errors.BadArgument(
            f"{source}: --format avro and --avro-schema, the schema of the values, go together"
        )
    if load.on_error == "reject" and source.format not in reading.TYPED_BY_LOAD:
        raise errors.BadArgument(
            f"--on-error reject is for records of json and csv, not for {source.format}"
        )
    if load.mode == "replace" and source.records_max is not None:
        raise errors.BadArgument("--mode replace reads a topic whole, without --max-records")
