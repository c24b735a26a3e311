"""engine: changes of tables that wait, and the one commit that makes all of them.

A change of files yields a new value of its table: the snapshot's manifests are written, the
metadata is in memory, and no pointer names them. Reading that value gives the committed rows and
the changes. `commit` puts the snapshots of all tables in one index transaction; `discard` removes
what was written.

A table may be committed by others meanwhile. Then its changes are built again on the new state:

- Added rows need nothing of the old state.
- A change that removes files needs them: each must still be live, and no delete file may have been
  added, since the change rewrote rows that such a file would delete.
- A change that depends on rows that are not there (MERGE that inserts) needs the same snapshot.
- A change that forgets what was loaded (`catalog.loads`) needs that no source was loaded since: the
  rows of that source would stay, and be loaded again.
- The current schema must be the one for which the rows were checked, or one that differs in
  nothing that rows have to fit. Columns that a change adds are added to it, unless another writer
  has added the same.

Otherwise that is a conflict, and RequirementFailed is raised. Rows that others add meanwhile stay,
also beside a change that removed all files of its time. Never opens a data file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import msgspec

from catalog import (
    appends,
    commits,
    errors,
    files,
    holds,
    idents,
    loads,
    owners,
    receipts,
    records,
    scans,
    tables,
    unnamed_files,
)
from catalog.commits import LoadedTable
from catalog.metadata import errors as metadata_errors
from catalog.metadata import updates
from catalog.metadata.model import MAIN_BRANCH, TableMetadata
from server.access import model as access_model
from storage import model

ATTEMPTS_MAX: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingTable:
    """A table with changes that are not committed.

    base: the committed state below them. table: the state after them; its data are base's.
    updates: of the table's columns. snapshots: one for each change. written: the files of these
    snapshots. outdated: files that were written for an earlier base. unnamed: files of the changes,
    and of their snapshots, that the commit is to name; no statement reads such a table.
    """

    base: LoadedTable
    table: LoadedTable
    changes: tuple[appends.FileChange, ...] = ()
    updates: tuple[dict[str, Any], ...] = ()
    snapshots: tuple[Mapping[str, Any], ...] = ()
    written: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    unnamed: tuple[unnamed_files.UnnamedFile, ...] = ()

    @property
    def ident(self) -> idents.TableIdent:
        return self.base.ident


def unchanged(loaded: LoadedTable) -> PendingTable:
    """Return a committed table with no changes yet."""
    return PendingTable(base=loaded, table=loaded)


Fits: TypeAlias = Callable[[TableMetadata, TableMetadata], bool]
"""Says whether rows that were written for the schema of one state of a table fit the next one."""


class Staging:
    """Builds pending tables and commits them. Stateless."""

    def __init__(
        self,
        *,
        tables: tables.Tables,
        appends: appends.Appends,
        files: files.Files,
        holds: holds.Holds,
        fits: Fits,
        now_ms: model.NowMs,
    ) -> None:
        self._tables = tables
        self._appends = appends
        self._files = files
        self._holds = holds
        self._fits = fits
        self._now_ms = now_ms

    async def add(
        self,
        pending: PendingTable,
        change: appends.FileChange,
        *,
        principal: access_model.Principal,
        unnamed: Sequence[unnamed_files.UnnamedFile] = (),
        names_at_commit: bool = False,
    ) -> PendingTable:
        """Return the table with one more change. principal: its writer.

        unnamed, names_at_commit: as in `Appends.build`; then the table takes no further change.
        Raises as `Appends.commit_files` does for the change's files.
        """
        assert not pending.unnamed, "a snapshot that is not written cannot be built upon"
        built = await self._appends.build(
            pending.table,
            change,
            principal=principal,
            unnamed=unnamed,
            names_at_commit=names_at_commit,
        )
        try:
            metadata = await self._apply(pending, built)
        except BaseException:
            await commits.to_the_end(self.remove(built.files, ident=pending.ident))
            raise
        bucket = pending.ident.table_bucket
        self._holds.add(bucket, (*built.files, *(file.file_path for file in change.added)))
        return replace(
            pending,
            table=msgspec.structs.replace(pending.table, metadata=metadata),
            changes=(*pending.changes, change),
            updates=(*pending.updates, *built.updates),
            snapshots=(*pending.snapshots, built.snapshot),
            written=(*pending.written, *built.files),
            unnamed=built.unnamed,
        )

    async def take_back(self, after: PendingTable, before: PendingTable | None) -> None:
        """Undo `add`: remove what was written for the changes that after has and before has not.

        Their data files stay, and the sweep may free them.
        """
        count = 0 if before is None else len(before.changes)
        written = set() if before is None else set(before.written)
        for change in after.changes[count:]:
            added = (file.file_path for file in change.added)
            self._holds.release(after.ident.table_bucket, added)
        await self.remove((uri for uri in after.written if uri not in written), ident=after.ident)

    async def _apply(self, pending: PendingTable, built: appends.Built) -> TableMetadata:
        listed = (*built.updates, *appends.updates_of(MAIN_BRANCH, built.snapshot))

        def apply() -> TableMetadata:
            return updates.apply_parts(
                pending.table.metadata,
                [updates.Part(requirements=(), updates=listed)],
                now_ms=self._now_ms(),
                base_location=None,
            )

        large = len(pending.base.data) > commits.LARGE_METADATA_BYTES
        return await commits.run(apply, large=large)

    async def rebased(
        self, pending: PendingTable, onto: LoadedTable, *, principal: access_model.Principal
    ) -> PendingTable:
        """Return the changes on a newer committed state of their table.

        The files of the old state stay, for statements that read it. Raises RequirementFailed if
        the changes do not fit the new state, ColumnsDiffer if its columns have changed.
        """
        base = pending.base
        if onto.pointer.metadata_location == base.pointer.metadata_location:
            return pending
        _check_same_table(base, onto.pointer)
        same_schema = onto.metadata.current_schema_id == base.metadata.current_schema_id
        if not same_schema and not self._fits(base.metadata, onto.metadata):
            error_type = metadata_errors.ColumnsDiffer
            raise _conflict(base.ident, "its columns have changed", error_type)
        heads = {scans.head_of(each.metadata) for each in (base, onto)}
        if len(heads) > 1 and any(change.needs_head for change in pending.changes):
            raise _conflict(base.ident, "rows were added or changed")
        forgets = any(change.summary.get(loads.MODE_KEY) == "replace" for change in pending.changes)
        if forgets and loads.any_since(base.metadata, onto.metadata):
            raise _conflict(base.ident, "files were loaded into it")
        if any(change.reads for change in pending.changes):
            before, now = [
                await self._appends.delete_manifests(each, principal=principal)
                for each in (base, onto)
            ]
            if before != now:
                raise _conflict(base.ident, "rows of it were deleted")
        moved = replace(unchanged(onto), outdated=(*pending.outdated, *pending.written))
        added = {file.file_path for change in pending.changes for file in change.added}
        try:
            for change in pending.changes:
                moved = await self.add(
                    moved,
                    change,
                    principal=principal,
                    unnamed=[file for file in pending.unnamed if file.uri in added],
                    names_at_commit=bool(pending.unnamed),
                )
        except BaseException as error:
            await commits.to_the_end(self.remove(moved.written, ident=base.ident))
            if isinstance(error, errors.InvalidCatalogRequest):
                raise _conflict(base.ident, str(error)) from error
            raise
        return moved

    async def commit(
        self,
        pending: Sequence[PendingTable],
        *,
        principal: access_model.Principal,
        via: str,
        judge: owners.Judge,
        receipt: receipts.Receipt | None = None,
        keeps_added: bool = False,
    ) -> tuple[LoadedTable, ...]:
        """Commit all changes of several tables, or none.

        judge: called for each table, also inside the transaction. If the commit certainly failed,
        all files of the changes are removed; with keeps_added not those that they add. A started
        commit runs to its end although the caller is cancelled. Raises RequirementFailed for a
        conflict, and as `Commits.commit` does.
        """
        running = asyncio.ensure_future(
            self._commit(
                pending,
                principal=principal,
                via=via,
                judge=judge,
                receipt=receipt,
                keeps_added=keeps_added,
            )
        )
        return await commits.outcome_of(running)

    async def _commit(
        self,
        pending: Sequence[PendingTable],
        *,
        principal: access_model.Principal,
        via: str,
        judge: owners.Judge,
        receipt: receipts.Receipt | None,
        keeps_added: bool,
    ) -> tuple[LoadedTable, ...]:
        current = {each.ident: each for each in pending}

        def check(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            judge(place, ident, pointer)
            _check_same_table(current[ident].base, pointer)

        def check_unmoved(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            adds_columns = bool(current[ident].updates)
            base = current[ident].base.pointer
            (owners.unmoved(check, base) if adds_columns else check)(place, ident, pointer)

        try:
            for number in range(1, ATTEMPTS_MAX + 1):
                for ident, each in current.items():
                    loaded = await self._tables.fetch(ident)
                    check(self._tables.place(ident), ident, loaded.pointer)
                    current[ident] = await self.rebased(each, loaded, principal=principal)
                try:
                    committed = await self._tables.commit_many(
                        [self._table_change(each) for each in current.values()],
                        by=principal.arn,
                        via=via,
                        judge=check_unmoved,
                        receipt=receipt,
                        naming=self._appends.naming(
                            [file for each in current.values() for file in each.unnamed]
                        ),
                    )
                except (metadata_errors.RequirementFailed, metadata_errors.StaleSequenceNumber):
                    if number == ATTEMPTS_MAX:
                        raise
                    continue
                break
        except (errors.CommitStateUnknown, asyncio.CancelledError):
            for each in current.values():
                self._release(each)
            raise  # the changes may be committed: every file stays
        except BaseException:
            for each in current.values():
                await self.discard(each, keeps_added=keeps_added)
            raise
        for each in current.values():
            self._release(each)
            await self.remove(each.outdated, ident=each.ident)
        return committed

    def _release(self, pending: PendingTable) -> None:
        """Hold the files of changes no longer: no change waits for its commit."""
        added = (file.file_path for change in pending.changes for file in change.added)
        for uris in (added, pending.written, pending.outdated):
            self._holds.release(pending.ident.table_bucket, uris)

    def _table_change(self, pending: PendingTable) -> tables.TableChange:
        """Return the commit of a table's changes; its snapshots have the time of the commit."""
        metadata = pending.base.metadata
        now_ms = max(self._now_ms(), metadata.last_updated_ms)
        stamped = [{**snapshot, "timestamp-ms": now_ms} for snapshot in pending.snapshots]
        adding = [appends.updates_of(MAIN_BRANCH, each) for each in stamped]
        return tables.TableChange(
            ident=pending.ident,
            requirements=[
                {"type": "assert-table-uuid", "uuid": metadata.table_uuid},
                {
                    "type": "assert-ref-snapshot-id",
                    "ref": MAIN_BRANCH,
                    "snapshot-id": scans.head_of(metadata),
                },
                {
                    "type": "assert-current-schema-id",
                    "current-schema-id": metadata.current_schema_id,
                },
            ],
            updates=[
                *pending.updates,
                *(add for add, _ in adding),
                *(move for _, move in adding[-1:]),
            ],
        )

    async def discard(self, pending: PendingTable, *, keeps_added: bool = False) -> None:
        """Remove the files of changes that will not be committed.

        keeps_added: not those that the changes add.
        """
        self._release(pending)
        added = [file.file_path for change in pending.changes for file in change.added]
        uris = (*pending.outdated, *pending.written, *(() if keeps_added else added))
        await self.remove(uris, ident=pending.ident)

    async def remove(self, uris: Iterable[str], *, ident: idents.TableIdent) -> None:
        """Remove files that no commit names and no change needs."""
        unique = list(dict.fromkeys(uris))
        self._holds.release(ident.table_bucket, unique)
        for uri in unique:
            await self._files.remove(uri, table_bucket=ident.table_bucket)


def _check_same_table(base: LoadedTable, pointer: records.Pointer | None) -> None:
    """Raise NoSuchTable if the name has another table now, or none."""
    if pointer is None or pointer.object_uuid != base.pointer.object_uuid:
        raise errors.NoSuchTable(f"Table does not exist: {base.ident.dotted()}")


def _conflict(
    ident: idents.TableIdent,
    reason: str,
    error_type: type[metadata_errors.RequirementFailed] = metadata_errors.RequirementFailed,
) -> metadata_errors.RequirementFailed:
    return error_type(f"Requirement failed: {ident.dotted()} was changed in conflict: {reason}")
