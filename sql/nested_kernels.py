"""rule: kernels over the engine's nested types: structured OBJECTs, ARRAYs and MAPs.

A kernel's name contains the type of its argument. A value becomes the canonical text of a VARIANT
(`sql.variants`) type by type: the texts of all leaves of a batch are computed at once, by the
kernels of their types, and joined.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sql import kernelforms, limits, variant_kernels, variants
from sql.kernelforms import Kernel, coded

Texts: TypeAlias = list[str | None]
"""Canonical texts; None for SQL NULL."""

TYPES_MAX: Final = 16
"""Types that stay decoded."""

Leaf: TypeAlias = Callable[[str], Kernel]
"""Returns the kernel of a name, which is none of this module."""


@functools.lru_cache(TYPES_MAX)
def arrow_type(encoded: str, zone: str) -> pa.DataType:
    """Return the Arrow type that the name of a kernel contains. zone: the session's.

    A query calls a kernel for each field of a struct that it reads, all with the struct's type.
    """
    return _arrow_type(json.loads(bytes.fromhex(encoded)), zone)


def _arrow_type(form: Any, zone: str) -> pa.DataType:
    if isinstance(form, str):
        return kernelforms.arrow_type(form, zone)
    word, members = form
    types = [(name, _arrow_type(inner, zone)) for name, inner in members]
    if word == "struct":
        return pa.struct([pa.field(name, inner) for name, inner in types])
    if word == "list":
        return pa.list_(pa.field("element", types[0][1]))
    return pa.map_(types[0][1], types[1][1])


# Fields


def field(path: str, encoded: str, zone: str) -> Kernel:
    """What stands at a path of numbers of fields in structs; NULL below a NULL."""
    struct: Any = arrow_type(encoded, zone)
    steps = [int(step) for step in path.split("_")]
    result = struct
    for step in steps:
        result = result.field(step).type

    def function(array: Any) -> Any:
        return pc.struct_field(array, steps)

    return Kernel(function=function, arguments=(struct,), result=result)


# As a key


def one_zero(encoded: str, zone: str) -> Kernel:
    """Nested values with 0.0 for -0.0: what is equal has the same bytes."""
    nested = arrow_type(encoded, zone)
    return Kernel(function=_with_one_zero, arguments=(nested,), result=nested)


def _with_one_zero(array: Any) -> Any:
    nested = array.type
    if pa.types.is_float64(nested):
        return pc.add(array, pa.scalar(0.0))
    if pa.types.is_struct(nested):
        columns = [_with_one_zero(array.field(index)) for index in range(nested.num_fields)]
        return pa.StructArray.from_arrays(columns, fields=list(nested), mask=array.is_null())
    if pa.types.is_map(nested):
        entries = [array.keys, _with_one_zero(array.items)]
        fields = [nested.key_field, nested.item_field]
        return _with_elements(array, pa.StructArray.from_arrays(entries, fields=fields))
    if pa.types.is_list(nested):
        return _with_elements(array, _with_one_zero(array.values))
    return array


def _with_elements(array: Any, elements: Any) -> Any:
    """Return lists or maps with other elements in the place of those of the whole array."""
    own = array.buffers()[:2]
    return pa.Array.from_buffers(
        array.type, len(array), own, offset=array.offset, children=[elements]
    )


# As a VARIANT


def as_variant(encoded: str, zone: str, leaf: Leaf) -> Kernel:
    """Nested values as VARIANTs. A member that is NULL is JSON null, an element is undefined."""
    nested = arrow_type(encoded, zone)

    def function(array: Any) -> Any:
        texts = kernelforms.array_of(_texts(array, leaf), pa.string())
        return variant_kernels.check_lengths(texts)

    # Volatile, so that planning does not evaluate a branch that no row takes.
    return Kernel(function=function, arguments=(nested,), result=pa.string(), volatility="volatile")


def _texts(array: Any, leaf: Leaf) -> Texts:
    arrow_type = array.type
    if pa.types.is_struct(arrow_type):
        return _of_structs(array, leaf)
    if pa.types.is_map(arrow_type):
        return _of_maps(array, leaf)
    if pa.types.is_list(arrow_type):
        return _of_lists(array, leaf)
    return _of_leaves(array, leaf)


def _of_structs(array: Any, leaf: Leaf) -> Texts:
    fields = sorted(enumerate(array.type), key=lambda numbered: numbered[1].name)
    names = [orjson.dumps(field.name).decode() for _, field in fields]
    columns = [_texts(pc.struct_field(array, [index]), leaf) for index, _ in fields]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
    return [
        _object(zip(names, row, strict=True)) if is_valid else None
        for is_valid, row in zip(array.is_valid().to_pylist(), rows, strict=True)
    ]


def _object(members: Any) -> str:
    return "{" + ",".join(f"{name}:{text or variants.NULL_TEXT}" for name, text in members) + "}"


def _of_lists(array: Any, leaf: Leaf) -> Texts:
    start, end = _ends(array)
    texts = _texts(array.values[start:end], leaf)
    elements = [text or variants.UNDEFINED_TEXT for text in texts]
    return [
        None if bounds is None else f"[{','.join(elements[bounds[0] : bounds[1]])}]"
        for bounds in _bounds(array)
    ]


def _of_maps(array: Any, leaf: Leaf) -> Texts:
    keys, values = _entries(array)
    names = [_name(text) for text in _texts(keys, leaf)]
    texts = _texts(values, leaf)
    objects: Texts = []
    for bounds in _bounds(array):
        if bounds is None:
            objects.append(None)
            continue
        low, high = bounds
        members = dict(zip(names[low:high], texts[low:high], strict=True))
        objects.append(
            _object((orjson.dumps(name).decode(), members[name]) for name in sorted(members))
        )
    return objects


def _name(key: str | None) -> str:
    """Return the canonical text of a map's key as the name of an object's member."""
    return "" if key is None else variants.scalar_text(variants.loads(key)) or ""


def _entries(array: Any) -> tuple[Any, Any]:
    """Return the keys and the values of maps."""
    start, end = _ends(array)
    return array.keys[start:end], array.items[start:end]


def _ends(array: Any) -> tuple[int, int]:
    """Return where the elements of an array's rows begin and end among those of its whole."""
    offsets = array.offsets
    return (offsets[0].as_py(), offsets[-1].as_py()) if len(array) else (0, 0)


def _bounds(array: Any) -> list[tuple[int, int] | None]:
    """Return where each row's elements begin and end among those of all rows; None for NULL."""
    offsets = array.offsets.to_pylist() if len(array) else [0]
    start = offsets[0]
    return [
        (low - start, high - start) if is_valid else None
        for low, high, is_valid in zip(
            offsets, offsets[1:], array.is_valid().to_pylist(), strict=False
        )
    ]


def _of_leaves(array: Any, leaf: Leaf) -> Texts:
    arrow_type = array.type
    texts: Texts
    if pa.types.is_decimal(arrow_type):
        # Arrow's own text of a small number has an exponent.
        digits = [None if each is None else f"{each:f}" for each in array.to_pylist()]
        if arrow_type.scale == 0:
            return digits
        texts = leaf("_v_of_decimal").function(pa.array(digits, pa.string())).to_pylist()
        return texts
    if pa.types.is_boolean(arrow_type) or pa.types.is_integer(arrow_type):
        texts = array.cast(pa.string()).to_pylist()
        return texts
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns":
        moments = array.cast(pa.int64()).cast(pa.timestamp("ns"))
        micros = leaf("_whole_of_nanos").function(moments)
        array = micros.cast(pa.int64()).cast(pa.timestamp("us", arrow_type.tz))
    if pa.types.is_string_view(arrow_type):
        array = array.cast(pa.string())
    texts = leaf(_kernel_of(array.type)).function(array).to_pylist()
    return texts


def _kernel_of(arrow_type: pa.DataType) -> str:
    if pa.types.is_timestamp(arrow_type):
        return "_v_of_timestamp" if arrow_type.tz is None else "_v_of_instant"
    return LEAVES[arrow_type]


LEAVES: dict[pa.DataType, str] = {
    pa.string(): "_v_of_text",
    pa.float64(): "_v_of_real",
    pa.date32(): "_v_of_date",
    pa.time64("us"): "_v_of_time",
    pa.binary(): "_v_of_binary",
}


# FLATTEN


def flatten(encoded: str, zone: str, leaf: Leaf, *, is_outer: bool) -> Kernel:
    """The paths and indexes of the elements of a list, or of the entries of a map, as FLATTEN's.

    The engine puts the elements beside them. Without any, is_outer gives one row.
    """
    nested: Any = arrow_type(encoded, zone)
    is_map = pa.types.is_map(nested)

    def function(array: Any, paths: Any) -> Any:
        path = paths[0].as_py() if len(paths) else ""
        names = [_name(text) for text in _texts(_entries(array)[0], leaf)] if is_map else []
        inner_paths: list[str] = []
        indexes: list[int | None] = []
        offsets = [0]
        for bounds in _bounds(array):
            low, high = bounds or (0, 0)
            if high - low > limits.FLATTENED_MAX:
                raise coded("100039", f"{high - low} rows of FLATTEN")
            if is_map:
                inner_paths += [variant_kernels.member_path(path, name) for name in names[low:high]]
                indexes += [None] * (high - low)
            else:
                inner_paths += [f"{path}[{index}]" for index in range(high - low)]
                indexes += range(high - low)
            if is_outer and low == high:
                inner_paths.append(path)
                indexes.append(None)
            offsets.append(len(indexes))
        columns: list[Any] = [
            pa.nulls(len(indexes), pa.string()),
            pa.array(inner_paths, pa.string()),
            pa.array(indexes, pa.int64()),
        ]
        rows = pa.StructArray.from_arrays(columns, fields=PLACES)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), rows)

    return Kernel(
        function=function,
        arguments=(nested, pa.string()),
        result=pa.list_(pa.struct(PLACES)),
        volatility="volatile",
    )


PLACES: list[pa.Field[Any]] = [
    pa.field("key", pa.string()),  # NULL: of a list it has none, the engine has those of a map
    pa.field("path", pa.string()),
    pa.field("index", pa.int64()),
]
