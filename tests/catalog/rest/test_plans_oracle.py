"""Plans of random scans of random tables, beside PyIceberg's own plans of the same tables.

Every file with a matching row is planned, the planned files are those that PyIceberg plans, and a
residual selects the same rows of its file as the filter does. PyIceberg skips no file by `not-eq`,
`not-in` and `not-starts-with` of its bounds, so with one of these in a filter it may plan more. A
membership of more values than are compared one by one may plan more than PyIceberg.
"""

from __future__ import annotations

import datetime
import itertools
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
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
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
COLUMNS = {field["name"]: field for field in SCHEMA["fields"]}
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
SPECS = st.lists(
    st.sampled_from([(name, each) for name, every in TRANSFORMS.items() for each in every]),
    max_size=2,
    unique_by=lambda each: each[0],
)


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
def leaves(draw: st.DrawFn) -> BooleanExpression:
    name = draw(st.sampled_from(list(VALUES)))
    value = VALUES[name]
    comparisons = [
        EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual
    ]  # fmt: skip
    if name == "name":
        comparisons += [StartsWith, NotStartsWith]
    op = draw(st.sampled_from([*comparisons, In, NotIn, IsNull, NotNull]))
    if op in (IsNull, NotNull):
        return op(name)
    if op in (In, NotIn):
        return op(name, draw(st.sets(value, min_size=1, max_size=4)))
    return op(name, draw(value))


FILTERS = st.recursive(
    leaves(),
    lambda inner: (
        st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner)
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.RestServer]:
    with kit.opened(tmp_path_factory.mktemp("plans") / "data") as opened:
        yield opened


NUMBERS = itertools.count()


def make_table(
    rest: kit.RestServer,
    bench: datafiles.Bench,
    rows: list[dict[str, Any]],
    spec: list[tuple[str, str]],
) -> tuple[LoadedTable, dict[str, list[dict[str, Any]]]]:
    """A table with a file for each partition of each half of the rows, and the rows by file."""
    fields = [
        {
            "source-id": COLUMNS[name]["id"],
            "field-id": 1000 + place,
            "name": f"p{place}",
            "transform": transform,
        }
        for place, (name, transform) in enumerate(spec)
    ]

    def partition(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(
            transforms.apply(transforms.parse(transform), COLUMNS[name]["type"], plain(row[name]))
            for name, transform in spec
        )

    async def work() -> tuple[LoadedTable, dict[str, list[dict[str, Any]]]]:
        loaded = await bench.create(
            f"ns.t{next(NUMBERS)}", schema=SCHEMA, partition_spec={"fields": fields}
        )
        rows_of: dict[str, list[dict[str, Any]]] = {}
        half = len(rows) // 2
        for part in (rows[:half], rows[half:]):
            grouped: dict[Any, list[dict[str, Any]]] = {}
            for row in part:
                grouped.setdefault(partition(row), []).append(row)
            files = []
            for key, members in grouped.items():
                file = await bench.write(loaded, members, partition=key)
                rows_of[file.file_path] = members
                files.append(file)
            if files:
                loaded = await bench.appends.commit_files(
                    loaded.ident, files, operation="append", principal=lakes.ROOT
                )
        return loaded, rows_of

    made: tuple[LoadedTable, dict[str, list[dict[str, Any]]]] = rest.run(work())
    return made


def plain(value: Any) -> Any:
    return (value - EPOCH).days if isinstance(value, datetime.date) else value


NEGATED = {
    "eq": "not-eq",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "in": "not-in",
    "is-null": "not-null",
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
    value = value.isoformat() if isinstance(value, datetime.date) else value
    op = NEGATED[op] if negate else op
    if op.startswith("not-") and op != "not-null":
        return value is None or not matches({**expression, "type": op[4:]}, row)
    if op in ("is-null", "not-null"):
        return (value is None) is (op == "is-null")
    if value is None:
        return False
    if op == "in":
        return value in expression["values"]
    if op == "starts-with":
        return bool(value.startswith(expression["value"]))
    compare = {"eq": operator.eq, "lt": operator.lt, "gt": operator.gt, "lt-eq": operator.le,
               "gt-eq": operator.ge}[op]  # fmt: skip
    return bool(compare(value, expression["value"]))


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
    bench = datafiles.bench(rest.lake)
    loaded, rows_of = make_table(rest, bench, rows, spec)
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
        exact = not has_long_membership(body["filter"])
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
