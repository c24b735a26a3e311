"""rule: table functions in FROM that make rows of a value: FLATTEN, SPLIT_TO_TABLE, GENERATOR.

A table function of a column of a relation to its left stands around that relation: a query computes
the list of rows beside the relation's columns, and the query around it unnests the list. The names
of the scope then mean columns of that outer query.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sql import errors, limits
from sql.dialect import casts, columns, expressions, names, scopes, sqltypes, structures
from sql.dialect.scopes import FromItem, QueryScope, ScopeColumn
from sql.plan import code, relations
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

SEQUENCE = "seq"
"""The column of a relation that numbers its rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableFunction:
    """A table function as it is called. arguments: by name; alias: "" for none."""

    name: str
    arguments: Mapping[str, Any]
    alias: names.Ident | None = None
    listed: tuple[names.Ident, ...] = ()
    is_outer: bool = False


def called(node: Any) -> TableFunction | None:
    """Return the table function that an item of FROM calls, if this module has it."""
    call = node.this
    if isinstance(node, exp.Table) and isinstance(call, exp.Anonymous):
        if str(call.this).upper() == "TABLE" and len(call.expressions) == 1:
            call = call.expressions[0]
    elif not isinstance(node, exp.Lateral):
        return None
    if not isinstance(call, exp.Anonymous) or str(call.this).upper() not in PARAMETERS:
        return None
    alias = node.args.get("alias")
    name = str(call.this).upper()
    if node.args.get("sample") is not None:
        raise errors.unsupported(f"SAMPLE of {name}")
    if node.args.get("pivots"):
        raise errors.unsupported(f"PIVOT or UNPIVOT of {name}")
    return TableFunction(
        name=name,
        arguments=_arguments(name, call.expressions),
        alias=columns.ident(alias.this) if alias is not None and alias.this else None,
        listed=tuple(columns.ident(item) for item in (alias.args.get("columns") or ()))
        if alias is not None
        else (),
    )


PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "FLATTEN": ("input", "path", "outer", "recursive", "mode"),
    "SPLIT_TO_TABLE": ("text", "delimiter"),
    "STRTOK_SPLIT_TO_TABLE": ("text", "delimiter"),
    "GENERATOR": ("rowcount", "timelimit"),
}
"""The table functions, and the names of their arguments in order."""


def _arguments(name: str, nodes: Sequence[Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    parameters = PARAMETERS[name]
    for place, node in enumerate(nodes):
        if isinstance(node, exp.Kwarg):
            word, value = str(node.this.name).lower(), node.expression
        elif place < len(parameters):
            word, value = parameters[place], node
        else:
            raise errors.unsupported(f"{name} with {len(nodes)} arguments")
        if word not in parameters or word in arguments:
            raise errors.unsupported(f"{name} with argument {word.upper()}")
        arguments[word] = value
    return arguments


def bind(call: TableFunction, scope: QueryScope, left: relations.Rel, start: int) -> relations.Rel:
    """Return a table function's rows beside the relation to its left.

    left: that relation, OneRow for none; start: the first source of the scope that is its. The
    scope gets the function's columns, and its names of left's columns become those of the result.
    """
    if call.name == "GENERATOR":
        return _generator(call, scope, left)
    rows = _flattened(call, scope) if call.name == "FLATTEN" else _split(call, scope)
    return _unnested(call, rows, scope, left, start)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rows:
    """The list of rows of one value, and the columns of its rows.

    beside: columns that are the same for all rows of a value. fields: name, field and type. along:
    further lists, whose elements are the fields of their names.
    """

    listed: Expr
    fields: Sequence[tuple[str, str, sqltypes.SqlType]]
    beside: Mapping[str, Expr] = dataclasses.field(default_factory=dict)
    along: Mapping[str, Expr] = dataclasses.field(default_factory=dict)


def _flattened(call: TableFunction, scope: QueryScope) -> _Rows:
    if "input" not in call.arguments:
        raise errors.unsupported("FLATTEN without INPUT")
    value = expressions.bind(call.arguments["input"], scope)
    if value.type.name == "null":
        value = exprs.null(sqltypes.VARIANT)
    path = _constant(call, "path", scope, "")
    mode = str(_constant(call, "mode", scope, "BOTH")).upper()
    is_recursive = _constant(call, "recursive", scope, False)
    is_outer = _constant(call, "outer", scope, False) or call.is_outer
    if mode not in ("BOTH", "ARRAY", "OBJECT") or not isinstance(path, str):
        raise errors.unsupported(f"FLATTEN with MODE => {mode}")
    if value.type.structure is not None:
        inner = structures.at_path(value, path)
        if _keeps_types(inner.type, mode, is_recursive=is_recursive):
            return _flattened_in_types(inner, path, is_outer=bool(is_outer))
        value = casts.to_variant(value)
    if not value.type.is_variant:
        raise casts.mismatch(f"FLATTEN of {sqltypes.shown(value.type)}")
    words = [mode.lower(), *(["recursive"] if is_recursive else []), *(["outer"] * bool(is_outer))]
    listed = code.kernel(f"_flatten_{'_'.join(words)}", casts.spelled(value), path)
    this = casts.to_variant(value)
    if path:
        this = casts.at_path(this, path)
    fields = [
        ("KEY", "key", sqltypes.TEXT),
        ("PATH", "path", sqltypes.TEXT),
        ("INDEX", "index", sqltypes.integer(10, 0, limits.FLATTENED_MAX)),
        ("VALUE", "value", sqltypes.VARIANT),
    ]
    if is_recursive:
        fields.append(("THIS", "this", sqltypes.VARIANT))
    return _Rows(
        listed=exprs.derived(listed, sqltypes.ARRAY, [value]),
        fields=fields,
        beside={} if is_recursive else {"THIS": this},
    )


def _keeps_types(sql_type: sqltypes.SqlType, mode: str, *, is_recursive: bool) -> bool:
    """Whether the elements of a structured value are rows in their own types."""
    words = {"ARRAY": ("list",), "OBJECT": ("map",)}.get(mode, ("list", "map"))
    structure = sql_type.structure
    if structure is None or structure.word not in words or is_recursive:
        return False
    return all(structures.is_read_as_held(member) for _, member in structure.members)


def _flattened_in_types(value: Expr, path: str, *, is_outer: bool) -> _Rows:
    """FLATTEN of a structured ARRAY or a MAP."""
    structure = value.type.structure
    assert structure is not None
    name = f"_flatten_nested{'_outer' if is_outer else ''}_{sqltypes.encoded(value.type)}"
    listed = code.kernel(name, value, path)
    along = {"value": value}
    if structure.word == "map":
        along = {"key": structures.keys(value), "value": structures.values(value)}
    return _Rows(
        listed=exprs.derived(listed, sqltypes.ARRAY, [value]),
        fields=[
            ("KEY", "key", structure.member("key") or sqltypes.TEXT),
            ("PATH", "path", sqltypes.TEXT),
            ("INDEX", "index", sqltypes.integer(10, 0, limits.FLATTENED_MAX)),
            ("VALUE", "value", structures.value_type(structure)),
        ],
        beside={"THIS": value},
        along=along,
    )


def _split(call: TableFunction, scope: QueryScope) -> _Rows:
    """SPLIT_TO_TABLE and STRTOK_SPLIT_TO_TABLE: the parts of a text with their numbers from 1."""
    context = scope.environment.context
    if "text" not in call.arguments or (
        call.name[0] == "S" and len(call.arguments) < 2 and call.name != "STRTOK_SPLIT_TO_TABLE"
    ):
        raise errors.unsupported(f"{call.name} with {len(call.arguments)} arguments")
    text = casts.cast(
        expressions.bind(call.arguments["text"], scope), sqltypes.TEXT, forms=context.forms
    )
    node = call.arguments.get("delimiter")
    delimiter = exprs.text(" ") if node is None else expressions.bind(node, scope)
    delimiter = casts.cast(delimiter, sqltypes.TEXT, forms=context.forms)
    word = "strtok" if call.name.startswith("STRTOK") else "split"
    listed = code.kernel(
        f"_rows_of_{word}",
        casts.as_arrow(text, sqltypes.TEXT),
        casts.as_arrow(delimiter, sqltypes.TEXT),
    )
    return _Rows(
        listed=exprs.derived(listed, sqltypes.ARRAY, [text, delimiter]),
        fields=[
            ("INDEX", "index", sqltypes.integer(10, 0, limits.FLATTENED_MAX)),
            ("VALUE", "value", sqltypes.TEXT),
        ],
    )


def _constant(call: TableFunction, name: str, scope: QueryScope, default: Any) -> Any:
    node = call.arguments.get(name)
    if node is None:
        return default
    value = expressions.bind(node, scope)
    if not value.is_literal:
        raise errors.unsupported(f"{call.name} with {name.upper()} that is no constant")
    return default if value.literal is None else value.literal


def _unnested(
    call: TableFunction, rows: _Rows, scope: QueryScope, left: relations.Rel, start: int
) -> relations.Rel:
    binder = scope.binder
    inner, middle, outer = (binder.alias(word) for word in ("listed", "unnested", "rows"))
    kept = moved(scope, start, outer)
    beside = {f"b{number}": value for number, value in enumerate(rows.beside.values())}
    number_of_row = code.FunctionUse(name="row_number", arguments=(), over=code.Window())
    kept_columns = [(name, binder.written(value)) for name, value in kept]
    kept_columns += [(name, binder.written(value)) for name, value in beside.items()]
    lists = [("list", binder.written(rows.listed))]
    lists += [(f"list of {field}", binder.written(value)) for field, value in rows.along.items()]
    listing = relations.Project(
        source=relations.WindowRows(source=left),
        items=relations.items([*kept_columns, (SEQUENCE, number_of_row), *lists]),
    )
    through = (*(name for name, _ in kept_columns), SEQUENCE)
    rowwise = relations.Unnest(
        source=relations.Named(query=listing, alias=inner),
        columns=through,
        listed="list",
        row="row",
        along=tuple((f"list of {field}", field) for field in rows.along),
    )
    row = code.ColumnUse(relation=middle, name="row")
    fields = relations.items(
        (
            f"f{number}",
            code.ColumnUse(relation=middle, name=field)
            if field in rows.along
            else code.call("get_field", row, field),
        )
        for number, (_, field, _) in enumerate(rows.fields)
    )
    query = relations.Project(
        source=relations.Named(query=rowwise, alias=middle),
        items=(*relations.columns(through), *fields),
    )
    own = [("SEQ", SEQUENCE, sqltypes.integer(19, 1))]
    own += [(name, f"f{number}", each) for number, (name, _, each) in enumerate(rows.fields)]
    own += [
        (name, f"b{number}", value.type) for number, (name, value) in enumerate(rows.beside.items())
    ]
    source = [
        ScopeColumn(
            name=name,
            bound=Expr(
                code=_exactly(code.ColumnUse(relation=outer, name=column), sql_type), type=sql_type
            ),
        )
        for name, column, sql_type in own
    ]
    _add(call, source, scope, rows=limits.FLATTENED_MAX)
    return relations.Named(query=query, alias=outer)


def _exactly(column: code.ColumnUse, sql_type: sqltypes.SqlType) -> code.Code:
    return code.exactly(column, sql_type) if sql_type.is_integer else column


def moved(scope: QueryScope, start: int, relation: str) -> list[tuple[str, Expr]]:
    """Make the names of the scope's sources from start on mean columns of a relation.

    Return these columns, and what each of them is in the sources.
    """
    kept: list[tuple[str, Expr]] = []

    def move(bound: Expr) -> Expr:
        name = f"c{len(kept)}"
        column = code.ColumnUse(relation=relation, name=name)
        raw = casts.unread(bound)
        kept.append((name, raw))
        if raw is not bound:
            # It stays as it is stored until it is used.
            return casts.read_variant(dataclasses.replace(bound, code=column))
        return dataclasses.replace(bound, code=column)

    for source in scope.sources[start:]:
        source.columns = [
            dataclasses.replace(column, bound=move(column.bound)) for column in source.columns
        ]
        if source.sequence is not None:
            source.sequence = move(source.sequence)
    if start == 0:
        scope.merged = {name: move(bound) for name, bound in scope.merged.items()}
    return kept


def _generator(call: TableFunction, scope: QueryScope, left: relations.Rel) -> relations.Rel:
    bounds = []
    for name, rows_each in (("rowcount", 1), ("timelimit", limits.GENERATED_PER_SECOND)):
        bound = _constant(call, name, scope, None)
        if bound is None and name not in call.arguments:
            continue
        if isinstance(bound, bool) or not isinstance(bound, int) or bound < 0:
            raise errors.unsupported(f"GENERATOR without a constant {name.upper()}")
        bounds.append(bound * rows_each)
    if not bounds:
        raise errors.unsupported("GENERATOR without ROWCOUNT and TIMELIMIT")
    count = min(*bounds, GENERATED_MAX)
    scope.binder.generated_rows += count
    if "rowcount" not in call.arguments:
        seconds = bounds[0] // limits.GENERATED_PER_SECOND
        scope.binder.wait_seconds = max(scope.binder.wait_seconds, seconds)
    alias = scope.binder.alias("generator")
    sequence = Expr(
        code=code.exactly(
            code.ColumnUse(relation=alias, name=SEQUENCE), sqltypes.integer(19, 0, 1 << 62)
        ),
        type=sqltypes.integer(19, 0, max(count, 1)),
        nullable=False,
    )
    _add(call, [], scope, rows=count)
    scope.sources[-1].sequence = sequence
    number = code.ColumnUse(relation="", name="value")
    numbers = relations.Project(
        source=relations.Series(count=count), items=relations.items([(SEQUENCE, number)])
    )
    named = relations.Named(query=numbers, alias=alias)
    if isinstance(left, relations.OneRow):
        return named
    return relations.Join(left=left, right=named, side="CROSS")


GENERATED_MAX = 1 << 62


def _add(call: TableFunction, source: list[ScopeColumn], scope: QueryScope, *, rows: int) -> None:
    if call.listed:
        if len(call.listed) != len(source):
            raise errors.unsupported("column list of another length than its query")
        source = [
            dataclasses.replace(column, name=ident.folded)
            for column, ident in zip(source, call.listed, strict=True)
        ]
    path = () if call.alias is None else (call.alias,)
    scopes.check_alias(path, scope.sources)
    scope.sources.append(FromItem(path=path, columns=source, rows=rows))
