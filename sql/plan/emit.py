"""rule: the engine's text of plans, and the kernels that it calls.

Every piece of code is an operand in the text: a name, a literal, a call or a parenthesis. So pieces
combine without regard to precedence. A relation's text is its source's with one clause more.
Nothing here recurses: a sum of a thousand terms is a tree of that depth.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from sql import errors, kernelforms
from sql.plan import code, relations
from sql.plan.expressions import Expr

Pieces: TypeAlias = list[Any]
"""Text and parts in the order in which they are written."""
Forms: TypeAlias = Mapping[type, Callable[[Any], Pieces]]
Quote: TypeAlias = Callable[[str], str]


def text(part: code.Part | relations.Rel, kernels: set[str] | None = None) -> str:
    """Return the engine's text of a part or a query.

    kernels: gets the names of the kernels that it calls.
    """
    return written(part, PIECES, kernels)


def written(
    part: code.Part | relations.Rel,
    forms: Forms,
    kernels: set[str] | None = None,
) -> str:
    """Return the text of a part or a query. forms: how each sort of code and relation is written.

    kernels: gets the names of the kernels that it calls.
    """
    texts: list[str] = []
    stack: list[Any] = [part]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            texts.append(item)
            continue
        if isinstance(item, Expr):
            item = item.code
        if kernels is not None and type(item) is code.FunctionUse and item.is_kernel:
            kernels.add(item.name)
        pieces = forms[type(item)](item)
        pieces.reverse()
        stack += pieces
    return "".join(texts)


def is_volatile(part: code.Part) -> bool:
    """Say whether a part is volatile, queries in it aside.

    Raises SqlError if its text would hold a volatile expression twice, because the engine would
    compute it twice.
    """
    if not _has_volatile(part):
        return False
    volatile: set[int] = set()
    stack: list[Any] = [part]
    while stack:
        item = stack.pop()
        if isinstance(item, Expr):
            if item.is_volatile:
                if id(item.code) in volatile:
                    raise errors.repeated_volatile()
                volatile.add(id(item.code))
            item = item.code
        if not isinstance(item, str | code.Subquery):
            stack += PIECES[type(item)](item)
    return True


def _has_volatile(part: code.Part) -> bool:
    visited: dict[int, Any] = {}  # kept: what is made while writing would give its id away
    stack: list[Any] = [part]
    while stack:
        item = stack.pop()
        if isinstance(item, Expr):
            if item.is_volatile:
                return True
            item = item.code
        if isinstance(item, str | code.Subquery) or id(item) in visited:
            continue
        visited[id(item)] = item
        stack += PIECES[type(item)](item)
    return False


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
    visited: dict[int, Any] = {}  # kept: what is made while writing would give its id away
    stack: Pieces = [expression.code]
    while stack:
        item: Any = stack.pop()
        if isinstance(item, Expr):
            item = item.code
        if isinstance(item, str) or id(item) in visited:
            continue
        visited[id(item)] = item
        if isinstance(item, code.Subquery):
            total += _query_length(item)
        else:
            stack += PIECES[type(item)](item)
    return total


def _query_length(query: code.Subquery) -> int:
    total = 0
    stack: Pieces = [query]
    while stack:
        item: Any = stack.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, Expr):
            total += length(item)
        else:
            stack += PIECES[type(item)](item)
    return total


def relations_of(part: code.Part) -> set[str]:
    """Return the relations whose columns an expression reads, but for those of queries in it."""
    aliases: set[str] = set()
    visited: dict[int, Any] = {}  # kept: what is made while writing would give its id away
    stack: list[code.Part | str] = [part]
    while stack:
        piece = stack.pop()
        if isinstance(piece, Expr):
            piece = piece.code
        if id(piece) in visited:
            continue
        visited[id(piece)] = piece
        if isinstance(piece, code.ColumnUse):
            aliases.add(piece.relation)
        elif not isinstance(piece, str | code.Subquery):
            stack += PIECES[type(piece)](piece)
    return aliases


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


def _column(quote: Quote, column: code.ColumnUse) -> Pieces:
    if column.relation:
        return [f"{quote(column.relation)}.{quote(column.name)}"]
    return [quote(column.name)]


def _call(call: code.FunctionUse) -> Pieces:
    if call.over is not None and call.over.order:
        order = tuple(map(_key_of_window, call.over.order))
        call = dataclasses.replace(call, over=dataclasses.replace(call.over, order=order))
    pieces = called(call)
    # The engine takes the largest value so far for one that rises, and leaves a sort by it out.
    # Where the first rows see no value, theirs is NULL, which may belong at the other end.
    is_running = call.name in ("min", "max") and call.over is not None and call.over.order
    return ["greatest(", *pieces, ")"] if is_running else pieces


def _key_of_window(key: code.SortKey) -> code.SortKey:
    """Return a key as the engine takes it for RANGE, its default frame: no TIME and no BINARY."""
    value = key.key
    if not isinstance(value, Expr) or value.type.name not in ("time", "binary"):
        return key
    if value.type.name == "time":
        return dataclasses.replace(key, key=code.Cast(operand=value, target="Int64"))
    digits = code.FunctionUse(name="encode", arguments=(value, code.StringLiteral(value="hex")))
    return dataclasses.replace(key, key=digits)


def called(call: code.FunctionUse) -> Pieces:
    """Return the pieces of a call, as every SQL writes it."""
    name = kernelforms.engine_name(call.name) if call.is_kernel else call.name
    pieces: Pieces = [f"{name}(DISTINCT " if call.is_distinct else f"{name}("]
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
    pieces: Pieces = [word, cast.operand, f", '{cast.target}')"]
    # Of a cast beside a constant, the engine compares the operand with the constant in the
    # operand's type: 2.5 cast to 3 is then unequal to 3. And its physical planner takes 1.7 times
    # as long for each further cast of an operation on a cast. In a call it does not see the cast.
    return ["greatest(", *pieces, ")"] if cast.is_opaque else pieces


def _infix(infix: code.Infix) -> Pieces:
    if infix.is_exact and len(infix.operands) > code.FLAT_MAX:
        return _halved(infix)
    pieces: Pieces = ["(", infix.operands[0]]
    for operator, operand in zip(infix.operators, infix.operands[1:], strict=True):
        pieces += (f" {operator} ", operand)
    pieces.append(")")
    return pieces


def _halved(infix: code.Infix) -> Pieces:
    """Return an exact sum as that of its halves; the engine's time grows with its depth squared."""
    middle = len(infix.operands) // 2
    sign, *rest = infix.operators[middle - 1 :]
    if sign == "-":  # a - b + c - d is (a - b) + (c - d), and a - b - c + d is (a - b) - (c - d)
        rest = ["+" if each == "-" else "-" for each in rest]
    left = code.Infix(
        operands=infix.operands[:middle], operators=infix.operators[: middle - 1], is_exact=True
    )
    right = code.Infix(operands=infix.operands[middle:], operators=tuple(rest), is_exact=True)
    return ["(", left, f" {sign} ", right, ")"]


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


def _checked(checked: code.Checked) -> Pieces:
    """Return an operand with a check that the engine computes by itself.

    A kernel does it for operands that are no columns: they would stand there three times.
    """
    operand, tested = checked.operand, checked.tested
    if tested is None and type(getattr(operand, "code", operand)) is not code.ColumnUse:
        return [code.kernel("_within", operand, checked.low, checked.high)]
    tested = operand if tested is None else tested
    below, above = (
        code.infix(tested, operator, end)
        for operator, end in (("<", checked.low), (">", checked.high))
    )
    fault: code.Code = code.kernel("_beyond", tested)
    if checked.target != "Int64":
        fault = code.arrow(fault, checked.target)
    return [code.case([(code.infix(below, "OR", above), fault)], operand)]


def _named(quote: Quote, named: relations.Named) -> Pieces:
    alias = f" AS {quote(named.alias)}" if named.alias else ""
    return ["(", named.query, f"){alias}"]


def _scan(quote: Quote, scan: relations.TableScan) -> Pieces:
    alias = f" AS {quote(scan.alias)}" if scan.alias else ""
    return [quote(scan.relation) + alias]


def _values(quote: Quote, values: relations.Values) -> Pieces:
    pieces: Pieces = []
    for row in values.rows:
        pieces += (", (", *_listed(row), ")")
    names = ", ".join(map(quote, values.columns))
    return ["(VALUES (", *pieces[1:], f") AS {quote(values.alias)}({names})"]


def _join(join: relations.Join) -> Pieces:
    pieces: Pieces = [join.left, f" {join.side} JOIN ", join.right]
    word = " ON "
    for condition in join.conditions:
        pieces += (word, condition)
        word = " AND "
    return pieces


def _filter(step: relations.RowFilter) -> Pieces:
    word = {relations.Aggregate: "HAVING", relations.WindowRows: "QUALIFY"}.get(
        type(step.source), "WHERE"
    )
    return [step.source, f" {word} ", step.condition]


def _aggregate(step: relations.Aggregate) -> Pieces:
    pieces: Pieces = []
    for key in step.keys:
        pieces += (", ", *(_grouping_sets(key) if type(key) is relations.GroupingSets else [key]))
    return [step.source, " GROUP BY ", *pieces[1:]] if pieces else [step.source]


def _grouping_sets(part: relations.GroupingSets) -> Pieces:
    if part.word != "GROUPING SETS":
        return [f"{part.word} (", *_listed(part.sets[0]), ")"]
    pieces: Pieces = []
    for keys_of_set in part.sets:
        pieces += (", (", *_listed(keys_of_set), ")")
    return ["GROUPING SETS ((", *pieces[1:], ")"]


def _project(quote: Quote, step: relations.Project) -> Pieces:
    pieces: Pieces = ["SELECT DISTINCT " if step.is_distinct else "SELECT "]
    comma = ""
    if step.keeps_all:
        pieces.append("*")
        comma = ", "
    for item in step.items:
        pieces += (comma, item.value, f" AS {quote(item.name)}" if item.name else "")
        comma = ", "
    pieces += ("" if _is_of_one_row(step.source) else " FROM ", step.source)
    return pieces


def _is_of_one_row(step: relations.Rel) -> bool:
    """Whether the steps of a SELECT begin without FROM."""
    while isinstance(step, relations.RowFilter | relations.Aggregate | relations.WindowRows):
        step = step.source
    return isinstance(step, relations.OneRow)


def _unnest(quote: Quote, step: relations.Unnest) -> Pieces:
    through = "".join(f"{quote(name)}, " for name in step.columns)
    lists = ((step.listed, step.row), *step.along)
    rows = ", ".join(f"unnest({quote(listed)}) AS {quote(row)}" for listed, row in lists)
    return [f"SELECT {through}{rows} FROM ", step.source]


def _set_operation(step: relations.SetOp) -> Pieces:
    pieces: Pieces = []
    for branch in step.branches:
        pieces += (f" {step.word} (", branch, ")")
    return ["(", *pieces[1:]]


def _limit(step: relations.Limit) -> Pieces:
    clause = "" if step.count is None else f" LIMIT {step.count}"
    return [step.source, clause + ("" if step.offset is None else f" OFFSET {step.offset}")]


def _with(quote: Quote, query: relations.With) -> Pieces:
    pieces: Pieces = ["WITH RECURSIVE " if relations.is_recursive(query) else "WITH "]
    comma = ""
    for common in query.common:
        columns = ", ".join(map(quote, common.columns))
        pieces += (f"{comma}{quote(common.name)}({columns}) AS (", common.query, ")")
        comma = ", "
    return [*pieces, " ", query.query]


def forms(quote: Quote) -> Forms:
    """Return how each sort of code and relation is written. quote: writes an identifier.

    Each gives a list of its own, which its caller may change.
    """
    return {
        code.Token: lambda token: [token.text],
        code.StringLiteral: lambda text: [literal(text.value)],
        code.ColumnUse: functools.partial(_column, quote),
        code.FunctionUse: _call,
        code.Cast: _cast,
        code.Infix: _infix,
        code.Prefix: lambda prefix: [f"({prefix.word} ", prefix.operand, ")"],
        code.Postfix: lambda postfix: ["(", postfix.operand, f" {postfix.words})"],
        code.Among: _membership,
        code.Case: _case,
        code.Checked: _checked,
        code.Subquery: lambda subquery: ["(", subquery.query, ")"],
        relations.OneRow: lambda _: [""],
        relations.TableScan: functools.partial(_scan, quote),
        relations.Series: lambda series: [f"generate_series(0, {series.count - 1})"],
        relations.Values: functools.partial(_values, quote),
        relations.Named: functools.partial(_named, quote),
        relations.Enclosed: lambda enclosed: ["(", enclosed.source, ")"],
        relations.Join: _join,
        relations.RowFilter: _filter,
        relations.Aggregate: _aggregate,
        relations.WindowRows: lambda step: [step.source],
        relations.Project: functools.partial(_project, quote),
        relations.Unnest: functools.partial(_unnest, quote),
        relations.SetOp: _set_operation,
        relations.Sort: lambda step: [step.source, " ORDER BY ", *keys(step.keys)],
        relations.Limit: _limit,
        relations.Recursive: lambda query: [query.anchor, " UNION ALL ", query.step],
        relations.With: functools.partial(_with, quote),
    }


PIECES: Forms = forms(quoted)
"""How each sort of code and relation is written for the engine."""
