"""When a pipeline is due, from its file and its stored row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import rows, schedules

HOUR_MS = 3_600_000
NIGHT = "0 2 * * *"


def pipeline(name: str = "p", /, **keys: str) -> schedules.ScheduledPipeline:
    lines = "".join(f'{key} = "{value}"\n' for key, value in keys.items())
    return schedules.read(name, f'target = "lake.s.t"\n{lines}')


def row(**changes: object) -> rows.PipelineRow:
    values: dict[str, object] = {"rule": NIGHT, "handled_ms": 0, **changes}
    return rows.PipelineRow(**values)  # type: ignore[arg-type] # what the test changes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("target = 1", "target is missing, or is no text"),
        ("= 1", "p.toml: "),
        ('target = "lake.s.t"\nschedule = "x"', "five fields"),
        ('target = "lake.s.t"\nschedule = 5', "schedule must be a text"),
        ('target = "lake.s.t"\nschedule = "@daily"\nafter = "q"', "exclude each other"),
        ('target = "lake.s.t"\nafter = "p"', "cannot follow itself"),
        ('target = "lake.s.t"\nrun_as = ""', "run_as must be a text"),
        ("a = " + "[" * 5000, "p.toml: "),
        ("a = " + "1" * 5000, "p.toml: "),
        ('target = "lake.s.t"\nschedule = "000599 * * * *"', "is not a number of 0 to 59"),
        ('target = "lake.s.t"\nschedule = "' + "0" * 5000 + ' * * * *"', "is not a number"),
    ],
)
def test_a_broken_file_is_a_pipeline_with_its_error(text: str, words: str) -> None:
    read = schedules.read("p", text)
    assert words in (read.error or "")
    assert schedules.due_at(read, row(asked_at_ms=1)) is None


def test_a_file_whose_name_is_no_pipelines_has_an_error() -> None:
    assert schedules.read("-p", 'target = "lake.s.t"').error is not None


def test_a_pipeline_without_a_schedule_is_due_only_when_it_is_asked_for() -> None:
    assert schedules.due_at(pipeline(), row()) is None
    assert schedules.due_at(pipeline(), row(asked_at_ms=7)) == 7


def test_a_schedule_that_was_missed_often_is_due_once() -> None:
    nightly = pipeline(schedule=NIGHT)
    assert schedules.due_at(nightly, row()) == 2 * HOUR_MS
    after_days = row(handled_ms=100 * 24 * HOUR_MS)
    assert schedules.due_at(nightly, after_days) == (100 * 24 + 2) * HOUR_MS


def test_a_pipeline_follows_each_success_of_another_once() -> None:
    follower = pipeline(after="q")
    assert schedules.due_at(follower, row(), followed=None) is None
    assert schedules.due_at(follower, row(), followed=row()) is None
    followed = row(succeeded_at_ms=50)
    assert schedules.due_at(follower, row(handled_ms=49), followed=followed) == 50
    assert schedules.due_at(follower, row(handled_ms=50), followed=followed) is None


def test_pipelines_that_follow_each_other_in_a_circle_or_an_absent_one_have_errors() -> None:
    checked = schedules.check_order(
        {
            "a": pipeline("a", after="b"),
            "b": pipeline("b", after="a"),
            "c": pipeline("c", after="a"),
            "d": pipeline("d", after="none"),
            "e": pipeline("e", schedule=NIGHT),
            "f": pipeline("f", after="e"),
        }
    )
    assert {name for name, each in checked.items() if each.error} == {"a", "b", "c", "d"}
    assert "there is no such pipeline" in (checked["d"].error or "")


@given(st.integers(1, 10_000))
def test_a_pause_never_shrinks_and_is_bounded(crashes: int) -> None:
    pause, longer = schedules.pause_ms(crashes), schedules.pause_ms(crashes + 1)
    assert 30_000 <= pause <= longer <= HOUR_MS
    assert longer == min(2 * pause, HOUR_MS)
