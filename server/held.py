"""engine: how much memory all requests and connections together hold.

A body that is read whole takes its bytes from a budget before the first is received, and gives them
back when its request is over. Small bodies have a budget of their own, and so have bodies of
callers whose identity is not proven yet: neither slow strangers nor large uploads use up what the
others need. A request that does not fit waits, in order of arrival; one that waits for too long is
answered by ServerBusy. Counts what was declared, not what came.

Connections hold heads before anybody is known, and answers until they are taken. `Holdings` ends
the slowest of them when all together hold too much.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from server import errors, limits


class Budget:
    """A number of bytes that many take parts of. Mutable; used on the event loop alone."""

    __slots__ = ("_bytes_max", "_taken_bytes", "_waiting")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._taken_bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    @property
    def taken_bytes(self) -> int:
        """How much is taken now."""
        return self._taken_bytes

    async def take(self, size_bytes: int) -> None:
        """Take size_bytes, of which `give_back` must hear. Raises ServerBusy after a while."""
        assert 0 <= size_bytes <= self._bytes_max
        if not self._waiting and self._taken_bytes + size_bytes <= self._bytes_max:
            self._taken_bytes += size_bytes
            return
        if len(self._waiting) >= limits.HELD_WAITING_MAX:
            raise _busy()
        turn = asyncio.get_running_loop().create_future()
        row = (turn, size_bytes)
        self._waiting.append(row)
        try:
            async with asyncio.timeout(limits.HELD_WAIT_SECONDS_MAX):
                await turn
        except BaseException as error:
            if row in self._waiting:
                self._waiting.remove(row)
                self._admit()
            else:
                self.give_back(size_bytes)  # the turn came at the same moment
            if isinstance(error, TimeoutError):
                raise _busy() from None
            raise

    def give_back(self, size_bytes: int) -> None:
        """Give back what was taken."""
        self._taken_bytes -= size_bytes
        assert self._taken_bytes >= 0
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            turn, size_bytes = self._waiting[0]
            if self._taken_bytes + size_bytes > self._bytes_max:
                return
            self._waiting.popleft()
            self._taken_bytes += size_bytes
            if turn.done():
                # Cancelled in this very moment: its `take` gives the bytes back.
                continue
            turn.set_result(None)


class Bodies:
    """The budgets of one server."""

    __slots__ = ("proven", "small", "unproven")

    def __init__(self) -> None:
        self.small = Budget(limits.HELD_SMALL_BYTES_MAX)
        self.unproven = Budget(limits.HELD_UNPROVEN_BYTES_MAX)
        self.proven = Budget(limits.HELD_PROVEN_BYTES_MAX)

    def budget_for(self, size_bytes: int, *, proven: bool) -> Budget:
        """Return the budget that a body of this size is taken from."""
        if size_bytes <= limits.SMALL_BODY_BYTES_MAX:
            return self.small
        return self.proven if proven else self.unproven


def _busy() -> errors.ServerBusy:
    return errors.ServerBusy("other requests' bodies fill the memory for them; try again later")


class Holder(Protocol):
    """A connection, as Holdings knows it."""

    address: str
    """Where its client is."""

    @property
    def answering(self) -> bool:
        """Whether a request's head is whole and its answer is not out."""

    def give_way(self) -> None:
        """End, and let go of everything."""


class _Holding:
    __slots__ = ("since", "size_bytes")

    def __init__(self, since: float) -> None:
        self.since = since
        self.size_bytes = 0


class Holdings:
    """What all connections together hold: heads without an answer, answers that were not taken.

    Beyond `limits.CONNECTIONS_BYTES_MAX` those give way that have no whole head, or whose answer
    has been going out for `limits.CROWDED_ANSWER_SECONDS_MAX`; beyond twice as much, any. Those of
    the address that holds most come first, and among them the one that has held for longest.
    Connections report what they hold; one that holds little need not. monotonic: in seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._rows: dict[Holder, _Holding] = {}
        self.total_bytes = 0

    def report(self, holder: Holder, size_bytes: int) -> None:
        """Hear what a connection holds now; 0 forgets it. May make it give way at once."""
        row = self._rows.get(holder)
        if row is None:
            if size_bytes == 0:
                return
            row = self._rows[holder] = _Holding(self._monotonic())
        grown_bytes = size_bytes - row.size_bytes
        self.total_bytes += grown_bytes
        row.size_bytes = size_bytes
        if size_bytes == 0:
            del self._rows[holder]
        elif grown_bytes > 0 and self.total_bytes > limits.CONNECTIONS_BYTES_MAX:
            self._make_room()

    def _make_room(self) -> None:
        """Make some more room than is needed, so that not every report looks at all rows."""
        of_address: Counter[str] = Counter()
        for holder, row in self._rows.items():
            of_address[holder.address] += row.size_bytes
        rows = sorted(
            self._rows.items(), key=lambda each: (-of_address[each[0].address], each[1].since)
        )
        now = self._monotonic()
        for limit_bytes, any_of_them in (
            (limits.CONNECTIONS_BYTES_MAX, False),
            (2 * limits.CONNECTIONS_BYTES_MAX, True),
        ):
            if self.total_bytes <= limit_bytes:
                return
            for holder, row in rows:
                if self.total_bytes <= limit_bytes - limit_bytes // 8:
                    break
                if row.size_bytes and (
                    any_of_them
                    or not holder.answering
                    or now - row.since >= limits.CROWDED_ANSWER_SECONDS_MAX
                ):
                    self.report(holder, 0)
                    row.size_bytes = 0
                    holder.give_way()
