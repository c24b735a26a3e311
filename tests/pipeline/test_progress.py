"""What a long job shows while it runs."""

from __future__ import annotations

import io
import threading

import pytest

from pipeline import progress

SEEN = progress.SparkCounters(rows=1_234_567, tasks_done=3, tasks=8)
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


def test_watching_says_nothing_of_a_short_job() -> None:
    screen = Screen(terminal=False)
    with progress.watching("writing", lambda: SEEN, stream=screen):
        pass
    assert screen.getvalue() == ""


def test_watching_outlives_counters_that_fail_and_says_why_nothing_is_shown() -> None:
    polled = threading.Event()

    def counters() -> progress.SparkCounters:
        polled.set()
        raise RuntimeError("the JVM went away")

    screen = Screen(terminal=True)
    with progress.watching("writing", counters, stream=screen):
        assert polled.wait(LIMIT_SECONDS)
    assert screen.getvalue() == (
        "\r\x1b[Kpipeline: writing: progress cannot be shown: the JVM went away\n\r\x1b[K"
    )


def test_speaker_prints_whole_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    say = progress.speaker()
    say("one")
    say("two")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "pipeline: one\npipeline: two\n")
