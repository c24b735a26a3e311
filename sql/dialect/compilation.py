"""rule: one statement from its text to a bound query, in the steps that need its tree.

A tree exists in one process only. Other processes get the operation, the tables it names and the
bound query, all of which are values that can be sent. The text of a view is parsed where the
statement that reads it is, once for each use, and its tables are numbered after the statement's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sql import errors
from sql.dialect import (
    multi_inserts,
    operations,
    parse,
    references,
    resolve,
    shapes,
    sqltypes,
    views,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What must be read from the catalog before a statement is bound. See `references`."""

    uses: tuple[shapes.TableUse, ...]
    wants_bounds: bool
    sequences: tuple[shapes.SequenceUse, ...] = ()


class ParsedStatement:
    """A parsed statement. Mutable: finding its tables numbers them in its tree."""

    def __init__(self, text: str) -> None:
        self.operation = parse.parse(text)
        self._tree = _tree_of(self.operation)
        self._views: dict[int, operations.Tree] = {}
        self._uses = 0

    @property
    def portable_operation(self) -> operations.Operation:
        """The operation with ELSEWHERE for its tree."""
        return _without_tree(self.operation)

    def needs(self, environment: shapes.Environment) -> Needs:
        """Return the tables and names of the statement's query; raises SqlError.

        Calling it again forgets the views that were expanded.
        """
        self._views.clear()
        self._uses = 0
        needs = self._needs_of(self._tree, environment)
        if needs.sequences:
            self._check_numbered()
        return needs

    def _check_numbered(self) -> None:
        """Raise SqlError for a statement that takes no numbers of sequences for its rows."""
        operation = self.operation
        if isinstance(operation, operations.Explain):
            operation = operation.statement
        if isinstance(operation, operations.ChangeRows):
            raise errors.unsupported("NEXTVAL in UPDATE, DELETE or MERGE")
        if isinstance(operation, operations.InsertAll):
            raise errors.unsupported("NEXTVAL in a multi-table INSERT")
        if isinstance(operation, operations.CreateView):
            raise errors.unsupported("NEXTVAL in a view")

    def expand(self, environment: shapes.Environment, use: int, text: str) -> Needs:
        """Return the tables and names of the view that the table use `use` refers to.

        text: the view's query. Raises SqlError for one that is no query of Snowflake's language.
        Call `needs` first.
        """
        operation = parse.parse(text)
        if not isinstance(operation, operations.Query):
            raise errors.unsupported("a view whose text is no query")
        views.check_query(operation.tree)
        # A view has no binds and no variables, so its AT and BEFORE see none either.
        plain = dataclasses.replace(environment, binds={}, variables={}, rows_relation="")
        needs = self._needs_of(operation.tree, plain)
        if needs.sequences:
            raise errors.unsupported("NEXTVAL in a view")
        self._views[use] = operation.tree
        return needs

    def _needs_of(self, tree: operations.Tree, environment: shapes.Environment) -> Needs:
        uses = references.references(tree, environment, first=self._uses)
        self._uses += len(uses)
        return Needs(
            uses=uses,
            wants_bounds=references.wants_bounds(tree),
            sequences=references.sequence_uses(tree),
        )

    def bind_count(self, environment: shapes.Environment) -> int:
        """Return the number of values for the placeholders; raises SqlError as `needs` does."""
        self.needs(environment)
        return references.bind_count(self._tree)

    def bind_query(self, environment: shapes.Environment) -> resolve.BoundQuery:
        """Return the query bound; raises SqlError. Call `needs` first."""
        return resolve.bind_query(self._tree, environment, self._views)

    def bind_into(
        self, environment: shapes.Environment, targets: Sequence[sqltypes.SqlType]
    ) -> resolve.BoundQuery:
        """Return the query bound as rows of these types; raises SqlError. Call `needs` first."""
        return resolve.bind_into(self._tree, environment, targets, self._views)

    def bind_changes(
        self, environment: shapes.Environment, targets: Sequence[sqltypes.SqlType]
    ) -> resolve.BoundQuery:
        """Return the SELECT of a change bound; raises SqlError. Call `needs` first."""
        return resolve.bind_changes(self._tree, environment, targets, self._views)

    def bind_source(self, environment: shapes.Environment) -> resolve.BoundQuery:
        """Return the query of a multi-table INSERT bound; raises SqlError. Call `needs` first."""
        return resolve.bind_query(self._tree, environment, self._views)

    def bind_clause(
        self, environment: shapes.Environment, number: int, targets: Sequence[sqltypes.SqlType]
    ) -> resolve.BoundQuery:
        """Return an INTO clause of a multi-table INSERT bound as rows of these types.

        environment: its only table is the relation of the source's rows.
        """
        assert isinstance(self.operation, operations.InsertAll)
        tree = multi_inserts.select_of(self.operation.selects, number)
        references.references(tree, environment)
        if tree.args.get("where") is not None:
            resolve.check_stable(tree.args["where"].this, tree, environment)
        return resolve.bind_into(tree, environment, targets)


TREES = {
    operations.Query: "tree",
    operations.Insert: "source",
    operations.ChangeRows: "tree",
    operations.InsertAll: "source",
    operations.CreateTable: "query",
    operations.CreateView: "query",
    operations.SetVariables: "values",
}


def _without_tree(operation: operations.Operation) -> operations.Operation:
    if isinstance(operation, operations.Explain):
        return dataclasses.replace(operation, statement=_without_tree(operation.statement))
    name = TREES.get(type(operation))
    if name is None or getattr(operation, name) is None:
        return operation
    changes: dict[str, Any] = {name: operations.ELSEWHERE}
    if isinstance(operation, operations.InsertAll):
        changes["selects"] = operations.ELSEWHERE
    return dataclasses.replace(operation, **changes)


def _tree_of(operation: operations.Operation) -> operations.Tree:
    if isinstance(operation, operations.Explain):
        return _tree_of(operation.statement)
    name = TREES.get(type(operation))
    return None if name is None else getattr(operation, name)
