"""rule: the statements about other statements that drivers write by themselves, and a wait.

`select * from table(result_scan('<id>'))` is how one driver fetches what another request computed;
`select system$cancel_query('<id>')` and `system$cancel_all_queries(<session>)` end what runs. They
concern what lives between requests, so `sql.queries` answers them. `select system$wait(5)`, or CALL
of it, does nothing for so long, and needs no engine. Only exactly these texts are taken; inside any
larger statement the same functions are the dialect's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from sql import limits

_ID = r"'([0-9a-fA-F-]{36})'"
_RESULT_SCAN = re.compile(
    rf"select\s+\*\s+from\s+table\s*\(\s*result_scan\s*\(\s*{_ID}\s*\)\s*\)", re.IGNORECASE
)
_CANCEL_QUERY = re.compile(rf"select\s+(system\$cancel_query\s*\(\s*{_ID}\s*\))", re.IGNORECASE)
_CANCEL_ALL = re.compile(
    r"select\s+(system\$cancel_all_queries\s*\(\s*'?(\d{1,19})'?\s*\))", re.IGNORECASE
)


_WAIT = re.compile(
    r"(?:select|call)\s+(system\$wait\s*\(\s*(\d{1,9})\s*(?:,\s*'?([a-z]+)'?\s*)?\))", re.IGNORECASE
)
WAITS_MS = {
    "DAYS": 86_400_000,
    "HOURS": 3_600_000,
    "MINUTES": 60_000,
    "SECONDS": 1_000,
    "MILLISECONDS": 1,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultScan:
    """The whole result of another query."""

    query_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CancelQuery:
    """End one query. column_name: the expression, as the answer's column is called."""

    query_id: str
    column_name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CancelAll:
    """End every query of a session."""

    session_id: int
    column_name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """Do nothing for a time. answer: what the statement returns."""

    milliseconds: int
    answer: str
    column_name: str


Control: TypeAlias = ResultScan | CancelQuery | CancelAll | Wait


def parse(text: str) -> Control | None:
    """Return what a text asks about other statements, or None when it is any other text."""
    if len(text) > limits.CONTROL_LENGTH_MAX:
        return None
    plain = text.strip().rstrip(";").rstrip()
    if match := _RESULT_SCAN.fullmatch(plain):
        return ResultScan(query_id=match[1].lower())
    if match := _CANCEL_QUERY.fullmatch(plain):
        return CancelQuery(query_id=match[2].lower(), column_name=match[1].upper())
    if match := _CANCEL_ALL.fullmatch(plain):
        return CancelAll(session_id=int(match[2]), column_name=match[1].upper())
    match = _WAIT.fullmatch(plain)
    if match is not None and (match[3] or "SECONDS").upper() in WAITS_MS:
        unit = (match[3] or "SECONDS").upper()
        return Wait(
            milliseconds=int(match[2]) * WAITS_MS[unit],
            answer=f"waited {int(match[2])} {unit.lower()}",
            column_name=match[1].upper(),
        )
    return None
