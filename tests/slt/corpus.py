"""The entries of a sqllogictest file: `statement ok`, `statement error`, and `query` with rows.

An entry is named by its file and a count per sort: `q3` is the third query, `e1` the first refusal,
`s2` the second `statement ok`. `skipif` and `onlyif` name `snowflake` or another database.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Final

LABEL: Final = "snowflake"
SORTS: Final = {"query": "q", "error": "e", "statement": "s"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry. name: within its file. order: nosort, rowsort or valuesort."""

    name: str
    text: str
    width: int
    order: str
    expected: tuple[str, ...]

    @property
    def is_scored(self) -> bool:
        return not self.name.startswith("s")


def entries(document: str) -> list[Entry]:
    """Return the entries of a file, in its order. Other lines between entries are remarks."""
    read: list[Entry] = []
    counts: collections.Counter[str] = collections.Counter()
    lines, at, is_skipped = document.split("\n"), 0, False
    while at < len(lines):
        words = lines[at].split()
        at += 1
        if not words or words[0].startswith("#"):
            continue
        match words[0]:
            case "halt":
                break
            case "skipif" | "onlyif":
                is_skipped |= (words[1] == LABEL) == (words[0] == "skipif")
                continue
            case "statement" | "query":
                text, expected, at = _body(lines, at)
            case _:
                continue
        sort = SORTS["error" if words[1:2] == ["error"] else words[0]]
        counts[sort] += 1
        if not is_skipped:
            read.append(
                Entry(
                    name=f"{sort}{counts[sort]}",
                    text=text,
                    width=len(words[1]) if sort == "q" else 0,
                    order=next((word for word in words[2:] if word.endswith("sort")), "nosort"),
                    expected=tuple(expected),
                )
            )
        is_skipped = False
    return read


def _body(lines: list[str], at: int) -> tuple[str, list[str], int]:
    """Return an entry's text, its expected lines, and where it ends."""
    start = at
    while at < len(lines) and lines[at].strip() not in ("", "----"):
        at += 1
    text = "\n".join(lines[start:at]).rstrip().removesuffix(";")
    if at == len(lines) or lines[at].strip() != "----":
        return text, [], at
    start = at = at + 1
    while at < len(lines) and lines[at]:  # a line of blanks is a cell of blanks
        at += 1
    return text, lines[start:at], at
