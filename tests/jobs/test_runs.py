"""The list of runs: one run of a job at a time, the latest thousand kept."""

from __future__ import annotations

import asyncio
import json

import pytest

from catalog import records
from jobs import errors, rows, runs
from storage import batch
from tests.kit import lakes


def runs_of(lake: lakes.Lake) -> runs.Runs:
    return runs.Runs(index=lake.storage.index, now_ms=lake.clock, new_id=lake.store.new_id)


def begin(kept: runs.Runs, name: str = "p", *, by_server: bool = False) -> rows.RunRow:
    return asyncio.run(
        kept.begin(task="pipeline", name=name, target="lake.s.t", by=lakes.BY, by_server=by_server)
    )


def test_two_runs_of_one_pipeline_cannot_begin_at_once(lake: lakes.Lake) -> None:
    kept = runs_of(lake)

    async def both() -> list[rows.RunRow | BaseException]:
        beginnings = [
            kept.begin(
                task="pipeline", name="p", target="lake.s.t", by=lakes.BY, by_server=by_server
            )
            for by_server in (True, False)
        ]
        return await asyncio.gather(*beginnings, return_exceptions=True)

    first, second = asyncio.run(both())
    assert isinstance(first, rows.RunRow)
    assert isinstance(second, errors.AlreadyRunning)
    begin(kept, "another")


def test_a_run_that_ended_stays_ended(lake: lakes.Lake) -> None:
    kept = runs_of(lake)
    run = begin(kept)
    asyncio.run(kept.end(run, "succeeded", answer='{"rows": 2}'))
    assert [each.state for each in kept.latest(10)] == ["succeeded"]
    for again in (kept.end(run, "failed"), kept.cancel(run), kept.prolong(run, "")):
        with pytest.raises(errors.NotRunning):
            asyncio.run(again)
    begin(kept)


def test_a_client_whose_run_is_cancelled_learns_it_when_it_prolongs_the_run(
    lake: lakes.Lake,
) -> None:
    kept = runs_of(lake)
    run = begin(kept)
    assert not asyncio.run(kept.prolong(run, "half")).is_cancelled
    asyncio.run(kept.cancel(run))
    prolonged = asyncio.run(kept.prolong(run, "more"))
    assert (prolonged.is_cancelled, prolonged.progress) == (True, "more")


def test_the_runs_before_one_without_a_result_end_at_the_last_with_one(lake: lakes.Lake) -> None:
    kept = runs_of(lake)
    states: tuple[rows.State, ...] = ("failed", "nothing", "interrupted", "cancelled")
    run_ids = []
    for state in states:
        lake.clock.now_ms += 1
        run = begin(kept)
        asyncio.run(kept.end(run, state, error=f"it was {state}"))
        asyncio.run(kept.end(begin(kept, "another"), "failed"))
        run_ids.append(run.run_id)
    lake.clock.now_ms += 1
    own = begin(kept)
    assert [(each["run_id"], each["error"]) for each in kept.without_result(own)] == [
        (run_ids[3], "it was cancelled"), (run_ids[2], "it was interrupted")
    ]  # fmt: skip
    assert [run.run_id for run in kept.of_pipeline("p", 2, state="failed")] == run_ids[:1]


def test_the_oldest_runs_are_removed_beyond_a_thousand(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "RUNS_MAX", 3)
    kept = runs_of(lake)
    for number in range(5):
        lake.clock.now_ms += 1
        begin(kept, f"p{number}")
    assert [run.name for run in kept.latest(10)] == ["p4", "p3", "p2"]
    with pytest.raises(errors.NoSuchRun):
        kept.find("0" * 32)


def test_runs_of_clients_remove_no_run_of_the_server_and_leave_no_locks(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "RUNS_MAX", 3)
    kept = runs_of(lake)
    own = begin(kept, "own", by_server=True)
    for number in range(9):
        lake.clock.now_ms += 1
        begin(kept, f"p{number}")
    assert [run.name for run in kept.latest(10)] == ["p8", "p7", "own"]
    assert asyncio.run(kept.end(own, "succeeded")).state == "succeeded"
    with lake.storage.index.view() as view:
        prefix = rows.lock_key("pipeline", "", "")[:5]
        locks = [key for key, _ in view.scan(batch.Store.JOBS, prefix, records.stop_after(prefix))]
    assert len(locks) == 3
    begin(kept, "own")


def test_loads_and_maintenance_of_clients_exclude_no_other_run(lake: lakes.Lake) -> None:
    kept = runs_of(lake)

    async def begin_all() -> list[rows.RunRow]:
        begun = [
            await kept.begin(
                task=task, name="lake.s.t", target="lake.s.t", by=lakes.BY, by_server=False,
                is_alone=False,
            )
            for task in ("ingest", "ingest", "compaction")
        ]  # fmt: skip
        server = await kept.begin(
            task="compaction", name="lake.s.t", target="lake.s.t", by=lakes.BY, by_server=True
        )
        return [*begun, server]

    begun = asyncio.run(begin_all())
    assert {run.run_id for run in kept.latest(10)} == {run.run_id for run in begun}
    lake.clock.now_ms += runs.LEASE_MS
    lost = [run for run in kept.latest(10) if run.state == "interrupted"]
    assert {run.run_id for run in lost} == {run.run_id for run in begun[:3]}
    assert {run.error for run in lost} == {"lost: the process that ran it ended without an answer"}
    with pytest.raises(errors.NotRunning):
        asyncio.run(kept.prolong(begun[0], "still here"))


def test_a_client_holds_a_pipeline_for_a_day_at_most_however_often_it_prolongs_its_run(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs.HELD_MS_MAX == 24 * 60 * 60 * 1000
    held_ms_max = 5 * runs.LEASE_MS
    monkeypatch.setattr(runs, "HELD_MS_MAX", held_ms_max)
    kept = runs_of(lake)
    held = begin(kept)
    while lake.clock.now_ms < held.started_at_ms + held_ms_max - 45_000:
        lake.clock.now_ms += 45_000
        held = asyncio.run(kept.prolong(held, "still here"))
    with pytest.raises(errors.AlreadyRunning):
        begin(kept)
    lake.clock.now_ms = held.started_at_ms + held_ms_max
    assert not kept.is_held("pipeline", "p", "lake.s.t")
    second = begin(kept)
    # The first one goes on, and ends as its client says: it is not lost.
    assert asyncio.run(kept.prolong(held, "nearly done")).progress == "nearly done"
    assert [kept.find(run.run_id).state for run in (held, second)] == ["running", "running"]
    with pytest.raises(errors.AlreadyRunning, match=second.run_id):
        begin(kept)
    asyncio.run(kept.end(held, "succeeded", answer='{"rows": 2}'))
    assert (kept.find(held.run_id).state, kept.find(held.run_id).error) == ("succeeded", None)
    assert kept.is_held("pipeline", "p", "lake.s.t")


def test_a_run_by_hand_of_more_than_a_day_is_lost_once_its_client_is_silent(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "HELD_MS_MAX", runs.LEASE_MS)
    kept = runs_of(lake)
    held = begin(kept)
    lake.clock.now_ms += runs.LEASE_MS - 1
    asyncio.run(kept.prolong(held, "still here"))
    lake.clock.now_ms += 1
    begin(kept)
    assert kept.find(held.run_id).state == "running"
    lake.clock.now_ms += runs.LEASE_MS
    lost = kept.find(held.run_id)
    assert (lost.state, lost.error) == (
        "interrupted", "lost: the process that ran it ended without an answer"
    )  # fmt: skip


def test_a_run_that_is_lost_after_runs_beside_it_had_results_is_named_to_the_next(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "HELD_MS_MAX", runs.LEASE_MS)
    kept = runs_of(lake)
    held = begin(kept)
    lake.clock.now_ms += runs.LEASE_MS - 1
    asyncio.run(kept.prolong(held, "still here"))
    for _ in range(2):
        lake.clock.now_ms += 1
        beside = begin(kept)
        asyncio.run(kept.end(beside, "succeeded"))
    assert kept.without_result(beside) == []  # it goes on
    lake.clock.now_ms += runs.LEASE_MS
    after = begin(kept)
    (lost,) = kept.without_result(after)
    assert (lost["run_id"], lost["state"]) == (held.run_id, "interrupted")
    asyncio.run(kept.end(after, "succeeded"))
    lake.clock.now_ms += 1
    assert kept.without_result(begin(kept)) == []  # that one has written its row


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_run_that_is_lost_is_named_with_all_beside_and_after_it_that_have_no_row(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch, state: rows.State
) -> None:
    monkeypatch.setattr(runs, "HELD_MS_MAX", runs.LEASE_MS)
    kept = runs_of(lake)
    held = begin(kept)
    lake.clock.now_ms += runs.LEASE_MS - 1
    asyncio.run(kept.prolong(held, "still here"))
    without = [held.run_id]
    for number in range(40):
        lake.clock.now_ms += runs.LEASE_MS // 20
        run = begin(kept)
        has_row = number % 4 == 0
        answer = json.dumps({"rows": 0, "has_row": True} if has_row else {"rows": 0})
        asyncio.run(kept.end(run, state, answer=answer))
        without += [] if has_row else [run.run_id]
    assert [each["run_id"] for each in kept.without_result(begin(kept))][::-1] == without


def test_expiries_of_many_tables_leave_room_for_other_runs(
    lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "EXPIRIES_MAX", 3)
    monkeypatch.setattr(runs, "EXPIRIES_TRIMMED", 1)
    decoded: list[bytes] = []

    def decode(value: bytes, struct: type[rows.RunRow]) -> rows.RunRow:
        decoded.append(value)
        return records_decode(value, struct)

    records_decode = records.decode
    kept = runs_of(lake)
    first = begin(kept)
    monkeypatch.setattr(records, "decode", decode)

    async def expire(*numbers: int) -> None:
        for number in numbers:
            lake.clock.now_ms += 1
            await kept.record_expiry(
                name=f"t{number}", target=f"lake.s.t{number}", by=lakes.BY,
                started_at_ms=lake.clock(), error="", answer='{"expired_snapshots": 1}',
            )  # fmt: skip

    def names() -> list[str]:
        return [run.name for run in kept.latest(10)]

    asyncio.run(expire(0, 1, 2))
    assert len(decoded) == 1  # that of the first run: the rows are read once
    assert names() == ["t2", "t1", "t0", first.name]
    # At the bound one more goes than is needed, and the next expiry has room.
    asyncio.run(expire(3))
    assert names() == ["t3", "t2", first.name]
    decoded.clear()
    asyncio.run(expire(4))
    assert decoded == []
    assert names() == ["t4", "t3", "t2", first.name]
    # After a restart they are counted anew.
    kept = runs_of(lake)
    asyncio.run(expire(5))
    assert names() == ["t5", "t4", first.name]
    assert {run.state for run in kept.latest(2)} == {"succeeded"}


def test_a_run_of_the_same_name_into_another_table_keeps_no_pipeline_from_running(
    lake: lakes.Lake,
) -> None:
    kept = runs_of(lake)
    asyncio.run(
        kept.begin(task="pipeline", name="p", target="lake.own.t", by=lakes.BY, by_server=False)
    )
    assert not kept.is_held("pipeline", "p", "lake.s.t")
    begin(kept, by_server=True)
