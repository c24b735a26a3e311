"""rule: notes and finds the logical type VARIANT in a Parquet footer, which PyArrow leaves out.

A footer is one struct of Thrift's compact protocol. The bytes of its schema's elements get one more
field each; all others stay as they are. Reads nothing but the schema, and no values.
Source: Parquet format, parquet.thrift (FileMetaData, SchemaElement, LogicalType); Thrift compact
protocol, Struct encoding.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
"""The types of the compact protocol, and what ends a struct."""

SCHEMA: Final = 2
"""The id of FileMetaData's field `schema`, a list of the elements in the order of the tree."""

NAME, CHILDREN, LOGICAL_TYPE = 4, 5, 10
"""The ids of a SchemaElement's fields `name`, `num_children` and `logicalType`."""

VARIANT_ID: Final = 16
"""The id of LogicalType's field `VARIANT`."""

VARIANT: Final = bytes([STRUCT, 0x20, 0x10 | BYTE, 1, STOP, STOP])
"""A LogicalType: its field 16 (two bytes, for it is more than 15 above none), a VariantType whose
field 1, `specification_version`, is 1."""

DEPTH_MAX: Final = 64


class BadFooter(ValueError):
    """Bytes are no footer, or one whose columns have a logical type already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Element:
    """An element of a schema. stop: where its last byte stands. last_id: of its last field.

    logical_type: the id of its logical type among those of Parquet, 0 for none.
    """

    name: bytes
    children: int
    stop: int
    last_id: int
    logical_type: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantColumn:
    """A column of the logical type VARIANT. is_whole: else a part of the column is of it."""

    name: str
    is_whole: bool


def annotated(footer: bytes, names: Collection[str]) -> bytes:
    """Return a footer whose columns of these names, at the top, are of the logical type VARIANT.

    Raises BadFooter.
    """
    columns = {name.encode() for name in names}
    parts, start = [], 0
    for element in _columns(footer):
        if element.name not in columns:
            continue
        columns.remove(element.name)
        if not 0 < element.last_id < LOGICAL_TYPE:
            raise BadFooter("a column that has a logical type, or fields in another order")
        parts.append(footer[start : element.stop])
        parts.append(bytes([(LOGICAL_TYPE - element.last_id) << 4 | STRUCT]) + VARIANT)
        start = element.stop
    if columns:
        raise BadFooter("columns that the footer does not have")
    return b"".join((*parts, footer[start:]))


def variants(footer: bytes) -> list[VariantColumn]:
    """Return the columns at the top that are of the logical type VARIANT, or have it inside.

    Raises BadFooter.
    """
    listed = []
    for column, *inner in _trees(footer):
        is_whole = column.logical_type == VARIANT_ID
        if is_whole or any(part.logical_type == VARIANT_ID for part in inner):
            name = column.name.decode("utf-8", "replace")
            listed.append(VariantColumn(name=name, is_whole=is_whole))
    return listed


def _columns(footer: bytes) -> list[_Element]:
    """Return the elements of the columns at the top of the schema."""
    return [tree[0] for tree in _trees(footer)]


def _trees(footer: bytes) -> list[list[_Element]]:
    """Return the elements of each column at the top of the schema, its own element first."""
    reader = _Reader(footer)
    try:
        elements = reader.schema()
    except IndexError:
        raise BadFooter("it ends early") from None
    columns = []
    at = 1  # the first element is the schema itself
    for _ in range(elements[0].children if elements else 0):
        if at >= len(elements):
            raise BadFooter("its schema ends early")
        start, left = at, 1
        while left and at < len(elements):
            left += elements[at].children - 1
            at += 1
        columns.append(elements[start:at])
    return columns


class _Reader:
    """Reads a struct from its first byte on. Mutable: it moves along the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def schema(self) -> list[_Element]:
        """Return the elements of a FileMetaData's schema."""
        field_id = 0
        while True:
            field_id, field_type = self._field(field_id)
            if field_type == STOP:
                raise BadFooter("it has no schema")
            if field_id == SCHEMA:
                break
            self._skip(field_type, 0)
        if field_type != LIST:
            raise BadFooter("its schema is no list")
        count, item_type = self._list_head()
        if item_type != STRUCT:
            raise BadFooter("its schema is no list of elements")
        return [self._element() for _ in range(count)]

    def _element(self) -> _Element:
        name, children, field_id, last_id, logical_type = b"", 0, 0, 0, 0
        while True:
            field_id, field_type = self._field(field_id)
            if field_type == STOP:
                return _Element(
                    name=name,
                    children=children,
                    stop=self._at - 1,
                    last_id=last_id,
                    logical_type=logical_type,
                )
            last_id = field_id
            if field_id == NAME and field_type == BINARY:
                length = self._number()
                name = self._data[self._at : self._at + length]
                self._move(length)
            elif field_id == CHILDREN and field_type == I32:
                children = self._signed()
                if children < 0:
                    raise BadFooter("an element of fewer than no children")
            elif field_id == LOGICAL_TYPE and field_type == STRUCT:
                logical_type = self._union()
            else:
                self._skip(field_type, 0)

    def _union(self) -> int:
        """Move behind a union; return the id of its one field, 0 for none."""
        first = field_id = 0
        while True:
            field_id, field_type = self._field(field_id)
            if field_type == STOP:
                return first
            first = first or field_id
            self._skip(field_type, 0)

    def _field(self, before: int) -> tuple[int, int]:
        """Return the id and the type of the next field. before: the id of the one before."""
        head = self._byte()
        field_type, delta = head & 0x0F, head >> 4
        if field_type == STOP:
            return before, STOP
        return (before + delta if delta else self._signed()), field_type

    def _skip(self, field_type: int, depth: int) -> None:
        """Move behind a value of a field."""
        if depth > DEPTH_MAX:
            raise BadFooter("it is nested too deeply")
        match field_type:
            case 1 | 2:  # TRUE and FALSE: the type says it
                return
            case 3:
                self._move(1)
            case 4 | 5 | 6:
                self._number()
            case 7:
                self._move(8)
            case 8:
                self._move(self._number())
            case 9 | 10:
                count, item_type = self._list_head()
                self._skip_items(count, (item_type,), depth)
            case 11:
                count = self._number()
                types = self._byte() if count else 0
                self._skip_items(count, (types >> 4, types & 0x0F), depth)
            case 12:
                field_id = 0
                while True:
                    field_id, inner_type = self._field(field_id)
                    if inner_type == STOP:
                        return
                    self._skip(inner_type, depth + 1)
            case _:
                raise BadFooter(f"a field of type {field_type}")

    def _skip_items(self, count: int, item_types: tuple[int, ...], depth: int) -> None:
        for _ in range(count):
            for item_type in item_types:
                # In a list a truth value takes a byte.
                self._skip(BYTE if item_type in (TRUE, FALSE) else item_type, depth + 1)

    def _list_head(self) -> tuple[int, int]:
        """Return how many items a list has, and their type."""
        head = self._byte()
        count = head >> 4
        return (self._number() if count == 15 else count), head & 0x0F

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _number(self) -> int:
        """Return an unsigned number, seven bits a byte."""
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 63:
                raise BadFooter("a number of more than 64 bits")

    def _signed(self) -> int:
        number = self._number()
        return number >> 1 ^ -(number & 1)

    def _move(self, length: int) -> None:
        if length > len(self._data) - self._at:
            raise BadFooter("it ends early")
        self._at += length
