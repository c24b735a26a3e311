"""engine: the maintenance of tables that is due, by their s3tables settings.

A check looks at every table whose metadata changed since the last, or of which a snapshot has aged
out since. Snapshots are expired here, by a commit like any other; the sweep frees their files.
The rest is left to Spark: a check returns one task for each table that needs one, and reads a
table's manifests only if the snapshot's summary leaves it open. Maintenance yields to every writer:
a commit that comes first makes it start again at the next check.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import msgspec

from catalog import errors as catalog_errors
from catalog import idents, maintenance, namespaces, readers, records, rights, scans, store, tables
from catalog.metadata import errors as metadata_errors
from jobs import credentials, rows, runs, thresholds
from jobs import settings as upkeep_settings
from jobs.settings import TableUpkeep
from server.access import arns
from storage import batch
from storage import errors as storage_errors

FILES_MAX: Final = 100_000
"""Files of a snapshot that are looked at; a table with more is compacted by its mean size."""
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
    of it ages out. fruitless: tasks that have changed nothing since. is_settled: nothing was
    due."""

    metadata_location: str | None
    upkeep: TableUpkeep
    bucket_settings: Mapping[str, Any]
    next_at_ms: int | None
    fruitless: frozenset[rows.Task] = frozenset()
    is_settled: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DueTask:
    """A table and what is to be done. options: of the job's command, beside the table. files: how
    many files would be rewritten. seen: the table then."""

    task: rows.Task
    ident: idents.TableIdent
    object_uuid: str
    bucket_id: int
    account: str
    options: tuple[str, ...] = ()
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
        runs: runs.Runs,
    ) -> None:
        self._store = store
        self._runs = runs
        self._namespaces = namespaces
        self._tables = tables
        self._scans = scans
        self._reader_of = reader_of
        self._account = account
        self._seen: dict[tuple[int, str], _Seen] = {}
        self._log = logging.getLogger("boathouse.jobs")

    async def check(self) -> list[DueTask]:
        """Expire snapshots that are due, and return what else is to be done, the worst first."""
        due: list[DueTask] = []
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

    async def note(self, due: DueTask, *, started_at_ms: int, failure: str) -> None:
        """Store how a task ended. One that changed nothing is due after a change alone."""
        await self._note(due.bucket_id, due.object_uuid, due.task, started_at_ms, failure)
        with contextlib.suppress(catalog_errors.CatalogError):
            pointer = self._tables.pointer(due.ident)
            is_same = pointer.object_uuid == due.object_uuid and not failure
            if is_same and pointer.metadata_location == due.seen.metadata_location:
                self._seen[due.bucket_id, due.object_uuid] = replace(
                    due.seen, fruitless=due.seen.fruitless | {due.task}
                )

    def is_wanted(self, due: DueTask) -> bool:
        """Return whether a table that was due is still there, and its settings ask for it."""
        try:
            place, pointer = self._tables.place(due.ident), self._tables.pointer(due.ident)
        except catalog_errors.CatalogError:
            return False
        upkeep = upkeep_settings.read(self._store.index, due.bucket_id, due.object_uuid)
        is_same = (upkeep, place.bucket.settings) == (due.seen.upkeep, due.seen.bucket_settings)
        return is_same and pointer.object_uuid == due.object_uuid

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
    ) -> list[DueTask]:
        try:
            place, pointer = self._tables.place(ident), self._tables.pointer(ident)
        except catalog_errors.CatalogError:
            return []
        uuids.add(pointer.object_uuid.replace("-", ""))
        key, now_ms = (place.bucket_id, pointer.object_uuid), self._store.now_ms()
        upkeep = upkeep_settings.read(self._store.index, place.bucket_id, pointer.object_uuid)
        seen = self._seen.get(key)
        if seen is not None and (seen.metadata_location, seen.upkeep, seen.bucket_settings) != (
            pointer.metadata_location,
            upkeep,
            place.bucket.settings,
        ):
            seen = None
        if (
            seen is not None
            and seen.is_settled
            and (seen.next_at_ms is None or seen.next_at_ms > now_ms)
        ):
            present[key] = seen
            return []
        if pointer.metadata_location is None:
            return []
        next_at_ms: int | None = None
        try:
            loaded = await self._tables.fetch(ident)
            if loaded.pointer.object_uuid != pointer.object_uuid:
                return []
            if upkeep.snapshots_enabled:
                next_at_ms, loaded = await self._expire(place, loaded, upkeep, now_ms)
            looked_at = _Seen(
                metadata_location=loaded.pointer.metadata_location,
                upkeep=upkeep,
                bucket_settings=place.bucket.settings,
                next_at_ms=next_at_ms,
                fruitless=frozenset() if seen is None else seen.fruitless,
            )
            due, is_waiting = await self._first_due(place, loaded, looked_at, now_ms)
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
        if due is not None:
            return [due]
        present[key] = replace(looked_at, is_settled=not is_waiting)
        return []

    async def _first_due(
        self, place: records.Place, loaded: tables.LoadedTable, seen: _Seen, now_ms: int
    ) -> tuple[DueTask | None, bool]:
        """Return the task of a table that comes first, and whether one that is due has failed and
        waits."""
        if not seen.upkeep.compaction_enabled and not seen.upkeep.snapshots_enabled:
            return None, False  # every task would change a table that is to stay as it is
        is_waiting = False
        for task, look in (
            ("compaction", self._compaction),
            ("manifests", self._manifests),
            ("statistics", self._statistics),
        ):
            name = cast(rows.Task, task)
            if name in seen.fruitless:
                continue
            wanted = await look(place, loaded, seen.upkeep)
            if wanted is None:
                continue
            if self._waits(place.bucket_id, loaded.pointer.object_uuid, name, now_ms):
                is_waiting = True
                continue
            files, options = wanted
            due = DueTask(
                task=name,
                ident=loaded.ident,
                object_uuid=loaded.pointer.object_uuid,
                bucket_id=place.bucket_id,
                account=rights.account_of(place.bucket, self._account),
                options=options,
                files=files,
                seen=seen,
            )
            return due, is_waiting
        return None, is_waiting

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
        failure, is_overtaken, before = "", False, len(metadata.snapshots)
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
        kept = len(loaded.metadata.snapshots)
        if kept < before or failure:
            answer = {"expired_snapshots": before - kept, "kept_snapshots": kept}
            await self._runs.record_expiry(
                name=object_uuid,
                target=f"{loaded.ident.table_bucket}.{loaded.ident.dotted()}",
                by=self._owner_of(place),
                started_at_ms=now_ms,
                error=failure,
                answer=json.dumps(answer),
            )
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
            by=self._owner_of(place),
            via="maintenance",
            judge=judge,
        )

    def _owner_of(self, place: records.Place) -> str:
        """Return the ARN of the user that maintains a table bucket's tables."""
        account = rights.account_of(place.bucket, self._account)
        return arns.user_arn(account, credentials.MAINTENANCE)

    # What is due. Each returns the number of files, and options of the job's command; or None.

    async def _compaction(
        self, place: records.Place, loaded: tables.LoadedTable, upkeep: TableUpkeep
    ) -> tuple[int, tuple[str, ...]] | None:
        metadata = loaded.metadata
        snapshot = metadata.current_snapshot()
        target_bytes = upkeep.target_mib * MIB
        if not upkeep.compaction_enabled or snapshot is None:
            return None
        summary: Mapping[str, Any] = snapshot.get("summary") or {}
        if not thresholds.may_need_compaction(summary, target_bytes=target_bytes):
            return None
        tasks = await self._live_files(loaded)
        if tasks is None:
            count = thresholds.files_by_mean(summary, target_bytes=target_bytes)
        else:
            pairs = [(task.data_file, task.deletes) for task in tasks]
            count = await asyncio.to_thread(
                thresholds.files_to_rewrite, pairs, target_bytes=target_bytes
            )
        if count < thresholds.REWRITTEN_MIN:
            return None
        return count, (
            "--target-file-size-mib", str(upkeep.target_mib), "--strategy", upkeep.strategy,
        )  # fmt: skip

    async def _manifests(
        self, place: records.Place, loaded: tables.LoadedTable, upkeep: TableUpkeep
    ) -> tuple[int, tuple[str, ...]] | None:
        metadata = loaded.metadata
        snapshot = metadata.current_snapshot()
        manifests_max = maintenance.setting_of(
            maintenance.MANIFESTS_MAX, place.bucket.settings, metadata.properties
        )
        if not manifests_max or snapshot is None or metadata.current_snapshot_id is None:
            return None
        summary: Mapping[str, Any] = snapshot.get("summary") or {}
        if not thresholds.may_have_manifests(summary, manifests_max=manifests_max):
            return None
        reader = self._reader_of(loaded)
        count = thresholds.manifests_to_rewrite(
            await self._scans.manifests_of(reader, metadata.current_snapshot_id),
            metadata.properties,
            spec_id=metadata.default_spec_id,
            manifests_max=manifests_max,
        )
        return (count, ()) if count else None

    async def _statistics(
        self, place: records.Place, loaded: tables.LoadedTable, upkeep: TableUpkeep
    ) -> tuple[int, tuple[str, ...]] | None:
        metadata = loaded.metadata
        changes_max = maintenance.setting_of(
            maintenance.STATISTICS_SNAPSHOTS, place.bucket.settings, metadata.properties
        )
        if not changes_max or metadata.current_snapshot_id is None:
            return None
        with_statistics = {int(each["snapshot-id"]) for each in metadata.statistics}
        changes = await asyncio.to_thread(
            thresholds.changes_since_statistics,
            metadata.snapshot,
            metadata.current_snapshot_id,
            with_statistics,
            changes_max=changes_max,
        )
        return (1, ()) if changes >= changes_max else None

    async def _live_files(self, loaded: tables.LoadedTable) -> Sequence[scans.FileTask] | None:
        """Return the current data files with their delete files; None if there are more than
        FILES_MAX. No manifest is read if the manifest list gives the number."""
        snapshot_id = loaded.metadata.current_snapshot_id
        assert snapshot_id is not None, "it has a current snapshot"
        reader = self._reader_of(loaded)
        stated = sum(
            (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
            for manifest in await self._scans.manifests_of(reader, snapshot_id)
            if manifest.has_live_files
        )
        if stated > FILES_MAX:
            return None
        plan = await self._scans.plan(reader, snapshot_id=snapshot_id)
        return plan.tasks if len(plan.tasks) <= FILES_MAX else None

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
