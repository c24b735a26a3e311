"""rule: what a drop does: whether it is refused, and for how long the files are kept.

A table or view that is dropped without purge can be restored until a time that is fixed when it is
dropped, so a later change of the table bucket's setting does not move it. A table, view or
namespace with the property `boathouse.protected` is not dropped, a table bucket with the setting
`protected` is not deleted. Times are Unix milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from catalog import errors, records
from storage import batch
from storage import errors as storage_errors
from storage import records as storage_records

DAY_MS: Final = 24 * 60 * 60 * 1000

DROPPED_TABLE_DAYS: Final = "dropped_table_days"
DROPPED_TABLE_DAYS_DEFAULT: Final = 30
PURGE_ON_DROP: Final = "purge_on_drop"
"""The setting of a table bucket for drops: `asked`, `always` or `never`."""
PROTECTED: Final = "boathouse.protected"
"""The property of a table, view or namespace that is not dropped."""
BUCKET_PROTECTED: Final = "protected"
"""The setting of a table bucket that is not deleted."""
KEPT_UNTIL: Final = "kept-until-ms"
"""In the summary of a drop. Releases that wrote no Dropped rows did not write it."""

_SETTINGS: Final = (DROPPED_TABLE_DAYS, PURGE_ON_DROP)


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """How the files of a dropped or unregistered table are kept. kept_until_ms: None is always."""

    how: records.Departure
    kept_until_ms: int | None


class DropPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit records of a drop. leaving: None for a purge. summary: of the commit's op."""

    leaving: Leaving | None
    summary: Mapping[str, Any]


def dropped_table_days(settings: Mapping[str, Any]) -> int:
    """Return for how many days a table bucket keeps a dropped table. settings: the bucket's."""
    days: int = settings.get(DROPPED_TABLE_DAYS, DROPPED_TABLE_DAYS_DEFAULT)
    return days


def plan_drop(
    settings: Mapping[str, Any], *, purge: bool | None, now_ms: int, day_ms: int
) -> DropPlan:
    """Return what dropping a table now means. settings: of its table bucket.

    purge: as requested; None if the request does not say, so that the setting decides.
    """
    if is_purge(settings, purge=purge):
        return DropPlan(leaving=None, summary={"operation": "drop", "purge": True})
    kept_until_ms = now_ms + dropped_table_days(settings) * day_ms
    return DropPlan(
        leaving=Leaving(how="drop", kept_until_ms=kept_until_ms),
        summary={"operation": "drop", "purge": False, KEPT_UNTIL: kept_until_ms},
    )


def dropped_after(pointer: records.Pointer, now_ms: int) -> int:
    """Return the time from which a dropped table is kept for its days.

    If the clock was set back for the drop, it is the time of the table's last change: counted from
    the drop, the days could be over when the clock is right again.
    """
    return max(now_ms, pointer.modified_at_ms)


def is_purge(settings: Mapping[str, Any], *, purge: bool | None) -> bool:
    """Return whether a drop frees the table's files. settings, purge: as in `plan_drop`."""
    rule = settings.get(PURGE_ON_DROP, "asked")
    return (bool(purge) and rule != "never") or (purge is None and rule == "always")


def plan_unregistration() -> DropPlan:
    """Return what unregistering means: the files are kept until a registration or a discard."""
    return DropPlan(
        leaving=Leaving(how="unregister", kept_until_ms=None),
        summary={"operation": "unregister", KEPT_UNTIL: None},
    )


def hold_settings(place: records.Place) -> batch.Batch:
    """Return the Batch that writes nothing and expects the settings which `plan_drop` reads."""
    name = place.table_bucket
    seen = [place.bucket.settings.get(each) for each in _SETTINGS]

    def check(reading: batch.Reading) -> Sequence[batch.Write]:
        value = reading.get(batch.Store.BUCKETS, name.encode())
        settings = {} if value is None else storage_records.bucket_info(name, value).settings
        if [settings.get(each) for each in _SETTINGS] != seen:
            raise storage_errors.ExpectationFailed(
                "the settings of the table bucket changed",
                store=batch.Store.BUCKETS,
                key=name.encode(),
            )
        return ()

    return batch.Batch(derive=(check,))


def is_protected(properties: Mapping[str, str]) -> bool:
    """Return whether the properties of a table, view or namespace forbid to drop it."""
    return properties.get(PROTECTED, "false").strip().lower() == "true"


def check_unprotected(properties: Mapping[str, str], what: str) -> None:
    """Raise Protected if properties forbid a drop. what: of which thing, as in `Table ns.t`."""
    if is_protected(properties):
        raise errors.Protected(f"{what} is protected: remove its property {PROTECTED} to drop it")


def is_discarded(reading: batch.Lookup, place: records.Place, object_uuid: str) -> bool:
    """Return whether what was kept of a dropped table was given up on request."""
    value = reading.get(batch.Store.POINTERS, records.gone_key(place, object_uuid))
    return value is not None and records.decode(value, records.LastName).is_discarded


def exists_or_is_kept(reading: batch.Lookup, place: records.Place, object_uuid: str) -> bool:
    """Return whether a table or view exists, or was dropped and can be restored."""
    if reading.get(batch.Store.POINTERS, records.uuid_key(place, object_uuid)) is not None:
        return True
    value = reading.get(batch.Store.POINTERS, records.gone_key(place, object_uuid))
    if value is None:
        return False
    last = records.decode(value, records.LastName)
    key = records.dropped_key(place, last.namespace_id, last.name, last.dropped_at_ms, object_uuid)
    return reading.get(batch.Store.POINTERS, key) is not None
