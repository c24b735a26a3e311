"""rule: CONNECT BY becomes a recursive WITH.

    select level, name from t start with boss is null connect by prior id = boss

reads the rows of

    with recursive "hierarchy 0" as (
        select t.*, 1 as "level of 0" from t where boss is null
        union all
        select t.*, "hierarchy 0"."level of 0" + 1 from t join "hierarchy 0"
        on "hierarchy 0".id = t.boss)
    select * from "hierarchy 0"

in the place of t. CONNECT_BY_ROOT and SYS_CONNECT_BY_PATH are further columns of it. No `*` shows
them or the level. WHERE holds for these rows, as in Snowflake. A row is read for each way that
leads to it; one that leads back to itself ends at the limits of the statement alone.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from sql import errors, limits
from sql.dialect import grammar, references

PATH = "SYS_CONNECT_BY_PATH"


def expand(tree: Any) -> Any:
    """Return a statement without CONNECT BY; its tree is changed. Raises SqlError."""
    selects = [node for node in tree.find_all(exp.Select) if node.args.get("connect")]
    if len(selects) > limits.HIERARCHIES_MAX:
        raise errors.too_complex(f"more than {limits.HIERARCHIES_MAX} CONNECT BY")
    references.number_placeholders(tree)  # conditions are moved
    for number, select in enumerate(reversed(selects)):  # the inner ones first
        _Hierarchy(select, number).expand()
    return tree


class _Hierarchy:
    """One SELECT with CONNECT BY, whose tree is changed. number: tells its names from others'."""

    def __init__(self, select: exp.Select, number: int) -> None:
        self._select = select
        self._connect = select.args["connect"]
        self._rows = exp.to_identifier(f"hierarchy {number}", quoted=True)
        self._level = exp.to_identifier(f"level of {number}", quoted=True)
        self._columns: list[tuple[exp.Identifier, Any, Any]] = [
            (self._level, exp.Literal.number(1), self._of_parent(self._level) + 1)
        ]
        """The hidden columns: their values in the first rows, and in those below."""
        self._names: dict[Any, exp.Identifier] = {}
        """Of the columns beside the level, by the arguments of their call."""

    def expand(self) -> None:
        select, connect = self._select, self._connect
        if connect.args.get("nocycle"):
            raise errors.unsupported("CONNECT BY NOCYCLE")
        from_: Any = select.args.get("from_")
        source = None if from_ is None else from_.this
        if isinstance(source, exp.Values):
            source = _as_query(source)
        if (
            not isinstance(source, exp.Table | exp.Subquery)
            or any(source.args.get(key) for key in ("joins", "pivots", "sample"))
            or any(select.args.get(key) for key in ("joins", "laterals"))
        ):
            raise errors.unsupported("CONNECT BY of anything but one table or query")
        self._alias = _alias_of(source)
        condition = self._below(connect.args.get("connect"))
        stars: list[exp.Star] = []
        for key, value in list(select.args.items()):
            if key not in ("from_", "with_", "connect"):
                for node in value if isinstance(value, list) else [value]:
                    self._replace_functions(node)
                    stars += _own(node, exp.Star)
        for star in stars:
            star.set("hidden", [str(name.this) for name, _, _ in self._columns])
        start = connect.args.get("start")
        select.set("connect", None)
        from_.set("this", self._query(source, start, condition))

    def _of_parent(self, name: exp.Identifier) -> exp.Column:
        return exp.Column(this=name.copy(), table=self._rows.copy())

    def _below(self, condition: Any) -> Any:
        """Return CONNECT BY's condition as that of the join of a row with the one above it."""
        if condition is None:
            raise errors.unsupported("START WITH without CONNECT BY")
        if condition.find(exp.Query, exp.ConnectByRoot) is not None:
            raise errors.unsupported("CONNECT BY with a query or CONNECT_BY_ROOT")
        condition = condition.copy()
        root = exp.Paren(this=condition)
        above = {
            id(column)
            for prior in root.find_all(exp.Prior)
            for column in prior.find_all(exp.Column)
        }
        for column in list(root.find_all(exp.Column)):
            is_level = _is_level(column)
            if id(column) in above:
                column.set("table", self._rows.copy())
                column.set("db", None)
                column.set("catalog", None)
                if is_level:
                    column.set("this", self._level.copy())
            elif is_level:
                column.replace(exp.Paren(this=self._of_parent(self._level) + 1))
            elif not column.args.get("table"):
                column.set("table", self._alias.copy())
        for prior in list(root.find_all(exp.Prior)):
            prior.replace(exp.Paren(this=prior.this))
        return root

    def _replace_functions(self, clause: Any) -> None:
        """Put the hidden columns in the place of what CONNECT BY gives a clause."""
        for node in _own(clause, exp.Column, exp.ConnectByRoot, exp.Anonymous):
            column = self._column(node)
            if column is None:
                continue
            is_item = node.parent is self._select and node.arg_key == "expressions"
            if is_item:
                text = str(node.meta.get(grammar.TEXT) or node.sql("snowflake"))
                alias = exp.to_identifier(text.upper(), quoted=True)
                column = exp.Alias(this=column, alias=alias)
            node.replace(column)

    def _column(self, node: Any) -> Any:
        """Return the hidden column of LEVEL, CONNECT_BY_ROOT or SYS_CONNECT_BY_PATH; or None."""
        if isinstance(node, exp.Column):
            return exp.Column(this=self._level.copy()) if _is_level(node) else None
        if isinstance(node, exp.ConnectByRoot):
            return self._further(node.this.copy(), None)
        if str(node.this).upper() != PATH:
            return None
        if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Literal):
            raise errors.unsupported(f"{PATH} with anything but a column and a text")
        return self._further(*(part.copy() for part in node.expressions))

    def _further(self, value: Any, separator: Any) -> exp.Column:
        """Return a hidden column: of the value in the first row, or in all rows on the way.

        Equal calls have one column, so that GROUP BY knows them again.
        """
        call = exp.Tuple(expressions=[value] if separator is None else [value, separator])
        name = self._names.get(call)
        if name is not None:
            return exp.Column(this=name.copy())
        if len(self._columns) > limits.HIERARCHIES_MAX:
            raise errors.too_complex(f"more than {limits.HIERARCHIES_MAX} columns of CONNECT BY")
        name = exp.to_identifier(f"{self._level.this}, {len(self._columns)}", quoted=True)
        self._names[call.copy()] = name
        if separator is None:
            self._columns.append((name, value, self._of_parent(name)))
        else:
            text = exp.DPipe(this=separator, expression=exp.Paren(this=value))
            below = exp.DPipe(this=self._of_parent(name), expression=exp.Paren(this=text.copy()))
            self._columns.append((name, text, below))
        return exp.Column(this=name.copy())

    def _query(self, source: Any, start: Any, condition: Any) -> exp.Subquery:
        """Return the query that stands for the table, under the table's alias."""
        star = [] if _is_dual(source) else [exp.Column(this=exp.Star(), table=self._alias.copy())]
        listed: list[Any] = []
        if isinstance(source, exp.Subquery):
            # As a WITH expression it is refused where its rows may differ when it is read again.
            name = exp.to_identifier(f"source of {self._rows.this}", quoted=True)
            alias = exp.TableAlias(this=name)
            listed.append(exp.CTE(this=source.this.copy(), alias=alias))
            source = exp.Table(this=name.copy(), alias=exp.TableAlias(this=self._alias.copy()))

        def rows(values: list[Any]) -> exp.Select:
            named = [
                exp.Alias(this=value, alias=name.copy())
                for (name, _, _), value in zip(self._columns, values, strict=True)
            ]
            from_ = exp.From(this=source.copy())
            return exp.Select(expressions=[*(each.copy() for each in star), *named], from_=from_)

        first = rows([value for _, value, _ in self._columns])
        if start is not None:
            first.set("where", exp.Where(this=start.copy()))
        below = rows([self._qualified(value) for _, _, value in self._columns])
        table = exp.Table(this=self._rows.copy())
        below.set("joins", [exp.Join(this=table, on=condition)])
        common = exp.CTE(
            this=exp.Union(this=first, expression=below, distinct=False),
            alias=exp.TableAlias(this=self._rows.copy()),
        )
        query = exp.Select(
            expressions=[exp.Star()],
            from_=exp.From(this=table.copy()),
            with_=exp.With(expressions=[*listed, common], recursive=True),
        )
        return exp.Subquery(this=query, alias=exp.TableAlias(this=self._alias.copy()))

    def _qualified(self, value: Any) -> Any:
        """Return a value whose columns are the row's, and not those of the row above it."""
        root = exp.Paren(this=value.copy())
        for column in root.find_all(exp.Column):
            if not column.args.get("table"):
                column.set("table", self._alias.copy())
        return root


def _as_query(values: exp.Values) -> exp.Subquery:
    """Return VALUES in FROM as a query with the alias that they have."""
    alias = values.args.get("alias")
    inner = values.copy()
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner))
    if alias is None:
        return exp.Subquery(this=query)
    return exp.Subquery(this=query, alias=exp.TableAlias(this=alias.this.copy()))


def _alias_of(source: Any) -> Any:
    """Return the identifier by which a query names its table."""
    alias = source.args.get("alias")
    if alias is not None and alias.this is not None:
        if alias.args.get("columns"):
            raise errors.unsupported("CONNECT BY of a table whose columns are renamed")
        return alias.this
    if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
        return source.this
    raise errors.unsupported("CONNECT BY of a query without an alias")


def _is_dual(source: Any) -> bool:
    """Return whether it is DUAL, whose one row has no columns."""
    name = source.this
    is_common = any(each.alias.upper() == "DUAL" for each in source.root().find_all(exp.CTE))
    return (
        not is_common
        and isinstance(name, exp.Identifier)
        and not name.args.get("quoted")
        and not source.args.get("db")
        and str(name.this).upper() == "DUAL"
    )


def _is_level(column: exp.Column) -> bool:
    name = column.this
    return (
        isinstance(name, exp.Identifier)
        and not name.args.get("quoted")
        and not column.args.get("table")
        and str(name.this).upper() == "LEVEL"
    )


def _own(clause: Any, *node_types: type[exp.Expression]) -> list[Any]:
    """Return the nodes of a clause, but for those of queries in it."""
    if not isinstance(clause, exp.Expression):
        return []
    nodes = clause.walk(prune=lambda node: isinstance(node, exp.Query) and node is not clause)
    return [node for node in nodes if isinstance(node, node_types)]
