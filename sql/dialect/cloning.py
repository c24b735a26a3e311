"""rule: the grammar of CLONE in CREATE SCHEMA and CREATE DATABASE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot.tokenizer_core import Token

from sql.dialect import operations, reading

MOMENTS = ("AT", "BEFORE")


def read_source(
    reader: reading.TokenReader, parse: Callable[[Sequence[Token]], Any]
) -> operations.CloneSource | None:
    """Return what CLONE names, if that word comes next.

    parse: raises SqlError for tokens of AT or BEFORE that are no clause of a table.
    """
    if not reader.accept("CLONE"):
        return None
    name = reader.name()
    moment = ""
    if reader.peek_word() in MOMENTS:
        start = reader.mark()
        reader.skip_one()
        depth = 0
        while not reader.is_at_end:
            depth += {"(": 1, ")": -1}.get(reader.peek_text(), 0)
            reader.skip_one()
            if depth <= 0:
                break
        tokens = reader.between(start, reader.mark())
        parse(tokens)
        moment = reader.text[tokens[0].start : tokens[-1].end + 1]
    ignores = reader.accept("IGNORE", "TABLES", "WITH", "INSUFFICIENT", "DATA", "RETENTION")
    return operations.CloneSource(name=name, moment=moment, ignores_expired=ignores)
