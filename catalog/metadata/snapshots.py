"""rule: adds and removes snapshots, and sets and removes the refs to them.

Sequence numbers and row ids are assigned once: a snapshot that was built on an older state of the
table is refused with StaleSequenceNumber, which asks the client to try again, not as a bad request.
Source: Iceberg spec, Snapshots, Snapshot References, Row Lineage.
"""

from __future__ import annotations

import msgspec

from catalog.metadata import errors, json_values
from catalog.metadata.drafts import Draft
from catalog.metadata.json_values import Json
from catalog.metadata.model import (
    LOG_DISORDER_MAX_MS,
    MAIN_BRANCH,
    JsonArray,
    encode_json,
)

ROW_LINEAGE_MIN_FORMAT_VERSION = 3

_RETENTION = {
    "min-snapshots-to-keep": "Min snapshots to keep must be greater than 0",
    "max-snapshot-age-ms": "Max snapshot age must be greater than 0 ms",
    "max-ref-age-ms": "Max reference age must be greater than 0",
}
_BRANCH_ONLY = {
    "min-snapshots-to-keep": "Tags do not support setting minSnapshotsToKeep",
    "max-snapshot-age-ms": "Tags do not support setting maxSnapshotAgeMs",
}


def apply_add_snapshot(draft: Draft, update: Json) -> None:
    """Add a snapshot no ref points at yet.

    last-sequence-number becomes the larger of both: a parentless snapshot may lie behind it.
    Raises StaleSequenceNumber if another commit came first.
    """
    for present, what in (
        (len(draft.schemas), "a schema"),
        (len(draft.specs), "a partition spec"),
        (len(draft.orders), "a sort order"),
    ):
        if not present:
            raise errors.BadUpdate(f"Attempting to add a snapshot before {what} is added")
    snapshot = _check_snapshot(update, draft.format_version)
    snapshot_id = snapshot["snapshot-id"]
    if snapshot_id in draft.snapshots:
        raise errors.BadUpdate(f"Snapshot already exists for id: {snapshot_id}")
    sequence_number = snapshot.get("sequence-number", 0)
    if (
        draft.format_version > 1
        and sequence_number <= draft.last_sequence_number
        and snapshot.get("parent-snapshot-id") is not None
    ):
        raise errors.StaleSequenceNumber(
            f"Cannot add snapshot with sequence number {sequence_number} older than last"
            f" sequence number {draft.last_sequence_number}"
        )
    next_row_id = _next_row_id(draft, snapshot)
    draft.snapshots.add(snapshot_id, encode_json(snapshot))
    draft.last_sequence_number = max(draft.last_sequence_number, sequence_number)
    draft.next_row_id = next_row_id
    draft.touch()


def _check_snapshot(update: Json, format_version: int) -> Json:
    snapshot = json_values.get_object(update, "snapshot")
    json_values.get_long(snapshot, "snapshot-id")
    json_values.get_long(snapshot, "timestamp-ms")
    json_values.find_long(snapshot, "parent-snapshot-id")
    json_values.find_int(snapshot, "schema-id")
    json_values.find_text(snapshot, "key-id")
    json_values.find_long(snapshot, "first-row-id")
    json_values.find_long(snapshot, "added-rows")
    sequence_number = None
    if "sequence-number" in snapshot:
        sequence_number = json_values.get_long(snapshot, "sequence-number")
    if snapshot.get("summary") is not None:
        json_values.get_text_map(snapshot, "summary")
    if format_version == 1:
        if sequence_number:
            raise errors.BadUpdate("Cannot add a snapshot with a sequence number to a v1 table")
        if snapshot.get("manifest-list") is None:
            json_values.get_texts(snapshot, "manifests")
        else:
            json_values.get_text(snapshot, "manifest-list")
        return {name: value for name, value in snapshot.items() if name != "sequence-number"}
    if snapshot.get("manifests") is not None:
        raise errors.BadUpdate("Snapshots that list manifests directly are not supported after v1")
    json_values.get_text(snapshot, "manifest-list")
    json_values.get_text(json_values.get_object(snapshot, "summary"), "operation")
    if sequence_number is not None and sequence_number < 0:
        raise errors.BadUpdate(f"Invalid sequence number: {sequence_number}")
    return snapshot


def _next_row_id(draft: Draft, snapshot: Json) -> int:
    if draft.format_version < ROW_LINEAGE_MIN_FORMAT_VERSION:
        return draft.next_row_id
    first_row_id = json_values.find_long(snapshot, "first-row-id")
    if first_row_id is None:
        raise errors.BadUpdate("Cannot add a snapshot: first-row-id is null")
    if first_row_id < draft.next_row_id:
        raise errors.StaleSequenceNumber(
            "Cannot add a snapshot, first-row-id is behind table next-row-id:"
            f" {first_row_id} < {draft.next_row_id}"
        )
    added_rows = json_values.find_long(snapshot, "added-rows")
    if added_rows is None or added_rows < 0:
        raise errors.BadUpdate(f"Cannot add a snapshot: added-rows is {added_rows or 'null'}")
    if first_row_id + added_rows > json_values.LONG_MAX:
        raise errors.BadUpdate("Cannot add a snapshot: the table's row ids would exceed 64 bits")
    return first_row_id + added_rows


# --- references ---------------------------------------------------------------------------------


def apply_set_snapshot_ref(draft: Draft, update: Json) -> None:
    """Make or move a branch or tag. main also is the table's current snapshot."""
    name = json_values.get_text(update, "ref-name")
    ref = _check_ref(update)
    if draft.refs.get(name) == ref:
        return
    snapshot_id = ref["snapshot-id"]
    if snapshot_id not in draft.snapshots:
        raise errors.BadUpdate(f"Cannot set {name} to unknown snapshot: {snapshot_id}")
    draft.set_ref(name, ref)
    if name != MAIN_BRANCH:
        return
    if ref["type"] != "branch":
        raise errors.BadUpdate(f"Cannot set {MAIN_BRANCH} to a tag, it must be a branch")
    if draft.current_snapshot_id == snapshot_id:
        return
    added = draft.snapshots.added.get(snapshot_id)
    when = draft.now_ms if added is None else msgspec.json.decode(added)["timestamp-ms"]
    draft.current_snapshot_id = snapshot_id
    draft.moves.append((when, snapshot_id))


def _check_ref(update: Json) -> Json:
    ref_type = json_values.get_text(update, "type").lower()
    if ref_type not in ("branch", "tag"):
        raise errors.BadUpdate(f"Invalid snapshot ref type: {ref_type}")
    ref: Json = {"snapshot-id": json_values.get_long(update, "snapshot-id"), "type": ref_type}
    for name, refusal in _RETENTION.items():
        bound = json_values.find_long(update, name)
        if bound is None:
            continue
        if ref_type == "tag" and name in _BRANCH_ONLY:
            raise errors.BadUpdate(_BRANCH_ONLY[name])
        if bound <= 0:
            raise errors.BadUpdate(refusal)
        ref[name] = bound
    return ref


def apply_remove_snapshot_ref(draft: Draft, update: Json) -> None:
    draft.remove_ref(json_values.get_text(update, "ref-name"))


def apply_remove_snapshots(draft: Draft, update: Json) -> None:
    """Remove snapshots, and with them their statistics.

    Raises RequirementFailed for a snapshot to which a branch or tag points. A client that expires
    snapshots removes or moves such refs before, in the same request; a ref that is left was set by
    another client after the first one read the table, and would be lost with its snapshot.
    """
    wanted = json_values.get_numbers(update, "snapshot-ids", limit=json_values.LONG_MAX)
    for snapshot_id in wanted:
        if snapshot_id not in draft.snapshots:
            continue
        names = draft.refs_at(snapshot_id)
        if names:
            name = min(names)
            raise errors.RequirementFailed(
                f"Cannot remove snapshot {snapshot_id}: {draft.refs[name]['type']} {name} points"
                " to it"
            )
        draft.snapshots.remove(snapshot_id)
        draft.statistics.remove(snapshot_id)
        draft.partition_statistics.remove(snapshot_id)
        draft.snapshots_removed = True
        draft.touch()


# --- the snapshot log ---------------------------------------------------------------------------


def log_moves(draft: Draft, *, last_updated_ms: int) -> JsonArray:
    """Return the snapshot log as it stands after this request.

    Snapshots both added and replaced within the request leave no entry; an entry whose snapshot
    was removed takes all before it along, since a gap would answer time travel wrongly. Raises
    BadUpdate when a snapshot claims to come from the future.
    """
    current = draft.current_snapshot_id
    log = draft.base.snapshot_entries
    if draft.snapshots_removed:
        log = _after_last_gap(log, draft)
    moves = [
        (when, snapshot_id)
        for when, snapshot_id in draft.moves
        if snapshot_id in draft.snapshots
        and (snapshot_id == current or snapshot_id not in draft.added_ids)
    ]
    if not moves:
        return log
    newest_ms = _last_timestamp_ms(log)
    added = []
    for when, snapshot_id in moves:
        if when > last_updated_ms + LOG_DISORDER_MAX_MS:
            raise errors.BadUpdate(
                f"Invalid update timestamp {last_updated_ms}: before last snapshot log entry at"
                f" {when}"
            )
        # readers refuse a log whose entries run backwards by more than a minute
        ordered = when if when >= newest_ms - LOG_DISORDER_MAX_MS else newest_ms
        newest_ms = max(newest_ms, ordered)
        added.append(b'{"timestamp-ms":%d,"snapshot-id":%d}' % (ordered, snapshot_id))
    return log.extended(added)


def _after_last_gap(log: JsonArray, draft: Draft) -> JsonArray:
    kept: list[bytes] = []
    for entry, text in zip(log.decoded(), log.items(), strict=True):
        if entry.get("snapshot-id") in draft.snapshots:
            kept.append(text)
        else:
            kept.clear()
    return JsonArray.of(kept)


def _last_timestamp_ms(log: JsonArray) -> int:
    text = log.text
    start = text.rfind(b"{")
    if start < 0:
        return 0
    entry = msgspec.json.decode(text[start : text.rindex(b"}") + 1])
    timestamp_ms = entry.get("timestamp-ms")
    return timestamp_ms if isinstance(timestamp_ms, int) else 0
