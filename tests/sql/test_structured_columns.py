"""Columns of structured types as CREATE TABLE and ALTER TABLE declare them."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog import idents
from sql import errors
from tests.kit import local_sql

COLUMNS = (
    "id int not null, a array(int), m map(varchar, number(10, 2)),"
    ' o object(x int, "The Y" varchar, z array(object(q date))), n array(float) not null'
)
VALUES = (
    "1, [3]::array(int), {'k': 2.5}::map(varchar, number(10, 2)),"
    " {'x': 2, 'The Y': 'w', 'z': [{'q': '2024-01-01'}]}"
    '::object(x int, "The Y" varchar, z array(object(q date))), [1.5]::array(float)'
)


def field_ids(form: Any) -> Iterator[int]:
    """Yield the ids of all fields of an Iceberg schema or type."""
    if isinstance(form, dict):
        for name, value in form.items():
            if name == "id" or (name.endswith("-id") and name != "schema-id"):
                yield value
            else:
                yield from field_ids(value)
    if isinstance(form, list):
        for each in form:
            yield from field_ids(each)


@pytest.mark.parametrize("words", ["", "temporary", "iceberg"])
def test_a_structured_column_is_declared_written_and_read(tmp_path: Path, words: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(f"create {words} table t ({COLUMNS})")
        await local.run(f"insert into t select {VALUES}")
        await local.run("insert into t (id, n) select 2, [2]::array(float)")
        assert await local.rows(
            "select a[0], m['k'], o:x, o:\"The Y\", o:z[0].q, n[0] from t order by id"
        ) == [
            (3, decimal.Decimal("2.50"), 2, "w", datetime.date(2024, 1, 1), 1.5),
            (None, None, None, None, None, 2.0),
        ]
        with pytest.raises(errors.SqlError) as caught:
            await local.run("insert into t (id) select 3")
        assert caught.value.code == "100072"
        for value in ("[3]", "['x']::array(varchar)"):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(f"insert into t (id, n) select 3, {value}")
            assert caught.value.code == "001065"
        assert await local.one("select count(*) from t") == 2

    local_sql.run_local(tmp_path, work)


def test_describe_and_get_ddl_name_a_structured_type_in_full(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(f"create table t ({COLUMNS})")
        described = [row[1] for row in await local.rows("describe table t")]
        assert described == [
            "NUMBER(38,0)",
            "ARRAY(NUMBER(19,0))",
            "MAP(VARCHAR(16777216), NUMBER(10,2))",
            'OBJECT(x NUMBER(19,0), "The Y" VARCHAR(16777216), z ARRAY(OBJECT(q DATE)))',
            "ARRAY(FLOAT)",
        ]
        ddl = await local.one("select get_ddl('table', 't')")
        assert "\tA ARRAY(INT),\n" in ddl
        await local.run(f"insert into t select {VALUES}")
        await local.run("create table before clone t")
        await local.run(ddl)
        assert [row[1] for row in await local.rows("describe table t")] == described
        assert await local.one("select get_ddl('table', 't')") == ddl
        await local.run("insert into t select * from before")
        assert await local.rows("select * from t") == await local.rows("select * from before")

    local_sql.run_local(tmp_path, work)


def test_alter_table_adds_a_structured_column_whose_fields_have_ids_of_their_own(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, a array(int))")
        await local.run("insert into t select 1, [1]::array(int)")
        await local.run(
            "alter table t add column m map(varchar, object(k int, l array(int))) comment 'c',"
            " b varchar"
        )
        await local.run("alter table t add column o object(x int)")
        ident = idents.TableIdent(table_bucket="lake", namespace=("ns",), name="t")
        metadata = (await local.lake.tables.fetch(ident)).metadata
        used = list(field_ids(metadata.current_schema()["fields"]))
        assert sorted(used) == list(range(1, 13))
        assert metadata.last_column_id == 12
        assert await local.rows("select m, b, o from t") == [(None, None, None)]
        await local.run(
            "update t set o = {'x': 5}::object(x int),"
            " m = {'q': {'k': 1, 'l': [2]}}::map(varchar, object(k int, l array(int)))"
        )
        assert await local.rows("select o:x, m['q']:l[0], a[0] from t") == [(5, 2, 1)]
        await local.run("alter table t rename column o to p")
        await local.run("alter table t drop column a")
        assert await local.rows("select p:x, m['q']:k from t") == [(5, 1)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("create table u (a array(varchar(3)))", "000002"),
        ("create table u (a array(timestamp_ltz))", "000002"),
        ("create table u (a map(float, int))", "000002"),
        ("create table u (a object(x int, x int))", "000002"),
        ("create table u (a array(int) default null::array(int))", "000002"),
        ("create table u (a array(int) autoincrement)", "001083"),
        ("create table u (a array(int)) cluster by (a)", "001008"),
        ("alter table t alter column a set data type array(float)", "000002"),
        ("alter table t alter column a set data type array", "000002"),
        ("alter table t alter column b set data type array(int)", "000002"),
        ("create table u (a array(int)) as select [1]", "001065"),
    ],
)
def test_a_structured_type_that_a_column_cannot_have_is_refused(
    tmp_path: Path, text: str, code: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a array(int), b array)")
        with pytest.raises(errors.SqlError) as caught:
            await local.run(text)
        assert caught.value.code == code, caught.value.message
        assert len(await local.rows("show tables")) == 1
        described = [row[1] for row in await local.rows("describe table t")]
        assert described == ["ARRAY(NUMBER(19,0))", "ARRAY"]

    local_sql.run_local(tmp_path, work)


NUMBERS_INSIDE = {
    "[1, 2, null]::array(int)": ("a", "[1,2,null]"),
    "[1, 2]::array(number(5,0))": ("a", "[1,2]"),
    "[1.4, 2.5]::array(number(5,2))": ("a", "[1,3]"),
    "[7]::array(float)": ("a", "[7]"),
    "null::array(number(3,0))": ("a", None),
    "{'b': 'x', 'a': 1}::object(b varchar, a int)": ("o", '{"a":1,"b":"x"}'),
    "{'k': {'y': '1.239'}}::map(varchar, object(y number(20,3)))": ("m", '{"k":{"y":1.24}}'),
    "[300]::array(int)": ("i", "[300]"),
    "[3000000000]::array(int)": ("i", None),
    "[12345678901234567890]::array(number(38,0))": ("a", None),
}
"""A value: the column into which it goes, and what is there then; None without NULL: an error."""


@pytest.mark.parametrize("statement", ["insert", "update", "merge"])
def test_numbers_inside_a_value_become_those_of_the_column(tmp_path: Path, statement: str) -> None:
    def text_of(column: str, value: str) -> str:
        return {
            "insert": f"insert overwrite into t (id, {column}) select 1, {value}",
            "update": f"update t set {column} = {value}",
            "merge": f"merge into t using (select {value} as v) on id = 1"
            f" when matched then update set {column} = v",
        }[statement]

    async def work(local: local_sql.LocalSql) -> None:
        await local.rows(
            "create table t (id int, a array(number(19,0)), o object(a int, b varchar),"
            " m map(varchar, object(y number(10,2))))"
        )
        ident = local.lake.ident("ns.t")
        narrow = {"type": "list", "element-id": 90, "element": "int", "element-required": False}
        schema = local.lake.load(ident).metadata.current_schema()
        fields = [*schema["fields"], {"id": 91, "name": "i", "required": False, "type": narrow}]
        updates = [
            {"action": "add-schema", "schema": {**schema, "fields": fields}},
            {"action": "set-current-schema", "schema-id": -1},
        ]
        await local.lake.tables.commit(ident, [], updates, by="other")
        for value, (column, stored) in NUMBERS_INSIDE.items():
            await local.rows("insert overwrite into t (id) values (1)")
            if stored is None and not value.startswith("null"):
                with pytest.raises(errors.SqlError):
                    await local.rows(text_of(column, value))
            else:
                await local.rows(text_of(column, value))
            assert await local.rows(f"select {column} from t") == [(stored,)], value

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "value",
    [
        "['1']::array(varchar)",
        "[[1]::array(int)]::array(array(int))",
        "['2024-01-01']::array(date)",
        "{'a': 1}::object(a int)",
        "[1]",
    ],
)
def test_other_values_inside_one_need_a_cast(tmp_path: Path, value: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table t (a array(number(19,0)))")
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"insert into t select {value}")
        assert (caught.value.code, "invalid type" in caught.value.message) == ("001065", True)

    local_sql.run_local(tmp_path, work)
