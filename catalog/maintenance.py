"""rule: when the server rewrites manifests of a table and computes its statistics.

The s3tables API has no word for either. The table bucket says it for all its tables, and properties
of a table may say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MANIFESTS_MAX: Final = "manifests_max"
STATISTICS_SNAPSHOTS: Final = "statistics_snapshots"
BUCKET_DEFAULTS: Final[Mapping[str, int]] = {MANIFESTS_MAX: 100, STATISTICS_SNAPSHOTS: 0}
"""By the name of the table bucket's setting; 0 turns a task off. 100 manifests are Iceberg's own
default from which an append merges them (`commit.manifest.min-count-to-merge`)."""
PROPERTIES: Final[Mapping[str, str]] = {
    MANIFESTS_MAX: "boathouse.maintenance.manifests-max",
    STATISTICS_SNAPSHOTS: "boathouse.maintenance.statistics-snapshots",
}
"""The properties of a table that say otherwise than its table bucket."""
DIGITS_MAX: Final = 9


def setting_of(name: str, bucket_settings: Mapping[str, Any], properties: Mapping[str, str]) -> int:
    """Return a setting of BUCKET_DEFAULTS for a table. A property that is no whole number counts as
    absent."""
    text = properties.get(PROPERTIES[name], "")
    if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX:
        return int(text)
    return int(bucket_settings.get(name, BUCKET_DEFAULTS[name]))
