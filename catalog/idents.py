"""rule: names of tables, views and namespaces, and their encodings.

A namespace is a tuple of levels. In a URL its levels are joined by the unit separator 0x1F; in
messages, and in the directory of its tables, by dots. Bounds keep every index key below LMDB's 511
bytes. Names keep their case and are not normalised.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from catalog import errors

Namespace: TypeAlias = tuple[str, ...]
PointerType: TypeAlias = Literal["table", "view"]
"""What a name in a namespace stands for: tables and views share its names."""

SEPARATOR: Final = "\x1f"
NAME_BYTES_MAX: Final = 255
NAMESPACE_BYTES_MAX: Final = 400
NAMESPACE_LEVELS_MAX: Final = 16

_CONTROL = re.compile("[\x00-\x1f\x7f]")


class TableIdent(msgspec.Struct, frozen=True, kw_only=True):
    """The full name of a table or view."""

    table_bucket: str
    namespace: Namespace
    name: str

    def dotted(self) -> str:
        """Return namespace and name as in messages."""
        return ".".join((*self.namespace, self.name))


def dotted(namespace: Namespace) -> str:
    """Return the namespace as in messages."""
    return ".".join(namespace)


def parse_namespace(text: str, separator: str = SEPARATOR) -> Namespace:
    """Return the levels of a namespace in a URL, percent-decoded once.

    separator: between levels, where no 0x1F is: clients that know no other separate by that.
    """
    return tuple(text.split(SEPARATOR if SEPARATOR in text else separator))


def format_namespace(namespace: Namespace, separator: str = SEPARATOR) -> str:
    """Return the namespace as one string, for keys and URLs."""
    return separator.join(namespace)


def check_namespace(namespace: Sequence[str]) -> Namespace:
    """Return the namespace as a tuple. Raises InvalidName if it may not be created."""
    if not namespace:
        raise errors.InvalidName("A namespace needs at least one level")
    if len(namespace) > NAMESPACE_LEVELS_MAX:
        raise errors.InvalidName(
            f"A namespace has at most {NAMESPACE_LEVELS_MAX} levels, not {len(namespace)}"
        )
    for level in namespace:
        _check_text(level, "namespace level")
    if len(SEPARATOR.join(namespace).encode()) > NAMESPACE_BYTES_MAX:
        raise errors.InvalidName(f"A namespace is at most {NAMESPACE_BYTES_MAX} bytes long")
    return tuple(namespace)


def check_name(name: str, what: str = "table") -> None:
    """Raise InvalidName if a table or view may not have this name."""
    _check_text(name, f"{what} name")
    if "@" in name:
        raise errors.InvalidName(
            f"Invalid {what} name {name!r}: '@' stands between a name and a ref"
        )


def _check_text(text: str, what: str) -> None:
    if not text:
        raise errors.InvalidName(f"A {what} cannot be empty")
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise errors.InvalidName(f"Invalid {what}: it is not valid Unicode text") from None
    if size_bytes > NAME_BYTES_MAX:
        raise errors.InvalidName(f"A {what} is at most {NAME_BYTES_MAX} bytes long")
    if _CONTROL.search(text):
        raise errors.InvalidName(f"Invalid {what} {text!r}: it holds a control character")
