"""rule: kernels of columns of Iceberg's `variant`, as Parquet files and the engine have them.

A file has a group of `metadata`, `value` and, where its writer shredded values, `typed_value`:
parts in columns of their own type, at any depth. The name of a kernel contains the group's type.
Values become the canonical text of a VARIANT (`sql.variants`), or packed values: metadata and value
in one binary, behind the length of the metadata. Packed values keep the types of the file, and are
what is written: `unpacked` gives the two columns of a file, in which no value is shredded.
Source: Parquet format, VariantShredding.md; Iceberg spec, Appendix A.
"""

from __future__ import annotations

import itertools
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sql import kernelforms, limits, variant_encoding, variant_kernels, variants
from sql.kernelforms import Kernel, coded
from sql.variant_encoding import NULL, Instant, Names, Node

METADATA, VALUE, TYPED_VALUE = "metadata", "value", "typed_value"
LENGTH_BYTES: Final = 4

STORED: Final = pa.struct(
    [
        pa.field(METADATA, pa.binary(), nullable=False),
        pa.field(VALUE, pa.binary(), nullable=False),
    ]
)
"""The group of a column that this program writes."""

MISSING: Final = object()
"""What a row has of a member that is not there."""

Leaf: TypeAlias = Callable[[str], Kernel]
"""Returns the kernel of a name, which is none of this module."""


# Types


class UnfitColumn(ValueError):
    """A file's column is no group of a variant."""


def group_type(arrow_type: Any) -> pa.DataType:
    """Return the type in which the engine reads a file's group of a variant.

    Its fields are nullable, without ids, and have the types that Arrow stores extensions in. Raises
    UnfitColumn.
    """
    if isinstance(arrow_type, pa.BaseExtensionType):
        arrow_type = arrow_type.storage_type
    try:
        names = _names(arrow_type)
        if METADATA not in names or len(names) < 2:
            raise UnfitColumn
        group = _group(arrow_type, frozenset({METADATA, VALUE, TYPED_VALUE}))
    except RecursionError:
        raise UnfitColumn from None
    if _fields_in(group) > FIELDS_MAX:
        raise UnfitColumn
    return group


def _fields_in(arrow_type: Any) -> int:
    fields = [arrow_type.field(at) for at in range(arrow_type.num_fields)]
    return len(fields) + sum(_fields_in(field.type) for field in fields)


def _names(arrow_type: Any) -> list[str]:
    """Return the names of a struct's fields, none of which may come twice."""
    if not pa.types.is_struct(arrow_type):
        raise UnfitColumn
    names = [field.name for field in arrow_type]
    if len(set(names)) < len(names):
        raise UnfitColumn
    return names


def _group(arrow_type: Any, names_max: frozenset[str]) -> pa.DataType:
    names = _names(arrow_type)
    if not names or not names_max.issuperset(names):
        raise UnfitColumn
    columns: list[pa.Field[Any]] = []
    for field in arrow_type:
        if field.name == TYPED_VALUE:
            columns.append(pa.field(field.name, _typed(field.type)))
        elif field.type in BINARY_LAYOUTS:
            columns.append(pa.field(field.name, pa.binary()))
        else:
            raise UnfitColumn
    return pa.struct(columns)


BINARY_LAYOUTS: Final = (pa.binary(), pa.large_binary(), pa.binary_view())
TEXT_LAYOUTS: Final = (pa.string(), pa.large_string(), pa.string_view())
"""A file may note the layout that its writer had. The engine reads the first of each."""

FIELDS_MAX: Final = 10_000
"""Fields of a group, at any depth: each is one of the file's columns, or a group of them."""

PART: Final = frozenset({VALUE, TYPED_VALUE})
"""The fields of a member's or an element's group: at least one of them is there."""


def _typed(arrow_type: Any) -> pa.DataType:
    if pa.types.is_struct(arrow_type):
        _names(arrow_type)
        return pa.struct([pa.field(field.name, _group(field.type, PART)) for field in arrow_type])
    if pa.types.is_list(arrow_type):
        return pa.list_(pa.field("element", _group(arrow_type.value_type, PART)))
    is_extension = isinstance(arrow_type, pa.BaseExtensionType)
    stored: pa.DataType = arrow_type.storage_type if is_extension else arrow_type
    for layouts in (BINARY_LAYOUTS, TEXT_LAYOUTS):
        stored = layouts[0] if stored in layouts else stored
    _writer(stored)
    return stored


def encoded(arrow_type: pa.DataType) -> str:
    """Return the type of a group as the names of kernels contain it."""
    return zlib.compress(pa.schema([pa.field("v", arrow_type)]).serialize().to_pybytes()).hex()


def _decoded(text: str) -> pa.DataType:
    schema = pa.ipc.read_schema(pa.py_buffer(zlib.decompress(bytes.fromhex(text))))
    decoded: pa.DataType = schema.field(0).type
    return decoded


# From files


def read(form: str, zone: str, leaf: Leaf) -> Kernel:
    """A file's group as the canonical texts of VARIANTs. zone: the session's."""
    offset_texts = leaf("_offset_exact")

    def function(array: Any) -> Any:
        texts = _texts(_rows(array, variant_encoding.scalar_value), zone, offset_texts)
        checked = variant_kernels.check_lengths(kernelforms.array_of(texts, pa.string()))
        return checked.cast(pa.string_view())

    return _volatile(function, _decoded(form), pa.string_view())


def pack(form: str) -> Kernel:
    """A file's group as packed values, with the types that it has."""

    def function(array: Any) -> Any:
        if TYPED_VALUE in [field.name for field in array.type]:
            nodes = _rows(array, variant_encoding.scalar_bytes)
            return _packed(_encoded(node, bytes) for node in nodes)
        columns = _columns(array)
        rows = zip(
            *(columns[name].to_pylist() for name in (METADATA, VALUE)),
            array.is_valid().to_pylist(),
            strict=True,
        )
        return _packed(
            (_present(metadata), NULL if value is None else value) if is_valid else None
            for metadata, value, is_valid in rows
        )

    return _volatile(function, _decoded(form), pa.binary())


def _volatile(function: Callable[..., Any], argument: Any, result: Any) -> Kernel:
    # Volatile, so that the engine computes it once for each row, and not below a filter again.
    return Kernel(function=function, arguments=(argument,), result=result, volatility="volatile")


def _texts(rows: Iterable[Node], zone: str, offset_texts: Kernel) -> list[str | None]:
    """Return the canonical text of each row; None for NULL.

    A value takes many times its bytes while it is one, so that only those with instants are kept.
    """
    instants: dict[Instant, str] = {}
    noted = 0

    def string_of(part: Any) -> str | None:
        nonlocal noted
        if not isinstance(part, Instant):
            return None
        noted += 1
        return instants.setdefault(part, "")

    texts: list[str | None] = []
    waiting: dict[int, Node] = {}
    size = 0
    try:
        for row in rows:
            before = noted
            text = None if row is MISSING else variants.dumps_with(row, string_of)
            size = _with_length(size, 0 if text is None else len(text))
            texts.append(text)
            if noted > before:
                waiting[len(texts) - 1] = row
        if instants:  # all of them are known now; their texts are made at once
            instants.update(_instant_texts(list(instants), zone, offset_texts))
            for at, row in waiting.items():
                texts[at] = variants.dumps_with(row, string_of)
    except variants.BadJson as error:
        raise _damaged(str(error)) from None
    return texts


def _with_length(size: int, length: int) -> int:
    """Return the size of a batch's values with one more; raises what means too little memory."""
    if size + length > limits.REPEATED_BYTES_MAX:
        raise ValueError("Resources exhausted: variants of one batch")
    return size + length


def _instant_texts(
    instants: Sequence[Instant], zone: str, offset_texts: Kernel
) -> dict[Instant, str]:
    """Return instants as string values, as the session's zone shows them."""
    micros = [each.number // variant_encoding.UNITS[each.unit] for each in instants]
    offsets = offset_texts.function(pa.array(micros, pa.timestamp("us", zone))).to_pylist()
    shown: dict[Instant, str] = {}
    for each, offset in zip(instants, offsets, strict=True):
        units = variant_encoding.UNITS[each.unit]
        local = each.number + variant_encoding.offset_micros(offset) * units
        shown[each] = f"{variants.MARK}l{variant_encoding.local_text(local, each.unit)} {offset}"
    return shown


# Rows


def _rows(array: Any, scalar: variant_encoding.ReadScalar) -> Iterator[Node]:
    """Yield the value of each row of a group; MISSING for NULL."""
    columns = _columns(array)
    absent = array.is_null().to_pylist()
    null = scalar(NULL, 0, len(NULL))
    try:
        names = _names_of_rows(columns.pop(METADATA).to_pylist(), absent)
        for is_absent, node in zip(absent, _parts(columns, names, scalar), strict=True):
            yield MISSING if is_absent else null if node is MISSING else node
    except variant_encoding.BadVariant as error:
        raise _damaged(str(error)) from None
    except variant_encoding.UnreadVariant as error:
        raise kernelforms.refusal(str(error)) from None


def _names_of_rows(metadata: Sequence[bytes | None], absent: Sequence[bool]) -> list[Names]:
    """Return the names of each row; each dictionary is read once."""
    dictionaries: dict[bytes, Names] = {}
    names: list[Names] = []
    for data, is_absent in zip(metadata, absent, strict=True):
        if is_absent:
            names.append(())
            continue
        present = _present(data)
        if present not in dictionaries:
            dictionaries[present] = variant_encoding.read_names(present)
        names.append(dictionaries[present])
    return names


def _present(metadata: bytes | None) -> bytes:
    if metadata is None:
        raise _damaged("it has no metadata")
    return metadata


def _damaged(reason: str) -> ValueError:
    return coded("091364", f"A data file has a damaged variant: {reason}")


def _columns(array: Any) -> dict[str, Any]:
    """Return the columns of a group by name, NULL where the group is."""
    names = [field.name for field in array.type]
    return dict(zip(names, array.flatten(), strict=True))


def _parts(
    columns: Mapping[str, Any], names: Sequence[Names], scalar: variant_encoding.ReadScalar
) -> Iterator[Node]:
    """Yield what each row has in a group of a value, a typed value, or both; or MISSING.

    names: the dictionary of each row.
    """
    typed, values = columns.get(TYPED_VALUE), columns.get(VALUE)
    typed_nodes = itertools.repeat(MISSING) if typed is None else _typed_nodes(typed, names, scalar)
    listed = itertools.repeat(None) if values is None else values.to_pylist()
    for of_row, value, typed_node in zip(names, listed, typed_nodes, strict=False):
        if value is None:
            yield typed_node
            continue
        node = variant_encoding.parse(value, of_row, scalar)
        yield node if typed_node is MISSING else _joined(node, typed_node)


def _joined(node: Node, typed_node: Node) -> dict[str, Node]:
    """Return an object of which some members were shredded."""
    if not isinstance(node, dict) or not isinstance(typed_node, dict):
        raise variant_encoding.BadVariant("a value beside its typed value")
    if not node.keys().isdisjoint(typed_node):
        raise variant_encoding.BadVariant("a member beside its typed value")
    return {**node, **typed_node}


def _typed_nodes(
    typed: Any, names: Sequence[Names], scalar: variant_encoding.ReadScalar
) -> list[Node]:
    """Return what each row has in a typed value, or MISSING."""
    if pa.types.is_struct(typed.type):
        members = [
            (name, list(_parts(_columns(column), names, scalar)))
            for name, column in _columns(typed).items()
        ]
        _check_names(members)
        return [
            {name: nodes[row] for name, nodes in members if nodes[row] is not MISSING}
            if is_valid
            else MISSING
            for row, is_valid in enumerate(typed.is_valid().to_pylist())
        ]
    if pa.types.is_list(typed.type):
        lengths = pc.list_value_length(typed).to_pylist()
        of_elements = [
            each for each, length in zip(names, lengths, strict=True) for _ in range(length or 0)
        ]
        null = scalar(NULL, 0, len(NULL))
        elements = _parts(_columns(typed.flatten()), of_elements, scalar)
        return [
            MISSING
            if length is None
            else [null if each is MISSING else each for each in itertools.islice(elements, length)]
            for length in lengths
        ]
    write = _writer(typed.type)
    numbers = _as_numbers(typed)
    return [
        MISSING if value is None else _scalar_of(write(value), scalar)
        for value in numbers.to_pylist()
    ]


def _check_names(members: Sequence[tuple[str, Sequence[Node]]]) -> None:
    """Check that the names of all rows' members fit in memory: a file has each of them once."""
    size = 0
    for name, nodes in members:
        if len(name) > SHORT_NAME:
            present = sum(node is not MISSING for node in nodes)
            size = _with_length(size, len(name) * present)


SHORT_NAME: Final = 256
"""Names of so many characters cost too little beside their nodes to be counted."""


def _scalar_of(data: bytes, scalar: variant_encoding.ReadScalar) -> Any:
    return scalar(data, 0, len(data))


def _as_numbers(array: Any) -> Any:
    """Return dates and times as the numbers that a variant holds."""
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32())
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        return array.cast(pa.int64())
    return array


def _writer(arrow_type: Any) -> variant_encoding.WriteScalar:
    """Return what encodes values of a typed column; raises UnfitColumn for another type."""
    if pa.types.is_decimal128(arrow_type) and 0 <= arrow_type.scale <= arrow_type.precision:
        digits = (arrow_type.precision, arrow_type.scale)
        return lambda value: variant_encoding.decimal_bytes(value, *digits)
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit in variant_encoding.UNITS:
        unit, is_instant = arrow_type.unit, arrow_type.tz is not None
        return lambda value: variant_encoding.moment_bytes(value, unit, is_instant=is_instant)
    if arrow_type not in WRITERS:
        raise UnfitColumn
    return WRITERS[arrow_type]


def _fixed(number: int, form: str) -> variant_encoding.WriteScalar:
    return lambda value: variant_encoding.primitive(number, struct.pack(form, value))


WRITERS: Final[Mapping[pa.DataType, variant_encoding.WriteScalar]] = {
    pa.bool_(): variant_encoding.value_bytes,
    pa.int8(): _fixed(variant_encoding.INT8, "<b"),
    pa.int16(): _fixed(variant_encoding.INT16, "<h"),
    pa.int32(): _fixed(variant_encoding.INT32, "<i"),
    pa.int64(): _fixed(variant_encoding.INT64, "<q"),
    pa.float32(): _fixed(variant_encoding.FLOAT, "<f"),
    pa.float64(): _fixed(variant_encoding.DOUBLE, "<d"),
    pa.date32(): _fixed(variant_encoding.DATE, "<i"),
    pa.time64("us"): _fixed(variant_encoding.TIME, "<q"),
    pa.string(): variant_encoding.text_bytes,
    pa.binary(): variant_encoding.binary_bytes,
    pa.binary(16): lambda value: variant_encoding.primitive(variant_encoding.UUID, value),
}
"""How values of typed columns are encoded, but for decimals and timestamps."""


# Packed values


def packed(_: re.Match[str]) -> Kernel:
    """Canonical texts as packed values."""

    def function(texts: Any) -> Any:
        return _packed(
            None if text is None else _encoded(variant_kernels.read_value(text), None)
            for text in texts.to_pylist()
        )

    return _volatile(function, pa.string(), pa.binary())


def _encoded(node: Node, scalar: variant_encoding.WriteScalar | None) -> tuple[bytes, bytes] | None:
    """Return the metadata and the value of a node; scalar None: of a value of VARIANT."""
    if node is MISSING:
        return None
    try:
        return variant_encoding.encode(node, scalar or variant_encoding.value_bytes)
    except variant_encoding.BadVariant as error:
        raise variant_kernels.bad_json(str(error)) from None
    except variant_encoding.UnreadVariant as error:
        raise kernelforms.refusal(str(error)) from None


def _packed(pairs: Iterable[tuple[bytes, bytes] | None]) -> Any:
    """Return pairs of metadata and value as packed values."""
    values: list[bytes | None] = []
    size = 0
    for pair in pairs:
        if pair is None:
            values.append(None)
            continue
        metadata, value = pair
        values.append(b"".join((len(metadata).to_bytes(LENGTH_BYTES, "little"), metadata, value)))
        size = _with_length(size, len(metadata) + len(value))
    return pa.array(values, pa.binary())


def unpacked(array: Any) -> Any:
    """Return packed values as the group of a file."""
    metadata: list[bytes] = []
    values: list[bytes] = []
    for each in array.to_pylist():
        if each is None:
            metadata.append(variant_encoding.NO_NAMES)
            values.append(NULL)
            continue
        start = LENGTH_BYTES + int.from_bytes(each[:LENGTH_BYTES], "little")
        metadata.append(each[LENGTH_BYTES:start])
        values.append(each[start:])
    return pa.StructArray.from_arrays(
        [pa.array(metadata, pa.binary()), pa.array(values, pa.binary())],
        fields=list(STORED),
        mask=array.is_null(),
    )
