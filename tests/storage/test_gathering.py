"""Which commits go to the writer together, in the time of a simulated event loop."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import gathering
from storage.gathering import RETURNING_SECONDS_MAX, Lane, Patience

SYNC_SECONDS = 0.0004


class Loop:
    """The part of an event loop that a Lane uses, with a clock that no other program moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._soon: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._later: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def call_soon(self, call: Callable[..., object], *arguments: Any) -> None:
        self._soon.append((call, arguments))

    def call_later(self, seconds: float, call: Callable[..., object], *arguments: Any) -> Timer:
        timer = Timer(call, arguments)
        heapq.heappush(self._later, (self.now + seconds, next(self._numbers), timer))
        return timer

    def run(self) -> None:
        """Run until nothing is left to do."""
        while self._soon or self._later:
            if self._soon:
                turn, self._soon = self._soon, []
                for call, arguments in turn:
                    call(*arguments)
                continue
            self.now = self._later[0][0]
            while self._later and self._later[0][0] <= self.now:
                timer = heapq.heappop(self._later)[2]
                if not timer.cancelled:
                    timer.call(*timer.arguments)


class Timer:
    def __init__(self, call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.call = call
        self.arguments = arguments
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Writer:
    """A writer that syncs one group at a time. groups: when each came, and what is in it."""

    def __init__(self, loop: Loop, patience: Patience | None = None) -> None:
        self.groups: list[tuple[float, list[int]]] = []
        self.answer: Callable[[int], None] = lambda number: None
        self.settles_in_parts = False
        self._loop = loop
        self._lane: Lane[int] | None = None
        self._patience = patience or Patience()
        self._syncing = False

    def commit(self, number: int) -> None:
        if self._lane is None:
            self._lane = Lane(
                self._loop,  # type: ignore[arg-type]
                hand_over=self._write,
                end=self._end,
                patience=self._patience,
                clock=lambda: self._loop.now,
            )
        self._lane.add(number)

    def _end(self) -> None:
        assert self._lane is not None
        assert not self._lane.waiting
        self._lane = None

    def _write(self, group: list[int]) -> None:
        assert not self._syncing, "one group at a time"
        self._syncing = True
        self.groups.append((self._loop.now, group))
        half = len(group) // 2 if self.settles_in_parts else 0
        if half:
            self._loop.call_later(SYNC_SECONDS / 2, self._settle, group[:half], False)
        self._loop.call_later(SYNC_SECONDS, self._settle, group[half:], True)

    def _settle(self, group: list[int], is_last: bool) -> None:
        self._syncing = not is_last
        for number in group:
            self._loop.call_soon(self.answer, number)
        assert self._lane is not None
        self._lane.settle(len(group))


def run_clients(
    pauses: list[Callable[[int], float]],
    *,
    commits: int,
    starts: list[float] | None = None,
    patience: Patience | None = None,
) -> list[tuple[float, list[int]]]:
    """Return the groups of clients that commit one time after the other.

    pauses: of each client, by the number of its commits, from an answer to its next commit.
    """
    loop = Loop()
    writer = Writer(loop, patience)
    done = [0] * len(pauses)

    def come_again(client: int) -> None:
        done[client] += 1
        if done[client] < commits:
            loop.call_later(pauses[client](done[client]), writer.commit, client)

    writer.answer = come_again
    for client, start in enumerate(starts or [0.0] * len(pauses)):
        loop.call_later(start, writer.commit, client)
    loop.run()
    assert done == [commits] * len(pauses)
    return writer.groups


@pytest.mark.parametrize("half", [1, 8])
def test_clients_that_come_again_at_once_share_every_transaction(half: int) -> None:
    # The second half comes while the first is synced, so that they would take turns.
    starts = [0.0] * half + [SYNC_SECONDS / 2] * half
    pauses = [lambda _, client=client: 0.00003 * (client + 1) for client in range(2 * half)]
    groups = run_clients(pauses, commits=100, starts=starts)
    assert [len(group) for _, group in groups[:2]] == [half, 2 * half]
    assert len(groups) <= 102
    # None waits longer than for the last client.
    assert groups[-1][0] < 102 * (SYNC_SECONDS + 2 * half * 0.00003)


def test_one_client_never_waits_for_another() -> None:
    groups = run_clients([lambda _: 0.0001], commits=50)
    assert len(groups) == 50
    assert groups[-1][0] == pytest.approx(49 * (SYNC_SECONDS + 0.0001))


def test_a_client_that_does_not_come_again_is_waited_for_once() -> None:
    loop = Loop()
    writer = Writer(loop)
    left = dict.fromkeys(range(7), 3) | {7: 1}

    def come_again(client: int) -> None:
        left[client] -= 1
        if left[client]:
            loop.call_later(0.0001, writer.commit, client)

    writer.answer = come_again
    for client in left:
        writer.commit(client)
    loop.run()
    stay = list(range(7))
    assert [group for _, group in writer.groups] == [[*stay, 7], stay, stay]
    times = [time for time, _ in writer.groups]
    assert times[1] == pytest.approx(SYNC_SECONDS + RETURNING_SECONDS_MAX)
    assert times[2] - times[1] == pytest.approx(SYNC_SECONDS + 0.0001)


class Impatient(Patience):
    def next_group_waits(self) -> bool:
        return False


def test_a_group_that_does_not_wait_goes_with_its_first_commit() -> None:
    pauses = [lambda _: 0.0001, lambda _: 0.0003]
    groups = run_clients(pauses, commits=2, patience=Impatient())
    assert [group for _, group in groups] == [[0, 1], [0], [1]]
    assert groups[1][0] == pytest.approx(SYNC_SECONDS + 0.0001)


def test_commits_of_the_turns_after_an_outcome_go_together() -> None:
    loop = Loop()
    writer = Writer(loop, Impatient())

    def come_again(number: int) -> None:
        if number == 0:
            writer.commit(10)
        elif number == 1:
            loop.call_soon(writer.commit, 11)

    writer.answer = come_again
    writer.commit(0)
    writer.commit(1)
    loop.call_later(SYNC_SECONDS / 2, writer.commit, 2)
    loop.run()
    assert [group for _, group in writer.groups] == [[0, 1], [2, 10, 11]]


class Noting(Patience):
    __slots__ = ("noted", "times")

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[int, int]] = []
        self.times: list[tuple[float, float]] = []

    def note(self, *, came: int, expected: int, idle_seconds: float, write_seconds: float) -> None:
        self.noted.append((came, expected))
        self.times.append((idle_seconds, write_seconds))
        super().note(
            came=came, expected=expected, idle_seconds=idle_seconds, write_seconds=write_seconds
        )


def test_each_wait_is_noted_with_what_came_of_what_was_expected_and_how_long_none_did() -> None:
    patience = Noting()
    pauses = [
        lambda _: 0.0001,
        lambda _: 0.0002,
        lambda count: [0.0003, 0.00045, 2 * RETURNING_SECONDS_MAX][count - 1],
    ]
    run_clients(pauses, commits=4, patience=patience)
    assert patience.noted[:3] == [(3, 3), (3, 3), (2, 3)]
    idle = [0.0001, 0.00025, RETURNING_SECONDS_MAX - 0.0002]
    assert patience.times[:3] == [pytest.approx((each, SYNC_SECONDS)) for each in idle]


def test_clients_with_pauses_of_their_own_wait_for_each_other_in_few_groups() -> None:
    # Each pauses for 0.7 to 3.5 milliseconds, so that few come within one.
    pauses = [
        lambda count, client=client: 0.0007 + 0.0004 * (count * (client + 2) % 8)
        for client in range(8)
    ]
    groups = run_clients(pauses, commits=500)
    at_once = run_clients(pauses, commits=500, patience=Impatient())
    assert groups[-1][0] < 1.03 * at_once[-1][0]


@pytest.mark.parametrize("once_per_second", [0, 400, 1500])
@pytest.mark.parametrize(
    "pauses",
    [
        pytest.param([0.0001, 0.0001, 0.0001, 0.0001], id="four"),
        pytest.param([0.00003, 0.00003, 0.0009], id="two, and one that pauses longer than a write"),
    ],
)
def test_fast_clients_lose_little_to_others(pauses: list[float], once_per_second: int) -> None:
    """once_per_second: commits whose clients do not come again, or not soon."""

    def commits_of_fast_clients(patience: Patience) -> int:
        loop = Loop()
        writer = Writer(loop, patience)
        counts = [0] * len(pauses)

        def come_again(number: int) -> None:
            if number < len(pauses):
                counts[number] += 1
                if loop.now < 1:
                    loop.call_later(pauses[number], writer.commit, number)

        writer.answer = come_again
        for number in range(len(pauses)):
            writer.commit(number)
        for count in range(once_per_second):
            loop.call_later(count / once_per_second, writer.commit, len(pauses) + count)
        loop.run()
        return sum(counts[:2])

    assert commits_of_fast_clients(Patience()) > 0.85 * commits_of_fast_clients(Impatient())


def test_of_a_group_in_two_transactions_the_second_one_s_clients_are_waited_for() -> None:
    loop = Loop()
    patience = Noting()
    writer = Writer(loop, patience)
    writer.settles_in_parts = True

    def come_again(number: int) -> None:
        if number < 4:
            loop.call_later(0.0001, writer.commit, number + 4)

    writer.answer = come_again
    for number in range(4):
        writer.commit(number)
    loop.run()
    assert [sorted(group) for _, group in writer.groups] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert writer.groups[1][0] == pytest.approx(SYNC_SECONDS + 0.0001)
    assert patience.noted == [(2, 2)]


def test_clients_that_do_not_come_again_end_no_patience() -> None:
    loop = Loop()
    patience = Patience()
    writer = Writer(loop, patience)
    for number in range(8):
        writer.commit(number)
    loop.run()
    assert len(writer.groups) == 1
    assert patience.next_group_waits()


def test_more_than_a_group_is_not_waited_for() -> None:
    count = gathering.GROUP_MAX * 3 // 4
    starts = [0.0] * count + [SYNC_SECONDS / 4] * count
    groups = run_clients([lambda _: 0.0001] * len(starts), commits=1, starts=starts)
    assert [(time, len(group)) for time, group in groups] == [(0.0, count), (SYNC_SECONDS, count)]


def test_waits_in_vain_become_seldom_and_others_make_them_frequent_again() -> None:
    patience = Patience()

    def groups_without_wait() -> int:
        count = 0
        while not patience.next_group_waits():
            count += 1
        return count

    assert groups_without_wait() == 0
    counts = []
    for _ in range(4):
        patience.note(came=11, expected=16, idle_seconds=0.1, write_seconds=0.4)
        counts.append(groups_without_wait())
    assert counts == [4, 20, 64, 64]
    for _ in range(5):
        patience.note(came=12, expected=16, idle_seconds=0.4, write_seconds=0.4)
        assert groups_without_wait() == 0
    patience.note(came=0, expected=1, idle_seconds=0.1, write_seconds=0.4)
    assert groups_without_wait() == 4 * 2 + 4
    patience.note(came=16, expected=16, idle_seconds=0.5, write_seconds=0.4)
    assert groups_without_wait() == 4 * 12 + 4


@given(
    arrivals=st.lists(st.integers(min_value=0, max_value=5000), max_size=60),
    returning=st.lists(st.integers(min_value=0, max_value=1500), min_size=1, max_size=8),
    in_parts=st.booleans(),
)
def test_each_commit_is_handed_over_once_and_soon(
    arrivals: list[int], returning: list[int], in_parts: bool
) -> None:
    """arrivals and returning: microseconds, of first commits and from an answer to the next one.

    in_parts: groups are too large for one transaction.
    """
    loop = Loop()
    writer = Writer(loop)
    writer.settles_in_parts = in_parts
    came: list[float] = []
    again = itertools.cycle([each / 1e6 for each in returning])

    def commit() -> None:
        came.append(loop.now)
        writer.commit(len(came) - 1)

    def come_again(number: int) -> None:
        if number < len(arrivals):
            loop.call_later(next(again), commit)

    writer.answer = come_again
    for each in arrivals:
        loop.call_later(each / 1e6, commit)
    loop.run()
    handed = [number for _, group in writer.groups for number in group]
    assert handed == list(range(2 * len(arrivals)))
    free = 0.0
    for time, group in writer.groups:
        assert len(group) <= max(gathering.GROUP_MAX, len(arrivals) * 2)
        for number in group:
            ready = max(came[number], free)
            assert time <= ready + RETURNING_SECONDS_MAX + 1e-9
        free = time + SYNC_SECONDS
