"""Values of expressions over constants are those that the engine computes of columns."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql.plan import evaluation, predicates, relations
from sql.plan import expressions as exprs
from tests.kit import sql_text

TEXTS = [
    *("upper({t})", "lower({t})", "trim({t})", "ltrim({t})", "rtrim({t}, 'ab ')", "trim({t}, 'a')"),
    *("length({t})", "octet_length({t})", "reverse({t})", "left({t}, 2)", "right({t}, 2)"),
    *("right({t}, 0)", "substr({t}, 2)", "substr({t}, 2, 2)", "substr({t}, -2)", "substr({t}, 0)"),
    *("substr({t}, 30, 1)", "replace({t}, 'a', 'xy')", "replace({t}, 'a')", "{t} || upper({t})"),
    *("upper(trim({t})) || '-' || lower({t})", "length(trim({t})) + 1", "{t}::varchar(2)"),
]
NUMBERS = [
    *("round({n})", "round({n}, 1)", "round({n}, -1)", "trunc({n})", "trunc({n}, 1)"),
    *("trunc({n}, -1)", "ceil({n})", "floor({n})", "abs({n})", "-{n}", "{n} + 1", "{n} - 2.25"),
    *("{n} * {n}", "{n} * 3 - {n}", "{n}::number(10, 1)", "{n}::int", "{n}::boolean"),
    *("{i}::varchar", "{i} * 3 - 1", "round({i}, -1)", "{i}::double", "{i}::number(20, 3)"),
    *("abs({i} - 7)", "{i}::boolean", "({i} = {i})::int"),
]
MOMENTS = [
    *("{d} + interval '1 month'", "{d} - interval '1 year, 2 days'", "{d} + interval '36 hours'"),
    *("{m} + interval '1 month, 1 day, 3 hours'", "{m} - interval '90 seconds'", "{m}::date"),
    *("{m}::time", "{d}::timestamp_ntz", "dateadd(month, 1, {d})", "dateadd(hour, -3, {m})"),
    *("dateadd(year, 1, {m}) + interval '1 day'", "date_trunc('month', {m})", "add_months({d}, 1)"),
    *("date_trunc('week', {d})", "{d} + 7", "last_day({d}) - 1", "dateadd(day, {i}, {d})"),
    *(
        "to_date({dt}, 'YYYY-MM-DD')",
        "to_timestamp_ntz({mt}, 'YYYY-MM-DD HH24:MI:SS')",
        "date({dt})",
    ),
    *("to_date({dt})", "{dt}::date", "{mt}::timestamp_ntz", "to_timestamp_ntz({mt})"),
    *("to_time({tt}, 'HH24:MI:SS')", "{tt}::time", "trim({dt} || ' ')::date"),
    *("({dt} || ' 10:11:12')::timestamp_ntz", "substr({mt}, 1, 10)::date"),
]
EXPRESSIONS = [*TEXTS, *NUMBERS, *MOMENTS]
LEFT_TO_THE_ENGINE = {"last_day({d}) - 1", "({i} = {i})::int"}


def drawn(**values: Any) -> dict[str, str]:
    """Return the literals of one example, by the names in EXPRESSIONS."""
    day, moment = values["day"], values["moment"].replace(microsecond=0)
    text = values["text"].replace("\\", "\\\\").replace("'", "''")
    return {
        "t": f"'{text}'",
        "n": f"'{values['number']:f}'::number(12, 3)",
        "i": f"({values['whole']})::number(6, 0)",
        "d": f"'{day}'::date",
        "m": f"'{values['moment']}'::timestamp_ntz",
        "dt": f"'{day}'",
        "mt": f"'{moment}'",
        "tt": f"'{moment.time()}'",
    }


def values_of(literals: dict[str, str]) -> dict[str, Any]:
    """Return what is known of each expression without the engine."""
    text = ", ".join(each.format_map(literals) for each in EXPRESSIONS)
    plan = sql_text.plan(f"select {text}")
    assert isinstance(plan, relations.Project)
    return {
        expression: evaluation.value_of(item.value)
        for expression, item in zip(EXPRESSIONS, plan.items, strict=True)
    }


def computed(literals: dict[str, str]) -> dict[str, Any]:
    """Return what the engine computes of a row that has the values."""
    columns = {name: f"column{number}" for number, name in enumerate(literals, start=1)}
    text = ", ".join(each.format_map(columns) for each in EXPRESSIONS)
    answer = sql_text.answer(f"select {text} from values ({', '.join(literals.values())})")
    (row,) = answer.rows
    return dict(zip(EXPRESSIONS, row, strict=True))


ORDINARY = drawn(
    text=" a bAc ",
    number=decimal.Decimal("-12.345"),
    whole=25,
    day=datetime.date(2024, 1, 31),
    moment=datetime.datetime.fromisoformat("2024-02-29 12:34:56.789"),
)


def test_the_values_of_ordinary_constants_are_known() -> None:
    unknown = {each for each, value in values_of(ORDINARY).items() if value is exprs.UNKNOWN}
    assert unknown == LEFT_TO_THE_ENGINE


@given(
    text=st.text("aAbB é'\\\t0ß", max_size=6),
    number=st.decimals(-10_000, 10_000, places=3),
    whole=st.integers(-10_000, 10_000),
    day=st.dates(datetime.date(1500, 1, 1), datetime.date(9000, 1, 1)),
    moment=st.datetimes(datetime.datetime(1500, 1, 1), datetime.datetime(9000, 1, 1)),  # noqa: DTZ001 - TIMESTAMP_NTZ
)
@settings(max_examples=10, deadline=None)
def test_known_values_are_what_the_engine_computes(**values: Any) -> None:
    literals = drawn(**values)
    ours, theirs = values_of(literals), computed(literals)
    certain = {each: value for each, value in ours.items() if value is not exprs.UNKNOWN}
    assert certain == {each: theirs[each] for each in certain}
    assert len(certain) > len(EXPRESSIONS) // 2


@pytest.mark.parametrize(
    "text",
    [
        *("'x'::date", "'2024-01-01 00:00:00.123456789'::timestamp_ntz", "upper('é')"),
        *("to_date('2024', 'YYYY-MM-DD')", "'9999-12-31'::date + interval '1 day'", "random()"),
        *("99999::number(3, 0)", "'2024-01-01'::timestamp_ltz + interval '1 day'", "1 / 3"),
    ],
)
def test_what_fails_or_depends_on_more_is_left_to_the_engine(text: str) -> None:
    plan = sql_text.plan(f"select {text}")
    assert isinstance(plan, relations.Project)
    assert evaluation.value_of(plan.items[0].value) is exprs.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        f"replace('{'a' * 9_000}', 'a', '{'b' * 9_000}')",
        f"replace('{'a' * 100}', 'a', '{'b' * 101}')",
        f"upper('{'a' * 9_000}') || '{'b' * 1_001}'",
        f"trim('a', '{'b' * 10_001}')",
        f"upper('{'a' * 10_001}')",
    ],
)
def test_long_texts_are_left_to_the_engine(text: str) -> None:
    plan = sql_text.plan(f"select {text}")
    assert isinstance(plan, relations.Project)
    assert evaluation.value_of(plan.items[0].value) is exprs.UNKNOWN


def test_texts_up_to_the_bound_are_known() -> None:
    plan = sql_text.plan(f"select replace('{'a' * 100}', 'a', '{'b' * 100}')")
    assert isinstance(plan, relations.Project)
    assert evaluation.value_of(plan.items[0].value) == "b" * 10_000


EPOCH_HOUR = datetime.datetime.fromisoformat("1970-01-01 01:00:00")
NEW_YEAR = datetime.datetime.fromisoformat("2024-01-01 00:00:00")
TABLE = pa.table(
    {
        "id": pa.array([1, 20, 300]),
        "name": ["ab", "AB", "abc"],
        "d": pa.array([datetime.date(2024, 1, day) for day in (1, 2, 3)], pa.date32()),
        "at": pa.array([1_704_067_200_000_000, 0, 1], pa.timestamp("us")),
    }
)


@pytest.mark.parametrize(
    ("condition", "value", "ids"),
    [
        ("name = upper('ab')", "AB", [20]),
        ("name like lower('ABC') || '%'", "abc", [300]),
        ("id = length('a' || 'b') * 10", 20, [20]),
        ("id >= round(19.5)", 20, [20, 300]),
        ("d = to_date('02.01.2024', 'DD.MM.YYYY')", datetime.date(2024, 1, 2), [20]),
        ("d >= to_date('2024-01-01') + interval '2 days'", datetime.date(2024, 1, 3), [300]),
        ("at < '1970-01-01'::date + interval '1 hour'", EPOCH_HOUR, [20, 300]),
        ("at >= to_date('2024-01-01', 'YYYY-MM-DD')", NEW_YEAR, [1]),
    ],
)
def test_a_known_value_prunes_files_and_leaves_the_rows(
    condition: str, value: Any, ids: list[int]
) -> None:
    answer = sql_text.answer(f"select id from t where {condition} order by id", {"t": TABLE})
    (implied,) = answer.bound.filters[0]
    assert isinstance(implied, predicates.ColumnPredicate)
    assert implied.values == (value,)
    assert answer.rows == [(each,) for each in ids]
