"""rule: the result of a statement, independent of its encoding.

An engine returns Arrow record batches, in its own Arrow types, and one `Column` per result column
with Snowflake's type. `sql.encode` encodes both as the protocol's cells. Other statements than
SELECT (SHOW, DESCRIBE, DML, DDL) return `rows` of Python values, because drivers expect JSON for
them. A describe returns columns, without batches and rows.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from sql import transfers

LogicalType = Literal[
    "fixed",
    "real",
    "text",
    "boolean",
    "date",
    "time",
    "timestamp_ntz",
    "timestamp_ltz",
    "timestamp_tz",
    "binary",
    "variant",
    "object",
    "array",
    "interval_year_month",
    "interval_day_time",
]

TEXT_LENGTH_MAX = 16_777_216
BINARY_LENGTH_MAX = 8_388_608


class StatementType(enum.IntEnum):
    """Snowflake's numbers for types of statements; drivers branch on them."""

    SELECT = 0x1000
    EXPLAIN = 0x2000
    INSERT = 0x3100
    UPDATE = 0x3200
    DELETE = 0x3300
    MERGE = 0x3400
    MULTI_TABLE_INSERT = 0x3500
    COPY = 0x3600
    UNLOAD = 0x3700
    ALTER_SESSION = 0x4100
    USE = 0x4300
    USE_DATABASE = 0x4301
    USE_SCHEMA = 0x4302
    USE_WAREHOUSE = 0x4303
    SHOW = 0x4400
    DESCRIBE = 0x4500
    LIST = 0x4701
    BEGIN = 0x5000
    COMMIT = 0x5100
    DDL = 0x6000
    GET = 0x7101
    PUT = 0x7102
    REMOVE = 0x7103
    CALL = 0x9000
    MULTI_STATEMENT = 0xA000


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One result column.

    name: as the client shall see it. fixed needs precision and scale; time and timestamps take
    scale (digits of the second, 0 to 9; None means 9); intervals take precision (digits of the
    leading field) and scale (the place of the span, `sql.intervals`); text and binary take length
    (characters, bytes) and text byte_length; None means the largest.
    """

    name: str
    type: LogicalType
    nullable: bool = True
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    byte_length: int | None = None
    database: str = ""
    schema: str = ""
    table: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stats:
    """How many rows a DML statement (or CTAS) changed."""

    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    dml_duplicates: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedRows:
    """Rows as `sql.encode.arrow_stream` encodes them."""

    rows: int
    data: memoryview


RowGroup: TypeAlias = pa.RecordBatch | EncodedRows


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The answer to one statement.

    batches: record batches whose columns stand in the order of columns (their names do not matter).
    What may come per type: fixed: any integer or decimal; real: any float or integer; text: utf8,
    large_utf8, utf8_view; boolean: bool; date: date32 or date64; time: time32, time64;
    timestamp_ntz and _ltz: timestamp of any unit (a zone on it means the instant is UTC);
    timestamp_tz: timestamp (offset 0), struct{instant: timestamp, offset_minutes: int32}, or the
    decimal of `sql.zoned_kernels`;
    interval_year_month: integers, months; interval_day_time: integers or decimals, nanoseconds;
    binary: binary, large_binary, binary_view, fixed_size_binary; variant, object, array: JSON text.
    Dictionary-encoded columns and Arrow nulls are welcome everywhere. Empty batches are welcome.
    encode: called before the batches are taken, it lets their engine encode what is not among a
    result's first rows: EncodedRows may follow the batches. Without the call there are none.

    rows: one sequence of Python values per row: int or Decimal, float, str, bool, datetime.date,
    datetime.time, datetime.datetime (timestamps; aware for _ltz and _tz), bytes, JSON text, None.

    statement_type_id: a StatementType. database, schema, warehouse, role: the context after the
    statement in stored spelling; None means the session's. bind_count: placeholders in the text.
    array_bind_supported: whether its binds may be lists. transfer: the files
    of PUT and GET, which the client moves. is_secret: the rows contain a credential. Only the
    session that ran the statement may have such rows, or the keys of a transfer.
    """

    columns: Sequence[Column]
    statement_type_id: int
    batches: AsyncIterator[RowGroup] | None = None
    encode: Callable[[], None] | None = None
    rows: Sequence[Sequence[Any]] | None = None
    database: str | None = None
    schema: str | None = None
    warehouse: str | None = None
    role: str | None = None
    stats: Stats | None = None
    bind_count: int = 0
    array_bind_supported: bool = False
    transfer: transfers.Transfer | None = None
    is_secret: bool = False


def status(
    text: str, statement_type_id: int = StatementType.DDL, *, stats: Stats | None = None
) -> Outcome:
    """Return the answer of a statement that has nothing to show but that it was done."""
    column = Column(name="status", type="text", length=TEXT_LENGTH_MAX)
    return Outcome(
        columns=(column,), rows=((text,),), statement_type_id=statement_type_id, stats=stats
    )


DML_COLUMNS = {
    "inserted": "number of rows inserted",
    "updated": "number of rows updated",
    "multi_joined": "number of multi-joined rows updated",
    "deleted": "number of rows deleted",
}


def changed_rows(statement_type_id: int, stats: Stats, **counts: int) -> Outcome:
    """Return the answer of a DML statement; counts by the keys of DML_COLUMNS, in column order.

    Drivers sum the cells of these columns into rowcount, by their exact names.
    """
    columns = tuple(
        Column(name=DML_COLUMNS[key], type="fixed", nullable=False, precision=19, scale=0)
        for key in counts
    )
    return Outcome(
        columns=columns,
        rows=(tuple(counts.values()),),
        statement_type_id=statement_type_id,
        stats=stats,
    )


def already_dropped(shown: str) -> Outcome:
    """Return the answer of DROP ... IF EXISTS for an object that does not exist."""
    return status(f"Drop statement executed successfully ({shown} already dropped).")
