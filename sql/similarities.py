"""rule: how similar two texts are, by the measure of Jaro and Winkler."""

from __future__ import annotations

from sql import limits
from sql.kernelforms import coded

PREFIX_MAX = 4
PREFIX_WEIGHT = 0.1


def jaro_winkler(left: str, right: str) -> float:
    """Return a number from 0 to 1. Raises ValueError for texts that are too long to compare.

    A text without letters is similar to none. Letters match if they are the same, no farther apart
    than half of the longer text. The time is in proportion to the product of the lengths.
    """
    if not left or not right:
        return 0.0
    if left == right:
        return 1.0
    if len(left) * len(right) > limits.SIMILARITY_CELLS_MAX:
        raise coded("100078", f"texts of {len(left)} and {len(right)} characters")
    reach = max(max(len(left), len(right)) // 2 - 1, 0)
    is_taken = [False] * len(right)
    ours = []
    for place, letter in enumerate(left):
        for other in range(max(place - reach, 0), min(place + reach + 1, len(right))):
            if not is_taken[other] and right[other] == letter:
                is_taken[other] = True
                ours.append(letter)
                break
    if not ours:
        return 0.0
    theirs = [letter for letter, taken in zip(right, is_taken, strict=True) if taken]
    count = len(ours)
    moved = sum(one != other for one, other in zip(ours, theirs, strict=True)) // 2
    jaro = (count / len(left) + count / len(right) + (count - moved) / count) / 3
    shared = 0
    for pair in zip(left[:PREFIX_MAX], right[:PREFIX_MAX], strict=False):
        if pair[0] != pair[1]:
            break
        shared += 1
    return jaro + shared * PREFIX_WEIGHT * (1 - jaro)
