"""Pruning against brute force: whatever an engine could find in a file, the file is kept for.

Engines disagree about NULL, NaN and negative zero. A row counts as found if any of them finds it.
"""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import manifest_encoding, manifests, parquet_stats, pruning, transforms, values
from catalog.pruning import (
    And,
    Comparison,
    Constant,
    Membership,
    Not,
    Or,
    Predicate,
    UnaryPredicate,
)
from tests.kit import examples

TYPES: dict[int, str] = {
    1: "long",
    2: "string",
    3: "double",
    4: "date",
    5: "decimal(9, 2)",
    6: "timestamp",
    7: "boolean",
    8: "binary",
    9: "int",
}
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": field_id, "name": f"c{field_id}", "required": False, "type": type_}
        for field_id, type_ in TYPES.items()
    ],
}
# few, near one another and at the edges, so that predicates hit
VALUES: dict[int, st.SearchStrategy[Any]] = {
    1: st.integers(-4, 4) | st.sampled_from([-(2**63), 2**63 - 1]),
    2: st.text("ab\u00e9\ud7ff\U0010ffff", max_size=4),
    3: st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan, -math.nan]),
    4: st.integers(-400, 400),
    5: st.decimals(-2, 2, places=2),
    6: st.integers(-3, 3).map(lambda days: days * values.DAY_MICROS // 2),
    7: st.booleans(),
    8: st.binary(max_size=3),
    9: st.integers(-12, 12),
}
Row = Mapping[int, Any]
EVERY_COLUMN = pytest.mark.parametrize("column", sorted(TYPES))


def rows_of(column: int) -> st.SearchStrategy[Row]:
    """Rows whose other columns are null: what one column can do, it does alone."""
    value = st.none() | VALUES[column] | VALUES[column]
    return value.map(lambda one: {**dict.fromkeys(TYPES), column: one})


def leaves(column: int) -> st.SearchStrategy[Predicate]:
    value = VALUES[column]
    ops = ["eq", "not-eq", "lt", "lt-eq", "gt", "gt-eq"]
    checks = ["null", "not-null"]
    if TYPES[column] in ("string", "binary"):
        ops += ["starts-with", "not-starts-with"]
    if TYPES[column] == "double":
        checks += ["nan", "not-nan"]
    comparison = st.builds(Comparison, op=st.sampled_from(ops), column=st.just(column), value=value)
    return st.one_of(
        comparison,
        comparison,
        st.builds(
            Membership,
            column=st.just(column),
            values=st.lists(value, max_size=3).map(tuple),
            negated=st.booleans(),
        ),
        st.builds(UnaryPredicate, op=st.sampled_from(checks), column=st.just(column)),
        st.builds(Constant, value=st.sampled_from([True, False, None])),
    )


def predicates(column: int) -> st.SearchStrategy[Predicate]:
    return st.recursive(
        leaves(column),
        lambda part: st.one_of(
            st.builds(Not, part=part),
            st.builds(And, parts=st.lists(part, min_size=1, max_size=3).map(tuple)),
            st.builds(Or, parts=st.lists(part, min_size=1, max_size=3).map(tuple)),
        ),
        max_leaves=3,
    )


ROW = {column: rows_of(column) for column in TYPES}
ROWS = {column: st.lists(ROW[column], min_size=1, max_size=3) for column in TYPES}
PREDICATES = {column: predicates(column) for column in TYPES}


# --- what engines find --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How an engine sees the odd values. unknown: what an UNKNOWN predicate happens to be."""

    nan: str  # greatest, least (its sign counts) or unordered
    zeros_differ: bool
    null_differs: bool  # whether null is unlike every value
    unknown: bool

    def finds(self, predicate: Predicate, row: Row) -> bool | None:
        match predicate:
            case Not(part=part):
                verdict = self.finds(part, row)
                return None if verdict is None else not verdict
            case And(parts=parts):
                return self._join([self.finds(part, row) for part in parts], absorbing=False)
            case Or(parts=parts):
                return self._join([self.finds(part, row) for part in parts], absorbing=True)
            case Constant(value=value):
                return self.unknown if value is None else value
            case UnaryPredicate(op=op, column=column):
                value = row[column]
                if op in ("null", "not-null"):
                    return (value is None) is (op == "null")
                return (isinstance(value, float) and math.isnan(value)) is (op == "nan")
            case Membership(column=column, values=members, negated=negated):
                equal = [self._compare("eq", row[column], member) for member in members]
                verdict = self._join(equal, absorbing=True)
                return None if verdict is None else verdict is not negated
            case Comparison(op=op, column=column, value=literal):
                return self._compare(op, row[column], literal)
        raise AssertionError(predicate)

    @staticmethod
    def _join(verdicts: Sequence[bool | None], *, absorbing: bool) -> bool | None:
        if absorbing in verdicts:
            return absorbing
        return None if None in verdicts else not absorbing

    def _compare(self, op: str, value: Any, literal: Any) -> bool | None:
        if value is None:
            if not self.null_differs or op not in _EQUALITIES:
                return None
            return op.startswith("not-")
        if op in ("starts-with", "not-starts-with"):
            return bool(value.startswith(literal)) is (op == "starts-with")
        if isinstance(value, float):
            if self.nan == "unordered" and (math.isnan(value) or math.isnan(literal)):
                return op == "not-eq"
            value, literal = self._order(value), self._order(literal)
        compare = {
            "eq": operator.eq,
            "not-eq": operator.ne,
            "lt": operator.lt,
            "lt-eq": operator.le,
            "gt": operator.gt,
            "gt-eq": operator.ge,
        }[op]
        return bool(compare(value, literal))

    def _order(self, value: float) -> tuple[int, float, float]:
        sign = math.copysign(1.0, value)
        if math.isnan(value):
            return (1 if self.nan == "greatest" or sign > 0 else -1, 0.0, 0.0)
        return (0, value, sign if self.zeros_differ and value == 0 else 0.0)


_EQUALITIES = ("eq", "not-eq", "starts-with", "not-starts-with")

ENGINES = [
    Engine(nan=nan, zeros_differ=zeros, null_differs=nulls, unknown=unknown)
    for nan in ("greatest", "least", "unordered")
    for zeros in (True, False)
    for nulls in (True, False)
    for unknown in (True, False)
]


def anybody_finds(predicate: Predicate, row: Row) -> bool:
    return any(engine.finds(predicate, row) is True for engine in ENGINES)


# --- metrics ------------------------------------------------------------------------------------


def metrics_of(rows: Sequence[Row], draw: Any) -> manifests.Metrics:
    """What a writer might say of these rows: the truth, loosened, cut short, or nothing."""
    maps: dict[str, dict[int, Any]] = {
        name: {}
        for name in (
            "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
        )
    }  # fmt: skip
    for field_id, type_ in TYPES.items():
        if all(row[field_id] is None for row in rows):
            continue
        column = [row[field_id] for row in rows]
        nan = [value for value in column if isinstance(value, float) and math.isnan(value)]
        held = [
            value
            for value in column
            if value is not None and not (isinstance(value, float) and math.isnan(value))
        ]
        if draw(st.booleans()):
            maps["value_counts"][field_id] = len(column)
        if draw(st.booleans()):
            maps["null_value_counts"][field_id] = column.count(None)
        if draw(st.booleans()):
            maps["nan_value_counts"][field_id] = len(nan)
        if not held:
            continue
        low, high = min(held, key=_order), max(held, key=_order)
        if type_ in ("string", "binary") and draw(st.booleans()):
            width = draw(st.integers(1, 3))
            low, high = parquet_stats.cut_down(low, width), parquet_stats.cut_up(high, width)
        elif type_ == "long" and draw(st.booleans()):
            low, high = max(low - 3, -(2**63)), min(high + 3, 2**63 - 1)
        if draw(st.booleans()):
            maps["lower_bounds"][field_id] = values.to_bytes(type_, low)
        if high is not None and draw(st.booleans()):
            maps["upper_bounds"][field_id] = values.to_bytes(type_, high)
    return manifests.Metrics(**maps)


def _order(value: Any) -> Any:
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value


def file_of(metrics: manifests.Metrics, rows: int) -> manifests.DataFile:
    return manifests.DataFile(
        file_path="f",
        file_format="PARQUET",
        record_count=rows,
        file_size_in_bytes=1,
        metrics=metrics,
    )


@EVERY_COLUMN
@examples.at_most(120)
@given(data=st.data())
def test_a_file_is_kept_if_any_engine_finds_a_row_in_it(column: int, data: st.DataObject) -> None:
    rows = data.draw(ROWS[column])
    predicate = data.draw(PREDICATES[column])
    file = file_of(metrics_of(rows, data.draw), len(rows))
    if any(anybody_finds(predicate, row) for row in rows):
        assert pruning.MetricsFilter(predicate, SCHEMA).may_match(file)


EDGES: dict[int, list[Any]] = {
    2: [
        "",
        "a",
        "ab",
        "aba",
        "abb",
        "b",
        "\ud7ff",
        "\ud7ffa",
        "\U0010ffff",
        "a\U0010ffffb",
        "\u00e9",
    ],
    3: [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan, -math.nan],
    8: [b"", b"\x00", b"a", b"ab", b"a\xff", b"a\xffb", b"\xff", b"\xff\xff", b"\xffa"],
}
COMPARISONS = ["eq", "not-eq", "lt", "lt-eq", "gt", "gt-eq"]


@pytest.mark.parametrize("column", sorted(EDGES))
@pytest.mark.parametrize("width", [None, 1, 2])
def test_a_file_of_one_edge_value_is_kept_for_every_comparison_that_finds_it(
    column: int, width: int | None
) -> None:
    """All of them: bounds cut to width where the type allows it, counts told."""
    type_ = TYPES[column]
    cuts = width is not None and type_ in ("string", "binary")
    prefixes = ["starts-with", "not-starts-with"] if type_ in ("string", "binary") else []
    for value in EDGES[column]:
        is_nan = isinstance(value, float) and math.isnan(value)
        low = parquet_stats.cut_down(value, width) if cuts and width else value
        high = parquet_stats.cut_up(value, width) if cuts and width else value
        metrics = manifests.Metrics(
            value_counts={column: 1},
            null_value_counts={column: 0},
            nan_value_counts={column: int(is_nan)},
            lower_bounds={} if is_nan else {column: values.to_bytes(type_, low)},
            upper_bounds=({} if is_nan or high is None else {column: values.to_bytes(type_, high)}),
        )
        row = {**dict.fromkeys(TYPES), column: value}
        for op in COMPARISONS + prefixes:
            for literal in EDGES[column]:
                predicate = Comparison(op=op, column=column, value=literal)
                if anybody_finds(predicate, row):
                    filter_ = pruning.MetricsFilter(predicate, SCHEMA)
                    assert filter_.may_match(file_of(metrics, 1)), (value, predicate)


def test_pruning_by_metrics_drops_what_it_should() -> None:
    """Brute force proves nothing is lost; this, that something is gained."""
    rows = [{1: 5, 2: "beta"}, {1: 9, 2: "delta"}, {1: None, 2: "gamma"}]
    file = file_of(
        manifests.Metrics(
            value_counts={1: 3, 2: 3, 3: 3},
            null_value_counts={1: 1, 2: 0, 3: 3},
            lower_bounds={1: values.to_bytes("long", 5), 2: b"beta"},
            upper_bounds={1: values.to_bytes("long", 9), 2: b"gamma"},
        ),
        len(rows),
    )

    def drops(predicate: Predicate) -> bool:
        return not pruning.MetricsFilter(predicate, SCHEMA).may_match(file)

    def compare(column: int, op: str, value: Any) -> Predicate:
        return Comparison(op=op, column=column, value=value)

    for predicate in (
        compare(1, "lt", 5),
        compare(1, "lt-eq", 4),
        compare(1, "gt", 9),
        compare(1, "gt-eq", 10),
        compare(1, "eq", 4),
        compare(1, "eq", 10),
        Membership(column=1, values=(1, 2, 30)),
        Membership(column=1, values=()),
        compare(2, "starts-with", "a"),
        compare(2, "starts-with", "h"),
        compare(2, "eq", "gammb"),
        UnaryPredicate(op="null", column=2),
        UnaryPredicate(op="not-null", column=3),
        compare(3, "gt", 1.0),
        compare(3, "eq", 1.0),
        Not(part=compare(1, "gt-eq", 5)),
        And(parts=(compare(1, "eq", 7), compare(2, "lt", "a"))),
        Or(parts=(compare(1, "eq", 4), compare(2, "lt", "a"))),
        Constant(value=False),
    ):
        assert drops(predicate), predicate
    for predicate in (
        compare(1, "eq", 7),
        compare(1, "lt", 6),
        compare(1, "not-eq", 5),
        UnaryPredicate(op="null", column=1),
        compare(2, "starts-with", "g"),
        compare(9, "eq", 1),
        compare(1, "eq", "text"),
        Or(parts=(compare(1, "eq", 4), pruning.UNKNOWN)),
        Not(part=pruning.UNKNOWN),
    ):
        assert not drops(predicate), predicate


def test_not_equal_drops_a_file_that_holds_nothing_else() -> None:
    file = file_of(
        manifests.Metrics(
            value_counts={2: 2},
            null_value_counts={2: 0},
            lower_bounds={2: b"a"},
            upper_bounds={2: b"a"},
        ),
        2,
    )
    for predicate, dropped in (
        (Comparison(op="not-eq", column=2, value="a"), True),
        (Membership(column=2, values=("a", "b"), negated=True), True),
        (Comparison(op="not-starts-with", column=2, value=""), True),
        (Comparison(op="not-eq", column=2, value="b"), False),
    ):
        assert pruning.MetricsFilter(predicate, SCHEMA).may_match(file) is not dropped


def test_a_file_without_rows_is_dropped_and_one_without_metrics_kept() -> None:
    predicate = Comparison(op="eq", column=1, value=1)
    filter_ = pruning.MetricsFilter(predicate, SCHEMA)
    assert not filter_.may_match(file_of(manifests.Metrics(), 0))
    assert filter_.may_match(file_of(manifests.Metrics(), 1))


def test_negative_counts_of_careless_writers_say_nothing() -> None:
    file = file_of(
        manifests.Metrics(value_counts={1: 1}, null_value_counts={1: -1}, nan_value_counts={1: -1}),
        1,
    )
    for op in ("null", "not-null"):
        assert pruning.MetricsFilter(UnaryPredicate(op=op, column=1), SCHEMA).may_match(file)
    assert pruning.MetricsFilter(Comparison(op="eq", column=1, value=1), SCHEMA).may_match(file)


@EVERY_COLUMN
@examples.at_most(60)
@given(data=st.data())
def test_choosing_among_many_files_is_asking_each(column: int, data: st.DataObject) -> None:
    files = []
    for _ in range(data.draw(st.integers(0, 4))):
        rows = data.draw(ROWS[column])
        files.append(file_of(metrics_of(rows, data.draw), data.draw(st.sampled_from([0, 1]))))
    kept: dict[Any, Any] = {}
    for _ in range(2):
        filter_ = pruning.MetricsFilter(data.draw(PREDICATES[column]), SCHEMA)
        assert filter_.choose(files, kept) == [filter_.may_match(file) for file in files]


@EVERY_COLUMN
@examples.at_most(60)
@given(data=st.data())
def test_what_matches_no_enclosing_range_matches_no_file(column: int, data: st.DataObject) -> None:
    files = []
    for _ in range(data.draw(st.integers(1, 4))):
        maps = metrics_of(data.draw(ROWS[column]), data.draw).unpacked()
        if data.draw(st.booleans()):  # a writer's mistake: bounds that enclose nothing
            *counts, lower, upper = maps
            maps = (*counts, upper, lower)
        files.append(maps)
    ranges = pruning.ranges_of_metrics(files, column, TYPES[column])
    predicate = pruning.without_not(data.draw(PREDICATES[column]))
    every = pruning.enclosing(ranges)
    matches = [pruning.may_match(predicate, lambda _, one=each: one) for each in ranges]
    assert pruning.matching(predicate, lambda _: ranges, len(files)) == matches
    if not pruning.may_match(predicate, lambda _: every):
        assert not any(matches)


def test_an_enclosing_range_skips_what_lies_beyond_all_files() -> None:
    ranges = [
        pruning.Range(lower=3, upper=5, may_be_null=False),
        pruning.Range(lower=None, upper=None, may_be_null=True, may_be_value=False),
        pruning.Range(lower=7, upper=9, may_be_null=False),
    ]
    assert pruning.enclosing(pruning.Ranges.of(ranges)) == pruning.Range(
        lower=3, upper=9, may_be_null=True
    )
    unbounded = [*ranges, pruning.Range(lower=1, upper=None, may_be_null=False)]
    assert pruning.enclosing(pruning.Ranges.of(unbounded)) == pruning.Range(
        lower=1, upper=None, may_be_null=True
    )
    assert list(pruning.Ranges.of(unbounded)) == unbounded


def test_a_value_of_another_type_than_the_bounds_keeps_the_files_that_have_bounds() -> None:
    ranges = pruning.Ranges.of(
        [
            pruning.Range(lower=3, upper=5, may_be_null=False),
            pruning.Range(lower=None, upper=None, may_be_null=True, may_be_value=False),
        ]
    )
    for op in ("eq", "lt", "lt-eq", "gt", "gt-eq"):
        predicate = Comparison(op=op, column=1, value="text")
        assert pruning.matching(predicate, lambda _: ranges, 2) == [True, False]


def test_comparing_many_files_with_one_value_calls_nothing_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranges = pruning.Ranges.of(
        [pruning.Range(lower=low, upper=low + 9, may_be_null=False) for low in range(0, 5_000, 10)]
    )
    calls = 0

    def counting(*_: Any) -> bool:
        nonlocal calls
        calls += 1
        return True

    monkeypatch.setattr(pruning, "_compare", counting)
    for op, count in (("eq", 1), ("lt", 123), ("lt-eq", 124), ("gt", 377), ("gt-eq", 377)):
        predicate = Comparison(op=op, column=1, value=1_230)
        assert sum(pruning.matching(predicate, lambda _: ranges, 500)) == count
    assert calls == 0


def test_choosing_a_part_by_many_columns_reads_that_part_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruning, "RANGES_AT_ONCE", 20)
    schema = {
        "fields": [
            {"id": column, "name": f"c{column}", "required": False, "type": "int"}
            for column in (1, 2, 3)
        ]
    }
    files = [
        file_of(
            manifests.Metrics(
                value_counts={1: 1, 2: 1, 3: 1},
                null_value_counts={1: 0, 2: 0, 3: 0},
                lower_bounds=dict.fromkeys((1, 2, 3), values.to_bytes("int", number)),
                upper_bounds=dict.fromkeys((1, 2, 3), values.to_bytes("int", number)),
            ),
            1,
        )
        for number in range(10)
    ]
    reads: list[int] = []
    ranges_of_metrics = pruning.ranges_of_metrics

    def counting(maps: Sequence[Any], field_id: int, type_: Any) -> pruning.Ranges:
        reads.extend([field_id] * len(maps))
        return ranges_of_metrics(maps, field_id, type_)

    monkeypatch.setattr(pruning, "ranges_of_metrics", counting)
    kept: dict[Any, Any] = {}
    one = pruning.MetricsFilter(Comparison(op="gt-eq", column=1, value=4), schema)
    part = slice(3, 6)
    assert one.choose(files, kept, part) == [False, True, True]
    assert reads == [1] * 10
    parts = tuple(Comparison(op="lt", column=column, value=5) for column in (1, 2, 3))
    every = pruning.MetricsFilter(And(parts=parts), schema)
    assert every.choose(files, kept, part) == [True, True, False]
    assert sorted(reads) == [1] * 10 + [2] * 10 + [3] * 10  # 20 ranges are not too many
    monkeypatch.setattr(pruning, "RANGES_AT_ONCE", 19)
    reads.clear()
    kept = {key: ranges for key, ranges in kept.items() if key[0] == 1}
    assert every.choose(files, kept, part) == [True, True, False]
    assert sorted(reads) == [2] * 3 + [3] * 3
    assert every.skips((kept,)) == [False]


def test_choosing_by_many_columns_unpacks_each_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = range(1, 401)
    schema = {
        "fields": [
            {"id": column, "name": f"c{column}", "required": False, "type": "int"}
            for column in columns
        ]
    }
    metrics = manifests.Metrics(
        value_counts=dict.fromkeys(columns, 1),
        null_value_counts=dict.fromkeys(columns, 0),
        lower_bounds={column: values.to_bytes("int", 1) for column in columns},
        upper_bounds={column: values.to_bytes("int", 5) for column in columns},
    )
    files = [file_of(manifests.Metrics.unpacked_later(metrics.packed()), 1) for _ in range(7)]
    unpacks = 0
    unpacked = manifests.Metrics.unpacked

    def counting(metrics: manifests.Metrics) -> tuple[Any, ...]:
        nonlocal unpacks
        unpacks += 1
        return unpacked(metrics)

    monkeypatch.setattr(manifests.Metrics, "unpacked", counting)
    every = And(parts=tuple(Comparison(op="eq", column=column, value=3) for column in columns))
    kept: dict[Any, Any] = {}
    assert pruning.MetricsFilter(every, schema).choose(files, kept) == [True] * 7
    assert unpacks == 7
    none = And(parts=(*every.parts, Comparison(op="eq", column=400, value=9)))
    assert pruning.MetricsFilter(none, schema).choose(files, kept) == [False] * 7
    assert unpacks == 7


def test_bounds_of_uuids_in_the_order_of_java_drop_no_file() -> None:
    spec = {
        "spec-id": 0,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "u", "transform": "identity"}],
    }
    schema = {"fields": [{"id": 1, "name": "u", "required": False, "type": "uuid"}]}
    # Java compares the halves as signed numbers, so that 0x90... is the least of these.
    least, inside, greatest, other = [bytes([byte]) * 16 for byte in (0x90, 0x10, 0x20, 0x30)]

    def kept(lower: bytes, upper: bytes, value: bytes, op: str = "eq") -> tuple[bool, bool]:
        predicate = Comparison(op=op, column=1, value=values.from_bytes("uuid", value))
        metrics = manifests.Metrics(
            value_counts={1: 3},
            null_value_counts={1: 0},
            lower_bounds={1: lower},
            upper_bounds={1: upper},
        )
        manifest = manifests.ManifestFile(
            manifest_path="m",
            manifest_length=1,
            partition_spec_id=0,
            added_snapshot_id=1,
            partitions=(
                manifests.FieldSummary(
                    contains_null=False, contains_nan=None, lower_bound=lower, upper_bound=upper
                ),
            ),
        )
        return (
            pruning.MetricsFilter(predicate, schema).may_match(file_of(metrics, 3)),
            pruning.PartitionFilter(predicate, spec, schema).may_match_manifest(manifest),
        )

    for value in (least, inside, greatest):
        assert kept(least, greatest, value) == (True, True)
    assert kept(inside, inside, inside) == (True, True)
    assert kept(inside, inside, inside, "not-eq") == (False, False)
    assert kept(inside, inside, other) == (False, False)


def test_columns_inside_lists_are_never_pruned_on() -> None:
    element = {"type": "list", "element-id": 2, "element": "int", "element-required": True}
    schema = {"fields": [{"id": 1, "name": "l", "required": False, "type": element}]}
    file = file_of(
        manifests.Metrics(
            value_counts={2: 1},
            null_value_counts={2: 0},
            lower_bounds={2: values.to_bytes("int", 5)},
            upper_bounds={2: values.to_bytes("int", 5)},
        ),
        1,
    )
    for column in (1, 2):
        predicate = Comparison(op="eq", column=column, value=9)
        assert pruning.MetricsFilter(predicate, schema).may_match(file)


def test_a_filter_nested_beyond_the_bound_keeps_every_file() -> None:
    predicate: Predicate = Constant(value=False)
    for _ in range(pruning.DEPTH_MAX + 10):
        predicate = And(parts=(predicate,))
    assert pruning.MetricsFilter(predicate, SCHEMA).may_match(file_of(manifests.Metrics(), 1))


# --- partitions ---------------------------------------------------------------------------------

TRANSFORMS = ["identity", "bucket[3]", "truncate[2]", "year", "month", "day", "hour", "void"]


def specs(column: int) -> st.SearchStrategy[dict[str, Any]]:
    taken = [
        name for name in TRANSFORMS if transforms.accepts(transforms.parse(name), TYPES[column])
    ]
    return st.lists(st.sampled_from(taken), min_size=1, max_size=2).map(
        lambda names: {
            "spec-id": 0,
            "fields": [
                {
                    "source-id": column,
                    "field-id": 1000 + place,
                    "name": f"p{place}",
                    "transform": name,
                }
                for place, name in enumerate(names)
            ],
        }
    )


SPECS = {column: specs(column) for column in TYPES}


def partition_of(spec: dict[str, Any], row: Row, *, rounded_up: bool) -> tuple[Any, ...]:
    """rounded_up: as writers of old did with times before 1970."""
    partition = []
    for field in spec["fields"]:
        type_ = TYPES[field["source-id"]]
        value = row[field["source-id"]]
        result = transforms.apply(transforms.parse(field["transform"]), type_, value)
        timed = field["transform"] in ("year", "month", "day", "hour")
        exact = type_ == "date" and field["transform"] == "day"
        if rounded_up and timed and not exact and isinstance(result, int) and result < 0:
            result += 1
        partition.append(result)
    return tuple(partition)


@EVERY_COLUMN
@examples.at_most(120)
@given(data=st.data(), rounded_up=st.booleans())
def test_a_partition_is_kept_if_any_engine_finds_its_row(
    column: int, data: st.DataObject, rounded_up: bool
) -> None:
    spec, row = data.draw(SPECS[column]), data.draw(ROW[column])
    predicate = data.draw(PREDICATES[column])
    partition = partition_of(spec, row, rounded_up=rounded_up)
    if anybody_finds(predicate, row):
        assert pruning.PartitionFilter(predicate, spec, SCHEMA).may_match_partition(partition)


@pytest.mark.parametrize("rounded_up", [False, True])
@pytest.mark.parametrize("transform", ["year", "month", "day", "hour"])
def test_a_time_partition_is_kept_for_every_comparison_that_finds_its_row(
    transform: str, rounded_up: bool
) -> None:
    """All of them around 1970, where writers of old rounded times towards it."""
    hour = values.DAY_MICROS // 24
    times = [
        days * values.DAY_MICROS + offset
        for days in (-366, -365, -32, -31, -1, 0, 31, 365)
        for offset in (0, 1, hour)
    ]
    spec = {
        "spec-id": 0,
        "fields": [{"source-id": 6, "field-id": 1000, "name": "p", "transform": transform}],
    }
    for literal in times:
        for op in COMPARISONS:
            predicate = Comparison(op=op, column=6, value=literal)
            filter_ = pruning.PartitionFilter(predicate, spec, SCHEMA)
            for value in times:
                row = {**dict.fromkeys(TYPES), 6: value}
                if anybody_finds(predicate, row):
                    partition = partition_of(spec, row, rounded_up=rounded_up)
                    assert filter_.may_match_partition(partition), (value, predicate)


@EVERY_COLUMN
@examples.at_most(100)
@given(data=st.data())
def test_a_manifest_is_kept_if_any_engine_finds_a_row_in_its_partitions(
    column: int, data: st.DataObject
) -> None:
    spec = data.draw(SPECS[column])
    rows = data.draw(ROWS[column])
    predicate = data.draw(PREDICATES[column])
    types = manifest_encoding.partition_types(spec, SCHEMA)
    summaries = manifest_encoding.partition_summaries(
        types, [partition_of(spec, row, rounded_up=False) for row in rows]
    )
    if data.draw(st.booleans()):  # some writers do not say
        summaries = tuple(
            manifests.FieldSummary(
                contains_null=summary.contains_null,
                lower_bound=summary.lower_bound,
                upper_bound=summary.upper_bound,
            )
            for summary in summaries
        )
    manifest = manifests.ManifestFile(
        manifest_path="m", manifest_length=1, partition_spec_id=0, partitions=summaries
    )
    if any(anybody_finds(predicate, row) for row in rows):
        assert pruning.PartitionFilter(predicate, spec, SCHEMA).may_match_manifest(manifest)


@pytest.mark.parametrize(
    ("source", "transform", "predicate", "partition"),
    [
        (1, "identity", Comparison(op="eq", column=1, value=2), (3,)),
        (1, "identity", Comparison(op="not-eq", column=1, value=3), (3,)),
        (1, "identity", Membership(column=1, values=(3, 4), negated=True), (3,)),
        (1, "bucket[3]", Comparison(op="eq", column=1, value=0), ("other",)),
        (2, "truncate[2]", Comparison(op="lt", column=2, value="ab"), ("b",)),
        (2, "truncate[2]", Comparison(op="starts-with", column=2, value="abc"), ("aa",)),
        (2, "truncate[2]", Comparison(op="eq", column=2, value="abc"), ("b",)),
        (5, "truncate[50]", Comparison(op="gt", column=5, value=decimal.Decimal("1.99")),
         (decimal.Decimal("1.00"),)),
        (6, "day", Comparison(op="gt-eq", column=6, value=2 * values.DAY_MICROS), (1,)),
        (6, "hour", Comparison(op="lt", column=6, value=0), (5,)),
        (4, "month", Comparison(op="eq", column=4, value=40), (2,)),
        (4, "year", UnaryPredicate(op="null", column=4), (0,)),
        (4, "year", UnaryPredicate(op="not-null", column=4), (None,)),
    ],
)  # fmt: skip
def test_partition_filter_drops_what_it_should(
    source: int, transform: str, predicate: Predicate, partition: tuple[Any, ...]
) -> None:
    spec = {
        "spec-id": 0,
        "fields": [{"source-id": source, "field-id": 1000, "name": "p", "transform": transform}],
    }
    if partition == ("other",):
        own = transforms.apply(transforms.parse(transform), TYPES[source], 0)
        assert isinstance(own, int)
        partition = ((own + 1) % 3,)
    assert not pruning.PartitionFilter(predicate, spec, SCHEMA).may_match_partition(partition)


def test_an_unknown_transform_filters_nothing() -> None:
    spec = {
        "spec-id": 0,
        "fields": [
            {"source-id": 1, "field-id": 1000, "name": "p", "transform": "zorder[4]"},
            {"source-ids": [1, 2], "field-id": 1001, "name": "q", "transform": "bucketv2[4]"},
        ],
    }
    predicate = Comparison(op="eq", column=1, value=5)
    assert pruning.PartitionFilter(predicate, spec, SCHEMA).may_match_partition((1, 2))
