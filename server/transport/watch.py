"""face: checks all connections at intervals, so that a stalled client does not hold one for ever.

One check of all connections twice a second costs less than a timer for each request.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from typing import Final

from server import limits
from server.transport import connection

LOOK_SECONDS: Final = 0.5


class Watch:
    """Checks all connections while `run` runs. Mutable: draining shortens its time-outs.

    connections: the server's live set of connections. monotonic: a clock in seconds.
    """

    def __init__(
        self,
        connections: Collection[object],
        *,
        idle_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._idle_seconds = idle_seconds
        self._monotonic = monotonic
        self._ends_at = math.inf

    def drain(self) -> None:
        """Use the short time-outs of a shutdown from now on."""
        self._idle_seconds = min(self._idle_seconds, limits.DRAIN_IDLE_SECONDS_MAX)
        self._ends_at = min(self._ends_at, self._monotonic() + limits.DRAIN_SECONDS_MAX)

    async def run(self) -> None:
        """Check all connections at intervals, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Check every connection once."""
        now = self._monotonic()
        idle_seconds = self._idle_seconds if now < self._ends_at else 0.0
        for each in tuple(self._connections):
            if isinstance(each, connection.Connection):
                each.look(now=now, idle_seconds=idle_seconds)
