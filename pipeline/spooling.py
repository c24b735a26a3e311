"""engine: writes a topic's records into a file that a load reads, without the unreadable ones.

The file has the format of the values: a line of JSON or CSV for each record, an Avro file, or, for
raw records, Parquet. What is loaded beside the values stands in front of them: columns that the
user names, and for a merge the order of the records and whether a record removes its key. So both
engines read records by the rules for files. Never changes a value: of JSON only the line ends
between tokens, which mean nothing.
"""

from __future__ import annotations

import array
import bisect
import csv
import datetime
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from pipeline import errors, inspection, jobs, records, settings, sources, splitting

BATCH_ROWS = 10_000
BATCH_BYTES = 64 << 20
"""How much of raw records is in memory at once: 64 MiB, and one record more."""


class KafkaRecord(NamedTuple):
    """A record of a topic. timestamp_ms: Unix milliseconds, None where it has none."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: Sequence[tuple[str, bytes | None]]


class _Unreadable(Exception):
    """Why a record cannot be loaded."""


def check(source: settings.KafkaSource) -> None:
    """Raise BadArgument for a schema of Avro that cannot be used."""
    if source.format == "avro":
        _avro_schema(source)


class Spool:
    """A file of records. Mutable: it grows, and remembers where each line comes from.

    place: what the record of loads names the topic. rejects: whether an unreadable record is
    kept in `rejected`; otherwise it raises BadSource.
    """

    def __init__(self, load: jobs.Load, path: Path, place: str) -> None:
        source = load.relation
        assert isinstance(source, settings.KafkaSource)
        self.path = path
        self.rejected: list[sources.RejectedRow] = []
        self.count = 0
        self._topic = source.topic
        self._place = place
        self._rejects = load.on_error == "reject"
        self._writer = _WRITERS[source.format](load, source, path)
        self._partitions = array.array("i")
        self._offsets = array.array("q")
        self._lines = array.array("q")

    def add(self, record: KafkaRecord) -> None:
        """Write a record. Raises BadSource for one that cannot be loaded."""
        line = self._writer.line
        try:
            self._writer.add(record, self.count)
        except _Unreadable as reason:
            if not self._rejects:
                raise errors.BadSource(
                    f"{self._topic}: partition {record.partition}, offset {record.offset} "
                    f"{reason}; nothing was loaded"
                ) from reason
            raw = "" if record.value is None else record.value.decode(errors="backslashreplace")
            self.reject(record.partition, record.offset, str(reason), raw)
            return
        self._partitions.append(record.partition)
        self._offsets.append(record.offset)
        self._lines.append(line)
        self.count += 1

    def reject(self, partition: int, offset: int, reason: str, raw: str) -> None:
        """Keep a record that is not loaded. Raises BadSource if there are too many."""
        if len(self.rejected) >= splitting.REJECTED_MAX:
            raise errors.BadSource(
                f"more than {splitting.REJECTED_MAX:,} records of {self._topic} cannot be read; "
                "an option may be missing"
            )
        row = sources.RejectedRow(
            source=f"{self._place}/{partition}", line=offset, reason=reason,
            raw=raw[: splitting.RAW_CHARACTERS_MAX],
        )  # fmt: skip
        self.rejected.append(row)

    def close(self) -> sources.Source:
        """End the file; return it."""
        self._writer.close()
        size_bytes = self.path.stat().st_size
        return sources.Source(place=f"file://{self.path}", etag="", size_bytes=size_bytes)

    def origin(self, line: int) -> tuple[int, int]:
        """Return the partition and the offset of what stands in a line of the file."""
        position = max(bisect.bisect_right(self._lines, line) - 1, 0)
        return self._partitions[position], self._offsets[position]

    def check_avro(self) -> None:
        """Raise BadSource for the first value of an Avro file that is not one of its schema."""
        # Imported here: other formats need it not.
        import fastavro

        with self.path.open("rb") as stream:
            blocks: Any = fastavro.block_reader(stream)  # its types lack `bytes_`
            for number, block in enumerate(blocks):
                try:
                    is_whole = bool(list(block)) and not block.bytes_.read(1)
                # fastavro raises whatever it meets in bytes that are no value.
                except Exception:  # noqa: BLE001 - each means that the value is another one's
                    is_whole = False
                if not is_whole:
                    raise errors.BadSource(
                        f"{self._topic}: partition {self._partitions[number]}, offset "
                        f"{self._offsets[number]} is not a value of the schema; nothing was loaded"
                    )


class _Writer(Protocol):
    """Writes one format. line: of the file's next record, from 1."""

    line: int

    def __init__(self, load: jobs.Load, source: settings.KafkaSource, path: Path) -> None: ...

    def add(self, record: KafkaRecord, number: int) -> None: ...

    def close(self) -> None: ...


def _columns(
    load: jobs.Load, source: settings.KafkaSource
) -> list[tuple[str, str, Callable[[KafkaRecord, int], Any]]]:
    """Return (name, Iceberg type, value) of the columns beside a value, for text and Avro."""
    values: Mapping[str, Callable[[KafkaRecord, int], Any]] = {
        "key": lambda record, _: _text_of_key(record),
        "topic": lambda *_: source.topic,
        "partition": lambda record, _: record.partition,
        "offset": lambda record, _: record.offset,
        "timestamp": lambda record, _: record.timestamp_ms,
    }
    columns = [
        (records.PREFIX + name, records.TYPES[name], values[name]) for name in source.columns
    ]
    if load.merge is not None and load.merge.delete_flag == records.DELETED:
        columns.append(
            (
                records.DELETED,
                records.TYPES[records.DELETED],
                lambda record, _: record.value is None,
            )
        )
    if load.merge is not None and load.merge.order_by == records.ORDER:
        columns.append((records.ORDER, records.TYPES[records.ORDER], lambda _, number: number))
    return columns


def _text_of_key(record: KafkaRecord) -> str | None:
    if record.key is None:
        return None
    try:
        return record.key.decode()
    except UnicodeDecodeError:
        raise _Unreadable("has a key that is not UTF-8") from None


def _as_text(value: Any, column_type: str) -> Any:
    """Return a column's value as text formats write it."""
    if column_type == "timestamptz" and value is not None:
        moment = datetime.datetime.fromtimestamp(value // 1000, datetime.UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{value % 1000:03d}Z"
    return value


def _text_of_value(record: KafkaRecord) -> str:
    if record.value is None:
        raise _Unreadable("has no value")
    try:
        text = record.value.decode()
    except UnicodeDecodeError:
        raise _Unreadable("is not UTF-8") from None
    if not text.strip():
        raise _Unreadable("is empty")
    if "\0" in text:
        raise _Unreadable("has a zero byte")
    return text


class _JsonWriter:
    """A line for each record: its value, with the other columns as its first fields."""

    def __init__(self, load: jobs.Load, source: settings.KafkaSource, path: Path) -> None:
        self.line = 1
        self._stream = path.open("w", encoding="utf-8", newline="")
        self._columns = _columns(load, source)
        self._own = {name.lower() for name, _, _ in self._columns}
        key = () if load.merge is None else load.merge.key
        self._key = [name for name in key if name.lower() not in self._own]
        self._removes = load.merge is not None and load.merge.delete_flag == records.DELETED
        # With such options a value is JSON in Spark's sense alone.
        self._checks = load.reader.for_spark_alone is None

    def add(self, record: KafkaRecord, number: int) -> None:
        if record.value is None and self._removes:
            text = json.dumps(_key_fields(record, self._key))
        else:
            text = _text_of_value(record).strip()
        if not text.startswith("{"):
            raise _Unreadable("is not JSON: it is not an object")
        if self._checks or self._own:
            for name in _names_in_json(text, self._own, is_strict=self._checks):
                if name.lower() in self._own:
                    raise _Unreadable(f"has a field {name!r}, a column that the load writes itself")
        if "\n" in text or "\r" in text:
            text = text.replace("\r", " ").replace("\n", " ")
        if self._columns:
            fields = {
                name: _as_text(value(record, number), column_type)
                for name, column_type, value in self._columns
            }
            rest = text[1:].lstrip()
            text = json.dumps(fields)[:-1] + ("" if rest.startswith("}") else ", ") + rest
        self._stream.write(text + "\n")
        self.line += 1

    def close(self) -> None:
        self._stream.close()


# Numbers stay text: Python itself converts those of up to 4,300 digits alone.
_JSON = json.JSONDecoder(parse_int=str, parse_float=str)


def _names_in_json(text: str, own: Iterable[str], *, is_strict: bool) -> Iterable[str]:
    """Return the names of an object's fields. Raises _Unreadable for text that is not JSON.

    is_strict: otherwise the text may be JSON in Spark's sense alone; then its names are those of
    `own` that stand anywhere in it.
    """
    try:
        fields: Iterable[str] = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        if is_strict:
            reason = getattr(error, "msg", None) or error
            raise _Unreadable(f"is not JSON: {reason}") from None
        plain = _ESCAPE.sub(_unescaped, text).lower()
        return [name for name in own if name in plain]
    return fields


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


def _unescaped(match: re.Match[str]) -> str:
    code, character = match.groups()
    return character if code is None else chr(int(code, 16))


def _key_fields(record: KafkaRecord, key: Sequence[str]) -> Mapping[str, Any]:
    """Return the columns that a record without a value names by its key.

    key: those of the merge's key that are not columns beside the value.
    """
    text = _text_of_key(record)
    if text is None:
        raise _Unreadable("has neither a key nor a value")
    if not key:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, dict):
        own = {name.lower(): each for name, each in value.items()}
        if all(name.lower() in own for name in key):
            return {name: own[name.lower()] for name in key}
    elif len(key) == 1 and not isinstance(value, list) and value is not None:
        return {key[0]: value}
    raise _Unreadable(f"has no value, and a key that does not say {', '.join(key)}")


class _CsvWriter:
    """A header, and the text of each value behind the other columns."""

    def __init__(self, load: jobs.Load, source: settings.KafkaSource, path: Path) -> None:
        self._reader = load.reader
        self._columns = _columns(load, source)
        own = {name for name, _, _ in self._columns}
        self._names = [name for name in load.types if name not in own]
        self._stream = path.open("w", encoding="utf-8", newline="")
        csv.field_size_limit(inspection.FIELD_CHARACTERS_MAX)
        self._stream.write(self._row([*(name for name, _, _ in self._columns), *self._names]))
        self._stream.write("\n")
        self.line = 2

    def add(self, record: KafkaRecord, number: int) -> None:
        text = re.sub(r"(?:\r\n|\n|\r)\Z", "", _text_of_value(record))
        dialect = inspection.dialect(self._reader, strict=True)
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), **dialect))
        except csv.Error as error:
            raise _Unreadable(f"is not CSV: {error}") from None
        if len(rows) != 1:
            raise _Unreadable(f"has {len(rows)} lines of CSV")
        if len(rows[0]) != len(self._names):
            raise _Unreadable(f"has {len(rows[0])} columns, the schema has {len(self._names)}")
        own = [
            _as_text(value(record, number), column_type) for _, column_type, value in self._columns
        ]
        if own:
            text = self._row(own) + self._reader.separator + text
        self._stream.write(text + "\n")
        self.line += text.count("\n") + 1

    def _row(self, values: Sequence[Any]) -> str:
        row = io.StringIO()
        writer = csv.writer(
            row, delimiter=self._reader.separator, quotechar=self._reader.quote,
            lineterminator="",
        )  # fmt: skip
        writer.writerow([str(one).lower() if isinstance(one, bool) else one for one in values])
        return row.getvalue()

    def close(self) -> None:
        self._stream.close()


class _AvroWriter:
    """An Avro file, a block for each record, so that a reader checks where each value ends.

    The columns beside a value are the first fields of its record: Avro writes fields one after the
    other. Avro Specification 1.12, "Object Container Files".
    """

    line = 0

    def __init__(self, load: jobs.Load, source: settings.KafkaSource, path: Path) -> None:
        self._columns = _columns(load, source)
        schema = _avro_schema(source)
        own = [
            {"name": name, "type": ["null", _AVRO_TYPES[column_type]]}
            for name, column_type, _ in self._columns
        ]
        for field in schema["fields"]:
            if field["name"].lower() in {name.lower() for name, _, _ in self._columns}:
                raise errors.BadArgument(
                    f"--avro-schema has a field {field['name']!r}, a column that the load writes "
                    "itself"
                )
        schema["fields"] = [*own, *schema["fields"]]
        text = json.dumps(schema).encode()
        self._sync = os.urandom(16)
        self._stream = path.open("wb")
        self._stream.write(
            b"Obj\x01" + _avro_long(1) + _avro_bytes(b"avro.schema") + _avro_bytes(text)
            + _avro_long(0) + self._sync
        )  # fmt: skip

    def add(self, record: KafkaRecord, number: int) -> None:
        if record.value is None:
            raise _Unreadable("has no value")
        own = b"".join(_avro_optional(value(record, number)) for _, _, value in self._columns)
        body = own + record.value
        self._stream.write(_avro_long(1) + _avro_long(len(body)) + body + self._sync)

    def close(self) -> None:
        self._stream.close()


_AVRO_TYPES: Final[Mapping[str, Any]] = {
    "string": "string", "int": "int", "long": "long", "boolean": "boolean",
    "timestamptz": {"type": "long", "logicalType": "timestamp-millis"},
}  # fmt: skip


def _avro_schema(source: settings.KafkaSource) -> dict[str, Any]:
    """Return the schema of a topic's values, a record. Raises BadArgument."""
    # Imported here: other formats need it not.
    import fastavro
    from fastavro.schema import SchemaParseException

    try:
        schema: Any = json.loads(Path(source.avro_schema_file or "").expanduser().read_text())
        fastavro.parse_schema(schema)
    except OSError as error:
        raise errors.BadArgument(
            f"the schema of Avro cannot be read: {source.avro_schema_file}"
        ) from error
    except (ValueError, TypeError, KeyError, RecursionError, SchemaParseException) as error:
        raise errors.BadArgument(f"--avro-schema is not a schema of Avro: {error}") from error
    is_record = isinstance(schema, dict) and schema.get("type") == "record"
    if not is_record or not isinstance(schema.get("fields"), list):
        raise errors.BadArgument("--avro-schema must be the schema of a record")
    return dict(schema)


def _avro_long(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    text = bytearray()
    while rest > 0x7F:
        text.append(rest & 0x7F | 0x80)
        rest >>= 7
    text.append(rest)
    return bytes(text)


def _avro_bytes(text: bytes) -> bytes:
    return _avro_long(len(text)) + text


def _avro_optional(value: Any) -> bytes:
    """Return a value of a union of null and its type."""
    if value is None:
        return _avro_long(0)
    if isinstance(value, bool):
        return _avro_long(1) + bytes([value])
    if isinstance(value, str):
        return _avro_long(1) + _avro_bytes(value.encode())
    return _avro_long(1) + _avro_long(value)


class _RawWriter:
    """A Parquet file with the parts of records as columns."""

    line = 0

    def __init__(self, load: jobs.Load, source: settings.KafkaSource, path: Path) -> None:
        # Imported here: other formats need it not.
        import pyarrow as pa
        from pyarrow import parquet

        header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        parts: Mapping[str, tuple[Any, Callable[[KafkaRecord, int], Any]]] = {
            "key": (pa.binary(), lambda record, _: record.key),
            "value": (pa.binary(), lambda record, _: record.value),
            "topic": (pa.string(), lambda *_: source.topic),
            "partition": (pa.int32(), lambda record, _: record.partition),
            "offset": (pa.int64(), lambda record, _: record.offset),
            "timestamp": (pa.timestamp("ms", tz="UTC"), lambda record, _: record.timestamp_ms),
            "headers": (
                pa.list_(header),
                lambda record, _: [{"key": key, "value": one} for key, one in record.headers],
            ),
        }
        self._columns: list[tuple[str, Any, Callable[[KafkaRecord, int], Any]]] = [
            (name, *parts[name]) for name in source.columns or settings.RECORD_COLUMNS
        ]
        if load.merge is not None:
            arrow_types = {"boolean": pa.bool_(), "long": pa.int64()}
            self._columns += [
                (name, arrow_types[column_type], value)
                for name, column_type, value in _columns(load, source)
                if name in {records.DELETED, records.ORDER}
            ]
        self._schema = pa.schema([pa.field(name, one) for name, one, _ in self._columns])
        self._writer = parquet.ParquetWriter(str(path), self._schema, compression="zstd")
        self._rows: list[tuple[Any, ...]] = []
        self._size_bytes = 0

    def add(self, record: KafkaRecord, number: int) -> None:
        self._rows.append(tuple(value(record, number) for _, _, value in self._columns))
        self._size_bytes += _size_bytes(record)
        if len(self._rows) >= BATCH_ROWS or self._size_bytes >= BATCH_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        # Imported here: other formats need it not.
        import pyarrow as pa

        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [
                pa.array(values, field.type)
                for values, field in zip(columns, self._schema, strict=True)
            ]
            self._writer.write_table(pa.table(arrays, schema=self._schema))
            self._rows.clear()
            self._size_bytes = 0


def _size_bytes(record: KafkaRecord) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


_WRITERS: Final[Mapping[str, type[_Writer]]] = {
    "json": _JsonWriter, "csv": _CsvWriter, "avro": _AvroWriter, "raw": _RawWriter,
}  # fmt: skip
