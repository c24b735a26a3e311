"""Schedules in cron's form: which minutes they name, and which comes next."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import cron, errors
from tests.kit import examples

UTC = datetime.UTC


def ms(*parts: int) -> int:
    return int(datetime.datetime(*parts, tzinfo=UTC).timestamp()) * 1000  # type: ignore[arg-type, misc] # parts of a time


@pytest.mark.parametrize(
    ("text", "after", "due"),
    [
        ("30 2 * * *", (2026, 1, 31, 2, 29), (2026, 1, 31, 2, 30)),
        ("30 2 * * *", (2026, 1, 31, 2, 30), (2026, 2, 1, 2, 30)),
        ("*/15 * * * *", (2026, 1, 1, 0, 46), (2026, 1, 1, 1, 0)),
        ("0 0 29 2 *", (2026, 3, 1), (2028, 2, 29)),
        ("0 12 * * 7", (2026, 11, 23), (2026, 11, 29, 12)),
        ("0 12 * * sun", (2026, 11, 23), (2026, 11, 29, 12)),
        ("5-10/5 1,3 1 jan-mar *", (2026, 1, 1, 1, 5), (2026, 1, 1, 1, 10)),
        # Both days are restricted, so either is enough: the 13th, or a Friday.
        ("0 0 13 * 5", (2026, 11, 23), (2026, 11, 27)),
        ("0 0 13 * 5", (2026, 12, 12), (2026, 12, 13)),
        ("@hourly", (2026, 1, 1, 5, 59), (2026, 1, 1, 6)),
        ("@weekly", (2026, 11, 23), (2026, 11, 29)),
        ("10/20 * * * *", (2026, 1, 1, 0, 11), (2026, 1, 1, 0, 30)),
        ("59 23 * * *", (2026, 12, 31, 23, 59), (2027, 1, 1, 23, 59)),
        # A Sunday, as `*/7` restricts no day of the month.
        ("0 0 29 2 */7", (2032, 3, 1), (2060, 2, 29)),
    ],
)
def test_a_schedule_is_due_next(text: str, after: tuple[int, ...], due: tuple[int, ...]) -> None:
    assert cron.next_after(cron.parse(text), ms(*after)) == ms(*due)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * *", "five fields"),
        ("60 * * * *", "minute '60'"),
        ("* 24 * * *", "hour '24'"),
        ("* * 0 * *", "day of the month '0'"),
        ("* * * 13 *", "month '13'"),
        ("* * * * 8", "day of the week '8'"),
        ("*/0 * * * *", "minute '0'"),
        ("5-1 * * * *", "ends before it begins"),
        ("a * * * *", "minute 'a'"),
        ("", "five fields"),
        ("0 0 31 2 *", "never due"),
        ("\u0661 * * * *", "minute"),
    ],
)
def test_what_is_no_schedule_is_refused_by_the_name_of_its_field(text: str, words: str) -> None:
    with pytest.raises(errors.BadSchedule, match=words):
        cron.parse(text)


def numbers(first: int, last: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(first, last), min_size=1, max_size=5)


@examples.at_most(60)
@given(
    minutes=numbers(0, 59),
    hours=numbers(0, 23),
    days=st.none() | numbers(1, 28),
    weekdays=st.none() | numbers(0, 6),
    start=st.integers(86_400, 3_786_912_000),
)
def test_no_minute_between_now_and_the_next_time_is_due(
    minutes: frozenset[int],
    hours: frozenset[int],
    days: frozenset[int] | None,
    weekdays: frozenset[int] | None,
    start: int,
) -> None:
    def text(field: frozenset[int] | None) -> str:
        return "*" if field is None else ",".join(map(str, field))

    def is_due(moment: datetime.datetime) -> bool:
        by_date = days is None or moment.day in days
        by_weekday = weekdays is None or (moment.weekday() + 1) % 7 in weekdays
        either = days is not None and weekdays is not None
        on_day = by_date or by_weekday if either else by_date and by_weekday
        return on_day and moment.hour in hours and moment.minute in minutes

    begin = datetime.datetime.fromtimestamp(start // 60 * 60, UTC)
    schedule = cron.parse(f"{text(minutes)} {text(hours)} {text(days)} * {text(weekdays)}")
    at_ms = cron.next_after(schedule, int(begin.timestamp()) * 1000 + 59_999)
    assert at_ms is not None
    due = datetime.datetime.fromtimestamp(at_ms / 1000, UTC)
    assert is_due(due)
    step = begin + datetime.timedelta(minutes=1)
    while step < min(due, begin + datetime.timedelta(days=2)):
        assert not is_due(step)
        step += datetime.timedelta(minutes=1)


def test_a_rare_schedule_looks_at_the_days_of_its_months_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rare = cron.parse("0 0 29 2 *")
    days: list[datetime.date] = []
    includes = cron.Cron.includes

    def counted(self: cron.Cron, day: datetime.date) -> bool:
        days.append(day)
        return includes(self, day)

    monkeypatch.setattr(cron.Cron, "includes", counted)
    assert cron.next_after(rare, ms(2096, 3, 1)) == ms(2104, 2, 29)
    assert len(days) <= 8 * 29
