"""rule: the files that a commit's updates name: manifest lists, manifests of v1, statistics.

What is malformed names nothing here; applying the updates refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

_STATISTICS: Final[Mapping[str, str]] = {
    "set-statistics": "statistics",
    "set-partition-statistics": "partition-statistics",
}
"""Updates that name a statistics file, and the member that does."""


def named_by(updates: Iterable[Any]) -> list[str]:
    """Return the URIs of the files that updates add to a table, each once. updates: as JSON."""
    named: list[Any] = []
    for update in updates:
        if not isinstance(update, dict):
            continue
        action = str(update.get("action")).lower()
        snapshot = update.get("snapshot")
        if action == "add-snapshot" and isinstance(snapshot, dict):
            named.append(snapshot.get("manifest-list"))
            manifests = snapshot.get("manifests")
            named += manifests if isinstance(manifests, list) else []
        statistics = update.get(_STATISTICS.get(action, ""))
        if isinstance(statistics, dict):
            named.append(statistics.get("statistics-path"))
    return list(dict.fromkeys(uri for uri in named if isinstance(uri, str)))
