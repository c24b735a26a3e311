"""engine: what reading a statement gave, kept for later statements of the same text.

Parsing and binding are functions of a text and of a `shapes.Environment`. A result is used again
where all that its reading read is equal: the tables as the names mean them at that moment, and
those values of the session that were looked at, its variables included. A reading that looked at
what belongs to one statement alone, such as its time, its session or the queries before it, is not
kept; neither is one with binds, or numbers of a sequence. So a kept result is the one that reading
again would give.

Rights, names and snapshots are no part of it: they are looked up for each statement before its
query is bound, and their outcome is the environment's tables. Operations are kept without their
trees, which binding changes. The results that were unused for longest make room for new ones.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

from sql import limits
from sql.dialect import compilation, operations, resolve, shapes, sqltypes
from sql.plan import expressions, predicates

_Result = TypeVar("_Result", compilation.Needs, resolve.BoundQuery)

COMPARED: Final = frozenset(
    {
        "database",
        "schema",
        "warehouse",
        "role",
        "user",
        "account",
        "ip_address",
        "region",
        "version",
        "client",
        "timestamp_mapping",
        "forms",
        "inputs",
        "weeks",
        "century_start",
        "zone",
        "today",
    }
)
"""What a kept reading may have read of a `shapes.Context`: what statements of a session share."""


STEPS: Final = frozenset({"needs", "expand", "bind_query"})
"""The steps whose results are kept: methods of `compilation.ParsedStatement`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingStep:
    """A step of reading a text. name: one of STEPS.

    views: the texts of the views that were read before it, by table use, in their order. arguments:
    those of the method after the environment.
    """

    name: str
    text: str
    views: tuple[tuple[int, str], ...] = ()
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """A result, and what of its environment it was read with.

    looked_at: of the context. variables: the literals of those that were looked at, by their names;
    None for one that the session did not have.
    """

    tables: tuple[shapes.TableShape, ...]
    others: tuple[Any, ...]
    looked_at: Mapping[str, Any]
    variables: Mapping[str, expressions.Expr | None]
    result: Any
    size_bytes: int

    def fits(self, environment: shapes.Environment) -> bool:
        """Return whether reading with that environment would give the same result."""
        return (
            self.tables == environment.tables
            and self.others == _others(environment)
            and all(
                getattr(environment.context, name) == value
                for name, value in self.looked_at.items()
            )
            and all(
                _is_same(environment.variables.get(name), value)
                for name, value in self.variables.items()
            )
        )


@dataclass(kw_only=True, slots=True)
class Looks:
    """What the steps of one statement have looked at in its context so far. Mutable.

    A step depends on it too: the steps before it number the tables of the tree that it reads.
    """

    values: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, expressions.Expr | None] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class _OfText:
    """What is kept of one text. Mutable."""

    operation: operations.Operation | None = None
    readings: dict[ReadingStep, list[_Reading]] = field(default_factory=dict)
    size_bytes: int = 0


class Readings:
    """Readings of texts, of all sessions together. Mutable."""

    def __init__(self, *, bytes_max: int = limits.READINGS_KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._texts: OrderedDict[str, _OfText] = OrderedDict()
        self.size_bytes = 0

    def operation(self, text: str) -> operations.Operation | None:
        """Return the query that text is, without its tree; None if that is not kept."""
        of_text = self._texts.get(text)
        if of_text is None:
            return None
        self._texts.move_to_end(text)
        return of_text.operation

    def keep_operation(self, text: str, operation: operations.Operation) -> None:
        """Keep the query that text is. operation: without its tree."""
        self._of(text).operation = operation
        self._trim()

    def result(
        self,
        step: ReadingStep,
        environment: shapes.Environment,
        looks: Looks,
        read: Callable[[shapes.Environment], _Result],
    ) -> _Result:
        """Return what a step gives with an environment. read: takes the step, if it must be.

        looks: of the steps of this statement before; this one's are added.
        """
        if not _is_repeatable(environment):
            return read(environment)
        of_text = self._texts.get(step.text)
        if of_text is not None:
            for reading in reversed(of_text.readings.get(step, [])):
                if reading.fits(environment):
                    looks.values.update(reading.looked_at)
                    looks.variables.update(reading.variables)
                    return cast(_Result, reading.result)
        context = cast(shapes.Context, _Noting(environment.context, looks))
        variables = _NotingVariables(environment.variables, looks)
        result = read(replace(environment, context=context, variables=variables))
        if looks.values.keys() <= COMPARED:
            self._keep(step, environment, looks, result)
        return result

    def _keep(
        self,
        step: ReadingStep,
        environment: shapes.Environment,
        looks: Looks,
        result: compilation.Needs | resolve.BoundQuery,
    ) -> None:
        reading = _Reading(
            tables=environment.tables,
            others=_others(environment),
            looked_at=dict(looks.values),
            variables=dict(looks.variables),
            result=result,
            size_bytes=_size_bytes(step, environment, looks, result),
        )
        if reading.size_bytes > self._bytes_max // 8:
            return
        of_text = self._of(step.text)
        readings = of_text.readings.setdefault(step, [])
        grown_bytes = reading.size_bytes
        if len(readings) == limits.READINGS_OF_STEP_MAX:
            grown_bytes -= readings.pop(0).size_bytes
        readings.append(reading)
        of_text.size_bytes += grown_bytes
        self.size_bytes += grown_bytes
        self._trim()

    def _of(self, text: str) -> _OfText:
        of_text = self._texts.get(text)
        if of_text is None:
            size_bytes = sys.getsizeof(text) + ENTRY_BYTES
            of_text = self._texts[text] = _OfText(size_bytes=size_bytes)
            self.size_bytes += size_bytes
        self._texts.move_to_end(text)
        return of_text

    def _trim(self) -> None:
        while self.size_bytes > self._bytes_max:
            _, of_text = self._texts.popitem(last=False)
            self.size_bytes -= of_text.size_bytes


class _Noting:
    """A session's context that notes which of its values are read. Mutable."""

    def __init__(self, context: shapes.Context, looks: Looks) -> None:
        self._context = context
        self._values = looks.values

    def __getattr__(self, name: str) -> Any:
        value = self._values[name] = getattr(self._context, name)
        return value


class _NotingVariables(Mapping[str, expressions.Expr]):
    """A session's variables that note which of them are read, or looked for. Mutable."""

    def __init__(self, variables: Mapping[str, expressions.Expr], looks: Looks) -> None:
        self._variables = variables
        self._looks = looks

    def __getitem__(self, name: str) -> expressions.Expr:
        value = self._looks.variables[name] = self._variables.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        self._looks.values["variables"] = None  # not COMPARED
        return iter(self._variables)

    def __len__(self) -> int:
        self._looks.values["variables"] = None
        return len(self._variables)


def _is_same(one: expressions.Expr | None, other: expressions.Expr | None) -> bool:
    """Return whether two literals are the same, or there is none.

    -0.0, which is equal to 0.0, is another one.
    """
    if one is None or other is None:
        return one is other
    return one == other and repr(one.literal) == repr(other.literal)


ENTRY_BYTES: Final = 1_000
"""At most what an entry takes beside its texts, columns and conditions."""
COLUMN_BYTES: Final = 600
"""At most what a column, or a member of a nested one's type, takes, but for its name."""
CONDITION_BYTES: Final = 300
"""At most what a condition or one of its values takes, but for texts, which the text has too."""


def _is_repeatable(environment: shapes.Environment) -> bool:
    return not (
        environment.binds or environment.rows_relation or environment.pivots or environment.numbers
    )


def _others(environment: shapes.Environment) -> tuple[Any, ...]:
    """Return what else is read of an environment in which nothing is bound."""
    return (
        environment.binds is None,
        environment.pivots is None,
        environment.columns_max,
        environment.emits_spark,
    )


def _size_bytes(
    step: ReadingStep,
    environment: shapes.Environment,
    looks: Looks,
    result: compilation.Needs | resolve.BoundQuery,
) -> int:
    """Return about how many bytes a reading takes, at most."""
    size_bytes = ENTRY_BYTES + sum(sys.getsizeof(text) for _, text in step.views)
    for variable in looks.variables.values():
        # Its text also stands in the query's own, and in its conditions.
        literal = None if variable is None else variable.literal
        size_bytes += CONDITION_BYTES + 3 * sys.getsizeof(literal)
    size_bytes += sum(sys.getsizeof(each) for each in step.arguments)
    for table in environment.tables:
        size_bytes += sum(_column_bytes(column.name, column.type) for column in table.columns)
    if isinstance(result, compilation.Needs):
        return size_bytes + ENTRY_BYTES * len(result.uses)
    size_bytes += sys.getsizeof(result.sql) + sys.getsizeof(result.spark)
    size_bytes += sum(ENTRY_BYTES + sys.getsizeof(each.sql) for each in result.drawings)
    for column, sql_type in zip(result.columns, result.types, strict=True):
        size_bytes += _column_bytes(column.name, sql_type)
    conditions = sum(_conditions_in(each) for each in result.filters.values())
    return size_bytes + CONDITION_BYTES * conditions + sys.getsizeof(step.text)


def _column_bytes(name: str, sql_type: sqltypes.SqlType) -> int:
    members = () if sql_type.structure is None else sql_type.structure.members
    size_bytes = COLUMN_BYTES + sys.getsizeof(name)
    return size_bytes + sum(_column_bytes(*member) for member in members)


def _conditions_in(conditions: Sequence[predicates.Filter]) -> int:
    """Return how many conditions and values stand in conditions."""
    count = 0
    for condition in conditions:
        if isinstance(condition, predicates.ColumnPredicate):
            count += 1 + len(condition.values)
        else:
            count += 1 + _conditions_in(condition.parts)
    return count
