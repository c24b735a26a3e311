"""engine: the sweep: frees files of tables that no retained metadata references.

One run marks (`catalog.sweep.marking`), then walks the locations of a table bucket in small steps,
and hides or frees files as `catalog.sweep.retention` decides. Every batch of frees is one index
transaction that refuses if any table bucket has a commit after the mark, if the location has
another owner, or, for each file, if its row has changed: a commit, a registration or an upload
between mark and free loses no file. After a crash between two transactions the next run does the
rest. Metadata files are freed before the files that they reference, so that a metadata file that
can be registered still has its files. `storage.sweep` frees the bodies.

Keys outside known locations, directory markers, uploads under way, staged creates and the files of
open transactions (`catalog.holds`) are never touched. One run at a time, in the background and on
demand; a run on demand may walk the locations of one table alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from catalog import decoding, errors, files, guard, layout, records, store
from catalog.sweep import marking, retention
from server import errors as server_errors
from storage import batch, keys, model, removals
from storage import errors as storage_errors
from storage import records as storage_records

BY: Final = "boathouse:sweep"
"""Who wrote the tombstones of unreferenced files."""

OBJECTS_AT_ONCE: Final = 500
"""Objects that one step of the walk judges, in a thread."""
CHANGES_AT_ONCE: Final = 100
"""Objects that one transaction hides or frees: some milliseconds of the writer thread."""
SEGMENTS_AT_ONCE: Final = 1_000
"""Segments of the bodies of these objects, unless one object has more: some tens of milliseconds to
free them."""
LOCATIONS_AT_ONCE: Final = 200
DROPPED_AT_ONCE: Final = 500
"""Rows of dropped tables that one step reads, and one transaction removes."""
ATTEMPTS_MAX: Final = 20
"""Times that a batch is decided anew because a commit came first; then the next run has it. From
the second time on new commits wait, so that a sweep ends under steady commits, too."""
FILES_LISTED_MAX: Final = 1_000
TABLE_REPORTS_MAX: Final = 100
"""Reports of runs over one table that are kept; each table has the latest of its sort."""

State: TypeAlias = Literal["never run", "waiting", "running", "done", "failed"]


@dataclass(kw_only=True, slots=True)
class Tally:
    """Files and their bytes. Mutable: it counts up."""

    files: int = 0
    size_bytes: int = 0

    def add(self, seen: Sequence[model.Seen]) -> None:
        """Count files."""
        self.files += len(seen)
        self.size_bytes += sum(each.size_bytes for each in seen)


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedFile:
    """An unreferenced file. action: what was, or in a dry run would be, done to it. hidden_at_ms:
    since when it is hidden, None if it was not before the run."""

    action: str
    key: str
    size_bytes: int
    modified_at_ms: int
    hidden_at_ms: int | None


@dataclass(kw_only=True, slots=True)
class Report:
    """One run over one table bucket, under way or over. Mutable: it tells progress.

    object_uuid: of the table whose files alone are swept, None for all. removes_unreferenced:
    whether the table bucket removes unreferenced files at all. hidden, freed: what was
    hidden and freed, or would be in a dry run. waiting: unreferenced files, hidden ones too, whose
    days are not over. shown: files whose tombstone was taken away because they are referenced
    again. deferred: left to the next run because commits or writes came first. listed: the first
    FILES_LISTED_MAX of them; waiting_listed: of those that wait, in a run over one table. problems:
    the first of the problems_count files that could not be read; of their tables every file is
    kept.
    """

    dry_run: bool = False
    object_uuid: str | None = None
    removes_unreferenced: bool = True
    state: State = "never run"
    phase: Literal["", "mark", "walk"] = ""
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    error: str | None = None
    metadata_files_read: int = 0
    manifests_read: int = 0
    files_reached: int = 0
    objects_seen: int = 0
    hidden: Tally = field(default_factory=Tally)
    freed: Tally = field(default_factory=Tally)
    waiting: Tally = field(default_factory=Tally)
    shown: Tally = field(default_factory=Tally)
    deferred: Tally = field(default_factory=Tally)
    listed: list[ListedFile] = field(default_factory=list)
    waiting_listed: list[ListedFile] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    problems_count: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the run changes files, and those of all tables."""
        return not self.dry_run and self.object_uuid is None

    def note(self, fate: retention.ObjectFate, seen: Sequence[model.Seen]) -> None:
        """List files with what was done to them."""
        if fate is retention.ObjectFate.WAIT:
            listed = self.waiting_listed if self.object_uuid is not None else None
        else:
            listed = self.listed
        if listed is not None:
            for each in seen[: FILES_LISTED_MAX - len(listed)]:
                listed.append(_listed(fate, each))


@dataclass(kw_only=True, slots=True)
class Totals:
    """What all runs of this process did, for metrics. Mutable."""

    runs: dict[str, int] = field(default_factory=lambda: {"done": 0, "failed": 0})
    hidden: Tally = field(default_factory=Tally)
    freed: Tally = field(default_factory=Tally)
    deferred: Tally = field(default_factory=Tally)
    last_ended_at_ms: int = 0
    last_duration_ms: int = 0
    unreadable_files: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Location:
    """A location and who owns it. key, value: its row in LOCATIONS."""

    location: layout.Location
    key: bytes
    value: bytes
    row: records.LocationRow


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """What one step of a walk judged. next_key: where the next begins; None at the end."""

    owner: retention.OwnerState
    verdicts: tuple[tuple[retention.ObjectFate, model.Seen], ...]
    objects: int
    next_key: bytes | None


class TableSweep:
    """The sweep of every table bucket of a data folder."""

    def __init__(
        self,
        *,
        store: store.CatalogStore,
        files: files.Files,
        new_decoder: Callable[[], decoding.ChildDecoder] = decoding.ChildDecoder,
        day_ms: int = retention.DAY_MS,
    ) -> None:
        self._store = store
        self._files = files
        self._new_decoder = new_decoder
        self._day_ms = day_ms
        self._turn = asyncio.Lock()
        self._logs: dict[int, marking.Log] = {}
        self._reports: dict[tuple[int, bool, str | None], Report] = {}
        self._finished: dict[int, Report] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._log = logging.getLogger("boathouse.sweep")
        self.totals = Totals()

    async def run(self, *, interval_s: float) -> None:
        """Sweep every table bucket at an interval until cancelled. A failed run is logged."""
        while True:
            await asyncio.sleep(interval_s)
            buckets = [each for each in self._store.buckets.list() if each.type == "table"]
            await self.sweep([bucket.name for bucket in buckets])

    async def sweep(self, table_buckets: Sequence[str], *, dry_run: bool = False) -> list[Report]:
        """Sweep table buckets after one mark; return what was done, whether it succeeded or not.

        dry_run: nothing is changed. Raises NoSuchWarehouse before anything begins.
        """
        work = [self._prepare(name, dry_run=dry_run, object_uuid=None) for name in table_buckets]
        await self._in_turn(work)
        return [report for _, report in work]

    def start(self, table_bucket: str, *, dry_run: bool, object_uuid: str | None = None) -> Report:
        """Begin a run in the background, unless one is waiting or under way; return its report.

        object_uuid: of the table whose files alone are swept. Raises NoSuchWarehouse, ServerBusy.
        """
        report = self.report(table_bucket, dry_run=dry_run, object_uuid=object_uuid)
        if report.state in ("waiting", "running"):
            return report
        work = self._prepare(table_bucket, dry_run=dry_run, object_uuid=object_uuid)
        task = asyncio.get_running_loop().create_task(self._in_turn([work]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return work[1]

    def report(self, table_bucket: str, *, dry_run: bool, object_uuid: str | None = None) -> Report:
        """Return the report of the latest run of its sort. Raises NoSuchWarehouse."""
        key = self._store.place(table_bucket).bucket_id, dry_run, object_uuid
        return self._reports.get(key, Report(dry_run=dry_run, object_uuid=object_uuid))

    def finished(self, table_bucket: str) -> Report | None:
        """Return the report of the latest run that is over, None if there was none.

        After a restart it has only what is stored: times, error and problems. A dry run and a run
        over one table do not count. Raises NoSuchWarehouse.
        """
        bucket_id = self._store.place(table_bucket).bucket_id
        report = self._finished.get(bucket_id)
        if report is not None:
            return report
        value = self._store.index.get(batch.Store.JOBS, records.sweep_key(bucket_id))
        if value is None:
            return None
        row = records.decode(value, records.SweepRow)
        return Report(
            state="failed" if row.error else "done",
            started_at_ms=row.started_at_ms,
            ended_at_ms=row.ended_at_ms,
            error=row.error or None,
            problems=list(row.problems),
            problems_count=row.problems_count,
        )

    async def stop(self) -> None:
        """End the runs that were begun on demand."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # One run.

    def _prepare(
        self, table_bucket: str, *, dry_run: bool, object_uuid: str | None
    ) -> tuple[records.Place, Report]:
        place = self._store.place(table_bucket)
        report = Report(dry_run=dry_run, object_uuid=object_uuid, state="waiting")
        key = place.bucket_id, dry_run, object_uuid
        self._reports.pop(key, None)  # the newest comes last
        if object_uuid is not None:
            self._make_room()
        self._reports[key] = report
        return place, report

    def _make_room(self) -> None:
        """Forget the oldest report of a table if there are too many. Raises ServerBusy."""
        of_tables = [key for key in self._reports if key[2] is not None]
        if len(of_tables) < TABLE_REPORTS_MAX:
            return
        for key in of_tables:
            if self._reports[key].state in ("done", "failed"):
                del self._reports[key]
                return
        raise server_errors.ServerBusy("too many tables wait for the sweep; try again later")

    async def _in_turn(self, work: Sequence[tuple[records.Place, Report]]) -> None:
        """Do a run once those before it are over."""
        started_at_ms = self._store.now_ms()
        error: str | None = "the sweep was stopped"
        try:
            async with self._turn:
                started_at_ms = self._store.now_ms()
                error = await self._sweep(work, started_at_ms)
                await self._remember(work, started_at_ms, error)
        finally:
            self._end(work, started_at_ms, error)

    async def _sweep(
        self, work: Sequence[tuple[records.Place, Report]], started_at_ms: int
    ) -> str | None:
        """Mark, then sweep; return why the run failed, or None."""
        decoder = self._new_decoder()
        mark = marking.Mark(
            store=self._store,
            files=self._files,
            decoder=decoder,
            logs=self._logs,
            salt=bytes.fromhex(self._store.new_id()),
            day_ms=self._day_ms,
            dropped_until_ms=started_at_ms if work and work[0][1].dry_run else None,
        )
        for _, report in work:
            report.state, report.phase, report.started_at_ms = "running", "mark", started_at_ms
        try:
            for place, report in work:
                if report.is_full:
                    await self._end_dropped(place, started_at_ms)
            await mark.run(now_ms=started_at_ms)
            await mark.catch_up()  # before commits have to wait for it
            for problem in mark.problems:
                self._log.warning("the sweep keeps every file of a table: %s", problem)
            for place, report in work:
                report.phase = "walk"
                report.metadata_files_read = mark.metadata_count
                report.manifests_read = mark.manifests_count
                report.files_reached = mark.reached.count
                report.problems = mark.problems
                report.problems_count = mark.problems_count
                await self._sweep_bucket(mark, place, report)
                report.problems_count = mark.problems_count
        except Exception as failure:  # noqa: BLE001 - the next run tries again
            self._log.warning("the sweep of tables failed", exc_info=failure)
            return f"the sweep failed: {failure!r}"
        finally:
            await decoder.close()
        return None

    async def _end_dropped(self, place: records.Place, now_ms: int) -> None:
        """Remove the rows of what was dropped long enough ago: from then on it is not restored.

        The mark that follows does not read what they reference, so its files may be freed. A
        restore expects the row, so a restored table has all its files, even if the clock was set
        back.
        """
        await self._end_rows(records.dropped_range(place), records.Dropped, now_ms)
        namespaces = records.dropped_namespace_range(place)
        await self._end_rows(namespaces, records.DroppedNamespace, now_ms)

    async def _end_rows(
        self,
        prefix: bytes,
        row_type: type[records.Dropped] | type[records.DroppedNamespace],
        now_ms: int,
    ) -> None:
        """Remove those rows below a prefix whose time is over."""
        start = prefix
        while True:
            rows = await asyncio.to_thread(self._dropped_rows, start, records.stop_after(prefix))
            ended = tuple(
                batch.Delete(store=batch.Store.POINTERS, key=key)
                for key, value in rows
                if marking.is_over(records.decode(value, row_type), now_ms)
            )
            if ended:
                # A key holds the time of the drop and the uuid: a later drop has another row.
                await self._store.index.commit(batch.Batch(writes=ended, makes_room=True))
            if len(rows) < DROPPED_AT_ONCE:
                return
            start = rows[-1][0] + b"\x00"

    def _dropped_rows(self, start: bytes, stop: bytes) -> list[tuple[bytes, bytes]]:
        with self._store.index.view() as view:
            rows = view.scan(batch.Store.POINTERS, start, stop)
            return list(itertools.islice(rows, DROPPED_AT_ONCE))

    async def _remember(
        self, work: Sequence[tuple[records.Place, Report]], started_at_ms: int, error: str | None
    ) -> None:
        """Store the results of runs that were no dry runs, for the time after a restart."""
        now_ms = self._store.now_ms()
        for place, report in work:
            if not report.is_full:
                continue
            row = records.SweepRow(
                started_at_ms=started_at_ms,
                ended_at_ms=now_ms,
                error=error or "",
                problems=tuple(report.problems),
                problems_count=report.problems_count,
            )
            try:
                await self._store.index.commit(_storing(place, row))
            except (storage_errors.StorageError, OSError) as failure:
                self._log.warning("the result of a sweep is not stored: %s", failure)

    def _end(
        self, work: Sequence[tuple[records.Place, Report]], started_at_ms: int, error: str | None
    ) -> None:
        now_ms = self._store.now_ms()
        for place, report in work:
            report.state = "done" if error is None else "failed"
            report.phase, report.error, report.ended_at_ms = "", error, now_ms
            if report.is_full:
                self._finished[place.bucket_id] = report
        if work and not work[0][1].dry_run:
            self.totals.runs["done" if error is None else "failed"] += 1
            self.totals.last_ended_at_ms = now_ms
            self.totals.last_duration_ms = now_ms - started_at_ms
            self.totals.unreadable_files = work[0][1].problems_count

    async def _sweep_bucket(self, mark: marking.Mark, place: records.Place, report: Report) -> None:
        with contextlib.suppress(errors.NoSuchWarehouse):
            newest = self._store.place(place.table_bucket)
            if newest.bucket_id == place.bucket_id:
                place = newest  # settings may have changed while the run waited
        kept = retention.retention_of(place.bucket.settings, day_ms=self._day_ms)
        report.removes_unreferenced = kept.removes_unreferenced
        start = records.bucket_prefix(place.bucket_id)
        while True:
            listed = await asyncio.to_thread(self._locations, place, start)
            for location in listed.locations:
                if report.object_uuid not in (None, location.row.object_uuid):
                    continue
                await self._sweep_location(mark, place, location, kept, report)
            if listed.next_key is None:
                return
            start = listed.next_key

    async def _sweep_location(
        self,
        mark: marking.Mark,
        place: records.Place,
        location: _Location,
        kept: retention.Retention,
        report: Report,
    ) -> None:
        """Walk one location: its metadata files first, then everything."""
        now_ms = self._store.now_ms()
        if location.row.reserved_until_ms > now_ms:
            return
        is_asked = False
        for metadata_only in (True, False):
            below = f"{location.location.path}/" + ("metadata/" if metadata_only else "")
            prefix = below.encode("utf-8", "surrogatepass")
            next_key: bytes | None = prefix
            while next_key is not None:
                step = await asyncio.to_thread(
                    self._judge, mark, place, location, kept, prefix, next_key, metadata_only
                )
                if step.owner is retention.OwnerState.KEPT:
                    return
                if step.owner is retention.OwnerState.PURGED and step.objects and not is_asked:
                    is_asked = True
                    if await mark.keeps_purged(place.bucket_id, location.row.object_uuid):
                        return
                if not metadata_only:
                    report.objects_seen += step.objects
                await self._carry_out(mark, place, location, step, kept, report)
                next_key = step.next_key

    def _judge(
        self,
        mark: marking.Mark,
        place: records.Place,
        location: _Location,
        kept: retention.Retention,
        prefix: bytes,
        start: bytes,
        metadata_only: bool,
    ) -> _Step:
        """Judge some objects of a location. Runs in a thread."""
        now_ms = self._store.now_ms()
        judges_names = place.bucket.settings.get(guard.LAYOUT) != "off"
        verdicts: list[tuple[retention.ObjectFate, model.Seen]] = []
        count = 0
        next_key: bytes | None = None
        with self._store.index.view() as view:
            owner = mark.owner(view, place, location.row.object_uuid, location.location.path)
            if owner is retention.OwnerState.KEPT:
                return _Step(owner=owner, verdicts=(), objects=0, next_key=None)
            for key, _, value in keys.walk(view, batch.Store.OBJECTS, place.bucket_id, start):
                if not key.startswith(prefix):
                    break
                if count == OBJECTS_AT_ONCE:
                    next_key = key
                    break
                count += 1
                name = key.decode()
                if metadata_only is not _is_metadata_file(name, location.location):
                    continue
                record = storage_records.decode_object(value)
                verdict = retention.judge(
                    retention.purpose_of(name, location.location, judges_names=judges_names),
                    owner=owner,
                    is_reached=mark.reached.holds(place.table_bucket, name)
                    or self._store.holds.holds(place.table_bucket, name),
                    modified_at_ms=record.modified_at_ms,
                    tombstoned_at_ms=record.tombstoned_at_ms,
                    retention=kept,
                    now_ms=now_ms,
                )
                if verdict is not retention.ObjectFate.KEEP:
                    seen = model.Seen(
                        key=key,
                        value=value,
                        size_bytes=record.size_bytes,
                        segments=len(record.segments),
                    )
                    verdicts.append((verdict, seen))
        return _Step(owner=owner, verdicts=tuple(verdicts), objects=count, next_key=next_key)

    async def _carry_out(
        self,
        mark: marking.Mark,
        place: records.Place,
        location: _Location,
        step: _Step,
        kept: retention.Retention,
        report: Report,
    ) -> None:
        waiting = [seen for each, seen in step.verdicts if each is retention.ObjectFate.WAIT]
        report.waiting.add(waiting)
        report.note(retention.ObjectFate.WAIT, waiting)
        for verdict in (
            retention.ObjectFate.SHOW,
            retention.ObjectFate.HIDE,
            retention.ObjectFate.FREE,
        ):
            judged = [seen for each, seen in step.verdicts if each is verdict]
            for some in removals.portions(
                judged,
                [each.segments for each in judged],
                count_max=CHANGES_AT_ONCE,
                segments_max=SEGMENTS_AT_ONCE,
            ):
                await self._change(mark, place, location, step.owner, verdict, some, kept, report)

    async def _change(
        self,
        mark: marking.Mark,
        place: records.Place,
        location: _Location,
        owner: retention.OwnerState,
        verdict: retention.ObjectFate,
        seen: Sequence[model.Seen],
        kept: retention.Retention,
        report: Report,
    ) -> None:
        """Hide, free or show some objects of one location, in one transaction."""
        objects = self._store.objects
        if verdict is retention.ObjectFate.SHOW:
            if not report.dry_run:
                count = await objects.show_hidden(place.bucket, seen, by=BY)
                report.shown.files += count
            return

        def check(reading: batch.Reading) -> None:
            mark.check(reading)
            if any(self._store.holds.holds(place.table_bucket, each.key.decode()) for each in seen):
                raise _Changed
            settings = self._store.buckets.get(place.table_bucket, reading).settings
            if (
                retention.retention_of(settings, day_ms=self._day_ms) != kept
                or reading.get(batch.Store.LOCATIONS, location.key) != location.value
                or mark.owner(reading, place, location.row.object_uuid, location.location.path)
                is not owner
            ):
                raise _Changed

        tally = report.hidden if verdict is retention.ObjectFate.HIDE else report.freed
        done: Sequence[model.Seen] = ()
        if report.dry_run:
            done = seen
        else:
            with contextlib.ExitStack() as stack:
                for attempt in range(ATTEMPTS_MAX):
                    if attempt == 1:
                        stack.enter_context(self._store.commits_held())
                    if attempt:
                        await mark.catch_up()
                    seen = [
                        each
                        for each in seen
                        if not mark.reached.holds(place.table_bucket, each.key.decode())
                    ]
                    if not seen:
                        break
                    try:
                        if verdict is retention.ObjectFate.HIDE:
                            done = await objects.hide_seen(place.bucket, seen, by=BY, check=check)
                        else:
                            done = await objects.free_seen(place.bucket, seen, check=check)
                        break
                    except marking.Moved:
                        continue
                    except _Changed:
                        break
            left = set(seen) - set(done)
            report.deferred.add(tuple(left))
            self.totals.deferred.add(tuple(left))
            total = (
                self.totals.hidden if verdict is retention.ObjectFate.HIDE else self.totals.freed
            )
            total.add(done)
        tally.add(done)
        report.note(verdict, done)

    def _locations(self, place: records.Place, start: bytes) -> _Locations:
        """Return some locations of a table bucket, and where the next ones begin."""
        stop = records.bucket_prefix(place.bucket_id + 1)
        locations: list[_Location] = []
        with self._store.index.view() as view:
            for count, (key, value) in enumerate(view.scan(batch.Store.LOCATIONS, start, stop)):
                if count == LOCATIONS_AT_ONCE:
                    return _Locations(locations=tuple(locations), next_key=key)
                if value == records.interior_value():
                    continue
                row = records.decode(value, records.LocationRow)
                path = key[len(records.bucket_prefix(place.bucket_id)) : -1]
                locations.append(
                    _Location(
                        location=layout.Location(path=path.decode(), object_type=row.object_type),
                        key=key,
                        value=value,
                        row=row,
                    )
                )
        return _Locations(locations=tuple(locations), next_key=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Locations:
    """Some locations; next_key: where the next ones begin, None at the end."""

    locations: tuple[_Location, ...]
    next_key: bytes | None


def _storing(place: records.Place, row: records.SweepRow) -> batch.Batch:
    """Return the Batch that stores the result of a sweep if its table bucket still exists."""

    def store_row(reading: batch.Reading) -> Sequence[batch.Write]:
        value = reading.get(batch.Store.BUCKETS, place.table_bucket.encode())
        if value is None or storage_records.bucket_id(value) != place.bucket_id:
            return ()
        key = records.sweep_key(place.bucket_id)
        return (batch.Put(store=batch.Store.JOBS, key=key, value=records.encode(row)),)

    return batch.Batch(derive=(store_row,), makes_room=True)


def _listed(fate: retention.ObjectFate, seen: model.Seen) -> ListedFile:
    record = storage_records.decode_object(seen.value)
    return ListedFile(
        action=fate.value,
        key=seen.key.decode(),
        size_bytes=seen.size_bytes,
        modified_at_ms=record.modified_at_ms,
        hidden_at_ms=record.tombstoned_at_ms,
    )


def _is_metadata_file(key: str, location: layout.Location) -> bool:
    return key.startswith(f"{location.path}/metadata/") and key.endswith(layout.METADATA_SUFFIXES)


class _Changed(Exception):
    """A location belongs to something else than when its files were judged, or the table bucket
    keeps files for longer or shorter, or a transaction holds one of the files."""


def format_metrics(totals: Totals) -> Iterator[str]:
    """Yield lines of Prometheus text."""
    for name, metric_type, meaning, value in (
        ("files_freed_total", "counter", "Files of tables that were freed.", totals.freed.files),
        ("bytes_freed_total", "counter", "Their bytes.", totals.freed.size_bytes),
        ("files_hidden_total", "counter", "Files hidden as unreferenced.", totals.hidden.files),
        ("bytes_hidden_total", "counter", "Their bytes.", totals.hidden.size_bytes),
        (
            "files_deferred_total",
            "counter",
            "Files left to the next run because a write came first.",
            totals.deferred.files,
        ),
        (
            "unreadable_files",
            "gauge",
            "Files that the last run could not read; it kept every file of their tables.",
            totals.unreadable_files,
        ),
        (
            "last_end_seconds",
            "gauge",
            "When the last run ended, Unix time; 0 before the first.",
            f"{totals.last_ended_at_ms / 1000:.3f}",
        ),
        (
            "last_duration_seconds",
            "gauge",
            "How long the last run took.",
            f"{totals.last_duration_ms / 1000:.3f}",
        ),
    ):
        yield f"# HELP boathouse_sweep_{name} {meaning}"
        yield f"# TYPE boathouse_sweep_{name} {metric_type}"
        yield f"boathouse_sweep_{name} {value}"
    yield "# HELP boathouse_sweep_runs_total Runs of the sweep of tables."
    yield "# TYPE boathouse_sweep_runs_total counter"
    for outcome, count in totals.runs.items():
        yield f'boathouse_sweep_runs_total{{outcome="{outcome}"}} {count}'
