"""engine: bounds the memory that all requests and connections together hold.

A body that is read whole takes its size from a budget before its first byte is received, and
returns it when its request is over. Small bodies have their own budget, and so have bodies of
callers whose identity is not proven yet, so that neither slow anonymous clients nor large uploads
block other requests. A request that does not fit waits, in order of arrival; one that waits too
long is answered by ServerBusy. The declared size counts, not the received one.

Connections hold heads before authentication, and responses until the client reads them. `Holdings`
ends the slowest connections when all together hold too much.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from server import errors, limits


class Budget:
    """A number of bytes that many requests share. Mutable; used on the event loop only."""

    __slots__ = ("_bytes_max", "_taken_bytes", "_waiting")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._taken_bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    @property
    def taken_bytes(self) -> int:
        """The number of bytes taken now."""
        return self._taken_bytes

    def take_now(self, size_bytes: int) -> bool:
        """Take size_bytes if no one has to wait for that; say whether they are taken."""
        if self._waiting or self._taken_bytes + size_bytes > self._bytes_max:
            return False
        self._taken_bytes += size_bytes
        return True

    async def take(self, size_bytes: int) -> None:
        """Take size_bytes; `give_back` returns them. Raises ServerBusy after a while."""
        assert 0 <= size_bytes <= self._bytes_max
        if self.take_now(size_bytes):
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
                self.give_back(size_bytes)  # it was admitted at the same moment
            if isinstance(error, TimeoutError):
                raise _busy() from None
            raise

    def give_back(self, size_bytes: int) -> None:
        """Return bytes that were taken."""
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
                # Cancelled at this moment: its `take` gives the bytes back.
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
        """Return the budget for a body of this size."""
        if size_bytes <= limits.SMALL_BODY_BYTES_MAX:
            return self.small
        return self.proven if proven else self.unproven


def _busy() -> errors.ServerBusy:
    return errors.ServerBusy("other requests' bodies fill the memory for them; try again later")


class Holder(Protocol):
    """A connection, for Holdings."""

    address: str
    """The address of its client."""

    @property
    def answering(self) -> bool:
        """Whether a request's head is complete and its response is not sent."""

    def give_way(self) -> None:
        """Close the connection and free its buffers."""


class _Holding:
    __slots__ = ("since", "size_bytes")

    def __init__(self, since: float) -> None:
        self.since = since
        self.size_bytes = 0


class Holdings:
    """The bytes that all connections together hold: heads without a response, unread responses.

    Beyond `limits.CONNECTIONS_BYTES_MAX` connections are closed that have no complete head, or
    whose response has been going out for `limits.CROWDED_ANSWER_SECONDS_MAX`; beyond twice as much,
    any connection. Those of the address that holds most come first, and of these the one that has
    held for longest. Connections report their bytes; one that holds few need not. monotonic: in
    seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._rows: dict[Holder, _Holding] = {}
        self.total_bytes = 0

    def report(self, holder: Holder, size_bytes: int) -> None:
        """Record the bytes that a connection holds; 0 forgets it. May close it at once."""
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
        """Free more than is needed, so that not every report scans all rows."""
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
