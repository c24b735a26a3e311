"""engine: an answer that waits for one future, and needs no task for that.

A PUT of 4 KiB waits for nothing but the index. `server.exchange` calls `finish` in the event loop
once the future is done; anything else may await a Pending like a coroutine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from server import asgi

Result = TypeVar("Result")


class Pending:
    """A future, and finish: called with it once it is done, it returns the answer, or an awaitable
    of it, or raises, for instance what the future raises."""

    __slots__ = ("finish", "future")

    def __init__(
        self,
        future: asyncio.Future[Result],
        finish: Callable[[asyncio.Future[Result]], asgi.Response | Awaitable[asgi.Response]],
    ) -> None:
        self.future = future
        self.finish = finish

    def __await__(self) -> Generator[Any, None, asgi.Response]:
        return self._finished().__await__()

    async def _finished(self) -> asgi.Response:
        await asyncio.wait((self.future,))
        outcome = self.finish(self.future)
        return await outcome if isinstance(outcome, Awaitable) else outcome
