"""Steps of bodies that are copied: so many in a turn of the loop, in the order they came."""

from __future__ import annotations

import asyncio
import collections

from server.transport import turns


def steps_by_turn(*, tasks: int, steps: int, per_turn: int) -> tuple[list[int], list[int]]:
    """Return how many steps each turn of the loop had, and the tasks in the order they ended."""
    shared = turns.CopyTurns(per_turn=per_turn)
    counts: collections.Counter[int] = collections.Counter()
    ended: list[int] = []

    async def copy(number: int) -> None:
        for _ in range(steps):
            await shared.take()
            counts[turn] += 1
        ended.append(number)

    async def main() -> None:
        nonlocal turn
        running = [asyncio.create_task(copy(number)) for number in range(tasks)]
        while not all(task.done() for task in running):
            await asyncio.sleep(0)
            turn += 1

    turn = 0
    asyncio.run(main())
    return [counts[number] for number in sorted(counts)], ended


def test_many_copies_share_the_turns_of_the_loop_in_their_order() -> None:
    by_turn, ended = steps_by_turn(tasks=100, steps=3, per_turn=8)
    assert sum(by_turn) == 300
    assert max(by_turn) <= 2 * 8  # those of one renewal, and those that it let go before
    assert ended == list(range(100))


def test_one_copy_takes_a_step_in_each_turn() -> None:
    by_turn, _ = steps_by_turn(tasks=1, steps=50, per_turn=8)
    assert (sum(by_turn), max(by_turn)) == (50, 1)
    assert len(by_turn) == 50


def test_a_copy_that_is_cancelled_while_it_waits_leaves_its_turn_to_others() -> None:
    async def main() -> None:
        shared = turns.CopyTurns(per_turn=1)
        running = [asyncio.create_task(shared.take()) for _ in range(5)]
        await asyncio.sleep(0)
        running[2].cancel()
        outcomes = await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), 10)
        assert [isinstance(each, asyncio.CancelledError) for each in outcomes] == [
            number == 2 for number in range(5)
        ]

    asyncio.run(main())
