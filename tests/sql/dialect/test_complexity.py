"""Statements whose form alone would cost the engine or the binder too much are refused by name."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from sql import errors
from tests.kit import sql_text

pytestmark = pytest.mark.campaign


def doubling(levels: int, *, columns: str = "x.a") -> str:
    parts = ["c0 as (select 1 a)"]
    parts += [f"c{n} as (select {columns} from c{n - 1} x, c{n - 1} y)" for n in range(1, levels)]
    return f"with {', '.join(parts)} select count(*) from c{levels - 1}"


def refusal(text: str) -> errors.SqlError:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(text)
    return caught.value


@pytest.mark.smoke
def test_common_tables_that_double_are_refused_once_they_read_too_many_relations() -> None:
    # Level n names the one before twice, so it reads 2 ** n: 512 is within the bound, 1,024 not.
    bound, _ = sql_text.bind(doubling(10))
    assert bound.sql.count(" AS (") == 10
    fault = refusal(doubling(11))
    assert (fault.code, fault.sqlstate) == ("000625", "54001")
    assert "more than 1000 relations" in fault.message


def test_common_tables_that_double_in_subqueries_are_refused_alike() -> None:
    parts = ["c0 as (select 1 a)"]
    parts += [
        f"c{n} as (select 1 a where exists (select 1 from c{n - 1}) and "
        f"exists (select 2 from c{n - 1}))"
        for n in range(1, 12)
    ]
    assert refusal(f"with {', '.join(parts)} select 1 from c11").sqlstate == "54001"


def test_a_common_table_defined_and_hardly_used_counts_as_often_as_it_is_named() -> None:
    parts = ", ".join(f"c{n} as (select {n} a)" for n in range(900))
    bound, _ = sql_text.bind(f"with {parts} select a from c7")
    assert len(bound.columns) == 1


@pytest.mark.smoke
def test_columns_that_double_are_refused() -> None:
    fault = refusal(doubling(10, columns="x.*, y.*, x.*, y.*"))
    assert (fault.sqlstate, "more than 20000 columns" in fault.message) == ("54001", True)


@pytest.mark.smoke
def test_more_joins_than_a_select_may_have_are_refused() -> None:
    def joined(count: int) -> str:
        return "select 1 from (select 1 a) t" + "".join(
            f" join (select 1 a) t{n} on t.a = t{n}.a" for n in range(count)
        )

    sql_text.bind(joined(200))
    fault = refusal(joined(201))
    assert (fault.sqlstate, "more than 200 joins" in fault.message) == ("54001", True)


@pytest.mark.parametrize(
    ("text", "member"),
    [
        ("select 1 in ({})", "1"),
        pytest.param("select 1 where 1 not in ({})", "1", marks=pytest.mark.long),
        ("select * from (values {}) t", "(1)"),
    ],
)
def test_a_list_has_at_most_as_many_members_as_snowflake_allows(text: str, member: str) -> None:
    def listed(count: int) -> str:
        return text.format(", ".join([member] * count))

    sql_text.bind(listed(16_384))
    fault = refusal(listed(16_385))
    assert (fault.code, fault.sqlstate) == ("001795", "42601")
    assert "expected at most 16,384, got 16,385" in fault.message


def test_a_list_of_rows_has_the_same_bound() -> None:
    assert refusal(f"select (1, 2) in ({', '.join(['(1, 2)'] * 16_385)})").code == "001795"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("with", "with {} select 1"),
        ("columns", "select {}"),
    ],
)
def test_binding_takes_time_in_proportion_to_the_text(name: str, text: str) -> None:
    def seconds(count: int) -> float:
        item = "c{} as (select 1 a)" if name == "with" else "1"
        full = text.format(", ".join(item.format(n) for n in range(count)))
        best = 99.0
        for _ in range(3):
            started = time.process_time()
            sql_text.bind(full)
            best = min(best, time.process_time() - started)
        return best

    # Five times the text; with quadratic cost it would take 25 times as long.
    assert seconds(1_500) < seconds(300) * 12


def test_many_fields_of_one_wide_struct_are_read_in_short_text() -> None:
    names = [f"measured_{number}" for number in range(150)]
    wide = pa.struct([(name, pa.int64()) for name in names])
    row = {name: number for number, name in enumerate(names)}
    tables = {"t": pa.table({"s": pa.array([row, None], wide)})}
    added = "+".join(f"s:{name}" for name in names[:10])
    assert sql_text.answer(f"select {added} from t", tables).rows == [(45,), (None,)]
    text = f"select {','.join(f's:{name}' for name in names)} from t"
    answer = sql_text.answer(text, tables)
    assert answer.rows == [tuple(range(150)), (None,) * 150]
    assert len(answer.bound.sql) < 10 * len(text)
