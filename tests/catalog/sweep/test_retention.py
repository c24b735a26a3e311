"""Retention: what the log says of tables that left the catalog, and what happens to a file."""

from __future__ import annotations

from typing import Any

import pytest

from catalog import departures, layout, records
from catalog.sweep import retention
from tests.kit import lakes

DAY = retention.DAY_MS
RULES = retention.Retention(
    unreferenced_ms=3 * DAY, noncurrent_ms=10 * DAY, history_ms=7 * DAY,
    dropped_ms=5 * DAY, scratch_ms=DAY,
)  # fmt: skip
POINTER = records.Pointer(
    object_type="table", object_uuid="u", table_uuid=None, metadata_location=None,
    location="s3://lake/ns/t", created_at_ms=0, created_by="", modified_at_ms=0, modified_by="",
)  # fmt: skip
OLD = 1_000 * DAY


def test_the_log_says_how_each_table_left(lake: lakes.Lake) -> None:
    lake.run(lake.namespaces.create("lake", ("ns",), {}, by=lakes.BY))
    left: dict[str, str | None] = {}
    for how in ("drop", "purge", "unregister", "stays"):
        ident = lake.ident(f"ns.{how}")
        loaded = lake.run(lake.tables.create(ident, schema=lakes.SCHEMA, by=lakes.BY))
        left[loaded.pointer.object_uuid] = None if how == "stays" else how
        if how == "unregister":
            lake.run(lake.tables.unregister(ident, by=lakes.BY))
        elif how != "stays":
            lake.run(lake.tables.drop(ident, purge=how == "purge", by=lakes.BY))
    seen: dict[str, str | None] = {}
    for commit in reversed(lake.log()):
        for object_uuid, departure in retention.departures_of(commit.record):
            seen.setdefault(object_uuid, None if departure is None else departure.how)
    assert seen == left


def test_the_log_says_for_how_long_a_dropped_table_is_kept(lake: lakes.Lake) -> None:
    lake.run(lake.namespaces.create("lake", ("ns",), {}, by=lakes.BY))
    ident = lake.ident("ns.t")
    lake.run(lake.tables.create(ident, schema=lakes.SCHEMA, by=lakes.BY))
    pointer = lake.run(lake.tables.drop(ident, by=lakes.BY))
    last = lake.log()[-1].record
    assert departures.KEPT_UNTIL in last.ops[0].summary
    assert dict(retention.departures_of(last)) == {
        pointer.object_uuid: retention.Departure(
            how="drop", at_ms=last.time_ms, pointer=pointer, has_row=True
        )
    }


@pytest.mark.parametrize(
    ("how", "has_row", "after_ms", "is_retained"),
    [
        ("drop", False, 5 * DAY - 1, True),
        ("drop", False, 5 * DAY, False),
        ("purge", False, 0, False),
        ("unregister", False, 10_000 * DAY, True),
        ("drop", True, 0, False),
        ("unregister", True, 0, False),
    ],
)
def test_a_state_that_left_without_a_row_is_kept_for_the_days_of_dropped_tables(
    how: retention.Removal, has_row: bool, after_ms: int, is_retained: bool
) -> None:
    left = retention.Departure(how=how, at_ms=1_000, pointer=POINTER, has_row=has_row)
    assert retention.is_retained(left, RULES, now_ms=1_000 + after_ms) is is_retained


@pytest.mark.parametrize(
    ("key", "purpose", "without_names"),
    [
        ("ns/t/data/a.parquet", "file", "file"),
        ("ns/t/metadata/version-hint.text", "hint", "hint"),
        ("ns/t/data/trino-tmp-files/sorting-file-writer-1", "scratch", "scratch"),
        ("ns/t/data/", None, None),
        ("ns/t/a b/c", None, "file"),
    ],
)
def test_a_refused_key_is_a_tables_file_only_where_no_layout_rules_are(
    key: str, purpose: str | None, without_names: str | None
) -> None:
    location = layout.Location(path="ns/t")
    assert retention.purpose_of(key, location, judges_names=True) == purpose
    assert retention.purpose_of(key, location, judges_names=False) == without_names


FILE = {
    "purpose": "file",
    "owner": retention.OwnerState.LIVE,
    "is_reached": False,
    "modified_at_ms": 0,
    "tombstoned_at_ms": None,
    "retention": RULES,
    "now_ms": OLD,
}
KEEPING = retention.retention_of({retention.REMOVES_UNREFERENCED: False})


@pytest.mark.parametrize(
    ("changed", "fate"),
    [
        ({}, "hide"),
        ({"now_ms": 3 * DAY}, "hide"),
        ({"now_ms": 3 * DAY - 1}, "wait"),
        ({"tombstoned_at_ms": OLD - 10 * DAY}, "free"),
        ({"tombstoned_at_ms": OLD - 10 * DAY + 1}, "wait"),
        ({"is_reached": True}, "keep"),
        ({"is_reached": True, "tombstoned_at_ms": 0}, "show"),
        ({"is_reached": True, "owner": retention.OwnerState.PURGED}, "keep"),
        ({"owner": retention.OwnerState.PURGED, "now_ms": 0}, "free"),
        ({"owner": retention.OwnerState.KEPT}, "keep"),
        ({"owner": retention.OwnerState.KEPT, "tombstoned_at_ms": 0}, "keep"),
        ({"owner": retention.OwnerState.KEPT, "is_reached": True, "tombstoned_at_ms": 0}, "keep"),
        ({"owner": retention.OwnerState.GONE}, "hide"),
        ({"purpose": None, "owner": retention.OwnerState.PURGED}, "keep"),
        ({"purpose": "hint"}, "keep"),
        ({"purpose": "hint", "owner": retention.OwnerState.GONE}, "hide"),
        ({"purpose": "hint", "owner": retention.OwnerState.PURGED}, "free"),
        ({"purpose": "scratch", "now_ms": DAY}, "free"),
        ({"purpose": "scratch", "now_ms": DAY - 1}, "wait"),
        ({"retention": KEEPING}, "keep"),
        ({"retention": KEEPING, "tombstoned_at_ms": 0}, "keep"),
        ({"retention": KEEPING, "purpose": "scratch"}, "free"),
        ({"retention": KEEPING, "owner": retention.OwnerState.PURGED}, "free"),
    ],
)
def test_what_happens_to_a_file(changed: dict[str, Any], fate: str) -> None:
    assert retention.judge(**{**FILE, **changed}).value == fate  # type: ignore[arg-type] # of a table
