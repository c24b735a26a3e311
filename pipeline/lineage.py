"""rule: which snapshots of another table a load reads, and how the record of loads names them.

A snapshot is to a source table what an object is to a bucket: the record has a row for each one
whose rows were loaded. The first load reads the table whole and names all snapshots of its history;
a later one reads what was appended since. Two more rows make the loads of one source a chain: each
says which snapshot it continues (`after 17`, at the beginning `after nothing`), and a row of the
record exists once. So two loads never continue the same snapshot, and a table that was rolled back
is recognised, even when the snapshots that it lost have expired.

Tables are named by their UUIDs, which a renamed table keeps. A second table of a name is another
source: an append refuses it, because its rows may be those that were loaded before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeAlias

from pipeline import errors, settings

Pair: TypeAlias = tuple[str, str]
"""A row of the record of loads: source and ETag."""

SNAPSHOTS_MAX = 90_000
"""Snapshots that one load names; the record takes 100,000 rows of a commit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotRange:
    """Rows of a table: those appended after one snapshot, up to another one.

    after: None for the whole table as it is at `until`.
    """

    table: settings.TargetTable
    after: int | None
    until: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Portion:
    """What a load reads of a table. rows: None if there is nothing to read.

    fresh: each snapshot's row of the record, with the size of the files that it added. claims: more
    rows. skipped: snapshots that were loaded before. remark: why a merge reads the table whole.
    """

    rows: SnapshotRange | None
    fresh: Sequence[tuple[Pair, int]] = ()
    claims: Sequence[Pair] = ()
    skipped: int = 0
    remark: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _History:
    """A source table's ancestors of its current snapshot, the newest first."""

    source: settings.TableSource
    place: str
    named: Pair
    ancestors: Sequence[Mapping[str, Any]]

    @property
    def until(self) -> int:
        return int(self.ancestors[0]["snapshot-id"])

    def row(self, snapshot: Mapping[str, Any]) -> Pair:
        return self.place, str(snapshot["snapshot-id"])

    def portion(
        self, snapshots: Sequence[Mapping[str, Any]], *, after: int | None, **more: Any
    ) -> Portion:
        _check_count(self.source, snapshots)
        return Portion(
            rows=SnapshotRange(table=self.source.table, after=after, until=self.until),
            fresh=tuple((self.row(each), _added_bytes(each)) for each in reversed(snapshots)),
            skipped=len(self.ancestors) - len(snapshots),
            **more,
        )


def replacing(
    source: settings.TableSource, metadata: Mapping[str, Any], content: AbstractSet[Pair] | None
) -> Portion:
    """Return what a load reads that makes its table equal the source: all of it, or nothing.

    content: the rows of the record whose sources are the table's whole content; None: unknown.
    Raises BadArgument for a table without a snapshot.
    """
    history = _history(source, metadata)
    if not history.ancestors:
        raise errors.BadArgument(
            f"{source.table.full} has no snapshot, so there is nothing to read"
        )
    if content is not None and history.row(history.ancestors[0]) in content:
        return Portion(rows=None, skipped=len(history.ancestors))
    claims = ((history.place, _after(None)), history.named)
    return history.portion(history.ancestors, after=None, claims=claims)


def adding(
    source: settings.TableSource,
    metadata: Mapping[str, Any],
    taken: AbstractSet[Pair],
    *,
    may_read_whole: bool,
) -> Portion:
    """Return what a load reads that adds the source's new rows to its table.

    taken: the table's record of loads. may_read_whole: read a table whole whose history does not
    only append since the last load; otherwise it raises BadArgument.
    """
    history = _history(source, metadata)
    etags = {etag for place, etag in taken if place == history.place}
    named = () if history.named in taken else (history.named,)
    if not etags:
        others = [etag for place, etag in taken if place == str(source)]
        if others and not may_read_whole:
            raise errors.BadArgument(
                f"{source.table.full} is another table than the one of this name that was loaded "
                "before; --mode replace makes the target equal to it"
            )
        if not history.ancestors:
            return Portion(rows=None)
        claims = ((history.place, _after(None)), *named)
        return history.portion(history.ancestors, after=None, claims=claims)
    if not history.ancestors:
        raise _no_continuation(source, "it has no snapshot any more")
    fresh: list[Mapping[str, Any]] = []
    last = None
    for snapshot in history.ancestors:
        if str(snapshot["snapshot-id"]) in etags:
            last = int(snapshot["snapshot-id"])
            break
        fresh.append(snapshot)
    is_last = _after(last) not in etags
    if not fresh:
        if not is_last:
            raise _no_continuation(source, f"it was rolled back to snapshot {last}")
        return Portion(rows=None, skipped=len(history.ancestors))
    obstacle = _obstacle(fresh, last, is_last=is_last)
    if obstacle and not may_read_whole:
        raise _no_continuation(source, obstacle)
    claims = tuple(
        (history.place, etag) for etag in ([_after(last)] if last is not None and is_last else [])
    )
    return history.portion(
        fresh,
        after=None if obstacle else last,
        claims=(*claims, *named),
        remark=f"reading {source.table.full} whole, because {obstacle}" if obstacle else "",
    )


def _obstacle(fresh: Iterable[Mapping[str, Any]], last: int | None, *, is_last: bool) -> str:
    """Return why the rows since the last load are not those that snapshots appended, or ''."""
    if last is None:
        return "the snapshot that was loaded last has left its history"
    if not is_last:
        return f"it was rolled back to snapshot {last}"
    for snapshot in fresh:
        # Iceberg's "replace" is a snapshot with the same rows in other files.
        operation = snapshot.get("summary", {}).get("operation")
        if operation not in {"append", "replace"}:
            return f"its snapshot {snapshot['snapshot-id']} changes rows ({operation})"
    return ""


def _no_continuation(source: settings.TableSource, obstacle: str) -> errors.BadArgument:
    return errors.BadArgument(
        f"{source.table.full} has not only grown since the last load: {obstacle}; --mode replace "
        "makes the target equal to it, --mode merge brings in its rows by key"
    )


def _history(source: settings.TableSource, metadata: Mapping[str, Any]) -> _History:
    by_id = {each["snapshot-id"]: each for each in metadata.get("snapshots") or ()}
    ancestors = []
    snapshot = by_id.pop(metadata.get("current-snapshot-id"), None)
    while snapshot is not None:
        ancestors.append(snapshot)
        snapshot = by_id.pop(snapshot.get("parent-snapshot-id"), None)
    uuid = str(metadata["table-uuid"])
    return _History(
        source=source, place=f"table:{uuid}", named=(str(source), uuid), ancestors=ancestors
    )


def _after(snapshot_id: int | None) -> str:
    return f"after {'nothing' if snapshot_id is None else snapshot_id}"


def _added_bytes(snapshot: Mapping[str, Any]) -> int:
    return int(snapshot.get("summary", {}).get("added-files-size", 0))


def _check_count(source: settings.TableSource, snapshots: Sequence[Any]) -> None:
    if len(snapshots) > SNAPSHOTS_MAX:
        raise errors.BadArgument(
            f"{source.table.full} has more than {SNAPSHOTS_MAX:,} snapshots; expire some of them"
        )
