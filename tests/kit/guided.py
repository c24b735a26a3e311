"""Coverage-guided fuzzing: an input that reaches a new step of the code is mutated further.

A step is a pair of lines of our own modules that ran one after the other in a function. Hypothesis
builds inputs from what a test knows of a format; this finds those that the code itself tells apart.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tests.kit.server import ROOT

INPUT_BYTES_MAX = 4096
MUTATIONS_MAX = 4
OURS = tuple(f"{ROOT}/{name}/" for name in ("server", "storage"))

Step = tuple[str, int, int]
Target = Callable[[bytes], None]


@dataclass(frozen=True, kw_only=True)
class Explored:
    """The inputs that reached something new, the seeds among them, and the steps they reached."""

    inputs: list[bytes]
    steps: set[Step]


class Failed(AssertionError):
    """A target raised on an input; the message has the input."""


def explore(
    target: Target,
    seeds: Sequence[bytes],
    *,
    runs: int,
    seed: str,
    tokens: Sequence[bytes] = (),
    folders: Sequence[str] = OURS,
) -> Explored:
    """Run a target on mutations of the seeds. Raises Failed at the first input that it raises on.

    tokens: words of the format, put into inputs. folders: whose steps count.
    """
    chance = random.Random(seed)
    words = [*tokens, b"\0", b"\xff", b"\r\n", b'"', b"<", b"&", b"%", b"-1", b"9" * 30]
    inputs: list[bytes] = []
    steps: set[Step] = set()
    for number in range(len(seeds) + runs):
        is_seed = number < len(seeds)
        data = seeds[number] if is_seed else mutate(chance, inputs, words)
        reached = steps_of(target, data, tuple(folders))
        if is_seed or not reached <= steps:
            inputs.append(data)
            steps |= reached
    return Explored(inputs=inputs, steps=steps)


def steps_of(target: Target, data: bytes, folders: tuple[str, ...]) -> set[Step]:
    """Return the steps that the target takes on one input."""
    steps: set[Step] = set()

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(folders):
            return None
        last = 0

        def line(inner: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                steps.add((name, last, inner.f_lineno))
                last = inner.f_lineno
            return line

        return line

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        target(data)
    except Exception as error:
        raise Failed(f"{data!r}: {type(error).__name__}: {error}") from error
    finally:
        sys.settrace(before)
    return steps


def mutate(chance: random.Random, inputs: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """Return a changed copy of one of the inputs; the newest are chosen most often."""
    data = bytearray(chance.choice(inputs[-8:] if chance.random() < 0.5 else inputs))
    for _ in range(chance.randint(1, MUTATIONS_MAX)):
        start = chance.randint(0, len(data))
        stop = min(len(data), start + chance.choice((0, 1, 1, 2, 8, 64)))
        match chance.randrange(5):
            case 0:
                data[start:stop] = chance.choice(words)
            case 1:
                data[start:stop] = chance.randbytes(1)
            case 2:
                data[start:start] = data[start:stop] * chance.choice((1, 2, 50))
            case 3:
                del data[start:stop]
            case _:
                other = chance.choice(inputs)
                data[start:] = other[chance.randint(0, len(other)) :]
    return bytes(data[:INPUT_BYTES_MAX])
