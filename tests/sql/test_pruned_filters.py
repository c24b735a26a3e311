"""WHERE skips files by OR, NOT, IN and prefixes, and leaves every row that the whole table has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.kit import examples, local_sql

FILES = 8
ROWS = [
    # Each list is one file of `t`, and each of its rows (n, s, r, d, day, b).
    "(1, 'ab', 1.5, 1.25, '2024-01-01', true), (2, 'abc', 2.5, 1.50, '2024-01-02', true)",
    "(3, 'b', -1.0, 2.00, '2024-02-01', false), (4, 'ba', 0.0, 2.01, '2024-02-02', false)",
    "(5, 'c', 'nan'::double, 3.00, '2024-03-01', true), (5, 'c', 7.0, 3.00, '2024-03-01', true)",
    "(null, null, null, null, null, null), (null, null, null, null, null, null)",
    "(6, 'd', 8.0, 4.00, '1969-12-31', null), (null, 'd%', 9.0, null, null, true)",
    "(7, '', 1e300, -4.00, '1970-01-01', false), (8, '\\\\x', -1e300, 0.00, '1970-01-02', false)",
    "(9, 'é', 5.0, 5.00, '2024-05-01', true), (9, 'é', 5.0, 5.00, '2024-05-01', true)",
    "(-9, 'y', 6.0, 6.00, '2025-01-01', false), (0, 'z', 6.0, 6.00, '2026-01-01', false)",
]
MOMENTS = [
    # Each pair is one file of `m`; a file of the day before this session's and one long ago.
    ("2024-03-01 00:00:00", "2024-03-01 23:59:59.999999"),
    ("2024-03-02 00:00:00", "2024-03-03 12:00:00"),
    ("2024-03-31 00:30:00", "2024-03-31 03:30:00"),
    ("2020-01-01 00:00:00", "2020-12-31 23:59:59"),
]
COLUMNS = "n int, s text, r double, d decimal(9, 2), day date, b boolean"


@dataclass
class Bench:
    """A LocalSql with its event loop: table t, its copies p and h in partitions, u with some n."""

    runner: asyncio.Runner
    local: local_sql.LocalSql

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        return self.runner.run(self.local.rows(text))

    def kept(self, table: str, where: str) -> int:
        """Return how many files of a table a query reads."""
        ((plan,),) = self.rows(f"explain using text select * from {table} where {where}")
        lines = re.findall(r"Table \S+: snapshot \d+, (\d+) of (\d+) files", plan)
        ((kept, every),) = lines
        assert int(every) >= FILES
        return int(kept)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with asyncio.Runner() as runner:
        opening = local_sql.opened(tmp_path_factory.mktemp("pruned"))
        local = runner.run(opening.__aenter__())
        try:
            bench = Bench(runner, local)
            bench.rows(f"create table t ({COLUMNS})")
            bench.rows(f"create table p ({COLUMNS}) partition by (truncate(1, s), month(day))")
            bench.rows(f"create table h ({COLUMNS}) partition by (bucket(4, n), day)")
            bench.rows("create table u (n int, s text)")
            for rows in ROWS:
                for table in ("t", "p", "h"):
                    bench.rows(f"insert into {table} values {rows}")
            bench.rows("create table m (at timestamp_ntz, zoned timestamp_ltz)")
            for first, last in MOMENTS:
                bench.rows(f"insert into m values ('{first}', '{first}'), ('{last}', '{last}')")
            for rows in ("(1, 'ab'), (5, 'c')", "(6, 'd'), (20, null)"):
                bench.rows(f"insert into u values {rows}")
            yield bench
        finally:
            runner.run(opening.__aexit__(None, None, None))


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("n = 1 or n = 9", 2),
        ("n = 1 or s = 'ba'", 2),
        ("n = 1 or n > d", 8),  # one part is about no constant
        ("n in (3, 9)", 2),
        ("n < 2 and n > -1 or (s = 'c' and (d = 3 or d = 4))", 3),
        ("s like 'ab%'", 1),
        ("s like 'ab_'", 1),
        ("s like 'ba'", 1),
        ("s like '%b'", 8),
        ("startswith(s, 'ab') or startswith(s, 'z')", 2),
        ("n <> 9", 7),
        ("not (n = 9)", 7),
        ("not (n <> 9)", 1),
        ("not n in (9, 10)", 7),
        ("s not like 'é%'", 7),
        ("not (n < 9 or s is null)", 1),
        ("n is not null", 7),
        ("not (n is not null)", 2),
        ("n not between -8 and 8", 2),
        ("not (b or n = 5)", 7),  # b alone is no comparison
        ("day >= '2024-05-01' or day < '1970-01-01'", 3),
    ],
)
def test_where_reads_only_files_that_may_hold_a_row(bench: Bench, where: str, files: int) -> None:
    assert bench.kept("t", where) == files


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("at::date = '2024-03-01'", 1),
        ("'2024-03-01' = to_date(at)", 1),
        ("at::date < '2024-03-01'", 1),
        ("at::date <= '2024-03-01'", 2),
        ("at::date > '2024-03-01'", 2),
        ("date(at) >= '2024-03-01'::date", 3),
        ("not (at::date > '2024-03-01')", 2),
        ("at::date between '2024-03-02' and '2024-03-30'", 1),
        ("at::date <> '2024-03-01'", 4),
        ("at >= dateadd(day, -30, '2024-03-31'::date)", 3),
        ("at < dateadd(month, -1, '2024-03-15'::timestamp_ntz)", 1),
        ("at >= date_trunc('month', '2024-03-31 10:00:00'::timestamp_ntz)", 3),
        ("at::date >= current_date() - 7", 0),
        ("zoned >= dateadd(day, -7, current_timestamp())", 0),
        ("zoned::date = '2020-06-01'", 1),
        ("zoned::date > '2024-03-20'", 1),
    ],
)
def test_where_on_the_day_of_a_moment_reads_the_files_of_that_day(
    bench: Bench, where: str, files: int
) -> None:
    ((plan,),) = bench.rows(f"explain using text select * from m where {where}")
    assert f", {files} of {len(MOMENTS)} files" in plan
    whole = bench.rows(f"select * from m where case when {where} then 1 else 0 end = 1")
    assert sorted(bench.rows(f"select * from m where {where}")) == sorted(whole)


@pytest.mark.parametrize("operator", ["<=", "<"])
def test_where_on_a_day_and_an_instant_finds_rows_of_a_night_whose_clocks_are_set_back(
    bench: Bench, operator: str
) -> None:
    """In St John's midnight came twice: 2010-11-07 00:01 was followed by 2010-11-06 23:01."""
    bench.rows("alter session set timezone = 'America/St_Johns'")
    try:
        bench.rows("create table nights (at timestamp_ntz)")
        bench.rows("insert into nights values ('2010-11-07 23:59:00')")
        bench.rows("insert into nights values ('2020-01-01 00:00:00')")
        where = f"at::date {operator} '2010-11-07 02:31:30 +0000'::timestamp_ltz"
        whole = bench.rows(f"select at from nights where case when {where} then 1 end = 1")
        assert len(whole) == 1
        assert bench.rows(f"select at from nights where {where}") == whole
    finally:
        bench.rows("drop table nights")
        bench.rows("alter session unset timezone")


def test_where_with_or_skips_partitions(bench: Bench) -> None:
    # By truncate(1, s): a of the first file, z of the last; day(s) are of one month each.
    assert bench.kept("p", "s like 'ab%' or s = 'z'") == 2
    assert bench.kept("p", "day < '1970-01-01' or day >= '2025-02-01'") == 2


def literals() -> dict[str, st.SearchStrategy[str]]:
    dates = ["1969-12-31", "1970-01-01", "2024-01-01", "2024-02-15", "2024-05-01", "2026-01-01"]
    texts = ["", "ab", "abc", "b", "c", "d", "d%", "é", "Ab", "z", "\\\\x"]
    return {
        "n": st.integers(-10, 10).map(str) | st.sampled_from(["1.5", "8.999", "'9'"]),
        "s": st.sampled_from(texts).map("'{}'".format),
        "r": st.sampled_from(["1.5", "0", "-0.0", "'nan'::double", "1e300", "5"]),
        "d": st.sampled_from(["1.25", "1.255", "2", "2.01", "3.00", "-4", "100000"]),
        "day": st.sampled_from(dates).map("'{}'::date".format),
        "b": st.sampled_from(["true", "false"]),
    }


def leaves() -> st.SearchStrategy[str]:
    every = []
    for column, literal in literals().items():
        operator = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
        every.append(st.builds("{} {} {}".format, st.just(column), operator, literal))
        every.append(st.builds("{} {} {}".format, literal, operator, st.just(column)))
        if column != "b":
            word = st.sampled_from(["between", "not between"])
            every.append(
                st.builds("{} {} {} and {}".format, st.just(column), word, literal, literal)
            )
        word = st.sampled_from(["in", "not in"])
        members = st.lists(literal | st.just("null"), min_size=1, max_size=3).map(", ".join)
        every.append(st.builds("{} {} ({})".format, st.just(column), word, members))
        every.append(st.sampled_from([f"{column} is null", f"{column} is not null"]))
    like = st.sampled_from(["like", "not like", "ilike"])
    patterns = st.text("abcdé%_\\", max_size=4).map(lambda text: text.replace("\\", "\\\\"))
    every.append(st.builds("s {} '{}'".format, like, patterns))
    every.append(st.builds("startswith(s, '{}')".format, patterns))
    every.append(st.sampled_from(["b", "n > d", "length(s) = 2", "n = null", "true"]))
    return st.one_of(every)


def wheres() -> st.SearchStrategy[str]:
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.builds("({} or {})".format, inner, inner),
            st.builds("({} and {})".format, inner, inner),
            st.builds("not ({})".format, inner),
        ),
        max_leaves=6,
    )


@given(where=wheres())
@examples.at_most(80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("table", ["t", "p", "h"])
def test_where_finds_the_rows_that_a_full_scan_finds(bench: Bench, table: str, where: str) -> None:
    listed = f"select n, s, to_varchar(r), d, day, b from {table} where"
    # A condition within a CASE is no condition on a column, so this query reads every file.
    everything = bench.rows(f"{listed} case when {where} then 1 else 0 end = 1")
    assert sorted(bench.rows(f"{listed} {where}"), key=repr) == sorted(everything, key=repr)


@given(where=wheres())
@examples.at_most(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_where_over_an_outer_join_finds_the_rows_that_a_full_scan_finds(
    bench: Bench, where: str
) -> None:
    where = re.sub(r"\b(n|s|r|d|day|b)\b(?=[^']*(?:'[^']*'[^']*)*$)", r"t.\1", where)
    listed = "select u.n, u.s, t.n, t.s from u left join t on u.n = t.n where"
    everything = bench.rows(f"{listed} case when {where} then 1 else 0 end = 1")
    assert sorted(bench.rows(f"{listed} {where}"), key=repr) == sorted(everything, key=repr)


def test_where_with_very_many_parts_reads_every_file_and_finds_its_rows(bench: Bench) -> None:
    many = " or ".join(f"n = {number}" for number in range(9, 1_000))
    assert bench.kept("t", many) == FILES
    assert bench.rows(f"select n from t where {many}") == [(9,), (9,)]
    nested = "n = 9"
    for number in range(20):
        nested = f"({nested} or n = {9 + number} and n < 100)"
    assert bench.rows(f"select n from t where {nested}") == [(9,), (9,)]


def test_uses_of_one_table_that_read_the_same_files_are_planned_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Any] = []
    usual = bench.local.scans.plan

    async def plan(reader: Any, **more: Any) -> Any:
        planned.append(more["predicate"])
        return await usual(reader, **more)

    monkeypatch.setattr(bench.local.scans, "plan", plan)
    text = (
        "select x.n, y.s, (select max(s) from t where n = 9), (select count(*) from t where n = 5)"
        " from t x join t y on x.n = y.n where x.n = 5 and y.n = 5 order by 1"
    )
    assert bench.rows(text) == [(5, "c", "é", 2)] * 4
    assert len(planned) == len({repr(predicate) for predicate in planned}) == 2


def test_uses_of_one_table_at_two_moments_read_each_its_own(bench: Bench) -> None:
    bench.rows("create or replace table w (n int)")
    bench.rows("insert into w values (1)")
    bench.rows("insert into w values (2)")
    first = bench.local.session.query_ids[-2]
    text = (
        "select (select count(*) from w), (select count(*) from w at (statement => '{}')),"
        " (select count(*) from w where n > 0)"
    )
    assert bench.rows(text.format(first)) == [(2, 1, 2)]
