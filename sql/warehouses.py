"""engine: CREATE, ALTER and DROP WAREHOUSE: names with options, for administrators.

Each statement is one transaction with a receipt, which belongs to no bucket.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from catalog import access, rights
from server.access import model
from sql import errors, limits, outcomes, places, planning, replays, warehouserows
from sql.dialect import names, operations
from storage import batch
from storage import index as indexes
from storage import model as storage_model

DEMAND = model.Demand(action=rights.ADMINISTER, resource="*")
DONE = "Statement executed successfully."


class Warehouses:
    """Creates, changes and drops warehouses. Stateless."""

    def __init__(
        self,
        *,
        index: indexes.Index,
        access: access.Access,
        replays: replays.Replays,
        now_ms: storage_model.NowMs,
    ) -> None:
        self._index = index
        self._access = access
        self._replays = replays
        self._now_ms = now_ms

    async def create(
        self, execution: planning.Execution, statement: operations.CreateWarehouse
    ) -> outcomes.Outcome:
        """Create a warehouse, the session's current one from now on. Raises SqlError."""
        name = statement.name.folded
        if len(name.encode(errors="replace")) > warehouserows.NAME_BYTES_MAX:
            raise errors.invalid_identifier(name[:100])
        now_ms = self._now_ms()
        row = warehouserows.WarehouseRow(
            name=name,
            options=dict(statement.options),
            owner=execution.by,
            created_at_ms=now_ms,
            changed_at_ms=now_ms,
        )

        def decide(
            existing: warehouserows.WarehouseRow | None, reading: batch.Reading
        ) -> tuple[str, warehouserows.WarehouseRow | None]:
            if existing is not None and statement.if_not_exists:
                return f"{name} already exists, statement succeeded.", existing
            if existing is not None and not statement.replace:
                raise errors.already_exists("Object", name)
            if existing is None and warehouserows.is_full(reading):
                raise errors.resources_exhausted(
                    f"there are at most {limits.WAREHOUSES_MAX} warehouses"
                )
            return f"Warehouse {name} successfully created.", row

        text = await self._change(execution, statement.name, decide)
        execution.session.warehouse = name
        return outcomes.status(text or f"Warehouse {name} successfully created.")

    async def alter(
        self, execution: planning.Execution, statement: operations.AlterWarehouse
    ) -> outcomes.Outcome:
        """Set options of a warehouse, or remove them. Raises SqlError."""

        def decide(
            existing: warehouserows.WarehouseRow | None, reading: batch.Reading
        ) -> tuple[str, warehouserows.WarehouseRow | None]:
            if existing is None:
                if statement.if_exists:
                    return DONE, None
                raise errors.does_not_exist("Warehouse", statement.name.folded)
            options = {**existing.options, **dict(statement.options)}
            for each in statement.removed:
                options.pop(each, None)
            return DONE, msgspec.structs.replace(
                existing, options=options, changed_at_ms=self._now_ms()
            )

        return outcomes.status(await self._change(execution, statement.name, decide) or DONE)

    async def drop(
        self, execution: planning.Execution, statement: operations.DropWarehouse
    ) -> outcomes.Outcome:
        """Drop a warehouse: its name has the defaults again. Raises SqlError."""
        name = statement.name.folded
        dropped = f"{name} successfully dropped."

        def decide(
            existing: warehouserows.WarehouseRow | None, reading: batch.Reading
        ) -> tuple[str, warehouserows.WarehouseRow | None]:
            if existing is not None:
                return dropped, None
            if statement.if_exists:
                return "", None
            raise errors.does_not_exist("Warehouse", name)

        text = await self._change(execution, statement.name, decide)
        return outcomes.already_dropped(name) if text == "" else outcomes.status(text or dropped)

    async def _change(
        self,
        execution: planning.Execution,
        ident: names.Ident,
        decide: Callable[
            [warehouserows.WarehouseRow | None, batch.Reading],
            tuple[str, warehouserows.WarehouseRow | None],
        ],
    ) -> str | None:
        """Store what decide makes of a warehouse's row, None for no row; return its text.

        None if a request that is repeated did it already.
        """
        principal = execution.session.principal
        with places.refused_as_sql():
            self._access.check(principal, (DEMAND,))
        receipt = self._replays.receipt_in(replays.NO_BUCKET, execution.query_id, by=execution.by)
        if self._replays.is_done(receipt):
            return None
        key = warehouserows.key(ident.folded)

        def plan(reading: batch.Reading) -> batch.Decided[str]:
            self._access.recheck(principal, (DEMAND,))
            value = reading.get(warehouserows.STORE, key)
            existing = None if value is None else warehouserows.decode(value)
            text, row = decide(existing, reading)
            writes: tuple[batch.Write, ...] = ()
            if row is not None and row != existing:
                data = warehouserows.encode(row)
                writes = (batch.Put(store=warehouserows.STORE, key=key, value=data),)
            elif row is None and existing is not None:
                writes = (batch.Delete(store=warehouserows.STORE, key=key),)
            return batch.Decided(
                result=text, batch=batch.merge((batch.Batch(writes=writes), receipt.plan()))
            )

        with places.refused_as_sql():
            return await self._index.decide(plan)
