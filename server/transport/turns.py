"""engine: how many bodies are copied to clients in one turn of the event loop.

A step of a body that passes through the process is read, encrypted and sent without a wait, which
takes some hundred microseconds. Hundreds of downloads would each take a step in the same turn, and
every other request would wait for all of them. Beyond a number per turn, steps wait in the order in
which they came. Turns are of one loop.
"""

from __future__ import annotations

import asyncio
import collections

from server import limits


class CopyTurns:
    """Lets `per_turn` steps go on in each turn of the running loop. Mutable."""

    def __init__(self, *, per_turn: int = limits.COPIES_PER_TURN_MAX) -> None:
        self._per_turn = per_turn
        self._left = per_turn
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()
        self._is_renewing = False

    async def take(self) -> None:
        """Give others a turn, and return when the next step may go on."""
        if not self._is_renewing:
            self._is_renewing = True
            asyncio.get_running_loop().call_soon(self._renew)
        if self._left and not self._waiting:
            self._left -= 1
            await asyncio.sleep(0)
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def _renew(self) -> None:
        self._left = self._per_turn
        while self._left and self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                self._left -= 1
        # Steps that were let go count for this turn, so that it has to be renewed once more.
        self._is_renewing = self._left < self._per_turn
        if self._is_renewing:
            asyncio.get_running_loop().call_soon(self._renew)
