"""Columns of VARIANT, OBJECT and ARRAY: what a table stores, and what comes back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from sql import errors, tabletypes
from tests.kit import lakes, local_sql


def compact(cell: Any) -> Any:
    return json.loads(cell) if isinstance(cell, str) and cell[:1] in ("{", "[") else cell


def test_columns_of_values_are_json_texts_that_read_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_sql.opened(tmp_path) as sql:
            await sql.run("create table t (id int, v variant, o object, a array)")
            await sql.run(
                'insert into t select 1, parse_json(\'{"b": [1.50, null], "a": "x"}\'), '
                "object_construct('k', '2024-01-02'::date), array_construct(1, null)"
            )
            await sql.run(
                "insert into t values (2, null, null, null), (3, parse_json('null'), {}, [])"
            )
            loaded = sql.lake.load(sql.lake.ident("ns.t"))
            assert [each["type"] for each in loaded.metadata.current_schema()["fields"]] == [
                "long",
                "string",
                "string",
                "string",
            ]
            described = await sql.rows("describe table t")
            assert [row[1] for row in described] == ["NUMBER(38,0)", "VARIANT", "OBJECT", "ARRAY"]
            rows = await sql.rows("select id, v, o, a from t order by id")
            assert [tuple(map(compact, row)) for row in rows] == [
                (1, {"a": "x", "b": [1.5, None]}, {"k": "2024-01-02"}, [1, None]),
                (2, None, None, None),
                (3, "null", {}, []),
            ]
            picked = "select v:b[0]::number(5, 2), o:k::date - 1, a[0] from t where v:a = 'x'"
            ((number, day, first),) = await sql.rows(picked)
            assert (str(number), str(day), first) == ("1.50", "2024-01-01", "1")
            flat = "select t.id, f.value from t, lateral flatten(input => t.v:b) f order by f.index"
            assert await sql.rows(flat) == [(1, "1.5"), (1, "null")]
            await sql.run("create table u as select v, a from t where id = 1")
            assert await sql.one("select v:a::varchar || array_size(a) from u") == "x2"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("values ('{\"a\": 1}')", "expecting VARIANT but got VARCHAR(8)"),
        ("select 1", "expecting VARIANT but got NUMBER(1,0)"),
    ],
)
def test_insert_makes_no_variant_of_another_type(tmp_path: Path, values: str, words: str) -> None:
    async def scenario() -> None:
        async with local_sql.opened(tmp_path) as sql:
            await sql.run("create table t (v variant)")
            with pytest.raises(errors.SqlError) as caught:
                await sql.run(f"insert into t {values}")
            assert caught.value.code == "002023"
            assert words in caught.value.message
            assert await sql.one("select count(*) from t") == 0

    asyncio.run(scenario())


async def declare(sql: local_sql.LocalSql, types: dict[str, str]) -> None:
    """Say which types the columns of ns.t have, by field id, as if other engines wrote them."""
    change = {
        "action": "set-properties",
        "updates": {tabletypes.DECLARED: json.dumps(types)},
    }
    await sql.lake.tables.commit(sql.lake.ident("ns.t"), [], [change], by=lakes.BY)


@pytest.mark.parametrize("text", ["\x01", "\x01u", "\x01f5", "\x01n2024", "\x01q", "\x01s"])
def test_a_stored_text_is_never_a_mark(tmp_path: Path, text: str) -> None:
    async def scenario() -> None:
        async with local_sql.opened(tmp_path) as sql:
            await sql.run("create table t (v varchar, a varchar)")
            stored = json.dumps(text).replace("\\", "\\\\")
            await sql.run(f"insert into t values ('{stored}', '[{stored}, 1.5]')")
            await declare(sql, {"1": "VARIANT", "2": "ARRAY"})
            ((shown, type_name, whole, part, flat),) = await sql.rows(
                "select v, typeof(v), v::varchar, a[0]::varchar, f.value::varchar"
                " from t, lateral flatten(input => a) f where f.index = 0 order by v"
            )
            assert (shown, type_name) == (json.dumps(text), "VARCHAR")
            assert (whole, part, flat) == (text, text, text)
            # What this engine stores reads back as it was.
            await sql.run("create table u as select v, a from t")
            assert await sql.rows("select v::varchar, a[0]::varchar from u") == [(text, text)]

    asyncio.run(scenario())


def test_json_of_another_writer_is_read_however_it_is_spelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_sql.opened(tmp_path) as sql:
            await sql.run("create table t (v variant, s varchar)")
            # Another engine sees a column of strings: it may write blanks and any order.
            text = '{ "b": 1.0,\n "a": [1e1] }'
            await sql.run(f"insert into t (s) values ('{text}')")
            await declare(sql, {"1": "VARCHAR(10)", "2": "VARIANT"})
            same_value = """parse_json('{"a": [10], "b": 1}')"""
            rows = await sql.rows(f"select s, s:a[0]::int, s = {same_value} from t")
            ((shown, number, same),) = rows
            assert (compact(shown), number, same) == ({"a": [10.0], "b": 1}, 10, True)

    asyncio.run(scenario())


def test_moments_are_stored_with_all_digits_that_say_something(tmp_path: Path) -> None:
    values = {
        "'2024-01-02 03:04:05.123456'::timestamp_ntz": "2024-01-02 03:04:05.123456",
        "'2024-01-02 03:04:05.12'::timestamp_ntz": "2024-01-02 03:04:05.120",
        "'03:04:05.000001'::time": "03:04:05.000001",
        "'03:04:05'::time": "03:04:05",
        "'2024-01-02'::date": "2024-01-02",
        "'1850-01-02 03:04:05'::timestamp_ltz": "1850-01-02 03:04:05.000 +091859",
    }

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("alter session set timezone = 'Asia/Tokyo'")
        await local.run("create table t (v variant)")
        for value, text in values.items():
            type_name = value.partition("::")[2]
            await local.run(f"insert overwrite into t select to_variant({value})")
            read = f"select v::varchar, v::{type_name} = {value} from t"
            assert await local.rows(read) == [(text, True)], value

    local_sql.run_local(tmp_path, work)
