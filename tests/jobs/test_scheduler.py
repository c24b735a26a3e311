"""The scheduler: what is due runs once, in one child, through crashes, restarts and cancels."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jobs import credentials, errors, rows, runs, scheduler, schedules, workers
from server import config
from tests.jobs import scheduling
from tests.kit import lakes

HOUR_MS = 3_600_000
HOURLY = "0 * * * *"


def test_what_is_due_runs_one_after_the_other_in_one_child_which_ends_with_the_work(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("a", schedule=HOURLY)
    work.put("b", after="a")
    work.put("c")

    async def scenario() -> None:
        async with scheduling.begun(work):
            # The last one's row is the sign that all were seen: their times count from then on.
            await scheduling.until(lambda: rows.find_pipeline(lake.storage.index, "c"))
            assert (work.started, work.states()) == ([], [])  # nothing was due yet
            work.clock.now_ms += HOUR_MS
            await work.ended("b", 1)
            first, second = work.done()
            assert [first[1][:2], second[1][:2]] == [["run", "a"], ["run", "b"]]
            assert first[0] == second[0]  # one process
            await scheduling.until(lambda: not is_alive(first[0]))
            # Three missed hours are one run, in a new child.
            work.clock.now_ms += 3 * HOUR_MS
            await work.ended("b", 2)
            assert len(work.started) == 2

    asyncio.run(scenario())
    assert work.states("a") == work.states("b") == ["succeeded", "succeeded"]
    assert work.states("c") == []
    names = {variables["BOATHOUSE_TOKEN"] for variables in work.started}
    assert len(names) == 2


def test_a_run_that_fails_waits_for_its_schedule_and_starts_no_follower(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("fails", schedule=HOURLY)
    work.put("b", after="fails")
    work.put("last", schedule=HOURLY)

    async def scenario() -> None:
        async with scheduling.begun(work):
            await scheduling.until(lambda: rows.find_pipeline(lake.storage.index, "last"))
            work.clock.now_ms += HOUR_MS
            (run,) = await work.ended("fails", 1)
            assert (run.state, run.error) == ("failed", "check c returns 1 row")
            # What it did until then is kept beside the reason.
            assert json.loads(run.answer) == {"status": "failed", "steps": '[{"step": "read"}]'}
            await work.ended("last", 1)
            work.clock.now_ms += HOUR_MS
            await work.ended("last", 2)
            await work.ended("fails", 2)

    asyncio.run(scenario())
    assert work.states("b") == []


@pytest.mark.parametrize("name", ["dies", "garbles"])
def test_a_child_that_crashes_is_tried_again_after_longer_and_longer_pauses(
    lake: lakes.Lake, tmp_path: Path, name: str
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put(name)

    def row() -> rows.PipelineRow:
        stored = rows.find_pipeline(lake.storage.index, name)
        assert stored is not None
        return stored

    async def scenario() -> None:
        async with scheduling.begun(work):
            await work.scheduler.ask(name)
            for count in range(1, schedules.CRASHES_MAX + 1):
                ended = await work.ended(name, count)
                assert {run.state for run in ended} == {"interrupted"}
                retry_at_ms = work.clock() + schedules.PAUSE_MS * 2 ** (count - 1)
                assert (row().crashes, row().retry_at_ms) == (count, retry_at_ms)
                work.clock.now_ms = retry_at_ms
            await work.ended(name, schedules.CRASHES_MAX + 1)
            assert (row().crashes, row().retry_at_ms) == (0, None)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["floods", "closes"])
def test_a_child_that_closes_or_floods_its_output_blocks_no_other_job(
    lake: lakes.Lake, tmp_path: Path, name: str
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put(name)
    work.put("next")

    async def scenario() -> None:
        async with scheduling.begun(work):
            await work.scheduler.ask(name)
            (run,) = await work.ended(name, 1)
            assert run.state == "interrupted"
            await work.scheduler.ask("next")
            (run,) = await work.ended("next", 1)
            assert run.state == "succeeded"

    asyncio.run(scenario())


def test_a_job_that_never_ends_fails_and_the_next_one_runs(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path, job_s=0)
    work.put("stays")

    async def scenario() -> None:
        async with scheduling.begun(work):
            await work.scheduler.ask("stays")
            (run,) = await work.ended("stays", 1)
            assert (run.state, run.error) == ("failed", "the job did not end within 0.0 hours")
            await work.scheduler.ask("stays")
            await work.ended("stays", 2)

    asyncio.run(scenario())
    assert len(work.started) == 2


def test_a_child_whose_credentials_may_end_during_a_job_gets_none(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path)
    for name in ("a", "b", "c"):
        work.put(name)
    start = work.start_worker

    async def start_then_wait(variables: Mapping[str, str]) -> workers.Worker:
        worker = await start(variables)
        if len(work.started) == 1:
            work.clock.now_ms += scheduler.SPARE_MS
        return worker

    async def scenario() -> None:
        for name in ("a", "b", "c"):
            await work.scheduler.ask(name)
        work.scheduler.begin(start_then_wait)
        for name in ("a", "b", "c"):
            await work.ended(name, 1)
        await work.scheduler.stop()

    asyncio.run(scenario())
    first, second, third = [pid for pid, _ in work.done()]
    assert first != second == third
    longest_ms = credentials.JOB_SECONDS * 1000 + scheduler.SPARE_MS
    assert longest_ms <= credentials.LIFETIME_SECONDS * 1000


def test_a_kill_of_the_child_in_the_middle_of_a_job_is_tried_again(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("stays")

    async def scenario() -> None:
        async with scheduling.begun(work):
            await work.scheduler.ask("stays")
            await scheduling.until(work.done)
            os.kill(work.done()[0][0], signal.SIGKILL)
            (run,) = await work.ended("stays", 1)
            assert run.state == "interrupted"
            assert "by signal 9" in (run.error or "")
            work.clock.now_ms += schedules.PAUSE_MS
            await scheduling.until(lambda: len(work.done()) == 2)

    asyncio.run(scenario())


def test_the_end_of_the_server_ends_the_child_and_the_next_start_runs_the_job_again(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("stays")

    async def first() -> None:
        async with scheduling.begun(work):
            await work.scheduler.ask("stays")
            await scheduling.until(work.done)
            work.scheduler.begin_stop()  # as at SIGTERM
        assert not is_alive(work.done()[0][0])

    asyncio.run(first())
    (run,) = work.runs.latest(10)
    assert (run.state, run.error) == ("interrupted", "the server ended")

    async def second() -> None:
        again = scheduling.make(lake, tmp_path)
        async with scheduling.begun(again):
            await scheduling.until(lambda: len(again.done()) == 2)

    asyncio.run(second())


def test_a_run_that_a_killed_server_left_is_interrupted_and_due_again(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("a")

    async def scenario() -> None:
        await work.scheduler.ask("a")
        await work.runs.begin(
            task="pipeline", name="a", target="lake.s.a", by=lakes.BY, by_server=True
        )
        async with scheduling.begun(work):
            await scheduling.until(lambda: work.states("a")[0] == "interrupted")
            work.clock.now_ms += schedules.PAUSE_MS
            await work.ended("a", 2)

    asyncio.run(scenario())
    assert work.states("a") == ["interrupted", "succeeded"]


def test_a_cancelled_run_ends_and_is_not_tried_again(lake: lakes.Lake, tmp_path: Path) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("stays")
    work.put("next")

    async def scenario() -> None:
        async with scheduling.begun(work):
            await work.scheduler.ask("stays")
            await scheduling.until(work.done)
            (run,) = work.runs.latest(10)
            await scheduling.until(lambda: work.runs.latest(1)[0].progress == "at work")
            await work.scheduler.cancel(run)
            (run,) = await work.ended("stays", 1)
            assert (run.state, run.is_cancelled) == ("cancelled", True)
            with pytest.raises(errors.NotRunning):
                await work.scheduler.cancel(run)
            await work.scheduler.ask("next")
            await work.ended("next", 1)

    asyncio.run(scenario())
    stored = rows.find_pipeline(lake.storage.index, "stays")
    assert stored is not None
    assert (stored.retry_at_ms, stored.crashes) == (None, 0)


def test_a_pipeline_that_a_client_runs_is_not_run_beside_it(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("a", schedule=HOURLY)
    work.put("b", schedule=HOURLY)

    async def scenario() -> None:
        async with scheduling.begun(work):
            await scheduling.until(lambda: rows.find_pipeline(lake.storage.index, "b"))
            own = await work.runs.begin(
                task="pipeline", name="a", target="lake.s.a", by=lakes.BY, by_server=False
            )
            work.clock.now_ms += runs.LEASE_MS - 1
            await work.runs.prolong(own, "half")
            with pytest.raises(errors.AlreadyRunning, match="is running already"):
                await work.scheduler.ask("a")
            assert work.runs.is_held("pipeline", "a", "lake.s.a")
            # The client is gone without a word: the run is over, and the pipeline is free.
            work.clock.now_ms += runs.LEASE_MS
            await work.scheduler.ask("a")
            await work.ended("a", 2)
            with pytest.raises(errors.NotRunning):
                await work.runs.prolong(own, "still here")

    asyncio.run(scenario())
    assert work.states("a") == ["interrupted", "succeeded"]


@pytest.mark.parametrize(
    ("target", "state", "count"),
    [("lake.s.a", "succeeded", 1), ("lake.s.a", "nothing", 1), ("lake.s.a", "failed", 0),
     ("lake.s.other", "succeeded", 0)],
)  # fmt: skip
def test_a_success_by_hand_starts_the_followers_if_it_is_of_the_pipelines_table(
    lake: lakes.Lake, tmp_path: Path, target: str, state: rows.State, count: int
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("a")
    work.put("b", after="a")
    work.put("last")

    async def scenario() -> None:
        async with scheduling.begun(work):
            await scheduling.until(lambda: rows.find_pipeline(lake.storage.index, "last"))
            work.clock.now_ms += 1
            own = await work.runs.begin(
                task="pipeline", name="a", target=target, by=lakes.BY, by_server=False
            )
            await work.scheduler.end(own, state, error=None, answer="", may_ask=True)
            if count:
                await work.ended("b", count)
            await work.scheduler.ask("last")
            await work.ended("last", 1)

    asyncio.run(scenario())
    assert work.states("b") == ["succeeded"] * count


@pytest.mark.parametrize(
    ("by", "run_as", "count"),
    [("ana", "ana", 1), ("bo", "ana", 0), ("bo", None, 0), ("no", "no", 0)],
)
def test_a_success_of_a_client_that_cannot_start_the_pipeline_starts_no_followers(
    lake: lakes.Lake, tmp_path: Path, by: str, run_as: str | None, count: int
) -> None:
    users = tuple(
        config.User(name=name, access_key=f"AK{name}", secret_key="s") for name in ("ana", "bo")
    )
    work = scheduling.make(lake, tmp_path, users=users)
    work.put("a", **({} if run_as is None else {"run_as": run_as}))
    work.put("b", after="a")
    work.put("last")

    async def scenario() -> None:
        async with scheduling.begun(work):
            await scheduling.until(lambda: rows.find_pipeline(lake.storage.index, "last"))
            work.clock.now_ms += 1
            arn = f"arn:aws:iam::{lakes.ACCOUNT}:user/{by}"
            own = await work.runs.begin(
                task="pipeline", name="a", target="lake.s.a", by=arn, by_server=False
            )
            await work.scheduler.end(own, "succeeded", error=None, answer="", may_ask=False)
            if count:
                await work.ended("b", count)
            await work.scheduler.ask("last")
            await work.ended("last", 1)

    asyncio.run(scenario())
    assert work.states("a") == ["succeeded"]
    assert work.states("b") == ["succeeded"] * count


def test_jobs_of_another_owner_get_another_child_with_that_owners_rights(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    users = tuple(
        config.User(name=name, access_key=f"AK{name}", secret_key="s") for name in ("ana", "bo")
    )
    work = scheduling.make(lake, tmp_path, users=users)
    work.put("a", run_as="ana")
    work.put("b", run_as="bo")
    work.put("c", run_as="none")

    async def scenario() -> None:
        async with scheduling.begun(work):
            for name in "abc":
                await work.scheduler.ask(name)
            for name in "abc":
                await work.ended(name, 1)

    asyncio.run(scenario())
    by = {run.name: run.by for run in work.runs.latest(10)}
    assert by["a"].endswith(":user/ana")
    assert by["b"].endswith(":user/bo")
    assert len({pid for pid, _ in work.done()}) == 2
    (refused,) = [run for run in work.runs.latest(10) if run.name == "c"]
    assert (refused.state, refused.error) == (
        "failed", "run_as names 'none', and there is no such user"
    )  # fmt: skip


def test_a_changed_file_counts_from_its_change_and_a_broken_one_stops_nothing(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("a", schedule="0 0 1 1 *")
    work.put("b", schedule=HOURLY)
    (work.folder / "broken.toml").write_text("target = ")

    async def scenario() -> None:
        async with scheduling.begun(work):
            await scheduling.until(lambda: rows.find_pipeline(lake.storage.index, "b"))
            work.clock.now_ms += HOUR_MS
            await work.ended("b", 1)
            work.put("a", schedule=HOURLY)

            def is_read() -> bool:
                stored = rows.find_pipeline(lake.storage.index, "a")
                return stored is not None and stored.rule == HOURLY

            await scheduling.until(is_read)
            assert work.states("a") == []
            work.clock.now_ms += HOUR_MS
            await work.ended("a", 1)
            statuses = {each.pipeline.name: each for each in await work.scheduler.pipelines()}
            assert "broken.toml" in (statuses["broken"].pipeline.error or "")
            with pytest.raises(errors.BadSchedule, match=r"broken\.toml"):
                await work.scheduler.ask("broken")
            with pytest.raises(errors.NoSuchPipeline):
                await work.scheduler.ask("absent")

    asyncio.run(scenario())


def test_a_clock_that_was_years_ahead_keeps_no_pipeline_from_running(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("a", schedule=HOURLY)
    years_ms = 20_000 * HOUR_MS

    async def scenario() -> None:
        async with scheduling.begun(work):
            work.clock.now_ms += years_ms
            await work.scheduler.ask("a")
            await work.ended("a", 1)

            def is_set_back() -> bool:
                stored = rows.find_pipeline(lake.storage.index, "a")
                return stored is not None and stored.handled_ms <= work.clock.now_ms

            work.clock.now_ms -= years_ms
            await scheduling.until(is_set_back)
            work.clock.now_ms += HOUR_MS
            await work.ended("a", 2)

    asyncio.run(scenario())


def test_a_file_that_is_broken_for_a_moment_loses_nothing_that_is_due(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("a", schedule=HOURLY)
    work.put("b", schedule=HOURLY)

    async def scenario() -> None:
        async with scheduling.begun(work):
            await scheduling.until(lambda: rows.find_pipeline(lake.storage.index, "b"))
            (work.folder / "a.toml").write_text("target = ")
            work.clock.now_ms += HOUR_MS
            await work.ended("b", 1)
            work.put("a", schedule=HOURLY)
            await work.ended("a", 1)

    asyncio.run(scenario())


def test_a_fault_of_the_scheduler_itself_ends_no_scheduler(
    lake: lakes.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = scheduling.make(lake, tmp_path)
    work.put("a")
    end = work.runs.end

    async def fail(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(work.runs, "end", end)
        raise RuntimeError("planted")

    monkeypatch.setattr(work.runs, "end", fail)

    async def scenario() -> None:
        async with scheduling.begun(work):
            await work.scheduler.ask("a")
            await work.ended("a", 1)
            work.clock.now_ms += schedules.PAUSE_MS
            await work.ended("a", 2)

    asyncio.run(scenario())
    assert work.states("a") == ["interrupted", "succeeded"]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
