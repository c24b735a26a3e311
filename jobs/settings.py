"""rule: the maintenance settings of a table, as the s3tables API stores them, with AWS's
defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from storage import batch, settings

COMPACTION: Final = "icebergCompaction"
SNAPSHOTS: Final = "icebergSnapshotManagement"
STATUS: Final = "status"
ENABLED: Final = "enabled"
TABLE_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    COMPACTION: {"targetFileSizeMB": 512, "strategy": "auto"},
    SNAPSHOTS: {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 120},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TableUpkeep:
    """What a table's settings ask for."""

    compaction_enabled: bool
    target_mib: int
    strategy: str
    snapshots_enabled: bool
    snapshots_min: int
    age_hours: int


def configurations(
    reading: batch.Lookup, bucket_id: int, object_uuid: str
) -> dict[str, dict[str, Any]]:
    """Return a table's settings by type, with defaults, and the status of each type."""
    key = settings.table_key(bucket_id, object_uuid)
    stored = settings.read(reading, key).get(settings.MAINTENANCE, {})
    return {
        name: {STATUS: ENABLED, **defaults, **stored.get(name, {})}
        for name, defaults in TABLE_DEFAULTS.items()
    }


def read(reading: batch.Lookup, bucket_id: int, object_uuid: str) -> TableUpkeep:
    """Return what a table's s3tables settings ask for."""
    by_type = configurations(reading, bucket_id, object_uuid)
    compaction, snapshots = by_type[COMPACTION], by_type[SNAPSHOTS]
    return TableUpkeep(
        compaction_enabled=compaction[STATUS] == ENABLED,
        target_mib=compaction["targetFileSizeMB"],
        strategy=compaction["strategy"],
        snapshots_enabled=snapshots[STATUS] == ENABLED,
        snapshots_min=snapshots["minSnapshotsToKeep"],
        age_hours=snapshots["maxSnapshotAgeHours"],
    )
