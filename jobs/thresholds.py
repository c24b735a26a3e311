"""rule: which maintenance of a table would change something worth it.

Compaction is due if enough files would be rewritten: the data files that Iceberg's
`rewrite_data_files` chooses with the thresholds of `pipeline compact`, in every partition, and the
delete files that they need. Manifests are rewritten if they would become half as many. Snapshots
are expired as the Iceberg specification says, Snapshot Retention Policy: a branch or tag, and the
table's properties, may only keep more than the maintenance settings do.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog import deletes, manifests

REWRITTEN_MIN: Final = 20
"""Files, of data and of deletes, that a compaction must have to rewrite: it costs the start of a
JVM."""
INPUT_FILES_MIN: Final = 5
SMALL_SHARE: Final = 0.75
LARGE_SHARE: Final = 1.8
"""Iceberg's defaults: files in one partition; shares of the target size below and above which a
file is rewritten. Source: Iceberg 1.12, SizeBasedFileRewritePlanner."""
DELETE_FILES_MIN: Final = 10
"""Delete files with which a data file is rewritten: that of `pipeline compact`."""
DELETE_RATIO_MIN: Final = 0.3
"""The share of a data file's rows that delete files of its own remove with which it is rewritten:
Iceberg's default. Source: Iceberg 1.12, BinPackRewriteFilePlanner."""
COMPARED_MAX: Final = 2_000_000
"""Delete files that are compared with data files by their bounds; beyond, all of a partition
count."""
MANIFEST_BYTES: Final = 8 * 1024 * 1024
"""Iceberg's default of `commit.manifest.target-size-bytes`."""
STEPS_MAX: Final = 100_000
"""Ancestors of a snapshot that are looked at."""
HOUR_MS: Final = 3_600_000


def files_to_rewrite(
    files: Iterable[tuple[manifests.DataFile, deletes.Applying]], *, target_bytes: int
) -> int:
    """Return how many of a snapshot's files a compaction would rewrite: data files, and the delete
    files that would go with them. files: each data file with its delete files."""
    groups: dict[tuple[int, str], _Group] = defaultdict(_Group)
    compared = 0
    for file, applying in files:
        size_bytes = file.file_size_in_bytes
        is_sized = SMALL_SHARE * target_bytes <= size_bytes <= LARGE_SHARE * target_bytes
        if is_sized and not applying:
            continue
        compared += applying.candidates
        delete_files = (
            applying.candidates
            if compared > COMPARED_MAX
            else sum(1 for _ in itertools.islice(applying, DELETE_FILES_MIN))
        )
        deleted = sum(each.record_count for each in applying.exact)
        is_worn = delete_files >= DELETE_FILES_MIN or (
            deleted > 0 and deleted >= DELETE_RATIO_MIN * file.record_count
        )
        if is_sized and not is_worn:
            continue
        group = groups[file.spec_id, repr(file.partition)]
        group.count += 1
        group.size_bytes += size_bytes
        group.own_deletes += len(applying.exact)
        group.shared_deletes = max(group.shared_deletes, delete_files - len(applying.exact))
        group.is_worn = group.is_worn or is_worn
    return sum(
        group.count + group.own_deletes + group.shared_deletes
        for group in groups.values()
        if group.count >= INPUT_FILES_MIN
        or (group.count > 1 and group.size_bytes > target_bytes)
        or group.size_bytes > LARGE_SHARE * target_bytes
        or group.is_worn
    )


@dataclass(kw_only=True, slots=True)
class _Group:
    """The files of one partition that would be rewritten. Mutable: they are counted.

    own_deletes: delete files of one data file. shared_deletes: the most that one data file shares
    with others. is_worn: whether deletes alone are a reason.
    """

    count: int = 0
    size_bytes: int = 0
    own_deletes: int = 0
    shared_deletes: int = 0
    is_worn: bool = False


def may_need_compaction(summary: Mapping[str, Any], *, target_bytes: int) -> bool:
    """Return whether a snapshot's summary leaves it open that a compaction is due."""
    try:
        count = int(summary["total-data-files"]) + int(summary.get("total-delete-files", 0))
        size_bytes = int(summary["total-files-size"])
    except (KeyError, TypeError, ValueError):
        return True
    return count >= REWRITTEN_MIN or size_bytes > REWRITTEN_MIN * target_bytes


def files_by_mean(summary: Mapping[str, Any], *, target_bytes: int) -> int:
    """Return how many files a compaction would rewrite, of a table of too many files to look at:
    all of them if their mean size is small or many of their rows are deleted, else none."""
    try:
        count, size_bytes = int(summary["total-data-files"]), int(summary["total-files-size"])
        rows = int(summary.get("total-records", 0))
        deleted = int(summary.get("total-position-deletes", 0))
    except (KeyError, TypeError, ValueError):
        return 0
    is_worn = deleted > 0 and deleted >= DELETE_RATIO_MIN * rows
    return count if is_worn or size_bytes < count * SMALL_SHARE * target_bytes else 0


def may_have_manifests(summary: Mapping[str, Any], *, manifests_max: int) -> bool:
    """Return whether a snapshot's summary leaves it open that it has more manifests: each has a
    file."""
    try:
        count = int(summary["total-data-files"]) + int(summary.get("total-delete-files", 0))
    except (KeyError, TypeError, ValueError):
        return True
    return count > manifests_max


def manifests_to_rewrite(
    listed: Iterable[manifests.ManifestFile],
    properties: Mapping[str, str],
    *,
    spec_id: int,
    manifests_max: int,
) -> int:
    """Return how many manifests a rewrite would replace; 0 if it is not due.

    Those of the table's spec are rewritten, of data and of deletes apart, into as many as Iceberg's
    target size needs. Due if more than manifests_max are small, and half of all would go.
    """
    target_bytes = _number(properties, "commit.manifest.target-size-bytes") or MANIFEST_BYTES
    by_content: dict[manifests.ManifestContent, list[int]] = defaultdict(list)
    for manifest in listed:
        if manifest.partition_spec_id == spec_id and manifest.has_live_files:
            by_content[manifest.content].append(manifest.manifest_length)
    lengths = [length for group in by_content.values() for length in group]
    small = sum(1 for length in lengths if length < target_bytes / 2)
    added = sum(-(-sum(group) // target_bytes) for group in by_content.values())
    return len(lengths) if small > manifests_max and 2 * added <= len(lengths) else 0


def changes_since_statistics(
    snapshot_of: Callable[[int], Mapping[str, Any] | None],
    current_snapshot_id: int,
    with_statistics: Collection[int],
    *,
    changes_max: int,
) -> int:
    """Return how many snapshots have changed rows since the nearest one with statistics, at most
    changes_max; changes_max if no ancestor has any. snapshot_of: returns a snapshot by its id."""
    changes, step = 0, current_snapshot_id
    for _ in range(STEPS_MAX):
        if step in with_statistics or changes >= changes_max:
            return changes
        snapshot = snapshot_of(step)
        if snapshot is None:
            return changes_max
        summary = snapshot.get("summary") or {}
        changes += summary.get("operation") != "replace"
        parent = snapshot.get("parent-snapshot-id")
        if parent is None:
            return changes_max
        step = parent
    return changes_max


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
