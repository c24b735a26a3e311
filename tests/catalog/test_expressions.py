"""Filters in JSON: every form that clients write means the same, and what remains of it."""

from __future__ import annotations

import decimal
from typing import Any

import msgspec
import pytest

from catalog import expressions, manifests, pruning
from catalog.pruning import And, Comparison, Constant, Membership, Not, Or, UnaryPredicate

FIELDS: list[dict[str, Any]] = [
    {"id": 1, "name": "id", "required": True, "type": "long"},
    {"id": 2, "name": "Name", "required": False, "type": "string"},
    {"id": 3, "name": "price", "required": False, "type": "decimal(9, 2)"},
    {"id": 4, "name": "at", "required": False, "type": "timestamptz"},
    {"id": 5, "name": "day", "required": False, "type": "date"},
    {"id": 6, "name": "ratio", "required": False, "type": "float"},
    {"id": 7, "name": "data", "required": False, "type": "binary"},
    {
        "id": 8,
        "name": "person",
        "required": False,
        "type": {
            "type": "struct",
            "fields": [{"id": 9, "name": "age", "required": False, "type": "int"}],
        },
    },
    {
        "id": 10,
        "name": "items",
        "required": False,
        "type": {
            "type": "list",
            "element-id": 11,
            "element-required": True,
            "element": {
                "type": "struct",
                "fields": [{"id": 12, "name": "sku", "required": False, "type": "string"}],
            },
        },
    },
]
SCHEMA = {"type": "struct", "schema-id": 0, "fields": FIELDS}
NAMES = expressions.ColumnNames(SCHEMA, case_sensitive=True)


def predicate(value: Any, *, names: expressions.ColumnNames = NAMES) -> pruning.Predicate:
    return expressions.parse(value, names).predicate


def whole(value: Any) -> Any:
    """The residual of a file that has no partition."""
    filter_ = expressions.parse(value, NAMES)
    residuals = expressions.Residuals(filter_, [{"spec-id": 0, "fields": []}], SCHEMA)
    file = manifests.DataFile(
        file_path="f", file_format="PARQUET", record_count=1, file_size_in_bytes=1
    )
    return msgspec.json.decode(residuals.of(file))


ID = {"type": "reference", "name": "id"}


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (None, Constant(value=True)),
        (True, Constant(value=True)),
        ({"type": "false"}, Constant(value=False)),
        ({"type": "literal", "value": False}, Constant(value=False)),
        ({"type": "is-null", "term": "id"}, UnaryPredicate(op="null", column=1)),
        ({"type": "not-null", "child": ID}, UnaryPredicate(op="not-null", column=1)),
        ({"type": "is-nan", "term": "ratio"}, UnaryPredicate(op="nan", column=6)),
        (
            {"type": "not-nan", "child": {"type": "reference", "id": 6}},
            UnaryPredicate(op="not-nan", column=6),
        ),
        ({"type": "eq", "term": "id", "value": 5}, Comparison(op="eq", column=1, value=5)),
        ({"type": "eq", "term": "id", "value": 5.0}, Comparison(op="eq", column=1, value=5)),
        (
            {"type": "lt", "term": {"type": "reference", "term": "id"}, "value": 5},
            Comparison(op="lt", column=1, value=5),
        ),
        ({"type": "lt", "left": ID, "right": 5}, Comparison(op="lt", column=1, value=5)),
        ({"type": "lt", "left": 5, "right": ID}, Comparison(op="gt", column=1, value=5)),
        (
            {"type": "gt-eq", "left": {"type": "literal", "value": 5}, "right": ID},
            Comparison(op="lt-eq", column=1, value=5),
        ),
        (
            {"type": "starts-with", "term": "Name", "value": "a"},
            Comparison(op="starts-with", column=2, value="a"),
        ),
        (
            {"type": "not-starts-with", "term": "Name", "value": "a"},
            Comparison(op="not-starts-with", column=2, value="a"),
        ),
        (
            {"type": "in", "term": "id", "values": [1, 2]},
            Membership(column=1, values=(1, 2)),
        ),
        (
            {"type": "not-in", "child": ID, "values": {"type": "literals", "values": [1]}},
            Membership(column=1, values=(1,), negated=True),
        ),
        (
            {"type": "eq", "term": "price", "value": "1.20"},
            Comparison(op="eq", column=3, value=decimal.Decimal("1.20")),
        ),
        (
            {"type": "eq", "term": "at", "value": "1970-01-01T00:00:01+00:00"},
            Comparison(op="eq", column=4, value=1_000_000),
        ),
        (
            {"type": "eq", "term": "at", "value": "1970-01-01T00:00:01"},
            Comparison(op="eq", column=4, value=1_000_000),
        ),
        (
            {"type": "eq", "term": "day", "value": "1970-01-03"},
            Comparison(op="eq", column=5, value=2),
        ),
        (
            {"type": "eq", "term": "ratio", "value": 0.1},
            Comparison(op="eq", column=6, value=0.10000000149011612),
        ),
        (
            {"type": "eq", "term": "data", "value": "00ff"},
            Comparison(op="eq", column=7, value=b"\x00\xff"),
        ),
        ({"type": "eq", "term": "person.age", "value": 3}, Comparison(op="eq", column=9, value=3)),
        ({"type": "is-null", "term": "items.sku"}, UnaryPredicate(op="null", column=12)),
        ({"type": "is-null", "term": "items.element.sku"}, UnaryPredicate(op="null", column=12)),
        (
            {"type": "not", "child": {"type": "eq", "term": "id", "value": 1}},
            Not(part=Comparison(op="eq", column=1, value=1)),
        ),
        (
            {
                "type": "and",
                "left": {"type": "eq", "term": "id", "value": 1},
                "right": {"type": "or", "left": True, "right": False},
            },
            And(
                parts=(
                    Comparison(op="eq", column=1, value=1),
                    Or(parts=(Constant(value=True), Constant(value=False))),
                )
            ),
        ),
    ],
)
def test_parse_reads_both_forms_of_every_expression(value: Any, meant: Any) -> None:
    assert predicate(value) == meant


@pytest.mark.parametrize(
    "value",
    [
        {"type": "eq", "term": {"type": "transform", "transform": "day", "term": "at"}, "value": 1},
        {"type": "eq", "term": "id", "value": "a text"},
        {"type": "eq", "term": "id", "value": 1.5},
        {"type": "eq", "term": "id", "value": None},
        {"type": "eq", "term": "id", "value": True},
        {"type": "gt", "term": "price", "value": "1e999999999"},
        {"type": "eq", "term": "person", "value": 1},
        {"type": "eq", "term": "_file", "value": "s3://x"},
        {"type": "in", "term": "id", "values": [1, "x"]},
        {"type": "starts-with", "term": "id", "value": 1},
    ],
)
def test_what_cannot_be_evaluated_prunes_nothing_and_remains(value: Any) -> None:
    assert predicate(value) == pruning.UNKNOWN
    assert whole(value) == value


def test_a_function_of_a_column_remains_as_it_was_written() -> None:
    applied = {"type": "apply", "function": "bucket", "arguments": [4, ID]}
    value = {"type": "eq", "left": applied, "right": 1}
    assert predicate(value) == pruning.UNKNOWN
    assert whole(value) == {"type": "eq", "term": applied, "value": 1}
    both = {"type": "eq", "left": ID, "right": {"type": "reference", "name": "price"}}
    assert predicate(both) == pruning.UNKNOWN
    assert whole(both) == both


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1, "An expression is true, false or an object with a type"),
        ({}, "An expression is true, false or an object with a type"),
        ({"type": "like"}, "Unknown expression type: like"),
        ({"type": "eq", "term": "id"}, "The expression eq has no value"),
        ({"type": "eq", "value": 1}, "The expression eq has no term"),
        ({"type": "and", "left": True}, "The expression and has no right"),
        ({"type": "not"}, "The expression not has no child"),
        ({"type": "is-null", "term": "unknown"}, "Cannot find field 'unknown' in the schema"),
        ({"type": "is-null", "term": "name"}, "Cannot find field 'name' in the schema"),
        (
            {"type": "is-null", "child": {"type": "reference", "id": 99}},
            "Cannot find field 99 in the schema",
        ),
        ({"type": "in", "term": "id", "values": 1}, "The values of in are an array"),
        ({"type": "eq", "term": "id", "value": [1]}, "A literal is a value of a primitive type"),
        (
            {"type": "eq", "term": 5, "value": 1},
            "The term of a predicate is a column or a transform",
        ),
    ],
)
def test_parse_refuses_what_is_no_expression(value: Any, message: str) -> None:
    with pytest.raises(expressions.InvalidFilter) as refused:
        expressions.parse(value, NAMES)
    assert str(refused.value) == message


def test_names_without_case_find_columns_unless_two_differ_only_by_case() -> None:
    names = expressions.ColumnNames(SCHEMA, case_sensitive=False)
    assert predicate({"type": "is-null", "term": "NAME"}, names=names) == UnaryPredicate(
        op="null", column=2
    )
    twins = {"fields": [*FIELDS, {"id": 20, "name": "ID", "required": False, "type": "long"}]}
    names = expressions.ColumnNames(twins, case_sensitive=False)
    with pytest.raises(expressions.InvalidFilter, match="ambiguous"):
        expressions.parse({"type": "is-null", "term": "id"}, names)


def test_long_chains_are_read_and_their_residuals_nest_little() -> None:
    leaf = {"type": "not-eq", "term": "id", "value": 1}
    chain: Any = leaf
    for _ in range(expressions.PREDICATES_MAX - 1):
        chain = {"type": "and", "left": chain, "right": leaf}
    remains = whole(chain)
    depth = 0
    while remains["type"] == "and":
        remains, depth = remains["right"], depth + 1
    assert depth == 10
    with pytest.raises(expressions.InvalidFilter, match="at most 1000 predicates"):
        expressions.parse({"type": "or", "left": chain, "right": leaf}, NAMES)
    deep: Any = True
    for _ in range(expressions.DEPTH_MAX + 1):
        deep = {"type": "not", "child": deep}
    with pytest.raises(expressions.InvalidFilter, match="nests at most 100 levels"):
        expressions.parse(deep, NAMES)


def test_large_filters_cost_a_bounded_number_of_comparisons_for_each_file() -> None:
    many = expressions.parse(
        {"type": "in", "term": "id", "values": list(range(10, 10 + 1_000))}, NAMES
    )
    assert many.predicate == And(
        parts=(
            Comparison(op="gt-eq", column=1, value=10),
            Comparison(op="lt-eq", column=1, value=1_009),
        )
    )
    leaf = {"type": "not-eq", "term": "id", "value": 1}
    chain: Any = leaf
    for _ in range(900):
        chain = {"type": "and", "left": chain, "right": leaf}
    assert expressions.parse(chain, NAMES).weight == expressions.PRUNING_WEIGHT_MAX


def test_negated_long_membership_prunes_no_file_between_its_values() -> None:
    spec = {
        "spec-id": 0,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"}],
    }
    file = manifests.DataFile(
        file_path="f",
        file_format="PARQUET",
        record_count=1,
        file_size_in_bytes=1,
        partition=(501,),
        metrics=manifests.Metrics(
            value_counts={1: 1},
            null_value_counts={1: 0},
            lower_bounds={1: (501).to_bytes(8, "little")},
            upper_bounds={1: (501).to_bytes(8, "little")},
        ),
    )
    even = {"type": "in", "term": "id", "values": list(range(0, 1_000, 2))}
    named = {"type": "eq", "term": "Name", "value": "x"}
    for negated in (
        {"type": "not", "child": even},
        {"type": "not", "child": {"type": "and", "left": even, "right": named}},
        {"type": "not", "child": {"type": "not", "child": {"type": "not", "child": even}}},
        {"type": "not-in", "term": "id", "values": even["values"]},
    ):
        filter_ = predicate(negated)
        assert pruning.MetricsFilter(filter_, SCHEMA).may_match(file)
        assert pruning.PartitionFilter(filter_, spec, SCHEMA).may_match_partition((501,))
    twice = predicate({"type": "not", "child": {"type": "not", "child": even}})
    assert pruning.MetricsFilter(twice, SCHEMA).may_match(file)
    assert not pruning.PartitionFilter(twice, spec, SCHEMA).may_match_partition((1_001,))


def test_residual_of_a_partition_decides_what_its_values_decide() -> None:
    spec = {
        "spec-id": 3,
        "fields": [
            {"source-id": 1, "field-id": 1000, "name": "b", "transform": "bucket[4]"},
            {"source-id": 4, "field-id": 1001, "name": "d", "transform": "day"},
            {"source-id": 2, "field-id": 1002, "name": "n", "transform": "identity"},
        ],
    }

    def remains(value: Any, *partition: Any) -> Any:
        residuals = expressions.Residuals(expressions.parse(value, NAMES), [spec], SCHEMA)
        file = manifests.DataFile(
            file_path="f",
            file_format="PARQUET",
            record_count=1,
            file_size_in_bytes=1,
            spec_id=3,
            partition=partition,
        )
        return msgspec.json.decode(residuals.of(file))

    named = {"type": "eq", "term": "Name", "value": "x"}
    assert remains(named, 0, 0, "x") is True
    assert remains(named, 0, 0, "y") is False
    assert remains(named, 0, 0, None) is False
    assert remains({"type": "is-null", "term": "Name"}, 0, 0, None) is True
    later = {"type": "gt-eq", "term": "at", "value": "1970-01-02T00:00:00.000000+00:00"}
    assert remains(later, 0, 1, "x") is True
    assert remains(later, 0, 2, "x") is True
    assert remains(later, 0, 0, "x") is False
    noon = {"type": "lt", "term": "at", "value": "1970-01-02T12:00:00.000000+00:00"}
    assert remains(noon, 0, 0, "x") is True
    assert remains(noon, 0, 1, "x") == noon
    assert remains(noon, 0, 2, "x") is False
    exact = {"type": "eq", "term": "id", "value": 34}  # bucket 2017239379 % 4 (Appendix B)
    assert remains(exact, 3, 0, "x") == exact
    assert remains(exact, 2, 0, "x") is False
    both = {"type": "and", "left": noon, "right": {"type": "or", "left": named, "right": exact}}
    assert remains(both, 3, 1, "x") == noon
    assert remains(both, 3, 0, "y") == exact
    assert remains(both, 2, 0, "y") is False
    assert remains({"type": "not", "child": both}, 2, 0, "y") is True
    assert remains({"type": "not", "child": both}, 3, 1, "x") == {"type": "not", "child": noon}


def test_residual_of_a_null_partition_selects_no_row_by_a_comparison_or_its_negation() -> None:
    spec = {
        "spec-id": 3,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "i", "transform": "identity"}],
    }
    file = manifests.DataFile(
        file_path="f",
        file_format="PARQUET",
        record_count=1,
        file_size_in_bytes=1,
        spec_id=3,
        partition=(None,),
    )

    def remains(value: Any) -> Any:
        residuals = expressions.Residuals(expressions.parse(value, NAMES), [spec], SCHEMA)
        return msgspec.json.decode(residuals.of(file))

    def both(op: str, left: Any, right: Any) -> dict[str, Any]:
        return {"type": op, "left": left, "right": right}

    def negated(value: Any) -> dict[str, Any]:
        return {"type": "not", "child": value}

    below = {"type": "lt", "term": "id", "value": 5}
    named = {"type": "eq", "term": "Name", "value": "x"}
    assert remains(below) is False
    assert remains(negated(below)) is False
    assert remains(negated(negated(below))) is False
    assert remains(both("or", below, named)) == named
    assert remains(both("or", negated(below), named)) == named
    assert remains(both("and", negated(below), named)) is False
    assert remains(negated(both("and", below, named))) == negated(named)
    assert remains(negated(both("or", below, named))) is False
    assert remains(negated(both("or", negated(below), named))) is False


def test_a_filter_is_written_as_it_was_read() -> None:
    leaf = {"type": "in", "term": "id", "values": [1, 2]}
    value = {"type": "or", "left": {"type": "not", "child": leaf}, "right": {"type": "and",
             "left": leaf, "right": {"type": "is-null", "term": "Name"}}}  # fmt: skip
    filter_ = expressions.parse(value, NAMES)
    again = expressions.parse(msgspec.json.decode(expressions.format_filter(filter_)), NAMES)
    assert again == filter_


def test_memberships_of_one_filter_share_a_bound_of_values() -> None:
    half = {"type": "in", "term": "id", "values": list(range(expressions.VALUES_MAX // 2 + 1))}
    filter_ = expressions.parse({"type": "or", "left": half, "right": half}, NAMES)
    assert isinstance(filter_.predicate, Or)
    first, second = filter_.predicate.parts
    assert (isinstance(first, And), second) == (True, pruning.UNKNOWN)
