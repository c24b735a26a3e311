"""The checker of histories itself: what it lets pass, and each kind of fault that it finds."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.kit import lake_history, lake_model, linearize
from tests.kit.lake_model import Lake, Table
from tests.kit.linearize import UNKNOWN, Event

A, B = ("n1", "a"), ("n1", "b")
CLIENTS = itertools.count()


def event(
    start: int, end: int | None, name: str, *arguments: Any, then: str = "ok", value: Any = None
) -> Event:
    """An operation from start to end; end None: no answer came."""
    return Event(
        client=next(CLIENTS),
        name=name,
        arguments=arguments,
        outcome=UNKNOWN if end is None else then,
        value=value,
        called_ns=start,
        returned_ns=end,
    )


def created(*tables: tuple[str, str]) -> list[Event]:
    """A lake with these tables; all before time 100."""
    names = [event(10 + n, 10 + n, "create_table", name, f"t{n}") for n, name in enumerate(tables)]
    return [
        event(1, 2, "create_bucket"),
        event(3, 4, "create_namespace", "n1"),
        *names,
    ]


def table(*marks: str, head: str | None = None) -> Table:
    return Table(frozenset(marks), head)


LEGAL: dict[str, list[Event]] = {
    "nothing": [],
    "a read beside a write sees either state": [
        *created(A),
        event(100, 200, "mark", A, "p1"),
        event(110, 150, "load", A, value=table("t0")),
        event(120, 160, "load", A, value=table("t0", "p1")),
    ],
    "one of two creators wins, whoever was called first": [
        *created(),
        event(100, 200, "create_table", A, "t5", then="conflict"),
        event(110, 190, "create_table", A, "t6"),
        event(300, 400, "load", A, value=table("t6")),
    ],
    "an unanswered drop took effect": [
        *created(A),
        event(100, None, "drop_table", A),
        event(200, 300, "load", A, then="missing"),
    ],
    "an unanswered drop did not take effect": [
        *created(A),
        event(100, None, "drop_table", A),
        event(200, 300, "load", A, value=table("t0")),
    ],
    "an unanswered drop takes effect late": [
        *created(A),
        event(100, None, "drop_table", A),
        event(200, 300, "load", A, value=table("t0")),
        event(400, 500, "load", A, then="missing"),
    ],
    "a rename frees its old name": [
        *created(A),
        event(100, 200, "rename", A, B),
        event(300, 400, "create_table", A, "t7"),
        event(500, 600, "load", B, value=table("t0")),
    ],
    "a file went with its table bucket": [
        *created(A),
        event(100, 110, "drop_table", A),
        event(120, 130, "drop_namespace", "n1"),
        event(140, 150, "delete_bucket"),
        event(160, 170, "create_bucket"),
        event(180, 190, "create_namespace", "n1"),
        event(200, 210, "register", A, table("t0"), then="missing"),
    ],
}
ILLEGAL: dict[str, list[Event]] = {
    "a read that began after a write's answer sees the state before": [
        *created(A),
        event(100, 200, "mark", A, "p1"),
        event(201, 300, "load", A, value=table("t0")),
    ],
    "two creators of one name win": [
        *created(),
        event(100, 200, "create_table", A, "t5"),
        event(110, 190, "create_table", A, "t6"),
    ],
    "two appends to one head win": [
        *created(A),
        event(100, 200, "append", A, None, "s1"),
        event(110, 190, "append", A, None, "s2"),
    ],
    "a lost update": [
        *created(A),
        event(100, 200, "mark", A, "p1"),
        event(110, 190, "mark", A, "p2"),
        event(300, 400, "load", A, value=table("t0", "p2")),
    ],
    "a commit of two tables is seen half": [
        *created(A, B),
        event(100, 400, "mark_both", A, B, "p1"),
        event(150, 160, "load", A, value=table("t0", "p1")),
        event(170, 180, "load", B, value=table("t1")),
    ],
    "a rename is seen with both names": [
        *created(A),
        event(100, 200, "rename", A, B),
        event(110, 120, "list_tables", "n1", value=frozenset("ab")),
    ],
    "two readers disagree about the order": [
        *created(A),
        event(100, 400, "mark", A, "p1"),
        event(100, 400, "mark", A, "p2"),
        event(110, 200, "load", A, value=table("t0", "p1")),
        event(210, 300, "load", A, value=table("t0", "p2")),
    ],
    "a namespace is dropped under a table": [
        *created(A),
        event(100, 200, "drop_namespace", "n1"),
    ],
    "a table bucket is deleted with a namespace in it": [
        *created(),
        event(100, 200, "create_namespace", "n2"),
        event(110, 190, "delete_bucket"),
    ],
    "a registered table is lost with its file": [
        *created(A),
        event(100, 200, "drop_table", A),
        event(300, 400, "delete_metadata", table("t0")),
        event(310, 390, "register", A, table("t0")),
        event(500, 600, "load", A, then="missing"),
    ],
    "a file that is there is called missing": [
        *created(A),
        event(100, 200, "drop_table", A),
        event(310, 390, "register", A, table("t0"), then="missing"),
    ],
    "a table is registered from a table bucket that went": [
        *created(A),
        event(100, 110, "drop_table", A),
        event(120, 130, "drop_namespace", "n1"),
        event(140, 150, "delete_bucket"),
        event(160, 170, "create_bucket"),
        event(180, 190, "create_namespace", "n1"),
        event(200, 210, "register", A, table("t0")),
    ],
    "a table is registered twice": [
        *created(A),
        event(310, 390, "register", B, table("t0")),
    ],
    "an unanswered create takes effect before it was called": [
        *created(),
        event(100, 150, "load", A, value=table("t5")),
        event(200, None, "create_table", A, "t5"),
    ],
    "an unanswered create comes and goes": [
        *created(),
        event(100, None, "create_table", A, "t5"),
        event(200, 300, "load", A, value=table("t5")),
        event(400, 500, "load", A, then="missing"),
    ],
}


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_history_passes(name: str) -> None:
    assert lake_history.check(LEGAL[name]) is None


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_history_is_found(name: str) -> None:
    explanation = lake_history.check(ILLEGAL[name])
    assert explanation is not None
    assert "none of these can follow" in explanation


OBJECTS: dict[str, tuple[bool, list[Event]]] = {
    "the loser of two conditional puts is told": (
        True,
        [
            event(1, 9, "put_new k", "x"),
            event(2, 8, "put_new k", "y", then="conflict"),
            event(10, 11, "get k", value="x"),
        ],
    ),
    "both of two conditional puts win": (
        False,
        [event(1, 9, "put_new k", "x"), event(2, 8, "put_new k", "y")],
    ),
    "a deleted object comes back": (
        False,
        [
            event(1, 2, "put k", "x"),
            event(3, 4, "delete k"),
            event(5, 6, "get k", value="x"),
        ],
    ),
    "a replaced version matches": (
        False,
        [
            event(1, 2, "put k", "x"),
            event(3, 4, "put k", "y"),
            event(5, 6, "put_over k", "x", "z"),
        ],
    ),
    "two keys have nothing to do with each other": (
        True,
        [event(1, 2, "put_new k", "x"), event(3, 4, "put_new l", "x")],
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_history_of_objects_is_judged(name: str) -> None:
    is_legal, history = OBJECTS[name]
    assert (lake_history.check(history) is None) == is_legal


def brute_force(history: list[Event]) -> bool:
    """Try every order of every choice of unanswered operations."""
    answered = [each for each in history if each.outcome != UNKNOWN]
    open_ones = [each for each in history if each.outcome == UNKNOWN]
    return any(
        fits(order)
        for count in range(len(open_ones) + 1)
        for chosen in itertools.combinations(open_ones, count)
        for order in itertools.permutations([*answered, *chosen])
    )


def fits(order: tuple[Event, ...]) -> bool:
    for number, each in enumerate(order):
        if any(
            later.returned_ns is not None and later.returned_ns < each.called_ns
            for later in order[number + 1 :]
        ):
            return False
    states = {None}
    for each in order:
        states = {after for state in states for after in lake_model.object_step(state, each)}
    return bool(states)


def test_the_search_agrees_with_every_order_tried() -> None:
    chance = random.Random(0)
    verdicts = {True: 0, False: 0}
    for _ in range(400):
        history = []
        for number in range(chance.randrange(1, 6)):
            start = chance.randrange(20)
            end = None if chance.random() < 0.2 else start + chance.randrange(1, 15)
            name = chance.choice(("get", "put", "put_new", "put_over", "delete"))
            fresh, expected = str(number), str(chance.randrange(5))
            arguments = {"put": (fresh,), "put_new": (fresh,), "put_over": (expected, fresh)}
            then = chance.choice(("ok", "ok", "conflict", "missing"))
            value = expected if name == "get" and then == "ok" else None
            history.append(
                event(start, end, name, *arguments.get(name, ()), then=then, value=value)
            )
        explanation = linearize.check(history, initial=None, step=lake_model.object_step)
        assert explanation.ok == brute_force(history), [str(each) for each in history]
        verdicts[explanation.ok] += 1
    assert min(verdicts.values()) > 50


def test_a_search_that_grows_too_large_says_so() -> None:
    history = [event(1, 100, "mark", A, f"p{number}") for number in range(12)]
    history.append(event(101, 102, "load", A, value=table("none")))
    lake = Lake(exists=True, namespaces=frozenset({"n1"})).with_table(A, table("t0"))
    with pytest.raises(linearize.Inconclusive):
        linearize.check(history, initial=lake, step=lake_model.lake_step, configurations_max=1_000)
