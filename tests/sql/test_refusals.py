"""What errors of constructs that are not built say to use instead."""

from __future__ import annotations

import pytest

from sql import errors
from sql.dialect import parse
from tests.kit import sql_text

NAMED = {
    "create task t schedule = '1 minute' as select 1": (
        "CREATE TASK",
        "pipelines by their schedules",
    ),
    "alter task t resume": ("ALTER TASK", "pipelines by their schedules"),
    "execute task t": ("EXECUTE TASK", "pipelines by their schedules"),
    "create or replace stream s on table t": ("CREATE OR REPLACE STREAM", "AT or BEFORE"),
    "create function f(x int) returns int as 'x + 1'": ("CREATE FUNCTION", "view"),
    "create procedure p() returns int language sql as 'return 1'": ("CREATE PROCEDURE", "program"),
    "call p(1)": ("CALL P", "There are no stored procedures"),
    'call lake.ns."Run"(a => 1)': ("CALL LAKE.NS.Run", "There are no stored procedures"),
    "create dynamic table d target_lag = '1 minute' as select 1": ("CREATE DYNAMIC TABLE", "view"),
    "create materialized view v as select 1": ("CREATE MATERIALIZED VIEW", "view"),
    "create pipe p as copy into t from @s": ("CREATE PIPE", "COPY INTO"),
    "create row access policy p as (a int) returns boolean -> true": (
        "CREATE ROW ACCESS POLICY",
        "whole tables",
    ),
    "declare x int; begin return 1; end": ("DECLARE", "SET keeps values"),
    "create share s": ("CREATE SHARE", ""),
}


@pytest.mark.parametrize("text", NAMED)
def test_a_statement_that_is_not_built_is_refused_with_what_to_use_instead(text: str) -> None:
    name, hint = NAMED[text]
    with pytest.raises(errors.SqlError) as caught:
        parse.parse(text)
    _, refusal, *hints = caught.value.message.split("\n")
    assert refusal == f"Unsupported feature '{name}'."
    assert [hint in each for each in hints] == ([True] if hint else [])


def test_clauses_and_types_have_such_sentences_too() -> None:
    for text, hint in {
        "select * from (select 1 a) match_recognize (order by a measures match_number() as m"
        " pattern (b) define b as a > 0)": "LAG",
        "select 1::decfloat": "NUMBER(38, s)",
    }.items():
        with pytest.raises(errors.SqlError) as caught:
            sql_text.bind(text)
        assert hint in caught.value.message.split("\n")[2]
