"""The columns of CREATE TABLE ... USING TEMPLATE, from the value of its query."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sql import errors, templates


def column(name: Any = "ID", data_type: Any = "NUMBER(38, 0)", **more: Any) -> dict[str, Any]:
    return {"COLUMN_NAME": name, "TYPE": data_type, **more}


@pytest.mark.parametrize(
    ("described", "text"),
    [
        ([column()], '"ID" NUMBER(38, 0)'),
        ([column("a b", "TEXT")], '"a b" TEXT'),
        ([column('a"b', "TEXT")], '"a""b" TEXT'),
        ([column("A", "TEXT", NULLABLE=False)], '"A" TEXT NOT NULL'),
        ([column("A", "TEXT", NULLABLE=True)], '"A" TEXT'),
        ([column("A", "TEXT", NULLABLE=0)], '"A" TEXT'),
        ([column("A", "TIMESTAMP_NTZ(9)"), column("B", "BINARY")],
         '"A" TIMESTAMP_NTZ(9), "B" BINARY'),
        ([column("A", "TEXT", ORDER_ID=10), column("B", "TEXT", ORDER_ID=9)],
         '"B" TEXT, "A" TEXT'),
        ([column("A", "TEXT", ORDER_ID=10), column("B", "TEXT")], '"A" TEXT, "B" TEXT'),
        ([column("A", "TEXT", ORDER_ID="2"), column("B", "TEXT", ORDER_ID="1")],
         '"A" TEXT, "B" TEXT'),
    ],
)  # fmt: skip
def test_each_object_is_a_column_in_the_order_of_their_ids(
    described: list[dict[str, Any]], text: str
) -> None:
    assert templates.columns([json.dumps(described)]) == text


@pytest.mark.parametrize(
    "data_type",
    [
        "TEXT, B INT",
        "TEXT) AS SELECT 1 --",
        "TEXT DEFAULT 1",
        "NUMBER(38, 0); DROP TABLE T",
        "NUMBER(1, 2, 3)",
        "NUMBER()",
        "NUMBER(x)",
        "TEXT\n",
        "",
        None,
        5,
    ],
)
def test_a_type_that_is_more_than_a_type_is_refused(data_type: Any) -> None:
    """Its text becomes part of a statement."""
    with pytest.raises(errors.SqlError) as caught:
        templates.columns([json.dumps([column("A", data_type)])])
    assert caught.value.code == "000002"


@pytest.mark.parametrize(
    "cells",
    [
        [],
        [None],
        [5],
        ["[]"],
        ["{}"],
        ['{"COLUMN_NAME":"A","TYPE":"TEXT"}'],
        ["5"],
        [json.dumps([column(None)])],
        [json.dumps([column(5)])],
        [json.dumps([{"TYPE": "TEXT"}])],
        [json.dumps([column(), 5])],
        [json.dumps([column(), None])],
        [json.dumps([column()]), json.dumps([column()])],
    ],
    ids=str,
)
def test_a_value_that_describes_no_columns_is_refused(cells: list[Any]) -> None:
    with pytest.raises(errors.SqlError) as caught:
        templates.columns(cells)
    assert caught.value.code == "000002"
