"""rule: kernels of a group's values, which the engine collects as one list for each group."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sql import kernelforms
from sql.kernelforms import Kernel


def _moment(match: re.Match[str]) -> Kernel:
    """SKEW or KURTOSIS: of a sample, with the correction for its size; NULL of too few values.

    NULL, too, where all values are equal, since the standard deviation is then a divisor of zero.
    """
    power = 3 if match.group(1) == "skew" else 4

    def function(lists: Any) -> Any:
        groups = pa.table({"group": pc.list_parent_indices(lists), "x": pc.list_flatten(lists)})
        groups = groups.filter(pc.is_valid(groups["x"]))
        sizes = _of_groups(groups, "count", len(lists))
        means = _of_groups(groups, "mean", len(lists))
        distances: Any = pc.subtract(groups["x"], means.take(groups["group"]))
        squares, powers = (
            _of_groups(
                pa.table({"group": groups["group"], "x": pc.power(distances, exponent)}),
                "sum",
                len(lists),
            )
            for exponent in (2, power)
        )
        n: Any = pc.cast(sizes, pa.float64())
        variance: Any = pc.divide(squares, pc.subtract(n, 1.0))
        # Rounding leaves equal values a variance: the mean of 0.1 three times is another number.
        least, greatest = (_of_groups(groups, each, len(lists)) for each in ("min", "max"))
        is_one_value = pc.or_(pc.equal(least, greatest), pc.less_equal(variance, pa.scalar(0.0)))
        is_one_value = pc.and_not(is_one_value, pc.is_nan(variance))  # min and max leave NaN out
        variance = pc.if_else(is_one_value, pa.scalar(None, pa.float64()), variance)
        scaled: Any = pc.divide(powers, pc.power(variance, power / 2))
        result = _skew(n, scaled) if power == 3 else _kurtosis(n, scaled)
        return pc.if_else(
            pc.greater_equal(n, pa.scalar(float(power))), result, pa.scalar(None, pa.float64())
        )

    return Kernel(function=function, arguments=(pa.list_(pa.float64()),), result=pa.float64())


def _of_groups(groups: pa.Table, aggregate: Any, count: int) -> Any:
    """Return an aggregate of each group's values by the group's number; NULL of no values."""
    computed = groups.group_by("group").aggregate([("x", aggregate)])
    places = pc.index_in(pa.array(range(count), pa.int64()), computed["group"].combine_chunks())
    return computed[f"x_{aggregate}"].combine_chunks().take(places)


def _skew(n: Any, cubes: Any) -> Any:
    """Return n / ((n-1)(n-2)) times the sum of the cubes."""
    divisor = pc.multiply(pc.subtract(n, 1.0), pc.subtract(n, 2.0))
    return pc.multiply(pc.divide(n, divisor), cubes)


def _kurtosis(n: Any, fourths: Any) -> Any:
    """Return n(n+1) / ((n-1)(n-2)(n-3)) times the sum, less 3(n-1)(n-1) / ((n-2)(n-3))."""
    less = [pc.subtract(n, float(each)) for each in (1, 2, 3)]
    beyond_one = pc.multiply(less[1], less[2])
    share = pc.divide(pc.multiply(n, pc.add(n, 1.0)), pc.multiply(less[0], beyond_one))
    normal = pc.divide(pc.multiply(3.0, pc.multiply(less[0], less[0])), beyond_one)
    return pc.subtract(pc.multiply(share, fourths), normal)


def _most_frequent(match: re.Match[str]) -> Kernel:
    """APPROX_TOP_K: the most frequent values and how often they occur, exactly; ties by value."""
    most = int(match.group(1))

    def top(values: Any) -> str:
        counted = pc.value_counts(values.drop_null())
        rows = pa.table({"value": counted.field(0), "count": counted.field(1)})
        rows = rows.sort_by([("count", "descending"), ("value", "ascending")]).slice(0, most)
        pairs = zip(rows["value"].to_pylist(), rows["count"].to_pylist(), strict=True)
        return f"[{','.join(f'[{value},{count}]' for value, count in pairs)}]"

    def function(lists: Any) -> Any:
        return pa.array(
            ["[]" if each.values is None else top(each.values) for each in lists], pa.string()
        )

    return Kernel(function=function, arguments=(pa.list_(pa.string()),), result=pa.string())


def _changes(match: re.Match[str]) -> Kernel:
    """CONDITIONAL_CHANGE_EVENT: how often the value has become another one; NULL is no change."""
    of_values = kernelforms.arrow_type(bytes.fromhex(match[1]).decode(), "UTC")

    def function(values: Any) -> Any:
        before, after = values[:-1], values[1:]
        changed = pc.not_equal(before, after)
        if pa.types.is_floating(of_values):
            both: Any = pc.and_(pc.is_nan(before), pc.is_nan(after))
            changed = pc.and_not(changed, both)
        steps: Any = pc.cast(pc.fill_null(changed, pa.scalar(False)), pa.int64())
        first = pa.array([0] * min(len(values), 1), pa.int64())
        return pa.concat_arrays([first, pc.cumulative_sum(steps)])

    return Kernel(function=function, arguments=(of_values,), result=pa.int64(), is_window=True)


FAMILIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Kernel]], ...] = (
    (re.compile("_changes_([0-9a-f]+)"), _changes),
    (re.compile("_(skew|kurtosis)"), _moment),
    (re.compile("_most_frequent_([0-9]+)"), _most_frequent),
)
