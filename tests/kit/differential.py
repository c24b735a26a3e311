"""One query on Boathouse's SQL and on DuckDB over the same rows, and where the answers differ."""

from __future__ import annotations

import collections
import math
from dataclasses import dataclass, field
from typing import Any

import duckdb

from sql import errors
from tests.kit import lakes, local_sql, typed_queries

SHRINK_STEPS_MAX = 600
CLOSE = 1e-12
"""How far inexact floats may lie apart, in parts of the larger one or of 1."""


@dataclass(kw_only=True)
class Tally:
    """What a run of queries came to."""

    queries: int = 0
    answered: int = 0
    rows: int = 0
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    failed: collections.Counter[str] = field(default_factory=collections.Counter)
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Rows, or a refusal of the binder, or the error of a query that ran."""

    rows: tuple[tuple[Any, ...], ...] = ()
    refusal: str = ""
    error: str = ""
    types: tuple[tuple[str, int | None], ...] = ()


class Comparison:
    """Both engines over the rows of `typed_queries`. Mutable: it holds DuckDB's connection."""

    def __init__(self, local: local_sql.LocalSql) -> None:
        self._local = local
        self._duckdb = duckdb.connect(":memory:", config={"threads": 1})
        self._duckdb.execute("set order_by_non_integer_literal = true")
        for macro in typed_queries.MACROS:
            self._duckdb.execute(macro)

    async def create_tables(self, *, marked_version: int | None = None) -> None:
        """Create the tables in both; each non-empty one has two data files here.

        marked_version: the format version of tables one of whose data files has as many deleted
        rows as others, which delete files name.
        """
        columns = typed_queries.COLUMNS
        for table in typed_queries.TABLES:
            ours = ", ".join(
                f"{name} {column_type.ours}{' not null' * (name in typed_queries.REQUIRED)}"
                for name, column_type, _ in columns
            )
            theirs = ", ".join(f"{name} {column_type.theirs}" for name, column_type, _ in columns)
            await self._local.run(f"create table {table} ({ours})")
            self._duckdb.execute(f"create table {table} ({theirs})")
            if marked_version is not None:
                await self._mark_deletes(table, marked_version)
            rows = typed_queries.rows(table)
            for number, part in enumerate((rows[::2], rows[1::2])):
                if part:
                    values = ", ".join(f"({row})" for row in part)
                    self._duckdb.execute(f"insert into {table} values {values}")
                    if marked_version is not None and number == 0:
                        values = ", ".join(f"({row}), (-1{row})" for row in part)
                    await self._local.run(f"insert into {table} select * from values {values}")
            await self._local.run(f"delete from {table} where id < 0")

    async def _mark_deletes(self, table: str, format_version: int) -> None:
        await self._local.lake.tables.commit(
            self._local.lake.ident(f"ns.{table}"),
            [],
            [
                {"action": "upgrade-format-version", "format-version": format_version},
                {"action": "set-properties", "updates": {"write.delete.mode": "merge-on-read"}},
            ],
            by=lakes.BY,
        )

    async def run(self, seed: int, tally: Tally) -> None:
        """Run the query of seed on both, and count what came of it."""
        query = typed_queries.Generator(seed).statement()
        tally.queries += 1
        ours, theirs = await self._answers(query.node)
        if ours.refusal:
            tally.refused[ours.refusal] += 1
        elif ours.error and theirs.error:
            tally.failed[ours.error] += 1
        elif reason := difference(query, ours, theirs):
            tally.differences.append(await self._shrunk(seed, query, reason))
        else:
            tally.answered += 1
            tally.rows += len(ours.rows)

    async def _answers(self, node: typed_queries.Node) -> tuple[Answer, Answer]:
        our_text, their_text = node.texts()
        return await self._ours(our_text), self._theirs(their_text)

    async def _ours(self, text: str) -> Answer:
        try:
            outcome = await self._local.run(text)
            assert outcome.batches is not None
            rows: list[tuple[Any, ...]] = []
            async for batch in outcome.batches:
                columns = (column.to_pylist() for column in batch.columns)
                rows += zip(*columns, strict=True)
        except errors.SqlError as error:
            shown = f"{error.code} {error.message.splitlines()[-1]}"
            if error.phase == "COMPILATION":
                return Answer(refusal=shown)
            return Answer(error=shown)
        types = tuple((column.type, column.scale) for column in outcome.columns)
        return Answer(rows=tuple(rows), types=types)

    def _theirs(self, text: str) -> Answer:
        try:
            return Answer(rows=tuple(self._duckdb.execute(text).fetchall()))
        except duckdb.Error as error:
            return Answer(error=str(error))

    async def _shrunk(self, seed: int, query: typed_queries.Query, reason: str) -> str:
        """Return a smaller query that differs in the same way, with both answers."""
        node, word = query.node, reason.split(":")[0]
        answers = await self._answers(node)
        steps = 0
        is_smaller = True
        while is_smaller and steps < SHRINK_STEPS_MAX:
            is_smaller = False
            for less in typed_queries.smaller(node):
                steps += 1
                if steps >= SHRINK_STEPS_MAX:
                    break
                if less.size() > node.size() or less == node:
                    continue
                ours, theirs = await self._answers(less)
                if ours.refusal or (ours.error and theirs.error):
                    continue
                text = difference(None, ours, theirs)
                if text.split(":")[0] == word:
                    node, answers, reason, is_smaller = less, (ours, theirs), text, True
                    break
        our_text, their_text = node.texts()
        return "\n".join(
            (
                f"seed {seed}: {reason}",
                f"  Boathouse: {our_text}",
                f"    {answers[0].error or _shown(answers[0].rows)}",
                f"  DuckDB:    {their_text}",
                f"    {answers[1].error or _shown(answers[1].rows)}",
            )
        )


def _shown(rows: tuple[tuple[Any, ...], ...]) -> str:
    return f"{len(rows)} rows: " + ", ".join(repr(row) for row in rows[:12])


def difference(query: typed_queries.Query | None, ours: Answer, theirs: Answer) -> str:
    """Return how the answers differ, or "". Without a query, rows have no order or types."""
    if ours.error:
        return "an error here alone: " + ours.error
    if theirs.error:
        return "an error there alone: " + theirs.error
    if len(ours.rows) != len(theirs.rows):
        return f"rows: {len(ours.rows)} here, {len(theirs.rows)} there"
    if query is not None:
        for i, column in enumerate(query.columns):
            name, scale = ours.types[i]
            expected = column.type
            if TYPES[expected.name] != name:
                return f"types: column {i + 1} is {name}, not {expected.name}"
            if expected.name == "number" and scale != expected.scale:
                return f"types: column {i + 1} has scale {scale}, not {expected.scale}"
        if query.is_ordered:
            for one, other in zip(ours.rows, theirs.rows, strict=True):
                if not _are_equal_rows(one, other):
                    return f"rows: {one!r} stands where {other!r} stands there"
    return _unmatched(ours.rows, theirs.rows)


TYPES = {
    "number": "fixed",
    "varchar": "text",
    "boolean": "boolean",
    "float": "real",
    "date": "date",
    "timestamp_ntz": "timestamp_ntz",
    "time": "time",
}


def _unmatched(ours: tuple[tuple[Any, ...], ...], theirs: tuple[tuple[Any, ...], ...]) -> str:
    left = collections.defaultdict(list)
    for row in theirs:
        left[_exact_part(row)].append(row)
    for row in ours:
        candidates = left[_exact_part(row)]
        for i, other in enumerate(candidates):
            if _are_equal_rows(row, other):
                del candidates[i]
                break
        else:
            return f"rows: {row!r} here alone"
    return ""


def _exact_part(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(None if isinstance(cell, float) else cell for cell in row)


def _are_equal_rows(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(map(_are_equal, one, other))


def _are_equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        if math.isinf(one) or math.isinf(other):
            return one == other
        return one == other or abs(one - other) <= CLOSE * max(1.0, abs(one), abs(other))
    return type(one) is bool and one is other if type(other) is bool else bool(one == other)
