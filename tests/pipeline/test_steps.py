"""The steps of a load: announced, timed, and kept with what they counted."""

from __future__ import annotations

import pytest

from pipeline import steps
from tests.pipeline.lake import Raw, Small


def test_a_step_is_announced_and_kept_with_what_it_counted() -> None:
    said: list[str] = []
    taken = steps.Steps(said.append)
    with taken.taking("transform clean", announced="planning transform clean"):
        assert said == ["planning transform clean"]
    with taken.taking("write") as counts:
        counts.rows, counts.size_bytes = 3, 1_000
    assert said == ["planning transform clean"]
    first, second = taken.done
    assert (first.name, first.rows, first.size_bytes) == ("transform clean", None, None)
    assert (second.name, second.rows, second.size_bytes) == ("write", 3, 1_000)
    assert [step.has_failed for step in taken.done] == [False, False]
    assert first.seconds >= 0


def test_a_step_that_fails_is_kept_as_failed() -> None:
    taken = steps.Steps(lambda line: None)
    with pytest.raises(KeyError), taken.taking("commit"):
        raise KeyError
    assert [(step.name, step.has_failed) for step in taken.done] == [("commit", True)]


def test_a_small_load_says_its_bytes_and_its_steps(small: Small, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n2\n")
    raw.put("in/2.csv", "id\n3\n")
    done = small.ingest(raw, "stepped.t")
    counted = [(step.name, step.rows, step.size_bytes) for step in done.steps]
    assert counted == [
        ("list sources", None, 12),
        ("read", 3, 12),
        ("write", 3, done.bytes_written),
        ("commit", None, None),
    ]
    (file,) = small.catalog.load_table("stepped.t").scan().plan_files()
    assert (done.bytes_read, done.bytes_written) == (12, file.file.file_size_in_bytes)
    again = small.ingest(raw, "stepped.t")
    assert (again.bytes_read, again.bytes_written, again.steps) == (0, 0, ())
