"""engine: the rows of a query in memory, as a relation that other queries read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sql import engine, errors, ipc, rowforms


async def collect(
    results: engine.Results, *, bytes_max: int, source: str, held_bytes: int = 0
) -> pa.Table:
    """Return all rows of a query, which has kept its nested values, and end it.

    source: what has them, for the error. held_bytes: of other rows, which bytes_max is for too.
    Raises SqlError for more than bytes_max, EngineFault.
    """
    batches, size_bytes = [], held_bytes
    try:
        async for batch in results.batches():
            size_bytes += batch.nbytes
            if size_bytes > bytes_max:
                raise errors.resources_exhausted(f"{source} more than {bytes_max >> 20} MiB")
            batches.append(batch)
    finally:
        await results.close()
    return pa.Table.from_batches(batches, schema=results.schema)


def relation(table: pa.Table, name: str, columns: Sequence[str]) -> engine.Relation:
    """Return rows as a relation. columns: the names of its columns, in order."""
    # Kernels take nested values with views of texts alone, as tables have them.
    viewed = [
        field.with_type(rowforms.with_texts(field.type, pa.string_view()))
        if pa.types.is_nested(field.type)
        else field
        for field in table.schema
    ]
    table = table.cast(pa.schema(viewed)).rename_columns(list(columns))
    return engine.Relation(
        name=name,
        schema=ipc.encode_schema(table.schema),
        rows=ipc.encode_rows(table),
        row_count=table.num_rows,
    )
