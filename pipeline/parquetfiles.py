"""rule: the types of Parquet columns that Arrow writes as Spark does; how large a file is unpacked.

Never reads a file: its bytes are given.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from pipeline import errors

BATCH_ROWS = 8_192
VALUE_BYTES = {
    "BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4,
    "FIXED_LEN_BYTE_ARRAY": 16,
}  # fmt: skip
"""What one value of a Parquet type takes in memory, without the characters of text."""


def plain_schema(schema: Any) -> Any:
    """Return the Arrow schema without field ids and constraints. Raises NotForArrow."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def unpacked_sizes(file: Any, content: bytes) -> Iterator[int]:
    """Yield the sizes of a Parquet file's parts in memory, before they take that much memory.

    The footer says how many values a file has, but not how long its text is: a dictionary holds
    each text once, however many rows have it. So text is read with its dictionaries, and its size
    is computed from them.
    """
    # Imported here: jobs of Spark need none of them.
    from pyarrow import parquet

    footer = file.metadata
    texts: dict[str, list[tuple[int, int]]] = {}
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            chunk = footer.row_group(group).column(number)
            width = max(VALUE_BYTES[chunk.physical_type], footer.schema.column(number).length)
            values_bytes = chunk.num_values * width
            counted_bytes = max(values_bytes, chunk.total_uncompressed_size)
            yield counted_bytes
            if "DELTA_BYTE_ARRAY" in chunk.encodings:
                # Each value may begin with the whole value before it.
                yield chunk.num_values * chunk.total_uncompressed_size
            elif chunk.physical_type == "BYTE_ARRAY":
                texts.setdefault(chunk.path_in_schema, []).append(
                    (group, counted_bytes - values_bytes)
                )
    if not texts:
        return
    measured = parquet.ParquetFile(io.BytesIO(content), read_dictionary=list(texts))
    for path, groups in texts.items():
        for group, counted_bytes in groups:
            # Arrow reads dictionaries inside lists and structs of one row group at a time.
            for batch in measured.iter_batches(
                batch_size=BATCH_ROWS, row_groups=[group], columns=[path]
            ):
                text_bytes = _text_bytes(batch.column(0))
                yield max(0, text_bytes - counted_bytes)
                counted_bytes = max(0, counted_bytes - text_bytes)


def _text_bytes(array: Any) -> int:
    """Return how many bytes the text in an array takes without its dictionaries."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary).cast(pa.int64())
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0)
    if pa.types.is_struct(array.type):
        return sum(_text_bytes(array.field(number)) for number in range(array.type.num_fields))
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return _text_bytes(array.values)
    return 0


def _plain_type(arrow_type: Any) -> Any:
    """Return the type without field ids and constraints. Raises NotForArrow for unusual ones."""
    # Imported here: jobs of Spark need none of them.
    import pyarrow as pa

    same = {
        pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(), pa.string(),
        pa.binary(),
    }  # fmt: skip
    other = {
        pa.int8(): pa.int32(), pa.int16(): pa.int32(), pa.large_string(): pa.string(),
        pa.large_binary(): pa.binary(),
    }  # fmt: skip
    if arrow_type in same or pa.types.is_decimal128(arrow_type):
        return arrow_type
    if arrow_type in other:
        return other[arrow_type]
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit in {"ms", "us"}:
        return pa.timestamp("us", tz=arrow_type.tz and "UTC")
    if pa.types.is_struct(arrow_type):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in arrow_type])
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return pa.list_(_plain_type(arrow_type.value_type))
    raise errors.NotForArrow(f"a column of the Arrow type {arrow_type}")
