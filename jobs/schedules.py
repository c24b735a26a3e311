"""rule: when a pipeline is due, from its file and what is stored of its runs.

The server reads of a file only what it needs to start a run: `target`, `schedule` or `after`, and
`run_as`. The run itself reads the rest, and its error is the run's. A schedule that was missed, or
missed several times, is due once. A run that ended without an answer is due again, each time after
a longer pause, and after CRASHES_MAX such ends not before its schedule.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from jobs import cron, errors, rows

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
CRASHES_MAX: Final = 5
PAUSE_MS: Final = 30_000
"""The pause after the first run that ended without an answer; it doubles with each further one."""
PAUSE_MS_MAX: Final = 3_600_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledPipeline:
    """What the server knows of a pipeline's file. error: why it cannot be run; then the rest is
    empty. cron, after: None unless the file has a schedule or names a pipeline to follow."""

    name: str
    target: str = ""
    schedule: str = ""
    cron: cron.Cron | None = None
    after: str | None = None
    run_as: str | None = None
    error: str | None = None

    @property
    def rule(self) -> str:
        """The text of what makes it due; a change of it begins anew."""
        return f"after {self.after}" if self.after is not None else self.schedule


def read(name: str, text: str) -> ScheduledPipeline:
    """Return what a pipeline's file says of its runs; never raises."""
    try:
        return _parse(name, text)
    except errors.BadSchedule as error:
        return ScheduledPipeline(name=name, error=f"{name}.toml: {error}")


def _parse(name: str, text: str) -> ScheduledPipeline:
    if NAME.fullmatch(name) is None:
        raise errors.BadSchedule("a pipeline's name has letters, digits, _ and -")
    try:
        document = tomllib.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of thousands of digits is no TOML error
        raise errors.BadSchedule(str(error)) from None
    target = document.get("target")
    if not isinstance(target, str):
        raise errors.BadSchedule("target is missing, or is no text")
    texts = {key: document.get(key) for key in ("schedule", "after", "run_as")}
    for key, value in texts.items():
        if value is not None and not (isinstance(value, str) and value):
            raise errors.BadSchedule(f"{key} must be a text")
    schedule, after = texts["schedule"], texts["after"]
    if schedule is not None and after is not None:
        raise errors.BadSchedule("schedule and after exclude each other")
    if after == name:
        raise errors.BadSchedule("a pipeline cannot follow itself")
    return ScheduledPipeline(
        name=name,
        target=target,
        schedule=schedule or "",
        cron=None if schedule is None else cron.parse(schedule),
        after=after,
        run_as=texts["run_as"],
    )


def check_order(pipelines: Mapping[str, ScheduledPipeline]) -> dict[str, ScheduledPipeline]:
    """Return the pipelines, with an error for one that follows itself or an absent one."""
    checked = dict(pipelines)
    for name, pipeline in pipelines.items():
        seen, step = {name}, pipeline
        while step.after is not None and step.error is None:
            following = pipelines.get(step.after)
            if following is None:
                error = f"{name}.toml: after names {step.after!r}, and there is no such pipeline"
            elif following.name in seen:
                error = f"{name}.toml: after leads back to {following.name!r}"
            else:
                seen.add(following.name)
                step = following
                continue
            checked[name] = ScheduledPipeline(name=name, target=pipeline.target, error=error)
            break
    return checked


def due_at(
    pipeline: ScheduledPipeline,
    state: rows.PipelineRow,
    *,
    followed: rows.PipelineRow | None = None,
) -> int | None:
    """Return when a pipeline is due next, in Unix milliseconds, past or future; None for never.

    state: what is stored of it. followed: of the pipeline that it follows. A run that was asked for
    is due at once.
    """
    if pipeline.error is not None:
        return None
    if state.asked_at_ms is not None:
        return state.asked_at_ms
    if state.retry_at_ms is not None:
        return state.retry_at_ms
    if pipeline.cron is not None:
        return cron.next_after(pipeline.cron, state.handled_ms)
    if pipeline.after is not None and followed is not None:
        ended_ms = followed.succeeded_at_ms
        if ended_ms is not None and ended_ms > state.handled_ms:
            return ended_ms
    return None


def is_ahead(state: rows.PipelineRow, now_ms: int) -> bool:
    """Return whether a row was written while the clock was wrong, far ahead of now."""
    times_ms = (state.handled_ms, state.retry_at_ms or 0, state.asked_at_ms or 0)
    return max(times_ms) > now_ms + PAUSE_MS_MAX


def set_back(state: rows.PipelineRow, *, now_ms: int) -> rows.PipelineRow:
    """Return a row with no time after now."""

    def until_now(time_ms: int | None) -> int | None:
        return None if time_ms is None else min(time_ms, now_ms)

    return msgspec.structs.replace(
        state,
        handled_ms=min(state.handled_ms, now_ms),
        succeeded_at_ms=until_now(state.succeeded_at_ms),
        retry_at_ms=until_now(state.retry_at_ms),
        asked_at_ms=until_now(state.asked_at_ms),
    )


def pause_ms(crashes: int) -> int:
    """Return the pause after a number of runs in a row that ended without an answer."""
    assert crashes >= 1
    return int(min(PAUSE_MS * 2 ** min(crashes - 1, 30), PAUSE_MS_MAX))
