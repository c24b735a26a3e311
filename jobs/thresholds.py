"""rule: which maintenance of a table would change something worth it.

Compaction is due if enough data files would be rewritten: the files that Iceberg's
`rewrite_data_files` chooses with its own thresholds, in every partition. Snapshots are expired as
the Iceberg specification says, Snapshot Retention Policy: a branch or tag, and the table's
properties, may only keep more than the maintenance settings do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog import manifests

REWRITTEN_MIN: Final = 20
"""Files that a compaction must have to rewrite: it costs the start of a JVM."""
INPUT_FILES_MIN: Final = 5
SMALL_SHARE: Final = 0.75
LARGE_SHARE: Final = 1.8
"""Iceberg's defaults: files in one partition; shares of the target size below and above which a
file is rewritten. Source: Iceberg 1.12, SizeBasedFileRewritePlanner."""
HOUR_MS: Final = 3_600_000


def files_to_rewrite(files: Iterable[manifests.DataFile], *, target_bytes: int) -> int:
    """Return how many of a snapshot's data files a compaction would rewrite."""
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    for file in files:
        size_bytes = file.file_size_in_bytes
        if not SMALL_SHARE * target_bytes <= size_bytes <= LARGE_SHARE * target_bytes:
            groups[file.spec_id, repr(file.partition)].append(size_bytes)
    return sum(
        len(sizes)
        for sizes in groups.values()
        if len(sizes) >= INPUT_FILES_MIN
        or (len(sizes) > 1 and sum(sizes) > target_bytes)
        or sum(sizes) > LARGE_SHARE * target_bytes
    )


def may_have_small_files(summary: Mapping[str, Any], *, target_bytes: int) -> bool:
    """Return whether a snapshot's summary leaves it open that a compaction is due."""
    try:
        count = int(summary["total-data-files"])
        size_bytes = int(summary["total-files-size"])
    except (KeyError, TypeError, ValueError):
        return True
    return count >= REWRITTEN_MIN or size_bytes > REWRITTEN_MIN * target_bytes


def files_by_mean(summary: Mapping[str, Any], *, target_bytes: int) -> int:
    """Return how many files a compaction would rewrite, of a table of too many files to look at:
    all of them if their mean size is small, else none."""
    try:
        count, size_bytes = int(summary["total-data-files"]), int(summary["total-files-size"])
    except (KeyError, TypeError, ValueError):
        return 0
    return count if size_bytes < count * SMALL_SHARE * target_bytes else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotExpiry:
    """The snapshots of a table that are no longer kept, and when the next one is not, if time alone
    decides; None if no kept snapshot ages out."""

    snapshot_ids: tuple[int, ...]
    next_at_ms: int | None


def expiry(
    snapshots: Sequence[Mapping[str, Any]],
    refs: Mapping[str, Mapping[str, Any]],
    properties: Mapping[str, str],
    *,
    snapshots_min: int,
    age_ms: int,
    now_ms: int,
) -> SnapshotExpiry:
    """Return what is not kept of a table's snapshots.

    snapshots: as in the metadata. snapshots_min, age_ms: the maintenance settings. A table whose
    property `gc.enabled` is false keeps everything.
    """
    if properties.get("gc.enabled", "true").lower() == "false":
        return SnapshotExpiry(snapshot_ids=(), next_at_ms=None)
    snapshots_min = max(snapshots_min, _number(properties, "history.expire.min-snapshots-to-keep"))
    age_ms = max(age_ms, _number(properties, "history.expire.max-snapshot-age-ms"))
    parents = {each["snapshot-id"]: each.get("parent-snapshot-id") for each in snapshots}
    times = {each["snapshot-id"]: int(each["timestamp-ms"]) for each in snapshots}
    kept: set[int] = set()
    ages: list[int] = []
    referenced: set[int] = set()
    for ref in refs.values():
        head = ref["snapshot-id"]
        kept.add(head)
        if ref.get("type") != "branch":
            continue  # a tag keeps its own snapshot
        count_min = max(snapshots_min, int(ref.get("min-snapshots-to-keep") or 0))
        branch_age_ms = max(age_ms, int(ref.get("max-snapshot-age-ms") or 0))
        for number, snapshot_id in enumerate(_line(head, parents)):
            referenced.add(snapshot_id)
            if number < count_min:
                kept.add(snapshot_id)
            elif times[snapshot_id] + branch_age_ms > now_ms:
                kept.add(snapshot_id)
                ages.append(times[snapshot_id] + branch_age_ms)
    for snapshot_id, at_ms in times.items():
        # One of no branch: staged by a writer, or left behind by a rollback.
        if snapshot_id not in referenced and at_ms + age_ms > now_ms:
            kept.add(snapshot_id)
            ages.append(at_ms + age_ms)
    return SnapshotExpiry(
        snapshot_ids=tuple(each for each in times if each not in kept),
        next_at_ms=min(ages, default=None),
    )


def _line(head: int, parents: Mapping[int, int | None]) -> list[int]:
    """Return a branch's snapshots, the newest first."""
    line: list[int] = []
    seen: set[int] = set()
    step: int | None = head
    while step is not None and step in parents and step not in seen:
        seen.add(step)
        line.append(step)
        step = parents[step]
    return line


def _number(properties: Mapping[str, str], name: str) -> int:
    text = properties.get(name, "")
    return int(text[:18]) if text.isascii() and text.isdecimal() else 0
