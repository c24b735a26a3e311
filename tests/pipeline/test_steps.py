"""The steps of a load: announced, timed, and kept with what they counted."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from urllib3 import connectionpool

from pipeline import inspection, progress, reading, steps
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


def test_the_steps_of_a_load_have_all_but_a_tenth_of_its_requests(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request to the server takes a second of a clock that otherwise stands."""
    clock = [0.0]
    urlopen = connectionpool.HTTPConnectionPool.urlopen

    def counted(*arguments: Any, **options: Any) -> Any:
        clock[0] += 1.0
        return urlopen(*arguments, **options)

    monkeypatch.setattr(connectionpool.HTTPConnectionPool, "urlopen", counted)
    monkeypatch.setattr(steps, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    for number, table in enumerate(("clocked.new", "clocked.live", "clocked.live")):
        raw.put(f"in/{number}.csv", "id\n1\n2\n")
        clock[0] = 0.0
        done = small.ingest(raw, table, mode="replace" if number == 2 else "append")
        assert clock[0] > 5
        assert sum(step.seconds for step in done.steps) >= 0.9 * clock[0]


def test_the_bytes_of_a_file_are_counted_while_it_is_read(
    small: Small, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "id,name\n" + "".join(f"{number},some name\n" for number in range(20_000))
    packed = gzip.compress(content.encode())
    raw.put("in/1.csv", content)
    raw.put("in/2.csv.gz", packed)
    seen: list[progress.JobCounters] = []
    watched: list[tuple[str, int | None]] = []
    latest: list[Callable[[], progress.JobCounters]] = []

    @contextlib.contextmanager
    def watching(
        label: str, counters: Callable[[], progress.JobCounters], **totals: int | None
    ) -> Iterator[None]:
        watched.append((label, totals.get("total_bytes")))
        latest.append(counters)
        yield
        seen.append(counters())

    is_blank = inspection.is_blank
    during: list[int] = []

    def looking(row: Sequence[str], reader: reading.SourceReader) -> bool:
        during.append(latest[-1]().read_bytes or 0)
        return is_blank(row, reader)

    monkeypatch.setattr(progress, "watching", watching)
    monkeypatch.setattr(inspection, "is_blank", looking)
    small.ingest(raw, "counting.t")
    size_bytes = len(content) + len(packed)
    assert watched == [
        ("reading 2 objects", size_bytes),
        ("inferring types", None),
        ("writing", None),
    ]
    assert (seen[0].done, seen[0].total, seen[0].read_bytes) == (2, 2, size_bytes)
    assert (seen[1].done, seen[1].total, seen[1].noun) == (2, 2, "columns")
    assert during == sorted(during)
    # A part of at most 64 KiB at a time, of either file.
    steps_of_bytes = {one - other for other, one in itertools.pairwise(during)}
    assert max(steps_of_bytes) <= 64 * 1024
    assert len(set(during)) > size_bytes / (64 * 1024)


def test_a_small_load_says_its_bytes_and_its_steps(small: Small, raw: Raw) -> None:
    raw.put("in/1.csv", "id\n1\n2\n")
    raw.put("in/2.csv", "id\n3\n")
    done = small.ingest(raw, "stepped.t")
    counted = [(step.name, step.rows, step.size_bytes) for step in done.steps]
    assert counted == [
        ("list sources", None, 12),
        ("open table", None, None),
        ("read", 3, 12),
        ("inspect", None, None),
        ("write", 3, done.bytes_written),
        ("commit", None, None),
    ]
    (file,) = small.catalog.load_table("stepped.t").scan().plan_files()
    assert (done.bytes_read, done.bytes_written) == (12, file.file.file_size_in_bytes)
    again = small.ingest(raw, "stepped.t")
    assert (again.bytes_read, again.bytes_written, again.steps) == (0, 0, ())
