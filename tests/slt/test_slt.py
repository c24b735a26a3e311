"""The scorer itself: what it reads of a corpus, and which answers it takes."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.slt import cells, corpus

DOCUMENT = """\
# a remark
statement ok
CREATE TABLE t (a INT);

skipif snowflake
query T
SELECT 'for another'
----
x

query IT rowsort
SELECT a,
       b FROM t
----
1\tx
2\t''

statement error
SELECT nosuch
----
000904 invalid identifier

onlyif duckdb
statement ok
SELECT 1
"""


def test_a_file_is_read_as_its_entries_and_others_entries_are_counted_but_left_out() -> None:
    setup, query, refusal = corpus.entries(DOCUMENT)
    assert (setup.name, setup.text, setup.is_scored) == ("s1", "CREATE TABLE t (a INT)", False)
    assert (query.name, query.order, query.width) == ("q2", "rowsort", 2)
    assert query.text == "SELECT a,\n       b FROM t"
    assert query.expected == ("1\tx", "2\t''")
    assert (refusal.name, refusal.expected) == ("e1", ("000904 invalid identifier",))


SAME: list[tuple[str, Any, str, bool]] = [
    ("NULL", None, "TEXT", True),
    ("TRUE", True, "BOOLEAN", True),
    ("1.50", Decimal("1.5"), "FIXED", True),
    ("1.5", Decimal("1.5"), "FIXED", False),
    ("0.3", 0.30000000000000004, "REAL", True),
    ("0.31", 0.3, "REAL", False),
    ("''", "", "TEXT", True),
    ("x'00ff'", b"\x00\xff", "BINARY", True),
    ("'2024-02-29'", datetime.date(2024, 2, 29), "DATE", True),
    ('\'{"a":1,"b":2}\'', '{ "b": 2, "a": 1 }', "VARIANT", True),
    ('\'{"a":1,"b":2}\'', '{"b":2,"a":1}', "TEXT", False),
    ("<REGEX>:\\d+", "12", "TEXT", True),
    ("<!REGEX>:\\d+", "12", "TEXT", False),
]


@pytest.mark.parametrize(("expected", "value", "sort", "is_same"), SAME)
def test_a_cell_is_compared_by_its_columns_type(
    expected: str, value: Any, sort: str, is_same: bool
) -> None:
    assert cells.same(expected, value, cells.Column("A", sort, 2)) is is_same


def test_the_order_of_rows_counts_only_where_the_query_gives_it() -> None:
    columns = [cells.Column("A", "TEXT")]
    for text, order, why in (
        ("SELECT a FROM t ORDER BY a", "nosort", "wrong answer: order of rows"),
        ("SELECT a FROM t ORDER BY a", "rowsort", ""),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", "nosort", ""),
    ):
        entry = corpus.Entry(name="q1", text=text, width=1, order=order, expected=("x", "y"))
        assert cells.difference(entry, columns, [("y",), ("x",)]) == why
        assert cells.difference(entry, columns, [("x",)]) == "wrong answer: 1 rows instead of 2"
