"""rule: the row of a table for an error: that of its class, or of its nearest base.

Every protocol has its own rows (an S3 code, a type of the REST catalog, a SQL state) and its own
encoder; all of them find the row here. An error without a row is a fault of the server, which the
caller answers as an internal error without details.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

Row = TypeVar("Row")
Table: TypeAlias = Mapping[type[Exception], Row]
"""Error class -> a protocol's row. Subclasses use the row of a base."""


def find(error: Exception, *tables: Table[Row]) -> Row | None:
    """Return the row of the error's class or nearest base, None if it has none.

    tables: for each class the first table that has a row counts.
    """
    for error_class in type(error).__mro__:
        for table in tables:
            row = table.get(error_class)
            if row is not None:
                return row
    return None
