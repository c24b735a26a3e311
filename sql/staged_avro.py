"""engine: Avro files of stages, as JSON documents.

A file is read block by block, so memory holds one of them. A schema is refused if the file's bytes
do not bound its values: types that contain themselves nest as deep as a file says, and a list of
values without bytes is as long as it says. Of logical types, those that
`fastavro` knows become dates, times, timestamps, decimals and UUIDs. Source: Avro 1.12
specification.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, TypeAlias

import fastavro

from catalog import avro
from sql import staged_documents
from sql.staged_columns import DecodedColumn

Schema: TypeAlias = Any

HEADER_BYTES_MAX: Final = 16 << 20
BLOCK_BYTES_MAX: Final = 256 << 20
"""Of one block, once decompressed."""
PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)


class BadAvro(Exception):
    """The file is no Avro file, or broken from here on."""


def documents(source: BinaryIO) -> Iterator[str]:
    """Yield the JSON text of each record of a file. Raises BadAvro."""
    container = _Container(source)
    schema = container.schema
    for count, data in container.blocks():
        block = io.BytesIO(data)
        for _ in range(count):
            try:
                record = fastavro.schemaless_reader(block, schema, None)
                text = staged_documents.dumps(record)
            except MemoryError:
                raise
            except Exception as error:  # a damaged record fails in many ways
                raise BadAvro(f"a record cannot be read: {type(error).__name__}") from error
            yield text
        if block.tell() != len(data):
            raise BadAvro("a block does not end where it should")


def columns(source: BinaryIO) -> list[DecodedColumn]:
    """Return the members of a file's records, with their types. Raises BadAvro."""
    schema = _Container(source).schema
    if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
        return []
    named = schema.get("__named_schemas", {})
    return [_column(each["name"], each["type"], named) for each in schema["fields"]]


class _Container:
    """An Avro file: its schema, and the blocks of its records."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        if self._exactly(len(avro.MAGIC)) != avro.MAGIC:
            raise BadAvro("it is no Avro file")
        metadata = self._metadata()
        self._codec = metadata.get("avro.codec", b"null").decode(errors="replace")
        self._sync = self._exactly(avro.SYNC_BYTES)
        if self._codec not in avro.CODECS:
            raise BadAvro(f"unknown codec {self._codec[:100]}")
        try:
            written = json.loads(metadata["avro.schema"])
            _check(written)
            self.schema: Schema = fastavro.parse_schema(written)
        except (BadAvro, MemoryError):
            raise
        except Exception as error:  # a damaged schema fails in many ways
            raise BadAvro(f"its schema cannot be read: {type(error).__name__}") from error

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of records of each block, and its bytes."""
        while (first := self._source.read(1)) != b"":
            count, size = self._long(first), self._long()
            if count < 0 or not 0 <= size <= BLOCK_BYTES_MAX:
                raise BadAvro("a block has an impossible length")
            packed = self._exactly(size)
            if self._exactly(avro.SYNC_BYTES) != self._sync:
                raise BadAvro("a block does not end where it should")
            try:
                data = avro.decompress(self._codec, packed, BLOCK_BYTES_MAX)
            except avro.InvalidAvro as error:
                raise BadAvro(str(error)[:200]) from error
            if count > len(data):
                raise BadAvro("a block has more records than bytes")
            yield count, data

    def _metadata(self) -> dict[str, bytes]:
        metadata: dict[str, bytes] = {}
        left = HEADER_BYTES_MAX
        while (count := self._long()) != 0:
            if count < 0:
                count = -count
                self._long()  # the size of this part
            for _ in range(count):
                name, value = (self._exactly(self._length(left)) for _ in range(2))
                left -= len(name) + len(value) + 2
                metadata[name.decode(errors="replace")] = value
        return metadata

    def _length(self, most: int) -> int:
        length = self._long()
        if not 0 <= length <= most:
            raise BadAvro("its header is too long or damaged")
        return length

    def _long(self, first: bytes = b"") -> int:
        value = shift = 0
        while shift < 70:
            byte = (first or self._exactly(1))[0]
            first = b""
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise BadAvro("a number is too long")

    def _exactly(self, size: int) -> bytes:
        data = self._source.read(size)
        if len(data) != size:
            raise BadAvro("it ends too early")
        return data


@dataclass(frozen=True, kw_only=True, slots=True)
class _Extent:
    """How much one value of a type can hold.

    height: levels. nodes: types, counted at every use, as references can nest to exponential size.
    is_empty: a value takes no bytes.
    """

    height: int = 1
    nodes: int = 1
    is_empty: bool = False


def _check(schema: Schema) -> None:
    """Raise BadAvro for a schema whose values a file's bytes do not bound.

    Its types nest too deeply, in themselves or to too many values, or a list holds values without
    bytes, whose number is all that the file has of them.
    """
    extents: dict[str, _Extent] = {}
    depth = 0

    def extent_of(node: Schema, namespace: str) -> _Extent:
        nonlocal depth
        depth += 1
        if depth > avro.SCHEMA_DEPTH_MAX:
            raise BadAvro("its schema is too large")
        extent = uncounted(node, namespace)
        depth -= 1
        if extent.height > avro.SCHEMA_DEPTH_MAX or extent.nodes > avro.SCHEMA_NODES_MAX:
            raise BadAvro("its schema nests too deeply, or is too large")
        return extent

    def uncounted(node: Schema, namespace: str) -> _Extent:
        if isinstance(node, list):
            return _around([extent_of(each, namespace) for each in node], is_empty=False)
        if isinstance(node, str):
            if node in PRIMITIVES:
                return _Extent(is_empty=node == "null")
            extent = extents.get(_full_name(node, namespace), extents.get(node))
            if extent is None:
                raise BadAvro("its schema has a type that contains itself, or is not defined")
            return extent
        inner = node.get("type")
        if inner in ("record", "error", "enum", "fixed"):
            name = _full_name(str(node["name"]), str(node.get("namespace", namespace)))
            within = name.rpartition(".")[0]
            members = [extent_of(each["type"], within) for each in node.get("fields", ())]
            is_empty = all(member.is_empty for member in members)
            if inner in ("enum", "fixed"):
                is_empty = inner == "fixed" and not node.get("size")
            extents[name] = _around(members, is_empty=is_empty)
            return extents[name]
        part = {"array": "items", "map": "values"}.get(inner if isinstance(inner, str) else "")
        member = extent_of(node[part] if part else inner, namespace)
        if part == "items" and member.is_empty:
            raise BadAvro("its schema has a list of values without bytes")
        return _around([member], is_empty=not part and member.is_empty)

    extent_of(schema, "")


def _around(members: Sequence[_Extent], *, is_empty: bool) -> _Extent:
    """Return the extent of a type with members."""
    return _Extent(
        height=1 + max((member.height for member in members), default=0),
        nodes=1 + sum(member.nodes for member in members),
        is_empty=is_empty,
    )


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _column(name: str, schema: Schema, named: Mapping[str, Schema]) -> DecodedColumn:
    branches = schema if isinstance(schema, list) else [schema]
    types = {_type_of(each, named) for each in branches if each != "null"}
    type_name = types.pop() if len(types) == 1 else "document" if types else "string"
    is_document = type_name == "document"
    return DecodedColumn(
        name=name,
        type="string" if is_document else type_name,
        is_document=is_document,
        nullable="null" in branches,
    )


def _type_of(schema: Schema, named: Mapping[str, Schema]) -> str:
    """Return the Iceberg type of a value, "document" for one with members."""
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    described: Mapping[str, Any] = schema if isinstance(schema, dict) else {"type": schema}
    type_name = described.get("type")
    logical = str(described.get("logicalType", ""))
    precision, scale = described.get("precision"), described.get("scale", 0)
    if (
        logical == "decimal"
        and isinstance(precision, int)
        and isinstance(scale, int)
        and 0 <= scale <= precision <= 38
        and precision
    ):
        return f"decimal({precision},{scale})"
    moment = LOGICAL.get(logical)
    if moment is not None:
        return moment
    return PLAIN.get(type_name, "document") if isinstance(type_name, str) else "document"


LOGICAL: Final[Mapping[str, str]] = {
    "date": "date",
    "time-millis": "time",
    "time-micros": "time",
    "timestamp-millis": "timestamptz",
    "timestamp-micros": "timestamptz",
    "local-timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp",
    "uuid": "string",
}
PLAIN: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int": "long",
    "long": "long",
    "float": "double",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
}
