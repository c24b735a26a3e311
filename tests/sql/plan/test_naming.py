"""Names of joined columns."""

from __future__ import annotations

from sql.plan import code, emit, naming, relations

LEFT = relations.TableScan(relation="0:L", alias="l")
RIGHT = relations.TableScan(relation="1:R", alias="r")


def column(relation: str, name: str) -> code.ColumnUse:
    return code.ColumnUse(relation=relation, name=name)


def selected(*columns: code.ColumnUse, on: str = "k") -> relations.Project:
    condition = code.infix(column("l", "k"), "=", column("r", on))
    join = relations.Join(left=LEFT, right=RIGHT, side="INNER", conditions=(condition,))
    return relations.Project(source=join, items=tuple(map(named, columns)))


def named(value: code.ColumnUse) -> relations.ProjectItem:
    return relations.ProjectItem(value=value)


def test_columns_of_different_names_stay_as_they_are() -> None:
    query = selected(column("l", "a"), on="b")
    assert naming.distinct(query) is query


def test_columns_of_one_name_get_the_aliases_and_results_keep_theirs() -> None:
    text = emit.text(naming.distinct(selected(column("l", "k"), column("r", "v"))))
    assert text == (
        'SELECT "l"."l.k" AS "k", "r"."v"'
        ' FROM (SELECT "k" AS "l.k" FROM "0:L" AS "l") AS "l"'
        ' INNER JOIN (SELECT "k" AS "r.k", "v" AS "v" FROM "1:R" AS "r") AS "r"'
        ' ON ("l"."l.k" = "r"."r.k")'
    )


def test_below_a_star_names_stay() -> None:
    query = relations.Project(source=selected().source, keeps_all=True)
    assert naming.distinct(query) is query


def test_a_query_in_from_and_the_join_inside_it_are_both_named() -> None:
    inner = relations.Named(query=selected(column("l", "k")), alias="q")
    other = relations.TableScan(relation="2:S", alias="s")
    condition = code.infix(column("q", "k"), "=", column("s", "k"))
    join = relations.Join(left=inner, right=other, side="LEFT", conditions=(condition,))
    text = emit.text(
        naming.distinct(relations.Project(source=join, items=(named(column("s", "k")),)))
    )
    assert '(SELECT "k" AS "q.k" FROM (SELECT "l"."l.k" AS "k" FROM (SELECT' in text
    assert text.startswith('SELECT "s"."s.k" AS "k" FROM ')


def test_joins_in_parentheses_and_chains_are_named_as_one_from() -> None:
    other = relations.TableScan(relation="2:S", alias="s")
    condition = code.infix(column("r", "k"), "=", column("s", "k"))
    inner = relations.Join(left=RIGHT, right=other, side="INNER", conditions=(condition,))
    last = relations.TableScan(relation="3:T", alias="t")
    chain = relations.Join(
        left=relations.Join(left=LEFT, right=relations.Enclosed(source=inner), side="CROSS"),
        right=last,
        side="INNER",
        conditions=(code.infix(column("l", "v"), "=", column("t", "v")),),
    )
    query = relations.Project(source=chain, items=(named(column("s", "k")),))
    text = emit.text(naming.distinct(query))
    for name in ("l.v", "r.k", "s.k", "t.v"):
        assert f'AS "{name}"' in text, name
    assert 'SELECT "s"."s.k" AS "k"' in text
