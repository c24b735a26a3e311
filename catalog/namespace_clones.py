"""engine: new namespaces with all that they hold, which appear in one commit.

The files of the new tables are written before, below locations that are staged for them, so until
the commit no reader sees a name of it. A namespace's id belongs to its path and is given out ahead:
a path with an id and no namespace is what a dropped one leaves, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog import (
    commit,
    commits,
    errors,
    idents,
    namespaces,
    owners,
    receipts,
    records,
    sequences,
    sites,
    store,
    tables,
    views,
)
from catalog.metadata import creation, updates
from catalog.metadata import views as view_rules
from storage import batch, settings
from storage import model as storage_model

PLANNED_AT_ONCE = 8
"""Tables and views that are planned before other requests get their turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClonedTable:
    """A table of a new namespace. staged: as `stage` returned it; updates: that build it."""

    staged: commits.LoadedTable
    updates: Sequence[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClonedView:
    """A view of a new namespace. schema, version: as for `Views.create`."""

    ident: idents.TableIdent
    schema: Mapping[str, Any]
    version: Mapping[str, Any]
    properties: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClonedNamespace:
    """A namespace and what it holds. sequences: their stored rows, by name."""

    namespace: idents.Namespace
    properties: Mapping[str, str]
    tables: tuple[ClonedTable, ...]
    views: tuple[ClonedView, ...]
    sequences: Mapping[str, Any]


class NamespaceClones:
    """Creates namespaces with contents. Stateless except for its store."""

    def __init__(
        self,
        *,
        store: store.CatalogStore,
        namespaces: namespaces.Namespaces,
        views: views.Views,
    ) -> None:
        self._store = store
        self._namespaces = namespaces
        self._views = views
        self._commits = commits.Commits(store=store)

    async def assign_id(self, table_bucket: str, namespace: idents.Namespace) -> int:
        """Return the id of a namespace's path, and assign one if it has none."""
        levels = idents.check_namespace(namespace)
        place = self._store.place(table_bucket)

        def decide(reading: batch.Reading) -> batch.Decided[int]:
            namespace_id, interning = namespaces.intern(reading, place, levels)
            return batch.Decided(result=namespace_id, batch=interning)

        with self._store.index.view() as view:
            assigned = self._store.namespace_id(view, place, levels)
        if assigned:
            return assigned
        return await self._store.decide(decide, place=place)

    async def stage(
        self,
        ident: idents.TableIdent,
        namespace_id: int,
        *,
        schema: Any,
        partition_spec: Any,
        sort_order: Any,
        properties: Mapping[str, str],
        judge: owners.Judge,
        by: str,
    ) -> commits.LoadedTable:
        """Reserve the location of a table of a namespace that does not exist yet.

        namespace_id: as `assign_id` returned it. Other arguments and errors as for `Tables.create`.
        """
        idents.check_name(ident.name)
        place = self._store.place(ident.table_bucket)
        table_uuid = sites.hyphenated(self._store.new_id())
        object_uuid = sites.hyphenated(self._store.new_id())

        async def plan() -> store.Planned[commits.LoadedTable]:
            now_ms = self._store.now_ms()
            holder = _holder_to_be(ident.namespace, namespace_id, by=by, now_ms=now_ms)
            with self._store.index.view() as view:
                site = sites.find_site(
                    view,
                    place,
                    ident,
                    holder,
                    object_type="table",
                    requested=None,
                    object_uuid=object_uuid,
                    now_ms=now_ms,
                    permit=owners.refuse,
                    reserved_until_ms=now_ms + tables.STAGED_MS,
                )
            judge(place, ident, None)
            metadata = creation.new_table(
                schema=schema,
                partition_spec=partition_spec,
                sort_order=sort_order,
                location=site.location,
                properties=properties,
                table_uuid=table_uuid,
                now_ms=now_ms,
            )
            commits.check_placement(metadata, place)
            step = commits.Step(
                ident=ident,
                namespace_id=namespace_id,
                before=None,
                base=None,
                metadata=metadata,
                object_uuid=site.object_uuid,
            )
            loaded = self._commits.staged(step, by=by, now_ms=now_ms)
            return store.Planned(result=loaded, batch=site.claim)

        return await self._store.write(plan, keys=(), place=place)

    async def create(
        self,
        table_bucket: str,
        new: Sequence[ClonedNamespace],
        *,
        by: str,
        via: str,
        judge: owners.Recheck,
        judge_item: owners.Judge,
        receipt: receipts.Receipt,
    ) -> None:
        """Create namespaces, parents before their children, with all that they hold.

        judge_item: called for each table and view. Raises NoSuchNamespace for a missing parent,
        NamespaceAlreadyExists, InvalidLocation, and as `Tables.create` does.
        """

        async def plan() -> store.Planned[None]:
            judge()
            now_ms = self._store.now_ms()
            holders: dict[idents.Namespace, store.StoredNamespace] = {}
            changes: list[commit.Change] = []
            batches: list[batch.Batch] = []
            with self._store.index.view() as view:
                place = self._store.place(table_bucket, view)
                for each in new:
                    above = each.namespace[:-1]
                    parent = holders.get(above)
                    if parent is None and above:
                        parent = self._store.namespace(view, place, above)
                    if self._store.find_namespace(view, place, each.namespace) is not None:
                        raise errors.NamespaceAlreadyExists(
                            f"Namespace already exists: {idents.dotted(each.namespace)}"
                        )
                    holder, change, interning = namespaces.describe_creation(
                        view,
                        place,
                        each.namespace,
                        parent,
                        properties=each.properties,
                        object_uuid=sites.hyphenated(self._store.new_id()),
                        by=by,
                        now_ms=now_ms,
                    )
                    holders[each.namespace] = holder
                    changes.append(change)
                    batches.append(interning)
            filled = [
                await self._fill(place, each, holders[each.namespace], judge_item, by, now_ms)
                for each in new
            ]
            for each_filled in filled:
                changes.extend(each_filled.changes)
                batches.extend(each_filled.batches)
            committed = commit.plan(place, changes, author=by, via=via, time_ms=now_ms)
            return store.Planned(
                result=None,
                batch=batch.merge((*batches, committed, receipt.plan())),
                files=tuple(file for each in filled for file in each.files),
                cached=tuple(entry for each in filled for entry in each.cached),
            )

        place = self._store.place(table_bucket)
        await self._store.write(plan, keys=(), place=place)

    async def replace(
        self,
        table_bucket: str,
        new: ClonedNamespace,
        *,
        check: namespaces.CheckItem,
        by: str,
        via: str,
        judge: owners.Recheck,
        judge_item: owners.Judge,
        receipt: receipts.Receipt,
    ) -> None:
        """Drop a namespace with its tables and views, and create it with others, in one commit.

        check: raises for a table or view that may not be dropped. Raises as `create` and
        `Namespaces.drop_whole` do.
        """

        async def fill(
            place: records.Place, holder: store.StoredNamespace, now_ms: int
        ) -> namespaces.PlannedContents:
            return await self._fill(place, new, holder, judge_item, by, now_ms)

        await self._namespaces.drop_whole(
            table_bucket,
            new.namespace,
            check=check,
            by=by,
            via=via,
            judge=judge,
            receipt=receipt,
            successor=new.properties,
            fill=fill,
        )

    async def _fill(
        self,
        place: records.Place,
        new: ClonedNamespace,
        holder: store.StoredNamespace,
        judge_item: owners.Judge,
        by: str,
        now_ms: int,
    ) -> namespaces.PlannedContents:
        """Plan what a new namespace holds. holder: the namespace's row as the commit writes it."""
        steps: list[commits.Step] = []
        for number, table in enumerate(new.tables, 1):
            judge_item(place, table.staged.ident, None)
            steps.append(self._step(place, table, holder, now_ms=now_ms))
            if number % PLANNED_AT_ONCE == 0:
                await asyncio.sleep(0)
        planned = await self._commits.plan_steps(place, steps, by=by, now_ms=now_ms)
        changes, batches = list(planned.changes), list(planned.batches)
        files: list[storage_model.Received] = list(planned.files)
        for number, view in enumerate(new.views, 1):
            judge_item(place, view.ident, None)
            claim, planned_view = await self._plan_view(place, view, holder, by=by, now_ms=now_ms)
            changes.append(planned_view.change)
            batches += [claim, planned_view.named]
            files += planned_view.files
            if number % PLANNED_AT_ONCE == 0:
                await asyncio.sleep(0)
        if new.sequences:
            key = settings.table_key(place.bucket_id, holder.row.object_uuid)
            counters = {sequences.SEQUENCES: dict(new.sequences)}
            batches.append(settings.plan_change(key, lambda stored: {**stored, **counters}))
        return namespaces.PlannedContents(
            changes=tuple(changes),
            batches=tuple(batches),
            files=tuple(files),
            cached=planned.cached,
        )

    def _step(
        self,
        place: records.Place,
        table: ClonedTable,
        holder: store.StoredNamespace,
        *,
        now_ms: int,
    ) -> commits.Step:
        ident, staged = table.staged.ident, table.staged.metadata
        with self._store.index.view() as view:
            site = sites.find_site(
                view,
                place,
                ident,
                holder,
                object_type="table",
                requested=staged.location,
                object_uuid=table.staged.pointer.object_uuid,
                now_ms=now_ms,
                permit=owners.refuse,
            )
        metadata = updates.apply_parts(
            None,
            [updates.Part(requirements=(), updates=table.updates)],
            now_ms=now_ms,
            base_location=None,
            table_uuid=staged.table_uuid,
            location=staged.location,
        )
        commits.check_placement(metadata, place)
        return commits.Step(
            ident=ident,
            namespace_id=holder.row.namespace_id,
            holder=holder,
            before=None,
            base=None,
            metadata=metadata,
            object_uuid=site.object_uuid,
            extra=(site.claim,),
            summary={"operation": "clone", "created": True},
        )

    async def _plan_view(
        self,
        place: records.Place,
        new: ClonedView,
        holder: store.StoredNamespace,
        *,
        by: str,
        now_ms: int,
    ) -> tuple[batch.Batch, views.PlannedView]:
        """Return the claim of a view's location, and what its metadata changes."""
        idents.check_name(new.ident.name, "view")
        with self._store.index.view() as view:
            site = sites.find_site(
                view,
                place,
                new.ident,
                holder,
                object_type="view",
                requested=None,
                object_uuid=sites.hyphenated(self._store.new_id()),
                now_ms=now_ms,
                permit=owners.refuse,
            )
        metadata = view_rules.new_view(
            schema=new.schema,
            view_version=new.version,
            location=site.location,
            properties=new.properties,
            view_uuid=sites.hyphenated(self._store.new_id()),
            now_ms=now_ms,
        )
        planned = await self._views.plan_metadata(
            place,
            new.ident,
            holder.row.namespace_id,
            before=None,
            after=metadata,
            object_uuid=site.object_uuid,
            holder=holder,
            summary={"operation": "clone", "created": True},
            by=by,
            now_ms=now_ms,
        )
        return site.claim, planned


def _holder_to_be(
    namespace: idents.Namespace, namespace_id: int, *, by: str, now_ms: int
) -> store.StoredNamespace:
    """Return a namespace as a new one will be, for the locations of its tables."""
    row = records.NamespaceRow(
        namespace_id=namespace_id,
        object_uuid="",
        properties={},
        created_at_ms=now_ms,
        created_by=by,
        modified_at_ms=now_ms,
        modified_by=by,
    )
    return store.StoredNamespace(namespace=namespace, key=b"", value=b"", row=row)
