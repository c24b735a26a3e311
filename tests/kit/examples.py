"""How many cases of a test each command of the Makefile tries.

Generated examples: a quarter in `make test` and `make test-all`, all in `make test-long`. Where a
test walks through all cases in order, a Share says which of them it takes.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
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


class Share:
    """Takes all cases of a walk in `make test-long`, and each fourth of them else.

    Where the first one is differs from run to run, except in CI, where it is the first case.
    """

    def __init__(self) -> None:
        self._every = 1 if os.environ.get(ALL_VARIABLE) else SHARE
        self._number = 0 if "CI" in os.environ else random.randrange(self._every)

    def takes_next(self) -> bool:
        """Return whether the next case is one of the share."""
        self._number += 1
        return self._number % self._every == 1 % self._every


def short(
    cases: Iterable[str],
    *in_every_run: str,
    further: Iterable[str] = (),
    smoke: Iterable[str] = (),
) -> list[Any]:
    """Return cases for parametrize: all are in `make test-long`.

    in_every_run: those in `make test`, and of a test with Spark those in `make test-all`. further:
    those that `make test-all` has besides. smoke: of a test with Spark, those of in_every_run that
    are in `make test`.
    """
    listed, more = list(cases), frozenset(further)
    assert in_every_run, "a test has a case in every run"
    assert {*in_every_run, *more} <= set(listed), "a case of every run is not there"
    assert more.isdisjoint(in_every_run), "a case of every run is no further one"
    assert set(smoke) <= set(in_every_run), "what is smoke is a case of every run"
    return [_marked(case, in_every_run, more, frozenset(smoke)) for case in listed]


def further(cases: Iterable[str], *in_every_run: str) -> list[Any]:
    """Return cases for parametrize: in_every_run are in `make test`, all in `make test-all`."""
    listed = list(cases)
    return short(listed, *in_every_run, further=set(listed) - set(in_every_run))


def _marked(
    case: str, in_every_run: tuple[str, ...], more: frozenset[str], smoke: frozenset[str]
) -> Any:
    if case in smoke:
        return pytest.param(case, marks=pytest.mark.smoke)
    if case in in_every_run:
        return case
    return pytest.param(case, marks=pytest.mark.further if case in more else pytest.mark.long)


def at_most(count: int, **others: Any) -> Callable[[Test], Test]:
    """Return a decorator that lets a test try count examples. others: settings of Hypothesis."""

    def decorate(test: Test) -> Test:
        bounded = settings(max_examples=number_of(count), deadline=None, **others)(test)
        return pytest.mark.generated(bounded)

    return decorate
