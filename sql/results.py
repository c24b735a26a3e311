"""engine: stored results as relations of a query: RESULT_SCAN, and `$1` after `->>`.

A result is read back from the cells that were encoded for its client (`sql.decode`), so that SHOW,
DESCRIBE and DML have results as SELECT has. Only the owner of a result reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import pyarrow as pa

from sql import decode, engine, errors, ipc, limits, outcomes, sessions, shelves, statement_log
from sql.dialect import shapes
from storage import model

Format: TypeAlias = Literal["arrow", "json"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredResult:
    """The encoded rows of a finished query. inline: bytes of the format, b"" for no rows."""

    columns: Sequence[outcomes.Column]
    format: Format
    inline: bytes
    chunks: tuple[shelves.ShelvedBytes, ...]

    @property
    def size_bytes(self) -> int:
        return len(self.inline) + sum(chunk.size_bytes for chunk in self.chunks)


class StoredResults(Protocol):
    """Finds stored results; implemented by `sql.queries`."""

    async def stored(self, session: sessions.Session, query_id: str) -> StoredResult:
        """Return a result of the session's user, as soon as its query has ended.

        Raises SqlError 000709 for one that is not stored, and the error of a query that failed.
        """

    def recorded(
        self, session: sessions.Session, *, sees_all: bool
    ) -> list[statement_log.RecordedStatement]:
        """Return the statements of the session's user, or of all users, that ran or run."""


def check_size(size_bytes: int) -> None:
    """Raise SqlError if the results that one statement reads are too large together."""
    if size_bytes > limits.SCANNED_RESULT_BYTES_MAX:
        raise errors.resources_exhausted(
            f"the results that a statement reads by RESULT_SCAN or $1 have at most "
            f"{limits.SCANNED_RESULT_BYTES_MAX >> 20} MiB together"
        )


async def relation(
    result: StoredResult, name: str, *, zone: str
) -> tuple[shapes.TableShape, engine.Relation]:
    """Return a result as a table's shape and its relation. zone: in which instants are shown.

    The caller has checked the size with `check_size`.
    """
    if result.chunks or len(result.inline) > limits.RESULT_THREAD_BYTES_MIN:
        return await asyncio.to_thread(_relation, result, name, zone)
    return _relation(result, name, zone)


def _relation(
    result: StoredResult, name: str, zone: str
) -> tuple[shapes.TableShape, engine.Relation]:
    columns = [
        shapes.ShapeColumn(name=f"c{index}", type=decode.sql_type(column), nullable=column.nullable)
        for index, column in enumerate(result.columns)
    ]
    schema = pa.schema(
        [
            (shape.name, decode.arrow_type(column, zone))
            for shape, column in zip(columns, result.columns, strict=True)
        ]
    )
    chunks = [_bytes_of(chunk.piece) for chunk in result.chunks]
    if result.format == "arrow":
        parts = (result.inline, *chunks)
        tables = [decode.from_arrow(part, result.columns, schema) for part in parts if part]
    else:
        lists = [result.inline, *(b"".join((b"[", chunk, b"]")) for chunk in chunks)]
        tables = [decode.from_json(each, result.columns, schema) for each in lists if each]
    table = pa.concat_tables([schema.empty_table(), *tables])
    shape = shapes.TableShape(
        relation=name,
        path=("", "", ""),
        columns=tuple(columns),
        rows=table.num_rows,
        shown=tuple(column.name for column in result.columns),
    )
    encoded = engine.Relation(
        name=name, schema=ipc.encode_schema(schema), rows=ipc.encode_rows(table)
    )
    return shape, encoded


def _bytes_of(piece: bytes | memoryview | model.FileSlice) -> bytes | memoryview:
    if not isinstance(piece, model.FileSlice):
        return piece
    with piece.path.open("rb") as file:
        file.seek(piece.offset)
        return file.read(piece.length)
