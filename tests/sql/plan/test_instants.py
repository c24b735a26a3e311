"""Plans that group by TIMESTAMP_TZ; tests/sql/test_zoned_kernels.py has their rows."""

from __future__ import annotations

from sql.dialect import sqltypes
from sql.plan import code, emit, instants, relations
from sql.plan.expressions import Expr

ROWS = relations.TableScan(relation="0:T", alias="t")
Z = Expr(code=code.ColumnUse(relation="t", name="z"), type=sqltypes.TIMESTAMP_TZ)
A = Expr(code=code.ColumnUse(relation="t", name="a"), type=sqltypes.TEXT)
COUNT = Expr(code=code.call("count", Z), type=sqltypes.integer(), aggregate=True)
INSTANT = """_zoned_instant(arrow_cast("t"."z", 'Decimal128(38, 0)'))"""


def select(*keys: Expr) -> relations.Rel:
    items = relations.items([("z", Z), ("n", COUNT)])
    return relations.Project(source=relations.Aggregate(source=ROWS, keys=keys), items=items)


def test_a_key_is_its_instant_and_its_uses_above_show_the_least_value() -> None:
    assert emit.text(instants.grouped(select(Z), str)) == (
        f'SELECT min("t"."z") AS "z", count("t"."z") AS "n" FROM "0:T" AS "t" GROUP BY {INSTANT}'
    )


def test_keys_of_other_types_stay_as_they_are() -> None:
    query = select(A)
    assert instants.grouped(query, str) is query


def test_distinct_rows_are_groups() -> None:
    query = relations.Project(source=ROWS, items=relations.items([("z", Z), ("a", A)]))
    columns = [("z", Z.type), ("a", A.type)]
    text = emit.text(instants.distinct(query, columns, lambda name: name))
    assert text == (
        'SELECT min("distinct"."z") AS "z", "distinct"."a" AS "a"'
        ' FROM (SELECT "t"."z" AS "z", "t"."a" AS "a" FROM "0:T" AS "t") AS "distinct"'
        """ GROUP BY _zoned_instant(arrow_cast("distinct"."z", 'Decimal128(38, 0)')),"""
        ' "distinct"."a"'
    )
