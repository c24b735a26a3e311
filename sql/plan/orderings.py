"""rule: texts of one SELECT that are joined in several orders, each in its own.

The engine sorts the rows once for all `string_agg` of a SELECT and refuses a second order, while
its `array_agg` sorts what it collects. The first order keeps the cheaper form.
"""

from __future__ import annotations

from typing import Any, Final

from sql.plan import code, emit, relations, sharing, substitution

JOINING: Final = "string_agg"


def reconciled(select: relations.Rel) -> relations.Rel:
    """Return a SELECT (a Sort or Project, and the steps below it) that has one order at most."""
    steps, _ = sharing.steps_of(select)
    parts = [part for step in steps for part in sharing.parts_of(step)]
    ordered = [
        node
        for node in substitution.nodes(parts, in_queries=False)
        if type(node) is code.FunctionUse
        and node.name == JOINING
        and node.order
        and node.over is None
    ]
    if len(ordered) < 2:
        return select
    orders = {id(node): _shown(node.order) for node in ordered}
    first = min(orders.values())
    others = {key for key, order in orders.items() if order != first}
    if not others:
        return select

    def replace(node: Any) -> Any:
        if id(node) not in others:
            return None
        operand, delimiter = node.arguments
        return code.call("array_to_string", _collected(node, operand), delimiter)

    changed: relations.Rel = substitution.substituted(select, replace)
    return changed


def _shown(order: tuple[code.SortKey, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((emit.text(item.key), item.direction) for item in order)


def _collected(call: code.FunctionUse, operand: code.Part) -> code.Part:
    """Return the list of a call's values in its order."""
    if not call.is_distinct:
        return code.FunctionUse(name="array_agg", arguments=(operand,), order=call.order)
    # Beside another order the engine's `array_agg` of DISTINCT values loses its own. The order of
    # DISTINCT values is that of the values.
    values = code.call("array_distinct", code.call("array_agg", operand))
    direction = "DESC" if " DESC" in call.order[0].direction else "ASC"
    return code.call("array_sort", values, direction)
