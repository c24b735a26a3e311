"""rule: a snapshot's summary: files added and removed, and the table's totals after it.

Totals continue the parent's; if the parent has none, they are counted from the live files.
Source: Iceberg spec, Appendix F, Optional Snapshot Summary Fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from catalog import deletes
from catalog.manifests import Content, DataFile

TOTALS = {
    # total: (counted when added, counted when removed)
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


def totals_of(summary: Mapping[str, str] | None) -> dict[str, int] | None:
    """Return the totals in a summary, or None unless it has all of them."""
    if summary is None:
        return None
    try:
        return {total: int(summary[total]) for total in TOTALS}
    except (KeyError, ValueError):
        return None


def counted(files: Iterable[DataFile]) -> dict[str, int]:
    """Return the totals of these live files."""
    change = _counts(files, removed=False)
    return {total: change.get(added, 0) for total, (added, _) in TOTALS.items()}


def summarise(
    *,
    operation: str,
    added: Iterable[DataFile],
    removed: Iterable[DataFile],
    totals_before: Mapping[str, int],
    extra: Mapping[str, str],
) -> dict[str, str]:
    """Return the summary of a snapshot. extra: the caller's own fields, which override none."""
    added, removed = list(added), list(removed)
    change = {**_counts(added, removed=False), **_counts(removed, removed=True)}
    touched = {deletes.partition_key(file) for file in (*added, *removed)}
    change["changed-partition-count"] = len(touched)
    after = {
        total: before_total + change.get(when_added, 0) - change.get(when_removed, 0)
        for total, (when_added, when_removed) in TOTALS.items()
        for before_total in (totals_before[total],)
    }
    numbers = {name: number for name, number in change.items() if number} | after
    return {
        **extra,
        "operation": operation,
        **{name: str(number) for name, number in numbers.items()},
    }


def _counts(files: Iterable[DataFile], *, removed: bool) -> dict[str, int]:
    counts: dict[str, int] = {}

    def count(name: str, number: int) -> None:
        counts[name] = counts.get(name, 0) + number

    word = "removed" if removed else "added"
    data_word = "deleted" if removed else "added"
    for file in files:
        # a deletion vector's share of its file is its own size
        size_bytes = (
            file.content_size_in_bytes
            if file.content_size_in_bytes is not None
            else file.file_size_in_bytes
        )
        count(f"{word}-files-size", size_bytes)
        if file.content == Content.DATA:
            count(f"{data_word}-data-files", 1)
            count(f"{data_word}-records", file.record_count)
            continue
        count(f"{word}-delete-files", 1)
        if file.content == Content.EQUALITY_DELETES:
            count(f"{word}-equality-delete-files", 1)
            count(f"{word}-equality-deletes", file.record_count)
            continue
        count(f"{word}-dvs" if file.is_deletion_vector else f"{word}-position-delete-files", 1)
        count(f"{word}-position-deletes", file.record_count)
    return counts
