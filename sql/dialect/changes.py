"""rule: DELETE, UPDATE and MERGE as one SELECT of the rows that they change.

The SELECT has a row for each change: the number of the target's row, NULL for an inserted one; the
number of the clause that applies; then the values that the clauses assign. A value is computed only
in rows to which its clause applies. Placeholders are numbered before the parts of a statement
change their places. What Snowflake does not have in these statements is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from sql import errors, limits
from sql.dialect import columns, names, operations, references, shapes

SOURCE: Final = "source of MERGE"
"""The alias of a source that has none."""

BY_NAME: Final = "by name"
"""The key of a tree's `_ByName`."""

CLAUSE: Final = "clause of MERGE"
"""The alias of the clause's number."""


def delete(tree: exp.Delete) -> operations.ChangeRows:
    """Return the operation of a Delete tree; refuse everything else in it."""
    columns.refuse_arguments(tree, "DELETE", {"this", "using", "where", "tables", "cluster"})
    if tree.args.get("tables"):
        raise errors.unsupported("DELETE of several tables")
    references.number_placeholders(tree)
    target = _target(tree.this)
    where = tree.args.get("where")
    using = tree.args.get("using") or []
    return operations.ChangeRows(
        statement="delete",
        name=columns.table_name(target),
        clauses=(operations.Clause(action="delete"),),
        tree=_select(target, using, where, [exp.Literal.number(0)]),
        is_joined=bool(using),
        is_whole=where is None and not using,
    )


def update(tree: exp.Update) -> operations.ChangeRows:
    """Return the operation of an Update tree; refuse everything else in it."""
    columns.refuse_arguments(tree, "UPDATE", {"this", "expressions", "from_", "where"})
    references.number_placeholders(tree)
    target = _target(tree.this)
    values: list[Any] = []
    clause = _assignments(tree.expressions, target, values)
    from_ = tree.args.get("from_")
    sources = [] if from_ is None else [from_.this]
    return operations.ChangeRows(
        statement="update",
        name=columns.table_name(target),
        clauses=(clause,),
        tree=_select(target, sources, tree.args.get("where"), [exp.Literal.number(0), *values]),
        is_joined=bool(sources),
    )


def merge(tree: exp.Merge) -> operations.ChangeRows:
    """Return the operation of a Merge tree; refuse everything else in it."""
    columns.refuse_arguments(tree, "MERGE", {"this", "using", "on", "whens"})
    references.number_placeholders(tree)
    target, source = _target(tree.this), tree.args["using"]
    whens = tree.args["whens"].expressions
    if len(whens) > limits.MERGE_CLAUSES_MAX:
        raise errors.too_complex(f"more than {limits.MERGE_CLAUSES_MAX} clauses in MERGE")
    _check_reachable(whens)
    inserts = any(not when.args["matched"] for when in whens)
    path = _path_of(source)
    clauses: list[operations.Clause] = []
    values: list[Any] = []
    branches: list[exp.If] = []
    for number, when in enumerate(whens):
        if when.args.get("source"):
            raise errors.unsupported("WHEN NOT MATCHED BY SOURCE")
        matched = bool(when.args["matched"])
        own: list[Any] = []
        clauses.append(_clause(when, target, own, first=len(values)))
        condition = when.args.get("condition")
        if not matched:
            for node in (condition, *own):
                _qualify(node, path)
        applies = _is_matched(matched)
        if condition is not None:
            applies = exp.And(this=applies, expression=exp.Paren(this=condition))
        branches.append(exp.If(this=applies, true=exp.Literal.number(number)))
        values += [_guarded(value, number) for value in own]
    items = [_named_clause(exp.Case(ifs=branches)), *values]
    select = (
        _merge_select(target, source, tree.args["on"], items)
        if inserts
        else _select(target, [source], exp.Where(this=tree.args["on"]), items)
    )
    numbers = tuple(number for number, clause in enumerate(clauses) if clause.by_name)
    if numbers:
        select.meta[BY_NAME] = _ByName(clauses=numbers, source=source, path=path)
    return operations.ChangeRows(
        statement="merge",
        name=columns.table_name(target),
        clauses=tuple(clauses),
        tree=select,
        is_joined=True,
    )


def with_columns_by_name(
    tree: Any, target: Sequence[str], source_columns: Callable[[Any], Sequence[str]]
) -> Any:
    """Return the SELECT of a change with the values of its ALL BY NAME clauses.

    target: the columns of the changed table. source_columns: returns the columns of a query, as
    they are shown. Raises SqlError where the source's columns are not the table's.
    """
    by_name = tree.meta.get(BY_NAME)
    if by_name is None:
        return tree
    shown = [names.shown(name) for name in target]
    listed = exp.Select(expressions=[exp.Star()], from_=exp.From(this=by_name.source.copy()))
    sources = source_columns(listed)
    if len(sources) != len(shown):
        raise errors.column_count_differs(len(shown), len(sources))
    for name in shown:
        if sources.count(name) != 1:
            raise errors.invalid_identifier(name)
    complete = tree.copy()
    for number in by_name.clauses:
        for name in shown:
            column = exp.Column(this=exp.Identifier(this=name, quoted=True))
            _qualify(column, by_name.path)
            complete.append("expressions", _guarded(column, number))
    return complete


@dataclass(frozen=True, kw_only=True, slots=True)
class _ByName:
    """The ALL BY NAME clauses of a MERGE: their numbers, and how the source's columns are named."""

    clauses: tuple[int, ...]
    source: Any
    path: tuple[Any, ...]


def _target(node: Any) -> exp.Table:
    """Return the changed table's node, marked as such."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise errors.unsupported("change of anything but a table")
    if node.args.get("joins"):
        raise errors.unsupported("joins in the changed table's place")
    if node.args.get("when") is not None:
        raise errors.unsupported("AT or BEFORE on a changed table")
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise errors.unsupported("column list of a changed table")
    node.meta[references.TARGET] = True
    return node


def _row() -> exp.Column:
    return exp.Column(this=exp.Identifier(this=shapes.ROW, quoted=True))


def _is_matched(matched: bool) -> Any:
    is_null = exp.Is(this=_row(), expression=exp.Null())
    return exp.Not(this=is_null) if matched else is_null


def _select(target: exp.Table, sources: Sequence[Any], where: Any, items: list[Any]) -> exp.Select:
    """Return the SELECT of the target's rows, joined with the sources by WHERE."""
    select = exp.Select(expressions=[_row(), *items], from_=exp.From(this=target))
    if sources:
        select.set("joins", [exp.Join(this=source) for source in sources])
    if where is not None:
        select.set("where", where)
    return select


def _merge_select(target: exp.Table, source: Any, on: Any, items: list[Any]) -> exp.Select:
    """Return the SELECT of the source's rows, each with the target's rows that match it."""
    return exp.Select(
        expressions=[_row(), *items],
        from_=exp.From(this=source),
        joins=[exp.Join(this=target, side="LEFT", on=on)],
    )


def _check_reachable(whens: Sequence[Any]) -> None:
    """Raise SqlError for a clause after one without a condition of its own."""
    open_ended: set[bool] = set()
    for when in whens:
        matched = bool(when.args["matched"])
        if matched in open_ended:
            raise errors.SqlError(
                "001003",
                "42000",
                "SQL compilation error:\nMERGE has an unreachable WHEN"
                f"{'' if matched else ' NOT'} MATCHED clause",
                phase="COMPILATION",
            )
        if when.args.get("condition") is None:
            open_ended.add(matched)


def _clause(
    when: exp.When, target: exp.Table, values: list[Any], *, first: int
) -> operations.Clause:
    """Return what a WHEN does; add the values that it assigns to values.

    first: the index of the first of them among the values of all clauses.
    """
    matched, then = bool(when.args["matched"]), when.args["then"]
    if isinstance(then, exp.Insert):
        if matched:
            raise errors.unsupported("WHEN MATCHED THEN INSERT")
        return _insertion(then, values, first)
    if not matched:
        raise errors.unsupported("WHEN NOT MATCHED without INSERT")
    if isinstance(then, exp.Update):
        if _is_by_name(*then.expressions):
            return operations.Clause(action="update", by_name=True)
        return _assignments(then.expressions, target, values, first)
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
        return operations.Clause(action="delete")
    raise errors.unsupported("WHEN MATCHED of this form")


def _assignments(
    nodes: Sequence[Any], target: exp.Table, values: list[Any], first: int = 0
) -> operations.Clause:
    """Return SET as a clause; add its values, without those that are DEFAULT, to values."""
    listed: list[names.Ident] = []
    places: list[int | None] = []
    for node in nodes:
        if isinstance(node, exp.Star):
            raise errors.unsupported("UPDATE SET *")
        if not isinstance(node, exp.EQ) or not isinstance(node.this, exp.Column):
            raise errors.unsupported("SET of this form")
        listed.append(_assigned(node.this, target))
        places.append(_place(node.expression, values, first))
    return operations.Clause(action="update", columns=tuple(listed), values=tuple(places))


def _assigned(node: exp.Column, target: exp.Table) -> names.Ident:
    """Return the column that SET assigns; raises SqlError for another table's."""
    ident = columns.ident(node.this)
    table = node.args.get("table")
    if table is not None:
        alias = target.args.get("alias")
        own = columns.ident(alias.this if alias is not None and alias.this else target.this)
        if not names.find(columns.ident(table), [own.stored]):
            raise errors.invalid_identifier(f"{columns.ident(table).folded}.{ident.folded}")
    return ident


def _insertion(then: exp.Insert, values: list[Any], first: int) -> operations.Clause:
    row = then.args.get("expression")
    if _is_by_name(then.this):
        return operations.Clause(action="insert", by_name=True)
    if not isinstance(row, exp.Tuple):
        raise errors.unsupported(
            "INSERT *" if isinstance(then.this, exp.Star) else "INSERT of this form"
        )
    listed = then.this.expressions if isinstance(then.this, exp.Tuple) else []
    if then.this is not None and not isinstance(then.this, exp.Tuple):
        listed = [then.this]
    if listed and len(listed) != len(row.expressions):
        raise errors.column_count_differs(len(listed), len(row.expressions))
    return operations.Clause(
        action="insert",
        columns=tuple(columns.ident(item) for item in listed),
        values=tuple(_place(node, values, first) for node in row.expressions),
    )


def _is_by_name(*nodes: Any) -> bool:
    """Return whether the words are ALL BY NAME: sqlglot reads them as a star without options."""
    return len(nodes) == 1 and isinstance(nodes[0], exp.Star) and "except_" not in nodes[0].args


def _place(node: Any, values: list[Any], first: int) -> int | None:
    """Add a value to values and return its index among all; None for DEFAULT."""
    is_default = isinstance(node, exp.Var | exp.Column) and (
        isinstance(node.this, str) or not node.args.get("table")
    )
    if is_default and node.name.upper() == "DEFAULT":
        identifier = node.this
        if not (isinstance(identifier, exp.Identifier) and identifier.args.get("quoted")):
            return None
    if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
        raise errors.unsupported("* as a value")
    values.append(node)
    return first + len(values) - 1


def _named_clause(number: exp.Case) -> exp.Alias:
    return exp.Alias(this=number, alias=exp.Identifier(this=CLAUSE, quoted=True))


def _guarded(value: Any, number: int) -> exp.Case:
    """Return a value where the clause of that number applies, else NULL."""
    clause = exp.Column(this=exp.Identifier(this=CLAUSE, quoted=True))
    applies = exp.EQ(this=clause, expression=exp.Literal.number(number))
    return exp.Case(ifs=[exp.If(this=applies, true=value)])


def _path_of(source: Any) -> tuple[Any, ...]:
    """Return the identifiers that qualify a source's columns; a source without a name gets one."""
    alias = source.args.get("alias")
    if alias is not None and alias.this:
        return (alias.this,)
    if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
        parts = (source.args.get("catalog"), source.args.get("db"), source.this)
        return tuple(part for part in parts if part)
    identifier = exp.Identifier(this=SOURCE, quoted=True)
    source.set("alias", exp.TableAlias(this=identifier))
    return (identifier,)


def _qualify(node: Any, path: tuple[Any, ...]) -> None:
    """Qualify columns without a table by path: WHEN NOT MATCHED has the source's columns alone."""
    stack = [node] if isinstance(node, exp.Expression) else []
    while stack:
        item = stack.pop()
        if isinstance(item, exp.Query):
            continue
        if isinstance(item, exp.Column):
            if not item.args.get("table") and isinstance(item.this, exp.Identifier):
                for key, part in zip(("table", "db", "catalog"), reversed(path), strict=False):
                    item.set(key, part.copy())
            continue
        for value in item.args.values():
            children = value if isinstance(value, list) else (value,)
            stack += [child for child in children if isinstance(child, exp.Expression)]
