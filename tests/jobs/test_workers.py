"""The child of the scheduler: how it is ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jobs import workers


class EndingProcess:
    """A process that ends when a test says so."""

    stdin = stdout = None
    returncode = None

    def __init__(self) -> None:
        self.end = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        return int(await self.end)


@pytest.mark.parametrize("turns", range(4))
def test_a_cancel_that_comes_with_the_end_of_the_child_is_not_lost(turns: int) -> None:
    async def scenario() -> None:
        process: Any = EndingProcess()
        stopping = asyncio.get_running_loop().create_task(workers.Worker(process).stop())
        for _ in range(5):
            await asyncio.sleep(0)
        process.end.set_result(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        if stopping.cancel():  # else it had ended before
            with pytest.raises(asyncio.CancelledError):
                await stopping

    asyncio.run(scenario())
