"""rule: kernels of FILTER, TRANSFORM and REDUCE, which compute an expression for each element.

The elements of all arrays of a batch are one table, with the columns from outside that the
expression uses; what computes an expression over a table is passed in. REDUCE computes the first
elements of all arrays, then the second ones, and so on. The kernel's name contains the expression.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sql import kernelforms, limits, variant_kernels, variants
from sql.kernelforms import Kernel

NAME: Final = re.compile("_lambda_(filter|transform|reduce)_([0-9a-f]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lambda:
    """An expression of the engine and what it needs.

    text: over the columns p0, p1 (the parameters) and c0, c1 ... functions: the kernels that it
    calls. arguments, result: the kernel's Arrow types by their names in the engine; the arguments
    are the array, REDUCE's first value, and the columns c0, c1 ...
    """

    text: str
    functions: tuple[str, ...]
    arguments: tuple[str, ...]
    result: str


Evaluate: TypeAlias = Callable[[pa.RecordBatch], Any]
"""Returns the array of an expression's values over the rows of a batch, in their order."""

Opened: TypeAlias = Callable[[Lambda], AbstractContextManager[Evaluate]]
"""Opens what computes a lambda's expression, for one call of its kernel."""

ELEMENTS_AT_ONCE: Final = 4_096
"""Elements that FILTER and TRANSFORM evaluate at once, with the captured columns for each."""

REDUCED_ELEMENTS_MAX: Final = 10_000
"""Elements of one array that REDUCE takes: each is an evaluation after the one before."""


def name(form: str, computed: Lambda) -> str:
    """Return the name of the kernel that calls a lambda."""
    return f"_lambda_{form}_{msgspec.json.encode(computed).hex()}"


def of_name(text: str) -> tuple[str, Lambda] | None:
    """Return the form and the lambda of a kernel's name; None for another kernel."""
    match = NAME.fullmatch(text)
    if match is None:
        return None
    return match[1], msgspec.json.decode(bytes.fromhex(match[2]), type=Lambda)


def kernel(form: str, computed: Lambda, opened: Opened, *, zone: str) -> Kernel:
    """Return the kernel that calls a lambda. zone: the session's."""
    arguments = tuple(kernelforms.arrow_type(each, zone) for each in computed.arguments)
    result = kernelforms.arrow_type(computed.result, zone)

    def function(arrays: Any, *columns: Any) -> Any:
        rows = [_elements(text) for text in arrays.to_pylist()]
        with opened(computed) as evaluate:
            if form == "reduce":
                return _reduced(rows, columns[0], columns[1:], evaluate)
            return _each(form, rows, columns, evaluate)

    return Kernel(function=function, arguments=arguments, result=result, volatility="volatile")


Elements: TypeAlias = list[str | None]
"""The canonical texts of an array's elements; None for one that is SQL NULL."""


def _elements(text: str | None) -> Elements | None:
    value = None if text is None else variant_kernels.read_value(text)
    if not isinstance(value, list):
        return None
    return [None if item == variants.UNDEFINED else variants.dumps(item) for item in value]


def _each(
    form: str, rows: Sequence[Elements | None], columns: Sequence[Any], evaluate: Evaluate
) -> Any:
    results = list(_computed(rows, columns, evaluate))
    texts: list[str | None] = []
    start = 0
    for elements in rows:
        if elements is None:
            texts.append(None)
            continue
        end = start + len(elements)
        if form == "filter":
            kept = [
                element
                for element, holds in zip(elements, results[start:end], strict=True)
                if holds
            ]
        else:
            kept = results[start:end]
        texts.append(_array_text(kept))
        start = end
    bounded = kernelforms.array_of(texts, pa.string())
    return variant_kernels.check_lengths(bounded)


def _computed(
    rows: Sequence[Elements | None], columns: Sequence[Any], evaluate: Evaluate
) -> Iterator[Any]:
    """Yield the lambda's value of each element, so many at a time that memory is bounded."""
    owned = ((row, each) for row, elements in enumerate(rows) for each in elements or ())
    size = 0
    while some := list(itertools.islice(owned, ELEMENTS_AT_ONCE)):
        places = pa.array([row for row, _ in some], pa.int64())
        captured = {f"c{at}": column.take(places) for at, column in enumerate(columns)}
        texts = pa.array([element for _, element in some], pa.string())
        values = evaluate(pa.record_batch({"p0": texts, **captured}))
        size += values.nbytes
        _check_size(size)
        yield from values.to_pylist()


def _check_size(size_bytes: int) -> None:
    """Raise what means too little memory for the values of one batch."""
    if size_bytes > limits.REPEATED_BYTES_MAX:
        raise ValueError("Resources exhausted: values of a lambda")


def _array_text(elements: Sequence[str | None]) -> str:
    return f"[{','.join(variants.UNDEFINED_TEXT if each is None else each for each in elements)}]"


def _reduced(
    rows: Sequence[Elements | None],
    start: Any,
    columns: Sequence[Any],
    evaluate: Evaluate,
) -> Any:
    """REDUCE: NULL of no array, and of a first value that is NULL."""
    longest = max((len(elements or ()) for elements in rows), default=0)
    if longest > REDUCED_ELEMENTS_MAX:
        refused = f"REDUCE of an array of more than {REDUCED_ELEMENTS_MAX} elements"
        raise kernelforms.refusal(refused)
    absent = [elements is None for elements in rows]
    values: Any = pc.if_else(pa.array(absent, pa.bool_()), pa.scalar(None, start.type), start)
    begun = values.is_valid().to_pylist()
    for step in range(longest):
        going = [
            row
            for row, elements in enumerate(rows)
            if begun[row] and elements is not None and len(elements) > step
        ]
        if not going:
            break
        places = pa.array(going, pa.int64())
        captured = {f"c{at}": column.take(places) for at, column in enumerate(columns)}
        elements = pa.array([(rows[row] or [])[step] for row in going], pa.string())
        batch = pa.record_batch({"p0": values.take(places), "p1": elements, **captured})
        following = evaluate(batch)
        if pa.types.is_string(following.type):
            variant_kernels.check_lengths(following)
        chosen = [False] * len(rows)
        for row in going:
            chosen[row] = True
        values = pc.replace_with_mask(values, pa.array(chosen, pa.bool_()), following)
        _check_size(values.nbytes)
    return values
