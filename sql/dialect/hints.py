"""rule: where an unknown name stands in a text, and which name may have been meant.

A name counts as meant if few of its letters differ. Never searches more than `NAMES_MAX` names,
and never names what the statement cannot see: the caller has the candidates.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable
from typing import Any, Final

from sqlglot import exp

NAMES_MAX: Final = 500
NAME_LENGTH_MAX: Final = 80
ALIKE: Final = 0.75
"""How alike two names must be, as `difflib` measures it, from 0 to 1."""


def near(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most like a name, without regard to case; None if none is."""
    if len(name) > NAME_LENGTH_MAX:
        return None
    by_spelling = {
        each.upper(): each
        for each in itertools.islice(candidates, NAMES_MAX)
        if len(each) <= NAME_LENGTH_MAX
    }
    alike = difflib.get_close_matches(name.upper(), by_spelling, n=1, cutoff=ALIKE)
    return by_spelling[alike[0]] if alike else None


def place(node: exp.Column) -> dict[str, int]:
    """Return line (from 1) and position (from 0) of a column's name; nothing if it has none."""
    first = next(
        part
        for part in (*(node.args.get(key) for key in ("catalog", "db", "table")), node.this)
        if part
    )
    return place_of(first)


def place_of(node: Any) -> dict[str, int]:
    """Return line and position of an identifier, as `place` does."""
    meta = node.meta
    if "line" not in meta:
        return {}
    position = meta["col"] - (meta["end"] - meta["start"] + 1)
    return {"line": meta["line"], "position": position} if position >= 0 else {}
