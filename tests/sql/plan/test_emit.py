"""The engine's text of code and expressions, and the kernels that it calls."""

from __future__ import annotations

import pytest

from sql import kernels
from sql.dialect import sqltypes
from sql.plan import code, emit, expressions, relations
from tests.kit import sql_text

A, B = code.ColumnUse(relation="t#1", name="a"), code.ColumnUse(relation="", name='say "b"')
NUMBER = expressions.Expr(code=A, type=sqltypes.integer())
ONE = relations.Project(
    source=relations.OneRow(), items=(relations.ProjectItem(value=code.part(1)),)
)

TEXTS: list[tuple[code.Part, str]] = [
    (A, '"t#1"."a"'),
    (B, '"say ""b"""'),
    (code.StringLiteral(value="it's"), "'it''s'"),
    (code.part(-3), "(-3)"),
    (code.TRUE, "TRUE"),
    (NUMBER, '"t#1"."a"'),
    (code.call("upper", "x"), "upper('x')"),
    (code.infix(NUMBER, "+", 1, "-", 2), '("t#1"."a" + 1 - 2)'),
    (code.joined([A, A, A], "OR"), '("t#1"."a" OR "t#1"."a" OR "t#1"."a")'),
    (code.not_(NUMBER), '(NOT "t#1"."a")'),
    (code.is_null(NUMBER), '("t#1"."a" IS NULL)'),
    (code.arrow(NUMBER, "Int32"), 'arrow_cast("t#1"."a", \'Int32\')'),
    (
        code.exactly("1.5", sqltypes.number(2, 1), lenient=True),
        "arrow_try_cast('1.5', 'Decimal128(2, 1)')",
    ),
    (
        code.exactly(NUMBER, sqltypes.TIMESTAMP_LTZ),
        'CAST("t#1"."a" AS TIMESTAMP(6) WITH TIME ZONE)',
    ),
    (code.case([(NUMBER, 1)]), '(CASE WHEN "t#1"."a" THEN 1 END)'),
    (
        code.case([(1, "a")], "b", operand=NUMBER),
        "(CASE \"t#1\".\"a\" WHEN 1 THEN 'a' ELSE 'b' END)",
    ),
    (code.Subquery(query=ONE), "(SELECT 1)"),
    (
        code.Among(operand=NUMBER, members=(code.part(1), code.part(2)), negated=True),
        '("t#1"."a" NOT IN (1, 2))',
    ),
    (
        code.Among(operand=NUMBER, members=(code.Subquery(query=ONE),)),
        '("t#1"."a" IN (SELECT 1))',
    ),
    (code.Prefix(word="EXISTS", operand=code.Subquery(query=ONE)), "(EXISTS (SELECT 1))"),
    (
        code.FunctionUse(
            name="string_agg",
            arguments=(NUMBER, code.StringLiteral(value=",")),
            is_distinct=True,
            order=(code.SortKey(key=NUMBER, direction=" ASC NULLS LAST"),),
        ),
        'string_agg(DISTINCT "t#1"."a", \',\' ORDER BY "t#1"."a" ASC NULLS LAST)',
    ),
    (
        code.FunctionUse(
            name="lag",
            arguments=(NUMBER,),
            ignores_nulls=True,
            over=code.Window(
                partition=(NUMBER, B),
                order=(code.SortKey(key=NUMBER, direction=" ASC NULLS LAST"),),
                frame="ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
            ),
        ),
        'lag("t#1"."a") IGNORE NULLS OVER (PARTITION BY "t#1"."a", "say ""b""" ORDER BY '
        '"t#1"."a" ASC NULLS LAST ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)',
    ),
    (code.FunctionUse(name="count", arguments=(), over=code.Window()), "count() OVER ()"),
]


@pytest.mark.parametrize(("part", "expected"), TEXTS, ids=[text for _, text in TEXTS])
def test_a_part_is_written_as_one_operand(part: code.Part, expected: str) -> None:
    assert emit.text(part) == expected


@pytest.mark.parametrize("part", [part for part, _ in TEXTS], ids=[text for _, text in TEXTS])
def test_the_length_of_an_expression_is_that_of_its_text(part: code.Part) -> None:
    inner = expressions.derived(code.call("abs", part), sqltypes.REAL, [])
    outer = expressions.derived(code.infix(inner, "+", inner), sqltypes.REAL, [inner])
    assert emit.length(outer) == len(emit.text(outer))
    assert inner.length == len(emit.text(inner))


def test_the_length_of_an_expression_that_doubles_is_known_without_its_text() -> None:
    expression = NUMBER
    for _ in range(60):
        expression = expressions.derived(
            code.infix(expression, "*", expression), sqltypes.REAL, [expression]
        )
        measured = emit.length(expression)
    # "(" x " * " x ")": a length of n becomes one of 2 n + 5.
    assert measured == (len('"t#1"."a"') + 5) * 2**60 - 5


def test_code_as_deep_as_a_chain_of_terms_is_written_without_recursion() -> None:
    part: code.Part = NUMBER
    for _ in range(50_000):
        part = code.not_(part)
    assert emit.text(part).count("NOT") == 50_000


def test_the_kernels_of_a_text_are_those_that_its_code_calls() -> None:
    called: set[str] = set()
    emit.text(code.call("upper", code.kernel("_initcap", "_place('", "_nonzero(")), called)
    assert called == {"_initcap"}


def test_a_query_names_the_kernels_that_it_calls_anywhere_and_no_other() -> None:
    bound, _ = sql_text.bind(
        "with w as (select '1'::int n where initcap('a') = 'A' group by ln(2))"
        " select n, '_to_real(', (select max(to_double(n::varchar || '1')) from w)"
        " from w order by substr('abc', n)"
    )
    assert bound.functions == ("_domain_ln", "_initcap", "_place", "_to_real")
    for name in bound.functions:
        assert kernels.kernel(name).result is not None


@pytest.mark.parametrize(
    "text",
    [
        "with c as (select uuid_string() as u) select u = u from c where u is not null",
        "with c as (select uuid_string() as u), d as (select u from c) select u = u from d",
        "with c as (select 1 as u) select a.u = b.u from c as a, c as b",
        "with c as (select uuid_string() as u) select a.u = b.u from c as a, c as b",
        "with c as (select random() as u) select count(*) = 1 from c where u in (select u from c)",
        "with c as (select random() as u) select u in (select u from c) from c",
        "with c as (select random() as u), d as (select u from c) select a.u = b.u from d a, d b",
        "with c as (select random() as u), d as (select u from c) select c.u = d.u from d, c",
        "with n as (select 1 as n), c as (select n, random() as u from n),"
        " d as (select n, u + n as v, uuid_string() as w from c)"
        " select c.u + 1 = a.v and a.w = b.w from d a, d b, c",
        "with recursive c as (select 1 as n, random() as u union all"
        " select n + 1, random() from c where n < 3)"
        " select count(*) = 3 from c a join c b on a.u = b.u",
        "select (with c as (select random() as u) select a.u = b.u from c a, c b)",
    ],
)
def test_a_common_table_expression_has_the_same_rows_wherever_it_is_read(text: str) -> None:
    assert sql_text.answer(text).cell is True


def test_the_relations_of_checked_operands_are_all_found() -> None:
    def checked(alias: str) -> code.Part:
        column = code.ColumnUse(relation=alias, name="a")
        return code.Checked(operand=code.infix(column, "+", 1), low=0, high=9)

    aliases = {f"t{number}" for number in range(200)}
    parts = [code.infix(checked(alias), "=", checked(alias)) for alias in sorted(aliases)]
    assert emit.relations_of(code.joined(parts, "AND")) == aliases
