"""Spark, DuckDB and PyIceberg read what each kind of SQL write leaves, by Snowflake's connector.

A row of WRITES has the statements and the rows that its tables have afterwards, computed by hand.
`{t}` in a statement is the name of the row's first table, `{u}` and `{w}` of two others. Tables
that change are made in three ways: copy-on-write, merge-on-read with position deletes (format
version 2) and with deletion vectors (format version 3).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from tests.kit import engines as engines_kit
from tests.kit import line_programs
from tests.kit import server as server_kit
from tests.kit.engines import Engines

pytestmark = pytest.mark.spark

SCHEMA = "written"
READERS = ("spark", "duckdb", "pyiceberg")
WAYS = {
    "copy-on-write": "",
    "position deletes": "iceberg_merge_on_read_behavior = 'ENABLED'",
    "deletion vectors": "iceberg_version = 3 iceberg_merge_on_read_behavior = 'ENABLED'",
}
DELETE_FORMATS = {
    "copy-on-write": [],
    "position deletes": ["PARQUET"],
    "deletion vectors": ["PUFFIN"],
}
START = [(1, "a"), (2, "b"), (3, "c"), (4, None)]
MERGE = """merge into {t} using (select column1 as id, column2 as name
from values (2, 'B'), (3, 'x'), (9, 'new')) s on {t}.id = s.id
when matched and s.name = 'x' then delete
when matched then update set name = s.name
when not matched then insert (id, name) values (s.id, s.name)"""


@dataclass(frozen=True, kw_only=True)
class Write:
    """statements: after {t} has the rows of START. rows: by table."""

    statements: Sequence[str]
    rows: Mapping[str, Sequence[tuple[Any, ...]]]


def of(*statements: str, **rows: Sequence[tuple[Any, ...]]) -> Write:
    return Write(statements=statements, rows=rows)


CHANGES = {
    "DELETE": of("delete from {t} where id in (1, 3)", t=[(2, "b"), (4, None)]),
    "UPDATE": of(
        "update {t} set name = upper(name) where id >= 3",
        "update {t} set id = id + 10 where name is null",
        t=[(1, "a"), (2, "b"), (3, "C"), (14, None)],
    ),
    "MERGE": of(MERGE, t=[(1, "a"), (2, "B"), (4, None), (9, "new")]),
}
"""Run for each of WAYS."""

WRITES = {
    "INSERT": of(
        "insert into {t} values (5, 'e')",
        "insert into {t} (id) select id + 10 from {t} where id < 3",
        t=[*START, (5, "e"), (11, None), (12, None)],
    ),
    "INSERT OVERWRITE": of(
        "insert overwrite into {t} select id * 10, name from {t} where id < 3",
        t=[(10, "a"), (20, "b")],
    ),
    "multi-table INSERT": of(
        "create table {u} (id int, name varchar)",
        "create table {w} (id int)",
        "insert first when id < 3 then into {u} into {w} (id) values (id * 100) "
        "else into {u} (id, name) values (-id, 'rest') select id, name from {t}",
        t=START,
        u=[(1, "a"), (2, "b"), (-3, "rest"), (-4, "rest")],
        w=[(100,), (200,)],
    ),
    "TRUNCATE": of("truncate table {t}", "insert into {t} values (7, 'after')", t=[(7, "after")]),
    "TRUNCATE to no rows": of("truncate table {t}", t=[]),
    "CTAS": of(
        "create table {u} as select id, name, id % 2 = 0 as even from {t}",
        u=[(1, "a", False), (2, "b", True), (3, "c", False), (4, None, True)],
    ),
    "CREATE OR REPLACE": of(
        "create or replace table {t} as select name as word, id + 0.5 as half from {t} "
        "where id < 3",
        t=[("a", Decimal("1.5")), ("b", Decimal("2.5"))],
    ),
    "CLONE": of(
        "create table {u} clone {t}",
        "delete from {u} where id = 1",
        "insert into {t} values (5, 'e')",
        t=[*START, (5, "e")],
        u=START[1:],
    ),
    "COPY INTO": of(
        "create stage {u}_stage",
        "copy into @{u}_stage/rows from {t} file_format = (type = parquet) header = true",
        "create table {u} (id int, name varchar)",
        "copy into {u} from @{u}_stage file_format = (type = parquet) "
        "match_by_column_name = case_insensitive",
        u=START,
    ),
    "ALTER": of(
        "alter table {t} rename column name to label",
        "alter table {t} add column price number(9,2) default 1.25",
        "insert into {t} values (5, 'e', 2.5)",
        "alter table {t} alter column price set data type number(12,2)",
        "alter table {t} cluster by (label)",
        "alter table {t} drop column id",
        t=[*((name, Decimal("1.25")) for _, name in START), ("e", Decimal("2.50"))],
    ),
    "ALTER ... RENAME TO, SWAP WITH": of(
        "create table {u} as select 7 as seven",
        "alter table {t} swap with {u}",
        "alter table {t} rename to {w}",
        u=START,
        w=[(7,)],
    ),
    "UNDROP": of("drop table {t}", "undrop table {t}", t=START),
    "a transaction": of(
        "begin",
        "delete from {t} where id = 1",
        "insert into {t} values (5, 'e')",
        "create table {u} as select 1 as one",
        "begin",
        "update {t} set name = 'z' where id = 5",
        "commit",
        t=[*START[1:], (5, "z")],
        u=[(1,)],
    ),
    "values of each type": of(
        "create table {u} (fare number(9,2), big number(38,0), day date, moment timestamp_ntz, "
        "ok boolean, ratio float, raw binary) partition by (month(day))",
        "insert into {u} values (-0.01, 9007199254740993, '1969-12-31', "
        "'2024-02-29 12:34:56.123456', true, 1e300, x'00ff'), "
        "(null, null, null, null, null, null, null)",
        u=[
            (
                Decimal("-0.01"),
                9_007_199_254_740_993,
                datetime.date(1969, 12, 31),
                datetime.datetime(2024, 2, 29, 12, 34, 56, 123456),  # noqa: DTZ001 - NTZ
                True,
                1e300,
                b"\x00\xff",
            ),
            (None,) * 7,
        ],
    ),
}
"""Run for tables made without options."""

CASES = {
    **{(name, "copy-on-write"): write for name, write in WRITES.items()},
    **{(name, way): write for name, write in CHANGES.items() for way in WAYS},
}
IN_MAKE_TEST = {
    ("values of each type", "copy-on-write"),
    ("MERGE", "position deletes"),
    ("MERGE", "deletion vectors"),
}


@pytest.fixture(scope="module")
def connector(server: server_kit.Running) -> Iterator[line_programs.LineProgram]:
    with line_programs.running(server, "snowflake5", engines_kit.CONNECTOR_PROGRAM) as program:
        program.ask(f"create schema {SCHEMA}")
        program.ask(f"use schema {SCHEMA}")
        yield program


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(
            *case,
            id=", ".join(case),
            marks=() if case in IN_MAKE_TEST else pytest.mark.clients,
        )
        for case in CASES
    ],
)
def test_what_sql_writes_every_engine_reads(
    engines: Engines, connector: line_programs.LineProgram, name: str, way: str
) -> None:
    number = list(CASES).index((name, way))
    tables = {letter: f"{letter}{number}" for letter in "tuw"}
    for statement in (
        f"create iceberg table {{t}} (id int, name varchar) {WAYS[way]}",
        "insert into {t} values (1, 'a'), (2, 'b'), (3, 'c'), (4, null)",
        *CASES[name, way].statements,
    ):
        connector.ask(statement.format(**tables))

    for letter, rows in CASES[name, way].rows.items():
        table = f"{SCHEMA}.{tables[letter]}"
        expected = sorted(rows, key=engines_kit.nulls_first)
        read = engines.rows_by_reader(READERS, table)
        assert read == dict.fromkeys(READERS, expected)
    if name in CHANGES:
        files = f"documented.{SCHEMA}.{tables['t']}.delete_files"
        formats = engines.spark(f"SELECT DISTINCT file_format FROM {files}")
        assert [each for (each,) in formats] == DELETE_FORMATS[way]
