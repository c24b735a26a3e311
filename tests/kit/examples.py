"""How many generated examples a test tries: a quarter in `make test`, all in `make test-long`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

ALL_VARIABLE = "BOATHOUSE_ALL_EXAMPLES"
"""`make test-long` sets it, and runs all tests with this mark."""

SHARE = 4

Test = TypeVar("Test", bound=Callable[..., Any])


def number_of(count: int) -> int:
    """Return how many of count examples this run tries."""
    return count if os.environ.get(ALL_VARIABLE) else count // SHARE


def at_most(count: int, **others: Any) -> Callable[[Test], Test]:
    """Return a decorator that lets a test try count examples. others: settings of Hypothesis."""

    def decorate(test: Test) -> Test:
        bounded = settings(max_examples=number_of(count), deadline=None, **others)(test)
        return pytest.mark.generated(bounded)

    return decorate
