"""The types of the columns that CREATE TABLE AS and CREATE VIEW make of a query."""

from __future__ import annotations

from pathlib import Path

from tests.kit import local_sql

COLUMNS = {
    "id::number(38)": ("NUMBER(38,0)", "decimal(38,0)"),
    "id::number(12)": ("NUMBER(12,0)", "decimal(12,0)"),
    "5::number(5)": ("NUMBER(5,0)", "decimal(5,0)"),
    "'5'::number(5)": ("NUMBER(5,0)", "decimal(5,0)"),
    "try_cast(s as number(7))": ("NUMBER(7,0)", "decimal(7,0)"),
    "max(id::number(9)) over ()": ("NUMBER(9,0)", "decimal(9,0)"),
    "coalesce(id::number(4), 0::number(6))": ("NUMBER(6,0)", "decimal(6,0)"),
    "p": ("NUMBER(12,0)", "decimal(12,0)"),
    "id": ("NUMBER(38,0)", "long"),
    "id::int": ("NUMBER(38,0)", "long"),
    "id::number": ("NUMBER(38,0)", "decimal(38,0)"),
    "id::number(12)::int": ("NUMBER(38,0)", "decimal(38,0)"),
    "count(*) over ()": ("NUMBER(38,0)", "long"),
}


async def described(local: local_sql.LocalSql, text: str) -> list[str]:
    return [row[1] for row in await local.rows(text)]


def test_a_precision_that_a_cast_names_is_that_of_the_column(tmp_path: Path) -> None:
    """Whatever values the table has: their bounds alone would let them stay 64-bit integers."""
    listed = ", ".join(f"{text} as c{number}" for number, text in enumerate(COLUMNS))
    shown = [each for each, _ in COLUMNS.values()]

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, s varchar, p number(12, 0))")
        for rows in ("", "insert into t values (1, '2', 3), (null, null, null)"):
            if rows:
                await local.run(rows)
            await local.run(f"create or replace table made as select {listed} from t")
            assert await described(local, "describe table made") == shown
            metadata = local.lake.load(local.lake.ident("ns.made")).metadata
            fields = metadata.current_schema()["fields"]
            assert [field["type"] for field in fields] == [form for _, form in COLUMNS.values()]
            await local.run(f"create or replace view seen as select {listed} from t")
            assert await described(local, "describe view seen") == shown
            for relation in ("made", "seen"):
                await local.run(f"create or replace table again as select * from {relation}")
                assert await described(local, "describe table again") == shown
        nines = "9" * 38
        await local.run(f"insert into made (c0) select {nines}")
        assert str(await local.one("select max(c0) from made")) == nines

    local_sql.run_local(tmp_path, work)


def test_branches_of_a_union_that_all_name_a_precision_have_the_largest(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t as select 1 as id")
        await local.run(
            "create table named as select id::number(12) as a, id::number(3) as b from t"
            " union all select 7::number(4), id from t union all select null, null"
        )
        assert await described(local, "describe table named") == ["NUMBER(12,0)", "NUMBER(38,0)"]

    local_sql.run_local(tmp_path, work)
