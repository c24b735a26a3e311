"""Texts become one operation of the closed set, or Snowflake's error with its place."""

from __future__ import annotations

import re

import pytest

from sql import errors
from sql.dialect import names, operations, parse, sqltypes


def ident(text: str, *, quoted: bool = False) -> names.Ident:
    return names.Ident(text=text, quoted=quoted)


@pytest.mark.parametrize(
    ("text", "operation_type"),
    [
        ("select 1", operations.Query),
        ("(select 1) union all select 2", operations.Query),
        ("with x as (select 1 a) select a from x;", operations.Query),
        ("values (1, 2)", operations.Query),
        ("/* head */ select 1 -- tail", operations.Query),
        ("explain select 1", operations.Explain),
        ("explain using text select 1", operations.Explain),
        ("explain using json insert into t select 1", operations.Explain),
        ("explain delete from t where a = 1", operations.Explain),
        ("begin", operations.BeginTransaction),
        ("begin transaction", operations.BeginTransaction),
        ("start transaction", operations.BeginTransaction),
        ("commit", operations.CommitTransaction),
        ("commit work", operations.CommitTransaction),
        ("rollback", operations.RollbackTransaction),
        ("insert into t values (1)", operations.Insert),
        ("delete from t", operations.ChangeRows),
        ("update t set a = 1", operations.ChangeRows),
        ("merge into t using s on 1 = 1 when matched then delete", operations.ChangeRows),
        ("insert all into t values (1) select 1", operations.InsertAll),
        ("truncate table t", operations.Truncate),
        ("truncate if exists a.t", operations.Truncate),
        ("show tables", operations.Show),
        ("describe table t", operations.Describe),
        ("use schema a.b", operations.Use),
        ("set x = 1", operations.SetVariables),
        ("unset x", operations.UnsetVariables),
        ("alter session set query_tag = 'x'", operations.AlterSession),
        ("drop table t", operations.DropTable),
        ("drop schema s", operations.DropSchema),
        ("undrop schema d.s", operations.UndropSchema),
        ("create schema s", operations.CreateSchema),
        ("create table t (a int)", operations.CreateTable),
        ("create view v as select 1 as a", operations.CreateView),
        ("drop view v", operations.DropView),
        ("alter view v set secure", operations.AlterView),
    ],
)
def test_parse_gives_one_operation_of_the_closed_set(text: str, operation_type: type) -> None:
    assert type(parse.parse(text)) is operation_type


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("truncate materialized view v", "TRUNCATE MATERIALIZED VIEW"),
        ("alter warehouse w abort all queries", "ALTER WAREHOUSE ... ABORT"),
        ("create warehouse w resource_monitor = m", "CREATE WAREHOUSE ... RESOURCE_MONITOR"),
        ("alter warehouse w unset warehouse_size", "ALTER WAREHOUSE ... UNSET WAREHOUSE_SIZE"),
        ("create materialized view v as select 1", "CREATE MATERIALIZED VIEW"),
        ("alter view v add row access policy p on (a)", "ALTER VIEW ... ADD ROW"),
        ("create database d clone e ignore hybrid tables", "CREATE DATABASE ... IGNORE"),
        (
            "alter database d rename to e",
            "ALTER DATABASE ... RENAME TO (a table bucket keeps its name)",
        ),
        ("alter schema s rename to t", "ALTER SCHEMA ... RENAME TO (a namespace keeps its name)"),
        ("create stage s url = 's3://b/'", "CREATE STAGE ... URL"),
        ("drop materialized view v", "DROP MATERIALIZED VIEW"),
        ("undrop database d", "UNDROP DATABASE"),
        ("grant ownership on table t to role r", "GRANT OWNERSHIP"),
        ("grant select on future tables in schema s to role r", "GRANT ... ON FUTURE"),
        ("grant role r to role s", "GRANT ROLE ... TO ROLE"),
        ("create or replace user u", "CREATE OR REPLACE USER"),
        ("call p()", "CALL P"),
        ("execute immediate from @s/f.sql", "EXECUTE IMMEDIATE FROM"),
        ("execute task t", "EXECUTE TASK"),
        ("put file:///x @s unknown = 1", "PUT ... UNKNOWN"),
        ("copy into t from 's3://b/x'", "an external location, s3://"),
        ("copy into 'azure://a.blob.core.windows.net/b' from t", "an external location, azure://"),
        ("copy into t from 'file:///etc/passwd'", "an external location, file://"),
        ("copy into t from '/tmp/x'", "a location that is no stage"),
        ("comment on task v is 'x'", "COMMENT ON TASK"),
        ("show grants limit 5", "SHOW GRANTS ... LIMIT"),
        ("show", "SHOW"),
        ("show tables history", None),
        ("create table t (a int check (a > 1))", "column constraint CHECK"),
        ("create table t (a int, check (a > 1))", "CHECK constraint"),
        ("create table t (a varchar collate 'de')", "column constraint COLLATE"),
        ("create table t (a int with masking policy p)", "column constraint WITH MASKING"),
        ("create table t (a int primary key enforced)", "ENFORCED constraint"),
        ("alter table t add row access policy p on (a)", "ALTER TABLE ... ADD ROW"),
        ("alter table t set tag x = 'y'", "ALTER TABLE ... SET TAG"),
        ("alter table t alter column a set masking policy p", "ALTER COLUMN ... SET of this form"),
        ("create table t (a geography)", "data type GEOGRAPHY"),
        ("create table t (a timestamp) cluster by (month(a))", "CLUSTER BY MONTH(a)"),
        ("create table t (a int) change_tracking = true", "CHANGE_TRACKING = TRUE"),
        ("create view v change_tracking = true as select 1", "CREATE VIEW ... CHANGE_TRACKING"),
        ("alter view v set change_tracking = true", "ALTER VIEW ... SET CHANGE_TRACKING"),
        *(
            (f"{words}{ending}", f"{words.upper().replace(' N', ' ...')} {option.upper()}")
            for option in ("data_retention_time_in_days", "max_data_extension_time_in_days")
            for words, ending in (
                ("create schema n", f" {option} = 1"),
                ("create database n", f" {option} = 1"),
                ("alter schema n set", f" {option} = 1"),
                ("alter schema n unset", f" {option}"),
                ("alter database n set", f" {option} = 1"),
                ("alter database n unset", f" {option}"),
            )
        ),
        ("alter schema s swap with t", "ALTER SCHEMA ... SWAP WITH"),
        ("alter database d swap", "ALTER DATABASE ... SWAP"),
        ("alter table t set enable_schema_evolution = true", "ENABLE_SCHEMA_EVOLUTION = TRUE"),
        ("alter table t resume recluster", "ALTER TABLE ... RESUME RECLUSTER"),
        ("insert first into t values (1) select 1", "INSERT FIRST without WHEN"),
        ("describe warehouse w", "DESCRIBE WAREHOUSE"),
        ('desc role "R"', "DESCRIBE ROLE"),
        ("describe row access policy p", "DESCRIBE ROW ACCESS POLICY"),
        ("create storage integration i type = x", "CREATE STORAGE INTEGRATION"),
        ("create or replace secret s type = x", "CREATE OR REPLACE SECRET"),
        ("create alert a if (exists (select 1)) then select 1", "CREATE ALERT"),
        ("drop streamlit s", "DROP STREAMLIT"),
        ("alter network rule r set comment = 'x'", "ALTER NETWORK RULE"),
        ("create pipe p as copy into t from @s", "CREATE PIPE"),
        ("copy files into @a from @b", "COPY FILES"),
        ("select nth_value(a, 2) from last over (order by a) from t", "NTH_VALUE ... FROM LAST"),
        ("select nth_value(a, 2) from first over (order by a) from last", None),
        ("describe role", None),
        ("describe model.t", None),
    ],
)
def test_what_is_not_built_is_refused_by_its_name(text: str, name: str | None) -> None:
    if name is None:
        assert parse.parse(text)
        return
    with pytest.raises(errors.SqlError) as caught:
        parse.parse(text)

    assert caught.value.code == "000002"
    _, refusal, *_ = caught.value.message.split("\n")
    assert refusal == f"Unsupported feature '{name}'."


@pytest.mark.parametrize(
    "text", ["begin let x := 1; return x; end", "/* a */ declare x int; begin return 1; end"]
)
def test_a_block_of_scripting_among_statements_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(errors.SqlError, match=r"BEGIN \.\.\. END block") as caught:
        parse.split(text)
    assert caught.value.code == "000002"


def test_begin_of_a_transaction_is_split_from_the_next_statement() -> None:
    assert parse.split("begin work; select 1") == ["begin work", "select 1"]
    assert parse.split("begin; select 1") == ["begin", "select 1"]


@pytest.mark.parametrize(
    ("text", "line", "position", "unexpected"),
    [
        ("selec 1", 1, 0, "selec"),
        ("select 1 from", 1, 13, "<EOF>"),
        ("select (1", 1, 9, "<EOF>"),
        ("select a\nfrom t\nwhere where", 3, 6, "where"),
        ("select 1; select 2", 1, 8, ";"),
        ("use", 1, 3, "<EOF>"),
        ("drop table", 1, 10, "<EOF>"),
        ("select 1 where 1 in", 1, 19, "<EOF>"),
        ("select a from t where a not in", 1, 30, "<EOF>"),
        ("create table t (a int default", 1, 29, "<EOF>"),
        ("select 1e308.25", 1, 7, "1e308.25"),
        ("unset 5", 1, 6, "5"),
        ("commit now", 1, 7, "now"),
        ("drop t", 1, 5, "t"),
        ("create tabel t (a int)", 1, 7, "tabel"),
        ("create or replace tabel t (a int)", 1, 18, "tabel"),
        ("create table t (a int not nul)", 1, 26, "nul"),
        ("insert t values (1)", 1, 7, "t"),
        ("insert into t set a = 1", 1, 14, "set"),
        ("delete t where a = 1", 1, 7, "t"),
    ],
)
def test_a_syntax_fault_knows_line_position_and_token(
    text: str, line: int, position: int, unexpected: str
) -> None:
    with pytest.raises(errors.SqlError) as caught:
        parse.parse(text)

    assert (caught.value.code, caught.value.sqlstate) == ("001003", "42000")
    assert (caught.value.line, caught.value.position) == (line, position)
    assert f"unexpected '{unexpected}'" in caught.value.message


@pytest.mark.parametrize("text", ["", "  ", ";", "-- only a comment", "/* x */ ;;"])
def test_nothing_to_run_is_an_empty_statement(text: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        parse.parse(text)

    assert caught.value.code == "000900"
    assert "Empty SQL statement" in caught.value.message


@pytest.mark.parametrize(
    ("text", "line", "position"),
    [
        ("select 'abc", 1, 7),
        ("select 'it's'", 1, 12),
        ("select 'a''b', 'x\\'y', -- it's\n 'z", 2, 1),
        ('select "a""b", "c', 1, 15),
        ("select $$ ' $$, $$a", 1, 16),
        ("select 1 - 2 / 3, $1\nfrom t /* until the end", 2, 7),
        ("/* head */ // it's\n/*", 2, 0),
    ],
)
def test_an_open_quote_or_comment_is_a_syntax_fault_where_it_begins(
    text: str, line: int, position: int
) -> None:
    with pytest.raises(errors.SqlError) as caught:
        parse.parse(text)

    assert caught.value.code == "001003"
    assert (caught.value.line, caught.value.position) == (line, position)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("insert into t values (1,,2)", 24),
        ("insert into t values (1,)", 24),
        ("insert into t values (1),", 25),
        ("insert into t values (1),,(2)", 25),
        ("insert into t (a,,b) values (1, 2)", 17),
        ("insert into t (a,) values (1)", 17),
        ("update t set a = 1,, b = 2", 19),
        ("update t set a = 1, where b = 2", 20),
        ("select 1,,2 from t", 9),
        ("select ,1 from t", 7),
        ("select f(1,)", 11),
        ("select f(,1)", 9),
        ("select [1,,2]", 10),
        ("select a in (1,,2) from t", 15),
        ("select a from t,,u", 16),
        ("select a from t, where a = 1", 17),
        ("select a from t group by a,,b", 27),
        ("select a from t order by a,", 27),
        ("select sum(a) over (partition by a, order by b) from t", 36),
        ("with a as (select 1), select 1", 22),
        ("select * exclude (a,) from t", 20),
    ],
)
def test_a_list_that_lacks_an_item_is_a_syntax_fault(text: str, position: int) -> None:
    with pytest.raises(errors.SqlError) as caught:
        parse.parse(text)

    assert (caught.value.code, caught.value.position) == ("001003", position)


def test_a_comment_may_stand_between_the_words_of_a_clause() -> None:
    for text in (
        "select a from t group /* a */ by a order -- b\n by a",
        "select sum(a) over (partition // c\n by b order /**/ by c) from t",
        "select a from t start /* a */ with a = 1 connect /* b */ by prior a = b",
        'select $$group$$ /* a */ by, \'order\' /* b */ "by", "group" /* c */ by from t',
    ):
        commented = parse.parse(text)
        plain = parse.parse(re.sub(r"/\*.*?\*/|(?:--|//).*", " ", text))
        assert isinstance(commented, operations.Query)
        assert isinstance(plain, operations.Query)
        assert commented.tree.sql(comments=False) == plain.tree.sql(comments=False)


def test_a_select_list_may_end_with_a_comma() -> None:
    operation = parse.parse("select a, b, from t")

    assert isinstance(operation, operations.Query)
    assert [item.name for item in operation.tree.expressions] == ["a", "b"]


def test_deep_nesting_is_refused_not_a_crash() -> None:
    with pytest.raises(errors.SqlError) as caught:
        parse.parse("select " + "(" * 5000 + "1" + ")" * 5000)

    assert caught.value.code == "000002"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1", ["select 1"]),
        ("select 1; select 2;", ["select 1", "select 2"]),
        ("select ';'; select \";\"", ["select ';'", 'select ";"']),
        ("select $$ ; $$; select 2", ["select $$ ; $$", "select 2"]),
        (r"select 'it\'s;'; select 2", [r"select 'it\'s;'", "select 2"]),
        ("select 'it''s;'; select 2", ["select 'it''s;'", "select 2"]),
        ("select 1 -- ; no\n; select 2 // ; no\n", ["select 1", "select 2"]),
        ("select 1 /* ; */ + 1; ;; ", ["select 1 /* ; */ + 1"]),
        ("-- nothing", []),
        ("", []),
    ],
)
def test_split_knows_quotes_dollars_and_comments(text: str, expected: list[str]) -> None:
    assert parse.split(text) == expected


def test_create_table_reads_columns_types_and_clauses() -> None:
    operation = parse.parse(
        'create or replace transient table lake.ns.t (id int not null, "Name" varchar(10) '
        "comment 'n', amount number(10, 2), at timestamp_ltz) comment = 'c' "
        "partition by (month(at), bucket(4, id)) cluster by (id)"
    )

    assert isinstance(operation, operations.CreateTable)
    assert operation.name == (ident("lake"), ident("ns"), ident("t"))
    assert operation.replace
    assert operation.comment == "c"
    assert [(column.name, column.required, column.comment) for column in operation.columns] == [
        (ident("id"), True, None),
        (ident("Name", quoted=True), False, "n"),
        (ident("amount"), False, None),
        (ident("at"), False, None),
    ]
    assert [column.type for column in operation.columns] == [
        sqltypes.integer(38),
        sqltypes.text(10),
        sqltypes.number(10, 2),
        sqltypes.TIMESTAMP_LTZ,
    ]
    assert operation.partition_by == (("month", ident("at")), ("bucket[4]", ident("id")))
    assert operation.cluster_by == (("identity", ident("id")),)


def test_insert_reads_target_and_column_list() -> None:
    operation = parse.parse('insert into ns.t (a, "B") select 1, 2')

    assert isinstance(operation, operations.Insert)
    assert operation.name == (ident("ns"), ident("t"))
    assert operation.columns == (ident("a"), ident("B", quoted=True))
    assert not operation.overwrite


def test_set_takes_one_variable_or_a_list() -> None:
    one = parse.parse("set x = 5")
    many = parse.parse("set (x, y) = (1, 'a')")

    assert isinstance(one, operations.SetVariables)
    assert isinstance(many, operations.SetVariables)
    assert [item.folded for item in one.names] == ["X"]
    assert [item.folded for item in many.names] == ["X", "Y"]
    assert len(many.values.expressions) == 2


@pytest.mark.parametrize(
    ("text", "position", "unexpected"),
    [
        ("set datafusion.execution.batch_size = 1", 14, "."),
        ("set (x, datafusion.y) = (1, 2)", 18, "."),
        ("set 'x' = 1", 4, "'x'"),
        ("set x to 1", 6, "to"),
    ],
)
def test_set_takes_no_engine_setting_and_no_other_target(
    text: str, position: int, unexpected: str
) -> None:
    with pytest.raises(errors.SqlError) as caught:
        parse.parse(text)
    assert (caught.value.code, caught.value.position) == ("001003", position)
    assert f"unexpected '{unexpected}'" in caught.value.message


def test_alter_session_reads_values_of_each_kind() -> None:
    operation = parse.parse("alter session set AUTOCOMMIT = false, timezone='UTC' week_start = 1")

    assert operation == operations.AlterSession(
        set=(("AUTOCOMMIT", False), ("TIMEZONE", "UTC"), ("WEEK_START", 1))
    )
    assert parse.parse("alter session unset timezone, query_tag") == operations.AlterSession(
        unset=("TIMEZONE", "QUERY_TAG")
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("show tables", operations.Show(listing="TABLES")),
        (
            "show terse schemas in database D limit 10000",
            operations.Show(
                listing="SCHEMAS",
                terse=True,
                scope_type="database",
                scope=(ident("D"),),
                limit=10000,
            ),
        ),
        (
            "show /* JDBC:DatabaseMetaData.getCatalogs() */ databases in account",
            operations.Show(listing="DATABASES", scope_type="account"),
        ),
        (
            "show objects like 'a%' in lake.ns starts with 'A' limit 5 from 'AB'",
            operations.Show(
                listing="OBJECTS",
                like="a%",
                scope_type="name",
                scope=(ident("lake"), ident("ns")),
                starts_with="A",
                limit=5,
                limit_from="AB",
            ),
        ),
        (
            "show parameters like 'query_tag' in session",
            operations.Show(listing="PARAMETERS", like="query_tag", scope_type="session"),
        ),
        (
            'show columns in table "T"',
            operations.Show(
                listing="COLUMNS", scope_type="table", scope=(ident("T", quoted=True),)
            ),
        ),
        (
            "show user functions in schema a.b",
            operations.Show(
                listing="USER FUNCTIONS", scope_type="schema", scope=(ident("a"), ident("b"))
            ),
        ),
        ("show primary keys", operations.Show(listing="PRIMARY KEYS")),
    ],
)  # fmt: skip
def test_show_is_read_with_all_its_clauses(text: str, expected: operations.Show) -> None:
    assert parse.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "object_type"),
    [
        ("desc t", "table"),
        ("describe table a.b.c", "table"),
        ("desc table t type = columns", "table"),
        ("describe view v", "view"),
        ("desc schema s", "schema"),
    ],
)
def test_describe_is_read(text: str, object_type: str) -> None:
    operation = parse.parse(text)

    assert isinstance(operation, operations.Describe)
    assert operation.object_type == object_type


@pytest.mark.parametrize(
    ("text", "object_type", "parts"),
    [
        ("use database d", "database", ["D"]),
        ('use warehouse "w h"', "warehouse", ["w h"]),
        ("use role r", "role", ["R"]),
        ("use schema d.s", "schema", ["D", "S"]),
        ("use d.s", "", ["D", "S"]),
        ("use d", "", ["D"]),
        ("use secondary roles all", "secondary roles", ["ALL"]),
    ],
)
def test_use_is_read(text: str, object_type: str, parts: list[str]) -> None:
    operation = parse.parse(text)

    assert isinstance(operation, operations.Use)
    assert operation.object_type == object_type
    assert [part.folded for part in operation.name] == parts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("describe table identifier('t')", "T"),
        ("describe table identifier('lake.\"n s\".T')", "LAKE.n s.T"),
        ("use schema identifier('a.b')", "A.B"),
    ],
)
def test_identifier_is_the_name_that_its_text_spells(text: str, shown: str) -> None:
    operation = parse.parse(text)
    assert isinstance(operation, operations.Describe | operations.Use)
    assert names.dotted(operation.name) == shown


@pytest.mark.parametrize("text", ["x y", "", "a.", "a.b.c.d", "a;b"])
def test_identifier_of_another_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        parse.parse(f"describe table identifier('{text}')")
    assert (caught.value.code, "IDENTIFIER" in caught.value.message) == ("000002", True)


def test_a_text_or_a_name_that_is_an_arrow_joins_no_statements() -> None:
    for text in ("select '->>'", "select $$->>$$", 'select 1 as "->>"', "select 1 -- ->>"):
        assert parse.split_flow(text) == [text]
    assert parse.split_flow("show x ->> select $$->>$$") == ["show x ", " select $$->>$$"]


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("put file:///tmp/* @s", "/tmp/*"),
        ("/* a */ -- b\nPUT file:///tmp/*.csv @s overwrite = true /* c */;", "/tmp/*.csv"),
        ("put file:///tmp/a--b/x @s;", "/tmp/a--b/x"),
        ("put 'file:///tmp/a b/*' @s", "/tmp/a b/*"),
    ],
)
def test_a_path_of_put_begins_no_comment(text: str, local: str) -> None:
    put = parse.parse(text)
    assert isinstance(put, operations.PutFiles)
    assert put.local == local
    assert len(parse.split(text)) == 1


@pytest.mark.parametrize(
    ("text", "local", "overwrites"),
    [
        ("put 'file://it's.csv' @s/d overwrite = true", "it's.csv", True),
        ("put file://a b.csv @s", "a b.csv", False),
        ("put file://it's b;c.csv '@s/d'", "it's b;c.csv", False),
        ("put 'file://a''b.csv' @s", "a'b.csv", False),
        ("put 'file://it\\'s.csv' @s", "it's.csv", False),
        ("put 'file://a@ b.csv' @s", "a@ b.csv", False),
    ],
)
def test_a_put_that_a_driver_sends_again_has_the_name_of_its_file(
    text: str, local: str, overwrites: bool
) -> None:
    put = parse.parse(text)
    assert isinstance(put, operations.PutFiles)
    assert (put.local, put.overwrite) == (local, overwrites)
    assert put.location.name[0].folded == "S"


@pytest.mark.parametrize("text", ["put 'file://a.csv @s", "put file://a b.csv", "put 'file://a' s"])
def test_a_put_without_an_end_of_its_path_or_a_stage_is_refused(text: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        parse.parse(text)
    assert caught.value.code in ("001003", "000904")


def test_comments_before_a_statement_are_read_in_linear_time() -> None:
    text = "/**/" * 20_000 + "select 1"
    assert isinstance(parse.parse(text), operations.Query)
