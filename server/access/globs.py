"""rule: matching a text with a glob, in which `*` is any run of characters and `?` any one.

A glob is split at its stars into runs. The first run must begin the text and the last one end it.
Each run between two stars is searched for its first occurrence only, which is enough: a later
occurrence leaves less text to the runs behind it. No expression is compiled and nothing is tried
twice. In a long text, and for a run with `?`, a search is one operation on integers of one bit for
each character of the text, so that the time for all globs of a policy is bounded by their length.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

FOUND_CHARS_MAX: Final = 1_024
"""The longest text in which `str.find` searches: it compares up to len(run) * len(text)."""
TEXTS_REMEMBERED: Final = 2
"""Texts whose positions are remembered: all globs of a condition are matched with one text."""

ANY: Final = None
"""A `?` among the elements of a glob."""
STAR: Final = ()
"""A `*` among the elements of a glob."""

Element: TypeAlias = str | tuple[()] | None


class Gapped(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run with `?`: the literal texts with their offsets, and the length of the whole."""

    texts: tuple[tuple[int, str], ...]
    length: int


Run: TypeAlias = str | Gapped


class Glob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A glob, split. tail: None for a glob without a star, which `head` is then all of.

    A policy may have thousands of them, so it is a Struct: a tenth of what a dataclass costs.
    """

    head: Run
    middle: tuple[Run, ...] = ()
    tail: Run | None = None

    @property
    def prefix(self) -> str | None:
        """The text that begins each match, if the glob asks for nothing else."""
        is_all = self.tail == "" and not self.middle
        return self.head if is_all and isinstance(self.head, str) else None

    def matches(self, text: str) -> bool:
        """Return whether all of a text matches."""
        head, tail = self.head, self.tail
        if tail is None:
            if isinstance(head, str):
                return text == head
            return len(text) == head.length and _lies_at(head, text, 0)
        start = _length(head)
        stop = len(text) - _length(tail)
        if stop < start or not _lies_at(head, text, 0) or not _lies_at(tail, text, stop):
            return False
        for run in self.middle:
            start = _find(run, text, start, stop)
            if start < 0:
                return False
            start += _length(run)
        return True


def parse(text: str) -> Glob:
    """Return the glob of a text in which each `*` and `?` is a wildcard."""
    if "?" not in text:
        return _glob(text.split("*"))
    return _glob([_run(_split(run)) if "?" in run else run for run in text.split("*")])


def elements_of(text: str) -> list[Element]:
    """Return the elements of a text in which each `*` and `?` is a wildcard."""
    elements: list[Element] = []
    for number, run in enumerate(text.split("*")):
        if number:
            elements.append(STAR)
        elements.extend(_split(run))
    return elements


def build(elements: Iterable[Element]) -> Glob:
    """Return the glob of literal texts, ANY and STAR."""
    runs: list[list[str | None]] = [[]]
    for element in elements:
        if isinstance(element, tuple):
            runs.append([])
        else:
            runs[-1].append(element)
    return _glob([_run(run) for run in runs])


def _glob(runs: Sequence[Run]) -> Glob:
    if len(runs) == 1:
        return Glob(head=runs[0])
    return Glob(head=runs[0], middle=tuple([run for run in runs[1:-1] if run]), tail=runs[-1])


def _split(run: str) -> list[str | None]:
    elements: list[str | None] = []
    for number, literal in enumerate(run.split("?")):
        if number:
            elements.append(ANY)
        if literal:
            elements.append(literal)
    return elements


def _run(elements: Iterable[str | None]) -> Run:
    texts: list[tuple[int, str]] = []
    length = 0
    for element in elements:
        if element is None:
            length += 1
        else:
            texts.append((length, element))
            length += len(element)
    whole = "".join([text for _, text in texts])
    return whole if len(whole) == length else Gapped(texts=tuple(texts), length=length)


def _length(run: Run) -> int:
    return len(run) if isinstance(run, str) else run.length


def _lies_at(run: Run, text: str, position: int) -> bool:
    if isinstance(run, str):
        return text.startswith(run, position)
    return all(text.startswith(literal, position + offset) for offset, literal in run.texts)


def _find(run: Run, text: str, start: int, stop: int) -> int:
    """Return the first position of a run within text[start:stop], or -1."""
    if isinstance(run, str):
        if len(text) <= FOUND_CHARS_MAX:
            return text.find(run, start, stop)
        texts: tuple[tuple[int, str], ...] = ((0, run),)
        length = len(run)
    else:
        texts, length = run.texts, run.length
    if stop - start < length:
        return -1
    positions = _positions(text)
    # A bit for each position at which the run may begin.
    begins = (1 << (stop - length + 1)) - (1 << start)
    for offset, literal in texts:
        for index, character in enumerate(literal, offset):
            begins &= positions.get(character, 0) >> index
            if not begins:
                return -1
    return (begins & -begins).bit_length() - 1


@functools.lru_cache(TEXTS_REMEMBERED)
def _positions(text: str) -> Mapping[str, int]:
    """Return for each character of a text its positions, as the bits of an integer."""
    size_bytes = len(text) // 8 + 1
    rows = {character: bytearray(size_bytes) for character in set(text)}
    for position, character in enumerate(text):
        rows[character][position >> 3] |= 1 << (position & 7)
    return {character: int.from_bytes(row, "little") for character, row in rows.items()}
