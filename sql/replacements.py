"""engine: CREATE OR REPLACE of a table that exists.

The table stays the same one for Iceberg: its uuid, its place and its history remain. One commit
adds the new columns with ids of their own, the new partition spec and sort order, and a snapshot
that removes every file and adds those of the query. So no reader sees a moment without the table,
and time travel reads the states before with their own columns. The same transaction gives the
table an empty stage.

A table that others commit meanwhile is replaced with their changes too, unless the query has read
it, or others gave out the ids of the new columns: then that is a conflict, and RequirementFailed is
raised. `sql.definitions` executes the statement again then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from catalog import (
    appends,
    commits,
    idents,
    loads,
    manifests,
    owners,
    receipts,
    records,
    scans,
    tables,
)
from catalog import errors as catalog_errors
from catalog import staging as catalog_staging
from catalog.metadata import errors as metadata_errors
from catalog.metadata import updates
from catalog.metadata.model import MAIN_BRANCH, TableMetadata
from server.access import model as access_model
from sql import (
    column_defaults,
    errors,
    fileformats,
    keys,
    offsets,
    pinned,
    table_stages,
    tabletypes,
    writes,
)
from sql.dialect import table_options
from storage import model as storage_model

ATTEMPTS_MAX: Final = 20

Describe: TypeAlias = Callable[[int], writes.NewTable]
"""Returns the new table for the id of its first column."""

OWN_PROPERTIES: Final = (
    "comment",
    tabletypes.FORM,
    tabletypes.DECLARED,
    tabletypes.QUOTED,
    offsets.PROPERTY,
    tabletypes.VARIANTS,
    column_defaults.PROPERTY,
    keys.PROPERTY,
    fileformats.PROPERTY,
)
"""Properties that belong to a table's definition. Others stay, as with Iceberg's REPLACE TABLE."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replacement:
    """A table that will be replaced. base: as committed; after: with its new columns, and the
    snapshots of base. changes: the updates from base to after.
    """

    base: tables.LoadedTable
    after: tables.LoadedTable
    changes: tuple[Mapping[str, Any], ...]


class Replacements:
    """Replaces tables. Stateless."""

    def __init__(
        self,
        *,
        tables: tables.Tables,
        appends: appends.Appends,
        staging: catalog_staging.Staging,
        stages: table_stages.TableStages,
        now_ms: storage_model.NowMs,
    ) -> None:
        self._tables = tables
        self._stages = stages
        self._appends = appends
        self._staging = staging
        self._now_ms = now_ms

    async def plan(self, base: tables.LoadedTable, describe: Describe) -> Replacement:
        """Return the replacement of a table. Raises SqlError for an invalid definition."""
        return await commits.run(
            _plan,
            base,
            describe,
            now_ms=self._now_ms(),
            large=len(base.data) > commits.LARGE_METADATA_BYTES,
        )

    async def commit(
        self,
        replacement: Replacement,
        describe: Describe | None,
        files: Sequence[manifests.DataFile],
        *,
        principal: access_model.Principal,
        judge: owners.Judge,
        query_id: str,
        may_rebase: bool,
        receipt: receipts.Receipt | None = None,
        keeps_loads: bool = False,
    ) -> None:
        """Commit a replacement with its files. may_rebase: others' changes may be replaced too.

        describe: None without may_rebase. keeps_loads: sources that were loaded before count as
        loaded, and the table's stage keeps its files.

        A started commit runs to its end although the caller is cancelled. If it certainly failed,
        what was written for it is removed, and files stay. Raises RequirementFailed for a conflict,
        and as `Tables.commit` does.
        """
        running = asyncio.ensure_future(
            self._commit(
                replacement,
                describe,
                files,
                principal=principal,
                judge=judge,
                query_id=query_id,
                may_rebase=may_rebase,
                receipt=receipt,
                keeps_loads=keeps_loads,
            )
        )
        await commits.outcome_of(running)

    async def _commit(
        self,
        replacement: Replacement,
        describe: Describe | None,
        files: Sequence[manifests.DataFile],
        *,
        principal: access_model.Principal,
        judge: owners.Judge,
        query_id: str,
        may_rebase: bool,
        receipt: receipts.Receipt | None,
        keeps_loads: bool,
    ) -> None:
        ident, object_uuid = replacement.base.ident, replacement.base.pointer.object_uuid

        def check(
            place: records.Place, at: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            judge(place, at, pointer)
            if pointer is None or pointer.object_uuid != object_uuid:
                raise catalog_errors.NoSuchTable(f"Table does not exist: {at.dotted()}")

        emptying = None if keeps_loads else self._stages.replacing(object_uuid)
        for number in range(1, ATTEMPTS_MAX + 1):
            check(self._tables.place(ident), ident, replacement.base.pointer)
            live = await self._appends.live_files(replacement.base, principal=principal)
            change = appends.FileChange(
                operation="overwrite",
                added=tuple(files),
                removed=frozenset(appends.identity(file) for file in live),
                summary={pinned.QUERY_ID: query_id}
                | ({} if keeps_loads else dict(loads.NOTHING_LOADED)),
            )
            built = await self._appends.build(replacement.after, change, principal=principal)
            try:
                await self._tables.commit(
                    ident,
                    _requirements(replacement.base.metadata),
                    [*replacement.changes, *appends.updates_of(MAIN_BRANCH, built.snapshot)],
                    by=principal.arn,
                    via="sql",
                    judge=check,
                    receipt=receipt,
                    naming=emptying,
                )
                return
            except (catalog_errors.CommitStateUnknown, asyncio.CancelledError):
                raise  # the replacement may be committed, so its files stay
            except (metadata_errors.RequirementFailed, metadata_errors.StaleSequenceNumber):
                await self._staging.remove(built.files, ident=ident)
                if not may_rebase or describe is None or number == ATTEMPTS_MAX:
                    raise
            except BaseException:
                await commits.to_the_end(self._staging.remove(built.files, ident=ident))
                raise
            newest = await self.plan(await self._tables.fetch(ident), describe)
            if files and not _has_same_ids(newest.after.metadata, replacement.after.metadata):
                raise metadata_errors.RequirementFailed(
                    f"Requirement failed: the columns of {ident.dotted()} have changed"
                )
            replacement = newest
        raise AssertionError("the last attempt returns or raises")


def _plan(base: tables.LoadedTable, describe: Describe, *, now_ms: int) -> Replacement:
    metadata = base.metadata
    new_table = describe(metadata.last_column_id + 1)
    replaced = (*OWN_PROPERTIES, *new_table.unset)
    gone = [name for name in replaced if name in metadata.properties]
    assigned = {**new_table.properties, **_with_earlier(metadata, new_table.properties)}
    changes: list[dict[str, Any]] = [
        *_upgrade(metadata, assigned.pop(table_options.FORMAT_VERSION, None)),
        {"action": "add-schema", "schema": new_table.schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": new_table.partition_spec or {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {
            "action": "add-sort-order",
            "sort-order": new_table.sort_order or {"order-id": 0, "fields": []},
        },
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    if gone:
        changes.append({"action": "remove-properties", "removals": gone})
    if assigned:
        changes.append({"action": "set-properties", "updates": assigned})
    after = updates.apply_parts(
        metadata,
        [updates.Part(requirements=(), updates=changes)],
        now_ms=now_ms,
        base_location=None,
    )
    return Replacement(
        base=base, after=msgspec.structs.replace(base, metadata=after), changes=tuple(changes)
    )


def _with_earlier(metadata: TableMetadata, own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties of new columns of TIMESTAMP_TZ with those of the earlier ones.

    Time travel reads the offsets of the columns of all schemas that the table still has.
    """
    present = {field["id"] for schema in metadata.schemas for field in schema["fields"]}
    pairs = {
        column: companion
        for column, companion in offsets.read(metadata.properties).items()
        if column in present and companion in present
    }
    if not pairs:
        return {}
    types_before = tabletypes.declared_types(metadata.properties)
    declared = {column: types_before[column] for column in pairs if column in types_before}
    listed = {
        tabletypes.DECLARED: tabletypes.encoded_types(
            {**declared, **tabletypes.declared_types(own)}
        ),
        offsets.PROPERTY: offsets.encode({**pairs, **offsets.read(own)}),
    }
    return {name: text for name, text in listed.items() if text is not None}


def _upgrade(metadata: TableMetadata, wanted: str | None) -> list[dict[str, Any]]:
    """Return the update to a format version, if it is another one; raises SqlError for a lower."""
    if wanted is None or int(wanted) == metadata.format_version:
        return []
    if int(wanted) < metadata.format_version:
        raise errors.invalid_option(
            f"ICEBERG_VERSION {wanted}: OR REPLACE keeps the history of a table, which is of format"
            f" version {metadata.format_version}. Drop the table first to have a lower one"
        )
    return [{"action": "upgrade-format-version", "format-version": int(wanted)}]


def _requirements(metadata: TableMetadata) -> list[dict[str, Any]]:
    return [
        {"type": "assert-table-uuid", "uuid": metadata.table_uuid},
        {
            "type": "assert-ref-snapshot-id",
            "ref": MAIN_BRANCH,
            "snapshot-id": scans.head_of(metadata),
        },
        {
            "type": "assert-last-assigned-field-id",
            "last-assigned-field-id": metadata.last_column_id,
        },
        {
            "type": "assert-last-assigned-partition-id",
            "last-assigned-partition-id": metadata.last_partition_id,
        },
    ]


def _has_same_ids(one: TableMetadata, other: TableMetadata) -> bool:
    """Return whether files that were written for one state fit the other."""
    return (
        one.current_schema()["fields"] == other.current_schema()["fields"]
        and one.default_spec() == other.default_spec()
        and one.default_sort_order() == other.default_sort_order()
    )
