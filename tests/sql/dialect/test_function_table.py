"""What each row of the table of functions declares holds for the function, and is documented."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sql import engine, errors
from sql.dialect import builders, expressions, functions, shapes
from tests.kit import sql_text

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "SQL.md"
MARK = "<!-- the table of functions -->"

VALUES = {
    "any": "'12'",
    "text": "'12'",
    "number": "1.0",
    "real": "1.0",
    "whole": "1",
    "boolean": "true",
    "moment": "'2024-01-02 03:04:05'::timestamp",
    "word": "day",
    "constant": "1",
    "variant": "to_variant(12)",
    "array": "array_construct(1, 2)",
    "object": "object_construct('a', 1)",
    "map": "m",
    "lambda": "x -> true",
}
"""A value of each coercion."""

CALLS = {
    "ADD_MONTHS": "ADD_MONTHS('2024-01-02'::date, 1)",
    "CONVERT_TIMEZONE": "CONVERT_TIMEZONE('UTC', 'Asia/Tokyo', '2024-01-02'::timestamp)",
    "IFF": "IFF(true, 'a', 'b')",
    "NEXT_DAY": "NEXT_DAY('2024-01-02'::date, 'mo')",
    "PERCENTILE_CONT": "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY 1)",
    "PERCENTILE_DISC": "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY 1)",
    "PREVIOUS_DAY": "PREVIOUS_DAY('2024-01-02'::date, 'mo')",
    "TIMESTAMP_FROM_PARTS": "TIMESTAMP_FROM_PARTS('2024-01-02'::date, '12:00'::time)",
    "GET_DDL": "GET_DDL('table', 't')",
    "HLL_COMBINE": "HLL_COMBINE(x'00')",
    "HLL_ESTIMATE": "HLL_ESTIMATE(x'00')",
    "HLL_EXPORT": "HLL_EXPORT(x'00')",
    "LOG": "LOG(2, 8)",
    "REDUCE": "REDUCE(array_construct(1), 0, (a, x) -> a + x)",
    "ATANH": "ATANH(0.5)",
    "PARSE_JSON": "PARSE_JSON('[1]')",
    "TRY_PARSE_JSON": "TRY_PARSE_JSON('[1]')",
    "PARSE_IP": "PARSE_IP('1.2.3.4', 'INET')",
    "PARSE_URL": "PARSE_URL('http://a/b')",
    "SEARCH": "SEARCH('a b', 'b')",
    "TIME_SLICE": "TIME_SLICE('2024-01-02'::date, 1, 'DAY')",
    "WIDTH_BUCKET": "WIDTH_BUCKET(1, 0, 10, 4)",
    "ARRAYS_ZIP": "ARRAYS_ZIP(array_construct(1))",
    "JSON_EXTRACT_PATH_TEXT": "JSON_EXTRACT_PATH_TEXT('{\"a\": 1}', 'a')",
}
"""Calls whose arguments must be of more than their declared kind."""

ROWS = [row for rows in functions.GROUPS.values() for row in rows]

FROM = "from table(generator(rowcount => 1)), maps"
"""What the functions that number rows stand over, and those of a MAP."""
TABLES = {"maps": pa.table({"m": pa.array([[("12", 1)]], pa.map_(pa.string_view(), pa.int64()))})}

NOT_STRICT = (
    *(
        "COALESCE",
        "NVL",
        "NVL2",
        "IFF",
        "NULLIF",
        "ZEROIFNULL",
        "DECODE",
        "EQUAL_NULL",
        "DIV0",
        "DIV0NULL",
    ),
    *("ARRAY_APPEND", "ARRAY_PREPEND", "ARRAY_INSERT", "ARRAY_POSITION", "ARRAY_CONTAINS"),
    *("OBJECT_INSERT", "OBJECT_DELETE", "OBJECT_PICK"),
    *("MAP_INSERT", "MAP_DELETE", "MAP_PICK"),
    *("HASH", "SYSTEM$TYPEOF"),
    *("BOOLAND", "BOOLOR", "GREATEST_IGNORE_NULLS", "LEAST_IGNORE_NULLS"),
)
"""Functions that may be more than NULL of a NULL."""


def call(row: builders.Function, name: str = "") -> str:
    text = CALLS.get(row.names[0])
    if text is None:
        text = f"{row.names[0]}({', '.join(VALUES[each] for each in row.required)})"
    if name:
        text = name + text.removeprefix(row.names[0])
    return f"{text} OVER (ORDER BY 1)" if row.function_type == "window" else text


# A test goes through all rows: 400 rows as tests of their own would double what the checks cost.


def test_a_function_is_callable_by_each_of_its_names_and_gives_what_its_row_declares() -> None:
    for row in ROWS:
        for name in row.names:
            bound, _ = sql_text.bind(f"select {call(row, name)} {FROM}", TABLES)
            (sql_type,) = bound.types
            if row.result in builders.RESULTS:
                assert sql_type.name == {"integer": "fixed"}.get(row.result, row.result), name
            elif row.result == "number":
                assert sql_type.name in ("fixed", "real"), name
            elif row.result == "moment":
                assert sql_type.is_temporal or sql_type.name == "time", name


def test_a_function_is_volatile_if_its_row_says_so() -> None:
    for row in ROWS:
        text = call(row)
        bound, _ = sql_text.bind(f"select {text} as x, x = x {FROM}", TABLES)
        assert ("shared#" in bound.sql) == row.is_volatile, text


def texts_of(row: builders.Function) -> list[str]:
    """Return a call of each number of arguments, up to three that may be absent."""
    texts = [call(row)]
    if row.names[0] not in CALLS and row.function_type == "scalar":
        for count in range(1, min(len(row.optional), 3) + 1):
            listed = ", ".join(VALUES[each] for each in (*row.required, *row.optional[:count]))
            texts.append(f"{row.names[0]}({listed})")
    return texts


def test_each_argument_of_a_call_is_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[Any] = []
    original = expressions.bind

    def bind(node: Any, scope: expressions.NameResolver) -> Any:
        nodes.append(node)
        return original(node, scope)

    monkeypatch.setattr(expressions, "bind", bind)
    for row in ROWS:
        for text in texts_of(row):
            nodes.clear()
            try:
                sql_text.bind(f"select {text} {FROM}", TABLES)
            except errors.SqlError:
                assert text != call(row)
            assert len(nodes) == len({id(node) for node in nodes}), text


def nested_in_itself(row: builders.Function, index: int, levels: int) -> str:
    """Return a call whose argument of that place is such a call, and so on."""
    text = VALUES[row.required[index]]
    for _ in range(levels):
        arguments = [VALUES[each] for each in row.required]
        arguments[index] = f"({text}){CASTS.get(row.required[index], '')}"
        text = f"{row.names[0]}({', '.join(arguments)})"
    return text


CASTS = {
    "text": "::varchar",
    "number": "::double",
    "real": "::double",
    "whole": "::int",
    "boolean": "::boolean",
}


def test_the_work_of_binding_grows_with_the_depth_of_calls_and_not_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 0
    original = expressions.bind

    def bind(node: Any, scope: expressions.NameResolver) -> Any:
        nonlocal count
        count += 1
        return original(node, scope)

    monkeypatch.setattr(expressions, "bind", bind)
    for row, index in ((each, index) for each in ROWS for index in range(len(each.required))):
        counts = []
        for levels in (2, 4, 6):
            count = 0
            try:
                sql_text.bind(f"select {nested_in_itself(row, index, levels)} {FROM}", TABLES)
            except errors.SqlError:
                break  # such a call is no argument of it
            counts.append(count)
        if len(counts) == 3:
            assert counts[2] - counts[1] == counts[1] - counts[0], (row.names[0], index)


RANDOM = {
    "any": ("mod(random(), 10)", "uuid_string()"),
    "text": ("uuid_string()",),
    "number": ("mod(random(), 10)", "random() / 3"),
    "real": ("mod(random(), 10)",),
    "whole": ("mod(random(), 10)",),
    "boolean": ("random() > 0",),
    "variant": ("to_variant(mod(random(), 10))",),
    "array": ("array_construct(random())",),
    "object": ("object_construct('a', random())",),
    "moment": (
        "dateadd(day, random(), '2024-01-02'::date)",
        "dateadd(day, random(), '2024-01-02 03:04:05'::timestamp_ntz)",
        "dateadd(day, random(), '2024-01-02 03:04:05'::timestamp_ltz)",
        "dateadd(second, random(), '03:04:05'::time)",
    ),
}
"""Volatile values of each coercion."""

VOLATILE = [
    *(
        "{} between 1 and 2",
        "{} in (1, 2.5, '3')",
        "{} like any ('a', 'b')",
        "case {} when 1 then 2 end",
    ),
    *("concat_ws({}, 'a', 'b', 'c')", "concat_ws({}, nullif('a', 'b'))", "concat_ws({}, 'a')"),
    *("avg({}) over (order by 1)", "avg(1.5) over (order by {})", "avg(1) over (partition by {})"),
    *("ratio_to_report({}) over ()", "ratio_to_report(1) over (partition by {})"),
    *("count(distinct {}, 1)", "square({})", "div0(1, {})", "div0({}, 2)", "trunc({}, -1)"),
    *(
        "decode({}, 1, 2, 2, 1)",
        "greatest({}, 2)",
        "least(nullif(1, 2), {})",
        "({}, 1) in ((1, 2), (3, 4))",
    ),
    *("substr('abc', {})", "substr({}, -1)", "position('a', {}, 2)", "sha2({})"),
]
VOLATILE_OF_MOMENT = [
    *(
        f"{name}({part}, {{}})"
        for name in ("date_part", "date_trunc")
        for part in (
            *(
                "year",
                "week",
                "dayofweek",
                "dayofweekiso",
                "second",
                "millisecond",
                "hour",
                "month",
            ),
            *("epoch_second", "epoch_millisecond", "yearofweek"),
        )
    ),
    *(
        f"datediff({part}, {places})"
        for part in ("year", "quarter", "month", "week", "day", "hour", "second", "nanosecond")
        for places in ("{}, '2024-01-02'::date", "'2024-01-02'::date, {}")
    ),
    *(
        "last_day({}, 'week')",
        "last_day({}, 'year')",
        "next_day({}, 'mo')",
        "previous_day({}, 'mo')",
    ),
    *("dateadd(month, 1, {})", "dateadd(day, 1, {})", "add_months({}, 1)", "{}::varchar"),
    *("dayname({})", "to_char({}, 'YYYY-MM')", "months_between({}, '2024-01-02'::date)"),
]


def assert_each_value_is_computed_once(template: str, value: str, **more: Any) -> None:
    """Say whether a volatile value is refused, or stands in the engine's text as often as alone."""
    try:
        bound, _ = sql_text.bind(f"select {template.format(value)}", **more)
    except errors.SqlError:
        return
    alone, _ = sql_text.bind(f"select {value}")
    for name in ("random()", "uuid()"):
        assert bound.sql.count(name) <= alone.sql.count(name), f"{template} of {value}"


def calls_with_a_place(row: builders.Function) -> Iterable[tuple[str, str]]:
    """Yield calls of each number of arguments with one left open, and the coercion of that one."""
    over = " over (order by 1)" if row.function_type == "window" else ""
    for count in range(min(len(row.optional), 3) + 1):
        coercions = (*row.required, *row.optional[:count])
        for index, coercion in enumerate(coercions):
            arguments = [VALUES[each] for each in coercions]
            arguments[index] = "{}"
            template = f"{row.names[0]}({', '.join(arguments)})"
            yield template + over, coercion
            if row.function_type == "aggregate":
                yield f"{template} over (order by 1)", coercion


def test_a_volatile_argument_is_computed_once_or_refused() -> None:
    for template, coercion in itertools.chain.from_iterable(map(calls_with_a_place, ROWS)):
        for value in RANDOM.get(coercion, ()):
            assert_each_value_is_computed_once(template, value)


@pytest.mark.parametrize("template", VOLATILE)
def test_a_volatile_operand_is_computed_once_or_refused(template: str) -> None:
    for value in (*RANDOM["any"], *RANDOM["number"], "(select random())"):
        assert_each_value_is_computed_once(template, value)


@pytest.mark.parametrize("weeks", [{}, {"start": 7}])
@pytest.mark.parametrize("template", VOLATILE_OF_MOMENT)
def test_a_volatile_moment_is_computed_once_or_refused(
    template: str, weeks: dict[str, int]
) -> None:
    context = sql_text.context(weeks=shapes.Weeks(**weeks))
    for value in RANDOM["moment"]:
        assert_each_value_is_computed_once(template, value, context=context)


def calls_with_null(row: builders.Function) -> list[str]:
    """Return a call of a strict function for each argument that can be NULL, with that NULL."""
    if row.function_type != "scalar" or row.names[0] in (*NOT_STRICT, *CALLS):
        return []
    calls = []
    for index, each in enumerate(row.required):
        if each not in ("word", "constant", "lambda"):
            arguments = [VALUES[other] for other in row.required]
            arguments[index] = f"nullif({arguments[index]}, {arguments[index]})"
            calls.append(f"{row.names[0]}({', '.join(arguments)})")
    return calls


def test_a_scalar_function_is_null_if_an_argument_is() -> None:
    for calls in filter(None, map(calls_with_null, ROWS)):
        try:
            (values,) = sql_text.answer(f"select {', '.join(calls)} {FROM}", TABLES).rows
        except engine.EngineFault as fault:
            raise AssertionError(f"{calls}: {fault}") from fault
        assert set(values) == {None}, calls


def test_the_names_of_a_function_are_computed_alike() -> None:
    several = [row for row in ROWS if len(row.names) > 1]
    for row, text in ((each, text) for each in several for text in texts_of(each)):
        outcomes = []
        for name in row.names:
            try:
                bound, _ = sql_text.bind(
                    f"select {name}{text.removeprefix(row.names[0])} as value {FROM}", TABLES
                )
                outcomes.append((bound.sql, bound.types))
            except errors.SqlError as error:
                outcomes.append((error.code, ()))
        assert all(each == outcomes[0] for each in outcomes), text


def test_no_name_stands_for_two_functions() -> None:
    names = [name for row in ROWS for name in row.names]
    assert len(names) == len(set(names)) == len(functions.FUNCTIONS)


def documented() -> Iterable[str]:
    """Return the table of functions as lines of docs/SQL.md."""
    for group, rows in functions.GROUPS.items():
        yield from ("", f"### {group}", "", "| function | also called |", "|---|---|")
        for row in rows:
            shown = functions.signature(row.names[0]).replace("RETURN", "→")
            volatile = ", volatile" if row.is_volatile else ""
            yield f"| `{shown}`{volatile} | {', '.join(row.names[1:])} |"


def test_the_document_of_sql_lists_the_table_of_functions() -> None:
    text, mark, listed = DOCUMENT.read_text().partition(MARK)
    assert mark
    table = "\n".join(("", *documented(), ""))
    if os.environ.get("UPDATE_GOLDEN"):
        DOCUMENT.write_text(text + mark + table)
    else:
        assert listed == table, "UPDATE_GOLDEN=1 writes it anew"
