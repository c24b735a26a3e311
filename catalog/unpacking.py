"""engine: writes the rows of a load that its commit packed into one.

See `catalog.loads`. Each step is a transaction of some hundred rows that expects the load to be
unwritten still, so any number of tasks may do the same, and a server that stops in between goes on
at the table's next load. Changes no table.
"""

from __future__ import annotations

import asyncio

from catalog import loads, records
from storage import batch, errors, index


async def write_rows(rows: index.Index, bucket_id: int, object_uuid: str) -> None:
    """Write all rows of a table's loads. Raises DiskFull, CommitUnknown."""
    key = records.unwritten_loads_key(bucket_id, object_uuid)
    while rows.get(batch.Store.LOADS, key) is not None:
        load = await asyncio.to_thread(_read, rows, bucket_id, object_uuid)
        if load is not None:
            try:
                await _write(rows, load, bucket_id, object_uuid)
            except errors.ExpectationFailed:
                continue  # another task has ended it


async def _write(
    rows: index.Index, load: loads.Unwritten, bucket_id: int, object_uuid: str
) -> None:
    if load.replacing:
        start = records.first_load_key(bucket_id, object_uuid)
        stop = records.stop_after(load.expects.key)
        while True:
            with rows.view() as view:
                earlier = view.take(batch.Store.LOADS, start, stop, loads.ROWS_AT_ONCE)
            if not earlier:
                break
            await rows.commit(loads.plan_removals(load, earlier))
            start = earlier[-1][0] + b"\x00"
    for each in loads.plan_rows(load):
        await rows.commit(each)
    await rows.commit(loads.plan_end(load, bucket_id, object_uuid))


def _read(rows: index.Index, bucket_id: int, object_uuid: str) -> loads.Unwritten | None:
    with rows.view() as view:
        return loads.unwritten(view, bucket_id, object_uuid)
