"""rule: the retention of a table bucket, and the sweep's decision about one file.

A file that retained metadata references stays. Any other file is first hidden from listings when it
is older than `unreferenced_days` (S3 Tables calls it noncurrent), and freed `noncurrent_days` after
the sweep or a client's DELETE has hidden it. The files of a table
that was dropped with purge are freed at once. Times are Unix milliseconds; a day has `day_ms`.
Source: S3 Tables' icebergUnreferencedFileRemoval (unreferencedDays 3, nonCurrentDays 10).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import msgspec

from catalog import departures, layout, records
from server.s3 import guard

DAY_MS: Final = departures.DAY_MS

UNREFERENCED_DAYS: Final = "unreferenced_days"
NONCURRENT_DAYS: Final = "noncurrent_days"
HISTORY_DAYS: Final = "history_days"
REMOVES_UNREFERENCED: Final = "removes_unreferenced"
DEFAULTS: Final[Mapping[str, int]] = {
    UNREFERENCED_DAYS: 3,
    NONCURRENT_DAYS: 10,
    HISTORY_DAYS: 7,
    departures.DROPPED_TABLE_DAYS: departures.DROPPED_TABLE_DAYS_DEFAULT,
}
"""By the name of the table bucket's setting."""

SCRATCH_DAYS: Final = 1
"""Spill files of a query live as long as the query; layout.md gives them a day."""


Removal: TypeAlias = Literal["drop", "purge", "unregister"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """How long a table bucket keeps what; all are durations in milliseconds.

    unreferenced_ms: how old a file must be before it is hidden. noncurrent_ms: how long a hidden
    file is kept. history_ms: for how long every state of every table is kept, at least
    unreferenced_ms. dropped_ms: for how long the last state of a dropped table is kept.
    removes_unreferenced: whether unreferenced files are removed at all; files of tables that were
    dropped with purge, and spill files, always are.
    """

    unreferenced_ms: int
    noncurrent_ms: int
    history_ms: int
    dropped_ms: int
    scratch_ms: int
    removes_unreferenced: bool = True


def removes_unreferenced(settings: Mapping[str, Any]) -> bool:
    """Return whether unreferenced files of a table bucket are removed."""
    return settings.get(REMOVES_UNREFERENCED, True) is not False


def retention_of(settings: Mapping[str, Any], *, day_ms: int = DAY_MS) -> Retention:
    """Return what the settings of a table bucket's index row say, or the defaults."""
    days = {name: settings.get(name, default) for name, default in DEFAULTS.items()}
    unreferenced_ms = days[UNREFERENCED_DAYS] * day_ms
    return Retention(
        unreferenced_ms=unreferenced_ms,
        noncurrent_ms=days[NONCURRENT_DAYS] * day_ms,
        history_ms=max(days[HISTORY_DAYS] * day_ms, unreferenced_ms),
        dropped_ms=days[departures.DROPPED_TABLE_DAYS] * day_ms,
        scratch_ms=SCRATCH_DAYS * day_ms,
        removes_unreferenced=removes_unreferenced(settings),
    )


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """How and when a table or view left the catalog, and its last state.

    has_row: a Dropped row says for how long it is kept. Older releases wrote none.
    """

    how: Removal
    at_ms: int
    pointer: records.Pointer
    has_row: bool = False


def departures_of(record: records.LogRecord) -> Iterator[tuple[str, Departure | None]]:
    """Yield by object uuid what a commit says of each thing: how it left, or None if it is there.

    A rename is a row that goes and one that comes, with one uuid.
    """
    gone: dict[str, Departure] = {}
    present: list[str] = []
    for op in record.ops:
        if op.object_type == "namespace":
            continue
        if op.before is not None:
            pointer = records.decode(op.before, records.Pointer)
            gone[pointer.object_uuid] = Departure(
                how=_how(op.summary),
                at_ms=record.time_ms,
                pointer=pointer,
                has_row=departures.KEPT_UNTIL in op.summary,
            )
        if op.after is not None:
            present.append(records.decode(op.after, records.Pointer).object_uuid)
    for object_uuid in present:
        gone.pop(object_uuid, None)
        yield object_uuid, None
    yield from gone.items()


def _how(summary: Mapping[str, Any]) -> Removal:
    if summary.get("operation") == "unregister":
        return "unregister"
    return "purge" if summary.get("purge") is True else "drop"


def pointers_of(record: records.LogRecord) -> Iterator[records.Pointer]:
    """Yield every state of a table or view that a commit names, before it and after it."""
    for op in record.ops:
        if op.object_type != "namespace":
            for value in (op.before, op.after):
                if value is not None:
                    yield records.decode(value, records.Pointer)


def is_retained(departure: Departure, retention: Retention, *, now_ms: int) -> bool:
    """Say whether the last state of a thing that left is kept, if no Dropped row says so.

    That of an unregistered table is kept without limit: its owner means to register it elsewhere.
    """
    if departure.has_row:
        return False
    if departure.how == "unregister":
        return True
    return departure.how == "drop" and now_ms - departure.at_ms < retention.dropped_ms


class OwnerState(enum.Enum):
    """What is known of the thing that a location belongs to."""

    LIVE = "live"
    GONE = "gone"
    PURGED = "purged"
    KEPT = "kept"
    """Nothing below its location is touched."""


class ObjectFate(enum.Enum):
    """What the sweep does with one object."""

    KEEP = "keep"
    WAIT = "wait"
    """It is unreferenced, and kept until its days are over."""
    HIDE = "hide"
    FREE = "free"
    SHOW = "show"


Purpose = Literal["file", "hint", "scratch"]


def purpose_of(key: str, location: layout.Location, *, judges_names: bool) -> Purpose | None:
    """Return what an object below a location is to the table there; None: nothing of a table's.

    judges_names: the table bucket has layout rules. Without, any file there may be the table's.
    """
    if key.endswith("/"):
        return None
    try:
        verdict = layout.judge(key, location=location)
    except guard.LayoutRefused:
        return None if judges_names else "file"
    if verdict.role == "marker":
        return None
    if verdict.role == "scratch":
        return "scratch"
    return "hint" if layout.is_mutable(key, verdict.role) else "file"


def judge(
    purpose: Purpose | None,
    *,
    owner: OwnerState,
    is_reached: bool,
    modified_at_ms: int,
    tombstoned_at_ms: int | None,
    retention: Retention,
    now_ms: int,
) -> ObjectFate:
    """Return what happens to an object below a known location.

    is_reached: retained metadata names it; a tombstone that the sweep wrote is then taken away.
    """
    if purpose is None or owner is OwnerState.KEPT:
        return ObjectFate.KEEP
    if is_reached:
        return ObjectFate.KEEP if tombstoned_at_ms is None else ObjectFate.SHOW
    if owner is OwnerState.PURGED:
        return ObjectFate.FREE
    if purpose == "scratch":
        is_old = now_ms - modified_at_ms >= retention.scratch_ms
        return ObjectFate.FREE if is_old else ObjectFate.WAIT
    if purpose == "hint" and owner is OwnerState.LIVE:
        return ObjectFate.KEEP
    if not retention.removes_unreferenced:
        return ObjectFate.KEEP
    if tombstoned_at_ms is not None:
        is_over = now_ms - tombstoned_at_ms >= retention.noncurrent_ms
        return ObjectFate.FREE if is_over else ObjectFate.WAIT
    if now_ms - modified_at_ms >= retention.unreferenced_ms:
        return ObjectFate.HIDE
    return ObjectFate.WAIT
