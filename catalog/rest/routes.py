"""rule: parses the path and the query of a request to the REST catalog.

A path is split while it is percent-encoded, so a name may contain any character. Without a prefix
the path refers to the default warehouse; therefore the first words of paths are reserved names of
table buckets. Never reads a body, and contains no operation.
Source: Iceberg REST catalog specification, paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import msgspec

from catalog import idents

T = TypeVar("T")

VERSION: Final = "v1"
PREFIX: Final = "{prefix}"


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The values in a path and a query. prefix: None for the default warehouse.

    name: of a table, view or function. plan_id: of a scan plan. query: each name's first value.
    Requests share these, so the query cannot be changed.
    """

    prefix: str | None = None
    namespace: idents.Namespace = ()
    name: str = ""
    plan_id: str = ""
    query: Mapping[str, str]


class Routes(Generic[T]):
    """A table of routes: a method, a path as in a server's `endpoints` list, and the route's
    target."""

    def __init__(self, routes: Iterable[tuple[str, str, T]]) -> None:
        self._by_shape: dict[tuple[str, tuple[str, ...]], T] = {}
        first_words = set()
        for method, path, value in routes:
            version, *words = path.removeprefix("/").split("/")
            assert version == VERSION, path
            below = words[1:] if words[0] == PREFIX else words
            first_words.add(below[0])
            key = (method, _shape(below))
            assert key not in self._by_shape, f"two routes of one shape: {method} {path}"
            self._by_shape[key] = value
        self._first_words = frozenset(first_words)

    def find(self, method: str, segments: Sequence[str]) -> T | None:
        """Return the target of a request, None if the catalog has no such route.

        segments: of the path below the catalog's root, each decoded once.
        """
        if not segments or segments[0] != VERSION:
            return None
        return self._by_shape.get((method, _shape(self._split(segments)[1])))

    def parse(
        self,
        segments: Sequence[str],
        pairs: Sequence[tuple[str, str]],
        *,
        separator: str = idents.SEPARATOR,
    ) -> Parameters:
        """Return the parameters of a request that has a route.

        pairs: the query, decoded. separator: of a namespace's levels, see `idents`.
        """
        prefix, below = self._split(segments)
        has_namespace = below[0] == "namespaces" and len(below) > 1
        return Parameters(
            prefix=prefix,
            namespace=idents.parse_namespace(below[1], separator) if has_namespace else (),
            name=below[3] if has_namespace and len(below) > 3 else "",
            plan_id=below[5] if len(below) > 5 else "",
            query=MappingProxyType(dict(reversed(pairs))),
        )

    def _split(self, segments: Sequence[str]) -> tuple[str | None, Sequence[str]]:
        """Return the prefix of a path, and the rest."""
        below = segments[1:]
        if below and below[0] not in self._first_words:
            return below[0], below[1:]
        return None, below


def _shape(below: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a path without its names: every other segment is a name."""
    if len(below) > 1 and below[0] == "namespaces":
        if "" in below:
            return ()
        return tuple("" if index % 2 else word for index, word in enumerate(below))
    return tuple(below)
