"""engine: how much of their bodies all requests together hold in memory.

A body that is read whole takes its bytes from a budget before the first is received, and gives them
back when its request is over. Small bodies have a budget of their own, and so have bodies of
callers whose identity is not proven yet: neither slow strangers nor large uploads use up what the
others need. A request that does not fit waits, in order of arrival; one that waits for too long is
answered by ServerBusy. Counts what was declared, not what came.
"""

from __future__ import annotations

import asyncio
from collections import deque

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
