"""FLATTEN, SPLIT_TO_TABLE and GENERATOR as Snowflake documents them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sql import engine, errors, limits
from tests.kit import sql_text


def rows(text: str) -> list[tuple[Any, ...]]:
    return sql_text.answer(text).rows


def flattened(arguments: str, columns: str = "key, path, index, value") -> list[tuple[Any, ...]]:
    return rows(f"select {columns} from table(flatten({arguments}))")


def test_flatten_has_six_columns() -> None:
    answer = sql_text.answer("select * from table(flatten(input => parse_json('[1]')))")
    assert answer.names == ["SEQ", "KEY", "PATH", "INDEX", "VALUE", "THIS"]
    assert answer.rows == [(1, None, "[0]", 0, "1", "[\n  1\n]")]


def test_flatten_of_an_array_leaves_out_elements_that_are_absent() -> None:
    assert flattened("input => parse_json('[1, ,77]')") == [
        (None, "[0]", 0, "1"),
        (None, "[2]", 2, "77"),
    ]


def test_flatten_of_an_object_has_its_keys_in_order() -> None:
    assert flattened("input => {'b': 2, 'a': 1, 'x y': 3}") == [
        ("a", "a", None, "1"),
        ("b", "b", None, "2"),
        ("x y", "['x y']", None, "3"),
    ]


def test_flatten_at_a_path() -> None:
    assert flattened("input => {'a': {'b': [7]}}, path => 'a.b'", "path, value, this") == [
        ("a.b[0]", "7", "[\n  7\n]")
    ]


@pytest.mark.parametrize("empty", ["parse_json('[]')", "parse_json('{}')", "parse_json('7')"])
def test_flatten_of_nothing_is_a_row_if_outer(empty: str) -> None:
    assert flattened(f"input => {empty}") == []
    assert flattened(f"input => {empty}, outer => true") == [(None, "", None, None)]


def test_flatten_recursive_goes_into_what_its_mode_names() -> None:
    value = "{'a': 1, 'b': [7], 'c': {'d': 'X'}}"
    everything = ["a", "b", "b[0]", "c", "c.d"]
    paths = [path for (path,) in flattened(f"input => {value}, recursive => true", "path")]
    assert paths == everything
    objects = flattened(f"input => {value}, recursive => true, mode => 'object'", "path, this")
    assert [path for path, _ in objects] == ["a", "b", "c", "c.d"]
    assert objects[-1][1] == '{\n  "d": "X"\n}'
    assert flattened(f"input => {value}, mode => 'array'") == []


def test_flatten_of_a_column_stands_beside_its_row() -> None:
    table = (
        "(select column1 as id, column2 as v from values (1, [10, 20]), (2, []), (3, null)) as t"
    )
    assert rows(
        f"select t.id, f.value::int from {table}, lateral flatten(input => t.v) as f "
        "where f.index >= 0 order by 1, 2"
    ) == [(1, 10), (1, 20)]
    assert rows(
        f"select id, f.index from {table} left join lateral flatten(t.v) as f order by 1, 2"
    ) == [(1, 0), (1, 1), (2, None), (3, None)]
    assert rows(f"select id, sum(value) from {table}, table(flatten(input => v)) group by id") == [
        (1, 30.0)
    ]


def test_flatten_of_what_a_flatten_gives() -> None:
    text = (
        "select f.value:n::varchar, g.value, f.seq from (select "
        "[{'n': 'a', 'l': [1, 2]}, {'n': 'b', 'l': [3]}] as v) as t, "
        "lateral flatten(t.v) as f, lateral flatten(input => f.value:l) as g order by 1, 2"
    )
    assert rows(text) == [("a", "1", 1), ("a", "2", 1), ("b", "3", 1)]


def test_flatten_in_a_join_keeps_names_of_both_sides() -> None:
    text = (
        "select t.id, u.name, f.value::int from (values (1, [5]), (2, [6])) as t(id, v) "
        "join (values (1, 'one'), (2, 'two')) as u(id, name) on t.id = u.id, "
        "lateral flatten(input => t.v) as f order by t.id"
    )
    assert rows(text) == [(1, "one", 5), (2, "two", 6)]
    joined = (
        "select id, value from (values (1, [5])) as t(id, v) "
        "join (values (1)) as u(id) using (id), lateral flatten(t.v)"
    )
    assert rows(joined) == [(1, "5")]


def test_flatten_of_a_query_reads_its_tables() -> None:
    table = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
    text = (
        "select count(*) from table(flatten(input => (select array_agg(n) from t))), "
        "lateral flatten(input => (select array_agg(n) from t where n > 1)) as g"
    )
    assert sql_text.answer(text, {"t": table}).rows == [(6,)]


def test_a_column_list_names_the_columns_of_flatten() -> None:
    text = "select s, val from table(flatten([1])) as f(s, k, p, i, val, t)"
    assert rows(text) == [(1, "1")]


def test_flatten_makes_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FLATTENED_MAX", 3)
    with pytest.raises(engine.EngineFault, match="4 rows of FLATTEN"):
        flattened("input => [1, 2, 3, 4]")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select * from table(flatten(path => 'a'))", "FLATTEN without INPUT"),
        ("select * from table(flatten(input => [1], mode => 'x'))", "MODE => X"),
        ("select * from table(flatten(input => [1], colour => 1))", "argument COLOUR"),
        ("select * from table(flatten(1))", "FLATTEN of NUMBER"),
        ("select * from table(generator())", "GENERATOR without ROWCOUNT and TIMELIMIT"),
        ("select * from table(generator(timelimit => -1))", "a constant TIMELIMIT"),
        ("select * from table(generator(rowcount => 1.5))", "a constant ROWCOUNT"),
        (
            "select * from values (1) as t join table(flatten([1])) as f on f.index = t.column1",
            "with a condition",
        ),
    ],
)
def test_another_form_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(text)
    assert words in caught.value.message


def test_split_to_table_numbers_its_parts_from_one() -> None:
    assert rows("select seq, index, value from table(split_to_table('a.b', '.'))") == [
        (1, 1, "a"),
        (1, 2, "b"),
    ]
    text = "select t.x, s.value from (values ('a b')) as t(x), lateral strtok_split_to_table(t.x) s"
    assert rows(text) == [("a b", "a"), ("a b", "b")]


def test_generator_makes_so_many_rows_and_sequences_number_them() -> None:
    assert rows("select seq4() from table(generator(rowcount => 3))") == [(0,), (1,), (2,)]
    assert rows("select count(*) from table(generator(rowcount => 0))") == [(0,)]
    assert rows("select count(*), sum(seq8()) from table(generator(rowcount => 100000))") == [
        (100_000, 4_999_950_000)
    ]
    wrapped = "select seq1(1) as n from table(generator(rowcount => 130)) order by n limit 1"
    assert rows(wrapped) == [(-128,)]


def test_random_with_a_seed_is_the_same_each_time_and_another_in_each_row() -> None:
    text = "select random(42) as r from table(generator(rowcount => 1000))"
    first = rows(text)
    assert rows(text) == first
    assert len(set(first)) == 1000
    assert all(-(2**63) <= number < 2**63 for (number,) in first)
    assert abs(sum(number > 0 for (number,) in first) - 500) < 100
    assert set(rows(text.replace("42", "43"))).isdisjoint(first)
    assert rows("select random(42)") == first[:1]
    assert rows("select random(7) = random(7), random(-7) = random(7), seq4()") == [
        (True, False, 0)
    ]
    dice = (
        "select uniform(1, 6, random(1)), randstr(3, random(2)) from table(generator(rowcount=>50))"
    )
    assert rows(dice) == rows(dice)
    assert {number for number, _ in rows(dice)} == {1, 2, 3, 4, 5, 6}
    ordered = "select seq4() from table(generator(rowcount => 9)) order by random(3)"
    assert rows(ordered) == rows(ordered)


def test_rows_of_a_select_without_one_generator_are_numbered_as_they_come() -> None:
    values = "(values ('x', 1), ('y', 2), ('z', 3)) t(s, a)"
    assert rows(f"select seq4(), s from {values}") == [(0, "x"), (1, "y"), (2, "z")]
    assert rows(f"select seq4() n, s from {values} where a > 1") == [(0, "y"), (1, "z")]
    assert rows(f"select s from (select seq8() n, s from {values}) where n = 1") == [("y",)]
    assert rows(f"select s from {values} qualify seq4() = 2") == [("z",)]
    assert rows(f"select sum(seq4()) from {values}") == [(3,)]
    pairs = "table(generator(rowcount => 2)) g, table(generator(rowcount => 3)) h"
    assert sorted(rows(f"select seq4() from {pairs}")) == [(number,) for number in range(6)]
    seeded = f"select random(42), uniform(1, 1000, random(7)) from {values}"
    generated = "select random(42), uniform(1, 1000, random(7)) from table(generator(rowcount=>3))"
    assert rows(seeded) == rows(generated)
    for text, number in (
        (f"select s from {values} where seq4() = 1", "002035"),
        (f"select s from {values} group by s having seq4() = 1", "002035"),
        (f"select s from {values} group by s having rank() over (order by s) = 1", "002035"),
    ):
        with pytest.raises(errors.SqlError) as caught:
            rows(text)
        assert caught.value.code == number


def test_generated_values_are_a_function_of_their_source() -> None:
    ((low, high, number),) = rows(
        "select min(n), max(n), count(distinct n) from "
        "(select uniform(1, 6, random()) as n from table(generator(rowcount => 1000)))"
    )
    assert (low, high, number) == (1, 6, 6)
    assert len(set(rows("select uniform(1, 1000000, 7) from table(generator(rowcount => 5))"))) == 1
    ((text, again),) = rows("select randstr(8, 1), randstr(8, 1)")
    assert text == again
    assert len(text) == 8
