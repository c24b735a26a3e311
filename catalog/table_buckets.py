"""engine: table buckets: created with a first namespace, replaced, deleted with their contents.

Each change is one transaction. A deletion looks at the bucket in a view, which takes long where
many tables were deleted, and its transaction only checks that nothing in the bucket has changed
since. It is refused while a table of another bucket references a file here
(`catalog.sweep.referrers`). The rows of a deleted bucket are freed by the sweep.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from catalog import (
    departures,
    emptiness,
    errors,
    history,
    idents,
    namespaces,
    owners,
    protection,
    receipts,
    records,
    sites,
)
from catalog.store import CatalogStore, Planned, StoredNamespace
from catalog.sweep import referrers
from storage import batch, bodies, buckets, names, settings
from storage import errors as storage_errors
from storage import model as storage_model
from storage import records as storage_records

ATTEMPTS_MAX: Final = 10
"""How often a creation is planned, each time on a newer state."""

COMMENT: Final = "comment"
"""The setting of a table bucket that says what it is for."""

Losing: TypeAlias = Literal["nothing", "namespaces", "everything"]
"""What may be lost with a deleted bucket: nothing, namespaces without tables and views, or all."""

CheckTable: TypeAlias = Callable[[idents.TableIdent, records.Pointer], None]
CheckNamespace: TypeAlias = Callable[[idents.Namespace], None]


class TableBuckets:
    """The table buckets. seeds: by name, the settings with which a bucket is created."""

    def __init__(
        self,
        *,
        store: CatalogStore,
        namespaces: namespaces.Namespaces,
        referrers: referrers.Referrers,
        region: str,
        seeds: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._store = store
        self._referrers = referrers
        self._namespaces = namespaces
        self._region = region
        self._seeds = seeds

    def find(self, name: str) -> storage_model.BucketInfo | None:
        """Return the table bucket or general bucket of a name, None if there is none."""
        try:
            return self._store.buckets.get(name)
        except storage_errors.NoSuchBucket:
            return None

    def check_name(self, name: str) -> None:
        """Raise InvalidBucketName, whose reason names the rule, for a name it may not have."""
        names.check_bucket_name(name, "table")

    async def create(
        self,
        name: str,
        *,
        owner: str,
        namespace: str | None,
        comment: str,
        by: str,
        via: str,
        judge: owners.Recheck,
        replaces: storage_model.BucketInfo | None = None,
        check_namespace: CheckNamespace | None = None,
        receipt: receipts.Receipt | None,
    ) -> storage_model.BucketInfo:
        """Create a table bucket with one namespace, or with none, and return it.

        replaces: the bucket that it takes the place of, with its namespaces but without tables,
        views and files.

        check_namespace: raises for a namespace that may not be lost. Raises BucketAlreadyExists,
        and what `delete` raises.
        """
        names.check_bucket_name(name, "table")
        async with contextlib.AsyncExitStack() as stack:
            look: referrers.Look | None = None
            if replaces is not None:
                look = await stack.enter_async_context(self._referrers.looking(replaces))
            for _ in range(ATTEMPTS_MAX):
                held = batch.Batch()
                if replaces is not None and look is not None:
                    unchanged = await self._held(
                        replaces,
                        losing="namespaces",
                        may_purge=False,
                        check=None,
                        check_namespace=check_namespace,
                    )
                    held = batch.merge((unchanged, await look.hold()))
                judge()
                bucket, creation = self._plan_creation(
                    name,
                    owner=owner,
                    namespace=namespace,
                    comment=comment,
                    by=by,
                    via=via,
                    replaces=replaces,
                )
                try:
                    note = () if receipt is None else (receipt.plan(),)
                    await self._store.index.commit(batch.merge((held, creation, *note)))
                except storage_errors.ExpectationFailed:
                    continue
                return bucket
        raise errors.CommitFailed(f"Cannot commit: other writers came first {ATTEMPTS_MAX} times")

    def _plan_creation(
        self,
        name: str,
        *,
        owner: str,
        namespace: str | None,
        comment: str,
        by: str,
        via: str,
        replaces: storage_model.BucketInfo | None,
    ) -> tuple[storage_model.BucketInfo, batch.Batch]:
        now_ms = self._store.now_ms()
        stored = {**self._seeds.get(name, {}), **({COMMENT: comment} if comment else {})}
        with self._store.index.view() as view:
            existing = view.get(batch.Store.BUCKETS, name.encode())
            if existing is not None:
                row = storage_records.decode_bucket(existing)
                if replaces is None or row.bucket_id != replaces.bucket_id:
                    raise storage_errors.BucketAlreadyExists(
                        f"the bucket {name!r} already exists",
                        name=name,
                        owner=row.owner,
                        type=row.type,
                    )
            value, creation = buckets.plan_row(
                view,
                name,
                storage_records.BucketRecord(
                    bucket_id=buckets.next_bucket_id(view),
                    type="table",
                    owner=owner,
                    region=self._region,
                    created_at_ms=now_ms,
                    settings=stored,
                ),
            )
            place = records.Place(bucket=storage_records.bucket_info(name, value))
            first = batch.Batch()
            if namespace is not None:
                _, first = namespaces.plan_creation(
                    view,
                    place,
                    (namespace,),
                    None,
                    properties={},
                    object_uuid=sites.hyphenated(self._store.new_id()),
                    by=by,
                    via=via,
                    now_ms=now_ms,
                )
        released: tuple[batch.Write, ...] = ()
        if existing is not None and replaces is not None:
            released = (bodies.released("bucket", str(replaces.bucket_id), now_ms),)
        return place.bucket, batch.merge((creation, first, batch.Batch(writes=released)))

    async def delete(
        self,
        bucket: storage_model.BucketInfo,
        *,
        losing: Losing,
        may_purge: bool,
        judge: owners.Recheck,
        check: CheckTable | None = None,
        check_namespace: CheckNamespace | None = None,
        receipt: receipts.Receipt | None = None,
    ) -> None:
        """Delete a table bucket. losing: what may be lost with it.

        may_purge: whether the caller may free dropped tables that can still be restored; judge
        checks that right again then. check, check_namespace: raise for a table, view or namespace
        that may not be lost. Raises NoSuchBucket, TableBucketNotEmpty, FilesReferenced, Protected,
        and what the checks and judge raise.
        """

        hold = functools.partial(
            self._held,
            bucket,
            losing=losing,
            may_purge=may_purge,
            check=check,
            check_namespace=check_namespace,
        )

        async def plan(look: referrers.Look) -> Planned[None]:
            judge()
            held = await hold()
            unreferenced = await look.hold()
            if look.has_marked:  # which may have taken long
                judge()
                held = await hold()
            deletion = self._store.buckets.plan_delete(
                bucket.name, discard=True, bucket_id=bucket.bucket_id
            )
            note = () if receipt is None else (receipt.plan(),)
            whole = batch.merge((held, unreferenced, deletion, *note))
            # Deleting leads to freeing, so a full disk lets it through.
            return Planned(result=None, batch=msgspec.structs.replace(whole, makes_room=True))

        async with self._referrers.looking(bucket) as look:
            try:
                await self._store.write(
                    functools.partial(plan, look),
                    keys=(),
                    place=records.Place(bucket=bucket),
                    holds_commits=True,
                )
            except errors.CommitFailed:
                if look.has_marked:  # commits to other buckets came first
                    raise
                # Writers to this bucket came first each time.
                raise errors.TableBucketNotEmpty(emptiness.NOT_EMPTY) from None

    async def set_comment(
        self,
        bucket: storage_model.BucketInfo,
        comment: str,
        *,
        judge: owners.Recheck,
        receipt: receipts.Receipt,
    ) -> None:
        """Set a table bucket's comment; "" removes it. Raises NoSuchBucket, CommitFailed."""

        def change(stored: Mapping[str, Any]) -> Mapping[str, Any]:
            kept = {name: value for name, value in stored.items() if name != COMMENT}
            return kept | ({COMMENT: comment} if comment else {})

        for _ in range(ATTEMPTS_MAX):
            policies = settings.expect_policies(self._store.index, bucket.bucket_id)
            judge()
            try:
                await self._store.buckets.change(
                    bucket.name,
                    change,
                    bucket_id=bucket.bucket_id,
                    expects=(policies,),
                    also=receipt.plan(),
                )
            except storage_errors.ExpectationFailed:
                continue
            return
        raise errors.CommitFailed(f"Cannot commit: policies changed {ATTEMPTS_MAX} times in a row")

    async def _held(
        self,
        bucket: storage_model.BucketInfo,
        *,
        losing: Losing,
        may_purge: bool,
        check: CheckTable | None,
        check_namespace: CheckNamespace | None,
    ) -> batch.Batch:
        """Return the Batch that writes nothing and expects a bucket that may be deleted to be
        unchanged.
        """
        bucket_id = bucket.bucket_id
        seen = await asyncio.to_thread(self._look, bucket, losing, may_purge)
        with self._store.index.view() as view:
            newest = self._store.buckets.get(bucket.name, view)
        _check_unprotected(newest)
        if losing == "everything" and not departures.is_purge(newest.settings, purge=True):
            raise errors.Protected(
                f"Table bucket {bucket.name} never frees the files of dropped tables:"
                f" its setting {departures.PURGE_ON_DROP} is never"
            )
        if losing != "nothing":
            held = await asyncio.to_thread(self._contents, bucket)
            check_table = _refuse if losing == "namespaces" else check
            await self._check(held, check=check_table, check_namespace=check_namespace)

        def refuse(reading: batch.Reading) -> Sequence[batch.Write]:
            if losing == "nothing":
                emptiness.check_no_namespace(reading, bucket)
            changes = self._store.index.object_changes(bucket_id)
            emptiness.check_unchanged(reading, bucket, seen, object_changes=changes)
            _check_unprotected(self._store.buckets.get(bucket.name, reading))
            return ()

        unchanged = batch.Batch(derive=(refuse,), makes_room=True)
        if not may_purge:
            return unchanged
        policies = settings.expect_policies(self._store.index, bucket_id)
        permitted = batch.merge((batch.Batch(expects=(policies,)), unchanged))
        if losing != "everything":
            return permitted
        settled = departures.hold_settings(records.Place(bucket=newest))
        return batch.merge((settled, permitted))

    def _contents(self, bucket: storage_model.BucketInfo) -> namespaces.NamespaceContents:
        """Return what a table bucket holds. Raises InvalidCatalogRequest for too much."""
        levels: list[StoredNamespace] = []
        items: list[namespaces.Item] = []
        for name in self._namespaces.names(bucket.name):
            try:
                contents = self._namespaces.contents(bucket.name, (name,))
            except errors.NoSuchNamespace:  # dropped meanwhile, which the transaction sees
                continue
            levels += contents.namespaces
            items += contents.items
            if len(items) + len(levels) > 2 * namespaces.TABLES_DROPPED_MAX:
                raise errors.InvalidCatalogRequest(
                    f"The table bucket {bucket.name} has more than"
                    f" {namespaces.TABLES_DROPPED_MAX} tables, views and namespaces:"
                    " drop some of them first"
                )
        return namespaces.NamespaceContents(namespaces=tuple(levels), items=tuple(items))

    async def _check(
        self,
        held: namespaces.NamespaceContents,
        *,
        check: CheckTable | None,
        check_namespace: CheckNamespace | None,
    ) -> None:
        """Check everything that goes with a table bucket."""
        for number, each in enumerate(held.namespaces, 1):
            _check_namespace_unprotected(each)
            if check_namespace is not None:
                check_namespace(each.namespace)
            if number % namespaces.CHECKED_AT_ONCE == 0:
                await asyncio.sleep(0)
        for number, item in enumerate(held.items, 1):
            if check is not None:
                check(item.ident, item.entry.pointer)
            await protection.check(self._store, item.ident, item.entry.pointer)
            if number % namespaces.CHECKED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _look(
        self,
        bucket: storage_model.BucketInfo,
        losing: Losing,
        may_purge: bool,
    ) -> emptiness.Empty:
        """Return what a bucket is like before it is deleted. Raises TableBucketNotEmpty."""
        # Counted before the view is opened.
        object_changes = self._store.index.object_changes(bucket.bucket_id)
        with self._store.index.view() as view:
            if not may_purge:
                emptiness.check_none_restorable(view, bucket, now_ms=self._store.now_ms())
            if losing == "nothing":
                emptiness.check_empty(view, bucket)
            elif losing == "namespaces":
                emptiness.check_no_file(view, bucket)
            sequence = history.last_sequence(view, bucket.bucket_id)
        return emptiness.Empty(sequence=sequence, object_changes=object_changes)


def _refuse(ident: idents.TableIdent, pointer: records.Pointer) -> None:
    raise errors.TableBucketNotEmpty(
        f"Table bucket {ident.table_bucket} has the {pointer.object_type} {ident.dotted()}"
    )


def _check_namespace_unprotected(each: StoredNamespace) -> None:
    what = f"Namespace {idents.dotted(each.namespace)}"
    departures.check_unprotected(each.row.properties, what)


def _check_unprotected(bucket: storage_model.BucketInfo) -> None:
    if bucket.settings.get(departures.BUCKET_PROTECTED) is True:
        raise errors.Protected(f"Table bucket {bucket.name} is protected from deletion")
