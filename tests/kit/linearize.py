"""Says whether a history of concurrent operations could have happened one after the other.

The algorithm is Wing and Gong's search with Lowe's memory of configurations: try each operation
that no unfinished one must precede, ask the model whether its outcome fits, go on; on a dead end go
back. A configuration (which operations are done, the model's state) is tried once. An operation
whose outcome is unknown may take effect at any time after its call, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

State = TypeVar("State", bound=Hashable)

CONFIGURATIONS_MAX = 2_000_000
UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One operation: what a client asked, what it was answered, and when.

    returned_ns: None where no answer came. outcome: a word, UNKNOWN where the client cannot tell.
    """

    client: int
    name: str
    arguments: tuple[Any, ...] = ()
    outcome: str = UNKNOWN
    value: Any = None
    called_ns: int
    returned_ns: int | None = None

    def __str__(self) -> str:
        answer = self.outcome if self.value is None else f"{self.outcome} {_shown(self.value)}"
        arguments = ", ".join(_shown(each) for each in self.arguments)
        return f"client {self.client}: {self.name}({arguments}) -> {answer}"


class Inconclusive(Exception):
    """The search met more configurations than it may."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict(Generic[State]):
    """order: a legal order, or the longest legal beginning that was met. ok: it is whole."""

    ok: bool
    order: tuple[Event, ...]
    state: State
    configurations: int = field(default=0)


def check(
    history: Sequence[Event],
    *,
    initial: State,
    step: Callable[[State, Event], Iterable[State]],
    configurations_max: int = CONFIGURATIONS_MAX,
) -> Verdict[State]:
    """Search for an order of history that the model allows.

    step(state, event): the states that follow when event takes effect in state with its outcome;
    none if it cannot. For an UNKNOWN outcome: every effect that it may have had.
    Raises Inconclusive.
    """
    events = sorted(history, key=lambda event: event.called_ns)
    ends = [
        None if event.outcome == UNKNOWN or event.returned_ns is None else event.returned_ns
        for event in events
    ]
    needed = sum(1 << number for number, end in enumerate(ends) if end is not None)
    seen: set[tuple[int, State]] = {(0, initial)}
    # Each entry: what is done, the state, the order so far.
    stack: list[tuple[int, State, tuple[int, ...]]] = [(0, initial, ())]
    longest: tuple[tuple[int, ...], State] = ((), initial)
    while stack:
        done, state, order = stack.pop()
        if done & needed == needed:
            return Verdict(
                ok=True,
                order=tuple(events[number] for number in order),
                state=state,
                configurations=len(seen),
            )
        if len(order) > len(longest[0]):
            longest = (order, state)
        for number in reversed(_next(events, ends, done)):
            for following in step(state, events[number]):
                configuration = (done | 1 << number, following)
                if configuration not in seen:
                    if len(seen) >= configurations_max:
                        raise Inconclusive(f"more than {configurations_max} configurations")
                    seen.add(configuration)
                    stack.append((*configuration, (*order, number)))
    order, state = longest
    return Verdict(
        ok=False,
        order=tuple(events[number] for number in order),
        state=state,
        configurations=len(seen),
    )


def _next(events: Sequence[Event], ends: Sequence[int | None], done: int) -> list[int]:
    """Return the operations that may come next: called before every unfinished one's return."""
    open_numbers: list[int] = []
    first_end: int | None = None
    for number, event in enumerate(events):
        if done >> number & 1:
            continue
        if first_end is not None and event.called_ns > first_end:
            break
        open_numbers.append(number)
        end = ends[number]
        if end is not None and (first_end is None or end < first_end):
            first_end = end
    return [
        number
        for number in open_numbers
        if first_end is None or events[number].called_ns <= first_end
    ]


def explain(history: Sequence[Event], verdict: Verdict[Any]) -> str:
    """Say in lines how far a legal order goes and what cannot follow."""
    placed = set(map(id, verdict.order))
    origin = min((event.called_ns for event in history), default=0)
    rest = sorted(
        (event for event in history if id(event) not in placed), key=lambda event: event.called_ns
    )
    return "\n".join(
        [
            "no legal order; the longest beginning:",
            *(f"  {_times(event, origin)} {event}" for event in verdict.order),
            f"state: {verdict.state}",
            "none of these can follow:",
            *(f"  {_times(event, origin)} {event}" for event in rest),
        ]
    )


def _times(event: Event, origin: int) -> str:
    end = "      ..." if event.returned_ns is None else f"{(event.returned_ns - origin) / 1e6:9.2f}"
    return f"{(event.called_ns - origin) / 1e6:9.2f} {end} ms"


def _shown(value: Any) -> str:
    if isinstance(value, frozenset):
        return "{" + " ".join(sorted(map(str, value))) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(_shown(each) for each in value) + ")"
    return str(value)
