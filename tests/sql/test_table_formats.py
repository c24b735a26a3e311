"""STAGE_FILE_FORMAT of a table: the format of files that COPY and queries of its stage read."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql import errors, fileformats
from tests.kit import local_sql

BARS = "stage_file_format = (type = csv field_delimiter = '|' skip_header = 1)"


@pytest.mark.parametrize(
    "creation",
    [
        f"create table t (a int, b varchar) {BARS}",
        f"create table t (a int, b varchar) comment = 'x' {BARS} cluster by (a)",
        f"create or replace transient table t (a int, b varchar) {BARS} copy grants;",
        f"create temporary table t (a int, b varchar) {BARS}",
        f"create table t {BARS} as select 1 as a, '123456789' as b where false",
    ],
)
def test_copy_and_queries_of_a_tables_stage_read_its_stage_file_format(
    tmp_path: Path, creation: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(creation)
        await local_sql.put_file(local, "@%t", "a.csv", b"a|b\n7|x,y\n")
        assert await local.rows("select $1, $2 from @%t") == [("7", "x,y")]
        await local.run("copy into t")
        assert await local.rows("select a, b from t") == [(7, "x,y")]
        # Its header is what SKIP_HEADER leaves out.
        await local.run("copy into @%t/out.csv from t single = true header = true")
        assert await local.rows("select $1, $2 from @%t/out.csv") == [("7", "x,y")]

    local_sql.run_local(tmp_path, work)


def test_a_statements_format_and_a_stages_come_before_that_of_the_table(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(f"create table t (a varchar) {BARS}")
        await local.run("create stage plain")
        await local.run("create stage semicolons file_format = (type = csv field_delimiter = ';')")
        await local.run("create file format commas type = csv field_delimiter = ','")
        for location in ("@%t", "@plain", "@semicolons"):
            await local_sql.put_file(local, location, "a.csv", b"h\n1\n")

        await local.run("copy into t from @plain")
        assert await local.rows("select a from t") == [("1",)]
        await local.run("copy into t from @semicolons")
        assert await local.rows("select a from t order by a") == [("1",), ("1",), ("h",)]
        await local.run("copy into t from @%t file_format = (format_name = commas)")
        assert await local.one("select count(*) from t where a = 'h'") == 2
        # Options of the statement refine those of the table, as those of a stage.
        await local.run("copy into t file_format = (type = csv field_delimiter = ',') force = true")
        assert await local.one("select count(*) from t") == 6

    local_sql.run_local(tmp_path, work)


def test_alter_table_and_or_replace_change_a_tables_stage_file_format(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create file format bars type = csv field_delimiter = '|'")
        await local.run("create table t (a varchar, b varchar)")
        await local.run("alter table t set stage_file_format = (format_name = bars) comment = 'c'")
        # As that of a stage, it keeps what the format was.
        await local.run("drop file format bars")
        await local_sql.put_file(local, "@%t", "a.csv", b"1|2\n")
        assert await local.rows("select $1, $2 from @%t") == [("1", "2")]
        await local.run("create table copied like t")
        await local_sql.put_file(local, "@%copied", "a.csv", b"3|4\n")
        assert await local.rows("select $1, $2 from @%copied") == [("3", "4")]

        ddl = await local.one("select get_ddl('table', 't')")
        assert " STAGE_FILE_FORMAT = (TYPE = CSV FIELD_DELIMITER = '|')" in ddl
        await local.run("drop table t")
        await local.run(ddl)
        await local_sql.put_file(local, "@%t", "a.csv", b"5|6\n")
        assert await local.rows("select $1, $2 from @%t") == [("5", "6")]
        assert await local.one("select get_ddl('table', 't')") == ddl

        await local.run("create or replace table t (a varchar)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1|2\n")
        assert await local.rows("select $1, $2 from @%t") == [("1|2", None)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("create table t (a int) stage_file_format = (format_name = missing)", "002003"),
        ("create table t (a int) stage_file_format = (type = xml)", "000002"),
        ("create table t (a int) stage_file_format = (type = csv colour = 'red')", "001008"),
        (f"create table t (a int) {BARS} {BARS}", "001003"),
        ("create table t (a int) stage_copy_options = (purge = true)", "000002"),
        ("create table t (a int) stage_file_format", "001003"),
        ("create table t (a int) stage_file_format = (type = csv", "001003"),
    ],
)
def test_a_stage_file_format_that_is_none_creates_no_table(
    tmp_path: Path, text: str, code: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await local.run(text)
        assert caught.value.code == code
        assert await local.rows("show tables") == []

    local_sql.run_local(tmp_path, work)


def test_a_stored_format_is_read_as_it_was_parsed() -> None:
    for options in (
        {"TYPE": "csv", "FIELD_DELIMITER": "0x2c", "ESCAPE": "\\\\", "NULL_IF": ("", "\\N")},
        {"TYPE": "csv", "RECORD_DELIMITER": "\\r\\n", "FIELD_DELIMITER": None, "SKIP_HEADER": 3},
        {"TYPE": "csv", "COMPRESSION": None, "ENCODING": "iso-8859-1", "FILE_EXTENSION": None},
        {"TYPE": "json", "STRIP_OUTER_ARRAY": True},
        {"TYPE": "parquet", "BINARY_AS_TEXT": False, "NULL_IF": ()},
        {"TYPE": "orc"},
        {"TYPE": "avro", "COMPRESSION": "deflate"},
    ):
        parsed = fileformats.parse(options)
        stored = {fileformats.PROPERTY: fileformats.stored_text(parsed)}
        assert fileformats.of_table(stored) == parsed
    assert fileformats.of_table({}) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"type": "CSV"}',
        '{"type": 7, "options": {}}',
        '{"type": "CSV", "options": []}',
        '{"type": "CSV", "options": {"SKIP_HEADER": -1}}',
        '{"type": "CSV", "options": {"FIELD_DELIMITER": {"a": 1}}}',
        '{"type": "CSV", "options": {"NULL_IF": {"a": 1}}}',
        '{"type": "CSV", "options": {"DATE_FORMAT": 1.5}}',
        "[" * 100_000,
    ],
)
def test_a_property_that_is_no_format_is_refused_by_name(text: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        fileformats.of_table({fileformats.PROPERTY: text})
    assert caught.value.code == "000002"
    assert fileformats.PROPERTY in caught.value.message
