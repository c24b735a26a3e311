"""What a long job shows while it runs."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from pipeline import progress

SEEN = progress.JobCounters(rows=1_234_567, done=3, total=8)
LIMIT_SECONDS = 30


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def flush(self) -> None:
        self.drawn.set()


class StandingClock:
    """The module `time`, at a moment that does not pass."""

    @staticmethod
    def monotonic() -> float:
        return 1000.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(progress, "time", StandingClock)


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (336776, "336,776 files")]
)
def test_counted_puts_a_number_of_things_in_words(number: int, said: str) -> None:
    assert progress.counted(number, "file") == said


def test_watching_redraws_one_line_on_a_terminal_and_wipes_it() -> None:
    screen = Screen(terminal=True)
    with progress.watching("writing", lambda: SEEN, stream=screen):
        assert screen.drawn.wait(LIMIT_SECONDS)
    drawn = screen.getvalue()
    assert drawn.startswith("\r\x1b[Kpipeline: writing: 1,234,567 rows, 3/8 tasks, 0 s")
    assert drawn.endswith("\r\x1b[K")
    assert "\n" not in drawn


def test_watching_adds_lines_where_no_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.0)
    screen = Screen(terminal=False)
    with progress.watching("writing", lambda: SEEN, stream=screen):
        assert screen.drawn.wait(LIMIT_SECONDS)
    lines = screen.getvalue().splitlines()
    assert set(lines) == {"pipeline: writing: 1,234,567 rows, 3/8 tasks, 0 s"}


@pytest.mark.parametrize(
    ("size_bytes", "said"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (2_500, "2.5 kB"), (31_000_000, "31.0 MB"),
     (1_234_000_000, "1.2 GB"), (5_600_000_000_000, "5,600.0 GB")],
)  # fmt: skip
def test_sized_puts_bytes_in_words(size_bytes: int, said: str) -> None:
    assert progress.sized(size_bytes) == said


@pytest.mark.parametrize(
    ("counts", "totals", "said"),
    [
        # 30 of 120 MB in 10 s: 3 MB/s, and three times as long again.
        ({"read_bytes": 30_000_000}, {"total_bytes": 120_000_000},
         "1,000 rows, 3/8 tasks, 30.0 MB of 120.0 MB, 3.0 MB/s, 30 s left, 10 s"),
        ({"read_bytes": 0}, {"total_bytes": 120_000_000},
         "1,000 rows, 3/8 tasks, 0 bytes of 120.0 MB, 10 s"),
        # More than the whole: something else was read too, or some of it twice.
        ({"read_bytes": 150_000_000}, {"total_bytes": 120_000_000},
         "1,000 rows, 3/8 tasks, 150.0 MB read, 15.0 MB/s, 10 s"),
        ({"read_bytes": 5_000}, {}, "1,000 rows, 3/8 tasks, 5.0 kB read, 500 bytes/s, 10 s"),
        ({}, {}, "1,000 rows, 3/8 tasks, 10 s"),
        # 1,000 of 5,000 rows in 10 s: four times as long again.
        ({"read_bytes": 5_000}, {"total_rows": 5_000},
         "1,000 of 5,000 rows, 3/8 tasks, 5.0 kB read, 500 bytes/s, 40 s left, 10 s"),
        ({"read_bytes": 5_000}, {"total_rows": 999},
         "1,000 rows, 3/8 tasks, 5.0 kB read, 500 bytes/s, 10 s"),
        ({}, {"total_rows": 1_000}, "1,000 of 1,000 rows, 3/8 tasks, 10 s"),
        ({"rows": 0}, {"total_rows": 1_000}, "0 of 1,000 rows, 3/8 tasks, 10 s"),
        ({"rows": None, "noun": "objects", "read_bytes": 1_000}, {"total_bytes": 2_000},
         "3/8 objects, 1.0 kB of 2.0 kB, 100 bytes/s, 10 s left, 10 s"),
    ],
)  # fmt: skip
def test_what_is_shown_has_bytes_rate_and_the_time_left(
    counts: dict[str, Any], totals: dict[str, int], said: str
) -> None:
    counters = progress.JobCounters(**{"rows": 1_000, "done": 3, "total": 8, **counts})
    whole = {"total_bytes": None, "total_rows": None, **totals}
    assert progress._shown(counters, seconds=10.0, **whole) == said


def test_watching_says_nothing_of_a_short_job() -> None:
    screen = Screen(terminal=False)
    with progress.watching("writing", lambda: SEEN, stream=screen):
        pass
    assert screen.getvalue() == ""


def test_watching_outlives_counters_that_fail_and_says_why_nothing_is_shown() -> None:
    polled = threading.Event()

    def counters() -> progress.JobCounters:
        polled.set()
        raise RuntimeError("the JVM went away")

    screen = Screen(terminal=True)
    with progress.watching("writing", counters, stream=screen):
        assert polled.wait(LIMIT_SECONDS)
    assert screen.getvalue() == (
        "\r\x1b[Kpipeline: writing: progress cannot be shown: the JVM went away\n\r\x1b[K"
    )


def test_a_block_ends_though_its_counters_never_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(progress, "END_SECONDS", 0.05)
    polled, answer = threading.Event(), threading.Event()

    def counters() -> progress.JobCounters:
        polled.set()
        assert answer.wait(LIMIT_SECONDS)
        return progress.JobCounters(rows=1, done=1, total=1)

    screen = Screen(terminal=True)
    with progress.watching("writing", counters, stream=screen):
        assert polled.wait(LIMIT_SECONDS)
    answer.set()
    assert screen.getvalue() == "\r\x1b[K"


def test_speaker_prints_whole_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    say = progress.speaker()
    say("one")
    say("two")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "pipeline: one\npipeline: two\n")
