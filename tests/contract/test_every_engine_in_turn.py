"""Every engine that writes changes one table: its columns, its partitions, and all at once.

Polars and Daft alter no table, except that Polars adds columns with the rows that have them.
iceberg-rust writes nothing from Python, and reads by the schema of the last snapshot: a row follows
each change of columns.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg import types
from pyiceberg.transforms import TruncateTransform

from tests.contract.test_every_engine import EVERY_READER, new_name
from tests.kit import engines as engines_kit
from tests.kit import line_programs
from tests.kit import server as server_kit
from tests.kit.engines import Engines, Row
from tests.kit.trino import Trino

pytestmark = [pytest.mark.clients, pytest.mark.spark, pytest.mark.timeout(900)]

WRITERS = ("spark", "pyiceberg", "duckdb", "sql", "trino", "polars", "daft")
LIBRARIES = ("pyiceberg", "polars", "daft")
ROUNDS = 4
WIDE = 2**40
CONFLICT = re.compile(
    "CommitFailedException|annot commit|Found (new )?conflicting|(Added|Deleted) data files were"
)
"""What engines say when another writer was first."""


class Table:
    """A new table of the server, and the rows that it must hold."""

    def __init__(self, every: Engines) -> None:
        self.name = new_name()
        self.columns = ["id", "name"]
        self._rows: dict[int, dict[str, Any]] = {}
        self._every = every
        every.spark(f"CREATE TABLE documented.{self.name} (id BIGINT, name STRING)")

    def alter(self, engine: str, *changes: str) -> None:
        """changes: what follows the name in ALTER TABLE, a statement each."""
        for change in changes:
            self._every.execute(engine, f"ALTER TABLE {{}} {change}", self.name)

    def added(self, column: str) -> None:
        """A column was added at the end."""
        self.columns.append(column)
        for row in self._rows.values():
            row[column] = None

    def renamed(self, before: str, after: str) -> None:
        self.columns[self.columns.index(before)] = after
        for row in self._rows.values():
            row[after] = row.pop(before)

    def dropped(self, column: str) -> None:
        self.columns.remove(column)
        for row in self._rows.values():
            del row[column]

    def insert(self, engine: str, *values: Any) -> None:
        """Insert a row with a value for every column, in their order."""
        row = dict(zip(self.columns, values, strict=True))
        insert(self._every, engine, self.name, row)
        self._rows[row["id"]] = row

    def rename(self, engine: str, number: int, name: str) -> None:
        """Change the name in the row of an id."""
        row = {**self._rows.pop(number), "name": name}
        replace(self._every, engine, self.name, row)
        self._rows[number] = row

    def oldest_but_of(self, engine: str) -> int:
        """Return the id of the row that was written first of those without an engine's name."""
        return next(number for number, row in self._rows.items() if row["name"] != engine)

    def rows(self, matches: Callable[[dict[str, Any]], bool] = lambda _: True) -> list[Row]:
        chosen = [row for row in self._rows.values() if matches(row)]
        rows = [tuple(row[name] for name in self.columns) for row in chosen]
        return sorted(rows, key=engines_kit.nulls_first)

    def check(self, step: str) -> None:
        """Compare what every reader sees with the rows."""
        read = self._every.rows_by_reader(EVERY_READER, self.name, self.columns)
        assert read == dict.fromkeys(EVERY_READER, self.rows()), step


def insert(every: Engines, engine: str, table: str, row: dict[str, Any]) -> None:
    columns = {name: [value] for name, value in row.items()}
    if engine in LIBRARIES:
        every.library(engine, table, columns)
    else:
        values = ", ".join(
            f"'{value}'" if isinstance(value, str) else str(value) for value in row.values()
        )
        every.execute(engine, f"INSERT INTO {{}} ({', '.join(row)}) VALUES ({values})", table)


def replace(every: Engines, engine: str, table: str, row: dict[str, Any]) -> None:
    """Put a row, which has a new name, in place of the row of its id, in one commit."""
    columns = {name: [value] for name, value in row.items()}
    where = f"id = {row['id']}"
    if engine in LIBRARIES:
        every.library(engine, table, columns, replaced=where)
    else:
        every.execute(engine, f"UPDATE {{}} SET name = '{row['name']}' WHERE {where}", table)


def test_every_engine_changes_columns_in_turn_and_every_reader_sees_the_same(
    every: Engines,
) -> None:
    table = Table(every)
    table.insert("spark", 0, "first")

    table.alter("spark", "ADD COLUMN a INT")
    table.added("a")
    table.insert("spark", 1, "spark", 11)
    table.check("spark adds a")

    with every.catalog.load_table(table.name).update_schema() as update:
        update.rename_column("a", "a1")
        update.add_column("b", types.LongType())
    table.renamed("a", "a1")
    table.added("b")
    table.alter("trino", "ALTER COLUMN a1 SET DATA TYPE bigint")
    table.insert("pyiceberg", 2, "pyiceberg", 12, 22)
    table.check("pyiceberg renames a and adds b, trino widens a")

    table.alter("duckdb", "ADD COLUMN c VARCHAR", "RENAME COLUMN b TO b1")
    table.added("c")
    table.renamed("b", "b1")
    table.insert("duckdb", 3, "duckdb", WIDE, 23, "33")
    table.check("duckdb adds c and renames b")

    table.alter("sql", "ADD COLUMN d VARCHAR", "RENAME COLUMN c TO c1")
    table.added("d")
    table.renamed("c", "c1")
    table.insert("sql", 4, "sql", 14, 24, "34", "44")
    table.check("sql adds d and renames c")

    table.alter("trino", "DROP COLUMN d")
    table.dropped("d")
    table.insert("trino", 5, "trino", WIDE, 25, "35")
    table.check("trino drops d")

    table.added("d")  # it has the name of a column that was dropped, and none of its values
    table.insert("polars", 6, "polars", WIDE, 26, "36", 46)
    table.check("polars adds another d")

    table.insert("daft", 7, "daft", WIDE, 27, "37", 47)
    for number, engine in enumerate(WRITERS):
        table.rename(engine, (number + 3) % 8, f"{engine} again")
    table.check("every engine changes a row that another wrote")

    table.alter("duckdb", "DROP COLUMN c1")
    table.dropped("c1")
    table.alter("spark", "RENAME COLUMN d TO c1", "ALTER COLUMN c1 FIRST")
    table.renamed("d", "c1")
    table.columns.sort(key="c1".__ne__)
    for number, engine in enumerate(WRITERS, 8):
        table.insert(engine, 100 + number, number, engine, WIDE, number)
    table.check("duckdb drops c1, spark gives its name to d and puts it first, all write")


def partition_by_pyiceberg(every: Engines, table: Table) -> None:
    with every.catalog.load_table(table.name).update_spec() as update:
        update.add_field("name", TruncateTransform(1))


SPECS: dict[str, Callable[[Engines, Table], None]] = {
    "spark": lambda _, table: table.alter("spark", "ADD PARTITION FIELD bucket(4, id)"),
    "pyiceberg": partition_by_pyiceberg,
    "duckdb": lambda _, table: table.alter("duckdb", "SET PARTITIONED BY (bucket(3, id))"),
    "trino": lambda _, table: table.alter(
        "trino", "SET PROPERTIES partitioning = ARRAY['name', 'truncate(id, 10)']"
    ),
}


def test_every_engine_writes_by_partitions_of_every_other_and_every_reader_finds_the_rows(
    every: Engines,
) -> None:
    table = Table(every)
    numbers = itertools.count()
    for writer in WRITERS:
        table.insert(writer, next(numbers), writer)
    for engine, partition in SPECS.items():
        partition(every, table)
        for writer in WRITERS:
            table.insert(writer, next(numbers), writer)
            if writer != "duckdb":  # it refuses, as a test below shows
                table.rename(writer, table.oldest_but_of(writer), writer)
        table.check(f"partitions of {engine}")

    # A row is found only if its writer put it into the partition in which the reader looks for it.
    # Daft 0.7 does not filter by a column that is in no partition of some spec (FieldNotFound).
    readers = tuple(reader for reader in EVERY_READER if reader != "daft")
    for writer in WRITERS:
        expected = table.rows(lambda row, name=writer: row["name"] == name)
        assert expected
        read = every.rows_by_reader(readers, table.name, where=f"name = '{writer}'")
        assert read == dict.fromkeys(readers, expected), writer
    for number in range(0, next(numbers), 5):
        expected = table.rows(lambda row, number=number: row["id"] == number)
        assert len(expected) == 1
        read = every.rows_by_reader(readers, table.name, where=f"id = {number}")
        assert read == dict.fromkeys(readers, expected), number


@pytest.mark.parametrize("write", [insert, replace])
def test_of_rows_that_all_engines_write_at_once_those_are_there_whose_writer_was_not_refused(
    every: Engines,
    server: server_kit.Running,
    trino: Trino,
    write: Callable[[Engines, str, str, dict[str, Any]], None],
) -> None:
    table = Table(every)
    total = len(WRITERS) * ROUNDS
    rows = dict.fromkeys(range(total), "first")
    columns = pa.table({"id": list(rows), "name": list(rows.values())})
    every.catalog.load_table(table.name).append(columns)
    turns = itertools.count(0 if write is replace else total)
    with contextlib.ExitStack() as stack:
        clients = dict.fromkeys(WRITERS, every)
        for writer in LIBRARIES:  # a program of its own for each: it answers one question at a time
            program = line_programs.running(server, "readers", engines_kit.LIBRARIES_PROGRAM)
            clients[writer] = every.having(program=stack.enter_context(program), trino=trino)
        for _ in range(ROUNDS):
            numbers = dict(zip(WRITERS, turns, strict=False))
            refusals = at_once({
                writer: functools.partial(
                    write, clients[writer], writer, table.name,
                    {"id": numbers[writer], "name": writer},
                )
                for writer in WRITERS
            })  # fmt: skip
            acknowledged = [writer for writer, refusal in refusals.items() if not refusal]
            for writer, refusal in refusals.items():
                assert not refusal or CONFLICT.search(refusal), (writer, refusal)
            assert acknowledged
            rows.update({numbers[writer]: writer for writer in acknowledged})
            read = every.rows_by_reader(EVERY_READER, table.name, ("id", "name"))
            assert read == dict.fromkeys(EVERY_READER, sorted(rows.items())), refusals


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET id = 7"])
def test_duckdb_is_refused_to_change_a_row_of_an_older_partition_spec(
    every: Engines, version: int, statement: str
) -> None:
    """DuckDB 1.5 writes the delete file under the current spec, which is not that of the row."""
    name = new_name()
    every.spark(
        f"CREATE TABLE documented.{name} (id BIGINT) PARTITIONED BY (bucket(2, id)) "
        f"TBLPROPERTIES ('format-version'='{version}')"
    )
    every.spark(f"INSERT INTO documented.{name} SELECT id FROM range(0, 4, 1, 1)")
    every.spark(f"ALTER TABLE documented.{name} REPLACE PARTITION FIELD bucket(2, id) WITH id")
    with pytest.raises(duckdb.Error, match="delete files to data files of the same spec alone"):
        every.duckdb(statement.format(f"lake.{name}") + " WHERE id = 2")
    every.spark(f"DELETE FROM documented.{name} WHERE id = 3")
    every.duckdb(f"INSERT INTO lake.{name} VALUES (5)")
    expected = [(0,), (1,), (2,), (5,)]
    assert every.rows_by_reader(EVERY_READER, name) == dict.fromkeys(EVERY_READER, expected)
    # PyIceberg and the readers on it take a partition's fields by position, and DuckDB writes more.
    every.duckdb(f"DELETE FROM lake.{name} WHERE id = 5")
    readers = ("spark", "duckdb", "sql", "trino")[: 4 if version == 2 else 3]
    assert every.rows_by_reader(readers, name) == dict.fromkeys(readers, expected[:3])


def test_duckdb_refuses_to_delete_where_two_partition_specs_share_a_field(every: Engines) -> None:
    name = new_name()
    every.spark(f"CREATE TABLE documented.{name} (id BIGINT) PARTITIONED BY (bucket(2, id))")
    every.spark(f"INSERT INTO documented.{name} VALUES (1)")
    every.spark(f"ALTER TABLE documented.{name} ADD PARTITION FIELD truncate(10, id)")
    every.duckdb(f"INSERT INTO lake.{name} VALUES (2)")
    with pytest.raises(duckdb.Error, match="duplicate name"):
        every.duckdb(f"DELETE FROM lake.{name} WHERE id = 2")
    expected = [(1,), (2,)]
    assert every.rows_by_reader(EVERY_READER, name) == dict.fromkeys(EVERY_READER, expected)


def at_once(works: dict[str, Callable[[], None]]) -> dict[str, str]:
    """Do works in threads of their own that start together; return what each raised, or ""."""
    barrier = threading.Barrier(len(works))

    def work(each: Callable[[], None]) -> str:
        barrier.wait(120)
        try:
            each()
        except Exception as error:  # noqa: BLE001 - every engine has its own
            return f"{type(error).__name__}: {error}"
        return ""

    with ThreadPoolExecutor(len(works)) as pool:
        return dict(zip(works, pool.map(work, works.values()), strict=True))
