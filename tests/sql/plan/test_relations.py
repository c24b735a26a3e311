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
