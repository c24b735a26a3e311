"""engine: counts of served requests, for `/_metrics`.

One instance per server, written by the exchange alone, on the event loop. Every face and status
that occurs is a row; both are closed sets, so the table does not grow with traffic.
"""

from __future__ import annotations

import bisect
from typing import Final

DURATION_BOUNDS_SECONDS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)

LAG_BOUNDS_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

_BOUNDS_NS: Final = tuple(int(bound * 1e9) for bound in DURATION_BOUNDS_SECONDS)


class FaceCounters:
    """The counts of one face. buckets: durations up to each bound; the last, those beyond all."""

    __slots__ = ("buckets", "duration_ns", "received_bytes", "requests", "sent_bytes")

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        self.buckets = [0] * (len(_BOUNDS_NS) + 1)
        self.duration_ns = 0
        self.received_bytes = 0
        self.sent_bytes = 0


class Counters:
    """Counts by face."""

    __slots__ = (
        "disconnects",
        "faces",
        "in_flight",
        "lag_buckets",
        "lag_max_seconds",
        "lag_seconds",
    )

    def __init__(self) -> None:
        self.faces: dict[str, FaceCounters] = {}
        self.in_flight = 0
        self.disconnects = 0
        self.lag_buckets = [0] * (len(LAG_BOUNDS_SECONDS) + 1)
        self.lag_seconds = 0.0
        self.lag_max_seconds = 0.0

    def record_lag(self, seconds: float) -> None:
        """Count the lateness of the event loop at one timer."""
        self.lag_seconds += seconds
        self.lag_max_seconds = max(self.lag_max_seconds, seconds)
        self.lag_buckets[bisect.bisect_left(LAG_BOUNDS_SECONDS, seconds)] += 1

    def record(
        self, face: str, status: int, *, duration_ns: int, received_bytes: int, sent_bytes: int
    ) -> None:
        """Count one answered request."""
        row = self.faces.get(face)
        if row is None:
            row = self.faces[face] = FaceCounters()
        row.requests[status] = row.requests.get(status, 0) + 1
        row.duration_ns += duration_ns
        row.received_bytes += received_bytes
        row.sent_bytes += sent_bytes
        slot = 0
        for bound in _BOUNDS_NS:
            if duration_ns <= bound:
                break
            slot += 1
        row.buckets[slot] += 1
