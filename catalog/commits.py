"""engine: a commit to one or many tables, as one index transaction.

Each table has a step from its newest metadata to new metadata; the steps' files, pointers, log
record and other rows go into one Batch, so that all of them are written or none. A step is planned
again if a pointer has moved: that is a conflict only if a requirement fails. A step that changes
nothing writes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from catalog import (
    commit,
    errors,
    history,
    idents,
    layout,
    loads,
    locations,
    owners,
    pointers,
    properties,
    receipts,
    records,
    sites,
    store,
    unpacking,
)
from catalog import guard as table_guard
from catalog.metadata import json_values, limits, model, requirements, updates
from catalog.metadata import properties as metadata_properties
from server.s3 import guard
from storage import batch
from storage import errors as storage_errors
from storage import model as storage_model

CHANGES_MAX: Final = 1_000
LARGE_CHANGE_VALUES: Final = 2_000
"""JSON values of a commit from which on its updates are applied in a thread: some milliseconds."""
SMALL_CHANGE_BYTES: Final = 2 * LARGE_CHANGE_VALUES - 8
"""A JSON text without so many values."""
LARGE_METADATA_BYTES: Final = 1024 * 1024
"""Metadata from which on it is changed and encoded in a thread."""
METADATA_SUFFIX: Final = ".metadata.json"
FILES_REMEMBERED: Final = 1024
"""Directories of metadata files that the layout allowed."""
STEPS_AT_ONCE: Final = 8
"""Tables of one commit that are planned before other requests get their turn."""


Result = TypeVar("Result")
Naming: TypeAlias = Callable[[int], batch.Batch]
"""Plans the names and bodies of files that only a commit names, anew for each of its plans. The
argument is the commit's time, in Unix milliseconds."""


class Placed(Protocol):
    """Metadata of a table or view, with the members that determine file locations."""

    @property
    def location(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, str]: ...


class LoadedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table with its metadata. data: the metadata file's JSON, uncompressed."""

    ident: idents.TableIdent
    pointer: records.Pointer
    metadata: model.TableMetadata
    data: bytes

    @property
    def metadata_location(self) -> str | None:
        """The metadata file's URI; None for a staged create, which has no file yet."""
        return self.pointer.metadata_location

    @property
    def etag_seed(self) -> str:
        """Text that differs whenever the metadata does."""
        return self.pointer.metadata_location or f"staged:{self.metadata.table_uuid}"


class TableChange(msgspec.Struct, frozen=True, kw_only=True):
    """One table's part of a commit: decoded JSON, as the client sent it.

    text_bytes: the length of a JSON text that holds it, None if it is not known.
    """

    ident: idents.TableIdent
    requirements: Sequence[Any]
    updates: Sequence[Any]
    text_bytes: int | None = None


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The change of one table, before it is planned on the table's newest state.

    parts: its changes in order. taken: the sources that they load. fresh: the table's and the
    object's uuid if the change makes the table, else None. large: its updates are applied in a
    thread.
    """

    ident: idents.TableIdent
    place: records.Place
    parts: Sequence[TableChange]
    taken: tuple[loads.Taken, ...]
    fresh: tuple[str, str] | None
    large: bool


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One table's change from base to metadata. before: its pointer now, None for a new table.

    base: None for a new table, and for one that had no metadata before.

    holder: the namespace of a new table. large: encoding it takes longer than the event loop may
    be held. file: of base.
    """

    ident: idents.TableIdent
    namespace_id: int
    before: store.StoredPointer | None
    base: model.TableMetadata | None
    metadata: model.TableMetadata
    object_uuid: str
    holder: store.StoredNamespace | None = None
    extra: tuple[batch.Batch, ...] = ()
    summary: Mapping[str, Any] = {}
    large: bool = False
    file: store.LoadedMetadata | None = None


class PlannedSteps(msgspec.Struct, frozen=True, kw_only=True):
    """What steps change, for the one `commit.plan` of their table bucket.

    loaded: the tables after them. batches: what else they write. files, cached: as in
    `store.Planned`.
    """

    loaded: tuple[LoadedTable, ...]
    changes: tuple[commit.Change, ...]
    batches: tuple[batch.Batch, ...]
    files: tuple[storage_model.Received, ...]
    cached: tuple[tuple[int, store.LoadedMetadata], ...]


class Commits:
    """Commits to tables. Stateless except for its store."""

    def __init__(self, *, store: store.CatalogStore) -> None:
        self._store = store
        self._pointers = pointers.Pointers(store=store, object_type="table")

    async def commit(
        self,
        changes: Sequence[TableChange],
        *,
        by: str,
        via: str = "rest",
        permit: owners.Permit = owners.refuse,
        judge: owners.Judge | None = None,
        receipt: receipts.Receipt | None = None,
        naming: Naming | None = None,
    ) -> tuple[LoadedTable, ...]:
        """Commit to several tables, all or none, as one commit of each table bucket.

        Changes of the same table are applied in order, each on the result of the one before.
        judge: called for each table; None for a caller with all rights. naming: plans files that
        the same transaction writes.
        Returns each table once, in the order of its first change. Raises as `commit` does.
        """
        parts = _by_table(changes)
        places: dict[str, records.Place] = {}
        for ident in parts:
            if ident.table_bucket not in places:
                places[ident.table_bucket] = self._store.place(ident.table_bucket)
        wanted = [
            await self._wanted(places[ident.table_bucket], of_table)
            for ident, of_table in parts.items()
        ]

        async def plan() -> store.Planned[tuple[tuple[LoadedTable, ...], Sequence[Step]]]:
            now_ms = self._store.now_ms()
            entries = self._entries(wanted)
            steps: list[Step] = []
            for each, entry in zip(wanted, entries, strict=True):
                if len(steps) % STEPS_AT_ONCE == STEPS_AT_ONCE - 1:
                    await asyncio.sleep(0)
                file = await self._base(each.place, entry)
                steps.append(
                    await self._plan_step(
                        each, entry=entry, file=file, permit=permit, judge=judge, now_ms=now_ms
                    )
                )
            planned: list[store.Planned[tuple[LoadedTable, ...]]] = []
            for bucket, place in places.items():
                own = steps
                if len(places) > 1:
                    own = [step for step in steps if step.ident.table_bucket == bucket]
                _check_apart(place, own)
                planned.append(
                    await self.finish(
                        place,
                        own,
                        by=by,
                        via=via,
                        now_ms=now_ms,
                        receipt=None if planned else receipt,
                    )
                )
            return _together(planned, steps, naming, now_ms=now_ms)

        keys = [key for each in wanted for key in self._pointers.keys(each.place, each.ident)]
        first, *further = places.values()
        loaded, steps = await self._store.write(plan, keys=keys, place=first, further=further)
        # The commit is durable: a file that was not removed does not make it fail.
        with contextlib.suppress(storage_errors.StorageError):
            for each, step in zip(wanted, steps, strict=True):
                superseded = _superseded(step)
                if superseded:
                    await self._give_up(each.place, superseded, by=by)
                if each.taken:
                    bucket_id, object_uuid = each.place.bucket_id, step.object_uuid
                    await unpacking.write_rows(self._store.index, bucket_id, object_uuid)
        if len(places) == 1:
            return loaded
        by_ident = {each.ident: each for each in loaded}
        return tuple(by_ident[ident] for ident in parts)

    def _entries(self, wanted: Sequence[_Wanted]) -> list[store.StoredPointer | None]:
        """Return the pointers of the tables, all in one state of the index."""
        if len(wanted) == 1:
            (only,) = wanted
            return [self._store.newest_pointer(only.place, "table", only.ident)]
        with self._store.index.view() as view:
            return [
                self._store.find_pointer(view, each.place, "table", each.ident) for each in wanted
            ]

    async def _wanted(self, place: records.Place, parts: Sequence[TableChange]) -> _Wanted:
        """Return the change of one table, with what its plans need and no index."""
        ident = parts[0].ident
        if sites.is_overriding(place):
            parts = [
                msgspec.structs.replace(part, updates=sites.granted(place, part.updates))
                for part in parts
            ]
        taken = await self._taken_by(parts) if _may_load(parts) else ()
        fresh = None
        if creates(parts[0].requirements):
            idents.check_name(ident.name)
            new_id = self._store.new_id
            fresh = (sites.hyphenated(new_id()), sites.hyphenated(new_id()))
        return _Wanted(
            ident=ident,
            place=place,
            parts=parts,
            taken=taken,
            fresh=fresh,
            large=_are_large(parts),
        )

    async def finish(
        self,
        place: records.Place,
        steps: Sequence[Step],
        *,
        by: str,
        via: str,
        now_ms: int,
        receipt: receipts.Receipt | None,
    ) -> store.Planned[tuple[LoadedTable, ...]]:
        """Return the plan of all steps in one Batch, with the resulting tables."""
        planned = await self.plan_steps(place, steps, by=by, now_ms=now_ms)
        loaded, batches = planned.loaded, list(planned.batches)
        if planned.changes:
            batches.append(commit.plan(place, planned.changes, author=by, via=via, time_ms=now_ms))
        if receipt is not None:
            single = loaded[0].pointer if len(loaded) == 1 else None
            batches.append(receipt.plan(pointer=single))
        return store.Planned(
            result=loaded,
            batch=batch.merge(batches) if batches else None,
            files=planned.files,
            cached=planned.cached,
        )

    async def plan_steps(
        self, place: records.Place, steps: Sequence[Step], *, by: str, now_ms: int
    ) -> PlannedSteps:
        """Write the metadata files of steps; return what a commit of them changes."""
        loaded: list[LoadedTable] = []
        changes: list[commit.Change] = []
        batches: list[batch.Batch] = []
        files: list[Any] = []
        cached: list[tuple[int, store.LoadedMetadata]] = []
        for number, step in enumerate(steps):
            if number % STEPS_AT_ONCE == STEPS_AT_ONCE - 1:
                await asyncio.sleep(0)
            if step.before is not None and step.metadata is step.base:
                loaded.append(await self.fetched(place, step.ident, step.before.pointer))
                continue
            encoded = await run(model.encode_file, step.metadata, large=step.large)
            data = encoded.data
            _check_size(step, len(data))
            location, named, received = await plan_file(
                self._store,
                place,
                step.metadata,
                data,
                before=None if step.before is None else step.before.pointer,
                by=by,
                repeated=store.find_repeated(step.file, encoded, table_bucket=place.table_bucket),
            )
            pointer = self._pointer(step, location, by=by, now_ms=now_ms)
            changes.append(
                self._pointers.change(
                    step.ident,
                    step.namespace_id,
                    holder=step.holder,
                    before=step.before,
                    after=pointer,
                    summary=step.summary,
                )
            )
            # The claim on the location is checked before the table's file is written there.
            batches.extend((*step.extra, named))
            files.extend(received)
            cached.append(
                (
                    place.bucket_id,
                    store.LoadedMetadata(
                        location=location,
                        data=data,
                        table=step.metadata,
                        arrays=encoded.arrays,
                        replaces=None if step.file is None else step.file.location,
                    ),
                )
            )
            loaded.append(
                LoadedTable(ident=step.ident, pointer=pointer, metadata=step.metadata, data=data)
            )
        return PlannedSteps(
            loaded=tuple(loaded),
            changes=tuple(changes),
            batches=tuple(batches),
            files=tuple(files),
            cached=tuple(cached),
        )

    async def fetched(
        self, place: records.Place, ident: idents.TableIdent, pointer: records.Pointer
    ) -> LoadedTable:
        """Return a table as its pointer has it; a large file is decoded in a child process."""
        if pointer.metadata_location is None:
            raise _without_metadata(ident)
        mounts = self._store.mounts
        mount = None if mounts is None else mounts.find(place.table_bucket)
        if mount is not None:
            mounted = await mount.load(ident, pointer, self._store.decode_mounted)
            return LoadedTable(
                ident=ident, pointer=mounted.pointer, metadata=mounted.metadata, data=mounted.data
            )
        file = await self._store.fetch_metadata(pointer.metadata_location, place=place)
        return LoadedTable(ident=ident, pointer=pointer, metadata=file.table, data=file.data)

    def staged(self, step: Step, *, by: str, now_ms: int) -> LoadedTable:
        """Return the table that a staged create would make."""
        return LoadedTable(
            ident=step.ident,
            pointer=self._pointer(step, None, by=by, now_ms=now_ms),
            metadata=step.metadata,
            data=model.encode(step.metadata),
        )

    def find_site(
        self,
        reading: batch.Reading,
        place: records.Place,
        ident: idents.TableIdent,
        *,
        requested: str | None,
        object_uuid: str,
        now_ms: int,
        permit: owners.Permit,
        reserved_until_ms: int = 0,
        adopts: bool = False,
        base_path: str | None = None,
    ) -> sites.Site:
        """Return the site of a new table. object_uuid: its own, unless the site has one.

        base_path: as in `sites.find_site`.
        adopts: an existing table without metadata does not conflict but is the table to create.
        """
        holder = self._store.namespace(reading, place, ident.namespace)
        entry = self._store.find_pointer(reading, place, "table", ident) if adopts else None
        if entry is not None and entry.pointer.metadata_location is None:
            return sites.adopt(
                reading, place, ident, holder, entry=entry, requested=requested, now_ms=now_ms
            )
        sites.check_name_free(self._store, reading, place, ident, object_type="table")
        return sites.find_site(
            reading,
            place,
            ident,
            holder,
            object_type="table",
            requested=requested,
            object_uuid=object_uuid,
            now_ms=now_ms,
            permit=permit,
            reserved_until_ms=reserved_until_ms,
            base_path=base_path,
        )

    def _pointer(
        self, step: Step, metadata_location: str | None, *, by: str, now_ms: int
    ) -> records.Pointer:
        """Return the pointer after a step."""
        return self._pointers.next(
            None if step.before is None else step.before.pointer,
            object_uuid=step.object_uuid,
            metadata_uuid=step.metadata.table_uuid,
            metadata_location=metadata_location,
            location=step.metadata.location,
            by=by,
            now_ms=now_ms,
        )

    async def _base(
        self, place: records.Place, entry: store.StoredPointer | None
    ) -> store.LoadedMetadata | None:
        if entry is None or entry.pointer.metadata_location is None:
            return None
        return await self._store.fetch_metadata(entry.pointer.metadata_location, place=place)

    async def _plan_step(
        self,
        wanted: _Wanted,
        *,
        entry: store.StoredPointer | None,
        file: store.LoadedMetadata | None,
        permit: owners.Permit,
        judge: owners.Judge | None,
        now_ms: int,
    ) -> Step:
        ident, place, parts = wanted.ident, wanted.place, wanted.parts
        large = wanted.large or _is_large(file)
        base = None if file is None else file.table
        if wanted.fresh is not None and base is None:
            return await self._plan_creation(
                wanted, wanted.fresh, large=large, permit=permit, judge=judge, now_ms=now_ms
            )
        if entry is None:
            raise errors.NoSuchTable(f"Table does not exist: {ident.dotted()}")
        if judge is not None:
            judge(place, ident, entry.pointer)
        if base is None:
            raise _without_metadata(ident)
        metadata = await run(
            _apply,
            base,
            parts,
            now_ms=now_ms,
            base_location=entry.pointer.metadata_location,
            large=large,
        )
        extra: list[batch.Batch] = []
        if metadata is not base:
            object_uuid = entry.pointer.object_uuid
            if metadata.location != base.location or metadata.properties != base.properties:
                check_placement(metadata, place)
            if metadata.location != base.location:
                extra.append(
                    self._pointers.plan_move(
                        place, ident, entry, metadata.location, now_ms=now_ms, permit=permit
                    )
                )
            if wanted.taken:
                taken = wanted.taken
                extra.append(await self._plan_loads(place, object_uuid, taken, now_ms=now_ms))
        return Step(
            ident=ident,
            namespace_id=entry.namespace_id,
            before=entry,
            base=base,
            metadata=metadata,
            object_uuid=entry.pointer.object_uuid,
            extra=tuple(extra),
            summary=history.summarise(_updates_of(parts)) if metadata is not base else {},
            large=large,
            file=file,
        )

    async def _plan_creation(
        self,
        wanted: _Wanted,
        fresh: tuple[str, str],
        *,
        large: bool,
        permit: owners.Permit,
        judge: owners.Judge | None,
        now_ms: int,
    ) -> Step:
        ident, place, parts = wanted.ident, wanted.place, wanted.parts
        table_uuid, object_uuid = fresh
        with self._store.index.view() as view:
            site = self.find_site(
                view,
                place,
                ident,
                requested=requested_location(_updates_of(parts)),
                object_uuid=object_uuid,
                now_ms=now_ms,
                permit=permit,
                adopts=True,
            )
        if judge is not None:
            judge(place, ident, None if site.entry is None else site.entry.pointer)
        metadata = await run(
            _apply,
            None,
            parts,
            now_ms=now_ms,
            base_location=None,
            table_uuid=table_uuid,
            location=site.location,
            large=large,
        )
        check_placement(metadata, place)
        extra = [site.claim]
        if wanted.taken:
            loaded = await self._plan_loads(place, site.object_uuid, wanted.taken, now_ms=now_ms)
            extra.append(loaded)
        return Step(
            ident=ident,
            namespace_id=site.holder.row.namespace_id,
            holder=site.holder,
            before=site.entry,
            base=None,
            metadata=metadata,
            object_uuid=site.object_uuid,
            extra=tuple(extra),
            summary={**history.summarise(_updates_of(parts)), "created": True},
            large=large,
        )

    async def _taken_by(self, parts: Sequence[TableChange]) -> tuple[loads.Taken, ...]:
        """Return the sources that the parts' snapshots load; long lists are read in a thread."""
        part_updates = _updates_of(parts)
        large = loads.are_large(part_updates)
        return await run(loads.taken_by, part_updates, self._read_list, large=large)

    async def _plan_loads(
        self,
        place: records.Place,
        object_uuid: str,
        taken: Sequence[loads.Taken],
        *,
        now_ms: int,
    ) -> batch.Batch:
        load_id = self._store.new_id()

        def plan() -> batch.Batch:
            with self._store.index.view() as view:
                return loads.plan(view, place, object_uuid, taken, now_ms=now_ms, load_id=load_id)

        await unpacking.write_rows(self._store.index, place.bucket_id, object_uuid)
        large = sum(len(each.sources) for each in taken) > loads.SOURCES_AT_ONCE
        return await run(plan, large=large)

    def _read_list(self, uri: str) -> bytes:
        return self._store.read_object(uri, bytes_max=loads.LIST_BYTES_MAX)

    async def _give_up(self, place: records.Place, superseded: Sequence[str], *, by: str) -> None:
        """Tombstone metadata files that left the log, for the sweep, once they are unreferenced."""
        for location in superseded:
            key = locations.path_in(location, table_bucket=place.table_bucket)
            if key is not None:
                await self._store.tombstone(place.table_bucket, key, by=by)


def _together(
    planned: Sequence[store.Planned[tuple[LoadedTable, ...]]],
    steps: Sequence[Step],
    naming: Naming | None,
    *,
    now_ms: int,
) -> store.Planned[tuple[tuple[LoadedTable, ...], Sequence[Step]]]:
    """Return one plan of the commits of several table buckets, and of the files they name.

    Its result has the tables and the steps.
    """
    if len(planned) == 1 and naming is None:
        (only,) = planned
        return store.Planned(
            result=(only.result, steps), batch=only.batch, files=only.files, cached=only.cached
        )
    batches = [each.batch for each in planned if each.batch is not None]
    if batches and naming is not None:
        batches.insert(0, naming(now_ms))
    return store.Planned(
        result=(
            tuple(itertools.chain.from_iterable(each.result for each in planned)),
            steps,
        ),
        batch=batch.merge(batches) if batches else None,
        files=tuple(itertools.chain.from_iterable(each.files for each in planned)),
        cached=tuple(itertools.chain.from_iterable(each.cached for each in planned)),
    )


def _check_size(step: Step, size_bytes: int) -> None:
    """Refuse metadata that is too large, unless an older release wrote it and it shrinks now."""
    base_bytes = 0 if step.file is None else len(step.file.data)
    if size_bytes > max(store.NEW_METADATA_BYTES_MAX, base_bytes - 1):
        raise errors.InvalidCatalogRequest(
            f"The metadata of {step.ident.dotted()} would be {size_bytes} bytes, more than"
            f" {store.NEW_METADATA_BYTES_MAX}: expire snapshots, or remove schemas, first"
        )


def _are_large(parts: Sequence[TableChange]) -> bool:
    """Return whether the changes of a table have more values than the event loop may apply.

    Most commits are too short for that: a value has at least one byte, and one that separates it
    from the next.
    """
    text_bytes = parts[0].text_bytes if len(parts) == 1 else None
    if text_bytes is not None and text_bytes <= SMALL_CHANGE_BYTES:
        return False
    return json_values.has_more_values(
        [(part.requirements, part.updates) for part in parts], LARGE_CHANGE_VALUES
    )


def _is_large(file: store.LoadedMetadata | None) -> bool:
    return file is not None and len(file.data) > LARGE_METADATA_BYTES


async def run(work: Callable[..., Result], *arguments: Any, large: bool, **named: Any) -> Result:
    """Return the result of work; large work runs in a thread, off the event loop."""
    if large:
        return await asyncio.to_thread(work, *arguments, **named)
    return work(*arguments, **named)


async def outcome_of(running: asyncio.Future[Result]) -> Result:
    """Return the outcome of a started commit, however often the caller is cancelled.

    A caller that left before would take a commit for failed that may yet succeed. Raises
    CommitStateUnknown if the commit itself is cancelled, as at the end of the event loop.
    """
    await _end_of(running)
    if running.cancelled():
        raise errors.CommitStateUnknown("the server stops, and the commit may be written or not")
    return running.result()


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of work that runs to its end, however often the caller is cancelled."""
    running = asyncio.ensure_future(work)
    await _end_of(running)
    return running.result()


async def _end_of(running: asyncio.Future[Any]) -> None:
    while not running.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((running,))


def _without_metadata(ident: idents.TableIdent) -> errors.TableWithoutMetadata:
    return errors.TableWithoutMetadata(f"Table does not have metadata: {ident.dotted()}")


async def plan_file(
    catalog: store.CatalogStore,
    place: records.Place,
    metadata: Placed,
    data: bytes,
    *,
    before: records.Pointer | None,
    by: str,
    repeated: storage_model.Repeated | None = None,
) -> tuple[str, batch.Batch, tuple[storage_model.Received, ...]]:
    """Return where a new metadata file lies, the Batch that names it, and its bodies on disk.

    data: the encoded metadata. before: the pointer to the file before it. repeated: the bytes that
    both files share; a compressed file shares none. Raises as `check_file` does.
    """
    codec = properties.metadata_codec(metadata.properties)
    location = next_file(
        None if before is None else before.metadata_location,
        metadata,
        codec=codec,
        new_id=sites.hyphenated(catalog.new_id()),
    )
    check_file(location, metadata, place)
    body = data
    if codec == "gzip":
        # Ten megabytes take half a second to compress: a thread keeps that off the event loop.
        body, repeated = await asyncio.to_thread(store.compress, data), None
    named, received = await catalog.plan_file(
        location, body, bucket=place.bucket, owner=by, repeated=repeated
    )
    return location, named, received


def _may_load(parts: Sequence[TableChange]) -> bool:
    """Say whether a commit may record loads: most do not, and are not looked at further."""
    return any(loads.SUMMARY_KEY in _summary_of(update) for update in _updates_of(parts))


def _summary_of(update: Any) -> Container[str]:
    snapshot = update.get("snapshot") if isinstance(update, dict) else None
    summary = snapshot.get("summary") if isinstance(snapshot, dict) else None
    return summary if isinstance(summary, dict) else ()


def creates(requirement_list: Sequence[Any]) -> bool:
    """Return whether requirements contain assert-create; malformed ones are ignored."""
    return any(
        isinstance(each, dict) and str(each.get("type")).lower() == requirements.ASSERT_CREATE
        for each in requirement_list
    )


def check_placement(metadata: Placed, place: records.Place) -> None:
    """Raise InvalidProperty if properties have paths where the layout refuses writes."""
    properties.check_paths(metadata.properties, location=metadata.location)
    properties.metadata_codec(metadata.properties)
    if place.bucket.settings.get(table_guard.LAYOUT) == "off":
        return
    for name in properties.PATHS.keys() & metadata.properties.keys():
        value = metadata.properties[name]
        home, path = (
            properties.plain_uri(uri).removeprefix("s3://").partition("/")[2]
            for uri in (metadata.location, value)
        )
        try:
            layout.check_directory(path, location=layout.Location(path=home))
        except guard.LayoutRefused as refused:
            raise errors.InvalidProperty(f"Cannot set {name} to {value}: {refused}") from None


def check_file(uri: str, metadata: Placed, place: records.Place) -> None:
    """Raise InvalidProperty if the layout does not allow a client to write this metadata file.

    Properties are checked when they are set, but the bucket may be stricter now.
    """
    if place.bucket.settings.get(table_guard.LAYOUT) == "off":
        return
    directory, _, name = uri.rpartition("/")
    # The names of this module are alike: a number, an id, one suffix.
    alike = f"{directory}/{METADATA_SUFFIX.rjust(len(name), '0')}"
    try:
        _judge_file(alike, metadata.location, place.table_bucket)
    except guard.LayoutRefused as refused:
        raise errors.InvalidProperty(f"Cannot write {uri}: {refused}") from None


@functools.lru_cache(FILES_REMEMBERED)
def _judge_file(uri: str, location: str, table_bucket: str) -> None:
    key = locations.path_in(uri, table_bucket=table_bucket)
    home = locations.path_in(location, table_bucket=table_bucket)
    assert key, "a table's metadata lies in its table bucket"
    assert home, "a table lies in its table bucket"
    layout.judge(key, location=layout.Location(path=home.rstrip("/")))


def _by_table(
    changes: Sequence[TableChange],
) -> dict[idents.TableIdent, list[TableChange]]:
    if not changes:
        raise errors.InvalidCatalogRequest("A commit needs at least one table change")
    if len(changes) > CHANGES_MAX:
        raise errors.InvalidCatalogRequest(f"A commit has at most {CHANGES_MAX} table changes")
    if sum(len(change.updates) for change in changes) > limits.UPDATES_MAX:
        raise errors.InvalidCatalogRequest(f"A commit has at most {limits.UPDATES_MAX} updates")
    parts: dict[idents.TableIdent, list[TableChange]] = {}
    for change in changes:
        parts.setdefault(change.ident, []).append(change)
    return parts


def _check_apart(place: records.Place, steps: Sequence[Step]) -> None:
    """Raise InvalidLocation if tables of one commit get locations that overlap.

    The claims of one Batch expect the state before it, and do not see each other.
    """
    if len(steps) == 1:
        return
    paths = sorted(
        locations.parse_location(step.metadata.location, table_bucket=place.table_bucket) + "/"
        for step in steps
        if step.base is None or step.metadata.location != step.base.location
    )
    for path, following in itertools.pairwise(paths):
        if following.startswith(path):
            raise errors.InvalidLocation(
                f"Cannot use location {locations.format_uri(place.table_bucket, following[:-1])}:"
                " another table of the same commit gets one that overlaps it"
            )


def _updates_of(parts: Sequence[TableChange]) -> list[Any]:
    return [update for part in parts for update in part.updates]


def _apply(
    base: model.TableMetadata | None,
    parts: Sequence[TableChange],
    *,
    now_ms: int,
    base_location: str | None,
    table_uuid: str | None = None,
    location: str | None = None,
) -> model.TableMetadata:
    """Return the metadata after all parts; a part's requirements are checked before it."""
    return updates.apply_parts(
        base,
        [updates.Part(requirements=part.requirements, updates=part.updates) for part in parts],
        now_ms=now_ms,
        base_location=base_location,
        table_uuid=table_uuid,
        location=location,
    )


def requested_location(table_updates: Sequence[Any]) -> str | None:
    """Return the location that the updates of a new table set last, if any."""
    requested = None
    for update in table_updates:
        if isinstance(update, dict) and update.get("action") == "set-location":
            location = update.get("location")
            requested = location if isinstance(location, str) else requested
    return requested


_VERSION = re.compile(r"(\d{1,9})-[^/]*$")


def next_file(
    previous: str | None, metadata: Placed, *, codec: properties.MetadataCodec, new_id: str
) -> str:
    """Return the name of a metadata file: the number after previous, and a fresh id."""
    number = 0
    if previous is not None:
        match = _VERSION.match(previous.rpartition("/")[2])
        number = int(match[1]) + 1 if match else 0
    directory = properties.metadata_directory(metadata.properties, location=metadata.location)
    middle = ".gz" if codec == "gzip" else ""
    return f"{directory}/{number:05d}-{new_id}{middle}{METADATA_SUFFIX}"


def _superseded(step: Step) -> tuple[str, ...]:
    """Return the metadata files that left the table's log and may be deleted after the commit."""
    if step.base is None or step.metadata is step.base:
        return ()
    if not metadata_properties.switched_on(
        step.metadata.properties, metadata_properties.DELETE_AFTER_COMMIT, default=False
    ):
        return ()
    kept = {entry["metadata-file"] for entry in step.metadata.metadata_log}
    home = properties.plain_uri(step.metadata.location) + "/"
    return tuple(
        entry["metadata-file"]
        for entry in step.base.metadata_log
        if entry["metadata-file"] not in kept
        and properties.plain_uri(entry["metadata-file"]).startswith(home)
    )
