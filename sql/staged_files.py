"""engine: decodes files of stages, in a child process, into Parquet files that the engine reads.

Each staged file becomes one Parquet file. Its columns are `$1`, `$2` ... for delimited text, `$1`
for documents of JSON and Avro, and `$1:<name>` for the columns of Parquet and ORC; all have the
file's name and the row's number beside them. Text is read in blocks, so memory does not grow with
a file. A record that cannot be read is left out and reported, with its line.

Files are client data: a damaged one is a fault of that file, and a file that expands without end is
refused by its ratio.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import dataclasses
import datetime
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet as pq

from sql import (
    delimited,
    engine,
    fileformats,
    staged_columns,
    staged_documents,
    staged_variants,
    variants,
)
from sql.staged_columns import (
    CANONICAL,
    EXTRA,
    FILE,
    KEY,
    LINE,
    MODIFIED,
    NUMBER,
    ROW,
    STARTED,
    DecodedColumn,
    DecodingReport,
    FileFault,
    FileReport,
)

BLOCK_BYTES: Final = 1 << 20
BATCH_ROWS: Final = 16_384
BATCH_CHARACTERS: Final = 16 << 20
BATCH_CELLS: Final = 1 << 20
RATIO_FROM_BYTES: Final = 1 << 30
RATIO_MAX: Final = 200
"""From so many bytes on, a file may not expand to more than so many times its size."""
COLUMNS_MAX: Final = 10_000
SAMPLED_ROWS: Final = 10_000

NULLS: Final = "null"
"""The type of a column of one file that has NULLs alone."""

REPORT: Final = pa.schema([("report", pa.binary())])


class BrokenFile(Exception):
    """A file cannot be read any further. code: Snowflake's number."""

    def __init__(self, message: str, code: str = "100064") -> None:
        super().__init__(message)
        self.code = code


def decode(order: engine.StagedRead) -> pa.RecordBatch:
    """Decode every file of an order; return the encoded DecodingReport as one row."""
    file_format = fileformats.FileFormat(
        type=order.format_type,
        options={
            name: tuple(value) if isinstance(value, list) else value
            for name, value in order.options.items()
        },
    )
    report = _READERS[order.format_type](order, file_format)
    packed = msgspec.msgpack.encode(report)
    return pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], schema=REPORT)


# Parquet files for the engine


class _Output:
    """The Parquet file of one staged file."""

    def __init__(
        self, order: engine.StagedRead, number: int, columns: Sequence[DecodedColumn]
    ) -> None:
        self._order = order
        self._number = number
        self._rows = 0
        self.schema = _stored_schema(columns)
        self._width = len(columns)
        path = Path(order.directory) / engine.file_name(number)
        self._writer = pq.ParquetWriter(str(path), self.schema, compression="zstd")

    def write(self, arrays: Sequence[Any], rows: Any, lines: Any) -> None:
        """Write rows. rows: their numbers in the file. lines: where they begin."""
        count = len(rows)
        if not count:
            return
        staged = self._order.files[self._number]
        moment = datetime.datetime.fromtimestamp
        extra = {
            FILE: pa.repeat(pa.scalar(staged.name, pa.string()), count),
            ROW: pa.array(rows, pa.int64()),
            KEY: pa.repeat(pa.scalar(staged.content_key, pa.string()), count),
            MODIFIED: pa.repeat(
                pa.scalar(
                    moment(staged.modified_at_ms / 1000, datetime.UTC).replace(tzinfo=None),
                    pa.timestamp("us"),
                ),
                count,
            ),
            STARTED: pa.repeat(
                pa.scalar(
                    moment(self._order.now_ms / 1000, datetime.UTC), pa.timestamp("us", "UTC")
                ),
                count,
            ),
            NUMBER: pa.repeat(pa.scalar(self._number, pa.int64()), count),
            LINE: pa.array(lines, pa.int64()),
        }
        listed = [*arrays, *extra.values()]
        cast = [
            array if array.type == each.type else array.cast(each.type)
            for array, each in zip(listed, self.schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(cast, schema=self.schema))

    def close(self) -> None:
        self._writer.close()


def _stored_schema(columns: Sequence[DecodedColumn]) -> pa.Schema:
    types = {column.name: column.type for column in columns} | EXTRA
    return pa.schema(
        [pa.field(name, staged_columns.stored_type(type_name)) for name, type_name in types.items()]
    )


# Bytes and text


MARK_BYTES: Final = 4
BYTE_ORDER_MARKS: Final = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
"""Of the encodings whose texts may begin with a mark that says the order of their bytes."""
MAGIC: Final = ((b"\x1f\x8b", "GZIP"), (b"BZh", "BZ2"), (b"\x28\xb5\x2f\xfd", "ZSTD"))


def _blocks(path: str, compression: str) -> Iterator[bytes]:
    """Yield a file's bytes, decompressed. Raises BrokenFile."""
    source = Path(path).open("rb")  # noqa: SIM115 - closed below
    size_bytes = Path(path).stat().st_size
    try:
        if compression == "AUTO":
            head = source.read(4)
            source.seek(0)
            compression = next((name for magic, name in MAGIC if head.startswith(magic)), "NONE")
        total = 0
        for block in _decompressed(source, compression):
            total += len(block)
            if total > RATIO_FROM_BYTES and total > RATIO_MAX * size_bytes:
                raise BrokenFile("The file expands to more than is allowed for its size")
            yield block
    except (OSError, EOFError, zlib.error, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BrokenFile(f"Invalid data encountered during decompression ({compression})") from None
    finally:
        source.close()


def _decompressed(source: BinaryIO, compression: str) -> Iterator[bytes]:
    stream: Any
    opened: Any = source
    match compression:
        case "GZIP":
            stream = gzip.GzipFile(fileobj=source)
        case "BZ2":
            stream = bz2.BZ2File(source)
        case "ZSTD" | "BROTLI":
            name: Any = "zstd" if compression == "ZSTD" else "brotli"
            stream = pa.CompressedInputStream(pa.PythonFile(opened, mode="r"), name)
        case "DEFLATE" | "RAW_DEFLATE":
            yield from _inflated(source, -15 if compression == "RAW_DEFLATE" else 15)
            return
        case "NONE":
            stream = source
        case _:
            raise BrokenFile(f"Files compressed with {compression} are not text")
    while block := stream.read(BLOCK_BYTES):
        yield block


def _inflated(source: BinaryIO, wbits: int) -> Iterator[bytes]:
    inflater = zlib.decompressobj(wbits=wbits)
    while block := source.read(BLOCK_BYTES):
        plain = inflater.decompress(block, BLOCK_BYTES)
        yield plain
        while inflater.unconsumed_tail:
            yield inflater.decompress(inflater.unconsumed_tail, BLOCK_BYTES)
    yield inflater.flush()
    if not inflater.eof:
        raise EOFError


def _texts(
    path: str, compression: str, encoding: str, *, replaces: bool, skips_mark: bool
) -> Iterator[str]:
    """Yield a file's text in pieces. Raises BrokenFile."""
    blocks = _blocks(path, compression)
    head = b""
    while len(head) < MARK_BYTES and (block := next(blocks, None)) is not None:
        head += block
    if not head.startswith(BYTE_ORDER_MARKS.get(encoding, b"")):
        encoding += "-be"  # as RFC 2781 reads text without a mark
    decoder = codecs.getincrementaldecoder(encoding)("replace" if replaces else "strict")
    is_first = True
    try:
        for block in itertools.chain((head,), blocks):
            text = decoder.decode(block)
            if is_first and text:
                is_first = False
                if skips_mark:
                    text = text.removeprefix("\ufeff")
            yield text
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        bad = error.object[error.start : error.start + 1].hex().upper()
        raise BrokenFile(
            f"Invalid {encoding.upper()} detected in string '0x{bad}'", "100144"
        ) from None


# Delimited text


def _read_csv(order: engine.StagedRead, file_format: fileformats.FileFormat) -> DecodingReport:
    width = order.width
    headers: list[list[str]] = []
    if file_format.value("PARSE_HEADER") or not width:
        headers = [_header(each, file_format) for each in order.files]
        width = max([width, *map(len, headers)])
    if width > COLUMNS_MAX:
        raise engine.EngineFault("resources", f"more than {COLUMNS_MAX} columns in a file")
    columns = [DecodedColumn(name=f"${number}", type="string") for number in range(1, width + 1)]
    files = []
    for number, staged in enumerate(order.files):
        report = FileReport(header=headers[number] if headers else [])
        files.append(report)
        output = _Output(order, number, columns)
        try:
            _write_records(order, file_format, staged.path, report, output, width)
        except BrokenFile as broken:
            report.is_broken = True
            report.add(FileFault(code=broken.code, message=str(broken), row=report.parsed + 1))
        except delimited.TooLong as too_long:
            report.is_broken = True
            report.add(FileFault(code="100069", message=str(too_long), line=too_long.line))
        finally:
            output.close()
    if order.purpose == "infer":
        columns = _inferred(order, headers, columns, bool(file_format.value("PARSE_HEADER")))
    return DecodingReport(files=files, columns=columns)


def _records(
    path: str, file_format: fileformats.FileFormat
) -> Iterator[delimited.Record | delimited.Fault]:
    value = file_format.value
    pieces = _texts(
        path,
        value("COMPRESSION"),
        fileformats.ENCODINGS[value("ENCODING")],
        replaces=value("REPLACE_INVALID_CHARACTERS"),
        skips_mark=value("SKIP_BYTE_ORDER_MARK"),
    )
    return delimited.records(pieces, delimited.dialect_of(value))


def _header(staged: engine.StagedFile, file_format: fileformats.FileFormat) -> list[str]:
    """Return the fields of a file's first record; none of a file that cannot be read."""
    skipped = file_format.value("SKIP_HEADER")
    try:
        with contextlib.closing(_records(staged.path, file_format)) as records:  # type: ignore[type-var]  # a generator
            for number, record in enumerate(records):
                if number >= skipped and isinstance(record, delimited.Record):
                    return [text or "" for text in record.fields]
    except (BrokenFile, delimited.TooLong):
        return []
    return []


def _write_records(
    order: engine.StagedRead,
    file_format: fileformats.FileFormat,
    path: str,
    report: FileReport,
    output: _Output,
    width: int,
) -> None:
    skipped = 1 if file_format.value("PARSE_HEADER") else file_format.value("SKIP_HEADER")
    strict = order.checks_width and file_format.value("ERROR_ON_COLUMN_COUNT_MISMATCH")
    rows: list[list[str | None]] = []
    numbers: list[int] = []
    lines: list[int] = []
    held = 0
    rows_max = max(1, min(BATCH_ROWS, BATCH_CELLS // max(width, 1)))

    def flush() -> None:
        nonlocal held
        arrays = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        output.write(arrays, numbers, lines)
        report.rows += len(rows)
        rows.clear()
        numbers.clear()
        lines.clear()
        held = 0

    try:
        for number, record in enumerate(_records(path, file_format)):
            if number < skipped:
                continue
            report.parsed += 1
            if isinstance(record, delimited.Fault):
                report.add(_file_fault(record, report.parsed))
                continue
            fields = record.fields
            if len(fields) != width:
                if strict:
                    report.add(
                        FileFault(
                            code="100080",
                            message=f"Number of columns in file ({len(fields)}) does not match that"
                            f" of the corresponding table ({width}), use file format option"
                            " error_on_column_count_mismatch=false to ignore this error",
                            line=record.line,
                            character=1,
                            row=report.parsed,
                        )
                    )
                    continue
                fields = (fields + [None] * width)[:width]
            rows.append(fields)
            numbers.append(report.parsed)
            lines.append(record.line)
            held += sum(map(len, filter(None, fields)))
            if len(rows) >= rows_max or held >= BATCH_CHARACTERS:
                flush()
            if order.purpose == "infer" and report.parsed >= SAMPLED_ROWS:
                break
    finally:
        if rows:
            flush()


def _file_fault(fault: delimited.Fault, row: int) -> FileFault:
    return FileFault(
        code=fault.code,
        message=fault.message,
        line=fault.line,
        character=fault.character,
        column=fault.column,
        row=row,
    )


def _inferred(
    order: engine.StagedRead,
    headers: Sequence[Sequence[str]],
    columns: Sequence[DecodedColumn],
    has_header: bool,
) -> list[DecodedColumn]:
    """Return the columns of delimited text with the types that all sampled values have."""
    names = max(headers, key=len, default=[])
    paths = [Path(order.directory) / engine.file_name(n) for n in range(len(order.files))]
    inferred = []
    for index, column in enumerate(columns):
        values = pa.chunked_array(
            [
                chunk
                for path in paths
                for chunk in pq.read_table(path, columns=[column.name]).column(0).chunks
            ],
            pa.string(),
        )
        name = names[index] if has_header and index < len(names) else f"c{index + 1}"
        inferred.append(
            DecodedColumn(name=name, type=_type_of_texts(values), nullable=values.null_count > 0)
        )
    return inferred


TEXT_TYPES: Final = (
    (r"^(?i:true|false)$", "boolean"),
    (r"^[+-]?[0-9]{1,38}$", "long"),
    (r"^[+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?$", "double"),
    (r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "date"),
    (r"^[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?$", "time"),
    (r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?$", "timestamp"),
)


def _type_of_texts(values: Any) -> str:
    """Return a type that all texts are values of. NUMBERs are `decimal(p,s)`."""
    texts = values.drop_null()
    if not len(texts):
        return "string"
    for pattern, type_name in TEXT_TYPES:
        if not pc.all(pc.match_substring_regex(texts, pattern)).as_py():
            continue
        if type_name in ("long", "double"):
            return _number_type(texts, type_name)
        return type_name
    return "string"


def _number_type(texts: Any, type_name: str) -> str:
    digits = scale = 0
    for text in texts.to_pylist():
        if "e" in text.lower():
            return "double"
        whole, _, part = text.lstrip("+-").partition(".")
        digits, scale = max(digits, len(whole.lstrip("0")) or 1), max(scale, len(part))
    if digits + scale > 38:
        return "double" if type_name == "double" else "string"
    return f"decimal({digits + scale},{scale})"


# Documents


def _read_json(order: engine.StagedRead, file_format: fileformats.FileFormat) -> DecodingReport:
    value = file_format.value

    def documents(path: str, report: FileReport) -> Iterator[tuple[str, int]]:
        pieces = _texts(
            path,
            value("COMPRESSION"),
            "utf-8",
            replaces=value("REPLACE_INVALID_CHARACTERS") or value("IGNORE_UTF8_ERRORS"),
            skips_mark=value("SKIP_BYTE_ORDER_MARK"),
        )
        for text, line in staged_documents.documents(
            pieces, strips_array=value("STRIP_OUTER_ARRAY")
        ):
            report.parsed += 1
            try:
                document = variants.loads(text)
                if not value("ALLOW_DUPLICATE"):
                    variants.check_members(text, variants.dumps(document))
            except variants.BadJson as error:
                report.add(
                    FileFault(
                        code="100069",
                        message=f"Error parsing JSON: {str(error)[:200]}",
                        line=line,
                        character=1,
                        row=report.parsed,
                    )
                )
                continue
            if value("STRIP_NULL_VALUES"):
                text = staged_documents.dumps(
                    staged_documents.without_nulls(staged_documents.loads(text))
                )
            yield text, line

    return _read_documents(order, documents)


def _read_documents(order: engine.StagedRead, documents: Any) -> DecodingReport:
    columns = [DecodedColumn(name="$1", type="string", is_document=True)]
    files = []
    for number, staged in enumerate(order.files):
        report = FileReport()
        files.append(report)
        output = _Output(order, number, columns)
        texts: list[str] = []
        numbers: list[int] = []
        lines: list[int] = []
        held = 0
        try:
            for text, line in documents(staged.path, report):
                texts.append(text)
                numbers.append(report.parsed)
                lines.append(line)
                held += len(text)
                if len(texts) >= BATCH_ROWS or held >= BATCH_CHARACTERS:
                    output.write([pa.array(texts, pa.string())], numbers, lines)
                    report.rows += len(texts)
                    texts, numbers, lines, held = [], [], [], 0
                if order.purpose == "infer" and report.parsed >= SAMPLED_ROWS:
                    break
        except BrokenFile as broken:
            report.is_broken = True
            report.add(FileFault(code=broken.code, message=str(broken), row=report.parsed + 1))
        except staged_documents.BadDocument as bad:
            report.is_broken = True
            report.parsed += 1
            report.add(
                FileFault(
                    code="100069",
                    message=f"Error parsing JSON: {bad}",
                    line=bad.line,
                    character=bad.character,
                    row=report.parsed,
                )
            )
        finally:
            output.write([pa.array(texts, pa.string())], numbers, lines)
            report.rows += len(texts)
            output.close()
    if order.purpose == "infer":
        columns = _members(order)
    return DecodingReport(files=files, columns=columns)


def _read_avro(order: engine.StagedRead, file_format: fileformats.FileFormat) -> DecodingReport:
    # Imported here: every worker would pay 20 ms for it when it starts.
    from sql import staged_avro

    compression = file_format.value("COMPRESSION")

    def opened(path: str) -> BinaryIO:
        return io.BufferedReader(_Unpacked(_blocks(path, compression)), BLOCK_BYTES)

    def documents(path: str, report: FileReport) -> Iterator[tuple[str, int]]:
        try:
            with opened(path) as source:
                for text in staged_avro.documents(source):
                    report.parsed += 1
                    yield text, report.parsed
        except staged_avro.BadAvro as bad:
            raise BrokenFile(f"Error parsing Avro: {bad}", "100069") from None

    if order.purpose != "infer":
        return _read_documents(order, documents)
    reports, columns = [], dict[str, DecodedColumn]()
    for staged in order.files:
        report = FileReport()
        reports.append(report)
        try:
            with opened(staged.path) as source:
                listed = staged_avro.columns(source)
        except (staged_avro.BadAvro, BrokenFile) as bad:
            report.is_broken = True
            report.add(FileFault(code="100069", message=f"Error parsing Avro: {bad}", row=1))
            continue
        for column in listed:
            before = columns.get(column.name)
            columns[column.name] = column if before is None else _common(before, column)
    if len(columns) > COLUMNS_MAX:
        raise engine.EngineFault("resources", f"more than {COLUMNS_MAX} columns in a file")
    return DecodingReport(files=reports, columns=list(columns.values()))


class _Unpacked(io.RawIOBase):
    """Blocks of bytes as a file that is read once, from its start."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._left = block
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _members(order: engine.StagedRead) -> list[DecodedColumn]:
    """Return the members of sampled documents, with the types of their values."""
    types: dict[str, str] = {}
    for number in range(len(order.files)):
        path = Path(order.directory) / engine.file_name(number)
        for text in pq.read_table(path, columns=["$1"]).column(0).to_pylist():
            # An integer of any length: its type alone is of interest.
            document = json.loads(str(text), parse_int=lambda _: 0)
            for name, value in document.items() if isinstance(document, dict) else ():
                type_name = _type_of_value(value)
                before = types.get(name, "null")
                if before == "null" or type_name == "null":
                    types[name] = type_name if before == "null" else before
                elif before != type_name:
                    numbers = {"long", "double"}
                    both = {before, type_name}
                    types[name] = "double" if both <= numbers else "string"
    return [
        DecodedColumn(
            name=name,
            type="string" if type_name in ("null", "document") else type_name,
            is_document=type_name == "document",
        )
        for name, type_name in types.items()
    ][:COLUMNS_MAX]


def _type_of_value(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "long"
        case float():
            return "double"
        case str():
            return "string"
    return "document"


# Columns


def _read_parquet(order: engine.StagedRead, file_format: fileformats.FileFormat) -> DecodingReport:
    return _read_columns(order, file_format, _open_parquet)


def _read_orc(order: engine.StagedRead, file_format: fileformats.FileFormat) -> DecodingReport:
    return _read_columns(order, file_format, _open_orc)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Opened:
    """A file of columns. canonical: those whose values are canonical texts of VARIANTs."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    canonical: frozenset[str] = frozenset()


def _open_parquet(path: str, zone: str) -> _Opened:
    source = pq.ParquetFile(path)
    columns = staged_variants.columns_of(path, source, zone)
    return _Opened(
        schema=columns.schema(source.schema_arrow),
        batches=staged_variants.batches(source, columns, BATCH_ROWS),
        canonical=frozenset(columns.groups),
    )


def _open_orc(path: str, zone: str) -> _Opened:
    source = pyarrow.orc.ORCFile(path)
    stripes = (source.read_stripe(number) for number in range(source.nstripes))
    return _Opened(schema=source.schema, batches=stripes)


def _read_columns(
    order: engine.StagedRead,
    file_format: fileformats.FileFormat,
    opened: Callable[[str, str], _Opened],
) -> DecodingReport:
    as_text = file_format.type == "PARQUET" and bool(file_format.value("BINARY_AS_TEXT"))
    reports = [FileReport() for _ in order.files]
    columns: dict[str, DecodedColumn] = {}
    for staged, report in zip(order.files, reports, strict=True):
        try:
            with _reading():
                file = opened(staged.path, order.zone)
                listed = [(each.name, _column_of(each, as_text=as_text)) for each in file.schema]
        except BrokenFile as broken:
            report.is_broken = True
            report.add(FileFault(code=broken.code, message=str(broken), row=1))
            continue
        for name, column in listed:
            if name in file.canonical:
                column = dataclasses.replace(column, type=CANONICAL, is_document=True)
            report.columns.append(column)
            before = columns.get(name)
            columns[name] = column if before is None else _common(before, column)
    for name, column in columns.items():
        if column.type == NULLS:
            columns[name] = DecodedColumn(name=name, type="string")
    for name in order.members:
        columns.setdefault(name, DecodedColumn(name=name, type="string", is_document=True))
    if len(columns) > COLUMNS_MAX:
        raise engine.EngineFault("resources", f"more than {COLUMNS_MAX} columns in a file")
    if order.purpose == "infer":
        return DecodingReport(files=reports, columns=list(columns.values()))
    output_columns = [
        DecodedColumn(name=f"$1:{column.name}", type=column.type, is_document=column.is_document)
        for column in columns.values()
    ]
    if order.documents:
        output_columns.append(DecodedColumn(name="$1", type="string", is_document=True))
    for number, (staged, report) in enumerate(zip(order.files, reports, strict=True)):
        output = _Output(order, number, output_columns)
        try:
            if not report.is_broken:
                with _reading():
                    file = opened(staged.path, order.zone)
                    _write_batches(file, order, file_format, report, output, columns)
        except BrokenFile as broken:
            report.is_broken = True
            report.add(FileFault(code=broken.code, message=str(broken), row=report.parsed + 1))
        finally:
            output.close()
    return DecodingReport(files=reports, columns=output_columns)


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """Have what Arrow raises for a damaged file raise BrokenFile."""
    try:
        yield
    except (BrokenFile, engine.EngineFault, MemoryError):
        raise
    except UnicodeDecodeError:
        raise BrokenFile("Invalid UTF-8 detected in a string", "100144") from None
    except staged_variants.UnreadColumn as error:
        raise BrokenFile(str(error)) from None
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        if isinstance(error, OSError) and error.errno in (28, 122):  # the disk is full
            raise
        raise BrokenFile("Error reading the file: it is damaged or of another format") from error


def _write_batches(
    file: _Opened,
    order: engine.StagedRead,
    file_format: fileformats.FileFormat,
    report: FileReport,
    output: _Output,
    columns: Mapping[str, DecodedColumn],
) -> None:
    trims = bool(file_format.value("TRIM_SPACE"))
    nulls = list(file_format.value("NULL_IF"))
    replaces = bool(file_format.value("REPLACE_INVALID_CHARACTERS"))
    own = {column.name: column for column in report.columns}
    for read in file.batches:
        texts = [
            _valid_texts(array, replaces=replaces)
            if _is_text(columns[name]) or _is_text(own[name])
            else array
            for name, array in zip(read.schema.names, read.columns, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(texts, names=read.schema.names)
        arrays = []
        by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
        for column in columns.values():
            array = by_name.get(column.name)
            if array is not None and column.name in file.canonical:
                is_kept = column.type == CANONICAL
                arrays.append(array if is_kept else staged_variants.stored_texts(array))
                continue
            target = staged_columns.stored_type(column.type)
            if array is None:
                arrays.append(pa.array([None] * batch.num_rows, target))
                continue
            of_file = own[column.name]
            if column.is_document and not of_file.is_document and of_file.type != NULLS:
                of_type = staged_columns.stored_type(of_file.type)
                array = _stored(array, of_file, of_type, trims=trims, nulls=nulls)
            arrays.append(_stored(array, column, target, trims=trims, nulls=nulls))
        if order.documents:
            rows = [staged_documents.dumps(row) for row in _rows(batch, file.canonical)]
            arrays.append(pa.array(rows, pa.string()))
        numbers = pa.array(range(report.parsed + 1, report.parsed + batch.num_rows + 1), pa.int64())
        output.write(arrays, numbers, numbers)
        report.parsed += batch.num_rows
        report.rows += batch.num_rows


def _rows(batch: pa.RecordBatch, canonical: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield rows as documents' values."""
    columns = [
        [
            None if text is None else staged_documents.Json(text)
            for text in staged_variants.stored_texts(array).to_pylist()
        ]
        if name in canonical
        else array.to_pylist()
        for name, array in zip(batch.schema.names, batch.columns, strict=True)
    ]
    for cells in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, cells, strict=True))


def _is_text(column: DecodedColumn) -> bool:
    return column.type == "string" and not column.is_document


def _valid_texts(array: Any, *, replaces: bool) -> Any:
    """Return a column of texts as UTF-8; invalid bytes are replaced, or are a BrokenFile."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    of = array.type
    if not any(is_type(of) for is_type in TEXTS):
        return array
    octets = array.cast(pa.large_binary() if str(of).startswith("large") else pa.binary())
    try:
        return octets.cast(pa.large_string() if str(of).startswith("large") else pa.string())
    except pa.ArrowInvalid:
        if not replaces:
            raise BrokenFile("Invalid UTF-8 detected in a string", "100144") from None
    replaced = [
        None if value is None else value.decode("utf-8", "replace") for value in octets.to_pylist()
    ]
    return pa.array(replaced, pa.string())


TEXTS: Final = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def _stored(
    array: Any, column: DecodedColumn, target: pa.DataType, *, trims: bool, nulls: Sequence[str]
) -> Any:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if column.is_document:
        texts = [
            None if each is None else staged_documents.dumps(each) for each in array.to_pylist()
        ]
        return pa.array(texts, pa.string())
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        cast = array.cast(target)
    elif pa.types.is_nested(array.type):
        cast = _documents_of(array)
    elif pa.types.is_floating(array.type) and pa.types.is_decimal(target):
        cast = array.cast(pa.float64()).cast(target)
    else:
        cast = pc.cast(array, target, safe=False) if _is_moment(target) else array.cast(target)
    if pa.types.is_string(target):
        if trims:
            cast = pc.utf8_trim(cast, " ")
        if nulls:
            is_null = pc.is_in(cast, value_set=pa.array(nulls, pa.string()))
            cast = pc.if_else(is_null, pa.scalar(None, pa.string()), cast)
    return cast


def _documents_of(array: Any) -> Any:
    values = array.to_pylist()
    texts = [None if value is None else staged_documents.dumps(value) for value in values]
    return pa.array(texts, pa.string())


def _is_moment(arrow_type: pa.DataType) -> bool:
    return pa.types.is_timestamp(arrow_type) or pa.types.is_time(arrow_type)


def _column_of(arrow_field: pa.Field[Any], *, as_text: bool) -> DecodedColumn:
    type_name, is_document = _type_of(arrow_field.type, as_text=as_text)
    return DecodedColumn(
        name=arrow_field.name,
        type=type_name,
        is_document=is_document,
        nullable=arrow_field.nullable,
    )


def _type_of(arrow_type: pa.DataType, *, as_text: bool) -> tuple[str, bool]:
    """Return the Iceberg type of an Arrow type, and whether its values are documents."""
    of: Any = arrow_type
    types = pa.types
    if types.is_dictionary(of):
        return _type_of(of.value_type, as_text=as_text)
    if types.is_nested(of):
        return "string", True
    if types.is_null(of):
        return NULLS, False
    if types.is_uint64(of):
        return "decimal(20,0)", False
    if types.is_integer(of):
        return "long", False
    if types.is_floating(of):
        return "double", False
    if types.is_boolean(of):
        return "boolean", False
    if types.is_date(of):
        return "date", False
    if types.is_time(of):
        return "time", False
    if types.is_timestamp(of):
        return ("timestamp" if of.tz is None else "timestamptz"), False
    if types.is_decimal(of) and of.precision <= 38 and 0 <= of.scale <= 37:
        return f"decimal({of.precision},{of.scale})", False
    if types.is_fixed_size_binary(of):
        return "binary", False
    if types.is_binary(of) or types.is_large_binary(of) or types.is_binary_view(of):
        return ("string" if as_text else "binary"), False
    return "string", False


def _common(left: DecodedColumn, right: DecodedColumn) -> DecodedColumn:
    """Return a column that holds the values of two files' columns of one name."""
    if (left.type, left.is_document) == (right.type, right.is_document) or right.type == NULLS:
        return left
    if left.type == NULLS:
        return right
    pair = {left.type, right.type}
    common = "string"
    if left.is_document or right.is_document:
        return DecodedColumn(name=left.name, type="string", is_document=True)
    if pair == {"long", "double"}:
        common = "double"
    elif pair == {"timestamp", "timestamptz"}:
        common = "timestamptz"
    elif pair == {"date", "timestamp"}:
        common = "timestamp"
    return DecodedColumn(name=left.name, type=common, nullable=True)


_READERS: Final = {
    "CSV": _read_csv,
    "JSON": _read_json,
    "PARQUET": _read_parquet,
    "ORC": _read_orc,
    "AVRO": _read_avro,
}
