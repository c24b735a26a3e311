"""engine: the folders of tables' stages.

A table's stage is the folder `tables/<uuid of the table>/` of the bucket of stages, until CREATE OR
REPLACE of the table: its commit moves the stage to an empty folder, `tables/<uuid>.<id>/`, and the
sweep removes the files of the one before. A stage without files needs no row and no other folder,
so a row exists from the first PUT or unload on.

This module removes nothing itself; `sql.stages` does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from catalog import commits, departures, records
from catalog import errors as catalog_errors
from catalog import store as catalog_store
from sql import stagerows
from storage import batch, buckets, objects
from storage import errors as storage_errors

BUCKET: Final = "boathouse-stages"
TABLES: Final = "tables/"
UUID_LENGTH: Final = 36
ROWS_AT_ONCE: Final = 1_000


class TableStages:
    """Finds, keeps and replaces the folders of tables' stages. Stateless."""

    def __init__(
        self,
        *,
        store: catalog_store.CatalogStore,
        objects: objects.Objects,
        buckets: buckets.Buckets,
    ) -> None:
        self._store = store
        self._objects = objects
        self._buckets = buckets

    def prefix(self, object_uuid: str) -> str:
        """Return the prefix of the keys of the stage of a table."""
        with self._store.index.view() as view:
            return _prefix(view, object_uuid)

    async def keep(self, object_uuid: str) -> None:
        """Store the stage's row, before a statement stores files in it."""
        key = stagerows.table_key(object_uuid)

        def decide(reading: batch.Reading) -> batch.Decided[None]:
            if reading.get(stagerows.STORE, key) is not None:
                return batch.Decided(result=None)
            put = _put(object_uuid, _first_prefix(object_uuid))
            return batch.Decided(result=None, batch=batch.Batch(writes=(put,)))

        await self._store.index.decide(decide)

    def replacing(self, object_uuid: str) -> commits.Naming:
        """Return what a commit that replaces the table also does: its stage becomes empty."""
        key, new_id = stagerows.table_key(object_uuid), self._store.new_id()
        has_files = self._has_files(_first_prefix(object_uuid))

        def plan(now_ms: int) -> batch.Batch:
            def derive(reading: batch.Reading) -> Sequence[batch.Write]:
                before = _prefix(reading, object_uuid)
                if reading.get(stagerows.STORE, key) is None and not has_files:
                    return ()
                dropped = stagerows.DroppedRow(prefix=before, dropped_at_ms=now_ms)
                return (
                    _put(object_uuid, f"{TABLES}{object_uuid}.{new_id}/"),
                    batch.Put(
                        store=stagerows.STORE,
                        key=stagerows.dropped_key(before.removeprefix(TABLES)[:-1]),
                        value=stagerows.encode(dropped),
                    ),
                )

            return batch.Batch(derive=(derive,))

        return plan

    def folders_without_table(self, after: str) -> tuple[list[str], str | None]:
        """Return some folders whose table does not exist and cannot be restored.

        after: "", or what an earlier call returned with its folders; None means that these are the
        last ones.
        """
        try:
            page = self._objects.list(BUCKET, prefix=TABLES, delimiter="/", start_after=after)
        except storage_errors.NoSuchBucket:
            return [], None
        with self._store.index.view() as view:
            places = self._places(view)
            folders = [
                folder
                for folder in page.common_prefixes
                if not _exists(view, places, folder[len(TABLES) : len(TABLES) + UUID_LENGTH])
            ]
        return folders, page.next_after

    def plan_removals(self) -> batch.Batch:
        """Return the removal of some rows whose table does not exist and cannot be restored."""
        start = stagerows.ALL_TABLES
        writes: list[batch.Write] = []
        with self._store.index.view() as view:
            places = self._places(view)
            for key, _ in view.scan(stagerows.STORE, start, stagerows.stop_after(start)):
                if not _exists(view, places, stagerows.table_of(key)):
                    writes.append(batch.Delete(store=stagerows.STORE, key=key))
                if len(writes) >= ROWS_AT_ONCE:
                    break
        return batch.Batch(writes=tuple(writes), makes_room=True)

    def _places(self, view: batch.Reading) -> list[records.Place]:
        """Return all table buckets; call it after the folders are listed, which may be newer."""
        places = []
        for info in self._buckets.list(hidden=True):
            if info.type == "table":
                with contextlib.suppress(catalog_errors.NoSuchWarehouse):
                    places.append(self._store.place(info.name, view))
        return places

    def _has_files(self, prefix: str) -> bool:
        try:
            return bool(self._objects.list(BUCKET, prefix=prefix, max_keys=1).objects)
        except storage_errors.NoSuchBucket:
            return False


def _first_prefix(object_uuid: str) -> str:
    return f"{TABLES}{object_uuid}/"


def _prefix(reading: batch.Reading, object_uuid: str) -> str:
    value = reading.get(stagerows.STORE, stagerows.table_key(object_uuid))
    if value is None:
        return _first_prefix(object_uuid)
    return stagerows.decode(value, stagerows.TableStageRow).prefix


def _put(object_uuid: str, prefix: str) -> batch.Put:
    return batch.Put(
        store=stagerows.STORE,
        key=stagerows.table_key(object_uuid),
        value=stagerows.encode(stagerows.TableStageRow(prefix=prefix)),
    )


def _exists(view: batch.Reading, places: Sequence[records.Place], object_uuid: str) -> bool:
    """Return whether a table exists or can be restored; what is no uuid may be anything."""
    try:
        return any(departures.exists_or_is_kept(view, place, object_uuid) for place in places)
    except ValueError:
        return True
