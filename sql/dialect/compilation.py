"""rule: one statement from its text to a bound query, in the steps that need its tree.

A tree exists in one process only. Other processes get the operation, the tables it names and the
bound query, all of which are values that can be sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sql.dialect import operations, parse, references, resolve, shapes, sqltypes


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What must be read from the catalog before a statement is bound. See `references`."""

    uses: tuple[shapes.TableUse, ...]
    wants_bounds: bool


class ParsedStatement:
    """A parsed statement. Mutable: finding its tables numbers them in its tree."""

    def __init__(self, text: str) -> None:
        self.operation = parse.parse(text)
        self._tree = _tree_of(self.operation)

    @property
    def portable_operation(self) -> operations.Operation:
        """The operation with ELSEWHERE for its tree."""
        name = TREES.get(type(self.operation))
        if name is None or getattr(self.operation, name) is None:
            return self.operation
        changes: dict[str, Any] = {name: operations.ELSEWHERE}
        return dataclasses.replace(self.operation, **changes)

    def needs(self, environment: shapes.Environment) -> Needs:
        """Return the tables and names of the statement's query; raises SqlError."""
        return Needs(
            uses=references.references(self._tree, environment),
            wants_bounds=references.wants_bounds(self._tree),
        )

    def bind_count(self, environment: shapes.Environment) -> int:
        """Return the number of values for the placeholders; raises SqlError as `needs` does."""
        self.needs(environment)
        return references.bind_count(self._tree)

    def bind_query(self, environment: shapes.Environment) -> resolve.BoundQuery:
        """Return the query bound; raises SqlError. Call `needs` first."""
        return resolve.bind_query(self._tree, environment)

    def bind_into(
        self, environment: shapes.Environment, targets: Sequence[sqltypes.SqlType]
    ) -> resolve.BoundQuery:
        """Return the query bound as rows of these types; raises SqlError. Call `needs` first."""
        return resolve.bind_into(self._tree, environment, targets)


TREES = {
    operations.Query: "tree",
    operations.Explain: "tree",
    operations.Insert: "source",
    operations.CreateTable: "query",
    operations.SetVariables: "values",
}


def _tree_of(operation: operations.Operation) -> operations.Tree:
    name = TREES.get(type(operation))
    return None if name is None else getattr(operation, name)
