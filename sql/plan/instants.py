"""rule: values of TIMESTAMP_TZ in GROUP BY, DISTINCT and set operations count by their instants.

The engine holds such a value as one number, of the instant and the offset, and would group by both.
So it groups by instants, and each group shows its value of the least offset: the least number, so
that an answer does not depend on the order of rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from sql.dialect import sqltypes
from sql.plan import code, emit, orderings, relations, sharing, substitution
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

SIDE: Final = "side"
"""The column that numbers the branches of a set operation, from 0."""


def grouped(select: relations.Rel, new_alias: Callable[[str], str]) -> relations.Rel:
    """Return a SELECT (a Sort or Project, and the steps below it) that groups by instants."""
    steps, source = sharing.steps_of(select)
    place = next((at for at, step in enumerate(steps) if type(step) is relations.Aggregate), None)
    if place is None:
        return select
    aggregate = steps[place]
    assert isinstance(aggregate, relations.Aggregate)
    is_of_sets = any(type(key) is relations.GroupingSets for key in aggregate.keys)
    listed: list[Any] = []
    for part in aggregate.keys:
        if isinstance(part, relations.GroupingSets):
            listed += [key for keys in part.sets for key in keys]
        else:
            listed.append(part)
    zoned = {emit.text(key): _instant(key) for key in listed if _is_zoned(key)}
    if not zoned:
        return select
    apart = _apart(steps, place, listed, new_alias)
    if apart is not None:
        return apart
    others = {emit.text(key) for key in listed if not _is_zoned(key)}

    def as_instant(node: Any) -> Any:
        return zoned.get(emit.text(node)) if _is_zoned(node) else None

    def with_instants(keys: Sequence[Any]) -> tuple[Any, ...]:
        """Return keys, those that are zoned themselves as instants; not what other keys hold."""
        return tuple(key if (instant := as_instant(key)) is None else instant for key in keys)

    def as_shown(node: Any) -> Any:
        if type(node) is code.Subquery:
            return node
        if type(node) is code.FunctionUse and node.over is None and node.name in AGGREGATES:
            if node.name != "grouping":
                return node
            return dataclasses.replace(node, arguments=with_instants(node.arguments))
        if others and type(node) is Expr and emit.text(node) in others:
            return node
        instant = as_instant(node)
        if instant is None:
            return None
        shown: code.Code = code.call("min", node)
        if is_of_sets:
            shown = code.case([(code.infix(code.call("grouping", instant), "=", 0), shown)])
        return exprs.derived(shown, node.type, [node])

    rel = source
    for at, step in reversed(list(enumerate(steps))):
        if at > place:
            rel = dataclasses.replace(step, source=rel)
            continue
        if at == place:
            keys = tuple(
                dataclasses.replace(part, sets=tuple(map(with_instants, part.sets)))
                if isinstance(part, relations.GroupingSets)
                else with_instants((part,))[0]
                for part in aggregate.keys
            )
            rel = relations.Aggregate(source=rel, keys=keys)
        else:
            rel = _with_parts(step, rel, as_shown)
    return rel


def _apart(
    steps: Sequence[sharing.Steps], place: int, keys: Sequence[Any], new_alias: Callable[[str], str]
) -> relations.Rel | None:
    """Return the SELECT over a query of its groups, if a query inside one of its steps reads a key.

    Such a query would read a column that is no key any more once the groups are of instants. None
    if there is no such query, or if it reads more than keys.
    """
    above = steps[:place]
    own = {use.relation for use in substitution.nodes(keys) if type(use) is code.ColumnUse}
    parts = [part for step in above for part in sharing.parts_of(step)]
    queries = [node for node in substitution.nodes(parts) if type(node) is code.Subquery]
    if not _reads(queries, own) or sharing.is_volatile(above[0]):
        return None
    alias = new_alias("groups")
    columns: dict[str, relations.ProjectItem] = {}
    texts = {emit.text(key) for key in keys if _reads([key], own)}

    def column(node: Any) -> Any:
        """Return a node as a column of the groups."""
        text = emit.text(node)
        if text not in columns:
            columns[text] = relations.ProjectItem(name=f"part#{len(columns)}", value=node)
        use = code.ColumnUse(relation=alias, name=columns[text].name)
        if type(node) is not Expr:
            return use
        return dataclasses.replace(node, code=use, aggregate=False, origin=None, terms=None)

    def of_key(node: Any) -> Any:
        return column(node) if type(node) is Expr and emit.text(node) in texts else None

    def of_group(node: Any) -> Any:
        if type(node) is code.Subquery:
            return substitution.substituted(node, of_key)
        if type(node) is code.FunctionUse and node.over is None and node.name in AGGREGATES:
            return column(node)
        return of_key(node)

    changed = [_with_parts(step, relations.OneRow(), of_group) for step in above]
    parts = [part for step in changed for part in sharing.parts_of(step)]
    if _reads(parts, own):
        return None
    groups = relations.Project(source=steps[place], items=tuple(columns.values()))
    inner = orderings.reconciled(grouped(groups, new_alias))
    rel: relations.Rel = relations.Named(query=inner, alias=alias)
    for step in reversed(changed):
        rel = dataclasses.replace(step, source=rel)
    return rel


def _reads(plan: Iterable[Any], aliases: set[str]) -> bool:
    """Whether a plan reads a column of one of these relations."""
    return any(
        type(node) is code.ColumnUse and node.relation in aliases
        for node in substitution.nodes(plan)
    )


def _with_parts(
    step: sharing.Steps, source: relations.Rel, replace: Callable[[Any], Any]
) -> sharing.Steps:
    """Return a step over another source, with other parts."""
    match step:
        case relations.Sort():
            keys = substitution.substituted(step.keys, replace)
            return relations.Sort(source=source, keys=keys)
        case relations.Project():
            items = substitution.substituted(step.items, replace)
            return dataclasses.replace(step, source=source, items=items)
        case relations.RowFilter():
            condition = substitution.substituted(step.condition, replace)
            return relations.RowFilter(source=source, condition=condition)
        case relations.WindowRows():
            return relations.WindowRows(source=source)
    raise AssertionError(step)


AGGREGATES: Final = frozenset(
    {
        *("any_value", "approx_distinct", "approx_percentile_cont", "array_agg", "avg", "bit_and"),
        *("bit_or", "bit_xor", "bool_and", "bool_or", "corr", "count", "covar_pop", "covar_samp"),
        *("first_value", "grouping", "max", "median", "min", "percentile_cont", "regr_avgx"),
        *("regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx"),
        *("regr_sxy", "regr_syy", "stddev_pop", "stddev_samp", "string_agg", "sum", "var_pop"),
        "var_samp",
    }
)
"""The engine's functions of the rows of a group."""


def _is_zoned(node: Any) -> bool:
    return type(node) is Expr and node.type.name == "timestamp_tz" and not node.is_volatile


def _instant(value: Expr) -> Expr:
    """Return a value's instant, in microseconds."""
    instant = code.kernel("_zoned_instant", code.exactly(value, value.type))
    return exprs.derived(instant, sqltypes.integer(), [value])


def distinct(
    query: relations.Rel,
    columns: Sequence[tuple[str, sqltypes.SqlType]],
    new_alias: Callable[[str], str],
) -> relations.Rel:
    """Return the distinct rows of a query. columns: its own, by name, with their types."""
    alias = new_alias("distinct")
    values = _columns(alias, columns)
    rel: relations.Rel = relations.Named(query=query, alias=alias)
    rel = relations.Aggregate(source=rel, keys=tuple(map(_key, values)))
    shown = ((name, _shown(value)) for (name, _), value in zip(columns, values, strict=True))
    return relations.Project(source=rel, items=relations.items(shown))


def combined(
    word: str,
    branches: Sequence[tuple[relations.Rel, Sequence[str]]],
    columns: Sequence[tuple[str, sqltypes.SqlType]],
    new_alias: Callable[[str], str],
) -> relations.Rel:
    """Return UNION, INTERSECT or EXCEPT of branches.

    branches: each with the names of its columns. columns: of the result.
    """
    sides: list[relations.Rel] = []
    for number, (branch, own) in enumerate(branches):
        alias = new_alias("branch")
        listed: list[tuple[str, code.Part]] = [
            (name, code.ColumnUse(relation=alias, name=inner))
            for (name, _), inner in zip(columns, own, strict=True)
        ]
        listed.append((SIDE, code.Token(text=str(number))))
        named = relations.Named(query=branch, alias=alias)
        sides.append(relations.Project(source=named, items=relations.items(listed)))
    alias = new_alias("combined")
    values = _columns(alias, columns)
    side = code.ColumnUse(relation=alias, name=SIDE)
    rel: relations.Rel = relations.Named(
        query=relations.set_operation("UNION ALL", sides), alias=alias
    )
    rel = relations.Aggregate(source=rel, keys=tuple(map(_key, values)))
    from_first = code.infix(code.call("min", side), "=", 0)
    last = code.call("max", side)
    if word == "EXCEPT":
        rel = relations.RowFilter(source=rel, condition=code.infix(last, "=", 0))
    elif word == "INTERSECT":
        both = code.infix(from_first, "AND", code.infix(last, "=", 1))
        rel = relations.RowFilter(source=rel, condition=both)
    # A row of INTERSECT and EXCEPT is one of the first branch.
    of_first = None if word == "UNION" else code.infix(side, "=", 0)
    shown = (
        (name, _shown(value, of_first)) for (name, _), value in zip(columns, values, strict=True)
    )
    rel = relations.Project(source=rel, items=relations.items(shown))
    named = relations.Named(query=rel, alias=new_alias("combined"))
    return relations.Project(source=named, items=relations.columns(name for name, _ in columns))


def _columns(alias: str, columns: Sequence[tuple[str, sqltypes.SqlType]]) -> list[Expr]:
    return [
        Expr(code=code.ColumnUse(relation=alias, name=name), type=sql_type)
        for name, sql_type in columns
    ]


def _key(value: Expr) -> code.Part:
    return _instant(value) if _is_zoned(value) else value


def _shown(value: Expr, condition: code.Part | None = None) -> code.Part:
    if not _is_zoned(value):
        return value
    return code.call("min", value if condition is None else code.case([(condition, value)]))
