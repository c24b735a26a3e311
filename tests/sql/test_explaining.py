"""EXPLAIN: its three forms, of queries and of statements that write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sql import errors, outcomes
from tests.kit import local_sql


async def prepared(local: local_sql.LocalSql) -> None:
    await local.run("create table t (a int, b varchar)")
    await local.run("create table u (a int, b varchar)")
    for number in (1, 2):
        await local.run(f"insert into t values ({number}, 'x{number}')")
    await local.run("insert into u values (2, 'y')")


def size_of(local: local_sql.LocalSql, table: str, *, largest: int) -> int:
    """Return the bytes of the newest data files of a table."""
    objects = local.lake.storage.objects.list("lake", prefix=f"ns/{table}/data/").objects
    return sum(info.size_bytes for info in objects[:largest])


JOIN = "select z.a, u.b from t z join u on z.a = u.a where z.a = 2"


def test_explain_is_tabular_with_snowflakes_columns_and_counts_of_files(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        outcome = await local.run(f"explain {JOIN}")
        assert outcome.statement_type_id == outcomes.StatementType.EXPLAIN
        assert [column.name for column in outcome.columns] == [
            "step", "id", "parentOperators", "operation", "objects", "alias", "expressions",
            "partitionsTotal", "partitionsAssigned", "bytesAssigned",
        ]  # fmt: skip
        assert outcome.rows is not None
        total, result, *others = [tuple(row) for row in outcome.rows]
        assert total[:7] == (None, None, None, "GlobalStats", None, None, None)
        assert total[7:9] == (3, 2)
        assert result == (1, 0, None, "Result", None, None, "A, B", None, None, None)
        by_operation: dict[str, list[Any]] = {}
        for row in others:
            by_operation.setdefault(row[3], []).append(row)
        (join,) = by_operation["InnerJoin"]
        assert join[6] == "joinKey: (Z.a = u.a)"
        scans = {row[4]: row for row in by_operation["TableScan"]}
        assert scans["LAKE.NS.T"][5] == "Z"
        assert scans["LAKE.NS.T"][7:9] == (2, 1)
        assert scans["LAKE.NS.U"][5] is None
        assert scans["LAKE.NS.U"][7:] == (1, 1, size_of(local, "u", largest=1))
        assert total[9] == scans["LAKE.NS.T"][9] + scans["LAKE.NS.U"][9]
        ids = {row[1] for row in outcome.rows[1:]}
        assert all(json.loads(row[2])[0] in ids for row in others)
        assert "a = 2" in " ".join(row[6] for row in by_operation["Filter"])
        assert await local.rows(f"explain using tabular {JOIN}") == list(outcome.rows)

    local_sql.run_local(tmp_path, work)


def test_explain_using_json_and_text_say_what_the_table_says(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        rows = await local.rows(f"explain {JOIN}")
        outcome = await local.run(f"explain using json {JOIN}")
        assert [column.name for column in outcome.columns] == ["content"]
        assert outcome.rows is not None
        document = json.loads(outcome.rows[0][0])
        assert document["GlobalStats"] == {
            "partitionsTotal": 3,
            "partitionsAssigned": 2,
            "bytesAssigned": rows[0][9],
        }
        (operations,) = document["Operations"]
        assert [
            (
                each["id"],
                json.dumps(each["parentOperators"]) if "parentOperators" in each else None,
                each["operation"],
                ", ".join(each.get("objects", [])) or None,
                each.get("alias"),
                ", ".join(each.get("expressions", [])) or None,
                each.get("partitionsTotal"),
                each.get("partitionsAssigned"),
                each.get("bytesAssigned"),
            )
            for each in operations
        ] == [row[1:] for row in rows[1:]]

        ((text,),) = await local.rows(f"explain using text {JOIN}")
        lines = text.split("\n")
        assert lines[:5] == [
            "GlobalStats:",
            "    partitionsTotal=3",
            "    partitionsAssigned=2",
            f"    bytesAssigned={rows[0][9]}",
            "Operations:",
        ]
        assert lines[5] == "1:0  ->Result  A, B"
        assert str(tmp_path).strip("/") not in text

    local_sql.run_local(tmp_path, work)


WRITES = {
    "insert into t (a) select a from u": ("Insert", {"LAKE.NS.U"}),
    "insert overwrite into t select * from t where a = 1": ("Insert", {"LAKE.NS.T"}),
    "insert into t values (1, 'x')": ("Insert", set()),
    "insert all into t (a) values (a) into u (a) values (a) select a from u": (
        "MultiTableInsert",
        {"LAKE.NS.U"},
    ),
    "delete from t": ("Delete", {"LAKE.NS.T"}),
    "delete from t where a = 1": ("Delete", {"LAKE.NS.T"}),
    "update t set b = u.b from u where t.a = u.a": ("Update", {"LAKE.NS.T", "LAKE.NS.U"}),
    "merge into t using u on t.a = u.a when matched then update set b = u.b"
    " when not matched then insert values (u.a, u.b)": ("Merge", {"LAKE.NS.T", "LAKE.NS.U"}),
    "create table n as select * from u": ("CreateTableAsSelect", {"LAKE.NS.U"}),
    "create or replace table t as select * from u": ("CreateTableAsSelect", {"LAKE.NS.U"}),
    "create temporary table n as select * from u": ("CreateTableAsSelect", {"LAKE.NS.U"}),
}


@pytest.mark.parametrize("text", WRITES)
def test_explain_of_a_statement_that_writes_shows_its_plan_and_changes_nothing(
    tmp_path: Path, text: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        before = local.lake.log()
        rows = await local.rows(f"explain {text}")
        verb, tables = WRITES[text]
        assert (rows[1][1], rows[1][3]) == (0, verb)
        assert {row[4] for row in rows if row[3] == "TableScan"} == tables
        assert rows[0][7] == sum({"LAKE.NS.T": 2, "LAKE.NS.U": 1}[table] for table in tables)
        assert local.lake.log() == before
        assert await local.rows("select count(*) from t") == [(2,)]

    local_sql.run_local(tmp_path, work)


def test_explain_of_a_delete_counts_the_files_that_its_condition_leaves(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        rows = await local.rows("explain delete from t where a = 2")
        assert rows[0][7:9] == (2, 1)

    local_sql.run_local(tmp_path, work)


def test_explain_takes_no_numbers_of_a_sequence(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        await local.run("create sequence s")
        await local.rows("explain select s.nextval")
        await local.rows("explain insert into t (a) select s.nextval from u")
        await local.rows("explain create table n as select s.nextval as a from u")
        assert await local.one("select s.nextval") == 1

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("explain truncate table t", "000002", "EXPLAIN of TRUNCATE"),
        ("explain drop table t", "000002", "EXPLAIN of DROP"),
        ("explain create table n (a int)", "000002", "EXPLAIN of CREATE"),
        ("explain create table n clone t", "000002", "EXPLAIN of CREATE"),
        ("explain using xml select 1", "000002", "XML"),
        ("explain explain select 1", "001003", "EXPLAIN"),
        ("explain insert into nowhere select 1", "002003", "NOWHERE"),
        ("explain insert into t select 1, 'x', 3", "002020", ""),
        ("explain delete from t where c = 1", "000904", "C"),
        ("explain create table t as select 1 as a", "002002", "T"),
    ],
)
def test_explain_refuses_what_does_not_run_or_has_no_plan(
    tmp_path: Path, text: str, code: str, word: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(text)
        assert caught.value.code == code
        assert word.upper() in caught.value.message.upper()

    local_sql.run_local(tmp_path, work)


READ_ONLY = [
    {
        "Effect": "Allow",
        "Action": [
            "s3tables:GetTable*", "s3tables:GetNamespace", "s3tables:ListTables",
            "s3tables:ListNamespaces", "s3tables:GetTableBucket",
        ],
        "Resource": "*",
    }
]  # fmt: skip


@pytest.mark.parametrize("text", WRITES)
def test_explain_of_a_statement_needs_the_rights_to_run_it(tmp_path: Path, text: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        local.session.principal = local_sql.user("reader", READ_ONLY)
        assert len(await local.rows("explain select * from t")) > 1
        if "temporary" in text:
            assert len(await local.rows(f"explain {text}")) > 1
            return
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"explain {text}")
        assert caught.value.code == "003001"
        local.session.principal = local_sql.user("stranger", [])
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"explain {text}")
        # The session's own schema is no secret; the tables in it are.
        assert caught.value.code == ("003001" if text.startswith("create") else "002003")

    local_sql.run_local(tmp_path, work)


def test_explain_of_a_table_with_deleted_rows_names_the_table(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table m (a int) iceberg_merge_on_read_behavior = 'ENABLED'")
        await local.run("insert into m values (1), (2), (3)")
        await local.run("delete from m where a = 2")
        await local.run("insert into m values (4)")
        rows = await local.rows("explain select a from m")
        scanned = [row for row in rows if row[4] == "LAKE.NS.M"]
        assert scanned[0][7:9] == (2, 2)
        assert rows[0][7:9] == (2, 2)
        assert not any("__0_" in str(row) for row in rows)

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("query", "filters_while_reading"),
    [
        ("select * from t where a > 1", True),
        ("select b from t where a > 1 order by a limit 3", True),
        ("select row_number() over (order by b) from t where a > 1", True),
        ("select z.b, u.b from t z join u on z.a = u.a where z.a > 1", True),
        ("select min(b) from t where a > 1", False),
        ("select b, count(a) from t where a > 1 group by b having count(a) > 0 order by b", False),
        ("with x as (select b, min(a) m from t where a > 1 group by b) select * from x", False),
        ("select distinct b from t where a > 1", True),
    ],
)
def test_rows_of_groups_are_filtered_after_they_are_read(
    tmp_path: Path, query: str, filters_while_reading: bool
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        ((text,),) = await local.rows(f"explain using text {query}")
        assert ("FilterExec" not in text) is filters_while_reading, text

    local_sql.run_local(tmp_path, work)
