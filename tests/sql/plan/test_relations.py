"""The engine's text of relations: each step is a clause, each query in FROM has an alias."""

from __future__ import annotations

import pytest

from sql.plan import code, emit, relations

A = code.ColumnUse(relation="t", name="a")
ROWS = relations.TableScan(relation="0:T", alias="t")
ITEM = relations.ProjectItem(value=A, name="A")
ASCENDING = " ASC NULLS LAST"


def selected(source: relations.Rel) -> relations.Project:
    return relations.Project(source=source, items=(ITEM,))


ONE = relations.Project(
    source=relations.OneRow(), items=(relations.ProjectItem(value=code.part(1)),)
)
COUNT = relations.ProjectItem(value=code.call("count", code.ALL_COLUMNS), name="n")
OVER = code.FunctionUse(name="row_number", arguments=(), over=code.Window())

TEXTS: list[tuple[relations.Rel, str]] = [
    (ONE, "SELECT 1"),
    (
        relations.Project(
            source=relations.RowFilter(source=relations.OneRow(), condition=code.TRUE),
            items=relations.items([("x", code.part(1))]),
        ),
        'SELECT 1 AS "x" WHERE TRUE',
    ),
    (selected(ROWS), 'SELECT "t"."a" AS "A" FROM "0:T" AS "t"'),
    (
        relations.Project(source=ROWS, items=(ITEM,), keeps_all=True, is_distinct=True),
        'SELECT DISTINCT *, "t"."a" AS "A" FROM "0:T" AS "t"',
    ),
    (
        selected(relations.Named(query=relations.Project(source=ROWS, keeps_all=True), alias="t")),
        'SELECT "t"."a" AS "A" FROM (SELECT * FROM "0:T" AS "t") AS "t"',
    ),
    (
        selected(relations.Join(left=ROWS, right=relations.TableScan(relation="w"), side="CROSS")),
        'SELECT "t"."a" AS "A" FROM "0:T" AS "t" CROSS JOIN "w"',
    ),
    (
        selected(
            relations.Join(
                left=ROWS,
                right=relations.Enclosed(
                    source=relations.Join(
                        left=relations.TableScan(relation="1:U", alias="u"),
                        right=ROWS,
                        side="CROSS",
                    )
                ),
                side="LEFT",
                conditions=(A, code.TRUE),
            )
        ),
        'SELECT "t"."a" AS "A" FROM "0:T" AS "t" LEFT JOIN ("1:U" AS "u" CROSS JOIN "0:T" AS "t") '
        'ON "t"."a" AND TRUE',
    ),
    (
        relations.Project(
            source=relations.RowFilter(
                source=relations.Aggregate(
                    source=relations.RowFilter(source=ROWS, condition=code.is_null(A)), keys=(A,)
                ),
                condition=code.TRUE,
            ),
            items=(COUNT,),
        ),
        'SELECT count(*) AS "n" FROM "0:T" AS "t" WHERE ("t"."a" IS NULL) GROUP BY "t"."a" '
        "HAVING TRUE",
    ),
    (
        relations.Project(source=relations.Aggregate(source=ROWS), items=(COUNT,)),
        'SELECT count(*) AS "n" FROM "0:T" AS "t"',
    ),
    (
        relations.Project(
            source=relations.Aggregate(
                source=ROWS,
                keys=(
                    relations.GroupingSets(word="ROLLUP", sets=((A, code.TRUE),)),
                    relations.GroupingSets(word="GROUPING SETS", sets=((A,), ())),
                ),
            ),
            items=(COUNT,),
        ),
        'SELECT count(*) AS "n" FROM "0:T" AS "t" GROUP BY ROLLUP ("t"."a", TRUE), '
        'GROUPING SETS (("t"."a"), ())',
    ),
    (
        selected(
            relations.RowFilter(
                source=relations.WindowRows(source=ROWS), condition=code.infix(OVER, "=", 1)
            )
        ),
        'SELECT "t"."a" AS "A" FROM "0:T" AS "t" QUALIFY (row_number() OVER () = 1)',
    ),
    (
        relations.Unnest(source=ROWS, columns=("a", "b"), listed="list", row="row"),
        'SELECT "a", "b", unnest("list") AS "row" FROM "0:T" AS "t"',
    ),
    (
        selected(
            relations.Named(
                query=relations.Project(
                    source=relations.Series(count=5), items=relations.columns(["value"])
                ),
                alias="s",
            )
        ),
        'SELECT "t"."a" AS "A" FROM (SELECT "value" FROM generate_series(0, 4)) AS "s"',
    ),
    (
        selected(
            relations.Values(
                rows=((code.part(1), code.part("x")), (code.part(2), code.NULL)),
                alias="v",
                columns=("c", "d"),
            )
        ),
        'SELECT "t"."a" AS "A" FROM (VALUES (1, \'x\'), (2, NULL)) AS "v"("c", "d")',
    ),
    (
        relations.Limit(
            source=relations.Sort(
                source=relations.set_operation("UNION ALL", [ONE, ONE, ONE]),
                keys=(code.SortKey(key=code.part(1), direction=ASCENDING),),
            ),
            count=2,
            offset=1,
        ),
        "(SELECT 1) UNION ALL (SELECT 1) UNION ALL (SELECT 1) ORDER BY 1 ASC NULLS LAST "
        "LIMIT 2 OFFSET 1",
    ),
    (
        relations.Limit(
            source=relations.Enclosed(source=relations.Limit(source=ONE, count=3)), offset=1
        ),
        "(SELECT 1 LIMIT 3) OFFSET 1",
    ),
    (
        relations.With(
            common=(relations.Common(name="c", columns=("x", "y"), query=ONE),), query=ONE
        ),
        'WITH "c"("x", "y") AS (SELECT 1) SELECT 1',
    ),
    (
        relations.With(
            common=(
                relations.Common(
                    name="c", columns=("x",), query=relations.Recursive(anchor=ONE, step=ONE)
                ),
            ),
            query=ONE,
        ),
        'WITH RECURSIVE "c"("x") AS (SELECT 1 UNION ALL SELECT 1) SELECT 1',
    ),
]


@pytest.mark.parametrize(("relation", "expected"), TEXTS, ids=[text for _, text in TEXTS])
def test_a_relation_is_written_as_one_query(relation: relations.Rel, expected: str) -> None:
    assert emit.text(relation) == expected


def test_a_long_set_operation_is_deep_by_the_logarithm_of_its_branches() -> None:
    written = emit.text(relations.set_operation("UNION", [ONE] * 100))
    assert written.count("SELECT 1") == 100
    depth = deepest = 0
    for character in written:
        depth += {"(": 1, ")": -1}.get(character, 0)
        deepest = max(deepest, depth)
    assert deepest <= 4


def test_queries_as_deep_as_ten_thousand_are_written_without_recursion() -> None:
    query: relations.Rel = ONE
    for _ in range(10_000):
        query = relations.Project(source=relations.Named(query=query, alias="q"), keeps_all=True)
    assert emit.text(query).count("SELECT *") == 10_000


def test_a_text_that_begins_with_a_parenthesis_is_known_by_its_plan() -> None:
    enclosed = relations.Limit(source=relations.Enclosed(source=ONE), count=1)
    for query in (ONE, enclosed, relations.set_operation("UNION", [ONE, ONE])):
        assert relations.starts_enclosed(query) == emit.text(query).startswith("(")


GROUPED = relations.Project(source=relations.Aggregate(source=ROWS, keys=(A,)), items=(ITEM,))
OTHER = relations.TableScan(relation="1:U", alias="u")


def joined(left: relations.Rel, right: relations.Rel) -> relations.Rel:
    source = relations.Join(left=left, right=right, side="CROSS")
    return relations.Sort(source=selected(source), keys=())


@pytest.mark.parametrize("is_common", [True, False])
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"0:T": 6, "1:U": 5}, True),
        ({"0:T": 5, "1:U": 5}, False),
        ({"0:T": 5, "1:U": 6}, False),
        ({"0:T": 6, "1:U": None}, False),
        ({"0:T": None, "1:U": 1}, False),
        ({"0:T": 6}, False),
    ],
)
def test_a_join_with_groups_groups_most_where_they_are_of_more_rows(
    rows: dict[str, int | None], expected: bool, is_common: bool
) -> None:
    named = relations.Named(query=GROUPED, alias="g")
    query = joined(OTHER, named)
    if is_common:
        common = relations.Common(name="C", columns=("A",), query=GROUPED)
        scan = relations.TableScan(relation="C", alias="c")
        query = relations.With(common=(common,), query=joined(OTHER, scan))
    assert relations.groups_most(query, rows) is expected


def test_rows_of_groups_group_most_whatever_is_known() -> None:
    assert relations.groups_most(GROUPED, {})
    assert not relations.groups_most(selected(ROWS), {"0:T": 5})


def test_a_branch_of_a_union_counts_as_what_it_reads() -> None:
    union = relations.set_operation("UNION ALL", [GROUPED, selected(OTHER)])
    assert relations.groups_most(union, {"0:T": 6, "1:U": 5})
    assert not relations.groups_most(union, {"0:T": 5, "1:U": 6})


def test_a_recursive_expression_is_counted_once() -> None:
    step = selected(relations.TableScan(relation="R"))
    common = relations.Common(
        name="R", columns=("A",), query=relations.Recursive(anchor=GROUPED, step=step)
    )
    scan = relations.TableScan(relation="R")
    query = relations.With(common=(common,), query=joined(scan, OTHER))
    assert relations.groups_most(query, {"0:T": 6, "1:U": 5})
    assert not relations.groups_most(query, {"0:T": 5, "1:U": 6})
