"""EXECUTE IMMEDIATE and GET_DDL, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from sql import bindings, ddl_texts, errors
from tests.kit import local_sql, tablefiles

TYPES = (
    "int", "number(9,2)", "number(38,0)", "float", "varchar", "varchar(7)", "boolean", "date",
    "time(6)", "timestamp_ntz(6)", "timestamp_ltz(6)", "binary", "variant", "array", "object",
)  # fmt: skip
NAMES = ("a", "b1", '"Mixed"', '"with space"', '"select"', '"quo""te"', "c")
DEFAULTS = {
    "int": "7",
    "number(9,2)": "1.25",
    "varchar": "'it''s \\\\ here'",
    "varchar(7)": "'x'",
    "boolean": "true",
    "date": "'2024-01-31'::date",
    "timestamp_ltz(6)": "current_timestamp()",
}


async def refused(local: local_sql.LocalSql, text: str) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.run(text)
    return caught.value.code


def test_execute_immediate_runs_a_literal_or_a_session_variable(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        assert await local.one("execute immediate 'select 1 + 1'") == 2
        assert await local.one("execute immediate $$select 'it''s'$$") == "it's"
        await local.run("set (text, low) = ('select ? + ?', 40)")
        assert await local.one("execute immediate $text using ($low, 2)") == 42
        await local.run("execute immediate 'create table t as select ? as a' using ('x')")
        assert await local.one("select a from t") == "x"
        await local.run("execute immediate 'insert into t values (?)' using ('y')")
        assert await local.one("select count(*) from t") == 2
        await local.run("execute immediate 'set text = 3'")
        bound = {
            name: bindings.Binding(type="text", values=(value,))
            for name, value in (("1", "select ? || 'it''s\\n'"), ("2", "x'y"))
        }
        both = await local.run("execute immediate ? using (?)", bindings=bound)
        assert await local_sql.rows_of(both) == [("x'yit's\n",)]
        assert await local.one("select $text") == 3
        await local.run("unset (text, low)")
        assert await refused(local, "execute immediate $text") == "000904"

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("execute immediate 'begin select 1; end'", "000002"),
        ("execute immediate 'declare x int'", "000002"),
        ("execute immediate 'select 1; select 2'", "001003"),
        ("execute immediate ''", "000900"),
        ("execute immediate 'execute immediate ''select 1'''", "000002"),
        ("execute immediate '/**/ execute immediate ''select 1'''", "000002"),
        ("execute immediate $itself", "000002"),
        ("execute immediate name", "000002"),
        ("execute immediate 'select ?' using (name)", "000002"),
        ("execute immediate 'put file:///tmp/x @~'", "000002"),
        ("execute immediate 'get @~ file:///tmp/'", "000002"),
    ],
)
def test_execute_immediate_of_more_than_a_statement_is_refused(
    tmp_path: Path, text: str, code: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("set itself = 'execute/**/immediate $itself'")
        assert await refused(local, text) == code

    local_sql.run_local(tmp_path, work)


def test_get_ddl_has_snowflakes_form(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create table t (id int autoincrement primary key, s varchar(5) default 'd'"
            " comment 'it''s', n number(9,2) not null, unique (s)) cluster by (n) comment = 'whole'"
        )
        assert await local.one("select get_ddl('table', 't')") == (
            "create or replace TABLE T (\n"
            "\tID NUMBER(38,0) NOT NULL autoincrement start 1 increment 1 order,\n"
            "\tS VARCHAR(5) DEFAULT 'd' COMMENT 'it''s',\n"
            "\tN NUMBER(9,2) NOT NULL,\n"
            "\tprimary key (ID),\n"
            "\tunique (S)\n"
            ") cluster by (N) COMMENT='whole';"
        )
        qualified = await local.one("select get_ddl('TABLE', 'lake.ns.t', true)")
        assert qualified.startswith("create or replace TABLE LAKE.NS.T (")
        await local.run("create view v as select s from t")
        view = await local.one("select get_ddl('view', 'v')")
        assert view.upper().startswith("CREATE")
        await local.run("drop view v")
        await local.run(f"execute immediate $${view}$$")
        assert await local.rows("select * from v") == []
        await local.run("create sequence q start 5 increment 2 comment = 'c'")
        sequence = await local.one("select get_ddl('sequence', 'q')")
        assert sequence == (
            "create or replace sequence Q start with 5 increment by 2 order COMMENT='c';"
        )
        await local.run(f"execute immediate $${sequence}$$")
        assert await local.one("select q.nextval") == 5
        schema = await local.one("select get_ddl('schema', 'ns')")
        assert schema.startswith("create or replace schema NS;\n\ncreate or replace sequence Q")
        assert "create or replace TABLE T " in schema
        database = await local.one("select get_ddl('database', 'lake', true)")
        assert database.startswith("create or replace database LAKE;\n\ncreate or replace schema")
        assert "create or replace TABLE LAKE.NS.T " in database
        assert await refused(local, "select get_ddl('table', 'absent')") == "002003"
        assert await refused(local, "select get_ddl('warehouse', 'w')") == "000002"
        assert await refused(local, "select get_ddl('table', s) from t") == "000002"

    local_sql.run_local(tmp_path, work)


FORMATS = {
    "TYPE = CSV": "TYPE = CSV",
    "TYPE = CSV FIELD_DELIMITER = '|' SKIP_HEADER = 1 NULL_IF = ('', 'it\\'s', '\\\\N')"
    " FIELD_OPTIONALLY_ENCLOSED_BY = '\"' COMPRESSION = gzip ERROR_ON_COLUMN_COUNT_MISMATCH = false"
    " COMMENT = 'c'": (
        "TYPE = CSV\n\tFIELD_DELIMITER = '|'\n\tSKIP_HEADER = 1\n"
        "\tNULL_IF = ('', 'it''s', '\\\\N')\n\tFIELD_OPTIONALLY_ENCLOSED_BY = '\"'\n"
        "\tCOMPRESSION = 'GZIP'\n\tERROR_ON_COLUMN_COUNT_MISMATCH = FALSE\n\tCOMMENT = 'c'"
    ),
    "TYPE = CSV RECORD_DELIMITER = '\\r\\n' FIELD_DELIMITER = '\\t' ESCAPE = '\\\\'"
    " ESCAPE_UNENCLOSED_FIELD = NONE DATE_FORMAT = 'YYYY-MM-DD'": (
        "TYPE = CSV\n\tRECORD_DELIMITER = '\\r\\n'\n\tFIELD_DELIMITER = '\\t'\n"
        "\tESCAPE = '\\\\'\n\tESCAPE_UNENCLOSED_FIELD = NONE\n\tDATE_FORMAT = 'YYYY-MM-DD'"
    ),
    "TYPE = JSON STRIP_OUTER_ARRAY = TRUE": "TYPE = JSON\n\tSTRIP_OUTER_ARRAY = TRUE",
    "TYPE = AVRO": "TYPE = AVRO",
}


@pytest.mark.parametrize("options", FORMATS)
def test_the_text_of_get_ddl_makes_the_same_file_format_again(tmp_path: Path, options: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(f"create file format f {options}")
        text = await local.one("select get_ddl('file_format', 'f')")
        assert text == f"create or replace FILE FORMAT F\n\t{FORMATS[options]}\n;"
        described = await local.rows("describe file format f")
        await local.run("drop file format f")
        await local.run(text)
        assert await local.rows("describe file format f") == described
        assert await local.one("select get_ddl('file_format', 'ns.f', true)") == text.replace(
            " F\n", " LAKE.NS.F\n"
        )

    local_sql.run_local(tmp_path, work)


def test_get_ddl_of_a_schema_has_its_comment_and_file_formats_and_no_stages(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema more comment = 'it''s'")
        await local.run("use schema more")
        await local.run("create file format f type = json")
        await local.run("create temporary file format g type = csv")
        await local.run("create stage s")
        await local.run("create table t (a int)")
        assert await local.one("select get_ddl('schema', 'more')") == (
            "create or replace schema MORE COMMENT='it''s';\n\n"
            "create or replace TABLE T (\n\tA NUMBER(38,0)\n);\n\n"
            "create or replace FILE FORMAT F\n\tTYPE = JSON\n;"
        )
        assert await local.one("select get_ddl('file_format', 'g')") == (
            "create or replace TEMPORARY FILE FORMAT G\n\tTYPE = CSV\n;"
        )
        await local.run("comment on database lake is 'the lake'")
        text = await local.one("select get_ddl('database', 'lake', true)")
        assert text.startswith("create or replace database LAKE COMMENT='the lake';\n\n")
        assert "create or replace FILE FORMAT LAKE.MORE.F" in text
        assert await refused(local, "select get_ddl('stage', 's')") == "000002"
        assert await refused(local, "select get_ddl('file_format', 'absent')") == "002003"
        local.session.principal = local_sql.user("stranger", [])
        assert await refused(local, "select get_ddl('file_format', 'f')") == "002003"

    local_sql.run_local(tmp_path, work)


def test_get_ddl_of_a_schema_has_each_object_after_those_that_it_needs(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for text in (
            "create table z (id int primary key)",
            "create table m (id int primary key, z int references z)",
            "create table a (m int references m (id), z int references z (id))",
            'create view "y y" as select id from z',
            'create view b as select 1 as one from a, "y y"',
            "create view a_view as with z as (select 1 as x) select one from (ns.b) join z",
        ):
            await local.run(text)
        whole = await local.one("select get_ddl('schema', 'ns')")
        statements = [each.removesuffix(";") for each in whole.split(";\n\n")]
        written = [each.split("(")[0].split("replace ")[1].strip() for each in statements[1:]]
        tables = ["TABLE Z", "TABLE M", "TABLE A"]
        assert written == [*tables, 'view "y y"', "view B", "view A_VIEW"]
        await local.run("create schema again")
        for statement in statements[1:]:
            await local.run(statement.replace("LAKE.NS.", "LAKE.AGAIN."))
        again = await local.one("select get_ddl('schema', 'again')")
        assert again == whole.replace("schema NS", "schema AGAIN").replace(".NS.", ".AGAIN.")
        assert await local.rows("select * from again.a_view") == []

        await local.run("alter table ns.z add foreign key (id) references ns.m (id)")
        ring = (await local.one("select get_ddl('schema', 'ns')")).split(";\n\n")
        assert len(ring) == len(statements)
        assert sum("references LAKE.NS.M(ID)" in each for each in ring) == 2

    local_sql.run_local(tmp_path, work)


def test_a_call_of_get_ddl_in_a_comment_or_a_string_is_none(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        call = "get_ddl('table', 'absent')"
        assert await local.one(f"select 1 -- {call}") == 1
        assert await local.one(f"select 1 /* {call} */") == 1
        assert await local.one(f"select $${call}$$") == call
        await local.run("create table t (a int)")
        text = "create or replace TABLE T (\n\tA NUMBER(38,0)\n);"
        assert await local.one(r"select get_ddl('tab\le' /* , */, $$t$$, false)") == text
        both = "select get_ddl('table', 't'), get_ddl('table', 't', true)"
        assert await local.rows(both) == [(text, text.replace(" T ", " LAKE.NS.T "))]

    local_sql.run_local(tmp_path, work)


def test_the_texts_of_one_statement_have_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("create table u (a int)")
        assert await local.one("select length(get_ddl('schema', 'ns')) < 200")
        monkeypatch.setattr(ddl_texts, "CHARS_MAX", 60)
        assert await local.one("select length(get_ddl('table', 't')) < 60")
        assert await refused(local, "select get_ddl('schema', 'ns')") == "000625"

    local_sql.run_local(tmp_path, work)


@pytest.fixture(scope="module")
def local(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[asyncio.Runner, local_sql.LocalSql]]:
    path = tmp_path_factory.mktemp("ddl")
    with asyncio.Runner() as runner:
        manager = local_sql.opened_inline(path)
        opened = runner.run(manager.__aenter__())
        yield runner, opened
        runner.run(manager.__aexit__(None, None, None))


@strategies.composite
def tables(draw: strategies.DrawFn) -> str:
    names = draw(strategies.lists(strategies.sampled_from(NAMES), min_size=1, unique=True))
    columns = []
    for name in names:
        column_type = draw(strategies.sampled_from(TYPES))
        parts = [name, column_type]
        if column_type in DEFAULTS and draw(strategies.booleans()):
            parts.append(f"default {DEFAULTS[column_type]}")
        if draw(strategies.booleans()):
            parts.append("not null")
        if draw(strategies.booleans()):
            parts.append("comment 'a ''comment'' \\\\ of it'")
        columns.append((name, column_type, " ".join(parts)))
    lines = [line for _, _, line in columns]
    keyed = [name for name, column_type, _ in columns if column_type in ("int", "varchar", "date")]
    if keyed and draw(strategies.booleans()):
        lines.append(f"primary key ({keyed[0]})")
    if keyed and draw(strategies.booleans()):
        lines.append(f"constraint u unique ({keyed[-1]})")
    cluster = f" cluster by ({keyed[0]})" if keyed and draw(strategies.booleans()) else ""
    comment = " comment = 'x ''y'''" if draw(strategies.booleans()) else ""
    return f"({', '.join(lines)}){cluster}{comment}"


@hypothesis.settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(tables())
def test_the_text_of_get_ddl_makes_the_same_table_again(
    local: tuple[asyncio.Runner, local_sql.LocalSql], elements: str
) -> None:
    runner, opened = local

    async def work() -> None:
        await opened.run(f'create or replace table "The Table" {elements}')
        described = await opened.rows('describe table "The Table"')
        text = await opened.one("select get_ddl('table', '\"The Table\"')")
        await opened.run('drop table "The Table"')
        await opened.run(text)
        assert await opened.rows('describe table "The Table"') == described
        assert await opened.one("select get_ddl('table', '\"The Table\"')") == text

    runner.run(work())


def test_whole_numbers_of_another_engine_are_made_again_as_such(tmp_path: Path) -> None:
    """NUMBER(19,0), as DESCRIBE calls a `long`, is a decimal in CREATE TABLE."""

    async def work(opened: local_sql.LocalSql) -> None:
        fields = [
            {"id": at, "name": name, "required": False, "type": name}
            for at, name in enumerate(("int", "long"), start=1)
        ]
        await tablefiles.make(opened, fields=fields)
        text = await opened.one("select get_ddl('table', 't')")
        assert text == 'create or replace TABLE T (\n\t"INT" INT,\n\t"LONG" BIGINT\n);'
        await opened.run("drop table t")
        await opened.run(text)
        loaded = opened.lake.load(opened.lake.ident("ns.t"))
        types = [field["type"] for field in loaded.metadata.current_schema()["fields"]]
        assert types == ["long", "long"]

    local_sql.run_local(tmp_path, work)
