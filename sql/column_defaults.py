"""rule: the defaults of a table's columns.

A constant default is Iceberg's write-default, which other engines know too. What Iceberg cannot say
stands in one table property, by field id: an expression that each INSERT computes once, a sequence
whose NEXTVAL each row takes, or the start and increment of AUTOINCREMENT. Only SQL applies these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PROPERTY: Final = "boathouse.sql.defaults"
"""Table property: JSON object, field id -> the default, where write-default cannot hold it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Default:
    """A column's default; at most one member is set, and none for NULL.

    constant: in Iceberg's JSON form. sequence: database, schema and name as stored. identity:
    start and increment.
    """

    constant: Any = None
    expression: str = ""
    sequence: tuple[str, ...] = ()
    identity: tuple[int, int] | None = None

    @property
    def is_null(self) -> bool:
        return (
            self.constant is None
            and not self.expression
            and not self.sequence
            and self.identity is None
        )

    @property
    def is_counted(self) -> bool:
        """Whether each row has a number of its own."""
        return bool(self.sequence) or self.identity is not None


def read(properties: Mapping[str, str]) -> dict[int, Default]:
    """Return the defaults that a table's property has, by field id; none if it is damaged."""
    try:
        stored = json.loads(properties.get(PROPERTY, "{}"))
        return {int(field_id): _decoded(item) for field_id, item in stored.items()}
    except (ValueError, AttributeError, KeyError, TypeError):
        return {}


def _decoded(item: Mapping[str, Any]) -> Default:
    if "identity" in item:
        start, increment = item["identity"]
        return Default(identity=(int(start), int(increment)))
    if "sequence" in item:
        database, schema, name = map(str, item["sequence"])
        return Default(sequence=(database, schema, name))
    return Default(expression=str(item["expression"]))


def encode(defaults: Mapping[int, Default]) -> str | None:
    """Return the property's text; None if there is nothing to say."""
    items: dict[str, Any] = {}
    for field_id, default in defaults.items():
        if default.identity is not None:
            items[str(field_id)] = {"identity": list(default.identity)}
        elif default.sequence:
            items[str(field_id)] = {"sequence": list(default.sequence)}
        elif default.expression:
            items[str(field_id)] = {"expression": default.expression}
    return json.dumps(items, separators=(",", ":")) if items else None
