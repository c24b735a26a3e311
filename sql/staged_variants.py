"""engine: the columns of the logical type VARIANT of a staged Parquet file, as canonical texts.

A file has a group of metadata and binary values for such a column, shredded or not. The logical
type stands in the file's footer alone: PyArrow reads the group as any other struct.
Source: Parquet format, VariantEncoding.md.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sql import kernelforms, kernels, parquet_files, parquet_footers, variant_columns, variants

BATCH_ROWS: Final = 1024
"""Rows whose values are decoded at once: each may have megabytes."""


class UnreadColumn(Exception):
    """A column of VARIANT that cannot be read, or a value of it; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantColumns:
    """The names of a file's columns of VARIANT, and the type of the group that each of them is."""

    groups: dict[str, pa.DataType]
    zone: str

    def as_texts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the file with canonical texts in these columns; raises UnreadColumn."""
        arrays: list[Any] = [
            self._texts(name, array) if name in self.groups else array
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    def schema(self, of_file: pa.Schema) -> pa.Schema:
        """Return the schema of such batches."""
        return pa.schema(
            [each.with_type(pa.string()) if each.name in self.groups else each for each in of_file]
        )

    def _texts(self, name: str, array: Any) -> Any:
        group = self.groups[name]
        read = variant_columns.read(
            variant_columns.encoded(group),
            self.zone,
            functools.partial(kernels.kernel, zone=self.zone),
        )
        try:
            texts: Any = read.function(array.cast(group))
        except (ValueError, NotImplementedError) as error:
            coded = kernelforms.coded_in(str(error))
            reason = coded[1] if coded else "a value of it cannot be read"
            raise UnreadColumn(f"Column {name}: {reason}") from None
        return texts.cast(pa.string())


def columns_of(path: str, source: pq.ParquetFile, zone: str) -> VariantColumns:
    """Return a file's columns of VARIANT. zone: in which their instants are shown.

    Raises UnreadColumn for one inside another column, and BadFooter.
    """
    of_file = source.schema_arrow
    groups: dict[str, pa.DataType] = {}
    if any(pa.types.is_nested(each.type) for each in of_file):
        with Path(path).open("rb") as file:
            _, footer = parquet_files.read_footer(file)
        for column in parquet_footers.variants(footer):
            if not column.is_whole:
                raise UnreadColumn(f"Column {column.name}: a VARIANT inside a nested type")
            try:
                groups[column.name] = variant_columns.group_type(of_file.field(column.name).type)
            except (variant_columns.UnfitColumn, KeyError):
                reason = "it is of the type VARIANT, and no group of one"
                raise UnreadColumn(f"Column {column.name}: {reason}") from None
    return VariantColumns(groups=groups, zone=zone)


def stored_texts(texts: Any) -> Any:
    """Return canonical texts as JSON, whose dates are texts."""
    return pa.array(
        [None if text is None else variants.stored_text(text) for text in texts.to_pylist()],
        pa.string(),
    )


def batches(source: pq.ParquetFile, columns: VariantColumns, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows, with canonical texts in its columns of VARIANT."""
    if not columns.groups:
        yield from source.iter_batches(batch_size=rows)
        return
    for batch in source.iter_batches(batch_size=min(rows, BATCH_ROWS)):
        yield columns.as_texts(batch)
