"""rule: what a query reads and makes, as a tree of relations: scans, joins, filters, projections.

A relation is a step: it takes the rows of its source and gives rows. The steps of one SELECT stand
in the order of SQL: RowFilter, Aggregate, RowFilter (HAVING), WindowRows, RowFilter (QUALIFY),
Project, Sort, Limit. Aggregate and window functions stand inside the expressions of the steps above
Aggregate and WindowRows, which say what rows they are computed over. A query in FROM is a Named.
Relations have no text: only the emitters write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sql.plan import code


@dataclass(frozen=True, kw_only=True, slots=True)
class OneRow:
    """The one row, without columns, of a SELECT without FROM."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableScan:
    """A table or a WITH expression. alias: "" for none."""

    relation: str
    alias: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The numbers from 0 to count - 1, in the column `value`."""

    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Values:
    """Rows of expressions."""

    rows: tuple[tuple[code.Part, ...], ...]
    alias: str
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """A query in FROM, or in an expression. alias: "" for none."""

    query: Rel
    alias: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Enclosed:
    """Joined relations, or a query, as one operand: what stands around it does not see inside."""

    source: Rel


@dataclass(frozen=True, kw_only=True, slots=True)
class Join:
    """Two relations of FROM. side: INNER, LEFT, FULL, or CROSS, which has no conditions."""

    left: Rel
    right: Rel
    side: str
    conditions: tuple[code.Part, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFilter:
    """The rows for which a condition is true."""

    source: Rel
    condition: code.Part


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupingSets:
    """One part of GROUP BY that is several sets of keys. word: ROLLUP, CUBE or GROUPING SETS.

    sets: of ROLLUP and CUBE the only one, their keys.
    """

    word: str
    sets: tuple[tuple[code.Part, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Aggregate:
    """Groups of rows; without keys, one group of all rows."""

    source: Rel
    keys: tuple[code.Part | GroupingSets, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowRows:
    """The rows over which the window functions of the steps above are computed."""

    source: Rel


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectItem:
    """A column that a Project computes. name: "" for one that needs no other than it has."""

    value: code.Part
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A select list. keeps_all: the columns of the source come first."""

    source: Rel
    items: tuple[ProjectItem, ...] = ()
    keeps_all: bool = False
    is_distinct: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Unnest:
    """A row for each element of a list, beside other columns of its source.

    columns: those others; listed: the column of lists; row: the name of the element. along: columns
    of further lists, each with the name of its elements, which stand beside the first list's.
    """

    source: Rel
    columns: tuple[str, ...]
    listed: str
    row: str
    along: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SetOp:
    """UNION, EXCEPT or INTERSECT, also with ALL, of queries from left to right."""

    word: str
    branches: tuple[Rel, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sort:
    """Rows in an order. A key is an expression, or the number of a column of the source."""

    source: Rel
    keys: tuple[code.SortKey, ...]


ALL_ROWS = 2**63 - 1
"""The most that the engine takes in LIMIT."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """So many rows after the first `offset` ones. count: ALL_ROWS leaves out none."""

    source: Rel
    count: int | None = None
    offset: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recursive:
    """The rows of anchor, and those that step makes of the rows before until it makes none."""

    anchor: Rel
    step: Rel


@dataclass(frozen=True, kw_only=True, slots=True)
class Common:
    """A WITH expression. columns: the names of its columns."""

    name: str
    columns: tuple[str, ...]
    query: Rel


@dataclass(frozen=True, kw_only=True, slots=True)
class With:
    """A query, and the WITH expressions that it reads."""

    common: tuple[Common, ...]
    query: Rel


Rel: TypeAlias = (
    OneRow
    | TableScan
    | Series
    | Values
    | Named
    | Enclosed
    | Join
    | RowFilter
    | Aggregate
    | WindowRows
    | Project
    | Unnest
    | SetOp
    | Sort
    | Limit
    | Recursive
    | With
)


def set_operation(word: str, branches: Sequence[Rel]) -> SetOp:
    """Return branches joined by a word, deep by the logarithm of their number.

    More than FLAT_MAX branches are of a word that is associative.
    """
    if len(branches) > code.FLAT_MAX:
        middle = len(branches) // 2
        branches = [set_operation(word, branches[:middle]), set_operation(word, branches[middle:])]
    return SetOp(word=word, branches=tuple(branches))


def items(columns: Iterable[tuple[str, code.Part]]) -> tuple[ProjectItem, ...]:
    """Return the items of a Project from names and values."""
    return tuple(ProjectItem(name=name, value=value) for name, value in columns)


def columns(names: Iterable[str]) -> tuple[ProjectItem, ...]:
    """Return the items of a Project that are columns of its source, under their names."""
    return tuple(ProjectItem(value=code.ColumnUse(relation="", name=name)) for name in names)


def starts_enclosed(query: Rel) -> bool:
    """Whether the text of a query begins with a parenthesis."""
    while isinstance(query, Sort | Limit):
        query = query.source
    return isinstance(query, Enclosed | SetOp)


def is_limited(query: Rel) -> bool:
    """Whether LIMIT or OFFSET is the last step of a query."""
    while isinstance(query, With | Enclosed):
        query = query.query if isinstance(query, With) else query.source
    return isinstance(query, Limit)


def without_common(query: Rel) -> tuple[tuple[Common, ...], Rel]:
    """Return the queries of WITH that a query begins with, the outer ones first, and the rest."""
    common: tuple[Common, ...] = ()
    while isinstance(query, With):
        common += query.common
        query = query.query
    return common, query


def with_common(common: tuple[Common, ...], query: Rel) -> Rel:
    """Return a query with a WITH of these queries; none for no queries."""
    return With(common=common, query=query) if common else query


def has_row(rel: Rel) -> bool:
    """Whether a query has a row whatever its tables hold: an aggregate of all rows, or no FROM."""
    while True:
        match rel:
            case Sort() | Project() | WindowRows() | Enclosed():
                rel = rel.source
            case Limit(count=count, offset=offset) if count == ALL_ROWS and not offset:
                rel = rel.source
            case Named() | With():
                rel = rel.query
            case Aggregate(keys=keys):
                return not keys
            case _:
                return isinstance(rel, OneRow)


def has_offset(rel: Rel) -> bool:
    """Whether a SELECT leaves out its first rows."""
    while isinstance(rel, Sort | Limit | Enclosed | Named):
        if isinstance(rel, Limit) and rel.offset:
            return True
        rel = rel.query if isinstance(rel, Named) else rel.source
    return False


def has_grouping_sets(rel: Rel) -> bool:
    """Whether a SELECT groups by ROLLUP, CUBE or GROUPING SETS."""
    while isinstance(rel, Sort | Limit | Project | RowFilter | WindowRows | Enclosed):
        rel = rel.source
    return isinstance(rel, Aggregate) and any(isinstance(key, GroupingSets) for key in rel.keys)


def is_recursive(query: With) -> bool:
    """Whether one of the WITH expressions reads itself."""
    return any(isinstance(common.query, Recursive) for common in query.common)


def is_aggregate(rel: Rel) -> bool:
    """Return whether the rows of a query are groups of rows, or one group of all rows."""
    step: Rel | None = rel
    common: dict[str, Rel] = {}
    while step is not None:
        match step:
            case Aggregate():
                return True
            case TableScan():
                step = common.pop(step.relation, None)
            case With():
                common |= {each.name: each.query for each in step.common}
                step = step.query
            case Sort() | Limit() | Project() | RowFilter() | WindowRows() | Enclosed():
                step = step.source
            case Named():
                step = step.query
            case _:
                step = None
    return False


def groups_most(rel: Rel, rows: Mapping[str, int | None]) -> bool:
    """Return whether a query reads most of its rows to group them.

    These are all rows where the rows of its result are groups; else it joins groups with rows of
    other tables. rows: of each table, by relation, as far as they are known; where one is not, the
    answer is that of the result alone. Subqueries in expressions do not count.
    """
    if is_aggregate(rel):
        return True
    totals = {True: 0, False: 0}
    common: dict[str, Rel] = {}
    seen: set[tuple[str, bool]] = set()
    waiting: list[tuple[Rel, bool]] = [(rel, False)]
    while waiting:
        step, is_grouped = waiting.pop()
        match step:
            case TableScan(relation=relation) if relation in common:
                if (relation, is_grouped) not in seen:
                    seen.add((relation, is_grouped))
                    waiting.append((common[relation], is_grouped))
            case TableScan(relation=relation):
                count = rows.get(relation)
                if count is None:
                    return False
                totals[is_grouped] += count
            case Aggregate():
                waiting.append((step.source, True))
            case Join():
                waiting += [(step.left, is_grouped), (step.right, is_grouped)]
            case SetOp():
                waiting += [(branch, is_grouped) for branch in step.branches]
            case Recursive():
                waiting += [(step.anchor, is_grouped), (step.step, is_grouped)]
            case With():
                common |= {each.name: each.query for each in step.common}
                waiting.append((step.query, is_grouped))
            case Named():
                waiting.append((step.query, is_grouped))
            case OneRow() | Series() | Values():
                pass
            case _:
                waiting.append((step.source, is_grouped))
    return totals[True] > totals[False]
