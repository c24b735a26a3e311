"""engine: the sweep of lifecycle rules: removes versions, delete markers and uploads that are due,
and moves versions to the storage class that is due.

A run walks the keys below the prefixes of each bucket's rules in small steps, in a thread, and
removes what is due in transactions of bounded size. Each transaction checks that the bucket has the
rules and the versioning of the walk; the rest of its record may change. It compares each version
with the row that was judged, so that an object that was replaced, retagged or locked meanwhile
stays. A noncurrent version goes only if the version that was the newest one still exists: then it
has not been the newest again. A locked version stays in any case; it may change its storage class,
which changes its record alone. What is not removed is judged anew in the next run.

A run keeps nothing on disk: after a restart the next one walks again and finds what is still due.
Table buckets have no rules; `catalog.sweep` frees their files.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import msgspec

from storage import errors, keys, lifecycle, lookups, puts, records, removals, uploads, versions
from storage.batch import (
    Batch,
    Decided,
    Lookup,
    OrderedPlan,
    Put,
    Reading,
    Store,
    Write,
    decide_in_order,
)
from storage.blobs import Blobs
from storage.buckets import Buckets
from storage.index import Index
from storage.model import BucketInfo, NewId, NowMs, ObjectInfo, Versioning

RUNS_PER_DAY: Final = 24
INTERVAL_S_MIN: Final = 0.1
VERSIONS_AT_ONCE: Final = 500
JUDGEMENTS_AT_ONCE: Final = 50_000
"""Versions, and comparisons of a version with a rule, of one step of the walk in a thread."""
BYTES_AT_ONCE: Final = 8 * 1024 * 1024
"""Records of one step, which are in memory together. A record of 10,000 parts has near a million
bytes."""
CHANGES_AT_ONCE: Final = 100
"""Versions that one transaction changes: some milliseconds of the writer thread."""
SEGMENTS_AT_ONCE: Final = 1_000
"""Segments of bodies that one transaction releases, unless one version has more: some tens of
milliseconds."""
ATTEMPTS_MAX: Final = 5
"""Times that a run walks a bucket because its rules or its versioning changed. Then the run leaves
the bucket to the next one, and counts as incomplete."""
RULES_REMEMBERED_MAX: Final = 40_000
"""Rules that are kept decoded, of all buckets together: some 1,000 bytes each."""

Action: TypeAlias = Literal[
    "expire", "remove_marker", "remove_noncurrent", "move", "move_noncurrent"
]
Outcome: TypeAlias = Literal[
    "expired",
    "markers_removed",
    "noncurrent_removed",
    "moved",
    "noncurrent_moved",
    "kept_locked",
    "kept_changed",
    "kept_without_room",
]
RunEnd: TypeAlias = Literal["done", "incomplete", "failed"]


@dataclass(kw_only=True, slots=True)
class RunProgress:
    """How far a run is. Mutable: the run counts in it.

    buckets: those that have rules. bucket: the one that is walked, "" for none. versions_seen: of
    this walk of it. versions_expected: of its latest whole walk, None before the first.
    """

    buckets: int
    buckets_done: int = 0
    bucket: str = ""
    versions_seen: int = 0
    versions_expected: int | None = None


@dataclass(kw_only=True, slots=True)
class ExpiryTotals:
    """What all runs of this process did, for metrics. Mutable: it counts while a run goes on.

    runs: by how they ended; an incomplete one has left a bucket to the next. progress: of the run
    that goes on, None between runs.
    """

    runs: dict[RunEnd, int] = field(
        default_factory=lambda: {"done": 0, "incomplete": 0, "failed": 0}
    )
    outcomes: dict[Outcome, int] = field(
        default_factory=lambda: {
            "expired": 0,
            "markers_removed": 0,
            "noncurrent_removed": 0,
            "moved": 0,
            "noncurrent_moved": 0,
            "kept_locked": 0,
            "kept_changed": 0,
            "kept_without_room": 0,
        }
    )
    uploads_aborted: int = 0
    versions_seen: int = 0
    progress: RunProgress | None = None
    last_ended_at_ms: int = 0
    last_duration_ms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Held:
    """A bucket as a walk found it, and the rules that it had then."""

    info: BucketInfo
    rules: lifecycle.Lifecycle

    def check(self, reading: Reading) -> bytes:
        """Return the bucket's record, in which all may have changed but what verdicts depend on.

        Raises ExpectationFailed if the bucket, its rules or its versioning are others.
        """
        name, bucket_id = self.info.name, self.info.bucket_id
        try:
            value = lookups.check_bucket(reading, name, bucket_id)
        except errors.NoSuchBucket:
            value = None
        info = None if value is None else records.bucket_info(name, value)
        if value is None or info is None or _judged_by(info) != _judged_by(self.info):
            raise errors.ExpectationFailed(
                f"the bucket {name!r} or its rules have changed",
                store=Store.BUCKETS,
                key=name.encode(),
            )
        return value


@dataclass(frozen=True, kw_only=True, slots=True)
class _Named:
    """A version of a key: its id, and its sequence, since the id `null` comes again."""

    version_id: str
    sequence: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidate:
    """A version that was due in a view. newest: the newest version of its key in that view.

    segments: of its body. kept: newer noncurrent versions that must exist, for a noncurrent one.
    storage_class: to which it moves, for a move.
    """

    action: Action
    key: bytes
    version_id: str
    value: bytes
    newest: _Named
    segments: int
    kept: int = 0
    storage_class: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where a step begins. The other fields are of the key within which the step before ended.

    newest: its newest version. since_ms: when the version before the place was written. newer: the
    noncurrent versions before the place, with those that were removed.
    """

    entry: bytes
    newest: _Named | None = None
    since_ms: int = 0
    newer: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """What one step of a walk found. following: where the next begins; None at the end."""

    candidates: tuple[_Candidate, ...]
    seen: int
    following: _Place | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _UploadStep:
    """Uploads that were due, by key and id. following: the row with which the next step begins."""

    due: tuple[tuple[bytes, str], ...]
    following: tuple[bytes, bytes] | None


class Expiry:
    """The lifecycle rules of a data folder's buckets. day_ms: the length of a day.

    blobs: its threads walk, because the folder is closed only after them.
    """

    def __init__(
        self,
        *,
        index: Index,
        buckets: Buckets,
        blobs: Blobs,
        now_ms: NowMs,
        new_id: NewId,
        day_ms: int,
    ) -> None:
        self._index = index
        self._blobs = blobs
        self._buckets = buckets
        self._now_ms = now_ms
        self._new_id = new_id
        self._day_ms = day_ms
        self._remembered: dict[str, lifecycle.Lifecycle] = {}
        self._remembered_count = 0
        self._walked: dict[str, int] = {}
        """Versions that the latest whole walk of each bucket with rules has seen."""
        self._turn = asyncio.Lock()
        self._log = logging.getLogger("boathouse.lifecycle")
        self.totals = ExpiryTotals()

    def expiration(
        self, bucket: BucketInfo, info: ObjectInfo, *, reading: Lookup | None = None
    ) -> lifecycle.Due | None:
        """Return when the newest version of a key expires; None if no rule says so.

        reading: an open view to read from.
        """
        rules = self._rules_of(bucket, reading)
        if rules is None:
            return None
        return rules.expiration(
            lifecycle.JudgedVersion(
                key=info.key.encode("utf-8", "surrogatepass"),
                size_bytes=info.size_bytes,
                tags=info.attributes.tags,
                modified_at_ms=info.modified_at_ms,
            )
        )

    def abort(self, bucket: BucketInfo, key: str, *, initiated_at_ms: int) -> lifecycle.Due | None:
        """Return when an upload is aborted; None if no rule says so."""
        rules = self._rules_of(bucket, None)
        if rules is None:
            return None
        encoded = key.encode("utf-8", "surrogatepass")
        return rules.abort(encoded, initiated_at_ms=initiated_at_ms)

    async def run(self) -> None:
        """Sweep RUNS_PER_DAY times a day until cancelled; the first run begins at once.

        A failure is logged once, not in every run.
        """
        interval_s = max(INTERVAL_S_MIN, self._day_ms / 1000 / RUNS_PER_DAY)
        said = ""
        while True:
            try:
                await self.once()
                said = ""
            except Exception as error:  # noqa: BLE001 - the next run tries again
                if repr(error) != said:
                    said = repr(error)
                    self._log.warning("the sweep of lifecycle rules failed", exc_info=error)
            await asyncio.sleep(interval_s)

    async def once(self) -> int:
        """Walk every bucket that has rules; return the number of changes.

        A bucket that cannot be swept does not stop the others; the first such error is raised at
        the end.
        """
        async with self._turn:
            started_at_ms = self._now_ms()
            before = self._changes()
            failure: Exception | None = None
            end: RunEnd = "failed"
            is_whole = True
            progress = self.totals.progress = RunProgress(buckets=0)
            try:
                names = await self._blobs.run(self._names)
                progress.buckets = len(names)
                self._walked = {name: self._walked[name] for name in names if name in self._walked}
                for name in names:
                    progress.bucket = name
                    progress.versions_seen = 0
                    progress.versions_expected = self._walked.get(name)
                    try:
                        is_whole = await self._sweep(name, progress) and is_whole
                    except Exception as error:  # noqa: BLE001 - raised after the other buckets
                        failure = failure or error
                    progress.buckets_done += 1
                if failure is not None:
                    raise failure
                end = "done" if is_whole else "incomplete"
            finally:
                totals = self.totals
                totals.progress = None
                totals.runs[end] += 1
                totals.last_ended_at_ms = self._now_ms()
                totals.last_duration_ms = totals.last_ended_at_ms - started_at_ms
            return self._changes() - before

    def _changes(self) -> int:
        outcomes = self.totals.outcomes
        changed = sum(outcomes[each] for each in _OUTCOMES.values())
        return self.totals.uploads_aborted + changed

    def _names(self) -> list[str]:
        return [
            bucket.name
            for bucket in self._buckets.having(lifecycle.SETTING)
            if bucket.type == "general"
        ]

    async def _sweep(self, name: str, progress: RunProgress) -> bool:
        """Sweep one bucket; begin anew if its rules or its versioning change meanwhile.

        Return whether the walk came to the bucket's end.
        """
        for _ in range(ATTEMPTS_MAX):
            held = await self._blobs.run(functools.partial(self._hold, name))
            if held is None:
                return True
            progress.versions_seen = 0
            try:
                for prefix in held.rules.prefixes():
                    await self._sweep_versions(held, prefix, progress)
                    if held.rules.aborts:
                        await self._sweep_uploads(held, prefix)
            except errors.ExpectationFailed:
                continue
            self._walked[name] = progress.versions_seen
            return True
        self._log.warning(
            "the sweep of lifecycle rules left the bucket %r to its next run: the rules or the "
            "versioning changed during each of %d walks",
            name,
            ATTEMPTS_MAX,
        )
        return False

    def _hold(self, name: str) -> _Held | None:
        """Return a bucket with its rules; None if it has none or does not exist."""
        with self._index.view() as view:
            try:
                value = lookups.find_bucket(view, name)
            except errors.NoSuchBucket:
                return None
            info = records.bucket_info(name, value)
            rules = self._rules_of(info, view)
        return None if rules is None else _Held(info=info, rules=rules)

    def _rules_of(self, bucket: BucketInfo, reading: Lookup | None) -> lifecycle.Lifecycle | None:
        name: str | None = bucket.settings.get(lifecycle.SETTING)
        if name is None:
            return None
        rules = self._remembered.get(name)
        if rules is not None:
            return rules
        record = self._buckets.lifecycle_of(bucket, reading)
        if record is None:
            return None
        rules = lifecycle.Lifecycle(records.decode_lifecycle(record).rules, day_ms=self._day_ms)
        self._remembered_count += rules.count + 1
        if self._remembered_count > RULES_REMEMBERED_MAX:
            self._remembered.clear()
            self._remembered_count = rules.count + 1
        # A newer record than the bucket's is possible without a view: then it has another name.
        self._remembered[lifecycle.digest(record)] = rules
        return rules

    # Versions.

    async def _sweep_versions(self, held: _Held, prefix: bytes, progress: RunProgress) -> None:
        place: _Place | None = _Place(entry=keys.encode_chunk(prefix))
        while place is not None:
            step = await self._blobs.run(functools.partial(self._judge, held, prefix, place))
            self.totals.versions_seen += step.seen
            progress.versions_seen += step.seen
            # What frees room goes first, and is accepted on a full disk.
            for makes_room in (True, False):
                some = [each for each in step.candidates if _frees(held, each) is makes_room]
                for changes in removals.portions(
                    some,
                    [each.segments for each in some],
                    count_max=CHANGES_AT_ONCE,
                    segments_max=SEGMENTS_AT_ONCE,
                ):
                    await self._change(held, changes, makes_room=makes_room)
            place = step.following

    def _judge(self, held: _Held, prefix: bytes, place: _Place) -> _Step:
        """Judge some versions from a place on. Runs in a thread."""
        rules, now_ms = held.rules, self._now_ms()
        count_max = max(1, min(VERSIONS_AT_ONCE, JUDGEMENTS_AT_ONCE // max(1, rules.cost)))
        stop = keys.successor(keys.encode_chunk(prefix))
        candidates: list[_Candidate] = []
        newest, since_ms, newer = place.newest, place.since_ms, place.newer
        seen = seen_bytes = 0
        with self._index.view() as view:
            first = _resume(view, held.info.bucket_id, place)
            rows = versions.VersionRows(view, held.info.bucket_id)
            for entry, (value, is_newest) in rows.walk(first):
                if stop is not None and entry >= stop:
                    break
                if seen == count_max or seen_bytes >= BYTES_AT_ONCE:
                    following = _Place(entry=entry, newest=newest, since_ms=since_ms, newer=newer)
                    if is_newest:  # at its key, which may have a newer version by then
                        following = _Place(entry=versions.entry_of_key(versions.key_bytes(entry)))
                    return _Step(candidates=tuple(candidates), seen=seen, following=following)
                seen += 1
                seen_bytes += len(value)
                key, record = versions.key_bytes(entry), records.decode_object(value)
                subject = lifecycle.JudgedVersion(
                    key=key,
                    size_bytes=record.size_bytes,
                    tags=record.attributes.tags,
                    modified_at_ms=record.modified_at_ms,
                    is_marker=records.is_delete_marker(record),
                    storage_class=record.attributes.storage_class,
                )
                action: Action | None = None
                storage_class = ""
                kept: int | None = 0
                if not is_newest:
                    kept = rules.noncurrent_kept(
                        subject, noncurrent_since_ms=since_ms, newer=newer, now_ms=now_ms
                    )
                    action = None if kept is None else "remove_noncurrent"
                    if action is None and rules.transitions and not subject.is_marker:
                        move = rules.noncurrent_transition(
                            subject, noncurrent_since_ms=since_ms, newer=newer, now_ms=now_ms
                        )
                        if move is not None:
                            action, kept = "move_noncurrent", move.kept
                            storage_class = move.storage_class
                    newer += 1
                else:
                    newest = _Named(version_id=record.version_id, sequence=record.sequence)
                    newer = 0
                    if subject.is_marker:
                        if rules.removes_marker(subject, now_ms=now_ms) and _is_alone(
                            view, held.info.bucket_id, key
                        ):
                            action = "remove_marker"
                    else:
                        due = rules.expiration(subject)
                        action = "expire" if due is not None and due.at_ms <= now_ms else None
                        if action is None and rules.transitions:
                            target = rules.transition(subject, now_ms=now_ms)
                            if target is not None:
                                action, storage_class = "move", target
                since_ms = record.modified_at_ms
                if action is not None:
                    assert newest is not None, "the walk yields the newest version of a key first"
                    candidates.append(
                        _Candidate(
                            action=action,
                            key=key,
                            version_id=record.version_id,
                            value=value,
                            newest=newest,
                            segments=len(record.segments),
                            kept=kept or 0,
                            storage_class=storage_class,
                        )
                    )
        return _Step(candidates=tuple(candidates), seen=seen, following=None)

    async def _change(self, held: _Held, some: Sequence[_Candidate], *, makes_room: bool) -> None:
        """Remove or move some versions in one transaction. Raises ExpectationFailed.

        On a full disk no delete marker is written and no version moves, so that what frees room is
        still removed.
        """
        now_ms = self._now_ms()
        random_ids = [self._new_id() for _ in some]

        def decide(reading: Reading) -> Decided[list[Outcome]]:
            bucket_row = held.check(reading)
            plans = [
                _plan(held, bucket_row, candidate, now_ms=now_ms, random_id=random_id)
                for candidate, random_id in zip(some, random_ids, strict=True)
            ]
            return decide_in_order(plans)(reading)

        try:
            outcomes = await self._index.decide(decide, makes_room=makes_room)
        except errors.DiskFull:
            if makes_room:
                raise
            outcomes = ["kept_without_room"] * len(some)
        for outcome in outcomes:
            self.totals.outcomes[outcome] += 1

    # Uploads.

    async def _sweep_uploads(self, held: _Held, prefix: bytes) -> None:
        place: tuple[bytes, bytes] | None = (prefix, b"")
        while place is not None:
            judge = functools.partial(self._judge_uploads, held, prefix, place)
            step = await self._blobs.run(judge)
            for key, upload_id in step.due:
                await self._abort(held, key, upload_id)
            place = step.following

    def _judge_uploads(self, held: _Held, prefix: bytes, place: tuple[bytes, bytes]) -> _UploadStep:
        """Judge some uploads from a place on. Runs in a thread."""
        now_ms = self._now_ms()
        due: list[tuple[bytes, str]] = []
        count_max = max(1, min(VERSIONS_AT_ONCE, JUDGEMENTS_AT_ONCE // max(1, held.rules.cost)))
        with self._index.view() as view:
            rows = keys.walk(view, Store.UPLOADS, held.info.bucket_id, *place)
            for seen, (key, suffix, value) in enumerate(rows):
                if not key.startswith(prefix):
                    break
                if seen == count_max:
                    return _UploadStep(due=tuple(due), following=(key, suffix))
                initiated_at_ms = records.decode_upload(value).initiated_at_ms
                aborted = held.rules.abort(key, initiated_at_ms=initiated_at_ms)
                if aborted is not None and aborted.at_ms <= now_ms:
                    due.append((key, suffix.hex()))
        return _UploadStep(due=tuple(due), following=None)

    async def _abort(self, held: _Held, key: bytes, upload_id: str) -> None:
        """Abort one upload, which may have 10,000 parts, in a transaction of its own.

        An upload id comes once, and an upload's age never falls: if it exists it is still due.
        """
        now_ms, bucket_id = self._now_ms(), held.info.bucket_id
        text = key.decode("utf-8", "surrogatepass")

        def decide(reading: Reading) -> Decided[bool]:
            held.check(reading)
            try:
                row, _ = uploads.find(reading, bucket_id, text, upload_id)
            except errors.NoSuchUpload:
                return Decided(result=False)
            writes = uploads.plan_abort(reading, row, upload_id, now_ms=now_ms)
            after = puts.vacate_after(bucket_id, key)
            return Decided(result=True, batch=Batch(writes=tuple(writes), derive=after))

        self.totals.uploads_aborted += await self._index.decide(decide, makes_room=True)


_OUTCOMES: Final[dict[Action, Outcome]] = {
    "expire": "expired",
    "remove_marker": "markers_removed",
    "remove_noncurrent": "noncurrent_removed",
    "move": "moved",
    "move_noncurrent": "noncurrent_moved",
}


def _judged_by(bucket: BucketInfo) -> tuple[object, Versioning | None]:
    """Return what verdicts depend on in a bucket's record: its rules and its versioning."""
    return bucket.settings.get(lifecycle.SETTING), bucket.versioning


def _plan(
    held: _Held, bucket_row: bytes, candidate: _Candidate, *, now_ms: int, random_id: str
) -> OrderedPlan[Outcome]:
    """Return the plan that removes or moves one version if it is still due."""
    bucket_id = held.info.bucket_id

    def plan(reading: Reading) -> tuple[Outcome, Sequence[Write]]:
        if not _is_still_due(reading, bucket_id, candidate):
            return "kept_changed", ()
        if candidate.storage_class:
            return _OUTCOMES[candidate.action], (_moved(reading, bucket_id, candidate),)
        removal = removals.Removal(
            key=candidate.key.decode("utf-8", "surrogatepass"),
            version_id=None if candidate.action == "expire" else candidate.version_id,
        )
        try:
            _, writes = removals.plan_delete(
                reading,
                bucket_id,
                bucket_row,
                candidate.key,
                removal,
                now_ms=now_ms,
                random_id=random_id,
                owner=held.info.owner,
            )
        except errors.ObjectLocked:
            return "kept_locked", ()
        return _OUTCOMES[candidate.action], writes

    return OrderedPlan(plan=plan, after=puts.vacate_after(bucket_id, candidate.key))


def _moved(reading: Reading, bucket_id: int, candidate: _Candidate) -> Put:
    """Return the write of a version's record with its new storage class."""
    stored = versions.find(reading, bucket_id, candidate.key, candidate.version_id)
    assert stored is not None, "the version is still due"
    record = records.decode_object(stored.value)
    attributes = msgspec.structs.replace(record.attributes, storage_class=candidate.storage_class)
    changed = records.encode(records.with_attributes(record, attributes))
    return Put(store=stored.store, key=stored.row, value=changed)


def _frees(held: _Held, candidate: _Candidate) -> bool:
    """Return whether a change writes no delete marker and no longer record, which take room."""
    if candidate.storage_class:
        return False
    return candidate.action != "expire" or held.info.versioning is None


def _resume(reading: Reading, bucket_id: int, place: _Place) -> bytes:
    """Return the entry at which a step begins.

    If the key within which the step before ended has lost the version that was the newest, the
    times and counts of the place no longer hold: the next run has the rest of that key.
    """
    if place.newest is None:
        return place.entry
    key = versions.key_bytes(place.entry)
    if _exists(reading, bucket_id, key, place.newest):
        return place.entry
    return versions.entry_behind_key(key)


def _exists(reading: Reading, bucket_id: int, key: bytes, version: _Named) -> bool:
    """Return whether a version of a key has not been removed."""
    stored = versions.find(reading, bucket_id, key, version.version_id)
    return stored is not None and records.sequence(stored.value) == version.sequence


def _is_alone(reading: Reading, bucket_id: int, key: bytes) -> bool:
    """Return whether the newest version of a key is its only one."""
    address = keys.locate(reading, bucket_id, key)
    return address is not None and not versions.has_older(reading, address)


def _is_still_due(reading: Reading, bucket_id: int, candidate: _Candidate) -> bool:
    """Return whether nothing has changed on which the verdict about a version depends.

    Newer versions may have come: a noncurrent version is due in spite of them, also below a key
    that is written all the time.
    """
    if candidate.action in ("remove_noncurrent", "move_noncurrent"):
        version = versions.find(reading, bucket_id, candidate.key, candidate.version_id)
        if version is None or version.newest or version.value != candidate.value:
            return False
        if not _exists(reading, bucket_id, candidate.key, candidate.newest):
            return False
        kept = candidate.kept
        return kept == 0 or versions.count_newer(reading, version, count_max=kept) >= kept
    newest = lookups.newest(reading, bucket_id, candidate.key)
    if newest is None or newest.value != candidate.value:
        return False
    return candidate.action != "remove_marker" or not versions.has_older(reading, newest.address)


def format_metrics(totals: ExpiryTotals) -> Iterator[str]:
    """Yield lines of Prometheus text."""
    yield "# HELP boathouse_lifecycle_versions_total What lifecycle rules came to, by outcome."
    yield "# TYPE boathouse_lifecycle_versions_total counter"
    for outcome, count in totals.outcomes.items():
        yield f'boathouse_lifecycle_versions_total{{outcome="{outcome}"}} {count}'
    yield "# HELP boathouse_lifecycle_runs_total Runs of the sweep of lifecycle rules."
    yield "# TYPE boathouse_lifecycle_runs_total counter"
    for run, count in totals.runs.items():
        yield f'boathouse_lifecycle_runs_total{{outcome="{run}"}} {count}'
    for name, metric_type, meaning, value in (
        ("uploads_aborted_total", "counter", "Uploads that were aborted.", totals.uploads_aborted),
        ("versions_seen_total", "counter", "Versions that were judged.", totals.versions_seen),
        ("running", "gauge", "1 while a run goes on.", int(totals.progress is not None)),
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
        yield f"# HELP boathouse_lifecycle_{name} {meaning}"
        yield f"# TYPE boathouse_lifecycle_{name} {metric_type}"
        yield f"boathouse_lifecycle_{name} {value}"
    if totals.progress is not None:
        yield from _format_progress(totals.progress)


def _format_progress(progress: RunProgress) -> Iterator[str]:
    left = progress.buckets - progress.buckets_done
    yield "# HELP boathouse_lifecycle_buckets Buckets with rules in the run that goes on."
    yield "# TYPE boathouse_lifecycle_buckets gauge"
    yield f'boathouse_lifecycle_buckets{{state="done"}} {progress.buckets_done}'
    yield f'boathouse_lifecycle_buckets{{state="left"}} {left}'
    if not progress.bucket:
        return
    for name, meaning, value in (
        ("seen", "Versions that the run has seen in its bucket.", progress.versions_seen),
        (
            "expected",
            "Versions that the run before has seen in the bucket.",
            progress.versions_expected,
        ),
    ):
        if value is None:
            continue
        yield f"# HELP boathouse_lifecycle_walk_versions_{name} {meaning}"
        yield f"# TYPE boathouse_lifecycle_walk_versions_{name} gauge"
        yield f'boathouse_lifecycle_walk_versions_{name}{{bucket="{progress.bucket}"}} {value}'
