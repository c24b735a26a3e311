"""rule: an aggregate compared with rows around it by `<` and its like is looked up by their values.

The engine makes a join of a scalar subquery whose WHERE compares by `=`, and of no other. So

    (select max(u.a) from u where u.a < t.b)

becomes an aggregate for each different value of the outer column, looked up by it:

    (select any_value(g.value) from
        (select k.key_0, max(u.a) as value from (select distinct t.b as key_0 from t) k
         join u on u.a < k.key_0 group by k.key_0) g
     where g.key_0 = t.b)

This holds for outer columns of one stored table, whose rows are read a second time; those of
another relation may differ then. A NULL of each column must make WHERE never true. A value without
rows has no group; its aggregate is NULL, and COUNT is 0. Values of rows that the query around it
leaves out are looked up too, so what is computed of them may not fail: it is compared, added,
subtracted or multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from sql.plan import code, correlations, relations, sharing, substitution
from sql.plan.expressions import Expr

COMPARISONS: Final = frozenset({"=", "<", "<=", ">", ">=", "<>", "!="})
SAFE: Final = COMPARISONS | {"AND", "OR", "+", "-", "*"}
"""Operators that fail for no value in the range of its type."""
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
NULL_OF_NO_ROWS: Final = frozenset(
    {"any_value", "avg", "bool_and", "bool_or", "max", "median", "min", "sum"}
)
NULL_OF_NULL: Final = frozenset({"abs", "ceil", "floor", "round"})


def looked_up(
    select: relations.Rel,
    outer: Mapping[str, relations.TableScan],
    new_alias: Callable[[str], str],
) -> code.Code | None:
    """Return the lookup that a scalar subquery stands for; None if it is none, or needs none.

    outer: the stored tables around the subquery, by alias.
    """
    steps, source = sharing.steps_of(select)
    match steps:
        case [
            relations.Project(items=(item,), is_distinct=False, keeps_all=False),
            relations.Aggregate(keys=()),
            relations.RowFilter(condition=condition),
        ]:
            pass
        case _:
            return None
    own = sharing.aliases_of(source)
    uses = _outer_uses(condition, own)
    if not uses or uses.keys() == _keyed(condition, uses):
        return None
    tables = {relation for relation, _ in uses}
    if len(tables) > 1 or not tables <= outer.keys() or any(uses.values()):
        return None
    if not _cannot_fail(condition, own):
        return None
    if not uses.keys() <= _compared(condition) or _outer_uses((item, source), own):
        return None
    is_count = _is_count(item.value)
    if not is_count and not _is_null_of_no_rows(item.value):
        return None
    lookup = _lookup(item, condition, source, list(uses), outer[tables.pop()], new_alias)
    subquery = code.Subquery(query=lookup)
    return code.call("coalesce", subquery, 0) if is_count else subquery


def _lookup(
    item: relations.ProjectItem,
    condition: code.Part,
    source: relations.Rel,
    uses: list[tuple[str, str]],
    table: relations.TableScan,
    new_alias: Callable[[str], str],
) -> relations.Rel:
    joined, key_columns = _joined(condition, source, uses, table, new_alias)
    groups = new_alias("groups")
    grouped = relations.Project(
        source=relations.Aggregate(source=joined, keys=tuple(key_columns)),
        items=relations.items(
            [*((column.name, column) for column in key_columns), ("value", item.value)]
        ),
    )
    equal: list[code.Part] = [
        code.infix(
            code.ColumnUse(relation=groups, name=column.name),
            "=",
            code.ColumnUse(relation=use[0], name=use[1]),
        )
        for use, column in zip(uses, key_columns, strict=True)
    ]
    equal_group = relations.RowFilter(
        source=relations.Named(query=grouped, alias=groups), condition=code.joined(equal, "AND")
    )
    value = code.call("any_value", code.ColumnUse(relation=groups, name="value"))
    return relations.Project(
        source=relations.Aggregate(source=equal_group),
        items=(relations.ProjectItem(value=value, name=item.name),),
    )


def joined_with_values(
    condition: code.Part,
    source: relations.Rel,
    own: set[str],
    outer: Mapping[str, relations.TableScan],
    new_alias: Callable[[str], str],
) -> tuple[relations.Rel, list[tuple[code.Part, code.Part]]] | None:
    """Return source joined by a condition with each different value of its outer columns.

    own: the aliases of source. The pairs are the columns of these values and the outer columns,
    which are to be equal. None if the condition is no such one.
    """
    uses = _outer_uses(condition, own)
    tables = {relation for relation, _ in uses}
    if len(tables) != 1 or not tables <= outer.keys() or any(uses.values()):
        return None
    if not _cannot_fail(condition, own) or not uses.keys() <= _compared(condition):
        return None
    listed = list(uses)
    joined, keys = _joined(condition, source, listed, outer[tables.pop()], new_alias)
    return joined, [
        (key, code.ColumnUse(relation=relation, name=name))
        for key, (relation, name) in zip(keys, listed, strict=True)
    ]


def _joined(
    condition: code.Part,
    source: relations.Rel,
    uses: Sequence[tuple[str, str]],
    table: relations.TableScan,
    new_alias: Callable[[str], str],
) -> tuple[relations.Join, list[code.ColumnUse]]:
    """Return source joined with the different values of a table's columns, and these columns."""
    scan = relations.TableScan(relation=table.relation, alias=new_alias("outer"))
    keys = new_alias("keys")
    names = {use: f"key_{place}" for place, use in enumerate(uses)}
    values = relations.Project(
        source=scan,
        items=relations.items(
            (name, code.ColumnUse(relation=scan.alias, name=column))
            for (_, column), name in names.items()
        ),
        is_distinct=True,
    )

    def as_key(node: Any) -> Any:
        if type(node) is code.ColumnUse and (node.relation, node.name) in names:
            return code.ColumnUse(relation=keys, name=names[node.relation, node.name])
        return None

    right = relations.Enclosed(source=source) if type(source) is relations.Join else source
    joined = relations.Join(
        left=relations.Named(query=values, alias=keys),
        right=right,
        side="INNER",
        conditions=(substitution.substituted(condition, as_key),),
    )
    return joined, [code.ColumnUse(relation=keys, name=name) for name in names.values()]


def _outer_uses(part: Any, own: set[str]) -> dict[tuple[str, str], bool]:
    """Return the columns of relations around the query, and whether each is a FLOAT's.

    Of equal FLOATs, 0.0 and -0.0, a group shows one.
    """
    inner = own | {
        alias
        for node in substitution.nodes([part])
        if type(node) in (relations.TableScan, relations.Named, relations.Values)
        for alias in (node.alias, getattr(node, "relation", node.alias))
    }
    uses: dict[tuple[str, str], bool] = {}
    for node in substitution.nodes([part]):
        column = node.code if type(node) is Expr else node
        if type(column) is not code.ColumnUse or column.relation in inner or not column.relation:
            continue
        key = (column.relation, column.name)
        is_real = type(node) is Expr and node.type.name == "real"
        uses[key] = uses.get(key, False) or is_real
    return uses


def _cannot_fail(part: Any, own: set[str]) -> bool:
    """Return whether what a condition computes of outer columns has a value for each of theirs."""
    inner = _uncast(part)
    if type(inner) is code.Checked:  # a column's bounds, as manifests claim them
        inner = _uncast(inner.operand)
        return type(inner) is code.ColumnUse
    if not _outer_uses(inner, own) or type(inner) is code.ColumnUse:
        return True
    if type(inner) is not code.Infix or not SAFE.issuperset(inner.operators):
        return False
    return all(_cannot_fail(operand, own) for operand in inner.operands)


def _conjuncts(condition: Any) -> list[code.Infix]:
    """Return the comparisons of two operands that AND joins."""
    return [each for each in correlations.conjuncts(condition) if each.operators[0] in COMPARISONS]


def _keyed(condition: Any, uses: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the outer columns that are only compared by `=`, as the engine joins by them."""
    by_equality: set[tuple[str, str]] = set()
    counts = dict.fromkeys(uses, 0)
    for node in substitution.nodes([condition]):
        if type(node) is code.ColumnUse and (node.relation, node.name) in counts:
            counts[node.relation, node.name] += 1
    for comparison in _conjuncts(condition):
        for side in comparison.operands:
            column = correlations.bare(side)
            if type(column) is not code.ColumnUse:
                continue
            key = (column.relation, column.name)
            if key in counts and comparison.operators == ("=",):
                counts[key] -= 1
                by_equality.add(key)
    return {key for key in by_equality if counts[key] == 0}


def _compared(condition: Any) -> set[tuple[str, str]]:
    """Return the columns whose NULL makes a condition never true."""
    compared = set()
    for comparison in _conjuncts(condition):
        for side in comparison.operands:
            column = _uncast(side)
            if type(column) is code.ColumnUse:
                compared.add((column.relation, column.name))
    return compared


def _is_count(value: Any) -> bool:
    call = correlations.bare(value)
    return type(call) is code.FunctionUse and call.name == "count"


def _is_null_of_no_rows(value: Any) -> bool:
    """Whether an aggregate, or what is computed of it, is NULL of no rows."""
    part = _uncast(value)
    if type(part) is code.Infix:
        return set(part.operators) <= ARITHMETIC and any(map(_is_null_of_no_rows, part.operands))
    if type(part) is not code.FunctionUse or part.is_kernel or part.over is not None:
        return False
    if part.name in NULL_OF_NULL:
        return _is_null_of_no_rows(part.arguments[0])
    return part.name in NULL_OF_NO_ROWS


def _uncast(part: Any) -> Any:
    while type(part) in (Expr, code.Cast):
        part = part.code if type(part) is Expr else part.operand
    return part
