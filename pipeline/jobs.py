"""rule: what a load has to do, what it would do, and what it did, whichever engine does it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pipeline import errors, reading, settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Merge:
    """How a merging load matches rows. key: columns; order_by: the column by which the newest wins.

    delete_flag: a column of the sources; a row in which it is true removes the table's row.
    order_is_stored: whether order_by is a column of the table.
    """

    key: tuple[str, ...]
    order_by: str | None = None
    delete_flag: str | None = None
    order_is_stored: bool = True

    @property
    def named(self) -> Sequence[tuple[str, str]]:
        """The columns of the sources that options name, each as (option, column)."""
        columns = [("--key", name) for name in self.key]
        columns += [("--order-by", self.order_by)] if self.order_by else []
        columns += [("--delete-flag", self.delete_flag)] if self.delete_flag else []
        return columns

    def stored(self, columns: Iterable[str], live: Iterable[str]) -> Sequence[str]:
        """Return the columns of the sources that the table stores.

        The delete flag, and an order that is not the table's, are stored only where the table has
        them. live: the names of the table's columns.
        """
        unstored = {self.delete_flag, None if self.order_is_stored else self.order_by}
        names = {name.lower() for name in unstored if name is not None}
        names -= {name.lower() for name in live}
        return [name for name in columns if name.lower() not in names]


SOURCE_VIEW = "source"
TARGET_VIEW = "target"
"""What a pipeline's queries call the rows of the sources, and the table as it will be."""

Severity: TypeAlias = Literal["stop", "warn"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlTransform:
    """A SELECT in Spark SQL over the sources and earlier transforms. name: of its rows."""

    name: str
    sql: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlCheck:
    """A SELECT in Spark SQL that returns the rows which must not be. severity: what a row does."""

    name: str
    sql: str
    severity: Severity = "stop"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckOutcome:
    """What a check returned. rows: the first of them, as texts; count: at most ROWS_COUNTED_MAX."""

    name: str
    severity: Severity
    count: int
    rows: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeCounts:
    """Rows of the table that a merge added, changed and removed."""

    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What to load: sources, their reader, table, partitioning, mode and engine.

    relation: the source, if it has rows instead of files; then `places` is empty. types: the
    Iceberg types of columns that a schema names, in its order. merge: for mode `merge`.
    transforms: the last one's rows are loaded instead of the sources'. checks: of the table as it
    will be; nothing is committed if one with severity stop returns a row. on_error: what a row does
    that cannot be read.
    """

    places: tuple[settings.Place, ...]
    reader: reading.SourceReader
    table: settings.TargetTable
    partitions: tuple[settings.PartitionTransform, ...] = ()
    mode: settings.Mode = "append"
    engine: settings.Engine = "auto"
    types: Mapping[str, str] = field(default_factory=dict)
    merge: Merge | None = None
    transforms: tuple[SqlTransform, ...] = ()
    checks: tuple[SqlCheck, ...] = ()
    on_error: settings.OnError = "fail"
    relation: settings.Relation | None = None

    @property
    def noun(self) -> str:
        """What one source of the load is called."""
        match self.relation:
            case None:
                return "object"
            case settings.TableSource():
                return "snapshot"
            case settings.ViewSource() | settings.JdbcSource():
                return "result"
            case settings.KafkaSource():
                return "topic"

    @property
    def digest(self) -> str | None:
        """The SHA-256 of the transforms; None without any."""
        if not self.transforms:
            return None
        text = json.dumps([(each.name, each.sql) for each in self.transforms])
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class StepDone:
    """A step of a load that has ended. rows, size_bytes: what it counted; None if it did not."""

    name: str
    seconds: float
    rows: int | None = None
    size_bytes: int | None = None
    has_failed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What a load did. snapshot_id is None if there was nothing to load.

    rows: added, with a merge also changed. merged: None for other modes. rejected: rows that went
    to the table of rejected rows. bytes_read: of the sources as they are stored; None where they
    have no size. bytes_written: of the new files.
    """

    rows: int
    sources: int
    skipped: int
    files: int
    columns_added: tuple[str, ...]
    snapshot_id: int | None
    engine: str = "none"
    merged: MergeCounts | None = None
    checks: tuple[CheckOutcome, ...] = ()
    rejected: int = 0
    bytes_read: int | None = 0
    bytes_written: int = 0
    steps: tuple[StepDone, ...] = field(default=(), compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedColumn:
    """A column of the table after a load. change: `new`, `was int`, or empty."""

    name: str
    type: str
    change: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadPlan:
    """What a load would do. rows: how many, where that is known without loading.

    rejected: rows that would go to the table of rejected rows.
    """

    engine: str
    creates_table: bool
    mode: settings.Mode
    sources: int
    skipped: int
    size_bytes: int
    rows: int | None
    columns: tuple[PlannedColumn, ...]
    partitions: tuple[str, ...]
    first_rows: tuple[Mapping[str, Any], ...]
    rejected: int = 0


def check_schema(types: Mapping[str, str], live: Mapping[str, str]) -> None:
    """Raise BadArgument if a schema gives a column another type than the live table."""
    by_name = {name.lower(): column_type for name, column_type in live.items()}
    for name, column_type in types.items():
        present = by_name.get(name.lower(), column_type)
        if present != column_type:
            raise errors.BadArgument(
                f"--schema gives column {name!r} the type {column_type}, "
                f"but the table's column has the type {present}"
            )


def in_order(types: Mapping[str, str], columns: Iterable[str]) -> tuple[str, ...]:
    """Return the names of a load's columns: those of a schema first, in its order."""
    rest = {name.lower(): name for name in columns}
    first = tuple(rest.pop(name.lower(), name) for name in types)
    return (*first, *rest.values())


def names_added(before: Iterable[str], after: Iterable[str]) -> tuple[str, ...]:
    """Return the new names of columns, nested ones with dots, without those inside a new one."""
    fresh = sorted(set(after) - set(before))
    return tuple(name for name in fresh if name.rpartition(".")[0] not in fresh)


ROWS_SHOWN_MAX = 5
"""Rows of a plan, and of a check's result."""
ROWS_COUNTED_MAX = 1_000
"""Rows of a check's result that are counted."""


def planned_columns(
    before: Mapping[str, str] | None, after: Mapping[str, str]
) -> tuple[PlannedColumn, ...]:
    """Return the columns of a table. before, after: types by name; before None: a new table."""
    return tuple(
        PlannedColumn(name=name, type=column_type, change=_change(before, name, column_type))
        for name, column_type in after.items()
    )


def _change(before: Mapping[str, str] | None, name: str, column_type: str) -> str:
    if before is None:
        return ""
    if name not in before:
        return "new"
    return "" if before[name] == column_type else f"was {before[name]}"
