"""Plans of random scans of random tables, beside PyIceberg's own plans of the same tables.

Every file with a matching row is planned, the planned files are those that PyIceberg plans, and a
residual selects the same rows of its file as the filter does. PyIceberg skips no file by `not-eq`,
`not-in` and `not-starts-with` of its bounds, so with one of these in a filter it may plan more. A
membership of more values than are compared one by one may plan more than PyIceberg. So may a filter
of a column of floats, whose footers count no NaN (engines disagree on whether NaN is greater), and
one with a time before 1970, which some writers put into the partition after its own.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)

from catalog import expressions, transforms
from catalog.commits import LoadedTable
from tests.catalog.rest import rest_server as kit
from tests.kit import datafiles, lakes

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
        {"id": 3, "name": "day", "required": False, "type": "date"},
        {"id": 4, "name": "size", "required": False, "type": "int"},
    ],
}
WIDE_SCHEMA: dict[str, Any] = {
    **SCHEMA,
    "fields": [
        *SCHEMA["fields"],
        {"id": 5, "name": "ratio", "required": False, "type": "double"},
        {"id": 6, "name": "amount", "required": False, "type": "decimal(9, 2)"},
        {"id": 7, "name": "at", "required": False, "type": "timestamp"},
        {"id": 8, "name": "flag", "required": False, "type": "boolean"},
    ],
}
COLUMNS = {field["name"]: field for field in WIDE_SCHEMA["fields"]}
EPOCH = datetime.date(1970, 1, 1)
TRANSFORMS = {
    "id": ("identity", "truncate[3]", "bucket[3]"),
    "name": ("identity", "truncate[1]", "bucket[2]"),
    "day": ("identity", "day", "month", "year", "bucket[3]"),
    "size": ("identity", "truncate[5]"),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-4, 9),
    "name": st.text("ab", max_size=3),
    "day": st.integers(0, 70).map(lambda days: EPOCH + datetime.timedelta(days=days)),
    "size": st.integers(-12, 12),
}
WIDE_TRANSFORMS = {
    **TRANSFORMS,
    "amount": ("identity", "truncate[150]", "bucket[3]"),
    "at": ("hour", "day", "month", "year", "bucket[3]"),
    "flag": ("identity",),
}
WIDE_VALUES = {
    **VALUES,
    # -0.0 and 0.0 are one value for a query, and two in Iceberg's order.
    "ratio": st.sampled_from([-2.5, -1.0, 0.0, 0.25, 3.0, math.nan]),
    "amount": st.integers(-400, 400).map(lambda cents: decimal.Decimal(cents).scaleb(-2)),
    "at": st.integers(-30, 70 * 24).map(
        lambda hours: datetime.datetime(1970, 1, 1) + datetime.timedelta(hours=hours, seconds=7)  # noqa: DTZ001 - a timestamp of Iceberg has no zone
    ),
    "flag": st.booleans(),
}


def specs(by_name: dict[str, tuple[str, ...]]) -> st.SearchStrategy[list[tuple[str, str]]]:
    every = [(name, each) for name, transforms_ in by_name.items() for each in transforms_]
    return st.lists(st.sampled_from(every), max_size=2, unique_by=lambda each: each[0])


SPECS = specs(TRANSFORMS)


@st.composite
def contents(
    draw: st.DrawFn, *, null_partitions: bool = False
) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
    """A spec and rows. PyIceberg cannot compare null partition values."""
    spec = draw(SPECS)
    partitioned = set() if null_partitions else {name for name, _ in spec}
    row = st.fixed_dictionaries(
        {
            name: value if name in partitioned else st.none() | value
            for name, value in VALUES.items()
        }
    )
    return spec, draw(st.lists(row, min_size=1, max_size=12))


@st.composite
def wide_contents(
    draw: st.DrawFn,
) -> tuple[list[list[tuple[str, str]]], list[dict[str, Any]]]:
    """The specs of the first and the second half of the rows, and the rows."""
    both = [draw(specs(WIDE_TRANSFORMS)), draw(specs(WIDE_TRANSFORMS))]
    partitioned = {name for spec in both for name, _ in spec}
    row = st.fixed_dictionaries(
        {
            name: value if name in partitioned else st.none() | value
            for name, value in WIDE_VALUES.items()
        }
    )
    return both, draw(st.lists(row, min_size=1, max_size=30))


def leaves(values: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[BooleanExpression]:
    return st.sampled_from(list(values)).flatmap(lambda name: leaf(name, values[name]))


@st.composite
def leaf(draw: st.DrawFn, name: str, value: st.SearchStrategy[Any]) -> BooleanExpression:
    comparisons = [
        EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual
    ]  # fmt: skip
    if name == "name":
        comparisons += [StartsWith, NotStartsWith]
    if name == "flag":
        comparisons = [EqualTo, NotEqualTo]
    if name == "ratio":
        comparisons += [IsNaN, NotNaN]
        value = value.filter(lambda number: not math.isnan(number))
    op = draw(st.sampled_from([*comparisons, In, NotIn, IsNull, NotNull]))
    if op in (IsNull, NotNull, IsNaN, NotNaN):
        return op(name)
    if op in (In, NotIn):
        return op(name, draw(st.sets(value, min_size=1, max_size=4)))
    return op(name, draw(value))


def filters_of(values: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[BooleanExpression]:
    return st.recursive(
        leaves(values),
        lambda inner: (
            st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner)
        ),
        max_leaves=5,
    )


FILTERS = filters_of(VALUES)


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.RestServer]:
    with kit.opened(tmp_path_factory.mktemp("plans") / "data") as opened:
        yield opened


NUMBERS = itertools.count()


def make_table(
    rest: kit.RestServer,
    bench: datafiles.Bench,
    rows: list[dict[str, Any]],
    *specs: list[tuple[str, str]],
    schema: dict[str, Any] = SCHEMA,
) -> tuple[LoadedTable, dict[str, list[dict[str, Any]]]]:
    """A table with a file for each partition of each half of the rows, and the rows by file.

    specs: of both halves, or of each.
    """
    first, later = specs[0], specs[-1]

    def fields(spec: list[tuple[str, str]], prefix: str) -> list[dict[str, Any]]:
        return [
            {
                "source-id": COLUMNS[name]["id"],
                "name": f"{prefix}{place}",
                "transform": transform,
            }
            for place, (name, transform) in enumerate(spec)
        ]

    def partition(row: dict[str, Any], spec: list[tuple[str, str]]) -> tuple[Any, ...]:
        return tuple(
            transforms.apply(transforms.parse(transform), COLUMNS[name]["type"], plain(row[name]))
            for name, transform in spec
        )

    async def add(
        loaded: LoadedTable, part: list[dict[str, Any]], spec: list[tuple[str, str]]
    ) -> LoadedTable:
        grouped: dict[Any, list[dict[str, Any]]] = {}
        for row in part:
            grouped.setdefault(partition(row, spec), []).append(row)
        files = []
        for key, members in grouped.items():
            file = await bench.write(loaded, members, partition=key)
            rows_of[file.file_path] = members
            files.append(file)
        if not files:
            return loaded
        return await bench.appends.commit_files(
            loaded.ident, files, operation="append", principal=lakes.ROOT
        )

    rows_of: dict[str, list[dict[str, Any]]] = {}

    async def work() -> LoadedTable:
        loaded = await bench.create(
            f"ns.t{next(NUMBERS)}", schema=schema, partition_spec={"fields": fields(first, "p")}
        )
        half = len(rows) // 2
        loaded = await add(loaded, rows[:half], first)
        if later != first:
            updates = [
                {"action": "add-spec", "spec": {"spec-id": 1, "fields": fields(later, "q")}},
                {"action": "set-default-spec", "spec-id": -1},
            ]
            loaded = await bench.lake.tables.commit(loaded.ident, [], updates, by=lakes.BY)
        return await add(loaded, rows[half:], later)

    return rest.run(work()), rows_of


def plain(value: Any) -> Any:
    """A value as the catalog's rules take it."""
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)  # noqa: DTZ001
    return (value - EPOCH).days if isinstance(value, datetime.date) else value


def spoken(literal: Any, value: Any) -> Any:
    """A literal of an expression in JSON, as a value of a row's type."""
    if isinstance(value, datetime.datetime | datetime.date):
        return type(value).fromisoformat(literal)
    return decimal.Decimal(str(literal)) if isinstance(value, decimal.Decimal) else literal


NEGATED = {
    "eq": "not-eq",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "in": "not-in",
    "is-null": "not-null",
    "is-nan": "not-nan",
    "starts-with": "not-starts-with",
}
NEGATED |= {negated: op for op, negated in NEGATED.items()}


NEGATIVE = {"not-eq", "not-in", "not-starts-with"}


def operators(expression: Any, *, negate: bool = False) -> Iterator[str]:
    """The operators of an expression's predicates, once `not` is moved into them."""
    if isinstance(expression, bool):
        return
    op = expression["type"]
    if op == "not":
        yield from operators(expression["child"], negate=not negate)
    elif op in ("and", "or"):
        for side in ("left", "right"):
            yield from operators(expression[side], negate=negate)
    else:
        yield NEGATED[op] if negate else op


def matches(expression: Any, row: dict[str, Any], *, negate: bool = False) -> bool:
    """Whether a row matches an expression in JSON, as scans understand it.

    `not (x < 1)` is `x >= 1`, which null is not; but null differs from every value.
    """
    if isinstance(expression, bool):
        return expression is not negate
    op = expression["type"]
    if op == "not":
        return matches(expression["child"], row, negate=not negate)
    if op in ("and", "or"):
        parts = [matches(expression[side], row, negate=negate) for side in ("left", "right")]
        return all(parts) if (op == "and") is not negate else any(parts)
    value = row[expression["term"]]
    op = NEGATED[op] if negate else op
    if op in ("is-nan", "not-nan"):
        return (isinstance(value, float) and math.isnan(value)) is (op == "is-nan")
    if op.startswith("not-") and op != "not-null":
        return value is None or not matches({**expression, "type": op[4:]}, row)
    if op in ("is-null", "not-null"):
        return (value is None) is (op == "is-null")
    if value is None:
        return False
    if op == "in":
        return value in [spoken(literal, value) for literal in expression["values"]]
    if op == "starts-with":
        return bool(value.startswith(expression["value"]))
    compare = {"eq": operator.eq, "lt": operator.lt, "gt": operator.gt, "lt-eq": operator.le,
               "gt-eq": operator.ge}[op]  # fmt: skip
    return bool(compare(value, spoken(expression["value"], value)))


def may_keep_more(expression: Any) -> bool:
    """Whether plans of an expression may be wider than PyIceberg's, for the reasons above."""
    if isinstance(expression, bool):
        return False
    if "term" in expression:
        literals = [expression.get("value"), *expression.get("values", ())]
        is_early = any(isinstance(each, str) and each.startswith("196") for each in literals)
        return expression["term"] == "ratio" or is_early
    inner = [expression[side] for side in ("left", "right", "child") if side in expression]
    return any(map(may_keep_more, inner))


def has_long_membership(expression: Any) -> bool:
    if isinstance(expression, bool):
        return False
    inner = [expression[side] for side in ("left", "right", "child") if side in expression]
    return len(expression.get("values", ())) > expressions.PRUNING_VALUES_MAX or any(
        has_long_membership(each) for each in inner
    )


@pytest.mark.parametrize("values_max", [200, 2])
@settings(
    max_examples=6,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(table_contents=contents(), filters=st.lists(FILTERS, min_size=1, max_size=5))
def test_plans_equal_those_of_pyiceberg_and_residuals_select_the_same_rows(
    rest: kit.RestServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    values_max: int,
    table_contents: tuple[list[tuple[str, str]], list[dict[str, Any]]],
    filters: list[BooleanExpression],
) -> None:
    monkeypatch.setattr(expressions, "PRUNING_VALUES_MAX", values_max)
    if values_max == 2:
        filters = [*filters, Not(In("id", {-4, 3, 9}))]
    spec, rows = table_contents
    compare(rest, tmp_path, make_table(rest, datafiles.bench(rest.lake), rows, spec), filters)


def compare(
    rest: kit.RestServer,
    tmp_path: Path,
    table_and_rows: tuple[LoadedTable, dict[str, list[dict[str, Any]]]],
    filters: list[BooleanExpression],
) -> None:
    """Compare plans with PyIceberg's, and with the rows of every file."""
    loaded, rows_of = table_and_rows
    bench = datafiles.bench(rest.lake)
    folder = tmp_path / loaded.ident.name
    table = datafiles.static_table(bench.export(loaded, folder), folder)
    for filter_ in filters:
        body = {"filter": filter_.model_dump(mode="json", by_alias=True)}
        answer = rest.ask("POST", f"namespaces/ns/tables/{loaded.ident.name}/plan", body)
        assert answer.status == 200, answer.body
        planned = {
            task["data-file"]["file-path"]: task["residual-filter"]
            for task in answer.json["file-scan-tasks"]
        }
        expected = {task.file.file_path: task.residual for task in table.scan(filter_).plan_files()}
        exact = not has_long_membership(body["filter"]) and not may_keep_more(body["filter"])
        if exact:
            assert planned.keys() <= expected.keys(), filter_
        if exact and not NEGATIVE & set(operators(body["filter"])):
            assert planned.keys() == expected.keys(), filter_
        for path, members in rows_of.items():
            matching = [matches(body["filter"], row) for row in members]
            if path not in planned:
                assert not any(matching), filter_
                continue
            assert [matches(planned[path], row) for row in members] == matching, filter_
            decided = exact and isinstance(expected[path], AlwaysTrue)
            assert not exact or decided is (planned[path] is True), (filter_, planned[path])


def check_wide(
    rest: kit.RestServer,
    tmp_path: Path,
    table_contents: tuple[list[list[tuple[str, str]]], list[dict[str, Any]]],
    filters: list[BooleanExpression],
) -> None:
    both, rows = table_contents
    bench = datafiles.bench(rest.lake)
    compare(rest, tmp_path, make_table(rest, bench, rows, *both, schema=WIDE_SCHEMA), filters)


WIDE = given(
    table_contents=wide_contents(),
    filters=st.lists(filters_of(WIDE_VALUES), min_size=1, max_size=8),
)
CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=8, derandomize=True, deadline=None, suppress_health_check=CHECKS)
@WIDE
def test_plans_of_two_specs_and_further_types_equal_those_of_pyiceberg(
    rest: kit.RestServer, tmp_path: Path, table_contents: Any, filters: Any
) -> None:
    check_wide(rest, tmp_path, table_contents, filters)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=400, deadline=None, suppress_health_check=CHECKS)
@WIDE
def test_many_plans_equal_those_of_pyiceberg(
    rest: kit.RestServer, tmp_path: Path, table_contents: Any, filters: Any
) -> None:
    check_wide(rest, tmp_path, table_contents, filters)


@settings(
    max_examples=10,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    table_contents=contents(null_partitions=True),
    filters=st.lists(FILTERS, min_size=1, max_size=5),
)
def test_residuals_of_null_partitions_select_the_same_rows_as_the_filter(
    rest: kit.RestServer,
    table_contents: tuple[list[tuple[str, str]], list[dict[str, Any]]],
    filters: list[BooleanExpression],
) -> None:
    spec, rows = table_contents
    loaded, rows_of = make_table(rest, datafiles.bench(rest.lake), rows, spec)
    of_nulls = [Or(Not(LessThan(name, 5)), EqualTo("name", "a")) for name in ("id", "size")]
    for filter_ in [*filters, *of_nulls]:
        body = {"filter": filter_.model_dump(mode="json", by_alias=True)}
        answer = rest.ask("POST", f"namespaces/ns/tables/{loaded.ident.name}/plan", body)
        assert answer.status == 200, answer.body
        planned = {
            task["data-file"]["file-path"]: task["residual-filter"]
            for task in answer.json["file-scan-tasks"]
        }
        for path, members in rows_of.items():
            matching = [matches(body["filter"], row) for row in members]
            if path not in planned:
                assert not any(matching), filter_
                continue
            assert [matches(planned[path], row) for row in members] == matching, filter_
