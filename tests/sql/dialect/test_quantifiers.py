"""Comparisons with ANY and ALL of a query or a list."""

from __future__ import annotations

from pathlib import Path

from tests.sql.test_answers import answers

THREE = "(values (1), (2), (3)) t(a)"
NULLS = "select b from (values (2), (null)) u(b)"
NONE = "select 1 where false"


def test_a_comparison_with_any_or_all_rows_of_a_query_has_three_values(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            f"select a from {THREE} where a > any (select 1 union select 2) order by a": [
                (2,),
                (3,),
            ],
            f"select a from {THREE} where a >= all (select a from {THREE})": (3,),
            f"select a <= any (select 2) from {THREE} order by a": [(True,), (True,), (False,)],
            f"select a <> any (select 2) from {THREE} order by a": [(True,), (False,), (True,)],
            f"select a = all (select 2) from {THREE} order by a": [(False,), (True,), (False,)],
            # Without rows ANY is false and ALL is true, also for NULL.
            f"select a < any ({NONE}), a < all ({NONE}) from (values (1), (null)) t(a)": [
                (False, True),
                (False, True),
            ],
            f"select a > any ({NULLS}) from {THREE} order by a": [(None,), (None,), (True,)],
            f"select a > all ({NULLS}) from {THREE} order by a": [(False,), (False,), (None,)],
            f"select null::int > any (select a from {THREE})": (None,),
            "select 2.5 > all (select 2), 'b' > any (select 'a')": (True, True),
        },
    )


def test_a_comparison_with_any_or_all_of_a_list(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            f"select a > any (1, 2), a < all (2, 3), a = any (1, 2) from {THREE} order by a": [
                (False, True, True),
                (True, False, True),
                (True, False, False),
            ],
            "select 1 <> all (2, null), 1 = any (2, null), 1 > all (1)": (None, None, False),
            "select (1, 2) > any (select 1, 2)": "000002",
            "select 1 > any (select 'x')": "000002",
            "select random() > any (select 1)": "000002",
        },
    )
