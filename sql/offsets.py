"""rule: the columns that hold the offsets of TIMESTAMP_TZ beside their instants.

A column of TIMESTAMP_TZ is stored as Iceberg's timestamptz: the instant. Its offset, in minutes,
stands in a further column, its companion, which the table gets in the commit of the first row with
another offset than +00:00; NULL there means +00:00. A property of the table says by field ids which
column is whose companion, so that a renamed one stays it. SQL shows no companion and finds none by
name: it reads and writes both columns as one value. To other engines it is an ordinary column.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from catalog import new_columns
from catalog.metadata import model
from sql import tabletypes

Field: TypeAlias = Mapping[str, Any]

PROPERTY: Final = "boathouse.sql.offsets"
"""Table property: JSON object, field id of a column -> field id of its companion."""

SUFFIX: Final = "__offset_minutes"
TYPES: Final = ("int", "long")


def read(properties: Mapping[str, str]) -> dict[int, int]:
    """Return the ids of companions by those of their columns; none if the property is damaged."""
    text = properties.get(PROPERTY)
    if text is None:
        return {}
    try:
        return {int(column): int(companion) for column, companion in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def encode(companion_ids: Mapping[int, int]) -> str | None:
    """Return the property of these companions; None without any."""
    if not companion_ids:
        return None
    listed = {str(column): companion for column, companion in sorted(companion_ids.items())}
    return json.dumps(listed, separators=(",", ":"))


def companions(fields: Sequence[Field], properties: Mapping[str, str]) -> dict[int, Field]:
    """Return the companions among a schema's fields, by the ids of their columns.

    Other engines may have dropped either column, or given it another type: then there is none.
    """
    listed = read(properties)
    if not listed:
        return {}
    left = {field["id"]: field for field in fields if field["type"] in TYPES}
    zoned = tabletypes.zoned_ids(fields, properties)
    return {
        column: left.pop(companion)  # of one column alone, whatever the property says
        for column, companion in listed.items()
        if column in zoned and companion in left
    }


def visible(fields: Sequence[Field], properties: Mapping[str, str]) -> list[Field]:
    """Return the fields of a schema that are columns in SQL: all but companions."""
    if PROPERTY not in properties:
        return list(fields)
    hidden = {field["id"] for field in companions(fields, properties).values()}
    return [field for field in fields if field["id"] not in hidden]


def columns(metadata: model.TableMetadata) -> list[Field]:
    """Return the fields of a table's current schema that are columns in SQL."""
    return visible(metadata.current_schema()["fields"], metadata.properties)


def are_the_same(before: model.TableMetadata, after: model.TableMetadata) -> bool:
    """Say whether a table's columns differ in new companions alone, if in anything."""
    kept = {field["id"]: field for field in after.current_schema()["fields"]}
    return columns(before) == columns(after) and all(
        kept.get(field["id"]) == field for field in before.current_schema()["fields"]
    )


def missing(
    fields: Sequence[Field], properties: Mapping[str, str], *, last_id: int
) -> new_columns.NewColumns | None:
    """Return the companions that a table lacks, for all its columns of TIMESTAMP_TZ at once.

    So writers of different columns at the same time add the same. last_id: the table's last column
    id. None if it lacks none.
    """
    present = companions(fields, properties)
    zoned = tabletypes.zoned_ids(fields, properties)
    taken = folded(field["name"] for field in fields)
    listed = read(properties)
    added: list[Field] = []
    for field in fields:
        if field["id"] not in zoned or field["id"] in present:
            continue
        name = companion_name(field["name"], taken)
        taken |= folded([name])
        added.append(
            {
                "id": last_id + len(added) + 1,
                "name": name,
                "required": False,
                "type": "int",
                "doc": doc(field["name"]),
            }
        )
        listed[field["id"]] = last_id + len(added)
    text = encode(listed)
    if not added or text is None:
        return None
    return new_columns.NewColumns(fields=tuple(added), properties={PROPERTY: text})


def folded(column_names: Iterable[str]) -> set[str]:
    """Return names of which no two may be in one table: engines ignore case."""
    return {name.upper() for name in column_names}


def companion_name(column: str, taken: Collection[str]) -> str:
    """Return the name of a column's companion. taken: the table's names, folded."""
    name = f"{column}{SUFFIX}"
    number = 2
    while name.upper() in taken:
        name = f"{column}{SUFFIX}_{number}"
        number += 1
    return name


def doc(column: str) -> str:
    """Return what a companion says of itself to the users of other engines."""
    return f"Offset in minutes at which SQL shows {column}, whose values are instants; NULL is UTC"


def widened(
    metadata: model.TableMetadata, added: new_columns.NewColumns
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a table's current schema and its properties with further companions."""
    schema = metadata.current_schema()
    wider = {**schema, "fields": [*schema["fields"], *map(dict, added.fields)]}
    return wider, {**metadata.properties, **added.properties}
