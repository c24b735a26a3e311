"""engine: the maintenance of tables that is due, by their s3tables settings.

A check looks at every table whose metadata changed since the last, or of which a snapshot has aged
out since. Snapshots are expired here, by a commit like any other; the sweep frees their files.
Compaction is left to Spark: a check returns the tables that need it, and reads a table's manifests
only if the snapshot's summary leaves it open. Maintenance yields to every writer: a commit that
comes first makes it start again at the next check.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from catalog import errors as catalog_errors
from catalog import idents, namespaces, readers, records, rights, scans, store, tables
from catalog.metadata import errors as metadata_errors
from jobs import credentials, rows, thresholds
from jobs import settings as upkeep_settings
from jobs.settings import TableUpkeep
from server.access import arns
from storage import batch
from storage import errors as storage_errors

FILES_MAX: Final = 100_000
"""Data files of a snapshot that are looked at; a table with more is compacted by its mean size."""
EXPIRED_AT_ONCE: Final = 1_000
"""Snapshots that one commit removes."""
TABLES_AT_ONCE: Final = 50
"""Tables that are passed over between two turns of the event loop."""
PAUSE_MS: Final = 900_000
PAUSE_MS_MAX: Final = 86_400_000
"""The pause after a failed task of a table; it doubles with each further one."""
MIB: Final = 1024 * 1024

_JOBS: Final = batch.Store.JOBS


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """A table that was looked at: its metadata and settings then. next_at_ms: when a snapshot
    of it ages out."""

    metadata_location: str | None
    upkeep: TableUpkeep
    next_at_ms: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DueCompaction:
    """A table to compact. files: how many data files would be rewritten. seen: the table then."""

    ident: idents.TableIdent
    object_uuid: str
    bucket_id: int
    account: str
    target_mib: int
    strategy: str
    files: int
    seen: _Seen


class Upkeep:
    """The checks. Mutable: it remembers the tables in which nothing was due."""

    def __init__(
        self,
        *,
        store: store.CatalogStore,
        namespaces: namespaces.Namespaces,
        tables: tables.Tables,
        scans: scans.Scans,
        reader_of: Callable[[tables.LoadedTable], readers.Reader],
        account: str,
    ) -> None:
        self._store = store
        self._namespaces = namespaces
        self._tables = tables
        self._scans = scans
        self._reader_of = reader_of
        self._account = account
        self._seen: dict[tuple[int, str], _Seen] = {}
        self._log = logging.getLogger("boathouse.jobs")

    async def check(self) -> list[DueCompaction]:
        """Expire snapshots that are due, and return the tables to compact, the worst first."""
        due: list[DueCompaction] = []
        present: dict[tuple[int, str], _Seen] = {}
        count = 0
        for bucket in [each for each in self._store.buckets.list() if each.type == "table"]:
            uuids: set[str] = set()
            try:
                for ident in self._idents(bucket.name):
                    count += 1
                    if count % TABLES_AT_ONCE == 0:
                        await asyncio.sleep(0)
                    due += await self._check_table(ident, uuids, present)
            except catalog_errors.CatalogError:
                continue  # the table bucket was deleted meanwhile, or a namespace of it
            await self._forget_dropped(bucket.bucket_id, uuids)
        self._seen = present
        return sorted(due, key=lambda each: each.files, reverse=True)

    async def note(self, table: DueCompaction, *, started_at_ms: int, failure: str) -> None:
        """Store how a compaction ended. One that changed nothing is due after a change alone."""
        await self._note(table.bucket_id, table.object_uuid, "compaction", started_at_ms, failure)
        with contextlib.suppress(catalog_errors.CatalogError):
            pointer = self._tables.pointer(table.ident)
            is_same = pointer.object_uuid == table.object_uuid and not failure
            if is_same and pointer.metadata_location == table.seen.metadata_location:
                self._seen[table.bucket_id, table.object_uuid] = table.seen

    def is_wanted(self, table: DueCompaction) -> bool:
        """Return whether a table that was due is still there, and its settings ask for it."""
        try:
            pointer = self._tables.pointer(table.ident)
        except catalog_errors.CatalogError:
            return False
        upkeep = upkeep_settings.read(self._store.index, table.bucket_id, table.object_uuid)
        return pointer.object_uuid == table.object_uuid and upkeep == table.seen.upkeep

    def _idents(self, table_bucket: str) -> Iterator[idents.TableIdent]:
        waiting: list[idents.Namespace] = list(self._namespaces.list(table_bucket))
        while waiting:
            namespace = waiting.pop()
            waiting += self._namespaces.list(table_bucket, namespace)
            for name in self._tables.names(table_bucket, namespace):
                yield idents.TableIdent(table_bucket=table_bucket, namespace=namespace, name=name)

    async def _check_table(
        self,
        ident: idents.TableIdent,
        uuids: set[str],
        present: dict[tuple[int, str], _Seen],
    ) -> list[DueCompaction]:
        try:
            place, pointer = self._tables.place(ident), self._tables.pointer(ident)
        except catalog_errors.CatalogError:
            return []
        uuids.add(pointer.object_uuid.replace("-", ""))
        key, now_ms = (place.bucket_id, pointer.object_uuid), self._store.now_ms()
        upkeep = upkeep_settings.read(self._store.index, place.bucket_id, pointer.object_uuid)
        seen = self._seen.get(key)
        if (
            seen is not None
            and (seen.metadata_location, seen.upkeep) == (pointer.metadata_location, upkeep)
            and (seen.next_at_ms is None or seen.next_at_ms > now_ms)
        ):
            present[key] = seen
            return []
        if pointer.metadata_location is None:
            return []
        next_at_ms: int | None = None
        due: list[DueCompaction] = []
        try:
            loaded = await self._tables.fetch(ident)
            if loaded.pointer.object_uuid != pointer.object_uuid:
                return []
            if upkeep.snapshots_enabled:
                next_at_ms, loaded = await self._expire(place, loaded, upkeep, now_ms)
            if upkeep.compaction_enabled:
                due = await self._compaction(place, loaded, upkeep, next_at_ms)
        except (
            catalog_errors.CatalogError,
            metadata_errors.MetadataError,
            storage_errors.StorageError,
        ) as error:
            self._log.warning("maintenance passes over %s: %s", ident.dotted(), error)
            return []
        except Exception as error:  # noqa: BLE001 - one table keeps no other from maintenance
            self._log.warning("maintenance failed at %s", ident.dotted(), exc_info=error)
            return []
        if due and self._waits(place.bucket_id, pointer.object_uuid, "compaction", now_ms):
            return []
        if not due:
            present[key] = _Seen(
                metadata_location=loaded.pointer.metadata_location,
                upkeep=upkeep,
                next_at_ms=next_at_ms,
            )
        return due

    async def _expire(
        self,
        place: records.Place,
        loaded: tables.LoadedTable,
        upkeep: TableUpkeep,
        now_ms: int,
    ) -> tuple[int | None, tables.LoadedTable]:
        """Remove a table's expired snapshots; return when the next one expires, and the table."""
        metadata, object_uuid = loaded.metadata, loaded.pointer.object_uuid
        if len(metadata.snapshots) <= upkeep.snapshots_min:
            return None, loaded
        if self._waits(place.bucket_id, object_uuid, "snapshots", now_ms):
            return now_ms, loaded

        def decide() -> thresholds.SnapshotExpiry:
            snapshots = [
                each for part in metadata.snapshots.parts() for each in msgspec.json.decode(part)
            ]
            return thresholds.expiry(
                snapshots,
                metadata.refs,
                metadata.properties,
                snapshots_min=upkeep.snapshots_min,
                age_ms=upkeep.age_hours * thresholds.HOUR_MS,
                now_ms=now_ms,
            )

        expiry = await asyncio.to_thread(decide)
        failure, is_overtaken = "", False
        for start in range(0, len(expiry.snapshot_ids), EXPIRED_AT_ONCE):
            snapshot_ids = list(expiry.snapshot_ids[start : start + EXPIRED_AT_ONCE])
            try:
                loaded = await self._remove(loaded, place, snapshot_ids, upkeep)
            except (metadata_errors.RequirementFailed, catalog_errors.CommitFailed):
                is_overtaken = True
                break
            except (catalog_errors.CatalogError, metadata_errors.MetadataError) as error:
                failure = str(error) or type(error).__name__
                break
        if expiry.snapshot_ids and not is_overtaken:
            await self._note(place.bucket_id, object_uuid, "snapshots", now_ms, failure)
        return (now_ms if failure or is_overtaken else expiry.next_at_ms), loaded

    async def _remove(
        self,
        loaded: tables.LoadedTable,
        place: records.Place,
        snapshot_ids: list[int],
        upkeep: TableUpkeep,
    ) -> tables.LoadedTable:
        """Commit that snapshots are removed, unless the table or its settings have changed since
        they were looked at: a new branch or tag would go with its snapshot."""
        object_uuid = loaded.pointer.object_uuid

        def judge(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            if pointer is None or pointer.metadata_location != loaded.pointer.metadata_location:
                raise metadata_errors.RequirementFailed("the table has changed")
            if upkeep_settings.read(self._store.index, place.bucket_id, object_uuid) != upkeep:
                raise metadata_errors.RequirementFailed("the table's settings have changed")

        requirements = [{"type": "assert-table-uuid", "uuid": loaded.metadata.table_uuid}]
        return await self._tables.commit(
            loaded.ident,
            requirements,
            [{"action": "remove-snapshots", "snapshot-ids": snapshot_ids}],
            by=arns.user_arn(
                rights.account_of(place.bucket, self._account), credentials.MAINTENANCE
            ),
            via="maintenance",
            judge=judge,
        )

    async def _compaction(
        self,
        place: records.Place,
        loaded: tables.LoadedTable,
        upkeep: TableUpkeep,
        next_at_ms: int | None,
    ) -> list[DueCompaction]:
        """Return the compaction of a table, if it is due."""
        metadata = loaded.metadata
        snapshot = metadata.current_snapshot()
        target_bytes = upkeep.target_mib * MIB
        if snapshot is None or metadata.current_snapshot_id is None:
            return []
        summary: Mapping[str, Any] = snapshot.get("summary") or {}
        if not thresholds.may_have_small_files(summary, target_bytes=target_bytes):
            return []
        data_files = await self._scans.data_files(
            self._reader_of(loaded), snapshot_id=metadata.current_snapshot_id, files_max=FILES_MAX
        )
        if data_files is None:
            count = thresholds.files_by_mean(summary, target_bytes=target_bytes)
        else:
            count = await asyncio.to_thread(
                thresholds.files_to_rewrite, data_files, target_bytes=target_bytes
            )
        object_uuid = loaded.pointer.object_uuid
        if count < thresholds.REWRITTEN_MIN:
            return []
        return [
            DueCompaction(
                ident=loaded.ident,
                object_uuid=object_uuid,
                bucket_id=place.bucket_id,
                account=rights.account_of(place.bucket, self._account),
                target_mib=upkeep.target_mib,
                strategy=upkeep.strategy,
                files=count,
                seen=_Seen(
                    metadata_location=loaded.pointer.metadata_location,
                    upkeep=upkeep,
                    next_at_ms=next_at_ms,
                ),
            )
        ]

    # What is stored of the tasks.

    def _waits(self, bucket_id: int, object_uuid: str, task: rows.Task, now_ms: int) -> bool:
        """Return whether a task failed, and is not to be tried again yet."""
        row = rows.find_maintenance(self._store.index, bucket_id, object_uuid, task)
        return row is not None and row.retry_at_ms > now_ms

    async def _note(
        self, bucket_id: int, object_uuid: str, task: rows.Task, started_at_ms: int, failure: str
    ) -> None:
        key, now_ms = rows.maintenance_key(bucket_id, object_uuid, task), self._store.now_ms()

        def decide(reading: batch.Reading) -> batch.Decided[None]:
            failures = 0
            if failure:
                stored = reading.get(_JOBS, key)
                before = 0
                if stored is not None:
                    before = records.decode(stored, rows.MaintenanceRow).failures
                failures = before + 1
            pause_ms = min(PAUSE_MS * 2 ** min(failures - 1, 30), PAUSE_MS_MAX) if failures else 0
            row = rows.MaintenanceRow(
                started_at_ms=started_at_ms,
                ended_at_ms=now_ms,
                failure=failure,
                failures=failures,
                retry_at_ms=now_ms + int(pause_ms) if failures else 0,
            )
            put = batch.Put(store=_JOBS, key=key, value=records.encode(row))
            return batch.Decided(result=None, batch=batch.Batch(writes=(put,)))

        await self._store.index.decide(decide)

    async def _forget_dropped(self, bucket_id: int, uuids: set[str]) -> None:
        """Remove the rows of tables that the bucket does not have any more."""
        prefix = rows.maintenance_range(bucket_id)
        with self._store.index.view() as view:
            keys = [
                key
                for key, _ in view.scan(_JOBS, prefix, records.stop_after(prefix))
                if rows.uuid_of(key) not in uuids
            ]
        for start in range(0, len(keys), EXPIRED_AT_ONCE):
            writes = [
                batch.Delete(store=_JOBS, key=key) for key in keys[start : start + EXPIRED_AT_ONCE]
            ]
            await self._store.index.commit(batch.Batch(writes=tuple(writes), makes_room=True))
