"""rule: the binder's inputs: tables, binds, variables and the session's context.

All inputs are one value, so that binding is a function: the clock, the user and the current names
are arguments too.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sql import limits
from sql.dialect import formats, names, sqltypes

ROW: Final = "number of the row"
"""The column, beside a changed table's own, that numbers its rows; `*` does not contain it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShapeColumn:
    """A column of a table. name: as stored. unread: its Iceberg type, if SQL reads no such values.

    The engine has NULLs in the place of those values; what names the column is refused. is_quoted:
    its name was declared in double quotes, and is shown as it is stored.
    """

    name: str
    type: sqltypes.SqlType
    nullable: bool = True
    unread: str = ""
    is_quoted: bool = False

    @property
    def shown(self) -> str:
        """The name that results and DESCRIBE report."""
        return self.name if self.is_quoted else names.shown(self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class TableShape:
    """A table as one reference of the text uses it.

    relation: the name under which the engine knows it. path: its stored database, schema and name.
    rows: how many it has at most, when that is known. shown: of a stored result, the names of its
    columns, which may be the same; the columns' own names are the engine's.
    """

    relation: str
    path: tuple[str, str, str]
    columns: tuple[ShapeColumn, ...]
    rows: int | None = None
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TableUse:
    """One reference to a table in the text. moment: AT or BEFORE, if present.

    result_id: the query whose stored result it is, by RESULT_SCAN or as `$1`; "" for a table.
    is_target: the statement changes the table, and reads it here with the column ROW.
    """

    index: int
    name: names.Name
    moment: Moment | None = None
    result_id: str = ""
    is_target: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceUse:
    """One NEXTVAL in the text. is_per_row: each row of a table takes a number; else there is one
    row.
    """

    name: names.Name
    is_per_row: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """AT or BEFORE.

    parameter: timestamp (value: an aware datetime), offset (seconds), version, ref or statement.
    """

    parameter: str
    value: datetime.datetime | int | str
    before: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Weeks:
    """WEEK_START and WEEK_OF_YEAR_POLICY.

    start: 1 (Monday) to 7 (Sunday); 0: Monday too, but DAYOFWEEK counts from Sunday, which is 0.
    is_of_january: the week of January 1 is a year's first; else the first with four days in it.
    """

    start: int = 0
    is_of_january: bool = False

    @property
    def first_day(self) -> int:
        """Days from a Monday to the next start of a week."""
        return max(self.start - 1, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The session at this statement. now: aware, in the session's zone.

    century_start: the first year that two digits can mean. inputs: None if all of them are AUTO.
    flow_ids: the queries of the statements before it in a flow (`->>`), the nearest last.
    """

    now: datetime.datetime
    database: str | None = None
    schema: str | None = None
    warehouse: str = ""
    role: str = ""
    available_roles: tuple[str, ...] = ()
    ddl_texts: Mapping[tuple[str, str, bool], str] = field(default_factory=dict)
    user: str = ""
    account: str = ""
    ip_address: str = ""
    region: str = ""
    session_id: int = 0
    transaction: str | None = None
    last_transaction: str | None = None
    version: str = ""
    client: str = ""
    query_ids: tuple[str, ...] = ()
    flow_ids: tuple[str, ...] = ()
    timestamp_mapping: str = "TIMESTAMP_NTZ"
    forms: formats.Forms = formats.DEFAULT
    inputs: formats.Inputs | None = None
    weeks: Weeks = field(default_factory=Weeks)
    century_start: int = 1970

    @property
    def zone(self) -> datetime.tzinfo | None:
        """The session's time zone."""
        return self.now.tzinfo

    @property
    def today(self) -> datetime.date:
        """The day in the session's time zone."""
        return self.now.date()

    def query_id_at(self, position: int) -> str | None:
        """Return a query's id by its place in the session: 1 is the oldest, -1 the newest."""
        index = len(self.query_ids) + position if position < 0 else position - 1
        if position == 0 or not 0 <= index < len(self.query_ids):
            return None
        return self.query_ids[index]


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Everything that a text may refer to. binds None: the statement is only described.

    columns_max: how many columns its parts may have together before binding ends with ManyColumns.
    pivots: the values that PIVOTs of unknown values have, by the number of each, as far as they are
    known; None: such a PIVOT is refused. binds and variables hold bound literals by name ("1" for
    the first `?`). rows_relation: array binds are columns of the relation of that name, which a
    SELECT without FROM then reads. numbers: of each NEXTVAL, the first number and the step to the
    next row's. emits_spark: the query's text is wanted in Spark's language, too.
    """

    context: Context
    tables: tuple[TableShape, ...] = ()
    binds: Mapping[str, Any] | None = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    rows_relation: str = ""
    pivots: Mapping[int, tuple[Any, ...]] | None = None
    columns_max: int = limits.COLUMNS_MAX
    numbers: tuple[tuple[int, int], ...] = ()
    emits_spark: bool = False


class ManyColumns(Exception):
    """A statement has more columns than its environment allows, but fewer than the maximum."""
