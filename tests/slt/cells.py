"""When a result is the expected one.

A value is written by its column's type, and texts are compared: NULL, TRUE and FALSE; numbers
with their scale; REAL as Python's repr, within 1e-6 of the expected one; dates and times in ISO's
form in quotes, bytes as x'00', "''" for an empty text, objects and arrays as compact JSON in
quotes, with sorted keys but in a VARCHAR. Cells that begin with <REGEX>: and <!REGEX>: are
patterns of the whole cell. The order of rows counts where the query's own ORDER BY gives it.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

TOLERANCE = 1e-6
WIDE = decimal.Context(prec=80)
REAL = re.compile(r"-?\d+(\.\d+(e[+-]\d+)?|e[+-]\d+)")
JSON_PARTS = re.compile(r'("(?:[^"\\]|\\.)*")|\bundefined\b')
SQL_PARTS = re.compile(
    r"""--[^\n]*|/\*.*?\*/|\$\$.*?\$\$|'(?:[^'\\]|\\.|'')*'|"(?:[^"]|"")*"|.""", re.DOTALL
)
CLAUSE_END = re.compile(r"\b(limit|offset|fetch|union|intersect|except|minus)\b", re.IGNORECASE)
KEY_END = re.compile(r"(\s+(asc|desc))?(\s+nulls\s+(first|last))?\s*$", re.IGNORECASE)
KEY_NAME = re.compile(r"""(?:(?:\w+|"[^"]+")\.)*(\w+|"[^"]+")""")


class Column(NamedTuple):
    """A result column as the driver describes it."""

    name: str
    type: str
    scale: int | None = None


def difference(entry: Any, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> str:
    """Return what is wrong with a query's result; "" if nothing is. entry: a `corpus.Entry`."""
    wanted = [line.split("\t") for line in entry.expected]
    width = len(wanted[0]) if wanted else entry.width
    if len(columns) != width:
        return f"wrong answer: {len(columns)} columns instead of {width}"
    if len(rows) != len(wanted):
        return f"wrong answer: {len(rows)} rows instead of {len(wanted)}"
    if entry.order == "valuesort":
        texts = [text for cells in wanted for text in cells]
        values = [pair for row in rows for pair in zip(row, columns, strict=True)]
        return "" if _are_partners(texts, values, lambda text, pair: same(text, *pair)) else VALUES

    def same_row(cells: Sequence[str], row: Sequence[Any]) -> bool:
        return len(cells) == len(row) and all(map(same, cells, row, columns))

    if not _are_partners(wanted, rows, same_row):
        return VALUES
    keys = _order_keys(entry.text) if entry.order == "nosort" else None
    if keys is None:
        return ""
    places = [_place_of(key, columns) for key in keys]
    # Rows that tie on the keys may come in any order, if all keys are columns of the result.
    compared = range(width) if None in places else [place for place in places if place is not None]
    for cells, row in zip(wanted, rows, strict=True):
        if not all(same(cells[at], row[at], columns[at]) for at in compared):
            return "wrong answer: order of rows"
    return ""


VALUES = "wrong answer: values"


def same(expected: str, value: Any, column: Column) -> bool:
    """Say whether a value of the driver is the expected cell."""
    actual = written(value, column)
    if expected.startswith(("<REGEX>:", "<!REGEX>:")):
        pattern = expected.partition(":")[2]
        return (re.fullmatch(pattern, actual, re.DOTALL) is not None) == expected.startswith("<R")
    if column.type == "REAL" and REAL.fullmatch(expected) and REAL.fullmatch(actual):
        return math.isclose(float(expected), float(actual), rel_tol=TOLERANCE)
    if expected[:2] in ("'{", "'["):
        expected = _text(expected[1:-1], sort_keys=column.type != "TEXT")
    return actual == expected


def written(value: Any, column: Column) -> str:
    """Return a value of the driver as the corpus writes it."""
    if value is None:
        return "NULL"
    if column.type == "BOOLEAN":
        return str(value).upper()
    if column.type in ("FIXED", "DECFLOAT"):
        number = decimal.Decimal(value)
        unit = decimal.Decimal((0, (1,), -(column.scale or 0)))
        scaled = number.quantize(unit, context=WIDE)
        return str(scaled if scaled == number and column.type == "FIXED" else number)
    if isinstance(value, bytes | bytearray):
        return f"x'{value.hex()}'"
    if hasattr(value, "isoformat"):
        return f"'{value.isoformat()}'"
    if isinstance(value, list | dict):
        value = json.dumps(value, default=str)
    return _text(str(value), sort_keys=column.type != "TEXT")


def _text(text: str, *, sort_keys: bool) -> str:
    if text[:1] in ("{", "["):
        try:
            value = json.loads(JSON_PARTS.sub(lambda part: part[1] or "null", text))
        except ValueError:
            pass
        else:
            text = json.dumps(value, separators=(",", ":"), sort_keys=sort_keys, ensure_ascii=False)
            return f"'{text}'"
    return text.replace("\n", "\\n") or "''"


def _are_partners(
    wanted: Sequence[Any], rows: Sequence[Any], alike: Callable[[Any, Any], bool]
) -> bool:
    """Say whether each wanted cell has a partner of its own, whatever the order."""
    left = list(rows)
    for wanted_cell in wanted:
        at = next((at for at, other in enumerate(left) if alike(wanted_cell, other)), None)
        if at is None:
            return False
        del left[at]
    return not left


def _order_keys(text: str) -> list[str] | None:
    """Return the keys of a query's own ORDER BY, not of its subqueries; None without one."""
    depth, outside = 0, []
    for part in SQL_PARTS.findall(text):
        depth -= part == ")"
        if depth == 0:
            is_literal = part.startswith(("'", "$$"))
            outside.append(" " if part.startswith(("--", "/*")) else "''" if is_literal else part)
        depth += part == "("
    clauses = re.split(r"\border\s+by\b", "".join(outside), flags=re.IGNORECASE)
    if len(clauses) == 1:
        return None
    clause = CLAUSE_END.split(clauses[-1])[0]
    return [KEY_END.sub("", key).strip() for key in clause.split(",")]


def _place_of(key: str, columns: Sequence[Column]) -> int | None:
    """Return the index of the one result column that a key names, else None."""
    if key.isdigit():
        return int(key) - 1 if 0 < int(key) <= len(columns) else None
    name = KEY_NAME.fullmatch(key)
    wanted = name[1].strip('"').upper() if name else ""
    places = [at for at, column in enumerate(columns) if column.name.upper() == wanted]
    return places[0] if len(places) == 1 else None
