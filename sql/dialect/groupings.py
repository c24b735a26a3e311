"""rule: the keys of GROUP BY, with ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from sql import errors
from sql.dialect import expressions, scopes
from sql.plan import code, emit, relations
from sql.plan.expressions import Expr

WRITTEN_SETS_MAX: Final = 4_096
"""Sets of one ROLLUP or CUBE that are written out one by one."""
_WORDS: Final = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}

Keys = tuple[code.Part, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grouping:
    """The parts of a GROUP BY. sets: the number of grouping sets that they are."""

    parts: tuple[code.Part | relations.GroupingSets, ...] = ()
    sets: int = 1


def bind(group: Any, items: list[Expr], scope: scopes.QueryScope) -> Grouping:
    """Return the parts of a GROUP BY clause, of none if group is None. Raises SqlError.

    items: of the SELECT list, to which ordinals refer.
    """
    if group is None:
        return Grouping()
    if group.args.get("totals"):
        raise errors.unsupported("GROUP BY TOTALS")
    if group.args.get("all") is False:  # None without a word
        raise errors.unsupported("GROUP BY DISTINCT")
    if group.args.get("all"):
        if _nodes(group):
            raise errors.unsupported("GROUP BY ALL beside keys")
        listed = {
            emit.text(item): item
            for item in items
            if not (item.aggregate or item.window or item.is_literal)
        }
        return Grouping(parts=tuple(listed.values()))
    nodes = _nodes(group)
    keys = [node for node in nodes if not _is_empty(node)]
    if nodes and not keys:  # GROUP BY (): one group, also of no rows
        empty = relations.GroupingSets(word="GROUPING SETS", sets=((),))
        return Grouping(parts=(empty,))
    nodes = keys
    binder = _Binder(items, scope)
    parts = [part for node in nodes if (part := binder.part(node)) is not None]
    if not parts and group.expressions:
        # Only constants: one group, if there is a row at all.
        return Grouping(parts=(code.arrow(code.NULL, "Int64"),))
    return Grouping(parts=tuple(parts), sets=binder.sets)


def has_sets(group: Any) -> bool:
    """Return whether a GROUP BY has ROLLUP, CUBE or GROUPING SETS, whose rows lack keys."""
    return group is not None and any(
        isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) for node in _nodes(group)
    )


def _nodes(group: Any) -> list[Any]:
    nodes = list(group.expressions)
    for name in ("rollup", "cube", "grouping_sets"):
        nodes += group.args.get(name) or ()
    return nodes


def _is_empty(node: Any) -> bool:
    """Return whether a key is written as `()`."""
    return isinstance(node, exp.Tuple) and not node.expressions


class _Binder:
    """Binds the keys of one clause. sets: counts their grouping sets."""

    def __init__(self, items: list[Expr], scope: scopes.QueryScope) -> None:
        self._items = items
        self._scope = scope
        self.sets = 1

    def part(self, node: Any) -> code.Part | relations.GroupingSets | None:
        """Return one part; None for a constant, which is no key."""
        word = _WORDS.get(type(node))
        if word is not None:
            return self._rolled(word, [self._keys(each) for each in node.expressions])
        if isinstance(node, exp.GroupingSets):
            sets = [self._keys(each) for each in node.expressions]
            self.sets *= max(len(sets), 1)
            return relations.GroupingSets(word="GROUPING SETS", sets=tuple(sets))
        return self._key(node)

    def _rolled(self, word: str, elements: list[Keys]) -> relations.GroupingSets:
        """Return ROLLUP or CUBE of elements, each of which is one key, several or none.

        The engine's own words take different single keys alone.
        """
        width = len(elements)
        count = width + 1 if word == "ROLLUP" else 1 << width
        self.sets *= count
        single = [keys[0] for keys in elements if len(keys) == 1]
        if len(single) == width == len({emit.text(key) for key in single}):
            return relations.GroupingSets(word=word, sets=(tuple(single),))
        if count > WRITTEN_SETS_MAX:
            raise errors.unsupported(f"{word} of {width} keys that are constant or repeated")
        chosen = _prefixes(elements) if word == "ROLLUP" else _subsets(elements)
        sets = tuple(_distinct(itertools.chain.from_iterable(each)) for each in chosen)
        return relations.GroupingSets(word="GROUPING SETS", sets=sets)

    def _keys(self, node: Any) -> Keys:
        """Return the keys of one element: those of a list in parentheses, or one, or none."""
        inner = node.expressions if isinstance(node, exp.Tuple) else [node]
        keys = [self._key(each.unnest() if isinstance(each, exp.Paren) else each) for each in inner]
        return _distinct(key for key in keys if key is not None)

    def _key(self, node: Any) -> code.Part | None:
        place = scopes.ordinal(node, len(self._items))
        self._scope.is_grouping = True
        try:
            bound = (
                self._items[place - 1] if place is not None else expressions.bind(node, self._scope)
            )
        finally:
            self._scope.is_grouping = False
        if bound.aggregate or bound.window:
            raise errors.SqlError(
                "002036",
                "42601",
                "SQL compilation error:\nInvalid aggregate function in GROUP BY clause",
                phase="COMPILATION",
            )
        return None if bound.is_literal else bound


def _prefixes(elements: Sequence[Keys]) -> Iterator[Sequence[Keys]]:
    """Yield the sets of ROLLUP."""
    for count in range(len(elements), -1, -1):
        yield elements[:count]


def _subsets(elements: Sequence[Keys]) -> Iterator[Sequence[Keys]]:
    """Yield the sets of CUBE."""
    for count in range(len(elements), -1, -1):
        yield from itertools.combinations(elements, count)


def _distinct(keys: Iterator[code.Part] | itertools.chain[code.Part]) -> Keys:
    """Return keys without repetitions, which the engine refuses within a set."""
    return tuple({emit.text(key): key for key in keys}.values())
