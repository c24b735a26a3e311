"""A client that guesses passwords is slowed down, and no other client."""

from __future__ import annotations

import asyncio

import pytest

from server import limits
from server.access import errors as access_errors
from server.auth import errors, throttle
from tests.server.requesting import Clock

HERE = "192.0.2.1"


def wrong(guard, name="alice", client_ip=HERE, times=1):
    for _ in range(times):
        with pytest.raises(access_errors.WrongPassword), guard.attempt(name, client_ip):
            raise access_errors.WrongPassword("wrong")


def right(guard, name="alice", client_ip=HERE):
    with guard.attempt(name, client_ip):
        pass


def waiting(guard, name="alice", client_ip=HERE):
    """Return for how many seconds an attempt is refused, and see that it is not looked at."""
    with pytest.raises(errors.TooManyFailures) as caught, guard.attempt(name, client_ip):
        raise AssertionError("the attempt was let in")
    return caught.value.retry_after_seconds


def test_some_failures_are_free_and_each_further_one_doubles_the_wait():
    clock = Clock()
    guard = throttle.Throttle(now_ms=clock)
    wrong(guard, times=5)
    waits = []
    for _ in range(7):
        waits.append(waiting(guard))
        clock.now_ms += waits[-1] * 1000 - 1
        assert waiting(guard) == 1
        clock.now_ms += 1
        wrong(guard)
    assert waits == [1, 2, 4, 8, 16, 30, 30]


def test_attempts_within_the_wait_lengthen_nothing():
    clock = Clock()
    guard = throttle.Throttle(now_ms=clock)
    wrong(guard, times=5)
    for _ in range(100):
        assert waiting(guard) == 1
    clock.now_ms += 1000
    right(guard)


def test_success_forgets_all_failures():
    guard = throttle.Throttle(now_ms=Clock())
    wrong(guard, times=4)
    right(guard)
    wrong(guard, times=4)
    right(guard)


def test_names_and_addresses_are_apart_but_not_the_cases_of_a_name():
    guard = throttle.Throttle(now_ms=Clock())
    wrong(guard, "alice", times=3)
    wrong(guard, "ALICE", times=2)
    assert waiting(guard, "Alice") == 1
    right(guard, "bob")
    right(guard, "alice", "192.0.2.2")


def test_a_failure_of_another_kind_counts_for_nothing():
    guard = throttle.Throttle(now_ms=Clock())
    for _ in range(10):
        with pytest.raises(LookupError), guard.attempt("alice", HERE):
            raise LookupError
    right(guard)


def test_old_failures_expire_and_a_clock_set_back_delays_no_attempt():
    clock = Clock()
    guard = throttle.Throttle(now_ms=clock)
    wrong(guard, times=5)
    clock.now_ms -= 3_600_000
    right(guard)
    wrong(guard, times=4)
    clock.now_ms += limits.FAILURES_KEPT_SECONDS * 1000
    wrong(guard)
    right(guard)


def test_attempts_that_arrive_together_are_counted_together():
    guard = throttle.Throttle(now_ms=Clock())
    let_in = []

    async def guess(everybody):
        try:
            with guard.attempt("alice", HERE):
                let_in.append(1)
                await everybody.wait()
                raise access_errors.WrongPassword("wrong")
        finally:
            if not everybody.is_set():
                everybody.set()

    async def burst():
        everybody = asyncio.Event()
        return await asyncio.gather(*(guess(everybody) for _ in range(200)), return_exceptions=True)

    outcomes = [type(outcome) for outcome in asyncio.run(burst())]
    assert len(let_in) == 5
    assert outcomes.count(access_errors.WrongPassword) == 5
    assert outcomes.count(errors.TooManyFailures) == 195
    assert waiting(guard) == 1


def test_a_success_among_attempts_that_arrive_together_forgets_them():
    guard = throttle.Throttle(now_ms=Clock())
    wrong(guard, times=3)
    with guard.attempt("alice", HERE):
        right(guard)
    wrong(guard, times=4)
    right(guard)


def test_an_attempt_that_fails_otherwise_takes_back_only_its_own_count():
    guard = throttle.Throttle(now_ms=Clock())

    def fail_otherwise():
        wrong(guard, times=4)
        raise LookupError

    with pytest.raises(LookupError), guard.attempt("alice", HERE):
        fail_otherwise()
    wrong(guard)
    assert waiting(guard) == 1


def test_fresh_names_do_not_let_a_slowed_one_go(monkeypatch):
    monkeypatch.setattr(limits, "FAILURES_KEPT_MAX", 3)
    guard = throttle.Throttle(now_ms=Clock())
    wrong(guard, "first", times=5)
    for name in ("b" * 100_000, "c", "\ud800", "d", "e"):
        wrong(guard, name)
    assert waiting(guard, "first") == 1


def test_a_slowed_name_that_is_tried_again_stays_longer_than_those_that_are_not(monkeypatch):
    monkeypatch.setattr(limits, "FAILURES_KEPT_MAX", 2)
    clock = Clock()
    guard = throttle.Throttle(now_ms=clock)
    wrong(guard, "first", times=5)
    wrong(guard, "second", times=5)
    clock.now_ms += 1000
    wrong(guard, "first")
    wrong(guard, "third", times=5)
    assert waiting(guard, "first") == 2
    assert waiting(guard, "third") == 1
    wrong(guard, "second", times=5)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(limits, "FAILURES_KEPT_MAX", 3)
    guard = throttle.Throttle(now_ms=Clock())
    wrong(guard, "few", times=4)
    wrong(guard, "many", times=5)
    for name in ("b" * 100_000, "c", "\ud800"):
        assert waiting(guard, "many") == 1
        wrong(guard, name, times=5)
    right(guard, "many")
    for name in ("x", "y", "z"):
        wrong(guard, name)
    wrong(guard, "few", times=4)
    right(guard, "few")
