"""engine: what stays between queries: the library's contexts, and plans of queries that come again.

Two contexts belong together. The first has the tables while a query is planned: it parses the text
and optimises the logical plan, which then holds its tables itself. The second computes that plan;
it has no table and no rule that would change a logical plan, so what it computes is the plan as the
first one left it. It knows the files' footers.

A plan is a function of the query without its names, and of its files, whose folders never change.
So a query that is equal but for these is computed from the plan of the one before it. Plans hold no
rows: queries of rows that come with them, or of files with deletes, are not kept.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from sql import engine, limits


@dataclass(frozen=True, kw_only=True, slots=True)
class LogicalPlan:
    """A query's optimised logical plan, and the schema of its result as it is sent."""

    logical: Any
    schema: pa.Schema

    def text_length(self) -> int:
        """Return the characters of the plan as text, which has all its nodes and constants.

        A short query may have a large plan: each use of a common table expression is a copy of it,
        conditions are copied to each table, and a call with constants is replaced by its value.
        """
        return 0 if self.logical is None else len(self.logical.display_indent())


@dataclass(kw_only=True, slots=True, eq=False)
class EngineContexts:
    """Two contexts of the same settings, which one query uses at a time. Mutable.

    settings: what they were made for. plans: by the keys of their queries, the one used last at
    the end. sizes_bytes: of each plan with its key. size_bytes: their sum.
    """

    settings: str
    planning: Any
    computing: Any
    plans: OrderedDict[bytes, LogicalPlan] = field(default_factory=OrderedDict)
    sizes_bytes: dict[bytes, int] = field(default_factory=dict)
    size_bytes: int = 0

    def keep(self, key: bytes, plan: LogicalPlan) -> None:
        """Keep the plan of a query, if it is not too large; those unused for longest make room."""
        if key in self.plans:
            self.plans.move_to_end(key)
            return
        size_bytes = len(key) + plan.text_length()
        if size_bytes > limits.PLAN_KEPT_BYTES_MAX:
            return
        self.plans[key] = plan
        self.sizes_bytes[key] = size_bytes
        self.size_bytes += size_bytes
        while self.size_bytes > limits.PLANS_KEPT_BYTES_MAX:
            unused, _ = self.plans.popitem(last=False)
            self.size_bytes -= self.sizes_bytes.pop(unused)


class Resting:
    """The contexts that no query uses now. Mutable; threads may share it."""

    def __init__(self) -> None:
        self._contexts: list[EngineContexts] = []
        self._lock = threading.Lock()

    def take(self, settings: str) -> EngineContexts | None:
        """Return contexts of these settings; None if none are left."""
        return self._take(lambda contexts: contexts.settings == settings)

    def take_planned(self, key: bytes) -> EngineContexts | None:
        """Return contexts that have the plan of the query with that key; None if none have."""
        return self._take(lambda contexts: key in contexts.plans)

    def put(self, contexts: EngineContexts) -> None:
        """Take contexts back; those that were unused for longest make room."""
        with self._lock:
            self._contexts.append(contexts)
            if len(self._contexts) > limits.CONTEXTS_RESTING_MAX:
                del self._contexts[0]

    def _take(self, fits: Callable[[EngineContexts], bool]) -> EngineContexts | None:
        with self._lock:
            for index in reversed(range(len(self._contexts))):
                if fits(self._contexts[index]):
                    return self._contexts.pop(index)
        return None


def key_of(query: engine.EngineQuery) -> bytes | None:
    """Return what a query's plan depends on; None for a query whose plan is not kept."""
    if query.purpose != "run" or query.write is not None or query.unload is not None:
        return None
    size_bytes = len(query.text)
    for relation in query.relations:
        size_bytes += len(relation.schema)
        if relation.rows is not None:
            return None
        for group in relation.groups:
            if group.position_deletes or group.equality_deletes:
                return None
            size_bytes += len(group.schema)
    if size_bytes > limits.PLAN_KEPT_BYTES_MAX:
        return None
    memory = engine.QueryBounds(memory_bytes=query.limits.memory_bytes)
    nameless = dataclasses.replace(query, query_id="", owner="", warehouse="", limits=memory)
    key = msgspec.msgpack.encode(nameless)
    return key if len(key) <= limits.PLAN_KEPT_BYTES_MAX else None
