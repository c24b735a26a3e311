"""rule: skips manifests and files that cannot match a filter.

All decisions are conservative: a kept file may have no matching row, but a skipped one has none.
Where engines disagree (does `x <> 1` match null? does `x > 1` match NaN? is -0.0 less than 0.0?)
a file is kept if any of them could match a row in it. Bounds are not treated as the minimum or
maximum; text bounds may be truncated.
Source: Iceberg spec, Scan Planning, Field-level Metrics and Statistics, Partition Transforms.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from catalog import datatypes, manifests, transforms, values
from catalog.values import Value

RANGES_AT_ONCE: Final = 5_000
"""Ranges of columns that are read at once for a part of files: some milliseconds."""
DEPTH_MAX: Final = 100
"""How deeply a filter may nest."""


# --- predicates ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """column OP value. op: eq, not-eq, lt, lt-eq, gt, gt-eq, starts-with, not-starts-with.

    column: a field id. value: plain, of the column's type in the filter's schema.
    """

    op: str
    column: int
    value: Value


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """column is one of values, or, if negated, none of them."""

    column: int
    values: tuple[Value, ...]
    negated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class UnaryPredicate:
    """column is null, not-null, nan or not-nan."""

    op: str
    column: int


@dataclass(frozen=True, kw_only=True, slots=True)
class And:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Or:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Not:
    part: Predicate


@dataclass(frozen=True, kw_only=True, slots=True)
class Constant:
    """Always true, always false, or, with None, unknown."""

    value: bool | None


Predicate: TypeAlias = Comparison | Membership | UnaryPredicate | And | Or | Not | Constant

ALWAYS: Final = Constant(value=True)
UNKNOWN: Final = Constant(value=None)

_NEGATED = {
    "eq": "not-eq",
    "not-eq": "eq",
    "lt": "gt-eq",
    "gt-eq": "lt",
    "gt": "lt-eq",
    "lt-eq": "gt",
    "starts-with": "not-starts-with",
    "not-starts-with": "starts-with",
    "null": "not-null",
    "not-null": "null",
    "nan": "not-nan",
    "not-nan": "nan",
}


_OPERATORS: Final = {
    "lt": operator.lt,
    "lt-eq": operator.le,
    "gt": operator.gt,
    "gt-eq": operator.ge,
}
_INCLUSIVE: Final = {
    "lt": operator.le,
    "lt-eq": operator.le,
    "gt": operator.ge,
    "gt-eq": operator.ge,
}
"""Engines that order -0.0 before 0.0 put it below 0.0, so floats are compared inclusively."""


def without_not(predicate: Predicate, *, negate: bool = False, depth: int = 0) -> Predicate:
    """Return the predicate with every Not moved into its leaves.

    Beyond DEPTH_MAX a part becomes UNKNOWN, which keeps every file.
    """
    if depth > DEPTH_MAX:
        return UNKNOWN
    match predicate:
        case Not(part=part):
            return without_not(part, negate=not negate, depth=depth + 1)
        case And(parts=parts) | Or(parts=parts):
            inner = tuple(without_not(part, negate=negate, depth=depth + 1) for part in parts)
            return And(parts=inner) if isinstance(predicate, And) is not negate else Or(parts=inner)
        case Constant(value=value):
            return predicate if value is None or not negate else Constant(value=not value)
        case Membership(column=column, values=members, negated=negated):
            return Membership(column=column, values=members, negated=negated is not negate)
        case Comparison(op=op, column=column, value=literal):
            return Comparison(op=_NEGATED[op] if negate else op, column=column, value=literal)
        case UnaryPredicate(op=op, column=column):
            return UnaryPredicate(op=_NEGATED[op] if negate else op, column=column)


# --- ranges -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """The possible values of one column in one file, or one partition field in a manifest.

    lower and upper enclose every value but null and NaN; None is no bound.
    """

    lower: Any = None
    upper: Any = None
    may_be_null: bool = True
    may_be_nan: bool = False
    may_be_value: bool = True
    is_float: bool = False


EVERYTHING: Final = Range(may_be_nan=True, is_float=True)
_UNREAD: Final = Range(may_be_nan=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranges:
    """The ranges of one column in each of some files, one sequence per member of a Range.

    A comparison of a whole sequence takes a tenth of the time of as many calls.
    """

    lowers: Sequence[Any]
    uppers: Sequence[Any]
    may_be_null: Sequence[bool]
    may_be_nan: Sequence[bool]
    may_be_value: Sequence[bool]
    is_float: bool

    @classmethod
    def of(cls, ranges: Sequence[Range]) -> Ranges:
        return cls(
            lowers=[each.lower for each in ranges],
            uppers=[each.upper for each in ranges],
            may_be_null=[each.may_be_null for each in ranges],
            may_be_nan=[each.may_be_nan for each in ranges],
            may_be_value=[each.may_be_value for each in ranges],
            is_float=any(each.is_float for each in ranges),
        )

    def __iter__(self) -> Iterator[Range]:
        columns = (
            self.lowers,
            self.uppers,
            self.may_be_null,
            self.may_be_nan,
            self.may_be_value,
        )
        for lower, upper, may_be_null, may_be_nan, may_be_value in zip(*columns, strict=True):
            yield Range(
                lower=lower,
                upper=upper,
                may_be_null=may_be_null,
                may_be_nan=may_be_nan,
                may_be_value=may_be_value,
                is_float=self.is_float,
            )

    def __getitem__(self, part: slice) -> Ranges:
        return Ranges(
            lowers=self.lowers[part],
            uppers=self.uppers[part],
            may_be_null=self.may_be_null[part],
            may_be_nan=self.may_be_nan[part],
            may_be_value=self.may_be_value[part],
            is_float=self.is_float,
        )


def enclosing(ranges: Ranges) -> Range:
    """Return a range of all files together: where `may_match` is false for it, it is for each."""
    counted = [
        may_be_value or not may_be_null
        for may_be_value, may_be_null in zip(ranges.may_be_value, ranges.may_be_null, strict=True)
    ]
    lowers = list(itertools.compress(ranges.lowers, counted))
    uppers = list(itertools.compress(ranges.uppers, counted))
    try:
        lower = None if None in lowers else min(lowers, default=None)
        upper = None if None in uppers else max(uppers, default=None)
        if any(
            least is not None and greatest is not None and least > greatest
            for least, greatest in zip(lowers, uppers, strict=True)
        ):
            lower = upper = None  # such bounds enclose nothing, and say nothing of the others
    except TypeError:
        lower = upper = None
    return Range(
        lower=lower,
        upper=upper,
        may_be_null=any(ranges.may_be_null),
        may_be_nan=any(ranges.may_be_nan),
        may_be_value=any(ranges.may_be_value),
        is_float=ranges.is_float,
    )


def may_match(predicate: Predicate, range_of: Callable[[int], Range]) -> bool:
    """Return whether a row within the ranges could satisfy the predicate, which has no Not."""
    match predicate:
        case And(parts=parts):
            return all(may_match(part, range_of) for part in parts)
        case Or(parts=parts):
            return any(may_match(part, range_of) for part in parts)
        case Constant(value=value):
            return value is not False
        case Not():
            return True  # a Not that `without_not` has not removed: unknown
        case Membership(column=column, values=members, negated=negated):
            range_ = range_of(column)
            if negated:
                return all(_not_equal(range_, member) for member in members)
            return any(_compare(range_, "eq", member) for member in members)
        case Comparison(op=op, column=column, value=literal):
            return _compare(range_of(column), op, literal)
        case UnaryPredicate(op=op, column=column):
            range_ = range_of(column)
            if op == "null":
                return range_.may_be_null
            if op == "not-null":
                return range_.may_be_value or range_.may_be_nan
            return op != "nan" or range_.may_be_nan


def matching(predicate: Predicate, ranges_of: Callable[[int], Ranges], count: int) -> list[bool]:
    """Return `may_match` for each of count files, leaf by leaf, which is faster for many.

    ranges_of: the ranges of a column in each file, in the same order.
    """
    match predicate:
        case And(parts=parts):
            matches = [True] * count
            for part in parts:
                more = matching(part, ranges_of, count)
                matches = [one and other for one, other in zip(matches, more, strict=True)]
            return matches
        case Or(parts=parts):
            matches = [False] * count
            for part in parts:
                more = matching(part, ranges_of, count)
                matches = [one or other for one, other in zip(matches, more, strict=True)]
            return matches
        case Comparison(op=op, column=column, value=literal):
            return _compare_each(ranges_of(column), op, literal)
        case Constant() | Not():
            return [may_match(predicate, lambda _: EVERYTHING)] * count
        case Membership(column=column) | UnaryPredicate(column=column):
            return [_leaf_matches(predicate, range_) for range_ in ranges_of(column)]


def _compare_each(ranges: Ranges, op: str, literal: Any) -> list[bool]:
    """Return `_compare` for each range."""
    is_nan = isinstance(literal, float) and math.isnan(literal)
    try:
        if op == "eq" and not is_nan:
            return [
                may_be_value
                and (lower is None or lower <= literal)
                and (upper is None or upper >= literal)
                for lower, upper, may_be_value in zip(
                    ranges.lowers, ranges.uppers, ranges.may_be_value, strict=True
                )
            ]
        if op in ("lt", "lt-eq", "gt", "gt-eq") and not is_nan:
            bounds = ranges.lowers if op in ("lt", "lt-eq") else ranges.uppers
            compare = _INCLUSIVE[op] if ranges.is_float else _OPERATORS[op]
            return [
                may_be_nan or (may_be_value and (bound is None or compare(bound, literal)))
                for bound, may_be_nan, may_be_value in zip(
                    bounds, ranges.may_be_nan, ranges.may_be_value, strict=True
                )
            ]
    except TypeError:
        pass  # a value of another type than some bounds: each file is decided alone
    return [_compare(range_, op, literal) for range_ in ranges]


def _leaf_matches(leaf: Predicate, range_: Range) -> bool:
    return may_match(leaf, lambda _: range_)


def _compare(range_: Range, op: str, literal: Any) -> bool:
    if op == "not-eq":
        return _not_equal(range_, literal)
    if op == "not-starts-with":
        return _not_starting(range_, literal)
    if isinstance(literal, float) and math.isnan(literal):
        return range_.may_be_value or range_.may_be_nan  # engines order NaN differently
    try:
        if op == "eq":
            return range_.may_be_value and _reaches(range_, literal, literal)
        if op == "starts-with":
            return range_.may_be_value and _may_start(range_, literal)
        if range_.may_be_nan:
            return True
        if op in ("lt", "lt-eq"):
            return range_.may_be_value and _below(range_, literal, op == "lt-eq")
        return range_.may_be_value and _above(range_, literal, op == "gt-eq")
    except TypeError:
        return True  # a value of another type than the bounds: the engine decides


def _reaches(range_: Range, least: Any, greatest: Any) -> bool:
    return (range_.lower is None or range_.lower <= greatest) and (
        range_.upper is None or range_.upper >= least
    )


def _below(range_: Range, literal: Any, or_equal: bool) -> bool:
    if range_.lower is None:
        return True
    # engines that order -0.0 before 0.0 put it below 0.0, so floats are compared inclusively
    return bool(range_.lower <= literal if or_equal or range_.is_float else range_.lower < literal)


def _above(range_: Range, literal: Any, or_equal: bool) -> bool:
    if range_.upper is None:
        return True
    return bool(range_.upper >= literal if or_equal or range_.is_float else range_.upper > literal)


def _may_start(range_: Range, prefix: Any) -> bool:
    size = len(prefix)
    return (range_.lower is None or range_.lower[:size] <= prefix) and (
        range_.upper is None or range_.upper[:size] >= prefix
    )


def _not_equal(range_: Range, literal: Any) -> bool:
    """A file is skipped only if all of its rows have this very value."""
    if range_.may_be_null or range_.may_be_nan or range_.is_float:
        return True
    return range_.lower is None or not (range_.lower == literal == range_.upper)


def _not_starting(range_: Range, prefix: Any) -> bool:
    if range_.may_be_null or range_.lower is None or range_.upper is None:
        return True
    try:
        return not (range_.lower.startswith(prefix) and range_.upper.startswith(prefix))
    except (TypeError, AttributeError):
        return True


def ranges_of_metrics(maps: Sequence[tuple[Any, ...]], field_id: int, type_: Any) -> Ranges:
    """Return the ranges of a column in files' unpacked metrics. Missing metrics keep a file."""
    counts = _counts([each[1] for each in maps], field_id)
    nulls = _counts([each[2] for each in maps], field_id)
    is_float = datatypes.name_of(type_) in ("float", "double")
    may_be_value = [
        count is None or null_count is None or null_count < count
        for count, null_count in zip(counts, nulls, strict=True)
    ]
    may_be_nan = [False] * len(maps)
    if is_float:
        nans = _counts([each[3] for each in maps], field_id)
        may_be_nan = [
            has_value and (count is None or count > 0)
            for has_value, count in zip(may_be_value, nans, strict=True)
        ]
    lowers, uppers = _bounds(
        type_,
        [None if each[4] is None else each[4].get(field_id) for each in maps],
        [None if each[5] is None else each[5].get(field_id) for each in maps],
    )
    return Ranges(
        lowers=lowers,
        uppers=uppers,
        may_be_null=[count is None or count > 0 for count in nulls],
        may_be_nan=may_be_nan,
        may_be_value=may_be_value,
        is_float=is_float,
    )


def _counts(counts_by_field: Sequence[Mapping[int, int] | None], field_id: int) -> list[int | None]:
    """Return a column's count in each file. Some writers use -1 for an unknown count."""
    counts = [None if each is None else each.get(field_id) for each in counts_by_field]
    return [None if count is None or count < 0 else count for count in counts]


def _bounds(
    type_: Any, lowers: Sequence[bytes | None], uppers: Sequence[bytes | None]
) -> tuple[list[Any], list[Any]]:
    """Return bounds of a type's values, from their bytes.

    Java compares uuids as two signed numbers, other writers as unsigned bytes. What lies between
    two uuids is therefore unknown.
    """
    if datatypes.name_of(type_) == "uuid":
        alike = [
            lower if lower == upper else None for lower, upper in zip(lowers, uppers, strict=True)
        ]
        lowers = uppers = alike
    return _values(type_, lowers), _values(type_, uppers)


def _values(type_: Any, bounds: Sequence[bytes | None]) -> list[Any]:
    """Return the values of bounds; None for bytes that are no bound of this type.

    Such bytes are text cut within a character, or the form of a type before its promotion.
    """
    numbers = values.integers_from_bytes(type_, bounds)
    return [_bound(type_, data) for data in bounds] if numbers is None else numbers


def _bound(type_: Any, data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        value = values.from_bytes(type_, data)
    except (values.InvalidValue, datatypes.InvalidType):
        return None
    return None if isinstance(value, float) and math.isnan(value) else value


def range_of_value(type_: Any, value: Value | None) -> Range:
    """Return the range of a partition field's one value."""
    is_float = datatypes.name_of(type_) in ("float", "double")
    is_nan = isinstance(value, float) and math.isnan(value)
    has_value = value is not None and not is_nan
    return Range(
        lower=value if has_value else None,
        upper=value if has_value else None,
        may_be_null=value is None,
        may_be_nan=is_nan,
        may_be_value=has_value,
        is_float=is_float,
    )


def range_of_summary(type_: Any, summary: manifests.FieldSummary) -> Range:
    """Return the range of a partition field in a manifest's summary."""
    is_float = datatypes.name_of(type_) in ("float", "double")
    lowers, uppers = _bounds(type_, (summary.lower_bound,), (summary.upper_bound,))
    return Range(
        lower=lowers[0],
        upper=uppers[0],
        may_be_null=summary.contains_null,
        may_be_nan=is_float and summary.contains_nan is not False,
        is_float=is_float,
    )


# --- partitions ---------------------------------------------------------------------------------


class PartitionFilter:
    """A filter on rows as a filter on partition tuples of one spec; it matches if rows may match.

    Its columns are positions in the tuple. Stateless.
    """

    __slots__ = ("_predicate", "_types")

    def __init__(
        self, predicate: Predicate, spec: Mapping[str, Any], schema: Mapping[str, Any]
    ) -> None:
        """predicate: on field ids, may contain Not. spec: of the partition tuples.

        schema: one with the spec's source columns; unknown transforms filter nothing.
        """
        fields = _partition_fields(spec, schema)
        self._types = [field.type for field in fields]
        self._predicate = _project(without_not(predicate), fields)

    @property
    def keeps_all(self) -> bool:
        return self._predicate == ALWAYS

    def may_match_manifest(self, manifest: manifests.ManifestFile) -> bool:
        summaries = manifest.partitions
        if self.keeps_all or summaries is None or len(summaries) != len(self._types):
            return True
        return may_match(
            self._predicate,
            lambda position: range_of_summary(self._types[position], summaries[position]),
        )

    def may_match_partition(self, partition: Sequence[Value | None]) -> bool:
        if self.keeps_all or len(partition) != len(self._types):
            return True
        return may_match(
            self._predicate,
            lambda position: range_of_value(self._types[position], partition[position]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _PartitionField:
    """transform: None if this release does not know it. type: of the partition values."""

    position: int
    source_id: int
    transform: transforms.Transform | None
    source_type: Any
    type: Any


def _partition_fields(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> list[_PartitionField]:
    columns = datatypes.columns(schema) if spec["fields"] else {}
    fields = []
    for position, field in enumerate(spec["fields"]):
        sources = field.get("source-ids") or [field.get("source-id")]
        source = columns.get(sources[0]) if len(sources) == 1 else None
        try:
            transform = transforms.parse(field["transform"]) if source is not None else None
        except transforms.InvalidTransform:
            transform = None
        source_type = "unknown" if source is None else source.type
        fields.append(
            _PartitionField(
                position=position,
                source_id=-1 if source is None else source.field_id,
                transform=transform,
                source_type=source_type,
                type=(
                    "unknown"
                    if transform is None
                    else transforms.result_type(transform, source_type)
                ),
            )
        )
    return fields


def _project(predicate: Predicate, fields: Sequence[_PartitionField]) -> Predicate:
    match predicate:
        case And(parts=parts):
            kept = [_project(part, fields) for part in parts]
            kept = [part for part in kept if part != ALWAYS]
            return And(parts=tuple(kept)) if kept else ALWAYS
        case Or(parts=parts):
            projected = [_project(part, fields) for part in parts]
            return ALWAYS if ALWAYS in projected else Or(parts=tuple(projected))
        case Constant(value=value):
            return Constant(value=False) if value is False else ALWAYS
        case Not():
            return ALWAYS
        case Comparison() | Membership() | UnaryPredicate():
            kept = [
                _project_leaf(predicate, field)
                for field in fields
                if field.source_id == predicate.column
            ]
            kept = [part for part in kept if part != ALWAYS]
            return And(parts=tuple(kept)) if kept else ALWAYS


def _project_leaf(
    leaf: Comparison | Membership | UnaryPredicate, field: _PartitionField
) -> Predicate:
    transform = field.transform
    if transform is None or transform.name == "void":
        return ALWAYS
    if isinstance(leaf, UnaryPredicate):
        if leaf.op in ("nan", "not-nan") and transform.name != "identity":
            return ALWAYS
        return UnaryPredicate(op=leaf.op, column=field.position)
    if transform.name == "identity":
        if isinstance(leaf, Membership):
            return Membership(column=field.position, values=leaf.values, negated=leaf.negated)
        return Comparison(op=leaf.op, column=field.position, value=leaf.value)
    try:
        if isinstance(leaf, Membership):
            if leaf.negated:
                return ALWAYS
            parts = tuple(_project_equal(value, field, transform) for value in leaf.values)
            return Or(parts=parts)
        return _project_comparison(leaf, field, transform)
    except (ValueError, TypeError, AttributeError, OverflowError):
        return ALWAYS  # a literal that the transform does not accept: the engine decides


def _project_comparison(
    leaf: Comparison, field: _PartitionField, transform: transforms.Transform
) -> Predicate:
    if leaf.op == "eq":
        return _project_equal(leaf.value, field, transform)
    if leaf.op == "starts-with":
        if transform.name != "truncate" or transform.width is None:
            return ALWAYS
        if not isinstance(leaf.value, str | bytes):
            return ALWAYS
        return Comparison(
            op="starts-with", column=field.position, value=leaf.value[: transform.width]
        )
    if transform.name == "bucket" or leaf.op not in ("lt", "lt-eq", "gt", "gt-eq"):
        return ALWAYS
    upward = leaf.op in ("gt", "gt-eq")
    value = leaf.value
    if isinstance(value, int) and not isinstance(value, bool):  # whole numbers have neighbours
        value += {"lt": -1, "gt": 1}.get(leaf.op, 0)
    bound = transforms.apply(transform, field.source_type, value)
    if bound is None:
        return ALWAYS
    if not upward and _was_rounded_up(transform, bound):
        assert isinstance(bound, int)
        bound += 1
    return Comparison(op="gt-eq" if upward else "lt-eq", column=field.position, value=bound)


def _project_equal(
    value: Value, field: _PartitionField, transform: transforms.Transform
) -> Predicate:
    result = transforms.apply(transform, field.source_type, value)
    if result is None:
        return ALWAYS
    if _was_rounded_up(transform, result):
        assert isinstance(result, int)
        return Membership(column=field.position, values=(result, result + 1))
    return Comparison(op="eq", column=field.position, value=result)


def _was_rounded_up(transform: transforms.Transform, result: Value) -> bool:
    """Old writers rounded times before 1970 towards it, so their value may be one too high."""
    return (
        transform.name in ("year", "month", "day", "hour")
        and isinstance(result, int)
        and result < 0
    )


# --- files --------------------------------------------------------------------------------------


class MetricsFilter:
    """A filter on rows, applied to a file's column metrics. Stateless."""

    __slots__ = ("_keys", "_predicate", "_types")

    def __init__(self, predicate: Predicate, schema: Mapping[str, Any]) -> None:
        """schema: of the predicate's columns and values."""
        self._predicate = without_not(predicate)
        self._types = {} if self.keeps_all else _row_columns(schema)
        self._keys = {
            field_id: (field_id, str(self._types[field_id]))
            for field_id in _columns_of(self._predicate)
            if field_id in self._types
        }

    @property
    def keeps_all(self) -> bool:
        return isinstance(self._predicate, Constant) and self._predicate.value is not False

    def may_match(self, file: manifests.DataFile) -> bool:
        if file.record_count == 0:
            return False
        if self.keeps_all:
            return True

        maps = file.metrics.unpacked()
        return may_match(self._predicate, lambda field_id: self._range_in(maps, field_id))

    def choose(
        self,
        files: Sequence[manifests.DataFile],
        kept: dict[Any, Any],
        part: slice = slice(None),
    ) -> list[bool]:
        """Return for each file of a part whether it may match.

        kept: ranges of all files' columns from earlier calls; new ones are added, with the range
        that encloses them, unless they would be more than RANGES_AT_ONCE and those of the part are
        fewer. The metrics of each file are unpacked at most once.
        """
        wanted = files[part]
        if self.keeps_all:
            return [file.record_count != 0 for file in wanted]
        is_whole = len(wanted) == len(files)
        missing = {field_id: key for field_id, key in self._keys.items() if key not in kept}
        added: dict[int, Ranges] = {}
        if missing:
            are_kept = is_whole or len(missing) * len(files) <= RANGES_AT_ONCE
            maps = [file.metrics.unpacked() for file in (files if are_kept else wanted)]
            for field_id, key in missing.items():
                ranges = ranges_of_metrics(maps, field_id, self._types[field_id])
                if are_kept:
                    kept[key] = (enclosing(ranges), ranges)
                else:
                    added[field_id] = ranges
            if self.skips((kept,))[0]:
                return [False] * len(wanted)

        def ranges_of(field_id: int) -> Ranges:
            key = self._keys.get(field_id)
            if key is None:
                return Ranges.of([EVERYTHING] * len(wanted))
            if field_id in added:
                return added[field_id]
            ranges: Ranges = kept[key][1]
            return ranges if is_whole else ranges[part]

        chosen = matching(self._predicate, ranges_of, len(wanted))
        for number in itertools.compress(range(len(wanted)), tuple(chosen)):
            chosen[number] = wanted[number].record_count != 0
        return chosen

    def have_read(self, kept: Mapping[Any, Any]) -> bool:
        """Return whether `choose` would read no metrics for what earlier calls have kept."""
        return self.keeps_all or all(key in kept for key in self._keys.values())

    def skips(self, kept: Sequence[Mapping[Any, Any]]) -> list[bool]:
        """Return for each group of files whether none of them may match.

        kept: for each group what earlier calls of `choose` have kept of it.
        """
        if self.keeps_all:
            return [False] * len(kept)

        def ranges_of(field_id: int) -> Ranges:
            key = self._keys.get(field_id)
            return Ranges.of([each[key][0] if key in each else _UNREAD for each in kept])

        return [not one for one in matching(self._predicate, ranges_of, len(kept))]

    def _range_in(self, maps: tuple[Any, ...], field_id: int) -> Range:
        type_ = self._types.get(field_id)
        if type_ is None:
            return EVERYTHING
        return next(iter(ranges_of_metrics((maps,), field_id, type_)))


def _columns_of(predicate: Predicate) -> list[int]:
    """Return the columns of a predicate that has no Not, each once."""
    columns: dict[int, None] = {}
    waiting = [predicate]
    while waiting:
        match waiting.pop():
            case And(parts=parts) | Or(parts=parts):
                waiting += parts
            case Comparison(column=column) | Membership(column=column):
                columns[column] = None
            case UnaryPredicate(column=column):
                columns[column] = None
            case Constant() | Not():
                pass
    return list(columns)


def _row_columns(schema: Mapping[str, Any]) -> dict[int, Any]:
    """Return the types of the columns with one value per row: none inside a list or map."""
    columns = datatypes.columns(schema)
    column_types = {}
    for field_id, column in columns.items():
        parent = column.parent
        while parent is not None and datatypes.name_of(columns[parent].type) == "struct":
            parent = columns[parent].parent
        if parent is None and datatypes.is_primitive(column.type):
            column_types[field_id] = column.type
    return column_types
