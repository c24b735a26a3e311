"""engine: commits data files as a snapshot: writes manifests and a manifest list, then commits.

Added files go into new manifests (a fast append); a manifest with a removed file is rewritten
without it, and small ones are merged once there are many. A few small files are written by the
transaction of the commit itself; more of them are in the table's metadata folder before the commit
names them. An append that lost a race needs only a new manifest
list and tries again; a change that removes files is based on a snapshot, so a moved branch is a
conflict. Never opens a data file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from catalog import (
    commits,
    datatypes,
    errors,
    files,
    idents,
    manifest_encoding,
    manifests,
    new_columns,
    owners,
    readers,
    records,
    scans,
    summaries,
    tables,
    unnamed_files,
)
from catalog.commits import LoadedTable
from catalog.manifests import (
    Content,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from catalog.metadata import creation, specs, updates
from catalog.metadata import errors as metadata_errors
from catalog.metadata import properties as property_names
from catalog.metadata.model import MAIN_BRANCH, TableMetadata
from server.access import model as access_model
from storage import model

ATTEMPTS_MAX: Final = 20
MANIFEST_ENTRIES_MAX: Final = 8_000
SUMMARISED_HERE_MAX: Final = 2_000
"""Added and removed files that are counted on the event loop; more are in a thread."""
VALUES_HERE_MAX: Final = 1_000
"""Entries of a manifest that is written on the event loop, times one and the table's columns, whose
statistics they have; more are written in a thread."""
MERGE_ENABLED: Final = "commit.manifest-merge.enabled"
MERGE_COUNT_MIN: Final = "commit.manifest.min-count-to-merge"
MERGE_COUNT_MIN_DEFAULT: Final = 100
MERGE_TARGET_BYTES: Final = "commit.manifest.target-size-bytes"
MERGE_TARGET_BYTES_DEFAULT: Final = 8 * 1024 * 1024

_ROW_LINEAGE_MIN_FORMAT_VERSION: Final = 3
_SNAPSHOT_ID_BITS: Final = 63


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """The files that a snapshot adds and removes, and its branch.

    operation: append, overwrite, delete or replace. removed: the identities of live files, as
    `identity` returns them. needed: those of live files that it changes and leaves in the table.
    summary: further fields of the snapshot's summary. needs_head: what it
    adds depends on rows that are not there, so it fits no other snapshot than the one it has read.
    schema_id: of the table's schema for which the rows were checked, None if it is not known.
    columns: columns that the files have and the table may lack: the same commit adds them.
    """

    operation: str
    branch: str = MAIN_BRANCH
    added: tuple[DataFile, ...] = ()
    removed: frozenset[Any] = frozenset()
    needed: frozenset[Any] = frozenset()
    summary: Mapping[str, str] = field(default_factory=dict)
    needs_head: bool = False
    schema_id: int | None = None
    columns: new_columns.NewColumns | None = None

    @property
    def reads(self) -> bool:
        """Whether the change is only valid on the snapshot that its caller has read."""
        return (
            self.needs_head
            or bool(self.removed)
            or any(file.content != Content.DATA for file in self.added)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """A snapshot. files: those written for it alone. unnamed: those that wait for its commit.

    updates: of the table's columns, to be applied before the snapshot is added.
    """

    snapshot: dict[str, Any]
    files: tuple[str, ...]
    unnamed: tuple[unnamed_files.UnnamedFile, ...] = ()
    updates: tuple[dict[str, Any], ...] = ()


class Appends:
    """Commits content files to tables. Stateless except for its services."""

    def __init__(
        self,
        *,
        tables: tables.Tables,
        scans: scans.Scans,
        files: files.Files,
        readers: readers.Readers,
        now_ms: model.NowMs,
        new_id: model.NewId,
    ) -> None:
        self._tables = tables
        self._scans = scans
        self._files = files
        self._readers = readers
        self._now_ms = now_ms
        self._new_id = new_id

    async def commit_files(
        self,
        ident: idents.TableIdent,
        added: Sequence[DataFile],
        *,
        operation: str,
        removed: Sequence[DataFile] = (),
        based_on: int | None = None,
        branch: str = MAIN_BRANCH,
        summary: Mapping[str, str] | None = None,
        extra_updates: Sequence[Mapping[str, Any]] = (),
        staged: LoadedTable | None = None,
        schema_id: int | None = None,
        columns: new_columns.NewColumns | None = None,
        unnamed: Sequence[unnamed_files.UnnamedFile] = (),
        principal: access_model.Principal,
        via: str = "sql",
        judge: owners.Judge | None = None,
    ) -> LoadedTable:
        """Commit one snapshot that adds and removes these files; return the table after it.

        operation: append, overwrite, delete or replace. added: data and delete files, each of a
        spec of the table. removed: live files; deletion vectors of removed data files are removed
        with them. based_on: the snapshot that the caller has read, None if there was none; if files
        are removed or rows deleted, it must still be the branch's head. summary: further fields of
        the snapshot's summary. extra_updates: in the same commit, before the snapshot. staged: the
        result of a staged create; the commit then creates the table with its files. schema_id,
        columns: as in FileChange. unnamed: those of the added files that this commit is to name.
        principal: the writer, which also reads the table's files; manifests of other tables that it
        may not read stay as they are. judge: as in `Commits.commit`. Raises RequirementFailed if
        the branch moved, ColumnsDiffer if columns do not fit, MetadataFileMissing,
        ForeignFileRefused if such a manifest must be read, InvalidCatalogRequest for a file that is
        not live or fits no spec, and the errors of `Tables.commit`.
        """
        change = FileChange(
            operation=operation,
            branch=branch,
            added=tuple(added),
            removed=frozenset(identity(file) for file in removed),
            summary=summary or {},
            schema_id=schema_id,
            columns=columns,
        )
        attempt = _Attempt(
            files=self._files,
            scans=self._scans,
            new_id=self._new_id,
            ident=ident,
            by=principal.arn,
            unnamed=unnamed,
            names_at_commit=True,
        )
        for number in range(1, ATTEMPTS_MAX + 1):
            loaded = await self._tables.fetch(ident) if staged is None else staged
            if staged is None and judge is not None:  # before files are written below its location
                judge(self._tables.place(ident), ident, loaded.pointer)
            table = loaded.metadata
            head = scans.head_of(table, branch)
            try:
                if change.reads and head != based_on:
                    raise metadata_errors.RequirementFailed(
                        f"Requirement failed: branch {branch} has changed: expected id"
                        f" {based_on} != {head}"
                    )
                widening, widened = await self._widened(loaded, change)
                reader = self._readers.of(principal, widened)
                built = await attempt.build(reader, head, change, now_ms=self._now_ms())
            except BaseException:
                await commits.to_the_end(attempt.give_up())
                raise
            try:
                return await self._tables.commit(
                    ident,
                    _requirements(table, branch, head, creating=staged is not None),
                    [
                        *([] if staged is None else creation.creating_updates(table)),
                        *extra_updates,
                        *widening,
                        *updates_of(branch, built.snapshot),
                    ],
                    by=principal.arn,
                    via=via,
                    judge=owners.unmoved(judge or _permitted, loaded.pointer)
                    if widening
                    else judge,
                    naming=self.naming(built.unnamed),
                )
            except (metadata_errors.RequirementFailed, metadata_errors.StaleSequenceNumber):
                if change.reads or staged is not None or number == ATTEMPTS_MAX:
                    await attempt.give_up()
                    raise
                await attempt.forget(built.files)
            except errors.CommitStateUnknown:
                raise  # the snapshot may be committed: every file stays
            except (errors.CatalogError, metadata_errors.MetadataError):
                await attempt.give_up()
                raise
        raise AssertionError("the last attempt returns or raises")

    def naming(self, unnamed: Sequence[unnamed_files.UnnamedFile]) -> commits.Naming | None:
        """Return what a commit calls to plan the files that it names; None without any."""
        if not unnamed:
            return None
        return lambda now_ms: self._files.plan_names(unnamed, now_ms=now_ms)

    async def build(
        self,
        loaded: LoadedTable,
        change: FileChange,
        *,
        principal: access_model.Principal,
        unnamed: Sequence[unnamed_files.UnnamedFile] = (),
        names_at_commit: bool = False,
    ) -> Built:
        """Write the files of a snapshot on top of a state of a table, and commit nothing.

        loaded: the state; it may have snapshots that are not committed. files of the result are all
        files that were written. unnamed: those of the change's files that wait for the commit.
        names_at_commit: small files of the snapshot wait for it too; until then no statement can
        read the snapshot. Raises as `commit_files` does for the change's files.
        """
        attempt = _Attempt(
            files=self._files,
            scans=self._scans,
            new_id=self._new_id,
            ident=loaded.ident,
            by=principal.arn,
            unnamed=unnamed,
            names_at_commit=names_at_commit,
        )
        head = scans.head_of(loaded.metadata, change.branch)
        widening, widened = await self._widened(loaded, change)
        reader = self._readers.of(principal, widened)
        try:
            built = await attempt.build(reader, head, change, now_ms=self._now_ms())
        except BaseException:
            await commits.to_the_end(attempt.give_up())
            raise
        return Built(
            snapshot=built.snapshot,
            files=attempt.written,
            unnamed=built.unnamed,
            updates=tuple(widening),
        )

    async def _widened(
        self, loaded: LoadedTable, change: FileChange
    ) -> tuple[Sequence[dict[str, Any]], LoadedTable]:
        """Return the updates that add a change's columns, and the table with them.

        Raises ColumnsDiffer.
        """
        if change.columns is None:
            return (), loaded
        table = loaded.metadata
        adding = new_columns.updates_for(table, change.columns, schema_id=change.schema_id)
        if not adding:
            return (), loaded
        metadata = await commits.run(
            updates.apply_parts,
            table,
            [updates.Part(requirements=(), updates=adding)],
            now_ms=self._now_ms(),
            base_location=None,
            large=len(loaded.data) > commits.LARGE_METADATA_BYTES,
        )
        return adding, msgspec.structs.replace(loaded, metadata=metadata)

    async def live_files(
        self, loaded: LoadedTable, *, principal: access_model.Principal
    ) -> tuple[DataFile, ...]:
        """Return the data and delete files of a table's current snapshot.

        Raises as `Scans.plan` does.
        """
        head = scans.head_of(loaded.metadata)
        if head is None:
            return ()
        return await self._scans.live_files(self._readers.of(principal, loaded), snapshot_id=head)

    async def delete_manifests(
        self, loaded: LoadedTable, *, principal: access_model.Principal
    ) -> frozenset[str]:
        """Return the manifests of delete files that a table's current snapshot has."""
        head = scans.head_of(loaded.metadata)
        if head is None:
            return frozenset()
        listed = await self._scans.manifests_of(self._readers.of(principal, loaded), head)
        return frozenset(
            manifest.manifest_path
            for manifest in listed
            if manifest.content == ManifestContent.DELETES and manifest.has_live_files
        )


def _permitted(
    place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
) -> None:
    """Permit every change: for a caller with all rights."""


def _requirements(
    table: TableMetadata, branch: str, head: int | None, *, creating: bool
) -> list[dict[str, Any]]:
    if creating:
        return [{"type": "assert-create"}]
    return [
        {"type": "assert-table-uuid", "uuid": table.table_uuid},
        {"type": "assert-ref-snapshot-id", "ref": branch, "snapshot-id": head},
        {"type": "assert-current-schema-id", "current-schema-id": table.current_schema_id},
    ]


def _check_columns(table: TableMetadata, change: FileChange) -> None:
    """Raise ColumnsDiffer if the new rows do not fit the table's columns.

    After the rows were checked a column of theirs may have been dropped, and another one may have
    its name now; and a column may have become required. The files count their NULLs, unless the
    table keeps no metrics of the column.
    """
    current = table.current_schema()
    required = {field["id"]: field["name"] for field in current["fields"] if field["required"]}
    checked = _schema(table, change)
    if checked is not None and change.added:
        columns = datatypes.columns(current)
        for field_id, column in datatypes.columns(checked).items():
            if field_id not in columns:
                raise metadata_errors.ColumnsDiffer(
                    f"Requirement failed: column {column.full_name} was dropped while rows with it"
                    " were written"
                )
    strict = (
        set()
        if checked is None
        else {field["id"] for field in checked["fields"] if field["required"]}
    )
    for file in change.added:
        if file.content != Content.DATA:
            continue
        counts = file.metrics.null_value_counts or {}
        for field_id, name in required.items():
            unknown = checked is not None and field_id not in strict
            if counts.get(field_id, unknown):
                raise metadata_errors.ColumnsDiffer(
                    f"Requirement failed: column {name} has become required, and new rows have no"
                    " value in it"
                )


def _schema(table: TableMetadata, change: FileChange) -> Mapping[str, Any] | None:
    """Return the schema for which rows were checked; None if it is the current one or unknown."""
    if change.schema_id is None or change.schema_id == table.current_schema_id:
        return None
    for schema in table.schemas:
        if schema["schema-id"] == change.schema_id:
            return schema
    raise metadata_errors.ColumnsDiffer(
        "Requirement failed: the table has no longer the schema for which rows were written"
    )


def updates_of(branch: str, snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"action": "add-snapshot", "snapshot": snapshot},
        {
            "action": "set-snapshot-ref",
            "ref-name": branch,
            "type": "branch",
            "snapshot-id": snapshot["snapshot-id"],
        },
    ]


def identity(file: DataFile) -> tuple[str, int | None]:
    """Deletion vectors share files, so the path alone does not identify one."""
    return file.file_path, file.content_offset


class _Attempt:
    """The files that one call writes, over all its attempts.

    New manifests are written once for every attempt: sequence numbers are inherited. unnamed: the
    content files that wait for the commit.
    """

    def __init__(
        self,
        *,
        files: files.Files,
        scans: scans.Scans,
        new_id: model.NewId,
        ident: idents.TableIdent,
        by: str,
        unnamed: Sequence[unnamed_files.UnnamedFile],
        names_at_commit: bool,
    ) -> None:
        self._files = files
        self._scans = scans
        self._new_id = new_id
        self._ident = ident
        self._by = by
        self._snapshot_id = 0
        self._added: list[ManifestFile] | None = None
        self._written: list[str] = []
        self._unnamed = list(unnamed)
        self._names_at_commit = names_at_commit
        self._pending: list[tuple[str, bytes]] = []
        self._names = 0
        self._commit_id = _uuid_text(new_id())

    async def build(
        self, reader: readers.Reader, head: int | None, change: FileChange, *, now_ms: int
    ) -> Built:
        """Write the files of a snapshot of this change on top of head."""
        table = reader.table.metadata
        await commits.run(
            _check_columns, table, change, large=len(change.added) > SUMMARISED_HERE_MAX
        )
        while not self._snapshot_id or self._snapshot_id in table.snapshots:
            assert self._added is None, "manifests name the snapshot that adds them"
            self._snapshot_id = int(self._new_id(), 16) >> (128 - _SNAPSHOT_ID_BITS)
        if self._added is None:
            self._added = await commits.run(
                self._write_added, table, change.added, large=_are_many(table, change.added)
            )
        lasting = {file.uri for file in self._unnamed}
        lasting |= {uri for uri, _ in self._pending} | set(self._written)
        listed = () if head is None else await self._scans.manifests_of(reader, head)
        kept, removed = await self._without_removed(reader, listed, change)
        merged = await self._merged(reader, kept)
        totals = await self._totals(reader, head, listed)
        sequence_number = 0 if table.format_version == 1 else table.last_sequence_number + 1
        lineage = table.format_version >= _ROW_LINEAGE_MIN_FORMAT_VERSION
        data, row_ids = manifest_encoding.encode_manifest_list(
            [*self._added, *merged],
            format_version=table.format_version,
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=head,
            sequence_number=sequence_number,
            first_row_id=table.next_row_id if lineage else None,
            sync=self._sync(),
        )
        name = f"snap-{self._snapshot_id}-1-{_uuid_text(self._new_id())}.avro"
        location = self._queue(table, name, data)
        await self._write_pending()
        snapshot: dict[str, Any] = {
            "snapshot-id": self._snapshot_id,
            "timestamp-ms": max(now_ms, table.last_updated_ms),
            "manifest-list": location,
            "schema-id": table.current_schema_id,
            "summary": await commits.run(
                summaries.summarise,
                operation=change.operation,
                added=change.added,
                removed=removed,
                totals_before=totals,
                extra=change.summary,
                large=len(change.added) + len(removed) > SUMMARISED_HERE_MAX,
            ),
        }
        if head is not None:
            snapshot["parent-snapshot-id"] = head
        if table.format_version > 1:
            snapshot["sequence-number"] = sequence_number
        if lineage:
            snapshot["first-row-id"] = table.next_row_id
            snapshot["added-rows"] = row_ids
        written = tuple(uri for uri in self._written if uri not in lasting)
        unnamed = tuple(self._unnamed)
        self._unnamed = [file for file in unnamed if file.uri in lasting]
        return Built(snapshot=snapshot, files=written, unnamed=unnamed)

    @property
    def written(self) -> tuple[str, ...]:
        """The files that were written and not removed."""
        return tuple(self._written)

    # Manifests.

    def _write_added(self, table: TableMetadata, added: Sequence[DataFile]) -> list[ManifestFile]:
        groups: dict[tuple[int, ManifestContent], list[ManifestEntry]] = {}
        for file in added:
            _check_added(table, file)
            entry = ManifestEntry(
                status=Status.ADDED,
                snapshot_id=self._snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            groups.setdefault((file.spec_id, _manifest_content(file)), []).append(entry)
        written = []
        for (spec_id, content), entries in groups.items():
            for start in range(0, len(entries), MANIFEST_ENTRIES_MAX):
                part = entries[start : start + MANIFEST_ENTRIES_MAX]
                written.append(self._write_manifest(table, spec_id, content, part))
        return written

    async def _without_removed(
        self, reader: readers.Reader, listed: Iterable[ManifestFile], change: FileChange
    ) -> tuple[list[ManifestFile], list[DataFile]]:
        """Return the manifests to keep, with rewritten ones, and the removed files."""
        kept = [manifest for manifest in listed if manifest.has_live_files]
        if not change.removed and not change.needed:
            return kept, []
        missing = {*change.removed, *change.needed}
        removed: list[DataFile] = []
        manifests_kept = []
        data_first = sorted(kept, key=lambda manifest: manifest.content)
        gone_paths: set[str] = set()
        for manifest in data_first:
            await asyncio.sleep(0)
            entries = await self._scans.entries_of(manifest, reader)
            if change.needed:
                missing -= {identity(entry.data_file) for entry in entries}
            gone = [
                entry
                for entry in entries
                if identity(entry.data_file) in change.removed
                or entry.data_file.referenced_data_file in gone_paths
            ]
            if not gone:
                manifests_kept.append(manifest)
                continue
            removed += [entry.data_file for entry in gone]
            missing -= {identity(entry.data_file) for entry in gone}
            gone_paths |= {
                entry.data_file.file_path
                for entry in gone
                if entry.data_file.content == Content.DATA
            }
            manifests_kept.append(
                await commits.run(
                    self._rewritten,
                    reader.table.metadata,
                    manifest,
                    entries,
                    gone,
                    large=_are_many(reader.table.metadata, entries),
                )
            )
        if missing:
            path, _ = min(missing, key=str)
            raise errors.InvalidCatalogRequest(f"Cannot change {path}: it is not in the snapshot")
        return manifests_kept, removed

    def _rewritten(
        self,
        table: TableMetadata,
        manifest: ManifestFile,
        entries: Iterable[ManifestEntry],
        gone: Collection[ManifestEntry],
    ) -> ManifestFile:
        gone_identities = {identity(entry.data_file) for entry in gone}
        rewritten = [
            msgspec.structs.replace(
                entry,
                status=Status.DELETED,
                snapshot_id=self._snapshot_id,
            )
            if identity(entry.data_file) in gone_identities
            else msgspec.structs.replace(entry, status=Status.EXISTING)
            for entry in entries
        ]
        return self._write_manifest(table, manifest.partition_spec_id, manifest.content, rewritten)

    async def _merged(
        self, reader: readers.Reader, kept: Sequence[ManifestFile]
    ) -> list[ManifestFile]:
        """Return the manifests with runs of small data manifests merged, once there are many.

        Manifests that the writer may not read stay as they are.
        """
        table = reader.table.metadata
        if not property_names.switched_on(table.properties, MERGE_ENABLED, default=True):
            return list(kept)
        count_min = property_names.whole_number(
            table.properties, MERGE_COUNT_MIN, MERGE_COUNT_MIN_DEFAULT
        )
        target_bytes = property_names.whole_number(
            table.properties, MERGE_TARGET_BYTES, MERGE_TARGET_BYTES_DEFAULT
        )
        small: dict[int, list[ManifestFile]] = {}
        for manifest in kept:
            if (
                manifest.content == ManifestContent.DATA
                and manifest.sequence_number != manifests.UNASSIGNED
                and manifest.manifest_length < target_bytes // 2
                and (manifest.first_row_id is not None or table.format_version < 3)
                and reader.may_read(manifest.manifest_path)
            ):
                small.setdefault(manifest.partition_spec_id, []).append(manifest)
        merged = list(kept)
        for spec_id, group in small.items():
            if len(group) < max(count_min, 2):
                continue
            entries: list[ManifestEntry] = []
            for manifest in group:
                if len(entries) >= MANIFEST_ENTRIES_MAX:
                    break
                entries += await self._scans.entries_of(manifest, reader)
                merged.remove(manifest)
            merged.append(
                await commits.run(
                    self._merged_manifest,
                    table,
                    spec_id,
                    entries,
                    large=_are_many(table, entries),
                )
            )
        return merged

    def _merged_manifest(
        self, table: TableMetadata, spec_id: int, entries: Iterable[ManifestEntry]
    ) -> ManifestFile:
        existing = [msgspec.structs.replace(entry, status=Status.EXISTING) for entry in entries]
        return self._write_manifest(table, spec_id, ManifestContent.DATA, existing)

    async def _totals(
        self, reader: readers.Reader, head: int | None, listed: Iterable[ManifestFile]
    ) -> Mapping[str, int]:
        if head is None:
            return dict.fromkeys(summaries.TOTALS, 0)
        snapshot = reader.table.metadata.snapshot(head)
        stated = summaries.totals_of(None if snapshot is None else snapshot.get("summary"))
        if stated is not None:
            return stated
        live: list[DataFile] = []
        for manifest in listed:
            if manifest.has_live_files:
                entries = await self._scans.entries_of(manifest, reader)
                live += [entry.data_file for entry in entries]
        return summaries.counted(live)

    # Files.

    def _write_manifest(
        self,
        table: TableMetadata,
        spec_id: int,
        content: ManifestContent,
        entries: Sequence[ManifestEntry],
    ) -> ManifestFile:
        self._names += 1
        spec = table.spec(spec_id)
        if spec is None:
            raise errors.InvalidCatalogRequest(f"The table has no partition spec {spec_id}")
        data, file = manifest_encoding.encode_manifest(
            entries,
            path="",
            schema=_schema_of_spec(table, spec),
            spec=spec,
            format_version=table.format_version,
            content=content,
            snapshot_id=self._snapshot_id,
            sync=self._sync(),
        )
        path = self._queue(table, f"{self._commit_id}-m{self._names - 1}.avro", data)
        return msgspec.structs.replace(file, manifest_path=path)

    def _queue(self, table: TableMetadata, name: str, data: bytes) -> str:
        uri = f"{table.location}/metadata/{name}"
        self._pending.append((uri, data))
        return uri

    async def _write_pending(self) -> None:
        """Have the queued files wait for the commit, or write them in one index transaction."""
        pending, self._pending = self._pending, []
        received = [await self._files.receive(data) for _, data in pending]
        written_now = []
        for (uri, _), body in zip(pending, received, strict=True):
            file = unnamed_files.UnnamedFile(
                uri=uri,
                received=body,
                table_bucket=self._ident.table_bucket,
                owner=self._by,
                content_type="application/octet-stream",
            )
            if self._names_at_commit and unnamed_files.may_wait(body, self._unnamed):
                self._unnamed.append(file)
            else:
                written_now.append(file)
        self._written += [file.uri for file in written_now]
        written = await asyncio.gather(
            *(self._files.name(file) for file in written_now), return_exceptions=True
        )
        for outcome in written:
            if isinstance(outcome, BaseException):
                raise outcome

    def _sync(self) -> bytes:
        return bytes.fromhex(self._new_id())

    async def forget(self, uris: Iterable[str]) -> None:
        """Remove the files of an attempt that certainly failed."""
        for uri in uris:
            self._written.remove(uri)
            await self._files.remove(uri, table_bucket=self._ident.table_bucket)

    async def give_up(self) -> None:
        """Remove every file written here; only if no commit can have named it."""
        await self.forget(list(self._written))


def _uuid_text(new_id: str) -> str:
    return "-".join((new_id[:8], new_id[8:12], new_id[12:16], new_id[16:20], new_id[20:]))


def _schema_of_spec(table: TableMetadata, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the newest schema that has the spec's source columns; the current one if it does."""
    sources = {specs.source_id_of(dict(field)) for field in spec["fields"]}
    current = table.current_schema()
    if not sources:
        return current
    older = sorted(table.schemas, key=lambda schema: -int(schema["schema-id"]))
    for schema in (current, *older):
        if sources <= datatypes.columns(schema).keys():
            return schema
    return current


def _are_many(table: TableMetadata, files: Sequence[DataFile] | Sequence[ManifestEntry]) -> bool:
    """Whether the manifest of so many files takes too long to be written on the event loop."""
    return len(files) * (1 + len(table.current_schema()["fields"])) > VALUES_HERE_MAX


def _manifest_content(file: DataFile) -> ManifestContent:
    is_data = file.content == Content.DATA
    return ManifestContent.DATA if is_data else ManifestContent.DELETES


def _check_added(table: TableMetadata, file: DataFile) -> None:
    spec = table.spec(file.spec_id)
    if spec is None or len(spec["fields"]) != len(file.partition):
        raise errors.InvalidCatalogRequest(
            f"{file.file_path} does not fit a partition spec of the table: {file.spec_id}"
        )
    if file.content != Content.DATA and table.format_version == 1:
        raise errors.InvalidCatalogRequest("Deletes need a table of format version 2 or later")
    is_position_file = file.content == Content.POSITION_DELETES and not file.is_deletion_vector
    if is_position_file and table.format_version >= _ROW_LINEAGE_MIN_FORMAT_VERSION:
        raise errors.InvalidCatalogRequest(
            "A table of format version 3 accepts only deletion vectors as deletes"
        )
    if file.is_deletion_vector and table.format_version < _ROW_LINEAGE_MIN_FORMAT_VERSION:
        raise errors.InvalidCatalogRequest("Deletion vectors need a table of format version 3")
