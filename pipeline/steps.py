"""engine: the steps of a load: each is announced, timed, and kept with its rows and bytes.

Spark computes transforms as one query with the writing: a transform's seconds are those of its
planning, and how many rows it returns is known of none but what the last one writes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from pipeline import jobs, progress


class StepCounts:
    """What a step under way has counted so far. Mutable: the step sets it; None is unknown."""

    def __init__(self) -> None:
        self.rows: int | None = None
        self.size_bytes: int | None = None


class Steps:
    """The steps of a load so far. Mutable: it gains each step that ends, also one that fails."""

    def __init__(self, say: progress.Say) -> None:
        self._say = say
        self._done: list[jobs.StepDone] = []

    @property
    def done(self) -> tuple[jobs.StepDone, ...]:
        """The steps that have ended, in their order."""
        return tuple(self._done)

    @contextlib.contextmanager
    def taking(self, name: str, *, announced: str | None = None) -> Iterator[StepCounts]:
        """Time the block as a step. announced: what a job prints when it begins."""
        if announced is not None:
            self._say(announced)
        counts, started, has_failed = StepCounts(), time.monotonic(), True
        try:
            yield counts
            has_failed = False
        finally:
            self._done.append(
                jobs.StepDone(
                    name=name,
                    seconds=round(time.monotonic() - started, 3),
                    rows=counts.rows,
                    size_bytes=counts.size_bytes,
                    has_failed=has_failed,
                )
            )
