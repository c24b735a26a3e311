"""rule: what tables have loaded, as INFORMATION_SCHEMA.LOAD_HISTORY lists it.

COPY keeps its answer, a row for each file, in the summary of its snapshot. Of loads without one
(their snapshot has expired, they had too many files, or the pipeline made them) the record of loads
has the source and the time alone.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog import idents, records

ANSWER: Final = "boathouse.copy"
"""Key of a snapshot's summary: what COPY answered, for a repeated request and for the history."""

HISTORY_MAX: Final = 10_000
"""The most rows of the history, the newest ones, as in Snowflake."""

STATUS_LOADED: Final = "LOADED"


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedFile:
    """A file that a table has loaded, or tried to load. None stands for what is not kept.

    ident: the table's, as the session names it. error: COPY's first one in the file.
    """

    ident: idents.TableIdent
    file: str
    loaded_at_ms: int
    status: str = STATUS_LOADED
    rows: int | None = None
    rows_parsed: int | None = None
    error_limit: int | None = None
    errors: int | None = None
    error: str | None = None
    error_line: int | None = None
    error_character: int | None = None
    error_column: str | None = None


def of_snapshots(
    ident: idents.TableIdent, snapshots: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[int, list[LoadedFile]]]:
    """Yield the snapshots of a table that a COPY made and answered, and the files of each."""
    for snapshot in snapshots:
        answer = _answer_of(snapshot)
        if answer is not None:
            loaded_at_ms = int(snapshot.get("timestamp-ms", 0))
            loads = [_load(ident, row, loaded_at_ms) for row in answer]
            yield snapshot["snapshot-id"], loads


def _answer_of(snapshot: Mapping[str, Any]) -> list[list[Any]] | None:
    """Return COPY's answer in a snapshot's summary, None if there is none that COPY wrote."""
    try:
        answer = json.loads((snapshot.get("summary") or {})[ANSWER])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    is_answer = isinstance(answer, list) and all(_is_row(row) for row in answer)
    return answer if is_answer else None


def _is_row(row: Any) -> bool:
    """Return whether a row is one of COPY's answer: any writer may write a summary."""
    if not isinstance(row, list) or len(row) != len(ROW_TYPES):
        return False
    return all(isinstance(cell, allowed) for cell, allowed in zip(row, ROW_TYPES, strict=True))


WHOLE, WORDS = (int, type(None)), (str, type(None))
ROW_TYPES: Final[tuple[Any, ...]] = (
    str,
    str,
    WHOLE,
    WHOLE,
    WHOLE,
    WHOLE,
    WORDS,
    WHOLE,
    WHOLE,
    WORDS,
)


def _load(ident: idents.TableIdent, row: Sequence[Any], loaded_at_ms: int) -> LoadedFile:
    return LoadedFile(
        ident=ident,
        loaded_at_ms=loaded_at_ms,
        file=row[0],
        status=row[1],
        rows_parsed=row[2],
        rows=row[3],
        error_limit=row[4],
        errors=row[5],
        error=row[6],
        error_line=row[7],
        error_character=row[8],
        error_column=row[9],
    )


def of_rows(
    ident: idents.TableIdent, rows: Iterable[records.LoadRow], *, without: frozenset[int]
) -> Iterator[LoadedFile]:
    """Yield the recorded loads of a table, those of the snapshots in without left out."""
    for row in rows:
        if row.snapshot_id not in without:
            yield LoadedFile(ident=ident, file=row.source, loaded_at_ms=row.taken_at_ms)


def newest(loads: Iterable[LoadedFile]) -> list[LoadedFile]:
    """Return the newest loads, HISTORY_MAX at most."""
    return heapq.nlargest(HISTORY_MAX, loads, key=lambda load: load.loaded_at_ms)
