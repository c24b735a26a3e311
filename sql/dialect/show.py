"""rule: the grammar of SHOW and DESCRIBE.

Comments may stand anywhere (the tokenizer drops them); TERSE, HISTORY, LIKE, IN, STARTS WITH and
LIMIT ... FROM come in Snowflake's order. Kinds that Boathouse cannot answer are refused by name.
"""

from __future__ import annotations

from typing import Literal

from sql import errors
from sql.dialect import names, operations, reading

KINDS = (
    ("DATABASES",),
    ("SCHEMAS",),
    ("OBJECTS",),
    ("TABLES",),
    ("ICEBERG", "TABLES"),
    ("VIEWS",),
    ("COLUMNS",),
    ("PARAMETERS",),
    ("VARIABLES",),
    ("WAREHOUSES",),
    ("ROLES",),
    ("USERS",),
    ("PRIMARY", "KEYS"),
    ("UNIQUE", "KEYS"),
    ("IMPORTED", "KEYS"),
    ("EXPORTED", "KEYS"),
    ("USER", "FUNCTIONS"),
    ("FUNCTIONS",),
    ("PROCEDURES",),
    ("USER", "PROCEDURES"),
    ("SEQUENCES",),
    ("STAGES",),
    ("INDEXES",),
)

SHOWN_AS = {
    "ICEBERG TABLES": "TABLES",
    "USER FUNCTIONS": "FUNCTIONS",
    "USER PROCEDURES": "PROCEDURES",
}

ANSWERED = frozenset(
    {
        "DATABASES",
        "SCHEMAS",
        "OBJECTS",
        "TABLES",
        "VIEWS",
        "COLUMNS",
        "PARAMETERS",
        "VARIABLES",
        "WAREHOUSES",
        "PRIMARY KEYS",
        "UNIQUE KEYS",
        "IMPORTED KEYS",
        "EXPORTED KEYS",
        "FUNCTIONS",
        "PROCEDURES",
        "SEQUENCES",
        "INDEXES",
    }
)

SCOPES: tuple[Literal["database", "schema", "table"], ...] = ("database", "schema", "table")


def read_show(reader: reading.Reader) -> operations.Show:
    """Return the SHOW statement that begins here."""
    reader.expect("SHOW")
    terse = reader.accept("TERSE")
    kind = next((" ".join(words) for words in KINDS if reader.accept(*words)), None)
    if kind is None:
        raise errors.unsupported(f"SHOW {reader.peek_word()}".rstrip())
    kind = SHOWN_AS.get(kind, kind)
    if kind not in ANSWERED:
        raise errors.unsupported(f"SHOW {kind}")
    history = reader.accept("HISTORY")
    like = reader.string() if reader.accept("LIKE") else None
    scope_kind, scope = _read_scope(reader)
    if like is None and reader.accept("LIKE"):
        like = reader.string()
    starts_with = reader.string() if reader.accept("STARTS", "WITH") else None
    limit = limit_from = None
    if reader.accept("LIMIT"):
        limit = reader.number()
        limit_from = reader.string() if reader.accept("FROM") else None
    reader.finish()
    return operations.Show(
        kind=kind,
        terse=terse,
        history=history,
        like=like,
        scope_kind=scope_kind,
        scope=scope,
        starts_with=starts_with,
        limit=limit,
        limit_from=limit_from,
    )


def _read_scope(
    reader: reading.Reader,
) -> tuple[Literal["", "account", "database", "schema", "table", "session", "name"], names.Name]:
    if not (reader.accept("IN") or reader.accept("FOR")):
        return "", ()
    if reader.accept("ACCOUNT"):
        return "account", ()
    if reader.accept("SESSION"):
        return "session", ()
    for word in SCOPES:
        if reader.accept(word) or (word == "table" and reader.accept("VIEW")):
            bare = reader.is_finished or reader.peek_word() in ("STARTS", "LIMIT", "LIKE")
            return word, () if bare else reader.name()
    return "name", reader.name()


def read_describe(reader: reading.Reader) -> operations.Describe:
    """Return the DESCRIBE statement that begins here."""
    _ = reader.accept("DESCRIBE") or reader.accept("DESC")
    reader.accept("ICEBERG")
    for word, kind in DESCRIBED:
        if reader.accept(word):
            name = reader.name()
            if reader.accept("TYPE"):
                reader.expect("=")
                if not reader.accept("COLUMNS"):
                    raise errors.unsupported(f"DESCRIBE ... TYPE = {reader.peek_word()}")
            reader.finish()
            return operations.Describe(kind=kind, name=name)
    if reader.peek_word() in REFUSED:
        raise errors.unsupported(f"DESCRIBE {reader.peek_word()}")
    name = reader.name()
    reader.finish()
    return operations.Describe(kind="table", name=name)


DESCRIBED: tuple[tuple[str, Literal["table", "view", "schema", "database"]], ...] = (
    ("TABLE", "table"),
    ("VIEW", "view"),
    ("SCHEMA", "schema"),
    ("DATABASE", "database"),
)

REFUSED = reading.words("FUNCTION PROCEDURE STAGE USER RESULT TASK STREAM PIPE SEQUENCE FILE")
