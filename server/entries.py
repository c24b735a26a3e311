"""rule: lists of named tables in mini.toml, such as `[[mounts]]`: their keys and their names.

What an entry's values mean is the list's own rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar


class NamedEntry(Protocol):
    """The value of an entry."""

    @property
    def name(self) -> str:
        """The entry's name, which no other has."""


Entry = TypeVar("Entry", bound=NamedEntry)


def parse(
    section: str,
    entries: Any,
    build: Callable[[Mapping[str, Any], str], Entry],
    *,
    keys: Sequence[str],
    entries_max: int,
    error: type[Exception],
) -> tuple[Entry, ...]:
    """Return the values of a decoded list.

    section: the list's name. build: makes a value of an entry, whose place it gets for its own
    errors. keys: those that an entry may have. error: raised, with a text that says what is wrong.
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise error(f"mini.toml {section}: not a list of [[{section}]] tables")
    if len(entries) > entries_max:
        raise error(f"mini.toml: more than {entries_max} [[{section}]]")
    values = []
    for number, entry in enumerate(entries, start=1):
        where = f"mini.toml [[{section}]] number {number}"
        if not isinstance(entry, Mapping):
            raise error(f"{where}: not a table")
        for key in entry:
            if key not in keys:
                raise error(f"{where}: unknown key {key!r}; the keys are {', '.join(keys)}")
        values.append(build(entry, where))
    names = [value.name for value in values]
    if len(set(names)) != len(names):
        raise error(f"mini.toml: two [[{section}]] have the same name")
    return tuple(values)
