"""How long a test waits for a state that must come, and a clock that moves on at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

WAIT_SECONDS: Final = 120
"""Ends a wait that would last for ever. It says nothing about how soon the state must come: a busy
machine may take many seconds to start a process, and a slow disk to sync."""

TURNS: Final = 10
"""Turns of a loop in which everything that is due has happened."""


async def pass_by(seconds: float) -> None:
    """Move the clock of the running asyncio loop on, and let everything that is due happen."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def until(is_so: Callable[[], bool], *, seconds: float = WAIT_SECONDS) -> None:
    """Let other tasks run until a condition holds; fail after seconds."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    while not is_so():
        assert loop.time() < ends_at, "the condition does not come true"
        await asyncio.sleep(0.01)
