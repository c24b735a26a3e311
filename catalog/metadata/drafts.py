"""rule: metadata in the making: the value one update hands to the next.

A Draft is frozen like all values; an update returns a new one, or the very same when nothing
changed. It also remembers what `-1` and the snapshot log need to know about this request.
"""

from __future__ import annotations

from typing import Any

import msgspec

from catalog.metadata import model
from catalog.metadata.reading import Json

LAST_ADDED = -1
"""In place of a schema, spec or order id: the one added last in the same request."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """metadata so far, and this request's own history.

    added_snapshot_ids: snapshots that add-snapshot brought. moves: (timestamp-ms, snapshot id) for
    each time main moved. snapshots_removed: the snapshot log may have to be cut.
    """

    metadata: model.TableMetadata
    now_ms: int
    creating: bool
    last_schema_id: int | None = None
    last_spec_id: int | None = None
    last_order_id: int | None = None
    added_snapshot_ids: frozenset[int] = frozenset()
    moves: tuple[tuple[int, int], ...] = ()
    snapshots_removed: bool = False

    def changed(self, **fields: Any) -> Draft:
        """Return the draft with other metadata fields."""
        return msgspec.structs.replace(
            self, metadata=msgspec.structs.replace(self.metadata, **fields)
        )

    def schema_to_bind(self) -> Json | None:
        """Return the schema that specs and orders are bound to: the current one.

        While a table is being made it may not have one yet: DuckDB says which is current only
        at the end. Then it is the last one added; the finished table is checked as a whole.
        """
        current = self.metadata.schema(self.metadata.current_schema_id)
        if current is None and self.creating and self.last_schema_id is not None:
            return self.metadata.schema(self.last_schema_id)
        return current

    def noting(self, **fields: Any) -> Draft:
        """Return the draft with other fields of its own."""
        return msgspec.structs.replace(self, **fields)
