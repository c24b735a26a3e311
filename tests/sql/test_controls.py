"""Statements about other statements."""

from __future__ import annotations

import pytest

from sql import controls

ID = "01234567-89ab-cdef-0123-456789abcdef"


def test_the_drivers_texts_are_taken() -> None:
    assert controls.parse(f"select * from table(result_scan('{ID}'))") == controls.ResultScan(
        query_id=ID
    )
    assert controls.parse(f" SELECT * FROM TABLE (RESULT_SCAN( '{ID.upper()}' ) ) ; ") == (
        controls.ResultScan(query_id=ID)
    )
    text = f"select system$cancel_query('{ID}')"
    assert controls.parse(text) == controls.CancelQuery(
        query_id=ID, column_name=f"SYSTEM$CANCEL_QUERY('{ID.upper()}')"
    )
    assert controls.parse("select system$cancel_all_queries(17)") == controls.CancelAll(
        session_id=17, column_name="SYSTEM$CANCEL_ALL_QUERIES(17)"
    )
    assert controls.parse(" CALL system$wait( 2 , hours );") == controls.Wait(
        milliseconds=7_200_000, answer="waited 2 hours", column_name="SYSTEM$WAIT( 2 , HOURS )"
    )


@pytest.mark.parametrize(
    "text",
    ["select 1", "", f"select * from table(result_scan('{ID}')) where x",
     f"select a from table(result_scan('{ID}'))", "select * from table(result_scan('x'))",
     "select system$wait(-1)", "select system$wait(1, 'years')", "select system$wait(1), 2",
     f"select system$cancel_query('{ID}'), 1", "select system$cancel_all_queries(-1)",
     "select * from table(result_scan(last_query_id()))"],
)  # fmt: skip
def test_any_other_text_is_left_to_the_dialect(text: str) -> None:
    assert controls.parse(text) is None
