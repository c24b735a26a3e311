"""engine: which commits of one event loop go to the index's writer together.

A transaction with one small object writes fourteen pages, most of which lead to the changed ones,
and syncs twice; each further object adds two pages. So commits wait for each other, in two ways.

One group of a loop is with the writer at a time, and what comes meanwhile makes the next one. The
first Batch after that waits for those that the loop's other tasks are about to commit, for a few
turns of the loop.

Clients that write one object after the other come again soon after their answers. If others already
wait by then, two halves of the clients would take turns for ever, each synced while the other is
planned, with twice the transactions. So a group also waits for as many commits as were just
answered, at most RETURNING_SECONDS_MAX. Where they do not come in that time, or one of them lets
the others wait for longer than a transaction takes, the next groups do not wait (`Patience`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

Waiting = TypeVar("Waiting")

GROUP_MAX = 256
TURNS_MAX = 4
"""Turns of an event loop for which a commit waits for more of the same loop."""
RETURNING_SECONDS_MAX = 0.001
"""How long commits wait for those of clients that were just answered: the shortest time of uvloop's
timers. Loops count whole milliseconds, so that a timer may take two if something else comes
meanwhile. A sync takes a third of a millisecond on a fast disk."""
GROUPS_WITHOUT_WAIT_MAX = 64


class Patience:
    """Whether groups wait for clients that were just answered: as long as that is worth it.

    After a wait in vain the next four groups do not wait, then 20, then 64, so that clients that
    always wait in vain do so in one group of 65. A wait that was not in vain halves that number.
    """

    __slots__ = ("_after_vain", "_left")

    def __init__(self) -> None:
        self._after_vain = 0
        self._left = 0

    def next_group_waits(self) -> bool:
        """Return whether the next group waits; count it."""
        if self._left <= 0:
            return True
        self._left -= 1
        return False

    def note(self, *, came: int, expected: int, idle_seconds: float, write_seconds: float) -> None:
        """Note a wait. In vain: fewer than three fourths came, or nothing came for too long.

        came: how many of the expected commits came in time. idle_seconds: the longest time in which
        none came. write_seconds: what the transaction before it took: a commit that comes later
        than that costs the others more than a transaction of its own.
        """
        if 4 * came >= 3 * expected and idle_seconds <= write_seconds:
            self._after_vain //= 2
        else:
            self._after_vain = min(4 * self._after_vain + 4, GROUPS_WITHOUT_WAIT_MAX)
            self._left = self._after_vain


class Lane(Generic[Waiting]):
    """The waiting commits of one event loop; used on that loop.

    hand_over: passes a group to the writer. end: called when nothing waits any more; then a new
    Lane is made for the next commit. clock: in seconds; uvloop's own counts milliseconds.
    """

    __slots__ = (
        "_awaited",
        "_before",
        "_clock",
        "_end",
        "_hand_over",
        "_handed_over_at",
        "_idle_seconds",
        "_idle_since",
        "_loop",
        "_outstanding",
        "_patience",
        "_timer",
        "_write_seconds",
        "waiting",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        hand_over: Callable[[list[Waiting]], None],
        end: Callable[[], object],
        patience: Patience,
        clock: Callable[[], float],
    ) -> None:
        self.waiting: list[Waiting] = []
        self._loop = loop
        self._hand_over = hand_over
        self._end = end
        self._patience = patience
        self._clock = clock
        self._outstanding = 0  # of the group that the writer has, without an outcome
        self._handed_over_at = 0.0  # when the writer got that group
        self._write_seconds = 0.0  # what it took for it
        self._awaited = 0  # the size that a group waits for, 0 if it does not
        self._before = 0  # what waited when it began to
        self._idle_since = 0.0  # when it began to wait, or the last commit came since
        self._idle_seconds = 0.0  # the longest time without a commit, up to then
        self._timer: asyncio.TimerHandle | None = None
        loop.call_soon(self._end_turn, 1, TURNS_MAX)

    def add(self, waiting: Waiting) -> None:
        """Add a commit to the next group."""
        self.waiting.append(waiting)
        if not self._awaited:
            return
        self._note_idle_time()
        if len(self.waiting) == self._awaited:
            assert self._timer is not None, "it waits"
            self._timer.cancel()
            self._note_wait()
            self._awaited = 0
            self._loop.call_soon(self._pass_on)

    def take(self) -> list[Waiting]:
        """Return what waits, and begin an empty group."""
        group, self.waiting = self.waiting, []
        return group

    def settle(self, count: int) -> None:
        """Note that so many commits of the writer's group have an outcome, which their tasks get in
        this turn of the loop."""
        self._outstanding -= count
        if self._outstanding:
            return
        before = len(self.waiting)
        # Of a group in several transactions, the clients of earlier ones may be among those before.
        awaited = before + count
        # A commit alone is of no use to wait for: it is a whole group when it comes.
        if awaited == 1 or awaited > GROUP_MAX or not self._patience.next_group_waits():
            self._loop.call_soon(self._end_turn, before, TURNS_MAX)
            return
        self._awaited, self._before = awaited, before
        self._idle_seconds, self._idle_since = 0.0, self._clock()
        self._write_seconds = self._idle_since - self._handed_over_at
        self._timer = self._loop.call_later(RETURNING_SECONDS_MAX, self._expire)

    def _expire(self) -> None:
        if self.waiting:
            self._note_idle_time()
            self._note_wait()
        self._awaited = 0
        self._pass_on()

    def _note_idle_time(self) -> None:
        now = self._clock()
        self._idle_seconds = max(self._idle_seconds, now - self._idle_since)
        self._idle_since = now

    def _note_wait(self) -> None:
        self._patience.note(
            came=len(self.waiting) - self._before,
            expected=self._awaited - self._before,
            idle_seconds=self._idle_seconds,
            write_seconds=self._write_seconds,
        )

    def _end_turn(self, count: int, turns_left: int) -> None:
        """Pass the commits on after a turn that added none to the count before.

        Without this the writer takes the first of sixteen concurrent commits alone, and a
        transaction holds two or three of them: twice the syncs, and four times the hand-overs of
        the interpreter (tests/bench, "commit c16").
        """
        gathered = len(self.waiting)
        if count < gathered < GROUP_MAX and turns_left > 0:
            self._loop.call_soon(self._end_turn, gathered, turns_left - 1)
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        group = self.take()
        if group:
            self._outstanding = len(group)
            self._handed_over_at = self._clock()
            self._hand_over(group)
        else:
            self._end()
