"""rule: the columns of CREATE TABLE ... USING TEMPLATE, as INFER_SCHEMA describes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from sql import errors, variants
from sql.dialect import names

TYPE: Final = re.compile(r"[A-Za-z_]+(?: ?\( ?\d+ ?(?:, ?\d+ ?)?\))?")


def columns(cells: Sequence[Any]) -> str:
    """Return the text of the columns that a template's one value describes.

    cells: the values of the query's one column. The value is an ARRAY of OBJECTs with COLUMN_NAME,
    TYPE and perhaps NULLABLE and ORDER_ID, by which they are sorted. Raises SqlError for any other.
    """
    value = variants.loads(cells[0]) if len(cells) == 1 and isinstance(cells[0], str) else None
    if not isinstance(value, list) or not value:
        raise refusal()
    described = [each for each in value if isinstance(each, dict)]
    if len(described) != len(value):
        raise refusal()
    if all(isinstance(each.get("ORDER_ID"), int) for each in described):
        described.sort(key=lambda each: int(str(each["ORDER_ID"])))
    return ", ".join(map(_column, described))


def _column(described: dict[str, Any]) -> str:
    name, data_type = described.get("COLUMN_NAME"), described.get("TYPE")
    if not isinstance(name, str) or not isinstance(data_type, str) or not TYPE.fullmatch(data_type):
        raise refusal()
    required = " NOT NULL" if described.get("NULLABLE") is False else ""
    return f"{names.quoted(name)} {data_type}{required}"


def refusal() -> errors.SqlError:
    """Return the error of a template that is not a query of one such value."""
    return errors.unsupported("USING TEMPLATE of other than an ARRAY of INFER_SCHEMA's rows")
