"""WITH expressions with RANDOM and its like: a statement reads the same rows at each place."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql import errors, limits
from tests.kit import local_sql

SETUP = (
    "create table t (id int, v variant, z timestamp_tz, l array(int), n number(38,2), s varchar)",
    "insert into t select column1, parse_json('{\"a\": [1]}'), '2024-01-01 00:00 +02:00',"
    " [1, 2]::array(int), 1.5, 'x' from values (1), (2), (3)",
)
TWICE = "with x as (select random() r, uuid_string() u, t.* from t)"


async def prepared(local: local_sql.LocalSql) -> None:
    for text in SETUP:
        await local.run(text)


def test_values_of_all_types_are_what_they_were(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        columns = "b.id, b.v:a[0]::int, b.z, b.l[1], b.n, b.s"
        joined = "from x a join x b on a.r = b.r and a.u = b.u and a.z = b.z order by 1"
        drawn = await local.rows(f"{TWICE} select {columns} {joined}")
        assert drawn == await local.rows(f"select {columns} from t b order by 1")
        assert len(drawn) == 3

    local_sql.run_local(tmp_path, work)


def test_every_statement_with_a_query_draws_once(tmp_path: Path) -> None:
    query = f"{TWICE} select a.r one, b.r two from x a join x b on a.id = b.id"

    async def work(local: local_sql.LocalSql) -> None:
        async def differing(table: str) -> tuple[int, int]:
            (row,) = await local.rows(f"select count(*), count_if(one <> two) from {table}")
            return (row[0], row[1])

        await prepared(local)
        await local.run(f"create table made as {query}")
        assert await differing("made") == (3, 0)
        await local.run(f"insert into made {query}")
        assert await differing("made") == (6, 0)
        await local.run(f"insert all into made into made {query}")
        assert await differing("made") == (12, 0)
        await local.run(
            f"merge into made using ({query}) s on made.one = s.one"
            " when not matched then insert values (s.one, s.two)"
        )
        assert await differing("made") == (15, 0)
        await local.run(f"create view seen as {query}")
        assert await differing("seen") == (3, 0)

    local_sql.run_local(tmp_path, work)


def test_values_of_a_pivot_are_those_of_the_rows_that_it_pivots(tmp_path: Path) -> None:
    drawn = "with x as (select randstr(9, random()) r from t)"
    pivot = "pivot (count(r) for r in (any)) p"

    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        query = "(select r, r as s from x) pivot (count(s) for r in (any))"
        for text in (f"{drawn} select * from {query}", f"{drawn} select * from x, {query}"):
            rows = await local.rows(text)
            assert {row[-3:] for row in rows} == {(1, 1, 1)}, text
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"select * from (select randstr(9, random()) r from t) {pivot}")
        assert (caught.value.code, "more than once" in caught.value.message) == ("000002", True)

    local_sql.run_local(tmp_path, work)


def test_explain_and_a_describe_compute_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{TWICE} select a.r, b.n from x a join x b on a.r = b.r"

    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        monkeypatch.setattr(limits, "DRAWN_BYTES_MAX", 0)
        described = await local.run(text, describe_only=True)
        assert [(column.name, column.type) for column in described.columns] == [
            ("R", "fixed"),
            ("N", "fixed"),
        ]
        assert await local.rows(f"explain {text}")
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(text)
        assert (caught.value.code, "RANDOM" in caught.value.message) == ("000625", True)

    local_sql.run_local(tmp_path, work)


def test_the_rows_of_all_of_them_have_one_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = "(select randstr(1000, random()) r from table(generator(rowcount => 500)))"

    async def work(local: local_sql.LocalSql) -> None:
        monkeypatch.setattr(limits, "DRAWN_BYTES_MAX", 1 << 20)
        alone = f"with x as {one} select count(*) from x a join x b on a.r = b.r"
        assert await local.rows(alone) == [(500,)]
        reads = " union all ".join(f"select a.r from {name} a, {name} b" for name in "xyz")
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"with x as {one}, y as {one}, z as {one} {reads}")
        assert caught.value.code == "000625"
        assert "more than 1 MiB" in caught.value.message

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    [
        "select (with x as (select random() r, t.id) select max(a.id) from x a, x b"
        " where a.r = b.r) from t",
        "with recursive q as (select 1 n union all"
        " (with x as (select random() r, n from q) select a.n + 1 from x a, x b"
        " where a.r = b.r and a.n < 3)) select * from q",
    ],
)
def test_one_that_reads_the_rows_around_it_is_refused(tmp_path: Path, text: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepared(local)
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(text)
        assert (caught.value.code, "more than once" in caught.value.message) == ("000002", True)

    local_sql.run_local(tmp_path, work)
