"""Budgets of bodies: what is taken never goes beyond, waiters come in their order."""

from __future__ import annotations

import asyncio
import random

import pytest

from server import errors, held, limits
from tests.server.requesting import request, run


def test_what_fits_is_taken_at_once_and_given_back():
    async def scenario():
        budget = held.Budget(10)
        await budget.take(4)
        await budget.take(6)
        assert budget.taken_bytes == 10
        budget.give_back(4)
        budget.give_back(6)
        assert budget.taken_bytes == 0

    run(scenario())


def test_who_came_first_is_served_first_even_if_a_later_one_would_fit():
    async def scenario():
        budget = held.Budget(10)
        await budget.take(8)
        order = []

        async def wait(size_bytes):
            await budget.take(size_bytes)
            order.append(size_bytes)

        tasks = []
        for size_bytes in (9, 1, 2):
            tasks.append(asyncio.create_task(wait(size_bytes)))
            await asyncio.sleep(0)
        assert order == []
        budget.give_back(8)
        while len(order) < 2:  # noqa: ASYNC110 - the budget offers no event
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert order == [9, 1]
        budget.give_back(9)
        await asyncio.gather(*tasks)
        assert order == [9, 1, 2]

    run(scenario())


def test_who_waits_too_long_is_refused_and_makes_room_for_the_next(monkeypatch):
    monkeypatch.setattr(limits, "HELD_WAIT_SECONDS_MAX", 0.02)

    async def scenario():
        budget = held.Budget(10)
        await budget.take(8)
        large = asyncio.create_task(budget.take(10))
        await asyncio.sleep(0)
        monkeypatch.undo()  # the next one may wait for longer, however slow the machine is
        small = asyncio.create_task(budget.take(2))
        with pytest.raises(errors.ServerBusy):
            await large
        await small
        assert budget.taken_bytes == 10

    run(scenario())


def test_beyond_a_number_of_waiters_one_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(limits, "HELD_WAITING_MAX", 1)

    async def scenario():
        budget = held.Budget(10)
        await budget.take(10)
        waiting = asyncio.create_task(budget.take(1))
        await asyncio.sleep(0)
        with pytest.raises(errors.ServerBusy):
            await budget.take(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert budget.taken_bytes == 10

    run(scenario())


def test_takers_that_come_leave_and_are_cancelled_leave_nothing_taken():
    async def one(budget, chance):
        size_bytes = chance.randrange(11)
        await budget.take(size_bytes)
        assert budget.taken_bytes <= 10
        try:
            await asyncio.sleep(chance.random() / 500)
        finally:
            budget.give_back(size_bytes)

    async def scenario():
        chance = random.Random(7)
        budget = held.Budget(10)
        tasks = [asyncio.create_task(one(budget, chance)) for _ in range(200)]
        for _ in range(100):
            await asyncio.sleep(0.0005)
            chance.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert budget.taken_bytes == 0

    run(scenario())


@pytest.mark.parametrize(
    ("size_bytes", "proven", "name"),
    [(10, False, "small"), (100_000, False, "unproven"), (100_000, True, "proven")],
)
def test_a_body_takes_its_share_until_its_request_is_over(size_bytes, proven, name):
    async def scenario():
        bodies = held.Bodies()
        received = request("POST", "/", [("content-length", str(size_bytes))], b"x" * size_bytes)
        received._bodies = bodies
        received.proven = proven
        assert await received.read(limit_bytes=1_000_000) == b"x" * size_bytes
        taken = {each: getattr(bodies, each).taken_bytes for each in bodies.__slots__}
        assert taken == {"small": 0, "unproven": 0, "proven": 0, name: size_bytes}
        received.release()
        received.release()
        assert getattr(bodies, name).taken_bytes == 0

    run(scenario())


def test_a_body_of_unknown_length_takes_its_limit():
    async def scenario():
        bodies = held.Bodies()
        received = request("POST", "/", (), b"x")
        received._bodies = bodies
        await received.read(limit_bytes=1_000_000)
        assert bodies.unproven.taken_bytes == 1_000_000

    run(scenario())


class Holder:
    def __init__(self, address="a", *, answering=False):
        self.address = address
        self.answering = answering
        self.gone = False

    def give_way(self):
        self.gone = True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def crowd(monkeypatch):
    monkeypatch.setattr(limits, "CONNECTIONS_BYTES_MAX", 80)
    clock = Clock()
    return held.Holdings(monotonic=clock), clock


def test_of_unfinished_heads_the_oldest_give_way_until_there_is_room(crowd):
    holdings, clock = crowd
    holders = [Holder() for _ in range(9)]
    for holder in holders:
        clock.now += 1
        holdings.report(holder, 10)
    assert [holder.gone for holder in holders] == [True] * 2 + [False] * 7
    assert holdings.total_bytes == 70


def test_the_address_that_holds_most_gives_way_first(crowd):
    holdings, clock = crowd
    quiet = Holder("quiet")
    holdings.report(quiet, 15)
    loud = [Holder("loud") for _ in range(7)]
    for holder in loud:
        clock.now += 1
        holdings.report(holder, 10)
    assert not quiet.gone
    assert loud[0].gone
    assert not loud[-1].gone


def test_an_answer_gives_way_only_after_a_while_or_beyond_twice_the_bound(crowd):
    holdings, clock = crowd
    answers = [Holder(answering=True) for _ in range(9)]
    for holder in answers:
        holdings.report(holder, 10)
    assert not any(holder.gone for holder in answers)
    clock.now = limits.CROWDED_ANSWER_SECONDS_MAX
    late = Holder(answering=True)
    holdings.report(late, 10)
    assert [holder.gone for holder in answers].count(True) == 3
    assert not late.gone
    burst = [Holder(answering=True) for _ in range(20)]
    for holder in burst:
        holdings.report(holder, 10)
    assert holdings.total_bytes <= 160


def test_what_is_no_longer_held_is_forgotten(crowd):
    holdings, _ = crowd
    holder = Holder()
    holdings.report(holder, 30)
    holdings.report(holder, 20)
    assert holdings.total_bytes == 20
    holdings.report(holder, 0)
    holdings.report(holder, 0)
    assert holdings.total_bytes == 0
