"""rule: Avro object container files, read by field id and written plainly.

A schema is compiled once into a chain of closures, which then run per record. Integers are read by
the compiled decoder at hand, PyIceberg's, a run of them in one call. That decoder checks no bounds
and rounds doubles to floats, so it never gets to read a length, a text or a double: every block is
followed by zeros that end a runaway integer, every length is held against what is left, and every
record must end within its block. Only a process that may die of a bad file (`isolated`) lets it
read maps of bytes too. Values come out as stored: no logical type is applied but decimal. Never
opens a file. Source: Avro 1.12 specification; Iceberg spec, Appendix A.
"""

from __future__ import annotations

import array
import bz2
import decimal
import itertools
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pyarrow
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
"""Types in a schema, counted where they are named too: names nest to any power of two."""
XZ_MEMORY_BYTES_MAX = 128 * 1024 * 1024
ZSTD_WINDOW_BYTES_MAX = 128 * 1024 * 1024

INTEGERS_AT_ONCE_MAX = 64 * 1024
_PADDING = bytes(INTEGERS_AT_ONCE_MAX + 16)
"""An integer that runs past its block ends here, and so do all that follow it in one call."""

WRITE_BLOCK_BYTES = 64 * 1024


class InvalidAvro(ValueError):
    """The bytes are no Avro container file, or one this catalog cannot read."""


class BeyondBounds(InvalidAvro):
    """The file is larger than its reader allows, once decompressed, or unusual for its reader."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What a reader takes of one file: bytes once decompressed, records, blocks, codecs.

    plain: every value of the schema takes at least one byte, so that the cost of reading is bounded
    by the bytes.
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
    codecs=frozenset({"null", "deflate", "zstandard", "snappy"}),
    plain=True,
)
"""What is decoded in some milliseconds, and in thirty at most, whatever it holds."""

ISOLATED = Bounds(
    decoded_bytes_max=128 * 1024 * 1024,
    records_max=200_000,
    blocks_max=100_000,
    codecs=CODECS,
    plain=False,
)
"""What a process of its own decodes, within its own bounds of memory and time."""


class Block:
    """Bytes being read, and the decoder's ways in. Reading past size is caught record by record."""

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
        """Return the next bytes, all of which must be there."""
        left = self.size - self.tell()
        if not 0 <= length <= left:
            raise InvalidAvro(f"{length} bytes are asked of {left}")
        taken: bytes = self.read(length)
        return taken

    def check(self) -> None:
        if self.tell() > self.size:
            raise InvalidAvro("a record runs past the end of its block")


class Container:
    """An Avro file's header. metadata: its own key-value pairs, `avro.*` included."""

    __slots__ = ("_blocks_at", "_data", "_sync", "metadata", "schema")

    def __init__(self, data: bytes) -> None:
        if not data.startswith(MAGIC):
            raise InvalidAvro("not an Avro container file")
        header = Block(data[len(MAGIC) :])
        try:
            self.metadata: Mapping[str, bytes] = _read_map(_read_bytes)(header)
            self._sync = header.take(SYNC_BYTES)
            self.schema: Schema = msgspec.json.decode(self.metadata["avro.schema"])
        except (EOFError, KeyError, UnicodeDecodeError, msgspec.MsgspecError) as error:
            raise InvalidAvro(f"broken Avro header: {error}") from error
        self._data = data
        self._blocks_at = len(MAGIC) + header.tell()

    def text(self, name: str) -> str | None:
        """Return a metadata value as text."""
        value = self.metadata.get(name)
        return None if value is None else value.decode(errors="replace")

    def records(self, read: Read, bounds: Bounds) -> Iterator[Any]:
        """Yield what read makes of each record. Raises InvalidAvro, BeyondBounds."""
        codec = self.text("avro.codec") or "null"
        if codec not in CODECS:
            raise InvalidAvro(f"unknown Avro codec {codec[:100]}")
        if codec not in bounds.codecs:
            raise BeyondBounds(f"Avro files compressed with {codec} are not read here")
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
                    raise BeyondBounds(
                        f"more than {bounds.records_max} records or {bounds.blocks_max} blocks"
                    )
                block = Block(_decompress(codec, packed, bytes_left))
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
    """What is made of a record. ids: field ids by name, for writers that give none."""

    make: Callable[[Mapping[int, Any]], Any]
    ids: Mapping[str, int]


def compile_reader(
    schema: Schema,
    adapt: Mapping[str, Adapter],
    *,
    isolated: bool = False,
    plain: bool = False,
) -> Read:
    """Return the function that reads one value of this schema off a decoder.

    adapt: by where a record stands (`""` is the root, `data_file` a field of it) what is made of
    its values by field id; fields without an id are left out. Other records become tuples.
    isolated: a broken file may end this process. plain: as in Bounds. Raises InvalidAvro,
    BeyondBounds.
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
    schema: Schema, plan: _Plan, *, path: str, names: dict[str, Schema], depth: int
) -> Read:
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
    kind = schema if isinstance(schema, str) else schema.get("type")
    if plan.plain and _may_be_empty(schema, kind):
        raise BeyondBounds("the Avro schema has values of no bytes")
    if isinstance(kind, dict | list):
        return _reader(kind, plan, path=path, names=names, depth=depth + 1)
    if isinstance(schema, dict) and "name" in schema and kind in ("record", "fixed"):
        names[schema["name"]] = schema
    if kind in _SIMPLE:
        if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
            return _read_decimal(_SIMPLE[kind], schema)
        return _SIMPLE[kind]
    if kind == "fixed":
        return _read_fixed(schema)
    if kind == "record":
        return _read_record(schema, plan, path=path, names=names, depth=depth)
    if kind == "array":
        return _read_array(schema["items"], plan, path=path, names=names, depth=depth)
    if kind == "map":
        return _read_map(_reader(schema["values"], plan, path=path, names=names, depth=depth + 1))
    if kind in names:
        return _reader(names[kind], plan, path=path, names=names, depth=depth + 1)
    raise InvalidAvro(f"cannot read Avro type {kind}")


def _may_be_empty(schema: Schema, kind: Any) -> bool:
    """Say whether a value of this type may take no byte at all."""
    if kind == "record":
        return not schema["fields"]
    return kind == "null" or (kind == "fixed" and not schema["size"] >= 1)


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
    for field in schema["fields"]:
        inner = f"{path}.{field['name']}" if path else field["name"]
        readers.append(_reader(field["type"], plan, path=inner, names=names, depth=depth + 1))
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
        found: list[Any] = []
        while count := _count(block):
            found.extend([read_item(block) for _ in range(count)])
        return found

    return read_array


def _pair_of(items: Schema) -> tuple[Any, Any] | None:
    """An array of key-value records is a map whose keys are no text."""
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
    """Return how many items come next in an array or map; 0 at its end."""
    count: int = block.read_int()
    if count < 0:
        count = -count
        block.read_int()  # the block's size, for those who skip it
    block.items += count
    if count > block.size - block.tell() or block.items > block.size:
        raise InvalidAvro(f"{count} items are claimed of {block.size - block.tell()} bytes")
    return count


def _read_int_map(block: Block) -> dict[int, int]:
    found: dict[int, int] = {}
    while count := _count(block):
        for start in range(0, count * 2, INTEGERS_AT_ONCE_MAX):
            size = min(count * 2 - start, INTEGERS_AT_ONCE_MAX)
            numbers = array.array("q", block.read_ints(size).tobytes())
            if block.tell() > block.size:
                raise InvalidAvro("a map runs past the end of its block")
            found.update(zip(numbers[::2], numbers[1::2], strict=True))
    return found


def _read_bytes_map(block: Block) -> dict[int, bytes]:
    """Keys and lengths are nearly always of one byte or two: read in place, they cost little."""
    found: dict[int, bytes] = {}
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
            found[key] = data[at:end]
            at = end
        block.skip(at - start)
    return found


def _read_bytes_map_unchecked(block: Block) -> dict[int, bytes]:
    """Five times as fast. What was read from beyond the block, if anything, is thrown away."""
    found: dict[int, bytes] = {}
    while count := _count(block):
        block.read_int_bytes_dict(count, found)
        block.check()
    return found


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
        found: dict[str, Any] = {}
        while count := _count(block):
            for _ in range(count):
                key = _read_text(block)
                found[key] = read_value(block)
        return found

    return read_map


def _decompress(codec: str, block: bytes, bytes_max: int) -> bytes:
    """Return a block's bytes. Raises BeyondBounds before more than bytes_max are made of it."""
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
        pyarrow.ArrowException,
        OSError,
        EOFError,
    ) as error:
        raise InvalidAvro(f"broken {codec} block: {error}") from error
    if len(data) > bytes_max:
        raise BeyondBounds("an Avro file is too large once decompressed")
    return data


def _unsnap(block: bytes, bytes_max: int) -> bytes:
    """Snappy's raw format; Avro adds a CRC32 of the result, big-endian."""
    body, checksum = block[:-4], block[-4:]
    size = _unsnap_length(body)
    if size > bytes_max:
        raise BeyondBounds("an Avro file is too large once decompressed")
    data: bytes = pyarrow.decompress(body, size, codec="snappy", asbytes=True)
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
    """Return a container file of these records, deflated.

    records: as the schema nests them: mappings by field name, sequences, plain values.
    metadata: added to the header. sync: 16 bytes that do not occur by chance.
    Raises InvalidAvro for a value that is none of its type.
    """
    assert len(sync) == SYNC_BYTES
    write = compile_writer(schema)
    header = {"avro.schema": msgspec.json.encode(schema).decode(), "avro.codec": "deflate"}
    made = bytearray(MAGIC)
    _write_text_map(made, {**header, **metadata})
    made += sync
    block = bytearray()
    count = 0
    try:
        for record in records:
            write(block, record)
            count += 1
            if len(block) >= WRITE_BLOCK_BYTES:
                _write_block(made, block, count, sync)
                block, count = bytearray(), 0
    except (KeyError, TypeError, AttributeError, struct.error, UnicodeEncodeError) as error:
        raise InvalidAvro(f"cannot write a record: {error!r}") from error
    if count:
        _write_block(made, block, count, sync)
    return bytes(made)


def _write_block(made: bytearray, block: bytearray, count: int, sync: bytes) -> None:
    packer = zlib.compressobj(level=6, wbits=-zlib.MAX_WBITS)
    packed = packer.compress(block) + packer.flush()
    write_int(made, count)
    write_int(made, len(packed))
    made += packed
    made += sync


def compile_writer(schema: Schema) -> Write:
    """Return the function that appends one value of this schema to a buffer."""
    if isinstance(schema, list):
        assert schema[0] == "null", "unions are written for optional values alone"
        assert len(schema) == 2, "unions are written for optional values alone"
        return _write_optional(compile_writer(schema[1]))
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
        return _write_decimal(schema)
    if kind in _SIMPLE_WRITERS:
        return _SIMPLE_WRITERS[kind]
    if kind == "fixed":
        return _write_fixed(schema["size"])
    if kind == "record":
        return _write_record(schema)
    assert kind == "array", f"cannot write Avro type {kind}"
    pair = _pair_of(schema["items"])
    if pair is not None:
        return _write_int_keyed(_SIMPLE_WRITERS[pair[1]])
    return _write_array(compile_writer(schema["items"]))


def write_int(made: bytearray, number: int) -> None:
    """Append an int or long: zig-zag, seven bits a byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    made.append(rest)


def _write_bytes(made: bytearray, data: bytes) -> None:
    write_int(made, len(data))
    made += data


def _write_text(made: bytearray, text: str) -> None:
    _write_bytes(made, text.encode())


def _write_boolean(made: bytearray, value: bool) -> None:
    made.append(1 if value else 0)


def _write_float(made: bytearray, value: float) -> None:
    made += struct.pack("<f", value)


def _write_double(made: bytearray, value: float) -> None:
    made += struct.pack("<d", value)


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
    def write_optional(made: bytearray, value: Any) -> None:
        if value is None:
            made.append(0)
        else:
            made.append(2)
            write(made, value)

    return write_optional


def _write_fixed(size: int) -> Write:
    def write_fixed(made: bytearray, value: bytes) -> None:
        if len(value) != size:
            raise InvalidAvro(f"{len(value)} bytes where {size} belong")
        made += value

    return write_fixed


def _write_decimal(schema: Mapping[str, Any]) -> Write:
    scale, size = schema["scale"], schema["size"]

    def write_decimal(made: bytearray, value: Any) -> None:
        made += values.unscaled(value, scale).to_bytes(size, "big", signed=True)

    return write_decimal


def _write_record(schema: Mapping[str, Any]) -> Write:
    steps = [(field["name"], compile_writer(field["type"])) for field in schema["fields"]]

    def write_record(made: bytearray, record: Mapping[str, Any]) -> None:
        for name, write in steps:
            write(made, record[name])

    return write_record


def _write_array(write: Write) -> Write:
    def write_array(made: bytearray, items: Sequence[Any]) -> None:
        if items:
            write_int(made, len(items))
            for item in items:
                write(made, item)
        made.append(0)

    return write_array


def _write_int_keyed(write: Write) -> Write:
    def write_int_keyed(made: bytearray, entries: Mapping[int, Any]) -> None:
        if entries:
            write_int(made, len(entries))
            for key, value in entries.items():
                write_int(made, key)
                write(made, value)
        made.append(0)

    return write_int_keyed


def _write_text_map(made: bytearray, entries: Mapping[str, str]) -> None:
    if entries:
        write_int(made, len(entries))
        for key, value in entries.items():
            _write_text(made, key)
            _write_text(made, value)
    made.append(0)
