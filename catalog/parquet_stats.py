"""rule: a table's data file from a Parquet footer: counts, sizes and bounds by field id.

Columns are identified by the field ids in the footer; those of a file without any by name. Bounds
enclose the values but are not always the minimum and maximum: text and binary are truncated.
A footer has no NaN counts, so they are unknown unless a column cannot have NaN.
Source: Iceberg spec, Data File Fields and Appendix D; Parquet format, Statistics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from catalog import datatypes, manifests, values
from catalog.values import Value

FIELD_ID_KEY: Final = b"PARQUET:field_id"
METRICS_DEFAULT: Final = "write.metadata.metrics.default"
METRICS_COLUMN_PREFIX: Final = "write.metadata.metrics.column."
METRICS_COLUMNS_MAX: Final = "write.metadata.metrics.max-inferred-column-defaults"
METRICS_COLUMNS_MAX_DEFAULT: Final = 100
TRUNCATE_DEFAULT: Final = 16

_TRUNCATE = re.compile(r"truncate\((\d{1,9})\)")
_TIME_UNITS: Mapping[str, int] = {
    "milliseconds": 1_000,
    "microseconds": 1_000_000,
    "nanoseconds": 1_000_000_000,
}
_UNITS_OF_TYPES: Mapping[str, int] = {
    "time": 1_000_000,
    "timestamp": 1_000_000,
    "timestamptz": 1_000_000,
    "timestamp_ns": 1_000_000_000,
    "timestamptz_ns": 1_000_000_000,
}


class UnfitFile(ValueError):
    """The file is not a Parquet file that fits the table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mode:
    """The metrics to keep of a column: none, counts, or also bounds of a width (None: whole)."""

    counts: bool
    bounds: bool
    width: int | None = None


def data_file(
    footer: pq.FileMetaData,
    *,
    path: str,
    size_bytes: int,
    schema: Mapping[str, Any],
    spec_id: int = 0,
    partition: Sequence[Value | None] = (),
    sort_order_id: int | None = None,
    properties: Mapping[str, str] | None = None,
) -> manifests.DataFile:
    """Return the data file of a footer.

    path: its URI. schema: the table's, decoded JSON. partition: plain values in the spec's order.
    properties: the table's, which select the metrics of each column. Raises UnfitFile.
    """
    return manifests.DataFile(
        file_path=path,
        file_format="PARQUET",
        record_count=footer.num_rows,
        file_size_in_bytes=size_bytes,
        spec_id=spec_id,
        partition=tuple(partition),
        metrics=metrics_of(footer, schema=schema, properties=properties or {}),
        split_offsets=_split_offsets(footer),
        sort_order_id=sort_order_id,
    )


def metrics_of(
    footer: pq.FileMetaData, *, schema: Mapping[str, Any], properties: Mapping[str, str]
) -> manifests.Metrics:
    """Return the column metrics in a footer."""
    columns = datatypes.columns(schema)
    modes = modes_of(schema, properties)
    sizes: dict[int, int] = {}
    counts: dict[int, int] = {}
    nulls: dict[int, int] = {}
    nans: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for index, field_id in enumerate(_field_ids(footer, schema)):
        column = columns.get(field_id) if field_id is not None else None
        mode = modes.get(field_id) if field_id is not None else None
        if column is None or mode is None or not mode.counts:
            continue
        chunks = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
        sizes[column.field_id] = sum(chunk.total_compressed_size for chunk in chunks)
        if _is_repeated(column, columns):
            continue  # counts of elements are not counts of rows
        counts[column.field_id] = sum(chunk.num_values for chunk in chunks)
        statistics = [chunk.statistics for chunk in chunks if chunk.num_values]
        null_counts = [None if one is None else one.null_count for one in statistics]
        counts_known = [count for count in null_counts if count is not None]
        if len(counts_known) == len(null_counts):
            nulls[column.field_id] = sum(counts_known)
        if mode.bounds:
            column_bounds = _bounds(
                statistics, column.type, footer.schema.column(index), mode.width
            )
            if column_bounds[0] is not None:
                lower[column.field_id] = column_bounds[0]
            if column_bounds[1] is not None:
                upper[column.field_id] = column_bounds[1]
    return manifests.Metrics(
        column_sizes=sizes,
        value_counts=counts,
        null_value_counts=nulls,
        nan_value_counts=nans,
        lower_bounds=lower,
        upper_bounds=upper,
    )


def modes_of(schema: Mapping[str, Any], properties: Mapping[str, str]) -> dict[int, Mode]:
    """Return the mode of each column by field id, from the table's properties.

    Beyond the first hundred leaf columns no metrics are kept unless a property asks for them.
    """
    stated = properties.get(METRICS_DEFAULT)
    default = _mode_of(stated or f"truncate({TRUNCATE_DEFAULT})")
    try:
        columns_max = int(properties.get(METRICS_COLUMNS_MAX, METRICS_COLUMNS_MAX_DEFAULT))
    except ValueError:
        columns_max = METRICS_COLUMNS_MAX_DEFAULT
    modes: dict[int, Mode] = {}
    for column in datatypes.columns(schema).values():
        own = properties.get(METRICS_COLUMN_PREFIX + column.full_name)
        if own is not None:
            modes[column.field_id] = _mode_of(own)
        elif stated is not None or len(modes) < columns_max:
            modes[column.field_id] = default
    return modes


def _mode_of(text: str) -> Mode:
    spelled = text.strip().lower()
    if spelled == "none":
        return Mode(counts=False, bounds=False)
    if spelled == "counts":
        return Mode(counts=True, bounds=False)
    if spelled == "full":
        return Mode(counts=True, bounds=True)
    match = _TRUNCATE.fullmatch(spelled)
    width = int(match[1]) if match is not None and int(match[1]) > 0 else TRUNCATE_DEFAULT
    return Mode(counts=True, bounds=True, width=width)


def _field_ids(footer: pq.FileMetaData, schema: Mapping[str, Any]) -> list[int | None]:
    """Return each leaf column's field id, in the footer's order."""
    leaves = [leaf for field in footer.schema.to_arrow_schema() for leaf in _leaves(field, ())]
    if len(leaves) != footer.num_columns:
        raise UnfitFile("the footer's columns do not add up to its schema")
    if any(field_id is not None for field_id, _ in leaves):
        return [field_id for field_id, _ in leaves]
    by_path = {column.path: column.field_id for column in datatypes.columns(schema).values()}
    return [by_path.get(path) for _, path in leaves]


def _leaves(
    field: pa.Field[Any], above: tuple[str, ...]
) -> Iterator[tuple[int | None, tuple[str, ...]]]:
    path = (*above, field.name)
    type_ = field.type
    if pa.types.is_struct(type_):
        for place in range(type_.num_fields):
            yield from _leaves(type_.field(place), path)
    elif pa.types.is_map(type_):
        yield from _leaves(type_.key_field.with_name("key"), path)
        yield from _leaves(type_.item_field.with_name("value"), path)
    elif _is_list(type_):
        yield from _leaves(type_.value_field.with_name("element"), path)
    else:
        stated = (field.metadata or {}).get(FIELD_ID_KEY)
        yield (None if stated is None else int(stated)), path


def _is_list(type_: Any) -> bool:
    return (
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
    )


def _is_repeated(
    column: datatypes.NestedField, columns: Mapping[int, datatypes.NestedField]
) -> bool:
    parent = column.parent
    while parent is not None:
        if datatypes.name_of(columns[parent].type) != "struct":
            return True
        parent = columns[parent].parent
    return False


# --- bounds -------------------------------------------------------------------------------------


def _bounds(
    statistics: Sequence[Any], type_: Any, leaf: Any, width: int | None
) -> tuple[bytes | None, bytes | None]:
    """Return lower and upper bound in single-value form; None if there is none."""
    held = [
        one
        for one in statistics
        if one is None or one.has_min_max or one.null_count is None or one.num_values
    ]
    if not held or any(one is None or not one.has_min_max for one in held):
        return None, None
    try:
        low = min(_value(type_, leaf, one, "min") for one in held)
        high = max(_value(type_, leaf, one, "max") for one in held)
        type_name = datatypes.name_of(type_)
        if isinstance(low, float) and isinstance(high, float):
            if math.isnan(low) or math.isnan(high):
                return None, None
            # a writer may have written either zero for the other
            low, high = (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
        if width is not None and type_name in ("string", "binary"):
            low, high = cut_down(low, width), cut_up(high, width)
        return (
            values.to_bytes(type_, low),
            None if high is None else values.to_bytes(type_, high),
        )
    except (values.InvalidValue, datatypes.InvalidType, TypeError, ValueError):
        return None, None


def _value(type_: Any, leaf: Any, statistics: Any, which: str) -> Any:
    """Return one end of a chunk's statistics as a plain value of the table's type."""
    type_name = datatypes.name_of(type_)
    logical = leaf.logical_type.type
    raw = getattr(statistics, f"{which}_raw")
    if type_name == "decimal":
        scale = leaf.scale if logical == "DECIMAL" else 0
        number = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
        return values.decimal_from(number, scale)
    if type_name in _UNITS_OF_TYPES:
        return _in_units(type_name, leaf, raw, round_up=which == "max")
    if type_name == "string":
        return raw.decode() if isinstance(raw, bytes) else raw
    if type_name in ("int", "long") and logical == "INT":
        return getattr(statistics, which)  # unsigned ones are stored as signed
    if type_name in ("float", "double"):
        return float(raw)
    if type_name in ("int", "long", "date", "boolean") and isinstance(raw, int):
        return raw
    if type_name in ("binary", "fixed", "uuid") and isinstance(raw, bytes):
        return raw
    raise values.InvalidValue(f"a column of {leaf.physical_type} cannot hold {type_name}")


def _in_units(type_name: str, leaf: Any, raw: Any, *, round_up: bool) -> int:
    wanted = _UNITS_OF_TYPES[type_name]
    match = re.search(r"timeUnit=(\w+)", str(leaf.logical_type))
    if match is None or match[1] not in _TIME_UNITS or not isinstance(raw, int):
        raise values.InvalidValue(f"a column of {leaf.logical_type} cannot hold {type_name}")
    stored = _TIME_UNITS[match[1]]
    if stored <= wanted:
        return raw * (wanted // stored)
    step = stored // wanted
    return -(-raw // step) if round_up else raw // step


def cut_down(value: Any, width: int) -> Any:
    """Return text or bytes of at most width that are not greater than value."""
    return value[:width]


def cut_up(value: Any, width: int) -> Any:
    """Return text or bytes of at most width that are not less than value; None if none are."""
    if len(value) <= width:
        return value
    head = value[:width]
    while head:
        if isinstance(head, bytes):
            if head[-1] < 0xFF:
                return head[:-1] + bytes([head[-1] + 1])
        else:
            following = ord(head[-1]) + 1
            if 0xD800 <= following <= 0xDFFF:  # no characters there
                following = 0xE000
            if following <= 0x10FFFF:
                return head[:-1] + chr(following)
        head = head[:-1]
    return None


def _split_offsets(footer: pq.FileMetaData) -> tuple[int, ...] | None:
    offsets = []
    for group in range(footer.num_row_groups):
        first = footer.row_group(group).column(0)
        dictionary = first.dictionary_page_offset
        at = first.data_page_offset
        offsets.append(at if dictionary is None or dictionary <= 0 else min(at, dictionary))
    return tuple(sorted(offsets)) or None
