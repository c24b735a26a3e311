"""rule: the engine's text of expressions, and the kernels that it calls.

Every piece of code is an operand in the text: a name, a literal, a call or a parenthesis. So pieces
combine without regard to precedence. Nothing here recurses: a sum of a thousand terms is a tree of
that depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from sql import errors
from sql.plan import code
from sql.plan.expressions import Expr

Pieces: TypeAlias = list[Any]
"""Text and parts in the order in which they are written."""


def text(part: code.Part, kernels: set[str] | None = None, volatile: set[int] | None = None) -> str:
    """Return the engine's text of a part. kernels: gets the names of the kernels that it calls.

    volatile: gets the identities of the volatile expressions in it. Raises SqlError if one of them
    would be written twice, because the engine would compute it twice.
    """
    written: list[str] = []
    volatile = set() if volatile is None else volatile
    stack: list[Any] = [part]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            written.append(item)
            continue
        if isinstance(item, Expr):
            if item.is_volatile:
                if id(item.code) in volatile:
                    raise errors.repeated_volatile()
                volatile.add(id(item.code))
            item = item.code
        if kernels is not None and type(item) is code.FunctionUse and item.is_kernel:
            kernels.add(item.name)
        pieces = PIECES[type(item)](item)
        pieces.reverse()
        stack += pieces
    return "".join(written)


def length(expression: Expr) -> int:
    """Return the length of an expression's text. It is kept for each expression inside, too."""
    stack: list[tuple[Expr, Pieces, int]] = []
    pieces: Pieces = [expression.code]
    total, current = 0, expression
    while True:
        while pieces:
            item: Any = pieces.pop()
            if isinstance(item, str):
                total += len(item)
            elif not isinstance(item, Expr):
                pieces += PIECES[type(item)](item)
            elif item.length:
                total += item.length
            else:
                stack.append((current, pieces, total))
                current, pieces, total = item, [item.code], 0
        current.keep_length(total)
        if not stack:
            return total
        inner = total
        current, pieces, total = stack.pop()
        total += inner


def subqueries_length(expression: Expr) -> int:
    """Return the length of the queries in an expression, each counted once."""
    total = 0
    visited: set[int] = set()
    stack: Pieces = [expression.code]
    while stack:
        item: Any = stack.pop()
        if isinstance(item, Expr):
            item = item.code
        if isinstance(item, str) or id(item) in visited:
            continue
        visited.add(id(item))
        if isinstance(item, code.Subquery):
            total += len(item.text)
        else:
            stack += PIECES[type(item)](item)
    return total


def relations_of(part: code.Part) -> set[str]:
    """Return the relations whose columns an expression reads, but for those of queries in it."""
    relations: set[str] = set()
    visited: set[int] = set()
    stack: list[code.Part | str] = [part]
    while stack:
        piece = stack.pop()
        if isinstance(piece, Expr):
            piece = piece.code
        if id(piece) in visited:
            continue
        visited.add(id(piece))
        if isinstance(piece, code.ColumnUse):
            relations.add(piece.relation)
        elif not isinstance(piece, str):
            stack += PIECES[type(piece)](piece)
    return relations


def quoted(identifier: str) -> str:
    """Return an identifier as the engine takes it literally."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(value: str) -> str:
    """Return text as a string literal of the engine's SQL, which has no backslash escapes."""
    return "'" + value.replace("'", "''") + "'"


def keys(order: Iterable[code.SortKey]) -> Pieces:
    """Return the pieces of a list of sort keys."""
    pieces: Pieces = []
    for key in order:
        pieces += [", ", key.key, key.direction]
    return pieces[1:]


def _listed(parts: Iterable[code.Part]) -> Pieces:
    pieces: Pieces = []
    for part in parts:
        pieces += (", ", part)
    return pieces[1:]


def _column(column: code.ColumnUse) -> Pieces:
    if column.relation:
        return [f"{quoted(column.relation)}.{quoted(column.name)}"]
    return [quoted(column.name)]


def _call(call: code.FunctionUse) -> Pieces:
    pieces: Pieces = [f"{call.name}(DISTINCT " if call.is_distinct else f"{call.name}("]
    pieces += _listed(call.arguments)
    if call.order:
        pieces += [" ORDER BY ", *keys(call.order)]
    pieces.append(")")
    if call.within:
        pieces += [" WITHIN GROUP (ORDER BY ", *keys(call.within), ")"]
    if call.ignores_nulls:
        pieces.append(" IGNORE NULLS")
    if call.over is not None:
        pieces += [" OVER (", *_window(call.over), ")"]
    return pieces


def _window(window: code.Window) -> Pieces:
    clauses: list[Pieces] = []
    if window.partition:
        clauses.append(["PARTITION BY ", *_listed(window.partition)])
    if window.order:
        clauses.append(["ORDER BY ", *keys(window.order)])
    if window.frame:
        clauses.append([window.frame])
    pieces: Pieces = []
    for clause in clauses:
        pieces += [" ", *clause]
    return pieces[1:]


def _cast(cast: code.Cast) -> Pieces:
    if cast.is_named:
        word = "TRY_CAST(" if cast.lenient else "CAST("
        return [word, cast.operand, f" AS {cast.target})"]
    word = "arrow_try_cast(" if cast.lenient else "arrow_cast("
    return [word, cast.operand, f", '{cast.target}')"]


def _infix(infix: code.Infix) -> Pieces:
    pieces: Pieces = ["(", infix.operands[0]]
    for operator, operand in zip(infix.operators, infix.operands[1:], strict=True):
        pieces += (f" {operator} ", operand)
    pieces.append(")")
    return pieces


def _membership(membership: code.Among) -> Pieces:
    word = " NOT IN " if membership.negated else " IN "
    if isinstance(membership.members[0], code.Subquery):
        return ["(", membership.operand, word, membership.members[0], ")"]
    return ["(", membership.operand, f"{word}(", *_listed(membership.members), "))"]


def _case(case: code.Case) -> Pieces:
    pieces: Pieces = ["(CASE"]
    if case.operand is not None:
        pieces += [" ", case.operand]
    for condition, result in case.whens:
        pieces += (" WHEN ", condition, " THEN ", result)
    if case.otherwise is not None:
        pieces += (" ELSE ", case.otherwise)
    pieces.append(" END)")
    return pieces


PIECES: Mapping[type, Callable[[Any], Pieces]] = {
    code.Token: lambda token: [token.text],
    code.StringLiteral: lambda text: [literal(text.value)],
    code.ColumnUse: _column,
    code.FunctionUse: _call,
    code.Cast: _cast,
    code.Infix: _infix,
    code.Prefix: lambda prefix: [f"({prefix.word} ", prefix.operand, ")"],
    code.Postfix: lambda postfix: ["(", postfix.operand, f" {postfix.words})"],
    code.Among: _membership,
    code.Case: _case,
    code.Subquery: lambda query: [f"({query.text})"],
}
"""How each sort of code is written; lists of their own, which the caller may change."""
