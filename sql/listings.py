"""rule: listings as relations: a table of columns, and a value of each column for each object.

SHOW commands (`sql.show_listings`) and the views of INFORMATION_SCHEMA (`sql.information_views`)
are listings. Objects come from `sql.show` and `sql.information_schema`, which leave out what the
caller may not see; no row exists for another object. Never decides what an object is.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sql import descriptions, fileformats, keys, limits, outcomes, stagerows
from sql.dialect import builders, names, operations

if TYPE_CHECKING:
    from catalog import idents, sequences

Row = tuple[Any, ...]
Value = Callable[[Any], Any]
ColumnType = Literal["text", "number", "moment"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedColumn:
    """A column of a listing. value: returns its value for an object."""

    name: str
    type: ColumnType
    value: Value


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedDatabase:
    """name: as stored."""

    name: str
    created_at_ms: int
    is_default: bool = False
    is_current: bool = False
    comment: str = ""
    dropped_at_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedSchema:
    """database, name: as stored. created_at_ms: None for INFORMATION_SCHEMA in its own views.

    dropped_at_ms: of a dropped schema.
    """

    database: str
    name: str
    created_at_ms: int = 0
    is_current: bool = False
    comment: str = ""
    dropped_at_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedColumnOf:
    """A column of a table or view. position: from 1."""

    table: descriptions.Description
    column: descriptions.ColumnDescription
    position: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedKeyColumn:
    """A column of a key. position: from 1. referenced: the other table's column, if foreign."""

    table: descriptions.Description
    key: keys.KeyDescription
    column: str
    position: int
    referenced: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedReference:
    """A foreign key of a table. referenced_name: of the key that it references, if it is listed."""

    table: descriptions.Description
    key: keys.KeyDescription
    referenced_name: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedKey:
    """A key of a table."""

    table: descriptions.Description
    key: keys.KeyDescription


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedSequence:
    """A sequence. may_describe: the caller may see its numbers and its comment."""

    database: str
    namespace: idents.Namespace
    state: sequences.SequenceState
    may_describe: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedStaging:
    """A stage or a file format. file_format: of a file format, and of a stage that has one."""

    row: stagerows.StagingRow
    region: str
    file_format: fileformats.FileFormat | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedRole:
    """A role of INFORMATION_SCHEMA. grantee: the user who may be in it."""

    name: str
    grantee: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedFunction:
    """A function that user text may call."""

    name: str
    function: builders.Function


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedParameter:
    """A session parameter; value and default as texts."""

    name: str
    value: str
    default: str
    is_set: bool
    description: str
    type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedVariable:
    """A session variable."""

    session_id: int
    name: str
    value: str | None
    type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedWarehouse:
    """A warehouse. options: by Snowflake's names. created_at_ms: None of one that nothing made.

    running, waiting: numbers of queries.
    """

    name: str
    is_current: bool
    options: Mapping[str, Any]
    created_at_ms: int | None = None
    changed_at_ms: int | None = None
    owner: str = ""
    running: int = 0
    waiting: int = 0


def text(name: str, value: Value | str | None = "") -> ListedColumn:
    """Return a column of texts. value: a function of the object, or the same for each."""
    return _column(name, "text", value)


def number(name: str, value: Value | int | None = None) -> ListedColumn:
    """Return a column of whole numbers."""
    return _column(name, "number", value)


def moment(name: str, value: Value | None = None) -> ListedColumn:
    """Return a column of instants. value: returns milliseconds since 1970, or None."""
    if value is None:
        return _column(name, "moment", None)
    return _column(name, "moment", lambda each: _instant(value(each)))


def _column(name: str, column_type: ColumnType, value: Any) -> ListedColumn:
    if callable(value):
        return ListedColumn(name=name, type=column_type, value=value)
    return ListedColumn(name=name, type=column_type, value=lambda each: value)


def _instant(ms: int | None) -> datetime.datetime | None:
    if ms is None:
        return None
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)


def row(columns: Sequence[ListedColumn], each: Any) -> Row:
    """Return the row of an object."""
    return tuple(column.value(each) for column in columns)


def result_column(column: ListedColumn) -> outcomes.Column:
    """Return a column as SHOW's answer has it."""
    match column.type:
        case "moment":
            return outcomes.Column(name=column.name, type="timestamp_ltz", scale=3)
        case "number":
            return outcomes.Column(name=column.name, type="fixed", precision=38, scale=0)
    return outcomes.Column(name=column.name, type="text")


def page(
    objects: Iterable[Any], name_of: Value, statement: operations.Show, *, is_sorted: bool
) -> list[Any]:
    """Return the objects that the filters and the LIMIT of SHOW leave.

    name_of: returns what LIKE, STARTS WITH and LIMIT FROM compare. is_sorted: by that name.
    """
    named = [(str(name_of(each)), each) for each in objects]
    if statement.like is not None:
        pattern = names.like_pattern(statement.like)
        named = [pair for pair in named if pattern.fullmatch(pair[0])]
    if statement.starts_with is not None:
        named = [pair for pair in named if pair[0].startswith(statement.starts_with)]
    if statement.limit_from is not None:
        named = [pair for pair in named if pair[0] > statement.limit_from]
    if is_sorted:
        named.sort(key=lambda pair: pair[0])
    count_max = limits.SHOWN_ROWS_MAX
    if statement.limit is not None:
        count_max = min(count_max, statement.limit)
    return [each for _, each in named[:count_max]]
