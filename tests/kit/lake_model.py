"""The sequential model of a lake: what each operation may answer, and what it leaves.

Small on purpose: names that exist, tables as the set of marks that their changes left, objects as
ETags. A mark is a word that one operation alone writes, so a table's marks say which operations it
has seen: `t7`, a column, names the create that made it, `p11` is a property, `s13` a snapshot.

An outcome is a word: `ok`; `missing` (something that the operation names is not there); `conflict`
(something is there that must not be, or a condition does not hold); `refused` (a rule that is not
modelled, such as whose place it is: allowed where the operation says so); `unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from tests.kit.linearize import UNKNOWN, Event

Where: TypeAlias = tuple[str, str]
"""Namespace and name."""


class Table(NamedTuple):
    """A table. head: its current snapshot's mark, or None."""

    marks: frozenset[str]
    head: str | None

    @property
    def origin(self) -> str:
        """The mark of the create that made it, which a registered copy of its metadata keeps."""
        return min((mark for mark in self.marks if mark.startswith("t")), default="")


BARE = Table(frozenset(), None)
"""A table that was made without metadata: a name without content, until a create gives it some."""


class Lake(NamedTuple):
    """One table bucket. origins: of the tables that it had, whose files may keep it from being
    deleted. No file of another table is in it: a bucket that is deleted loses its files.

    gone: metadata files that were deleted, each by the table that it describes. A DELETE hides a
    table's file and leaves its bytes, so a table may or may not be made of such a file.
    """

    exists: bool = False
    origins: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    tables: frozenset[tuple[Where, Table]] = frozenset()
    gone: frozenset[Table] = frozenset()

    def table(self, where: Where) -> Table | None:
        return next((table for name, table in self.tables if name == where), None)

    def loadable(self, where: Where) -> Table | None:
        """Return a table that has metadata."""
        table = self.table(where)
        return None if table == BARE else table

    def with_table(self, where: Where, table: Table | None) -> Lake:
        kept = frozenset(row for row in self.tables if row[0] != where)
        if table is None:
            return self._replace(tables=kept)
        origins = self.origins | {table.origin}
        return self._replace(tables=kept | {(where, table)}, origins=origins)


Answer: TypeAlias = tuple[str, Any, Lake]
"""An outcome, its value (None: not compared), and what the lake is afterwards."""


def lake_step(lake: Lake, event: Event) -> Iterable[Lake]:
    """Yield the states that follow an operation on a table bucket."""
    return _matching(lake, event, OPERATIONS[event.name](lake, *event.arguments))


def object_step(etag: str | None, event: Event) -> Iterable[str | None]:
    """Yield the states that follow an operation on one object; its state is its ETag."""
    return _matching(etag, event, _object(etag, event.name, *event.arguments))


def _matching(state: Any, event: Event, answers: Iterable[tuple[str, Any, Any]]) -> list[Any]:
    matching: list[Any] = []
    for outcome, value, after in answers:
        if event.outcome == UNKNOWN or (
            event.outcome == outcome
            and (event.value is None or value is None or event.value == value)
        ):
            matching.append(after)
    return matching


def _object(etag: str | None, name: str, *arguments: str) -> Iterable[tuple[str, Any, Any]]:
    match name, arguments:
        case "get", ():
            yield ("missing", None, etag) if etag is None else ("ok", etag, etag)
        case "put", (fresh,):
            yield "ok", fresh, fresh
        case "put_new", (fresh,):
            yield ("ok", fresh, fresh) if etag is None else ("conflict", None, etag)
        case "put_over", (expected, fresh):
            if etag is None:
                yield "missing", None, etag
            else:
                yield ("ok", fresh, fresh) if etag == expected else ("conflict", None, etag)
        case "delete", ():
            yield "ok", None, None
        case _:
            raise AssertionError(name)


def _create_bucket(lake: Lake) -> Iterable[Answer]:
    yield ("conflict", None, lake) if lake.exists else ("ok", None, Lake(exists=True))


def _delete_bucket(lake: Lake) -> Iterable[Answer]:
    if not lake.exists:
        yield "missing", None, lake
        return
    if not lake.namespaces:
        yield "ok", None, Lake()
    if lake.namespaces or lake.origins:
        yield "conflict", None, lake


def _create_namespace(lake: Lake, namespace: str) -> Iterable[Answer]:
    if not lake.exists:
        yield "missing", None, lake
    elif namespace in lake.namespaces:
        yield "conflict", None, lake
    else:
        yield "ok", None, lake._replace(namespaces=lake.namespaces | {namespace})


def _drop_namespace(lake: Lake, namespace: str) -> Iterable[Answer]:
    if namespace not in lake.namespaces:
        yield "missing", None, lake
    elif any(where[0] == namespace for where, _ in lake.tables):
        yield "conflict", None, lake
    else:
        yield "ok", None, lake._replace(namespaces=lake.namespaces - {namespace})


def _drop_namespace_and_tables(lake: Lake, namespace: str) -> Iterable[Answer]:
    if namespace not in lake.namespaces:
        yield "missing", None, lake
        return
    yield (
        "ok",
        None,
        lake._replace(
            namespaces=lake.namespaces - {namespace},
            tables=frozenset(row for row in lake.tables if row[0][0] != namespace),
        ),
    )


def _list_tables(lake: Lake, namespace: str) -> Iterable[Answer]:
    if namespace not in lake.namespaces:
        yield "missing", None, lake
        return
    names = frozenset(where[1] for where, _ in lake.tables if where[0] == namespace)
    yield "ok", names, lake


def _create_table(lake: Lake, where: Where, mark: str) -> Iterable[Answer]:
    table = lake.table(where)
    if where[0] not in lake.namespaces:
        yield "missing", None, lake
        return
    if table is None or table == BARE:
        yield "ok", None, lake.with_table(where, Table(frozenset({mark}), None))
    if table is not None:  # not every face's create gives a bare table its metadata
        yield "conflict", None, lake


def _create_bare(lake: Lake, where: Where) -> Iterable[Answer]:
    if where[0] not in lake.namespaces:
        yield "missing", None, lake
    elif lake.table(where) is not None:
        yield "conflict", None, lake
    else:
        yield "ok", None, lake.with_table(where, BARE)


def _drop_table(lake: Lake, where: Where) -> Iterable[Answer]:
    if lake.table(where) is None:
        yield "missing", None, lake
    else:
        yield "ok", None, lake.with_table(where, None)


def _rename(lake: Lake, source: Where, target: Where) -> Iterable[Answer]:
    table = lake.table(source)
    if table is None or target[0] not in lake.namespaces:
        yield "missing", None, lake
    if lake.table(target) is not None:
        yield "conflict", None, lake
    elif table is not None and target[0] in lake.namespaces:
        yield "ok", None, lake.with_table(source, None).with_table(target, table)


def _load(lake: Lake, where: Where) -> Iterable[Answer]:
    table = lake.loadable(where)
    yield ("missing", None, lake) if table is None else ("ok", table, lake)


def _exists(lake: Lake, where: Where) -> Iterable[Answer]:
    yield ("missing" if lake.table(where) is None else "ok"), None, lake


def _columns(lake: Lake, where: Where) -> Iterable[Answer]:
    table = lake.loadable(where)
    if table is None:
        yield "missing", None, lake
    else:
        yield "ok", frozenset(mark for mark in table.marks if mark[0] == "t"), lake


def _mark(lake: Lake, where: Where, mark: str) -> Iterable[Answer]:
    table = lake.loadable(where)
    if table is None:
        yield "missing", None, lake
    else:
        marked = table._replace(marks=table.marks | {mark})
        yield "ok", None, lake.with_table(where, marked)


def _mark_both(lake: Lake, one: Where, other: Where, mark: str) -> Iterable[Answer]:
    first, second = lake.loadable(one), lake.loadable(other)
    if first is None or second is None:
        yield "missing", None, lake
        return
    after = lake.with_table(one, first._replace(marks=first.marks | {mark}))
    yield "ok", None, after.with_table(other, second._replace(marks=second.marks | {mark}))


def _append(lake: Lake, where: Where, expected: str | None, mark: str) -> Iterable[Answer]:
    table = lake.loadable(where)
    if table is None:
        yield "missing", None, lake
    elif table.head != expected:
        yield "conflict", None, lake
    else:
        yield "ok", None, lake.with_table(where, Table(table.marks | {mark}, mark))


def _register(lake: Lake, where: Where, table: Table) -> Iterable[Answer]:
    is_taken = any(each.origin == table.origin for _, each in lake.tables)
    has_files = table.origin in lake.origins
    if where[0] not in lake.namespaces or table in lake.gone or not has_files:
        yield "missing", None, lake
    if lake.table(where) is not None:
        yield "conflict", None, lake
    elif where[0] in lake.namespaces and has_files and not is_taken:
        yield "ok", None, lake.with_table(where, table)
    yield "refused", None, lake


def _delete_metadata(lake: Lake, table: Table) -> Iterable[Answer]:
    if not lake.exists:
        yield "missing", None, lake
    elif any(each == table for _, each in lake.tables):
        yield "ok", None, lake
    else:
        yield "ok", None, lake._replace(gone=lake.gone | {table})
    yield "refused", None, lake


OPERATIONS: dict[str, Callable[..., Iterable[Answer]]] = {
    "create_bucket": _create_bucket,
    "delete_bucket": _delete_bucket,
    "create_namespace": _create_namespace,
    "drop_namespace": _drop_namespace,
    "drop_namespace_and_tables": _drop_namespace_and_tables,
    "list_tables": _list_tables,
    "create_table": _create_table,
    "create_bare": _create_bare,
    "drop_table": _drop_table,
    "rename": _rename,
    "load": _load,
    "exists": _exists,
    "columns": _columns,
    "mark": _mark,
    "mark_both": _mark_both,
    "append": _append,
    "register": _register,
    "delete_metadata": _delete_metadata,
}
