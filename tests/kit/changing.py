"""Random statements of `random_changes` on Boathouse and DuckDB, which both have the same rows."""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb

from sql import errors
from tests.kit import datafiles, lakes, local_sql, random_changes

NAMES: Final = ("t0", "t1", "t2")
MARKING: Final = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
REFUSALS: Final = re.compile(
    r"002262 cannot drop column|002108 cannot change column \w+ from type NUMBER\(38,0\)"
)
"""What Boathouse refuses and DuckDB does: to drop a column of partitions, and to widen a whole
NUMBER of a query's, which CREATE TABLE ... AS makes one of 38 digits."""
TRANSACTION_SHARE: Final = 0.08
ROLLBACK_SHARE: Final = 0.4


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What a table held after a statement, whose id it was. theirs: DuckDB's copy of the rows."""

    table: random_changes.Table
    query_id: str
    theirs: str


@dataclass(kw_only=True)
class Tally:
    """What a run came to. refused: errors of both engines, by Boathouse's code."""

    steps: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    rows: int = 0


class Difference(AssertionError):
    """The engines do not agree."""


class Run:
    """One seed's tables in both engines. Mutable: it holds DuckDB's connection and a generator."""

    def __init__(self, local: local_sql.LocalSql, seed: int, tally: Tally) -> None:
        self._local = local
        self._rng = random.Random(seed)
        self._generator = random_changes.Generator(rng=self._rng)
        self._duckdb = duckdb.connect(":memory:", config={"threads": 1})
        self._tally = tally
        self._texts: list[str] = []
        self._moments: list[Moment] = []
        self._copies = 0
        self._is_open = False
        self._rows: dict[str, list[str]] = {}
        self._changed = ""

    async def run(self, steps: int, folder: Path | None = None) -> None:
        """Run steps. folder: where PyIceberg finds the tables in the end. Raises Difference."""
        for number, name in enumerate(NAMES):
            table = self._generator.table(name)
            ours, theirs = self._generator.creation(table)
            if error := await self._ours(ours):
                raise self._difference(error)
            self._duckdb.execute(theirs)
            self._generator.tables[name] = table
            await self._lay_out(name, number)
        await self.run_more(steps)
        if self._is_open:
            await self._end()
        for table in self._generator.tables.values():
            await self._compare(table)
            if folder is not None:
                self._read_back(table, folder)

    async def run_more(self, steps: int) -> None:
        """Run steps over the tables that the steps of before left. Raises Difference."""
        for _ in range(steps):
            await self._step()

    @property
    def tables(self) -> dict[str, random_changes.Table]:
        """The tables as they are now, by name."""
        return self._generator.tables

    async def _lay_out(self, name: str, number: int) -> None:
        version = self._rng.choice((0, 2, 3))
        if version:
            await self._local.lake.tables.commit(
                self._local.lake.ident(f"ns.{name}"),
                [],
                [
                    {"action": "upgrade-format-version", "format-version": version},
                    {"action": "set-properties", "updates": MARKING if number else {}},
                ],
                by=lakes.BY,
            )

    async def _step(self) -> None:
        if self._is_open and self._rng.random() < 2.5 * TRANSACTION_SHARE:
            await self._end()
        elif not self._is_open and self._rng.random() < TRANSACTION_SHARE:
            await self._begin()
        counts = {
            name: self._their_rows(f"select count(*) from {name}")[0][0]
            for name in self._generator.tables
        }
        step = self._generator.step(counts)
        if not step.is_change and self._is_open:
            await self._end(commits=True)
        self._tally.steps += 1
        error = await self._ours(step.ours)
        if REFUSALS.match(error):
            self._tally.refused[error] += 1
            return
        failure = self._theirs(step.theirs)
        if bool(error) != bool(failure):
            raise self._difference(f"here {error or 'no error'}, there {failure or 'none'}")
        if error:
            self._tally.refused[error] += 1
        else:
            self._generator.tables |= {each.name: each for each in step.tables}
            if not step.is_change:
                names = {each.name for each in step.tables}
                self._moments = [each for each in self._moments if each.table.name not in names]
        before = self._rows.get(step.tables[0].name)
        for table in self._generator.tables.values():
            await self._compare(table)
        has_changed = before not in (None, self._rows[step.tables[0].name])
        if (
            not error
            and has_changed
            and step.is_change
            and not self._is_open
            and self._rng.random() < 0.3
        ):
            self._remember(self._generator.tables[step.tables[0].name])
        if self._rng.random() < 0.3:
            await self._ask(self._rng.choice(tuple(self._generator.tables.values())))
        if self._moments and self._rng.random() < 0.1 and not self._is_open:
            await self._look_back(self._rng.choice(self._moments))

    # Transactions

    async def _begin(self) -> None:
        await self._ours("begin")
        self._is_open = True
        for name in self._generator.tables:
            self._duckdb.execute(f"create or replace table before_{name} as select * from {name}")

    async def _end(self, *, commits: bool = False) -> None:
        self._is_open = False
        if not commits and self._rng.random() < ROLLBACK_SHARE:
            await self._ours("rollback")
            for name in self._generator.tables:
                self._duckdb.execute(f"delete from {name}")
                self._duckdb.execute(f"insert into {name} select * from before_{name}")
            return
        # A definition commits what is open by itself.
        is_said = not commits or self._rng.random() < 0.5
        if is_said and (error := await self._ours("commit")):
            raise self._difference(f"COMMIT: {error}")

    # Time travel

    def _remember(self, table: random_changes.Table) -> None:
        name = f"moment_{self._copies}"
        self._copies += 1
        self._duckdb.execute(f"create table {name} as select * from {table.name}")
        moment = Moment(table=table, query_id=self._local.last_id, theirs=name)
        # The statement is the last one that changed the table; its id stands before _compare's.
        self._moments.append(dataclasses.replace(moment, query_id=self._changed))

    async def _look_back(self, moment: Moment) -> None:
        table = moment.table
        where = f"{table.name} at(statement => '{moment.query_id}')"
        if self._rng.random() < 0.3:
            await self._clone_back(moment, where)
            return
        await self._compare(table, ours=where, theirs=moment.theirs)

    async def _clone_back(self, moment: Moment, where: str) -> None:
        table = self._generator.tables[moment.table.name]
        assert table == moment.table
        if error := await self._ours(f"create or replace table {table.name} clone {where}"):
            raise self._difference(error)
        self._duckdb.execute(f"delete from {table.name}")
        self._duckdb.execute(f"insert into {table.name} select * from {moment.theirs}")
        self._moments = [each for each in self._moments if each.table.name != table.name]
        await self._compare(table)

    # Queries

    async def _ask(self, table: random_changes.Table) -> None:
        """Compare what files are skipped for, and what metadata or statistics answer."""
        keys = [each for each in table.columns if each.type.is_key]
        aggregates = ["count(*)", "min(id)", "max(id)", "sum(id)"]
        aggregates += [f"count({each.name})" for each in table.columns]
        for each in keys:
            if each.type.name not in "bxf":
                aggregates += [f"min({each.name})", f"max({each.name})"]
        chosen = self._rng.sample(aggregates, min(3, len(aggregates)))
        scope = {table.name: table}
        where = self._generator.condition(scope, subqueries=self._rng.random() < 0.3)
        suffix = random_changes.Pair(ours="", theirs="")
        if self._rng.random() < 0.7:
            suffix = where.within(" where {}")
        text = f"select {', '.join(chosen)} from {table.name}"
        await self._compare_query(text + suffix.ours, text + suffix.theirs)
        text = f"select id from {table.name}{{}} order by id limit 7"
        await self._compare_query(text.format(suffix.ours), text.format(suffix.theirs))
        if keys:
            key = self._rng.choice(keys).name
            text = f"select {key}, count(*), min(id) from {table.name}{{}} group by {key}"
            await self._compare_query(text.format(suffix.ours), text.format(suffix.theirs))
        question = self._generator.question(table, suffix)
        await self._compare_query(question.ours, question.theirs)

    async def _compare_query(self, ours: str, theirs: str) -> None:
        try:
            expected = self._their_rows(theirs)
        except duckdb.Error as failure:
            if not await self._ours(ours):
                raise self._difference(f"an error there alone: {failure}\n{theirs}") from failure
            return
        self._texts.append(ours)
        try:
            actual = await self._local.rows(ours)
        except errors.SqlError as error:
            raise self._difference(f"{error.code} {error.message}") from error
        self._texts.pop()
        self._check(actual, expected, ours)

    # The engines

    async def _ours(self, text: str) -> str:
        """Run a statement; return the code of its error, or nothing."""
        self._texts.append(text)
        self._local.lake.clock.now_ms += 1
        try:
            await self._local.rows(text)
        except errors.SqlError as error:
            return f"{error.code} {error.message.splitlines()[-1]}"
        self._changed = self._local.last_id
        return ""

    def _theirs(self, texts: tuple[str, ...]) -> str:
        self._duckdb.execute("begin")
        try:
            for text in texts:
                self._duckdb.execute(text)
        except duckdb.Error as error:
            self._duckdb.execute("rollback")
            return f"{type(error).__name__} {error}"
        self._duckdb.execute("commit")
        return ""

    def _their_rows(self, text: str) -> list[tuple[Any, ...]]:
        return self._duckdb.execute(text).fetchall()

    async def _compare(
        self, table: random_changes.Table, *, ours: str = "", theirs: str = ""
    ) -> None:
        expected = self._their_rows(
            f"select {table.shown(is_ours=False)} from {theirs or table.name}"
        )
        text = f"select {table.shown(is_ours=True)} from {ours or table.name}"
        try:
            actual = await self._local.rows(text)
        except errors.SqlError as error:
            raise self._difference(f"{text}: {error.code} {error.message}") from error
        self._tally.rows += len(expected)
        self._check(actual, expected, text)
        if not ours:
            self._rows[table.name] = sorted(map(_shown, expected))

    def _check(
        self, actual: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], text: str
    ) -> None:
        ours, theirs = sorted(map(_shown, actual)), sorted(map(_shown, expected))
        if ours != theirs:
            here = [each for each in ours if each not in theirs][:4]
            there = [each for each in theirs if each not in ours][:4]
            raise self._difference(f"{text}\n  here  {here}\n  there {there}")

    def _read_back(self, table: random_changes.Table, folder: Path) -> None:
        loaded = self._local.lake.load(self._local.lake.ident(f"ns.{table.name}"))
        metadata_file = datafiles.bench(self._local.lake).export(loaded, folder)
        plain = [each for each in table.columns if each.type.name not in ("z", "v")]
        names = ["id", *(each.name for each in plain)]
        rows = datafiles.rows_by_pyiceberg(metadata_file, folder)
        actual = [tuple(row[name] for name in names) for row in rows]
        self._check(
            actual, self._their_rows(f"select {', '.join(names)} from {table.name}"), "read"
        )

    def _difference(self, text: str) -> Difference:
        listed = "\n".join(f"  {each};" for each in self._texts)
        return Difference(f"{text}\nafter\n{listed}")


def _shown(row: tuple[Any, ...]) -> str:
    """Return a row as a text, in which equal numbers are equal texts."""
    return ", ".join(map(_cell, row))


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return repr(value + 0.0)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return str(value)


async def check(
    local: local_sql.LocalSql, seed: int, steps: int, tally: Tally, folder: Path | None = None
) -> None:
    """Run a seed's steps over the tables of a lake, which it replaces."""
    await Run(local, seed, tally).run(steps, folder)
