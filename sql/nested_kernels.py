"""rule: kernels over the engine's nested types: structured OBJECTs, ARRAYs and MAPs.

A kernel's name contains the type of its argument. A value becomes the canonical text of a VARIANT
(`sql.variants`) type by type: the texts of all leaves of a batch are computed at once, by the
kernels of their types, and joined. The way back is the same: each value of a batch is taken apart,
and the kernels of the leaves' types make their columns.
"""

from __future__ import annotations

import functools
import itertools
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


# From a VARIANT


def of_variant(encoded: str, zone: str, leaf: Leaf) -> Kernel:
    """VARIANTs as nested values. JSON null, and an element that is SQL NULL, become NULL.

    An object that becomes a struct has a struct's members and no others.
    """
    nested = arrow_type(encoded, zone)

    def function(array: Any) -> Any:
        rows = [None if text is None else _read(text) for text in array.to_pylist()]
        try:
            return _of_values(rows, nested, leaf)
        except pa.ArrowInvalid as error:  # more than 64 bits, or than an array holds
            raise coded("100071", f"Failed to cast variant value: {error}") from None

    return Kernel(function=function, arguments=(pa.string(),), result=nested, volatility="volatile")


def _read(text: str) -> variants.Value:
    return variant_kernels.read_value(text)


def _of_values(rows: list[variants.Value], arrow_type: Any, leaf: Leaf) -> Any:
    rows = [None if row == variants.UNDEFINED else row for row in rows]
    absent = pa.array([row is None for row in rows], pa.bool_())
    if pa.types.is_struct(arrow_type):
        names = [field.name for field in arrow_type]
        for row in rows:
            if row is not None and (not isinstance(row, dict) or set(row) != set(names)):
                raise variant_kernels.failed_cast(row, f"OBJECT({', '.join(names)})")
        columns = [
            _of_values([None if row is None else row[field.name] for row in rows], field.type, leaf)
            for field in arrow_type
        ]
        return pa.StructArray.from_arrays(columns, fields=list(arrow_type), mask=absent)
    if pa.types.is_map(arrow_type):
        _check_all(rows, dict, "MAP")
        entries = [(name, value) for row in rows for name, value in (row or {}).items()]
        names_of_rows = [variants.text_value(name) for name, _ in entries]
        keys = _of_values(names_of_rows, arrow_type.key_type, leaf)
        items = _of_values([value for _, value in entries], arrow_type.item_type, leaf)
        return _maps(_offsets(rows), keys, items, arrow_type, absent)
    if pa.types.is_list(arrow_type):
        _check_all(rows, list, "ARRAY")
        elements = [element for row in rows for element in row or ()]
        values: Any = _of_values(elements, arrow_type.value_type, leaf)
        offsets = pa.array(_offsets(rows), pa.int32())
        return pa.ListArray.from_arrays(offsets, values, type=arrow_type, mask=absent)
    return _of_scalars(rows, arrow_type, leaf)


def _check_all(rows: list[variants.Value], form: type, shown: str) -> None:
    for row in rows:
        if row is not None and not isinstance(row, form):
            raise variant_kernels.failed_cast(row, shown)


def _offsets(rows: list[variants.Value]) -> list[int]:
    """Return where the parts of each row begin among those of all rows, and where the last end."""
    return list(itertools.accumulate((len(row or ()) for row in rows), initial=0))


def _maps(offsets: list[int], keys: Any, items: Any, of_maps: Any, absent: Any) -> Any:
    """Return maps; raises the coded error for a key that one of them has twice."""
    shown = keys.to_pylist()
    for low, high in itertools.pairwise(offsets):
        visited = set()
        for key in shown[low:high]:
            if key in visited:
                raise variant_kernels.duplicate_key(str(key))
            visited.add(key)
    of_arrays: Any = pa.MapArray.from_arrays
    return of_arrays(pa.array(offsets, pa.int32()), keys, items, type=of_maps, mask=absent)


def _of_scalars(rows: list[variants.Value], arrow_type: Any, leaf: Leaf) -> Any:
    texts = [None if row is None else variants.dumps(row) for row in rows]
    columns = leaf(_reader_of(arrow_type)).function(
        pa.array(texts, pa.string()), pa.array([""] * min(len(texts), 1), pa.string())
    )
    return columns.cast(arrow_type)


def _reader_of(arrow_type: Any) -> str:
    """Return the name of the kernel that reads a VARIANT as a leaf's type."""
    if pa.types.is_decimal(arrow_type):
        return f"_v_to_fixed_{arrow_type.precision}_{arrow_type.scale}"
    return READERS[arrow_type]


READERS: dict[pa.DataType, str] = {
    pa.string_view(): "_v_to_text",
    pa.int64(): "_v_to_fixed_38_0",
    pa.float64(): "_v_to_real",
    pa.bool_(): "_v_to_boolean",
    pa.date32(): "_v_to_date",
    pa.time64("us"): "_v_to_time",
    pa.timestamp("us"): "_v_to_timestamp",
    pa.binary(): "_v_to_binary",
}
"""The kernels that read a VARIANT as a type, but for NUMBERs that are decimals."""


# MAPs


def map_cat(encoded: str, zone: str) -> Kernel:
    """The entries of two MAPs; of a key that both have, the value of the second."""
    nested = arrow_type(encoded, zone)

    def function(first: Any, second: Any) -> Any:
        return _joined(first, second, nested)

    return Kernel(
        function=function, arguments=(nested, nested), result=nested, volatility="volatile"
    )


def map_insert(encoded: str, zone: str) -> Kernel:
    """The entries of two MAPs, as map_cat; a fault for a key of both where the flag is not true."""
    nested = arrow_type(encoded, zone)

    def function(first: Any, second: Any, updates: Any) -> Any:
        return _joined(first, second, nested, updates.to_pylist())

    return Kernel(
        function=function,
        arguments=(nested, nested, pa.bool_()),
        result=nested,
        volatility="volatile",
    )


def map_only(encoded: str, encoded_keys: str, zone: str, *, keeps: bool) -> Kernel:
    """The entries of a MAP whose keys are in a list, or those whose keys are not.

    encoded_keys: the type of the list. Its elements may be numbers of another scale than the keys.
    """
    nested: Any = arrow_type(encoded, zone)
    keys_type: Any = arrow_type(encoded_keys, zone)

    def function(maps: Any, wanted: Any) -> Any:
        keys = maps.keys.to_pylist()
        places = []
        for row, listed in enumerate(wanted.to_pylist()):
            chosen = set(listed or ())
            places.append([at for at in _range(maps, row) if (keys[at] in chosen) is keeps])
        absent = pc.or_(maps.is_null(), wanted.is_null())
        return _with_entries(maps.keys, maps.items, places, nested, absent)

    return Kernel(
        function=function, arguments=(nested, keys_type), result=nested, volatility="volatile"
    )


def _joined(first: Any, second: Any, nested: Any, updates: list[Any] | None = None) -> Any:
    ours, theirs = first.keys.to_pylist(), second.keys.to_pylist()
    absent = pc.or_(first.is_null(), second.is_null())
    is_absent = absent.to_pylist()
    places: list[list[int]] = []
    for row in range(len(first)):
        entries = {} if is_absent[row] else {ours[at]: at for at in _range(first, row)}
        for at in () if is_absent[row] else _range(second, row):
            if updates is not None and theirs[at] in entries and not updates[row]:
                raise variant_kernels.duplicate_key(str(theirs[at]))
            entries[theirs[at]] = len(ours) + at
        places.append(list(entries.values()))
    keys = pa.concat_arrays([first.keys, second.keys])
    items = pa.concat_arrays([first.items, second.items])
    return _with_entries(keys, items, places, nested, absent)


def _range(maps: Any, row: int) -> range:
    return range(maps.offsets[row].as_py(), maps.offsets[row + 1].as_py())


def _with_entries(keys: Any, items: Any, places: list[list[int]], nested: Any, absent: Any) -> Any:
    """Return maps of those entries that stand at places, which are lists for each row."""
    flat = pa.array(itertools.chain.from_iterable(places), pa.int64())
    offsets = pa.array(_offsets(places), pa.int32())
    own_keys, own_items = _taken(keys, flat), _taken(items, flat)
    of_maps: Any = pa.MapArray.from_arrays
    return of_maps(offsets, own_keys, own_items, type=nested, mask=absent)


def _taken(array: Any, places: Any) -> Any:
    """Return the values at places. Arrow takes none of views of texts."""
    return array.cast(_without_views(array.type)).take(places).cast(array.type)


def _without_views(arrow_type: Any) -> Any:
    if pa.types.is_struct(arrow_type):
        return pa.struct([field.with_type(_without_views(field.type)) for field in arrow_type])
    if pa.types.is_map(arrow_type):
        return pa.map_(_without_views(arrow_type.key_type), _without_views(arrow_type.item_type))
    if pa.types.is_list(arrow_type):
        element = arrow_type.value_field
        return pa.list_(element.with_type(_without_views(element.type)))
    return pa.string() if pa.types.is_string_view(arrow_type) else arrow_type


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
