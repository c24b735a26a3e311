"""engine: work of pure Python done here where it is small, else in a thread.

A thread lets the event loop have its turn every few milliseconds while it computes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sql import limits

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


async def for_columns(
    count: int,
    work: Callable[Parameters, Result],
    *arguments: Parameters.args,
    **named: Parameters.kwargs,
) -> Result:
    """Return what work returns; from a thread where it is about more than a few hundred columns."""
    if count > limits.COLUMNS_HERE_MAX:
        return await asyncio.to_thread(work, *arguments, **named)
    return work(*arguments, **named)
