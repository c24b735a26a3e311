"""rule: reads Avro object container files by field id, and writes them.

A schema is compiled once into closures, which then run for each record. PyIceberg's compiled
decoder reads runs of integers in one call. It checks no bounds and rounds doubles to floats, so it
never reads a length, a text or a double: zeros after every block end a runaway integer, every
length is compared with the bytes that are left, and every record must end within its block. Only a
process that a bad file may crash (`isolated`) uses it for maps of bytes too. Values are returned as
stored; of the logical types only decimal is applied. Never opens a file. Source: Avro 1.12
specification; Iceberg spec, Appendix A.
"""

from __future__ import annotations

import array
import bz2
import dataclasses
import decimal
import itertools
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import zstandard
from pyiceberg.avro.decoder_fast import CythonBinaryDecoder

from catalog import values

Schema: TypeAlias = Any
Read: TypeAlias = Callable[[Any], Any]
Write: TypeAlias = Callable[[bytearray, Any], None]

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
SCHEMA_DEPTH_MAX = 50
SCHEMA_NODES_MAX = 10_000
"""Types in a schema, counted at every use: references can nest to exponential size."""
XZ_MEMORY_BYTES_MAX = 128 * 1024 * 1024
ZSTD_WINDOW_BYTES_MAX = 128 * 1024 * 1024

INTEGERS_AT_ONCE_MAX = 64 * 1024
PAIRS_ONE_BY_ONE_MAX = 50
"""Maps of up to so many integers are read by one call each: the array of many costs 5 us."""
_PADDING = bytes(INTEGERS_AT_ONCE_MAX + 16)
"""An integer that runs past its block ends here, and so do all later ones of the same call."""

WRITE_BLOCK_BYTES = 64 * 1024


class InvalidAvro(ValueError):
    """The bytes are not an Avro container file, or use a feature that is not supported."""


class AvroBeyondBounds(InvalidAvro):
    """The file is larger than its reader allows, once decompressed, or too unusual for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """Bounds of one file: bytes once decompressed, records, blocks, codecs.

    plain: every value of the schema takes at least one byte, so that the number of bytes bounds the
    cost of reading. A record may hold records without fields, as the partition of an unpartitioned
    table is, if at least as many of its other fields take bytes.
    """

    decoded_bytes_max: int
    records_max: int
    blocks_max: int
    codecs: frozenset[str]
    plain: bool


CODECS = frozenset({"null", "deflate", "zstandard", "snappy", "bzip2", "xz"})
INLINE = Bounds(
    decoded_bytes_max=64 * 1024,
    records_max=500,
    blocks_max=32,
    codecs=frozenset({"null", "deflate", "zstandard"}),
    plain=True,
)
"""Decoded in some milliseconds, and in thirty at most, for any content."""
INLINE_SNAPPY = dataclasses.replace(INLINE, codecs=INLINE.codecs | {"snappy"})
"""The same where pyarrow is imported: its import takes a fifth of a second."""

ISOLATED = Bounds(
    decoded_bytes_max=128 * 1024 * 1024,
    records_max=200_000,
    blocks_max=100_000,
    codecs=CODECS,
    plain=False,
)
"""For a decoding process with its own bounds of memory and time."""


class Block:
    """Bytes to read, with the decoder. Reads past `size` are detected record by record."""

    __slots__ = (
        "data",
        "items",
        "read",
        "read_int",
        "read_int_bytes_dict",
        "read_ints",
        "size",
        "skip",
        "tell",
    )

    def __init__(self, data: bytes) -> None:
        decoder: Any = CythonBinaryDecoder(data + _PADDING)
        self.data = data
        self.size = len(data)
        self.items = 0
        self.read = decoder.read
        self.read_int = decoder.read_int
        self.read_int_bytes_dict = decoder.read_int_bytes_dict
        self.read_ints = decoder.read_ints
        self.skip = decoder.skip
        self.tell = decoder.tell

    def take(self, length: int) -> bytes:
        """Return the next bytes. Raises InvalidAvro if there are fewer."""
        left = self.size - self.tell()
        if not 0 <= length <= left:
            raise InvalidAvro(f"{length} bytes are needed of {left}")
        taken: bytes = self.read(length)
        return taken

    def check(self) -> None:
        if self.tell() > self.size:
            raise InvalidAvro("a record runs past the end of its block")


class Container:
    """An Avro file's header. metadata: its key-value pairs, `avro.*` included."""

    __slots__ = ("_blocks_at", "_data", "_sync", "metadata", "schema")

    def __init__(self, data: bytes) -> None:
        if not data.startswith(MAGIC):
            raise InvalidAvro("not an Avro container file")
        header = Block(data[len(MAGIC) :])
        try:
            self.metadata: Mapping[str, bytes] = _read_map(_read_bytes)(header)
            self._sync = header.take(SYNC_BYTES)
            self.schema: Schema = msgspec.json.decode(self.metadata["avro.schema"])
        except (
            EOFError,
            KeyError,
            UnicodeDecodeError,
            RecursionError,
            msgspec.MsgspecError,
        ) as error:
            raise InvalidAvro(f"broken Avro header: {error}") from error
        self._data = data
        self._blocks_at = len(MAGIC) + header.tell()

    def text(self, name: str) -> str | None:
        """Return a metadata value as text."""
        value = self.metadata.get(name)
        return None if value is None else value.decode(errors="replace")

    def records(self, read: Read, bounds: Bounds) -> Iterator[Any]:
        """Yield the result of read for each record. Raises InvalidAvro, AvroBeyondBounds."""
        codec = self.text("avro.codec") or "null"
        if codec not in CODECS:
            raise InvalidAvro(f"unknown Avro codec {codec[:100]}")
        if codec not in bounds.codecs:
            raise AvroBeyondBounds(f"Avro files compressed with {codec} are not read here")
        start = self._blocks_at
        records_left, bytes_left = bounds.records_max, bounds.decoded_bytes_max
        blocks_left = bounds.blocks_max
        try:
            while start < len(self._data):
                count, size, start = self._block_head(start)
                packed = self._data[start : start + size]
                start += size
                if self._data[start : start + SYNC_BYTES] != self._sync:
                    raise InvalidAvro("an Avro block does not end where it should")
                start += SYNC_BYTES
                records_left -= count
                blocks_left -= 1
                if records_left < 0 or blocks_left < 0:
                    raise AvroBeyondBounds(
                        f"more than {bounds.records_max} records or {bounds.blocks_max} blocks"
                    )
                block = Block(decompress(codec, packed, bytes_left))
                bytes_left -= block.size
                if count > block.size:
                    raise InvalidAvro(f"{count} records are claimed of {block.size} bytes")
                for _ in range(count):
                    record = read(block)
                    block.check()
                    yield record
        except (
            EOFError,
            ValueError,
            TypeError,
            LookupError,
            ArithmeticError,
            MemoryError,
            SystemError,
        ) as error:
            if isinstance(error, InvalidAvro):
                raise
            raise InvalidAvro(f"broken Avro block: {error!r}") from error

    def _block_head(self, start: int) -> tuple[int, int, int]:
        head = Block(self._data[start : start + 20])
        count, size = head.read_int(), head.read_int()
        head.check()
        if count < 0 or not 0 <= size <= len(self._data) - start:
            raise InvalidAvro("an Avro block claims to be larger than its file")
        return count, size, start + head.tell()


# --- reading ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Adapter:
    """Makes the value of a record. ids: field ids by name, for schemas without ids."""

    make: Callable[[Mapping[int, Any]], Any]
    ids: Mapping[str, int]


def compile_reader(
    schema: Schema,
    adapt: Mapping[str, Adapter],
    *,
    isolated: bool = False,
    plain: bool = False,
) -> Read:
    """Return the function that reads one value of this schema from a decoder.

    adapt: by a record's position (`""` is the root, `data_file` a field of it), the adapter of its
    values by field id; fields without an id are left out. Other records become tuples.
    isolated: a broken file may crash this process. plain: as in Bounds. Raises InvalidAvro,
    AvroBeyondBounds.
    """
    plan = _Plan(adapt=adapt, isolated=isolated, plain=plain, nodes=itertools.count(1))
    try:
        return _reader(schema, plan, path="", names={}, depth=0)
    except (LookupError, TypeError, AttributeError) as error:
        raise InvalidAvro(f"broken Avro schema: {error!r}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    adapt: Mapping[str, Adapter]
    isolated: bool
    plain: bool
    nodes: Iterator[int]


def _reader(
    schema: Schema,
    plan: _Plan,
    *,
    path: str,
    names: dict[str, Schema],
    depth: int,
    may_be_empty: bool = False,
) -> Read:
    """Return the function that reads a value. may_be_empty: bytes beside it bound its cost."""
    if depth > SCHEMA_DEPTH_MAX:
        raise InvalidAvro("the Avro schema nests too deeply, or in itself")
    if next(plan.nodes) > SCHEMA_NODES_MAX:
        raise InvalidAvro(f"the Avro schema has more than {SCHEMA_NODES_MAX} types")
    if isinstance(schema, list):
        branches = [
            _read_null
            if one == "null"
            else _reader(one, plan, path=path, names=names, depth=depth + 1)
            for one in schema
        ]
        return _read_union(branches, schema)
    avro_type = schema if isinstance(schema, str) else schema.get("type")
    if plan.plain and not may_be_empty and _may_be_empty(schema, avro_type):
        raise AvroBeyondBounds("the Avro schema has values of no bytes")
    if isinstance(avro_type, dict | list):
        return _reader(avro_type, plan, path=path, names=names, depth=depth + 1)
    if isinstance(schema, dict) and "name" in schema and avro_type in ("record", "fixed"):
        names[schema["name"]] = schema
    if avro_type in _SIMPLE:
        if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
            return _read_decimal(_SIMPLE[avro_type], schema)
        return _SIMPLE[avro_type]
    if avro_type == "fixed":
        return _read_fixed(schema)
    if avro_type == "record":
        return _read_record(schema, plan, path=path, names=names, depth=depth)
    if avro_type == "array":
        return _read_array(schema["items"], plan, path=path, names=names, depth=depth)
    if avro_type == "map":
        return _read_map(_reader(schema["values"], plan, path=path, names=names, depth=depth + 1))
    if avro_type in names:
        return _reader(names[avro_type], plan, path=path, names=names, depth=depth + 1)
    raise InvalidAvro(f"cannot read Avro type {avro_type}")


def _may_be_empty(schema: Schema, avro_type: Any) -> bool:
    """Return whether a value of this type may have no bytes."""
    if avro_type == "record":
        return not schema["fields"]
    return avro_type == "null" or (avro_type == "fixed" and not schema["size"] >= 1)


def _is_empty_record(schema: Schema) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record" and not schema["fields"]


def _read_null(block: Block) -> None:
    return None


def _read_int(block: Block) -> Any:
    return block.read_int()


def _read_bytes(block: Block) -> bytes:
    return block.take(block.read_int())


def _read_text(block: Block) -> str:
    return block.take(block.read_int()).decode()


def _read_boolean(block: Block) -> bool:
    return block.take(1) != b"\x00"


def _read_float(block: Block) -> float:
    return float(_FLOAT.unpack(block.take(4))[0])


def _read_double(block: Block) -> float:
    return float(_DOUBLE.unpack(block.take(8))[0])


_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_SIMPLE: Mapping[str, Read] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": _read_int,
    "long": _read_int,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_text,
}


def _read_union(branches: Sequence[Read], schema: Sequence[Schema]) -> Read:
    if len(branches) == 2 and schema[0] == "null":
        other = branches[1]

        def read_optional(block: Block) -> Any:
            return other(block) if block.read_int() else None

        return read_optional

    def read_union(block: Block) -> Any:
        branch = block.read_int()
        if not 0 <= branch < len(branches):
            raise InvalidAvro("an Avro union names a branch it does not have")
        return branches[branch](block)

    return read_union


def _read_fixed(schema: Mapping[str, Any]) -> Read:
    size = schema["size"]

    def read_fixed(block: Block) -> bytes:
        return block.take(size)

    if schema.get("logicalType") == "decimal":
        return _read_decimal(read_fixed, schema)
    return read_fixed


def _read_decimal(read: Read, schema: Mapping[str, Any]) -> Read:
    scale = schema.get("scale", 0)

    def read_decimal(block: Block) -> decimal.Decimal:
        return values.decimal_from(int.from_bytes(read(block), "big", signed=True), scale)

    return read_decimal


def _read_record(
    schema: Mapping[str, Any],
    plan: _Plan,
    *,
    path: str,
    names: dict[str, Schema],
    depth: int,
) -> Read:
    readers = []
    empty_count = sum(_is_empty_record(field["type"]) for field in schema["fields"])
    if plan.plain and 2 * empty_count > len(schema["fields"]):
        raise AvroBeyondBounds("the Avro schema has records of few bytes")
    for field in schema["fields"]:
        inner = f"{path}.{field['name']}" if path else field["name"]
        readers.append(
            _reader(
                field["type"],
                plan,
                path=inner,
                names=names,
                depth=depth + 1,
                may_be_empty=_is_empty_record(field["type"]),
            )
        )
    adapter = plan.adapt.get(path)
    if adapter is None:

        def read_tuple(block: Block) -> tuple[Any, ...]:
            return tuple([read(block) for read in readers])

        return read_tuple
    make = adapter.make
    fields = schema["fields"]
    ids = [field.get("field-id", adapter.ids.get(field["name"], -1)) for field in fields]
    steps = list(zip(ids, readers, strict=True))

    def read_adapted(block: Block) -> Any:
        return make({field_id: read(block) for field_id, read in steps})

    return read_adapted


def _read_array(
    items: Schema, plan: _Plan, *, path: str, names: dict[str, Schema], depth: int
) -> Read:
    pair = _pair_of(items)
    if pair in (("int", "long"), ("int", "int")):
        return _read_int_map
    if pair == ("int", "bytes"):
        return _read_bytes_map_unchecked if plan.isolated else _read_bytes_map
    read_item = _reader(items, plan, path=path, names=names, depth=depth + 1)

    def read_array(block: Block) -> list[Any]:
        items_read: list[Any] = []
        while count := _count(block):
            items_read.extend([read_item(block) for _ in range(count)])
        return items_read

    return read_array


def _pair_of(items: Schema) -> tuple[Any, Any] | None:
    """Return the pair of an array of key-value records: Avro's form of a map without text keys."""
    if not isinstance(items, dict) or items.get("type") != "record":
        return None
    fields = items["fields"]
    if [field["name"] for field in fields] != ["key", "value"]:
        return None
    key, value = _primitive(fields[0]["type"]), _primitive(fields[1]["type"])
    return None if key is None or value is None else (key, value)


def _primitive(schema: Schema) -> str | None:
    """Return the name of a primitive type, which DuckDB writes as an object; None for others."""
    if isinstance(schema, dict) and "logicalType" not in schema:
        schema = schema.get("type", "")
    return schema if isinstance(schema, str) and schema in _SIMPLE else None


def _count(block: Block) -> int:
    """Return the number of next items in an array or map; 0 at its end."""
    count: int = block.read_int()
    if count == 0:
        return 0
    if count < 0:
        count = -count
        block.read_int()  # the block's size, for readers that skip it
    block.items += count
    if count > block.size - block.tell() or block.items > block.size:
        raise InvalidAvro(f"{count} items are claimed of {block.size - block.tell()} bytes")
    return count


def _read_int_map(block: Block) -> dict[int, int]:
    entries: dict[int, int] = {}
    while count := _count(block):
        if count <= PAIRS_ONE_BY_ONE_MAX:
            read_int = block.read_int
            for _ in range(count):
                key = read_int()
                entries[key] = read_int()
            block.check()
            continue
        for start in range(0, count * 2, INTEGERS_AT_ONCE_MAX):
            size = min(count * 2 - start, INTEGERS_AT_ONCE_MAX)
            numbers = array.array("q", block.read_ints(size).tobytes())
            if block.tell() > block.size:
                raise InvalidAvro("a map runs past the end of its block")
            entries.update(zip(numbers[::2], numbers[1::2], strict=True))
    return entries


def _read_bytes_map(block: Block) -> dict[int, bytes]:
    """Keys and lengths are nearly always one or two bytes: reading them in place is cheap."""
    entries: dict[int, bytes] = {}
    data = block.data
    while count := _count(block):
        start = at = block.tell()
        for _ in range(count):
            key, length = data[at], data[at + 1]
            if key < 0x80 and length < 0x80:
                at += 2
                key, length = key >> 1, length >> 1
            else:
                key, at = _integer_at(data, at)
                length, at = _integer_at(data, at)
            end = at + length
            if length < 0 or end > len(data):
                raise InvalidAvro("a bound is longer than its block")
            entries[key] = data[at:end]
            at = end
        block.skip(at - start)
    return entries


def _read_bytes_map_unchecked(block: Block) -> dict[int, bytes]:
    """Five times as fast. Values read from beyond the block are discarded."""
    entries: dict[int, bytes] = {}
    while count := _count(block):
        block.read_int_bytes_dict(count, entries)
        block.check()
    return entries


def _integer_at(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise InvalidAvro("an integer has more than ten bytes")


def _read_map(read_value: Read) -> Read:
    def read_map(block: Block) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        while count := _count(block):
            for _ in range(count):
                key = _read_text(block)
                entries[key] = read_value(block)
        return entries

    return read_map


def decompress(codec: str, block: bytes, bytes_max: int) -> bytes:
    """Return a block's bytes. Raises AvroBeyondBounds before they are more than bytes_max."""
    try:
        if codec == "null":
            data = block
        elif codec == "deflate":
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(block, bytes_max + 1)
        elif codec == "zstandard":
            decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
            with decompressor.stream_reader(block) as reader:
                data = reader.read(bytes_max + 1)
        elif codec == "snappy":
            data = _unsnap(block, bytes_max)
        elif codec == "bzip2":
            data = bz2.BZ2Decompressor().decompress(block, bytes_max + 1)
        else:
            data = lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES_MAX).decompress(
                block, bytes_max + 1
            )
    except (
        zlib.error,
        zstandard.ZstdError,
        lzma.LZMAError,
        OSError,
        EOFError,
    ) as error:
        raise InvalidAvro(f"broken {codec} block: {error}") from error
    if len(data) > bytes_max:
        raise AvroBeyondBounds("an Avro file is too large once decompressed")
    return data


def _unsnap(block: bytes, bytes_max: int) -> bytes:
    """Decompress snappy's raw format; Avro adds a CRC32 of the result, big-endian."""
    body, checksum = block[:-4], block[-4:]
    size = _unsnap_length(body)
    if size > bytes_max:
        raise AvroBeyondBounds("an Avro file is too large once decompressed")
    try:
        # Late: it costs a quarter of a server's start, and few writers choose snappy.
        import pyarrow
    except ImportError as error:  # as where the bound of memory is too low for its libraries
        raise InvalidAvro(f"snappy blocks cannot be read here: {error}") from error
    try:
        data: bytes = pyarrow.decompress(body, size, codec="snappy", asbytes=True)
    except pyarrow.ArrowException as error:
        raise InvalidAvro(f"broken snappy block: {error}") from error
    if zlib.crc32(data).to_bytes(4, "big") != checksum:
        raise InvalidAvro("broken snappy block: its checksum differs")
    return data


def _unsnap_length(body: bytes) -> int:
    size = shift = 0
    for byte in body[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return size
    raise InvalidAvro("broken snappy block: no length")


# --- writing ------------------------------------------------------------------------------------


def encode_file(
    schema: Schema, records: Sequence[Any], metadata: Mapping[str, str], *, sync: bytes
) -> bytes:
    """Return a deflated container file of these records.

    records: nested like the schema: mappings by field name, sequences, plain values.
    metadata: added to the header. sync: 16 bytes that do not occur by chance.
    Raises InvalidAvro for a value that does not have its type.
    """
    assert len(sync) == SYNC_BYTES
    write = compile_writer(schema)
    header = {"avro.schema": msgspec.json.encode(schema).decode(), "avro.codec": "deflate"}
    buffer = bytearray(MAGIC)
    _write_text_map(buffer, {**header, **metadata})
    buffer += sync
    block = bytearray()
    count = 0
    try:
        for record in records:
            write(block, record)
            count += 1
            if len(block) >= WRITE_BLOCK_BYTES:
                _write_block(buffer, block, count, sync)
                block, count = bytearray(), 0
    except (KeyError, TypeError, AttributeError, struct.error, UnicodeEncodeError) as error:
        raise InvalidAvro(f"cannot write a record: {error!r}") from error
    if count:
        _write_block(buffer, block, count, sync)
    return bytes(buffer)


def _write_block(buffer: bytearray, block: bytearray, count: int, sync: bytes) -> None:
    packer = zlib.compressobj(level=6, wbits=-zlib.MAX_WBITS)
    packed = packer.compress(block) + packer.flush()
    write_int(buffer, count)
    write_int(buffer, len(packed))
    buffer += packed
    buffer += sync


def compile_writer(schema: Schema) -> Write:
    """Return the function that appends one value of this schema to a buffer."""
    if isinstance(schema, list):
        assert schema[0] == "null", "unions are written only for optional values"
        assert len(schema) == 2, "unions are written only for optional values"
        return _write_optional(compile_writer(schema[1]))
    avro_type = schema if isinstance(schema, str) else schema["type"]
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
        return _write_decimal(schema)
    if avro_type in _SIMPLE_WRITERS:
        return _SIMPLE_WRITERS[avro_type]
    if avro_type == "fixed":
        return _write_fixed(schema["size"])
    if avro_type == "record":
        return _write_record(schema)
    assert avro_type == "array", f"cannot write Avro type {avro_type}"
    pair = _pair_of(schema["items"])
    if pair is not None:
        return _write_int_keyed(_SIMPLE_WRITERS[pair[1]])
    return _write_array(compile_writer(schema["items"]))


def write_int(buffer: bytearray, number: int) -> None:
    """Append an int or long: zig-zag, seven bits per byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    while rest > 0x7F:
        buffer.append(rest & 0x7F | 0x80)
        rest >>= 7
    buffer.append(rest)


def _write_bytes(buffer: bytearray, data: bytes) -> None:
    write_int(buffer, len(data))
    buffer += data


def _write_text(buffer: bytearray, text: str) -> None:
    _write_bytes(buffer, text.encode())


def _write_boolean(buffer: bytearray, value: bool) -> None:
    buffer.append(1 if value else 0)


def _write_float(buffer: bytearray, value: float) -> None:
    buffer += struct.pack("<f", value)


def _write_double(buffer: bytearray, value: float) -> None:
    buffer += struct.pack("<d", value)


_SIMPLE_WRITERS: Mapping[str, Write] = {
    "boolean": _write_boolean,
    "int": write_int,
    "long": write_int,
    "float": _write_float,
    "double": _write_double,
    "bytes": _write_bytes,
    "string": _write_text,
}


def _write_optional(write: Write) -> Write:
    def write_optional(buffer: bytearray, value: Any) -> None:
        if value is None:
            buffer.append(0)
        else:
            buffer.append(2)
            write(buffer, value)

    return write_optional


def _write_fixed(size: int) -> Write:
    def write_fixed(buffer: bytearray, value: bytes) -> None:
        if len(value) != size:
            raise InvalidAvro(f"{len(value)} bytes where {size} belong")
        buffer += value

    return write_fixed


def _write_decimal(schema: Mapping[str, Any]) -> Write:
    scale, size = schema["scale"], schema["size"]

    def write_decimal(buffer: bytearray, value: Any) -> None:
        buffer += values.unscaled(value, scale).to_bytes(size, "big", signed=True)

    return write_decimal


def _write_record(schema: Mapping[str, Any]) -> Write:
    steps = [(field["name"], compile_writer(field["type"])) for field in schema["fields"]]

    def write_record(buffer: bytearray, record: Mapping[str, Any]) -> None:
        for name, write in steps:
            write(buffer, record[name])

    return write_record


def _write_array(write: Write) -> Write:
    def write_array(buffer: bytearray, items: Sequence[Any]) -> None:
        if items:
            write_int(buffer, len(items))
            for item in items:
                write(buffer, item)
        buffer.append(0)

    return write_array


def _write_int_keyed(write: Write) -> Write:
    def write_int_keyed(buffer: bytearray, entries: Mapping[int, Any]) -> None:
        if entries:
            write_int(buffer, len(entries))
            for key, value in entries.items():
                write_int(buffer, key)
                write(buffer, value)
        buffer.append(0)

    return write_int_keyed


def _write_text_map(buffer: bytearray, entries: Mapping[str, str]) -> None:
    if entries:
        write_int(buffer, len(entries))
        for key, value in entries.items():
            _write_text(buffer, key)
            _write_text(buffer, value)
    buffer.append(0)
